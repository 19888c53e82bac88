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
#include "cluster/api/http_internal.h"
#include "cluster/watch/reflector_internal.h"

#define PIECE_BYTES 16384 /* size of a TLS record */

static struct mk_model *model;
static uint64_t notified;

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "scale_feed: %s: %s\n", what, why);
	exit(1);
}

static int apply(void *ctx, const struct mk_resource *resource, json_object *tree,
		 struct mk_error *err)
{
	(void)ctx;
	(void)resource;
	return mk_model_apply(model, tree, err);
}

static void remove_object(void *ctx, const struct mk_resource *resource, const char *namespace_,
			  const char *name)
{
	(void)ctx;
	mk_model_delete(model, resource->model_kind, namespace_, name);
}

static void on_listed(void *ctx, const struct mk_resource *resource)
{
	(void)ctx;
	(void)resource;
}

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

/* Give @reflector a transfer without a request. The end of a list sets the transfer's timer. */
static void set_transfer(uv_loop_t *loop, struct mk_reflector *reflector)
{
	struct mk_http_transfer *transfer = calloc(1, sizeof(*transfer));

	if (!transfer)
		fail("transfer", "out of memory");
	uv_timer_init(loop, &transfer->silence);
	reflector->transfer = transfer;
}

/* Make a reflector that sends no request, because its loop does not run. */
static struct mk_reflector *reflector_new(uv_loop_t *loop, enum mk_resource_id id)
{
	const struct mk_reflector_sink sink = { apply, remove_object, on_listed, on_listed, NULL };
	struct mk_error err;
	struct mk_reflector *reflector = mk_reflector_start(
		loop, NULL, mk_resource(id), &mk_reflector_timing_default, &sink, &err);

	if (!reflector)
		fail("reflector", err.text);
	reflector->mode = MK_QUERY_STREAM;
	set_transfer(loop, reflector);
	return reflector;
}

static void begin(struct mk_reflector *reflector)
{
	reflector->version[0] = '\0';
	seen_begin(reflector->seen);
	splitter_free(reflector->splitter);
	reflector->splitter = reflector_splitter(reflector);
}

static double feed(struct mk_reflector *reflector, const char *dir, const char *name)
{
	char path[4096], piece[PIECE_BYTES];
	struct mk_error err;
	uint64_t start = uv_hrtime();
	cleanup_fclose FILE *file = NULL;
	size_t size;

	snprintf(path, sizeof(path), "%s/%s.watch", dir, name);
	file = fopen(path, "r");
	if (!file)
		fail(path, strerror(errno));
	while ((size = fread(piece, 1, sizeof(piece), file)) > 0)
		if (reflector_data(reflector, 200, piece, size, &err) < 0)
			fail(path, err.text);
	return (double)(uv_hrtime() - start) / 1e6;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Feed the lines one by one, as a quiet server sends them. */
static void feed_changes(struct mk_reflector *reflector, const char *dir)
{
	cleanup_free char *line = NULL;
	cleanup_fclose FILE *file = NULL;
	double *times = NULL, sum = 0;
	char path[4096];
	struct mk_error err;
	size_t count = 0, room = 0;
	ssize_t size;

	snprintf(path, sizeof(path), "%s/changes.watch", dir);
	file = fopen(path, "r");
	while (file && (size = getline(&line, &room, file)) > 0) {
		uint64_t start = uv_hrtime();

		if (reflector_data(reflector, 200, line, (size_t)size, &err) < 0)
			fail(path, err.text);
		times = realloc(times, (count + 1) * sizeof(*times));
		if (!times)
			fail(path, "out of memory");
		times[count] = (double)(uv_hrtime() - start) / 1e6;
		sum += times[count++];
	}
	if (count == 0)
		return;
	qsort(times, count, sizeof(*times), compare);
	printf("\"changes\":%zu,\"change_median_ms\":%.4f,\"change_p99_ms\":%.4f,\"changes_per_s\":%.0f,",
	       count, times[count / 2], times[count * 99 / 100], (double)count * 1000 / sum);
	free(times);
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
		fail("usage", "scale_feed DIR");
	mk_log_set_level(MK_LOG_WARN);
	uv_loop_init(&loop);
	model = mk_model_new();
	mk_model_set_listener(model, &listener);
	services = reflector_new(&loop, MK_RESOURCE_SERVICES);
	slices = reflector_new(&loop, MK_RESOURCE_ENDPOINT_SLICES);
	begin(services);
	begin(slices);
	read_ms = feed(services, argv[1], "services") + feed(slices, argv[1], "endpointslices");
	getrusage(RUSAGE_SELF, &usage);
	printf("{\"objects\":%zu,\"read_ms\":%.1f,\"peak_rss_kib\":%ld,",
	       seen_count(services->seen) + seen_count(slices->seen), read_ms, usage.ru_maxrss);
	notified = 0;
	begin(services);
	begin(slices);
	again_ms = feed(services, argv[1], "services") + feed(slices, argv[1], "endpointslices");
	printf("\"read_again_ms\":%.1f,\"changed_by_reading_again\":%" PRIu64 ",", again_ms,
	       notified);
	feed_changes(slices, argv[1]);
	getrusage(RUSAGE_SELF, &usage);
	printf("\"peak_rss_after_kib\":%ld}\n", usage.ru_maxrss);
	return 0;
}
