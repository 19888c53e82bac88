/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/packet6.h - the IPv6 header (RFC 8200), with the functions of packet4.h. Its extension
 * headers are in extension.h. AH covers the addresses, so a packet with AH is translated no more
 * than ESP: its protocol is AH. */
#ifndef MK_BPF_PACKET6_H
#define MK_BPF_PACKET6_H

#include <linux/ip.h>
#include <linux/ipv6.h>

#define MK_ETH_P_IP    ETH_P_IPV6
#define MK_L4_OFF_MASK 0x1ff

#define MK_CARRIERS_FRAGMENT 0 /* the overlay's packets are never fragments */

typedef struct ipv6hdr ip_header;

static __always_inline void tuple_from_ip(struct mk_tuple *tuple, const ip_header *ip)
{
	__builtin_memset(tuple, 0, sizeof(*tuple));
	__builtin_memcpy(&tuple->saddr, &ip->saddr, sizeof(tuple->saddr));
	__builtin_memcpy(&tuple->daddr, &ip->daddr, sizeof(tuple->daddr));
	tuple->proto = ip->nexthdr;
}

/* Set *@bytes to the length after the IPv6 header. Returns MK_GO_ON or a drop reason. BIG TCP
 * writes a length above 64 KiB as 0, with a jumbo payload option before Linux 6.18 (RFC 2675). */
static __always_inline int ip_payload_bytes(const struct __sk_buff *skb, const struct ipv6hdr *ip,
					    __u32 *bytes)
{
	__u32 room = skb->len - MK_L3_OFF - sizeof(*ip);

	*bytes = bpf_ntohs(ip->payload_len);
	if (ip->version != 6 || *bytes > room)
		return MK_DROP_BAD_HEADER;
	if (*bytes)
		return MK_GO_ON;
	if (skb->gso_size)
		*bytes = room;
	else if (ip->nexthdr == IPPROTO_HOPOPTS)
		return MK_DROP_BAD_HEADER;
	return MK_GO_ON;
}

/* Note what the extension headers say of @pkt. @bytes: after the IPv6 header. Returns MK_GO_ON or a
 * drop reason. */
static __always_inline int packet_note_headers(struct packet *pkt, const struct headers *headers,
					       __u32 bytes)
{
	__u32 walked = headers->l4_off - MK_L3_OFF - sizeof(ip_header);

	pkt->l4_off = headers->l4_off;
	pkt->tuple.proto = headers->has_ah ? IPPROTO_AH : headers->proto;
	if (bytes < walked)
		return MK_DROP_TRUNCATED;
	if (is_later(headers))
		pkt->fragment = MK_LATER_FRAGMENT;
	else if (headers->fragment & bpf_htons(MK_FRAGMENT_MORE))
		pkt->fragment = MK_FIRST_FRAGMENT;
	if (headers->fragment & bpf_htons(MK_FRAGMENT_MORE) &&
	    (bytes - (headers->fragment_off + sizeof(struct fragment_header) - MK_L3_OFF -
		      sizeof(ip_header))) %
		    8)
		return MK_DROP_BAD_HEADER;
	return MK_GO_ON;
}

/* Read a packet. A later fragment has no ports; fragment_gather() gives it those of its first
 * fragment. */
static __always_inline int packet_read(struct __sk_buff *skb, struct packet *pkt)
{
	struct headers headers;
	struct ipv6hdr *ip;
	__u32 bytes;
	int ret;

	__builtin_memset(pkt, 0, sizeof(*pkt));
	if (skb->protocol != bpf_htons(ETH_P_IPV6) || skb->vlan_present)
		return MK_DROP_NOT_IPV4;
	if (packet_pull(skb, MK_L3_OFF + sizeof(*ip)))
		return MK_DROP_TRUNCATED;
	ip = packet_at(skb, MK_L3_OFF, sizeof(*ip));
	if (!ip)
		return MK_DROP_TRUNCATED;
	ret = ip_payload_bytes(skb, ip, &bytes);
	if (ret != MK_GO_ON)
		return ret;
	tuple_from_ip(&pkt->tuple, ip);
	pkt->l4_off = MK_L3_OFF + sizeof(*ip);
	if (is_extension(pkt->tuple.proto)) {
		ret = walk_headers(skb, pkt->l4_off, pkt->tuple.proto, &headers);
		if (ret == MK_GO_ON)
			ret = packet_note_headers(pkt, &headers, bytes);
		if (ret != MK_GO_ON || pkt->fragment == MK_LATER_FRAGMENT)
			return ret;
	}
	return parse_l4(skb, pkt, bytes - (pkt->l4_off - MK_L3_OFF - sizeof(*ip)));
}

