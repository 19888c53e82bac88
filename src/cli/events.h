/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/events.h - what `drops --follow` and `monitor` share: events one by one until a signal
 * ends it, printed with the current names. */
#ifndef MK_CLI_EVENTS_H
#define MK_CLI_EVENTS_H

#include "cli/view.h"
#include "datapath/watch.h"

struct mk_events {
	const struct mk_cli_options *options;
	struct mk_view view;
	uint64_t read_ns; /* when @view was read, in the events' time */
};

/* Describe an address (mk_view_who()) in @buf of MK_VIEW_WHO_BYTES. Pods come and go: for an
 * unknown address names are read again, at most once a second. */
const char *mk_events_name(struct mk_events *events, uint64_t time_ns, const struct mk_addr *addr,
			   char *buf);

/* Pass events to @watcher until SIGINT, SIGTERM or mk_events_stop(). events->view is open. */
mk_must_check int mk_events_follow(struct mk_events *events, struct mk_watcher *watcher,
				   struct mk_error *err);
void mk_events_stop(void);

#endif
