// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bpf/sfc_end.bpf.c - chains with ends (spec.ends). `sfc_port` passes on each packet from a port of
 * such a chain: an end's or a function's. The packet goes to the flow's next function, and after
 * the last one to the flow's replica of the other end. No address is translated and no TTL changes.
 *
 * All replicas of an end have the same addresses, so the flow's entry in map sfc_end_flows says
 * which one has the flow. Only an end begins flows. A position counts the places in the packet's
 * direction, as in sfc.h; the position behind the last function is the other end. */
#include "sfc_from.h"

/* The programs are loaded with a small inner map. The agent makes the others. It has sizes instead
 * of types: Linux 5.15 to 6.1 take no map without types where they have seen one with types.
 * (bpf_map_meta_equal() compares the offset of a timer: -EINVAL without types, or -ENOENT.) */
#define MK_PROTOTYPE_ENTRIES 64

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MK_SFC_CHAINS);
	__type(key, __u32);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_LRU_HASH);
			__uint(max_entries, MK_PROTOTYPE_ENTRIES);
			__uint(key_size, sizeof(struct mk_tuple));
			__uint(value_size, sizeof(struct mk_sfc_end_flow));
		});
} sfc_end_flows SEC(".maps");

/* The packet, while the program follows it. */
struct passing {
	struct mk_sfc_port port; /* by which it came */
	struct mk_tuple key; /* of its flow */
	void *flows; /* of its chain */
	struct mk_sfc_end_flow *known; /* the flow's entry; NULL: the flow is new */
};

/* ---- the flow -------------------------------------------------------------------------------- */

/* Find the flow of the packet. Returns MK_GO_ON or a drop reason. */
static __always_inline int find_end_flow(struct __sk_buff *skb, const struct packet *pkt,
					 struct scratch *room, struct passing *passing)
{
	__u32 chain = passing->port.chain;
	struct mk_tuple tuple;

	if (tuple_of_flow(skb, pkt, room, &tuple))
		return MK_DROP_SFC_FORGED;
	if (room->passing.outward)
		passing->key = tuple;
	else
		tuple_reverse(&passing->key, &tuple);
	passing->key.pad = 0;
	passing->key.path = 0;
	passing->flows = find_number(&sfc_end_flows, chain);
	if (!passing->flows)
		return MK_DROP_SFC_UNAVAILABLE;
	passing->known = bpf_map_lookup_elem(passing->flows, &passing->key);
	return MK_GO_ON;
}

/* Copy the flow to room->end_flow; a flow that begins has only its sender there. Returns MK_GO_ON
 * or a drop reason. */
static __always_inline int take_from_end(const struct packet *pkt, struct scratch *room,
					 struct passing *passing)
{
	struct mk_sfc_end_flow *flow = &room->end_flow;
	__u32 own = !passing->port.side, had;
	int begins;

	__builtin_memset(flow, 0, sizeof(*flow));
	if (passing->known)
		*flow = *passing->known;
	had = flow->end[own & 1];
	begins = !had || (flow->closing && is_first_of_tcp(pkt));
	if (!begins && had != passing->port.replica) {
		if (replica_find(had))
			return MK_DROP_SFC_AMBIGUOUS;
		begins = 1;
	}
	room->passing.begins = begins;
	if (!begins)
		return MK_GO_ON;
	if (pkt->l4 == MK_L4_ICMP_ERROR)
		return MK_DROP_SFC_FORGED;
	__builtin_memset(flow, 0, sizeof(*flow));
	flow->end[own & 1] = passing->port.replica;
	return MK_GO_ON;
}

static __always_inline __u32 end_place(__u32 position, int outward)
{
	return (position ^ (__u32)(outward - 1)) & (MK_SFC_FUNCTIONS - 1);
}

/* Set *@position to that of the function that has sent the packet. It passes through @room, or
 * the verifier would walk the rest for each position. Returns MK_GO_ON or a drop reason. */
static __always_inline int take_from_function(struct scratch *room, const struct passing *passing)
{
	volatile __u8 *next = &room->passing.position;
	int outward = room->passing.outward;

	if (!passing->known)
		return MK_DROP_SFC_FORGED;
	room->end_flow = *passing->known;
	*next = POSITION_FORGED;
	for (__u32 i = 0; i < MK_SFC_FUNCTIONS; i++)
		if (room->end_flow.replica[end_place(i, outward)] == passing->port.replica) {
			*next = i + 1;
			break;
		}
	return *next == POSITION_FORGED ? MK_DROP_SFC_FORGED : MK_GO_ON;
}

/* ---- the choice ------------------------------------------------------------------------------ */

/* Choose the replica of the place @at, whose flow has *@number. Returns MK_GO_ON or a drop
 * reason. */
