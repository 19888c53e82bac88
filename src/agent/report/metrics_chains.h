/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/report/metrics_chains.h - samples of service function chains, for the table of
 * metrics. */
#ifndef MK_AGENT_REPORT_METRICS_CHAINS_H
#define MK_AGENT_REPORT_METRICS_CHAINS_H

#include "agent/report/values.h"

/* Return the uint64_t at @offset of a struct. */
uint64_t count_at(const void *part, size_t offset);

void chain_states(const void *values, const struct mk_metric *metric, struct mk_exposition *out);
/* @offset: of a number in struct mk_metrics_chain. */
void chain_flows(const void *values, const struct mk_metric *metric, struct mk_exposition *out);
void chain_replica_flows(const void *values, const struct mk_metric *metric,
			 struct mk_exposition *out);
/* Write the counters of the replicas of this node by side and direction. @offset: of a member
 * `sent_..` of struct mk_sfc_counters. */
void chain_replica_counts(const void *values, const struct mk_metric *metric,
			  struct mk_exposition *out);

#endif
