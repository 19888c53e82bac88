// SPDX-License-Identifier: Apache-2.0
/* The counts of CNI calls for the agent's metrics. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "pod/request/calls.h"
#include "unit/cni_node.h"

#define MS 1000000ULL

static struct mk_error err;

static struct mk_cni_calls calls_of(enum mk_cni_command command)
{
	struct mk_cni_calls calls[MK_CNI_COMMANDS];

	ck_ok(mk_cni_calls_read(BPF_DIR, calls, &err));
	return calls[command];
}

static uint64_t count_of(enum mk_cni_command command)
{
	struct mk_cni_calls calls = calls_of(command);
	struct mk_histogram histogram;

	mk_cni_calls_histogram(&calls, &histogram);
	return histogram.count;
}

static const struct {
	const char *name;
	uint64_t took_ns;
	size_t bucket;
} durations[] = {
	{ "nothing", 0, 0 },
	{ "half a millisecond", MS / 2, 0 },
	{ "a nanosecond more", MS / 2 + 1, 1 },
	{ "a millisecond", MS, 1 },
	{ "30 s", 30000 * MS, 14 },
	{ "longer", 30001 * MS, 15 },
	{ "much longer", UINT64_MAX / 2, 15 },
};

START_TEST(test_duration)
{
	struct mk_cni_calls calls;

	mk_cni_calls_add(BPF_DIR, MK_CNI_COMMAND_DEL, true, durations[_i].took_ns);
	calls = calls_of(MK_CNI_COMMAND_DEL);
	for (size_t i = 0; i < MK_CNI_BUCKETS; i++)
		ck_assert_msg(calls.buckets[i] == (i == durations[_i].bucket), "%s: bucket %zu",
			      durations[_i].name, i);
	ck_assert_uint_eq(calls.total_ns, durations[_i].took_ns);
	ck_assert_uint_eq(calls.failed, 1);
	ck_assert_uint_eq(count_of(MK_CNI_COMMAND_ADD), 0);
}
END_TEST

START_TEST(test_histogram)
{
	struct mk_cni_calls calls = { .total_ns = 2500 * MS, .buckets = { [1] = 3, [15] = 1 } };
	struct mk_histogram histogram;

	mk_cni_calls_histogram(&calls, &histogram);
	ck_assert_uint_eq(histogram.bound_count, MK_CNI_BUCKETS - 1);
	ck_assert_double_eq(histogram.bounds[0], 0.0005);
	ck_assert_double_eq(histogram.bounds[14], 30);
	ck_assert_double_eq(histogram.sum, 2.5);
	ck_assert_uint_eq(histogram.count, 4);
	ck_assert_uint_eq(histogram.buckets[1], 3);
	ck_assert_uint_eq(histogram.buckets[15], 1);
}
END_TEST

/* Concurrent processes lose no counts. */
START_TEST(test_at_once)
{
	enum { PROCESSES = 4, EACH = 500 };
	int status;

	for (int i = 0; i < PROCESSES; i++) {
		if (fork() > 0)
			continue;
		for (int j = 0; j < EACH; j++)
			mk_cni_calls_add(BPF_DIR, MK_CNI_COMMAND_ADD, j % 2, 3);
		_exit(0);
	}
	while (wait(&status) > 0)
		ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(count_of(MK_CNI_COMMAND_ADD), PROCESSES * EACH);
	ck_assert_uint_eq(calls_of(MK_CNI_COMMAND_ADD).failed, PROCESSES * EACH / 2);
	ck_assert_uint_eq(calls_of(MK_CNI_COMMAND_ADD).total_ns, PROCESSES * EACH * 3);
}
END_TEST

START_TEST(test_verbs)
{
	struct mk_cni_calls status;

	new_netns("a");
	add("a");
	ck_assert_int_eq(call("STATUS", "", "", "1.1.0", ""), 0);
	ck_fails(call("STATUS", "", "", "1.1.0", ",\"stateDir\":\"/proc/self/nowhere\""),
		 MK_CNI_NOT_AVAILABLE, "/proc/self/nowhere");
	ck_assert_int_eq(call("DEL", "a", "", "1.1.0", ""), 0);
	ck_assert_uint_eq(count_of(MK_CNI_COMMAND_ADD), 1);
	ck_assert_uint_gt(calls_of(MK_CNI_COMMAND_ADD).total_ns, 0);
	ck_assert_uint_eq(calls_of(MK_CNI_COMMAND_ADD).failed, 0);
	ck_assert_uint_eq(count_of(MK_CNI_COMMAND_DEL), 1);
	ck_assert_uint_eq(count_of(MK_CNI_COMMAND_CHECK), 0);
	status = calls_of(MK_CNI_COMMAND_STATUS);
	ck_assert_uint_eq(status.failed, 1);
	ck_assert_uint_eq(count_of(MK_CNI_COMMAND_STATUS), 2);
}
END_TEST

/* No table, or another version's table: the calls work anyway. */
START_TEST(test_no_table)
{
	struct mk_cni_calls calls[MK_CNI_COMMANDS];

	new_netns("a");
	ck_assert_int_eq(unlink(BPF_DIR "/maps/cni_calls"), 0);
	add("a");
	ck_assert_int_eq(mk_cni_calls_read(BPF_DIR, calls, &err), -ENOENT);
	ck_assert_int_eq(rename(BPF_DIR "/maps/runtime", BPF_DIR "/maps/cni_calls"), 0);
	ck_assert_int_eq(call("DEL", "a", "", "1.1.0", ""), 0);
	ck_assert_int_eq(mk_cni_calls_read(BPF_DIR, calls, &err), -EPROTO);
}
END_TEST

UNIT_SUITE("cni_calls")
{
	TCase *tc = cni_case(suite, "calls");

	tcase_add_loop_test(tc, test_duration, 0, MK_ARRAY_SIZE(durations));
	tcase_add_test(tc, test_histogram);
	tcase_add_test(tc, test_at_once);
	tcase_add_test(tc, test_verbs);
	tcase_add_test(tc, test_no_table);
}