/* May the host get a packet from outside that packet_read() refuses? Not if it has extension
 * headers. The kernel walks more of them and puts fragments together. It might find a carrier where
 * the programs have found none, or accept a pod's forged source. */
static __always_inline int host_may_read(const struct packet *pkt)
{
	const __u32 l4_off = MK_L3_OFF + sizeof(ip_header);

	return pkt->l4_off < l4_off || (pkt->l4_off == l4_off && !is_extension(pkt->tuple.proto));
}

/* The walk has found source routes. */
static __always_inline int check_options(struct __sk_buff *skb, const struct packet *pkt)
{
	(void)skb;
	(void)pkt;
	return MK_GO_ON;
}

/* Read the packet that the ICMPv6 error @pkt is about. Returns 0, or -1 if the quoted part is too
 * short to know the flow. */
static __always_inline int packet_inner(struct __sk_buff *skb, const struct packet *pkt,
					struct inner_packet *inner)
{
	__u32 l3_off = pkt->l4_off + sizeof(struct icmphdr);
	struct headers headers;
	struct ipv6hdr *ip;

	packet_pull(skb, l3_off + sizeof(*ip));
	ip = packet_at(skb, l3_off, sizeof(*ip));
	if (!ip || ip->version != 6)
		return -1;
	tuple_from_ip(&inner->tuple, ip);
	inner->l3_off = l3_off;
	inner->l4_off = l3_off + sizeof(*ip);
	if (is_extension(inner->tuple.proto)) {
		if (walk_headers(skb, inner->l4_off, inner->tuple.proto, &headers) != MK_GO_ON ||
		    is_later(&headers))
			return -1;
		inner->tuple.proto = headers.has_ah ? IPPROTO_AH : headers.proto;
		inner->l4_off = headers.l4_off;
	}
	return inner_read_ports(skb, inner);
}

/* A later fragment may name another next header than the first one (RFC 8200, 4.5), such as the
 * options that follow the fragment header. */
#define MK_FRAGMENT_HAS_PROTO 0

/* Fill @part from a fragment's headers. Returns 0, or -1. */
static __always_inline int fragment_read(struct __sk_buff *skb, struct fragment_part *part)
{
	struct ipv6hdr *ip = packet_at(skb, MK_L3_OFF, sizeof(*ip));
	const struct fragment_header *fragment;
	struct headers headers;
	__u32 end;

	if (!ip)
		return -1;
	end = MK_L3_OFF + sizeof(*ip) + bpf_ntohs(ip->payload_len);
	if (walk_headers(skb, MK_L3_OFF + sizeof(*ip), ip->nexthdr, &headers) != MK_GO_ON ||
	    !headers.fragment_off)
		return -1;
	fragment = packet_at(skb, headers.fragment_off, sizeof(*fragment));
	if (!fragment)
		return -1;
	/* the data of the packet begin behind the fragment header, layer 4 perhaps behind more
	 * headers; both lengths are counted from there, so the sum of all fragments is the same */
	part->id = fragment->id;
	part->begin = bpf_ntohs(headers.fragment) & MK_FRAGMENT_OFFSET_MASK;
	part->end = part->begin + end - headers.fragment_off - sizeof(*fragment);
	part->is_last = !(headers.fragment & bpf_htons(MK_FRAGMENT_MORE));
	part->is_behind_headers = is_extension(headers.proto) |
				  (headers.l4_off - headers.fragment_off != sizeof(*fragment));
	return 0;
}

/* Length of layer 4 of a whole packet, in bytes; 0: unknown. */
static __always_inline __u32 packet_l4_bytes(struct __sk_buff *skb, const struct packet *pkt)
{
	struct ipv6hdr *ip = packet_at(skb, MK_L3_OFF, sizeof(*ip));

	return ip ? MK_L3_OFF + sizeof(*ip) + bpf_ntohs(ip->payload_len) - pkt->l4_off : 0;
}

/* No router fragments an IPv6 packet. */
static __always_inline int ip_may_fragment(const ip_header *ip)
{
	(void)ip;
	return 0;
}

/* Read the destination port of a packet that the stack has just written. Returns 0, or -1 if it has
 * extension headers. */
static __always_inline int local_dest_port(struct __sk_buff *skb, const ip_header *ip, __u16 *port)
{
	__be16 *ports;

	if (is_extension(ip->nexthdr))
		return -1;
	ports = packet_at(skb, MK_L3_OFF + sizeof(*ip), 2 * sizeof(*ports));
	if (!ports)
		return -1;
	*port = bpf_ntohs(ports[1]);
	return 0;
}

