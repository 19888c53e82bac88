/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/direct_return.h - answers that go straight to a client outside (setting directServerReturn).
 * The node that takes the request delegates the flow: it sends the packet as it is, by the link or
 * the overlay, to a node that has an endpoint. That node handles it as a NodePort's packet with
 * policy Local: it has the session, and asks source ranges and policies. Answers leave by its
 * uplink.
 *
 * Some answers take the way back, translated: those that begin or end a connection, and those of a
 * UDP flow that is not established. The first node notes them in its session, which lives as that
 * of any other flow.
 *
 * The nodes learn of a change one after the other. If the pod's node cannot serve a request, it
 * sends it back, and the first node translates the flow.
 *
 * Every node takes such packets, whatever it does itself. */
#ifndef MK_BPF_DIRECT_RETURN_H
#define MK_BPF_DIRECT_RETURN_H

#include <linux/if_packet.h>

#include "client.h"
#include "direct.h"
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

static __always_inline __u16 relay_second(void)
{
	return bpf_ktime_get_ns() / 1000000000 & MK_SHOWN_SECONDS;
}

/* Is the node of @route on the same link? Probes say so, seconds after the link has come back. A
 * router may move connections here at once, which must not be translated. So a node counts, too,
 * that has lately shown its VTEP MAC address there (relay_show()). */
static __always_inline int is_on_link(const struct mk_route *route)
{
	const struct mk_link_node *node;

	if (route->is_direct)
		return 1;
	node = link_node_of(route->vtep_mac);
	return node && mk_link_is_shown(node, relay_second());
}

/* Let the node of the chosen backend answer the client itself, if it is on the same link. That node
 * counts the flow for the Service. Returns 1, or 0 if it is not on the link. */
static __always_inline int return_directly(struct session_request *request)
{
	struct mk_route route;

	if (request->source_port || route_find(&request->to.daddr, &route) ||
	    route.type != MK_ROUTE_OVERLAY || !is_on_link(&route))
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

/* Has the frame's node sent a request back (delegate_back())? Such frames come by VXLAN. Frames
 * from the link may have a device's MAC address, which may look alike. */
static __always_inline int is_refused(struct __sk_buff *skb)
{
	const struct ethhdr *eth = packet_at(skb, 0, sizeof(*eth));

	return eth && eth->h_source[0] & MK_MAC_SENT_BACK && is_on_overlay(skb);
}

/* Send a packet on that another node has sent on. If @node itself has sent it, program `client`
 * removes the session. The flow is translated if the frame has the mark. Otherwise that node has
 * chosen a pod of this one since, and this node serves the flow, or sends it back with the mark. */
static __always_inline int delegate_on(struct __sk_buff *skb, struct chain_ctx *ctx,
				       const struct packet *pkt, __u32 node)
{
	if (node != node_of_frame(skb))
		return delegate_to(skb, ctx, pkt, node);
	ctx->opens = is_refused(skb) ? CHAIN_OPENS_SERVICE : CHAIN_OPENS_DELEGATED;
	ctx->flags |= CHAIN_REUSES;
	return chain_next(skb, ctx, pkt, MK_PROG_CLIENT);
}

/* The node to which an ICMP error about an answer goes on; 0: to none. */
static __always_inline __u32 node_of_error(struct __sk_buff *skb, const struct packet *pkt)
{
	struct scratch *room = scratch_of_this_cpu();
	const struct mk_session *session;
	union tuple_key key;

	session = room ? icmp_error_session(skb, SERVICE_SESSIONS, pkt, room, &key) : NULL;
	return session && is_delegated(session->flags, &session->to.daddr) ? session->set_id : 0;
}

/* Has the pod's node sent an answer to a client outside by this node? */
static __always_inline int is_answer_of_node(const struct packet *pkt)
{
	return !is_pod_range(&pkt->tuple.daddr) && !is_pod_range(&pkt->tuple.saddr) &&
	       is_address_of_all(&pkt->tuple.saddr) && is_client_outside(&pkt->tuple.daddr);
}

/* Does the answer belong to a session of this node? Its frontend may be gone. */
static __always_inline int is_answer_of_session(const struct packet *pkt)
{
	return !is_pod_range(&pkt->tuple.saddr) && is_client_outside(&pkt->tuple.daddr) &&
	       session_reverse_taken(SERVICE_SESSIONS, &pkt->tuple);
}

/* Does the answer @pkt show that its connection is established at the pod's node (answer.h)? An RST
 * does not: a pod resets what it does not know. A FIN may come before the handshake is complete. */
static __always_inline int is_answer_of_open(const struct packet *pkt)
{
	return !(pkt->tcp_flags & (MK_TCP_SYN | MK_TCP_FIN | MK_TCP_RST));
}

/* Note such an answer in its session, as if it were the pod's. The pod's node counts it. This node
 * does not see what the pod acknowledges later, so any RST of the client is valid here. */
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
	if (session_is_half_open(session) && is_answer_of_open(pkt)) {
		session->replied = 1;
		session->ack = 0; /* any number completes the session */
	}
	tuple_reverse(&pkt->tuple, &session->to);
	pkt->tuple.path = 0;
	session_find(skb, tables, pkt, &hit);
	session = bpf_map_lookup_elem(tables.established, &pkt->tuple);
	session = session ?: bpf_map_lookup_elem(tables.young, &pkt->tuple);
	if (session)
		session->ack = 0;
	pkt->tuple = answer;
}

