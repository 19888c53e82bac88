/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/file.h - read and write small files as a whole. Writers follow no symbolic link in any
 * part of the path: they fail with -ELOOP, and the error names the link. */
#ifndef MK_BASE_FILE_H
#define MK_BASE_FILE_H

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

/* Open directory @path for the *at() functions (O_PATH). Missing parts are created with @mode; if
 * that is 0, they are -ENOENT. The caller closes it. */
mk_must_check int mk_dir_open(const char *path, mode_t mode, struct mk_error *err);

/* Open the directory of file @path like mk_dir_open(); *@name is the start of its name. */
mk_must_check int mk_parent_open(const char *path, const char **name, struct mk_error *err);

/* Create @path and its missing parents with @mode. An existing directory stays unchanged. */
mk_must_check int mk_mkdirs(const char *path, mode_t mode, struct mk_error *err);

/* Read all of @path, at most @max_bytes (-EFBIG beyond). The caller frees *@data, which ends in a
 * NUL that *@size does not count. @size may be NULL. */
mk_must_check int mk_file_read(const char *path, size_t max_bytes, char **data, size_t *size,
			       struct mk_error *err);
/* Read the rest of @fd in the same way; errors call it @path. */
mk_must_check int mk_fd_read(int fd, const char *path, size_t max_bytes, char **data, size_t *size,
			     struct mk_error *err);

/* Replace @path atomically: a reader sees the whole old or the whole new content. After a crash of
 * the machine the file may be empty. Nothing waits for the disk, because each start writes or
 * compares such files again. */
mk_must_check int mk_file_replace(const char *path, const void *data, size_t size, mode_t mode,
				  struct mk_error *err);

/* Open @path with @flags (O_WRONLY or O_RDWR, O_TRUNC). If it is missing, create it with @mode.
 * Returns a file descriptor that the caller closes. */
mk_must_check int mk_file_create(const char *path, int flags, mode_t mode, struct mk_error *err);

/* Let mk_sysctl_set() use @dir for /proc/sys. In a container /proc/sys is read-only, and the host's
 * is mounted elsewhere. @dir must stay valid; the default is "/proc/sys". */
void mk_sysctl_root(const char *dir);

/* Write @value to a kernel setting (/proc/sys, /sys), unless it already has this value. Returns 1
 * if it was changed, else 0. */
mk_must_check int mk_sysctl_set(const char *path, const char *value, struct mk_error *err);

#endif
