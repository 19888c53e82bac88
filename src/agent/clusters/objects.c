// SPDX-License-Identifier: Apache-2.0
#include "agent/clusters/objects.h"

#include <stdlib.h>
#include <string.h>

#include "agent/clusters/gone.h"
#include "agent/clusters/probe.h"
#include "agent/clusters/wireguard.h"
#include "base/cleanup.h"

/* ---- from the model -------------------------------------------------------------------------- */

struct listed_node {
	const struct mk_published_node *of;
	bool is_gone;
};

struct lists {
	const struct mk_model *model;
	const struct mk_clusters_gone *gone; /* NULL: nothing is */
	const struct mk_cluster_peer **peers;
	struct listed_node *nodes;
	size_t peer_count, node_count;
};

static void add_gone_node(void *ctx, const struct mk_published_node *node)
{
	struct lists *lists = ctx;

	lists->nodes[lists->node_count++] = (struct listed_node){ node, true };
}

static int compare_peers(const void *left, const void *right)
{
	const struct mk_cluster_peer *const *a = left, *const *b = right;

	return strcmp((*a)->name, (*b)->name);
}

static int compare_names(const struct listed_node *a, const struct listed_node *b)
{
	return strcmp(a->of->cluster, b->of->cluster) ?: strcmp(a->of->node, b->of->node);
}

static int compare_nodes(const void *left, const void *right)
{
	const struct listed_node *a = left, *b = right;

	return compare_names(a, b) ?: a->is_gone - b->is_gone;
}

/* A node that is there again is not gone. */
static void drop_doubles(struct lists *lists)
{
	size_t kept = 0;

	for (size_t i = 0; i < lists->node_count; i++)
		if (!kept || compare_names(&lists->nodes[kept - 1], &lists->nodes[i]) != 0)
			lists->nodes[kept++] = lists->nodes[i];
	lists->node_count = kept;
}

/* The caller frees both lists, also after an error. */
static int list_all(struct lists *lists, struct mk_error *err)
{
	const struct mk_model *model = lists->model;

	lists->peers = calloc(mk_model_count(model, MK_KIND_CLUSTER_PEER) + 1,
			      sizeof(const struct mk_cluster_peer *));
	lists->nodes =
		calloc(mk_model_count(model, MK_KIND_PUBLISHED_NODE) + gone_count(lists->gone) + 1,
		       sizeof(*lists->nodes));
	if (!lists->peers || !lists->nodes)
		return mk_error_errno(err, ENOMEM, "cannot list other clusters");
	mk_model_each(struct mk_cluster_peer, peer, model, MK_KIND_CLUSTER_PEER)
		lists->peers[lists->peer_count++] = peer;
	mk_model_each(struct mk_published_node, node, model, MK_KIND_PUBLISHED_NODE)
		lists->nodes[lists->node_count++] = (struct listed_node){ .of = node };
	gone_each_node(lists->gone, add_gone_node, lists);
	qsort(lists->peers, lists->peer_count, sizeof(const struct mk_cluster_peer *),
	      compare_peers);
	qsort(lists->nodes, lists->node_count, sizeof(*lists->nodes), compare_nodes);
	drop_doubles(lists);
	return 0;
}

/* ---- one family ------------------------------------------------------------------------------ */

static struct mk_clusters_node convert_node(const struct listed_node *listed, size_t family,
					    sa_family_t underlay)
{
	const struct mk_published_node *node = listed->of;

	return (struct mk_clusters_node){
		.name = node->node,
		.pod_cidr = node->pod_cidrs[family],
		.address = node->carrier->addresses[mk_family_index(underlay)],
		.port = node->carrier->port,
		.wireguard = node->carrier->wireguard,
		.is_gone = listed->is_gone,
	};
}

static const struct mk_cluster_peer *hub_of(const struct lists *lists,
					    const struct mk_cluster_peer *peer)
{
	const struct mk_cluster_peer key = { .name = peer->via }, *at = &key;
	const struct mk_cluster_peer *const *found;

	if (!peer->via)
		return NULL;
	found = bsearch(&at, lists->peers, lists->peer_count, sizeof(at), compare_peers);
	return found ? *found : NULL;
}

static const struct mk_published_cluster *published_of(const struct lists *lists,
						       const struct mk_cluster_peer *peer)
{
	return mk_clusters_published(lists->model, lists->gone, peer->name);
}

/* Do nodes of @peer that its hub has shown count? */
static bool lets_hub_name_nodes(const struct lists *lists, const struct mk_cluster_peer *peer)
{
	const struct mk_cluster_peer *hub = hub_of(lists, peer);
	const struct mk_published_cluster *published = published_of(lists, peer);

	return hub && hub->introduces_direct && published && published->relayed_by &&
	       mk_published_counts(published->relayed_by, peer);
}