/* ---- between the two nodes, without VXLAN -----------------------------------------------------
 *
 * A relayed packet, of a client outside or to one, goes by the link if its frame may have the
 * node's VTEP MAC address. That address shows the node, as in VXLAN: the packet's own addresses do
 * not, and the MAC address of a device may be a router's. Some networks drop frames with such an
 * address, maybe in one direction. So a node shows it with each answer to a probe of the link. The
 * answer also says whether the node gets such frames of the asking node: then it is sent more. */

/* Is the packet for another node one that delegate_back() sends? */
static __always_inline int is_back(const struct chain_ctx *ctx)
{
	return ctx->opens == CHAIN_OPENS_DELEGATED;
}

/* The node on the link to which @route leads, if relayed packets go there without VXLAN and this is
 * one; NULL: by VXLAN. Such a packet has no address of a pod. */
static __always_inline const struct mk_link_node *
relay_link(const struct chain_ctx *ctx, const struct packet *pkt, const struct mk_route *route)
{
	const struct mk_link_node *node;

	if (!mk_node.returns_direct || !(ctx->flags & CHAIN_VIA_OVERLAY) || is_back(ctx) ||
	    is_pod_range(&pkt->tuple.saddr) || is_pod_range(&pkt->tuple.daddr))
		return NULL;
	node = link_node_of(route->vtep_mac);
	return node && node->sees_this && mk_link_is_shown(node, relay_second()) ? node : NULL;
}

/* Return the verdict that sends a frame with this node's VTEP MAC address to @node. */
static __always_inline int relay_send(struct ethhdr *eth, const struct mk_link_node *node)
{
	set_macs(eth, mk_node.vtep_mac, node->mac);
	return bpf_redirect(node->ifindex, 0);
}

/* Write into the answer to a probe that this node gets frames with the asking node's VTEP MAC
 * address. */
static __always_inline void relay_confirm(struct __sk_buff *skb, const struct packet *pkt)
{
	__u32 at = pkt->l4_off + sizeof(struct udphdr);
	__u32 check = pkt->l4_off + offsetof(struct udphdr, check);
	const __be16 before = bpf_htons(MK_PROBE_VERSION << 8), now = before | bpf_htons(1);

	if (bpf_skb_store_bytes(skb, at + offsetof(struct mk_probe_packet, version), &now,
				sizeof(now), 0) == 0)
		bpf_l4_csum_replace(skb, check, before, now, BPF_F_MARK_MANGLED_0 | sizeof(now));
}

