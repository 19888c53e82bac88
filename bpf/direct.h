/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/direct.h - packets between nodes without VXLAN (setting routing). They have the addresses of
 * pods and overlay on the link, so the sender is proved by its MAC address. Every node accepts
 * them, whatever it sends itself: so a cluster changes from one mode to the other node by node. */
#ifndef MK_BPF_DIRECT_H
#define MK_BPF_DIRECT_H

#include "deliver.h"
#include "overlay.h"

static __always_inline struct mk_link_node *link_node_of(const __u8 *vtep_mac)
{
	struct mk_link_node_key key = { 0 };

	__builtin_memcpy(key.vtep_mac, vtep_mac, sizeof(key.vtep_mac));
	return bpf_map_lookup_elem(&link_nodes, &key);
}

/* Would the receiver know that a direct packet from @addr is this node's (direct_find())? A packet
 * of another cluster or of a network behind this host must come by the overlay. */
static __always_inline int is_known_source(const struct mk_addr *addr)
{
	return is_pod_range(addr) || is_vtep_range(addr) || is_addr(addr, mk_node_addr());
}

/* Return the verdict that sends the packet to @node. The next hop is given, so neither a look-up in
 * the host's routes nor a lost route can lead it elsewhere. */
static __always_inline int direct_send(const struct mk_link_node *node)
{
	struct bpf_redir_neigh next = neighbour(&node->addr);

	return bpf_redirect_neigh(node->ifindex, &next, sizeof(next), 0);
}

/* Ask the host's neighbour table for the MAC addresses between the uplink and @node. Returns 0, or
 * -1 if it has none, or the host's route to the node is not by that link. A packet longer than the
 * MTU has been merged on arrival. */
static __always_inline int link_node_ask(struct __sk_buff *skb, const struct mk_link_node *node,
					 struct bpf_fib_lookup *fib)
{
	const struct mk_link_set *links = links_now();
	struct mk_tuple way = { 0 };
	long ret;

	if (!links)
		return -1;
	way.saddr = links->node_addr;
	way.daddr = node->addr;
	__builtin_memset(fib, 0, sizeof(*fib));
	fib_set(fib, &way);
	fib->ifindex = links->host_ifindex;
	ret = bpf_fib_lookup(skb, fib, sizeof(*fib), 0);
	way.saddr = fib_next_hop(fib);
	return (ret == BPF_FIB_LKUP_RET_SUCCESS || ret == BPF_FIB_LKUP_RET_FRAG_NEEDED) &&
			       fib->ifindex == node->ifindex && mk_addr_eq(&way.saddr, &node->addr)
		       ? 0
		       : -1;
}

/* Has @node sent the frame? A MAC address that differs from the last proved one may be new: a bond
 * or a virtual router has moved. */
static __always_inline int is_proved(struct __sk_buff *skb, struct mk_link_node *node)
{
	const struct ethhdr *eth = packet_at(skb, 0, sizeof(*eth));
	struct bpf_fib_lookup fib;
	__u8 source[ETH_ALEN] __attribute__((aligned(4))),
		mac[ETH_ALEN] __attribute__((aligned(4)));

	if (!eth || skb->ifindex != node->ifindex)
		return 0;
	if (is_same_mac(eth->h_source, node->mac))
		return 1;
	__builtin_memcpy(source, eth->h_source, sizeof(source));
	if (link_node_ask(skb, node, &fib))
		return 0;
	__builtin_memcpy(mac, fib.dmac, sizeof(mac));
	if (!is_same_mac(source, mac))
		return 0;
	__builtin_memcpy(node->mac, source, sizeof(node->mac));
	return 1;
}

/* A node of this cluster by which a packet may come directly. */
struct direct_sender {
	struct mk_link_node *node;
	__u8 vtep_mac[ETH_ALEN];
	__u8 is_direct; /* this node sends to it directly */
	__u8 is_certain; /* the packet cannot come from a host outside */
};

/* Find the node whose packet this could be: its source is a pod's or overlay address there, or the
 * node's own address, and the packet is for a local pod. Returns 0 if there is none. */
