// SPDX-License-Identifier: Apache-2.0
/* Setting routing: which nodes are on a link of this node's uplinks, so that packets may go to them
 * without VXLAN. */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/node/node_internal.h"
#include "base/cleanup.h"
#include "base/log.h"

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

bool sends_direct(const struct mk_config *config)
{
	return config->routing != MK_ROUTING_OVERLAY && config->encryption == MK_ENCRYPTION_NONE;
}

void find_links(struct mk_own_family *own)
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
}

/* ---- messages -------------------------------------------------------------------------------- */

static void put_node(FILE *out, const struct mk_overlay_peer *peer, sa_family_t family,
		     size_t before)
{
	char ip[MK_IP_STRLEN];

	if (peer->link_ip.family == AF_UNSPEC)
		fprintf(out, "%snode '%s' has no %s InternalIP", before ? "; " : "", peer->node,
			mk_family_name(family));
	else
		fprintf(out, "%snode '%s' (%s) is on no network of an uplink", before ? "; " : "",
			peer->node, mk_ip_format(&peer->link_ip, ip));
}

/* Count the nodes that get direct packets, in the family that has more, and list the others. NULL:
 * out of memory. */
static char *count_direct(const struct mk_own_node *node, size_t *direct, size_t *others)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	*direct = *others = 0;
	if (!out)
		return NULL;
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		const struct mk_own_family *own = &node->families[i];
		size_t count = 0;

		for (size_t j = 0; own->family->runs && j < own->plan.peer_count; j++)
			if (own->plan.peers[j].is_direct)
				count++;
			else
				put_node(out, &own->plan.peers[j], own->family->family,
					 (*others)++);
		*direct = count > *direct ? count : *direct;
	}
	if (fclose(out) != 0)
		free(mk_steal_ptr(text));
	return text;
}

void say_direct(struct mk_own_node *node)
{
	const struct mk_config *config = &node->core->config;
	cleanup_free char *text = NULL;
	size_t direct, others;

	text = count_direct(node, &direct, &others);
	node->direct_count = direct;
	if (!text || !sends_direct(config) || (!*text && !node->direct_said) ||
	    !mk_is_news(&node->direct_said, text))
		return;
	if (!others)
		mk_log_info("packets to all nodes are direct now");
	else if (config->routing == MK_ROUTING_DIRECT)
		mk_log_warn(
			"packets go in VXLAN although routing is Direct: %s; set routing to Auto if that is meant, or give the nodes addresses in one network",
			text);
	else
		mk_log_info("packets go in VXLAN: %s", text);
}
