// SPDX-License-Identifier: Apache-2.0
/* The agent's part of network policies: the tables are compared and written only if something
 * changed, and checks restore what other processes change in them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/policy/policies.h"
#include "base/file.h"
#include "datapath/datapath_internal.h"
#include "datapath/policy/tables_internal.h"
#include "unit/cni_node.h"
#undef POD_SLOTS /* of that header's tables */
#include "unit/policy_tables_fixture.h"
#include "unit/unit.h"

#define CLUSTER ROOT "/cluster"

static struct mk_error err;
static struct mk_core core;
static struct mk_datapath datapath;
static struct mk_own_node node = { .core = &core };
static struct mk_node_policies policies;
static unsigned int writes; /* to the tables */

/* ---- a node whose cluster is a directory ----------------------------------------------------- */

static void write_object(const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), CLUSTER "/%s.yaml", name);
	ck_ok(mk_file_replace(path, text, strlen(text), 0644, &err));
}

static void write_policy(unsigned int port)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n"
		 "metadata: {namespace: shop, name: web}\n"
		 "spec: {podSelector: {}, ingress: [{ports: [{port: %u}]}]}\n",
		 port);
	write_object("policy", text);
}

static void pod_changed(void *ctx, const struct mk_pod_object *pod,
			const struct mk_pod_object *former)
{
	mk_node_policies_pod_changed(ctx, pod, former);
}

static void namespace_changed(void *ctx, const char *name)
{
	mk_node_policies_mark(ctx, MK_KIND_NAMESPACE, "", name);
}

static void policy_changed(void *ctx, const char *namespace_, const char *name)
{
	mk_node_policies_mark(ctx, MK_KIND_NETWORK_POLICY, namespace_, name);
}

static void chain_changed(void *ctx, const char *namespace_, const char *name)
{
	mk_node_policies_mark(ctx, MK_KIND_CHAIN, namespace_, name);
}

static void on_listed(void *ctx, bool complete)
{
	(void)ctx;
	(void)complete;
}

static void on_timer(uv_timer_t *timer)
{
	(void)timer;
}

static void count_write(void *ctx)
{
	(void)ctx;
	writes++;
}

static void await_lists(void)
{
	while (!mk_source_listed(core.source, MK_SOURCE_POLICIES))
		uv_run(&core.loop, UV_RUN_NOWAIT);
}

static void follow_cluster(void)
{
	static const struct mk_model_listener listener = {
		.pod_changed = pod_changed,
		.namespace_changed = namespace_changed,
		.network_policy_changed = policy_changed,
		.chain_changed = chain_changed,
		.ctx = &policies,
	};

	uv_loop_init(&core.loop);
	uv_timer_init(&core.loop, &core.steps);
	uv_timer_init(&core.loop, &core.checks);
	core.on_steps = core.on_checks = on_timer;
	core.model = mk_model_new();
	ck_assert_ptr_nonnull(core.model);
	mk_model_set_listener(core.model, &listener);
	core.source = mk_source_start(&core.loop, &core.config, core.model, on_listed, NULL, &err);
	ck_assert_msg(core.source != NULL, "%s", mk_error_text(&err));
}

