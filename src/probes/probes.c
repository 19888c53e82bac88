// SPDX-License-Identifier: Apache-2.0
#include "probes/probes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "probes/path_mtu.h"

#define REMEMBERED   3 /* probes of a node that may still be answered */
#define RTT_MAX_US   10000000 /* more: the clock was set */
#define HURRY_RTT_US 250000 /* half a second shows that a probe is lost */
#define SMOOTHING    8 /* a new round trip counts for one part of so many */

struct node {
	struct mk_ip ip; /* first, for mk_ip_compare() */
	char *name; /* NULL: unknown */
	size_t peer; /* index */
	struct sent {
		uint64_t nonce, at_ns;
	} sent[REMEMBERED]; /* by round; nonce 0: none */
	bool answered; /* in this round */
	bool is_known; /* it has answered, or lost MK_PROBES_BAD probes */
	uint32_t lost, good; /* rounds in a row without answer, and with one */
	uint32_t missed; /* .. without answer, not counting those without one of any node */
	bool tries, is_live, keeps;
	uint32_t rtt_us;
	struct path_mtu mtu;
	uint64_t padded_nonce; /* 0: none */
};

struct peer {
	char *name; /* first, for mk_compare_texts() */
	char *via; /* NULL: none */
	uint32_t bad, good; /* rounds in a row */
	uint32_t good_wanted; /* so many end the next time down */
	bool tries;
	size_t direct; /* nodes, of a peer with @tries */
	struct mk_probes_state state;
};

struct mk_probes {
	uint64_t seed, random; /* for the choice of nodes; for nonces */
	uint64_t rounds;
	struct peer *peers; /* sorted by name */
	size_t peer_count;
	struct node *nodes; /* sorted by address */
	size_t node_count;
	struct mk_probe *list; /* room for two probes of each node */
	bool narrows; /* nodes without probes may count as live */
};

/* ---- random numbers -------------------------------------------------------------------------- */

/* The finalizer of splitmix64. */
static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

static uint64_t next_nonce(struct mk_probes *probes)
{
	probes->random += 0x9e3779b97f4a7c15ULL;
	return mix(probes->random) ?: 1;
}

/* ---- look-ups -------------------------------------------------------------------------------- */

static struct peer *peer_of(const struct mk_probes *probes, const char *name)
{
	return name ? mk_find(&name, probes->peers, probes->peer_count, mk_compare_texts) : NULL;
}

static struct node *node_of(const struct mk_probes *probes, const struct mk_ip *ip)
{
	return mk_find(ip, probes->nodes, probes->node_count, mk_ip_compare);
}

/* ---- which nodes ----------------------------------------------------------------------------- */

static uint64_t rank_of(uint64_t seed, const struct mk_ip *ip)
{
	struct mk_addr addr = mk_ip_to_addr(ip);
	uint64_t rank = seed;

	for (size_t i = 0; i < sizeof(addr.word) / sizeof(addr.word[0]); i++)
		rank = mix(rank ^ addr.word[i]);
	return rank;
}

struct candidate {
	uint64_t rank;
	size_t index;
};

static int compare_candidates(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;

	return (a->rank > b->rank) - (a->rank < b->rank);
}

/* Order the nodes by rank: the first ones get probes. The caller frees the list; NULL: no
 * memory. */
static struct candidate *rank_all(uint64_t seed, const struct mk_probes_peer *peer)
{
	struct candidate *list = calloc(peer->node_count + 1, sizeof(*list));

	for (size_t i = 0; list && i < peer->node_count; i++)
		list[i] = (struct candidate){ rank_of(seed, &peer->nodes[i]), i };
	if (list && peer->node_count)
		qsort(list, peer->node_count, sizeof(*list), compare_candidates);
	return list;
}

