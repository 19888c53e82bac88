// SPDX-License-Identifier: Apache-2.0
/* The CNI configuration and the plugin. The plugin is a copy of this program's file, which needs no
 * library of the host. It is installed when the datapath is attached, the configuration when
 * everything else is done. A runtime that finds the configuration finds a node that works. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent_internal.h"
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

struct placeholder {
	const char *name;
	char value[PATH_MAX];
};

static size_t fill(struct placeholder *list, const struct mk_cni_conf_values *values)
{
	const struct mk_config *config = values->config;
	const struct {
		const char *name, *value;
	} texts[] = {
		{ "vethPrefix", config->veth_prefix },
		{ "stateDir", config->state_dir },
		{ "bpfDir", config->bpf_dir },
	};
	size_t count = 0;

	list[count].name = "podCIDR";
	mk_cidr_format(&values->pod_cidr, list[count++].value);
	list[count].name = "clusterCIDR";
	mk_cidr_format(&config->cluster_cidr, list[count++].value);
	list[count].name = "vtepCIDR";
	mk_cidr_format(&config->vtep_cidr, list[count++].value);
	list[count].name = "mtu";
	snprintf(list[count++].value, PATH_MAX, "%u", values->mtu_bytes);
	for (size_t i = 0; i < MK_ARRAY_SIZE(texts); i++) {
		list[count].name = texts[i].name;
		snprintf(list[count++].value, PATH_MAX, "%s", texts[i].value);
	}
	return count;
}

static const char *value_of(const struct placeholder *list, size_t count, const char *name,
			    size_t length)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(list[i].name) == length && strncmp(list[i].name, name, length) == 0)
			return list[i].value;
	return NULL;
}

static int render(FILE *out, const char *text, const struct placeholder *list, size_t count,
		  struct mk_error *err)
{
	const char *open, *close;

	while ((open = strstr(text, "${"))) {
		const char *value;

		close = strchr(open, '}');
		if (!close)
			return mk_error_set(err, EINVAL, "CNI template: '${' without '}'");
		value = value_of(list, count, open + 2, (size_t)(close - open - 2));
		if (!value)
			return mk_error_set(err, EINVAL, "CNI template: '%.*s' has no meaning",
					    (int)(close - open + 1), open);
		fprintf(out, "%.*s%s", (int)(open - text), text, value);
		text = close + 1;
	}
	fputs(text, out);
	return 0;
}

char *cni_conf_render(const char *template, const struct mk_cni_conf_values *values,
		      struct mk_error *err)
{
	cleanup_free struct placeholder *list = calloc(8, sizeof(*list));
	cleanup_free char *text = NULL;
	size_t size = 0;
	FILE *out = list ? open_memstream(&text, &size) : NULL;
	int ret;

	if (!out) {
		(void)mk_error_errno(err, ENOMEM, "cannot write the CNI configuration");
		return NULL;
	}
	ret = render(out, template, list, fill(list, values), err);
	if (fclose(out) != 0 && ret == 0)
		ret = mk_error_errno(err, ENOMEM, "cannot write the CNI configuration");
	return ret == 0 ? mk_steal_ptr(text) : NULL;
}

/* ---- files ----------------------------------------------------------------------------------- */

static int make_parent(const char *path, struct mk_error *err)
{
	char parent[PATH_MAX];
	char *slash;

	snprintf(parent, sizeof(parent), "%s", path);
	slash = strrchr(parent, '/');
	if (!slash || slash == parent)
		return 0;
	*slash = '\0';
	return mk_mkdirs(parent, 0755, err);
}

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

static bool is_changed(const char *path, const struct agent_file *before)
{
	struct agent_file now = look(path);

	if (now.dev == before->dev && now.ino == before->ino && now.size == before->size &&
	    now.changed.tv_sec == before->changed.tv_sec &&
	    now.changed.tv_nsec == before->changed.tv_nsec)
		return false;
	mk_log_warn("file was %s and is compared again path=%s",
		    now.ino ? "changed by another process" : "missing", path);
	return true;
}

static int write_file(const char *path, const char *data, size_t size, mode_t mode,
		      struct mk_error *err)
{
	int ret = make_parent(path, err);

	return ret < 0 ? ret : mk_file_replace(path, data, size, mode, err);
}

