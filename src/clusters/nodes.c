// SPDX-License-Identifier: Apache-2.0
/* The nodes of peers: which of them get packets, and by which number of a hop. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "clusters/clusters_internal.h"

/* A node has a row by its number. A peer has a row per place, and as many of external addresses. */
#define NODES_MAX MK_CLUSTERS_NODES_MAX
_Static_assert(NODES_MAX <= MK_CLUSTER_CARRIERS, "a carrier per node");
_Static_assert(NODES_MAX + 2 * MK_CLUSTERS * MK_CLUSTER_PLACES <= MK_CLUSTER_NODES, "all rows");

static struct mk_far_addr far_addr(const struct mk_ip *ip)
{
	struct mk_addr addr = mk_ip_to_addr(ip);
	struct mk_far_addr result;

	_Static_assert(sizeof(addr) == sizeof(result), "rows have the layout of IPv6");
	memcpy(&result, &addr, sizeof(result));
	return result;
}

static int compare_carriers(const void *left, const void *right)
{
	const struct mk_clusters_carrier *a = left, *b = right;

	return memcmp(&a->addr, &b->addr, sizeof(a->addr));
}

/* ---- which nodes ----------------------------------------------------------------------------- */

static int compare_names(const void *left, const void *right)
{
	return strcmp(((const struct clusters_hop *)left)->node->name,
		      ((const struct clusters_hop *)right)->node->name);
}

/* All carriers, sorted, with their places in the order of peers, then of names. */
struct claim {
	struct mk_ip address;
	size_t place;
	const struct clusters_peer *peer;
};

static int compare_claims(const void *left, const void *right)
{
	const struct claim *a = left, *b = right;
	int order = mk_ip_compare(&a->address, &b->address);

	return order ?: (a->place > b->place) - (a->place < b->place);
}

/* A key of WireGuard, in the same way. */
struct key_claim {
	const uint8_t *key;
	size_t place;
};

static int compare_key_claims(const void *left, const void *right)
{
	const struct key_claim *a = left, *b = right;
	int order = memcmp(a->key, b->key, MK_WG_KEY_BYTES);

	return order ?: (a->place > b->place) - (a->place < b->place);
}

/* If two nodes have one address, key or number, a node whose object is gone comes last. */
static size_t place_of(const struct mk_clusters_node *node, size_t place)
{
	return node->is_gone ? SIZE_MAX / 2 + place : place;
}

struct nodes {
	struct clusters_work *work;
	struct clusters_peer **order; /* those with a number, and NULL */
	struct claim *claims; /* sorted: of equal addresses the first one counts */
	struct key_claim *keys; /* .. and of equal keys */
	size_t claim_count, key_count, used;
};