/* How many nodes of a peer with @tries may get probes. */
static size_t share_of(const struct mk_probes_peer *peers, size_t count)
{
	size_t tries = 0, nodes = 0;

	for (size_t i = 0; i < count; i++) {
		tries += peers[i].tries;
		nodes += peers[i].tries ? peers[i].node_count : 0;
	}
	if (nodes <= MK_PROBES_TRIED || MK_PROBES_TRIED / tries < MK_PROBES_NODES)
		return nodes <= MK_PROBES_TRIED ? nodes : MK_PROBES_NODES;
	return MK_PROBES_TRIED / tries;
}

static size_t most_of(const struct mk_probes_peer *peer, size_t share)
{
	size_t most = peer->tries ? share : MK_PROBES_NODES;

	return peer->node_count < most ? peer->node_count : most;
}

/* ---- all peers ------------------------------------------------------------------------------- */

static void release(struct mk_probes *probes)
{
	for (size_t i = 0; i < probes->peer_count; i++) {
		free(probes->peers[i].name);
		free(probes->peers[i].via);
	}
	for (size_t i = 0; i < probes->node_count; i++)
		free(probes->nodes[i].name);
	free(probes->peers);
	free(probes->nodes);
	free(probes->list);
}

/* A hash of @text (FNV-1a). */
static uint64_t hash_of(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325ULL;

	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * 0x100000001b3ULL;
	return mix(hash);
}

struct mk_probes *mk_probes_new(uint64_t seed, const char *node)
{
	struct mk_probes *probes = calloc(1, sizeof(*probes));

	if (probes) {
		probes->seed = hash_of(node);
		probes->random = mix(~seed);
	}
	return probes;
}

void mk_probes_free(struct mk_probes *probes)
{
	if (probes)
		release(probes);
	free(probes);
}

static int add_peer(struct mk_probes *next, const struct mk_probes *old,
		    const struct mk_probes_peer *from)
{
	struct peer *peer = &next->peers[next->peer_count++];
	const struct peer *known = peer_of(old, from->name);

	*peer = known ? *known : (struct peer){ .good_wanted = MK_PROBES_GOOD };
	peer->via = NULL;
	peer->tries = from->tries;
	peer->direct = 0;
	peer->name = strdup(from->name);
	if (!peer->name)
		return -ENOMEM;
	if (from->via)
		peer->via = strdup(from->via);
	return from->via && !peer->via ? -ENOMEM : 0;
}

/* Packets of the peer have to pass to each of its nodes. */
static void lower_mtu(struct mk_probes_state *state, const struct node *node)
{
	uint16_t found = node->mtu.found_bytes;

	if (found < node->mtu.most_bytes && (!state->mtu_bytes || found < state->mtu_bytes) &&
	    (node->is_live || !node->tries))
		state->mtu_bytes = found;
}

static int add_node(struct mk_probes *next, const struct mk_probes *old,
		    const struct mk_probes_peer *from, size_t index)
{
	const struct node *known = node_of(old, &from->nodes[index]);
	struct node *node = &next->nodes[next->node_count++];
	struct peer *peer = peer_of(next, from->name);

	*node = known ? *known : (struct node){ .ip = from->nodes[index] };
	if (!known || known->tries != from->tries) {
		node->is_live = from->live ? from->live[index] : !from->tries;
		node->keeps = from->keeps ? from->keeps[index] : node->is_live;
	}
	node->tries = from->tries;
	path_mtu_set(&node->mtu, from->mtu_bytes, from->known_mtu_bytes);
	if (!peer_of(old, from->name)) /* others change with a round, which says so */
		lower_mtu(&peer->state, node);
	node->peer = (size_t)(peer - next->peers);
	node->name = from->names ? strdup(from->names[index]) : NULL;
	peer->direct += node->is_live;
	return from->names && !node->name ? -ENOMEM : 0;
}

static int add_nodes(struct mk_probes *next, const struct mk_probes *old,
		     const struct mk_probes_peer *from, size_t count)
{
	cleanup_free struct candidate *ranked = rank_all(old->seed, from);
	int ret = ranked ? 0 : -ENOMEM;

	next->narrows |= !next->rounds && count < from->node_count;
	for (size_t i = 0; ret == 0 && i < count; i++)
		ret = add_node(next, old, from, ranked[i].index);
	return ret;
}