/* Show this node's VTEP MAC address to the node whose probe @pkt answers: a copy of the answer has
 * it. */
static __always_inline void relay_show(struct __sk_buff *skb, const struct packet *pkt)
{
	const struct mk_link_node *node;
	struct mk_route route;
	struct frame frame;

	if (!mk_node.returns_direct || route_find(&pkt->tuple.daddr, &route) ||
	    route.type != MK_ROUTE_OVERLAY)
		return;
	node = link_node_of(route.vtep_mac);
	if (!node)
		return;
	if (mk_link_is_shown(node, relay_second()))
		relay_confirm(skb, pkt);
	if (frame_of(skb, &frame))
		return;
	set_macs(frame.eth, mk_node.vtep_mac, node->mac);
	bpf_clone_redirect(skb, node->ifindex, 0);
}

/* Has the frame a VTEP MAC address? *@node: the node on the link that has it, or NULL. Most ranges
 * of these addresses are small enough that their first four bytes are those of this node. */
static __always_inline int is_relayed(struct __sk_buff *skb, struct mk_link_node **node)
{
	const struct ethhdr *eth = packet_at(skb, 0, sizeof(*eth));

	if (!eth || ((const __be16 *)eth)[ETH_ALEN / 2] != bpf_htons(MK_MAC_PREFIX))
		return 0;
	*node = link_node_of(eth->h_source);
	return *node ||
	       (eth->h_source[2] == mk_node.vtep_mac[2] && eth->h_source[3] == mk_node.vtep_mac[3]);
}

/* Is @pkt the copy of an answer to this node's probe, and from the node with @vtep_mac? */
static __always_inline int is_shown(const struct packet *pkt, const __u8 *vtep_mac)
{
	return pkt->l4 == MK_L4_UDP && pkt->tuple.sport == bpf_htons(MK_PROBE_PORT) &&
	       is_addr(&pkt->tuple.daddr, mk_node_vtep()) && is_pod_range(&pkt->tuple.saddr) &&
	       is_source_of_node(&pkt->tuple.saddr, vtep_mac);
}

/* Remember that @node has shown its VTEP MAC address, and the address that frames to it have. */
static __always_inline int note_shown(struct __sk_buff *skb, const struct packet *pkt,
				      struct mk_link_node *node)
{
	__u32 at = pkt->l4_off + sizeof(struct udphdr);
	struct bpf_fib_lookup fib;
	__u8 sees_this;

	if (bpf_skb_load_bytes(skb, at + offsetof(struct mk_probe_packet, sees_asker), &sees_this,
			       sizeof(sees_this)) == 0 &&
	    link_node_ask(skb, node, &fib) == 0) {
		__builtin_memcpy(node->mac, fib.dmac, sizeof(node->mac));
		node->shown_s = relay_second();
		node->sees_this = sees_this;
	}
	return TC_ACT_SHOT;
}

/* Take a frame with a VTEP MAC address, that of @node, which comes by an uplink. It continues as if
 * by the overlay: the same sessions, policies and answers. None is for this node's own address. */
static __always_inline int relay_take(struct __sk_buff *skb, const struct packet *pkt,
				      struct mk_link_node *node)
{
	const struct ethhdr *eth = packet_at(skb, 0, sizeof(*eth));

