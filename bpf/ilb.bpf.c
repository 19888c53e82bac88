// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bpf/ilb.bpf.c - internal load balancer, the first program of the hooks pod, host and overlay.
 * Traffic of local pods and of the host to a Service gets a backend as its destination, traffic to
 * a host port gets its pod. Answers get back the address that the client asked, whichever program
 * opened the session. The packet then goes directly into a local pod, or to the router. */
#include "answer.h"
#include "collision.h"
#include "chain.h"
#include "client.h"
#include "cluster.h"
#include "deliver.h"
#include "direct.h"
#include "direct_return.h"
#include "fragment.h"
#include "host_port.h"
#include "icmp_error.h"
#include "masquerade.h"
#include "overlay.h"
#include "partial.h"
#include "policy.h"
#include "service.h"

/* A pod may send only from its own address and MAC. */
static __always_inline int check_sender(struct __sk_buff *skb, const struct packet *pkt)
{
	struct ethhdr *eth = packet_at(skb, 0, sizeof(*eth));
	struct mk_pod *pod = pod_find(&pkt->tuple.saddr);

	if (!pod || pod->ifindex != skb->ifindex)
		return MK_DROP_SPOOFED_ADDRESS;
	if (!eth)
		return MK_DROP_TRUNCATED;
	return is_mac_of(eth, pod) ? MK_GO_ON : MK_DROP_SPOOFED_MAC;
}

/* A pod is not a router: it may send ICMP errors only about packets that were for it. */
static __always_inline int check_error(struct __sk_buff *skb, const struct packet *pkt)
{
	__u32 quoted_off = pkt->l4_off + sizeof(struct icmphdr);
	struct mk_tuple tuple;
	ip_header *quoted;

	if (pkt->l4 != MK_L4_ICMP_ERROR)
		return MK_GO_ON;
	if (packet_pull(skb, quoted_off + sizeof(*quoted)))
		return MK_DROP_TRUNCATED;
	quoted = packet_at(skb, quoted_off, sizeof(*quoted));
	if (!quoted)
		return MK_DROP_TRUNCATED;
	tuple_from_ip(&tuple, quoted);
	return mk_addr_eq(&tuple.daddr, &pkt->tuple.saddr) ? MK_GO_ON : MK_DROP_FORGED_ERROR;
}

/* Read a packet like packet_parse(), but check the sender before fragment tracking. So forged
 * packets leave no data that could mislead other packets' fragments. */
static __always_inline int read_from_pod(struct __sk_buff *skb, struct packet *pkt)
{
	int ret = packet_read(skb, pkt);

	if (is_of_link(pkt))
		return MK_DROP_NEIGHBOUR_DISCOVERY;
	if (ret == MK_GO_ON)
		ret = check_sender(skb, pkt);
	if (ret == MK_GO_ON)
		ret = check_partial(skb, pkt);
	if (ret == MK_GO_ON)
		ret = check_options(skb, pkt);
	if (ret == MK_GO_ON)
		ret = check_error(skb, pkt);
	if (ret == MK_GO_ON)
		ret = fragment_gather(skb, pkt, MK_HOOK_POD);
	return ret;
}

/* Does a flow to no Service need a session? It does in these cases:
 *
 * - The host forwards the flow for another network (a port mapping, containers). The state is in
 *   the host's stack, so the answers have to pass it again.
 * - Another node's host has sent it (is_of_node()).
 * - A pod's flow has, or may get, the same answers as a Service's flow.
 * - The host's own flow has the same answers as a Service's flow. Later flows need no check here,
 *   because masquerade_host() gives Services' flows other ports. */
static __always_inline int needs_session(const struct chain_ctx *ctx, const struct packet *pkt)
{
	if (ctx->hook == MK_HOOK_OVERLAY || ctx->reverse_flags & MK_SESSION_VIA_HOST)
		return ctx->reverse_flags;
	if (ctx->hook == MK_HOOK_POD)
		return pods_flow_needs_session(pkt);
	if (ctx->hook == MK_HOOK_CLUSTER)
		return 0;
	return is_first_of_tcp(pkt) && session_reverse_taken(SERVICE_SESSIONS, &pkt->tuple);
}

