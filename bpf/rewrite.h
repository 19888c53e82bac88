/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/rewrite.h - changing a packet: addresses, ports, checksums, MAC addresses. The IP header is
 * changed in packet4.h or packet6.h.
 *
 * Checksums of layer 4 are updated for new addresses by bpf_l4_csum_replace(). It knows whether the
 * checksum is partial (CHECKSUM_PARTIAL): then the field holds the pseudo header's sum, and only
 * addresses count. It also keeps UDP's "no checksum" (0). The changed field shows which kind it
 * was, so new ports need no second call (checksum.h). */
#ifndef MK_BPF_REWRITE_H
#define MK_BPF_REWRITE_H

#include "chain.h"
#include "checksum.h"
#include "sctp.h"

/* In struct mk_tuple, as in the header, saddr and daddr are adjacent, and so are the ports. So each
 * pair needs one checksum difference. */
static __always_inline __u32 addr_diff(const struct mk_tuple *from, const struct mk_tuple *to)
{
	return csum_diff((const __be32 *)&from->saddr, (const __be32 *)&to->saddr,
			 2 * sizeof(struct mk_addr) / 4);
}

/* The same by a helper, where code and stack count more than time. If nothing changes, the
 * result is the other form of zero. */
static __always_inline __u32 addr_diff_called(const struct mk_tuple *from,
					      const struct mk_tuple *to)
{
	return bpf_csum_diff((__be32 *)&from->saddr, 2 * sizeof(struct mk_addr),
			     (__be32 *)&to->saddr, 2 * sizeof(struct mk_addr), 0);
}

static __always_inline __u32 port_diff(const struct mk_tuple *from, const struct mk_tuple *to)
{
	return csum_diff((const __be32 *)&from->sport, (const __be32 *)&to->sport, 1);
}

static __always_inline int rewrite_ports(struct __sk_buff *skb, __u32 l4_off,
					 const struct mk_tuple *to)
{
	__be16 *ports = packet_at(skb, l4_off, 4);

	if (!ports)
		return -1;
	ports[0] = to->sport;
	ports[1] = to->dport;
	return 0;
}

/* Update the checksum at @field for a change of the ports by @ports. The field held @before, and
 * has been updated for the change of the addresses by @addrs. */
static __always_inline int rewrite_csum_of_ports(struct __sk_buff *skb, __u32 field, __u64 flags,
						 __sum16 before, __u32 addrs, __u32 ports)
{
	__sum16 *check;

	if (csum_is_zero(addrs))
		return bpf_l4_csum_replace(skb, field, 0, ports, flags) ? -1 : 0;
	check = packet_at(skb, field, sizeof(*check));
	if (!check)
		return -1;
	if (flags & BPF_F_MARK_MANGLED_0 && before == 0)
		return 0;
	if (csum_was_partial(before, *check, addrs))
		return 0;
	csum_add_diff(check, ports);
	if (flags & BPF_F_MARK_MANGLED_0 && *check == 0)
		*check = 0xffff;
	return 0;
}

static __always_inline int rewrite_tcp_udp(struct __sk_buff *skb, const struct packet *pkt,
					   const struct mk_tuple *to, __u32 addrs)
{
	__u32 ports = port_diff(&pkt->tuple, to), field = pkt->l4_off;
	__sum16 *check, before;
	__u64 flags = 0;

	if (pkt->l4 == MK_L4_UDP) {
		field += offsetof(struct udphdr, check);
		flags = BPF_F_MARK_MANGLED_0;
	} else {
		field += offsetof(struct tcphdr, check);
	}
	check = packet_at(skb, field, sizeof(*check));
	if (!check || rewrite_ports(skb, pkt->l4_off, to))
		return -1;
	before = *check;
	if (addrs && pseudo_csum_change(skb, field, addrs, flags))
		return -1;
	return ports ? rewrite_csum_of_ports(skb, field, flags, before, addrs, ports) : 0;
}

static __always_inline int rewrite_echo(struct __sk_buff *skb, const struct packet *pkt,
					const struct mk_tuple *to, __u32 addrs)
{
	struct icmphdr *icmp = packet_at(skb, pkt->l4_off, sizeof(*icmp));

	if (!icmp)
		return -1;
	icmp->un.echo.id = to->sport;
	return echo_csum_change(skb, pkt->l4_off, addrs, pkt->tuple.sport, to->sport);
}

static __always_inline void note_rewrite(__u8 *chain_flags, const struct mk_tuple *from,
					 const struct mk_tuple *to)
{
	*chain_flags |= CHAIN_TRANSLATED;
	if (!mk_addr_eq(&from->saddr, &to->saddr))
		*chain_flags |= CHAIN_NEW_SOURCE;
}

