// SPDX-License-Identifier: Apache-2.0
/* The host's routing as a whole: the ways of all its routes, and whether rules
 * choose among tables. */
#include "base/netlink/netlink.h"

#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "base/netlink/request.h"

/* ---- ways ------------------------------------------------------------------------------------ */

struct way_walk {
	int (*visit)(void *ctx, const struct mk_nl_way *way);
	void *ctx;
};

/* Visit the next hops one by one: each has its own header and attributes. */
static int walk_hops(const struct way_walk *walk, const struct mk_nl_way *way, struct nlattr *hops)
{
	struct rtnexthop *hop = nla_data(hops);
	int left = nla_len(hops), ret = 0;

	while (ret == 0 && RTNH_OK(hop, left)) {
		struct mk_nl_way one = *way;

		one.several = true;
		one.ifindex = hop->rtnh_ifindex;
		ret = walk->visit(walk->ctx, &one);
		left -= (int)RTNH_ALIGN(hop->rtnh_len);
		hop = RTNH_NEXT(hop);
	}
	return ret;
}

static int walk_way(void *ctx, const struct nlmsghdr *reply)
{
	const struct way_walk *walk = ctx;
	struct nlattr *attrs[RTA_MAX + 1];
	struct mk_nl_way way = { 0 };
	const struct rtmsg *header;

	if (reply->nlmsg_type != RTM_NEWROUTE ||
	    nlmsg_parse((struct nlmsghdr *)reply, sizeof(*header), attrs, RTA_MAX, NULL) < 0)
		return 0;
	header = nlmsg_data(reply);
	way.table = attrs[RTA_TABLE] ? nla_get_u32(attrs[RTA_TABLE]) : header->rtm_table;
	if (way.table == RT_TABLE_LOCAL || header->rtm_flags & RTM_F_CLONED)
		return 0;
	way.type = header->rtm_type;
	way.protocol = header->rtm_protocol;
	way.encapsulated = attrs[RTA_ENCAP_TYPE] != NULL;
	nla_get_ip(attrs[RTA_DST], &way.dst.ip);
	way.dst.ip.family = header->rtm_family;
	way.dst.prefix_bits = header->rtm_dst_len;
	nla_get_ip(attrs[RTA_PREFSRC], &way.source);
	if (attrs[RTA_MULTIPATH])
		return walk_hops(walk, &way, attrs[RTA_MULTIPATH]);
	if (attrs[RTA_OIF])
		way.ifindex = (int)nla_get_u32(attrs[RTA_OIF]);
	return walk->visit(walk->ctx, &way);
}

int mk_nl_each_way(struct mk_nl *nl, int (*visit)(void *ctx, const struct mk_nl_way *way),
		   void *ctx, struct mk_error *err)
{
	const struct rtmsg header = { .rtm_family = AF_INET };
	cleanup_nlmsg struct nl_msg *msg =
		nlmsg_new(RTM_GETROUTE, NLM_F_DUMP, &header, sizeof(header));
	struct way_walk walk = { .visit = visit, .ctx = ctx };
	int ret = nl_query(nl, msg, walk_way, &walk, err);

	return ret == -ENOENT ? 0 : ret; /* a table exists from its first route on */
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* Is it one of the kernel's own three: table local for all, then main, then default? */
static bool is_usual_rule(const struct fib_rule_hdr *header, struct nlattr **attrs)
{
	static const struct {
		uint32_t priority, table;
	} usual[] = { { 0, RT_TABLE_LOCAL },
		      { 32766, RT_TABLE_MAIN },
		      { 32767, RT_TABLE_DEFAULT } };
	uint32_t priority = attrs[FRA_PRIORITY] ? nla_get_u32(attrs[FRA_PRIORITY]) : 0;
	uint32_t table = attrs[FRA_TABLE] ? nla_get_u32(attrs[FRA_TABLE]) : header->table;

	if (header->action != FR_ACT_TO_TBL || header->src_len || header->dst_len || header->tos ||
	    header->flags & FIB_RULE_INVERT || attrs[FRA_IIFNAME] || attrs[FRA_OIFNAME] ||
	    attrs[FRA_FWMARK] || attrs[FRA_IP_PROTO])
		return false;
	for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
		if (usual[i].priority == priority && usual[i].table == table)
			return true;
	return false;
}

static int walk_rule(void *ctx, const struct nlmsghdr *reply)
{
	struct nlattr *attrs[FRA_MAX + 1];
	bool *odd = ctx;

	if (reply->nlmsg_type == RTM_NEWRULE &&
	    nlmsg_parse((struct nlmsghdr *)reply, sizeof(struct fib_rule_hdr), attrs, FRA_MAX,
			NULL) == 0)
		*odd |= !is_usual_rule(nlmsg_data(reply), attrs);
	return 0;
}

int mk_nl_has_rules(struct mk_nl *nl, bool *has, struct mk_error *err)
{
	const struct fib_rule_hdr header = { .family = AF_INET };
	cleanup_nlmsg struct nl_msg *msg =
		nlmsg_new(RTM_GETRULE, NLM_F_DUMP, &header, sizeof(header));
	int ret;

	*has = false;
	ret = nl_query(nl, msg, walk_rule, has, err);
	return ret == -EOPNOTSUPP ? 0 : ret; /* a kernel without CONFIG_IP_MULTIPLE_TABLES */
}

/* ---- one destination ------------------------------------------------------------------------- */

static int take_match(void *ctx, const struct nlmsghdr *reply)
{
	struct nlattr *attrs[RTA_MAX + 1];
	struct mk_nl_route *route = ctx;
	const struct rtmsg *header;

	if (reply->nlmsg_type != RTM_NEWROUTE ||
	    nlmsg_parse((struct nlmsghdr *)reply, sizeof(*header), attrs, RTA_MAX, NULL) < 0)
		return 0;
	header = nlmsg_data(reply);
	*route = (struct mk_nl_route){ .dst.prefix_bits = header->rtm_dst_len,
				       .dst.ip.family = header->rtm_family,
				       .protocol = header->rtm_protocol };
	nla_get_ip(attrs[RTA_DST], &route->dst.ip);
	nla_get_ip(attrs[RTA_GATEWAY], &route->gateway);
	nla_get_ip(attrs[RTA_PREFSRC], &route->source);
	if (attrs[RTA_OIF])
		route->ifindex = (int)nla_get_u32(attrs[RTA_OIF]);
	return 0;
}

int mk_nl_route_to(struct mk_nl *nl, const struct mk_ip *dest, struct mk_nl_route *route,
		   struct mk_error *err)
{
	const struct rtmsg header = { .rtm_family = (uint8_t)dest->family,
				      .rtm_dst_len = 32,
				      .rtm_flags = RTM_F_LOOKUP_TABLE };
	cleanup_nlmsg struct nl_msg *msg = nlmsg_new(RTM_GETROUTE, 0, &header, sizeof(header));
	char text[MK_IP_STRLEN];
	int ret;

	*route = (struct mk_nl_route){ 0 };
	if (msg && nlmsg_put_ip(msg, RTA_DST, dest) < 0)
		return mk_error_errno(err, ENOMEM, "netlink request");
	ret = nl_query(nl, msg, take_match, route, err);
	return ret < 0 ? nl_wrap(ret, err, "the route to %s", mk_ip_format(dest, text)) : 0;
}
