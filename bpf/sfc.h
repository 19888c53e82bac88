/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/sfc.h - the way of a packet along the path of its flow (struct mk_sfc_path). A place is an
 * index of the path's replicas. A position counts the places in the packet's direction: from the
 * client upwards, from the server downwards. "Chain" alone means tail calls (chain.h), so all of
 * this is called sfc. */
#ifndef MK_BPF_SFC_H
#define MK_BPF_SFC_H

#include "account.h"
#include "chain.h"
#include "deliver.h"

#define MK_SFC_NO_POSITION MK_SFC_PATH_FUNCTIONS

/* Find the replica @number. Returns NULL if packets cannot go there. */
static __always_inline const struct mk_sfc_replica *replica_find(__u32 number)
{
	const struct mk_sfc_replica *replica = bpf_map_lookup_elem(&sfc_replicas, &number);

	if (!replica || replica->state != MK_SFC_USABLE)
		return NULL;
	return replica->ifindex[MK_SFC_INSIDE] && replica->ifindex[MK_SFC_OUTSIDE] ? replica : NULL;
}

static __always_inline __u32 place_at(__u32 position, int forward)
{
	return (forward ? position : MK_SFC_PATH_FUNCTIONS - 1 - position) &
	       (MK_SFC_PATH_FUNCTIONS - 1);
}

/* Does the place belong to the chain of the client? */
static __always_inline int is_egress_place(__u32 place)
{
	return place < MK_SFC_FUNCTIONS;
}

/* Find the first position from @position on that has a replica, or MK_SFC_NO_POSITION. */
static __always_inline __u32 next_position(const struct mk_sfc_path *path, __u32 position,
					   int forward)
{
	for (__u32 i = 0; i < MK_SFC_PATH_FUNCTIONS; i++)
		if (i >= position && path->replica[place_at(i, forward)])
			return i;
	return MK_SFC_NO_POSITION;
}

/* The side by which a packet enters the function at @place. The chained pod is at `inside`. */
static __always_inline enum mk_sfc_side entry_side(__u32 place, int forward)
{
	return is_egress_place(place) == !!forward ? MK_SFC_INSIDE : MK_SFC_OUTSIDE;
}

static __always_inline void count_sent(const struct __sk_buff *skb, const struct packet *pkt,
				       __u32 replica, enum mk_sfc_side side)
{
	struct mk_sfc_counters *counters = bpf_map_lookup_elem(&sfc_counters, &replica);
	struct wire_count count = wire_count(skb, pkt);

	if (!counters)
		return;
	counters->sent_packets[side & 1] += count.packets;
	counters->sent_bytes[side & 1] += count.bytes;
}

static __always_inline void count_received(const struct __sk_buff *skb, const struct packet *pkt,
					   __u32 replica, enum mk_sfc_side side)
{
	struct mk_sfc_counters *counters = bpf_map_lookup_elem(&sfc_counters, &replica);
	struct wire_count count = wire_count(skb, pkt);

	if (!counters)
		return;
	counters->received_packets[side & 1] += count.packets;
	counters->received_bytes[side & 1] += count.bytes;
}

/* Set the MAC addresses of the frame on @pod's own wire. In mode Routed the function's kernel
 * receives the frame, so the frame has the port's addresses (src/datapath/pods/port.h). */
static __always_inline void set_function_macs(struct ethhdr *eth, const struct mk_pod *pod,
					      __u8 mode, enum mk_sfc_side side)
{
	const __u8 host_end[ETH_ALEN] = { 0x06, 0x4d, MK_PORT_ROUTED, side, 0, 1 };
	const __u8 pod_end[ETH_ALEN] = { 0x06, 0x4d, MK_PORT_ROUTED, side, 0, 2 };

	if (mode == MK_PORT_ROUTED)
		set_macs(eth, host_end, pod_end);
	else if (side == MK_SFC_INSIDE)
		set_macs(eth, pod->mac, mk_node.gateway_mac);
	else
		set_macs(eth, mk_node.gateway_mac, pod->mac);
}

/* Would the port's device drop the packet because of its size? A port of mode Inline has the MTU of
 * the overlay, and no device behind it segments or fragments. */
static __always_inline int exceeds_port(struct __sk_buff *skb, const struct packet *pkt, __u8 mode,
					const struct mk_link_set *links)
{
	return mode == MK_PORT_INLINE && wire_bytes(skb, pkt) > links->overlay_mtu_bytes;
}

/* Send the packet into the function at @place. @pod_addr: the pod whose chain it is. A program that
 * reads frames itself (mode Inline) gets them by the device, with complete checksums and cut to its
 * MTU. The other functions get them as they are. */
static __always_inline int enter_function(struct __sk_buff *skb, struct chain_ctx *ctx,
					  const struct packet *pkt, __u32 number,
					  enum mk_sfc_side side, const struct mk_addr *pod_addr)
{
	const struct mk_sfc_replica *replica = replica_find(number);
	const struct mk_link_set *links = links_now();
	const struct mk_pod *pod = pod_find(pod_addr);
	struct ethhdr *eth = packet_at(skb, 0, sizeof(*eth));
	__u8 mode;

	if (!replica)
		return drop(skb, ctx->hook, MK_DROP_SFC_UNAVAILABLE, &pkt->tuple);
	if (!pod)
		return drop(skb, ctx->hook, MK_DROP_NO_POD, &pkt->tuple);
	if (!eth || !links)
		return drop(skb, ctx->hook, MK_DROP_TRUNCATED, &pkt->tuple);
	mode = replica->mode;
	if (exceeds_port(skb, pkt, mode, links))
		return chain_error(skb, ctx, pkt, MK_DROP_TOO_BIG, MK_ICMP_TOO_BIG,
				   MK_ICMP_TOO_BIG_CODE, links->overlay_mtu_bytes);
	set_function_macs(eth, pod, mode, side);
	count_sent(skb, pkt, number, side);
	if (mode == MK_PORT_INLINE)
		return bpf_redirect(replica->ifindex[side & 1], 0);
	return bpf_redirect_peer(replica->ifindex[side & 1], 0);
}

#endif
