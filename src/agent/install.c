// SPDX-License-Identifier: Apache-2.0
/* The CNI configuration and the plugin. The plugin is a copy of this program's file, which needs no
 * library of the host. It is installed when the datapath is attached, the configuration when
 * everything else is done. A runtime that finds the configuration finds a node that works. */
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/install.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "host/record.h"

#define OWN_FILE       "/proc/self/exe"
#define COMPARED_BYTES 16384 /* at once: the plugin is larger than what the agent has in memory */
#define CONF_MODE      0600
#define PLUGIN_MODE    0755

static const char conf_template[] =
#include "cni_conf_template.h"
	;

/* ---- configuration --------------------------------------------------------------------------- */

/* The primary family, or the only one that the Node has. */
static unsigned first_family(const struct mk_cni_conf_values *values)
{
	unsigned primary = mk_family_index(values->config->cluster.primary);

	return values->pod_cidrs[primary].ip.family == AF_UNSPEC ? !primary : primary;
}

/* Print the ranges of both families, the first one first. A node of one family has no lists. */
static void print_lists(FILE *out, const struct mk_cni_conf_values *values)
{
	const struct mk_config *config = values->config;
	const struct {
		const char *key;
		const struct mk_cidr *cidrs;
	} lists[] = {
		{ "podCIDRs", values->pod_cidrs },
		{ "clusterCIDRs", config->cluster.of },
		{ "vtepCIDRs", config->vteps.of },
	};
	unsigned first = first_family(values);
	char a[MK_CIDR_STRLEN], b[MK_CIDR_STRLEN];

	if (values->pod_cidrs[!first].ip.family == AF_UNSPEC)
		return;
	for (size_t i = 0; i < MK_ARRAY_SIZE(lists); i++)
		fprintf(out, "\"%s\": [\"%s\", \"%s\"],\n      ", lists[i].key,
			mk_cidr_format(&lists[i].cidrs[first], a),
			mk_cidr_format(&lists[i].cidrs[!first], b));
}

static bool is_name(const char *name, size_t length, const char *wanted)
{
	return strlen(wanted) == length && strncmp(wanted, name, length) == 0;
}

/* Print the value of a placeholder. Returns false if there is none of this name. */
static bool put_value(FILE *out, const char *name, size_t length,
		      const struct mk_cni_conf_values *values)
{
	char pods[MK_CIDR_STRLEN], cluster[MK_CIDR_STRLEN], vteps[MK_CIDR_STRLEN], mtu[16];
	const struct mk_config *config = values->config;
	unsigned first = first_family(values);
	const struct {
		const char *name, *value;
	} list[] = {
		{ "podCIDR", mk_cidr_format(&values->pod_cidrs[first], pods) },
		{ "clusterCIDR", mk_cidr_format(&config->cluster.of[first], cluster) },
		{ "vtepCIDR", mk_cidr_format(&config->vteps.of[first], vteps) },
		{ "underlayFamily", values->underlay == AF_INET6 ? "IPv6" : "IPv4" },
		{ "mtu", mtu },
		{ "direct", values->is_direct ? "true" : "false" },
		{ "vethPrefix", config->veth_prefix },
		{ "stateDir", config->state_dir },
		{ "bpfDir", config->bpf_dir },
	};

	snprintf(mtu, sizeof(mtu), "%u", values->mtu_bytes);
	if (is_name(name, length, "lists")) {
		print_lists(out, values);
		return true;
	}
	for (size_t i = 0; i < MK_ARRAY_SIZE(list); i++)
		if (is_name(name, length, list[i].name))
			return fputs(list[i].value, out) >= 0;
	return false;
}

static int render(FILE *out, const char *text, const struct mk_cni_conf_values *values,
		  struct mk_error *err)
{
	const char *open, *close;

	while ((open = strstr(text, "${"))) {
		close = strchr(open, '}');
		if (!close)
			return mk_error_set(err, EINVAL, "CNI template: '${' without '}'");
		fprintf(out, "%.*s", (int)(open - text), text);
		if (!put_value(out, open + 2, (size_t)(close - open - 2), values))
			return mk_error_set(err, EINVAL, "CNI template: '%.*s' has no meaning",
					    (int)(close - open + 1), open);
		text = close + 1;
	}
	fputs(text, out);
	return 0;
}

