// SPDX-License-Identifier: Apache-2.0
/* The text exposition format, byte by byte. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "http/exposition.h"
#include "unit/unit.h"

static struct mk_exposition out;

static void ck_text(const char *expected)
{
	cleanup_free char *text = mk_exposition_take(&out);

	ck_assert_ptr_nonnull(text);
	ck_assert_str_eq(text, expected);
}

START_TEST(test_samples)
{
	const struct mk_label labels[] = { { "reason", "no_pod" }, { "hook", "pod" } };

	mk_exposition_family(&out, "mk_drops_total", "counter", "Dropped packets.");
	mk_exposition_count(&out, "mk_drops_total", labels, 2, 17);
	mk_exposition_count(&out, "mk_drops_total", labels, 1, UINT64_MAX);
	mk_exposition_count(&out, "mk_drops_total", NULL, 0, 0);
	ck_text("# HELP mk_drops_total Dropped packets.\n"
		"# TYPE mk_drops_total counter\n"
		"mk_drops_total{reason=\"no_pod\",hook=\"pod\"} 17\n"
		"mk_drops_total{reason=\"no_pod\"} 18446744073709551615\n"
		"mk_drops_total 0\n");
}
END_TEST

START_TEST(test_empty)
{
	ck_text("");
}
END_TEST

static const struct {
	const char *value, *written;
} values[] = {
	{ "", "" },
	{ "plain", "plain" },
	{ "a\"b", "a\\\"b" },
	{ "a\\b", "a\\\\b" },
	{ "a\nb\n", "a\\nb\\n" },
	{ "\\n", "\\\\n" },
	{ "\"\"", "\\\"\\\"" },
	{ "tab\there, {brace}=1", "tab\there, {brace}=1" },
	{ "Knoten \u00fc", "Knoten \u00fc" },
};

START_TEST(test_label_value)
{
	const struct mk_label label = { "l", values[_i].value };
	char expected[128];

	mk_exposition_count(&out, "m", &label, 1, 1);
	snprintf(expected, sizeof(expected), "m{l=\"%s\"} 1\n", values[_i].written);
	ck_text(expected);
}
END_TEST

START_TEST(test_help)
{
	mk_exposition_family(&out, "m", "gauge", "a \"quoted\" \\ and\nanother line");
	ck_text("# HELP m a \"quoted\" \\\\ and\\nanother line\n# TYPE m gauge\n");
}
END_TEST

static const struct {
	double value;
	const char *written;
} numbers[] = {
	{ 0, "0" },
	{ 1, "1" },
	{ -1.5, "-1.5" },
	{ 0.1, "0.1" },
	{ 0.25, "0.25" },
	{ 1e-9, "1e-09" },
	{ 1732206317.25, "1732206317.25" },
	{ 9007199254740992.0, "9.00719925474099e+15" },
	{ INFINITY, "+Inf" },
	{ -INFINITY, "-Inf" },
	{ NAN, "NaN" },
};

START_TEST(test_number)
{
	char expected[64];

	mk_exposition_number(&out, "m", NULL, 0, numbers[_i].value);
	snprintf(expected, sizeof(expected), "m %s\n", numbers[_i].written);
	ck_text(expected);
}
END_TEST

START_TEST(test_histogram)
{
	const struct mk_label label = { "command", "ADD" };
	struct mk_histogram histogram = { 0 };

	mk_histogram_add_bounds(&histogram, 0.25, 0.25, 2);
	mk_histogram_add_bounds(&histogram, 1, 1, 1);
	mk_histogram_observe(&histogram, 0.25);
	mk_histogram_observe(&histogram, 0.75);
	mk_histogram_observe(&histogram, 0.125);
	mk_histogram_observe(&histogram, 5);
	mk_exposition_histogram(&out, "h", &label, 1, &histogram);
	mk_exposition_histogram(&out, "g", NULL, 0, &(struct mk_histogram){ 0 });
	ck_text("h_bucket{command=\"ADD\",le=\"0.25\"} 2\n"
		"h_bucket{command=\"ADD\",le=\"0.5\"} 2\n"
		"h_bucket{command=\"ADD\",le=\"1\"} 3\n"
		"h_bucket{command=\"ADD\",le=\"+Inf\"} 4\n"
		"h_sum{command=\"ADD\"} 6.125\n"
		"h_count{command=\"ADD\"} 4\n"
		"g_bucket{le=\"+Inf\"} 0\n"
		"g_sum 0\n"
		"g_count 0\n");
}
END_TEST

/* With every size of the buffer. */
START_TEST(test_long)
{
	enum { LINES = 20000 };
	cleanup_free char *text = NULL;
	size_t lines = 0;

	for (uint64_t i = 0; i < LINES; i++)
		mk_exposition_count(&out, "monokube_metric_with_a_long_name", NULL, 0, i);
	text = mk_exposition_take(&out);
	ck_assert_ptr_nonnull(text);
	for (const char *c = text; (c = strchr(c, '\n')); c++)
		lines++;
	ck_assert_uint_eq(lines, LINES);
	ck_assert_ptr_nonnull(strstr(text, "monokube_metric_with_a_long_name 19999\n"));
}
END_TEST

UNIT_SUITE("exposition")
{
	TCase *tc = unit_case(suite, "text", NULL, NULL);

	tcase_add_test(tc, test_samples);
	tcase_add_test(tc, test_empty);
	tcase_add_loop_test(tc, test_label_value, 0, MK_ARRAY_SIZE(values));
	tcase_add_test(tc, test_help);
	tcase_add_loop_test(tc, test_number, 0, MK_ARRAY_SIZE(numbers));
	tcase_add_test(tc, test_histogram);
	tcase_add_test(tc, test_long);
}
