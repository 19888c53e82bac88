// SPDX-License-Identifier: Apache-2.0
/* Names of other clusters, for the numbers in the tables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/state_file.h"
#include "cli/inspect/peers.h"
#include "cli/inspect/view_internal.h"
#include "clusters/clusters.h"

int peer_names_read(const char *state_dir, json_object **names, struct mk_error *err)
{
	return mk_state_tree_read(state_dir, MK_CLUSTER_NAMES_FILE, MK_CLUSTER_NAMES_VERSION, names,
				  err);
}

int mk_cli_peers_open(struct mk_cli_peers *peers, const struct mk_view *view, struct mk_error *err)
{
	int ret;

	*peers = (struct mk_cli_peers){
		.view = view, .clusters.fd = -1, .nodes.fd = -1, .counters.fd = -1
	};
	ret = mk_table_open(&peers->clusters, view->dir, "clusters", sizeof(__u32),
			    sizeof(struct mk_cluster), err);
	ret = ret
		      ?: mk_table_open(&peers->nodes, view->dir, "cluster_nodes",
				       sizeof(struct mk_cluster_node_key), sizeof(__u32), err);
	return ret
		       ?: mk_table_open(&peers->counters, view->dir, "cluster_counters",
					sizeof(__u32), sizeof(struct mk_cluster_counters), err);
}

void mk_cli_peers_close(struct mk_cli_peers *peers)
{
	mk_table_close(&peers->clusters);
	mk_table_close(&peers->nodes);
	mk_table_close(&peers->counters);
}

json_object *mk_peer_at(const struct mk_view *view, size_t index)
{
	return mk_json_at(mk_json_member(view->peer_names, "peers"), index);
}

const char *mk_peer_name(const struct mk_view *view, unsigned int number,
			 char buf[MK_PEER_NAME_BYTES])
{
	json_object *entry;

	number &= MK_CLUSTER_NUMBER_MAX; /* of its external addresses, too */
	snprintf(buf, MK_PEER_NAME_BYTES, "cluster %u", number);
	for (size_t i = 0; (entry = mk_peer_at(view, i)); i++)
		if (mk_json_number(entry, "number") == (int64_t)number)
			snprintf(buf, MK_PEER_NAME_BYTES, "%s", mk_json_text(entry, "name"));
	return buf;
}

bool mk_peer_row(const struct mk_cli_peers *peers, unsigned int number, struct mk_cluster *row)
{
	const __u32 key = number;

	return mk_table_get(&peers->clusters, &key, row, NULL) == 0;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

struct search {
	const struct mk_mac *mac;
	struct mk_ip remote;
};

static int see_fdb(void *ctx, const struct mk_nl_fdb *fdb)
{
	struct search *search = ctx;

	if (memcmp(&fdb->mac, search->mac, sizeof(fdb->mac)) == 0)
		search->remote = fdb->remote;
	return 0;
}

/* Visit the FDB entries of both devices to other clusters: the plain one, and that of WireGuard. */
static int each_fdb(const struct mk_view *view,
		    int (*visit)(void *ctx, const struct mk_nl_fdb *fdb), void *ctx,
		    struct mk_error *err)
{
	int ret = mk_nl_each_fdb(view->nl, (int)view->links.cluster_ifindex, visit, ctx, err);

	if (ret == 0 && view->links.wg_peer_ifindex)
		ret = mk_nl_each_fdb(view->nl, (int)view->links.wg_peer_ifindex, visit, ctx, err);
	return ret;
}

struct mk_ip mk_peer_remote(const struct mk_view *view, const struct mk_mac *mac)
{
	struct search search = { .mac = mac };

	if (each_fdb(view, see_fdb, &search, NULL) < 0)
		return (struct mk_ip){ .family = AF_UNSPEC };
	return search.remote;
}

struct listing {
	struct mk_peer_hop *hops;
	size_t count;
	__u32 own; /* this cluster's number: the row of a border node */
};

static struct mk_mac mac_of(unsigned int cluster, unsigned int hop)
{
	const struct mk_cluster_dest dest = {
		.local = MK_CLUSTER_MAC_LOCAL,
		.cluster = { (__u8)(cluster >> 16), (__u8)(cluster >> 8), (__u8)cluster },
		.hop = { (__u8)(hop >> 8), (__u8)hop },
	};
	struct mk_mac mac;

	memcpy(&mac, &dest, sizeof(mac));
	return mac;
}

static int see_hop(void *ctx, const void *key_, const void *value_, struct mk_error *err)
{
	const struct mk_cluster_node_key *key = key_;
	const __u32 *hop = value_;
	struct listing *listing = ctx;
	struct mk_mac mac = mac_of(key->cluster, *hop); /* without MK_CLUSTER_EXTERNAL */
	struct mk_peer_hop *added;

	if (*hop & MK_CLUSTER_HOP_TRIAL || key->cluster == listing->own)
		return 0;
	for (size_t i = 0; i < listing->count; i++)
		if (memcmp(&listing->hops[i].mac, &mac, sizeof(mac)) == 0)
			return 0;
	added = mk_append(listing->hops, listing->count);
	if (!added)
		return mk_error_errno(err, ENOMEM, "cannot list the nodes of other clusters");
	added->mac = mac;
	return 0;
}

static int see_remote(void *ctx, const struct mk_nl_fdb *fdb)
{
	struct listing *listing = ctx;

	for (size_t i = 0; i < listing->count; i++)
		if (memcmp(&listing->hops[i].mac, &fdb->mac, sizeof(fdb->mac)) == 0)
			listing->hops[i].remote = fdb->remote;
	return 0;
}

int mk_peer_hops(const struct mk_cli_peers *peers, struct mk_peer_hop **hops, size_t *count,
		 struct mk_error *err)
{
	const struct mk_view *view = peers->view;
	struct listing listing = { .own = view->node.cluster_number };
	int ret = mk_table_each(&peers->nodes, see_hop, &listing, err);

	ret = ret ?: each_fdb(view, see_remote, &listing, err);
	if (ret < 0) {
		free(listing.hops);
		listing = (struct listing){ 0 };
	}
	*hops = listing.hops;
	*count = listing.count;
	return ret;
}
