// SPDX-License-Identifier: Apache-2.0
#include "overlay/overlay.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/cleanup.h"
#include "config/config.h"
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

static void free_peers(struct mk_overlay *overlay)
{
	for (size_t i = 0; i < overlay->peer_count; i++)
		free(overlay->peers[i].node);
	free(overlay->peers);
	overlay->peers = NULL;
	overlay->peer_count = 0;
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
	free_peers(overlay);
	free(overlay);
}

void mk_overlay_refresh(struct mk_overlay *overlay)
{
	overlay->refresh = true;
}

/* ---- what should be --------------------------------------------------------------------------- */

struct overlay_route *mk_overlay_route(struct mk_overlay *overlay, const struct mk_cidr *dst,
				       bool create)
{
	uint64_t key = (uint64_t)dst->ip.v4.s_addr << 8 | dst->prefix_bits;
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
	overlay->devices = *devices;
	overlay->own = *own;
	overlay->peers_changed = true;
}

int mk_overlay_set_peers(struct mk_overlay *overlay, const struct mk_overlay_plan *plan,
			 struct mk_error *err)
{
	struct mk_overlay_peer *peers =
		calloc(plan->peer_count ? plan->peer_count : 1, sizeof(*peers));

	if (!peers)
		return mk_error_errno(err, ENOMEM, "cannot keep the list of nodes");
	free_peers(overlay);
	overlay->peers = peers;
	for (size_t i = 0; i < plan->peer_count; i++) {
		peers[i] = plan->peers[i];
		peers[i].node = strdup(plan->peers[i].node);
		if (!peers[i].node)
			return mk_error_errno(err, ENOMEM, "cannot keep the list of nodes");
		overlay->peer_count = i + 1;
	}
	overlay->peers_changed = true;
	return 0;
}

int mk_overlay_vip_get(struct mk_overlay *overlay, const struct mk_ip *vip, struct mk_error *err)
{
	struct mk_cidr dst = { .ip = *vip, .prefix_bits = 32 };
	struct overlay_route *route = mk_overlay_route(overlay, &dst, true);

	if (!route)
		return mk_error_errno(err, ENOMEM, "cannot keep the Services' addresses");
	route->vip_users++;
	return 0;
}

void mk_overlay_vip_put(struct mk_overlay *overlay, const struct mk_ip *vip)
{
	struct mk_cidr dst = { .ip = *vip, .prefix_bits = 32 };
	struct overlay_route *route = mk_overlay_route(overlay, &dst, false);

	if (route && route->vip_users > 0)
		route->vip_users--;
}

/* ---- routes -------------------------------------------------------------------------------------- */

static struct mk_nl_route into_datapath(const struct mk_overlay *overlay, const struct mk_cidr *dst)
{
	return (struct mk_nl_route){
		.dst = *dst,
		.ifindex = overlay->devices.host_ifindex,
		.source = overlay->own.vtep,
		.protocol = MK_RTPROT,
	};
}

static struct mk_nl_route to_peer(const struct mk_overlay *overlay,
				  const struct mk_overlay_peer *peer)
{
	return (struct mk_nl_route){
		.dst = peer->pod_cidr,
		.ifindex = overlay->devices.overlay_ifindex,
		.gateway = peer->vtep,
		.source = overlay->own.vtep,
		.onlink = true,
		.protocol = MK_RTPROT,
	};
}

static int want_node_route(struct mk_overlay *overlay, const struct mk_nl_route *wanted,
			   struct mk_error *err)
{
	struct overlay_route *route = mk_overlay_route(overlay, &wanted->dst, true);

	if (!route)
		return mk_error_errno(err, ENOMEM, "cannot keep the routes");
	route->node = true;
	route->wanted = *wanted;
	return 0;
}

/* The own pod CIDR and every other node's. */
static int want_node_routes(struct mk_overlay *overlay, struct mk_error *err)
{
	struct mk_cidr own = mk_cidr_network(&overlay->own.pod_cidr);
	struct mk_nl_route wanted = into_datapath(overlay, &own);
	struct overlay_route *route, *next;
	int ret;

	HASH_ITER(hh, overlay->routes, route, next)
		route->node = false;
	ret = want_node_route(overlay, &wanted, err);
	for (size_t i = 0; ret == 0 && i < overlay->peer_count; i++) {
		wanted = to_peer(overlay, &overlay->peers[i]);
		ret = want_node_route(overlay, &wanted, err);
	}
	return ret;
}

static bool same_route(const struct mk_nl_route *a, const struct mk_nl_route *b)
{
	return mk_cidr_equal(&a->dst, &b->dst) && a->ifindex == b->ifindex &&
	       mk_ip_equal(&a->gateway, &b->gateway) && mk_ip_equal(&a->source, &b->source) &&
	       a->onlink == b->onlink && a->mtu_bytes == b->mtu_bytes;
}

static int put_route(struct mk_overlay *overlay, struct overlay_route *route, unsigned int *changes,
		     struct mk_error *err)
{
	int ret;

	if (!route->node)
		route->wanted = into_datapath(overlay, &route->dst);
	if (route->is_installed && same_route(&route->wanted, &route->installed))
		return 0;
	ret = mk_nl_route_put(overlay->nl, &route->wanted, err);
	if (ret < 0)
		return ret;
	route->installed = route->wanted;
	route->is_installed = true;
	(*changes)++;
	return 0;
}

static int sync_routes(struct mk_overlay *overlay, bool complete, unsigned int *changes,
		       struct mk_error *err)
{
	struct overlay_route *route, *next;
	int ret;

	HASH_ITER(hh, overlay->routes, route, next) {
		if (route->node || route->vip_users > 0) {
			ret = put_route(overlay, route, changes, err);
			if (ret < 0)
				return ret;
			continue;
		}
		if (!complete && route->is_installed)
			continue;
		if (route->is_installed) {
			ret = mk_nl_route_delete(overlay->nl, &route->installed, err);
			if (ret < 0)
				return ret;
			(*changes)++;
		}
		HASH_DEL(overlay->routes, route);
		free(route);
	}
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
	route = mk_overlay_route(reading->overlay, &found->dst, true);
	if (!route)
		return mk_error_errno(reading->err, ENOMEM, "cannot keep the routes");
	route->installed = *found;
	route->is_installed = true;
	return 0;
}

static int refresh_routes(struct mk_overlay *overlay, struct mk_error *err)
{
	struct reading reading = { .overlay = overlay, .err = err };
	struct overlay_route *route, *next;

	HASH_ITER(hh, overlay->routes, route, next)
		route->is_installed = false;
	return mk_nl_each_route(overlay->nl, read_route, &reading, err);
}

/* ---- the whole ------------------------------------------------------------------------------------- */

/* FDB and neighbour first: a route without them would send packets nowhere. */
static int sync_all(struct mk_overlay *overlay, bool complete, unsigned int *changes,
		    struct mk_error *err)
{
	bool nodes =
		overlay->peers_changed || overlay->refresh || complete != overlay->was_complete;
	int ret = 0;

	if (overlay->refresh)
		ret = refresh_routes(overlay, err);
	if (ret == 0 && nodes)
		ret = mk_overlay_put_neighbours(overlay, changes, err);
	if (ret == 0 && nodes)
		ret = want_node_routes(overlay, err);
	if (ret == 0)
		ret = sync_routes(overlay, complete, changes, err);
	if (ret == 0 && nodes && complete)
		ret = mk_overlay_prune_neighbours(overlay, changes, err);
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
	overlay->was_complete = complete;
	return 0;
}
