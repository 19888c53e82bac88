/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/inspect/events.h - what `drops --follow` and `monitor` share: events one by one until a
 * signal ends it, printed with the current names. */
#ifndef MK_CLI_INSPECT_EVENTS_H
#define MK_CLI_INSPECT_EVENTS_H

#include "cli/inspect/view.h"
#include "cli/inspect/view.h"
#include "datapath/monitor/monitor.h"

struct mk_events {
	const struct mk_cli_options *options;
	struct mk_view view;
	uint64_t read_ns; /* when @view was read, in the events' time */
};

/* Describe an address (view_who()) in @buf of MK_VIEW_WHO_BYTES. Pods come and go: for an
 * unknown address names are read again, at most once a second. */
const char *events_name(struct mk_events *events, uint64_t time_ns, const struct mk_addr *addr,
			char *buf);

/* Pass events to @reader until SIGINT, SIGTERM or events_stop(). events->view is open. */
mk_must_check int events_follow(struct mk_events *events, struct mk_monitor_reader *reader,
				struct mk_error *err);
void events_stop(void);

#endif
