/* SPDX-License-Identifier: Apache-2.0 */
/* test/bpf/pieces.h - packets in fragments through the datapath, in any order. What it puts back onto the
 * device arrives at the loopback device of a network namespace of our own, is caught there and sent
 * again by the same hook. */
#ifndef MK_TEST_PIECES_H
#define MK_TEST_PIECES_H

#include "bpf/fixture.h"

#define PIECES_MAX  24
#define A_MINUTE_NS 60000000000ul

struct pieces {
	struct frame piece[PIECES_MAX];
	int count;
};

/* Unchecked fixture, after fixture_load(). */
void pieces_load(void);

/* Cut @whole's layer 4 at these offsets, which end with 0. */
struct pieces pieces_cut(const struct frame *whole, const size_t *at);

/* What waits for more: send @in by @hook, expect that it is held or comes in again, and catch what does. */
struct pieces pieces_caught(const char *name, enum mk_hook hook, const struct frame *in);

/* Send the pieces in the order of @order (a string of digits; each may be there more than once or not at
 * all), what comes in again, too. Those that came out, in the order in which they did; each has to go @to. */
struct pieces pieces_send(const char *name, enum mk_hook hook, const struct pieces *pieces,
			  const char *order, enum where to);

/* The packet that they are the pieces of: all of it, with right checksums. */
struct frame pieces_join(const char *name, const struct pieces *pieces);

/* Time goes by, for what is held and what is known of its packet. */
void pieces_wait(uint64_t ns);

unsigned pieces_held(void); /* fragments that wait */
void pieces_forget(void); /* all, and what is known of their packets */

/* Others' fragments in all slots. */
void pieces_fill_slots(uint64_t for_ns);

#endif
