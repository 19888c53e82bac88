/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/cluster.h - other clusters (clusters.h): which one an address or a frame belongs to. */
#ifndef MK_BPF_CLUSTER_H
#define MK_BPF_CLUSTER_H

#include "chain.h"
#include "scratch.h"

/* Can @addr be one of another cluster? Packets of this cluster's pods and nodes pay no look-up. */
static __always_inline int may_be_view(const struct mk_addr *addr)
{
	return mk_node.cluster_number && !is_pod_range(addr) && !is_vtep_range(addr);
}

/* Is @addr in the view of another cluster? Sets *@route if so. */
static __always_inline int view_route(const struct mk_addr *addr, struct mk_route *route)
{
	return may_be_view(addr) && route_find(addr, route) == 0 && route->type == MK_ROUTE_CLUSTER;
}

/* Find the cluster whose pods this cluster sees by a view that has @addr, or NULL. A route may name
 * a cluster whose row has just got another view. */
static __always_inline const struct mk_cluster *cluster_of_view(const struct mk_addr *addr)
{
	const struct mk_cluster *cluster;
	struct mk_route route;
	__u32 number;

	if (!view_route(addr, &route))
		return NULL;
	number = mk_route_cluster(&route);
	cluster = find_number(&clusters, number);
	return cluster && mk_addr_in(addr, &cluster->view, &cluster->mask) ? cluster : NULL;
}

/* Find the row of the external addresses of cluster @number. @addr is an address as that cluster
 * uses it. NULL: it is outside of the range. */
static __always_inline const struct mk_cluster *external_row_of(__u32 number,
								const struct mk_addr *addr)
{
	const struct mk_cluster *cluster;

	number |= MK_CLUSTER_EXTERNAL;
	cluster = find_number(&clusters, number);
	return cluster && mk_addr_in(addr, &cluster->home, &cluster->mask) ? cluster : NULL;
}

/* Is @addr an external address of this cluster? */
static __always_inline int is_external(const struct mk_addr *addr)
{
	return may_be_view(addr) && external_row_of(mk_node.cluster_number, addr) != NULL;
}

/* ---- access ---------------------------------------------------------------------------------- */

/* Find what this node has exported as @addr, @port, or NULL: the target of an external address, or
 * zeros. Pings count as port 0. */
static __always_inline const struct mk_addr *find_export(const struct mk_addr *addr, __be16 port,
							 __u8 proto, int is_ping)
{
	struct mk_export key = { .addr = *addr };

	if (!is_ping) {
		key.port = port;
		key.proto = proto;
	}
	return bpf_map_lookup_elem(&exports, &key);
}

static __always_inline int is_exported(const struct mk_addr *addr, __be16 port, __u8 proto,
				       int is_ping)
{
	return find_export(addr, port, proto, is_ping) != NULL;
}

/* May other clusters open the packet's flow, as map exports says? An ICMP error belongs to the flow
 * that it quotes, an answer of the pod. */
static __always_inline int is_for_export(struct __sk_buff *skb, const struct packet *pkt)
{
	struct scratch *room = scratch_of_this_cpu();
	const struct mk_tuple *quoted;

	if (pkt->l4 != MK_L4_ICMP_ERROR)
		return is_exported(&pkt->tuple.daddr, pkt->tuple.dport, pkt->tuple.proto,
				   pkt->l4 == MK_L4_ECHO_REQUEST);
	if (!room || packet_inner(skb, pkt, &room->inner))
		return 0;
	quoted = &room->inner.tuple;
	return is_exported(&pkt->tuple.daddr, quoted->sport, quoted->proto,
			   quoted->proto == MK_IPPROTO_ICMP);
}

/* Is the packet, which belongs to no session, another cluster's, and may it not pass? The pod's
 * node decides, because only this node knows the flows that its pods have opened. A cluster with
 * access opens flows to pods, or to exported endpoints, not to the gateway or the virtual pod
 * address.
 *
 * At hook `cluster` the flags of the cluster are in skb->cb[4], which struct chain_ctx does not
 * use. */
static __always_inline int cluster_is_denied(struct __sk_buff *skb, const struct chain_ctx *ctx,
					     const struct packet *pkt)
{
	const struct mk_addr *dest = &pkt->tuple.daddr;
	const struct mk_cluster *cluster;
	__u32 flags = skb->cb[4];

	if (ctx->hook == MK_HOOK_CLUSTER) {
		if (!is_pod_range(dest)) /* an external address, for which any node decides */
			return !(flags & (MK_CLUSTER_ACCESS_PODS | MK_CLUSTER_ACCESS_EXPORTS)) ||
			       !is_for_export(skb, pkt);
		if (!is_local_pod_range(dest))
			return 0;
	} else {
		if (ctx->hook != MK_HOOK_OVERLAY)
			return 0;
		cluster = cluster_of_view(&pkt->tuple.saddr);
		if (!cluster)
			return 0;
		flags = cluster->flags;
	}
	if (!is_local_pod_range(dest) || is_addr(dest, mk_node_gateway()) ||
	    is_addr(dest, mk_node_vpod()))
		return 1;
	if (flags & MK_CLUSTER_ACCESS_PODS)
		return 0;
	return !(flags & MK_CLUSTER_ACCESS_EXPORTS) || !is_for_export(skb, pkt);
}

/* ---- probes ---------------------------------------------------------------------------------- */

/* Is the packet a probe of this node (struct mk_probe_packet)? */
static __always_inline int is_probe(struct __sk_buff *skb, const struct packet *pkt)
{
	__u32 at = pkt->l4_off + sizeof(struct udphdr);
	__be32 magic;

	if (pkt->l4 != MK_L4_UDP || pkt->tuple.dport != bpf_htons(MK_PROBE_PORT) || pkt->fragment ||
	    bpf_ntohs(pkt->tuple.sport) < MK_PROBE_SOURCE_MIN ||
	    !is_addr(&pkt->tuple.daddr, mk_node_vpod()) ||
	    skb->len < at + sizeof(struct mk_probe_packet))
		return 0;
	return bpf_skb_load_bytes(skb, at, &magic, sizeof(magic)) == 0 &&
	       magic == bpf_htonl(MK_PROBE_MAGIC);
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* The clusters that a frame at mkpeer names. */
struct cluster_frame {
	__u32 from, to;
	__u8 version;
};

static __always_inline int cluster_read_frame(struct __sk_buff *skb, struct cluster_frame *frame)
{
	const struct ethhdr *eth = packet_at(skb, 0, sizeof(*eth));
	struct mk_cluster_source source;
	struct mk_cluster_dest dest;

	if (!eth)
		return MK_DROP_TRUNCATED;
	__builtin_memcpy(&source, eth->h_source, sizeof(source));
	__builtin_memcpy(&dest, eth->h_dest, sizeof(dest));
	frame->from = mk_cluster_number_at(source.cluster);
	frame->to = mk_cluster_number_at(dest.cluster);
	frame->version = source.version;
	if (source.local != MK_CLUSTER_MAC_LOCAL || dest.local != MK_CLUSTER_MAC_LOCAL)
		frame->version = 0;
	return MK_GO_ON;
}

/* Is the packet on its way from one cluster to another by this one? Its frame says so until it
 * leaves. Both addresses are then home addresses, which mean other pods here. */
static __always_inline int is_in_transit(struct __sk_buff *skb, const struct chain_ctx *ctx)
{
	struct cluster_frame frame;

	return mk_node.cluster_number && ctx->hook == MK_HOOK_CLUSTER &&
	       cluster_read_frame(skb, &frame) == MK_GO_ON && frame.to != mk_node.cluster_number;
}

#endif
