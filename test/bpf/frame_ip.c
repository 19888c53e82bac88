// SPDX-License-Identifier: Apache-2.0
/* test/bpf/frame_ip.c - the IP headers of frames, of both families. */
#include <arpa/inet.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <string.h>

#include "bpf/family.h"
#include "bpf/frame_internal.h"

#define FRAGMENT_ID_HIGH 0x5eed0000u /* IPv6's have 32 bits */

struct fragment_header {
	uint8_t next, reserved;
	uint16_t offset; /* in bytes, and more: 1 */
	uint32_t id;
};

uint32_t frame_sum(const void *data, size_t length, uint32_t sum)
{
	const uint8_t *byte = data;

	for (size_t i = 0; i + 1 < length; i += 2)
		sum += (uint32_t)byte[i] << 8 | byte[i + 1];
	if (length & 1)
		sum += (uint32_t)byte[length - 1] << 8;
	return sum;
}

uint16_t frame_fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* ---- made --------------------------------------------------------------------------------------- */

static size_t make4(uint8_t *header, uint8_t proto, const struct frame_flow *flow,
		    const struct frame_options *o)
{
	const struct mk_ip from = family_ip(flow->from), to = family_ip(flow->to);
	struct iphdr *ip = (void *)header;
	size_t bytes = sizeof(*ip) + o->ip_option_words * 4u;

	ip->version = 4;
	ip->ihl = (unsigned)(bytes / 4) & 0xf;
	memset(ip + 1, 1, o->ip_option_words * 4u);
	ip->id = htons(o->id);
	ip->frag_off = htons(o->fragment);
	ip->ttl = o->ttl ? o->ttl : 64;
	ip->protocol = proto;
	ip->saddr = from.v4.s_addr;
	ip->daddr = to.v4.s_addr;
	return bytes;
}

/* Write a hop-by-hop header of at least @words words of 4 bytes: one PadN option after the other. */
static size_t make_options(uint8_t *at, uint8_t next, unsigned words)
{
	size_t bytes = (words * 4u + 7) / 8 * 8;

	if (words == 0)
		return 0;
	memset(at, 0, bytes);
	at[0] = next;
	at[1] = (uint8_t)(bytes / 8 - 1);
	at[2] = 1; /* PadN */
	at[3] = (uint8_t)(bytes - 4);
	return bytes;
}

static size_t make_fragment(uint8_t *at, uint8_t next, const struct frame_options *o)
{
	struct fragment_header *fragment = (void *)at;

	if (!(o->fragment & 0x3fff))
		return 0;
	fragment->next = next;
	fragment->reserved = 0;
	fragment->offset = htons((uint16_t)(o->fragment << 3 | (o->fragment & MF ? 1 : 0)));
	fragment->id = htonl(FRAGMENT_ID_HIGH | o->id);
	return sizeof(*fragment);
}

static size_t make6(uint8_t *header, uint8_t proto, const struct frame_flow *flow,
		    const struct frame_options *o)
{
	const struct mk_ip from = family_ip(flow->from), to = family_ip(flow->to);
	uint8_t l4 = proto == IPPROTO_ICMP ? IPPROTO_ICMPV6 : proto;
	uint8_t behind = o->fragment & 0x3fff ? IPPROTO_FRAGMENT : l4;
	struct ipv6hdr *ip = (void *)header;
	size_t bytes = sizeof(*ip);

	ip->version = 6;
	ip->nexthdr = o->ip_option_words ? IPPROTO_HOPOPTS : behind;
	ip->hop_limit = o->ttl ? o->ttl : 64;
	memcpy(&ip->saddr, &from.v6, sizeof(ip->saddr));
	memcpy(&ip->daddr, &to.v6, sizeof(ip->daddr));
	bytes += make_options(header + bytes, behind, o->ip_option_words);
	return bytes + make_fragment(header + bytes, l4, o);
}

size_t frame_ip_make(uint8_t *header, uint8_t proto, const struct frame_flow *flow,
		     const struct frame_options *o)
{
	return family_is6() ? make6(header, proto, flow, o) : make4(header, proto, flow, o);
}

static void finish4(struct iphdr *ip)
{
	ip->check = 0;
	ip->check = htons(frame_fold(frame_sum(ip, ip->ihl * 4u, 0)));
}

void frame_ip_finish(uint8_t *header, size_t header_bytes, size_t l4_bytes)
{
	struct iphdr *ip = (void *)header;
	struct ipv6hdr *ip6 = (void *)header;

	if (ip->version == 6) {
		ip6->payload_len = htons((uint16_t)(header_bytes - sizeof(*ip6) + l4_bytes));
		return;
	}
	ip->tot_len = htons((uint16_t)(header_bytes + l4_bytes));
	finish4(ip);
}

/* ---- read --------------------------------------------------------------------------------------- */

