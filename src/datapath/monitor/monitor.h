/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/monitor/monitor.h - report packets as they pass. While a reader is active, program
 * `monitor` replaces the router in the chain and all packets go through it (abi.h,
 * "flows that `monitor` reports"). */
#ifndef MK_DATAPATH_MONITOR_MONITOR_H
#define MK_DATAPATH_MONITOR_MONITOR_H

#include <stdbool.h>
#include <stdint.h>

#include "monokube/abi.h"
#include "base/error.h"

/* The datapath of one family. */
struct mk_monitor_source {
	const char *dir;
	struct mk_monitor_settings settings; /* mk_monitor_follow() sets until_ns and since_s */
	void *ctx; /* for the reader's functions */
};

struct mk_monitor_reader {
	/* NULL: the programs do not report these events, at no cost */
	void (*flow)(void *ctx, const struct mk_flow_event *event);
	void (*drop)(void *ctx, const struct mk_drop_event *event);
	uint64_t left_out; /* result: flow events that exceeded the rate limit */
};

/* Pass events of @sources, one or MK_FAMILIES of them, to @reader until a signal handler or one of
 * the reader's functions sets *@stop. Only one process can read the ring buffers of flows and drops
 * (otherwise -EBUSY). */
mk_must_check int mk_monitor_follow(struct mk_monitor_source *sources, size_t count,
				    const char *state_dir, struct mk_monitor_reader *reader,
				    const volatile int *stop, struct mk_error *err);

/* For a process that must not wait: pass the drops since @since_ns (CLOCK_MONOTONIC) that no reader
 * has taken, and return. From the first call on, the programs report drops. What the ring buffers
 * have no space for between two calls is lost. Returns 1 if another process reads them now. */
mk_must_check int mk_monitor_take_drops(struct mk_monitor_source *sources, size_t count,
					const char *state_dir, struct mk_monitor_reader *reader,
					uint64_t since_ns, struct mk_error *err);

/* Reset the settings that a killed reader left behind, so that programs stop reporting flows and,
 * unless @takes_drops, drops. Returns 1 if there were any. */
mk_must_check int mk_monitor_reset_stale(const char *bpf_dir, const char *state_dir,
					 bool takes_drops, struct mk_error *err);

#endif
