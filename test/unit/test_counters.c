// SPDX-License-Identifier: Apache-2.0
/* Counters per Service: the sums of programs, sweep and drops, and their removal. */
#include <bpf/bpf.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "datapath/services/counters.h"
#include "datapath/sessions/sweep.h"
#include "unit/unit.h"
#include "rows.h"

#define S 1000000000ULL

static struct mk_counter_tables tables;
static struct mk_table frontends, sessions;
static struct mk_error err;

static struct mk_table make_table(const char *name, size_t key_size, size_t value_size)
{
	struct mk_table table;
	int fd = row_create_ipv4(BPF_MAP_TYPE_HASH, name, key_size, value_size, 8192, NULL);

	ck_assert_msg(fd >= 0, "cannot create a map: %s", strerror(errno));
	ck_assert_int_eq(mk_table_init(&table, name, fd, &err), 0);
	return table;
}

static void setup(void)
{
	const size_t counter = sizeof(struct mk_service_counter);
	struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };

	setrlimit(RLIMIT_MEMLOCK, &unlimited);
	tables.live = make_table("service_counters", sizeof(__u32), counter);
	tables.ended = make_table("service_counters_ended", sizeof(__u32), counter);
	tables.drops = make_table("service_drops", sizeof(struct mk_service_drop_key), 8);
	frontends =
		make_table("frontends", sizeof(struct mk_frontend_key), sizeof(struct mk_frontend));
	sessions = make_table("sessions", sizeof(struct mk_tuple), sizeof(struct mk_session));
}

static void teardown(void)
{
	mk_counters_close(&tables);
	mk_table_close(&frontends);
	mk_table_close(&sessions);
}

static void put_counter(const struct mk_table *table, uint32_t account, uint64_t value)
{
	const struct mk_service_counter counter = { value,
						    { value * 10, value * 20 },
						    { value * 100, value * 200 } };

	ck_assert_int_eq(mk_table_put(table, &account, &counter, &err), 0);
}

static void put_drops(uint32_t account, uint32_t reason, uint64_t packets)
{
	const struct mk_service_drop_key key = { account, reason };

	ck_assert_int_eq(mk_table_put(&tables.drops, &key, &packets, &err), 0);
}

static void put_frontend(uint32_t address, uint32_t account)
{
	const struct mk_frontend_key key = { .addr = row_ipv4(address) };
	const struct mk_frontend value = { .set_id = 1, .service_id = account };

	ck_assert_int_eq(mk_table_put(&frontends, &key, &value, &err), 0);
}

static size_t read_totals(struct mk_service_totals **totals)
{
	size_t count;

	ck_assert_msg(mk_counters_read(&tables, totals, &count, &err) == 0, "%s",
		      mk_error_text(&err));
	return count;
}

START_TEST(test_nothing)
{
	cleanup_free struct mk_service_totals *totals = NULL;

	ck_assert_uint_eq(read_totals(&totals), 0);
	ck_assert_ptr_null(mk_counters_find(totals, 0, 7));
}
END_TEST

START_TEST(test_sum)
{
	cleanup_free struct mk_service_totals *totals = NULL;
	const struct mk_service_totals *found;

	put_counter(&tables.live, 9, 1);
	put_counter(&tables.live, 5, 2);
	put_counter(&tables.ended, 5, 3);
	put_drops(7, MK_DROP_REFUSED, 4);
	put_drops(5, MK_DROP_SOURCE_RANGE, 6);
	put_drops(5, MK_DROP_COUNT + 3, 99); /* from a newer version */
	ck_assert_uint_eq(read_totals(&totals), 3);
	for (size_t i = 0; i < 3; i++)
		ck_assert_uint_eq(totals[i].service_id, 5 + 2 * i);
	found = mk_counters_find(totals, 3, 5);
	ck_assert_uint_eq(found->counter.connections, 5);
	ck_assert_uint_eq(found->counter.packets[MK_FLOW_REQUEST], 50);
	ck_assert_uint_eq(found->counter.bytes[MK_FLOW_REPLY], 1000);
	ck_assert_uint_eq(found->drops[MK_DROP_SOURCE_RANGE], 6);
	ck_assert_uint_eq(mk_counters_find(totals, 3, 7)->drops[MK_DROP_REFUSED], 4);
	ck_assert_ptr_null(mk_counters_find(totals, 3, 6));
}
END_TEST

/* More than one batch, in both orders. */
START_TEST(test_many)
{
	cleanup_free struct mk_service_totals *totals = NULL;

	for (uint32_t account = 3000; account > 0; account--)
		put_counter(&tables.live, account, account);
	ck_assert_uint_eq(read_totals(&totals), 3000);
	for (uint32_t i = 0; i < 3000; i++)
		ck_assert_uint_eq(totals[i].counter.connections, i + 1);
}
END_TEST

/* ---- what sessions still hold ---------------------------------------------------------------- */

