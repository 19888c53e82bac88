// SPDX-License-Identifier: Apache-2.0
/* Log lines and error texts. */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base_internal.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "unit/unit.h"

static int saved = -1;

static void capture(void)
{
	capture_log();
	unsetenv("JOURNAL_STREAM");
}

static const struct {
	enum mk_log_level level;
	const char *expected;
} levels[] = {
	{ MK_LOG_ERROR, "error 1\n" },
	{ MK_LOG_WARN, "error 1\nwarn 2\n" },
	{ MK_LOG_INFO, "error 1\nwarn 2\ninfo 3\n" },
	{ MK_LOG_DEBUG, "error 1\nwarn 2\ninfo 3\ndebug 4\n" },
};

START_TEST(test_levels)
{
	capture();
	mk_log_set_level(levels[_i].level);
	mk_log_error("%d", 1);
	mk_log_warn("%d", 2);
	mk_log_info("%d", 3);
	mk_log_debug("%d", 4);
	mk_log_set_level(MK_LOG_INFO);
	ck_assert_str_eq(captured_log(), levels[_i].expected);
}
END_TEST

START_TEST(test_count)
{
	unsigned long warnings = mk_log_count(MK_LOG_WARN), debug = mk_log_count(MK_LOG_DEBUG);

	capture();
	mk_log_warn("one");
	mk_log_warn("two");
	mk_log_debug("not written");
	captured_log();
	ck_assert_uint_eq(mk_log_count(MK_LOG_WARN), warnings + 2);
	ck_assert_uint_eq(mk_log_count(MK_LOG_DEBUG), debug);
	ck_assert_str_eq(mk_log_level_name(MK_LOG_WARN), "warn");
}
END_TEST

