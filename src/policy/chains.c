// SPDX-License-Identifier: Apache-2.0
/* Service function chains. A chain is one rule of each set of the pods that it takes: the first one
 * that matches takes the flow. It neither allows nor denies anything. */
#include <stdlib.h>
#include <string.h>

#include "policy/compiler.h"

/* ---- which pods ------------------------------------------------------------------------------ */

/* May @chain take pods of @space? Its own namespace needs no consent. */
static bool reaches(const struct chain *chain, const struct space *space)
{
	bool own = strcmp(chain->namespace_, space->name) == 0;

	if (!chain->has_namespaces)
		return own;
	return (own || mk_selector_matches(&chain->consent, &space->labels)) &&
	       mk_selector_matches(&chain->namespaces, &space->labels);
}

/* A chain never takes the pods of its own functions. */
static bool is_replica(const struct chain *chain, const struct subject *subject)
{
	return strcmp(chain->namespace_, subject->namespace_) == 0 &&
	       mk_selector_matches(&chain->replicas, &subject->labels);
}

void select_chains(const struct mk_policies *policies, struct selection *selection,
		   const struct subject *subject, enum mk_policy_direction direction)
{
	const struct chain *chain;

	DL_FOREACH(policies->chains, chain)
		if (chain->content[direction] && reaches(chain, subject->space) &&
		    mk_selector_matches(&chain->pods, &subject->labels) &&
		    !is_replica(chain, subject))
			selection_add(selection, chain->content[direction]);
}

uint32_t chain_directions(const struct mk_policies *policies, const struct space *space)
{
	const struct chain *chain;
	uint32_t directions = 0;

	DL_FOREACH(policies->chains, chain)
		if (chain->holds && reaches(chain, space))
			for (int i = 0; i < MK_POLICY_DIRECTIONS; i++)
				directions |= (uint32_t)(chain->content[i] != NULL) << i;
	return directions;
}

bool has_holding_chains(const struct mk_policies *policies)
{
	const struct chain *chain;

	DL_FOREACH(policies->chains, chain)
		if (chain->holds)
			return true;
	return false;
}

/* ---- one chain ------------------------------------------------------------------------------- */

static struct mk_selector one_of(struct store *store, const char *key, size_t count)
{
	struct mk_requirement *requirement = store_new(store, sizeof(*requirement));

	*requirement = (struct mk_requirement){ .key = store_text(store, key),
						.op = MK_OPERATOR_IN,
						.value_count = count };
	requirement->values = store_new(store, count * sizeof(*requirement->values));
	return (struct mk_selector){ .requirements = requirement, .count = 1 };
}

/* A Service selects pods that have all of its labels. */
static struct mk_selector all_of(struct store *store, const struct mk_labels *labels)
{
	struct mk_requirement *requirements =
		store_new(store, labels->count * sizeof(*requirements));

	for (size_t i = 0; i < labels->count; i++) {
		requirements[i] = (struct mk_requirement){
			.key = store_text(store, labels->of[i].key),
			.op = MK_OPERATOR_IN,
			.values = store_new(store, sizeof(*requirements->values)),
			.value_count = 1,
		};
		requirements[i].values[0] = store_text(store, labels->of[i].value);
	}
	return (struct mk_selector){ .requirements = requirements, .count = labels->count };
}

static void copy_selectors(struct chain *to, const struct mk_chain *from,
			   const struct mk_service_object *service)
{
	struct store *store = &to->store;

	to->has_namespaces = from->has_namespaces;
	to->namespaces = copy_selector(store, &from->namespaces);
	to->pods = service ? all_of(store, &service->selector) : copy_selector(store, &from->pods);
	to->consent = one_of(store, MK_CHAINED_BY_LABEL, 1);
	to->consent.requirements->values[0] = to->namespace_;
	to->replicas = one_of(store, MK_FUNCTION_LABEL, from->function_count);
	for (size_t i = 0; i < from->function_count; i++)
		to->replicas.requirements->values[i] = store_text(store, from->functions[i].name);
}

/* A chain whose functions can all be left out holds no pod until it is known. */
static bool holds(const struct mk_chain *chain)
{
	for (size_t i = 0; i < chain->function_count; i++)
		if (!chain->functions[i].skips)
			return true;
	return false;
}

/* The peers of @from, and the target ports of @service. A name is of a port of each pod. */
static struct content *content_of_service(struct mk_policies *policies, const struct content *head,
					  const struct mk_policy_rules *from,
					  const struct mk_service_object *service)
{
	cleanup_free struct mk_policy_port_object *ports =
		memory_new(service->port_count * sizeof(*ports));
	struct mk_policy_rule_object rule = *from->of;

	for (size_t i = 0; i < service->port_count; i++)
		ports[i] = (struct mk_policy_port_object){
			.valid = true,
			.proto = service->ports[i].proto,
			.first = service->ports[i].target_port,
			.last = service->ports[i].target_port,
			.name = service->ports[i].target_name,
		};
	rule.ports = ports;
	rule.port_count = (uint32_t)service->port_count;
	return content_new(policies, head, &(struct mk_policy_rules){ .of = &rule, .count = 1 });
}

