// SPDX-License-Identifier: Apache-2.0
#include "overlay/overlay.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#include "base/log.h"
#include "overlay/overlay_internal.h"

struct mk_overlay *mk_overlay_new(struct mk_nl *nl, struct mk_error *err)
{
	struct mk_overlay *overlay = calloc(1, sizeof(*overlay));

	if (!overlay) {
		(void)mk_error_errno(err, ENOMEM, "cannot keep the overlay");
		return NULL;
	}
	overlay->nl = nl;
	mk_overlay_refresh(overlay);
	return overlay;
}

static void free_peers(struct overlay_family *family)
{
	for (size_t i = 0; i < family->peer_count; i++)
		free(family->peers[i].node);
	free(family->peers);
	family->peers = NULL;
	family->peer_count = 0;
}

static void release_family(struct overlay_family *family)
{
	free_peers(family);
	free(family->ranges);
	*family = (struct overlay_family){ 0 };
}

void mk_overlay_free(struct mk_overlay *overlay)
{
	struct overlay_route *route, *next;

	if (!overlay)
		return;
	HASH_ITER(hh, overlay->routes, route, next) {
		HASH_DEL(overlay->routes, route);
		free(route);
	}
	for (size_t i = 0; i < MK_FAMILIES; i++)
		release_family(&overlay->families[i]);
	free(overlay->clusters);
	free(overlay->tunnels);
	free(overlay->wg_peers);
	free(overlay);
}

const struct mk_overlay_repairs *mk_overlay_repairs(const struct mk_overlay *overlay)
{
	return &overlay->repairs;
}

void mk_overlay_refresh(struct mk_overlay *overlay)
{
	overlay->refresh = true;
}

/* ---- wanted state ---------------------------------------------------------------------------- */

static struct overlay_family *family_of(struct mk_overlay *overlay, sa_family_t family)
{
	return &overlay->families[mk_family_index(family)];
}

static const struct overlay_family *family_of_route(const struct mk_overlay *overlay,
						    const struct mk_cidr *dst)
{
	return &overlay->families[mk_family_index(dst->ip.family)];
}

static struct route_key key_of(const struct mk_cidr *dst, uint32_t metric)
{
	struct route_key key = { .metric = metric,
				 .family = (uint8_t)dst->ip.family,
				 .prefix_bits = dst->prefix_bits };
	bool v4 = dst->ip.family == AF_INET;

	memcpy(key.bytes, &dst->ip.v6, v4 ? sizeof(dst->ip.v4) : sizeof(dst->ip.v6));
	return key;
}

struct overlay_route *overlay_route(struct mk_overlay *overlay, const struct mk_cidr *dst,
				    uint32_t metric, bool create)
{
	const struct route_key key = key_of(dst, metric);
	struct overlay_route *route;

	HASH_FIND(hh, overlay->routes, &key, sizeof(key), route);
	if (route || !create)
		return route;
	route = calloc(1, sizeof(*route));
	if (!route)
		return NULL;
	route->key = key;
	route->dst = *dst;
	HASH_ADD(hh, overlay->routes, key, sizeof(route->key), route);
	return route;
}

void mk_overlay_set_node(struct mk_overlay *overlay, const struct mk_devices *devices,
			 const struct mk_addresses *own)
{
	struct overlay_family *family = family_of(overlay, own->vtep.family);

	if (!overlay_has(family)) { /* the kernel was not asked for its routes */
		overlay->refresh = true;
		overlay->was_complete = false;
	}
	family->gone = family->forgotten = false;
	family->own = *own;
	overlay->devices = *devices;
	overlay->peers_changed = true;
}

static void clear_ranges(struct mk_overlay *overlay, sa_family_t family)
{
	struct overlay_route *route, *next;

	HASH_ITER(hh, overlay->routes, route, next)
		if (route->dst.ip.family == family)
			route->range = false;
}

void mk_overlay_forget_family(struct mk_overlay *overlay, sa_family_t family)
{
	struct overlay_family *of = family_of(overlay, family);

	if (of->gone)
		return;
	release_family(of);
	clear_ranges(overlay, family);
	of->gone = of->forgotten = true;
	overlay->refresh = true;
	overlay->peers_changed = true;
}

