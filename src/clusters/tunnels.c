// SPDX-License-Identifier: Apache-2.0
/* How the nodes of peers are reached: peers of WireGuard, and FDB entries. */
#include <stdlib.h>
#include <string.h>

#include "clusters/clusters_internal.h"

/* ---- WireGuard ------------------------------------------------------------------------------- */

/* A node without WireGuard has none, and no FDB entries of peers that encrypt. Its border node
 * carries its packets to them. */
static bool has_tunnels(const struct clusters_work *work, const struct clusters_peer *at)
{
	return at->peer->encrypts && !work->own->no_wireguard;
}

/* Address translation forgets a flow of UDP after 30 seconds or more. */
#define KEEPALIVE_S 25

/* Nodes of a branch may be behind address translation. So they begin, and keep their flows open.
 * With a path beside a hub, each node probes each other one. */
static bool roams(const struct mk_clusters_peer *peer)
{
	return peer->has_inbox || peer->via;
}

static void add_tunnels(struct mk_clusters_rows *rows, const struct clusters_peer *at)
{
	for (size_t i = 0; i < at->state->nodes_used; i++) {
		const struct mk_clusters_node *node = at->hops[i].node;
		struct mk_wg_peer *tunnel = &rows->tunnels[rows->tunnel_count++];

		memcpy(tunnel->public_key, node->wireguard.key, MK_WG_KEY_BYTES);
		tunnel->cluster = at->state->number;
		tunnel->endpoint = tunnel->carrier = node->address;
		tunnel->port = node->wireguard.port;
		tunnel->roams = roams(at->peer);
		tunnel->keepalive_s = at->peer->publishes_to ? KEEPALIVE_S : 0;
	}
}

int clusters_add_tunnels(struct clusters_work *work)
{
	struct mk_clusters_rows *rows = work->rows;

	rows->tunnels = calloc(rows->carrier_count + 1, sizeof(*rows->tunnels));
	if (!rows->tunnels)
		return -ENOMEM;
	for (size_t i = 0; i < work->count; i++)
		if (work->peers[i].state->number && has_tunnels(work, &work->peers[i]))
			add_tunnels(rows, &work->peers[i]);
	qsort(rows->tunnels, rows->tunnel_count, sizeof(*rows->tunnels), mk_wg_peer_compare);
	return 0;
}

/* ---- FDB ------------------------------------------------------------------------------------- */

static struct mk_mac dest_mac(uint32_t cluster, uint32_t hop)
{
	const struct mk_cluster_dest dest = {
		.local = MK_CLUSTER_MAC_LOCAL,
		.cluster = { (uint8_t)(cluster >> 16), (uint8_t)(cluster >> 8), (uint8_t)cluster },
		.hop = { (uint8_t)(hop >> 8), (uint8_t)hop },
	};
	struct mk_mac mac;

	memcpy(&mac, &dest, sizeof(mac));
	return mac;
}

static int compare_macs(const void *left, const void *right)
{
	return memcmp(&((const struct mk_clusters_fdb *)left)->mac,
		      &((const struct mk_clusters_fdb *)right)->mac, sizeof(struct mk_mac));
}

/* No address matches the row of a peer without view. */
static size_t fdb_count(const struct clusters_peer *at)
{
	size_t count = 0;

	if (!at->state->has_view)
		return 0;
	if (clusters_is_by_hub(at))
		count += at->carrier->state->nodes_used;
	return clusters_goes_direct(at) ? count + at->state->nodes_used : count;
}

/* The entries by which @to gets packets to @at: itself, or its hub. */
static void add_entries(const struct clusters_work *work, const struct clusters_peer *at,
			const struct clusters_peer *to)
{
	struct mk_clusters_rows *rows = work->rows;

	if (to->peer->encrypts && !has_tunnels(work, to))
		return;
	for (size_t i = 0; i < to->state->nodes_used; i++)
		rows->fdb[rows->fdb_count++] = (struct mk_clusters_fdb){
			.mac = dest_mac(at->state->number, to->hops[i].hop),
			.remote = to->hops[i].node->address,
			.port = to->hops[i].node->port,
			.is_encrypted = to->peer->encrypts,
		};
}

int clusters_add_fdb(struct clusters_work *work)
{
	struct mk_clusters_rows *rows = work->rows;
	size_t count = 0;

	for (size_t i = 0; i < work->count; i++)
		count += fdb_count(&work->peers[i]);
	rows->fdb = calloc(count + 1, sizeof(*rows->fdb));
	if (!rows->fdb)
		return -ENOMEM;
	for (size_t i = 0; i < work->count; i++) {
		const struct clusters_peer *at = &work->peers[i];

		if (at->state->has_view && clusters_is_by_hub(at))
			add_entries(work, at, at->carrier);
		if (at->state->has_view && clusters_goes_direct(at))
			add_entries(work, at, at);
	}
	qsort(rows->fdb, rows->fdb_count, sizeof(*rows->fdb), compare_macs);
	return 0;
}
