// SPDX-License-Identifier: Apache-2.0
/* The address directory: the order of reuse, the effect of a bad file, the index of owners. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "pod/ipam/directory.h"
#include "unit/ipam_fixture.h"

/* ---- order ----------------------------------------------------------------------------------- */

/* A script of `+name` (allocate) and `-name` (release), and the last digit of each allocation's
 * address; 0: none left. */
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

static void use_ipv6(void)
{
	pool.first = ip_of("fd00:10:244:1::2");
	pool.last = ip_of("fd00:10:244:1::9");
}

/* Each row, first for IPv4 and then for IPv6. */
START_TEST(test_order)
{
	size_t index = (size_t)_i % MK_ARRAY_SIZE(orders);
	bool ipv6 = (size_t)_i >= MK_ARRAY_SIZE(orders);
	const char *row = orders[index].name;
	char text[MK_IP_STRLEN], wanted[MK_IP_STRLEN];

	if (ipv6)
		use_ipv6();
	for (int i = 0; orders[index].steps[i]; i++) {
		const char *step = orders[index].steps[i];
		int address = orders[index].addresses[i], ret;

		if (step[0] == '-') {
			release(step + 1);
			continue;
		}
		ret = allocate(step + 1, text);
		if (!address) {
			ck_assert_msg(ret == -ENOSPC, "%s: step %d (%s): %d", row, i, step, ret);
			continue;
		}
		snprintf(wanted, sizeof(wanted), "%s%d", ipv6 ? "fd00:10:244:1::" : "10.244.1.",
			 address);
		ck_assert_msg(ret == 0, "%s: step %d (%s): %s", row, i, step, mk_error_text(&err));
		ck_assert_msg(strcmp(text, wanted) == 0, "%s: step %d (%s): got %s, wanted %s", row,
			      i, step, text, wanted);
	}
}
END_TEST

START_TEST(test_one_address_per_owner)
{
	const struct mk_ipam_owner owner = { .container_id = "c1", .ifname = "eth0", .netns = "" };
	cleanup_ipam struct mk_ipam *ipam = open_ipam();
	struct mk_ip ip, again;

	ck_ok(mk_ipam_allocate(ipam, &pool, &owner, &ip, &err));
	ck_assert_int_eq(mk_ipam_allocate(ipam, &pool, &owner, &again, &err), -EEXIST);
	ck_assert_msg(strstr(err.text, "10.244.1.2") && strstr(err.text, "c1"), "%s", err.text);
	ck_assert(mk_ip_equal(&ip, &again));
	/* another interface of the same container is another owner */
	ck_ok(mk_ipam_allocate(
		ipam, &pool,
		&(struct mk_ipam_owner){ .container_id = "c1", .ifname = "eth1", .netns = "" },
		&again, &err));
	ck_assert(!mk_ip_equal(&ip, &again));
}
END_TEST

static int see_ports(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner)
{
	(void)ip;
	snprintf(ctx, 64, "%s %s", owner->netns, owner->host_ports);
	return 0;
}