static void count_ended(void *ctx, const struct mk_session *session)
{
	ck_assert_msg(mk_counters_add_ended(ctx, session, &err) == 0, "%s", mk_error_text(&err));
}

/* Client number @n; account 0: no Service's. */
static void put_pair(uint16_t n, uint32_t account, uint64_t seen_ns, uint32_t packets)
{
	struct mk_tuple key = { .saddr = row_ipv4(1), .daddr = row_ipv4(2), .proto = IPPROTO_UDP };
	struct mk_session session = { .last_seen_ns = seen_ns,
				      .service_id = account,
				      .packets = packets,
				      .bytes = packets * 100,
				      .flags = MK_SESSION_FORWARD };
	struct mk_tuple pair_key;

	key.sport = htons(n);
	session.to = key;
	session.to.daddr = row_ipv4(3);
	pair_key = mk_session_pair_key(&session);
	ck_assert_int_eq(mk_table_put(&sessions, &key, &session, &err), 0);
	session.flags = 0;
	session.packets++;
	session.to = (struct mk_tuple){
		.saddr = key.daddr, .daddr = key.saddr, .dport = key.sport, .proto = IPPROTO_UDP
	};
	ck_assert_int_eq(mk_table_put(&sessions, &pair_key, &session, &err), 0);
}

static void sweep_all(uint64_t now_ns)
{
	const struct mk_sweep_options options = {
		.tables = &sessions, .table_count = 1, .ended = count_ended, .ctx = &tables
	};
	struct mk_sweep *sweep = mk_sweep_new(&options, &err);
	int ret;

	do
		ret = mk_sweep_step(sweep, now_ns, 512, &err);
	while (ret == 0);
	ck_assert_msg(ret == 1, "%s", mk_error_text(&err));
	mk_sweep_free(sweep);
}

START_TEST(test_expired_sessions)
{
	cleanup_free struct mk_service_totals *totals = NULL;
	const struct mk_service_totals *found;

	put_counter(&tables.live, 5, 1);
	for (uint16_t n = 1; n <= 10; n++)
		put_pair(n, 5, 1 * S, 2);
	put_pair(11, 5, 999 * S, 1000); /* still alive */
	put_pair(12, 0, 1 * S, 1000);
	sweep_all(1000 * S);
	sweep_all(1000 * S);
	ck_assert_uint_eq(read_totals(&totals), 1);
	found = mk_counters_find(totals, 1, 5);
	ck_assert_uint_eq(found->counter.connections, 1);
	ck_assert_uint_eq(found->counter.packets[MK_FLOW_REQUEST], 10 + 10 * 2);
	ck_assert_uint_eq(found->counter.packets[MK_FLOW_REPLY], 20 + 10 * 3);
	ck_assert_uint_eq(found->counter.bytes[MK_FLOW_REPLY], 200 + 10 * 200);
}
END_TEST

/* Two CPUs have counted the same packets, so the entry has a negative difference. */
START_TEST(test_below_zero)
{
	const struct mk_session session = { .service_id = 5,
					    .packets = (__u32)-3,
					    .bytes = (__u64)-300,
					    .flags = MK_SESSION_FORWARD };
	cleanup_free struct mk_service_totals *totals = NULL;

	put_counter(&tables.live, 5, 4);
	count_ended(&tables, &session);
	read_totals(&totals);
	ck_assert_uint_eq(totals[0].counter.packets[MK_FLOW_REQUEST], 37);
	ck_assert_uint_eq(totals[0].counter.bytes[MK_FLOW_REQUEST], 100);
}
END_TEST

/* ---- Services that are gone ------------------------------------------------------------------ */

START_TEST(test_prune)
{
	cleanup_free struct mk_service_totals *totals = NULL;

	put_frontend(1, 5);
	put_frontend(2, 5);
	put_frontend(3, 8);
	for (uint32_t account = 4; account <= 9; account++) {
		put_counter(&tables.live, account, 1);
		put_counter(&tables.ended, account, 1);
		put_drops(account, MK_DROP_REFUSED, 1);
		put_drops(account, MK_DROP_NO_BACKEND, 1);
	}
	ck_assert_int_eq(mk_counters_prune(&tables, &frontends, &err), 4 * 4);
	ck_assert_uint_eq(read_totals(&totals), 2);
	ck_assert_uint_eq(totals[0].service_id, 5);
	ck_assert_uint_eq(totals[1].service_id, 8);
	ck_assert_int_eq(mk_counters_prune(&tables, &frontends, &err), 0);
}
END_TEST

UNIT_SUITE("counters")
{
	TCase *tcase = unit_case(suite, "counters", setup, teardown);

	tcase_add_test(tcase, test_nothing);
	tcase_add_test(tcase, test_sum);
	tcase_add_test(tcase, test_many);
	tcase_add_test(tcase, test_expired_sessions);
	tcase_add_test(tcase, test_below_zero);
	tcase_add_test(tcase, test_prune);
}