static enum mk_clusters_path path_of(const struct lists *lists, const struct mk_cluster_peer *peer)
{
	const struct mk_cluster_peer *hub = hub_of(lists, peer);

	switch (peer->path) {
	case MK_PEER_PATH_DIRECT:
		return MK_CLUSTERS_PATH_DIRECT;
	case MK_PEER_PATH_AUTO:
		return MK_CLUSTERS_PATH_AUTO;
	case MK_PEER_PATH_AS_HUB_SAYS:
		return hub && hub->introduces_direct ? MK_CLUSTERS_PATH_AUTO : MK_CLUSTERS_PATH_HUB;
	case MK_PEER_PATH_HUB:
		break;
	}
	return MK_CLUSTERS_PATH_HUB;
}

static struct mk_clusters_peer convert_peer(const struct lists *lists,
					    const struct mk_cluster_peer *peer, size_t family)
{
	const struct mk_published_cluster *published = published_of(lists, peer);
	struct mk_clusters_peer converted = {
		.name = peer->name,
		.created_unix_s = peer->created_unix_s,
		.via = peer->via,
		.path = path_of(lists, peer),
		.view = peer->views[family],
		.access_pods = peer->access == MK_PEER_ACCESS_PODS,
		.access_exports = peer->access == MK_PEER_ACCESS_EXPORTS,
		.relayed = peer->relayed,
		.encrypts = peer->encrypts,
		.has_inbox = peer->has_inbox,
		.publishes_to = peer->publishes_to,
		.mtu_bytes = peer->mtu_bytes,
	};

	if (peer->externals)
		converted.external_view = peer->externals->views[family];
	if (!published || !mk_published_counts(published->relayed_by, peer))
		return converted;
	converted.is_published = true;
	converted.is_gone = !mk_model_published_cluster(lists->model, peer->name);
	converted.speaks_wire = published->speaks_wire;
	converted.number = published->number;
	converted.home = published->pod_cidrs[family];
	if (published->external_cidrs)
		converted.external_home = published->external_cidrs[family];
	if (peer->same_view)
		converted.view = converted.home;
	return converted;
}

/* Give each peer its part of the nodes. Both lists are sorted by cluster. */
static void share_nodes(const struct lists *lists, struct mk_clusters_objects *objects,
			size_t family, sa_family_t underlay)
{
	size_t next = 0, used = 0;

	for (size_t i = 0; i < objects->count; i++) {
		struct mk_clusters_peer *peer = &objects->peers[family][i];
		bool with_shown = lets_hub_name_nodes(lists, lists->peers[i]);

		while (next < lists->node_count &&
		       strcmp(lists->nodes[next].of->cluster, peer->name) < 0)
			next++;
		peer->nodes = &objects->nodes[family][used];
		for (; next < lists->node_count &&
		       strcmp(lists->nodes[next].of->cluster, peer->name) == 0;
		     next++) {
			if (lists->nodes[next].of->is_relayed && !with_shown)
				continue;
			objects->nodes[family][used++] =
				convert_node(&lists->nodes[next], family, underlay);
			peer->node_count++;
		}
	}
}

static int convert(const struct lists *lists, sa_family_t underlay,
		   struct mk_clusters_objects *objects, size_t family)
{
	objects->peers[family] = calloc(lists->peer_count + 1, sizeof(*objects->peers[family]));
	objects->nodes[family] = calloc(lists->node_count + 1, sizeof(*objects->nodes[family]));
	if (!objects->peers[family] || !objects->nodes[family])
		return -ENOMEM;
	for (size_t i = 0; i < lists->peer_count; i++)
		objects->peers[family][i] = convert_peer(lists, lists->peers[i], family);
	share_nodes(lists, objects, family, underlay);
	return 0;
}

static int name_borders(const struct mk_model *model, struct mk_clusters_objects *objects,
			struct mk_error *err)
{
	objects->borders = calloc(mk_model_count(model, MK_KIND_NODE) + 1, sizeof(const char *));
	if (!objects->borders)
		return mk_error_errno(err, ENOMEM, "cannot list the border nodes");
	mk_model_each(struct mk_node_object, node, model, MK_KIND_NODE)
		if (node->border)
			objects->borders[objects->border_count++] = node->name;
	qsort(objects->borders, objects->border_count, sizeof(const char *), mk_compare_texts);
	return 0;
}

int mk_clusters_objects_get(const struct mk_model *model, const struct mk_clusters_gone *gone,
			    sa_family_t underlay, struct mk_clusters_objects *objects,
			    struct mk_error *err)
{
	struct lists lists = { .model = model, .gone = gone };
	int ret;

