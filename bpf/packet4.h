/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/packet4.h - the IPv4 header (RFC 791). packet6.h has the same functions for IPv6; packet.h
 * includes one of them. */
#ifndef MK_BPF_PACKET4_H
#define MK_BPF_PACKET4_H

#include <linux/ip.h>
#include <linux/ipv6.h>

#define MK_ETH_P_IP	     ETH_P_IP
#define MK_IP_DF	     0x4000
#define MK_IP_MF	     0x2000
#define MK_IP_OFFSET_MASK    0x1fff
#define MK_IP_OPTIONS_MAX    40
#define MK_CARRIERS_FRAGMENT 1 /* the overlay's packets may be fragments */
#define MK_L4_OFF_MASK	     0x7f /* layer 4 begins at 14 + 60 at most */

typedef struct iphdr ip_header;

static __always_inline void tuple_from_ip(struct mk_tuple *tuple, const ip_header *ip)
{
	__builtin_memset(tuple, 0, sizeof(*tuple));
	tuple->saddr.word[0] = ip->saddr;
	tuple->daddr.word[0] = ip->daddr;
	tuple->proto = ip->protocol;
}

/* Return the IP header's length, or 0 if the header is invalid in a packet of @room bytes. */
static __always_inline __u32 ip_header_len(const struct iphdr *ip, __u32 room)
{
	__u32 len = ip->ihl * 4;
	__u32 total = bpf_ntohs(ip->tot_len);

	if (ip->version != 4 || len < sizeof(*ip))
		return 0;
	/* IPv4 BIG TCP writes a length above 64 KiB as 0 (kernel: iph_totlen()) */
	if (total == 0 && room > 0xffff)
		return len;
	return total < len || total > room ? 0 : len;
}

/* Read a packet. A later fragment has no ports; fragment_gather() gives it those of its first
 * fragment. */
static __always_inline int packet_read(struct __sk_buff *skb, struct packet *pkt)
{
	__u32 room = skb->len - MK_L3_OFF, ip_len, payload;
	struct iphdr *ip;
	__be16 frag;

	__builtin_memset(pkt, 0, sizeof(*pkt));
	if (skb->protocol != bpf_htons(ETH_P_IP) || skb->vlan_present)
		return MK_DROP_NOT_IPV4;
	if (packet_pull(skb, MK_L3_OFF + sizeof(*ip)))
		return MK_DROP_TRUNCATED;
	ip = packet_at(skb, MK_L3_OFF, sizeof(*ip));
	if (!ip)
		return MK_DROP_TRUNCATED;
	ip_len = ip_header_len(ip, room);
	if (!ip_len)
		return MK_DROP_BAD_HEADER;
	payload = (ip->tot_len ? bpf_ntohs(ip->tot_len) : room) - ip_len;
	frag = ip->frag_off;
	tuple_from_ip(&pkt->tuple, ip);
	pkt->l4_off = MK_L3_OFF + ip_len;
	if (frag & bpf_htons(MK_IP_OFFSET_MASK)) {
		pkt->fragment = MK_LATER_FRAGMENT;
		return MK_GO_ON;
	}
	if (frag & bpf_htons(MK_IP_MF))
		pkt->fragment = MK_FIRST_FRAGMENT;
	return parse_l4(skb, pkt, payload);
}

/* May the host get a packet from outside that packet_read() refuses? The host checks it itself. */
static __always_inline int host_may_read(const struct packet *pkt)
{
	(void)pkt;
	return 1;
}

/* Check the IP options (RFC 791, 3.1): a packet must not choose its route. Returns MK_GO_ON or a
 * drop reason. */
