/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/report/metrics_peers.h - samples of other clusters, for the table of metrics. */
#ifndef MK_AGENT_REPORT_METRICS_PEERS_H
#define MK_AGENT_REPORT_METRICS_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/exposition.h"
#include "monokube/clusters.h"

/* Another cluster. */
struct mk_metrics_peer {
	const char *name;
	bool is_usable;
	uint64_t nodes; /* that get its packets */
	struct mk_cluster_counters counters; /* of all families */
};

/* Write one member of each peer. @offset: of `nodes`, or of a counter, which has two directions;
 * of `is_usable`: how many are usable. */
void peer_samples(struct mk_exposition *out, const char *name, size_t offset,
		  const struct mk_metrics_peer *peers, size_t count);

#endif
