// SPDX-License-Identifier: Apache-2.0
/* Frames of a traced packet: made for the first program, and read behind the last one. */
#include <arpa/inet.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/trace/trace.h"

#define L4_BYTES      40 /* enough for each protocol's header, and an SCTP INIT */
#define MESSAGE_BYTES 32 /* a neighbour solicitation with its sender's MAC address */

/* The sum of @bytes, an even number, added to @sum (RFC 1071). */
static uint32_t sum_words(const void *data, size_t bytes, uint32_t sum)
{
	const uint8_t *at = data;

	for (size_t i = 0; i < bytes; i += sizeof(uint16_t)) {
		uint16_t word;

		memcpy(&word, at + i, sizeof(word));
		sum += word;
	}
	return sum;
}

static __be16 fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (__be16)~sum;
}

union l4 {
	struct tcphdr tcp;
	struct udphdr udp;
	struct icmphdr icmp;
	uint8_t byte[L4_BYTES];
};

/* The message @type from @tuple's source, about its destination, with @mac. The programs read only
 * the type of all others than a solicitation. */
static union l4 message_of(const struct mk_tuple *tuple, uint8_t type, const uint8_t *mac)
{
	const __be16 pseudo[] = { htons(MESSAGE_BYTES), htons(IPPROTO_ICMPV6) };
	union l4 l4 = { .icmp.type = type };
	uint32_t sum;

	memcpy(l4.byte + sizeof(l4.icmp), &tuple->daddr, sizeof(tuple->daddr));
	l4.byte[24] = l4.byte[25] = 1; /* option: the sender's MAC address, of 8 bytes */
	memcpy(l4.byte + 26, mac, ETH_ALEN);
	sum = sum_words(pseudo, sizeof(pseudo), 0);
	sum = sum_words(&tuple->saddr, sizeof(tuple->saddr), sum);
	sum = sum_words(&tuple->daddr, sizeof(tuple->daddr), sum);
	l4.icmp.checksum = fold(sum_words(l4.byte, MESSAGE_BYTES, sum));
	return l4;
}

/* The echo request of IPv6 has another type, and its identifier at the same place. Returned by
 * value, to be copied: behind the Ethernet header nothing is aligned. */
static union l4 l4_of(const struct mk_tuple *tuple)
{
	union l4 l4 = { .byte = { 0 } };

	switch (tuple->proto) {
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		l4.icmp.type = tuple->proto == IPPROTO_ICMP ? ICMP_ECHO : ICMPV6_ECHO_REQUEST;
		l4.icmp.un.echo.id = tuple->sport;
		return l4;
	case IPPROTO_UDP:
		l4.udp.len = htons(L4_BYTES);
		break;
	case IPPROTO_TCP:
		l4.tcp.doff = sizeof(l4.tcp) / 4;
		l4.tcp.syn = 1;
		break;
	case IPPROTO_SCTP:
		l4.byte[12] = 1; /* one INIT chunk up to the end of the packet */
		l4.byte[15] = L4_BYTES - 12;
		break;
	}
	l4.udp.source = tuple->sport; /* at the same offsets in all three */
	l4.udp.dest = tuple->dport;
	return l4;
}

/* Write the header of IPv4 to @at. Returns its length. */
static uint32_t put_ipv4(uint8_t *at, const struct mk_tuple *tuple)
{
	struct iphdr ip = { .version = 4,
			    .ihl = 5,
			    .tot_len = htons(sizeof(ip) + L4_BYTES),
			    .frag_off = htons(0x4000), /* DF */
			    .ttl = 64,
			    .protocol = tuple->proto,
			    .saddr = mk_ip_from_addr(&tuple->saddr).v4.s_addr,
			    .daddr = mk_ip_from_addr(&tuple->daddr).v4.s_addr };

	ip.check = fold(sum_words(&ip, sizeof(ip), 0));
	memcpy(at, &ip, sizeof(ip));
	return sizeof(ip);
}

static const struct {
	const char *name;
	uint8_t proto, segments_left;
} extensions[] = {
	{ "hop-by-hop", IPPROTO_HOPOPTS, 0 }, { "destination", IPPROTO_DSTOPTS, 0 },
	{ "routing", IPPROTO_ROUTING, 0 },    { "source-route", IPPROTO_ROUTING, 1 },
	{ "fragment", IPPROTO_FRAGMENT, 0 },  { "ah", IPPROTO_AH, 0 },
};

const char *trace_header_name(size_t index)
{
	return index < MK_ARRAY_SIZE(extensions) ? extensions[index].name : NULL;
}

/* Length of an extension header that begins with @byte. */
static uint32_t extension_bytes(uint8_t proto, const uint8_t *byte)
{
	if (proto == IPPROTO_AH)
		return (byte[1] + 2u) * 4;
	return proto == IPPROTO_FRAGMENT ? 8 : (byte[1] + 1u) * 8;
}

static bool is_extension(uint8_t proto)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(extensions); i++)
		if (extensions[i].proto == proto)
			return true;
	return false;
}

/* Write the extension header @index, in front of @next. Returns its length. A fragment header of
 * zeros is that of a packet in one piece. */
static uint32_t put_extension(uint8_t *at, size_t index, uint8_t next)
{
	const uint8_t proto = extensions[index].proto;

	at[0] = next;
	if (proto == IPPROTO_AH)
		at[1] = 2;
	else if (proto == IPPROTO_ROUTING)
		at[3] = extensions[index].segments_left;
	else if (proto != IPPROTO_FRAGMENT)
		memcpy(at + 2, (const uint8_t[]){ 1, 4 }, 2); /* PadN to the end */
	return extension_bytes(proto, at);
}

