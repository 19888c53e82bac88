// SPDX-License-Identifier: Apache-2.0
/* Locks: the time of waiting, and the reported holder. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base_internal.h"
#include "base/cleanup.h"
#include "base/lock.h"
#include "base/loop.h"
#include "base/time.h"
#include "datapath/maps/pin.h"
#include "unit/unit.h"

static char dir[64];
static pid_t holder;

static void setup(void)
{
	snprintf(dir, sizeof(dir), "/tmp/mk_lock.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

/* Another process takes lock @name and keeps it for @hold_ms, 0: until it is killed. */
static void another_holds(const char *name, int operation, unsigned int hold_ms)
{
	int ready[2];
	char byte;

	ck_assert_int_eq(pipe(ready), 0);
	holder = fork();
	ck_assert_int_ge(holder, 0);
	if (holder == 0) {
		if (mk_state_lock(dir, name, operation, NULL) < 0 || write(ready[1], "", 1) != 1)
			_exit(1);
		if (hold_ms == 0)
			pause();
		usleep(hold_ms * 1000);
		_exit(0);
	}
	close(ready[1]);
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
}

static void another_ends(void)
{
	kill(holder, SIGKILL);
	ck_assert_int_eq(waitpid(holder, NULL, 0), holder);
}

static void expect_holder(const struct mk_error *err)
{
	char text[64];

	snprintf(text, sizeof(text), "is held by pid %d", holder);
	ck_assert_msg(strstr(mk_error_text(err), text), "'%s' has no '%s'", mk_error_text(err),
		      text);
}

START_TEST(test_never_waits)
{
	struct mk_error err = { 0 };

	mk_locks_wait_until(mk_time_monotonic_ns() + 100000000); /* has no effect then */
	mk_locks_never_wait();
	another_holds("x.lock", LOCK_EX, 0);
	ck_assert_int_eq(mk_state_lock(dir, "x.lock", LOCK_EX, &err), -EWOULDBLOCK);
	expect_holder(&err);
	another_ends();
	ck_ok(mk_state_lock(dir, "x.lock", LOCK_EX, &err));
}
END_TEST

/* The alarm that ends the wait is off again afterwards. */
START_TEST(test_limit)
{
	struct mk_error err = { 0 };

	mk_locks_wait_until(mk_time_monotonic_ns() + 100000000);
	another_holds("x.lock", LOCK_SH, 0);
	ck_assert_int_eq(mk_state_lock(dir, "x.lock", LOCK_EX, &err), -ETIMEDOUT);
	expect_holder(&err);
	another_ends();
	ck_assert_int_eq(alarm(0), 0);
	mk_locks_wait_until(mk_time_monotonic_ns() + 60 * MK_NS_PER_S);
	another_holds("x.lock", LOCK_SH, 100);
	ck_ok(mk_state_lock(dir, "x.lock", LOCK_EX, &err));
	another_ends();
}
END_TEST

/* A long command takes locks repeatedly, and waits each time. */
START_TEST(test_limit_of_each)
{
	struct mk_error err = { 0 };

	mk_locks_wait_at_most(100000000);
	for (int i = 0; i < 2; i++) {
		another_holds("x.lock", LOCK_EX, 0);
		ck_assert_int_eq(mk_state_lock(dir, "x.lock", LOCK_SH, &err), -ETIMEDOUT);
		expect_holder(&err);
		ck_assert_msg(strstr(mk_error_text(&err), "/x.lock'") &&
				      strstr(mk_error_text(&err), "end that process if it hangs"),
			      "%s", mk_error_text(&err));
		another_ends();
	}
	mk_locks_wait_at_most(60 * MK_NS_PER_S);
	another_holds("x.lock", LOCK_EX, 100);
	ck_ok(mk_state_lock(dir, "x.lock", LOCK_SH, &err));
	another_ends();
}
END_TEST

/* Signals blocked by the process that starts the plugin are blocked in the plugin too. */
START_TEST(test_limit_with_blocked_signals)
{
	struct mk_error err = { 0 };
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	another_holds("x.lock", LOCK_EX, 2000);
	mk_locks_wait_until(mk_time_monotonic_ns() + 100000000);
	ck_assert_int_eq(mk_state_lock(dir, "x.lock", LOCK_EX, &err), -ETIMEDOUT);
	another_ends();
}
END_TEST

/* The process that closes the gate gets the whole lock: no new holder is admitted. */
START_TEST(test_gate)
{
	struct mk_error err = { 0 };

	mk_locks_wait_until(mk_time_monotonic_ns() + 100000000);
	another_holds(MK_LOCK_GATE, LOCK_EX, 0);
	ck_assert_int_eq(mk_datapath_lock_shared(dir, &err), -ETIMEDOUT);
	another_ends();
	mk_locks_wait_until(mk_time_monotonic_ns() + 60 * MK_NS_PER_S);
	another_holds(MK_LOCK_DATAPATH, LOCK_SH, 0);
	ck_ok(mk_datapath_lock_shared(dir, &err));
	ck_ok(mk_datapath_lock_shared(dir, &err)); /* the gate is open again */
	another_ends();
}
END_TEST

static const struct {
	const char *locks;
	int pid;
} holders[] = {
	{ "", 0 },
	{ "1: FLOCK  ADVISORY  WRITE 77 08:02:123 0 EOF\n", 77 },
	{ "1: POSIX  ADVISORY  WRITE 77 08:02:123 0 EOF\n", 0 },
	{ "1: FLOCK  ADVISORY  WRITE 77 08:02:124 0 EOF\n"
	  "2: FLOCK  ADVISORY  READ  78 08:02:123 0 EOF\n",
	  78 },
	{ "1: FLOCK  ADVISORY  WRITE 77 08:03:123 0 EOF\n", 0 },
	/* a waiter is not the holder */
	{ "1: -> FLOCK  ADVISORY  WRITE 76 08:02:123 0 EOF\n"
	  "1: FLOCK  ADVISORY  WRITE 77 08:02:123 0 EOF",
	  77 },
};

START_TEST(test_holder)
{
	ck_assert_int_eq(lock_holder(holders[_i].locks, 8, 2, 123), holders[_i].pid);
}
END_TEST

START_TEST(test_turns)
{
	struct mk_loop_stats stats = { 0 };

	ck_assert(!loop_account(&stats, 3000000));
	ck_assert(loop_account(&stats, 50000000));
	ck_assert(!loop_account(&stats, 49999999));
	ck_assert_uint_eq(stats.turns, 3);
	ck_assert_uint_eq(stats.long_turns, 1);
	ck_assert_uint_eq(stats.longest_ns, 50000000);
}
END_TEST

UNIT_SUITE("lock")
{
	TCase *tc = unit_case(suite, "lock", setup, teardown);

	tcase_add_test(tc, test_never_waits);
	tcase_add_test(tc, test_limit);
	tcase_add_test(tc, test_limit_of_each);
	tcase_add_test(tc, test_limit_with_blocked_signals);
	tcase_add_test(tc, test_gate);
	tcase_add_loop_test(tc, test_holder, 0, MK_ARRAY_SIZE(holders));
	tcase_add_test(tc, test_turns);
}
