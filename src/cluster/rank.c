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

unsigned int kube_rank(const struct mk_kube *kube, const char *key)
{
	uint64_t own_hash = hash_of(key, kube->node_name);
	unsigned int before = 0;
	bool is_ready = false; /* this node */

	mk_model_each(struct mk_node_object, node, kube->model, MK_KIND_NODE) {
		if (!node->ready)
			continue;
		if (strcmp(node->name, kube->node_name) == 0)
			is_ready = true;
		else if (hash_of(key, node->name) < own_hash)
			before++;
	}
	return is_ready ? before : UINT_MAX;
}
