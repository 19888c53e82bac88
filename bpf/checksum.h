/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/checksum.h - the Internet checksum (RFC 1071) and its incremental update (RFC 1624). These
 * functions are pure arithmetic, in any byte order. A "difference" is what a change adds to the
 * sum, in 32 bits. Zero has two forms in ones' complement. */
#ifndef MK_BPF_CHECKSUM_H
#define MK_BPF_CHECKSUM_H

#include <linux/types.h>

static __always_inline __sum16 csum_fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__sum16)~sum;
}

static __always_inline __u32 csum_sum(__u32 a, __u32 b)
{
	__u64 sum = (__u64)a + b;

	return (__u32)((sum & 0xffffffff) + (sum >> 32));
}

static __always_inline void csum_add_diff(__sum16 *check, __u32 diff)
{
	__u64 sum = (__u64)(__u16) ~*check + diff;

	sum = (sum & 0xffffffff) + (sum >> 32);
	*check = csum_fold((__u32)sum);
}

/* The difference of a checksum when @from becomes @to (RFC 1624: -m + m'); 0 if they are equal.
 * This is plain arithmetic instead of bpf_csum_diff(): calling a helper costs as much as the rest
 * of a translation. */
static __always_inline __u32 csum_diff(const __be32 *from, const __be32 *to, int words)
{
	__u64 sum = 0;
	int is_same = 1;

	for (int i = 0; i < words; i++) {
		is_same &= from[i] == to[i];
		sum += (__u64)(__u32)~from[i] + to[i];
	}
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	return is_same ? 0 : (__u32)sum;
}

static __always_inline int csum_is_zero(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (__u16)csum_fold((__u32)((sum & 0xffff) + (sum >> 16)));
	return sum == 0 || sum == 0xffff;
}

/* Was a checksum field partial (CHECKSUM_PARTIAL)? The field of a partial checksum holds the sum of
 * the pseudo header, and the kernel completes it later.
 *
 * The field held @before. bpf_l4_csum_replace() with BPF_F_PSEUDO_HDR has updated it for a change
 * of the addresses by @diff, and now it holds @after. The kernel adds @diff to a partial sum
 * (net/core/utils.c: inet_proto_csum_replace_by_diff()). It subtracts @diff from a complete
 * checksum, which is the complement of a sum. @diff must not be 0: the two cases would look the
 * same. */
static __always_inline int csum_was_partial(__sum16 before, __sum16 after, __u32 diff)
{
	return csum_is_zero((__u64)before + diff + (__u16)~after);
}

#endif
