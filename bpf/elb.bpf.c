// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bpf/elb.bpf.c - external load balancer.
 *
 * Uplink ingress, after nat: traffic from outside to NodePorts, externalIPs and load-balancer
 * addresses gets a backend by Maglev's choice. With policy Cluster its source becomes the virtual
 * pod address, in the same session, so that the answer comes back to this node. Traffic to a host
 * port gets its pod. The packet then goes directly into a local pod, or to the router. Packets that
 * are not for monokube go up the host's stack.
 *
 * Uplink egress: answers of backends in the host's own network. */
#include "collision.h"
#include "chain.h"
#include "deliver.h"
#include "direct_return.h"
#include "fragment.h"
#include "host_port.h"
#include "icmp_error.h"
#include "overlay.h"
#include "policy.h"
#include "service.h"
#include "syn_gate.h"

static __always_inline int follow_session(struct __sk_buff *skb, struct chain_ctx *ctx,
					  struct packet *pkt, const struct session_hit *hit)
{
	int ret = session_follow(skb, pkt, hit, &ctx->flags);

	if (ret != MK_GO_ON)
		return drop(skb, ctx->hook, ret, &pkt->tuple);
	return route_next(skb, ctx, pkt);
}

/* Is the packet for an address of a Service, but for none of its ports? Then the router refuses it,
 * or answers a ping. The host's stack would send it back where it came from. The node's own
 * address, which most packets have, does not count. */
static __always_inline int is_for_vip(const struct packet *pkt)
{
	return !is_addr(&pkt->tuple.daddr, mk_node_addr()) && service_is_vip(&pkt->tuple.daddr);
}

/* Does the packet come from a network that is not the way to outside, such as the host's containers
 * or its storage? The host routes packets from there to Services' own addresses (to the hook
 * `host`). */
static __always_inline int is_from_side(const struct __sk_buff *skb)
{
	const __u32 ifindex = skb->ifindex;
	const struct mk_uplink *uplink = find_number(&uplinks, ifindex);

	return uplink && uplink->flags & MK_UPLINK_SIDE;
}

/* Is the packet for a local pod, and may hosts outside reach pods directly? */
static __always_inline int is_for_routed_pod(const struct packet *pkt)
{
	return mk_node.keeps_source && is_local_pod(&pkt->tuple.daddr);
}

static __always_inline int not_ours(struct __sk_buff *skb, struct chain_ctx *ctx,
				    const struct packet *pkt)
{
	if (is_for_routed_pod(pkt) || (is_for_vip(pkt) && !is_from_side(skb)))
		return chain_next(skb, ctx, pkt, MK_PROG_ROUTER);
	return TC_ACT_UNSPEC;
}

static __always_inline int follow_error(struct __sk_buff *skb, struct chain_ctx *ctx,
					struct packet *pkt)
{
	struct session_hit hit;
	__u32 node;

	node = node_of_error(skb, pkt);
	if (node)
		return delegate_to(skb, ctx, pkt, node);
	if (icmp_error_has_path(skb, pkt, &hit))
		return follow_next(skb, ctx, pkt, &hit, MK_PROG_SFC);
	if (icmp_error_translate(skb, SERVICE_SESSIONS, pkt, &ctx->flags))
		return drop(skb, ctx->hook, MK_DROP_REWRITE_FAILED, &pkt->tuple);
	if (!(ctx->flags & CHAIN_TRANSLATED) && mk_node.keeps_client && is_for_vip(pkt))
		return chain_next(skb, ctx, pkt, MK_PROG_CLIENT);
	if (!(ctx->flags & CHAIN_TRANSLATED) && !is_for_routed_pod(pkt))
		return TC_ACT_UNSPEC;
	if (policy_forbids_error(ctx, pkt))
		return drop(skb, ctx->hook, MK_DROP_POLICY_NO_FLOW, &pkt->tuple);
	return chain_next(skb, ctx, pkt, MK_PROG_ROUTER);
}

