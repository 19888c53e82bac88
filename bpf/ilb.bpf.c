// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bpf/ilb.bpf.c - internal load balancer, first program of the hooks pod, host and overlay: traffic
 * of local pods and of the host towards a Service gets a backend as its destination, towards a host
 * port its pod; answers get the address back that was asked, whoever opened the session. Then: into a
 * local pod, or router. */
#include "beside.h"
#include "chain.h"
#include "deliver.h"
#include "fragment.h"
#include "host_port.h"
#include "icmp_error.h"
#include "options.h"
#include "reopen.h"
#include "service.h"

/* A pod sends only from its own address and MAC. */
static __always_inline int check_sender(struct __sk_buff *skb, const struct packet *pkt)
{
	struct ethhdr *eth = packet_at(skb, 0, sizeof(*eth));
	struct mk_pod *pod = pod_find(&pkt->tuple.saddr);

	if (!pod || pod->ifindex != skb->ifindex)
		return MK_DROP_SPOOFED_ADDRESS;
	if (!eth)
		return MK_DROP_TRUNCATED;
	if (*(__u32 *)eth->h_source != *(__u32 *)pod->mac ||
	    *(__u16 *)(eth->h_source + 4) != *(__u16 *)(pod->mac + 4))
		return MK_DROP_SPOOFED_MAC;
	return MK_PARSED;
}

/* A pod is no router: it has errors to tell about packets that were for it, and no others. */
static __always_inline int check_error(struct __sk_buff *skb, const struct packet *pkt)
{
	__u32 quoted_off = pkt->l4_off + sizeof(struct icmphdr);
	struct iphdr *quoted;

	if (pkt->l4 != MK_L4_ICMP_ERROR)
		return MK_PARSED;
	if (packet_pull(skb, quoted_off + sizeof(*quoted)))
		return MK_DROP_TRUNCATED;
	quoted = packet_at(skb, quoted_off, sizeof(*quoted));
	if (!quoted)
		return MK_DROP_TRUNCATED;
	return quoted->daddr == pkt->tuple.saddr.word[0] ? MK_PARSED : MK_DROP_FORGED_ERROR;
}

/* What the sender may not be leaves no trace among the fragments, where it could lead others' astray.
 * As packet_parse(). */
static __always_inline int read_from_pod(struct __sk_buff *skb, struct packet *pkt)
{
	int ret = packet_read(skb, pkt);

	if (ret == MK_PARSED)
		ret = check_sender(skb, pkt);
	if (ret == MK_PARSED)
		ret = check_options(skb, pkt);
	if (ret == MK_PARSED)
		ret = check_error(skb, pkt);
	if (ret == MK_PARSED)
		ret = fragment_gather(skb, pkt, MK_HOOK_POD);
	return ret;
}

/* Does what @backend answers to @host, an address of this host, come back to it? */
static __always_inline int is_answered_by(const struct mk_addr *host, const struct mk_addr *backend)
{
	return is_addr(host, mk_node_vtep()) ||
	       (is_addr(host, mk_node_addr()) && is_pod_range(backend));
}

/* What the host sends comes from its VTEP address, which every node can answer, or, where a process binds it, from the
 * node's address, which pods answer by the overlay (open_for_node()). Anything else would come back another way, and a
 * backend that is the host itself would see its own address as source and drop the packet as martian: give those the
 * virtual pod address. The port is always one
 * that the host's sockets never have: its own flow to a backend on another node is not seen here,
 * and must not be answered as if it were the Service's. Asked at an address of the host's own, the
 * Service answers from that, which the host takes from no other device than loopback. */
static __always_inline void masquerade_host(const struct packet *pkt,
					    struct session_request *request)
{
	if (mk_addr_is_loopback(&pkt->tuple.daddr) || is_host_address(&pkt->tuple.daddr))
		request->reverse_flags |= MK_SESSION_LOOPBACK;
	if (!is_answered_by(&pkt->tuple.saddr, &request->to.daddr) ||
	    is_host_address(&request->to.daddr))
		request->to.saddr = mk_node_vpod();
	else
		request->to.saddr = pkt->tuple.saddr;
	request->source_port = 1;
}

