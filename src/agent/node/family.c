// SPDX-License-Identifier: Apache-2.0
/* This node in one family of addresses: its constants, addresses and datapath. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "agent/node/node_internal.h"

static const struct mk_config *config_of(const struct mk_own_family *own)
{
	return &own->family->core->config;
}

void release_family(struct mk_own_family *own)
{
	mk_datapath_free(own->load.datapath);
	if (own->family)
		drop_datapath(own->family);
	mk_overlay_plan_release(&own->plan);
	free(own->service_ips);
	free(own->local);
	free(own->ports_said);
}

/* ---- addresses ------------------------------------------------------------------------------- */

int take_local(struct mk_own_family *own, struct mk_error *err)
{
	const struct mk_family *family = own->family;
	struct mk_ip *ips = NULL;
	size_t count;
	int ret = local_addresses(family->core->nl, family->family, &ips, &count, err);

	if (ret < 0)
		return ret;
	free(own->local);
	own->local = ips;
	own->local_count = count;
	if (!family->datapath)
		return 0;
	return mk_service_sync_set_local(mk_datapath_services(family->datapath), ips, count, err);
}

int take_service_ips(struct mk_own_family *own, const struct mk_node_object *object, bool *changed,
		     struct mk_error *err)
{
	struct mk_ip *ips;
	size_t count;
	int ret = node_port_ips(config_of(own), own->family->family, object, own->local,
				own->local_count, &ips, &count, err);

	if (ret < 0)
		return ret;
	*changed |= !mk_ips_equal(own->service_ips, own->service_ip_count, ips, count);
	free(own->service_ips);
	own->service_ips = ips;
	own->service_ip_count = count;
	return 0;
}

struct mk_service_view mk_own_family_view(const struct mk_own_family *own)
{
	const struct mk_config *config = config_of(own);
	const char *zone = own->node->zone;

	return (struct mk_service_view){
		.family = own->family->family,
		.node_name = config->node_name,
		.zone = zone && *zone ? zone : NULL,
		.node_addresses = own->service_ips,
		.node_address_count = own->service_ip_count,
		.local_weight = config->local_endpoint_weight,
		.maglev_slots = config->maglev_slots,
		.masquerade_all = config->masquerade_all,
		.localhost_node_ports = localhost_node_ports(config, own->family->family),
	};
}

/* ---- the programs ---------------------------------------------------------------------------- */

static struct mk_node constants(const struct mk_own_family *own)
{
	const struct mk_addresses *addresses = &own->addresses;
	const struct mk_config *config = config_of(own);
	sa_family_t family = own->family->family;
	struct mk_cidr pods = mk_cidr_network(&addresses->pod_cidr);
	struct mk_cidr cluster = mk_cidr_network(mk_config_cluster(config, family));
	struct mk_cidr vteps = mk_cidr_network(mk_config_vteps(config, family));
	struct mk_ip pod_mask = mk_cidr_mask(&pods), cluster_mask = mk_cidr_mask(&cluster);
	struct mk_ip vtep_mask = mk_cidr_mask(&vteps);
	struct mk_node constants = {
		.vtep_addr = mk_ip_to_addr(&addresses->vtep),
		.gateway_addr = mk_ip_to_addr(&addresses->gateway),
		.vpod_addr = mk_ip_to_addr(&addresses->virtual_pod),
		.pod_net = mk_ip_to_addr(&pods.ip),
		.pod_mask = mk_ip_to_addr(&pod_mask),
		.cluster_net = mk_ip_to_addr(&cluster.ip),
		.cluster_mask = mk_ip_to_addr(&cluster_mask),
		.vtep_net = mk_ip_to_addr(&vteps.ip),
		.vtep_mask = mk_ip_to_addr(&vtep_mask),
		.nat_port_min = config->nat_port_min,
		.nat_port_max = config->nat_port_max,
		.maglev_slots = config->maglev_slots,
		.vxlan_port = htons(config->vxlan_port),
		.keeps_source = keeps_source(own),
		.has_other_family = own->family->core->families[!mk_family_index(family)].runs,
	};

	memcpy(constants.gateway_mac, addresses->gateway_mac.byte, sizeof(constants.gateway_mac));
	memcpy(constants.vtep_mac, addresses->vtep_mac.byte, sizeof(constants.vtep_mac));
	return constants;
}

void mk_own_family_links(const struct mk_own_family *own, struct mk_datapath_links *links)
{
	const struct mk_own_node *node = own->node;

	*links = (struct mk_datapath_links){
		.set.node_addr = mk_ip_to_addr(&own->node_ip),
		.set.overlay_ifindex = (__u32)node->devices.overlay_ifindex,
		.set.host_ifindex = (__u32)node->devices.host_ifindex,
		.set.host_peer_ifindex = (__u32)node->devices.host_peer_ifindex,
		.set.overlay_mtu_bytes = node->mtu_bytes,
	};
	uplink_links(&node->uplinks, own->family->family, links);
}

int load_family(struct mk_own_family *own, struct mk_error *err)
{
	struct mk_node wanted = constants(own);

	return load_programs(own, &wanted, err);
}
