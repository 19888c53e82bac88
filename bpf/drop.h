/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/drop.h - the only way to drop a packet: it is counted by reason and hook, and reported if a
 * listener is attached. */
#ifndef MK_BPF_DROP_H
#define MK_BPF_DROP_H

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "maps.h"

static __always_inline const struct mk_runtime *runtime_settings(void)
{
	return find_number(&runtime, 0);
}

/* Begin the report of a dropped packet. Returns NULL if there is no listener or no space, otherwise
 * an event that the caller submits. */
static __always_inline struct mk_drop_event *drop_event(struct __sk_buff *skb, __u8 hook,
							__u8 reason, const struct mk_tuple *tuple)
{
	const struct mk_runtime *settings = runtime_settings();
	struct mk_drop_event *event;

	if (!settings || !settings->report_drops)
		return NULL;
	event = bpf_ringbuf_reserve(&drop_events, sizeof(*event), 0);
	if (!event)
		return NULL;
	__builtin_memset(event, 0, sizeof(*event));
	event->time_ns = bpf_ktime_get_ns();
	event->ifindex = skb->ifindex;
	event->length_bytes = skb->len > 0xffff ? 0xffff : skb->len;
	event->reason = reason;
	event->hook = hook;
	event->tuple = *tuple;
	return event;
}

static __always_inline void count_drop(struct __sk_buff *skb, __u8 hook, __u8 reason)
{
	__u32 index = reason * MK_HOOK_COUNT + hook;
	struct mk_drop_counter *counter = find_number(&drops, index);

	if (counter) {
		counter->packets++;
		counter->bytes += skb->len;
	}
}

/* Count the packet and return the verdict that drops it. */
static __always_inline int drop(struct __sk_buff *skb, __u8 hook, __u8 reason,
				const struct mk_tuple *tuple)
{
	struct mk_drop_event *event;

	count_drop(skb, hook, reason);
	event = drop_event(skb, hook, reason, tuple);
	if (event)
		bpf_ringbuf_submit(event, 0);
	return TC_ACT_SHOT;
}

#endif
