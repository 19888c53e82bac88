/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/partial.h - the checksum that a sender leaves to the device (CHECKSUM_PARTIAL, see
 * Documentation/networking/checksum-offloads.rst). A pod with CAP_NET_RAW chooses where the device
 * writes it: PACKET_VNET_HDR of packet(7), csum_start and csum_offset. Written over an address or a
 * port, it changes the packet after these programs have allowed it.
 *
 * struct __sk_buff does not show the place, so this reads struct sk_buff itself. It need not do so
 * for packets of ordinary sockets, where the kernel has chosen the place. */
#ifndef MK_BPF_PARTIAL_H
#define MK_BPF_PARTIAL_H

#include "packet.h"

#define MK_CHECKSUM_PARTIAL 3 /* linux/skbuff.h */
#define MK_AF_INET	    2 /* linux/socket.h */
#define MK_AF_INET6	    10

struct skb_window {
	__u8 byte[MK_SKB_WINDOW_BYTES];
} __attribute__((aligned(8)));

static __always_inline int window_u16(const struct skb_window *window, __u32 off)
{
	return *(const __u16 *)(window->byte + off);
}

static __always_inline int is_partial(const struct skb_window *window)
{
	return (window->byte[mk_node.skb.summed_off] >> mk_node.skb.summed_shift & 3) ==
	       MK_CHECKSUM_PARTIAL;
}

/* The place of the checksum, in bytes from the beginning of layer 4. All three offsets count from
 * the same byte, the buffer's first. */
static __always_inline int partial_place(const struct skb_window *window, const struct packet *pkt)
{
	int start = window_u16(window, mk_node.skb.csum_off);
	int offset = window_u16(window, mk_node.skb.csum_off + 2);
	int network = window_u16(window, mk_node.skb.network_off);

	return start + offset - network - (pkt->l4_off - MK_L3_OFF);
}

/* May a device write the checksum at @place? It may write that of layer 4. In UDP and in other
 * protocols a pod may have a tunnel of its own: the place is then behind the outer headers. */
static __always_inline int is_checksum_place(const struct packet *pkt, int place)
{
	if (pkt->fragment == MK_LATER_FRAGMENT)
		return 0;
	switch (pkt->tuple.proto) {
	case IPPROTO_TCP:
		return place == offsetof(struct tcphdr, check);
	case IPPROTO_UDP:
		return place == offsetof(struct udphdr, check) ||
		       place >= (int)sizeof(struct udphdr);
	case IPPROTO_SCTP:
		return place == offsetof(struct sctp_header, checksum_le);
	case MK_IPPROTO_ICMP:
		return place == offsetof(struct icmphdr, checksum);
	default:
		return place >= 0;
	}
}

/* Has an IPv4 or IPv6 socket sent the packet, which nothing has forwarded since? Packet and XDP
 * sockets choose the place, so do virtual machines. */
static __always_inline int is_of_inet_socket(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	return !mk_node.skb.of_all_sockets && sk &&
	       (sk->family == MK_AF_INET || sk->family == MK_AF_INET6);
}

/* Refuse a packet of a pod whose checksum would be written over a header. */
static __always_inline int check_partial(struct __sk_buff *skb, const struct packet *pkt)
{
	struct skb_window window;

	if (!mk_node.skb.off || is_of_inet_socket(skb) ||
	    bpf_probe_read_kernel(&window, sizeof(window), (void *)skb + mk_node.skb.off) ||
	    !is_partial(&window) || is_checksum_place(pkt, partial_place(&window, pkt)))
		return MK_GO_ON;
	return MK_DROP_CHECKSUM_PLACE;
}

#endif
