// SPDX-License-Identifier: Apache-2.0
/* The uplinks: the named devices, or all with an address or a route. The first carries the overlay:
 * it has the Node's first InternalIP. */
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent_internal.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "host/sysctl.h"

struct search {
	struct mk_agent *agent;
	const struct mk_node_object *object;
	struct agent_uplinks *found;
	struct mk_error *err;
	struct agent_ways ways;
};

static bool is_found(const struct agent_uplinks *found, int ifindex)
{
	for (size_t i = 0; i < found->count; i++)
		if (found->uplink[i].link.ifindex == ifindex)
			return true;
	return false;
}

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

static void add(struct agent_uplinks *found, const struct mk_link *link, uint32_t flags)
{
	if (is_found(found, link->ifindex))
		return;
	if (found->count == MK_UPLINKS_MAX)
		found->too_many = true;
	else
		found->uplink[found->count++] = (struct agent_uplink){
			.link = *link, .flags = flags | (is_tunnel(link) ? MK_UPLINK_TUNNEL : 0)
		};
}

static void swap(struct agent_uplink *a, struct agent_uplink *b)
{
	struct agent_uplink was = *a;

	*a = *b;
	*b = was;
}

/* ---- by name --------------------------------------------------------------------------------- */

/* Put the named device with the InternalIP first, if there is one. */
static int put_first(struct search *search)
{
	int ifindex, ret = agent_interface_of(search->agent->nl, &search->object->internal_ip,
					      &ifindex, search->err);

	for (size_t i = 1; ret == 0 && i < search->found->count; i++)
		if (search->found->uplink[i].link.ifindex == ifindex)
			swap(&search->found->uplink[0], &search->found->uplink[i]);
	return ret == -ENODEV ? 0 : ret;
}

static int find_named(struct search *search)
{
	const char *names = search->agent->config.uplinks, *at = names;
	char name[IFNAMSIZ];

	while (mk_config_next_name(&at, name)) {
		struct mk_link link;
		int ret = mk_nl_link_get(search->agent->nl, name, &link, search->err);

		if (ret == 0)
			add(search->found, &link, 0);
		else if (ret == -ENODEV)
			search->found->some_missing = true;
		else
			return ret;
	}
	if (search->found->count == 0)
		return agent_lacks(search->agent, "interface '%s' (uplinkIfaceName)", names);
	return put_first(search);
}

/* ---- without names --------------------------------------------------------------------------- */

static int find_underlay(struct search *search)
{
	const struct mk_ip *internal_ip = &search->object->internal_ip;
	char text[MK_IP_STRLEN];
	struct mk_link link;
	int ifindex, ret;

	mk_ip_format(internal_ip, text);
	ret = agent_interface_of(search->agent->nl, internal_ip, &ifindex, search->err);
	if (ret == -ENODEV)
		return agent_lacks(search->agent, "an interface with the Node's InternalIP %s",
				   text);
	if (ret == 0)
		ret = mk_nl_link_get_index(search->agent->nl, ifindex, &link, search->err);
	if (ret < 0)
		return ret;
	if (link.flags & IFF_LOOPBACK)
		return mk_error_set(
			search->err, EINVAL,
			"the Node's InternalIP %s is on '%s': name the interface to the other nodes (uplinkIfaceName)",
			text, link.name);
	add(search->found, &link, 0);
	return 0;
}

/* Accept Ethernet, or IP without a header before it: the programs parse nothing else. */
bool agent_can_be_uplink(const struct mk_config *config, const struct mk_link *link)
{
	static const struct mk_mac none;

	if (link->flags & IFF_LOOPBACK || strcmp(link->name, config->vxlan_iface_name) == 0 ||
	    strcmp(link->name, MK_HOST_VETH) == 0 || strcmp(link->name, MK_HOST_PEER) == 0)
		return false;
	return is_tunnel(link) ||
	       (link->type == ARPHRD_ETHER && memcmp(&link->mac, &none, sizeof(none)) != 0);
}

/* A device may vanish at any time; a notification follows then. */
static int consider(struct search *search, const struct agent_way *way)
{
	struct mk_link link;
	int ret;

	if (is_found(search->found, way->ifindex))
		return 0;
	ret = mk_nl_link_get_index(search->agent->nl, way->ifindex, &link, search->err);
	if (ret == 0 && agent_can_be_uplink(&search->agent->config, &link))
		add(search->found, &link, way->main ? 0 : MK_UPLINK_SIDE);
	return ret == -ENODEV ? 0 : ret;
}

