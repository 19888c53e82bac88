// SPDX-License-Identifier: Apache-2.0
/* The uplinks: the named devices, or all with an address or a route. The first carries the overlay:
 * it has the Node's first InternalIP. */
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "agent/node/node_internal.h"
#include "base/cleanup.h"
#include "datapath/pods/port.h"
#include "pod/endpoint/endpoint.h"

struct search {
	const struct host_input *host;
	struct mk_own_uplinks *found;
	struct mk_error *err;
	struct ways ways[MK_FAMILIES]; /* of the families that run */
};

/* Does the device send frames without a link-layer header? */
static bool is_tunnel(const struct mk_link *link)
{
	static const uint16_t types[] = { ARPHRD_NONE, ARPHRD_TUNNEL, ARPHRD_IPGRE,
					  ARPHRD_SIT,  ARPHRD_PPP,    ARPHRD_RAWIP };

	for (size_t i = 0; i < MK_ARRAY_SIZE(types); i++)
		if (link->type == types[i])
			return true;
	return false;
}

static void add(struct mk_own_uplinks *found, const struct mk_link *link, uint32_t flags)
{
	if (mk_own_uplinks_contain(found, link->ifindex))
		return;
	if (found->count == MK_UPLINKS_MAX)
		found->too_many = true;
	else
		found->uplink[found->count++] = (struct mk_own_uplink){
			.link = *link, .flags = flags | (is_tunnel(link) ? MK_UPLINK_TUNNEL : 0)
		};
}

int refuse_vrf(const struct mk_link *link, const char *why, struct mk_error *err)
{
	char vrf[IF_NAMESIZE] = "?";

	if (!mk_nl_is_of_vrf(link))
		return 0;
	if (link->master_ifindex == 0)
		return mk_error_set(
			err, EINVAL,
			"device '%s' (%s) is a VRF, and pods cannot use the routes of a VRF: use a device outside of VRFs",
			link->name, why);
	if_indextoname((unsigned int)link->master_ifindex, vrf);
	return mk_error_set(
		err, EINVAL,
		"device '%s' (%s) is in VRF '%s', and pods cannot use the routes of a VRF: take it out (ip link set %s nomaster), or give the Node an InternalIP on a device outside of VRFs",
		link->name, why, vrf, link->name);
}

/* ---- by name --------------------------------------------------------------------------------- */

static int interface_of(const struct host_input *host, const struct mk_ip *ip)
{
	int ifindex = 0;

	for (size_t i = 0; i < host->address_count; i++)
		if (mk_ip_equal(&host->addresses[i].addr.ip, ip))
			ifindex = host->addresses[i].ifindex;
	return ifindex;
}

/* Put the named device with the InternalIP first, if there is one. */
static void put_first(const struct search *search)
{
	int ifindex =
		interface_of(search->host, underlay_of(search->host->config, search->host->object));

	struct mk_own_uplink *uplinks = search->found->uplink, was = uplinks[0];

	for (size_t i = 1; i < search->found->count; i++)
		if (uplinks[i].link.ifindex == ifindex) {
			uplinks[0] = uplinks[i];
			uplinks[i] = was;
			return;
		}
}

static int find_named(struct search *search)
{
	const char *names = search->host->config->uplinks, *at = names;
	char name[IFNAMSIZ];

	while (mk_config_next_name(&at, name)) {
		struct mk_link link;
		int ret = mk_nl_link_get(search->host->nl, name, &link, search->err);

		if (ret == 0 && refuse_vrf(&link, "uplinkIfaceName", search->err) < 0)
			return -EINVAL;
		if (ret == 0)
			add(search->found, &link, 0);
		else if (ret == -ENODEV)
			search->found->some_missing = true;
		else
			return ret;
	}
	if (search->found->count == 0) {
		(void)mk_error_set(search->err, ENODEV, "interface '%s' (uplinkIfaceName)", names);
		return MK_WAIT;
	}
	put_first(search);
	return 0;
}

/* ---- without names --------------------------------------------------------------------------- */

static int find_underlay(struct search *search)
{
	const struct mk_ip *internal_ip = underlay_of(search->host->config, search->host->object);
	char text[MK_IP_STRLEN], why[MK_IP_STRLEN + 16];
	struct mk_link link;
	int ifindex = interface_of(search->host, internal_ip), ret;

	mk_ip_format(internal_ip, text);
	if (!ifindex) {
		(void)mk_error_set(search->err, ENODEV,
				   "an interface with the Node's InternalIP %s", text);
		return MK_WAIT;
	}
	ret = mk_nl_link_get_index(search->host->nl, ifindex, &link, search->err);
	if (ret < 0)
		return ret;
	if (link.flags & IFF_LOOPBACK)
		return mk_error_set(
			search->err, EINVAL,
			"the Node's InternalIP %s is on '%s': name the interface to the other nodes (uplinkIfaceName)",
			text, link.name);
	snprintf(why, sizeof(why), "InternalIP %s", text);
	ret = refuse_vrf(&link, why, search->err);
	if (ret == 0)
		add(search->found, &link, 0);
	return ret;
}

