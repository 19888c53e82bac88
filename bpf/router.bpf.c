// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bpf/router.bpf.c - finds where the destination is: a local pod, another node, this host, outside.
 * It sets the next MAC addresses, decrements the TTL, and sends the packet on its way. Most packets
 * do not come here: `ilb`, `elb` and `open` deliver packets to local pods themselves (deliver.h).
 * Program `error` answers instead of forwarding: it turns the packet into an ICMP error about
 * itself, which is then routed. */
#include "chain.h"
#include "client.h"
#include "cluster.h"
#include "deliver.h"
#include "direct.h"
#include "direct_return.h"
#include "icmp_error.h"
#include "overlay.h"
#include "rewrite.h"
#include "service.h"
#include "uplink.h"

static __always_inline int expired(struct __sk_buff *skb, struct chain_ctx *ctx,
				   const struct packet *pkt)
{
	return chain_error(skb, ctx, pkt, MK_DROP_TTL_EXPIRED, MK_ICMP_EXPIRED, 0, 0);
}

/* Another node of this cluster asks whether this one is alive, to send its packets for other
 * clusters here. Or it asks whether the link between the two carries packets without VXLAN (setting
 * routing). */
static __always_inline int is_probe_of_node(struct __sk_buff *skb, const struct chain_ctx *ctx,
					    const struct packet *pkt)
{
	return ctx->hook == MK_HOOK_OVERLAY && is_vtep_range(&pkt->tuple.saddr) &&
	       is_probe(skb, pkt);
}

static __always_inline int answer_probe(struct __sk_buff *skb, struct chain_ctx *ctx,
					struct packet *pkt)
{
	struct mk_tuple back;
	int ret;

	tuple_reverse(&back, &pkt->tuple);
	ret = rewrite(skb, pkt, &back, &ctx->flags);
	if (ret != MK_GO_ON)
		return drop(skb, ctx->hook, ret, &pkt->tuple);
	relay_show(skb, pkt);
	ctx->flags |= CHAIN_TRANSLATED;
	return chain_next(skb, ctx, pkt, MK_PROG_ROUTER);
}

static __always_inline int to_pod(struct __sk_buff *skb, struct chain_ctx *ctx, struct packet *pkt)
{
	int verdict, ret = deliver(skb, ctx, pkt, &verdict);

	if (ret == MK_GO_ON)
		return verdict;
	if (ret == MK_DROP_NO_POD && is_probe_of_node(skb, ctx, pkt))
		return answer_probe(skb, ctx, pkt);
	if (ret == MK_DROP_TTL_EXPIRED)
		return expired(skb, ctx, pkt);
	if (ret == MK_DROP_NO_POD)
		return chain_error(skb, ctx, pkt, ret, MK_ICMP_UNREACHABLE, MK_ICMP_NO_HOST, 0);
	return drop(skb, ctx->hook, ret, &pkt->tuple);
}

/* Is the packet another cluster's, maybe carried on by another node? */
static __always_inline int is_from_cluster(const struct chain_ctx *ctx, const struct packet *pkt)
{
	struct mk_route view;

	return ctx->hook == MK_HOOK_CLUSTER ||
	       (ctx->hook == MK_HOOK_OVERLAY && view_route(&pkt->tuple.saddr, &view));
}

/* Send the packet up the host's stack. Some packets must arrive by the host veth: those that pods
 * or this host send, those of other clusters, and those whose session set a Service's address or
 * the virtual pod address as source. The host's route to such a source leads through the host veth.
 * On the device that they came in by, reverse path filtering, strict or loose, would drop them; a
 * pod's device has no address (fib_validate_source()). The host's firewall also sees one interface
 * for all packets from pods. All other packets stay on their device, or come by the one that the
 * host's route to their node uses. */
