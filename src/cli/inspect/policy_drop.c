// SPDX-License-Identifier: Apache-2.0
/* Which policies dropped a packet: the event names the set, the rule and the ends of the flow. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "cli/print.h"
#include "cli/inspect/policy.h"
#include "cli/inspect/view_internal.h"

#define SOON_NS (MK_NS_PER_S / 10)

/* "shop/web"; its address if no such pod is known. */
static const char *name_of(struct mk_events *events, uint64_t time_ns, const struct mk_addr *addr,
			   char *buf)
{
	const struct mk_view_pod *pod;
	char who[MK_VIEW_WHO_BYTES];

	events_name(events, time_ns, addr, who); /* reads names again */
	pod = mk_view_pod(&events->view, addr);
	if (pod)
		snprintf(buf, MK_VIEW_WHO_BYTES, "%s", mk_view_pod_name(pod));
	else
		mk_cli_endpoint(addr, 0, buf);
	return buf;
}

static bool is_in_packet(const struct mk_tuple *packet, const struct mk_addr *addr)
{
	return mk_addr_eq(&packet->saddr, addr) || mk_addr_eq(&packet->daddr, addr);
}

/* A packet to a Service does not show the pod that was chosen, so egress names it. */
static void tell_decision(struct mk_events *events, const struct mk_drop_event *event, char *text)
{
	const bool ingress = event->decided.direction == MK_POLICY_INGRESS;
	const struct mk_addr *peer = ingress ? &event->client : &event->server;
	char of[MK_VIEW_WHO_BYTES], to[MK_VIEW_WHO_BYTES], why[MK_POLICY_TEXT_BYTES];
	const bool hidden = !is_in_packet(&event->tuple, peer);

	name_of(events, event->time_ns, ingress ? &event->server : &event->client, of);
	if (hidden)
		name_of(events, event->time_ns, peer, to);
	mk_policy_decision_text(&events->policies.names, &event->decided, why);
	snprintf(text, MK_POLICY_TEXT_BYTES, "%s of %.150s%s%.150s: %.600s",
		 mk_policy_direction_name(event->decided.direction), of,
		 !hidden   ? ""
		 : ingress ? " from "
			   : " to ",
		 hidden ? to : "", why);
}

/* No policy was asked: name the pods that have a set. */
static void tell_pods(const struct mk_cli_policies *policies, const struct mk_tuple *packet,
		      char *text)
{
	const struct mk_addr *const ends[] = { &packet->saddr, &packet->daddr };

	for (size_t i = 0; i < MK_ARRAY_SIZE(ends); i++) {
		const struct mk_view_pod *pod = mk_view_pod(policies->view, ends[i]);

		if (pod && (mk_policy_set_of(policies, pod, MK_POLICY_INGRESS) != MK_SET_OPEN ||
			    mk_policy_set_of(policies, pod, MK_POLICY_EGRESS) != MK_SET_OPEN))
			snprintf(text, MK_POLICY_TEXT_BYTES, "of %s", mk_view_pod_name(pod));
	}
}

const char *events_reason(const struct mk_drop_event *event)
{
	return event->decided.audited ? "AUDIT" : mk_drop_reason_name(event->reason);
}

/* The agent writes a set's names before a packet meets the set: the file has unknown names. */
static uint64_t age_to_refresh(const struct mk_events *events, uint64_t set)
{
	if (set <= MK_SET_PENDING || mk_policy_names_policy(&events->policies.names, set, 0))
		return MK_NS_PER_S;
	return SOON_NS;
}

static int refresh(struct mk_events *events, const struct mk_drop_event *event)
{
	const uint64_t age_ns = event->time_ns - events->policies_ns;

	if (events->policies_ns && age_ns <= age_to_refresh(events, event->decided.set))
		return 0;
	mk_cli_policies_close(&events->policies);
	events->policies_ns = event->time_ns;
	return mk_cli_policies_open(&events->policies, &events->view, NULL);
}

const char *events_policy(struct mk_events *events, const struct mk_drop_event *event, char *text)
{
	*text = '\0';
	if (!mk_policy_is_reason(event->reason) || refresh(events, event) < 0)
		return text;
	if (event->decided.set != MK_SET_OPEN)
		tell_decision(events, event, text);
	else
		tell_pods(&events->policies, &event->tuple, text);
	return text;
}
