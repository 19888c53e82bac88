// SPDX-License-Identifier: Apache-2.0
/* Sizes of the session tables: as configured; changed, with all entries; and unchanged if the
 * kernel lacks the memory. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include "base/cleanup.h"
#include "datapath/datapath.h"
#include "datapath/datapath_internal.h"
#include "datapath/maps/pin.h"
#include "unit/unit.h"
#include "rows.h"

/* More buckets than any kernel makes (linux/kernel/bpf/hashtab.c: E2BIG), which takes no memory. */
#define TOO_MANY 0x80000000u

static struct mk_error err;
static char dir[64], bpf_dir[96], state_dir[96];

#define ck_ok(call) ck_assert_msg((call) >= 0, "%s: %s", #call, mk_error_text(&err))

static void setup(void)
{
	ck_assert_msg(unshare(CLONE_NEWNET | CLONE_NEWNS) == 0, "needs root: %s", strerror(errno));
	ck_assert_int_eq(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	snprintf(dir, sizeof(dir), "/tmp/mk-test-sizes-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(mount("tmpfs", dir, "tmpfs", 0, NULL), 0);
	snprintf(bpf_dir, sizeof(bpf_dir), "%s/fs/monokube", dir);
	snprintf(state_dir, sizeof(state_dir), "%s/state", dir);
}

static void teardown(void)
{
	char command[160];

	snprintf(command, sizeof(command), "umount -l %s; rmdir %s", dir, dir);
	ck_assert_int_eq(system(command), 0);
}

static struct mk_datapath *opened(uint32_t established, uint32_t half_open)
{
	static const struct mk_node node = { .nat_port_min = 49152, .nat_port_max = 65535 };
	struct mk_datapath *datapath = mk_datapath_open(bpf_dir, state_dir, &node, &err);

	ck_assert_msg(datapath != NULL, "%s", mk_error_text(&err));
	ck_ok(mk_datapath_size_sessions(datapath, established, half_open, &err));
	return datapath;
}

static struct mk_datapath *loaded(uint32_t established, uint32_t half_open)
{
	struct mk_datapath *datapath = opened(established, half_open);

	ck_ok(mk_datapath_load(datapath, &err));
	return datapath;
}

static void expect_sizes(const struct mk_datapath *datapath, uint32_t established,
			 uint32_t half_open)
{
	for (int i = 0; i < MK_SESSION_TABLES; i++) {
		const struct mk_table *table = mk_datapath_session_table(datapath, i);

		ck_assert_msg(table->max_entries == (i % 2 ? half_open : established),
			      "map %s has %u entries", table->name, table->max_entries);
	}
}

static void put_sessions(const struct mk_table *table, unsigned int count)
{
	const struct mk_session session = { .set_id = 5 };

	for (unsigned int i = 0; i < count; i++) {
		struct mk_tuple key = { .sport = htons((uint16_t)i), .proto = IPPROTO_UDP };

		ck_ok(mk_table_put(table, &key, &session, &err));
	}
}

static size_t sessions_in(const struct mk_table *table)
{
	cleanup_free void *keys = NULL;
	size_t count;

	ck_ok(mk_table_keys(table, &keys, &count, &err));
	return count;
}

START_TEST(test_as_configured)
{
	struct mk_datapath *datapath = loaded(2048, 1024);

	expect_sizes(datapath, 2048, 1024);
	mk_datapath_free(datapath);
}
END_TEST

START_TEST(test_changed)
{
	struct mk_datapath *datapath = loaded(2048, 1024);

	put_sessions(mk_datapath_session_table(datapath, 0), 1500);
	put_sessions(mk_datapath_session_table(datapath, 2), 100);
	mk_datapath_free(datapath);
	datapath = loaded(_i ? 1536 : 4096, 2048);
	ck_assert(mk_datapath_moved(datapath));
	expect_sizes(datapath, _i ? 1536 : 4096, 2048);
	ck_assert_uint_eq(sessions_in(mk_datapath_session_table(datapath, 0)), 1500);
	ck_assert_uint_eq(sessions_in(mk_datapath_session_table(datapath, 2)), 100);
	mk_datapath_free(datapath);
}
END_TEST

/* At the first start there is no table to use: the error names the map and the remedy. */
START_TEST(test_no_memory_at_first)
{
	struct mk_datapath *datapath = opened(TOO_MANY, 1024);
	int ret = mk_datapath_load(datapath, &err);

	ck_assert_msg(ret < 0, "a map of %u entries was made", TOO_MANY);
	ck_assert_msg(strstr(err.text, "sessions'") && strstr(err.text, " 2147483648 entries") &&
			      strstr(err.text, "32768 MiB at once, 294912 MiB when full") &&
			      strstr(err.text, "lower sessionTableSize"),
		      "%s", err.text);
	mk_datapath_free(datapath);
}
END_TEST

/* Later the existing tables stay in use with all entries; the failed change does no other harm. */
START_TEST(test_no_memory_for_more)
{
	static const uint32_t wanted[][2] = { { TOO_MANY, 1024 }, { 2048, TOO_MANY } };
	struct mk_datapath *datapath = loaded(2048, 1024);

	put_sessions(mk_datapath_session_table(datapath, 0), 1500);
	mk_datapath_free(datapath);
	datapath = loaded(wanted[_i][0], wanted[_i][1]);
	ck_assert(!mk_datapath_moved(datapath));
	expect_sizes(datapath, 2048, 1024);
	ck_assert_uint_eq(sessions_in(mk_datapath_session_table(datapath, 0)), 1500);
	mk_datapath_free(datapath);
}
END_TEST

START_TEST(test_too_small_for_its_entries)
{
	struct mk_datapath *datapath = loaded(2048, 1024);

	put_sessions(mk_datapath_session_table(datapath, 0), 1500);
	mk_datapath_free(datapath);
	datapath = loaded(1024, 1024);
	expect_sizes(datapath, 2048, 1024);
	ck_assert_uint_eq(sessions_in(mk_datapath_session_table(datapath, 0)), 1500);
	mk_datapath_free(datapath);
}
END_TEST

static struct mk_datapath *loaded_for(uint32_t clients)
{
	struct mk_datapath *datapath = opened(1024, 1024);

	ck_ok(mk_datapath_size_affinity(datapath, clients, &err));
	ck_ok(mk_datapath_load(datapath, &err));
	ck_assert_uint_eq(datapath->affinity.max_entries, clients);
	ck_assert_uint_eq(datapath->affinity_new.max_entries, clients);
	return datapath;
}

/* A small table is no more than half full: an LRU table evicts before it is full. */
START_TEST(test_affinity)
{
	struct mk_datapath *datapath = loaded_for(8192);
	const struct mk_affinity last = { .backend.port = htons(80) };

	for (uint32_t i = 1; i <= 500; i++) {
		struct mk_affinity_key key = { .client = row_ipv4(i), .affinity_id = 7 };

		ck_ok(mk_table_put(&datapath->affinity, &key, &last, &err));
		ck_ok(mk_table_put(&datapath->affinity_new, &key, &last, &err));
	}
	mk_datapath_free(datapath);
	datapath = loaded_for(_i ? 4096 : 16384);
	ck_assert_uint_eq(sessions_in(&datapath->affinity), 500);
	ck_assert_uint_eq(sessions_in(&datapath->affinity_new), 500);
	mk_datapath_free(datapath);
}
END_TEST

UNIT_SUITE("table_sizes")
{
	TCase *tc = unit_case(suite, "core", setup, teardown);

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, test_as_configured);
	tcase_add_loop_test(tc, test_changed, 0, 2);
	tcase_add_test(tc, test_no_memory_at_first);
	tcase_add_loop_test(tc, test_no_memory_for_more, 0, 2);
	tcase_add_test(tc, test_too_small_for_its_entries);
	tcase_add_loop_test(tc, test_affinity, 0, 2);
}
