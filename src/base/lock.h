/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/lock.h - flock(2) on files of the state directory, with a limit for the whole process to how
 * long it waits: the agent never does, for nothing else would run meanwhile; a call of the CNI plugin
 * waits until its runtime should rather try again. */
#ifndef MK_BASE_LOCK_H
#define MK_BASE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Without one of these a process waits without limit. A lock that is held then is -EWOULDBLOCK; */
void mk_locks_never_wait(void);
/* ... still held at @monotonic_ns is -ETIMEDOUT. */
void mk_locks_wait_until(uint64_t monotonic_ns);
bool mk_locks_wait(void);

/* flock() @fd by @operation (LOCK_SH, LOCK_EX, LOCK_NB), and write this process's id into the file.
 * The error names @path and the holder. */
mk_must_check int mk_lock_fd(int fd, int operation, const char *path, struct mk_error *err);

/* Of the text of /proc/locks: the process that holds inode @inode of device @major:@minor by flock(); 0: the text
 * names none. Pure. */
int mk_lock_holder(const char *locks, unsigned int major, unsigned int minor, unsigned long inode);

#endif
