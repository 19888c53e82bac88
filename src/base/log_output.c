// SPDX-License-Identifier: Apache-2.0
/* Writes log lines to standard error without waiting for its reader. */
#include "base/base_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int own_fd = -1; /* standard error, opened again with O_NONBLOCK; -1: impossible */
static bool never_block, is_socket, broken;
static char queue[MK_LOG_QUEUE_BYTES];
static size_t queued;
static unsigned long lost, lost_total; /* not yet reported; total */

/* O_NONBLOCK on standard error itself would affect every process that shares it. */
void log_output_never_block(void)
{
	struct stat st;

	never_block = true;
	signal(SIGPIPE, SIG_IGN);
	if (fstat(STDERR_FILENO, &st) < 0)
		return;
	is_socket = S_ISSOCK(st.st_mode);
	if (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode))
		own_fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* A pipe that poll(2) calls writable accepts PIPE_BUF bytes, unless another process is faster. */
static ssize_t put_if_writable(const char *data, size_t bytes)
{
	struct pollfd stream = { .fd = STDERR_FILENO, .events = POLLOUT };

	if (poll(&stream, 1, 0) == 0) {
		errno = EAGAIN;
		return -1;
	}
	return write(STDERR_FILENO, data, bytes);
}

static ssize_t put(const char *data, size_t bytes)
{
	ssize_t ret;

	do {
		if (!never_block)
			ret = write(STDERR_FILENO, data, bytes);
		else if (is_socket)
			ret = send(STDERR_FILENO, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
		else if (own_fd >= 0)
			ret = write(own_fd, data, bytes);
		else
			ret = put_if_writable(data, bytes);
	} while (ret < 0 && errno == EINTR);
	return ret;
}

static void lose(unsigned long lines)
{
	lost += lines;
	lost_total += lines;
}

static void lose_queue(void)
{
	for (size_t i = 0; i < queued; i++)
		lose(queue[i] == '\n');
	queued = 0;
}

void log_output_flush(void)
{
	while (queued > 0) {
		const char *end = memchr(queue, '\n', queued);
		size_t line = end ? (size_t)(end - queue) + 1 : queued;
		ssize_t taken = put(queue, line);

		broken = taken < 0 && errno != EAGAIN;
		if (broken)
			lose_queue();
		if (taken <= 0)
			return;
		queued -= (size_t)taken;
		memmove(queue, queue + taken, queued);
	}
}

bool log_output_waits(void)
{
	return queued > 0;
}

static void enqueue(const char *line, size_t bytes)
{
	if (lost || queued + bytes > sizeof(queue)) {
		lose(1);
		return;
	}
	memcpy(queue + queued, line, bytes);
	queued += bytes;
}

void log_output_write(const char *line, size_t bytes)
{
	ssize_t taken;

	if (queued > 0)
		log_output_flush();
	if (queued > 0) {
		enqueue(line, bytes);
		return;
	}
	taken = put(line, bytes);
	broken = taken < 0 && errno != EAGAIN;
	if (broken)
		lose(1);
	else if (taken < (ssize_t)bytes)
		enqueue(line + (taken > 0 ? taken : 0), bytes - (size_t)(taken > 0 ? taken : 0));
}

unsigned long log_output_take_lost(void)
{
	unsigned long count = lost;

	if (queued > 0 || broken)
		return 0;
	lost = 0;
	return count;
}

unsigned long log_output_lost(void)
{
	return lost_total;
}