static __always_inline int to_host(struct __sk_buff *skb, struct chain_ctx *ctx,
				   const struct packet *pkt)
{
	const struct mk_link_set *links = links_now();
	struct frame frame;

	if (is_overlay_carrier(pkt))
		return drop(skb, ctx->hook, MK_DROP_OVERLAY_FORGED, &pkt->tuple);
	if (!is_from_pod(ctx) && ctx->hook != MK_HOOK_HOST && !(ctx->flags & CHAIN_NEW_SOURCE) &&
	    !is_from_cluster(ctx, pkt))
		return ctx->hook == MK_HOOK_OVERLAY ? direct_to_host(skb, pkt) : TC_ACT_UNSPEC;
	if (!links || frame_of(skb, &frame))
		return drop(skb, ctx->hook, MK_DROP_TRUNCATED, &pkt->tuple);
	set_macs(frame.eth, mk_node.gateway_mac, mk_node.gateway_mac);
	return bpf_redirect(links->host_ifindex, BPF_F_INGRESS);
}

/* Send an answer from one of the host's own addresses to the loopback device. On any other device
 * it would be martian. */
static __always_inline int to_loopback(struct __sk_buff *skb, struct chain_ctx *ctx,
				       const struct packet *pkt)
{
	static const __u8 no_mac[ETH_ALEN];
	struct frame frame;

	if (frame_of(skb, &frame))
		return drop(skb, ctx->hook, MK_DROP_TRUNCATED, &pkt->tuple);
	set_macs(frame.eth, no_mac, no_mac);
	return bpf_redirect(MK_LOOPBACK_IFINDEX, BPF_F_INGRESS);
}

/* The node on the link to which the packet goes without VXLAN; NULL: by VXLAN. */
static __always_inline const struct mk_link_node *
link_to(const struct chain_ctx *ctx, const struct packet *pkt, const struct mk_route *route)
{
	if (!route->is_direct)
		return relay_link(ctx, pkt, route);
	return is_known_source(&pkt->tuple.saddr) ? link_node_of(route->vtep_mac) : NULL;
}

/* To another node: to its own address if it is on the link, otherwise by VXLAN. A packet too large
 * for the link, but allowed to be cut, also goes by VXLAN, whose carriers are. */
static __always_inline int to_overlay(struct __sk_buff *skb, struct chain_ctx *ctx,
				      const struct packet *pkt, const struct mk_route *route)
{
	const struct mk_link_node *node = link_to(ctx, pkt, route);
	const struct mk_link_set *links = links_now();
	__u32 mtu_bytes;
	struct frame frame;

	if (mk_node.encrypts_all && route->is_clear)
		return drop(skb, ctx->hook, MK_DROP_OVERLAY_CLEAR, &pkt->tuple);
	if (!links || frame_of(skb, &frame))
		return drop(skb, ctx->hook, MK_DROP_TRUNCATED, &pkt->tuple);
	mtu_bytes = node ? node->mtu_bytes : links->overlay_mtu_bytes;
	if (exceeds_tunnel(skb, ctx, pkt, frame.ip, mtu_bytes))
		return chain_error(skb, ctx, pkt, MK_DROP_TOO_BIG, MK_ICMP_TOO_BIG,
				   MK_ICMP_TOO_BIG_CODE, mtu_bytes);
	if (hop(skb, ctx, frame.ip) != MK_GO_ON)
		return expired(skb, ctx, pkt);
	if (node && wire_bytes(skb, pkt) <= mtu_bytes)
		return route->is_direct ? direct_send(node) : relay_send(frame.eth, node);
	set_macs(frame.eth, mk_node.vtep_mac, route->vtep_mac);
	if (is_back(ctx))
		frame.eth->h_source[0] |= MK_MAC_SENT_BACK;
	return bpf_redirect(links->overlay_ifindex, 0);
}

/* Answers to packets that the host sent or forwarded go to the host, for any source address. */
static __always_inline __u8 back_to_host(const struct chain_ctx *ctx)
{
	return ctx->hook == MK_HOOK_HOST ? CHAIN_VIA_HOST : 0;
}

