/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/session.h - find, follow and promote sessions. A session is a pair of entries, one per
 * direction; each says what its packets have to show afterwards (include/monokube/abi.h).
 *
 * A new session lives in a table where the oldest makes room (order.h), so a flood of first packets evicts
 * only first packets; one of TCP at once where it is going to stay, as long as there is room for such
 * ones (session_room()). With the client's next packet after an answer (TCP: which acknowledges the server's
 * sequence number; SCTP: the handshake is done) it moves to the table that is never evicted. An answer alone does
 * not do: one question, such as a name, needs no place there, and servers answer made-up clients. Pings
 * stay in the new ones' table, and for some seconds what UDP leaves behind when it moves
 * (session_leave()). */
#ifndef MK_BPF_SESSION_H
#define MK_BPF_SESSION_H

#include <linux/errno.h>

#include "account.h"
#include "kept.h"
#include "order.h"
#include "pair.h"
#include "rewrite.h"

#define MK_LAST_SEEN_GRAIN_NS MK_SECOND_NS

/* A client acknowledges no more than this beyond the server's first byte before the handshake is done: its SYN's
 * window, of which a server with data ahead (TCP Fast Open) may make use. */
#define MK_ACK_WINDOW 65535

/* An RST is believed up to so much beyond what its receiver has acknowledged, which was noted a second ago at most. */
#define MK_RST_WINDOW (1 << 22)

/* Packets that were on their way when an RST passed have arrived after that. */
#define MK_RST_SETTLED_S 2

/* What a packet learns from its session; a copy, because promotion frees the entry. */
struct session_hit {
	struct mk_tuple to;
	__u8 flags; /* enum mk_session_flags */
	__u8 completed; /* the packet has completed its session: the client is where it says that it is */
	/* of session_find_or_over(): the entries of a session that is not followed, as it has ended and the client
	 * uses its port again; NULL: none, or it has no other direction */
	struct mk_session *over, *over_peer;
};

static __always_inline void session_note_ack(struct __sk_buff *skb, const struct packet *pkt,
					     struct mk_session *session)
{
	const struct tcphdr *tcp = packet_at(skb, pkt->l4_off, sizeof(*tcp));

	if (pkt->l4 == MK_L4_TCP && tcp && session->stage == MK_SESSION_OPEN &&
	    (pkt->tcp_flags & (MK_TCP_ACK | MK_TCP_RST)) == MK_TCP_ACK)
		session->ack = bpf_ntohl(tcp->ack_seq);
}

/* May the receiver of the RST @pkt, of whose direction @peer is the entry, take it? It does only where the sequence
 * number is the next one (RFC 5961, 3.2). Before the handshake is done any counts. */
static __always_inline int session_takes_reset(struct __sk_buff *skb, const struct packet *pkt,
					       const struct mk_session *peer)
{
	const struct tcphdr *tcp = packet_at(skb, pkt->l4_off, sizeof(*tcp));

	if (pkt->l4 != MK_L4_TCP || !tcp || !peer || peer->stage != MK_SESSION_OPEN || !peer->ack)
		return 1;
	return bpf_ntohl(tcp->seq) - peer->ack <= MK_RST_WINDOW;
}

/* @session has an RST, or @pkt is one. After an RST that its receiver took, either side sends no other packet: one that
 * comes later shows that it was ignored. Returns 1 when the direction ends. */
static __always_inline int session_mark_reset(struct __sk_buff *skb, struct session_tables tables,
					      struct mk_session *session, const struct packet *pkt,
					      __u64 now_ns)
{
	struct mk_session *peer = session_peer(tables, session);
	__u16 now_s = now_ns / MK_SECOND_NS;

	if (pkt->tcp_flags & MK_TCP_RST) {
		if (session->reset || !session_takes_reset(skb, pkt, peer))
			return 0;
		session->reset = MK_SESSION_RST;
		if (peer)
			peer->reset_s = now_s ?: 0xffff; /* a second earlier */
		return 1;
	}
	if (!peer)
		return 0;
	if (session->reset_s && (__u16)(now_s - session->reset_s) >= MK_RST_SETTLED_S) {
		session->reset_s = 0;
		peer->reset = 0;
	}
	if (peer->reset_s && (__u16)(now_s - peer->reset_s) >= MK_RST_SETTLED_S) {
		peer->reset_s = 0;
		session->reset = 0;
	}
	return 0;
}

/* Returns 1 once a second, and when the direction ends. */
static __always_inline int session_mark(struct __sk_buff *skb, struct session_tables tables,
					struct mk_session *session, const struct packet *pkt)
{
	__u64 now_ns = session_clock_ns();
	int news = 0;

