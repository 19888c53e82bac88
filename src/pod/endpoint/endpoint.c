// SPDX-License-Identifier: Apache-2.0
#include "pod/endpoint/endpoint.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "pod/endpoint/endpoint_internal.h"
#include "pod/endpoint/function_internal.h"
#include "pod/ipam/ipam.h"

/* ---- names ----------------------------------------------------------------------------------- */

#define HASH_CHARS 11 /* of 5 bits each */

static const char base32[] = "abcdefghijklmnopqrstuvwxyz234567";

/* FNV-1a, 64 bits. The NUL between the two strings keeps ("ab","c") and ("a","bc") apart. 55 bits
 * make the name: the probability that two pods of a node collide is below 1 in 10^12. */
static uint64_t owner_hash(const char *container_id, const char *ifname)
{
	const char *parts[] = { container_id, ifname };
	uint64_t hash = 0xcbf29ce484222325;

	for (size_t i = 0; i < MK_ARRAY_SIZE(parts); i++) {
		for (const char *c = parts[i];; c++) {
			hash = (hash ^ (uint8_t)*c) * 0x100000001b3;
			if (!*c)
				break;
		}
	}
	return hash ^ hash >> 32; /* the upper bits are mixed better */
}

void mk_cni_host_name(const char *prefix, const char *container_id, const char *ifname,
		      char name[IFNAMSIZ])
{
	uint64_t hash = owner_hash(container_id, ifname);
	size_t used = (size_t)snprintf(name, IFNAMSIZ - HASH_CHARS, "%s", prefix);

	for (int i = 0; i < HASH_CHARS; i++, hash >>= 5)
		name[used + (size_t)i] = base32[hash & 31];
	name[used + HASH_CHARS] = '\0';
}

static bool has_hash_of_name(const char *prefix_end)
{
	return strlen(prefix_end) == HASH_CHARS && strspn(prefix_end, base32) == HASH_CHARS;
}

bool cni_is_host_name(const char *prefix, const char *name)
{
	size_t length = strlen(prefix);

	return strncmp(name, prefix, length) == 0 && has_hash_of_name(name + length);
}

/* A host's end has the gateway's MAC address, which begins as all those of mk_mac_of_ip() do. */
static bool has_our_mac(const struct mk_link *link)
{
	const struct mk_mac ours = mk_mac_of_ip(&(struct mk_ip){ .family = AF_INET });

	return memcmp(link->mac.byte, ours.byte, 2) == 0;
}

bool mk_cni_is_pod_device(const char *prefix, const struct mk_link *link)
{
	size_t length = strlen(link->name);

	if (strcmp(link->kind, "veth") != 0)
		return false;
	if (cni_is_host_name(prefix, link->name))
		return true;
	return length > HASH_CHARS && has_hash_of_name(link->name + length - HASH_CHARS) &&
	       has_our_mac(link);
}

bool mk_cni_is_device_of(const struct mk_link *link, const char *container_id, const char *ifname)
{
	char hash[IFNAMSIZ];
	size_t length = strlen(link->name);

	mk_cni_host_name("", container_id, ifname, hash);
	return length > HASH_CHARS && strcmp(link->name + length - HASH_CHARS, hash) == 0;
}

struct device_search {
	const char *prefix, *container_id, *ifname;
	struct mk_link *found;
};

static int see_device(void *ctx, const struct mk_link *link)
{
	struct device_search *search = ctx;

	if (mk_cni_is_pod_device(search->prefix, link) &&
	    mk_cni_is_device_of(link, search->container_id, search->ifname))
		*search->found = *link;
	return 0;
}

int mk_cni_device_find(struct mk_nl *nl, const char *prefix, const char *container_id,
		       const char *ifname, struct mk_link *link, struct mk_error *err)
{
	struct device_search search = { prefix, container_id, ifname, link };
	char name[IFNAMSIZ];
	int ret;

	mk_cni_host_name(prefix, container_id, ifname, name);
	ret = mk_nl_link_get(nl, name, link, err);
	if (ret != -ENODEV)
		return ret;
	ret = mk_nl_each_link(nl, see_device, &search, err);
	if (ret < 0)
		return ret;
	return link->ifindex ? 0
			     : mk_error_set(err, ENODEV, "interface '%s': no such device", name);
}

