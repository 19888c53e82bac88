// SPDX-License-Identifier: Apache-2.0
/* Bring the node to what the cluster says. Changes only mark something; then all steps run in
 * order, in one turn of the loop. They are repeated when something changes again, or after an
 * error. */
#include <errno.h>
#include <stdio.h>

#include "agent/agent_internal.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/time.h"
#include "datapath/maps/pin.h"
#include "host/agent_state.h"

#define BACKOFF_FIRST_MS 100
#define BACKOFF_LAST_MS	 30000
#define NEXT_TURN_MS	 1 /* a timer of 0 ms would run again in this turn */
#define LOCK_RETRY_MS	 50
#define LOCK_QUIET_TRIES 10 /* a shorter wait is not worth a line */

/* ---- steps ----------------------------------------------------------------------------------- */

ROW(step_node, mk_own_node_reconcile(&agent->node, err))
ROW(step_health, (mk_health_updated(&agent->health.state, mk_time_now_unix_ns()), 0))
ROW(step_plugin, agent_files_reconcile_plugin(&agent->files, &agent->core, err))

/* Devices and addresses are data: running programs go on with changed ones. */
static int change_links(const struct mk_own_family *own, struct mk_error *err)
{
	struct mk_datapath_links links;
	int ret;

	mk_own_family_links(own, &links);
	ret = mk_datapath_change_links(own->family->datapath, &links, err);
	return ret < 0 ? ret : 0;
}

FAMILY_ROW(step_links, mk_family_is_attached, change_links(own, err))

static bool is_to_attach(const struct mk_family *family)
{
	return mk_family_is_loaded(family) && !mk_family_is_attached(family);
}

static bool has_moved(const struct mk_family *family)
{
	return is_to_attach(family) && mk_datapath_moved(family->datapath);
}

static int attach(const struct mk_own_family *own, struct mk_error *err)
{
	struct mk_datapath_links links;

	mk_own_family_links(own, &links);
	return mk_datapath_attach(own->family->datapath, &links, err);
}

/* IPv4's programs have the hooks of a node with both families, and IPv6's are behind them, in a map
 * of IPv4's. So IPv6 waits until IPv4 is loaded. A node that gains IPv4 has IPv6's programs on its
 * hooks: they get their place behind IPv4's first. */
static bool waits_for_other(const struct mk_family *family)
{
	const struct mk_core *core = family->core;
	const struct mk_family *other = &core->families[!mk_family_index(family->family)];

	if (!other->runs || mk_family_is_loaded(other))
		return false;
	return family->family == AF_INET6 ||
	       (mk_pin_has_programs(other->dir) && !mk_pin_has_programs(family->dir));
}

static int attach_families(struct mk_agent *agent, mk_family_test *wanted, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = MK_FAMILIES; ret == 0 && i-- > 0;) {
		const struct mk_family *family = &agent->core.families[i];

		if (wanted(family) && !waits_for_other(family))
			ret = attach(&agent->node.families[i], err);
	}
	return ret;
}

ROW(step_attach, attach_families(agent, is_to_attach, err))
/* The running programs use the old tables. */
ROW(step_attach_moved, attach_families(agent, has_moved, err))

static bool is_dirty(const void *ctx, const char *key)
{
	const struct mk_agent *agent = ctx;

	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (agent->core.families[i].runs &&
		    agent_service_is_dirty(&agent->sides[i].services, key))
			return true;
	return false;
}

/* A family that finds a table full, or has more to do, does not hold up the other one. */
static int step_services(struct mk_agent *agent, struct mk_error *err)
{
	unsigned int primary = mk_family_index(mk_own_node_primary(&agent->node)->family->family);
	struct mk_error why[MK_FAMILIES] = { 0 };
	int ret[MK_FAMILIES] = { 0 };

	for (size_t i = 0; i < MK_FAMILIES; i++) {
		if (!mk_family_is_loaded(&agent->core.families[i]))
			continue;
		agent->sides[i].services.says = i == primary;
		ret[i] = agent_services_reconcile(&agent->sides[i].services, &why[i]);
	}
	agent_latency_written(&agent->latency, is_dirty, agent);
	if (ret[0] == MK_AGAIN || ret[1] == MK_AGAIN)
		return MK_AGAIN;
	*err = ret[0] < 0 ? why[0] : why[1];
	return ret[0] < 0 ? ret[0] : ret[1];
}

