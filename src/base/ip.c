// SPDX-License-Identifier: Apache-2.0
#include "base/ip.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned mk_ip_bits(sa_family_t family)
{
	return family == AF_INET ? 32 : 128;
}

static const uint8_t *ip_bytes(const struct mk_ip *ip)
{
	return (const uint8_t *)&ip->v6;
}

int mk_ip_parse(const char *text, struct mk_ip *ip)
{
	*ip = (struct mk_ip){ 0 };
	if (inet_pton(AF_INET, text, &ip->v4) == 1)
		ip->family = AF_INET;
	else if (inet_pton(AF_INET6, text, &ip->v6) == 1)
		ip->family = AF_INET6;
	else
		return -EINVAL;
	return 0;
}

int mk_cidr_parse(const char *text, struct mk_cidr *cidr)
{
	const char *slash = strchr(text, '/');
	char address[MK_IP_STRLEN];
	unsigned long bits;
	char *end;

	if (!slash || (size_t)(slash - text) >= sizeof(address))
		return -EINVAL;
	memcpy(address, text, (size_t)(slash - text));
	address[slash - text] = '\0';
	if (slash[1] < '0' || slash[1] > '9' || (slash[1] == '0' && slash[2] != '\0'))
		return -EINVAL;
	bits = strtoul(slash + 1, &end, 10);
	if (*end != '\0' || mk_ip_parse(address, &cidr->ip) < 0)
		return -EINVAL;
	if (bits > mk_ip_bits(cidr->ip.family))
		return -EINVAL;
	cidr->prefix_bits = (uint8_t)bits;
	return 0;
}

static const char *skip_zeros(const char *digits)
{
	while (digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9')
		digits++;
	return digits;
}

/* Copy @text without the leading zeros of numbers in a dotted quad and in a prefix. The hexadecimal
 * groups of an IPv6 address may keep theirs. */
static int drop_zeros(const char *text, char *out, size_t size)
{
	const char *colon = strrchr(text, ':'), *quad = colon ? colon + 1 : text;
	bool has_quad = strchr(quad, '.');
	size_t used = 0;

	for (const char *at = text; *at; at++) {
		bool begins = at == quad || (at > quad && at[-1] == '.');

		if ((has_quad && begins) || (at > text && at[-1] == '/'))
			at = skip_zeros(at);
		if (used + 1 >= size)
			return -EINVAL;
		out[used++] = *at;
	}
	out[used] = '\0';
	return 0;
}

#define V4_IN_V6_BITS 96

static bool is_v4_in_v6(const struct mk_ip *ip)
{
	return ip->family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&ip->v6);
}

static struct mk_ip v4_of_v6(const struct mk_ip *ip)
{
	struct mk_ip v4 = { .family = AF_INET };

	memcpy(&v4.v4, &ip->v6.s6_addr[V4_IN_V6_BITS / 8], sizeof(v4.v4));
	return v4;
}

/* Leading zeros may make a text longer than any address. */
#define LENIENT_STRLEN (2 * MK_CIDR_STRLEN)

int mk_ip_parse_lenient(const char *text, struct mk_ip *ip)
{
	char plain[LENIENT_STRLEN];

	if (drop_zeros(text, plain, sizeof(plain)) < 0 || mk_ip_parse(plain, ip) < 0)
		return -EINVAL;
	if (is_v4_in_v6(ip))
		*ip = v4_of_v6(ip);
	return 0;
}

int mk_cidr_parse_lenient(const char *text, struct mk_cidr *cidr)
{
	char plain[LENIENT_STRLEN];

	if (drop_zeros(text, plain, sizeof(plain)) < 0 || mk_cidr_parse(plain, cidr) < 0)
		return -EINVAL;
	if (is_v4_in_v6(&cidr->ip) && cidr->prefix_bits >= V4_IN_V6_BITS)
		*cidr = (struct mk_cidr){ .ip = v4_of_v6(&cidr->ip),
					  .prefix_bits = cidr->prefix_bits - V4_IN_V6_BITS };
	return 0;
}

/* Parse a port from 1 to 65535, without a leading zero. */
static int parse_port(const char *text, uint16_t *port)
{
	unsigned int value = 0;

	if (*text < '1' || *text > '9')
		return -EINVAL;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || value > UINT16_MAX)
			return -EINVAL;
		value = value * 10 + (unsigned int)(*text - '0');
	}
	*port = (uint16_t)value;
	return value <= UINT16_MAX ? 0 : -EINVAL;
}

/* Copy the address of "192.0.2.1:80" or "[2001:db8::1]:80" into @ip and parse it. @end: the last
 * colon. The family decides whether there are brackets. */
static int parse_host(const char *text, const char *end, struct mk_ip *ip)
{
	bool brackets = *text == '[';
	char host[MK_IP_STRLEN];
	size_t length;

	if (brackets && (end - text < 2 || end[-1] != ']'))
		return -EINVAL;
	text += brackets;
	length = (size_t)(end - brackets - text);
	if (length >= sizeof(host))
		return -EINVAL;
	memcpy(host, text, length);
	host[length] = '\0';
	if (mk_ip_parse(host, ip) < 0 || brackets != (ip->family == AF_INET6))
		return -EINVAL;
	return 0;
}

