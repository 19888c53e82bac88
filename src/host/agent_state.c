// SPDX-License-Identifier: Apache-2.0
#include "host/agent_state.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

#define PATH_BYTES (PATH_MAX + 16)

static void read_line(const char *state_dir, const char *name, char *line, size_t size)
{
	char path[PATH_BYTES];
	cleanup_fclose FILE *file = NULL;

	*line = '\0';
	snprintf(path, sizeof(path), "%s/%s", state_dir, name);
	file = fopen(path, "re");
	if (file && fgets(line, (int)size, file))
		line[strcspn(line, "\n")] = '\0';
}

static bool is_locked(int fd)
{
	return flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

void mk_agent_state_read(const char *state_dir, struct mk_agent_state *state)
{
	char path[PATH_BYTES], pid[32];
	cleanup_close int fd = -1;

	*state = (struct mk_agent_state){ 0 };
	snprintf(path, sizeof(path), "%s/" MK_AGENT_LOCK, state_dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	state->ever_ran = true;
	state->running = is_locked(fd);
	if (!state->running)
		return;
	read_line(state_dir, MK_AGENT_LOCK, pid, sizeof(pid));
	state->pid = strtoul(pid, NULL, 10);
	read_line(state_dir, MK_AGENT_STATE, state->text, sizeof(state->text));
}

int mk_agent_state_write(const char *state_dir, const char *text, struct mk_error *err)
{
	char path[PATH_BYTES];
	cleanup_close int fd = -1;

	snprintf(path, sizeof(path), "%s/" MK_AGENT_STATE, state_dir);
	fd = mk_file_create(path, O_WRONLY | O_TRUNC, 0600, err);
	if (fd < 0)
		return fd;
	if (dprintf(fd, "%s\n", text) < 0)
		return mk_error_errno(err, errno, "cannot write '%s'", path);
	return 0;
}

int mk_agent_keep_out(const char *state_dir, struct mk_error *err)
{
	struct mk_agent_state state;
	char path[PATH_BYTES];
	cleanup_close int fd = -1;

	snprintf(path, sizeof(path), "%s/" MK_AGENT_LOCK, state_dir);
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return mk_error_errno(err, errno, "cannot open '%s'", path);
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return mk_steal_fd(&fd);
	mk_agent_state_read(state_dir, &state);
	return mk_error_set(
		err, EBUSY,
		"the agent is running, pid %lu, and would make everything again: stop it first (lock '%s')",
		state.pid, path);
}
