// SPDX-License-Identifier: Apache-2.0
/* `monokube monitor` takes the router's slot of the chain and has all packets sent there: both only
 * while it runs. */
#include <bpf/bpf.h>
#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "datapath/maps/pin.h"
#include "datapath/maps/runtime.h"
#include "datapath/maps/table.h"
#include "datapath/monitor/monitor.h"
#include "unit/datapath_fixture.h"
#include "rows.h"

/* Which program has the slot. */
static uint32_t in_router_slot(void)
{
	int fd = mk_pin_open(fx.bpf_dir, MK_PIN_MAPS, "chain", &fx.err);
	__u32 slot = MK_PROG_ROUTER, id = 0;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(row_lookup(fd, &slot, &id), 0);
	close(fd);
	return id;
}

static void put_into_router_slot(const char *program)
{
	int chain = mk_pin_open(fx.bpf_dir, MK_PIN_MAPS, "chain", &fx.err);
	int fd = mk_pin_open(fx.bpf_dir, MK_PIN_PROGS, program, &fx.err);
	__u32 slot = MK_PROG_ROUTER;

	ck_assert_int_eq(row_update(chain, &slot, &fd, BPF_ANY), 0);
	close(fd);
	close(chain);
}

static bool has_flag(void)
{
	struct mk_table table;
	struct mk_runtime now;
	__u32 key = 0;

	fx_ok(mk_table_open(&table, fx.bpf_dir, "runtime", sizeof(key), sizeof(now), &fx.err));
	fx_ok(mk_table_get(&table, &key, &now, &fx.err));
	mk_table_close(&table);
	return now.monitored;
}

static void put_flag(bool on)
{
	const struct mk_runtime_change change = { .set_monitored = true, .monitored = on };

	ck_assert_int_eq(mk_runtime_change(fx.bpf_dir, fx.state_dir, &change, &fx.err), 1);
}

/* A monitor was killed at any instant: the agent undoes its changes, once. */
START_TEST(test_reset)
{
	const bool slot = _i & 1, flag = _i & 2;
	uint32_t router;

	mk_datapath_free(fx_attached());
	router = in_router_slot();
	if (slot)
		put_into_router_slot("monitor");
	if (flag)
		put_flag(true);
	ck_assert_int_eq(in_router_slot() != router, slot);
	ck_assert_int_eq(mk_monitor_reset_stale(fx.bpf_dir, fx.state_dir, false, &fx.err),
			 slot || flag);
	ck_assert_uint_eq(in_router_slot(), router);
	ck_assert(!has_flag());
	ck_assert_int_eq(mk_monitor_reset_stale(fx.bpf_dir, fx.state_dir, false, &fx.err), 0);
}
END_TEST

static void see_flow(void *ctx, const struct mk_flow_event *event)
{
	(void)ctx;
	(void)event;
}

static volatile int stop;

/* Returns NULL if it ended well. */
static void *follow(void *failed)
{
	struct mk_monitor_source source = { .dir = fx.bpf_dir };
	struct mk_monitor_reader watcher = { .flow = see_flow };

	return mk_monitor_follow(&source, 1, fx.state_dir, &watcher, &stop, NULL) < 0 ? failed
										      : NULL;
}

static void wait_until_watched(uint32_t router)
{
	for (int i = 0; i < 500 && (in_router_slot() == router || !has_flag()); i++)
		usleep(20 * 1000);
	ck_assert_uint_ne(in_router_slot(), router);
	ck_assert(has_flag());
}

/* A starting agent resets the slot; an agent that repairs map `runtime` resets the flag. */
START_TEST(test_taken_again)
{
	pthread_t watcher;
	void *failed;
	uint32_t router;

	mk_datapath_free(fx_attached());
	router = in_router_slot();
	ck_assert_int_eq(pthread_create(&watcher, NULL, follow, &fx), 0);
	wait_until_watched(router);
	ck_assert_int_eq(mk_monitor_reset_stale(fx.bpf_dir, fx.state_dir, false, &fx.err),
			 0); /* alive */
	put_flag(false);
	wait_until_watched(router);
	put_into_router_slot("router");
	wait_until_watched(router);
	stop = 1;
	ck_assert_int_eq(pthread_join(watcher, &failed), 0);
	ck_assert_ptr_null(failed);
	ck_assert_uint_eq(in_router_slot(), router);
	ck_assert(!has_flag());
}
END_TEST

/* ---- drops ----------------------------------------------------------------------------------- */

static void see_drop(void *ctx, const struct mk_drop_event *event)
{
	(void)ctx;
	(void)event;
}

static bool reports_drops(void)
{
	cleanup_table struct mk_table table = { .fd = -1 };
	struct mk_runtime now;
	__u32 key = 0;

	fx_ok(mk_table_open(&table, fx.bpf_dir, "runtime", sizeof(key), sizeof(now), &fx.err));
	fx_ok(mk_table_get(&table, &key, &now, &fx.err));
	return now.report_drops;
}

static int take_drops(void)
{
	struct mk_monitor_source source = { .dir = fx.bpf_dir };
	struct mk_monitor_reader reader = { .drop = see_drop };

	return mk_monitor_take_drops(&source, 1, fx.state_dir, &reader, 0, &fx.err);
}

static void *follow_drops(void *failed)
{
	struct mk_monitor_source source = { .dir = fx.bpf_dir };
	struct mk_monitor_reader reader = { .drop = see_drop };

	return mk_monitor_follow(&source, 1, fx.state_dir, &reader, &stop, NULL) < 0 ? failed
										     : NULL;
}

/* The agent takes drops for its log, and lets another process show them meanwhile. That one waits
 * until the agent has taken what there is. */
START_TEST(test_take_drops)
{
	pthread_t follower;
	void *failed;
	int lock;

	mk_datapath_free(fx_attached());
	ck_assert_int_eq(take_drops(), 0);
	ck_assert(reports_drops());
	ck_assert_int_eq(mk_monitor_reset_stale(fx.bpf_dir, fx.state_dir, true, &fx.err), 0);
	ck_assert(reports_drops());
	ck_assert_int_eq(mk_monitor_reset_stale(fx.bpf_dir, fx.state_dir, false, &fx.err), 1);
	lock = mk_state_lock(fx.state_dir, MK_LOCK_DROPS, LOCK_EX | LOCK_NB, &fx.err);
	ck_assert_int_ge(lock, 0);
	ck_assert_int_eq(pthread_create(&follower, NULL, follow_drops, &fx), 0);
	usleep(100 * 1000);
	ck_assert(!reports_drops());
	close(lock);
	for (int i = 0; i < 500 && !reports_drops(); i++)
		usleep(20 * 1000);
	ck_assert_int_eq(take_drops(), 1);
	stop = 1;
	ck_assert_int_eq(pthread_join(follower, &failed), 0);
	ck_assert_ptr_null(failed);
	ck_assert(!reports_drops());
	ck_assert_int_eq(take_drops(), 0);
	ck_assert(reports_drops());
}
END_TEST

UNIT_SUITE("monitor")
{
	TCase *tc = unit_case(suite, "monitor", fx_setup, fx_teardown);

	tcase_add_loop_test(tc, test_reset, 0, 4);
	tcase_add_test(tc, test_taken_again);
	tcase_add_test(tc, test_take_drops);
}
