/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/deliver.h - to a pod of this node. Most packets are for one, and need nothing else of the router:
 * whoever has seen to their Service delivers them himself, without the tail call. The rest, and what there is to
 * tell about a packet that cannot be delivered, is the router's. */
#ifndef MK_BPF_DELIVER_H
#define MK_BPF_DELIVER_H

#include "chain.h"
#include "rewrite.h"

/* Ethernet and IP header, in one bounds check. */
struct frame {
	struct ethhdr *eth;
	struct iphdr *ip;
};

static __always_inline int frame_of(struct __sk_buff *skb, struct frame *frame)
{
	frame->eth = packet_at(skb, 0, MK_L3_OFF + sizeof(struct iphdr));
	frame->ip = (void *)frame->eth + MK_L3_OFF;
	return frame->eth ? 0 : -1;
}

/* One hop less, unless the host's own stack did that or sends itself. Returns MK_PARSED or
 * MK_DROP_TTL_EXPIRED. */
static __always_inline int hop(const struct chain_ctx *ctx, struct iphdr *ip)
{
	if (ctx->hook == MK_HOOK_HOST)
		return MK_PARSED;
	return rewrite_ttl(ip) ? MK_DROP_TTL_EXPIRED : MK_PARSED;
}

/* Is @addr, if anybody's, a local pod's? The gateway in their range is the host. */
static __always_inline int is_local_pod(const struct mk_addr *addr)
{
	return is_local_pod_range(addr) && !is_addr(addr, mk_node_gateway());
}

/* Returns MK_PARSED, with the verdict in *@verdict, or a drop reason, with the frame as it was. */
static __always_inline int deliver(struct __sk_buff *skb, const struct chain_ctx *ctx,
				   const struct packet *pkt, int *verdict)
{
	struct mk_pod *pod = pod_find(&pkt->tuple.daddr);
	struct frame frame;

	if (!pod)
		return MK_DROP_NO_POD;
	if (frame_of(skb, &frame))
		return MK_DROP_TRUNCATED;
	if (hop(ctx, frame.ip) != MK_PARSED)
		return MK_DROP_TTL_EXPIRED;
	set_macs(frame.eth, mk_node.gateway_mac, pod->mac);
	/* past the queue of the host side, which a limit needs (struct mk_pod) */
	*verdict = pod->shaped ? bpf_redirect(pod->ifindex, 0) : bpf_redirect_peer(pod->ifindex, 0);
	return MK_PARSED;
}

static __always_inline int is_watched(void)
{
	const struct mk_runtime *settings = runtime_settings();

	return !settings || settings->watched;
}

/* As the router would: to a local pod at once, anywhere else by the router. */
static __always_inline int route_next(struct __sk_buff *skb, struct chain_ctx *ctx,
				      const struct packet *pkt)
{
	int verdict;

	if (!(ctx->flags & CHAIN_OF_SESSION) && is_local_pod(&pkt->tuple.daddr) && !is_watched() &&
	    deliver(skb, ctx, pkt, &verdict) == MK_PARSED)
		return verdict;
	return chain_next(skb, ctx, pkt, MK_PROG_ROUTER);
}

#endif
