// SPDX-License-Identifier: Apache-2.0
/* Removes what the overlay made on the host, or renames its device. */
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "config/config.h"
#include "overlay/overlay_internal.h"

struct routes {
	struct mk_nl_route *list;
	size_t count;
	struct mk_error *err;
};

static int see_route(void *ctx, const struct mk_nl_route *route)
{
	struct routes *routes = ctx;
	struct mk_nl_route *added;

	if (route->protocol != MK_RTPROT)
		return 0;
	added = mk_append(routes->list, routes->count);
	if (!added)
		return mk_error_errno(routes->err, ENOMEM, "cannot list the routes");
	*added = *route;
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

int mk_overlay_remove(struct mk_nl *nl, const char *const *vxlan_names, size_t vxlan_count,
		      unsigned int *removed, struct mk_error *err)
{
	int ret = remove_routes(nl, AF_INET, removed, err);

	ret = ret ?: remove_routes(nl, AF_INET6, removed, err);
	for (size_t i = 0; ret == 0 && i < vxlan_count; i++)
		ret = remove_link(nl, vxlan_names[i], "vxlan", removed, err);
	ret = ret ?: wireguard_remove(nl, removed, err);
	return ret ?: remove_link(nl, MK_HOST_VETH, "veth", removed, err);
}

/* ---- another name ---------------------------------------------------------------------------- */

/* Returns 1 if @former is such a device, and @name is free. */
static int may_rename(struct mk_nl *nl, const char *former, const char *name, uint32_t id,
		      struct mk_link *link, struct mk_error *err)
{
	struct mk_link taken;
	int ret = mk_nl_link_get(nl, name, &taken, err);

	if (ret != -ENODEV)
		return ret;
	ret = mk_nl_link_get(nl, former, link, err);
	if (ret < 0)
		return ret == -ENODEV ? 0 : ret;
	return strcmp(link->kind, "vxlan") == 0 && link->vxlan_id == id;
}

int mk_overlay_rename(struct mk_nl *nl, const char *former, const char *name, uint32_t id,
		      struct mk_error *err)
{
	const struct mk_link_change down = { .clear_flags = IFF_UP }, change = { .name = name };
	struct mk_link link;
	int ret = may_rename(nl, former, name, id, &link, err);

	if (ret <= 0)
		return ret;
	ret = mk_nl_link_change(nl, link.ifindex, &change, err);
	if (ret == -EBUSY)
		ret = mk_nl_link_change(nl, link.ifindex, &down, err)
			      ?: mk_nl_link_change(nl, link.ifindex, &change, err);
	if (ret == 0)
		mk_log_info("VXLAN device has another name now former=%s name=%s", former, name);
	return ret;
}

/* ---- one family ------------------------------------------------------------------------------ */

/* Addresses of a device, or its permanent neighbours. */
struct entries {
	struct mk_cidr *list;
	size_t count;
	int ifindex;
	struct mk_error *err;
};

static int add_entry(struct entries *entries, const struct mk_cidr *cidr)
{
	struct mk_cidr *added = mk_append(entries->list, entries->count);

	if (!added)
		return mk_error_errno(entries->err, ENOMEM, "cannot list a device's addresses");
	*added = *cidr;
	return 0;
}

static int see_addr(void *ctx, const struct mk_nl_addr *addr)
{
	struct entries *entries = ctx;

	return addr->ifindex == entries->ifindex ? add_entry(entries, &addr->cidr) : 0;
}

static int see_neighbour(void *ctx, const struct mk_ip *ip, const struct mk_mac *mac,
			 bool permanent)
{
	const struct mk_cidr cidr = { .ip = *ip };

	(void)mac;
	return permanent ? add_entry(ctx, &cidr) : 0;
}

/* A device that does not exist has nothing. */
static int clear_device(struct mk_nl *nl, const char *name, sa_family_t family,
			unsigned int *removed, struct mk_error *err)
{
	struct entries addrs = { .err = err }, neighbours = { .err = err };
	struct mk_link link;
	int ret = mk_nl_link_get(nl, name, &link, err);

	if (ret < 0)
		return ret == -ENODEV ? 0 : ret;
	addrs.ifindex = link.ifindex;
	ret = mk_nl_each_addr(nl, family, see_addr, &addrs, err);
	ret = ret ?: mk_nl_each_neigh(nl, family, link.ifindex, see_neighbour, &neighbours, err);
	for (size_t i = 0; ret >= 0 && i < addrs.count; i++, ++*removed)
		ret = mk_nl_addr_delete(nl, link.ifindex, &addrs.list[i], err);
	for (size_t i = 0; ret >= 0 && i < neighbours.count; i++, ++*removed)
		ret = mk_nl_neigh_delete(nl, link.ifindex, &neighbours.list[i].ip, err);
	free(addrs.list);
	free(neighbours.list);
	return ret < 0 ? ret : 0;
}

int mk_overlay_remove_family(struct mk_nl *nl, const char *vxlan_name, sa_family_t family,
			     unsigned int *removed, struct mk_error *err)
{
	int ret = remove_routes(nl, family, removed, err);

	ret = ret ?: clear_device(nl, vxlan_name, family, removed, err);
	return ret ?: clear_device(nl, MK_HOST_VETH, family, removed, err);
}
