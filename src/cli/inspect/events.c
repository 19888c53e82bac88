// SPDX-License-Identifier: Apache-2.0
/* Follows the events of drops and monitor, until a signal ends it. */

#include <signal.h>

#include "base/time.h"
#include "cli/inspect/view_internal.h"

static volatile int stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

void events_stop(void)
{
	stop = 1;
}

const char *events_name(struct mk_events *events, uint64_t time_ns, const struct mk_addr *addr,
			char *buf)
{
	struct mk_view fresh;
	struct mk_route route;

	if (time_ns - events->read_ns > MK_NS_PER_S && !mk_view_pod(&events->view, addr) &&
	    mk_view_route(&events->view, addr, &route) && route.type == MK_ROUTE_PODS) {
		events->read_ns = time_ns;
		if (view_open(&fresh, events->options, events->family, NULL) == 0) {
			view_release(&events->view);
			events->view = fresh;
		} else {
			view_release(&fresh);
		}
	}
	return view_who(&events->view, addr, buf);
}

void events_release(struct mk_events *events)
{
	mk_cli_policies_close(&events->policies);
	view_release(&events->view);
}

int events_follow(const struct mk_cli_options *options, struct mk_monitor_source *sources,
		  size_t count, struct mk_monitor_reader *reader, struct mk_error *err)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	action.sa_handler =
		SIG_IGN; /* the reader may go away: end as usual, with the chain restored */
	sigaction(SIGPIPE, &action, NULL);
	return mk_monitor_follow(sources, count, options->state_dir, reader, &stop, err);
}
