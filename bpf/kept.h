/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/kept.h - established sessions that are over or idle for long, where their room is needed. As a rule it is the
 * agent's sweep that removes them; while there is no agent the programs do. Each has a place in a queue (maps
 * sessions_kept, nat_sessions_kept) from its handshake on. Who finds the table full, or the queue, looks at the first
 * ones: what goes on has a place at the end again. */
#ifndef MK_BPF_KEPT_H
#define MK_BPF_KEPT_H

#include "account.h"
#include "monokube/idle.h"
#include "order.h"
#include "pair.h"

#define MK_KEPT_CHANCES 4

/* Returns ORDER_GOES: the first one is removed, as it is idle for long, or over and its room @needed. */
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

/* The table is full. */
static __always_inline void kept_make_room(struct session_tables tables)
{
	__u64 now_ns = session_clock_ns();

	for (int i = 0; i < MK_KEPT_CHANCES; i++) {
		enum order_first first = kept_take_first(tables, now_ns, 1);

		if (first == ORDER_GOES || first == ORDER_NONE)
			return;
	}
}

/* A session is established. Where all stay that are looked at it gets no place: then it is the agent's sweep alone that
 * finds it. */
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
