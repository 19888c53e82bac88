// SPDX-License-Identifier: Apache-2.0
/* Each part looks regularly whether what it made is still there, and restores it. Notifications
 * (rtnl_events.c) report most changes at once; these checks need none. A check takes at most some
 * hundred microseconds if nothing is wrong. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "agent/agent_internal.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/state_file.h"
#include "datapath/monitor/monitor.h"
#include "host/agent_state.h"

#define TICK_MS	       500
#define SOON_MS	       10 /* a tick may come that much too early */
#define ROUND	       7 /* turns; at each, one kind of things is looked at */
#define SECOND	       2
#define MINUTE	       120
#define HOOKS_AT_ONCE  8 /* pods' hooks per check; the other hooks follow in later ones */
#define ENTRIES	       256 /* table entries per check */
#define PEERS_PER_TURN 64 /* larger clusters are looked at less often: a look reads all entries */
#define NO_REPAIR      MK_REPAIRS /* the result is not counted, or elsewhere */
#define QUIET_WAITS    3 /* pods hold a lock for a moment: so many tries wait without a line */

/* ---- adapters: each part takes only what it needs -------------------------------------------- */

static bool is_listed(const struct mk_family *family)
{
	return family->core->listed && mk_family_is_attached(family);
}

FAMILY_ROW(check_hooks, mk_family_is_attached,
	   mk_datapath_repair_hooks(family->datapath, HOOKS_AT_ONCE, err))
FAMILY_ROW(check_links, is_listed, mk_datapath_repair_links(family->datapath, err))
FAMILY_ROW(check_routes, is_listed, mk_datapath_repair_routes(family->datapath, ENTRIES, err))
FAMILY_ROW(check_services, is_listed,
	   agent_services_reconcile_tables(&side->services, ENTRIES, err))
FAMILY_ROW(check_runtime, is_listed, agent_linger_reconcile_runtime(&side->linger, err))
FAMILY_ROW(check_udp_ports, is_listed, agent_linger_reconcile_udp_ports(&side->linger, err))
FAMILY_ROW(check_sessions, is_listed, agent_sessions_look(&side->sessions))
ROW(check_policies, mk_node_policies_reconcile_tables(&agent->policies, err))
ROW(collect_policies, mk_node_policies_collect(&agent->policies, err))
ROW(check_sfc, mk_node_sfc_reconcile_tables(&agent->sfc, err))
ROW(describe_sfc, mk_node_sfc_describe(&agent->sfc, err))
ROW(collect_sfc, mk_node_sfc_collect(&agent->sfc, err))
ROW(check_clusters, mk_node_clusters_reconcile_tables(&agent->clusters, err))
/* Each second, or twice as often. The leader writes what probes show. */
static int probe_clusters(struct mk_agent *agent, struct mk_error *err)
{
	unsigned int shown = agent->clusters.shown;
	int ret;

	if (agent->checks.turn % SECOND && !mk_node_clusters_hurry(&agent->clusters))
		return 0;
	ret = mk_node_clusters_probe(&agent->clusters, err);
	if (agent->clusters.shown != shown)
		mk_leader_rows_changed(agent->process.leader);
	return ret;
}

ROW(probe_links, mk_own_node_probe_links(&agent->node))
ROW(log_denied, mk_node_policies_log_denied(&agent->policies, err))
ROW(check_sysctls, mk_own_node_check_sysctls(&agent->node, err))
ROW(check_neighbours, mk_own_node_check_neighbours(&agent->node, err))
ROW(check_devices, agent_pods_reconcile_devices(&agent->pods, &agent->core.config, err))
ROW(check_down, agent_pods_reconcile_down(&agent->pods, agent->core.nl, &agent->core.config, err))
ROW(check_host_ports, agent_pods_reconcile_host_ports(&agent->pods, &agent->core.config, err))
FAMILY_ROW(check_chain, mk_family_is_attached, mk_datapath_repair_chain(family->datapath, err))
FAMILY_ROW(check_pins, mk_family_is_attached, mk_datapath_repair_pins(family->datapath, err))
FAMILY_ROW(check_counters, mk_family_is_pruned, mk_datapath_prune_counters(family->datapath, err))
FAMILY_ROW(check_drop_reports, mk_family_is_attached,
	   mk_monitor_reset_stale(family->dir, agent->core.config.state_dir,
				  agent->policies.denied != NULL, err))
