// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <stdlib.h>

#include "agent/agent_internal.h"
#include "base/cleanup.h"

struct list {
	struct mk_ip *ips;
	size_t count, room;
	struct mk_error *err;
};

static int see_local(void *ctx, int ifindex, const struct mk_cidr *addr)
{
	struct list *list = ctx;

	(void)ifindex;
	if (ntohl(addr->ip.v4.s_addr) >> 24 == 127)
		return 0;
	if (list->count == list->room) {
		size_t room = list->room ? list->room * 2 : 16;
		struct mk_ip *bigger = realloc(list->ips, room * sizeof(*bigger));

		if (!bigger)
			return mk_error_errno(list->err, ENOMEM, "cannot list addresses");
		list->ips = bigger;
		list->room = room;
	}
	list->ips[list->count++] = addr->ip;
	return 0;
}

int agent_local_addresses(struct mk_nl *nl, struct mk_ip **ips, size_t *count, struct mk_error *err)
{
	struct list list = { .err = err };
	int ret = mk_nl_each_addr(nl, AF_INET, see_local, &list, err);

	if (ret < 0) {
		free(list.ips);
		return ret;
	}
	*ips = list.ips;
	*count = list.count;
	mk_ips_sort(list.ips, count); /* an address may be on several devices */
	return 0;
}

struct search {
	const struct mk_ip *ip;
	int ifindex;
};

static int see_holder(void *ctx, int ifindex, const struct mk_cidr *addr)
{
	struct search *search = ctx;

	if (mk_ip_equal(&addr->ip, search->ip))
		search->ifindex = ifindex;
	return 0;
}

int agent_interface_of(struct mk_nl *nl, const struct mk_ip *ip, int *ifindex, struct mk_error *err)
{
	struct search search = { .ip = ip };
	char text[MK_IP_STRLEN];
	int ret = mk_nl_each_addr(nl, AF_INET, see_holder, &search, err);

	if (ret < 0)
		return ret;
	if (search.ifindex == 0)
		return mk_error_set(err, ENODEV, "no interface has the address %s",
				    mk_ip_format(ip, text));
	*ifindex = search.ifindex;
	return 0;
}
