/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/report/chain_values.h - what metrics say of service function chains and of other
 * clusters. */
#ifndef MK_AGENT_REPORT_CHAIN_VALUES_H
#define MK_AGENT_REPORT_CHAIN_VALUES_H

#include "monokube/clusters.h"
#include "probes/probes.h"
#include "sfc/sfc.h"

/* A chain with ends. */
struct mk_metrics_chain {
	const char *namespace_, *name;
	uint64_t flows, max_flows; /* @flows: at the last sweep */
};

/* A replica of a chain's function. */
struct mk_metrics_replica {
	const char *namespace_, *function, *pod;
	bool is_here; /* on this node; another node counts the packets of its own */
	uint64_t flows; /* at the last sweep */
	struct mk_sfc_counters counters;
};

/* Another cluster. */
struct mk_metrics_peer {
	const char *name;
	bool is_usable;
	uint64_t nodes; /* that get its packets */
	uint64_t mtu_bytes; /* of packets to it; 0: it has no rows */
	struct mk_probes_state probes;
	uint64_t handshake_age_s; /* of WireGuard; 0: there was none */
	struct mk_cluster_counters counters; /* of all families */
};

#endif
