// SPDX-License-Identifier: Apache-2.0
/* ServiceFunctionChains. The schema of the resource refuses most mistakes, but a directory of files
 * has no schema. A chain is refused as a whole: one that is half understood would let traffic pass
 * by its functions. */
#include "base/json.h"
#include "cluster/model/chain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cluster/model/policy_object.h"

#define PRIORITY_MAX 1000
#define ENTRIES_MAX  16 /* peers, and ports */

/* ---- traffic --------------------------------------------------------------------------------- */

/* Read `outside: true`. *@found: the peer has it. */
static int decode_outside(const struct mk_json *item, struct mk_policy_peer_object *peer,
			  bool *found, struct mk_error *err)
{
	struct mk_json at;
	int ret = tree_member(item, "outside", json_type_boolean, &at, err);

	*found = ret == 0 && at.value;
	if (!*found)
		return ret;
	if (!json_object_get_boolean(at.value))
		return tree_wrong(&at, "true, or no field outside", err);
	if (json_object_object_length(item->value) > 1)
		return tree_wrong(item, "either outside, or ipBlock, or selectors", err);
	peer->kind = MK_PEER_OUTSIDE;
	return 0;
}

static int decode_peer(struct mk_texts *texts, const struct mk_json *item,
		       struct mk_policy_peer_object *peer, struct mk_error *err)
{
	bool outside = false;
	int ret = TREE_KNOWN(item, err, "outside", "ipBlock", "podSelector", "namespaceSelector");

	ret = ret ?: decode_outside(item, peer, &outside, err);
	if (ret < 0 || outside)
		return ret;
	return policy_peer_decode(texts, item, peer, err);
}

static int decode_peers(struct mk_texts *texts, const struct mk_json *traffic,
			struct mk_policy_rule_object *rule, struct mk_error *err)
{
	struct mk_json list, item;
	int ret = tree_list(traffic, "peers", ENTRIES_MAX, &list, err);

	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		struct mk_policy_peer_object *peer = policy_peer_add(rule, err);

		if (!peer)
			return -ENOMEM;
		ret = tree_item(&list, i, json_type_object, &item, err);
		ret = ret ?: decode_peer(texts, &item, peer, err);
	}
	return ret;
}

static int decode_ports(const struct mk_json *traffic, struct mk_policy_rule_object *rule,
			struct mk_error *err)
{
	struct mk_json list, item;
	int ret = tree_list(traffic, "ports", ENTRIES_MAX, &list, err);

	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		struct mk_policy_port_object *port = policy_port_add(rule, err);

		if (!port)
			return -ENOMEM;
		port->valid = true;
		ret = tree_item(&list, i, json_type_object, &item, err);
		ret = ret ?: TREE_KNOWN(&item, err, "protocol", "port", "endPort");
		ret = ret ?: tree_protocol(&item, &port->proto, err);
		ret = ret ?: policy_port_decode(&item, port, err);
	}
	return ret;
}

static int decode_direction(const struct mk_json *traffic, struct mk_chain *chain,
			    struct mk_error *err)
{
	static const char *const words[] = { "Egress", "Ingress", "Both" };
	size_t direction = MK_ARRAY_SIZE(words);
	int ret = tree_word(traffic, "direction", words, MK_ARRAY_SIZE(words),
			    "Egress, Ingress or Both", &direction, err);

	if (ret == 0 && direction == MK_ARRAY_SIZE(words))
		return tree_wrong(&(struct mk_json){ .parent = traffic, .key = "direction" },
				  "Egress, Ingress or Both", err);
	chain->applies[MK_POLICY_EGRESS] = direction != 1;
	chain->applies[MK_POLICY_INGRESS] = direction != 0;
	return ret;
}

/* Read the name of a Service, which says more than its pods: its ports, and so the direction. */
static int decode_service(struct mk_texts *texts, const struct mk_json *traffic,
			  struct mk_chain *chain, struct mk_error *err)
{
	static const char *const alternatives[] = { "podSelector", "namespaceSelector", "direction",
						    "ports" };
	struct mk_json at, other;
	int ret = tree_member(traffic, "service", json_type_string, &at, err);

	if (ret < 0 || !at.value)
		return ret;
	if (!mk_is_dns_label(mk_json_string(&at)))
		return tree_wrong(&at, MK_DNS_LABEL, err);
	for (size_t i = 0; i < MK_ARRAY_SIZE(alternatives); i++) {
		other = (struct mk_json){ .parent = traffic, .key = alternatives[i] };
		if (json_object_object_get_ex(traffic->value, other.key, &other.value) &&
		    other.value)
			return tree_wrong(&other, "no such field beside service", err);
	}
	chain->service = text_share(texts, mk_json_string(&at));
	chain->applies[MK_POLICY_INGRESS] = true;
	return chain->service ? 0 : mk_error_errno(err, ENOMEM, "name of a Service");
}