/* ---- node ------------------------------------------------------------------------------------ */

int mk_cni_node_open(struct mk_cni_node *node, const struct mk_cni_conf *conf, struct mk_error *err)
{
	*node = (struct mk_cni_node){
		.veth_prefix = conf->veth_prefix,
		.state_dir = conf->state_dir,
		.bpf_dir = conf->bpf_dir,
	};
	node->pods = mk_pods_open(conf->bpf_dir, conf->state_dir, err);
	if (!node->pods && err->code != ENOENT)
		return -err->code;
	node->nl = mk_nl_open(err);
	return node->nl ? 0 : -err->code;
}

bool mk_cni_has_families(const struct mk_pods *pods, const struct mk_cni_conf *conf,
			 sa_family_t *family)
{
	for (size_t i = 0; i < conf->network_count; i++) {
		*family = conf->networks[i].addresses.gateway.family;
		if (!mk_pods_has(pods, *family))
			return false;
	}
	return true;
}

void mk_cni_node_release(struct mk_cni_node *node)
{
	mk_nl_free(node->nl);
	mk_host_ports_free(node->host_ports);
	mk_pods_free(node->pods);
	*node = (struct mk_cni_node){ 0 };
}

/* ---- addresses whose file was lost ----------------------------------------------------------- */

int mk_cni_address_is_alive(const struct mk_cni_node *node, const struct mk_ip *ip,
			    struct mk_error *err)
{
	struct mk_pod pod;
	struct mk_link link;
	int ret;

	if (!node->pods)
		return 0;
	ret = mk_pods_holder(node->pods, ip, &pod, err);
	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	ret = mk_nl_link_get_index(node->nl, (int)pod.ifindex, &link, err);
	if (ret < 0)
		return ret == -ENODEV ? 0 : ret;
	return mk_cni_is_pod_device(node->veth_prefix, &link);
}

int mk_cni_address_hold(struct mk_ipam *ipam, const struct mk_ip *ip, struct mk_error *err)
{
	char text[MK_IP_STRLEN];

	mk_log_warn(
		"an address has no owner file, but a live pod uses it or its slot in map pods: it is not assigned ip=%s",
		mk_ip_format(ip, text));
	return mk_ipam_hold(ipam, ip, err);
}

/* ---- removing -------------------------------------------------------------------------------- */

struct orphan_search {
	struct mk_cni_node *node;
	struct mk_ipam *ipam;
	uint32_t ifindex;
	struct mk_error *err;
};

static int remove_orphan(void *ctx, const struct mk_ip *ip, const struct mk_pod *pod)
{
	struct orphan_search *search = ctx;

	if (pod->ifindex != search->ifindex || mk_ipam_is_allocated(search->ipam, ip))
		return 0;
	return mk_pods_delete(search->node->pods, ip, search->err);
}

/* The endpoint lost its address file: find its table entry by the index of the removed device. */
static int remove_entry_of(struct mk_cni_node *node, struct mk_ipam *ipam, int ifindex,
			   struct mk_error *err)
{
	struct orphan_search search = {
		.node = node,
		.ipam = ipam,
		.ifindex = (uint32_t)ifindex,
		.err = err,
	};

	if (!node->pods || !ifindex)
		return 0;
	return mk_pods_each(node->pods, remove_orphan, &search, err);
}

/* What an endpoint leaves in the pod's namespace after its device is removed. */
struct leftover {
	struct mk_ip ips[MK_FAMILIES]; /* AF_UNSPEC: no such address */
	char netns[PATH_MAX]; /* "": unknown */
};

/* Errors are ignored: a rule for an address that the pod no longer has is harmless. */
static void remove_rules(const struct mk_cni_node *node, const struct leftover *leftover)
{
	cleanup_close int fd =
		leftover->netns[0] ? open(leftover->netns, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	cleanup_nl struct mk_nl *nl = fd < 0 ? NULL : mk_nl_open_in(node->nl, fd, NULL);

	for (size_t i = 0; nl && i < MK_FAMILIES; i++) {
		const struct mk_ip *ip = &leftover->ips[i];

		if (ip->family != AF_UNSPEC && mk_nl_rule_delete(nl, ip, NULL) < 0)
			mk_log_debug(
				"cannot delete a routing rule, it stays in the namespace netns=%s",
				leftover->netns);
	}
}

static int remove_entries(struct mk_cni_node *node, const struct leftover *leftover,
			  struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && node->pods && i < MK_FAMILIES; i++) {
		if (leftover->ips[i].family == AF_UNSPEC)
			continue;
		ret = cni_port_mappings_remove(node, &leftover->ips[i], 0, err);
		ret = ret ?: mk_pods_delete(node->pods, &leftover->ips[i], err);
	}
	return ret;
}

