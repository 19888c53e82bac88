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
#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/time.h"
#include "datapath/datapath_internal.h"
#include "datapath/hooks_internal.h"
#include "datapath/maps/pin.h"

#define GATE_NS \
	(2 * (uint64_t)MK_NS_PER_S) /* the gate is closed for this long, then open as long */

/* membarrier(2) GLOBAL is synchronize_rcu(): after it, no CPU runs a program that was detached
 * before. It blocks the loop for about ten milliseconds, once per load. A kernel with nohz_full
 * CPUs refuses it; then a pause far longer than any program's run is used instead. */
static void wait_for_grace_period(void)
{
	const struct timespec pause = { .tv_nsec = 100 * 1000 * 1000 };

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) < 0)
		nanosleep(&pause, NULL);
}

/* @changed: hooks of pods that had another program, or none. */
static void say_attached(const struct mk_datapath *datapath, int changed)
{
	const struct mk_link_set *set = &datapath->links.set;

	mk_log_info(
		"datapath attached family=%s host_peer=%u overlay=%u uplink=%u uplinks=%zu pod_hooks_changed=%d",
		mk_family_name(datapath_family(datapath)), set->host_peer_ifindex,
		set->overlay_ifindex, set->first.ifindex, datapath->links.uplink_count, changed);
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

/* The process has one gate for the datapaths of both families: with one each, the second one would
 * find the gate closed by the first one, which waits behind it. */
static struct {
	int fd; /* MK_LOCK_GATE's, while attach waits for its lock; otherwise -1 */
	uint64_t until_ns;
} gate = { .fd = -1 };

static int close_gate(const struct mk_datapath *datapath, uint64_t now_ns, struct mk_error *err)
{
	int fd = mk_state_lock(datapath->state_dir, MK_LOCK_GATE, LOCK_EX, err);

	if (fd < 0)
		return fd;
	gate.fd = fd;
	gate.until_ns = now_ns + GATE_NS;
	return 0;
}

void attach_open_gate(void)
{
	mk_cleanup_close(&gate.fd);
	gate.fd = -1;
}

/* Take the exclusive lock. A process that must not wait (base/lock.h) tries again later and keeps
 * the gate closed until then, so that new calls of the plugin cannot starve it. If a running call
 * never ends, the gate still opens half of the time for the others. */
static int lock_exclusive(struct mk_datapath *datapath, struct mk_error *err)
{
	uint64_t now_ns = mk_time_monotonic_ns();
	int ret = 0;

	if (gate.fd >= 0 && now_ns > gate.until_ns)
		attach_open_gate();
	else if (gate.fd < 0 && now_ns > gate.until_ns + GATE_NS)
		ret = close_gate(datapath, now_ns, err);
	ret = ret ?: mk_state_lock(datapath->state_dir, MK_LOCK_DATAPATH, LOCK_EX, err);
	datapath->waits_at_gate = ret == -EWOULDBLOCK;
	if (ret != -EWOULDBLOCK)
		attach_open_gate();
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
	mk_log_info("devices and addresses changed, no program was loaded family=%s uplinks=%zu",
		    mk_family_name(datapath_family(datapath)), links->uplink_count);
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
