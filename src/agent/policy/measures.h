/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/policy/measures.h - the metrics of network policies: what the programs have decided,
 * and how long changes and pods wait for the tables. */
#ifndef MK_AGENT_POLICY_MEASURES_H
#define MK_AGENT_POLICY_MEASURES_H

#include "agent/core/core.h"
#include "agent/policy/counters.h"
#include "agent/policy/waits.h"

struct measures {
	struct policy_counters counters;
	uint64_t counted_ns; /* when @counters were read; 0: not yet */
	struct policy_waits waits;
	struct mk_histogram programming;
	uint64_t changed_ns; /* of the first change that the tables do not have; 0: none */
};

/* NULL: out of memory. */
struct measures *measures_new(void);
void measures_free(struct measures *measures);
/* An object changed; the tables have all changes. */
void measures_changed(struct measures *measures);
void measures_written(struct measures *measures);
/* Look at the pods of this node. */
void measures_see_pods(struct measures *measures, const struct mk_core *core);
/* Add what the programs have counted since the last call. Call it before sets are forgotten. */
void measures_count(struct measures *measures, const struct mk_core *core,
		    const struct mk_policies *compiler);
/* Fill the values of both pages. */
void measures_fill(struct measures *measures, const struct mk_core *core,
		   const struct mk_policies *compiler, struct mk_metrics *metrics);

#endif
