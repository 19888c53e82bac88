/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/model/policy.h - the objects behind network policies: Pods, Namespaces,
 * NetworkPolicies and ClusterNetworkPolicies, with only the fields that monokube uses. What an
 * object says is in test/policy/README.md, by number of rule.
 *
 * Sources: k8s.io/api/networking/v1 types.go; sigs.k8s.io/network-policy-api v1beta1. */
#ifndef MK_CLUSTER_MODEL_POLICY_H
#define MK_CLUSTER_MODEL_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monokube/abi.h"
#include "base/ip.h"

/* Keys and values of labels, and the names in selectors, are stored once in the model: equal texts
 * have equal pointers, and so have equal sets of labels. They are valid while an object of the
 * model has them. */
struct mk_object_label {
	const char *key, *value;
};
/* Packed: four bytes of a pod may follow without padding. */
struct mk_packed mk_labels {
	const struct mk_object_label *of; /* sorted by key text; NULL: none */
	uint32_t count;
};

enum mk_operator {
	MK_OPERATOR_IN,
	MK_OPERATOR_NOT_IN,
	MK_OPERATOR_EXISTS,
	MK_OPERATOR_DOES_NOT_EXIST,
};
struct mk_requirement {
	const char *key;
	enum mk_operator op;
	bool is_label; /* of matchLabels: one value, with MK_OPERATOR_IN */
	const char **values; /* of a label in the same block of memory as the requirements */
	size_t value_count;
};
struct mk_selector {
	struct mk_requirement *requirements; /* all must hold; none: everything matches */
	size_t count;
};
bool mk_selector_matches(const struct mk_selector *selector, const struct mk_labels *labels);

struct mk_named_port {
	const char *name; /* a text of the model */
	uint8_t proto; /* IPPROTO_* */
	uint16_t port; /* host order */
};

/* The pods of one workload have this in common. Equal content has equal pointers. */
struct mk_workload {
	const char *namespace_; /* a text of the model */
	/* Of containers and restartable init containers, sorted by name, proto, port; NULL: none.
	 * Equal lists have equal pointers. */
	const struct mk_named_port *ports;
	struct mk_labels labels;
	uint32_t port_count;
};
_Static_assert(sizeof(struct mk_workload) == 32, "all bytes count, without padding");

/* Only pods of this node and function pods keep this. */
struct mk_pod_bound {
	const char *node_name; /* a text of the model; NULL: not bound yet */
	/* metadata.uid, which the API server chooses; behind @uid. "": none */
	const char *object_uid;
	/* As a runtime gives it; "": none. A static pod's is kubernetes.io/config.hash, which any
	 * Pod may have: it means nothing without the pod's name. */
	char uid[];
};

struct mk_pod_object {
	uint32_t started_unix_s; /* status.startTime, or else creationTimestamp */
	struct in_addr ip4; /* all zeros: none (yet); see mk_pod_ip() */
	const struct mk_workload *of;
	/* NULL: the pod is another node's (mk_model_set_node()) and of no function (chain.h). */
	struct mk_pod_bound *bound;
	struct in6_addr ip6;
	bool host_network : 1, finished : 1, terminating : 1; /* finished: Succeeded or Failed */
	/* Only of function pods (chain.h). */
	bool ready : 1, asks_for_ports : 1, is_tap : 1, is_end : 1;
	uint8_t weight; /* MK_FUNCTION_WEIGHT_WRONG: the annotation makes no sense */
	char name[]; /* not of the content before a change */
};
_Static_assert(offsetof(struct mk_pod_object, name) == 42, "a cluster has a hundred thousand");

/* Return the pod's UID; NULL: it has none, or is another node's. */
static inline const char *mk_pod_uid(const struct mk_pod_object *pod)
{
	return pod->bound && *pod->bound->uid ? pod->bound->uid : NULL;
}

/* Return the node's name; NULL: the pod is not bound yet, or is another node's. */
static inline const char *mk_pod_node(const struct mk_pod_object *pod)
{
	return pod->bound ? pod->bound->node_name : NULL;
}

/* Return the address of family mk_family_index(); AF_UNSPEC: none (yet). */
static inline struct mk_ip mk_pod_ip(const struct mk_pod_object *pod, size_t family)
{
	struct mk_ip ip = { .family = AF_UNSPEC };

	if (family == mk_family_index(AF_INET) && pod->ip4.s_addr) {
		ip.family = AF_INET;
		ip.v4 = pod->ip4;
	} else if (family == mk_family_index(AF_INET6) && !IN6_IS_ADDR_UNSPECIFIED(&pod->ip6)) {
		ip.family = AF_INET6;
		ip.v6 = pod->ip6;
	}
	return ip;
}