/* Write headers from the IPv6 header to layer 4, of @l4_bytes. Returns their length. */
static uint32_t put_ipv6(uint8_t *at, const struct mk_tuple *tuple,
			 const struct mk_trace_form *form, uint32_t l4_bytes)
{
	struct ipv6hdr ip = { .version = 6,
			      .nexthdr = tuple->proto,
			      .hop_limit = form->message ? 255 : 64 };
	uint32_t used = sizeof(ip);

	if (form->header_count)
		ip.nexthdr = extensions[form->headers[0]].proto;
	for (size_t i = 0; i < form->header_count; i++)
		used += put_extension(at + used, form->headers[i],
				      i + 1 < form->header_count
					      ? extensions[form->headers[i + 1]].proto
					      : tuple->proto);
	ip.payload_len = htons((uint16_t)(used - sizeof(ip) + l4_bytes));
	memcpy(&ip.saddr, &tuple->saddr, sizeof(ip.saddr));
	memcpy(&ip.daddr, &tuple->daddr, sizeof(ip.daddr));
	memcpy(at, &ip, sizeof(ip));
	return used;
}

uint32_t trace_l4_off(const struct mk_trace_form *form)
{
	static const struct mk_tuple none;
	uint8_t headers[sizeof(struct ipv6hdr) + 16 * MK_TRACE_HEADERS_MAX] = { 0 };

	return put_ipv6(headers, &none, form, 0);
}

void trace_frame_make(struct mk_trace_frame *frame, const struct mk_tuple *tuple,
		      const struct mk_trace_form *form, const uint8_t *source_mac,
		      const uint8_t *dest_mac)
{
	const bool is_ipv6 = !mk_addr_is_ipv4(&tuple->daddr);
	const uint32_t l4_bytes = form->message ? MESSAGE_BYTES : L4_BYTES;
	struct ethhdr *eth = (struct ethhdr *)frame->byte;
	union l4 l4 = form->message ? message_of(tuple, form->message, source_mac) : l4_of(tuple);
	uint8_t *ip = frame->byte + ETH_HLEN;

	memset(frame, 0, sizeof(*frame));
	memcpy(eth->h_source, source_mac, ETH_ALEN);
	memcpy(eth->h_dest, dest_mac, ETH_ALEN);
	eth->h_proto = htons(is_ipv6 ? ETH_P_IPV6 : ETH_P_IP);
	frame->length = ETH_HLEN;
	frame->length += is_ipv6 ? put_ipv6(ip, tuple, form, l4_bytes) : put_ipv4(ip, tuple);
	memcpy(frame->byte + frame->length, l4.byte, l4_bytes);
	frame->length += l4_bytes;
}

static struct mk_addr addr_of(__be32 ipv4)
{
	const struct mk_ip ip = { .family = AF_INET, .v4.s_addr = ipv4 };

	return mk_ip_to_addr(&ip);
}

/* Step over the extension headers at @off. Returns where layer 4 begins; 0: it is not there. */
static uint32_t skip_extensions(const struct mk_trace_frame *frame, uint32_t off, uint8_t *proto)
{
	while (is_extension(*proto)) {
		const uint8_t *at = frame->byte + off;

		if (off + 8 > frame->length)
			return 0;
		off += extension_bytes(*proto, at);
		*proto = at[0];
	}
	return off;
}

/* Read addresses and protocol. Returns where layer 4 begins; 0: not a whole header. */
static uint32_t read_ip(const struct mk_trace_frame *frame, struct mk_tuple *tuple)
{
	const uint8_t *at = frame->byte + ETH_HLEN;
	struct ipv6hdr ipv6;
	struct iphdr ip;

	if (frame->length >= ETH_HLEN + sizeof(ip) && *at >> 4 == 4) {
		memcpy(&ip, at, sizeof(ip));
		tuple->saddr = addr_of(ip.saddr);
		tuple->daddr = addr_of(ip.daddr);
		tuple->proto = ip.protocol;
		return ETH_HLEN + ip.ihl * 4u;
	}
	if (frame->length < ETH_HLEN + sizeof(ipv6) || *at >> 4 != 6)
		return 0;
	memcpy(&ipv6, at, sizeof(ipv6));
	memcpy(&tuple->saddr, &ipv6.saddr, sizeof(tuple->saddr));
	memcpy(&tuple->daddr, &ipv6.daddr, sizeof(tuple->daddr));
	tuple->proto = ipv6.nexthdr;
	return skip_extensions(frame, ETH_HLEN + sizeof(ipv6), &tuple->proto);
}

static bool is_echo(uint8_t proto, uint8_t type)
{
	if (proto == IPPROTO_ICMP)
		return type == ICMP_ECHO || type == ICMP_ECHOREPLY;
	return type == ICMPV6_ECHO_REQUEST || type == ICMPV6_ECHO_REPLY;
}

bool trace_frame_read(const struct mk_trace_frame *frame, struct mk_tuple *tuple)
{
	struct icmphdr icmp;
	uint32_t l4;

	*tuple = (struct mk_tuple){ 0 };
	l4 = read_ip(frame, tuple);
	if (l4 == 0 || frame->length < l4 + sizeof(icmp))
		return false;
	if (tuple->proto == IPPROTO_ICMP || tuple->proto == IPPROTO_ICMPV6) {
		memcpy(&icmp, frame->byte + l4, sizeof(icmp));
		if (is_echo(tuple->proto, icmp.type))
			tuple->sport = tuple->dport = icmp.un.echo.id;
		return true;
	}
	memcpy(&tuple->sport, frame->byte + l4, sizeof(tuple->sport));
	memcpy(&tuple->dport, frame->byte + l4 + 2, sizeof(tuple->dport));
	return true;
}
