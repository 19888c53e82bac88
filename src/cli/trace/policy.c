// SPDX-License-Identifier: Apache-2.0
/* What the copy of program `policy` decided: it counts each decision in its own table. */
#include <stdio.h>

#include "cli/inspect/policy.h"
#include "cli/trace/trace.h"

#define DECISIONS 8 /* one per direction, and more than that never */

static void tell_decision(struct mk_trace_story *story, const struct mk_cli_policies *policies,
			  const struct mk_policy_count_key *decision)
{
	const enum mk_policy_direction direction = decision->direction;
	char entry[64], text[MK_POLICY_TEXT_BYTES];
	struct mk_policy_words words;

	snprintf(entry, sizeof(entry), "policy_counts: set %016llx, rule %u", decision->set,
		 decision->rule);
	mk_policy_decision_text(&policies->names, decision, text);
	/* the address of a Service says nothing about its backend */
	if (decision->denied && !decision->audited &&
	    mk_policy_explain(policies, &story->request->tuple, direction, true, &words, NULL) ==
		    0 &&
	    words.asked && !words.allowed)
		snprintf(text, sizeof(text), "%s", words.text);
	trace_step(story, "policy", entry, "%s %s: %s", mk_policy_direction_name(direction),
		   decision->audited  ? "audit, would be denied"
		   : decision->denied ? "denied"
				      : "allowed",
		   text);
}

/* A drop because of pending policies has a step of its own. */
static void tell_decisions(struct mk_trace_story *story, const struct mk_cli_policies *policies,
			   const struct mk_policy_count_key *decisions, size_t count, int direction,
			   unsigned int audited)
{
	for (size_t i = 0; i < count; i++)
		if (decisions[i].direction == direction && decisions[i].audited == audited &&
		    decisions[i].set != MK_SET_PENDING)
			tell_decision(story, policies, &decisions[i]);
}

/* A known flow is asked about again, and counted only if it is denied. */
static void tell_known(struct mk_trace_story *story, const struct mk_cli_policies *policies)
{
	if (story->known && policies->on)
		trace_step(story, "policy", "policy_state",
			   "allowed when the session was opened, or after the last change");
}

void trace_tell_policies(struct mk_trace_story *story)
{
	cleanup_cli_policies struct mk_cli_policies policies = { 0 };
	struct mk_policy_count_key decisions[DECISIONS];
	size_t count = trace_copy_decisions(story->copy, decisions, DECISIONS);

	if (mk_cli_policies_open(&policies, story->view, NULL) < 0)
		return;
	if (count == 0)
		tell_known(story, &policies);
	for (int direction = MK_POLICY_DIRECTIONS - 1; direction >= 0; direction--)
		for (unsigned int audited = 0; audited < 2; audited++)
			tell_decisions(story, &policies, decisions, count, direction, audited);
}
