// SPDX-License-Identifier: Apache-2.0
#include "base/netlink/netlink.h"

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>

#include "base/netlink/request.h"

/* ---- addresses ------------------------------------------------------------------------------- */

static int change_addr(struct mk_nl *nl, int type, int flags, int ifindex,
		       const struct mk_cidr *addr, struct mk_error *err)
{
	const struct ifaddrmsg header = {
		.ifa_family = (uint8_t)addr->ip.family,
		.ifa_prefixlen = addr->prefix_bits,
		.ifa_index = (uint32_t)ifindex,
	};
	cleanup_nlmsg struct nl_msg *msg = nlmsg_new(type, flags, &header, sizeof(header));

	if (msg && (nlmsg_put_ip(msg, IFA_LOCAL, &addr->ip) < 0 ||
		    nlmsg_put_ip(msg, IFA_ADDRESS, &addr->ip) < 0))
		return mk_error_errno(err, ENOMEM, "netlink request");
	return nl_request(nl, msg, err);
}

int mk_nl_addr_add(struct mk_nl *nl, int ifindex, const struct mk_cidr *addr, struct mk_error *err)
{
	int ret = change_addr(nl, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, ifindex, addr, err);
	char text[MK_CIDR_STRLEN];

	if (ret == 0 || ret == -EEXIST)
		return 0;
	return nl_wrap(ret, err, "cannot add address %s to interface number %d",
		       mk_cidr_format(addr, text), ifindex);
}

int mk_nl_addr_delete(struct mk_nl *nl, int ifindex, const struct mk_cidr *addr,
		      struct mk_error *err)
{
	int ret = change_addr(nl, RTM_DELADDR, 0, ifindex, addr, err);
	char text[MK_CIDR_STRLEN];

	if (ret == 0 || ret == -EADDRNOTAVAIL)
		return 0;
	return nl_wrap(ret, err, "cannot delete address %s from interface number %d",
		       mk_cidr_format(addr, text), ifindex);
}

struct addr_walk {
	int (*visit)(void *ctx, int ifindex, const struct mk_cidr *addr);
	void *ctx;
};

static int walk_addr(void *ctx, const struct nlmsghdr *reply)
{
	const struct addr_walk *walk = ctx;
	const struct ifaddrmsg *header;
	struct nlattr *attrs[IFA_MAX + 1];
	struct mk_cidr addr;

	if (reply->nlmsg_type != RTM_NEWADDR ||
	    nlmsg_parse((struct nlmsghdr *)reply, sizeof(*header), attrs, IFA_MAX, NULL) < 0)
		return 0;
	header = nlmsg_data(reply);
	addr.prefix_bits = header->ifa_prefixlen;
	/* on a point-to-point device IFA_ADDRESS is the other end; IPv6 may have only that */
	if (!nla_get_ip(attrs[IFA_LOCAL], &addr.ip) && !nla_get_ip(attrs[IFA_ADDRESS], &addr.ip))
		return 0;
	return walk->visit(walk->ctx, (int)header->ifa_index, &addr);
}

int mk_nl_each_addr(struct mk_nl *nl, sa_family_t family,
		    int (*visit)(void *ctx, int ifindex, const struct mk_cidr *addr), void *ctx,
		    struct mk_error *err)
{
	const struct ifaddrmsg header = { .ifa_family = (uint8_t)family };
	cleanup_nlmsg struct nl_msg *msg =
		nlmsg_new(RTM_GETADDR, NLM_F_DUMP, &header, sizeof(header));
	struct addr_walk walk = { .visit = visit, .ctx = ctx };

	return nl_query(nl, msg, walk_addr, &walk, err);
}

/* ---- routes ---------------------------------------------------------------------------------- */

static int put_route(struct nl_msg *msg, const struct mk_nl_route *route)
{
	struct nlattr *metrics;

	if (route->dst.prefix_bits && nlmsg_put_ip(msg, RTA_DST, &route->dst.ip) < 0)
		return -ENOMEM;
	if (route->gateway.family != AF_UNSPEC &&
	    nlmsg_put_ip(msg, RTA_GATEWAY, &route->gateway) < 0)
		return -ENOMEM;
	if (route->source.family != AF_UNSPEC && nlmsg_put_ip(msg, RTA_PREFSRC, &route->source) < 0)
		return -ENOMEM;
	if (route->ifindex)
		NLA_PUT_U32(msg, RTA_OIF, (uint32_t)route->ifindex);
	if (route->table)
		NLA_PUT_U32(msg, RTA_TABLE, route->table);
	if (route->mtu_bytes) {
		metrics = nla_nest_start(msg, RTA_METRICS);
		if (!metrics)
			return -ENOMEM;
		NLA_PUT_U32(msg, RTAX_MTU, route->mtu_bytes);
		nla_nest_end(msg, metrics);
	}
	return 0;
nla_put_failure:
	return -ENOMEM;
}

