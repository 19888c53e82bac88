/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/packet.h - reading a packet: Ethernet, IP, and the fields of layer 4 that a flow needs. Only
 * this file and include/monokube/addr.h know how long an address is.
 *
 * After packet_read() has returned MK_GO_ON, the IP header is complete and valid, and the total
 * length fits the packet. For TCP, UDP, SCTP and ICMP the fixed header of layer 4 is linear, unless
 * the packet is a later fragment. */
#ifndef MK_BPF_PACKET_H
#define MK_BPF_PACKET_H

#include <linux/bpf.h>
#include <linux/icmp.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "maps.h"

#define MK_L3_OFF	  ETH_HLEN
#define MK_VLAN_ID_MASK	  0x0fff
#define MK_IP_DF	  0x4000
#define MK_IP_MF	  0x2000
#define MK_IP_OFFSET_MASK 0x1fff
#define MK_IP_HLEN_MAX	  60
#define MK_IP_OPTIONS_MAX (MK_IP_HLEN_MAX - 20)

#define MK_TCP_FIN 0x01
#define MK_TCP_SYN 0x02
#define MK_TCP_RST 0x04
#define MK_TCP_ACK 0x10

/* Types of SCTP chunks (RFC 9260, 3.2). */
#define MK_SCTP_INIT	     1
#define MK_SCTP_INIT_ACK     2
#define MK_SCTP_ABORT	     6
#define MK_SCTP_SHUTDOWN     7
#define MK_SCTP_SHUTDOWN_ACK 8

#define MK_SCTP_INIT_BYTES_MIN (sizeof(struct sctp_header) + 20) /* also of INIT ACK */

/* The kind of layer 4, as sessions see it. */
enum mk_l4 {
	MK_L4_OTHER, /* no ports to translate: ESP, ICMP other than echo, ... */
	MK_L4_TCP,
	MK_L4_UDP,
	MK_L4_SCTP,
	MK_L4_ECHO_REQUEST, /* or a timestamp request: is_icmp_request() */
	MK_L4_ECHO_REPLY,
	MK_L4_ICMP_ERROR, /* quotes the packet that it is about: packet_inner() */
};

enum mk_fragment_state { MK_WHOLE, MK_FIRST_FRAGMENT, MK_LATER_FRAGMENT };

struct packet {
	struct mk_tuple tuple; /* a later fragment's ports are 0 unless its first was seen */
	__u16 l4_off; /* from the start of the frame */
	__u8 l4_len; /* header of layer 4, bytes */
	__u8 l4; /* enum mk_l4 */
	__u8 fragment; /* enum mk_fragment_state */
	__u8 tcp_flags; /* SCTP: the meaning of the first chunk, as TCP flags */
	__u16 fragmented_bytes; /* first fragment: the whole packet's layer 4; 0: unknown */
};

/* SCTP's common header (RFC 9260, 3.1). */
struct sctp_header {
	union {
		__be16 port[2];
		__u32 ports;
	};
	__be32 verification_tag;
	__u32 checksum_le;
};

/* The packet that an ICMP error quotes. */
struct inner_packet {
	struct mk_tuple tuple;
	__u16 l3_off, l4_off;
	__u16 l4_bytes; /* length of the quoted part of its layer 4 */
};

/* What a step of a program returns: MK_GO_ON, or a drop reason (enum mk_drop_reason, from 0 on).
 * Only fragment_gather() returns the two others. */
enum {
	MK_GO_ON = -1,
	MK_FRAGMENT_WAITS = -2, /* hold the fragment */
	MK_FRAGMENT_RELEASES = -3, /* the fragment completes what held ones wait for */
};

/* The two packet pointers, loaded by inline assembly. Otherwise clang may move them as 32-bit
 * values, which the verifier treats as numbers. */
static __always_inline void *packet_start(const struct __sk_buff *skb)
{
	void *start;

	asm volatile("%0 = *(u32 *)(%1 + %2)"
		     : "=r"(start)
		     : "r"(skb), "i"(offsetof(struct __sk_buff, data)));
	return start;
}

static __always_inline void *packet_end(const struct __sk_buff *skb)
{
	void *end;

	asm volatile("%0 = *(u32 *)(%1 + %2)"
		     : "=r"(end)
		     : "r"(skb), "i"(offsetof(struct __sk_buff, data_end)));
	return end;
}

/* Find @size bytes at @offset, or NULL if they do not exist or are not linear. Every header that is
 * read starts below 256 (14 + 60 + 8 + 60). The mask tells the verifier the bound of a computed
 * offset. */
static __always_inline void *packet_at(struct __sk_buff *skb, __u32 offset, __u32 size)
{
	void *at = packet_start(skb) + (offset & 0xff);

	return at + size > packet_end(skb) ? NULL : at;
}

/* Hide @value's range from the verifier, unless it knows @any exactly. Otherwise the verifier
 * tracks the value through each round of a loop, and walks the rest once per known value. */
