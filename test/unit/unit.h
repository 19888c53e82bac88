/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/unit.h - helpers for every unit test: run a suite, and parse addresses. */
#ifndef MK_TEST_UNIT_H
#define MK_TEST_UNIT_H

#include <check.h>
#include <stdlib.h>

#include "base/ip.h"
#include "unit/mac.h"

/* Check a call that reports its failure in the test's `err`. */
#define ck_ok(call) ck_assert_msg((call) >= 0, "%s: %s", #call, mk_error_text(&err))

/* Run @suite with output for test/run. Returns the exit status for main(). */
static inline int unit_run(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int failed;

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

static inline struct mk_ip ip_of(const char *text)
{
	struct mk_ip ip;

	ck_assert_msg(mk_ip_parse(text, &ip) == 0, "not an address: %s", text);
	return ip;
}

static inline struct mk_cidr cidr_of(const char *text)
{
	struct mk_cidr cidr;

	ck_assert_msg(mk_cidr_parse(text, &cidr) == 0, "not a CIDR: %s", text);
	return cidr;
}

static inline struct mk_mac mac_of(const char *text)
{
	struct mk_mac mac;

	ck_assert_msg(mac_parse(text, &mac) == 0, "not a MAC address: %s", text);
	return mac;
}

#endif
