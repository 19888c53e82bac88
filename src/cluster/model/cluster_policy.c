// SPDX-License-Identifier: Apache-2.0
/* ClusterNetworkPolicies: rules 47 to 54 and 58 of test/policy/README.md. v1beta1 and v1alpha2 have
 * the same fields. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cluster/model/policy_object.h"

#define PRIORITY_MAX  1000
#define PEER_KIND     "a kind of peer that is known here, and one alone"
#define PROTOCOL_KIND "a kind of protocol that is known here, and one alone"
#define PORT_KIND     "a number, or a range with start and end"

/* Read one of @names, as its index. Returns a negative error for any other text. */
static int decode_word(const struct mk_json *parent, const char *key, const char *const names[],
		       size_t count, const char *expected, struct mk_error *err)
{
	struct mk_json at;
	int ret = tree_member(parent, key, json_type_string, &at, err);

	for (size_t i = 0; ret == 0 && at.value && i < count; i++)
		if (names[i] && strcmp(mk_json_string(&at), names[i]) == 0)
			return (int)i;
	return ret ?: tree_wrong(&at, expected, err);
}

/* Of the members that @at may have, it must have one alone. */
static int check_kind(const struct mk_json *at, const char *expected, struct mk_error *err)
{
	if (at->value && json_object_object_length(at->value) > 1)
		return tree_wrong(at, expected, err);
	return 0;
}

/* ---- pods ------------------------------------------------------------------------------------ */

/* Read `namespaces`, or `pods`, whose selector of namespaces may be absent. Returns 1 if @at has
 * neither. */
static int decode_pods(struct mk_texts *texts, const struct mk_json *at,
		       struct mk_selector *namespaces, struct mk_selector *pods,
		       struct mk_error *err)
{
	struct mk_json all, some, part;
	int ret = tree_member(at, "namespaces", json_type_object, &all, err);

	ret = ret ?: tree_member(at, "pods", json_type_object, &some, err);
	if (ret < 0)
		return ret;
	if (!all.value == !some.value)
		return 1;
	if (all.value)
		return selector_decode(texts, &all, namespaces, err);
	ret = TREE_KNOWN(&some, err, "namespaceSelector", "podSelector");
	ret = ret ?: tree_member(&some, "namespaceSelector", json_type_object, &part, err);
	ret = ret ?: selector_decode(texts, &part, namespaces, err);
	ret = ret ?: tree_member(&some, "podSelector", json_type_object, &part, err);
	if (ret == 0 && !part.value)
		return tree_wrong(&part, "a selector, which may be empty", err);
	return ret ?: selector_decode(texts, &part, pods, err);
}

/* ---- peers ----------------------------------------------------------------------------------- */

/* Each network is a peer of its own. */
static int add_networks(const struct policy_reading *in, const struct mk_json *list,
			struct mk_policy_rule_object *rule, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < tree_length(list); i++) {
		struct mk_policy_peer_object *peer = policy_peer_add(rule, err);
		struct mk_error why;
		struct mk_json at;

		if (!peer)
			return -ENOMEM;
		peer->kind = MK_PEER_BLOCK;
		ret = tree_item(list, i, json_type_string, &at, &why);
		ret = ret ?: policy_cidr_decode(&at, &peer->cidr, &why);
		if (ret < 0)
			ret = policy_peer_invalid(in, ret, &why, peer, err);
	}
	return ret;
}

static int decode_domains(const struct mk_json *names, const struct mk_policy_rule_object *rule,
			  struct mk_policy_peer_object *peer, struct mk_error *why)
{
	if (rule->action != MK_POLICY_ACCEPT)
		return tree_wrong(names, "no domainNames in a Deny or Pass", why);
	peer->kind = MK_PEER_DOMAINS;
	return 0;
}

static int decode_nodes(struct mk_texts *texts, const struct mk_json *nodes,
			struct mk_policy_peer_object *peer, struct mk_error *why)
{
	peer->kind = MK_PEER_NODES;
	return selector_decode(texts, nodes, &peer->pods, why);
}