/* Remove the table entries before releasing the address. Otherwise another pod could already
 * have the address, and the entry would be that pod's. Host ports are left only if the device
 * was already gone. */
static int remove_address(struct mk_cni_node *node, const char *container_id, const char *ifname,
			  int ifindex, struct leftover *leftover, struct mk_error *err)
{
	cleanup_ipam struct mk_ipam *ipam = mk_ipam_open(node->state_dir, err);
	int ret;

	if (!ipam)
		return -err->code;
	ret = mk_ipam_find(ipam, container_id, ifname, &leftover->ips[0], err);
	if (ret == -ENOENT)
		return remove_entry_of(node, ipam, ifindex, err);
	if (ret < 0)
		return ret;
	leftover->ips[1] = mk_ipam_second(ipam, &leftover->ips[0]);
	snprintf(leftover->netns, sizeof(leftover->netns), "%s",
		 mk_ipam_netns(ipam, &leftover->ips[0]));
	ret = remove_entries(node, leftover, err);
	return ret ?: mk_ipam_release(ipam, container_id, ifname, err);
}

int mk_cni_endpoint_remove(struct mk_cni_node *node, const char *container_id, const char *ifname,
			   struct mk_error *err)
{
	struct leftover leftover = { 0 };
	struct mk_link link;
	int ret = mk_cni_device_find(node->nl, node->veth_prefix, container_id, ifname, &link, err);

	ret = ret ?: cni_port_mappings_remove(node, NULL, link.ifindex, err);
	if (ret == 0 || ret == -ENODEV)
		ret = cni_ports_remove(node, container_id, ifname, err) ?: ret;
	ret = ret ?: mk_pod_device_remove(node->nl, node->bpf_dir, &link, err);
	if (ret < 0 && ret != -ENODEV)
		return ret;
	ret = remove_address(node, container_id, ifname, link.ifindex, &leftover, err);
	if (ret == 0)
		remove_rules(node, &leftover);
	return ret;
}

/* ---- network namespace ----------------------------------------------------------------------- */

static const char bad_environment[] = "invalid environment variable";

static bool is_netns(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (unsigned long)fs.f_type == NSFS_MAGIC &&
	       ioctl(fd, NS_GET_NSTYPE) == CLONE_NEWNET;
}

int mk_cni_netns_open(const char *path, struct mk_cni_failure *failure)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return mk_cni_failf(failure, MK_CNI_UNKNOWN_CONTAINER,
				    "the container's network namespace does not exist",
				    "CNI_NETNS='%s': %s", path, strerror(errno));
	if (fd < 0)
		return mk_cni_failf(failure, MK_CNI_IO_FAILURE,
				    "cannot open the container's network namespace",
				    "CNI_NETNS='%s': %s", path, strerror(errno));
	if (!is_netns(fd))
		return mk_cni_failf(failure, MK_CNI_INVALID_ENVIRONMENT, bad_environment,
				    "CNI_NETNS='%s' is not a network namespace, or no longer one",
				    path);
	return mk_steal_fd(&fd);
}

struct mk_nl *mk_cni_netns_nl(const struct mk_nl *home, const char *path, int netns_fd,
			      struct mk_cni_failure *failure)
{
	struct mk_nl *nl = mk_nl_open_in(home, netns_fd, &failure->cause);

	if (!nl && failure->cause.code == EEXIST)
		(void)mk_cni_failf(failure, MK_CNI_INVALID_ENVIRONMENT, bad_environment,
				   "CNI_NETNS='%s' is the host's own network namespace", path);
	else if (!nl)
		(void)mk_cni_fail(failure, MK_CNI_IO_FAILURE,
				  "cannot open a socket in the container's network namespace");
	return nl;
}
