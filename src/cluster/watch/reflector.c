// SPDX-License-Identifier: Apache-2.0
/* One request at a time. When it ends, request_done() evaluates the answer, updates the state and
 * sets the timer for the next one. go_on() then chooses the next request from the state only. */
#include "cluster/watch/reflector_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/loop.h"

#define STREAM_AGAIN_MS (3600 * 1000) /* the server may have been upgraded meanwhile */
#define REJECTED_MAX	3
#define SHORT_WATCH_MS	1000

const struct mk_reflector_timing mk_reflector_timing_default = {
	.watch_s = 300, /* as in client-go */
	.quiet_ms = 40000,
	.quiet_watch_s = 38, /* longer watches get bookmarks once a minute */
	.grace_ms = 15000,
	.settled_ms = 10000,
	.list_silence_ms = 75000, /* the server's own limit for a request is 60 s */
	.backoff_min_ms = 500,
	.backoff_max_ms = 30000,
	.absent_ms = 300000,
	.forget_ms = 600000, /* etcd keeps five minutes of history */
	.page = 500,
};

static void request_done(void *ctx, const struct mk_http_result *result);
static void go_on(uv_timer_t *timer);

/* ---- log ------------------------------------------------------------------------------------- */

/* Ignore digits: libcurl's messages contain stream numbers and milliseconds. */
static bool same_complaint(const char *a, const char *b)
{
	static const char digits[] = "0123456789";

	do {
		a += strspn(a, digits);
		b += strspn(b, digits);
		if (*a != *b)
			return false;
		b++;
	} while (*a++);
	return true;
}

/* A server that is away for an hour costs one line, not thousands. */
static void complain(struct mk_reflector *reflector, const char *text, uint64_t wait_ms)
{
	if (same_complaint(reflector->complaint, text))
		mk_log_debug("%s: %s; asking again in %" PRIu64 " ms", reflector->resource->name,
			     text, wait_ms);
	else
		mk_log_warn("%s: %s; asking again in %" PRIu64 " ms, with growing pauses",
			    reflector->resource->name, text, wait_ms);
	snprintf(reflector->complaint, sizeof(reflector->complaint), "%s", text);
}

/* The watch was answered: log it if something was wrong before. */
static void well(struct mk_reflector *reflector)
{
	if (*reflector->complaint)
		mk_log_info("%s: following the API server again", reflector->resource->name);
	reflector->complaint[0] = '\0';
	reflector->rejected = 0;
	reflector->missing = 0;
	if (reflector->sink.answered)
		reflector->sink.answered(reflector->sink.ctx, reflector->resource, NULL, NULL);
}

static void report_failure(const struct mk_reflector *reflector,
			   const struct mk_http_result *result, const char *text)
{
	if (reflector->sink.answered)
		reflector->sink.answered(reflector->sink.ctx, reflector->resource, result, text);
}

/* The watch works. A list is no proof of that: a server may answer each watch with 410. */
static void settle(struct mk_reflector *reflector)
{
	well(reflector);
	reflector->unproved = false;
	mk_backoff_reset(&reflector->backoff);
	mk_backoff_reset(&reflector->denied);
}

void reflector_heard(struct mk_reflector *reflector)
{
	reflector->heard = true;
	settle(reflector);
}

/* ---- retries --------------------------------------------------------------------------------- */

static void ask_after(struct mk_reflector *reflector, uint64_t wait_ms)
{
	uv_timer_start(&reflector->timer, go_on, wait_ms, 0);
}

static void ask_later(struct mk_reflector *reflector, const char *why, uint64_t retry_after_s)
{
	uint64_t wait_ms = mk_backoff_next(&reflector->backoff, retry_after_s, mk_backoff_random());

	reflector->failures++;
	complain(reflector, why, wait_ms);
	ask_after(reflector, wait_ms);
}

static void begin_list(struct mk_reflector *reflector)
{
	free(mk_steal_ptr(reflector->continue_));
	reflector->version[0] = '\0';
}

/* ---- evaluating answers ---------------------------------------------------------------------- */

/* The server has lost the history: only a list shows what changed meanwhile. */
static void on_gone(struct mk_reflector *reflector, const char *why)
{
	if (reflector->mode == MK_QUERY_LIST)
		reflector->whole_list = true;
	else if (*reflector->version && !reflector->unproved)
		mk_backoff_reset(&reflector->backoff); /* it is up: earlier failures are over */
	begin_list(reflector);
	ask_later(reflector, why, 0);
}

