// SPDX-License-Identifier: Apache-2.0
#include "agent/clusters/probe.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/time.h"

static void take_answer(void *ctx, const struct mk_probe_answer *answer)
{
	(void)mk_probes_answer(ctx, &answer->from, answer->nonce, answer->at_ns);
}

unsigned int probes_turn(struct clusters_probes *probes)
{
	const struct mk_probe *list;
	unsigned int news;
	size_t count;

	if (!probes)
		return 0;
	mk_probe_read(&probes->sockets, take_answer, probes->state);
	news = mk_probes_next(probes->state, &list, &count);
	for (size_t i = 0; i < count; i++) {
		mk_probes_sent(probes->state, i, mk_time_ns(CLOCK_REALTIME));
		mk_probe_send(&probes->sockets, &list[i], 0);
	}
	return news;
}

/* ---- paths ----------------------------------------------------------------------------------- */

/* The first target of @peer or of a later one. */
static size_t first_target(const struct mk_clusters_rows *rows, size_t peer)
{
	size_t low = 0, high = rows->target_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (rows->targets[middle].peer < peer)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The same node in the family that gets probes, or NULL. */
static const struct mk_clusters_target *find_first(const struct mk_clusters_rows *rows,
						   const struct mk_clusters_target *target)
{
	if (!rows)
		return NULL;
	for (size_t i = first_target(rows, target->peer);
	     i < rows->target_count && rows->targets[i].peer == target->peer; i++)
		if (strcmp(rows->targets[i].node, target->node) == 0)
			return &rows->targets[i];
	return NULL;
}

/* Both families of a node have one path: their carriers have the same addresses. */
bool probes_find_direct(const void *ctx, const struct mk_clusters_target *target,
			const struct mk_cluster_node_key *key)
{
	const struct probes_known *known = ctx;
	const struct mk_clusters_target *first = find_first(known->first, target);

	if (first)
		return first->is_direct;
	if (known->probes)
		return mk_probes_is_live(known->probes->state, &target->ip);
	return known->sync && mk_clusters_sync_sends_to(known->sync, key);
}

bool probes_find_live(const void *ctx, const struct mk_clusters_target *target, uint32_t number,
		      uint32_t hop)
{
	const struct probes_known *known = ctx;
	const struct mk_clusters_target *first = find_first(known->first, target);
	bool keeps = number & MK_CLUSTER_EXTERNAL;

	if (first)
		return keeps ? first->keeps : first->is_live;
	if (known->probes)
		return (keeps ? mk_probes_keeps : mk_probes_is_live)(known->probes->state,
								     &target->ip);
	return !known->sync || mk_clusters_sync_spreads_to(known->sync, number, hop);
}

uint16_t probes_find_mtu(const void *ctx, const struct mk_clusters_peer *peer, uint32_t number)
{
	const struct probes_known *known = ctx;

	if (known->probes)
		return probes_state(known->probes, peer->name).mtu_bytes;
	return known->sync ? mk_clusters_sync_mtu(known->sync, number) : 0;
}

/* ---- peers ----------------------------------------------------------------------------------- */

static int start(struct clusters_probes **probes, const char *node, struct mk_error *err)
{
	uint64_t seed;

	if (*probes)
		return 0;
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return mk_error_errno(err, errno, "cannot get random bytes for probes");
	*probes = calloc(1, sizeof(**probes));
	if (*probes)
		(*probes)->state = mk_probes_new(seed, node);
	if (*probes && (*probes)->state) {
		(*probes)->sockets = MK_PROBE_SOCKETS_CLOSED;
		return 0;
	}
	free(*probes);
	*probes = NULL;
	return mk_error_errno(err, ENOMEM, "probes");
}

struct targets {
	struct mk_ip *ips;
	bool *live, *keeps;
	const char **names;
};

/* Add the targets of peer @index, which are at *@next in @rows, and return how many. */
static size_t add_targets(const struct mk_clusters_rows *rows, size_t index, size_t *next,
			  const struct targets *into, bool tries)
{
	size_t count = 0;

	for (; rows && *next < rows->target_count && rows->targets[*next].peer <= index; ++*next) {
		const struct mk_clusters_target *target = &rows->targets[*next];

		into->ips[count] = target->ip;
		into->names[count] = target->node;
		into->keeps[count] = target->keeps;
		into->live[count++] = tries ? target->is_direct : target->is_live;
	}
	return count;
}

/* Carriers of both families are alike, so both have one MTU. */
static void set_mtu(struct mk_probes_peer *peer, const struct clusters_result *result, size_t index)
{
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		const struct mk_clusters_state *state =
			result->rows[i] ? &result->rows[i]->states[index] : NULL;

		if (!state || !state->mtu_bytes)
			continue;
		peer->mtu_bytes = state->mtu_bytes;
		peer->known_mtu_bytes = state->path_mtu_bytes;
	}
}

