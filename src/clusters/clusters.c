// SPDX-License-Identifier: Apache-2.0
/* Which peers have rows. Peers are looked at from the oldest to the newest: the first one that asks
 * for a number or a view has it. So a new peer changes nothing for those that exist. */
#include "clusters/clusters.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "clusters/clusters_internal.h"

#define CRC32C_POLYNOMIAL 0x82f63b78U

struct mk_ip mk_clusters_seen(const struct mk_cidr *home, const struct mk_cidr *view,
			      const struct mk_ip *home_ip)
{
	struct mk_cidr net = mk_cidr_network(view);
	struct mk_ip mask_ip = mk_cidr_mask(home);
	struct mk_addr addr = mk_ip_to_addr(home_ip), mask = mk_ip_to_addr(&mask_ip);
	struct mk_addr view_addr = mk_ip_to_addr(&net.ip);

	for (size_t i = 0; i < sizeof(addr.word) / sizeof(addr.word[0]); i++)
		addr.word[i] = (addr.word[i] & ~mask.word[i]) | view_addr.word[i];
	return mk_ip_of_family(&addr, home_ip->family);
}

uint32_t mk_cluster_number(const char *name)
{
	uint32_t crc = ~0U;

	for (; *name; name++) {
		crc ^= (uint8_t)*name;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? CRC32C_POLYNOMIAL : 0);
	}
	return (~crc & MK_CLUSTER_NUMBER_MAX) ?: 1;
}