static void setup_unlisted(void)
{
	policy_setup();
	policy_sync->after_write = count_write;
	datapath.policies = policy_sync;
	core.families[0] = (struct mk_family){
		.core = &core, .family = AF_INET, .loads = 1, .datapath = &datapath
	};
	snprintf(core.config.node_name, sizeof(core.config.node_name), "node1");
	snprintf(core.config.state_dir, sizeof(core.config.state_dir), "%s", STATE);
	snprintf(core.config.bpf_dir, sizeof(core.config.bpf_dir), "%s", BPF_DIR);
	snprintf(core.config.cluster_dir, sizeof(core.config.cluster_dir), "%s", CLUSTER);
	ck_ok(mk_mkdirs(CLUSTER, 0755, &err));
	write_object("namespace", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n");
	write_object("pod", "apiVersion: v1\nkind: Pod\n"
			    "metadata: {namespace: shop, name: web, uid: 7a1c}\n"
			    "spec: {nodeName: node1}\n");
	write_policy(80);
	follow_cluster();
	ck_ok(mk_node_policies_start(&policies, &node, &err));
	writes = 0;
}

static void setup(void)
{
	setup_unlisted();
	await_lists();
}

/* Run the agent's steps, as for each change of anything on the node. Returns the number of rounds
 * in which the tables were compared. */
static unsigned int reconcile(unsigned int times)
{
	unsigned int before = policies.rounds;

	while (times-- > 0)
		ck_ok(mk_node_policies_reconcile(&policies, &err));
	return policies.rounds - before;
}

static void read_files(void)
{
	while (policies.settled)
		uv_run(&core.loop, UV_RUN_NOWAIT);
}

static void read_files_of_chain(void)
{
	while (mk_model_count(core.model, MK_KIND_CHAIN) == 0)
		uv_run(&core.loop, UV_RUN_NOWAIT);
}

/* ---- tests ----------------------------------------------------------------------------------- */

START_TEST(test_quiet)
{
	unsigned int said;

	ck_assert_uint_eq(reconcile(1), 1);
	ck_assert_uint_gt(writes, 0);
	ck_assert_uint_gt(core.writes, 0);
	said = core.writes;
	writes = 0;
	ck_assert_uint_eq(reconcile(10), 0);
	ck_assert_uint_eq(writes, 0);
	ck_assert_uint_eq(core.writes, said);
}
END_TEST

/* Rule 36: before the lists are complete nothing is written, so what was in force stays. */
START_TEST(test_lists_awaited)
{
	mk_model_delete(core.model, MK_KIND_NETWORK_POLICY, "shop", "web"); /* not read yet */
	ck_assert_uint_eq(reconcile(3), 0);
	ck_assert_uint_eq(writes, 0);
	ck_assert_uint_eq(policy_state_now().listed, MK_POLICY_LISTS_AWAITED);
	await_lists();
	ck_assert_uint_eq(reconcile(3), 1);
}
END_TEST

START_TEST(test_changed_policy)
{
	reconcile(1);
	writes = 0;
	write_policy(81);
	read_files();
	ck_assert_uint_eq(reconcile(10), 1);
	ck_assert_uint_gt(writes, 0);
}
END_TEST

/* A pod comes or goes: its sandbox is looked at, and nothing is written if it is as it was. */
START_TEST(test_sandboxes)
{
	reconcile(1);
	writes = 0;
	mk_core_mark(&core, MK_UNSURE_SANDBOXES, 0);
	ck_assert_uint_eq(reconcile(10), 1);
	ck_assert_uint_eq(writes, 0);
}
END_TEST

/* Another datapath knows nothing of its predecessor. */
START_TEST(test_loaded_again)
{
	reconcile(1);
	policy_restart();
	policy_sync->after_write = count_write;
	datapath.policies = policy_sync;
	core.families[0].loads++;
	writes = 0;
	ck_assert_uint_gt(reconcile(10), 0);
	ck_assert_uint_eq(writes, 0);
}
END_TEST

/* Steps do not look at the tables again; the next check does. */
START_TEST(test_emptied)
{
	struct mk_policy_pod_key key = { .text = "shop/web/7a1c" };

	reconcile(1);
	ck_ok(mk_table_delete(&policy_tables.expected, &key, &err));
	ck_assert_uint_eq(reconcile(10), 0);
	ck_assert_int_eq(mk_node_policies_reconcile_tables(&policies, &err), 1);
	ck_assert_int_eq(mk_node_policies_reconcile_tables(&policies, &err), 0);
	ck_assert_uint_eq(reconcile(10), 0);
}
END_TEST

/* networkPolicy is off: a set that another process has left is opened by a check. */
START_TEST(test_off)
{
	const struct mk_pod_policy left = { .set = { MK_SET_PENDING, MK_SET_PENDING } };
	const struct mk_addr address = addr_of("10.1.0.5");
	const uint32_t slot = mk_pod_slot(&address, policy_tables.pods.max_entries);

	core.config.policy_mode = MK_POLICIES_OFF;
	reconcile(10);
	ck_assert_uint_eq(writes, 0);
	ck_ok(mk_table_put(&policy_tables.pods, &slot, &left, &err));
	reconcile(10);
	ck_assert_uint_eq(policy_slot("10.1.0.5").set[0], MK_SET_PENDING);
	ck_assert_int_eq(mk_node_policies_reconcile_tables(&policies, &err), 2);
	ck_assert_uint_eq(policy_slot("10.1.0.5").set[0], MK_SET_OPEN);
}
END_TEST

/* The first policy does not fit: CNI ADD still must not take a new pod for open. */
START_TEST(test_full)
{
	struct mk_policy_peer_key key = { .set = 1 };
	const struct mk_policy_peer value = { 0 };

	while (mk_table_put(&policy_tables.peers, &key, &value, &err) == 0)
		key.set++;
	ck_assert_int_eq(mk_node_policies_reconcile(&policies, &err), -ENOSPC);
	ck_assert_uint_eq(policy_state_now().listed, MK_POLICY_LISTED_SOME);
	while (--key.set > 0)
		ck_ok(mk_table_delete(&policy_tables.peers, &key, &err));
	reconcile(1);
	ck_assert_uint_eq(policy_state_now().listed, MK_POLICY_LISTED_SOME);
}
END_TEST

/* ---- chains ---------------------------------------------------------------------------------- */

static int number; /* of the chain */

static int number_of(void *ctx, const char *uid)
{
	ck_assert_ptr_eq(ctx, &number);
	ck_assert_str_eq(uid, "c1a0");
	return number;
}

static void write_chain(const char *direction)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "apiVersion: networking.monokube.io/v1alpha1\nkind: ServiceFunctionChain\n"
		 "metadata: {namespace: shop, name: out, uid: c1a0}\n"
		 "spec: {traffic: {podSelector: {}, direction: %s}, functions: [{name: fw}]}\n",
		 direction);
	write_object("chain", text);
}

