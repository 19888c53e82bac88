// SPDX-License-Identifier: Apache-2.0
#include "base/netlink/netlink.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "base/netlink/request.h"

int mk_nl_clsact_add(struct mk_nl *nl, int ifindex, struct mk_error *err)
{
	const struct tcmsg header = {
		.tcm_family = AF_UNSPEC,
		.tcm_ifindex = ifindex,
		.tcm_handle = TC_H_MAKE(TC_H_CLSACT, 0),
		.tcm_parent = TC_H_CLSACT,
	};
	cleanup_nlmsg struct nl_msg *msg =
		nlmsg_new(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, &header, sizeof(header));
	int ret = nl_request(nl, msg && nla_put_string(msg, TCA_KIND, "clsact") == 0 ? msg : NULL,
			     err);

	if (ret == 0 || ret == -EEXIST)
		return 0;
	return nl_wrap(ret, err, "cannot add a clsact qdisc to interface number %d", ifindex);
}

/* ---- limits ---------------------------------------------------------------------------------- */

int nl_qdisc_failed(int ret, const char *kind, int ifindex, struct mk_error *err)
{
	if (ret == -ENOENT || ret == -EOPNOTSUPP)
		return mk_error_set(
			err, ENOENT,
			"the kernel has no qdisc '%s', which limits the rate of interface "
			"number %d: load module sch_%s (CONFIG_NET_SCH_*), or set no "
			"bandwidth for the pod",
			kind, ifindex, kind);
	return nl_wrap(ret, err, "cannot set qdisc '%s' at interface number %d", kind, ifindex);
}

static int put_tbf(struct nl_msg *msg, const struct mk_nl_tbf *tbf)
{
	const struct tc_tbf_qopt parms = {
		.rate = { .linklayer = TC_LINKLAYER_ETHERNET,
			  .rate = tbf->rate_bytes < UINT32_MAX ? (uint32_t)tbf->rate_bytes
							       : UINT32_MAX },
		.limit = tbf->limit_bytes,
	};
	struct nlattr *options;

	NLA_PUT_STRING(msg, TCA_KIND, MK_NL_TBF);
	options = nla_nest_start(msg, TCA_OPTIONS);
	if (!options)
		return -ENOMEM;
	NLA_PUT(msg, TCA_TBF_PARMS, sizeof(parms), &parms);
	NLA_PUT_U32(msg, TCA_TBF_BURST, tbf->burst_bytes);
	if (tbf->rate_bytes >= UINT32_MAX)
		NLA_PUT_U64(msg, TCA_TBF_RATE64, tbf->rate_bytes);
	nla_nest_end(msg, options);
	return 0;
nla_put_failure:
	return -ENOMEM;
}

int mk_nl_tbf_put(struct mk_nl *nl, int ifindex, const struct mk_nl_tbf *tbf, struct mk_error *err)
{
	const struct tcmsg header = {
		.tcm_family = AF_UNSPEC,
		.tcm_ifindex = ifindex,
		.tcm_handle = TC_H_MAKE(1 << 16, 0),
		.tcm_parent = TC_H_ROOT,
	};
	cleanup_nlmsg struct nl_msg *msg =
		nlmsg_new(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, &header, sizeof(header));
	int ret = nl_request(nl, msg && put_tbf(msg, tbf) == 0 ? msg : NULL, err);

	return ret < 0 ? nl_qdisc_failed(ret, MK_NL_TBF, ifindex, err) : 0;
}

struct tbf_search {
	int ifindex;
	bool found;
	struct mk_nl_tbf *tbf;
};

