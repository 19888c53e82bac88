/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/masquerade.h - the short way out, for packets of established connections that leave
 * masqueraded. `ilb` finds such a packet's NAT session before it looks for Services, and does the
 * work of the router and of `nat` itself. Like conntrack, it leaves a connection as it began: an
 * address that becomes a Service's later counts for later connections.
 *
 * The NAT session has to be plain: the flow has no session but that one. Two flows may share a NAT
 * session: a pod's connection to a Service whose backend is outside, and the pod's own to that
 * backend, from the same port. Then the packets of both take the long way, because only the other
 * session tells them apart. So `nat` removes the mark with the first packet that is not plain. */
#ifndef MK_BPF_MASQUERADE_H
#define MK_BPF_MASQUERADE_H

#include "cluster.h"
#include "deliver.h"
#include "policy.h"
#include "session.h"
#include "uplink.h"

/* May @pkt belong to an established connection that is masqueraded? Only such packets pay for the
 * look-up. */
static __always_inline int may_be_masqueraded(const struct packet *pkt)
{
	return !mk_node.keeps_source && !is_pod_range(&pkt->tuple.daddr) && pkt->l4 == MK_L4_TCP &&
	       !is_first_of_tcp(pkt) && pkt->fragment == MK_WHOLE &&
	       !is_addr(&pkt->tuple.daddr, mk_node_addr()) && !may_be_view(&pkt->tuple.daddr);
}

/* The established, plain NAT session of @pkt, or NULL. Policies and `monokube monitor` have to see
 * each packet. */
static __always_inline struct mk_session *masquerade_find(const struct packet *pkt)
{
	struct mk_session *session;

	if (!may_be_masqueraded(pkt))
		return NULL;
	session = bpf_map_lookup_elem(&nat_sessions, &pkt->tuple);
	if (!session || !session->policy_seen || session_is_half_open(session) || is_monitored() ||
	    policy_watches(&pkt->tuple.saddr, &pkt->tuple.daddr))
		return NULL;
	return session;
}

/* The way of the packet, if it fits and its TTL lasts, which is then decremented. Returns 0, or -1
 * if the router has to answer. An address that the host has got since the flow began is the
 * host's. */
static __always_inline int way_taken(struct __sk_buff *skb, const struct chain_ctx *ctx,
				     const struct packet *pkt, struct mk_way *way_out)
{
	struct way_refusal refusal;
	struct frame frame;

	if (is_host_address(&pkt->tuple.daddr) || way_choose(skb, pkt, way_out, &refusal) ||
	    wire_bytes(skb, pkt) > way_out->mtu_bytes || frame_of(skb, &frame))
		return -1;
	return hop(skb, ctx, frame.ip) == MK_GO_ON ? 0 : -1;
}

/* Send the packet on if its flow is established and masqueraded. Returns 1 with the verdict in
 * *@verdict, otherwise 0 with the packet unchanged. */
static __always_inline int masquerade_known(struct __sk_buff *skb, struct chain_ctx *ctx,
					    struct packet *pkt, int *verdict)
{
	struct mk_session *session = masquerade_find(pkt);
	struct session_hit hit;
	struct mk_way way_out;
	__u64 created_ns;
	int ret;

	if (!session || session_read(session, &hit, &created_ns) ||
	    way_taken(skb, ctx, pkt, &way_out))
		return 0;
	session_touch(skb, NAT_SESSIONS, session, pkt);
	ret = rewrite(skb, pkt, &hit.to, &ctx->flags);
	*verdict = ret == MK_GO_ON ? way_send(&way_out) : drop(skb, ctx->hook, ret, &pkt->tuple);
	return 1;
}

#endif