static __always_inline int check_options(struct __sk_buff *skb, const struct packet *pkt)
{
	enum { END = 0, NO_OPERATION = 1, LOOSE_SOURCE_ROUTE = 131, STRICT_SOURCE_ROUTE = 137 };
	__u32 at = 0, bytes = pkt->l4_off - MK_L3_OFF - sizeof(struct iphdr);

	if (bytes && packet_pull(skb, pkt->l4_off))
		return MK_DROP_TRUNCATED;
	for (int i = 0; i < MK_IP_OPTIONS_MAX && at < bytes; i++) {
		__u8 *option;

		at &= 0x3f; /* so that the verifier sees the same state in each round */
		option = packet_at(skb, MK_L3_OFF + sizeof(struct iphdr) + at, 1);
		if (!option || *option == END)
			return MK_GO_ON;
		if (*option == LOOSE_SOURCE_ROUTE || *option == STRICT_SOURCE_ROUTE)
			return MK_DROP_SOURCE_ROUTE;
		if (*option == NO_OPERATION) {
			at++;
			continue;
		}
		option = packet_at(skb, MK_L3_OFF + sizeof(struct iphdr) + at + 1, 1);
		if (!option || *option < 2)
			return MK_DROP_BAD_HEADER;
		at += *option;
	}
	return MK_GO_ON;
}

/* Read the packet that the ICMP error @pkt is about. Returns 0, or -1 if the quoted part is too
 * short to know the flow. */
static __always_inline int packet_inner(struct __sk_buff *skb, const struct packet *pkt,
					struct inner_packet *inner)
{
	__u32 l3_off = pkt->l4_off + sizeof(struct icmphdr);
	struct iphdr *ip;

	packet_pull(skb, l3_off + sizeof(*ip));
	ip = packet_at(skb, l3_off, sizeof(*ip));
	if (!ip || ip->version != 4 || ip->ihl < 5 || ip->frag_off & bpf_htons(MK_IP_OFFSET_MASK))
		return -1;
	tuple_from_ip(&inner->tuple, ip);
	inner->l3_off = l3_off;
	inner->l4_off = l3_off + ip->ihl * 4;
	return inner_read_ports(skb, inner);
}

#define MK_FRAGMENT_HAS_PROTO 1 /* all fragments of a packet have its protocol */

/* Fill @part from a fragment's header. Returns 0, or -1. */
static __always_inline int fragment_read(struct __sk_buff *skb, struct fragment_part *part)
{
	struct iphdr *ip = packet_at(skb, MK_L3_OFF, sizeof(*ip));
	__u16 frag;

	if (!ip)
		return -1;
	frag = bpf_ntohs(ip->frag_off);
	part->id = ip->id;
	part->begin = (frag & MK_IP_OFFSET_MASK) * 8;
	part->end = part->begin + bpf_ntohs(ip->tot_len) - ip->ihl * 4;
	part->is_last = !(frag & MK_IP_MF);
	part->is_behind_headers = 0;
	return 0;
}

/* Length of layer 4 of a whole packet, in bytes; 0: unknown. */
static __always_inline __u32 packet_l4_bytes(struct __sk_buff *skb, const struct packet *pkt)
{
	struct iphdr *ip = packet_at(skb, MK_L3_OFF, sizeof(*ip));

	return ip ? MK_L3_OFF + bpf_ntohs(ip->tot_len) - pkt->l4_off : 0;
}

/* May a router fragment the packet? */
static __always_inline int ip_may_fragment(const ip_header *ip)
{
	return !(ip->frag_off & bpf_htons(MK_IP_DF));
}

/* Read the destination port of a packet that the stack has just written. Returns 0, or -1 if it
 * is a fragment or has no ports. */
static __always_inline int local_dest_port(struct __sk_buff *skb, const ip_header *ip, __u16 *port)
{
	__be16 *ports;

	if (ip->frag_off & bpf_htons(MK_IP_MF | MK_IP_OFFSET_MASK))
		return -1;
	ports = packet_at(skb, MK_L3_OFF + ip->ihl * 4, 2 * sizeof(*ports));
	if (!ports)
		return -1;
	*port = bpf_ntohs(ports[1]);
	return 0;
}

/* ---- changes --------------------------------------------------------------------------------- */

