// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"

int mk_mkdirs(const char *path, mode_t mode, struct mk_error *err)
{
	char part[PATH_MAX];

	if (snprintf(part, sizeof(part), "%s", path) >= (int)sizeof(part))
		return mk_error_set(err, ENAMETOOLONG, "cannot create directory '%s'", path);
	for (char *slash = strchr(part + 1, '/');; slash = strchr(slash + 1, '/')) {
		if (slash)
			*slash = '\0';
		if (mkdir(part, mode) < 0 && errno != EEXIST)
			return mk_error_errno(err, errno, "cannot create directory '%s'", part);
		if (!slash)
			return 0;
		*slash = '/';
	}
}

static int read_fd(int fd, const char *path, size_t max_bytes, char **data, size_t *size,
		   struct mk_error *err)
{
	cleanup_free char *buf = NULL;
	size_t room = 0, used = 0;
	ssize_t got;

	do {
		if (room - used < 2) {
			room = room ? room * 2 : 4096;
			char *bigger = realloc(buf, room);

			if (!bigger)
				return mk_error_errno(err, ENOMEM, "cannot read '%s'", path);
			buf = bigger;
		}
		got = read(fd, buf + used, room - used - 1);
		if (got < 0)
			return mk_error_errno(err, errno, "cannot read '%s'", path);
		used += (size_t)got;
		if (used > max_bytes)
			return mk_error_set(err, EFBIG, "'%s' is larger than %zu bytes", path,
					    max_bytes);
	} while (got > 0);
	buf[used] = '\0';
	*data = mk_steal_ptr(buf);
	if (size)
		*size = used;
	return 0;
}

int mk_file_read(const char *path, size_t max_bytes, char **data, size_t *size,
		 struct mk_error *err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return mk_error_errno(err, errno, "cannot open '%s'", path);
	return read_fd(fd, path, max_bytes, data, size, err);
}

static int write_all(int fd, const char *data, size_t size)
{
	while (size > 0) {
		ssize_t put = write(fd, data, size);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return -errno;
		data += put;
		size -= (size_t)put;
	}
	return 0;
}

static int write_temporary(const char *path, const void *data, size_t size, mode_t mode)
{
	cleanup_close int fd =
		open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode);
	int ret;

	if (fd < 0)
		return -errno;
	ret = write_all(fd, data, size);
	if (ret < 0)
		return ret;
	if (fchmod(fd, mode) < 0 || fsync(fd) < 0)
		return -errno;
	return 0;
}

int mk_file_replace(const char *path, const void *data, size_t size, mode_t mode,
		    struct mk_error *err)
{
	char temporary[PATH_MAX];
	const char *slash = strrchr(path, '/');
	int dir = slash ? (int)(slash - path) + 1 : 0;
	int ret;

	/* a leading dot: directory readers of ours and of others pass it over */
	if (snprintf(temporary, sizeof(temporary), "%.*s.%s.%d", dir, path, path + dir, getpid()) >=
	    (int)sizeof(temporary))
		return mk_error_set(err, ENAMETOOLONG, "cannot write '%s'", path);
	ret = write_temporary(temporary, data, size, mode);
	if (ret == 0 && rename(temporary, path) < 0)
		ret = -errno;
	if (ret < 0) {
		unlink(temporary);
		return mk_error_errno(err, -ret, "cannot write '%s'", path);
	}
	return 0;
}

#define PROC_SYS "/proc/sys"

static const char *proc_sys = PROC_SYS;

void mk_sysctl_root(const char *dir)
{
	proc_sys = dir;
}

int mk_sysctl_set(const char *setting, const char *value, struct mk_error *err)
{
	bool moved = strncmp(setting, PROC_SYS "/", sizeof(PROC_SYS)) == 0;
	cleanup_free char *now = NULL;
	cleanup_close int fd = -1;
	char path[PATH_MAX];
	int ret;

	if (snprintf(path, sizeof(path), "%s%s", moved ? proc_sys : "",
		     moved ? setting + strlen(PROC_SYS) : setting) >= (int)sizeof(path))
		return mk_error_set(err, ENAMETOOLONG, "cannot set '%s'", setting);
	ret = mk_file_read(path, 4096, &now, NULL, err);
	if (ret < 0)
		return ret;
	now[strcspn(now, "\n")] = '\0';
	if (strcmp(now, value) == 0)
		return 0;
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		return mk_error_errno(err, errno, "cannot set '%s' to '%s'", path, value);
	return 1;
}
