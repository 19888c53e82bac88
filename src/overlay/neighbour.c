// SPDX-License-Identifier: Apache-2.0
/* FDB and neighbour entries of the overlay's VXLAN device, and the same FDB entries of the chains'
 * device. All of them are ours, since the devices are. They change only with nodes, so rarely that
 * the kernel is asked each time. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "overlay/overlay_internal.h"

/* An entry of either kind: a neighbour's ip is the VTEP, an FDB entry's ip
 * is the node's address. */
struct entry {
	struct mk_ip ip;
	struct mk_mac mac;
	const char *node; /* of a wanted entry */
};

struct entries {
	struct entry *list;
	size_t count, room;
	struct mk_error *err;
};

static int add(struct entries *entries, const struct entry *entry)
{
	if (entries->count == entries->room) {
		size_t room = entries->room ? entries->room * 2 : 64;
		struct entry *bigger = realloc(entries->list, room * sizeof(*bigger));

		if (!bigger)
			return mk_error_errno(entries->err, ENOMEM, "cannot list neighbours");
		entries->list = bigger;
		entries->room = room;
	}
	entries->list[entries->count++] = *entry;
	return 0;
}

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int order = memcmp(&x->mac, &y->mac, sizeof(x->mac));

	return order ? order : mk_ip_compare(&x->ip, &y->ip);
}

/* Sort, and remove duplicates: a node with two families has one FDB entry. */
static void sort(struct entries *entries)
{
	size_t kept = 0;

	if (entries->count)
		qsort(entries->list, entries->count, sizeof(*entries->list), compare_entries);
	for (size_t i = 0; i < entries->count; i++)
		if (kept == 0 || compare_entries(&entries->list[kept - 1], &entries->list[i]) != 0)
			entries->list[kept++] = entries->list[i];
	entries->count = kept;
}

static bool has(const struct entries *entries, const struct entry *entry)
{
	return entries->count &&
	       bsearch(entry, entries->list, entries->count, sizeof(*entry), compare_entries);
}

/* ---- the two sides --------------------------------------------------------------------------- */

#define TUNNELS 2 /* VXLAN devices with an FDB: the overlay's, the chains' */

struct sides {
	struct entries neighs, fdb[TUNNELS]; /* in the kernel */
	struct entries wanted_neighs, wanted_fdb;
};

static void release(struct sides *sides)
{
	free(sides->neighs.list);
	for (size_t i = 0; i < TUNNELS; i++)
		free(sides->fdb[i].list);
	free(sides->wanted_neighs.list);
	free(sides->wanted_fdb.list);
}

/* An entry that is not permanent was learned or failed: ignore it. */
static int see_neigh(void *ctx, const struct mk_ip *ip, const struct mk_mac *mac, bool permanent)
{
	const struct entry entry = { .ip = *ip, .mac = *mac };

	return permanent ? add(ctx, &entry) : 0;
}

static int see_fdb(void *ctx, const struct mk_mac *mac, const struct mk_ip *remote)
{
	const struct entry entry = { .ip = *remote, .mac = *mac };

	return add(ctx, &entry);
}

static int ifindex_of(const struct mk_overlay *overlay, size_t tunnel)
{
	return tunnel ? overlay->devices.sfc_ifindex : overlay->devices.overlay_ifindex;
}

static int read_entries(struct mk_overlay *overlay, struct sides *sides, struct mk_error *err)
{
	int ifindex = overlay->devices.overlay_ifindex, ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++)
		if (overlay_reads(&overlay->families[i]))
			ret = mk_nl_each_neigh(overlay->nl, i ? AF_INET6 : AF_INET, ifindex,
					       see_neigh, &sides->neighs, err);
	for (size_t i = 0; ret == 0 && i < TUNNELS; i++)
		ret = mk_nl_each_fdb(overlay->nl, ifindex_of(overlay, i), see_fdb, &sides->fdb[i],
				     err);
	return ret;
}

static int want_entries(const struct overlay_family *family, struct sides *sides)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < family->peer_count; i++) {
		const struct mk_overlay_peer *peer = &family->peers[i];
		const struct entry neigh = { peer->vtep, peer->vtep_mac, peer->node };
		const struct entry tunnel = { peer->underlay, peer->vtep_mac, peer->node };

		ret = add(&sides->wanted_neighs, &neigh);
		ret = ret ?: add(&sides->wanted_fdb, &tunnel);
	}
	return ret;
}

/* release() in any case. */
static int fill(struct mk_overlay *overlay, struct sides *sides, struct mk_error *err)
{
	int ret;

	*sides = (struct sides){
		.neighs.err = err,
		.fdb = { { .err = err }, { .err = err } },
		.wanted_neighs.err = err,
		.wanted_fdb.err = err,
	};
	ret = read_entries(overlay, sides, err);
	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++)
		if (overlay_has(&overlay->families[i]))
			ret = want_entries(&overlay->families[i], sides);
	if (ret < 0)
		return ret;
	sort(&sides->neighs);
	for (size_t i = 0; i < TUNNELS; i++)
		sort(&sides->fdb[i]);
	sort(&sides->wanted_neighs);
	sort(&sides->wanted_fdb);
	return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Log a missing entry if neither device nor nodes changed: then another process has removed it. */
static void say_repaired(struct mk_overlay *overlay, const char *node, const char *what)
{
	if (overlay->peers_changed)
		return;
	overlay->repairs.neighbours++;
	mk_log_warn("%s of a node was missing and is put back node=%s", what, node);
}

typedef int put_fn(struct mk_nl *nl, int ifindex, const struct entry *entry, struct mk_error *err);

static int put_neigh(struct mk_nl *nl, int ifindex, const struct entry *entry, struct mk_error *err)
{
	return mk_nl_neigh_put(nl, ifindex, &entry->ip, &entry->mac, err);
}

static int put_fdb(struct mk_nl *nl, int ifindex, const struct entry *entry, struct mk_error *err)
{
	return mk_nl_fdb_put(nl, ifindex, &entry->mac, &entry->ip, err);
}

static int put(struct mk_overlay *overlay, int ifindex, const struct entries *wanted,
	       const struct entries *found, put_fn *put_one, const char *what,
	       unsigned int *changes, struct mk_error *err)
{
	for (size_t i = 0; i < wanted->count; i++) {
		const struct entry *entry = &wanted->list[i];

		if (has(found, entry))
			continue;
		say_repaired(overlay, entry->node, what);
		(*changes)++;
		if (put_one(overlay->nl, ifindex, entry, err) < 0)
			return mk_error_wrap(err, "node '%s'", entry->node);
	}
	return 0;
}

int overlay_put_neighbours(struct mk_overlay *overlay, unsigned int *changes, struct mk_error *err)
{
	struct sides sides;
	int ret = fill(overlay, &sides, err);

	for (size_t i = 0; ret == 0 && i < TUNNELS; i++)
		ret = put(overlay, ifindex_of(overlay, i), &sides.wanted_fdb, &sides.fdb[i],
			  put_fdb, i ? "FDB entry of chains" : "FDB entry", changes, err);
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
		const struct entry *entry = &fdb->list[i];

		if (has(&sides->wanted_fdb, entry))
			continue;
		ret = mk_nl_fdb_delete(overlay->nl, ifindex_of(overlay, tunnel), &entry->mac,
				       &entry->ip, err);
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
	for (size_t i = 0; ret == 0 && i < TUNNELS; i++)
		ret = prune_fdb(overlay, i, sides, changes, err);
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
