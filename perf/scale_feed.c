// SPDX-License-Identifier: Apache-2.0
/* perf/scale_feed DIR - what reading costs: from the bytes of lists and watches
 * (perf/scale_lists.py) to the model, without network and datapath. Prints one JSON object. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "unit/list_feed.h"

static struct mk_model *model;
static uint64_t notified;

static void service_changed(void *ctx, const char *namespace_, const char *name)
{
	(void)ctx;
	(void)namespace_;
	(void)name;
	notified++;
}

static void node_changed(void *ctx, const char *name)
{
	(void)ctx;
	(void)name;
}

static double feed(struct mk_reflector *reflector, const char *dir, const char *name)
{
	uint64_t start = uv_hrtime();

	feed_file(reflector, dir, name);
	return (double)(uv_hrtime() - start) / 1e6;
}

/* Feed the lines one by one, as a quiet server sends them. */
static void feed_changes(struct mk_reflector *reflector, const char *dir)
{
	cleanup_fclose FILE *file = feed_open(dir, "changes.watch");
	cleanup_free char *line = NULL;
	struct feed_times times = { 0 };
	double sum_us = 0;
	size_t room = 0;
	ssize_t size;

	while ((size = getline(&line, &room, file)) > 0) {
		uint64_t start = uv_hrtime();

		feed_bytes(reflector, line, (size_t)size);
		feed_time_add(&times, (double)(uv_hrtime() - start) / 1e3);
		sum_us += times.us[times.count - 1];
	}
	feed_times_sort(&times);
	printf("\"changes\":%zu,\"change_median_ms\":%.4f,\"change_p99_ms\":%.4f,\"changes_per_s\":%.0f,",
	       times.count, feed_median(&times) / 1e3, feed_p99(&times) / 1e3,
	       (double)times.count * 1e6 / sum_us);
	free(times.us);
}

int main(int argc, char **argv)
{
	const struct mk_model_listener listener = { .service_changed = service_changed,
						    .node_changed = node_changed };
	struct mk_reflector *services, *slices;
	struct rusage usage;
	uv_loop_t loop;
	double read_ms, again_ms;

	if (argc != 2)
		feed_die("usage", "scale_feed DIR");
	mk_log_set_level(MK_LOG_WARN);
	uv_loop_init(&loop);
	model = mk_model_new();
	mk_model_set_listener(model, &listener);
	services = feed_start(&loop, MK_RESOURCE_SERVICES, &model);
	slices = feed_start(&loop, MK_RESOURCE_ENDPOINT_SLICES, &model);
	read_ms = feed(services, argv[1], "services.watch") +
		  feed(slices, argv[1], "endpointslices.watch");
	getrusage(RUSAGE_SELF, &usage);
	printf("{\"objects\":%zu,\"read_ms\":%.1f,\"peak_rss_kib\":%ld,",
	       seen_count(services->seen) + seen_count(slices->seen), read_ms, usage.ru_maxrss);
	notified = 0;
	feed_begin(services);
	feed_begin(slices);
	again_ms = feed(services, argv[1], "services.watch") +
		   feed(slices, argv[1], "endpointslices.watch");
	printf("\"read_again_ms\":%.1f,\"changed_by_reading_again\":%" PRIu64 ",", again_ms,
	       notified);
	feed_changes(slices, argv[1]);
	getrusage(RUSAGE_SELF, &usage);
	printf("\"peak_rss_after_kib\":%ld}\n", usage.ru_maxrss);
	return 0;
}
