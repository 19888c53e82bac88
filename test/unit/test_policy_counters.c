// SPDX-License-Identifier: Apache-2.0
/* Metrics of policies: sums that do not fall when a set's rows go, and how long pods wait. */
#include <string.h>

#include "agent/policy/counters.h"
#include "agent/policy/measures.h"
#include "agent/policy/waits.h"
#include "base/time.h"
#include "unit/policy_world.h"
#include "unit/unit.h"

static struct policy_counters counters;
static struct policy_waits waits;

static void setup(void)
{
	counters = (struct policy_counters){ 0 };
	waits_init(&waits);
}

static void teardown(void)
{
	counters_release(&counters);
	waits_release(&waits);
}

/* ---- counters -------------------------------------------------------------------------------- */

static const struct mk_policy_rule_view web_in = { "shop", "web-in", 1 };
static const struct mk_policy_rule_view isolated = { "shop", "", 0 };

static struct mk_policy_count_key key_of(uint64_t set, uint16_t rule)
{
	return (struct mk_policy_count_key){
		.set = set, .rule = rule, .tier = MK_TIER_NETWORK_POLICY, .denied = !rule
	};
}

static void see(uint64_t set, uint16_t rule, uint64_t packets)
{
	const struct mk_policy_count_key key = key_of(set, rule);

	counters_see(&counters, 0, &key, packets, rule ? &web_in : &isolated);
}

static uint64_t flows(bool denied)
{
	return counters.flows[0][MK_POLICY_INGRESS][denied][MK_TIER_NETWORK_POLICY];
}

static uint64_t of_rule(const char *policy)
{
	for (const struct mk_metrics_rule *rule = counters.list; rule; rule = rule->next)
		if (strcmp(rule->policy, policy) == 0)
			return rule->packets;
	return 0;
}

START_TEST(test_sums)
{
	counters_begin(&counters);
	see(7, 2, 10);
	see(7, 0, 3);
	counters_end(&counters);
	ck_assert_uint_eq(flows(false), 10);
	ck_assert_uint_eq(flows(true), 3);
	counters_begin(&counters);
	see(7, 2, 11);
	see(7, 0, 3);
	counters_end(&counters);
	ck_assert_uint_eq(flows(false), 11);
	ck_assert_uint_eq(flows(true), 3);
	ck_assert_uint_eq(of_rule("web-in"), 11);
	ck_assert_uint_eq(of_rule(""), 3);
	ck_assert_uint_eq(counters.list->rule, 0); /* the last one first */
	ck_assert_int_eq(counters.list->outcome, MK_POLICY_DENIED);
	ck_assert_uint_eq(counters.list->next->rule, 2);
	ck_assert_str_eq(counters.list->next->namespace_, "shop");
}
END_TEST

/* A policy changes: its former set goes, the new one counts on. The former one comes back. */
START_TEST(test_set_gone)
{
	counters_begin(&counters);
	see(7, 2, 10);
	counters_end(&counters);
	counters_begin(&counters);
	see(8, 1, 4);
	counters_end(&counters);
	ck_assert_uint_eq(flows(false), 14);
	ck_assert_uint_eq(of_rule("web-in"), 14);
	counters_begin(&counters);
	see(7, 2, 12);
	counters_end(&counters);
	ck_assert_uint_eq(flows(false), 26);
}
END_TEST

static bool knows(const void *ctx, const char *namespace_, const char *policy)
{
	return strcmp(namespace_, "shop") == 0 && strcmp(policy, ctx) == 0;
}

START_TEST(test_policy_gone)
{
	counters_begin(&counters);
	see(7, 2, 10);
	see(7, 0, 10);
	counters_end(&counters);
	counters_forget(&counters, knows, "web-in");
	ck_assert_uint_eq(of_rule("web-in"), 10);
	counters_forget(&counters, knows, "other");
	ck_assert_uint_eq(counters.rule_count, 1);
	ck_assert_uint_eq(of_rule(""), 10); /* of the namespace */
	ck_assert_uint_eq(flows(false), 10);
}
END_TEST

/* Families and directions are apart; a rule has one sum of both families. */
START_TEST(test_apart)
{
	struct mk_policy_count_key key = key_of(7, 2);

	counters_begin(&counters);
	counters_see(&counters, 0, &key, 1, &web_in);
	counters_see(&counters, 1, &key, 2, &web_in);
	key.direction = MK_POLICY_EGRESS;
	counters_see(&counters, 1, &key, 4, NULL);
	counters_end(&counters);
	ck_assert_uint_eq(flows(false), 1);
	ck_assert_uint_eq(counters.flows[1][MK_POLICY_INGRESS][0][MK_TIER_NETWORK_POLICY], 2);
	ck_assert_uint_eq(counters.flows[1][MK_POLICY_EGRESS][0][MK_TIER_NETWORK_POLICY], 4);
	ck_assert_uint_eq(of_rule("web-in"), 3);
	ck_assert_uint_eq(counters.rule_count, 1);
}
END_TEST

/* What audited policies would deny is apart: the same packet is counted as allowed, too. */
START_TEST(test_audited)
{
	struct mk_policy_count_key key = key_of(7, 0);

	key.audited = 1;
	counters_begin(&counters);
	counters_see(&counters, 0, &key, 5, &isolated);
	see(7, 0, 3);
	counters_end(&counters);
	ck_assert_uint_eq(flows(true), 3);
	ck_assert_uint_eq(
		counters.flows[0][MK_POLICY_INGRESS][MK_POLICY_AUDITED][MK_TIER_NETWORK_POLICY], 5);
	ck_assert_uint_eq(counters.rule_count, 2);
}
END_TEST

