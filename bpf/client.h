/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/client.h - clients outside that keep their address on the way to a pod of another node
 * (setting clientAddress). The node that takes the request sends the packet by the overlay with the
 * client's address. The pod's node opens a session that names the first node, and sends answers
 * back to it by the overlay. Every node takes such packets, whatever it does itself.
 *
 * The same client port may come by two nodes to one pod. The pod's node would mix the two flows, so
 * it sends the packets of the later one back. Their node then masquerades that flow (program
 * `client`). */
#ifndef MK_BPF_CLIENT_H
#define MK_BPF_CLIENT_H

#include "cluster.h"
#include "deliver.h"
#include "overlay.h"

/* The part of a VTEP MAC address that differs between nodes (mk_session_node()). */
static __always_inline __u32 node_of_mac(const __u8 *vtep_mac)
{
	__u32 node;

	__builtin_memcpy(&node, vtep_mac + 2, sizeof(node));
	return node;
}

static __always_inline void mac_of_node(__u8 *vtep_mac, __u32 node)
{
	vtep_mac[0] = mk_node.vtep_mac[0];
	vtep_mac[1] = mk_node.vtep_mac[1];
	__builtin_memcpy(vtep_mac + 2, &node, sizeof(node));
}

static __always_inline __u32 node_of_this(void)
{
	__u8 mac[ETH_ALEN] __attribute__((aligned(4)));

	for (int i = 0; i < ETH_ALEN; i++)
		mac[i] = mk_node.vtep_mac[i];
	return node_of_mac(mac);
}

/* The node that sent the frame by the overlay; 0: the frame is too short. */
static __always_inline __u32 node_of_frame(struct __sk_buff *skb)
{
	const struct ethhdr *eth = packet_at(skb, 0, sizeof(*eth));

	return eth ? node_of_mac(eth->h_source) : 0;
}

/* Is @addr of no pod and no node of this cluster, and of no other cluster? A node's own address is
 * masqueraded, because that node would take its answers for packets of the overlay. */
static __always_inline int is_client_outside(const struct mk_addr *addr)
{
	struct mk_route view;

	return !is_pod_range(addr) && !is_vtep_range(addr) && !bpf_map_lookup_elem(&peers, addr) &&
	       !view_route(addr, &view);
}

/* Does @client keep its address towards @backend? Only pods' answers come back to this node: those
 * of a host, or of another cluster, would go straight to the client. */
static __always_inline int keeps_client(const struct mk_addr *client, const struct mk_addr *backend)
{
	return mk_node.keeps_client && is_pod_range(backend) && is_client_outside(client);
}

/* Has another node sent @pkt on for a client outside, to a local pod? */
static __always_inline int is_of_client(const struct packet *pkt)
{
	return is_local_pod(&pkt->tuple.daddr) && is_client_outside(&pkt->tuple.saddr);
}

/* The node that has sent @pkt on for a client outside; 0: the flow is another one. */
static __always_inline __u32 node_of_client(struct __sk_buff *skb, const struct chain_ctx *ctx,
					    const struct packet *pkt)
{
	return ctx->hook == MK_HOOK_OVERLAY && is_of_client(pkt) ? node_of_frame(skb) : 0;
}

/* Does @pkt, for a client outside, have the tuple of another flow than the one that this node
 * brought? @node: of the session found. */
static __always_inline int is_of_other_flow(struct __sk_buff *skb, const struct packet *pkt,
					    __u32 node)
{
	return !is_pod_range(&pkt->tuple.saddr) && node != node_of_frame(skb) && is_of_client(pkt);
}

/* Does another node send back a packet that this node sent with a client's address? */
static __always_inline int is_sent_back(struct __sk_buff *skb, const struct packet *pkt)
{
	const struct ethhdr *eth;

	if (is_pod_range(&pkt->tuple.saddr) || !is_pod_range(&pkt->tuple.daddr) ||
	    is_local_pod_range(&pkt->tuple.daddr))
		return 0;
	eth = packet_at(skb, 0, sizeof(*eth));
	return eth && is_source_of_node(&pkt->tuple.daddr, eth->h_source);
}

/* Is the client of another node's NodePort this host itself, with an address that other nodes do
 * not know? Policies would let it in as this node. */
static __always_inline int is_of_this_host(const struct packet *pkt)
{
	return !is_pod_range(&pkt->tuple.saddr) && !is_vtep_range(&pkt->tuple.saddr) &&
	       is_local_pod(&pkt->tuple.daddr) && is_host_address(&pkt->tuple.saddr);
}

/* Send the packet back to the node that brought it. */
static __always_inline int send_back(struct __sk_buff *skb, const struct chain_ctx *ctx,
				     const struct packet *pkt)
{
	const struct mk_link_set *links = links_now();
	__u8 mac[ETH_ALEN] __attribute__((aligned(4)));
	struct frame frame;

	if (!links || frame_of(skb, &frame))
		return drop(skb, ctx->hook, MK_DROP_TRUNCATED, &pkt->tuple);
	__builtin_memcpy(mac, frame.eth->h_source, sizeof(mac));
	set_macs(frame.eth, mk_node.vtep_mac, mac);
	return bpf_redirect(links->overlay_ifindex, 0);
}

#endif