int mk_overlay_set_peers(struct mk_overlay *overlay, sa_family_t family,
			 const struct mk_overlay_plan *plan, struct mk_error *err)
{
	struct overlay_family *of = family_of(overlay, family);
	struct mk_overlay_peer *peers =
		calloc(plan->peer_count ? plan->peer_count : 1, sizeof(*peers));

	if (!peers)
		return mk_error_errno(err, ENOMEM, "cannot keep the list of nodes");
	free_peers(of);
	of->peers = peers;
	for (size_t i = 0; i < plan->peer_count; i++) {
		peers[i] = plan->peers[i];
		peers[i].node = strdup(plan->peers[i].node);
		if (!peers[i].node)
			return mk_error_errno(err, ENOMEM, "cannot keep the list of nodes");
		of->peer_count = i + 1;
	}
	overlay->peers_changed = true;
	return 0;
}

int mk_overlay_set_ranges(struct mk_overlay *overlay, sa_family_t family,
			  const struct mk_cidr *ranges, size_t count, struct mk_error *err)
{
	struct overlay_family *of = family_of(overlay, family);
	struct mk_cidr *copy;

	if (mk_cidrs_equal(of->ranges, of->range_count, ranges, count))
		return 0;
	copy = calloc(count + 1, sizeof(*copy));
	if (!copy)
		return mk_error_errno(err, ENOMEM, "cannot keep the ranges of the datapath");
	for (size_t i = 0; i < count; i++) {
		copy[i] = ranges[i];
		if (!overlay_route(overlay, &copy[i], overlay_metric(&copy[i]), true)) {
			free(copy);
			return mk_error_errno(err, ENOMEM,
					      "cannot keep the ranges of the datapath");
		}
	}
	free(of->ranges);
	of->ranges = copy;
	of->range_count = count;
	clear_ranges(overlay, family);
	for (size_t i = 0; i < count; i++)
		overlay_route(overlay, &copy[i], overlay_metric(&copy[i]), false)->range = true;
	overlay->ranges_changed = true;
	return 0;
}

static bool same_clusters(const struct mk_overlay *overlay, const struct mk_clusters_fdb *rows,
			  size_t count)
{
	const struct mk_clusters_fdb *had = overlay->clusters;

	if (overlay->cluster_count != count)
		return false;
	for (size_t i = 0; i < count; i++)
		if (memcmp(&had[i].mac, &rows[i].mac, sizeof(rows[i].mac)) != 0 ||
		    !mk_ip_equal(&had[i].remote, &rows[i].remote) || had[i].port != rows[i].port ||
		    had[i].is_encrypted != rows[i].is_encrypted)
			return false;
	return true;
}

int mk_overlay_set_clusters(struct mk_overlay *overlay, const struct mk_clusters_fdb *rows,
			    size_t count, bool is_all, struct mk_error *err)
{
	struct mk_clusters_fdb *copy;

	if ((overlay->clusters_known || !is_all) && same_clusters(overlay, rows, count))
		return 0;
	copy = calloc(count + 1, sizeof(*copy));
	if (!copy)
		return mk_error_errno(err, ENOMEM, "cannot keep the nodes of other clusters");
	if (count)
		memcpy(copy, rows, count * sizeof(*copy));
	free(overlay->clusters);
	overlay->clusters = copy;
	overlay->cluster_count = count;
	overlay->clusters_known |= is_all;
	overlay->peers_changed = true;
	return 0;
}

/* Both families have the same node. */
static bool is_of_first(const struct mk_overlay *overlay, const struct mk_overlay_peer *node)
{
	const struct overlay_family *first = &overlay->families[0];

	for (size_t i = 0; i < first->peer_count; i++)
		if (strcmp(first->peers[i].node, node->node) == 0)
			return true;
	return false;
}

static enum mk_overlay_lack lack_of(const struct mk_overlay *overlay,
				    const struct mk_overlay_peer *node)
{
	if (!node->wireguard.port)
		return MK_OVERLAY_LACKS_KEY;
	return wireguard_peer(overlay, node) ? MK_OVERLAY_LACKS_HANDSHAKE : MK_OVERLAY_SAME_KEY;
}

void mk_overlay_each_clear(const struct mk_overlay *overlay, mk_overlay_clear_fn *see, void *ctx)
{
	for (size_t i = 0; i < MK_FAMILIES; i++)
		for (size_t j = 0; j < overlay->families[i].peer_count; j++) {
			const struct mk_overlay_peer *node = &overlay->families[i].peers[j];

			if (node->is_clear && (i == 0 || !is_of_first(overlay, node)))
				see(ctx, node->node, lack_of(overlay, node));
		}
}

static void queue_route(struct mk_overlay *overlay, struct overlay_route *route)
{
	if (route->queued)
		return;
	route->queued = true;
	DL_APPEND(overlay->queue, route);
}