int clusters_say(char **reason, const char *format, ...)
{
	va_list args;
	int ret;

	if (*reason)
		return 0;
	va_start(args, format);
	ret = vasprintf(reason, format, args);
	va_end(args);
	if (ret >= 0)
		return 0;
	*reason = NULL;
	return -ENOMEM;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static uint32_t number_of(const struct mk_clusters_peer *peer)
{
	return peer->number ?: mk_cluster_number(peer->name);
}

static int take_number(struct clusters_work *work, struct clusters_peer *at)
{
	uint32_t number = number_of(at->peer);
	const char *holder = number == work->own->number ? work->own->name : NULL;

	for (const struct clusters_peer *older = work->peers; older < at && !holder; older++)
		if (older->state->number == number)
			holder = older->peer->name;
	if (holder)
		return clusters_say(
			&at->state->reason,
			"number %u is also that of cluster '%s': set clusterId in one of the two to a free number, and publish it again",
			number, holder);
	at->state->number = number;
	return 0;
}

static int say_unpublished(const struct mk_clusters_peer *peer, char **reason)
{
	if (peer->via)
		return clusters_say(
			reason,
			"no PublishedCluster '%s' by hub '%s': a ClusterPeer that the hub introduced goes after a minute; for another one, apply what `monokube peer publish` prints in that cluster",
			peer->name, peer->via);
	return clusters_say(
		reason,
		"no PublishedCluster '%s': apply what `monokube peer publish` prints in that cluster",
		peer->name);
}

static int identify(struct clusters_work *work, struct clusters_peer *at)
{
	const struct mk_clusters_peer *peer = at->peer;
	char **reason = &at->state->reason;

	if (strcmp(peer->name, work->own->name) == 0)
		return clusters_say(
			reason,
			"'%s' is the name of this cluster (clusterName): each cluster needs a name of its own",
			peer->name);
	if (!peer->is_published)
		return say_unpublished(peer, reason);
	if (!peer->speaks_wire)
		return clusters_say(
			reason,
			"its wireVersions lack %d, the only one of this version: upgrade the older of the two clusters",
			MK_CLUSTER_WIRE);
	if (peer->is_gone && say_unpublished(peer, &at->note) < 0)
		return -ENOMEM;
	return take_number(work, at);
}

/* ---- views ----------------------------------------------------------------------------------- */

/* Ranges that no pod can have. */
static const char *const never[] = { "0.0.0.0/8",	   "127.0.0.0/8",
				     "169.254.0.0/16",	   "224.0.0.0/4",
				     "255.255.255.255/32", "::/8",
				     "fe80::/10",	   "ff00::/8" };

static bool overlaps(const struct mk_cidr *a, const struct mk_cidr *b)
{
	return a->ip.family == b->ip.family && (mk_cidr_covers(a, b) || mk_cidr_covers(b, a));
}

#define HELD_CHARS 128 /* a name has 63 characters */

/* Is @range free? Otherwise, what has addresses of it is *@held, as @what says in words. */
static bool is_free(const struct clusters_work *work, const struct clusters_peer *at,
		    const struct mk_cidr *range, struct mk_cidr *held, char what[HELD_CHARS])
{
	snprintf(what, HELD_CHARS, "which no pod can have");
	for (size_t i = 0; i < MK_ARRAY_SIZE(never); i++)
		if (mk_cidr_parse(never[i], held) == 0 && overlaps(range, held))
			return false;
	snprintf(what, HELD_CHARS, "a range of this cluster's pods");
	*held = work->own->cluster_cidr;
	if (overlaps(range, held))
		return false;
	snprintf(what, HELD_CHARS, "a range of this cluster's nodes or Services");
	for (size_t i = 0; i < work->own->other_count; i++) {
		*held = work->own->others[i];
		if (overlaps(range, held))
			return false;
	}
	snprintf(what, HELD_CHARS, "externalCidr of this cluster");
	*held = work->own->externals;
	if (overlaps(range, held))
		return false;
	for (const struct clusters_peer *older = work->peers; older <= at; older++) {
		snprintf(what, HELD_CHARS, "the view of peer '%s'", older->peer->name);
		*held = older->view;
		if (older->state->has_view && overlaps(range, held))
			return false;
		*held = older->external_view;
		if (older->state->has_external_view && overlaps(range, held))
			return false;
	}
	return true;
}

/* The view replaces the first bits of the home addresses, so both have one length. */
static int check_lengths(struct clusters_peer *at, const struct mk_cidr *home)
{
	const struct mk_cidr *view = &at->peer->view;
	char *reason = NULL, text[MK_CIDR_STRLEN], other[MK_CIDR_STRLEN];
	int ret;

	if (view->ip.family == AF_UNSPEC)
		ret = clusters_say(
			&reason,
			"no view of %s yet: the leader writes one to status.podCidr; without a leader, set spec.podCidr to a free range with prefix length %u, such as one of 240.0.0.0/6, or Same",
			mk_family_name(home->ip.family), home->prefix_bits);
	else if (view->prefix_bits != home->prefix_bits)
		ret = clusters_say(
			&reason,
			"spec.podCidr '%s' has another prefix length than the peer's pod range %s: give it %u bits",
			mk_cidr_format(view, text), mk_cidr_format(home, other), home->prefix_bits);
	else
		return 0;
	at->state->reason = reason;
	return ret;
}

static int take_view(struct clusters_work *work, struct clusters_peer *at)
{
	char text[MK_CIDR_STRLEN], other[MK_CIDR_STRLEN], what[HELD_CHARS];
	struct mk_cidr home, view, held;
	int ret;

	if (at->peer->home.ip.family == AF_UNSPEC)
		return clusters_say(&at->state->reason, "it publishes no %s pod range",
				    mk_family_name(work->own->family));
	home = mk_cidr_network(&at->peer->home);
	ret = check_lengths(at, &home);
	if (ret < 0 || at->state->reason)
		return ret;
	view = mk_cidr_network(&at->peer->view);
	at->state->overlaps = !is_free(work, at, &view, &held, what);
	if (at->state->overlaps)
		return clusters_say(&at->state->reason,
				    "spec.podCidr %s overlaps %s, %s: name a free range",
				    mk_cidr_format(&view, text), mk_cidr_format(&held, other),
				    what);
	at->home = home;
	at->view = view;
	at->state->has_view = true;
	return 0;
}

/* Without a view of its external addresses, the peer's pods are reached all the same. Without a
 * view of its pods, its packets are not known. */
static int take_external_view(struct clusters_work *work, struct clusters_peer *at)
{
	char text[MK_CIDR_STRLEN], other[MK_CIDR_STRLEN], what[HELD_CHARS];
	struct mk_cidr home = at->peer->external_home, view = at->peer->external_view, held;

	if (!at->state->has_view || home.ip.family == AF_UNSPEC || view.ip.family == AF_UNSPEC)
		return 0;
	home = mk_cidr_network(&home);
	view = mk_cidr_network(&view);
	if (home.prefix_bits != view.prefix_bits)
		return clusters_say(
			&at->state->reason,
			"spec.externalCidr '%s' has another prefix length than the peer's range %s: give it %u bits",
			mk_cidr_format(&view, text), mk_cidr_format(&home, other),
			home.prefix_bits);
	at->state->overlaps = !is_free(work, at, &view, &held, what);
	if (at->state->overlaps)
		return clusters_say(&at->state->reason,
				    "spec.externalCidr %s overlaps %s, %s: name a free range",
				    mk_cidr_format(&view, text), mk_cidr_format(&held, other),
				    what);
	at->external_home = home;
	at->external_view = view;
	at->state->has_external_view = true;
	return 0;
}

/* ---- paths ----------------------------------------------------------------------------------- */

static struct clusters_peer *find(const struct clusters_work *work, const char *name)
{
	for (size_t i = 0; i < work->count; i++)
		if (strcmp(work->peers[i].peer->name, name) == 0)
			return &work->peers[i];
	return NULL;
}

static int find_carrier(struct clusters_work *work, struct clusters_peer *at)
{
	const char *via = at->peer->via;
	const struct clusters_peer *hub = via ? find(work, via) : at;

	if (!hub || (via && hub == at))
		return clusters_say(
			&at->state->reason,
			"spec.via '%s' is no other ClusterPeer: create it, or remove via", via);
	if (via && hub->peer->via)
		return clusters_say(
			&at->state->reason,
			"spec.via '%s' is itself reached via '%s': packets pass one other cluster at most",
			via, hub->peer->via);
	if (!hub->state->number)
		return clusters_say(&at->state->reason, "spec.via '%s' is not usable: %s", via,
				    hub->state->reason);
	at->carrier = hub;
	return 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int compare_age(const void *left, const void *right)
{
	const struct mk_clusters_peer *a = ((const struct clusters_peer *)left)->peer;
	const struct mk_clusters_peer *b = ((const struct clusters_peer *)right)->peer;

	if (a->created_unix_s != b->created_unix_s)
		return a->created_unix_s < b->created_unix_s ? -1 : 1;
	return strcmp(a->name, b->name);
}

/* The mask of one address: no packet has an address of zeros. */
static struct mk_addr no_address_matches(sa_family_t family)
{
	const struct mk_cidr one = { .ip.family = family,
				     .prefix_bits = (uint8_t)mk_ip_bits(family) };
	struct mk_ip mask = mk_cidr_mask(&one);

	return mk_ip_to_addr(&mask);
}

/* @most: as far as known yet. */
static uint16_t mtu_of(const struct clusters_work *work, const struct clusters_peer *at,
		       uint16_t most)
{
	uint16_t mtu = at->peer->mtu_bytes;
	uint16_t encrypted = (uint16_t)(work->own->mtu_bytes - MK_CLUSTERS_WG_OVERHEAD_BYTES);

	if (at->peer->encrypts && encrypted < most)
		most = encrypted;
	return mtu && mtu < most ? mtu : most;
}

static uint16_t path_mtu_of(const struct clusters_work *work, const struct clusters_peer *at,
			    uint16_t most)
{
	const struct mk_clusters_own *own = work->own;
	uint16_t mtu = own->path_mtu ? own->path_mtu(own->ctx, at->peer, at->state->number) : 0;

	return mtu && mtu < most ? mtu : most;
}

static uint16_t set_mtu(const struct clusters_work *work, const struct clusters_peer *at)
{
	struct mk_clusters_state *state = at->state;

	state->mtu_bytes = mtu_of(work, at, work->own->mtu_bytes);
	if (at->carrier)
		state->mtu_bytes = mtu_of(work, at->carrier, state->mtu_bytes);
	state->path_mtu_bytes = path_mtu_of(work, at, state->mtu_bytes);
	if (at->carrier)
		state->path_mtu_bytes = path_mtu_of(work, at->carrier, state->path_mtu_bytes);
	return state->path_mtu_bytes;
}

static void set_ranges(struct mk_cluster *row, const struct mk_cidr *home,
		       const struct mk_cidr *view)
{
	struct mk_ip mask = mk_cidr_mask(home);

	row->home = mk_ip_to_addr(&home->ip);
	row->view = mk_ip_to_addr(&view->ip);
	row->mask = mk_ip_to_addr(&mask);
}

static struct mk_cluster row_of(const struct clusters_work *work, const struct clusters_peer *at)
{
	struct mk_cluster row = { .mask = no_address_matches(work->own->family) };

	row.via = at->carrier ? at->carrier->state->number : at->state->number;
	row.hop_count = at->carrier && at->carrier->state->nodes_used ? MK_CLUSTER_PLACES : 0;
	row.mtu_bytes = set_mtu(work, at);
	if (!at->state->has_view)
		return row;
	set_ranges(&row, &at->home, &at->view);
	row.host_bits = clusters_goes_direct(at) ? at->host_bits : 0;
	row.flags = (work->own->by_border ? MK_CLUSTER_BY_BORDER : 0) |
		    (at->peer->access_pods ? MK_CLUSTER_ACCESS_PODS : 0) |
		    (at->peer->access_exports ? MK_CLUSTER_ACCESS_EXPORTS : 0) |
		    (at->peer->relayed ? MK_CLUSTER_RELAYED : 0);
	return row;
}

static void add_row(struct mk_clusters_rows *rows, uint32_t number, const struct mk_cluster *row)
{
	rows->clusters[rows->cluster_count++] =
		(struct mk_clusters_cluster){ .number = number, .row = *row };
}

/* No node has an external address: any of them gets the packets, by places of these addresses. If
 * some nodes are reached directly, this cluster chooses one, otherwise the hub does, in the same
 * way. */
static void add_external(struct mk_clusters_rows *rows, const struct clusters_peer *at,
			 const struct mk_cluster *of_pods)
{
	struct mk_cluster row = *of_pods;

	set_ranges(&row, &at->external_home, &at->external_view);
	row.host_bits = 0;
	if (at->state->nodes_direct) {
		row.via = at->state->number | MK_CLUSTER_EXTERNAL;
		row.hop_count = MK_CLUSTER_PLACES;
	}
	add_row(rows, at->state->number | MK_CLUSTER_EXTERNAL, &row);
}

static void add_own(struct clusters_work *work)
{
	struct mk_cidr range = mk_cidr_network(&work->own->externals);
	struct mk_cluster row = { .via = work->own->number };

	set_ranges(&row, &range, &range);
	add_row(work->rows, work->own->number | MK_CLUSTER_EXTERNAL, &row);
}

static int add_clusters(struct clusters_work *work)
{
	struct mk_clusters_rows *rows = work->rows;

	rows->clusters = calloc(2 * work->count + 1, sizeof(*rows->clusters));
	if (!rows->clusters)
		return -ENOMEM;
	for (size_t i = 0; i < work->count; i++) {
		const struct clusters_peer *at = &work->peers[i];
		struct mk_cluster row = row_of(work, at);

		if (at->state->number)
			add_row(rows, at->state->number, &row);
		if (at->state->has_external_view)
			add_external(rows, at, &row);
	}
	if (work->own->externals.ip.family != AF_UNSPEC)
		add_own(work);
	qsort(rows->clusters, rows->cluster_count, sizeof(*rows->clusters), mk_compare_ids);
	return 0;
}

/* A fault of the nodes is reported only if the peer has no other fault. */
static int judge(const struct clusters_work *work, struct clusters_peer *at)
{
	const struct clusters_peer *carrier = at->carrier;

	at->state->is_usable = at->state->has_view && carrier &&
			       (carrier->state->nodes_used || at->state->nodes_direct);
	if (work->own->by_border && !work->own->border_count) {
		at->state->is_usable = false;
		return clusters_say(
			&at->state->reason,
			"the overlay reaches no node with the label networking.monokube.io/border: `monokube nodes` shows the others; label one of these");
	}
	if (at->state->reason)
		return 0;
	if (at->state->has_view && carrier != at && !at->state->is_usable)
		return clusters_say(&at->state->reason,
				    "no node of '%s' is known, by which it is reached",
				    at->peer->via);
	if (carrier == at || at->peer->is_gone)
		at->state->reason = mk_steal_ptr(at->note);
	return 0;
}

static int decide(struct clusters_work *work)
{
	struct clusters_peer *end = work->peers + work->count, *at;
	int ret = 0;

	for (at = work->peers; at < end && ret == 0; at++) {
		if (at - work->peers >= MK_CLUSTERS)
			ret = clusters_say(&at->state->reason,
					   "there are more than %d ClusterPeers: remove older ones",
					   MK_CLUSTERS);
		else
			ret = identify(work, at);
		if (ret == 0 && at->state->number)
			ret = take_view(work, at) ?: take_external_view(work, at);
	}
	for (at = work->peers; at < end && ret == 0; at++)
		if (at->state->number)
			ret = find_carrier(work, at);
	ret = ret ?: clusters_add_nodes(work);
	for (at = work->peers; at < end && ret == 0; at++)
		ret = judge(work, at);
	return ret;
}

static int compute(struct clusters_work *work, const struct mk_clusters_peer *peers)
{
	int ret;

	for (size_t i = 0; i < work->count; i++) {
		work->peers[i].peer = &peers[i];
		work->peers[i].state = &work->rows->states[i];
	}
	qsort(work->peers, work->count, sizeof(*work->peers), compare_age);
	ret = decide(work);
	ret = ret ?: add_clusters(work);
	ret = ret ?: clusters_add_targets(work);
	ret = ret ?: clusters_add_tunnels(work);
	ret = ret ?: clusters_add_border_targets(work);
	return ret ?: clusters_add_fdb(work);
}

int mk_clusters_compile(const struct mk_clusters_own *own, const struct mk_clusters_peer *peers,
			size_t count, struct mk_clusters_rows *rows, struct mk_error *err)
{
	struct clusters_work work = { .own = own, .input = peers, .rows = rows, .count = count };
	int ret = -ENOMEM;

	*rows = (struct mk_clusters_rows){ .state_count = count };
	rows->states = calloc(count + 1, sizeof(*rows->states));
	work.peers = calloc(count + 1, sizeof(*work.peers));
	if (rows->states && work.peers)
		ret = compute(&work, peers);
	for (size_t i = 0; work.peers && i < count; i++) {
		free(work.peers[i].hops);
		free(work.peers[i].note);
	}
	free(work.peers);
	return ret < 0 ? mk_error_errno(err, ENOMEM, "rows of %zu peers", count) : 0;
}

void mk_clusters_rows_release(struct mk_clusters_rows *rows)
{
	for (size_t i = 0; rows->states && i < rows->state_count; i++)
		free(rows->states[i].reason);
	free(rows->states);
	free(rows->clusters);
	free(rows->nodes);
	free(rows->carriers);
	free(rows->fdb);
	free(rows->targets);
	free(rows->tunnels);
	free(rows->border);
	*rows = (struct mk_clusters_rows){ 0 };
}
