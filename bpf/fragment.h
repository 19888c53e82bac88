/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/fragment.h - what the fragments of a packet tell of it, in whatever order they come. To be
 * translated all need the ports, which the first has; SCTP's first needs the length of the whole, too, which
 * the last tells (sctp.h). One that comes before that waits in map `held` (program `hold`); the one that
 * completes what has to be known puts all of them back where they came in (program `release`), and then
 * they pass like any others. What is known is never held, so none goes round twice.
 *
 * Each hook has its own entry of a packet: one that passes two hooks is seen twice. */
#ifndef MK_BPF_FRAGMENT_H
#define MK_BPF_FRAGMENT_H

#include "chain.h"

/* What fragment_gather() returns beside MK_PARSED. */
#define MK_FRAGMENT_WAITS    (-2)
#define MK_FRAGMENT_RELEASES (-3)

/* A fragment comes no later than this: net.ipv4.ipfrag_time unless configured otherwise. */
#define MK_FRAGMENT_NS 30000000000ULL
/* What is put back comes in again sooner than this, and no other packet with its id does. */
#define MK_FRAGMENT_AGAIN_NS 1000000000ULL

static __always_inline void fragment_key(struct mk_fragment_key *key, const struct mk_tuple *tuple,
					 __be16 id, __u8 hook)
{
	key->saddr = tuple->saddr;
	key->daddr = tuple->daddr;
	key->id = id;
	key->proto = tuple->proto;
	key->hook = hook;
}

/* Is all there that the translation of its fragments needs? */
static __always_inline int fragment_is_known(const struct mk_fragment *state)
{
	return state->has_first && (state->l4 != MK_L4_SCTP || state->l4_bytes);
}

/* A sum, because another CPU may have written a later time than ours. */
static __always_inline int is_within(__u64 since_ns, __u64 limit_ns, __u64 now_ns)
{
	return since_ns + limit_ns >= now_ns;
}

/* Is a first fragment one that was put back? Any other begins a packet. */
static __always_inline int fragment_is_again(struct mk_fragment *state, __u64 now_ns)
{
	int is_again = is_within(state->released_ns, MK_FRAGMENT_AGAIN_NS, now_ns);

	state->released_ns = 0;
	return is_again;
}

/* What the fragment's packet has told. What is there of another packet, whose id comes again, goes. */
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

/* The part of its packet's layer 4 that a fragment has. */
struct fragment_part {
	__u32 begin, end;
	int is_last;
};

static __always_inline void fragment_part(struct fragment_part *part, const struct iphdr *ip)
{
	__u16 frag = bpf_ntohs(ip->frag_off);

	part->begin = (frag & MK_IP_OFFSET_MASK) * 8;
	part->end = part->begin + bpf_ntohs(ip->tot_len) - ip->ihl * 4;
	part->is_last = !(frag & MK_IP_MF);
}

/* The first fragment of a packet that comes. Returns 0, or -1: another CPU has one, too. */
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
	state->passed_bytes = fragment_is_known(state) ? part->end : 0;
	return bpf_map_update_elem(&fragments, key, state, BPF_NOEXIST) ? -1 : 0;
}

/* A fragment of a packet that is known, or that there is no room for: give it what the others told. */
static __always_inline int fragment_pass(struct mk_fragment *state,
					 const struct mk_fragment_key *key, struct packet *pkt,
					 const struct fragment_part *part)
{
	if (pkt->fragment == MK_LATER_FRAGMENT && state->has_first) {
		pkt->tuple.sport = state->sport;
		pkt->tuple.dport = state->dport;
		pkt->l4 = state->l4;
	}
	pkt->fragmented_bytes = state->l4_bytes <= 0xffff ? state->l4_bytes : 0;
	__sync_fetch_and_add(&state->passed_bytes, part->end - part->begin);
	if (state->l4_bytes && state->passed_bytes >= state->l4_bytes)
		bpf_map_delete_elem(&fragments, key); /* the next with this id is another */
	return MK_PARSED;
}

/* Of a packet of which something is known already. */
static __always_inline int fragment_add(struct mk_fragment *state,
					const struct mk_fragment_key *key, struct packet *pkt,
					const struct fragment_part *part)
{
	int was_known = fragment_is_known(state);

	if (pkt->fragment == MK_FIRST_FRAGMENT && !state->has_first) {
		state->sport = pkt->tuple.sport;
		state->dport = pkt->tuple.dport;
		state->l4 = pkt->l4 == MK_L4_ICMP_ERROR ? MK_L4_OTHER : pkt->l4;
		state->has_first = 1;
	}
	if (part->is_last && !state->l4_bytes)
		state->l4_bytes = part->end;
	if (was_known)
		return fragment_pass(state, key, pkt, part);
	if (fragment_is_known(state))
		return MK_FRAGMENT_RELEASES;
	return state->no_room ? fragment_pass(state, key, pkt, part) : MK_FRAGMENT_WAITS;
}

static __always_inline int fragment_note(struct packet *pkt, const struct mk_fragment_key *key,
					 const struct fragment_part *part)
{
	struct mk_fragment begun = { .begun_ns = bpf_ktime_get_ns() };
	struct mk_fragment *state = fragment_find(key, pkt, begun.begun_ns);

	if (!state && fragment_begin(key, pkt, part, &begun) == 0)
		return fragment_is_known(&begun) ? MK_PARSED : MK_FRAGMENT_WAITS;
	if (!state)
		state = bpf_map_lookup_elem(&fragments, key);
	return state ? fragment_add(state, key, pkt, part) : MK_PARSED;
}

static __always_inline int has_ports(__u8 proto)
{
	return proto == IPPROTO_TCP || proto == IPPROTO_UDP || proto == IPPROTO_SCTP ||
	       proto == IPPROTO_ICMP;
}

/* After packet_read(), of a sender that may send it: a later fragment gets the ports of its first, a
 * first one of SCTP its packet's length. Returns MK_PARSED, or what has to happen before it can be
 * translated, for fragment_next(). */
static __always_inline int fragment_gather(struct __sk_buff *skb, struct packet *pkt, __u8 hook)
{
	struct mk_fragment_key key;
	struct fragment_part part;
	struct iphdr *ip;
	int ret;

	if (pkt->fragment == MK_WHOLE || !has_ports(pkt->tuple.proto))
		return MK_PARSED;
	ip = packet_at(skb, MK_L3_OFF, sizeof(*ip));
	if (!ip)
		return MK_PARSED;
	fragment_key(&key, &pkt->tuple, ip->id, hook);
	fragment_part(&part, ip);
	ret = fragment_note(pkt, &key, &part);
	return ret == MK_FRAGMENT_WAITS && skb->len > MK_HELD_BYTES ? MK_PARSED : ret;
}

static __always_inline int packet_parse(struct __sk_buff *skb, struct packet *pkt, __u8 hook)
{
	int ret = packet_read(skb, pkt);

	return ret == MK_PARSED ? fragment_gather(skb, pkt, hook) : ret;
}

static __always_inline int fragment_next(struct __sk_buff *skb, struct chain_ctx *ctx,
					 const struct packet *pkt, int gathered)
{
	return chain_next(skb, ctx, pkt,
			  gathered == MK_FRAGMENT_WAITS ? MK_PROG_HOLD : MK_PROG_RELEASE);
}

#endif
