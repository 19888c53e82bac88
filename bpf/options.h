/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/options.h - the options in a packet's IP header. */
#ifndef MK_BPF_OPTIONS_H
#define MK_BPF_OPTIONS_H

#include "packet.h"

/* Check the IP options (RFC 791, 3.1): a packet must not choose its route. Returns MK_GO_ON or a
 * drop reason. */
static __always_inline int check_options(struct __sk_buff *skb, const struct packet *pkt)
{
	enum { END = 0, NO_OPERATION = 1, LOOSE_SOURCE_ROUTE = 131, STRICT_SOURCE_ROUTE = 137 };
	__u32 at = 0, bytes = pkt->l4_off - MK_L3_OFF - sizeof(struct iphdr);

	if (bytes && packet_pull(skb, pkt->l4_off))
		return MK_DROP_TRUNCATED;
	for (int i = 0; i < MK_IP_OPTIONS_MAX && at < bytes; i++) {
		__u8 *option;

		at &= 0x3f; /* so that the verifier sees the same state in each round */
		option = packet_at(skb, MK_L3_OFF + sizeof(struct iphdr) + at, 1);
		if (!option || *option == END)
			return MK_GO_ON;
		if (*option == LOOSE_SOURCE_ROUTE || *option == STRICT_SOURCE_ROUTE)
			return MK_DROP_SOURCE_ROUTE;
		if (*option == NO_OPERATION) {
			at++;
			continue;
		}
		option = packet_at(skb, MK_L3_OFF + sizeof(struct iphdr) + at + 1, 1);
		if (!option || *option < 2)
			return MK_DROP_BAD_HEADER;
		at += *option;
	}
	return MK_GO_ON;
}

#endif
