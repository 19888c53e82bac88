// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bpf/policy.bpf.c - may a flow pass that has an isolated pod of this node as an end? Asked for the
 * first packet of a flow, when `open` has chosen the backend, and for a known flow after a change
 * (policy.h). In one run it asks the egress policies of the client and the ingress policies of the
 * server. The verdict then is the session's existence, so no later packet comes here.
 *
 * A flow that may pass gets its session here, so `open` does not see it again. Any other packet is
 * dropped silently, opens no session, and evicts none. Rules by number: test/policy/README.md. */
#include "open_flow.h"
#include "policy.h"

/* What a packet may mean. */
enum policy_way {
	POLICY_AS_SENT = 1 << 0, /* its sender is the client */
	POLICY_TURNED = 1 << 1, /* its sender is the server */
	POLICY_TAKEN_UP =
		1 << 2, /* it belongs to a connection from before the policies (rule 33) */
};

/* ---- one set ------------------------------------------------------------------------------- */

/* Look up an entry of a hash. One that user space replaces may be missed for an instant (struct
 * mk_frontend), so look again. */
static __always_inline void *find_twice(void *map, const void *key)
{
	void *found = bpf_map_lookup_elem(map, key);

	return found ?: bpf_map_lookup_elem(map, key);
}

/* Find the verdict of @table for the flow's port. Returns 0, or -1 if the table has no entry. */
static __always_inline int ask_table(const struct mk_policy_peer *table,
				     const struct policy_flow *flow, struct mk_policy_port *verdict)
{
	struct mk_policy_port_key key = {
		.prefix_bits = MK_POLICY_TABLE_BITS + MK_POLICY_PROTO_BITS + MK_POLICY_PORT_BITS,
		.proto = flow->proto,
	};
	const struct mk_policy_port *found;
	__u64 id;

	if (!table)
		return -1;
	id = table->table;
	__builtin_memcpy(key.table, &id, sizeof(key.table));
	__builtin_memcpy(key.port, &flow->port, sizeof(key.port));
	found = bpf_map_lookup_elem(&policy_ports, &key);
	if (!found)
		return -1;
	*verdict = *found;
	return 0;
}

/* The peer as a pod: of class @class_id, or unknown (0). */
static __always_inline int ask_pod(__u64 set, __u64 class_id, const struct policy_flow *flow,
				   struct mk_policy_port *verdict)
{
	struct mk_policy_peer_key key = { .set = set, .peer = class_id ?: MK_PEER_UNKNOWN_POD };
	const struct mk_policy_peer *table = find_twice(&policy_peers, &key);

	if (!table && class_id) {
		key.peer = MK_PEER_ANY_POD;
		table = bpf_map_lookup_elem(&policy_peers, &key);
	}
	return ask_table(table, flow, verdict);
}

static __always_inline int ask_address(__u64 set, const struct mk_addr *addr,
				       const struct policy_flow *flow,
				       struct mk_policy_port *verdict)
{
	struct mk_policy_block_key key = { .prefix_bits = MK_POLICY_SET_BITS + MK_ADDR_BITS,
					   .addr = *addr };

	__builtin_memcpy(key.set, &set, sizeof(key.set));
	return ask_table(bpf_map_lookup_elem(&policy_blocks, &key), flow, verdict);
}

/* Is a peer without identity an unknown pod (rules 16, 17)? Of the nodes' addresses only one that
 * does not come from a node is. */
static __always_inline int is_unknown(const struct mk_addr *addr, int proved)
{
	return is_pod_range(addr) || (!proved && is_vtep_range(addr));
}

/* Fill the verdicts of the peer as a pod and as an address. Returns 0, or -1 if an entry is missing
 * that each set has: that denies. */
static __always_inline int ask_both(__u64 set, const struct mk_addr *peer, int proved,
				    struct policy_flow *flow, struct mk_policy_port *as_pod,
				    struct mk_policy_port *as_address)
{
	const struct mk_policy_identity *identity = NULL;
	struct mk_addr addr = *peer;
	__u64 class_id = 0;
	int is_pod = 0;

