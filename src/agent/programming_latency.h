/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/programming_latency.h - network programming latency: the time from the change that a
 * controller saw until the tables hold it. A trigger is kept until its Service is written. */
#ifndef MK_AGENT_PROGRAMMING_LATENCY_H
#define MK_AGENT_PROGRAMMING_LATENCY_H

#include <stdbool.h>

#include "base/histogram.h"

/* A change of endpoints that is not written yet. */
struct agent_trigger {
	int64_t unix_ns;
	struct agent_trigger *next;
	char key[]; /* of its Service */
};

struct agent_latency {
	struct mk_histogram histogram; /* in seconds, see mk_latency_init() */
	struct agent_trigger *triggers; /* newest first */
	size_t trigger_count;
	int64_t started_unix_ns;
};

/* Changes from before this call do not count. */
void agent_latency_init(struct agent_latency *latency);
/* Endpoints changed because of something at @unix_ns (0: see mk_model_listener). */
void agent_latency_triggered(struct agent_latency *latency, const char *namespace_,
			     const char *name, int64_t unix_ns);
/* Services that are no longer dirty are written. */
void agent_latency_written(struct agent_latency *latency,
			   bool (*is_dirty)(const void *ctx, const char *key), const void *ctx);
void agent_latency_forget(struct agent_latency *latency);

#endif
