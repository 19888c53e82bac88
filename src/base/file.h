/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/file.h - small files, whole. What writes follows no symbolic link, in no part of the path:
 * it fails with -ELOOP, and the part is named. */
#ifndef MK_BASE_FILE_H
#define MK_BASE_FILE_H

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

/* Open directory @path for the *at() functions (O_PATH); what is missing is made with @mode, or, if
 * that is 0, is -ENOENT. The caller closes it. */
mk_must_check int mk_dir_open(const char *path, mode_t mode, struct mk_error *err);

/* mk_dir_open() of the directory that the file @path is in; *@name is where its name begins. */
mk_must_check int mk_parent_open(const char *path, const char **name, struct mk_error *err);

/* Create @path and its missing parents with @mode. An existing directory is left as it is. */
mk_must_check int mk_mkdirs(const char *path, mode_t mode, struct mk_error *err);

/* Read all of @path, at most @max_bytes (-EFBIG beyond). *@data is the caller's to free and
 * ends in a NUL that *@size does not count. @size may be NULL. */
mk_must_check int mk_file_read(const char *path, size_t max_bytes, char **data, size_t *size,
			       struct mk_error *err);
/* The same of what @fd still has, which errors call @path. */
mk_must_check int mk_fd_read(int fd, const char *path, size_t max_bytes, char **data, size_t *size,
			     struct mk_error *err);
/* The same of a text, and how many lines it has at most; no such file: none, and *@text is left. */
mk_must_check int mk_file_read_lines(const char *path, size_t max_bytes, char **text, size_t *lines,
				     struct mk_error *err);

/* Replace @path atomically: a reader sees the old content or the new, whole; after a
 * crash of the machine it may be empty. Nothing waits for the disk: what is written so is made or compared
 * again at each start. */
mk_must_check int mk_file_replace(const char *path, const void *data, size_t size, mode_t mode,
				  struct mk_error *err);

/* Open @path with @flags (O_WRONLY or O_RDWR, O_TRUNC), created with @mode if it is missing. Returns
 * what the caller closes. */
mk_must_check int mk_file_create(const char *path, int flags, mode_t mode, struct mk_error *err);

/* Where mk_sysctl_set() finds what it is told as /proc/sys: that is read-only in a container, which
 * has the host's elsewhere. @dir has to live on; "/proc/sys" at first. */
void mk_sysctl_root(const char *dir);

/* Write @value to a kernel setting (/proc/sys, /sys), unless it already reads so.
 * Returns 1 if it was changed, 0 if it was already so. */
mk_must_check int mk_sysctl_set(const char *path, const char *value, struct mk_error *err);

#endif