/* The packet is for no frontend and no host port. May it have a session nevertheless? */
static __always_inline int may_have_session(const struct packet *pkt)
{
	const struct mk_runtime *settings = runtime_settings();

	if (!settings)
		return 0;
	if (pkt->l4 == MK_L4_UDP)
		return settings->host_backends && is_udp_backend_port(pkt);
	return is_connection(pkt) && (settings->frontends_gone || settings->host_backends);
}

/* Does such a packet to the host itself need a session? */
static __always_inline int needs_session(const struct packet *pkt)
{
	const struct mk_runtime *settings = runtime_settings();

	return settings && settings->host_backends && hosts_flow_needs_session(pkt) &&
	       is_host_address(&pkt->tuple.daddr);
}

/* A packet without a session is for a frontend or a host port. Is it an answer to one of the host's
 * own connections, whose port has the same number? */
static __always_inline int is_hosts_answer(struct __sk_buff *skb, const struct packet *pkt)
{
	if (pkt->l4 == MK_L4_TCP)
		return !is_first_of_tcp(pkt) &&
		       has_connection(skb, &pkt->tuple, BPF_F_CURRENT_NETNS);
	return pkt->l4 == MK_L4_UDP && has_connected_udp(skb, pkt);
}

/* The kind of destination that @pkt may have. The frontend is checked first, so the host's own
 * traffic pays one look-up instead of three. */
static __always_inline enum chain_opens may_open(const struct packet *pkt)
{
	if (service_find(&pkt->tuple, MK_SCOPE_EXTERNAL))
		return CHAIN_OPENS_SERVICE;
	if (host_port_find(&pkt->tuple, MK_HOOK_UPLINK))
		return CHAIN_OPENS_HOST_PORT;
	return may_have_session(pkt) ? CHAIN_OPENS_OWN : CHAIN_OPENS_NONE;
}

/* Is the session valid for this packet? A packet for the host itself may use only a session that
 * the client opened, not the answers' direction of one. */
static __always_inline int is_session_of(const struct chain_ctx *ctx, const struct session_hit *hit)
{
	return ctx->opens != CHAIN_OPENS_OWN || hit->flags & MK_SESSION_FORWARD;
}

/* There is no session; program `open` opens one if the flow needs it. */
static __always_inline int balance_new(struct __sk_buff *skb, struct chain_ctx *ctx,
				       const struct packet *pkt, struct session_hit *hit)
{
	int ret;

	if (ctx->opens == CHAIN_OPENS_OWN && !needs_session(pkt)) {
		session_end(SERVICE_SESSIONS, pkt, hit);
		return not_ours(skb, ctx, pkt);
	}
	if (ctx->opens != CHAIN_OPENS_OWN && is_hosts_answer(skb, pkt))
		return TC_ACT_UNSPEC;
	ret = syn_gate_pass(skb, ctx, pkt, hit);
	if (ret != MK_GO_ON)
		return ret;
	if (ctx->opens == CHAIN_OPENS_HOST_PORT && !is_first_for_host_port(pkt))
		return TC_ACT_UNSPEC;
	if (mk_node.returns_direct && ctx->opens == CHAIN_OPENS_SERVICE &&
	    !(ctx->flags & CHAIN_MASQUERADES))
		return open_by(skb, ctx, pkt, hit, MK_PROG_CLIENT);
	return open_next(skb, ctx, pkt, hit);
}

/* Is the packet for a pod with policies, and for no Service? Then nat has translated an answer
 * back, or hosts outside reach pods directly. */
static __always_inline int is_watched(const struct chain_ctx *ctx, const struct packet *pkt)
{
	if (ctx->opens == CHAIN_OPENS_SERVICE || ctx->opens == CHAIN_OPENS_HOST_PORT)
		return 0;
	return (ctx->flags & CHAIN_TRANSLATED || is_for_routed_pod(pkt)) &&
	       policy_watches(&pkt->tuple.saddr, &pkt->tuple.daddr);
}