/* Write the addresses of @to, whose change has the checksum difference @diff. The header's
 * checksum is always complete, so it is updated in place (RFC 1624). A change of the header
 * together with its checksum keeps a CHECKSUM_COMPLETE sum valid. Returns 0, or -1. */
static __always_inline int rewrite_ip(struct __sk_buff *skb, __u32 l3_off,
				      const struct mk_tuple *to, __u32 diff)
{
	struct iphdr *ip = packet_at(skb, l3_off, sizeof(*ip));

	if (!ip)
		return -1;
	ip->saddr = to->saddr.word[0];
	ip->daddr = to->daddr.word[0];
	csum_add_diff(&ip->check, diff);
	return 0;
}

/* Decrement the TTL. Returns 0, or -1 if the packet may go no further. */
static __always_inline int rewrite_ttl(struct __sk_buff *skb, ip_header *ip)
{
	(void)skb;
	if (ip->ttl <= 1)
		return -1;
	ip->ttl--;
	csum_add_diff(&ip->check, bpf_htons(0xfeff)); /* -0x0100 in ones' complement */
	return 0;
}

/* Set the TTL of a packet that this node sends. */
static __always_inline void rewrite_ttl_own(struct __sk_buff *skb, ip_header *ip)
{
	(void)skb;
	csum_add_diff(&ip->check, bpf_htons(MK_OWN_TTL << 8) + (__u16)~bpf_htons(ip->ttl << 8));
	ip->ttl = MK_OWN_TTL;
}

/* Update the checksum at @field of TCP or UDP for a change of the addresses by @addrs. */
static __always_inline int pseudo_csum_change(struct __sk_buff *skb, __u32 field, __u32 addrs,
					      __u64 flags)
{
	return bpf_l4_csum_replace(skb, field, 0, addrs, flags | BPF_F_PSEUDO_HDR) ? -1 : 0;
}

/* Update the checksum of the ping at @l4_off, whose identifier changes. */
static __always_inline int echo_csum_change(struct __sk_buff *skb, __u32 l4_off, __u32 addrs,
					    __be16 from, __be16 to)
{
	(void)addrs; /* no pseudo header */
	if (from == to)
		return 0;
	return bpf_l4_csum_replace(skb, l4_off + offsetof(struct icmphdr, checksum), from, to,
				   sizeof(to))
		       ? -1
		       : 0;
}

/* Update the checksum of the ICMP error at @l4_off. Addresses and ports of the quoted packet
 * have changed by @addrs and @ports; its checksum was updated if @has_csum. Then the changes of
 * the ports and of that field cancel out, and the addresses remain. The changes in the quoted IP
 * header cancel out as well. */
static __always_inline int error_csum_change(struct __sk_buff *skb, __u32 l4_off, int has_csum,
					     __u32 addrs, __u32 ports, __u32 outer_addrs)
{
	/* csum_fold() of a difference is its negative */
	__u32 change = has_csum ? (__u16)csum_fold(addrs) : ports;

	(void)outer_addrs; /* no pseudo header */
	return bpf_l4_csum_replace(skb, l4_off + offsetof(struct icmphdr, checksum), 0, change, 0)
		       ? -1
		       : 0;
}

/* Fill the header of an ICMP error of @bytes, from @source to @dest. Returns the sum of its pseudo
 * header: ICMP has none. */
static __always_inline __u32 fill_error_ip(ip_header *ip, const struct mk_addr *source,
					   const struct mk_addr *dest, __u32 bytes)
{
	ip->version = 4;
	ip->ihl = 5;
	ip->tot_len = bpf_htons(sizeof(*ip) + bytes);
	ip->frag_off = bpf_htons(MK_IP_DF);
	ip->ttl = MK_OWN_TTL;
	ip->protocol = IPPROTO_ICMP;
	ip->saddr = source->word[0];
	ip->daddr = dest->word[0];
	ip->check = csum_fold(bpf_csum_diff(NULL, 0, (__be32 *)ip, sizeof(*ip), 0));
	return 0;
}

