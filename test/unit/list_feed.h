/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/list_feed.h - reflectors that read the bytes of a list or of a watch from a file,
 * without a server: for the measurements in perf. Any failure ends the process. */
#ifndef MK_TEST_UNIT_LIST_FEED_H
#define MK_TEST_UNIT_LIST_FEED_H

#include <stdio.h>
#include <uv.h>

#include "cluster/model/model.h"
#include "cluster/watch/reflector_internal.h"

/* Print "@what: @why" and end the process. */
void feed_die(const char *what, const char *why) __attribute__((noreturn));

/* Objects go to *@model, as it is when they come. The reflector sends no request, because its loop
 * does not run. */
struct mk_reflector *feed_start(uv_loop_t *loop, enum mk_resource_id id, struct mk_model **model);
/* A streaming list begins. */
void feed_begin(struct mk_reflector *reflector);
FILE *feed_open(const char *dir, const char *name);
/* Read DIR/NAME, a list or further events. */
void feed_file(struct mk_reflector *reflector, const char *dir, const char *name);
void feed_bytes(struct mk_reflector *reflector, const char *bytes, size_t size);

/* Times of something that was done again and again. */
struct feed_times {
	double *us;
	size_t count;
};
void feed_time_add(struct feed_times *times, double us);
/* Sort them; there must be one. */
void feed_times_sort(struct feed_times *times);
static inline double feed_median(const struct feed_times *times)
{
	return times->us[times->count / 2];
}
static inline double feed_p99(const struct feed_times *times)
{
	return times->us[times->count * 99 / 100];
}

#endif
