/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/log.h - one line per event on standard error: `level message key=value ...`, a value with
 * blanks in double quotes. As JSON it is an object of time, level, msg and the same keys.
 *
 * With the journal behind standard error, a syslog priority prefix (sd-daemon(3)) comes first. Of one
 * kind, which is one call of mk_log() in the sources, thirty lines may come at once and one a second
 * after; the next that may says how many were left out, `suppressed=N`. Debug lines are all written. */
#ifndef MK_BASE_LOG_H
#define MK_BASE_LOG_H

#include <stdbool.h>

#include <stdint.h>

enum mk_log_level { MK_LOG_ERROR, MK_LOG_WARN, MK_LOG_INFO, MK_LOG_DEBUG, MK_LOG_LEVELS };
enum mk_log_format { MK_LOG_TEXT, MK_LOG_JSON };

/* Lines above @level are not written. Default: MK_LOG_INFO. */
void mk_log_set_level(enum mk_log_level level);
/* Default: MK_LOG_TEXT. */
void mk_log_set_format(enum mk_log_format format);

/* "error", "warn", "info", "debug" -> *@level. Returns 0, or -EINVAL for another word. */
int mk_log_parse_level(const char *word, enum mk_log_level *level);
const char *mk_log_level_name(enum mk_log_level level);
/* "text", "json" -> *@format. Returns 0, or -EINVAL for another word. */
int mk_log_parse_format(const char *word, enum mk_log_format *format);

/* Lines that this process has written, so far. */
unsigned long mk_log_count(enum mk_log_level level);

/* One call of mk_log() in the sources: its limit, and what it has left out. All zero at first. */
struct mk_log_site {
	const char *fmt; /* NULL: nothing was logged here */
	enum mk_log_level level;
	unsigned int spent; /* tokens */
	unsigned long suppressed;
	uint64_t refilled_ns;
	struct mk_log_site *next;
};

/* @fmt lives as long as the process. The caller is mk_log(). */
void mk_log_at(struct mk_log_site *site, enum mk_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
#define mk_log(level, ...)                                   \
	do {                                                 \
		static struct mk_log_site mk_log_here;       \
		mk_log_at(&mk_log_here, level, __VA_ARGS__); \
	} while (0)
/* A line for each kind of which some were left out since its last line. Once a minute, say: the next
 * line of that kind may never come. */
void mk_log_tell_suppressed(void);

/* For a process that must not wait: no line waits for standard error, whose reader may also be gone.
 * What it does not take at once waits in a queue of fixed size, and what finds the queue full is
 * lost; a line reports how many were. */
void mk_log_never_block(void);
/* Do lines wait in the queue? Then mk_log_flush() soon, again and again. */
bool mk_log_waits(void);
void mk_log_flush(void);
/* Lines that were lost so far. */
unsigned long mk_log_lost(void);

#define mk_log_error(...) mk_log(MK_LOG_ERROR, __VA_ARGS__)
#define mk_log_warn(...)  mk_log(MK_LOG_WARN, __VA_ARGS__)
#define mk_log_info(...)  mk_log(MK_LOG_INFO, __VA_ARGS__)
#define mk_log_debug(...) mk_log(MK_LOG_DEBUG, __VA_ARGS__)

#endif