int mk_ip_port_parse(const char *text, struct mk_ip_port *at)
{
	const char *colon = strrchr(text, ':');
	struct mk_ip_port parsed = { 0 };

	if (!colon || parse_host(text, colon, &parsed.ip) < 0 ||
	    parse_port(colon + 1, &parsed.port) < 0)
		return -EINVAL;
	*at = parsed;
	return 0;
}

const char *mk_ip_port_format(const struct mk_ip_port *at, char *buf)
{
	bool brackets = at->ip.family == AF_INET6;
	char ip[MK_IP_STRLEN];

	mk_ip_format(&at->ip, ip);
	snprintf(buf, MK_IP_PORT_STRLEN, brackets ? "[%s]:%u" : "%s:%u", ip, at->port);
	return buf;
}

socklen_t mk_ip_port_sockaddr(const struct mk_ip_port *at, struct sockaddr_storage *to)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)to;
	struct sockaddr_in *v4 = (struct sockaddr_in *)to;

	*to = (struct sockaddr_storage){ .ss_family = at->ip.family };
	if (at->ip.family == AF_INET6) {
		v6->sin6_addr = at->ip.v6;
		v6->sin6_port = htons(at->port);
		return sizeof(*v6);
	}
	v4->sin_addr = at->ip.v4;
	v4->sin_port = htons(at->port);
	return sizeof(*v4);
}

const char *mk_ip_format(const struct mk_ip *ip, char *buf)
{
	if (!inet_ntop(ip->family, &ip->v6, buf, MK_IP_STRLEN))
		snprintf(buf, MK_IP_STRLEN, "none");
	return buf;
}

const char *mk_cidr_format(const struct mk_cidr *cidr, char *buf)
{
	size_t used;

	mk_ip_format(&cidr->ip, buf);
	used = strlen(buf);
	snprintf(buf + used, MK_CIDR_STRLEN - used, "/%u", cidr->prefix_bits);
	return buf;
}

const char *mk_mac_format(const struct mk_mac *mac, char *buf)
{
	const uint8_t *b = mac->byte;

	snprintf(buf, MK_MAC_STRLEN, "%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4],
		 b[5]);
	return buf;
}

int mk_ip_compare(const void *a, const void *b)
{
	const struct mk_ip *x = a, *y = b;

	if (x->family != y->family)
		return x->family < y->family ? -1 : 1;
	if (x->family == AF_UNSPEC)
		return 0;
	return memcmp(ip_bytes(x), ip_bytes(y), mk_ip_bits(x->family) / 8);
}

bool mk_cidr_equal(const struct mk_cidr *a, const struct mk_cidr *b)
{
	return a->prefix_bits == b->prefix_bits && mk_ip_equal(&a->ip, &b->ip);
}

int mk_cidr_compare(const void *a, const void *b)
{
	const struct mk_cidr *x = a, *y = b;
	int order = mk_ip_compare(&x->ip, &y->ip);

	return order ? order : (int)x->prefix_bits - (int)y->prefix_bits;
}

void mk_ips_sort(struct mk_ip *ips, size_t *count)
{
	size_t kept = 0;

	if (*count == 0)
		return;
	qsort(ips, *count, sizeof(*ips), mk_ip_compare);
	for (size_t i = 1; i < *count; i++)
		if (!mk_ip_equal(&ips[i], &ips[kept]))
			ips[++kept] = ips[i];
	*count = kept + 1;
}

bool mk_ips_equal(const struct mk_ip *a, size_t a_count, const struct mk_ip *b, size_t b_count)
{
	if (a_count != b_count)
		return false;
	for (size_t i = 0; i < a_count; i++)
		if (!mk_ip_equal(&a[i], &b[i]))
			return false;
	return true;
}

bool mk_ips_contain(const struct mk_ip *ips, size_t count, const struct mk_ip *ip)
{
	for (size_t i = 0; i < count; i++)
		if (mk_ip_equal(&ips[i], ip))
			return true;
	return false;
}

struct mk_ip *mk_ips_of_family(struct mk_ip *ips, size_t *count, sa_family_t family)
{
	size_t first = 0, end = *count;

	while (first < end && ips[first].family != family)
		first++;
	while (end > first && ips[end - 1].family != family)
		end--;
	*count = end - first;
	return first ? ips + first : ips; /* NULL + 0 is undefined */
}

struct mk_cidr *mk_cidrs_of_family(struct mk_cidr *cidrs, size_t *count, sa_family_t family)
{
	size_t first = 0, end = *count;

	while (first < end && cidrs[first].ip.family != family)
		first++;
	while (end > first && cidrs[end - 1].ip.family != family)
		end--;
	*count = end - first;
	return first ? cidrs + first : cidrs;
}

