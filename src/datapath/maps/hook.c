// SPDX-License-Identifier: Apache-2.0
#include "datapath/maps/hook.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "datapath/maps/bpflog.h"
#include "datapath/maps/maps_internal.h"

static enum bpf_tc_attach_point attach_point(enum mk_direction direction)
{
	return direction == MK_INGRESS ? BPF_TC_INGRESS : BPF_TC_EGRESS;
}

struct filter_name {
	char text[64]; /* "PROGRAM:[ID]", libbpf's format; empty: no filter */
};

static const char *direction_name(enum mk_direction direction)
{
	return direction == MK_INGRESS ? "ingress" : "egress";
}

int mk_hook_attach(struct mk_nl *nl, int ifindex, enum mk_direction direction, int prog_fd,
		   struct mk_error *err)
{
	struct bpf_prog_info info = { 0 };
	__u32 size = sizeof(info);
	struct filter_name name;
	const struct mk_nl_filter filter = {
		.ifindex = ifindex,
		.egress = direction == MK_EGRESS,
		.handle = MK_TC_HANDLE,
		.priority = MK_TC_PRIORITY,
		.prog_fd = prog_fd,
		.name = name.text,
	};
	int ret;

	if (bpf_obj_get_info_by_fd(prog_fd, &info, &size) < 0)
		return mk_error_errno(err, errno, "cannot ask for the name of a program");
	snprintf(name.text, sizeof(name.text), "%s:[%u]", info.name, info.id);
	ret = mk_nl_clsact_add(nl, ifindex, err);
	return ret < 0 ? ret : mk_nl_filter_put(nl, &filter, err);
}

int mk_hook_query(int ifindex, enum mk_direction direction, uint32_t *prog_id, struct mk_error *err)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex, .attach_point = attach_point(direction));
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = MK_TC_HANDLE, .priority = MK_TC_PRIORITY);
	bool was_quiet;
	int ret;

	mk_bpflog_init();
	was_quiet = bpflog_quiet(true);
	ret = bpf_tc_query(&hook, &opts);
	bpflog_quiet(was_quiet);
	*prog_id = ret == 0 ? opts.prog_id : 0;
	/* the kernel returns EINVAL without a clsact qdisc or chain */
	if (ret == 0 || ret == -ENOENT || ret == -EINVAL || ret == -ENODEV)
		return 0;
	return mk_error_errno(err, -ret, "cannot ask for the filter at the %s of interface %d",
			      direction_name(direction), ifindex);
}

/* The kernel truncates program names to 15 characters. */
#define POD_PROGRAM "ilb_pod"
static const char *const fixed_programs[] = { "ilb_host",   "ilb_overlay",     "nat_uplink",
					      "nat_tunnel", "elb_uplink_egre", "ilb_lo_egress" };

static int take_filter_name(struct nl_msg *msg, void *ctx)
{
	struct nlattr *attrs[TCA_MAX + 1], *options[TCA_BPF_MAX + 1];
	struct filter_name *name = ctx;

	if (nlmsg_parse(nlmsg_hdr(msg), sizeof(struct tcmsg), attrs, TCA_MAX, NULL) == 0 &&
	    attrs[TCA_OPTIONS] &&
	    nla_parse_nested(options, TCA_BPF_MAX, attrs[TCA_OPTIONS], NULL) == 0 &&
	    options[TCA_BPF_NAME])
		nla_strlcpy(name->text, options[TCA_BPF_NAME], sizeof(name->text));
	return NL_OK;
}

static int ask_filter_name(struct nl_sock *sock, int ifindex, enum mk_direction direction)
{
	struct tcmsg filter = {
		.tcm_family = AF_UNSPEC,
		.tcm_ifindex = ifindex,
		.tcm_handle = MK_TC_HANDLE,
		.tcm_parent = TC_H_MAKE(TC_H_CLSACT, direction == MK_INGRESS ? TC_H_MIN_INGRESS
									     : TC_H_MIN_EGRESS),
		.tcm_info = TC_H_MAKE(MK_TC_PRIORITY << 16, htons(ETH_P_ALL)),
	};
	struct nl_msg *msg = nlmsg_alloc_simple(RTM_GETTFILTER, 0);
	int ret = -NLE_NOMEM;

	if (msg && nlmsg_append(msg, &filter, sizeof(filter), NLMSG_ALIGNTO) == 0 &&
	    nla_put_string(msg, TCA_KIND, "bpf") == 0)
		ret = nl_send_auto(sock, msg);
	nlmsg_free(msg);
	return ret < 0 ? ret : nl_recvmsgs_default(sock);
}

