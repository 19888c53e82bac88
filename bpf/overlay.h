/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/overlay.h - carriers: the UDP packets that carry the overlay's packets between nodes. */
#ifndef MK_BPF_OVERLAY_H
#define MK_BPF_OVERLAY_H

#include "drop.h"
#include "maps.h"
#include "packet.h"

/* Is @pkt a carrier? A VXLAN device accepts packets to its port at any address of its host, from
 * any sender. What it unpacks counts as sent by another node. So the router must forward no such
 * packet, masqueraded or not. The nodes' own carriers never reach the router. */
static __always_inline int is_overlay_carrier(const struct packet *pkt)
{
	return pkt->l4 == MK_L4_UDP && pkt->tuple.dport == mk_node.vxlan_port;
}

/* VXLAN's header (RFC 7348), and the headers of the inner frame up to its source address. */
struct carried {
	__u32 flags;
	__be32 vni; /* the first 24 bits */
	struct ethhdr eth;
	ip_header ip;
} __attribute__((packed));

/* Read the headers in the carrier @pkt. Returns 0, or -1 if it has no complete VXLAN header, or is
 * a first fragment too short to show the inner source. The device judges a complete carrier with a
 * shorter frame. */
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

/* May node @peer send @inner? Addresses in the cluster's ranges belong to one node, which must be
 * @peer. A node may also forward packets from other addresses, which are not checked. */
static __always_inline int may_carry(const struct carried *inner, const struct mk_peer *peer)
{
	const ip_header ip = inner->ip; /* aligned */
	struct mk_tuple tuple;
	struct mk_route route;

	if (inner->eth.h_proto != bpf_htons(MK_ETH_P_IP))
		return 1; /* the device and ilb_overlay judge it */
	tuple_from_ip(&tuple, &ip);
	if (!is_pod_range(&tuple.saddr) && !is_vtep_range(&tuple.saddr))
		return 1;
	return route_find(&tuple.saddr, &route) == 0 && route.type == MK_ROUTE_OVERLAY &&
	       *(__u32 *)route.vtep_mac == *(const __u32 *)peer->vtep_mac &&
	       *(__u16 *)(route.vtep_mac + 4) == *(const __u16 *)(peer->vtep_mac + 4);
}

/* May this host unpack the carrier @pkt? Any sender may, until the agent has read all Nodes. Later
 * fragments pass, because the first one is checked. Packets with another VNI are for another device
 * of this host. */
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
