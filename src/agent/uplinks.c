// SPDX-License-Identifier: Apache-2.0
/* The devices to outside: those that are named, or those with an address of the Node and those of
 * default routes. The first carries the overlay: it has the Node's first InternalIP. */
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent_internal.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "overlay/sysctl.h"

struct search {
	struct mk_agent *agent;
	const struct mk_node_object *object;
	struct agent_uplinks *found;
	struct mk_error *err;
};

static bool is_found(const struct agent_uplinks *found, int ifindex)
{
	for (size_t i = 0; i < found->count; i++)
		if (found->uplink[i].link.ifindex == ifindex)
			return true;
	return false;
}

static void add(struct agent_uplinks *found, const struct mk_link *link)
{
	if (is_found(found, link->ifindex))
		return;
	if (found->count == MK_UPLINKS_MAX)
		found->too_many = true;
	else
		found->uplink[found->count++] = (struct agent_uplink){ .link = *link };
}

static void swap(struct agent_uplink *a, struct agent_uplink *b)
{
	struct agent_uplink was = *a;

	*a = *b;
	*b = was;
}

/* ---- by name ----------------------------------------------------------------------------------- */

/* The named device that has the InternalIP comes first, where one has it. */
static int put_first(struct search *search)
{
	int ifindex, ret = mk_agent_interface_of(search->agent->nl, &search->object->internal_ip,
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
			add(search->found, &link);
		else if (ret == -ENODEV)
			search->found->some_missing = true;
		else
			return ret;
	}
	if (search->found->count == 0)
		return mk_agent_lacks(search->agent, "interface '%s' (uplinkIfaceName)", names);
	return put_first(search);
}

/* ---- by themselves ------------------------------------------------------------------------------- */

static int find_underlay(struct search *search)
{
	const struct mk_ip *internal_ip = &search->object->internal_ip;
	char text[MK_IP_STRLEN];
	struct mk_link link;
	int ifindex, ret;

	mk_ip_format(internal_ip, text);
	ret = mk_agent_interface_of(search->agent->nl, internal_ip, &ifindex, search->err);
	if (ret == -ENODEV)
		return mk_agent_lacks(search->agent, "an interface with the Node's InternalIP %s",
				      text);
	if (ret == 0)
		ret = mk_nl_link_get_index(search->agent->nl, ifindex, &link, search->err);
	if (ret < 0)
		return ret;
	if (link.flags & IFF_LOOPBACK)
		return mk_error_set(
			search->err, EINVAL,
			"the Node's InternalIP %s is on '%s': name the interface to the "
			"other nodes (uplinkIfaceName)",
			text, link.name);
	add(search->found, &link);
	return 0;
}

/* A device without a MAC address is no Ethernet, which is all that the programs read; a tunnel's
 * traffic is the host's. */
static bool can_be_uplink(const struct mk_agent *agent, const struct mk_link *link)
{
	static const struct mk_mac none;

	return !(link->flags & IFF_LOOPBACK) && memcmp(&link->mac, &none, sizeof(none)) != 0 &&
	       strcmp(link->name, agent->config.vxlan_iface_name) != 0 &&
	       strcmp(link->name, MK_HOST_VETH) != 0 && strcmp(link->name, MK_HOST_PEER) != 0;
}

/* A device may go at any time: then a notification follows. */
static int consider(struct search *search, int ifindex)
{
	struct mk_link link;
	int ret;

	if (is_found(search->found, ifindex))
		return 0;
	ret = mk_nl_link_get_index(search->agent->nl, ifindex, &link, search->err);
	if (ret == 0 && can_be_uplink(search->agent, &link))
		add(search->found, &link);
	return ret == -ENODEV ? 0 : ret;
}

struct candidates {
	const struct mk_node_object *object;
	int ifindex[64]; /* more are none that a node has */
	size_t count;
};

static void note(struct candidates *candidates, int ifindex)
{
	for (size_t i = 0; i < candidates->count; i++)
		if (candidates->ifindex[i] == ifindex)
			return;
	if (ifindex > 0 && candidates->count < MK_ARRAY_SIZE(candidates->ifindex))
		candidates->ifindex[candidates->count++] = ifindex;
}

static bool is_node_address(const struct mk_node_object *object, const struct mk_ip *ip)
{
	for (size_t i = 0; i < object->address_count; i++)
		if (mk_ip_equal(&object->addresses[i], ip))
			return true;
	return false;
}

static int see_address(void *ctx, int ifindex, const struct mk_cidr *addr)
{
	struct candidates *candidates = ctx;

	if (is_node_address(candidates->object, &addr->ip))
		note(candidates, ifindex);
	return 0;
}

static int see_route(void *ctx, const struct mk_nl_route *route)
{
	if (route->dst.prefix_bits == 0)
		note(ctx, route->ifindex);
	return 0;
}

