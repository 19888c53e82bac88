// SPDX-License-Identifier: Apache-2.0
/* The rules of a policy in one direction: copied, with the addresses of nodes that they name. The
 * digest has all that they say, and their names. */
#include <stdlib.h>
#include <string.h>

#include "policy/compiler.h"

/* ---- copy ------------------------------------------------------------------------------------ */

static void copy_except(struct store *store, const struct mk_policy_peer_object *from,
			struct mk_policy_peer_object *to)
{
	to->except = store_new(store, from->except_count * sizeof(*to->except));
	for (size_t i = 0; i < from->except_count; i++)
		to->except[i] = mk_cidr_network(&from->except[i]);
}

static struct mk_policy_peer_object *copy_peers(struct store *store,
						const struct mk_policy_rule_object *rule)
{
	struct mk_policy_peer_object *peers = store_new(store, rule->peer_count * sizeof(*peers));

	for (size_t i = 0; i < rule->peer_count; i++) {
		const struct mk_policy_peer_object *from = &rule->peers[i];
		struct mk_policy_peer_object *to = &peers[i];

		*to = *from;
		if (from->kind == MK_PEER_BLOCK) {
			copy_except(store, from, to);
			continue;
		}
		to->namespaces = copy_selector(store, &from->namespaces);
		to->pods = copy_selector(store, &from->pods);
	}
	return peers;
}

static struct mk_policy_port_object *copy_rule_ports(struct store *store,
						     const struct mk_policy_rule_object *rule)
{
	struct mk_policy_port_object *ports = store_new(store, rule->port_count * sizeof(*ports));

	for (size_t i = 0; i < rule->port_count; i++) {
		ports[i] = rule->ports[i];
		ports[i].name = store_text(store, rule->ports[i].name);
	}
	return ports;
}

static struct mk_policy_rule_object *copy_rule(struct store *store,
					       const struct mk_policy_rule_object *from)
{
	struct mk_policy_rule_object *to = store_new(store, sizeof(*to));

	*to = *from;
	to->name = (char *)store_text(store, from->name);
	to->peers = copy_peers(store, from);
	to->ports = copy_rule_ports(store, from);
	return to;
}

/* ---- what follows from a rule ---------------------------------------------------------------- */

/* Rule 54: one part of a cluster rule that is not understood makes the rule fail closed. Rule 12:
 * in a NetworkPolicy only the part matches nothing. */
static enum rule_extent extent_of(const struct content *content,
				  const struct mk_policy_rule_object *rule)
{
	bool understood = true;

	if (content->tier == MK_TIER_NETWORK_POLICY)
		return RULE_MATCHES;
	for (size_t i = 0; i < rule->peer_count; i++)
		understood &= rule->peers[i].kind != MK_PEER_INVALID;
	for (size_t i = 0; i < rule->port_count; i++)
		understood &= rule->ports[i].valid;
	if (understood)
		return RULE_MATCHES;
	return rule->action == MK_POLICY_ACCEPT ? RULE_NEVER : RULE_ALWAYS;
}

struct node_search {
	struct mk_ip *ips;
	size_t count, room;
};

static void find_node(struct node_search *search, const struct mk_node_object *node)
{
	for (size_t i = 0; i < node->address_count; i++) {
		search->ips = memory_grow(search->ips, search->count, &search->room,
					  sizeof(*search->ips));
		search->ips[search->count++] = node->addresses[i];
	}
}

/* Rule 52: every address of a node that a peer of @from selects. */
static void find_nodes(const struct mk_model *model, const struct mk_policy_rule_object *from,
		       struct node_search *search)
{
	for (size_t i = 0; i < from->peer_count; i++) {
		if (from->peers[i].kind != MK_PEER_NODES)
			continue;
		mk_model_each(struct mk_node_object, node, model, MK_KIND_NODE)
			if (mk_selector_matches(&from->peers[i].pods, &node->labels))
				find_node(search, node);
	}
	mk_ips_sort(search->ips, &search->count);
}

