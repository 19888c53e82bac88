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
#include "datapath/maps/pin.h"
#include "host/sysctl.h"

void mk_own_node_init(struct mk_own_node *node, struct mk_core *core)
{
	node->core = core;
	node->link_sockets = MK_PROBE_SOCKETS_CLOSED;
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		node->families[i].node = node;
		node->families[i].family = &core->families[i];
	}
}

void mk_own_node_release(struct mk_own_node *node)
{
	for (size_t i = 0; i < MK_FAMILIES; i++)
		release_family(&node->families[i]);
	mk_networks_release(&node->networks);
	mk_model_free(node->remembered);
	free(node->zone);
	free(node->uplinks_said);
	free(node->left_out);
	free(node->key_said);
	free(node->clear_said);
	free(node->direct_said);
	mk_probe_close(&node->link_sockets);
}

/* The only family of a Node decides, if it lacks the primary one. */
const struct mk_own_family *mk_own_node_primary(const struct mk_own_node *node)
{
	unsigned primary = mk_family_index(node->core->config.cluster.primary);

	return &node->families[node->core->families[!primary].runs &&
					       !node->core->families[primary].runs
				       ? !primary
				       : primary];
}

/* ---- the object ------------------------------------------------------------------------------ */

/* What the object and the host say. */
struct identity {
	bool runs[MK_FAMILIES];
	struct mk_error unfit; /* why a family does not run that the Node has; code 0: none */
	struct mk_addresses addresses[MK_FAMILIES];
	struct mk_own_uplinks uplinks;
	uint32_t mtu_bytes, pod_mtu_bytes; /* as in struct mk_own_node */
};

static int compute_family(const struct mk_own_node *node, const struct mk_node_object *object,
			  sa_family_t family, struct mk_addresses *addresses, struct mk_error *err)
{
	const struct mk_config *config = &node->core->config;
	int ret = mk_addresses_compute(mk_config_cluster(config, family),
				       mk_config_vteps(config, family), pods_of(object, family),
				       addresses, err);

	return ret < 0 ? mk_error_wrap(err, "clusterCidr, vtepCidr and the pod CIDR of Node '%s'",
				       object->name)
		       : 0;
}

/* Without IPv6 in its kernel, a node of both families runs IPv4. A node of IPv6 alone cannot run:
 * its devices report the kernel. */
static bool kernel_lacks(const struct mk_own_node *node, const struct mk_node_object *object,
			 sa_family_t family)
{
	return family == AF_INET6 && mk_config_has(&node->core->config, AF_INET) &&
	       pods_of(object, AF_INET)->ip.family == AF_INET && !mk_kernel_has_ipv6();
}

/* Does the Node have @family, which is configured, and the kernel, too? */
static bool has_family(const struct mk_own_node *node, const struct mk_node_object *object,
		       sa_family_t family)
{
	return mk_config_has(&node->core->config, family) &&
	       pods_of(object, family)->ip.family == family && !kernel_lacks(node, object, family);
}

/* Compute the addresses of each family that the node has. If the ranges of one do not fit, the
 * other one runs alone. But a family at work is not taken away: the agent refuses to start. */
static int compute(const struct mk_own_node *node, const struct mk_node_object *object,
		   struct identity *found, struct mk_error *err)
{
	unsigned primary = mk_family_index(node->core->config.cluster.primary);
	bool is_at_work = false;
	int unfit = 0;

	for (size_t i = 0; i < MK_FAMILIES; i++) {
		const struct mk_family *family = &node->core->families[i];
		struct mk_error *why = unfit ? NULL : &found->unfit;

		if (!has_family(node, object, family->family))
			continue;
		found->runs[i] = compute_family(node, object, family->family, &found->addresses[i],
						why) == 0;
		if (found->runs[i])
			continue;
		unfit = -EINVAL;
		is_at_work |= mk_pin_has_programs(family->dir);
	}
	if (unfit && (is_at_work || (!found->runs[0] && !found->runs[1]))) {
		*err = found->unfit;
		return unfit;
	}
	if (found->runs[0] && found->runs[1])
		mk_addresses_share_macs(&found->addresses[!primary], &found->addresses[primary]);
	return 0;
}

