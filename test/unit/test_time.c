// SPDX-License-Identifier: Apache-2.0
/* Times to text and back. */
#include <string.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "unit/unit.h"

#define SECOND 1000000000LL

static const struct {
	const char *text;
	int64_t unix_ns;
	const char *again; /* the formatted text; NULL: the same */
} moments[] = {
	{ "1970-01-01T00:00:00Z", 0, NULL },
	{ "2001-09-09T01:46:40Z", 1000000000 * SECOND, NULL },
	{ "2024-02-29T12:00:00.5Z", 1709208000 * SECOND + SECOND / 2, NULL },
	{ "2024-02-29T12:00:00.000000001Z", 1709208000 * SECOND + 1, NULL },
	{ "2024-02-29T12:00:00.123456789123Z", 1709208000 * SECOND + 123456789,
	  "2024-02-29T12:00:00.123456789Z" },
	{ "2024-02-29T12:00:00.100Z", 1709208000 * SECOND + SECOND / 10, "2024-02-29T12:00:00.1Z" },
	{ "2024-02-29T14:30:00+02:30", 1709208000 * SECOND, "2024-02-29T12:00:00Z" },
	{ "2024-02-28T23:00:00-13:00", 1709208000 * SECOND, "2024-02-29T12:00:00Z" },
	{ "2016-12-31T23:59:60Z", 1483228800 * SECOND, "2017-01-01T00:00:00Z" }, /* leap second */
};

START_TEST(test_moment)
{
	char text[MK_TIME_STRLEN];
	int64_t unix_ns;

	ck_assert_int_eq(mk_time_parse(moments[_i].text, &unix_ns), 0);
	ck_assert_int_eq(unix_ns, moments[_i].unix_ns);
	ck_assert_str_eq(mk_time_format(unix_ns, text),
			 moments[_i].again ? moments[_i].again : moments[_i].text);
}
END_TEST

static const char *const nonsense[] = {
	"",
	"now",
	"2024-02-29",
	"2024-02-29T12:00:00",
	"2024-02-29 12:00:00Z",
	"2024-02-29T12:00:00z",
	"2024-02-29T12:00:00Z ",
	"2024-02-29T12:00:00.Z",
	"2024-02-29T12:00:00,5Z",
	"2024-02-29T12:00:00+0200",
	"2024-02-29T12:00:00+24:00",
	"2024-02-29T24:00:00Z",
	"2024-02-29T12:60:00Z",
	"2024-02-29T12:00:61Z",
	"2024-02-30T12:00:00Z",
	"2023-02-29T12:00:00Z",
	"2024-00-01T12:00:00Z",
	"2024-13-01T12:00:00Z",
	"2024-01-00T12:00:00Z",
	"1969-12-31T23:59:59Z",
	"2262-01-01T00:00:00Z",
	"9999-01-01T00:00:00Z",
	"24-02-29T12:00:00Z",
	"-024-02-29T12:00:00Z",
};

START_TEST(test_nonsense)
{
	int64_t unix_ns;

	ck_assert_msg(mk_time_parse(nonsense[_i], &unix_ns) < 0, "%s", nonsense[_i]);
}
END_TEST

static const struct {
	const char *text;
	int64_t unix_s; /* -1: it is no such text */
} dates[] = {
	{ "Sun, 06 Nov 1994 08:49:37 GMT", 784111777 },
	{ "Thu, 01 Jan 1970 00:00:00 GMT", 0 },
	{ "Thu, 29 Feb 2024 12:00:00 GMT", 1709208000 },
	{ "Sun, 06 Nov 1994 08:49:37 UTC", -1 },
	{ "Sun, 06 Nov 1994 08:49:37 GMT ", -1 },
	{ "Sun, 06 Nov 1994 08:49:37", -1 },
	{ "Sun, 6 Nov 1994 08:49:37 GMT", -1 },
	{ "Sun, 06 nov 1994 08:49:37 GMT", -1 },
	{ "Sun, 06 Nov 1994 24:49:37 GMT", -1 },
	{ "Sun, 06 Nov", -1 },
	{ "Sun,", -1 },
	{ "", -1 },
};

START_TEST(test_http_date)
{
	int64_t unix_s = -1;
	int ret = mk_time_parse_http(dates[_i].text, &unix_s);

	ck_assert_msg(ret == (dates[_i].unix_s < 0 ? -EINVAL : 0), "%s", dates[_i].text);
	ck_assert_int_eq(unix_s, dates[_i].unix_s);
}
END_TEST

/* A flow that began after the clock was read is not 584 years old. */
START_TEST(test_since)
{
	ck_assert_uint_eq(mk_time_since_ns(7, 5), 2);
	ck_assert_uint_eq(mk_time_since_ns(5, 5), 0);
	ck_assert_uint_eq(mk_time_since_ns(5, 7), 0);
}
END_TEST

UNIT_SUITE("time")
{
	TCase *tcase = unit_case(suite, "all", NULL, NULL);

	tcase_add_loop_test(tcase, test_moment, 0, MK_ARRAY_SIZE(moments));
	tcase_add_loop_test(tcase, test_http_date, 0, MK_ARRAY_SIZE(dates));
	tcase_add_loop_test(tcase, test_nonsense, 0, MK_ARRAY_SIZE(nonsense));
	tcase_add_test(tcase, test_since);
}
