// SPDX-License-Identifier: Apache-2.0
/* Sets for people: by number of rule its policy, and what it says. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "policy/compiler.h"

/* ---- texts ----------------------------------------------------------------------------------- */

static void put(struct bytes *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct bytes *text, const char *format, ...)
{
	char part[512];
	va_list args;

	va_start(args, format);
	vsnprintf(part, sizeof(part), format, args);
	va_end(args);
	bytes_put(text, part, strlen(part));
}

static void put_values(struct bytes *text, const struct mk_requirement *requirement)
{
	for (size_t i = 0; i < requirement->value_count; i++)
		put(text, "%s%s", i > 0 ? "," : "", requirement->values[i]);
}

/* As kubectl writes and reads selectors. */
static void put_requirement(struct bytes *text, const struct mk_requirement *requirement)
{
	const char *key = requirement->key;

	if (requirement->op == MK_OPERATOR_EXISTS) {
		put(text, "%s", key);
	} else if (requirement->op == MK_OPERATOR_DOES_NOT_EXIST) {
		put(text, "!%s", key);
	} else if (requirement->op == MK_OPERATOR_IN && requirement->value_count == 1) {
		put(text, "%s=%s", key, requirement->values[0]);
	} else {
		put(text, "%s %s (", key, requirement->op == MK_OPERATOR_IN ? "in" : "notin");
		put_values(text, requirement);
		put(text, ")");
	}
}

static void put_selector(struct bytes *text, const char *what, const struct mk_selector *selector)
{
	put(text, "%s ", what);
	for (size_t i = 0; i < selector->count; i++) {
		put(text, "%s", i > 0 ? "," : "");
		put_requirement(text, &selector->requirements[i]);
	}
	if (selector->count == 0)
		put(text, "all");
}

static void put_selectors(struct bytes *text, const struct mk_policy_peer_object *peer)
{
	if (peer->pods.count > 0 || !peer->has_namespaces)
		put_selector(text, "podSelector", &peer->pods);
	if (!peer->has_namespaces)
		return;
	put(text, "%s", peer->pods.count > 0 ? ", " : "");
	put_selector(text, "namespaceSelector", &peer->namespaces);
}

static void put_block(struct bytes *text, const struct mk_policy_peer_object *peer)
{
	char cidr[MK_CIDR_STRLEN];

	put(text, "%s", mk_cidr_format(&peer->cidr, cidr));
	for (size_t i = 0; i < peer->except_count; i++)
		put(text, "%s%s", i > 0 ? ", " : " except ",
		    mk_cidr_format(&peer->except[i], cidr));
}

static void put_peer(struct bytes *text, const struct mk_policy_peer_object *peer)
{
	switch (peer->kind) {
	case MK_PEER_SELECTORS:
		put_selectors(text, peer);
		break;
	case MK_PEER_BLOCK:
		put_block(text, peer);
		break;
	case MK_PEER_NODES:
		put_selector(text, "nodes", &peer->pods);
		break;
	case MK_PEER_DOMAINS:
		put(text, "domainNames, not supported");
		break;
	case MK_PEER_OUTSIDE:
		put(text, "outside");
		break;
	case MK_PEER_INVALID:
		put(text, "not understood");
		break;
	}
}