static __always_inline int direct_find(const struct packet *pkt, struct direct_sender *sender)
{
	const struct mk_peer *peer;
	struct mk_route route;

	if (is_pod_range(&pkt->tuple.saddr) || is_vtep_range(&pkt->tuple.saddr)) {
		if (route_find(&pkt->tuple.saddr, &route) || route.type != MK_ROUTE_OVERLAY)
			return 0;
		__builtin_memcpy(sender->vtep_mac, route.vtep_mac, sizeof(sender->vtep_mac));
		sender->is_direct = route.is_direct;
		sender->is_certain = 1;
	} else if (is_local_pod(&pkt->tuple.daddr)) {
		peer = bpf_map_lookup_elem(&peers, &pkt->tuple.saddr);
		if (!peer)
			return 0;
		__builtin_memcpy(sender->vtep_mac, peer->vtep_mac, sizeof(sender->vtep_mac));
		sender->is_direct = peer->is_direct;
		sender->is_certain = 0;
	} else {
		return 0;
	}
	sender->node = link_node_of(sender->vtep_mac);
	return sender->node != NULL;
}

/* Let the packet come by the overlay's device, as the host's route to its source wants it: reverse
 * path filtering would drop it on the uplink. */
static __always_inline int as_by_overlay(struct __sk_buff *skb, const struct packet *pkt,
					 const __u8 *vtep_mac)
{
	const struct mk_link_set *links = links_now();
	struct frame frame;

	if (!links || frame_of(skb, &frame))
		return drop(skb, MK_HOOK_UPLINK, MK_DROP_TRUNCATED, &pkt->tuple);
	set_macs(frame.eth, vtep_mac, mk_node.vtep_mac);
	return bpf_redirect(links->overlay_ifindex, BPF_F_INGRESS);
}

/* skb->tc_index of packets that direct_to_host() lets come by an uplink. Packets that arrive have
 * 0: no host outside can set it. */
#define MK_PASSED_ON 0x6d6b

static __always_inline int is_passed_on(struct __sk_buff *skb)
{
	if (skb->tc_index != MK_PASSED_ON)
		return 0;
	skb->tc_index = 0;
	return 1;
}

/* Take a packet of another node that comes by an uplink without VXLAN. It continues as if by the
 * overlay: the same sessions, policies and answers. Returns 1 with the verdict in *@verdict; 0: the
 * packet is none, and comes from outside. */
static __always_inline int direct_take(struct __sk_buff *skb, const struct packet *pkt,
				       int *verdict)
{
	struct direct_sender sender;

	if (is_passed_on(skb)) {
		*verdict = TC_ACT_UNSPEC;
		return 1;
	}
	if (!direct_find(pkt, &sender))
		return 0;
	if (mk_node.encrypts_all || !is_proved(skb, sender.node)) {
		if (!sender.is_certain)
			return 0;
		*verdict =
			drop(skb, MK_HOOK_UPLINK,
			     mk_node.encrypts_all ? MK_DROP_OVERLAY_CLEAR : MK_DROP_DIRECT_FORGED,
			     &pkt->tuple);
		return 1;
	}
	if (!sender.is_direct && !is_local_pod(&pkt->tuple.daddr)) {
		*verdict = as_by_overlay(skb, pkt, sender.vtep_mac);
		return 1;
	}
	bpf_tail_call(skb, &chain, MK_PROG_OVERLAY);
	*verdict = drop(skb, MK_HOOK_UPLINK, MK_DROP_CHAIN_BROKEN, &pkt->tuple);
	return 1;
}

/* Did the packet come by the overlay's device? At hook `overlay` it may also come by an uplink. */
static __always_inline int is_on_overlay(const struct __sk_buff *skb)
{
	const struct mk_link_set *links = links_now();

	return links && skb->ifindex == links->overlay_ifindex;
}

/* Return the verdict for a packet of another node to this host. If it has come by VXLAN, but the
 * host's route to its source is direct, let it come by the uplink: the reverse of as_by_overlay().
 * It must not pass the hooks again, which count a packet's fragments. */
static __always_inline int direct_to_host(struct __sk_buff *skb, const struct packet *pkt)
{
	const struct mk_link_node *node;
	struct bpf_fib_lookup fib;
	struct mk_route route;
	struct frame frame;

	if (!is_on_overlay(skb) || route_find(&pkt->tuple.saddr, &route) ||
	    route.type != MK_ROUTE_OVERLAY || !route.is_direct)
		return TC_ACT_UNSPEC;
	node = link_node_of(route.vtep_mac);
	if (!node || link_node_ask(skb, node, &fib) || frame_of(skb, &frame))
		return TC_ACT_UNSPEC;
	set_macs(frame.eth, fib.smac, fib.smac);
	skb->tc_index = MK_PASSED_ON;
	return bpf_redirect(node->ifindex, BPF_F_INGRESS);
}

#endif
