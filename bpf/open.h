/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/open.h - open a session for the first packet of a flow, and choose its source port where it needs one. What
 * becomes of the session afterwards is in session.h. */
#ifndef MK_BPF_OPEN_H
#define MK_BPF_OPEN_H

#include "session.h"

#define MK_NAT_PROBES	   12 /* in the whole range; then: */
#define MK_NAT_PROBES_ALL  20 /* in the shared part of it */
#define MK_NAT_PROBES_FREE 8 /* after so many, an ended connection's port will do */
#define MK_NAT_SHARED_PART 8 /* the shared part is this part of the range */
#define MK_VPOD_PORT_MIN   1024

struct session_request {
	struct mk_tuple to; /* what the first packet has to show */
	__u32 service_id, account_id; /* of struct mk_service; 0: no Service's */
	__u8 source_port; /* choose a free to.sport for to.saddr */
	__u8 reverse_flags; /* MK_SESSION_VIA_HOST, _LOOPBACK, _VIA_OVERLAY: where answers go */
	__u8 has_room; /* among the established ones (session_room()): session_open() finds out */
};

/* Do the answers of some session already show what the answers to @to will show? */
static __always_inline int session_reverse_taken(struct session_tables tables,
						 const struct mk_tuple *to)
{
	struct mk_tuple key;

	tuple_reverse(&key, to);
	return bpf_map_lookup_elem(tables.established, &key) ||
	       bpf_map_lookup_elem(tables.half_open, &key);
}

/* In what order sessions give up the port that another flow needs: the lowest rank first, which is the
 * time of the last packet for one that has ended, and with this bit for one that is half open. */
#define MK_RANK_HALF_OPEN (1ULL << 63)
#define MK_RANK_KEEPS	  ~0ULL

/* The session that has a port. */
struct port_holder {
	__u64 rank;
	__u64 rank_below; /* what is asked for: another rank need not be found out */
	int gives_up; /* it has the lowest rank: it goes */
	int thorough; /* one that only the side which does not answer here has reset, too */
};

static __always_inline __u64 established_rank(struct session_tables tables,
					      const struct mk_session *session,
					      const struct port_holder *holder)
{
	struct mk_session *peer;

	if (session_is_half_open(session) && !session->reset)
		return session->last_seen_ns | MK_RANK_HALF_OPEN;
	if (session->last_seen_ns >= holder->rank_below)
		return MK_RANK_KEEPS;
	if (!session->fin && !session->reset && !holder->thorough &&
	    !session_is_idle(session, NULL, session_clock_ns()))
		return MK_RANK_KEEPS;
	peer = session_peer(tables, session);
	if (!session_is_over(session, peer) && !session_is_idle(session, peer, session_clock_ns()))
		return MK_RANK_KEEPS;
	return session->last_seen_ns;
}

/* Enter the answer's direction, with @session: what both directions share is set. Returns 0, or -1 if another session
 * has it, whose rank is in holder->rank then: a client may use one port towards a Service and towards its backend, or towards two
 * Services that share it. */
static __always_inline int session_put_reverse(struct session_tables tables,
					       const struct packet *pkt,
					       struct session_request *request,
					       struct mk_session *session,
					       struct port_holder *holder)
{
	struct mk_session *other;
	struct mk_tuple key;

	session->flags = request->reverse_flags;
	tuple_reverse(&key, &request->to);
	tuple_reverse(&session->to, &pkt->tuple);
	holder->rank = MK_RANK_KEEPS;
	other = bpf_map_lookup_elem(tables.established, &key);
	if (other) {
		holder->rank = established_rank(tables, other, holder);
		return -1;
	}
	if (request->has_room && !bpf_map_lookup_elem(tables.half_open, &key) &&
	    bpf_map_update_elem(tables.established, &key, session, BPF_NOEXIST) == 0)
		return 0;
	request->has_room = 0; /* their table is full, or the port taken in the other */
	if (order_put(tables, &key, session, BPF_NOEXIST) == 0)
		return 0;
	/* this flow's own, whose other direction was evicted? */
	other = bpf_map_lookup_elem(tables.half_open, &key);
	if (!other)
		return -1;
	holder->rank = other->last_seen_ns | MK_RANK_HALF_OPEN;
	if (!tuple_eq(&other->to, &session->to))
		return -1;
	return bpf_map_update_elem(tables.half_open, &key, session, BPF_ANY) ? -1 : 0;
}

