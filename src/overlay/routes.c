// SPDX-License-Identifier: Apache-2.0
/* Routes of monokube beside those of a routing daemon, which may have the same destinations. */
#include <errno.h>

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

int overlay_put_route(const struct mk_overlay *overlay, const struct mk_nl_route *route,
		      struct mk_error *err)
{
	int ret = mk_nl_route_put(overlay->nl, route, err);

	if (ret != -EINVAL || route->gateway.family != AF_INET6)
		return ret;
	return put_by_gateway(overlay, route, err);
}
