// SPDX-License-Identifier: Apache-2.0
/* The address directory: the order of reuse, what a kill or a bad file leaves behind. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "ipam/ipam.h"
#include "unit/unit.h"

static char state_dir[64];
static struct mk_error err;
static struct mk_ip first, last;

static void setup(void)
{
	snprintf(state_dir, sizeof(state_dir), "/tmp/mk-test-ipam-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(state_dir));
	first = ip_of("10.244.1.2");
	last = ip_of("10.244.1.9");
}

static void teardown(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", state_dir);
	ck_assert_int_eq(system(command), 0);
}

static struct mk_ipam *open_ipam(void)
{
	struct mk_ipam *ipam = mk_ipam_open(state_dir, &err);

	ck_assert_msg(ipam != NULL, "%s", mk_error_text(&err));
	return ipam;
}

static int allocate(const char *container_id, char *text)
{
	const struct mk_ipam_owner owner = { container_id, "eth0", "/run/netns/x" };
	cleanup_ipam struct mk_ipam *ipam = open_ipam();
	struct mk_ip ip;
	int ret = mk_ipam_allocate(ipam, &first, &last, &owner, &ip, &err);

	if (ret == 0)
		mk_ip_format(&ip, text);
	return ret;
}

static void release(const char *container_id)
{
	cleanup_ipam struct mk_ipam *ipam = open_ipam();

	ck_ok(mk_ipam_release(ipam, container_id, "eth0", &err));
}

static const char *path_of(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/ipam/%s", state_dir, name);
	return path;
}

static void write_file(const char *name, const char *content)
{
	cleanup_close int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	ck_assert_msg(fd >= 0, "%s: %s", name, strerror(errno));
	ck_assert_int_eq(write(fd, content, strlen(content)), (ssize_t)strlen(content));
}

static int count_names(const char *name)
{
	cleanup_closedir DIR *dir = opendir(path_of(name));
	struct dirent *entry;
	int count = 0;

	ck_assert_ptr_nonnull(dir);
	while ((entry = readdir(dir)))
		count += entry->d_name[0] != '.' || strcmp(entry->d_name, ".new") == 0;
	return count;
}

/* ---- order ------------------------------------------------------------------------------- */

/* A script of `+name` (allocate) and `-name` (release), and the last digit of the address that
 * each allocation must give; 0: none left. */
static const struct {
	const char *name, *steps[24];
	int addresses[24];
} orders[] = {
	{ "lowest never-used first", { "+a", "+b", "+c" }, { 2, 3, 4 } },
	{ "never-used before released", { "+a", "-a", "+b", "-b", "+c" }, { 2, 0, 3, 0, 4 } },
	{ "range used up, then a release helps",
	  { "+a", "+b", "+c", "+d", "+e", "+f", "+g", "+h", "+i", "-d", "+i" },
	  { 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 5 } },
	{ "last released is reused last, whatever the order of addresses",
	  { "+a", "+b", "+c", "+d", "+e", "+f", "+g", "+h", "-g", "-b", "-e", "-a", "+p", "+q",
	    "-h", "+r", "+s", "+t", "+u" },
	  { 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0, 0, 8, 3, 0, 6, 2, 9, 0 } },
	{ "released twice counts as the second time",
	  { "+a", "+b", "+c", "+d", "+e", "+f", "+g", "+h", "-a", "-b", "+p", "-p", "+q", "+r" },
	  { 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 2, 0, 3, 2 } },
};

START_TEST(test_order)
{
	const char *row = orders[_i].name;
	char text[MK_IP_STRLEN], wanted[MK_IP_STRLEN];

	for (int i = 0; orders[_i].steps[i]; i++) {
		const char *step = orders[_i].steps[i];
		int address = orders[_i].addresses[i], ret;

		if (step[0] == '-') {
			release(step + 1);
			continue;
		}
		ret = allocate(step + 1, text);
		if (!address) {
			ck_assert_msg(ret == -ENOSPC, "%s: step %d (%s): %d", row, i, step, ret);
			continue;
		}
		snprintf(wanted, sizeof(wanted), "10.244.1.%d", address);
		ck_assert_msg(ret == 0, "%s: step %d (%s): %s", row, i, step, mk_error_text(&err));
		ck_assert_msg(strcmp(text, wanted) == 0, "%s: step %d (%s): got %s, wanted %s", row,
			      i, step, text, wanted);
	}
}
END_TEST

