// SPDX-License-Identifier: Apache-2.0
/* test/bpf/frame_l4.c - layer 4 of frames: TCP, UDP, SCTP, ESP and ICMP, of both families. */
#include <arpa/inet.h>
#include <endian.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/if_ether.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "bpf/family.h"
#include "bpf/frame_internal.h"

static const struct {
	const char *name;
	uint8_t proto;
} protocols[] = {
	{ "tcp", IPPROTO_TCP },
	{ "udp", IPPROTO_UDP },
	{ "sctp", IPPROTO_SCTP },
	{ "esp", IPPROTO_ESP },
};

uint8_t frame_l4_proto(const char *name)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(protocols); i++)
		if (strcmp(protocols[i].name, name) == 0)
			return protocols[i].proto;
	return IPPROTO_ICMP;
}

static const char *proto_name(uint8_t proto)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(protocols); i++)
		if (protocols[i].proto == proto)
			return protocols[i].name;
	return "icmp";
}

/* ---- made --------------------------------------------------------------------------------------- */

static size_t make_tcp(struct tcphdr *tcp, const struct frame_flow *flow,
		       const struct frame_options *o)
{
	uint8_t flags = o->tcp_flags ? o->tcp_flags : SYN;

	tcp->source = htons((uint16_t)flow->sport);
	tcp->dest = htons((uint16_t)flow->dport);
	tcp->seq = htonl(o->seq ? o->seq : flags & SYN ? 1000 : 1001);
	tcp->ack_seq = htonl(o->ack ? o->ack : flags & ACK ? 1001 : 0);
	tcp->doff = 5;
	((uint8_t *)tcp)[13] = flags;
	tcp->window = htons(1024);
	return sizeof(*tcp);
}

static size_t make_udp(struct udphdr *udp, const struct frame_flow *flow,
		       const struct frame_options *o)
{
	udp->source = htons((uint16_t)flow->sport);
	udp->dest = htons((uint16_t)flow->dport);
	udp->len = htons((uint16_t)(sizeof(*udp) + o->payload_bytes));
	return sizeof(*udp);
}

struct sctp_common {
	uint16_t source, dest;
	uint32_t verification_tag, checksum; /* checksum: little endian */
};

/* Fill the common header and the first chunk's header, and 16 more bytes of an INIT. The payload
 * follows. */
static size_t make_sctp(struct sctp_common *sctp, const struct frame_flow *flow,
			const struct frame_options *o)
{
	uint8_t *chunk = (uint8_t *)(sctp + 1);
	size_t chunk_bytes = !o->sctp_chunk || o->sctp_chunk <= SCTP_INIT_ACK ? SCTP_INIT_BYTES : 4;

	sctp->source = htons((uint16_t)flow->sport);
	sctp->dest = htons((uint16_t)flow->dport);
	sctp->verification_tag = htonl(o->sctp_chunk ? 0x12345678 : 0);
	if (o->sctp_bare)
		return sizeof(*sctp);
	memset(chunk, 0x5a, chunk_bytes);
	chunk[0] = o->sctp_chunk ? (uint8_t)o->sctp_chunk : SCTP_INIT;
	return sizeof(*sctp) + chunk_bytes;
}

/* Return how much of @o->quote an error quotes. A row's number is for an IPv4 header. */
static size_t quoted_bytes(const struct frame_options *o)
{
	struct frame_ip quoted;

	if (!frame_ip_read(o->quote->byte + ETH_HLEN, o->quote->length - ETH_HLEN, &quoted))
		return 0;
	if (!o->quote_bytes)
		return quoted.header_bytes + 8;
	return o->quote_bytes + (family_is6() ? quoted.header_bytes - 20 : 0);
}

/* The two families differ in the numbers alone. An MTU of IPv4 has 16 bits before it, which are
 * zero. */
static size_t make_icmp(struct icmphdr *icmp, const struct frame_flow *flow,
			const struct frame_options *o)
{
	uint8_t echo = o->icmp_type ? o->icmp_type : o->echo_reply ? ICMP_ECHOREPLY : ICMP_ECHO;
	struct family_icmp is =
		o->quote ? family_icmp(o->icmp_type, o->icmp_code) : family_icmp(echo, 0);
	size_t quoted;

	icmp->type = is.type;
	icmp->code = is.code;
	if (!o->quote) {
		icmp->un.echo.id = htons((uint16_t)flow->id);
		icmp->un.echo.sequence = htons(1);
		return sizeof(*icmp);
	}
	icmp->un.gateway = htonl(o->icmp_mtu);
	quoted = quoted_bytes(o);
	memcpy(icmp + 1, o->quote->byte + ETH_HLEN, quoted);
	return sizeof(*icmp) + quoted;
}

size_t frame_l4_make(uint8_t *l4, uint8_t proto, const struct frame_flow *flow,
		     const struct frame_options *o)
{
	switch (proto) {
	case IPPROTO_TCP:
		return make_tcp((void *)l4, flow, o);
	case IPPROTO_UDP:
	case IPPROTO_ESP:
		return make_udp((void *)l4, flow, o);
	case IPPROTO_SCTP:
		return make_sctp((void *)l4, flow, o);
	default:
		return make_icmp((void *)l4, flow, o);
	}
}

/* ---- checksums ---------------------------------------------------------------------------------- */