	if (proved)
		identity = find_twice(&policy_identities, &addr);
	if (identity)
		class_id = identity->class_id;
	if (identity && !is_zero(&identity->counts_as))
		addr = identity->counts_as;
	else
		is_pod = is_unknown(&addr, proved);
	flow->unknown_peer = is_pod && !class_id;
	if ((class_id || is_pod) && ask_pod(set, class_id, flow, as_pod))
		return -1;
	if (class_id && !(set & MK_SET_HAS_BLOCKS))
		return 0;
	return ask_address(set, &addr, flow, as_address);
}

/* Does the first verdict come before the second one? Rule 0 is none. */
static __always_inline int is_earlier(__u16 rule, __u16 other)
{
	return rule && (!other || rule <= other);
}

/* Does this tier of cluster policies decide? */
static __always_inline int tier_decides(struct mk_policy_count_key *decided,
					enum mk_policy_tier tier, __u16 rule, __u8 action)
{
	if (!rule || action == MK_POLICY_PASS)
		return 0;
	decided->tier = tier;
	decided->rule = rule;
	decided->denied = action != MK_POLICY_ACCEPT;
	return 1;
}

static __always_inline void combine(struct mk_policy_count_key *decided,
				    const struct mk_policy_verdict *as_pod,
				    const struct mk_policy_verdict *as_address, int isolates,
				    int is_itself)
{
	const struct mk_policy_verdict *first;

	first = is_earlier(as_pod->admin, as_address->admin) ? as_pod : as_address;
	if (tier_decides(decided, MK_TIER_ADMIN, first->admin, first->admin_action))
		return;
	if (isolates) {
		first = is_earlier(as_pod->allows, as_address->allows) ? as_pod : as_address;
		decided->tier = MK_TIER_NETWORK_POLICY;
		decided->rule = is_itself ? 0 : first->allows;
		decided->denied = !is_itself && !first->allows;
		return;
	}
	first = is_earlier(as_pod->baseline, as_address->baseline) ? as_pod : as_address;
	if (!tier_decides(decided, MK_TIER_BASELINE, first->baseline, first->baseline_action))
		decided->denied = 0;
}

/* The verdict with the audited policies; none if it allows the flow. */
static __always_inline void audit(const struct mk_policy_count_key *decided,
				  const struct mk_policy_port *as_pod,
				  const struct mk_policy_port *as_address, int is_itself, int lacks,
				  struct mk_policy_count_key *audited)
{
	audited->set = decided->set;
	audited->direction = decided->direction;
	audited->denied = audited->audited = 1;
	if (!lacks)
		combine(audited, &as_pod->audited, &as_address->audited,
			(decided->set & MK_SET_AUDIT_ISOLATES) != 0, is_itself);
	if (!audited->denied)
		audited->set = MK_SET_OPEN;
}

/* The chain that takes the flow: of the peer's two verdicts, that of the first rule. */
static __always_inline __u16 first_chain(const struct mk_policy_port *as_pod,
					 const struct mk_policy_port *as_address)
{
	return is_earlier(as_pod->chain_rule, as_address->chain_rule) ? as_pod->chain
								      : as_address->chain;
}

