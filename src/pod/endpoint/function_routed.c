// SPDX-License-Identifier: Apache-2.0
/* Mode Routed: the pod's kernel routes from one port to the other. Addresses are the same in all
 * pods, and lead nowhere else. */
#include <linux/if_addr.h>
#include <net/if.h>
#include <stdio.h>

#include "pod/endpoint/function_internal.h"

#define TABLE_INSIDE  7701 /* the default route is the port's, by its side */
#define TABLE_OUTSIDE 7702
#define TABLE_MAIN    254

/* What the pod itself sends from its own address uses its own routes. All others go inside: a proxy
 * answers there as the server (IP_TRANSPARENT). */
enum priority { FROM_PORT = 31000, FROM_SELF, FROM_NOTHING, FROM_OTHERS };

static uint32_t table_of(enum mk_port_side side)
{
	return side == MK_PORT_INSIDE ? TABLE_INSIDE : TABLE_OUTSIDE;
}

/* 169.254.77.1/30 and .5/30, fe80::4d01/126 and fe80::4d05/126; the next hop is one higher. */
static struct mk_ip ip_of(sa_family_t family, enum mk_port_side side, uint8_t add)
{
	const uint8_t last = (uint8_t)((side == MK_PORT_INSIDE ? 1 : 5) + add);
	struct mk_ip ip = { .family = family };

	if (family == AF_INET) {
		ip.v4.s_addr = htonl(0xa9fe4d00u | last);
	} else {
		ip.v6 = (struct in6_addr){ .s6_addr = { 0xfe, 0x80, [14] = 0x4d, [15] = last } };
	}
	return ip;
}

static int set_address(const struct port_making *port, sa_family_t family, struct mk_error *err)
{
	const struct mk_nl_addr own = {
		.ifindex = port->pod_ifindex,
		.cidr = { .ip = ip_of(family, port->side, 0),
			  .prefix_bits = family == AF_INET ? 30 : 126 },
		.flags = family == AF_INET6 ? IFA_F_NODAD : 0,
	};
	const struct mk_ip next_hop = ip_of(family, port->side, 1);
	const struct mk_mac mac = mk_port_mac(port->mode, port->side, true);
	const struct mk_nl_route route = {
		.dst = { .ip = { .family = family } },
		.ifindex = port->pod_ifindex,
		.gateway = next_hop,
		.onlink = true,
		.protocol = MK_RTPROT,
		.table = table_of(port->side),
	};
	struct mk_nl *nl = port->site->pod_nl;
	int ret = mk_nl_addr_add(nl, &own, err);

	ret = ret ?: mk_nl_neigh_put(nl, port->pod_ifindex, &next_hop, &mac, err);
	return ret ?: mk_nl_route_put(nl, &route, err);
}

/* What comes from this port leaves by the other one. */
static int set_port_rule(const struct port_making *port, sa_family_t family, struct mk_error *err)
{
	const enum mk_port_side other =
		port->side == MK_PORT_INSIDE ? MK_PORT_OUTSIDE : MK_PORT_INSIDE;
	const struct mk_nl_rule rule = {
		.family = family,
		.iif = port->name,
		.table = table_of(other),
		.priority = FROM_PORT,
	};

	return mk_nl_rule_add(port->site->pod_nl, &rule, err);
}

/* A new connection of the pod has no source yet. IPv4 looks up a route from 0.0.0.0. IPv6 asks
 * which source a route would give. */
static int set_own_rules(const struct port_making *port, const struct mk_ip *ip,
			 struct mk_error *err)
{
	const struct mk_nl_rule self = {
		.from = *ip,
		.table = TABLE_MAIN,
		.priority = FROM_SELF,
		.finds_source = ip->family == AF_INET6,
	};
	const struct mk_nl_rule nothing = {
		.from = { .family = AF_INET },
		.table = TABLE_MAIN,
		.priority = FROM_NOTHING,
	};
	int ret = mk_nl_rule_add(port->site->pod_nl, &self, err);

	if (ret == 0 && ip->family == AF_INET)
		ret = mk_nl_rule_add(port->site->pod_nl, &nothing, err);
	return ret;
}

static int set_rules(const struct port_making *port, const struct mk_ip *ip, struct mk_error *err)
{
	const struct mk_nl_rule others = {
		.family = ip->family,
		.table = TABLE_INSIDE,
		.priority = FROM_OTHERS,
	};
	int ret = set_port_rule(port, ip->family, err) ?: set_own_rules(port, ip, err);

	if (ret == 0 && port->side == MK_PORT_INSIDE)
		ret = mk_nl_rule_add(port->site->pod_nl, &others, err);
	return ret;
}

static int accept_other_ways(const struct port_making *port, const char *ifname,
			     struct mk_error *err)
{
	char path[128];

	snprintf(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s/rp_filter", ifname);
	return port_sysctl(port, path, "0", err);
}

/* The kernel forwards, also packets whose way back is another one: what a masqueraded packet is
 * answered comes by the pod's own interface. */
static int set_forwarding(const struct port_making *port, sa_family_t family, struct mk_error *err)
{
	int ret;

	if (family == AF_INET6)
		return port_sysctl(port, "/proc/sys/net/ipv6/conf/all/forwarding", "1", err);
	ret = port_sysctl(port, "/proc/sys/net/ipv4/ip_forward", "1", err);
	ret = ret ?: accept_other_ways(port, "all", err);
	ret = ret ?: accept_other_ways(port, port->site->ifname, err);
	return ret ?: accept_other_ways(port, port->name, err);
}

int port_prepare_ipv6(const struct port_making *port, struct mk_error *err)
{
	const struct mk_link_change quiet = { .no_link_local = true };
	char path[128];
	int ret;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/disable_ipv6", port->name);
	ret = port_sysctl(port, path, "0", err);
	return ret ?: mk_nl_link_change(port->site->pod_nl, port->pod_ifindex, &quiet, err);
}

int port_route(const struct port_making *port, struct mk_error *err)
{
	const struct mk_link_change up = { .set_flags = IFF_UP };
	int ret = port_has_family(port, AF_INET6) ? port_prepare_ipv6(port, err) : 0;

	ret = ret ?: mk_nl_link_change(port->site->pod_nl, port->pod_ifindex, &up, err);
	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++) {
		const struct mk_ip *ip = &port->site->ips[i];

		if (ip->family == AF_UNSPEC)
			continue;
		ret = set_address(port, ip->family, err);
		ret = ret ?: set_rules(port, ip, err);
		ret = ret ?: set_forwarding(port, ip->family, err);
	}
	return ret;
}
