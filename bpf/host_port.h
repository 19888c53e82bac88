/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/host_port.h - from a port of this host to the pod that has it (hostPort). */
#ifndef MK_BPF_HOST_PORT_H
#define MK_BPF_HOST_PORT_H

#include "open.h"

static __always_inline int host_ports_in_use(void)
{
	const struct mk_runtime *settings = runtime_settings();

	return settings && settings->host_ports;
}

/* May anything be ours that is for no Service's frontend? One look at `runtime`, which is all that the
 * host's own traffic pays where neither is in use. */
static __always_inline int others_are_ours(void)
{
	const struct mk_runtime *settings = runtime_settings();

	return settings && (settings->host_ports || settings->frontends_gone);
}

/* The pod that has the port which @tuple is for, or NULL. The mapping of one address comes before
 * that of all. A node without mappings pays for one look at `runtime`. The overlay's address is the
 * host's as a client of pods: what arrives there is answers. The loopback addresses are the host's
 * as well, for what the host itself sends. */
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

/* Of TCP (SCTP) a SYN (INIT): the host's own connections may have the same port as their source, and the rest has
 * to be reset. */
static __always_inline int is_first_for_host_port(const struct packet *pkt)
{
	return pkt->l4 == MK_L4_UDP || is_first_of_tcp(pkt);
}

/* Fill request->to with the pod that the first packet of a flow is for. The client keeps its
 * address, but for a pod that reaches itself: the packet has to leave it again when it answers.
 * Returns MK_PARSED, or a drop reason: the pod has just gone. */
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
	return MK_PARSED;
}

#endif