/* Ask @set about the flow; its answer goes to flow->decided. Returns 1 if the flow may pass. */
static __always_inline int ask(__u64 set, enum mk_policy_direction direction,
			       const struct mk_addr *peer, int proved, struct policy_flow *flow)
{
	struct mk_policy_count_key *decided = &flow->decided[direction];
	struct mk_policy_port *as_pod = &flow->as_pod, *as_address = &flow->as_address;
	int is_itself = mk_addr_eq(&flow->client, &flow->server), lacks;

	decided->set = set;
	decided->direction = direction;
	if (set == MK_SET_OPEN)
		return 1;
	__builtin_memset(as_pod, 0, sizeof(*as_pod));
	__builtin_memset(as_address, 0, sizeof(*as_address));
	lacks = set == MK_SET_PENDING || ask_both(set, peer, proved, flow, as_pod, as_address);
	decided->denied = mk_set_enforces(set);
	if (!lacks)
		combine(decided, &as_pod->in_force, &as_address->in_force,
			(set & MK_SET_ISOLATES) != 0, is_itself);
	if (set & MK_SET_HAS_CHAINS)
		flow->chain[direction] = first_chain(as_pod, as_address);
	if (set & MK_SET_AUDITS)
		audit(decided, as_pod, as_address, is_itself, lacks, &flow->audited[direction]);
	return !forgotten(decided->denied, flow->port);
}

/* ---- a flow -------------------------------------------------------------------------------- */

/* Ask both directions. Returns MK_GO_ON or a drop reason. */
static __always_inline int ask_flow(struct policy_flow *flow)
{
	__u64 set = flow->set[MK_POLICY_EGRESS];
	int ret = MK_GO_ON;

	if (!ask(set, MK_POLICY_EGRESS, &flow->server, 1, flow))
		return set == MK_SET_PENDING ? MK_DROP_POLICY_PENDING : MK_DROP_POLICY_EGRESS;
	if (flow->of_host)
		return MK_GO_ON;
	set = flow->set[MK_POLICY_INGRESS];
	if (!ask(set, MK_POLICY_INGRESS, &flow->client, flow->proved, flow))
		ret = set == MK_SET_PENDING ? MK_DROP_POLICY_PENDING : MK_DROP_POLICY_INGRESS;
	return ret;
}

/* Count what a set has decided. */
static __always_inline void count(const struct mk_policy_count_key *decided)
{
	const struct mk_policy_count none = { 0 };
	struct mk_policy_count *counter;

	if (decided->set == MK_SET_OPEN)
		return;
	counter = bpf_map_lookup_elem(&policy_counts, decided);
	if (!counter) {
		bpf_map_update_elem(&policy_counts, decided, &none, BPF_NOEXIST);
		counter = bpf_map_lookup_elem(&policy_counts, decided);
		if (!counter)
			return;
	}
	__sync_fetch_and_add(&counter->packets, 1);
	counter->last_ns = session_clock_ns();
}

static __always_inline int is_on_overlay(const struct mk_addr *addr)
{
	struct mk_route route = { 0 };

	return route_find(addr, &route) == 0 && route.type == MK_ROUTE_OVERLAY;
}

/* Does the packet, as @way reads it, show that its client has the client's address (rule 16)? A
 * session shows only whether its packets go by the host. */
static __always_inline int is_proved(const struct chain_ctx *ctx, const struct mk_addr *client,
				     enum policy_way way)
{
	if (way == POLICY_AS_SENT)
		return ctx->hook == MK_HOOK_POD || ctx->hook == MK_HOOK_OVERLAY;
	if (ctx->opens == CHAIN_FOLLOWS && ctx->reverse_flags & MK_SESSION_VIA_HOST)
		return 0;
	return pod_find(client) || is_on_overlay(client);
}

/* Is the client a socket of this host (rule 19)? No packet of others with an address of this host
 * comes to these programs. */
static __always_inline int is_of_host(const struct chain_ctx *ctx, const struct mk_addr *client,
				      enum policy_way way)
{
	if (way == POLICY_AS_SENT && ctx->hook != MK_HOOK_HOST)
		return 0;
	return mk_addr_is_loopback(client) || is_host_address(client);
}

static __always_inline void read_flow(const struct chain_ctx *ctx, const struct packet *pkt,
				      const struct session_request *request, enum policy_way way,
				      struct policy_flow *flow)
{
	int client = way == POLICY_TURNED ? POLICY_RECEIVER : POLICY_SENDER;

