// SPDX-License-Identifier: Apache-2.0
#include "cluster/api/backoff.h"

#include <sys/random.h>

#include "base/time.h"

#define RETRY_AFTER_MAX_S 600

/* Map @random evenly to 0..@most. */
static uint64_t scale(uint64_t random, uint64_t most)
{
	return (uint64_t)(((unsigned __int128)random * (most + 1)) >> 64);
}

uint64_t mk_backoff_next(struct mk_backoff *backoff, uint64_t retry_after_s, uint64_t random)
{
	uint64_t base = backoff->next_ms ? backoff->next_ms : backoff->min_ms;
	uint64_t wait, asked;

	if (base > backoff->max_ms)
		base = backoff->max_ms;
	backoff->next_ms = base > backoff->max_ms / 2 ? backoff->max_ms : base * 2;
	wait = base - base / 2 + scale(random, base / 2);
	if (retry_after_s > RETRY_AFTER_MAX_S)
		retry_after_s = RETRY_AFTER_MAX_S;
	asked = retry_after_s * 1000;
	if (wait < asked)
		wait = asked + scale(random, asked / 5);
	return wait;
}

void mk_backoff_reset(struct mk_backoff *backoff)
{
	backoff->next_ms = 0;
}

uint64_t mk_backoff_random(void)
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) == sizeof(random))
		return random;
	return mk_time_monotonic_ns() *
	       0x9e3779b97f4a7c15; /* early in boot: better than no jitter */
}
