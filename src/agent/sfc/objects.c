// SPDX-License-Identifier: Apache-2.0
/* What src/sfc compiles, from the model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "agent/sfc/objects.h"

struct gathering {
	struct sfc_objects *objects;
	const struct mk_core *core;
	const struct node_ports *ports;
	const struct node_macs *macs;
};

/* The order of precedence. If there are too many chains, the last ones get no number. */
static int compare_chains(const void *left, const void *right)
{
	const struct mk_chain *a = *(const struct mk_chain *const *)left,
			      *b = *(const struct mk_chain *const *)right;
	int order;

	if (a->priority != b->priority)
		return (int)b->priority - (int)a->priority;
	if (a->created_unix_s != b->created_unix_s)
		return a->created_unix_s < b->created_unix_s ? -1 : 1;
	order = strcmp(a->namespace_, b->namespace_);
	return order ? order : strcmp(a->name, b->name);
}

/* A function, and the first chain in force that has it. */
struct owner {
	char key[2 * MK_OBJECT_NAME_SIZE]; /* NAMESPACE/FUNCTION */
	const struct mk_chain *chain;
	UT_hash_handle hh;
};

static struct owner *find_owner(struct owner *all, const struct mk_chain *chain, size_t place)
{
	char key[2 * MK_OBJECT_NAME_SIZE];
	struct owner *owner;

	snprintf(key, sizeof(key), "%s/%s", chain->namespace_, mk_chain_at(chain, place)->name);
	HASH_FIND_STR(all, key, owner);
	return owner;
}

static int own_functions(struct owner **all, const struct mk_chain *chain)
{
	for (size_t i = 0; i < mk_chain_length(chain); i++) {
		struct owner *owner;

		if (find_owner(*all, chain, i))
			continue;
		owner = calloc(1, sizeof(*owner));
		if (!owner)
			return -ENOMEM;
		owner->chain = chain;
		snprintf(owner->key, sizeof(owner->key), "%s/%s", chain->namespace_,
			 mk_chain_at(chain, i)->name);
		HASH_ADD_STR(*all, key, owner);
	}
	return 0;
}

static struct sfc_conflict conflict_of(struct owner *all, const struct mk_chain *chain)
{
	for (size_t i = 0; i < mk_chain_length(chain); i++) {
		const struct owner *owner = find_owner(all, chain, i);

		if (owner && (chain->has_ends || owner->chain->has_ends))
			return (struct sfc_conflict){ owner->chain, mk_chain_at(chain, i)->name };
	}
	return (struct sfc_conflict){ 0 };
}

static bool has_ends(const struct sfc_objects *objects)
{
	for (size_t i = 0; i < objects->chain_count; i++)
		if (objects->chains_of[i]->has_ends)
			return true;
	return false;
}

/* A port of a function has one chain with ends at most, which is all that its packets are asked
 * for: so such a chain shares no function. The chain that precedes has it. */
static int find_conflicts(struct sfc_objects *objects)
{
	struct owner *all = NULL, *owner, *next;
	int ret = 0;

	if (!has_ends(objects))
		return 0;
	for (size_t i = 0; ret == 0 && i < objects->chain_count; i++) {
		objects->conflicts[i] = conflict_of(all, objects->chains_of[i]);
		if (!objects->conflicts[i].with)
			ret = own_functions(&all, objects->chains_of[i]);
	}
	HASH_ITER(hh, all, owner, next) {
		HASH_DEL(all, owner);
		free(owner);
	}
	return ret;
}

static uint8_t flags_of(const struct mk_chain_function *function)
{
	uint8_t flags = 0;

	if (function->skips)
		flags |= MK_SFC_SKIP;
	if (function->drops_lost)
		flags |= MK_SFC_KEEP_LOST;
	if (function->hash_by == MK_CHAIN_BY_POD)
		flags |= MK_SFC_HASH_POD;
	if (function->hash_by == MK_CHAIN_BY_PEER)
		flags |= MK_SFC_HASH_PEER;
	return flags;
}

static void fill_chain(struct mk_sfc_chain_object *to, const struct mk_chain *chain,
		       const struct sfc_conflict *conflict)
{
	*to = (struct mk_sfc_chain_object){
		.uid = chain->uid,
		.namespace_ = chain->namespace_,
		.name = chain->name,
		.function_count = chain->function_count,
		.leaves_open_flows = chain->leaves_open_flows,
		.is_refused = conflict->with,
	};
	for (size_t side = 0; chain->has_ends && side < MK_SFC_SIDES; side++)
		to->ends[side] = chain->functions[chain->function_count + side].name;
	for (size_t i = 0; i < chain->function_count; i++) {
		to->functions[i].name = chain->functions[i].name;
		to->functions[i].flags = flags_of(&chain->functions[i]);
		to->functions[i].is_tap = chain->functions[i].is_tap;
		to->functions[i].local_weight = chain->functions[i].local_weight;
	}
}