/* Answer a ping to a Service's address, and route the answer. */
static __always_inline int answer_ping(struct __sk_buff *skb, struct chain_ctx *ctx,
				       struct packet *pkt)
{
	struct icmphdr *icmp = packet_at(skb, pkt->l4_off, sizeof(*icmp));
	struct mk_tuple back;

	if (!icmp)
		return drop(skb, ctx->hook, MK_DROP_TRUNCATED, &pkt->tuple);
	if (icmp->type != MK_ICMP_ECHO)
		return drop(skb, ctx->hook, MK_DROP_REFUSED, &pkt->tuple);
	icmp->type = MK_ICMP_ECHO_REPLY;
	csum_add_diff(&icmp->checksum, MK_ICMP_ECHO_DIFF);
	tuple_reverse(&back, &pkt->tuple);
	/* the addresses are swapped, which changes no checksum */
	if (rewrite_ip(skb, MK_L3_OFF, &back, 0))
		return drop(skb, ctx->hook, MK_DROP_TRUNCATED, &pkt->tuple);
	pkt->tuple = back;
	pkt->l4 = MK_L4_ECHO_REPLY;
	ctx->flags |= back_to_host(ctx);
	return chain_next(skb, ctx, pkt, MK_PROG_ROUTER);
}

/* A packet to a Service's address that matched no frontend: a ping is answered, any other packet is
 * refused. */
static __always_inline int to_vip(struct __sk_buff *skb, struct chain_ctx *ctx, struct packet *pkt)
{
	if (pkt->l4 == MK_L4_ECHO_REQUEST && pkt->fragment == MK_WHOLE)
		return answer_ping(skb, ctx, pkt);
	return service_reject(skb, ctx, pkt, MK_DROP_REFUSED);
}

/* Is the source unreachable for hosts outside, so that the packet needs masquerade? */
static __always_inline int needs_masquerade(const struct packet *pkt, enum mk_route_type type)
{
	if (is_addr(&pkt->tuple.saddr, mk_node_vtep()))
		return 1;
	return is_local_pod_range(&pkt->tuple.saddr) &&
	       (!mk_node.keeps_source || type == MK_ROUTE_NODE);
}

/* Must the packet get a source that the way does not have? A device may have no address of a
 * family. The pod learns that there is no route, as in the host. */
static __always_inline int lacks_source(const struct packet *pkt, enum mk_route_type type,
					const struct mk_way *way_out, struct way_refusal *refusal)
{
	if (!is_zero(&way_out->source) || !needs_masquerade(pkt, type))
		return 0;
	refuse(refusal, BPF_FIB_LKUP_RET_UNSUPP_LWT);
	return 1;
}

/* Has another node delegated this request, for a Service that this node does not know? */
static __always_inline int is_unknown_request(const struct chain_ctx *ctx, const struct packet *pkt)
{
	return ctx->hook == MK_HOOK_OVERLAY && !(ctx->flags & CHAIN_TRANSLATED) &&
	       (is_connection(pkt) || pkt->l4 == MK_L4_UDP) && is_client_outside(&pkt->tuple.saddr);
}

/* .. at a further address of this host, such as an external one on its device? Other nodes send
 * only such requests there. */
static __always_inline int is_unknown_request_here(const struct chain_ctx *ctx,
						   const struct packet *pkt)
{
	const struct mk_addr *addr = &pkt->tuple.daddr;

	return is_unknown_request(ctx, pkt) && !is_addr(addr, mk_node_addr()) &&
	       !is_vtep_range(addr) && !is_pod_range(addr);
}

/* @type: of the route, or 0. */
static __always_inline int to_outside(struct __sk_buff *skb, struct chain_ctx *ctx,
				      struct packet *pkt, enum mk_route_type type)
{
	struct way_refusal refusal = { .reason = MK_DROP_NO_UPLINK };
	struct mk_way way_out;
	struct frame frame;

