// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base_internal.h"
#include "base/time.h"

static const struct {
	const char *name;
	int priority; /* syslog(3) */
} levels[] = {
	[MK_LOG_ERROR] = { "error", 3 },
	[MK_LOG_WARN] = { "warn", 4 },
	[MK_LOG_INFO] = { "info", 6 },
	[MK_LOG_DEBUG] = { "debug", 7 },
};

static const char *const formats[] = { [MK_LOG_TEXT] = "text", [MK_LOG_JSON] = "json" };

#define TEXT_BYTES 1024
#define LINE_BYTES (2 * TEXT_BYTES + 256) /* plus quotes, names and time of the JSON format */

static enum mk_log_level max_level = MK_LOG_INFO;
static enum mk_log_format format = MK_LOG_TEXT;
static unsigned long counts[MK_LOG_LEVELS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* a thread loads the programs */

void mk_log_set_level(enum mk_log_level level)
{
	max_level = level;
}

void mk_log_set_format(enum mk_log_format wanted)
{
	format = wanted;
}

int mk_log_parse_level(const char *word, enum mk_log_level *level)
{
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		if (strcmp(word, levels[i].name) == 0) {
			*level = (enum mk_log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

int mk_log_parse_format(const char *word, enum mk_log_format *wanted)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		if (strcmp(word, formats[i]) == 0) {
			*wanted = (enum mk_log_format)i;
			return 0;
		}
	}
	return -EINVAL;
}

const char *mk_log_level_name(enum mk_log_level level)
{
	return levels[level].name;
}

unsigned long mk_log_count(enum mk_log_level level)
{
	return counts[level];
}

/* ---- limits by kind -------------------------------------------------------------------------- */

#define KIND_BURST    30
#define KIND_REFILL_S 1 /* per further line */

static struct mk_log_site *sites; /* all that have logged something */

static void remember(struct mk_log_site *site, enum mk_log_level level, const char *fmt)
{
	if (site->fmt)
		return;
	site->fmt = fmt;
	site->level = level;
	site->next = sites;
	sites = site;
}

static bool is_limited(struct mk_log_site *kind)
{
	uint64_t now_ns = mk_time_monotonic_ns(), refill_ns = KIND_REFILL_S * MK_NS_PER_S;
	uint64_t refills = (now_ns - kind->refilled_ns) / refill_ns;

	kind->refilled_ns += refills * refill_ns;
	kind->spent -= refills < kind->spent ? (unsigned int)refills : kind->spent;
	if (kind->spent < KIND_BURST)
		return false;
	kind->suppressed++;
	return true;
}

/* Debug lines are not limited: developers need all of them. */
static bool may_say(struct mk_log_site *kind, enum mk_log_level level)
{
	if (level == MK_LOG_DEBUG)
		return true;
	if (is_limited(kind))
		return false;
	kind->spent++;
	return true;
}

bool mk_log_is_limited(struct mk_log_site *site)
{
	bool limited;

	pthread_mutex_lock(&mutex);
	limited = is_limited(site);
	pthread_mutex_unlock(&mutex);
	return limited;
}

/* ---- one line -------------------------------------------------------------------------------- */

struct line {
	char text[LINE_BYTES];
	size_t used;
};

static void add(struct line *line, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct line *line, const char *fmt, ...)
{
	size_t room = sizeof(line->text) - line->used;
	va_list args;
	int more;

	va_start(args, fmt);
	more = vsnprintf(line->text + line->used, room, fmt, args);
	va_end(args);
	if (more > 0)
		line->used += (size_t)more < room ? (size_t)more : room - 1;
}

/* The variable names a stream (sd-daemon(3)). In a container, for example, standard error is
 * another stream, and the journal is not behind it. */
static bool is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	char own[48];
	struct stat st;

	if (!stream || fstat(STDERR_FILENO, &st) < 0)
		return false;
	snprintf(own, sizeof(own), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	return strcmp(stream, own) == 0;
}

static void add_string(struct line *line, const char *text, size_t length)
{
	add(line, "\"");
	for (size_t i = 0; i < length; i++)
		add(line, text[i] == '"' || text[i] == '\\' ? "\\%c" : "%c", text[i]);
	add(line, "\"");
}

/* Return the length of "key" if @text begins with "key=", else 0. */
static size_t key_length(const char *text)
{
	size_t length = 0;

	if (!isalpha((unsigned char)*text))
		return 0;
	while (isalnum((unsigned char)text[length]) || text[length] == '_')
		length++;
	return text[length] == '=' ? length : 0;
}

/* Find the next " key=" outside quotes, or the end. */
static const char *next_pair(const char *text)
{
	for (char quote = '\0'; *text; text++) {
		if (quote ? *text == quote : (*text == '"' && text[-1] == '='))
			quote = quote ? '\0' : *text;
		else if (!quote && *text == ' ' && key_length(text + 1))
			break;
	}
	return text;
}

static void add_value(struct line *line, const char *value, size_t length)
{
	if (length > 1 && value[0] == '"' && value[length - 1] == '"')
		add_string(line, value + 1, length - 2);
	else
		add_string(line, value, length);
}

static void add_json(struct line *line, enum mk_log_level level, const char *text)
{
	const char *end = *text ? next_pair(text + 1) : text;
	char time[MK_TIME_STRLEN];

	add(line, "{\"time\":\"%s\",\"level\":\"%s\",\"msg\":",
	    mk_time_format(mk_time_now_unix_ns(), time), levels[level].name);
	add_string(line, text, (size_t)(end - text));
	while (*end) {
		const char *key = end + 1;
		size_t length = key_length(key);

		add(line, ",\"%.*s\":", (int)length, key);
		end = next_pair(key + length + 1);
		add_value(line, key + length + 1, (size_t)(end - key) - length - 1);
	}
	add(line, "}");
}

static void report_lost(void);

/* Write @text as one line, even if it quotes control characters, of a server's
 * answer for example. */
static void write_line(enum mk_log_level level, char *text)
{
	struct line line = { .used = 0 };

	report_lost();
	for (char *at = text; *at; at++)
		if (iscntrl((unsigned char)*at))
			*at = ' ';
	counts[level]++;
	if (is_journal())
		add(&line, "<%d>", levels[level].priority);
	if (format == MK_LOG_JSON)
		add_json(&line, level, text);
	else
		add(&line, "%s %s", levels[level].name, text);
	line.used = line.used < LINE_BYTES - 1 ? line.used : LINE_BYTES - 2;
	line.text[line.used++] = '\n';
	log_output_write(line.text, line.used); /* one write: lines of processes do not mix */
}

/* Write a line in place of those that standard error did not accept. */
static void report_lost(void)
{
	unsigned long lines;
	char text[TEXT_BYTES];

	log_output_flush();
	lines = log_output_take_lost();
	if (!lines)
		return;
	snprintf(text, sizeof(text),
		 "lines of the log are lost: standard error did not accept them lines=%lu", lines);
	write_line(MK_LOG_WARN, text);
}

__attribute__((format(printf, 3, 0))) static void
log_limited(struct mk_log_site *site, enum mk_log_level level, const char *fmt, va_list args)
{
	char text[TEXT_BYTES];
	int used;

	remember(site, level, fmt);
	if (!may_say(site, level))
		return;
	used = vsnprintf(text, sizeof(text), fmt, args);
	if (site->suppressed && used > 0 && (size_t)used < sizeof(text))
		snprintf(text + used, sizeof(text) - (size_t)used, " suppressed=%lu",
			 site->suppressed);
	site->suppressed = 0;
	write_line(level, text);
}

void mk_log_at(struct mk_log_site *site, enum mk_log_level level, const char *fmt, ...)
{
	va_list args;

	if (level > max_level)
		return;
	va_start(args, fmt);
	pthread_mutex_lock(&mutex);
	log_limited(site, level, fmt, args);
	pthread_mutex_unlock(&mutex);
	va_end(args);
}

void mk_log_tell_suppressed(void)
{
	char text[TEXT_BYTES];

	pthread_mutex_lock(&mutex);
	for (struct mk_log_site *site = sites; site; site = site->next) {
		if (!site->suppressed)
			continue;
		snprintf(text, sizeof(text),
			 "lines of one kind exceed the limit kind=\"%s\" suppressed=%lu", site->fmt,
			 site->suppressed);
		site->suppressed = 0;
		write_line(site->level, text);
	}
	pthread_mutex_unlock(&mutex);
}

/* ---- output that never waits ----------------------------------------------------------------- */

void mk_log_never_block(void)
{
	log_output_never_block();
}

bool log_waits(void)
{
	return log_output_waits();
}

void mk_log_flush(void)
{
	pthread_mutex_lock(&mutex);
	report_lost();
	pthread_mutex_unlock(&mutex);
}

unsigned long mk_log_lost(void)
{
	return log_output_lost();
}
