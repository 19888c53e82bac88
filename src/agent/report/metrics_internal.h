/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/report/metrics_internal.h - the samples of chains (metrics_chains.c), for the table in
 * metrics.c. */
#ifndef MK_AGENT_REPORT_METRICS_INTERNAL_H
#define MK_AGENT_REPORT_METRICS_INTERNAL_H

struct mk_exposition;
struct mk_metric;

void chain_replicas(const void *values, const struct mk_metric *metric, struct mk_exposition *out);
void replica_flows(const void *values, const struct mk_metric *metric, struct mk_exposition *out);
/* The offset is that of a member `sent_..` of struct mk_sfc_counters. */
void replica_counts(const void *values, const struct mk_metric *metric, struct mk_exposition *out);

#endif
