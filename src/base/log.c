// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
	const char *name;
	int priority; /* syslog(3) */
} levels[] = {
	[MK_LOG_ERROR] = { "error", 3 },
	[MK_LOG_WARN] = { "warn", 4 },
	[MK_LOG_INFO] = { "info", 6 },
	[MK_LOG_DEBUG] = { "debug", 7 },
};

static enum mk_log_level max_level = MK_LOG_INFO;
static unsigned long counts[MK_LOG_LEVELS];

void mk_log_set_level(enum mk_log_level level)
{
	max_level = level;
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

const char *mk_log_level_name(enum mk_log_level level)
{
	return levels[level].name;
}

unsigned long mk_log_count(enum mk_log_level level)
{
	return counts[level];
}

void mk_log(enum mk_log_level level, const char *fmt, ...)
{
	char line[1024];
	va_list args;
	int used = 0;

	if (level > max_level)
		return;
	counts[level]++;
	if (getenv("JOURNAL_STREAM"))
		used = snprintf(line, sizeof(line), "<%d>", levels[level].priority);
	used += snprintf(line + used, sizeof(line) - (size_t)used, "%s ", levels[level].name);
	va_start(args, fmt);
	vsnprintf(line + used, sizeof(line) - (size_t)used, fmt, args);
	va_end(args);
	dprintf(STDERR_FILENO, "%s\n", line); /* one write: lines of two processes do not mix */
}
