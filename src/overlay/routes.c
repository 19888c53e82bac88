// SPDX-License-Identifier: Apache-2.0
/* Routes to other nodes and into the datapath, beside those of a routing daemon, which may have the
 * same destinations. */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/log.h"
#include "overlay/overlay_internal.h"

/* Better than those of BIRD (32) and FRR (20), and than MK_PROBE_METRIC. IPv4's default of 0 is the
 * best there. */
#define METRIC_IPV6 1

uint32_t overlay_metric(const struct mk_cidr *dst)
{
	return dst->ip.family == AF_INET6 ? METRIC_IPV6 : 0;
}

/* IPv6: the kernel takes no gateway behind one device while a route to it leads to another one. A
 * routing daemon may have such a route. So the gateway has a better one during the request. */
static int put_by_gateway(const struct mk_overlay *overlay, const struct mk_nl_route *route,
			  struct mk_error *err)
{
	const struct mk_nl_route gateway = {
		.dst = { route->gateway, (uint8_t)mk_ip_bits(route->gateway.family) },
		.ifindex = route->ifindex,
		.protocol = MK_RTPROT,
		.metric = METRIC_IPV6,
	};
	int ret = mk_nl_route_put(overlay->nl, &gateway, err), deleted;

	if (ret < 0)
		return ret;
	ret = mk_nl_route_put(overlay->nl, route, err);
	deleted = mk_nl_route_delete(overlay->nl, &gateway, ret < 0 ? NULL : err);
	return ret < 0 ? ret : deleted;
}

/* Add or replace, whatever other routes there are to the gateway. */
static int write_route(const struct mk_overlay *overlay, const struct mk_nl_route *route,
		       struct mk_error *err)
{
	int ret = mk_nl_route_put(overlay->nl, route, err);

	if (ret != -EINVAL || route->gateway.family != AF_INET6)
		return ret;
	return put_by_gateway(overlay, route, err);
}

/* ---- the table of routes --------------------------------------------------------------------- */

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

bool mk_overlay_has_route(const struct mk_overlay *overlay, const struct mk_cidr *dst)
{
	const struct route_key key = key_of(dst, overlay_metric(dst));
	struct overlay_route *route;

	HASH_FIND(hh, overlay->routes, &key, sizeof(key), route);
	return route && route->was_made;
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

static const struct overlay_family *family_of_route(const struct mk_overlay *overlay,
						    const struct mk_cidr *dst)
{
	return &overlay->families[mk_family_index(dst->ip.family)];
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

/* ---- wanted routes --------------------------------------------------------------------------- */

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

int overlay_want_routes(struct mk_overlay *overlay, struct mk_error *err)
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

/* ---- writing --------------------------------------------------------------------------------- */

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
	ret = write_route(overlay, &route->wanted, err);
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

int overlay_sync_routes(struct mk_overlay *overlay, bool all, bool complete, unsigned int *changes,
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

/* ---- reading --------------------------------------------------------------------------------- */

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

int overlay_read_routes(struct mk_overlay *overlay, struct mk_error *err)
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

void overlay_offer_left_vips(struct mk_overlay *overlay)
{
	struct overlay_route *route, *next;

	HASH_ITER(hh, overlay->routes, route, next)
		if (is_left_vip(overlay, route))
			overlay->left_vip(overlay->left_vip_ctx, &route->dst.ip);
}