	if (!node || !eth || node->ifindex != skb->ifindex || skb->pkt_type != PACKET_HOST ||
	    mk_node.encrypts_all)
		return drop(skb, MK_HOOK_UPLINK, MK_DROP_DIRECT_FORGED, &pkt->tuple);
	if (is_shown(pkt, eth->h_source))
		return note_shown(skb, pkt, node);
	if (is_pod_range(&pkt->tuple.saddr) || is_vtep_range(&pkt->tuple.saddr) ||
	    is_addr(&pkt->tuple.daddr, mk_node_addr()))
		return drop(skb, MK_HOOK_UPLINK, MK_DROP_DIRECT_FORGED, &pkt->tuple);
	bpf_tail_call(skb, &chain, MK_PROG_OVERLAY);
	return drop(skb, MK_HOOK_UPLINK, MK_DROP_CHAIN_BROKEN, &pkt->tuple);
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

/* Does a request come by another node, although its flow began here? A router has moved it. */
static __always_inline int has_left_this_node(const struct chain_ctx *ctx, const struct packet *pkt,
					      const struct session_hit *hit)
{
	return ctx->hook == MK_HOOK_OVERLAY && hit->flags & MK_SESSION_FORWARD &&
	       !is_pod_range(&pkt->tuple.daddr) && is_local_pod(&hit->to.daddr);
}

/* Let the session of @key, in @table, name @node in place of another one. Its answers' entry names
 * none then, so one answer a second goes by it (answer.h). Returns 1, or 0 if it is not there. */
static __always_inline int session_moves(void *table, const struct mk_tuple *key, __u32 node)
{
	struct mk_session *session = bpf_map_lookup_elem(table, key), *peer;
	union tuple_key peer_key;

	if (!session)
		return 0;
	session->set_id = node;
	session->flags |= MK_SESSION_VIA_OVERLAY;
	session_peer_key(&peer_key, session);
	peer = bpf_map_lookup_elem(table, &peer_key);
	if (peer) {
		peer->set_id = 0;
		peer->flags |= MK_SESSION_VIA_OVERLAY;
	}
	return 1;
}

/* A request of a delegated flow comes by @node, not by the one in the session: an external address
 * has moved, or a router has moved the connection. Answers that do not go straight follow it. */
static __always_inline void note_node(const struct packet *pkt, const struct session_hit *hit,
				      __u32 node)
{
	if (!(hit->flags & MK_SESSION_FORWARD) ||
	    (hit->flags & MK_SESSION_VIA_OVERLAY && hit->node == node))
		return;
	if (!session_moves(&sessions, &pkt->tuple, node))
		session_moves(&sessions_young, &pkt->tuple, node);
}

/* Has another node delegated this packet of a client outside? */
static __always_inline int is_delegated_here(struct __sk_buff *skb, const struct packet *pkt)
{
	return !is_pod_range(&pkt->tuple.daddr) && is_client_outside(&pkt->tuple.saddr) &&
	       !is_addr(&pkt->tuple.daddr, mk_node_addr()) && frontend_of_delegated(skb, pkt);
}

/* Send a request back to the node that has delegated it, in VXLAN and with a mark: this node does
 * not know the Service (yet), or has no endpoint of it (any more). That node translates the flow. A
 * marked frame is never sent back. */
static __always_inline int delegate_back(struct __sk_buff *skb, struct chain_ctx *ctx,
					 const struct packet *pkt)
{
	ctx->opens = CHAIN_OPENS_DELEGATED;
	return delegate_to(skb, ctx, pkt, node_of_frame(skb));
}

/* Choose a local backend: Maglev's choice, which is the other node's, if it is local; otherwise by
 * hash. Local backends come first. Returns 0, or -1 if there is none, or it is this host itself,
 * whose answers the other node would not see. */
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
	if (!chosen || !is_local_pod(&chosen->addr))
		return -1;
	*backend = *chosen;
	return 0;
}

/* Fill @request for the first packet of a flow that another node has delegated. Returns MK_GO_ON,
 * or a drop reason that is to be counted for request->service_id. The client may be this host, with
 * an address that the other node does not know: policies would let it in as this node. */
static __always_inline int delegated_request(struct __sk_buff *skb, const struct packet *pkt,
					     struct session_request *request)
{
	const struct mk_frontend *service = frontend_of_delegated(skb, pkt);
	struct mk_backend backend;

	if (!service || is_host_address(&pkt->tuple.saddr))
		return MK_DROP_OVERLAY_STRAY; /* it goes back */
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

#endif