	flow->client = way == POLICY_TURNED ? request->to.daddr : pkt->tuple.saddr;
	flow->server = way == POLICY_TURNED ? pkt->tuple.saddr : request->to.daddr;
	flow->port = way == POLICY_TURNED ? pkt->tuple.sport : request->to.dport;
	flow->set[MK_POLICY_EGRESS] = flow->sets_of[client][MK_POLICY_EGRESS];
	flow->set[MK_POLICY_INGRESS] = flow->sets_of[!client][MK_POLICY_INGRESS];
	flow->proto = pkt->tuple.proto;
	if (flow->proto == MK_IPPROTO_ICMP)
		flow->port = 0;
	flow->proved = is_proved(ctx, &flow->client, way);
	flow->of_host = is_of_host(ctx, &flow->client, way);
	flow->unknown_peer = 0;
}

/* May the connection have been opened by @flow's client? A pod could make a socket that looks as if
 * a host outside had connected to it, and so send there. */
static __always_inline int is_inside(const struct policy_flow *flow)
{
	return flow->proved || flow->of_host || pod_find(&flow->client) ||
	       bpf_map_lookup_elem(&peers, &flow->client);
}

/* Ask about the packet as @way reads it. Returns MK_GO_ON, or a drop reason. */
static __always_inline int ask_way(const struct chain_ctx *ctx, const struct packet *pkt,
				   struct scratch *room, int way)
{
	enum policy_way end = way & POLICY_TURNED ? POLICY_TURNED : POLICY_AS_SENT;

	read_flow(ctx, pkt, &room->request, end, &room->flow);
	room->flow.taken_up = (way & POLICY_TAKEN_UP) != 0;
	room->request.turned = end == POLICY_TURNED;
	if (way & POLICY_TAKEN_UP && !is_inside(&room->flow))
		return MK_DROP_POLICY_NO_FLOW;
	return ask_flow(&room->flow);
}

/* ---- which flow the packet belongs to ------------------------------------------------------ */

/* Does a socket of the local pod @pod receive packets with @tuple? */
static __always_inline int pod_shows(struct __sk_buff *skb, const struct mk_pod *pod,
				     const struct mk_tuple *tuple)
{
	return pod->netns_ref && has_connection(skb, tuple, pod->netns_ref - 1);
}

/* Does the receiver's socket show the connection of @pkt, if the receiver is on this node? */
static __always_inline int receiver_shows(struct __sk_buff *skb, const struct packet *pkt)
{
	const struct mk_pod *pod = pod_find(&pkt->tuple.daddr);

	if (pod)
		return pod_shows(skb, pod, &pkt->tuple);
	return !is_host_address(&pkt->tuple.daddr) ||
	       has_connection(skb, &pkt->tuple, BPF_F_CURRENT_NETNS);
}

/* Do the local pods' own sockets show the connection of @pkt? Returns who opened it: the other end
 * if the pod listens at its port, otherwise the pod. 0: there is no such connection. A server that
 * does not listen any more counts as the client of its connections. A pod can make a socket without
 * a handshake (TCP_REPAIR), so its receiver is asked, too. */
static __always_inline int way_of_socket(struct __sk_buff *skb, const struct chain_ctx *ctx,
					 const struct packet *pkt)
{
	int is_sent = ctx->hook == MK_HOOK_POD, listens;
	struct mk_tuple received = pkt->tuple;
	struct mk_pod *pod;

	if (is_sent)
		tuple_reverse(&received, &pkt->tuple);
	pod = pod_find(&received.daddr);
	if (!pod || !pod_shows(skb, pod, &received) || (is_sent && !receiver_shows(skb, pkt)))
		return 0;
	listens = is_listened_at(skb, &received, pod->netns_ref - 1);
	return (listens == is_sent ? POLICY_TURNED : POLICY_AS_SENT) | POLICY_TAKEN_UP;
}