/* Forget the session whose answers show the reverse of @to, unless it is established and goes on. */
static __always_inline void session_forget(struct session_tables tables, const struct mk_tuple *to)
{
	struct mk_session *session, *peer;
	struct mk_tuple key, peer_key;

	tuple_reverse(&key, to);
	session = bpf_map_lookup_elem(tables.established, &key);
	if (session) {
		peer = session_peer(tables, session);
		if (session_is_over(session, peer) || session_is_half_open(session) ||
		    session_is_idle(session, peer, session_clock_ns()))
			session_remove(tables, &key, session, peer);
		return;
	}
	session = bpf_map_lookup_elem(tables.half_open, &key);
	if (!session)
		return;
	session_peer_key(&peer_key, session);
	bpf_map_delete_elem(tables.half_open, &peer_key);
	bpf_map_delete_elem(tables.half_open, &key);
}

/* The ports from which masquerade chooses. */
struct nat_ports {
	__u32 min, count;
	__u32 shared; /* the first of them, an even number */
};

/* For the verifier: what is asked here it need not know afterwards. */
static __always_inline int is_of_vpod(const struct session_request *request)
{
	struct mk_addr addr = request->to.saddr;

	addr.word[0] = forgotten(addr.word[0], request->to.dport);
	return is_addr(&addr, mk_node_vpod());
}

/* Of the virtual pod address, which only monokube uses, all but the privileged ones; else natPortRange, which the host
 * leaves to us. */
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

/* The quota: of two neighbours in the shared part @client may use one, by hash of its address. So no client gets all the
 * ports towards a destination, and another one, whose hash chooses the other neighbour of every second pair, has some
 * that the first cannot take. Port number @at, or its neighbour. */
static __always_inline __u32 nat_port_of_client(const struct nat_ports *ports,
						const struct mk_addr *client, __u32 at)
{
	__u32 other = (at ^ hash_finish(client->word[0] ^ (at & ~1U) * 0x9e3779b1)) & 1;
	__s64 beyond = (__s64)at -
		       ports->shared; /* no branch, which the verifier would follow for each port */

	return at ^ (other & (__u32)(beyond >> 63));
}

/* Behind the virtual pod address a client keeps its own port, if that is free and within its quota: a server that
 * remembers the client's last connection from there (TIME-WAIT) then remembers it from no other client. */
static __always_inline int nat_keeps_port(const struct packet *pkt,
					  const struct session_request *request)
{
	struct nat_ports ports = nat_ports_of(request);
	__u32 at = bpf_ntohs(pkt->tuple.sport) - ports.min;

	return is_of_vpod(request) && nat_port_of_client(&ports, &pkt->tuple.saddr, at) == at;
}

/* Number @at of the ports that the client may use, of the first @count. All the same to the verifier. */
static __always_inline __u32 nat_port(const struct nat_ports *ports, const struct packet *pkt,
				      __u32 at, __u32 count)
{
	__u32 port = nat_port_of_client(ports, &pkt->tuple.saddr, at % count);

	return forgotten(ports->min + port, at);
}

/* Give the flow @port. Returns 0, or -1 if another session has it. */
static __always_inline int session_try_port(struct session_tables tables, const struct packet *pkt,
					    struct session_request *request,
					    struct mk_session *session, __u32 port,
					    struct port_holder *holder)
{
	request->to.sport = bpf_htons(port);
	if (session_l4(pkt) == MK_L4_ECHO_REQUEST)
		request->to.dport = request->to.sport;
	if (holder->gives_up)
		session_forget(tables, &request->to);
	return session_put_reverse(tables, pkt, request, session, holder);
}

/* A source port that no live session towards the same destination uses: by hash, with a bounded
 * probe. If these are taken, a connection that has ended gives its port up, of those seen the one
 * that ended longest ago: the server may remember it (TIME-WAIT), and takes a SYN with a later
 * timestamp or sequence number (RFC 6191). If none has, the half-open session without an answer for
 * longest: a flood towards one destination takes ports from the flood. If none is half open, the search goes on in
 * the shared part, which has ports that other clients cannot take. Returns 0 with
 * request->to.sport set and the answer's direction entered, or -1. */
