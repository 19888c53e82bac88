// SPDX-License-Identifier: Apache-2.0
/* Room in the kernel's table of neighbours. Only the host's first network namespace has these
 * settings, so files stand for them. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "host/sysctl.h"
#include "unit/unit.h"

static struct mk_error err;
static char state_dir[] = "/tmp/mk-test-neighbours-XXXXXX";

static void path_of(char path[128], int family, const char *name)
{
	snprintf(path, 128, "/proc/sys/net/ipv%d/neigh/default%s%s", family, *name ? "/" : "",
		 name);
}

static void write_limit(int family, const char *name, unsigned long value)
{
	char path[128], text[24];

	path_of(path, family, name);
	snprintf(text, sizeof(text), "%lu\n", value);
	ck_ok(mk_file_replace(path, text, strlen(text), 0644, &err));
}

static unsigned long read_limit(int family, const char *name)
{
	cleanup_free char *text = NULL;
	char path[128];

	path_of(path, family, name);
	ck_ok(mk_file_read(path, 64, &text, NULL, &err));
	return strtoul(text, NULL, 10);
}

static void make_files(int family)
{
	char path[128];

	snprintf(path, sizeof(path), "/proc/sys/net/ipv%d/neigh", family);
	ck_assert_int_eq(mount("none", path, "tmpfs", 0, NULL), 0);
	path_of(path, family, "");
	ck_assert_int_eq(mkdir(path, 0755), 0);
	write_limit(family, "gc_thresh1", 128);
	write_limit(family, "gc_thresh2", 512);
	write_limit(family, "gc_thresh3", 1024);
}

static void setup(void)
{
	strcpy(state_dir + sizeof(state_dir) - 7, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(state_dir));
	ck_assert_msg(unshare(CLONE_NEWNET | CLONE_NEWNS) == 0, "needs root: %s", strerror(errno));
	ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
}

static void teardown(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", state_dir);
	ck_assert_int_eq(system(command), 0);
}

static void make_room(sa_family_t family, size_t nodes)
{
	ck_ok(mk_sysctl_neighbours(state_dir, family, nodes, &err));
}

static void check_limits(int family, unsigned long soft, unsigned long hard)
{
	ck_assert_uint_eq(read_limit(family, "gc_thresh1"), 128);
	ck_assert_uint_eq(read_limit(family, "gc_thresh2"), soft);
	ck_assert_uint_eq(read_limit(family, "gc_thresh3"), hard);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static const struct {
	size_t nodes;
	unsigned long soft, hard;
} rooms[] = { { 0, 512, 1024 },
	      { 256, 512, 1024 },
	      { 257, 1024, 2048 },
	      { 1024, 2048, 4096 },
	      { 5000, 16384, 32768 } };

START_TEST(test_room)
{
	make_files(4);
	make_files(6);
	make_room(AF_INET6, rooms[_i].nodes);
	check_limits(4, 512, 1024);
	check_limits(6, rooms[_i].soft, rooms[_i].hard);
	make_room(AF_INET, rooms[_i].nodes);
	check_limits(4, rooms[_i].soft, rooms[_i].hard);
}
END_TEST

/* An administrator's larger limit stays, and so does room that was made: nodes come back. */
START_TEST(test_never_lower)
{
	make_files(4);
	write_limit(4, "gc_thresh3", 100000);
	make_room(AF_INET, 1000);
	check_limits(4, 2048, 100000);
	make_room(AF_INET, 10);
	check_limits(4, 2048, 100000);
}
END_TEST

START_TEST(test_cleanup_puts_back)
{
	make_files(4);
	write_limit(4, "gc_thresh2", 1024);
	write_limit(4, "gc_thresh3", 2048);
	make_room(AF_INET, 1000);
	make_room(AF_INET, 2000);
	check_limits(4, 4096, 8192);
	ck_ok(mk_sysctls_restore(state_dir, &err));
	check_limits(4, 1024, 2048);
}
END_TEST

/* A node in a network namespace of its own, as kind makes it, has no such settings. */
START_TEST(test_no_settings)
{
	make_room(AF_INET, 1000);
	make_room(AF_INET6, 1000);
}
END_TEST

START_TEST(test_names_what_fails)
{
	make_files(4);
	ck_assert_int_eq(
		mount("none", "/proc/sys/net/ipv4/neigh", NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
	ck_assert_int_lt(mk_sysctl_neighbours(state_dir, AF_INET, 1000, &err), 0);
	ck_assert_msg(strstr(mk_error_text(&err), "1000 nodes") &&
			      strstr(mk_error_text(&err), "gc_thresh3' to '4096'"),
		      "%s", mk_error_text(&err));
}
END_TEST

UNIT_SUITE("neighbours")
{
	TCase *tc = unit_case(suite, "room", setup, teardown);

	tcase_add_loop_test(tc, test_room, 0, MK_ARRAY_SIZE(rooms));
	tcase_add_test(tc, test_never_lower);
	tcase_add_test(tc, test_cleanup_puts_back);
	tcase_add_test(tc, test_no_settings);
	tcase_add_test(tc, test_names_what_fails);
}
