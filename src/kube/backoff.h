/* SPDX-License-Identifier: Apache-2.0 */
/* src/kube/backoff.h - how long to wait before asking again. Thousands of nodes see one API server
 * go: what they wait has to differ, or they come back as one. */
#ifndef MK_KUBE_BACKOFF_H
#define MK_KUBE_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

struct mk_backoff {
	uint64_t min_ms, max_ms; /* the first wait, and the longest */
	uint64_t next_ms; /* 0: start from min_ms */
};

/* Doubles up to max_ms; the wait is between half of that and all of it, as @random says (any value
 * of 64 bits, evenly spread). A server that says @retry_after_s (0: nothing) is waited for at least
 * so long, with up to a fifth on top; at most ten minutes, because it may be a mistake. */
uint64_t mk_backoff_next(struct mk_backoff *backoff, uint64_t retry_after_s, uint64_t random);

/* Has there been a failure since it worked? */
static inline bool mk_backoff_waits(const struct mk_backoff *backoff)
{
	return backoff->next_ms != 0;
}

/* It worked. */
void mk_backoff_reset(struct mk_backoff *backoff);

/* 64 random bits. */
uint64_t mk_backoff_random(void);

#endif
