// SPDX-License-Identifier: Apache-2.0
/* The agent's part of other clusters: objects become rows, routes and a file; nothing is touched
 * before all objects are read, a restart changes nothing, and damage is restored. */
#include <sched.h>
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
#define NODE_AT(address)                                                                      \
	META("kind: PublishedNode\n" LABELED(                                                 \
		"east.n1") "spec: {node: n1, podCidrs: [10.244.3.0/24], addresses: [" address \
			   "], port: 4789}\n")
#define NODE2                                            \
	META("kind: PublishedNode\n" LABELED(            \
		"east.n2") "spec: {node: n2, podCidrs: " \
			   "[10.244.4.0/24], addresses: [192.168.2.14], port: 4789}\n")

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
	{ "exports", &tables.exports, BPF_MAP_TYPE_HASH, sizeof(struct mk_export),
	  sizeof(struct mk_addr) },
};

/* ---- a node whose cluster is a directory ----------------------------------------------------- */

static void write_object(const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), CLUSTER "/%s.yaml", name);
	ck_ok(mk_file_replace(path, text, strlen(text), 0644, &err));
}

static void write_state(const char *text)
{
	ck_ok(mk_file_replace(STATE "/" MK_CLUSTER_NAMES_FILE, text, strlen(text), 0644, &err));
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

static void published_gone(void *ctx, const struct mk_published_cluster *cluster,
			   const struct mk_published_node *of)
{
	mk_node_clusters_gone(ctx, cluster, of);
}

static void service_changed(void *ctx, const char *namespace_, const char *name)
{
	mk_node_clusters_service_changed(ctx, namespace_, name);
}

static void export_changed(void *ctx, const char *namespace_, const char *name)
{
	(void)namespace_;
	(void)name;
	mk_node_clusters_export_changed(ctx);
}

static void externals_changed(void *ctx)
{
	mk_node_clusters_export_changed(ctx);
}

static void on_listed(void *ctx, bool complete)
{
	(void)ctx;
	core.complete = complete;
}

static void on_timer(uv_timer_t *timer)
{
	(void)timer;
}

static void start_agent(void)
{
	static const struct mk_model_listener listener = { .peers_changed = changed,
							   .published_gone = published_gone,
							   .service_changed = service_changed,
							   .export_changed = export_changed,
							   .externals_changed = externals_changed,
							   .ctx = &clusters };
	const struct mk_clusterset clusterset = { .cluster_name = "west" };

	datapath.clusters = mk_clusters_sync_new(&tables, &err);
	ck_assert_msg(datapath.clusters != NULL, "%s", mk_error_text(&err));
	core.families[0] = (struct mk_family){
		.core = &core, .family = AF_INET, .loads = 1, .runs = true, .datapath = &datapath
	};
	core.families[1] = (struct mk_family){ .core = &core, .family = AF_INET6 };
	core.overlay = mk_overlay_new(core.nl, &err);
	ck_assert_ptr_nonnull(core.overlay);
	core.unsure = 0;
	core.complete = false;
	node = (struct mk_own_node){ .core = &core, .plans = 1, .mtu_bytes = 1450 };
	node.families[0] = (struct mk_own_family){ .node = &node, .family = &core.families[0] };
	node.families[0].addresses.pod_cidr = cidr_of("10.244.1.0/24");
	node.internal_ip = ip_of("192.168.1.11");
	mk_node_clusters_init(&clusters, &node);
	core.model = mk_model_new();
	ck_assert_ptr_nonnull(core.model);
	mk_model_set_listener(core.model, &listener);
	if (core.config.cluster_name[0])
		mk_model_set_clusterset(core.model, &clusterset);
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
	free(node.families[0].down_views);
}

static void make_tables(void)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(maps); i++)
		ck_ok(mk_table_create(maps[i].table, maps[i].name, maps[i].type, maps[i].key_bytes,
				      maps[i].value_bytes, 256, AF_INET, &err));
}