/* A peer of one entry. Only egress has the latter three. */
static int decode_peer(const struct policy_reading *in, const struct mk_json *item,
		       const struct mk_policy_rule_object *rule, struct mk_policy_peer_object *peer,
		       struct mk_error *why)
{
	struct mk_json nodes = { 0 }, domains = { 0 };
	int ret = decode_pods(in->texts, item, &peer->namespaces, &peer->pods, why);

	peer->has_namespaces = true;
	if (ret <= 0)
		return ret;
	if (in->direction == MK_POLICY_EGRESS) {
		ret = tree_member(item, "nodes", json_type_object, &nodes, why);
		ret = ret ?: tree_member(item, "domainNames", json_type_array, &domains, why);
		if (ret < 0)
			return ret;
	}
	peer->has_namespaces = false;
	if (nodes.value)
		return decode_nodes(in->texts, &nodes, peer, why);
	if (domains.value)
		return decode_domains(&domains, rule, peer, why);
	return tree_wrong(item, PEER_KIND, why);
}

static int check_peer(const struct policy_reading *in, const struct mk_json *item,
		      struct mk_error *why)
{
	int ret;

	if (in->direction == MK_POLICY_INGRESS)
		ret = TREE_KNOWN(item, why, "namespaces", "pods");
	else
		ret = TREE_KNOWN(item, why, "namespaces", "pods", "nodes", "networks",
				 "domainNames");
	return ret ?: check_kind(item, PEER_KIND, why);
}

static int add_peer(const struct policy_reading *in, const struct mk_json *list, size_t index,
		    struct mk_policy_rule_object *rule, struct mk_error *err)
{
	struct mk_policy_peer_object *peer;
	struct mk_json item, networks = { 0 };
	struct mk_error why;
	int ret = tree_item(list, index, json_type_object, &item, &why);

	ret = ret ?: check_peer(in, &item, &why);
	if (ret == 0 && in->direction == MK_POLICY_EGRESS)
		ret = tree_member(&item, "networks", json_type_array, &networks, &why);
	if (ret == 0 && tree_length(&networks) > 0)
		return add_networks(in, &networks, rule, err);
	peer = policy_peer_add(rule, err);
	if (!peer)
		return -ENOMEM;
	ret = ret ?: decode_peer(in, &item, rule, peer, &why);
	return ret < 0 ? policy_peer_invalid(in, ret, &why, peer, err) : 0;
}

/* A rule must have peers; without any it is not understood. */
static int decode_peers(const struct policy_reading *in, const struct mk_json *item,
			struct mk_policy_rule_object *rule, struct mk_error *err)
{
	struct mk_error why;
	struct mk_json list;
	int ret = tree_member(item, in->direction == MK_POLICY_INGRESS ? "from" : "to",
			      json_type_array, &list, err);

	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++)
		ret = add_peer(in, &list, i, rule, err);
	if (ret < 0 || rule->peer_count > 0)
		return ret;
	ret = tree_wrong(&list, "at least one peer", &why);
	return policy_rule_invalid(in, ret, &why, rule, err);
}

/* ---- protocols ------------------------------------------------------------------------------- */

static int decode_range(const struct mk_json *destination, struct mk_policy_port_object *port,
			struct mk_error *why)
{
	struct mk_json range;
	int64_t first = 0, last = 0;
	int ret = tree_member(destination, "range", json_type_object, &range, why);

	ret = ret ?: TREE_KNOWN(&range, why, "start", "end");
	ret = ret ?: tree_number(&range, "start", 1, UINT16_MAX, &first, why);
	ret = ret ?: tree_number(&range, "end", first, UINT16_MAX, &last, why);
	if (ret < 0)
		return ret;
	if (!first || !last)
		return tree_wrong(destination, PORT_KIND, why);
	port->first = (uint16_t)first;
	port->last = (uint16_t)last;
	return 0;
}

