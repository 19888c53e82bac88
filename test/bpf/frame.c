// SPDX-License-Identifier: Apache-2.0
#include "bpf/frame.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/family.h"
#include "bpf/frame_internal.h"
#include "monokube/clusters.h"
#include "unit/mac.h"

static void parse_flow(const char *text, struct frame_flow *flow)
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

/* A MAC address has the dotted quad in both families. */
static void fill_ethernet(struct frame *frame, const struct frame_flow *flow,
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
	eth->h_proto = htons(family_is6() ? ETH_P_IPV6 : ETH_P_IP);
}

struct frame frame_make(const char *text, const struct frame_options *options)
{
	static const struct frame_options ordinary;
	const struct frame_options *o = options ? options : &ordinary;
	struct frame frame = { .id = o->id };
	uint8_t *header = frame.byte + ETH_HLEN, *l4, proto;
	size_t header_bytes, l4_bytes, payload_bytes;
	struct frame_flow flow;
	struct frame_ip ip;

	parse_flow(text, &flow);
	proto = frame_l4_proto(flow.proto);
	fill_ethernet(&frame, &flow, o);
	header_bytes = frame_ip_make(header, proto, &flow, o);
	l4 = header + header_bytes;
	l4_bytes = frame_l4_make(l4, proto, &flow, o);
	if (o->fragment & 0x1fff) { /* only payload */
		memset(l4, 'x', l4_bytes);
		l4_bytes = 0;
	}
	payload_bytes =
		o->packet_bytes ? o->packet_bytes - header_bytes - l4_bytes : o->payload_bytes;
	for (size_t i = 0; i < payload_bytes; i++)
		l4[l4_bytes + i] = (uint8_t)('a' + i % 26);
	l4_bytes += payload_bytes;
	frame_ip_finish(header, header_bytes, l4_bytes);
	frame.length = ETH_HLEN + header_bytes + l4_bytes;
	if (frame_ip_read(header, header_bytes + l4_bytes, &ip) && ip.fragment_at == 0)
		frame_l4_finish(l4, &ip, o);
	return frame;
}

/* Read the headers of a whole frame. */
static bool read_frame(const struct frame *frame, struct frame_ip *ip)
{
	return frame->length > ETH_HLEN &&
	       frame_ip_read(frame->byte + ETH_HLEN, frame->length - ETH_HLEN, ip);
}

struct frame frame_probe(const char *flow, uint32_t magic, const struct frame_options *options)
{
	const struct mk_probe_packet probe = { .magic = htonl(magic), .version = MK_PROBE_VERSION };
	struct frame frame = frame_make(flow, options);
	struct frame_ip ip;
	struct udphdr *udp;

	if (!read_frame(&frame, &ip) || ip.l4_bytes < sizeof(*udp) + sizeof(probe))
		abort();
	udp = (struct udphdr *)(frame.byte + ETH_HLEN + ip.header_bytes);
	memcpy(udp + 1, &probe, sizeof(probe));
	udp->check = 0;
	frame_l4_finish((uint8_t *)udp, &ip, options);
	return frame;
}

const char *frame_flow(const struct frame *frame)
{
	static char text[256];
	struct frame_ip ip;

	if (!read_frame(frame, &ip))
		return "nothing";
	frame_l4_tell(text, sizeof(text), &ip, frame->length - ETH_HLEN - ip.header_bytes);
	return text;
}

bool frame_checksums_right(const struct frame *frame, const char **what)
{
	struct frame_ip ip, inner;
	const uint8_t *quoted;
	size_t available;

	*what = "IP header";
	if (!read_frame(frame, &ip))
		return false;
	available = frame->length - ETH_HLEN - ip.header_bytes;
	*what = "IP checksum";
	if (!frame_ip_checksum_right(&ip))
		return false;
	*what = "layer 4 checksum";
	if (!frame_l4_right(&ip, available))
		return false;
	quoted = frame_l4_quoted(&ip);
	if (!quoted || available < 8 || !frame_ip_read(quoted, available - 8, &inner))
		return true;
	*what = "IP checksum of the quoted packet";
	if (!frame_ip_checksum_right(&inner))
		return false;
	*what = "layer 4 checksum of the quoted packet";
	return frame_l4_right(&inner, available - 8 - inner.header_bytes);
}

