// SPDX-License-Identifier: Apache-2.0
/* Qdiscs and filters, by rtnetlink. */
#include "base/netlink/netlink.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>

#include "base/netlink/request.h"

/* ---- qdisc clsact ---------------------------------------------------------------------------- */

static int change_clsact(struct mk_nl *nl, int type, int flags, int ifindex, struct mk_error *err)
{
	const struct tcmsg header = {
		.tcm_family = AF_UNSPEC,
		.tcm_ifindex = ifindex,
		.tcm_handle = TC_H_MAKE(TC_H_CLSACT, 0),
		.tcm_parent = TC_H_CLSACT,
	};
	struct nl_msg *msg = nlmsg_new(type, flags, &header, sizeof(header));

	nl_put_text(msg, TCA_KIND, "clsact");
	return nl_request(nl, msg, err);
}

int mk_nl_clsact_add(struct mk_nl *nl, int ifindex, struct mk_error *err)
{
	int ret = change_clsact(nl, RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, ifindex, err);

	if (ret == -EEXIST)
		return 0;
	return nl_wrap(ret, err, "cannot add a clsact qdisc to interface number %d", ifindex);
}

int mk_nl_clsact_delete(struct mk_nl *nl, int ifindex, struct mk_error *err)
{
	int ret = change_clsact(nl, RTM_DELQDISC, 0, ifindex, err);

	if (ret == -ENOENT || ret == -EINVAL)
		return 0;
	return nl_wrap(ret, err, "cannot remove the clsact qdisc of interface number %d", ifindex);
}

/* ---- limits ---------------------------------------------------------------------------------- */

int nl_qdisc_failed(int ret, const char *kind, int ifindex, struct mk_error *err)
{
	if (ret == -ENOENT || ret == -EOPNOTSUPP)
		return mk_error_set(
			err, ENOENT,
			"the kernel has no qdisc '%s', which limits the rate of interface number %d: load module sch_%s (CONFIG_NET_SCH_*), or set no bandwidth for the pod",
			kind, ifindex, kind);
	return nl_wrap(ret, err, "cannot set qdisc '%s' at interface number %d", kind, ifindex);
}

int mk_nl_tbf_put(struct mk_nl *nl, int ifindex, const struct mk_nl_tbf *tbf, struct mk_error *err)
{
	const struct tcmsg header = {
		.tcm_family = AF_UNSPEC,
		.tcm_ifindex = ifindex,
		.tcm_handle = TC_H_MAKE(1 << 16, 0),
		.tcm_parent = TC_H_ROOT,
	};
	const struct tc_tbf_qopt parms = {
		.rate = { .linklayer = TC_LINKLAYER_ETHERNET,
			  .rate = tbf->rate_bytes < UINT32_MAX ? (uint32_t)tbf->rate_bytes
							       : UINT32_MAX },
		.limit = tbf->limit_bytes,
	};
	struct nl_msg *msg =
		nlmsg_new(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, &header, sizeof(header));
	struct nlattr *options;

	nl_put_text(msg, TCA_KIND, MK_NL_TBF);
	options = nl_begin(msg, TCA_OPTIONS);
	nl_put(msg, TCA_TBF_PARMS, &parms, sizeof(parms));
	NL_PUT(msg, TCA_TBF_BURST, uint32_t, tbf->burst_bytes);
	if (tbf->rate_bytes >= UINT32_MAX)
		NL_PUT(msg, TCA_TBF_RATE64, uint64_t, tbf->rate_bytes);
	nl_end(msg, options);
	return nl_qdisc_failed(nl_request(nl, msg, err), MK_NL_TBF, ifindex, err);
}

struct tbf_search {
	int ifindex;
	bool found;
	struct mk_nl_tbf *tbf;
};

static bool parse_tbf(struct nlattr *options, struct mk_nl_tbf *tbf)
{
	struct nlattr *attrs[NL_ATTRS];
	struct tc_tbf_qopt parms;

	nl_nested(options, attrs);
	if (!attrs[TCA_TBF_PARMS] ||
	    nla_memcpy(&parms, attrs[TCA_TBF_PARMS], sizeof(parms)) < (int)sizeof(parms))
		return false;
	tbf->rate_bytes =
		attrs[TCA_TBF_RATE64] ? nla_get_u64(attrs[TCA_TBF_RATE64]) : parms.rate.rate;
	tbf->limit_bytes = parms.limit;
	return true;
}

static int see_qdisc(void *ctx, const void *reply, struct nlattr **attrs)
{
	const struct tcmsg *header = reply;
	struct tbf_search *search = ctx;

	if (header->tcm_ifindex == search->ifindex && header->tcm_parent == TC_H_ROOT &&
	    attrs[TCA_KIND] && strcmp(nla_get_string(attrs[TCA_KIND]), MK_NL_TBF) == 0)
		search->found = parse_tbf(attrs[TCA_OPTIONS], search->tbf);
	return 0;
}