START_TEST(test_one_address_per_owner)
{
	const struct mk_ipam_owner owner = { "c1", "eth0", "" };
	cleanup_ipam struct mk_ipam *ipam = open_ipam();
	struct mk_ip ip, again;

	ck_ok(mk_ipam_allocate(ipam, &first, &last, &owner, &ip, &err));
	ck_assert_int_eq(mk_ipam_allocate(ipam, &first, &last, &owner, &again, &err), -EEXIST);
	ck_assert_msg(strstr(err.text, "10.244.1.2") && strstr(err.text, "c1"), "%s", err.text);
	ck_assert(mk_ip_equal(&ip, &again));
	/* another interface of the same container is another owner */
	ck_ok(mk_ipam_allocate(ipam, &first, &last, &(struct mk_ipam_owner){ "c1", "eth1", "" },
			       &again, &err));
	ck_assert(!mk_ip_equal(&ip, &again));
}
END_TEST

START_TEST(test_find_release)
{
	char text[MK_IP_STRLEN];
	struct mk_ip ip;

	ck_ok(allocate("c1", text));
	{
		cleanup_ipam struct mk_ipam *ipam = open_ipam();

		ck_ok(mk_ipam_find(ipam, "c1", "eth0", &ip, &err));
		ck_assert(mk_ip_equal(&ip, &first));
		ck_assert_int_eq(mk_ipam_find(ipam, "c1", "eth1", &ip, &err), -ENOENT);
		ck_ok(mk_ipam_release(ipam, "c1", "eth0", &err));
		ck_ok(mk_ipam_release(ipam, "c1", "eth0", &err));
		ck_assert_int_eq(mk_ipam_find(ipam, "c1", "eth0", &ip, &err), -ENOENT);
		ck_assert_msg(strstr(err.text, "c1"), "%s", err.text);
	}
	ck_assert_int_eq(count_names("released"), 1);
}
END_TEST

START_TEST(test_full_says_how_many)
{
	char id[16], text[MK_IP_STRLEN];

	for (int i = 0; i < 8; i++) {
		snprintf(id, sizeof(id), "c%d", i);
		ck_ok(allocate(id, text));
	}
	ck_assert_int_eq(allocate("more", text), -ENOSPC);
	ck_assert_msg(strstr(err.text, "10.244.1.2 and 10.244.1.9: all 8"), "%s", err.text);
}
END_TEST

static void hold(const char *text)
{
	cleanup_ipam struct mk_ipam *ipam = open_ipam();
	const struct mk_ip ip = ip_of(text);

	ck_ok(mk_ipam_hold(ipam, &ip, &err));
}

/* An address that is held goes to nobody, and its file has no owner, until it is released. */
START_TEST(test_held)
{
	const struct mk_ip held = ip_of("10.244.1.2"), owned = ip_of("10.244.1.3");
	char text[MK_IP_STRLEN];
	struct mk_ipam *ipam;
	struct mk_ip next;

	hold("10.244.1.2");
	ck_ok(allocate("a", text));
	ck_assert_str_eq(text, "10.244.1.3");
	hold(text);
	ipam = open_ipam();
	ck_ok(mk_ipam_find(ipam, "a", "eth0", &next, &err));
	ck_assert(mk_ip_equal(&next, &owned));
	ck_assert(mk_ipam_is_allocated(ipam, &held));
	ck_assert(mk_ipam_next(ipam, &held, &held, &next) == false);
	ck_ok(mk_ipam_release_ip(ipam, &held, &err));
	ck_assert(mk_ipam_next(ipam, &held, &held, &next));
	mk_ipam_free(ipam);
	hold("10.244.1.2"); /* released before */
	ck_ok(allocate("b", text));
	ck_assert_str_eq(text, "10.244.1.4");
}
END_TEST

static const struct mk_ipam_owner senseless[] = {
	{ "", "eth0", "" },
	{ "c1", "", "" },
	{ "c\n1", "eth0", "" },
	{ "c1", "eth0", "/run/\n" },
};

