// SPDX-License-Identifier: Apache-2.0
#include "datapath/maps/links.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static int put_uplinks(const struct mk_table *table, const struct mk_datapath_links *wanted,
		       struct mk_error *err)
{
	int changed = 0;

	for (size_t i = 0; i < wanted->uplink_count; i++) {
		const struct mk_uplink *uplink = &wanted->uplinks[i];
		struct mk_uplink now;
		int ret = mk_table_get(table, &uplink->ifindex, &now, NULL);

		if (ret == 0 && memcmp(&now, uplink, sizeof(now)) == 0)
			continue;
		ret = mk_table_put(table, &uplink->ifindex, uplink, err);
		if (ret < 0)
			return ret;
		changed++;
	}
	return changed;
}

/* Write the set that is not current, then switch to it. A program may still read the old set; that
 * set is not written before the next turn of the event loop. The devices of chains
 * and of other clusters are in no set. */
static int put_set(const struct mk_table *table, const struct mk_datapath_links *wanted,
		   struct mk_error *err)
{
	struct mk_links links;
	__u32 zero = 0;
	int ret = mk_table_get(table, &zero, &links, err);

	if (ret < 0)
		return ret;
	links.current &= 1;
	if (memcmp(&links.set[links.current], &wanted->set, sizeof(wanted->set)) == 0 &&
	    links.sfc_ifindex == wanted->sfc_ifindex &&
	    links.cluster_ifindex == wanted->cluster_ifindex &&
	    links.wg_ifindex == wanted->wg_ifindex &&
	    links.wg_peer_ifindex == wanted->wg_peer_ifindex)
		return 0;
	links.sfc_ifindex = wanted->sfc_ifindex;
	links.cluster_ifindex = wanted->cluster_ifindex;
	links.wg_ifindex = wanted->wg_ifindex;
	links.wg_peer_ifindex = wanted->wg_peer_ifindex;
	links.set[!links.current] = wanted->set;
	ret = mk_table_put(table, &zero, &links, err);
	links.current = !links.current;
	ret = ret ?: mk_table_put(table, &zero, &links, err);
	return ret < 0 ? ret : 1;
}

int mk_links_put(const struct mk_table *links, const struct mk_table *uplinks,
		 const struct mk_datapath_links *wanted, struct mk_error *err)
{
	int changed = put_uplinks(uplinks, wanted, err), set;

	if (changed < 0)
		return changed;
	set = put_set(links, wanted, err);
	return set < 0 ? set : changed + set;
}

static bool is_wanted(const struct mk_datapath_links *wanted, __u32 ifindex)
{
	for (size_t i = 0; i < wanted->uplink_count; i++)
		if (wanted->uplinks[i].ifindex == ifindex)
			return true;
	return false;
}

int mk_links_prune(const struct mk_table *uplinks, const struct mk_datapath_links *wanted,
		   struct mk_error *err)
{
	cleanup_free void *keys = NULL;
	int removed = 0, ret;
	size_t count;

	ret = mk_table_keys(uplinks, &keys, &count, err);
	for (size_t i = 0; ret >= 0 && i < count; i++) {
		__u32 ifindex = ((__u32 *)keys)[i];

		if (is_wanted(wanted, ifindex))
			continue;
		ret = mk_table_delete(uplinks, &ifindex, err);
		removed += ret > 0;
	}
	return ret < 0 ? ret : removed;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	const struct mk_uplink *x = a, *y = b;

	return (x->ifindex > y->ifindex) - (x->ifindex < y->ifindex);
}

static void put_first(struct mk_datapath_links *links)
{
	for (size_t i = 0; i < links->uplink_count; i++) {
		struct mk_uplink first = links->uplinks[i];

		if (first.ifindex != links->set.first.ifindex)
			continue;
		memmove(&links->uplinks[1], &links->uplinks[0], i * sizeof(first));
		links->uplinks[0] = first;
	}
}

static int add_uplink(void *ctx, const void *key, const void *value, struct mk_error *err)
{
	struct mk_datapath_links *links = ctx;

	(void)key;
	(void)err;
	if (links->uplink_count < MK_UPLINKS_MAX)
		memcpy(&links->uplinks[links->uplink_count++], value, sizeof(struct mk_uplink));
	return 0;
}

static int read_uplinks(const struct mk_table *table, struct mk_datapath_links *links,
			struct mk_error *err)
{
	int ret = mk_table_each(table, add_uplink, links, err);

	if (ret < 0)
		return ret;
	qsort(links->uplinks, links->uplink_count, sizeof(links->uplinks[0]), compare);
	put_first(links);
	return 0;
}

int mk_links_read(const char *bpf_dir, struct mk_datapath_links *links, struct mk_error *err)
{
	cleanup_table struct mk_table table = { 0 }, uplinks = { 0 };
	struct mk_links both;
	__u32 zero = 0;
	int ret = mk_table_open(&table, bpf_dir, "links", sizeof(zero), sizeof(both), err);

	*links = (struct mk_datapath_links){ 0 };
	ret = ret ?: mk_table_get(&table, &zero, &both, err);
	if (ret == 0)
		ret = mk_table_open(&uplinks, bpf_dir, "uplinks", sizeof(zero),
				    sizeof(struct mk_uplink), err);
	if (ret < 0)
		return ret;
	links->set = both.set[both.current & 1];
	links->sfc_ifindex = both.sfc_ifindex;
	links->cluster_ifindex = both.cluster_ifindex;
	links->wg_ifindex = both.wg_ifindex;
	links->wg_peer_ifindex = both.wg_peer_ifindex;
	return read_uplinks(&uplinks, links, err);
}
