// SPDX-License-Identifier: Apache-2.0
/* Routes and MTUs inside of a pod. */
#include "overlay/device.h"
#include "pod/endpoint/endpoint.h"

uint32_t mk_cni_default_mtu(const struct mk_cni_conf *conf, sa_family_t family)
{
	if (conf->is_direct || (conf->underlay == AF_INET6 && family == AF_INET))
		return conf->mtu_bytes;
	return conf->mtu_bytes + mk_vxlan_overhead_bytes(conf->underlay);
}

static struct mk_nl_route via_gateway(const struct mk_cni_network *network, int ifindex,
				      const struct mk_cidr *dst)
{
	return (struct mk_nl_route){
		.dst = *dst,
		.ifindex = ifindex,
		.gateway = network->addresses.gateway,
		/* Linux looks up an onlink gateway of IPv6 in the main table, which has the gateway
		 * behind the pod's first interface; without the flag, in the route's own table. */
		.onlink = network->addresses.gateway.family == AF_INET,
		.protocol = MK_RTPROT,
	};
}

#define POD_TABLES \
	0x6d6b0000 /* plus the interface's index; far from the numbers that people choose */

uint32_t mk_cni_pod_table(int ifindex)
{
	return POD_TABLES + (uint32_t)ifindex;
}

struct default_search {
	int ifindex;
	bool found;
};

static int see_default(void *ctx, const struct mk_nl_route *route)
{
	struct default_search *search = ctx;

	if (route->dst.prefix_bits == 0 && route->ifindex != search->ifindex)
		search->found = true;
	return 0;
}

int mk_cni_is_further(struct mk_nl *pod_nl, const struct mk_cni_conf *conf, int ifindex,
		      struct mk_error *err)
{
	struct default_search search = { .ifindex = ifindex };
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < conf->network_count; i++)
		ret = mk_nl_each_route(pod_nl, conf->networks[i].addresses.gateway.family,
				       see_default, &search, err);
	return ret < 0 ? ret : search.found;
}

void mk_cni_pod_routes(const struct mk_cni_conf *conf, const struct mk_cni_network *network,
		       int ifindex, uint32_t table, struct mk_nl_route routes[MK_POD_ROUTES])
{
	const struct mk_addresses *addresses = &network->addresses;
	const uint8_t bits = (uint8_t)mk_ip_bits(addresses->gateway.family);
	const struct mk_cidr gateway = { .ip = addresses->gateway, .prefix_bits = bits };
	const struct mk_cidr virtual_pod = { .ip = addresses->virtual_pod, .prefix_bits = bits };
	const struct mk_cidr node_pods = mk_cidr_network(&addresses->pod_cidr);
	const struct mk_cidr all_pods = mk_cidr_network(&network->cluster_cidr);
	const struct mk_cidr all = { .ip = { .family = addresses->gateway.family } };

	routes[0] =
		(struct mk_nl_route){ .dst = gateway, .ifindex = ifindex, .protocol = MK_RTPROT };
	routes[1] = via_gateway(network, ifindex, &all_pods);
	routes[1].mtu_bytes = conf->mtu_bytes;
	routes[2] = via_gateway(network, ifindex, &node_pods); /* replaces [1] if dst is the same */
	routes[3] = via_gateway(network, ifindex, &virtual_pod);
	routes[3].mtu_bytes = mk_cni_default_mtu(conf, addresses->gateway.family);
	routes[4] = via_gateway(network, ifindex, &all);
	routes[4].mtu_bytes = mk_cni_default_mtu(conf, addresses->gateway.family);
	for (size_t i = 0; i < MK_POD_ROUTES; i++)
		routes[i].table = table;
}
