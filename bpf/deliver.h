/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/deliver.h - delivery to a pod of this node. Most packets are for a local pod and need nothing
 * more from the router. `ilb`, `elb`, `open` and `policy` deliver them directly and save the tail
 * call. The router handles all other packets, and reports packets that cannot be delivered. */
#ifndef MK_BPF_DELIVER_H
#define MK_BPF_DELIVER_H

#include <linux/if_packet.h>

#include "chain.h"
#include "rewrite.h"

/* Take over a frame whose destination is not this device's MAC address: a function sends the pod's
 * frames through, and other clusters' frames name clusters. For the kernel it is for another host,
 * and a pod behind bpf_redirect_peer() would not get it. */
static __always_inline void take_over(struct __sk_buff *skb)
{
	if (skb->pkt_type != PACKET_HOST)
		bpf_skb_change_type(skb, PACKET_HOST);
}

/* Ethernet and IP header, found with one bounds check. */
struct frame {
	struct ethhdr *eth;
	ip_header *ip;
};

static __always_inline int frame_of(struct __sk_buff *skb, struct frame *frame)
{
	frame->eth = packet_at(skb, 0, MK_L3_OFF + sizeof(ip_header));
	frame->ip = (void *)frame->eth + MK_L3_OFF;
	return frame->eth ? 0 : -1;
}

#define MK_GSO_BY_FRAGS 0xffff /* as in the kernel; SCTP: segments have no common size */

/* The length of the largest packet on the next wire, as an IP total length: a GSO packet is cut
 * into segments first. Returns 0, which never is too long, for SCTP: its segments have the size
 * that their sender chose for the path. */
static __always_inline __u32 wire_bytes(struct __sk_buff *skb, const struct packet *pkt)
{
	if (skb->gso_size == MK_GSO_BY_FRAGS)
		return 0;
	if (skb->gso_size)
		return pkt->l4_off - MK_L3_OFF + pkt->l4_len + skb->gso_size;
	return skb->len - MK_L3_OFF;
}

/* Has a pod sent the packet, or a function of its chain? */
static __always_inline int is_from_pod(const struct chain_ctx *ctx)
{
	return ctx->hook == MK_HOOK_POD || ctx->hook == MK_HOOK_FUNCTION;
}

/* Would a VXLAN device with this MTU drop the packet because of its size? An IPv6 sender always
 * learns the MTU. An IPv4 packet without DF is fragmented instead, as part of its carrier. Two
 * kinds of packets with DF are treated the same way:
 *
 * - Packets of the host. If they are for one of its own addresses, the host believes that its
 *   loopback device carries them, and it cannot learn a path MTU.
 * - A pod's datagrams to a Service. The pod's route to the Service has the uplink's MTU, because
 *   the backend may be anywhere, so the first longer datagram would be lost. TCP needs no
 *   exception: a remote pod's SYN-ACK announces its segment size. */
static __always_inline int exceeds_tunnel(struct __sk_buff *skb, const struct chain_ctx *ctx,
					  const struct packet *pkt, const ip_header *ip,
					  __u32 mtu_bytes)
{
	if (wire_bytes(skb, pkt) <= mtu_bytes)
		return 0;
	if (!MK_CARRIERS_FRAGMENT)
		return 1;
	if (ctx->hook == MK_HOOK_HOST || ip_may_fragment(ip))
		return 0;
	return !is_from_pod(ctx) || !(ctx->flags & CHAIN_TRANSLATED) || pkt->l4 == MK_L4_TCP;
}

/* Decrement the TTL, unless the packet comes from the host, whose stack has done that or is the
 * sender. Returns MK_GO_ON or MK_DROP_TTL_EXPIRED. */
static __always_inline int hop(struct __sk_buff *skb, const struct chain_ctx *ctx, ip_header *ip)
{
	if (ctx->hook == MK_HOOK_HOST)
		return MK_GO_ON;
	return rewrite_ttl(skb, ip) ? MK_DROP_TTL_EXPIRED : MK_GO_ON;
}

/* Can @addr only be a local pod's? The gateway address in the pods' range is the host's. */
static __always_inline int is_local_pod(const struct mk_addr *addr)
{
	return is_local_pod_range(addr) && !is_addr(addr, mk_node_gateway());
}

/* Does the frame come from @pod's device and MAC address? */
static __always_inline int is_mac_of(const struct ethhdr *eth, const struct mk_pod *pod)
{
	return *(const __u32 *)eth->h_source == *(const __u32 *)pod->mac &&
	       *(const __u16 *)(eth->h_source + 4) == *(const __u16 *)(pod->mac + 4);
}

/* Deliver the packet to a local pod. Returns MK_GO_ON with the verdict in *@verdict, or a drop
 * reason; then the frame is unchanged. */
static __always_inline int deliver(struct __sk_buff *skb, const struct chain_ctx *ctx,
				   const struct packet *pkt, int *verdict)
{
	struct mk_pod *pod = pod_find(&pkt->tuple.daddr);
	struct frame frame;

	if (!pod)
		return MK_DROP_NO_POD;
	if (frame_of(skb, &frame))
		return MK_DROP_TRUNCATED;
	if (hop(skb, ctx, frame.ip) != MK_GO_ON)
		return MK_DROP_TTL_EXPIRED;
	set_macs(frame.eth, mk_node.gateway_mac, pod->mac);
	/* bpf_redirect_peer() skips the queue of the host side, which enforces limits (struct
	 * mk_pod) */
	*verdict = pod->shaped ? bpf_redirect(pod->ifindex, 0) : bpf_redirect_peer(pod->ifindex, 0);
	return MK_GO_ON;
}

static __always_inline int is_monitored(void)
{
	const struct mk_runtime *settings = runtime_settings();

	return !settings || settings->monitored;
}

/* Deliver a packet for a local pod directly; pass any other packet to the router. */
static __always_inline int route_next(struct __sk_buff *skb, struct chain_ctx *ctx,
				      const struct packet *pkt)
{
	int verdict;

	if (!(ctx->flags & CHAIN_OF_SESSION) && is_local_pod(&pkt->tuple.daddr) &&
	    !is_monitored() && deliver(skb, ctx, pkt, &verdict) == MK_GO_ON)
		return verdict;
	return chain_next(skb, ctx, pkt, MK_PROG_ROUTER);
}

#endif
