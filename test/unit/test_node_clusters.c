// SPDX-License-Identifier: Apache-2.0
/* The agent's part of other clusters: objects become rows, routes and a file; nothing is touched
 * before all objects are read, a restart changes nothing, and damage is restored. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/clusters/clusters.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "datapath/datapath_internal.h"
#include "unit/unit.h"

#define ROOT	 "/tmp/mk_test_node_clusters"
#define CLUSTER	 ROOT "/cluster"
#define STATE	 ROOT "/state"
#define OWN	 7
#define EAST	 9
#define META(of) "apiVersion: networking.monokube.io/v1alpha1\n" of
#define LABELED(name)                                                    \
	"metadata: {name: " name ", namespace: monokube-peers, labels: " \
	"{networking.monokube.io/cluster: east}}\n"
#define PEER(spec) META("kind: ClusterPeer\nmetadata: {name: east}\nspec: {" spec "}\n")
#define VIEW	   "podCidr: 240.0.0.0/16, access: Pods"
#define PUBLISHED(number, ranges)                                                            \
	META("kind: PublishedCluster\n" LABELED("east") "spec: {name: east, number: " number \
							", podCidr: '" ranges                \
							"', wireVersions: [1]}\n")
#define NODE                                             \
	META("kind: PublishedNode\n" LABELED(            \
		"east.n1") "spec: {node: n1, podCidrs: " \
			   "[10.244.3.0/24], addresses: [192.168.2.13], port: 4789}\n")

static struct mk_error err;
static struct mk_core core;
static struct mk_datapath datapath;
static struct mk_clusters_tables tables;
static struct mk_own_node node = { .core = &core };
static struct mk_node_clusters clusters;

static const struct {
	const char *name;
	struct mk_table *table;
	enum bpf_map_type type;
	size_t key_bytes, value_bytes;
} maps[] = {
	{ "clusters", &tables.clusters, BPF_MAP_TYPE_HASH, sizeof(uint32_t),
	  sizeof(struct mk_cluster) },
	{ "cluster_nodes", &tables.nodes, BPF_MAP_TYPE_HASH, sizeof(struct mk_cluster_node_key),
	  sizeof(uint32_t) },
	{ "cluster_carriers", &tables.carriers, BPF_MAP_TYPE_HASH, sizeof(struct mk_far_addr),
	  sizeof(uint32_t) },
	{ "cluster_counters", &tables.counters, BPF_MAP_TYPE_PERCPU_HASH, sizeof(uint32_t),
	  sizeof(struct mk_cluster_counters) },
};

/* ---- a node whose cluster is a directory ----------------------------------------------------- */

static void write_object(const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), CLUSTER "/%s.yaml", name);
	ck_ok(mk_file_replace(path, text, strlen(text), 0644, &err));
}

static void write_all(void)
{
	write_object("peer", PEER(VIEW));
	write_object("published", PUBLISHED("9", "10.244.0.0/16"));
	write_object("node", NODE);
}

static void changed(void *ctx)
{
	mk_node_clusters_changed(ctx);
}

static void on_listed(void *ctx, bool complete)
{
	(void)ctx;
	(void)complete;
}

static void on_timer(uv_timer_t *timer)
{
	(void)timer;
}

static void start_agent(void)
{
	static const struct mk_model_listener listener = { .peers_changed = changed,
							   .ctx = &clusters };

	datapath.clusters = mk_clusters_sync_new(&tables, &err);
	ck_assert_msg(datapath.clusters != NULL, "%s", mk_error_text(&err));
	core.families[0] = (struct mk_family){
		.core = &core, .family = AF_INET, .loads = 1, .runs = true, .datapath = &datapath
	};
	core.families[1] = (struct mk_family){ .core = &core, .family = AF_INET6 };
	core.overlay = mk_overlay_new(core.nl, &err);
	ck_assert_ptr_nonnull(core.overlay);
	core.unsure = 0;
	node = (struct mk_own_node){ .core = &core, .plans = 1, .mtu_bytes = 1450 };
	node.families[0] = (struct mk_own_family){ .node = &node, .family = &core.families[0] };
	node.internal_ip = ip_of("192.168.1.11");
	mk_node_clusters_init(&clusters, &node);
	core.model = mk_model_new();
	ck_assert_ptr_nonnull(core.model);
	mk_model_set_listener(core.model, &listener);
	core.source = mk_source_start(&core.loop, &core.config, core.model, on_listed, NULL, &err);
	ck_assert_msg(core.source != NULL, "%s", mk_error_text(&err));
}

static void stop_agent(void)
{
	mk_source_stop(core.source);
	mk_node_clusters_release(&clusters);
	mk_overlay_free(core.overlay);
	mk_model_free(core.model);
	mk_clusters_sync_free(datapath.clusters);
	free(node.families[0].cluster_routes);
}

