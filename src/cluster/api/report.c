// SPDX-License-Identifier: Apache-2.0
#include "cluster/api/report_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"
#include "base/time.h"
#include "cluster/model/peer.h"

#define CONDITION	  "NetworkUnavailable"
#define QUIET_MS	  600000 /* set this long without a dispute: reset the backoff */
#define CONDITION_MESSAGE "monokube: the datapath of this node is ready"

static void patch_condition(uv_timer_t *timer);
static void begin_patch(struct mk_report *report);

void sender_again(struct mk_sender *sender, uint64_t retry_after_s, uv_timer_cb callback)
{
	uv_timer_start(&sender->timer, callback,
		       mk_backoff_next(&sender->backoff, retry_after_s, mk_backoff_random()), 0);
}

static void condition_done(void *ctx, const struct mk_answer *answer)
{
	struct mk_report *report = ctx;

	report->condition.exchange = NULL;
	if (answer->status == 200) {
		report->confirmed = !report->is_stale;
		report->refused = false;
		if (uv_now(report->loop) - report->confirmed_ms > QUIET_MS)
			mk_backoff_reset(&report->condition.backoff);
		report->confirmed_ms = uv_now(report->loop);
		mk_log_info("node %s: condition " CONDITION " is False", report->node_name);
		begin_patch(report);
		return;
	}
	if (answer->status == 404 && !report->is_stale) {
		report->no_node = true;
		mk_log_info("node %s: no Node yet to set condition " CONDITION " on",
			    report->node_name);
		return;
	}
	if (answer->status == 401 || answer->status == 403) {
		if (!report->refused)
			mk_log_warn(
				"node %s: not allowed to set condition " CONDITION
				" (HTTP status %d): does the ClusterRole allow patch on nodes/status?",
				report->node_name, answer->status);
		report->refused = true;
	}
	sender_again(&report->condition, answer->retry_after_s, patch_condition);
}

/* A patch of the status changes annotations, too. */
static char *condition_body(const struct mk_report *report)
{
	char now[MK_TIME_STRLEN], metadata[192] = "";
	char *body;

	mk_time_format(time(NULL) * MK_NS_PER_S, now);
	if (*report->wireguard)
		snprintf(metadata, sizeof(metadata),
			 "\"metadata\":{\"annotations\":{\"" MK_WIREGUARD_ANNOTATION "\":\"%s\"}},",
			 report->wireguard);
	if (asprintf(
		    &body,
		    "{%s\"status\":{\"conditions\":[{\"type\":\"" CONDITION
		    "\",\"status\":\"False\",\"reason\":\"MonokubeIsUp\",\"message\":\"%s\",\"lastHeartbeatTime\":\"%s\",\"lastTransitionTime\":\"%s\"}]}}",
		    metadata, CONDITION_MESSAGE, now, now) < 0)
		return NULL;
	return body;
}

static void patch_condition(uv_timer_t *timer)
{
	struct mk_report *report = ((struct mk_sender *)timer->data)->report;
	cleanup_free char *target = NULL, *body = condition_body(report);
	struct mk_exchange_request request = {
		.method = "PATCH",
		.content_type = "application/strategic-merge-patch+json",
		.body = body,
		.silence_ms = MK_REPORT_SILENCE_MS,
		.done = condition_done,
		.ctx = report,
	};
	struct mk_error err;

	if (!report->wanted || report->confirmed || report->no_node || report->condition.exchange)
		return;
	if (asprintf(&target, "/api/v1/nodes/%s/status?fieldManager=monokube", report->node_name) <
	    0)
		target = NULL;
	request.target = target;
	report->is_stale = false;
	if (target && body)
		report->condition.exchange = mk_exchange_start(report->http, &request, &err);
	if (!report->condition.exchange)
		sender_again(&report->condition, 0, patch_condition);
}

/* If another component sets it back each time (a route controller may), the pauses grow. */
static void begin_patch(struct mk_report *report)
{
	if (report->wanted && !report->confirmed && !report->condition.exchange &&
	    !uv_is_active((uv_handle_t *)&report->condition.timer))
		sender_again(&report->condition, 0, patch_condition);
}

void mk_report_ready(struct mk_report *report)
{
	if (report->wanted)
		return;
	report->wanted = true;
	uv_timer_start(&report->condition.timer, patch_condition, 0, 0);
}

static bool condition_is_false(json_object *node)
{
	json_object *condition = mk_json_condition(mk_json_member(node, "status"), CONDITION);

	return strcmp(mk_json_text(condition, "status"), "False") == 0;
}

static bool has_wireguard(const struct mk_report *report, json_object *node)
{
	json_object *metadata = mk_json_member(node, "metadata");
	json_object *annotations = mk_json_member(metadata, "annotations");

	return !*report->wireguard ||
	       strcmp(mk_json_text(annotations, MK_WIREGUARD_ANNOTATION), report->wireguard) == 0;
}

void mk_report_wireguard(struct mk_report *report, const char *text)
{
	if (strcmp(report->wireguard, text) == 0)
		return;
	snprintf(report->wireguard, sizeof(report->wireguard), "%s", text);
	report->confirmed = false;
	report->is_stale = true;
	begin_patch(report);
}

void mk_report_node(struct mk_report *report, json_object *node)
{
	report->no_node = false;
	report->confirmed = condition_is_false(node) && has_wireguard(report, node);
	report->is_stale = !report->confirmed;
	begin_patch(report);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void closed(uv_handle_t *timer)
{
	struct mk_report *report = ((struct mk_sender *)timer->data)->report;

	if (--report->handles > 0)
		return;
	free(report->node_name);
	free(report);
}

static void sender_init(struct mk_sender *sender, struct mk_report *report)
{
	sender->report = report;
	sender->backoff = (struct mk_backoff){ .min_ms = 1000, .max_ms = 300000 };
	uv_timer_init(report->loop, &sender->timer);
	sender->timer.data = sender;
	report->handles++;
}

struct mk_report *mk_report_new(uv_loop_t *loop, struct mk_http *http, const char *node_name,
				uint64_t event_again_ms, struct mk_error *err)
{
	struct mk_report *report = calloc(1, sizeof(*report));

	if (!report || !(report->node_name = strdup(node_name))) {
		free(report);
		mk_error_errno(err, ENOMEM, "reports");
		return NULL;
	}
	report->loop = loop;
	report->http = http;
	report->event_again_ms = event_again_ms ? event_again_ms : 60000;
	sender_init(&report->condition, report);
	sender_init(&report->events, report);
	return report;
}

static void sender_close(struct mk_sender *sender)
{
	mk_exchange_cancel(sender->exchange);
	uv_close((uv_handle_t *)&sender->timer, closed);
}

void mk_report_free(struct mk_report *report)
{
	if (!report)
		return;
	report_events_free(report);
	sender_close(&report->condition);
	sender_close(&report->events);
}
