// SPDX-License-Identifier: Apache-2.0
#include "unit/ipam_fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

char state_dir[64];
struct mk_ipam_pool pool;

struct mk_error err;

void ipam_setup(void)
{
	snprintf(state_dir, sizeof(state_dir), "/tmp/mk-test-ipam-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(state_dir));
	pool.first = ip_of("10.244.1.2");
	pool.last = ip_of("10.244.1.9");
}

void ipam_teardown(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", state_dir);
	ck_assert_int_eq(system(command), 0);
}

struct mk_ipam *open_ipam(void)
{
	struct mk_ipam *ipam = mk_ipam_open(state_dir, &err);

	ck_assert_msg(ipam != NULL, "%s", mk_error_text(&err));
	return ipam;
}

int allocate(const char *container_id, char *text)
{
	const struct mk_ipam_owner owner = { .container_id = container_id,
					     .ifname = "eth0",
					     .netns = "/run/netns/x" };
	cleanup_ipam struct mk_ipam *ipam = open_ipam();
	struct mk_ip ip;
	int ret = mk_ipam_allocate(ipam, &pool, &owner, &ip, &err);

	if (ret == 0)
		mk_ip_format(&ip, text);
	return ret;
}

void release(const char *container_id)
{
	cleanup_ipam struct mk_ipam *ipam = open_ipam();

	ck_ok(mk_ipam_release(ipam, container_id, "eth0", &err));
}

const char *ipam_path(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/ipam/%s", state_dir, name);
	return path;
}

void ipam_write(const char *name, const char *content)
{
	cleanup_close int fd = open(ipam_path(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	ck_assert_msg(fd >= 0, "%s: %s", name, strerror(errno));
	ck_assert_int_eq(write(fd, content, strlen(content)), (ssize_t)strlen(content));
}

int count_names(const char *name)
{
	cleanup_closedir DIR *dir = opendir(ipam_path(name));
	struct dirent *entry;
	int count = 0;

	ck_assert_ptr_nonnull(dir);
	while ((entry = readdir(dir)))
		count += entry->d_name[0] != '.' || strcmp(entry->d_name, ".new") == 0;
	return count;
}

int walk_visit(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner)
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
