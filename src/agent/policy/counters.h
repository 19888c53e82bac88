/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/policy/counters.h - what policies have decided since the node's boot, for metrics. Map
 * policy_counts loses the rows of sets that are out of use. These sums keep what the rows had, so
 * no counter falls while the agent runs. */
#ifndef MK_AGENT_POLICY_COUNTERS_H
#define MK_AGENT_POLICY_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/report/metrics.h"
#include "policy/policy.h"

/* Further rules are in the sums only. */
#define COUNTERS_RULES_MAX 10000

struct counted_row;
struct counted_rule;
struct policy_counters {
	uint64_t flows[MK_FAMILIES][MK_POLICY_DIRECTIONS][MK_POLICY_OUTCOMES][MK_POLICY_TIERS];
	struct counted_row *rows; /* as last read */
	struct counted_rule *rules;
	struct mk_metrics_rule *list; /* of @rules */
	size_t rule_count;
	unsigned int turn;
};

/* Read a map: begin, see each row, end. @view: the rule that decided; NULL: not known. */
void counters_begin(struct policy_counters *counters);
void counters_see(struct policy_counters *counters, unsigned int family,
		  const struct mk_policy_count_key *key, uint64_t packets,
		  const struct mk_policy_rule_view *view);
void counters_end(struct policy_counters *counters);
/* Remove what is counted for policies that @exists does not know any more. */
void counters_forget(struct policy_counters *counters,
		     bool (*exists)(const void *ctx, const char *namespace_, const char *policy),
		     const void *ctx);
void counters_release(struct policy_counters *counters);

#endif
