// SPDX-License-Identifier: Apache-2.0
#include "datapath/maps/pin.h"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"

#define IPV6_DIR "/ipv6"

int mk_pin_dir(char *dir, const char *bpf_dir, sa_family_t family, struct mk_error *err)
{
	if (snprintf(dir, PATH_MAX, "%s%s", bpf_dir, family == AF_INET6 ? IPV6_DIR : "") >=
	    PATH_MAX)
		return mk_error_errno(err, ENAMETOOLONG, "BPF directory '%s'", bpf_dir);
	return 0;
}

bool mk_pin_other_dir(char *other, const char *dir, sa_family_t family)
{
	size_t bytes = strlen(dir), suffix = strlen(IPV6_DIR);

	if (family == AF_INET)
		return mk_pin_dir(other, dir, AF_INET6, NULL) == 0;
	if (bytes <= suffix || strcmp(dir + bytes - suffix, IPV6_DIR) != 0)
		return false;
	snprintf(other, PATH_MAX, "%.*s", (int)(bytes - suffix), dir);
	return true;
}

int mk_pin_path(char *path, const char *dir, const char *kind, const char *name,
		struct mk_error *err)
{
	if (snprintf(path, PATH_MAX, "%s/%s/%s", dir, kind, name) >= PATH_MAX)
		return mk_error_errno(err, ENAMETOOLONG, "path of pin '%s' below '%s'", name, dir);
	return 0;
}

int mk_pin_open(const char *dir, const char *kind, const char *name, struct mk_error *err)
{
	char path[PATH_MAX];
	int fd, ret = mk_pin_path(path, dir, kind, name, err);

	if (ret < 0)
		return ret;
	fd = bpf_obj_get(path);
	if (fd < 0)
		return mk_error_errno(err, errno, "cannot open pin '%s'", path);
	return fd;
}

bool mk_pin_has(const char *bpf_dir, sa_family_t family)
{
	char dir[PATH_MAX], path[PATH_MAX];

	return mk_pin_dir(dir, bpf_dir, family, NULL) == 0 &&
	       mk_pin_path(path, dir, MK_PIN_MAPS, "pods", NULL) == 0 && access(path, F_OK) == 0;
}

bool mk_pin_has_programs(const char *dir)
{
	char path[PATH_MAX];

	return mk_pin_path(path, dir, MK_PIN_PROGS, "ilb_pod", NULL) == 0 &&
	       access(path, F_OK) == 0;
}

int mk_pin_first_dir(char *dir, const char *bpf_dir, struct mk_error *err)
{
	bool only_ipv6 = !mk_pin_has(bpf_dir, AF_INET) && mk_pin_has(bpf_dir, AF_INET6);

	return mk_pin_dir(dir, bpf_dir, only_ipv6 ? AF_INET6 : AF_INET, err);
}

static bool is_bpffs(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && (unsigned long)fs.f_type == BPF_FS_MAGIC;
}

/* Mount a bpffs on the parent of the BPF directory (usually "/sys/fs/bpf"). */
static int mount_bpffs(const char *bpf_dir, struct mk_error *err)
{
	char parent[PATH_MAX];
	char *slash;
	int ret;

	if (snprintf(parent, sizeof(parent), "%s", bpf_dir) >= (int)sizeof(parent))
		return mk_error_errno(err, ENAMETOOLONG, "BPF directory '%s'", bpf_dir);
	slash = strrchr(parent, '/');
	if (!slash || slash == parent)
		return mk_error_set(err, EINVAL,
				    "BPF directory '%s' is not below a bpffs such as /sys/fs/bpf",
				    bpf_dir);
	*slash = '\0';
	if (is_bpffs(parent))
		return 0;
	if (access(parent, F_OK) < 0) {
		ret = mk_mkdirs(parent, 0755, err);
		if (ret < 0)
			return ret;
	}
	if (mount("bpffs", parent, "bpf", 0, "mode=0700") < 0)
		return mk_error_errno(
			err, errno,
			"'%s' is not a bpffs and none can be mounted there (mount -t bpf bpffs %s)",
			parent, parent);
	mk_log_info("mounted a bpffs path=%s", parent);
	return 0;
}

/* Mount a bpffs for the directory if there is none. */
static int prepare_bpffs(const char *dir, struct mk_error *err)
{
	cleanup_free char *bpf_dir = strdup(dir);
	char *ipv6 = bpf_dir ? strstr(bpf_dir, IPV6_DIR) : NULL;

	if (!bpf_dir)
		return mk_error_errno(err, ENOMEM, "cannot prepare '%s'", dir);
	if (ipv6 && strcmp(ipv6, IPV6_DIR) == 0)
		*ipv6 = '\0';
	return is_bpffs(bpf_dir) ? 0 : mount_bpffs(bpf_dir, err);
}

int mk_pin_prepare(const char *dir, struct mk_error *err)
{
	static const char *const kinds[] = { MK_PIN_MAPS, MK_PIN_PROGS };
	char path[PATH_MAX];
	int ret = prepare_bpffs(dir, err);

	for (size_t i = 0; ret == 0 && i < MK_ARRAY_SIZE(kinds); i++) {
		ret = mk_pin_path(path, dir, kinds[i], "", err);
		ret = ret ?: mk_mkdirs(path, 0700, err);
	}
	return ret;
}

int mk_state_lock(const char *state_dir, const char *name, int operation, struct mk_error *err)
{
	cleanup_close int dir = mk_dir_open(state_dir, 0700, err), fd = -1;
	char path[PATH_MAX];
	int ret;

	if (dir < 0)
		return dir;
	fd = openat(dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return mk_error_errno(err, errno, "cannot open '%s/%s' for writing", state_dir,
				      name);
	if (snprintf(path, sizeof(path), "%s/%s", state_dir, name) >= (int)sizeof(path))
		return mk_error_errno(err, ENAMETOOLONG, "lock '%s' in '%s'", name, state_dir);
	ret = mk_lock_fd(fd, operation, path, err);
	return ret < 0 ? ret : mk_steal_fd(&fd);
}

/* Hold the gate while taking the lock. A process that waits for the exclusive lock holds the gate,
 * so no new shared holder can overtake it. */
int mk_datapath_lock_shared(const char *state_dir, struct mk_error *err)
{
	cleanup_close int gate = mk_state_lock(state_dir, MK_LOCK_GATE, LOCK_EX, err);

	return gate < 0 ? gate : mk_state_lock(state_dir, MK_LOCK_DATAPATH, LOCK_SH, err);
}
