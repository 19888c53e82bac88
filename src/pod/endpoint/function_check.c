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
		find(check, "port '%s' has no interface '%s'", port_title(port->mode, port->side),
		     name);
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

/* ---- mode End -------------------------------------------------------------------------------- */

/* The settings of one family that the port needs. */
struct end_search {
	struct mk_nl_addr address;
	struct mk_ip next_hop;
	struct mk_mac mac;
	struct mk_nl_route routes[END_ROUTES];
	size_t route_count;
	bool has_address, has_neighbour, has_route[END_ROUTES];
};

static int see_address(void *ctx, const struct mk_nl_addr *addr)
{
	struct end_search *search = ctx;

	if (addr->ifindex == search->address.ifindex &&
	    mk_cidr_equal(&addr->cidr, &search->address.cidr))
		search->has_address = true;
	return 0;
}

static int see_neighbour(void *ctx, const struct mk_ip *ip, const struct mk_mac *mac,
			 bool permanent)
{
	struct end_search *search = ctx;

	if (permanent && mk_ip_equal(ip, &search->next_hop) &&
	    memcmp(mac, &search->mac, sizeof(*mac)) == 0)
		search->has_neighbour = true;
	return 0;
}

static int see_route(void *ctx, const struct mk_nl_route *route)
{
	struct end_search *search = ctx;

	for (size_t i = 0; i < search->route_count; i++)
		if (route->ifindex == search->routes[i].ifindex &&
		    mk_cidr_equal(&route->dst, &search->routes[i].dst) &&
		    mk_ip_equal(&route->gateway, &search->routes[i].gateway))
			search->has_route[i] = true;
	return 0;
}

static void judge_end(const struct port_check *check, const struct end_search *search)
{
	const char *name = check->port.name;
	char text[MK_CIDR_STRLEN], next_hop[MK_IP_STRLEN];

	mk_ip_format(&search->next_hop, next_hop);
	if (!search->has_address)
		find(check, "address %s is missing on interface '%s'",
		     mk_cidr_format(&search->address.cidr, text), name);
	if (!search->has_neighbour)
		find(check, "permanent neighbour %s is missing or wrong on interface '%s'",
		     next_hop, name);
	for (size_t i = 0; i < search->route_count; i++)
		if (!search->has_route[i])
			find(check, "route to %s via %s is missing on interface '%s'",
			     mk_cidr_format(&search->routes[i].dst, text), next_hop, name);
}

static int check_family(const struct port_check *check, sa_family_t family, struct mk_error *err)
{
	const struct port_making *port = &check->port;
	struct mk_nl *nl = port->site->pod_nl;
	struct end_search search = {
		.address = end_address(port, family),
		.next_hop = end_next_hop(family),
		.mac = mk_port_mac(port->mode, port->side, true),
	};
	int ret;

	if (!end_has_family(port, family))
		return 0;
	search.route_count = end_routes(port, family, search.routes);
	ret = mk_nl_each_addr(nl, family, see_address, &search, err);
	ret = ret ?: mk_nl_each_neigh(nl, family, port->pod_ifindex, see_neighbour, &search, err);
	ret = ret ?: mk_nl_each_route(nl, family, see_route, &search, err);
	if (ret == 0)
		judge_end(check, &search);
	return ret;
}

/* ---- the pod's end of a pair ----------------------------------------------------------------- */

static int check_bridge(const struct port_check *check, const struct mk_link *link,
			struct mk_error *err)
{
	const struct port_making *port = &check->port;
	struct mk_link bridge = { 0 };
	int ret = mk_nl_link_get(port->site->pod_nl, MK_PORT_BRIDGE, &bridge, err);

	if (ret < 0 && ret != -ENODEV)
		return ret;
	if (!bridge.ifindex || link->master_ifindex != bridge.ifindex)
		find(check, "interface '%s' is not a port of bridge '%s'", port->name,
		     MK_PORT_BRIDGE);
	return 0;
}

static int check_pod_end(struct port_check *check, struct mk_error *err)
{
	struct mk_link link;
	int ret = check_end(check, false, &link, err);

	if (ret < 0 || !link.ifindex)
		return ret;
	check->port.pod_ifindex = link.ifindex;
	if (check->port.mode == MK_PORT_BRIDGED)
		return check_bridge(check, &link, err);
	if (check->port.mode != MK_PORT_END)
		return 0;
	ret = check_family(check, AF_INET, err);
	return ret ?: check_family(check, AF_INET6, err);
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
