// SPDX-License-Identifier: Apache-2.0
/* Consistent hashing: equal shares, small disruption, the same tables on every node. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "service/service.h"
#include "unit/unit.h"

/* When one of N backends leaves, only its slots should move. The Maglev paper (section 5.3) finds
 * few other moves with a hundred slots per backend, more with fewer slots. */
static const struct {
	uint32_t slots;
	size_t count;
	double moved_max_percent; /* of slots that did not belong to the backend that left */
} sizes[] = {
	/* measured, in this order: 0 0.3 1.3 2.6 4.4 3.6 2.4 0.5, 5.1 1.9, 0 0.1 0.2 0.5 0.6; a
	 * modulo would move nearly all */
	{ 1021, 2, 0 },	  { 1021, 3, 1 },   { 1021, 5, 3 },    { 1021, 10, 4 },	 { 1021, 50, 6 },
	{ 1021, 100, 6 }, { 1021, 200, 4 }, { 1021, 1000, 1 }, { 251, 10, 8 },	 { 8191, 100, 4 },
	{ 65521, 2, 0 },  { 65521, 5, 1 },  { 65521, 10, 1 },  { 65521, 50, 1 }, { 65521, 100, 2 },
};

static void fill_backends(struct mk_service_backend *backends, size_t count)
{
	for (size_t i = 0; i < count; i++)
		backends[i] = (struct mk_service_backend){
			.ip = { .family = AF_INET,
				.v4.s_addr = htonl(0x0af40000u + (uint32_t)(i / 200) * 256 +
						   i % 200 + 2) },
			.port = 8080,
		};
}

static struct mk_service_backend *new_backends(size_t count)
{
	struct mk_service_backend *backends = calloc(count + 1, sizeof(*backends));

	ck_assert_ptr_nonnull(backends);
	fill_backends(backends, count);
	return backends;
}

static uint16_t *new_table(uint32_t slots, const struct mk_service_backend *backends, size_t count)
{
	uint16_t *table = mk_maglev_new(slots, backends, count);

	ck_assert_ptr_nonnull(table);
	return table;
}

START_TEST(test_shares)
{
	size_t count = sizes[_i].count;
	uint32_t slots = sizes[_i].slots;
	cleanup_free struct mk_service_backend *backends = new_backends(count);
	cleanup_free unsigned *shares = calloc(count, sizeof(*shares));
	cleanup_free uint16_t *table = new_table(slots, backends, count);

	ck_assert_ptr_nonnull(shares);
	for (size_t slot = 0; slot < slots; slot++) {
		ck_assert_uint_lt(table[slot], count);
		shares[table[slot]]++;
	}
	for (size_t i = 0; i < count; i++) {
		ck_assert_uint_ge(shares[i], slots / count);
		ck_assert_uint_le(shares[i], slots / count + 1);
	}
}
END_TEST

/* Count the slots that move although their backend stays, when number @gone leaves. */
static unsigned moved_without(uint32_t slots, const struct mk_service_backend *backends,
			      size_t count, size_t gone)
{
	cleanup_free struct mk_service_backend *rest = new_backends(count);
	cleanup_free uint16_t *before = new_table(slots, backends, count), *after = NULL;
	unsigned moved = 0;

	memcpy(rest, backends, gone * sizeof(*rest));
	memcpy(rest + gone, backends + gone + 1, (count - 1 - gone) * sizeof(*rest));
	after = new_table(slots, rest, count - 1);
	for (size_t slot = 0; slot < slots; slot++) {
		const struct mk_service_backend *was = &backends[before[slot]];
		const struct mk_service_backend *is = &rest[after[slot]];

		if (before[slot] != gone && !mk_ip_equal(&was->ip, &is->ip))
			moved++;
	}
	return moved;
}

START_TEST(test_one_leaves)
{
	size_t count = sizes[_i].count, rounds = count < 20 ? count : 20;
	cleanup_free struct mk_service_backend *backends = new_backends(count);
	uint32_t slots = sizes[_i].slots;
	unsigned moved = 0;
	double percent;

	for (size_t i = 0; i < rounds; i++)
		moved += moved_without(slots, backends, count, i * count / rounds);
	percent = 100.0 * moved / (slots * (double)rounds);
	printf("%u slots: one of %zu backends leaves, %.2f %% of the others' slots move\n", slots,
	       count, percent);
	ck_assert_msg(percent <= sizes[_i].moved_max_percent,
		      "%u slots, %zu backends: %.2f %% moved, expected at most %.0f", slots, count,
		      percent, sizes[_i].moved_max_percent);
}
END_TEST

