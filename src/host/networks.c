// SPDX-License-Identifier: Apache-2.0
#include "host/networks.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "config/config.h"
#include "host/host_internal.h"

#define LOOPBACK_NET 127

/* ---- networks of the host -------------------------------------------------------------------- */

struct reading {
	struct mk_networks *networks, own; /* own: what monokube's routes lead to */
	const char *vxlan_name;
	const struct mk_ip *vtep;
	struct mk_error *err;
	int ifindex; /* of the last device looked up: thousands of routes may have the same one */
	char device[IF_NAMESIZE];
};

static const char *device_name(struct reading *reading, int ifindex)
{
	if (ifindex == reading->ifindex)
		return reading->device;
	reading->ifindex = ifindex;
	if (!if_indextoname((unsigned int)ifindex, reading->device))
		*reading->device = '\0';
	return reading->device;
}

int mk_networks_add(struct mk_networks *networks, enum mk_network_kind kind,
		    const struct mk_cidr *cidr, const char *name, struct mk_error *err)
{
	struct mk_network *added = mk_append(networks->list, networks->count);

	if (!added)
		return mk_error_errno(err, ENOMEM, "cannot list the host's networks");
	added->cidr = *cidr;
	added->kind = kind;
	snprintf(added->name, sizeof(added->name), "%s", name);
	return 0;
}

static bool is_ours(const struct reading *reading, const char *device)
{
	return strcmp(device, reading->vxlan_name) == 0 || strcmp(device, MK_HOST_VETH) == 0 ||
	       strcmp(device, MK_HOST_PEER) == 0;
}

static struct mk_cidr host_of(const struct mk_ip *ip)
{
	return (struct mk_cidr){ *ip, (uint8_t)mk_ip_bits(ip->family) };
}

/* Loopback, and IPv6's link-local networks: no range of monokube can be inside. */
static bool is_of_one_link(const struct mk_ip *ip)
{
	if (ip->family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&ip->v6) || IN6_IS_ADDR_LINKLOCAL(&ip->v6) ||
		       IN6_IS_ADDR_MULTICAST(&ip->v6);
	return ntohl(ip->v4.s_addr) >> 24 == LOOPBACK_NET;
}

static int see_address(void *ctx, const struct mk_nl_addr *addr)
{
	struct reading *reading = ctx;
	const struct mk_ip *ip = &addr->cidr.ip;
	const struct mk_cidr host = host_of(ip);
	const char *device;

	if (is_of_one_link(ip))
		return 0;
	device = device_name(reading, addr->ifindex);
	if (!is_ours(reading, device))
		return mk_networks_add(reading->networks, MK_NET_ADDRESS, &host, device,
				       reading->err);
	reading->networks->has_vtep |= strcmp(device, reading->vxlan_name) == 0 && reading->vtep &&
				       mk_ip_equal(ip, reading->vtep);
	return 0;
}

/* By the VXLAN device, the gateway is another node's overlay address. */
static int see_own_route(struct reading *reading, const struct mk_nl_route *route,
			 const char *device)
{
	const struct mk_cidr gateway = host_of(&route->gateway);
	int ret = mk_networks_add(&reading->own, MK_NET_ROUTED, &route->dst, device, reading->err);

	if (ret < 0 || strcmp(device, reading->vxlan_name) != 0 ||
	    route->gateway.family == AF_UNSPEC)
		return ret;
	return mk_networks_add(&reading->own, MK_NET_ROUTED, &gateway, device, reading->err);
}

static int see_route(void *ctx, const struct mk_nl_route *route)
{
	struct reading *reading = ctx;
	bool routed = route->gateway.family != AF_UNSPEC || route->several;
	const struct mk_cidr gateway = host_of(&route->gateway);
	const char *device = device_name(reading, route->ifindex);

	if (route->protocol == MK_RTPROT)
		return see_own_route(reading, route, device);
	if (is_ours(reading, device))
		return 0;
	if (route->dst.prefix_bits == 0)
		return gateway.ip.family != AF_UNSPEC && !is_of_one_link(&gateway.ip)
			       ? mk_networks_add(reading->networks, MK_NET_GATEWAY, &gateway,
						 device, reading->err)
			       : 0;
	if (route->dst.ip.family == AF_INET6 && is_of_one_link(&route->dst.ip))
		return 0;
	return mk_networks_add(reading->networks, routed ? MK_NET_ROUTED : MK_NET_ON_LINK,
			       &route->dst, device, reading->err);
}

static bool is_covered(const struct mk_networks *by, const struct mk_network *network)
{
	for (size_t i = 0; i < by->count; i++)
		if (mk_cidr_covers(&by->list[i].cidr, &network->cidr))
			return true;
	return false;
}

/* A routing daemon learns the cluster's routes from other nodes: they are no hosts outside. */
static void drop_learned(struct reading *reading)
{
	struct mk_networks *networks = reading->networks;
	size_t kept = 0;

	for (size_t i = 0; i < networks->count; i++)
		if (networks->list[i].kind != MK_NET_ROUTED ||
		    !is_covered(&reading->own, &networks->list[i]))
			networks->list[kept++] = networks->list[i];
	networks->count = kept;
}