static struct content *chain_content(struct mk_policies *policies, const struct content *head,
				     const struct mk_chain *object,
				     const struct mk_service_object *service)
{
	return service ? content_of_service(policies, head, &object->rules, service)
		       : content_new(policies, head, &object->rules);
}

/* A chain whose Service gives it no pod takes no flow, and holds no pod. */
static struct chain *chain_new(struct mk_policies *policies, const struct mk_policy_chain *from)
{
	const struct mk_chain *object = from->chain;
	const struct mk_service_object *service = NULL;
	bool takes = !object->service || mk_chain_service(policies->model, object, &service) ==
						 MK_CHAIN_SERVICE_SELECTS;
	struct chain *chain = memory_new(sizeof(*chain));

	chain->store.texts = &policies->texts;
	chain->namespace_ = store_text(&chain->store, object->namespace_);
	chain->name = store_text(&chain->store, object->name);
	chain->priority = object->priority;
	chain->created_unix_s = object->created_unix_s;
	chain->holds = takes && holds(object);
	copy_selectors(chain, object, service);
	for (int i = 0; i < MK_POLICY_DIRECTIONS; i++) {
		const struct content head = { .direction = (enum mk_policy_direction)i,
					      .tier = TIER_CHAIN,
					      .namespace_ = chain->namespace_,
					      .name = chain->name,
					      .chain_id = from->id };

		if (takes && object->applies[i])
			chain->content[i] = chain_content(policies, &head, object, service);
	}
	return chain;
}

static void chain_free(struct chain *chain)
{
	for (int i = 0; i < MK_POLICY_DIRECTIONS; i++)
		content_put(chain->content[i]);
	store_release(&chain->store);
	free(chain);
}

/* The digest has all that decides which flows the chain takes, and in which order. */
static uint64_t digest(const struct mk_policies *policies, const struct chain *chain)
{
	cleanup_bytes struct bytes bytes = { 0 };

	bytes_put_text(&bytes, chain->namespace_);
	bytes_put_text(&bytes, chain->name);
	bytes_put_number(&bytes, (uint64_t)chain->created_unix_s);
	bytes_put_number(&bytes, (uint64_t)chain->priority << 2 |
					 (uint64_t)chain->has_namespaces << 1 | chain->holds);
	bytes_put_selector(&bytes, &chain->namespaces);
	bytes_put_selector(&bytes, &chain->pods);
	bytes_put_selector(&bytes, &chain->replicas);
	for (int i = 0; i < MK_POLICY_DIRECTIONS; i++)
		bytes_put_number(&bytes, chain->content[i] ? chain->content[i]->digest : 0);
	return mk_siphash(policies->hash_key, bytes.at, bytes.count);
}

/* ---- all chains ------------------------------------------------------------------------------ */

static int order_of(const struct chain *a, const struct chain *b)
{
	int order = (int)b->priority - a->priority;

	if (order == 0)
		order = (a->created_unix_s > b->created_unix_s) -
			(a->created_unix_s < b->created_unix_s);
	order = order ?: strcmp(a->namespace_, b->namespace_);
	return order ?: strcmp(a->name, b->name);
}

static int compare_chains(const void *a, const void *b)
{
	return order_of(*(struct chain *const *)a, *(struct chain *const *)b);
}

static void free_all(struct mk_policies *policies)
{
	struct chain *chain, *next;

	DL_FOREACH_SAFE(policies->chains, chain, next) {
		DL_DELETE(policies->chains, chain);
		chain_free(chain);
	}
	policies->chain_count = 0;
}

/* Chains change rarely, and there are at most 1,023: any change concerns all pods of this node. */
static void concern(struct mk_policies *policies)
{
	struct subject *subject, *next;

	policies->changed = policies->cluster_changed = true;
	HASH_ITER(hh, policies->subjects, subject, next)
		subject->dirty = true;
}

static uint64_t digest_all(const struct mk_policies *policies, struct chain *const *chains,
			   size_t count)
{
	cleanup_bytes struct bytes bytes = { 0 };

	for (size_t i = 0; i < count; i++)
		bytes_put_number(&bytes, digest(policies, chains[i]));
	return count > 0 ? mk_siphash(policies->hash_key, bytes.at, bytes.count) : 0;
}

void mk_policies_set_chains(struct mk_policies *policies, const struct mk_policy_chain *chains,
			    size_t count)
{
	cleanup_free struct chain **list = memory_new(count * sizeof(struct chain *));
	uint64_t all;

	for (size_t i = 0; i < count; i++)
		list[i] = chain_new(policies, &chains[i]);
	qsort(list, count, sizeof(struct chain *), compare_chains);
	all = digest_all(policies, list, count);
	if (all == policies->chains_digest) {
		for (size_t i = 0; i < count; i++)
			chain_free(list[i]);
		return;
	}
	free_all(policies);
	policies->chains_digest = all;
	policies->chain_count = count;
	for (size_t i = 0; i < count; i++)
		DL_APPEND(policies->chains, list[i]);
	concern(policies);
}

void chains_release(struct mk_policies *policies)
{
	free_all(policies);
}
