/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/uplink.h - the device, next hop and source of a packet that leaves the cluster. If the host
 * has one device and a default route, they are fixed. Otherwise the host's routing is asked for
 * each packet. In the look-up the packet comes in by the host's end of the host veth, as all
 * packets of pods do for the host. */
#ifndef MK_BPF_UPLINK_H
#define MK_BPF_UPLINK_H

#include <linux/errno.h>

#include "chain.h"

/* Flags of bpf_fib_lookup(), since Linux 6.3, 6.7 and 6.10. Earlier kernels reject them. */
#define MK_FIB_SKIP_NEIGH (1U << 2)
#define MK_FIB_SOURCE	  (1U << 4)
#define MK_FIB_MARK	  (1U << 5)

/* Ask the host's routing for @pkt. Returns the result of bpf_fib_lookup(): negative, or
 * BPF_FIB_LKUP_RET_*. Without MK_FIB_SOURCE fib_source() stays the packet's source. */
static __always_inline int ask_host(struct __sk_buff *skb, const struct packet *pkt,
				    const struct mk_link_set *links, struct bpf_fib_lookup *fib)
{
	__u32 flags = MK_FIB_SKIP_NEIGH | MK_FIB_SOURCE, mark = skb->mark;
	int ret;

	__builtin_memset(fib, 0, sizeof(*fib));
	fib_set(fib, &pkt->tuple);
	fib->l4_protocol = pkt->tuple.proto;
	fib->sport = pkt->tuple.sport;
	fib->dport = pkt->tuple.dport;
	fib->ifindex = links->host_ifindex;
	if (mark) {
		flags |= MK_FIB_MARK;
		__builtin_memcpy(fib->smac, &mark, sizeof(mark));
	}
	ret = bpf_fib_lookup(skb, fib, sizeof(*fib), flags);
	return ret == -EINVAL ? bpf_fib_lookup(skb, fib, sizeof(*fib), 0) : ret;
}

/* Find the device on whose network the next hop @addr is; 0 if there is none. */
static __always_inline __u32 device_of_network(const struct mk_link_set *links,
					       const struct mk_addr *addr)
{
	for (__u32 i = 0; i < MK_LINK_NETWORKS; i++) {
		const struct mk_link_network *network = &links->networks[i];

		if (network->ifindex && mk_addr_in(addr, &network->net, &network->mask))
			return network->ifindex;
	}
	return 0;
}

/* Find the uplink of the route. Before Linux 5.11, bpf_fib_lookup() does not return the device if
 * the next hop has no neighbour entry yet, but it returns the next hop. */
static __always_inline const struct mk_uplink *uplink_of(const struct mk_link_set *links,
							 const struct bpf_fib_lookup *fib)
{
	struct mk_addr next_hop = fib_next_hop(fib);
	__u32 ifindex = fib->ifindex;

	if (ifindex == links->host_ifindex)
		ifindex = device_of_network(links, &next_hop);
	return find_number(&uplinks, ifindex);
}

/* Fill *@way from @fib. Returns 0, or -1 if the route's device is no uplink. */
static __always_inline int way_by_route(const struct packet *pkt, const struct mk_link_set *links,
					const struct bpf_fib_lookup *fib, struct mk_way *way)
{
	const struct mk_uplink *uplink = uplink_of(links, fib);

	if (!uplink)
		return -1;
	way->ifindex = uplink->ifindex;
	way->next_hop = fib_next_hop(fib);
	way->source = fib_source(fib);
	if (mk_addr_eq(&way->source, &pkt->tuple.saddr))
		way->source = uplink_source(uplink, &pkt->tuple.daddr);
	way->mtu_bytes = uplink->mtu_bytes;
	return 0;
}

/* Why a packet cannot leave, and the ICMP error that says so. */
struct way_refusal {
	__u8 reason; /* enum mk_drop_reason */
	__u8 silent;
	__u8 icmp_code; /* of destination unreachable */
};

/* Choose the answer that the host would give (linux/net/ipv4/route.c, ip_error()). */
static __always_inline void refuse(struct way_refusal *refusal, int fib_result)
{
	refusal->reason = MK_DROP_HOST_ROUTE;
	refusal->silent = fib_result == BPF_FIB_LKUP_RET_BLACKHOLE;
	refusal->icmp_code = fib_result == BPF_FIB_LKUP_RET_UNREACHABLE ? MK_ICMP_NO_HOST
			     : fib_result == BPF_FIB_LKUP_RET_PROHIBIT	? MK_ICMP_FILTERED
									: MK_ICMP_NO_NET;
	if (fib_result == BPF_FIB_LKUP_RET_UNSUPP_LWT)
		refusal->reason = MK_DROP_NO_UPLINK;
}

