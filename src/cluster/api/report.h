/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/api/report.h - what the node reports about itself. The Node's condition
 * NetworkUnavailable keeps pods away until it is False. Events say what an operator must know. Both
 * are sent when the API server is reachable; nothing waits for them. */
#ifndef MK_CLUSTER_API_REPORT_H
#define MK_CLUSTER_API_REPORT_H

#include <json-c/json.h>
#include <stdbool.h>
#include <uv.h>

#include "base/error.h"
#include "cluster/api/http.h"

struct mk_report;

/* @http must live longer. NULL: error. */
mk_must_check struct mk_report *mk_report_new(uv_loop_t *loop, struct mk_http *http,
					      const char *node_name, uint64_t event_again_ms,
					      struct mk_error *err);
void mk_report_free(struct mk_report *report);

/* Keep the condition False from now on. */
void mk_report_ready(struct mk_report *report);

/* Keep MK_WIREGUARD_ANNOTATION of the Node so from now on. Empty: it stays as it is. */
void mk_report_wireguard(struct mk_report *report, const char *text);

/* The API server's current Node of this node: its condition may have been set again, or the Node
 * may have been created again. */
void mk_report_node(struct mk_report *report, json_object *node);

/* The object that an Event is about. The texts belong to the caller. */
struct mk_report_object {
	const char *api_version, *kind, *namespace_, *name, *uid;
};

/* @about NULL: this Node. @reason is one word in CamelCase, @message a sentence. A repetition
 * increases the Event's count, at most once per event_again_ms (0: a minute). Only a few dozen
 * different Events are kept; the oldest is forgotten. */
void mk_report_event(struct mk_report *report, const struct mk_report_object *about, bool warning,
		     const char *reason, const char *message);

#endif
