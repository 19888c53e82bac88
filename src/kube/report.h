/* SPDX-License-Identifier: Apache-2.0 */
/* src/kube/report.h - what the node says about itself: the condition NetworkUnavailable of its Node,
 * which keeps pods away until it is False, and Events, for what an operator must know. Both are
 * sent when the API server can be reached; neither is ever waited for. */
#ifndef MK_KUBE_REPORT_H
#define MK_KUBE_REPORT_H

#include <json-c/json.h>
#include <stdbool.h>
#include <uv.h>

#include "base/error.h"
#include "kube/http.h"

struct mk_report;

/* NULL: error. @http has to live longer. */
mk_must_check struct mk_report *mk_report_new(uv_loop_t *loop, struct mk_http *http,
					      const char *node_name, uint64_t event_again_ms,
					      struct mk_error *err);
void mk_report_free(struct mk_report *report);

/* From now on the condition is to be False. */
void mk_report_ready(struct mk_report *report);

/* The node's own Node, as the API server has it now: somebody may have set the condition again, or
 * made the Node anew. */
void mk_report_node(struct mk_report *report, json_object *node);

/* @reason is one word in CamelCase, @message a sentence. The same again counts up the same Event, at
 * most once in event_again_ms (0: a minute); of more than a few dozen different ones the oldest are forgotten. */
void mk_report_event(struct mk_report *report, bool warning, const char *reason,
		     const char *message);

#endif
