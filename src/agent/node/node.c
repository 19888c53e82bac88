// SPDX-License-Identifier: Apache-2.0
/* This node: from its object and its interfaces to devices, constants and loaded programs. */
#include <arpa/inet.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/node/node_internal.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/loop.h"
#include "host/sysctl.h"

void mk_own_node_release(struct mk_own_node *node)
{
	mk_datapath_free(node->load.datapath);
	drop_datapath(node);
	mk_overlay_plan_release(&node->plan);
	mk_networks_release(&node->networks);
	mk_model_free(node->remembered);
	free(node->service_ips);
	free(node->zone);
	free(node->local);
	free(node->uplinks_said);
	free(node->ports_said);
	free(node->left_out);
}

/* ---- the object ------------------------------------------------------------------------------ */

static int compute(const struct mk_own_node *node, const struct mk_node_object *object,
		   struct mk_addresses *addresses, struct mk_error *err)
{
	const struct mk_config *config = &node->core->config;
	int ret = mk_addresses_compute(mk_config_cluster(config, config->cluster.primary),
				       mk_config_vteps(config, config->cluster.primary),
				       pods_of(config, object), addresses, err);

	return ret < 0 ? mk_error_wrap(err, "clusterCidr, vtepCidr and the pod CIDR of Node '%s'",
				       object->name)
		       : 0;
}

int mk_own_node_check(const struct mk_own_node *node, struct mk_error *err)
{
	const struct mk_node_object *object =
		mk_model_node(node->core->model, node->core->config.node_name);
	struct mk_addresses addresses;

	if (!object || pods_of(&node->core->config, object)->ip.family == AF_UNSPEC)
		return 0;
	return compute(node, object, &addresses, err);
}

/* Report by Event and log what the operator must provide. Returns MK_WAIT. */
__attribute__((format(printf, 2, 3))) static int lacks(struct mk_own_node *node, const char *fmt,
						       ...)
{
	char text[256], message[sizeof(text) + 32];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	snprintf(message, sizeof(message), "monokube waits for %s", text);
	(void)mk_core_warn(node->core, MK_WARN_NODE, message);
	return mk_core_wait_for(node->core, "%s", text);
}

static int find_object(struct mk_own_node *node, const struct mk_node_object **object)
{
	struct mk_core *core = node->core;
	const char *name = core->config.node_name;

	*object = mk_model_node(core->listed ? core->model : node->remembered, name);
	if (!*object && !core->listed)
		return MK_WAIT;
	if (!*object)
		return lacks(node, "a Node object '%s' (--node-name)", name);
	if ((*object)->control_plane && !core->config.cp_nodes_deploy_allowed)
		return mk_core_wait_for(
			core,
			"isCPNodesDeployAllowed to be true: Node '%s' has the label of the control plane, so the agent makes nothing here",
			name);
	if (pods_of(&core->config, *object)->ip.family == AF_UNSPEC)
		return lacks(node, "an %s pod CIDR in the Node object '%s'",
			     mk_family_name(core->config.cluster.primary), name);
	if (underlay_of(&core->config, *object)->family == AF_UNSPEC)
		return lacks(node, "an %s InternalIP in the Node object '%s'",
			     mk_family_name(core->config.underlay_family), name);
	return 0;
}

/* Take what Services need to know about this node. If it changed, apply every Service again. */
static int take_object(struct mk_own_node *node, struct mk_error *err)
{
	const struct mk_node_object *object =
		mk_model_node(node->core->model, node->core->config.node_name);
	struct mk_ip *ips;
	size_t count;
	int ret = node_port_ips(&node->core->config, object, node->local, node->local_count, &ips,
				&count, err);

	if (ret < 0)
		return ret;
	if (mk_is_news(&node->zone, object->zone ? object->zone : "") ||
	    !mk_ips_equal(node->service_ips, node->service_ip_count, ips, count))
		node->view_changes++;
	free(node->service_ips);
	node->service_ips = ips;
	node->service_ip_count = count;
	return 0;
}