/* What may a packet mean that has no session? Returns enum policy_way; 0: it belongs to no flow. */
static __always_inline int way_of_new(struct __sk_buff *skb, const struct chain_ctx *ctx,
				      const struct packet *pkt)
{
	if (pkt->fragment == MK_LATER_FRAGMENT && pkt->l4 == MK_L4_OTHER)
		return 0;
	if (is_first_of_tcp(pkt))
		return POLICY_AS_SENT;
	/* nat has translated the answer back: it belongs to a flow of the pod */
	if (ctx->hook == MK_HOOK_UPLINK && ctx->flags & CHAIN_TRANSLATED)
		return POLICY_TURNED;
	if (pkt->l4 != MK_L4_TCP)
		return POLICY_AS_SENT;
	return ctx->opens == CHAIN_OPENS_OWN ? way_of_socket(skb, ctx, pkt) : 0;
}

/* The session says who the client is. But a packet that begins a connection may come from the
 * server's end. */
static __always_inline int way_of_known(const struct chain_ctx *ctx, const struct packet *pkt)
{
	return is_first_of_tcp(pkt) || ctx->reverse_flags & MK_SESSION_FORWARD ? POLICY_AS_SENT
									       : POLICY_TURNED;
}

/* Is this a packet of the session's other end that begins a connection? */
static __always_inline int is_crossing(const struct chain_ctx *ctx, const struct packet *pkt)
{
	return is_first_of_tcp(pkt) && !(ctx->reverse_flags & MK_SESSION_FORWARD);
}

/* ---- what follows -------------------------------------------------------------------------- */

/* The packet's session may not pass any more. A UDP session may have entries in both tables. */
static __always_inline void end_session(const struct packet *pkt,
					const struct session_request *request)
{
	struct mk_session *session = bpf_map_lookup_elem(&sessions, &pkt->tuple);
	struct mk_tuple peer;

	tuple_reverse(&peer, &request->to);
	if (session)
		session_remove(SERVICE_SESSIONS, &pkt->tuple, session,
			       bpf_map_lookup_elem(&sessions, &peer));
	bpf_map_delete_elem(&sessions_young, &pkt->tuple);
	bpf_map_delete_elem(&sessions_young, &peer);
}

/* Read what applies to the packet's ends. */
static __always_inline void read_sets(const struct packet *pkt, struct session_request *request,
				      struct policy_flow *flow)
{
	request->policy_seen = policy_seen_now(&pkt->tuple.saddr, &request->to.daddr);
	policy_sets(&pkt->tuple.saddr, flow->sets_of[POLICY_SENDER]);
	policy_sets(&request->to.daddr, flow->sets_of[POLICY_RECEIVER]);
}

/* May a set of one of the two ends drop a packet? Audited policies alone do not. */
static __always_inline int any_enforces(const struct policy_flow *flow)
{
	for (int i = 0; i < POLICY_ENDS; i++)
		if (mk_set_enforces(flow->sets_of[i][MK_POLICY_INGRESS]) ||
		    mk_set_enforces(flow->sets_of[i][MK_POLICY_EGRESS]))
			return 1;
	return 0;
}

/* Report who decided. No flow was asked about with MK_DROP_POLICY_NO_FLOW. */
static __always_inline void report_denial(struct mk_drop_event *event,
					  const struct policy_flow *flow)
{
	const struct mk_policy_count_key *decided = &flow->decided[MK_POLICY_EGRESS];

	if (event->reason == MK_DROP_POLICY_NO_FLOW)
		return;
	event->decided = decided->denied ? *decided : flow->decided[MK_POLICY_INGRESS];
	event->client = flow->client;
	event->server = flow->server;
}

static __always_inline int deny(struct __sk_buff *skb, const struct chain_ctx *ctx,
				const struct packet *pkt, const struct scratch *room, int reason)
{
	struct mk_drop_event *event;

	/* a pending pod's sessions wait: what becomes known is asked again */
	if (ctx->opens == CHAIN_FOLLOWS && reason != MK_DROP_POLICY_PENDING &&
	    !is_crossing(ctx, pkt))
		end_session(pkt, &room->request);
	if (opens_service(ctx))
		account_drop(room->request.service_id, reason);
	count_drop(skb, ctx->hook, reason);
	event = drop_event(skb, ctx->hook, reason, &pkt->tuple);
	if (event) {
		report_denial(event, &room->flow);
		bpf_ringbuf_submit(event, 0);
	}
	return TC_ACT_SHOT;
}

