/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/report/metrics_chains.h - samples of service function chains, for the table of
 * metrics. */
#ifndef MK_AGENT_REPORT_METRICS_CHAINS_H
#define MK_AGENT_REPORT_METRICS_CHAINS_H

#include "agent/report/chain_values.h"
#include "http/exposition.h"
#include "sfc/sfc.h"

/* Return the uint64_t at @offset of a struct. */
uint64_t count_at(const void *part, size_t offset);

void chain_states(struct mk_exposition *out, const char *name,
		  const uint64_t counts[MK_SFC_POD_STATES]);
/* @offset: of a number in struct mk_metrics_chain. */
void chain_flows(struct mk_exposition *out, const char *name, size_t offset,
		 const struct mk_metrics_chain *chains, size_t count);
void chain_replica_flows(struct mk_exposition *out, const char *name,
			 const struct mk_metrics_replica *replicas, size_t count);
/* Write the counters of the replicas of this node by side and direction. @offset: of a member
 * `sent_..` of struct mk_sfc_counters. */
void chain_replica_counts(struct mk_exposition *out, const char *name, size_t offset,
			  const struct mk_metrics_replica *replicas, size_t count);

#endif
