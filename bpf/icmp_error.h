/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/icmp_error.h - an ICMP error belongs to the session of the packet that it quotes. The error's
 * own addresses and the quoted packet are translated with that session. */
#ifndef MK_BPF_ICMP_ERROR_H
#define MK_BPF_ICMP_ERROR_H

#include "rewrite.h"
#include "scratch.h"
#include "session.h"

/* Find the session of the packet that the ICMP error @pkt quotes. *@key becomes the tuple of the
 * packets that travel as the error does, against the quoted one. Returns NULL if there is none. */
static __always_inline struct mk_session *
icmp_error_session(struct __sk_buff *skb, struct session_tables tables, const struct packet *pkt,
		   struct scratch *room, union tuple_key *key)
{
	struct mk_session *session;

	if (packet_inner(skb, pkt, &room->inner))
		return NULL;
	key_reverse(key, &room->inner.tuple);
	session = bpf_map_lookup_elem(tables.established, key);
	return session ?: bpf_map_lookup_elem(tables.young, key);
}

/* Translate an ICMP error about a packet that travels against @session, whose key is @key. The
 * router that sends the error is not part of the session: its address is kept, unless it is the
 * address that the session hides. Returns 0, or -1. */
static __always_inline int icmp_error_follow(struct __sk_buff *skb, struct packet *pkt,
					     struct scratch *room, const struct mk_tuple *key,
					     const struct mk_session *session, __u8 *chain_flags)
{
	*chain_flags |= chain_way(session->flags) & (CHAIN_VIA_HOST | CHAIN_VIA_OVERLAY);
	tuple_reverse(&room->inner_to, &session->to);
	room->outer = pkt->tuple;
	room->outer.daddr = session->to.daddr;
	if (mk_addr_eq(&pkt->tuple.saddr, &key->saddr)) {
		room->outer.saddr = session->to.saddr;
		*chain_flags |= session->flags & MK_SESSION_LOOPBACK;
	}
	return rewrite_icmp_error(skb, pkt, &room->inner, &room->inner_to, &room->outer,
				  chain_flags);
}

/* Translate an ICMP error. It travels against the quoted packet, so its session is found by the
 * quoted tuple, reversed. Returns 0, or -1 if the translation failed. If no session matches the
 * quoted packet, @chain_flags are unchanged. */
static __always_inline int icmp_error_translate(struct __sk_buff *skb, struct session_tables tables,
						struct packet *pkt, __u8 *chain_flags)
{
	struct scratch *room = scratch_of_this_cpu();
	struct mk_session *session;
	union tuple_key key;

	session = room ? icmp_error_session(skb, tables, pkt, room, &key) : NULL;
	return session ? icmp_error_follow(skb, pkt, room, &key.tuple, session, chain_flags) : 0;
}

#endif