/* All addresses but the pods'. */
static void add_outside(struct store *store, const struct mk_policies *policies, struct rule *rule)
{
	static const sa_family_t families[MK_FAMILIES] = { AF_INET, AF_INET6 };

	for (int i = 0; i < MK_FAMILIES; i++) {
		struct block *block = &rule->blocks[rule->block_count++];
		const struct mk_cidr *pods = &policies->pod_ranges[mk_family_index(families[i])];

		block->cidr.ip.family = families[i];
		if (pods->ip.family != families[i])
			continue;
		block->except = store_new(store, sizeof(*block->except));
		*block->except = mk_cidr_network(pods);
		block->except_count = 1;
	}
}

/* @from is the rule in the model, whose selectors of nodes have the model's texts. */
static void find_blocks(struct store *store, struct mk_policies *policies, struct rule *rule,
			const struct mk_policy_rule_object *from)
{
	struct node_search search = { 0 };

	find_nodes(policies->model, from, &search);
	rule->blocks = store_new(store, (MK_FAMILIES * from->peer_count + search.count) *
						sizeof(*rule->blocks));
	for (size_t i = 0; i < rule->of->peer_count; i++) {
		const struct mk_policy_peer_object *peer = &rule->of->peers[i];

		if (peer->kind == MK_PEER_BLOCK)
			rule->blocks[rule->block_count++] =
				(struct block){ .cidr = mk_cidr_network(&peer->cidr),
						.except = peer->except,
						.except_count = peer->except_count };
		if (peer->kind == MK_PEER_OUTSIDE)
			add_outside(store, policies, rule);
	}
	for (size_t i = 0; i < search.count; i++)
		rule->blocks[rule->block_count++].cidr = (struct mk_cidr){
			.ip = search.ips[i],
			.prefix_bits = (uint8_t)mk_ip_bits(search.ips[i].family),
		};
	free(search.ips);
}

static void make_rule(struct content *content, struct mk_policies *policies, struct rule *rule,
		      const struct mk_policy_rule_object *from)
{
	rule->of = copy_rule(&content->store, from);
	rule->action = content->tier == MK_TIER_NETWORK_POLICY ? MK_POLICY_ACCEPT : from->action;
	rule->extent = extent_of(content, from);
	if (rule->extent != RULE_MATCHES)
		return;
	for (size_t i = 0; i < from->peer_count; i++)
		rule->has_selectors |= from->peers[i].kind == MK_PEER_SELECTORS;
	for (size_t i = 0; i < from->port_count; i++)
		rule->has_names |= from->ports[i].valid && from->ports[i].name;
	find_blocks(&content->store, policies, rule, from);
	content->has_selectors |= rule->has_selectors;
	content->has_names |= rule->has_names;
}

/* ---- digest ---------------------------------------------------------------------------------- */

void bytes_put_selector(struct bytes *bytes, const struct mk_selector *selector)
{
	bytes_put_number(bytes, selector->count);
	for (size_t i = 0; i < selector->count; i++) {
		const struct mk_requirement *requirement = &selector->requirements[i];

		bytes_put_text(bytes, requirement->key);
		bytes_put_number(bytes, requirement->op);
		bytes_put_number(bytes, requirement->value_count);
		for (size_t j = 0; j < requirement->value_count; j++)
			bytes_put_text(bytes, requirement->values[j]);
	}
}

static void put_peer(struct bytes *bytes, const struct mk_policy_peer_object *peer)
{
	bytes_put_number(bytes, (uint64_t)peer->kind << 1 | peer->has_namespaces);
	if (peer->kind == MK_PEER_BLOCK)
		return; /* the rule's blocks have it */
	bytes_put_selector(bytes, &peer->namespaces);
	bytes_put_selector(bytes, &peer->pods);
}

void bytes_put_block(struct bytes *bytes, const struct block *block)
{
	bytes_put_cidr(bytes, &block->cidr);
	bytes_put_number(bytes, block->except_count);
	for (size_t i = 0; i < block->except_count; i++)
		bytes_put_cidr(bytes, &block->except[i]);
}

