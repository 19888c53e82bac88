// SPDX-License-Identifier: Apache-2.0
/* This node in one family of addresses: its constants, addresses and datapath. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "agent/node/node_internal.h"
#include "base/cleanup.h"
#include "clusters/clusters.h"

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
	free(own->cluster_routes);
	free(own->down_views);
	mk_probes_free(own->link_probes);
}

/* ---- the host's addresses -------------------------------------------------------------------- */

struct list {
	struct host_address *list;
	size_t count;
	struct mk_error *err;
};

static int add(void *ctx, const struct mk_nl_addr *addr)
{
	struct list *list = ctx;
	struct host_address *added = mk_append(list->list, list->count);

	if (!added)
		return mk_error_errno(list->err, ENOMEM, "cannot list addresses");
	*added = (struct host_address){ addr->ifindex, addr->cidr, addr->flags };
	return 0;
}

int read_addresses(struct mk_nl *nl, struct host_address **addresses, size_t *count,
		   struct mk_error *err)
{
	struct list list = { .err = err };
	int ret = mk_nl_each_addr(nl, AF_INET, add, &list, err);

	ret = ret ?: mk_nl_each_addr(nl, AF_INET6, add, &list, err);

	*addresses = list.list;
	*count = list.count;
	return ret;
}

/* Every link has the same link-local network of IPv6, which no packet leaves. */
static bool is_of_one_link(const struct mk_ip *ip)
{
	if (ip->family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&ip->v6) || IN6_IS_ADDR_LINKLOCAL(&ip->v6);
	return ntohl(ip->v4.s_addr) >> 24 == 127;
}

/* List all of @family except loopback's and those of a single link; the caller frees *@ips. */
static int local_addresses(struct mk_nl *nl, sa_family_t family, struct mk_ip **ips, size_t *count,
			   struct mk_error *err)
{
	cleanup_free struct host_address *all = NULL;
	size_t all_count, used = 0;
	int ret = read_addresses(nl, &all, &all_count, err);

	if (ret < 0)
		return ret;
	*ips = calloc(all_count + 1, sizeof(**ips));
	if (!*ips)
		return mk_error_errno(err, ENOMEM, "cannot list addresses");
	for (size_t i = 0; i < all_count; i++)
		if (all[i].addr.ip.family == family && !is_of_one_link(&all[i].addr.ip))
			(*ips)[used++] = all[i].addr.ip;
	mk_ips_sort(*ips, &used); /* an address may be on several devices */
	*count = used;
	return 0;
}

/* ---- addresses ------------------------------------------------------------------------------- */

int take_local(struct mk_own_family *own, struct mk_error *err)
{
	const struct mk_family *family = own->family;
	struct mk_ip *ips = NULL;
	size_t count = 0;
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

void mk_own_family_set_down_views(struct mk_own_family *own, struct mk_cidr *views, size_t count)
{
	bool same = count == own->down_view_count;

	for (size_t i = 0; same && i < count; i++)
		same = mk_cidr_compare(&views[i], &own->down_views[i]) == 0;
	free(own->down_views);
	own->down_views = views;
	own->down_view_count = count;
	if (same)
		return;
	own->node->view_changes++;
	mk_core_schedule(own->node->core, 0);
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
		.down = own->down_views,
		.down_count = own->down_view_count,
		.localhost_node_ports = localhost_node_ports(config, own->family->family),
	};
}

/* ---- the programs ---------------------------------------------------------------------------- */

static bool has_other_family(const struct mk_own_family *own)
{
	return own->family->core->families[!mk_family_index(own->family->family)].runs;
}

/* Is the overlay's underlay of the other family? */
static bool is_carried_by_other(const struct mk_own_family *own)
{
	return config_of(own)->underlay_family != own->family->family;
}

bool checks_far_carriers(const struct mk_own_family *own)
{
	return is_carried_by_other(own) && !has_other_family(own);
}

uint32_t mk_own_cluster_number(const struct mk_config *config)
{
	if (!config->cluster_name[0])
		return 0;
	return config->cluster_id ? config->cluster_id : mk_cluster_number(config->cluster_name);
}

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
		.keeps_client = config->keeps_client,
		.returns_direct = config->returns_direct,
		.has_other_family = has_other_family(own),
		.is_carried_by_other = is_carried_by_other(own) && has_other_family(own),
		.checks_far_carriers = checks_far_carriers(own),
		.encrypts = config->cluster_name[0] && config->wireguard_port,
		.encrypts_all = config->encryption == MK_ENCRYPTION_ONLY,
		.cluster_number = mk_own_cluster_number(config),
		.syn_ns = config->syn_rate ? 1000000000 / config->syn_rate : 0,
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
		.sfc_ifindex = (__u32)node->devices.sfc_ifindex,
		.cluster_ifindex = (__u32)node->devices.cluster_ifindex,
		.wg_ifindex = (__u32)node->devices.wg_ifindex,
		.wg_peer_ifindex = (__u32)node->devices.wg_peer_ifindex,
	};
	uplink_links(&node->uplinks, own->family->family, links);
}

int load_family(struct mk_own_family *own, struct mk_error *err)
{
	struct mk_node wanted = constants(own);

	return load_programs(own, &wanted, err);
}
