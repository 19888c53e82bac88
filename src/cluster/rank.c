// SPDX-License-Identifier: Apache-2.0
/* Choose few of many agents without asking: every agent computes the same order of the Ready
 * Nodes, another one for each key. */
#include <limits.h>
#include <string.h>

#include "cluster/kube_internal.h"

/* FNV-1a, and the finalizer of SplitMix64: names of nodes differ in their last characters. */
static uint64_t hash_of(const char *key, const char *node)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *key; key++)
		hash = (hash ^ (uint8_t)*key) * 0x100000001b3;
	for (; *node; node++)
		hash = (hash ^ (uint8_t)*node) * 0x100000001b3;
	hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9;
	hash = (hash ^ hash >> 27) * 0x94d049bb133111eb;
	return hash ^ hash >> 31;
}

struct ranking {
	const char *key, *own_node;
	uint64_t own_hash;
	unsigned int before;
	bool is_ready; /* this node */
};

static void rank_node(void *ctx, const struct mk_node_object *node)
{
	struct ranking *ranking = ctx;

	if (!node->ready)
		return;
	if (strcmp(node->name, ranking->own_node) == 0)
		ranking->is_ready = true;
	else if (hash_of(ranking->key, node->name) < ranking->own_hash)
		ranking->before++;
}

unsigned int kube_rank(const struct mk_kube *kube, const char *key)
{
	struct ranking ranking = { .key = key, .own_node = kube->node_name };

	ranking.own_hash = hash_of(key, kube->node_name);
	mk_model_each_node(kube->model, rank_node, &ranking);
	return ranking.is_ready ? ranking.before : UINT_MAX;
}
