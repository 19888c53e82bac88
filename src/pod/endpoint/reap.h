/* SPDX-License-Identifier: Apache-2.0 */
/* src/pod/endpoint/reap.h - addresses whose container disappeared without DEL: the runtime's state
 * was lost, or the node rebooted. The agent calls this. The CNI verb GC knows more, but few
 * runtimes call it. */
#ifndef MK_POD_ENDPOINT_REAP_H
#define MK_POD_ENDPOINT_REAP_H

#include "base/error.h"
#include "pod/endpoint/endpoint.h"

/* Release every address whose owner has lost its network namespace and the host's end of its
 * veth pair. If in doubt, keep it: this mount namespace may never have shown the path. Also run
 * mk_cni_sweep(). While an ADD is running, owners are not checked. Do not call it with the
 * datapath lock held: it may then release nothing. Returns the number of addresses released,
 * and logs each. */
mk_must_check int mk_cni_reap(const char *state_dir, const char *bpf_dir, const char *veth_prefix,
			      struct mk_error *err);

/* The second half of mk_cni_reap(), for GC: release addresses whose file names no owner and that
 * no live device has. Reserve addresses of live devices that have no file. Remove table entries
 * of addresses that no pod has, and host ports of pods that are gone. Returns the number of
 * addresses released. */
mk_must_check int mk_cni_sweep(struct mk_cni_node *node, struct mk_error *err);

#endif
