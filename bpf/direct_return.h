/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/direct_return.h - answers that go straight to a client outside (setting directServerReturn).
 * The node that takes the request delegates the flow: it sends the packet as it is, by the overlay,
 * to a node that has an endpoint. That node handles it as a NodePort's packet with policy Local: it
 * has the session, and asks source ranges and policies. Answers leave by its uplink.
 *
 * Some answers take the way back, translated: those that begin or end a connection, and those of a
 * UDP flow that is not established. The first node notes them in its session, which lives as that
 * of any other flow.
 *
 * Every node takes such packets, whatever it does itself. */
#ifndef MK_BPF_DIRECT_RETURN_H
#define MK_BPF_DIRECT_RETURN_H

#include "client.h"
#include "icmp_error.h"
#include "service.h"

/* ---- the node that takes the request --------------------------------------------------------- */

/* Has every node the frontends of @addr? NodePorts of a node's further addresses are its own. */
static __always_inline int is_address_of_all(const struct mk_addr *addr)
{
	return is_addr(addr, mk_node_addr()) || service_is_vip(addr);
}

/* May a flow to @service go to the pod's node as it is? The client keeps its address then. With
 * affinity the backend is this node's choice, so such a Service's packets are translated here. */
static __always_inline int may_delegate(const struct packet *pkt, const struct mk_frontend *service)
{
	return service && service->flags & MK_FRONTEND_MASQUERADE && !service->affinity_id &&
	       is_address_of_all(&pkt->tuple.daddr);
}

/* Let the node of the chosen backend answer the client itself, if it is on the same link. That node
 * counts the flow for the Service. Returns 1, or 0 if it is not on the link. */
static __always_inline int return_directly(struct session_request *request)
{
	struct mk_route route;

	if (request->source_port || route_find(&request->to.daddr, &route) ||
	    route.type != MK_ROUTE_OVERLAY || !route.is_direct)
		return 0;
	request->set_id = node_of_mac(route.vtep_mac);
	request->service_id = 0;
	request->forward_flags = MK_SESSION_DELEGATED;
	return 1;
}

/* Do packets of a forward entry with @flags, for a pod @server, go on to the pod's node? There the
 * entry has the same flags, and the pod is local. */
static __always_inline int is_delegated(__u8 flags, const struct mk_addr *server)
{
	return (flags & MK_SESSION_DELEGATED) == MK_SESSION_DELEGATED && !is_local_pod(server);
}

/* Send the packet on to @node. The router reads it from skb->cb[4], which struct chain_ctx does not
 * use. */
static __always_inline int delegate_to(struct __sk_buff *skb, struct chain_ctx *ctx,
				       const struct packet *pkt, __u32 node)
{
	skb->cb[4] = node;
	ctx->flags |= CHAIN_VIA_OVERLAY;
	return chain_next(skb, ctx, pkt, MK_PROG_ROUTER);
}

/* The node to which an ICMP error about an answer goes on; 0: to none. */
static __always_inline __u32 node_of_error(struct __sk_buff *skb, const struct packet *pkt)
{
	struct scratch *room = scratch_of_this_cpu();
	const struct mk_session *session;
	struct mk_tuple key;

	session = room ? icmp_error_session(skb, SERVICE_SESSIONS, pkt, room, &key) : NULL;
	return session && is_delegated(session->flags, &session->to.daddr) ? session->set_id : 0;
}

/* Has the pod's node sent an answer to a client outside by this node? */
static __always_inline int is_answer_of_node(const struct packet *pkt)
{
	return !is_pod_range(&pkt->tuple.daddr) && !is_pod_range(&pkt->tuple.saddr) &&
	       is_address_of_all(&pkt->tuple.saddr) && is_client_outside(&pkt->tuple.daddr);
}

/* Note such an answer in its session, as if it were the pod's. The pod's node counts it. */
static __always_inline void note_answer(struct __sk_buff *skb, struct packet *pkt)
{
	struct session_tables tables = SERVICE_SESSIONS;
	const struct mk_tuple answer = pkt->tuple;
	struct session_hit hit;
	struct mk_session *session;
	struct mk_tuple key;

	tables.of_services = 0;
	tuple_reverse(&key, &answer);
	session = bpf_map_lookup_elem(tables.established, &key);
	session = session ?: bpf_map_lookup_elem(tables.young, &key);
	if (!session || !is_delegated(session->flags, &session->to.daddr))
		return;
	tuple_reverse(&pkt->tuple, &session->to);
	pkt->tuple.path = 0;
	session_find(skb, tables, pkt, &hit);
	pkt->tuple = answer;
}

