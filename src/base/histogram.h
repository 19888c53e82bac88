/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/histogram.h - a histogram for metrics: how many values were seen in each range. */
#ifndef MK_BASE_HISTOGRAM_H
#define MK_BASE_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#define MK_HISTOGRAM_BOUNDS 96

struct mk_histogram {
	double bounds[MK_HISTOGRAM_BOUNDS]; /* rising; bucket i counts values up to bounds[i] */
	size_t bound_count;
	uint64_t buckets[MK_HISTOGRAM_BOUNDS + 1]; /* each value is in one; the last: above all */
	uint64_t count;
	double sum;
};

/* Append @count bounds: @first, @first + @step, ... Bounds beyond the capacity are dropped. */
void mk_histogram_add_bounds(struct mk_histogram *histogram, double first, double step,
			     size_t count);
void mk_histogram_observe(struct mk_histogram *histogram, double value);

#endif
