// SPDX-License-Identifier: Apache-2.0
/* The address directory under faults: disks that refuse, processes killed at any instant, many
 * processes at once. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "unit/ipam_fixture.h"

/* ---- disks that refuse ----------------------------------------------------------------------- */

static void mount_small(const char *options)
{
	ck_assert_msg(unshare(CLONE_NEWNS) == 0, "unshare: %s (needs root)", strerror(errno));
	ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	ck_assert_msg(mount("tmpfs", state_dir, "tmpfs", 0, options) == 0, "tmpfs: %s",
		      strerror(errno));
}

START_TEST(test_disk_full)
{
	cleanup_free char *filler = calloc(1, 65536);
	char text[MK_IP_STRLEN];
	int fd;

	mount_small("size=64k");
	ck_ok(allocate("c1", text));
	fd = open(ipam_path("filler"), O_WRONLY | O_CREAT, 0600);
	while (write(fd, filler, 4096) > 0)
		;
	close(fd);
	ck_assert_int_eq(allocate("c2", text), -EIO);
	ck_assert_msg(strstr(err.text, "No space left") && strstr(err.text, "10.244.1.3"), "%s",
		      err.text);
	ck_assert_int_ne(access(ipam_path(".new"), F_OK), 0);
	ck_assert_int_ne(access(ipam_path("10.244.1.3"), F_OK), 0);
	release("c1");
	ck_assert_int_eq(unlink(ipam_path("filler")), 0);
	ck_ok(allocate("c2", text));
	ck_assert_str_eq(text, "10.244.1.3");
	umount2(state_dir, MNT_DETACH);
}
END_TEST