/* ---- changes --------------------------------------------------------------------------------- */

/* Write the addresses of @to. The header has no checksum; the caller updates that of layer 4, which
 * keeps a CHECKSUM_COMPLETE sum valid. Returns 0, or -1. */
static __always_inline int rewrite_ip(struct __sk_buff *skb, __u32 l3_off,
				      const struct mk_tuple *to, __u32 diff)
{
	struct ipv6hdr *ip = packet_at(skb, l3_off, sizeof(*ip));

	(void)diff;
	if (!ip)
		return -1;
	__builtin_memcpy(&ip->saddr, &to->saddr, sizeof(ip->saddr));
	__builtin_memcpy(&ip->daddr, &to->daddr, sizeof(ip->daddr));
	return 0;
}

/* Decrement the hop limit. No checksum covers it, so a CHECKSUM_COMPLETE sum changes. Returns 0, or
 * -1 if the packet may go no further. */
static __always_inline int rewrite_ttl(struct __sk_buff *skb, ip_header *ip)
{
	if (ip->hop_limit <= 1)
		return -1;
	ip->hop_limit--;
	bpf_csum_update(skb, bpf_htons(0xfffe)); /* -0x0001 in ones' complement */
	return 0;
}

/* Set the hop limit of a packet that this node sends. */
static __always_inline void rewrite_ttl_own(struct __sk_buff *skb, ip_header *ip)
{
	bpf_csum_update(skb, bpf_htons(MK_OWN_TTL) + (__u16)~bpf_htons(ip->hop_limit));
	ip->hop_limit = MK_OWN_TTL;
}

/* Update the checksum at @field of TCP or UDP for a change of the addresses by @addrs. The
 * addresses and the checksum cancel out in a CHECKSUM_COMPLETE sum. Without BPF_F_IPV6 the
 * kernel assumes IPv4, where addresses and the IP header's checksum do, and changes the sum
 * (Linux 6.16, net: Fix checksum update for ILA adj-transport). */
static __always_inline int pseudo_csum_change(struct __sk_buff *skb, __u32 field, __u32 addrs,
					      __u64 flags)
{
	const __u64 is_ipv6 = 1 << 7; /* BPF_F_IPV6, newer than the headers that we build with */

	flags |= BPF_F_PSEUDO_HDR;
	if (mk_node.has_ipv6_csum)
		return bpf_l4_csum_replace(skb, field, 0, addrs, flags | is_ipv6) ? -1 : 0;
	if (bpf_l4_csum_replace(skb, field, 0, addrs, flags))
		return -1;
	bpf_csum_update(skb, addrs);
	return 0;
}

/* Change the checksum of the ICMPv6 message at @l4_off. The kernel leaves no such checksum to a
 * device, and the cause of the change cancels out in a CHECKSUM_COMPLETE sum. */
static __always_inline int icmp_csum_add(struct __sk_buff *skb, __u32 l4_off, __u32 diff)
{
	struct icmphdr *icmp = packet_at(skb, l4_off, sizeof(*icmp));

	if (!icmp)
		return -1;
	csum_add_diff(&icmp->checksum, diff);
	return 0;
}

/* Update the checksum of the ping at @l4_off, whose addresses and identifier change. */
static __always_inline int echo_csum_change(struct __sk_buff *skb, __u32 l4_off, __u32 addrs,
					    __be16 from, __be16 to)
{
	if (icmp_csum_add(skb, l4_off, addrs))
		return -1;
	return from == to ? 0 : icmp_csum_add(skb, l4_off, (__u32)(__u16)~from + to);
}

/* Update the checksum of the ICMPv6 error at @l4_off. Addresses and ports of the quoted packet have
 * changed by @addrs and @ports. If its checksum was updated (@has_csum), all of that cancels out.
 * The error's own addresses have changed by @outer_addrs. */
static __always_inline int error_csum_change(struct __sk_buff *skb, __u32 l4_off, int has_csum,
					     __u32 addrs, __u32 ports, __u32 outer_addrs)
{
	if (icmp_csum_add(skb, l4_off, outer_addrs))
		return -1;
	if (has_csum)
		return 0;
	return icmp_csum_add(skb, l4_off, addrs) || icmp_csum_add(skb, l4_off, ports) ? -1 : 0;
}

