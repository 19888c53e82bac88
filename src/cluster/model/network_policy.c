// SPDX-License-Identifier: Apache-2.0
/* NetworkPolicies: rules 1, 4, 5, 7 to 9 and 12 of test/policy/README.md. */
#include <stdlib.h>
#include <string.h>

#include "cluster/model/policy_object.h"

#define PORT_NAME_CHARS 15

/* ---- peers ----------------------------------------------------------------------------------- */

static int decode_block(const struct mk_json *block, struct mk_policy_peer_object *peer,
			struct mk_error *err)
{
	struct mk_json at, list;
	int ret = TREE_KNOWN(block, err, "cidr", "except");

	peer->kind = MK_PEER_BLOCK;
	ret = ret ?: tree_member(block, "cidr", json_type_string, &at, err);
	ret = ret ?: policy_cidr_decode(&at, &peer->cidr, err);
	ret = ret ?: tree_member(block, "except", json_type_array, &list, err);
	if (ret < 0 || tree_length(&list) == 0)
		return ret;
	peer->except = calloc(tree_length(&list), sizeof(*peer->except));
	if (!peer->except)
		return mk_error_errno(err, ENOMEM, "%zu exceptions", tree_length(&list));
	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		ret = tree_item(&list, i, json_type_string, &at, err);
		ret = ret ?: policy_cidr_decode(&at, &peer->except[peer->except_count++], err);
	}
	return ret;
}

int policy_peer_decode(struct mk_texts *texts, const struct mk_json *item,
		       struct mk_policy_peer_object *peer, struct mk_error *err)
{
	struct mk_json block, namespaces, pods;
	int ret = TREE_KNOWN(item, err, "ipBlock", "namespaceSelector", "podSelector");

	ret = ret ?: tree_member(item, "ipBlock", json_type_object, &block, err);
	ret = ret ?: tree_member(item, "namespaceSelector", json_type_object, &namespaces, err);
	ret = ret ?: tree_member(item, "podSelector", json_type_object, &pods, err);
	if (ret < 0)
		return ret;
	if (!block.value == !(namespaces.value || pods.value))
		return tree_wrong(item, "either ipBlock, or podSelector and namespaceSelector",
				  err);
	if (block.value)
		return decode_block(&block, peer, err);
	peer->kind = MK_PEER_SELECTORS;
	peer->has_namespaces = namespaces.value;
	ret = selector_decode(texts, &namespaces, &peer->namespaces, err);
	return ret ?: selector_decode(texts, &pods, &peer->pods, err);
}

static int decode_peers(const struct policy_reading *in, const struct mk_json *list,
			struct mk_policy_rule_object *rule, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < tree_length(list); i++) {
		struct mk_policy_peer_object *peer = policy_peer_add(rule, err);
		struct mk_error why;
		struct mk_json item;

		if (!peer)
			return -ENOMEM;
		ret = tree_item(list, i, json_type_object, &item, &why);
		ret = ret ?: policy_peer_decode(in->texts, &item, peer, &why);
		if (ret < 0)
			ret = policy_peer_invalid(in, ret, &why, peer, err);
	}
	return ret;
}

/* ---- ports ----------------------------------------------------------------------------------- */

/* IsValidPortName() of k8s.io/apimachinery. */
static bool is_port_name(const char *text)
{
	size_t length = strlen(text);

	return length > 0 && length <= PORT_NAME_CHARS &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == length &&
	       strpbrk(text, "abcdefghijklmnopqrstuvwxyz") && !strstr(text, "--") &&
	       text[0] != '-' && text[length - 1] != '-';
}

static int decode_name(struct mk_texts *texts, const struct mk_json *at,
		       struct mk_policy_port_object *port, struct mk_error *err)
{
	if (!is_port_name(mk_json_string(at)))
		return tree_wrong(at, "a number or the name of a port", err);
	port->name = text_share(texts, mk_json_string(at));
	return port->name ? 0 : mk_error_errno(err, ENOMEM, "name of a port");
}

int policy_port_decode(const struct mk_json *item, struct mk_policy_port_object *port,
		       struct mk_error *err)
{
	int64_t first = 0, last = UINT16_MAX;
	struct mk_json end;
	int ret = tree_number(item, "port", 1, UINT16_MAX, &first, err);

	ret = ret ?: tree_member(item, "endPort", json_type_int, &end, err);
	if (ret == 0 && !first && end.value)
		return tree_wrong(&end, "a port with it", err);
	if (first)
		last = first;
	ret = ret ?: tree_number(item, "endPort", first, UINT16_MAX, &last, err);
	port->first = (uint16_t)first;
	port->last = (uint16_t)last;
	return ret;
}

static int decode_port(struct mk_texts *texts, const struct mk_json *list, size_t index,
		       struct mk_policy_port_object *port, struct mk_error *err)
{
	struct mk_json item, at, end;
	int ret = tree_item(list, index, json_type_object, &item, err);

