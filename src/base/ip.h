/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/ip.h - addresses in user space: with their family, in network byte order. The tables
 * have struct mk_addr (include/monokube/addr.h), see mk_ip_to_addr(). */
#ifndef MK_BASE_IP_H
#define MK_BASE_IP_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "monokube/addr.h"
#include "base/error.h"

struct mk_ip {
	sa_family_t family; /* AF_INET, AF_INET6; AF_UNSPEC: no address */
	union {
		struct in_addr v4;
		struct in6_addr v6;
	};
};

struct mk_cidr {
	struct mk_ip ip; /* as written: host bits may be set, see mk_cidr_network() */
	uint8_t prefix_bits;
};

#define MK_IP_STRLEN   INET6_ADDRSTRLEN
#define MK_CIDR_STRLEN (INET6_ADDRSTRLEN + 4)

/* The address on which a socket listens. */
struct mk_ip_port {
	struct mk_ip ip;
	uint16_t port; /* host order */
};
#define MK_IP_PORT_STRLEN (INET6_ADDRSTRLEN + 8)

struct mk_mac {
	uint8_t byte[6];
};
#define MK_MAC_STRLEN 18

/* Arrays with one element per family are indexed by mk_family_index(). */
#define MK_FAMILIES 2
static inline unsigned mk_family_index(sa_family_t family)
{
	return family == AF_INET6;
}
/* Return "IPv4" or "IPv6". */
static inline const char *mk_family_name(sa_family_t family)
{
	return family == AF_INET6 ? "IPv6" : "IPv4";
}
/* Return the length of an address of @family in bits. */
unsigned mk_ip_bits(sa_family_t family);

/* Parse an address. Strict: no blanks, no short forms ("10.1"), no leading zeros. */
mk_must_check int mk_ip_parse(const char *text, struct mk_ip *ip);
mk_must_check int mk_cidr_parse(const char *text, struct mk_cidr *cidr);
/* Parse an address of an object in the cluster, as kube-proxy does. Leading zeros of decimal
 * numbers are ignored ("010.0.0.1/08"), and an IPv4-mapped IPv6 address ("::ffff:10.0.0.1") is
 * IPv4. (k8s.io/utils/net, ParseIPSloppy; Go, net.IP.To4.) */
mk_must_check int mk_ip_parse_lenient(const char *text, struct mk_ip *ip);
mk_must_check int mk_cidr_parse_lenient(const char *text, struct mk_cidr *cidr);
/* "192.0.2.1:80" or "[2001:db8::1]:80". */
mk_must_check int mk_ip_port_parse(const char *text, struct mk_ip_port *at);

/* Fill @to for bind(2) or connect(2). Returns its length. */
socklen_t mk_ip_port_sockaddr(const struct mk_ip_port *at, struct sockaddr_storage *to);

/* Format into @buf (MK_*_STRLEN bytes) and return it. */
const char *mk_ip_format(const struct mk_ip *ip, char *buf);
const char *mk_cidr_format(const struct mk_cidr *cidr, char *buf);
const char *mk_mac_format(const struct mk_mac *mac, char *buf);
const char *mk_ip_port_format(const struct mk_ip_port *at, char *buf);

int mk_ip_compare(const void *a, const void *b); /* as memcmp(3), for qsort(3) */
static inline bool mk_ip_equal(const struct mk_ip *a, const struct mk_ip *b)
{
	return mk_ip_compare(a, b) == 0;
}
bool mk_cidr_equal(const struct mk_cidr *a, const struct mk_cidr *b);
/* Order by address, then prefix: for qsort(3). */
int mk_cidr_compare(const void *a, const void *b);
/* Sort and remove duplicates. */
void mk_ips_sort(struct mk_ip *ips, size_t *count);
void mk_cidrs_sort(struct mk_cidr *cidrs, size_t *count);
bool mk_ips_equal(const struct mk_ip *a, size_t a_count, const struct mk_ip *b, size_t b_count);
bool mk_ips_contain(const struct mk_ip *ips, size_t count, const struct mk_ip *ip);
/* Return the part of sorted addresses or ranges that has @family; *@count becomes its length. */
struct mk_ip *mk_ips_of_family(struct mk_ip *ips, size_t *count, sa_family_t family);
struct mk_cidr *mk_cidrs_of_family(struct mk_cidr *cidrs, size_t *count, sa_family_t family);
bool mk_cidrs_equal(const struct mk_cidr *a, size_t a_count, const struct mk_cidr *b,
		    size_t b_count);

/* Return @cidr with its host bits cleared. */
struct mk_cidr mk_cidr_network(const struct mk_cidr *cidr);
bool mk_cidr_contains(const struct mk_cidr *cidr, const struct mk_ip *ip);
/* Does @outer contain all of @inner? */
bool mk_cidr_covers(const struct mk_cidr *outer, const struct mk_cidr *inner);
/* Return the address @offset after the network address. The caller checks the range. */
struct mk_ip mk_cidr_nth(const struct mk_cidr *cidr, uint32_t offset);
/* Return the number of addresses of @cidr, at most UINT32_MAX. */
uint32_t mk_cidr_size(const struct mk_cidr *cidr);
/* Return the netmask of @cidr as an address. */
struct mk_ip mk_cidr_mask(const struct mk_cidr *cidr);
/* Return @ip with the prefix of @to, of the same family: net | (ip & ~mask). */
struct mk_ip mk_ip_move(const struct mk_ip *ip, const struct mk_cidr *to);

/* Convert to and from the tables' type, where IPv4 is IPv4-mapped. 0.0.0.0, :: and no address are
 * all zeros there. */
struct mk_addr mk_ip_to_addr(const struct mk_ip *ip);
/* All zeros are 0.0.0.0; */
struct mk_ip mk_ip_from_addr(const struct mk_addr *addr);
/* or the zero address of @family. */
struct mk_ip mk_ip_of_family(const struct mk_addr *addr, sa_family_t family);

/* Return the MAC address that monokube gives to the interface with @ip: 02:4d and the last four
 * bytes of the address. It is locally administered, so it never collides with a vendor's. Every
 * node computes the same. */
struct mk_mac mk_mac_of_ip(const struct mk_ip *ip);

#endif
