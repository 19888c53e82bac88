// SPDX-License-Identifier: Apache-2.0
/* Maps peers and far_peers: the source addresses of other nodes' overlay packets. Map link_nodes:
 * the nodes that may do without the overlay. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "datapath/datapath_internal.h"
#include "datapath/maps/runtime.h"

static int compare(const void *a, const void *b)
{
	const struct mk_peer_entry *x = a, *y = b;

	if (x->is_far != y->is_far)
		return x->is_far < y->is_far ? -1 : 1;
	return memcmp(&x->addr, &y->addr, sizeof(x->addr));
}

/* .. and of entries for one address, the one that counts comes first. */
static int compare_claims(const void *a, const void *b)
{
	const struct mk_peer_entry *x = a, *y = b;
	int order = compare(x, y) ?: y->is_internal - x->is_internal;

	return order ?: memcmp(&x->peer, &y->peer, sizeof(x->peer));
}

/* Sort, and keep one entry per address. Returns how many are left. */
static size_t sort_unique(struct mk_peer_entry *wanted, size_t count)
{
	size_t kept = 0;

	if (count > 1)
		qsort(wanted, count, sizeof(*wanted), compare_claims);
	for (size_t i = 0; i < count; i++)
		if (!kept || compare(&wanted[kept - 1], &wanted[i]) != 0)
			wanted[kept++] = wanted[i];
	return kept;
}

static bool is_as_before(const struct mk_datapath *datapath, const struct mk_peer_entry *wanted,
			 size_t count)
{
	return datapath->peer_entries && datapath->peer_count == count &&
	       memcmp(datapath->peer_entries, wanted, count * sizeof(*wanted)) == 0;
}

static int remember(struct mk_datapath *datapath, const struct mk_peer_entry *entries, size_t count,
		    struct mk_error *err)
{
	struct mk_peer_entry *copy = calloc(count + 1, sizeof(*copy));

	if (!copy)
		return mk_error_errno(err, ENOMEM, "cannot keep map 'peers'");
	if (count)
		memcpy(copy, entries, count * sizeof(*copy));
	free(datapath->peer_entries);
	datapath->peer_entries = copy;
	datapath->peer_count = count;
	return 0;
}

static const struct mk_table *table_of(const struct mk_datapath *datapath, bool is_far)
{
	return is_far ? &datapath->far_peers : &datapath->peers;
}

static int put_all(const struct mk_datapath *datapath, const struct mk_peer_entry *wanted,
		   size_t count, unsigned int *changes, struct mk_error *err)
{
	for (size_t i = 0; i < count; i++) {
		const struct mk_table *table = table_of(datapath, wanted[i].is_far);
		struct mk_peer now;
		int ret = mk_table_get(table, &wanted[i].addr, &now, NULL);

		if (ret == 0 && memcmp(&now, &wanted[i].peer, sizeof(now)) == 0)
			continue;
		ret = mk_table_put(table, &wanted[i].addr, &wanted[i].peer, err);
		if (ret < 0)
			return ret;
		(*changes)++;
	}
	return 0;
}

static int remove_others(const struct mk_datapath *datapath, bool is_far,
			 const struct mk_peer_entry *wanted, size_t count, unsigned int *changes,
			 struct mk_error *err)
{
	const struct mk_table *table = table_of(datapath, is_far);
	cleanup_free void *keys = NULL;
	size_t there;
	int ret = mk_table_keys(table, &keys, &there, err);

	for (size_t i = 0; ret == 0 && i < there; i++) {
		struct mk_peer_entry entry = { .is_far = is_far,
					       .addr = ((struct mk_addr *)keys)[i] };

		if (mk_find(&entry, wanted, count, compare))
			continue;
		ret = mk_table_delete(table, &entry.addr, err);
		if (ret < 0)
			return ret;
		*changes += (unsigned int)ret;
		ret = 0;
	}
	return ret;
}

