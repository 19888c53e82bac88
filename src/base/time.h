/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/time.h - times in the formats of Kubernetes objects and JSON answers (RFC 3339) and of
 * HTTP; the wall clock, and the datapath's clock. */
#ifndef MK_BASE_TIME_H
#define MK_BASE_TIME_H

#include <stdint.h>
#include <time.h>

#include "base/error.h"

#define MK_NS_PER_S    1000000000LL
#define MK_TIME_STRLEN 36 /* 2006-01-02T15:04:05.999999999Z, and years beyond 9999 */

/* Return the time of @clock, CLOCK_*. */
uint64_t mk_time_ns(clockid_t clock);
/* Return the time since 1970. */
static inline int64_t mk_time_now_unix_ns(void)
{
	return (int64_t)mk_time_ns(CLOCK_REALTIME);
}
/* Return the time of the programs' bpf_ktime_get_ns(). */
static inline uint64_t mk_time_monotonic_ns(void)
{
	return mk_time_ns(CLOCK_MONOTONIC);
}

/* Parse "2006-01-02T15:04:05Z", optionally with a fraction of a second or an offset such as +02:00.
 * -EINVAL: another format, or not between 1970 and 2262. */
mk_must_check int mk_time_parse(const char *text, int64_t *unix_ns);

/* Parse "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, 5.6.7: the format that servers must send).
 * -EINVAL: another format. */
mk_must_check int mk_time_parse_http(const char *text, int64_t *unix_s);

/* Format in UTC, the fraction without trailing zeros, into @buf (MK_TIME_STRLEN
 * bytes). Returns @buf. */
const char *mk_time_format(int64_t unix_ns, char *buf);

/* Return the time from @then_ns to @now_ns. If @then_ns is later, it was read after the
 * clock: return 0. */
static inline uint64_t mk_time_since_ns(uint64_t now_ns, uint64_t then_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

#endif