static void shuffle(struct mk_service_backend *backends, size_t count)
{
	for (size_t i = count - 1; i > 0; i--) {
		size_t other = (size_t)rand() % (i + 1);
		struct mk_service_backend kept = backends[i];

		backends[i] = backends[other];
		backends[other] = kept;
	}
}

START_TEST(test_any_order)
{
	size_t count = sizes[_i].count;
	uint32_t slots = sizes[_i].slots;
	cleanup_free struct mk_service_backend *backends = new_backends(count);
	cleanup_free struct mk_service_backend *shuffled = new_backends(count);
	cleanup_free uint16_t *one = new_table(slots, backends, count);

	srand(3);
	for (int round = 0; round < 3; round++) {
		cleanup_free uint16_t *other = NULL;

		shuffle(shuffled, count);
		other = new_table(slots, shuffled, count);
		for (size_t slot = 0; slot < slots; slot++)
			ck_assert(mk_ip_equal(&backends[one[slot]].ip, &shuffled[other[slot]].ip));
	}
}
END_TEST

/* In a mixed cluster every version must fill the same table. */
START_TEST(test_stays_as_it_is)
{
	static const uint16_t known[16] = { 1, 2, 0, 1, 2, 0, 1, 2, 2, 3, 0, 3, 3, 1, 4, 0 };
	struct mk_service_backend backends[5];
	cleanup_free uint16_t *table = NULL;

	fill_backends(backends, 5);
	table = new_table(MK_MAGLEV_SLOTS, backends, 5);
	for (size_t slot = 0; slot < MK_ARRAY_SIZE(known); slot++)
		ck_assert_uint_eq(table[slot], known[slot]);
}
END_TEST

START_TEST(test_none_and_one)
{
	cleanup_free struct mk_service_backend *backends = new_backends(1);
	cleanup_free uint16_t *none = new_table(MK_MAGLEV_SLOTS, backends, 0);
	cleanup_free uint16_t *one = new_table(MK_MAGLEV_SLOTS, backends, 1);

	ck_assert_uint_eq(mk_maglev_room(MK_MAGLEV_SLOTS), 1024);
	ck_assert_uint_eq(mk_maglev_room(MK_MAGLEV_SLOTS_MAX), 65536);
	for (size_t slot = 0; slot < mk_maglev_room(MK_MAGLEV_SLOTS); slot++)
		ck_assert_uint_eq(none[slot] + one[slot], 0);
}
END_TEST

/* With more backends than slots, each gets one slot while they last, whatever the order. */
START_TEST(test_too_many)
{
	cleanup_free struct mk_service_backend *backends = new_backends(65535);
	cleanup_free struct mk_service_backend *reversed = new_backends(65535);
	cleanup_free uint16_t *table = new_table(MK_MAGLEV_SLOTS, backends, 65535), *other = NULL;
	cleanup_free bool *seen = calloc(65535, sizeof(*seen));
	unsigned used = 0;

	for (size_t slot = 0; slot < MK_MAGLEV_SLOTS; slot++) {
		used += !seen[table[slot]];
		seen[table[slot]] = true;
	}
	ck_assert_uint_eq(used, MK_MAGLEV_SLOTS);
	for (size_t i = 0; i < 65535; i++)
		reversed[i] = backends[65534 - i];
	other = new_table(MK_MAGLEV_SLOTS, reversed, 65535);
	for (size_t slot = 0; slot < MK_MAGLEV_SLOTS; slot++)
		ck_assert_uint_eq(other[slot], 65534u - table[slot]);
}
END_TEST

UNIT_SUITE("maglev")
{
	TCase *tc = unit_case(suite, "maglev", NULL, NULL);

	tcase_add_loop_test(tc, test_shares, 0, MK_ARRAY_SIZE(sizes));
	tcase_add_loop_test(tc, test_one_leaves, 0, MK_ARRAY_SIZE(sizes));
	tcase_add_loop_test(tc, test_any_order, 0, MK_ARRAY_SIZE(sizes));
	tcase_add_test(tc, test_stays_as_it_is);
	tcase_add_test(tc, test_none_and_one);
	tcase_add_test(tc, test_too_many);
}
