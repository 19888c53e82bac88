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
	__u8 vxlan[8];
	struct ethhdr eth;
	struct iphdr ip;
} __attribute__((packed));

/* May node @peer send what the carrier @pkt carries? Cluster addresses are of the node that has them; others, which it
 * may forward, are not known. A later fragment's first one was asked about. */
static __always_inline int may_carry(struct __sk_buff *skb, const struct packet *pkt,
				     const struct mk_peer *peer)
{
	struct carried inner;
	struct mk_addr source;
	struct mk_route route;

	if (pkt->fragment == MK_LATER_FRAGMENT ||
	    bpf_skb_load_bytes(skb, pkt->l4_off + sizeof(struct udphdr), &inner, sizeof(inner)) ||
	    inner.eth.h_proto != bpf_htons(ETH_P_IP))
		return 1; /* the device, and ilb_overlay, judge it */
	source.word[0] = inner.ip.saddr;
	if (!is_pod_range(&source) && !is_vtep_range(&source))
		return 1;
	return route_find(&source, &route) == 0 && route.type == MK_ROUTE_OVERLAY &&
	       *(__u32 *)route.vtep_mac == *(const __u32 *)peer->vtep_mac &&
	       *(__u16 *)(route.vtep_mac + 4) == *(const __u16 *)(peer->vtep_mac + 4);
}

/* The carrier @pkt is for this host: may it be unpacked here? Until the agent has read all Nodes, any. */
static __always_inline int is_nodes_carrier(struct __sk_buff *skb, const struct packet *pkt)
{
	const struct mk_runtime *settings = runtime_settings();
	const struct mk_peer *peer;

	if (!settings || !settings->peers_known)
		return 1;
	peer = bpf_map_lookup_elem(&peers, &pkt->tuple.saddr);
	return peer && may_carry(skb, pkt, peer);
}

#endif
