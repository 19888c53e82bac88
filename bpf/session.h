/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/session.h - find, open and promote sessions. A session is a pair of entries, one per
 * direction; each says what its packets have to show afterwards (include/monokube/abi.h).
 *
 * A new session lives in an LRU table, so a flood of first packets evicts only first packets. With
 * the client's next packet after an answer (TCP, SCTP: the handshake is done) it moves to the table that
 * is never evicted and only expired by user space. An answer alone does not do: one question, such as
 * a name, needs no place there, and servers answer made-up clients. Pings stay in the LRU table. */
#ifndef MK_BPF_SESSION_H
#define MK_BPF_SESSION_H

#include "account.h"
#include "rewrite.h"

#define MK_NAT_PROBES	      16
#define MK_SECOND_NS	      1000000000ULL
#define MK_LAST_SEEN_GRAIN_NS MK_SECOND_NS

/* CLOCK_MONOTONIC, of the last timer tick where the kernel offers that: a session's times need no
 * more, and reading the hardware's clock is a twentieth of what an established packet costs. */
static __always_inline __u64 session_clock_ns(void)
{
	return mk_node.has_coarse_clock ? bpf_ktime_get_coarse_ns() : bpf_ktime_get_ns();
}

/* The two tables of ilb and elb, or of nat. */
struct session_tables {
	void *established, *half_open;
	int of_services; /* some of their sessions are a Service's, and counted; known at build */
};
#define SERVICE_SESSIONS ((struct session_tables){ &sessions, &sessions_new, 1 })
#define NAT_SESSIONS	 ((struct session_tables){ &nat_sessions, &nat_sessions_new, 0 })

/* What a packet learns from its session; a copy, because promotion frees the entry. */
struct session_hit {
	struct mk_tuple to;
	__u8 flags; /* enum mk_session_flags */
};

static __always_inline void session_peer_key(struct mk_tuple *key, const struct mk_session *session)
{
	tuple_reverse(key, &session->to);
}

/* Returns 1 once a second, and when the direction ends. */
static __always_inline int session_mark(struct mk_session *session, const struct packet *pkt)
{
	__u64 now_ns = session_clock_ns();
	int news = 0;

	/* written once a second: where nothing is counted, the line stays shared between CPUs */
	if (now_ns - session->last_seen_ns > MK_LAST_SEEN_GRAIN_NS) {
		session->last_seen_ns = now_ns;
		news = 1;
	}
	if (pkt->tcp_flags & MK_TCP_FIN && !(session->flags & MK_SESSION_FIN)) {
		session->flags |= MK_SESSION_FIN;
		news = 1;
	}
	if (pkt->tcp_flags & MK_TCP_RST && !(session->flags & MK_SESSION_RST)) {
		session->flags |= MK_SESSION_RST;
		news = 1;
	}
	return news;
}

static __always_inline void session_touch(const struct __sk_buff *skb, struct session_tables tables,
					  struct mk_session *session, const struct packet *pkt)
{
	int news = session_mark(session, pkt);

	if (!tables.of_services || !session->account_id)
		return;
	account_gather(skb, pkt, session);
	if (news)
		account_flush(session, NULL);
}

/* Of SCTP, too: an INIT (parse_sctp()). */
static __always_inline int is_first_of_tcp(const struct packet *pkt)
{
	return (pkt->tcp_flags & (MK_TCP_SYN | MK_TCP_ACK)) == MK_TCP_SYN;
}

/* A SYN on a session that has ended opens a new one: the client reuses its port. */
static __always_inline int session_ended(struct session_tables tables, const struct mk_tuple *key,
					 struct mk_session *session)
{
	struct mk_tuple peer_key;
	struct mk_session *peer;

	session_peer_key(&peer_key, session);
	peer = bpf_map_lookup_elem(tables.established, &peer_key);
	if (peer && !((session->flags | peer->flags) & MK_SESSION_RST) &&
	    !(session->flags & peer->flags & MK_SESSION_FIN))
		return 0;
	if (tables.of_services)
		account_flush(session, peer);
	bpf_map_delete_elem(tables.established, key);
	bpf_map_delete_elem(tables.established, &peer_key);
	return 1;
}

/* So does one on a half-open session that was refused: its backend may be another's by now. */
static __always_inline int session_refused(struct session_tables tables, const struct mk_tuple *key,
					   struct mk_session *session)
{
	struct mk_tuple peer_key;
	struct mk_session *peer;

	session_peer_key(&peer_key, session);
	peer = bpf_map_lookup_elem(tables.half_open, &peer_key);
	if (!peer || !(peer->flags & MK_SESSION_RST))
		return 0;
	if (tables.of_services)
		account_flush(session, peer);
	bpf_map_delete_elem(tables.half_open, key);
	bpf_map_delete_elem(tables.half_open, &peer_key);
	return 1;
}

/* Both directions were seen: move the pair to the table that is never evicted. Where that is
 * full the pair stays where it is and goes on working. */
