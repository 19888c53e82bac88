/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/icmp6.h - numbers of ICMPv6 (RFC 4443) under the names that both families share (icmp4.h). */
#ifndef MK_BPF_ICMP6_H
#define MK_BPF_ICMP6_H

#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/in.h>
#include <linux/types.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MK_IPPROTO_ICMP IPPROTO_ICMPV6

/* Does it have the messages of a link (MK_L4_NEIGHBOUR)? */
#define MK_ICMP_HAS_NEIGHBOURS 1

/* Is the checksum also of the addresses? */
#define MK_ICMP_HAS_PSEUDO_HEADER 1

#define MK_ICMP_ECHO	   ICMPV6_ECHO_REQUEST
#define MK_ICMP_ECHO_REPLY ICMPV6_ECHO_REPLY
#define MK_ICMP_ECHO_DIFF  bpf_htons(0x0100) /* type 128 -> 129 */

/* Types, and the codes of destination unreachable. */
#define MK_ICMP_UNREACHABLE  ICMPV6_DEST_UNREACH
#define MK_ICMP_NO_NET	     ICMPV6_NOROUTE
#define MK_ICMP_NO_HOST	     ICMPV6_ADDR_UNREACH
#define MK_ICMP_NO_PORT	     ICMPV6_PORT_UNREACH
#define MK_ICMP_FILTERED     ICMPV6_ADM_PROHIBITED
#define MK_ICMP_TOO_BIG	     ICMPV6_PKT_TOOBIG
#define MK_ICMP_TOO_BIG_CODE 0
#define MK_ICMP_EXPIRED	     ICMPV6_TIME_EXCEED

static __always_inline int is_icmp_request(__u8 type)
{
	return type == ICMPV6_ECHO_REQUEST;
}

static __always_inline int is_icmp_reply(__u8 type)
{
	return type == ICMPV6_ECHO_REPLY;
}

static __always_inline int is_icmp_error(__u8 type)
{
	return type < 128;
}

/* Messages of links, which no router forwards: multicast listeners (RFC 2710, RFC 3810) and
 * neighbour discovery (RFC 4861). */
static __always_inline int is_neighbour_message(__u8 type)
{
	enum { LISTENER_QUERY = 130, REDIRECT = 137, LISTENER_REPORT_2 = 143 };

	return (type >= LISTENER_QUERY && type <= REDIRECT) || type == LISTENER_REPORT_2;
}

#define MK_MTU_MIN 1280 /* senders ignore an error with less (RFC 8201, 4) */

/* All four bytes after the checksum hold the MTU; 0: the error has none. */
static __always_inline void icmp_set_mtu(struct icmphdr *icmp, __u16 mtu_bytes)
{
	if (mtu_bytes && mtu_bytes < MK_MTU_MIN)
		mtu_bytes = MK_MTU_MIN;
	icmp->un.gateway = bpf_htonl(mtu_bytes);
}

static __always_inline __u32 icmp_mtu(const struct icmphdr *icmp)
{
	return bpf_ntohl(icmp->un.gateway);
}

#endif
