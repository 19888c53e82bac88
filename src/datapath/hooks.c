// SPDX-License-Identifier: Apache-2.0
/* The hooks of devices and pods, and the program of each. */
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "datapath/datapath_internal.h"
#include "datapath/hooks_internal.h"
#include "datapath/maps/constants.h"
#include "datapath/maps/hook.h"
#include "datapath/maps/links.h"
#include "datapath/maps/pin.h"
#include "datapath/pods/pod_table.h"
#include "datapath/pods/pods.h"
#include "datapath/pods/port.h"

static bool has_uplink(const struct mk_datapath_links *links, __u32 ifindex)
{
	for (size_t i = 0; i < links->uplink_count; i++)
		if (links->uplinks[i].ifindex == ifindex)
			return true;
	return false;
}

static size_t add_uplink_hooks(const struct mk_uplink *uplink, struct hook *hooks)
{
	int ifindex = (int)uplink->ifindex;

	if (uplink->flags & MK_UPLINK_TUNNEL) {
		hooks[0] = (struct hook){ ifindex, MK_INGRESS, "nat_tunnel" };
		return 1;
	}
	hooks[0] = (struct hook){ ifindex, MK_INGRESS, "nat_uplink" };
	hooks[1] = (struct hook){ ifindex, MK_EGRESS, "elb_uplink_egress" };
	return 2;
}

/* Read the other family's devices; none if it has no tables. */
static void read_other_links(const struct mk_datapath *datapath, struct mk_datapath_links *links)
{
	if (!datapath->other_dir[0] || mk_links_read(datapath->other_dir, links, NULL) < 0)
		links->uplink_count = 0;
}

bool is_there(const struct mk_datapath *datapath, int ifindex)
{
	struct mk_link link;

	return mk_nl_link_get_index(datapath->nl, ifindex, &link, NULL) == 0;
}

/* List the hooks of both families' links. Returns their number. The other family may still have an
 * uplink that is gone: it learns of that after this one. */
size_t fixed_hooks(const struct mk_datapath *datapath, struct hook *hooks)
{
	const struct mk_datapath_links *links = &datapath->links;
	const int host_peer = (int)links->set.host_peer_ifindex;
	const int overlay = (int)links->set.overlay_ifindex;
	struct mk_datapath_links other;
	size_t count = 3;

	hooks[0] = (struct hook){ host_peer, MK_INGRESS, "ilb_host" };
	hooks[1] = (struct hook){ overlay, MK_INGRESS, "ilb_overlay" };
	hooks[2] = (struct hook){ MK_LOOPBACK_IFINDEX, MK_EGRESS, "ilb_lo_egress" };
	if (links->sfc_ifindex)
		hooks[count++] =
			(struct hook){ (int)links->sfc_ifindex, MK_INGRESS, "sfc_overlay" };
	if (links->cluster_ifindex)
		hooks[count++] =
			(struct hook){ (int)links->cluster_ifindex, MK_INGRESS, "cluster_in" };
	if (links->wg_ifindex)
		hooks[count++] =
			(struct hook){ (int)links->wg_ifindex, MK_INGRESS, "wireguard_in" };
	if (links->wg_peer_ifindex)
		hooks[count++] =
			(struct hook){ (int)links->wg_peer_ifindex, MK_INGRESS, "cluster_in" };
	for (size_t i = 0; i < links->uplink_count; i++)
		count += add_uplink_hooks(&links->uplinks[i], &hooks[count]);
	read_other_links(datapath, &other);
	for (size_t i = 0; i < other.uplink_count; i++)
		if (!has_uplink(links, other.uplinks[i].ifindex) &&
		    is_there(datapath, (int)other.uplinks[i].ifindex))
			count += add_uplink_hooks(&other.uplinks[i], &hooks[count]);
	return count;
}

/* ---- programs of hooks ----------------------------------------------------------------------- */

/* Return the program for the hook's filter: IPv4's, if this datapath is behind it and IPv4's is
 * pinned. The caller does not close it. @*pinned: to close. */
static int filter_program(const struct mk_datapath *datapath, const char *program, int *pinned,
			  struct mk_error *err)
{
	if (datapath_is_behind(datapath))
		*pinned = mk_pin_open(datapath->other_dir, MK_PIN_PROGS, program, NULL);
	return *pinned >= 0 ? *pinned : mk_object_program(datapath->object, program, err);
}

/* Attach the hook's program. Returns 1 if it did, 0 if the program was attached already. */
int ensure_hook(const struct mk_datapath *datapath, const struct hook *hook, struct mk_error *err)
{
	cleanup_close int pinned = -1;
	int fd = filter_program(datapath, hook->program, &pinned, err);
	struct mk_program_identity wanted = { 0 };
	uint32_t have;
	int ret;

	if (fd < 0)
		return fd;
	ret = mk_program_identify(fd, &wanted, err);
	ret = ret ?: mk_hook_query(datapath->nl, hook->ifindex, hook->direction, &have, err);
	if (ret < 0 || have == wanted.id)
		return ret;
	ret = mk_hook_attach(datapath->nl, hook->ifindex, hook->direction, fd, err);
	if (ret < 0)
		return mk_error_wrap(err, "program '%s'", hook->program);
	return 1;
}

