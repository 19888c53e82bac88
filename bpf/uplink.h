/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/uplink.h - by which device does a packet leave the cluster? A node with one uplink asks
 * nobody; with several, the host's routing says. Uplinks go by their index in mk_node. */
#ifndef MK_BPF_UPLINK_H
#define MK_BPF_UPLINK_H

#include "chain.h"

#define UPLINK_UNKNOWN MK_UPLINKS_MAX

static __always_inline int has_one_uplink(void)
{
	return mk_node.uplink_count <= 1;
}

static __always_inline __u32 uplink_of_device(__u32 ifindex)
{
	for (__u32 i = 0; i < MK_UPLINKS_MAX; i++)
		if (i < mk_node.uplink_count && mk_node.uplinks[i].ifindex == ifindex)
			return i;
	return UPLINK_UNKNOWN;
}

/* The uplink on whose network the next hop @addr is. */
static __always_inline __u32 uplink_of_network(__be32 addr)
{
	for (__u32 i = 0; i < MK_UPLINKS_MAX; i++)
		if (i < mk_node.uplink_count &&
		    (addr & mk_node.uplinks[i].mask.word[0]) == mk_node.uplinks[i].net.word[0])
			return i;
	return UPLINK_UNKNOWN;
}

/* Before Linux 5.11 bpf_fib_lookup() does not tell the device where the next hop has no neighbour
 * entry yet, but the next hop. A route that leads to none of the uplinks leads to the first. */
static __always_inline __u32 uplink_by_route(struct __sk_buff *skb, const struct packet *pkt)
{
	struct bpf_fib_lookup fib = {
		.family = 2, /* AF_INET; sys/socket.h is not for BPF */
		.l4_protocol = pkt->tuple.proto,
		.sport = pkt->tuple.sport,
		.dport = pkt->tuple.dport,
		.ifindex = skb->ifindex,
		.ipv4_src = pkt->tuple.saddr.word[0],
		.ipv4_dst = pkt->tuple.daddr.word[0],
	};
	int ret = bpf_fib_lookup(skb, &fib, sizeof(fib), 0);
	__u32 uplink = UPLINK_UNKNOWN;

	if (ret < 0)
		return 0;
	uplink = uplink_of_device(fib.ifindex);
	if (uplink == UPLINK_UNKNOWN && ret == BPF_FIB_LKUP_RET_NO_NEIGH)
		uplink = uplink_of_network(fib.ipv4_dst);
	return uplink == UPLINK_UNKNOWN ? 0 : uplink;
}

/* The router chooses and tells nat by the word of skb->cb that struct chain_ctx leaves. */
static __always_inline __u32 uplink_choose(struct __sk_buff *skb, const struct packet *pkt)
{
	if (has_one_uplink())
		return 0;
	skb->cb[4] = uplink_by_route(skb, pkt);
	return skb->cb[4];
}

static __always_inline __u32 uplink_chosen(const struct __sk_buff *skb)
{
	return has_one_uplink() ? 0 : skb->cb[4];
}

/* For the verifier: every index is in bounds. */
static __always_inline const volatile struct mk_uplink *uplink_at(__u32 uplink)
{
	return &mk_node.uplinks[uplink & (MK_UPLINKS_MAX - 1)];
}

static __always_inline struct mk_addr uplink_addr(__u32 uplink)
{
	return (struct mk_addr){ { uplink_at(uplink)->addr.word[0] } };
}

/* Is @addr what masqueraded traffic has as its source, by whatever uplink it left? */
static __always_inline int is_masquerade_addr(const struct mk_addr *addr)
{
	if (has_one_uplink())
		return is_addr(addr, uplink_addr(0));
	for (__u32 i = 0; i < MK_UPLINKS_MAX; i++)
		if (i < mk_node.uplink_count && is_addr(addr, uplink_addr(i)))
			return 1;
	return 0;
}

#endif
