// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <stdlib.h>

#include "agent/node/node_internal.h"
#include "base/cleanup.h"

struct list {
	struct host_address *list;
	size_t count;
	struct mk_error *err;
};

static int add(void *ctx, const struct mk_nl_addr *addr)
{
	struct list *list = ctx;
	struct host_address *bigger = realloc(list->list, (list->count + 1) * sizeof(*list->list));

	if (!bigger)
		return mk_error_errno(list->err, ENOMEM, "cannot list addresses");
	list->list = bigger;
	list->list[list->count++] = (struct host_address){ addr->ifindex, addr->cidr, addr->flags };
	return 0;
}

int read_addresses(struct mk_nl *nl, struct host_address **addresses, size_t *count,
		   struct mk_error *err)
{
	struct list list = { .err = err };
	int ret = mk_nl_each_addr(nl, AF_INET, add, &list, err);

	ret = ret ?: mk_nl_each_addr(nl, AF_INET6, add, &list, err);

	*addresses = list.list;
	*count = list.count;
	return ret;
}

/* Every link has the same link-local network of IPv6, which no packet leaves. */
static bool is_of_one_link(const struct mk_ip *ip)
{
	if (ip->family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&ip->v6) || IN6_IS_ADDR_LINKLOCAL(&ip->v6);
	return ntohl(ip->v4.s_addr) >> 24 == 127;
}

int local_addresses(struct mk_nl *nl, sa_family_t family, struct mk_ip **ips, size_t *count,
		    struct mk_error *err)
{
	cleanup_free struct host_address *all = NULL;
	size_t all_count, used = 0;
	int ret = read_addresses(nl, &all, &all_count, err);

	if (ret < 0)
		return ret;
	*ips = calloc(all_count + 1, sizeof(**ips));
	if (!*ips)
		return mk_error_errno(err, ENOMEM, "cannot list addresses");
	for (size_t i = 0; i < all_count; i++)
		if (all[i].addr.ip.family == family && !is_of_one_link(&all[i].addr.ip))
			(*ips)[used++] = all[i].addr.ip;
	mk_ips_sort(*ips, &used); /* an address may be on several devices */
	*count = used;
	return 0;
}
