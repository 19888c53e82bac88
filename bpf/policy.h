/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/policy.h - which packets program `policy` has to see. While no pod of this node has a set,
 * this is one look-up in `policy_state`. */
#ifndef MK_BPF_POLICY_H
#define MK_BPF_POLICY_H

#include "chain.h"
#include "icmp_error.h"
#include "open.h"
#include "scratch.h"

static __always_inline int policies_are_on(void)
{
	const struct mk_policy_state *state = find_number(&policy_state, 0);

	return state && (state->on || state->listed == MK_POLICY_NOT_LISTED);
}

/* Find the entries of the local pod @addr. Returns 0 if there is no such pod. */
static __always_inline int policy_find(const struct mk_addr *addr, const struct mk_pod **pod,
				       const struct mk_pod_policy **policy)
{
	__u32 slot = mk_pod_slot(addr, mk_node.pod_slots);

	if (!is_local_pod_range(addr))
		return 0;
	*pod = find_number(&pods, slot);
	*policy = find_number(&pod_policies, slot);
	return *pod && *policy && mk_addr_eq(&(*pod)->addr, addr);
}

/* Does the entry belong to another pod than this one, which had the address before? */
static __always_inline int policy_is_of_other(const struct mk_pod *pod,
					      const struct mk_pod_policy *policy)
{
	return policy->ifindex != pod->ifindex || !mk_addr_eq(&policy->addr, &pod->addr);
}

/* The generation of the slot of @addr; 0 if it cannot be a local pod's. */
static __always_inline __u32 policy_generation(const struct mk_addr *addr)
{
	__u32 slot = mk_pod_slot(addr, mk_node.pod_slots);
	const volatile struct mk_pod_policy *policy;

	if (!is_local_pod_range(addr))
		return 0;
	policy = find_number(&pod_policies, slot);
	return policy ? policy->generation : 0;
}

/* The value of mk_session.policy_seen for a flow between @client and @server, after destination
 * translation. Both directions have the same. Read it before the sets are. */
static __always_inline __u16 policy_seen_now(const struct mk_addr *client,
					     const struct mk_addr *server)
{
	return mk_policy_seen(policy_generation(client) + policy_generation(server));
}

/* Read the sets of the local pod @addr. Other addresses have none. */
static __always_inline void policy_sets(const struct mk_addr *addr,
					__u64 sets[MK_POLICY_DIRECTIONS])
{
	const struct mk_pod_policy *policy;
	const struct mk_pod *pod;
	int is_pod = policy_find(addr, &pod, &policy);

	for (int i = 0; i < MK_POLICY_DIRECTIONS; i++) {
		sets[i] = MK_SET_OPEN;
		if (is_pod)
			sets[i] = policy_is_of_other(pod, policy)
					  ? MK_SET_PENDING
					  : *(const volatile __u64 *)&policy->set[i];
	}
}

/* Does a set apply to the local pod @addr? */
static __always_inline int policy_guards(const struct mk_addr *addr)
{
	const struct mk_pod_policy *policy;
	const struct mk_pod *pod;

	if (!policy_find(addr, &pod, &policy))
		return 0;
	return (policy->set[MK_POLICY_INGRESS] | policy->set[MK_POLICY_EGRESS]) ||
	       policy_is_of_other(pod, policy);
}

/* Has a flow between @client and @server, after destination translation, a guarded end? */
static __always_inline int policy_watches(const struct mk_addr *client,
					  const struct mk_addr *server)
{
	return policies_are_on() && (policy_guards(client) || policy_guards(server));
}

static __always_inline int policy_enforces(const struct mk_addr *addr)
{
	const struct mk_pod_policy *policy;
	const struct mk_pod *pod;

	if (!policy_find(addr, &pod, &policy))
		return 0;
	return mk_set_enforces(policy->set[MK_POLICY_INGRESS]) ||
	       mk_set_enforces(policy->set[MK_POLICY_EGRESS]) || policy_is_of_other(pod, policy);
}

/* May a set of one of the two ends drop a packet? Audited policies alone do not. */
static __always_inline int policy_any_enforces(const struct mk_addr *client,
					       const struct mk_addr *server)
{
	return policies_are_on() && (policy_enforces(client) || policy_enforces(server));
}

/* Must program `policy` see this packet, whose session @hit is? It must see each packet that may
 * begin a connection, and the first one after a change that may forbid something, or after the
 * flow's chain has gone. All other packets of a known flow pay the look-ups of two generations. */
