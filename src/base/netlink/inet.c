// SPDX-License-Identifier: Apache-2.0
/* Addresses and routes, by rtnetlink. */
#include "base/netlink/netlink.h"

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>

#include "base/netlink/request.h"

/* ---- addresses ------------------------------------------------------------------------------- */

/* As the kernel derives it for IPv6. An address of scope link is no source for other destinations:
 * masquerading at its interface takes another address. */
static uint8_t scope_of(const struct mk_ip *ip)
{
	const uint32_t link_local = 0xa9fe0000; /* 169.254.0.0/16 */

	if (ip->family == AF_INET && (ntohl(ip->v4.s_addr) & 0xffff0000) == link_local)
		return RT_SCOPE_LINK;
	return RT_SCOPE_UNIVERSE;
}

/* A deprecated address has a preferred lifetime of 0: the kernel does not choose it as a source. */
static int change_addr(struct mk_nl *nl, int type, int flags, const struct mk_nl_addr *addr,
		       struct mk_error *err)
{
	const struct ifaddrmsg header = {
		.ifa_family = (uint8_t)addr->cidr.ip.family,
		.ifa_prefixlen = addr->cidr.prefix_bits,
		.ifa_scope = scope_of(&addr->cidr.ip),
		.ifa_index = (uint32_t)addr->ifindex,
	};
	const struct ifa_cacheinfo deprecated = { .ifa_prefered = 0, .ifa_valid = UINT32_MAX };
	struct nl_msg *msg = nlmsg_new(type, flags, &header, sizeof(header));

	nl_put_ip(msg, IFA_LOCAL, &addr->cidr.ip);
	nl_put_ip(msg, IFA_ADDRESS, &addr->cidr.ip);
	if (addr->flags & IFA_F_NODAD)
		NL_PUT(msg, IFA_FLAGS, uint32_t, IFA_F_NODAD);
	if (addr->flags & IFA_F_DEPRECATED)
		nl_put(msg, IFA_CACHEINFO, &deprecated, sizeof(deprecated));
	return nl_request(nl, msg, err);
}

int mk_nl_addr_add(struct mk_nl *nl, const struct mk_nl_addr *addr, struct mk_error *err)
{
	int exists = addr->cidr.ip.family == AF_INET ? NLM_F_EXCL : NLM_F_REPLACE;
	int ret = change_addr(nl, RTM_NEWADDR, NLM_F_CREATE | exists, addr, err);
	char text[MK_CIDR_STRLEN];

	if (ret == -EEXIST)
		return 0;
	return nl_wrap(ret, err, "cannot add address %s to interface number %d",
		       mk_cidr_format(&addr->cidr, text), addr->ifindex);
}

int mk_nl_addr_delete(struct mk_nl *nl, int ifindex, const struct mk_cidr *addr,
		      struct mk_error *err)
{
	const struct mk_nl_addr gone = { .ifindex = ifindex, .cidr = *addr };
	int ret = change_addr(nl, RTM_DELADDR, 0, &gone, err);
	char text[MK_CIDR_STRLEN];

	if (ret == -EADDRNOTAVAIL)
		return 0;
	return nl_wrap(ret, err, "cannot delete address %s from interface number %d",
		       mk_cidr_format(addr, text), ifindex);
}

struct addr_walk {
	sa_family_t family;
	int (*visit)(void *ctx, const struct mk_nl_addr *addr);
	void *ctx;
};

static int walk_addr(void *ctx, const void *reply, struct nlattr **attrs)
{
	const struct ifaddrmsg *header = reply;
	const struct addr_walk *walk = ctx;
	struct ifa_cacheinfo life = { .ifa_prefered = UINT32_MAX, .ifa_valid = UINT32_MAX };
	struct mk_nl_addr addr = {
		.ifindex = (int)header->ifa_index,
		.cidr.prefix_bits = header->ifa_prefixlen,
		.flags = attrs[IFA_FLAGS] ? nl_u32(attrs[IFA_FLAGS]) : header->ifa_flags,
	};

	/* a kernel without IPv6 answers with the addresses of all families that it has */
	if (header->ifa_family != walk->family)
		return 0;
	/* on a point-to-point device IFA_ADDRESS is the other end; IPv6 may have only that */
	if (!nl_ip(attrs[IFA_LOCAL], &addr.cidr.ip) && !nl_ip(attrs[IFA_ADDRESS], &addr.cidr.ip))
		return 0;
	if (attrs[IFA_CACHEINFO])
		nla_memcpy(&life, attrs[IFA_CACHEINFO], sizeof(life));
	addr.preferred_s = life.ifa_prefered;
	addr.valid_s = life.ifa_valid;
	return walk->visit(walk->ctx, &addr);
}

