// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bpf/elb.bpf.c - external load balancer. Uplink ingress, after nat: traffic from outside towards
 * NodePort, externalIPs and load-balancer addresses gets a backend by Maglev's choice; with policy
 * Cluster it gets the virtual pod address as its source as well, in the same session, so that the
 * answer comes back here. Towards a host port it gets its pod. Then: into a local pod, or router.
 * What is for nobody of ours goes up the host's stack.
 * Uplink egress: answers of backends that live in the host's own network. */
#include "beside.h"
#include "chain.h"
#include "deliver.h"
#include "fragment.h"
#include "host_port.h"
#include "icmp_error.h"
#include "reopen.h"
#include "service.h"

/* @service NULL: for a host port, or the host's @own. */
static __always_inline int open_external(struct __sk_buff *skb, struct chain_ctx *ctx,
					 struct packet *pkt, struct session_hit *hit,
					 const struct mk_service *service, int own)
{
	struct session_request request = { .to = pkt->tuple };
	int ret = MK_PARSED;

	if (service)
		ret = service_request(pkt, MK_SCOPE_EXTERNAL, service, &request);
	else if (!own && !host_port_request(pkt, MK_HOOK_UPLINK, &request))
		return TC_ACT_UNSPEC;
	if (ret == MK_PARSED && session_reopen(SERVICE_SESSIONS, pkt, hit, &request))
		goto opened;
	session_end(SERVICE_SESSIONS, pkt, hit);
	if (service && ret == MK_PARSED && is_beside_hosts_own(skb, pkt, &request))
		request.source_port = 1;
	request.source_port = forgotten(request.source_port, pkt->tuple.sport);
	own = forgotten(own, pkt->tuple.sport);
	if (ret == MK_PARSED)
		ret = session_open(SERVICE_SESSIONS, pkt, &request);
	if (own && ret != MK_PARSED && without_session(pkt, ret) == MK_PARSED)
		return TC_ACT_UNSPEC;
opened:
	if (ret == MK_PARSED) {
		account_connection(skb, pkt, request.account_id);
		ret = rewrite(skb, pkt, &request.to, &ctx->flags) ?: MK_PARSED;
	}
	if (ret != MK_PARSED) {
		account_drop(request.account_id, ret);
		return service_reject(skb, ctx, pkt, ret);
	}
	return route_next(skb, ctx, pkt);
}

static __always_inline int follow_session(struct __sk_buff *skb, struct chain_ctx *ctx,
					  struct packet *pkt, const struct session_hit *hit)
{
	int ret = session_follow(skb, pkt, hit, &ctx->flags);

	if (ret != MK_PARSED)
		return drop(skb, ctx->hook, ret, &pkt->tuple);
	return route_next(skb, ctx, pkt);
}

static __always_inline int follow_error(struct __sk_buff *skb, struct chain_ctx *ctx,
					struct packet *pkt)
{
	if (icmp_error_translate(skb, SERVICE_SESSIONS, pkt, &ctx->flags))
		return drop(skb, ctx->hook, MK_DROP_REWRITE_FAILED, &pkt->tuple);
	if (!(ctx->flags & CHAIN_TRANSLATED))
		return TC_ACT_UNSPEC;
	return chain_next(skb, ctx, pkt, MK_PROG_ROUTER);
}

/* To an address that is a Service's, but not to one of its ports: router refuses it, or answers a
 * ping. The host's stack would send it back where it came from. The node's own address, which most
 * packets have, is none of these. */
static __always_inline int is_for_vip(const struct packet *pkt)
{
	return !is_addr(&pkt->tuple.daddr, mk_node_addr()) && service_is_vip(&pkt->tuple.daddr);
}

/* The networks beside the way to outside: the host's containers, its storage. The host routes what they send to
 * Services' own addresses (to the hook `host`). */
static __always_inline int is_from_side(const struct __sk_buff *skb)
{
	const __u32 ifindex = skb->ifindex;
	const struct mk_uplink *uplink = bpf_map_lookup_elem(&uplinks, &ifindex);

	return uplink && uplink->flags & MK_UPLINK_SIDE;
}

static __always_inline int not_ours(struct __sk_buff *skb, struct chain_ctx *ctx,
				    const struct packet *pkt)
{
	return is_for_vip(pkt) && !is_from_side(skb) ? chain_next(skb, ctx, pkt, MK_PROG_ROUTER)
						     : TC_ACT_UNSPEC;
}