/* What ADD gives the pod. */
static struct mk_policy_expected expected(void)
{
	struct mk_policy_pod_key key = { .text = "shop/web/7a1c" };
	struct mk_policy_expected sets = { 0 };

	ck_ok(mk_table_get(&policy_tables.expected, &key, &sets, &err));
	return sets;
}

static void number_changes(int to)
{
	number = to;
	mk_node_policies_mark(&policies, MK_KIND_CHAIN, "", "");
	reconcile(2);
}

/* Policies wait for the numbers of chains, so that no pod seems to be in none. */
START_TEST(test_chains)
{
	uint64_t five;

	mk_node_policies_use_chains(&policies, number_of, &number);
	write_chain("Egress");
	read_files_of_chain();
	number = -1;
	ck_assert_uint_eq(reconcile(3), 0);
	ck_assert_uint_eq(writes, 0);
	ck_assert_uint_eq(policy_state_now().listed, MK_POLICY_LISTS_AWAITED);
	number_changes(5);
	five = expected().set[MK_POLICY_EGRESS];
	ck_assert_uint_eq(five & MK_SET_FLAGS, MK_SET_HAS_CHAINS);
	ck_assert_uint_eq(expected().set[MK_POLICY_INGRESS] & MK_SET_FLAGS, MK_SET_ISOLATES);
	number_changes(6);
	ck_assert_uint_ne(expected().set[MK_POLICY_EGRESS], five);
	number_changes(0);
	ck_assert_uint_eq(expected().set[MK_POLICY_EGRESS], MK_SET_OPEN);
	number_changes(5);
	ck_assert_uint_eq(expected().set[MK_POLICY_EGRESS], five);
	/* later, an unknown number does not hold up policies */
	write_policy(81);
	read_files();
	number = -1;
	mk_node_policies_mark(&policies, MK_KIND_CHAIN, "", "");
	ck_assert_uint_gt(reconcile(2), 0);
	ck_assert_uint_eq(expected().set[MK_POLICY_EGRESS], five);
	number_changes(5);
	write_chain("Ingress");
	read_files();
	reconcile(2);
	ck_assert_uint_eq(expected().set[MK_POLICY_EGRESS], MK_SET_OPEN);
	ck_assert_uint_eq(expected().set[MK_POLICY_INGRESS] & MK_SET_FLAGS,
			  MK_SET_ISOLATES | MK_SET_HAS_CHAINS);
}
END_TEST

/* A chain that holds pods counts as something that is listed, without any policy, and also if
 * policies are only audited. */
START_TEST(test_chains_alone)
{
	core.config.policy_mode = MK_POLICIES_AUDITED;
	mk_node_policies_use_chains(&policies, number_of, &number);
	ck_assert_int_eq(unlink(CLUSTER "/policy.yaml"), 0);
	write_chain("Egress");
	read_files_of_chain();
	while (mk_model_count(core.model, MK_KIND_NETWORK_POLICY) > 0)
		uv_run(&core.loop, UV_RUN_NOWAIT);
	number_changes(5);
	ck_assert_uint_eq(expected().set[MK_POLICY_EGRESS] & MK_SET_FLAGS, MK_SET_HAS_CHAINS);
	ck_assert_uint_eq(policy_state_now().listed, MK_POLICY_LISTED_SOME);
	number_changes(0);
	ck_assert_uint_eq(policy_state_now().listed, MK_POLICY_LISTED_NONE);
}
END_TEST

UNIT_SUITE("node_policies")
{
	TCase *tc = cni_case(suite, "node policies");

	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, test_quiet);
	tcase_add_test(tc, test_changed_policy);
	tcase_add_test(tc, test_sandboxes);
	tcase_add_test(tc, test_loaded_again);
	tcase_add_test(tc, test_emptied);
	tcase_add_test(tc, test_off);
	tcase_add_test(tc, test_full);
	tcase_add_test(tc, test_chains);
	tcase_add_test(tc, test_chains_alone);
	tc = cni_case(suite, "node policies, nothing listed");
	tcase_add_checked_fixture(tc, setup_unlisted, NULL);
	tcase_add_test(tc, test_lists_awaited);
}
