// SPDX-License-Identifier: Apache-2.0
/* FDB and neighbour entries of the overlay's VXLAN device, the same FDB entries of the chains'
 * device, and the FDB entries of the device to other clusters. All of them are ours, since the
 * devices are. They change only with nodes, so rarely that the kernel is asked each time. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "overlay/overlay_internal.h"

/* An entry of either kind: a neighbour's ip is the VTEP, an FDB entry's ip
 * is the node's address. */
struct entry {
	struct mk_ip ip;
	struct mk_mac mac;
	uint16_t port; /* of an FDB entry; 0: the device's own */
	int by_ifindex; /* .. and by which link carriers leave; 0: as the routes say */
	const char *node; /* of a wanted entry; NULL: of another cluster */
};

struct entries {
	struct entry *list;
	size_t count;
	struct mk_error *err;
};

static int add(struct entries *entries, const struct entry *entry)
{
	struct entry *added = mk_append(entries->list, entries->count);

	if (!added)
		return mk_error_errno(entries->err, ENOMEM, "cannot list neighbours");
	*added = *entry;
	return 0;
}

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int order = memcmp(&x->mac, &y->mac, sizeof(x->mac));

	order = order ? order : mk_ip_compare(&x->ip, &y->ip);
	order = order ? order : (int)x->port - (int)y->port;
	return order ? order : x->by_ifindex - y->by_ifindex;
}

static void sort(struct entries *entries)
{
	if (entries->count)
		qsort(entries->list, entries->count, sizeof(*entries->list), compare_entries);
}

static bool same_mac(const struct entry *a, const struct entry *b)
{
	return memcmp(&a->mac, &b->mac, sizeof(a->mac)) == 0;
}

/* Sort, and keep the first FDB entry of each MAC address: a node with two families has one. */
static void sort_unique(struct entries *entries)
{
	size_t kept = 0;

	sort(entries);
	for (size_t i = 0; i < entries->count; i++)
		if (kept == 0 || !same_mac(&entries->list[kept - 1], &entries->list[i]))
			entries->list[kept++] = entries->list[i];
	entries->count = kept;
}

static bool has(const struct entries *entries, const struct entry *entry)
{
	return mk_find(entry, entries->list, entries->count, compare_entries);
}

/* ---- the two sides --------------------------------------------------------------------------- */

/* VXLAN devices with an FDB. */
enum tunnel {
	OVERLAY,
	CHAINS, /* the same entries */
	CLUSTERS,
	ENCRYPTED, /* to other clusters, by WireGuard */
	TUNNELS,
};

struct sides {
	struct entries neighs, fdb[TUNNELS]; /* in the kernel */
	struct entries wanted_neighs, wanted_nodes, wanted_clusters, wanted_encrypted;
};

static void release(struct sides *sides)
{
	free(sides->neighs.list);
	for (size_t i = 0; i < TUNNELS; i++)
		free(sides->fdb[i].list);
	free(sides->wanted_neighs.list);
	free(sides->wanted_nodes.list);
	free(sides->wanted_clusters.list);
	free(sides->wanted_encrypted.list);
}

/* An entry that is not permanent was learned or failed: ignore it. */
static int see_neigh(void *ctx, const struct mk_ip *ip, const struct mk_mac *mac, bool permanent)
{
	const struct entry entry = { .ip = *ip, .mac = *mac };

	return permanent ? add(ctx, &entry) : 0;
}

static int see_fdb(void *ctx, const struct mk_nl_fdb *fdb)
{
	const struct entry entry = {
		.ip = fdb->remote, .mac = fdb->mac, .port = fdb->port, .by_ifindex = fdb->by_ifindex
	};

	return add(ctx, &entry);
}

/* Returns 0 if there is no such device. */
static int ifindex_of(const struct mk_overlay *overlay, size_t tunnel)
{
	const int ifindexes[TUNNELS] = {
		[OVERLAY] = overlay->devices.overlay_ifindex,
		[CHAINS] = overlay->devices.sfc_ifindex,
		[CLUSTERS] = overlay->devices.cluster_ifindex,
		[ENCRYPTED] = overlay->devices.wg_peer_ifindex,
	};

	return ifindexes[tunnel];
}

static const struct entries *wanted_of(const struct sides *sides, size_t tunnel)
{
	if (tunnel == ENCRYPTED)
		return &sides->wanted_encrypted;
	return tunnel == CLUSTERS ? &sides->wanted_clusters : &sides->wanted_nodes;
}

static int read_entries(struct mk_overlay *overlay, struct sides *sides, struct mk_error *err)
{
	int ifindex = overlay->devices.overlay_ifindex, ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++)
		if (overlay_reads(&overlay->families[i]))
			ret = mk_nl_each_neigh(overlay->nl, i ? AF_INET6 : AF_INET, ifindex,
					       see_neigh, &sides->neighs, err);
	for (size_t i = 0; ret == 0 && i < TUNNELS; i++)
		if (ifindex_of(overlay, i))
			ret = mk_nl_each_fdb(overlay->nl, ifindex_of(overlay, i), see_fdb,
					     &sides->fdb[i], err);
	return ret;
}

