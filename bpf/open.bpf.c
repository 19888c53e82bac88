// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bpf/open.bpf.c - the first packet of a flow. ilb and elb have found no session for it, and say what it is for
 * (ctx->opens): a session is opened, and the packet goes on as all others of the flow will. A program of its own,
 * because the verifier walks this code for long, and most packets do not need it. */
#include "beside.h"
#include "chain.h"
#include "deliver.h"
#include "host_port.h"
#include "reopen.h"
#include "service.h"

/* Does what @backend answers to @host, an address of this host, come back to it? */
static __always_inline int is_answered_by(const struct mk_addr *host, const struct mk_addr *backend)
{
	return is_addr(host, mk_node_vtep()) ||
	       (is_addr(host, mk_node_addr()) && is_pod_range(backend));
}

/* What the host sends comes from its VTEP address, which every node can answer, or, where a process binds it, from the
 * node's address, which pods answer by the overlay (open_for_node()). Anything else would come back another way, and a
 * backend that is the host itself would see its own address as source and drop the packet as martian: give those the
 * virtual pod address. The port is always one
 * that the host's sockets never have: its own flow to a backend on another node is not seen here,
 * and must not be answered as if it were the Service's. Asked at an address of the host's own, the
 * Service answers from that, which the host takes from no other device than loopback. */
static __always_inline void masquerade_host(const struct packet *pkt,
					    struct session_request *request)
{
	if (mk_addr_is_loopback(&pkt->tuple.daddr) || is_host_address(&pkt->tuple.daddr))
		request->reverse_flags |= MK_SESSION_LOOPBACK;
	if (!is_answered_by(&pkt->tuple.saddr, &request->to.daddr) ||
	    is_host_address(&request->to.daddr))
		request->to.saddr = mk_node_vpod();
	else
		request->to.saddr = pkt->tuple.saddr;
	request->source_port = 1;
}

/* Returns MK_PARSED, or a drop reason; request->account_id says whose. */
static __always_inline int service_of_hook(const struct chain_ctx *ctx, const struct packet *pkt,
					   struct session_request *request)
{
	enum mk_scope scope = ctx->hook == MK_HOOK_UPLINK ? MK_SCOPE_EXTERNAL : MK_SCOPE_INTERNAL;
	const struct mk_service *service = service_find(&pkt->tuple, scope);

	if (!service)
		return MK_DROP_REFUSED; /* it has just gone */
	return service_request(pkt, scope, service, request);
}

/* Returns MK_PARSED with request->to as the flow's packets have to show it, or a drop reason. */
static __always_inline int fill_request(const struct chain_ctx *ctx, const struct packet *pkt,
					struct session_request *request)
{
	int ret;

	if (ctx->opens == CHAIN_OPENS_OWN)
		return MK_PARSED;
	if (ctx->opens == CHAIN_OPENS_SERVICE)
		ret = service_of_hook(ctx, pkt, request);
	else
		ret = host_port_request(pkt, ctx->hook, request);
	if (ret == MK_PARSED && ctx->hook == MK_HOOK_HOST)
		masquerade_host(pkt, request);
	return ret;
}

/* Has the client a connection of its own to the backend, from the same port? */
static __always_inline int is_beside_own(struct __sk_buff *skb, const struct chain_ctx *ctx,
					 const struct packet *pkt,
					 const struct session_request *request)
{
	if (ctx->opens == CHAIN_OPENS_OWN)
		return 0;
	if (ctx->hook == MK_HOOK_POD)
		return is_beside_pods_own(skb, pkt, request);
	return ctx->hook == MK_HOOK_UPLINK && is_beside_hosts_own(skb, pkt, request);
}

/* Returns MK_PARSED with request->to complete, or a drop reason. */
static __always_inline int open_flow(struct __sk_buff *skb, const struct chain_ctx *ctx,
				     const struct packet *pkt, struct session_request *request)
{
	struct session_hit hit;
	int ret = fill_request(ctx, pkt, request);

	session_find_over(SERVICE_SESSIONS, pkt, &hit);
	if (ret != MK_PARSED) {
		session_end(SERVICE_SESSIONS, pkt, &hit);
		return ret;
	}
	if (session_reopen(SERVICE_SESSIONS, pkt, &hit, request))
		return MK_PARSED;
	if (is_beside_own(skb, ctx, pkt, request))
		request->source_port = 1;
	/* for the verifier: what is the same for it need not be gone through again */
	request->source_port = forgotten(request->source_port, pkt->tuple.sport);
	request->reverse_flags = forgotten(request->reverse_flags, pkt->tuple.sport);
	return session_open(SERVICE_SESSIONS, pkt, request);
}

/* May a flow go on untranslated if its session could not be opened? A flow to a Service may not, nor one that the
 * host's stack forwards. The answers of a flow from another node then leave masqueraded. */
static __always_inline int goes_without(const struct chain_ctx *ctx, const struct packet *pkt)
{
	if (ctx->opens != CHAIN_OPENS_OWN || ctx->hook == MK_HOOK_HOST)
		return 0;
	return ctx->hook == MK_HOOK_OVERLAY || is_told_apart(pkt);
}

static __always_inline int go_on(struct __sk_buff *skb, struct chain_ctx *ctx,
				 const struct packet *pkt)
{
	if (ctx->hook == MK_HOOK_UPLINK && !(ctx->flags & CHAIN_TRANSLATED))
		return TC_ACT_UNSPEC;
	return route_next(skb, ctx, pkt);
}

SEC("tc")
int open(struct __sk_buff *skb)
{
	struct session_request request;
	struct chain_ctx ctx;
	struct packet pkt;
	int ret = chain_packet(skb, &ctx, &pkt);

	if (ret != MK_PARSED)
		return drop(skb, ctx.hook, ret, &pkt.tuple);
	request = (struct session_request){ .to = pkt.tuple, .reverse_flags = ctx.reverse_flags };
	ret = open_flow(skb, &ctx, &pkt, &request);
	if (ret == MK_PARSED) {
		account_connection(skb, &pkt, request.account_id);
		ret = rewrite(skb, &pkt, &request.to, &ctx.flags) ?: MK_PARSED;
	} else if (goes_without(&ctx, &pkt)) {
		ret = MK_PARSED;
	}
	if (ret == MK_PARSED)
		return go_on(skb, &ctx, &pkt);
	account_drop(request.account_id, ret);
	return service_reject(skb, &ctx, &pkt, ret);
}

char LICENSE[] __attribute__((weak)) SEC("license") = "Dual BSD/GPL";
