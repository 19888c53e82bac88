// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bpf/nat.bpf.c - source NAT.
 *
 * Uplink ingress, first program: an answer to masqueraded traffic gets back its pod's address.
 * Program `elb` then checks whether the packet is for a Service. All other packets are for the host
 * and pass unchanged.
 *
 * Towards the uplink, after the router: traffic of pods, and of the host's overlay address, leaves
 * with the address of its uplink. */
#include <linux/if_packet.h>

#include "chain.h"
#include "direct.h"
#include "direct_return.h"
#include "fragment.h"
#include "icmp_error.h"
#include "overlay.h"
#include "reuse.h"
#include "service.h"
#include "uplink.h"

static __always_inline int in_nat_range(__be16 port)
{
	__u16 p = bpf_ntohs(port);

	return p >= mk_node.nat_port_min && p <= mk_node.nat_port_max;
}

/* Can the packet be an answer to masqueraded traffic? */
static __always_inline int may_be_answer(const struct packet *pkt)
{
	if (pkt->l4 == MK_L4_TCP || pkt->l4 == MK_L4_UDP || pkt->l4 == MK_L4_SCTP)
		return in_nat_range(pkt->tuple.dport);
	return pkt->l4 == MK_L4_ECHO_REPLY;
}

/* Translate an answer to masqueraded traffic back. Returns MK_GO_ON or a drop reason. */
static __always_inline int nat_back(struct __sk_buff *skb, struct chain_ctx *ctx,
				    struct packet *pkt)
{
	struct session_hit hit;

	if (pkt->l4 == MK_L4_ICMP_ERROR)
		return icmp_error_translate(skb, NAT_SESSIONS, pkt, &ctx->flags)
			       ? MK_DROP_REWRITE_FAILED
			       : MK_GO_ON;
	if (!may_be_answer(pkt) || !session_find(skb, NAT_SESSIONS, pkt, &hit))
		return MK_GO_ON;
	ctx->flags |= (hit.policy_seen & 1) * CHAIN_PLAIN; /* no branch for the verifier */
	return rewrite(skb, pkt, &hit.to, &ctx->flags);
}

/* Is @addr an address of the cluster? Packets from the cluster's ranges come by the overlay, or
 * have been taken before (direct_take()).
 * If hosts outside also have addresses in these ranges (mk_runtime.ranges_shared), only addresses
 * of pods and nodes count. */
static __always_inline int is_of_cluster(const struct mk_addr *addr)
{
	const struct mk_runtime *settings;
	struct mk_route route;

	if (!is_pod_range(addr) && !is_vtep_range(addr))
		return 0;
	settings = runtime_settings();
	return !settings || !settings->ranges_shared || route_find(addr, &route) ||
	       route.type != MK_ROUTE_DROP;
}

/* Is @addr impossible as a source outside? A packet to a Service skips the kernel's own checks of
 * its source. */
static __always_inline int is_martian_source(const struct mk_addr *addr)
{
	return is_of_cluster(addr) || is_own_outside(addr) || is_never_source(addr);
}

static __always_inline int is_for_this_host(const struct packet *pkt)
{
	return is_addr(&pkt->tuple.daddr, mk_node_addr()) || is_host_address(&pkt->tuple.daddr);
}

/* Remove a tag that has only a priority (802.1p, VLAN 0): such a frame counts as untagged. */
static __always_inline void drop_priority_tag(struct __sk_buff *skb)
{
	if (skb->vlan_present && !(skb->vlan_tci & MK_VLAN_ID_MASK))
		bpf_skb_vlan_pop(skb);
}

/* Is the error @pkt about a packet to a node, and does it make this host's carriers to that node
 * smaller? Linux keeps one MTU per destination, for ten minutes. IPv6's larger carriers would be
 * lost. IPv4's would be fragments, so routers are believed there. A node's own address shows that a
 * pod there has sent the error. */
static __always_inline int is_about_node(const struct packet *pkt, const struct mk_addr *node,
					 __u32 mtu_bytes)
{
	const struct mk_link_set *links = links_now();

	if (!links || mk_node.is_carried_by_other ||
	    mtu_bytes >= links->overlay_mtu_bytes + MK_CARRIER_BYTES)
		return 0;
	if (MK_CARRIERS_FRAGMENT && !mk_addr_eq(&pkt->tuple.saddr, node))
		return 0;
	return !!bpf_map_lookup_elem(&peers, node);
}