static int decode_selectors(struct mk_texts *texts, const struct mk_json *traffic,
			    struct mk_chain *chain, struct mk_error *err)
{
	struct mk_json pods, namespaces;
	int ret = tree_member(traffic, "podSelector", json_type_object, &pods, err);

	if (ret == 0 && !pods.value)
		return tree_wrong(&pods, "a selector, which may be empty, or service", err);
	ret = ret ?: tree_member(traffic, "namespaceSelector", json_type_object, &namespaces, err);
	if (ret < 0)
		return ret;
	chain->has_namespaces = namespaces.value;
	ret = selector_decode(texts, &pods, &chain->pods, err);
	return ret ?: selector_decode(texts, &namespaces, &chain->namespaces, err);
}

static int decode_traffic(struct mk_texts *texts, const struct mk_json *spec,
			  struct mk_chain *chain, struct mk_error *err)
{
	struct mk_json traffic;
	int ret = tree_member(spec, "traffic", json_type_object, &traffic, err);

	if (ret == 0 && chain->has_ends)
		return traffic.value ? tree_wrong(&traffic, "no such field beside ends", err) : 0;
	if (ret == 0 && !traffic.value)
		return tree_wrong(&traffic, "podSelector and direction, or service", err);
	ret = ret
		      ?: TREE_KNOWN(&traffic, err, "podSelector", "service", "namespaceSelector",
				    "direction", "peers", "ports");
	ret = ret ?: decode_service(texts, &traffic, chain, err);
	if (ret == 0 && !chain->service)
		ret = decode_selectors(texts, &traffic, chain, err)
			      ?: decode_direction(&traffic, chain, err);
	if (ret < 0)
		return ret;
	chain->rules.of = calloc(1, sizeof(*chain->rules.of));
	if (!chain->rules.of)
		return mk_error_errno(err, ENOMEM, "rule of a chain");
	chain->rules.count = 1;
	ret = decode_peers(texts, &traffic, chain->rules.of, err);
	return ret ?: decode_ports(&traffic, chain->rules.of, err);
}

/* ---- functions ------------------------------------------------------------------------------- */

/* Read member @key, the name of @function, which differs from the @count before it. */
static int decode_name(struct mk_texts *texts, const struct mk_json *item, const char *key,
		       const struct mk_chain *chain, size_t count,
		       struct mk_chain_function *function, struct mk_error *err)
{
	struct mk_json at;
	int ret = tree_member(item, key, json_type_string, &at, err);

	if (ret < 0)
		return ret;
	if (!at.value || !mk_is_dns_label(mk_json_string(&at)))
		return tree_wrong(&at, MK_DNS_LABEL, err);
	for (size_t i = 0; i < count; i++)
		if (strcmp(chain->functions[i].name, mk_json_string(&at)) == 0)
			return tree_wrong(&at, "each function once", err);
	function->name = text_share(texts, mk_json_string(&at));
	return function->name ? 0 : mk_error_errno(err, ENOMEM, "name of a function");
}

/* A tap is never unavailable, so nothing is to be said about that. */
static int decode_tap(const struct mk_json *item, bool has_ends, struct mk_chain_function *function,
		      struct mk_error *err)
{
	static const char *const excluded[] = { "whenUnavailable", "onLoss" };
	struct mk_json at;
	int ret = tree_bool(item, "tap", &function->is_tap, err);

	ret = ret ?: tree_member(item, "tap", json_type_boolean, &at, err);
	if (ret == 0 && function->is_tap && has_ends)
		return tree_wrong(&at, "no tap beside ends", err);
	for (size_t i = 0; ret == 0 && function->is_tap && i < MK_ARRAY_SIZE(excluded); i++) {
		ret = tree_member(item, excluded[i], json_type_string, &at, err);
		if (ret == 0 && at.value)
			return tree_wrong(&at, "no such field, because of tap: true", err);
	}
	return ret;
}

