// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bpf/sfc.bpf.c - service function chains. Program `sfc` takes a packet whose flow has a path to
 * the first function. Program `sfc_port`, at the host's ends of the functions' ports, takes it from
 * a function to the next one, or out of the chain. If the chained pod is on another node, it takes
 * the packet there.
 *
 * Functions see the real addresses: packets of the client after translation, answers before it. An
 * ICMP error goes as the packets of its direction do. Before `sfc`, `ilb` or `elb` has found and
 * refreshed the session; `sfc_port` only reads it. */
#include "partial.h"
#include "sfc_from.h"

/* ---- sfc: into the chain --------------------------------------------------------------------- */

/* Can the packet use each function of its path? */
static __always_inline int path_is_usable(const struct mk_sfc_path *path)
{
	for (__u32 place = 0; place < MK_SFC_PATH_FUNCTIONS; place++)
		if (path->replica[place] && !replica_find(path->replica[place]))
			return 0;
	return 1;
}

/* The path is gone, or a replica of it. Program `policy` asks for the chains of the flow again, and
 * `sfc_open` chooses another replica. An ICMP error does not: the next packet of the flow will. A
 * packet for which `sfc_open` has just chosen does not ask again. */
static __always_inline int choose_again(struct __sk_buff *skb, struct chain_ctx *ctx,
					const struct packet *pkt)
{
	if (pkt->l4 == MK_L4_ICMP_ERROR || ctx->opens == CHAIN_RESUMES ||
	    (is_first_of_tcp(pkt) && !(ctx->reverse_flags & MK_SESSION_FORWARD)))
		return drop(skb, ctx->hook, MK_DROP_SFC_UNAVAILABLE, &pkt->tuple);
	return chain_next(skb, ctx, pkt, MK_PROG_POLICY);
}

/* Set the ends of the flow. An ICMP error is from anybody: its flow is that of the packet it
 * quotes. Returns 0, or -1 if the error quotes too little. */
static __always_inline int read_ends(struct __sk_buff *skb, const struct packet *pkt,
				     struct scratch *room)
{
	int forward = is_forward(room);
	struct mk_addr sender = pkt->tuple.saddr;

	if (pkt->l4 == MK_L4_ICMP_ERROR) {
		if (packet_inner(skb, pkt, &room->inner))
			return -1;
		sender = room->inner.tuple.daddr;
	}
	room->flow.client = forward ? sender : room->request.to.daddr;
	room->flow.server = forward ? room->request.to.daddr : sender;
	return 0;
}

SEC("tc")
int sfc(struct __sk_buff *skb)
{
	struct scratch *room = scratch_of_this_cpu();
	const struct mk_sfc_path none = { 0 }, *path = &none;
	__u32 id, position = 0;
	struct chain_ctx ctx;
	struct packet pkt;
	struct entry entry;
	int ret = chain_packet(skb, &ctx, &pkt);

	if (room)
		room->flow.forward = !!(ctx.reverse_flags & MK_SESSION_FORWARD);
	if (ret != MK_GO_ON || !room || read_ends(skb, &pkt, room))
		return drop(skb, ctx.hook, MK_DROP_TRUNCATED, &pkt.tuple);
	id = room->request.to.path;
	if (id)
		path = find_number(&sfc_paths, id);
	if (!path || !path_is_usable(path))
		return choose_again(skb, &ctx, &pkt);
	if (ctx.opens == CHAIN_RESUMES)
		position = room->flow.resume;
	position = next_position(room, path, position);
	if (is_forward(room) || position == MK_SFC_NO_POSITION) {
		ret = translate(skb, &ctx, &pkt, room);
		if (ret != MK_GO_ON)
			return drop(skb, ctx.hook, ret, &pkt.tuple);
		forget_packet(&pkt, &ctx, room->flow.port);
	}
	if (resume_position(room) == MK_SFC_NO_POSITION)
		return leave_chain(skb, &ctx, &pkt);
	if (entry_find(&entry, path, room))
		return drop(skb, ctx.hook, MK_DROP_SFC_UNAVAILABLE, &pkt.tuple);
	return enter_function(skb, &ctx, &pkt, &entry);
}

/* ---- sfc_tap: a copy ------------------------------------------------------------------------- */

/* Prepare the frame for a tap of this node or of another one; the packet itself gets other MAC
 * addresses when it leaves. Returns the device of the copy, or a negative drop reason. */
