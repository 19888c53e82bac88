// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bpf/cluster.bpf.c - packets to and from other clusters (clusters.h). Clusters may have equal pod
 * ranges. A packet between clusters has home addresses, and the numbers of both clusters in the MAC
 * addresses of its frame.
 *
 * `cluster_out` follows the router: the destination, a view, becomes the home address. If this node
 * is no border node, the packet goes as it is to one that is. `cluster_in`
 * is at mkpeer: the source, a home address, becomes the view, and `ilb_cluster` goes on. A packet
 * for a third cluster is passed on as it is. */
#include "account.h"
#include "cluster.h"
#include "deliver.h"
#include "fragment.h"
#include "icmp_error.h"
#include "rewrite.h"

/* ---- translation ----------------------------------------------------------------------------- */

/* Replace the prefix of @addr by that of @net. */
static __always_inline void move_into(struct mk_addr *addr, const struct mk_addr *net,
				      const struct mk_addr *mask)
{
	for (int i = 0; i < MK_ADDR_WORDS; i++)
		addr->word[i] = (addr->word[i] & ~mask->word[i]) | net->word[i];
}

/* A packet to cluster @number, or from it, and the row of the address that is translated. */
struct crossing {
	const struct mk_cluster *cluster;
	__u32 number;
	int is_out;
};

/* Translate the address of the other cluster in a quoted packet. It may be an external address
 * although a pod's node sends the error. Other clusters send errors about packets to themselves
 * only: they could otherwise end flows with third ones. Returns MK_GO_ON or a drop reason. */
static __always_inline int translate_quoted(struct mk_addr *quoted, const struct crossing *by)
{
	const struct mk_cluster *cluster = by->cluster;

	if (by->is_out) {
		if (mk_addr_in(quoted, &cluster->view, &cluster->mask))
			move_into(quoted, &cluster->home, &cluster->mask);
		return MK_GO_ON;
	}
	if (!mk_addr_in(quoted, &cluster->home, &cluster->mask))
		cluster = external_row_of(by->number, quoted);
	if (!cluster)
		return MK_DROP_PEER_SOURCE;
	move_into(quoted, &cluster->view, &cluster->mask);
	return MK_GO_ON;
}

/* Translate an ICMP error with the packet that it quotes, which has travelled the other way: the
 * quoted source is this packet's destination, or the reverse. The source of an error that a host
 * outside sends about a packet to an external address is that address. Returns MK_GO_ON or a drop
 * reason. */
static __always_inline int translate_error(struct __sk_buff *skb, struct packet *pkt,
					   const struct crossing *by, __u8 *flags)
{
	struct scratch *room = scratch_of_this_cpu();
	const struct mk_cluster *cluster = by->cluster;
	struct mk_addr *end;
	int is_out = by->is_out, ret;

	if (!room || packet_inner(skb, pkt, &room->inner))
		return MK_DROP_TRUNCATED;
	room->inner_to = room->inner.tuple;
	room->outer = pkt->tuple;
	end = is_out ? &room->outer.daddr : &room->outer.saddr;
	ret = translate_quoted(is_out ? &room->inner_to.saddr : &room->inner_to.daddr, by);
	if (ret != MK_GO_ON)
		return ret;
	if (is_out && !is_pod_range(&room->outer.saddr))
		room->outer.saddr = room->inner_to.daddr;
	move_into(end, is_out ? &cluster->home : &cluster->view, &cluster->mask);
	return rewrite_icmp_error(skb, pkt, &room->inner, &room->inner_to, &room->outer, flags)
		       ? MK_DROP_REWRITE_FAILED
		       : MK_GO_ON;
}

/* Translate the destination of a packet to another cluster, or the source of a packet from it.
 * Returns MK_GO_ON or a drop reason. */
static __always_inline int translate(struct __sk_buff *skb, struct packet *pkt,
				     const struct crossing *by)
{
	const struct mk_cluster *cluster = by->cluster;
	struct mk_tuple to = pkt->tuple;
	__u8 flags = 0;

	if (pkt->l4 == MK_L4_ICMP_ERROR)
		return translate_error(skb, pkt, by, &flags);
	move_into(by->is_out ? &to.daddr : &to.saddr, by->is_out ? &cluster->home : &cluster->view,
		  &cluster->mask);
	return rewrite(skb, pkt, &to, &flags);
}