START_TEST(test_read_only)
{
	char text[MK_IP_STRLEN];

	mount_small("size=64k");
	ck_ok(allocate("c1", text));
	ck_assert_int_eq(mount(NULL, state_dir, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
	ck_assert_ptr_null(mk_ipam_open(state_dir, &err));
	ck_assert_int_eq(err.code, EROFS);
	ck_assert_msg(strstr(err.text, state_dir), "%s", err.text);
	umount2(state_dir, MNT_DETACH);
}
END_TEST

/* `monokube cleanup` while another process waits for the lock: the waiter must not use the
 * removed directory. */
START_TEST(test_removed_while_waiting)
{
	char text[MK_IP_STRLEN], moved[128], go = 'g';
	struct mk_ipam *ipam;
	int start[2], status;
	pid_t child;

	ck_assert_int_eq(pipe(start), 0);
	child = fork(); /* before the lock is taken, or the child would hold it too */
	if (child == 0)
		_exit(read(start[0], &go, 1) == 1 && allocate("c1", text) == 0 ? 0 : 1);
	ipam = open_ipam();
	ck_assert_int_eq(write(start[1], &go, 1), 1);
	snprintf(moved, sizeof(moved), "%s/old", state_dir);
	usleep(20000); /* the outcome is the same whether or not the child waits by then */
	ck_assert_int_eq(rename(ipam_path(""), moved), 0);
	mk_ipam_free(ipam);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(access(ipam_path("10.244.1.2"), F_OK), 0);
}
END_TEST

/* ---- killed at any instant ------------------------------------------------------------------- */

#define KILL_WORKERS 4
#define KILL_ROUNDS  400
#define KILL_RANGE   40

/* The holders of addresses as the workers see them: set after allocating, cleared before releasing.
 * Two holders at once are a duplicate. */
struct holders {
	_Atomic int of[256];
	_Atomic int duplicates, allocated, failed;
	_Atomic int next_id;
};

static void work_once(struct holders *holders, unsigned int *seed)
{
	struct mk_ipam *ipam = mk_ipam_open(state_dir, NULL);
	int id = atomic_fetch_add(&holders->next_id, 1), nobody = 0;
	struct mk_ip ip = { 0 };
	char text[32];
	int ret, host;

	snprintf(text, sizeof(text), "c%d", id);
	ret = ipam ? mk_ipam_allocate(ipam, &pool,
				      &(struct mk_ipam_owner){ .container_id = text,
							       .ifname = "eth0",
							       .netns = "/run/netns/x" },
				      &ip, NULL)
		   : -EIO;
	if (ret < 0) {
		atomic_fetch_add(&holders->failed, ret != -ENOSPC);
		mk_ipam_free(ipam);
		return;
	}
	host = ((uint8_t *)&ip.v4)[3];
	if (!atomic_compare_exchange_strong(&holders->of[host], &nobody, id))
		atomic_fetch_add(&holders->duplicates, 1);
	atomic_fetch_add(&holders->allocated, 1);
	if (rand_r(seed) % 8)
		atomic_store(&holders->of[host], 0);
	else
		return mk_ipam_free(ipam); /* this one stays allocated, like a running pod's */
	if (mk_ipam_release(ipam, text, "eth0", NULL) < 0)
		atomic_fetch_add(&holders->failed, 1);
	mk_ipam_free(ipam);
}

static pid_t start_worker(struct holders *holders, unsigned int seed)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	for (;;)
		work_once(holders, &seed);
}

static int release_visited(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner)
{
	struct mk_ipam *ipam = ctx;

	(void)owner;
	return mk_ipam_release_ip(ipam, ip, &err);
}

/* Keep the range from filling up: now and then release all addresses, as GC would. */
static void release_all(struct holders *holders)
{
	cleanup_ipam struct mk_ipam *ipam = open_ipam();

	for (size_t i = 0; i < MK_ARRAY_SIZE(holders->of); i++)
		atomic_store(&holders->of[i], 0);
	ck_ok(mk_ipam_each(ipam, release_visited, ipam, &err));
}

static void check_invariants(void)
{
	cleanup_ipam struct mk_ipam *ipam = open_ipam();
	struct walk walk = { 0 };

	ck_ok(mk_ipam_repair(ipam, &err));
	ck_ok(mk_ipam_each(ipam, walk_visit, &walk, &err));
	ck_assert_int_eq(walk.unknown, 0);
	/* lock, released/, the allocations, and nothing else */
	ck_assert_int_eq(count_names("."), walk.known + 2);
	ck_assert_int_eq(count_names(".owners"), walk.known);
	if (pool.second.family != AF_UNSPEC && access(ipam_path(".both"), F_OK) == 0)
		ck_assert_int_eq(count_names(".both"), walk.known);
	ck_assert_int_le(walk.known + count_names("released"), KILL_RANGE);
}

/* Pods with one address, or with two. */
START_TEST(test_killed)
{
	struct holders *holders = mmap(NULL, sizeof(*holders), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pids[KILL_WORKERS];
	unsigned int seed = 1;
	char id[16], text[MK_IP_STRLEN];

	ck_assert_ptr_ne(holders, MAP_FAILED);
	atomic_store(&holders->next_id, 1);
	pool.last = ip_of("10.244.1.41");
	if (_i)
		pool.second = ip_of("fd00:10:244:1::2");
	for (int i = 0; i < KILL_WORKERS; i++)
		pids[i] = start_worker(holders, (unsigned int)i);
	for (int round = 0; round < KILL_ROUNDS; round++) {
		pid_t *victim = &pids[rand_r(&seed) % KILL_WORKERS];
		struct timespec pause = { .tv_nsec = rand_r(&seed) % 3000000 };

		nanosleep(&pause, NULL);
		kill(*victim, SIGKILL);
		ck_assert_int_eq(waitpid(*victim, NULL, 0), *victim);
		check_invariants();
		if (round % 16 == 15) {
			for (int i = 0; i < KILL_WORKERS; i++)
				kill(pids[i], SIGKILL);
			while (wait(NULL) > 0)
				;
			release_all(holders);
			for (int i = 0; i < KILL_WORKERS; i++)
				pids[i] = start_worker(holders, (unsigned int)(round + i));
		} else {
			*victim = start_worker(holders, (unsigned int)round);
		}
	}
	for (int i = 0; i < KILL_WORKERS; i++)
		kill(pids[i], SIGKILL);
	while (wait(NULL) > 0)
		;
	ck_assert_int_eq(atomic_load(&holders->duplicates), 0);
	ck_assert_int_eq(atomic_load(&holders->failed), 0);
	ck_assert_int_gt(atomic_load(&holders->allocated), KILL_ROUNDS);
	/* no address is lost: all can be allocated again */
	release_all(holders);
	for (int i = 0; i < KILL_RANGE; i++) {
		snprintf(id, sizeof(id), "end%d", i);
		ck_ok(allocate(id, text));
	}
	ck_assert_int_eq(allocate("more", text), -ENOSPC);
	ck_assert_int_eq(count_names("released"), 0);
}
END_TEST

START_TEST(test_64_at_once)
{
	pid_t pids[64];
	char id[16], text[MK_IP_STRLEN];
	int status;

	pool.last = ip_of("10.244.1.65"); /* exactly 64 */
	for (int i = 0; i < 64; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			snprintf(id, sizeof(id), "c%d", i);
			_exit(allocate(id, text) == 0 ? 0 : 1);
		}
	}
	for (int i = 0; i < 64; i++) {
		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		ck_assert_msg(status == 0, "child %d: %d", i, status);
	}
	ck_assert_int_eq(count_names("."), 64 + 2);
	ck_assert_int_eq(allocate("more", text), -ENOSPC);
}
END_TEST

UNIT_SUITE("ipam_faults")
{
	TCase *tc = unit_case(suite, "directory", ipam_setup, ipam_teardown);

	tcase_add_test(tc, test_disk_full);
	tcase_add_test(tc, test_read_only);
	tcase_add_test(tc, test_removed_while_waiting);
	tcase_add_loop_test(tc, test_killed, 0, 2);
	tcase_add_test(tc, test_64_at_once);
}
