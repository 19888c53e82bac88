// SPDX-License-Identifier: Apache-2.0
/* Periodic work: sessions expire, retired backends are removed, and every minute the agent checks
 * what no notification reports. */
#include <errno.h>

#include "agent/agent_internal.h"
#include "base/log.h"
#include "base/time.h"
#include "base/loop.h"
#include "datapath/monitor/monitor.h"
#include "datapath/services/names.h"
#include "pod/endpoint/reap.h"
#include "pod/ipam/ipam.h"

#define SWEEP_BUDGET	  4096 /* entries per turn: some milliseconds */
#define SWEEP_PAUSE_MS	  20 /* between two turns of a pass: a million entries take 5 s */
#define SWEEP_INTERVAL_MS 5000 /* between two passes */
#define SWEEP_RARELY_MS	  15000 /* ... after one that saw at most SWEEP_FEW */
#define SWEEP_FEW	  4096
#define COLLECT_MS	  1000
#define MINUTE_MS	  60000
#define LOCK_RETRY_MS	  500
#define LOCK_QUIET_TRIES  2
#define NAMES_MS	  1000 /* at least, between two writes of the file of names */

static void on_sweep(uv_timer_t *timer);
static void on_reap(uv_timer_t *timer);

static void sweep_in(struct mk_agent *agent, uint64_t delay_ms)
{
	uv_timer_start(&agent->sweep_timer, on_sweep, delay_ms, 0);
}

/* Let the current pass finish. If each departing backend restarted it, it might never end. */
void agent_sweep_now(struct mk_agent *agent)
{
	agent->sweep_again = agent->stats.pass_since_ns != 0;
	sweep_in(agent, 0);
}

static bool is_cut(void *ctx, const struct mk_tuple *key, const struct mk_session *session)
{
	const struct mk_agent *agent = ctx;

	return agent->pruned &&
	       mk_service_sync_session_cut(mk_datapath_services(agent->datapath), key, session);
}

static void stays(void *ctx, const struct mk_tuple *key, const struct mk_session *session)
{
	struct mk_agent *agent = ctx;

	if (agent->pruned)
		agent_flow_stays(agent, key, session);
	mk_emptied_note(&agent->emptied, key, session);
}

static uint64_t removed_by_sweep(const struct mk_agent *agent)
{
	const struct mk_sweep_counts *totals = mk_sweep_totals(agent->sweep);

	return totals->expired + totals->cut;
}

void agent_look_for_sessions(struct mk_agent *agent)
{
	const struct mk_table *sessions = mk_datapath_session_table(agent->datapath, 0);

	if (agent->sweep && mk_emptied_detect(&agent->emptied, sessions, removed_by_sweep(agent)))
		mk_log_warn(
			"the map of sessions was emptied by another process: a connection continues as a new one with its next packet, or must be opened again map=%s",
			sessions->name);
}

static void count_ended(void *ctx, const struct mk_session *session)
{
	const struct mk_agent *agent = ctx;
	struct mk_error err = { 0 };

	if (mk_counters_add_ended(mk_datapath_counters(agent->datapath), session, &err) < 0)
		mk_log_error("cannot count an ended session service_id=%u packets=%u: %s",
			     session->service_id, session->packets, mk_error_text(&err));
}

static int open_sweep(struct mk_agent *agent, struct mk_error *err)
{
	struct mk_sweep_options options = {
		.tables = mk_datapath_session_table(agent->datapath, 0),
		.table_count = MK_SESSION_TABLES,
		.cut = is_cut,
		.stays = stays,
		.ended = count_ended,
		.ctx = agent,
	};

	if (!agent->sweep)
		agent->sweep = mk_sweep_new(&options, err);
	return agent->sweep ? 0 : -ENOMEM;
}

static void count_step(struct agent_stats *stats, uint64_t began_ns, bool ended)
{
	uint64_t now_ns = mk_time_monotonic_ns();

	stats->sweep_busy_ns += now_ns - began_ns;
	if (!stats->pass_since_ns)
		stats->pass_since_ns = began_ns;
	if (!ended)
		return;
	stats->sweep_passes++;
	stats->sweep_last_ns = now_ns - stats->pass_since_ns;
	stats->pass_since_ns = 0;
}

/* Called for tables of established sessions. A table of new ones is usually full: the oldest are
 * evicted. */
static void tell_full(struct mk_agent *agent, int index, uint64_t entries, uint64_t now_ns)
{
	const struct mk_table *table = mk_datapath_session_table(agent->datapath, index);

	switch (mk_fullness_see(&agent->fullness[index], entries, table->max_entries, now_ns)) {
	case MK_FULLNESS_NOTHING:
		return;
	case MK_FULLNESS_FULL:
		mk_log_warn(
			"table '%s' is full: further connections work, but may be evicted when many new ones come; raise sessionTableSize entries=%lu limit=%u",
			table->name, entries, table->max_entries);
		return;
	case MK_FULLNESS_ROOM:
		mk_log_info("table '%s' has free entries again entries=%lu limit=%u", table->name,
			    entries, table->max_entries);
	}
}

