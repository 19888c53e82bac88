// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bpf/client.bpf.c - program `client`: rare packets of clients outside that keep their address
 * (client.h, direct_return.h). It opens flows whose answers go straight to the client. It gets the
 * answers that the pod's node sends by this one, and the packets that it sends back. */
#include "direct_return.h"
#include "open_flow.h"
#include "policy.h"

/* ---- a new flow whose answers go straight to the client -------------------------------------- */

/* Choose a backend. Returns 1, or 0 if this node serves the flow in another way. */
static __always_inline int find_backend(const struct packet *pkt, struct session_request *request)
{
	const struct mk_frontend *service = service_find(&pkt->tuple, MK_SCOPE_EXTERNAL);

	return may_delegate(pkt, service) &&
	       service_request(pkt, MK_SCOPE_EXTERNAL, service, request) == MK_GO_ON;
}

static __always_inline int send_opened(struct __sk_buff *skb, struct chain_ctx *ctx,
				       struct packet *pkt, const struct session_request *request)
{
	int ret;

	if (is_delegated(request->forward_flags, &request->to.daddr))
		return delegate_to(skb, ctx, pkt, request->set_id);
	if (pkt->l4 == MK_L4_TCP && !is_first_of_tcp(pkt)) /* that node may have lost it, too */
		session_moves(&sessions_young, &pkt->tuple, request->set_id);
	account_connection(skb, pkt, request->service_id);
	ret = rewrite(skb, pkt, &request->to, &ctx->flags);
	return ret == MK_GO_ON ? route_next(skb, ctx, pkt) : drop(skb, ctx->hook, ret, &pkt->tuple);
}

/* On the node that takes the request this comes before `open`, which opens all other flows. On the
 * node that has the pod it comes instead of `open`. */
static __always_inline int open_delegated(struct __sk_buff *skb, struct chain_ctx *ctx,
					  struct packet *pkt, struct session_request *request)
{
	int is_here = ctx->opens == CHAIN_OPENS_DELEGATED, ret = MK_GO_ON;

	session_request_begin(request, pkt);
	if (is_here)
		ret = delegated_request(skb, pkt, request);
	else if (!find_backend(pkt, request) || !return_directly(request))
		return chain_next(skb, ctx, pkt, MK_PROG_OPEN);
	if (is_here && ret == MK_GO_ON && policy_watches(&pkt->tuple.saddr, &request->to.daddr))
		return chain_next(skb, ctx, pkt, MK_PROG_POLICY);
	ret = open_flow(skb, ctx, pkt, request, forgotten(ret, pkt->tuple.sport), 0);
	if (ret == MK_GO_ON)
		return send_opened(skb, ctx, pkt, request);
	if (is_here && (ret == MK_DROP_NO_LOCAL_BACKEND || ret == MK_DROP_OVERLAY_STRAY))
		return delegate_back(skb, ctx, pkt);
	account_drop(request->service_id, ret);
	return service_reject(skb, ctx, pkt, ret);
}

/* Send an ICMP error on to the pod as the node does that has translated its flow. A pod of this
 * node gets it as if it came from that node: its session, policies and functions know it so. */
static __always_inline int translate_error(struct __sk_buff *skb, struct chain_ctx *ctx,
					   struct packet *pkt, struct scratch *room)
{
	struct mk_tuple key;

	tuple_reverse(&key, &room->inner.tuple);
	room->session.to = room->request.to;
	room->session.flags = MK_SESSION_FORWARD;
	if (icmp_error_follow(skb, pkt, room, &key, &room->session, &ctx->flags))
		return drop(skb, ctx->hook, MK_DROP_REWRITE_FAILED, &pkt->tuple);
	return chain_next(skb, ctx, pkt,
			  is_local_pod(&pkt->tuple.daddr) ? MK_PROG_OVERLAY : MK_PROG_ROUTER);
}

/* An ICMP error for an external address belongs to no session here: routers that spread packets
 * over nodes may send it by another node than the flow. It goes to the pod of Maglev's choice, as
 * the flow does, if the pod knows the client by its own address. */
static __always_inline int find_pod_of_error(struct __sk_buff *skb, struct chain_ctx *ctx,
					     struct packet *pkt, struct scratch *room)
{
	const struct mk_tuple error = pkt->tuple;
	int is_found;

	if (packet_inner(skb, pkt, &room->inner))
		return TC_ACT_UNSPEC;
	tuple_reverse(&pkt->tuple, &room->inner.tuple);
	session_request_begin(&room->request, pkt);
	is_found = find_backend(pkt, &room->request) && !room->request.source_port;
	pkt->tuple = error;
	if (!is_found)
		return TC_ACT_UNSPEC;
	if (mk_node.returns_direct && return_directly(&room->request))
		return delegate_to(skb, ctx, pkt, room->request.set_id);
	return translate_error(skb, ctx, pkt, room);
}

/* ---- packets from the pod's node ------------------------------------------------------------- */

