// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/leader/leader.h"
#include "agent/leader/leader_internal.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/time.h"

#define TURN_MS	   10 /* work this long in one turn of the loop */
#define NEXT_MS	   1
#define RELEASE_MS 1000
#define STEP_US	   2000

/* ---- whether there is work ------------------------------------------------------------------- */

static bool has_read_all(const struct mk_leader *leader)
{
	for (int kind = 0; kind < MK_LEAD_KINDS; kind++)
		if (!mk_lead_has_listed(leader->lead, (enum mk_lead_kind)kind) &&
		    !mk_lead_lacks(leader->lead, (enum mk_lead_kind)kind))
			return false;
	return true;
}

/* After the last ClusterPeer and ServiceExport have gone, it leads until its objects have gone. */
static bool has_rest(const struct mk_leader *leader)
{
	size_t count = 0;

	if (!leader->term)
		return false;
	if (leader->term->leaving || !has_read_all(leader))
		return true;
	for (int kind = MK_LEAD_IMPORTS; kind <= MK_LEAD_OWN_SERVICES; kind++)
		if (kind < MK_LEAD_PUBLISHED || kind > MK_LEAD_PEER_NODES)
			mk_lead_each(object, leader->lead, (enum mk_lead_kind)kind)
				count += object->is_ours;
	return count + mk_copies_count(leader->term->copies) > 0;
}

/* The last ClusterPeer or ServiceExport may go while no agent leads, or a leader may die before it
 * has removed everything. */
static void choose(struct mk_leader *leader)
{
	enum mk_lead_wish wish = MK_LEAD_IF_LEFT;

	if (leader->is_stopping || !leader->config->cluster_name[0])
		wish = MK_LEAD_NOT;
	else if (leader_has_work(leader) || has_rest(leader))
		wish = MK_LEAD_WANTED;
	mk_lead_want(leader->lead, wish);
}

/* ---- a term ---------------------------------------------------------------------------------- */

static void end_term(struct mk_leader *leader)
{
	struct leader_term *term = leader->term;

	if (!term)
		return;
	leader->term = NULL;
	leader_copies_end(term);
	leader_exports_free(term);
	mk_imports_free(term->imports);
	mk_views_free(term->views);
	mk_externals_free(term->externals);
	leader_known_free(term);
	leader_events_forget(term, NULL);
	leader_waiting_free(term);
	free(term->relayed);
	free(term);
}

static void on_leads(void *ctx, bool leads)
{
	struct mk_leader *leader = ctx;

	end_term(leader);
	if (!leads)
		return;
	leader->term = calloc(1, sizeof(*leader->term));
	if (leader->term)
		leader->term->externals = mk_externals_new(leader->config->externals.of);
	if (!leader->term || !leader->term->externals || leader_copies_begin(leader) < 0) {
		if (leader->term)
			mk_externals_free(leader->term->externals);
		free(mk_steal_ptr(leader->term));
		mk_log_error("leader: out of memory");
		return;
	}
	leader->term->cluster_due = leader->term->peers_due = leader->term->views_due = true;
	leader_schedule(leader);
}

static void on_object(void *ctx, const struct mk_lead_object *object, json_object *tree)
{
	struct mk_leader *leader = ctx;

	if (!leader->term)
		return;
	if (object->kind == MK_LEAD_EXPORTS)
		leader_export_seen(leader, object->namespace_, object->name, tree);
	else
		leader_imports_seen(leader, object, tree);
	if (object->kind == MK_LEAD_OWN_SERVICES && tree && !*object->relayed_by)
		leader_externals_seen(leader, tree);
	leader_introduce_seen(leader, object, tree);
	leader_copies_seen(leader, object, tree);
	if (object->kind == MK_LEAD_PEERS && !tree)
		leader_events_forget(leader->term, object->name);
	leader->term->peers_due |= object->kind == MK_LEAD_PEERS;
	leader->term->views_due |= object->kind == MK_LEAD_PEERS;
	leader->term->sweep_due |= !tree;
	leader_schedule(leader);
}

static void on_listed(void *ctx, enum mk_lead_kind kind)
{
	struct mk_leader *leader = ctx;

	if (!leader->term)
		return;
	if (kind == MK_LEAD_IMPORTS)
		leader_imports_create(leader);
	if (kind == MK_LEAD_OWN_SERVICES)
		leader_externals_listed(leader);
	leader_copies_listed(leader, kind);
	leader->term->sweep_due = leader->term->peers_due = leader->term->views_due = true;
	leader->term->introduce_due = leader->term->show_due = true;
	leader_schedule(leader);
}

/* Objects that do not depend on the kind can be removed. */
static void on_lacked(void *ctx, enum mk_lead_kind kind)
{
	struct mk_leader *leader = ctx;

	(void)kind;
	if (!leader->term)
		return;
	leader->term->sweep_due = true;
	leader_schedule(leader);
}

static void on_service(void *ctx, const char *namespace_, const char *name)
{
	struct mk_leader *leader = ctx;

	if (leader->term && leader_find_export(leader->term, namespace_, name))
		mk_lead_read(leader->lead, namespace_, name);
}

static void on_read(void *ctx, const char *namespace_, const char *name, json_object *service,
		    json_object *const *slices, size_t count)
{
	struct mk_leader *leader = ctx;

	if (!leader->term)
		return;
	leader_export_read(leader, namespace_, name, service, slices, count);
	leader_schedule(leader);
}

