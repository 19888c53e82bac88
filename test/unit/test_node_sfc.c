// SPDX-License-Identifier: Apache-2.0
/* The agent's part of service function chains: a function pod's devices are found, the tables are
 * written only if something changed, a restart changes nothing, and damage is restored. The pod is
 * made by CNI ADD. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/sfc/sfc.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/time.h"
#include "datapath/datapath_internal.h"
#include "datapath/pods/port.h"
#include "unit/cni_node.h"
#include "unit/sfc_fixture.h"
#include "unit/unit.h"

#define CLUSTER	  ROOT "/cluster"
#define CHAIN_UID "11111111-2222-3333-4444-555555555555"
#define PORTS                                                        \
	",\"runtimeConfig\":{\"io.kubernetes.cri.pod-annotations\":" \
	"{\"networking.monokube.io/function-ports\":\"Bridged\"}}"

static struct mk_error err;
static struct mk_core core;
static struct mk_datapath datapath;
static struct mk_own_node node = { .core = &core };
static struct mk_node_policies policies;
static struct mk_node_sfc sfc;

/* ---- a node whose cluster is a directory ----------------------------------------------------- */

static void write_object(const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), CLUSTER "/%s.yaml", name);
	ck_ok(mk_file_replace(path, text, strlen(text), 0644, &err));
}

static void write_pod(const char *ready, const char *ip)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "apiVersion: v1\nkind: Pod\n"
		 "metadata: {namespace: inspection, name: fw-1, uid: 7a1c, labels: "
		 "{networking.monokube.io/function: firewall}}\n"
		 "spec: {nodeName: node1}\n"
		 "status: {phase: Running, podIP: %s, podIPs: [{ip: %s}], conditions: "
		 "[{type: Ready, status: '%s'}]}\n",
		 ip, ip, ready);
	write_object("pod", text);
}

static void write_chain(void)
{
	write_object("chain",
		     "apiVersion: networking.monokube.io/v1alpha1\n"
		     "kind: ServiceFunctionChain\n"
		     "metadata: {namespace: inspection, name: egress, uid: " CHAIN_UID "}\n"
		     "spec: {traffic: {podSelector: {}, direction: Egress}, "
		     "functions: [{name: firewall, whenUnavailable: Skip}]}\n");
}

/* A ready function pod of node2. */
static void write_remote_pod(void)
{
	write_object("remote", "apiVersion: v1\nkind: Pod\n"
			       "metadata: {namespace: inspection, name: fw-2, uid: 9b2d, labels: "
			       "{networking.monokube.io/function: firewall}, annotations: "
			       "{networking.monokube.io/function-ports: Bridged}}\n"
			       "spec: {nodeName: node2}\n"
			       "status: {phase: Running, podIP: 10.244.2.2, conditions: "
			       "[{type: Ready, status: 'True'}]}\n");
}

