/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/fragment.h - the data that the fragments of a packet contain about it, in any order.
 * Translation of any fragment needs the ports, which are in the first fragment. The first fragment
 * of SCTP also needs the packet's length, which is in the last fragment (sctp.h).
 *
 * A fragment that comes before these data waits in map `held` (program `hold`). The fragment that
 * completes the data sends all held fragments back to the devices that they came in by (program
 * `release`); then they pass like any others. A fragment of a packet whose data are complete is
 * never held, so no fragment is held twice.
 *
 * Each hook has its own entry for a packet: a packet that passes two hooks is tracked twice. */
#ifndef MK_BPF_FRAGMENT_H
#define MK_BPF_FRAGMENT_H

#include "chain.h"

/* The longest time between fragments of a packet: the default of net.ipv4.ipfrag_time. */
#define MK_FRAGMENT_NS 30000000000ULL
/* A released fragment comes in again within this time. No other packet uses the same id so soon. */
#define MK_FRAGMENT_AGAIN_NS 1000000000ULL

static __always_inline void fragment_key(struct mk_fragment_key *key, const struct mk_tuple *tuple,
					 mk_fragment_id id, __u8 hook)
{
	__builtin_memset(key, 0, sizeof(*key));
	key->saddr = tuple->saddr;
	key->daddr = tuple->daddr;
	key->id = id;
	if (MK_FRAGMENT_HAS_PROTO)
		key->proto = tuple->proto;
	key->hook = hook;
}

/* The hook in the key of a fragment's packet. A packet passes hook `function` once per function of
 * its chain, so there the device is part of it, and the frame's source: it names the function if
 * that is on another node. At hook `cluster` the source names the cluster: pods of two clusters may
 * have the same address. */
static __always_inline __u8 fragment_hook(struct __sk_buff *skb, __u8 hook)
{
	const struct ethhdr *eth;

	if (hook != MK_HOOK_FUNCTION && hook != MK_HOOK_CLUSTER)
		return hook;
	eth = packet_at(skb, 0, sizeof(*eth));
	if (!eth)
		return 0x80;
	if (hook == MK_HOOK_CLUSTER)
		return 0x80 | ((eth->h_source[1] ^ eth->h_source[2] ^ eth->h_source[3]) & 0x7f);
	return 0x80 | ((skb->ifindex ^ eth->h_source[0] ^ eth->h_source[5]) & 0x7f);
}

/* Are the data complete that translating its fragments needs? */
static __always_inline int fragment_is_known(const struct mk_fragment *state)
{
	return state->has_first && (state->l4 != MK_L4_SCTP || state->l4_bytes);
}

/* Computed as a sum, because another CPU may have written a time later than ours. */
static __always_inline int is_within(__u64 since_ns, __u64 limit_ns, __u64 now_ns)
{
	return since_ns + limit_ns >= now_ns;
}

/* Was this first fragment released before? Any other first fragment begins a new packet. */
static __always_inline int fragment_is_again(struct mk_fragment *state, __u64 now_ns)
{
	int is_again = is_within(state->released_ns, MK_FRAGMENT_AGAIN_NS, now_ns);

	state->released_ns = 0;
	return is_again;
}

/* Find the entry of the fragment's packet. An entry of an earlier packet with the same id is
 * deleted. */
static __always_inline struct mk_fragment *fragment_find(const struct mk_fragment_key *key,
							 const struct packet *pkt, __u64 now_ns)
{
	struct mk_fragment *state = bpf_map_lookup_elem(&fragments, key);
	__u64 limit_ns;

	if (!state)
		return NULL;
	limit_ns = fragment_is_known(state) ? MK_FRAGMENT_NS : MK_HELD_NS;
	if (is_within(state->begun_ns, limit_ns, now_ns) &&
	    (pkt->fragment != MK_FIRST_FRAGMENT || !state->has_first ||
	     fragment_is_again(state, now_ns)))
		return state;
	bpf_map_delete_elem(&fragments, key);
	return NULL;
}

/* Create the entry when the first arriving fragment of a packet is seen. Returns 0, or -1 if
 * another CPU has just created it. */
static __always_inline int fragment_begin(const struct mk_fragment_key *key,
					  const struct packet *pkt,
					  const struct fragment_part *part,
					  struct mk_fragment *state)
{
	state->sport = pkt->tuple.sport;
	state->dport = pkt->tuple.dport;
	state->l4_bytes = part->is_last ? part->end : 0;
	state->has_first = pkt->fragment == MK_FIRST_FRAGMENT;
	state->l4 = pkt->l4 == MK_L4_ICMP_ERROR ? MK_L4_OTHER : pkt->l4;
	state->proto = pkt->tuple.proto;
	state->passed_bytes = fragment_is_known(state) ? part->end : 0;
	return bpf_map_update_elem(&fragments, key, state, BPF_NOEXIST) ? -1 : 0;
}

