// SPDX-License-Identifier: Apache-2.0
/* The devices of a function pod's ports. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "pod/endpoint/function_internal.h"

static const char setup_failed[] = "cannot set up the ports of a function pod";
static const char invalid[] = "invalid ports of a function pod";

/* ---- names ----------------------------------------------------------------------------------- */

/* Compute the name of the host's end of a port. It is as a pod's name, but with a digit that hashes
 * do not contain (endpoint.c) in place of the first character: a port counts as no pod's device. */
static void cni_port_name(const char *prefix, const char *container_id, const char *ifname,
			  enum mk_port_side side, char name[IFNAMSIZ])
{
	mk_cni_host_name(prefix, container_id, ifname, name);
	name[strlen(prefix)] = side == MK_PORT_INSIDE ? '0' : '1';
}

bool mk_cni_is_port_of(const struct mk_link *link, const char *container_id, const char *ifname)
{
	size_t length = strlen(link->name), hash;
	enum mk_port_side side;
	char name[IFNAMSIZ];

	if (!mk_port_of(link, NULL, &side))
		return false;
	cni_port_name("", container_id, ifname, side, name);
	hash = strlen(name);
	return length > hash && strcmp(link->name + length - hash, name) == 0;
}

/* ---- in the pod ------------------------------------------------------------------------------ */

bool port_has_family(const struct port_making *port, sa_family_t family)
{
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (port->site->ips[i].family == family)
			return true;
	return false;
}

struct setting {
	const char *path, *value;
};

static int write_setting(void *ctx, struct mk_error *err)
{
	const struct setting *setting = ctx;
	int ret = mk_sysctl_set(setting->path, setting->value, err);

	return ret == -ENOENT || ret > 0 ? 0 : ret;
}

int port_sysctl(const struct port_making *port, const char *path, const char *value,
		struct mk_error *err)
{
	struct setting setting = { path, value };

	return mk_nl_run_in(port->site->node->nl, port->site->netns_fd, write_setting, &setting,
			    err);
}

/* The device sends nothing of its own: the function alone sends. */
static int silence(const struct port_making *port, const char *device, struct mk_error *err)
{
	char path[128];

	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/disable_ipv6", device);
	return port_sysctl(port, path, "1", err);
}

static int set_up(const struct port_making *port, int ifindex, int master, struct mk_error *err)
{
	const struct mk_link_change up = { .set_flags = IFF_UP, .master_ifindex = master };

	return mk_nl_link_change(port->site->pod_nl, ifindex, &up, err);
}

/* Find the bridge, or make it: the first port does. */
static int find_bridge(const struct port_making *port, struct mk_link *bridge, struct mk_error *err)
{
	static const struct mk_mac mac = { .byte = { 0x06, 0x4d, 0xff } };
	struct mk_nl *nl = port->site->pod_nl;
	int ret = mk_nl_link_get(nl, MK_PORT_BRIDGE, bridge, err);

	if (ret == -ENODEV) {
		ret = mk_nl_bridge_add(nl, MK_PORT_BRIDGE, &mac, err);
		ret = ret ?: mk_nl_link_get(nl, MK_PORT_BRIDGE, bridge, err);
	}
	if (ret == 0 && strcmp(bridge->kind, "bridge") != 0)
		return mk_error_set(err, EEXIST, "the pod has a device '%s' of kind '%s' already",
				    MK_PORT_BRIDGE, bridge->kind);
	return ret;
}

static int join_bridge(const struct port_making *port, struct mk_error *err)
{
	struct mk_link bridge;
	int ret = find_bridge(port, &bridge, err);

	ret = ret ?: silence(port, MK_PORT_BRIDGE, err);
	ret = ret ?: set_up(port, port->pod_ifindex, bridge.ifindex, err);
	return ret ?: set_up(port, bridge.ifindex, 0, err);
}

static int configure(const struct port_making *port, struct mk_error *err)
{
	const bool is_silent = port->mode == MK_PORT_END ? !end_has_family(port, AF_INET6)
							 : port->mode != MK_PORT_ROUTED ||
								   !port_has_family(port, AF_INET6);
	int ret = 0;

	if (is_silent)
		ret = silence(port, port->name, err);
	if (ret < 0)
		return ret;
	switch (port->mode) {
	case MK_PORT_BRIDGED:
		return join_bridge(port, err);
	case MK_PORT_ROUTED:
		return port_route(port, err);
	case MK_PORT_END:
		return end_set(port, err);
	default:
		return set_up(port, port->pod_ifindex, 0, err);
	}
}

/* ---- the pair, the host's end ---------------------------------------------------------------- */

/* A program that moves frames (AF_PACKET) gets them as they are: none may be larger than the wire
 * allows, or have an unfinished checksum. An end sends what such a program can take. */
uint32_t port_mtu_bytes(const struct port_making *port)
{
	return mk_port_has_overlay_mtu(port->mode) ? port->site->conf->mtu_bytes
						   : MK_POD_DEVICE_MTU_BYTES;
}

static int add_pair(const struct port_making *port, struct mk_error *err)
{
	const struct mk_veth veth = {
		.name = port->host_name,
		.mac = mk_port_mac(port->mode, port->side, true),
		.peer_name = port->name,
		.peer_mac = mk_port_mac(port->mode, port->side, false),
		.peer_netns_fd = port->site->netns_fd,
		.mtu_bytes = port_mtu_bytes(port),
	};

	return mk_nl_veth_add(port->site->node->nl, &veth, err);
}