/* Is the error about a masqueraded packet, so that it goes on to the pod and changes no MTU of this
 * host? Or has a node sent it about a packet to a NodePort, whose endpoint is behind its overlay?
 * Then the host has to believe it, because no other error comes. */
static __always_inline int is_about_pod_or_frontend(struct __sk_buff *skb, const struct packet *pkt,
						    struct scratch *room)
{
	struct mk_tuple asked = room->inner.tuple;
	union tuple_key key;

	if (icmp_error_session(skb, NAT_SESSIONS, pkt, room, &key))
		return 1;
	if (!mk_addr_eq(&pkt->tuple.saddr, &asked.daddr))
		return 0;
	asked.daddr = mk_node_addr();
	return !!service_find(&asked, MK_SCOPE_EXTERNAL);
}

/* Does the ICMP error @pkt say that carriers of this host are too big, or hide what it is about?
 * Over IPv6 Linux would believe it and lose the overlay's larger packets. Their MTU is that of the
 * uplink. */
static __always_inline int shrinks_carriers(struct __sk_buff *skb, const struct packet *pkt)
{
	struct scratch *room = scratch_of_this_cpu();
	const struct icmphdr *icmp = packet_at(skb, pkt->l4_off, sizeof(*icmp));
	__u32 mtu_bytes;

	if (!room || !icmp || icmp->type != MK_ICMP_TOO_BIG || icmp->code != MK_ICMP_TOO_BIG_CODE)
		return 0;
	mtu_bytes = icmp_mtu(icmp);
	if (packet_inner(skb, pkt, &room->inner))
		return 1;
	if (room->inner.tuple.proto == IPPROTO_UDP && room->inner.tuple.dport == mk_node.vxlan_port)
		return 1;
	if (is_about_pod_or_frontend(skb, pkt, room))
		return 0;
	return is_about_node(pkt, &room->inner.tuple.daddr, mtu_bytes);
}

/* Check a packet from outside. Returns 0, or a drop reason. */
static __always_inline int check_outside(struct __sk_buff *skb, const struct packet *pkt)
{
	if (is_martian_source(&pkt->tuple.saddr))
		return MK_DROP_MARTIAN_SOURCE;
	return check_options(skb, pkt) == MK_DROP_SOURCE_ROUTE ? MK_DROP_SOURCE_ROUTE : 0;
}

/* Drop a packet that no host outside can have sent, or take it: another node may have. */
static __always_inline int refuse_outside(struct __sk_buff *skb, const struct packet *pkt,
					  enum mk_drop_reason reason)
{
	int verdict;

	if (reason == MK_DROP_MARTIAN_SOURCE && skb->pkt_type == PACKET_HOST &&
	    direct_take(skb, pkt, &verdict))
		return verdict;
	return drop(skb, MK_HOOK_UPLINK, reason, &pkt->tuple);
}

/* A packet to a pod's own address, which is no answer to masqueraded traffic: another node's host
 * may have sent it, or a host outside if pods keep their source. */
static __always_inline int to_routed_pod(struct __sk_buff *skb, struct chain_ctx *ctx,
					 const struct packet *pkt)
{
	int verdict;

	if (direct_take(skb, pkt, &verdict))
		return verdict;
	return chain_next(skb, ctx, pkt, MK_PROG_ELB);
}

/* A packet of another family: IPv6's programs handle it on a node of both families. The host gets
 * all others. */
static __always_inline int take_other_family(struct __sk_buff *skb)
{
	const struct mk_tuple unknown = { 0 };
	int ret;

	(void)other_family_next(skb, MK_ENTRY_UPLINK);
	if (!is_far(skb) || skb->vlan_present)
		return TC_ACT_UNSPEC;
	ret = check_far(skb);
	return ret == MK_GO_ON ? TC_ACT_UNSPEC : drop(skb, MK_HOOK_UPLINK, ret, &unknown);
}

/* Malformed packets pass: the host checks them itself. So do the messages of the uplink's link.
 * Frames for other machines pass too, and the host drops them. All nodes know all Services, so
 * every node that sees such a frame (a promiscuous device) would otherwise forward it. Frames for
 * everybody or for a group are checked but not translated, because the kernel accepts unicast
 * packets in them. A link-local source is of a link that pods are not on. */
