/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/loop.h - how long a turn of the event loop takes. A turn is everything between two waits:
 * while it lasts nobody gets an answer of /livez. The agent says which part of a turn runs, so that
 * the log and the metrics can name what took long. Loop thread only. */
#ifndef MK_AGENT_LOOP_H
#define MK_AGENT_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"

#define MK_LOOP_LONG_NS 50000000ULL /* a turn that takes longer is logged */

struct mk_loop_stats {
	uint64_t turns, long_turns;
	uint64_t longest_ns;
	uint64_t most_cpu_ns; /* of one turn: what a node with idle CPUs needs */
};

/* Before the first handle of @loop. */
mk_must_check int mk_loop_measure(uv_loop_t *loop, struct mk_error *err);
/* From now on this turn is about @part, a literal; NULL: that part has ended. */
void mk_loop_part(const char *part);
const struct mk_loop_stats *mk_loop_stats(void);

/* Count a turn that took @busy_ns. Was it a long one? Pure. */
bool mk_loop_account(struct mk_loop_stats *stats, uint64_t busy_ns);

#endif
