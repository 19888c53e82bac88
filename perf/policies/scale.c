// SPDX-License-Identifier: Apache-2.0
/* perf/policies/scale DIR... - network policies from the bytes of a cluster's lists to the tables:
 * JSON, model, compile, write. Then one changed label, policy and namespace at a time. Each DIR
 * (scale_lists.py) is a cluster of its own. All clusters exist at the same time and get their
 * changes in turns, so other load on the machine affects all alike. Prints one JSON object per
 * cluster: milliseconds of the start and of another agent's start,
 * memory, microseconds and entries written of each change. All
 * times are processor time. */
#include <check.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "unit/list_feed.h"
#include "unit/policy_tables_fixture.h"

enum {
	CLUSTERS_MAX = 4,
	ROOM = 262144, /* entries of each table, as map policy_peers has by default */
	SLOTS = 1024,
	SANDBOXES_MAX = 250,
	FIRST_IFINDEX = 11,
	IN_NAMESPACE = 10, /* LOCAL_IN_NAMESPACE of scale_lists.py */
};

enum what { LABEL, POLICY, NAMESPACE, WHATS };
static const char *const whats[WHATS] = { "label", "policy", "namespace" };

struct times {
	FILE *changes;
	struct feed_times taken;
	unsigned long entries;
};

struct cluster {
	const char *dir;
	struct mk_model *model;
	struct mk_policies *policies;
	struct mk_policy_tables tables;
	struct mk_policy_sync *sync;
	struct mk_reflector *reflectors[WHATS]; /* of the objects that change */
	struct times times[WHATS];
	double read_ms, compile_ms, write_ms, restart_ms;
	unsigned int entries, restart_entries;
	long model_kib, policies_kib, kernel_kib;
	size_t heap_bytes; /* with the overhead of malloc(3) */
};

static struct cluster clusters[CLUSTERS_MAX];
static size_t cluster_count;
static struct cluster *now; /* the cluster whose bytes are read */

static void must(int ret)
{
	if (ret < 0)
		feed_die(now->dir, mk_error_text(&policy_err));
}

/* Processor time of this process, so that other work on the machine does not count. */
static uint64_t cpu_ns(void)
{
	struct timespec spent;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
	return (uint64_t)spent.tv_sec * S + (uint64_t)spent.tv_nsec;
}

static double ms_since(uint64_t start_ns)
{
	return (double)(cpu_ns() - start_ns) / 1e6;
}

/* ---- the agent's part ----------------------------------------------------------------------- */

static void mark(enum mk_kind kind, const char *namespace_, const char *name)
{
	if (now->policies)
		mk_policies_mark(now->policies, kind, namespace_, name);
}

static void pod_changed(void *ctx, const struct mk_pod_object *pod,
			const struct mk_pod_object *former)
{
	(void)ctx;
	if (now->policies)
		mk_policies_pod_changed(now->policies, pod, former);
}

static void namespace_changed(void *ctx, const char *name)
{
	(void)ctx;
	mark(MK_KIND_NAMESPACE, "", name);
}

static void network_policy_changed(void *ctx, const char *namespace_, const char *name)
{
	(void)ctx;
	mark(MK_KIND_NETWORK_POLICY, namespace_, name);
}

static const struct mk_model_listener listener = {
	.pod_changed = pod_changed,
	.namespace_changed = namespace_changed,
	.network_policy_changed = network_policy_changed,
};

/* Work as mk_node_policies_reconcile() does. */
static void compile(const struct mk_policy_changes **changes)
{
	(void)mk_policies_want(now->policies);
	must(mk_policies_compile(now->policies, changes, &policy_err));
}

static unsigned int write_tables(const struct mk_policy_changes *changes)
{
	struct mk_policy_counts counts = { 0 };

	must(mk_policy_sync_apply(now->sync, changes, policy_now_ns, &counts, &policy_err));
	return counts.put + counts.deleted + counts.switched;
}

/* Do the agent's work of a second later, which is not measured. */
static void clean_up(void)
{
	struct mk_policy_counts counts = { 0 };
	const struct mk_policy_changes *changes;

	policy_now_ns += 2 * S;
	mk_policies_release(now->policies);
	mk_policy_sync_release(now->sync, policy_now_ns);
	compile(&changes);
	write_tables(changes);
	policy_now_ns += 2 * S;
	must(mk_policy_sync_collect(now->sync, policy_now_ns, &counts, &policy_err));
}

/* ---- memory --------------------------------------------------------------------------------- */

