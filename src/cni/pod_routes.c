// SPDX-License-Identifier: Apache-2.0
#include "cni/endpoint.h"
#include "overlay/device.h"

uint32_t mk_cni_underlay_mtu(const struct mk_cni_conf *conf)
{
	return conf->mtu_bytes + MK_VXLAN_OVERHEAD_BYTES;
}

static struct mk_nl_route via_gateway(const struct mk_cni_conf *conf, int ifindex,
				      const struct mk_cidr *dst)
{
	return (struct mk_nl_route){
		.dst = *dst,
		.ifindex = ifindex,
		.gateway = conf->addresses.gateway,
		.onlink = true,
		.protocol = MK_RTPROT,
	};
}

void mk_cni_pod_routes(const struct mk_cni_conf *conf, int ifindex,
		       struct mk_nl_route routes[MK_POD_ROUTES])
{
	const struct mk_addresses *addresses = &conf->addresses;
	const struct mk_cidr gateway = { .ip = addresses->gateway, .prefix_bits = 32 };
	const struct mk_cidr virtual_pod = { .ip = addresses->virtual_pod, .prefix_bits = 32 };
	const struct mk_cidr node_pods = mk_cidr_network(&addresses->pod_cidr);
	const struct mk_cidr all_pods = mk_cidr_network(&conf->cluster_cidr);
	const struct mk_cidr all = { .ip = { .family = addresses->gateway.family } };

	routes[0] =
		(struct mk_nl_route){ .dst = gateway, .ifindex = ifindex, .protocol = MK_RTPROT };
	routes[1] = via_gateway(conf, ifindex, &all_pods);
	routes[1].mtu_bytes = conf->mtu_bytes;
	routes[2] = via_gateway(conf, ifindex, &node_pods); /* over it, where one node has all */
	routes[3] = via_gateway(conf, ifindex, &virtual_pod);
	routes[3].mtu_bytes = mk_cni_underlay_mtu(conf);
	routes[4] = via_gateway(conf, ifindex, &all);
	routes[4].mtu_bytes = mk_cni_underlay_mtu(conf);
}
