// SPDX-License-Identifier: Apache-2.0
/* The tables of other clusters: what is written, in which order a kill may meet it, what a restart
 * takes over, and what an audit finds. */
#include <bpf/libbpf.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "datapath/clusters/tables.h"
#include "unit/unit.h"

static struct mk_clusters_tables tables;
static struct mk_clusters_sync *made;
static struct mk_error err;

/* The rows of two clusters. North is reached by east. */
#define EAST  200
#define NORTH 7
static struct mk_clusters_cluster clusters[2];
static struct mk_clusters_hop hops[3];
static struct mk_clusters_carrier carriers[2];
static struct mk_clusters_rows rows;
static struct mk_clusters_export exports[3];

static const struct {
	const char *name;
	struct mk_table *table;
	uint32_t type;
	size_t key_bytes, value_bytes;
	uint32_t entries;
} maps[] = {
	{ "clusters", &tables.clusters, BPF_MAP_TYPE_HASH, 4, sizeof(struct mk_cluster),
	  MK_CLUSTERS },
	{ "cluster_nodes", &tables.nodes, BPF_MAP_TYPE_HASH, sizeof(struct mk_cluster_node_key), 4,
	  MK_CLUSTER_NODES },
	{ "cluster_carriers", &tables.carriers, BPF_MAP_TYPE_HASH, sizeof(struct mk_far_addr), 4,
	  MK_CLUSTER_CARRIERS },
	{ "cluster_counters", &tables.counters, BPF_MAP_TYPE_PERCPU_HASH, 4,
	  sizeof(struct mk_cluster_counters), MK_CLUSTERS },
	{ "exports", &tables.exports, BPF_MAP_TYPE_HASH, sizeof(struct mk_export),
	  sizeof(struct mk_addr), MK_EXPORTS },
};

static struct mk_addr addr(const char *text)
{
	struct mk_ip ip;

	ck_assert_msg(mk_ip_parse(text, &ip) == 0, "%s", text);
	return mk_ip_to_addr(&ip);
}

static void start(void)
{
	made = mk_clusters_sync_new(&tables, &err);
	ck_assert_msg(made != NULL, "%s", mk_error_text(&err));
}

static void stop(void)
{
	mk_clusters_sync_free(made);
	made = NULL;
}

static unsigned apply(void)
{
	struct mk_clusters_counts counts = { 0 };

	ck_ok(mk_clusters_sync_apply(made, &rows, &counts, &err));
	return counts.put + counts.deleted;
}

/* Returns the number of writes. */
static unsigned export_rows(const struct mk_clusters_export *of, size_t count)
{
	struct mk_clusters_counts counts = { 0 };

	ck_ok(mk_clusters_sync_exports(made, of, count, &counts, &err));
	ck_assert_uint_eq(counts.left_out, 0);
	return counts.put + counts.deleted;
}

static void use(sa_family_t family)
{
	const struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
	static const char *const views[2][2] = { { "fd02::", "fd01::" },
						 { "240.2.0.0", "240.1.0.0" } };
	bool is4 = family == AF_INET;

	setrlimit(RLIMIT_MEMLOCK, &unlimited);
	for (size_t i = 0; i < MK_ARRAY_SIZE(maps); i++)
		ck_ok(mk_table_create(maps[i].table, maps[i].name, maps[i].type, maps[i].key_bytes,
				      maps[i].value_bytes, maps[i].entries, family, &err));
	for (size_t i = 0; i < 2; i++)
		clusters[i].row = (struct mk_cluster){
			.home = addr(is4 ? "10.244.0.0" : "fd00::"),
			.view = addr(views[is4][i]),
			.mask = addr(is4 ? "255.255.0.0" : "ffff:ffff:ffff::"),
			.via = EAST,
			.hop_count = 2,
			.mtu_bytes = 1450,
		};
	clusters[0].number = NORTH;
	clusters[1].number = EAST;
	hops[0] = (struct mk_clusters_hop){ { EAST, 1 }, 1 };
	hops[1] = (struct mk_clusters_hop){ { EAST, MK_CLUSTER_BY_INDEX }, 1 };
	hops[2] = (struct mk_clusters_hop){ { EAST, MK_CLUSTER_BY_INDEX | 1 }, 2 };
	for (uint32_t i = 0; i < 2; i++)
		carriers[i] = (struct mk_clusters_carrier){ { { 0, 0, 0, i + 1 } }, EAST };
	exports[0].key = (struct mk_export){ .addr = addr(is4 ? "10.244.1.9" : "fd00::1:9"),
					     .port = htons(8080),
					     .proto = IPPROTO_TCP };
	exports[1] = exports[0];
	exports[1].key.proto = IPPROTO_UDP;
	exports[2].key = (struct mk_export){ .addr = exports[0].key.addr };
	rows = (struct mk_clusters_rows){
		.clusters = clusters,
		.nodes = hops,
		.carriers = carriers,
		.cluster_count = 2,
		.node_count = 3,
		.carrier_count = 2,
	};
	start();
}

