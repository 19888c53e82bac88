/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/eviction.h - which session goes if a table is full. Each session has a slot in a queue: a new
 * one in sessions_order or nat_sessions_order, an established one from its handshake on in
 * sessions_kept or nat_sessions_kept. A program that finds a table full, or the queue of new
 * sessions, looks at the first sessions in the queue. Those that stay get a slot at its end again.
 *
 * - New sessions: the oldest goes. The kernel's LRU tables would evict the session that was looked
 *   up least. In a flood that servers answer, the flood's sessions are looked up all the time. The
 *   latest session, which waits for its first answer, is never looked up and is evicted
 *   (kernel/bpf/bpf_lru_list.c: such entries are all that is left on the inactive list).
 * - Established sessions: one that is over, or idle for too long, goes. Usually the agent's sweep
 *   removes them. Without an agent the programs do it. */
#ifndef MK_BPF_EVICTION_H
#define MK_BPF_EVICTION_H

#include <linux/errno.h>

#include "pair.h"
#include "scratch.h"

/* The number of sessions to look at when one must go. */
#define MK_QUEUE_CHANCES 4

enum session_table { TABLE_YOUNG, TABLE_ESTABLISHED };

/* The fate of the first session in the queue. */
enum queue_first {
	QUEUE_EMPTY,
	QUEUE_STALE, /* its session is gone, or in the other table */
	QUEUE_STAYS, /* it has a slot at the end of the queue now */
	QUEUE_GOES, /* it was removed */
};

/* Remove @session unless it must stay. A new session stays if its client has sent a packet since it
 * got its slot, unless space is @needed. An established one stays while it is in use. Returns 0 if
 * it stays. */
static __always_inline int queue_removes(struct session_tables tables, enum session_table which,
					 const struct mk_tuple *key, struct mk_session *session,
					 int needed)
{
	union tuple_key peer_key;
	struct mk_session *peer;

	if (which == TABLE_ESTABLISHED) {
		peer = session_peer(tables, session);
		if (!session_is_over(session, peer) &&
		    !session_is_idle(session, peer, session_clock_ns()))
			return 0;
		session_remove(tables, key, session, peer);
		return 1;
	}
	if (session->spoke && !needed) {
		session->spoke = 0;
		return 0;
	}
	session_peer_key(&peer_key, session);
	bpf_map_delete_elem(tables.young, key);
	bpf_map_delete_elem(tables.young, &peer_key);
	return 1;
}

static __always_inline enum queue_first queue_take_first(struct session_tables tables,
							 enum session_table which, int needed)
{
	void *table = which == TABLE_YOUNG ? tables.young : tables.established;
	void *queue = which == TABLE_YOUNG ? tables.order : tables.kept;
	struct mk_session_place first;
	struct mk_session *session;

	if (bpf_map_pop_elem(queue, &first))
		return QUEUE_EMPTY;
	session = bpf_map_lookup_elem(table, &first.key);
	if (!session || session->created_ns != first.created_ns)
		return QUEUE_STALE;
	if (queue_removes(tables, which, &first.key, session, needed))
		return QUEUE_GOES;
	bpf_map_push_elem(queue, &first, 0);
	return QUEUE_STAYS;
}

/* The table is full: try to remove one session. The table may also hold sessions without a slot in
 * the queue; the agent's sweep removes those when they are idle. */
static __always_inline void queue_evict(struct session_tables tables, enum session_table which)
{
	for (int i = 0; i < MK_QUEUE_CHANCES; i++) {
		enum queue_first first = queue_take_first(tables, which, 1);

		if (first == QUEUE_GOES || first == QUEUE_EMPTY)
			return;
	}
}

/* Give a session a slot at the end of its queue. If the queue is full of new sessions that stay,
 * there is no slot. An established session then takes the slot of the first one, without a look at
 * that session, which would cost several cache misses. Only the agent's sweep can remove sessions
 * without a slot. */
static __always_inline void queue_enter(struct session_tables tables, enum session_table which,
					const struct mk_tuple *key, __u64 created_ns)
{
	void *queue = which == TABLE_YOUNG ? tables.order : tables.kept;
	struct scratch *room = scratch_of_this_cpu();
	struct mk_session_place *place;

	if (!room)
		return;
	place = &room->place;
	place->key = *key;
	place->created_ns = created_ns;
	if (which == TABLE_ESTABLISHED) {
		bpf_map_push_elem(queue, place, BPF_EXIST);
		return;
	}
	for (int i = 0; i < MK_QUEUE_CHANCES; i++) {
		if (bpf_map_push_elem(queue, place, 0) == 0)
			return;
		queue_take_first(tables, which, 0);
	}
	bpf_map_push_elem(queue, place, 0);
}

/* Insert an entry into the table of new sessions, as bpf_map_update_elem() does, and evict if it is
 * full. */
static __always_inline int young_put(struct session_tables tables, const struct mk_tuple *key,
				     const struct mk_session *session, __u64 flags)
{
	int ret = (int)bpf_map_update_elem(tables.young, key, session, flags);

	if (ret != -E2BIG)
		return ret;
	queue_evict(tables, TABLE_YOUNG);
	return (int)bpf_map_update_elem(tables.young, key, session, flags);
}

#endif