SEC("tc")
int elb(struct __sk_buff *skb)
{
	struct session_hit hit;
	struct chain_ctx ctx;
	struct packet pkt;
	int ret = chain_packet(skb, &ctx, &pkt), watched;

	if (ret != MK_GO_ON)
		return drop(skb, ctx.hook, ret, &pkt.tuple);
	if (pkt.l4 == MK_L4_ICMP_ERROR)
		return follow_error(skb, &ctx, &pkt);
	/* a packet that nat has translated opens no session, but may belong to a Service's
	 * session */
	ctx.opens = ctx.flags & CHAIN_TRANSLATED ? CHAIN_OPENS_NONE : may_open(&pkt);
	watched = is_watched(&ctx, &pkt);
	if (!ctx.opens && !(ctx.flags & CHAIN_TRANSLATED) && !watched)
		return not_ours(skb, &ctx, &pkt);
	if (ctx.flags & CHAIN_PLAIN && !watched)
		return route_next(skb, &ctx, &pkt);
	if (session_find_or_over(skb, SERVICE_SESSIONS, &pkt, &hit) &&
	    (watched || is_session_of(&ctx, &hit))) {
		if (hit.flags & MK_SESSION_VIA_OVERLAY) {
			if (is_delegated(hit.flags, &hit.to.daddr))
				return delegate_to(skb, &ctx, &pkt, hit.node);
			note_node(&pkt, &hit, node_of_this());
			hit.flags &= ~MK_SESSION_VIA_OVERLAY;
		}
		affinity_earn(&pkt, MK_SCOPE_EXTERNAL, &hit);
		if (policy_asks_again(&pkt, &hit))
			return follow_next(skb, &ctx, &pkt, &hit, MK_PROG_POLICY);
		if (hit.to.path)
			return follow_next(skb, &ctx, &pkt, &hit, MK_PROG_SFC);
		return follow_session(skb, &ctx, &pkt, &hit);
	}
	if (watched)
		return policy_next_own(skb, &ctx, &pkt, &hit, 0);
	if (ctx.opens)
		return balance_new(skb, &ctx, &pkt, &hit);
	session_end(SERVICE_SESSIONS, &pkt, &hit);
	return route_next(skb, &ctx, &pkt);
}

/* The host reports that no process listens: the error must come from the Service. An error that
 * this node relays stays as it is (direct_return.h). */
static __always_inline int error_leaves(struct __sk_buff *skb, struct packet *pkt)
{
	__u8 flags = 0;

	if (!node_of_error(skb, pkt) && icmp_error_translate(skb, SERVICE_SESSIONS, pkt, &flags))
		return drop(skb, MK_HOOK_UPLINK_EGRESS, MK_DROP_REWRITE_FAILED, &pkt->tuple);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int elb_uplink_egress(struct __sk_buff *skb)
{
	const struct mk_runtime *settings = runtime_settings();
	struct chain_ctx ctx = { .hook = MK_HOOK_UPLINK_EGRESS };
	struct session_hit hit;
	const struct mk_tuple unknown = { 0 };
	struct packet pkt;
	__u8 flags = 0;
	int ret;

	ret = leaves_clear(skb);
	if (ret)
		return drop(skb, MK_HOOK_UPLINK_EGRESS, ret, &unknown);
	(void)other_family_next(skb, MK_ENTRY_UPLINK_EGRESS);
	if (!settings || !settings->host_backends)
		return TC_ACT_UNSPEC;
	ret = packet_parse(skb, &pkt, MK_HOOK_UPLINK_EGRESS);
	if (ret < MK_GO_ON)
		return fragment_next(skb, &ctx, &pkt, ret);
	if (ret != MK_GO_ON || is_of_link(&pkt))
		return TC_ACT_UNSPEC;
	if (pkt.l4 == MK_L4_ICMP_ERROR)
		return error_leaves(skb, &pkt);
	if (!session_find(skb, SERVICE_SESSIONS, &pkt, &hit) || hit.flags & MK_SESSION_FORWARD)
		return TC_ACT_UNSPEC;
	ret = session_follow(skb, &pkt, &hit, &flags);
	return ret == MK_GO_ON ? TC_ACT_UNSPEC : drop(skb, MK_HOOK_UPLINK_EGRESS, ret, &pkt.tuple);
}

char LICENSE[] __attribute__((weak)) SEC("license") = "Dual BSD/GPL";
