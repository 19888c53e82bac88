/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/account.h - counters per Service. What follows a session is gathered in its entry, without a
 * look-up, and added to the Service's counters about once a second, when a direction ends and when
 * the session moves to the table of established ones; a first packet is counted at once. The agent adds what an entry
 * still holds when it removes it (map service_counters_ended). Only what an entry of the new
 * sessions' tables holds when it makes room is lost: of less than a second, or of a flow's last packets. */
#ifndef MK_BPF_ACCOUNT_H
#define MK_BPF_ACCOUNT_H

#include "packet.h"

/* On the wire: a GSO packet is that many, each with the headers. */
struct wire_count {
	__u32 packets, bytes;
};

static __always_inline struct wire_count wire_count(const struct __sk_buff *skb,
						    const struct packet *pkt)
{
	struct wire_count count = { .packets = 1, .bytes = skb->len };

	if (skb->gso_segs > 1) {
		count.packets = skb->gso_segs;
		count.bytes += (count.packets - 1) * (pkt->l4_off + pkt->l4_len);
	}
	return count;
}

static __always_inline void account_gather(const struct __sk_buff *skb, const struct packet *pkt,
					   struct mk_session *session)
{
	struct wire_count count = wire_count(skb, pkt);

	__sync_fetch_and_add(&session->packets, count.packets);
	__sync_fetch_and_add(&session->bytes, count.bytes);
}

/* Two CPUs may do this at once: both add the same, both take it off, and what the entry then holds
 * below zero is added by the next. */
static __always_inline void account_move(struct mk_service_counter *counter,
					 struct mk_session *session)
{
	__u32 direction = session->flags & MK_SESSION_FORWARD ? MK_FLOW_REQUEST : MK_FLOW_REPLY;
	__s64 packets = (__s32)session->packets;
	__s64 bytes = session->bytes;

	__sync_fetch_and_add(&session->packets, (__u32)-packets);
	__sync_fetch_and_add(&session->bytes, -bytes);
	__sync_fetch_and_add(&counter->packets[direction], packets);
	__sync_fetch_and_add(&counter->bytes[direction], bytes);
}

/* Add what @session has gathered, and @peer if there is one, to their Service's counters. Of a
 * Service that is gone there are none: its entry is not made again. */
static __always_inline void account_flush(struct mk_session *session, struct mk_session *peer)
{
	__u32 account_id = session->account_id;
	struct mk_service_counter *counter;

	if (!account_id)
		return;
	counter = bpf_map_lookup_elem(&service_counters, &account_id);
	if (!counter)
		return;
	account_move(counter, session);
	if (peer)
		account_move(counter, peer);
}

/* The first packet of a session of the Service. */
static __always_inline void account_connection(const struct __sk_buff *skb,
					       const struct packet *pkt, __u32 account_id)
{
	const struct mk_service_counter none = { 0 };
	struct mk_service_counter *counter;
	struct wire_count count;

	if (!account_id)
		return;
	counter = bpf_map_lookup_elem(&service_counters, &account_id);
	if (!counter) {
		bpf_map_update_elem(&service_counters, &account_id, &none, BPF_NOEXIST);
		counter = bpf_map_lookup_elem(&service_counters, &account_id);
		if (!counter)
			return;
	}
	count = wire_count(skb, pkt);
	__sync_fetch_and_add(&counter->connections, 1);
	__sync_fetch_and_add(&counter->packets[MK_FLOW_REQUEST], count.packets);
	__sync_fetch_and_add(&counter->bytes[MK_FLOW_REQUEST], count.bytes);
}

/* A first packet that was refused or dropped. */
static __always_inline void account_drop(__u32 account_id, __u32 reason)
{
	struct mk_service_drop_key key = { .account_id = account_id, .reason = reason };
	const __u64 none = 0;
	__u64 *packets;

	if (!account_id)
		return;
	packets = bpf_map_lookup_elem(&service_drops, &key);
	if (!packets) {
		bpf_map_update_elem(&service_drops, &key, &none, BPF_NOEXIST);
		packets = bpf_map_lookup_elem(&service_drops, &key);
		if (!packets)
			return;
	}
	__sync_fetch_and_add(packets, 1);
}

#endif
