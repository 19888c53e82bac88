/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/session.h - find, follow and promote sessions. A session is a pair of entries, one per
 * direction. Each entry has the tuple that its packets get (include/monokube/abi.h).
 *
 * A new session is in a table that evicts the oldest (eviction.h), so a flood of first packets
 * evicts only first packets. TCP sessions go straight into the established table while the half-
 * open quota lasts (quota_of_this_cpu()). Other sessions move to that table, which never evicts,
 * with the client's next packet after an answer. With TCP this packet must acknowledge the server's
 * sequence number; with SCTP the handshake is then complete.
 *
 * An answer alone does not suffice. A single query, such as DNS, needs no entry there, and servers
 * also answer clients with forged addresses. Pings stay in the table of new sessions. So do, for
 * some seconds, the entries that a UDP session leaves there when it moves (session_leave()). */
#ifndef MK_BPF_SESSION_H
#define MK_BPF_SESSION_H

#include <linux/errno.h>

#include "eviction.h"
#include "rewrite.h"

#define MK_LAST_SEEN_GRAIN_NS MK_SECOND_NS

/* Before the handshake is complete, a client acknowledges at most this much beyond the server's
 * first byte. It is the window of the client's SYN, which a server may use at once (TCP Fast
 * Open). */
#define MK_ACK_WINDOW 65535

/* An RST is valid up to this much beyond the acknowledgement number of its receiver, which is noted
 * once a second. */
#define MK_RST_WINDOW (1 << 22)

/* After this time, packets that were in flight when an RST passed have arrived. */
#define MK_RST_SETTLED_S 2

/* The data that a packet gets from its session: a copy, because promotion frees the entry. */
struct session_hit {
	struct mk_tuple to;
	__u8 flags; /* enum mk_session_flags */
	__u8 completed; /* the packet has completed its session: the client's address is real */
	__u16 policy_seen; /* mk_session.policy_seen */
	__u32 node; /* mk_session.set_id, a node if mk_session_node() says so */
	/* From session_find_or_over(): entries of an ended session whose client port is being
	 * reused. NULL: none, or only one direction has an entry. */
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

/* May the receiver of the RST @pkt accept it? @peer is the entry of the receiver's direction. A
 * receiver accepts an RST only with the next sequence number (RFC 5961, 3.2); the noted number may
 * be older, hence the window. Before the handshake is complete, any RST passes. */
static __always_inline int session_takes_reset(struct __sk_buff *skb, const struct packet *pkt,
					       const struct mk_session *peer)
{
	const struct tcphdr *tcp = packet_at(skb, pkt->l4_off, sizeof(*tcp));

	if (pkt->l4 != MK_L4_TCP || !tcp || !peer || peer->stage != MK_SESSION_OPEN || !peer->ack)
		return 1;
	return bpf_ntohl(tcp->seq) - peer->ack <= MK_RST_WINDOW;
}

/* Handle an RST: @pkt is one, or one of the two entries is marked with one. After an RST that was
 * accepted, neither side sends any packet but RSTs. A later packet shows that the RST was ignored,
 * and the mark is cleared. Returns 1 when the direction ends. */
static __always_inline int session_mark_reset(struct __sk_buff *skb, struct session_tables tables,
					      struct mk_session *session, const struct packet *pkt,
					      __u64 now_ns)
{
	struct mk_session *peer = session_peer(tables, session);
	__u8 now_s = now_ns / MK_SECOND_NS;

	if (pkt->tcp_flags & MK_TCP_RST) {
		if (session->reset || !session_takes_reset(skb, pkt, peer))
			return 0;
		session->reset = MK_SESSION_RST;
		if (peer)
			peer->reset_s = now_s ?: 0xff; /* 0 means none: use a second earlier */
		return 1;
	}
	if (!peer)
		return 0;
	if (session->reset_s && (__u8)(now_s - session->reset_s) >= MK_RST_SETTLED_S) {
		session->reset_s = 0;
		peer->reset = 0;
	}
	if (peer->reset_s && (__u8)(now_s - peer->reset_s) >= MK_RST_SETTLED_S) {
		peer->reset_s = 0;
		session->reset = 0;
	}
	return 0;
}

/* Update @session for @pkt. Returns 1 once a second, and when the direction ends. */
static __always_inline int session_mark(struct __sk_buff *skb, struct session_tables tables,
					struct mk_session *session, const struct packet *pkt)
{
	__u64 now_ns = session_clock_ns();
	int news = 0;