/* ---- the way --------------------------------------------------------------------------------- */

/* The next frame of a packet: between which clusters, to which node. */
struct next_frame {
	__u32 from, to, hop;
};

/* Is it a probe, or the answer to one? It goes to the virtual pod address of a node, the first one
 * of its @host_bits. */
static __always_inline int is_of_probes(const struct mk_tuple *tuple, const struct mk_addr *home,
					__u8 host_bits)
{
	__u32 bits = host_bits < 32 ? host_bits : 32;
	__u32 last = bpf_ntohl(home->word[MK_ADDR_WORDS - 1]);

	return tuple->proto == IPPROTO_UDP &&
	       (tuple->dport == bpf_htons(MK_PROBE_PORT) ||
		tuple->sport == bpf_htons(MK_PROBE_PORT)) &&
	       (__u32)((__u64)last << (32 - bits)) == (__u32)(1ULL << (32 - bits));
}

/* The node that has @home, an address of @cluster, if it gets packets; or NULL. */
static __always_inline const __u32 *find_node(const struct mk_cluster *cluster,
					      const struct mk_tuple *tuple,
					      const struct mk_addr *home, __u32 number)
{
	struct mk_cluster_node_key key = { .cluster = number };
	const __u32 *found;

	key.index = mk_node_number(home, &cluster->mask, cluster->host_bits & (MK_ADDR_BITS - 1));
	found = bpf_map_lookup_elem(&cluster_nodes, &key);
	if (found && *found & MK_CLUSTER_HOP_TRIAL &&
	    !is_of_probes(tuple, home, cluster->host_bits))
		return NULL;
	return found;
}

/* Choose the node that gets a packet to @home, an address of @cluster: the node that has it, as far
 * as this is known, otherwise one by a hash of the addresses. All fragments of a packet go the same
 * way. Returns 0 with @next->hop, or -1. */
static __always_inline int choose_hop(const struct mk_cluster *cluster,
				      const struct mk_tuple *tuple, const struct mk_addr *home,
				      struct next_frame *next)
{
	struct mk_cluster_node_key key = { .cluster = cluster->via };
	const __u32 *found = NULL;
	__u32 hash;

	if (cluster->host_bits)
		found = find_node(cluster, tuple, home, next->to);
	if (!found && cluster->hop_count) {
		hash = hash_finish(addr_hash(&tuple->saddr) * 0x9e3779b1 ^ addr_hash(home));
		key.index = MK_CLUSTER_BY_INDEX | hash % cluster->hop_count;
		found = bpf_map_lookup_elem(&cluster_nodes, &key);
	}
	if (!found)
		return -1;
	next->hop = *found;
	return 0;
}

static __always_inline void set_number(__u8 bytes[3], __u32 number)
{
	bytes[0] = (__u8)(number >> 16);
	bytes[1] = (__u8)(number >> 8);
	bytes[2] = (__u8)number;
}

/* Send the packet by mkpeer. */
static __always_inline int send_to_peer(struct __sk_buff *skb, struct chain_ctx *ctx,
					const struct packet *pkt, const struct next_frame *next)
{
	struct mk_cluster_source source = { .local = MK_CLUSTER_MAC_LOCAL,
					    .version = MK_CLUSTER_WIRE };
	struct mk_cluster_dest dest = { .local = MK_CLUSTER_MAC_LOCAL };
	struct ethhdr *eth = packet_at(skb, 0, sizeof(*eth));
	const struct mk_links *found = find_number(&links, 0);
	__u32 ifindex = 0;

	if (found)
		ifindex = next->hop & MK_CLUSTER_HOP_ENCRYPTED ? found->wg_peer_ifindex
							       : found->cluster_ifindex;
	if (!ifindex)
		return drop(skb, ctx->hook, MK_DROP_PEER_NO_NODE, &pkt->tuple);
	if (!eth)
		return drop(skb, ctx->hook, MK_DROP_TRUNCATED, &pkt->tuple);
	set_number(source.cluster, next->from);
	set_number(dest.cluster, next->to);
	dest.hop[0] = (__u8)(next->hop >> 8);
	dest.hop[1] = (__u8)next->hop;
	set_macs(eth, (const __u8 *)&source, (const __u8 *)&dest);
	return bpf_redirect(ifindex, 0);
}

