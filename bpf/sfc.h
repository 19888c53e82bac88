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
#include "scratch.h"

#define MK_SFC_NO_POSITION MK_SFC_PATH_FUNCTIONS

static __always_inline __u32 clock_ms(void)
{
	return bpf_ktime_get_ns() / 1000000;
}

/* Is the replica on another node? */
static __always_inline int is_remote(const struct mk_sfc_replica *replica)
{
	return *(const __u32 *)replica->vtep_mac || *(const __u16 *)(replica->vtep_mac + 4);
}

/* Does this node have the replica's ports? */
static __always_inline int has_ports_here(const struct mk_sfc_replica *replica)
{
	return replica->ifindex[MK_SFC_INSIDE] && replica->ifindex[MK_SFC_OUTSIDE];
}

/* Has its node just sent a packet back? */
static __always_inline int is_back(const struct mk_sfc_replica *replica)
{
	return replica->back_ms && clock_ms() - replica->back_ms < MK_SFC_BACK_MS;
}

/* Can packets go to the replica? */
static __always_inline int is_usable(const struct mk_sfc_replica *replica)
{
	if (replica->state != MK_SFC_USABLE)
		return 0;
	return has_ports_here(replica) || (is_remote(replica) && !is_back(replica));
}

/* Find the replica @number. Returns NULL if packets cannot go there. */
static __always_inline const struct mk_sfc_replica *replica_find(__u32 number)
{
	const struct mk_sfc_replica *replica = find_number(&sfc_replicas, number);

	/* forgotten: or the verifier walks the rest for each way to the same answer */
	return replica && forgotten(is_usable(replica), replica->back_ms) ? replica : NULL;
}

/* ---- the choice of replicas ------------------------------------------------------------------ */

/* Slots to look at for usable replicas. After a loss a slot may name the lost one, until the agent
 * has written the slots again. Each look is a run of the program, so that the verifier walks it
 * once. */
#define MK_SFC_PROBES 16

/* Fill the hashes of one chain, whose pod is at the end @pod of the flow. They are the same for the
 * flow in both directions, and for a flow that the peer begins from the same ports. */
static __always_inline void fill_hashes(__u32 hash[PATH_HASHES], const struct mk_addr *pod,
					__be16 pod_port, const struct mk_addr *peer,
					__be16 peer_port, __u8 proto)
{
	struct mk_tuple tuple = { .sport = pod_port, .dport = peer_port, .proto = proto };
	const struct mk_tuple nothing = { 0 };

	tuple.saddr = *pod;
	tuple.daddr = *peer;
	hash[PATH_BY_FLOW] = tuple_hash(&tuple);
	tuple = nothing;
	tuple.saddr = *pod;
	hash[PATH_BY_POD] = tuple_hash(&tuple);
	tuple = nothing;
	tuple.daddr = *peer;
	hash[PATH_BY_PEER] = tuple_hash(&tuple);
}

static __always_inline __u32 hash_of_place(const __u32 hash[PATH_HASHES], __u8 flags)
{
	if (flags & MK_SFC_HASH_POD)
		return hash[PATH_BY_POD];
	return hash[flags & MK_SFC_HASH_PEER ? PATH_BY_PEER : PATH_BY_FLOW];
}

/* Another hash for each further look. */
static __always_inline void change_hashes(struct path_choice *choice, __u8 look)
{
	for (int i = 0; look && i < MK_POLICY_DIRECTIONS * PATH_HASHES; i++) {
		__u32 *hash = &choice->hash[i / PATH_HASHES][i % PATH_HASHES];

		*hash = hash_finish(*hash + look * 0x9e3779b1);
	}
}

/* Choose a replica of function @key. Returns its number, or 0 if none is usable. */
static __always_inline __u16 choose_replica(struct path_choice *choice, __u32 key, __u32 hash)
{
	const struct mk_sfc_function *function = find_number(&sfc_functions, key);
	__u32 slot = hash % MK_SFC_SLOTS;
	__u16 number;

	/* one that user space replaces may be missed for an instant */
	if (!function)
		function = find_number(&sfc_functions, key);
	if (!function)
		return 0;
	asm volatile("" : "+r"(slot)); /* or clang removes the mask */
	number = function->replica[slot & 1023];
	if (!number || replica_find(number))
		return number;
	choice->misses = 1;
	return 0;
}
_Static_assert(sizeof(((struct mk_sfc_function *)0)->replica) +
			       sizeof(((struct mk_sfc_function *)0)->pad) ==
		       1024 * sizeof(__u16),
	       "the mask keeps the index inside");