/* ---- addresses ------------------------------------------------------------------------------- */

static __always_inline struct mk_addr localhost(void)
{
	return (struct mk_addr){ { bpf_htonl(0x7f000001) } };
}

/* Link-local addresses of IPv4 (169.254.0.0/16) are treated as any other: clouds route some. */
static __always_inline int is_link_local(const struct mk_addr *addr)
{
	(void)addr;
	return 0;
}

/* May a packet to @addr leave this host? */
static __always_inline int is_unicast(const struct mk_addr *addr)
{
	__u8 first = mk_addr_first_byte(addr);

	return first != 0 && first != 127 && first < 224;
}

/* Does the source @addr name a single host, which may get an ICMP error (RFC 1122 3.2.2)? Loopback
 * addresses and broadcasts of uplinks are checked elsewhere. */
static __always_inline int may_get_error(const struct mk_addr *addr)
{
	return mk_addr_first_byte(addr) != 0 && mk_addr_first_byte(addr) < 224;
}

/* Is @addr impossible as a source on any network? */
static __always_inline int is_never_source(const struct mk_addr *addr)
{
	return mk_addr_first_byte(addr) == 0 || mk_addr_is_loopback(addr) ||
	       mk_addr_is_multicast(addr) || addr->word[0] == bpf_htonl(0xffffffff);
}

/* Is @addr the broadcast address of @network? */
static __always_inline int is_broadcast_of(const struct mk_addr *addr,
					   const struct mk_link_network *network)
{
	__be32 host = ~network->mask.word[0];

	return bpf_ntohl(host) > 1 && addr->word[0] == (network->net.word[0] | host);
}

/* The source of packets by @uplink to @dest. */
static __always_inline struct mk_addr uplink_source(const struct mk_uplink *uplink,
						    const struct mk_addr *dest)
{
	(void)dest;
	return uplink->addr;
}

static __always_inline int is_source_of(const struct mk_uplink *uplink, const struct mk_addr *addr)
{
	return mk_addr_eq(addr, &uplink->addr);
}

/* The source of an ICMP error to @dest outside. */
static __always_inline struct mk_addr error_source_outside(const struct mk_addr *dest)
{
	(void)dest;
	return mk_node_addr();
}

/* ---- the other family ------------------------------------------------------------------------ */

/* IPv6's programs of the hooks. The array is kept from load to load, so each family is loaded
 * without the other. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, MK_ENTRY_COUNT);
	__type(key, __u32);
	__type(value, __u32);
} other_family __attribute__((weak)) SEC(".maps");

/* Continue in IPv6's program of hook @entry if the packet is IPv6's and this node has IPv6. Returns
 * a drop reason if it does not, or not yet. */
static __always_inline int other_family_next(struct __sk_buff *skb, enum mk_entry entry)
{
	if (!mk_node.has_other_family || skb->protocol != bpf_htons(ETH_P_IPV6))
		return MK_DROP_NOT_IPV4;
	bpf_tail_call(skb, &other_family, entry);
	return MK_DROP_NOT_IPV4;
}

/* ---- carriers of the other family ------------------------------------------------------------ */

#define MK_FAR_ETH_P  ETH_P_IPV6
#define MK_FAR_FAMILY 10 /* AF_INET6 */

/* An ICMP error of the other family, and the first headers of the packet that it quotes. */
struct outer_quote {
	struct icmphdr icmp;
	struct ipv6hdr ip;
	struct udphdr udp;
};

/* An address of this family in the form of those of both. */
static __always_inline struct mk_far_addr far_addr(const struct mk_addr *addr)
{
	return (struct mk_far_addr){ { 0, 0, bpf_htonl(0xffff), addr->word[0] } };
}

/* Read the headers of an IPv6 packet up to those of UDP or ICMPv6. outer->l4_off stays 0 if it has
 * neither, or is a later fragment. Returns MK_GO_ON or a drop reason. */
