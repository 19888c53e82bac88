// SPDX-License-Identifier: Apache-2.0
/* test/kernels/init.c - the first process of a kernel under test. Mounts what the programs under
 * test expect, runs each /tests/NAME in the order of their names, tells how each ended on the
 * console as `result NAME STATUS` (a signal: 128 + its number) and switches the machine off. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
	const char *type, *target;
} mounts[] = {
	{ "devtmpfs", "/dev" },	  { "proc", "/proc" }, { "sysfs", "/sys" },
	{ "bpf", "/sys/fs/bpf" }, { "tmpfs", "/tmp" }, { "tmpfs", "/run" },
};

static void mount_all(void)
{
	for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		if (mkdir(mounts[i].target, 0755) < 0 && errno != EEXIST)
			printf("init: cannot make %s: %s\n", mounts[i].target, strerror(errno));
		/* the kernel may have mounted /dev itself */
		if (mount("none", mounts[i].target, mounts[i].type, 0, NULL) < 0 && errno != EBUSY)
			printf("init: cannot mount %s: %s\n", mounts[i].target, strerror(errno));
	}
}

static int run(const char *path)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return 255;
	if (pid == 0) {
		execl(path, path, NULL);
		printf("init: cannot run %s: %s\n", path, strerror(errno));
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return 255;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int is_test(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

int main(void)
{
	/* before 5.11 BPF memory counts as locked memory */
	const struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
	struct dirent **tests;
	struct utsname name;
	char path[512];
	int count;

	setvbuf(stdout, NULL, _IOLBF, 0);
	mount_all();
	setenv("PATH", "/bin", 1);
	if (setrlimit(RLIMIT_MEMLOCK, &unlimited) < 0)
		printf("init: cannot lift RLIMIT_MEMLOCK: %s\n", strerror(errno));
	if (uname(&name) == 0)
		printf("kernel %s\n", name.release);
	count = scandir("/tests", &tests, is_test, alphasort);
	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "/tests/%s", tests[i]->d_name);
		printf("result %s %d\n", tests[i]->d_name, run(path));
	}
	printf("done %d\n", count);
	sync();
	reboot(RB_POWER_OFF);
	reboot(RB_AUTOBOOT); /* no ACPI: with panic=-1 and -no-reboot this ends qemu, too */
	return 1;
}