/* Put a program into its slot of map `other_family` (@map). Returns 1 if it did. */
static int ensure_entry(const struct mk_datapath *datapath, int map, __u32 slot,
			struct mk_error *err)
{
	int fd = mk_object_program(datapath->object, mk_entry_programs[slot], err);
	struct mk_program_identity wanted = { 0 };
	__u32 have = 0;
	int ret = fd < 0 ? fd : mk_program_identify(fd, &wanted, err);

	if (ret < 0)
		return ret;
	if (bpf_map_lookup_elem(map, &slot, &have) == 0 && have == wanted.id)
		return 0;
	if (bpf_map_update_elem(map, &slot, &fd, BPF_ANY) < 0)
		return mk_error_errno(err, errno, "cannot put program '%s' behind IPv4's",
				      mk_entry_programs[slot]);
	return 1;
}

/* Fill map `other_family`, which IPv4's datapath has pinned. Returns the number of slots that were
 * written; 0 if this family has the hooks itself. */
int ensure_entries(const struct mk_datapath *datapath, struct mk_error *err)
{
	cleanup_close int map = -1;
	int changed = 0, ret = 0;

	if (!datapath_is_behind(datapath))
		return 0;
	map = mk_pin_open(datapath->other_dir, MK_PIN_MAPS, "other_family", err);
	if (map < 0)
		return mk_error_wrap(err, "IPv4's datapath has to be loaded first");
	for (__u32 slot = 0; ret >= 0 && slot < MK_ENTRY_COUNT; slot++) {
		ret = ensure_entry(datapath, map, slot, err);
		changed += ret > 0;
	}
	return ret < 0 ? ret : changed;
}

int ensure_fixed_hooks(const struct mk_datapath *datapath, struct mk_error *err)
{
	struct hook hooks[FIXED_HOOKS];
	size_t count = fixed_hooks(datapath, hooks);
	int changed = 0;

	for (size_t i = 0; i < count; i++) {
		int ret = ensure_hook(datapath, &hooks[i], err);

		if (ret < 0)
			return ret;
		changed += ret;
	}
	return changed;
}

/* Is the interface a pod's veth, with the gateway's MAC? Its index may belong to another interface
 * since the pod's entry was written. */
static bool get_pod_veth(const struct mk_datapath *datapath, int ifindex, struct mk_link *link)
{
	return mk_nl_link_get_index(datapath->nl, ifindex, link, NULL) == 0 &&
	       strcmp(link->kind, "veth") == 0 &&
	       memcmp(link->mac.byte, datapath->node.gateway_mac, sizeof(link->mac.byte)) == 0;
}

bool is_pod_veth(const struct mk_datapath *datapath, int ifindex)
{
	struct mk_link link;

	return get_pod_veth(datapath, ifindex, &link);
}

struct stray_walk {
	struct mk_nl *nl;
	struct hook hooks[FIXED_HOOKS];
	size_t count;
	struct mk_error *err;
};

static bool is_fixed_hook(const struct stray_walk *walk, int ifindex, enum mk_direction direction)
{
	for (size_t i = 0; i < walk->count; i++)
		if (walk->hooks[i].ifindex == ifindex && walk->hooks[i].direction == direction)
			return true;
	return false;
}

/* Remove our programs from former uplinks: they would use the old chain, which is about to be
 * removed. */
static int remove_strays(void *ctx, const struct mk_link *link)
{
	static const enum mk_direction directions[] = { MK_INGRESS, MK_EGRESS };
	struct stray_walk *walk = ctx;
	int removed = 0;

	for (size_t i = 0; i < MK_ARRAY_SIZE(directions); i++) {
		int ret = 0;

		if (!is_fixed_hook(walk, link->ifindex, directions[i]))
			ret = mk_hook_detach_fixed(walk->nl, link->ifindex, directions[i],
						   walk->err);
		if (ret < 0)
			return ret;
		removed += ret;
	}
	if (removed)
		mk_log_info("programs removed from a former uplink device=%s", link->name);
	return 0;
}

int remove_stray_hooks(struct mk_datapath *datapath, struct mk_error *err)
{
	struct stray_walk walk = { .nl = datapath->nl, .err = err };

	walk.count = fixed_hooks(datapath, walk.hooks);
	return mk_nl_each_link(datapath->nl, remove_strays, &walk, err);
}

/* Update the pod's entry: a bandwidth limit may have been added or removed, and the entry may lack
 * the network namespace. */
