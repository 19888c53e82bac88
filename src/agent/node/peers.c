// SPDX-License-Identifier: Apache-2.0
/* The other nodes and the ranges of Services: overlay, map `routes`, map `peers`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/node/node_internal.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "overlay/node_names.h"

static void put_left_out(struct node_list *list, const struct mk_overlay_plan *plan,
			 bool only_wrong)
{
	for (size_t i = 0; i < plan->left_out_count; i++) {
		const struct mk_overlay_left_out *left = &plan->left_out[i];
		FILE *out = left->wrong || !only_wrong ? node_list_add(list) : NULL;

		if (out)
			fprintf(out, "node '%s': %s", left->node, left->reason);
	}
}

/* "node 'a': reason; node 'b': reason", empty: none; NULL: out of memory. */
static char *left_out_text(const struct mk_own_node *node, bool only_wrong)
{
	struct node_list list;

	node_list_begin(&list);
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (node->core->families[i].runs)
			put_left_out(&list, &node->families[i].plan, only_wrong);
	return node_list_end(&list, only_wrong ? " (`monokube check` names all)" : "");
}

/* Log changes only, not each Node's heartbeat. A new Node lacks something for a moment, as every
 * other node sees: no Event for that. */
static void say_left_out(struct mk_own_node *node)
{
	cleanup_free char *text = left_out_text(node, false);
	cleanup_free char *wrong = left_out_text(node, true);

	if (!text || !wrong || (!*text && !node->left_out) || !mk_is_news(&node->left_out, text))
		return;
	if (*text)
		mk_log_warn("left out of the overlay: %s", text);
	if (*wrong)
		(void)mk_core_warn(node->core, MK_WARN_NODES_LEFT_OUT, wrong);
	else
		mk_core_warn_over(node->core, MK_WARN_NODES_LEFT_OUT);
}

/* ---- encryption ------------------------------------------------------------------------------ */

static void see_clear(void *ctx, const char *name, enum mk_overlay_lack lack)
{
	static const char *const texts[] = {
		[MK_OVERLAY_LACKS_KEY] =
			"has no key: set wireguardPort and encryption there, and load the module 'wireguard'",
		[MK_OVERLAY_LACKS_HANDSHAKE] =
			"has made no handshake yet: let UDP of its wireguardPort pass, both ways",
		[MK_OVERLAY_SAME_KEY] =
			"has the key of another node: `monokube check` names both; remove wireguard.key of one of the two and restart its agent",
	};
	FILE *out = node_list_add(ctx);

	if (out)
		fprintf(out, "node '%s' %s", name, texts[lack]);
}

/* A node that cannot encrypt is the fault of all others. */
static void say_clear_text(const struct mk_own_node *node, const char *text)
{
	bool is_only = node->core->config.encryption == MK_ENCRYPTION_ONLY;

	if (*text && !node->devices.wg_ifindex)
		mk_log_warn(
			"packets of the overlay are %s, because this kernel has no WireGuard: load or install its module 'wireguard'",
			is_only ? "neither sent nor received" : "not encrypted");
	else if (*text)
		mk_log_warn("packets of the overlay are %s: %s",
			    is_only ? "not sent" : "not encrypted", text);
	else
		mk_log_info("packets of the overlay are encrypted to all nodes");
}

/* Log which nodes get packets in the clear, or none; changes only. */
void mk_own_node_say_clear(struct mk_own_node *node)
{
	cleanup_free char *text = NULL;
	struct node_list clear;

	if (node->core->config.encryption == MK_ENCRYPTION_NONE)
		return;
	node_list_begin(&clear);
	mk_overlay_each_clear(node->core->overlay, see_clear, &clear);
	node->clear_count = clear.count;
	text = node_list_end(&clear, NODES_SHOW_ALL);
	if (text && (*text || node->clear_said) && mk_is_news(&node->clear_said, text))
		say_clear_text(node, text);
}

/* Let the agent's Node, and so other nodes, have this node's key. */
static void announce(struct mk_own_node *node)
{
	const struct mk_devices *devices = &node->devices;
	char key[MK_WG_KEY_STRLEN], text[MK_WG_KEY_STRLEN + 8];

	if (!devices->wg_ifindex)
		return;
	snprintf(text, sizeof(text), "%s:%u", mk_wg_key_format(devices->wg_public_key, key),
		 node->core->config.wireguard_port);
	mk_source_wireguard(node->core->source, text);
	if (mk_is_news(&node->key_said, text))
		mk_log_info("WireGuard of this node, for the annotation " MK_WIREGUARD_ANNOTATION
			    " of its Node key=%s",
			    text);
}