/* Does a flow to no Service need a session? One that the host forwards for somebody else (a port
 * mapping, another container network): the host's stack has its state, so the answers have to pass
 * it again. And one that a Service's may come to stand beside, or stands beside: of the host's own the latter
 * alone, masquerade_host() sees to the rest. */
static __always_inline int needs_session(const struct chain_ctx *ctx, const struct packet *pkt,
					 const struct session_request *request)
{
	if (request->reverse_flags & MK_SESSION_VIA_HOST)
		return 1;
	if (ctx->hook == MK_HOOK_POD)
		return is_pods_own_kept(pkt);
	return is_first_of_tcp(pkt) && session_reverse_taken(SERVICE_SESSIONS, &pkt->tuple);
}

/* The pods' gateway is the host's address in their range. */
static __always_inline int may_be_host(const struct mk_addr *addr)
{
	return !is_pod_range(addr) || is_addr(addr, mk_node_gateway());
}

/* The frontends at 127.0.0.1 are for this host alone. */
static __always_inline int is_others_localhost(const struct chain_ctx *ctx,
					       const struct packet *pkt)
{
	return ctx->hook != MK_HOOK_HOST && mk_addr_is_loopback(&pkt->tuple.daddr);
}

/* Returns MK_PARSED or a drop reason; request->account_id says whose. */
static __always_inline int open_flow(struct __sk_buff *skb, struct chain_ctx *ctx,
				     struct packet *pkt, struct session_hit *hit,
				     struct session_request *request)
{
	struct mk_service *service = NULL;
	int ret, own = 0;

	if (ctx->hook == MK_HOOK_HOST && !is_host_address(&pkt->tuple.saddr))
		request->reverse_flags = MK_SESSION_VIA_HOST;
	if (!is_pod_range(&pkt->tuple.daddr))
		service = service_find(&pkt->tuple, MK_SCOPE_INTERNAL);
	if (service && is_others_localhost(ctx, pkt))
		service = NULL;
	if (service) {
		ret = service_request(pkt, MK_SCOPE_INTERNAL, service, request);
		if (ret != MK_PARSED)
			return ret;
		if (ctx->hook == MK_HOOK_HOST)
			masquerade_host(pkt, request);
	} else if (may_be_host(&pkt->tuple.daddr) && host_port_request(pkt, ctx->hook, request)) {
		if (ctx->hook == MK_HOOK_HOST)
			masquerade_host(pkt, request);
	} else if (needs_session(ctx, pkt, request)) {
		own = ctx->hook == MK_HOOK_POD;
	} else {
		return MK_PARSED;
	}
	if (session_reopen(SERVICE_SESSIONS, pkt, hit, request))
		goto opened;
	if (ctx->hook == MK_HOOK_POD && !own && is_beside_pods_own(skb, pkt, request))
		request->source_port = 1;
	/* for the verifier: what is the same for it need not be gone through again */
	if (ctx->hook == MK_HOOK_POD)
		own = forgotten(own, pkt->tuple.sport);
	request->source_port = forgotten(request->source_port, pkt->tuple.sport);
	request->reverse_flags = forgotten(request->reverse_flags, pkt->tuple.sport);
	ret = session_open(SERVICE_SESSIONS, pkt, request);
	if (ret != MK_PARSED)
		return own ? without_session(pkt, ret) : ret;
opened:
	account_connection(skb, pkt, request->account_id);
	return rewrite(skb, pkt, &request->to, &ctx->flags) ?: MK_PARSED;
}

/* The first packet of a flow, or one of a flow that needs no session. Returns MK_PARSED or a drop
 * reason. */
static __always_inline int new_flow(struct __sk_buff *skb, struct chain_ctx *ctx,
				    struct packet *pkt, struct session_hit *hit)
{
	struct session_request request = { .to = pkt->tuple };
	int ret = open_flow(skb, ctx, pkt, hit, &request);