static __always_inline void count_both(const struct chain_ctx *ctx, const struct policy_flow *flow)
{
	const struct mk_policy_count_key *decided = flow->decided;

	if (ctx->opens != CHAIN_FOLLOWS || decided[MK_POLICY_EGRESS].denied)
		count(&decided[MK_POLICY_EGRESS]);
	if (ctx->opens != CHAIN_FOLLOWS || decided[MK_POLICY_INGRESS].denied)
		count(&decided[MK_POLICY_INGRESS]);
}

/* Count and report a packet that passes, but that audited policies would have denied. */
static __always_inline void report_audit(struct __sk_buff *skb, const struct chain_ctx *ctx,
					 const struct packet *pkt, const struct policy_flow *flow,
					 enum mk_policy_direction direction)
{
	const struct mk_policy_count_key *audited = &flow->audited[direction];
	struct mk_drop_event *event;

	if (audited->set == MK_SET_OPEN)
		return;
	count(audited);
	event = drop_event(skb, ctx->hook,
			   direction == MK_POLICY_EGRESS ? MK_DROP_POLICY_EGRESS
							 : MK_DROP_POLICY_INGRESS,
			   &pkt->tuple);
	if (!event)
		return;
	event->decided = *audited;
	event->client = flow->client;
	event->server = flow->server;
	bpf_ringbuf_submit(event, 0);
}

/* No policy in force is about the packet, which belongs to no known flow. */
static __always_inline int pass_unknown(struct __sk_buff *skb, struct chain_ctx *ctx,
					const struct packet *pkt)
{
	if (ctx->hook == MK_HOOK_UPLINK && !(ctx->flags & CHAIN_TRANSLATED))
		return TC_ACT_UNSPEC;
	return chain_next(skb, ctx, pkt, MK_PROG_ROUTER);
}

static __always_inline void count_event(__u32 event)
{
	__u64 *counter = find_number(&policy_events, event);

	if (counter)
		(*counter)++;
}

/* Count what happened beside the verdict @ret. */
static __always_inline void count_events(const struct chain_ctx *ctx,
					 const struct policy_flow *flow, int way, int ret)
{
	if (ctx->opens == CHAIN_FOLLOWS)
		count_event(MK_POLICY_RECHECK);
	if (ret == MK_GO_ON && way & POLICY_TAKEN_UP)
		count_event(MK_POLICY_TAKEN_UP);
	if ((ret == MK_DROP_POLICY_INGRESS || ret == MK_DROP_POLICY_EGRESS) && flow->unknown_peer)
		count_event(MK_POLICY_UNKNOWN_PEER);
}

/* Is it a ping that the node itself answers (rule 23)? */
static __always_inline int is_ping_of_vip(const struct packet *pkt)
{
	return pkt->l4 == MK_L4_ECHO_REQUEST && service_is_vip(&pkt->tuple.daddr);
}

/* Follow the session of a packet that may still pass. */
static __always_inline int follow(struct __sk_buff *skb, struct chain_ctx *ctx, struct packet *pkt,
				  const struct session_request *request)
{
	int ret = rewrite(skb, pkt, &request->to, &ctx->flags);

	if (ret != MK_GO_ON)
		return drop(skb, ctx->hook, ret, &pkt->tuple);
	return route_next(skb, ctx, pkt);
}

/* No chain takes a flow with an end that is this node itself, or a pod's flow to itself. If this
 * node is the client, no set with chains has been asked. */
static __always_inline void exempt(struct policy_flow *flow)
{
	if (!(flow->chain[MK_POLICY_EGRESS] | flow->chain[MK_POLICY_INGRESS]))
		return;
	if (is_host_address(&flow->server) || mk_addr_eq(&flow->client, &flow->server))
		__builtin_memset(flow->chain, 0, sizeof(flow->chain));
}

