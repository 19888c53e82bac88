// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bpf/sfc_overlay.bpf.c - service function chains between nodes (struct mk_sfc_mac). Program
 * `sfc_overlay`, at the VXLAN device of chains, takes packets to replicas of this node, without any
 * state, and takes up packets that replicas of other nodes have sent. Packets for a replica that is
 * not here go back, and get another replica at home. */
#include "sfc_from.h"

/* A frame by the device of chains: what it carries, and the replica that it names. */
struct arrival {
	struct mk_sfc_mac mac;
	__u32 number; /* 0: unknown */
	struct mk_sfc_replica *replica; /* NULL: unknown */
};

static __always_inline int is_for_this_node(const struct ethhdr *eth)
{
	__u8 differs = 0;

	for (int i = 0; i < ETH_ALEN; i++)
		differs |= eth->h_dest[i] ^ mk_node.vtep_mac[i];
	return !differs;
}

/* Read the frame's addresses. Returns MK_GO_ON or a drop reason. */
static __always_inline int read_arrival(struct __sk_buff *skb, struct arrival *frame)
{
	const struct ethhdr *eth = packet_at(skb, 0, sizeof(*eth));
	const __u32 *number;
	__u64 tag;

	if (!eth)
		return MK_DROP_TRUNCATED;
	if (!is_for_this_node(eth))
		return MK_DROP_OVERLAY_STRAY;
	__builtin_memcpy(&frame->mac, eth->h_source, sizeof(frame->mac));
	frame->number = 0;
	frame->replica = NULL;
	tag = mk_sfc_mac_tag(&frame->mac);
	number = bpf_map_lookup_elem(&sfc_tags, &tag);
	if (!number)
		return MK_GO_ON;
	frame->number = *number;
	frame->replica = bpf_map_lookup_elem(&sfc_replicas, &frame->number);
	if (frame->replica && (frame->replica->uid_hash & MK_SFC_TAG_MASK) != tag)
		frame->replica = NULL; /* the number has just got another owner */
	return MK_GO_ON;
}

/* ---- to a replica of this node --------------------------------------------------------------- */

/* Send the packet back to its home, the node of its chained pod. */
static __always_inline int send_back(struct __sk_buff *skb, struct chain_ctx *ctx,
				     const struct packet *pkt, const struct arrival *frame,
				     enum mk_sfc_carried carried)
{
	struct mk_sfc_mac back = frame->mac;
	struct mk_route home;
	struct ethhdr *eth;

	if (find_home(skb, pkt, mk_sfc_mac_side(&back) == MK_SFC_INSIDE, &home))
		return drop(skb, ctx->hook, MK_DROP_SFC_UNAVAILABLE, &pkt->tuple);
	back.what |= carried << 2; /* MK_SFC_TO is 0 */
	eth = packet_at(skb, 0, sizeof(*eth));
	if (!eth)
		return drop(skb, ctx->hook, MK_DROP_TRUNCATED, &pkt->tuple);
	return carry(skb, ctx, pkt, eth, &back, home.vtep_mac);
}

/* The MAC address of the pod with @addr, as any node computes it (src/base/ip.h). */
static __always_inline void mac_of_pod(const struct mk_addr *addr, __u8 mac[ETH_ALEN])
{
	mac[0] = 0x02;
	mac[1] = 0x4d;
	__builtin_memcpy(mac + 2, &addr->word[MK_ADDR_WORDS - 1], 4);
}

/* Take a packet into the replica's port. Only home can answer one that does not fit: the answer is
 * translated as the flow is. */
static __always_inline int to_replica(struct __sk_buff *skb, struct chain_ctx *ctx,
				      const struct packet *pkt, const struct arrival *frame)
{
	const struct mk_sfc_replica *replica = frame->replica;
	enum mk_sfc_side side = mk_sfc_mac_side(&frame->mac);
	const struct mk_link_set *links = links_now();
	__u8 pod_mac[ETH_ALEN];
	struct mk_addr pod;
	struct ethhdr *eth;

	if (!replica || !has_ports_here(replica))
		return send_back(skb, ctx, pkt, frame, MK_SFC_BACK);
	if (links && exceeds_port(skb, pkt, replica->mode, links))
		return send_back(skb, ctx, pkt, frame, MK_SFC_TOO_BIG);
	pod = chained_pod(skb, pkt, side == MK_SFC_INSIDE);
	mac_of_pod(&pod, pod_mac);
	eth = packet_at(skb, 0, sizeof(*eth));
	if (!eth)
		return drop(skb, ctx->hook, MK_DROP_TRUNCATED, &pkt->tuple);
	count_sent(skb, pkt, frame->number, side);
	return enter_port(replica, side, eth, pod_mac);
}

/* ---- from replicas of other nodes ------------------------------------------------------------ */

/* Take up what a replica of another node has sent, or what its node sends back because the replica
 * is gone: then it gets no more packets for a while, and another one takes its place. */
static __always_inline int take_up(struct __sk_buff *skb, struct chain_ctx *ctx, struct packet *pkt,
				   const struct arrival *frame)
{
	const struct mk_sfc_port port = { .replica = frame->number,
					  .side = mk_sfc_mac_side(&frame->mac) };
	int is_back = mk_sfc_mac_carried(&frame->mac) == MK_SFC_BACK;
	const struct mk_link_set *links = links_now();

	if (!links || !frame->replica || !is_remote(frame->replica))
		return drop(skb, ctx->hook, MK_DROP_SFC_NO_CHAIN, &pkt->tuple);
	if (is_back)
		frame->replica->back_ms = clock_ms() ?: 1;
	if (frame->replica->mode == MK_PORT_TAP) /* a copy, or forged */
		return drop(skb, ctx->hook, is_back ? MK_DROP_SFC_UNAVAILABLE : MK_DROP_SFC_FORGED,
			    &pkt->tuple);
	if (mk_sfc_mac_carried(&frame->mac) == MK_SFC_TOO_BIG)
		return answer_too_big(skb, ctx, pkt, links);
	return from_function(skb, ctx, pkt, &port, is_back ? &frame->mac : NULL);
}

SEC("tc")
int sfc_overlay(struct __sk_buff *skb)
{
	struct chain_ctx ctx = { .hook = MK_HOOK_FUNCTION };
	struct arrival frame;
	struct packet pkt;
	int ret = packet_read(skb, &pkt);

	if (ret == MK_DROP_NOT_IPV4)
		ret = other_family_next(skb, MK_ENTRY_SFC_OVERLAY);
	if (ret == MK_GO_ON && is_of_link(&pkt))
		ret = MK_DROP_NEIGHBOUR_DISCOVERY;
	if (ret == MK_GO_ON)
		ret = read_arrival(skb, &frame);
	if (ret != MK_GO_ON)
		return drop(skb, ctx.hook, ret, &pkt.tuple);
	forget_packet(&pkt, &ctx, skb->ifindex);
	if (mk_sfc_mac_carried(&frame.mac) == MK_SFC_TO)
		return to_replica(skb, &ctx, &pkt, &frame);
	ret = fragment_gather(skb, &pkt, MK_HOOK_FUNCTION);
	if (ret < MK_GO_ON)
		return fragment_next(skb, &ctx, &pkt, ret);
	forget_packet(&pkt, &ctx, skb->ifindex);
	return take_up(skb, &ctx, &pkt, &frame);
}

char LICENSE[] __attribute__((weak)) SEC("license") = "Dual BSD/GPL";
