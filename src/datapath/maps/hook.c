// SPDX-License-Identifier: Apache-2.0
#include "datapath/maps/hook.h"

#include <bpf/bpf.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

static struct mk_nl_filter our_filter(int ifindex, enum mk_direction direction)
{
	return (struct mk_nl_filter){
		.ifindex = ifindex,
		.egress = direction == MK_EGRESS,
		.handle = MK_TC_HANDLE,
		.priority = MK_TC_PRIORITY,
	};
}

int mk_hook_attach(struct mk_nl *nl, int ifindex, enum mk_direction direction, int prog_fd,
		   struct mk_error *err)
{
	struct mk_nl_filter filter = our_filter(ifindex, direction);
	struct bpf_prog_info info = { 0 };
	__u32 size = sizeof(info);
	int ret;

	if (bpf_obj_get_info_by_fd(prog_fd, &info, &size) < 0)
		return mk_error_errno(err, errno, "cannot ask for the name of a program");
	snprintf(filter.name, sizeof(filter.name), "%s:[%u]", info.name, info.id);
	ret = mk_nl_clsact_add(nl, ifindex, err);
	return ret < 0 ? ret : mk_nl_filter_put(nl, &filter, prog_fd, err);
}

int mk_hook_query(struct mk_nl *nl, int ifindex, enum mk_direction direction, uint32_t *prog_id,
		  struct mk_error *err)
{
	struct mk_nl_filter filter = our_filter(ifindex, direction);
	int ret = mk_nl_filter_get(nl, &filter, err);

	*prog_id = filter.prog_id;
	return ret == -ENOENT ? 0 : ret;
}

/* The kernel truncates program names to 15 characters. */
static const char *const pod_programs[] = { "ilb_pod", "sfc_port" };
static const char *const fixed_programs[] = {
	"ilb_host",   "ilb_overlay", "sfc_overlay",	"cluster_in",	 "wireguard_in",
	"nat_uplink", "nat_tunnel",  "elb_uplink_egre", "ilb_lo_egress",
};

static bool is_among(const char *name, const char *const *programs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(name, programs[i]) == 0)
			return true;
	return false;
}

/* Is the program one of the fixed hooks' or, with @pods_too, the pods' and their ports'? The
 * filter's name, "PROGRAM:[ID]", says so. Only CAP_SYS_ADMIN may open a program by its id. */
static bool is_ours(const struct mk_nl_filter *filter, bool pods_too)
{
	char name[sizeof(filter->name)];

	snprintf(name, sizeof(name), "%s", filter->name);
	name[strcspn(name, ":")] = '\0';
	return is_among(name, fixed_programs, MK_ARRAY_SIZE(fixed_programs)) ||
	       (pods_too && is_among(name, pod_programs, MK_ARRAY_SIZE(pod_programs)));
}

static int detach(struct mk_nl *nl, int ifindex, enum mk_direction direction, bool pods_too,
		  struct mk_error *err)
{
	struct mk_nl_filter filter = our_filter(ifindex, direction);
	int ret = mk_nl_filter_get(nl, &filter, err);

	if (ret == -ENOENT || (ret == 0 && !is_ours(&filter, pods_too)))
		return 0;
	ret = ret ?: mk_nl_filter_delete(nl, &filter, err);
	return ret < 0 ? ret : 1;
}

int mk_hook_detach(struct mk_nl *nl, int ifindex, enum mk_direction direction, struct mk_error *err)
{
	return detach(nl, ifindex, direction, true, err);
}

int mk_hook_detach_fixed(struct mk_nl *nl, int ifindex, enum mk_direction direction,
			 struct mk_error *err)
{
	return detach(nl, ifindex, direction, false, err);
}

static int see_filter(void *ctx, const struct mk_nl_filter *filter)
{
	(void)ctx;
	(void)filter;
	return -EEXIST;
}

int mk_hook_remove_empty_qdisc(struct mk_nl *nl, int ifindex, struct mk_error *err)
{
	/* a hook that cannot be read counts as not empty */
	if (mk_nl_each_filter(nl, ifindex, false, see_filter, NULL, NULL) < 0 ||
	    mk_nl_each_filter(nl, ifindex, true, see_filter, NULL, NULL) < 0)
		return 0;
	return mk_nl_clsact_delete(nl, ifindex, err);
}