static int decode_function(struct mk_texts *texts, const struct mk_json *item,
			   const struct mk_chain *chain, struct mk_chain_function *function,
			   struct mk_error *err)
{
	static const char *const unavailable[] = { "Block", "Skip" };
	static const char *const loss[] = { "Rebalance", "Drop" };
	static const char *const hash[] = {
		[MK_CHAIN_BY_FLOW] = "Flow", [MK_CHAIN_BY_POD] = "Pod", [MK_CHAIN_BY_PEER] = "Peer"
	};
	size_t skips = 0, drops = 0, hash_by = MK_CHAIN_BY_FLOW;
	int64_t local_weight = MK_SFC_LOCAL_WEIGHT;
	int ret = TREE_KNOWN(item, err, "name", "whenUnavailable", "onLoss", "hashBy",
			     "localWeight", "tap");

	ret = ret ?: decode_tap(item, chain->has_ends, function, err);
	ret = ret
		      ?: tree_word(item, "whenUnavailable", unavailable, 2, "Block or Skip", &skips,
				   err);
	ret = ret ?: tree_word(item, "onLoss", loss, 2, "Rebalance or Drop", &drops, err);
	ret = ret ?: tree_word(item, "hashBy", hash, 3, "Flow, Pod or Peer", &hash_by, err);
	ret = ret
		      ?: tree_number(item, "localWeight", 1, MK_SFC_LOCAL_WEIGHT_MAX, &local_weight,
				     err);
	function->local_weight = chain->has_ends ? 1 : (uint16_t)local_weight;
	function->skips = skips || function->is_tap;
	function->drops_lost = drops;
	function->hash_by = (uint8_t)hash_by;
	return ret ?: decode_name(texts, item, "name", chain, chain->function_count, function, err);
}

/* A chain of taps alone leads no packet anywhere. */
static int check_taps(const struct mk_json *list, const struct mk_chain *chain,
		      struct mk_error *err)
{
	for (size_t i = 0; i < chain->function_count; i++)
		if (!chain->functions[i].is_tap)
			return 0;
	return tree_wrong(list, "at least one function without tap: true", err);
}

static int decode_functions(struct mk_texts *texts, const struct mk_json *spec,
			    struct mk_chain *chain, struct mk_error *err)
{
	struct mk_json list, item;
	int ret = tree_list(spec, "functions", MK_SFC_FUNCTIONS, &list, err);

	if (ret == 0 && tree_length(&list) == 0)
		return tree_wrong(&list, "1 to 8 functions", err);
	chain->functions =
		ret < 0 ? NULL
			: calloc(tree_length(&list) + MK_SFC_SIDES, sizeof(*chain->functions));
	if (ret == 0 && !chain->functions)
		return mk_error_errno(err, ENOMEM, "functions of a chain");
	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		ret = tree_item(&list, i, json_type_object, &item, err);
		ret = ret ?: decode_function(texts, &item, chain, &chain->functions[i], err);
		chain->function_count += ret == 0;
	}
	return ret ?: check_taps(&list, chain, err);
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* A chain with ends takes all flows, so it must not exclude open ones. */
static int find_ends(const struct mk_json *spec, struct mk_json *ends, struct mk_chain *chain,
		     struct mk_error *err)
{
	int ret = tree_member(spec, "ends", json_type_object, ends, err);
	struct mk_json open = { .parent = spec, .key = "takeOpenFlows" };

	chain->has_ends = ret == 0 && ends->value;
	if (!chain->has_ends || !chain->leaves_open_flows)
		return ret;
	json_object_object_get_ex(spec->value, open.key, &open.value);
	return tree_wrong(&open, "true, or no such field: a chain with ends takes all flows", err);
}

/* Read the names of the ends, after those of the functions. A replica of an end is on the node of
 * the other replicas, so localWeight has no meaning. */
static int decode_ends(struct mk_texts *texts, const struct mk_json *ends, struct mk_chain *chain,
		       struct mk_error *err)
{
	static const char *const keys[MK_SFC_SIDES] = { "inside", "outside" };
	int ret = TREE_KNOWN(ends, err, "inside", "outside");

	for (size_t side = 0; ret == 0 && side < MK_SFC_SIDES; side++) {
		size_t place = chain->function_count + side;

		chain->functions[place] =
			(struct mk_chain_function){ .is_end = true, .local_weight = 1 };
		ret = decode_name(texts, ends, keys[side], chain, place, &chain->functions[place],
				  err);
	}
	return ret;
}

/* ---- the chain ------------------------------------------------------------------------------- */

static int decode_identity(const struct mk_json *tree, const struct mk_object_id *id,
			   struct mk_chain *chain, struct mk_error *err)
{
	struct mk_json metadata;
	const char *uid;
	int ret = tree_member(tree, "metadata", json_type_object, &metadata, err);

