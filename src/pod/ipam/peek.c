// SPDX-License-Identifier: Apache-2.0
/* src/pod/ipam/peek.c - reads the address directory without its lock. */
#include "pod/ipam/ipam.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "pod/ipam/directory.h"

/* ---- addresses ------------------------------------------------------------------------------- */

struct any {
	bool (*visit)(void *ctx, const struct mk_ip *ip);
	void *ctx;
	DIR *dir; /* of the addresses */
};

static bool any_first(const struct any *any, const char *name)
{
	struct mk_ip ip;

	return ipam_name_parse(name, &ip) == 0 && any->visit(any->ctx, &ip);
}

/* @name is in .both. */
static bool any_second(const struct any *any, int both_fd, const char *name)
{
	char container_id[MK_IPAM_BOTH_BYTES];
	struct mk_ip second;

	return faccessat(dirfd(any->dir), name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 &&
	       ipam_both_read(both_fd, name, container_id, &second) &&
	       any->visit(any->ctx, &second);
}

static bool any_in_both(const struct any *any)
{
	cleanup_closedir DIR *both = NULL;
	cleanup_close int fd = openat(dirfd(any->dir), MK_IPAM_BOTH,
				      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const struct dirent *entry;
	bool found = false;

	both = fd >= 0 ? fdopendir(fd) : NULL;
	if (!both)
		return false;
	mk_steal_fd(&fd);
	while (!found && (entry = readdir(both)))
		found = any_second(any, dirfd(both), entry->d_name);
	return found;
}

bool mk_ipam_any(const char *state_dir, bool (*visit)(void *ctx, const struct mk_ip *ip), void *ctx)
{
	char path[PATH_MAX];
	cleanup_closedir DIR *dir = NULL;
	struct any any = { .visit = visit, .ctx = ctx };
	const struct dirent *entry;
	bool found = false;

	if (snprintf(path, sizeof(path), "%s/ipam", state_dir) < (int)sizeof(path))
		any.dir = dir = opendir(path);
	while (dir && !found && (entry = readdir(dir)))
		found = any_first(&any, entry->d_name);
	return found || (dir && any_in_both(&any));
}

struct mk_ip mk_ipam_peek_second(const char *state_dir, const struct mk_ip *ip,
				 const char *container_id)
{
	char path[PATH_MAX], name[MK_IPAM_ADDRESS_BYTES], owner[MK_IPAM_BOTH_BYTES];
	cleanup_close int fd = -1;
	struct mk_ip second;

	if (snprintf(path, sizeof(path), "%s/ipam/" MK_IPAM_BOTH, state_dir) < (int)sizeof(path))
		fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && ipam_both_read(fd, mk_ipam_name(ip, name), owner, &second) &&
	    strcmp(owner, container_id) == 0)
		return second;
	return (struct mk_ip){ 0 };
}

/* ---- owners ---------------------------------------------------------------------------------- */

struct peeking {
	const char *state_dir;
	int dir_fd;
	int (*visit)(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner);
	void *ctx;
};

static int peek_at(const struct peeking *peeking, const char *name, struct mk_error *err)
{
	cleanup_free char *text = NULL;
	struct mk_ipam_owner owner;
	struct mk_ip ip;

	if (ipam_name_parse(name, &ip) < 0)
		return 0;
	text = ipam_owner_read(peeking->dir_fd, name);
	if (!text)
		return mk_error_errno(err, errno, "cannot read '%s/ipam/%s'", peeking->state_dir,
				      name);
	ipam_owner_parse(&owner, text);
	if (!owner.container_id[0])
		return 0;
	owner.second = mk_ipam_peek_second(peeking->state_dir, &ip, owner.container_id);
	return peeking->visit(peeking->ctx, &ip, &owner);
}

int mk_ipam_peek_each(const char *state_dir,
		      int (*visit)(void *ctx, const struct mk_ip *ip,
				   const struct mk_ipam_owner *owner),
		      void *ctx, struct mk_error *err)
{
	struct peeking peeking = { .state_dir = state_dir, .visit = visit, .ctx = ctx };
	cleanup_closedir DIR *dir = NULL;
	const struct dirent *entry;
	char path[PATH_MAX];
	int ret = 0;

	if (snprintf(path, sizeof(path), "%s/ipam", state_dir) >= (int)sizeof(path))
		return mk_error_errno(err, ENAMETOOLONG, "state directory '%s'", state_dir);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? 0 : mk_error_errno(err, errno, "cannot list '%s'", path);
	peeking.dir_fd = dirfd(dir);
	for (errno = 0; ret == 0 && (entry = readdir(dir)); errno = 0)
		ret = peek_at(&peeking, entry->d_name, err);
	if (ret == 0 && errno)
		return mk_error_errno(err, errno, "cannot list '%s'", path);
	return ret;
}