/* The last one has the border nodes of this cluster. */
static struct mk_probes_peer peer_of(const struct clusters_result *result, size_t index)
{
	const struct mk_clusters_peer *of = &result->objects->peers[0][index];
	bool own_way;

	if (index == result->objects->count)
		return (struct mk_probes_peer){ .name = PROBES_BORDERS };
	own_way = !of->via || of->path == MK_CLUSTERS_PATH_DIRECT;
	return (struct mk_probes_peer){ .name = of->name,
					.via = own_way ? NULL : of->via,
					.tries = !own_way && of->path };
}

/* The nodes of the first family that has some. */
static void fill(struct mk_probes_peer *peers, const struct clusters_result *result,
		 struct targets to)
{
	size_t next[MK_FAMILIES] = { 0 };

	for (size_t i = 0; i <= result->objects->count; i++) {
		peers[i] = peer_of(result, i);
		peers[i].nodes = to.ips;
		peers[i].live = to.live;
		peers[i].keeps = to.keeps;
		peers[i].names = to.names;
		if (i < result->objects->count)
			set_mtu(&peers[i], result, i);
		for (size_t j = 0; j < MK_FAMILIES; j++) {
			size_t had = peers[i].node_count;
			struct targets into = { to.ips + had, to.live + had, to.keeps + had,
						to.names + had };
			size_t count =
				add_targets(result->rows[j], i, &next[j], &into, peers[i].tries);

			peers[i].node_count = had ?: count;
		}
		to.ips += peers[i].node_count;
		to.live += peers[i].node_count;
		to.keeps += peers[i].node_count;
		to.names += peers[i].node_count;
	}
}

int probes_set(struct clusters_probes **probes, const struct clusters_result *result,
	       const char *node, struct mk_error *err)
{
	size_t room = 1, count = result->objects->count + 1;
	cleanup_free struct mk_probes_peer *peers = calloc(count + 1, sizeof(*peers));
	cleanup_free struct mk_ip *ips = NULL;
	cleanup_free bool *live = NULL; /* and which ones keep flows */
	cleanup_free const char **names = NULL;
	int ret;

	for (size_t i = 0; i < MK_FAMILIES; i++)
		room += result->rows[i] ? result->rows[i]->target_count : 0;
	ips = calloc(room, sizeof(*ips));
	live = calloc(2 * room, sizeof(*live));
	names = calloc(room, sizeof(*names));
	if (!peers || !ips || !live || !names)
		return mk_error_errno(err, ENOMEM, "probes of %zu peers", count);
	fill(peers, result, (struct targets){ ips, live, live + room, names });
	ret = start(probes, node, err);
	return ret ?: mk_probes_set((*probes)->state, peers, count, err);
}

struct mk_probes_state probes_state(const struct clusters_probes *probes, const char *peer)
{
	struct mk_probes_state state = { 0 };

	if (probes)
		(void)mk_probes_get(probes->state, peer, &state);
	return state;
}

void probes_free(struct clusters_probes *probes)
{
	if (!probes)
		return;
	mk_probes_free(probes->state);
	mk_probe_close(&probes->sockets);
	free(probes);
}
