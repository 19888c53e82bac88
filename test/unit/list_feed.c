// SPDX-License-Identifier: Apache-2.0
#include "unit/list_feed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cluster/api/http_internal.h"

#define PIECE_BYTES 16384 /* size of a TLS record */

void feed_die(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	exit(1);
}

/* ---- reflectors ------------------------------------------------------------------------------ */

static int apply_object(void *ctx, const struct mk_resource *resource, json_object *tree,
			struct mk_error *err)
{
	struct mk_model **model = ctx;

	(void)resource;
	return mk_model_apply(*model, tree, err);
}

static void remove_object(void *ctx, const struct mk_resource *resource, const char *namespace_,
			  const char *name)
{
	struct mk_model **model = ctx;

	mk_model_delete(*model, resource->model_kind, namespace_, name);
}

static void each_pod(void *ctx, const struct mk_resource *resource,
		     void (*visit)(void *of, const char *namespace_, const char *name), void *of)
{
	struct mk_model **model = ctx;
	const struct mk_pod_object *pod = mk_model_next(*model, MK_KIND_POD, NULL), *next;

	(void)resource;
	for (; pod; pod = next) {
		next = mk_model_next(*model, MK_KIND_POD, pod);
		visit(of, pod->of->namespace_, pod->name);
	}
}

static void on_listed(void *ctx, const struct mk_resource *resource)
{
	(void)ctx;
	(void)resource;
}

/* Give @reflector a transfer without a request. The end of a list sets the transfer's timer. */
static void set_transfer(uv_loop_t *loop, struct mk_reflector *reflector)
{
	struct mk_http_transfer *transfer = calloc(1, sizeof(*transfer));

	if (!transfer)
		feed_die("transfer", "out of memory");
	uv_timer_init(loop, &transfer->silence);
	reflector->transfer = transfer;
}

struct mk_reflector *feed_start(uv_loop_t *loop, enum mk_resource_id id, struct mk_model **model)
{
	bool has_pods = mk_resource(id)->model_kind == MK_KIND_POD;
	const struct mk_reflector_sink sink = { .apply = apply_object,
						.remove = remove_object,
						.listed = on_listed,
						.absent = on_listed,
						.each = has_pods ? each_pod : NULL,
						.ctx = model };
	struct mk_error err;
	struct mk_reflector *reflector = mk_reflector_start(
		loop, NULL, mk_resource(id), &mk_reflector_timing_default, &sink, &err);

	if (!reflector)
		feed_die("reflector", mk_error_text(&err));
	reflector->mode = MK_QUERY_STREAM;
	set_transfer(loop, reflector);
	feed_begin(reflector);
	return reflector;
}

void feed_begin(struct mk_reflector *reflector)
{
	reflector->version[0] = '\0';
	seen_begin(reflector->seen);
	splitter_free(reflector->splitter);
	reflector->splitter = reflector_splitter(reflector);
}

/* ---- files ----------------------------------------------------------------------------------- */

FILE *feed_open(const char *dir, const char *name)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "r");
	if (!file)
		feed_die(path, strerror(errno));
	return file;
}

void feed_bytes(struct mk_reflector *reflector, const char *bytes, size_t size)
{
	struct mk_error err;

	if (reflector_data(reflector, 200, bytes, size, &err) < 0)
		feed_die("list", mk_error_text(&err));
}

void feed_file(struct mk_reflector *reflector, const char *dir, const char *name)
{
	cleanup_fclose FILE *file = feed_open(dir, name);
	char piece[PIECE_BYTES];
	size_t size;

	while ((size = fread(piece, 1, sizeof(piece), file)) > 0)
		feed_bytes(reflector, piece, size);
}

/* ---- times ----------------------------------------------------------------------------------- */

void feed_time_add(struct feed_times *times, double us)
{
	times->us = reallocarray(times->us, times->count + 1, sizeof(double));
	if (!times->us)
		feed_die("times", "out of memory");
	times->us[times->count++] = us;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void feed_times_sort(struct feed_times *times)
{
	if (times->count == 0)
		feed_die("times", "nothing was measured");
	qsort(times->us, times->count, sizeof(double), compare);
}