int mk_nl_each_addr(struct mk_nl *nl, sa_family_t family,
		    int (*visit)(void *ctx, const struct mk_nl_addr *addr), void *ctx,
		    struct mk_error *err)
{
	const struct ifaddrmsg header = { .ifa_family = (uint8_t)family };
	struct nl_msg *msg = nlmsg_new(RTM_GETADDR, NLM_F_DUMP, &header, sizeof(header));
	struct addr_walk walk = { .family = family, .visit = visit, .ctx = ctx };

	return nl_query(nl, msg, sizeof(header), walk_addr, &walk, err);
}

/* ---- routes: changing ------------------------------------------------------------------------ */

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
	struct nl_msg *msg = nlmsg_new(type, flags, &header, sizeof(header));
	struct nlattr *metrics;

	if (route->dst.prefix_bits)
		nl_put_ip(msg, RTA_DST, &route->dst.ip);
	nl_put_ip(msg, RTA_GATEWAY, &route->gateway);
	nl_put_ip(msg, RTA_PREFSRC, &route->source);
	if (route->ifindex)
		NL_PUT(msg, RTA_OIF, uint32_t, (uint32_t)route->ifindex);
	if (route->table)
		NL_PUT(msg, RTA_TABLE, uint32_t, route->table);
	if (route->metric)
		NL_PUT(msg, RTA_PRIORITY, uint32_t, route->metric);
	if (route->mtu_bytes) {
		metrics = nl_begin(msg, RTA_METRICS);
		NL_PUT(msg, RTAX_MTU, uint32_t, route->mtu_bytes);
		nl_end(msg, metrics);
	}
	return nl_request(nl, msg, err);
}

int mk_nl_route_put(struct mk_nl *nl, const struct mk_nl_route *route, struct mk_error *err)
{
	uint8_t scope = route->gateway.family == AF_UNSPEC ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE;
	int ret = change_route(nl, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, scope, route, err);
	char dst[MK_CIDR_STRLEN], gateway[MK_IP_STRLEN];

	return nl_wrap(ret, err, "cannot set route to %s (gateway %s, interface number %d)",
		       mk_cidr_format(&route->dst, dst), mk_ip_format(&route->gateway, gateway),
		       route->ifindex);
}

int mk_nl_route_delete(struct mk_nl *nl, const struct mk_nl_route *route, struct mk_error *err)
{
	int ret = change_route(nl, RTM_DELROUTE, 0, RT_SCOPE_NOWHERE, route, err);
	char dst[MK_CIDR_STRLEN];

	/* ENODEV: the interface and its routes are gone */
	if (ret == -ESRCH || ret == -ENODEV)
		return 0;
	return nl_wrap(ret, err, "cannot delete route to %s", mk_cidr_format(&route->dst, dst));
}

/* ---- routes: reading ------------------------------------------------------------------------- */

/* An IPv4 route may have a gateway of IPv6 (RFC 8950). */
static bool nl_via(const struct nlattr *attr, struct mk_ip *ip)
{
	const struct rtvia *via = attr ? nla_data(attr) : NULL;

	if (!attr || nla_len(attr) < (int)(sizeof(*via) + sizeof(ip->v6)) ||
	    via->rtvia_family != AF_INET6)
		return false;
	ip->family = AF_INET6;
	memcpy(&ip->v6, via->rtvia_addr, sizeof(ip->v6));
	return true;
}

static struct mk_nl_route parse_route(const struct rtmsg *header, struct nlattr **attrs)
{
	struct nlattr *metrics[NL_ATTRS];
	struct mk_nl_route route = {
		.table = attrs[RTA_TABLE] ? nl_u32(attrs[RTA_TABLE]) : header->rtm_table,
		.type = header->rtm_type,
		.protocol = header->rtm_protocol,
		.onlink = (header->rtm_flags & RTNH_F_ONLINK) != 0,
		.encapsulated = attrs[RTA_ENCAP_TYPE] != NULL,
		.several = attrs[RTA_MULTIPATH] != NULL,
		.ifindex = (int)nl_u32(attrs[RTA_OIF]),
		.metric = nl_u32(attrs[RTA_PRIORITY]),
		.dst.prefix_bits = header->rtm_dst_len,
	};

	nl_ip(attrs[RTA_DST], &route.dst.ip);
	route.dst.ip.family = header->rtm_family;
	if (!nl_ip(attrs[RTA_GATEWAY], &route.gateway))
		nl_via(attrs[RTA_VIA], &route.gateway);
	nl_ip(attrs[RTA_PREFSRC], &route.source);
	nl_nested(attrs[RTA_METRICS], metrics);
	route.mtu_bytes = nl_u32(metrics[RTAX_MTU]);
	return route;
}

