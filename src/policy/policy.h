/* SPDX-License-Identifier: Apache-2.0 */
/* src/policy/policy.h - compile the cluster's policies and service function chains into the rows
 * of the policy tables, for the pods of this node. Pure: no I/O, no kernel, no globals. The rules:
 * test/policy/README.md.
 *
 * The result is a set of rows. Each call of mk_policies_compile() brings the rows up to date with
 * what changed in the model, and reports the difference. Rows of one set or table of ports never
 * change their meaning; a changed policy gives other sets. Only two kinds of rows change in place:
 * an identity, and the table that a set has for a class (a namespace's labels changed). Each of
 * them decides a flow alone, so each flow has its old or its new verdict. */
#ifndef MK_POLICY_POLICY_H
#define MK_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monokube/abi.h"
#include "base/error.h"
#include "base/ip.h"
#include "cluster/model/chain.h"
#include "cluster/model/model.h"
#include "cluster/model/policy.h"

/* A pod's sandbox on this node, from its address file. */
struct mk_policy_sandbox {
	char *uid; /* NULL: the runtime gave none */
	char *namespace_, *name; /* NULL: a container of no Pod, which policies do not select */
	struct mk_ip ips[MK_FAMILIES];
	int ifindex; /* the host's end */
};

struct mk_policy_view {
	const char *node_name;
	/* Key of the hash that names sets, classes and tables. It is secret, so that labels
	 * cannot be chosen to give two classes one name. */
	uint8_t hash_key[16];
	bool audit; /* all policies count as audited: nothing is dropped, and no pod is pending */
	/* Ranges of the pods' addresses: not outside, for a chain. AF_UNSPEC: none. */
	struct mk_cidr pod_ranges[MK_FAMILIES];
};

/* A chain and its key in map sfc_chains, which is not 0. */
struct mk_policy_chain {
	const struct mk_chain *chain;
	uint16_t id;
};

/* Addresses that nodes use inside the overlay (rule 15). */
struct mk_policy_node_address {
	struct mk_ip ip; /* VTEP or virtual pod address */
	struct mk_ip counts_as; /* the Node's first InternalIP of this family */
};

/* ---- rows ------------------------------------------------------------------------------------ */

struct mk_identity_row {
	struct mk_ip ip; /* key */
	struct mk_ip counts_as; /* AF_UNSPEC: itself */
	uint64_t class_id;
};
struct mk_peer_row {
	uint64_t set, peer; /* key */
	uint64_t table;
};
struct mk_block_row {
	uint64_t set; /* key */
	/* Key; network address. AF_UNSPEC with 0 bits: any address of both families. A set has
	 * either this row, or one row of 0 bits for each family. */
	struct mk_cidr block;
	uint64_t table;
};
struct mk_port_row {
	uint64_t table; /* key */
	uint8_t prefix_bits; /* key; without MK_POLICY_TABLE_BITS: 0, 8, or 8 and up to 16 */
	uint8_t proto; /* key */
	uint16_t port; /* key; host order, only the bits of the prefix */
	struct mk_policy_verdict verdict, audited; /* struct mk_policy_port */
	uint16_t chain, chain_rule; /* the first chain that takes such flows; 0: none */
};
/* The sets of a sandbox, or of a Pod that is bound to this node. */
struct mk_pod_row {
	const char *uid; /* key; NULL: none */
	const char *namespace_, *name; /* key */
	uint64_t set[MK_POLICY_DIRECTIONS];
};
struct mk_namespace_row {
	const char *name; /* key */
	uint32_t directions; /* struct mk_policy_namespace */
};

/* Rows to put (new, or with another value) and rows to remove (only keys count). */
#define MK_POLICY_ROW_LIST(type, member)      \
	struct {                              \
		struct type *put, *gone;      \
		size_t put_count, gone_count; \
	} member
struct mk_policy_changes {
	MK_POLICY_ROW_LIST(mk_identity_row, identities);
	MK_POLICY_ROW_LIST(mk_peer_row, peers);
	MK_POLICY_ROW_LIST(mk_block_row, blocks);
	MK_POLICY_ROW_LIST(mk_port_row, ports);
	MK_POLICY_ROW_LIST(mk_pod_row, pods);
	MK_POLICY_ROW_LIST(mk_namespace_row, namespaces);
};

/* ---- the compiler ---------------------------------------------------------------------------- */

struct mk_policies;

/* @model must outlive the result. NULL: error. */
mk_must_check struct mk_policies *mk_policies_new(const struct mk_model *model,
						  const struct mk_policy_view *view,
						  struct mk_error *err);