static __always_inline void session_promote(struct session_tables tables,
					    const struct mk_tuple *key, struct mk_session *session,
					    const struct mk_tuple *peer_key,
					    struct mk_session *peer)
{
	struct mk_session copy;

	if (tables.of_services)
		account_flush(session, peer);
	copy = *session;
	if (key->proto != IPPROTO_UDP)
		copy.flags |= MK_SESSION_OPEN;
	copy.last_seen_ns = session_clock_ns();
	if (bpf_map_update_elem(tables.established, key, &copy, BPF_ANY))
		return;
	copy = *peer;
	if (key->proto != IPPROTO_UDP)
		copy.flags |= MK_SESSION_OPEN;
	if (bpf_map_update_elem(tables.established, peer_key, &copy, BPF_ANY)) {
		bpf_map_delete_elem(tables.established, key);
		return;
	}
	bpf_map_delete_elem(tables.half_open, key);
	bpf_map_delete_elem(tables.half_open, peer_key);
}

/* A packet of a half-open session: is this the one that completes it? */
static __always_inline void session_progress(struct session_tables tables, const struct packet *pkt,
					     struct mk_session *session)
{
	struct mk_tuple peer_key;
	struct mk_session *peer;

	if (pkt->l4 != MK_L4_TCP && pkt->l4 != MK_L4_UDP && pkt->l4 != MK_L4_SCTP)
		return;
	if (session->flags & MK_SESSION_FORWARD) {
		if (!(session->flags & MK_SESSION_REPLIED) || pkt->tcp_flags & MK_TCP_SYN)
			return;
	} else if (pkt->tcp_flags & MK_TCP_RST) {
		return; /* refused: nothing to keep */
	}
	session_peer_key(&peer_key, session);
	peer = bpf_map_lookup_elem(tables.half_open, &peer_key);
	if (!peer)
		return;
	if (!(session->flags & MK_SESSION_FORWARD)) {
		peer->flags |= MK_SESSION_REPLIED;
		if (tables.of_services && pkt->l4 == MK_L4_UDP)
			account_flush(session, peer); /* it may have been the last packet */
		return;
	}
	session_promote(tables, &pkt->tuple, session, &peer_key, peer);
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

/* The session of @pkt. Returns 1 and fills @hit, or 0. */
static __always_inline int session_find(const struct __sk_buff *skb, struct session_tables tables,
					const struct packet *pkt, struct session_hit *hit)
{
	struct mk_session *session = bpf_map_lookup_elem(tables.established, &pkt->tuple);

	if (session) {
		if (is_first_of_tcp(pkt) && session_ended(tables, &pkt->tuple, session))
			return 0;
		session_touch(skb, tables, session, pkt);
		hit->to = session->to;
		hit->flags = session->flags;
		return 1;
	}
	session = bpf_map_lookup_elem(tables.half_open, &pkt->tuple);
	if (!session || !session_fits(session, pkt))
		return 0;
	if (is_first_of_tcp(pkt) && session_refused(tables, &pkt->tuple, session))
		return 0;
	session_touch(skb, tables, session, pkt);
	hit->to = session->to;
	hit->flags = session->flags;
	session_progress(tables, pkt, session);
	return 1;
}

/* May @pkt be of a connection whose frontend is gone? Datagrams do not outlive theirs. */
static __always_inline int may_outlive_frontend(const struct packet *pkt)
{
	const struct mk_runtime *settings;

	if (pkt->l4 != MK_L4_TCP && pkt->l4 != MK_L4_SCTP)
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

struct session_request {
	struct mk_tuple to; /* what the first packet has to show */
	__u32 service_id, account_id; /* of struct mk_service; 0: no Service's */
	__u8 source_port; /* choose a free to.sport for to.saddr */
	__u8 reverse_flags; /* MK_SESSION_VIA_HOST, MK_SESSION_LOOPBACK: where answers go */
};

static __always_inline int tuple_eq(const struct mk_tuple *a, const struct mk_tuple *b)
{
	return mk_addr_eq(&a->saddr, &b->saddr) && mk_addr_eq(&a->daddr, &b->daddr) &&
	       a->sport == b->sport && a->dport == b->dport && a->proto == b->proto;
}

/* Do the answers of some session already show what the answers to @to will show? */
static __always_inline int session_reverse_taken(struct session_tables tables,
						 const struct mk_tuple *to)
{
	struct mk_tuple key;

	tuple_reverse(&key, to);
	return bpf_map_lookup_elem(tables.established, &key) ||
	       bpf_map_lookup_elem(tables.half_open, &key);
}

#define MK_NEVER_NS ~0ULL

/* Enter the answer's direction. Returns 0, or -1 if it is another session's: a client may use one
 * port towards a Service and towards its backend, or towards two Services that share it. *@answered_ns:
 * when that session was made or last answered, MK_NEVER_NS if it is established. */
static __always_inline int session_put_reverse(struct session_tables tables,
					       const struct packet *pkt,
					       const struct session_request *request,
					       __u64 *answered_ns)
{
	struct mk_session session = {
		.created_ns = session_clock_ns(),
		.service_id = request->service_id,
		.account_id = request->account_id,
		.flags = request->reverse_flags,
	};
	struct mk_session *other;
	struct mk_tuple key;

	session.last_seen_ns = session.created_ns;
	tuple_reverse(&key, &request->to);
	tuple_reverse(&session.to, &pkt->tuple);
	*answered_ns = MK_NEVER_NS;
	if (bpf_map_lookup_elem(tables.established, &key))
		return -1;
	if (bpf_map_update_elem(tables.half_open, &key, &session, BPF_NOEXIST) == 0)
		return 0;
	/* this flow's own, whose other direction was evicted? */
	other = bpf_map_lookup_elem(tables.half_open, &key);
	if (!other)
		return -1;
	*answered_ns = other->last_seen_ns;
	if (!tuple_eq(&other->to, &session.to))
		return -1;
	return bpf_map_update_elem(tables.half_open, &key, &session, BPF_ANY) ? -1 : 0;
}

static __always_inline __u32 tuple_hash(const struct mk_tuple *tuple)
{
	__u32 hash = tuple->saddr.word[0] * 0x9e3779b1;

	hash ^= tuple->daddr.word[0] * 0x85ebca6b;
	hash ^= (((__u32)tuple->sport << 16) | tuple->dport) * 0xc2b2ae35;
	hash ^= tuple->proto;
	hash ^= hash >> 15; /* finalizer of MurmurHash3 (public domain) */
	hash *= 0x85ebca6b;
	hash ^= hash >> 13;
	hash *= 0xc2b2ae35;
	return hash ^ (hash >> 16);
}

/* Forget the half-open session whose answers show the reverse of @to. */
static __always_inline void session_forget(struct session_tables tables, const struct mk_tuple *to)
{
	struct mk_tuple key, peer_key;
	struct mk_session *session;

	tuple_reverse(&key, to);
	session = bpf_map_lookup_elem(tables.half_open, &key);
	if (!session)
		return;
	session_peer_key(&peer_key, session);
	bpf_map_delete_elem(tables.half_open, &peer_key);
	bpf_map_delete_elem(tables.half_open, &key);
}

/* A source port that no live session towards the same destination uses: by hash, with a bounded
 * probe. Where all of these are taken, the half-open session without an answer for longest gives its
 * port up: a flood towards one destination takes ports from the flood. Returns 0 with request->to.sport
 * set and the answer's direction entered, or -1. */
static __always_inline int session_take_port(struct session_tables tables, const struct packet *pkt,
					     struct session_request *request)
{
	__u32 range = mk_node.nat_port_max - mk_node.nat_port_min + 1;
	__u32 at = tuple_hash(&pkt->tuple), oldest = 0;
	__u64 oldest_ns = MK_NEVER_NS, answered_ns;
	int echo = pkt->l4 == MK_L4_ECHO_REQUEST;

	for (int i = 0; i <= MK_NAT_PROBES; i++) {
		if (i == MK_NAT_PROBES)
			at = oldest;
		request->to.sport = bpf_htons(mk_node.nat_port_min + at % range);
		if (echo)
			request->to.dport = request->to.sport;
		if (i == MK_NAT_PROBES) {
			if (oldest_ns == MK_NEVER_NS)
				break;
			session_forget(tables, &request->to);
		}
		if (session_put_reverse(tables, pkt, request, &answered_ns) == 0)
			return 0;
		if (answered_ns < oldest_ns) {
			oldest_ns = answered_ns;
			oldest = at;
		}
		at = at * 0x9e3779b1 + 0x7f4a7c15;
	}
	return -1;
}

/* Open the session of which @pkt is the first packet. Returns MK_PARSED with request->to complete,
 * or a drop reason. */
static __always_inline int session_open(struct session_tables tables, const struct packet *pkt,
					struct session_request *request)
{
	struct mk_session session = {
		.created_ns = session_clock_ns(),
		.service_id = request->service_id,
		.account_id = request->account_id,
		.flags = MK_SESSION_FORWARD,
	};
	struct mk_tuple reverse;
	__u64 answered_ns;

	session.last_seen_ns = session.created_ns;
	if (!request->source_port && session_put_reverse(tables, pkt, request, &answered_ns))
		request->source_port = 1;
	if (request->source_port && session_take_port(tables, pkt, request))
		return MK_DROP_NAT_PORTS_EXHAUSTED;
	session.to = request->to;
	if (bpf_map_update_elem(tables.half_open, &pkt->tuple, &session, BPF_ANY) == 0)
		return MK_PARSED;
	tuple_reverse(&reverse, &request->to);
	bpf_map_delete_elem(tables.half_open, &reverse);
	return MK_DROP_SESSION_TABLE_FULL;
}

#endif
