/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/packet.h - reading a packet: Ethernet, IP, and the fields of layer 4 that a flow needs. What
 * differs between the families is in packet4.h and packet6.h, icmp4.h and icmp6.h, with the same
 * names. This file chooses between them.
 *
 * After packet_read() has returned MK_GO_ON, the IP header is complete and valid, and the total
 * length fits the packet. For TCP, UDP, SCTP and ICMP the fixed header of layer 4 is linear, unless
 * the packet is a later fragment. */
#ifndef MK_BPF_PACKET_H
#define MK_BPF_PACKET_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "checksum.h"
#include "maps.h"

#define MK_OWN_TTL 64 /* of packets that this node sends itself; also the hop limit */
#if MK_FAMILY == 4
#include "icmp4.h"
#else
#include "icmp6.h"
#endif

#define MK_L3_OFF	ETH_HLEN
#define MK_VLAN_ID_MASK 0x0fff

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
	MK_L4_NEIGHBOUR, /* ICMPv6 of one link: neighbour discovery, multicast listeners */
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
} __attribute__((aligned(8))); /* tuple_forget() stores words */

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
	__u32 l3_off, l4_off;
	__u32 l4_bytes; /* length of the quoted part of its layer 4 */
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

/* Every header that is read starts below this offset, a power of two: 14 + 60 + 8 + 60 in IPv4, and
 * 14 + 256 + 8 + 40 + 56 in IPv6. */
#define MK_HEADERS_END MK_BY_FAMILY(0x100, 0x200)

/* Find @size bytes at @offset, or NULL if they do not exist or are not linear. The mask tells the
 * verifier the bound of a computed offset. */
static __always_inline void *packet_at(struct __sk_buff *skb, __u32 offset, __u32 size)
{
	void *at = packet_start(skb) + (offset & (MK_HEADERS_END - 1));

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

static __always_inline __u32 addr_hash(const struct mk_addr *addr)
{
	__u32 hash = addr->word[0];

	for (int i = 1; i < MK_ADDR_WORDS; i++)
		hash = hash * 0x9e3779b1 + addr->word[i];
	return hash;
}

static __always_inline __u32 tuple_hash(const struct mk_tuple *tuple)
{
	__u32 hash = addr_hash(&tuple->saddr) * 0x9e3779b1;

	hash ^= addr_hash(&tuple->daddr) * 0x85ebca6b;
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
	out->pad = 0;
	out->path = 0;
}

/* Hide from the verifier how @tuple, of a packet, was stored. */
static __always_inline void tuple_forget(struct mk_tuple *tuple)
{
	volatile __u64 *words = (void *)tuple;

	for (unsigned int i = 0; i < sizeof(*tuple) / sizeof(*words); i++)
		words[i] = words[i];
}

/* The word with two halves, in the order of memory. */
static __always_inline __u64 word_of(__u32 first, __u32 second)
{
	return MK_IS_LITTLE ? first | (__u64)second << 32 : (__u64)first << 32 | second;
}

/* A key on the stack. It is stored as whole words: after stores of parts the verifier keeps apart
 * what the stack had before, and walks the code that follows once for each. */
union tuple_key {
	struct mk_tuple tuple;
	__u64 word[sizeof(struct mk_tuple) / sizeof(__u64)];
};

/* Set @key to @in reversed, as tuple_reverse() does. */
static __always_inline void key_reverse(union tuple_key *key, const struct mk_tuple *in)
{
	__u32 ports = MK_IS_LITTLE ? in->dport | (__u32)in->sport << 16
				   : (__u32)in->dport << 16 | in->sport;

#if MK_FAMILY == 4
	key->word[0] = word_of(in->daddr.word[0], in->saddr.word[0]);
#else
	key->tuple.saddr = in->daddr;
	key->tuple.daddr = in->saddr;
#endif
	key->word[sizeof(*key) / sizeof(__u64) - 1] =
		word_of(ports, MK_IS_LITTLE ? in->proto : (__u32)in->proto << 24);
}

/* Is @pkt a message that concerns one link only? */
static __always_inline int is_of_link(const struct packet *pkt)
{
	return MK_ICMP_HAS_NEIGHBOURS && pkt->l4 == MK_L4_NEIGHBOUR;
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
	} else if (is_neighbour_message(icmp->type)) {
		pkt->l4 = MK_L4_NEIGHBOUR;
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
	case MK_IPPROTO_ICMP:
		packet_pull(skb, pkt->l4_off + sizeof(struct icmphdr));
		return parse_icmp(skb, pkt, payload);
	default:
		return MK_GO_ON;
	}
}

/* Read the ports of the packet that an ICMP error quotes; its addresses and protocol are known.
 * Returns 0, or -1 if the quoted part is too short to know the flow. */
static __always_inline int inner_read_ports(struct __sk_buff *skb, struct inner_packet *inner)
{
	__be16 *ports;

	packet_pull(skb, inner->l4_off + 8);
	ports = packet_at(skb, inner->l4_off, 8);
	if (!ports)
		return -1;
	inner->l4_bytes = skb->len - inner->l4_off;
	if (inner->tuple.proto == MK_IPPROTO_ICMP) {
		inner->tuple.sport = ports[2];
		inner->tuple.dport = ports[2];
	} else if (inner->tuple.proto == IPPROTO_TCP || inner->tuple.proto == IPPROTO_UDP ||
		   inner->tuple.proto == IPPROTO_SCTP) {
		inner->tuple.sport = ports[0];
		inner->tuple.dport = ports[1];
	}
	return 0;
}

/* The data of a fragment's headers, and the part of its packet's layer 4 that it contains. */
struct fragment_part {
	mk_fragment_id id;
	__u32 begin, end;
	int is_last;
	int is_behind_headers; /* extension headers may follow the fragment header */
};

/* The outer headers of a packet of the other family. */
struct outer_headers {
	struct mk_far_addr saddr, daddr;
	__u32 l4_off; /* of UDP or ICMP; 0: it has none */
	__u8 proto;
	__u8 is_fragment; /* the first one */
};

#include "extension.h"
#if MK_FAMILY == 4
#include "packet4.h"
#else
#include "packet6.h"
#endif

#endif