int mk_probes_set(struct mk_probes *probes, const struct mk_probes_peer *peers, size_t count,
		  struct mk_error *err)
{
	struct mk_probes next = *probes;
	size_t room = 1, share = share_of(peers, count);
	int ret;

	for (size_t i = 0; i < count; i++)
		room += most_of(&peers[i], share);
	next.peer_count = next.node_count = 0;
	next.peers = calloc(count + 1, sizeof(*next.peers));
	next.nodes = calloc(room, sizeof(*next.nodes));
	next.list = calloc(2 * room, sizeof(*next.list));
	ret = next.peers && next.nodes && next.list ? 0 : -ENOMEM;
	for (size_t i = 0; ret == 0 && i < count; i++)
		ret = add_peer(&next, probes, &peers[i]);
	if (ret == 0)
		qsort(next.peers, count, sizeof(*next.peers), mk_compare_texts);
	for (size_t i = 0; ret == 0 && i < count; i++)
		ret = add_nodes(&next, probes, &peers[i], most_of(&peers[i], share));
	if (ret < 0) {
		release(&next);
		return mk_error_errno(err, ENOMEM, "probes of %zu peers", count);
	}
	qsort(next.nodes, next.node_count, sizeof(*next.nodes), mk_ip_compare);
	release(probes);
	*probes = next;
	return 0;
}

/* ---- a round --------------------------------------------------------------------------------- */

/* The results of one round for a peer. */
struct round {
	size_t sent, answered; /* probes, of nodes that got one */
	uint64_t rtt_sum_us;
	size_t direct; /* nodes */
	bool paths_changed;
	uint32_t silent; /* nodes */
	struct mk_probes_state state;
};

/* Must the way of packets change? */
static bool judge_path(struct node *node)
{
	bool was = node->is_live;

	node->good = node->answered ? node->good + (node->good < MK_PROBES_GOOD) : 0;
	if (node->good == MK_PROBES_GOOD)
		node->is_live = true;
	if (node->lost == MK_PROBES_BAD)
		node->is_live = false;
	return node->is_live != was;
}

/* Must the way of flows to external addresses change? A round in which no node of the peer answers
 * says nothing of a single one. */
static bool judge_flows(struct node *node, const struct round *round)
{
	bool was = node->keeps;

	if (round->answered)
		node->missed = node->lost ? node->missed + (node->missed < MK_PROBES_GONE) : 0;
	if (node->good == MK_PROBES_GOOD)
		node->keeps = true;
	if (node->missed == MK_PROBES_GONE)
		node->keeps = false;
	return node->keeps != was;
}

/* Add the node to the names of those that do not answer. */
static void name_silent(struct round *round, const struct node *node)
{
	char *text = round->state.silent;
	size_t had = strlen(text);

	round->silent++;
	if (round->silent <= MK_PROBES_NAMED && node->name)
		snprintf(text + had, sizeof(round->state.silent) - had, "%s%s", had ? ", " : "",
			 node->name);
}

static void end_names(struct round *round)
{
	char *text = round->state.silent;
	size_t had = strlen(text);

	if (round->silent > MK_PROBES_NAMED)
		snprintf(text + had, sizeof(round->state.silent) - had, " and %u more",
			 round->silent - MK_PROBES_NAMED);
}

/* Nodes that have just come got no probe yet. */
static void end_node(struct node *node, struct round *round, uint64_t rounds)
{
	if (rounds == 0 || !node->sent[(rounds - 1) % REMEMBERED].nonce)
		return;
	round->sent++;
	round->answered += node->answered;
	node->lost = node->answered ? 0 : node->lost + (node->lost < MK_PROBES_BAD);
	node->is_known |= node->answered || node->lost == MK_PROBES_BAD;
	round->paths_changed |= judge_path(node);
	path_mtu_end(&node->mtu, node->answered);
	node->answered = false;
	if (!node->is_known)
		return;
	round->state.probed++;
	if (node->lost == MK_PROBES_BAD) {
		name_silent(round, node);
		return;
	}
	round->state.answering++;
	round->rtt_sum_us += node->rtt_us;
}