	if (!is_unicast(&pkt->tuple.daddr))
		return drop(skb, ctx->hook, MK_DROP_NOT_UNICAST, &pkt->tuple);
	if (is_unknown_request(ctx, pkt))
		return delegate_back(skb, ctx, pkt);
	if (service_is_vip(&pkt->tuple.daddr))
		return to_vip(skb, ctx, pkt);
	if (is_overlay_carrier(pkt))
		return drop(skb, ctx->hook, MK_DROP_OVERLAY_FORGED, &pkt->tuple);
	if (ctx->hook == MK_HOOK_OVERLAY && !(ctx->flags & CHAIN_TRANSLATED))
		return drop(skb, ctx->hook, MK_DROP_OVERLAY_STRAY, &pkt->tuple);
	if (way_choose(skb, pkt, &way_out, &refusal) || lacks_source(pkt, type, &way_out, &refusal))
		return refusal.silent ? drop(skb, ctx->hook, refusal.reason, &pkt->tuple)
				      : chain_error(skb, ctx, pkt, refusal.reason,
						    MK_ICMP_UNREACHABLE, refusal.icmp_code, 0);
	if (frame_of(skb, &frame))
		return drop(skb, ctx->hook, MK_DROP_TRUNCATED, &pkt->tuple);
	if (wire_bytes(skb, pkt) > way_out.mtu_bytes && !ip_may_fragment(frame.ip))
		return chain_error(skb, ctx, pkt, MK_DROP_TOO_BIG, MK_ICMP_TOO_BIG,
				   MK_ICMP_TOO_BIG_CODE, way_out.mtu_bytes);
	if (hop(skb, ctx, frame.ip) != MK_GO_ON)
		return expired(skb, ctx, pkt);
	if (needs_masquerade(pkt, type))
		return chain_next(skb, ctx, pkt, MK_PROG_NAT);
	return way_send(&way_out);
}

/* Program `cluster_out` reads the cluster's number from skb->cb[4], which struct chain_ctx does not
 * use. */
static __always_inline int to_cluster(struct __sk_buff *skb, struct chain_ctx *ctx,
				      const struct packet *pkt, const struct mk_route *route)
{
	skb->cb[4] = mk_route_cluster(route);
	return chain_next(skb, ctx, pkt, MK_PROG_CLUSTER);
}

static __always_inline int route(struct __sk_buff *skb, struct chain_ctx *ctx, struct packet *pkt)
{
	struct mk_route found;

	if (route_find(&pkt->tuple.daddr, &found))
		found.type = 0;
	switch (found.type) {
	case 0:
	case MK_ROUTE_NODE:
		return to_outside(skb, ctx, pkt, found.type);
	case MK_ROUTE_HOST:
		if (is_unknown_request_here(ctx, pkt))
			return delegate_back(skb, ctx, pkt);
		return to_host(skb, ctx, pkt);
	case MK_ROUTE_PODS:
		return to_pod(skb, ctx, pkt);
	case MK_ROUTE_OVERLAY:
		if (ctx->hook == MK_HOOK_OVERLAY && !(ctx->flags & CHAIN_TRANSLATED))
			return drop(skb, ctx->hook, MK_DROP_OVERLAY_STRAY, &pkt->tuple);
		return to_overlay(skb, ctx, pkt, &found);
	case MK_ROUTE_CLUSTER: /* also for other nodes, if this is a border node */
		return to_cluster(skb, ctx, pkt, &found);
	default: /* on no node; may be a Service's, whose range has this type */
		if (service_is_vip(&pkt->tuple.daddr))
			return to_vip(skb, ctx, pkt);
		return drop(skb, ctx->hook, MK_DROP_NO_ROUTE, &pkt->tuple);
	}
}

/* Set *@route to the overlay's route to the node with @addr. Returns 0, or -1 if no node has that
 * address (any more). */
static __always_inline int route_of_node(const struct mk_addr *addr, struct mk_route *route)
{
	const struct mk_peer *peer = bpf_map_lookup_elem(&peers, addr);

	if (!peer)
		return -1;
	route->type = MK_ROUTE_OVERLAY;
	route->is_direct = peer->is_direct;
	__builtin_memcpy(route->vtep_mac, peer->vtep_mac, sizeof(route->vtep_mac));
	return 0;
}

