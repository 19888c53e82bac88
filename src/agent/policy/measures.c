// SPDX-License-Identifier: Apache-2.0
#include "agent/policy/measures.h"

#include <stdlib.h>
#include <string.h>

#include "agent/policy/durations.h"
#include "base/cleanup.h"
#include "base/time.h"

#define AGE_NS MK_NS_PER_S /* scrapes that are more frequent get the same values */

struct measures *measures_new(void)
{
	struct measures *measures = calloc(1, sizeof(*measures));

	if (!measures)
		return NULL;
	waits_init(&measures->waits);
	durations_init(&measures->programming);
	return measures;
}

void measures_free(struct measures *measures)
{
	if (!measures)
		return;
	counters_release(&measures->counters);
	waits_release(&measures->waits);
	free(measures);
}

/* ---- times ----------------------------------------------------------------------------------- */

void measures_changed(struct measures *measures)
{
	if (!measures->changed_ns)
		measures->changed_ns = mk_time_monotonic_ns();
}

void measures_written(struct measures *measures)
{
	const uint64_t took_ns = mk_time_monotonic_ns() - measures->changed_ns;

	if (measures->changed_ns)
		mk_histogram_observe(&measures->programming, (double)took_ns / (double)MK_NS_PER_S);
	measures->changed_ns = 0;
}

static void see_pod(void *ctx, const struct mk_addr *addr, uint32_t ifindex, bool is_pending)
{
	waits_see(ctx, addr, ifindex, is_pending, mk_time_monotonic_ns());
}

/* A pod of two families counts once in each. */
void measures_see_pods(struct measures *measures, const struct mk_core *core)
{
	waits_begin(&measures->waits);
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (mk_family_is_loaded(&core->families[i]))
			mk_policy_sync_each_pod(mk_datapath_policies(core->families[i].datapath),
						see_pod, &measures->waits);
	waits_end(&measures->waits);
}

/* ---- counters -------------------------------------------------------------------------------- */

struct counting {
	struct policy_counters *counters;
	const struct mk_policies *compiler;
	unsigned int family;
};

static int see_row(void *ctx, const void *key_, const void *value, struct mk_error *err)
{
	const struct mk_policy_count_key *key = key_;
	const struct mk_policy_count *count = value;
	struct counting *counting = ctx;
	struct mk_policy_rule_view view;
	bool by_rule;

	(void)err;
	by_rule = (key->rule || (key->tier == MK_TIER_NETWORK_POLICY && key->denied)) &&
		  mk_policies_rule(counting->compiler, key->set, key->rule, &view);
	counters_see(counting->counters, counting->family, key, count->packets,
		     by_rule ? &view : NULL);
	return 0;
}

static bool is_policy(const void *ctx, const char *namespace_, const char *policy)
{
	const struct mk_model *model = ctx;

	return *namespace_ ? mk_model_network_policy(model, namespace_, policy) != NULL
			   : mk_model_cluster_policy(model, policy) != NULL;
}

static int count_family(struct counting *counting, const struct mk_core *core)
{
	const struct mk_family *family = &core->families[counting->family];
	cleanup_table struct mk_table table = { .fd = -1 };
	int ret;

	if (!mk_family_is_loaded(family))
		return 0;
	ret = mk_table_open(&table, family->dir, "policy_counts",
			    sizeof(struct mk_policy_count_key), sizeof(struct mk_policy_count),
			    NULL);
	return ret ?: mk_table_each(&table, see_row, counting, NULL);
}

/* Rows of a table that cannot be read stay as they were. */
void measures_count(struct measures *measures, const struct mk_core *core,
		    const struct mk_policies *compiler)
{
	struct counting counting = { &measures->counters, compiler, 0 };
	int ret = 0;

	counters_begin(&measures->counters);
	for (; ret == 0 && counting.family < MK_FAMILIES; counting.family++)
		ret = count_family(&counting, core);
	if (ret < 0)
		return;
	counters_end(&measures->counters);
	counters_forget(&measures->counters, is_policy, core->model);
	measures->counted_ns = mk_time_monotonic_ns();
}

static void read_events(const struct mk_family *family, uint64_t events[MK_POLICY_EVENTS])
{
	cleanup_table struct mk_table table = { .fd = -1 };

	if (mk_table_open(&table, family->dir, "policy_events", sizeof(__u32), sizeof(__u64),
			  NULL) < 0)
		return;
	for (__u32 event = 0; event < MK_POLICY_EVENTS; event++)
		(void)mk_table_sum(&table, &event, &events[event], NULL);
}

/* ---- objects --------------------------------------------------------------------------------- */

/* domainNames match nothing (rule 58). */
static bool has_domains(const struct mk_policy_rules *rules)
{
	for (size_t i = 0; i < rules->count; i++)
		for (size_t j = 0; j < rules->of[i].peer_count; j++)
			if (rules->of[i].peers[j].kind == MK_PEER_DOMAINS)
				return true;
	return false;
}

/* ---- all ------------------------------------------------------------------------------------- */

void measures_fill(struct measures *measures, const struct mk_core *core,
		   const struct mk_policies *compiler, struct mk_metrics *metrics)
{
	if (mk_time_monotonic_ns() - measures->counted_ns > AGE_NS)
		measures_count(measures, core, compiler);
	metrics->policy.programming = measures->programming;
	metrics->policy.pod_wait = measures->waits.seconds;
	mk_model_each(struct mk_network_policy, of, core->model, MK_KIND_NETWORK_POLICY)
		metrics->policy.ignored[MK_KIND_NETWORK_POLICY] += of->passed_over != NULL;
	mk_model_each(struct mk_cluster_policy, of, core->model, MK_KIND_CLUSTER_POLICY)
		metrics->policy.ignored[MK_KIND_CLUSTER_POLICY] +=
			of->passed_over || has_domains(&of->rules[MK_POLICY_EGRESS]);
	metrics->per_rule = measures->counters.list;
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		struct mk_metrics_family *of = &metrics->families[i];

		of->has_policies = mk_family_is_loaded(&core->families[i]);
		memcpy(of->policy_flows, measures->counters.flows[i], sizeof(of->policy_flows));
		if (of->has_policies)
			read_events(&core->families[i], of->policy_events);
	}
}
