// SPDX-License-Identifier: Apache-2.0
#include "base/lock.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/base_internal.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/time.h"

#define LOCKS_MAX_BYTES (1 << 20)
#define AGAIN_US	50000 /* between alarms: the first may come before flock() waits */

static bool never_wait;
static uint64_t until_ns, each_ns; /* 0: no limit */

void mk_locks_never_wait(void)
{
	never_wait = true;
}

void mk_locks_wait_until(uint64_t monotonic_ns)
{
	until_ns = monotonic_ns;
}

void mk_locks_wait_at_most(uint64_t ns)
{
	each_ns = ns;
}

/* ---- the holder ------------------------------------------------------------------------------ */

int lock_holder(const char *locks, unsigned int major, unsigned int minor, unsigned long inode)
{
	for (const char *line = locks; line; line = strchr(line, '\n')) {
		unsigned int line_major, line_minor;
		unsigned long line_inode;
		int pid;

		line += *line == '\n';
		if (sscanf(line, "%*d: FLOCK %*s %*s %d %x:%x:%lu", &pid, &line_major, &line_minor,
			   &line_inode) == 4 &&
		    line_major == major && line_minor == minor && line_inode == inode)
			return pid;
	}
	return 0;
}

/* Return the pid that the holder has written: /proc/locks does not show processes of
 * other containers. */
static int written_holder(int fd)
{
	char text[16] = "";

	return pread(fd, text, sizeof(text) - 1, 0) > 0 ? atoi(text) : 0;
}

static int find_holder(int fd)
{
	cleanup_free char *locks = NULL;
	struct stat st;
	int pid = 0;

	if (fstat(fd, &st) < 0)
		return 0;
	if (mk_file_read("/proc/locks", LOCKS_MAX_BYTES, &locks, NULL, NULL) == 0)
		pid = lock_holder(locks, major(st.st_dev), minor(st.st_dev), st.st_ino);
	return pid > 0 ? pid : written_holder(fd);
}

static void write_holder(int fd)
{
	char text[16];
	int size = snprintf(text, sizeof(text), "%-10d\n", getpid());

	if (pwrite(fd, text, (size_t)size, 0) < 0)
		return; /* the lock is valid without it */
}

static int held(int fd, int code, const char *path, struct mk_error *err)
{
	const char *remedy =
		code == ETIMEDOUT
			? ", and was not released in time: try again, or end that process if it hangs"
			: "";
	int pid = find_holder(fd);

	if (pid > 0)
		return mk_error_set(err, code, "the lock '%s' is held by pid %d%s", path, pid,
				    remedy);
	return mk_error_set(err, code, "the lock '%s' is held by another process%s", path, remedy);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void on_alarm(int number)
{
	(void)number;
}

static void set_alarm(uint64_t in_ns, bool on)
{
	struct itimerval timer = { 0 };
	struct sigaction action = { .sa_handler = on ? on_alarm : SIG_DFL };
	sigset_t alarm;

	if (on) {
		/* the parent process may have blocked it */
		sigemptyset(&alarm);
		sigaddset(&alarm, SIGALRM);
		sigprocmask(SIG_UNBLOCK, &alarm, NULL);
		timer.it_value.tv_sec = (time_t)(in_ns / MK_NS_PER_S);
		timer.it_value.tv_usec = (suseconds_t)(in_ns % MK_NS_PER_S / 1000) + 1;
		timer.it_interval.tv_usec = AGAIN_US;
		sigaction(SIGALRM, &action, NULL);
	}
	setitimer(ITIMER_REAL, &timer, NULL);
	if (!on)
		sigaction(SIGALRM, &action, NULL);
}

/* Wait in flock(), which serves its waiters in order; repeated attempts would not be
 * served in order. */
static int wait_for(int fd, int operation)
{
	uint64_t now_ns = mk_time_monotonic_ns();
	uint64_t end_ns = each_ns ? now_ns + each_ns : until_ns;
	int ret = -ETIMEDOUT;

	if (end_ns && now_ns < end_ns)
		set_alarm(end_ns - now_ns, true);
	while (!end_ns || mk_time_monotonic_ns() < end_ns) {
		ret = flock(fd, operation) < 0 ? -errno : 0;
		if (ret != -EINTR)
			break;
		ret = -ETIMEDOUT;
	}
	if (end_ns)
		set_alarm(0, false);
	return ret;
}

int mk_lock_fd(int fd, int operation, const char *path, struct mk_error *err)
{
	int ret = flock(fd, operation | LOCK_NB) < 0 ? -errno : 0;

	if (ret == -EWOULDBLOCK && !(operation & LOCK_NB) && !never_wait)
		ret = wait_for(fd, operation);
	if (ret == -EWOULDBLOCK || ret == -ETIMEDOUT)
		return held(fd, -ret, path, err);
	if (ret < 0)
		return mk_error_errno(err, -ret, "cannot lock '%s'", path);
	write_holder(fd);
	return 0;
}
