// SPDX-License-Identifier: Apache-2.0
#include "policy/packet.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <netinet/icmp6.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <string.h>

#define IP_AT	     sizeof(struct ethhdr)
#define PAYLOAD	     32 /* bytes of a datagram */
#define MADE_UP	     0x1234 /* a checksum */
#define SCTP_BYTES   12 /* the common header */
#define TCP_FLAGS_AT 13

struct mk_mac mac_of(const struct mk_ip *ip)
{
	struct mk_mac mac = { { 0x02, 0x4d } };

	memcpy(mac.byte + 2, ip->family == AF_INET ? (const uint8_t *)&ip->v4 : ip->v6.s6_addr + 12,
	       4);
	/* fd18::1, fd44::1:4 and fd19::11 differ only before their last 4 bytes */
	if (ip->family == AF_INET6)
		mac.byte[1] = ip->v6.s6_addr[1];
	return mac;
}

static size_t ip_bytes(const struct packet *packet)
{
	return packet->family == AF_INET ? sizeof(struct iphdr) : sizeof(struct ip6_hdr);
}

static void *l4_of(struct packet *packet)
{
	return packet->bytes + IP_AT + ip_bytes(packet);
}

static uint8_t proto_number(sa_family_t family, uint8_t proto)
{
	return family == AF_INET6 && proto == IPPROTO_ICMP ? IPPROTO_ICMPV6 : proto;
}