static void setup(void)
{
	struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };

	setrlimit(RLIMIT_MEMLOCK, &unlimited);
	for (size_t i = 0; i < MK_ARRAY_SIZE(maps); i++)
		ck_ok(mk_table_create(maps[i].table, maps[i].name, maps[i].type, maps[i].key_bytes,
				      maps[i].value_bytes, 64, AF_INET, &err));
	ck_assert_int_eq(system("rm -rf " ROOT), 0);
	ck_ok(mk_mkdirs(CLUSTER, 0755, &err));
	ck_ok(mk_mkdirs(STATE, 0755, &err));
	core.config = (struct mk_config){ .cluster_id = OWN,
					  .vxlan_port = 4789,
					  .node_name = "node1",
					  .state_dir = STATE,
					  .cluster_dir = CLUSTER,
					  .cluster_name = "west",
					  .cluster = ranges_of("10.244.0.0/16"),
					  .vteps = ranges_of("10.18.0.0/16") };
	core.nl = mk_nl_open(&err);
	ck_assert_ptr_nonnull(core.nl);
	uv_loop_init(&core.loop);
	uv_timer_init(&core.loop, &core.steps);
	uv_timer_init(&core.loop, &core.checks);
	core.on_steps = core.on_checks = on_timer;
	write_all();
	start_agent();
}

static void teardown(void)
{
	stop_agent();
	for (size_t i = 0; i < MK_ARRAY_SIZE(maps); i++)
		mk_table_close(maps[i].table);
}

static void read_all(void)
{
	while (!mk_source_peers_listed(core.source))
		uv_run(&core.loop, UV_RUN_NOWAIT);
}

static void read_change(void)
{
	while (clusters.settled)
		uv_run(&core.loop, UV_RUN_NOWAIT);
}

/* Run the agent's steps. Returns how many entries they wrote. */
static unsigned int reconcile(void)
{
	unsigned int before = core.writes;

	for (int i = 0; i < 3; i++) {
		ck_ok(mk_node_clusters_reconcile(&clusters, &err));
		ck_ok(mk_node_clusters_write(&clusters, &err));
	}
	return core.writes - before;
}

static void begin(void)
{
	read_all();
	ck_assert_uint_gt(reconcile(), 0);
}

static bool has_row(struct mk_cluster *row)
{
	return mk_table_get(&tables.clusters, &(uint32_t){ EAST }, row, &err) == 0;
}

static char *read_file(void)
{
	char *text = NULL;

	ck_ok(mk_file_read(STATE "/" MK_CLUSTER_NAMES_FILE, 4096, &text, NULL, &err));
	return text;
}

/* ---- tests ----------------------------------------------------------------------------------- */

START_TEST(test_rows)
{
	const struct mk_own_family *own = &node.families[0];
	cleanup_free char *text = NULL;
	struct mk_far_addr carrier = { 0 };
	struct mk_addr addr = addr_of("192.168.2.13");
	char view[MK_CIDR_STRLEN];
	struct mk_cluster row;
	uint32_t number = 0;

	begin();
	ck_assert(has_row(&row));
	ck_assert_uint_eq(row.hop_count, 1);
	ck_assert_uint_eq(row.mtu_bytes, 1450);
	ck_assert_uint_eq(row.flags, MK_CLUSTER_ACCESS_PODS);
	memcpy(&carrier, &addr, sizeof(carrier));
	ck_ok(mk_table_get(&tables.carriers, &carrier, &number, &err));
	ck_assert_uint_eq(number, EAST);
	ck_assert(node.cluster_routes_known);
	ck_assert_uint_eq(own->cluster_route_count, 1);
	ck_assert_str_eq(mk_cidr_format(&own->cluster_routes[0].dst, view), "240.0.0.0/16");
	ck_assert_uint_eq(mk_route_cluster(&own->cluster_routes[0].route), EAST);
	ck_assert_uint_eq(reconcile(), 0);
	text = read_file();
	ck_assert_str_eq(
		text, "{\"version\":1,\"name\":\"west\",\"number\":7,\"peers\":[{\"name\":\"east\","
		      "\"number\":9,\"nodes\":1,\"usable\":true,\"reasons\":[]}]}\n");
}
END_TEST

/* Nothing is touched before the objects are read, and then nothing has changed. */
START_TEST(test_restart)
{
	struct mk_cluster row;

	ck_assert_uint_eq(reconcile(), 0);
	ck_assert(!clusters.known && !node.cluster_routes_known);
	begin();
	stop_agent();
	start_agent();
	ck_assert_uint_eq(reconcile(), 0);
	ck_assert(!node.cluster_routes_known);
	ck_assert(has_row(&row));
	read_all();
	ck_assert_uint_eq(reconcile(), 0);
	ck_assert(clusters.written && node.cluster_routes_known);
	ck_assert_uint_eq(node.families[0].cluster_route_count, 1);
}
END_TEST

START_TEST(test_gone)
{
	struct mk_cluster row;

	begin();
	ck_assert_int_eq(unlink(CLUSTER "/peer.yaml"), 0);
	read_change();
	core.unsure = 0;
	ck_assert_uint_gt(reconcile(), 0);
	ck_assert(!has_row(&row));
	ck_assert_uint_eq(node.families[0].cluster_route_count, 0);
	ck_assert_uint_eq(core.unsure, MK_UNSURE_NODE | MK_UNSURE_OVERLAY);
	ck_assert(mk_clusters_sync_is_empty(datapath.clusters));
}
END_TEST

