// SPDX-License-Identifier: Apache-2.0
/* perf/tables - memory of the maps as the kernel accounts for it (/proc/self/fdinfo, memlock),
 * empty and with Services, pods and sessions in them; the size of each program; and how long many
 * external addresses take. One tab-separated line per figure: what, of how many, unit, value. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bpf/run.h"
#include "clusters/externals.h"
#include "datapath/clusters/tables.h"
#include "datapath/maps/object.h"
#include "rows.h"

#define BACKENDS 10

static const char *const service_maps[] = { "frontends", "service_backends", "maglev", NULL };
static const char *const pod_maps[] = { "pods", "routes", NULL };
static const char *const session_maps[] = { "sessions", NULL };
static const char *const half_open_maps[] = { "sessions_young", "nat_sessions_young", NULL };

static unsigned long map_bytes(const char *map)
{
	unsigned long bytes = 0;
	char line[128];
	FILE *info;

	snprintf(line, sizeof(line), "/proc/self/fdinfo/%d", fixture_map(map));
	info = fopen(line, "re");
	ck_assert_ptr_nonnull(info);
	while (fgets(line, sizeof(line), info))
		if (sscanf(line, "memlock: %lu", &bytes) == 1)
			break;
	fclose(info);
	return bytes;
}

static void tell(const char *what, unsigned of, const char *const *maps)
{
	unsigned long bytes = 0;

	for (; *maps; maps++)
		bytes += map_bytes(*maps);
	printf("%s\t%u\tKiB\t%lu\n", what, of, bytes / 1024);
}

static void put(const char *map, const void *key, const void *value)
{
	ck_assert_int_eq(row_update(fixture_map(map), key, value, BPF_ANY), 0);
}

/* Add a ClusterIP Service with ten backends: a frontend and its set. */
static void put_service(unsigned number)
{
	const struct mk_frontend service = { .set_id = number + 1,
					     .generation = 1,
					     .backend_count = BACKENDS };
	struct mk_frontend_key key = { .port = htons(80), .proto = IPPROTO_TCP };

	key.addr = row_ipv4(0x0a600000 + number);
	put("frontends", &key, &service);
	for (unsigned i = 0; i < BACKENDS; i++) {
		const struct mk_backend_key at = { .set_id = number + 1,
						   .generation = 1,
						   .index = i };
		struct mk_backend backend = { .port = htons(8080) };

		backend.addr = row_ipv4(0x0af40000 + number * BACKENDS + i);
		put("service_backends", &at, &backend);
	}
}

static void put_pod(unsigned number)
{
	const struct mk_pod pod = { .ifindex = number + 2, .addr = row_ipv4(0x0af40102 + number) };

	fixture_put_pod(&pod);
}

/* Add both entries of a session. */
static void put_session(unsigned number)
{
	const struct mk_session session = { 0 };
	struct mk_tuple key = { .sport = htons(80), .proto = IPPROTO_TCP };

	for (unsigned direction = 0; direction < 2; direction++) {
		key.saddr = row_ipv4(number);
		key.daddr = row_ipv4(direction);
		put("sessions", &key, &session);
	}
}

static void grow(const char *what, const char *const *maps, void (*add)(unsigned),
		 const unsigned *counts)
{
	unsigned at = 0;

	for (; *counts; counts++) {
		while (at < *counts)
			add(at++);
		tell(what, *counts, maps);
	}
}

static void tell_programs(void)
{
	for (size_t i = 0; i < mk_program_count; i++) {
		struct bpf_prog_info info = { 0 };
		__u32 bytes = sizeof(info);

		ck_assert_int_eq(bpf_obj_get_info_by_fd(fixture_program(mk_programs[i].name), &info,
							&bytes),
				 0);
		printf("program %s\t1\tinstructions\t%zu\n", mk_programs[i].name,
		       info.xlated_prog_len / sizeof(struct bpf_insn));
		printf("program %s\t1\tbytes of machine code\t%u\n", mk_programs[i].name,
		       info.jited_prog_len);
	}
}

/* ---- external addresses ---------------------------------------------------------------------- */

#define EXTERNALS 1000
#define ROUNDS	  21

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int in_order(const void *a, const void *b)
{
	return *(const double *)a < *(const double *)b ? -1 : 1;
}

static void tell_median(const char *what, double us[ROUNDS])
{
	qsort(us, ROUNDS, sizeof(*us), in_order);
	printf("%s\t%d\tus\t%.0f\n", what, EXTERNALS, us[ROUNDS / 2]);
}

static struct mk_ip target_of(unsigned number)
{
	struct mk_ip ip = { .family = AF_INET };

	ip.v4.s_addr = htonl(0xc0000200 + number);
	return ip;
}