int mk_own_node_check(const struct mk_own_node *node, struct mk_error *err)
{
	const struct mk_node_object *object =
		mk_model_node(node->core->model, node->core->config.node_name);
	struct identity found = { 0 };

	return object ? compute(node, object, &found, err) : 0;
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

/* Returns the configured family that @object lacks; AF_UNSPEC: none. */
static sa_family_t missing_family(const struct mk_own_node *node,
				  const struct mk_node_object *object, sa_family_t after)
{
	for (size_t i = after == AF_UNSPEC ? 0 : mk_family_index(after) + 1; i < MK_FAMILIES; i++) {
		sa_family_t family = node->core->families[i].family;

		if (mk_config_has(&node->core->config, family) &&
		    pods_of(object, family)->ip.family == AF_UNSPEC)
			return family;
	}
	return AF_UNSPEC;
}

/* The node runs with the other family. Kubernetes gives an existing Node no second pod CIDR. */
static void say_missing(struct mk_own_node *node, const struct mk_node_object *object,
			const struct identity *found)
{
	sa_family_t missing = missing_family(node, object, AF_UNSPEC);
	char text[sizeof(found->unfit.text) + 64] = "";

	if (missing != AF_UNSPEC)
		snprintf(
			text, sizeof(text),
			"the Node object '%s' has no %s pod CIDR: pods here get no %s address; delete the Node and let its kubelet register it again",
			node->core->config.node_name, mk_family_name(missing),
			mk_family_name(missing));
	else if (mk_config_has(&node->core->config, AF_INET6) &&
		 kernel_lacks(node, object, AF_INET6))
		snprintf(
			text, sizeof(text),
			"the kernel runs without IPv6: pods here get no IPv6 address; boot it without ipv6.disable=1");
	else if (found->unfit.code)
		snprintf(text, sizeof(text), "pods here get no %s address: %s",
			 mk_family_name(node->core->families[found->runs[0]].family),
			 mk_error_text(&found->unfit));
	if (!*text)
		mk_core_warn_over(node->core, MK_WARN_FAMILY);
	else if (mk_core_warn(node->core, MK_WARN_FAMILY, text))
		mk_log_warn("%s", text);
}

/* Returns MK_WAIT if the Node has none of the configured families. */
static int check_families(struct mk_own_node *node, const struct mk_node_object *object)
{
	const struct mk_config *config = &node->core->config;
	sa_family_t missing = missing_family(node, object, AF_UNSPEC);
	bool both = mk_config_has(config, AF_INET) && mk_config_has(config, AF_INET6);

	if (missing != AF_UNSPEC && (!both || missing_family(node, object, missing) != AF_UNSPEC))
		return lacks(node, "an %s pod CIDR in the Node object '%s'",
			     both ? "IPv4 or IPv6" : mk_family_name(missing), object->name);
	return 0;
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
	if (check_families(node, *object) != 0)
		return MK_WAIT;
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
	bool changed = mk_is_news(&node->zone, object->zone ? object->zone : "");
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++)
		if (node->core->families[i].runs)
			ret = take_service_ips(&node->families[i], object, &changed, err);
	node->view_changes += changed;
	return ret;
}

/* ---- the interfaces -------------------------------------------------------------------------- */

/* Compute the MTU of the overlay, and that of pods towards other nodes. */
static int compute_mtu(const struct mk_own_node *node, const struct mk_ip *underlay,
		       struct identity *found, struct mk_error *err)
{
	const struct mk_config *config = &node->core->config;
	const struct mk_own_uplinks *uplinks = &found->uplinks;
	const struct mk_link *uplink = &uplinks->uplink[0].link;
	const struct mk_overlay_path path = {
		.uplink_name = uplink->name,
		.uplink_mtu_bytes = uplink->mtu_bytes,
		.configured_bytes = node->core->config.mtu_bytes,
		.underlay = underlay->family,
		.is_encrypted = node->core->config.encryption != MK_ENCRYPTION_NONE,
		.ipv6 = found->runs[mk_family_index(AF_INET6)],
	};
	int ret = mk_overlay_mtu(&path, &found->mtu_bytes, err);

	found->pod_mtu_bytes = found->mtu_bytes;
	if (ret == 0 && config->routing == MK_ROUTING_DIRECT && !path.configured_bytes)
		found->pod_mtu_bytes = uplink->mtu_bytes;
	return ret;
}

