// SPDX-License-Identifier: Apache-2.0
#include "bpf/family.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define GATEWAY_BYTE   254 /* of a /24 */
#define GATEWAY_NUMBER 0x3fe /* of 1,024 slots */

static sa_family_t chosen; /* AF_UNSPEC: as the environment says */

sa_family_t family(void)
{
	const char *text = getenv("MK_TEST_FAMILY");

	if (chosen == AF_UNSPEC)
		chosen =
			text && (strcmp(text, "6") == 0 || family_is_behind()) ? AF_INET6 : AF_INET;
	return chosen;
}

bool family_is_behind(void)
{
	const char *text = getenv("MK_TEST_FAMILY");

	return text && strcmp(text, "46") == 0;
}

void family_use(sa_family_t other)
{
	chosen = other;
}

void family_use_ipv6(void)
{
	chosen = AF_INET6;
}

void family_use_again(void)
{
	chosen = AF_UNSPEC;
}

/* ---- addresses ---------------------------------------------------------------------------------- */

static void put_group(struct mk_ip *ip, int group, unsigned value)
{
	ip->v6.s6_addr[2 * group] = (uint8_t)(value >> 8);
	ip->v6.s6_addr[2 * group + 1] = (uint8_t)value;
}

static unsigned group_of(const struct mk_ip *ip, int group)
{
	return (unsigned)ip->v6.s6_addr[2 * group] << 8 | ip->v6.s6_addr[2 * group + 1];
}

/* @first:a:b:c::d */
static struct mk_ip by_groups(unsigned first, const uint8_t *byte)
{
	struct mk_ip ip = { .family = AF_INET6 };
	bool gateway = byte[0] == 10 && byte[1] == 244 && byte[3] == GATEWAY_BYTE;

	put_group(&ip, 0, first);
	for (int i = 0; i < 3; i++)
		put_group(&ip, i + 1, byte[i]);
	put_group(&ip, 7, gateway ? GATEWAY_NUMBER : byte[3]);
	return ip;
}

static struct mk_ip ip6_of(const uint8_t *byte)
{
	static const uint8_t broadcast[4] = { 255, 255, 255, 255 };
	struct mk_ip ip = { .family = AF_INET6 };

	if (byte[0] == 127) {
		ip.v6 = in6addr_loopback;
	} else if (memcmp(byte, broadcast, sizeof(broadcast)) == 0) {
		put_group(&ip, 0, 0xff02);
		put_group(&ip, 7, 1);
	} else if (byte[0] == 0) {
		memcpy(ip.v6.s6_addr + 12, byte, 4);
	} else if (byte[0] == 169 && byte[1] == 254) {
		put_group(&ip, 0, 0xfe80);
		put_group(&ip, 6, byte[2]);
		put_group(&ip, 7, byte[3]);
	} else {
		ip = by_groups((byte[0] & 0xf0) == 224 ? 0xff0e : 0xfd00, byte);
	}
	return ip;
}

static void not_an_address(const char *text)
{
	fprintf(stderr, "not an address: '%s'\n", text);
	abort();
}

struct mk_ip family_ip(const char *text)
{
	struct mk_ip ip;

	if (mk_ip_parse(text, &ip) < 0)
		not_an_address(text);
	return family_is6() && ip.family == AF_INET ? ip6_of((const uint8_t *)&ip.v4) : ip;
}

socklen_t family_sockaddr(const char *text, struct sockaddr_storage *at)
{
	struct sockaddr_in6 *six = (void *)at;
	struct sockaddr_in *four = (void *)at;
	const char *colon = strrchr(text, ':');
	char quad[INET_ADDRSTRLEN];
	struct mk_ip ip;

	if (!colon)
		not_an_address(text);
	snprintf(quad, sizeof(quad), "%.*s", (int)(colon - text), text);
	ip = family_ip(quad);
	memset(at, 0, sizeof(*at));
	at->ss_family = ip.family;
	six->sin6_port = htons((uint16_t)atoi(colon + 1)); /* it is at the same place as sin_port */
	if (family_is6())
		six->sin6_addr = ip.v6;
	else
		four->sin_addr = ip.v4;
	return family_is6() ? sizeof(*six) : sizeof(*four);
}

