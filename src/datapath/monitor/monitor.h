/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/monitor/monitor.h - packets, told of as they go by: program `watch` takes the router's place in
 * the chain, and all packets come by there, while somebody reads what it tells (abi.h, "flows,
 * watched"). */
#ifndef MK_DATAPATH_MONITOR_MONITOR_H
#define MK_DATAPATH_MONITOR_MONITOR_H

#include <stdint.h>

#include "monokube/abi.h"
#include "base/error.h"

struct mk_watcher {
	struct mk_watch_settings settings; /* until_ns and since_s are mk_watch_follow()'s */
	/* NULL: of these nothing is asked, and nothing of them costs anything */
	void (*flow)(void *ctx, const struct mk_flow_event *event);
	void (*drop)(void *ctx, const struct mk_drop_event *event);
	void *ctx;
	uint64_t left_out; /* afterwards: flow events beyond what may be told */
};

/* Pass events to @watcher until *@stop is set, by a signal handler or by one of its functions. One
 * reader at a time, of drops too (-EBUSY): a ring buffer has one end. */
mk_must_check int mk_watch_follow(const char *bpf_dir, const char *state_dir,
				  struct mk_watcher *watcher, const volatile int *stop,
				  struct mk_error *err);

/* A reader that was killed leaves the programs telling nobody of drops and flows: end that. Returns
 * 1 if it was so. */
mk_must_check int mk_watch_reset_stale(const char *bpf_dir, const char *state_dir,
				       struct mk_error *err);

#endif