static __always_inline int choose_for(struct scratch *room, const struct mk_sfc_place *at,
				      __u16 *number, int begins)
{
	struct path_choice *choice = &room->choice;
	__u32 function = at->function, had = *number;
	__u8 flags = at->flags;

	if (had ? !!replica_find(had) : !begins)
		return MK_GO_ON;
	if (had && flags & MK_SFC_KEEP_LOST)
		return MK_DROP_SFC_UNAVAILABLE;
	*number = 0;
	if (function)
		*number = choose_replica(choice, function,
					 hash_of_place(choice->hash[MK_POLICY_EGRESS], flags));
	return *number || !function || flags & MK_SFC_SKIP ? MK_GO_ON : MK_DROP_SFC_UNAVAILABLE;
}

/* Choose the functions that the flow lacks, and the end that the packet goes to. */
static __always_inline int choose_all(struct scratch *room, const struct passing *passing)
{
	const struct mk_tuple *key = &passing->key;
	__u32 side = passing->port.side & 1, id = passing->port.chain;
	const struct mk_sfc_chain *chain = find_number(&sfc_chains, id);
	__u32 any = key->sport; /* a number that the verifier does not know */
	struct mk_sfc_place end = { 0 };
	int ret;

	if (!chain || !chain->end[side])
		return MK_DROP_SFC_UNAVAILABLE;
	end.function = chain->end[side];
	room->choice.misses = 0;
	fill_hashes(room->choice.hash[MK_POLICY_EGRESS], &key->saddr, key->sport, &key->daddr,
		    key->dport, key->proto);
	change_hashes(&room->choice, room->flow.look);
	for (__u32 i = 0; i < MK_SFC_FUNCTIONS; i++) {
		/* a value in a register, or Linux 5.10 refuses the loop (back-edge) */
		__u32 place = forgotten(i, any) & (MK_SFC_FUNCTIONS - 1);

		ret = choose_for(room, &chain->place[place], &room->end_flow.replica[place],
				 room->passing.begins);
		if (ret != MK_GO_ON)
			return ret;
	}
	ret = choose_for(room, &end, &room->end_flow.end[side], 1);
	return ret == MK_GO_ON && may_look_again(room) ? MK_DROP_SFC_UNAVAILABLE : ret;
}

/* Choose, and note the choice. Returns MK_GO_ON or a drop reason. A function that has two places,
 * because its chain has got another order, would get the packet again and again. Then the flow
 * begins again with the next packet of an end. */
static __always_inline int choose_and_note(struct scratch *room, const struct passing *passing)
{
	int ret = choose_all(room, passing);

	if (ret != MK_GO_ON)
		return ret;
	if (has_twice(room->end_flow.replica)) {
		bpf_map_delete_elem(passing->flows, &passing->key);
		return MK_DROP_SFC_UNAVAILABLE;
	}
	if (bpf_map_update_elem(passing->flows, &passing->key, &room->end_flow, BPF_ANY))
		return MK_DROP_SFC_PATHS_FULL;
	return MK_GO_ON;
}

/* No replica was found: look at other slots. */
static __always_inline int choose_again(struct __sk_buff *skb, struct chain_ctx *ctx,
					const struct packet *pkt, struct scratch *room)
{
	if (!may_look_again(room))
		return drop(skb, ctx->hook, MK_DROP_SFC_UNAVAILABLE, &pkt->tuple);
	room->flow.look++;
	ctx->opens = CHAIN_RESUMES;
	return chain_next(skb, ctx, pkt, MK_PROG_SFC_END);
}

/* ---- the way --------------------------------------------------------------------------------- */

/* The replica at the first position from @position on that has one, or the other end's. The
 * position passes through @room, as above. */
static __always_inline __u32 next_replica(struct scratch *room, const struct passing *passing)
{
	const struct mk_sfc_end_flow *flow = &room->end_flow;
	volatile __u8 *found = &room->flow.resume;
	__u32 position;
	int outward = room->passing.outward;

	*found = MK_SFC_FUNCTIONS;
	for (position = room->passing.position; position < MK_SFC_FUNCTIONS; position++)
		if (flow->replica[end_place(position, outward)]) {
			*found = position;
			break;
		}
	position = *found;
	if (position == MK_SFC_FUNCTIONS)
		return flow->end[passing->port.side & 1];
	return flow->replica[end_place(position, room->passing.outward)];
}

/* Note that a packet of the flow has passed. */
static __always_inline void note_passed(const struct packet *pkt, struct mk_sfc_end_flow *flow)
{
	__u32 now_s = bpf_ktime_get_ns() / 1000000000;

	if (flow->seen_s != now_s)
		flow->seen_s = now_s;
	if (pkt->l4 == MK_L4_TCP && pkt->tcp_flags & (MK_TCP_FIN | MK_TCP_RST) && !flow->closing)
		flow->closing = 1;
}