	/* written once a second: if nothing is counted, the cache line stays shared between CPUs */
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

	if (!tables.of_services || !session->service_id)
		return;
	account_gather(skb, pkt, session);
	if (news)
		account_flush(session, NULL);
}

/* Is this a SYN, or an SCTP INIT (parse_sctp())? */
static __always_inline int is_first_flags(__u8 tcp_flags)
{
	return (tcp_flags & (MK_TCP_SYN | MK_TCP_ACK)) == MK_TCP_SYN;
}

static __always_inline int is_first_of_tcp(const struct packet *pkt)
{
	return is_first_flags(pkt->tcp_flags);
}

/* A SYN arrives for a half-open session. If either side has reset that session, remove it: the SYN
 * opens a new session, whose backend may be a different one. Returns 1 if it was removed. */
static __always_inline int session_refused(struct session_tables tables, const struct mk_tuple *key,
					   struct mk_session *session)
{
	union tuple_key peer_key;
	struct mk_session *peer;

	session_peer_key(&peer_key, session);
	peer = bpf_map_lookup_elem(tables.young, &peer_key);
	if (!peer || !(session->reset | peer->reset))
		return 0;
	if (tables.of_services)
		account_flush(session, peer);
	bpf_map_delete_elem(tables.young, key);
	bpf_map_delete_elem(tables.young, &peer_key);
	return 1;
}

/* Insert @session into @established. Returns 0 if @key is in the table now, from us or from another
 * CPU. An existing entry is kept, because a lookup misses an entry that is being replaced. The
 * result is cast to int: before Linux 6.4 the map's function returns int, and the register's upper
 * half is undefined. */
static __always_inline int session_establish(void *established, const struct mk_tuple *key,
					     const struct mk_session *session)
{
	int ret = (int)bpf_map_update_elem(established, key, session, BPF_NOEXIST);

	return ret && ret != -EEXIST ? -1 : 0;
}

/* The pair is in the established table now; remove it from the table of new sessions. A packet on
 * another CPU may have missed it there and be about to look here. With TCP and SCTP there is no
 * such packet: the server sends nothing before the packet that moves the pair (TCP Fast Open
 * aside). A UDP server may send, so a UDP pair also stays here until the agent's sweep. */
static __always_inline void session_leave(struct session_tables tables, const struct mk_tuple *key,
					  struct mk_session *session,
					  const struct mk_tuple *peer_key, struct mk_session *peer)
{
	if (key->proto == IPPROTO_UDP) {
		session->stage = MK_SESSION_MOVED;
		peer->stage = MK_SESSION_MOVED;
		return;
	}
	bpf_map_delete_elem(tables.young, key);
	bpf_map_delete_elem(tables.young, peer_key);
}

static __always_inline void session_moved_copy(struct mk_session *copy, const struct mk_tuple *key,
					       const struct mk_session *session)
{
	*copy = *session;
	if (key->proto != IPPROTO_UDP)
		copy->stage = MK_SESSION_OPEN;
}

/* Move a pair that has packets in both directions to the established table. Returns 0, or -1 if
 * that table is full; then the pair stays where it is and keeps working. */
static __always_inline int session_move(struct session_tables tables, const struct mk_tuple *key,
					struct mk_session *session, const struct mk_tuple *peer_key,
					struct mk_session *peer)
{
	struct scratch *room = scratch_of_this_cpu();

	if (!room)
		return -1;
	session_moved_copy(&room->copy, key, session);
	room->copy.last_seen_ns = session_clock_ns();
	if (session_establish(tables.established, key, &room->copy))
		return -1;
	session_moved_copy(&room->copy, key, peer);
	if (session_establish(tables.established, peer_key, &room->copy)) {
		bpf_map_delete_elem(tables.established, key);
		return -1;
	}
	session_leave(tables, key, session, peer_key, peer);
	return 0;
}

/* Move the pair as session_move() does. If the table is full, remove a session that is over or idle
 * and try again. Returns 1 if the pair was moved, otherwise 0. */
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
			queue_evict(tables, TABLE_ESTABLISHED);
	}
	if (key->proto != IPPROTO_UDP)
		session->stage = MK_SESSION_OPEN; /* move with the next packet, if there is space */
	return 0;
}