static bool parse_tbf(struct nlattr *options, struct mk_nl_tbf *tbf)
{
	struct nlattr *attrs[TCA_TBF_MAX + 1];
	struct tc_tbf_qopt parms;

	if (!options || nla_parse_nested(attrs, TCA_TBF_MAX, options, NULL) < 0 ||
	    !attrs[TCA_TBF_PARMS] ||
	    nla_memcpy(&parms, attrs[TCA_TBF_PARMS], sizeof(parms)) < (int)sizeof(parms))
		return false;
	tbf->rate_bytes =
		attrs[TCA_TBF_RATE64] ? nla_get_u64(attrs[TCA_TBF_RATE64]) : parms.rate.rate;
	tbf->limit_bytes = parms.limit;
	return true;
}

static int see_qdisc(void *ctx, const struct nlmsghdr *reply)
{
	struct tbf_search *search = ctx;
	struct nlattr *attrs[TCA_MAX + 1];
	const struct tcmsg *header;

	if (reply->nlmsg_type != RTM_NEWQDISC ||
	    nlmsg_parse((struct nlmsghdr *)reply, sizeof(*header), attrs, TCA_MAX, NULL) < 0)
		return 0;
	header = nlmsg_data(reply);
	if (header->tcm_ifindex == search->ifindex && header->tcm_parent == TC_H_ROOT &&
	    attrs[TCA_KIND] && strcmp(nla_get_string(attrs[TCA_KIND]), MK_NL_TBF) == 0)
		search->found = parse_tbf(attrs[TCA_OPTIONS], search->tbf);
	return 0;
}

int mk_nl_tbf_get(struct mk_nl *nl, int ifindex, struct mk_nl_tbf *tbf, struct mk_error *err)
{
	const struct tcmsg header = { .tcm_family = AF_UNSPEC, .tcm_ifindex = ifindex };
	cleanup_nlmsg struct nl_msg *msg =
		nlmsg_new(RTM_GETQDISC, NLM_F_DUMP, &header, sizeof(header));
	struct tbf_search search = { .ifindex = ifindex, .tbf = tbf };
	int ret;

	*tbf = (struct mk_nl_tbf){ 0 };
	ret = nl_query(nl, msg, see_qdisc, &search, err);
	if (ret < 0)
		return nl_wrap(ret, err, "qdiscs of interface number %d", ifindex);
	return search.found ? 0
			    : mk_error_set(err, ENOENT, "interface number %d has no qdisc '%s'",
					   ifindex, MK_NL_TBF);
}

/* ---- programs -------------------------------------------------------------------------------- */

static int put_bpf_filter(struct nl_msg *msg, const struct mk_nl_filter *filter)
{
	struct nlattr *options;

	NLA_PUT_STRING(msg, TCA_KIND, "bpf");
	options = nla_nest_start(msg, TCA_OPTIONS);
	if (!options)
		return -ENOMEM;
	NLA_PUT_U32(msg, TCA_BPF_FD, (uint32_t)filter->prog_fd);
	NLA_PUT_STRING(msg, TCA_BPF_NAME, filter->name);
	NLA_PUT_U32(msg, TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT);
	nla_nest_end(msg, options);
	return 0;
nla_put_failure:
	return -ENOMEM;
}

int mk_nl_filter_put(struct mk_nl *nl, const struct mk_nl_filter *filter, struct mk_error *err)
{
	const struct tcmsg header = {
		.tcm_family = AF_UNSPEC,
		.tcm_ifindex = filter->ifindex,
		.tcm_handle = filter->handle,
		.tcm_parent =
			TC_H_MAKE(TC_H_CLSACT, filter->egress ? TC_H_MIN_EGRESS : TC_H_MIN_INGRESS),
		.tcm_info = TC_H_MAKE((uint32_t)filter->priority << 16, htons(ETH_P_ALL)),
	};
	cleanup_nlmsg struct nl_msg *msg =
		nlmsg_new(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_REPLACE, &header, sizeof(header));
	int ret = nl_request(nl, msg && put_bpf_filter(msg, filter) == 0 ? msg : NULL, err);

	return ret < 0 ? nl_wrap(ret, err, "cannot put '%s' at the %s of interface number %d",
				 filter->name, filter->egress ? "egress" : "ingress",
				 filter->ifindex)
		       : 0;
}
