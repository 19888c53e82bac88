// SPDX-License-Identifier: Apache-2.0
/* Namespaces and policies: what changed in the model, and which subjects it concerns. */
#include <stdlib.h>
#include <string.h>

#include "policy/compiler.h"

/* ---- namespaces ------------------------------------------------------------------------------ */

struct space *space_get(struct mk_policies *policies, const char *name)
{
	struct space *space;

	HASH_FIND_STR(policies->spaces, name, space);
	if (space)
		return space;
	space = memory_new(sizeof(*space));
	space->label_store.texts = &policies->texts;
	space->name = text_get(&policies->texts, name);
	HASH_ADD_KEYPTR(hh, policies->spaces, space->name, strlen(space->name), space);
	return space;
}

static void subjects_dirty(struct subject *subjects)
{
	struct subject *subject;

	DL_FOREACH(subjects, subject)
		subject->dirty = true;
}

void look_at_namespace(struct mk_policies *policies, const char *name)
{
	const struct mk_namespace_object *object = mk_model_namespace(policies->model, name);
	struct space *space;

	HASH_FIND_STR(policies->spaces, name, space);
	if (!space && !object)
		return;
	space = space_get(policies, name);
	if (space->known != !!object) /* its pods get classes, or lose them */
		policies->keys_changed = true;
	space->known = object;
	space->changed = true;
	store_release(&space->label_store);
	space->labels = object ? copy_labels(&space->label_store, &object->labels)
			       : (struct mk_labels){ 0 };
	subjects_dirty(space->subjects);
}

uint32_t space_directions(struct mk_policies *policies, const struct space *space)
{
	struct policy *policy;
	uint32_t directions = 0;

	DL_FOREACH(space->policies, policy)
		for (int i = 0; i < MK_POLICY_DIRECTIONS; i++)
			directions |= (uint32_t)(policy->applies[i] && !policy->audited) << i;
	DL_FOREACH(policies->cluster_policies, policy)
		if (!policy->audited &&
		    mk_selector_matches(&copy_of(policies, policy)->namespaces, &space->labels))
			return (1U << MK_POLICY_DIRECTIONS) - 1;
	return directions | chain_directions(policies, space);
}

static void report_namespace(struct mk_policies *policies, struct space *space)
{
	struct mk_namespace_row row;

	memset(&row, 0, sizeof(row));
	row.name = space->name;
	if (space->known) {
		row.directions = space_directions(policies, space);
		rows_put(&policies->rows[NAMESPACES], &row);
	} else {
		rows_remove(&policies->rows[NAMESPACES], &row);
	}
}

void report_namespaces(struct mk_policies *policies)
{
	struct space *space, *next;

	HASH_ITER(hh, policies->spaces, space, next)
		if (space->changed || policies->cluster_changed)
			report_namespace(policies, space);
	policies->cluster_changed = false;
}

static void space_free(struct space *space)
{
	text_put(space->label_store.texts, space->name);
	store_release(&space->label_store);
	free(space);
}

void spaces_free_dead(struct space **dead)
{
	struct space *space;

	while ((space = *dead)) {
		*dead = space->next_dead;
		space_free(space);
	}
}

void spaces_sweep(struct mk_policies *policies)
{
	struct space *space, *next;

	HASH_ITER(hh, policies->spaces, space, next) {
		if (!space->changed)
			continue;
		space->changed = false;
		if (space->known || space->policies || space->subjects || space->classes)
			continue;
		HASH_DEL(policies->spaces, space);
		space->next_dead = policies->dead.spaces;
		policies->dead.spaces = space;
	}
}

/* ---- policies -------------------------------------------------------------------------------- */

bool has_policies_in_force(const struct mk_policies *policies)
{
	return policies->policies.count > policies->audited_policies ||
	       has_holding_chains(policies);
}

static int order_of(const struct policy *a, const struct policy *b)
{
	if (a->tier != b->tier)
		return (int)a->tier - (int)b->tier;
	if (a->priority != b->priority)
		return a->priority - b->priority;
	return strcmp(a->name, b->name);
}

static struct policy **list_of(struct mk_policies *policies, struct policy *policy)
{
	return policy->space ? &policy->space->policies : &policies->cluster_policies;
}

/* The subjects that @policy may select look at it again. */
static void concern(struct mk_policies *policies, struct policy *policy)
{
	struct subject *subject, *next;

	if (policy->space) {
		subjects_dirty(policy->space->subjects);
		policy->space->changed = true;
		return;
	}
	policies->cluster_changed = true;
	HASH_ITER(hh, policies->subjects, subject, next)
		subject->dirty = true;
}