	*objects = (struct mk_clusters_objects){ 0 };
	ret = list_all(&lists, err);
	objects->count = lists.peer_count;
	objects->node_count = lists.node_count;
	ret = ret ?: name_borders(model, objects, err);
	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++)
		if (convert(&lists, underlay, objects, i) < 0)
			ret = mk_error_errno(err, ENOMEM, "cannot list other clusters");
	objects->of = lists.peers;
	free(lists.nodes);
	return ret;
}

void mk_clusters_objects_release(struct mk_clusters_objects *objects)
{
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		free(objects->peers[i]);
		free(objects->nodes[i]);
	}
	free(objects->of);
	free(objects->borders);
	*objects = (struct mk_clusters_objects){ 0 };
}

/* ---- this cluster ---------------------------------------------------------------------------- */

/* Ranges of this cluster and of this node, which no view may overlap. */
struct ranges {
	struct mk_cidr *of;
	size_t count, capacity;
};

static void add_range(struct ranges *ranges, const struct mk_cidr *cidr)
{
	if (ranges->count < ranges->capacity)
		ranges->of[ranges->count++] = mk_cidr_network(cidr);
}

/* Of the host's networks, those that its packets reach without a default route. */
static bool is_reached(const struct mk_network *network)
{
	return network->kind == MK_NET_ON_LINK || network->kind == MK_NET_ROUTED ||
	       network->kind == MK_NET_GATEWAY;
}

static int list_ranges(const struct mk_own_family *own, struct ranges *ranges, struct mk_error *err)
{
	const struct mk_core *core = own->family->core;
	const struct mk_networks *networks = &own->node->networks;
	cleanup_free struct mk_service_cidr *services = NULL;
	size_t count = 0;

	if (mk_model_service_cidrs(core->model, own->family->family, &services, &count) == 0)
		ranges->of = calloc(count + networks->count + 1, sizeof(*ranges->of));
	if (!ranges->of)
		return mk_error_errno(err, ENOMEM, "cannot list ranges that no view may overlap");
	ranges->capacity = count + networks->count + 1;
	add_range(ranges, mk_config_vteps(&core->config, own->family->family));
	for (size_t i = 0; i < count; i++)
		add_range(ranges, &services[i].cidr);
	for (size_t i = 0; i < networks->count; i++)
		if (is_reached(&networks->list[i]))
			add_range(ranges, &networks->list[i].cidr);
	return 0;
}

/* Views of `Same` are not listed: the peer chooses them, and could claim the nodes of others. */
static void add_view(struct ranges *ranges, const struct mk_cidr *view, const struct mk_cidr *home)
{
	if (view->ip.family == AF_UNSPEC || mk_cidr_equal(view, home))
		return;
	for (size_t i = 0; i < ranges->count; i++)
		if (mk_cidr_covers(&ranges->of[i], view))
			return;
	add_range(ranges, view);
}

static void add_views(struct ranges *ranges, const struct mk_clusters_objects *objects)
{
	for (size_t family = 0; family < MK_FAMILIES; family++)
		for (size_t i = 0; i < objects->count; i++) {
			const struct mk_clusters_peer *peer = &objects->peers[family][i];

			add_view(ranges, &peer->view, &peer->home);
			add_view(ranges, &peer->external_view, &peer->external_home);
		}
}

/* List the ranges of addresses that mean something in this cluster. The caller frees @ranges->of,
 * also after an error. */
static int list_inner(const struct mk_core *core, const struct mk_clusters_objects *objects,
		      struct ranges *ranges, struct mk_error *err)
{
	const struct mk_config *config = &core->config;
	const struct mk_ranges *const own[] = { &config->cluster, &config->vteps,
						&config->clusterset, &config->externals,
						&config->peer_pools };
	cleanup_free struct mk_service_cidr *services = NULL;
	size_t count = 0, most = MK_FAMILIES * (MK_ARRAY_SIZE(own) + 2 * objects->count);

	if (mk_model_service_cidrs(core->model, AF_UNSPEC, &services, &count) == 0)
		ranges->of = calloc(count + most, sizeof(*ranges->of));
	if (!ranges->of)
		return mk_error_errno(err, ENOMEM, "cannot list this cluster's ranges");
	ranges->capacity = count + most;
	for (size_t i = 0; i < MK_ARRAY_SIZE(own); i++)
		for (size_t family = 0; family < MK_FAMILIES; family++)
			if (own[i]->of[family].ip.family != AF_UNSPEC)
				add_range(ranges, &own[i]->of[family]);
	for (size_t i = 0; i < count; i++)
		add_range(ranges, &services[i].cidr);
	add_views(ranges, objects);
	return 0;
}

