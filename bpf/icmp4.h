/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/icmp4.h - numbers of ICMP (RFC 792) under the names that both families share. icmp6.h has
 * those of ICMPv6. Both have the same header: type, code, checksum, and four bytes that depend on
 * the type (struct icmphdr). */
#ifndef MK_BPF_ICMP4_H
#define MK_BPF_ICMP4_H

#include <linux/icmp.h>
#include <linux/in.h>
#include <linux/types.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MK_IPPROTO_ICMP IPPROTO_ICMP

/* Does it have the messages of a link (MK_L4_NEIGHBOUR)? */
#define MK_ICMP_HAS_NEIGHBOURS 0

/* Is the checksum also of the addresses? */
#define MK_ICMP_HAS_PSEUDO_HEADER 0

#define MK_ICMP_ECHO	   ICMP_ECHO
#define MK_ICMP_ECHO_REPLY ICMP_ECHOREPLY
/* what the checksum's difference is when a request becomes a reply, in ones' complement */
#define MK_ICMP_ECHO_DIFF bpf_htons(0xf7ff) /* type 8 -> 0: -0x0800 */

/* Types, and the codes of destination unreachable. */
#define MK_ICMP_UNREACHABLE  ICMP_DEST_UNREACH
#define MK_ICMP_NO_NET	     ICMP_NET_UNREACH
#define MK_ICMP_NO_HOST	     ICMP_HOST_UNREACH
#define MK_ICMP_NO_PORT	     ICMP_PORT_UNREACH
#define MK_ICMP_FILTERED     ICMP_PKT_FILTERED
#define MK_ICMP_TOO_BIG	     ICMP_DEST_UNREACH
#define MK_ICMP_TOO_BIG_CODE ICMP_FRAG_NEEDED
#define MK_ICMP_EXPIRED	     ICMP_TIME_EXCEEDED

/* Types of requests whose answers have the same identifier. Sessions treat them like a ping. */
static __always_inline int is_icmp_request(__u8 type)
{
	return type == ICMP_ECHO || type == ICMP_TIMESTAMP;
}

static __always_inline int is_icmp_reply(__u8 type)
{
	return type == ICMP_ECHOREPLY || type == ICMP_TIMESTAMPREPLY;
}

static __always_inline int is_icmp_error(__u8 type)
{
	return type == ICMP_DEST_UNREACH || type == ICMP_TIME_EXCEEDED ||
	       type == ICMP_PARAMETERPROB || type == ICMP_SOURCE_QUENCH;
}

/* In IPv4 ARP does that. */
static __always_inline int is_neighbour_message(__u8 type)
{
	(void)type;
	return 0;
}

static __always_inline void icmp_set_mtu(struct icmphdr *icmp, __u16 mtu_bytes)
{
	icmp->un.frag.mtu = bpf_htons(mtu_bytes);
}

static __always_inline __u32 icmp_mtu(const struct icmphdr *icmp)
{
	return bpf_ntohs(icmp->un.frag.mtu);
}

#endif
