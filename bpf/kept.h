/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/kept.h - remove established sessions that are over, or idle for too long, when their table is
 * full. Usually the agent's sweep removes them. Without an agent the programs do it. From its
 * handshake on each established session has a slot in a queue (maps sessions_kept,
 * nat_sessions_kept). A program that finds the table or the queue full looks at the first sessions
 * in the queue. Those still in use get a slot at its end again. */
#ifndef MK_BPF_KEPT_H
#define MK_BPF_KEPT_H

#include "account.h"
#include "monokube/idle.h"
#include "eviction.h"
#include "pair.h"

#define MK_KEPT_CHANCES 4

/* Take the first session off the queue. Returns ORDER_GOES if it was removed, because it was idle
 * for too long, or because it was over and space is @needed. */
static __always_inline enum order_first kept_take_first(struct session_tables tables, __u64 now_ns,
							int needed)
{
	struct mk_session_place first;
	struct mk_session *session, *peer;

	if (bpf_map_pop_elem(tables.kept, &first))
		return ORDER_NONE;
	session = bpf_map_lookup_elem(tables.established, &first.key);
	if (!session || session->created_ns != first.created_ns)
		return ORDER_STALE;
	peer = session_peer(tables, session);
	if (!(needed && session_is_over(session, peer)) &&
	    !session_is_idle(session, peer, now_ns)) {
		bpf_map_push_elem(tables.kept, &first, 0);
		return ORDER_STAYS;
	}
	session_remove(tables, &first.key, session, peer);
	return ORDER_GOES;
}

/* The table is full: try to remove one session. */
static __always_inline void kept_evict(struct session_tables tables)
{
	__u64 now_ns = session_clock_ns();

	for (int i = 0; i < MK_KEPT_CHANCES; i++) {
		enum order_first first = kept_take_first(tables, now_ns, 1);

		if (first == ORDER_GOES || first == ORDER_NONE)
			return;
	}
}

/* Give an established session a slot in the queue. If all sessions that are looked at stay, there
 * is no slot; then only the agent's sweep can remove the session. */
static __always_inline void kept_enter(struct session_tables tables, const struct mk_tuple *key,
				       __u64 created_ns)
{
	struct mk_session_place place = { .key = *key, .created_ns = created_ns };
	__u64 now_ns = session_clock_ns();

	for (int i = 0; i < MK_KEPT_CHANCES; i++) {
		if (bpf_map_push_elem(tables.kept, &place, 0) == 0)
			return;
		kept_take_first(tables, now_ns, 0);
	}
	bpf_map_push_elem(tables.kept, &place, 0);
}

#endif