static int decode_destination(const struct mk_json *protocol, struct mk_policy_port_object *port,
			      struct mk_error *why)
{
	struct mk_json destination;
	int64_t number = 0;
	int ret = TREE_KNOWN(protocol, why, "destinationPort");

	port->last = UINT16_MAX;
	ret = ret ?: tree_member(protocol, "destinationPort", json_type_object, &destination, why);
	if (ret < 0 || !destination.value)
		return ret;
	ret = TREE_KNOWN(&destination, why, "number", "range");
	ret = ret ?: check_kind(&destination, PORT_KIND, why);
	ret = ret ?: tree_number(&destination, "number", 1, UINT16_MAX, &number, why);
	if (ret < 0 || !number)
		return ret ?: decode_range(&destination, port, why);
	port->first = port->last = (uint16_t)number;
	return 0;
}

static int decode_protocol(struct mk_texts *texts, const struct mk_json *list, size_t index,
			   struct mk_policy_port_object *port, struct mk_error *why)
{
	static const struct {
		const char *key;
		uint8_t proto;
	} protocols[] = { { "tcp", IPPROTO_TCP },
			  { "udp", IPPROTO_UDP },
			  { "sctp", IPPROTO_SCTP } };
	struct mk_json item, at;
	const char *name = NULL;
	int ret = tree_item(list, index, json_type_object, &item, why);

	ret = ret ?: TREE_KNOWN(&item, why, "tcp", "udp", "sctp", "destinationNamedPort");
	ret = ret ?: check_kind(&item, PROTOCOL_KIND, why);
	ret = ret ?: tree_text(&item, "destinationNamedPort", &name, why);
	if (ret < 0)
		return ret;
	port->valid = true;
	if (name) {
		port->name = text_share(texts, name);
		return port->name ? 0 : mk_error_errno(why, ENOMEM, "name of a port");
	}
	for (size_t i = 0; i < MK_ARRAY_SIZE(protocols); i++) {
		ret = tree_member(&item, protocols[i].key, json_type_object, &at, why);
		port->proto = protocols[i].proto;
		if (ret < 0 || at.value)
			return ret ?: decode_destination(&at, port, why);
	}
	return tree_wrong(&item, PROTOCOL_KIND, why);
}

static int decode_protocols(const struct policy_reading *in, const struct mk_json *item,
			    struct mk_policy_rule_object *rule, struct mk_error *err)
{
	struct mk_json list;
	int ret = tree_member(item, "protocols", json_type_array, &list, err);

	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		struct mk_policy_port_object *port = policy_port_add(rule, err);
		struct mk_error why;

		if (!port)
			return -ENOMEM;
		ret = decode_protocol(in->texts, &list, i, port, &why);
		if (ret < 0)
			ret = policy_port_invalid(in, ret, &why, port, err);
	}
	return ret;
}

/* ---- the policy ------------------------------------------------------------------------------ */

/* A member that is not known may narrow the rule. */
static int check_rule(const struct policy_reading *in, const struct mk_json *item,
		      struct mk_policy_rule_object *rule, struct mk_error *err)
{
	const char *peers = in->direction == MK_POLICY_INGRESS ? "from" : "to";
	struct mk_error why;
	int ret = TREE_KNOWN(item, &why, "name", "action", peers, "protocols");

	return ret < 0 ? policy_rule_invalid(in, ret, &why, rule, err) : 0;
}

static int decode_rule(const struct policy_reading *in, const struct mk_json *item,
		       struct mk_policy_rule_object *rule, struct mk_error *err)
{
	static const char *const actions[] = {
		[MK_POLICY_ACCEPT] = "Accept",
		[MK_POLICY_DENY] = "Deny",
		[MK_POLICY_PASS] = "Pass",
	};
	const char *name;
	int ret = decode_word(item, "action", actions, MK_ARRAY_SIZE(actions),
			      "Accept, Deny or Pass", err);