unsigned family_bits(unsigned bits)
{
	unsigned bytes = bits / 8, rest = bits % 8;

	if (!family_is6() || bits == 0)
		return bits;
	if (bits > 32)
		return bits + 96; /* as wrong as before */
	if (bytes == 4)
		return 128;
	if (bytes == 3)
		return rest ? 120 + rest : 64;
	return 16 * (bytes + 1) + (rest ? 8 + rest : 0);
}

struct mk_cidr family_cidr(const char *net, unsigned bits)
{
	struct mk_cidr cidr = { .ip = family_ip(net), .prefix_bits = (uint8_t)family_bits(bits) };
	struct mk_ip quad;

	/* 0.0.0.0/1 contains addresses of hosts; family_ip() has none for its first address */
	if (cidr.ip.family == AF_INET6 && bits > 0 && bits < 32 && mk_ip_parse(net, &quad) == 0 &&
	    quad.family == AF_INET && *(const uint8_t *)&quad.v4 == 0)
		cidr.ip = by_groups(0xfd00, (const uint8_t *)&quad.v4);
	return cidr;
}

struct mk_addr family_mask(unsigned bits)
{
	struct mk_ip ip = { .family = family() };
	uint8_t *byte = family_is6() ? ip.v6.s6_addr : (uint8_t *)&ip.v4;

	for (unsigned i = 0; i < family_bits(bits); i++)
		byte[i / 8] |= (uint8_t)(0x80 >> i % 8);
	return mk_ip_to_addr(&ip);
}

/* Find the dotted quad that an IPv6 address may be made of. */
static void quad_of(const struct mk_ip *ip, uint8_t *byte)
{
	unsigned first = group_of(ip, 0), last = group_of(ip, 7);

	if ((first == 0xfd00 || first == 0xff0e) && last == GATEWAY_NUMBER)
		last = GATEWAY_BYTE;
	byte[0] = (uint8_t)group_of(ip, 1);
	byte[1] = (uint8_t)group_of(ip, 2);
	byte[2] = (uint8_t)group_of(ip, 3);
	byte[3] = (uint8_t)last;
	if (IN6_IS_ADDR_LOOPBACK(&ip->v6))
		memcpy(byte, (const uint8_t[]){ 127, 0, 0, 1 }, 4);
	else if (first == 0xff02)
		memset(byte, 255, 4);
	else if (first == 0)
		memcpy(byte, ip->v6.s6_addr + 12, 4);
	else if (first == 0xfe80)
		memcpy(byte, (const uint8_t[]){ 169, 254, ip->v6.s6_addr[13], byte[3] }, 4);
}

const char *family_text(const struct mk_ip *ip, char *buf)
{
	uint8_t byte[4];
	struct mk_ip again;

	if (ip->family != AF_INET6)
		return mk_ip_format(ip, buf);
	quad_of(ip, byte);
	again = ip6_of(byte);
	return mk_ip_equal(&again, ip) ? inet_ntop(AF_INET, byte, buf, MK_IP_STRLEN)
				       : mk_ip_format(ip, buf);
}

/* ---- objects of the cluster --------------------------------------------------------------------- */

/* Map the address or prefix at the beginning of @text; leading zeros are allowed. Returns how much
 * of @text that was, 0: it is none. */
static size_t map_quad(const char *text, char *out, size_t size)
{
	unsigned a, b, c, d, bits = 32;
	char quad[INET_ADDRSTRLEN], buf[MK_CIDR_STRLEN];
	int used = 0, more = 0;
	struct mk_cidr cidr;

	if (*text == ' ' || /* sscanf() would skip it */
	    sscanf(text, "%3u.%3u.%3u.%3u%n", &a, &b, &c, &d, &used) != 4 || a > 255 || b > 255 ||
	    c > 255 || d > 255 || text[used] == '.' || (text[used] >= '0' && text[used] <= '9'))
		return 0;
	snprintf(quad, sizeof(quad), "%u.%u.%u.%u", a & 255, b & 255, c & 255, d & 255);
	if (sscanf(text + used, "/%3u%n", &bits, &more) != 1)
		more = 0;
	cidr = family_cidr(quad, more ? bits : 32);
	snprintf(out, size, "%s", more ? mk_cidr_format(&cidr, buf) : mk_ip_format(&cidr.ip, buf));
	return (size_t)(used + more);
}

void family_map(const char *text, char *out, size_t size)
{
	bool in_word = false;
	size_t at = 0, used;

	for (; *text && at + MK_CIDR_STRLEN < size; text += used) {
		used = family_is6() && !in_word ? map_quad(text, out + at, size - at) : 0;
		if (used > 0) {
			at += strlen(out + at);
			continue;
		}
		in_word = strchr("0123456789.", *text) != NULL;
		out[at++] = *text;
		used = 1;
	}
	out[at] = '\0';
}

