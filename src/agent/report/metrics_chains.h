/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/report/metrics_chains.h - samples of service function chains, for the table of
 * metrics. */
#ifndef MK_AGENT_REPORT_METRICS_CHAINS_H
#define MK_AGENT_REPORT_METRICS_CHAINS_H

#include "http/exposition.h"
#include "sfc/sfc.h"

void chain_states(struct mk_exposition *out, const char *name,
		  const uint64_t counts[MK_SFC_POD_STATES]);
/* Write the counters of a replica by side and direction. @labels: namespace, function and pod, and
 * two more, which this function sets. @offset: of a member `sent_..` of struct mk_sfc_counters. */
#define REPLICA_LABELS 3
void chain_counts(struct mk_exposition *out, const char *name, size_t offset,
		  const struct mk_sfc_counters *counters,
		  struct mk_label labels[REPLICA_LABELS + 2]);

#endif
