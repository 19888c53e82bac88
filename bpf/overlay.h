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

/* A carrier of this family is longer than the packet that it carries: IP, UDP, VXLAN, Ethernet. */
#define MK_CARRIER_BYTES (sizeof(ip_header) + sizeof(struct udphdr) + 8 + ETH_HLEN)

/* VXLAN's header (RFC 7348), and the headers of the inner frame up to its source address. */
struct carried {
	__u32 flags;
	__be32 vni; /* the first 24 bits */
	struct ethhdr eth;
	ip_header ip;
} __attribute__((packed));

/* Read the headers in a carrier whose UDP header is at @l4_off. Returns 0, or -1 if it has no
 * complete VXLAN header, or is a first fragment too short to show the inner source. The device
 * judges a complete carrier with a shorter frame. */
static __always_inline int read_carried(struct __sk_buff *skb, __u32 l4_off, int is_fragment,
					struct carried *inner)
{
	__u32 at = l4_off + sizeof(struct udphdr);

	if (bpf_skb_load_bytes(skb, at, inner, sizeof(*inner)) == 0)
		return 0;
	if (is_fragment)
		return -1;
	if (bpf_skb_load_bytes(skb, at, inner, offsetof(struct carried, ip)) == 0)
		return 0;
	return bpf_skb_load_bytes(skb, at, inner, offsetof(struct carried, eth)) ? -1 : 0;
}

static __always_inline int is_same_mac(const __u8 *mac, const __u8 *other)
{
	return *(const __u32 *)mac == *(const __u32 *)other &&
	       *(const __u16 *)(mac + 4) == *(const __u16 *)(other + 4);
}

/* In the first byte of a frame's source: its node sends a request back (direct_return.h). */
#define MK_MAC_SENT_BACK 0x04

/* Is @mac that of the node with @vtep_mac, with the mark or without? */
static __always_inline int is_mac_of_node(const __u8 *mac, const __u8 *vtep_mac)
{
	const __u32 mark = bpf_htonl((__u32)MK_MAC_SENT_BACK << 24);

	return (*(const __u32 *)mac & ~mark) == *(const __u32 *)vtep_mac &&
	       *(const __u16 *)(mac + 4) == *(const __u16 *)(vtep_mac + 4);
}

/* May the node with @vtep_mac send from @addr? Addresses in the cluster's ranges belong to one
 * node. A node may also forward packets from other addresses, for clients outside. */
static __always_inline int is_source_of_node(const struct mk_addr *addr, const __u8 *vtep_mac)
{
	struct mk_route route;

	if (!is_pod_range(addr) && !is_vtep_range(addr))
		return 1;
	return route_find(addr, &route) == 0 && route.type == MK_ROUTE_OVERLAY &&
	       is_same_mac(route.vtep_mac, vtep_mac);
}

/* May node @peer send @inner? The source of a frame of the other family is checked where the frame
 * is unpacked, by its MAC address (is_of_its_node()). Answers to clients outside go to the MAC
 * address that their packets have (client.h). */
static __always_inline int may_carry(const struct carried *inner, const struct mk_peer *peer)
{
	const struct ethhdr eth = inner->eth; /* aligned, as ip */
	const ip_header ip = inner->ip;
	struct mk_tuple tuple;

	if (eth.h_proto != bpf_htons(MK_ETH_P_IP))
		return is_mac_of_node(eth.h_source, peer->vtep_mac);
	tuple_from_ip(&tuple, &ip);
	if (!is_pod_range(&tuple.saddr) && !is_vtep_range(&tuple.saddr))
		return is_mac_of_node(eth.h_source, peer->vtep_mac);
	return is_source_of_node(&tuple.saddr, peer->vtep_mac);
}

/* May node @peer send @inner by the device of chains? What a replica has sent, or what its node
 * sends back, comes from that node. A packet for a replica may come from any node. */
static __always_inline int may_carry_sfc(const struct carried *inner, const struct mk_peer *peer)
{
	const struct ethhdr eth = inner->eth; /* aligned */
	const struct mk_sfc_replica *replica;
	const __u32 *number;
	struct mk_sfc_mac mac;
	__u64 tag;

	__builtin_memcpy(&mac, eth.h_source, sizeof(mac));
	if (mk_sfc_mac_carried(&mac) == MK_SFC_TO)
		return 1;
	tag = mk_sfc_mac_tag(&mac);
	number = bpf_map_lookup_elem(&sfc_tags, &tag);
	if (!number)
		return 0;
	replica = bpf_map_lookup_elem(&sfc_replicas, number);
	return replica && is_same_mac(replica->vtep_mac, peer->vtep_mac);
}