static int find_by_themselves(struct search *search)
{
	int ret = find_underlay(search);

	for (size_t i = 0; ret == 0 && i < search->ways.count; i++)
		ret = consider(search, &search->ways.way[i]);
	return ret;
}

/* ---- their addresses ------------------------------------------------------------------------- */

/* Rank @addr as the source of masqueraded traffic. */
static int suits(const struct mk_node_object *object, const struct mk_cidr *addr)
{
	if (mk_ip_equal(&addr->ip, &object->internal_ip))
		return 4;
	if (mk_ips_contain(object->addresses, object->address_count, &addr->ip))
		return 3;
	return ntohl(addr->ip.v4.s_addr) >> 16 == 0xa9fe ? 1 : 2; /* 169.254/16: link-local */
}

static int take_address(void *ctx, int ifindex, const struct mk_cidr *addr)
{
	struct search *search = ctx;

	for (size_t i = 0; i < search->found->count; i++) {
		struct agent_uplink *uplink = &search->found->uplink[i];

		if (uplink->link.ifindex == ifindex &&
		    suits(search->object, addr) > uplink->suits) {
			uplink->addr = *addr;
			uplink->suits = suits(search->object, addr);
		}
	}
	return 0;
}

int agent_find_uplinks(struct mk_agent *agent, const struct mk_node_object *object,
		       struct agent_uplinks *found, struct mk_error *err)
{
	struct search search = { .agent = agent, .object = object, .found = found, .err = err };
	int ret;

	*found = (struct agent_uplinks){ 0 };
	ret = agent_read_ways(agent, object, &search.ways, err);
	if (ret == 0)
		ret = agent->config.uplinks[0] ? find_named(&search) : find_by_themselves(&search);
	if (ret == 0)
		ret = mk_nl_each_addr(agent->nl, AF_INET, take_address, &search, err);
	/* an uplink without an address sends from the Node's, as the host does */
	for (size_t i = 0; ret == 0 && i < found->count; i++)
		if (!found->uplink[i].suits)
			found->uplink[i].addr = (struct mk_cidr){ object->internal_ip, 32 };
	if (ret == 0)
		found->ask_host =
			found->count > 1 || agent_must_ask(&search.ways, &found->uplink[0]);
	return ret;
}

static struct mk_uplink told(const struct agent_uplink *uplink)
{
	return (struct mk_uplink){
		.ifindex = (__u32)uplink->link.ifindex,
		.mtu_bytes = uplink->link.mtu_bytes,
		.addr = mk_ip_to_addr(&uplink->addr.ip),
		.flags = uplink->flags,
	};
}

static struct mk_link_network network_of(const struct agent_uplink *uplink)
{
	struct mk_cidr network = mk_cidr_network(&uplink->addr);
	struct mk_ip mask = mk_cidr_mask(&network);

	return (struct mk_link_network){
		.net = mk_ip_to_addr(&network.ip),
		.mask = mk_ip_to_addr(&mask),
		.ifindex = (__u32)uplink->link.ifindex,
	};
}

void agent_uplink_links(const struct agent_uplinks *uplinks, struct mk_datapath_links *links)
{
	links->uplink_count = uplinks->count;
	links->set.ask_host = uplinks->ask_host;
	for (size_t i = 0; i < uplinks->count; i++) {
		links->uplinks[i] = told(&uplinks->uplink[i]);
		if (i < MK_LINK_NETWORKS)
			links->set.networks[i] = network_of(&uplinks->uplink[i]);
	}
	links->set.first = links->uplinks[0];
}

/* ---- where NodePorts answer ------------------------------------------------------------------ */

static bool is_wanted(const struct mk_config *config, const struct mk_ip *ip)
{
	const struct mk_cidr_list *list = &config->node_port_addresses;

	/* the pods' gateway and the VTEP are the datapath's own */
	if (mk_cidr_contains(&config->cluster_cidr, ip) || mk_cidr_contains(&config->vtep_cidr, ip))
		return false;
	for (size_t i = 0; i < list->count; i++)
		if (mk_cidr_contains(&list->cidr[i], ip))
			return true;
	return false;
}

