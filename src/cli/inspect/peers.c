// SPDX-License-Identifier: Apache-2.0
/* `monokube peers`: the other clusters that this one knows. */
#include <bpf/libbpf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/inspect/peers.h"
#include "cli/inspect/view_internal.h"
#include "cli/print.h"

#define EXIT_UNUSABLE 1

/* The tables of all families that are shown. */
struct all {
	struct mk_cli_peers of[MK_FAMILIES];
	size_t count;
};

static const char *text_of(json_object *entry, const char *key)
{
	return json_object_get_string(mk_json_member(entry, key));
}

static uint64_t number_of(json_object *entry, const char *key)
{
	return (uint64_t)mk_json_number(entry, key);
}

/* A row without a view has a mask of all ones: its nodes are known, and no address is its own. */
static bool has_view(const struct mk_cluster *row)
{
	return mk_pod_host_bits(&row->mask) > 0;
}

static void add_range(json_object *list, const struct mk_view *view, const struct mk_addr *net,
		      const struct mk_addr *mask)
{
	const struct mk_cidr range = {
		mk_ip_of_family(net, view->family),
		(uint8_t)(mk_ip_bits(view->family) - mk_pod_host_bits(mask)),
	};
	char text[MK_CIDR_STRLEN];

	mk_add_text(list, mk_cidr_format(&range, text));
}

/* Put what the tables have of the peer. */
static void put_rows(json_object *object, const struct all *all, __u32 number)
{
	json_object *homes = json_object_new_array(), *views = json_object_new_array();
	struct mk_cluster_counters sum = { 0 };
	unsigned int flags = 0, mtu_bytes = 0;

	for (size_t i = 0; number && i < all->count; i++) {
		const struct mk_view *view = all->of[i].view;
		struct mk_cluster row;

		(void)mk_table_sum(&all->of[i].counters, &number, &sum, NULL);
		if (!mk_peer_row(&all->of[i], number, &row) || !has_view(&row))
			continue;
		flags |= row.flags;
		mtu_bytes = row.mtu_bytes;
		add_range(homes, view, &row.home, &row.mask);
		add_range(views, view, &row.view, &row.mask);
	}
	json_object_object_add(object, "podCidrs", homes);
	json_object_object_add(object, "viewCidrs", views);
	mk_put_text(object, "access",
		    flags & MK_CLUSTER_ACCESS_PODS	? "Pods"
		    : flags & MK_CLUSTER_ACCESS_EXPORTS ? "Exports"
							: "None");
	mk_put_number(object, "mtuBytes", mtu_bytes);
	mk_put_flag(object, "relay", flags & MK_CLUSTER_RELAYED);
	mk_put_number(object, "packetsTo", sum.packets[0]);
	mk_put_number(object, "bytesTo", sum.bytes[0]);
	mk_put_number(object, "packetsFrom", sum.packets[1]);
	mk_put_number(object, "bytesFrom", sum.bytes[1]);
}

/* The results of probes. Texts for the table: "2/3" and "0.4ms"; "-": nothing is known. */
static void put_probes(json_object *object, json_object *entry)
{
	uint64_t probed = number_of(entry, "probed"), rtt_us = number_of(entry, "rttMicros");
	char nodes[48] = "-", rtt[32] = "-";

	if (probed)
		snprintf(nodes, sizeof(nodes), "%" PRIu64 "/%" PRIu64,
			 number_of(entry, "answering"), probed);
	if (rtt_us)
		snprintf(rtt, sizeof(rtt), "%.1fms", (double)rtt_us / 1000);
	mk_put_text(object, "answering", nodes);
	mk_put_text(object, "rtt", rtt);
	mk_put_number(object, "rttMicros", rtt_us);
	mk_put_flag(object, "down", number_of(entry, "down"));
}

/* "ok", or the reasons. They may also name what is left out of a usable peer. */
static void put_state(json_object *object, json_object *entry, bool is_usable)
{
	json_object *reasons = json_object_object_get(entry, "reasons");

	if (mk_json_length(reasons))
		json_object_object_add(object, "state", json_object_get(reasons));
	else
		mk_put_text(object, "state", is_usable ? "ok" : "no reason is known");
}