static uint16_t ip_checksum(const struct iphdr *ip)
{
	const uint16_t *words = (const void *)ip;
	uint32_t sum = 0;

	for (size_t i = 0; i < sizeof(*ip) / 2; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~(sum + (sum >> 16));
}

/* Write the headers in front of @l4_bytes. */
static void put_ip(struct packet *packet, const struct mk_ip *from, const struct mk_ip *to,
		   uint8_t proto, size_t l4_bytes)
{
	struct ethhdr *eth = (void *)packet->bytes;
	struct iphdr *ip = (void *)(packet->bytes + IP_AT);
	struct ip6_hdr *ip6 = (void *)ip;

	packet->family = from->family;
	packet->length = IP_AT + ip_bytes(packet) + l4_bytes;
	eth->h_proto = htons(from->family == AF_INET ? ETH_P_IP : ETH_P_IPV6);
	if (from->family == AF_INET) {
		*ip = (struct iphdr){ .version = 4,
				      .ihl = 5,
				      .ttl = 64,
				      .protocol = proto,
				      .tot_len = htons((uint16_t)(sizeof(*ip) + l4_bytes)),
				      .saddr = from->v4.s_addr,
				      .daddr = to->v4.s_addr };
		ip->check = ip_checksum(ip);
		return;
	}
	*ip6 = (struct ip6_hdr){ .ip6_src = from->v6, .ip6_dst = to->v6 };
	ip6->ip6_vfc = 6 << 4;
	ip6->ip6_hlim = 64;
	ip6->ip6_nxt = proto_number(AF_INET6, proto);
	ip6->ip6_plen = htons((uint16_t)l4_bytes);
}

static size_t put_tcp(void *l4, const struct packet_flow *flow, enum packet_kind kind)
{
	struct tcphdr *tcp = l4;

	*tcp = (struct tcphdr){ .source = htons(flow->from_port),
				.dest = htons(flow->to_port),
				.doff = sizeof(*tcp) / 4,
				.seq = htonl(1000),
				.window = htons(1000),
				.check = MADE_UP };
	tcp->syn = kind == PACKET_OPENS;
	tcp->ack = kind == PACKET_MORE;
	tcp->ack_seq = tcp->ack ? htonl(1001) : 0;
	return sizeof(*tcp);
}

static size_t put_udp(void *l4, const struct packet_flow *flow)
{
	struct udphdr *udp = l4;

	*udp = (struct udphdr){ .source = htons(flow->from_port),
				.dest = htons(flow->to_port),
				.len = htons(sizeof(*udp) + PAYLOAD),
				.check = MADE_UP };
	return sizeof(*udp) + PAYLOAD;
}

static size_t put_sctp(void *l4, const struct packet_flow *flow, enum packet_kind kind)
{
	const uint16_t ports[] = { htons(flow->from_port), htons(flow->to_port) };
	const uint8_t init[] = { 1, 0, 0, 20 }, data[] = { 0, 3, 0, 20 };

	memcpy(l4, ports, sizeof(ports));
	memset((char *)l4 + sizeof(ports), 1, SCTP_BYTES - sizeof(ports) + 20);
	if (kind == PACKET_OPENS) /* an INIT has no verification tag */
		memset((char *)l4 + sizeof(ports), 0, 4);
	memcpy((char *)l4 + SCTP_BYTES, kind == PACKET_OPENS ? init : data, sizeof(init));
	return SCTP_BYTES + 20;
}

static size_t put_ping(void *l4, const struct packet_flow *flow)
{
	struct icmphdr *icmp = l4;

	*icmp = (struct icmphdr){ .type = flow->from.family == AF_INET ? ICMP_ECHO
								       : ICMP6_ECHO_REQUEST,
				  .checksum = MADE_UP };
	icmp->un.echo.id = htons(flow->from_port);
	return sizeof(*icmp);
}

struct packet packet_make(const struct packet_flow *flow, enum packet_kind kind)
{
	struct packet packet = { .family = flow->from.family };
	void *l4 = l4_of(&packet);
	size_t bytes = flow->proto == IPPROTO_TCP    ? put_tcp(l4, flow, kind)
		       : flow->proto == IPPROTO_UDP  ? put_udp(l4, flow)
		       : flow->proto == IPPROTO_SCTP ? put_sctp(l4, flow, kind)
						     : put_ping(l4, flow);

	put_ip(&packet, &flow->from, &flow->to, flow->proto, bytes);
	return packet;
}

static struct mk_ip address_at(const struct packet *packet, size_t index)
{
	const struct iphdr *ip = (const void *)(packet->bytes + IP_AT);
	const struct ip6_hdr *ip6 = (const void *)ip;
	struct mk_ip address = { .family = packet->family };

	if (packet->family == AF_INET)
		address.v4.s_addr = index ? ip->daddr : ip->saddr;
	else
		address.v6 = index ? ip6->ip6_dst : ip6->ip6_src;
	return address;
}

struct mk_ip packet_source(const struct packet *packet)
{
	return address_at(packet, 0);
}

struct mk_ip packet_destination(const struct packet *packet)
{
	return address_at(packet, 1);
}

static uint8_t proto_of(const struct packet *packet)
{
	const struct iphdr *ip = (const void *)(packet->bytes + IP_AT);

	return packet->family == AF_INET ? ip->protocol : ((const struct ip6_hdr *)ip)->ip6_nxt;
}

static void answer_l4(uint8_t *l4, uint8_t proto)
{
	uint8_t source[2];

	if (proto == IPPROTO_ICMP || proto == IPPROTO_ICMPV6) {
		l4[0] = proto == IPPROTO_ICMP ? ICMP_ECHOREPLY : ICMP6_ECHO_REPLY;
		return;
	}
	memcpy(source, l4, 2);
	memcpy(l4, l4 + 2, 2);
	memcpy(l4 + 2, source, 2);
	if (proto == IPPROTO_TCP)
		l4[TCP_FLAGS_AT] |= TH_ACK;
	if (proto == IPPROTO_SCTP && l4[SCTP_BYTES] == 1)
		l4[SCTP_BYTES] = 2; /* INIT ACK */
}

struct packet packet_answer(const struct packet *packet)
{
	struct packet answer = *packet;
	const struct mk_ip from = address_at(packet, 1), to = address_at(packet, 0);

	put_ip(&answer, &from, &to, proto_of(packet), packet->length - IP_AT - ip_bytes(packet));
	answer_l4(l4_of(&answer), proto_of(packet));
	return answer;
}

struct packet packet_error(const struct packet *packet, const struct mk_ip *router)
{
	const struct mk_ip to = packet_source(packet);
	struct packet error = { .family = packet->family };
	struct icmphdr *icmp = l4_of(&error);
	size_t quoted = packet->length - IP_AT;

	*icmp = (struct icmphdr){
		.type = packet->family == AF_INET ? ICMP_DEST_UNREACH : ICMP6_DST_UNREACH,
		.code = packet->family == AF_INET ? ICMP_HOST_UNREACH : ICMP6_DST_UNREACH_ADDR,
		.checksum = MADE_UP
	};
	memcpy(icmp + 1, packet->bytes + IP_AT, quoted);
	put_ip(&error, router, &to, IPPROTO_ICMP, sizeof(*icmp) + quoted);
	return error;
}

/* IPv6: a header between IP and layer 4. */
static void mark_fragment(struct packet *part, bool first, uint16_t id, uint8_t proto)
{
	struct iphdr *ip = (void *)(part->bytes + IP_AT);
	struct ip6_frag *header = l4_of(part);

	if (part->family == AF_INET) {
		ip->id = htons(id);
		ip->frag_off = htons(first ? 0x2000 : 24 / 8);
		ip->check = 0;
		ip->check = ip_checksum(ip);
		return;
	}
	*header = (struct ip6_frag){ .ip6f_nxt = proto, .ip6f_ident = htonl(id) };
	header->ip6f_offlg = htons(first ? 1 : 24);
	((struct ip6_hdr *)ip)->ip6_nxt = IPPROTO_FRAGMENT;
}

struct packet packet_fragment(const struct packet *packet, bool first, uint16_t id)
{
	const struct mk_ip from = address_at(packet, 0), to = address_at(packet, 1);
	const size_t header = packet->family == AF_INET ? 0 : sizeof(struct ip6_frag);
	const size_t bytes = first ? 24 : sizeof(struct udphdr) + PAYLOAD - 24;
	const uint8_t *l4 = packet->bytes + IP_AT + ip_bytes(packet);
	struct packet part = { .family = packet->family };

	memcpy((uint8_t *)l4_of(&part) + header, l4 + (first ? 0 : 24), bytes);
	put_ip(&part, &from, &to, proto_of(packet), header + bytes);
	mark_fragment(&part, first, id, proto_of(packet));
	return part;
}

void packet_set_macs(struct packet *packet, const uint8_t *source, const uint8_t *destination)
{
	struct ethhdr *eth = (void *)packet->bytes;

	memcpy(eth->h_source, source, sizeof(eth->h_source));
	memcpy(eth->h_dest, destination, sizeof(eth->h_dest));
}