static void unqueue_route(struct mk_overlay *overlay, struct overlay_route *route)
{
	if (!route->queued)
		return;
	route->queued = false;
	DL_DELETE(overlay->queue, route);
}

static struct mk_cidr host_of(const struct mk_ip *ip)
{
	return (struct mk_cidr){ .ip = *ip, .prefix_bits = (uint8_t)mk_ip_bits(ip->family) };
}

int mk_overlay_vip_get(struct mk_overlay *overlay, const struct mk_ip *vip, struct mk_error *err)
{
	const struct mk_cidr dst = host_of(vip);
	struct overlay_route *route = overlay_route(overlay, &dst, overlay_metric(&dst), true);

	if (!route)
		return mk_error_errno(err, ENOMEM, "cannot keep the Services' addresses");
	if (route->vip_users++ == 0)
		queue_route(overlay, route);
	return 0;
}

void mk_overlay_vip_put(struct mk_overlay *overlay, const struct mk_ip *vip)
{
	const struct mk_cidr dst = host_of(vip);
	struct overlay_route *route = overlay_route(overlay, &dst, overlay_metric(&dst), false);

	if (route && route->vip_users > 0 && --route->vip_users == 0)
		queue_route(overlay, route);
}

void mk_overlay_on_left_vip(struct mk_overlay *overlay, mk_overlay_left_vip_fn *fn, void *ctx)
{
	overlay->left_vip = fn;
	overlay->left_vip_ctx = ctx;
}

/* ---- routes ---------------------------------------------------------------------------------- */

static struct mk_nl_route into_datapath(const struct mk_overlay *overlay, const struct mk_cidr *dst)
{
	return (struct mk_nl_route){
		.dst = *dst,
		.ifindex = overlay->devices.host_ifindex,
		.source = family_of_route(overlay, dst)->own.vtep,
		.protocol = MK_RTPROT,
		.metric = overlay_metric(dst),
	};
}

static struct mk_nl_route by_link(const struct mk_overlay *overlay,
				  const struct mk_overlay_peer *peer, const struct mk_cidr *dst)
{
	return (struct mk_nl_route){
		.dst = *dst,
		.ifindex = peer->link_ifindex,
		.gateway = peer->link_ip,
		.source = family_of_route(overlay, dst)->own.vtep,
		.onlink = true,
		.protocol = MK_RTPROT,
		.metric = overlay_metric(dst),
	};
}

static struct mk_nl_route to_peer(const struct mk_overlay *overlay,
				  const struct mk_overlay_peer *peer, const struct mk_cidr *dst)
{
	struct mk_nl_route route = by_link(overlay, peer, dst);

	if (peer->is_direct)
		return route;
	route.ifindex = overlay->devices.overlay_ifindex;
	route.gateway = peer->vtep;
	return route;
}

static int want_node_route(struct mk_overlay *overlay, const struct mk_nl_route *wanted,
			   struct mk_error *err)
{
	struct overlay_route *route = overlay_route(overlay, &wanted->dst, wanted->metric, true);

	if (!route)
		return mk_error_errno(err, ENOMEM, "cannot keep the routes");
	route->node = true;
	route->wanted = *wanted;
	return 0;
}

/* IPv6: the kernel takes no gateway behind one device while a route to it leads to another one. */
static int forget_vtep_route(struct mk_overlay *overlay, const struct mk_cidr *vtep,
			     struct mk_error *err)
{
	struct overlay_route *route = overlay_route(overlay, vtep, overlay_metric(vtep), false);
	int ret;

	if (!route || !route->is_installed)
		return 0;
	ret = mk_nl_route_delete(overlay->nl, &route->installed, err);
	if (ret == 0)
		route->is_installed = route->was_made = false;
	return ret;
}

/* Probes name the device by which they leave, so they use this route. All other packets use the one
 * into the overlay, as its metric is better. */
static int want_probe_route(struct mk_overlay *overlay, const struct mk_overlay_peer *peer,
			    struct mk_error *err)
{
	struct mk_nl_route wanted = by_link(overlay, peer, &peer->pod_cidr);

	wanted.metric = MK_PROBE_METRIC;
	return want_node_route(overlay, &wanted, err);
}

/* The overlay's address of a node has a route of its own only if it is not by VXLAN. */
static int want_peer_routes(struct mk_overlay *overlay, const struct mk_overlay_peer *peer,
			    struct mk_error *err)
{
	const struct mk_cidr vtep = host_of(&peer->vtep);
	struct mk_nl_route wanted = to_peer(overlay, peer, &peer->pod_cidr);
	int ret = want_node_route(overlay, &wanted, err);

