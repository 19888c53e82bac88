/* SPDX-License-Identifier: Apache-2.0 */
/* test/bpf/family.h - the address family of a run: IPv4, or IPv6 with MK_TEST_FAMILY=6, or with
 * MK_TEST_FAMILY=46 behind IPv4's programs, as on a node with both families. Rows have dotted quads
 * in both families. For IPv6 each address becomes another one:
 *
 *	10.244.1.2	 fd00:a:f4:1::2	 a byte per group, the last at the end
 *	10.244.1.254	 fd00:a:f4:1::3fe the gateway: a node has 1,024 slots
 *	127.0.0.1	 ::1		 so have all of 127.0.0.0/8: IPv6 has one loopback address
 *	0.0.0.0, 0.1.2.3 ::, ::102:3	 addresses that no host has
 *	169.254.7.8	 fe80::7:8	 link-local
 *	224.0.0.251	 ff0e:e0::fb	 multicast of global scope
 *	255.255.255.255	 ff02::1	 the link's broadcast
 *
 * Prefixes of 8, 16, 24 and 32 bits become 32, 48, 64 and 128. MAC addresses of pods, gateways and
 * VTEPs stay those of the dotted quad, as on a node whose primary family is IPv4. */
#ifndef MK_TEST_FAMILY_H
#define MK_TEST_FAMILY_H

#include <json-c/json.h>
#include <string.h>
#include <sys/socket.h>

#include "base/ip.h"

sa_family_t family(void); /* AF_INET or AF_INET6 */
bool family_is_behind(void); /* IPv6 behind IPv4's programs, in all rows */
void family_use(sa_family_t other); /* for tests of this file */
void family_use_ipv6(void); /* until family_use_again(): that of the run */
void family_use_again(void);
static inline bool family_is6(void)
{
	return family() == AF_INET6;
}

/* A row about IPv4 alone says so before its name, with the reason: IPV4_ONLY("no ARP") "name". In a
 * run for IPv6 it passes at once. test/lint counts such rows. */
#define IPV4_ONLY(reason) "IPv4 only, " reason ": "
static inline bool family_leaves_out(const char *name)
{
	return family_is6() && strncmp(name, "IPv4 only, ", 11) == 0;
}

/* Return the address that @text, a dotted quad, has in this family. Aborts on a bad text. */
struct mk_ip family_ip(const char *text);
/* Return what this family has for @net/@bits, for its length alone, and for its mask. */
struct mk_cidr family_cidr(const char *net, unsigned bits);
unsigned family_bits(unsigned bits);
struct mk_addr family_mask(unsigned bits);

/* Format @ip as the dotted quad that a row has for it, into @buf (MK_IP_STRLEN bytes). An address
 * that no row can name is written as it is. */
const char *family_text(const struct mk_ip *ip, char *buf);

/* Write the address and port of a socket, "10.0.0.1:80". Returns its size, for bind(2). */
socklen_t family_sockaddr(const char *text, struct sockaddr_storage *at);

/* Copy @text, where each dotted quad and each prefix is one of this family. */
void family_map(const char *text, char *out, size_t size);

/* Map the addresses in the strings of @tree, an object of the cluster, and "IPv4" itself. For IPv6
 * the other family becomes IPv4: "fd00::10" is then an address of 100.64.0.0/10. */
void family_json(json_object *tree);

/* Type and code of an ICMP message: rows have IPv4's. */
struct family_icmp {
	uint8_t type, code;
};
struct family_icmp family_icmp(uint8_t type, uint8_t code); /* aborts: IPv6 has no such message */
/* Return IPv4's numbers of an ICMPv6 message, or the same numbers if IPv4 has no such message. */
struct family_icmp family_icmp_back(uint8_t type, uint8_t code);

#endif