char *cni_conf_render(const char *template, const struct mk_cni_conf_values *values,
		      struct mk_error *err)
{
	cleanup_free char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	int ret = out ? render(out, template, values, err) : -ENOMEM;

	if (!out || fclose(out) != 0)
		ret = mk_error_errno(err, ENOMEM, "cannot write the CNI configuration");
	return ret == 0 ? mk_steal_ptr(text) : NULL;
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool holds(const char *path, const char *data, size_t size)
{
	cleanup_close int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	char part[COMPARED_BYTES];
	ssize_t got = -1;
	size_t at = 0;

	while (fd >= 0 && (got = read(fd, part, sizeof(part))) > 0) {
		if ((size_t)got > size - at || memcmp(part, data + at, (size_t)got) != 0)
			return false;
		at += (size_t)got;
	}
	return got == 0 && at == size;
}

/* Is @path a regular file, not a link, with exactly the permissions @mode? */
static bool has_mode(const char *path, mode_t mode)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 07777) == mode;
}

static struct agent_file look(const char *path)
{
	struct agent_file file = { 0 };
	struct stat st;

	if (lstat(path, &st) == 0)
		file = (struct agent_file){ st.st_dev, st.st_ino, st.st_size, st.st_ctim };
	return file;
}

static bool is_same(const char *path, const struct agent_file *before)
{
	struct agent_file now = look(path);

	return now.dev == before->dev && now.ino == before->ino && now.size == before->size &&
	       now.changed.tv_sec == before->changed.tv_sec &&
	       now.changed.tv_nsec == before->changed.tv_nsec;
}

/* Is @path as the agent left it? Otherwise it is compared, and the log says why. */
static bool is_as_left(struct mk_core *core, const char *path, struct agent_file *file)
{
	if (!file->ino || is_same(path, file))
		return file->ino != 0;
	mk_log_warn("file was %s and is compared again path=%s",
		    look(path).ino ? "changed by another process" : "missing", path);
	core->repairs.count[MK_REPAIR_FILE]++;
	file->ino = 0;
	return false;
}

static int write_file(const char *path, const char *data, size_t size, mode_t mode,
		      struct mk_error *err)
{
	char copy[PATH_MAX + 16];
	int ret;

	snprintf(copy, sizeof(copy), "%s", path);
	ret = mk_mkdirs(dirname(copy), 0755, err);
	return ret < 0 ? ret : mk_file_replace(path, data, size, mode, err);
}

static int install_conf(const struct mk_cni_conf_values *values, struct mk_error *err)
{
	const char *path = values->config->cni_conf_path;
	cleanup_free char *text = cni_conf_render(conf_template, values, err);
	int ret;

	if (!text)
		return -EINVAL;
	if (holds(path, text, strlen(text)) && has_mode(path, CONF_MODE))
		return 0;
	ret = write_file(path, text, strlen(text), CONF_MODE, err);
	if (ret == 0)
		mk_log_info("CNI configuration written path=%s", path);
	return ret;
}

/* Maps the file of the running program, also if another file has its name by now. The caller calls
 * munmap(). */