struct mk_service_view mk_own_node_view(const struct mk_own_node *node)
{
	const struct mk_config *config = &node->core->config;

	return (struct mk_service_view){
		.family = config->cluster.primary,
		.node_name = config->node_name,
		.zone = node->zone && *node->zone ? node->zone : NULL,
		.node_addresses = node->service_ips,
		.node_address_count = node->service_ip_count,
		.local_weight = config->local_endpoint_weight,
		.maglev_slots = config->maglev_slots,
		.masquerade_all = config->masquerade_all,
		.localhost_node_ports = localhost_node_ports(config),
	};
}

/* ---- the interfaces -------------------------------------------------------------------------- */

/* Compute the MTU of pods towards other nodes. */
static int pod_mtu(const struct mk_own_node *node, const struct mk_own_uplinks *uplinks,
		   const struct mk_ip *underlay, sa_family_t pods, uint32_t *mtu_bytes,
		   struct mk_error *err)
{
	const struct mk_link *uplink = &uplinks->uplink[0].link;
	const struct mk_overlay_path path = {
		.uplink_name = uplink->name,
		.uplink_mtu_bytes = uplink->mtu_bytes,
		.configured_bytes = node->core->config.mtu_bytes,
		.underlay = underlay->family,
		.ipv6 = pods == AF_INET6,
	};

	return mk_overlay_mtu(&path, mtu_bytes, err);
}

/* Returns how many were set. @again: log that another process changed them. */
static int apply_sysctls(const struct mk_own_node *node, bool again, struct mk_error *err)
{
	char ports[MK_RESERVED_RANGES_BYTES];
	const char *uplinks[MK_UPLINKS_MAX];
	struct mk_sysctl_wanted sysctls = {
		.ipv4 = node->addresses.gateway.family == AF_INET,
		.ipv6 = node->addresses.gateway.family == AF_INET6,
		.vxlan_name = node->core->config.vxlan_iface_name,
		.reserved_ports = ports,
		.state_dir = node->core->config.state_dir,
		.forward_ipv6 = node->uplinks.ask_host,
		.uplinks = uplinks,
		.uplink_count = node->uplinks.count,
		.again = again,
	};

	for (size_t i = 0; i < node->uplinks.count; i++)
		uplinks[i] = node->uplinks.uplink[i].link.name;
	mk_reserved_ranges(&node->core->config, ports);
	return mk_sysctls_apply(&sysctls, err);
}

int mk_own_node_check_sysctls(const struct mk_own_node *node, struct mk_error *err)
{
	return node->sysctls_done ? apply_sysctls(node, true, err) : 0;
}

static int make_devices(struct mk_own_node *node, struct mk_error *err)
{
	struct mk_device_wanted wanted = {
		.vxlan_name = node->core->config.vxlan_iface_name,
		.vxlan_port = node->core->config.vxlan_port,
		.underlay = node->internal_ip,
		.uplink_ifindex = node->uplinks.uplink[0].link.ifindex,
		.mtu_bytes = node->mtu_bytes,
	};
	struct mk_devices before = node->devices;
	int ret;

	wanted.addresses[mk_family_index(node->addresses.vtep.family)] = node->addresses;
	ret = mk_devices_ensure(node->core->nl, &wanted, &node->devices, err);
	if (ret < 0)
		return ret;
	if (before.overlay_ifindex) /* otherwise they are the first */
		node->core->repairs.count[MK_REPAIR_DEVICE] += (unsigned int)ret;
	if (!node->sysctls_done || memcmp(&before, &node->devices, sizeof(before)) != 0)
		ret = apply_sysctls(node, false, err);
	if (ret < 0)
		return ret;
	node->sysctls_done = true;
	return 0;
}

