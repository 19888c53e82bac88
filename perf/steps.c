// SPDX-License-Identifier: Apache-2.0
/* steps FILE PROGRAM [ARGUMENT...] - run a program one instruction after the other and write the address
 * of each instruction that it executed, once, in hexadecimal, to FILE. For programs at a fixed address
 * below 16 MiB, such as the CNI plugin. Ends as the program does. */
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define ADDRESSES (16 * 1024 * 1024)

static unsigned char executed[ADDRESSES];

static pid_t start(char **argv)
{
	pid_t pid = fork();

	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execv(argv[0], argv);
		perror(argv[0]);
		_exit(127);
	}
	return pid;
}

static int step_through(pid_t pid)
{
	struct user_regs_struct regs;
	int status;

	while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		if (ptrace(PTRACE_GETREGS, pid, NULL, &regs) == 0 && regs.rip < ADDRESSES)
			executed[regs.rip] = 1;
		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) < 0)
			return 1;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int write_addresses(const char *path)
{
	FILE *file = fopen(path, "w");

	for (unsigned int at = 0; file && at < ADDRESSES; at++)
		if (executed[at])
			fprintf(file, "%x\n", at);
	if (file && fclose(file) == 0)
		return 0;
	perror(path);
	return 1;
}

int main(int argc, char **argv)
{
	int status;
	pid_t pid;

	if (argc < 3) {
		fprintf(stderr, "usage: steps FILE PROGRAM [ARGUMENT...]\n");
		return 2;
	}
	pid = start(argv + 2);
	if (pid < 0) {
		perror("fork");
		return 1;
	}
	status = step_through(pid);
	return status ? status : write_addresses(argv[1]);
}