/* Has a replica two of the places of a chain? Without branches, which the verifier would follow. */
static __always_inline __u32 has_twice(const __u16 replica[MK_SFC_FUNCTIONS])
{
	__u32 twice = 0;

#pragma clang loop unroll(disable) /* the stack is too small for all at once */
	for (__u32 i = 0; i < MK_SFC_FUNCTIONS * MK_SFC_FUNCTIONS / 2; i++) {
		__u32 other = i + 1 + i / MK_SFC_FUNCTIONS;
		__u32 a = replica[i % MK_SFC_FUNCTIONS], b = replica[other % MK_SFC_FUNCTIONS];

		twice |= ((a ^ b) - 1) & (0 - a); /* the top bit: equal, and not 0 */
	}
	return twice >> 31;
}

/* Did a slot name a replica that is not usable, and are there further slots to look at? */
static __always_inline int may_look_again(const struct scratch *room)
{
	return room->choice.misses && room->flow.look < MK_SFC_PROBES - 1;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* Does the packet go from the client to the server? Read from @room each time: the verifier would
 * walk the rest once for each direction that it has seen. */
static __always_inline int is_forward(const struct scratch *room)
{
	return *(const volatile __u8 *)&room->flow.forward;
}

/* The position at which the packet goes on, read from @room as above. */
static __always_inline __u32 resume_position(const struct scratch *room)
{
	return *(const volatile __u8 *)&room->flow.resume;
}

/* @forward: 1 or 0. Without a branch, which the verifier would follow at each position. */
static __always_inline __u32 place_at(__u32 position, int forward)
{
	return (position ^ (__u32)(forward - 1)) & (MK_SFC_PATH_FUNCTIONS - 1);
}

/* Does the place belong to the chain of the client? */
static __always_inline int is_egress_place(__u32 place)
{
	return place < MK_SFC_FUNCTIONS;
}

/* Find the first position from @position on that has a replica, or MK_SFC_NO_POSITION. It passes
 * through @room, or the verifier would walk the rest for each position. */
static __always_inline __u32 next_position(struct scratch *room, const struct mk_sfc_path *path,
					   __u32 position)
{
	volatile __u8 *found = &room->flow.resume;
	int forward = is_forward(room);

	*found = MK_SFC_NO_POSITION;
	for (; position < MK_SFC_PATH_FUNCTIONS; position++)
		if (path->replica[place_at(position, forward)]) {
			*found = position;
			break;
		}
	return *found;
}

/* The side by which a packet enters the function at @position. The chained pod is at `inside`: the
 * packet leaves one pod in the first half of the positions, and comes to another in the second. */
static __always_inline enum mk_sfc_side entry_side(__u32 position)
{
	return position < MK_SFC_FUNCTIONS ? MK_SFC_INSIDE : MK_SFC_OUTSIDE;
}

static __always_inline void count_sent(const struct __sk_buff *skb, const struct packet *pkt,
				       __u32 replica, enum mk_sfc_side side)
{
	struct mk_sfc_counters *counters = find_number(&sfc_counters, replica);
	struct wire_count count = wire_count(skb, pkt);

	if (!counters)
		return;
	counters->sent_packets[side & 1] += count.packets;
	counters->sent_bytes[side & 1] += count.bytes;
}

static __always_inline void count_received(const struct __sk_buff *skb, const struct packet *pkt,
					   __u32 replica, enum mk_sfc_side side)
{
	struct mk_sfc_counters *counters = find_number(&sfc_counters, replica);
	struct wire_count count = wire_count(skb, pkt);

	if (!counters)
		return;
	counters->received_packets[side & 1] += count.packets;
	counters->received_bytes[side & 1] += count.bytes;
}

/* Set the MAC addresses of the frame on the own wire of the pod with @pod_mac. In mode Routed the
 * function's kernel receives the frame, so the frame has the port's addresses
 * (src/datapath/pods/port.h). */
static __always_inline void set_function_macs(struct ethhdr *eth, const __u8 *pod_mac, __u8 mode,
					      enum mk_sfc_side side)
{
	const __u8 host_end[ETH_ALEN] = { 0x06, 0x4d, MK_PORT_ROUTED, side, 0, 1 };
	const __u8 pod_end[ETH_ALEN] = { 0x06, 0x4d, MK_PORT_ROUTED, side, 0, 2 };

	if (mode == MK_PORT_ROUTED)
		set_macs(eth, host_end, pod_end);
	else if (side == MK_SFC_INSIDE)
		set_macs(eth, pod_mac, mk_node.gateway_mac);
	else
		set_macs(eth, mk_node.gateway_mac, pod_mac);
}

/* Would the port's device drop the packet because of its size? A port of mode Inline has the MTU of
 * the overlay, and no device behind it segments or fragments. */
static __always_inline int exceeds_port(struct __sk_buff *skb, const struct packet *pkt, __u8 mode,
					const struct mk_link_set *links)
{
	return mode == MK_PORT_INLINE && wire_bytes(skb, pkt) > links->overlay_mtu_bytes;
}

/* Would the device between nodes drop the packet because of its size? An IPv4 packet without DF is
 * fragmented instead, as part of its carrier. */
static __always_inline int exceeds_carrier(struct __sk_buff *skb, const struct packet *pkt,
					   const ip_header *ip, const struct mk_link_set *links)
{
	if (MK_CARRIERS_FRAGMENT && ip_may_fragment(ip))
		return 0;
	return wire_bytes(skb, pkt) > links->overlay_mtu_bytes;
}

static __always_inline int answer_too_big(struct __sk_buff *skb, struct chain_ctx *ctx,
					  const struct packet *pkt, const struct mk_link_set *links)
{
	return chain_error(skb, ctx, pkt, MK_DROP_TOO_BIG, MK_ICMP_TOO_BIG, MK_ICMP_TOO_BIG_CODE,
			   links->overlay_mtu_bytes);
}

/* Send the packet into the port @side of a replica of this node, in a frame of the pod with
 * @pod_mac. A program that reads frames itself (mode Inline) gets them by the device, with complete
 * checksums and cut to its MTU. The other functions get them as they are. */
static __always_inline int enter_port(const struct mk_sfc_replica *replica, enum mk_sfc_side side,
				      struct ethhdr *eth, const __u8 *pod_mac)
{
	__u8 mode = replica->mode;

	set_function_macs(eth, pod_mac, mode, side);
	if (mode == MK_PORT_INLINE)
		return bpf_redirect(replica->ifindex[side & 1], 0);
	return bpf_redirect_peer(replica->ifindex[side & 1], 0);
}

/* The ifindex of the device between nodes; 0: there is none. */
static __always_inline __u32 sfc_device(void)
{
	const struct mk_links *found = find_number(&links, 0);

	return found ? found->sfc_ifindex : 0;
}

/* Send the frame to the node with @vtep_mac, by the device of chains. */
static __always_inline int carry(struct __sk_buff *skb, const struct chain_ctx *ctx,
				 const struct packet *pkt, struct ethhdr *eth,
				 const struct mk_sfc_mac *source, const __u8 *vtep_mac)
{
	__u32 device = sfc_device();

	if (!device)
		return drop(skb, ctx->hook, MK_DROP_SFC_UNAVAILABLE, &pkt->tuple);
	set_macs(eth, (const __u8 *)source, vtep_mac);
	return bpf_redirect(device, 0);
}

/* The place of a path that a packet enters. */
struct entry {
	const struct mk_sfc_replica *replica; /* usable */
	__u32 number; /* of the replica */
	__u32 place;
	enum mk_sfc_side side;
	const struct mk_addr *pod_addr; /* of the pod whose chain it is */
};

/* Find the place of @path at which the packet goes on. Returns 0, or -1 if its replica is not
 * usable. */
static __always_inline int entry_find(struct entry *entry, const struct mk_sfc_path *path,
				      const struct scratch *room)
{
	__u32 position = resume_position(room);

	entry->place = place_at(position, is_forward(room));
	entry->number = path->replica[entry->place];
	entry->replica = replica_find(entry->number);
	entry->side = entry_side(position);
	entry->pod_addr = is_egress_place(entry->place) ? &room->flow.client : &room->flow.server;
	return entry->replica ? 0 : -1;
}

/* Let program `sfc_tap` send a copy of the packet to the tap, and take the packet further. */
static __always_inline int copy_next(struct __sk_buff *skb, struct chain_ctx *ctx,
				     const struct packet *pkt, const struct entry *entry)
{
	skb->cb[4] = entry->side << 16 | entry->number;
	return chain_next(skb, ctx, pkt, MK_PROG_SFC_TAP);
}

/* Send the packet into the function. */
static __always_inline int enter_function(struct __sk_buff *skb, struct chain_ctx *ctx,
					  const struct packet *pkt, const struct entry *entry)
{
	const struct mk_sfc_replica *replica = entry->replica;
	const struct mk_link_set *links = links_now();
	const struct mk_pod *pod = pod_find(entry->pod_addr);
	int here = has_ports_here(replica);
	struct mk_sfc_mac to;
	struct frame frame;

	if (replica->mode == MK_PORT_TAP)
		return copy_next(skb, ctx, pkt, entry);
	if (!pod)
		return drop(skb, ctx->hook, MK_DROP_NO_POD, &pkt->tuple);
	if (!links || frame_of(skb, &frame))
		return drop(skb, ctx->hook, MK_DROP_TRUNCATED, &pkt->tuple);
	if (here ? exceeds_port(skb, pkt, replica->mode, links)
		 : exceeds_carrier(skb, pkt, frame.ip, links))
		return answer_too_big(skb, ctx, pkt, links);
	count_sent(skb, pkt, entry->number, entry->side);
	if (here)
		return enter_port(replica, entry->side, frame.eth, pod->mac);
	to = mk_sfc_mac_make(MK_SFC_TO, entry->side, entry->place, replica->uid_hash);
	return carry(skb, ctx, pkt, frame.eth, &to, replica->vtep_mac);
}

#endif