/* Fill the header of an ICMPv6 error of @bytes, from @source to @dest. Returns the sum of its
 * pseudo header (RFC 8200, 8.1). */
static __always_inline __u32 fill_error_ip(ip_header *ip, const struct mk_addr *source,
					   const struct mk_addr *dest, __u32 bytes)
{
	ip->version = 6;
	ip->payload_len = bpf_htons(bytes);
	ip->nexthdr = IPPROTO_ICMPV6;
	ip->hop_limit = MK_OWN_TTL;
	__builtin_memcpy(&ip->saddr, source, sizeof(ip->saddr));
	__builtin_memcpy(&ip->daddr, dest, sizeof(ip->daddr));
	return bpf_csum_diff(NULL, 0, (__be32 *)&ip->saddr, 2 * sizeof(ip->saddr),
			     bpf_htons(bytes) + bpf_htons(IPPROTO_ICMPV6));
}

/* ---- addresses ------------------------------------------------------------------------------- */

static __always_inline struct mk_addr localhost(void)
{
	return (struct mk_addr){ { 0, 0, 0, bpf_htonl(1) } };
}

/* Is @addr in ::/96 or ::ffff:0:0/96: unspecified, loopback, IPv4 in IPv6 (RFC 4291, 2.5)? */
static __always_inline int is_ipv4_or_none(const struct mk_addr *addr)
{
	return !(addr->word[0] | addr->word[1]) &&
	       (addr->word[2] == 0 || addr->word[2] == bpf_htonl(0xffff));
}

/* Is @addr in fe80::/10? */
static __always_inline int is_link_local(const struct mk_addr *addr)
{
	return (addr->word[0] & bpf_htonl(0xffc00000)) == bpf_htonl(0xfe800000);
}

/* May a packet to @addr leave this host? */
static __always_inline int is_unicast(const struct mk_addr *addr)
{
	return !is_ipv4_or_none(addr) && !is_link_local(addr) && !mk_addr_is_multicast(addr);
}

/* Does the source @addr name a single host, which may get an ICMP error (RFC 4443, 2.4 e)? Loopback
 * addresses are checked elsewhere. */
static __always_inline int may_get_error(const struct mk_addr *addr)
{
	return !mk_addr_is_multicast(addr) && (mk_addr_is_loopback(addr) || !is_ipv4_or_none(addr));
}

/* Is @addr impossible as a source on any network? */
static __always_inline int is_never_source(const struct mk_addr *addr)
{
	return is_ipv4_or_none(addr) || mk_addr_is_multicast(addr);
}

/* IPv6 has no broadcast. */
static __always_inline int is_broadcast_of(const struct mk_addr *addr,
					   const struct mk_link_network *network)
{
	(void)addr;
	(void)network;
	return 0;
}

/* Is @addr a unique local address (RFC 4193)? */
static __always_inline int is_unique_local(const struct mk_addr *addr)
{
	return (mk_addr_first_byte(addr) & 0xfe) == 0xfc;
}

/* The source of packets by @uplink to @dest: an address of the scope of @dest, if the uplink has
 * both kinds. */
static __always_inline struct mk_addr uplink_source(const struct mk_uplink *uplink,
						    const struct mk_addr *dest)
{
	if (is_unique_local(dest) && !is_zero(&uplink->addr_local))
		return uplink->addr_local;
	return uplink->addr;
}

static __always_inline int is_source_of(const struct mk_uplink *uplink, const struct mk_addr *addr)
{
	return mk_addr_eq(addr, &uplink->addr) || mk_addr_eq(addr, &uplink->addr_local);
}

/* The source of an ICMP error to @dest outside: the Node's address if it has the scope of @dest. */
static __always_inline struct mk_addr error_source_outside(const struct mk_addr *dest)
{
	const struct mk_link_set *links = links_now();

	if (!links || is_unique_local(&links->node_addr) == is_unique_local(dest))
		return mk_node_addr();
	return uplink_source(&links->first, dest);
}

/* ---- the other family ------------------------------------------------------------------------ */

/* IPv4's packets never come here: on a node with both families IPv4's programs have the hooks. */
static __always_inline int other_family_next(struct __sk_buff *skb, enum mk_entry entry)
{
	(void)skb;
	(void)entry;
	return MK_DROP_NOT_IPV4;
}

/* ---- carriers of the other family ------------------------------------------------------------ */

#define MK_FAR_ETH_P  ETH_P_IP
#define MK_FAR_FAMILY 2 /* AF_INET */

struct outer_quote {
	struct icmphdr icmp;
	struct iphdr ip;
	struct udphdr udp;
};