static __always_inline void route_to(__u32 node, struct mk_route *route)
{
	route->type = MK_ROUTE_OVERLAY;
	mac_of_node(route->vtep_mac, node);
}

/* The tuple of the client's packets, for an answer or for an ICMP error about one of them. Returns
 * 0, or -1. */
static __always_inline int tuple_of_client(struct __sk_buff *skb, const struct packet *pkt,
					   struct mk_tuple *key)
{
	struct scratch *room = scratch_of_this_cpu();

	if (pkt->l4 != MK_L4_ICMP_ERROR) {
		tuple_reverse(key, &pkt->tuple);
		return 0;
	}
	if (!room || packet_inner(skb, pkt, &room->inner))
		return -1;
	*key = room->inner.tuple;
	return 0;
}

/* Set *@route to the node by which the client outside came that this packet is for (client.h).
 * Returns 0, or -1: by none, or by this one. */
static __always_inline int route_of_client(struct __sk_buff *skb, const struct packet *pkt,
					   struct mk_route *route)
{
	struct mk_session *session;
	struct mk_tuple key;
	__u32 node;

	if (tuple_of_client(skb, pkt, &key))
		return -1;
	session = bpf_map_lookup_elem(&sessions, &key);
	session = session ?: bpf_map_lookup_elem(&sessions_young, &key);
	node = session ? mk_session_node(session) : 0;
	if (!node || node == node_of_this())
		return -1;
	route_to(node, route);
	return 0;
}

/* Set *@route to the node to which the packet's session leads. Returns 0, or -1. */
static __always_inline int route_of_session(struct __sk_buff *skb, const struct chain_ctx *ctx,
					    const struct packet *pkt, struct mk_route *route)
{
	if (!(ctx->flags & CHAIN_TRANSLATED)) {
		route_to(skb->cb[4], route); /* delegate_to() has set it */
		return 0;
	}
	return route_of_node(&pkt->tuple.daddr, route) == 0 ? 0 : route_of_client(skb, pkt, route);
}

SEC("tc")
int router(struct __sk_buff *skb)
{
	struct mk_route found = { 0 };
	struct chain_ctx ctx;
	struct packet pkt;
	int ret = chain_packet(skb, &ctx, &pkt);

	if (ret != MK_GO_ON)
		return drop(skb, ctx.hook, ret, &pkt.tuple);
	if (ctx.flags & CHAIN_TO_HOST)
		return ctx.flags & CHAIN_LOOPBACK ? to_loopback(skb, &ctx, &pkt)
						  : to_host(skb, &ctx, &pkt);
	if (ctx.flags & CHAIN_VIA_OVERLAY && route_of_session(skb, &ctx, &pkt, &found) == 0)
		return to_overlay(skb, &ctx, &pkt, &found);
	if (is_local_pod(&pkt.tuple.daddr)) /* no trie look-up for local pods */
		return to_pod(skb, &ctx, &pkt);
	return route(skb, &ctx, &pkt);
}

/* ---- error: the packet becomes an ICMP error about itself ---------------------------------- */

struct error_headers {
	ip_header ip;
	struct icmphdr icmp;
};

/* The error's source: an address of this node that the receiver does not treat as its own. */
static __always_inline struct mk_addr
error_source(struct __sk_buff *skb, const struct chain_ctx *ctx, const struct packet *pkt)
{
	if (is_in_transit(skb, ctx))
		return pkt->tuple.daddr;
	if (ctx->icmp_type == MK_ICMP_UNREACHABLE && ctx->icmp_code == MK_ICMP_NO_PORT)
		return pkt->tuple.daddr;
	switch (ctx->hook) {
	case MK_HOOK_POD:
		return mk_node_gateway();
	case MK_HOOK_FUNCTION:
		return is_pod_range(&pkt->tuple.saddr) ? mk_node_gateway()
						       : error_source_outside(&pkt->tuple.saddr);
	case MK_HOOK_OVERLAY: /* a client outside knows no address of the overlay */
		if (is_client_outside(&pkt->tuple.saddr))
			return error_source_outside(&pkt->tuple.saddr);
		return may_be_view(&pkt->tuple.saddr) ? mk_node_vpod() : mk_node_vtep();
	case MK_HOOK_HOST: /* one of the host's own addresses would be martian */
	case MK_HOOK_CLUSTER: /* another cluster knows only addresses of pods */
		return mk_node_vpod();
	default:
		return error_source_outside(&pkt->tuple.saddr);
	}
}