/* Hide the value from the verifier, so that it does not track the results of comparisons. So does
 * session_l4(). */
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

/* Note which sequence number the client has to acknowledge, from the server's packet @pkt. A
 * SYN-ACK contains the server's initial sequence number; if there are several (SYN cookies), the
 * last one counts. In a flow without a session from its beginning, any packet's number counts, and
 * of a GSO packet its end: the client may acknowledge 64 KiB at once. Returns 0, or -1 if @pkt has
 * no such number. */
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
	if (skb->gso_size)
		ack += skb->len - pkt->l4_off - pkt->l4_len;
	forward->ack = ack ?: 0xffffffff; /* 0 means unknown; a real 0 is in this number's window */
	session->ack = bpf_ntohl(tcp->ack_seq);
	return 0;
}

/* Handle a packet of the server on a half-open session. */
static __always_inline void session_answered(struct __sk_buff *skb, struct session_tables tables,
					     const struct packet *pkt, struct mk_session *session,
					     struct mk_session *forward)
{
	if (pkt->l4 == MK_L4_TCP && session_note_sequence(skb, pkt, session, forward))
		return;
	forward->replied = 1;
	if (tables.of_services && pkt->l4 == MK_L4_UDP)
		account_flush(session, forward); /* this may be the session's last packet */
}

/* Does the client's packet @pkt complete the half-open @session? With TCP it has to acknowledge the
 * server's sequence number. Anybody can send a SYN, and further packets, from a forged address. */
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

/* Handle a packet of a half-open session. Returns 1 if it completes the session, otherwise 0. */
static __always_inline int session_progress(struct __sk_buff *skb, struct session_tables tables,
					    int is_in_established, const struct packet *pkt,
					    struct mk_session *session)
{
	union tuple_key peer_key;
	struct mk_session *peer;

	if (pkt->l4 != MK_L4_TCP && pkt->l4 != MK_L4_UDP && pkt->l4 != MK_L4_SCTP)
		return 0;
	if (session->stage == MK_SESSION_MOVED)
		return 0;
	if (session_flags(session) & MK_SESSION_FORWARD) {
		if (!session_is_completed(skb, pkt, session))
			return 0;
	} else if (session_tcp_flags(pkt) & MK_TCP_RST) {
		return 0; /* refused: nothing to note */
	}
	session_peer_key(&peer_key, session);
	peer = bpf_map_lookup_elem(is_in_established ? tables.established : tables.young,
				   &peer_key);
	if (!peer)
		return 0;
	if (!(session_flags(session) & MK_SESSION_FORWARD)) {
		session_answered(skb, tables, pkt, session, peer);
		return 0;
	}
	if (!is_in_established)
		return session_promote(tables, &pkt->tuple, session, &peer_key.tuple, peer);
	session->stage = MK_SESSION_OPEN;
	peer->stage = MK_SESSION_OPEN;
	session_return_quota();
	return 1;
}

/* Does the direction of @session fit the ping @pkt? A request belongs to the side that pings, a
 * reply to the other side. Both may use the same id. */
static __always_inline int session_fits(const struct mk_session *session, const struct packet *pkt)
{
	if (pkt->l4 == MK_L4_ECHO_REQUEST)
		return session->flags & MK_SESSION_FORWARD;
	if (pkt->l4 == MK_L4_ECHO_REPLY)
		return !(session->flags & MK_SESSION_FORWARD);
	return 1;
}

/* A SYN arrives for @session. If that session is over, the client reuses its port: set hit->over
 * and return 1. */
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

/* Copy the packet's data from @session. If another CPU evicts the entry, another flow may reuse it
 * at once. The copy is of one session if the creation time, *@created_ns, is the same before and
 * after. Returns 0, or -1 if the session has just been evicted. */
static __always_inline int session_read(const struct mk_session *session, struct session_hit *hit,
					__u64 *created_ns)
{
	const volatile __u64 *now_ns = &session->created_ns;

	*created_ns = *now_ns;
	hit->to = session->to;
	hit->flags = session->flags;
	hit->policy_seen = session->policy_seen;
	hit->node = session->set_id;
	asm volatile("" : : : "memory");
	return *now_ns == *created_ns ? 0 : -1;
}