static void setup(void)
{
	use(AF_INET);
}

static void teardown(void)
{
	stop();
	for (size_t i = 0; i < MK_ARRAY_SIZE(maps); i++)
		mk_table_close(maps[i].table);
}

static size_t count_of(const struct mk_table *table)
{
	cleanup_free void *keys = NULL;
	size_t count;

	ck_ok(mk_table_keys(table, &keys, &count, &err));
	return count;
}

static bool has_row(uint32_t number)
{
	struct mk_cluster row;

	return mk_table_get(&tables.clusters, &number, &row, NULL) == 0;
}

/* ---- what is written ------------------------------------------------------------------------- */

static const sa_family_t families[] = { AF_INET, AF_INET6 };

START_TEST(test_rows)
{
	const uint32_t number = NORTH;
	struct mk_cluster row;
	uint32_t value;

	teardown();
	use(families[_i]);
	ck_assert(mk_clusters_sync_is_empty(made));
	ck_assert_uint_eq(apply(), 2 + 3 + 2 + 2);
	ck_assert(!mk_clusters_sync_is_empty(made));
	ck_ok(mk_table_get(&tables.clusters, &number, &row, &err));
	ck_assert_mem_eq(&row, &clusters[0].row, sizeof(row));
	ck_ok(mk_table_get(&tables.nodes, &hops[2].key, &value, &err));
	ck_assert_uint_eq(value, 2);
	ck_ok(mk_table_get(&tables.carriers, &carriers[1].addr, &value, &err));
	ck_assert_uint_eq(value, EAST);
	ck_assert_uint_eq(count_of(&tables.counters), 2);
	ck_assert_uint_eq(apply(), 0);
	rows = (struct mk_clusters_rows){ 0 };
	ck_assert_uint_eq(apply(), 2 + 3 + 2 + 2);
	ck_assert(mk_clusters_sync_is_empty(made));
	for (size_t i = 0; i < MK_ARRAY_SIZE(maps); i++)
		ck_assert_uint_eq(count_of(maps[i].table), 0);
}
END_TEST

static void nothing(void)
{
}

static void other_flags(void)
{
	clusters[0].row.flags = MK_CLUSTER_ACCESS_PODS;
}

static void other_view(void)
{
	clusters[0].row.view = addr("240.9.0.0");
}

static void node_gone(void)
{
	rows.node_count = 2;
	clusters[0].row.hop_count = clusters[1].row.hop_count = 1;
}

static void other_hop(void)
{
	hops[0].hop = 5;
}

static void carrier_gone(void)
{
	rows.carrier_count = 1;
}

static void cluster_gone(void)
{
	rows.cluster_count = 1;
}

static const struct {
	const char *name;
	void (*change)(void);
	unsigned writes;
} changes[] = {
	{ "nothing", nothing, 0 },
	{ "flags: the row", other_flags, 1 },
	{ "view: the row goes and comes", other_view, 2 },
	{ "a node less: two rows, the node", node_gone, 3 },
	{ "another hop", other_hop, 1 },
	{ "a carrier less", carrier_gone, 1 },
	{ "a cluster less: row and counter", cluster_gone, 2 },
};

START_TEST(test_writes)
{
	unsigned writes;

	apply();
	changes[_i].change();
	writes = apply();
	ck_assert_msg(writes == changes[_i].writes, "%s: %u writes", changes[_i].name, writes);
	ck_assert_uint_eq(apply(), 0);
	stop();
	start();
	ck_assert_uint_eq(apply(), 0); /* a restart has nothing to write */
}
END_TEST

/* ---- order ----------------------------------------------------------------------------------- */

/* Let no write to @table succeed, as if the agent were killed before it. */
static struct mk_table broken(struct mk_table *table)
{
	struct mk_table was = *table;

	table->fd = -1;
	return was;
}

static void apply_broken(void)
{
	struct mk_clusters_counts counts = { 0 };

	ck_assert_int_lt(mk_clusters_sync_apply(made, &rows, &counts, &err), 0);
}

/* Which nodes get packets for any address. NORTH has no nodes, so nothing is known of them. */
START_TEST(test_spread)
{
	apply();
	ck_assert(mk_clusters_sync_spreads_to(made, EAST, 1));
	ck_assert(mk_clusters_sync_spreads_to(made, EAST, 2));
	ck_assert(!mk_clusters_sync_spreads_to(made, EAST, 3));
	ck_assert(mk_clusters_sync_spreads_to(made, NORTH, 3));
}
END_TEST

