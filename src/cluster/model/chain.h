/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/model/chain.h - the objects behind service function chains: ServiceFunctionChains of
 * networking.monokube.io/v1alpha1, and the Pods of their functions. What an object says is in
 * manifests/CHAINS.md. An object that makes no sense is refused as a whole, so its last good
 * version stays in force. */
#ifndef MK_CLUSTER_MODEL_CHAIN_H
#define MK_CLUSTER_MODEL_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monokube/sfc.h"
#include "cluster/model/policy.h"

/* On a Pod: the name of the function that it is a replica of. Names are DNS labels. */
#define MK_FUNCTION_LABEL "networking.monokube.io/function"
/* On the same Pod: how its ports work. Behind Multus, the definitions of the ports. */
#define MK_FUNCTION_PORTS_ANNOTATION "networking.monokube.io/function-ports"
#define MK_FUNCTION_PORTS_TAP	     "Tap" /* its value for a pod with one port, a tap */
#define MK_FUNCTION_PORTS_END	     "End" /* the same for an end of a chain */
#define MK_MULTUS_ANNOTATION	     "k8s.v1.cni.cncf.io/networks"
/* Its share of new flows, 0 to MK_FUNCTION_WEIGHT_MAX; 0 drains it. */
#define MK_FUNCTION_WEIGHT_ANNOTATION "networking.monokube.io/weight"
#define MK_FUNCTION_WEIGHT	      1 /* default */
#define MK_FUNCTION_WEIGHT_MAX	      100
#define MK_FUNCTION_WEIGHT_WRONG      255
/* On a Namespace: the namespace whose chains may take its pods. */
#define MK_CHAINED_BY_LABEL "networking.monokube.io/chained-by"

enum mk_chain_hash { MK_CHAIN_BY_FLOW, MK_CHAIN_BY_POD, MK_CHAIN_BY_PEER };

struct mk_chain_function {
	const char *name; /* a text of the model */
	bool is_tap; /* tap: true; then it skips, too */
	bool is_end; /* of spec.ends: its pods have mode End */
	bool skips; /* whenUnavailable: Skip */
	bool drops_lost; /* onLoss: Drop */
	uint8_t hash_by; /* enum mk_chain_hash */
	uint16_t local_weight; /* 1 to MK_SFC_LOCAL_WEIGHT_MAX */
};

struct mk_chain {
	char *namespace_, *name;
	char *uid; /* metadata.uid; of a file without one: "NAMESPACE/NAME" */
	int64_t created_unix_s; /* creationTimestamp; 0: none */
	/* The chained pods: those of the Service @service in the chain's own namespace, by its
	 * target ports (mk_chain_service()). NULL: those with @pods in the chain's own namespace,
	 * or if @has_namespaces, in namespaces with @namespaces that are its own or consent
	 * (MK_CHAINED_BY_LABEL). */
	const char *service; /* a text of the model */
	struct mk_selector namespaces, pods;
	struct mk_policy_rules rules; /* one, with the peers and ports; its action says nothing */
	/* [0] is next to the chained pod, or to the inside end. If @has_ends, the two ends follow,
	 * by enum mk_sfc_side (mk_chain_at()). */
	struct mk_chain_function *functions;
	uint16_t priority; /* the higher one first */
	uint8_t function_count; /* 1 to MK_SFC_FUNCTIONS, without ends */
	bool has_ends; /* spec.ends instead of spec.traffic: the chain takes no pod */
	bool has_namespaces;
	bool applies[MK_POLICY_DIRECTIONS]; /* EGRESS: flows that chained pods begin */
	bool leaves_open_flows; /* takeOpenFlows: false */
};

/* Functions and ends. */
static inline size_t mk_chain_length(const struct mk_chain *chain)
{
	return chain->function_count + (chain->has_ends ? MK_SFC_SIDES : 0U);
}

/* Return the one at @place, in the order from the inside to the outside, ends included. */
static inline const struct mk_chain_function *mk_chain_at(const struct mk_chain *chain,
							  size_t place)
{
	if (!chain->has_ends)
		return &chain->functions[place];
	if (place == 0)
		return &chain->functions[chain->function_count + MK_SFC_INSIDE];
	if (place > chain->function_count)
		return &chain->functions[chain->function_count + MK_SFC_OUTSIDE];
	return &chain->functions[place - 1];
}

/* What the Service of a chain gives it. */
enum mk_chain_service {
	MK_CHAIN_SERVICE_SELECTS, /* the selector's pods, by the target ports */
	MK_CHAIN_SERVICE_MISSING, /* there is no such Service; the others give no pod either */
	MK_CHAIN_SERVICE_NO_SELECTOR, /* or it is an ExternalName */
	MK_CHAIN_SERVICE_NO_PORTS,
};

/* A Pod with MK_FUNCTION_LABEL, of any node. The members belong to the model. */
struct mk_function_pod {
	const char *namespace_, *name, *function;
	const char *uid; /* metadata.uid, also of a static pod; NULL: a file gave none */
	const char *node_name; /* NULL: not bound yet */
	struct mk_ip ips[MK_FAMILIES]; /* by mk_family_index(); AF_UNSPEC: none (yet) */
	bool ready; /* condition Ready is True */
	bool deleting; /* it has a deletionTimestamp */
	bool finished; /* Succeeded or Failed */
	bool host_network; /* not a replica */
	bool asks_for_ports; /* it has MK_FUNCTION_PORTS_ANNOTATION or MK_MULTUS_ANNOTATION */
	bool is_tap, is_end; /* the first one of these says so */
	uint8_t weight; /* 0 to MK_FUNCTION_WEIGHT_MAX */
	bool weight_is_wrong; /* its annotation makes no sense, so the weight is the default */
};

/* The status of a chain, as every agent computes it. */
#define MK_CHAIN_MESSAGE_SIZE 1024
struct mk_chain_condition {
	bool holds;
	const char *reason; /* one word in CamelCase */
	char message[MK_CHAIN_MESSAGE_SIZE]; /* a sentence */
};
struct mk_chain_status {
	const char *namespace_, *name; /* of the chain */
	struct mk_chain_function_status {
		const char *name;
		unsigned int ready, total; /* function pods */
	} functions[MK_SFC_FUNCTIONS + MK_SFC_SIDES]; /* as mk_chain_at() */
	size_t function_count;
	struct mk_chain_condition accepted, ready;
};

struct mk_model;
struct mk_service_object;

/* Find the Service of @chain, which has one. *@service is set if it selects pods. */
enum mk_chain_service mk_chain_service(const struct mk_model *model, const struct mk_chain *chain,
				       const struct mk_service_object **service);
/* Has a chain this Service? */
bool mk_model_has_chain_of(const struct mk_model *model, const char *namespace_, const char *name);

/* Return how many function pods there are. */
size_t mk_model_function_pods(const struct mk_model *model);
/* Visit all, in no particular order. @visit must not change the model. */
void mk_model_each_function_pod(const struct mk_model *model,
				void (*visit)(void *ctx, const struct mk_function_pod *pod),
				void *ctx);

#endif