static int complete_entry(const struct mk_datapath *datapath, const struct mk_pod *pod,
			  const struct mk_link *link, struct mk_error *err)
{
	struct mk_mac mac;
	struct mk_pod wanted;

	memcpy(mac.byte, pod->mac, sizeof(mac.byte));
	wanted = mk_pod_of(link, &mac);
	if (pod->netns_ref)
		wanted.netns_ref = pod->netns_ref;
	if (pod->netns_ref == wanted.netns_ref && pod->shaped == wanted.shaped)
		return 0;
	wanted.addr = pod->addr;
	return mk_pod_table_put(&datapath->pods, &wanted, err);
}

/* Attach the pod's program. Returns 1 if it did. A pod whose interface is gone is left to the
 * reaper. A pod that keeps its old program still needs the old chain, so that is an error. */
static int ensure_pod_hook(const struct mk_datapath *datapath, const struct mk_pod *pod,
			   struct mk_error *err)
{
	const struct hook hook = { (int)pod->ifindex, MK_INGRESS, "ilb_pod" };
	struct mk_link link;
	int ret;

	if (!get_pod_veth(datapath, hook.ifindex, &link))
		return 0;
	ret = complete_entry(datapath, pod, &link, err) ?: ensure_hook(datapath, &hook, err);
	return ret < 0 && !is_pod_veth(datapath, hook.ifindex) ? 0 : ret;
}

/* Attach the programs of the other family's pods: if that family does not have the hooks, it leaves
 * them to this one. Some pods have one family only. Returns the number of pods changed. */
static int ensure_other_pod_hooks(const struct mk_datapath *datapath, struct mk_error *err)
{
	cleanup_table struct mk_table table = { .fd = -1 };
	cleanup_free struct mk_pod *pods = NULL;
	int changed = 0, ret;
	size_t count;

	if (!datapath->other_dir[0] ||
	    mk_pod_table_open(&table, datapath->other_dir, NULL) == -ENOENT)
		return 0;
	ret = mk_pod_table_read(&table, &pods, &count, err);
	for (size_t i = 0; ret >= 0 && i < count; i++) {
		const struct hook hook = { (int)pods[i].ifindex, MK_INGRESS, "ilb_pod" };

		if (!is_pod_veth(datapath, hook.ifindex))
			continue;
		ret = ensure_hook(datapath, &hook, err);
		if (ret < 0 && !is_pod_veth(datapath, hook.ifindex))
			ret = 0;
		changed += ret > 0;
	}
	return ret < 0 ? ret : changed;
}

static int ensure_own_pod_hooks(const struct mk_datapath *datapath, struct mk_error *err)
{
	cleanup_free struct mk_pod *pods = NULL;
	int changed = 0, ret;
	size_t count;

	ret = mk_pod_table_read(&datapath->pods, &pods, &count, err);
	for (size_t i = 0; ret >= 0 && i < count; i++) {
		ret = ensure_pod_hook(datapath, &pods[i], err);
		changed += ret > 0;
	}
	return ret < 0 ? ret : changed;
}

struct port_walk {
	const struct mk_datapath *datapath;
	int (*ensure)(const struct mk_datapath *datapath, const struct hook *hook,
		      struct mk_error *err);
	int changed;
	bool found; /* a port */
	struct mk_error *err;
};

static int see_port(void *ctx, const struct mk_link *link)
{
	const struct hook hook = { link->ifindex, MK_INGRESS, "sfc_port" };
	struct port_walk *walk = ctx;
	struct mk_link now;
	int ret;

	if (!mk_port_of(link, NULL, NULL))
		return 0;
	walk->found = true;
	ret = walk->ensure(walk->datapath, &hook, walk->err);
	if (ret < 0 && mk_nl_link_get_index(walk->datapath->nl, link->ifindex, &now, NULL) < 0)
		return 0; /* the port is gone */
	walk->changed += ret > 0;
	return ret < 0 ? ret : 0;
}

int each_port_hook(struct mk_datapath *datapath,
		   int (*ensure)(const struct mk_datapath *datapath, const struct hook *hook,
				 struct mk_error *err),
		   struct mk_error *err)
{
	struct port_walk walk = { .datapath = datapath, .ensure = ensure, .err = err };
	int ret;

	if (datapath_is_behind(datapath))
		return 0;
	ret = mk_nl_each_link(datapath->nl, see_port, &walk, err);
	datapath->has_ports = ret < 0 || walk.found;
	return ret < 0 ? ret : walk.changed;
}

/* Pods' and ports' hooks. */
int ensure_pod_hooks(struct mk_datapath *datapath, struct mk_error *err)
{
	int own = ensure_own_pod_hooks(datapath, err);
	int others = own < 0 ? own : ensure_other_pod_hooks(datapath, err);
	int ports = others < 0 ? others : each_port_hook(datapath, ensure_hook, err);

	return ports < 0 ? ports : own + others + ports;
}
