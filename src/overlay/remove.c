// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "overlay/overlay.h"

struct routes {
	struct mk_nl_route *list;
	size_t count;
	struct mk_error *err;
};

static int see_route(void *ctx, const struct mk_nl_route *route)
{
	struct routes *routes = ctx;
	struct mk_nl_route *bigger;

	if (route->protocol != MK_RTPROT)
		return 0;
	bigger = realloc(routes->list, (routes->count + 1) * sizeof(*bigger));
	if (!bigger)
		return mk_error_errno(routes->err, ENOMEM, "cannot list the routes");
	bigger[routes->count++] = *route;
	routes->list = bigger;
	return 0;
}

static int remove_routes(struct mk_nl *nl, sa_family_t family, unsigned int *removed,
			 struct mk_error *err)
{
	struct routes routes = { .err = err };
	int ret = mk_nl_each_route(nl, family, see_route, &routes, err);

	for (size_t i = 0; ret == 0 && i < routes.count; i++) {
		ret = mk_nl_route_delete(nl, &routes.list[i], err);
		(*removed)++;
	}
	free(routes.list);
	return ret;
}

static int remove_link(struct mk_nl *nl, const char *name, const char *kind, unsigned int *removed,
		       struct mk_error *err)
{
	struct mk_link link;
	int ret = mk_nl_link_get(nl, name, &link, err);

	if (ret == -ENODEV || (ret == 0 && strcmp(link.kind, kind) != 0))
		return 0;
	ret = ret ?: mk_nl_link_delete(nl, name, err);
	if (ret == 0)
		(*removed)++;
	return ret;
}

int mk_overlay_remove(struct mk_nl *nl, const char *vxlan_name, unsigned int *removed,
		      struct mk_error *err)
{
	int ret = remove_routes(nl, AF_INET, removed, err);

	ret = ret ?: remove_routes(nl, AF_INET6, removed, err);
	ret = ret ?: remove_link(nl, vxlan_name, "vxlan", removed, err);
	return ret ?: remove_link(nl, MK_HOST_VETH, "veth", removed, err);
}