static void put_rule(struct bytes *bytes, const struct rule *rule)
{
	const struct mk_policy_rule_object *of = rule->of;

	bytes_put_text(bytes, of->name);
	bytes_put_number(bytes, rule->action);
	bytes_put_number(bytes, of->peer_count);
	for (size_t i = 0; i < of->peer_count; i++)
		put_peer(bytes, &of->peers[i]);
	bytes_put_number(bytes, rule->block_count);
	for (size_t i = 0; i < rule->block_count; i++)
		bytes_put_block(bytes, &rule->blocks[i]);
	bytes_put_number(bytes, of->port_count);
	for (size_t i = 0; i < of->port_count; i++) {
		const struct mk_policy_port_object *port = &of->ports[i];

		bytes_put_number(bytes, (uint64_t)port->valid << 40 | (uint64_t)port->proto << 32 |
						(uint64_t)port->first << 16 | port->last);
		bytes_put_text(bytes, port->name);
	}
}

static uint64_t digest(const struct content *content, const uint8_t *hash_key)
{
	cleanup_bytes struct bytes bytes = { 0 };

	bytes_put_number(&bytes, (uint64_t)content->chain_id << 16 |
					 (uint64_t)content->audited << 8 |
					 (uint64_t)content->tier << 1 | content->direction);
	bytes_put_text(&bytes, content->namespace_);
	bytes_put_text(&bytes, content->name);
	bytes_put_number(&bytes, content->rule_count);
	for (size_t i = 0; i < content->rule_count; i++)
		put_rule(&bytes, &content->rules[i]);
	return mk_siphash(hash_key, bytes.at, bytes.count);
}

/* ---- contents -------------------------------------------------------------------------------- */

static const struct mk_policy_rules *rules_of(const struct mk_model *model,
					      const struct policy *policy,
					      enum mk_policy_direction direction)
{
	if (policy->space)
		return &mk_model_network_policy(model, policy->space->name, policy->name)
				->rules[direction];
	return &mk_model_cluster_policy(model, policy->name)->rules[direction];
}

struct content *content_new(struct mk_policies *policies, const struct content *head,
			    const struct mk_policy_rules *from)
{
	struct content *content = memory_new(sizeof(*content));

	*content = *head;
	content->store.texts = &policies->texts;
	content->references = 1;
	content->namespace_ = store_text(&content->store, head->namespace_);
	content->name = store_text(&content->store, head->name);
	content->rule_count = from->count;
	content->rules = store_new(&content->store, from->count * sizeof(*content->rules));
	for (size_t i = 0; i < from->count; i++)
		make_rule(content, policies, &content->rules[i], &from->of[i]);
	content->digest = digest(content, policies->hash_key);
	return content;
}

static void copy_selectors(const struct mk_model *model, const struct policy *policy,
			   struct policy_copy *copy)
{
	const struct mk_cluster_policy *cluster;

	if (policy->space) {
		copy->pods = copy_selector(
			&copy->store,
			&mk_model_network_policy(model, policy->space->name, policy->name)->pods);
		return;
	}
	cluster = mk_model_cluster_policy(model, policy->name);
	copy->namespaces = copy_selector(&copy->store, &cluster->namespaces);
	copy->pods = copy_selector(&copy->store, &cluster->pods);
}

const struct policy_copy *copy_of(struct mk_policies *policies, struct policy *policy)
{
	if (policy->copy)
		return policy->copy;
	policy->copy = memory_new(sizeof(*policy->copy));
	policy->copy->store.texts = &policies->texts;
	copy_selectors(policies->model, policy, policy->copy);
	return policy->copy;
}

struct content *content_of(struct mk_policies *policies, struct policy *policy,
			   enum mk_policy_direction direction)
{
	const struct content head = { .direction = direction,
				      .tier = policy->tier,
				      .audited = policy->audited,
				      .namespace_ = policy->space ? policy->space->name : "",
				      .name = policy->name };
	struct content **content = &policy->copy->content[direction];

	if (!*content)
		*content =
			content_new(policies, &head, rules_of(policies->model, policy, direction));
	return *content;
}

void content_put(struct content *content)
{
	if (!content || --content->references > 0)
		return;
	store_release(&content->store);
	free(content);
}