START_TEST(test_owner_refused)
{
	cleanup_ipam struct mk_ipam *ipam = open_ipam();
	struct mk_ip ip;

	ck_assert_int_eq(mk_ipam_allocate(ipam, &first, &last, &senseless[_i], &ip, &err), -EINVAL);
	ck_assert_int_eq(count_names("."), 2); /* lock, released */
}
END_TEST

/* ---- what others left in the directory -------------------------------------------------------- */

struct walk {
	struct mk_ipam *ipam;
	int known, unknown;
	bool release_unknown;
};

static int walk_visit(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner)
{
	struct walk *walk = ctx;

	if (owner->container_id[0]) {
		walk->known++;
		return 0;
	}
	walk->unknown++;
	ck_assert_str_eq(owner->ifname, "");
	ck_assert_str_eq(owner->netns, "");
	return walk->release_unknown ? mk_ipam_release_ip(walk->ipam, ip, &err) : 0;
}

static const struct {
	const char *name, *content;
} garbled[] = {
	{ "empty, as after a power loss", "" },
	{ "one line", "c1\n" },
	{ "two lines", "c1\neth0\n" },
	{ "no newline at the end", "c1\neth0\n/run/netns/x" },
	{ "too much", "c1\neth0\n/run/netns/x\nmore\n" },
	{ "no container", "\neth0\n/run/netns/x\n" },
};

START_TEST(test_garbled)
{
	struct walk walk = { 0 };
	char text[MK_IP_STRLEN];
	cleanup_ipam struct mk_ipam *ipam = NULL;

	release("nobody"); /* makes the directory */
	write_file("10.244.1.2", garbled[_i].content);
	ck_ok(allocate("c1", text));
	ck_assert_msg(strcmp(text, "10.244.1.3") == 0, "%s: %s", garbled[_i].name, text);
	walk.ipam = ipam = open_ipam();
	walk.release_unknown = true;
	ck_ok(mk_ipam_each(ipam, walk_visit, &walk, &err));
	ck_assert_msg(walk.known == 1 && walk.unknown == 1, "%s: %d %d", garbled[_i].name,
		      walk.known, walk.unknown);
	ck_ok(mk_ipam_each(ipam, walk_visit, &walk, &err));
	ck_assert_msg(walk.known == 2 && walk.unknown == 1, "%s: not released", garbled[_i].name);
}
END_TEST

START_TEST(test_foreign)
{
	char text[MK_IP_STRLEN];

	release("nobody");
	write_file("README", "keep");
	write_file("10.244.1.02", "c9\neth0\n\n");
	write_file("released/notes", "keep");
	write_file("released/123-10.244.1.2", "");
	ck_assert_int_eq(mkdir(path_of("10.244.1.2"), 0700), 0);
	ck_assert_int_eq(symlink("/etc/passwd", path_of("10.244.1.3")), 0);
	ck_ok(allocate("c1", text));
	ck_assert_str_eq(text, "10.244.1.4");
	ck_assert_int_eq(access(path_of("README"), F_OK), 0);
	ck_assert_int_eq(access(path_of("released/notes"), F_OK), 0);
}
END_TEST

/* Both entries of one address, as a kill in mk_ipam_allocate() leaves them. */
START_TEST(test_leftovers)
{
	char text[MK_IP_STRLEN];

	release("nobody");
	write_file(".new", "c7\neth0\n\n");
	write_file("10.244.1.2", "c1\neth0\n\n");
	write_file("released/0000000000000007-10.244.1.2", "c0\neth0\n\n");
	write_file("released/0000000000000003-10.244.1.3", "");
	write_file("released/0000000000000009-10.244.1.3", "");
	release("nobody");
	ck_assert_int_ne(access(path_of(".new"), F_OK), 0);
	ck_assert_int_eq(count_names("released"), 1);
	ck_assert_int_eq(access(path_of("released/0000000000000009-10.244.1.3"), F_OK), 0);
	release("c1");
	ck_assert_int_eq(access(path_of("released/000000000000000a-10.244.1.2"), F_OK), 0);
	for (int i = 0; i < 6; i++) {
		snprintf(text, sizeof(text), "n%d", i);
		ck_ok(allocate(text, text));
	}
	ck_ok(allocate("x", text));
	ck_assert_str_eq(text, "10.244.1.3");
	ck_ok(allocate("y", text));
	ck_assert_str_eq(text, "10.244.1.2");
}
END_TEST