static int compare_numbers(const void *a, const void *b)
{
	const int *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int find_by_themselves(struct search *search)
{
	struct candidates candidates = { .object = search->object };
	struct mk_nl *nl = search->agent->nl;
	int ret = find_underlay(search);

	if (ret == 0)
		ret = mk_nl_each_addr(nl, AF_INET, see_address, &candidates, search->err);
	if (ret == 0)
		ret = mk_nl_each_route(nl, see_route, &candidates, search->err);
	/* in an order that does not change by itself: it is part of the programs' constants */
	qsort(candidates.ifindex, candidates.count, sizeof(candidates.ifindex[0]), compare_numbers);
	for (size_t i = 0; ret == 0 && i < candidates.count; i++)
		ret = consider(search, candidates.ifindex[i]);
	return ret;
}

/* ---- their addresses ------------------------------------------------------------------------------ */

/* How well @addr suits as the source of masqueraded traffic. */
static int suits(const struct mk_node_object *object, const struct mk_cidr *addr)
{
	if (mk_ip_equal(&addr->ip, &object->internal_ip))
		return 4;
	if (is_node_address(object, &addr->ip))
		return 3;
	return ntohl(addr->ip.v4.s_addr) >> 16 == 0xa9fe ? 1 : 2; /* 169.254: link-local */
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

int mk_agent_find_uplinks(struct mk_agent *agent, const struct mk_node_object *object,
			  struct agent_uplinks *found, struct mk_error *err)
{
	struct search search = { agent, object, found, err };
	int ret;

	*found = (struct agent_uplinks){ 0 };
	ret = agent->config.uplinks[0] ? find_named(&search) : find_by_themselves(&search);
	if (ret == 0)
		ret = mk_nl_each_addr(agent->nl, AF_INET, take_address, &search, err);
	/* one without an address sends from the Node's, as the host does */
	for (size_t i = 0; ret == 0 && i < found->count; i++)
		if (!found->uplink[i].suits)
			found->uplink[i].addr = (struct mk_cidr){ object->internal_ip, 32 };
	return ret;
}

void mk_agent_uplink_constants(const struct agent_uplinks *uplinks, struct mk_node *node)
{
	node->uplink_count = (__u32)uplinks->count;
	for (size_t i = 0; i < uplinks->count; i++) {
		const struct agent_uplink *uplink = &uplinks->uplink[i];
		struct mk_cidr network = mk_cidr_network(&uplink->addr);
		struct mk_ip mask = mk_cidr_mask(&network);

		node->uplinks[i] = (struct mk_uplink){
			.ifindex = (__u32)uplink->link.ifindex,
			.mtu_bytes = uplink->link.mtu_bytes,
			.addr = mk_ip_to_addr(&uplink->addr.ip),
			.net = mk_ip_to_addr(&network.ip),
			.mask = mk_ip_to_addr(&mask),
		};
	}
}

/* ---- where NodePorts answer ------------------------------------------------------------------------- */

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

bool mk_agent_localhost_node_ports(const struct mk_config *config)
{
	const struct mk_ip localhost = { .family = AF_INET, .v4.s_addr = htonl(INADDR_LOOPBACK) };

	return config->localhost_node_ports &&
	       (config->node_port_addresses.count == 0 || is_wanted(config, &localhost));
}

static size_t add_wanted(const struct mk_config *config, const struct mk_ip *from, size_t count,
			 struct mk_ip *ips, size_t used)
{
	for (size_t i = 0; i < count; i++) {
		bool there = false;

		for (size_t j = 0; j < used; j++)
			there |= mk_ip_equal(&ips[j], &from[i]);
		if (!there &&
		    (config->node_port_addresses.count == 0 || is_wanted(config, &from[i])))
			ips[used++] = from[i];
	}
	return used;
}

int mk_agent_node_port_ips(const struct mk_config *config, const struct mk_node_object *object,
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

/* ---- what is said ------------------------------------------------------------------------------------- */

/* Once per text. Was it news? */
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

/* Of several uplinks alone is it in the way: src/cli/check_host.c. */
static void say_path_filter(const struct agent_uplinks *uplinks)
{
	for (size_t i = 0; uplinks->count > 1 && i < uplinks->count; i++)
		if (mk_reverse_path_filter(uplinks->uplink[i].link.name, NULL) == 1) {
			mk_log_warn("rp_filter is strict (1) on %s, one of several uplinks: what "
				    "comes for this host by it, and has its way back by another, "
				    "is dropped; net.ipv4.conf.all.rp_filter=2 lets it in",
				    uplinks->uplink[i].link.name);
			return;
		}
}

void mk_agent_say_node(struct agent_node *node)
{
	char *uplinks = NULL, *ports = NULL, text[MK_IP_STRLEN];
	size_t size;
	FILE *stream = open_memstream(&uplinks, &size);

	for (size_t i = 0; stream && i < node->uplinks.count; i++)
		fprintf(stream, "%s%s %s", i ? ", " : "", node->uplinks.uplink[i].link.name,
			mk_ip_format(&node->uplinks.uplink[i].addr.ip, text));
	if (stream && node->uplinks.too_many)
		fprintf(stream, "; more than %d: the others are left out", MK_UPLINKS_MAX);
	if (stream && node->uplinks.some_missing)
		fprintf(stream, "; not all of uplinkIfaceName are there");
	if (stream && fclose(stream) == 0 && say(&node->uplinks_said, "uplinks:", uplinks))
		say_path_filter(&node->uplinks);
	stream = open_memstream(&ports, &size);
	for (size_t i = 0; stream && i < node->service_ip_count; i++)
		fprintf(stream, "%s%s", i ? ", " : "", mk_ip_format(&node->service_ips[i], text));
	if (stream && fclose(stream) == 0)
		say(&node->ports_said, "addresses of NodePorts:", ports);
}