int mk_nl_tbf_get(struct mk_nl *nl, int ifindex, struct mk_nl_tbf *tbf, struct mk_error *err)
{
	const struct tcmsg header = { .tcm_family = AF_UNSPEC, .tcm_ifindex = ifindex };
	struct nl_msg *msg = nlmsg_new(RTM_GETQDISC, NLM_F_DUMP, &header, sizeof(header));
	struct tbf_search search = { .ifindex = ifindex, .tbf = tbf };
	int ret;

	*tbf = (struct mk_nl_tbf){ 0 };
	ret = nl_query(nl, msg, sizeof(header), see_qdisc, &search, err);
	if (ret < 0)
		return nl_wrap(ret, err, "qdiscs of interface number %d", ifindex);
	return search.found ? 0
			    : mk_error_set(err, ENOENT, "interface number %d has no qdisc '%s'",
					   ifindex, MK_NL_TBF);
}

/* ---- programs -------------------------------------------------------------------------------- */

static uint32_t hook_parent(bool egress)
{
	return TC_H_MAKE(TC_H_CLSACT, egress ? TC_H_MIN_EGRESS : TC_H_MIN_INGRESS);
}

/* Begin a request about the one filter with the hook, handle and priority of @filter. */
static struct nl_msg *ask_filter(int type, int flags, const struct mk_nl_filter *filter)
{
	const struct tcmsg header = {
		.tcm_family = AF_UNSPEC,
		.tcm_ifindex = filter->ifindex,
		.tcm_handle = filter->handle,
		.tcm_parent = hook_parent(filter->egress),
		.tcm_info = TC_H_MAKE((uint32_t)filter->priority << 16, htons(ETH_P_ALL)),
	};
	struct nl_msg *msg = nlmsg_new(type, flags, &header, sizeof(header));

	nl_put_text(msg, TCA_KIND, "bpf");
	return msg;
}

static int filter_result(int ret, const char *doing, const struct mk_nl_filter *filter,
			 struct mk_error *err)
{
	return nl_wrap(ret, err, "cannot %s the filter '%s' at the %s of interface number %d",
		       doing, filter->name, filter->egress ? "egress" : "ingress", filter->ifindex);
}

int mk_nl_filter_put(struct mk_nl *nl, const struct mk_nl_filter *filter, int prog_fd,
		     struct mk_error *err)
{
	struct nl_msg *msg = ask_filter(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_REPLACE, filter);
	struct nlattr *options = nl_begin(msg, TCA_OPTIONS);

	NL_PUT(msg, TCA_BPF_FD, uint32_t, (uint32_t)prog_fd);
	nl_put_text(msg, TCA_BPF_NAME, filter->name);
	NL_PUT(msg, TCA_BPF_FLAGS, uint32_t, TCA_BPF_FLAG_ACT_DIRECT);
	nl_end(msg, options);
	return filter_result(nl_request(nl, msg, err), "put", filter, err);
}

static int take_filter(void *ctx, const void *reply, struct nlattr **attrs)
{
	struct nlattr *options[NL_ATTRS];
	struct mk_nl_filter *filter = ctx;
	const struct tcmsg *header = reply;

	nl_nested(attrs[TCA_OPTIONS], options);
	filter->handle = header->tcm_handle;
	filter->priority = (uint16_t)(TC_H_MAJ(header->tcm_info) >> 16);
	filter->prog_id = nl_u32(options[TCA_BPF_ID]);
	nl_text(options[TCA_BPF_NAME], filter->name, sizeof(filter->name));
	return 0;
}

int mk_nl_filter_get(struct mk_nl *nl, struct mk_nl_filter *filter, struct mk_error *err)
{
	struct nl_msg *msg = ask_filter(RTM_GETTFILTER, 0, filter);
	int ret = nl_query(nl, msg, sizeof(struct tcmsg), take_filter, filter, err);

	/* EINVAL: no clsact qdisc, or no filter with this priority */
	if (ret == -EINVAL || ret == -ENODEV)
		return mk_error_set(err, ENOENT, "no such filter");
	return filter_result(ret, "read", filter, err);
}

int mk_nl_filter_delete(struct mk_nl *nl, const struct mk_nl_filter *filter, struct mk_error *err)
{
	int ret = nl_request(nl, ask_filter(RTM_DELTFILTER, 0, filter), err);

	return ret == -ENOENT ? 0 : filter_result(ret, "remove", filter, err);
}

struct filter_walk {
	int (*visit)(void *ctx, const struct mk_nl_filter *filter);
	void *ctx;
	struct mk_nl_filter filter;
};

/* The kernel sends one message with handle 0 for each priority, then its filters. */
static int walk_filter(void *ctx, const void *reply, struct nlattr **attrs)
{
	struct filter_walk *walk = ctx;

	(void)take_filter(&walk->filter, reply, attrs);
	return walk->visit(walk->ctx, &walk->filter);
}

int mk_nl_each_filter(struct mk_nl *nl, int ifindex, bool egress,
		      int (*visit)(void *ctx, const struct mk_nl_filter *filter), void *ctx,
		      struct mk_error *err)
{
	const struct tcmsg header = { .tcm_family = AF_UNSPEC,
				      .tcm_ifindex = ifindex,
				      .tcm_parent = hook_parent(egress) };
	struct nl_msg *msg = nlmsg_new(RTM_GETTFILTER, NLM_F_DUMP, &header, sizeof(header));
	struct filter_walk walk = { visit, ctx, { .ifindex = ifindex, .egress = egress } };

	return nl_query(nl, msg, sizeof(header), walk_filter, &walk, err);
}