	/* written once a second: where nothing is counted, the line stays shared between CPUs */
	if (now_ns - session->last_seen_ns > MK_LAST_SEEN_GRAIN_NS) {
		session->last_seen_ns = now_ns;
		session_note_ack(skb, pkt, session);
		news = 1;
	}
	if (pkt->tcp_flags & MK_TCP_FIN && !session->fin) {
		session->fin = MK_SESSION_FIN;
		news = 1;
	}
	if (session->reset_s || session->reset || pkt->tcp_flags & MK_TCP_RST)
		news |= session_mark_reset(skb, tables, session, pkt, now_ns);
	return news;
}

static __always_inline void session_touch(struct __sk_buff *skb, struct session_tables tables,
					  struct mk_session *session, const struct packet *pkt)
{
	int news = session_mark(skb, tables, session, pkt);

	if (!tables.of_services || !session->account_id)
		return;
	account_gather(skb, pkt, session);
	if (news)
		account_flush(session, NULL);
}

/* A SYN; of SCTP an INIT (parse_sctp()). */
static __always_inline int is_first_flags(__u8 tcp_flags)
{
	return (tcp_flags & (MK_TCP_SYN | MK_TCP_ACK)) == MK_TCP_SYN;
}

static __always_inline int is_first_of_tcp(const struct packet *pkt)
{
	return is_first_flags(pkt->tcp_flags);
}

/* A SYN on a half-open session that was refused, or given up by the client, opens a new one: its
 * backend may be another's by now. */
static __always_inline int session_refused(struct session_tables tables, const struct mk_tuple *key,
					   struct mk_session *session)
{
	struct mk_tuple peer_key;
	struct mk_session *peer;

	session_peer_key(&peer_key, session);
	peer = bpf_map_lookup_elem(tables.half_open, &peer_key);
	if (!peer || !(session->reset | peer->reset))
		return 0;
	if (tables.of_services)
		account_flush(session, peer);
	bpf_map_delete_elem(tables.half_open, key);
	bpf_map_delete_elem(tables.half_open, &peer_key);
	return 1;
}

/* Returns 0: @key is in @established, by us or by another CPU, whose entry stays as it is: a lookup
 * misses one that is just being replaced. An int, as before Linux 6.4 the map's function returns one, and the upper
 * half of the register is anything. */
static __always_inline int session_establish(void *established, const struct mk_tuple *key,
					     const struct mk_session *session)
{
	int ret = (int)bpf_map_update_elem(established, key, session, BPF_NOEXIST);

	return ret && ret != -EEXIST ? -1 : 0;
}

/* The pair is in the other table. A packet on another CPU may have looked there before it was, and be
 * about to look here: with TCP and SCTP there is none, as the server says nothing before the packet that
 * moves the pair (TCP Fast Open aside). A UDP server may, so its pair stays here too, until the agent's
 * sweep. */
static __always_inline void session_leave(struct session_tables tables, const struct mk_tuple *key,
					  struct mk_session *session,
					  const struct mk_tuple *peer_key, struct mk_session *peer)
{
	if (key->proto == IPPROTO_UDP) {
		session->stage = MK_SESSION_MOVED;
		peer->stage = MK_SESSION_MOVED;
		return;
	}
	bpf_map_delete_elem(tables.half_open, key);
	bpf_map_delete_elem(tables.half_open, peer_key);
}

/* Both directions were seen: move the pair to the table that is never evicted. Returns 0, or -1: that is full, the pair
 * stays where it is and goes on working. */
static __always_inline int session_move(struct session_tables tables, const struct mk_tuple *key,
					struct mk_session *session, const struct mk_tuple *peer_key,
					struct mk_session *peer)
{
	struct mk_session copy;

	copy = *session;
	if (key->proto != IPPROTO_UDP)
		copy.stage = MK_SESSION_OPEN;
	copy.last_seen_ns = session_clock_ns();
	if (session_establish(tables.established, key, &copy))
		return -1;
	copy = *peer;
	if (key->proto != IPPROTO_UDP)
		copy.stage = MK_SESSION_OPEN;
	if (session_establish(tables.established, peer_key, &copy)) {
		bpf_map_delete_elem(tables.established, key);
		return -1;
	}
	session_leave(tables, key, session, peer_key, peer);
	return 0;
}

/* As session_move(), with the room of one that is over or idle, if there is no other. Returns 1, or 0. */
static __always_inline int session_promote(struct session_tables tables, const struct mk_tuple *key,
					   struct mk_session *session,
					   const struct mk_tuple *peer_key, struct mk_session *peer)
{
	if (tables.of_services)
		account_flush(session, peer);
	for (int i = 0; i < 2; i++) {
		if (session_move(tables, key, session, peer_key, peer) == 0)
			return 1;
		if (i == 0)
			kept_make_room(tables);
	}
	if (key->proto != IPPROTO_UDP)
		session->stage = MK_SESSION_OPEN; /* for when there is room */
	return 0;
}