SEC("tc")
int nat_uplink(struct __sk_buff *skb)
{
	struct chain_ctx ctx = { .hook = MK_HOOK_UPLINK };
	struct mk_link_node *relayer;
	struct packet pkt;
	int ret;

	if (skb->pkt_type == PACKET_OTHERHOST)
		return TC_ACT_UNSPEC;
	drop_priority_tag(skb);
	ret = packet_read(skb, &pkt);
	if (ret == MK_DROP_NOT_IPV4)
		return take_other_family(skb);
	if (ret != MK_GO_ON && !host_may_read(&pkt))
		return drop(skb, ctx.hook, ret, &pkt.tuple);
	if (ret != MK_GO_ON || is_of_link(&pkt))
		return TC_ACT_UNSPEC;
	if (is_relayed(skb, &relayer))
		return relay_take(skb, &pkt, relayer);
	if (skb->pkt_type != PACKET_HOST && !is_for_this_host(&pkt))
		return TC_ACT_UNSPEC;
	ret = check_outside(skb, &pkt);
	if (ret)
		return refuse_outside(skb, &pkt, ret);
	if (skb->pkt_type == PACKET_HOST)
		ret = fragment_gather(skb, &pkt, MK_HOOK_UPLINK);
	if (ret < MK_GO_ON)
		return fragment_next(skb, &ctx, &pkt, ret);
	if (is_overlay_carrier(&pkt) && is_for_this_host(&pkt)) {
		ret = check_nodes_carrier(skb, &pkt);
		return ret ? drop(skb, ctx.hook, ret, &pkt.tuple) : TC_ACT_UNSPEC;
	}
	if (pkt.l4 == MK_L4_ICMP_ERROR && is_for_this_host(&pkt) && shrinks_carriers(skb, &pkt))
		return drop(skb, ctx.hook, MK_DROP_FORGED_ERROR, &pkt.tuple);
	if (skb->pkt_type != PACKET_HOST || is_link_local(&pkt.tuple.saddr))
		return TC_ACT_UNSPEC;
	if (is_local_pod_range(&pkt.tuple.daddr))
		return to_routed_pod(skb, &ctx, &pkt);
	ret = nat_back(skb, &ctx, &pkt);
	if (ret != MK_GO_ON)
		return drop(skb, ctx.hook, ret, &pkt.tuple);
	return chain_next(skb, &ctx, &pkt, MK_PROG_ELB);
}

/* A tunnel's packets have no Ethernet header, but the other programs expect one, so they get an
 * empty one. If the host's stack or another device gets the packet, the kernel knows where its IP
 * header is. */
SEC("tc")
int nat_tunnel(struct __sk_buff *skb)
{
	const struct mk_tuple unknown = { 0 };
	struct ethhdr *eth;

	if (skb->pkt_type != PACKET_HOST)
		return TC_ACT_UNSPEC;
	if (skb->protocol != bpf_htons(MK_ETH_P_IP) && !is_far(skb)) {
		(void)other_family_next(skb, MK_ENTRY_TUNNEL);
		return TC_ACT_UNSPEC;
	}
	if (bpf_skb_change_head(skb, ETH_HLEN, 0))
		return drop(skb, MK_HOOK_UPLINK, MK_DROP_REWRITE_FAILED, &unknown);
	eth = packet_at(skb, 0, sizeof(*eth));
	if (!eth)
		return drop(skb, MK_HOOK_UPLINK, MK_DROP_TRUNCATED, &unknown);
	eth->h_proto = skb->protocol;
	bpf_tail_call(skb, &chain, MK_PROG_UPLINK);
	return drop(skb, MK_HOOK_UPLINK, MK_DROP_CHAIN_BROKEN, &unknown);
}

/* Is it a carrier of the overlay from a node of this cluster, or one of the VXLAN device mkwgpeer
 * from a node of another cluster? WireGuard has proved its source address. */
static __always_inline int is_tunnelled_carrier(struct __sk_buff *skb)
{
	struct mk_far_addr sender = { 0 };
	struct wireguard_carrier at = { 0 };
	__s32 vni = wireguard_carrier_read(skb, &at);

	if (vni < 0 || at.ip.frag_off & bpf_htons(MK_IPV4_FRAGMENT))
		return 0;
	if (vni == MK_VXLAN_VNI || vni == MK_SFC_VNI)
		return may_tunnel(skb, &at, (__u32)vni);
	if (vni != MK_CLUSTER_WG_VNI)
		return 0;
	/* not in the initializer, which would become a map of constants of its own */
	sender.word[2] = bpf_htonl(0xffff);
	sender.word[3] = at.ip.saddr;
	return may_carry_cluster(&at.inner, &sender, MK_CLUSTER_CARRIER_ENCRYPTED);
}