void frame_fix_ip_checksum(struct frame *frame)
{
	struct frame_ip ip;

	if (read_frame(frame, &ip))
		frame_ip_finish(frame->byte + ETH_HLEN, ip.header_bytes, ip.l4_bytes);
}

void frame_fix_icmp_checksum(struct frame *frame)
{
	static const struct frame_options ordinary;
	size_t l4 = frame_l4(frame);
	struct frame_ip ip;

	frame->byte[l4 + 2] = frame->byte[l4 + 3] = 0;
	if (read_frame(frame, &ip))
		frame_l4_finish(frame->byte + l4, &ip, &ordinary);
}

void frame_say_length(struct frame *frame, size_t bytes)
{
	size_t header_bytes = frame_l4(frame) - ETH_HLEN;

	frame_ip_finish(frame->byte + ETH_HLEN, header_bytes, bytes - header_bytes);
}

void frame_cut_to(struct frame *frame, size_t l4_bytes)
{
	frame->length = frame_l4(frame) + l4_bytes;
	frame_say_length(frame, frame->length - ETH_HLEN);
}

/* ---- fragments ---------------------------------------------------------------------------------- */

struct frame frame_fragment(const struct frame *whole, size_t from, size_t to)
{
	size_t l4 = frame_l4(whole), header_bytes;
	struct frame part = *whole;

	header_bytes = frame_ip_cut(part.byte + ETH_HLEN, from, l4 + to < whole->length, whole->id);
	memcpy(part.byte + ETH_HLEN + header_bytes, whole->byte + l4 + from, to - from);
	part.length = ETH_HLEN + header_bytes + to - from;
	frame_ip_finish(part.byte + ETH_HLEN, header_bytes, to - from);
	return part;
}

bool frame_is_fragment(const struct frame *frame)
{
	struct frame_ip ip;

	return read_frame(frame, &ip) && ip.fragment;
}

size_t frame_fragment_at(const struct frame *frame)
{
	struct frame_ip ip;

	return read_frame(frame, &ip) ? ip.fragment_at : 0;
}

void frame_join(struct frame *whole, const struct frame *part)
{
	size_t l4 = ETH_HLEN + frame_ip_bytes(), end;
	struct frame_ip ip;

	if (!read_frame(part, &ip))
		return;
	if (ip.fragment_at == 0) {
		struct frame first = *part;

		frame_ip_join(first.byte + ETH_HLEN);
		memcpy(whole->byte, first.byte, l4);
	}
	memcpy(whole->byte + l4 + ip.fragment_at, ip.header + ip.header_bytes,
	       part->length - ETH_HLEN - ip.header_bytes);
	end = l4 + ip.fragment_at + part->length - ETH_HLEN - ip.header_bytes;
	if (end > whole->length)
		whole->length = end;
}

/* ---- shown -------------------------------------------------------------------------------------- */

uint8_t frame_ttl(const struct frame *frame)
{
	struct frame_ip ip;

	return read_frame(frame, &ip) ? ip.ttl : 0;
}

size_t frame_ip_bytes(void)
{
	return family_is6() ? 40 : 20;
}

size_t frame_l4(const struct frame *frame)
{
	struct frame_ip ip;

	return read_frame(frame, &ip) ? ETH_HLEN + ip.header_bytes : 0;
}

uint32_t frame_number(const struct frame *frame, size_t at, size_t bytes)
{
	uint32_t number = 0;

	for (size_t i = 0; i < bytes; i++)
		number = number << 8 | frame->byte[at + i];
	return number;
}

const char *frame_mac_dest(const struct frame *frame)
{
	static char text[MK_MAC_STRLEN];
	struct mk_mac mac;

	memcpy(mac.byte, frame->byte, sizeof(mac.byte));
	return mk_mac_format(&mac, text);
}
