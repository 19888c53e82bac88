/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/report/metrics_peers.h - samples of other clusters, for the table of metrics. Offsets
 * are in struct mk_metrics_peer. */
#ifndef MK_AGENT_REPORT_METRICS_PEERS_H
#define MK_AGENT_REPORT_METRICS_PEERS_H

#include "agent/report/values.h"

void peer_states(const void *values, const struct mk_metric *metric, struct mk_exposition *out);
void peer_nodes(const void *values, const struct mk_metric *metric, struct mk_exposition *out);
/* @offset: of a counter of struct mk_cluster_counters, which has two directions. */
void peer_traffic(const void *values, const struct mk_metric *metric, struct mk_exposition *out);
void peer_up(const void *values, const struct mk_metric *metric, struct mk_exposition *out);
void peer_rtt(const void *values, const struct mk_metric *metric, struct mk_exposition *out);
/* Write a number of each peer that has one. @offset: of a uint64_t; 0: unknown. */
void peer_known(const void *values, const struct mk_metric *metric, struct mk_exposition *out);

#endif