/* Sets that have the former content keep it. */
static void forget_copy(struct policy *policy)
{
	if (!policy->copy)
		return;
	for (int i = 0; i < MK_POLICY_DIRECTIONS; i++)
		content_put(policy->copy->content[i]);
	store_release(&policy->copy->store);
	free(policy->copy);
	policy->copy = NULL;
}

static void policy_free(struct mk_policies *policies, struct policy *policy)
{
	DL_DELETE(*list_of(policies, policy), policy);
	mk_index_remove(&policies->policies, &policy->link);
	policies->audited_policies -= policy->audited;
	forget_copy(policy);
	free(policy);
}

static bool has_nodes(const struct mk_policy_rules *rules)
{
	for (size_t i = 0; i < rules->count; i++)
		for (size_t j = 0; j < rules->of[i].peer_count; j++)
			if (rules->of[i].peers[j].kind == MK_PEER_NODES)
				return true;
	return false;
}

/* Rule 48: a policy without rules of a direction does nothing in it. */
static void look_at_cluster_policy(struct policy *policy, const struct mk_cluster_policy *object)
{
	policy->tier = object->tier;
	policy->priority = object->priority;
	for (int i = 0; i < MK_POLICY_DIRECTIONS; i++) {
		policy->applies[i] = object->rules[i].count > 0;
		policy->has_nodes |= has_nodes(&object->rules[i]);
	}
}

static struct policy *policy_of(struct mk_index_link *link)
{
	return link ? mk_index_entry(link, struct policy, link) : NULL;
}

static const char *namespace_of(const struct policy *policy)
{
	return policy->space ? policy->space->name : "";
}

static uint32_t hash_of(const char *namespace_, const char *name)
{
	return mk_index_hash(namespace_, strlen(namespace_)) ^ mk_index_hash(name, strlen(name));
}

static struct policy *policy_find(const struct mk_policies *policies, const char *namespace_,
				  const char *name)
{
	struct mk_index_link *link = mk_index_find(&policies->policies, hash_of(namespace_, name));

	while (link && (strcmp(policy_of(link)->name, name) != 0 ||
			strcmp(namespace_of(policy_of(link)), namespace_) != 0))
		link = mk_index_find_next(link);
	return policy_of(link);
}

static struct policy *policy_new(struct mk_policies *policies, const char *namespace_,
				 const char *name)
{
	struct policy *policy = memory_new(sizeof(*policy) + strlen(name) + 1);

	strcpy(policy->name, name);
	policy->space = *namespace_ ? space_get(policies, namespace_) : NULL;
	if (mk_index_add(&policies->policies, &policy->link, hash_of(namespace_, name)) < 0)
		uthash_fatal("out of memory");
	return policy;
}

void look_at_policy(struct mk_policies *policies, const char *namespace_, const char *name)
{
	const struct mk_network_policy *network =
		*namespace_ ? mk_model_network_policy(policies->model, namespace_, name) : NULL;
	const struct mk_cluster_policy *cluster =
		*namespace_ ? NULL : mk_model_cluster_policy(policies->model, name);
	struct policy *policy = policy_find(policies, namespace_, name);

	if (policy) {
		concern(policies, policy);
		policy_free(policies, policy);
	}
	if (!network && !cluster)
		return;
	policy = policy_new(policies, namespace_, name);
	policy->tier = MK_TIER_NETWORK_POLICY;
	if (network)
		memcpy(policy->applies, network->applies, sizeof(policy->applies));
	else
		look_at_cluster_policy(policy, cluster);
	policy->audited = policies->audit || (network ? network->audited : cluster->audited);
	policies->audited_policies += policy->audited;
	DL_INSERT_INORDER(*list_of(policies, policy), policy, order_of);
	concern(policies, policy);
}

void look_at_nodes(struct mk_policies *policies)
{
	struct policy *policy;

	DL_FOREACH(policies->cluster_policies, policy)
		if (policy->has_nodes) {
			forget_copy(policy);
			concern(policies, policy);
		}
}

void cluster_release(struct mk_policies *policies)
{
	struct mk_index_link *link = mk_index_after(&policies->policies, NULL), *next_link;
	struct space *space, *next;

	for (; link; link = next_link) {
		next_link = mk_index_after(&policies->policies, link);
		policy_free(policies, policy_of(link));
	}
	mk_index_release(&policies->policies);
	HASH_ITER(hh, policies->spaces, space, next) {
		HASH_DEL(policies->spaces, space);
		space_free(space);
	}
}
