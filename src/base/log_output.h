/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/log_output.h - where lines of the log go: standard error. In a process that must not wait,
 * lines that standard error does not take at once wait in a queue of fixed size. */
#ifndef MK_BASE_LOG_OUTPUT_H
#define MK_BASE_LOG_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#define MK_LOG_QUEUE_BYTES 65536

/* From now on no write waits, and a reader that is gone ends nothing (SIGPIPE is ignored). */
void mk_log_output_never_block(void);

/* One line with its newline, at most PIPE_BUF bytes. A line that neither standard error nor the queue
 * takes is lost, and so are all after it until the queue is empty: lines keep their order. */
void mk_log_output_write(const char *line, size_t bytes);

/* Write what waits, as far as standard error takes it. */
void mk_log_output_flush(void);
/* Does something wait? */
bool mk_log_output_waits(void);
/* Lost lines that were not reported yet; 0 while something waits. The caller reports them. */
unsigned long mk_log_output_take_lost(void);
/* All that were lost. */
unsigned long mk_log_output_lost(void);

#endif
