// SPDX-License-Identifier: Apache-2.0
/* The quota of half-open sessions among the established ones, and its way to the programs. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <check.h>
#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "datapath/sessions/half_open_quota.h"
#include "datapath/sessions/sessions_internal.h"
#include "unit/datapath_fixture.h"
#include "rows.h"

static const struct {
	const char *name;
	uint32_t max_entries;
	uint64_t services, nat, half_open; /* entries, entries, sessions */
	uint64_t left;
} rows[] = {
	{ "empty", 524288, 0, 0, 0, 16384 },
	{ "some are half open", 524288, 20000, 5000, 12000, 4384 },
	{ "a flood has taken it", 524288, 40000, 0, 17000, 0 },
	{ "three quarters of one table", 524288, 393216, 0, 10, 16374 },
	{ "more than that", 524288, 393217, 0, 10, 0 },
	{ "of the other", 524288, 0, 500000, 10, 0 },
	{ "a small table", 1024, 0, 0, 0, 32 },
};

START_TEST(test_left)
{
	struct mk_session_counts counts = { .half_open = rows[_i].half_open };
	uint64_t left;

	counts.entries[0] = rows[_i].services;
	counts.entries[1] = counts.entries[3] = 1000000; /* of new ones: ignored */
	counts.entries[2] = rows[_i].nat;
	left = half_open_quota_left(rows[_i].max_entries, &counts);
	ck_assert_msg(left == rows[_i].left, "%s: %lu", rows[_i].name, left);
}
END_TEST

/* Return each CPU's quota; all are equal. */
static int64_t given(void)
{
	cleanup_close int fd = mk_pin_open(fx.bpf_dir, MK_PIN_MAPS, "half_open_quota", NULL);
	int cpus = libbpf_num_possible_cpus();
	int64_t room[cpus];
	__u32 zero = 0;

	ck_assert_int_eq(row_lookup(fd, &zero, room), 0);
	for (int i = 1; i < cpus; i++)
		ck_assert_int_eq(room[i], room[0]);
	return room[0];
}

/* Can this kernel take an entry out of a hash (Linux 5.14)? */
static bool can_take(void)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_HASH, NULL, 4, 4, 1, NULL), key = 0, value;
	bool can = row_take(fd, &key, &value) < 0 && errno == ENOENT;

	close(fd);
	return can;
}

START_TEST(test_given)
{
	struct mk_datapath *datapath = fx_loaded();
	uint32_t max_entries = mk_datapath_session_table(datapath, 0)->max_entries;
	struct mk_session_counts counts = { 0 };
	int64_t all = (int64_t)half_open_quota_left(max_entries, &counts);

	ck_assert_int_eq(given(), 0);
	fx_ok(mk_datapath_set_half_open_quota(datapath, &counts, &fx.err));
	ck_assert_int_eq(given(), can_take() ? all / sysconf(_SC_NPROCESSORS_ONLN) : 0);
	counts.half_open = (uint64_t)all;
	fx_ok(mk_datapath_set_half_open_quota(datapath, &counts, &fx.err));
	ck_assert_int_eq(given(), 0);
	mk_datapath_free(datapath);
}
END_TEST

UNIT_SUITE("room")
{
	TCase *rules = unit_case(suite, "rules", NULL, NULL),
	      *tables = unit_case(suite, "tables", fx_setup, fx_teardown);

	tcase_add_loop_test(rules, test_left, 0, MK_ARRAY_SIZE(rows));
	tcase_add_test(tables, test_given);
}