/* All of @text is an address or a prefix, perhaps with blanks behind it. */
static bool map_whole(const char *text, char *out, size_t size)
{
	size_t used, at;

	if (strncmp(text, "::ffff:", 7) == 0)
		text += 7;
	used = map_quad(text, out, size);
	if (used == 0 || text[used + strspn(text + used, " ")] != '\0')
		return false;
	at = strlen(out);
	snprintf(out + at, size - at, "%s", text + used);
	return true;
}

/* An address or prefix of IPv6 becomes one of IPv4, the other family. */
static bool map_other(const char *text, char *out, size_t size)
{
	struct mk_cidr cidr;

	if (mk_ip_parse(text, &cidr.ip) == 0 && cidr.ip.family == AF_INET6) {
		snprintf(out, size, "100.64.%u.%u", cidr.ip.v6.s6_addr[14], cidr.ip.v6.s6_addr[15]);
		return true;
	}
	if (mk_cidr_parse(text, &cidr) < 0 || cidr.ip.family != AF_INET6)
		return false;
	snprintf(out, size, "%s", cidr.prefix_bits ? "100.64.0.0/10" : "0.0.0.0/0");
	return true;
}

/* Returns the string in place of @text, or NULL. */
static json_object *map_string(const char *text)
{
	size_t blanks = strspn(text, " ");
	char out[MK_CIDR_STRLEN], all[sizeof(out) + 16];

	if (strcmp(text, "IPv4") == 0)
		return json_object_new_string("IPv6");
	if (strcmp(text, "IPv6") == 0)
		return json_object_new_string("IPv4");
	if (blanks > 8 || (!map_whole(text + blanks, out, sizeof(out)) &&
			   !map_other(text + blanks, out, sizeof(out))))
		return NULL;
	snprintf(all, sizeof(all), "%.*s%s", (int)blanks, text, out);
	return json_object_new_string(all);
}

static json_object *mapped(json_object *value)
{
	if (json_object_is_type(value, json_type_string))
		return map_string(json_object_get_string(value));
	family_json(value);
	return NULL;
}

void family_json(json_object *tree)
{
	json_object *other;

	if (!family_is6())
		return;
	if (json_object_is_type(tree, json_type_array)) {
		for (size_t i = 0; i < json_object_array_length(tree); i++)
			if ((other = mapped(json_object_array_get_idx(tree, i))))
				json_object_array_put_idx(tree, i, other);
	} else if (json_object_is_type(tree, json_type_object)) {
		json_object_object_foreach(tree, key, value) if ((other = mapped(value)))
			json_object_object_add(tree, key, other);
	}
}

/* ---- ICMP --------------------------------------------------------------------------------------- */

static const struct {
	struct family_icmp four, six;
} messages[] = {
	{ { 8, 0 }, { 128, 0 } }, /* echo request */
	{ { 0, 0 }, { 129, 0 } }, { { 3, 0 }, { 1, 0 } }, /* no route */
	{ { 3, 1 }, { 1, 3 } }, /* host */
	{ { 3, 2 }, { 4, 1 } }, /* protocol: unknown next header */
	{ { 3, 3 }, { 1, 4 } }, /* port */
	{ { 3, 4 }, { 2, 0 } }, /* too big */
	{ { 3, 13 }, { 1, 1 } }, /* filtered */
	{ { 11, 0 }, { 3, 0 } }, /* hop limit */
	{ { 11, 1 }, { 3, 1 } }, /* reassembly */
	{ { 12, 0 }, { 4, 0 } },
};

struct family_icmp family_icmp(uint8_t type, uint8_t code)
{
	if (!family_is6())
		return (struct family_icmp){ type, code };
	for (size_t i = 0; i < MK_ARRAY_SIZE(messages); i++)
		if (messages[i].four.type == type && messages[i].four.code == code)
			return messages[i].six;
	fprintf(stderr, "ICMPv6 has no message for %u/%u\n", type, code);
	abort();
}

struct family_icmp family_icmp_back(uint8_t type, uint8_t code)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(messages); i++)
		if (messages[i].six.type == type && messages[i].six.code == code)
			return messages[i].four;
	return (struct family_icmp){ type, code };
}