	session_end(SERVICE_SESSIONS, pkt, hit); /* nothing was opened in its place */
	if (ret != MK_PARSED)
		account_drop(request.account_id, ret);
	return ret;
}

/* A flow that another node's host has sent with an address of its own: by the overlay goes what is answered. To the pod it
 * comes from outside the cluster, where the answer would leave masqueraded. Where there is no room for a session it
 * does. Returns MK_PARSED or a drop reason. */
static __always_inline int open_for_node(struct __sk_buff *skb, struct chain_ctx *ctx,
					 struct packet *pkt)
{
	struct session_request request = { .to = pkt->tuple,
					   .reverse_flags = MK_SESSION_VIA_OVERLAY };

	if (is_pod_range(&pkt->tuple.saddr) || is_vtep_range(&pkt->tuple.saddr) ||
	    !is_local_pod(&pkt->tuple.daddr) || !bpf_map_lookup_elem(&peers, &pkt->tuple.saddr))
		return MK_PARSED;
	if (pkt->l4 == MK_L4_OTHER || pkt->l4 == MK_L4_ECHO_REPLY || pkt->tcp_flags & MK_TCP_RST ||
	    session_open(SERVICE_SESSIONS, pkt, &request) != MK_PARSED)
		return MK_PARSED;
	return rewrite(skb, pkt, &request.to, &ctx->flags) ?: MK_PARSED;
}

/* An ICMP error: translated with the session of the packet that it quotes, if one knows it. */
static __always_inline int balance_error(struct __sk_buff *skb, struct chain_ctx *ctx,
					 struct packet *pkt)
{
	if (icmp_error_translate(skb, SERVICE_SESSIONS, pkt, &ctx->flags))
		return drop(skb, ctx->hook, MK_DROP_REWRITE_FAILED, &pkt->tuple);
	return chain_next(skb, ctx, pkt, MK_PROG_ROUTER);
}

static __always_inline int balance(struct __sk_buff *skb, struct chain_ctx *ctx, struct packet *pkt)
{
	struct session_hit hit;
	int ret = MK_PARSED;

	if (pkt->l4 == MK_L4_ICMP_ERROR)
		return balance_error(skb, ctx, pkt);
	if (session_find_or_over(skb, SERVICE_SESSIONS, pkt, &hit)) {
		/* the host has just sent what nothing translates: it does not get it back */
		if (ctx->hook == MK_HOOK_HOST && tuple_eq(&hit.to, &pkt->tuple))
			hit.flags &= ~MK_SESSION_VIA_HOST;
		ret = session_follow(skb, pkt, &hit, &ctx->flags);
	} else if (ctx->hook != MK_HOOK_OVERLAY) {
		ret = new_flow(skb, ctx, pkt, &hit);
	} else {
		session_end(SERVICE_SESSIONS, pkt, &hit);
		ret = open_for_node(skb, ctx, pkt);
	}
	if (ret != MK_PARSED)
		return service_reject(skb, ctx, pkt, ret);
	return route_next(skb, ctx, pkt);
}

static __always_inline int ilb(struct __sk_buff *skb, enum mk_hook hook)
{
	struct chain_ctx ctx = { .hook = hook };
	struct packet pkt;
	int ret = hook == MK_HOOK_POD ? read_from_pod(skb, &pkt) : packet_parse(skb, &pkt, hook);

	if (ret < MK_PARSED)
		return fragment_next(skb, &ctx, &pkt, ret);
	if (ret != MK_PARSED)
		return drop(skb, hook, ret, &pkt.tuple);
	return balance(skb, &ctx, &pkt);
}

SEC("tc")
int ilb_pod(struct __sk_buff *skb)
{
	return ilb(skb, MK_HOOK_POD);
}

SEC("tc")
int ilb_host(struct __sk_buff *skb)
{
	return ilb(skb, MK_HOOK_HOST);
}

SEC("tc")
int ilb_overlay(struct __sk_buff *skb)
{
	return ilb(skb, MK_HOOK_OVERLAY);
}