static int map_own_file(char **data, size_t *size, struct mk_error *err)
{
	cleanup_close int fd = open(OWN_FILE, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return mk_error_errno(err, errno, "cannot open '" OWN_FILE "'");
	*size = (size_t)st.st_size;
	*data = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
	return *data != MAP_FAILED ? 0 : mk_error_errno(err, errno, "cannot map '" OWN_FILE "'");
}

/* Keep the previous version beside the new one, for a downgrade by hand. If that fails (no hard
 * links), the new version is installed nevertheless. */
static void keep_previous(const char *path)
{
	static const char kept[] = MK_PLUGIN_NAME MK_PREVIOUS_SUFFIX;
	static const char fresh[] = MK_PLUGIN_NAME MK_PREVIOUS_SUFFIX ".new";
	const char *name;
	cleanup_close int dir = mk_parent_open(path, &name, NULL);

	if (dir < 0)
		return; /* writing the file will report the error */
	if (unlinkat(dir, fresh, 0) < 0 && errno != ENOENT)
		mk_log_warn("cannot remove '%s', beside '%s': %s", fresh, path, strerror(errno));
	if (linkat(dir, name, dir, fresh, 0) == 0 && renameat(dir, fresh, dir, kept) == 0)
		mk_log_info("previous CNI plugin kept path=%s" MK_PREVIOUS_SUFFIX, path);
	else if (errno != ENOENT)
		mk_log_warn("cannot keep the previous CNI plugin as '%s', beside '%s': %s", kept,
			    path, strerror(errno));
}

static void plugin_path(const struct mk_config *config, char path[PATH_MAX + 16])
{
	snprintf(path, PATH_MAX + 16, "%s/" MK_PLUGIN_NAME, config->cni_bin_dir);
}

static int install_plugin(const char *path, struct mk_error *err)
{
	size_t size = 0;
	bool is_this;
	char *data;
	int ret = map_own_file(&data, &size, err);

	if (ret < 0)
		return ret;
	is_this = holds(path, data, size);
	if (!is_this)
		keep_previous(path);
	if (!is_this || !has_mode(path, PLUGIN_MODE)) {
		ret = write_file(path, data, size, PLUGIN_MODE, err);
		if (ret == 0)
			mk_log_info("CNI plugin installed path=%s", path);
	}
	munmap(data, size);
	return ret;
}

/* Runtimes call a plugin `loopback` first; a host without a distribution's plugins lacks it. */
static int install_loopback(const struct mk_config *config, struct mk_error *err)
{
	char path[PATH_MAX + 16];
	const char *name;
	cleanup_close int dir = -1;

	snprintf(path, sizeof(path), "%s/" MK_LOOPBACK_NAME, config->cni_bin_dir);
	dir = mk_parent_open(path, &name, err);
	if (dir < 0)
		return dir;
	if (symlinkat(MK_PLUGIN_NAME, dir, name) < 0)
		return errno == EEXIST ? 0 : mk_error_errno(err, errno, "cannot make '%s'", path);
	mk_log_info("no CNI plugin loopback was installed: linked to monokube path=%s", path);
	return 0;
}

static bool has_loopback(const struct mk_config *config)
{
	char path[PATH_MAX + 16];
	struct stat st;

	snprintf(path, sizeof(path), "%s/" MK_LOOPBACK_NAME, config->cni_bin_dir);
	return lstat(path, &st) == 0;
}

bool agent_files_differ(const struct agent_files *files, const struct mk_config *config)
{
	char path[PATH_MAX + 16];

	plugin_path(config, path);
	return (files->plugin.ino && (!is_same(path, &files->plugin) || !has_loopback(config))) ||
	       (files->conf.ino && !is_same(config->cni_conf_path, &files->conf));
}

int agent_files_reconcile_plugin(struct agent_files *files, struct mk_core *core,
				 struct mk_error *err)
{
	const struct mk_config *config = &core->config;
	char path[PATH_MAX + 16];
	int ret;

	plugin_path(config, path);
	if (is_as_left(core, path, &files->plugin) && has_loopback(config))
		return 0;
	ret = install_plugin(path, err);
	if (ret == 0)
		ret = install_loopback(config, err);
	if (ret == 0)
		files->plugin = look(path);
	return ret;
}

int agent_files_reconcile_conf(struct agent_files *files, struct mk_core *core,
			       const struct mk_cni_conf_values *values, struct mk_error *err)
{
	const char *path = core->config.cni_conf_path;
	int ret;

	if (is_as_left(core, path, &files->conf) && files->mtu_bytes == values->mtu_bytes &&
	    files->is_direct == values->is_direct &&
	    mk_cidr_equal(&files->pod_cidrs[0], &values->pod_cidrs[0]) &&
	    mk_cidr_equal(&files->pod_cidrs[1], &values->pod_cidrs[1]))
		return 0;
	ret = install_conf(values, err);
	if (ret < 0)
		return ret;
	files->conf = look(path);
	memcpy(files->pod_cidrs, values->pod_cidrs, sizeof(files->pod_cidrs));
	files->mtu_bytes = values->mtu_bytes;
	files->is_direct = values->is_direct;
	return 0;
}