struct route_walk {
	sa_family_t family;
	uint32_t table;
	int (*visit)(void *ctx, const struct mk_nl_route *route);
	void *ctx;
};

static int walk_route(void *ctx, const void *reply, struct nlattr **attrs)
{
	const struct route_walk *walk = ctx;
	struct mk_nl_route route = parse_route(reply, attrs);

	if (route.dst.ip.family != walk->family || route.table != walk->table ||
	    route.type != RTN_UNICAST)
		return 0;
	if (route.table == RT_TABLE_MAIN)
		route.table = 0;
	return walk->visit(walk->ctx, &route);
}

/* @table 0: all tables. */
static int dump_routes(struct mk_nl *nl, uint32_t table, nl_visit_fn *visit,
		       struct route_walk *walk, struct mk_error *err)
{
	const struct rtmsg header = { .rtm_family = (uint8_t)walk->family };
	struct nl_msg *msg = nlmsg_new(RTM_GETROUTE, NLM_F_DUMP, &header, sizeof(header));
	int ret;

	if (table)
		NL_PUT(msg, RTA_TABLE, uint32_t, table);
	ret = nl_query(nl, msg, sizeof(header), visit, walk, err);
	return ret == -ENOENT ? 0 : ret; /* a table exists from its first route on */
}

int mk_nl_each_route_of(struct mk_nl *nl, sa_family_t family, uint32_t table,
			int (*visit)(void *ctx, const struct mk_nl_route *route), void *ctx,
			struct mk_error *err)
{
	struct route_walk walk = { family, table ? table : RT_TABLE_MAIN, visit, ctx };

	return dump_routes(nl, walk.table, walk_route, &walk, err);
}

int mk_nl_each_route(struct mk_nl *nl, sa_family_t family,
		     int (*visit)(void *ctx, const struct mk_nl_route *route), void *ctx,
		     struct mk_error *err)
{
	return mk_nl_each_route_of(nl, family, 0, visit, ctx, err);
}

/* Visit the next hops one by one: each has its own header and attributes. */
static int walk_hops(const struct route_walk *walk, struct mk_nl_route *route, struct nlattr *hops)
{
	struct rtnexthop *hop = nla_data(hops);
	int left = nla_len(hops), ret = 0;

	while (ret == 0 && RTNH_OK(hop, left)) {
		route->ifindex = hop->rtnh_ifindex;
		ret = walk->visit(walk->ctx, route);
		left -= (int)RTNH_ALIGN(hop->rtnh_len);
		hop = RTNH_NEXT(hop);
	}
	return ret;
}

static int walk_way(void *ctx, const void *reply, struct nlattr **attrs)
{
	struct mk_nl_route route = parse_route(reply, attrs);
	const struct rtmsg *header = reply;
	const struct route_walk *walk = ctx;

	if (header->rtm_family != walk->family || route.table == RT_TABLE_LOCAL ||
	    header->rtm_flags & RTM_F_CLONED)
		return 0;
	if (attrs[RTA_MULTIPATH])
		return walk_hops(walk, &route, attrs[RTA_MULTIPATH]);
	return walk->visit(walk->ctx, &route);
}

int mk_nl_each_way(struct mk_nl *nl, sa_family_t family,
		   int (*visit)(void *ctx, const struct mk_nl_route *way), void *ctx,
		   struct mk_error *err)
{
	struct route_walk walk = { .family = family, .visit = visit, .ctx = ctx };

	return dump_routes(nl, 0, walk_way, &walk, err);
}

static int take_route(void *ctx, const void *reply, struct nlattr **attrs)
{
	*(struct mk_nl_route *)ctx = parse_route(reply, attrs);
	return 0;
}

int mk_nl_route_to(struct mk_nl *nl, const struct mk_ip *dest, struct mk_nl_route *route,
		   struct mk_error *err)
{
	const struct rtmsg header = { .rtm_family = (uint8_t)dest->family,
				      .rtm_dst_len = ip_bits(dest),
				      /* the kernel's IPv6 refuses the flag */
				      .rtm_flags =
					      dest->family == AF_INET ? RTM_F_LOOKUP_TABLE : 0 };
	struct nl_msg *msg = nlmsg_new(RTM_GETROUTE, 0, &header, sizeof(header));
	char text[MK_IP_STRLEN];

	*route = (struct mk_nl_route){ 0 };
	nl_put_ip(msg, RTA_DST, dest);
	return nl_wrap(nl_query(nl, msg, sizeof(header), take_route, route, err), err,
		       "the route to %s", mk_ip_format(dest, text));
}
