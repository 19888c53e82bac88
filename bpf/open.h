/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/open.h - open a session for the first packet of a flow, and choose its source port if it
 * needs one. The session's later life is in session.h. */
#ifndef MK_BPF_OPEN_H
#define MK_BPF_OPEN_H

#include "session.h"

#define MK_NAT_PROBES	   12 /* probes of the whole range */
#define MK_NAT_PROBES_ALL  20 /* ... and then probes of its shared part, up to this number */
#define MK_NAT_PROBES_FREE 8 /* after this many probes, take a port of an ended connection */
#define MK_NAT_SHARED_PART 8 /* the shared part is the first eighth of the range */
#define MK_VPOD_PORT_MIN   1024

/* Does a session exist whose answers have the same tuple as answers to @to? */
static __always_inline int session_reverse_taken(struct session_tables tables,
						 const struct mk_tuple *to)
{
	union tuple_key key;

	key_reverse(&key, to);
	return bpf_map_lookup_elem(tables.established, &key) ||
	       bpf_map_lookup_elem(tables.young, &key);
}

/* The order in which sessions release a port that another flow needs: the lowest rank first. The
 * rank of an ended or idle session is the time of its last packet; a half-open session's rank also
 * has this bit. MK_RANK_KEEPS: it does not release the port. */
#define MK_RANK_HALF_OPEN (1ULL << 63)
#define MK_RANK_KEEPS	  ~0ULL

/* Set the rank of @session, of the established table, unless it keeps its port. */
static __always_inline void established_rank(struct session_tables tables,
					     const struct mk_session *session,
					     struct port_holder *holder)
{
	struct mk_session *peer;

	if (session_is_half_open(session) && !session->reset) {
		holder->rank = session->last_seen_ns | MK_RANK_HALF_OPEN;
		return;
	}
	if (session->last_seen_ns >= holder->rank_below)
		return;
	if (!session->fin && !session->reset && !holder->thorough &&
	    !session_is_idle(session, NULL, session_clock_ns()))
		return;
	peer = session_peer(tables, session);
	if (session_is_over(session, peer) || session_is_idle(session, peer, session_clock_ns()))
		holder->rank = session->last_seen_ns;
}

/* Insert the reverse entry from @session, whose members common to both directions are set. Returns
 * 0, or -1: usually another session has that key, and its rank is in @holder, if not NULL. This
 * happens because a client may use one port towards a Service and towards its backend, or towards
 * two Services with a common backend. */
static __always_inline int session_put_reverse(struct session_tables tables,
					       const struct packet *pkt,
					       struct session_request *request,
					       struct mk_session *session,
					       struct port_holder *holder)
{
	struct mk_session *other;
	union tuple_key key;

	session->flags = request->reverse_flags;
	key_reverse(&key, &request->to);
	tuple_reverse(&session->to, &pkt->tuple);
	session->to.path = request->to.path;
	if (holder)
		holder->rank = MK_RANK_KEEPS;
	if (request->has_quota && !bpf_map_lookup_elem(tables.young, &key) &&
	    bpf_map_update_elem(tables.established, &key, session, BPF_NOEXIST) == 0)
		return 0;
	other = bpf_map_lookup_elem(tables.established, &key);
	if (other) {
		if (holder)
			established_rank(tables, other, holder);
		return -1;
	}
	request->has_quota = 0; /* the established table is full, or a new session has the port */
	if (young_put(tables, &key.tuple, session, BPF_NOEXIST) == 0)
		return 0;
	/* is it this flow's own entry, whose forward entry was evicted? */
	other = bpf_map_lookup_elem(tables.young, &key);
	if (!other)
		return -1;
	if (holder)
		holder->rank = other->last_seen_ns | MK_RANK_HALF_OPEN;
	if (!tuple_eq(&other->to, &session->to))
		return -1;
	return bpf_map_update_elem(tables.young, &key, session, BPF_ANY) ? -1 : 0;
}

/* Remove the session whose answers have the reverse of @to, unless it is established and still in
 * use. */
