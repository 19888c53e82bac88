// SPDX-License-Identifier: Apache-2.0
/* FDB and neighbour entries of the VXLAN device. All of them are ours, since the device is. They
 * change only with nodes, so rarely that the kernel is asked each time. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "overlay/overlay_internal.h"

/* An entry of either kind: a neighbour's ip is the VTEP, an FDB entry's ip
 * is the node's address. */
struct entry {
	struct mk_ip ip;
	struct mk_mac mac;
};

struct entries {
	struct entry *list;
	size_t count, room;
	struct mk_error *err;
};

static int add(struct entries *entries, const struct mk_ip *ip, const struct mk_mac *mac)
{
	if (entries->count == entries->room) {
		size_t room = entries->room ? entries->room * 2 : 64;
		struct entry *bigger = realloc(entries->list, room * sizeof(*bigger));

		if (!bigger)
			return mk_error_errno(entries->err, ENOMEM, "cannot list neighbours");
		entries->list = bigger;
		entries->room = room;
	}
	entries->list[entries->count++] = (struct entry){ .ip = *ip, .mac = *mac };
	return 0;
}

/* An entry that is not permanent was learned or failed: ignore it. */
static int see_neigh(void *ctx, const struct mk_ip *ip, const struct mk_mac *mac, bool permanent)
{
	return permanent ? add(ctx, ip, mac) : 0;
}

static int see_fdb(void *ctx, const struct mk_mac *mac, const struct mk_ip *remote)
{
	return add(ctx, remote, mac);
}

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int order = memcmp(&x->mac, &y->mac, sizeof(x->mac));

	return order ? order : mk_ip_compare(&x->ip, &y->ip);
}

static int read_entries(struct mk_overlay *overlay, struct entries *neighs, struct entries *fdb,
			struct mk_error *err)
{
	int ifindex = overlay->devices.overlay_ifindex;
	int ret;

	neighs->err = fdb->err = err;
	ret = mk_nl_each_neigh(overlay->nl, overlay_family(overlay), ifindex, see_neigh, neighs,
			       err);
	ret = ret ?: mk_nl_each_fdb(overlay->nl, ifindex, see_fdb, fdb, err);
	if (ret < 0)
		return ret;
	if (neighs->count)
		qsort(neighs->list, neighs->count, sizeof(*neighs->list), compare_entries);
	if (fdb->count)
		qsort(fdb->list, fdb->count, sizeof(*fdb->list), compare_entries);
	return 0;
}

static bool has(const struct entries *entries, const struct entry *entry)
{
	return entries->count &&
	       bsearch(entry, entries->list, entries->count, sizeof(*entry), compare_entries);
}

/* Log a missing entry if neither device nor nodes changed: then another process has removed it. */
static void say_repaired(struct mk_overlay *overlay, const struct mk_overlay_peer *peer,
			 const char *what)
{
	if (overlay->peers_changed)
		return;
	overlay->repairs.neighbours++;
	mk_log_warn("%s of a node was missing and is put back node=%s", what, peer->node);
}

static int put_peer(struct mk_overlay *overlay, const struct mk_overlay_peer *peer,
		    const struct entries *neighs, const struct entries *fdb, unsigned int *changes,
		    struct mk_error *err)
{
	int ifindex = overlay->devices.overlay_ifindex;
	struct entry neigh = { .ip = peer->vtep, .mac = peer->vtep_mac };
	struct entry tunnel = { .ip = peer->underlay, .mac = peer->vtep_mac };
	int ret = 0;

	if (!has(fdb, &tunnel)) {
		say_repaired(overlay, peer, "FDB entry");
		ret = mk_nl_fdb_put(overlay->nl, ifindex, &tunnel.mac, &tunnel.ip, err);
		(*changes)++;
	}
	if (ret == 0 && !has(neighs, &neigh)) {
		say_repaired(overlay, peer, "neighbour");
		ret = mk_nl_neigh_put(overlay->nl, ifindex, &neigh.ip, &neigh.mac, err);
		(*changes)++;
	}
	return ret < 0 ? mk_error_wrap(err, "node '%s'", peer->node) : 0;
}

int overlay_put_neighbours(struct mk_overlay *overlay, unsigned int *changes, struct mk_error *err)
{
	struct entries neighs = { 0 }, fdb = { 0 };
	int ret = read_entries(overlay, &neighs, &fdb, err);

	for (size_t i = 0; ret == 0 && i < overlay->peer_count; i++)
		ret = put_peer(overlay, &overlay->peers[i], &neighs, &fdb, changes, err);
	free(neighs.list);
	free(fdb.list);
	return ret;
}

/* ---- pruning --------------------------------------------------------------------------------- */

static int wanted_entries(const struct mk_overlay *overlay, struct entries *neighs,
			  struct entries *fdb, struct mk_error *err)
{
	neighs->err = fdb->err = err;
	for (size_t i = 0; i < overlay->peer_count; i++) {
		const struct mk_overlay_peer *peer = &overlay->peers[i];
		int ret = add(neighs, &peer->vtep, &peer->vtep_mac);

		ret = ret ?: add(fdb, &peer->underlay, &peer->vtep_mac);
		if (ret < 0)
			return ret;
	}
	if (overlay->peer_count) {
		qsort(neighs->list, neighs->count, sizeof(*neighs->list), compare_entries);
		qsort(fdb->list, fdb->count, sizeof(*fdb->list), compare_entries);
	}
	return 0;
}

static int prune(struct mk_overlay *overlay, const struct entries *neighs,
		 const struct entries *fdb, const struct entries *wanted_neighs,
		 const struct entries *wanted_fdb, unsigned int *changes, struct mk_error *err)
{
	int ifindex = overlay->devices.overlay_ifindex;
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < neighs->count; i++) {
		if (has(wanted_neighs, &neighs->list[i]))
			continue;
		ret = mk_nl_neigh_delete(overlay->nl, ifindex, &neighs->list[i].ip, err);
		(*changes)++;
	}
	for (size_t i = 0; ret == 0 && i < fdb->count; i++) {
		if (has(wanted_fdb, &fdb->list[i]))
			continue;
		ret = mk_nl_fdb_delete(overlay->nl, ifindex, &fdb->list[i].mac, &fdb->list[i].ip,
				       err);
		(*changes)++;
	}
	return ret;
}

int overlay_prune_neighbours(struct mk_overlay *overlay, unsigned int *changes,
			     struct mk_error *err)
{
	struct entries neighs = { 0 }, fdb = { 0 }, wanted_neighs = { 0 }, wanted_fdb = { 0 };
	int ret = read_entries(overlay, &neighs, &fdb, err);

	ret = ret ?: wanted_entries(overlay, &wanted_neighs, &wanted_fdb, err);
	ret = ret ?: prune(overlay, &neighs, &fdb, &wanted_neighs, &wanted_fdb, changes, err);
	free(neighs.list);
	free(fdb.list);
	free(wanted_neighs.list);
	free(wanted_fdb.list);
	return ret;
}