/* Can @addr be the host's? The pods' gateway is the host's address in the pods' range. */
static __always_inline int may_be_host(const struct mk_addr *addr)
{
	return !is_pod_range(addr) || is_addr(addr, mk_node_gateway());
}

/* Is the packet for a loopback address, but not from the host? Frontends at 127.0.0.1 are only for
 * this host. */
static __always_inline int is_others_localhost(const struct chain_ctx *ctx,
					       const struct packet *pkt)
{
	return ctx->hook != MK_HOOK_HOST && mk_addr_is_loopback(&pkt->tuple.daddr);
}

/* Is this a flow that another node has sent to a local pod, with an address of its own host, or of
 * a client outside (client.h)? Its answers must go by the overlay. To the pod it seems to come from
 * outside the cluster, so its answers would otherwise leave masqueraded. */
static __always_inline int is_of_node(const struct packet *pkt)
{
	struct mk_route view;

	if (is_pod_range(&pkt->tuple.saddr) || is_vtep_range(&pkt->tuple.saddr) ||
	    !is_local_pod(&pkt->tuple.daddr) || view_route(&pkt->tuple.saddr, &view))
		return 0;
	return pkt->l4 != MK_L4_OTHER && pkt->l4 != MK_L4_ECHO_REPLY &&
	       !(pkt->tcp_flags & MK_TCP_RST);
}

/* Is @pkt, which has no session, for a Service, a host port or an external address? Sets
 * ctx->opens if so. Also sets ctx->reverse_flags. */
static __always_inline int is_balanced(struct chain_ctx *ctx, const struct packet *pkt)
{
	if (ctx->hook == MK_HOOK_OVERLAY) {
		if (is_of_node(pkt))
			ctx->reverse_flags = MK_SESSION_VIA_OVERLAY;
		return 0;
	}
	if (ctx->hook == MK_HOOK_CLUSTER) {
		if (!is_pod_range(&pkt->tuple.daddr))
			ctx->opens = CHAIN_OPENS_EXTERNAL;
		return ctx->opens;
	}
	if (ctx->hook == MK_HOOK_HOST && !is_host_address(&pkt->tuple.saddr))
		ctx->reverse_flags = MK_SESSION_VIA_HOST;
	if (!is_pod_range(&pkt->tuple.daddr) && service_find(&pkt->tuple, MK_SCOPE_INTERNAL) &&
	    !is_others_localhost(ctx, pkt))
		ctx->opens = CHAIN_OPENS_SERVICE;
	else if (may_be_host(&pkt->tuple.daddr) && is_first_for_host_port(pkt) &&
		 host_port_find(&pkt->tuple, ctx->hook))
		ctx->opens = CHAIN_OPENS_HOST_PORT;
	return ctx->opens;
}

