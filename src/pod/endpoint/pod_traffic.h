/* SPDX-License-Identifier: Apache-2.0 */
/* src/pod/endpoint/pod_traffic.h - the traffic that all pods have sent since the node's boot. The
 * kernel counts per device, so the programs need not count. A device's counts disappear with it, so
 * the code that removes a device adds them to map pods_gone. Counts are lost if the kernel removes
 * a device together with its network namespace, unless DEL removed the device first. */
#ifndef MK_POD_ENDPOINT_POD_TRAFFIC_H
#define MK_POD_ENDPOINT_POD_TRAFFIC_H

#include "monokube/abi.h"
#include "base/netlink/netlink.h"

/* Remove the host's end of a pod and save its counts. -ENODEV: no such device. */
mk_must_check int mk_pod_device_remove(struct mk_nl *nl, const char *bpf_dir,
				       const struct mk_link *link, struct mk_error *err);

/* Read the sum over current and removed devices. -ENOENT: the datapath is not loaded. */
mk_must_check int mk_pod_traffic_read(struct mk_nl *nl, const char *bpf_dir,
				      const char *veth_prefix, struct mk_pod_traffic *traffic,
				      struct mk_error *err);

#endif