	if (ret == 0 && peer->is_tried && !peer->is_direct)
		ret = want_probe_route(overlay, peer, err);
	if (ret == 0 && !peer->is_direct)
		return forget_vtep_route(overlay, &vtep, err);
	if (ret < 0)
		return ret;
	wanted = to_peer(overlay, peer, &vtep);
	return want_node_route(overlay, &wanted, err);
}

/* Want routes to this node's pod CIDR and to every other node's. */
static int want_routes_of(struct mk_overlay *overlay, const struct overlay_family *family,
			  struct mk_error *err)
{
	struct mk_cidr own = mk_cidr_network(&family->own.pod_cidr);
	struct mk_nl_route wanted = into_datapath(overlay, &own);
	int ret = want_node_route(overlay, &wanted, err);

	for (size_t i = 0; ret == 0 && i < family->peer_count; i++)
		ret = want_peer_routes(overlay, &family->peers[i], err);
	return ret;
}

static int want_node_routes(struct mk_overlay *overlay, struct mk_error *err)
{
	struct overlay_route *route, *next;
	int ret = 0;

	HASH_ITER(hh, overlay->routes, route, next)
		route->node = false;
	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++)
		if (overlay_has(&overlay->families[i]))
			ret = want_routes_of(overlay, &overlay->families[i], err);
	return ret;
}

static bool same_route(const struct mk_nl_route *a, const struct mk_nl_route *b)
{
	return mk_cidr_equal(&a->dst, &b->dst) && a->ifindex == b->ifindex &&
	       mk_ip_equal(&a->gateway, &b->gateway) && mk_ip_equal(&a->source, &b->source) &&
	       a->onlink == b->onlink && a->mtu_bytes == b->mtu_bytes;
}

static void made(struct overlay_route *route)
{
	route->made = route->wanted;
	route->was_made = true;
}

/* Log a route that differs although the wanted one did not change: another process has altered
 * it. */
static void say_repaired(struct mk_overlay *overlay, const struct overlay_route *route)
{
	char text[MK_CIDR_STRLEN];

	if (!route->was_made || !same_route(&route->made, &route->wanted))
		return;
	overlay->repairs.routes++;
	mk_log_warn("route was %s and is back dst=%s", route->is_installed ? "altered" : "missing",
		    mk_cidr_format(&route->dst, text));
}

static int put_route(struct mk_overlay *overlay, struct overlay_route *route, unsigned int *changes,
		     struct mk_error *err)
{
	int ret;

	if (!route->node)
		route->wanted = into_datapath(overlay, &route->dst);
	if (route->is_installed && same_route(&route->wanted, &route->installed)) {
		made(route);
		return 0;
	}
	ret = overlay_put_route(overlay, &route->wanted, err);
	if (ret < 0)
		return ret;
	say_repaired(overlay, route);
	made(route);
	route->installed = route->wanted;
	route->is_installed = true;
	(*changes)++;
	return 0;
}

static bool is_in_range(const struct overlay_family *family, const struct mk_ip *vip)
{
	for (size_t i = 0; i < family->range_count; i++)
		if (mk_cidr_contains(&family->ranges[i], vip))
			return true;
	return false;
}

static bool is_wanted(const struct mk_overlay *overlay, const struct overlay_route *route)
{
	const struct overlay_family *family = family_of_route(overlay, &route->dst);

	if (!overlay_has(family))
		return false;
	return route->node || route->range ||
	       (route->vip_users > 0 && !is_in_range(family, &route->dst.ip));
}

/* Remove a route. Its record stays while its address is in use, though a range's
 * route serves the address, or while the family of its range is absent. */
static int drop_route(struct mk_overlay *overlay, struct overlay_route *route, bool complete,
		      unsigned int *changes, struct mk_error *err)
{
	int ret;

	if (!complete && route->is_installed)
		return 0;
	if (route->is_installed) {
		ret = mk_nl_route_delete(overlay->nl, &route->installed, err);
		if (ret < 0)
			return ret;
		route->is_installed = route->was_made = false;
		(*changes)++;
	}
	if (route->vip_users > 0 || route->range)
		return 0;
	unqueue_route(overlay, route);
	HASH_DEL(overlay->routes, route);
	free(route);
	return 0;
}

static int sync_route(struct mk_overlay *overlay, struct overlay_route *route, bool putting,
		      bool complete, unsigned int *changes, struct mk_error *err)
{
	if (is_wanted(overlay, route) != putting)
		return 0;
	if (putting)
		return put_route(overlay, route, changes, err);
	return drop_route(overlay, route, complete, changes, err);
}

