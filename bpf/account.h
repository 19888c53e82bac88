/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/account.h - counters per Service. A first packet is counted at once. Later packets of a
 * session are added up in its entry, without a look-up. The sums move to the Service's counters
 * about once a second, when a direction ends, and when the session moves to the established table.
 *
 * The agent adds what an entry still holds when it removes the entry (map service_counters_ended).
 * Counts are lost only when an entry of a new sessions' table is evicted: those of its last second
 * at most, or of the flow's last packets. */
#ifndef MK_BPF_ACCOUNT_H
#define MK_BPF_ACCOUNT_H

#include "packet.h"

/* Packets and bytes on the wire: each segment of a GSO packet counts, with its own headers. */
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

/* Move the sums of @session to @counter. If two CPUs do this at once, both add the same sums and
 * both subtract them. The entry is then below zero, and the next move corrects the counter. */
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

/* Flush the sums of @session, and of @peer unless it is NULL, to their Service's counters. A
 * removed Service has no counters, and they are not created again. */
static __always_inline void account_flush(struct mk_session *session, struct mk_session *peer)
{
	__u32 service_id = session->service_id;
	struct mk_service_counter *counter;

	if (!service_id)
		return;
	counter = find_number(&service_counters, service_id);
	if (!counter)
		return;
	account_move(counter, session);
	if (peer)
		account_move(counter, peer);
}

/* Count the first packet of a session of the Service. */
static __always_inline void account_connection(const struct __sk_buff *skb,
					       const struct packet *pkt, __u32 service_id)
{
	const struct mk_service_counter none = { 0 };
	struct mk_service_counter *counter;
	struct wire_count count;

	if (!service_id)
		return;
	counter = find_number(&service_counters, service_id);
	if (!counter) {
		bpf_map_update_elem(&service_counters, &service_id, &none, BPF_NOEXIST);
		counter = find_number(&service_counters, service_id);
		if (!counter)
			return;
	}
	count = wire_count(skb, pkt);
	__sync_fetch_and_add(&counter->connections, 1);
	__sync_fetch_and_add(&counter->packets[MK_FLOW_REQUEST], count.packets);
	__sync_fetch_and_add(&counter->bytes[MK_FLOW_REQUEST], count.bytes);
}

/* Count a first packet that was refused or dropped. */
static __always_inline void account_drop(__u32 service_id, __u32 reason)
{
	struct mk_service_drop_key key = { .service_id = service_id, .reason = reason };
	const __u64 none = 0;
	__u64 *packets;

	if (!service_id)
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