/* ---- plans ----------------------------------------------------------------------------------- */

static void own_pod_cidrs(const struct mk_own_node *node, struct mk_cidr pods[MK_FAMILIES])
{
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (node->core->families[i].runs)
			pods[i] = node->families[i].addresses.pod_cidr;
}

static int plan_peers(struct mk_own_family *own, struct mk_error *err)
{
	struct mk_core *core = own->family->core;
	struct mk_cidr pods[MK_FAMILIES] = { 0 };
	const struct mk_overlay_view view = {
		.own_node = core->config.node_name,
		.family = own->family->family,
		.primary = core->config.cluster.primary,
		.underlay_family = own->node->internal_ip.family,
		.own_underlay = own->node->internal_ip,
		.cluster_cidrs = core->config.cluster.of,
		.vtep_cidrs = core->config.vteps.of,
		.own_pod_cidrs = pods,
	};
	struct mk_error why = { 0 };
	int ret;

	own_pod_cidrs(own->node, pods);
	mk_overlay_plan_release(&own->plan);
	ret = mk_overlay_plan_make(core->model, &view, &own->plan, err);
	if (ret < 0)
		return ret;
	if (core->config.encryption != MK_ENCRYPTION_NONE)
		ret = mk_node_names_keep_keys(core->config.state_dir, &own->plan, err);
	if (ret < 0)
		return ret;
	if (mk_node_names_write(core->config.state_dir, &view, &own->plan, &why) < 0)
		mk_log_error("cannot store the Nodes' names: %s", mk_error_text(&why));
	ret = find_links(own, err);
	if (ret < 0)
		return ret;
	mk_overlay_set_node(core->overlay, &own->node->devices, &own->addresses);
	core->unsure |= MK_UNSURE_OVERLAY | MK_UNSURE_NODE_ADDRESSES;
	return mk_overlay_set_peers(core->overlay, own->family->family, &own->plan, err);
}

/* List the other nodes' addresses of the family, which pods ask with this node's address.
 * The caller frees *@list. */
static int list_others(const struct mk_own_family *own, struct mk_ip **list, size_t *count,
		       struct mk_error *err)
{
	sa_family_t family = own->family->family;

	*count = 0;
	for (size_t i = 0; i < own->plan.peer_count; i++) {
		const struct mk_node_object *object =
			mk_model_node(own->family->core->model, own->plan.peers[i].node);

		for (size_t j = 0; object && j < object->address_count; j++) {
			struct mk_ip *added;

			if (object->addresses[j].family != family)
				continue;
			added = mk_append(*list, *count);
			if (!added)
				return mk_error_errno(err, ENOMEM,
						      "cannot list the nodes' addresses");
			*added = object->addresses[j];
		}
	}
	return 0;
}

static int fill_routes(struct mk_own_family *own, const struct mk_cidr *ranges, size_t range_count,
		       struct mk_error *err)
{
	struct mk_core *core = own->family->core;
	struct routes_input input = {
		.cluster_cidr = *mk_config_cluster(&core->config, own->family->family),
		.vtep_cidr = *mk_config_vteps(&core->config, own->family->family),
		.own = &own->addresses,
		.plan = &own->plan,
		.local = own->local,
		.local_count = own->local_count,
		.service_ranges = ranges,
		.service_range_count = range_count,
		.cluster_routes = own->cluster_routes,
		.cluster_route_count = own->cluster_route_count,
		.encrypts_all = core->config.encryption == MK_ENCRYPTION_ONLY,
		.has_wireguard = own->node->devices.wg_ifindex,
	};
	cleanup_free struct mk_route_entry *entries = NULL;
	cleanup_free struct mk_ip *others = NULL;
	bool has_clusters = core->config.cluster_name[0];
	bool complete = core->complete && (!has_clusters || own->node->cluster_routes_known);
	size_t count;
	int ret = keeps_source(own) ? list_others(own, &others, &input.other_count, err) : 0;