/* Pass a fragment whose packet's data are complete, or that cannot be held. The fragment gets the
 * data of the others. */
static __always_inline int fragment_pass(struct mk_fragment *state,
					 const struct mk_fragment_key *key, struct packet *pkt,
					 const struct fragment_part *part)
{
	if (pkt->fragment == MK_LATER_FRAGMENT && state->has_first) {
		pkt->tuple.sport = state->sport;
		pkt->tuple.dport = state->dport;
		pkt->l4 = state->l4;
		if (!MK_FRAGMENT_HAS_PROTO)
			pkt->tuple.proto = state->proto;
	}
	pkt->fragmented_bytes = state->l4_bytes <= 0xffff ? state->l4_bytes : 0;
	__sync_fetch_and_add(&state->passed_bytes, part->end - part->begin);
	if (state->l4_bytes && state->passed_bytes >= state->l4_bytes)
		bpf_map_delete_elem(&fragments, key); /* the next with this id is another packet */
	return MK_GO_ON;
}

/* Add a fragment's data to the existing entry of its packet. */
static __always_inline int fragment_add(struct mk_fragment *state,
					const struct mk_fragment_key *key, struct packet *pkt,
					const struct fragment_part *part)
{
	int was_known = fragment_is_known(state);

	if (pkt->fragment == MK_FIRST_FRAGMENT && !state->has_first) {
		state->sport = pkt->tuple.sport;
		state->dport = pkt->tuple.dport;
		state->l4 = pkt->l4 == MK_L4_ICMP_ERROR ? MK_L4_OTHER : pkt->l4;
		state->proto = pkt->tuple.proto;
		state->has_first = 1;
	}
	if (part->is_last && !state->l4_bytes)
		state->l4_bytes = part->end;
	if (was_known)
		return fragment_pass(state, key, pkt, part);
	if (fragment_is_known(state))
		return MK_FRAGMENT_RELEASES;
	return state->not_held ? fragment_pass(state, key, pkt, part) : MK_FRAGMENT_WAITS;
}

static __always_inline int fragment_note(struct packet *pkt, const struct mk_fragment_key *key,
					 const struct fragment_part *part)
{
	struct mk_fragment begun = { .begun_ns = bpf_ktime_get_ns() };
	struct mk_fragment *state = fragment_find(key, pkt, begun.begun_ns);

	if (!state && fragment_begin(key, pkt, part, &begun) == 0)
		return fragment_is_known(&begun) ? MK_GO_ON : MK_FRAGMENT_WAITS;
	if (!state)
		state = bpf_map_lookup_elem(&fragments, key);
	return state ? fragment_add(state, key, pkt, part) : MK_GO_ON;
}

static __always_inline int has_ports(__u8 proto)
{
	return proto == IPPROTO_TCP || proto == IPPROTO_UDP || proto == IPPROTO_SCTP ||
	       proto == MK_IPPROTO_ICMP;
}

/* Call this after packet_read(), when the sender has been checked. A later fragment gets the ports
 * of the first one; the first fragment of SCTP gets its packet's length. Returns MK_GO_ON, or a
 * value for fragment_next() if the packet cannot be translated yet. */
static __always_inline int fragment_gather(struct __sk_buff *skb, struct packet *pkt, __u8 hook)
{
	struct mk_fragment_key key;
	struct fragment_part part;
	int ret;

	if (pkt->fragment == MK_WHOLE || fragment_read(skb, &part) ||
	    !(has_ports(pkt->tuple.proto) || part.is_behind_headers))
		return MK_GO_ON;
	fragment_key(&key, &pkt->tuple, part.id, fragment_hook(skb, hook));
	ret = fragment_note(pkt, &key, &part);
	return ret == MK_FRAGMENT_WAITS && skb->len > MK_HELD_BYTES ? MK_GO_ON : ret;
}

static __always_inline int packet_parse(struct __sk_buff *skb, struct packet *pkt, __u8 hook)
{
	int ret = packet_read(skb, pkt);

	return ret == MK_GO_ON ? fragment_gather(skb, pkt, hook) : ret;
}

static __always_inline int fragment_next(struct __sk_buff *skb, struct chain_ctx *ctx,
					 const struct packet *pkt, int gathered)
{
	return chain_next(skb, ctx, pkt,
			  gathered == MK_FRAGMENT_WAITS ? MK_PROG_HOLD : MK_PROG_RELEASE);
}

#endif
