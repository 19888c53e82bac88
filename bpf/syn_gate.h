/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/syn_gate.h - a flood of SYNs from outside. Above a rate of new TCP sessions (synRate), a
 * client has to show that it receives what is sent to its address. Its SYN is answered with a
 * SYN-ACK whose acknowledgement is wrong. It answers that with an RST of that number
 * (RFC 9293, 3.10.7.3), and sends its SYN again later. The low 15 bits of the number are a hash
 * with a secret. A sender with a forged address does not see it.
 *
 * The number is at most 32,767 below the client's initial sequence number. Linux' connection
 * tracking, between client and node, accepts an acknowledgement that is so little too low. */
#ifndef MK_BPF_SYN_GATE_H
#define MK_BPF_SYN_GATE_H

#include "chain.h"
#include "session.h"

#define SYN_GATE_COOKIE_MASK 0x7fffU
#define SYN_GATE_SLOT_SHIFT  34 /* a slot of time: 17 s */
#define SYN_GATE_VALID_NS    (120 * 1000000000ULL)
#define SYN_GATE_ASKED_NS    (36 * 1000000000ULL) /* two slots, and the grain */
#define SYN_GATE_GRAIN_NS    1000000000ULL

static __always_inline __u64 sip_rotated(__u64 value, int bits)
{
	return value << bits | value >> (64 - bits);
}