/* Find the session of @pkt in the established table. Returns 1 and fills @hit, 0 if the session may
 * be in the table of new sessions, or -1 if there is none. */
static __always_inline int session_find_established(struct __sk_buff *skb,
						    struct session_tables tables,
						    const struct packet *pkt,
						    struct session_hit *hit)
{
	struct mk_session *session = bpf_map_lookup_elem(tables.established, &pkt->tuple);
	__u64 created_ns;

	hit->completed = 0;
	hit->over = NULL;
	hit->over_peer = NULL; /* clang copies it before it checks hit->over */
	if (!session)
		return 0;
	if (is_first_of_tcp(pkt) && session_has_ended(tables, session, hit))
		return -1;
	if (session_read(session, hit, &created_ns))
		return -1;
	session_touch(skb, tables, session, pkt);
	if (session_is_half_open(session) && session_progress(skb, tables, 1, pkt, session)) {
		queue_enter(tables, TABLE_ESTABLISHED, &pkt->tuple, created_ns);
		hit->completed = 1;
	}
	return 1;
}

/* .. in the table of new sessions. Returns 1 and fills @hit, or 0. */
static __always_inline int session_find_young(struct __sk_buff *skb, struct session_tables tables,
					      const struct packet *pkt, struct session_hit *hit)
{
	struct mk_session *session = bpf_map_lookup_elem(tables.young, &pkt->tuple);
	__u64 created_ns;

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
		queue_enter(tables, TABLE_ESTABLISHED, &pkt->tuple, created_ns);
		hit->completed = 1;
	}
	return 1;
}

/* Find the session of @pkt. Returns 1 and fills @hit, or 0. With 0, hit->over may be a session that
 * is over; the caller must remove it (session_end()) or reuse its entries (reuse.h). */
static __always_inline int session_find_or_over(struct __sk_buff *skb, struct session_tables tables,
						const struct packet *pkt, struct session_hit *hit)
{
	int ret = session_find_established(skb, tables, pkt, hit);

	return ret ? ret > 0 : session_find_young(skb, tables, pkt, hit);
}

static __always_inline void session_end(struct session_tables tables, const struct packet *pkt,
					struct session_hit *hit)
{
	if (hit->over)
		session_remove(tables, &pkt->tuple, hit->over, hit->over_peer);
	hit->over = NULL;
}

/* Find the session as session_find_or_over() does, for callers that reuse no entries. */
static __always_inline int session_find(struct __sk_buff *skb, struct session_tables tables,
					const struct packet *pkt, struct session_hit *hit)
{
	int ret = session_find_or_over(skb, tables, pkt, hit);

	session_end(tables, pkt, hit);
	return ret;
}

/* Continue in program @prog, which opens a session. */
static __always_inline int open_by(struct __sk_buff *skb, struct chain_ctx *ctx,
				   const struct packet *pkt, const struct session_hit *hit,
				   enum mk_prog prog)
{
	if (hit->over)
		ctx->flags |= CHAIN_REUSES;
	return chain_next(skb, ctx, pkt, prog);
}

static __always_inline int open_next(struct __sk_buff *skb, struct chain_ctx *ctx,
				     const struct packet *pkt, const struct session_hit *hit)
{
	return open_by(skb, ctx, pkt, hit, MK_PROG_OPEN);
}

static __always_inline int is_connection(const struct packet *pkt)
{
	return pkt->l4 == MK_L4_TCP || pkt->l4 == MK_L4_SCTP;
}

/* May @pkt belong to a connection whose frontend is gone? UDP sessions end with their frontend. */
static __always_inline int may_outlive_frontend(const struct packet *pkt)
{
	const struct mk_runtime *settings;

	if (!is_connection(pkt))
		return 0;
	settings = runtime_settings();
	return settings && settings->frontends_gone;
}

/* Translate @pkt by its session. Returns MK_GO_ON or a drop reason. */
static __always_inline int session_follow(struct __sk_buff *skb, struct packet *pkt,
					  const struct session_hit *hit, __u8 *chain_flags)
{
	*chain_flags |= hit->flags & CHAIN_OF_SESSION;
	return rewrite(skb, pkt, &hit->to, chain_flags);
}

#endif
