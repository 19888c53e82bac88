/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/report/metrics.h - what the agent exports to Prometheus: one table of metrics, and
 * their text. Pure. */
#ifndef MK_AGENT_REPORT_METRICS_H
#define MK_AGENT_REPORT_METRICS_H

#include "agent/report/values.h"

extern const struct mk_metric mk_metrics_rows[];
extern const size_t mk_metrics_row_count;

/* Returns every family of @page, also those without samples; the caller frees the text. NULL: out
 * of memory. */
mk_must_check char *mk_metrics_text(const struct mk_metrics *metrics, enum mk_metrics_page page);

#endif
