// SPDX-License-Identifier: Apache-2.0
/* perf/scale_change DIR... - one changed EndpointSlice from its bytes to the tables: JSON, model,
 * compile, write. Each DIR (perf/scale_lists.py) is a cluster of its own. All clusters exist at the
 * same time and get their changes in turns, so other load on the machine affects all alike. Prints
 * one JSON object per cluster: microseconds, entries written. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>
#include <uv.h>

#include "agent/service_queue.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "unit/list_feed.h"
#include "unit/sync_fixture.h"

#define CLUSTERS_MAX 4
#define ROOM	     262144 /* entries of each table */

struct cluster {
	const char *dir;
	struct mk_core core;
	struct agent_services queue;
	struct mk_reflector *services, *slices;
	struct mk_service_tables tables;
	struct mk_service_sync *sync;
	FILE *changes;
	struct feed_times times;
	unsigned long entries;
};

static struct cluster clusters[CLUSTERS_MAX];
static size_t cluster_count;
static struct cluster *now; /* the cluster whose bytes are read */

/* ---- the agent's part ----------------------------------------------------------------------- */

static void service_changed(void *ctx, const char *namespace_, const char *name)
{
	agent_service_dirty(ctx, namespace_, name);
}

static void node_changed(void *ctx, const char *name)
{
	(void)ctx;
	(void)name;
}

/* Work as agent_services_reconcile() does. */
static void work_on(struct agent_service *service)
{
	const struct mk_ip node_address = { .family = AF_INET, .v4.s_addr = 0x0b63a8c0 };
	const struct mk_service_view view = { .family = AF_INET,
					      .node_name = "worker-1",
					      .node_addresses = &node_address,
					      .node_address_count = 1,
					      .local_weight = 1,
					      .maglev_slots = 13 };
	struct mk_compiled_service compiled;

	if (mk_service_compile(now->core.model, &view, service->namespace_, service->name,
			       &compiled, &sync_err) < 0 ||
	    mk_service_sync_apply(now->sync, &compiled, now_ns, &counts, &sync_err) < 0)
		feed_die(service->key, mk_error_text(&sync_err));
	mk_compiled_service_release(&compiled);
	service->dirty = false;
	DL_DELETE(now->queue.dirty, service);
}

static void work(void)
{
	counts = (struct mk_service_counts){ 0 };
	while (now->queue.dirty)
		work_on(now->queue.dirty);
	now->entries += counts.put + counts.deleted;
}

/* ---- clusters ------------------------------------------------------------------------------- */

static void build_cluster(uv_loop_t *loop, struct cluster *cluster)
{
	const struct mk_model_listener listener = { .service_changed = service_changed,
						    .node_changed = node_changed,
						    .ctx = &cluster->queue };

	now = cluster;
	sync_setup();
	cluster->tables = tables;
	cluster->sync = sync_;
	cluster->core.model = mk_model_new();
	if (!cluster->core.model)
		feed_die(cluster->dir, "out of memory");
	mk_model_set_listener(cluster->core.model, &listener);
	cluster->services = feed_start(loop, MK_RESOURCE_SERVICES, &cluster->core.model);
	cluster->slices = feed_start(loop, MK_RESOURCE_ENDPOINT_SLICES, &cluster->core.model);
	feed_file(cluster->services, cluster->dir, "services.watch");
	feed_file(cluster->slices, cluster->dir, "endpointslices.watch");
	work();
	cluster->changes = feed_open(cluster->dir, "changes.watch");
	cluster->entries = 0;
}

/* ---- changes -------------------------------------------------------------------------------- */

/* Apply the next change. Returns false at the end of the changes. */
static __attribute__((noinline)) bool change(struct cluster *cluster)
{
	static char *line;
	static size_t room;
	ssize_t size = getline(&line, &room, cluster->changes);
	uint64_t start;

	if (size <= 0)
		return false;
	now = cluster;
	start = uv_hrtime();
	feed_bytes(cluster->slices, line, (size_t)size);
	work();
	feed_time_add(&cluster->times, (double)(uv_hrtime() - start) / 1e3);
	/* not measured, as the agent does it a second later */
	now_ns += 2 * MK_RETIRE_NS;
	if (mk_service_sync_collect(cluster->sync, now_ns, &counts, &sync_err) < 0)
		feed_die(cluster->dir, mk_error_text(&sync_err));
	return true;
}

static void print(struct cluster *cluster)
{
	const struct feed_times *times = &cluster->times;

	feed_times_sort(&cluster->times);
	printf("{\"name\":\"%s\",\"services\":%zu,\"changes\":%zu,\"entries\":%.2f,\"min_us\":%.1f,\"median_us\":%.1f,\"p99_us\":%.1f}\n",
	       cluster->dir, mk_service_sync_service_count(cluster->sync), times->count,
	       (double)cluster->entries / (double)times->count, times->us[0], feed_median(times),
	       feed_p99(times));
}

START_TEST(measure_all)
{
	uv_loop_t loop;
	bool more = true;

	uv_loop_init(&loop);
	sync_room = ROOM;
	for (size_t i = 0; i < cluster_count; i++)
		build_cluster(&loop, &clusters[i]);
	while (more)
		for (size_t i = 0; more && i < cluster_count; i++)
			more = change(&clusters[i]);
	for (size_t i = 0; i < cluster_count; i++)
		print(&clusters[i]);
}
END_TEST

int main(int argc, char **argv)
{
	Suite *suite = suite_create("perf");
	TCase *tcase = tcase_create("change");
	SRunner *runner = srunner_create(suite);
	int failed;

	if (argc < 2 || argc > CLUSTERS_MAX + 1)
		feed_die("usage", "scale_change DIR...");
	for (; (int)cluster_count + 1 < argc; cluster_count++)
		clusters[cluster_count].dir = argv[cluster_count + 1];
	mk_log_set_level(MK_LOG_WARN);
	suite_add_tcase(suite, tcase);
	tcase_set_timeout(tcase, 1200);
	tcase_add_test(tcase, measure_all);
	srunner_set_fork_status(runner,
				CK_NOFORK); /* the fixture's assertions need a test around them */
	srunner_run_all(runner, CK_SILENT);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