/* A DHCP client of the host may give a pod's device an address and routes. */
static bool is_of_pod(const struct mk_config *config, const struct mk_link *link)
{
	return mk_cni_is_pod_device(config->veth_prefix, link) || mk_port_of(link, NULL, NULL);
}

/* Accept Ethernet, or IP without a header before it: the programs parse nothing else. The programs
 * ask the host's routes, not those of a VRF. */
bool can_be_uplink(const struct mk_config *config, const struct mk_link *link)
{
	static const struct mk_mac none;

	if (link->flags & IFF_LOOPBACK || strcmp(link->name, config->vxlan_iface_name) == 0 ||
	    strcmp(link->name, config->sfc_iface_name) == 0 ||
	    strcmp(link->name, config->peer_iface_name) == 0 ||
	    strcmp(link->name, MK_WG_NAME) == 0 || strcmp(link->name, MK_WG_PEER_NAME) == 0 ||
	    strcmp(link->name, MK_HOST_VETH) == 0 || strcmp(link->name, MK_HOST_PEER) == 0 ||
	    is_of_pod(config, link) || mk_nl_is_of_vrf(link))
		return false;
	return is_tunnel(link) ||
	       (link->type == ARPHRD_ETHER && memcmp(&link->mac, &none, sizeof(none)) != 0);
}

/* A device may vanish at any time; a notification follows then. */
static int consider(struct search *search, const struct way *way)
{
	struct mk_link link;
	int ret;

	if (mk_own_uplinks_contain(search->found, way->ifindex))
		return 0;
	ret = mk_nl_link_get_index(search->host->nl, way->ifindex, &link, search->err);
	if (ret == 0 && can_be_uplink(search->host->config, &link))
		add(search->found, &link, way->main ? 0 : MK_UPLINK_SIDE);
	return ret == -ENODEV ? 0 : ret;
}

/* The ways of the overlay's family come first. */
static int find_by_themselves(struct search *search)
{
	unsigned underlay = mk_family_index(search->host->config->underlay_family);
	int ret = find_underlay(search);

	for (size_t i = 0; i < MK_FAMILIES; i++) {
		const struct ways *ways = &search->ways[i == 0 ? underlay : !underlay];

		for (size_t j = 0; ret == 0 && j < ways->count; j++)
			ret = consider(search, &ways->way[j]);
	}
	return ret;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void choose_family(struct search *search, const struct host_input *input)
{
	struct mk_own_uplinks *found = search->found;
	unsigned index = mk_family_index(input->family);
	const struct mk_own_uplink *first = &found->uplink[0];

	for (size_t i = 0; i < found->count; i++)
		found->uplink[i].source[index] =
			choose_sources(input, found->uplink[i].link.ifindex);
	found->ask_host[index] =
		found->count > 1 || must_ask_host(&search->ways[index], first->link.ifindex,
						  &first->source[index].addr.ip);
}

int find_uplinks(const struct host_input *input, const bool families[MK_FAMILIES],
		 struct mk_own_uplinks *found, struct mk_error *err)
{
	static const sa_family_t all[MK_FAMILIES] = { AF_INET, AF_INET6 };
	struct search search = { .host = input, .found = found, .err = err };
	struct host_input of = *input;
	int ret = 0;

	*found = (struct mk_own_uplinks){ 0 };
	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++) {
		of.family = all[i];
		if (families[i])
			ret = read_ways(&of, &search.ways[i], err);
	}
	if (ret == 0)
		ret = input->config->uplinks[0] ? find_named(&search) : find_by_themselves(&search);
	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++) {
		of.family = all[i];
		if (families[i])
			choose_family(&search, &of);
	}
	return ret;
}

static struct mk_uplink told(const struct mk_own_uplink *uplink, unsigned family)
{
	return (struct mk_uplink){
		.ifindex = (__u32)uplink->link.ifindex,
		.mtu_bytes = uplink->link.mtu_bytes,
		.addr = mk_ip_to_addr(&uplink->source[family].addr.ip),
		.addr_local = mk_ip_to_addr(&uplink->source[family].addr_local.ip),
		.flags = uplink->flags,
	};
}

static struct mk_link_network network_of(const struct mk_own_uplink *uplink, unsigned family)
{
	struct mk_cidr network = mk_cidr_network(&uplink->source[family].addr);
	struct mk_ip mask = mk_cidr_mask(&network);

	return (struct mk_link_network){
		.net = mk_ip_to_addr(&network.ip),
		.mask = mk_ip_to_addr(&mask),
		.ifindex = (__u32)uplink->link.ifindex,
	};
}

void uplink_links(const struct mk_own_uplinks *uplinks, sa_family_t family,
		  struct mk_datapath_links *links)
{
	unsigned index = mk_family_index(family);

	links->uplink_count = uplinks->count;
	links->set.ask_host = uplinks->ask_host[index];
	for (size_t i = 0; i < uplinks->count; i++) {
		links->uplinks[i] = told(&uplinks->uplink[i], index);
		if (i < MK_LINK_NETWORKS)
			links->set.networks[i] = network_of(&uplinks->uplink[i], index);
	}
	links->set.first = links->uplinks[0];
}