/* A server that starts denies access until it has read its roles: ask again soon at first. */
static uint64_t rare_ms(struct mk_reflector *reflector, int status)
{
	uint64_t rare = reflector->timing.absent_ms / (reflector->resource->custom ? 5 : 1), soon;

	if (status != 403)
		return rare;
	soon = mk_backoff_next(&reflector->denied, 0, mk_backoff_random());
	return soon < rare ? soon : rare;
}

/* Ask again rarely. @remedy: the server denies access, and this helps. */
static void ask_rarely(struct mk_reflector *reflector, int status, const char *why,
		       const char *remedy)
{
	const struct mk_resource *resource = reflector->resource;

	if (!reflector->absent) {
		if (remedy)
			mk_log_warn("%s: not read: %s; %s", resource->name, why, remedy);
		else if (resource->custom && status == 404)
			mk_log_info(
				"%s: not read: the cluster has no such CustomResourceDefinition "
				"(HTTP status 404)",
				resource->name);
		else
			mk_log_info("%s: not read: %s", resource->name, why);
	}
	reflector->absent = true;
	reflector->missing = 0;
	begin_list(reflector);
	ask_after(reflector, rare_ms(reflector, status));
}

static void on_absent(struct mk_reflector *reflector, int status, const char *why)
{
	ask_rarely(reflector, status, why, NULL);
	reflector->sink.absent(reflector->sink.ctx, reflector->resource);
}

/* The resource is there, so this does not count as an answer. */
static void on_forbidden(struct mk_reflector *reflector, const char *why)
{
	reflector->failures++;
	ask_rarely(reflector, 403, why, reflector->resource->remedy);
}

/* @status: the HTTP status that refuses; 0: the server has ended the list. */
static void on_stream_refused(struct mk_reflector *reflector, int status, const char *why)
{
	const char *name = reflector->resource->name;

	if (status)
		mk_log_info("%s: read in pages: the server has no streaming lists (HTTP status %d)",
			    name, status);
	else
		mk_log_info("%s: read in pages: the server has no streaming lists (%s)", name, why);
	mk_log_debug("%s: the streaming list was refused: %s", name, why);
	reflector->stream_refused = true;
	reflector->stream_refused_ms = uv_now(reflector->loop);
	ask_after(reflector, 0);
}

/* Objects can be read in each version that the server has. Returns whether one is left to try. */
static bool try_other_version(struct mk_reflector *reflector, int status)
{
	if (!reflector->resource->older_path || status != 404 || reflector->other_missing) {
		reflector->other_missing = false;
		return false;
	}
	reflector->other_missing = true;
	reflector->older_version = !reflector->older_version;
	reflector->missing = 0;
	begin_list(reflector);
	ask_after(reflector, 0);
	return true;
}

/* The CRD was deleted, and its objects with it. */
static void on_vanished(struct mk_reflector *reflector, const char *why)
{
	seen_begin(reflector->seen);
	reflector_remove_unseen(reflector);
	reflector->listed_once = false;
	reflector->absent = false;
	on_absent(reflector, 404, why);
}

/* A listed resource does not vanish: a server that says so is not up yet. A 404 for a resource that
 * every server has comes from a server that is not up, or from a proxy. */
static bool is_absent(const struct mk_reflector *reflector, int status)
{
	const struct mk_resource *resource = reflector->resource;

	if (reflector->listed_once)
		return false;
	return (status == 404 && (resource->optional || resource->replaceable)) ||
	       (status == 403 && resource->optional && !resource->remedy);
}

static bool is_forbidden(const struct mk_reflector *reflector, int status)
{
	return !reflector->listed_once && status == 403 && reflector->resource->remedy;
}

/* One answer may come from a proxy, or from a server that is not up yet. */
static bool has_vanished(struct mk_reflector *reflector, int status)
{
	if (!reflector->resource->custom || status != 404)
		return false;
	return reflector->listed_once && ++reflector->missing == REJECTED_MAX;
}

static bool refuses_field(const struct mk_reflector *reflector, int status, const char *message)
{
	return status == 400 && reflector->resource->older_field_selector &&
	       !reflector->older_selector && strstr(message, "field label");
}

