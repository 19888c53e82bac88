// SPDX-License-Identifier: Apache-2.0
/* After its start the agent keeps only the rights it still needs, so that a hole in a parser is
 * worth less. They are dropped before the first object of the cluster is read. */
#include "host/host_internal.h"
#include "host/privileges.h"

#include <linux/capability.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

#define BIT(capability)	      (1ULL << (capability))
#define UNPRIVILEGED_PORT_MIN 1024

/* ---- capabilities ---------------------------------------------------------------------------- */

static int get_permitted(uint64_t *permitted)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (syscall(SYS_capget, &header, data) < 0)
		return -errno;
	*permitted = data[0].permitted | (uint64_t)data[1].permitted << 32;
	return 0;
}

static int set_capabilities(uint64_t kept)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {
		{ .effective = (uint32_t)kept, .permitted = (uint32_t)kept },
		{ .effective = (uint32_t)(kept >> 32), .permitted = (uint32_t)(kept >> 32) },
	};

	return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

static bool is_privileged(uint16_t port)
{
	return port && port < UNPRIVILEGED_PORT_MIN;
}

static bool has_privileged_port(const struct mk_config *config)
{
	bool found = is_privileged(config->node_port_min);

	for (size_t i = 0; i < config->healthz.count; i++)
		found |= is_privileged(config->healthz.at[i].port);
	for (size_t i = 0; i < config->metrics.count; i++)
		found |= is_privileged(config->metrics.at[i].port);
	return found;
}

uint64_t privileges_kept(const struct mk_config *config, uint64_t permitted)
{
	uint64_t kept = BIT(CAP_NET_ADMIN) | BIT(CAP_DAC_OVERRIDE);
	uint64_t bpf = BIT(CAP_BPF) | BIT(CAP_PERFMON);

	/* container runtimes that do not know these two grant SYS_ADMIN instead */
	kept |= (permitted & bpf) == bpf ? bpf : bpf | BIT(CAP_SYS_ADMIN);
	if (has_privileged_port(config))
		kept |= BIT(CAP_NET_BIND_SERVICE);
	return kept & permitted;
}

static int drop_capabilities(const struct mk_config *config, struct mk_error *err)
{
	uint64_t permitted = 0, kept;
	int ret = get_permitted(&permitted);

	if (ret < 0)
		return mk_error_errno(err, -ret, "cannot read this process's capabilities");
	kept = privileges_kept(config, permitted);
	/* drop also what an exec could give back; no_new_privs prevents the same, so a failure is
	 * no loss */
	for (int i = 0; i <= CAP_LAST_CAP; i++)
		if (!(kept & BIT(i)))
			(void)prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
	ret = set_capabilities(kept);
	if (ret < 0)
		return mk_error_errno(err, -ret, "cannot drop capabilities");
	if (has_privileged_port(config) && !(kept & BIT(CAP_NET_BIND_SERVICE)))
		mk_log_warn(
			"a port below %d is configured, and CAP_NET_BIND_SERVICE is missing: add NET_BIND_SERVICE to the capabilities of the agent's container",
			UNPRIVILEGED_PORT_MIN);
	mk_log_debug("capabilities kept mask=%llx of=%llx", (unsigned long long)kept,
		     (unsigned long long)permitted);
	return 0;
}

/* ---- system calls ---------------------------------------------------------------------------- */

/* What libc, libuv, libcurl with its TLS and resolver, and libbpf call, and the variants of other C
 * libraries and kernels. Not allowed: starting programs, namespaces, mounts, other processes'
 * memory, modules, keys, clocks. */
