/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/report/metrics_peers.h - samples of other clusters, for the table of metrics. */
#ifndef MK_AGENT_REPORT_METRICS_PEERS_H
#define MK_AGENT_REPORT_METRICS_PEERS_H

#include "agent/report/metrics.h"
#include "http/exposition.h"

/* For struct mk_metric. */
void peer_states(const void *values, const struct mk_metric *metric, struct mk_exposition *out);
void peer_nodes(const void *values, const struct mk_metric *metric, struct mk_exposition *out);
/* metric->offset: of a counter in struct mk_cluster_counters. */
void peer_counts(const void *values, const struct mk_metric *metric, struct mk_exposition *out);

#endif