void mk_cidrs_sort(struct mk_cidr *cidrs, size_t *count)
{
	size_t kept = 0;

	if (*count == 0)
		return;
	qsort(cidrs, *count, sizeof(*cidrs), mk_cidr_compare);
	for (size_t i = 1; i < *count; i++)
		if (!mk_cidr_equal(&cidrs[i], &cidrs[kept]))
			cidrs[++kept] = cidrs[i];
	*count = kept + 1;
}

bool mk_cidrs_equal(const struct mk_cidr *a, size_t a_count, const struct mk_cidr *b,
		    size_t b_count)
{
	if (a_count != b_count)
		return false;
	for (size_t i = 0; i < a_count; i++)
		if (!mk_cidr_equal(&a[i], &b[i]))
			return false;
	return true;
}

struct mk_ip mk_cidr_mask(const struct mk_cidr *cidr)
{
	struct mk_ip mask = { .family = cidr->ip.family };
	uint8_t *bytes = (uint8_t *)&mask.v6;

	for (unsigned bit = 0; bit < cidr->prefix_bits; bit++)
		bytes[bit / 8] |= (uint8_t)(0x80 >> (bit % 8));
	return mask;
}

struct mk_cidr mk_cidr_network(const struct mk_cidr *cidr)
{
	struct mk_ip mask = mk_cidr_mask(cidr);
	struct mk_cidr net = *cidr;

	for (unsigned i = 0; i < mk_ip_bits(cidr->ip.family) / 8; i++)
		((uint8_t *)&net.ip.v6)[i] &= ip_bytes(&mask)[i];
	return net;
}

struct mk_ip mk_ip_move(const struct mk_ip *ip, const struct mk_cidr *to)
{
	struct mk_ip mask = mk_cidr_mask(to), moved = *ip;
	const uint8_t *bits = ip_bytes(&mask), *from = ip_bytes(&to->ip);
	uint8_t *bytes = (uint8_t *)&moved.v6;

	for (unsigned i = 0; i < mk_ip_bits(ip->family) / 8; i++)
		bytes[i] = (uint8_t)((from[i] & bits[i]) | (bytes[i] & ~bits[i]));
	return moved;
}

bool mk_cidr_contains(const struct mk_cidr *cidr, const struct mk_ip *ip)
{
	struct mk_cidr wanted = mk_cidr_network(cidr);
	struct mk_cidr have = { .ip = *ip, .prefix_bits = cidr->prefix_bits };

	if (ip->family != cidr->ip.family)
		return false;
	have = mk_cidr_network(&have);
	return mk_ip_equal(&wanted.ip, &have.ip);
}

bool mk_cidr_covers(const struct mk_cidr *outer, const struct mk_cidr *inner)
{
	return inner->prefix_bits >= outer->prefix_bits && mk_cidr_contains(outer, &inner->ip);
}

struct mk_ip mk_cidr_nth(const struct mk_cidr *cidr, uint32_t offset)
{
	struct mk_cidr net = mk_cidr_network(cidr);
	uint8_t *bytes = (uint8_t *)&net.ip.v6;
	uint64_t carry = offset;

	for (unsigned i = mk_ip_bits(net.ip.family) / 8; i-- > 0; carry >>= 8) {
		carry += bytes[i];
		bytes[i] = (uint8_t)carry;
	}
	return net.ip;
}

uint32_t mk_cidr_size(const struct mk_cidr *cidr)
{
	unsigned host_bits = mk_ip_bits(cidr->ip.family) - cidr->prefix_bits;

	return host_bits >= 32 ? UINT32_MAX : 1u << host_bits;
}

struct mk_mac mk_mac_of_ip(const struct mk_ip *ip)
{
	struct mk_mac mac = { .byte = { 0x02, 0x4d } }; /* MK_MAC_PREFIX */

	memcpy(&mac.byte[2], ip_bytes(ip) + mk_ip_bits(ip->family) / 8 - 4, 4);
	return mac;
}

/* ---- the tables' type ------------------------------------------------------------------------ */

struct mk_addr mk_ip_to_addr(const struct mk_ip *ip)
{
	struct mk_addr addr = { 0 };

	if (ip->family == AF_INET6)
		memcpy(&addr, &ip->v6, sizeof(addr));
	else if (ip->family == AF_INET && ip->v4.s_addr)
		addr = (struct mk_addr){ { 0, 0, htonl(0xffff), ip->v4.s_addr } };
	return addr;
}

struct mk_ip mk_ip_of_family(const struct mk_addr *addr, sa_family_t family)
{
	static const struct mk_addr zero;
	struct mk_ip ip = { .family = AF_INET6 };

	if (mk_addr_eq(addr, &zero))
		return (struct mk_ip){ .family = family };
	memcpy(&ip.v6, addr, sizeof(ip.v6));
	return mk_addr_is_ipv4(addr) ? v4_of_v6(&ip) : ip;
}

struct mk_ip mk_ip_from_addr(const struct mk_addr *addr)
{
	return mk_ip_of_family(addr, AF_INET);
}