static __always_inline int session_take_port(struct session_tables tables, const struct packet *pkt,
					     struct session_request *request,
					     struct mk_session *session)
{
	struct nat_ports ports = nat_ports_of(request);
	struct port_holder holder = { .rank_below = MK_RANK_KEEPS };
	__u32 at = tuple_hash(&pkt->tuple), port, lowest = 0;

	ports.min = forgotten(ports.min, at);
	ports.count = forgotten(ports.count, at);
	ports.shared = forgotten(ports.shared, at);
	/* one round more takes the port, when the search is over: the code is here once */
	for (int i = 0; i <= MK_NAT_PROBES_ALL && !holder.gives_up; i++) {
		request->has_room = forgotten(request->has_room, at);
		holder.thorough = i >= MK_NAT_PROBES_FREE;
		if (holder.rank_below != MK_RANK_KEEPS)
			holder.gives_up =
				i >= MK_NAT_PROBES ||
				(holder.thorough && holder.rank_below < MK_RANK_HALF_OPEN);
		if (i == MK_NAT_PROBES_ALL && !holder.gives_up)
			break;
		port = holder.gives_up
			       ? lowest
			       : nat_port(&ports, pkt, at,
					  i < MK_NAT_PROBES ? ports.count : ports.shared | 1);
		if (session_try_port(tables, pkt, request, session, port, &holder) == 0)
			return 0;
		if (holder.rank < holder.rank_below) {
			holder.rank_below = holder.rank;
			lowest = port;
		}
		at = at * 0x9e3779b1 + 0x7f4a7c15;
	}
	return -1;
}

/* The answer's direction has got the last place among the established ones: it goes where the oldest make
 * room. Returns 0, or -1. */
static __always_inline int session_leave_room(struct session_tables tables,
					      const struct mk_tuple *reverse)
{
	struct mk_session copy, *there = bpf_map_lookup_elem(tables.established, reverse);

	if (!there)
		return -1;
	copy = *there;
	bpf_map_delete_elem(tables.established, reverse);
	return order_put(tables, reverse, &copy, BPF_NOEXIST) ? -1 : 0;
}

/* Open the session of which @pkt is the first packet. Returns MK_PARSED with request->to complete,
 * or a drop reason. */
static __always_inline int session_open(struct session_tables tables, const struct packet *pkt,
					struct session_request *request)
{
	struct mk_session session = {
		.created_ns = session_clock_ns(),
		.service_id = request->service_id,
		.account_id = request->account_id,
	};
	struct port_holder holder = { 0 };
	__s64 *room = session_room();
	struct mk_tuple reverse;
	int choose;

	session.last_seen_ns = session.created_ns;
	request->has_room = room && *room > 0 && session_l4(pkt) == MK_L4_TCP &&
			    is_first_flags(session_tcp_flags(pkt));
	choose = forgotten(request->source_port && !nat_keeps_port(pkt, request),
			   session.created_ns);
	if (!choose)
		choose = session_put_reverse(tables, pkt, request, &session, &holder) != 0;
	if (choose && session_take_port(tables, pkt, request, &session))
		return MK_DROP_NAT_PORTS_EXHAUSTED;
	session.flags = MK_SESSION_FORWARD;
	session.to = request->to;
	tuple_reverse(&reverse, &request->to);
	room = session_room(); /* looked up again: the verifier had nothing to know of it in between */
	if (room && request->has_room) {
		if (session_establish(tables.established, &pkt->tuple, &session) == 0) {
			(*room)--;
			return MK_PARSED;
		}
		if (session_leave_room(tables, &reverse))
			return MK_DROP_SESSION_TABLE_FULL;
	}
	order_enter(tables, &pkt->tuple, session.created_ns);
	if (order_put(tables, &pkt->tuple, &session, BPF_ANY) == 0)
		return MK_PARSED;
	bpf_map_delete_elem(tables.half_open, &reverse);
	return MK_DROP_SESSION_TABLE_FULL;
}

#endif