/* A packet that the sets allow, of a known flow. One that begins a connection from the server's end
 * goes as the session does. */
static __always_inline int pass_known(struct __sk_buff *skb, struct chain_ctx *ctx,
				      struct packet *pkt, struct scratch *room, int chained)
{
	if (is_crossing(ctx, pkt))
		return room->request.to.path ? chain_next(skb, ctx, pkt, MK_PROG_SFC)
					     : follow(skb, ctx, pkt, &room->request);
	if (chained || room->request.to.path)
		return chain_next(skb, ctx, pkt, MK_PROG_SFC_OPEN);
	note_seen(pkt, &room->request);
	return follow(skb, ctx, pkt, &room->request);
}

/* A packet that the sets allow. */
static __always_inline int pass(struct __sk_buff *skb, struct chain_ctx *ctx, struct packet *pkt,
				struct scratch *room)
{
	int chained;

	exempt(&room->flow);
	chained = room->flow.chain[MK_POLICY_EGRESS] | room->flow.chain[MK_POLICY_INGRESS];
	if (ctx->opens == CHAIN_FOLLOWS)
		return pass_known(skb, ctx, pkt, room, chained);
	/* an echo reply of no session: the next one is asked again */
	if (pkt->l4 == MK_L4_ECHO_REPLY && !room->request.turned)
		return chained ? drop(skb, ctx->hook, MK_DROP_POLICY_NO_FLOW, &pkt->tuple)
			       : chain_next(skb, ctx, pkt, MK_PROG_ROUTER);
	if (chained)
		return chain_next(skb, ctx, pkt, MK_PROG_SFC_OPEN);
	return open_and_go(skb, ctx, pkt, &room->request, MK_GO_ON, 1);
}

SEC("tc")
int policy(struct __sk_buff *skb)
{
	struct scratch *room = scratch_of_this_cpu();
	struct chain_ctx ctx;
	struct packet pkt;
	int ret = chain_packet(skb, &ctx, &pkt), way, enforces;

	if (ret != MK_GO_ON || !room)
		return drop(skb, ctx.hook, ret == MK_GO_ON ? MK_DROP_POLICY_PENDING : ret,
			    &pkt.tuple);
	if (is_ping_of_vip(&pkt))
		return chain_next(skb, &ctx, &pkt, MK_PROG_ROUTER);
	read_sets(&pkt, &room->request, &room->flow);
	enforces = any_enforces(&room->flow);
	way = ctx.opens == CHAIN_FOLLOWS ? way_of_known(&ctx, &pkt) : way_of_new(skb, &ctx, &pkt);
	if (!way && !enforces && ctx.opens != CHAIN_OPENS_OWN)
		way = POLICY_AS_SENT;
	__builtin_memset(room->flow.decided, 0, sizeof(room->flow.decided));
	__builtin_memset(room->flow.audited, 0, sizeof(room->flow.audited));
	__builtin_memset(room->flow.chain, 0, sizeof(room->flow.chain));
	room->flow.afresh = room->flow.look = 0;
	ret = way ? ask_way(&ctx, &pkt, room, way) : MK_DROP_POLICY_NO_FLOW;
	if (ret == MK_DROP_POLICY_NO_FLOW && !enforces)
		return pass_unknown(skb, &ctx, &pkt);
	count_both(&ctx, &room->flow);
	count_events(&ctx, &room->flow, way, ret);
	if (ret != MK_GO_ON)
		return deny(skb, &ctx, &pkt, room, ret);
	report_audit(skb, &ctx, &pkt, &room->flow, MK_POLICY_EGRESS);
	report_audit(skb, &ctx, &pkt, &room->flow, MK_POLICY_INGRESS);
	return pass(skb, &ctx, &pkt, room);
}

char LICENSE[] __attribute__((weak)) SEC("license") = "Dual BSD/GPL";
