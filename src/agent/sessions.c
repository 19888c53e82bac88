// SPDX-License-Identifier: Apache-2.0
#include "agent/sessions.h"

#include "base/log.h"
#include "base/loop.h"
#include "base/time.h"

#define SWEEP_BUDGET	  4096 /* entries per turn: some milliseconds */
#define SWEEP_PAUSE_MS	  20 /* between two turns of a pass: a million entries take 5 s */
#define SWEEP_INTERVAL_MS 5000 /* between two passes */
#define SWEEP_RARELY_MS	  15000 /* ... after one that saw at most SWEEP_FEW */
#define SWEEP_FEW	  4096
#define COLLECT_MS	  1000

static void on_sweep(uv_timer_t *timer);

static void sweep_in(struct agent_sessions *sessions, uint64_t delay_ms)
{
	uv_timer_start(&sessions->timer, on_sweep, delay_ms, 0);
}

/* Let the current pass finish. If each departing backend restarted it, it might never end. */
void agent_sessions_sweep_now(struct agent_sessions *sessions)
{
	sessions->again = sessions->pass_since_ns != 0;
	sweep_in(sessions, 0);
}

static bool is_cut(void *ctx, const struct mk_tuple *key, const struct mk_session *session)
{
	const struct agent_sessions *sessions = ctx;

	return mk_family_is_pruned(sessions->family) &&
	       mk_service_sync_session_cut(mk_datapath_services(sessions->family->datapath), key,
					   session);
}

static void stays(void *ctx, const struct mk_tuple *key, const struct mk_session *session)
{
	struct agent_sessions *sessions = ctx;

	mk_sfc_sync_see_path(mk_datapath_sfc(sessions->family->datapath), session->to.path);
	if (mk_family_is_pruned(sessions->family))
		agent_linger_see_flow(sessions->linger, key, session);
	mk_emptied_note(&sessions->emptied, key, session);
}

/* Has the sweep the tables of the present datapath? */
static bool is_open(const struct agent_sessions *sessions)
{
	return sessions->sweep && sessions->loads == sessions->family->loads;
}

static uint64_t removed_by_sweep(const struct agent_sessions *sessions)
{
	const struct mk_sweep_counts *totals = mk_sweep_totals(sessions->sweep);

	return totals->expired + totals->cut;
}

int agent_sessions_look(struct agent_sessions *sessions)
{
	const struct mk_table *table = mk_datapath_session_table(sessions->family->datapath, 0);

	if (is_open(sessions) &&
	    mk_emptied_detect(&sessions->emptied, table, removed_by_sweep(sessions)))
		mk_log_warn(
			"the map of sessions was emptied by another process: a connection continues as a new one with its next packet, or must be opened again map=%s",
			table->name);
	return 0;
}

static void count_ended(void *ctx, const struct mk_session *session)
{
	const struct agent_sessions *sessions = ctx;
	struct mk_error err = { 0 };

	if (mk_counters_add_ended(mk_datapath_counters(sessions->family->datapath), session, &err) <
	    0)
		mk_log_error("cannot count an ended session service_id=%u packets=%u: %s",
			     session->service_id, session->packets, mk_error_text(&err));
}

static int open_sweep(struct agent_sessions *sessions, struct mk_error *err)
{
	struct mk_sweep_options options = {
		.tables = mk_datapath_session_table(sessions->family->datapath, 0),
		.table_count = MK_SESSION_TABLES,
		.cut = is_cut,
		.stays = stays,
		.ended = count_ended,
		.ctx = sessions,
	};

	if (is_open(sessions))
		return 0;
	mk_sweep_free(sessions->sweep);
	sessions->sweep = mk_sweep_new(&options, err);
	sessions->loads = sessions->family->loads;
	sessions->reads_chains = false;
	return sessions->sweep ? 0 : -ENOMEM;
}

static void count_step(struct agent_sessions *sessions, uint64_t began_ns, bool ended)
{
	uint64_t now_ns = mk_time_monotonic_ns();

	sessions->busy_ns += now_ns - began_ns;
	if (!sessions->pass_since_ns)
		sessions->pass_since_ns = began_ns;
	if (!ended)
		return;
	sessions->passes++;
	sessions->last_ns = now_ns - sessions->pass_since_ns;
	sessions->pass_since_ns = 0;
}

/* Called for tables of established sessions. A table of new ones is usually full: the oldest are
 * evicted. */
