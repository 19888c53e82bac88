// SPDX-License-Identifier: Apache-2.0
/* The Internet checksum of a datagram whose addresses and ports change (bpf/checksum.h),
 * compared with sums over the whole datagram; and the kind of a field, derived from the
 * kernel's change of it. */
#include <arpa/inet.h>
#include <stdlib.h>

#include "../bpf/checksum.h"
#include "base/cleanup.h"
#include "unit/unit.h"

/* Pseudo header and a UDP header with a few bytes of data, as 16-bit words. */
union datagram {
	struct {
		__be32 saddr, daddr;
		__be16 proto, length;
		__be16 sport, dport, payload[3];
	};
	__be32 addrs[2];
	uint16_t word[11];
};
#define PSEUDO_WORDS 6
#define ALL_WORDS    11

static uint16_t sum_of(const union datagram *datagram, size_t words)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < words; i++)
		sum += datagram->word[i];
	return (uint16_t)~csum_fold(sum);
}

static uint16_t random_word(void)
{
	return (uint16_t)(random() >> 8);
}

static union datagram any(void)
{
	union datagram datagram;

	for (size_t i = 0; i < ALL_WORDS; i++)
		datagram.word[i] = random_word();
	datagram.proto = htons(IPPROTO_UDP);
	datagram.length = htons(14);
	return datagram;
}

static __u32 diff_of_addrs(const union datagram *from, const union datagram *to)
{
	return csum_diff(from->addrs, to->addrs, 2);
}

static __u32 diff_of_ports(const union datagram *from, const union datagram *to)
{
	const __be32 before = from->sport | (__be32)from->dport << 16;
	const __be32 after = to->sport | (__be32)to->dport << 16;

	return csum_diff(&before, &after, 1);
}

/* net/core/utils.c: inet_proto_csum_replace_by_diff(), applied only to the pseudo header's sum. */
static __sum16 added(__sum16 field, __u32 diff)
{
	__sum16 sum = (__sum16)~field;

	csum_add_diff(&sum, diff);
	return (__sum16)~sum;
}

static bool is_same_sum(uint16_t a, uint16_t b)
{
	return csum_is_zero((uint64_t)a + (uint16_t)~b);
}

/* Kinds of changes of the addresses: none, any, only their order, one that the sum
 * does not show. */
static const struct {
	const char *name;
	bool any;
	__be32 saddr, daddr;
	bool is_told;
} addresses[] = {
	{ "any", .any = true, .is_told = true },
	{ "one bit", .saddr = 1, .is_told = true },
	{ "all bits", .saddr = 0xffffffff, .is_told = false },
	{ "none", .is_told = false },
	{ "half a sum", .saddr = 0x7fff, .is_told = true },
	{ "a sum", .saddr = 0xffff0000, .daddr = 0xffff, .is_told = false },
};

static union datagram changed(const union datagram *from, int row)
{
	union datagram to = any();

	for (int i = 0; i < 3; i++)
		to.payload[i] = from->payload[i];
	if (addresses[row].any)
		return to;
	to.saddr = addresses[row].saddr;
	to.daddr = addresses[row].daddr;
	return to;
}

static union datagram any_for(int row)
{
	union datagram from = any();

	if (!addresses[row].any)
		from.saddr = from.daddr = 0;
	return from;
}

START_TEST(test_difference)
{
	for (int i = 0; i < 20000; i++) {
		union datagram from = any_for(_i), to = changed(&from, _i);
		__sum16 check = (__sum16)~sum_of(&from, ALL_WORDS);

		csum_add_diff(&check, diff_of_addrs(&from, &to));
		csum_add_diff(&check, diff_of_ports(&from, &to));
		ck_assert_msg(is_same_sum((uint16_t)~check, sum_of(&to, ALL_WORDS)), "%s",
			      addresses[_i].name);
	}
}
END_TEST

START_TEST(test_kind)
{
	for (int i = 0; i < 20000; i++) {
		union datagram from = any_for(_i), to = changed(&from, _i);
		__u32 diff = diff_of_addrs(&from, &to);
		__sum16 whole = (__sum16)~sum_of(&from, ALL_WORDS), after = whole;
		__sum16 partial = sum_of(&from, PSEUDO_WORDS);

		ck_assert_msg(csum_is_zero(diff) == !addresses[_i].is_told || addresses[_i].any,
			      "%s", addresses[_i].name);
		if (csum_is_zero(diff))
			continue;
		csum_add_diff(&after, diff);
		ck_assert_msg(!csum_was_partial(whole, after, diff), "%s", addresses[_i].name);
		ck_assert_msg(csum_was_partial(partial, added(partial, diff), diff), "%s",
			      addresses[_i].name);
		ck_assert(is_same_sum(added(partial, diff), sum_of(&to, PSEUDO_WORDS)));
	}
}
END_TEST

/* A field may have either form of 0, before or after. */
START_TEST(test_forms_of_zero)
{
	for (__u32 diff = 1; diff < 0xffff; diff++) {
		const __sum16 up = (__sum16)diff, down = (__sum16)~diff;

		ck_assert(!csum_is_zero(diff));
		ck_assert(csum_was_partial(0, up, diff) && csum_was_partial(0xffff, up, diff));
		ck_assert(csum_was_partial(down, 0, diff) && csum_was_partial(down, 0xffff, diff));
		ck_assert(!csum_was_partial(0, down, diff) &&
			  !csum_was_partial(0xffff, down, diff));
		ck_assert(!csum_was_partial(up, 0, diff) && !csum_was_partial(up, 0xffff, diff));
	}
	ck_assert(csum_is_zero(0) && csum_is_zero(0xffff) && csum_is_zero(0xffffffff));
	ck_assert(csum_is_zero(0x1fffffffe) && !csum_is_zero(0x1ffffffff));
}
END_TEST

UNIT_SUITE("checksum")
{
	TCase *sums = unit_case(suite, "sums", NULL, NULL);

	srandom(1);
	tcase_add_loop_test(sums, test_difference, 0, MK_ARRAY_SIZE(addresses));
	tcase_add_loop_test(sums, test_kind, 0, MK_ARRAY_SIZE(addresses));
	tcase_add_test(sums, test_forms_of_zero);
}