static __always_inline void fill_error(struct __sk_buff *skb, struct error_headers *h,
				       const struct chain_ctx *ctx, const struct packet *pkt,
				       __u32 quote_bytes, __u32 quote_sum)
{
	struct mk_addr source = error_source(skb, ctx, pkt);
	__u32 pseudo_sum =
		fill_error_ip(&h->ip, &source, &pkt->tuple.saddr, sizeof(h->icmp) + quote_bytes);

	h->icmp.type = ctx->icmp_type;
	h->icmp.code = ctx->icmp_code;
	icmp_set_mtu(&h->icmp, ctx->mtu_bytes);
	h->icmp.checksum =
		csum_fold(bpf_csum_diff(NULL, 0, (__be32 *)&h->icmp, sizeof(h->icmp), quote_sum));
	csum_add_diff(&h->icmp.checksum, pseudo_sum);
}

static __always_inline __u32 quoted_l4_bytes(const struct packet *pkt)
{
	if (pkt->l4 == MK_L4_TCP || (pkt->l4 == MK_L4_SCTP && is_first_of_tcp(pkt)))
		return MK_QUOTE_L4_BYTES;
	return pkt->l4 == MK_L4_SCTP ? sizeof(struct sctp_header) : 8;
}

/* The field of a partial checksum of layer 4, which the kernel or a device completes later
 * (CHECKSUM_PARTIAL). */
struct partial_checksum {
	__u32 field; /* its offset; 0: none, the checksum is complete */
	__sum16 value;
};

#define MK_CSUM_PROBE 1 /* a difference for the test; any number except 0 */

/* Find out whether the checksum is partial, from what bpf_l4_csum_replace() does to the field
 * (checksum.h), then restore the field. SCTP's checksum is not such a sum. Returns 0, or -1. */
static __always_inline int find_partial(struct __sk_buff *skb, const struct packet *pkt,
					struct partial_checksum *partial)
{
	__u32 field = pkt->l4_off + (pkt->l4 == MK_L4_TCP ? offsetof(struct tcphdr, check)
							  : offsetof(struct udphdr, check));
	__sum16 *check, before;

	partial->field = 0;
	if (pkt->l4 != MK_L4_TCP && pkt->l4 != MK_L4_UDP)
		return 0;
	check = packet_at(skb, field, sizeof(*check));
	if (!check)
		return -1;
	before = *check;
	if (bpf_l4_csum_replace(skb, field, 0, MK_CSUM_PROBE, BPF_F_PSEUDO_HDR))
		return -1;
	check = packet_at(skb, field, sizeof(*check));
	if (!check)
		return -1;
	if (csum_was_partial(before, *check, MK_CSUM_PROBE))
		partial->field = field;
	partial->value = before;
	if (bpf_l4_csum_replace(skb, field, 0, (__u32)~MK_CSUM_PROBE, BPF_F_PSEUDO_HDR))
		return -1;
	check = packet_at(skb, field, sizeof(*check));
	if (!check)
		return -1;
	*check = before; /* restore exactly: 0 has two forms */
	return 0;
}

/* Update the ICMP checksum after a translation of the quoted packet, whose checksum is still
 * partial: rewrite_icmp_error() has taken it for a complete one. @quoted: its tuple before. Returns
 * 0, or -1. */
