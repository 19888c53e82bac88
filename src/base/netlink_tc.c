// SPDX-License-Identifier: Apache-2.0
#include "base/netlink.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include "base/netlink_request.h"

int mk_nl_clsact_add(struct mk_nl *nl, int ifindex, struct mk_error *err)
{
	const struct tcmsg header = {
		.tcm_family = AF_UNSPEC,
		.tcm_ifindex = ifindex,
		.tcm_handle = TC_H_MAKE(TC_H_CLSACT, 0),
		.tcm_parent = TC_H_CLSACT,
	};
	cleanup_nlmsg struct nl_msg *msg =
		mk_nlmsg_new(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, &header, sizeof(header));
	int ret = mk_nl_request(
		nl, msg && nla_put_string(msg, TCA_KIND, "clsact") == 0 ? msg : NULL, err);

	if (ret == 0 || ret == -EEXIST)
		return 0;
	return mk_nl_wrap(ret, err, "cannot add a clsact qdisc to interface number %d", ifindex);
}

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
		mk_nlmsg_new(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_REPLACE, &header, sizeof(header));
	int ret = mk_nl_request(nl, msg && put_bpf_filter(msg, filter) == 0 ? msg : NULL, err);

	return ret < 0 ? mk_nl_wrap(ret, err, "cannot put '%s' at the %s of interface number %d",
				    filter->name, filter->egress ? "egress" : "ingress",
				    filter->ifindex)
		       : 0;
}
