/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/events.h - what `drops --follow` and `monitor` have in common: events one by one until a
 * signal ends it, told with the names of the moment. */
#ifndef MK_CLI_EVENTS_H
#define MK_CLI_EVENTS_H

#include "cli/view.h"
#include "datapath/watch.h"

struct mk_events {
	const struct mk_cli_options *options;
	struct mk_view view;
	uint64_t read_ns; /* when, in the events' time */
};

/* What an address is (mk_view_who()), into @buf of MK_VIEW_WHO_BYTES. Pods come and go: names are
 * read anew for an address that is not known, once a second at most. */
const char *mk_events_name(struct mk_events *events, uint64_t time_ns, const struct mk_addr *addr,
			   char *buf);

/* Pass events to @watcher until SIGINT, SIGTERM or mk_events_stop(). events->view is open. */
mk_must_check int mk_events_follow(struct mk_events *events, struct mk_watcher *watcher,
				   struct mk_error *err);
void mk_events_stop(void);

#endif
