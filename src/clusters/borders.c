// SPDX-License-Identifier: Apache-2.0
/* Border nodes of this cluster: which of them carries this node's packets to other clusters. */
#include <stdlib.h>
#include <string.h>

#include "base/index.h"
#include "clusters/clusters_internal.h"

/* The value of the row: the last four bytes of the VTEP MAC address. */
static uint32_t value_of(const struct mk_clusters_border *border)
{
	uint32_t value;

	memcpy(&value, &border->vtep_mac.byte[2], sizeof(value));
	return value;
}

static struct mk_clusters_target target_of(const struct clusters_work *work,
					   const struct mk_clusters_border *border)
{
	const struct mk_clusters_own *own = work->own;
	struct mk_clusters_target target = {
		.peer = work->count, .node = border->node, .ip = border->ip, .is_direct = true
	};

	target.is_live =
		!own->is_live || own->is_live(own->ctx, &target, own->number, value_of(border));
	return target;
}

static uint32_t rank_of(const char *node, const char *border)
{
	const uint32_t both[] = { mk_index_hash(node, strlen(node)),
				  mk_index_hash(border, strlen(border)) };

	return mk_index_hash(both, sizeof(both));
}

/* Choose by rendezvous hash, so the other nodes keep theirs when one comes or goes. If none is
 * live, all count: a filter that drops probes must not cut traffic. */
static const struct mk_clusters_border *choose(const struct clusters_work *work)
{
	const struct mk_clusters_own *own = work->own;
	const struct mk_clusters_border *best = NULL;
	bool best_is_live = false;
	uint32_t best_rank = 0;

	for (size_t i = 0; i < own->border_count; i++) {
		const struct mk_clusters_border *border = &own->borders[i];
		bool is_live = target_of(work, border).is_live;
		uint32_t rank = rank_of(own->node, border->node);

		if (best &&
		    (best_is_live > is_live || (best_is_live == is_live && best_rank >= rank)))
			continue;
		best = border;
		best_is_live = is_live;
		best_rank = rank;
	}
	return best;
}

int clusters_add_border(struct clusters_work *work)
{
	const struct mk_clusters_border *border = work->own->by_border ? choose(work) : NULL;
	struct mk_clusters_rows *rows = work->rows;

	if (!border)
		return 0;
	rows->border = strdup(border->node);
	if (!rows->border)
		return -ENOMEM;
	rows->nodes[rows->node_count++] = (struct mk_clusters_hop){
		.key = { work->own->number, MK_CLUSTER_BY_INDEX },
		.hop = value_of(border),
	};
	return 0;
}

int clusters_add_border_targets(struct clusters_work *work)
{
	const struct mk_clusters_own *own = work->own;
	struct mk_clusters_rows *rows = work->rows;
	struct mk_clusters_target *more;

	if (!own->by_border)
		return 0;
	more = reallocarray(rows->targets, rows->target_count + own->border_count + 1,
			    sizeof(*more));
	if (!more)
		return -ENOMEM;
	rows->targets = more;
	for (size_t i = 0; i < own->border_count; i++)
		more[rows->target_count++] = target_of(work, &own->borders[i]);
	return 0;
}
