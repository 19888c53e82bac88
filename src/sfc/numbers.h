/* SPDX-License-Identifier: Apache-2.0 */
/* src/sfc/numbers.h - numbers for things that a hash identifies: a number is a key of a table. */
#ifndef MK_SFC_NUMBERS_H
#define MK_SFC_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/index.h"

struct number {
	struct mk_index_link link;
	uint64_t hash; /* 0: the number is free */
	uint64_t gone_ns; /* since when nothing has it, CLOCK_MONOTONIC; 0: it is in use */
	bool seen; /* since numbers_begin() */
};

struct numbers {
	struct number *of; /* by number; 0 is none */
	size_t room;
	size_t used; /* above the highest number that was ever given */
	size_t free; /* no number below this one is free */
	size_t gone; /* how many */
	struct mk_index index;
};

/* Returns -ENOMEM if memory does not suffice. */
int numbers_init(struct numbers *numbers, size_t room);
void numbers_release(struct numbers *numbers);

/* Return the number of @hash; 0: none. */
uint16_t numbers_find(const struct numbers *numbers, uint64_t hash);
/* Give @hash the number @wanted. Returns false if that number or that hash is taken. */
bool numbers_put(struct numbers *numbers, uint16_t wanted, uint64_t hash);

/* One look at all things: begin, take the number of each, end. Those that were not seen are gone
 * since @now_ns. A thing that comes back takes its number again. */
void numbers_begin(struct numbers *numbers);
/* 0: all numbers are taken. */
uint16_t numbers_take(struct numbers *numbers, uint64_t hash);
void numbers_end(struct numbers *numbers, uint64_t now_ns);
void numbers_free(struct numbers *numbers, uint16_t number);

#endif
