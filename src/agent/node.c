// SPDX-License-Identifier: Apache-2.0
/* This node: from its object and its interfaces to devices, constants and loaded programs. */
#include <arpa/inet.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent_internal.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/loop.h"
#include "host/sysctl.h"
#include "overlay/node_names.h"

void agent_node_release(struct agent_node *node)
{
	free(node->service_ips);
	free(node->zone);
	free(node->local);
	free(node->uplinks_said);
	free(node->ports_said);
	*node = (struct agent_node){ 0 };
}

/* ---- the object ------------------------------------------------------------------------------ */

static int compute(const struct mk_agent *agent, const struct mk_node_object *object,
		   struct mk_addresses *addresses, struct mk_error *err)
{
	int ret = mk_addresses_compute(&agent->config.cluster_cidr, &agent->config.vtep_cidr,
				       &object->pod_cidr, addresses, err);

	return ret < 0 ? mk_error_wrap(err, "clusterCidr, vtepCidr and the pod CIDR of Node '%s'",
				       object->name)
		       : 0;
}

int agent_check_addresses(const struct mk_agent *agent, struct mk_error *err)
{
	const struct mk_node_object *object = mk_model_node(agent->model, agent->config.node_name);
	struct mk_addresses addresses;

	if (!object || object->pod_cidr.ip.family == AF_UNSPEC)
		return 0;
	return compute(agent, object, &addresses, err);
}

int agent_lacks(struct mk_agent *agent, const char *fmt, ...)
{
	char text[256], message[sizeof(text) + 32];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	snprintf(message, sizeof(message), "monokube waits for %s", text);
	(void)agent_warn(agent, MK_WARN_NODE, message);
	return agent_wait_for(agent, "%s", text);
}

static int find_object(struct mk_agent *agent, const struct mk_node_object **object)
{
	const char *name = agent->config.node_name;

	*object = mk_model_node(agent->listed ? agent->model : agent->remembered, name);
	if (!*object && !agent->listed)
		return MK_WAIT;
	if (!*object)
		return agent_lacks(agent, "a Node object '%s' (--node-name)", name);
	if ((*object)->control_plane && !agent->config.cp_nodes_deploy_allowed)
		return agent_wait_for(
			agent,
			"isCPNodesDeployAllowed to be true: Node '%s' has the label of the control plane, so the agent makes nothing here",
			name);
	if ((*object)->pod_cidr.ip.family == AF_UNSPEC)
		return agent_lacks(agent, "an IPv4 pod CIDR in the Node object '%s'", name);
	if ((*object)->internal_ip.family == AF_UNSPEC)
		return agent_lacks(agent, "an IPv4 InternalIP in the Node object '%s'", name);
	return 0;
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Take what Services need to know about this node. If it changed, apply every Service again. */
static int take_object(struct mk_agent *agent, struct mk_error *err)
{
	const struct mk_node_object *object = mk_model_node(agent->model, agent->config.node_name);
	struct agent_node *node = &agent->node;
	cleanup_free struct mk_ip *ips = NULL;
	char *zone = NULL;
	size_t count;
	int ret = agent_node_port_ips(&agent->config, object, node->local, node->local_count, &ips,
				      &count, err);

	if (ret < 0)
		return ret;
	if (mk_ips_equal(node->service_ips, node->service_ip_count, ips, count) &&
	    same_text(node->zone, object->zone))
		return 0;
	if (object->zone)
		zone = strdup(object->zone);
	if (object->zone && !zone)
		return mk_error_errno(err, ENOMEM, "cannot keep Node '%s'", object->name);
	free(node->service_ips);
	free(node->zone);
	node->service_ips = mk_steal_ptr(ips);
	node->service_ip_count = count;
	node->zone = zone;
	agent_all_services_dirty(agent);
	return 0;
}

/* ---- the interfaces -------------------------------------------------------------------------- */

/* Returns the configured MTU, or the uplink's less VXLAN's overhead. */
static uint32_t pod_mtu(const struct mk_agent *agent)
{
	const struct mk_link *uplink = &agent->node.uplinks.uplink[0].link;
	uint32_t fits = uplink->mtu_bytes > MK_VXLAN_OVERHEAD_BYTES
				? uplink->mtu_bytes - MK_VXLAN_OVERHEAD_BYTES
				: uplink->mtu_bytes;

	return agent->config.mtu_bytes ? agent->config.mtu_bytes : fits;
}

int agent_apply_sysctls(const struct mk_agent *agent, bool again, struct mk_error *err)
{
	char ports[MK_RESERVED_RANGES_BYTES];
	struct mk_sysctl_wanted sysctls = {
		.vxlan_name = agent->config.vxlan_iface_name,
		.reserved_ports = ports,
		.state_dir = agent->config.state_dir,
		.again = again,
	};

	mk_reserved_ranges(&agent->config, ports);
	return mk_sysctls_apply(&sysctls, err);
}

static int make_devices(struct mk_agent *agent, struct mk_error *err)
{
	struct agent_node *node = &agent->node;
	struct mk_device_wanted wanted = {
		.vxlan_name = agent->config.vxlan_iface_name,
		.vxlan_port = agent->config.vxlan_port,
		.underlay = node->internal_ip,
		.uplink_ifindex = node->uplinks.uplink[0].link.ifindex,
		.mtu_bytes = node->mtu_bytes,
		.addresses = node->addresses,
	};
	struct mk_devices before = node->devices;
	int ret = mk_devices_ensure(agent->nl, &wanted, &node->devices, err);

	if (ret < 0)
		return ret;
	if (before.overlay_ifindex) /* otherwise they are the first */
		agent->repairs.count[MK_REPAIR_DEVICE] += (unsigned int)ret;
	if (!agent->sysctls_done || memcmp(&before, &node->devices, sizeof(before)) != 0)
		ret = agent_apply_sysctls(agent, false, err);
	if (ret < 0)
		return ret;
	agent->sysctls_done = true;
	return 0;
}

/* ---- the constants --------------------------------------------------------------------------- */

static struct mk_node constants(const struct mk_agent *agent)
{
	const struct agent_node *node = &agent->node;
	const struct mk_addresses *own = &node->addresses;
	struct mk_cidr pods = mk_cidr_network(&own->pod_cidr);
	struct mk_cidr cluster = mk_cidr_network(&agent->config.cluster_cidr);
	struct mk_cidr vteps = mk_cidr_network(&agent->config.vtep_cidr);
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
		.nat_port_min = agent->config.nat_port_min,
		.nat_port_max = agent->config.nat_port_max,
		.maglev_slots = agent->config.maglev_slots,
		.vxlan_port = htons(agent->config.vxlan_port),
	};

	memcpy(constants.gateway_mac, own->gateway_mac.byte, sizeof(constants.gateway_mac));
	memcpy(constants.vtep_mac, own->vtep_mac.byte, sizeof(constants.vtep_mac));
	return constants;
}