START_TEST(test_modes)
{
	char text[MK_IP_STRLEN];
	struct stat st;

	umask(0);
	ck_ok(allocate("c1", text));
	ck_assert_int_eq(stat(path_of("10.244.1.2"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	ck_assert_int_eq(stat(path_of("lock"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	ck_assert_int_eq(stat(path_of("released"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0700);
	ck_assert_int_eq(stat(path_of("."), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0700);
}
END_TEST

/* ---- the index of owners ------------------------------------------------------------------------ */

/* Names of addresses that were opened since @watch was made, one after the other. */
static void opened_addresses(int watch, char *names, size_t size)
{
	_Alignas(struct inotify_event) char buf[16384];
	ssize_t got = read(watch, buf, sizeof(buf));
	const struct inotify_event *event;

	*names = '\0';
	for (char *at = buf; at < buf + got; at += sizeof(*event) + event->len) {
		event = (const struct inotify_event *)at;
		if (event->len && strncmp(event->name, "10.", 3) == 0)
			snprintf(names + strlen(names), size - strlen(names), "%s ", event->name);
	}
}

/* However many pods there are, an ADD reads nobody's file, and a DEL the one of its own. */
START_TEST(test_reads_its_own_file_alone)
{
	char text[MK_IP_STRLEN], names[1024], id[16];
	cleanup_close int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	for (int i = 0; i < 5; i++) {
		snprintf(id, sizeof(id), "c%d", i);
		ck_ok(allocate(id, text));
	}
	ck_assert_int_ge(inotify_add_watch(watch, path_of("."), IN_OPEN), 0);
	ck_ok(allocate("more", text));
	opened_addresses(watch, names, sizeof(names));
	ck_assert_str_eq(names, "");
	release("c3");
	opened_addresses(watch, names, sizeof(names));
	ck_assert_str_eq(names, "10.244.1.5 ");
	ck_assert_int_eq(allocate("c2", text), -EEXIST);
	opened_addresses(watch, names, sizeof(names));
	ck_assert_str_eq(names, "10.244.1.4 ");
}
END_TEST

/* Files of a version that kept no index: it is made at once. */
START_TEST(test_index_is_made)
{
	char text[MK_IP_STRLEN], command[300];

	release("nobody");
	write_file("10.244.1.2", "c1\neth0\n\n");
	write_file("10.244.1.3", "c2\neth0\n\n");
	snprintf(command, sizeof(command), "rm -r %s", path_of(".owners"));
	ck_assert_int_eq(system(command), 0);
	if (_i) /* killed while it was made */
		ck_assert_int_eq(mkdir(path_of(".owners.new"), 0700), 0);
	ck_assert_int_eq(allocate("c2", text), -EEXIST);
	ck_assert_int_eq(count_names(".owners"), 2);
	ck_assert_int_ne(access(path_of(".owners.new"), F_OK), 0);
}
END_TEST

static int count_visit(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner)
{
	(void)ip;
	(void)owner;
	(*(int *)ctx)++;
	return 0;
}

static void repair_all(int expected)
{
	cleanup_ipam struct mk_ipam *ipam = open_ipam();
	int count = 0;

	ck_ok(mk_ipam_repair(ipam, &err));
	ck_ok(mk_ipam_each(ipam, count_visit, &count, &err));
	ck_assert_int_eq(count, expected);
}

/* A kill after the index was written and before the file: the entry leads nowhere, or to another's
 * address. It keeps nobody from anything, and goes with the next repair. */
START_TEST(test_index_leads_nowhere)
{
	char text[MK_IP_STRLEN];

	ck_ok(allocate("c1", text));
	ck_assert_int_eq(unlink(path_of("10.244.1.2")), 0);
	if (_i)
		write_file("10.244.1.2", "c2\neth0\n\n");
	ck_assert_int_eq(count_names(".owners"), 1);
	repair_all(_i);
	ck_assert_int_eq(count_names(".owners"), _i);
	ck_ok(allocate("c1", text));
	ck_assert_str_eq(text, _i ? "10.244.1.3" : "10.244.1.2");
	ck_assert_int_eq(unlink(path_of(text)), 0);
	ck_ok(allocate("c1", text)); /* without a repair, too */
	ck_assert_int_eq(count_names(".owners"), 1 + _i);
	release("c1");
	ck_assert_int_eq(count_names(".owners"), _i);
}
END_TEST

/* ---- disks that refuse ------------------------------------------------------------------------ */

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
	fd = open(path_of("filler"), O_WRONLY | O_CREAT, 0600);
	while (write(fd, filler, 4096) > 0)
		;
	close(fd);
	ck_assert_int_eq(allocate("c2", text), -EIO);
	ck_assert_msg(strstr(err.text, "No space left") && strstr(err.text, "10.244.1.3"), "%s",
		      err.text);
	ck_assert_int_ne(access(path_of(".new"), F_OK), 0);
	ck_assert_int_ne(access(path_of("10.244.1.3"), F_OK), 0);
	release("c1");
	ck_assert_int_eq(unlink(path_of("filler")), 0);
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

/* `monokube cleanup` while somebody waits for the lock: the waiter must not go on in the void. */
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
	usleep(20000); /* whether or not the child waits by then, the outcome is the same */
	ck_assert_int_eq(rename(path_of(""), moved), 0);
	mk_ipam_free(ipam);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(access(path_of("10.244.1.2"), F_OK), 0);
}
END_TEST

/* ---- killed at any instant -------------------------------------------------------------------- */

#define KILL_WORKERS 4
#define KILL_ROUNDS  400
#define KILL_RANGE   40

/* Who holds an address, as the workers themselves see it: set after allocating, cleared before
 * releasing. Two holders at once are a duplicate. */
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
	ret = ipam ? mk_ipam_allocate(ipam, &first, &last,
				      &(struct mk_ipam_owner){ text, "eth0", "/run/netns/x" }, &ip,
				      NULL)
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
		return mk_ipam_free(ipam); /* this one stays, as a running pod's */
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

/* Keep the range from filling up: every now and then all that is allocated goes, as GC would. */
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
	ck_assert_int_le(walk.known + count_names("released"), KILL_RANGE);
}

START_TEST(test_killed)
{
	struct holders *holders = mmap(NULL, sizeof(*holders), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pids[KILL_WORKERS];
	unsigned int seed = 1;
	char id[16], text[MK_IP_STRLEN];

	ck_assert_ptr_ne(holders, MAP_FAILED);
	atomic_store(&holders->next_id, 1);
	last = ip_of("10.244.1.41");
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
	/* no address is lost: all of them can be had once more */
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

	last = ip_of("10.244.1.65"); /* exactly 64 */
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

int main(void)
{
	Suite *suite = suite_create("ipam");
	TCase *tc = tcase_create("directory");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_loop_test(tc, test_order, 0, MK_ARRAY_SIZE(orders));
	tcase_add_test(tc, test_one_address_per_owner);
	tcase_add_test(tc, test_find_release);
	tcase_add_test(tc, test_full_says_how_many);
	tcase_add_test(tc, test_held);
	tcase_add_loop_test(tc, test_owner_refused, 0, MK_ARRAY_SIZE(senseless));
	tcase_add_loop_test(tc, test_garbled, 0, MK_ARRAY_SIZE(garbled));
	tcase_add_test(tc, test_foreign);
	tcase_add_test(tc, test_leftovers);
	tcase_add_test(tc, test_modes);
	tcase_add_test(tc, test_reads_its_own_file_alone);
	tcase_add_loop_test(tc, test_index_is_made, 0, 2);
	tcase_add_loop_test(tc, test_index_leads_nowhere, 0, 2);
	tcase_add_test(tc, test_disk_full);
	tcase_add_test(tc, test_read_only);
	tcase_add_test(tc, test_removed_while_waiting);
	tcase_add_test(tc, test_killed);
	tcase_add_test(tc, test_64_at_once);
	suite_add_tcase(suite, tc);
	return unit_run(suite);
}