static __always_inline int pass_answer(struct __sk_buff *skb, struct chain_ctx *ctx,
				       struct packet *pkt)
{
	note_answer(skb, pkt);
	ctx->flags |= CHAIN_TRANSLATED; /* by the pod's node */
	return chain_next(skb, ctx, pkt, MK_PROG_ROUTER);
}

/* Let the flow of @sent, which a client's first packet @original has opened, be opened again.
 * Returns 1, or 0 if a packet before this one has done so. The answers' entry stays until it is
 * evicted or idle: it leads further packets that come back to the flow. */
static __always_inline int forget_kept(const struct mk_tuple *original, const struct mk_tuple *sent)
{
	struct mk_session *session = bpf_map_lookup_elem(&sessions, original);
	int is_half_open;

	if (session) {
		is_half_open = session_is_half_open(session);
		if (!tuple_eq(&session->to, sent) || bpf_map_delete_elem(&sessions, original))
			return 0;
		if (is_half_open)
			session_return_quota();
		return 1;
	}
	session = bpf_map_lookup_elem(&sessions_young, original);
	return session && tuple_eq(&session->to, sent) &&
	       bpf_map_delete_elem(&sessions_young, original) == 0;
}

/* Open a flow of a client outside again. If it has been opened again already (@is_open), the packet
 * follows it. */
static __always_inline int reopen(struct __sk_buff *skb, struct chain_ctx *ctx,
				  const struct packet *pkt, __u8 flags, int is_open)
{
	ctx->hook = MK_HOOK_UPLINK;
	ctx->opens = CHAIN_OPENS_SERVICE;
	ctx->reverse_flags = 0;
	ctx->flags = flags;
	return chain_next(skb, ctx, pkt, is_open ? MK_PROG_ELB : MK_PROG_OPEN);
}

/* Another node has sent back a client's packet (client.h). It becomes the packet that the client
 * sent, and the flow is opened again, masqueraded. */
static __always_inline int open_again(struct __sk_buff *skb, struct chain_ctx *ctx,
				      struct packet *pkt)
{
	struct mk_tuple key, original;
	struct mk_session *session;
	int ret, is_open;

	tuple_reverse(&key, &pkt->tuple);
	session = bpf_map_lookup_elem(&sessions, &key);
	session = session ?: bpf_map_lookup_elem(&sessions_young, &key);
	if (!session || session->flags & MK_SESSION_FORWARD)
		return drop(skb, ctx->hook, MK_DROP_OVERLAY_STRAY, &pkt->tuple);
	tuple_reverse(&original, &session->to);
	is_open = !forget_kept(&original, &pkt->tuple);
	ret = rewrite(skb, pkt, &original, &ctx->flags);
	if (ret != MK_GO_ON)
		return drop(skb, ctx->hook, ret, &pkt->tuple);
	return reopen(skb, ctx, pkt, CHAIN_MASQUERADES, is_open);
}

/* Remove the session of @key if its packets go to the pod's node as they are. Returns 1, or 0. */
static __always_inline int forget_delegated(const struct mk_tuple *key)
{
	struct mk_session *session = bpf_map_lookup_elem(&sessions, key);

	if (session) {
		if (!is_delegated(session->flags, &session->to.daddr))
			return 0;
		session_remove(SERVICE_SESSIONS, key, session,
			       session_peer(SERVICE_SESSIONS, session));
		return 1;
	}
	session = bpf_map_lookup_elem(&sessions_young, key);
	return session && is_delegated(session->flags, &session->to.daddr) &&
	       bpf_map_delete_elem(&sessions_young, key) == 0;
}

/* The pod's node has sent back a request. Its flow is opened again, translated. */
static __always_inline int translate_refused(struct __sk_buff *skb, struct chain_ctx *ctx,
					     const struct packet *pkt)
{
	return reopen(skb, ctx, pkt, 0, !forget_delegated(&pkt->tuple));
}

SEC("tc")
int client(struct __sk_buff *skb)
{
	struct scratch *room = scratch_of_this_cpu();
	struct chain_ctx ctx;
	struct packet pkt;
	int ret = chain_packet(skb, &ctx, &pkt);

	if (ret != MK_GO_ON || !room)
		return drop(skb, ctx.hook, ret == MK_GO_ON ? MK_DROP_SESSION_TABLE_FULL : ret,
			    &pkt.tuple);
	if (pkt.l4 == MK_L4_ICMP_ERROR)
		return find_pod_of_error(skb, &ctx, &pkt, room);
	if (ctx.opens == CHAIN_OPENS_SERVICE && ctx.hook == MK_HOOK_OVERLAY)
		return translate_refused(skb, &ctx, &pkt);
	if (ctx.opens == CHAIN_OPENS_DELEGATED && ctx.flags & CHAIN_REUSES)
		forget_delegated(&pkt.tuple);
	if (ctx.opens)
		return open_delegated(skb, &ctx, &pkt, &room->request);
	return is_pod_range(&pkt.tuple.daddr) ? open_again(skb, &ctx, &pkt)
					      : pass_answer(skb, &ctx, &pkt);
}

char LICENSE[] __attribute__((weak)) SEC("license") = "Dual BSD/GPL";