static __always_inline int follow_partial(struct __sk_buff *skb, const struct packet *pkt,
					  const struct mk_tuple *quoted,
					  const struct partial_checksum *partial)
{
	struct mk_tuple now_quoted;
	struct icmphdr *icmp;
	__sum16 *check, now;
	ip_header *ip;

	if (!partial->field)
		return 0;
	check = packet_at(skb, partial->field + sizeof(struct error_headers), sizeof(*check));
	if (!check)
		return -1;
	now = *check;
	ip = packet_at(skb, MK_L3_OFF + sizeof(struct error_headers), sizeof(*ip));
	if (!ip)
		return -1;
	tuple_from_ip(&now_quoted, ip);
	icmp = packet_at(skb, pkt->l4_off, sizeof(*icmp));
	if (!icmp)
		return -1;
	csum_add_diff(&icmp->checksum, (__u32)(__u16)~now + partial->value);
	/* in IPv4 the quoted header's own checksum cancels out the change of its addresses */
	if (MK_ICMP_HAS_PSEUDO_HEADER)
		csum_add_diff(&icmp->checksum, addr_diff_called(quoted, &now_quoted));
	return 0;
}

/* Cut the packet to the quoted part and prepend the two headers. Returns 0, or -1. */
static __always_inline int make_error(struct __sk_buff *skb, const struct chain_ctx *ctx,
				      const struct packet *pkt,
				      const struct partial_checksum *partial)
{
	__u32 header_bytes = pkt->l4_off - MK_L3_OFF;
	__u32 quote_bytes = header_bytes + quoted_l4_bytes(pkt);
	__u64 bytes = partial->field ? header_bytes : quote_bytes;
	struct scratch *room = scratch_of_this_cpu();
	struct error_headers headers = { 0 };
	__u32 sum;

	/* 64 bits with an upper bound: otherwise Linux 7.2 loses the lower bound. */
	asm volatile("%0 &= 0xfff" : "+r"(bytes));
	if (!room || bytes < sizeof(ip_header))
		return -1;
	asm volatile(""
		     : "+r"(bytes)); /* two comparisons of one register, not one of a difference */
	if (bytes > sizeof(room->quote))
		return -1;
	__builtin_memset(room->quote, 0, sizeof(room->quote));
	if (bpf_skb_load_bytes(skb, MK_L3_OFF, room->quote, bytes))
		return -1;
	sum = bpf_csum_diff(NULL, 0, (__be32 *)room->quote, sizeof(room->quote), 0);
	/* When the field is completed later, it cancels out the rest of layer 4 and its own partial
	 * value. So the sum of layer 4 is then the complement of that value. */
	if (partial->field)
		sum = csum_sum(sum, (__u16)~partial->value);
	fill_error(skb, &headers, ctx, pkt, quote_bytes, sum);
	if (bpf_skb_change_tail(skb, MK_L3_OFF + quote_bytes, 0) ||
	    bpf_skb_adjust_room(skb, sizeof(headers), BPF_ADJ_ROOM_MAC, 0))
		return -1;
	return bpf_skb_store_bytes(skb, MK_L3_OFF, &headers, sizeof(headers), 0) ? -1 : 0;
}

static __always_inline int is_about_mtu(const struct chain_ctx *ctx)
{
	return ctx->icmp_type == MK_ICMP_TOO_BIG && ctx->icmp_code == MK_ICMP_TOO_BIG_CODE;
}

/* Take one ICMP error from this CPU's budget. Returns 1 if the error may be sent, otherwise 0. */
static __always_inline int may_send_error(const struct chain_ctx *ctx)
{
	__u64 burst = is_about_mtu(ctx) ? MK_ERROR_BURST_MTU : MK_ERROR_BURST;
	__u64 now_ns = bpf_ktime_get_ns(), *paid_ns;

	paid_ns = find_number(&error_budget, 0);
	if (!paid_ns)
		return 0;
	if (*paid_ns < now_ns)
		*paid_ns = now_ns;
	if (*paid_ns - now_ns >= burst * MK_ERROR_NS)
		return 0;
	*paid_ns += MK_ERROR_NS;
	return 1;
}

/* Does the source address name a single host, which may get an ICMP error (RFC 1122 3.2.2)? A view
 * may be in any range, and the external address that a target's answer has by now. */
