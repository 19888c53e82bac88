/* SPDX-License-Identifier: Apache-2.0 */
/* src/cni/reap.h - addresses whose container is gone although no DEL came (the runtime's state was
 * lost, the node was rebooted). For the agent; the CNI verb GC knows better, but few runtimes call
 * it. */
#ifndef MK_CNI_REAP_H
#define MK_CNI_REAP_H

#include "base/error.h"
#include "cni/endpoint.h"

/* Release every address whose owner has neither its network namespace nor the host's end of its
 * veth pair any more. Kept in doubt: a path that this mount namespace may never have shown. Table
 * entries of addresses that nobody has go too, and host ports of pods that are gone. While an ADD is under way nothing is
 * released by the first rule, and nothing at all may be by a caller that holds the datapath lock
 * itself. Returns the number of addresses released; logs each. */
mk_must_check int mk_cni_reap(const char *state_dir, const char *bpf_dir, const char *veth_prefix,
			      struct mk_error *err);

/* The second half of it, for GC: release addresses whose file lost its owner and that no live
 * device has, hold those of live devices that have no file, remove table entries of addresses that nobody has, and host ports of pods that are
 * gone. Returns how many addresses. */
mk_must_check int mk_cni_sweep(struct mk_cni_node *node, struct mk_error *err);

#endif