/* A ServiceCIDR, a node or a network of the host changed: the node has made its plans again. */
START_TEST(test_plans)
{
	begin();
	core.config.vteps = ranges_of("240.0.0.0/24");
	ck_assert_uint_eq(reconcile(), 0);
	node.plans++;
	ck_assert_uint_gt(reconcile(), 0);
	ck_assert_uint_eq(node.families[0].cluster_route_count, 0);
}
END_TEST

/* Without clusterName, what an earlier run left goes. */
START_TEST(test_off)
{
	struct mk_cluster row;

	begin();
	stop_agent();
	core.config.cluster_name[0] = '\0';
	start_agent();
	ck_assert_uint_gt(reconcile(), 0);
	ck_assert(!has_row(&row));
	ck_assert_int_lt(access(STATE "/" MK_CLUSTER_NAMES_FILE, F_OK), 0);
	ck_assert_uint_eq(reconcile(), 0);
}
END_TEST

START_TEST(test_damage)
{
	struct mk_cluster row;

	begin();
	ck_assert_int_eq(mk_node_clusters_audit(&clusters, &err), 0);
	ck_ok(mk_table_delete(&tables.clusters, &(uint32_t){ EAST }, &err));
	ck_assert_uint_eq(reconcile(), 0);
	ck_assert_int_eq(mk_node_clusters_audit(&clusters, &err), 1);
	ck_assert_uint_eq(reconcile(), 1);
	ck_assert(has_row(&row));
}
END_TEST

/* Another datapath knows nothing of its predecessor's tables. */
START_TEST(test_loaded_again)
{
	struct mk_cluster row;

	begin();
	mk_clusters_sync_free(datapath.clusters);
	ck_ok(mk_table_delete(&tables.clusters, &(uint32_t){ EAST }, &err));
	datapath.clusters = mk_clusters_sync_new(&tables, &err);
	core.families[0].loads++;
	ck_assert_uint_eq(reconcile(), 1);
	ck_assert(has_row(&row));
}
END_TEST

static const struct {
	const char *name, *file, *text, *said; /* a part of the file for the command line */
} wrong[] = {
	{ "no view", "peer", PEER("access: Pods"),
	  "\"usable\":false,\"reasons\":[\"spec.podCidr has no" },
	{ "its own range", "peer", PEER("podCidr: Same"), "a range of this cluster's pods" },
	{ "the range of VTEPs", "peer", PEER("podCidr: 10.18.0.0/16"),
	  "overlaps 10.18.0.0/16, a range of this cluster's nodes or Services" },
	{ "via a peer that is none", "peer", PEER(VIEW ", via: hub"),
	  "\"via\":\"hub\",\"reasons\":[\"spec.via 'hub' is no other ClusterPeer" },
	{ "the number of this cluster", "published", PUBLISHED("7", "10.244.0.0/16"),
	  "\"number\":0,\"nodes\":0,\"usable\":false,\"reasons\":[\"number 7 is also that" },
	{ "no range of the family", "published", PUBLISHED("9", "fd00::/48"),
	  "it publishes no IPv4 pod range" },
	{ "both families at one of IPv4", "published", PUBLISHED("9", "10.244.0.0/16,fd00::/48"),
	  "\"usable\":true,\"reasons\":[]" },
};

START_TEST(test_reasons)
{
	cleanup_free char *text = NULL;

	begin();
	write_object(wrong[_i].file, wrong[_i].text);
	read_change();
	reconcile();
	text = read_file();
	ck_assert_msg(strstr(text, wrong[_i].said) != NULL, "%s: %s", wrong[_i].name, text);
}
END_TEST

START_TEST(test_measures)
{
	struct mk_metrics metrics = { 0 };

	ck_ok(mk_node_clusters_measure(&clusters, &metrics, &err));
	ck_assert(!metrics.has_clusters);
	begin();
	ck_ok(mk_node_clusters_measure(&clusters, &metrics, &err));
	ck_assert(metrics.has_clusters);
	ck_assert_uint_eq(metrics.cluster_peer_count, 1);
	ck_assert_str_eq(metrics.cluster_peers[0].name, "east");
	ck_assert(metrics.cluster_peers[0].is_usable);
	ck_assert_uint_eq(metrics.cluster_peers[0].nodes, 1);
	free(metrics.cluster_peers);
}
END_TEST

UNIT_SUITE("node: other clusters")
{
	TCase *tcase = unit_case(suite, "node_clusters", setup, teardown);

	tcase_add_test(tcase, test_rows);
	tcase_add_test(tcase, test_restart);
	tcase_add_test(tcase, test_gone);
	tcase_add_test(tcase, test_plans);
	tcase_add_test(tcase, test_off);
	tcase_add_test(tcase, test_damage);
	tcase_add_test(tcase, test_loaded_again);
	tcase_add_loop_test(tcase, test_reasons, 0, (int)MK_ARRAY_SIZE(wrong));
	tcase_add_test(tcase, test_measures);
}
