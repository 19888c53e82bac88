// SPDX-License-Identifier: Apache-2.0
/* monokube nodes. */
#include "cli/inspect/view.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/print.h"
#include "config/addresses.h"

static struct mk_cidr range_of(const struct mk_view *view, const struct mk_addr *net,
			       const struct mk_addr *mask)
{
	return (struct mk_cidr){ mk_ip_of_family(net, view->family),
				 (uint8_t)(mk_ip_bits(view->family) - mk_pod_host_bits(mask)) };
}

/* Compute the overlay address from the pod CIDR, as every node does. The MAC address is of no use:
 * both families have that of the primary family's address. */
static struct mk_addr vtep_of(const struct mk_view *view, const struct mk_cidr *pod_cidr)
{
	const struct mk_node *node = &view->node;
	const struct mk_cidr cluster = range_of(view, &node->cluster_net, &node->cluster_mask);
	const struct mk_cidr vteps = range_of(view, &node->vtep_net, &node->vtep_mask);
	struct mk_addresses addresses;

	if (mk_addresses_compute(&cluster, &vteps, pod_cidr, &addresses, NULL) < 0)
		return (struct mk_addr){ 0 };
	return mk_ip_to_addr(&addresses.vtep);
}

const char *mk_view_wireguard(const struct mk_view *view, char text[MK_VIEW_WIREGUARD])
{
	char key[MK_WG_KEY_STRLEN];
	struct mk_wg_device device;

	if (!view->links.wg_ifindex ||
	    mk_wg_device_get((int)view->links.wg_ifindex, &device, NULL) < 0)
		return NULL;
	snprintf(text, MK_VIEW_WIREGUARD, "%s:%u", mk_wg_key_format(device.public_key, key),
		 device.port);
	mk_wg_device_release(&device);
	return text;
}

struct reading {
	const struct mk_view *view;
	struct mk_cli_node *nodes;
	size_t count;
};

static int see_entry(void *ctx, const void *key_, const void *value_, struct mk_error *err)
{
	const struct mk_route_key *key = key_;
	const struct mk_route *route = value_;
	struct reading *reading = ctx;
	struct mk_cli_node *node;

	if (route->type != MK_ROUTE_OVERLAY ||
	    key->prefix_bits == mk_ip_bits(mk_ip_from_addr(&key->addr).family))
		return 0;
	node = mk_append(reading->nodes, reading->count);
	if (!node)
		return mk_error_errno(err, ENOMEM, "cannot list the nodes");
	*node = (struct mk_cli_node){ .pod_cidr = { mk_ip_from_addr(&key->addr),
						    (uint8_t)key->prefix_bits } };
	memcpy(node->vtep_mac, route->vtep_mac, sizeof(node->vtep_mac));
	node->is_direct = route->is_direct;
	node->vtep = vtep_of(reading->view, &node->pod_cidr);
	node->name = mk_node_names_find(&reading->view->node_names, &node->pod_cidr.ip);
	return 0;
}

static int compare_nodes(const void *a, const void *b)
{
	const struct mk_cli_node *x = a, *y = b;

	return mk_cidr_compare(&x->pod_cidr, &y->pod_cidr);
}

static int see_fdb(void *ctx, const struct mk_nl_fdb *fdb)
{
	struct reading *reading = ctx;

	int wg_ifindex = (int)reading->view->links.wg_ifindex;

	for (size_t i = 0; i < reading->count; i++) {
		if (memcmp(reading->nodes[i].vtep_mac, fdb->mac.byte, sizeof(fdb->mac.byte)) != 0)
			continue;
		reading->nodes[i].underlay = fdb->remote;
		reading->nodes[i].is_encrypted = wg_ifindex && fdb->by_ifindex == wg_ifindex;
	}
	return 0;
}

/* The underlay is known: the overlay's entries are read first. */
static int see_sfc_fdb(void *ctx, const struct mk_nl_fdb *fdb)
{
	struct reading *reading = ctx;

	for (size_t i = 0; i < reading->count; i++)
		if (memcmp(reading->nodes[i].vtep_mac, fdb->mac.byte, sizeof(fdb->mac.byte)) == 0 &&
		    mk_ip_equal(&reading->nodes[i].underlay, &fdb->remote))
			reading->nodes[i].has_sfc_fdb = true;
	return 0;
}

static int see_neighbour(void *ctx, const struct mk_ip *ip, const struct mk_mac *mac,
			 bool permanent)
{
	struct reading *reading = ctx;
	struct mk_addr addr = mk_ip_to_addr(ip);

	for (size_t i = 0; i < reading->count; i++)
		if (permanent && mk_addr_eq(&reading->nodes[i].vtep, &addr) &&
		    memcmp(reading->nodes[i].vtep_mac, mac->byte, sizeof(mac->byte)) == 0)
			reading->nodes[i].has_neighbour = true;
	return 0;
}

static void take_route(struct mk_cli_node *node, const struct mk_nl_route *route, bool is_direct)
{
	if (is_direct && route->metric == MK_PROBE_METRIC)
		node->is_tried = true;
	else if (node->is_direct == is_direct) {
		node->has_route = true;
		node->link_ifindex = is_direct ? route->ifindex : 0;
		node->link_ip = route->gateway;
	}
}

static int see_route(void *ctx, const struct mk_nl_route *route)
{
	struct reading *reading = ctx;

	bool is_direct = route->ifindex != (int)reading->view->links.set.overlay_ifindex;

	if (is_direct && route->protocol != MK_RTPROT)
		return 0;
	for (size_t i = 0; i < reading->count; i++)
		if (mk_cidr_equal(&reading->nodes[i].pod_cidr, &route->dst))
			take_route(&reading->nodes[i], route, is_direct);
	return 0;
}

