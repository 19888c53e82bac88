/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/host_port.h - from a port of this host to the pod that it leads to (hostPort). */
#ifndef MK_BPF_HOST_PORT_H
#define MK_BPF_HOST_PORT_H

#include "open.h"

static __always_inline int host_ports_in_use(void)
{
	const struct mk_runtime *settings = runtime_settings();

	return settings && settings->host_ports;
}

/* Can a packet that matches no Service's frontend still be ours? This is one look-up in `runtime`.
 * The host's own traffic pays no more than that if neither feature is in use. */
static __always_inline int others_are_ours(void)
{
	const struct mk_runtime *settings = runtime_settings();

	return settings && (settings->host_ports || settings->frontends_gone);
}

/* Find the pod that the host port of @tuple leads to, or NULL. A mapping of one address has
 * priority over a mapping of all addresses. A node without mappings pays one look-up in `runtime`.
 *
 * The host uses the overlay's address as a client of pods, so packets to that address are answers
 * and match no host port. For packets that the host itself sends, loopback addresses are host
 * addresses too. */
static __always_inline struct mk_host_port *host_port_find(const struct mk_tuple *tuple,
							   enum mk_hook hook)
{
	struct mk_host_port_key key = {
		.addr = tuple->daddr,
		.port = tuple->dport,
		.proto = tuple->proto,
	};
	struct mk_host_port *port;

	if (!host_ports_in_use())
		return NULL;
	port = bpf_map_lookup_elem(&host_ports, &key);
	if (!port) {
		key.addr = (struct mk_addr){ 0 };
		port = bpf_map_lookup_elem(&host_ports, &key);
	}
	if (!port || port->leaving)
		return NULL;
	if (hook == MK_HOOK_HOST && mk_addr_is_loopback(&tuple->daddr))
		return port;
	if (is_addr(&tuple->daddr, mk_node_vtep()) || !is_host_address(&tuple->daddr))
		return NULL;
	return port;
}

/* Only a SYN or an INIT may open a TCP or SCTP session. Other TCP and SCTP packets may belong to
 * the host's own connections, whose source port has the same number; the host resets all others. */
static __always_inline int is_first_for_host_port(const struct packet *pkt)
{
	return pkt->l4 == MK_L4_UDP || is_first_of_tcp(pkt);
}

/* Fill request->to with the pod that the first packet of a flow is for. The client keeps its
 * address, except a pod that reaches itself: its answer has to leave the pod. Returns MK_GO_ON, or
 * a drop reason if the pod has just gone. */
static __always_inline int host_port_request(const struct packet *pkt, enum mk_hook hook,
					     struct session_request *request)
{
	const struct mk_host_port *port = host_port_find(&pkt->tuple, hook);

	if (!port)
		return MK_DROP_REFUSED;
	request->to.daddr = port->addr;
	request->to.dport = port->port;
	if (mk_addr_eq(&port->addr, &pkt->tuple.saddr)) {
		request->to.saddr = mk_node_vpod();
		request->source_port = 1;
	}
	return MK_GO_ON;
}

#endif