static __always_inline void sip_round(__u64 *v)
{
	v[0] += v[1];
	v[1] = sip_rotated(v[1], 13) ^ v[0];
	v[0] = sip_rotated(v[0], 32);
	v[2] += v[3];
	v[3] = sip_rotated(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = sip_rotated(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = sip_rotated(v[1], 17) ^ v[2];
	v[2] = sip_rotated(v[2], 32);
}

static __always_inline void sip_word(__u64 *v, __u64 word)
{
	v[3] ^= word;
	sip_round(v);
	v[0] ^= word;
}

/* SipHash-1-3 of the flow and the slot of time. */
static __always_inline __u32 syn_cookie(const struct mk_syn_secret *secret,
					const struct mk_tuple *tuple, __u64 slot)
{
	__u64 v[4] = { secret->half[0] ^ 0x736f6d6570736575ULL,
		       secret->half[1] ^ 0x646f72616e646f6dULL,
		       secret->half[0] ^ 0x6c7967656e657261ULL,
		       secret->half[1] ^ 0x7465646279746573ULL };

	for (int i = 0; i < MK_ADDR_WORDS; i++)
		sip_word(v, (__u64)tuple->saddr.word[i] << 32 | tuple->daddr.word[i]);
	sip_word(v, slot << 32 | (__u32)tuple->sport << 16 | tuple->dport);
	v[2] ^= 0xff;
	for (int i = 0; i < 3; i++)
		sip_round(v);
	return (__u32)(v[0] ^ v[1] ^ v[2] ^ v[3]) & SYN_GATE_COOKIE_MASK;
}

/* Take one session from the budget @paid_ns. Returns 1, or 0 if it is used up. */
static __always_inline int syn_gate_pays(__u64 *paid_ns)
{
	__u64 burst_ns = mk_node.syn_ns > MK_SYN_BURST_NS ? mk_node.syn_ns : MK_SYN_BURST_NS;
	__u64 now_ns = session_clock_ns();

	if (*paid_ns < now_ns)
		*paid_ns = now_ns;
	if (*paid_ns - now_ns + mk_node.syn_ns > burst_ns)
		return 0;
	*paid_ns += mk_node.syn_ns;
	return 1;
}

/* May a session open without a question: by this CPU's budget, or by that of a client which has
 * proved its address? The latter is bounded, too: a live host's address can be forged. */
static __always_inline int syn_gate_is_open(const struct packet *pkt)
{
	struct mk_syn_client *client;
	__u64 *paid_ns;

	paid_ns = find_number(&syn_budget, 0);
	if (!paid_ns || syn_gate_pays(paid_ns))
		return 1;
	client = bpf_map_lookup_elem(&syn_verified, &pkt->tuple.saddr);
	return client && session_clock_ns() - client->since_ns < SYN_GATE_VALID_NS &&
	       syn_gate_pays(&client->paid_ns);
}

/* Let the frame go back where it came from. Swapped addresses change no checksum. */
static __always_inline int syn_gate_turn(struct __sk_buff *skb, const struct packet *pkt)
{
	struct ethhdr *eth = packet_at(skb, 0, sizeof(*eth));
	ip_header *ip = packet_at(skb, MK_L3_OFF, sizeof(*ip));
	struct mk_tuple back;
	__u8 mac[ETH_ALEN];

	if (!eth || !ip)
		return -1;
	__builtin_memcpy(mac, eth->h_dest, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, mac, ETH_ALEN);
	rewrite_ttl_own(skb, ip);
	tuple_reverse(&back, &pkt->tuple);
	return rewrite_ip(skb, MK_L3_OFF, &back, 0);
}

/* Turn the SYN into the answer, in place. Options and length stay. Returns 0, or -1. The window is
 * the largest: connection tracking takes the RST if its number is in the window. */
static __always_inline int syn_gate_answer(struct __sk_buff *skb, const struct packet *pkt,
					   __u32 cookie)
{
	const __u32 check = pkt->l4_off + offsetof(struct tcphdr, check);
	struct tcphdr *tcp = packet_at(skb, pkt->l4_off, sizeof(*tcp));
	__be32 from[2], to[2];
	__u32 isn;

	if (!tcp)
		return -1;
	isn = bpf_ntohl(tcp->seq);
	from[0] = tcp->ack_seq;
	from[1] = ((__be32 *)tcp)[3];
	to[0] = bpf_htonl(isn - ((isn - cookie) & SYN_GATE_COOKIE_MASK));
	to[1] = (from[1] & bpf_htonl(0xf0000000)) |
		bpf_htonl((MK_TCP_SYN | MK_TCP_ACK) << 16 | 0xffff);
	tcp->ack_seq = to[0];
	((__be32 *)tcp)[3] = to[1];
	tcp->source = pkt->tuple.dport;
	tcp->dest = pkt->tuple.sport;
	if (syn_gate_turn(skb, pkt) || bpf_l4_csum_replace(skb, check, from[0], to[0], 4))
		return -1;
	return bpf_l4_csum_replace(skb, check, from[1], to[1], 4) ? -1 : 0;
}

/* The client's RST: if it has the cookie of this slot of time or the last one, the client's address
 * is its own. Without a question in this time, it is nothing but an RST. The same RST counts again
 * in this time, as much as an answer to another question would: it is worth one session. */
static __always_inline int syn_gate_proves(struct __sk_buff *skb, const struct packet *pkt)
{
	__u64 now_ns = session_clock_ns(), slot = now_ns >> SYN_GATE_SLOT_SHIFT;
	struct tcphdr *tcp = packet_at(skb, pkt->l4_off, sizeof(*tcp));
	struct mk_syn_client proved = { .since_ns = now_ns }, *client;
	const struct mk_syn_secret *secret;
	__u32 seq;

	secret = find_number(&syn_secret, 0);
	if (!tcp || !secret || now_ns - secret->asked_ns > SYN_GATE_ASKED_NS)
		return 0;
	seq = bpf_ntohl(tcp->seq) & SYN_GATE_COOKIE_MASK;
	if (seq != syn_cookie(secret, &pkt->tuple, slot) &&
	    seq != syn_cookie(secret, &pkt->tuple, slot - 1))
		return 0;
	client = bpf_map_lookup_elem(&syn_verified, &pkt->tuple.saddr);
	if (!client)
		return !bpf_map_update_elem(&syn_verified, &pkt->tuple.saddr, &proved, BPF_ANY);
	client->since_ns = now_ns;
	/* each proof is worth one session, also if the client's budget is used up */
	if (client->paid_ns > mk_node.syn_ns)
		client->paid_ns -= mk_node.syn_ns;
	return 1;
}

/* Ask the client to prove its address. Returns the verdict. */
static __always_inline int syn_gate_ask(struct __sk_buff *skb, const struct chain_ctx *ctx,
					struct mk_syn_secret *secret, const struct packet *pkt)
{
	__u64 now_ns = session_clock_ns();
	__u32 cookie = syn_cookie(secret, &pkt->tuple, now_ns >> SYN_GATE_SLOT_SHIFT);

	if (now_ns - secret->asked_ns > SYN_GATE_GRAIN_NS)
		secret->asked_ns = now_ns;
	if (syn_gate_answer(skb, pkt, cookie))
		return drop(skb, ctx->hook, MK_DROP_REWRITE_FAILED, &pkt->tuple);
	drop(skb, ctx->hook, MK_DROP_SYN_FLOOD, &pkt->tuple);
	return bpf_redirect(skb->ifindex, 0);
}

/* Frames of such an uplink have no MAC address to which an answer could go back. */
static __always_inline int syn_gate_is_tunnel(const struct __sk_buff *skb)
{
	const __u32 ifindex = skb->ifindex;
	const struct mk_uplink *uplink = find_number(&uplinks, ifindex);

	return !uplink || uplink->flags & MK_UPLINK_TUNNEL;
}

/* The budget is used up. A session that is over goes: the client's RST must not follow it. */
static __always_inline int syn_gate_stop(struct __sk_buff *skb, const struct chain_ctx *ctx,
					 const struct packet *pkt, struct session_hit *hit)
{
	struct mk_syn_secret *secret;

	secret = find_number(&syn_secret, 0);
	if (!secret || !secret->half[0] || syn_gate_is_tunnel(skb))
		return MK_GO_ON;
	session_end(SERVICE_SESSIONS, pkt, hit);
	if (!is_first_of_tcp(pkt) || pkt->fragment != MK_WHOLE)
		return drop(skb, ctx->hook, MK_DROP_SYN_FLOOD, &pkt->tuple);
	return syn_gate_ask(skb, ctx, secret, pkt);
}

/* May a packet from outside that has no session open one? Returns MK_GO_ON, or the verdict of a
 * packet that ends here. */
static __always_inline int syn_gate_pass(struct __sk_buff *skb, const struct chain_ctx *ctx,
					 const struct packet *pkt, struct session_hit *hit)
{
	if (!mk_node.syn_ns || pkt->l4 != MK_L4_TCP || ctx->opens == CHAIN_OPENS_OWN)
		return MK_GO_ON;
	if ((pkt->tcp_flags & (MK_TCP_RST | MK_TCP_ACK)) == MK_TCP_RST && syn_gate_proves(skb, pkt))
		return TC_ACT_SHOT;
	/* for a host port only a SYN opens a session */
	if (ctx->opens == CHAIN_OPENS_HOST_PORT && !is_first_of_tcp(pkt))
		return MK_GO_ON;
	return syn_gate_is_open(pkt) ? MK_GO_ON : syn_gate_stop(skb, ctx, pkt, hit);
}

#endif