/* Identify the program by the filter's name: opening a program by its id needs CAP_SYS_ADMIN. */
static struct filter_name filter_name(int ifindex, enum mk_direction direction)
{
	struct filter_name name = { 0 };
	struct nl_sock *sock = nl_socket_alloc();

	if (sock && nl_connect(sock, NETLINK_ROUTE) == 0) {
		nl_socket_disable_auto_ack(sock);
		nl_socket_modify_cb(sock, NL_CB_VALID, NL_CB_CUSTOM, take_filter_name, &name);
		if (ask_filter_name(sock, ifindex, direction) < 0)
			name.text[0] = '\0';
	}
	nl_socket_free(sock);
	return name;
}

/* Is the filter's program one of the fixed hooks' or, with @pods_too, the pods' program? */
static bool is_ours(int ifindex, enum mk_direction direction, bool pods_too)
{
	struct filter_name name = filter_name(ifindex, direction);

	name.text[strcspn(name.text, ":")] = '\0';
	for (size_t i = 0; i < MK_ARRAY_SIZE(fixed_programs); i++)
		if (strcmp(name.text, fixed_programs[i]) == 0)
			return true;
	return pods_too && strcmp(name.text, POD_PROGRAM) == 0;
}

static int detach(int ifindex, enum mk_direction direction, bool pods_too, struct mk_error *err)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex, .attach_point = attach_point(direction));
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = MK_TC_HANDLE, .priority = MK_TC_PRIORITY);
	uint32_t prog_id;
	int ret = mk_hook_query(ifindex, direction, &prog_id, err);

	if (ret < 0)
		return ret;
	if (prog_id == 0 || !is_ours(ifindex, direction, pods_too))
		return 0;
	ret = bpf_tc_detach(&hook, &opts);
	if (ret < 0 && ret != -ENOENT)
		return mk_error_errno(err, -ret,
				      "cannot remove the filter at the %s of interface %d",
				      direction_name(direction), ifindex);
	return 1;
}

int mk_hook_detach(int ifindex, enum mk_direction direction, struct mk_error *err)
{
	return detach(ifindex, direction, true, err);
}

int mk_hook_detach_fixed(int ifindex, enum mk_direction direction, struct mk_error *err)
{
	return detach(ifindex, direction, false, err);
}

static int see_filter(struct nl_msg *msg, void *ctx)
{
	if (nlmsg_hdr(msg)->nlmsg_type == RTM_NEWTFILTER)
		++*(int *)ctx;
	return NL_OK;
}

/* Return the number of filters. -1: not known, which counts as "not empty". Do not use libnl's
 * caches: they fail on filter kinds that libnl does not know. */
static int filter_count(int ifindex, uint32_t parent)
{
	struct tcmsg header = { .tcm_family = AF_UNSPEC,
				.tcm_ifindex = ifindex,
				.tcm_parent = parent };
	struct nl_sock *sock = nl_socket_alloc();
	int count = 0;

	if (!sock || nl_connect(sock, NETLINK_ROUTE) < 0 ||
	    nl_socket_modify_cb(sock, NL_CB_VALID, NL_CB_CUSTOM, see_filter, &count) < 0 ||
	    nl_send_simple(sock, RTM_GETTFILTER, NLM_F_DUMP, &header, sizeof(header)) < 0 ||
	    nl_recvmsgs_default(sock) < 0)
		count = -1;
	nl_socket_free(sock);
	return count;
}

static bool has_filters(int ifindex)
{
	return filter_count(ifindex, TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)) != 0 ||
	       filter_count(ifindex, TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS)) != 0;
}

int mk_hook_remove_empty_qdisc(int ifindex, struct mk_error *err)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex,
		    .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);
	bool was_quiet;
	int ret;

	if (has_filters(ifindex))
		return 0;
	mk_bpflog_init();
	was_quiet = bpflog_quiet(true);
	ret = bpf_tc_hook_destroy(&hook);
	bpflog_quiet(was_quiet);
	if (ret < 0 && ret != -ENOENT && ret != -EINVAL)
		return mk_error_errno(err, -ret, "cannot remove the clsact qdisc of interface %d",
				      ifindex);
	return 0;
}