static const struct entry *entry_of(const struct entries *entries, const struct mk_mac *mac)
{
	for (size_t from = 0, to = entries->count; from < to;) {
		size_t at = (from + to) / 2;
		int order = memcmp(&entries->list[at].mac, mac, sizeof(*mac));

		if (order == 0)
			return &entries->list[at];
		if (order < 0)
			from = at + 1;
		else
			to = at;
	}
	return NULL;
}

/* A first entry leads to WireGuard at once: no connection uses it yet. One in the clear stays until
 * the first handshake, which shows that the other node knows this one's key. One that leads to
 * WireGuard stays, so packets never leave in the clear again. */
bool overlay_encrypts(const struct overlay_way *way)
{
	if (way->encryption == MK_ENCRYPTION_NONE || !way->has_device)
		return false;
	if (way->encryption == MK_ENCRYPTION_ONLY || way->was_encrypted)
		return true;
	return way->has_key && (!way->has_entry || way->has_handshake);
}

bool overlay_is_clear(const struct overlay_way *way)
{
	if (way->encryption == MK_ENCRYPTION_ONLY && !way->has_key)
		return true;
	return way->encryption != MK_ENCRYPTION_NONE && !overlay_encrypts(way);
}

/* Has the first handshake been made since the last synchronisation? */
static bool is_news(const struct overlay_way *way)
{
	return way->encryption == MK_ENCRYPTION_WIREGUARD && way->has_entry && !way->was_encrypted;
}

static struct overlay_way way_to(const struct mk_overlay *overlay, const struct sides *sides,
				 const struct mk_overlay_peer *node)
{
	const struct entry *had = entry_of(&sides->fdb[OVERLAY], &node->vtep_mac);
	const struct mk_wg_peer *peer = wireguard_peer(overlay, node);

	return (struct overlay_way){
		.encryption = overlay->devices.encryption,
		.has_device = overlay->devices.wg_ifindex,
		.has_entry = had,
		.was_encrypted = had && had->by_ifindex,
		.has_key = peer,
		.has_handshake = peer && peer->handshake_unix_s,
	};
}

static int want_nodes(struct mk_overlay *overlay, struct overlay_family *family,
		      struct sides *sides)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < family->peer_count; i++) {
		struct mk_overlay_peer *peer = &family->peers[i];
		const struct overlay_way way = way_to(overlay, sides, peer);
		int by_ifindex = overlay_encrypts(&way) ? overlay->devices.wg_ifindex : 0;
		const struct entry neigh = { peer->vtep, peer->vtep_mac, 0, 0, peer->node };
		const struct entry tunnel = { peer->underlay, peer->vtep_mac, 0, by_ifindex,
					      peer->node };

		peer->is_clear = overlay_is_clear(&way);
		if (by_ifindex && is_news(&way)) /* a changed entry is no repair then */
			overlay_changed(overlay);
		ret = add(&sides->wanted_neighs, &neigh);
		ret = ret ?: add(&sides->wanted_nodes, &tunnel);
	}
	return ret;
}

/* The kernel does not show the device's own port. */
static int want_clusters(const struct mk_overlay *overlay, struct sides *sides)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < overlay->cluster_count; i++) {
		const struct mk_clusters_fdb *row = &overlay->clusters[i];
		const struct entry entry = {
			.ip = row->remote,
			.mac = row->mac,
			.port = row->port == overlay->devices.vxlan_port ? 0 : row->port,
			.by_ifindex = row->is_encrypted ? overlay->devices.wg_ifindex : 0,
		};

		ret = add(row->is_encrypted ? &sides->wanted_encrypted : &sides->wanted_clusters,
			  &entry);
	}
	return ret;
}

/* release() in any case. */
static int fill(struct mk_overlay *overlay, struct sides *sides, struct mk_error *err)
{
	int ret;

	*sides = (struct sides){
		.neighs.err = err,
		.fdb = { { .err = err }, { .err = err }, { .err = err }, { .err = err } },
		.wanted_neighs.err = err,
		.wanted_nodes.err = err,
		.wanted_clusters.err = err,
		.wanted_encrypted.err = err,
	};
	ret = read_entries(overlay, sides, err);
	for (size_t i = 0; i < TUNNELS; i++)
		sort(&sides->fdb[i]);
	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++)
		if (overlay_has(&overlay->families[i]))
			ret = want_nodes(overlay, &overlay->families[i], sides);
	ret = ret ?: want_clusters(overlay, sides);
	if (ret < 0)
		return ret;
	sort(&sides->neighs);
	sort(&sides->wanted_neighs);
	sort_unique(&sides->wanted_nodes);
	sort_unique(&sides->wanted_clusters);
	sort_unique(&sides->wanted_encrypted);
	return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Log a missing entry that was put back if neither devices nor the nodes' addresses changed: then
 * another process had removed it. */