static __always_inline void session_forget(struct session_tables tables, const struct mk_tuple *to)
{
	struct mk_session *session, *peer;
	union tuple_key key, peer_key;

	key_reverse(&key, to);
	session = bpf_map_lookup_elem(tables.established, &key);
	if (session) {
		peer = session_peer(tables, session);
		if (session_is_over(session, peer) || session_is_half_open(session) ||
		    session_is_idle(session, peer, session_clock_ns()))
			session_remove(tables, &key.tuple, session, peer);
		return;
	}
	session = bpf_map_lookup_elem(tables.young, &key);
	if (!session)
		return;
	session_peer_key(&peer_key, session);
	bpf_map_delete_elem(tables.young, &peer_key);
	bpf_map_delete_elem(tables.young, &key);
}

/* The range of ports that a source port is chosen from. */
struct nat_ports {
	__u32 min, count;
	__u32 shared; /* size of the shared part at its start, an even number */
};

static __always_inline int is_of_vpod(const struct session_request *request)
{
	return is_addr(&request->to.saddr, mk_node_vpod());
}

/* The ports of the source address. For the virtual pod address, which only monokube uses, all
 * unprivileged ports. For any other address natPortRange, which the host does not use itself. */
static __always_inline struct nat_ports nat_ports_of(const struct session_request *request)
{
	struct nat_ports ports = { .min = mk_node.nat_port_min,
				   .count = mk_node.nat_port_max - mk_node.nat_port_min + 1 };

	if (is_of_vpod(request)) {
		ports.min = MK_VPOD_PORT_MIN;
		ports.count = 65536 - MK_VPOD_PORT_MIN;
	}
	ports.shared = ports.count / MK_NAT_SHARED_PART & ~1U;
	return ports;
}

/* The quota: in the shared part @client may use only one of two neighbouring ports, by hash of its
 * address. So no client gets all ports towards a destination. In every second pair another client
 * has the other port, which the first client cannot take. Returns @at, or its neighbour. */
static __always_inline __u32 nat_port_of_client(const struct nat_ports *ports,
						const struct mk_addr *client, __u32 at)
{
	__u32 other = (at ^ hash_finish(addr_hash(client) ^ (at & ~1U) * 0x9e3779b1)) & 1;
	/* no branch: the verifier would follow it for each port */
	__s64 beyond = forgotten((__s64)at - ports->shared, at);

	return at ^ (other & (__u32)(beyond >> 63));
}

/* May the client keep its own port? It may behind the virtual pod address, if the port is within
 * its quota; session_open() then takes the port if it is free. A server may remember a connection
 * from that port (TIME-WAIT). With its own port a client meets only its own old connections
 * there. */
static __always_inline int nat_keeps_port(const struct packet *pkt,
					  const struct session_request *request)
{
	struct nat_ports ports = nat_ports_of(request);
	__u32 at = bpf_ntohs(pkt->tuple.sport) - ports.min;

	return is_of_vpod(request) && nat_port_of_client(&ports, &pkt->tuple.saddr, at) == at;
}

/* Port number @at of those that the client may use, modulo @count. The verifier treats all results
 * alike. */
static __always_inline __u32 nat_port(const struct nat_ports *ports, const struct packet *pkt,
				      __u32 at, __u32 count)
{
	__u32 port = nat_port_of_client(ports, &pkt->tuple.saddr, at % count);

	return forgotten(ports->min + port, at);
}

static __always_inline void session_set_port(const struct packet *pkt,
					     struct session_request *request, __u32 port)
{
	request->to.sport = bpf_htons(port);
	if (session_l4(pkt) == MK_L4_ECHO_REQUEST)
		request->to.dport = request->to.sport;
}

/* Choose a source port that no live session towards the same destination uses: by hash, with a
 * bounded number of probes. If all probed ports are in use, one of them is taken:
 *
 * - From a connection that has ended or is idle for too long, the longest silent first. The server
 *   may remember it (TIME-WAIT), but accepts a SYN with a later timestamp or sequence number (RFC
 *   6191).
 * - Otherwise from the half-open session without an answer for longest. So a flood towards one
 *   destination takes ports from itself.
 *
 * If neither was found, the search continues in the shared part, which has ports that other clients
 * cannot take. Returns 0 with request->to.sport set and the reverse entry inserted, or -1. */
static __always_inline int session_take_port(struct session_tables tables, const struct packet *pkt,
					     struct session_request *request,
					     struct mk_session *session, struct port_holder *holder)
{
	struct nat_ports ports = nat_ports_of(request);
	__u32 at = tuple_hash(&pkt->tuple), port;