/* For the verifier: what is asked of them here it need not know afterwards. */
static __always_inline __u8 session_tcp_flags(const struct packet *pkt)
{
	return forgotten(pkt->tcp_flags, pkt->tuple.sport);
}

static __always_inline __u8 session_l4(const struct packet *pkt)
{
	return forgotten(pkt->l4, pkt->tuple.sport);
}

static __always_inline __u8 session_flags(const struct mk_session *session)
{
	return *(const volatile __u8 *)&session->flags;
}

static __always_inline int session_has_reply(const struct mk_session *session)
{
	return session->replied;
}

/* The server's packet @pkt says what the client has to acknowledge: a SYN-ACK its initial sequence number, the last
 * one if there are several (SYN cookies). Of a flow that has no session from its beginning it is any packet's number.
 * Returns 0, or -1: it says nothing about it. */
static __always_inline int session_note_sequence(struct __sk_buff *skb, const struct packet *pkt,
						 struct mk_session *session,
						 struct mk_session *forward)
{
	const struct tcphdr *tcp = packet_at(skb, pkt->l4_off, sizeof(*tcp));
	__u8 flags = session_tcp_flags(pkt);
	__u32 ack;

	if (!tcp || !(flags & MK_TCP_ACK))
		return -1;
	if (!(flags & MK_TCP_SYN) && session_has_reply(forward))
		return -1;
	ack = bpf_ntohl(tcp->seq) + !!(flags & MK_TCP_SYN);
	forward->ack = ack ?: 0xffffffff; /* 0 is within the window of that */
	session->ack = bpf_ntohl(tcp->ack_seq);
	return 0;
}

/* A packet of the server on a half-open session. */
static __always_inline void session_answered(struct __sk_buff *skb, struct session_tables tables,
					     const struct packet *pkt, struct mk_session *session,
					     struct mk_session *forward)
{
	if (pkt->l4 == MK_L4_TCP && session_note_sequence(skb, pkt, session, forward))
		return;
	forward->replied = 1;
	if (tables.of_services && pkt->l4 == MK_L4_UDP)
		account_flush(session, forward); /* it may have been the last packet */
}

/* Does the client's packet @pkt complete the half-open @session? Of TCP it has to show that the client has got what the
 * server said: anybody can send a SYN, and what comes after it, from an address that is not its own. */
static __always_inline int session_is_completed(struct __sk_buff *skb, const struct packet *pkt,
						const struct mk_session *session)
{
	__u8 flags = session_tcp_flags(pkt);
	const struct tcphdr *tcp;

	if (!session_has_reply(session) || flags & (MK_TCP_SYN | MK_TCP_RST))
		return 0;
	if (pkt->l4 != MK_L4_TCP)
		return 1;
	if (!(flags & MK_TCP_ACK))
		return 0;
	if (session->stage == MK_SESSION_OPEN || !session->ack)
		return 1;
	tcp = packet_at(skb, pkt->l4_off, sizeof(*tcp));
	return tcp && bpf_ntohl(tcp->ack_seq) - session->ack <= MK_ACK_WINDOW;
}

/* A packet of a half-open session: is this the one that completes it? Returns 1, or 0. */
static __always_inline int session_progress(struct __sk_buff *skb, struct session_tables tables,
					    int is_in_established, const struct packet *pkt,
					    struct mk_session *session)
{
	struct mk_tuple peer_key;
	struct mk_session *peer;

	if (pkt->l4 != MK_L4_TCP && pkt->l4 != MK_L4_UDP && pkt->l4 != MK_L4_SCTP)
		return 0;
	if (session->stage == MK_SESSION_MOVED)
		return 0;
	if (session_flags(session) & MK_SESSION_FORWARD) {
		if (!session_is_completed(skb, pkt, session))
			return 0;
	} else if (session_tcp_flags(pkt) & MK_TCP_RST) {
		return 0; /* refused: nothing to keep */
	}
	session_peer_key(&peer_key, session);
	peer = bpf_map_lookup_elem(is_in_established ? tables.established : tables.half_open,
				   &peer_key);
	if (!peer)
		return 0;
	if (!(session_flags(session) & MK_SESSION_FORWARD)) {
		session_answered(skb, tables, pkt, session, peer);
		return 0;
	}
	if (!is_in_established)
		return session_promote(tables, &pkt->tuple, session, &peer_key, peer);
	session->stage = MK_SESSION_OPEN;
	peer->stage = MK_SESSION_OPEN;
	session_give_room();
	return 1;
}