static void tell_full(struct agent_sessions *sessions, int index, uint64_t entries, uint64_t now_ns)
{
	const struct mk_table *table = mk_datapath_session_table(sessions->family->datapath, index);

	switch (mk_fullness_see(&sessions->fullness[index], entries, table->max_entries, now_ns)) {
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

static void sessions_ended(struct agent_sessions *sessions, uint64_t now_ns, struct mk_error *err)
{
	const struct mk_sweep_counts *last = mk_sweep_last_pass(sessions->sweep);

	if (mk_family_is_pruned(sessions->family))
		agent_linger_pass_ended(sessions->linger);
	mk_emptied_pass_ended(&sessions->emptied, removed_by_sweep(sessions),
			      mk_time_monotonic_ns());
	for (int table = 0; table < MK_SESSION_TABLES; table += 2)
		tell_full(sessions, table, mk_sweep_counts(sessions->sweep)->entries[table],
			  now_ns);
	if (mk_datapath_set_half_open_quota(sessions->family->datapath,
					    mk_sweep_counts(sessions->sweep), err) < 0)
		mk_log_error("cannot write the quota of half-open sessions: %s",
			     mk_error_text(err));
	if (last->expired || last->cut)
		mk_log_debug("sessions swept seen=%lu expired=%lu cut=%lu", last->seen,
			     last->expired, last->cut);
}

/* Returns 1 at the end, also after an error: the next pass reads all flows again. */
static int sweep_chains(struct agent_sessions *sessions, uint64_t now_ns, struct mk_error *err)
{
	int ret = mk_sfc_sync_pass_ended(mk_datapath_sfc(sessions->family->datapath), now_ns, err);

	if (ret < 0)
		mk_log_error("cannot read the flows of chains: %s; the next pass tries again",
			     mk_error_text(err));
	sessions->reads_chains = ret == 0;
	return ret != 0;
}

/* Returns 1 at the end of a pass. Before the first list is complete, no flow is known to be cut. */
static int sweep(struct agent_sessions *sessions, struct mk_error *err)
{
	uint64_t now_ns = mk_time_monotonic_ns();
	int ret = open_sweep(sessions, err);

	if (ret == 0 && !sessions->pass_since_ns)
		(void)agent_sessions_look(sessions);
	if (ret == 0 && !sessions->reads_chains) {
		ret = mk_sweep_step(sessions->sweep, now_ns, SWEEP_BUDGET, err);
		if (ret > 0)
			sessions_ended(sessions, now_ns, err);
		sessions->reads_chains = ret > 0;
	}
	if (ret >= 0 && sessions->reads_chains)
		ret = sweep_chains(sessions, now_ns, err);
	count_step(sessions, now_ns, ret > 0);
	return ret;
}

/* So few sessions may stay some seconds longer without harm. */
static bool is_calm(const struct agent_sessions *sessions)
{
	return !agent_linger_asks(sessions->linger) &&
	       mk_sweep_last_pass(sessions->sweep)->seen <= SWEEP_FEW;
}

/* Returns the pause after a step; @ended: mk_sweep_step()'s result. */
static uint64_t pause_ms(struct agent_sessions *sessions, int ended, bool waiting)
{
	bool again = sessions->again;

	if (ended == 0)
		return SWEEP_PAUSE_MS;
	sessions->again = false;
	if (again && ended > 0)
		return 0;
	if (waiting || agent_linger_decides(sessions->linger))
		return COLLECT_MS;
	return ended > 0 && is_calm(sessions) ? SWEEP_RARELY_MS : SWEEP_INTERVAL_MS;
}

static void on_sweep(uv_timer_t *timer)
{
	struct agent_sessions *sessions = timer->data;
	struct mk_service_counts counts = { 0 };
	struct mk_error err = { 0 };
	int waiting, ended;

	if (!mk_family_is_attached(sessions->family)) {
		sweep_in(sessions, SWEEP_INTERVAL_MS);
		return;
	}
	mk_loop_part("sessions");
	waiting = mk_service_sync_collect(mk_datapath_services(sessions->family->datapath),
					  mk_time_monotonic_ns(), &counts, &err);
	if (waiting < 0)
		mk_log_error("cannot remove old backends: %s", mk_error_text(&err));
	ended = sweep(sessions, &err);
	if (ended < 0)
		mk_log_error("cannot sweep sessions: %s", mk_error_text(&err));
	sweep_in(sessions, pause_ms(sessions, ended, waiting > 0));
	mk_loop_part(NULL);
}

int agent_sessions_start(struct agent_sessions *sessions, struct mk_error *err)
{
	int ret = uv_timer_init(&sessions->family->core->loop, &sessions->timer);

	if (ret < 0)
		return mk_error_errno(err, -ret, "cannot start a timer");
	sessions->timer.data = sessions;
	sweep_in(sessions, SWEEP_INTERVAL_MS);
	return 0;
}

void agent_sessions_read(const struct agent_sessions *sessions, struct mk_metrics_family *metrics)
{
	const struct mk_config *config = &sessions->family->core->config;

	metrics->nat_ports = config->nat_port_max - config->nat_port_min + 1U;
	metrics->has_sweep = sessions->passes > 0 && is_open(sessions);
	if (!metrics->has_sweep)
		return;
	metrics->counts = *mk_sweep_counts(sessions->sweep);
	metrics->sessions_expired = mk_sweep_totals(sessions->sweep)->expired;
	metrics->sessions_cut = mk_sweep_totals(sessions->sweep)->cut;
	metrics->sweep_passes = sessions->passes;
	metrics->sweep_busy_s = (double)sessions->busy_ns / 1e9;
	metrics->sweep_last_s = (double)sessions->last_ns / 1e9;
}

void agent_sessions_free(struct agent_sessions *sessions)
{
	mk_sweep_free(sessions->sweep);
}
