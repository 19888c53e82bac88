// SPDX-License-Identifier: Apache-2.0
/* Names of policies and rules, and which of them decide about a flow. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/print.h"
#include "cli/inspect/policy.h"
#include "cli/inspect/view_internal.h"

/* ---- tables ---------------------------------------------------------------------------------- */

static int read_state(struct mk_cli_policies *policies, struct mk_error *err)
{
	cleanup_table struct mk_table table = { 0 };
	struct mk_policy_state state = { 0 };
	const __u32 zero = 0;
	int ret = mk_table_open(&table, policies->view->dir, "policy_state", sizeof(zero),
				sizeof(state), err);

	ret = ret ?: mk_table_get(&table, &zero, &state, err);
	policies->on = state.on;
	return ret;
}

int mk_cli_policies_open(struct mk_cli_policies *policies, const struct mk_view *view,
			 struct mk_error *err)
{
	int ret;

	*policies = (struct mk_cli_policies){ .view = view };
	ret = mk_table_open(&policies->pods, view->dir, "pod_policies", sizeof(__u32),
			    sizeof(struct mk_pod_policy), err);
	if (ret == 0)
		ret = mk_table_open(&policies->counts, view->dir, "policy_counts",
				    sizeof(struct mk_policy_count_key),
				    sizeof(struct mk_policy_count), err);
	ret = ret ?: mk_policy_maps_open(&policies->maps, view->dir, err);
	ret = ret ?: read_state(policies, err);
	return ret ?: mk_policy_names_read(view->state_dir, &policies->names, err);
}

void mk_cli_policies_close(struct mk_cli_policies *policies)
{
	mk_policy_maps_close(&policies->maps);
	mk_table_close(&policies->pods);
	mk_table_close(&policies->counts);
	mk_policy_names_release(&policies->names);
	policies->on = false;
}

uint64_t mk_policy_set_of(const struct mk_cli_policies *policies, const struct mk_view_pod *pod,
			  enum mk_policy_direction direction)
{
	const __u32 slot = mk_pod_slot(&pod->addr, policies->pods.max_entries);
	struct mk_pod_policy entry;

	if (!policies->on)
		return MK_SET_OPEN;
	if (mk_table_get(&policies->pods, &slot, &entry, NULL) < 0 ||
	    entry.ifindex != pod->entry.ifindex || !mk_addr_eq(&entry.addr, &pod->addr))
		return MK_SET_PENDING;
	return entry.set[direction];
}

bool mk_policy_set_has_policies(const struct mk_cli_policies *policies, uint64_t set)
{
	struct mk_policy_chain_name chain;

	return set != MK_SET_OPEN &&
	       (!(set & MK_SET_HAS_CHAINS) || mk_policy_names_policy(&policies->names, set, 0) ||
		!mk_policy_names_chain(&policies->names, set, 0, &chain));
}

/* ---- one flow -------------------------------------------------------------------------------- */

static bool is_own_host(const struct mk_view *view, const struct mk_addr *addr)
{
	struct mk_route route;

	return mk_addr_is_loopback(addr) || mk_addr_eq(addr, &view->node.vpod_addr) ||
	       (mk_view_route(view, addr, &route) && route.type == MK_ROUTE_HOST);
}

/* A source is proved by a pod's own veth or by the overlay. */
static bool is_proved(const struct mk_view *view, const struct mk_addr *source)
{
	struct mk_route route;

	return mk_view_pod(view, source) ||
	       (mk_view_route(view, source, &route) && route.type == MK_ROUTE_OVERLAY);
}

static bool has_ports(uint8_t proto)
{
	return proto == IPPROTO_TCP || proto == IPPROTO_UDP || proto == IPPROTO_SCTP;
}

static struct mk_policy_question question_of(const struct mk_view *view, uint64_t set,
					     const struct mk_tuple *flow,
					     enum mk_policy_direction direction)
{
	const bool ingress = direction == MK_POLICY_INGRESS;
	const struct mk_addr *peer = ingress ? &flow->saddr : &flow->daddr;
	const bool unproved = ingress && !is_proved(view, peer);