/* An echo request belongs to the side that pings, a reply to the other: ids may be equal. */
static __always_inline int session_fits(const struct mk_session *session, const struct packet *pkt)
{
	if (pkt->l4 == MK_L4_ECHO_REQUEST)
		return session->flags & MK_SESSION_FORWARD;
	if (pkt->l4 == MK_L4_ECHO_REPLY)
		return !(session->flags & MK_SESSION_FORWARD);
	return 1;
}

/* A SYN on a session that has ended opens a new one: the client uses its port again. */
static __always_inline int session_has_ended(struct session_tables tables,
					     struct mk_session *session, struct session_hit *hit)
{
	struct mk_session *peer = session_peer(tables, session);

	if (!session_is_over(session, peer))
		return 0;
	hit->over = session;
	hit->over_peer = peer;
	return 1;
}

/* Copy what @session says of the packet. An entry that another CPU evicts belongs to another flow at once: this is a copy
 * of one session if that has the same time of creation, *@created_ns, before and after. Returns 0, or -1: it has just
 * gone. */
static __always_inline int session_read(const struct mk_session *session, struct session_hit *hit,
					__u64 *created_ns)
{
	const volatile __u64 *now_ns = &session->created_ns;

	*created_ns = *now_ns;
	hit->to = session->to;
	hit->flags = session->flags;
	asm volatile("" : : : "memory");
	return *now_ns == *created_ns ? 0 : -1;
}

/* The session of @pkt. Returns 1 and fills @hit, or 0: then what is over is the caller's to end (session_end()), or to
 * open again (reopen.h). */
static __always_inline int session_find_or_over(struct __sk_buff *skb, struct session_tables tables,
						const struct packet *pkt, struct session_hit *hit)
{
	struct mk_session *session = bpf_map_lookup_elem(tables.established, &pkt->tuple);
	__u64 created_ns;

	hit->completed = 0;
	hit->over = NULL;
	hit->over_peer = NULL; /* clang copies it before it asks whether there is one */
	if (session) {
		if (is_first_of_tcp(pkt) && session_has_ended(tables, session, hit))
			return 0;
		if (session_read(session, hit, &created_ns))
			return 0;
		session_touch(skb, tables, session, pkt);
		if (session_is_half_open(session) &&
		    session_progress(skb, tables, 1, pkt, session)) {
			kept_enter(tables, &pkt->tuple, created_ns);
			hit->completed = 1;
		}
		return 1;
	}
	session = bpf_map_lookup_elem(tables.half_open, &pkt->tuple);
	if (!session || !session_fits(session, pkt))
		return 0;
	if (is_first_of_tcp(pkt) && session_refused(tables, &pkt->tuple, session))
		return 0;
	if (session_read(session, hit, &created_ns))
		return 0;
	session_touch(skb, tables, session, pkt);
	if (!session->spoke && session->flags & MK_SESSION_FORWARD && !is_first_of_tcp(pkt))
		session->spoke = 1;
	if (session_progress(skb, tables, 0, pkt, session)) {
		kept_enter(tables, &pkt->tuple, created_ns);
		hit->completed = 1;
	}
	return 1;
}

static __always_inline void session_end(struct session_tables tables, const struct packet *pkt,
					struct session_hit *hit)
{
	if (hit->over)
		session_remove(tables, &pkt->tuple, hit->over, hit->over_peer);
	hit->over = NULL;
}

/* As session_find_or_over(), for who opens none again. */
static __always_inline int session_find(struct __sk_buff *skb, struct session_tables tables,
					const struct packet *pkt, struct session_hit *hit)
{
	int ret = session_find_or_over(skb, tables, pkt, hit);

	session_end(tables, pkt, hit);
	return ret;
}

static __always_inline int is_connection(const struct packet *pkt)
{
	return pkt->l4 == MK_L4_TCP || pkt->l4 == MK_L4_SCTP;
}

/* May @pkt be of a connection whose frontend is gone? Datagrams do not outlive theirs. */
static __always_inline int may_outlive_frontend(const struct packet *pkt)
{
	const struct mk_runtime *settings;

	if (!is_connection(pkt))
		return 0;
	settings = runtime_settings();
	return settings && settings->frontends_gone;
}

/* Make @pkt show what its session says. Returns MK_PARSED or a drop reason. */
static __always_inline int session_follow(struct __sk_buff *skb, struct packet *pkt,
					  const struct session_hit *hit, __u8 *chain_flags)
{
	*chain_flags |= hit->flags & CHAIN_OF_SESSION;
	return rewrite(skb, pkt, &hit->to, chain_flags) ?: MK_PARSED;
}

#endif
