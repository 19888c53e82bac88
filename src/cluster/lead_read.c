// SPDX-License-Identifier: Apache-2.0
/* Read a Service with its EndpointSlices, whole and as the server has them now. The agent's own
 * watches say when. The objects are not kept. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "cluster/api/backoff.h"
#include "cluster/api/exchange.h"
#include "cluster/lead_internal.h"

#define COLLECT_MS 20
#define AGAIN_MS   100
#define AT_ONCE	   8
#define SILENCE_MS 10000
#define KEPT_BYTES (16 * 1024 * 1024)

struct read {
	struct lead_reads *reads;
	char *key, *namespace_, *name;
	bool waits, changed; /* `changed`: while it was read */
	uint64_t due_ms, began_ms;
	struct mk_exchange *service, *slices; /* requests */
	json_object *service_tree, *slices_tree;
	bool failed;
	struct mk_backoff backoff;
	UT_hash_handle hh;
	struct read *prev, *next; /* among those that wait */
};

struct lead_reads {
	struct mk_lead *lead;
	struct read *all, *waiting;
	unsigned int running;
	uv_timer_t timer;
	bool complained;
};

static void read_due(uv_timer_t *timer);

static void plan(struct lead_reads *reads, uint64_t wait_ms)
{
	uv_timer_start(&reads->timer, read_due, wait_ms, 0);
}

static bool runs(const struct read *read)
{
	return read->service || read->slices;
}

static void enqueue(struct read *read, uint64_t due_ms)
{
	if (read->waits)
		return;
	read->waits = true;
	read->due_ms = due_ms;
	DL_APPEND(read->reads->waiting, read);
	plan(read->reads, 0);
}

static void leave_queue(struct read *read)
{
	if (read->waits)
		DL_DELETE(read->reads->waiting, read);
	read->waits = false;
}

static void drop_trees(struct read *read)
{
	json_object_put(mk_steal_ptr(read->service_tree));
	json_object_put(mk_steal_ptr(read->slices_tree));
}