static const int allowed[] = {
	/* files */
	SCMP_SYS(read),
	SCMP_SYS(write),
	SCMP_SYS(readv),
	SCMP_SYS(writev),
	SCMP_SYS(pread64),
	SCMP_SYS(pwrite64),
	SCMP_SYS(preadv),
	SCMP_SYS(pwritev),
	SCMP_SYS(preadv2),
	SCMP_SYS(pwritev2),
	SCMP_SYS(open),
	SCMP_SYS(openat),
	SCMP_SYS(openat2),
	SCMP_SYS(creat),
	SCMP_SYS(close),
	SCMP_SYS(close_range),
	SCMP_SYS(lseek),
	SCMP_SYS(_llseek),
	SCMP_SYS(stat),
	SCMP_SYS(stat64),
	SCMP_SYS(fstat),
	SCMP_SYS(fstat64),
	SCMP_SYS(lstat),
	SCMP_SYS(lstat64),
	SCMP_SYS(newfstatat),
	SCMP_SYS(fstatat64),
	SCMP_SYS(statx),
	SCMP_SYS(statfs),
	SCMP_SYS(statfs64),
	SCMP_SYS(fstatfs),
	SCMP_SYS(fstatfs64),
	SCMP_SYS(access),
	SCMP_SYS(faccessat),
	SCMP_SYS(faccessat2),
	SCMP_SYS(readlink),
	SCMP_SYS(readlinkat),
	SCMP_SYS(getdents),
	SCMP_SYS(getdents64),
	SCMP_SYS(mkdir),
	SCMP_SYS(mkdirat),
	SCMP_SYS(rmdir),
	SCMP_SYS(unlink),
	SCMP_SYS(unlinkat),
	SCMP_SYS(rename),
	SCMP_SYS(renameat),
	SCMP_SYS(renameat2),
	SCMP_SYS(link),
	SCMP_SYS(linkat),
	SCMP_SYS(symlinkat),
	SCMP_SYS(fchmod),
	SCMP_SYS(fsync),
	SCMP_SYS(fdatasync),
	SCMP_SYS(ftruncate),
	SCMP_SYS(ftruncate64),
	SCMP_SYS(fallocate),
	SCMP_SYS(flock),
	SCMP_SYS(fcntl),
	SCMP_SYS(fcntl64),
	SCMP_SYS(ioctl),
	SCMP_SYS(dup),
	SCMP_SYS(dup2),
	SCMP_SYS(dup3),
	SCMP_SYS(pipe),
	SCMP_SYS(pipe2),
	SCMP_SYS(getcwd),
	SCMP_SYS(umask),
	SCMP_SYS(sendfile),
	SCMP_SYS(copy_file_range),
	SCMP_SYS(utimensat),
	/* events */
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(ppoll_time64),
	SCMP_SYS(select),
	SCMP_SYS(_newselect),
	SCMP_SYS(pselect6),
	SCMP_SYS(epoll_create),
	SCMP_SYS(epoll_create1),
	SCMP_SYS(epoll_ctl),
	SCMP_SYS(epoll_wait),
	SCMP_SYS(epoll_pwait),
	SCMP_SYS(epoll_pwait2),
	SCMP_SYS(eventfd),
	SCMP_SYS(eventfd2),
	SCMP_SYS(timerfd_create),
	SCMP_SYS(timerfd_settime),
	SCMP_SYS(timerfd_gettime),
	SCMP_SYS(signalfd),
	SCMP_SYS(signalfd4),
	SCMP_SYS(inotify_init),
	SCMP_SYS(inotify_init1),
	SCMP_SYS(inotify_add_watch),
	SCMP_SYS(inotify_rm_watch),
	/* sockets */
	SCMP_SYS(socket),
	SCMP_SYS(socketpair),
	SCMP_SYS(socketcall),
	SCMP_SYS(bind),
	SCMP_SYS(connect),
	SCMP_SYS(listen),
	SCMP_SYS(accept),
	SCMP_SYS(accept4),
	SCMP_SYS(getsockname),
	SCMP_SYS(getpeername),
	SCMP_SYS(getsockopt),
	SCMP_SYS(setsockopt),
	SCMP_SYS(send),
	SCMP_SYS(sendto),
	SCMP_SYS(sendmsg),
	SCMP_SYS(sendmmsg),
	SCMP_SYS(recv),
	SCMP_SYS(recvfrom),
	SCMP_SYS(recvmsg),
	SCMP_SYS(recvmmsg),
	SCMP_SYS(recvmmsg_time64),
	SCMP_SYS(shutdown),
	/* memory, threads, signals, time */
	SCMP_SYS(brk),
	SCMP_SYS(mmap),
	SCMP_SYS(mmap2),
	SCMP_SYS(munmap),
	SCMP_SYS(mremap),
	SCMP_SYS(mprotect),
	SCMP_SYS(madvise),
	SCMP_SYS(membarrier),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	SCMP_SYS(futex),
	SCMP_SYS(futex_time64),
	SCMP_SYS(set_robust_list),
	SCMP_SYS(get_robust_list),
	SCMP_SYS(rseq),
	SCMP_SYS(set_tid_address),
	SCMP_SYS(sched_yield),
	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(sched_getparam),
	SCMP_SYS(sched_getscheduler),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(sigreturn),
	SCMP_SYS(rt_sigtimedwait),
	SCMP_SYS(sigaltstack),
	SCMP_SYS(tkill),
	SCMP_SYS(tgkill),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(nanosleep),
	SCMP_SYS(clock_nanosleep),
	SCMP_SYS(clock_nanosleep_time64),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_gettime64),
	SCMP_SYS(clock_getres),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(time),
	SCMP_SYS(times),
	SCMP_SYS(getrusage),
	/* identity and limits */
	SCMP_SYS(getpid),
	SCMP_SYS(gettid),
	SCMP_SYS(getppid),
	SCMP_SYS(getuid),
	SCMP_SYS(geteuid),
	SCMP_SYS(getgid),
	SCMP_SYS(getegid),
	SCMP_SYS(getuid32),
	SCMP_SYS(geteuid32),
	SCMP_SYS(getgid32),
	SCMP_SYS(getegid32),
	SCMP_SYS(getpgrp),
	SCMP_SYS(uname),
	SCMP_SYS(sysinfo),
	SCMP_SYS(getcpu),
	SCMP_SYS(getrandom),
	SCMP_SYS(getrlimit),
	SCMP_SYS(ugetrlimit),
	SCMP_SYS(setrlimit),
	SCMP_SYS(prlimit64),
	SCMP_SYS(prctl),
	SCMP_SYS(capget),
	/* tables and programs */
	SCMP_SYS(bpf),
	SCMP_SYS(perf_event_open),
};

