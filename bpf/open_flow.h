/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/open_flow.h - the last steps for a flow's first packet, when its backend is chosen: open or
 * reuse a session, rewrite the packet, send it on. Programs `open` and `policy` end with them. */
#ifndef MK_BPF_OPEN_FLOW_H
#define MK_BPF_OPEN_FLOW_H

#include "client.h"
#include "collision.h"
#include "deliver.h"
#include "reuse.h"
#include "service.h"

/* Does the client have a direct connection to the backend from the same port? */
static __always_inline int collides_with_own(struct __sk_buff *skb, const struct chain_ctx *ctx,
					     const struct packet *pkt,
					     const struct session_request *request)
{
	if (ctx->opens == CHAIN_OPENS_OWN)
		return 0;
	if (ctx->hook == MK_HOOK_POD)
		return pod_has_connection(skb, pkt, request);
	return ctx->hook == MK_HOOK_UPLINK && host_has_connection(skb, pkt, request);
}

/* The packet is an answer, so the session's first direction is the other one. */
static __always_inline void turn(struct packet *pkt, struct session_request *request)
{
	__u16 path = request->to.path;

	tuple_reverse(&request->to, &pkt->tuple);
	pkt->tuple = request->to;
	request->to.path = path;
}

/* Open or reuse a session for the flow, unless @ret already says that it is refused. Returns
 * MK_GO_ON with request->to complete, or a drop reason. */
static __always_inline int open_flow(struct __sk_buff *skb, const struct chain_ctx *ctx,
				     struct packet *pkt, struct session_request *request, int ret,
				     int may_turn)
{
	struct session_hit hit;

	session_find_over(SERVICE_SESSIONS, ctx->flags, pkt, &hit);
	if (ret != MK_GO_ON) {
		session_end(SERVICE_SESSIONS, pkt, &hit);
		return ret;
	}
	if (session_reuse(SERVICE_SESSIONS, pkt, &hit, request))
		return MK_GO_ON;
	if (collides_with_own(skb, ctx, pkt, request))
		request->source_port = 1;
	if (may_turn && request->turned)
		turn(pkt, request);
	if (may_turn)
		tuple_forget(&pkt->tuple);
	ret = session_open(SERVICE_SESSIONS, pkt, request);
	if (may_turn && request->turned)
		turn(pkt, request);
	return ret;
}

/* May a flow pass untranslated if its session could not be opened? A flow to a Service may not, nor
 * a flow that the host's stack forwards. A flow of another node's host may, but its answers then
 * leave masqueraded. */
static __always_inline int goes_without(const struct chain_ctx *ctx, const struct packet *pkt)
{
	if (ctx->opens != CHAIN_OPENS_OWN || ctx->hook == MK_HOOK_HOST)
		return 0;
	return ctx->hook == MK_HOOK_OVERLAY || is_distinct(pkt);
}

static __always_inline int go_on(struct __sk_buff *skb, struct chain_ctx *ctx,
				 const struct packet *pkt)
{
	if (ctx->hook == MK_HOOK_UPLINK && !(ctx->flags & CHAIN_TRANSLATED))
		return TC_ACT_UNSPEC;
	return route_next(skb, ctx, pkt);
}

/* Open the session and send the packet on. @ret: MK_GO_ON, or the reason for which the flow is
 * refused. */
static __always_inline int open_and_go(struct __sk_buff *skb, struct chain_ctx *ctx,
				       struct packet *pkt, struct session_request *request, int ret,
				       int may_turn)
{
	ret = open_flow(skb, ctx, pkt, request, ret, may_turn);
	if (ret == MK_GO_ON) {
		account_connection(skb, pkt, request->service_id);
		ret = rewrite(skb, pkt, &request->to, &ctx->flags);
	} else if (goes_without(ctx, pkt) && !request->set_id) {
		ret = MK_GO_ON;
	}
	if (ret == MK_GO_ON)
		return go_on(skb, ctx, pkt);
	if (request->set_id && !request->service_id)
		return send_back(skb, ctx, pkt);
	account_drop(request->service_id, ret);
	return service_reject(skb, ctx, pkt, ret);
}

#endif