/* "direct", "hub", or "hub+direct": some nodes are reached directly. " by node2": that border node
 * carries this node's packets. */
static void put_path(json_object *object, json_object *entry, const char *border)
{
	uint64_t direct = number_of(entry, "direct"), nodes = number_of(entry, "nodes");
	const char *via = text_of(entry, "via");
	bool is_direct = !via || (direct && direct == nodes);
	char path[448];

	snprintf(path, sizeof(path), "%s%s%s%s", is_direct ? "direct" : via,
		 !is_direct && direct ? "+direct" : "", border ? " by " : "", border ? border : "");
	mk_put_text(object, "path", path);
	if (border)
		mk_put_text(object, "border", border);
}

static json_object *peer_json(const struct all *all, json_object *entry)
{
	__u32 number = (__u32)number_of(entry, "number");
	bool is_usable = mk_json_flag(entry, "usable");
	json_object *object = json_object_new_object();

	mk_put_text(object, "name", text_of(entry, "name"));
	mk_put_number(object, "number", number);
	put_path(object, entry, text_of(all->of[0].view->peer_names, "border"));
	mk_put_text(object, "encryption", text_of(entry, "encryption") ?: "None");
	mk_put_number(object, "nodes", number_of(entry, "nodes"));
	put_probes(object, entry);
	put_rows(object, all, number);
	mk_put_flag(object, "usable", is_usable);
	put_state(object, entry, is_usable);
	return object;
}

/* Returns EXIT_UNUSABLE if a listed peer is not usable. */
static int add_peers(json_object *list, const struct all *all, const char *word,
		     struct mk_error *err)
{
	json_object *entry;
	bool found = !word;
	int status = 0;

	for (size_t i = 0; (entry = mk_peer_at(all->of[0].view, i)); i++) {
		const char *name = text_of(entry, "name");

		if (word && (!name || strcmp(name, word) != 0))
			continue;
		found = true;
		json_object_array_add(list, peer_json(all, entry));
		if (!mk_json_flag(entry, "usable"))
			status = EXIT_UNUSABLE;
	}
	if (!found)
		return mk_error_set(
			err, ENOENT,
			"no peer '%s': `monokube peers` lists all, `kubectl get clusterpeers` those of the cluster",
			word);
	return status;
}

static int show(const struct mk_views *views, const struct mk_cli_options *options,
		struct mk_error *err)
{
	static const struct mk_cli_column columns[] = {
		{ "NAME", "name" },    { "PODS", "podCidrs" },	       { "AS", "viewCidrs" },
		{ "PATH", "path" },    { "NODES", "nodes" },	       { "ANSWER", "answering" },
		{ "RTT", "rtt" },      { "ENCRYPTION", "encryption" }, { "ACCESS", "access" },
		{ "TO", "packetsTo" }, { "FROM", "packetsFrom" },      { "STATE", "state" },
	};
	cleanup_json json_object *list = json_object_new_array();
	cleanup_json json_object *names = NULL;
	struct all all = { .count = 0 };
	int ret, status;

	if (!views->list[0].node.cluster_number)
		return mk_error_set(
			err, ENOENT,
			"this cluster has no name, so it has no peers: set clusterName in the ConfigMap, and restart the agents");
	ret = peer_names_read(options->state_dir, &names, err); /* an error names the file */
	for (size_t i = 0; ret == 0 && i < views->count; i++)
		ret = mk_cli_peers_open(&all.of[all.count++], &views->list[i], err);
	ret = ret ?: add_peers(list, &all, options->words[0], err);
	status = ret;
	if (ret >= 0)
		ret = mk_cli_print_list(stdout, list, options->json, columns,
					MK_ARRAY_SIZE(columns), err);
	for (size_t i = 0; i < all.count; i++)
		mk_cli_peers_close(&all.of[i]);
	return ret < 0 ? ret : status;
}

int mk_cli_peers(int argc, char **argv)
{
	return mk_view_main(argc, argv, show);
}