static void setup(void)
{
	struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };

	setrlimit(RLIMIT_MEMLOCK, &unlimited);
	make_tables();
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
	while (!mk_source_listed(core.source, MK_SOURCE_PEERS))
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
	ck_assert_uint_eq(row.hop_count, MK_CLUSTER_PLACES);
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
		text,
		"{\"version\":1,\"name\":\"west\",\"number\":7,\"peers\":[{\"name\":\"east\","
		"\"number\":9,\"nodes\":1,\"usable\":true,\"encryption\":\"None\",\"reasons\":[]}]}\n");
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
	core.complete = true; /* an API server may list these objects last */
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
	ck_assert_int_eq(mk_node_clusters_reconcile_tables(&clusters, &err), 0);
	ck_ok(mk_table_delete(&tables.clusters, &(uint32_t){ EAST }, &err));
	ck_assert_uint_eq(reconcile(), 0);
	ck_assert_int_eq(mk_node_clusters_reconcile_tables(&clusters, &err), 1);
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
	  "\"usable\":false,\"encryption\":\"None\",\"reasons\":[\"no view of IPv4 yet" },
	{ "its own range", "peer", PEER("podCidr: Same"), "a range of this cluster's pods" },
	{ "the range of VTEPs", "peer", PEER("podCidr: 10.18.0.0/16"),
	  "overlaps 10.18.0.0/16, a range of this cluster's nodes or Services" },
	{ "via a peer that is none", "peer", PEER(VIEW ", via: hub"),
	  "\"usable\":false,\"encryption\":\"None\",\"via\":\"hub\",\"reasons\":[\"spec.via 'hub' is no other ClusterPeer" },
	{ "the number of this cluster", "published", PUBLISHED("7", "10.244.0.0/16"),
	  "\"number\":0,\"nodes\":0,\"usable\":false,\"encryption\":\"None\",\"reasons\":[\"number 7 is also that" },
	{ "no range of the family", "published", PUBLISHED("9", "fd00::/48"),
	  "it publishes no IPv4 pod range" },
	{ "a node with an address of a pod here", "node", NODE_AT("10.244.9.9"),
	  "PublishedNode of node 'n1' is left out: it has an address of this cluster's pods" },
	{ "a node with an address of a VTEP here", "node", NODE_AT("10.18.0.9"),
	  "PublishedNode of node 'n1' is left out: it has an address of this cluster's pods" },
	{ "both families at one of IPv4", "published", PUBLISHED("9", "10.244.0.0/16,fd00::/48"),
	  "\"usable\":true,\"encryption\":\"None\",\"reasons\":[]" },
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

/* A peer's node has no address of a view, also of one outside of peerPools. */
START_TEST(test_node_in_a_view)
{
	static const char *const peers[] = { PEER("podCidr: 172.20.0.0/16"),
					     PEER(VIEW ", externalCidr: 172.20.9.0/24") };
	cleanup_free char *text = NULL;

	begin();
	write_object("peer", peers[_i]);
	write_object("node", NODE_AT("172.20.9.9"));
	read_change();
	reconcile();
	text = read_file();
	ck_assert_msg(strstr(text, "PublishedNode of node 'n1' is left out: it has an address of "
				   "this cluster's pods, Services or views") != NULL,
		      "%s: %s", peers[_i], text);
}
END_TEST

/* ---- exports --------------------------------------------------------------------------------- */

#define WEB	      "metadata: {name: web, namespace: shop}\n"
#define SERVICE(spec) "apiVersion: v1\nkind: Service\n" WEB "spec: {" spec "}\n"
#define EXPORT	      "apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\n" WEB
#define SLICE(ports, endpoints)                                                               \
	"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\nmetadata: " \
	"{name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}\nports: "  \
	"[" ports "]\nendpoints: [" endpoints "]\n"
#define HERE	 "{addresses: [10.244.1.5], conditions: {ready: true}}"
#define UNREADY	 "{addresses: [10.244.1.6], conditions: {ready: false}}"
#define THERE	 "{addresses: [10.244.2.5]}"
#define AT_8080	 "{port: 8080}"
#define CHOOSING "ports: [{port: 80}]"

static const struct {
	const char *name, *service, *export_, *slice, *expected; /* NULL: no such object */
} exported[] = {
	{ "an endpoint here, not one of another node", SERVICE(CHOOSING), EXPORT,
	  SLICE(AT_8080, HERE ", " THERE), "10.244.1.5:0/0 10.244.1.5:8080/6" },
	{ "ready or not", SERVICE(CHOOSING), EXPORT, SLICE(AT_8080, UNREADY),
	  "10.244.1.6:0/0 10.244.1.6:8080/6" },
	{ "each port and protocol", SERVICE(CHOOSING), EXPORT,
	  SLICE("{name: a, port: 53, protocol: UDP}, {name: b, port: 53}", HERE),
	  "10.244.1.5:0/0 10.244.1.5:53/17 10.244.1.5:53/6" },
	{ "a headless Service", SERVICE("clusterIP: None, " CHOOSING), EXPORT, SLICE(AT_8080, HERE),
	  "10.244.1.5:0/0 10.244.1.5:8080/6" },
	{ "an endpoint on the host", SERVICE(CHOOSING), EXPORT,
	  SLICE(AT_8080, "{addresses: [192.168.1.11]}"), "" },
	{ "an ExternalName", SERVICE("type: ExternalName, externalName: a.example"), EXPORT,
	  SLICE(AT_8080, HERE), "" },
	{ "no Service", NULL, EXPORT, SLICE(AT_8080, HERE), "" },
	{ "no export", SERVICE(CHOOSING), NULL, SLICE(AT_8080, HERE), "" },
};