/* Returns 1 at the end of a pass. Before the first list is complete, no flow is known to be cut. */
static int sweep(struct mk_agent *agent, struct mk_error *err)
{
	const struct mk_sweep_counts *last;
	uint64_t now_ns = mk_time_monotonic_ns();
	int ret = open_sweep(agent, err);

	if (ret == 0 && !agent->stats.pass_since_ns)
		agent_look_for_sessions(agent);
	if (ret == 0)
		ret = mk_sweep_step(agent->sweep, now_ns, SWEEP_BUDGET, err);
	count_step(&agent->stats, now_ns, ret > 0);
	if (ret <= 0)
		return ret;
	if (agent->pruned)
		agent_pass_ended(agent);
	mk_emptied_pass_ended(&agent->emptied, removed_by_sweep(agent), mk_time_monotonic_ns());
	for (int table = 0; table < MK_SESSION_TABLES; table += 2)
		tell_full(agent, table, mk_sweep_counts(agent->sweep)->entries[table], now_ns);
	if (mk_datapath_set_half_open_quota(agent->datapath, mk_sweep_counts(agent->sweep), err) <
	    0)
		mk_log_error("half-open sessions: %s", mk_error_text(err));
	last = mk_sweep_last_pass(agent->sweep);
	if (last->expired || last->cut)
		mk_log_debug("sessions swept seen=%lu expired=%lu cut=%lu", last->seen,
			     last->expired, last->cut);
	return ret;
}

/* So few sessions may stay some seconds longer without harm. */
static bool is_calm(const struct mk_agent *agent)
{
	return !agent_asks_for_flows(agent) && mk_sweep_last_pass(agent->sweep)->seen <= SWEEP_FEW;
}

/* Returns the pause after a step; @ended: mk_sweep_step()'s result. */
static uint64_t pause_ms(struct mk_agent *agent, int ended, bool waiting)
{
	bool again = agent->sweep_again;

	if (ended == 0)
		return SWEEP_PAUSE_MS;
	agent->sweep_again = false;
	if (again && ended > 0)
		return 0;
	if (waiting || agent_pass_decides(agent))
		return COLLECT_MS;
	return ended > 0 && is_calm(agent) ? SWEEP_RARELY_MS : SWEEP_INTERVAL_MS;
}

static void on_sweep(uv_timer_t *timer)
{
	struct mk_agent *agent = timer->data;
	struct mk_service_counts counts = { 0 };
	struct mk_error err = { 0 };
	int waiting, ended;

	if (!agent->datapath || mk_datapath_state(agent->datapath) < MK_DATAPATH_ATTACHED) {
		sweep_in(agent, SWEEP_INTERVAL_MS);
		return;
	}
	mk_loop_part("sessions");
	waiting = mk_service_sync_collect(mk_datapath_services(agent->datapath),
					  mk_time_monotonic_ns(), &counts, &err);
	if (waiting < 0)
		mk_log_error("cannot remove old backends: %s", mk_error_text(&err));
	ended = sweep(agent, &err);
	if (ended < 0)
		mk_log_error("cannot sweep sessions: %s", mk_error_text(&err));
	sweep_in(agent, pause_ms(agent, ended, waiting > 0));
	mk_loop_part(NULL);
}

/* Check again what repair.c and notifications have mostly seen already. */
static void look_around(struct mk_agent *agent)
{
	struct mk_error err = { 0 };
	int ret = 0;

	if (agent->datapath && mk_datapath_state(agent->datapath) >= MK_DATAPATH_ATTACHED)
		ret = mk_monitor_reset_stale(agent->config.bpf_dir, agent->config.state_dir, &err);
	if (ret < 0 && ret != -EWOULDBLOCK)
		mk_log_error("cannot switch off unread reports of drops and flows: %s",
			     mk_error_text(&err));
	else if (ret > 0)
		agent->repairs.count[MK_REPAIR_DROP_REPORTS] += (uint64_t)ret;
	agent->node_dirty = true;
	agent_schedule(agent, 0);
}

static int reap(struct mk_agent *agent, struct mk_error *err)
{
	int ret = mk_cni_reap(agent->config.state_dir, agent->config.bpf_dir,
			      agent->config.veth_prefix, err);

	if (ret > 0)
		agent->stats.addresses_reaped += (uint64_t)ret;
	return ret < 0 ? mk_error_wrap(err, "cannot release addresses of containers that are gone")
		       : 0;
}

/* Repair what an earlier version, or a kill, left in the index of addresses by owner. */
static int repair_addresses(struct mk_agent *agent, struct mk_error *err)
{
	cleanup_ipam struct mk_ipam *ipam = NULL;
	int ret;

	if (agent->addresses_repaired)
		return 0;
	ipam = mk_ipam_open(agent->config.state_dir, err);
	ret = ipam ? mk_ipam_repair(ipam, err) : -err->code;
	agent->addresses_repaired = ret != -EWOULDBLOCK;
	return ret < 0 ? mk_error_wrap(err, "cannot repair the index of addresses") : 0;
}

