/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/api/report_internal.h - shared by report.c, which sets the condition, and
 * report_event.c, which sends the Events. */
#ifndef MK_CLUSTER_API_REPORT_INTERNAL_H
#define MK_CLUSTER_API_REPORT_INTERNAL_H

#include <time.h>

#include "cluster/api/backoff.h"
#include "cluster/api/exchange.h"
#include "cluster/api/report.h"

#define MK_REPORT_SILENCE_MS 75000

/* A sender: one request at a time, with a pause after failures. */
struct mk_sender {
	struct mk_report *report;
	struct mk_exchange *exchange;
	uv_timer_t timer;
	struct mk_backoff backoff;
};

struct mk_event;

struct mk_report {
	uv_loop_t *loop;
	struct mk_http *http;
	char *node_name;
	unsigned int handles; /* open libuv handles */

	struct mk_sender condition;
	bool wanted; /* the datapath is ready */
	char wireguard[64]; /* MK_WIREGUARD_ANNOTATION of the Node; empty: it stays as it is */
	bool confirmed; /* the server has the condition set */
	bool is_stale; /* since the patch was sent, the Node was seen without what it sets */
	uint64_t confirmed_ms; /* when it was last set */
	bool no_node; /* no Node to set it on: wait until one is seen */
	bool refused; /* access denied: logged once */

	struct mk_sender events;
	struct mk_event *list, *sending;
	size_t event_count;
	uint64_t event_again_ms;
	bool events_refused;
};

void report_events_free(struct mk_report *report);

/* Send again after a pause of at least @retry_after_s, by the sender's timer. */
void sender_again(struct mk_sender *sender, uint64_t retry_after_s, uv_timer_cb callback);

#endif