struct mk_namespace_object {
	char *name;
	struct mk_labels labels; /* with kubernetes.io/metadata.name */
};

enum mk_policy_peer_kind {
	MK_PEER_SELECTORS, /* pods by their labels and those of their namespaces */
	MK_PEER_BLOCK, /* addresses */
	MK_PEER_NODES, /* ClusterNetworkPolicy: addresses of nodes, by the nodes' labels */
	MK_PEER_DOMAINS, /* ClusterNetworkPolicy: an Accept's domainNames, no match yet (rule 58) */
	MK_PEER_OUTSIDE, /* ServiceFunctionChain: addresses outside the pods' ranges */
	/* NetworkPolicy: matches nothing. ClusterNetworkPolicy: the rule fails closed, an Accept
	 * matches nothing, a Deny or Pass denies everything (rule 54). */
	MK_PEER_INVALID,
};
/* One entry of from or to. A ClusterNetworkPolicy has an entry for each network. */
struct mk_policy_peer_object {
	enum mk_policy_peer_kind kind : 8;
	bool has_namespaces; /* false: the namespace of the policy */
	uint32_t except_count; /* MK_PEER_BLOCK */
	union {
		struct { /* MK_PEER_BLOCK */
			struct mk_cidr cidr; /* network address */
			struct mk_cidr *except;
		};
		struct { /* all other kinds */
			struct mk_selector namespaces;
			struct mk_selector pods; /* none means all; MK_PEER_NODES: the nodes */
		};
	};
};

/* One entry of ports or protocols. */
struct mk_policy_port_object {
	bool valid; /* false: as MK_PEER_INVALID */
	uint8_t proto; /* IPPROTO_*; MK_PROTO_ANY: with a name that stands for any protocol */
	uint16_t first, last; /* host order, inclusive; 0 to 65535: all */
	const char *name; /* of a named port of the destination; NULL: by number */
};

struct mk_policy_rule_object {
	char *name; /* of a ClusterNetworkPolicy; may be NULL */
	/* Empty: all match. A list with only invalid entries matches nothing. */
	struct mk_policy_peer_object *peers;
	struct mk_policy_port_object *ports;
	uint32_t peer_count, port_count;
	enum mk_policy_action action; /* MK_POLICY_ACCEPT in NetworkPolicies */
};
/* With malloc's 8 bytes, one of either takes 48 and two take 96. */
_Static_assert(sizeof(struct mk_policy_peer_object) == 40, "a cluster has thousands of policies");
_Static_assert(sizeof(struct mk_policy_rule_object) == 40, "a cluster has thousands of policies");

struct mk_policy_rules {
	struct mk_policy_rule_object *of;
	size_t count;
};

/* On a policy of either kind. "audit": what the policy forbids is reported, and passes. "enforce"
 * and absent: it is enforced. Any other value is logged, and the policy is enforced. */
#define MK_POLICY_MODE_ANNOTATION "monokube.io/policy-mode"

struct mk_network_policy {
	char *namespace_, *name;
	struct mk_selector pods;
	bool applies[MK_POLICY_DIRECTIONS]; /* policyTypes */
	bool audited; /* MK_POLICY_MODE_ANNOTATION is "audit" */
	struct mk_policy_rules rules[MK_POLICY_DIRECTIONS];
	char *passed_over; /* invalid entries, with reasons; NULL: none */
};

struct mk_cluster_policy {
	char *name;
	enum mk_policy_tier tier; /* MK_TIER_ADMIN or MK_TIER_BASELINE */
	int priority; /* the lower one first */
	bool audited;
	/* The subject: pods with @pods in namespaces with @namespaces. */
	struct mk_selector namespaces, pods;
	struct mk_policy_rules rules[MK_POLICY_DIRECTIONS];
	char *passed_over;
};

struct mk_model;

/* NULL: no such object. */
const struct mk_pod_object *mk_model_pod(const struct mk_model *model, const char *namespace_,
					 const char *name);
const struct mk_namespace_object *mk_model_namespace(const struct mk_model *model,
						     const char *name);
const struct mk_network_policy *mk_model_network_policy(const struct mk_model *model,
							const char *namespace_, const char *name);
const struct mk_cluster_policy *mk_model_cluster_policy(const struct mk_model *model,
							const char *name);

#endif
