// SPDX-License-Identifier: Apache-2.0
/* Setting routing: which nodes are on a link of this node's uplinks, so that packets may go to them
 * without VXLAN. */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/node/node_internal.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "host/sysctl.h"

/* Does a route by a gateway lead to @ip, with a longer prefix than the network @of? */
static bool is_routed(const struct mk_networks *networks, const struct mk_ip *ip,
		      const struct mk_cidr *of)
{
	for (size_t i = 0; networks && i < networks->count; i++) {
		const struct mk_network *network = &networks->list[i];

		if (network->kind == MK_NET_ROUTED && network->cidr.ip.family == ip->family &&
		    network->cidr.prefix_bits > of->prefix_bits &&
		    mk_cidr_contains(&network->cidr, ip))
			return true;
	}
	return false;
}

/* Tunnels have no neighbours with MAC addresses. A device that is down takes no routes. */
const struct mk_own_uplink *link_of(const struct links_input *input, const struct mk_ip *ip)
{
	for (size_t i = 0; i < input->uplinks->count; i++) {
		const struct mk_own_uplink *uplink = &input->uplinks->uplink[i];
		const struct mk_cidr *own = &uplink->source[mk_family_index(input->family)].addr;

		if (uplink->flags & MK_UPLINK_TUNNEL || !(uplink->link.flags & IFF_UP) ||
		    ip->family != input->family || own->ip.family != ip->family ||
		    mk_ip_equal(&own->ip, ip) || !mk_cidr_contains(own, ip))
			continue;
		return is_routed(input->networks, ip, own) ? NULL : uplink;
	}
	return NULL;
}

int find_links(struct mk_own_family *own, struct mk_error *err)
{
	struct mk_core *core = own->family->core;
	const struct links_input input = {
		.uplinks = &own->node->uplinks,
		.networks = &own->node->networks,
		.family = own->family->family,
	};

	for (size_t i = 0; i < own->plan.peer_count; i++) {
		struct mk_overlay_peer *peer = &own->plan.peers[i];
		const struct mk_node_object *object = mk_model_node(core->model, peer->node);
		const struct mk_own_uplink *uplink;

		if (!object)
			continue;
		peer->link_ip = object->internal_ips[mk_family_index(input.family)];
		uplink = link_of(&input, &peer->link_ip);
		peer->link_ifindex = uplink ? uplink->link.ifindex : 0;
		peer->link_mtu_bytes = uplink ? uplink->link.mtu_bytes : 0;
		peer->is_direct = uplink && sends_direct(&core->config);
	}
	if (input.family == AF_INET6 && sends_direct(&core->config))
		greet_links(own);
	return tries_links(&core->config) ? try_links(own, err) : 0;
}

/* With probes, each of these nodes is in the table all the time. */
int mk_own_node_check_neighbours(const struct mk_own_node *node, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++) {
		const struct mk_overlay_plan *plan = &node->families[i].plan;
		size_t nodes = 0;

		if (!node->core->families[i].runs)
			continue;
		for (size_t j = 0; j < plan->peer_count; j++)
			nodes += plan->peers[j].link_ifindex != 0;
		ret = mk_sysctl_neighbours(node->core->config.state_dir,
					   node->core->families[i].family, nodes, err);
	}
	return ret;
}

/* ---- messages -------------------------------------------------------------------------------- */

static void put_node(FILE *out, const struct mk_overlay_peer *peer, sa_family_t family)
{
	char ip[MK_IP_STRLEN];

	if (!out)
		return;
	if (peer->link_ip.family == AF_UNSPEC)
		fprintf(out, "node '%s' has no %s InternalIP", peer->node, mk_family_name(family));
	else
		fprintf(out, "node '%s' (%s) %s", peer->node, mk_ip_format(&peer->link_ip, ip),
			peer->is_tried ? "answers no probe on the link"
				       : "is on no network of an uplink");
}

struct direct_count {
	size_t direct; /* nodes that get direct packets, in the family that has more */
	size_t undecided; /* .. whose probes go on */
	struct node_list others; /* .. that get none */
};

static void count_family(const struct mk_own_family *own, struct direct_count *count)
{
	size_t direct = 0;

	for (size_t i = 0; own->family->runs && i < own->plan.peer_count; i++) {
		const struct mk_overlay_peer *peer = &own->plan.peers[i];

		if (peer->is_direct)
			direct++;
		else if (peer->is_tried && !is_silent(own, peer))
			count->undecided++;
		else
			put_node(node_list_add(&count->others), peer, own->family->family);
	}
	count->direct = direct > count->direct ? direct : count->direct;
}

/* List the nodes that get no direct packets. NULL: out of memory. */
static char *count_direct(const struct mk_own_node *node, struct direct_count *count)
{
	*count = (struct direct_count){ 0 };
	node_list_begin(&count->others);
	for (size_t i = 0; i < MK_FAMILIES; i++)
		count_family(&node->families[i], count);
	return node_list_end(&count->others, NODES_SHOW_ALL);
}

void say_direct(struct mk_own_node *node)
{
	const struct mk_config *config = &node->core->config;
	cleanup_free char *text = NULL;
	struct direct_count count;

	text = count_direct(node, &count);
	node->direct_count = count.direct;
	node->links_undecided = count.undecided;
	if (!text || !sends_direct(config) || count.undecided || (!*text && !node->direct_said) ||
	    !mk_is_news(&node->direct_said, text))
		return;
	if (!*text)
		mk_log_info("packets to all nodes are direct now");
	else if (config->routing == MK_ROUTING_DIRECT)
		mk_log_warn(
			"packets go in VXLAN although routing is Direct: %s; set routing to Auto if that is meant, or give the nodes addresses in one network",
			text);
	else
		mk_log_info("packets go in VXLAN: %s", text);
}