static __always_inline int is_single_host(const struct mk_addr *addr, __u8 hook)
{
	if (hook == MK_HOOK_CLUSTER || (hook == MK_HOOK_OVERLAY && cluster_of_view(addr)))
		return 1;
	if (is_external(addr))
		return 1;
	if (hook != MK_HOOK_HOST && mk_addr_is_loopback(addr))
		return 0;
	return may_get_error(addr) && !is_uplink_broadcast(addr);
}

/* Is the packet quoted as its sender outside knows it? Another node has delegated its flow
 * (direct_return.h). Such an error goes straight, because its source is not that node's. */
static __always_inline int quotes_delegated(__u8 flags)
{
	const struct scratch *room = scratch_of_this_cpu();

	return flags & CHAIN_VIA_OVERLAY && room &&
	       !mk_addr_eq(&room->inner.tuple.daddr, &room->inner_to.daddr);
}

/* Translate the quoted packet back to what its sender has sent: it may have been rewritten before
 * it was refused. An answer from outside was for this node's masquerade. Returns 0, or -1. */
static __always_inline int translate_back(struct __sk_buff *skb, const struct chain_ctx *ctx,
					  struct packet *pkt, __u8 *flags)
{
	if (is_in_transit(skb, ctx))
		return 0;
	if (icmp_error_translate(skb, SERVICE_SESSIONS, pkt, flags))
		return -1;
	if (quotes_delegated(*flags))
		*flags &= ~CHAIN_VIA_OVERLAY;
	if ((ctx->hook != MK_HOOK_UPLINK && ctx->hook != MK_HOOK_FUNCTION) ||
	    is_pod_range(&pkt->tuple.daddr))
		return 0;
	return icmp_error_translate(skb, NAT_SESSIONS, pkt, flags);
}

SEC("tc")
int error(struct __sk_buff *skb)
{
	struct partial_checksum partial = { 0 };
	struct chain_ctx ctx, next = { 0 };
	struct mk_tuple quoted;
	struct packet pkt;
	int ret = chain_packet(skb, &ctx, &pkt);
	__u8 reason = skb->cb[4];

	if (ret != MK_GO_ON)
		return drop(skb, ctx.hook, ret, &pkt.tuple);
	if (!is_single_host(&pkt.tuple.saddr, ctx.hook))
		return drop(skb, ctx.hook, reason, &pkt.tuple);
	if (!may_send_error(&ctx))
		return drop(skb, ctx.hook, MK_DROP_ERROR_LIMIT, &pkt.tuple);
	drop(skb, ctx.hook, reason, &pkt.tuple);
	next.hook = ctx.hook;
	quoted = pkt.tuple;
	if (find_partial(skb, &pkt, &partial) || make_error(skb, &ctx, &pkt, &partial))
		return drop(skb, ctx.hook, MK_DROP_REWRITE_FAILED, &pkt.tuple);
	ret = packet_read(skb, &pkt);
	if (ret != MK_GO_ON)
		return drop(skb, ctx.hook, ret, &pkt.tuple);
	next.flags = CHAIN_TRANSLATED | CHAIN_NEW_SOURCE | back_to_host(&ctx);
	if (ctx.hook == MK_HOOK_HOST &&
	    (mk_addr_is_loopback(&pkt.tuple.saddr) || is_host_address(&pkt.tuple.saddr)))
		next.flags |= CHAIN_LOOPBACK; /* the host asked one of its own addresses */
	if (translate_back(skb, &ctx, &pkt, &next.flags) ||
	    follow_partial(skb, &pkt, &quoted, &partial))
		return drop(skb, ctx.hook, MK_DROP_REWRITE_FAILED, &pkt.tuple);
	return chain_next(skb, &next, &pkt,
			  is_in_transit(skb, &ctx) ? MK_PROG_CLUSTER : MK_PROG_ROUTER);
}

char LICENSE[] __attribute__((weak)) SEC("license") = "Dual BSD/GPL";
