/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/lock.h - flock(2) on files of the state directory, with one limit of waiting per
 * process. The agent never waits, because nothing else would run meanwhile. A call of the CNI
 * plugin waits until its runtime had better try again. A command waits some seconds for each
 * lock. */
#ifndef MK_BASE_LOCK_H
#define MK_BASE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* By default a process waits without limit. After this call, a lock that is held
 * is -EWOULDBLOCK. */
void mk_locks_never_wait(void);
/* After this call, a lock that is still held at @monotonic_ns is -ETIMEDOUT. */
void mk_locks_wait_until(uint64_t monotonic_ns);
/* After this call, a lock that is still held after a wait of @ns is -ETIMEDOUT. */
void mk_locks_wait_at_most(uint64_t ns);

/* Call flock() with @operation (LOCK_SH, LOCK_EX, LOCK_NB), and write this process's id into the
 * file. The error names @path and the holder. */
mk_must_check int mk_lock_fd(int fd, int operation, const char *path, struct mk_error *err);

#endif
