/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/reopen.h - a client opens another connection from the port of one that is over, to the same backend. The
 * session's entries stay in the table of established ones and are written anew: otherwise two are removed and two
 * made, and the client's sockets asked (beside.h). That no other flow shows the same answers is known here:
 * while the entries were there, none could be opened.
 *
 * The agent's sweep may take an entry out at any moment. What it took before it was written is not there when it
 * is looked up again; what it takes later is young, and put back (src/datapath/sweep.h: mk_session_remove_old()). */
#ifndef MK_BPF_REOPEN_H
#define MK_BPF_REOPEN_H

#include "open.h"

/* Are @session and @peer, which are over, what @request would enter for @pkt? */
static __always_inline int reopen_fits(const struct packet *pkt, const struct mk_session *session,
				       const struct mk_session *peer,
				       const struct session_request *request)
{
	struct mk_tuple to = request->to, back;

	if (request->source_port) /* any free one: this session's is */
		to.sport = session->to.sport;
	tuple_reverse(&back, &pkt->tuple);
	return session->account_id == request->account_id && tuple_eq(&session->to, &to) &&
	       tuple_eq(&peer->to, &back);
}

static __always_inline void reopen_entry(struct mk_session *session,
					 const struct session_request *request, __u8 flags,
					 __u64 now_ns)
{
	session->created_ns = now_ns;
	session->last_seen_ns = now_ns;
	session->service_id = request->service_id;
	session->flags = flags;
	session->replied = 0;
	session->stage = 0;
	session->fin = 0;
	session->reset = 0;
	session->ack = 0;
	session->reset_s = 0;
}

static __always_inline int reopen_is_there(struct session_tables tables, const struct mk_tuple *key,
					   __u64 now_ns)
{
	struct mk_session *session = bpf_map_lookup_elem(tables.established, key);

	return session && session->created_ns == now_ns;
}

/* What was written is seen by others before what comes after is read. An addition of what the compiler does not know to be
 * nothing: it would make it an OR, which Linux 5.10 does not have. */
static __always_inline void reopen_barrier(struct mk_session *session)
{
	__u32 nothing = 0;

	asm volatile("" : "+r"(nothing));
	__sync_fetch_and_add(&session->packets, nothing);
}

/* Write both entries. Returns 0, or -1: they are not in the table any more. */
static __always_inline int reopen_pair(struct session_tables tables, const struct packet *pkt,
				       struct mk_session *session, struct mk_session *peer,
				       const struct session_request *request)
{
	__u64 now_ns = session_clock_ns();
	struct mk_tuple peer_key;

	session_peer_key(&peer_key, session);
	if (tables.of_services)
		account_flush(session, peer);
	reopen_entry(session, request, MK_SESSION_FORWARD, now_ns);
	reopen_entry(peer, request, request->reverse_flags, now_ns);
	reopen_barrier(session);
	return reopen_is_there(tables, &pkt->tuple, now_ns) &&
			       reopen_is_there(tables, &peer_key, now_ns)
		       ? 0
		       : -1;
}

/* Fill @hit with the session of @pkt that session_find_or_over() has found to be over, in the program before. */
static __always_inline void session_find_over(struct session_tables tables,
					      const struct packet *pkt, struct session_hit *hit)
{
	struct mk_session *session;

	hit->over = NULL;
	hit->over_peer = NULL;
	if (!is_first_of_tcp(pkt))
		return;
	session = bpf_map_lookup_elem(tables.established, &pkt->tuple);
	if (session)
		session_has_ended(tables, session, hit);
}

/* Does hit->over serve as the session that @request asks for? Half open again, so there has to be room. Returns 1 with
 * request->to complete, or 0: it takes a session_open(), and what was over is gone. */
static __always_inline int session_reopen(struct session_tables tables, const struct packet *pkt,
					  struct session_hit *hit, struct session_request *request)
{
	struct mk_session *session = hit->over, *peer = hit->over_peer;
	__s64 *room = session_room();

	if (!session)
		return 0;
	if (pkt->l4 != MK_L4_TCP || !peer || !room || *room <= 0 ||
	    !reopen_fits(pkt, session, peer, request)) {
		session_end(tables, pkt, hit);
		return 0;
	}
	if (!session_is_half_open(session))
		(*room)--;
	if (reopen_pair(tables, pkt, session, peer, request)) {
		session_end(tables, pkt, hit);
		return 0;
	}
	hit->over = NULL;
	request->to.sport = session->to.sport;
	return 1;
}

#endif
