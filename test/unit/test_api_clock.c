// SPDX-License-Identifier: Apache-2.0
/* The API server's clock compared with this node's. 784111777 is Sun, 06 Nov 1994 08:49:37 GMT. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "cluster/api/api_internal.h"
#include "cluster/api/clock.h"
#include "unit/unit.h"

#define DATE	"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
#define DATE_MS 784111777000LL
#define BOOT_MS 5000000LL

static const struct {
	const char *name;
	int64_t own_ms; /* this node's clock when the answer came, less DATE_MS */
	uint64_t took_ms;
	int64_t ahead_ms;
	bool off;
} moments[] = {
	{ "the same second", 400, 0, 0, false },
	{ "the second's end", 999, 0, 0, false },
	{ "the Date's moment is long ago, as the request is", 2900, 2000, 0, false },
	{ "a second behind", -1000, 0, 1000, false },
	{ "a second ahead", 2000, 0, -1001, false },
	{ "a slow answer tells less", 4000, 2000, -1001, false },
	{ "an hour behind", -3600000, 10, 3600000, true },
	{ "an hour ahead", 3601009, 10, -3600000, true },
	{ "at the limit", -10000, 0, 10000, false },
	{ "beyond it", -10001, 0, 10001, true },
};

START_TEST(test_ahead)
{
	struct mk_own_clock now = { DATE_MS + moments[_i].own_ms, BOOT_MS };
	struct mk_api_clock clock = { 0 };

	ck_assert(api_clock_see(&clock, DATE, strlen(DATE), moments[_i].took_ms, &now));
	ck_assert_msg(mk_api_clock_ahead_ms(&clock, &now) == moments[_i].ahead_ms, "%s: %lld",
		      moments[_i].name, (long long)mk_api_clock_ahead_ms(&clock, &now));
	ck_assert_msg(mk_api_clock_is_off(&clock, &now) == moments[_i].off, "%s", moments[_i].name);
}
END_TEST

static const struct {
	const char *line;
	bool taken;
} lines[] = {
	{ "date:Sun, 06 Nov 1994 08:49:37 GMT\r\n", true },
	{ "DATE: \t Sun, 06 Nov 1994 08:49:37 GMT  \r\n", true },
	{ "Date: Sun, 06 Nov 1994 08:49:37 GMT", true },
	{ "X-Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n", false },
	{ "Date: Sunday, 06-Nov-94 08:49:37 GMT\r\n", false },
	{ "Date: Sun Nov  6 08:49:37 1994\r\n", false },
	{ "Date: Sun, 06 Nov 1994 08:49:37 GMT, and a lot more than any date needs\r\n", false },
	{ "Date:\r\n", false },
	{ "\r\n", false },
	{ "", false },
};

START_TEST(test_line)
{
	struct mk_own_clock now = { DATE_MS, BOOT_MS };
	struct mk_api_clock clock = { 0 };
	bool taken = api_clock_see(&clock, lines[_i].line, strlen(lines[_i].line), 0, &now);

	ck_assert_msg(taken == lines[_i].taken && clock.known == taken, "%s", lines[_i].line);
}
END_TEST

/* This node's clock is set: the new difference is known without another answer. */
START_TEST(test_clock_is_set)
{
	struct mk_own_clock then = { DATE_MS - 3600000, BOOT_MS };
	struct mk_own_clock now = { DATE_MS + 60500, BOOT_MS + 60000 };
	struct mk_api_clock clock = { 0 };

	ck_assert(api_clock_see(&clock, DATE, strlen(DATE), 0, &then));
	ck_assert(mk_api_clock_is_off(&clock, &then));
	ck_assert_int_eq(mk_api_clock_ahead_ms(&clock, &now), 0);
}
END_TEST

START_TEST(test_too_slow)
{
	struct mk_own_clock now = { DATE_MS - 3600000, BOOT_MS };
	struct mk_api_clock clock = { 0 };

	ck_assert(!api_clock_see(&clock, DATE, strlen(DATE), 6000, &now));
	ck_assert_int_eq(mk_api_clock_ahead_ms(&clock, &now), 0);
	ck_assert(!mk_api_clock_is_off(&clock, &now));
}
END_TEST

START_TEST(test_file)
{
	char dir[] = "/tmp/mk-test-clock.XXXXXX", path[64];
	struct mk_api_clock clock = { true, 5000, 6000 }, read;
	static const char other_boot[] = "boot_id=0\nearliest_ms=5\nlatest_ms=6\n";
	struct mk_error err;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/" MK_API_CLOCK_FILE, dir);
	ck_ok(mk_api_clock_read(dir, &read, &err));
	ck_assert(!read.known);
	ck_ok(mk_api_clock_write(dir, &clock, &err));
	ck_ok(mk_api_clock_read(dir, &read, &err));
	ck_assert(read.known && read.earliest_ms == 5000 && read.latest_ms == 6000);
	clock.earliest_ms = 5999; /* the Date has whole seconds: no change, no write */
	ck_ok(mk_api_clock_write(dir, &clock, &err));
	ck_ok(mk_api_clock_read(dir, &read, &err));
	ck_assert_int_eq(read.earliest_ms, 5000);
	clock.earliest_ms = -6000;
	ck_ok(mk_api_clock_write(dir, &clock, &err));
	ck_ok(mk_api_clock_read(dir, &read, &err));
	ck_assert_int_eq(read.earliest_ms, -6000);
	ck_ok(mk_file_replace(path, other_boot, strlen(other_boot), 0600, &err));
	ck_ok(mk_api_clock_read(dir, &read, &err));
	ck_assert(!read.known);
	ck_ok(mk_file_replace(path, "x", 1, 0600, &err));
	ck_assert_int_eq(mk_api_clock_read(dir, &read, &err), -EINVAL);
	clock.known = false;
	ck_ok(mk_api_clock_write(dir, &clock, &err));
	ck_assert_int_lt(access(path, F_OK), 0);
	ck_ok(mk_api_clock_write(dir, &clock, &err));
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

UNIT_SUITE("api_clock")
{
	TCase *tcase = unit_case(suite, "all", NULL, NULL);

	tcase_add_loop_test(tcase, test_ahead, 0, MK_ARRAY_SIZE(moments));
	tcase_add_loop_test(tcase, test_line, 0, MK_ARRAY_SIZE(lines));
	tcase_add_test(tcase, test_clock_is_set);
	tcase_add_test(tcase, test_too_slow);
	tcase_add_test(tcase, test_file);
}