ROW(check_node, (mk_core_mark(&agent->core, MK_UNSURE_NODE, 0), 0))
ROW(check_log, (mk_log_tell_suppressed(), 0))
FAMILY_ROW(check_names, is_listed, agent_services_reconcile_names(&side->services, err))

static int check_changed_hooks(struct mk_agent *agent, struct mk_error *err)
{
	agent->core.unsure &= ~(unsigned int)MK_UNSURE_HOOKS;
	return agent_hooks_reconcile(&agent->hooks, &agent->core, err);
}

/* The overlay compares in its own step. */
static int check_overlay(struct mk_agent *agent, struct mk_error *err)
{
	size_t peers =
		agent->node.families[0].plan.peer_count + agent->node.families[1].plan.peer_count;

	(void)err;
	if (agent->checks.overlay_turns++ < peers / PEERS_PER_TURN)
		return 0;
	agent->checks.overlay_turns = 0;
	mk_overlay_refresh(agent->core.overlay);
	mk_core_mark(&agent->core, MK_UNSURE_OVERLAY, 0);
	return 0;
}

/* The steps install them again. */
static int check_files(struct mk_agent *agent, struct mk_error *err)
{
	(void)err;
	if (agent_files_differ(&agent->files, &agent->core.config))
		mk_core_schedule(&agent->core, 0);
	return 0;
}

/* Without its lock nothing shows that this agent lives, and a second one may start. The record of
 * settings and other files are gone as well, mostly: an agent writes them when it starts. */
static int check_state_dir(struct mk_agent *agent, struct mk_error *err)
{
	const char *state_dir = agent->core.config.state_dir;
	struct stat held, there;
	char path[PATH_MAX];
	int ret = mk_state_path(state_dir, MK_AGENT_LOCK, path, err);

	if (ret < 0 || fstat(agent->process.lock_fd, &held) < 0)
		return ret;
	ret = stat(path, &there) < 0 ? -errno : 0;
	if (ret != -ENOENT && (ret < 0 || there.st_ino == held.st_ino))
		return 0;
	mk_log_error(
		"'%s' was removed by another process: this agent ends, because the next one writes the files of '%s' again",
		path, state_dir);
	agent->process.must_restart = true;
	uv_stop(&agent->core.loop);
	return 0;
}

static int check_pods(struct mk_agent *agent, struct mk_error *err)
{
	int ret = agent_pods_reconcile_entries(&agent->pods, &agent->core.config, err);

	if (ret > 0)
		agent_hooks_changed(&agent->hooks, &agent->core, 0);
	return ret;
}

static int check_addresses(struct mk_agent *agent, struct mk_error *err)
{
	agent->core.unsure &= ~(unsigned int)MK_UNSURE_ADDRESSES;
	return agent_pods_reconcile_addresses(&agent->pods, &agent->node, err);
}

static void say_clock(struct agent_checks *checks, const struct mk_api_clock *clock)
{
	struct mk_own_clock now = mk_own_clock_now();
	bool off = mk_api_clock_is_off(clock, &now);
	long long ahead_s = mk_api_clock_ahead_ms(clock, &now) / 1000;

	if (off && !checks->clock_off)
		mk_log_warn(
			"this node's clock is %lld s %s the API server's: certificates and tokens may be refused, and times in logs mislead; run chrony or systemd-timesyncd on both",
			ahead_s < 0 ? -ahead_s : ahead_s, ahead_s < 0 ? "ahead of" : "behind");
	else if (!off && checks->clock_off)
		mk_log_info("this node's clock and the API server's agree again");
	checks->clock_off = off;
}

/* Store the difference for `monokube check`: at the start, because what an earlier run stored is
 * old, then at every new time of the server, and every minute. */