/* May the host with address @sender send @inner by the device of other clusters? The frame's source
 * names the sender's cluster, or one that is reached by it. @encrypted: it came by WireGuard
 * (MK_CLUSTER_CARRIER_ENCRYPTED), or 0. */
static __always_inline int may_carry_cluster(const struct carried *inner,
					     const struct mk_far_addr *sender, __u32 encrypted)
{
	const struct ethhdr eth = inner->eth; /* aligned */
	const __u32 *carrier = bpf_map_lookup_elem(&cluster_carriers, sender);
	const struct mk_cluster *cluster;
	struct mk_cluster_source source;
	__u32 number, of_sender;

	if (!carrier || (*carrier & MK_CLUSTER_CARRIER_ENCRYPTED) != encrypted)
		return 0;
	of_sender = *carrier & MK_CLUSTER_NUMBER_MAX;
	__builtin_memcpy(&source, eth.h_source, sizeof(source));
	number = mk_cluster_number_at(source.cluster);
	if (number == of_sender)
		return 1;
	cluster = find_number(&clusters, number);
	return cluster && cluster->via == of_sender;
}

/* Until the agent has read all Nodes, any sender's carriers pass. */
static __always_inline int nodes_are_known(void)
{
	const struct mk_runtime *settings = runtime_settings();

	return settings && settings->peers_known;
}

/* The sender of a carrier: a node of this cluster, or another host, maybe of another cluster. */
struct carrier_sender {
	struct mk_far_addr addr;
	const struct mk_peer *peer; /* NULL: no node of this cluster */
};

/* Must carriers with @vni come and go by WireGuard only? */
static __always_inline int is_never_clear(__u32 vni)
{
	return mk_node.encrypts_all && (vni == MK_VXLAN_VNI || vni == MK_SFC_VNI);
}

/* May @sender send @inner with @vni in the clear? Packets with another VNI are for another device
 * of this host. Other clusters are in tables that outlive the agent, so their carriers are always
 * checked. @known: all Nodes are. */
static __always_inline int may_send(const struct carried *inner, __u32 vni, int known,
				    const struct carrier_sender *sender)
{
	const struct mk_peer *peer = sender->peer;

	switch (vni) {
	case MK_VXLAN_VNI:
		return !known || (peer && may_carry(inner, peer));
	case MK_SFC_VNI:
		return !known || (peer && may_carry_sfc(inner, peer));
	case MK_CLUSTER_VNI:
		return !mk_node.cluster_number || may_carry_cluster(inner, &sender->addr, 0);
	case MK_CLUSTER_WG_VNI: /* only inside WireGuard */
		return !mk_node.cluster_number;
	default:
		return 1;
	}
}

/* May this host unpack the carrier whose UDP header is at @l4_off? Returns 0 or a drop reason. */
static __always_inline int check_carrier(struct __sk_buff *skb, __u32 l4_off, int is_fragment,
					 const struct carrier_sender *sender)
{
	struct carried inner = { 0 };
	int known = nodes_are_known();
	__u32 vni;

	if (!known && !mk_node.cluster_number && !mk_node.encrypts_all)
		return 0;
	if (read_carried(skb, l4_off, is_fragment, &inner))
		return known ? MK_DROP_OVERLAY_STRANGER : 0;
	vni = bpf_ntohl(inner.vni) >> 8;
	if (is_never_clear(vni))
		return MK_DROP_OVERLAY_CLEAR;
	return may_send(&inner, vni, known, sender) ? 0 : MK_DROP_OVERLAY_STRANGER;
}

/* May this host unpack the carrier @pkt? Later fragments pass, because the first one is checked.
 * Returns 0 or a drop reason. */
static __always_inline int check_nodes_carrier(struct __sk_buff *skb, const struct packet *pkt)
{
	struct carrier_sender sender;

	if (pkt->fragment == MK_LATER_FRAGMENT)
		return 0;
	sender.addr = far_addr(&pkt->tuple.saddr);
	sender.peer = bpf_map_lookup_elem(&peers, &pkt->tuple.saddr);
	return check_carrier(skb, pkt->l4_off, pkt->fragment, &sender);
}