int mk_networks_read(struct mk_nl *nl, sa_family_t family, const char *vxlan_name,
		     const struct mk_ip *vtep, struct mk_networks *networks, struct mk_error *err)
{
	struct reading reading = {
		.networks = networks, .vxlan_name = vxlan_name, .vtep = vtep, .err = err
	};
	int ret;

	*networks = (struct mk_networks){ 0 };
	ret = mk_nl_each_addr(nl, family, see_address, &reading, err);
	if (ret == 0)
		ret = mk_nl_each_route(nl, family, see_route, &reading, err);
	drop_learned(&reading);
	mk_networks_release(&reading.own);
	return ret;
}

void mk_networks_release(struct mk_networks *networks)
{
	free(networks->list);
	*networks = (struct mk_networks){ 0 };
}

/* ---- overlaps -------------------------------------------------------------------------------- */

/* Networks behind a gateway are only reported: the host still reaches them, pods do not. Nodes'
 * addresses are only reported, too: one wrong Node object must not keep every other node from
 * starting (this node's own InternalIP is an address of the host). A route that covers the range,
 * such as 10.0.0.0/8 by a gateway, is common and harmless. */
enum mk_overlap networks_overlap(const struct mk_own_range *range, const struct mk_network *network)
{
	bool reported = network->kind == MK_NET_ROUTED || network->kind == MK_NET_NODE;

	if (mk_cidr_covers(&range->cidr, &network->cidr))
		return reported ? MK_OVERLAP_REPORTED : MK_OVERLAP_REFUSED;
	if (mk_cidr_covers(&network->cidr, &range->cidr) && network->kind == MK_NET_ON_LINK)
		return MK_OVERLAP_REPORTED;
	return MK_OVERLAP_NONE;
}

static void describe(const struct mk_network *network, char *text, size_t size)
{
	static const struct {
		const char *what, *joint;
	} words[] = {
		[MK_NET_ADDRESS] = { "the host's address", " on " },
		[MK_NET_ON_LINK] = { "the host's network", " on " },
		[MK_NET_ROUTED] = { "the host's route to", " by " },
		[MK_NET_GATEWAY] = { "the default gateway", " on " },
		[MK_NET_NODE] = { "the InternalIP", " of Node " },
		[MK_NET_API_SERVER] = { "the API server's address", "" },
	};
	char cidr[MK_CIDR_STRLEN];
	const char *joint = *network->name ? words[network->kind].joint : "";

	snprintf(text, size, "%s %s%s%s", words[network->kind].what,
		 network->cidr.prefix_bits == mk_ip_bits(network->cidr.ip.family)
			 ? mk_ip_format(&network->cidr.ip, cidr)
			 : mk_cidr_format(&network->cidr, cidr),
		 joint, network->name);
}

/* Another CNI plugin may have left what overlaps the pods' range. */
static void advise_removal(const struct mk_own_range *range, const struct mk_network *network,
			   char *text, size_t size)
{
	char cidr[MK_CIDR_STRLEN];

	if (strcmp(range->setting, "vtepCidr") == 0 || !*network->name)
		return;
	if (network->kind == MK_NET_ADDRESS)
		snprintf(text, size, "delete %s if another CNI plugin left it, otherwise ",
			 network->name);
	else if (network->kind == MK_NET_ON_LINK)
		snprintf(text, size,
			 "run `ip route del %s dev %s` if another program left it, otherwise ",
			 mk_cidr_format(&network->cidr, cidr), network->name);
}

static void explain(const struct mk_own_range *range, const struct mk_network *network,
		    enum mk_overlap overlap, struct mk_error *why)
{
	const char *example = range->cidr.ip.family == AF_INET6
				      ? "such as fd4d:4b01::/64, the same on every node"
				      : "such as 100.64.0.0/16, the same on every node";
	bool is_vtep = strcmp(range->setting, "vtepCidr") == 0;
	char cidr[MK_CIDR_STRLEN], text[192], removal[160] = "";

	describe(network, text, sizeof(text));
	advise_removal(range, network, removal, sizeof(removal));
	(void)mk_error_set(
		why, EINVAL,
		"%s '%s' overlaps %s: %s; %sset %s to a range that no network of the nodes has, %s",
		range->setting, mk_cidr_format(&range->cidr, cidr), text,
		overlap == MK_OVERLAP_REFUSED ? "the node would lose access to it"
					      : "pods cannot reach it",
		removal, range->setting, is_vtep ? example : "as the cluster's pod range");
}

enum mk_overlap mk_networks_judge(const struct mk_networks *networks,
				  const struct mk_own_range *ranges, size_t count,
				  struct mk_error *why)
{
	enum mk_overlap worst = MK_OVERLAP_NONE;

	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < networks->count; j++) {
			enum mk_overlap overlap = networks_overlap(&ranges[i], &networks->list[j]);

			if (overlap <= worst)
				continue;
			worst = overlap;
			explain(&ranges[i], &networks->list[j], overlap, why);
		}
	return worst;
}