static __always_inline int copy_device(struct __sk_buff *skb, const struct packet *pkt,
				       const struct mk_sfc_replica *replica, enum mk_sfc_side side)
{
	struct mk_sfc_mac to = mk_sfc_mac_make(MK_SFC_TO, side, 0, replica->uid_hash);
	struct mk_addr addr = chained_pod(skb, pkt, side == MK_SFC_INSIDE);
	const struct mk_link_set *links = links_now();
	const struct mk_pod *pod = pod_find(&addr);
	struct frame frame;

	if (!pod)
		return -MK_DROP_NO_POD;
	if (!links || frame_of(skb, &frame))
		return -MK_DROP_TRUNCATED;
	if (has_ports_here(replica)) {
		set_function_macs(frame.eth, pod->mac, replica->mode, side);
		return replica->ifindex[MK_SFC_INSIDE];
	}
	if (exceeds_carrier(skb, pkt, frame.ip, links))
		return -MK_DROP_TOO_BIG;
	set_macs(frame.eth, (const __u8 *)&to, replica->vtep_mac);
	return sfc_device() ?: -MK_DROP_SFC_UNAVAILABLE;
}

/* Send a copy of the packet to the tap @number. A copy that cannot be sent counts as dropped. */
static __always_inline void copy_to(struct __sk_buff *skb, const struct chain_ctx *ctx,
				    const struct packet *pkt, __u32 number, enum mk_sfc_side side)
{
	const struct mk_sfc_replica *replica = replica_find(number);
	int device = -MK_DROP_SFC_UNAVAILABLE;

	if (mk_node.makes_no_copies)
		return;
	if (replica)
		device = copy_device(skb, pkt, replica, side);
	if (device > 0 && bpf_clone_redirect(skb, device, 0))
		device = -MK_DROP_SFC_UNAVAILABLE;
	if (device > 0)
		count_sent(skb, pkt, number, side);
	else
		drop(skb, ctx->hook, -device, &pkt->tuple);
}

/* The packet is to enter a tap: a copy goes there, the packet goes on as if the tap had sent it. To
 * send the copy may run other programs, which use `scratch`: so the flow is found afterwards. */
SEC("tc")
int sfc_tap(struct __sk_buff *skb)
{
	struct chain_ctx ctx = { .hook = MK_HOOK_FUNCTION }, passed;
	__u32 entry = skb->cb[4];
	enum mk_sfc_side side = entry >> 16 & 1;
	struct mk_sfc_port port = { .replica = (__u16)entry, .side = !side, .mode = MK_PORT_TAP };
	struct packet pkt;
	int ret = chain_packet(skb, &passed, &pkt);

	if (ret != MK_GO_ON)
		return drop(skb, ctx.hook, ret, &pkt.tuple);
	copy_to(skb, &ctx, &pkt, port.replica, side);
	forget_packet(&pkt, &ctx, entry);
	return from_function(skb, &ctx, &pkt, &port, NULL);
}

/* ---- sfc_answer: what sessions learn of answers ---------------------------------------------- */

/* Note the answer in @session, the server's entry, as the programs before the chain would. To note
 * one twice changes nothing. Its own `replied` says that an answer has been noted here. */
static __always_inline void note_answer(struct __sk_buff *skb, const struct packet *pkt,
					struct mk_session *session)
{
	struct mk_session *forward;
	union tuple_key key;

	session_mark(skb, SERVICE_SESSIONS, session, pkt);
	if (session->stage || session->replied || pkt->tcp_flags & MK_TCP_RST)
		return;
	session_peer_key(&key, session);
	forward = bpf_map_lookup_elem(&sessions, &key);
	if (!forward)
		forward = bpf_map_lookup_elem(&sessions_young, &key);
	if (!forward || (pkt->l4 == MK_L4_TCP &&
			 session_note_sequence(skb, pkt, session, forward) && !forward->replied))
		return;
	forward->replied = 1;
	session->replied = 1;
}

SEC("tc")
int sfc_answer(struct __sk_buff *skb)
{
	struct scratch *room = scratch_of_this_cpu();
	struct mk_session *session;
	struct chain_ctx ctx;
	struct packet pkt;
	int ret = chain_packet(skb, &ctx, &pkt);

	if (ret != MK_GO_ON || !room)
		return drop(skb, ctx.hook, MK_DROP_TRUNCATED, &pkt.tuple);
	session = bpf_map_lookup_elem(&sessions, &room->outer);
	if (!session)
		session = bpf_map_lookup_elem(&sessions_young, &room->outer);
	if (session)
		note_answer(skb, &pkt, session);
	return leave_chain(skb, &ctx, &pkt);
}

/* ---- sfc_port: from a function --------------------------------------------------------------- */

/* Send the packet of @port to the flow's home, another node. The function may have made it longer
 * than what came by the device of chains. */
