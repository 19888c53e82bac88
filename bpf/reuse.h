/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/reuse.h - port reuse: a client opens another connection from the port of one that is over,
 * to the same backend. The session's entries stay in the established table and are rewritten in
 * place. This saves removing two entries, inserting two, and looking up the client's sockets
 * (collision.h). No other flow can have the same answers: while the entries existed, no such flow
 * could be opened.
 *
 * The agent's sweep may remove an entry at any moment. If it does so before the entry is rewritten,
 * the look-up after the write finds no entry. If it does so later, the sweep sees that the entry is
 * new and puts it back (src/datapath/sessions/sweep.h: session_remove_old()). */
#ifndef MK_BPF_REUSE_H
#define MK_BPF_REUSE_H

#include "open.h"

/* Are @session and @peer, which are over, the entries that @request would insert for @pkt? */
static __always_inline int reuse_fits(const struct packet *pkt, const struct mk_session *session,
				      const struct mk_session *peer,
				      const struct session_request *request)
{
	struct mk_tuple to = request->to, back;

	if (request->source_port) /* any free port will do, and this session's port is free */
		to.sport = session->to.sport;
	tuple_reverse(&back, &pkt->tuple);
	return session->service_id == request->service_id && tuple_eq(&session->to, &to) &&
	       tuple_eq(&peer->to, &back);
}

static __always_inline void reuse_entry(struct mk_session *session,
					const struct session_request *request, __u8 flags,
					__u64 now_ns)
{
	session->created_ns = now_ns;
	session->last_seen_ns = now_ns;
	session->set_id = request->set_id;
	session->flags = flags;
	session->replied = 0;
	session->stage = 0;
	session->fin = 0;
	session->reset = 0;
	session->ack = 0;
	session->reset_s = 0;
	session->to.path = request->to.path;
	session->policy_seen = request->policy_seen;
}

static __always_inline int reuse_is_there(struct session_tables tables, const struct mk_tuple *key,
					  __u64 now_ns)
{
	struct mk_session *session = bpf_map_lookup_elem(tables.established, key);

	return session && session->created_ns == now_ns;
}

/* A full barrier: other CPUs see the writes before this program's next reads. It adds 0, which is
 * hidden from the compiler. With a constant 0 clang would emit an atomic OR, which Linux 5.10 does
 * not have. */
static __always_inline void reuse_barrier(struct mk_session *session)
{
	__u32 nothing = 0;

	asm volatile("" : "+r"(nothing));
	__sync_fetch_and_add(&session->packets, nothing);
}

/* Rewrite both entries. Returns 0, or -1 if they are no longer in the table. */
static __always_inline int reuse_pair(struct session_tables tables, const struct packet *pkt,
				      struct mk_session *session, struct mk_session *peer,
				      const struct session_request *request)
{
	__u64 now_ns = session_clock_ns();
	union tuple_key peer_key;

	session_peer_key(&peer_key, session);
	if (tables.of_services)
		account_flush(session, peer);
	reuse_entry(session, request, request->forward_flags, now_ns);
	reuse_entry(peer, request, request->reverse_flags, now_ns);
	reuse_barrier(session);
	return reuse_is_there(tables, &pkt->tuple, now_ns) &&
			       reuse_is_there(tables, &peer_key.tuple, now_ns)
		       ? 0
		       : -1;
}

/* If the previous program found that the session of @pkt is over, find it again and set
 * hit->over. */
static __always_inline void session_find_over(struct session_tables tables, __u8 chain_flags,
					      const struct packet *pkt, struct session_hit *hit)
{
	struct mk_session *session;

	hit->over = NULL;
	hit->over_peer = NULL;
	if (!(chain_flags & CHAIN_REUSES))
		return;
	session = bpf_map_lookup_elem(tables.established, &pkt->tuple);
	if (session)
		session_has_ended(tables, session, hit);
}

/* Reuse the entries of hit->over for the session that @request asks for, if they fit. The session
 * is half-open again, so the half-open quota must have a free slot. Returns 1 with request->to
 * complete. Returns 0 if session_open() is needed; then the old session has been removed. */
static __always_inline int session_reuse(struct session_tables tables, const struct packet *pkt,
					 struct session_hit *hit, struct session_request *request)
{
	struct mk_session *session = hit->over, *peer = hit->over_peer;
	__s64 *quota = quota_of_this_cpu();

	if (!session)
		return 0;
	if (pkt->l4 != MK_L4_TCP || !peer || !quota || *quota <= 0 ||
	    !reuse_fits(pkt, session, peer, request)) {
		session_end(tables, pkt, hit);
		return 0;
	}
	if (!session_is_half_open(session))
		(*quota)--;
	if (reuse_pair(tables, pkt, session, peer, request)) {
		session_end(tables, pkt, hit);
		return 0;
	}
	hit->over = NULL;
	request->to.sport = session->to.sport;
	return 1;
}

#endif
