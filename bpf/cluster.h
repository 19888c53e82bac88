/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/cluster.h - other clusters (clusters.h): which one an address or a frame belongs to. */
#ifndef MK_BPF_CLUSTER_H
#define MK_BPF_CLUSTER_H

#include "chain.h"

/* Find the cluster whose pods this cluster sees by a view that has @addr, or NULL. A route may name
 * a cluster whose row has just got another view. */
static __always_inline const struct mk_cluster *cluster_of_view(const struct mk_addr *addr)
{
	const struct mk_cluster *cluster;
	struct mk_route route;
	__u32 number;

	if (!mk_node.cluster_number || route_find(addr, &route) || route.type != MK_ROUTE_CLUSTER)
		return NULL;
	number = mk_route_cluster(&route);
	cluster = bpf_map_lookup_elem(&clusters, &number);
	return cluster && mk_addr_in(addr, &cluster->view, &cluster->mask) ? cluster : NULL;
}

/* Can @addr, the source of a packet from another node, be one of another cluster? Packets of this
 * cluster's pods and nodes pay no look-up. */
static __always_inline int may_be_view(const struct mk_addr *addr)
{
	return mk_node.cluster_number && !is_pod_range(addr) && !is_vtep_range(addr);
}

/* Is the packet, which belongs to no session, another cluster's, and may it not pass? The pod's
 * node decides, because only this node knows the flows that its pods have opened. A cluster with
 * access opens flows to pods, not to the gateway or the virtual pod address.
 *
 * At hook `cluster` the flags of the cluster are in skb->cb[4], which struct chain_ctx does not
 * use. */
static __always_inline int cluster_is_denied(const struct __sk_buff *skb,
					     const struct chain_ctx *ctx, const struct packet *pkt)
{
	const struct mk_addr *dest = &pkt->tuple.daddr;
	const struct mk_cluster *cluster;
	__u32 flags = skb->cb[4];

	if (ctx->hook == MK_HOOK_CLUSTER) {
		if (!is_local_pod_range(dest))
			return 0;
	} else {
		if (ctx->hook != MK_HOOK_OVERLAY || !may_be_view(&pkt->tuple.saddr))
			return 0;
		cluster = cluster_of_view(&pkt->tuple.saddr);
		if (!cluster)
			return 0;
		flags = cluster->flags;
	}
	return !(flags & MK_CLUSTER_ACCESS_PODS) || !is_local_pod_range(dest) ||
	       is_addr(dest, mk_node_gateway()) || is_addr(dest, mk_node_vpod());
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
