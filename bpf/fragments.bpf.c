// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bpf/fragments.bpf.c - fragments out of order (fragment.h). `hold` stores a fragment that has to
 * wait in map `held`. `release` sends the held fragments, and the one that they waited for, back to
 * the devices that they came in by. A frame without a free slot passes without waiting, and so do
 * the others of its packet. So a flood of fragments takes no more memory, and packets that need no
 * translation get through. */
#include "fragment.h"

/* The host's own packets leave by the uplink's egress; all other hooks are ingress. */
static __always_inline __u64 direction_of(__u8 hook)
{
	return hook == MK_HOOK_UPLINK_EGRESS ? 0 : BPF_F_INGRESS;
}

/* Set *@key. Returns 0, or -1 if @pkt is no fragment. */
static __always_inline int key_of(struct __sk_buff *skb, const struct packet *pkt, __u8 hook,
				  struct mk_fragment_key *key)
{
	struct fragment_part part;

	if (fragment_read(skb, &part))
		return -1;
	fragment_key(key, &pkt->tuple, part.id, fragment_hook(skb, hook));
	return 0;
}

static __always_inline int key_eq(const struct mk_fragment_key *a, const struct mk_fragment_key *b)
{
	return mk_addr_eq(&a->saddr, &b->saddr) && mk_addr_eq(&a->daddr, &b->daddr) &&
	       a->id == b->id && a->proto == b->proto && a->hook == b->hook;
}

/* Return the @nth slot of those that the fragments of a packet may use. */
static __always_inline struct mk_held *slot_at(const struct mk_fragment_key *key, __u32 nth)
{
	__u32 hash = addr_hash(&key->saddr) ^ addr_hash(&key->daddr) * 0x85ebca6b, slot;

	hash ^= ((__u32)key->id << 16 | (__u32)key->proto << 8 | key->hook) * 0xc2b2ae35;
	hash ^= hash >> 16;
	hash *= 0x9e3779b1;
	slot = ((hash >> 16) + nth) & (MK_HELD_SLOTS - 1);
	return find_number(&held, slot);
}

/* Note that a first fragment is about to come in again. */
static __always_inline void mark_released(const struct mk_fragment_key *key)
{
	struct mk_fragment *state = bpf_map_lookup_elem(&fragments, key);

	if (state)
		state->released_ns = bpf_ktime_get_ns();
}

/* ---- hold ------------------------------------------------------------------------------------ */

static __always_inline int slot_claim(struct mk_held *slot, const struct mk_fragment_key *key,
				      __u64 begun_ns, __u64 now_ns)
{
	int claimed = 0;

	bpf_spin_lock(&slot->lock);
	if (slot->since_ns + MK_HELD_NS < now_ns) {
		slot->since_ns = now_ns;
		slot->of = *key;
		slot->begun_ns = begun_ns;
		slot->bytes = 0;
		claimed = 1;
	}
	bpf_spin_unlock(&slot->lock);
	return claimed;
}

/* Copy the frame into the slot. Returns 0, or -1 if the frame does not fit. */
static __always_inline int slot_fill(struct __sk_buff *skb, struct mk_held *slot, int is_first)
{
	__u32 bytes = skb->len;

	slot->ifindex = skb->ifindex;
	slot->is_first = is_first;
	asm volatile("" : "+r"(bytes)); /* one register, so that the verifier keeps its bounds */
	if (bytes < MK_L3_OFF || bytes > MK_HELD_BYTES)
		return -1;
	if (bpf_skb_load_bytes(skb, 0, slot->data, bytes))
		return -1;
	bpf_spin_lock(&slot->lock);
	slot->bytes = skb->len;
	bpf_spin_unlock(&slot->lock);
	return 0;
}

static __always_inline void slot_free(struct mk_held *slot)
{
	bpf_spin_lock(&slot->lock);
	slot->since_ns = 0;
	slot->bytes = 0;
	bpf_spin_unlock(&slot->lock);
}

/* Store the fragment. Returns its slot, or NULL if there is no free slot. */
static __always_inline struct mk_held *keep(struct __sk_buff *skb,
					    const struct mk_fragment_key *key, int is_first)
{
	struct mk_fragment *state = bpf_map_lookup_elem(&fragments, key);
	__u64 now_ns = bpf_ktime_get_ns();
	struct mk_held *slot = NULL;
	int claimed = 0;

	if (!state)
		return NULL;
	for (__u32 nth = 0; nth < MK_HELD_OF_PACKET && !claimed; nth++) {
		slot = slot_at(key, nth);
		if (!slot)
			return NULL;
		claimed = slot_claim(slot, key, state->begun_ns, now_ns);
	}
	if (!claimed)
		return NULL;
	if (slot_fill(skb, slot, is_first) == 0)
		return slot;
	slot_free(slot);
	return NULL;
}

