// SPDX-License-Identifier: Apache-2.0
#include "bpf/frame.h"

#include <arpa/inet.h>
#include <endian.h>
#include <linux/icmp.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ip.h"
#include "unit/mac.h"

struct flow {
	char proto[16], from[32], to[32];
	unsigned sport, dport, id;
};

static void parse_flow(const char *text, struct flow *flow)
{
	memset(flow, 0, sizeof(*flow));
	if (sscanf(text, "%15s %31[0-9.]:%u > %31[0-9.]:%u", flow->proto, flow->from, &flow->sport,
		   flow->to, &flow->dport) == 5)
		return;
	if (sscanf(text, "%15s %31[0-9.] > %31[0-9.] %u", flow->proto, flow->from, flow->to,
		   &flow->id) >= 3)
		return;
	fprintf(stderr, "not a flow: '%s'\n", text);
	abort();
}

static uint32_t sum_words(const void *data, size_t length, uint32_t sum)
{
	const uint8_t *byte = data;

	for (size_t i = 0; i + 1 < length; i += 2)
		sum += (uint32_t)byte[i] << 8 | byte[i + 1];
	if (length & 1)
		sum += (uint32_t)byte[length - 1] << 8;
	return sum;
}

static uint16_t fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static uint16_t l4_checksum(const struct iphdr *ip, const void *l4, size_t length)
{
	uint32_t sum = 0;

	if (ip->protocol != IPPROTO_ICMP) {
		sum = sum_words(&ip->saddr, 8, 0);
		sum += ip->protocol + (uint32_t)length;
	}
	return fold(sum_words(l4, length, sum));
}

static void fill_ethernet(struct frame *frame, const struct flow *flow,
			  const struct frame_options *o)
{
	struct ethhdr *eth = (void *)frame->byte;
	struct mk_mac mac;
	struct mk_ip ip;

	if (mk_ip_parse(flow->from, &ip) < 0)
		abort();
	mac = mk_mac_of_ip(&ip);
	if (o->source_mac && mac_parse(o->source_mac, &mac) < 0)
		abort();
	memcpy(eth->h_source, mac.byte, ETH_ALEN);
	if (mac_parse(o->dest_mac ? o->dest_mac : FRAME_GATEWAY_MAC, &mac) < 0)
		abort();
	memcpy(eth->h_dest, mac.byte, ETH_ALEN);
	eth->h_proto = htons(ETH_P_IP);
}

static size_t fill_tcp(struct tcphdr *tcp, const struct flow *flow, const struct frame_options *o)
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