/* ---- the node that has the pod --------------------------------------------------------------- */

/* The frontend of a packet that another node has delegated. A NodePort's address is that node's.
 * Here the frontend has this node's. */
static __always_inline struct mk_frontend *frontend_of_delegated(struct __sk_buff *skb,
								 const struct packet *pkt)
{
	struct mk_frontend *service = service_find(&pkt->tuple, MK_SCOPE_EXTERNAL);
	struct mk_tuple here = pkt->tuple;
	const struct mk_peer *peer;

	if (service)
		return service;
	peer = bpf_map_lookup_elem(&peers, &pkt->tuple.daddr);
	if (!peer || node_of_mac(peer->vtep_mac) != node_of_frame(skb))
		return NULL;
	here.daddr = mk_node_addr();
	return service_find(&here, MK_SCOPE_EXTERNAL);
}

/* Has another node delegated this packet of a client outside? */
static __always_inline int is_delegated_here(struct __sk_buff *skb, const struct packet *pkt)
{
	return !is_pod_range(&pkt->tuple.daddr) && is_client_outside(&pkt->tuple.saddr) &&
	       !is_addr(&pkt->tuple.daddr, mk_node_addr()) && frontend_of_delegated(skb, pkt);
}

/* Choose a local backend: Maglev's choice, which is the other node's, if it is local; otherwise by
 * hash. Local backends come first. Returns 0, or -1 if there is none. */
static __always_inline int choose_local(const struct mk_frontend *service,
					const struct mk_tuple *tuple, struct mk_backend *backend)
{
	struct mk_backend_key key = { .set_id = service->set_id,
				      .generation = service->generation,
				      .index = service->local_count };
	const struct mk_backend *chosen;

	if (service->flags & MK_FRONTEND_MAGLEV)
		key.index = choose_maglev(service, tuple);
	if (key.index >= service->local_count)
		key.index = (__u64)client_hash(tuple) * service->local_count >> 32;
	chosen = service->local_count ? bpf_map_lookup_elem(&service_backends, &key) : NULL;
	if (!chosen)
		return -1;
	*backend = *chosen;
	return 0;
}

/* Fill @request for the first packet of a flow that another node has delegated. Returns MK_GO_ON,
 * or a drop reason that is to be counted for request->service_id. */
static __always_inline int delegated_request(struct __sk_buff *skb, const struct packet *pkt,
					     struct session_request *request)
{
	const struct mk_frontend *service = frontend_of_delegated(skb, pkt);
	struct mk_backend backend;

	if (!service)
		return MK_DROP_OVERLAY_STRAY; /* the Service has just been removed */
	request->service_id = service->service_id;
	if (!service_lets_in(service, &pkt->tuple.saddr))
		return MK_DROP_SOURCE_RANGE;
	if (choose_local(service, &pkt->tuple, &backend))
		return MK_DROP_NO_LOCAL_BACKEND;
	request->to.daddr = backend.addr;
	request->to.dport = backend.port;
	request->set_id = node_of_frame(skb);
	request->forward_flags = MK_SESSION_DELEGATED;
	request->reverse_flags = MK_SESSION_VIA_OVERLAY;
	return MK_GO_ON;
}

/* Does a packet whose session has VIA_OVERLAY go to the pod, or straight to the client? The session
 * is @established or not. All answers of a flow that came translated keep their source and go back.
 * A fragment goes straight, because the others may not fit the overlay. */
static __always_inline int needs_no_node(struct __sk_buff *skb, const struct packet *pkt,
					 const struct session_hit *hit, int established)
{
	const struct mk_link_set *links = links_now();

	if (hit->flags & MK_SESSION_FORWARD)
		return 1;
	if (mk_addr_eq(&hit->to.saddr, &pkt->tuple.saddr))
		return 0;
	if (pkt->fragment != MK_WHOLE)
		return 1;
	if (established && !(pkt->tcp_flags & (MK_TCP_SYN | MK_TCP_FIN | MK_TCP_RST)))
		return 1;
	return links && wire_bytes(skb, pkt) > links->overlay_mtu_bytes;
}

#endif
