/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/sctp.h - reading and rewriting SCTP (RFC 9260).
 *
 * The checksum is a CRC32c over the packet from its ports on, without a pseudo header. It changes
 * with the ports, but not with the addresses (crc32c.h). A sender on this machine leaves the field
 * 0, and the device fills it in (CHECKSUM_PARTIAL with csum_not_inet). The same holds for such
 * packets after translation.
 *
 * No program can see that state. So a complete checksum that happens to be 0, one in 2^32, is
 * treated as one that the device fills in. A GSO packet has one header for all its segments and no
 * checksum yet. */
#ifndef MK_BPF_SCTP_H
#define MK_BPF_SCTP_H

#include "crc32c.h"
#include "packet.h"

/* Convert @le between little-endian and the processor's byte order, either way. */
static __always_inline __u32 sctp_le32(__u32 le)
{
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? le : __builtin_bswap32(le);
}

/* Length of the whole packet's layer 4 in bytes; 0: unknown. */
static __always_inline __u32 sctp_bytes(struct __sk_buff *skb, const struct packet *pkt)
{
	return pkt->fragment == MK_WHOLE ? packet_l4_bytes(skb, pkt) : pkt->fragmented_bytes;
}

/* Rewrite the ports to @to, and the checksum. Returns MK_GO_ON or a drop reason. A first fragment
 * contains the checksum of the whole packet; it is dropped if the packet's length is unknown
 * (fragment.h). */
static __always_inline int rewrite_sctp(struct __sk_buff *skb, const struct packet *pkt,
					const struct mk_tuple *to)
{
	struct sctp_header *at, header;
	union {
		__be16 port[2];
		__u32 both;
	} ports = { { to->sport, to->dport } };
	__u32 bytes;

	at = packet_at(skb, pkt->l4_off, sizeof(*at));
	if (!at)
		return MK_DROP_REWRITE_FAILED;
	header = *at;
	if (header.ports == ports.both)
		return MK_GO_ON;
	bytes = sctp_bytes(skb, pkt);
	if (!bytes)
		return MK_DROP_PROTOCOL;
	bytes = forgotten(bytes, header.ports);
	if (header.checksum_le)
		header.checksum_le ^=
			sctp_le32(crc32c_change(sctp_le32(header.ports ^ ports.both), bytes));
	header.ports = ports.both;
	/* unlike TCP's checksum, this change does not cancel out in CHECKSUM_COMPLETE's sum */
	return bpf_skb_store_bytes(skb, pkt->l4_off, &header, sizeof(header), BPF_F_RECOMPUTE_CSUM)
		       ? MK_DROP_REWRITE_FAILED
		       : MK_GO_ON;
}

#endif
