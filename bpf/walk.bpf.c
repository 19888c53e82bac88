// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bpf/walk.bpf.c - reads a table of sessions for the agent's sweep, from the kernel's own buckets and
 * entries (linux/kernel/bpf/hashtab.c), whose layout libbpf takes from the kernel's BTF. An object of its
 * own, which no packet meets: where it cannot be loaded, the agent reads by system calls.
 *
 * Run by BPF_PROG_TEST_RUN with `repeat`: each run reads the next few buckets inside one RCU read section,
 * and between two the kernel may do something else. First the links, of all chains one step and then the
 * next, so that the processor waits for several of them at once, then the entries.
 *
 * Nobody is kept from changing the chains meanwhile. As the kernel's own lookup without a lock does, a run
 * sees by the end of a chain, which says whose end it is, whether an entry that was removed and used again
 * has led it astray; and an entry's hash says of which bucket it is. If something does not fit, the run
 * counts for nothing and the next one begins there again. So an entry that stays is always seen, now and
 * then twice. One that is removed and used again just then may be seen with its key and another's value:
 * whoever acts on an entry reads it again by its key. */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "monokube/walk.h"

/* ---- the kernel's, as far as it is needed ----------------------------------------------------- */

#define OF_KERNEL __attribute__((preserve_access_index))

struct hlist_nulls_node {
	struct hlist_nulls_node *next;
} OF_KERNEL;

struct hlist_nulls_head {
	struct hlist_nulls_node *first;
} OF_KERNEL;

struct bucket {
	struct hlist_nulls_head head;
} OF_KERNEL;

struct htab_elem {
	struct hlist_nulls_node hash_node;
	__u32 hash;
} OF_KERNEL;

struct bpf_htab {
	struct bucket *buckets;
	__u32 n_buckets;
} OF_KERNEL;

#define BUCKET_BYTES_MAX 64 /* it has 16, more with a lock that sleeps or is watched */
#define HEAD_WORDS	 (MK_WALK_BUCKETS * BUCKET_BYTES_MAX / sizeof(__u64)) /* a power of two */

/* ---- tables ----------------------------------------------------------------------------------- */

#define TABLE(table_name, table_type, entries, flags) \
	struct {                                      \
		__uint(type, table_type);             \
		__uint(max_entries, entries);         \
		__uint(map_flags, flags);             \
		__type(key, struct mk_tuple);         \
		__type(value, struct mk_session);     \
	} table_name SEC(".maps")

/* The agent puts the node's tables in their place. */
TABLE(table_0, BPF_MAP_TYPE_HASH, 1, BPF_F_NO_PREALLOC);
TABLE(table_1, BPF_MAP_TYPE_HASH, 1, BPF_F_NO_PREALLOC);
TABLE(table_2, BPF_MAP_TYPE_HASH, 1, BPF_F_NO_PREALLOC);
TABLE(table_3, BPF_MAP_TYPE_HASH, 1, BPF_F_NO_PREALLOC);
TABLE(trial_hash, BPF_MAP_TYPE_HASH, 256, BPF_F_NO_PREALLOC);
TABLE(trial_lru, BPF_MAP_TYPE_LRU_HASH, 256, 0);

/* What a run has found. Addresses of the kernel's, so not where the agent sees it; counts are volatile,
 * or the verifier would follow every value they may have. */
struct found {
	volatile __u64 buckets;
	__u64 heads[HEAD_WORDS];
	volatile __u64 count;
	__u64 entry[2 * MK_WALK_CHAINED]; /* its hash_node */
	__u64 bucket[2 * MK_WALK_CHAINED]; /* of that entry */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct found);
} found_map SEC(".maps");

struct mk_walk shared;

static __always_inline struct found *find(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&found_map, &zero);
}

static __always_inline void look_at(struct found *found, const struct bpf_htab *table)
{
	found->buckets = (__u64)table->buckets;
	shared.bucket_count = table->n_buckets;
}

static __always_inline void look_at_slot(struct found *found, __u32 slot)
{
	if (slot == 0)
		look_at(found, (struct bpf_htab *)&table_0);
	else if (slot == 1)
		look_at(found, (struct bpf_htab *)&table_1);
	else if (slot == 2)
		look_at(found, (struct bpf_htab *)&table_2);
	else if (slot == 3)
		look_at(found, (struct bpf_htab *)&table_3);
	else if (slot == MK_WALK_TRIAL_HASH)
		look_at(found, (struct bpf_htab *)&trial_hash);
	else
		look_at(found, (struct bpf_htab *)&trial_lru);
}

/* ---- links ------------------------------------------------------------------------------------ */