START_TEST(test_limit)
{
	struct mk_policy_rule_view view = web_in;
	const struct mk_policy_count_key key = key_of(7, 2);

	for (unsigned i = 0; i <= COUNTERS_RULES_MAX; i++) {
		view.index = i;
		counters_see(&counters, 0, &key, i + 1, &view);
	}
	ck_assert_uint_eq(counters.rule_count, COUNTERS_RULES_MAX);
	ck_assert_uint_eq(flows(false), COUNTERS_RULES_MAX + 1);
}
END_TEST

/* ---- waits ----------------------------------------------------------------------------------- */

static void look(uint32_t ifindex, bool is_pending, uint64_t at_ms)
{
	const struct mk_addr addr = { 0 };

	waits_begin(&waits);
	if (ifindex)
		waits_see(&waits, &addr, ifindex, is_pending, at_ms * 1000000);
	waits_end(&waits);
}

START_TEST(test_pod_of_before)
{
	look(1, false, 1000);
	look(1, false, 2000);
	ck_assert_uint_eq(waits.seconds.count, 0);
}
END_TEST

START_TEST(test_known_at_add)
{
	look(0, false, 1000);
	look(1, false, 2000);
	look(1, false, 3000);
	ck_assert_uint_eq(waits.seconds.count, 1);
	ck_assert_uint_eq(waits.seconds.buckets[0], 1);
}
END_TEST

START_TEST(test_pod_that_waits)
{
	look(1, true, 1000); /* counts from before the start, too */
	look(1, true, 2000);
	ck_assert_uint_eq(waits.seconds.count, 0);
	ck_assert_uint_eq(waits_pending(&waits), 1);
	look(1, false, 3500);
	ck_assert_uint_eq(waits.seconds.count, 1);
	ck_assert_double_eq_tol(waits.seconds.sum, 2.5, 1e-9);
	ck_assert_uint_eq(waits_pending(&waits), 0);
	look(2, false, 4000); /* the address of another pod */
	ck_assert_uint_eq(waits.seconds.count, 2);
	ck_assert_double_eq_tol(waits.seconds.sum, 2.5, 1e-9);
}
END_TEST

/* ---- all ------------------------------------------------------------------------------------- */

/* From the first change on that the tables do not have; a look without a change is none. */
START_TEST(test_programming)
{
	struct measures *measures = measures_new();

	measures_changed(measures);
	measures->changed_ns -= 2 * MK_NS_PER_S;
	measures_changed(measures);
	measures_written(measures);
	measures_written(measures);
	ck_assert_uint_eq(measures->programming.count, 1);
	ck_assert_double_ge(measures->programming.sum, 2);
	measures_free(measures);
}
END_TEST

#define BLOCK_POLICY                                                                             \
	"{'apiVersion':'networking.k8s.io/v1','kind':'NetworkPolicy','metadata':"                \
	"{'namespace':'a','name':'%s'},'spec':{'podSelector':{},'ingress':[{'from':[{'ipBlock':" \
	"{'cidr':'%s'}}]}]}}"
#define CLUSTER_POLICY                                                                              \
	"{'apiVersion':'policy.networking.k8s.io/v1alpha2','kind':'ClusterNetworkPolicy',"          \
	"'metadata':{'name':'%s'},'spec':{'tier':'Admin','priority':1,'subject':{'namespaces':{}}," \
	"'egress':[{'action':'Accept','to':[{%s}]}]}}"

/* Policies with an entry that is not understood, or with domainNames. */
START_TEST(test_ignored)
{
	struct measures *measures = measures_new();
	struct mk_metrics metrics = { 0 };
	struct policy_world world;
	struct mk_core core;

	world_begin(&world);
	core = (struct mk_core){ .model = world.model };
	world_put(&world, BLOCK_POLICY, "good", "192.0.2.0/24");
	world_put(&world, BLOCK_POLICY, "bad", "nonsense");
	world_put(&world, CLUSTER_POLICY, "good", "'namespaces':{}");
	world_put(&world, CLUSTER_POLICY, "names", "'domainNames':['example.com.']");
	world_put(&world, CLUSTER_POLICY, "bad", "'hosts':[]");
	measures_fill(measures, &core, world.policies, &metrics);
	ck_assert_uint_eq(metrics.policy.ignored[MK_KIND_NETWORK_POLICY], 1);
	ck_assert_uint_eq(metrics.policy.ignored[MK_KIND_CLUSTER_POLICY], 2);
	measures_free(measures);
	world_end(&world);
}
END_TEST

UNIT_SUITE("policy_counters")
{
	TCase *tcase = unit_case(suite, "policy_counters", setup, teardown);

	tcase_add_test(tcase, test_sums);
	tcase_add_test(tcase, test_set_gone);
	tcase_add_test(tcase, test_policy_gone);
	tcase_add_test(tcase, test_apart);
	tcase_add_test(tcase, test_audited);
	tcase_add_test(tcase, test_limit);
	tcase_add_test(tcase, test_pod_of_before);
	tcase_add_test(tcase, test_known_at_add);
	tcase_add_test(tcase, test_pod_that_waits);
	tcase_add_test(tcase, test_programming);
	tcase_add_test(tcase, test_ignored);
}