	if (has_clusters)
		input.peer_pool = core->config.peer_pools.of[mk_family_index(own->family->family)];
	input.others = others;
	ret = ret ?: wanted_routes(&input, &entries, &count, err);
	if (ret < 0)
		return ret;
	return mk_datapath_sync_routes(own->family->datapath, entries, count, complete,
				       &core->writes, err);
}

static bool same_routes(const struct mk_own_family *own, const struct mk_route_entry *routes,
			size_t count)
{
	const struct mk_route_entry *had = own->cluster_routes;

	if (own->cluster_route_count != count)
		return false;
	for (size_t i = 0; i < count; i++)
		if (!mk_cidr_equal(&had[i].dst, &routes[i].dst) ||
		    memcmp(&had[i].route, &routes[i].route, sizeof(routes[i].route)) != 0)
			return false;
	return true;
}

void mk_own_family_set_cluster_routes(struct mk_own_family *own, struct mk_route_entry *routes,
				      size_t count)
{
	if (!same_routes(own, routes, count))
		mk_core_mark(own->family->core, MK_UNSURE_NODE, 0);
	free(own->cluster_routes);
	own->cluster_routes = routes;
	own->cluster_route_count = count;
}

void mk_own_node_know_cluster_routes(struct mk_own_node *node)
{
	if (node->cluster_routes_known)
		return;
	node->cluster_routes_known = true;
	mk_core_mark(node->core, MK_UNSURE_NODE, 0);
}

/* Add the addresses of the Node of @peer, for which there is space: those of the programs' family,
 * and if the programs check carriers of the other family, those, too. */
static void add_peer(const struct mk_node_object *object, const struct mk_overlay_peer *peer,
		     const struct mk_own_family *own, struct mk_peer_entry *entries, size_t *count)
{
	for (size_t i = 0; i < object->address_count; i++) {
		const struct mk_ip *ip = &object->addresses[i];
		struct mk_peer_entry *entry = &entries[*count];
		bool is_far = ip->family != own->family->family;

		if (is_far && !checks_far_carriers(own))
			continue;
		*entry = (struct mk_peer_entry){
			.is_far = is_far,
			.addr = mk_ip_to_addr(ip),
			.is_internal =
				mk_ip_equal(ip, &object->internal_ips[mk_family_index(ip->family)]),
		};
		memcpy(entry->peer.vtep_mac, peer->vtep_mac.byte, sizeof(entry->peer.vtep_mac));
		entry->peer.is_direct = peer->is_direct;
		(*count)++;
	}
}

/* Fill map `peers`: the other nodes' addresses, and who may send overlay packets. */
static int fill_peers(struct mk_own_family *own, struct mk_error *err)
{
	struct mk_core *core = own->family->core;
	cleanup_free struct mk_peer_entry *entries = NULL;
	size_t count = 0;

	for (size_t i = 0; i < own->plan.peer_count; i++) {
		const struct mk_overlay_peer *peer = &own->plan.peers[i];
		const struct mk_node_object *object = mk_model_node(core->model, peer->node);
		struct mk_peer_entry *bigger;

		if (!object)
			continue;
		bigger = realloc(entries, (count + object->address_count + 1) * sizeof(*bigger));
		if (!bigger)
			return mk_error_errno(err, ENOMEM, "cannot list the nodes' addresses");
		entries = bigger;
		add_peer(object, peer, own, entries, &count);
	}
	return mk_datapath_sync_peers(own->family->datapath, entries, count, core->complete,
				      &core->writes, err);
}

/* Fill map `link_nodes`: who may send without VXLAN, and where such packets go. */
static int fill_link_nodes(struct mk_own_family *own, struct mk_error *err)
{
	struct mk_core *core = own->family->core;
	cleanup_free struct mk_link_node_entry *entries =
		calloc(own->plan.peer_count + 1, sizeof(*entries));
	size_t count = 0;

	if (!entries)
		return mk_error_errno(err, ENOMEM, "cannot list the nodes on the link");
	for (size_t i = 0; i < own->plan.peer_count; i++) {
		const struct mk_overlay_peer *peer = &own->plan.peers[i];
		struct mk_link_node_entry *entry = &entries[count];

		if (!peer->link_ifindex)
			continue;
		memcpy(entry->key.vtep_mac, peer->vtep_mac.byte, sizeof(entry->key.vtep_mac));
		entry->node.addr = mk_ip_to_addr(&peer->link_ip);
		entry->node.ifindex = (__u32)peer->link_ifindex;
		entry->node.mtu_bytes = peer->link_mtu_bytes;
		count++;
	}
	return mk_datapath_sync_link_nodes(own->family->datapath, entries, count, core->complete,
					   &core->writes, err);
}