static void free_read(struct read *read)
{
	struct lead_reads *reads = read->reads;

	leave_queue(read);
	if (runs(read))
		reads->running--;
	mk_exchange_cancel(read->service);
	mk_exchange_cancel(read->slices);
	drop_trees(read);
	if (read->key)
		HASH_DEL(reads->all, read);
	free(read->key);
	free(read->namespace_);
	free(read->name);
	free(read);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Items of a list have neither kind nor apiVersion; what reads them needs none. */
static void report(struct read *read)
{
	const struct mk_lead_listener *listener = &read->reads->lead->listener;
	json_object *items = mk_json_member(read->slices_tree, "items");
	size_t count = mk_json_length(items);
	cleanup_free json_object **slices = calloc(count + 1, sizeof(json_object *));

	for (size_t i = 0; slices && i < count; i++)
		slices[i] = json_object_array_get_idx(items, i);
	if (slices)
		listener->read(listener->ctx, read->namespace_, read->name, read->service_tree,
			       slices, count);
}

static void finish(struct read *read)
{
	struct lead_reads *reads = read->reads;
	uint64_t now_ms = uv_now(reads->lead->kube->loop);

	reads->running--;
	if (read->failed) {
		enqueue(read, now_ms + mk_backoff_next(&read->backoff, 0, mk_backoff_random()));
	} else {
		reads->complained = false;
		mk_backoff_reset(&read->backoff);
		report(read);
		if (read->changed)
			enqueue(read, read->began_ms + AGAIN_MS);
	}
	drop_trees(read);
	read->failed = false;
	plan(reads, 0);
}

static const char *remedy_of(const struct mk_answer *answer)
{
	if (answer->status == 403)
		return LEAD_REMEDY;
	return answer->status == 404
		       ? "EndpointSlices of discovery.k8s.io/v1 need Kubernetes 1.21 or newer"
		       : "it tries again";
}

static void fail(struct read *read, const struct mk_answer *answer)
{
	struct lead_reads *reads = read->reads;

	read->failed = true;
	if (!reads->complained)
		mk_log_warn(
			"exported Service %s: not read: %s (HTTP status %d); what is published of it stays; %s",
			read->key, answer->why, answer->status, remedy_of(answer));
	reads->complained = true;
}

static void on_service(void *ctx, const struct mk_answer *answer)
{
	struct read *read = ctx;

	read->service = NULL;
	if (mk_answer_is_good(answer) && answer->tree)
		read->service_tree = json_object_get(answer->tree);
	else if (answer->status != 404)
		fail(read, answer);
	if (!runs(read))
		finish(read);
}

static void on_slices(void *ctx, const struct mk_answer *answer)
{
	struct read *read = ctx;

	read->slices = NULL;
	if (mk_answer_is_good(answer) && answer->tree)
		read->slices_tree = json_object_get(answer->tree);
	else
		fail(read, answer);
	if (!runs(read))
		finish(read);
}

/* ---- requests -------------------------------------------------------------------------------- */

static struct mk_exchange *start(struct read *read, const char *target,
				 void (*done)(void *ctx, const struct mk_answer *answer))
{
	const struct mk_exchange_request request = { .method = "GET",
						     .target = target,
						     .silence_ms = SILENCE_MS,
						     .kept_bytes = KEPT_BYTES,
						     .done = done,
						     .ctx = read };
	struct mk_error err;

	return mk_exchange_start(read->reads->lead->kube->http, &request, &err);
}

static void begin(struct read *read)
{
	struct lead_reads *reads = read->reads;
	cleanup_free char *service = NULL, *slices = NULL;

	leave_queue(read);
	read->changed = false;
	read->began_ms = uv_now(reads->lead->kube->loop);
	if (asprintf(&service, "/api/v1/namespaces/%s/services/%s", read->namespace_, read->name) <
	    0)
		service = NULL;
	if (asprintf(
		    &slices,
		    "/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices?labelSelector=kubernetes.io%%2Fservice-name%%3D%s",
		    read->namespace_, read->name) < 0)
		slices = NULL;
	if (service && slices) {
		read->service = start(read, service, on_service);
		read->slices = read->service ? start(read, slices, on_slices) : NULL;
	}
	if (read->slices) {
		reads->running++;
		return;
	}
	mk_exchange_cancel(mk_steal_ptr(read->service));
	enqueue(read, read->began_ms + SILENCE_MS);
}

static void read_due(uv_timer_t *timer)
{
	struct lead_reads *reads = timer->data;
	uint64_t now_ms = uv_now(reads->lead->kube->loop), wait_ms = UINT64_MAX;
	struct read *read, *next;

	DL_FOREACH_SAFE(reads->waiting, read, next) {
		if (reads->running >= AT_ONCE)
			return;
		if (read->due_ms <= now_ms)
			begin(read);
		else if (read->due_ms - now_ms < wait_ms)
			wait_ms = read->due_ms - now_ms;
	}
	if (wait_ms != UINT64_MAX)
		plan(reads, wait_ms);
}

/* ---- what is to be read ---------------------------------------------------------------------- */

static struct read *find(const struct lead_reads *reads, const char *namespace_, const char *name)
{
	cleanup_free char *key = NULL;
	struct read *read = NULL;

	if (asprintf(&key, "%s/%s", namespace_, name) < 0)
		key = NULL;
	else
		HASH_FIND_STR(reads->all, key, read);
	return read;
}

static struct read *add(struct lead_reads *reads, const char *namespace_, const char *name)
{
	struct read *read = calloc(1, sizeof(*read));
	char *key = NULL;

	if (!read)
		return NULL;
	read->reads = reads;
	read->backoff = (struct mk_backoff){ .min_ms = 500, .max_ms = 60000 };
	read->namespace_ = strdup(namespace_);
	read->name = strdup(name);
	if (!read->namespace_ || !read->name || asprintf(&key, "%s/%s", namespace_, name) < 0) {
		free_read(read);
		return NULL;
	}
	read->key = key;
	HASH_ADD_KEYPTR(hh, reads->all, read->key, strlen(read->key), read);
	return read;
}

static void lead_reads_add(struct lead_reads *reads, const char *namespace_, const char *name)
{
	uint64_t now_ms = uv_now(reads->lead->kube->loop);
	struct read *read = find(reads, namespace_, name) ?: add(reads, namespace_, name);

	if (!read) {
		mk_log_error("exported Service %s/%s: not read: out of memory", namespace_, name);
		return;
	}
	read->changed = runs(read);
	if (!runs(read))
		enqueue(read, read->began_ms + AGAIN_MS > now_ms + COLLECT_MS && read->began_ms
				      ? read->began_ms + AGAIN_MS
				      : now_ms + COLLECT_MS);
}

void lead_reads_forget(struct lead_reads *reads, const char *namespace_, const char *name)
{
	struct read *read = find(reads, namespace_, name);

	if (!read)
		return;
	free_read(read);
	plan(reads, 0);
}

void mk_lead_read(struct mk_lead *lead, const char *namespace_, const char *name)
{
	if (mk_lead_leads(lead))
		lead_reads_add(lead->reads, namespace_, name);
}

/* ---- life ------------------------------------------------------------------------------------ */

struct lead_reads *lead_reads_new(struct mk_lead *lead, struct mk_error *err)
{
	struct lead_reads *reads = mk_new(sizeof(*reads), "reads of exported Services", err);

	if (!reads)
		return NULL;
	reads->lead = lead;
	uv_timer_init(lead->kube->loop, &reads->timer);
	reads->timer.data = reads;
	return reads;
}

void lead_reads_clear(struct lead_reads *reads)
{
	struct read *read, *next;

	HASH_ITER(hh, reads->all, read, next)
		free_read(read);
	uv_timer_stop(&reads->timer);
}

void lead_reads_free(struct lead_reads *reads)
{
	if (!reads)
		return;
	lead_reads_clear(reads);
	mk_timer_free(&reads->timer);
}