/* Send the fragment back to its device, and let all fragments of its packet pass from now on. */
static __always_inline void pass_all(struct __sk_buff *skb, const struct mk_fragment_key *key,
				     int is_first)
{
	struct mk_fragment none = { .begun_ns = bpf_ktime_get_ns(), .not_held = 1 };
	struct mk_fragment *state = bpf_map_lookup_elem(&fragments, key);

	if (state)
		state->not_held = 1;
	else
		bpf_map_update_elem(&fragments, key, &none, BPF_ANY);
	if (is_first)
		mark_released(key);
	bpf_clone_redirect(skb, skb->ifindex, direction_of(key->hook));
}

SEC("tc")
int hold(struct __sk_buff *skb)
{
	struct mk_fragment_key key;
	struct mk_fragment *state;
	struct mk_held *slot;
	struct chain_ctx ctx;
	struct packet pkt;
	int ret = chain_packet(skb, &ctx, &pkt);

	if (ret != MK_GO_ON || key_of(skb, &pkt, ctx.hook, &key))
		return drop(skb, ctx.hook, MK_DROP_TRUNCATED, &pkt.tuple);
	slot = keep(skb, &key, pkt.fragment == MK_FIRST_FRAGMENT);
	if (!slot) {
		pass_all(skb, &key, pkt.fragment == MK_FIRST_FRAGMENT);
		return TC_ACT_STOLEN;
	}
	state = bpf_map_lookup_elem(&fragments, &key);
	/* the fragment that it waits for may have come on another CPU meanwhile, and missed this
	 * one */
	if (!state || !fragment_is_known(state))
		return TC_ACT_STOLEN;
	slot_free(slot);
	bpf_tail_call(skb, &chain, MK_PROG_RELEASE);
	return drop(skb, ctx.hook, MK_DROP_CHAIN_BROKEN, &pkt.tuple);
}

/* ---- release --------------------------------------------------------------------------------- */

/* A fragment taken from its slot by this program. */
struct taken {
	__u32 bytes; /* 0: none */
	__u32 ifindex;
	int is_first;
};

static __always_inline void slot_take(struct mk_held *slot, const struct mk_fragment_key *key,
				      __u64 begun_ns, __u64 now_ns, struct taken *taken)
{
	bpf_spin_lock(&slot->lock);
	taken->bytes = 0;
	if (slot->bytes && is_within(slot->since_ns, MK_HELD_NS, now_ns) &&
	    slot->begun_ns == begun_ns && key_eq(&slot->of, key)) {
		taken->bytes = slot->bytes;
		taken->ifindex = slot->ifindex;
		taken->is_first = slot->is_first;
		slot->bytes = 0;
	}
	bpf_spin_unlock(&slot->lock);
}

/* Replace the packet by the one in @slot. Returns 0, or -1. */
static __always_inline int become(struct __sk_buff *skb, const struct mk_held *slot, __u32 bytes)
{
	/* the checksum of this frame has not been verified, even if the other frame's has */
	bpf_csum_level(skb, BPF_CSUM_LEVEL_RESET);
	if (bpf_skb_change_tail(skb, bytes, 0))
		return -1;
	asm volatile("" : "+r"(bytes));
	if (bytes < MK_L3_OFF || bytes > MK_HELD_BYTES)
		return -1;
	return bpf_skb_store_bytes(skb, 0, slot->data, bytes, BPF_F_RECOMPUTE_CSUM) ? -1 : 0;
}

/* Send the slot's fragment back to its device. Returns 0, or -1 if the fragment is lost. */
static __always_inline int release_slot(struct __sk_buff *skb, struct mk_held *slot,
					const struct mk_fragment_key *key, __u64 begun_ns)
{
	struct taken taken = { 0 };
	int ret;

	slot_take(slot, key, begun_ns, bpf_ktime_get_ns(), &taken);
	if (!taken.bytes)
		return 0;
	ret = become(skb, slot, taken.bytes);
	slot_free(slot);
	if (ret)
		return -1;
	if (taken.is_first)
		mark_released(key);
	bpf_clone_redirect(skb, taken.ifindex, direction_of(key->hook));
	return 0;
}

SEC("tc")
int release(struct __sk_buff *skb)
{
	struct mk_fragment_key key;
	struct mk_fragment *state;
	struct chain_ctx ctx;
	struct packet pkt;
	__u64 begun_ns;
	int ret = chain_packet(skb, &ctx, &pkt);

	if (ret != MK_GO_ON || key_of(skb, &pkt, ctx.hook, &key))
		return drop(skb, ctx.hook, MK_DROP_TRUNCATED, &pkt.tuple);
	state = bpf_map_lookup_elem(&fragments, &key);
	begun_ns = state ? state->begun_ns : 0;
	if (pkt.fragment == MK_FIRST_FRAGMENT)
		mark_released(&key);
	bpf_clone_redirect(skb, skb->ifindex, direction_of(ctx.hook));
	for (__u32 nth = 0; nth < MK_HELD_OF_PACKET; nth++) {
		struct mk_held *slot = slot_at(&key, nth);

		if (slot && release_slot(skb, slot, &key, begun_ns))
			drop(skb, ctx.hook, MK_DROP_REWRITE_FAILED, &pkt.tuple);
	}
	return TC_ACT_STOLEN;
}

char LICENSE[] __attribute__((weak)) SEC("license") = "Dual BSD/GPL";
