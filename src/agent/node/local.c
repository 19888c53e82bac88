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
	list->list[list->count++] = (struct host_address){ addr->ifindex, addr->cidr };
	return 0;
}

int read_addresses(struct mk_nl *nl, struct host_address **addresses, size_t *count,
		   struct mk_error *err)
{
	struct list list = { .err = err };
	int ret = mk_nl_each_addr(nl, AF_INET, add, &list, err);

	*addresses = list.list;
	*count = list.count;
	return ret;
}

int local_addresses(struct mk_nl *nl, struct mk_ip **ips, size_t *count, struct mk_error *err)
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
		if (ntohl(all[i].addr.ip.v4.s_addr) >> 24 != 127)
			(*ips)[used++] = all[i].addr.ip;
	mk_ips_sort(*ips, &used); /* an address may be on several devices */
	*count = used;
	return 0;
}
