// SPDX-License-Identifier: Apache-2.0
/* The times of a watch, which wire/t_odd_servers.py shortens. */
#include "cluster/watch/reflector.h"
#include "unit/unit.h"

/* Silence in a long or a short watch is noticed within a minute. */
START_TEST(test_silent_watch)
{
	const struct mk_reflector_timing *timing = &mk_reflector_timing_default;
	uint64_t short_ms = timing->quiet_watch_s * 1125ULL;

	ck_assert_uint_le(timing->quiet_ms + timing->grace_ms, 60000);
	ck_assert_uint_le(short_ms + timing->grace_ms, 60000);
}
END_TEST

UNIT_SUITE("reflector")
{
	TCase *tc = unit_case(suite, "times", NULL, NULL);

	tcase_add_test(tc, test_silent_watch);
}
