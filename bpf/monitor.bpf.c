// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bpf/monitor.bpf.c - reports flows to `monokube monitor`. While one runs, this program has the
 * router's slot in the chain, and all packets pass it (mk_runtime.monitored). It reports the first
 * packet of each flow and a sample of the others, up to a limit per second. It then continues in
 * the router. It changes neither the packet nor the chain's data about it. */
#include "chain.h"
#include "session.h"

/* Find the packet's tuple before its session rewrote it. The tuple is in the other entry of the
 * pair, whose key is that of an answer to the rewritten packet. Returns 1, or 0 if these tables
 * have no such entry. */
static __always_inline int read_session(struct session_tables tables, struct mk_flow_event *event)
{
	struct mk_session *session;
	struct mk_tuple key;

	tuple_reverse(&key, &event->goes);
	session = bpf_map_lookup_elem(tables.established, &key);
	event->session = MK_FLOW_ESTABLISHED;
	if (session && session_is_half_open(session))
		event->session = MK_FLOW_OPENING;
	if (!session) {
		session = bpf_map_lookup_elem(tables.young, &key);
		event->session = session ? MK_FLOW_OPENING : MK_FLOW_NO_SESSION;
	}
	if (!session)
		return 0;
	event->session_flags = mk_session_flags(session);
	event->service_id = session->service_id;
	tuple_reverse(&event->came, &session->to);
	return 1;
}

static __always_inline int has_addr(const struct mk_tuple *tuple, const struct mk_addr *addr)
{
	return mk_addr_eq(&tuple->saddr, addr) || mk_addr_eq(&tuple->daddr, addr);
}

static __always_inline int has_port(const struct mk_tuple *tuple, __be16 port)
{
	return tuple->sport == port || tuple->dport == port;
}

static __always_inline int is_wanted(const struct mk_monitor_settings *settings,
				     const struct mk_flow_event *event)
{
	struct mk_addr addr = settings->addr, any = { 0 };

	if (settings->proto && settings->proto != event->goes.proto)
		return 0;
	if (settings->service_id && settings->service_id != event->service_id)
		return 0;
	if (settings->port && !has_port(&event->came, settings->port) &&
	    !has_port(&event->goes, settings->port))
		return 0;
	return mk_addr_eq(&addr, &any) || has_addr(&event->came, &addr) ||
	       has_addr(&event->goes, &addr);
}

static __always_inline int is_first(const struct mk_monitor_settings *settings,
				    const struct mk_flow_event *event)
{
	__u32 hash = tuple_hash(&event->came), slot = hash & (MK_MONITOR_FLOWS - 1);
	struct mk_monitor_flow *flow = find_number(&monitor_flows, slot);
	__u32 now_s = event->time_ns / MK_SECOND_NS;
	int first;

	if (!flow)
		return 0;
	first = flow->hash != hash || flow->seen_s < settings->since_s ||
		now_s - flow->seen_s > MK_MONITOR_IDLE_S;
	if (first || flow->seen_s != now_s) {
		flow->hash = hash;
		flow->seen_s = now_s;
	}
	return first;
}

static __always_inline int is_sampled(const struct mk_monitor_settings *settings,
				      struct mk_monitor_count *count)
{
	if (!settings->sample || ++count->sampled < settings->sample)
		return 0;
	count->sampled = 0;
	return 1;
}

static __always_inline int may_report(struct mk_monitor_count *count, __u64 now_ns)
{
	if (now_ns - count->second_ns >= MK_SECOND_NS) {
		count->second_ns = now_ns;
		count->reported = 0;
	}
	return count->reported++ < MK_MONITOR_EVENTS_PER_S;
}

static __always_inline void report_flow(struct __sk_buff *skb, const struct chain_ctx *ctx,
					const struct packet *pkt,
					const struct mk_monitor_settings *settings)
{
	struct mk_flow_event event = {
		.time_ns = bpf_ktime_get_ns(),
		.ifindex = skb->ifindex,
		.length_bytes = skb->len > 0xffff ? 0xffff : skb->len,
		.hook = ctx->hook,
		.tcp_flags = pkt->tcp_flags,
		.to_host = !!(ctx->flags & CHAIN_TO_HOST),
		.came = pkt->tuple,
		.goes = pkt->tuple,
	};
	struct mk_monitor_count *count = find_number(&monitor_counts, 0);

	if (!count || event.time_ns >= settings->until_ns)
		return;
	if (ctx->flags & CHAIN_TRANSLATED && !read_session(SERVICE_SESSIONS, &event))
		read_session(NAT_SESSIONS, &event);
	if (!is_wanted(settings, &event))
		return;
	event.sampled = !is_first(settings, &event);
	if (event.sampled && !is_sampled(settings, count))
		return;
	/* the reader is not woken: it polls, so a flood costs it no more wake-ups than silence */
	if (!may_report(count, event.time_ns) ||
	    bpf_ringbuf_output(&flow_events, &event, sizeof(event), BPF_RB_NO_WAKEUP))
		count->left_out++;
}

SEC("tc")
int monitor(struct __sk_buff *skb)
{
	struct mk_monitor_settings *settings;
	struct chain_ctx ctx;
	struct packet pkt;

	settings = find_number(&monitor_settings, 0);
	if (chain_packet(skb, &ctx, &pkt) == MK_GO_ON && settings)
		report_flow(skb, &ctx, &pkt, settings);
	bpf_tail_call(skb, &chain, MK_PROG_MONITORED);
	return drop(skb, ctx.hook, MK_DROP_CHAIN_BROKEN, &pkt.tuple);
}

char LICENSE[] __attribute__((weak)) SEC("license") = "Dual BSD/GPL";