void agent_links(const struct agent_node *node, struct mk_datapath_links *links)
{
	*links = (struct mk_datapath_links){
		.set.node_addr = mk_ip_to_addr(&node->internal_ip),
		.set.overlay_ifindex = (__u32)node->devices.overlay_ifindex,
		.set.host_ifindex = (__u32)node->devices.host_ifindex,
		.set.host_peer_ifindex = (__u32)node->devices.host_peer_ifindex,
		.set.overlay_mtu_bytes = node->mtu_bytes,
	};
	agent_uplink_links(&node->uplinks, links);
}

static int load(struct mk_agent *agent, struct mk_error *err)
{
	struct mk_node node = constants(agent);

	return agent_load(agent, &node, err);
}

/* ---- the other nodes ------------------------------------------------------------------------- */

/* "node 'a': reason; node 'b': reason", empty: none; NULL: out of memory. */
static char *left_out_text(const struct mk_overlay_plan *plan, bool only_wrong)
{
	const char *separator = "";
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		return NULL;
	for (size_t i = 0; i < plan->left_out_count; i++) {
		const struct mk_overlay_left_out *left = &plan->left_out[i];

		if (only_wrong && !left->wrong)
			continue;
		fprintf(stream, "%snode '%s': %s", separator, left->node, left->reason);
		separator = "; ";
	}
	if (fclose(stream) != 0)
		free(mk_steal_ptr(text));
	return text;
}

/* Log changes only, not each Node's heartbeat. A new Node lacks something for a moment, as every
 * other node sees: no Event for that. */
