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
	__u32 zero = 0;

	return bpf_map_lookup_elem(&runtime, &zero);
}

static __always_inline void report(struct __sk_buff *skb, __u8 hook, __u8 reason,
				   const struct mk_tuple *tuple)
{
	struct mk_drop_event *event = bpf_ringbuf_reserve(&drop_events, sizeof(*event), 0);

	if (!event)
		return;
	event->time_ns = bpf_ktime_get_ns();
	event->ifindex = skb->ifindex;
	event->length_bytes = skb->len > 0xffff ? 0xffff : skb->len;
	event->reason = reason;
	event->hook = hook;
	event->tuple = *tuple;
	bpf_ringbuf_submit(event, 0);
}

/* Count the packet and return the verdict that drops it. */
static __always_inline int drop(struct __sk_buff *skb, __u8 hook, __u8 reason,
				const struct mk_tuple *tuple)
{
	const struct mk_runtime *settings = runtime_settings();
	__u32 index = reason * MK_HOOK_COUNT + hook;
	struct mk_drop_counter *counter = bpf_map_lookup_elem(&drops, &index);

	if (counter) {
		counter->packets++;
		counter->bytes += skb->len;
	}
	if (settings && settings->report_drops)
		report(skb, hook, reason, tuple);
	return TC_ACT_SHOT;
}

#endif
