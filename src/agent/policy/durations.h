/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/policy/durations.h - histograms of short times. */
#ifndef MK_AGENT_POLICY_DURATIONS_H
#define MK_AGENT_POLICY_DURATIONS_H

#include "base/histogram.h"

/* 0.5 ms to 33 s, each bound twice the one before. */
static inline void durations_init(struct mk_histogram *histogram)
{
	*histogram = (struct mk_histogram){ 0 };
	for (double bound = 0.0005; bound < 50; bound *= 2)
		mk_histogram_add_bounds(histogram, bound, 0, 1);
}

#endif