ROW(step_sfc, mk_node_sfc_reconcile(&agent->sfc, err))
/* The leader waits for the rows. */
static int step_clusters(struct mk_agent *agent, struct mk_error *err)
{
	unsigned int computed = agent->clusters.computed;
	int ret = mk_node_clusters_reconcile(&agent->clusters, err);

	if (agent->clusters.computed != computed)
		mk_leader_rows_changed(agent->process.leader);
	return ret;
}

ROW(step_cluster_tables, mk_node_clusters_write(&agent->clusters, err))
ROW(step_policies, mk_node_policies_reconcile(&agent->policies, err))

/* The overlay's device goes with its uplink. Then the agent reports what the node waits for. */
static bool overlay_waits(const struct mk_agent *agent)
{
	struct mk_link link;

	return agent->node.waits &&
	       mk_nl_link_get_index(agent->core.nl, agent->node.devices.overlay_ifindex, &link,
				    NULL) == -ENODEV;
}

static int step_overlay(struct mk_agent *agent, struct mk_error *err)
{
	struct mk_core *core = &agent->core;
	const struct mk_overlay_repairs *repairs = mk_overlay_repairs(core->overlay);
	bool complete = core->complete && agent->node.ranges_known;
	int ret;

	if (!(core->unsure & MK_UNSURE_OVERLAY) || overlay_waits(agent))
		return 0;
	ret = mk_overlay_sync(core->overlay, complete, &core->writes, err);
	core->repairs.count[MK_REPAIR_ROUTE] = repairs->routes;
	core->repairs.count[MK_REPAIR_NEIGHBOUR] = repairs->neighbours;
	if (ret < 0)
		return ret;
	core->unsure &= ~(unsigned int)MK_UNSURE_OVERLAY;
	mk_own_node_say_clear(&agent->node);
	return 0;
}

static int prune(struct mk_agent *agent, struct mk_family *family, struct agent_side *side,
		 struct mk_error *err)
{
	uint64_t now_ns = mk_time_monotonic_ns();
	struct mk_service_counts counts = { 0 };
	int ret = mk_datapath_prune(family->datapath, now_ns, now_ns + MK_TURN_NS, &counts, err);

	agent->core.writes += counts.put + counts.deleted;
	if (ret < 0)
		return ret;
	if (counts.deleted)
		mk_log_info("removed entries of Services that are gone entries=%u", counts.deleted);
	if (ret > 0)
		return MK_AGAIN;
	agent_sessions_sweep_now(&side->sessions); /* backends may have gone while no agent ran */
	return 0;
}

static bool is_to_prune(const struct mk_family *family)
{
	return family->core->complete && mk_family_is_attached(family) &&
	       !mk_family_is_pruned(family);
}

FAMILY_ROW(prune_families, is_to_prune, prune(agent, family, side, err))

/* Imports are Services, too, and come with the lists of other clusters. */
static int step_prune(struct mk_agent *agent, struct mk_error *err)
{
	const struct mk_core *core = &agent->core;
	int ret;

	if (core->config.cluster_name[0] && !mk_source_listed(core->source, MK_SOURCE_PEERS))
		return 0;
	ret = prune_families(agent, err);
	return ret > 0 ? MK_AGAIN : ret;
}

/* Every family of the node has to work before the node is ready. A former one goes then. */
static int step_whole(struct mk_agent *agent, struct mk_error *err)
{
	if (!mk_core_all(&agent->core, mk_family_is_attached))
		return MK_WAIT;
	return agent->steps.ready ? 0 : agent_remove_former(&agent->core, err);
}

