// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bpf/sfc.bpf.c - service function chains. Program `sfc` takes a packet whose flow has a path to
 * the first function. Program `sfc_port`, at the host's ends of the functions' ports, takes it from
 * a function to the next one, or out of the chain.
 *
 * Functions see the real addresses: packets of the client after translation, answers before it. An
 * ICMP error goes as the packets of its direction do. Before `sfc`, `ilb` or `elb` has found and
 * refreshed the session; `sfc_port` only reads it. */
#include <linux/if_packet.h>

#include "fragment.h"
#include "icmp_error.h"
#include "session.h"
#include "sfc.h"

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
 * `sfc_open` chooses another replica. An ICMP error does not: the next packet of the flow will. */
static __always_inline int choose_again(struct __sk_buff *skb, struct chain_ctx *ctx,
					const struct packet *pkt)
{
	if (pkt->l4 == MK_L4_ICMP_ERROR ||
	    (is_first_of_tcp(pkt) && !(ctx->reverse_flags & MK_SESSION_FORWARD)))
		return drop(skb, ctx->hook, MK_DROP_SFC_UNAVAILABLE, &pkt->tuple);
	return chain_next(skb, ctx, pkt, MK_PROG_POLICY);
}

/* Translate the packet by its session, room->request.to. Returns MK_GO_ON or a drop reason. */
static __always_inline int translate(struct __sk_buff *skb, struct chain_ctx *ctx,
				     struct packet *pkt, struct scratch *room)
{
	room->request.to.path = 0; /* not of the packet's tuple */
	if (pkt->l4 != MK_L4_ICMP_ERROR)
		return rewrite(skb, pkt, &room->request.to, &ctx->flags);
	return icmp_error_translate(skb, SERVICE_SESSIONS, pkt, &ctx->flags)
		       ? MK_DROP_REWRITE_FAILED
		       : MK_GO_ON;
}

/* Send the packet where it would go without a chain. */
static __always_inline int leave_chain(struct __sk_buff *skb, struct chain_ctx *ctx,
				       const struct packet *pkt)
{
	if (pkt->l4 == MK_L4_ICMP_ERROR)
		return chain_next(skb, ctx, pkt, MK_PROG_ROUTER);
	return route_next(skb, ctx, pkt);
}

/* Set the ends of the flow. An ICMP error is from anybody: its flow is that of the packet it
 * quotes. Returns 0, or -1 if the error quotes too little. */
static __always_inline int read_ends(struct __sk_buff *skb, const struct packet *pkt, int forward,
				     struct scratch *room)
{
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
	__u32 id, position, place;
	struct chain_ctx ctx;
	struct packet pkt;
	int ret = chain_packet(skb, &ctx, &pkt), forward = ctx.reverse_flags & MK_SESSION_FORWARD;

	if (ret != MK_GO_ON || !room || read_ends(skb, &pkt, forward, room))
		return drop(skb, ctx.hook, MK_DROP_TRUNCATED, &pkt.tuple);
	id = room->request.to.path;
	if (id)
		path = bpf_map_lookup_elem(&sfc_paths, &id);
	if (!path || !path_is_usable(path))
		return choose_again(skb, &ctx, &pkt);
	position = next_position(path, 0, forward);
	if (forward || position == MK_SFC_NO_POSITION) {
		ret = translate(skb, &ctx, &pkt, room);
		if (ret != MK_GO_ON)
			return drop(skb, ctx.hook, ret, &pkt.tuple);
	}
	if (position == MK_SFC_NO_POSITION)
		return leave_chain(skb, &ctx, &pkt);
	place = place_at(position, forward);
	return enter_function(skb, &ctx, &pkt, path->replica[place], entry_side(place, forward),
			      is_egress_place(place) ? &room->flow.client : &room->flow.server);
}

/* ---- sfc_port: from a function --------------------------------------------------------------- */

static __always_inline int read_session(const struct mk_tuple *key, struct session_hit *hit)
{
	struct mk_session *session = bpf_map_lookup_elem(&sessions, key);
	__u64 created_ns;

	if (!session)
		session = bpf_map_lookup_elem(&sessions_young, key);
	return session ? session_read(session, hit, &created_ns) : -1;
}

/* Find the flow of a packet that a function has sent with @tuple. Sets the ends of the flow and
 * room->request.to, the tuple of @hit. Returns 1 if the packet is the client's, 0 if it is the
 * server's, -1 if there is no such flow. */
static __always_inline int find_flow(const struct mk_tuple *tuple, struct scratch *room,
				     struct session_hit *hit)
{
	int found = read_session(tuple, hit) == 0;
	struct mk_tuple back;

	room->flow.client = tuple->saddr;
	room->flow.server = tuple->daddr;
	if (found && hit->flags & MK_SESSION_FORWARD && tuple_eq(&hit->to, tuple))
		return 1;
	if (found && !(hit->flags & MK_SESSION_FORWARD)) {
		room->flow.client = hit->to.daddr;
		room->flow.server = tuple->saddr;
		return 0;
	}
	/* the client's packet has been translated, so only the answers' entry has its tuple */
	tuple_reverse(&back, tuple);
	if (read_session(&back, hit) || hit->flags & MK_SESSION_FORWARD)
		return -1;
	room->flow.client = hit->to.daddr;
	return 1;
}

/* The tuple by which the packet's flow is found. An ICMP error is from anybody, but for the sender
 * of the packet that it quotes. Otherwise a function could send to anybody. */