static int check_clock(struct mk_agent *agent, struct mk_error *err)
{
	static const struct mk_api_clock none;
	const struct mk_api_clock *clock = mk_source_clock(agent->core.source);
	struct agent_checks *state = &agent->checks;

	clock = clock ? clock : &none;
	if (clock->earliest_ms == state->clock_seen_ms && state->turn % MINUTE != 0)
		return 0;
	state->clock_seen_ms = clock->earliest_ms;
	say_clock(state, clock);
	return mk_api_clock_write(agent->core.config.state_dir, clock, err);
}

/* ---- the table ------------------------------------------------------------------------------- */

enum needs {
	NOTHING,
	ATTACHED, /* programs on the hooks */
	LISTS, /* and it is known what the tables have to hold */
};

/* A check comes at every `every`th turn, at `turn` of them, and when a notification marks
 * `unsure`. Its result is counted as so many repairs. */
static const struct check {
	const char *what;
	int (*reconcile)(struct mk_agent *agent, struct mk_error *err);
	unsigned int every, turn;
	enum needs needs;
	enum mk_repair repair;
	unsigned int unsure;
} checks[] = {
	{ "the hooks", check_changed_hooks, 0, 0, ATTACHED, MK_REPAIR_HOOK, MK_UNSURE_HOOKS },
	{ "the hooks", check_hooks, ROUND, 0, ATTACHED, MK_REPAIR_HOOK, 0 },
	{ "the overlay", check_overlay, ROUND, 1, LISTS, NO_REPAIR, 0 },
	{ "maps 'links' and 'uplinks'", check_links, ROUND, 2, LISTS, MK_REPAIR_TABLE, 0 },
	{ "map 'routes'", check_routes, ROUND, 2, LISTS, MK_REPAIR_TABLE, 0 },
	{ "the Services' tables", check_services, ROUND, 2, LISTS, MK_REPAIR_TABLE, 0 },
	{ "map 'runtime'", check_runtime, ROUND, 2, LISTS, MK_REPAIR_TABLE, 0 },
	{ "the policies' tables", check_policies, ROUND, 2, LISTS, MK_REPAIR_TABLE, 0 },
	{ "the chains' tables", check_sfc, ROUND, 2, LISTS, MK_REPAIR_TABLE, 0 },
	{ "other clusters' tables", check_clusters, ROUND, 2, LISTS, MK_REPAIR_TABLE, 0 },
	{ "probes of other clusters", probe_clusters, 1, 0, LISTS, NO_REPAIR, 0 },
	{ "probes of the link", probe_links, 1, 0, LISTS, NO_REPAIR, 0 },
	{ "map 'udp_ports'", check_udp_ports, ROUND, 2, LISTS, MK_REPAIR_TABLE, 0 },
	{ "map 'sessions'", check_sessions, ROUND, 2, LISTS, NO_REPAIR, 0 },
	{ "kernel settings", check_sysctls, ROUND, 3, NOTHING, MK_REPAIR_SYSCTL, 0 },
	{ "the table of neighbours", check_neighbours, ROUND, 3, LISTS, NO_REPAIR, 0 },
	{ "the CNI files", check_files, ROUND, 4, NOTHING, NO_REPAIR, 0 },
	{ "the state directory", check_state_dir, ROUND, 4, NOTHING, NO_REPAIR, 0 },
	{ "pods' devices", check_devices, ROUND, 5, ATTACHED, NO_REPAIR, 0 },
	{ "pods' devices", check_down, ROUND, 5, ATTACHED, MK_REPAIR_DEVICE, 0 },
	{ "pods' entries", check_pods, ROUND, 5, ATTACHED, MK_REPAIR_POD, 0 },
	{ "map 'host_ports'", check_host_ports, ROUND, 5, ATTACHED, MK_REPAIR_TABLE, 0 },
	{ "the chain of programs", check_chain, ROUND, 6, ATTACHED, MK_REPAIR_CHAIN, 0 },
	{ "the pins", check_pins, ROUND, 6, ATTACHED, MK_REPAIR_PIN, 0 },
	{ "the Services' names", check_names, SECOND, 0, LISTS, NO_REPAIR, 0 },
	{ "policies out of use", collect_policies, SECOND, 0, LISTS, NO_REPAIR, 0 },
	{ "the chains' names", describe_sfc, 1, 0, LISTS, NO_REPAIR, 0 },
	{ "chains out of use", collect_sfc, SECOND, 0, LISTS, NO_REPAIR, 0 },
	{ "denied flows", log_denied, 1, 0, ATTACHED, NO_REPAIR, 0 },
	{ "the API server's clock", check_clock, SECOND, 0, NOTHING, NO_REPAIR, 0 },
	{ "pods' addresses", check_addresses, MINUTE, 0, NOTHING, NO_REPAIR, MK_UNSURE_ADDRESSES },
	{ "the Services' counters", check_counters, MINUTE, 0, LISTS, NO_REPAIR, 0 },
	{ "reports of drops and flows", check_drop_reports, MINUTE, 0, ATTACHED,
	  MK_REPAIR_DROP_REPORTS, 0 },
	/* notifications have mostly reported it already */
	{ "this node", check_node, MINUTE, MINUTE - 1, NOTHING, NO_REPAIR, 0 },
	{ "the log", check_log, MINUTE, 0, NOTHING, NO_REPAIR, 0 },
};
_Static_assert(MK_ARRAY_SIZE(checks) <= AGENT_CHECKS_MAX, "raise AGENT_CHECKS_MAX");