static int install_conf(struct mk_agent *agent, struct mk_error *err)
{
	struct mk_cni_conf_values values = {
		.config = &agent->config,
		.pod_cidr = agent->node.addresses.pod_cidr,
		.mtu_bytes = agent->node.mtu_bytes,
	};
	cleanup_free char *text = NULL;
	int ret;

	text = cni_conf_render(conf_template, &values, err);
	if (!text)
		return -EINVAL;
	if (holds(agent->config.cni_conf_path, text, strlen(text)) &&
	    has_mode(agent->config.cni_conf_path, CONF_MODE))
		return 0;
	ret = write_file(agent->config.cni_conf_path, text, strlen(text), CONF_MODE, err);
	if (ret == 0)
		mk_log_info("CNI configuration written path=%s", agent->config.cni_conf_path);
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

static void plugin_path(const struct mk_agent *agent, char path[PATH_MAX + 16])
{
	snprintf(path, PATH_MAX + 16, "%s/" MK_PLUGIN_NAME, agent->config.cni_bin_dir);
}

static int install_file(const char *path, const char *data, size_t size, struct mk_error *err)
{
	bool is_this = holds(path, data, size);
	int ret;

	if (is_this && has_mode(path, PLUGIN_MODE))
		return 0;
	if (!is_this)
		keep_previous(path);
	ret = write_file(path, data, size, PLUGIN_MODE, err);
	if (ret == 0)
		mk_log_info("CNI plugin installed path=%s", path);
	return ret;
}

static int install_plugin(struct mk_agent *agent, struct mk_error *err)
{
	char path[PATH_MAX + 16];
	size_t size = 0;
	char *data;
	int ret = map_own_file(&data, &size, err);

	if (ret < 0)
		return ret;
	plugin_path(agent, path);
	ret = install_file(path, data, size, err);
	munmap(data, size);
	return ret;
}

/* Runtimes call a plugin `loopback` first; a host without a distribution's plugins lacks it. */
static int install_loopback(const struct mk_agent *agent, struct mk_error *err)
{
	char path[PATH_MAX + 16];
	const char *name;
	cleanup_close int dir = -1;

	snprintf(path, sizeof(path), "%s/" MK_LOOPBACK_NAME, agent->config.cni_bin_dir);
	dir = mk_parent_open(path, &name, err);
	if (dir < 0)
		return dir;
	if (symlinkat(MK_PLUGIN_NAME, dir, name) < 0)
		return errno == EEXIST ? 0 : mk_error_errno(err, errno, "cannot make '%s'", path);
	mk_log_info("no CNI plugin loopback was installed: linked to monokube path=%s", path);
	return 0;
}

static bool has_loopback(const struct mk_agent *agent)
{
	char path[PATH_MAX + 16];
	struct stat st;

	snprintf(path, sizeof(path), "%s/" MK_LOOPBACK_NAME, agent->config.cni_bin_dir);
	return lstat(path, &st) == 0;
}

/* Three calls of stat(2) instead of watches: a directory may vanish and come back, too. */
int agent_check_files(struct mk_agent *agent)
{
	bool plugin_changed, conf_changed;
	char path[PATH_MAX + 16];

	plugin_path(agent, path);
	plugin_changed = agent->plugin_installed && is_changed(path, &agent->plugin_file);
	conf_changed =
		agent->conf_installed && is_changed(agent->config.cni_conf_path, &agent->conf_file);
	if (plugin_changed || !has_loopback(agent))
		agent->plugin_installed = false;
	if (conf_changed)
		agent->conf_installed = false;
	return plugin_changed + conf_changed;
}

/* Install the plugin as soon as the tables are this version's. The plugin of another version does
 * not know them, so no pod could start or end before the other steps work. */
int agent_step_plugin(struct mk_agent *agent, struct mk_error *err)
{
	char path[PATH_MAX + 16];
	int ret;

	if (agent->plugin_installed)
		return 0;
	ret = install_plugin(agent, err);
	if (ret == 0)
		ret = install_loopback(agent, err);
	if (ret < 0)
		return ret;
	plugin_path(agent, path);
	agent->plugin_file = look(path);
	agent->plugin_installed = true;
	return 0;
}

/* Install the configuration last: it tells runtimes that the node works. */
int agent_step_conf(struct mk_agent *agent, struct mk_error *err)
{
	int ret;

	if (agent->conf_installed)
		return 0;
	ret = install_conf(agent, err);
	if (ret < 0)
		return ret;
	agent->conf_file = look(agent->config.cni_conf_path);
	agent->conf_installed = true;
	return 0;
}
