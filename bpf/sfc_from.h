/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/sfc_from.h - a packet that a function has sent: which flow it belongs to, and where it goes
 * next. It comes by the function's port, or from the function's node. */
#ifndef MK_BPF_SFC_FROM_H
#define MK_BPF_SFC_FROM_H

#include "answer.h"
#include "fragment.h"
#include "icmp_error.h"
#include "session.h"
#include "sfc.h"

/* Hide from the verifier what it has learned of the packet: otherwise it walks the rest for each
 * kind of packet. @any: a number that it does not know. */
static __always_inline void forget_packet(struct packet *pkt, struct chain_ctx *ctx, __u64 any)
{
	pkt->l4 = forgotten(pkt->l4, any);
	pkt->l4_len = forgotten(pkt->l4_len, any);
	pkt->fragment = forgotten(pkt->fragment, any);
	pkt->tcp_flags = forgotten(pkt->tcp_flags, any);
	pkt->tuple.proto = forgotten(pkt->tuple.proto, any);
	pkt->tuple.sport = forgotten(pkt->tuple.sport, any);
	pkt->tuple.dport = forgotten(pkt->tuple.dport, any);
	ctx->flags = forgotten(ctx->flags, any);
}

/* ---- the flow -------------------------------------------------------------------------------- */

/* hit->completed: does the session know of an answer? */
static __always_inline int read_session(const struct mk_tuple *key, struct session_hit *hit)
{
	struct mk_session *session = bpf_map_lookup_elem(&sessions, key);
	__u64 created_ns;

	if (!session)
		session = bpf_map_lookup_elem(&sessions_young, key);
	if (!session)
		return -1;
	hit->completed = session->stage | session->replied;
	return session_read(session, hit, &created_ns);
}

/* Find the flow of a packet that a function has sent with @tuple. Sets the ends of the flow and
 * room->request.to, the tuple of @hit. Returns 1 if the packet is the client's, 0 if it is the
 * server's, -1 if there is no such flow. */
static __always_inline int find_flow(const struct mk_tuple *tuple, struct scratch *room,
				     struct session_hit *hit)
{
	int found = read_session(tuple, hit) == 0;
	union tuple_key back;

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
	key_reverse(&back, tuple);
	if (read_session(&back.tuple, hit) || hit->flags & MK_SESSION_FORWARD)
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

enum { POSITION_FORGED = 0xfe, POSITION_REFLECTED };

/* Find the position of the function that has sent the packet by @port. By its side the packet shows
 * of which chain of the path it comes. Returns MK_GO_ON or a drop reason. The position passes
 * through @room, or the verifier would walk the rest for each position. */
static __always_inline int find_position(struct scratch *room, const struct mk_sfc_path *path,
					 const struct mk_sfc_port *port, __u32 *position)
{
	volatile __u8 *found = &room->flow.resume;
	int forward = is_forward(room);

	*found = POSITION_FORGED;
	for (__u32 i = 0; i < MK_SFC_PATH_FUNCTIONS; i++) {
		if (path->replica[place_at(i, forward)] != port->replica)
			continue;
		*found = POSITION_REFLECTED;
		if (entry_side(i) == port->side)
			continue;
		*found = i;
		break;
	}
	*position = *found;
	if (*position == POSITION_FORGED)
		return MK_DROP_SFC_FORGED;
	return *position == POSITION_REFLECTED ? MK_DROP_SFC_REFLECTED : MK_GO_ON;
}

/* ---- the chained pod ------------------------------------------------------------------------- */

/* The chained pod of a packet that goes away from it (@outward) or towards it. An ICMP error is
 * from anybody: the packet that it quotes was for the pod. */
static __always_inline struct mk_addr chained_pod(struct __sk_buff *skb, const struct packet *pkt,
						  int outward)
{
	struct scratch *room = scratch_of_this_cpu();

	if (!outward)
		return pkt->tuple.daddr;
	if (pkt->l4 == MK_L4_ICMP_ERROR && room && packet_inner(skb, pkt, &room->inner) == 0)
		return room->inner.tuple.daddr;
	return pkt->tuple.saddr;
}

/* Is another node the home of the packet's flow? Returns 0 and sets *@home if so, otherwise -1. */
static __always_inline int find_home(struct __sk_buff *skb, const struct packet *pkt, int outward,
				     struct mk_route *home)
{
	struct mk_addr pod = chained_pod(skb, pkt, outward);

