/* SPDX-License-Identifier: Apache-2.0 */
/* src/kube/report_internal.h - the two halves of a report: report.c has the condition, and
 * report_event.c the Events. */
#ifndef MK_KUBE_REPORT_INTERNAL_H
#define MK_KUBE_REPORT_INTERNAL_H

#include <time.h>

#include "kube/backoff.h"
#include "kube/report.h"

#define MK_REPORT_SILENCE_MS 75000
#define MK_TIME_CHARS	     32

/* Something that is sent, one request at a time, with a pause after failures. */
struct mk_sender {
	struct mk_report *report;
	struct mk_http_transfer *transfer;
	uv_timer_t timer;
	struct mk_backoff backoff;
};

struct mk_event;

struct mk_report {
	uv_loop_t *loop;
	struct mk_http *http;
	char *node_name;
	unsigned int handles; /* libuv handles that still live */

	struct mk_sender condition;
	bool wanted; /* the datapath is ready */
	bool confirmed; /* the server has the condition so */
	uint64_t confirmed_ms; /* when it last was set */
	bool no_node; /* there is no Node to set it on: wait until one is seen */
	bool refused; /* we may not: said once */

	struct mk_sender events;
	struct mk_event *list, *sending;
	size_t event_count;
	uint64_t event_again_ms;
	bool events_refused;
};

void mk_report_events_free(struct mk_report *report);

/* Try again after a failure, through the sender's timer. */
void mk_sender_again(struct mk_sender *sender, const struct mk_http_result *result,
		     uv_timer_cb callback);

/* RFC 3339, UTC. */
void mk_report_time(time_t when, char text[MK_TIME_CHARS]);

#endif