/* For no frontend and no host port: may it have a session all the same? */
static __always_inline int may_have_session(const struct packet *pkt)
{
	const struct mk_runtime *settings = runtime_settings();

	if (!settings)
		return 0;
	if (pkt->l4 == MK_L4_UDP)
		return settings->host_backends && is_udp_backend_port(pkt);
	return is_connection(pkt) && (settings->frontends_gone || settings->host_backends);
}

/* Of such: does one to the host itself need one? */
static __always_inline int needs_session(const struct packet *pkt)
{
	const struct mk_runtime *settings = runtime_settings();

	return settings && settings->host_backends && is_hosts_own_kept(pkt) &&
	       is_host_address(&pkt->tuple.daddr);
}

/* A packet of no session, for a frontend or a host port: is it an answer to a connection of this host's own, whose
 * port has the same number? */
static __always_inline int is_hosts_answer(struct __sk_buff *skb, const struct packet *pkt)
{
	if (pkt->l4 == MK_L4_TCP)
		return !is_first_of_tcp(pkt) &&
		       has_connection(skb, &pkt->tuple, BPF_F_CURRENT_NETNS);
	return pkt->l4 == MK_L4_UDP && has_connected_udp(skb, pkt);
}

SEC("tc")
int elb(struct __sk_buff *skb)
{
	struct mk_service *service;
	struct session_hit hit;
	struct chain_ctx ctx;
	struct packet pkt;
	__u8 wanted = 0; /* of its session: enum mk_session_flags */
	int ret = chain_packet(skb, &ctx, &pkt);

	if (ret != MK_PARSED)
		return drop(skb, ctx.hook, ret, &pkt.tuple);
	if (pkt.l4 == MK_L4_ICMP_ERROR)
		return follow_error(skb, &ctx, &pkt);
	if (ctx.flags &
	    CHAIN_TRANSLATED) { /* nat's answer; it may belong to a Service's session too */
		if (session_find(skb, SERVICE_SESSIONS, &pkt, &hit))
			return follow_session(skb, &ctx, &pkt, &hit);
		return route_next(skb, &ctx, &pkt);
	}
	/* the frontend first: the host's own traffic pays for one lookup, not for three */
	service = service_find(&pkt.tuple, MK_SCOPE_EXTERNAL);
	if (!service && !host_port_find(&pkt.tuple, MK_HOOK_UPLINK)) {
		if (!may_have_session(&pkt))
			return not_ours(skb, &ctx, &pkt);
		wanted = MK_SESSION_FORWARD;
	}
	if (session_find_or_over(skb, SERVICE_SESSIONS, &pkt, &hit) &&
	    (hit.flags & wanted) == wanted)
		return follow_session(skb, &ctx, &pkt, &hit);
	if (wanted && !needs_session(&pkt)) {
		session_end(SERVICE_SESSIONS, &pkt, &hit);
		return not_ours(skb, &ctx, &pkt);
	}
	if (!wanted && is_hosts_answer(skb, &pkt))
		return TC_ACT_UNSPEC;
	return open_external(skb, &ctx, &pkt, &hit, service, wanted);
}

SEC("tc")
int elb_uplink_egress(struct __sk_buff *skb)
{
	const struct mk_runtime *settings = runtime_settings();
	struct chain_ctx ctx = { .hook = MK_HOOK_UPLINK_EGRESS };
	struct session_hit hit;
	struct packet pkt;
	__u8 flags = 0;
	int ret;

	if (!settings || !settings->host_backends)
		return TC_ACT_UNSPEC;
	ret = packet_parse(skb, &pkt, MK_HOOK_UPLINK_EGRESS);
	if (ret < MK_PARSED)
		return fragment_next(skb, &ctx, &pkt, ret);
	if (ret != MK_PARSED)
		return TC_ACT_UNSPEC;
	if (pkt.l4 == MK_L4_ICMP_ERROR) /* nobody listens, says the host: the Service says it */
		return icmp_error_translate(skb, SERVICE_SESSIONS, &pkt, &flags)
			       ? drop(skb, MK_HOOK_UPLINK_EGRESS, MK_DROP_REWRITE_FAILED,
				      &pkt.tuple)
			       : TC_ACT_UNSPEC;
	if (!session_find(skb, SERVICE_SESSIONS, &pkt, &hit) || hit.flags & MK_SESSION_FORWARD)
		return TC_ACT_UNSPEC;
	ret = session_follow(skb, &pkt, &hit, &flags);
	return ret == MK_PARSED ? TC_ACT_UNSPEC : drop(skb, MK_HOOK_UPLINK_EGRESS, ret, &pkt.tuple);
}

char LICENSE[] __attribute__((weak)) SEC("license") = "Dual BSD/GPL";