	if (is_local_pod(&pod) || !is_pod_range(&pod))
		return -1;
	return route_find(&pod, home) == 0 && home->type == MK_ROUTE_OVERLAY ? 0 : -1;
}

/* ---- what follows ---------------------------------------------------------------------------- */

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

/* Set room->request.to to what the packet's session translates back: an answer becomes what the
 * client gets, a client's packet what the client has sent. */
static __always_inline void request_as_outside(const struct packet *pkt, struct scratch *room,
					       const struct session_hit *hit, int forward)
{
	if (!forward)
		room->request.to = hit->to;
	else if (hit->flags & MK_SESSION_FORWARD) /* its own entry: not translated */
		room->request.to = pkt->tuple;
	else
		tuple_reverse(&room->request.to, &hit->to);
}

/* The replica at room->flow.resume is not usable any more. Program `sfc_open` replaces it, and
 * `sfc` goes on there. @pkt is now as it came to this node; @sent: as functions see it. */
static __always_inline int resume(struct __sk_buff *skb, struct chain_ctx *ctx,
				  const struct packet *pkt, struct scratch *room,
				  const struct session_hit *hit, const struct mk_tuple *sent,
				  const struct mk_sfc_path *path, int forward)
{
	struct policy_flow *flow = &room->flow;

	flow->chain[MK_POLICY_EGRESS] = path->chain[MK_POLICY_EGRESS];
	flow->chain[MK_POLICY_INGRESS] = path->chain[MK_POLICY_INGRESS];
	flow->proto = pkt->tuple.proto;
	flow->taken_up = flow->afresh = flow->look = 0;
	room->request.to = forward ? *sent : hit->to;
	room->request.to.path = hit->to.path;
	room->request.policy_seen = hit->policy_seen;
	ctx->opens = CHAIN_RESUMES;
	ctx->reverse_flags = forward ? MK_SESSION_FORWARD : hit->flags;
	if (!forward)
		ctx->flags |= hit->flags & CHAIN_OF_SESSION;
	return chain_next(skb, ctx, pkt, MK_PROG_SFC_OPEN);
}

/* Can the answer @pkt be news for its session? A function may have made it, as a proxy does: then
 * only functions' programs see it. */
static __always_inline int is_news(const struct packet *pkt, const struct session_hit *hit)
{
	int ends = pkt->tcp_flags & (MK_TCP_FIN | MK_TCP_RST);

	return forgotten(!hit->completed | ends, hit->policy_seen);
}

/* The way of an answer that has passed its functions. That of an ICMP error is known already
 * (icmp_error_translate()). @sent: as in leave_last(). */
static __always_inline __u8 way_of_answer(struct __sk_buff *skb, const struct packet *pkt,
					  const struct session_hit *hit,
					  const struct mk_tuple *sent)
{
	__u8 way = hit->flags & CHAIN_OF_SESSION;

	if (way & CHAIN_VIA_OVERLAY &&
	    needs_no_node(skb, pkt, sent, hit, bpf_map_lookup_elem(&sessions, sent) != NULL))
		way &= ~CHAIN_VIA_OVERLAY;
	return way;
}

/* The packet has passed its last function, and @pkt is what its receiver gets. @sent: its tuple as
 * functions see it. */
static __always_inline int leave_last(struct __sk_buff *skb, struct chain_ctx *ctx,
				      const struct packet *pkt, struct scratch *room,
				      const struct session_hit *hit, const struct mk_tuple *sent,
				      int forward)
{
	ctx->flags |= forward ? CHAIN_TRANSLATED : way_of_answer(skb, pkt, hit, sent);
	if (forward && !mk_addr_eq(&room->flow.client, &pkt->tuple.saddr))
		ctx->flags |= CHAIN_NEW_SOURCE;
	if (!forward && pkt->l4 != MK_L4_ICMP_ERROR && is_news(pkt, hit)) {
		room->outer = *sent;
		return chain_next(skb, ctx, pkt, MK_PROG_SFC_ANSWER);
	}
	return leave_chain(skb, ctx, pkt);
}

/* Send the packet on at @position: to the function there, or out of the chain. @sent: its tuple as
 * functions see it. */
static __always_inline int go_on_at(struct __sk_buff *skb, struct chain_ctx *ctx,
				    struct packet *pkt, struct scratch *room,
				    const struct session_hit *hit, const struct mk_tuple *sent,
				    const struct mk_sfc_path *path)
{
	int lost = resume_position(room) != MK_SFC_NO_POSITION, ret = MK_GO_ON;
	struct entry entry;

	if (lost && entry_find(&entry, path, room) == 0)
		return enter_function(skb, ctx, pkt, &entry);
	if (lost && pkt->l4 == MK_L4_ICMP_ERROR)
		return drop(skb, ctx->hook, MK_DROP_SFC_UNAVAILABLE, &pkt->tuple);
	if (is_forward(room) == (resume_position(room) != MK_SFC_NO_POSITION)) {
		request_as_outside(pkt, room, hit, is_forward(room));
		ret = translate(skb, ctx, pkt, room);
	}
	if (ret != MK_GO_ON)
		return drop(skb, ctx->hook, ret, &pkt->tuple);
	forget_packet(pkt, ctx, room->flow.port);
	if (resume_position(room) != MK_SFC_NO_POSITION)
		return resume(skb, ctx, pkt, room, hit, sent, path, is_forward(room));
	return leave_last(skb, ctx, pkt, room, hit, sent, is_forward(room));
}

/* Find the path of the packet's flow. Sets @tuple, @hit, *@forward and the ends of the flow.
 * Returns NULL if there is none. */
static __always_inline const struct mk_sfc_path *
find_path(struct __sk_buff *skb, const struct packet *pkt, struct scratch *room,
	  struct mk_tuple *tuple, struct session_hit *hit)
{
	int forward = -1;
	__u32 id;

