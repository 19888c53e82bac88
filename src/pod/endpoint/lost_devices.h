/* SPDX-License-Identifier: Apache-2.0 */
/* src/pod/endpoint/lost_devices.h - pods whose device has been deleted. The agent can only report
 * them: a new device would have to be set up inside the pod's namespace, which the agent may not
 * enter. */
#ifndef MK_POD_ENDPOINT_LOST_DEVICES_H
#define MK_POD_ENDPOINT_LOST_DEVICES_H

#include "monokube/abi.h"
#include "base/error.h"
#include "base/ip.h"
#include "pod/ipam/ipam.h"

/* Visit every pod that has its entry in map pods and its network namespace, but no device. Cheap if
 * no device is missing: no address file is read. Returns the number of such pods, or -EWOULDBLOCK
 * while an ADD or DEL is running. */
mk_must_check int mk_cni_each_lost_pod(const char *state_dir, const char *bpf_dir,
				       void (*visit)(void *ctx, const struct mk_ip *ip,
						     const struct mk_pod *entry,
						     const struct mk_ipam_owner *owner),
				       void *ctx, struct mk_error *err);

#endif