/* Map the targets, a Service each. Returns how long it took. */
static double map_targets(struct mk_clusters_export rows[EXTERNALS])
{
	struct mk_cidr ranges[MK_FAMILIES] = { 0 };
	double began = now_us();
	struct mk_externals *externals;
	struct mk_error err;

	ck_assert_int_eq(mk_cidr_parse("247.255.0.0/20", &ranges[0]), 0);
	externals = mk_externals_new(ranges);
	for (unsigned i = 0; i < EXTERNALS; i++) {
		struct mk_ip target = target_of(i), ip;
		char owner[32];

		snprintf(owner, sizeof(owner), "shop/service-%u", i);
		ck_assert_int_eq(mk_externals_set(externals, owner, &target, 1, 0, &ip, &err), 0);
		rows[i] = (struct mk_clusters_export){
			.key = { .addr = mk_ip_to_addr(&ip),
				 .port = htons(5432),
				 .proto = IPPROTO_TCP },
			.target = mk_ip_to_addr(&target),
		};
	}
	began = now_us() - began;
	mk_externals_free(externals);
	return began;
}

static void make_table(struct mk_table *table, const char *name, size_t key_bytes,
		       size_t value_bytes, uint32_t entries)
{
	struct mk_error err;

	ck_assert_int_eq(mk_table_create(table, name, BPF_MAP_TYPE_HASH, key_bytes, value_bytes,
					 entries, AF_INET, &err),
			 0);
}

/* Write the rows and their pings into an empty table. Returns how long it took. */
static double write_rows(const struct mk_clusters_export rows[EXTERNALS])
{
	struct mk_clusters_export all[2 * EXTERNALS];
	struct mk_clusters_tables tables;
	struct mk_clusters_counts counts = { 0 };
	struct mk_clusters_sync *sync;
	struct mk_error err;
	double began;

	for (unsigned i = 0; i < EXTERNALS; i++) {
		all[2 * i] = all[2 * i + 1] = rows[i];
		all[2 * i + 1].key.port = 0;
		all[2 * i + 1].key.proto = 0;
	}
	make_table(&tables.clusters, "clusters", 4, sizeof(struct mk_cluster), MK_CLUSTERS);
	make_table(&tables.nodes, "cluster_nodes", sizeof(struct mk_cluster_node_key), 4,
		   MK_CLUSTER_NODES);
	make_table(&tables.carriers, "cluster_carriers", sizeof(struct mk_far_addr), 4,
		   MK_CLUSTER_CARRIERS);
	make_table(&tables.counters, "cluster_counters", 4, sizeof(struct mk_cluster_counters),
		   MK_CLUSTERS);
	make_table(&tables.exports, "exports", sizeof(struct mk_export), sizeof(struct mk_addr),
		   MK_EXPORTS);
	sync = mk_clusters_sync_new(&tables, &err);
	ck_assert_ptr_nonnull(sync);
	began = now_us();
	ck_assert_int_eq(mk_clusters_sync_exports(sync, all, 2 * EXTERNALS, &counts, &err), 0);
	began = now_us() - began;
	ck_assert_uint_eq(counts.put, 2 * EXTERNALS);
	mk_clusters_sync_free(sync);
	mk_table_close(&tables.clusters);
	mk_table_close(&tables.nodes);
	mk_table_close(&tables.carriers);
	mk_table_close(&tables.counters);
	mk_table_close(&tables.exports);
	return began;
}

static void tell_externals(void)
{
	static struct mk_clusters_export rows[EXTERNALS];
	double computed[ROUNDS], written[ROUNDS];

	for (unsigned i = 0; i < ROUNDS; i++) {
		computed[i] = map_targets(rows);
		written[i] = write_rows(rows);
	}
	tell_median("external addresses, computed", computed);
	tell_median("external addresses, in the table", written);
}

START_TEST(tell_all)
{
	tell("Services with 10 backends", 0, service_maps);
	grow("Services with 10 backends", service_maps, put_service,
	     (const unsigned[]){ 10, 1000, 10000, 0 });
	tell("pods", 0, pod_maps);
	grow("pods", pod_maps, put_pod, (const unsigned[]){ 10, 250, 0 });
	tell("sessions, established", 0, session_maps);
	grow("sessions, established", session_maps, put_session,
	     (const unsigned[]){ 1000, 10000, 250000, 0 });
	tell("sessions, half-open, both tables", 0, half_open_maps);
	tell_programs();
	tell_externals();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("perf");
	TCase *tcase = tcase_create("tables");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_unchecked_fixture(tcase, fixture_load, fixture_unload);
	tcase_set_timeout(tcase, 300);
	tcase_add_test(tcase, tell_all);
	suite_add_tcase(suite, tcase);
	srunner_run_all(runner, CK_SILENT);
	failed = srunner_ntests_failed(runner);
	if (failed)
		srunner_print(runner, CK_NORMAL);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