static int take_local(struct mk_own_node *node, struct mk_error *err)
{
	struct mk_ip *ips = NULL;
	size_t count;
	int ret = local_addresses(node->core->nl, node->core->config.cluster.primary, &ips, &count,
				  err);

	if (ret < 0)
		return ret;
	free(node->local);
	node->local = ips;
	node->local_count = count;
	if (!node->core->datapath)
		return 0;
	return mk_service_sync_set_local(mk_datapath_services(node->core->datapath), ips, count,
					 err);
}

/* ---- the constants --------------------------------------------------------------------------- */

static struct mk_node constants(const struct mk_own_node *node)
{
	const struct mk_addresses *own = &node->addresses;
	struct mk_cidr pods = mk_cidr_network(&own->pod_cidr);
	struct mk_cidr cluster = mk_cidr_network(
		mk_config_cluster(&node->core->config, node->core->config.cluster.primary));
	struct mk_cidr vteps = mk_cidr_network(
		mk_config_vteps(&node->core->config, node->core->config.cluster.primary));
	struct mk_ip pod_mask = mk_cidr_mask(&pods), cluster_mask = mk_cidr_mask(&cluster);
	struct mk_ip vtep_mask = mk_cidr_mask(&vteps);
	struct mk_node constants = {
		.vtep_addr = mk_ip_to_addr(&own->vtep),
		.gateway_addr = mk_ip_to_addr(&own->gateway),
		.vpod_addr = mk_ip_to_addr(&own->virtual_pod),
		.pod_net = mk_ip_to_addr(&pods.ip),
		.pod_mask = mk_ip_to_addr(&pod_mask),
		.cluster_net = mk_ip_to_addr(&cluster.ip),
		.cluster_mask = mk_ip_to_addr(&cluster_mask),
		.vtep_net = mk_ip_to_addr(&vteps.ip),
		.vtep_mask = mk_ip_to_addr(&vtep_mask),
		.nat_port_min = node->core->config.nat_port_min,
		.nat_port_max = node->core->config.nat_port_max,
		.maglev_slots = node->core->config.maglev_slots,
		.vxlan_port = htons(node->core->config.vxlan_port),
		.keeps_source = keeps_source(node),
	};

	memcpy(constants.gateway_mac, own->gateway_mac.byte, sizeof(constants.gateway_mac));
	memcpy(constants.vtep_mac, own->vtep_mac.byte, sizeof(constants.vtep_mac));
	return constants;
}

void mk_own_node_links(const struct mk_own_node *node, struct mk_datapath_links *links)
{
	*links = (struct mk_datapath_links){
		.set.node_addr = mk_ip_to_addr(&node->node_ip),
		.set.overlay_ifindex = (__u32)node->devices.overlay_ifindex,
		.set.host_ifindex = (__u32)node->devices.host_ifindex,
		.set.host_peer_ifindex = (__u32)node->devices.host_peer_ifindex,
		.set.overlay_mtu_bytes = node->mtu_bytes,
	};
	uplink_links(&node->uplinks, links);
}