static void say_left_out(struct mk_agent *agent)
{
	cleanup_free char *text = left_out_text(&agent->plan, false);
	cleanup_free char *wrong = left_out_text(&agent->plan, true);

	if (!text || !wrong || same_text(text, agent->left_out ? agent->left_out : ""))
		return;
	if (*text)
		mk_log_warn("left out of the overlay: %s", text);
	if (*wrong)
		(void)agent_warn(agent, MK_WARN_NODES_LEFT_OUT, wrong);
	else
		agent_warn_over(agent, MK_WARN_NODES_LEFT_OUT);
	free(agent->left_out);
	agent->left_out = mk_steal_ptr(text);
}

/* Only the command line reads the file: traffic does not wait for it. */
static void write_names(const struct mk_agent *agent, const struct mk_overlay_view *view)
{
	struct mk_error err = { 0 };

	if (mk_node_names_write(agent->config.state_dir, view, &agent->plan, &err) < 0)
		mk_log_error("cannot store the Nodes' names: %s", mk_error_text(&err));
}

static int plan_peers(struct mk_agent *agent, struct mk_error *err)
{
	struct mk_overlay_view view = {
		.own_node = agent->config.node_name,
		.cluster_cidr = agent->config.cluster_cidr,
		.vtep_cidr = agent->config.vtep_cidr,
		.own_pod_cidr = agent->node.addresses.pod_cidr,
	};
	int ret;

	mk_overlay_plan_release(&agent->plan);
	ret = mk_overlay_plan_make(agent->model, &view, &agent->plan, err);
	if (ret < 0)
		return ret;
	write_names(agent, &view);
	say_left_out(agent);
	mk_overlay_set_node(agent->overlay, &agent->node.devices, &agent->node.addresses);
	agent->overlay_dirty = true;
	return mk_overlay_set_peers(agent->overlay, &agent->plan, err);
}

static int take_local(struct mk_agent *agent, struct mk_error *err)
{
	struct agent_node *node = &agent->node;
	struct mk_ip *ips = NULL;
	size_t count;
	int ret = agent_local_addresses(agent->nl, &ips, &count, err);

	if (ret < 0)
		return ret;
	free(node->local);
	node->local = ips;
	node->local_count = count;
	if (!agent->datapath)
		return 0;
	return mk_service_sync_set_local(mk_datapath_services(agent->datapath), ips, count, err);
}

static int fill_routes(struct mk_agent *agent, struct mk_error *err)
{
	struct mk_routes_input input = {
		.config = &agent->config,
		.own = &agent->node.addresses,
		.plan = &agent->plan,
		.local = agent->node.local,
		.local_count = agent->node.local_count,
		.service_ranges = agent->service_ranges,
		.service_range_count = agent->service_range_count,
	};
	cleanup_free struct mk_route_entry *entries = NULL;
	size_t count;
	int ret = agent_routes(&input, &entries, &count, err);

	if (ret < 0)
		return ret;
	return mk_datapath_sync_routes(agent->datapath, entries, count, agent->complete,
				       &agent->writes, err);
}

/* Add the IPv4 addresses of the Node of @peer. */
static size_t add_peer_addresses(const struct mk_agent *agent, const struct mk_overlay_peer *peer,
				 struct mk_peer_entry *entries)
{
	const struct mk_node_object *object = mk_model_node(agent->model, peer->node);
	size_t count = 0;

	for (size_t i = 0; object && i < object->address_count; i++) {
		struct mk_peer_entry *entry = &entries[count];

		if (object->addresses[i].family != AF_INET)
			continue;
		*entry = (struct mk_peer_entry){ .addr = mk_ip_to_addr(&object->addresses[i]) };
		memcpy(entry->peer.vtep_mac, peer->vtep_mac.byte, sizeof(entry->peer.vtep_mac));
		count++;
	}
	return count;
}

/* Fill map `peers`: who may send overlay packets. */
static int fill_peers(struct mk_agent *agent, struct mk_error *err)
{
	cleanup_free struct mk_peer_entry *entries = NULL;
	const struct mk_overlay_plan *plan = &agent->plan;
	size_t room = 1, count = 0;

	for (size_t i = 0; i < plan->peer_count; i++) {
		const struct mk_node_object *object =
			mk_model_node(agent->model, plan->peers[i].node);

		room += object ? object->address_count : 0;
	}
	entries = calloc(room, sizeof(*entries));
	if (!entries)
		return mk_error_errno(err, ENOMEM, "cannot list the nodes' addresses");
	for (size_t i = 0; i < plan->peer_count; i++)
		count += add_peer_addresses(agent, &plan->peers[i], &entries[count]);
	return mk_datapath_sync_peers(agent->datapath, entries, count, agent->complete,
				      &agent->writes, err);
}