static void say_repaired(struct mk_overlay *overlay, const struct entry *entry, const char *what)
{
	char text[MK_IP_STRLEN];

	if (overlay->entries_changed)
		return;
	overlay->repairs.neighbours++;
	if (entry->node)
		mk_log_warn("%s of a node was missing and is put back node=%s", what, entry->node);
	else
		mk_log_warn("%s was missing and is put back address=%s", what,
			    mk_ip_format(&entry->ip, text));
}

typedef int put_fn(struct mk_nl *nl, int ifindex, const struct entry *entry, struct mk_error *err);

static int put_neigh(struct mk_nl *nl, int ifindex, const struct entry *entry, struct mk_error *err)
{
	return mk_nl_neigh_put(nl, ifindex, &entry->ip, &entry->mac, err);
}

static struct mk_nl_fdb fdb_of(const struct entry *entry)
{
	return (struct mk_nl_fdb){ entry->mac, entry->ip, entry->port, entry->by_ifindex };
}

static int put_fdb(struct mk_nl *nl, int ifindex, const struct entry *entry, struct mk_error *err)
{
	const struct mk_nl_fdb fdb = fdb_of(entry);

	return mk_nl_fdb_put(nl, ifindex, &fdb, err);
}

static int put(struct mk_overlay *overlay, int ifindex, const struct entries *wanted,
	       const struct entries *found, put_fn *put_one, const char *what,
	       unsigned int *changes, struct mk_error *err)
{
	for (size_t i = 0; i < wanted->count; i++) {
		const struct entry *entry = &wanted->list[i];

		if (has(found, entry))
			continue;
		(*changes)++;
		if (put_one(overlay->nl, ifindex, entry, err) < 0)
			return mk_error_wrap(err, "node '%s'",
					     entry->node ? entry->node : "of another cluster");
		say_repaired(overlay, entry, what);
	}
	return 0;
}

static int put_tunnels(struct mk_overlay *overlay, const struct sides *sides, unsigned int *changes,
		       struct mk_error *err)
{
	static const char *const whats[TUNNELS] = {
		[OVERLAY] = "FDB entry",
		[CHAINS] = "FDB entry of chains",
		[CLUSTERS] = "FDB entry of another cluster's node",
		[ENCRYPTED] = "FDB entry of another cluster's node with WireGuard",
	};
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < TUNNELS; i++)
		if (ifindex_of(overlay, i))
			ret = put(overlay, ifindex_of(overlay, i), wanted_of(sides, i),
				  &sides->fdb[i], put_fdb, whats[i], changes, err);
	return ret;
}

int overlay_put_neighbours(struct mk_overlay *overlay, unsigned int *changes, struct mk_error *err)
{
	struct sides sides;
	int ret = fill(overlay, &sides, err);

	ret = ret ?: put_tunnels(overlay, &sides, changes, err);
	if (ret == 0)
		ret = put(overlay, overlay->devices.overlay_ifindex, &sides.wanted_neighs,
			  &sides.neighs, put_neigh, "neighbour", changes, err);
	release(&sides);
	return ret;
}

static int prune_fdb(struct mk_overlay *overlay, size_t tunnel, const struct sides *sides,
		     unsigned int *changes, struct mk_error *err)
{
	const struct entries *fdb = &sides->fdb[tunnel];
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < fdb->count; i++) {
		const struct mk_nl_fdb unwanted = fdb_of(&fdb->list[i]);

		if (has(wanted_of(sides, tunnel), &fdb->list[i]))
			continue;
		ret = mk_nl_fdb_delete(overlay->nl, ifindex_of(overlay, tunnel), &unwanted, err);
		(*changes)++;
	}
	return ret;
}

static int prune(struct mk_overlay *overlay, const struct sides *sides, unsigned int *changes,
		 struct mk_error *err)
{
	int ifindex = overlay->devices.overlay_ifindex;
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < sides->neighs.count; i++) {
		if (has(&sides->wanted_neighs, &sides->neighs.list[i]))
			continue;
		ret = mk_nl_neigh_delete(overlay->nl, ifindex, &sides->neighs.list[i].ip, err);
		(*changes)++;
	}
	for (size_t i = 0; ret == 0 && i < (overlay->clusters_known ? TUNNELS : CLUSTERS); i++)
		ret = prune_fdb(overlay, i, sides, changes, err);
	return ret;
}

/* Let the kernel find or confirm the MAC addresses of direct nodes. A program that asks for one
 * cannot wait for it, and finds it also after the agent's end. */
int overlay_use_links(struct mk_overlay *overlay, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; i < MK_FAMILIES; i++)
		for (size_t j = 0; ret == 0 && j < overlay->families[i].peer_count; j++) {
			const struct mk_overlay_peer *peer = &overlay->families[i].peers[j];

			if (peer->is_direct || peer->is_tried)
				ret = mk_nl_neigh_use(overlay->nl, peer->link_ifindex,
						      &peer->link_ip, err);
		}
	return ret;
}

int overlay_prune_neighbours(struct mk_overlay *overlay, unsigned int *changes,
			     struct mk_error *err)
{
	struct sides sides;
	int ret = fill(overlay, &sides, err);

	ret = ret ?: prune(overlay, &sides, changes, err);
	release(&sides);
	return ret;
}