void mk_policies_free(struct mk_policies *policies);

/* Something changed, appeared or vanished: look at it in the next mk_policies_compile(). Out of
 * memory: everything is looked at. @what: MK_KIND_NAMESPACE, MK_KIND_NETWORK_POLICY,
 * MK_KIND_CLUSTER_POLICY or MK_KIND_NODE. */
void mk_policies_mark(struct mk_policies *policies, enum mk_kind what, const char *namespace_,
		      const char *name);
/* As mk_policies_mark() for a Pod. The compiler knows where Pods are in the model, so each change
 * of a Pod must come here at once (struct mk_model_listener). */
void mk_policies_pod_changed(struct mk_policies *policies, const struct mk_pod_object *pod,
			     const struct mk_pod_object *former);
/* Set all sandboxes of this node; copies them. They also are peers by their addresses (rule 44). A
 * sandbox whose Pod object is gone keeps the labels it had. */
mk_must_check int mk_policies_set_sandboxes(struct mk_policies *policies,
					    const struct mk_policy_sandbox *sandboxes, size_t count,
					    struct mk_error *err);
mk_must_check int mk_policies_set_nodes(struct mk_policies *policies,
					const struct mk_policy_node_address *addresses,
					size_t count, struct mk_error *err);

/* Set all chains whose entries are in map sfc_chains; copies them, and what the Services that they
 * name say in the model. Flows that no chain of these takes are in no chain. The same again changes
 * nothing. */
void mk_policies_set_chains(struct mk_policies *policies, const struct mk_policy_chain *chains,
			    size_t count);

/* What classes have besides what is in use: `keys` of the former agent's mk_policies_describe(),
 * until its sets are replaced. Classes then only become finer, never merge. */
mk_must_check int mk_policies_keep_keys(struct mk_policies *policies, const char *const *keys,
					size_t count, struct mk_error *err);
/* The former agent's sets, and all sets that no pod has now, are out of use: forget them,
 * and keys that no set names. Their rows are reported as gone by the next compile. */
void mk_policies_release(struct mk_policies *policies);

/* Bring the rows up to date. *@changes belongs to @policies and is valid until the next call. Rows
 * of a set that no pod has any more stay until mk_policies_release(), and also get new classes. On
 * an error nothing is lost: call again. */
mk_must_check int mk_policies_compile(struct mk_policies *policies,
				      const struct mk_policy_changes **changes,
				      struct mk_error *err);
/* All rows, as if all were new, for a comparison with the tables; valid until the next call. */
mk_must_check int mk_policies_all(struct mk_policies *policies,
				  const struct mk_policy_changes **changes, struct mk_error *err);

/* The changes have been written: free their lists, which are large after a start. */
void mk_policies_written(struct mk_policies *policies);

/* Which Pods does the compiler need? */
enum mk_policy_wants {
	MK_WANTS_NO_PODS, /* there are no policies and no chains */
	MK_WANTS_OWN_PODS, /* of this node */
	MK_WANTS_ALL_PODS, /* a set has selectors of peers */
};
/* Brings the compiler up to date. The changes stay for the next mk_policies_compile(). */
enum mk_policy_wants mk_policies_want(struct mk_policies *policies);

/* The rule that has @number in @set. Number 0: the policies that isolate; only @namespace_ then
 * says anything. The texts belong to @policies. Returns false if there is no such set or rule. */
struct mk_policy_rule_view {
	const char *namespace_, *policy; /* namespace_ is "" for ClusterNetworkPolicies */
	size_t index; /* in its policy */
};
bool mk_policies_rule(const struct mk_policies *policies, uint64_t set, uint16_t number,
		      struct mk_policy_rule_view *view);

struct mk_policy_figures {
	size_t sets, classes, isolated_pods, open_pods, policies;
	size_t audited_policies; /* among @policies */
	size_t audited_pods; /* among @isolated_pods: only audited policies apply to them */
	size_t chains;
	size_t chained_pods; /* a chain takes flows of them; @open_pods may be among these */
	bool holds; /* a policy is in force, or a chain that holds pods until they are known */
};
void mk_policies_figures(const struct mk_policies *policies, struct mk_policy_figures *figures);

/* Describe the sets in use for the command line: by number of rule the policy, the rule and what it
 * says. The caller releases it with json_object_put(). NULL: out of memory. The form is in
 * src/policy/README.md. */
json_object *mk_policies_describe(const struct mk_policies *policies);

#endif