/* Does the result give a route? A packet too large for the device counts as routed: the router
 * checks the size itself, and knows which packets the kernel segments. */
static __always_inline int is_way(int fib_result)
{
	return fib_result == BPF_FIB_LKUP_RET_SUCCESS || fib_result == BPF_FIB_LKUP_RET_NO_NEIGH ||
	       fib_result == BPF_FIB_LKUP_RET_FRAG_NEEDED;
}

/* Set *@way_out from the host's routing and store it for nat (map way). Returns 0, or -1 with
 * *@refusal. */
static __always_inline int way_asked(struct __sk_buff *skb, const struct packet *pkt,
				     const struct mk_link_set *links, struct mk_way *way_out,
				     struct way_refusal *refusal)
{
	struct mk_way *stored = find_number(&way, 0);
	struct bpf_fib_lookup fib;
	int ret = ask_host(skb, pkt, links, &fib);

	if (!is_way(ret)) {
		refuse(refusal, ret);
		return -1;
	}
	if (!stored || way_by_route(pkt, links, &fib, way_out)) {
		refuse(refusal, BPF_FIB_LKUP_RET_UNSUPP_LWT);
		return -1;
	}
	*stored = *way_out;
	skb->cb[4] = 1;
	return 0;
}

/* Set *@way_out to the first uplink, without asking the host. */
static __always_inline void way_plain(const struct packet *pkt, const struct mk_link_set *links,
				      struct mk_way *way_out)
{
	way_out->ifindex = links->first.ifindex;
	way_out->next_hop = (struct mk_addr){ { 0 } };
	way_out->source = uplink_source(&links->first, &pkt->tuple.daddr);
	way_out->mtu_bytes = links->first.mtu_bytes;
}

/* Choose the packet's way; the router calls this. skb->cb[4], which struct chain_ctx does not use,
 * tells nat whether the way is in map `way`. Returns 0, or -1 with *@refusal. */
static __always_inline int way_choose(struct __sk_buff *skb, const struct packet *pkt,
				      struct mk_way *way_out, struct way_refusal *refusal)
{
	const struct mk_link_set *links = links_now();

	skb->cb[4] = 0;
	if (!links)
		return -1;
	if (links->ask_host)
		return way_asked(skb, pkt, links, way_out, refusal);
	way_plain(pkt, links, way_out);
	return 0;
}

static __always_inline void way_chosen(const struct __sk_buff *skb, const struct packet *pkt,
				       struct mk_way *way_out)
{
	const struct mk_link_set *links = links_now();
	const struct mk_way *stored;

	__builtin_memset(way_out, 0, sizeof(*way_out));
	if (!skb->cb[4]) {
		if (links)
			way_plain(pkt, links, way_out);
		return;
	}
	stored = find_number(&way, 0);
	if (stored)
		*way_out = *stored;
}

/* Return the verdict that sends the packet. */
static __always_inline int way_send(const struct mk_way *way_out)
{
	struct bpf_redir_neigh next = neighbour(&way_out->next_hop);

	if (is_zero(&way_out->next_hop))
		return bpf_redirect_neigh(way_out->ifindex, NULL, 0, 0);
	return bpf_redirect_neigh(way_out->ifindex, &next, sizeof(next), 0);
}

/* Is @addr an address of this host that outside hosts see? With several uplinks, every address of
 * the host is. */
static __always_inline int is_own_outside(const struct mk_addr *addr)
{
	const struct mk_link_set *links = links_now();

	if (!links)
		return 0;
	return mk_addr_eq(addr, &links->node_addr) || is_source_of(&links->first, addr) ||
	       (links->ask_host && is_host_address(addr));
}

/* Is @addr the broadcast address of an uplink's network? */
static __always_inline int is_uplink_broadcast(const struct mk_addr *addr)
{
	const struct mk_link_set *links = links_now();

	for (__u32 i = 0; links && i < MK_LINK_NETWORKS; i++)
		if (links->networks[i].ifindex && is_broadcast_of(addr, &links->networks[i]))
			return 1;
	return 0;
}

#endif