/* There is no session; program `open` or `policy` opens one if the flow needs it. */
static __always_inline int balance_new(struct __sk_buff *skb, struct chain_ctx *ctx,
				       struct packet *pkt, struct session_hit *hit)
{
	if (cluster_is_denied(skb, ctx, pkt))
		return drop(skb, ctx->hook, MK_DROP_PEER_DENIED, &pkt->tuple);
	if (ctx->hook == MK_HOOK_OVERLAY && is_sent_back(skb, pkt))
		return chain_next(skb, ctx, pkt, MK_PROG_CLIENT);
	if (ctx->hook == MK_HOOK_OVERLAY && is_of_this_host(pkt))
		return send_back(skb, ctx, pkt);
	if (ctx->hook == MK_HOOK_OVERLAY && !is_pod_range(&pkt->tuple.daddr)) {
		if (is_refused(skb))
			return drop(skb, ctx->hook, MK_DROP_OVERLAY_STRAY, &pkt->tuple);
		if (is_answer_of_node(pkt))
			return chain_next(skb, ctx, pkt, MK_PROG_CLIENT);
		if (is_delegated_here(skb, pkt)) {
			ctx->opens = CHAIN_OPENS_DELEGATED;
			return open_by(skb, ctx, pkt, hit, MK_PROG_CLIENT);
		}
		if (is_answer_of_session(pkt))
			return chain_next(skb, ctx, pkt, MK_PROG_CLIENT);
	}
	if (is_balanced(ctx, pkt))
		return open_next(skb, ctx, pkt, hit);
	if (policy_watches(&pkt->tuple.saddr, &pkt->tuple.daddr))
		return policy_next_own(skb, ctx, pkt, hit, node_of_client(skb, ctx, pkt));
	if (needs_session(ctx, pkt)) {
		ctx->opens = CHAIN_OPENS_OWN;
		return open_next(skb, ctx, pkt, hit);
	}
	session_end(SERVICE_SESSIONS, pkt, hit); /* no session replaces it */
	if (ctx->hook == MK_HOOK_POD)
		ctx->flags |= CHAIN_PLAIN;
	return route_next(skb, ctx, pkt);
}

/* Translate an ICMP error with the session of the packet that it quotes, if there is one. */
static __always_inline int balance_error(struct __sk_buff *skb, struct chain_ctx *ctx,
					 struct packet *pkt)
{
	struct session_hit hit;

	if (icmp_error_has_path(skb, pkt, &hit))
		return follow_next(skb, ctx, pkt, &hit, MK_PROG_SFC);
	if (icmp_error_translate(skb, SERVICE_SESSIONS, pkt, &ctx->flags))
		return drop(skb, ctx->hook, MK_DROP_REWRITE_FAILED, &pkt->tuple);
	if (ctx->hook == MK_HOOK_OVERLAY && is_answer_of_node(pkt))
		ctx->flags |= CHAIN_TRANSLATED; /* by the pod's node */
	if (!(ctx->flags & CHAIN_TRANSLATED) && cluster_is_denied(skb, ctx, pkt))
		return drop(skb, ctx->hook, MK_DROP_PEER_DENIED, &pkt->tuple);
	if (policy_forbids_error(ctx, pkt))
		return drop(skb, ctx->hook, MK_DROP_POLICY_NO_FLOW, &pkt->tuple);
	return chain_next(skb, ctx, pkt, MK_PROG_ROUTER);
}

static __always_inline int balance(struct __sk_buff *skb, struct chain_ctx *ctx, struct packet *pkt)
{
	struct session_hit hit;
	int ret, verdict;

	if (pkt->l4 == MK_L4_ICMP_ERROR)
		return balance_error(skb, ctx, pkt);
	ret = session_find_established(skb, SERVICE_SESSIONS, pkt, &hit);
	if (ret == 0 && ctx->hook == MK_HOOK_POD && masquerade_known(skb, ctx, pkt, &verdict))
		return verdict;
	if (ret < 0 || (ret == 0 && !session_find_young(skb, SERVICE_SESSIONS, pkt, &hit)))
		return balance_new(skb, ctx, pkt, &hit);
	if (ctx->hook == MK_HOOK_OVERLAY && hit.flags & MK_SESSION_FORWARD &&
	    is_of_other_flow(skb, pkt, hit.node))
		return send_back(skb, ctx, pkt);
	/* the host has just sent this packet, and nothing translates it: do not hand it back */
	if (ctx->hook == MK_HOOK_HOST && hit.flags & MK_SESSION_VIA_HOST &&
	    tuple_eq(&hit.to, &pkt->tuple)) {
		hit.flags &= ~MK_SESSION_VIA_HOST;
		hit.to.path = 0; /* it has passed its functions */
	}
	if (hit.flags & MK_SESSION_VIA_OVERLAY || has_left_this_node(ctx, pkt, &hit)) {
		if (is_delegated(hit.flags, &hit.to.daddr)) /* it comes by another node now */
			return delegate_on(skb, ctx, pkt, hit.node);
		note_node(pkt, &hit, node_of_frame(skb));
		if (needs_no_node(skb, pkt, &pkt->tuple, &hit, ret > 0))
			hit.flags &= ~MK_SESSION_VIA_OVERLAY;
	}
	affinity_earn(pkt, MK_SCOPE_INTERNAL, &hit);
	if (policy_asks_again(pkt, &hit))
		return follow_next(skb, ctx, pkt, &hit, MK_PROG_POLICY);
	if (hit.to.path)
		return follow_next(skb, ctx, pkt, &hit, MK_PROG_SFC);
	ret = session_follow(skb, pkt, &hit, &ctx->flags);
	if (ret != MK_GO_ON)
		return drop(skb, ctx->hook, ret, &pkt->tuple);
	return route_next(skb, ctx, pkt);
}

