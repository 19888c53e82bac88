/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/order.h - the tables of sessions, and which of the new ones goes when another needs its place: the one
 * that came first. An LRU table of the kernel would take the one that was looked up least: a flood whose
 * servers answer it again and again is looked up all the time, and who came last, and waits for its first
 * answer, never (kernel/bpf/bpf_lru_list.c: such entries go to the inactive list, which is all that is left
 * there). */
#ifndef MK_BPF_ORDER_H
#define MK_BPF_ORDER_H

#include <linux/errno.h>

#include "packet.h"

/* CLOCK_MONOTONIC, of the last timer tick where the kernel offers that: a session's times need no
 * more, and reading the hardware's clock is a twentieth of what an established packet costs. */
static __always_inline __u64 session_clock_ns(void)
{
	return mk_node.has_coarse_clock ? bpf_ktime_get_coarse_ns() : bpf_ktime_get_ns();
}

/* The two tables of ilb and elb, or of nat. */
struct session_tables {
	void *established, *half_open, *order, *kept;
	int of_services; /* some of their sessions are a Service's, and counted; known at build */
};
#define SERVICE_SESSIONS \
	((struct session_tables){ &sessions, &sessions_new, &sessions_order, &sessions_kept, 1 })
#define NAT_SESSIONS                                                                     \
	((struct session_tables){ &nat_sessions, &nat_sessions_new, &nat_sessions_order, \
				  &nat_sessions_kept, 0 })

static __always_inline void session_peer_key(struct mk_tuple *key, const struct mk_session *session)
{
	tuple_reverse(key, &session->to);
}

/* So many are looked at to find one that goes. */
#define MK_ORDER_CHANCES 4

/* What became of the first in the queue. */
enum order_first {
	ORDER_NONE, /* the queue is empty */
	ORDER_STALE, /* its session is gone, or established */
	ORDER_STAYS, /* at the queue's end: it has spoken since it had its place */
	ORDER_GOES, /* its session is out */
};

static __always_inline enum order_first order_take_first(struct session_tables tables, int may_stay)
{
	struct mk_session_place first;
	struct mk_session *session;
	struct mk_tuple peer_key;

	if (bpf_map_pop_elem(tables.order, &first))
		return ORDER_NONE;
	session = bpf_map_lookup_elem(tables.half_open, &first.key);
	if (!session || session->created_ns != first.created_ns)
		return ORDER_STALE;
	if (session->spoke && may_stay) {
		session->spoke = 0;
		bpf_map_push_elem(tables.order, &first, 0);
		return ORDER_STAYS;
	}
	session_peer_key(&peer_key, session);
	bpf_map_delete_elem(tables.half_open, &first.key);
	bpf_map_delete_elem(tables.half_open, &peer_key);
	return ORDER_GOES;
}

/* The table is full, of entries without a place, too, which the agent's sweep has yet to find: the first goes. */
static __always_inline void order_free_entries(struct session_tables tables)
{
	for (int i = 0; i < MK_ORDER_CHANCES; i++)
		if (order_take_first(tables, 0) != ORDER_STALE)
			return;
}

/* A new session takes its place at the end of the queue, before its forward entry is there. Where all stay
 * that are looked at it gets none: then it is the agent's sweep that finds it, when it is idle. */
static __always_inline void order_enter(struct session_tables tables, const struct mk_tuple *key,
					__u64 created_ns)
{
	struct mk_session_place place = { .key = *key, .created_ns = created_ns };

	for (int i = 0; i < MK_ORDER_CHANCES; i++) {
		if (bpf_map_push_elem(tables.order, &place, 0) == 0)
			return;
		order_take_first(tables, 1);
	}
	bpf_map_push_elem(tables.order, &place, 0);
}

/* Put an entry into the table of new sessions, as bpf_map_update_elem(). */
static __always_inline int order_put(struct session_tables tables, const struct mk_tuple *key,
				     const struct mk_session *session, __u64 flags)
{
	int ret = (int)bpf_map_update_elem(tables.half_open, key, session, flags);

	if (ret != -E2BIG)
		return ret;
	order_free_entries(tables);
	return (int)bpf_map_update_elem(tables.half_open, key, session, flags);
}

#endif
