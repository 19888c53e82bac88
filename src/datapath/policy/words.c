// SPDX-License-Identifier: Apache-2.0
#include "datapath/policy/words.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void mk_policy_text_add(char *text, const char *format, ...)
{
	size_t used = strlen(text);
	va_list args;

	va_start(args, format);
	vsnprintf(text + used, MK_POLICY_TEXT_BYTES - used, format, args);
	va_end(args);
}

const char *mk_policy_direction_name(enum mk_policy_direction direction)
{
	return direction == MK_POLICY_INGRESS ? "ingress" : "egress";
}

bool mk_policy_is_reason(unsigned int reason)
{
	return reason == MK_DROP_POLICY_INGRESS || reason == MK_DROP_POLICY_EGRESS ||
	       reason == MK_DROP_POLICY_PENDING || reason == MK_DROP_POLICY_NO_FLOW;
}

/* "shop/web-in rule 2", with the kind of a ClusterNetworkPolicy and the rule's name. */
static void add_rule(char *text, const struct mk_policy_rule_name *rule, bool audited)
{
	mk_policy_text_add(text, "%s%s rule %d",
			   mk_policy_name_isolates(rule->policy) ? "" : "ClusterNetworkPolicy ",
			   rule->policy, rule->index + 1);
	if (rule->name)
		mk_policy_text_add(text, " '%s'", rule->name);
	if (audited)
		mk_policy_text_add(text, " (audit)");
}

/* The tables are newer than the names, or the file of names is gone. */
static void add_unknown(char *text, uint64_t set, uint16_t number)
{
	mk_policy_text_add(text, "rule %u of set %016" PRIx64 ", whose name is not known", number,
			   set);
}

static bool find_rule(const struct mk_policy_names *names, uint64_t set, uint16_t number,
		      struct mk_policy_rule_name *rule)
{
	for (size_t i = 0; mk_policy_names_rule(names, set, i, rule); i++)
		if (rule->number == number)
			return true;
	return false;
}

static void add_decision(const struct mk_policy_names *names, uint64_t set, uint16_t number,
			 char *text)
{
	struct mk_policy_rule_name rule;

	if (!find_rule(names, set, number, &rule)) {
		add_unknown(text, set, number);
		return;
	}
	add_rule(text, &rule, mk_policy_names_audited(names, set, rule.policy));
	mk_policy_text_add(text, " (%s; %s)", rule.peers, rule.ports);
}

/* @audited: the policies that are audited count, too. */
static void add_isolating(const struct mk_policy_names *names, uint64_t set, bool audited,
			  char *text)
{
	const char *policy, *between = "isolated by ";

	for (size_t i = 0; (policy = mk_policy_names_policy(names, set, i)); i++) {
		bool is_audited = mk_policy_names_audited(names, set, policy);

		if (!mk_policy_name_isolates(policy) || (is_audited && !audited))
			continue;
		mk_policy_text_add(text, "%s%s%s", between, policy, is_audited ? " (audit)" : "");
		between = ", ";
	}
	if (*between == 'i')
		mk_policy_text_add(text, "isolated by set %016" PRIx64 ", whose name is not known",
				   set);
}

const char *mk_policy_decision_text(const struct mk_policy_names *names,
				    const struct mk_policy_count_key *decision, char *text)
{
	*text = '\0';
	if (decision->rule)
		add_decision(names, decision->set, decision->rule, text);
	else if (decision->tier == MK_TIER_NETWORK_POLICY && decision->denied)
		add_isolating(names, decision->set, decision->audited, text);
	else if (decision->tier == MK_TIER_NETWORK_POLICY)
		mk_policy_text_add(text, "a pod reaches itself");
	else if (decision->denied && decision->set == MK_SET_PENDING)
		mk_policy_text_add(text, "the pod's policies are not known yet");
	else if (decision->denied)
		mk_policy_text_add(text,
				   "a table of policies lacks an entry: the agent restores it");
	else if (decision->set & MK_SET_ONLY_AUDITS)
		mk_policy_text_add(text, "all policies of the pod are audited");
	else
		mk_policy_text_add(text, "no rule is about it");
	return text;
}

void mk_policy_chain_add(const struct mk_policy_names *names, uint64_t set,
			 const struct mk_policy_answer *answer, char *text)
{
	struct mk_policy_chain_name chain;

	if (!answer->chain)
		return;
	for (size_t i = 0; mk_policy_names_chain(names, set, i, &chain); i++)
		if (chain.number == answer->chain_rule) {
			mk_policy_text_add(text, "; chain %s (%s; %s)", chain.chain, chain.peers,
					   chain.ports);
			return;
		}
	mk_policy_text_add(text, "; chain number %u, whose name is not known", answer->chain);
}

void mk_policy_nearest_add(const struct mk_policy_names *names, uint64_t set,
			   enum mk_policy_direction direction,
			   const struct mk_policy_nearest *nearest, char *text)
{
	const char *peers = direction == MK_POLICY_INGRESS ? "from" : "to";
	struct mk_policy_rule_name rule;

	if (!nearest->rule)
		return;
	mk_policy_text_add(text, "; nearest: ");
	if (!find_rule(names, set, nearest->rule, &rule)) {
		add_unknown(text, set, nearest->rule);
		return;
	}
	add_rule(text, &rule, false);
	mk_policy_text_add(text, ", but only %s %s", nearest->matches_peer ? "for" : peers,
			   nearest->matches_peer ? rule.ports : rule.peers);
}
