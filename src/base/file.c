// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/cleanup.h"

/* ---- directories, without following symbolic links ------------------------------------------- */

static int refused(int dir, const char *name, const char *path, struct mk_error *err)
{
	int code = errno;
	struct stat found;

	if (fstatat(dir, name, &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(found.st_mode))
		return mk_error_set(
			err, ELOOP,
			"'%s' leads through the symbolic link '%s', which is not followed for writing: give the directory that it points to",
			path, name);
	return mk_error_errno(err, code, "cannot open directory '%s' at '%s'", path, name);
}

/* Open directory @name in @dir. If it is missing, create it with @mode, unless that is 0. */
static int enter(int dir, const char *name, mode_t mode, const char *path, struct mk_error *err)
{
	const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(dir, name, flags);

	if (fd < 0 && errno == ENOENT && mode) {
		if (mkdirat(dir, name, mode) < 0 && errno != EEXIST)
			return mk_error_errno(err, errno, "cannot create directory '%s' at '%s'",
					      path, name);
		fd = openat(dir, name, flags);
	}
	return fd < 0 ? refused(dir, name, path, err) : fd;
}

/* Open the path in one system call (Linux 5.6, unless a filter forbids it). Negative: walk the path
 * to find the reason. */
static int open_whole(const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_NO_SYMLINKS,
	};

	return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

int mk_dir_open(const char *path, mode_t mode, struct mk_error *err)
{
	cleanup_close int dir = open_whole(path);
	char parts[PATH_MAX], *rest = NULL;

	if (dir >= 0)
		return mk_steal_fd(&dir);
	if (snprintf(parts, sizeof(parts), "%s", path) >= (int)sizeof(parts))
		return mk_error_errno(err, ENAMETOOLONG, "directory '%s'", path);
	dir = open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return mk_error_errno(err, errno, "cannot open directory '%s'", path);
	for (char *part = strtok_r(parts, "/", &rest); part; part = strtok_r(NULL, "/", &rest)) {
		int next = enter(dir, part, mode, path, err);

		if (next < 0)
			return next;
		close(dir);
		dir = next;
	}
	return mk_steal_fd(&dir);
}

int mk_mkdirs(const char *path, mode_t mode, struct mk_error *err)
{
	cleanup_close int dir = mk_dir_open(path, mode, err);

	return dir < 0 ? dir : 0;
}

int mk_parent_open(const char *path, const char **name, struct mk_error *err)
{
	const char *slash = strrchr(path, '/');
	char parent[PATH_MAX];

	*name = slash ? slash + 1 : path;
	if (snprintf(parent, sizeof(parent), "%.*s", (int)(*name - path), path) >=
	    (int)sizeof(parent))
		return mk_error_errno(err, ENAMETOOLONG, "'%s'", path);
	return mk_dir_open(parent, 0, err);
}

/* ---- reading --------------------------------------------------------------------------------- */

int mk_fd_read(int fd, const char *path, size_t max_bytes, char **data, size_t *size,
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
	return mk_fd_read(fd, path, max_bytes, data, size, err);
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

static int write_temporary(int dir, const char *name, const void *data, size_t size, mode_t mode)
{
	cleanup_close int fd =
		openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode);
	int ret;

	if (fd < 0)
		return -errno;
	ret = write_all(fd, data, size);
	if (ret < 0)
		return ret;
	return fchmod(fd, mode) < 0 ? -errno : 0;
}

int mk_file_replace(const char *path, const void *data, size_t size, mode_t mode,
		    struct mk_error *err)
{
	char temporary[NAME_MAX + 1];
	const char *name;
	cleanup_close int dir = mk_parent_open(path, &name, err);
	int ret;

	if (dir < 0) {
		(void)mk_error_wrap(err, "cannot write '%s'", path);
		return dir;
	}
	/* a leading dot: our directory readers and others ignore such names */
	if (snprintf(temporary, sizeof(temporary), ".%s.%d", name, getpid()) >=
	    (int)sizeof(temporary))
		return mk_error_errno(err, ENAMETOOLONG, "cannot write '%s'", path);
	ret = write_temporary(dir, temporary, data, size, mode);
	if (ret == 0 && renameat(dir, temporary, dir, name) < 0)
		ret = -errno;
	if (ret < 0) {
		unlinkat(dir, temporary, 0);
		return mk_error_errno(err, -ret, "cannot write '%s'", path);
	}
	return 0;
}

int mk_file_create(const char *path, int flags, mode_t mode, struct mk_error *err)
{
	const char *name;
	cleanup_close int dir = mk_parent_open(path, &name, err);
	int fd;

	if (dir < 0) {
		(void)mk_error_wrap(err, "cannot write '%s'", path);
		return dir;
	}
	fd = openat(dir, name, flags | O_CREAT | O_NOFOLLOW | O_CLOEXEC, mode);
	return fd < 0 ? mk_error_errno(err, errno, "cannot open '%s' for writing", path) : fd;
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
		return mk_error_errno(err, ENAMETOOLONG, "cannot set '%s'", setting);
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
