// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bpf/open.bpf.c - the first packet of a flow. `ilb` and `elb` have found no session and pass on
 * what the flow is for (ctx->opens). Program `open` chooses the backend and opens a session, and
 * the packet goes on like all later ones of the flow. It is a program of its own because the
 * verifier walks this code for long, and most packets do not need it.
 *
 * If an end of the flow is a pod with policies, program `policy` opens the session instead, if the
 * flow may pass. */
#include "chain.h"
#include "cluster.h"
#include "host_port.h"
#include "open_flow.h"
#include "policy.h"

/* Do answers of @backend to @host, an address of this host, come back to this host? To another
 * cluster it would mean another host. */
static __always_inline int is_answered_by(const struct mk_addr *host, const struct mk_addr *backend)
{
	struct mk_route view;

	if (view_route(backend, &view))
		return 0;
	return is_addr(host, mk_node_vtep()) ||
	       (is_addr(host, mk_node_addr()) && is_pod_range(backend));
}

/* Set the source of a request by the host. The host sends from its VTEP address, which every node
 * can answer. A process that binds the node's address sends from that, and pods answer it by the
 * overlay (is_of_node()). The source becomes the virtual pod address if answers would otherwise
 * come back another way. It also does if the backend is the host itself, which would see its own
 * address and drop the packet as martian.
 *
 * The port is always one that the host's sockets do not use. The host's own flow to a backend on
 * another node is not seen here, and must not be answered as if it were the Service's. If the
 * client asked an address of the host, the answer comes from that address. The host accepts such an
 * answer only from the loopback device. */
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

/* Find the packet's Service and choose a backend. Returns MK_GO_ON, or a drop reason, counted for
 * request->service_id. */
static __always_inline int service_of_hook(const struct chain_ctx *ctx, const struct packet *pkt,
					   struct session_request *request)
{
	enum mk_scope scope = ctx->hook == MK_HOOK_UPLINK ? MK_SCOPE_EXTERNAL : MK_SCOPE_INTERNAL;
	const struct mk_frontend *service = service_find(&pkt->tuple, scope);

	int ret;

	if (!service)
		return MK_DROP_REFUSED; /* the Service has just been removed */
	ret = service_request(pkt, scope, service, request);
	if (ctx->flags & CHAIN_MASQUERADES)
		hide_client(request);
	return ret;
}

/* Another cluster's packet for an external address goes to the target. The answers have to come
 * back to this node, which has the session, so the source becomes the virtual pod address. Returns
 * MK_GO_ON or a drop reason. */
static __always_inline int external_request(const struct packet *pkt,
					    struct session_request *request)
{
	const struct mk_addr *target = find_export(&pkt->tuple.daddr, pkt->tuple.dport,
						   pkt->tuple.proto, pkt->l4 == MK_L4_ECHO_REQUEST);

	if (!target)
		return MK_DROP_PEER_DENIED; /* the export has just been removed */
	request->to.daddr = *target;
	request->to.saddr = mk_node_vpod();
	request->source_port = 1;
	return MK_GO_ON;
}

/* Set request->to to the tuple of the translated flow. Returns MK_GO_ON or a drop reason. */
static __always_inline int fill_request(struct __sk_buff *skb, const struct chain_ctx *ctx,
					const struct packet *pkt, struct session_request *request)
{
	struct mk_route view;
	int ret;

	if (ctx->opens == CHAIN_OPENS_OWN) {
		if (ctx->hook == MK_HOOK_HOST && view_route(&pkt->tuple.daddr, &view))
			masquerade_host(pkt, request);
		request->set_id = node_of_client(skb, ctx, pkt);
		return MK_GO_ON;
	}
	if (ctx->opens == CHAIN_OPENS_EXTERNAL)
		return external_request(pkt, request);
	if (ctx->opens == CHAIN_OPENS_SERVICE)
		ret = service_of_hook(ctx, pkt, request);
	else
		ret = host_port_request(pkt, ctx->hook, request);
	if (ret == MK_GO_ON && ctx->hook == MK_HOOK_HOST)
		masquerade_host(pkt, request);
	return ret;
}

SEC("tc")
int open(struct __sk_buff *skb)
{
	struct scratch *room = scratch_of_this_cpu();
	struct session_request *request;
	struct chain_ctx ctx;
	struct packet pkt;
	int ret = chain_packet(skb, &ctx, &pkt), watched;

	if (ret != MK_GO_ON || !room)
		return drop(skb, ctx.hook, ret == MK_GO_ON ? MK_DROP_SESSION_TABLE_FULL : ret,
			    &pkt.tuple);
	request = &room->request;
	session_request_begin(request, &pkt);
	request->reverse_flags = ctx.reverse_flags;
	ret = fill_request(skb, &ctx, &pkt, request);
	watched = ret == MK_GO_ON && policy_watches(&pkt.tuple.saddr, &request->to.daddr);
	if (forgotten(watched, pkt.tuple.sport))
		return chain_next(skb, &ctx, &pkt, MK_PROG_POLICY);
	return open_and_go(skb, &ctx, &pkt, request, ret, 0);
}

char LICENSE[] __attribute__((weak)) SEC("license") = "Dual BSD/GPL";