static bool read4(const uint8_t *header, size_t available, struct frame_ip *out)
{
	const struct iphdr *ip = (const void *)header;

	if (available < sizeof(*ip) || available < ip->ihl * 4u)
		return false;
	*out = (struct frame_ip){ .header = header,
				  .from = { .family = AF_INET, .v4.s_addr = ip->saddr },
				  .to = { .family = AF_INET, .v4.s_addr = ip->daddr },
				  .proto = ip->protocol,
				  .ttl = ip->ttl,
				  .fragment = ntohs(ip->frag_off) & 0x3fff,
				  .fragment_at = (ntohs(ip->frag_off) & 0x1fffu) * 8,
				  .header_bytes = ip->ihl * 4u };
	out->l4_bytes = ntohs(ip->tot_len) - out->header_bytes;
	return true;
}

/* Return the bytes of the extension header @type at @at, 0: it is none. */
static size_t extension_bytes(uint8_t type, const uint8_t *at)
{
	switch (type) {
	case IPPROTO_HOPOPTS:
	case IPPROTO_ROUTING:
	case IPPROTO_DSTOPTS:
		return (at[1] + 1u) * 8;
	case IPPROTO_AH:
		return (at[1] + 2u) * 4;
	case IPPROTO_FRAGMENT:
		return sizeof(struct fragment_header);
	default:
		return 0;
	}
}

/* Walk all extension headers. A fragment with an offset has none of the later ones. */
static bool walk6(const uint8_t *header, size_t available, struct frame_ip *out)
{
	uint8_t next = out->proto;
	size_t bytes;

	while (available >= out->header_bytes + 8 && !out->fragment_at &&
	       (bytes = extension_bytes(next, header + out->header_bytes)) > 0) {
		const struct fragment_header *at = (const void *)(header + out->header_bytes);

		if (next == IPPROTO_FRAGMENT) {
			out->fragment = at->offset != 0;
			out->fragment_at = ntohs(at->offset) & 0xfff8u;
		}
		next = at->next;
		out->header_bytes += bytes;
	}
	out->proto = next == IPPROTO_ICMPV6 ? IPPROTO_ICMP : next;
	return available >= out->header_bytes;
}

static bool read6(const uint8_t *header, size_t available, struct frame_ip *out)
{
	const struct ipv6hdr *ip = (const void *)header;
	size_t behind;

	if (available < sizeof(*ip))
		return false;
	*out = (struct frame_ip){ .header = header,
				  .from.family = AF_INET6,
				  .to.family = AF_INET6,
				  .proto = ip->nexthdr,
				  .ttl = ip->hop_limit,
				  .header_bytes = sizeof(*ip) };
	memcpy(&out->from.v6, &ip->saddr, sizeof(ip->saddr));
	memcpy(&out->to.v6, &ip->daddr, sizeof(ip->daddr));
	if (!walk6(header, available, out))
		return false;
	behind = sizeof(*ip) + ntohs(ip->payload_len);
	out->l4_bytes = behind - out->header_bytes;
	return true;
}

bool frame_ip_read(const uint8_t *header, size_t available, struct frame_ip *ip)
{
	if (available > 0 && header[0] >> 4 == 6)
		return read6(header, available, ip);
	return read4(header, available, ip);
}

bool frame_ip_checksum_right(const struct frame_ip *ip)
{
	return ip->from.family == AF_INET6 ||
	       frame_fold(frame_sum(ip->header, ip->header_bytes, 0)) == 0;
}

uint32_t frame_ip_pseudo_sum(const struct frame_ip *ip)
{
	uint32_t sum;

	if (ip->from.family == AF_INET6) {
		sum = frame_sum(&ip->from.v6, sizeof(ip->from.v6), 0);
		sum = frame_sum(&ip->to.v6, sizeof(ip->to.v6), sum);
		sum += ip->proto == IPPROTO_ICMP ? IPPROTO_ICMPV6 : ip->proto;
	} else if (ip->proto == IPPROTO_ICMP) {
		return 0;
	} else {
		sum = frame_sum(&ip->from.v4, sizeof(ip->from.v4), 0);
		sum = frame_sum(&ip->to.v4, sizeof(ip->to.v4), sum) + ip->proto;
	}
	return sum + (uint32_t)ip->l4_bytes;
}

/* ---- fragments ---------------------------------------------------------------------------------- */

static void cut4(uint8_t *header, size_t from, bool more)
{
	((struct iphdr *)(void *)header)->frag_off = htons((uint16_t)(from / 8 | (more ? MF : 0)));
}

static void cut6(uint8_t *header, size_t from, bool more, uint16_t id)
{
	const struct frame_options o = { .fragment = (uint16_t)(from / 8 | (more ? MF : 0)),
					 .id = id };
	struct ipv6hdr *ip = (void *)header;

	(void)make_fragment(header + sizeof(*ip), ip->nexthdr, &o);
	ip->nexthdr = IPPROTO_FRAGMENT;
}

size_t frame_ip_cut(uint8_t *header, size_t from, bool more, uint16_t id)
{
	if (!family_is6()) {
		cut4(header, from, more);
		return sizeof(struct iphdr);
	}
	cut6(header, from, more, id);
	return sizeof(struct ipv6hdr) + sizeof(struct fragment_header);
}

size_t frame_ip_join(uint8_t *header)
{
	struct ipv6hdr *ip = (void *)header;

	if (!family_is6()) {
		cut4(header, 0, false);
		return sizeof(struct iphdr);
	}
	ip->nexthdr = header[sizeof(*ip)];
	return sizeof(*ip);
}
