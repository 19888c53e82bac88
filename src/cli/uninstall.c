// SPDX-License-Identifier: Apache-2.0
/* `monokube cleanup`: remove what an agent and the CNI mode ever made on this host. The order
 * leaves no reference to anything removed: the configuration that calls the plugin goes first, the
 * state last. Works when half of it is missing; prints what it removed. */
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/netlink/netlink.h"
#include "cli/cli.h"
#include "cli/cli_internal.h"
#include "cluster/api/clock.h"
#include "clusters/clusters.h"
#include "datapath/datapath.h"
#include "datapath/maps/pin.h"
#include "datapath/pods/port.h"
#include "datapath/policy/names.h"
#include "datapath/services/names.h"
#include "host/agent_state.h"
#include "host/record.h"
#include "host/sysctl.h"
#include "overlay/node_names.h"
#include "overlay/overlay.h"
#include "pod/endpoint/endpoint.h"
#include "sfc/sfc.h"

struct cleaning {
	const char *state_dir;
	struct mk_record record;
	struct mk_nl *nl;
};

/* ---- files ----------------------------------------------------------------------------------- */

static int remove_file(const char *path, struct mk_error *err)
{
	if (unlink(path) == 0)
		printf("removed %s\n", path);
	else if (errno != ENOENT && errno != ENOTDIR)
		return mk_error_errno(err, errno, "cannot remove '%s'", path);
	return 0;
}

/* Remove it only if it is the agent's link to the plugin. */
static int remove_loopback(const struct cleaning *cleaning, struct mk_error *err)
{
	char path[PATH_MAX + 32], target[sizeof(MK_PLUGIN_NAME) + 1];
	ssize_t length;

	snprintf(path, sizeof(path), "%s/" MK_LOOPBACK_NAME, cleaning->record.cni_bin_dir);
	length = readlink(path, target, sizeof(target));
	if (length != sizeof(MK_PLUGIN_NAME) - 1 ||
	    memcmp(target, MK_PLUGIN_NAME, (size_t)length) != 0)
		return 0;
	return remove_file(path, err);
}

static int remove_cni(const struct cleaning *cleaning, struct mk_error *err)
{
	static const char *const suffixes[] = { "", MK_PREVIOUS_SUFFIX };
	char plugin[PATH_MAX + 32];
	int ret = remove_file(cleaning->record.cni_conf_path, err);

	for (size_t i = 0; ret == 0 && i < MK_ARRAY_SIZE(suffixes); i++) {
		snprintf(plugin, sizeof(plugin), "%s/" MK_PLUGIN_NAME "%s",
			 cleaning->record.cni_bin_dir, suffixes[i]);
		ret = remove_file(plugin, err);
	}
	return ret < 0 ? ret : remove_loopback(cleaning, err);
}

static unsigned int files_removed; /* nftw(3) passes no context */

static int remove_visited(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)st;
	(void)where;
	if (type == FTW_DP)
		return rmdir(path);
	files_removed++;
	return unlink(path);
}

/* Remove @path and everything below it. */
static int remove_folder(const char *path, struct mk_error *err)
{
	files_removed = 0;
	if (access(path, F_OK) < 0 && errno == ENOENT)
		return 0;
	if (nftw(path, remove_visited, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) != 0)
		return mk_error_errno(err, errno, "cannot remove '%s'", path);
	printf("removed %s and %u files in it\n", path, files_removed);
	return 0;
}

