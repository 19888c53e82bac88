/* SPDX-License-Identifier: Apache-2.0 */
/* src/kube/clock.h - the API server's clock, as the Date of its answers says (RFC 9110, 6.6.1), beside
 * this node's. What is kept does not change when somebody sets this node's clock, so that what it is
 * off by is right at once. The agent writes it down for `monokube check`, which asks no network. */
#ifndef MK_KUBE_CLOCK_H
#define MK_KUBE_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Beyond this certificates and tokens are refused that were made just now, and times in logs do not
 * fit together. */
#define MK_API_CLOCK_LIMIT_MS 10000

/* Its file's name in the state directory. */
#define MK_API_CLOCK_FILE "api.clock"

/* The server's time since 1970 less this node's CLOCK_BOOTTIME is between these. */
struct mk_api_clock {
	bool known;
	int64_t earliest_ms, latest_ms;
};

/* This node's clocks. */
struct mk_own_clock {
	int64_t unix_ms; /* CLOCK_REALTIME */
	int64_t boot_ms; /* CLOCK_BOOTTIME */
};
struct mk_own_clock mk_own_clock_now(void);

/* A line of the head of an answer that took @took_ms to come; what says no Date, and an answer that
 * was too long under way to tell, change nothing. Returns whether it was taken. */
bool mk_api_clock_see(struct mk_api_clock *clock, const char *line, size_t size, uint64_t took_ms,
		      const struct mk_own_clock *now);

/* By how much the server's clock is ahead of this node's, at least; negative: behind. 0: they may be
 * the same, or nothing is known. */
int64_t mk_api_clock_ahead_ms(const struct mk_api_clock *clock, const struct mk_own_clock *now);

bool mk_api_clock_is_off(const struct mk_api_clock *clock, const struct mk_own_clock *now);

/* Replace the file of @state_dir, if it says something that differs by a second or more; of a clock
 * that is not known, remove it. */
mk_must_check int mk_api_clock_write(const char *state_dir, const struct mk_api_clock *clock,
				     struct mk_error *err);
/* No file, or one from before the node was booted: not known. */
mk_must_check int mk_api_clock_read(const char *state_dir, struct mk_api_clock *clock,
				    struct mk_error *err);

#endif