static void go_down(struct peer *peer)
{
	peer->state.is_down = true;
	peer->good = 0;
}

static void go_up(struct peer *peer)
{
	peer->state.is_down = false;
	peer->good = 0;
	peer->good_wanted *= 2;
	if (peer->good_wanted > MK_PROBES_GOOD_MAX)
		peer->good_wanted = MK_PROBES_GOOD_MAX;
}

/* Rounds without a probe say nothing. */
static void judge(struct peer *peer, const struct round *round)
{
	if (!round->sent)
		return;
	if (!round->answered) {
		peer->good = 0;
		if (++peer->bad >= MK_PROBES_BAD && !peer->state.is_down)
			go_down(peer);
		return;
	}
	peer->bad = 0;
	peer->good++;
	if (peer->state.is_down && peer->good >= peer->good_wanted)
		go_up(peer);
	else if (!peer->state.is_down && peer->good >= MK_PROBES_CALM)
		peer->good_wanted = MK_PROBES_GOOD;
}

/* A peer that lost its last node is not down: nothing is known of it. */
static unsigned int end_peer(struct peer *peer, size_t nodes, struct round *round)
{
	struct mk_probes_state before = peer->state, *now = &peer->state;
	unsigned int news = 0;

	judge(peer, round);
	peer->direct = round->direct;
	if (!nodes || peer->tries)
		peer->state.is_down = false;
	if (round->paths_changed || now->mtu_bytes != round->state.mtu_bytes)
		news |= MK_PROBES_PATHS | MK_PROBES_SHOWN;
	now->mtu_bytes = round->state.mtu_bytes;
	now->probed = round->state.probed;
	now->answering = round->state.answering;
	end_names(round);
	memcpy(now->silent, round->state.silent, sizeof(now->silent));
	now->rtt_us = now->answering ? (uint32_t)(round->rtt_sum_us / now->answering) : 0;
	if (!now->rtt_us != !now->shown_rtt_us || now->rtt_us > 2 * (uint64_t)now->shown_rtt_us ||
	    2 * (uint64_t)now->rtt_us < now->shown_rtt_us)
		now->shown_rtt_us = now->rtt_us;
	if (before.is_down != now->is_down)
		news |= MK_PROBES_USABLE | MK_PROBES_SHOWN;
	if (before.probed != now->probed || before.answering != now->answering ||
	    before.shown_rtt_us != now->shown_rtt_us || strcmp(before.silent, now->silent) != 0)
		news |= MK_PROBES_SHOWN;
	return news;
}

static unsigned int end_round(struct mk_probes *probes)
{
	cleanup_free struct round *rounds = calloc(probes->peer_count + 1, sizeof(*rounds));
	cleanup_free size_t *nodes = calloc(probes->peer_count + 1, sizeof(*nodes));
	unsigned int news = 0;

	if (!rounds || !nodes)
		return 0;
	for (size_t i = 0; i < probes->node_count; i++) {
		struct node *node = &probes->nodes[i];

		nodes[node->peer]++;
		end_node(node, &rounds[node->peer], probes->rounds);
		rounds[node->peer].direct += node->is_live;
		lower_mtu(&rounds[node->peer].state, node);
	}
	for (size_t i = 0; i < probes->node_count; i++) {
		struct round *round = &rounds[probes->nodes[i].peer];

		round->paths_changed |= judge_flows(&probes->nodes[i], round);
	}
	for (size_t i = 0; i < probes->peer_count; i++)
		news |= end_peer(&probes->peers[i], nodes[i], &rounds[i]);
	return news;
}

/* Returns whether @probe is one that finds the largest packet. */
static bool pad(struct mk_probes *probes, struct node *node, struct mk_probe *probe)
{
	bool repeats = path_mtu_repeats(&node->mtu);
	uint16_t packet_bytes = path_mtu_next(&node->mtu);

	if (!packet_bytes)
		return false;
	node->padded_nonce = repeats ? node->padded_nonce : next_nonce(probes);
	*probe = (struct mk_probe){ node->ip, node->padded_nonce, packet_bytes };
	return true;
}