	ret = ret ?: TREE_KNOWN(&item, err, "protocol", "port", "endPort");
	ret = ret ?: tree_protocol(&item, &port->proto, err);
	ret = ret ?: tree_member(&item, "endPort", json_type_int, &end, err);
	if (ret < 0)
		return ret;
	port->valid = true;
	if (!json_object_is_type(json_object_object_get(item.value, "port"), json_type_string))
		return policy_port_decode(&item, port, err);
	ret = tree_member(&item, "port", json_type_string, &at, err);
	ret = ret ?: decode_name(texts, &at, port, err);
	if (ret == 0 && end.value)
		return tree_wrong(&end, "a number of the port with it", err);
	return ret;
}

static int decode_ports(const struct policy_reading *in, const struct mk_json *list,
			struct mk_policy_rule_object *rule, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < tree_length(list); i++) {
		struct mk_policy_port_object *port = policy_port_add(rule, err);
		struct mk_error why;

		if (!port)
			return -ENOMEM;
		ret = decode_port(in->texts, list, i, port, &why);
		if (ret < 0)
			ret = policy_port_invalid(in, ret, &why, port, err);
	}
	return ret;
}

/* ---- the policy ------------------------------------------------------------------------------ */

/* A member that is not known may narrow the rule, which then matches nothing. */
static int decode_rule(const struct policy_reading *in, const struct mk_json *item,
		       struct mk_policy_rule_object *rule, struct mk_error *err)
{
	const char *peers = in->direction == MK_POLICY_INGRESS ? "from" : "to";
	struct mk_json list;
	struct mk_error why;
	int ret = TREE_KNOWN(item, &why, peers, "ports");

	rule->action = MK_POLICY_ACCEPT;
	if (ret < 0)
		return policy_rule_invalid(in, ret, &why, rule, err);
	ret = tree_member(item, peers, json_type_array, &list, err);
	ret = ret ?: decode_peers(in, &list, rule, err);
	ret = ret ?: tree_member(item, "ports", json_type_array, &list, err);
	return ret ?: decode_ports(in, &list, rule, err);
}

static int decode_rules(struct mk_texts *texts, const struct mk_json *spec,
			struct mk_network_policy *policy, struct mk_error *err)
{
	int ret = 0;

	for (int i = 0; ret == 0 && i < MK_POLICY_DIRECTIONS; i++) {
		const struct policy_reading in = { texts, &policy->passed_over,
						   (enum mk_policy_direction)i };

		ret = policy_rules_decode(&in, spec, decode_rule, &policy->rules[i], err);
	}
	return ret;
}

static int decode_types(const struct mk_json *spec, struct mk_network_policy *policy,
			struct mk_error *err)
{
	struct mk_json list, at;
	int ret = tree_member(spec, "policyTypes", json_type_array, &list, err);

	if (ret == 0 && tree_length(&list) == 0) {
		policy->applies[MK_POLICY_INGRESS] = true;
		policy->applies[MK_POLICY_EGRESS] = policy->rules[MK_POLICY_EGRESS].count > 0;
	}
	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		ret = tree_item(&list, i, json_type_string, &at, err);
		if (ret < 0)
			return ret;
		if (strcmp(mk_json_string(&at), "Ingress") == 0)
			policy->applies[MK_POLICY_INGRESS] = true;
		else if (strcmp(mk_json_string(&at), "Egress") == 0)
			policy->applies[MK_POLICY_EGRESS] = true;
		else
			ret = tree_wrong(&at, "Ingress or Egress", err);
	}
	return ret;
}

int network_policy_decode(struct mk_texts *texts, const struct mk_json *tree,
			  const struct mk_object_id *id, union policy_object *object,
			  struct mk_error *err)
{
	struct mk_network_policy *policy = &object->network_policy;
	struct mk_json spec, pods;
	struct mk_error why;
	int ret = tree_member(tree, "spec", json_type_object, &spec, err);

	(void)id;
	if (ret == 0 &&
	    TREE_KNOWN(&spec, &why, "podSelector", "policyTypes", "ingress", "egress") < 0)
		ret = pass_over(&policy->passed_over, &why, err);
	ret = ret ?: tree_member(&spec, "podSelector", json_type_object, &pods, err);
	ret = ret ?: selector_decode(texts, &pods, &policy->pods, err);
	ret = ret ?: policy_mode_decode(tree, &policy->audited, &policy->passed_over, err);
	ret = ret ?: decode_rules(texts, &spec, policy, err);
	return ret ?: decode_types(&spec, policy, err);
}

bool network_policy_equal(const union policy_object *a, const union policy_object *b)
{
	const struct mk_network_policy *left = &a->network_policy, *right = &b->network_policy;

	if (left->audited != right->audited || !selector_equal(&left->pods, &right->pods))
		return false;
	for (int i = 0; i < MK_POLICY_DIRECTIONS; i++)
		if (left->applies[i] != right->applies[i] ||
		    !policy_rules_equal(&left->rules[i], &right->rules[i]))
			return false;
	return true;
}

void network_policy_release(struct mk_texts *texts, union policy_object *object)
{
	struct mk_network_policy *policy = &object->network_policy;

	selector_release(texts, &policy->pods);
	for (int i = 0; i < MK_POLICY_DIRECTIONS; i++)
		policy_rules_release(texts, &policy->rules[i]);
	free(policy->passed_over);
}