/* Host ports are stored with the address, and removed with it. */
START_TEST(test_host_ports)
{
	const struct mk_ipam_owner owner = { .container_id = "c1",
					     .ifname = "eth0",
					     .netns = "/run/netns/x",
					     .host_ports = "0.0.0.0:80/tcp=8080" };
	char text[MK_IP_STRLEN], seen[64] = "";
	struct mk_ipam *ipam = open_ipam();
	struct mk_ip ip;

	ck_ok(mk_ipam_allocate(ipam, &pool, &owner, &ip, &err));
	mk_ipam_free(ipam);
	ipam = open_ipam();
	ck_ok(mk_ipam_each(ipam, see_ports, seen, &err));
	mk_ipam_free(ipam);
	ck_assert_str_eq(seen, "/run/netns/x 0.0.0.0:80/tcp=8080");
	release("c1");
	ck_ok(allocate("c2", text));
	ipam = open_ipam();
	ck_ok(mk_ipam_each(ipam, see_ports, seen, &err));
	mk_ipam_free(ipam);
	ck_assert_str_eq(seen, "/run/netns/x ");
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
		ck_assert(mk_ip_equal(&ip, &pool.first));
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

/* A reserved address is not assigned, and its file has no owner, until it is released. */
START_TEST(test_held)
{
	const struct mk_ip held = ip_of("10.244.1.2"), owned = ip_of("10.244.1.3");
	char text[MK_IP_STRLEN];
	struct mk_ipam *ipam;
	const struct mk_ipam_pool one = { .first = held, .last = held };
	struct mk_ip next;

	hold("10.244.1.2");
	ck_ok(allocate("a", text));
	ck_assert_str_eq(text, "10.244.1.3");
	hold(text);
	ipam = open_ipam();
	ck_ok(mk_ipam_find(ipam, "a", "eth0", &next, &err));
	ck_assert(mk_ip_equal(&next, &owned));
	ck_assert(mk_ipam_is_allocated(ipam, &held));
	ck_assert(mk_ipam_next(ipam, &one, &next) == false);
	ck_ok(mk_ipam_release_ip(ipam, &held, &err));
	ck_assert(mk_ipam_next(ipam, &one, &next));
	mk_ipam_free(ipam);
	hold("10.244.1.2"); /* released before */
	ck_ok(allocate("b", text));
	ck_assert_str_eq(text, "10.244.1.4");
}
END_TEST

static const struct mk_ipam_owner senseless[] = {
	{ .container_id = "", .ifname = "eth0", .netns = "" },
	{ .container_id = "c1", .ifname = "", .netns = "" },
	{ .container_id = "c\n1", .ifname = "eth0", .netns = "" },
	{ .container_id = "c1", .ifname = "eth0", .netns = "/run/\n" },
	{ .container_id = "c1", .ifname = "eth0", .netns = "", .host_ports = "\n" },
};

START_TEST(test_owner_refused)
{
	cleanup_ipam struct mk_ipam *ipam = open_ipam();
	struct mk_ip ip;

	ck_assert_int_eq(mk_ipam_allocate(ipam, &pool, &senseless[_i], &ip, &err), -EINVAL);
	ck_assert_int_eq(count_names("."), 2); /* lock, released */
}
END_TEST

/* ---- what others left in the directory ------------------------------------------------------- */

static const struct {
	const char *name, *content;
} garbled[] = {
	{ "empty, as after a power loss", "" },
	{ "one line", "c1\n" },
	{ "two lines", "c1\neth0\n" },
	{ "no newline at the end", "c1\neth0\n/run/netns/x" },
	{ "too much", "c1\neth0\n/run/netns/x\n0.0.0.0:80/tcp=80\nmore\n" },
	{ "host ports cut", "c1\neth0\n/run/netns/x\n0.0.0.0:80" },
	{ "no container", "\neth0\n/run/netns/x\n" },
};

START_TEST(test_garbled)
{
	struct walk walk = { 0 };
	char text[MK_IP_STRLEN];
	cleanup_ipam struct mk_ipam *ipam = NULL;

	release("nobody"); /* makes the directory */
	ipam_write("10.244.1.2", garbled[_i].content);
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
	ipam_write("README", "keep");
	ipam_write("10.244.1.02", "c9\neth0\n\n");
	ipam_write("released/notes", "keep");
	ipam_write("released/123-10.244.1.2", "");
	ck_assert_int_eq(mkdir(ipam_path("10.244.1.2"), 0700), 0);
	ck_assert_int_eq(symlink("/etc/passwd", ipam_path("10.244.1.3")), 0);
	ck_ok(allocate("c1", text));
	ck_assert_str_eq(text, "10.244.1.4");
	ck_assert_int_eq(access(ipam_path("README"), F_OK), 0);
	ck_assert_int_eq(access(ipam_path("released/notes"), F_OK), 0);
}
END_TEST

/* Both entries of one address, as a kill in mk_ipam_allocate() leaves them. */
START_TEST(test_leftovers)
{
	char text[MK_IP_STRLEN];

	release("nobody");
	ipam_write(".new", "c7\neth0\n\n");
	ipam_write("10.244.1.2", "c1\neth0\n\n");
	ipam_write("released/0000000000000007-10.244.1.2", "c0\neth0\n\n");
	ipam_write("released/0000000000000003-10.244.1.3", "");
	ipam_write("released/0000000000000009-10.244.1.3", "");
	release("nobody");
	ck_assert_int_ne(access(ipam_path(".new"), F_OK), 0);
	ck_assert_int_eq(count_names("released"), 1);
	ck_assert_int_eq(access(ipam_path("released/0000000000000009-10.244.1.3"), F_OK), 0);
	release("c1");
	ck_assert_int_eq(access(ipam_path("released/000000000000000a-10.244.1.2"), F_OK), 0);
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
	ck_assert_int_eq(stat(ipam_path("10.244.1.2"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	ck_assert_int_eq(stat(ipam_path("lock"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	ck_assert_int_eq(stat(ipam_path("released"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0700);
	ck_assert_int_eq(stat(ipam_path("."), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0700);
}
END_TEST

/* ---- the index of owners --------------------------------------------------------------------- */

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

/* With any number of pods, ADD reads no owner's file and DEL only its own. */
START_TEST(test_reads_its_own_file_alone)
{
	char text[MK_IP_STRLEN], names[1024], id[16];
	cleanup_close int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	for (int i = 0; i < 5; i++) {
		snprintf(id, sizeof(id), "c%d", i);
		ck_ok(allocate(id, text));
	}
	ck_assert_int_ge(inotify_add_watch(watch, ipam_path("."), IN_OPEN), 0);
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

/* Files of a version without index: the index is made at once. */
START_TEST(test_index_is_made)
{
	char text[MK_IP_STRLEN], command[300];

	release("nobody");
	ipam_write("10.244.1.2", "c1\neth0\n\n");
	ipam_write("10.244.1.3", "c2\neth0\n\n");
	snprintf(command, sizeof(command), "rm -r %s", ipam_path(".owners"));
	ck_assert_int_eq(system(command), 0);
	if (_i) /* killed while it was being made */
		ck_assert_int_eq(mkdir(ipam_path(".owners.new"), 0700), 0);
	ck_assert_int_eq(allocate("c2", text), -EEXIST);
	ck_assert_int_eq(count_names(".owners"), 2);
	ck_assert_int_ne(access(ipam_path(".owners.new"), F_OK), 0);
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

/* A kill after writing the index and before writing the file: the entry leads nowhere, or to
 * another owner's address. It does no harm, and the next repair removes it. */
START_TEST(test_index_leads_nowhere)
{
	char text[MK_IP_STRLEN];

	ck_ok(allocate("c1", text));
	ck_assert_int_eq(unlink(ipam_path("10.244.1.2")), 0);
	if (_i)
		ipam_write("10.244.1.2", "c2\neth0\n\n");
	ck_assert_int_eq(count_names(".owners"), 1);
	repair_all(_i);
	ck_assert_int_eq(count_names(".owners"), _i);
	ck_ok(allocate("c1", text));
	ck_assert_str_eq(text, _i ? "10.244.1.3" : "10.244.1.2");
	ck_assert_int_eq(unlink(ipam_path(text)), 0);
	ck_ok(allocate("c1", text)); /* without a repair, too */
	ck_assert_int_eq(count_names(".owners"), 1 + _i);
	release("c1");
	ck_assert_int_eq(count_names(".owners"), _i);
}
END_TEST

/* ---- IPv6 ------------------------------------------------------------------------------------ */

#define V6_2 "fd000010024400010000000000000002"

START_TEST(test_ipv6)
{
	char text[MK_IP_STRLEN];
	struct mk_ipam *ipam;
	struct mk_ip ip;

	use_ipv6();
	ck_ok(allocate("c1", text));
	ck_assert_int_eq(access(ipam_path(V6_2), F_OK), 0);
	ck_assert_int_eq(count_names(".owners"), 1);
	ipam_write("fd00:10:244:1::3", "c9\neth0\n\n"); /* other forms are not ours */
	ipam_write("FD000010024400010000000000000003", "c9\neth0\n\n");
	ipam = open_ipam();
	ck_ok(mk_ipam_find(ipam, "c1", "eth0", &ip, &err));
	ck_assert(mk_ip_equal(&ip, &pool.first));
	ck_ok(mk_ipam_repair(ipam, &err));
	mk_ipam_free(ipam);
	ck_assert_int_eq(count_names(".owners"), 1);
	ck_ok(allocate("c2", text));
	ck_assert_str_eq(text, "fd00:10:244:1::3");
	release("c1");
	ck_assert_int_eq(access(ipam_path("released/0000000000000001-" V6_2), F_OK), 0);
}
END_TEST

/* Text of an address: its name; NULL: not a name. */
static const struct {
	const char *ip, *name;
} names[] = {
	{ "10.244.1.7", "10.244.1.7" },
	{ "fd00:10:244:1::2", V6_2 },
	{ "::", "00000000000000000000000000000000" },
	{ "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffffffffffffffffffffffffffffffff" },
	{ NULL, "fd00001002440001000000000000000" },
	{ NULL, "fd0000100244000100000000000000022" },
	{ NULL, "fd00001002440001000000000000000g" },
	{ NULL, "::1" },
	{ NULL, "10.244.1.07" },
	{ NULL, "" },
};

START_TEST(test_name)
{
	char name[MK_IPAM_ADDRESS_BYTES];
	struct mk_ip ip, wanted;
	int ret = ipam_name_parse(names[_i].name, &ip);

	ck_assert_msg(ret == (names[_i].ip ? 0 : -EINVAL), "%s: %d", names[_i].name, ret);
	if (!names[_i].ip)
		return;
	wanted = ip_of(names[_i].ip);
	ck_assert_msg(mk_ip_equal(&ip, &wanted), "%s", names[_i].name);
	ck_assert_str_eq(mk_ipam_name(&ip, name), names[_i].name);
}
END_TEST

/* ---- pods of two families -------------------------------------------------------------------- */

static struct mk_ip second_of(const char *address)
{
	cleanup_ipam struct mk_ipam *ipam = open_ipam();
	const struct mk_ip ip = ip_of(address);
	struct mk_ip found;

	if (mk_ipam_find(ipam, "a", "eth0", &found, &err) < 0 || !mk_ip_equal(&found, &ip))
		return (struct mk_ip){ 0 };
	return mk_ipam_second(ipam, &ip);
}

static bool is_allocated(const char *address)
{
	cleanup_ipam struct mk_ipam *ipam = open_ipam();
	const struct mk_ip ip = ip_of(address);

	return mk_ipam_is_allocated(ipam, &ip);
}

static int see_second(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner)
{
	(void)ip;
	*(struct mk_ip *)ctx = owner->second;
	return 0;
}

/* The file of the first address has the lines that earlier versions know. */
START_TEST(test_two)
{
	char text[MK_IP_STRLEN], file[128] = "";
	const struct mk_ip second = ip_of("fd00:10:244:1::ff03");
	struct mk_ipam *ipam;
	struct mk_ip seen = { 0 };
	cleanup_close int fd = -1;

	pool.second = ip_of("fd00:10:244:1::ff02");
	ck_ok(allocate("z", text));
	ck_ok(allocate("a", text));
	ck_assert_str_eq(text, "10.244.1.3");
	fd = open(ipam_path(text), O_RDONLY | O_CLOEXEC);
	ck_assert_int_gt(read(fd, file, sizeof(file) - 1), 0);
	ck_assert_str_eq(file, "a\neth0\n/run/netns/x\n");
	seen = second_of(text);
	ck_assert(mk_ip_equal(&seen, &second));
	ck_assert(is_allocated("fd00:10:244:1::ff03") && !is_allocated("fd00:10:244:1::ff04"));
	release("z");
	ipam = open_ipam();
	ck_ok(mk_ipam_each(ipam, see_second, &seen, &err));
	ck_assert(mk_ip_equal(&seen, &second));
	ck_assert(mk_ipam_is_allocated(ipam, &second));
	ck_ok(mk_ipam_release(ipam, "a", "eth0", &err));
	ck_assert(!mk_ipam_is_allocated(ipam, &second));
	mk_ipam_free(ipam);
	ck_assert(!is_allocated("fd00:10:244:1::ff03"));
	ck_assert_int_eq(count_names(".both"), 0);
}
END_TEST

/* Entries in .both that do not count: an earlier version does not know them. */
static const struct {
	const char *name, *entry;
} strange_both[] = {
	{ "the pod of an earlier version", NULL },
	{ "the pod of an earlier version in place of another",
	  "b/fd000010024400010000000000000002" },
	{ "no address", "a" },
	{ "an address that makes no sense", "a/fd00::2" },
	{ "of no container", "/fd000010024400010000000000000002" },
};

START_TEST(test_strange_both)
{
	char text[MK_IP_STRLEN];
	struct mk_ipam *ipam;

	pool.second = ip_of("fd00:10:244:1::2");
	ck_ok(allocate("a", text));
	ck_assert(is_allocated("fd00:10:244:1::2"));
	ck_assert_int_eq(unlink(ipam_path(".both/10.244.1.2")), 0);
	if (strange_both[_i].entry)
		ck_assert_int_eq(symlink(strange_both[_i].entry, ipam_path(".both/10.244.1.2")), 0);
	ck_assert_msg(second_of(text).family == AF_UNSPEC, "%s", strange_both[_i].name);
	ck_assert_msg(!is_allocated("fd00:10:244:1::2"), "%s", strange_both[_i].name);
	ipam = open_ipam();
	ck_ok(mk_ipam_repair(ipam, &err));
	mk_ipam_free(ipam);
	ck_assert_int_eq(count_names(".both"), 0);
}
END_TEST

/* An earlier version removed the pod, and another pod got the address. */
START_TEST(test_address_of_two_again)
{
	char text[MK_IP_STRLEN];

	pool.last = pool.first;
	pool.second = ip_of("fd00:10:244:1::2");
	ck_ok(allocate("a", text));
	ck_assert_int_eq(unlink(ipam_path(text)), 0);
	pool.second = (struct mk_ip){ 0 };
	ck_ok(allocate("a", text));
	ck_assert_int_eq(second_of(text).family, AF_UNSPEC);
	ck_assert_int_eq(count_names(".both"), 0);
}
END_TEST

/* A number is taken if its second address is. */
START_TEST(test_second_is_held)
{
	char text[MK_IP_STRLEN];

	pool.second = ip_of("fd00:10:244:1::2");
	hold("fd00:10:244:1::2");
	ck_ok(allocate("a", text));
	ck_assert_str_eq(text, "10.244.1.3");
}
END_TEST

UNIT_SUITE("ipam")
{
	TCase *tc = unit_case(suite, "directory", ipam_setup, ipam_teardown);

	tcase_add_loop_test(tc, test_order, 0, 2 * MK_ARRAY_SIZE(orders));
	tcase_add_test(tc, test_one_address_per_owner);
	tcase_add_test(tc, test_host_ports);
	tcase_add_test(tc, test_find_release);
	tcase_add_test(tc, test_full_says_how_many);
	tcase_add_test(tc, test_held);
	tcase_add_loop_test(tc, test_owner_refused, 0, MK_ARRAY_SIZE(senseless));
	tcase_add_loop_test(tc, test_garbled, 0, MK_ARRAY_SIZE(garbled));
	tcase_add_test(tc, test_foreign);
	tcase_add_test(tc, test_leftovers);
	tcase_add_test(tc, test_ipv6);
	tcase_add_loop_test(tc, test_name, 0, MK_ARRAY_SIZE(names));
	tcase_add_test(tc, test_modes);
	tcase_add_test(tc, test_reads_its_own_file_alone);
	tcase_add_loop_test(tc, test_index_is_made, 0, 2);
	tcase_add_loop_test(tc, test_index_leads_nowhere, 0, 2);
	tcase_add_test(tc, test_two);
	tcase_add_loop_test(tc, test_strange_both, 0, MK_ARRAY_SIZE(strange_both));
	tcase_add_test(tc, test_address_of_two_again);
	tcase_add_test(tc, test_second_is_held);
}