static int step_conf(struct mk_agent *agent, struct mk_error *err)
{
	struct mk_cni_conf_values values = {
		.config = &agent->core.config,
		.underlay = agent->node.internal_ip.family,
		.mtu_bytes = agent->node.pod_mtu_bytes,
		.is_direct = agent->node.pod_mtu_bytes != agent->node.mtu_bytes,
	};

	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (agent->core.families[i].runs)
			values.pod_cidrs[i] = agent->node.families[i].addresses.pod_cidr;
	return agent_files_reconcile_conf(&agent->files, &agent->core, &values, err);
}

static void say_mtu_reason(const struct mk_agent *agent, char *text, size_t size)
{
	const struct mk_link *uplink = &agent->node.uplinks.uplink[0].link;
	bool is_encrypted = agent->core.config.encryption != MK_ENCRYPTION_NONE;

	if (agent->core.config.mtu_bytes)
		snprintf(text, size, "configured");
	else if (agent->node.pod_mtu_bytes == uplink->mtu_bytes)
		snprintf(text, size, "%s's %u, routing", uplink->name, uplink->mtu_bytes);
	else
		snprintf(text, size, "%s's %u less %u for VXLAN%s", uplink->name, uplink->mtu_bytes,
			 mk_overlay_overhead_bytes(agent->node.internal_ip.family, is_encrypted),
			 is_encrypted ? " and WireGuard" : "");
}