static int name_is_taken(const struct port_making *port, struct mk_cni_failure *failure)
{
	struct mk_link link;

	if (mk_nl_link_get(port->site->pod_nl, port->name, &link, NULL) == 0)
		return mk_cni_failf(
			failure, MK_CNI_INVALID_CONFIG, invalid,
			"the pod has a device '%s' of kind '%s' already: name the ports by annotation networking.monokube.io/function-interfaces",
			port->name, link.kind);
	return mk_cni_failf(
		failure, MK_CNI_INVALID_CONFIG, invalid,
		"the pod has a port '%s' already (host side '%s'): use annotations or network definitions, not both",
		port_title(port->mode, port->side), port->host_name);
}

static int make_pair(struct port_making *port, struct mk_cni_failure *failure)
{
	const struct mk_cni_node *node = port->site->node;
	struct mk_error *err = &failure->cause;
	struct mk_link link;
	int ret = add_pair(port, err);

	if (ret == -EEXIST)
		return name_is_taken(port, failure);
	ret = ret ?: mk_nl_link_get(node->nl, port->host_name, &link, err);
	if (ret < 0)
		return mk_cni_fail(failure, MK_CNI_SETUP_FAILED, setup_failed);
	port->host_ifindex = link.ifindex;
	port->pod_ifindex = link.peer_ifindex;
	return 0;
}

/* Set the host's end up last: its first frame finds the program. Tables may have the number of this
 * device from a device that was removed without DEL. */
static int connect_host(const struct port_making *port, struct mk_error *err)
{
	const struct mk_cni_node *node = port->site->node;
	char path[128], alias[MK_CNI_POD_NAME_BYTES];
	const struct mk_link_change up = { .set_flags = IFF_UP, .alias = alias };
	int ret;

	snprintf(alias, sizeof(alias), "%.*s@%s", (int)sizeof(alias) - IFNAMSIZ - 2,
		 port->site->pod_name, port->name);
	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/disable_ipv6", port->host_name);
	ret = mk_sysctl_set(path, "1", err);
	if (ret < 0 && ret != -ENOENT)
		return ret;
	if (port->mode == MK_PORT_INLINE && mk_offload_checksums_off(port->host_name, err) < 0)
		return -err->code;
	ret = mk_port_forget(node->bpf_dir, port->host_ifindex, err);
	ret = ret ?: mk_pods_attach_port(node->pods, node->nl, port->host_ifindex, err);
	return ret ?: mk_nl_link_change(node->nl, port->host_ifindex, &up, err);
}

/* ---- all ports ------------------------------------------------------------------------------- */

bool port_begin(struct port_making *port, const struct mk_cni_port_site *site,
		const struct mk_cni_function *function, size_t side)
{
	*port = (struct port_making){
		.site = site,
		.mode = function->mode,
		.side = (enum mk_port_side)side,
		.name = function->names[side],
		.end = &function->end,
	};
	cni_port_name(site->node->veth_prefix, site->container_id, site->ifname, port->side,
		      port->host_name);
	return port->name[0] != '\0';
}

static int make_port(struct port_making *port, struct mk_cni_failure *failure)
{
	if (port->mode == MK_PORT_END && end_fits(port, failure) < 0)
		return -1;
	if (make_pair(port, failure) < 0)
		return -1;
	if (configure(port, &failure->cause) < 0 || connect_host(port, &failure->cause) < 0)
		return mk_cni_fail(failure, MK_CNI_SETUP_FAILED, setup_failed);
	return 0;
}

int mk_cni_ports_make(const struct mk_cni_port_site *site, const struct mk_cni_function *function,
		      struct mk_cni_failure *failure)
{
	struct port_making port;

	for (size_t side = 0; side < MK_PORT_SIDES; side++)
		if (port_begin(&port, site, function, side) && make_port(&port, failure) < 0)
			return -1;
	return 0;
}

void mk_cni_ports_tell(const struct mk_cni_port_site *site, const struct mk_cni_function *function,
		       struct mk_cni_result *result)
{
	struct port_making port;

	for (size_t side = 0; side < MK_PORT_SIDES; side++) {
		struct mk_cni_result_port *told = &result->ports[result->port_count];

		if (!port_begin(&port, site, function, side))
			continue;
		snprintf(told->host_name, sizeof(told->host_name), "%s", port.host_name);
		snprintf(told->name, sizeof(told->name), "%s", port.name);
		told->host_mac = mk_port_mac(port.mode, port.side, true);
		told->mac = mk_port_mac(port.mode, port.side, false);
		told->mtu_bytes = port_mtu_bytes(&port);
		result->port_count++;
	}
}

int mk_cni_port_remove(const struct mk_cni_node *node, const char *container_id, const char *ifname,
		       enum mk_port_side side, struct mk_error *err)
{
	char name[IFNAMSIZ];
	struct mk_link link;
	int ret;

	cni_port_name(node->veth_prefix, container_id, ifname, side, name);
	ret = mk_nl_link_get(node->nl, name, &link, err);
	if (ret < 0)
		return ret == -ENODEV ? 0 : ret;
	return mk_cni_port_delete(node, &link, err);
}

int mk_cni_port_delete(const struct mk_cni_node *node, const struct mk_link *link,
		       struct mk_error *err)
{
	int ret = mk_port_forget(node->bpf_dir, link->ifindex, err);

	ret = ret ?: mk_nl_link_delete(node->nl, link->name, err);
	return ret == -ENODEV ? 0 : ret;
}

int cni_ports_remove(const struct mk_cni_node *node, const char *container_id, const char *ifname,
		     struct mk_error *err)
{
	int ret = 0;

	for (size_t side = 0; ret == 0 && side < MK_PORT_SIDES; side++)
		ret = mk_cni_port_remove(node, container_id, ifname, (enum mk_port_side)side, err);
	return ret;
}