	if (tuple_of_flow(skb, pkt, room, tuple) == 0)
		forward = find_flow(tuple, room, hit);
	if (forward < 0 || is_of_other_direction(pkt, forward))
		return NULL;
	room->flow.forward = forward;
	id = hit->to.path;
	return find_number(&sfc_paths, id);
}

/* The position of the place that a packet came back from, in a frame with the source @mac. */
static __always_inline __u32 position_of(const struct mk_sfc_mac *mac, int forward)
{
	int is_egress = (mk_sfc_mac_side(mac) == MK_SFC_INSIDE) == !!forward;

	return place_at(mac->what >> 5 | (is_egress ? 0 : MK_SFC_FUNCTIONS), forward);
}

/* A function has sent the packet by @port, of this node or of another one. If @port is a tap's, it
 * has sent nothing: the packet passes it. @back: the function's node has sent the packet back, in a
 * frame with this source; otherwise NULL. */
static __always_inline int from_function(struct __sk_buff *skb, struct chain_ctx *ctx,
					 struct packet *pkt, const struct mk_sfc_port *port,
					 const struct mk_sfc_mac *back)
{
	struct scratch *room = scratch_of_this_cpu();
	const struct mk_sfc_path *path = NULL;
	struct session_hit hit = { 0 };
	int ret = MK_DROP_SFC_FORGED;
	struct mk_tuple tuple;
	__u32 position = 0;

	if (room)
		path = find_path(skb, pkt, room, &tuple, &hit);
	if (path)
		ret = back ? MK_GO_ON : find_position(room, path, port, &position);
	if (ret != MK_GO_ON || !path)
		return drop(skb, ctx->hook, ret, &pkt->tuple);
	if (back) {
		position = position_of(back, is_forward(room));
	} else {
		if (port->mode != MK_PORT_TAP)
			count_received(skb, pkt, port->replica, port->side);
		position++;
	}
	next_position(room, path, position);
	return go_on_at(skb, ctx, pkt, room, &hit, &tuple, path);
}

#endif