enum count_direction { COUNT_SENT, COUNT_RECEIVED };

static __always_inline void count(const struct __sk_buff *skb, const struct packet *pkt,
				  __u32 number, enum count_direction direction)
{
	struct mk_cluster_counters *counters = find_number(&cluster_counters, number);
	struct wire_count wire = wire_count(skb, pkt);

	if (!counters)
		return;
	counters->packets[direction] += wire.packets;
	counters->bytes[direction] += wire.bytes - wire.packets * MK_L3_OFF;
}

/* Is the packet a probe of this node? Some find the largest packet that passes. */
static __always_inline int is_own_probe(const struct chain_ctx *ctx, const struct packet *pkt)
{
	return ctx->hook == MK_HOOK_HOST && pkt->l4 == MK_L4_UDP &&
	       pkt->tuple.dport == bpf_htons(MK_PROBE_PORT);
}

/* Is the packet too big for the way to a cluster? Carriers are fragmented only if they exceed the
 * uplink's MTU. If the way is narrower, they would be lost, so packets without DF are refused, too;
 * Linux then sends smaller ones. */
static __always_inline int exceeds_way(struct __sk_buff *skb, const struct chain_ctx *ctx,
				       const struct packet *pkt, const ip_header *ip,
				       __u16 mtu_bytes)
{
	const struct mk_link_set *links;

	if (wire_bytes(skb, pkt) <= mtu_bytes || is_own_probe(ctx, pkt))
		return 0;
	links = links_now();
	if (links && mtu_bytes < links->overlay_mtu_bytes)
		return 1;
	return exceeds_tunnel(skb, ctx, pkt, ip, mtu_bytes);
}

/* Check what a router checks. Returns MK_GO_ON, or the verdict. */
static __always_inline int route_checked(struct __sk_buff *skb, struct chain_ctx *ctx,
					 const struct packet *pkt, __u16 mtu_bytes)
{
	struct frame frame;

	if (frame_of(skb, &frame))
		return drop(skb, ctx->hook, MK_DROP_TRUNCATED, &pkt->tuple);
	if (exceeds_way(skb, ctx, pkt, frame.ip, mtu_bytes))
		return chain_error(skb, ctx, pkt, MK_DROP_TOO_BIG, MK_ICMP_TOO_BIG,
				   MK_ICMP_TOO_BIG_CODE, mtu_bytes);
	if (hop(skb, ctx, frame.ip) != MK_GO_ON)
		return chain_error(skb, ctx, pkt, MK_DROP_TTL_EXPIRED, MK_ICMP_EXPIRED, 0, 0);
	return MK_GO_ON;
}

/* ---- out ------------------------------------------------------------------------------------- */

/* Send an ICMP error about a packet in transit back to the packet's cluster. As a source it has the
 * packet's destination, so it comes from that cluster. */
static __always_inline int send_back(struct __sk_buff *skb, struct chain_ctx *ctx,
				     const struct packet *pkt)
{
	const struct mk_cluster *cluster;
	struct cluster_frame frame = { 0 };
	struct next_frame next;
	int ret = cluster_read_frame(skb, &frame);

	if (ret != MK_GO_ON)
		return drop(skb, ctx->hook, ret, &pkt->tuple);
	next.from = frame.to;
	next.to = frame.from;
	cluster = bpf_map_lookup_elem(&clusters, &next.to);
	if (!cluster || choose_hop(cluster, &pkt->tuple, &pkt->tuple.daddr, &next))
		return drop(skb, ctx->hook, MK_DROP_PEER_NO_NODE, &pkt->tuple);
	return send_to_peer(skb, ctx, pkt, &next);
}

/* Has another node of this cluster sent the packet here, as to a border node? */
static __always_inline int is_of_other_node(const struct chain_ctx *ctx)
{
	return ctx->hook == MK_HOOK_OVERLAY && !(ctx->flags & CHAIN_TRANSLATED);
}

