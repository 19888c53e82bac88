// SPDX-License-Identifier: Apache-2.0
/* Repair of hooks and of the chain: put back programs and entries that others removed. */
#include <net/if.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "datapath/datapath_internal.h"
#include "datapath/hooks_internal.h"
#include "datapath/pods/pod_table.h"
#include "datapath/pods/port.h"

static int repair_hook(const struct mk_datapath *datapath, const struct hook *hook,
		       struct mk_error *err)
{
	int ret = ensure_hook(datapath, hook, err);
	char name[IF_NAMESIZE] = "?";

	if (ret > 0) {
		if_indextoname((unsigned int)hook->ifindex, name);
		mk_log_warn(
			"program was missing on a device and is back program=%s device=%s direction=%s",
			hook->program, name, hook->direction == MK_INGRESS ? "ingress" : "egress");
	}
	return ret;
}

/* Devices to check. */
struct devices {
	const int *ifindexes; /* NULL: all */
	size_t count;
};

static bool is_wanted(const struct devices *wanted, int ifindex)
{
	for (size_t i = 0; wanted->ifindexes && i < wanted->count; i++)
		if (wanted->ifindexes[i] == ifindex)
			return true;
	return !wanted->ifindexes;
}

/* Errors of a device that is gone are ignored: a notification reports the removal. */
static int repair_fixed_hooks(const struct mk_datapath *datapath, const struct devices *wanted,
			      struct mk_error *err)
{
	struct hook hooks[FIXED_HOOKS];
	size_t count = fixed_hooks(datapath, hooks);
	int changed = 0;

	for (size_t i = 0; i < count; i++) {
		int ret = is_wanted(wanted, hooks[i].ifindex)
				  ? repair_hook(datapath, &hooks[i], err)
				  : 0;

		if (ret < 0 && is_there(datapath, hooks[i].ifindex))
			return ret;
		changed += ret > 0;
	}
	return changed;
}

static int repair_pod_hook(const struct mk_datapath *datapath, const struct devices *wanted,
			   const struct mk_pod *pod, struct mk_error *err)
{
	const struct hook hook = { (int)pod->ifindex, MK_INGRESS, "ilb_pod" };
	int ret;

	if (!is_wanted(wanted, hook.ifindex) || !is_pod_veth(datapath, hook.ifindex))
		return 0;
	ret = repair_hook(datapath, &hook, err);
	return ret < 0 && !is_pod_veth(datapath, hook.ifindex) ? 0 : ret;
}

/* Check at most @pods pods; the next call continues with the next ones. */
static int repair_pod_hooks(struct mk_datapath *datapath, const struct devices *wanted, size_t pods,
			    struct mk_error *err)
{
	cleanup_free struct mk_pod *entries = NULL;
	int changed = 0, ret;
	size_t count;

	ret = mk_pod_table_read(&datapath->pods, &entries, &count, err);
	for (size_t i = 0; ret >= 0 && i < count && i < pods; i++) {
		size_t at = datapath->pods_looked_at++ % count;

		ret = repair_pod_hook(datapath, wanted, &entries[at], err);
		changed += ret > 0;
	}
	return ret < 0 ? ret : changed;
}

/* A look at all devices takes a millisecond where there are hundreds. A new port is reported by its
 * filter, so the regular check looks only if there were ports. @all: notifications were lost. */
static int repair_port_hooks(struct mk_datapath *datapath, const struct devices *wanted, bool all,
			     struct mk_error *err)
{
	struct mk_link link;
	bool any = !wanted->ifindexes && (all || datapath->has_ports);

	for (size_t i = 0; !any && i < wanted->count; i++)
		any = mk_nl_link_get_index(datapath->nl, wanted->ifindexes[i], &link, NULL) == 0 &&
		      mk_port_of(&link, NULL, NULL);
	return any ? each_port_hook(datapath, repair_hook, err) : 0;
}

static int repair_entries(const struct mk_datapath *datapath, struct mk_error *err)
{
	int missing = ensure_entries(datapath, err);

	if (missing > 0)
		mk_log_warn("entries were missing and are back map=other_family entries=%d",
			    missing);
	return missing;
}

static int repair_hooks(struct mk_datapath *datapath, const struct devices *wanted, size_t pods,
			struct mk_error *err)
{
	int entries, fixed, of_pods, of_ports;

	if (datapath->state < MK_DATAPATH_ATTACHED)
		return datapath_expect(datapath, MK_DATAPATH_ATTACHED, "a check of hooks", err);
	entries = repair_entries(datapath, err);
	fixed = entries < 0 ? entries : repair_fixed_hooks(datapath, wanted, err);
	if (fixed < 0)
		return fixed;
	of_pods = repair_pod_hooks(datapath, wanted, pods, err);
	of_ports =
		of_pods < 0 ? of_pods : repair_port_hooks(datapath, wanted, pods == SIZE_MAX, err);
	return of_ports < 0 ? of_ports : entries + fixed + of_pods + of_ports;
}

int mk_datapath_repair_hooks(struct mk_datapath *datapath, size_t pods, struct mk_error *err)
{
	return repair_hooks(datapath, &(struct devices){ 0 }, pods, err);
}

int mk_datapath_repair_hooks_of(struct mk_datapath *datapath, const int *ifindexes, size_t count,
				struct mk_error *err)
{
	return repair_hooks(datapath, &(struct devices){ ifindexes, count }, SIZE_MAX, err);
}

int mk_datapath_repair_chain(struct mk_datapath *datapath, struct mk_error *err)
{
	int missing = mk_object_chain_missing(datapath->object, err);

	if (missing <= 0)
		return missing;
	if (mk_object_fill_chain(datapath->object, err) < 0)
		return -err->code;
	mk_log_warn("entries were missing and are back map=chain entries=%d", missing);
	return missing;
}
