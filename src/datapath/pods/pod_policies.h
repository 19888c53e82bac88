/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/pods/pod_policies.h - maps `pod_policies` and `policy_state`: which sets of policies
 * apply to a pod of this node. CNI ADD and DEL write a pod's entry, and the agent restores lost
 * entries. Later changes are src/datapath/policy's. The page: README.md in this folder. */
#ifndef MK_DATAPATH_PODS_POD_POLICIES_H
#define MK_DATAPATH_PODS_POD_POLICIES_H

#include "datapath/pods/pod_table.h"

/* The tables of all families, by mk_family_index(). One without a name is not pinned, or a version
 * without policies made the family's tables: then nothing applies to its pods. */
struct mk_pod_policies {
	struct mk_table pods[MK_FAMILIES], state[MK_FAMILIES];
};

/* Open what is pinned below @bpf_dir; nothing is no error. */
mk_must_check int mk_pod_policies_open(struct mk_pod_policies *policies, const char *bpf_dir,
				       struct mk_error *err);
void mk_pod_policies_close(struct mk_pod_policies *policies);

/* Functions with an address use the tables of its family; without these they do nothing. */

/* Read the sets of the pod with @addr on @ifindex. -ENOENT: it has no entry. */
mk_must_check int mk_pod_policies_get(const struct mk_pod_policies *policies,
				      const struct mk_addr *addr, uint32_t ifindex,
				      uint64_t sets[MK_POLICY_DIRECTIONS], struct mk_error *err);
/* Write them, for a pod without an entry: programs take it for pending meanwhile. The slot's
 * generation grows, so sessions of its former pod are evaluated again. */
mk_must_check int mk_pod_policies_put(const struct mk_pod_policies *policies,
				      const struct mk_addr *addr, uint32_t ifindex,
				      const uint64_t sets[MK_POLICY_DIRECTIONS],
				      struct mk_error *err);

/* Do programs evaluate policies? 1, 0 or an error. */
mk_must_check int mk_pod_policies_on(const struct mk_pod_policies *policies, sa_family_t family,
				     struct mk_error *err);

/* What the tables say about a new Pod. */

struct mk_pod_identity {
	const char *namespace_, *name; /* "": a container of no Pod */
	const char *uid; /* "": the runtime gave none */
};
/* Get its sets in @family. Returns 1; 0: not known, and all of @sets are MK_SET_PENDING; or an
 * error. */
mk_must_check int mk_pod_policies_expect(const char *bpf_dir, sa_family_t family,
					 const struct mk_pod_identity *pod,
					 uint64_t sets[MK_POLICY_DIRECTIONS], struct mk_error *err);

#endif