static long rss_kib(void)
{
	cleanup_fclose FILE *file = fopen("/proc/self/statm", "re");
	long size, resident = 0;

	if (!file || fscanf(file, "%ld %ld", &size, &resident) != 2)
		feed_die("/proc/self/statm", "cannot be read");
	return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static size_t heap_bytes(void)
{
	struct mallinfo2 heap = mallinfo2();

	return heap.uordblks + heap.hblkhd;
}

static long map_bytes(const struct mk_table *table)
{
	cleanup_fclose FILE *file = NULL;
	char line[128];
	long bytes = 0;

	snprintf(line, sizeof(line), "/proc/self/fdinfo/%d", table->fd);
	file = fopen(line, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "memlock: %ld", &bytes) == 1)
			break;
	return bytes;
}

static long kernel_kib(const struct mk_policy_tables *tables)
{
	return (map_bytes(&tables->identities) + map_bytes(&tables->peers) +
		map_bytes(&tables->blocks) + map_bytes(&tables->ports) +
		map_bytes(&tables->counts) + map_bytes(&tables->expected) +
		map_bytes(&tables->namespaces)) /
	       1024;
}

/* ---- the start ------------------------------------------------------------------------------ */

/* The sandboxes of node1's pods, as scale_lists.py names them. */
static void set_sandboxes(void)
{
	static char names[SANDBOXES_MAX][16], namespaces[SANDBOXES_MAX][16];
	struct mk_policy_sandbox sandboxes[SANDBOXES_MAX] = { 0 };
	cleanup_fclose FILE *file = feed_open(now->dir, "local");
	unsigned int count;

	if (fscanf(file, "%u", &count) != 1 || count > SANDBOXES_MAX)
		feed_die(now->dir, "too many pods of node1");
	for (unsigned int i = 0; i < count; i++) {
		snprintf(names[i], sizeof(names[i]), "local-%u", i);
		snprintf(namespaces[i], sizeof(namespaces[i]), "scale-%03u", i / IN_NAMESPACE);
		sandboxes[i] = (struct mk_policy_sandbox){ .uid = names[i],
							   .namespace_ = namespaces[i],
							   .name = names[i],
							   .ifindex = FIRST_IFINDEX + (int)i };
		sandboxes[i].ips[0] =
			(struct mk_ip){ .family = AF_INET, .v4.s_addr = htonl(0x0af40102 + i) };
	}
	must(mk_policies_set_sandboxes(now->policies, sandboxes, count, &policy_err));
	must(mk_policy_sync_set_sandboxes(now->sync, sandboxes, count, &policy_err));
}

static struct mk_reflector *read_list(uv_loop_t *loop, enum mk_resource_id id, const char *name)
{
	struct mk_reflector *reflector = feed_start(loop, id, &now->model);

	feed_file(reflector, now->dir, name);
	return reflector;
}

static void read_lists(uv_loop_t *loop)
{
	long before_kib = rss_kib();
	uint64_t start_ns = cpu_ns();

	now->reflectors[NAMESPACE] = read_list(loop, MK_RESOURCE_NAMESPACES, "namespaces.watch");
	now->reflectors[POLICY] = read_list(loop, MK_RESOURCE_NETWORK_POLICIES, "policies.watch");
	now->reflectors[LABEL] = read_list(loop, MK_RESOURCE_PODS, "pods.watch");
	now->read_ms = ms_since(start_ns);
	now->model_kib = rss_kib() - before_kib;
}

static void start_compiler(void)
{
	const struct mk_policy_view view = { .node_name = "node1", .hash_key = { 1, 2, 3 } };

	now->policies = mk_policies_new(now->model, &view, &policy_err);
	if (!now->policies)
		feed_die(now->dir, mk_error_text(&policy_err));
	set_sandboxes();
}

static void start_sync(void)
{
	now->sync = mk_policy_sync_new(&now->tables, &policy_err);
	if (!now->sync)
		feed_die(now->dir, mk_error_text(&policy_err));
}

/* Another agent compiles everything, and finds it in the tables. */
static void restart(void)
{
	const struct mk_policy_changes *changes;
	uint64_t start_ns;

	mk_policies_free(now->policies);
	mk_policy_sync_free(now->sync);
	start_ns = cpu_ns();
	start_sync();
	start_compiler();
	compile(&changes);
	must(mk_policies_all(now->policies, &changes, &policy_err));
	now->restart_entries = write_tables(changes);
	now->restart_ms = ms_since(start_ns);
	clean_up();
}

static void fill_tables(void)
{
	const struct mk_policy_changes *changes;
	long before_kib = rss_kib(), before_kernel_kib = kernel_kib(&now->tables);
	uint64_t start_ns = cpu_ns();

	start_compiler();
	compile(&changes);
	now->compile_ms = ms_since(start_ns);
	start_ns = cpu_ns();
	now->entries = write_tables(changes);
	now->write_ms = ms_since(start_ns);
	now->policies_kib = rss_kib() - before_kib;
	now->kernel_kib = kernel_kib(&now->tables) - before_kernel_kib;
}

