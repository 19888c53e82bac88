/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/sctp.h - reading and rewriting SCTP (RFC 9260).
 *
 * The checksum is a CRC32c over the packet from its ports on, without a pseudo header: changed
 * addresses leave it, changed ports do not (crc32c.h). A sender on this machine leaves the field 0
 * for the device to fill in (CHECKSUM_PARTIAL with csum_not_inet), and so does what we send on.
 * No program can see that state, so a complete checksum that happens to be 0, one in 2^32, is
 * taken for it. A packet that is cut by GSO has one header for all pieces and no checksum yet. */
#ifndef MK_BPF_SCTP_H
#define MK_BPF_SCTP_H

#include "crc32c.h"
#include "packet.h"

/* @le as the processor counts, and back. */
static __always_inline __u32 sctp_le32(__u32 le)
{
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? le : __builtin_bswap32(le);
}

/* Chunks of a first fragment that are looked at; a sender cuts a packet for one that is too large, behind
 * what it needs (AUTH, SACK). */
#define MK_SCTP_CHUNKS_MAX 16

struct sctp_chunk { /* RFC 9260, 3.2 */
	__u8 type, flags;
	__be16 length; /* with these four, without padding */
};

/* Bytes of layer 4 of a packet whose first fragment ends at @end, bytes from the start of the frame:
 * up to the end of the chunk that reaches beyond, which is the last. Senders put chunks together up
 * to the path's MTU and no further (RFC 9260, 6.10; Linux, sctp_packet_will_fit()), so the packet was
 * cut for this one. 0: it does not tell. */
static __always_inline __u32 sctp_fragmented_bytes(struct __sk_buff *skb, const struct packet *pkt,
						   __u32 end)
{
	__u32 at = pkt->l4_off + sizeof(struct sctp_header);
	struct sctp_chunk chunk;

	for (int i = 0; i < MK_SCTP_CHUNKS_MAX && at < end; i++) {
		if (bpf_skb_load_bytes(skb, at, &chunk, sizeof(chunk)) ||
		    bpf_ntohs(chunk.length) < sizeof(chunk))
			return 0;
		at += (bpf_ntohs(chunk.length) + 3) & ~3U;
	}
	at -= pkt->l4_off;
	return at + pkt->l4_off > end && at <= 0xffff ? at & 0xffff : 0;
}

/* Bytes of the whole packet's layer 4; 0: unknown. */
static __always_inline __u32 sctp_bytes(struct __sk_buff *skb, const struct packet *pkt)
{
	struct iphdr *ip = packet_at(skb, MK_L3_OFF, sizeof(*ip));
	__u32 end = ip ? MK_L3_OFF + bpf_ntohs(ip->tot_len) : 0;

	if (pkt->fragment == MK_WHOLE)
		return end - pkt->l4_off;
	return sctp_fragmented_bytes(skb, pkt, end);
}

/* Returns 0, or a drop reason: of a first fragment that does not tell how long its packet is, whose
 * checksum it has. */
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
		return 0;
	bytes = sctp_bytes(skb, pkt);
	if (!bytes)
		return MK_DROP_PROTOCOL;
	if (header.checksum_le)
		header.checksum_le ^=
			sctp_le32(crc32c_change(sctp_le32(header.ports ^ ports.both), bytes));
	header.ports = ports.both;
	/* unlike TCP's, this change does not cancel in a sum over the packet (CHECKSUM_COMPLETE) */
	return bpf_skb_store_bytes(skb, pkt->l4_off, &header, sizeof(header), BPF_F_RECOMPUTE_CSUM)
		       ? MK_DROP_REWRITE_FAILED
		       : 0;
}

#endif