/* An address of this family in the form of those of both. */
static __always_inline struct mk_far_addr far_addr(const struct mk_addr *addr)
{
	struct mk_far_addr far;

	__builtin_memcpy(&far, addr, sizeof(far));
	return far;
}
#define MK_IPV4_OFFSET_MASK 0x1fff
#define MK_IPV4_MORE	    0x2000

/* Read the headers of an IPv4 packet up to those of UDP or ICMP, as packet4.h does for IPv6. */
static __always_inline int outer_read(struct __sk_buff *skb, struct outer_headers *outer)
{
	struct iphdr *ip;

	packet_pull(skb, MK_L3_OFF + sizeof(*ip));
	ip = packet_at(skb, MK_L3_OFF, sizeof(*ip));
	if (!ip || ip->frag_off & bpf_htons(MK_IPV4_OFFSET_MASK) ||
	    (ip->protocol != IPPROTO_UDP && ip->protocol != IPPROTO_ICMP))
		return MK_GO_ON;
	outer->saddr = (struct mk_far_addr){ { 0, 0, bpf_htonl(0xffff), ip->saddr } };
	outer->daddr = (struct mk_far_addr){ { 0, 0, bpf_htonl(0xffff), ip->daddr } };
	outer->l4_off = MK_L3_OFF + ip->ihl * 4;
	outer->proto = ip->protocol;
	outer->is_fragment = !!(ip->frag_off & bpf_htons(MK_IPV4_MORE));
	return MK_GO_ON;
}

static __always_inline int outer_is_too_big(const struct outer_quote *quote)
{
	return quote->icmp.type == ICMP_DEST_UNREACH && quote->icmp.code == ICMP_FRAG_NEEDED;
}

static __always_inline __u32 outer_mtu(const struct outer_quote *quote)
{
	return bpf_ntohs(quote->icmp.un.frag.mtu);
}

/* This host's packets have no IPv4 options. */
static __always_inline __u8 outer_quoted(const struct outer_quote *quote, struct mk_far_addr *addr)
{
	*addr = (struct mk_far_addr){ { 0, 0, bpf_htonl(0xffff), quote->ip.daddr } };
	return quote->ip.protocol;
}

static __always_inline void outer_fib_set(struct bpf_fib_lookup *fib,
					  const struct outer_headers *outer)
{
	fib->family = MK_FAR_FAMILY;
	fib->ipv4_src = outer->saddr.word[3];
	fib->ipv4_dst = outer->daddr.word[3];
}

/* ---- look-ups in the kernel ------------------------------------------------------------------ */

#define MK_ADDRESS_FAMILY 10 /* AF_INET6; BPF programs cannot include sys/socket.h */
#define MK_SOCKET_BYTES	  sizeof(((struct bpf_sock_tuple *)0)->ipv6)

static __always_inline struct bpf_sock_tuple socket_tuple(const struct mk_tuple *tuple)
{
	struct bpf_sock_tuple flow = { .ipv6 = { .sport = tuple->sport, .dport = tuple->dport } };

	__builtin_memcpy(flow.ipv6.saddr, &tuple->saddr, sizeof(tuple->saddr));
	__builtin_memcpy(flow.ipv6.daddr, &tuple->daddr, sizeof(tuple->daddr));
	return flow;
}

static __always_inline void fib_set(struct bpf_fib_lookup *fib, const struct mk_tuple *tuple)
{
	fib->family = MK_ADDRESS_FAMILY;
	__builtin_memcpy(fib->ipv6_src, &tuple->saddr, sizeof(tuple->saddr));
	__builtin_memcpy(fib->ipv6_dst, &tuple->daddr, sizeof(tuple->daddr));
}

static __always_inline struct mk_addr fib_source(const struct bpf_fib_lookup *fib)
{
	struct mk_addr addr;

	__builtin_memcpy(&addr, fib->ipv6_src, sizeof(addr));
	return addr;
}

/* After the look-up: the next hop, or the destination if it is on the link. */
static __always_inline struct mk_addr fib_next_hop(const struct bpf_fib_lookup *fib)
{
	struct mk_addr addr;

	__builtin_memcpy(&addr, fib->ipv6_dst, sizeof(addr));
	return addr;
}

static __always_inline struct bpf_redir_neigh neighbour(const struct mk_addr *addr)
{
	struct bpf_redir_neigh next = { .nh_family = MK_ADDRESS_FAMILY };

	__builtin_memcpy(next.ipv6_nh, addr, sizeof(*addr));
	return next;
}

#endif
