// SPDX-License-Identifier: Apache-2.0
/* STATUS, VERSION, and calls that no verb can serve. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "unit/cni_node.h"

START_TEST(test_status)
{
	ck_assert_msg(call("STATUS", "", "", "1.1.0", "") == 0, "%s", answer);
	ck_assert_str_eq(answer, "");
	ck_fails(call("STATUS", "", "", "1.1.0", ",\"bpfDir\":\"/nowhere\""), MK_CNI_NOT_AVAILABLE,
		 "monokube agent");
	ck_fails(call("STATUS", "", "", "1.1.0", ",\"stateDir\":\"/proc/self/nowhere\""),
		 MK_CNI_NOT_AVAILABLE, "/proc/self/nowhere");
}
END_TEST

static const struct {
	const char *verb, *version;
} too_old[] = {
	{ "CHECK", "0.3.1" },  { "GC", "0.3.1" },     { "GC", "0.4.0" },  { "GC", "1.0.0" },
	{ "STATUS", "0.4.0" }, { "STATUS", "1.0.0" }, { "ADD", "0.2.0" }, { "DEL", "1.2.0" },
};

START_TEST(test_too_old)
{
	ck_fails(call(too_old[_i].verb, "a", "/x", too_old[_i].version, ""),
		 MK_CNI_INCOMPATIBLE_VERSION, too_old[_i].version);
}
END_TEST

START_TEST(test_version)
{
	ck_assert_int_eq(run_verb("VERSION", "", "", "{\"cniVersion\":\"1.0.0\"}"), 0);
	ck_assert_str_eq(answer, "{\"cniVersion\":\"1.0.0\",\"supportedVersions\":"
				 "[\"0.3.1\",\"0.4.0\",\"1.0.0\",\"1.1.0\"]}\n");
	ck_fails(run_verb("VERSION", "", "", "no"), MK_CNI_DECODING_FAILURE, "standard input");
	ck_fails(run_verb("FROB", "", "", "{}"), MK_CNI_INVALID_ENVIRONMENT, "FROB");
	ck_fails(run_verb("add", "", "", "{}"), MK_CNI_INVALID_ENVIRONMENT, "CNI_COMMAND='add'");
}
END_TEST

START_TEST(test_input_too_large)
{
	size_t size = 1024 * 1024 + 1;
	cleanup_free char *input = malloc(size + 1);

	memset(input, ' ', size);
	input[size] = '\0';
	ck_fails(run_verb("DEL", "a", "", input), MK_CNI_DECODING_FAILURE,
		 "larger than 1048576 bytes");
}
END_TEST

UNIT_SUITE("cni_verbs")
{
	TCase *tc = cni_case(suite, "verbs");

	tcase_add_test(tc, test_status);
	tcase_add_loop_test(tc, test_too_old, 0, MK_ARRAY_SIZE(too_old));
	tcase_add_test(tc, test_version);
	tcase_add_test(tc, test_input_too_large);
}