/* WireGuard brings packets in carriers of nodes. Whatever else a peer sends by it does not reach
 * this host. */
SEC("tc")
int wireguard_in(struct __sk_buff *skb)
{
	const struct mk_tuple unknown = { 0 };

	return is_tunnelled_carrier(skb)
		       ? TC_ACT_UNSPEC
		       : drop(skb, MK_HOOK_UPLINK, MK_DROP_OVERLAY_STRANGER, &unknown);
}

static __always_inline struct mk_session *nat_session_at(const struct mk_tuple *key)
{
	struct mk_session *session = bpf_map_lookup_elem(&nat_sessions, key);

	return session ?: bpf_map_lookup_elem(&nat_sessions_young, key);
}

/* The packet @pkt of a flow with another session shares the NAT session of a plain flow
 * (masquerade.h): from now on the answers of both pass `elb`. */
static __always_inline void no_longer_plain(const struct packet *pkt)
{
	struct mk_session *session = nat_session_at(&pkt->tuple);
	union tuple_key peer_key;

	if (!session)
		return;
	session->policy_seen = 0;
	session_peer_key(&peer_key, session);
	session = nat_session_at(&peer_key.tuple);
	if (session)
		session->policy_seen = 0;
}

/* Masquerade a packet. Returns MK_GO_ON or a drop reason. */
static __always_inline int masquerade(struct __sk_buff *skb, struct chain_ctx *ctx,
				      struct packet *pkt)
{
	struct scratch *room = scratch_of_this_cpu();
	struct session_request *request;
	struct mk_way way_out;
	struct session_hit hit;
	int ret;

	if (session_find_or_over(skb, NAT_SESSIONS, pkt, &hit)) {
		if (hit.policy_seen && !(ctx->flags & CHAIN_PLAIN))
			no_longer_plain(pkt);
		return session_follow(skb, pkt, &hit, &ctx->flags);
	}
	if (pkt->fragment == MK_LATER_FRAGMENT && pkt->l4 == MK_L4_OTHER)
		return MK_DROP_FRAGMENT_UNKNOWN;
	if (pkt->l4 == MK_L4_OTHER || pkt->l4 == MK_L4_ECHO_REPLY)
		return MK_DROP_PROTOCOL;
	if (!room)
		return MK_DROP_SESSION_TABLE_FULL;
	request = &room->request;
	session_request_begin(request, pkt);
	request->source_port = 1;
	request->policy_seen = !!(ctx->flags & CHAIN_PLAIN);
	way_chosen(skb, pkt, &way_out);
	request->to.saddr = way_out.source;
	ret = session_reuse(NAT_SESSIONS, pkt, &hit, request)
		      ? MK_GO_ON
		      : session_open(NAT_SESSIONS, pkt, request);
	if (ret != MK_GO_ON)
		return ret;
	return rewrite(skb, pkt, &request->to, &ctx->flags);
}

static __always_inline int masquerade_error(struct __sk_buff *skb, struct chain_ctx *ctx,
					    struct packet *pkt)
{
	ctx->flags = 0; /* keep only this translation's result */
	if (icmp_error_translate(skb, NAT_SESSIONS, pkt, &ctx->flags))
		return MK_DROP_REWRITE_FAILED;
	return ctx->flags & CHAIN_TRANSLATED ? MK_GO_ON : MK_DROP_PROTOCOL;
}

SEC("tc")
int nat(struct __sk_buff *skb)
{
	struct chain_ctx ctx;
	struct packet pkt;
	struct mk_way way_out;
	int ret = chain_packet(skb, &ctx, &pkt);

	if (ret == MK_GO_ON)
		ret = pkt.l4 == MK_L4_ICMP_ERROR ? masquerade_error(skb, &ctx, &pkt)
						 : masquerade(skb, &ctx, &pkt);
	if (ret != MK_GO_ON)
		return drop(skb, ctx.hook, ret, &pkt.tuple);
	/* read again, so that the verifier does not track it through the code above */
	way_chosen(skb, &pkt, &way_out);
	return way_send(&way_out);
}

char LICENSE[] __attribute__((weak)) SEC("license") = "Dual BSD/GPL";