static __always_inline int to_home(struct __sk_buff *skb, struct chain_ctx *ctx,
				   const struct packet *pkt, const struct mk_sfc_port *port,
				   const struct mk_route *home)
{
	__u32 number = port->replica;
	const struct mk_sfc_replica *replica = find_number(&sfc_replicas, number);
	const struct mk_link_set *links = links_now();
	struct mk_sfc_mac from;
	struct frame frame;

	if (!replica)
		return drop(skb, ctx->hook, MK_DROP_SFC_NO_CHAIN, &pkt->tuple);
	if (!links || frame_of(skb, &frame))
		return drop(skb, ctx->hook, MK_DROP_TRUNCATED, &pkt->tuple);
	if (exceeds_carrier(skb, pkt, frame.ip, links))
		return drop(skb, ctx->hook, MK_DROP_TOO_BIG, &pkt->tuple);
	count_received(skb, pkt, port->replica, port->side);
	from = mk_sfc_mac_make(MK_SFC_FROM, port->side, 0, replica->uid_hash);
	return carry(skb, ctx, pkt, frame.eth, &from, home->vtep_mac);
}

/* Is the packet from the address of the function's own pod, as one that the function masquerades?
 * Returns the pod, or NULL. An ICMP error belongs to the flow that it quotes. */
static __always_inline const struct mk_pod *own_pod(const struct packet *pkt,
						    const struct mk_sfc_port *port)
{
	__u32 number = port->replica;
	const struct mk_sfc_replica *replica = find_number(&sfc_replicas, number);

	if (pkt->l4 == MK_L4_ICMP_ERROR || !replica ||
	    !mk_addr_eq(&replica->addr, &pkt->tuple.saddr))
		return NULL;
	return pod_find(&pkt->tuple.saddr);
}

/* Such a packet is the pod's own traffic. It goes on as if the pod had sent it by its own
 * interface: with the pod's policies, to Services, too. */
static __always_inline int as_of_pod(struct __sk_buff *skb, const struct chain_ctx *ctx,
				     const struct packet *pkt, const struct mk_sfc_port *port,
				     const struct mk_pod *pod)
{
	struct frame frame;

	if (frame_of(skb, &frame))
		return drop(skb, ctx->hook, MK_DROP_TRUNCATED, &pkt->tuple);
	count_received(skb, pkt, port->replica, port->side);
	set_macs(frame.eth, pod->mac, mk_node.gateway_mac);
	return bpf_redirect(pod->ifindex, BPF_F_INGRESS);
}

SEC("tc")
int sfc_port(struct __sk_buff *skb)
{
	struct chain_ctx ctx = { .hook = MK_HOOK_FUNCTION };
	const struct mk_tuple unknown = { 0 };
	const struct mk_sfc_port *port;
	__u32 ifindex = skb->ifindex;
	const struct mk_pod *own;
	struct mk_route home;
	struct packet pkt;
	int ret;

	port = find_number(&sfc_ports, ifindex);
	if (!port)
		return drop(skb, ctx.hook, MK_DROP_SFC_NO_CHAIN, &unknown);
	ret = packet_read(skb, &pkt);
	if (ret == MK_DROP_NOT_IPV4)
		ret = other_family_next(skb, MK_ENTRY_FUNCTION);
	if (ret == MK_GO_ON && is_of_link(&pkt))
		ret = MK_DROP_NEIGHBOUR_DISCOVERY;
	if (ret == MK_GO_ON)
		ret = check_partial(skb, &pkt);
	if (ret == MK_GO_ON && port->mode >= MK_PORT_TAP && !port->chain)
		ret = MK_DROP_SFC_FORGED;
	if (ret != MK_GO_ON)
		return drop(skb, ctx.hook, ret, &pkt.tuple);
	forget_packet(&pkt, &ctx, ifindex);
	if (port->chain)
		return chain_next(skb, &ctx, &pkt, MK_PROG_SFC_END);
	own = own_pod(&pkt, port);
	if (own)
		return as_of_pod(skb, &ctx, &pkt, port, own);
	if (find_home(skb, &pkt, port->side == MK_SFC_OUTSIDE, &home) == 0)
		return to_home(skb, &ctx, &pkt, port, &home);
	ret = fragment_gather(skb, &pkt, MK_HOOK_FUNCTION);
	if (ret < MK_GO_ON)
		return fragment_next(skb, &ctx, &pkt, ret);
	take_over(skb);
	forget_packet(&pkt, &ctx, ifindex);
	return from_function(skb, &ctx, &pkt, port, NULL);
}

char LICENSE[] __attribute__((weak)) SEC("license") = "Dual BSD/GPL";