/* May the packet be sent to another cluster? The host's addresses mean another host there, so its
 * packets have the virtual pod address. Answers of what is no pod have its external address. An
 * error that another node has sent here gets the address of the packet that it quotes. */
static __always_inline int may_leave(const struct chain_ctx *ctx, const struct packet *pkt)
{
	if (ctx->flags & CHAIN_TRANSLATED &&
	    (pkt->l4 == MK_L4_ICMP_ERROR || is_external(&pkt->tuple.saddr)))
		return 1;
	if (is_of_other_node(ctx) && pkt->l4 == MK_L4_ICMP_ERROR)
		return 1;
	return is_pod_range(&pkt->tuple.saddr) &&
	       (ctx->hook != MK_HOOK_HOST || is_addr(&pkt->tuple.saddr, mk_node_vpod()));
}

/* May the other cluster send the answers of a pod's flow without a session? */
static __always_inline int may_answer(const struct mk_cluster *cluster, const struct packet *pkt)
{
	if (cluster->flags & MK_CLUSTER_ACCESS_PODS)
		return 1;
	return cluster->flags & MK_CLUSTER_ACCESS_EXPORTS &&
	       is_exported(&pkt->tuple.saddr, pkt->tuple.sport, pkt->tuple.proto, 0);
}

/* Does a flow need a session? A pod's flow does if the other cluster may not open one: its answers
 * are then known. The host's flow does because its source changes. A packet in the middle of a flow
 * counts as well: the flow may be older than that. Program `open` comes back here, with ctx->opens
 * if it could open no session. */
static __always_inline int needs_session(const struct chain_ctx *ctx, const struct packet *pkt,
					 const struct mk_cluster *cluster)
{
	if (ctx->flags & CHAIN_TRANSLATED || ctx->opens == CHAIN_OPENS_OWN)
		return 0;
	if (ctx->hook != MK_HOOK_HOST && (ctx->hook != MK_HOOK_POD || may_answer(cluster, pkt)))
		return 0;
	return pkt->l4 != MK_L4_OTHER && pkt->l4 != MK_L4_ICMP_ERROR &&
	       pkt->l4 != MK_L4_ECHO_REPLY && !(pkt->tcp_flags & MK_TCP_RST);
}

static __always_inline int open_session(struct __sk_buff *skb, struct chain_ctx *ctx,
					const struct packet *pkt)
{
	ctx->opens = CHAIN_OPENS_OWN;
	ctx->reverse_flags = 0;
	return chain_next(skb, ctx, pkt, MK_PROG_OPEN);
}

/* Does a border node carry the packet? Two kinds of packets leave here all the same, because labels
 * change at one node after the other. Another node has taken this one for a border node, or a flow
 * to an external address has its session here. */
static __always_inline int goes_by_border(const struct chain_ctx *ctx, const struct packet *pkt,
					  const struct mk_cluster *cluster)
{
	if (!(cluster->flags & MK_CLUSTER_BY_BORDER) || is_of_other_node(ctx))
		return 0;
	return is_local_pod_range(&pkt->tuple.saddr) || pkt->l4 == MK_L4_ICMP_ERROR;
}

/* Send the packet as it is to a border node, by the overlay. */
static __always_inline int to_border(struct __sk_buff *skb, struct chain_ctx *ctx,
				     const struct packet *pkt, const struct mk_cluster *cluster)
{
	const struct mk_cluster_node_key key = { mk_node.cluster_number, MK_CLUSTER_BY_INDEX };
	const __u32 *found = bpf_map_lookup_elem(&cluster_nodes, &key);
	const struct mk_link_set *links = links_now();
	__u8 mac[ETH_ALEN];
	struct ethhdr *eth;
	int ret;

	if (!found || !links)
		return drop(skb, ctx->hook, MK_DROP_PEER_NO_NODE, &pkt->tuple);
	mac[0] = mk_node.vtep_mac[0];
	mac[1] = mk_node.vtep_mac[1];
	__builtin_memcpy(mac + 2, found, sizeof(*found));
	ret = route_checked(skb, ctx, pkt, cluster->mtu_bytes);
	if (ret != MK_GO_ON)
		return ret;
	eth = packet_at(skb, 0, sizeof(*eth));
	if (!eth)
		return drop(skb, ctx->hook, MK_DROP_TRUNCATED, &pkt->tuple);
	set_macs(eth, mk_node.vtep_mac, mac);
	return bpf_redirect(links->overlay_ifindex, 0);
}

