// SPDX-License-Identifier: Apache-2.0
/* Routing rules, by rtnetlink. */
#include "base/netlink/netlink.h"

#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>

#include "base/netlink/request.h"

#define PRIORITY 32000 /* before the kernel's rule for table main */

static int change_rule(struct mk_nl *nl, int type, int flags, const struct mk_nl_rule *rule,
		       struct mk_error *err)
{
	const struct fib_rule_hdr header = {
		.family = (uint8_t)(rule->family ?: rule->from.family),
		.src_len = rule->from.family == AF_UNSPEC ? 0 : ip_bits(&rule->from),
		.action = FR_ACT_TO_TBL,
		.flags = rule->finds_source ? FIB_RULE_FIND_SADDR : 0,
	};
	struct nl_msg *msg = nlmsg_new(type, flags, &header, sizeof(header));

	nl_put_ip(msg, FRA_SRC, &rule->from);
	if (rule->iif)
		nl_put_text(msg, FRA_IIFNAME, rule->iif);
	NL_PUT(msg, FRA_TABLE, uint32_t, rule->table);
	if (type == RTM_NEWRULE) /* a rule is deleted whatever its priority */
		NL_PUT(msg, FRA_PRIORITY, uint32_t, rule->priority ?: PRIORITY);
	NL_PUT(msg, FRA_PROTOCOL, uint8_t, MK_RTPROT);
	return nl_request(nl, msg, err);
}

int mk_nl_rule_add(struct mk_nl *nl, const struct mk_nl_rule *rule, struct mk_error *err)
{
	int ret = change_rule(nl, RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, rule, err);
	char text[MK_IP_STRLEN];

	if (ret == -EEXIST)
		return 0;
	return nl_wrap(ret, err, "cannot add a routing rule for source %s (table %u)",
		       mk_ip_format(&rule->from, text), rule->table);
}

static int dump_rules(struct mk_nl *nl, uint8_t family, nl_visit_fn *visit, void *ctx,
		      struct mk_error *err)
{
	const struct fib_rule_hdr header = { .family = family };
	struct nl_msg *msg = nlmsg_new(RTM_GETRULE, NLM_F_DUMP, &header, sizeof(header));

	return nl_wrap(nl_query(nl, msg, sizeof(header), visit, ctx, err), err,
		       "cannot list the routing rules");
}

struct rule_search {
	const struct mk_ip *from;
	uint32_t table; /* 0: not found */
};

static int see_rule(void *ctx, const void *reply, struct nlattr **attrs)
{
	const struct fib_rule_hdr *header = reply;
	struct rule_search *search = ctx;
	struct mk_ip from;

	if (attrs[FRA_TABLE] && attrs[FRA_PROTOCOL] &&
	    nla_get_u8(attrs[FRA_PROTOCOL]) == MK_RTPROT &&
	    header->src_len == ip_bits(search->from) && nl_ip(attrs[FRA_SRC], &from) &&
	    mk_ip_equal(&from, search->from))
		search->table = nl_u32(attrs[FRA_TABLE]);
	return 0;
}

int mk_nl_rule_get(struct mk_nl *nl, const struct mk_ip *from, uint32_t *table,
		   struct mk_error *err)
{
	struct rule_search search = { .from = from };
	int ret = dump_rules(nl, (uint8_t)from->family, see_rule, &search, err);
	char text[MK_IP_STRLEN];

	*table = search.table;
	if (ret == 0 && !search.table)
		return mk_error_set(err, ENOENT, "no routing rule for source %s",
				    mk_ip_format(from, text));
	return ret;
}

int mk_nl_rule_delete(struct mk_nl *nl, const struct mk_ip *from, struct mk_error *err)
{
	struct mk_nl_rule rule = { .from = *from };
	char text[MK_IP_STRLEN];
	int ret;

	while ((ret = mk_nl_rule_get(nl, from, &rule.table, err)) == 0) {
		ret = change_rule(nl, RTM_DELRULE, 0, &rule, err);
		if (ret < 0)
			return nl_wrap(ret, err, "cannot delete the routing rule for source %s",
				       mk_ip_format(from, text));
	}
	return ret == -ENOENT ? 0 : ret;
}

/* Is it one of the kernel's own: table local for all, then main, then (IPv4) default? */
static bool is_usual_rule(const struct fib_rule_hdr *header, struct nlattr **attrs)
{
	uint32_t priority = nl_u32(attrs[FRA_PRIORITY]);
	uint32_t table = attrs[FRA_TABLE] ? nl_u32(attrs[FRA_TABLE]) : header->table;

	if (header->action != FR_ACT_TO_TBL || header->src_len || header->dst_len || header->tos ||
	    header->flags & FIB_RULE_INVERT || attrs[FRA_IIFNAME] || attrs[FRA_OIFNAME] ||
	    attrs[FRA_FWMARK] || attrs[FRA_IP_PROTO])
		return false;
	return (priority == 0 && table == RT_TABLE_LOCAL) ||
	       (priority == 32766 && table == RT_TABLE_MAIN) ||
	       (priority == 32767 && table == RT_TABLE_DEFAULT);
}

static int see_unusual(void *ctx, const void *reply, struct nlattr **attrs)
{
	*(bool *)ctx |= !is_usual_rule(reply, attrs);
	return 0;
}

int mk_nl_has_rules(struct mk_nl *nl, sa_family_t family, bool *has, struct mk_error *err)
{
	int ret;

	*has = false;
	ret = dump_rules(nl, (uint8_t)family, see_unusual, has, err);
	/* a kernel without CONFIG_IP_MULTIPLE_TABLES, or without IPv6 */
	return ret == -EOPNOTSUPP || ret == -EAFNOSUPPORT ? 0 : ret;
}