/* In 64 bits: of a product of 32, verifiers of Linux 6.1 and before know nothing. */
static __always_inline long read_heads(struct found *found, __u64 first, __u64 width)
{
	__u64 size = bpf_core_type_size(struct bucket), bytes = width * size;
	__u64 from = found->buckets + first * size + bpf_core_field_offset(struct bucket, head);

	if (bytes > sizeof(found->heads))
		return -1;
	return bpf_probe_read_kernel(found->heads, bytes, (void *)from);
}

/* A link leads to an entry or is an end, which says of which bucket. By arithmetic alone: of a branch in a
 * loop the processor would guess wrong, and the verifier follow both sides in every turn. Returns 0 unless
 * it is the end of another bucket's chain. */
static __always_inline __u64 follow(struct found *found, __u64 link, __u64 bucket)
{
	__u64 at = found->count & (2 * MK_WALK_CHAINED - 1), is_end = link & 1;

	found->entry[at] = link;
	found->bucket[at] = bucket;
	found->count = at + (is_end ^ 1);
	return (link >> 1 ^ bucket) & -is_end;
}

static __always_inline __u64 follow_heads(struct found *found, __u64 first, __u32 width)
{
	__u32 words = bpf_core_type_size(struct bucket) / sizeof(__u64);
	__u64 astray = 0;

	for (__u32 i = 0; i < MK_WALK_BUCKETS && i < width; i++)
		astray |= follow(found, found->heads[(i * words) & (HEAD_WORDS - 1)], first + i);
	return astray;
}

/* Those that it finds on its way come after those that are there. */
static __always_inline __u64 follow_chains(struct found *found)
{
	__u64 astray = 0, next = 0;

	for (__u32 i = 0; i < MK_WALK_CHAINED && i < found->count; i++) {
		__u64 link = found->entry[i] + bpf_core_field_offset(struct hlist_nulls_node, next);

		astray |= bpf_probe_read_kernel(&next, sizeof(next), (void *)link);
		astray |= follow(found, next, found->bucket[i]);
	}
	return astray;
}

/* Global, as the next one: the verifier looks at it once, and not after each end of the loops before.
 * Returns 0 if all chains are known. */
__noinline int read_links(__u32 first, __u32 width)
{
	struct found *found = find();

	if (!found || width > MK_WALK_BUCKETS)
		return -1;
	found->count = 0;
	if (read_heads(found, first, width) || follow_heads(found, first, width) ||
	    follow_chains(found))
		return -1;
	return found->count < MK_WALK_CHAINED ? 0 : -1;
}

/* ---- entries ---------------------------------------------------------------------------------- */

static __always_inline __u64 read_entry(struct mk_walk_entry *to, __u64 entry, __u64 bucket)
{
	__u64 from = entry + bpf_core_field_offset(struct htab_elem, hash) -
		     bpf_core_field_offset(struct htab_elem, hash_node);
	__u64 astray = bpf_probe_read_kernel(to, sizeof(*to), (void *)from);

	return astray | ((to->hash & (shared.bucket_count - 1)) ^ bucket);
}

/* Returns 0 if all are of the buckets in whose chains they were. */
__noinline int read_entries(void)
{
	struct found *found = find();
	__u32 first = shared.count;
	__u64 astray = 0;

	if (!found)
		return -1;
	for (__u32 i = 0; i < MK_WALK_CHAINED && i < found->count; i++) {
		__u32 at = (first + i) & (MK_WALK_ENTRIES - 1);

		astray |= read_entry(&shared.entries[at], found->entry[i], found->bucket[i]);
	}
	return astray ? -1 : 0;
}

/* ---- a run ------------------------------------------------------------------------------------ */

static __always_inline __u32 width_of_run(void)
{
	__u32 width = shared.at_once;

	if (width == 0 || width > MK_WALK_BUCKETS)
		width = MK_WALK_BUCKETS;
	return width < shared.bucket_count ? width : shared.bucket_count;
}

static __always_inline void begin_again(__u32 width)
{
	if (width == 1)
		shared.failures++;
	shared.at_once = width > 1 ? width / 2 : 1;
}

static __always_inline void go_on(__u32 count, __u32 width)
{
	shared.count += count;
	shared.bucket += width;
	shared.at_once = 0;
	shared.failures = 0;
}

static __always_inline int is_enough(void)
{
	return shared.bucket >= shared.bucket_count || shared.count >= shared.wanted ||
	       shared.count > MK_WALK_ENTRIES - MK_WALK_CHAINED;
}

SEC("tc")
int walk(struct __sk_buff *skb __attribute__((unused)))
{
	struct found *found = find();
	__u32 width;

	if (!found)
		return 0;
	look_at_slot(found, shared.slot);
	if (is_enough())
		return 0;
	width = width_of_run();
	if (read_links(shared.bucket, width) || read_entries())
		begin_again(width);
	else
		go_on(found->count, width);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