static const struct claim *first_claim(const struct nodes *nodes, const struct mk_ip *address)
{
	size_t low = 0, high = nodes->claim_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (mk_ip_compare(&nodes->claims[middle].address, address) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return &nodes->claims[low];
}

/* Does a node before @place have the key? */
static bool is_key_taken(const struct nodes *nodes, const uint8_t *key, size_t place)
{
	size_t low = 0, high = nodes->key_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (memcmp(nodes->keys[middle].key, key, MK_WG_KEY_BYTES) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return nodes->keys[low].place != place;
}

/* Why packets to the node cannot be encrypted. WireGuard knows a node by its key alone. */
static const char *lack_of_key(const struct nodes *nodes, const struct mk_clusters_node *node,
			       size_t place)
{
	const struct mk_clusters_own *own = nodes->work->own;

	if (!node->wireguard.port)
		return "has no WireGuard key: set wireguardPort in its cluster, and publish the node again";
	if (memcmp(node->wireguard.key, own->wireguard.key, MK_WG_KEY_BYTES) == 0)
		return "has the WireGuard key of this node: remove the file wireguard.key of one of the two nodes, and restart its agent";
	if (is_key_taken(nodes, node->wireguard.key, place))
		return "has the WireGuard key of another node: remove the file wireguard.key of one of the two, and restart its agent";
	return NULL;
}

static bool is_inner(const struct mk_clusters_own *own, const struct mk_ip *address)
{
	for (size_t i = 0; i < own->inner_count; i++)
		if (mk_cidr_contains(&own->inner[i], address))
			return true;
	return false;
}

/* Returns why the node cannot get packets, for a message that begins with its name; NULL: it
 * can. */
static const char *lack_of(const struct nodes *nodes, const struct clusters_peer *at,
			   const struct mk_clusters_node *node, size_t place)
{
	const struct mk_clusters_own *own = nodes->work->own;
	const struct claim *first;

	if (node->address.family == AF_UNSPEC)
		return "has no address of the family that the nodes of this cluster use";
	if (mk_ips_contain(own->node_addresses, own->node_address_count, &node->address))
		return "has the address of a node of this cluster";
	if (is_inner(own, &node->address))
		return "has an address of this cluster's pods, Services or views: publish an address of the node's own network";
	if (node->port && node->port != own->port)
		return "has another UDP port than the overlay of this cluster: set vxlanPort to one port in both";
	first = first_claim(nodes, &node->address);
	if (first->place != place)
		return first->peer == at ? "has the address of another node of the peer"
					 : "has the address of a node of another peer";
	if (at->peer->encrypts && lack_of_key(nodes, node, place))
		return lack_of_key(nodes, node, place);
	if (nodes->used >= NODES_MAX)
		return "is one too many: all peers together may have 32768 nodes";
	return NULL;
}

/* Note the first one that is left out, and how many there are. */
static int note_left_out(struct clusters_peer *at, const char *node, const char *why, size_t count)
{
	if (count == 0)
		return 0;
	if (count == 1)
		return clusters_say(&at->note, "PublishedNode of node '%s' is left out: it %s",
				    node, why);
	return clusters_say(&at->note,
			    "PublishedNode of node '%s' is left out: it %s; so are %zu others",
			    node, why, count - 1);
}

/* A hash of @text (FNV-1a). */
static uint32_t hash_of(const char *text)
{
	uint32_t hash = 0x811c9dc5U;

	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * 0x01000193U;
	return hash;
}

static int choose(struct nodes *nodes, struct clusters_peer *at, size_t *place)
{
	const struct mk_clusters_own *own = nodes->work->own;
	size_t left_out = 0;
	const char *name = "", *why = "";

	if (at->peer->encrypts && own->no_wireguard && !own->by_border) {
		*place += at->node_count;
		at->state->cannot_encrypt = true;
		return clusters_say(&at->note, "encryption: WireGuard, but %s", own->no_wireguard);
	}
	for (size_t i = 0; i < at->node_count; i++, ++*place) {
		const struct mk_clusters_node *node = at->hops[i].node;
		const char *lack = lack_of(nodes, at, node, place_of(node, *place));

		if (!lack) {
			at->hops[at->state->nodes_used++] =
				(struct clusters_hop){ .node = node,
						       .name_hash = hash_of(node->name) };
			nodes->used++;
		} else if (left_out++ == 0) {
			name = node->name;
			why = lack;
		}
	}
	if (at->peer->via || at->state->nodes_used > 0 || left_out > 0)
		return note_left_out(at, name, why, left_out);
	return clusters_say(
		&at->note,
		"no PublishedNode of it: apply what `monokube peer publish` prints in that cluster");
}

static int sort_hops(struct clusters_peer *at)
{
	at->node_count = at->peer->node_count;
	at->hops = calloc(at->node_count + 1, sizeof(*at->hops));
	if (!at->hops)
		return -ENOMEM;
	for (size_t i = 0; i < at->node_count; i++)
		at->hops[i].node = &at->peer->nodes[i];
	qsort(at->hops, at->node_count, sizeof(*at->hops), compare_names);
	return 0;
}

/* A peer that is reached by a hub comes after all others: a hub that shows its nodes takes no
 * address from a node that its own cluster has published. */
static void order(struct clusters_work *work, struct clusters_peer **all)
{
	size_t count = 0;

	for (int by_hub = 0; by_hub < 2; by_hub++)
		for (size_t i = 0; i < work->count; i++)
			if (work->peers[i].state->number && !work->peers[i].peer->via == !by_hub)
				all[count++] = &work->peers[i];
}

static void claim(struct nodes *nodes, const struct clusters_peer *at,
		  const struct mk_clusters_node *node, size_t place)
{
	place = place_of(node, place);
	nodes->claims[nodes->claim_count++] = (struct claim){ node->address, place, at };
	if (at->peer->encrypts && node->wireguard.port)
		nodes->keys[nodes->key_count++] = (struct key_claim){ node->wireguard.key, place };
}

static int claim_all(struct nodes *nodes)
{
	struct clusters_work *work = nodes->work;
	size_t count = 0, place = 0;
	int ret = 0;

	for (size_t i = 0; i < work->count; i++)
		count += work->peers[i].peer->node_count;
	nodes->claims = calloc(count + 1, sizeof(*nodes->claims));
	nodes->keys = calloc(count + 1, sizeof(*nodes->keys));
	if (!nodes->claims || !nodes->keys)
		return -ENOMEM;
	for (size_t i = 0; nodes->order[i] && ret == 0; i++) {
		struct clusters_peer *at = nodes->order[i];

		ret = sort_hops(at);
		for (size_t j = 0; ret == 0 && j < at->node_count; j++)
			claim(nodes, at, at->hops[j].node, place++);
	}
	qsort(nodes->claims, nodes->claim_count, sizeof(*nodes->claims), compare_claims);
	qsort(nodes->keys, nodes->key_count, sizeof(*nodes->keys), compare_key_claims);
	return ret;
}

/* ---- numbers of hops ------------------------------------------------------------------------- */

static bool is_in_home(const struct clusters_peer *at, const struct mk_clusters_node *node)
{
	return at->state->has_view && mk_cidr_covers(&at->home, &node->pod_cidr);
}

/* Return how many bits of an address a node has to itself: the fewest ones, if pod CIDRs differ in
 * size. A larger pod CIDR has the number of its first part, which has the virtual pod address, so
 * that the node gets probes. Packets to its other parts may go to any node. 0: there are no
 * numbers. */
static uint8_t host_bits_of(const struct clusters_peer *at)
{
	unsigned bits = mk_ip_bits(at->home.ip.family), found = 0;

	for (size_t i = 0; i < at->state->nodes_used; i++) {
		const struct mk_clusters_node *node = at->hops[i].node;
		unsigned here = bits - node->pod_cidr.prefix_bits;

		if (!is_in_home(at, node))
			continue;
		if (here == 0)
			return 0;
		if (!found || here < found)
			found = here;
	}
	/* a node's number leaves room for MK_CLUSTER_BY_INDEX */
	if (found && bits - at->home.prefix_bits - found > 31)
		return 0;
	return (uint8_t)found;
}

static uint32_t node_number(const struct clusters_peer *at, const struct mk_clusters_node *node)
{
	struct mk_ip mask_ip = mk_cidr_mask(&at->home);
	struct mk_addr addr = mk_ip_to_addr(&node->pod_cidr.ip), mask = mk_ip_to_addr(&mask_ip);

	return mk_node_number(&addr, &mask, at->host_bits);
}

static int compare_pod_cidrs(const void *left, const void *right)
{
	const struct mk_clusters_node *a = ((const struct clusters_hop *)left)->node;
	const struct mk_clusters_node *b = ((const struct clusters_hop *)right)->node;

	return mk_cidr_compare(&a->pod_cidr, &b->pod_cidr)
		       ?: a->is_gone - b->is_gone ?: strcmp(a->name, b->name);
}

/* Number the nodes by their pod CIDRs. If two have one number, the first one gets it. */
static void number_nodes(struct clusters_peer *at)
{
	const struct clusters_hop *last = NULL;
	size_t count = at->state->nodes_used;

	qsort(at->hops, count, sizeof(*at->hops), compare_pod_cidrs);
	at->host_bits = host_bits_of(at);
	for (size_t i = 0; i < count; i++) {
		struct clusters_hop *hop = &at->hops[i];

		if (!at->host_bits || !is_in_home(at, hop->node))
			continue;
		hop->number = node_number(at, hop->node);
		hop->is_numbered = !last || hop->number != last->number;
		last = hop;
	}
}

#define NO_HOP UINT32_MAX

/* Returns whether @number was free. */
static bool take(uint8_t *taken, uint32_t number)
{
	uint8_t bit = (uint8_t)(1U << number % 8), had = taken[number / 8] & bit;

	taken[number / 8] |= bit;
	return !had;
}

/* A node whose pod CIDR has a number gets that number, or its low bits, as a hop. So its entries
 * stay if others come and go. The other nodes get free numbers from the highest one down. There are
 * as many as nodes. A hub's nodes keep their numbers beside those of the peer. */
static void number_hops(const struct clusters_work *work, struct clusters_peer *at)
{
	uint8_t taken[MK_CLUSTERS_NODES_MAX / 8] = { 0 };
	uint32_t family = work->own->family == AF_INET6 ? MK_CLUSTERS_HOP_IPV6 : 0;
	uint32_t free_hop = MK_CLUSTERS_NODES_MAX;
	size_t count = at->state->nodes_used;

	for (size_t i = 0; clusters_is_by_hub(at) && i < at->carrier->state->nodes_used; i++)
		(void)take(taken, at->carrier->hops[i].hop & ~MK_CLUSTERS_HOP_IPV6);
	for (size_t i = 0; i < count; i++) {
		const struct clusters_hop *hop = &at->hops[i];
		uint32_t number = hop->number % MK_CLUSTERS_NODES_MAX;

		at->hops[i].hop = hop->is_numbered && take(taken, number) ? number : NO_HOP;
	}
	for (size_t i = 0; i < count; i++) {
		while (at->hops[i].hop == NO_HOP)
			if (take(taken, --free_hop))
				at->hops[i].hop = free_hop;
		at->hops[i].hop |= family;
	}
}

/* The virtual pod address of the node is the first one behind the network's (mk_addresses). */
static struct mk_clusters_target target_of(const struct clusters_work *work,
					   const struct clusters_peer *at,
					   const struct clusters_hop *hop)
{
	struct mk_ip ip = mk_cidr_nth(&hop->node->pod_cidr, 1);

	return (struct mk_clusters_target){ .peer = (size_t)(at->peer - work->input),
					    .node = hop->node->name,
					    .ip = mk_clusters_seen(&at->home, &at->view, &ip),
					    .is_direct = hop->is_direct,
					    .is_live = hop->is_live,
					    .keeps = hop->keeps };
}

static bool gets_packets(const struct clusters_work *work, const struct clusters_peer *at,
			 const struct clusters_hop *hop)
{
	const struct mk_clusters_own *own = work->own;
	const struct mk_cluster_node_key key = { at->state->number, hop->number };
	struct mk_clusters_target target;

	if (!clusters_is_by_hub(at))
		return at->carrier == at;
	if (at->peer->path != MK_CLUSTERS_PATH_AUTO)
		return at->peer->path == MK_CLUSTERS_PATH_DIRECT;
	if (!hop->is_numbered || !own->is_direct)
		return false;
	target = target_of(work, at, hop);
	return own->is_direct(own->ctx, &target, &key);
}

static void choose_direct(const struct clusters_work *work, struct clusters_peer *at)
{
	for (size_t i = 0; i < at->state->nodes_used; i++) {
		at->hops[i].is_direct = gets_packets(work, at, &at->hops[i]);
		at->state->nodes_direct += at->hops[i].is_direct;
	}
}

/* The number of a node of @at, as a row has it. */
static uint32_t value_of(const struct clusters_peer *at, const struct clusters_hop *hop)
{
	return hop->hop | (at->peer->encrypts ? MK_CLUSTER_HOP_ENCRYPTED : 0);
}

/* Do probes find out whether the node has places? @number: of its cluster, or of the external
 * addresses of its cluster. */
static bool answers(const struct clusters_work *work, const struct clusters_peer *at,
		    const struct clusters_hop *hop, uint32_t number)
{
	const struct mk_clusters_own *own = work->own;
	struct mk_clusters_target target = { .peer = (size_t)(at->peer - work->input),
					     .node = hop->node->name };

	if (!own->is_live || (at->carrier != at && at->peer->path != MK_CLUSTERS_PATH_DIRECT))
		return true;
	if (hop->is_numbered)
		target = target_of(work, at, hop);
	return own->is_live(own->ctx, &target, number, value_of(at, hop));
}

static void choose_live(const struct clusters_work *work, struct clusters_peer *at)
{
	uint32_t number = at->state->number;

	for (size_t i = 0; i < at->state->nodes_used; i++) {
		struct clusters_hop *hop = &at->hops[i];

		hop->is_live = answers(work, at, hop, number);
		hop->keeps = answers(work, at, hop, number | MK_CLUSTER_EXTERNAL);
	}
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void add_row(struct mk_clusters_rows *rows, uint32_t number, uint32_t index, uint32_t hop)
{
	rows->nodes[rows->node_count++] = (struct mk_clusters_hop){
		.key = { .cluster = number, .index = index },
		.hop = hop,
	};
}

/* ---- places ---------------------------------------------------------------------------------- */

static uint32_t rank_of(uint32_t place, const struct clusters_hop *hop)
{
	uint32_t rank = (place * 0x9e3779b1U ^ hop->name_hash) * 0x85ebca6bU;

	rank = (rank ^ rank >> 15) * 0xc2b2ae35U;
	return rank ^ rank >> 13;
}

/* May the node have places? */
typedef bool may_take_fn(const struct clusters_hop *hop);

static bool is_any(const struct clusters_hop *hop)
{
	(void)hop;
	return true;
}

static bool is_live(const struct clusters_hop *hop)
{
	return hop->is_live && hop->is_direct;
}

static bool keeps(const struct clusters_hop *hop)
{
	return hop->keeps;
}

/* The node of @at that has @place: the highest hash of the place and the node's name decides. So
 * only places of a node that goes move, and a node that comes takes its share alone. The hub and
 * its branches have the same names, so they choose alike. NULL: no node may take it. */
static const struct clusters_hop *node_of_place(const struct clusters_peer *at, uint32_t place,
						may_take_fn *may_take)
{
	const struct clusters_hop *best = NULL;

	for (size_t i = 0; i < at->state->nodes_used; i++) {
		const struct clusters_hop *hop = &at->hops[i];

		if (may_take(hop) && (!best || rank_of(place, hop) > rank_of(place, best)))
			best = hop;
	}
	return best;
}

/* The hop for packets that may go to any node. If no node is live, all are hops: a filter that
 * drops probes must not cut traffic. */
static uint32_t hop_of_place(const struct clusters_peer *at, uint32_t place)
{
	const struct clusters_hop *found = node_of_place(at, place, is_live);

	return value_of(at, found ?: node_of_place(at, place, is_any));
}

/* The hop of external addresses. Their flows have a session at one node, so a node keeps its places
 * longer, and whether it is reached directly or by the hub. */
static uint32_t hop_of_external(const struct clusters_peer *at, uint32_t place)
{
	const struct clusters_hop *found = node_of_place(at, place, keeps), *by = NULL;
	const struct clusters_peer *of;

	if (!found)
		found = node_of_place(at, place, is_any);
	if (found->is_direct)
		return value_of(at, found);
	if (at->carrier)
		by = node_of_place(at->carrier, place, is_live);
	of = by ? at->carrier : at;
	if (!by)
		by = node_of_place(at, place, is_live);
	return value_of(of, by ?: found);
}

static void add_places(struct mk_clusters_rows *rows, const struct clusters_peer *at)
{
	for (uint32_t i = 0; at->state->nodes_direct && i < MK_CLUSTER_PLACES; i++) {
		uint32_t index = MK_CLUSTER_BY_INDEX | i, number = at->state->number;

		if (at->carrier == at)
			add_row(rows, number, index, hop_of_place(at, i));
		if (at->state->has_external_view)
			add_row(rows, number | MK_CLUSTER_EXTERNAL, index, hop_of_external(at, i));
	}
}

static void add_rows(struct mk_clusters_rows *rows, const struct clusters_peer *at)
{
	uint32_t number = at->state->number;

	if (at->peer->encrypts)
		number |= MK_CLUSTER_CARRIER_ENCRYPTED;
	for (size_t i = 0; i < at->state->nodes_used; i++) {
		const struct clusters_hop *hop = &at->hops[i];

		rows->carriers[rows->carrier_count++] = (struct mk_clusters_carrier){
			.addr = far_addr(&hop->node->address),
			.number = number,
		};
		if (hop->is_numbered && clusters_goes_direct(at))
			add_row(rows, at->state->number, hop->number,
				value_of(at, hop) | (hop->is_direct ? 0 : MK_CLUSTER_HOP_TRIAL));
	}
	add_places(rows, at);
}

static int compare_keys(const void *left, const void *right)
{
	const struct mk_cluster_node_key *a = &((const struct mk_clusters_hop *)left)->key;
	const struct mk_cluster_node_key *b = &((const struct mk_clusters_hop *)right)->key;

	if (a->cluster != b->cluster)
		return a->cluster < b->cluster ? -1 : 1;
	return (a->index > b->index) - (a->index < b->index);
}

static int choose_all(struct nodes *nodes)
{
	struct clusters_work *work = nodes->work;
	size_t place = 0;
	int ret;

	nodes->order = calloc(work->count + 1, sizeof(*nodes->order));
	if (!nodes->order)
		return -ENOMEM;
	order(work, nodes->order);
	ret = claim_all(nodes);
	for (size_t i = 0; nodes->order[i] && ret == 0; i++) {
		ret = choose(nodes, nodes->order[i], &place);
		number_nodes(nodes->order[i]);
		number_hops(work, nodes->order[i]);
		choose_direct(work, nodes->order[i]);
		choose_live(work, nodes->order[i]);
	}
	free(nodes->order);
	free(nodes->claims);
	free(nodes->keys);
	return ret;
}

int clusters_add_nodes(struct clusters_work *work)
{
	struct mk_clusters_rows *rows = work->rows;
	struct nodes nodes = { .work = work };
	int ret = choose_all(&nodes);

	if (ret < 0)
		return ret;
	rows->nodes =
		calloc(nodes.used + 2 * work->count * MK_CLUSTER_PLACES + 2, sizeof(*rows->nodes));
	rows->carriers = calloc(nodes.used + 1, sizeof(*rows->carriers));
	if (!rows->nodes || !rows->carriers)
		return -ENOMEM;
	for (size_t i = 0; i < work->count; i++)
		if (work->peers[i].state->number)
			add_rows(rows, &work->peers[i]);
	ret = clusters_add_border(work);
	qsort(rows->nodes, rows->node_count, sizeof(*rows->nodes), compare_keys);
	qsort(rows->carriers, rows->carrier_count, sizeof(*rows->carriers), compare_carriers);
	return ret;
}

/* ---- probes ---------------------------------------------------------------------------------- */

static int compare_targets(const void *left, const void *right)
{
	const struct mk_clusters_target *a = left, *b = right;

	return (a->peer > b->peer) - (a->peer < b->peer);
}

int clusters_add_targets(struct clusters_work *work)
{
	struct mk_clusters_rows *rows = work->rows;

	rows->targets = calloc(rows->carrier_count + 1, sizeof(*rows->targets));
	if (!rows->targets)
		return -ENOMEM;
	for (size_t i = 0; i < work->count; i++) {
		const struct clusters_peer *at = &work->peers[i];

		if (!at->state->has_view || !clusters_goes_direct(at))
			continue;
		for (size_t j = 0; j < at->state->nodes_used; j++)
			if (at->hops[j].is_numbered)
				rows->targets[rows->target_count++] =
					target_of(work, at, &at->hops[j]);
	}
	qsort(rows->targets, rows->target_count, sizeof(*rows->targets), compare_targets);
	return 0;
}