static size_t fill_udp(struct udphdr *udp, const struct flow *flow, const struct frame_options *o)
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
static size_t fill_sctp(struct sctp_common *sctp, const struct flow *flow,
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

static size_t fill_icmp(struct icmphdr *icmp, const struct flow *flow,
			const struct frame_options *o)
{
	size_t quoted = o->quote_bytes;

	if (!o->quote) {
		icmp->type = o->icmp_type    ? o->icmp_type
			     : o->echo_reply ? ICMP_ECHOREPLY
					     : ICMP_ECHO;
		icmp->un.echo.id = htons((uint16_t)flow->id);
		icmp->un.echo.sequence = htons(1);
		return sizeof(*icmp);
	}
	icmp->type = o->icmp_type;
	icmp->code = o->icmp_code;
	icmp->un.frag.mtu = htons(o->icmp_mtu);
	if (!quoted)
		quoted = (size_t)(o->quote->byte[ETH_HLEN] & 0xf) * 4 + 8;
	memcpy(icmp + 1, o->quote->byte + ETH_HLEN, quoted);
	return sizeof(*icmp) + quoted;
}

static size_t fill_l4(void *l4, struct iphdr *ip, const struct flow *flow,
		      const struct frame_options *o)
{
	if (strcmp(flow->proto, "tcp") == 0) {
		ip->protocol = IPPROTO_TCP;
		return fill_tcp(l4, flow, o);
	}
	if (strcmp(flow->proto, "udp") == 0) {
		ip->protocol = IPPROTO_UDP;
		return fill_udp(l4, flow, o);
	}
	if (strcmp(flow->proto, "sctp") == 0) {
		ip->protocol = IPPROTO_SCTP;
		return fill_sctp(l4, flow, o);
	}
	if (strcmp(flow->proto, "esp") == 0) {
		ip->protocol = IPPROTO_ESP;
		return fill_udp(l4, flow, o);
	}
	ip->protocol = IPPROTO_ICMP;
	return fill_icmp(l4, flow, o);
}

static void checksum_l4(struct iphdr *ip, uint8_t *l4, size_t length, const struct frame_options *o)
{
	uint16_t sum = htons(l4_checksum(ip, l4, length));

	if (ip->protocol == IPPROTO_TCP)
		((struct tcphdr *)l4)->check = sum;
	else if (ip->protocol == IPPROTO_UDP && !o->no_checksum)
		((struct udphdr *)l4)->check = sum;
	else if (ip->protocol == IPPROTO_SCTP && !o->no_checksum)
		((struct sctp_common *)l4)->checksum = sctp_checksum((void *)l4, length);
	else if (ip->protocol == IPPROTO_ICMP)
		((struct icmphdr *)l4)->checksum = sum;
}

struct frame frame_make(const char *text, const struct frame_options *options)
{
	static const struct frame_options ordinary;
	const struct frame_options *o = options ? options : &ordinary;
	struct frame frame = { 0 };
	struct iphdr *ip = (void *)(frame.byte + ETH_HLEN);
	size_t ip_bytes = sizeof(*ip) + o->ip_option_words * 4u, l4_bytes;
	uint8_t *l4 = frame.byte + ETH_HLEN + ip_bytes;
	struct flow flow;
	bool later = o->fragment & 0x1fff;

	parse_flow(text, &flow);
	fill_ethernet(&frame, &flow, o);
	ip->version = 4;
	ip->ihl = (unsigned)(ip_bytes / 4) & 0xf;
	memset(ip + 1, 1, o->ip_option_words * 4u);
	ip->id = htons(o->id);
	ip->frag_off = htons(o->fragment);
	ip->ttl = o->ttl ? o->ttl : 64;
	inet_pton(AF_INET, flow.from, &ip->saddr);
	inet_pton(AF_INET, flow.to, &ip->daddr);
	l4_bytes = fill_l4(l4, ip, &flow, o);
	if (later) { /* only payload */
		memset(l4, 'x', l4_bytes);
		l4_bytes = 0;
	}
	for (size_t i = 0; i < o->payload_bytes; i++)
		l4[l4_bytes + i] = (uint8_t)('a' + i % 26);
	l4_bytes += o->payload_bytes;
	ip->tot_len = htons((uint16_t)(ip_bytes + l4_bytes));
	if (!later)
		checksum_l4(ip, l4, l4_bytes, o);
	frame.length = ETH_HLEN + ip_bytes + l4_bytes;
	frame_fix_ip_checksum(&frame);
	return frame;
}

void frame_fix_ip_checksum(struct frame *frame)
{
	struct iphdr *ip = (void *)(frame->byte + ETH_HLEN);

	ip->check = 0;
	ip->check = htons(fold(sum_words(ip, ip->ihl * 4u, 0)));
}

static const char *proto_name(uint8_t proto)
{
	return proto == IPPROTO_TCP    ? "tcp"
	       : proto == IPPROTO_UDP  ? "udp"
	       : proto == IPPROTO_SCTP ? "sctp"
	       : proto == IPPROTO_ESP  ? "esp"
				       : "icmp";
}

static size_t tell(char *out, size_t room, const struct iphdr *ip, size_t available)
{
	const uint8_t *l4 = (const uint8_t *)ip + ip->ihl * 4;
	const struct icmphdr *icmp = (const void *)l4;
	const uint16_t *port = (const void *)l4;
	char from[INET_ADDRSTRLEN], to[INET_ADDRSTRLEN];
	size_t used;

	inet_ntop(AF_INET, &ip->saddr, from, sizeof(from));
	inet_ntop(AF_INET, &ip->daddr, to, sizeof(to));
	if (ip->protocol != IPPROTO_ICMP)
		return (size_t)snprintf(out, room, "%s %s:%u > %s:%u", proto_name(ip->protocol),
					from, ntohs(port[0]), to, ntohs(port[1]));
	if (icmp->type == ICMP_ECHO || icmp->type == ICMP_ECHOREPLY)
		return (size_t)snprintf(out, room, "icmp %s > %s %u", from, to,
					ntohs(icmp->un.echo.id));
	used = (size_t)snprintf(out, room, "icmp-error %s > %s %u/%u [", from, to, icmp->type,
				icmp->code);
	if (available > ip->ihl * 4u + sizeof(*icmp) + sizeof(*ip) + 8)
		used += tell(out + used, room - used, (const void *)(icmp + 1), 0);
	return used + (size_t)snprintf(out + used, room - used, "]");
}

const char *frame_flow(const struct frame *frame)
{
	static char text[256];

	if (frame->length < ETH_HLEN + sizeof(struct iphdr))
		return "nothing";
	tell(text, sizeof(text), (const void *)(frame->byte + ETH_HLEN),
	     frame->length - ETH_HLEN + 1);
	return text;
}

static bool l4_right(const struct iphdr *ip, size_t available, const char **what)
{
	const uint8_t *l4 = (const uint8_t *)ip + ip->ihl * 4;
	size_t length = ntohs(ip->tot_len) - ip->ihl * 4u;

	if (ntohs(ip->frag_off) & 0x3fff || ip->protocol == IPPROTO_ESP)
		return true; /* a fragment's checksum is its datagram's */
	if (length > available)
		return true; /* quoted in part */
	if (ip->protocol == IPPROTO_UDP && ((const struct udphdr *)l4)->check == 0)
		return true;
	*what = "layer 4 checksum";
	if (ip->protocol == IPPROTO_SCTP && ((const struct sctp_common *)l4)->checksum != 0)
		return ((const struct sctp_common *)l4)->checksum ==
		       sctp_checksum((const void *)l4, length);
	if (ip->protocol == IPPROTO_SCTP)
		return true; /* the device fills it in */
	return l4_checksum(ip, l4, length) == 0;
}

bool frame_checksums_right(const struct frame *frame, const char **what)
{
	const struct iphdr *ip = (const void *)(frame->byte + ETH_HLEN), *inner;
	size_t available = frame->length - ETH_HLEN - ip->ihl * 4u;
	const struct icmphdr *icmp = (const void *)((const uint8_t *)ip + ip->ihl * 4);

	*what = "IP checksum";
	if (fold(sum_words(ip, ip->ihl * 4u, 0)) != 0)
		return false;
	if (!l4_right(ip, available, what))
		return false;
	if (ip->protocol != IPPROTO_ICMP || (icmp->type != 3 && icmp->type != 11))
		return true;
	inner = (const void *)(icmp + 1);
	*what = "IP checksum of the quoted packet";
	if (fold(sum_words(inner, inner->ihl * 4u, 0)) != 0)
		return false;
	*what = "layer 4 checksum of the quoted packet";
	return l4_right(inner, available - sizeof(*icmp) - inner->ihl * 4u, what);
}

uint8_t frame_ttl(const struct frame *frame)
{
	return ((const struct iphdr *)(const void *)(frame->byte + ETH_HLEN))->ttl;
}

const char *frame_mac_dest(const struct frame *frame)
{
	static char text[MK_MAC_STRLEN];
	struct mk_mac mac;

	memcpy(mac.byte, frame->byte, sizeof(mac.byte));
	return mk_mac_format(&mac, text);
}
