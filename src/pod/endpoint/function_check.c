// SPDX-License-Identifier: Apache-2.0
/* CHECK of a function pod's ports. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "pod/endpoint/function_internal.h"

struct port_check {
	struct port_making port;
	void (*find)(void *ctx, const char *text);
	void *ctx;
};

static void find(const struct port_check *check, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void find(const struct port_check *check, const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	check->find(check->ctx, text);
}

/* *@link: ifindex 0 if the device is missing. */
static int check_end(const struct port_check *check, bool is_host_end, struct mk_link *link,
		     struct mk_error *err)
{
	const struct port_making *port = &check->port;
	const struct mk_mac wanted = mk_port_mac(port->mode, port->side, is_host_end);
	struct mk_nl *nl = is_host_end ? port->site->node->nl : port->site->pod_nl;
	const char *name = is_host_end ? port->host_name : port->name;
	char have[MK_MAC_STRLEN], expected[MK_MAC_STRLEN];
	int ret = mk_nl_link_get(nl, name, link, err);

	if (ret == -ENODEV)
		find(check, "port '%s' has no interface '%s'", port_side_name(port->side), name);
	if (ret < 0)
		return ret == -ENODEV ? 0 : ret;
	if (!(link->flags & IFF_UP))
		find(check, "interface '%s' is down", name);
	if (memcmp(&link->mac, &wanted, sizeof(wanted)) != 0)
		find(check, "interface '%s' has MAC address %s, expected %s", name,
		     mk_mac_format(&link->mac, have), mk_mac_format(&wanted, expected));
	if (link->mtu_bytes != port_mtu_bytes(port))
		find(check, "interface '%s' has MTU %u, expected %u", name, link->mtu_bytes,
		     port_mtu_bytes(port));
	return 0;
}

static int check_host_end(const struct port_check *check, struct mk_error *err)
{
	const struct port_making *port = &check->port;
	const struct mk_cni_node *node = port->site->node;
	struct mk_link link;
	int ret = check_end(check, true, &link, err);

	if (ret < 0 || !link.ifindex)
		return ret;
	ret = mk_pods_attached_port(node->pods, node->nl, link.ifindex, err);
	if (ret == 0)
		find(check, "program 'sfc_port' is not attached to interface '%s'", link.name);
	if (ret >= 0 && port->mode == MK_PORT_INLINE) {
		ret = mk_offload_checksums(link.name, err);
		if (ret > 0)
			find(check,
			     "interface '%s' leaves checksums unfinished: ethtool -K %s tx off",
			     link.name, link.name);
	}
	return ret < 0 ? ret : 0;
}

static int check_pod_end(const struct port_check *check, struct mk_error *err)
{
	const struct port_making *port = &check->port;
	struct mk_link link, bridge = { 0 };
	int ret = check_end(check, false, &link, err);

	if (ret < 0 || !link.ifindex || port->mode != MK_PORT_BRIDGED)
		return ret;
	ret = mk_nl_link_get(port->site->pod_nl, MK_PORT_BRIDGE, &bridge, err);
	if (ret < 0 && ret != -ENODEV)
		return ret;
	if (!bridge.ifindex || link.master_ifindex != bridge.ifindex)
		find(check, "interface '%s' is not a port of bridge '%s'", port->name,
		     MK_PORT_BRIDGE);
	return 0;
}

int mk_cni_ports_check(const struct mk_cni_port_site *site, const struct mk_cni_function *function,
		       void (*found)(void *ctx, const char *text), void *ctx, struct mk_error *err)
{
	struct port_check check = { .find = found, .ctx = ctx };
	int ret = 0;

	for (size_t side = 0; ret == 0 && side < MK_PORT_SIDES; side++)
		if (port_begin(&check.port, site, function, side))
			ret = check_host_end(&check, err) ?: check_pod_end(&check, err);
	return ret;
}
