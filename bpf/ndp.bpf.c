// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bpf/ndp.bpf.c - answers a pod's neighbour solicitation for its gateway (RFC 4861). Pods have a
 * permanent entry for the gateway. Only a pod that flushed its entries, or a guest inside it, asks.
 * Nothing else of neighbour discovery passes between pods, host and nodes. IPv6 only. */
#include "chain.h"
#include "deliver.h"

#define MK_NEIGHBOUR_SOLICITATION    135
#define MK_NEIGHBOUR_ADVERTISEMENT   136
#define MK_TARGET_LINK_LAYER	     2
#define MK_ROUTER_SOLICITED_OVERRIDE 0xe0000000 /* flags of an advertisement */

/* A solicitation, or the advertisement that answers it. */
struct message {
	struct icmphdr icmp;
	struct mk_addr target;
	struct { /* a solicitation may come without it */
		__u8 type, units; /* of 8 bytes */
		__u8 mac[ETH_ALEN];
	} link;
};
#define MK_MESSAGE_BYTES_MIN offsetof(struct message, link)

/* The checksum of @message with its pseudo header; 0 if the one that it contains is right. The
 * bytes after the message are zero. */
static __always_inline __sum16 message_checksum(const struct mk_addr *source,
						const struct mk_addr *dest,
						const struct message *message, __u32 bytes)
{
	__u32 sum = bpf_htons(bytes) + bpf_htons(IPPROTO_ICMPV6);

	sum = bpf_csum_diff(NULL, 0, (__be32 *)source, sizeof(*source), sum);
	sum = bpf_csum_diff(NULL, 0, (__be32 *)dest, sizeof(*dest), sum);
	return csum_fold(bpf_csum_diff(NULL, 0, (__be32 *)message, sizeof(*message), sum));
}

/* Read a valid solicitation for the gateway (RFC 4861, 7.1.1). Returns 0, or -1. */
static __always_inline int read_solicitation(struct __sk_buff *skb, const struct packet *pkt,
					     struct message *asked)
{
	const struct ipv6hdr *ip = packet_at(skb, MK_L3_OFF, sizeof(*ip));
	__u32 bytes;

	if (!ip || ip->hop_limit != 255 || ip->nexthdr != IPPROTO_ICMPV6)
		return -1;
	bytes = bpf_ntohs(ip->payload_len);
	if (bytes == sizeof(*asked)) {
		if (bpf_skb_load_bytes(skb, pkt->l4_off, asked, sizeof(*asked)))
			return -1;
	} else if (bytes != MK_MESSAGE_BYTES_MIN ||
		   bpf_skb_load_bytes(skb, pkt->l4_off, asked, MK_MESSAGE_BYTES_MIN)) {
		return -1;
	}
	return asked->icmp.type == MK_NEIGHBOUR_SOLICITATION && asked->icmp.code == 0 &&
			       is_addr(&asked->target, mk_node_gateway()) &&
			       message_checksum(&pkt->tuple.saddr, &pkt->tuple.daddr, asked,
						bytes) == 0
		       ? 0
		       : -1;
}

struct answer {
	struct ipv6hdr ip;
	struct message message;
};

static __always_inline void fill_answer(struct answer *answer, const struct packet *pkt)
{
	struct mk_addr gateway = mk_node_gateway();
	struct message *message = &answer->message;

	fill_error_ip(&answer->ip, &gateway, &pkt->tuple.saddr, sizeof(*message));
	answer->ip.hop_limit = 255;
	message->icmp.type = MK_NEIGHBOUR_ADVERTISEMENT;
	message->icmp.un.gateway = bpf_htonl(MK_ROUTER_SOLICITED_OVERRIDE);
	message->target = gateway;
	message->link.type = MK_TARGET_LINK_LAYER;
	message->link.units = 1;
	for (int i = 0; i < ETH_ALEN; i++)
		message->link.mac[i] = mk_node.gateway_mac[i];
	message->icmp.checksum =
		message_checksum(&gateway, &pkt->tuple.saddr, message, sizeof(*message));
}

/* Turn the solicitation into its answer. Returns 0, or -1. */
static __always_inline int make_answer(struct __sk_buff *skb, const struct packet *pkt,
				       const struct mk_pod *pod)
{
	struct answer answer = { 0 };
	struct ethhdr *eth;

	fill_answer(&answer, pkt);
	if (bpf_skb_change_tail(skb, MK_L3_OFF + sizeof(answer), 0) ||
	    bpf_skb_store_bytes(skb, MK_L3_OFF, &answer, sizeof(answer), BPF_F_RECOMPUTE_CSUM))
		return -1;
	eth = packet_at(skb, 0, sizeof(*eth));
	if (!eth)
		return -1;
	set_macs(eth, mk_node.gateway_mac, pod->mac);
	return 0;
}

SEC("tc")
int ndp(struct __sk_buff *skb)
{
	struct message asked = { 0 };
	struct chain_ctx ctx;
	struct packet pkt;
	struct ethhdr *eth;
	struct mk_pod *pod;
	int ret = chain_packet(skb, &ctx, &pkt);

	if (ret != MK_GO_ON)
		return drop(skb, ctx.hook, ret, &pkt.tuple);
	pod = pod_find(&pkt.tuple.saddr);
	eth = packet_at(skb, 0, sizeof(*eth));
	if (!pod || pod->ifindex != skb->ifindex || !eth || !is_mac_of(eth, pod) ||
	    read_solicitation(skb, &pkt, &asked))
		return drop(skb, ctx.hook, MK_DROP_NEIGHBOUR_DISCOVERY, &pkt.tuple);
	if (make_answer(skb, &pkt, pod))
		return drop(skb, ctx.hook, MK_DROP_REWRITE_FAILED, &pkt.tuple);
	return bpf_redirect_peer(pod->ifindex, 0);
}

char LICENSE[] __attribute__((weak)) SEC("license") = "Dual BSD/GPL";