static int tell_ranges_shared(struct mk_agent *agent, struct mk_error *err)
{
	int ret = agent_sync_runtime(agent, err);

	agent->writes += ret > 0;
	return ret < 0 ? ret : 0;
}

/* Take the ranges of Service addresses: one route per range instead of one per Service. */
static int take_service_ranges(struct mk_agent *agent, struct mk_error *err)
{
	struct mk_ranges_input input = {
		.config = &agent->config,
		.plan = &agent->plan,
		.internal_ip = &agent->node.internal_ip,
		.networks = &agent->networks,
		.ranges = agent->service_cidrs,
		.count = agent->service_cidr_count,
	};
	struct mk_error why = { 0 };
	int left_out = agent_usable_ranges(&input, agent->service_ranges, &why);

	agent->service_range_count = agent->service_cidr_count - (size_t)left_out;
	if (left_out == 0)
		agent_warn_over(agent, MK_WARN_SERVICE_CIDR);
	else if (agent_warn(agent, MK_WARN_SERVICE_CIDR, mk_error_text(&why)))
		mk_log_warn("%s", mk_error_text(&why));
	return mk_overlay_set_service_ranges(agent->overlay, agent->service_ranges,
					     agent->service_range_count, err);
}

/* ---- the step -------------------------------------------------------------------------------- */

static int identify(struct mk_agent *agent, struct mk_error *err)
{
	struct agent_node *node = &agent->node;
	const struct mk_node_object *object;
	struct mk_addresses addresses;
	struct agent_uplinks uplinks;
	int ret = find_object(agent, &object);

	if (ret == 0)
		ret = compute(agent, object, &addresses, err);
	if (ret == 0)
		ret = agent_check_networks(agent, &addresses, err);
	if (ret == 0)
		ret = agent_find_uplinks(agent, object, &uplinks, err);
	if (ret != 0)
		return ret;
	node->uplinks = uplinks;
	if (!mk_cidr_equal(&node->addresses.pod_cidr, &addresses.pod_cidr)) {
		agent->conf_installed = false;
		agent_addresses_soon(agent);
	}
	node->addresses = addresses;
	node->internal_ip = object->internal_ip;
	if (node->mtu_bytes != pod_mtu(agent))
		agent->conf_installed = false;
	node->mtu_bytes = pod_mtu(agent);
	return 0;
}

int agent_step_node_early(struct mk_agent *agent, struct mk_error *err)
{
	struct mk_node node;
	int ret = identify(agent, err);

	if (ret == 0)
		ret = make_devices(agent, err);
	if (ret == 0)
		ret = take_local(agent, err);
	if (ret != 0)
		return ret;
	node = constants(agent);
	return agent_adopt(agent, &node, err);
}

int agent_step_node(struct mk_agent *agent, struct mk_error *err)
{
	int ret;

	if (!agent->node_dirty)
		return agent->datapath ? 0 : MK_WAIT;
	ret = identify(agent, err);
	if (ret == 0)
		agent_warn_over(agent, MK_WARN_NODE);
	else if (ret < 0)
		(void)agent_warn(agent, MK_WARN_NODE, mk_error_text(err));
	if (ret == 0) {
		mk_loop_part("devices");
		ret = make_devices(agent, err);
	}
	if (ret == 0)
		ret = take_local(agent, err);
	if (ret == 0) {
		mk_loop_part("Node object");
		ret = take_object(agent, err);
	}
	if (ret == 0)
		agent_say_node(&agent->node);
	if (ret == 0) {
		mk_loop_part("load");
		ret = load(agent, err);
	}
	if (ret == 0) {
		mk_loop_part("peers");
		ret = plan_peers(agent, err);
	}
	if (ret == 0)
		ret = take_service_ranges(agent, err);
	if (ret == 0)
		ret = fill_routes(agent, err);
	if (ret == 0)
		ret = fill_peers(agent, err);
	if (ret == 0)
		ret = tell_ranges_shared(agent, err);
	if (ret == 0)
		agent_remember_node(agent, mk_model_node(agent->model, agent->config.node_name));
	agent->node_waits = ret == MK_WAIT;
	/* once loaded, a Node object that went away changes nothing */
	if (ret == 0 || (ret == MK_WAIT && agent->datapath)) {
		agent->node_dirty = false;
		return 0;
	}
	return ret;
}