/* ---- inside WireGuard ------------------------------------------------------------------------ */

/* The headers of a carrier, up to the addresses of its frame. Nodes that encrypt have addresses of
 * IPv4, whatever family the pods have. */
struct wireguard_carrier {
	struct iphdr ip;
	struct udphdr udp;
	struct carried inner;
} __attribute__((packed));

#define MK_IPV4_OFFSET	 0x1fff /* RFC 791: a later fragment */
#define MK_IPV4_FRAGMENT 0x3fff /* .. and more fragments follow */

/* Read @at, but for the addresses of a frame of IP, if the packet is a carrier. Offsets are from
 * the IP header, because packets of WireGuard's device have no Ethernet header. Returns its VNI, or
 * -1. */
static __always_inline __s32 wireguard_carrier_read(struct __sk_buff *skb,
						    struct wireguard_carrier *at)
{
	if (skb->protocol != bpf_htons(ETH_P_IP) ||
	    bpf_skb_load_bytes_relative(skb, 0, at, offsetof(struct wireguard_carrier, inner.ip),
					BPF_HDR_START_NET))
		return -1;
	if (at->ip.ihl != sizeof(at->ip) / 4 || at->ip.protocol != IPPROTO_UDP ||
	    at->ip.frag_off & bpf_htons(MK_IPV4_OFFSET) || at->udp.dest != mk_node.vxlan_port)
		return -1;
	return (__s32)(bpf_ntohl(at->inner.vni) >> 8);
}

/* A carrier of the overlay between addresses of IPv6, which WireGuard does not carry here. */
static __always_inline __s32 ipv6_carrier_vni(struct __sk_buff *skb)
{
	struct {
		struct ipv6hdr ip;
		struct udphdr udp;
		__be32 flags, vni;
	} at = { 0 };

	if (skb->protocol != bpf_htons(ETH_P_IPV6) ||
	    bpf_skb_load_bytes_relative(skb, 0, &at, sizeof(at), BPF_HDR_START_NET))
		return -1;
	if (at.ip.nexthdr != IPPROTO_UDP || at.udp.dest != mk_node.vxlan_port)
		return -1;
	return (__s32)(bpf_ntohl(at.vni) >> 8);
}

/* Would a packet leave unencrypted that has to be encrypted? An FDB entry that is not the agent's
 * may lead to an uplink. The devices let no such carrier be fragmented. Returns 0 or a drop
 * reason. */
static __always_inline int leaves_clear(struct __sk_buff *skb)
{
	struct wireguard_carrier at = { 0 };
	__s32 vni;

	if (!mk_node.encrypts && !mk_node.encrypts_all)
		return 0;
	vni = wireguard_carrier_read(skb, &at);
	if (mk_node.encrypts && vni == MK_CLUSTER_WG_VNI)
		return MK_DROP_PEER_CLEAR;
	if (mk_node.encrypts_all && vni < 0)
		vni = ipv6_carrier_vni(skb);
	return vni >= 0 && is_never_clear((__u32)vni) ? MK_DROP_OVERLAY_CLEAR : 0;
}

/* Find the node of this cluster with address @saddr, which WireGuard has proved; NULL: none. */
static __always_inline const struct mk_peer *proved_peer(__be32 saddr)
{
#if MK_FAMILY == 4
	return bpf_map_lookup_elem(&peers, &saddr);
#else
	struct mk_far_addr sender = { 0 };

	/* not in the initializer, which would become a map of constants of its own */
	sender.word[2] = bpf_htonl(0xffff);
	sender.word[3] = saddr;
	return bpf_map_lookup_elem(&far_peers, &sender);
#endif
}

/* May a node of this cluster send the carrier @at by WireGuard? The same checks as in the clear,
 * also before all Nodes are known: WireGuard has no peer that this node does not know. */
static __always_inline int may_tunnel(struct __sk_buff *skb, struct wireguard_carrier *at,
				      __u32 vni)
{
	const struct mk_peer *peer = proved_peer(at->ip.saddr);

	if (!peer ||
	    bpf_skb_load_bytes_relative(skb, offsetof(struct wireguard_carrier, inner.ip),
					&at->inner.ip, sizeof(at->inner.ip), BPF_HDR_START_NET))
		return 0;
	return vni == MK_VXLAN_VNI ? may_carry(&at->inner, peer) : may_carry_sfc(&at->inner, peer);
}