/* The directory itself stays if it is a mount point or holds other files. */
static int remove_state(const struct cleaning *cleaning, struct mk_error *err)
{
	static const char *const names[] = {
		MK_RECORD_NAME,	     MK_SETTINGS_NAME,	  MK_AGENT_LOCK,
		MK_AGENT_STATE,	     MK_LOCK_GATE,	  MK_LOCK_DATAPATH,
		MK_LOCK_RUNTIME,     MK_LOCK_DROPS,	  MK_LOCK_HOST_PORTS,
		MK_NAMES_FILE,	     MK_NODE_NAMES_FILE,  MK_API_CLOCK_FILE,
		MK_NODE_OBJECT_NAME, MK_NAMES_FILE_IPV6,  MK_POLICY_NAMES_FILE,
		MK_POLICY_KEY_FILE,  MK_CHAIN_NAMES_FILE, MK_CLUSTER_NAMES_FILE,
	};
	char path[PATH_MAX + 32];
	int ret;

	snprintf(path, sizeof(path), "%s/ipam", cleaning->state_dir);
	ret = remove_folder(path, err);
	for (size_t i = 0; ret == 0 && i < MK_ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", cleaning->state_dir, names[i]);
		ret = remove_file(path, err);
	}
	if (ret == 0 && rmdir(cleaning->state_dir) == 0)
		printf("removed %s\n", cleaning->state_dir);
	return ret;
}

/* ---- interfaces ------------------------------------------------------------------------------ */

struct pod_links {
	const char *prefix;
	char (*names)[IFNAMSIZ];
	size_t count;
	struct mk_error *err;
};

static int see_link(void *ctx, const struct mk_link *link)
{
	struct pod_links *pods = ctx;
	char(*added)[IFNAMSIZ];

	if (!mk_cni_is_pod_device(pods->prefix, link) && !mk_port_of(link, NULL, NULL))
		return 0;
	added = mk_append(pods->names, pods->count);
	if (!added)
		return mk_error_errno(pods->err, ENOMEM, "cannot list the interfaces");
	snprintf(*added, IFNAMSIZ, "%s", link->name);
	return 0;
}

/* Remove pods' veths, too: without address and table entry they are useless. */
static int remove_pods(const struct cleaning *cleaning, struct mk_error *err)
{
	struct pod_links pods = { .prefix = cleaning->record.veth_prefix, .err = err };
	int ret = mk_nl_each_link(cleaning->nl, see_link, &pods, err);

	for (size_t i = 0; ret == 0 && i < pods.count; i++) {
		ret = mk_nl_link_delete(cleaning->nl, pods.names[i], err);
		if (ret == 0)
			printf("removed a pod's interface %s\n", pods.names[i]);
	}
	free(pods.names);
	return ret;
}

static int remove_datapath(const struct cleaning *cleaning, struct mk_error *err)
{
	struct mk_removed removed = { 0 };
	int ret = mk_datapath_remove(cleaning->nl, cleaning->record.bpf_dir, &removed, err);

	if (removed.filters || removed.pins)
		printf("removed %u programs from hooks, %u pins in %s\n", removed.filters,
		       removed.pins, cleaning->record.bpf_dir);
	return ret;
}

static int remove_overlay(const struct cleaning *cleaning, struct mk_error *err)
{
	const char *const names[] = { cleaning->record.vxlan_name, cleaning->record.sfc_name,
				      cleaning->record.peer_name };
	unsigned int removed = 0;
	int ret = mk_overlay_remove(cleaning->nl, names, MK_ARRAY_SIZE(names), &removed, err);

	if (removed)
		printf("removed %u routes and interfaces\n", removed);
	return ret;
}

static int restore_sysctls(const struct cleaning *cleaning, struct mk_error *err)
{
	int restored = mk_sysctls_restore(cleaning->state_dir, err);

	if (restored > 0)
		printf("put back %d kernel settings; other software may need them: for example, Docker and libvirt need net.ipv4.ip_forward=1\n",
		       restored);
	return restored < 0 ? restored : 0;
}

/* ---- one family ------------------------------------------------------------------------------ */

static int remove_ipv6_datapath(const struct cleaning *cleaning, struct mk_error *err)
{
	const char *bpf_dir = cleaning->record.bpf_dir;
	struct mk_removed removed = { 0 };
	int ret = mk_datapath_remove_family(cleaning->nl, bpf_dir, AF_INET6, &removed, err);

	if (removed.pins)
		printf("removed %u programs and tables of IPv6 in %s\n", removed.pins, bpf_dir);
	return ret;
}

static int remove_ipv6_overlay(const struct cleaning *cleaning, struct mk_error *err)
{
	unsigned int removed = 0;
	int ret = mk_overlay_remove_family(cleaning->nl, cleaning->record.vxlan_name, AF_INET6,
					   &removed, err);

	if (removed)
		printf("removed %u routes, addresses and neighbours of IPv6\n", removed);
	return ret;
}

