// SPDX-License-Identifier: Apache-2.0
/* Replace programs without a gap. At every instant, even after a kill, the following must hold:
 * - A hook's program finds its chain filled. The kernel empties a program array when its last
 *   user-space reference goes, so each chain is pinned before its programs are attached, and
 *   unpinned when none of them is attached any more, nor running (grace period).
 * - The pinned ilb_pod, which the CNI mode attaches, belongs to a pinned chain.
 * - A table that a program uses is pinned with its entries, so that the next agent finds it.
 *
 * On a node with both families IPv4's programs have the hooks, and IPv6's are in map
 * `other_family`. Each family attaches IPv4's pinned programs to the hooks of both, so either may
 * be first. While IPv4's are not pinned yet, IPv6's have the hooks, too. */
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <net/if.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/time.h"
#include "datapath/datapath_internal.h"
#include "datapath/maps/constants.h"
#include "datapath/maps/hook.h"
#include "datapath/maps/pin.h"
#include "datapath/pods/pod_table.h"
#include "datapath/pods/pods.h"

struct hook {
	int ifindex;
	enum mk_direction direction;
	const char *program;
};

#define GATE_NS \
	(2 * (uint64_t)MK_NS_PER_S) /* the gate is closed for this long, then open as long */

#define FIXED_HOOKS (3 + 2 * 2 * MK_UPLINKS_MAX) /* of both families */

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

/* List the hooks of both families' links. Returns their number. */
static size_t fixed_hooks(const struct mk_datapath *datapath, struct hook *hooks)
{
	const struct mk_datapath_links *links = &datapath->links;
	const int host_peer = (int)links->set.host_peer_ifindex;
	const int overlay = (int)links->set.overlay_ifindex;
	struct mk_datapath_links other;
	size_t count = 3;

	hooks[0] = (struct hook){ host_peer, MK_INGRESS, "ilb_host" };
	hooks[1] = (struct hook){ overlay, MK_INGRESS, "ilb_overlay" };
	hooks[2] = (struct hook){ MK_LOOPBACK_IFINDEX, MK_EGRESS, "ilb_lo_egress" };
	for (size_t i = 0; i < links->uplink_count; i++)
		count += add_uplink_hooks(&links->uplinks[i], &hooks[count]);
	read_other_links(datapath, &other);
	for (size_t i = 0; i < other.uplink_count; i++)
		if (!has_uplink(links, other.uplinks[i].ifindex))
			count += add_uplink_hooks(&other.uplinks[i], &hooks[count]);
	return count;
}

/* ---- hooks ---------------------------------------------------------------------------------- */

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
static int ensure_hook(const struct mk_datapath *datapath, const struct hook *hook,
		       struct mk_error *err)
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
static int ensure_entries(const struct mk_datapath *datapath, struct mk_error *err)
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

static int ensure_fixed_hooks(const struct mk_datapath *datapath, struct mk_error *err)
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

static bool is_pod_veth(const struct mk_datapath *datapath, int ifindex)
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

static int remove_stray_hooks(struct mk_datapath *datapath, struct mk_error *err)
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

static int ensure_pod_hooks(const struct mk_datapath *datapath, struct mk_error *err)
{
	int own = ensure_own_pod_hooks(datapath, err);
	int others = own < 0 ? own : ensure_other_pod_hooks(datapath, err);

	return others < 0 ? others : own + others;
}

/* membarrier(2) GLOBAL is synchronize_rcu(): after it, no CPU runs a program that was detached
 * before. It blocks the loop for about ten milliseconds, once per load. A kernel with nohz_full
 * CPUs refuses it; then a pause far longer than any program's run is used instead. */
static void wait_for_grace_period(void)
{
	const struct timespec pause = { .tv_nsec = 100 * 1000 * 1000 };

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) < 0)
		nanosleep(&pause, NULL);
}

static void say_attached(const struct mk_datapath *datapath, int pods)
{
	const struct mk_link_set *set = &datapath->links.set;

	mk_log_info("datapath attached host_peer=%u overlay=%u uplink=%u uplinks=%zu pods=%d",
		    set->host_peer_ifindex, set->overlay_ifindex, set->first.ifindex,
		    datapath->links.uplink_count, pods);
}

/* ---- all steps ------------------------------------------------------------------------------- */

/* The pins are correct already. Attach to all hooks: if a kill interrupted a swap, some still have
 * the old program. */
static int keep_programs(struct mk_datapath *datapath, struct mk_error *err)
{
	int entries = ensure_entries(datapath, err), pods;
	int fixed = entries < 0 ? entries : ensure_fixed_hooks(datapath, err);
	int ret = fixed < 0 ? fixed : remove_stray_hooks(datapath, err);

	if (ret < 0)
		return ret;
	pods = ensure_pod_hooks(datapath, err);
	if (pods < 0)
		return pods;
	if (entries > 0 || fixed > 0 || pods > 0)
		wait_for_grace_period();
	pins_tidy(datapath);
	say_attached(datapath, pods);
	return 0;
}