static int change_route(struct mk_nl *nl, int type, int flags, uint8_t scope,
			const struct mk_nl_route *route, struct mk_error *err)
{
	const struct rtmsg header = {
		.rtm_family = (uint8_t)route->dst.ip.family,
		.rtm_dst_len = route->dst.prefix_bits,
		.rtm_table = route->table ? RT_TABLE_UNSPEC : RT_TABLE_MAIN,
		.rtm_protocol = route->protocol,
		.rtm_scope = scope,
		.rtm_type = RTN_UNICAST,
		.rtm_flags = route->onlink ? RTNH_F_ONLINK : 0,
	};
	cleanup_nlmsg struct nl_msg *msg = nlmsg_new(type, flags, &header, sizeof(header));

	return nl_request(nl, msg && put_route(msg, route) == 0 ? msg : NULL, err);
}

int mk_nl_route_put(struct mk_nl *nl, const struct mk_nl_route *route, struct mk_error *err)
{
	uint8_t scope = route->gateway.family == AF_UNSPEC ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE;
	char dst[MK_CIDR_STRLEN], gateway[MK_IP_STRLEN];
	int ret = change_route(nl, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, scope, route, err);

	if (ret == 0)
		return 0;
	return nl_wrap(ret, err, "cannot set route to %s (gateway %s, interface number %d)",
		       mk_cidr_format(&route->dst, dst), mk_ip_format(&route->gateway, gateway),
		       route->ifindex);
}

int mk_nl_route_delete(struct mk_nl *nl, const struct mk_nl_route *route, struct mk_error *err)
{
	int ret = change_route(nl, RTM_DELROUTE, 0, RT_SCOPE_NOWHERE, route, err);
	char dst[MK_CIDR_STRLEN];

	/* ENODEV: the interface and its routes are gone */
	if (ret == 0 || ret == -ESRCH || ret == -ENODEV)
		return 0;
	return nl_wrap(ret, err, "cannot delete route to %s", mk_cidr_format(&route->dst, dst));
}

struct route_walk {
	uint32_t table;
	int (*visit)(void *ctx, const struct mk_nl_route *route);
	void *ctx;
};

static uint32_t route_mtu(struct nlattr *metrics)
{
	struct nlattr *attrs[RTAX_MAX + 1];

	if (!metrics || nla_parse_nested(attrs, RTAX_MAX, metrics, NULL) < 0 || !attrs[RTAX_MTU])
		return 0;
	return nla_get_u32(attrs[RTAX_MTU]);
}

static int walk_route(void *ctx, const struct nlmsghdr *reply)
{
	const struct route_walk *walk = ctx;
	struct nlattr *attrs[RTA_MAX + 1];
	struct mk_nl_route route = { 0 };
	const struct rtmsg *header;
	uint32_t table;

	if (reply->nlmsg_type != RTM_NEWROUTE ||
	    nlmsg_parse((struct nlmsghdr *)reply, sizeof(*header), attrs, RTA_MAX, NULL) < 0)
		return 0;
	header = nlmsg_data(reply);
	table = attrs[RTA_TABLE] ? nla_get_u32(attrs[RTA_TABLE]) : header->rtm_table;
	if (table != walk->table || header->rtm_type != RTN_UNICAST)
		return 0;
	route.table = table == RT_TABLE_MAIN ? 0 : table;
	nla_get_ip(attrs[RTA_DST], &route.dst.ip);
	route.dst.ip.family = header->rtm_family;
	route.dst.prefix_bits = header->rtm_dst_len;
	nla_get_ip(attrs[RTA_GATEWAY], &route.gateway);
	nla_get_ip(attrs[RTA_PREFSRC], &route.source);
	if (attrs[RTA_OIF])
		route.ifindex = (int)nla_get_u32(attrs[RTA_OIF]);
	route.onlink = (header->rtm_flags & RTNH_F_ONLINK) != 0;
	route.protocol = header->rtm_protocol;
	route.mtu_bytes = route_mtu(attrs[RTA_METRICS]);
	return walk->visit(walk->ctx, &route);
}

int mk_nl_each_route_of(struct mk_nl *nl, uint32_t table,
			int (*visit)(void *ctx, const struct mk_nl_route *route), void *ctx,
			struct mk_error *err)
{
	struct route_walk walk = { .table = table ? table : RT_TABLE_MAIN,
				   .visit = visit,
				   .ctx = ctx };
	const struct rtmsg header = {
		.rtm_family = AF_INET,
		.rtm_table = table ? RT_TABLE_UNSPEC : RT_TABLE_MAIN,
	};
	cleanup_nlmsg struct nl_msg *msg =
		nlmsg_new(RTM_GETROUTE, NLM_F_DUMP, &header, sizeof(header));
	int ret;

	if (msg && table && nla_put_u32(msg, RTA_TABLE, table) < 0)
		return mk_error_errno(err, ENOMEM, "netlink request");
	ret = nl_query(nl, msg, walk_route, &walk, err);
	return ret == -ENOENT ? 0 : ret; /* the table exists from its first route on */
}

int mk_nl_each_route(struct mk_nl *nl, int (*visit)(void *ctx, const struct mk_nl_route *route),
		     void *ctx, struct mk_error *err)
{
	return mk_nl_each_route_of(nl, 0, visit, ctx, err);
}
