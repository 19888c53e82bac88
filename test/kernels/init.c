// SPDX-License-Identifier: Apache-2.0
/* test/kernels/init.c - the first process of a kernel under test. Mounts what the programs under
 * test expect, loads the modules of /modules and runs each /tests/NAME, both in the order of their
 * names. Writes the status of each program to the console as `result STATUS NAME` (for a signal,
 * 128 plus its number), and switches the machine off. The kernel's parameter MK_LEAVE_OUT, which
 * init has as a variable, names programs that do not run, with commas between them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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

static int is_left_out(const char *name)
{
	const char *at = getenv("MK_LEAVE_OUT");
	size_t chars = strlen(name);

	while (at && *at) {
		size_t of_this = strcspn(at, ",");

		if (of_this == chars && strncmp(at, name, chars) == 0)
			return 1;
		at += of_this + (at[of_this] == ',');
	}
	return 0;
}

static void run_test(const char *path, const char *name)
{
	if (is_left_out(name))
		return;
	printf("begin %s\n", name);
	printf("result %d %s\n", run(path), name);
}

static void load_module(const char *path, const char *name)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST))
		printf("init: cannot load module %s: %s\n", name, strerror(errno));
	close(fd);
}

static int is_visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static int each_file(const char *dir, void (*do_it)(const char *path, const char *name))
{
	struct dirent **entries;
	char path[512];
	int count = scandir(dir, &entries, is_visible, alphasort);

	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, entries[i]->d_name);
		do_it(path, entries[i]->d_name);
	}
	return count;
}

int main(void)
{
	/* before 5.11 BPF memory counts as locked memory */
	const struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
	struct utsname name;

	setvbuf(stdout, NULL, _IOLBF, 0);
	mount_all();
	setenv("PATH", "/bin", 1);
	if (setrlimit(RLIMIT_MEMLOCK, &unlimited) < 0)
		printf("init: cannot lift RLIMIT_MEMLOCK: %s\n", strerror(errno));
	if (uname(&name) == 0)
		printf("kernel %s\n", name.release);
	each_file("/modules", load_module);
	printf("done %d\n", each_file("/tests", run_test));
	sync();
	reboot(RB_POWER_OFF);
	reboot(RB_AUTOBOOT); /* no ACPI: with panic=-1 and -no-reboot this ends qemu, too */
	return 1;
}
