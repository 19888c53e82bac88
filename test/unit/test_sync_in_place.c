// SPDX-License-Identifier: Apache-2.0
/* Services to tables: no lookup may miss a frontend while it is being changed. */
#include <bpf/bpf.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "unit/sync_fixture.h"
#include "unit/unit.h"
#include "rows.h"

#define SERVICES 200

/* The keys of map frontends in the kernel's order: bucket by bucket, the latest first. */
static size_t walk_services(struct mk_frontend_key *keys, size_t room)
{
	size_t count = 0;

	while (count < room && row_next_key(tables.frontends.fd, count ? &keys[count - 1] : NULL,
					    &keys[count]) == 0)
		count++;
	return count;
}

static void apply_number(int number, const char *backends)
{
	char name[16], vip[16];

	snprintf(name, sizeof(name), "web-%d", number);
	snprintf(vip, sizeof(vip), "10.96.0.%d", number);
	apply_named(name, vip, backends);
}

/* A replaced entry moves to the front of its bucket. A concurrent lookup that walks the bucket
 * finds neither the old nor the new entry: a connection would be refused. */
START_TEST(test_frontends_change_in_place)
{
	static struct mk_frontend_key before[1024], after[1024];

	for (int i = 0; i < SERVICES; i++)
		apply_number(i, "23");
	ck_assert_uint_eq(walk_services(before, MK_ARRAY_SIZE(before)), 2 * SERVICES);
	for (int i = SERVICES - 1; i >= 0; i--) /* in the same order nothing would change */
		apply_number(i, "34");
	ck_assert_uint_eq(walk_services(after, MK_ARRAY_SIZE(after)), 2 * SERVICES);
	ck_assert_str_eq(backends_of("10.96.0.7"), "34");
	ck_assert_mem_eq(before, after, 2 * SERVICES * sizeof(before[0]));
}
END_TEST

UNIT_SUITE("sync in place")
{
	TCase *tc = unit_case(suite, "services", sync_setup, sync_teardown);

	tcase_add_test(tc, test_frontends_change_in_place);
}
