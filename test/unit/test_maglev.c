// SPDX-License-Identifier: Apache-2.0
/* The consistent choice: equal shares, small disruption, the same on every node. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "service/service.h"
#include "unit/unit.h"

static const struct {
	size_t count;
	unsigned moved_max_percent; /* of slots that did not belong to the backend that left */
} sizes[] = {
	/* measured: 0, 0.3, 2.6, 4.4, 2.4, 0.5; a modulo would move nearly all */
	{ 2, 0 }, { 3, 1 }, { 10, 4 }, { 50, 6 }, { 200, 4 }, { 1000, 1 },
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

START_TEST(test_shares)
{
	size_t count = sizes[_i].count;
	cleanup_free struct mk_service_backend *backends = new_backends(count);
	cleanup_free unsigned *shares = calloc(count, sizeof(*shares));
	struct mk_maglev table;

	ck_assert_ptr_nonnull(shares);
	mk_maglev_fill(&table, backends, count);
	for (size_t slot = 0; slot < MK_MAGLEV_SLOTS; slot++) {
		ck_assert_uint_lt(table.backend_index[slot], count);
		shares[table.backend_index[slot]]++;
	}
	for (size_t i = 0; i < count; i++) {
		ck_assert_uint_ge(shares[i], MK_MAGLEV_SLOTS / count);
		ck_assert_uint_le(shares[i], MK_MAGLEV_SLOTS / count + 1);
	}
}
END_TEST

/* Slots that change hands though their backend is still there, when number @gone leaves. */
static unsigned moved_without(const struct mk_service_backend *backends, size_t count, size_t gone)
{
	cleanup_free struct mk_service_backend *rest = new_backends(count);
	struct mk_maglev before, after;
	unsigned moved = 0;

	memcpy(rest, backends, gone * sizeof(*rest));
	memcpy(rest + gone, backends + gone + 1, (count - 1 - gone) * sizeof(*rest));
	mk_maglev_fill(&before, backends, count);
	mk_maglev_fill(&after, rest, count - 1);
	for (size_t slot = 0; slot < MK_MAGLEV_SLOTS; slot++) {
		const struct mk_service_backend *was = &backends[before.backend_index[slot]];
		const struct mk_service_backend *is = &rest[after.backend_index[slot]];

		if (before.backend_index[slot] != gone && !mk_ip_equal(&was->ip, &is->ip))
			moved++;
	}
	return moved;
}

START_TEST(test_one_leaves)
{
	size_t count = sizes[_i].count, rounds = count < 20 ? count : 20;
	cleanup_free struct mk_service_backend *backends = new_backends(count);
	unsigned moved = 0;

	for (size_t i = 0; i < rounds; i++)
		moved += moved_without(backends, count, i * count / rounds);
	ck_assert_msg(moved * 100 <= sizes[_i].moved_max_percent * MK_MAGLEV_SLOTS * rounds,
		      "%zu backends: %.1f %% of the slots moved, expected at most %u", count,
		      100.0 * moved / (MK_MAGLEV_SLOTS * (double)rounds),
		      sizes[_i].moved_max_percent);
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
	cleanup_free struct mk_service_backend *backends = new_backends(count);
	cleanup_free struct mk_service_backend *shuffled = new_backends(count);
	struct mk_maglev one, other;

	srand(3);
	mk_maglev_fill(&one, backends, count);
	for (int round = 0; round < 5; round++) {
		shuffle(shuffled, count);
		mk_maglev_fill(&other, shuffled, count);
		for (size_t slot = 0; slot < MK_MAGLEV_SLOTS; slot++)
			ck_assert(mk_ip_equal(&backends[one.backend_index[slot]].ip,
					      &shuffled[other.backend_index[slot]].ip));
	}
}
END_TEST

/* The choice of a mixed cluster: a table filled by one version has to be that of the next. */
START_TEST(test_stays_as_it_is)
{
	static const uint16_t known[16] = { 1, 2, 0, 1, 2, 0, 1, 2, 2, 3, 0, 3, 3, 1, 4, 0 };
	struct mk_service_backend backends[5];
	struct mk_maglev table;

	fill_backends(backends, 5);
	mk_maglev_fill(&table, backends, 5);
	for (size_t slot = 0; slot < MK_ARRAY_SIZE(known); slot++)
		ck_assert_uint_eq(table.backend_index[slot], known[slot]);
}
END_TEST

START_TEST(test_extremes)
{
	cleanup_free struct mk_service_backend *backends = new_backends(65535);
	cleanup_free struct mk_service_backend *reversed = new_backends(65535);
	struct mk_maglev table, other;
	unsigned used = 0;
	bool seen[65535] = { false };

	mk_maglev_fill(&table, backends, 0);
	ck_assert_uint_eq(table.backend_index[0], 0);
	mk_maglev_fill(&table, backends, 1);
	for (size_t slot = 0; slot < MK_MAGLEV_SLOTS; slot++)
		ck_assert_uint_eq(table.backend_index[slot], 0);
	mk_maglev_fill(&table, backends, 65535); /* more than slots: one each, as far as they go */
	for (size_t slot = 0; slot < MK_MAGLEV_SLOTS; slot++) {
		used += !seen[table.backend_index[slot]];
		seen[table.backend_index[slot]] = true;
	}
	ck_assert_uint_eq(used, MK_MAGLEV_SLOTS);
	for (size_t i = 0; i < 65535; i++)
		reversed[i] = backends[65534 - i];
	mk_maglev_fill(&other, reversed, 65535);
	for (size_t slot = 0; slot < MK_MAGLEV_SLOTS; slot++)
		ck_assert_uint_eq(other.backend_index[slot], 65534u - table.backend_index[slot]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("maglev");
	TCase *tc = tcase_create("maglev");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, test_shares, 0, MK_ARRAY_SIZE(sizes));
	tcase_add_loop_test(tc, test_one_leaves, 0, MK_ARRAY_SIZE(sizes));
	tcase_add_loop_test(tc, test_any_order, 0, MK_ARRAY_SIZE(sizes));
	tcase_add_test(tc, test_stays_as_it_is);
	tcase_add_test(tc, test_extremes);
	suite_add_tcase(suite, tc);
	return unit_run(suite);
}
