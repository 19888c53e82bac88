/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/unit.h - what every unit test needs: its suite, and addresses. */
#ifndef MK_TEST_UNIT_H
#define MK_TEST_UNIT_H

#include <check.h>

#include "base/ip.h"
#include "config/config.h"
#include "unit/mac.h"

/* Check a call that reports its failure in the test's `err`. */
#define ck_ok(call) ck_assert_msg((call) >= 0, "%s: %s", #call, mk_error_text(&err))

/* UNIT_SUITE("name") { ... }: once per file; adds the cases to `suite`. The file is linked with
 * main.c as a program. */
#define UNIT_SUITE(name)                     \
	const char unit_suite_name[] = name; \
	void unit_fill_suite(Suite *suite)
extern const char unit_suite_name[];
void unit_fill_suite(Suite *suite);
/* What `PROGRAM --table` prints, for test/docs. Returns the exit status. */
int unit_print_table(void) __attribute__((weak));

/* @setup and @teardown, or NULL, run around each test of the case, in the test's process. */
static inline TCase *unit_case(Suite *suite, const char *name, SFun setup, SFun teardown)
{
	TCase *tcase = tcase_create(name);

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_set_timeout(tcase, 300); /* guards against endless runs */
	suite_add_tcase(suite, tcase);
	return tcase;
}

static inline struct mk_ip ip_of(const char *text)
{
	struct mk_ip ip;

	ck_assert_msg(mk_ip_parse(text, &ip) == 0, "not an address: %s", text);
	return ip;
}

static inline struct mk_addr addr_of(const char *text)
{
	struct mk_ip ip = ip_of(text);

	return mk_ip_to_addr(&ip);
}

static inline struct mk_cidr cidr_of(const char *text)
{
	struct mk_cidr cidr;

	ck_assert_msg(mk_cidr_parse(text, &cidr) == 0, "not a CIDR: %s", text);
	return cidr;
}

/* One range, as a setting holds it. */
static inline struct mk_ranges ranges_of(const char *text)
{
	struct mk_cidr range = cidr_of(text);
	struct mk_ranges ranges = { .primary = range.ip.family };

	ranges.of[mk_family_index(range.ip.family)] = range;
	return ranges;
}

static inline struct mk_mac mac_of(const char *text)
{
	struct mk_mac mac;

	ck_assert_msg(mac_parse(text, &mac) == 0, "not a MAC address: %s", text);
	return mac;
}

/* Is part @i of a long test due in this run? All are. With MK_UNIT_TURN=N in the environment, as in
 * .ci/run, a quarter of them is, another one for each N. */
bool unit_is_due(unsigned int i);
/* So many steps of a long test with one sequence of random numbers: @count, or a quarter. Sets
 * *@seed, which is then different for each quarter. */
int unit_steps(int count, uint32_t *seed);

/* Capture the log of the code under test on standard error. */
void capture_log(void);
/* End capture_log() and return everything since, up to 8 KiB, valid until the next call. */
const char *captured_log(void);

/* Read @name.http of test/wire/recordings.tar.xz, which make unpacks. The caller frees it. A
 * missing file ends the test. */
char *recording_body(const char *name, size_t *size);

#endif
