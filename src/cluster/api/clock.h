/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/api/clock.h - compare the API server's clock with this node's, by the Date of its
 * answers (RFC 9110, 6.6.1). The stored value does not depend on this node's wall clock, so a
 * change of that clock shows in the difference at once. The agent writes the value to a file for
 * `monokube check`, which uses no network. */
#ifndef MK_CLUSTER_API_CLOCK_H
#define MK_CLUSTER_API_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* With a larger difference, fresh certificates and tokens are refused, and the times in
 * logs do not match. */
#define MK_API_CLOCK_LIMIT_MS 10000

/* The file in the state directory. */
#define MK_API_CLOCK_FILE "api.clock"

/* The bounds of the server's time since 1970 minus this node's CLOCK_BOOTTIME. */
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

/* Return by how much the server's clock is ahead of this node's, at least; negative: behind. 0:
 * possibly equal, or unknown. */
int64_t mk_api_clock_ahead_ms(const struct mk_api_clock *clock, const struct mk_own_clock *now);

bool mk_api_clock_is_off(const struct mk_api_clock *clock, const struct mk_own_clock *now);

/* Replace the file in @state_dir if the values differ by a second or more. If the clock is unknown,
 * remove the file. */
mk_must_check int mk_api_clock_write(const char *state_dir, const struct mk_api_clock *clock,
				     struct mk_error *err);
/* Read the file. If there is none, or it is from before the node's boot, the clock is unknown. */
mk_must_check int mk_api_clock_read(const char *state_dir, struct mk_api_clock *clock,
				    struct mk_error *err);

#endif