unsigned int mk_probes_next(struct mk_probes *probes, const struct mk_probe **list, size_t *count)
{
	unsigned int news = end_round(probes) | (probes->narrows ? MK_PROBES_PATHS : 0);

	probes->narrows = false;
	*count = probes->node_count;
	for (size_t i = 0; i < probes->node_count; i++) {
		struct node *node = &probes->nodes[i];
		struct sent *sent = &node->sent[probes->rounds % REMEMBERED];

		*sent = (struct sent){ .nonce = next_nonce(probes) };
		probes->list[i] = (struct mk_probe){ .to = node->ip, .nonce = sent->nonce };
	}
	for (size_t i = 0; i < probes->node_count; i++)
		*count += pad(probes, &probes->nodes[i], &probes->list[*count]);
	probes->rounds++;
	*list = probes->list;
	return news;
}

bool mk_probes_hurry(const struct mk_probes *probes)
{
	for (size_t i = 0; i < probes->node_count; i++) {
		const struct node *node = &probes->nodes[i];

		if (node->is_live && node->lost && node->rtt_us && node->rtt_us < HURRY_RTT_US)
			return true;
	}
	return false;
}

void mk_probes_sent(struct mk_probes *probes, size_t index, uint64_t now_ns)
{
	if (probes->rounds && index < probes->node_count)
		probes->nodes[index].sent[(probes->rounds - 1) % REMEMBERED].at_ns = now_ns;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void take_rtt(struct node *node, uint64_t rtt_ns)
{
	uint64_t rtt_us = rtt_ns / 1000 ?: 1;

	if (rtt_us > RTT_MAX_US)
		return;
	if (node->rtt_us)
		rtt_us = (node->rtt_us * (uint64_t)(SMOOTHING - 1) + rtt_us) / SMOOTHING ?: 1;
	node->rtt_us = (uint32_t)rtt_us;
}

bool mk_probes_answer(struct mk_probes *probes, const struct mk_ip *from, uint64_t nonce,
		      uint64_t now_ns)
{
	struct node *node = node_of(probes, from);

	if (node && nonce && node->padded_nonce == nonce) {
		node->mtu.answered = true;
		return true;
	}
	for (size_t i = 0; node && nonce && i < REMEMBERED; i++) {
		if (node->sent[i].nonce != nonce)
			continue;
		node->answered = true;
		if (now_ns >= node->sent[i].at_ns)
			take_rtt(node, now_ns - node->sent[i].at_ns);
		return true;
	}
	return false;
}

/* ---- state ----------------------------------------------------------------------------------- */

static bool has_nodes(const struct mk_probes *probes, const struct peer *peer)
{
	for (size_t i = 0; i < probes->node_count; i++)
		if (probes->nodes[i].peer == (size_t)(peer - probes->peers))
			return true;
	return false;
}

bool mk_probes_get(const struct mk_probes *probes, const char *name, struct mk_probes_state *state)
{
	const struct peer *peer = peer_of(probes, name), *hub;

	*state = (struct mk_probes_state){ 0 };
	if (!peer)
		return false;
	*state = peer->state;
	if (peer->tries && !peer->direct)
		*state = (struct mk_probes_state){ 0 };
	hub = peer_of(probes, peer->via);
	if (hub && (peer->tries ? !peer->direct : !has_nodes(probes, peer)))
		state->is_down = hub->state.is_down;
	return true;
}

bool mk_probes_is_live(const struct mk_probes *probes, const struct mk_ip *ip)
{
	const struct node *node = node_of(probes, ip);

	return node && node->is_live;
}

bool mk_probes_is_silent(const struct mk_probes *probes, const struct mk_ip *ip)
{
	const struct node *node = node_of(probes, ip);

	return node && node->lost == MK_PROBES_BAD;
}

bool mk_probes_keeps(const struct mk_probes *probes, const struct mk_ip *ip)
{
	const struct node *node = node_of(probes, ip);

	return node && node->keeps;
}
