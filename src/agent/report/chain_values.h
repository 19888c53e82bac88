/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/report/chain_values.h - what metrics say of service function chains. */
#ifndef MK_AGENT_REPORT_CHAIN_VALUES_H
#define MK_AGENT_REPORT_CHAIN_VALUES_H

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

#endif
