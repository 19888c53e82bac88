/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/beside.h - a client may use one port towards a Service and towards its backend: two flows for it, whose
 * answers look the same here. The later one gets another port (session_open()), so the earlier must be
 * known, as the kernel's connection tracking knows every flow:
 *
 *	a Service's	by its session
 *	TCP		by the client's socket, where that is on this node: nothing to keep, and a flow to no
 *			Service pays nothing for it
 *	SCTP		by a session, which every association of a pod has
 *	UDP		by a session, which those of a pod's flows have that are for a port where backends of
 *			Services listen; every datagram asks, so that has to be cheap: one bit
 *
 * Where tables are full, or no port is free, a flow to no Service goes on as it is, unless its answers are those
 * of another flow already. */
#ifndef MK_BPF_BESIDE_H
#define MK_BPF_BESIDE_H

#include "open.h"

/* Has the namespace @netns a socket (TIME-WAIT too) that takes what shows @tuple? (bpf-helpers(7): a number as
 * in IFLA_LINK_NETNSID, or BPF_F_CURRENT_NETNS.) */
static __always_inline int has_connection(struct __sk_buff *skb, const struct mk_tuple *tuple,
					  __u64 netns)
{
	struct bpf_sock_tuple flow = { .ipv4 = { .saddr = tuple->saddr.word[0],
						 .daddr = tuple->daddr.word[0],
						 .sport = tuple->sport,
						 .dport = tuple->dport } };
	struct bpf_sock *socket = bpf_skc_lookup_tcp(skb, &flow, sizeof(flow.ipv4), netns, 0);
	int found;

	if (!socket)
		return 0;
	found = socket->state != BPF_TCP_LISTEN;
	bpf_sk_release(socket);
	return found;
}

/* Has this host a UDP socket that is connected to the sender of @pkt? */
static __always_inline int has_connected_udp(struct __sk_buff *skb, const struct packet *pkt)
{
	struct bpf_sock_tuple flow = { .ipv4 = { .saddr = pkt->tuple.saddr.word[0],
						 .daddr = pkt->tuple.daddr.word[0],
						 .sport = pkt->tuple.sport,
						 .dport = pkt->tuple.dport } };
	struct bpf_sock *socket =
		bpf_sk_lookup_udp(skb, &flow, sizeof(flow.ipv4), BPF_F_CURRENT_NETNS, 0);
	int connected;

	if (!socket)
		return 0;
	connected = socket->state == BPF_TCP_ESTABLISHED;
	bpf_sk_release(socket);
	return connected;
}

static __always_inline int may_be_beside(const struct packet *pkt,
					 const struct session_request *request)
{
	return pkt->l4 == MK_L4_TCP && is_first_of_tcp(pkt) && !request->source_port;
}

/* A pod's connection is about to be opened as @request says: has the pod one to that backend from that port? */
static __always_inline int is_beside_pods_own(struct __sk_buff *skb, const struct packet *pkt,
					      const struct session_request *request)
{
	struct mk_tuple answer;
	struct mk_pod *pod;

	if (!may_be_beside(pkt, request))
		return 0;
	pod = pod_find(&pkt->tuple.saddr);
	if (!pod || !pod->netns_ref)
		return 0;
	tuple_reverse(&answer, &request->to);
	return has_connection(skb, &answer, pod->netns_ref - 1);
}

/* As is_beside_pods_own(), of a client outside whose backend is this host. */
static __always_inline int is_beside_hosts_own(struct __sk_buff *skb, const struct packet *pkt,
					       const struct session_request *request)
{
	const struct mk_runtime *settings = runtime_settings();

	if (!settings || !settings->host_backends || !may_be_beside(pkt, request) ||
	    !is_host_address(&request->to.daddr))
		return 0;
	return has_connection(skb, &request->to, BPF_F_CURRENT_NETNS);
}

static __always_inline int is_udp_backend_port(const struct packet *pkt)
{
	__u32 zero = 0, port = bpf_ntohs(pkt->tuple.dport);
	const struct mk_port_set *ports = bpf_map_lookup_elem(&udp_ports, &zero);

	/* for the verifier, which does not know how large a swapped port is */
	asm volatile("" : "+r"(port));
	port &= 0xffff;
	return ports && ports->words[port / 32] >> (port % 32) & 1;
}

/* Of a flow that a pod opens to no Service: must it have a session? Outside the cluster, where names are asked
 * for all the time, UDP only once there is a Service's beside it: there it is nat that gives the port, and may
 * give another one. */
static __always_inline int is_pods_own_kept(const struct packet *pkt)
{
	if (pkt->l4 == MK_L4_UDP)
		return is_udp_backend_port(pkt) &&
		       (is_pod_range(&pkt->tuple.daddr) || is_host_address(&pkt->tuple.daddr) ||
			session_reverse_taken(SERVICE_SESSIONS, &pkt->tuple));
	if (!is_first_of_tcp(pkt))
		return 0;
	return pkt->l4 == MK_L4_SCTP || session_reverse_taken(SERVICE_SESSIONS, &pkt->tuple);
}

/* Of a flow from outside to a port of the host's own, where the host may be a backend: must it? */
static __always_inline int is_hosts_own_kept(const struct packet *pkt)
{
	if (pkt->l4 == MK_L4_UDP)
		return 1; /* may_have_session() has asked for the port */
	if (!is_first_of_tcp(pkt))
		return 0;
	return pkt->l4 == MK_L4_SCTP || session_reverse_taken(SERVICE_SESSIONS, &pkt->tuple);
}

/* Can the answers of a flow to no Service, which has no session, be told from those of others? */
static __always_inline int is_told_apart(const struct packet *pkt)
{
	return !session_reverse_taken(SERVICE_SESSIONS, &pkt->tuple);
}

#endif
