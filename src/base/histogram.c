// SPDX-License-Identifier: Apache-2.0
#include "base/histogram.h"

void mk_histogram_add_bounds(struct mk_histogram *histogram, double first, double step,
			     size_t count)
{
	for (size_t i = 0; i < count && histogram->bound_count < MK_HISTOGRAM_BOUNDS; i++)
		histogram->bounds[histogram->bound_count++] = first + step * (double)i;
}

void mk_histogram_observe(struct mk_histogram *histogram, double value)
{
	size_t i = 0;

	while (i < histogram->bound_count && value > histogram->bounds[i])
		i++;
	histogram->buckets[i]++;
	histogram->count++;
	histogram->sum += value;
}
