// SPDX-License-Identifier: Apache-2.0
/* Events of the Node, written to the API server. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"
#include "base/time.h"
#include "cluster/api/report_internal.h"

#define EVENTS_MAX    32
#define NAME_CHARS    254
#define MESSAGE_CHARS 1024 /* the server's limit */

struct mk_event {
	bool warning;
	char *about; /* involvedObject, as JSON; it has the namespace of the Event */
	char *namespace_;
	char *reason, *message;
	char name[NAME_CHARS];
	bool created; /* the server has it */
	unsigned int count, sent; /* occurrences, and those the server knows */
	unsigned int sending;
	time_t first, last;
	uint64_t sent_ms;
	struct mk_event *prev, *next;
};

static void send_next(uv_timer_t *timer);

static void event_release(struct mk_event *event)
{
	free(event->about);
	free(event->namespace_);
	free(event->reason);
	free(event->message);
	free(event);
}

static void event_free(struct mk_report *report, struct mk_event *event)
{
	DL_DELETE(report->list, event);
	report->event_count--;
	event_release(event);
}

void report_events_free(struct mk_report *report)
{
	while (report->list)
		event_free(report, report->list);
}

/* Choose a name that is unique on this node: an Event outlives the process that wrote it. */
static void name_event(const struct mk_report *report, struct mk_event *event)
{
	snprintf(event->name, sizeof(event->name), "%.200s.%016" PRIx64, report->node_name,
		 mk_backoff_random());
}

/* ---- bodies ---------------------------------------------------------------------------------- */

static void add_time(json_object *body, const char *key, time_t when)
{
	char text[MK_TIME_STRLEN];

	mk_put_text(body, key, mk_time_format(when * MK_NS_PER_S, text));
}

static json_object *body_of_count(const struct mk_event *event)
{
	json_object *body = json_object_new_object();

	mk_put_number(body, "count", event->count);
	add_time(body, "lastTimestamp", event->last);
	return body;
}

/* A Node has no namespace, so its Events are in `default`. The kubelet uses the Node's name as uid,
 * by which `kubectl describe node` finds Events. */
static struct mk_report_object own_node(const struct mk_report *report)
{
	return (struct mk_report_object){
		.kind = "Node",
		.name = report->node_name,
		.uid = report->node_name,
	};
}

/* Returns the text of an involvedObject, which the caller frees; NULL: out of memory. */
static char *involved_text(const struct mk_report_object *about)
{
	json_object *involved = json_object_new_object();
	char *text;

	if (about->api_version)
		mk_put_text(involved, "apiVersion", about->api_version);
	mk_put_text(involved, "kind", about->kind);
	if (about->namespace_)
		mk_put_text(involved, "namespace", about->namespace_);
	mk_put_text(involved, "name", about->name);
	mk_put_text(involved, "uid", about->uid);
	text = strdup(mk_json_line(involved));
	json_object_put(involved);
	return text;
}

static json_object *body_of_event(const struct mk_report *report, const struct mk_event *event)
{
	json_object *body = body_of_count(event), *metadata = json_object_new_object();
	json_object *source = json_object_new_object();

	mk_put_text(metadata, "name", event->name);
	mk_put_text(metadata, "namespace", event->namespace_);
	mk_put_text(source, "component", "monokube");
	mk_put_text(source, "host", report->node_name);
	mk_put_text(body, "apiVersion", "v1");
	mk_put_text(body, "kind", "Event");
	json_object_object_add(body, "metadata", metadata);
	json_object_object_add(body, "involvedObject", json_tokener_parse(event->about));
	json_object_object_add(body, "source", source);
	mk_put_text(body, "type", event->warning ? "Warning" : "Normal");
	mk_put_text(body, "reason", event->reason);
	mk_put_text(body, "message", event->message);
	add_time(body, "firstTimestamp", event->first);
	mk_put_text(body, "reportingComponent", "monokube");
	mk_put_text(body, "reportingInstance", report->node_name);
	return body;
}

/* ---- sending --------------------------------------------------------------------------------- */

static void plan(struct mk_report *report, uint64_t wait_ms)
{
	if (!report->events.exchange)
		uv_timer_start(&report->events.timer, send_next, wait_ms, 0);
}

static void event_done(void *ctx, const struct mk_answer *answer)
{
	struct mk_report *report = ctx;
	struct mk_event *event = mk_steal_ptr(report->sending);

	report->events.exchange = NULL;
	if (answer->status == 200 || answer->status == 201) {
		event->created = true;
		event->sent = event->sending;
		event->sent_ms = uv_now(report->loop);
		mk_backoff_reset(&report->events.backoff);
		plan(report, 0);
		return;
	}
	if (answer->status == 404 && event->created) { /* the server forgets it after an hour */
		event->created = false;
	} else if (answer->status == 409) {
		name_event(report, event);
	} else if (answer->status >= 400 && !mk_answer_is_temporary(answer)) {
		if (!report->events_refused)
			mk_log_warn(
				"node %s: the API server refuses monokube's Events (HTTP status %d): does the ClusterRole allow create and patch on events?",
				report->node_name, answer->status);
		report->events_refused = true;
		event->sent = event->sending;
	}
	sender_again(&report->events, answer->retry_after_s, send_next);
}