/* ---- over the other family ------------------------------------------------------------------- */

static __always_inline int is_far(const struct __sk_buff *skb)
{
	return mk_node.checks_far_carriers && skb->protocol == bpf_htons(MK_FAR_ETH_P);
}

/* Does the host route the packet to itself, or nowhere? */
static __always_inline int is_outer_for_host(struct __sk_buff *skb,
					     const struct outer_headers *outer)
{
	struct bpf_fib_lookup fib = { .ifindex = skb->ifindex };
	long ret;

	outer_fib_set(&fib, outer);
	ret = bpf_fib_lookup(skb, &fib, sizeof(fib), 0);
	return ret < 0 || ret == BPF_FIB_LKUP_RET_NOT_FWDED || ret == BPF_FIB_LKUP_RET_FWD_DISABLED;
}

/* Check UDP of the other family. Returns 0, or a drop reason: it is a carrier that no node has
 * sent. */
static __always_inline int check_far_udp(struct __sk_buff *skb, const struct outer_headers *outer)
{
	struct carrier_sender sender = { .addr = outer->saddr };
	struct udphdr udp = { 0 };

	if (bpf_skb_load_bytes(skb, outer->l4_off, &udp, sizeof(udp)))
		return outer->is_fragment ? MK_DROP_TRUNCATED : 0;
	if (udp.dest != mk_node.vxlan_port)
		return 0;
	sender.peer = bpf_map_lookup_elem(&far_peers, &outer->saddr);
	return check_carrier(skb, outer->l4_off, outer->is_fragment, &sender);
}

#define MK_FAR_CARRIER_BYTES \
	(sizeof(((struct outer_quote *)0)->ip) + sizeof(struct udphdr) + 8 + ETH_HLEN)

/* Does the error @quote from @sender make this host's carriers to a node smaller? See
 * is_about_node() in nat.bpf.c. */
static __always_inline int is_about_far_node(const struct outer_quote *quote,
					     const struct mk_far_addr *node,
					     const struct mk_far_addr *sender)
{
	const struct mk_link_set *links = links_now();

	if (!links || outer_mtu(quote) >= links->overlay_mtu_bytes + MK_FAR_CARRIER_BYTES)
		return 0;
	if (!MK_CARRIERS_FRAGMENT && sender->word[3] != node->word[3])
		return 0;
	return !!bpf_map_lookup_elem(&far_peers, node);
}

/* Check ICMP of the other family as shrinks_carriers() does. Returns 0 or a drop reason. */
static __always_inline int check_far_icmp(struct __sk_buff *skb, const struct outer_headers *outer)
{
	struct outer_quote quote = { 0 };
	struct mk_far_addr node;

	if (bpf_skb_load_bytes(skb, outer->l4_off, &quote.icmp, sizeof(quote.icmp)))
		return outer->is_fragment ? MK_DROP_TRUNCATED : 0;
	if (!outer_is_too_big(&quote))
		return 0;
	if (bpf_skb_load_bytes(skb, outer->l4_off, &quote, sizeof(quote)))
		return MK_DROP_FORGED_ERROR;
	if (outer_quoted(&quote, &node) == IPPROTO_UDP && quote.udp.dest == mk_node.vxlan_port)
		return MK_DROP_FORGED_ERROR;
	return is_about_far_node(&quote, &node, &outer->saddr) ? MK_DROP_FORGED_ERROR : 0;
}

/* Check a packet of the other family. Returns MK_GO_ON, or a drop reason: it hides its headers, or
 * is for this host and a carrier or an error that no host may send. */
static __always_inline int check_far(struct __sk_buff *skb)
{
	struct outer_headers outer = { 0 };
	int ret = outer_read(skb, &outer);

	if (ret != MK_GO_ON || !outer.l4_off)
		return ret;
	ret = outer.proto == IPPROTO_UDP ? check_far_udp(skb, &outer) : check_far_icmp(skb, &outer);
	if (!ret)
		return MK_GO_ON;
	return is_outer_for_host(skb, &outer) ? ret : MK_GO_ON;
}

/* The carrier of @pkt was of the other family. Is the source that of the node which sent it? */
static __always_inline int is_of_its_node(struct __sk_buff *skb, const struct packet *pkt)
{
	const struct ethhdr *eth = packet_at(skb, 0, sizeof(*eth));

	return eth && is_source_of_node(&pkt->tuple.saddr, eth->h_source);
}

#endif