/* A new cluster has its nodes and carriers before its row. */
START_TEST(test_nodes_before_rows)
{
	struct mk_table *const table[] = { &tables.counters, &tables.nodes, &tables.carriers };
	struct mk_table was = broken(table[_i]);

	apply_broken();
	ck_assert_uint_eq(count_of(&tables.clusters), 0);
	*table[_i] = was;
	apply();
	ck_assert(has_row(EAST) && has_row(NORTH));
	ck_assert_uint_eq(count_of(&tables.nodes), 3);
}
END_TEST

/* A cluster whose networks change has no row while the nodes change. With another way it keeps the
 * former one until it has its new nodes. */
START_TEST(test_changed_cluster)
{
	struct mk_table was;

	apply();
	if (_i == 0)
		clusters[0].row.home = addr("10.9.0.0");
	else
		clusters[0].row.via = NORTH;
	hops[0].hop = 9;
	was = broken(&tables.nodes);
	apply_broken();
	ck_assert(has_row(NORTH) == (_i == 1));
	ck_assert(has_row(EAST));
	tables.nodes = was;
	apply();
	ck_assert(has_row(NORTH));
}
END_TEST

/* A cluster loses its row before its nodes. */
START_TEST(test_rows_before_nodes)
{
	struct mk_table was;

	apply();
	rows.cluster_count = rows.node_count = 0;
	was = broken(&tables.nodes);
	apply_broken();
	ck_assert_uint_eq(count_of(&tables.clusters), 0);
	tables.nodes = was;
	ck_assert_uint_eq(count_of(&tables.nodes), 3);
	apply();
	ck_assert_uint_eq(count_of(&tables.nodes), 0);
	ck_assert_uint_eq(count_of(&tables.counters), 0);
}
END_TEST

/* ---- exports --------------------------------------------------------------------------------- */

static bool is_exported(const struct mk_clusters_export *row)
{
	struct mk_addr target;

	return mk_table_get(&tables.exports, &row->key, &target, NULL) == 0 &&
	       mk_addr_eq(&target, &row->target);
}

START_TEST(test_exports)
{
	struct mk_clusters_export twice[3];

	teardown();
	use(families[_i]);
	twice[0] = twice[2] = exports[2];
	twice[1] = exports[0];
	ck_assert_uint_eq(export_rows(exports, 2), 2);
	ck_assert(!mk_clusters_sync_is_empty(made));
	ck_assert(is_exported(&exports[0]) && is_exported(&exports[1]));
	ck_assert(!is_exported(&exports[2]));
	ck_assert_uint_eq(export_rows(exports, 2), 0);
	stop();
	start();
	ck_assert_uint_eq(export_rows(exports, 2), 0); /* a restart has nothing to write */
	ck_assert_uint_eq(export_rows(twice, 3), 2);
	ck_assert(is_exported(&exports[0]) && !is_exported(&exports[1]));
	ck_assert(is_exported(&exports[2]));
	ck_assert_uint_eq(export_rows(NULL, 0), 2);
	ck_assert(mk_clusters_sync_is_empty(made));
}
END_TEST

/* An external address that gets another target keeps its entry. */
START_TEST(test_exports_target)
{
	teardown();
	use(families[_i]);
	exports[0].target = addr(_i ? "2001:db8::7" : "192.0.2.7");
	ck_assert_uint_eq(export_rows(exports, 2), 2);
	ck_assert(is_exported(&exports[0]));
	exports[0].target = addr(_i ? "2001:db8::8" : "192.0.2.8");
	ck_assert_uint_eq(export_rows(exports, 2), 1);
	ck_assert(is_exported(&exports[0]));
}
END_TEST

/* Clusters and exports change without each other. */
START_TEST(test_exports_beside_clusters)
{
	export_rows(exports, 3);
	ck_assert_uint_eq(apply(), 2 + 3 + 2 + 2);
	ck_assert_uint_eq(count_of(&tables.exports), 3);
	ck_assert_uint_eq(export_rows(exports, 1), 2);
	ck_assert_uint_eq(apply(), 0);
	rows = (struct mk_clusters_rows){ 0 };
	apply();
	ck_assert_uint_eq(count_of(&tables.exports), 1);
	ck_assert_uint_eq(count_of(&tables.clusters), 0);
	ck_assert_uint_eq(export_rows(exports, 1), 0);
}
END_TEST