bool agent_localhost_node_ports(const struct mk_config *config)
{
	const struct mk_ip localhost = { .family = AF_INET, .v4.s_addr = htonl(INADDR_LOOPBACK) };

	return config->localhost_node_ports &&
	       (config->node_port_addresses.count == 0 || is_wanted(config, &localhost));
}

static size_t add_wanted(const struct mk_config *config, const struct mk_ip *from, size_t count,
			 struct mk_ip *ips, size_t used)
{
	for (size_t i = 0; i < count; i++) {
		if (!mk_ips_contain(ips, used, &from[i]) &&
		    (config->node_port_addresses.count == 0 || is_wanted(config, &from[i])))
			ips[used++] = from[i];
	}
	return used;
}

int agent_node_port_ips(const struct mk_config *config, const struct mk_node_object *object,
			const struct mk_ip *local, size_t local_count, struct mk_ip **ips,
			size_t *count, struct mk_error *err)
{
	*ips = calloc(object->address_count + local_count + 1, sizeof(**ips));
	if (!*ips)
		return mk_error_errno(err, ENOMEM, "cannot keep the addresses of Node '%s'",
				      object->name);
	*count = add_wanted(config, object->addresses, object->address_count, *ips, 0);
	if (config->node_port_addresses.count)
		*count = add_wanted(config, local, local_count, *ips, *count);
	return 0;
}

/* ---- log lines ------------------------------------------------------------------------------- */

/* Log @text, which is freed or kept, if it is new. Returns whether it is. */
static bool say(char **said, const char *what, char *text)
{
	if (*said && strcmp(*said, text) == 0) {
		free(text);
		return false;
	}
	mk_log_info("%s %s%s", what, *said ? "are now " : "", text);
	free(*said);
	*said = text;
	return true;
}

/* Strict filtering is a problem only with several uplinks: see src/cli/check/host.c. */
static void say_path_filter(const struct agent_uplinks *uplinks)
{
	for (size_t i = 0; i < uplinks->count; i++)
		if (uplinks->count > 1 && !(uplinks->uplink[1].flags & MK_UPLINK_SIDE) &&
		    mk_reverse_path_filter(uplinks->uplink[i].link.name, NULL) == 1) {
			mk_log_warn(
				"rp_filter is strict (1) on %s, one of several uplinks: a packet for this host that comes by it is dropped if the way back leads by another; set net.ipv4.conf.all.rp_filter=2 to accept it",
				uplinks->uplink[i].link.name);
			return;
		}
}

/* Uplinks of side networks come last. */
static void say_uplink(FILE *stream, const struct agent_uplinks *uplinks, size_t index)
{
	const struct agent_uplink *uplink = &uplinks->uplink[index];
	bool is_side = uplink->flags & MK_UPLINK_SIDE;
	bool is_first_side = is_side && !(uplinks->uplink[index - 1].flags & MK_UPLINK_SIDE);
	char text[MK_IP_STRLEN];

	fprintf(stream, "%s%s %s",
		index == 0	? ""
		: is_first_side ? "; side networks: "
				: ", ",
		uplink->link.name, mk_ip_format(&uplink->addr.ip, text));
}

void agent_say_node(struct agent_node *node)
{
	char *uplinks = NULL, *ports = NULL, text[MK_IP_STRLEN];
	size_t size;
	FILE *stream = open_memstream(&uplinks, &size);

	for (size_t i = 0; stream && i < node->uplinks.count; i++)
		say_uplink(stream, &node->uplinks, i);
	if (stream && node->uplinks.too_many)
		fprintf(stream, "; more than %d: the others are left out", MK_UPLINKS_MAX);
	if (stream && node->uplinks.some_missing)
		fprintf(stream, "; some of uplinkIfaceName do not exist");
	if (stream && fclose(stream) == 0 && say(&node->uplinks_said, "uplinks:", uplinks))
		say_path_filter(&node->uplinks);
	stream = open_memstream(&ports, &size);
	for (size_t i = 0; stream && i < node->service_ip_count; i++)
		fprintf(stream, "%s%s", i ? ", " : "", mk_ip_format(&node->service_ips[i], text));
	if (stream && fclose(stream) == 0)
		say(&node->ports_said, "addresses of NodePorts:", ports);
}