	ret = ret ?: tree_text(&metadata, "uid", &uid, err);
	ret = ret ?: tree_created(tree, &chain->created_unix_s, err);
	if (ret < 0)
		return ret;
	if (uid && *uid)
		chain->uid = strdup(uid);
	else if (asprintf(&chain->uid, "%s/%s", id->namespace_, id->name) < 0)
		chain->uid = NULL;
	return chain->uid ? 0 : mk_error_errno(err, ENOMEM, "UID of a chain");
}

int chain_decode(struct mk_texts *texts, const struct mk_json *tree, const struct mk_object_id *id,
		 union policy_object *object, struct mk_error *err)
{
	struct mk_chain *chain = &object->chain;
	bool takes_open_flows = true;
	int64_t priority = 0;
	struct mk_json spec, ends = { 0 };
	int ret = tree_member(tree, "spec", json_type_object, &spec, err);

	ret = ret
		      ?: TREE_KNOWN(&spec, err, "priority", "takeOpenFlows", "traffic", "ends",
				    "functions");
	ret = ret ?: decode_identity(tree, id, chain, err);
	ret = ret ?: tree_number(&spec, "priority", 0, PRIORITY_MAX, &priority, err);
	ret = ret ?: tree_bool(&spec, "takeOpenFlows", &takes_open_flows, err);
	chain->priority = (uint16_t)priority;
	chain->leaves_open_flows = !takes_open_flows;
	ret = ret ?: find_ends(&spec, &ends, chain, err);
	ret = ret ?: decode_traffic(texts, &spec, chain, err);
	ret = ret ?: decode_functions(texts, &spec, chain, err);
	return ret < 0 || !chain->has_ends ? ret : decode_ends(texts, &ends, chain, err);
}

static bool functions_equal(const struct mk_chain *a, const struct mk_chain *b)
{
	if (a->function_count != b->function_count || a->has_ends != b->has_ends)
		return false;
	for (size_t i = 0; i < mk_chain_length(a); i++) {
		const struct mk_chain_function *left = &a->functions[i], *right = &b->functions[i];

		if (left->name != right->name || left->is_tap != right->is_tap ||
		    left->skips != right->skips || left->drops_lost != right->drops_lost ||
		    left->hash_by != right->hash_by || left->local_weight != right->local_weight)
			return false;
	}
	return true;
}

bool chain_equal(const union policy_object *a, const union policy_object *b)
{
	const struct mk_chain *left = &a->chain, *right = &b->chain;

	return strcmp(left->uid, right->uid) == 0 &&
	       left->created_unix_s == right->created_unix_s && left->priority == right->priority &&
	       left->leaves_open_flows == right->leaves_open_flows &&
	       left->has_namespaces == right->has_namespaces && left->service == right->service &&
	       memcmp(left->applies, right->applies, sizeof(left->applies)) == 0 &&
	       selector_equal(&left->namespaces, &right->namespaces) &&
	       selector_equal(&left->pods, &right->pods) &&
	       policy_rules_equal(&left->rules, &right->rules) && functions_equal(left, right);
}

void chain_release(struct mk_texts *texts, union policy_object *object)
{
	struct mk_chain *chain = &object->chain;

	text_release(texts, chain->service);
	selector_release(texts, &chain->namespaces);
	selector_release(texts, &chain->pods);
	policy_rules_release(texts, &chain->rules);
	for (size_t i = 0; chain->functions && i < mk_chain_length(chain); i++)
		text_release(texts, chain->functions[i].name);
	free(chain->functions);
	free(chain->uid);
}

/* ---- the chain's Service --------------------------------------------------------------------- */

enum mk_chain_service mk_chain_service(const struct mk_model *model, const struct mk_chain *chain,
				       const struct mk_service_object **service)
{
	const struct mk_service_object *found =
		mk_model_service(model, chain->namespace_, chain->service);

	*service = NULL;
	if (!found || found->excluded)
		return MK_CHAIN_SERVICE_MISSING;
	if (found->selector.count == 0)
		return MK_CHAIN_SERVICE_NO_SELECTOR;
	if (found->port_count == 0)
		return MK_CHAIN_SERVICE_NO_PORTS;
	*service = found;
	return MK_CHAIN_SERVICE_SELECTS;
}

bool mk_model_has_chain_of(const struct mk_model *model, const char *namespace_, const char *name)
{
	mk_model_each(struct mk_chain, chain, model, MK_KIND_CHAIN)
		if (chain->service && strcmp(chain->service, name) == 0 &&
		    strcmp(chain->namespace_, namespace_) == 0)
			return true;
	return false;
}
