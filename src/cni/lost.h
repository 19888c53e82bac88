/* SPDX-License-Identifier: Apache-2.0 */
/* src/cni/lost.h - pods whose device somebody deleted. For the agent, which can tell and no more: a new one
 * would have to be set up inside the pod's namespace, which it may not enter. */
#ifndef MK_CNI_LOST_H
#define MK_CNI_LOST_H

#include "monokube/abi.h"
#include "base/error.h"
#include "base/ip.h"
#include "ipam/ipam.h"

/* Visit every pod that has its entry of map pods and its network namespace, but no device. Cheap where
 * there is none: no address file is read. Returns how many, or -EWOULDBLOCK while an ADD or DEL is
 * under way. */
mk_must_check int mk_cni_each_lost_pod(const char *state_dir, const char *bpf_dir,
				       void (*visit)(void *ctx, const struct mk_ip *ip,
						     const struct mk_pod *entry,
						     const struct mk_ipam_owner *owner),
				       void *ctx, struct mk_error *err);

#endif