/* Rewrite the packet to @to, update @pkt and @chain_flags. Returns MK_GO_ON or a drop reason. */
static __always_inline int rewrite(struct __sk_buff *skb, struct packet *pkt,
				   const struct mk_tuple *to, __u8 *chain_flags)
{
	__u32 addrs;
	int ret;

	note_rewrite(chain_flags, &pkt->tuple, to);
	if (tuple_eq(&pkt->tuple, to))
		return MK_GO_ON; /* a flow to no Service */
	addrs = addr_diff(&pkt->tuple, to);
	ret = rewrite_ip(skb, MK_L3_OFF, to, addrs) ? MK_DROP_REWRITE_FAILED : MK_GO_ON;
	if (ret == MK_GO_ON && pkt->fragment != MK_LATER_FRAGMENT) {
		if (pkt->l4 == MK_L4_TCP || pkt->l4 == MK_L4_UDP)
			ret = rewrite_tcp_udp(skb, pkt, to, addrs) ? MK_DROP_REWRITE_FAILED
								   : MK_GO_ON;
		else if (pkt->l4 == MK_L4_ECHO_REQUEST || pkt->l4 == MK_L4_ECHO_REPLY)
			ret = rewrite_echo(skb, pkt, to, addrs) ? MK_DROP_REWRITE_FAILED : MK_GO_ON;
		else if (pkt->l4 == MK_L4_SCTP)
			ret = rewrite_sctp(skb, pkt, to);
	}
	pkt->tuple = *to;
	return ret;
}

/* The checksum of the packet quoted in an ICMP error: its offset, or 0 if there is none, or it is
 * not quoted. SCTP's covers the whole packet, of which only a part is quoted. */
static __always_inline __u32 inner_csum_field(struct __sk_buff *skb,
					      const struct inner_packet *inner)
{
	__u32 field = inner->l4_off;
	__sum16 *check;

	if (inner->tuple.proto == IPPROTO_TCP)
		field += offsetof(struct tcphdr, check);
	else if (inner->tuple.proto == IPPROTO_UDP)
		field += offsetof(struct udphdr, check);
	else if (inner->tuple.proto == MK_IPPROTO_ICMP)
		field += offsetof(struct icmphdr, checksum);
	else
		return 0;
	if (inner->l4_off + inner->l4_bytes < field + sizeof(*check))
		return 0;
	packet_pull(skb, field + sizeof(*check));
	check = packet_at(skb, field, sizeof(*check));
	if (!check || (inner->tuple.proto == IPPROTO_UDP && *check == 0))
		return 0;
	return field;
}

/* Rewrite ports or identifier of the quoted packet. Returns 0 with their checksum difference in
 * *@ports, or -1. */
static __always_inline int rewrite_inner_ports(struct __sk_buff *skb,
					       const struct inner_packet *inner,
					       const struct mk_tuple *to, __u32 *ports)
{
	__be16 *id;

	*ports = 0;
	if (inner->tuple.proto == MK_IPPROTO_ICMP) {
		id = packet_at(skb, inner->l4_off, 8);
		if (!id)
			return -1;
		*ports = (__u32)(__u16)~id[2] + to->sport;
		id[2] = to->sport;
		return 0;
	}
	/* no ports: the next bytes are payload */
	if (inner->tuple.proto != IPPROTO_TCP && inner->tuple.proto != IPPROTO_UDP &&
	    inner->tuple.proto != IPPROTO_SCTP)
		return 0;
	*ports = port_diff(&inner->tuple, to);
	return rewrite_ports(skb, inner->l4_off, to);
}

/* Rewrite layer 4 of the quoted packet, and the checksum of the ICMP error, which covers it. The
 * change of addresses @outer_addrs counts in ICMPv6's pseudo header. */
static __always_inline int rewrite_inner_l4(struct __sk_buff *skb, const struct packet *pkt,
					    const struct inner_packet *inner,
					    const struct mk_tuple *to, __u32 addrs,
					    __u32 outer_addrs)
{
	__u32 field, ports;
	__sum16 *check;

	if (rewrite_inner_ports(skb, inner, to, &ports))
		return -1;
	field = inner_csum_field(skb, inner);
	if (field) {
		check = packet_at(skb, field, sizeof(*check));
		if (!check)
			return -1;
		/* plain data here, whatever the state of the outer packet, so written directly */
		if (!MK_ICMP_HAS_PSEUDO_HEADER && inner->tuple.proto == MK_IPPROTO_ICMP) {
			csum_add_diff(check, ports);
			return 0;
		}
		csum_add_diff(check, addrs);
		csum_add_diff(check, ports);
	}
	return error_csum_change(skb, pkt->l4_off, field != 0, addrs, ports, outer_addrs);
}

/* Rewrite the packet quoted in an ICMP error to @inner_to, and the outer addresses to @outer. */
static __always_inline int rewrite_icmp_error(struct __sk_buff *skb, struct packet *pkt,
					      const struct inner_packet *inner,
					      const struct mk_tuple *inner_to,
					      const struct mk_tuple *outer, __u8 *chain_flags)
{
	__u32 outer_addrs = addr_diff_called(&pkt->tuple, outer);
	__u32 addrs = addr_diff_called(&inner->tuple, inner_to);

	if (rewrite_ip(skb, MK_L3_OFF, outer, outer_addrs))
		return -1;
	if (rewrite_ip(skb, inner->l3_off, inner_to, addrs))
		return -1;
	note_rewrite(chain_flags, &pkt->tuple, outer);
	pkt->tuple = *outer;
	return rewrite_inner_l4(skb, pkt, inner, inner_to, addrs, outer_addrs);
}

static __always_inline void set_macs(struct ethhdr *eth, const volatile __u8 *source,
				     const volatile __u8 *dest)
{
	for (int i = 0; i < ETH_ALEN; i++) {
		eth->h_source[i] = source[i];
		eth->h_dest[i] = dest[i];
	}
}

#endif