#ifdef __s390__
#define CLONE_FLAGS_ARGUMENT 1 /* the stack comes first: clone(2) */
#else
#define CLONE_FLAGS_ARGUMENT 0
#endif

/* Allow threads, but no namespaces. clone3() is not allowed, since no filter sees its flags; libc
 * falls back to clone(). */
static int allow_threads(scmp_filter_ctx filter)
{
	const scmp_datum_t namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
					CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

	return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				SCMP_CMP(CLONE_FLAGS_ARGUMENT, SCMP_CMP_MASKED_EQ, namespaces, 0));
}

static void release_filter(scmp_filter_ctx *filter)
{
	if (*filter)
		seccomp_release(*filter);
}

/* @action: what happens to a call that is not allowed. */
static int filter_calls(uint32_t action, struct mk_error *err)
{
	__attribute__((cleanup(release_filter))) scmp_filter_ctx filter = seccomp_init(action);
	int ret = filter ? seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1) : -ENOMEM;

	for (size_t i = 0; ret == 0 && i < MK_ARRAY_SIZE(allowed); i++)
		if (allowed[i] >= 0) /* exists only on other architectures */
			ret = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
	ret = ret ?: allow_threads(filter);
	ret = ret ?: seccomp_load(filter);
	return ret < 0 ? mk_error_errno(err, -ret, "cannot filter system calls") : 0;
}

/* A call that is not allowed fails with ENOSYS, so that a library falls back to one that is. If an
 * unknown library fails, an operator may have the calls logged by the kernel's audit instead, or
 * disable the filter. */
static int choose_filter(struct mk_error *err)
{
	const char *wanted = getenv("MONOKUBE_SECCOMP");

	if (!wanted || !*wanted || strcmp(wanted, "on") == 0)
		return filter_calls(SCMP_ACT_ERRNO(ENOSYS), err);
	if (strcmp(wanted, "off") == 0) {
		mk_log_warn("MONOKUBE_SECCOMP is off: system calls are not filtered");
		return 0;
	}
	if (strcmp(wanted, "log") != 0)
		return mk_error_set(err, EINVAL,
				    "MONOKUBE_SECCOMP: value '%s', expected on, log or off",
				    wanted);
	mk_log_warn(
		"MONOKUBE_SECCOMP is log: unexpected system calls are allowed, and logged by the kernel");
	return filter_calls(SCMP_ACT_LOG, err);
}

/* ---- memory for tables ----------------------------------------------------------------------- */

#define MEMCG_MAJOR 5 /* from this version on, tables count as the container's memory */
#define MEMCG_MINOR 11

bool privileges_memlock_limited(const char *release, unsigned long limit_bytes)
{
	unsigned int major = 0, minor = 0;

	if (limit_bytes == RLIM_INFINITY || sscanf(release, "%u.%u", &major, &minor) != 2)
		return false;
	return major < MEMCG_MAJOR || (major == MEMCG_MAJOR && minor < MEMCG_MINOR);
}

/* Raising the limit takes CAP_SYS_RESOURCE, which the manifest does not request: later kernels do
 * not need it, and nested environments cannot grant it. */
static void raise_memlock(void)
{
	const struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
	struct rlimit limit = unlimited;
	struct utsname kernel = { 0 };

	if (setrlimit(RLIMIT_MEMLOCK, &unlimited) == 0)
		return;
	uname(&kernel);
	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (privileges_memlock_limited(kernel.release, limit.rlim_cur))
		mk_log_warn(
			"Linux %s counts tables against RLIMIT_MEMLOCK, which is %lu bytes here, and CAP_SYS_RESOURCE to raise it is missing: add SYS_RESOURCE to the capabilities of the agent's container, or set LimitMEMLOCK=infinity for the container runtime",
			kernel.release, (unsigned long)limit.rlim_cur);
}

int mk_privileges_drop(const struct mk_config *config, struct mk_error *err)
{
	int ret;

	raise_memlock(); /* before capabilities are dropped */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return mk_error_errno(err, errno, "cannot set no_new_privs");
	ret = drop_capabilities(config, err);
	return ret < 0 ? ret : choose_filter(err);
}