/* Neighbour discovery ends here: program `ndp` answers a pod, all other messages are dropped. */
static __always_inline int neighbour_next(struct __sk_buff *skb, struct chain_ctx *ctx,
					  const struct packet *pkt)
{
	if (ctx->hook == MK_HOOK_POD && pkt->fragment == MK_WHOLE)
		return chain_next(skb, ctx, pkt, MK_PROG_NDP);
	return drop(skb, ctx->hook, MK_DROP_NEIGHBOUR_DISCOVERY, &pkt->tuple);
}

static __always_inline int ilb(struct __sk_buff *skb, enum mk_hook hook, enum mk_entry entry)
{
	struct chain_ctx ctx = { .hook = hook };
	struct packet pkt;
	int ret = hook == MK_HOOK_POD ? read_from_pod(skb, &pkt) : packet_parse(skb, &pkt, hook);

	if (ret == MK_DROP_NOT_IPV4)
		ret = other_family_next(skb, entry);
	if (ret < MK_GO_ON)
		return fragment_next(skb, &ctx, &pkt, ret);
	if (is_of_link(&pkt))
		return neighbour_next(skb, &ctx, &pkt);
	if (ret == MK_GO_ON && hook != MK_HOOK_POD && is_link_local(&pkt.tuple.saddr))
		ret = MK_DROP_NOT_UNICAST; /* of a link that pods are not on */
	if (ret == MK_GO_ON && hook == MK_HOOK_OVERLAY && mk_node.is_carried_by_other &&
	    is_on_overlay(skb) && !is_of_its_node(skb, &pkt))
		ret = MK_DROP_OVERLAY_STRANGER;
	if (ret != MK_GO_ON)
		return drop(skb, hook, ret, &pkt.tuple);
	return balance(skb, &ctx, &pkt);
}

SEC("tc")
int ilb_pod(struct __sk_buff *skb)
{
	return ilb(skb, MK_HOOK_POD, MK_ENTRY_POD);
}

SEC("tc")
int ilb_host(struct __sk_buff *skb)
{
	return ilb(skb, MK_HOOK_HOST, MK_ENTRY_HOST);
}

SEC("tc")
int ilb_overlay(struct __sk_buff *skb)
{
	return ilb(skb, MK_HOOK_OVERLAY, MK_ENTRY_OVERLAY);
}

/* A packet of another cluster's pod: its source is the address by which this cluster sees it. */
SEC("tc")
int ilb_cluster(struct __sk_buff *skb)
{
	struct chain_ctx ctx;
	struct packet pkt;
	int ret = chain_packet(skb, &ctx, &pkt);

	if (ret != MK_GO_ON)
		return drop(skb, ctx.hook, ret, &pkt.tuple);
	ctx.hook = MK_HOOK_CLUSTER; /* known to the compiler: only `cluster_in` continues here */
	return balance(skb, &ctx, &pkt);
}

/* Can a packet to a loopback address be for a host port or a NodePort? Packets to other ports pay
 * one look-up in `runtime`. */