/* Sorted, as lines of text. */
static void read_exports(char *text, size_t size)
{
	cleanup_free void *keys = NULL;
	char lines[8][64] = { 0 }, ip[MK_IP_STRLEN];
	size_t count = 0, used = 0;

	ck_ok(mk_table_keys(&tables.exports, &keys, &count, &err));
	ck_assert_uint_le(count, MK_ARRAY_SIZE(lines));
	for (size_t i = 0; i < count; i++) {
		const struct mk_export *key = (const struct mk_export *)keys + i;
		struct mk_ip at = mk_ip_from_addr(&key->addr);

		snprintf(lines[i], sizeof(lines[i]), "%s:%u/%u", mk_ip_format(&at, ip),
			 ntohs(key->port), key->proto);
	}
	qsort(lines, count, sizeof(lines[0]), (int (*)(const void *, const void *))strcmp);
	text[0] = '\0';
	for (size_t i = 0; i < count; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s", i ? " " : "", lines[i]);
}

static void expect_exports(const char *name, const char *expected)
{
	char text[512];

	read_exports(text, sizeof(text));
	ck_assert_msg(strcmp(text, expected) == 0, "%s: got \"%s\", expected \"%s\"", name, text,
		      expected);
}

static void read_export_change(void)
{
	while (clusters.exports.settled)
		uv_run(&core.loop, UV_RUN_NOWAIT);
}

START_TEST(test_exports)
{
	if (exported[_i].service)
		write_object("service", exported[_i].service);
	if (exported[_i].export_)
		write_object("export", exported[_i].export_);
	write_object("slice", exported[_i].slice);
	begin();
	expect_exports(exported[_i].name, exported[_i].expected);
	ck_assert_uint_eq(reconcile(), 0);
}
END_TEST

/* Endpoints and exports come and go; a change of another Service is none. */
START_TEST(test_exports_change)
{
	write_object("service", SERVICE(CHOOSING));
	write_object("export", EXPORT);
	write_object("slice", SLICE(AT_8080, HERE));
	begin();
	write_object("slice", SLICE(AT_8080, UNREADY));
	read_export_change();
	reconcile();
	expect_exports("another endpoint", "10.244.1.6:0/0 10.244.1.6:8080/6");
	mk_node_clusters_service_changed(&clusters, "shop", "other");
	ck_assert(clusters.exports.settled);
	ck_assert_int_eq(unlink(CLUSTER "/export.yaml"), 0);
	read_export_change();
	reconcile();
	expect_exports("no export", "");
	write_object("export", EXPORT);
	read_export_change();
	reconcile();
	node.families[0].addresses.pod_cidr = cidr_of("10.244.2.0/24");
	node.plans++;
	reconcile();
	expect_exports("other pod CIDR", "");
}
END_TEST

/* A restart changes nothing before all is read; without clusterName, entries go. */
START_TEST(test_exports_restart)
{
	write_object("service", SERVICE(CHOOSING));
	write_object("export", EXPORT);
	write_object("slice", SLICE(AT_8080, HERE));
	begin();
	stop_agent();
	start_agent();
	ck_assert_uint_eq(reconcile(), 0);
	expect_exports("not read yet", "10.244.1.5:0/0 10.244.1.5:8080/6");
	read_all();
	ck_assert_uint_eq(reconcile(), 0);
	stop_agent();
	core.config.cluster_name[0] = '\0';
	start_agent();
	reconcile();
	expect_exports("without clusterName", "");
}
END_TEST

#define EXTERNALS(cluster, address)                                                                      \
	"apiVersion: networking.monokube.io/v1alpha1\nkind: PublishedService\nmetadata: {name: " cluster \
	".shop.out, namespace: monokube-published, labels: "                                             \
	"{networking.monokube.io/cluster: " cluster "}}\nspec: {slices: [{ports: [{port: 5432}], "       \
	"endpoints: [{addresses: [" address                                                              \
	"], target: 192.0.2.7}, {addresses: [10.244.1.7]}]}]}\n"

/* Every node has the external addresses of this cluster, not those that a hub shows. */
START_TEST(test_externals)
{
	struct mk_export key = { .addr = addr_of("247.255.0.5"),
				 .port = htons(5432),
				 .proto = IPPROTO_TCP };
	struct mk_addr target, expected = addr_of("192.0.2.7");

	core.config.externals.of[0] = cidr_of("247.255.0.0/20");
	write_object("externals", EXTERNALS("west", "247.255.0.5"));
	write_object("others", EXTERNALS("east", "247.255.0.6"));
	begin();
	expect_exports("an external address", "247.255.0.5:0/0 247.255.0.5:5432/6");
	ck_ok(mk_table_get(&tables.exports, &key, &target, &err));
	ck_assert(mk_addr_eq(&target, &expected));
	ck_assert_uint_eq(reconcile(), 0);
	write_object("externals", EXTERNALS("west", "247.254.0.5"));
	read_export_change();
	reconcile();
	expect_exports("an address outside of externalCidr", "");
}
END_TEST

/* Without a route, no probe leaves, and none is answered. */
START_TEST(test_down)
{
	const struct mk_own_family *own = &node.families[0];
	char text[MK_CIDR_STRLEN];

	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	write_object("peer", PEER(VIEW ", externalCidr: 240.1.0.0/20"));
	write_object("published", PUBLISHED("9", "10.244.0.0/16', externalCidr: '247.255.0.0/20"));
	begin();
	ck_assert_uint_eq(own->down_view_count, 0);
	for (int i = 0; i <= MK_PROBES_BAD; i++)
		ck_ok(mk_node_clusters_probe(&clusters, &err));
	ck_assert_uint_eq(own->down_view_count, 2);
	ck_assert_str_eq(mk_cidr_format(&own->down_views[0], text), "240.0.0.0/16");
	ck_assert_str_eq(mk_cidr_format(&own->down_views[1], text), "240.1.0.0/20");
}
END_TEST

#define OF(cluster, more) \
	"namespace: monokube-peers, labels: {networking.monokube.io/cluster: " cluster more "}}\n"
#define SHOWN ", networking.monokube.io/relayed-by: hub"
#define HUB_PEER(accept)                                                                               \
	META("kind: ClusterPeer\nmetadata: {name: hub}\nspec: {podCidr: 240.1.0.0/16, accept: " accept \
	     "}\n")

/* East is shown by a hub. */
static void write_paths(const char *hub_peer)
{
	write_object("hub-peer", hub_peer);
	write_object("hub",
		     META("kind: PublishedCluster\nmetadata: {name: hub, " OF(
			     "hub", "") "spec: {name: hub, number: 11, podCidr: 10.244.0.0/16, "
					"wireVersions: [1]}\n"));
	write_object("hub-node", META("kind: PublishedNode\nmetadata: {name: hub.n1, " OF(
					 "hub", "") "spec: {node: n1, podCidrs: [10.244.1.0/24], "
						    "addresses: [192.168.3.13]}\n"));
	write_object("peer", PEER(VIEW ", via: hub"));
	write_object("published",
		     META("kind: PublishedCluster\nmetadata: {name: east, " OF(
			     "east", SHOWN) "spec: {name: east, number: 9, podCidr: 10.244.0.0/16, "
					    "wireVersions: [1]}\n"));
	write_object("node", META("kind: PublishedNode\nmetadata: {name: east.n1, " OF(
				     "east", SHOWN) "spec: {node: n1, podCidrs: [10.244.3.0/24], "
						    "addresses: [192.168.2.13]}\n"));
}

/* 0x10000 and more: only probes go there; UINT32_MAX: there is no row. */
static uint32_t hop_of_node(void)
{
	const struct mk_cluster_node_key key = { EAST, 3 };
	uint32_t hop;

	return mk_table_get(&tables.nodes, &key, &hop, &err) == 0 ? hop : UINT32_MAX;
}

/* A direct path outlives the agent, until probes are lost. */
START_TEST(test_paths)
{
	const struct mk_cluster_node_key key = { EAST, 3 };

	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	write_paths(HUB_PEER("Direct"));
	begin();
	ck_assert_uint_eq(hop_of_node(), 3 | MK_CLUSTER_HOP_TRIAL);
	ck_ok(mk_table_put(&tables.nodes, &key, &(uint32_t){ 3 }, &err));
	stop_agent();
	start_agent();
	read_all();
	ck_assert_uint_eq(reconcile(), 0);
	ck_assert_uint_eq(hop_of_node(), 3);
	for (int i = 0; i <= MK_PROBES_BAD; i++) {
		ck_assert(clusters.settled);
		ck_ok(mk_node_clusters_probe(&clusters, &err));
	}
	ck_assert(!clusters.settled);
	reconcile();
	ck_assert_uint_eq(hop_of_node(), 3 | MK_CLUSTER_HOP_TRIAL);
}
END_TEST

/* How many places of @number have @hop; those become @other. */
static unsigned int places_of(uint32_t number, uint32_t hop, uint32_t other)
{
	struct mk_cluster_node_key key = { number, MK_CLUSTER_BY_INDEX };
	unsigned int count = 0;
	uint32_t found;

	for (uint32_t i = 0; i < MK_CLUSTER_PLACES; i++) {
		key.index = MK_CLUSTER_BY_INDEX | i;
		ck_ok(mk_table_get(&tables.nodes, &key, &found, &err));
		if (found != hop)
			continue;
		count++;
		if (other != hop)
			ck_ok(mk_table_put(&tables.nodes, &key, &other, &err));
	}
	return count;
}

/* An FDB entry stays while the tables may still use it. */
START_TEST(test_fdb)
{
	write_object("node2", NODE2);
	read_all();
	ck_ok(mk_node_clusters_reconcile(&clusters, &err));
	ck_assert_uint_eq(clusters.fdb_count, 2);
	ck_assert(!clusters.fdb_trimmed); /* an earlier agent's entries stay */
	ck_ok(mk_node_clusters_write(&clusters, &err));
	ck_assert(clusters.fdb_trimmed);
	clusters.gone.keep_ns = 0;
	ck_assert_int_eq(unlink(CLUSTER "/node2.yaml"), 0);
	read_change();
	ck_ok(mk_node_clusters_reconcile(&clusters, &err));
	ck_assert_uint_eq(clusters.rows[0].fdb_count, 1);
	ck_assert_uint_eq(clusters.fdb_count, 2);
	ck_ok(mk_node_clusters_write(&clusters, &err));
	ck_assert_uint_eq(clusters.fdb_count, 1);
	ck_assert_uint_eq(clusters.fdb[0].mac.byte[5], 3);
}
END_TEST

static void start_with_externals(void)
{
	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	write_object("peer", PEER(VIEW ", externalCidr: 240.1.0.0/20"));
	write_object("published", PUBLISHED("9", "10.244.0.0/16', externalCidr: '247.255.0.0/20"));
	write_object("node2", NODE2);
	begin();
}

/* An agent that starts goes on without the node that its predecessor has left. If none answers, all
 * nodes get packets again. */
START_TEST(test_live)
{
	const uint32_t externals = EAST | MK_CLUSTER_EXTERNAL;
	unsigned int second;

	start_with_externals();
	second = places_of(EAST, 4, 3);
	ck_assert_uint_gt(second, 0);
	stop_agent();
	start_agent();
	read_all();
	ck_assert_uint_eq(reconcile(), 0);
	ck_assert_uint_eq(places_of(EAST, 3, 3), MK_CLUSTER_PLACES);
	for (int i = 0; i <= MK_PROBES_BAD; i++)
		ck_ok(mk_node_clusters_probe(&clusters, &err));
	ck_assert_str_eq(mk_node_clusters_probed(&clusters, "east").silent, "n1, n2");
	reconcile();
	ck_assert_uint_eq(places_of(EAST, 4, 4), second);
	ck_assert_uint_eq(places_of(externals, 4, 3), second); /* flows stay where they are */
	stop_agent();
	start_agent();
	read_all();
	ck_assert_uint_eq(reconcile(), 0);
	ck_assert_uint_eq(places_of(externals, 3, 3), MK_CLUSTER_PLACES);
}
END_TEST

/* What is removed by hand and comes again moves no flow: it counts for a while. */
static const struct {
	const char *name, *file, *reason;
} gone_rows[] = { { "a PublishedNode", "/node.yaml", "" },
		  { "the PublishedCluster", "/published.yaml", "no PublishedCluster 'east'" } };

START_TEST(test_published_goes)
{
	char path[128];

	start_with_externals();
	snprintf(path, sizeof(path), CLUSTER "%s", gone_rows[_i].file);
	ck_assert_int_eq(unlink(path), 0);
	read_change();
	ck_assert_msg(reconcile() == 0, "%s: entries were written", gone_rows[_i].name);
	ck_assert_ptr_nonnull(
		strstr(clusters.rows[0].states[0].reason ?: "", gone_rows[_i].reason));
	ck_assert(places_of(EAST | MK_CLUSTER_EXTERNAL, 3, 3) > 0);
	write_object("node", NODE);
	write_object("published", PUBLISHED("9", "10.244.0.0/16', externalCidr: '247.255.0.0/20"));
	read_change();
	ck_assert_uint_eq(reconcile(), 0);
	clusters.gone.keep_ns = 0;
	ck_assert_int_eq(unlink(path), 0);
	read_change();
	ck_assert_uint_gt(reconcile(), 0);
}
END_TEST

/* The next agent starts without PublishedCluster, which the last one has had. */
static void start_without_cluster(void)
{
	stop_agent();
	ck_assert_int_eq(unlink(CLUSTER "/published.yaml"), 0);
	start_agent();
	read_all();
}

/* It vanished while no agent ran, or shortly before: the tables stay for a while. */
START_TEST(test_gone_before_start)
{
	struct mk_cluster row;

	start_with_externals();
	start_without_cluster();
	ck_assert_uint_eq(reconcile(), 0);
	ck_assert(!clusters.known && !node.cluster_routes_known);
	ck_assert(has_row(&row));
	write_object("published", PUBLISHED("9", "10.244.0.0/16', externalCidr: '247.255.0.0/20"));
	while (!mk_model_published_cluster(core.model, "east"))
		uv_run(&core.loop, UV_RUN_NOWAIT);
	ck_assert_uint_eq(reconcile(), 0);
	ck_assert(clusters.written && node.cluster_routes_known);
	start_without_cluster();
	ck_assert_uint_eq(reconcile(), 0);
	clusters.gone.keep_ns = 0;
	ck_assert_uint_gt(reconcile(), 0);
	ck_assert(!has_row(&row));
}
END_TEST

#define GIVEN "status: {podCidr: 240.5.0.0/16, externalCidr: 240.6.0.0/20}\n"

static const struct mk_cluster_peer *peer_object(const char *name)
{
	mk_model_each(struct mk_cluster_peer, peer, core.model, MK_KIND_CLUSTER_PEER)
		if (strcmp(peer->name, name) == 0)
			return peer;
	return NULL;
}

/* The next agent finds the ClusterPeer east as @text. */
static void start_with_peer(const char *text)
{
	stop_agent();
	write_object("peer", text);
	start_agent();
	read_all();
	reconcile();
}

static void expect_views(const char *pods, const char *externals)
{
	const struct mk_cluster_peer *peer = peer_object("east");
	char text[MK_CIDR_STRLEN];

	ck_assert_str_eq(mk_cidr_format(&peer->views[0], text), pods);
	ck_assert(peer->assigned[0]);
	ck_assert_str_eq(mk_cidr_format(&peer->externals->views[0], text), externals);
	ck_assert(peer->externals->assigned[0]);
}

/* A backup is restored and all nodes start again: the ClusterPeer has no status, and no agent knows
 * its view. */
START_TEST(test_status_lost_before_start)
{
	struct mk_cluster row, former;

	start_with_peer(PEER("access: Pods") GIVEN);
	expect_views("240.5.0.0/16", "240.6.0.0/20");
	ck_assert(has_row(&former));
	for (int again = 0; again < 2; again++) {
		start_with_peer(PEER("access: Pods"));
		expect_views("240.5.0.0/16", "240.6.0.0/20");
		ck_assert(has_row(&row));
		ck_assert_mem_eq(&row, &former, sizeof(row));
	}
	start_with_peer(PEER("podCidr: 240.7.0.0/16"));
	ck_assert(!peer_object("east")->assigned[0]);
	start_with_peer(PEER("access: Pods")); /* that view was a user's */
	ck_assert(!peer_object("east")->assigned[0]);
}
END_TEST

/* A node that was away for long does not know that another peer has the view now. */
START_TEST(test_status_lost_view_taken)
{
	start_with_peer(PEER("access: Pods") GIVEN);
	write_object("north", META("kind: ClusterPeer\nmetadata: {name: north}\n"
				   "status: {podCidr: 240.5.0.0/16}\n"));
	start_with_peer(PEER("access: Pods"));
	ck_assert(!peer_object("east")->assigned[0]);
	ck_assert(peer_object("north")->assigned[0]);
}
END_TEST

static void not_usable(void)
{
	write_state("{\"peers\":[{\"name\":\"east\",\"usable\":false}]}");
}

static void other_peer(void)
{
	write_state("{\"peers\":[{\"name\":\"north\",\"usable\":true}]}");
}

static void no_json(void)
{
	write_state("no JSON");
}

static void no_file(void)
{
	ck_assert_int_eq(unlink(STATE "/" MK_CLUSTER_NAMES_FILE), 0);
}

static void (*const unused[])(void) = { not_usable, other_peer, no_json, no_file };

/* .. but not for a peer that the last run has not used. */
START_TEST(test_not_used_before_start)
{
	start_with_externals();
	unused[_i]();
	start_without_cluster();
	ck_assert_uint_gt(reconcile(), 0);
	ck_assert(clusters.known);
}
END_TEST

/* .. and not after a restart of the node, when tables are empty. */
START_TEST(test_empty_at_start)
{
	start_with_externals();
	for (size_t i = 0; i < MK_ARRAY_SIZE(maps); i++)
		mk_table_close(maps[i].table);
	make_tables();
	start_without_cluster();
	(void)reconcile();
	ck_assert(clusters.known);
}
END_TEST

/* The time is over while nothing else happens: the probes of each second see it. */
START_TEST(test_gone_for_long)
{
	start_with_externals();
	ck_assert_int_eq(unlink(CLUSTER "/node.yaml"), 0);
	read_change();
	ck_assert_uint_eq(reconcile(), 0);
	ck_ok(mk_node_clusters_probe(&clusters, &err));
	ck_assert(clusters.settled);
	clusters.gone.keep_ns = 0;
	ck_ok(mk_node_clusters_probe(&clusters, &err));
	ck_assert(!clusters.settled);
	ck_assert_uint_gt(reconcile(), 0);
	ck_assert_uint_eq(places_of(EAST, 3, 3), 0);
}
END_TEST

/* A node that does not answer is gone with its object, before or afterwards. */
START_TEST(test_gone_and_silent)
{
	start_with_externals();
	ck_assert_int_eq(unlink(CLUSTER "/node.yaml"), 0);
	read_change();
	ck_assert_uint_eq(reconcile(), 0);
	for (int i = 0; i <= MK_PROBES_BAD; i++)
		ck_ok(mk_node_clusters_probe(&clusters, &err));
	reconcile();
	ck_assert_uint_eq(places_of(EAST, 3, 3), 0);
	ck_assert_int_eq(unlink(CLUSTER "/node2.yaml"), 0);
	read_change();
	reconcile();
	ck_assert_uint_eq(clusters.rows[0].carrier_count, 0);
}
END_TEST

static struct mk_cluster row_of_east(void)
{
	const uint32_t number = EAST;
	struct mk_cluster row;

	ck_ok(mk_table_get(&tables.clusters, &number, &row, &err));
	return row;
}

/* An agent that starts goes on with the size that passes. */
START_TEST(test_path_mtu)
{
	const uint32_t number = EAST;
	struct mk_cluster row;
	uint16_t most;

	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	begin();
	row = row_of_east();
	most = row.mtu_bytes;
	row.mtu_bytes = (__u16)(most - 40);
	ck_ok(mk_table_put(&tables.clusters, &number, &row, &err));
	stop_agent();
	start_agent();
	read_all();
	reconcile();
	ck_assert_uint_eq(row_of_east().mtu_bytes, most - 40);
	mk_node_clusters_changed(&clusters);
	reconcile();
	ck_assert_uint_eq(row_of_east().mtu_bytes, most - 40);
	ck_ok(mk_node_clusters_probe(&clusters, &err));
	ck_assert_uint_eq(mk_node_clusters_probed(&clusters, "east").mtu_bytes, most - 40);
}
END_TEST

/* ---- border nodes ---------------------------------------------------------------------------- */

#define LABEL(value)	 "labels: {networking.monokube.io/border: '" value "'}"
#define OWN_NODE(labels) "apiVersion: v1\nkind: Node\nmetadata: {name: node1, " labels "}\n"
#define NODE_OBJECT(name) \
	"apiVersion: v1\nkind: Node\nmetadata: {name: " name ", " LABEL("true") "}\n"

static struct mk_overlay_peer plan_peers[2];

/* The overlay reaches node2 and node3, which are border nodes. */
static void plan_borders(void)
{
	static char plan_names[][8] = { "node2", "node3" };

	for (uint8_t i = 0; i < 2; i++) {
		plan_peers[i] = (struct mk_overlay_peer){
			.node = plan_names[i],
			.pod_cidr = cidr_of(i ? "10.244.3.0/24" : "10.244.2.0/24"),
			.vtep_mac = { { 0x02, 0x4d, 10, 18, 0, (uint8_t)(2 + i) } },
		};
	}
	node.families[0].plan = (struct mk_overlay_plan){ .peers = plan_peers, .peer_count = 2 };
}

static void start_with_borders(void)
{
	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	write_object("node1", OWN_NODE(""));
	write_object("node2", NODE_OBJECT("node2"));
	write_object("node3", NODE_OBJECT("node3"));
	stop_agent();
	start_agent();
	plan_borders();
	begin();
}

/* The last byte of the border node's MAC address; 0: none. */
static unsigned int border_row(void)
{
	const struct mk_cluster_node_key key = { OWN, MK_CLUSTER_BY_INDEX };
	uint8_t bytes[4];

	return mk_table_get(&tables.nodes, &key, bytes, &err) == 0 ? bytes[3] : 0;
}

static void check_by_border(bool wanted)
{
	struct mk_cluster row;

	ck_assert(has_row(&row));
	ck_assert_int_eq(!(row.flags & MK_CLUSTER_BY_BORDER), !wanted);
	ck_assert_int_eq(border_row() == 0, !wanted);
}

START_TEST(test_borders)
{
	cleanup_free char *text = NULL, *later = NULL;

	start_with_borders();
	check_by_border(true);
	text = read_file();
	ck_assert_ptr_nonnull(strstr(text, "\"borders\":[\"node2\",\"node3\"],\"border\":\"node"));
	write_object("node1", OWN_NODE(LABEL("true")));
	clusters.settled = true;
	mk_source_stop(core.source);
	core.source = mk_source_start(&core.loop, &core.config, core.model, on_listed, NULL, &err);
	read_all();
	node.plans++;
	reconcile();
	check_by_border(false);
	later = read_file();
	ck_assert_ptr_nonnull(
		strstr(later, "\"borders\":[\"node1\",\"node2\",\"node3\"],\"peers\""));
}
END_TEST

/* A Node that is not read yet may be a border node. */
START_TEST(test_waits_for_nodes)
{
	read_all();
	core.complete = false;
	ck_assert_uint_eq(reconcile(), 0);
	ck_assert(!clusters.known);
	core.complete = true;
	ck_assert_uint_gt(reconcile(), 0);
}
END_TEST

START_TEST(test_label_of_another_value)
{
	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	write_object("node2",
		     "apiVersion: v1\nkind: Node\nmetadata: {name: node2, " LABEL("false") "}\n");
	begin();
	check_by_border(false);
}
END_TEST

/* An agent that starts keeps the border node of the tables. One that does not answer loses the
 * packets, unless none does. */
START_TEST(test_border_of_the_tables)
{
	const struct mk_cluster_node_key key = { OWN, MK_CLUSTER_BY_INDEX };
	uint8_t other[] = { 10, 18, 0, 0 };
	unsigned int first;

	start_with_borders();
	first = border_row();
	other[3] = (uint8_t)(first == 2 ? 3 : 2);
	ck_ok(mk_table_put(&tables.nodes, &key, other, &err));
	stop_agent();
	start_agent();
	plan_borders();
	read_all();
	ck_assert_uint_eq(reconcile(), 0);
	ck_assert_uint_eq(border_row(), other[3]);
	for (int i = 0; i <= MK_PROBES_BAD; i++)
		ck_ok(mk_node_clusters_probe(&clusters, &err));
	ck_assert_str_eq(mk_node_clusters_probed(&clusters, "").silent, "node2, node3");
	reconcile();
	ck_assert_uint_eq(border_row(), first);
}
END_TEST

/* Without accept: Direct, a hub names no nodes. */
START_TEST(test_nodes_of_a_hub)
{
	const struct mk_addr addr = addr_of("192.168.2.13");
	uint32_t number;

	write_paths(HUB_PEER("Transit"));
	begin();
	ck_assert_uint_eq(hop_of_node(), UINT32_MAX);
	ck_assert_int_lt(mk_table_get(&tables.carriers, &addr, &number, &err), 0);
	write_object("hub-peer", HUB_PEER("Direct"));
	read_change();
	reconcile();
	ck_assert_uint_eq(hop_of_node(), 3 | MK_CLUSTER_HOP_TRIAL);
	ck_ok(mk_table_get(&tables.carriers, &addr, &number, &err));
	ck_assert_uint_eq(number, EAST);
}
END_TEST

START_TEST(test_exports_damage)
{
	const struct mk_export ping = { .addr = addr_of("10.244.1.5"), .proto = MK_PROTO_ANY };

	write_object("service", SERVICE(CHOOSING));
	write_object("export", EXPORT);
	write_object("slice", SLICE(AT_8080, HERE));
	begin();
	ck_ok(mk_table_delete(&tables.exports, &ping, &err));
	ck_assert_int_eq(mk_node_clusters_reconcile_tables(&clusters, &err), 1);
	ck_assert_uint_eq(reconcile(), 1);
	expect_exports("audit", "10.244.1.5:0/0 10.244.1.5:8080/6");
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
	tcase_add_loop_test(tcase, test_node_in_a_view, 0, 2);
	tcase_add_loop_test(tcase, test_exports, 0, (int)MK_ARRAY_SIZE(exported));
	tcase_add_test(tcase, test_exports_change);
	tcase_add_test(tcase, test_exports_restart);
	tcase_add_test(tcase, test_externals);
	tcase_add_test(tcase, test_down);
	tcase_add_test(tcase, test_paths);
	tcase_add_test(tcase, test_live);
	tcase_add_loop_test(tcase, test_published_goes, 0, (int)MK_ARRAY_SIZE(gone_rows));
	tcase_add_test(tcase, test_gone_before_start);
	tcase_add_test(tcase, test_status_lost_before_start);
	tcase_add_test(tcase, test_status_lost_view_taken);
	tcase_add_loop_test(tcase, test_not_used_before_start, 0, (int)MK_ARRAY_SIZE(unused));
	tcase_add_test(tcase, test_empty_at_start);
	tcase_add_test(tcase, test_gone_for_long);
	tcase_add_test(tcase, test_gone_and_silent);
	tcase_add_test(tcase, test_path_mtu);
	tcase_add_test(tcase, test_borders);
	tcase_add_test(tcase, test_waits_for_nodes);
	tcase_add_test(tcase, test_label_of_another_value);
	tcase_add_test(tcase, test_border_of_the_tables);
	tcase_add_test(tcase, test_fdb);
	tcase_add_test(tcase, test_nodes_of_a_hub);
	tcase_add_test(tcase, test_exports_damage);
	tcase_add_test(tcase, test_measures);
}