static void changed(void *ctx, const char *namespace_, const char *name)
{
	(void)namespace_;
	(void)name;
	mk_node_sfc_changed(ctx);
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

static void start_source(void)
{
	static const struct mk_model_listener listener = {
		.chain_changed = changed,
		.function_pod_changed = changed,
		.ctx = &sfc,
	};

	core.model = mk_model_new();
	ck_assert_ptr_nonnull(core.model);
	mk_model_set_listener(core.model, &listener);
	core.source = mk_source_start(&core.loop, &core.config, core.model, on_listed, NULL, &err);
	ck_assert_msg(core.source != NULL, "%s", mk_error_text(&err));
}

static void read_all(void)
{
	while (!mk_source_policies_listed(core.source))
		uv_run(&core.loop, UV_RUN_NOWAIT);
}

static void start_agent(void)
{
	datapath.sfc = mk_sfc_sync_new(&sfc_tables, &err);
	ck_assert_msg(datapath.sfc != NULL, "%s", mk_error_text(&err));
	core.families[0] = (struct mk_family){
		.core = &core, .family = AF_INET, .loads = 1, .datapath = &datapath
	};
	core.unsure = 0;
	node.families[0].family = &core.families[0];
	node.plans = 1;
	core.families[0].runs = true;
	mk_node_sfc_init(&sfc, &node, &policies);
	start_source();
}

static void stop_agent(void)
{
	mk_source_stop(core.source);
	mk_node_sfc_release(&sfc);
	mk_model_free(core.model);
	mk_sfc_sync_free(datapath.sfc);
}

static void setup(void)
{
	sfc_maps_make(AF_INET);
	snprintf(core.config.node_name, sizeof(core.config.node_name), "node1");
	snprintf(core.config.state_dir, sizeof(core.config.state_dir), "%s", STATE);
	snprintf(core.config.bpf_dir, sizeof(core.config.bpf_dir), "%s", BPF_DIR);
	snprintf(core.config.cluster_dir, sizeof(core.config.cluster_dir), "%s", CLUSTER);
	ck_ok(mk_mkdirs(CLUSTER, 0755, &err));
	core.nl = mk_nl_open(&err);
	ck_assert_ptr_nonnull(core.nl);
	uv_loop_init(&core.loop);
	uv_timer_init(&core.loop, &core.steps);
	uv_timer_init(&core.loop, &core.checks);
	core.on_steps = core.on_checks = on_timer;
	new_netns("a");
	ck_assert_msg(call("ADD", "a", netns_path("a"), "1.1.0", PORTS) == 0, "%s", answer);
	write_pod("True", "10.244.1.2");
	write_chain();
	start_agent();
}

/* Run the agent's steps. Returns how many entries they wrote. */
static unsigned int reconcile(void)
{
	unsigned int before = core.writes;

	for (int i = 0; i < 3; i++)
		ck_ok(mk_node_sfc_reconcile(&sfc, &err));
	return core.writes - before;
}

static void read_files(void)
{
	while (sfc.settled)
		uv_run(&core.loop, UV_RUN_NOWAIT);
}

static struct mk_sfc_replica replica(void)
{
	struct mk_sfc_replica row;

	ck_ok(mk_table_get(&sfc_tables.replicas, &(uint32_t){ 1 }, &row, &err));
	return row;
}

static int number(void)
{
	return policies.chain_number(policies.chain_ctx, CHAIN_UID);
}

static void begin(void)
{
	read_all();
	ck_assert_uint_gt(reconcile(), 0);
	ck_assert_uint_eq(replica().state, MK_SFC_USABLE);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static int note_port(void *ctx, const struct mk_link *link)
{
	uint32_t *ifindex = ctx;
	enum mk_port_side side;

	if (mk_port_of(link, NULL, &side))
		ifindex[side] = (uint32_t)link->ifindex;
	return 0;
}

START_TEST(test_ports)
{
	uint32_t ifindex[MK_SFC_SIDES] = { 0 };

	begin();
	ck_ok(mk_nl_each_link(core.nl, note_port, ifindex, &err));
	ck_assert_mem_eq(replica().ifindex, ifindex, sizeof(ifindex));
	ck_assert_uint_eq(replica().mode, MK_PORT_BRIDGED);
	ck_assert_uint_eq(reconcile(), 0);
}
END_TEST

/* Policies wait for the number until the chain's row is written. */
START_TEST(test_number)
{
	ck_assert_int_lt(number(), 0);
	begin();
	ck_assert_int_eq(number(), 1);
	ck_assert(!policies.chains_known);
	ck_assert_int_eq(policies.chain_number(policies.chain_ctx, "another"), 0);
}
END_TEST

/* A Pod with another address is not the sandbox's. */
START_TEST(test_other_address)
{
	write_pod("True", "10.244.1.3");
	read_all();
	reconcile();
	ck_assert_uint_eq(replica().uid_hash, 0);
}
END_TEST

START_TEST(test_readiness)
{
	begin();
	write_pod("False", "10.244.1.2");
	read_files();
	ck_assert_uint_eq(reconcile(), 1); /* the slots: no other replica serves, so flows stay */
	write_pod("True", "10.244.1.2");
	read_files();
	ck_assert_uint_eq(reconcile(), 1);
}
END_TEST

/* Nothing is touched before the objects are read, and then nothing has changed. */
START_TEST(test_restart)
{
	ck_assert(!mk_core_any(&core, mk_family_has_chains));
	begin();
	stop_agent();
	start_agent();
	ck_assert(mk_core_any(&core, mk_family_has_chains));
	ck_assert_uint_eq(reconcile(), 0);
	ck_assert_int_lt(number(), 0);
	ck_assert_uint_eq(replica().state, MK_SFC_USABLE);
	read_all();
	ck_assert_uint_eq(reconcile(), 0);
	ck_assert_int_eq(number(), 1);
}
END_TEST

/* DEL, while the agent runs: rtnetlink reports the devices. */
START_TEST(test_ports_gone)
{
	begin();
	ck_assert_int_eq(call("DEL", "a", netns_path("a"), "1.1.0", ""), 0);
	ck_assert_uint_eq(reconcile(), 0);
	mk_core_mark(&core, MK_UNSURE_PORTS, 0);
	ck_assert_uint_gt(reconcile(), 0);
	ck_assert_uint_eq(replica().state, MK_SFC_LOST);
	ck_assert_uint_eq(replica().ifindex[MK_SFC_INSIDE], 0);
}
END_TEST

START_TEST(test_emptied)
{
	static const struct mk_sfc_chain none;

	begin();
	ck_ok(mk_table_put(&sfc_tables.chains, &(uint32_t){ 1 }, &none, &err));
	ck_assert_uint_eq(reconcile(), 0);
	capture_log();
	ck_assert_int_eq(mk_node_sfc_audit(&sfc, &err), 1);
	captured_log();
	ck_assert_uint_eq(reconcile(), 1);
	ck_assert_int_eq(mk_node_sfc_audit(&sfc, &err), 0);
}
END_TEST

START_TEST(test_file)
{
	cleanup_free char *text = NULL;

	begin();
	ck_ok(mk_node_sfc_describe(&sfc, &err));
	ck_ok(mk_file_read(STATE "/chains.json", 4096, &text, NULL, &err));
	ck_assert_str_eq(
		text,
		"{\"version\":1,\"chains\":[{\"id\":1,\"name\":\"inspection/egress\",\"priority\":0,"
		"\"direction\":\"Egress\",\"functions\":[{\"name\":\"firewall\",\"id\":1,"
		"\"whenUnavailable\":\"Skip\",\"onLoss\":\"Rebalance\",\"hashBy\":\"Flow\"}]}],"
		"\"replicas\":[{\"number\":1,\"function\":1,\"name\":\"inspection/fw-1\","
		"\"node\":\"node1\",\"state\":\"serving\"}]}\n");
}
END_TEST

/* The overlay reaches node2 by @last of its MAC address, or not at all. */
static void plan_node2(uint8_t last)
{
	static char name[] = "node2";
	static struct mk_overlay_peer peer = { .node = name };

	peer.vtep_mac = (struct mk_mac){ { 2, 0x4d, 10, 18, 0, last } };
	node.families[0].plan = (struct mk_overlay_plan){ .peers = &peer, .peer_count = last > 0 };
	node.plans++;
}

static struct mk_sfc_replica remote_replica(void)
{
	struct mk_sfc_replica row;

	ck_ok(mk_table_get(&sfc_tables.replicas, &(uint32_t){ 2 }, &row, &err));
	return row;
}

START_TEST(test_other_node)
{
	write_remote_pod();
	begin();
	ck_assert_uint_eq(remote_replica().uid_hash, 0);
	plan_node2(7);
	ck_assert_uint_gt(reconcile(), 0);
	ck_assert_uint_eq(remote_replica().state, MK_SFC_USABLE);
	ck_assert_uint_eq(remote_replica().vtep_mac[5], 7);
	plan_node2(7);
	ck_assert_uint_eq(reconcile(), 0);
	plan_node2(8);
	ck_assert_uint_eq(reconcile(), 1);
	ck_assert_uint_eq(remote_replica().vtep_mac[5], 8);
	plan_node2(0);
	ck_assert_uint_eq(reconcile(), 2); /* the row and the slots */
	ck_assert_uint_eq(remote_replica().state, MK_SFC_LOST);
}
END_TEST

/* A restarted agent does not lose replicas of nodes that it has not seen yet. */
START_TEST(test_nodes_unknown)
{
	write_remote_pod();
	plan_node2(7);
	begin();
	ck_assert_uint_eq(remote_replica().state, MK_SFC_USABLE);
	stop_agent();
	start_agent();
	node.plans = 0;
	node.families[0].plan.peer_count = 0;
	read_all();
	ck_assert_uint_eq(reconcile(), 0);
	ck_assert_int_lt(number(), 0);
	plan_node2(7);
	ck_assert_uint_eq(reconcile(), 0);
	ck_assert_int_eq(number(), 1);
}
END_TEST

/* A node without chains knows that at once, and looks at no device. */
START_TEST(test_none)
{
	struct mk_nl *nl = core.nl;

	stop_agent();
	ck_assert_int_eq(remove(CLUSTER "/chain.yaml"), 0);
	start_agent();
	core.nl = NULL;
	read_all();
	ck_assert_uint_eq(reconcile(), 0);
	ck_assert(sfc.settled);
	ck_assert_ptr_null(sfc.sfc);
	ck_ok(mk_node_sfc_audit(&sfc, &err));
	ck_ok(mk_node_sfc_collect(&sfc, &err));
	core.nl = nl;
}
END_TEST

/* A set of policies may still name a chain that is gone: its number waits for policies. */
START_TEST(test_number_of_gone)
{
	begin();
	ck_assert_int_eq(remove(CLUSTER "/chain.yaml"), 0);
	read_files();
	reconcile();
	ck_assert(mk_sfc_has_gone(sfc.sfc));
	usleep(1100 * 1000); /* MK_SFC_RETIRE_NS is over */
	ck_ok(mk_sfc_sync_pass_ended(datapath.sfc, mk_time_monotonic_ns(), &err)); /* no paths */
	ck_ok(mk_node_sfc_collect(&sfc, &err));
	ck_assert(mk_sfc_has_gone(sfc.sfc));
	policies.settled = true;
	ck_ok(mk_node_sfc_collect(&sfc, &err));
	ck_assert(!mk_sfc_has_gone(sfc.sfc));
}
END_TEST

UNIT_SUITE("node_sfc")
{
	TCase *tc = cni_case(suite, "node sfc");

	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, test_ports);
	tcase_add_test(tc, test_number);
	tcase_add_test(tc, test_other_address);
	tcase_add_test(tc, test_readiness);
	tcase_add_test(tc, test_restart);
	tcase_add_test(tc, test_ports_gone);
	tcase_add_test(tc, test_emptied);
	tcase_add_test(tc, test_file);
	tcase_add_test(tc, test_other_node);
	tcase_add_test(tc, test_nodes_unknown);
	tcase_add_test(tc, test_none);
	tcase_add_test(tc, test_number_of_gone);
}