static __always_inline __u64 forgotten(__u64 value, __u64 any)
{
	asm volatile("%0 += %1; %0 -= %1" : "+r"(value) : "r"(any));
	return value;
}

/* Make the first @size bytes linear. Returns 0, or -1 if the frame is shorter. */
static __always_inline int packet_pull(struct __sk_buff *skb, __u32 size)
{
	if (packet_start(skb) + size <= packet_end(skb))
		return 0;
	return skb->len < size || bpf_skb_pull_data(skb, size) ? -1 : 0;
}

static __always_inline int tuple_eq(const struct mk_tuple *a, const struct mk_tuple *b)
{
	return mk_addr_eq(&a->saddr, &b->saddr) && mk_addr_eq(&a->daddr, &b->daddr) &&
	       a->sport == b->sport && a->dport == b->dport && a->proto == b->proto;
}

/* Finalizer of MurmurHash3 (public domain). */
static __always_inline __u32 hash_finish(__u32 hash)
{
	hash ^= hash >> 15;
	hash *= 0x85ebca6b;
	hash ^= hash >> 13;
	hash *= 0xc2b2ae35;
	return hash ^ (hash >> 16);
}

static __always_inline __u32 tuple_hash(const struct mk_tuple *tuple)
{
	__u32 hash = tuple->saddr.word[0] * 0x9e3779b1;

	hash ^= tuple->daddr.word[0] * 0x85ebca6b;
	hash ^= (((__u32)tuple->sport << 16) | tuple->dport) * 0xc2b2ae35;
	return hash_finish(hash ^ tuple->proto);
}

static __always_inline void tuple_reverse(struct mk_tuple *out, const struct mk_tuple *in)
{
	out->saddr = in->daddr;
	out->daddr = in->saddr;
	out->sport = in->dport;
	out->dport = in->sport;
	out->proto = in->proto;
	__builtin_memset(out->pad, 0, sizeof(out->pad));
}

static __always_inline void tuple_from_ip(struct mk_tuple *tuple, const struct iphdr *ip)
{
	__builtin_memset(tuple, 0, sizeof(*tuple));
	tuple->saddr.word[0] = ip->saddr;
	tuple->daddr.word[0] = ip->daddr;
	tuple->proto = ip->protocol;
}

/* Types of requests whose answers have the same identifier. Sessions treat them like a ping. */
static __always_inline int is_icmp_request(__u8 type)
{
	return type == ICMP_ECHO || type == ICMP_TIMESTAMP;
}

static __always_inline int is_icmp_reply(__u8 type)
{
	return type == ICMP_ECHOREPLY || type == ICMP_TIMESTAMPREPLY;
}

static __always_inline int is_icmp_error(__u8 type)
{
	return type == ICMP_DEST_UNREACH || type == ICMP_TIME_EXCEEDED ||
	       type == ICMP_PARAMETERPROB || type == ICMP_SOURCE_QUENCH;
}

static __always_inline int parse_tcp(struct __sk_buff *skb, struct packet *pkt, __u32 payload)
{
	struct tcphdr *tcp = packet_at(skb, pkt->l4_off, sizeof(*tcp));

	if (!tcp || payload < sizeof(*tcp))
		return MK_DROP_TRUNCATED;
	pkt->l4_len = tcp->doff * 4;
	if (pkt->l4_len < sizeof(*tcp))
		return MK_DROP_BAD_HEADER;
	if (pkt->l4_len > payload)
		return MK_DROP_TRUNCATED;
	pkt->tuple.sport = tcp->source;
	pkt->tuple.dport = tcp->dest;
	pkt->tcp_flags = ((__u8 *)tcp)[13];
	pkt->l4 = MK_L4_TCP;
	return MK_GO_ON;
}

static __always_inline int parse_udp(struct __sk_buff *skb, struct packet *pkt, __u32 payload)
{
	struct udphdr *udp = packet_at(skb, pkt->l4_off, sizeof(*udp));

	if (!udp || payload < sizeof(*udp))
		return MK_DROP_TRUNCATED;
	/* only a first fragment's header may give a longer length than the fragment has */
	if (bpf_ntohs(udp->len) < sizeof(*udp) ||
	    (pkt->fragment == MK_WHOLE && bpf_ntohs(udp->len) > payload))
		return MK_DROP_BAD_HEADER;
	pkt->tuple.sport = udp->source;
	pkt->tuple.dport = udp->dest;
	pkt->l4_len = sizeof(*udp);
	pkt->l4 = MK_L4_UDP;
	return MK_GO_ON;
}

/* The TCP flags that correspond to the chunks that open and close an association. Each such chunk
 * comes first in its packet (RFC 9260, 6.10). A SHUTDOWN after a SACK is missed, but its SHUTDOWN
 * ACK is not. */