static void put_port(struct bytes *text, const struct mk_policy_port_object *port)
{
	const char *proto = port->proto == IPPROTO_UDP	  ? "UDP"
			    : port->proto == IPPROTO_SCTP ? "SCTP"
							  : "TCP";

	if (!port->valid)
		put(text, "not understood");
	else if (port->name)
		put(text, "%s%s%s", port->proto == MK_PROTO_ANY ? "" : proto,
		    port->proto == MK_PROTO_ANY ? "" : " ", port->name);
	else if (port->last == UINT16_MAX && port->first <= 1)
		put(text, "%s", proto);
	else if (port->first == port->last)
		put(text, "%s %u", proto, port->first);
	else
		put(text, "%s %u-%u", proto, port->first, port->last);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_object *text_of(const struct bytes *text)
{
	return text->count > 0
		       ? json_object_new_string_len((const char *)text->at, (int)text->count)
		       : json_object_new_string("any");
}

static json_object *peers_of(const struct mk_policy_rule_object *rule)
{
	cleanup_bytes struct bytes text = { 0 };

	for (size_t i = 0; i < rule->peer_count; i++) {
		put(&text, "%s", i > 0 ? "; " : "");
		put_peer(&text, &rule->peers[i]);
	}
	return text_of(&text);
}

static json_object *ports_of(const struct mk_policy_rule_object *rule)
{
	cleanup_bytes struct bytes text = { 0 };

	for (size_t i = 0; i < rule->port_count; i++) {
		put(&text, "%s", i > 0 ? ", " : "");
		put_port(&text, &rule->ports[i]);
	}
	return text_of(&text);
}

static json_object *policy_name(const struct content *content)
{
	char name[2 * MK_OBJECT_NAME_SIZE];

	snprintf(name, sizeof(name), "%s%s%s", content->namespace_, *content->namespace_ ? "/" : "",
		 content->name);
	return json_object_new_string(name);
}

static const char *const tier_names[] = { [MK_TIER_ADMIN] = "admin",
					  [MK_TIER_NETWORK_POLICY] = "network-policy",
					  [MK_TIER_BASELINE] = "baseline" };
static const char *const action_names[] = {
	[MK_POLICY_ACCEPT] = "accept", [MK_POLICY_DENY] = "deny", [MK_POLICY_PASS] = "pass"
};

static json_object *describe_rule(const struct set_rule *numbered, size_t number)
{
	const struct content *content = numbered->content;
	const struct mk_policy_rule_object *rule = numbered->rule->of;
	json_object *to = json_object_new_object();

	mk_put_number(to, "number", number);
	mk_put_text(to, "tier", tier_names[content->tier]);
	json_object_object_add(to, "policy", policy_name(content));
	mk_put_number(to, "index", numbered->index);
	if (rule->name)
		mk_put_text(to, "name", rule->name);
	json_object_object_add(to, "action",
			       json_object_new_string(action_names[numbered->rule->action]));
	json_object_object_add(to, "peers", peers_of(rule));
	json_object_object_add(to, "ports", ports_of(rule));
	return to;
}

static json_object *describe_chain(const struct set_rule *numbered, size_t number)
{
	const struct mk_policy_rule_object *rule = numbered->rule->of;
	json_object *to = json_object_new_object();

	mk_put_number(to, "number", number);
	json_object_object_add(to, "chain", policy_name(numbered->content));
	mk_put_number(to, "id", numbered->content->chain_id);
	json_object_object_add(to, "peers", peers_of(rule));
	json_object_object_add(to, "ports", ports_of(rule));
	return to;
}

static void add_if_any(json_object *to, const char *key, json_object *list)
{
	if (json_object_array_length(list) > 0)
		json_object_object_add(to, key, list);
	else
		json_object_put(list);
}

static json_object *describe_set(const struct set_ *set)
{
	json_object *to = json_object_new_object(), *names = json_object_new_array(),
		    *audited = json_object_new_array(), *rules = json_object_new_array(),
		    *chains = json_object_new_array();

	json_object_object_add(
		to, "direction",
		json_object_new_string(set->direction == MK_POLICY_INGRESS ? "ingress" : "egress"));
	for (size_t i = 0; i < set->content_count; i++) {
		if (set->contents[i]->tier == TIER_CHAIN)
			continue;
		json_object_array_add(names, policy_name(set->contents[i]));
		if (set->contents[i]->audited)
			json_object_array_add(audited, policy_name(set->contents[i]));
	}
	for (size_t i = 0; i < set->rule_count; i++)
		if (set->rules[i].content->tier == TIER_CHAIN)
			json_object_array_add(chains, describe_chain(&set->rules[i], i + 1));
		else
			json_object_array_add(rules, describe_rule(&set->rules[i], i + 1));
	json_object_object_add(to, "policies", names);
	add_if_any(to, "audited", audited);
	json_object_object_add(to, "rules", rules);
	add_if_any(to, "chains", chains);
	return to;
}

/* The namespace of the policies that isolate; "": none does. */
static const char *namespace_of(const struct set_ *set)
{
	for (size_t i = 0; i < set->content_count; i++)
		if (set->contents[i]->tier == MK_TIER_NETWORK_POLICY)
			return set->contents[i]->namespace_;
	return "";
}

bool mk_policies_rule(const struct mk_policies *policies, uint64_t set_id, uint16_t number,
		      struct mk_policy_rule_view *view)
{
	const struct set_rule *rule;
	struct set_ *set;

	HASH_FIND(hh, policies->sets, &set_id, sizeof(set_id), set);
	if (!set || number > set->rule_count)
		return false;
	if (number == 0) {
		*view = (struct mk_policy_rule_view){ namespace_of(set), "", 0 };
		return true;
	}
	rule = &set->rules[number - 1];
	*view = (struct mk_policy_rule_view){ rule->content->namespace_, rule->content->name,
					      rule->index };
	return true;
}

static void add_key(json_object *keys, const char *prefix, const struct key *key)
{
	cleanup_bytes struct bytes text = { 0 };

	put(&text, "%s", prefix);
	bytes_put(&text, key->of, key->hh.keylen);
	json_object_array_add(keys,
			      json_object_new_string_len((const char *)text.at, (int)text.count));
}

static void add_block_key(json_object *keys, const struct block *block)
{
	cleanup_bytes struct bytes text = { 0 };
	char cidr[MK_CIDR_STRLEN];

	put(&text, "block:%s", mk_cidr_format(&block->cidr, cidr));
	for (size_t i = 0; i < block->except_count; i++)
		put(&text, " %s", mk_cidr_format(&block->except[i], cidr));
	json_object_array_add(keys,
			      json_object_new_string_len((const char *)text.at, (int)text.count));
}

/* All that classes depend on, for mk_policies_keep_keys(). */
static json_object *describe_keys(const struct mk_policies *policies)
{
	json_object *keys = json_object_new_array();
	const struct key *key, *next;

	HASH_ITER(hh, policies->label_keys, key, next)
		add_key(keys, "", key);
	HASH_ITER(hh, policies->port_names, key, next)
		add_key(keys, "port:", key);
	HASH_ITER(hh, policies->blocks, key, next)
		add_block_key(keys, &key->block);
	return keys;
}

json_object *mk_policies_describe(const struct mk_policies *policies)
{
	json_object *to = json_object_new_object(), *sets = json_object_new_object();
	const struct set_ *set, *next;
	char name[17];

	HASH_ITER(hh, policies->sets, set, next) {
		snprintf(name, sizeof(name), "%016llx", (unsigned long long)set->id);
		json_object_object_add(sets, name, describe_set(set));
	}
	mk_put_number(to, "version", 1);
	json_object_object_add(to, "keys", describe_keys(policies));
	json_object_object_add(to, "sets", sets);
	return to;
}
