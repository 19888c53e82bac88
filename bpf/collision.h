/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/collision.h - two flows with one client port: a client may use one port towards a Service and
 * towards the Service's backend. The answers of the two flows look the same here, so the later flow
 * gets another port (session_open()). The programs must know which flow came first; the kernel's
 * connection tracking knows every flow. Here:
 *
 * - A Service's flow has a session.
 * - TCP: the client's socket is looked up if it is on this node. Flows to no Service need no
 *   session and pay nothing.
 * - SCTP: every association of a pod has a session.
 * - UDP: a pod's flow has a session if backends of Services receive UDP at its port. This is
 *   checked for every datagram, so it must be cheap: one bit per port.
 *
 * If tables are full or no port is free, a flow to no Service passes untranslated. It is dropped
 * only if its answers look like those of an existing flow. */
#ifndef MK_BPF_COLLISION_H
#define MK_BPF_COLLISION_H

#include "open.h"

/* Does a socket of the namespace @netns, possibly in TIME-WAIT, receive packets with @tuple? @netns
 * is a number as in IFLA_LINK_NETNSID, or BPF_F_CURRENT_NETNS (bpf-helpers(7)). */
static __always_inline int has_connection(struct __sk_buff *skb, const struct mk_tuple *tuple,
					  __u64 netns)
{
	struct bpf_sock_tuple flow = socket_tuple(tuple);
	struct bpf_sock *socket = bpf_skc_lookup_tcp(skb, &flow, MK_SOCKET_BYTES, netns, 0);
	int found;

	if (!socket)
		return 0;
	found = socket->state != BPF_TCP_LISTEN;
	bpf_sk_release(socket);
	return found;
}

/* Does a socket of @netns listen at the destination of @tuple, for peers that have no connection
 * there? */
static __always_inline int is_listened_at(struct __sk_buff *skb, const struct mk_tuple *tuple,
					  __u64 netns)
{
	struct bpf_sock_tuple flow;
	struct mk_tuple other = *tuple;
	struct bpf_sock *socket;
	int listens;

	other.sport = 0; /* which no connection has */
	flow = socket_tuple(&other);
	socket = bpf_skc_lookup_tcp(skb, &flow, MK_SOCKET_BYTES, netns, 0);
	if (!socket)
		return 0;
	listens = socket->state == BPF_TCP_LISTEN;
	bpf_sk_release(socket);
	return listens;
}

/* Does this host have a UDP socket that is connected to the sender of @pkt? */
static __always_inline int has_connected_udp(struct __sk_buff *skb, const struct packet *pkt)
{
	struct bpf_sock_tuple flow = socket_tuple(&pkt->tuple);
	struct bpf_sock *socket =
		bpf_sk_lookup_udp(skb, &flow, MK_SOCKET_BYTES, BPF_F_CURRENT_NETNS, 0);
	int connected;

	if (!socket)
		return 0;
	connected = socket->state == BPF_TCP_ESTABLISHED;
	bpf_sk_release(socket);
	return connected;
}

static __always_inline int may_collide(const struct packet *pkt,
				       const struct session_request *request)
{
	return pkt->l4 == MK_L4_TCP && is_first_of_tcp(pkt) && !request->source_port;
}

/* A pod opens the connection @request. Does the pod already have a connection to that backend from
 * the same port? */
static __always_inline int pod_has_connection(struct __sk_buff *skb, const struct packet *pkt,
					      const struct session_request *request)
{
	struct mk_tuple answer;
	struct mk_pod *pod;

	if (!may_collide(pkt, request))
		return 0;
	pod = pod_find(&pkt->tuple.saddr);
	if (!pod || !pod->netns_ref)
		return 0;
	tuple_reverse(&answer, &request->to);
	return has_connection(skb, &answer, pod->netns_ref - 1);
}

/* The same for a client outside whose backend is this host. */
static __always_inline int host_has_connection(struct __sk_buff *skb, const struct packet *pkt,
					       const struct session_request *request)
{
	const struct mk_runtime *settings = runtime_settings();

	if (!settings || !settings->host_backends || !may_collide(pkt, request) ||
	    !is_host_address(&request->to.daddr))
		return 0;
	return has_connection(skb, &request->to, BPF_F_CURRENT_NETNS);
}

static __always_inline int is_udp_backend_port(const struct packet *pkt)
{
	__u32 port = bpf_ntohs(pkt->tuple.dport);
	const struct mk_port_set *ports = find_number(&udp_ports, 0);

	/* for the verifier, which does not know the range of a byte-swapped port */
	asm volatile("" : "+r"(port));
	port &= 0xffff;
	return ports && ports->words[port / 32] >> (port % 32) & 1;
}

/* Does a flow that a pod opens to no Service need a session? A UDP flow to outside the cluster,
 * such as a DNS query, needs one only if a Service's flow with the same answers exists: nat chooses
 * the port of such a flow, and can choose another one. */
static __always_inline int pods_flow_needs_session(const struct packet *pkt)
{
	if (pkt->l4 == MK_L4_UDP)
		return is_udp_backend_port(pkt) &&
		       (is_pod_range(&pkt->tuple.daddr) || is_host_address(&pkt->tuple.daddr) ||
			session_reverse_taken(SERVICE_SESSIONS, &pkt->tuple));
	if (!is_first_of_tcp(pkt))
		return 0;
	return pkt->l4 == MK_L4_SCTP || session_reverse_taken(SERVICE_SESSIONS, &pkt->tuple);
}

/* Does a flow from outside to a port of the host itself need a session? Called only if the host may
 * be a backend. */
static __always_inline int hosts_flow_needs_session(const struct packet *pkt)
{
	if (pkt->l4 == MK_L4_UDP)
		return 1; /* may_have_session() has checked the port */
	if (!is_first_of_tcp(pkt))
		return 0;
	return pkt->l4 == MK_L4_SCTP || session_reverse_taken(SERVICE_SESSIONS, &pkt->tuple);
}

/* Can a flow to no Service pass without a session? Only if no session has the same answers. */
static __always_inline int is_distinct(const struct packet *pkt)
{
	return !session_reverse_taken(SERVICE_SESSIONS, &pkt->tuple);
}

#endif