static void open_changes(enum what what)
{
	char name[32];

	snprintf(name, sizeof(name), "%s.changes", whats[what]);
	now->times[what].changes = feed_open(now->dir, name);
}

static void build_cluster(uv_loop_t *loop, struct cluster *cluster)
{
	size_t before_bytes = heap_bytes();

	now = cluster;
	policy_setup();
	now->tables = policy_tables;
	mk_policy_sync_free(policy_sync);
	policy_sync = NULL;
	start_sync();
	now->model = mk_model_new();
	if (!now->model)
		feed_die(now->dir, "out of memory");
	mk_model_set_listener(now->model, &listener);
	mk_model_set_node(now->model, "node1");
	read_lists(loop);
	fill_tables();
	clean_up();
	now->heap_bytes = heap_bytes() - before_bytes;
	restart();
	for (enum what what = 0; what < WHATS; what++)
		open_changes(what);
}

/* ---- changes -------------------------------------------------------------------------------- */

/* Apply the next change. Returns false at the end of the changes. */
static bool change(struct cluster *cluster, enum what what)
{
	struct times *times = &cluster->times[what];
	const struct mk_policy_changes *changes;
	static char *line;
	static size_t room;
	ssize_t size = getline(&line, &room, times->changes);
	uint64_t start_ns;

	if (size <= 0)
		return false;
	now = cluster;
	start_ns = cpu_ns();
	feed_bytes(now->reflectors[what], line, (size_t)size);
	compile(&changes);
	times->entries += write_tables(changes);
	feed_time_add(&times->taken, ms_since(start_ns) * 1e3);
	clean_up();
	return true;
}

static void print_change(struct times *times, enum what what)
{
	const struct feed_times *taken = &times->taken;

	feed_times_sort(&times->taken);
	printf("\"%s\":{\"changes\":%zu,\"entries\":%.2f,\"median_us\":%.1f,\"p99_us\":%.1f}%s",
	       whats[what], taken->count, (double)times->entries / (double)taken->count,
	       feed_median(taken), feed_p99(taken), what + 1 < WHATS ? "," : "}\n");
}

static void print(struct cluster *cluster)
{
	struct mk_policy_figures figures;

	mk_policies_figures(cluster->policies, &figures);
	printf("{\"pods\":%zu,\"policies\":%zu,\"sets\":%zu,\"classes\":%zu,\"isolated\":%zu,"
	       "\"read_ms\":%.1f,\"compile_ms\":%.2f,\"write_ms\":%.2f,\"entries\":%u,"
	       "\"restart_ms\":%.2f,\"restart_entries\":%u,"
	       "\"model_kib\":%ld,\"policies_kib\":%ld,\"kernel_kib\":%ld,"
	       "\"heap_bytes\":%zu,",
	       seen_count(cluster->reflectors[LABEL]->seen), figures.policies, figures.sets,
	       figures.classes, figures.isolated_pods, cluster->read_ms, cluster->compile_ms,
	       cluster->write_ms, cluster->entries, cluster->restart_ms, cluster->restart_entries,
	       cluster->model_kib, cluster->policies_kib, cluster->kernel_kib, cluster->heap_bytes);
	for (enum what what = 0; what < WHATS; what++)
		print_change(&cluster->times[what], what);
}

START_TEST(measure_all)
{
	uv_loop_t loop;

	uv_loop_init(&loop);
	policy_room = ROOM;
	policy_slots = SLOTS;
	for (size_t i = 0; i < cluster_count; i++)
		build_cluster(&loop, &clusters[i]);
	for (enum what what = 0; what < WHATS; what++)
		for (bool more = true; more;)
			for (size_t i = 0; more && i < cluster_count; i++)
				more = change(&clusters[i], what);
	for (size_t i = 0; i < cluster_count; i++)
		print(&clusters[i]);
}
END_TEST

int main(int argc, char **argv)
{
	Suite *suite = suite_create("perf");
	TCase *tcase = tcase_create("policies");
	SRunner *runner = srunner_create(suite);
	int failed;

	if (argc < 2 || argc > CLUSTERS_MAX + 1)
		feed_die("usage", "scale DIR...");
	for (; (int)cluster_count + 1 < argc; cluster_count++)
		clusters[cluster_count].dir = argv[cluster_count + 1];
	mk_log_set_level(MK_LOG_WARN);
	suite_add_tcase(suite, tcase);
	tcase_set_timeout(tcase, 1200);
	tcase_add_test(tcase, measure_all);
	/* the fixture's assertions need a test around them */
	srunner_set_fork_status(runner, CK_NOFORK);
	srunner_run_all(runner, CK_SILENT);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
