/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/overlay.h - what carries the overlay's packets between nodes. */
#ifndef MK_BPF_OVERLAY_H
#define MK_BPF_OVERLAY_H

#include "drop.h"
#include "maps.h"
#include "packet.h"

/* A VXLAN device takes what reaches its port at any address of its host, whoever sent it, and what it
 * unpacks counts as another node's: nothing that the router forwards may come to one, masqueraded as
 * this node's or not. The nodes' own carriers never come to the router. */
static __always_inline int is_overlay_carrier(const struct packet *pkt)
{
	return pkt->l4 == MK_L4_UDP && pkt->tuple.dport == mk_node.vxlan_port;
}

/* VXLAN's header (RFC 7348), and what of the frame inside says who sends it. */
struct carried {
	__u32 flags;
	__be32 vni; /* the first 24 bits */
	struct ethhdr eth;
	struct iphdr ip;
} __attribute__((packed));

/* Returns 0, or -1: the carrier @pkt is too short for a VXLAN header, or begins in a fragment that hides who sends it.
 * A whole one with a shorter frame is left to the device. */
static __always_inline int read_carried(struct __sk_buff *skb, const struct packet *pkt,
					struct carried *inner)
{
	__u32 at = pkt->l4_off + sizeof(struct udphdr);

	if (bpf_skb_load_bytes(skb, at, inner, sizeof(*inner)) == 0)
		return 0;
	if (pkt->fragment)
		return -1;
	return bpf_skb_load_bytes(skb, at, inner, offsetof(struct carried, eth)) ? -1 : 0;
}

/* May node @peer send @inner? Cluster addresses are of the node that has them; others, which it may forward, are not
 * known. */
static __always_inline int may_carry(const struct carried *inner, const struct mk_peer *peer)
{
	struct mk_addr source;
	struct mk_route route;

	if (inner->eth.h_proto != bpf_htons(ETH_P_IP))
		return 1; /* the device, and ilb_overlay, judge it */
	source.word[0] = inner->ip.saddr;
	if (!is_pod_range(&source) && !is_vtep_range(&source))
		return 1;
	return route_find(&source, &route) == 0 && route.type == MK_ROUTE_OVERLAY &&
	       *(__u32 *)route.vtep_mac == *(const __u32 *)peer->vtep_mac &&
	       *(__u16 *)(route.vtep_mac + 4) == *(const __u16 *)(peer->vtep_mac + 4);
}

/* The carrier @pkt is for this host: may it be unpacked here? Until the agent has read all Nodes, any. A later
 * fragment's first one was asked about. Packets of another VNI are for another device of this host. */
static __always_inline int is_nodes_carrier(struct __sk_buff *skb, const struct packet *pkt)
{
	const struct mk_runtime *settings = runtime_settings();
	struct carried inner = { 0 };
	const struct mk_peer *peer;

	if (!settings || !settings->peers_known || pkt->fragment == MK_LATER_FRAGMENT)
		return 1;
	if (read_carried(skb, pkt, &inner))
		return 0;
	if (bpf_ntohl(inner.vni) >> 8 != MK_VXLAN_VNI)
		return 1;
	peer = bpf_map_lookup_elem(&peers, &pkt->tuple.saddr);
	return peer && may_carry(&inner, peer);
}

#endif
