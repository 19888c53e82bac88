/* SPDX-License-Identifier: Apache-2.0 */
/* test/bpf/pieces.h - packets in fragments through the datapath, in any order. Fragments that the
 * datapath sends back to the device arrive at the loopback device of a network namespace of our
 * own. They are caught there and sent again by the same hook. */
#ifndef MK_TEST_PIECES_H
#define MK_TEST_PIECES_H

#include "bpf/fixture.h"

#define PIECES_MAX  24
#define A_MINUTE_NS 60000000000ul

struct pieces {
	struct frame piece[PIECES_MAX];
	int count;
};

/* Unchecked fixture; it comes after fixture_load(). */
void pieces_load(void);

/* Cut @whole's layer 4 at these offsets, which end with 0. */
struct pieces pieces_cut(const struct frame *whole, const size_t *at);

/* Send @in by @hook, expect that it is held or comes in again, and catch the fragments that come in
 * again. */
struct pieces pieces_caught(const char *name, enum mk_hook hook, const struct frame *in);

/* Send the pieces in the order of @order, a string of digits, each any number of times; also send
 * what comes in again. Returns the fragments that came out, in their order; each must go @to. */
struct pieces pieces_send(const char *name, enum mk_hook hook, const struct pieces *pieces,
			  const char *order, enum where to);

/* Put the packet together from its pieces: it must be complete, with right checksums. */
struct frame pieces_join(const char *name, const struct pieces *pieces);

/* Let time pass for the held fragments and the data known of their packets. */
void pieces_wait(uint64_t ns);

unsigned pieces_held(void); /* number of held fragments */
void pieces_forget(void); /* remove all held fragments and the data of their packets */

/* Fill all slots with fragments of other packets. */
void pieces_fill_slots(uint64_t for_ns);

#endif