	return (struct mk_policy_question){
		.set = set,
		.peer = *peer,
		.peer_unproved = unproved,
		.peer_in_pod_range =
			mk_addr_in(peer, &view->node.cluster_net, &view->node.cluster_mask) ||
			(unproved && mk_addr_in(peer, &view->node.vtep_net, &view->node.vtep_mask)),
		.is_itself = mk_addr_eq(&flow->saddr, &flow->daddr),
		.proto = flow->proto,
		.port = has_ports(flow->proto) ? ntohs(flow->dport) : 0,
	};
}

static int explain_nearest(const struct mk_cli_policies *policies,
			   const struct mk_policy_question *question,
			   const struct mk_policy_answer *answer,
			   enum mk_policy_direction direction, char *text, struct mk_error *err)
{
	struct mk_policy_nearest nearest = { 0 };
	int ret;

	if (answer->allowed || answer->tier != MK_TIER_NETWORK_POLICY)
		return 0;
	ret = mk_policy_nearest(&policies->maps, question, answer, &nearest, err);
	mk_policy_nearest_add(&policies->names, question->set, direction, &nearest, text);
	return ret;
}

static void explain_audit(const struct mk_cli_policies *policies, uint64_t set,
			  const struct mk_policy_answer *answer, char *text)
{
	const struct mk_policy_count_key decision = { .set = set,
						      .rule = answer->audit_rule,
						      .tier = (__u8)answer->audit_tier,
						      .denied = 1,
						      .audited = 1 };
	char why[MK_POLICY_TEXT_BYTES];

	if (answer->audit_denies)
		mk_policy_text_add(text, "; audit: would be denied: %s",
				   mk_policy_decision_text(&policies->names, &decision, why));
}

static void explain_answer(const struct mk_cli_policies *policies, uint64_t set,
			   const struct mk_policy_answer *answer, struct mk_policy_words *words)
{
	const struct mk_policy_count_key decision = { .set = set,
						      .rule = answer->rule,
						      .tier = (__u8)answer->tier,
						      .denied = !answer->allowed };

	words->allowed = answer->allowed;
	mk_policy_decision_text(&policies->names, &decision, words->text);
	mk_policy_chain_add(&policies->names, set, answer, words->text);
	explain_audit(policies, set, answer, words->text);
}

static void explain_elsewhere(const struct mk_view *view, const struct mk_addr *end,
			      struct mk_policy_words *words)
{
	char who[MK_VIEW_WHO_BYTES], at[MK_ENDPOINT_STRLEN];

	view_who(view, end, who);
	if (strncmp(who, "on ", 3) == 0)
		mk_policy_text_add(words->text, "%s is %s: ask there", mk_cli_endpoint(end, 0, at),
				   who);
	else
		mk_policy_text_add(words->text, "%s%s%s is no pod", mk_cli_endpoint(end, 0, at),
				   *who ? ", " : "", who);
}

int mk_policy_explain(const struct mk_cli_policies *policies, const struct mk_tuple *flow,
		      enum mk_policy_direction direction, bool nearest,
		      struct mk_policy_words *words, struct mk_error *err)
{
	const struct mk_addr *end = direction == MK_POLICY_INGRESS ? &flow->daddr : &flow->saddr;
	const struct mk_view *view = policies->view;
	const struct mk_view_pod *pod = mk_view_pod(view, end);
	struct mk_policy_question question;
	struct mk_policy_answer answer;
	uint64_t set;
	int ret;

	*words = (struct mk_policy_words){ .asked = pod, .allowed = true };
	if (!pod) {
		explain_elsewhere(view, end, words);
		return 0;
	}
	set = mk_policy_set_of(policies, pod, direction);
	if (direction == MK_POLICY_INGRESS && is_own_host(view, &flow->saddr)) {
		mk_policy_text_add(words->text, "a pod's own node always reaches it");
		return 0;
	}
	if (set == MK_SET_OPEN) {
		mk_policy_text_add(words->text, "no policy applies to %s", mk_view_pod_name(pod));
		return 0;
	}
	question = question_of(view, set, flow, direction);
	ret = mk_policy_ask(&policies->maps, &question, &answer, err);
	if (ret < 0)
		return ret;
	if (is_own_host(view, &flow->daddr))
		answer.chain = 0; /* no chain takes flows to the pod's own node */
	explain_answer(policies, set, &answer, words);
	if (nearest)
		ret = explain_nearest(policies, &question, &answer, direction, words->text, err);
	return ret;
}
