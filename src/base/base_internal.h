/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/base_internal.h - functions that only this folder uses. */
#ifndef MK_BASE_BASE_INTERNAL_H
#define MK_BASE_BASE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/loop.h"

/* Find the process that holds inode @inode of device @major:@minor by flock() in @locks, the text
 * of /proc/locks. Returns its pid, or 0. Pure. */
int lock_holder(const char *locks, unsigned int major, unsigned int minor, unsigned long inode);

/* Do lines wait in the queue? Then call mk_log_flush() soon, and repeatedly. */
bool log_waits(void);

/* Count a turn that took @busy_ns. Returns whether it was a long one. Pure. */
bool loop_account(struct mk_loop_stats *stats, uint64_t busy_ns);

/* The log's output: standard error. In a process that must not wait, lines that standard error
 * does not accept at once wait in a queue of fixed size. */
#define MK_LOG_QUEUE_BYTES 65536

/* From now on no write blocks, and a closed reader ends nothing (SIGPIPE is ignored). */
void log_output_never_block(void);

/* Write one line with its newline, at most PIPE_BUF bytes. If neither standard error nor the queue
 * accepts the line, it is lost. Then all later lines are lost until the queue is empty, so that
 * lines keep their order. */
void log_output_write(const char *line, size_t bytes);

/* Write the waiting lines, as far as standard error accepts them. */
void log_output_flush(void);
/* Do lines wait? */
bool log_output_waits(void);
/* Return the number of lost lines not yet reported, 0 while lines wait. The caller reports them. */
unsigned long log_output_take_lost(void);
/* Return the number of all lost lines. */
unsigned long log_output_lost(void);

#endif
