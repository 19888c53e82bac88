/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/api/backoff.h - how long to wait before asking again. Thousands of nodes lose one API
 * server at once: their waits must differ, or they come back as one. */
#ifndef MK_CLUSTER_API_BACKOFF_H
#define MK_CLUSTER_API_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

struct mk_backoff {
	uint64_t min_ms, max_ms; /* the first wait, and the longest */
	uint64_t next_ms; /* 0: start from min_ms */
};

/* Return the next wait. Its upper bound doubles up to max_ms; @random (64 evenly spread bits)
 * chooses between half of the bound and all of it. If the server asks for @retry_after_s (0:
 * nothing), wait at least that long, plus up to a fifth. The limit is ten minutes, because the
 * server's value may be a mistake. */
uint64_t mk_backoff_next(struct mk_backoff *backoff, uint64_t retry_after_s, uint64_t random);

/* Has there been a failure since the last success? */
static inline bool mk_backoff_waits(const struct mk_backoff *backoff)
{
	return backoff->next_ms != 0;
}

/* A success: start again from min_ms. */
void mk_backoff_reset(struct mk_backoff *backoff);

/* Return 64 random bits. */
uint64_t mk_backoff_random(void);

#endif