static void on_written(void *ctx)
{
	struct mk_leader *leader = ctx;

	if (!leader->term)
		return;
	leader->term->statuses_due = true;
	leader_schedule(leader);
}

/* ---- work ------------------------------------------------------------------------------------ */

static bool has_come(uint64_t time_ms)
{
	return time_ms && leader_now_ms() >= time_ms;
}

/* When a time has come, without anything else to do. */
static void wait_for_time(struct mk_leader *leader, uv_timer_cb at)
{
	const struct leader_term *term = leader->term;
	uint64_t first_ms = term->views_again_ms, now_ms = leader_now_ms();

	if (!first_ms || (term->introduce_again_ms && term->introduce_again_ms < first_ms))
		first_ms = term->introduce_again_ms;
	if (!first_ms || (term->leave_again_ms && term->leave_again_ms < first_ms))
		first_ms = term->leave_again_ms;
	if (first_ms && !uv_is_active((uv_handle_t *)&leader->timer))
		uv_timer_start(&leader->timer, at, first_ms > now_ms ? first_ms - now_ms : NEXT_MS,
			       0);
}

static void work(uv_timer_t *timer)
{
	struct mk_leader *leader = timer->data;
	struct leader_term *term = leader->term;
	bool more = false;

	choose(leader);
	if (!term || leader->term != term || !mk_lead_leads(leader->lead))
		return;
	if (has_come(term->leave_again_ms))
		leader_inbox_look(leader);
	if (term->cluster_due || term->nodes_due)
		leader_publish_cluster(leader);
	leader_inbox_fill(leader);
	leader_imports_begin(leader);
	if (term->peers_due)
		leader_copies_peers(leader);
	if (term->peers_due || term->views_due) {
		leader_imports_peers(leader);
		leader_exports_peers(leader);
	}
	if (term->views_due || has_come(term->views_again_ms))
		leader_assign_views(leader);
	if (term->introduce_due || has_come(term->introduce_again_ms))
		leader_introduce(leader);
	more = leader_copies_write(leader, leader_now_ms() + TURN_MS);
	more |= leader_imports_merge(leader, leader_now_ms() + TURN_MS);
	if (term->statuses_due)
		leader_write_statuses(leader);
	if (term->sweep_due)
		leader_sweep(leader);
	term->cluster_due = term->nodes_due = term->peers_due = false;
	term->statuses_due = term->sweep_due = term->introduce_due = false;
	if (more)
		uv_timer_start(&leader->timer, work, NEXT_MS, 0);
	else
		wait_for_time(leader, work);
	choose(leader);
}

void mk_leader_peers_changed(struct mk_leader *leader)
{
	if (!leader)
		return;
	if (leader->term)
		leader->term->peers_due = leader->term->cluster_due = leader->term->sweep_due =
			leader->term->views_due = true;
	leader_schedule(leader);
}

void mk_leader_rows_changed(struct mk_leader *leader)
{
	if (!leader || !leader->term)
		return;
	leader->term->views_due = true;
	leader_schedule(leader);
}

void mk_leader_nodes_changed(struct mk_leader *leader)
{
	if (!leader || !leader->term)
		return;
	leader->term->nodes_due = leader->term->sweep_due = leader->term->views_due = true;
	leader_schedule(leader);
}

void mk_leader_measure(const struct mk_leader *leader, struct mk_metrics *metrics)
{
	if (!leader)
		return;
	metrics->leads = mk_lead_leads(leader->lead);
	metrics->leader_waiting = mk_lead_waiting(leader->lead);
	metrics->leader_failures = mk_lead_failures(leader->lead);
	leader_copies_measure(leader, metrics);
	leader_externals_measure(leader, metrics);
}

/* ---- life ------------------------------------------------------------------------------------ */

struct mk_leader *mk_leader_start(uv_loop_t *loop, const struct mk_config *config,
				  const struct mk_model *model, struct mk_lead *lead,
				  const struct mk_node_clusters *clusters, struct mk_error *err)
{
	struct mk_leader *leader = mk_new(sizeof(*leader), "leader", err);
	const struct mk_lead_listener listener = {
		.leads = on_leads,
		.object = on_object,
		.listed = on_listed,
		.lacked = on_lacked,
		.service = on_service,
		.read = on_read,
		.written = on_written,
		.ctx = leader,
	};

	if (!leader)
		return NULL;
	leader->loop = loop;
	leader->work = work;
	leader->config = config;
	leader->model = model;
	leader->lead = lead;
	leader->clusters = clusters;
	uv_timer_init(loop, &leader->timer);
	leader->timer.data = leader;
	mk_lead_listen(lead, &listener);
	leader_schedule(leader);
	return leader;
}

void mk_leader_stop(struct mk_leader *leader)
{
	uint64_t end_ms = leader_now_ms() + RELEASE_MS;

	if (!leader)
		return;
	leader->is_stopping = true;
	mk_lead_want(leader->lead, MK_LEAD_NOT);
	while (!mk_lead_is_over(leader->lead) && leader_now_ms() < end_ms) {
		uv_run(leader->loop, UV_RUN_NOWAIT);
		usleep(STEP_US);
	}
	end_term(leader);
	free(leader->said);
	free(leader->said_left_out);
	mk_timer_free(&leader->timer);
}
