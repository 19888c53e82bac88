/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/log.h - one line per event on standard error: `level message key=value ...`. A value
 * with blanks is in double quotes. As JSON it is an object of time, level, msg and the same keys.
 * If standard error is the journal, a syslog priority prefix (sd-daemon(3)) comes first.
 *
 * Lines are limited by kind, which is one call of mk_log() in the sources: a burst of thirty,
 * then one per second. The next line says how many were suppressed (`suppressed=N`). Debug lines
 * are not limited. */
#ifndef MK_BASE_LOG_H
#define MK_BASE_LOG_H

#include <stdbool.h>

#include <stdint.h>

enum mk_log_level { MK_LOG_ERROR, MK_LOG_WARN, MK_LOG_INFO, MK_LOG_DEBUG, MK_LOG_LEVELS };
enum mk_log_format { MK_LOG_TEXT, MK_LOG_JSON };

/* Write no lines above @level. Default: MK_LOG_INFO. */
void mk_log_set_level(enum mk_log_level level);
/* Set the format. Default: MK_LOG_TEXT. */
void mk_log_set_format(enum mk_log_format format);

/* Parse "error", "warn", "info" or "debug". Returns 0, or -EINVAL for another word. */
int mk_log_parse_level(const char *word, enum mk_log_level *level);
const char *mk_log_level_name(enum mk_log_level level);
/* Parse "text" or "json". Returns 0, or -EINVAL for another word. */
int mk_log_parse_format(const char *word, enum mk_log_format *format);

/* Return the number of lines that this process has written. */
unsigned long mk_log_count(enum mk_log_level level);

/* One call of mk_log() in the sources: the state of its limit. All zero at first. */
struct mk_log_site {
	const char *fmt; /* NULL: nothing has been logged here */
	enum mk_log_level level;
	unsigned int spent; /* tokens spent */
	unsigned long suppressed;
	uint64_t refilled_ns;
	struct mk_log_site *next;
};

/* For mk_log() only. @fmt must live as long as the process. */
void mk_log_at(struct mk_log_site *site, enum mk_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Would mk_log_at() suppress a line of @site now? Then count the line as suppressed. So a caller
 * need not compose it. */
bool mk_log_is_limited(struct mk_log_site *site);
#define mk_log(level, ...)                                   \
	do {                                                 \
		static struct mk_log_site mk_log_here;       \
		mk_log_at(&mk_log_here, level, __VA_ARGS__); \
	} while (0)
/* Write a line for each kind with lines suppressed since its last line. Call it periodically, for
 * example once a minute: the kind's next line may never come. */
void mk_log_tell_suppressed(void);

/* For a process that must not wait: never block on standard error, whose reader may also be gone.
 * Lines that it does not accept at once wait in a queue of fixed size. If the queue is full, they
 * are lost, and a line reports how many. */
void mk_log_never_block(void);
void mk_log_flush(void);
/* Return the number of lines lost. */
unsigned long mk_log_lost(void);

#define mk_log_error(...) mk_log(MK_LOG_ERROR, __VA_ARGS__)
#define mk_log_warn(...)  mk_log(MK_LOG_WARN, __VA_ARGS__)
#define mk_log_info(...)  mk_log(MK_LOG_INFO, __VA_ARGS__)
#define mk_log_debug(...) mk_log(MK_LOG_DEBUG, __VA_ARGS__)

#endif