/* There is no room for all: the rows with the lowest addresses are written. */
START_TEST(test_too_many_exports)
{
	cleanup_free struct mk_clusters_export *many = calloc(MK_EXPORTS + 2, sizeof(*many));
	struct mk_clusters_counts counts = { 0 };

	ck_assert_ptr_nonnull(many);
	for (uint32_t i = 0; i < MK_EXPORTS + 2; i++) {
		many[i] = exports[0];
		many[i].key.addr.word[3] = htonl(0x0af40002 + i);
	}
	ck_ok(mk_clusters_sync_exports(made, many, MK_EXPORTS + 2, &counts, &err));
	ck_assert_uint_eq(counts.left_out, 2);
	ck_assert_uint_eq(counts.put, MK_EXPORTS);
	ck_assert(is_exported(&many[0]) && is_exported(&many[MK_EXPORTS - 1]));
	ck_assert(!is_exported(&many[MK_EXPORTS]));
	/* another one instead of the first: the first goes before that */
	counts = (struct mk_clusters_counts){ 0 };
	ck_ok(mk_clusters_sync_exports(made, many + 1, MK_EXPORTS + 1, &counts, &err));
	ck_assert_uint_eq(counts.put + counts.deleted, 2);
	ck_assert(!is_exported(&many[0]) && is_exported(&many[MK_EXPORTS]));
}
END_TEST

/* ---- reading back ---------------------------------------------------------------------------- */

START_TEST(test_audit)
{
	const struct mk_addr stranger = addr("192.0.2.7");
	const uint32_t number = EAST;
	struct mk_cluster row;

	apply();
	export_rows(exports, 2);
	ck_assert_int_eq(mk_clusters_sync_reconcile(made, &err), 0);
	ck_assert_int_eq(mk_table_delete(&tables.exports, &exports[0].key, &err), 1);
	ck_ok(mk_table_put(&tables.exports, &exports[2].key, &stranger, &err));
	ck_assert_int_eq(mk_clusters_sync_reconcile(made, &err), 2);
	ck_assert_uint_eq(export_rows(exports, 2), 2);
	ck_ok(mk_table_get(&tables.clusters, &number, &row, &err));
	row.mtu_bytes = 1;
	ck_ok(mk_table_put(&tables.clusters, &number, &row, &err));
	ck_assert_int_eq(mk_table_delete(&tables.nodes, &hops[1].key, &err), 1);
	ck_ok(mk_table_put(&tables.carriers, &(struct mk_far_addr){ { 9 } }, &stranger, &err));
	ck_assert_int_eq(mk_clusters_sync_reconcile(made, &err), 3);
	ck_assert_uint_eq(apply(), 3);
	ck_assert_int_eq(mk_clusters_sync_reconcile(made, &err), 0);
	ck_assert_uint_eq(count_of(&tables.carriers), 2);
}
END_TEST

START_TEST(test_counters)
{
	int cpus = libbpf_num_possible_cpus();
	struct mk_cluster_counters of[cpus], sum;
	const uint32_t number = EAST;

	apply();
	memset(of, 0, sizeof(of));
	for (int cpu = 0; cpu < cpus; cpu++)
		of[cpu] = (struct mk_cluster_counters){ { 1, 2 }, { 100, 200 } };
	ck_ok(mk_table_put(&tables.counters, &number, of, &err));
	ck_ok(mk_clusters_sync_counters(made, EAST, &sum, &err));
	ck_assert_uint_eq(sum.packets[0], (unsigned)cpus);
	ck_assert_uint_eq(sum.packets[1], 2u * (unsigned)cpus);
	ck_assert_uint_eq(sum.bytes[0], 100u * (unsigned)cpus);
	ck_assert_uint_eq(sum.bytes[1], 200u * (unsigned)cpus);
	ck_assert_uint_eq(apply(), 0); /* they stay */
	ck_ok(mk_clusters_sync_counters(made, EAST, &sum, &err));
	ck_assert_uint_eq(sum.packets[0], (unsigned)cpus);
	ck_ok(mk_clusters_sync_counters(made, 4711, &sum, &err));
	ck_assert_uint_eq(sum.packets[0], 0);
}
END_TEST

UNIT_SUITE("tables of other clusters")
{
	TCase *tcase = tcase_create("tables");

	tcase_add_checked_fixture(tcase, setup, teardown);
	suite_add_tcase(suite, tcase);
	tcase_add_loop_test(tcase, test_rows, 0, 2);
	tcase_add_loop_test(tcase, test_writes, 0, (int)MK_ARRAY_SIZE(changes));
	tcase_add_test(tcase, test_spread);
	tcase_add_loop_test(tcase, test_nodes_before_rows, 0, 3);
	tcase_add_loop_test(tcase, test_changed_cluster, 0, 2);
	tcase_add_test(tcase, test_rows_before_nodes);
	tcase_add_loop_test(tcase, test_exports, 0, 2);
	tcase_add_loop_test(tcase, test_exports_target, 0, 2);
	tcase_add_test(tcase, test_exports_beside_clusters);
	tcase_add_test(tcase, test_too_many_exports);
	tcase_add_test(tcase, test_audit);
	tcase_add_test(tcase, test_counters);
}