static int compare_cidrs(const void *a, const void *b)
{
	const struct mk_service_cidr *x = a, *y = b;
	int order = mk_ip_compare(&x->cidr.ip, &y->cidr.ip);

	if (order == 0)
		order = (int)x->cidr.prefix_bits - (int)y->cidr.prefix_bits;
	return order ? order : strcmp(x->name, y->name);
}

/* List the usable ranges of Service addresses: one route per range instead of one per Service. The
 * caller frees *@ranges. */
static int list_ranges(struct mk_own_family *own, struct mk_cidr **ranges, size_t *count,
		       struct mk_error *why, struct mk_error *err)
{
	struct mk_core *core = own->family->core;
	sa_family_t family = own->family->family;
	struct ranges_input input = {
		.cluster_cidr = *mk_config_cluster(&core->config, family),
		.vtep_cidr = *mk_config_vteps(&core->config, family),
		.plan = &own->plan,
		.internal_ip = &own->node->internal_ip,
		.networks = &own->node->networks,
	};
	cleanup_free struct mk_service_cidr *cidrs = NULL;

	if (mk_model_service_cidrs(core->model, family, &cidrs, &input.count) == 0)
		*ranges = calloc(input.count + 1, sizeof(**ranges));
	if (!*ranges)
		return mk_error_errno(err, ENOMEM, "cannot list the ServiceCIDRs");
	qsort(cidrs, input.count, sizeof(*cidrs), compare_cidrs);
	input.ranges = cidrs;
	*count = input.count - (size_t)usable_ranges(&input, *ranges, why);
	return 0;
}

/* Let the host send to Services and to other clusters by the datapath. Otherwise it would send to
 * an address of another cluster, or of no cluster, by its default route. */
static int set_ranges(const struct mk_own_family *own, const struct mk_cidr *services, size_t count,
		      struct mk_error *err)
{
	const struct mk_core *core = own->family->core;
	sa_family_t family = own->family->family;
	const struct mk_cidr *pool = &core->config.peer_pools.of[mk_family_index(family)];
	cleanup_free struct mk_cidr *ranges =
		calloc(count + own->cluster_route_count + 1, sizeof(*ranges));

	if (!ranges)
		return mk_error_errno(err, ENOMEM, "cannot list the ranges of other clusters");
	for (size_t i = 0; i < count; i++)
		ranges[i] = services[i];
	for (size_t i = 0; i < own->cluster_route_count; i++)
		ranges[count++] = own->cluster_routes[i].dst;
	if (core->config.cluster_name[0] && pool->ip.family != AF_UNSPEC)
		ranges[count++] = mk_cidr_network(pool);
	return mk_overlay_set_ranges(core->overlay, family, ranges, count, err);
}

static int reconcile_family(struct mk_own_family *own, struct mk_error *why, struct mk_error *err)
{
	cleanup_free struct mk_cidr *ranges = NULL;
	size_t count = 0;
	int ret = plan_peers(own, err);

	if (ret == 0)
		ret = list_ranges(own, &ranges, &count, why, err);
	if (ret == 0)
		ret = set_ranges(own, ranges, count, err);
	if (ret < 0 || !mk_family_is_loaded(own->family))
		return ret;
	/* before the routes that lead there */
	ret = fill_link_nodes(own, err);
	ret = ret < 0 ? ret : fill_routes(own, ranges, count, err);
	return ret < 0 ? ret : fill_peers(own, err);
}

int reconcile_peers(struct mk_own_node *node, struct mk_error *err)
{
	struct mk_error why = { 0 };
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++)
		if (node->core->families[i].runs)
			ret = reconcile_family(&node->families[i], &why, err);
	node->plans += ret == 0;
	node->ranges_known =
		ret == 0 && (!node->core->config.cluster_name[0] || node->cluster_routes_known);
	say_left_out(node);
	say_direct(node);
	announce(node);
	if (!why.code)
		mk_core_warn_over(node->core, MK_WARN_SERVICE_CIDR);
	else if (mk_core_warn(node->core, MK_WARN_SERVICE_CIDR, mk_error_text(&why)))
		mk_log_warn("%s", mk_error_text(&why));
	return ret;
}