uint32_t frame_crc32c(const void *data, size_t length, uint32_t crc)
{
	const uint8_t *byte = data;

	crc = ~crc;
	for (size_t i = 0; i < length; i++) {
		crc ^= byte[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
	}
	return ~crc;
}

static uint32_t sctp_checksum(const struct sctp_common *sctp, size_t length)
{
	struct sctp_common header = *sctp;
	uint32_t crc;

	header.checksum = 0;
	crc = frame_crc32c(&header, sizeof(header), 0);
	return htole32(frame_crc32c(sctp + 1, length - sizeof(header), crc));
}

static uint16_t l4_checksum(const struct frame_ip *ip)
{
	return frame_fold(
		frame_sum(ip->header + ip->header_bytes, ip->l4_bytes, frame_ip_pseudo_sum(ip)));
}

void frame_l4_finish(uint8_t *l4, const struct frame_ip *ip, const struct frame_options *o)
{
	uint16_t sum;

	if (ip->proto == IPPROTO_UDP)
		((struct udphdr *)l4)->len = htons((uint16_t)ip->l4_bytes);
	sum = htons(l4_checksum(ip));
	if (ip->proto == IPPROTO_TCP)
		((struct tcphdr *)l4)->check = sum;
	else if (ip->proto == IPPROTO_UDP && !o->no_checksum)
		((struct udphdr *)l4)->check = sum || !family_is6() ? sum : 0xffff;
	else if (ip->proto == IPPROTO_SCTP && !o->no_checksum)
		((struct sctp_common *)l4)->checksum = sctp_checksum((void *)l4, ip->l4_bytes);
	else if (ip->proto == IPPROTO_ICMP)
		((struct icmphdr *)l4)->checksum = sum;
}

bool frame_l4_right(const struct frame_ip *ip, size_t available)
{
	const uint8_t *l4 = ip->header + ip->header_bytes;
	const struct sctp_common *sctp = (const void *)l4;

	if (ip->fragment || ip->proto == IPPROTO_ESP)
		return true; /* a fragment's checksum is its datagram's */
	if (ip->l4_bytes > available)
		return true; /* quoted in part */
	if (ip->proto == IPPROTO_SCTP && ip->l4_bytes < sizeof(*sctp))
		return true; /* too short for a checksum */
	if (ip->proto == IPPROTO_UDP && ((const struct udphdr *)l4)->check == 0)
		return true;
	if (ip->proto == IPPROTO_SCTP) /* 0: the device fills it in */
		return sctp->checksum == 0 || sctp->checksum == sctp_checksum(sctp, ip->l4_bytes);
	if (ip->proto != IPPROTO_TCP && ip->proto != IPPROTO_UDP && ip->proto != IPPROTO_ICMP)
		return true; /* it has no checksum that this file knows */
	return l4_checksum(ip) == 0;
}

/* ---- read --------------------------------------------------------------------------------------- */

static bool is_echo(const struct frame_ip *ip, uint8_t type)
{
	return ip->from.family == AF_INET6
		       ? type == ICMPV6_ECHO_REQUEST || type == ICMPV6_ECHO_REPLY
		       : type == ICMP_ECHO || type == ICMP_ECHOREPLY;
}

static bool is_error(const struct frame_ip *ip, uint8_t type)
{
	return ip->from.family == AF_INET6
		       ? type < 128
		       : type == ICMP_DEST_UNREACH || type == ICMP_TIME_EXCEEDED;
}

const uint8_t *frame_l4_quoted(const struct frame_ip *ip)
{
	const struct icmphdr *icmp = (const void *)(ip->header + ip->header_bytes);

	return ip->proto == IPPROTO_ICMP && is_error(ip, icmp->type) ? (const uint8_t *)(icmp + 1)
								     : NULL;
}

static size_t tell_icmp(char *out, size_t room, const struct frame_ip *ip, size_t available,
			const char *ends)
{
	const struct icmphdr *icmp = (const void *)(ip->header + ip->header_bytes);
	struct family_icmp is = { icmp->type, icmp->code };
	struct frame_ip quoted;
	size_t used;

	if (is_echo(ip, icmp->type))
		return (size_t)snprintf(out, room, "icmp %s %u", ends, ntohs(icmp->un.echo.id));
	if (ip->from.family == AF_INET6)
		is = family_icmp_back(icmp->type, icmp->code);
	used = (size_t)snprintf(out, room, "icmp-error %s %u/%u [", ends, is.type, is.code);
	available -= available > sizeof(*icmp) ? sizeof(*icmp) : available;
	if (available > 0 && frame_ip_read((const void *)(icmp + 1), available, &quoted) &&
	    available >= quoted.header_bytes + 8)
		used += frame_l4_tell(out + used, room - used, &quoted, 0);
	return used + (size_t)snprintf(out + used, room - used, "]");
}

size_t frame_l4_tell(char *out, size_t room, const struct frame_ip *ip, size_t available)
{
	const uint16_t *port = (const void *)(ip->header + ip->header_bytes);
	char from[MK_IP_STRLEN], to[MK_IP_STRLEN], ends[2 * MK_IP_STRLEN + 4];

	family_text(&ip->from, from);
	family_text(&ip->to, to);
	snprintf(ends, sizeof(ends), "%s > %s", from, to);
	if (ip->proto == IPPROTO_ICMP)
		return tell_icmp(out, room, ip, available, ends);
	return (size_t)snprintf(out, room, "%s %s:%u > %s:%u", proto_name(ip->proto), from,
				ntohs(port[0]), to, ntohs(port[1]));
}