static int swap_programs(struct mk_datapath *datapath, struct mk_error *err)
{
	int pods, ret = pins_prepare(datapath, err);

	ret = ret ?: migrations_copy(datapath, true, err);
	ret = ret ?: pins_publish(datapath, err);
	ret = ret ?: ensure_entries(datapath, err);
	if (ret >= 0)
		ret = ensure_fixed_hooks(datapath, err);
	if (ret >= 0)
		ret = remove_stray_hooks(datapath, err);
	if (ret < 0)
		return ret;
	pods = ensure_pod_hooks(datapath, err);
	if (pods < 0)
		return pods;
	wait_for_grace_period();
	ret = migrations_copy(datapath, true, err);
	if (ret < 0)
		return ret;
	migrations_release(datapath);
	pins_tidy(datapath);
	say_attached(datapath, pods);
	return 0;
}

static int close_gate(struct mk_datapath *datapath, uint64_t now_ns, struct mk_error *err)
{
	int gate = mk_state_lock(datapath->state_dir, MK_LOCK_GATE, LOCK_EX, err);

	if (gate < 0)
		return gate;
	datapath->gate_fd = gate;
	datapath->gate_until_ns = now_ns + GATE_NS;
	return 0;
}

static void open_gate(struct mk_datapath *datapath)
{
	mk_cleanup_close(&datapath->gate_fd);
	datapath->gate_fd = -1;
}

/* Take the exclusive lock. A process that must not wait (base/lock.h) tries again later and keeps
 * the gate closed until then, so that new calls of the plugin cannot starve it. If a running call
 * never ends, the gate still opens half of the time for the others. */
static int lock_exclusive(struct mk_datapath *datapath, struct mk_error *err)
{
	uint64_t now_ns = mk_time_monotonic_ns();
	int ret = 0;

	if (datapath->gate_fd >= 0 && now_ns > datapath->gate_until_ns)
		open_gate(datapath);
	else if (datapath->gate_fd < 0 && now_ns > datapath->gate_until_ns + GATE_NS)
		ret = close_gate(datapath, now_ns, err);
	ret = ret ?: mk_state_lock(datapath->state_dir, MK_LOCK_DATAPATH, LOCK_EX, err);
	if (ret != -EWOULDBLOCK)
		open_gate(datapath);
	return ret;
}

int mk_datapath_attach(struct mk_datapath *datapath, const struct mk_datapath_links *links,
		       struct mk_error *err)
{
	cleanup_close int lock = -1;
	int ret = datapath_expect(datapath, MK_DATAPATH_LOADED, "attach", err);

	if (ret < 0)
		return ret;
	lock = lock_exclusive(datapath, err);
	if (lock < 0)
		return lock;
	datapath->links = *links;
	ret = mk_links_put(&datapath->link_table, &datapath->uplink_table, links, err);
	if (ret < 0)
		return ret;
	ret = datapath->reused ? keep_programs(datapath, err) : swap_programs(datapath, err);
	ret = ret ?: mk_links_prune(&datapath->uplink_table, links, err);
	if (ret < 0)
		return ret;
	datapath->state = MK_DATAPATH_ATTACHED;
	return 0;
}

int mk_datapath_change_links(struct mk_datapath *datapath, const struct mk_datapath_links *links,
			     struct mk_error *err)
{
	int ret;

	if (datapath->state < MK_DATAPATH_ATTACHED)
		return datapath_expect(datapath, MK_DATAPATH_ATTACHED, "other devices", err);
	if (memcmp(&datapath->links, links, sizeof(*links)) == 0)
		return 0;
	datapath->links = *links;
	ret = ensure_fixed_hooks(datapath, err);
	if (ret >= 0)
		ret = mk_links_put(&datapath->link_table, &datapath->uplink_table, links, err);
	if (ret >= 0)
		ret = mk_links_prune(&datapath->uplink_table, links, err);
	if (ret >= 0)
		ret = remove_stray_hooks(datapath, err);
	if (ret < 0) {
		datapath->links = (struct mk_datapath_links){
			0
		}; /* so that the next try does everything again */
		return ret;
	}
	mk_log_info("devices and addresses changed, no program was loaded uplinks=%zu",
		    links->uplink_count);
	return 1;
}

int mk_datapath_repair_links(const struct mk_datapath *datapath, struct mk_error *err)
{
	int ret;

	if (datapath->state < MK_DATAPATH_ATTACHED || datapath->links.uplink_count == 0)
		return 0;
	ret = mk_links_put(&datapath->link_table, &datapath->uplink_table, &datapath->links, err);
	if (ret > 0)
		mk_log_warn("entries were missing or wrong and are back map=uplinks entries=%d",
			    ret);
	return ret;
}

/* ---- repair ---------------------------------------------------------------------------------- */

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

/* Does the device exist? If not, the error is ignored: a notification reports the removal. */
static bool is_there(const struct mk_datapath *datapath, int ifindex)
{
	struct mk_link link;

	return mk_nl_link_get_index(datapath->nl, ifindex, &link, NULL) == 0;
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
	int entries, fixed, of_pods;

	if (datapath->state < MK_DATAPATH_ATTACHED)
		return datapath_expect(datapath, MK_DATAPATH_ATTACHED, "a check of hooks", err);
	entries = repair_entries(datapath, err);
	fixed = entries < 0 ? entries : repair_fixed_hooks(datapath, wanted, err);
	if (fixed < 0)
		return fixed;
	of_pods = repair_pod_hooks(datapath, wanted, pods, err);
	return of_pods < 0 ? of_pods : entries + fixed + of_pods;
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