static int load(struct mk_own_node *node, struct mk_error *err)
{
	struct mk_node wanted = constants(node);

	return load_programs(node, &wanted, err);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int read_host(struct mk_own_node *node, const struct mk_node_object *object,
		     struct mk_own_uplinks *uplinks, struct mk_error *err)
{
	struct mk_core *core = node->core;
	cleanup_free struct host_address *addresses = NULL;
	struct host_input input = { .nl = core->nl, .config = &core->config, .object = object };
	int ret = read_addresses(core->nl, &addresses, &input.address_count, err);

	input.addresses = addresses;
	if (ret == 0)
		ret = find_uplinks(&input, uplinks, err);
	return ret == MK_WAIT ? lacks(node, "%s", mk_error_text(err)) : ret;
}

static bool same_devices(const struct mk_own_uplinks *a, const struct mk_own_uplinks *b)
{
	if (a->count != b->count || a->ask_host != b->ask_host)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (a->uplink[i].link.ifindex != b->uplink[i].link.ifindex)
			return false;
	return true;
}

/* A Node may lack an InternalIP of the pods' family if the overlay sends by the other. */
static void take_node_ip(struct mk_own_node *node, const struct mk_node_object *object)
{
	sa_family_t family = node->core->config.cluster.primary;
	struct mk_ip ip = object->internal_ips[mk_family_index(family)];
	bool lacks_ip = ip.family == AF_UNSPEC;
	char text[MK_IP_STRLEN];

	if (lacks_ip)
		ip = node->uplinks.uplink[0].addr.ip;
	if (lacks_ip && !mk_ip_equal(&node->node_ip, &ip))
		mk_log_warn("the Node has no InternalIP of %s: its uplink's address is used ip=%s",
			    mk_family_name(family), mk_ip_format(&ip, text));
	node->node_ip = ip;
}

static int identify(struct mk_own_node *node, struct mk_error *err)
{
	const struct mk_node_object *object;
	struct mk_addresses addresses;
	struct mk_own_uplinks uplinks;
	uint32_t mtu_bytes;
	int ret = find_object(node, &object);

	if (ret == 0)
		ret = compute(node, object, &addresses, err);
	if (ret == 0)
		ret = compare_networks(node, &addresses, err);
	if (ret == 0)
		ret = read_host(node, object, &uplinks, err);
	if (ret == 0)
		ret = pod_mtu(node, &uplinks, underlay_of(&node->core->config, object),
			      addresses.gateway.family, &mtu_bytes, err);
	if (ret < 0 && node->core->listed)
		(void)mk_core_warn(node->core, MK_WARN_NODE, mk_error_text(err));
	if (ret != 0)
		return ret;
	if (node->core->listed)
		mk_core_warn_over(node->core, MK_WARN_NODE);
	if (addresses.gateway.family == AF_INET6 && !same_devices(&node->uplinks, &uplinks))
		node->sysctls_done = false; /* some are of the uplinks */
	node->uplinks = uplinks;
	if (!mk_cidr_equal(&node->addresses.pod_cidr, &addresses.pod_cidr))
		mk_core_check_soon(node->core, MK_UNSURE_ADDRESSES);
	node->addresses = addresses;
	node->internal_ip = *underlay_of(&node->core->config, object);
	take_node_ip(node, object);
	node->mtu_bytes = mtu_bytes;
	return 0;
}

/* In this order; one that fails or waits holds up those below it. */
static const struct {
	const char *part;
	int (*run)(struct mk_own_node *node, struct mk_error *err);
	bool early; /* also before the first list */
} steps[] = {
	{ .part = "node", .run = identify, .early = true },
	{ .part = "devices", .run = make_devices, .early = true },
	{ .part = "addresses", .run = take_local, .early = true },
	{ .part = "Node object", .run = take_object, .early = false },
	{ .part = "Node object", .run = say_node, .early = false },
	{ .part = "load", .run = load, .early = true },
	{ .part = "peers", .run = reconcile_peers, .early = false },
	{ .part = "node", .run = remember_node, .early = false },
};

static int run_steps(struct mk_own_node *node, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_ARRAY_SIZE(steps); i++) {
		if (!steps[i].early && !node->core->listed)
			continue;
		mk_loop_part(steps[i].part);
		ret = steps[i].run(node, err);
	}
	return ret;
}

int mk_own_node_reconcile(struct mk_own_node *node, struct mk_error *err)
{
	struct mk_core *core = node->core;
	int ret;

	if (!(core->unsure & MK_UNSURE_NODE))
		return core->datapath ? 0 : MK_WAIT;
	ret = run_steps(node, err);
	node->waits = ret == MK_WAIT;
	/* once loaded, a Node object that went away changes nothing */
	if (ret == 0 || (ret == MK_WAIT && core->datapath)) {
		core->unsure &= ~(unsigned int)MK_UNSURE_NODE;
		return 0;
	}
	return ret;
}
