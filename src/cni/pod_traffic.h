/* SPDX-License-Identifier: Apache-2.0 */
/* src/cni/pod_traffic.h - what pods have sent, of all pods there ever were since the node's boot. The
 * kernel counts per device, so that the programs need not; a device takes its counts along, so whoever
 * removes one keeps them (map pods_gone). Lost is what a device had sent that the kernel itself took
 * away, with its network namespace, and no DEL followed or preceded. */
#ifndef MK_CNI_POD_TRAFFIC_H
#define MK_CNI_POD_TRAFFIC_H

#include "monokube/abi.h"
#include "base/netlink.h"

/* Remove the host's end of a pod, and keep what it has counted. -ENODEV: no such device. */
mk_must_check int mk_pod_device_remove(struct mk_nl *nl, const char *bpf_dir,
				       const struct mk_link *link, struct mk_error *err);

/* -ENOENT: the datapath is not loaded. */
mk_must_check int mk_pod_traffic_read(struct mk_nl *nl, const char *bpf_dir,
				      const char *veth_prefix, struct mk_pod_traffic *traffic,
				      struct mk_error *err);

#endif