static __always_inline int tuple_of_flow(struct __sk_buff *skb, const struct packet *pkt,
					 struct scratch *room, struct mk_tuple *tuple)
{
	*tuple = pkt->tuple;
	if (pkt->l4 != MK_L4_ICMP_ERROR)
		return 0;
	if (packet_inner(skb, pkt, &room->inner))
		return -1;
	tuple_reverse(tuple, &room->inner.tuple);
	return mk_addr_eq(&tuple->daddr, &pkt->tuple.daddr) ? 0 : -1;
}

/* A ping's request and reply have the same ports. */
static __always_inline int is_of_other_direction(const struct packet *pkt, int forward)
{
	return forward ? pkt->l4 == MK_L4_ECHO_REPLY : pkt->l4 == MK_L4_ECHO_REQUEST;
}

/* Find the position of the function that has sent the packet by @port. By its side the packet shows
 * of which chain of the path it comes. Returns MK_GO_ON or a drop reason. */
static __always_inline int find_position(const struct mk_sfc_path *path,
					 const struct mk_sfc_port *port, int forward,
					 __u32 *position)
{
	int reflected = 0;

	for (__u32 i = 0; i < MK_SFC_PATH_FUNCTIONS; i++) {
		__u32 place = place_at(i, forward);

		if (path->replica[place] != port->replica)
			continue;
		*position = i;
		if (entry_side(place, forward) != port->side)
			return MK_GO_ON;
		reflected = 1;
	}
	return reflected ? MK_DROP_SFC_REFLECTED : MK_DROP_SFC_FORGED;
}

/* The packet has passed its last function. */
static __always_inline int leave_last(struct __sk_buff *skb, struct chain_ctx *ctx,
				      struct packet *pkt, struct scratch *room,
				      const struct session_hit *hit, int forward)
{
	int ret;

	if (forward) {
		ctx->flags |= CHAIN_TRANSLATED;
		if (!mk_addr_eq(&room->flow.client, &pkt->tuple.saddr))
			ctx->flags |= CHAIN_NEW_SOURCE;
		return leave_chain(skb, ctx, pkt);
	}
	ctx->flags |= hit->flags & CHAIN_OF_SESSION;
	room->request.to = hit->to;
	ret = translate(skb, ctx, pkt, room);
	if (ret != MK_GO_ON)
		return drop(skb, ctx->hook, ret, &pkt->tuple);
	return leave_chain(skb, ctx, pkt);
}

static __always_inline int from_function(struct __sk_buff *skb, struct chain_ctx *ctx,
					 struct packet *pkt, const struct mk_sfc_port *port)
{
	struct scratch *room = scratch_of_this_cpu();
	const struct mk_sfc_path *path = NULL;
	int ret = MK_DROP_SFC_FORGED, forward = -1;
	__u32 id, position = 0, place;
	struct session_hit hit = { 0 };
	struct mk_tuple tuple;

	if (room && tuple_of_flow(skb, pkt, room, &tuple) == 0)
		forward = find_flow(&tuple, room, &hit);
	id = hit.to.path;
	if (forward >= 0 && !is_of_other_direction(pkt, forward))
		path = bpf_map_lookup_elem(&sfc_paths, &id);
	if (path)
		ret = find_position(path, port, forward, &position);
	if (ret != MK_GO_ON || !path)
		return drop(skb, ctx->hook, ret, &pkt->tuple);
	count_received(skb, pkt, port->replica, port->side);
	position = next_position(path, position + 1, forward);
	if (position == MK_SFC_NO_POSITION)
		return leave_last(skb, ctx, pkt, room, &hit, forward);
	place = place_at(position, forward);
	return enter_function(skb, ctx, pkt, path->replica[place], entry_side(place, forward),
			      is_egress_place(place) ? &room->flow.client : &room->flow.server);
}

/* A frame that a function sends through has the pod's MAC addresses, not those of this device. For
 * the kernel it is for another host, and a pod behind bpf_redirect_peer() would not get it. */
static __always_inline void take_over(struct __sk_buff *skb)
{
	if (skb->pkt_type != PACKET_HOST)
		bpf_skb_change_type(skb, PACKET_HOST);
}

SEC("tc")
int sfc_port(struct __sk_buff *skb)
{
	struct chain_ctx ctx = { .hook = MK_HOOK_FUNCTION };
	const struct mk_tuple unknown = { 0 };
	const struct mk_sfc_port *port;
	__u32 ifindex = skb->ifindex;
	struct packet pkt;
	int ret;

	port = bpf_map_lookup_elem(&sfc_ports, &ifindex);
	if (!port)
		return drop(skb, ctx.hook, MK_DROP_SFC_NO_CHAIN, &unknown);
	ret = packet_parse(skb, &pkt, MK_HOOK_FUNCTION);
	if (ret == MK_DROP_NOT_IPV4)
		ret = other_family_next(skb, MK_ENTRY_FUNCTION);
	if (ret < MK_GO_ON)
		return fragment_next(skb, &ctx, &pkt, ret);
	if (ret == MK_GO_ON && is_of_link(&pkt))
		ret = MK_DROP_NEIGHBOUR_DISCOVERY;
	if (ret != MK_GO_ON)
		return drop(skb, ctx.hook, ret, &pkt.tuple);
	take_over(skb);
	return from_function(skb, &ctx, &pkt, port);
}

char LICENSE[] __attribute__((weak)) SEC("license") = "Dual BSD/GPL";