/* Does the server not know the parameters, or is it not allowed to serve them? */
static bool refuses_stream(const struct mk_reflector *reflector, int status)
{
	return reflector->mode == MK_QUERY_STREAM && !*reflector->version && status >= 400 &&
	       status < 500 && status != 401 && status != 403 && status != 404 && status != 408 &&
	       status != 429;
}

/* Does the status concern the request, not the server's state? Then a repetition would not help. */
static bool is_rejection(int status)
{
	return status >= 400 && status != 401 && status != 403 && status != 408 && status != 429 &&
	       status != 502 && status != 503 && status != 504;
}

static void count_rejection(struct mk_reflector *reflector)
{
	if (reflector->mode != MK_QUERY_WATCH || ++reflector->rejected < REJECTED_MAX)
		return;
	mk_log_warn("%s: no watch from version %s after %d attempts: reading the list",
		    reflector->resource->name, reflector->version, REJECTED_MAX);
	reflector->rejected = 0;
	begin_list(reflector);
}

static void on_status(struct mk_reflector *reflector, int status, const char *message,
		      uint64_t retry_after_s)
{
	if (status == 410) {
		on_gone(reflector, message);
	} else if (has_vanished(reflector, status)) {
		if (!try_other_version(reflector, status))
			on_vanished(reflector, message);
	} else if (is_absent(reflector, status)) {
		if (!try_other_version(reflector, status))
			on_absent(reflector, status, message);
	} else if (is_forbidden(reflector, status)) {
		on_forbidden(reflector, message);
	} else if (refuses_field(reflector, status, message)) {
		reflector->older_selector = true;
		ask_after(reflector, 0);
	} else if (refuses_stream(reflector, status)) {
		on_stream_refused(reflector, status, message);
	} else {
		if (is_rejection(status))
			count_rejection(reflector);
		if (reflector->mode == MK_QUERY_LIST && is_rejection(status))
			begin_list(reflector); /* the server may have rejected the page's token */
		ask_later(reflector, message, retry_after_s);
	}
}

static void on_page_end(struct mk_reflector *reflector)
{
	if (!reflector->continue_)
		reflector_complete(reflector, reflector->list_version);
	ask_after(reflector, 0);
}

/* A server that is shutting down also ends a streaming list this way. A server that takes the
 * request for an ordinary watch ends it when its time is over, or always. */
static void on_unfinished_stream(struct mk_reflector *reflector, uint64_t lasted_ms)
{
	static const char why[] = "it ended without the bookmark";

	if (lasted_ms >= reflector->timing.watch_s * 1000ULL ||
	    ++reflector->rejected == REJECTED_MAX) {
		reflector->rejected = 0;
		on_stream_refused(reflector, 0, why);
	} else {
		ask_later(reflector, why, 0);
	}
}

/* The server ended the watch, as it does when its time is over. If watches end at once, wait before
 * the next one, to avoid a busy loop. */
static void on_watch_end(struct mk_reflector *reflector)
{
	uint64_t now = uv_now(reflector->loop), lasted_ms = now - reflector->watched_ms;

	reflector->contact_ms = now;
	if (!*reflector->version) {
		on_unfinished_stream(reflector, now - reflector->asked_ms);
		return;
	}
	if (!reflector->heard && lasted_ms < SHORT_WATCH_MS) {
		ask_later(reflector, "the watch ended at once", 0);
		return;
	}
	if (lasted_ms >= reflector->timing.settled_ms)
		settle(reflector);
	else
		well(reflector);
	ask_after(reflector, 0);
}

static void on_success(struct mk_reflector *reflector)
{
	struct mk_error err;

	if (splitter_end(reflector->splitter, &err) < 0)
		ask_later(reflector, err.text, 0);
	else if (reflector->mode == MK_QUERY_LIST)
		on_page_end(reflector);
	else
		on_watch_end(reflector);
}

static void on_failure(struct mk_reflector *reflector, const struct mk_http_result *result)
{
	char text[MK_STATUS_CHARS];

	snprintf(text, sizeof(text), "%s", result->error.text);
	reflector_printable(text);
	if (reflector->event_status) {
		on_status(reflector, reflector->event_status, text, reflector->event_retry_after_s);
		return;
	}
	if (!reflector->heard && result->failure == -EPROTO)
		count_rejection(reflector);
	ask_later(reflector, text, result->retry_after_s);
}

