/* SPDX-License-Identifier: Apache-2.0 */
/* src/pod/endpoint/restore.h - what the agent repairs or reports: removed entries of maps pods and
 * host_ports, deleted devices, addresses whose container disappeared. */
#ifndef MK_POD_ENDPOINT_RESTORE_H
#define MK_POD_ENDPOINT_RESTORE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "monokube/abi.h"
#include "base/ip.h"
#include "pod/ipam/ipam.h"
#include "pod/endpoint/endpoint.h"

/* Restore the entry of every allocated address whose pod has the host's end of its veth pair, and
 * its sets in map pod_policies: those that ADD would find, without waiting. Cheap if nothing is
 * missing: no address file is read. While an ADD or DEL is running, do nothing.
 *
 * Set *@in_vain if entries are missing but none could be restored. Either the device is missing
 * too, which the reaper handles, or another pod has the slot in map pods, which the log says.
 * Returns the number of entries restored, and logs each. */
mk_must_check int mk_cni_restore(const char *state_dir, const char *bpf_dir,
				 const char *veth_prefix, bool *in_vain, struct mk_error *err);

/* Restore the entries in map host_ports of every pod that has a device, from its address file. Then
 * tell the programs whether the map has entries. While an ADD or DEL is running, do nothing.
 *
 * Cheap if nothing is missing. Address files are read only if there are fewer entries than *@known
 * (SIZE_MAX at first), or if the programs' flag contradicts the map. Returns the number of entries
 * restored, and logs them by pod. */
mk_must_check int mk_cni_restore_host_ports(const char *state_dir, const char *bpf_dir,
					    size_t *known, struct mk_error *err);

/* Pods whose device has been deleted. The agent can only report them: a new device would have to
 * be set up inside the pod's namespace, which the agent may not enter. */

/* Visit every pod that has its entry in map pods and its network namespace, but no device. Cheap if
 * no device is missing: no address file is read. Returns the number of such pods, or -EWOULDBLOCK
 * while an ADD or DEL is running. */
mk_must_check int mk_cni_each_lost_pod(const char *state_dir, const char *bpf_dir,
				       void (*visit)(void *ctx, const struct mk_ip *ip,
						     const struct mk_pod *entry,
						     const struct mk_ipam_owner *owner),
				       void *ctx, struct mk_error *err);

/* Visit every sandbox of this node, by its address files, as they are now: no lock is taken. The
 * second address is owner->second. @ifindex is that of the host's end; 0: ADD has not made the
 * entry in map pods yet, or it was lost, so look again. A container of no Pod and a further
 * interface have no owner->namespace_: policies do not cover them. */
typedef int mk_cni_sandbox_fn(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner,
			      int ifindex);
mk_must_check int mk_cni_each_sandbox(const char *state_dir, const char *bpf_dir,
				      mk_cni_sandbox_fn *visit, void *ctx, struct mk_error *err);

/* Addresses whose container disappeared without DEL: the runtime's state was lost, or the node
 * rebooted. The agent calls this. The CNI verb GC knows more, but few runtimes call it. */

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
