/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/time.h - moments as Kubernetes objects and JSON answers write them (RFC 3339), as HTTP does,
 * the wall clock that they are compared with; and the clock that the datapath has. */
#ifndef MK_BASE_TIME_H
#define MK_BASE_TIME_H

#include <stdint.h>

#include "base/error.h"

#define MK_NS_PER_S    1000000000LL
#define MK_TIME_STRLEN 36 /* 2006-01-02T15:04:05.999999999Z, and years beyond 9999 */

/* CLOCK_REALTIME, since 1970. */
int64_t mk_time_now_unix_ns(void);
/* CLOCK_MONOTONIC: what the programs' bpf_ktime_get_ns() tells. */
uint64_t mk_time_monotonic_ns(void);

/* "2006-01-02T15:04:05Z", with a fraction of a second or not, with an offset such as +02:00 or not.
 * -EINVAL: it is not that, or no time between 1970 and 2262. */
mk_must_check int mk_time_parse(const char *text, int64_t *unix_ns);

/* "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, 5.6.7: what servers have to send). -EINVAL: it is not that. */
mk_must_check int mk_time_parse_http(const char *text, int64_t *unix_s);

/* In UTC, fraction without trailing zeros, into @buf of MK_TIME_STRLEN bytes; returns @buf. */
const char *mk_time_format(int64_t unix_ns, char *buf);

/* From @then_ns to @now_ns; 0 where it is later: read after the clock was, it happened just now. */
static inline uint64_t mk_time_since_ns(uint64_t now_ns, uint64_t then_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

#endif