static void request_done(void *ctx, const struct mk_http_result *result)
{
	struct mk_reflector *reflector = ctx;
	char message[MK_STATUS_CHARS - 32], text[MK_STATUS_CHARS];

	reflector->transfer = NULL;
	if (result->failure < 0 && (result->status == 200 || result->status == 0)) {
		report_failure(reflector, result, result->error.text);
		on_failure(reflector, result);
	} else if (result->status == 200) {
		on_success(reflector);
	} else {
		reflector_status_message(reflector, message, sizeof(message));
		snprintf(text, sizeof(text), "HTTP status %d: %s", result->status, message);
		report_failure(reflector, result, text);
		on_status(reflector, result->status, text, result->retry_after_s);
	}
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* Vary the time of each watch, so that not all nodes come back in the same second. */
static unsigned int watch_seconds(const struct mk_reflector *reflector)
{
	unsigned int least_s = reflector->timing.watch_s, spread_s = least_s;

	if (reflector->quiet) {
		least_s = reflector->timing.quiet_watch_s;
		spread_s = least_s / 8;
	}
	return least_s + (unsigned int)(mk_backoff_random() % (spread_s + 1));
}

static void choose(struct mk_reflector *reflector, struct mk_query *query)
{
	uint64_t now = uv_now(reflector->loop);

	if (*reflector->version && now - reflector->contact_ms > reflector->timing.forget_ms) {
		mk_log_info("%s: the API server was unreachable for too long: reading the list",
			    reflector->resource->name);
		begin_list(reflector);
	}
	if (reflector->stream_refused && now - reflector->stream_refused_ms > STREAM_AGAIN_MS)
		reflector->stream_refused = false;
	*query = (struct mk_query){ .timeout_s = watch_seconds(reflector),
				    .older = reflector->older_version };
	if (*reflector->version) {
		query->mode = MK_QUERY_WATCH;
		query->resource_version = reflector->version;
	} else if (reflector->continue_ || reflector->stream_refused) {
		query->mode = MK_QUERY_LIST;
		query->limit = reflector->whole_list ? 0 : reflector->timing.page;
		query->continue_ = reflector->continue_;
	} else {
		query->mode = MK_QUERY_STREAM;
	}
	query->field_selector = reflector->older_selector
					? reflector->resource->older_field_selector
					: reflector->resource->field_selector;
	if (!*reflector->version && !reflector->continue_) {
		seen_begin(reflector->seen);
		reflector->skipped = 0;
		reflector->nameless = 0;
	}
}

static int ask(struct mk_reflector *reflector, const struct mk_query *query, struct mk_error *err)
{
	cleanup_free char *target = resource_target(reflector->resource, query);
	struct mk_http_request request = {
		.target = target, .data = reflector_data, .done = request_done, .ctx = reflector
	};

	reflector->mode = query->mode;
	reflector->watches += query->mode != MK_QUERY_LIST;
	splitter_free(reflector->splitter);
	reflector->splitter = reflector_splitter(reflector);
	if (!target || !reflector->splitter)
		return mk_error_errno(err, ENOMEM, "request");
	request.compressed = query->mode == MK_QUERY_LIST;
	reflector->watch_silence_ms = query->timeout_s * 1000ULL + reflector->timing.grace_ms;
	if (query->mode == MK_QUERY_WATCH) {
		request.silence_ms = reflector->watch_silence_ms;
		request.answer_ms = reflector->timing.grace_ms;
	} else {
		request.silence_ms = reflector->timing.list_silence_ms;
	}
	reflector->asked_ms = uv_now(reflector->loop);
	reflector->heard = false;
	reflector->event_status = 0;
	reflector->event_retry_after_s = 0;
	reflector->status_size = 0;
	reflector->status_text[0] = '\0';
	reflector->transfer = mk_http_start(reflector->http, &request, err);
	return reflector->transfer ? 0 : -err->code;
}

/* Watch again. Many resources do not change for minutes, so silence is no error. On a dead
 * connection the new watch gets no answer. */
static void renew(struct mk_reflector *reflector)
{
	mk_log_debug("%s: no data for %" PRIu64 " ms: watching again from version %s",
		     reflector->resource->name, reflector->renew_ms, reflector->version);
	mk_http_cancel(mk_steal_ptr(reflector->transfer));
	reflector->quiet = true;
	go_on(&reflector->timer);
}

/* An open watch may be silent for long; that it is open is sufficient. Returns the time until the
 * next look, 0: never. */
static uint64_t look_at_answered(struct mk_reflector *reflector)
{
	uint64_t now = uv_now(reflector->loop), lasted_ms = now - reflector->watched_ms;
	uint64_t silent_ms = now - reflector->contact_ms;

	if (silent_ms > lasted_ms)
		silent_ms = lasted_ms;
	well(reflector);
	if (silent_ms >= reflector->renew_ms) {
		renew(reflector);
		return 0;
	}
	if (lasted_ms < reflector->timing.settled_ms)
		return reflector->timing.settled_ms - lasted_ms;
	settle(reflector);
	return reflector->renew_ms == UINT64_MAX ? 0 : reflector->renew_ms - silent_ms;
}

static void look_at_watch(uv_timer_t *timer)
{
	struct mk_reflector *reflector = timer->data;
	uint64_t wait_ms = SHORT_WATCH_MS;

	if (!reflector->transfer)
		return;
	if (mk_http_status(reflector->transfer) == 200)
		wait_ms = look_at_answered(reflector);
	if (wait_ms)
		uv_timer_start(timer, look_at_watch, wait_ms, 0);
}

/* All nodes get the same last event, so their next requests must come at different times. */
void reflector_watching(struct mk_reflector *reflector)
{
	uint64_t quiet_ms = reflector->timing.quiet_ms;

	reflector->watched_ms = uv_now(reflector->loop);
	reflector->renew_ms = quiet_ms - mk_backoff_random() % (quiet_ms / 4 + 1);
	if (reflector->quiet)
		reflector->renew_ms = UINT64_MAX;
	uv_timer_start(&reflector->timer, look_at_watch, SHORT_WATCH_MS, 0);
}

static void go_on(uv_timer_t *timer)
{
	struct mk_reflector *reflector = timer->data;
	struct mk_query query;
	struct mk_error err;

	choose(reflector, &query);
	if (ask(reflector, &query, &err) < 0)
		ask_later(reflector, err.text, 0);
	else if (reflector->mode == MK_QUERY_WATCH)
		reflector_watching(reflector);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void release(struct mk_reflector *reflector)
{
	seen_free(reflector->seen);
	decoder_free(reflector->decoder);
	splitter_free(reflector->splitter);
	free(reflector->continue_);
}

struct mk_reflector *mk_reflector_start(uv_loop_t *loop, struct mk_http *http,
					const struct mk_resource *resource,
					const struct mk_reflector_timing *timing,
					const struct mk_reflector_sink *sink, struct mk_error *err)
{
	struct mk_reflector *reflector = calloc(1, sizeof(*reflector));

	if (reflector) {
		reflector->seen = seen_new(!sink->each);
		reflector->decoder = decoder_new(resource->unused, resource->kept);
	}
	if (!reflector || !reflector->seen || !reflector->decoder) {
		if (reflector)
			release(reflector);
		free(reflector);
		mk_error_errno(err, ENOMEM, "%s", resource->name);
		return NULL;
	}
	reflector->loop = loop;
	reflector->http = http;
	reflector->resource = resource;
	reflector->timing = *timing;
	reflector->sink = *sink;
	reflector->backoff.min_ms = timing->backoff_min_ms;
	reflector->backoff.max_ms = timing->backoff_max_ms;
	reflector->denied.min_ms = timing->backoff_min_ms;
	reflector->denied.max_ms = timing->absent_ms;
	reflector->contact_ms = uv_now(loop);
	uv_timer_init(loop, &reflector->timer);
	reflector->timer.data = reflector;
	ask_after(reflector, 0);
	return reflector;
}

void mk_reflector_stop(struct mk_reflector *reflector)
{
	if (!reflector)
		return;
	mk_http_cancel(reflector->transfer);
	release(reflector);
	mk_timer_free(&reflector->timer);
}

void mk_reflector_withdraw(struct mk_reflector *reflector)
{
	if (!reflector)
		return;
	seen_begin(reflector->seen);
	reflector_remove_unseen(reflector);
	mk_reflector_stop(reflector);
}