/* Only if the variable names this stream. */
START_TEST(test_journal_prefix)
{
	char own[64];
	struct stat st;

	capture();
	ck_assert_int_eq(fstat(STDERR_FILENO, &st), 0);
	snprintf(own, sizeof(own), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	setenv("JOURNAL_STREAM", own, 1);
	mk_log_error("a");
	mk_log_warn("b");
	mk_log_info("c");
	setenv("JOURNAL_STREAM", "8:1", 1);
	mk_log_error("another's");
	unsetenv("JOURNAL_STREAM");
	ck_assert_str_eq(captured_log(), "<3>error a\n<4>warn b\n<6>info c\nerror another's\n");
}
END_TEST

static const struct {
	const char *text, *json; /* without time and level */
} objects[] = {
	{ "words alone", "\"msg\":\"words alone\"}" },
	{ "made name=x mtu=1450", "\"msg\":\"made\",\"name\":\"x\",\"mtu\":\"1450\"}" },
	{ "made what=\"a b=c\" n=1", "\"msg\":\"made\",\"what\":\"a b=c\",\"n\":\"1\"}" },
	{ "path=/a/b is=not this", "\"msg\":\"path=/a/b\",\"is\":\"not this\"}" },
	{ "it's 'a=b' \\ said \"so\"", "\"msg\":\"it's 'a=b' \\\\ said \\\"so\\\"\"}" },
	{ "two\nlines\tn=1", "\"msg\":\"two lines\",\"n\":\"1\"}" },
	{ "empty n= m=1", "\"msg\":\"empty\",\"n\":\"\",\"m\":\"1\"}" },
	{ "", "\"msg\":\"\"}" },
};

START_TEST(test_json)
{
	const char *line, *at;

	capture();
	mk_log_set_format(MK_LOG_JSON);
	mk_log_warn("%s", objects[_i].text);
	mk_log_set_format(MK_LOG_TEXT);
	line = captured_log();
	ck_assert_int_eq(strncmp(line, "{\"time\":\"20", 11), 0);
	at = strstr(line, "Z\",\"level\":\"warn\",");
	ck_assert_msg(at, "%s", line);
	at += strlen("Z\",\"level\":\"warn\",");
	ck_assert_msg(strncmp(at, objects[_i].json, strlen(objects[_i].json)) == 0 &&
			      strcmp(at + strlen(objects[_i].json), "\n") == 0,
		      "expected %s, said %s", objects[_i].json, at);
}
END_TEST

static void say_many(int count)
{
	for (int i = 0; i < count; i++)
		mk_log_info("many n=%d", i);
}

static unsigned int count_lines(const char *text)
{
	unsigned int lines = 0;

	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

/* Of a thousand lines the burst is written, and one for each second that the test takes. */
START_TEST(test_limit)
{
	const char *text;

	capture();
	say_many(1000);
	mk_log_info("another kind");
	mk_log_set_level(MK_LOG_DEBUG);
	for (int i = 0; i < 100; i++)
		mk_log_debug("all");
	mk_log_set_level(MK_LOG_INFO);
	text = captured_log();
	ck_assert_uint_ge(count_lines(text), 30 + 1 + 100);
	ck_assert_uint_lt(count_lines(text), 200);
	ck_assert_ptr_nonnull(strstr(text, "info many n=29\n"));
	ck_assert_ptr_nonnull(strstr(text, "info another kind\n"));
}
END_TEST

/* Two calls with one text are two kinds: a noisy one does not suppress the other. */
START_TEST(test_limit_is_of_a_call)
{
	capture();
	say_many(1000);
	mk_log_info("many n=%d", -1);
	ck_assert_ptr_nonnull(strstr(captured_log(), "info many n=-1\n"));
}
END_TEST

START_TEST(test_suppressed_is_told)
{
	const char *text;

	capture();
	say_many(400);
	mk_log_tell_suppressed();
	mk_log_tell_suppressed();
	say_many(5);
	usleep(2100 * 1000);
	say_many(1);
	text = captured_log();
	ck_assert_ptr_nonnull(
		strstr(text, "of one kind exceed the limit kind=\"many n=%d\" suppressed="));
	ck_assert_ptr_nonnull(strstr(text, "info many n=0 suppressed="));
}
END_TEST

/* A truncated line is still one line. */
START_TEST(test_long_line)
{
	char text[4000];
	const char *line;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	capture();
	mk_log_error("%s", text);
	line = captured_log();
	ck_assert_uint_lt(strlen(line), 1100);
	ck_assert_uint_gt(strlen(line), 900);
	ck_assert_ptr_eq(strchr(line, '\n'), line + strlen(line) - 1);
}
END_TEST

START_TEST(test_level_names)
{
	enum mk_log_level level = MK_LOG_INFO;

	ck_assert_int_eq(mk_log_parse_level("error", &level), 0);
	ck_assert_int_eq(level, MK_LOG_ERROR);
	ck_assert_int_eq(mk_log_parse_level("debug", &level), 0);
	ck_assert_int_eq(level, MK_LOG_DEBUG);
	ck_assert_int_lt(mk_log_parse_level("Debug", &level), 0);
	ck_assert_int_lt(mk_log_parse_level("", &level), 0);
	ck_assert_int_eq(level, MK_LOG_DEBUG);
}
END_TEST

/* ---- errors ---------------------------------------------------------------------------------- */

/* ---- standard error that takes nothing ------------------------------------------------------- */

#define MANY 400

static int pipe_read;

static void into_pipe(void)
{
	int ends[2];

	ck_assert_int_eq(pipe(ends), 0);
	ck_assert_int_ge(saved = dup(STDERR_FILENO), 0);
	ck_assert_int_ge(dup2(ends[1], STDERR_FILENO), 0);
	close(ends[1]);
	pipe_read = ends[0];
	unsetenv("JOURNAL_STREAM");
	mk_log_never_block();
}

/* More lines than a pipe and the queue can hold, of a level without limit. */
static void fill(void)
{
	char padding[1000];

	memset(padding, 'x', sizeof(padding) - 1);
	padding[sizeof(padding) - 1] = '\0';
	mk_log_set_level(MK_LOG_DEBUG);
	for (int i = 0; i < MANY; i++)
		mk_log_debug("n=%d %s", i, i % 8 == 7 ? "short" : padding);
	mk_log_set_level(MK_LOG_INFO);
}

static size_t drain(char *text, size_t room)
{
	size_t used = 0;
	struct pollfd pipe = { .fd = pipe_read, .events = POLLIN };

	while (used < room && poll(&pipe, 1, 0) > 0 && pipe.revents & POLLIN) {
		ssize_t got = read(pipe_read, text + used, room - used);

		ck_assert_int_gt(got, 0);
		used += (size_t)got;
		mk_log_flush();
	}
	return used;
}

/* No write blocks, lost lines are counted, and the first lines keep their order. */
START_TEST(test_full_pipe)
{
	static char text[MANY * 1100];
	unsigned int next = 0, number, lost = 0;
	size_t used;

	into_pipe();
	fill();
	ck_assert(log_waits());
	ck_assert_uint_gt(mk_log_lost(), 0);
	used = drain(text, sizeof(text) - 1);
	text[used] = '\0';
	ck_assert(!log_waits());
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		if (sscanf(line, "debug n=%u ", &number) == 1)
			ck_assert_uint_eq(number, next++);
		else
			ck_assert_int_eq(sscanf(line,
						"warn lines of the log are lost: standard error "
						"did not accept them lines=%u",
						&lost),
					 1);
	}
	ck_assert_uint_eq(mk_log_lost(), lost);
	ck_assert_uint_eq(next + lost, MANY);
	ck_assert_uint_ge(next, 100);
}
END_TEST

START_TEST(test_reader_is_gone)
{
	unsigned long lost = mk_log_lost();

	struct sigaction action = { 0 };

	into_pipe();
	ck_assert_int_eq(sigaction(SIGPIPE, NULL, &action), 0);
	ck_assert(action.sa_handler == SIG_IGN);
	close(pipe_read);
	mk_log_error("one");
	mk_log_error("two");
	ck_assert_uint_eq(mk_log_lost(), lost + 2);
	ck_assert(!log_waits());
	ck_assert_int_ge(dup2(saved, STDERR_FILENO), 0);
}
END_TEST

START_TEST(test_error_set)
{
	static const struct {
		int code, returned;
	} rows[] = { { EBUSY, -EBUSY }, { -EBUSY, -EBUSY }, { 0, -EINVAL } };

	for (size_t i = 0; i < MK_ARRAY_SIZE(rows); i++) {
		struct mk_error err = { 0 };

		ck_assert_int_eq(mk_error_set(&err, rows[i].code, "a %d", 1), rows[i].returned);
		ck_assert_int_eq(err.code, -rows[i].returned);
		ck_assert_str_eq(mk_error_text(&err), "a 1");
		ck_assert_int_eq(mk_error_set(NULL, rows[i].code, "a"), rows[i].returned);
	}
}
END_TEST

START_TEST(test_error_errno)
{
	struct mk_error err = { 0 };

	ck_assert_int_eq(mk_error_errno(&err, ENOENT, "cannot open '%s'", "x"), -ENOENT);
	ck_assert_str_eq(mk_error_text(&err), "cannot open 'x': No such file or directory");
	ck_assert_int_eq(mk_error_errno(NULL, ENOENT, "x"), -ENOENT);
	mk_error_errno(&err, EROFS, "cannot write '%s'", "x");
	ck_assert_str_eq(mk_error_text(&err),
			 "cannot write 'x': Read-only file system (mount it read-write)");
	mk_error_errno(&err, EMFILE, "cannot open '%s'", "x");
	ck_assert_ptr_nonnull(strstr(mk_error_text(&err), "LimitNOFILE"));
	mk_error_errno(&err, ENAMETOOLONG, "directory '%s'", "x");
	ck_assert_str_eq(mk_error_text(&err),
			 "directory 'x': File name too long (give a shorter path)");
}
END_TEST

START_TEST(test_error_wrap)
{
	struct mk_error err = { 0 };

	mk_error_set(&err, EBUSY, "inner");
	ck_assert_int_eq(mk_error_wrap(&err, "outer %d", 2), -EBUSY);
	ck_assert_str_eq(mk_error_text(&err), "outer 2: inner");
	ck_assert_int_lt(mk_error_wrap(NULL, "outer"), 0);
}
END_TEST

/* Texts longer than their buffer are truncated, and nothing is written past its end. */
START_TEST(test_error_long)
{
	struct mk_error err = { 0 };
	char text[2000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	mk_error_errno(&err, ENOENT, "%s", text);
	ck_assert_uint_eq(strlen(err.text), sizeof(err.text) - 1);
	mk_error_set(&err, EBUSY, "%s", text);
	mk_error_wrap(&err, "%s", text);
	ck_assert_uint_eq(strlen(err.text), sizeof(err.text) - 1);
	mk_error_set(&err, EBUSY, "inner");
	mk_error_wrap(&err, "%s", text);
	ck_assert_uint_eq(strlen(err.text), sizeof(err.text) - 1);
}
END_TEST

START_TEST(test_error_text)
{
	struct mk_error err = { 0 };

	ck_assert_str_eq(mk_error_text(NULL), "unknown error");
	ck_assert_str_eq(mk_error_text(&err), "unknown error");
}
END_TEST

UNIT_SUITE("log")
{
	TCase *tc = unit_case(suite, "log", NULL, NULL);

	tcase_add_loop_test(tc, test_levels, 0, MK_ARRAY_SIZE(levels));
	tcase_add_test(tc, test_count);
	tcase_add_test(tc, test_journal_prefix);
	tcase_add_loop_test(tc, test_json, 0, MK_ARRAY_SIZE(objects));
	tcase_add_test(tc, test_limit);
	tcase_add_test(tc, test_limit_is_of_a_call);
	tcase_add_test(tc, test_suppressed_is_told);
	tcase_add_test(tc, test_long_line);
	tcase_add_test(tc, test_level_names);
	tcase_add_test(tc, test_full_pipe);
	tcase_add_test(tc, test_reader_is_gone);
	tcase_add_test(tc, test_error_set);
	tcase_add_test(tc, test_error_errno);
	tcase_add_test(tc, test_error_wrap);
	tcase_add_test(tc, test_error_long);
	tcase_add_test(tc, test_error_text);
}
