/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/log_output.h - the log's output: standard error. In a process that must not wait, lines
 * that standard error does not accept at once wait in a queue of fixed size. */
#ifndef MK_BASE_LOG_OUTPUT_H
#define MK_BASE_LOG_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

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