static __always_inline int outer_read(struct __sk_buff *skb, struct outer_headers *outer)
{
	struct headers headers;
	struct ipv6hdr *ip;
	int ret;

	packet_pull(skb, MK_L3_OFF + sizeof(*ip));
	ip = packet_at(skb, MK_L3_OFF, sizeof(*ip));
	if (!ip)
		return MK_GO_ON;
	__builtin_memcpy(&outer->saddr, &ip->saddr, sizeof(outer->saddr));
	__builtin_memcpy(&outer->daddr, &ip->daddr, sizeof(outer->daddr));
	ret = walk_headers(skb, MK_L3_OFF + sizeof(*ip), ip->nexthdr, &headers);
	if (ret != MK_GO_ON || is_later(&headers) ||
	    (headers.proto != IPPROTO_UDP && headers.proto != IPPROTO_ICMPV6))
		return ret;
	outer->l4_off = headers.l4_off;
	outer->proto = headers.proto;
	outer->is_fragment = !!(headers.fragment & bpf_htons(MK_FRAGMENT_MORE));
	return MK_GO_ON;
}

/* Does the ICMPv6 error @quote say that a packet was too big? */
static __always_inline int outer_is_too_big(const struct outer_quote *quote)
{
	return quote->icmp.type == 2 && quote->icmp.code == 0;
}

static __always_inline __u32 outer_mtu(const struct outer_quote *quote)
{
	return bpf_ntohl(quote->icmp.un.gateway);
}

/* Set *@addr to the quoted packet's destination. Returns its protocol. */
static __always_inline __u8 outer_quoted(const struct outer_quote *quote, struct mk_far_addr *addr)
{
	__builtin_memcpy(addr, &quote->ip.daddr, sizeof(*addr));
	return quote->ip.nexthdr;
}

static __always_inline void outer_fib_set(struct bpf_fib_lookup *fib,
					  const struct outer_headers *outer)
{
	fib->family = MK_FAR_FAMILY;
	__builtin_memcpy(fib->ipv6_src, &outer->saddr, sizeof(outer->saddr));
	__builtin_memcpy(fib->ipv6_dst, &outer->daddr, sizeof(outer->daddr));
}

/* ---- look-ups in the kernel ------------------------------------------------------------------ */

#define MK_ADDRESS_FAMILY 2 /* AF_INET; BPF programs cannot include sys/socket.h */
#define MK_SOCKET_BYTES	  sizeof(((struct bpf_sock_tuple *)0)->ipv4)

static __always_inline struct bpf_sock_tuple socket_tuple(const struct mk_tuple *tuple)
{
	return (struct bpf_sock_tuple){ .ipv4 = { .saddr = tuple->saddr.word[0],
						  .daddr = tuple->daddr.word[0],
						  .sport = tuple->sport,
						  .dport = tuple->dport } };
}

static __always_inline void fib_set(struct bpf_fib_lookup *fib, const struct mk_tuple *tuple)
{
	fib->family = MK_ADDRESS_FAMILY;
	fib->ipv4_src = tuple->saddr.word[0];
	fib->ipv4_dst = tuple->daddr.word[0];
}

static __always_inline struct mk_addr fib_source(const struct bpf_fib_lookup *fib)
{
	return (struct mk_addr){ { fib->ipv4_src } };
}

/* After the look-up: the next hop, or the destination if it is on the link; 0 if the next hop is of
 * the other family. */
static __always_inline struct mk_addr fib_next_hop(const struct bpf_fib_lookup *fib)
{
	return (struct mk_addr){ { fib->family == MK_ADDRESS_FAMILY ? fib->ipv4_dst : 0 } };
}

static __always_inline struct bpf_redir_neigh neighbour(const struct mk_addr *addr)
{
	return (struct bpf_redir_neigh){ .nh_family = MK_ADDRESS_FAMILY, .ipv4_nh = addr->word[0] };
}

#endif