static __always_inline int is_asked_at_localhost(struct __sk_buff *skb, const ip_header *ip)
{
	const struct mk_runtime *settings = runtime_settings();
	__u16 port;

	if (!settings || !(settings->host_ports | settings->localhost_port_max))
		return 0;
	if (settings->host_ports || local_dest_port(skb, ip, &port))
		return 1;
	return settings->localhost_port_min <= port && port <= settings->localhost_port_max;
}

/* Can a packet on the loopback device be ours? Most of the host's traffic to itself is not, and
 * must cost nothing. The stack has just written the headers, so they are complete. */
static __always_inline int is_ours_on_loopback(struct __sk_buff *skb)
{
	ip_header *ip = packet_at(skb, MK_L3_OFF, sizeof(*ip));
	struct mk_tuple tuple;

	if (!ip)
		return 0;
	tuple_from_ip(&tuple, ip);
	if (mk_addr_is_loopback(&tuple.daddr))
		return is_asked_at_localhost(skb, ip);
	return !mk_addr_is_loopback(&tuple.saddr);
}

static __always_inline int has_session(const struct packet *pkt)
{
	return bpf_map_lookup_elem(&sessions, &pkt->tuple) ||
	       bpf_map_lookup_elem(&sessions_young, &pkt->tuple);
}

/* Is this an answer to one of the host's own connections, whose source port equals a Service's
 * port? Such an answer has no session. A UDP socket counts only if it is connected to the
 * sender. */
static __always_inline int is_hosts_own(struct __sk_buff *skb, const struct packet *pkt)
{
	if (pkt->l4 == MK_L4_TCP)
		return !is_first_of_tcp(pkt) && !has_session(pkt);
	return pkt->l4 == MK_L4_UDP && !has_session(pkt) && has_connected_udp(skb, pkt);
}

/* Is the packet for a Service, or for a pod with this host port? */
static __always_inline int is_for_host_hook(struct __sk_buff *skb, const struct packet *pkt)
{
	if (service_find(&pkt->tuple, MK_SCOPE_INTERNAL))
		return !is_hosts_own(skb, pkt);
	if (!others_are_ours())
		return 0;
	if (host_port_find(&pkt->tuple, MK_HOOK_HOST))
		return pkt->l4 != MK_L4_TCP || is_first_of_tcp(pkt) || has_session(pkt);
	return may_outlive_frontend(pkt) && has_session(pkt);
}

/* Loopback device, egress. The host may send to one of its own addresses that is also a Service's
 * (NodePort, external address) or that leads to a pod (hostPort). Such packets go to the hook
 * `host`, as if they had been routed there, but unsegmented, up to 64 KiB. All others pass, usually
 * after one look-up. */
SEC("tc")
int ilb_lo_egress(struct __sk_buff *skb)
{
	const struct mk_link_set *links = links_now();
	struct packet pkt;
	struct ethhdr *eth;

	if (skb->protocol != bpf_htons(MK_ETH_P_IP)) {
		(void)other_family_next(skb, MK_ENTRY_LOOPBACK);
		return TC_ACT_UNSPEC;
	}
	/* fragments come in order here; they are not held, because they are too large */
	if (!is_ours_on_loopback(skb) || packet_parse(skb, &pkt, MK_HOOK_COUNT) > MK_GO_ON ||
	    !is_for_host_hook(skb, &pkt))
		return TC_ACT_UNSPEC;
	eth = packet_at(skb, 0, sizeof(*eth));
	if (!links || !eth)
		return drop(skb, MK_HOOK_HOST, MK_DROP_TRUNCATED, &pkt.tuple);
	set_macs(eth, mk_node.gateway_mac, mk_node.gateway_mac);
	return bpf_redirect(links->host_peer_ifindex, BPF_F_INGRESS);
}

char LICENSE[] __attribute__((weak)) SEC("license") = "Dual BSD/GPL";