struct addresses {
	struct mk_ip *of;
	size_t count;
};

/* The caller frees @all->of, also after an error. */
static int list_addresses(const struct mk_model *model, struct addresses *all, struct mk_error *err)
{
	mk_model_each(struct mk_node_object, node, model, MK_KIND_NODE)
		for (size_t i = 0; i < node->address_count; i++) {
			struct mk_ip *added = mk_append(all->of, all->count);

			if (!added)
				return mk_error_errno(err, ENOMEM,
						      "cannot list the nodes' addresses");
			*added = node->addresses[i];
		}
	if (all->of)
		mk_ips_sort(all->of, &all->count);
	return 0;
}

/* ---- border nodes ---------------------------------------------------------------------------- */

/* Is this node no border node, although there are some? */
static bool goes_by_border(const struct mk_clusters_objects *objects, const char *own)
{
	for (size_t i = 0; i < objects->border_count; i++)
		if (strcmp(objects->borders[i], own) == 0)
			return false;
	return objects->border_count > 0;
}

/* List the border nodes that the overlay reaches. The caller frees the list, also after an
 * error. */
static int list_borders(const struct mk_clusters_objects *objects, const struct mk_own_family *own,
			struct mk_clusters_own *into, struct mk_clusters_border **list,
			struct mk_error *err)
{
	const struct mk_core *core = own->family->core;
	const struct mk_overlay_plan *plan = &own->plan;

	into->node = core->config.node_name;
	into->by_border = goes_by_border(objects, core->config.node_name);
	if (!into->by_border)
		return 0;
	*list = calloc(plan->peer_count + 1, sizeof(**list));
	if (!*list)
		return mk_error_errno(err, ENOMEM, "cannot list the border nodes");
	into->borders = *list;
	for (size_t i = 0; i < plan->peer_count; i++) {
		const struct mk_overlay_peer *peer = &plan->peers[i];
		const struct mk_node_object *node = mk_model_node(core->model, peer->node);

		if (node && node->border)
			(*list)[into->border_count++] = (struct mk_clusters_border){
				.node = peer->node,
				.ip = mk_cidr_nth(&peer->pod_cidr, 1),
				.vtep_mac = peer->vtep_mac,
			};
	}
	return 0;
}

/* This cluster and node, without their ranges and addresses. */
static struct mk_clusters_own describe_own(const struct mk_own_family *own,
					   const struct probes_known *known)
{
	const struct mk_core *core = own->family->core;
	sa_family_t family = own->family->family;
	struct mk_clusters_own this_one = {
		.name = core->config.cluster_name,
		.number = mk_own_cluster_number(&core->config),
		.family = family,
		.cluster_cidr = mk_cidr_network(mk_config_cluster(&core->config, family)),
		.externals = core->config.externals.of[mk_family_index(family)],
		.mtu_bytes = (uint16_t)own->node->mtu_bytes,
		.port = core->config.vxlan_port,
		.is_live = probes_find_live,
		.no_wireguard = clusters_no_wireguard(own->node),
		.wireguard.port = core->config.wireguard_port,
		.is_direct = probes_find_direct,
		.path_mtu = probes_find_mtu,
		.ctx = known,
	};

	memcpy(this_one.wireguard.key, own->node->devices.wg_public_key, MK_WG_KEY_BYTES);
	return this_one;
}

int clusters_objects_compile(const struct mk_clusters_objects *objects,
			     const struct mk_own_family *own, const struct probes_known *known,
			     struct mk_clusters_rows *rows, struct mk_error *err)
{
	const struct mk_core *core = own->family->core;
	struct mk_clusters_own this_one = describe_own(own, known);
	struct ranges ranges = { 0 }, inner = { 0 };
	struct addresses addresses = { 0 };
	cleanup_free struct mk_clusters_border *borders = NULL;
	int ret;

	*rows = (struct mk_clusters_rows){ 0 };
	ret = list_ranges(own, &ranges, err);
	ret = ret ?: list_inner(core, objects, &inner, err);
	ret = ret ?: list_addresses(core->model, &addresses, err);
	ret = ret ?: list_borders(objects, own, &this_one, &borders, err);
	this_one.others = ranges.of;
	this_one.other_count = ranges.count;
	this_one.inner = inner.of;
	this_one.inner_count = inner.count;
	this_one.node_addresses = addresses.of;
	this_one.node_address_count = addresses.count;
	ret = ret
		      ?: mk_clusters_compile(&this_one,
					     objects->peers[mk_family_index(own->family->family)],
					     objects->count, rows, err);
	free(ranges.of);
	free(inner.of);
	free(addresses.of);
	return ret;
}