static void send_event(struct mk_report *report, struct mk_event *event)
{
	cleanup_json json_object *body =
		event->created ? body_of_count(event) : body_of_event(report, event);
	char target[sizeof("/api/v1/namespaces//events/") + 2 * NAME_CHARS];
	struct mk_exchange_request request = {
		.method = event->created ? "PATCH" : "POST",
		.target = target,
		.content_type =
			event->created ? "application/merge-patch+json" : "application/json",
		.body = mk_json_line(body),
		.silence_ms = MK_REPORT_SILENCE_MS,
		.done = event_done,
		.ctx = report,
	};
	struct mk_error err;

	snprintf(target, sizeof(target), "/api/v1/namespaces/%s/events%s%s", event->namespace_,
		 event->created ? "/" : "", event->created ? event->name : "");
	event->sending = event->count;
	report->sending = event;
	report->events.exchange = mk_exchange_start(report->http, &request, &err);
	if (!report->events.exchange)
		sender_again(&report->events, 0, send_next);
}

/* Return the next Event due. If none is due, return NULL with the time in *@wait_ms,
 * UINT64_MAX: none waits. */
static struct mk_event *due(const struct mk_report *report, uint64_t *wait_ms)
{
	uint64_t now = uv_now(report->loop);
	struct mk_event *event;

	*wait_ms = UINT64_MAX;
	DL_FOREACH(report->list, event) {
		uint64_t at = event->sent ? event->sent_ms + report->event_again_ms : 0;

		if (event->count == event->sent)
			continue;
		if (at <= now)
			return event;
		if (at - now < *wait_ms)
			*wait_ms = at - now;
	}
	return NULL;
}

static void send_next(uv_timer_t *timer)
{
	struct mk_report *report = ((struct mk_sender *)timer->data)->report;
	struct mk_event *event;
	uint64_t wait_ms;

	if (report->events.exchange)
		return;
	event = due(report, &wait_ms);
	if (!event && wait_ms != UINT64_MAX)
		plan(report, wait_ms);
	if (event)
		send_event(report, event);
}

/* ---- accepting Events ------------------------------------------------------------------------ */

static struct mk_event *find(struct mk_report *report, const char *about, const char *reason,
			     const char *message)
{
	struct mk_event *event;

	DL_FOREACH(report->list, event)
		if (strcmp(event->about, about) == 0 && strcmp(event->reason, reason) == 0 &&
		    strcmp(event->message, message) == 0)
			return event;
	return NULL;
}

static void forget_oldest(struct mk_report *report)
{
	struct mk_event *event = report->list;

	if (event == report->sending)
		event = event->next;
	event_free(report, event);
}

static struct mk_event *event_new(struct mk_report *report, const struct mk_report_object *about,
				  const char *reason, const char *message)
{
	struct mk_event *event = calloc(1, sizeof(*event));

	if (!event)
		return NULL;
	event->about = involved_text(about);
	event->namespace_ = strdup(about->namespace_ ?: "default");
	event->reason = strdup(reason);
	event->message = strdup(message);
	if (!event->about || !event->namespace_ || !event->reason || !event->message) {
		event_release(event);
		return NULL;
	}
	event->first = time(NULL);
	name_event(report, event);
	if (report->event_count == EVENTS_MAX)
		forget_oldest(report);
	DL_APPEND(report->list, event);
	report->event_count++;
	return event;
}

/* Returns NULL without memory. */
static struct mk_event *event_of(struct mk_report *report, const struct mk_report_object *about,
				 const char *reason, const char *message)
{
	cleanup_free char *text = involved_text(about);
	char cut[MESSAGE_CHARS];
	struct mk_event *event;

	if (!text)
		return NULL;
	snprintf(cut, sizeof(cut), "%s", message);
	event = find(report, text, reason, cut);
	return event ? event : event_new(report, about, reason, cut);
}

void mk_report_event(struct mk_report *report, const struct mk_report_object *about, bool warning,
		     const char *reason, const char *message)
{
	const struct mk_report_object node = own_node(report);
	struct mk_event *event = event_of(report, about ? about : &node, reason, message);

	if (!event)
		return; /* out of memory: drop the Event */
	event->warning = warning;
	event->count++;
	event->last = time(NULL);
	if (mk_backoff_waits(&report->events.backoff))
		return; /* the backoff is for the server, not for each Event */
	if (!uv_is_active((uv_handle_t *)&report->events.timer) || event->count == 1)
		plan(report, 0);
}
