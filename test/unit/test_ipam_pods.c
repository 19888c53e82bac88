// SPDX-License-Identifier: Apache-2.0
/* The Pod in an address file: files of this version and of earlier ones, read with and without the
 * directory's lock. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "unit/ipam_fixture.h"

/* What a file says, as "container ifname netns host_ports|uid namespace name". */
static const struct {
	const char *name, *content, *owner; /* "": unknown */
} files[] = {
	{ "earlier version", "c1\neth0\n/n\n", "c1 eth0 /n |  " },
	{ "earlier version, host ports", "c1\neth0\n/n\n0.0.0.0:80/tcp=80\n",
	  "c1 eth0 /n 0.0.0.0:80/tcp=80|  " },
	{ "a Pod", "c1\neth0\n/n\n\n7a1c\nshop\nweb\n", "c1 eth0 /n |7a1c shop web" },
	{ "a Pod with host ports", "c1\neth0\n/n\n0.0.0.0:80/tcp=80\n7a1c\nshop\nweb\n",
	  "c1 eth0 /n 0.0.0.0:80/tcp=80|7a1c shop web" },
	{ "no UID", "c1\neth0\n/n\n\n\nshop\nweb\n", "c1 eth0 /n | shop web" },
	{ "no network namespace", "c1\neth0\n\n\n\nshop\nweb\n", "c1 eth0  | shop web" },
	{ "no name", "c1\neth0\n/n\n\n7a1c\nshop\n\n", "" },
	{ "no namespace", "c1\neth0\n/n\n\n7a1c\n\nweb\n", "" },
	{ "name cut", "c1\neth0\n/n\n\n7a1c\nshop\n", "" },
	{ "no newline at the end", "c1\neth0\n/n\n\n7a1c\nshop\nweb", "" },
	{ "too much", "c1\neth0\n/n\n\n7a1c\nshop\nweb\nmore\n", "" },
};

static char seen[256];

static int see(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner)
{
	char text[MK_IP_STRLEN];

	++*(int *)ctx;
	ck_assert_str_eq(mk_ip_format(ip, text), "10.244.1.2");
	snprintf(seen, sizeof(seen), "%s %s %s %s|%s %s %s", owner->container_id, owner->ifname,
		 owner->netns, owner->host_ports, owner->uid, owner->namespace_, owner->name);
	return 0;
}

START_TEST(test_files)
{
	cleanup_ipam struct mk_ipam *ipam = NULL;
	bool unknown = !files[_i].owner[0];
	int count = 0;

	release("nobody"); /* makes the directory */
	ipam_write("10.244.1.2", files[_i].content);
	ck_ok(mk_ipam_peek_each(state_dir, see, &count, &err));
	ck_assert_msg(count == !unknown, "%s", files[_i].name);
	ck_assert_msg(strcmp(seen, files[_i].owner) == 0, "%s: %s", files[_i].name, seen);
	ipam = open_ipam();
	ck_ok(mk_ipam_each(ipam, see, &count, &err));
	ck_assert_msg(strcmp(seen, unknown ? "   |  " : files[_i].owner) == 0, "%s: %s",
		      files[_i].name, seen);
}
END_TEST

static void ck_file(const char *name, const char *content)
{
	cleanup_fclose FILE *file = fopen(ipam_path(name), "re");
	char text[256];
	size_t got;

	ck_assert_ptr_nonnull(file);
	got = fread(text, 1, sizeof(text) - 1, file);
	text[got] = '\0';
	ck_assert_str_eq(text, content);
}

static const struct {
	struct mk_ipam_owner owner;
	const char *content; /* NULL: refused */
} written[] = {
	{ { .namespace_ = "shop", .name = "web", .uid = "7a1c" },
	  "c1\neth0\n/n\n\n7a1c\nshop\nweb\n" },
	{ { .namespace_ = "shop", .name = "web", .host_ports = "0.0.0.0:80/tcp=80" },
	  "c1\neth0\n/n\n0.0.0.0:80/tcp=80\n\nshop\nweb\n" },
	{ { .uid = "7a1c" }, "c1\neth0\n/n\n" },
	{ { .namespace_ = "", .name = "", .uid = "" }, "c1\neth0\n/n\n" },
	{ { .namespace_ = "shop", .name = "" }, NULL },
	{ { .name = "web" }, NULL },
	{ { .namespace_ = "shop", .name = "we\nb" }, NULL },
	{ { .namespace_ = "sh\nop", .name = "web" }, NULL },
	{ { .namespace_ = "shop", .name = "web", .uid = "\n" }, NULL },
};

START_TEST(test_written)
{
	struct mk_ipam_owner owner = written[_i].owner;
	cleanup_ipam struct mk_ipam *ipam = open_ipam();
	struct mk_ip ip;
	int ret;

	owner.container_id = "c1";
	owner.ifname = "eth0";
	owner.netns = "/n";
	ret = mk_ipam_allocate(ipam, &pool, &owner, &ip, &err);
	if (!written[_i].content) {
		ck_assert_int_eq(ret, -EINVAL);
		return;
	}
	ck_ok(ret);
	ck_file("10.244.1.2", written[_i].content);
	ck_ok(mk_ipam_find(ipam, "c1", "eth0", &ip, &err));
}
END_TEST

static int see_second(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner)
{
	(void)ip;
	*(struct mk_ip *)ctx = owner->second;
	return 7;
}

/* A result of the visitor other than 0 ends the walk. The lock may be held. */
START_TEST(test_peek_second)
{
	const struct mk_ip wanted = ip_of("fd00:10:244:1::2");
	cleanup_ipam struct mk_ipam *ipam = NULL;
	struct mk_ip second = { 0 };
	char text[MK_IP_STRLEN];

	pool.second = wanted;
	ck_ok(allocate("c1", text));
	ck_ok(allocate("c2", text));
	ipam = open_ipam();
	ck_assert_int_eq(mk_ipam_peek_each(state_dir, see_second, &second, &err), 7);
	ck_assert(second.family == AF_INET6);
	pool.second = (struct mk_ip){ 0 };
}
END_TEST

/* Without the directory there are no pods. Any other error is one: no pod must seem gone. */
START_TEST(test_peek_errors)
{
	int count = 0;

	ck_ok(mk_ipam_peek_each(state_dir, see, &count, &err));
	ck_assert_int_eq(mk_ipam_peek_each("/proc/version", see, &count, &err), -ENOTDIR);
	ck_assert_msg(strstr(err.text, "/proc/version/ipam"), "%s", err.text);
	ck_assert_int_eq(count, 0);
}
END_TEST

UNIT_SUITE("ipam_pods")
{
	TCase *tc = unit_case(suite, "files", ipam_setup, ipam_teardown);

	tcase_add_loop_test(tc, test_files, 0, MK_ARRAY_SIZE(files));
	tcase_add_loop_test(tc, test_written, 0, MK_ARRAY_SIZE(written));
	tcase_add_test(tc, test_peek_second);
	tcase_add_test(tc, test_peek_errors);
}
