/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/eviction.h - the tables of sessions, and the order in which new sessions are evicted: the
 * oldest first. The kernel's LRU tables would evict the session that was looked up least. In a
 * flood that servers answer, the flood's sessions are looked up all the time. The latest session,
 * which waits for its first answer, is never looked up and is evicted (kernel/bpf/bpf_lru_list.c:
 * such entries are all that is left on the inactive list). */
#ifndef MK_BPF_EVICTION_H
#define MK_BPF_EVICTION_H

#include <linux/errno.h>

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

static __always_inline void session_peer_key(struct mk_tuple *key, const struct mk_session *session)
{
	tuple_reverse(key, &session->to);
}

/* The number of sessions to look at when one must be evicted. */
#define MK_ORDER_CHANCES 4

/* The fate of the first session in the queue. */
enum order_first {
	ORDER_NONE, /* the queue is empty */
	ORDER_STALE, /* its session is gone or established */
	ORDER_STAYS, /* moved to the end of the queue: its client has sent a packet since */
	ORDER_GOES, /* its session was evicted */
};

static __always_inline enum order_first order_take_first(struct session_tables tables, int may_stay)
{
	struct mk_session_place first;
	struct mk_session *session;
	struct mk_tuple peer_key;

	if (bpf_map_pop_elem(tables.order, &first))
		return ORDER_NONE;
	session = bpf_map_lookup_elem(tables.young, &first.key);
	if (!session || session->created_ns != first.created_ns)
		return ORDER_STALE;
	if (session->spoke && may_stay) {
		session->spoke = 0;
		bpf_map_push_elem(tables.order, &first, 0);
		return ORDER_STAYS;
	}
	session_peer_key(&peer_key, session);
	bpf_map_delete_elem(tables.young, &first.key);
	bpf_map_delete_elem(tables.young, &peer_key);
	return ORDER_GOES;
}

/* The table is full. It may hold entries without a slot in the queue, which the agent's sweep has
 * not found yet. Evict the first session in the queue. */
static __always_inline void order_free_entries(struct session_tables tables)
{
	for (int i = 0; i < MK_ORDER_CHANCES; i++)
		if (order_take_first(tables, 0) != ORDER_STALE)
			return;
}

/* Give a new session a slot at the end of the queue, before its forward entry is inserted. If all
 * sessions that are looked at stay, there is no slot; then the agent's sweep removes the session
 * when it is idle. */
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

/* Insert an entry into the table of new sessions, as bpf_map_update_elem() does, and evict if it is
 * full. */
static __always_inline int order_put(struct session_tables tables, const struct mk_tuple *key,
				     const struct mk_session *session, __u64 flags)
{
	int ret = (int)bpf_map_update_elem(tables.young, key, session, flags);

	if (ret != -E2BIG)
		return ret;
	order_free_entries(tables);
	return (int)bpf_map_update_elem(tables.young, key, session, flags);
}

#endif
