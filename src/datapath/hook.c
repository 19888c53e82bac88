// SPDX-License-Identifier: Apache-2.0
#include "datapath/hook.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/pkt_sched.h>
#include <netlink/netlink.h>
#include <netlink/route/classifier.h>
#include <string.h>

#include "base/cleanup.h"
#include "datapath/bpflog.h"

static enum bpf_tc_attach_point attach_point(enum mk_direction direction)
{
	return direction == MK_INGRESS ? BPF_TC_INGRESS : BPF_TC_EGRESS;
}

static const char *direction_name(enum mk_direction direction)
{
	return direction == MK_INGRESS ? "ingress" : "egress";
}

int mk_hook_attach(int ifindex, enum mk_direction direction, int prog_fd, struct mk_error *err)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex, .attach_point = attach_point(direction));
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = MK_TC_HANDLE, .priority = MK_TC_PRIORITY,
		    .prog_fd = prog_fd, .flags = BPF_TC_F_REPLACE);
	bool was_quiet;
	int ret;

	mk_bpflog_init();
	was_quiet = mk_bpflog_quiet(true); /* "exclusivity flag on": the qdisc is there already */
	ret = bpf_tc_hook_create(&hook);
	mk_bpflog_quiet(was_quiet);
	if (ret < 0 && ret != -EEXIST)
		return mk_error_errno(err, -ret, "cannot add a clsact qdisc to interface %d",
				      ifindex);
	ret = bpf_tc_attach(&hook, &opts);
	if (ret < 0)
		return mk_error_errno(err, -ret,
				      "cannot attach a program to the %s of interface %d",
				      direction_name(direction), ifindex);
	return 0;
}

int mk_hook_query(int ifindex, enum mk_direction direction, uint32_t *prog_id, struct mk_error *err)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex, .attach_point = attach_point(direction));
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = MK_TC_HANDLE, .priority = MK_TC_PRIORITY);
	bool was_quiet;
	int ret;

	mk_bpflog_init();
	was_quiet = mk_bpflog_quiet(true);
	ret = bpf_tc_query(&hook, &opts);
	mk_bpflog_quiet(was_quiet);
	*prog_id = ret == 0 ? opts.prog_id : 0;
	/* the kernel says EINVAL where there is no clsact qdisc or no chain */
	if (ret == 0 || ret == -ENOENT || ret == -EINVAL || ret == -ENODEV)
		return 0;
	return mk_error_errno(err, -ret, "cannot ask for the filter at the %s of interface %d",
			      direction_name(direction), ifindex);
}

/* Names as the kernel keeps them: 15 characters. */
#define POD_PROGRAM "ilb_pod"
static const char *const fixed_programs[] = { "ilb_host", "ilb_overlay", "nat_uplink",
					      "elb_uplink_egre", "ilb_lo_egress" };

/* One of the fixed hooks' programs, or, with @pods_too, that of pods? */
static bool is_ours(uint32_t prog_id, bool pods_too)
{
	cleanup_close int fd = bpf_prog_get_fd_by_id(prog_id);
	struct bpf_prog_info info = { 0 };
	__u32 size = sizeof(info);

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size) < 0)
		return false;
	for (size_t i = 0; i < MK_ARRAY_SIZE(fixed_programs); i++)
		if (strcmp(info.name, fixed_programs[i]) == 0)
			return true;
	return pods_too && strcmp(info.name, POD_PROGRAM) == 0;
}

static int detach(int ifindex, enum mk_direction direction, bool pods_too, struct mk_error *err)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex, .attach_point = attach_point(direction));
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = MK_TC_HANDLE, .priority = MK_TC_PRIORITY);
	uint32_t prog_id;
	int ret = mk_hook_query(ifindex, direction, &prog_id, err);

	if (ret < 0)
		return ret;
	if (prog_id == 0 || !is_ours(prog_id, pods_too))
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

/* -1: cannot be told, which counts as "not empty". */
static int filter_count(struct nl_sock *sock, int ifindex, uint32_t parent)
{
	struct nl_cache *cache;
	int count;

	if (rtnl_cls_alloc_cache(sock, ifindex, parent, &cache) < 0)
		return -1;
	count = nl_cache_nitems(cache);
	nl_cache_free(cache);
	return count;
}

static bool has_filters(int ifindex)
{
	struct nl_sock *sock = nl_socket_alloc();
	bool some = true;

	if (sock && nl_connect(sock, NETLINK_ROUTE) == 0)
		some = filter_count(sock, ifindex, TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)) != 0 ||
		       filter_count(sock, ifindex, TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS)) != 0;
	nl_socket_free(sock);
	return some;
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
	was_quiet = mk_bpflog_quiet(true);
	ret = bpf_tc_hook_destroy(&hook);
	mk_bpflog_quiet(was_quiet);
	if (ret < 0 && ret != -ENOENT && ret != -EINVAL)
		return mk_error_errno(err, -ret, "cannot remove the clsact qdisc of interface %d",
				      ifindex);
	return 0;
}