static int read_kernel(struct reading *reading, struct mk_error *err)
{
	struct mk_nl *nl = reading->view->nl;
	int ifindex = (int)reading->view->links.set.overlay_ifindex;
	sa_family_t family = reading->view->family;
	int ret = mk_nl_each_fdb(nl, ifindex, see_fdb, reading, err);

	ret = ret
		      ?: mk_nl_each_fdb(nl, (int)reading->view->links.sfc_ifindex, see_sfc_fdb,
					reading, err);
	ret = ret ?: mk_nl_each_neigh(nl, family, ifindex, see_neighbour, reading, err);
	ret = ret ?: mk_nl_each_route(nl, family, see_route, reading, err);
	for (size_t i = 0; i < reading->count; i++) {
		struct mk_route route;

		reading->nodes[i].has_vtep_route =
			mk_view_route(reading->view, &reading->nodes[i].vtep, &route) &&
			route.type == MK_ROUTE_OVERLAY;
	}
	return ret;
}

int mk_cli_nodes_read(const struct mk_view *view, struct mk_cli_node **nodes, size_t *count,
		      struct mk_error *err)
{
	struct reading reading = { .view = view };
	int ret = mk_table_each(&view->routes, see_entry, &reading, err);

	if (reading.count)
		qsort(reading.nodes, reading.count, sizeof(*reading.nodes), compare_nodes);
	ret = ret ?: read_kernel(&reading, err);
	if (ret < 0) {
		free(reading.nodes);
		reading = (struct reading){ 0 };
	}
	*nodes = reading.nodes;
	*count = reading.count;
	return ret;
}

const char *mk_cli_node_fault(const struct mk_cli_node *node)
{
	if (!node->has_route)
		return "no route to its pods";
	if (node->underlay.family == AF_UNSPEC)
		return "no FDB entry of its overlay device";
	if (!node->has_sfc_fdb)
		return "no FDB entry of its overlay device for chains";
	if (!node->has_neighbour)
		return "no neighbour entry of its overlay address";
	return node->has_vtep_route ? NULL : "its overlay address is not in map routes";
}

struct node_list {
	struct mk_cli_node *nodes;
	size_t count;
};

/* Find the same node in another family's list: both have its MAC address. */
static const struct mk_cli_node *same_node(const struct node_list *list,
					   const struct mk_cli_node *node)
{
	for (size_t i = 0; i < list->count; i++)
		if (memcmp(list->nodes[i].vtep_mac, node->vtep_mac, sizeof(node->vtep_mac)) == 0)
			return &list->nodes[i];
	return NULL;
}

/* Add what the other families have of @node. Returns the first fault. */
static const char *add_families(struct json_object *to, const struct node_list *lists, size_t count,
				const struct mk_cli_node *node)
{
	struct json_object *ranges = json_object_new_array(), *vteps = json_object_new_array();
	const char *fault = NULL;
	char text[MK_CIDR_STRLEN];

	for (size_t i = 0; i < count; i++) {
		const struct mk_cli_node *same = same_node(&lists[i], node);

		if (!same)
			continue;
		mk_add_text(ranges, mk_cidr_format(&same->pod_cidr, text));
		mk_add_addr(vteps, &same->vtep);
		fault = fault ?: mk_cli_node_fault(same);
	}
	json_object_object_add(to, "podCidrs", ranges);
	json_object_object_add(to, "overlayAddresses", vteps);
	return fault;
}

/* @node: of the first list that has it. */
static struct json_object *node_json(const struct node_list *lists, size_t count,
				     const struct mk_cli_node *node)
{
	struct json_object *object = json_object_new_object();
	char text[MK_CIDR_STRLEN];
	const char *fault;

	mk_put_text(object, "name", node->name);
	mk_put_text(object, "podCidr", mk_cidr_format(&node->pod_cidr, text));
	mk_put_text(object, "address",
		    node->underlay.family ? mk_ip_format(&node->underlay, text) : NULL);
	mk_put_addr(object, "overlayAddress", &node->vtep);
	mk_put_mac(object, "overlayMac", node->vtep_mac);
	mk_put_text(object, "routing", node->is_direct ? "Direct" : "Overlay");
	mk_put_text(object, "encryption", node->is_encrypted ? "WireGuard" : "None");
	fault = add_families(object, lists, count, node);
	mk_put_text(object, "state", fault ? fault : "ok");
	return object;
}

static void add_nodes(struct json_object *to, const struct node_list *lists, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < lists[i].count; j++)
			if (i == 0 || !same_node(&lists[0], &lists[i].nodes[j]))
				json_object_array_add(to,
						      node_json(lists, count, &lists[i].nodes[j]));
}

static int show(const struct mk_views *views, const struct mk_cli_options *options,
		struct mk_error *err)
{
	static const struct mk_cli_column columns[] = {
		{ "NAME", "name" },	  { "PODS", "podCidrs" },
		{ "ADDRESS", "address" }, { "OVERLAY", "overlayAddresses" },
		{ "MAC", "overlayMac" },  { "ROUTING", "routing" },
		{ "STATE", "state" },
	};
	cleanup_json struct json_object *list = json_object_new_array();
	struct node_list lists[MK_FAMILIES] = { 0 };
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < views->count; i++)
		ret = mk_cli_nodes_read(&views->list[i], &lists[i].nodes, &lists[i].count, err);
	if (ret == 0)
		add_nodes(list, lists, views->count);
	for (size_t i = 0; i < views->count; i++)
		free(lists[i].nodes);
	return ret
		       ?: mk_cli_print_list(stdout, list, options->json, columns,
					    MK_ARRAY_SIZE(columns), err);
}

int mk_cli_nodes(int argc, char **argv)
{
	return mk_view_main(argc, argv, show);
}
