/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/policy/names.h - names of policies: the tables know sets and rules by number only.
 * The agent keeps a file in its state directory, for both families: what mk_policies_describe()
 * returns (src/policy/README.md). Commands read it, also while no agent runs. */
#ifndef MK_DATAPATH_POLICY_NAMES_H
#define MK_DATAPATH_POLICY_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json.h"

#define MK_POLICY_NAMES_FILE "policies.json"
/* The key of the hash that names sets (struct mk_policy_view). */
#define MK_POLICY_KEY_FILE "policy.key"

/* Replace the file by @description, unless it has this content. */
mk_must_check int mk_policy_names_write(const char *state_dir, json_object *description,
					struct mk_error *err);

struct mk_policy_names {
	json_object *root; /* NULL: there is no file */
};
/* Read the names; none if there is no file. -EPROTO: another version's. Call
 * mk_policy_names_release() in any case. */
mk_must_check int mk_policy_names_read(const char *state_dir, struct mk_policy_names *names,
				       struct mk_error *err);
void mk_policy_names_release(struct mk_policy_names *names);

/* The texts belong to @names. */
struct mk_policy_rule_name {
	uint16_t number; /* struct mk_policy_verdict */
	int index; /* in its policy, from 0 */
	const char *policy; /* "namespace/name", or the name of a ClusterNetworkPolicy */
	const char *name; /* NULL: none */
	const char *tier, *action, *peers, *ports; /* "admin", "network-policy", "baseline" */
};
/* Get rule @index of @set, in the order of asking; false: there is none. */
bool mk_policy_names_rule(const struct mk_policy_names *names, uint64_t set, size_t index,
			  struct mk_policy_rule_name *rule);
/* A chain that takes flows of the pods of a set. */
struct mk_policy_chain_name {
	uint16_t number; /* mk_policy_port.chain_rule */
	uint16_t id; /* its key in map sfc_chains */
	const char *chain, *peers, *ports; /* chain: "namespace/name" */
};
/* Get chain @index of @set, in the order of asking; false: there is none. */
bool mk_policy_names_chain(const struct mk_policy_names *names, uint64_t set, size_t index,
			   struct mk_policy_chain_name *chain);
/* Return the name of policy @index that selects the pods of @set; NULL: there is none. */
const char *mk_policy_names_policy(const struct mk_policy_names *names, uint64_t set, size_t index);
/* Is @policy, one of the set's, audited? */
bool mk_policy_names_audited(const struct mk_policy_names *names, uint64_t set, const char *policy);
/* A note names a part of a policy that has no effect. The texts belong to @names. Returns false if
 * there is no note @index. */
struct mk_policy_note {
	const char *policy, *says, *remedy;
};
bool mk_policy_names_note(const struct mk_policy_names *names, size_t index,
			  struct mk_policy_note *note);
/* Return the number of policies in the cluster, at the last change of one. */
size_t mk_policy_names_count(const struct mk_policy_names *names);
/* Return the name of policy @index that is audited by its annotation; NULL: there is none. */
const char *mk_policy_names_audit(const struct mk_policy_names *names, size_t index);
/* Is it a NetworkPolicy, not a ClusterNetworkPolicy? */
bool mk_policy_name_isolates(const char *policy);

#endif