/* Interpreted programs work as well, but several times slower. */
static const char *jit_state(const struct mk_agent *agent)
{
	cleanup_free char *text = NULL;
	char path[PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/net/core/bpf_jit_enable", agent->core.config.proc_sys_dir);
	if (mk_file_read(path, 16, &text, NULL, NULL) < 0)
		return "unknown";
	return *text == '0' ? "off" : "on";
}

static void say_masquerade(const struct mk_agent *agent)
{
	const struct mk_own_family *ipv6 = &agent->node.families[mk_family_index(AF_INET6)];
	const char *reason;
	bool on;

	if (!ipv6->family->runs)
		return;
	on = mk_masquerade_ipv6(agent->core.config.masquerade_ipv6, &ipv6->addresses.pod_cidr,
				&reason);
	mk_log_info("IPv6 traffic that leaves the cluster masqueraded=%s reason=\"%s\"",
		    on ? "true" : "false", reason);
}

/* A line for the second family of a node. */
static void say_second(const struct mk_agent *agent, const struct mk_own_family *primary)
{
	unsigned second = !mk_family_index(primary->family->family);
	const struct mk_own_family *own = &agent->node.families[second];
	const struct mk_service_sync *sync;
	char pods[MK_CIDR_STRLEN], vtep[MK_IP_STRLEN], address[MK_IP_STRLEN];

	if (!own->family->runs)
		return;
	sync = mk_datapath_services(own->family->datapath);
	mk_log_info("also %s address=%s pods=%s vtep=%s peers=%zu services=%zu frontends=%zu",
		    mk_family_name(own->family->family), mk_ip_format(&own->node_ip, address),
		    mk_cidr_format(&own->addresses.pod_cidr, pods),
		    mk_ip_format(&own->addresses.vtep, vtep), own->plan.peer_count,
		    mk_service_sync_service_count(sync), mk_service_sync_frontend_count(sync));
}

/* Log what was found and what follows from it. */
static void say_ready(struct mk_agent *agent)
{
	const struct mk_own_family *own = mk_own_node_primary(&agent->node);
	const struct mk_service_sync *sync = mk_datapath_services(own->family->datapath);
	char pods[MK_CIDR_STRLEN], vtep[MK_IP_STRLEN], address[MK_IP_STRLEN], why[64];

	say_mtu_reason(agent, why, sizeof(why));
	mk_log_info(
		"ready node=%s address=%s pods=%s vtep=%s uplink=%s mtu=%u mtuFrom=\"%s\" jit=%s peers=%zu services=%zu frontends=%zu writes=%u afterListsMs=%lu cpuMs=%lu",
		agent->core.config.node_name, mk_ip_format(&agent->node.internal_ip, address),
		mk_cidr_format(&own->addresses.pod_cidr, pods),
		mk_ip_format(&own->addresses.vtep, vtep), agent->node.uplinks.uplink[0].link.name,
		agent->node.pod_mtu_bytes, why, jit_state(agent), own->plan.peer_count,
		mk_service_sync_service_count(sync), mk_service_sync_frontend_count(sync),
		agent->core.writes, agent->steps.after_lists_ns / 1000000,
		(mk_time_ns(CLOCK_PROCESS_CPUTIME_ID) - agent->steps.listed_cpu_ns) / 1000000);
	say_second(agent, own);
}

static int step_ready(struct mk_agent *agent, struct mk_error *err)
{
	(void)err;
	if (agent->steps.ready)
		return 0;
	agent->steps.ready = true;
	agent->steps.after_lists_ns = mk_time_monotonic_ns() - agent->steps.listed_ns;
	mk_source_ready(agent->core.source);
	say_ready(agent);
	say_masquerade(agent);
	return 0;
}

/* ---- all of them ----------------------------------------------------------------------------- */

enum { NODE = 1, PLUGIN = 2 };

/* A step that fails or waits holds up those below it, unless it is held back: then only those that
 * need it are left out, and its error is reported at the end. */
static const struct step {
	const char *name;
	int (*reconcile)(struct mk_agent *agent, struct mk_error *err);
	unsigned int is, needs;
	enum { STOPS, GOES_ON, GOES_ON_IF_FULL } failed;
} steps[] = {
	/* a loaded datapath goes on serving, and Services are still followed */
	{ "node", step_node, NODE, 0, GOES_ON },
	{ "links", step_links, 0, NODE, STOPS },
	{ "attach", step_attach_moved, 0, 0, STOPS },
	/* a Service that finds a table full delays nothing else */
	{ "Services", step_services, 0, 0, GOES_ON_IF_FULL },
	/* policies name chains, whose rows come first */
	{ "chains", step_sfc, 0, 0, GOES_ON },
	/* before the programs of a version with policies run for the first time */
	{ "policies", step_policies, 0, 0, GOES_ON },
	{ "attach", step_attach, 0, 0, STOPS },
	/* as soon as the tables are this version's */
	{ "plugin", step_plugin, PLUGIN, 0, GOES_ON },
	/* the overlay has the FDB entries before the tables name them */
	{ "clusters", step_clusters, 0, 0, GOES_ON },
	{ "overlay", step_overlay, 0, 0, STOPS },
	{ "clusters' tables", step_cluster_tables, 0, 0, GOES_ON },
	{ "prune", step_prune, 0, 0, STOPS },
	{ "families", step_whole, 0, 0, STOPS },
	{ "health", step_health, 0, 0, STOPS },
	/* last: it tells runtimes that the node works */
	{ "configuration", step_conf, 0, PLUGIN, STOPS },
	{ "ready", step_ready, 0, NODE | PLUGIN, STOPS },
};

static bool goes_on(const struct mk_agent *agent, const struct step *step,
		    const struct mk_error *err)
{
	return mk_core_any(&agent->core, mk_family_is_loaded) &&
	       (step->failed == GOES_ON || (step->failed == GOES_ON_IF_FULL && mk_is_full(err)));
}

static int run_steps(struct mk_agent *agent, struct mk_error *err)
{
	struct mk_error first = { 0 }, why = { 0 };
	unsigned int failed = 0;
	int ret;

	for (size_t i = 0; i < MK_ARRAY_SIZE(steps); i++) {
		if (steps[i].needs & failed)
			continue;
		mk_loop_part(steps[i].name);
		ret = steps[i].reconcile(agent, &why);
		if (ret == 0)
			continue;
		if (ret == MK_WAIT && first.code)
			break; /* perhaps for what failed above */
		if (ret > 0 || !goes_on(agent, &steps[i], &why)) {
			*err = why;
			return ret;
		}
		failed |= steps[i].is;
		if (!first.code)
			first = why;
	}
	*err = first;
	return -first.code;
}

/* The holder usually keeps a lock for milliseconds: no reason for growing pauses. */
static void wait_for_lock(struct mk_agent *agent, const struct mk_error *err)
{
	if (agent->steps.lock_waits++ >= LOCK_QUIET_TRIES)
		(void)mk_core_wait_for(&agent->core, "a lock: %s", mk_error_text(err));
	mk_core_schedule(&agent->core, LOCK_RETRY_MS);
}

static void retry_later(struct mk_agent *agent, const struct mk_error *err)
{
	struct agent_steps *state = &agent->steps;

	state->failures++;
	agent->core.unsure |= MK_UNSURE_OVERLAY;
	mk_core_failed(&agent->core, err);
	state->backoff_ms = state->backoff_ms ? state->backoff_ms * 2 : BACKOFF_FIRST_MS;
	if (state->backoff_ms > BACKOFF_LAST_MS)
		state->backoff_ms = BACKOFF_LAST_MS;
	mk_core_schedule(&agent->core, state->backoff_ms);
}

static void finish(struct mk_agent *agent, int ret, const struct mk_error *err)
{
	struct agent_steps *state = &agent->steps;

	if (ret == -EWOULDBLOCK)
		wait_for_lock(agent, err);
	else if (ret < 0)
		retry_later(agent, err);
	else
		state->backoff_ms = state->lock_waits = 0;
	if (ret == 0 && !agent->node.waits)
		mk_core_fine(&agent->core);
	mk_core_write_state(&agent->core, state->ready ? MK_AGENT_READY : NULL);
}

static bool loads(const struct mk_agent *agent)
{
	return agent->node.families[0].load.state == MK_LOAD_RUNS ||
	       agent->node.families[1].load.state == MK_LOAD_RUNS;
}

/* The API server may be away for hours: take care of what the last run left meanwhile. */
static void work_early(struct mk_agent *agent)
{
	struct mk_error err = { 0 };
	int ret;

	if (!agent->node.remembered || !(agent->core.unsure & MK_UNSURE_NODE) || loads(agent))
		return;
	mk_loop_part("node");
	ret = mk_own_node_reconcile(&agent->node, &err);
	if (ret == 0)
		ret = step_attach(agent, &err);
	mk_loop_part(NULL);
	if (ret == -EWOULDBLOCK) {
		wait_for_lock(agent, &err);
		return;
	}
	if (loads(agent))
		return; /* the end of the load calls this again */
	agent->core.unsure &= ~(unsigned int)MK_UNSURE_NODE;
	agent->steps.lock_waits = 0;
	if (ret < 0)
		mk_log_info("the last run's devices and programs wait for the first list: %s",
			    mk_error_text(&err));
	else if (ret == 0)
		mk_log_debug("the last run's devices, hooks and sessions are looked after");
}

void agent_work(struct mk_agent *agent)
{
	uint64_t began_ns = mk_time_monotonic_ns();
	struct mk_error err = { 0 };
	int ret;

	if (!agent->core.listed) {
		work_early(agent); /* the first list comes whole: begin with all of it */
		return;
	}
	ret = run_steps(agent, &err);
	mk_loop_part(NULL);
	mk_histogram_observe(&agent->steps.seconds,
			     (double)(mk_time_monotonic_ns() - began_ns) / 1e9);
	if (ret == MK_AGAIN)
		mk_core_schedule(&agent->core, NEXT_TURN_MS);
	else
		finish(agent, ret, &err);
}

void agent_steps_init(struct agent_steps *state)
{
	static const double bounds_s[] = { 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
					   0.01,   0.025,   0.05,   0.1,   0.25,   0.5,
					   1,	   2.5,	    5,	    10 };

	for (size_t i = 0; i < MK_ARRAY_SIZE(bounds_s); i++)
		mk_histogram_add_bounds(&state->seconds, bounds_s[i], 0, 1);
}