/* If a plugin call hangs while it holds a lock, or pods are starting, try again later. */
static void look_at_addresses(struct mk_agent *agent)
{
	struct mk_error err = { 0 };
	int ret = repair_addresses(agent, &err);

	if (ret < 0 && ret != -EWOULDBLOCK)
		mk_log_error("%s", mk_error_text(&err));
	if (ret != -EWOULDBLOCK)
		ret = reap(agent, &err);
	if (ret >= 0)
		ret = agent_look_outside_pod_cidr(agent, &err);
	if (ret == -EWOULDBLOCK) {
		if (agent->reap_waits++ == LOCK_QUIET_TRIES)
			mk_log_warn("waiting for a lock: %s", mk_error_text(&err));
		uv_timer_start(&agent->reap_timer, on_reap, LOCK_RETRY_MS, 0);
		return;
	}
	agent->reap_waits = 0;
	if (ret < 0)
		mk_log_error("%s", mk_error_text(&err));
}

static void on_reap(uv_timer_t *timer)
{
	mk_loop_part("addresses");
	look_at_addresses(timer->data);
	mk_loop_part(NULL);
}

void agent_addresses_soon(struct mk_agent *agent)
{
	uv_timer_start(&agent->reap_timer, on_reap, 0, 0);
}

/* Runs later than the turn that learned of the Services: many come together. */
static void on_names(uv_timer_t *timer)
{
	struct mk_agent *agent = timer->data;
	const struct mk_service_sync *sync;
	struct mk_error err = { 0 };

	if (!agent->datapath)
		return;
	mk_loop_part("names of Services");
	sync = mk_datapath_services(agent->datapath);
	agent->names_serial = mk_service_sync_names_serial(sync);
	if (mk_names_write(agent->config.state_dir, sync, &err) < 0)
		mk_log_error("cannot store the Services' names: %s", mk_error_text(&err));
	mk_loop_part(NULL);
}

void agent_names_soon(struct mk_agent *agent)
{
	const struct mk_service_sync *sync = mk_datapath_services(agent->datapath);

	if (mk_service_sync_names_serial(sync) != agent->names_serial &&
	    !uv_is_active((uv_handle_t *)&agent->names_timer))
		uv_timer_start(&agent->names_timer, on_names, NAMES_MS, 0);
}

static void prune_counters(struct mk_agent *agent)
{
	struct mk_error err = { 0 };

	if (agent->datapath && agent->pruned &&
	    mk_datapath_prune_counters(agent->datapath, &err) < 0)
		mk_log_error("cannot remove counters of Services that are gone: %s",
			     mk_error_text(&err));
}

static void say_clock(struct mk_agent *agent, const struct mk_api_clock *clock)
{
	struct mk_own_clock now = mk_own_clock_now();
	bool off = mk_api_clock_is_off(clock, &now);
	long long ahead_s = mk_api_clock_ahead_ms(clock, &now) / 1000;

	if (off && !agent->clock_off)
		mk_log_warn(
			"this node's clock is %lld s %s the API server's: certificates and tokens may be refused, and times in logs mislead; run chrony or systemd-timesyncd on both",
			ahead_s < 0 ? -ahead_s : ahead_s, ahead_s < 0 ? "ahead of" : "behind");
	else if (!off && agent->clock_off)
		mk_log_info("this node's clock and the API server's agree again");
	agent->clock_off = off;
}

void agent_see_clock(struct mk_agent *agent)
{
	static const struct mk_api_clock none;
	const struct mk_api_clock *clock = mk_source_clock(agent->source);
	struct mk_error err = { 0 };

	clock = clock ? clock : &none;
	agent->clock_seen_ms = clock->earliest_ms;
	say_clock(agent, clock);
	if (mk_api_clock_write(agent->config.state_dir, clock, &err) < 0)
		mk_log_error("cannot store the difference of the API server's clock: %s",
			     mk_error_text(&err));
}

static void on_minute(uv_timer_t *timer)
{
	struct mk_agent *agent = timer->data;

	mk_loop_part("every minute");
	look_at_addresses(agent);
	prune_counters(agent);
	agent_see_clock(agent);
	look_around(agent);
	mk_log_tell_suppressed();
	mk_loop_part(NULL);
}

int agent_upkeep_start(struct mk_agent *agent, struct mk_error *err)
{
	int ret = uv_timer_init(&agent->loop, &agent->sweep_timer);

	if (ret == 0)
		ret = uv_timer_init(&agent->loop, &agent->minute_timer);
	if (ret == 0)
		ret = uv_timer_init(&agent->loop, &agent->names_timer);
	if (ret == 0)
		ret = uv_timer_init(&agent->loop, &agent->reap_timer);
	if (ret < 0)
		return mk_error_errno(err, -ret, "cannot start a timer");
	agent->reap_timer.data = agent;
	agent->sweep_timer.data = agent;
	agent->minute_timer.data = agent;
	agent->names_timer.data = agent;
	look_at_addresses(agent);
	agent_see_clock(agent); /* what an earlier run stored is old */
	sweep_in(agent, SWEEP_INTERVAL_MS);
	uv_timer_start(&agent->minute_timer, on_minute, MINUTE_MS, MINUTE_MS);
	return 0;
}