/* ---- the command ----------------------------------------------------------------------------- */

struct step {
	const char *what;
	int (*run)(const struct cleaning *cleaning, struct mk_error *err);
};

static const struct step all[] = {
	{ "CNI configuration and plugin", remove_cni }, { "pods' interfaces", remove_pods },
	{ "programs and tables", remove_datapath },	{ "overlay", remove_overlay },
	{ "kernel settings", restore_sysctls },		{ "state", remove_state },
};

/* The kernel's settings and the state belong to both families. */
static const struct step only_ipv6[] = {
	{ "programs and tables", remove_ipv6_datapath },
	{ "overlay", remove_ipv6_overlay },
};

/* No agent starts while *@fd is open: a DaemonSet's pod would make again what is removed. Without a
 * state directory *@fd is negative. */
static int keep_agents_out(const char *state_dir, int *fd, struct mk_error *err)
{
	*fd = mk_agent_keep_out(state_dir, err);
	if (*fd >= 0 || *fd == -ENOENT)
		return 0;
	return *fd;
}

/* Enter the host, that is the namespaces of its process 1, from a container with the host's process
 * ids. */
static int enter_host(struct mk_error *err)
{
	static const struct {
		const char *path;
		int type;
	} spaces[] = { { "/proc/1/ns/net", CLONE_NEWNET }, { "/proc/1/ns/mnt", CLONE_NEWNS } };
	cleanup_close int first = open(spaces[0].path, O_RDONLY | O_CLOEXEC);
	cleanup_close int second = open(spaces[1].path, O_RDONLY | O_CLOEXEC);
	const int fds[] = { first, second };

	for (size_t i = 0; i < MK_ARRAY_SIZE(fds); i++)
		if (fds[i] < 0 || setns(fds[i], spaces[i].type) < 0)
			return mk_error_errno(
				err, errno,
				"--host: cannot enter '%s' (a pod needs hostPID: true and to be privileged)",
				spaces[i].path);
	return 0;
}

/* Try every step, even if others failed. */
static int clean(const struct cleaning *cleaning, const struct step *steps, size_t count)
{
	int status = 0;

	for (size_t i = 0; i < count; i++) {
		struct mk_error err = { 0 };

		if (steps[i].run(cleaning, &err) < 0) {
			fprintf(stderr, "monokube cleanup: %s: %s\n", steps[i].what,
				mk_error_text(&err));
			status = 1;
		}
	}
	return status;
}

static int clean_ipv6(const struct cleaning *cleaning, struct mk_error *err)
{
	if (!mk_pin_has(cleaning->record.bpf_dir, AF_INET))
		return mk_error_set(
			err, ENOENT,
			"flag --ipv6: this node does not run IPv4, so `monokube cleanup` without the flag removes everything");
	return clean(cleaning, only_ipv6, MK_ARRAY_SIZE(only_ipv6));
}

int cli_cleanup(int argc, char **argv)
{
	struct cleaning cleaning = { 0 };
	struct mk_cli_options options;
	struct mk_error err = { 0 };
	cleanup_close int lock_fd = -1;
	int ret = mk_cli_options_read(&options, argc, argv, &err);

	if (ret > 0)
		return 0;
	if (ret == 0 && options.host)
		ret = enter_host(&err);
	ret = ret ?: keep_agents_out(options.state_dir, &lock_fd, &err);
	ret = ret ?: mk_record_read(options.state_dir, &cleaning.record, &err);
	if (ret == 0) {
		cleaning.state_dir = options.state_dir;
		cleaning.nl = mk_nl_open(&err);
		if (!cleaning.nl)
			ret = -EINVAL;
		else if (options.given & MK_CLI_ONLY_IPV6)
			ret = clean_ipv6(&cleaning, &err);
		else
			ret = clean(&cleaning, all, MK_ARRAY_SIZE(all));
		mk_nl_free(cleaning.nl);
	}
	return ret < 0 ? mk_cli_fail("cleanup", &err) : ret;
}
