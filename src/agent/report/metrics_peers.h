/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/report/metrics_peers.h - samples of other clusters, for the table of metrics. */
#ifndef MK_AGENT_REPORT_METRICS_PEERS_H
#define MK_AGENT_REPORT_METRICS_PEERS_H

#include <stddef.h>

#include "agent/report/chain_values.h"
#include "http/exposition.h"

/* Write one member of each peer. @offset: of `nodes`, `probes.is_down`, `probes.rtt_us` or
 * `handshake_age_s`; of a counter, which has two directions; of `is_usable`: how many are
 * usable. */
void peer_samples(struct mk_exposition *out, const char *name, size_t offset,
		  const struct mk_metrics_peer *peers, size_t count);

#endif