	if (ret < 0)
		return ret;
	rule->action = (enum mk_policy_action)ret;
	ret = tree_text(item, "name", &name, err);
	if (ret == 0 && name && !(rule->name = strdup(name)))
		ret = mk_error_errno(err, ENOMEM, "name of a rule");
	ret = ret ?: decode_peers(in, item, rule, err);
	ret = ret ?: decode_protocols(in, item, rule, err);
	return ret ?: check_rule(in, item, rule, err);
}

static int decode_place(const struct mk_json *spec, struct mk_cluster_policy *policy,
			struct mk_error *err)
{
	static const char *const tiers[] = {
		[MK_TIER_ADMIN] = "Admin",
		[MK_TIER_BASELINE] = "Baseline",
	};
	struct mk_json at;
	int64_t priority = 0;
	int ret = decode_word(spec, "tier", tiers, MK_ARRAY_SIZE(tiers), "Admin or Baseline", err);

	if (ret < 0)
		return ret;
	policy->tier = (enum mk_policy_tier)ret;
	ret = tree_member(spec, "priority", json_type_int, &at, err);
	if (ret == 0 && !at.value)
		return tree_wrong(&at, "a number from 0 to 1000", err);
	ret = ret ?: tree_number(spec, "priority", 0, PRIORITY_MAX, &priority, err);
	policy->priority = (int)priority;
	return ret;
}

static int decode_subject(struct mk_texts *texts, const struct mk_json *spec,
			  struct mk_cluster_policy *policy, struct mk_error *err)
{
	struct mk_json subject;
	int ret = tree_member(spec, "subject", json_type_object, &subject, err);

	if (ret < 0)
		return ret;
	ret = TREE_KNOWN(&subject, err, "namespaces", "pods");
	ret = ret ?: decode_pods(texts, &subject, &policy->namespaces, &policy->pods, err);
	return ret > 0 ? tree_wrong(&subject, "either namespaces or pods", err) : ret;
}

int cluster_policy_decode(struct mk_texts *texts, const struct mk_json *tree,
			  const struct mk_object_id *id, union policy_object *object,
			  struct mk_error *err)
{
	struct mk_cluster_policy *policy = &object->cluster_policy;
	struct mk_json spec;
	struct mk_error why;
	int ret = tree_member(tree, "spec", json_type_object, &spec, err);

	(void)id;
	if (ret == 0 &&
	    TREE_KNOWN(&spec, &why, "tier", "priority", "subject", "ingress", "egress") < 0)
		ret = pass_over(&policy->passed_over, &why, err);
	ret = ret ?: policy_mode_decode(tree, &policy->audited, &policy->passed_over, err);
	ret = ret ?: decode_place(&spec, policy, err);
	ret = ret ?: decode_subject(texts, &spec, policy, err);
	for (int i = 0; ret == 0 && i < MK_POLICY_DIRECTIONS; i++) {
		const struct policy_reading in = { texts, &policy->passed_over,
						   (enum mk_policy_direction)i };

		ret = policy_rules_decode(&in, &spec, decode_rule, &policy->rules[i], err);
	}
	return ret;
}

bool cluster_policy_equal(const union policy_object *a, const union policy_object *b)
{
	const struct mk_cluster_policy *left = &a->cluster_policy, *right = &b->cluster_policy;

	return left->tier == right->tier && left->priority == right->priority &&
	       left->audited == right->audited &&
	       selector_equal(&left->namespaces, &right->namespaces) &&
	       selector_equal(&left->pods, &right->pods) &&
	       policy_rules_equal(&left->rules[0], &right->rules[0]) &&
	       policy_rules_equal(&left->rules[1], &right->rules[1]);
}

void cluster_policy_release(struct mk_texts *texts, union policy_object *object)
{
	struct mk_cluster_policy *policy = &object->cluster_policy;

	selector_release(texts, &policy->namespaces);
	selector_release(texts, &policy->pods);
	for (int i = 0; i < MK_POLICY_DIRECTIONS; i++)
		policy_rules_release(texts, &policy->rules[i]);
	free(policy->passed_over);
}