/* A Pod of a file may have no UID: its name stands for it. */
static const char *uid_of(struct sfc_objects *objects, const struct mk_function_pod *pod)
{
	char *name = objects->names + objects->pod_count * (2 * MK_OBJECT_NAME_SIZE);

	if (pod->uid)
		return pod->uid;
	snprintf(name, 2 * MK_OBJECT_NAME_SIZE, "%s/%s", pod->namespace_, pod->name);
	return name;
}

enum mk_port_mode objects_mode(bool is_tap, bool is_end)
{
	if (is_tap)
		return MK_PORT_TAP;
	return is_end ? MK_PORT_END : MK_PORT_NONE;
}

static void add_pod(void *ctx, const struct mk_function_pod *pod)
{
	const struct gathering *gathering = ctx;
	struct sfc_objects *objects = gathering->objects;
	const char *node = gathering->core->config.node_name;
	struct mk_sfc_pod_object *to = &objects->pods[objects->pod_count];
	const struct sandbox_ports *ports = NULL;

	if (pod->host_network)
		return;
	*to = (struct mk_sfc_pod_object){
		.uid = uid_of(objects, pod),
		.namespace_ = pod->namespace_,
		.name = pod->name,
		.function = pod->function,
		.ready = pod->ready && !pod->finished,
		.deleting = pod->deleting,
		.is_bound = pod->node_name != NULL,
		.is_here = pod->node_name && strcmp(pod->node_name, node) == 0,
		.asks_for_ports = pod->asks_for_ports,
		.mode = objects_mode(pod->is_tap, pod->is_end),
		.weight = pod->weight,
	};
	memcpy(to->ips, pod->ips, sizeof(to->ips));
	if (to->is_bound && !to->is_here)
		to->vtep_mac = node_mac_of(gathering->macs, pod->node_name);
	if (to->is_here)
		ports = node_ports_of(gathering->ports, pod);
	if (ports) {
		memcpy(to->ifindex, ports->ifindex, sizeof(to->ifindex));
		to->mode = ports->mode;
	}
	objects->pods_of[objects->pod_count++] = *pod;
}

static bool make_room(struct gathering *gathering)
{
	struct sfc_objects *objects = gathering->objects;
	size_t chains = mk_model_count(gathering->core->model, MK_KIND_CHAIN) + 1;
	size_t pods = mk_model_function_pods(gathering->core->model) + 1;

	objects->chains = calloc(chains, sizeof(*objects->chains));
	objects->chains_of = calloc(chains, sizeof(*objects->chains_of));
	objects->conflicts = calloc(chains, sizeof(*objects->conflicts));
	objects->pods = calloc(pods, sizeof(*objects->pods));
	objects->pods_of = calloc(pods, sizeof(*objects->pods_of));
	objects->names =
		calloc(pods, 2 * MK_OBJECT_NAME_SIZE); /* pages without a name stay unused */
	return objects->chains && objects->chains_of && objects->conflicts && objects->pods &&
	       objects->pods_of && objects->names;
}

int objects_get(struct sfc_objects *objects, const struct mk_core *core,
		const struct node_ports *ports, const struct node_macs *macs, struct mk_error *err)
{
	struct gathering gathering = {
		.objects = objects, .core = core, .ports = ports, .macs = macs
	};
	const struct mk_model *model = core->model;

	*objects = (struct sfc_objects){ 0 };
	if (!make_room(&gathering)) {
		objects_release(objects);
		return mk_error_errno(err, ENOMEM, "%zu chains and %zu function pods",
				      mk_model_count(model, MK_KIND_CHAIN),
				      mk_model_function_pods(model));
	}
	mk_model_each(struct mk_chain, chain, model, MK_KIND_CHAIN)
		objects->chains_of[objects->chain_count++] = chain;
	qsort(objects->chains_of, objects->chain_count, sizeof(*objects->chains_of),
	      compare_chains);
	if (find_conflicts(objects) < 0) {
		objects_release(objects);
		return mk_error_errno(err, ENOMEM, "functions of chains");
	}
	for (size_t i = 0; i < objects->chain_count; i++)
		fill_chain(&objects->chains[i], objects->chains_of[i], &objects->conflicts[i]);
	mk_model_each_function_pod(model, add_pod, &gathering);
	return 0;
}

void objects_release(struct sfc_objects *objects)
{
	free(objects->chains);
	free(objects->chains_of);
	free(objects->conflicts);
	free(objects->pods);
	free(objects->pods_of);
	free(objects->names);
	*objects = (struct sfc_objects){ 0 };
}
