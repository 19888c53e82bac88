// SPDX-License-Identifier: Apache-2.0
#include "base/netlink/netlink.h"

#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>

#include "base/netlink/request.h"

#define PRIORITY 32000 /* before the kernel's rule for table main */

static int put_rule(struct nl_msg *msg, const struct mk_nl_rule *rule)
{
	if (nlmsg_put_ip(msg, FRA_SRC, &rule->from) < 0)
		return -ENOMEM;
	NLA_PUT_U32(msg, FRA_TABLE, rule->table);
	NLA_PUT_U32(msg, FRA_PRIORITY, PRIORITY);
	NLA_PUT_U8(msg, FRA_PROTOCOL, MK_RTPROT);
	return 0;
nla_put_failure:
	return -ENOMEM;
}

static int change_rule(struct mk_nl *nl, int type, int flags, const struct mk_nl_rule *rule,
		       struct mk_error *err)
{
	const struct fib_rule_hdr header = {
		.family = (uint8_t)rule->from.family,
		.src_len = ip_bits(&rule->from),
		.action = FR_ACT_TO_TBL,
	};
	cleanup_nlmsg struct nl_msg *msg = nlmsg_new(type, flags, &header, sizeof(header));

	return nl_request(nl, msg && put_rule(msg, rule) == 0 ? msg : NULL, err);
}

int mk_nl_rule_add(struct mk_nl *nl, const struct mk_nl_rule *rule, struct mk_error *err)
{
	int ret = change_rule(nl, RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, rule, err);
	char text[MK_IP_STRLEN];

	if (ret == 0 || ret == -EEXIST)
		return 0;
	return nl_wrap(ret, err, "cannot add a routing rule for source %s (table %u)",
		       mk_ip_format(&rule->from, text), rule->table);
}

struct rule_search {
	const struct mk_ip *from;
	uint32_t table; /* 0: not found */
};

static int see_rule(void *ctx, const struct nlmsghdr *reply)
{
	struct rule_search *search = ctx;
	struct nlattr *attrs[FRA_MAX + 1];
	const struct fib_rule_hdr *header;
	struct mk_ip from;

	if (reply->nlmsg_type != RTM_NEWRULE ||
	    nlmsg_parse((struct nlmsghdr *)reply, sizeof(*header), attrs, FRA_MAX, NULL) < 0)
		return 0;
	header = nlmsg_data(reply);
	if (!attrs[FRA_TABLE] || !attrs[FRA_PROTOCOL] ||
	    nla_get_u8(attrs[FRA_PROTOCOL]) != MK_RTPROT ||
	    header->src_len != ip_bits(search->from) || !nla_get_ip(attrs[FRA_SRC], &from) ||
	    !mk_ip_equal(&from, search->from))
		return 0;
	search->table = nla_get_u32(attrs[FRA_TABLE]);
	return 0;
}

int mk_nl_rule_get(struct mk_nl *nl, const struct mk_ip *from, uint32_t *table,
		   struct mk_error *err)
{
	const struct fib_rule_hdr header = { .family = (uint8_t)from->family };
	cleanup_nlmsg struct nl_msg *msg =
		nlmsg_new(RTM_GETRULE, NLM_F_DUMP, &header, sizeof(header));
	struct rule_search search = { .from = from };
	int ret = nl_query(nl, msg, see_rule, &search, err);
	char text[MK_IP_STRLEN];

	if (ret < 0)
		return nl_wrap(ret, err, "cannot list the routing rules");
	*table = search.table;
	return search.table ? 0
			    : mk_error_set(err, ENOENT, "no routing rule for source %s",
					   mk_ip_format(from, text));
}

int mk_nl_rule_delete(struct mk_nl *nl, const struct mk_ip *from, struct mk_error *err)
{
	struct mk_nl_rule rule = { .from = *from };
	char text[MK_IP_STRLEN];
	int ret;

	while ((ret = mk_nl_rule_get(nl, from, &rule.table, err)) == 0) {
		ret = change_rule(nl, RTM_DELRULE, 0, &rule, err);
		if (ret < 0 && ret != -ENOENT)
			return nl_wrap(ret, err, "cannot delete the routing rule for source %s",
				       mk_ip_format(from, text));
	}
	return ret == -ENOENT ? 0 : ret;
}
