// SPDX-License-Identifier: Apache-2.0
/* The configured ranges compared with the networks that this node has. */
#include <stdlib.h>
#include <string.h>

#include "agent/node/node_internal.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "host/networks.h"

static struct mk_cidr host_cidr(const struct mk_ip *ip)
{
	return (struct mk_cidr){ *ip, (uint8_t)mk_ip_bits(ip->family) };
}

static int add_node(struct mk_networks *networks, const struct mk_node_object *node,
		    struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++) {
		const struct mk_cidr cidr = host_cidr(&node->internal_ips[i]);

		if (cidr.ip.family != AF_UNSPEC)
			ret = mk_networks_add(networks, MK_NET_NODE, &cidr, node->name, err);
	}
	return ret;
}

static int add_cluster(struct mk_own_node *node, struct mk_networks *networks, struct mk_error *err)
{
	struct mk_cidr server;
	struct mk_ip ip;
	int ret = 0;

	mk_model_each(struct mk_node_object, of, node->core->model, MK_KIND_NODE)
		ret = ret ?: add_node(networks, of, err);
	if (ret < 0 || !mk_source_server(node->core->source, &ip))
		return ret;
	server = host_cidr(&ip);
	return mk_networks_add(networks, MK_NET_API_SERVER, &server, "", err);
}

/* Report, once per text, what does not stop the node. */
static void report(struct mk_own_node *node, enum mk_overlap overlap, const struct mk_error *why)
{
	if (overlap == MK_OVERLAP_NONE)
		mk_core_warn_over(node->core, MK_WARN_NETWORKS);
	else if (mk_core_warn(node->core, MK_WARN_NETWORKS, mk_error_text(why)))
		mk_log_warn("%s", mk_error_text(why));
}

/* A node at work goes on despite an overlap: taking its network away would be worse. Its programs
 * then accept packets from that network, too. */
static int read_networks(struct mk_own_node *node, const struct mk_ip vteps[MK_FAMILIES],
			 struct mk_networks *networks, struct mk_error *err)
{
	int ret = 0;

	mk_networks_release(networks);
	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++)
		if (vteps[i].family != AF_UNSPEC)
			ret = mk_networks_read(node->core->nl, vteps[i].family,
					       node->core->config.vxlan_iface_name, &vteps[i],
					       networks, err);
	return ret ?: add_cluster(node, networks, err);
}

int compare_networks(struct mk_own_node *node, const struct mk_ip vteps[MK_FAMILIES],
		     struct mk_error *err)
{
	const struct mk_config *config = &node->core->config;
	struct mk_networks *networks = &node->networks;
	struct mk_own_range ranges[2 * MK_FAMILIES];
	enum mk_overlap overlap = MK_OVERLAP_NONE;
	struct mk_error why = { 0 };
	size_t count = 0;
	int ret = read_networks(node, vteps, networks, err);

	for (size_t i = 0; i < MK_FAMILIES; i++) {
		if (vteps[i].family == AF_UNSPEC)
			continue;
		ranges[count++] = (struct mk_own_range){ "vtepCidr", config->vteps.of[i] };
		ranges[count++] = (struct mk_own_range){ "clusterCidr", config->cluster.of[i] };
	}
	if (ret == 0)
		overlap = mk_networks_judge(networks, ranges, count, &why);
	if (overlap == MK_OVERLAP_REFUSED && !mk_core_any(node->core, mk_family_is_loaded) &&
	    !networks->has_vtep) {
		*err = why;
		ret = -EINVAL;
	} else if (ret == 0) {
		report(node, overlap, &why);
		node->ranges_shared = overlap != MK_OVERLAP_NONE;
	}
	return ret;
}