static __always_inline int to_cluster(struct __sk_buff *skb, struct chain_ctx *ctx,
				      struct packet *pkt, const struct mk_cluster *cluster,
				      struct next_frame *next)
{
	const struct crossing by = { cluster, next->to, 1 };
	struct mk_addr home = pkt->tuple.daddr;
	int ret;

	move_into(&home, &cluster->home, &cluster->mask);
	if (choose_hop(cluster, &pkt->tuple, &home, next))
		return drop(skb, ctx->hook, MK_DROP_PEER_NO_NODE, &pkt->tuple);
	ret = route_checked(skb, ctx, pkt, cluster->mtu_bytes);
	if (ret != MK_GO_ON)
		return ret;
	ret = translate(skb, pkt, &by);
	if (ret != MK_GO_ON)
		return drop(skb, ctx->hook, ret, &pkt->tuple);
	count(skb, pkt, next->to, COUNT_SENT);
	return send_to_peer(skb, ctx, pkt, next);
}

/* The router has found a route to the cluster in skb->cb[4]. */
SEC("tc")
int cluster_out(struct __sk_buff *skb)
{
	struct next_frame next = { .from = mk_node.cluster_number,
				   .to = skb->cb[4] & MK_CLUSTER_NUMBER_MAX };
	__u32 row = skb->cb[4];
	const struct mk_cluster *cluster;
	struct chain_ctx ctx;
	struct packet pkt;
	int ret = chain_packet(skb, &ctx, &pkt);

	if (ret != MK_GO_ON)
		return drop(skb, ctx.hook, ret, &pkt.tuple);
	if (is_in_transit(skb, &ctx))
		return send_back(skb, &ctx, &pkt);
	cluster = find_number(&clusters, row);
	if (!cluster || !mk_addr_in(&pkt.tuple.daddr, &cluster->view, &cluster->mask))
		return drop(skb, ctx.hook, MK_DROP_PEER_UNKNOWN, &pkt.tuple);
	if (needs_session(&ctx, &pkt, cluster))
		return open_session(skb, &ctx, &pkt);
	if (!may_leave(&ctx, &pkt))
		return drop(skb, ctx.hook, MK_DROP_PEER_SOURCE, &pkt.tuple);
	if (goes_by_border(&ctx, &pkt, cluster))
		return to_border(skb, &ctx, &pkt, cluster);
	return to_cluster(skb, &ctx, &pkt, cluster, &next);
}

/* ---- in -------------------------------------------------------------------------------------- */

/* Pass a packet on to another cluster. Nothing is translated. */
static __always_inline int transit(struct __sk_buff *skb, struct chain_ctx *ctx,
				   const struct packet *pkt, const struct cluster_frame *frame,
				   const struct mk_cluster *source)
{
	struct next_frame next = { .from = frame->from, .to = frame->to };
	const struct mk_cluster *dest = bpf_map_lookup_elem(&clusters, &next.to);
	int ret;

	if (dest && !mk_addr_in(&pkt->tuple.daddr, &dest->home, &dest->mask))
		dest = external_row_of(next.to, &pkt->tuple.daddr);
	if (!dest || !(source->flags & dest->flags & MK_CLUSTER_RELAYED))
		return drop(skb, ctx->hook, MK_DROP_PEER_TRANSIT, &pkt->tuple);
	if (choose_hop(dest, &pkt->tuple, &pkt->tuple.daddr, &next))
		return drop(skb, ctx->hook, MK_DROP_PEER_NO_NODE, &pkt->tuple);
	ret = route_checked(skb, ctx, pkt, dest->mtu_bytes);
	return ret == MK_GO_ON ? send_to_peer(skb, ctx, pkt, &next) : ret;
}