static bool is_possible(const struct mk_agent *agent, enum needs needs)
{
	return needs == NOTHING || (mk_core_any(&agent->core, mk_family_is_attached) &&
				    (needs == ATTACHED || agent->core.listed));
}

static bool is_due(const struct mk_agent *agent, size_t i, bool turn)
{
	const struct check *check = &checks[i];

	return (check->unsure & agent->core.unsure) ||
	       (turn && (agent->checks.state[i].again ||
			 (check->every && agent->checks.turn % check->every == check->turn)));
}

/* A lock is asked for again at the check's next turn, or if that is far, at the next tick. */
static void wait_for_lock(const struct check *check, struct agent_check *state,
			  const struct mk_error *err)
{
	state->again = check->every == MINUTE;
	if (++state->waits == QUIET_WAITS)
		mk_log_warn("waiting for a lock: %s", mk_error_text(err));
}

static void run(struct mk_agent *agent, const struct check *check, struct agent_check *state)
{
	struct mk_error err = { 0 };
	int ret;

	mk_loop_part(check->what);
	ret = check->reconcile(agent, &err);
	mk_loop_part(NULL);
	if (ret == -EWOULDBLOCK) {
		wait_for_lock(check, state, &err);
		return;
	}
	state->again = false;
	state->waits = 0;
	if (ret < 0) {
		if (mk_is_news(&state->said, mk_error_text(&err)))
			mk_log_error("cannot check or repair %s: %s", check->what,
				     mk_error_text(&err));
		return;
	}
	if (check->repair != NO_REPAIR)
		agent->core.repairs.count[check->repair] += (uint64_t)ret;
	if (state->said)
		mk_log_info("can check and repair %s again", check->what);
	free(mk_steal_ptr(state->said));
}

/* The turns go on, however many notifications come. */
void agent_check(struct mk_agent *agent)
{
	uint64_t now_ms = uv_now(&agent->core.loop);
	bool turn = now_ms + SOON_MS >= agent->checks.turned_ms + TICK_MS;

	for (size_t i = 0; i < MK_ARRAY_SIZE(checks); i++)
		if (is_possible(agent, checks[i].needs) && is_due(agent, i, turn))
			run(agent, &checks[i], &agent->checks.state[i]);
	if (!turn)
		return;
	agent->checks.turned_ms = now_ms;
	agent->checks.turn++;
}

static void on_tick(uv_timer_t *timer)
{
	agent_check(timer->data);
}

/* The first turn comes at once. */
void agent_checks_start(struct mk_agent *agent)
{
	agent->core.on_checks = on_tick;
	agent->core.checks.data = agent;
	uv_timer_start(&agent->core.checks, on_tick, SOON_MS, TICK_MS);
}

void agent_checks_free(struct agent_checks *checks_)
{
	for (size_t i = 0; i < AGENT_CHECKS_MAX; i++)
		free(checks_->state[i].said);
}