/* Set the MAC addresses: functions see the frames of a wire between the inside end, whose MAC is
 * its port's, and the host. */
static __always_inline void set_end_macs(struct ethhdr *eth, __u8 mode, enum mk_sfc_side side)
{
	const __u8 host_end[ETH_ALEN] = { 0x06, 0x4d, MK_PORT_END, 0, 0, 1 };
	const __u8 pod_end[ETH_ALEN] = { 0x06, 0x4d, MK_PORT_END, 0, 0, 2 };

	if (mode == MK_PORT_ROUTED)
		set_function_macs(eth, pod_end, mode, side);
	else if (mode == MK_PORT_END || side == MK_SFC_OUTSIDE)
		set_macs(eth, host_end, pod_end);
	else
		set_macs(eth, pod_end, host_end);
}

/* Send the packet into the port of replica @number. */
static __always_inline int enter(struct __sk_buff *skb, struct chain_ctx *ctx,
				 const struct packet *pkt, __u32 number, enum mk_sfc_side side)
{
	const struct mk_sfc_replica *replica = replica_find(number);
	const struct mk_link_set *links = links_now();
	struct frame frame;

	if (!replica || !has_ports_here(replica))
		return drop(skb, ctx->hook, MK_DROP_SFC_UNAVAILABLE, &pkt->tuple);
	if (!links || frame_of(skb, &frame))
		return drop(skb, ctx->hook, MK_DROP_TRUNCATED, &pkt->tuple);
	if (exceeds_port(skb, pkt, replica->mode, links))
		return drop(skb, ctx->hook, MK_DROP_TOO_BIG, &pkt->tuple);
	count_sent(skb, pkt, number, side);
	set_end_macs(frame.eth, replica->mode, side);
	if (replica->mode == MK_PORT_INLINE)
		return bpf_redirect(replica->ifindex[side & 1], 0);
	return bpf_redirect_peer(replica->ifindex[side & 1], 0);
}

/* ---- the program ----------------------------------------------------------------------------- */

/* Take the packet's flow and set *@number to its next replica. Returns MK_GO_ON or a drop
 * reason. */
static __always_inline int follow_flow(const struct packet *pkt, struct scratch *room,
				       struct passing *passing, __u32 *number)
{
	int ret = room->passing.is_of_end ? take_from_end(pkt, room, passing)
					  : take_from_function(room, passing);

	if (ret != MK_GO_ON)
		return ret;
	note_passed(pkt, &room->end_flow);
	if (passing->known && !room->passing.begins)
		note_passed(pkt, passing->known);
	passing->known = NULL; /* or the verifier would walk the rest with it and without */
	if (!room->passing.begins) {
		*number = next_replica(room, passing);
		if (replica_find(*number))
			return MK_GO_ON;
	}
	ret = choose_and_note(room, passing);
	*number = next_replica(room, passing);
	return ret;
}

SEC("tc")
int sfc_end(struct __sk_buff *skb)
{
	struct scratch *room = scratch_of_this_cpu();
	struct passing passing = { 0 };
	__u32 ifindex = skb->ifindex, number = 0;
	const struct mk_sfc_port *port = find_number(&sfc_ports, ifindex);
	struct chain_ctx ctx;
	struct packet pkt;
	int ret = chain_packet(skb, &ctx, &pkt);

	if (ret != MK_GO_ON || !room || !port)
		return drop(skb, ctx.hook, MK_DROP_SFC_NO_CHAIN, &pkt.tuple);
	if (ctx.opens != CHAIN_RESUMES) {
		ret = fragment_gather(skb, &pkt, MK_HOOK_FUNCTION);
		if (ret < MK_GO_ON)
			return fragment_next(skb, &ctx, &pkt, ret);
		room->flow.look = 0;
		room->choice.misses = 0;
	}
	take_over(skb);
	forget_packet(&pkt, &ctx, ifindex);
	passing.port = *port;
	room->passing.outward = passing.port.side == MK_SFC_OUTSIDE;
	room->passing.is_of_end = passing.port.mode == MK_PORT_END;
	room->passing.begins = 0;
	room->passing.position = 0;
	ret = find_end_flow(skb, &pkt, room, &passing);
	if (ret == MK_GO_ON)
		ret = follow_flow(&pkt, room, &passing, &number);
	if (ret == MK_DROP_SFC_UNAVAILABLE)
		return choose_again(skb, &ctx, &pkt, room);
	if (ret != MK_GO_ON)
		return drop(skb, ctx.hook, ret, &pkt.tuple);
	count_received(skb, &pkt, passing.port.replica, passing.port.side);
	return enter(skb, &ctx, &pkt, number,
		     room->passing.outward ? MK_SFC_INSIDE : MK_SFC_OUTSIDE);
}

char LICENSE[] __attribute__((weak)) SEC("license") = "Dual BSD/GPL";