/* A loopback address may be asked for a pod's port, and for a NodePort. What is for another port pays
 * for one look at `runtime`. */
static __always_inline int is_asked_at_localhost(struct __sk_buff *skb, const struct iphdr *ip)
{
	const struct mk_runtime *settings = runtime_settings();
	__be16 *ports;
	__u16 port;

	if (!settings || !(settings->host_ports | settings->localhost_port_max))
		return 0;
	if (settings->host_ports || ip->frag_off & bpf_htons(MK_IP_MF | MK_IP_OFFSET_MASK))
		return 1;
	ports = packet_at(skb, MK_L3_OFF + ip->ihl * 4, 2 * sizeof(*ports));
	if (!ports)
		return 1;
	port = bpf_ntohs(ports[1]);
	return settings->localhost_port_min <= port && port <= settings->localhost_port_max;
}

/* Most of what a host says to itself: none of it may cost anything. Reads what the stack has just
 * written, so it is all there. */
static __always_inline int is_ours_on_loopback(struct __sk_buff *skb)
{
	struct iphdr *ip = packet_at(skb, MK_L3_OFF, sizeof(*ip));
	struct mk_addr source, dest;

	if (skb->protocol != bpf_htons(ETH_P_IP) || !ip)
		return 0;
	source.word[0] = ip->saddr;
	dest.word[0] = ip->daddr;
	if (mk_addr_is_loopback(&dest))
		return is_asked_at_localhost(skb, ip);
	return !mk_addr_is_loopback(&source);
}

static __always_inline int has_session(const struct packet *pkt)
{
	return bpf_map_lookup_elem(&sessions, &pkt->tuple) ||
	       bpf_map_lookup_elem(&sessions_new, &pkt->tuple);
}

/* A Service's port may as well be the source of a connection of the host's own, whose answers belong to
 * no session: of TCP, and of UDP where the socket that has it is connected to the sender. */
static __always_inline int is_hosts_own(struct __sk_buff *skb, const struct packet *pkt)
{
	if (pkt->l4 == MK_L4_TCP)
		return !is_first_of_tcp(pkt) && !has_session(pkt);
	return pkt->l4 == MK_L4_UDP && !has_session(pkt) && has_connected_udp(skb, pkt);
}

/* For a Service, or for a pod that has the port? */
static __always_inline int is_for_host_hook(struct __sk_buff *skb, const struct packet *pkt)
{
	if (service_find(&pkt->tuple, MK_SCOPE_INTERNAL))
		return !is_hosts_own(skb, pkt);
	if (!others_are_ours())
		return 0;
	if (host_port_find(&pkt->tuple, MK_HOOK_HOST))
		return pkt->l4 != MK_L4_TCP || is_first_of_tcp(pkt) || has_session(pkt);
	return may_outlive_frontend(pkt) && has_session(pkt);
}

/* Loopback device, egress: what the host sends to an address of its own that is a Service's as well
 * (NodePort, external address), or to a pod's port (hostPort), goes to the hook `host`, as if it had
 * been routed there, but whole, up to 64 KiB. Anything else passes, as a rule after one lookup. */
SEC("tc")
int ilb_lo_egress(struct __sk_buff *skb)
{
	const struct mk_link_set *links = links_now();
	struct packet pkt;
	struct ethhdr *eth;

	/* fragments come in order here, and are not held: too large */
	if (!is_ours_on_loopback(skb) || packet_parse(skb, &pkt, MK_HOOK_COUNT) > MK_PARSED ||
	    !is_for_host_hook(skb, &pkt))
		return TC_ACT_UNSPEC;
	eth = packet_at(skb, 0, sizeof(*eth));
	if (!links || !eth)
		return drop(skb, MK_HOOK_HOST, MK_DROP_TRUNCATED, &pkt.tuple);
	set_macs(eth, mk_node.gateway_mac, mk_node.gateway_mac);
	return bpf_redirect(links->host_peer_ifindex, BPF_F_INGRESS);
}

char LICENSE[] __attribute__((weak)) SEC("license") = "Dual BSD/GPL";