int mk_datapath_sync_peers(struct mk_datapath *datapath, struct mk_peer_entry *wanted, size_t count,
			   bool complete, unsigned int *changes, struct mk_error *err)
{
	const struct mk_runtime_change known = { .set_peers_known = true, .peers_known = true };
	int ret;

	if (datapath->state < MK_DATAPATH_LOADED)
		return datapath_expect(datapath, MK_DATAPATH_LOADED, "nodes", err);
	count = sort_unique(wanted, count);
	if (is_as_before(datapath, wanted, count))
		return 0;
	ret = put_all(datapath, wanted, count, changes, err);
	if (ret < 0 || !complete)
		return ret;
	ret = remove_others(datapath, false, wanted, count, changes, err);
	ret = ret ?: remove_others(datapath, true, wanted, count, changes, err);
	ret = ret ?: mk_runtime_change(datapath->bpf_dir, datapath->state_dir, &known, err);
	return ret < 0 ? ret : remember(datapath, wanted, count, err);
}

int datapath_repair_peers(struct mk_datapath *datapath, struct mk_error *err)
{
	unsigned int repaired = 0;
	int ret = put_all(datapath, datapath->peer_entries, datapath->peer_count, &repaired, err);

	if (repaired)
		mk_log_warn("entries were missing and are back maps=peers,far_peers entries=%u",
			    repaired);
	return ret < 0 ? ret : (int)repaired;
}

/* ---- link_nodes ------------------------------------------------------------------------------ */

static int compare_links(const void *a, const void *b)
{
	const struct mk_link_node_entry *x = a, *y = b;

	return memcmp(&x->key, &y->key, sizeof(x->key));
}

/* Are the members equal that the agent writes? */
static bool same_link(const struct mk_link_node *a, const struct mk_link_node *b)
{
	return mk_addr_eq(&a->addr, &b->addr) && a->ifindex == b->ifindex &&
	       a->mtu_bytes == b->mtu_bytes;
}

/* Two seconds with one value are hours apart, so one that is no longer of use goes. */
static bool is_stale(const struct mk_link_node *node)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return node->shown_s && !mk_link_is_shown(node, now.tv_sec);
}

static int put_links(const struct mk_table *table, const struct mk_link_node_entry *wanted,
		     size_t count, unsigned int *changes, struct mk_error *err)
{
	for (size_t i = 0; i < count; i++) {
		struct mk_link_node now;
		int ret = mk_table_get(table, &wanted[i].key, &now, NULL);
		bool is_same = ret == 0 && same_link(&now, &wanted[i].node);

		if (is_same && !is_stale(&now))
			continue;
		ret = mk_table_put(table, &wanted[i].key, &wanted[i].node, err);
		if (ret < 0)
			return ret;
		*changes += !is_same;
	}
	return 0;
}

/* Nodes change so rarely that the table is read each time, which also repairs it. */
int mk_datapath_sync_link_nodes(struct mk_datapath *datapath, struct mk_link_node_entry *wanted,
				size_t count, bool complete, unsigned int *changes,
				struct mk_error *err)
{
	const struct mk_table *table = &datapath->link_nodes;
	cleanup_free struct mk_link_node_key *keys = NULL;
	size_t there = 0;
	int ret;

	if (datapath->state < MK_DATAPATH_LOADED)
		return datapath_expect(datapath, MK_DATAPATH_LOADED, "nodes on the link", err);
	if (count > 1)
		qsort(wanted, count, sizeof(*wanted), compare_links);
	ret = put_links(table, wanted, count, changes, err);
	if (ret == 0 && complete)
		ret = mk_table_keys(table, (void **)&keys, &there, err);
	for (size_t i = 0; ret >= 0 && i < there; i++) {
		struct mk_link_node_entry entry = { .key = keys[i] };

		if (mk_find(&entry, wanted, count, compare_links))
			continue;
		ret = mk_table_delete(table, &entry.key, err);
		*changes += ret > 0;
	}
	return ret < 0 ? ret : 0;
}
