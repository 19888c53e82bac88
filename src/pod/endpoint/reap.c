// SPDX-License-Identifier: Apache-2.0
/* Releases addresses of containers that are gone. */
#include "pod/endpoint/restore.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "datapath/maps/pin.h"
#include "pod/endpoint/endpoint_internal.h"
#include "pod/ipam/ipam.h"

struct reaping {
	struct mk_ipam *ipam;
	struct mk_nl *nl;
	const char *veth_prefix;
	struct mk_error *err;
	int released;
	bool owned; /* all addresses were visited, and each has an owner */
};

/* ---- owners that are gone -------------------------------------------------------------------- */

/* Would this process see @path if it existed? Not if its directory is missing from this mount
 * namespace. In /proc the directory disappears together with the process. */
static bool would_be_visible(const char *path)
{
	char dir[PATH_MAX];
	char *slash;

	if (path[0] != '/' || snprintf(dir, sizeof(dir), "%s", path) >= (int)sizeof(dir))
		return false;
	if (strncmp(path, "/proc/", strlen("/proc/")) == 0)
		return access("/proc/self", F_OK) == 0;
	slash = strrchr(dir, '/');
	*slash = '\0';
	return access(dir[0] ? dir : "/", F_OK) == 0;
}

static bool netns_is_gone(const char *path)
{
	return access(path, F_OK) < 0 && errno == ENOENT && would_be_visible(path);
}

static int reap_visit(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner)
{
	struct reaping *reaping = ctx;
	char host_name[IFNAMSIZ], text[MK_IP_STRLEN];
	struct mk_link link;
	int ret;

	if (!owner->container_id[0])
		reaping->owned = false;
	if (!owner->container_id[0] || !netns_is_gone(owner->netns))
		return 0;
	mk_cni_host_name(reaping->veth_prefix, owner->container_id, owner->ifname, host_name);
	ret = mk_cni_device_find(reaping->nl, reaping->veth_prefix, owner->container_id,
				 owner->ifname, &link, reaping->err);
	if (ret != -ENODEV)
		return ret;
	mk_log_info(
		"released the address of a container that is gone ip=%s container=%s ifname=%s netns=%s (no such namespace) device=%s (no such device)",
		mk_ip_format(ip, text), owner->container_id, owner->ifname, owner->netns,
		host_name);
	reaping->released++;
	return mk_ipam_release_ip(reaping->ipam, ip, reaping->err);
}

/* The exclusive datapath lock guarantees that no ADD is running. A complete endpoint has its veth
 * as long as its namespace exists, so no device means no pod. If the lock is taken, pods are
 * starting. The agent's loop does not wait for them, but tries again in its next round. */
static int reap_owners(struct reaping *reaping, const char *state_dir)
{
	cleanup_close int lock_fd =
		mk_state_lock(state_dir, MK_LOCK_DATAPATH, LOCK_EX | LOCK_NB, reaping->err);
	cleanup_ipam struct mk_ipam *ipam = NULL;

	if (lock_fd < 0)
		return lock_fd == -EWOULDBLOCK ? 0 : lock_fd;
	ipam = mk_ipam_open(state_dir, reaping->err);
	if (!ipam)
		return -reaping->err->code;
	reaping->ipam = ipam;
	reaping->owned = true;
	return mk_ipam_each(ipam, reap_visit, reaping, reaping->err);
}

/* ---- addresses without an owner -------------------------------------------------------------- */

struct sweeping {
	struct mk_cni_node *node;
	struct mk_ipam *ipam;
	struct mk_error *err;
	int released;
};

static int sweep_unknown(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner)
{
	struct sweeping *sweeping = ctx;
	char text[MK_IP_STRLEN];
	int ret;

	if (owner->container_id[0])
		return 0;
	ret = mk_cni_address_is_alive(sweeping->node, ip, sweeping->err);
	if (ret != 0)
		return ret < 0 ? ret : 0;
	mk_log_info("released an address whose file names no owner and that no device has ip=%s",
		    mk_ip_format(ip, text));
	sweeping->released++;
	return mk_ipam_release_ip(sweeping->ipam, ip, sweeping->err);
}

static int sweep_entry(void *ctx, const struct mk_ip *ip, const struct mk_pod *pod)
{
	struct sweeping *sweeping = ctx;
	char text[MK_IP_STRLEN];
	int ret;

	if (mk_ipam_is_allocated(sweeping->ipam, ip))
		return 0;
	ret = mk_cni_address_is_alive(sweeping->node, ip, sweeping->err);
	if (ret != 0)
		return ret < 0 ? ret : mk_cni_address_hold(sweeping->ipam, ip, sweeping->err);
	mk_log_info("removed the table entry of an unassigned address ip=%s ifindex=%u",
		    mk_ip_format(ip, text), pod->ifindex);
	return mk_pods_delete(sweeping->node->pods, ip, sweeping->err);
}

/* The directory's lock keeps a free address from getting an entry meanwhile. @owned: every address
 * has a known owner, so the files need not be read. */
static int sweep_addresses(struct mk_cni_node *node, bool owned, struct mk_error *err)
{
	cleanup_ipam struct mk_ipam *ipam = mk_ipam_open(node->state_dir, err);
	struct sweeping sweeping = { .node = node, .ipam = ipam, .err = err };
	int ret = 0;

	if (!ipam)
		return -err->code;
	if (!owned)
		ret = mk_ipam_each(ipam, sweep_unknown, &sweeping, err);
	if (ret == 0 && node->pods)
		ret = mk_pods_each(node->pods, sweep_entry, &sweeping, err);
	return ret < 0 ? ret : sweeping.released;
}

static int sweep(struct mk_cni_node *node, bool owned, struct mk_error *err)
{
	int released = sweep_addresses(node, owned, err);
	int ret = released < 0 ? released : cni_port_mappings_sweep(node, err);

	return ret < 0 ? ret : released;
}

int mk_cni_sweep(struct mk_cni_node *node, struct mk_error *err)
{
	return sweep(node, false, err);
}

int mk_cni_reap(const char *state_dir, const char *bpf_dir, const char *veth_prefix,
		struct mk_error *err)
{
	const struct mk_cni_conf conf = {
		.veth_prefix = veth_prefix,
		.state_dir = state_dir,
		.bpf_dir = bpf_dir,
	};
	cleanup_nl struct mk_nl *nl = mk_nl_open(err);
	cleanup_cni_node struct mk_cni_node node = { 0 };
	struct reaping reaping = { .nl = nl, .veth_prefix = veth_prefix, .err = err };
	int ret;

	if (!nl)
		return -err->code;
	ret = reap_owners(&reaping, state_dir) ?: mk_cni_node_open(&node, &conf, err);
	ret = ret ?: sweep(&node, reaping.owned, err);
	return ret < 0 ? ret : reaping.released + ret;
}
