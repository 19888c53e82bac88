/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/log.h - one line per event on standard error: `level message key=value ...`.
 * With the journal behind standard error, a syslog priority prefix (sd-daemon(3)) comes first. */
#ifndef MK_BASE_LOG_H
#define MK_BASE_LOG_H

enum mk_log_level { MK_LOG_ERROR, MK_LOG_WARN, MK_LOG_INFO, MK_LOG_DEBUG, MK_LOG_LEVELS };

/* Lines above @level are not written. Default: MK_LOG_INFO. */
void mk_log_set_level(enum mk_log_level level);

/* "error", "warn", "info", "debug" -> *@level. Returns 0, or -EINVAL for another word. */
int mk_log_parse_level(const char *word, enum mk_log_level *level);
const char *mk_log_level_name(enum mk_log_level level);

/* Lines that this process has written, so far. */
unsigned long mk_log_count(enum mk_log_level level);

void mk_log(enum mk_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define mk_log_error(...) mk_log(MK_LOG_ERROR, __VA_ARGS__)
#define mk_log_warn(...)  mk_log(MK_LOG_WARN, __VA_ARGS__)
#define mk_log_info(...)  mk_log(MK_LOG_INFO, __VA_ARGS__)
#define mk_log_debug(...) mk_log(MK_LOG_DEBUG, __VA_ARGS__)

#endif
