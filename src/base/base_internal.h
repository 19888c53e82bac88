/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/base_internal.h - functions that only this folder uses. */
#ifndef MK_BASE_BASE_INTERNAL_H
#define MK_BASE_BASE_INTERNAL_H

#include "base/lock.h"
#include "base/log.h"
#include "base/loop.h"

bool locks_wait(void);

/* Find the process that holds inode @inode of device @major:@minor by flock() in @locks, the text
 * of /proc/locks. Returns its pid, or 0. Pure. */
int lock_holder(const char *locks, unsigned int major, unsigned int minor, unsigned long inode);

/* Do lines wait in the queue? Then call mk_log_flush() soon, and repeatedly. */
bool log_waits(void);

/* Count a turn that took @busy_ns. Returns whether it was a long one. Pure. */
bool loop_account(struct mk_loop_stats *stats, uint64_t busy_ns);

#endif