/* @all: every route; otherwise those of Service addresses that came or went. Wanted routes are made
 * before others are removed: an address never lacks a route into the datapath. */
static int sync_routes(struct mk_overlay *overlay, bool all, bool complete, unsigned int *changes,
		       struct mk_error *err)
{
	struct overlay_route *route, *next;
	int ret = 0;

	for (int putting = 1; putting >= 0; putting--) {
		if (all) {
			HASH_ITER(hh, overlay->routes, route, next)
				if (ret == 0)
					ret = sync_route(overlay, route, putting, complete, changes,
							 err);
		} else {
			DL_FOREACH_SAFE(overlay->queue, route, next)
				ret = ret
					      ?: sync_route(overlay, route, putting, complete,
							    changes, err);
		}
	}
	if (ret < 0)
		return ret;
	while (overlay->queue)
		unqueue_route(overlay, overlay->queue);
	return 0;
}

struct reading {
	struct mk_overlay *overlay;
	struct mk_error *err;
};

static int read_route(void *ctx, const struct mk_nl_route *found)
{
	struct reading *reading = ctx;
	struct overlay_route *route;

	if (found->protocol != MK_RTPROT)
		return 0;
	route = overlay_route(reading->overlay, &found->dst, found->metric, true);
	if (!route)
		return mk_error_errno(reading->err, ENOMEM, "cannot keep the routes");
	route->installed = *found;
	route->is_installed = true;
	return 0;
}

static int refresh_routes(struct mk_overlay *overlay, struct mk_error *err)
{
	struct reading reading = { .overlay = overlay, .err = err };
	static const sa_family_t families[MK_FAMILIES] = { AF_INET, AF_INET6 };
	struct overlay_route *route, *next;
	int ret = 0;

	HASH_ITER(hh, overlay->routes, route, next)
		route->is_installed = false;
	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++)
		if (overlay_reads(&overlay->families[i]))
			ret = mk_nl_each_route(overlay->nl, families[i], read_route, &reading, err);
	return ret;
}

static bool is_left_vip(const struct mk_overlay *overlay, const struct overlay_route *route)
{
	const struct overlay_family *family = family_of_route(overlay, &route->dst);

	return overlay_has(family) && route->is_installed && !is_wanted(overlay, route) &&
	       route->dst.prefix_bits == mk_ip_bits(route->dst.ip.family) &&
	       route->installed.ifindex == overlay->devices.host_ifindex &&
	       !is_in_range(family, &route->dst.ip);
}

/* Offer routes of an earlier agent, which knew whether flows still need them. */
static void offer_left_vips(struct mk_overlay *overlay)
{
	struct overlay_route *route, *next;

	HASH_ITER(hh, overlay->routes, route, next)
		if (is_left_vip(overlay, route))
			overlay->left_vip(overlay->left_vip_ctx, &route->dst.ip);
}

/* ---- synchronisation ------------------------------------------------------------------------- */

/* Make FDB and neighbour entries first: a route without them would lead nowhere. */
static int sync_all(struct mk_overlay *overlay, bool complete, unsigned int *changes,
		    struct mk_error *err)
{
	bool nodes =
		overlay->peers_changed || overlay->refresh || complete != overlay->was_complete;
	int ret = 0;

	if (overlay->refresh)
		ret = refresh_routes(overlay, err);
	if (ret == 0 && nodes)
		ret = wireguard_sync(overlay, complete, changes, err);
	if (ret == 0 && nodes)
		ret = overlay_put_neighbours(overlay, changes, err);
	if (ret == 0 && nodes)
		ret = overlay_use_links(overlay, err);
	if (ret == 0 && nodes)
		ret = want_node_routes(overlay, err);
	if (ret == 0 && complete && !overlay->was_complete && overlay->left_vip)
		offer_left_vips(overlay);
	if (ret == 0)
		ret = sync_routes(overlay, nodes || overlay->ranges_changed, complete, changes,
				  err);
	if (ret == 0 && nodes && complete)
		ret = overlay_prune_neighbours(overlay, changes, err);
	return ret;
}

int mk_overlay_sync(struct mk_overlay *overlay, bool complete, unsigned int *changes,
		    struct mk_error *err)
{
	int ret = sync_all(overlay, complete, changes, err);

	overlay->refresh = ret < 0;
	if (ret < 0)
		return mk_error_wrap(err, "overlay");
	overlay->peers_changed = false;
	overlay->ranges_changed = false;
	overlay->was_complete = complete;
	for (size_t i = 0; complete && i < MK_FAMILIES; i++)
		overlay->families[i].forgotten = false;
	return 0;
}