static __always_inline __u8 sctp_flags(__u8 chunk_type)
{
	switch (chunk_type) {
	case MK_SCTP_INIT:
		return MK_TCP_SYN;
	case MK_SCTP_INIT_ACK:
		return MK_TCP_SYN | MK_TCP_ACK;
	case MK_SCTP_ABORT:
		return MK_TCP_RST;
	case MK_SCTP_SHUTDOWN:
	case MK_SCTP_SHUTDOWN_ACK:
		return MK_TCP_FIN;
	default:
		return MK_TCP_ACK;
	}
}

static __always_inline int parse_sctp(struct __sk_buff *skb, struct packet *pkt, __u32 payload)
{
	struct sctp_header *sctp = packet_at(skb, pkt->l4_off, sizeof(*sctp));
	__u8 *chunk_type;

	if (!sctp || payload < sizeof(*sctp))
		return MK_DROP_TRUNCATED;
	pkt->tuple.sport = sctp->port[0];
	pkt->tuple.dport = sctp->port[1];
	pkt->l4_len = sizeof(*sctp);
	pkt->l4 = MK_L4_SCTP;
	if (payload == sizeof(*sctp))
		return MK_GO_ON;
	packet_pull(skb, pkt->l4_off + sizeof(*sctp) + 1);
	chunk_type = packet_at(skb, pkt->l4_off + sizeof(*sctp), 1);
	pkt->tcp_flags = chunk_type ? sctp_flags(*chunk_type) : MK_TCP_ACK;
	if (pkt->tcp_flags & MK_TCP_SYN && payload < MK_SCTP_INIT_BYTES_MIN)
		return MK_DROP_TRUNCATED;
	return MK_GO_ON;
}

static __always_inline int parse_icmp(struct __sk_buff *skb, struct packet *pkt, __u32 payload)
{
	struct icmphdr *icmp = packet_at(skb, pkt->l4_off, sizeof(*icmp));

	if (!icmp || payload < sizeof(*icmp))
		return MK_DROP_TRUNCATED;
	pkt->l4_len = sizeof(*icmp);
	if (is_icmp_request(icmp->type) || is_icmp_reply(icmp->type)) {
		pkt->l4 = is_icmp_request(icmp->type) ? MK_L4_ECHO_REQUEST : MK_L4_ECHO_REPLY;
		pkt->tuple.sport = icmp->un.echo.id;
		pkt->tuple.dport = icmp->un.echo.id;
	} else if (is_icmp_error(icmp->type)) {
		pkt->l4 = MK_L4_ICMP_ERROR;
	}
	return MK_GO_ON;
}

static __always_inline int parse_l4(struct __sk_buff *skb, struct packet *pkt, __u32 payload)
{
	switch (pkt->tuple.proto) {
	case IPPROTO_TCP:
		packet_pull(skb, pkt->l4_off + sizeof(struct tcphdr));
		return parse_tcp(skb, pkt, payload);
	case IPPROTO_UDP:
		packet_pull(skb, pkt->l4_off + sizeof(struct udphdr));
		return parse_udp(skb, pkt, payload);
	case IPPROTO_SCTP:
		packet_pull(skb, pkt->l4_off + sizeof(struct sctp_header));
		return parse_sctp(skb, pkt, payload);
	case IPPROTO_ICMP:
		packet_pull(skb, pkt->l4_off + sizeof(struct icmphdr));
		return parse_icmp(skb, pkt, payload);
	default:
		return MK_GO_ON;
	}
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

/* Read the packet that the ICMP error @pkt is about. Returns 0, or -1 if the quoted part is too
 * short to know the flow. */
static __always_inline int packet_inner(struct __sk_buff *skb, const struct packet *pkt,
					struct inner_packet *inner)
{
	__u32 l3_off = pkt->l4_off + sizeof(struct icmphdr), ip_len, l4_off;
	struct iphdr *ip;
	__be16 *ports;

	packet_pull(skb, l3_off + sizeof(*ip));
	ip = packet_at(skb, l3_off, sizeof(*ip));
	if (!ip || ip->version != 4 || ip->ihl < 5 || ip->frag_off & bpf_htons(MK_IP_OFFSET_MASK))
		return -1;
	ip_len = ip->ihl * 4;
	tuple_from_ip(&inner->tuple, ip);
	l4_off = l3_off + ip_len;
	packet_pull(skb, l4_off + 8);
	ports = packet_at(skb, l4_off, 8);
	if (!ports)
		return -1;
	inner->l3_off = l3_off;
	inner->l4_off = l4_off;
	inner->l4_bytes = skb->len - l4_off;
	if (inner->tuple.proto == IPPROTO_ICMP) {
		inner->tuple.sport = ports[2];
		inner->tuple.dport = ports[2];
	} else if (inner->tuple.proto == IPPROTO_TCP || inner->tuple.proto == IPPROTO_UDP ||
		   inner->tuple.proto == IPPROTO_SCTP) {
		inner->tuple.sport = ports[0];
		inner->tuple.dport = ports[1];
	}
	return 0;
}

#endif