/* Returns how many were set. @again: log that another process changed them. */
static int apply_sysctls(const struct mk_own_node *node, bool again, struct mk_error *err)
{
	char ports[MK_RESERVED_RANGES_BYTES];
	const char *uplinks[MK_UPLINKS_MAX];
	struct mk_sysctl_wanted sysctls = {
		.ipv4 = node->core->families[mk_family_index(AF_INET)].runs,
		.ipv6 = node->core->families[mk_family_index(AF_INET6)].runs,
		.vxlan_name = node->core->config.vxlan_iface_name,
		.sfc_name = node->core->config.sfc_iface_name,
		.peer_name = node->core->config.cluster_name[0] ? node->core->config.peer_iface_name
								: NULL,
		.wg_name = node->devices.wg_ifindex ? MK_WG_NAME : NULL,
		.wg_peer_name = node->devices.wg_peer_ifindex ? MK_WG_PEER_NAME : NULL,
		.reserved_ports = ports,
		.state_dir = node->core->config.state_dir,
		.forward_ipv6 = true,
		.is_direct = sends_direct(&node->core->config),
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

/* Read the key of WireGuard if this node shall have it. Returns 1 if so. Over IPv6, the kernel
 * would send carriers by the uplink, unencrypted, as long as no route leads to the device. */
static int want_wireguard(const struct mk_own_node *node, struct mk_wireguard_wanted *wanted,
			  struct mk_error *err)
{
	const struct mk_config *config = &node->core->config;
	int ret;

	if (!config->wireguard_port || node->internal_ip.family != AF_INET ||
	    (!config->cluster_name[0] && config->encryption == MK_ENCRYPTION_NONE))
		return 0;
	wanted->port = config->wireguard_port;
	ret = mk_wireguard_key(config->state_dir, wanted->private_key, err);
	return ret < 0 ? ret : 1;
}

static struct mk_device_wanted devices_wanted(const struct mk_own_node *node)
{
	const struct mk_config *config = &node->core->config;
	const bool has_clusters = config->cluster_name[0];
	struct mk_device_wanted wanted = {
		.vxlan_name = config->vxlan_iface_name,
		.sfc_name = config->sfc_iface_name,
		.peer_name = has_clusters ? config->peer_iface_name : NULL,
		.former_peer_name = has_clusters ? NULL : config->peer_iface_name,
		.vxlan_port = config->vxlan_port,
		.encryption = config->encryption,
		.underlay = node->internal_ip,
		.uplink_ifindex = node->uplinks.uplink[0].link.ifindex,
		.mtu_bytes = node->mtu_bytes,
	};

	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (node->core->families[i].runs)
			wanted.addresses[i] = node->families[i].addresses;
	return wanted;
}

static int make_devices(struct mk_own_node *node, struct mk_error *err)
{
	struct mk_device_wanted wanted = devices_wanted(node);
	struct mk_devices before = node->devices;
	struct mk_wireguard_wanted wireguard = { 0 };
	int ret = want_wireguard(node, &wireguard, err), wrong;

	if (ret < 0)
		return ret;
	if (ret > 0)
		wanted.wireguard = &wireguard;
	wrong = ret = mk_devices_ensure(node->core->nl, &wanted, &node->devices, err);
	explicit_bzero(&wireguard, sizeof(wireguard));
	if (ret < 0)
		return ret;
	if (before.overlay_ifindex) /* otherwise they are the first */
		node->core->repairs.count[MK_REPAIR_DEVICE] += (unsigned int)wrong;
	/* a device whose MTU was too small for IPv6 has lost its settings of IPv6, too */
	if (!node->sysctls_done || wrong > 0 ||
	    memcmp(&before, &node->devices, sizeof(before)) != 0)
		ret = apply_sysctls(node, false, err);
	if (ret < 0)
		return ret;
	node->sysctls_done = true;
	return 0;
}

/* Run @step for each family of this node, until one of them waits or fails. */
static int each_family(struct mk_own_node *node,
		       int (*step)(struct mk_own_family *own, struct mk_error *err),
		       struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++)
		if (node->core->families[i].runs)
			ret = step(&node->families[i], err);
	return ret;
}

static int take_locals(struct mk_own_node *node, struct mk_error *err)
{
	return each_family(node, take_local, err);
}

/* One after the other: a load takes a CPU, and much memory, for seconds. */
static int load(struct mk_own_node *node, struct mk_error *err)
{
	return each_family(node, load_family, err);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int read_host(struct mk_own_node *node, const struct mk_node_object *object,
		     struct identity *found, struct mk_error *err)
{
	struct mk_core *core = node->core;
	cleanup_free struct host_address *addresses = NULL;
	struct host_input input = { .nl = core->nl, .config = &core->config, .object = object };
	int ret = read_addresses(core->nl, &addresses, &input.address_count, err);

	input.addresses = addresses;
	if (ret == 0)
		ret = find_uplinks(&input, found->runs, &found->uplinks, err);
	return ret == MK_WAIT ? lacks(node, "%s", mk_error_text(err)) : ret;
}

static bool same_devices(const struct mk_own_uplinks *a, const struct mk_own_uplinks *b)
{
	if (a->count != b->count || memcmp(a->ask_host, b->ask_host, sizeof(a->ask_host)) != 0)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (a->uplink[i].link.ifindex != b->uplink[i].link.ifindex)
			return false;
	return true;
}

static void say_no_internal_ip(struct mk_own_family *own, const struct mk_ip *uplinks)
{
	const char *family = mk_family_name(own->family->family);
	bool none = uplinks->family == AF_UNSPEC;
	char text[MK_IP_STRLEN];

	if (none && !own->has_no_ip)
		mk_log_warn(
			"neither the Node nor its uplink has an address of %s: nothing leaves the cluster masqueraded by %s until the uplink gets one",
			family, family);
	else if (!none && !mk_ip_equal(&own->node_ip, uplinks))
		mk_log_warn("the Node has no InternalIP of %s: its uplink's address is used ip=%s",
			    family, mk_ip_format(uplinks, text));
}

/* A Node may lack an InternalIP of a family if the overlay sends by the other. */
static void take_node_ip(struct mk_own_family *own, const struct mk_node_object *object)
{
	unsigned index = mk_family_index(own->family->family);
	struct mk_ip ip = object->internal_ips[index];

	if (ip.family == AF_UNSPEC) {
		ip = own->node->uplinks.uplink[0].source[index].addr.ip;
		say_no_internal_ip(own, &ip);
	}
	own->node_ip = ip;
	own->has_no_ip = ip.family == AF_UNSPEC;
}

static void take_family(struct mk_own_family *own, const struct mk_node_object *object,
			const struct identity *found)
{
	unsigned index = mk_family_index(own->family->family);

	own->family->runs = found->runs[index];
	if (!found->runs[index]) {
		drop_datapath(own->family);
		mk_overlay_forget_family(own->family->core->overlay, own->family->family);
		return;
	}
	if (!mk_cidr_equal(&own->addresses.pod_cidr, &found->addresses[index].pod_cidr))
		mk_core_check_soon(own->family->core, MK_UNSURE_ADDRESSES);
	own->addresses = found->addresses[index];
	take_node_ip(own, object);
}

static void take_identity(struct mk_own_node *node, const struct mk_node_object *object,
			  const struct identity *found)
{
	if (!same_devices(&node->uplinks, &found->uplinks))
		node->sysctls_done = false; /* some are of the uplinks */
	node->uplinks = found->uplinks;
	node->internal_ip = *underlay_of(&node->core->config, object);
	node->mtu_bytes = found->mtu_bytes;
	node->pod_mtu_bytes = found->pod_mtu_bytes;
	for (size_t i = 0; i < MK_FAMILIES; i++)
		take_family(&node->families[i], object, found);
}

static int look(struct mk_own_node *node, const struct mk_node_object **object,
		struct identity *found, struct mk_error *err)
{
	struct mk_ip vteps[MK_FAMILIES];
	int ret = find_object(node, object);

	if (ret == 0)
		ret = compute(node, *object, found, err);
	if (ret == 0 && node->core->listed)
		say_missing(node, *object, found);
	for (size_t i = 0; i < MK_FAMILIES; i++)
		vteps[i] = found->addresses[i].vtep;
	if (ret == 0)
		ret = compare_networks(node, vteps, err);
	if (ret == 0)
		ret = read_host(node, *object, found, err);
	if (ret == 0)
		ret = compute_mtu(node, underlay_of(&node->core->config, *object), found, err);
	return ret;
}

static int identify(struct mk_own_node *node, struct mk_error *err)
{
	const struct mk_node_object *object;
	struct identity found = { 0 };
	int ret = look(node, &object, &found, err);

	if (ret < 0 && node->core->listed)
		(void)mk_core_warn(node->core, MK_WARN_NODE, mk_error_text(err));
	if (ret != 0)
		return ret;
	if (node->core->listed)
		mk_core_warn_over(node->core, MK_WARN_NODE);
	take_identity(node, object, &found);
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
	{ .part = "addresses", .run = take_locals, .early = true },
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
		return mk_core_any(core, mk_family_is_loaded) ? 0 : MK_WAIT;
	ret = run_steps(node, err);
	node->waits = ret == MK_WAIT;
	/* once loaded, a Node object that went away changes nothing */
	if (ret == 0 || (ret == MK_WAIT && mk_core_any(core, mk_family_is_loaded))) {
		core->unsure &= ~(unsigned int)MK_UNSURE_NODE;
		return 0;
	}
	return ret;
}