static __always_inline int policy_asks_again(const struct packet *pkt,
					     const struct session_hit *hit)
{
	const struct mk_addr *sender = &pkt->tuple.saddr, *receiver = &hit->to.daddr;

	if (!policies_are_on())
		return hit->to.path != 0;
	if (!is_first_of_tcp(pkt) && pkt->l4 != MK_L4_ECHO_REQUEST && hit->policy_seen &&
	    hit->policy_seen == policy_seen_now(sender, receiver))
		return 0;
	return policy_guards(sender) || policy_guards(receiver) || hit->to.path;
}

/* Let program @prog go on with a packet that has the session @hit: MK_PROG_POLICY decides about it
 * again, MK_PROG_SFC takes it to its functions. */
static __always_inline int follow_next(struct __sk_buff *skb, struct chain_ctx *ctx,
				       const struct packet *pkt, const struct session_hit *hit,
				       enum mk_prog prog)
{
	struct scratch *room = scratch_of_this_cpu();

	if (!room)
		return drop(skb, ctx->hook, MK_DROP_POLICY_PENDING, &pkt->tuple);
	room->request.to = hit->to;
	ctx->opens = CHAIN_FOLLOWS;
	ctx->reverse_flags = hit->flags;
	ctx->flags |= hit->flags & CHAIN_OF_SESSION;
	return chain_next(skb, ctx, pkt, prog);
}

/* Let program `policy` decide about a packet without session that is for no Service and for no host
 * port. Such a packet needs nothing of program `open`. @node: mk_session_node() of its session. */
static __always_inline int policy_next_own(struct __sk_buff *skb, struct chain_ctx *ctx,
					   const struct packet *pkt, const struct session_hit *hit,
					   __u32 node)
{
	struct scratch *room = scratch_of_this_cpu();

	if (!room)
		return drop(skb, ctx->hook, MK_DROP_POLICY_PENDING, &pkt->tuple);
	session_request_begin(&room->request, pkt);
	room->request.reverse_flags = ctx->reverse_flags;
	room->request.set_id = node;
	ctx->opens = CHAIN_OPENS_OWN;
	if (hit->over)
		ctx->flags |= CHAIN_REUSES;
	return chain_next(skb, ctx, pkt, MK_PROG_POLICY);
}

/* Note in both entries of the packet's session that it may pass, and by which path. The path comes
 * first: a packet that meets only one of the two is asked about again. */
static __always_inline void note_seen(const struct packet *pkt,
				      const struct session_request *request)
{
	struct mk_session *session = bpf_map_lookup_elem(&sessions, &pkt->tuple);
	struct mk_tuple peer;

	if (!session)
		session = bpf_map_lookup_elem(&sessions_young, &pkt->tuple);
	if (session) {
		*(volatile __u16 *)&session->to.path = request->to.path;
		*(volatile __u16 *)&session->policy_seen = request->policy_seen;
	}
	tuple_reverse(&peer, &request->to);
	session = bpf_map_lookup_elem(&sessions, &peer);
	if (!session)
		session = bpf_map_lookup_elem(&sessions_young, &peer);
	if (session) {
		*(volatile __u16 *)&session->to.path = request->to.path;
		*(volatile __u16 *)&session->policy_seen = request->policy_seen;
	}
}

/* Is the ICMP error about a flow that a chain takes? Then @hit is the flow's session. */
static __always_inline int icmp_error_has_path(struct __sk_buff *skb, const struct packet *pkt,
					       struct session_hit *hit)
{
	struct scratch *room = scratch_of_this_cpu();
	struct mk_session *session;
	union tuple_key key;
	__u64 created_ns;

	if (!policies_are_on()) /* then no pod has a chain */
		return 0;
	session = room ? icmp_error_session(skb, SERVICE_SESSIONS, pkt, room, &key) : NULL;
	return session && session->to.path && session_read(session, hit, &created_ns) == 0;
}

/* Is the ICMP error @pkt about no known flow, and does it concern a guarded pod? Errors that this
 * host made pass. */
static __always_inline int policy_forbids_error(const struct chain_ctx *ctx,
						const struct packet *pkt)
{
	if (ctx->flags & CHAIN_TRANSLATED ||
	    !policy_any_enforces(&pkt->tuple.saddr, &pkt->tuple.daddr))
		return 0;
	return ctx->hook != MK_HOOK_HOST || !is_host_address(&pkt->tuple.saddr);
}

#endif