	ports.min = forgotten(ports.min, at);
	ports.count = forgotten(ports.count, at);
	ports.shared = forgotten(ports.shared, at);
	holder->rank_below = MK_RANK_KEEPS;
	for (int i = 0; i < MK_NAT_PROBES_ALL; i++) {
		holder->thorough = i >= MK_NAT_PROBES_FREE;
		if (holder->rank_below != MK_RANK_KEEPS &&
		    (i >= MK_NAT_PROBES ||
		     (holder->thorough && holder->rank_below < MK_RANK_HALF_OPEN)))
			break;
		port = nat_port(&ports, pkt, at,
				i < MK_NAT_PROBES ? ports.count : ports.shared | 1);
		session_set_port(pkt, request, port);
		if (session_put_reverse(tables, pkt, request, session, holder) == 0)
			return 0;
		if (holder->rank < holder->rank_below) {
			holder->rank_below = holder->rank;
			holder->lowest = port;
		}
		at = at * 0x9e3779b1 + 0x7f4a7c15;
	}
	if (holder->rank_below == MK_RANK_KEEPS)
		return -1;
	session_set_port(pkt, request, holder->lowest);
	session_forget(tables, &request->to);
	return session_put_reverse(tables, pkt, request, session, NULL);
}

/* The reverse entry took the last free entry of the established table. Move it to the table of new
 * sessions. Returns 0, or -1. */
static __always_inline int session_move_back(struct session_tables tables,
					     const struct mk_tuple *reverse)
{
	struct mk_session *there = bpf_map_lookup_elem(tables.established, reverse);
	struct scratch *room = scratch_of_this_cpu();

	if (!there || !room)
		return -1;
	room->copy = *there;
	bpf_map_delete_elem(tables.established, reverse);
	return young_put(tables, reverse, &room->copy, BPF_NOEXIST) ? -1 : 0;
}

/* Begin a request whose flow is not translated yet. */
static __always_inline void session_request_begin(struct session_request *request,
						  const struct packet *pkt)
{
	request->to = pkt->tuple;
	request->set_id = 0;
	request->service_id = 0;
	request->source_port = 0;
	request->reverse_flags = 0;
	request->forward_flags = MK_SESSION_FORWARD;
	request->turned = 0;
	request->policy_seen = 0;
}

static __always_inline void session_begin(struct mk_session *session,
					  const struct session_request *request)
{
	__builtin_memset(session, 0, sizeof(*session));
	session->created_ns = session_clock_ns();
	session->last_seen_ns = session->created_ns;
	session->set_id = request->set_id;
	session->service_id = request->service_id;
	session->policy_seen = request->policy_seen;
}

/* Open a session for its first packet @pkt. Returns MK_GO_ON with request->to complete, or a drop
 * reason. */
static __always_inline int session_open(struct session_tables tables, const struct packet *pkt,
					struct session_request *request)
{
	struct scratch *room = scratch_of_this_cpu();
	__s64 *quota = quota_of_this_cpu();
	struct mk_session *session;
	union tuple_key reverse;
	int choose;

	if (!room)
		return MK_DROP_SESSION_TABLE_FULL;
	session = &room->session;
	session_begin(session, request);
	request->has_quota = quota && *quota > 0 && session_l4(pkt) == MK_L4_TCP &&
			     is_first_flags(session_tcp_flags(pkt));
	choose = forgotten(request->source_port && !nat_keeps_port(pkt, request),
			   session->created_ns);
	if (!choose)
		choose = session_put_reverse(tables, pkt, request, session, NULL) != 0;
	if (choose && session_take_port(tables, pkt, request, session, &room->holder))
		return MK_DROP_NAT_PORTS_EXHAUSTED;
	session->flags = request->forward_flags;
	session->to = request->to;
	key_reverse(&reverse, &request->to);
	/* looked up again, so that the verifier does not track it through the code above */
	quota = quota_of_this_cpu();
	if (quota && request->has_quota) {
		if (session_establish(tables.established, &pkt->tuple, session) == 0) {
			(*quota)--;
			return MK_GO_ON;
		}
		if (session_move_back(tables, &reverse.tuple))
			return MK_DROP_SESSION_TABLE_FULL;
	}
	queue_enter(tables, TABLE_YOUNG, &pkt->tuple, session->created_ns);
	if (young_put(tables, &pkt->tuple, session, BPF_ANY) == 0)
		return MK_GO_ON;
	bpf_map_delete_elem(tables.young, &reverse);
	return MK_DROP_SESSION_TABLE_FULL;
}

#endif