/* Send a probe back. Addresses are home addresses both ways, so nothing is translated. */
static __always_inline int answer_probe(struct __sk_buff *skb, struct chain_ctx *ctx,
					struct packet *pkt, __u32 number,
					const struct mk_cluster *source)
{
	struct next_frame next = { .from = mk_node.cluster_number, .to = number };
	struct mk_tuple back = { .saddr = pkt->tuple.daddr,
				 .daddr = pkt->tuple.saddr,
				 .sport = pkt->tuple.dport,
				 .dport = pkt->tuple.sport,
				 .proto = pkt->tuple.proto };
	__u8 flags = 0;
	int ret;

	if (choose_hop(source, &back, &back.daddr, &next))
		return drop(skb, ctx->hook, MK_DROP_PEER_NO_NODE, &pkt->tuple);
	count(skb, pkt, number, COUNT_RECEIVED);
	ret = rewrite(skb, pkt, &back, &flags);
	if (ret != MK_GO_ON)
		return drop(skb, ctx->hook, ret, &pkt->tuple);
	count(skb, pkt, number, COUNT_SENT);
	return send_to_peer(skb, ctx, pkt, &next);
}

/* A packet for this cluster. `ilb_cluster` reads the cluster's flags from skb->cb[4]. */
static __always_inline int take_in(struct __sk_buff *skb, struct chain_ctx *ctx, struct packet *pkt,
				   __u32 number, const struct mk_cluster *source)
{
	const struct crossing by = { source, number, 0 };
	int ret;

	if (!is_pod_range(&pkt->tuple.daddr) && !is_external(&pkt->tuple.daddr))
		return drop(skb, ctx->hook, MK_DROP_PEER_DENIED, &pkt->tuple);
	if (is_probe(skb, pkt))
		return answer_probe(skb, ctx, pkt, number, source);
	ret = fragment_gather(skb, pkt, MK_HOOK_CLUSTER);
	if (ret < MK_GO_ON)
		return fragment_next(skb, ctx, pkt, ret);
	if (ret == MK_GO_ON)
		ret = translate(skb, pkt, &by);
	if (ret != MK_GO_ON)
		return drop(skb, ctx->hook, ret, &pkt->tuple);
	take_over(skb);
	count(skb, pkt, number, COUNT_RECEIVED);
	skb->cb[4] = source->flags;
	return chain_next(skb, ctx, pkt, MK_PROG_ILB_CLUSTER);
}

SEC("tc")
int cluster_in(struct __sk_buff *skb)
{
	struct chain_ctx ctx = { .hook = MK_HOOK_CLUSTER };
	const struct mk_cluster *source = NULL;
	struct cluster_frame frame = { 0 };
	struct packet pkt;
	int ret = packet_read(skb, &pkt);

	if (ret == MK_DROP_NOT_IPV4)
		ret = other_family_next(skb, MK_ENTRY_CLUSTER);
	if (ret == MK_GO_ON && is_of_link(&pkt))
		ret = MK_DROP_NEIGHBOUR_DISCOVERY;
	if (ret == MK_GO_ON)
		ret = cluster_read_frame(skb, &frame);
	if (ret == MK_GO_ON && frame.version != MK_CLUSTER_WIRE)
		ret = MK_DROP_PEER_VERSION;
	if (ret == MK_GO_ON) {
		source = bpf_map_lookup_elem(&clusters, &frame.from);
		if (!source)
			ret = MK_DROP_PEER_UNKNOWN;
		else if (!mk_addr_in(&pkt.tuple.saddr, &source->home, &source->mask))
			source = external_row_of(frame.from, &pkt.tuple.saddr);
		if (ret == MK_GO_ON && !source)
			ret = MK_DROP_PEER_SOURCE;
	}
	if (ret != MK_GO_ON || !source)
		return drop(skb, ctx.hook, ret, &pkt.tuple);
	if (frame.to != mk_node.cluster_number)
		return transit(skb, &ctx, &pkt, &frame, source);
	return take_in(skb, &ctx, &pkt, frame.from, source);
}

char LICENSE[] __attribute__((weak)) SEC("license") = "Dual BSD/GPL";
