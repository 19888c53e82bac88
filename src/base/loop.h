/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/loop.h - how long a turn of the event loop takes, and the end of timers. A turn is
 * everything between two waits; during a turn /livez gets no answer. The agent names the running
 * part of a turn, so that the log can say what took long. Loop thread only. */
#ifndef MK_BASE_LOOP_H
#define MK_BASE_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"

#define MK_LOOP_LONG_NS 50000000ULL /* longer turns are logged */

struct mk_loop_stats {
	uint64_t turns, long_turns;
	uint64_t longest_ns;
	uint64_t most_cpu_ns; /* of one turn: its length if the CPUs were idle */
};

/* Call before the first handle of @loop. */
mk_must_check int mk_loop_measure(uv_loop_t *loop, struct mk_error *err);
/* This turn now runs @part, a literal; NULL: that part has ended. */
void mk_loop_part(const char *part);
const struct mk_loop_stats *mk_loop_stats(void);

/* Stop and close @timer, which is a member of the object that its `data` names. free() that object
 * after a close callback of the loop. */
void mk_timer_free(uv_timer_t *timer);

#endif
