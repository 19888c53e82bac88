/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/pair.h - the tables of sessions, the state of an established session from its two entries,
 * and its removal. */
#ifndef MK_BPF_PAIR_H
#define MK_BPF_PAIR_H

#include "account.h"
#include "monokube/idle.h"
#include "packet.h"

/* CLOCK_MONOTONIC, of the last timer tick if the kernel offers that. Sessions need no finer times,
 * and reading the hardware's clock is a twentieth of an established packet's cost. */
static __always_inline __u64 session_clock_ns(void)
{
	return mk_node.has_coarse_clock ? bpf_ktime_get_coarse_ns() : bpf_ktime_get_ns();
}

/* The tables of ilb and elb, or of nat. */
struct session_tables {
	void *established, *young, *order, *kept;
	int of_services; /* constant at build time: some sessions are a Service's and are counted */
};
#define SERVICE_SESSIONS \
	((struct session_tables){ &sessions, &sessions_young, &sessions_order, &sessions_kept, 1 })
#define NAT_SESSIONS                                                                       \
	((struct session_tables){ &nat_sessions, &nat_sessions_young, &nat_sessions_order, \
				  &nat_sessions_kept, 0 })

static __always_inline void session_peer_key(union tuple_key *key, const struct mk_session *session)
{
	key_reverse(key, &session->to);
}

static __always_inline struct mk_session *session_peer(struct session_tables tables,
						       const struct mk_session *session)
{
	union tuple_key key;

	session_peer_key(&key, session);
	return bpf_map_lookup_elem(tables.established, &key);
}

/* Is this session of the established table half-open: is its handshake not complete? */
static __always_inline int session_is_half_open(const struct mk_session *session)
{
	return session->to.proto == IPPROTO_TCP && session->stage != MK_SESSION_OPEN;
}

/* What is left of this CPU's half-open quota: how many half-open TCP sessions it may still insert
 * into the established tables. Such a session need not be moved when its handshake completes. The
 * agent sets the quota to a small part of these tables (half_open_quota.h in
 * src/datapath/sessions). A flood of first packets soon uses it up, and then stays in the tables
 * that evict. A session returns its slot when it is established or removed. Never returns NULL, but
 * the verifier does not know that. */
static __always_inline __s64 *quota_of_this_cpu(void)
{
	return find_number(&half_open_quota, 0);
}

static __always_inline void session_return_quota(void)
{
	__s64 *quota = quota_of_this_cpu();

	if (quota)
		(*quota)++;
}

/* Is the session over? A session without an entry for one direction is. */
static __always_inline int session_is_over(const struct mk_session *session,
					   const struct mk_session *peer)
{
	return !peer || session->reset || peer->reset || (session->fin && peer->fin);
}

/* Have both directions been idle for longer than the limit? The limit is hidden from the verifier,
 * which would otherwise walk the following code once per limit. */
static __always_inline int session_is_idle(const struct mk_session *session,
					   const struct mk_session *peer, __u64 now_ns)
{
	__u64 last_ns = session->last_seen_ns;
	__u64 limit_ns;

	if (peer && peer->last_seen_ns > last_ns)
		last_ns = peer->last_seen_ns;
	limit_ns = mk_idle_limit_s(session->to.proto, mk_session_flags(session),
				   peer ? mk_session_flags(peer) : 0) *
		   MK_SECOND_NS;
	return now_ns > last_ns && now_ns - last_ns > forgotten(limit_ns, last_ns);
}

/* Remove a session of the established table. @peer is the other direction's entry, or NULL. */
static __always_inline void session_remove(struct session_tables tables, const struct mk_tuple *key,
					   struct mk_session *session, struct mk_session *peer)
{
	int is_half_open = session_is_half_open(session);
	union tuple_key peer_key;

	session_peer_key(&peer_key, session);
	if (tables.of_services)
		account_flush(session, peer);
	bpf_map_delete_elem(tables.established, key);
	bpf_map_delete_elem(tables.established, &peer_key);
	if (is_half_open)
		session_return_quota();
}

#endif
