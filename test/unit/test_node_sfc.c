// SPDX-License-Identifier: Apache-2.0
/* The agent's part of service function chains: a function pod's devices are found, the tables are
 * written only if something changed, a restart changes nothing, and damage is restored. The pod is
 * made by CNI ADD. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/sfc/objects.h"
#include "agent/sfc/sfc.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/time.h"
#include "datapath/datapath_internal.h"
#include "datapath/pods/port.h"
#include "unit/chain_objects.h"
#include "unit/cni_node.h"
#include "unit/sfc_fixture.h"
#include "unit/unit.h"

#define CLUSTER	  ROOT "/cluster"
#define CHAIN_UID "11111111-2222-3333-4444-555555555555"
#define PORTS                                                        \
	",\"runtimeConfig\":{\"io.kubernetes.cri.pod-annotations\":" \
	"{\"networking.monokube.io/function-ports\":\"Bridged\"}}"
#define TAP                                                          \
	",\"runtimeConfig\":{\"io.kubernetes.cri.pod-annotations\":" \
	"{\"networking.monokube.io/function-ports\":\"Tap\"}}"

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

static void write_chain(const char *functions)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "apiVersion: networking.monokube.io/v1alpha1\n"
		 "kind: ServiceFunctionChain\n"
		 "metadata: {namespace: inspection, name: egress, uid: " CHAIN_UID "}\n"
		 "spec: {traffic: {podSelector: {}, direction: Egress}, functions: [%s]}\n",
		 functions);
	write_object("chain", text);
}

/* A ready function pod of node2. */
static void write_remote_pod(const char *mode)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "apiVersion: v1\nkind: Pod\n"
		 "metadata: {namespace: inspection, name: fw-2, uid: 9b2d, labels: "
		 "{networking.monokube.io/function: firewall}, annotations: "
		 "{networking.monokube.io/function-ports: %s}}\n"
		 "spec: {nodeName: node2}\n"
		 "status: {phase: Running, podIP: 10.244.2.2, conditions: "
		 "[{type: Ready, status: 'True'}]}\n",
		 mode);
	write_object("remote", text);
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
	while (!mk_source_listed(core.source, MK_SOURCE_POLICIES))
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
	sfc_tables.pins = BPF_DIR;
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
	write_chain("{name: firewall, whenUnavailable: Skip}");
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
	ck_assert_int_eq(mk_node_sfc_reconcile_tables(&sfc, &err), 1);
	captured_log();
	ck_assert_uint_eq(reconcile(), 1);
	ck_assert_int_eq(mk_node_sfc_reconcile_tables(&sfc, &err), 0);
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
		"{\"version\":2,\"chains\":[{\"id\":1,\"name\":\"inspection/egress\",\"priority\":0,"
		"\"direction\":\"Egress\",\"functions\":[{\"name\":\"firewall\",\"id\":1,\"tap\":false,"
		"\"whenUnavailable\":\"Skip\",\"onLoss\":\"Rebalance\",\"hashBy\":\"Flow\","
		"\"localWeight\":16}]}],"
		"\"replicas\":[{\"number\":1,\"function\":\"firewall\",\"name\":\"inspection/fw-1\","
		"\"node\":\"node1\",\"isHere\":true,\"tap\":false,\"weight\":1,\"weightIsWrong\":false,"
		"\"state\":\"serving\"}]}\n");
}
END_TEST

/* The command line learns which chain takes no pod, and why. */
START_TEST(test_file_of_service)
{
	cleanup_free char *text = NULL;

	write_object("chain", "apiVersion: networking.monokube.io/v1alpha1\n"
			      "kind: ServiceFunctionChain\n"
			      "metadata: {namespace: inspection, name: dpi, uid: " CHAIN_UID "}\n"
			      "spec: {traffic: {service: web}, functions: [{name: firewall}]}\n");
	begin();
	ck_ok(mk_node_sfc_describe(&sfc, &err));
	ck_ok(mk_file_read(STATE "/chains.json", 4096, &text, NULL, &err));
	ck_assert_ptr_nonnull(
		strstr(text, "\"direction\":\"Ingress\",\"problem\":\"Service inspection/web "
			     "does not exist, so the chain takes no pod\",\"remedy\":\"create it"));
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
	write_remote_pod("Bridged");
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

static void ck_file_has(const char *expected)
{
	cleanup_free char *text = NULL;

	ck_ok(mk_node_sfc_describe(&sfc, &err));
	ck_ok(mk_file_read(STATE "/chains.json", 4096, &text, NULL, &err));
	ck_assert_msg(strstr(text, expected) != NULL, "no '%s' in %s", expected, text);
}

/* The port of this node's replica says that it is a tap, the annotation that the other one is. */
START_TEST(test_tap)
{
	plan_node2(7);
	write_remote_pod("Tap");
	ck_assert_int_eq(call("DEL", "a", netns_path("a"), "1.1.0", ""), 0);
	ck_assert_msg(call("ADD", "a", netns_path("a"), "1.1.0", TAP) == 0, "%s", answer);
	write_pod("True", "10.244.1.3"); /* the address that the second ADD has given */
	write_chain("{name: firewall, tap: true}, {name: other}");
	begin();
	ck_assert_uint_eq(replica().mode, MK_PORT_TAP);
	ck_assert_uint_ne(replica().ifindex[MK_SFC_INSIDE], 0);
	ck_assert_uint_eq(replica().ifindex[MK_SFC_INSIDE], replica().ifindex[MK_SFC_OUTSIDE]);
	ck_assert_uint_eq(remote_replica().mode, MK_PORT_TAP);
	ck_assert_uint_eq(remote_replica().state, MK_SFC_USABLE);
	ck_file_has("\"name\":\"firewall\",\"id\":1,\"tap\":true,\"whenUnavailable\":\"Skip\"");
	ck_file_has("\"isHere\":true,\"tap\":true,");
	write_chain("{name: firewall}, {name: other}");
	read_files();
	capture_log();
	ck_assert_uint_gt(reconcile(), 0);
	ck_assert_ptr_nonnull(strstr(
		captured_log(), "function pod inspection/fw-1 does not serve: it has mode Tap, "
				"but the chain does not say tap: true"));
	ck_file_has("\"state\":\"wrong mode: Tap, and the function is no tap\"");
}
END_TEST

START_TEST(test_no_tap)
{
	write_chain("{name: firewall, tap: true}, {name: other}");
	read_all();
	capture_log();
	reconcile();
	ck_assert_ptr_nonnull(strstr(captured_log(), "fw-1 does not serve: it has not the port of "
						     "mode Tap that the chain's tap: true needs"));
	ck_assert_uint_eq(replica().uid_hash, 0);
	ck_file_has("\"state\":\"wrong mode: not Tap, and the function is a tap\"");
}
END_TEST

#define END                                                          \
	",\"runtimeConfig\":{\"io.kubernetes.cri.pod-annotations\":" \
	"{\"networking.monokube.io/function-ports\":\"End\","        \
	"\"networking.monokube.io/function-address\":\"10.9.0.1/24\"}}"

static void write_ends(const char *inside)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "apiVersion: networking.monokube.io/v1alpha1\n"
		 "kind: ServiceFunctionChain\n"
		 "metadata: {namespace: inspection, name: egress, uid: " CHAIN_UID "}\n"
		 "spec: {ends: {inside: %s, outside: server}, functions: [{name: firewall}]}\n",
		 inside);
	write_object("chain", text);
}

static int note_chain(uint16_t ifindex_chain[2], enum mk_sfc_side side)
{
	struct mk_sfc_port port;

	ck_ok(mk_table_get(&sfc_tables.ports, &replica().ifindex[side], &port, &err));
	ck_assert_uint_eq(port.replica, 1);
	ifindex_chain[0] = port.side;
	ifindex_chain[1] = port.chain;
	return port.mode;
}

/* The ports of a chain with ends name it. It takes no pod, so policies get no number. */
START_TEST(test_ends)
{
	uint16_t port[2];

	write_ends("client");
	begin();
	ck_assert_int_eq(note_chain(port, MK_SFC_OUTSIDE), MK_PORT_BRIDGED);
	ck_assert_uint_eq(port[0], MK_SFC_OUTSIDE);
	ck_assert_uint_eq(port[1], 1);
	ck_assert_int_eq(number(), 0);
	ck_file_has("{\"id\":1,\"name\":\"inspection/egress\",\"priority\":0,\"functions\":["
		    "{\"name\":\"client\",\"id\":2,\"tap\":false,\"end\":\"inside\",");
	ck_file_has("{\"name\":\"firewall\",\"id\":1,\"tap\":false,\"whenUnavailable\"");
	ck_file_has("{\"name\":\"server\",\"id\":3,\"tap\":false,\"end\":\"outside\",");
	write_ends("other");
	read_files();
	ck_assert_uint_gt(reconcile(), 0);
	ck_assert_uint_eq(reconcile(), 0);
}
END_TEST

/* A pod of the inside end looks at the chain from there. */
START_TEST(test_end)
{
	uint16_t port[2];

	ck_assert_int_eq(call("DEL", "a", netns_path("a"), "1.1.0", ""), 0);
	ck_assert_msg(call("ADD", "a", netns_path("a"), "1.1.0", END) == 0, "%s", answer);
	write_pod("True", "10.244.1.3");
	write_chain("{name: firewall}");
	read_all();
	capture_log();
	reconcile();
	ck_assert_ptr_nonnull(strstr(captured_log(),
				     "fw-1 does not serve: it has mode End, but its "
				     "function is no end of a chain"));
	ck_file_has("\"state\":\"wrong mode: End, and the function is no end of its chain\"");
	write_object("chain",
		     "apiVersion: networking.monokube.io/v1alpha1\n"
		     "kind: ServiceFunctionChain\n"
		     "metadata: {namespace: inspection, name: egress, uid: " CHAIN_UID "}\n"
		     "spec: {ends: {inside: firewall, outside: server}, functions: "
		     "[{name: other}]}\n");
	read_files();
	ck_assert_uint_gt(reconcile(), 0);
	ck_assert_uint_eq(replica().state, MK_SFC_USABLE);
	ck_assert_int_eq(note_chain(port, MK_SFC_INSIDE), MK_PORT_END);
	ck_assert_uint_eq(port[0], MK_SFC_OUTSIDE);
	ck_assert_uint_ne(port[1], 0);
	ck_file_has("\"state\":\"serving\"");
}
END_TEST

/* The chain that precedes has the function: the log, the file and policies learn of that. */
START_TEST(test_function_in_use)
{
	write_chain("{name: firewall}");
	write_object("earlier", "apiVersion: networking.monokube.io/v1alpha1\n"
				"kind: ServiceFunctionChain\n"
				"metadata: {namespace: inspection, name: a, uid: u-2}\n"
				"spec: {ends: {inside: client, outside: server}, functions: "
				"[{name: firewall}]}\n");
	read_all();
	capture_log();
	reconcile();
	ck_assert_ptr_nonnull(strstr(captured_log(),
				     "chain inspection/egress is not in force: function firewall "
				     "is in use by chain inspection/a, which comes first, and one "
				     "of both has ends: name another function, or delete"));
	ck_assert_int_eq(number(), 0);
	ck_file_has("{\"id\":0,\"name\":\"inspection/egress\",\"priority\":0,\"direction\":"
		    "\"Egress\",\"problem\":\"function firewall is in use by chain inspection/a,");
	ck_assert_int_eq(remove(CLUSTER "/earlier.yaml"), 0);
	read_files();
	reconcile();
	ck_assert_int_gt(number(), 0);
}
END_TEST

/* A restarted agent does not lose replicas of nodes that it has not seen yet. */
START_TEST(test_nodes_unknown)
{
	write_remote_pod("Bridged");
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
	ck_ok(mk_node_sfc_reconcile_tables(&sfc, &err));
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

/* ---- status ---------------------------------------------------------------------------------- */

#define ON(node)  ", 'spec': {'nodeName': '" node "'}"
#define IS(ready) ", 'status': {'conditions': [{'type': 'Ready', 'status': '" ready "'}]}"
#define PORTS_ARE "'annotations': {'networking.monokube.io/function-ports': 'Bridged'"
/* Function pod @name of f in x; @meta: more of its metadata. */
#define REPLICA(name, meta, rest)                                         \
	"{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': '" name \
	"', 'namespace': 'x', 'uid': 'u-" name                            \
	"', 'labels': {'networking.monokube.io/function': 'f'}, " meta "}" rest "}"
#define READY(name) REPLICA(name, PORTS_ARE "}", ON("n") IS("True"))
#define DELETING(name)                                                            \
	REPLICA(name, PORTS_ARE "}, 'deletionTimestamp': '2026-01-01T00:00:00Z'", \
		ON("n") IS("True"))
#define TAP_POD(name)                                                                    \
	REPLICA(name, "'annotations': {'networking.monokube.io/function-ports': 'Tap'}", \
		ON("n") IS("True"))
#define F_IS_TAP OTHER_FUNCTIONS("{'name': 'f', 'tap': true}, {'name': 'g'}")
#define NODE	 "{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n'}}"
#define NODE_M	 "{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'm'}}"
/* Ready pod @name of @function on @node, with ports of @mode. */
#define POD_OF(name, function, mode, node)                                               \
	"{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': '" name                \
	"', 'namespace': 'x', 'uid': 'u-" name                                           \
	"', 'labels': {'networking.monokube.io/function': '" function "'}, "             \
	"'annotations': {'networking.monokube.io/function-ports': '" mode "'}}" ON(node) \
		IS("True") "}"
#define CLIENT(name, node)   POD_OF(name, "c", "End", node)
#define SERVER(name, node)   POD_OF(name, "s", "End", node)
#define FIREWALL(name, node) POD_OF(name, "f", "Inline", node)
#define WITH_ENDS	     CHAIN(ENDS("c", "s"))
/* Chain 'a' of namespace x, which precedes c by name. */
#define EARLIER(spec) CHAIN_OF("x", "a", spec)
#define IN_USE(function)                                                                  \
	"False FunctionInUse: function " function " is in use by chain x/a, which comes " \
	"first, and one of both has ends: name another function, or delete one of both "  \
	"chains; "
#define SPACE(name, labels)                                                     \
	"{'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': '" name \
	"', 'labels': {'s': 'yes'" labels "}}}"
#define CONSENTS  ", 'networking.monokube.io/chained-by': 'x'"
#define IN_SPACES CHAIN(TRAFFIC(EGRESS ", 'namespaceSelector': {'matchLabels': {'s': 'yes'}}"))
#define ONE_CHAIN CHAIN(TRAFFIC(EGRESS))
#define OTHER_FUNCTIONS(of) \
	CHAIN("'traffic': {'podSelector': {}, " EGRESS "}, 'functions': [" of "]")
#define VALID	     "True Valid: the chain is in force; "
#define SERVES	     "True AllServing: every function has a ready pod"
#define BLOCKED	     "False Blocked: no ready pod of function f: the chain's packets are dropped"
#define BLOCKED_BY_G "False Blocked: no ready pod of function g: the chain's packets are dropped"
#define NO_CONSENT \
	"False NoConsent: no selected namespace has label networking.monokube.io/chained-by=x:"

#define OF_WEB CHAIN(OF_SERVICE("web", ""))
#define WEB(spec)                                                                           \
	"{'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 'web', 'namespace': " \
	"'x'}, 'spec': {" spec "}}"

static const struct {
	const char *name, *objects[10], *status;
} statuses[] = {
	{ "a ready pod", { ONE_CHAIN, NODE, READY("p") }, "f 1/1; " VALID SERVES },
	{ "no pod", { ONE_CHAIN, NODE }, "f 0/0; " VALID BLOCKED },
	{ "a pod that is not ready",
	  { ONE_CHAIN, NODE, REPLICA("p", PORTS_ARE "}", ON("n") IS("False")) },
	  "f 0/1; " VALID BLOCKED },
	{ "of two one is ready",
	  { ONE_CHAIN, NODE, READY("p"), REPLICA("q", PORTS_ARE "}", ON("n") IS("False")) },
	  "f 1/2; " VALID SERVES },
	{ "a pod without ports",
	  { ONE_CHAIN, NODE, REPLICA("p", "'annotations': {}", ON("n") IS("True")) },
	  "f 0/1; " VALID BLOCKED },
	{ "a pod whose node is gone", { ONE_CHAIN, READY("p") }, "f 0/1; " VALID BLOCKED },
	{ "the last pod is being deleted: it still serves",
	  { ONE_CHAIN, NODE, DELETING("p") },
	  "f 0/1; " VALID SERVES },
	{ "a pod of weight 0: it still serves",
	  { ONE_CHAIN, NODE,
	    REPLICA("p", PORTS_ARE ", 'networking.monokube.io/weight': '0'}", ON("n") IS("True")) },
	  "f 0/1; " VALID SERVES },
	{ "a pod that has finished",
	  { ONE_CHAIN, NODE,
	    REPLICA("p", PORTS_ARE "}",
		    ON("n") ", 'status': {'phase': 'Failed', 'conditions': [{'type': 'Ready', "
			    "'status': 'True'}]}") },
	  "f 0/0; " VALID BLOCKED },
	{ "a pod of another function, and of another namespace",
	  { ONE_CHAIN, FUNCTION_POD("x", "p", "g", IS("True")),
	    FUNCTION_POD("y", "p", "f", IS("True")) },
	  "f 0/0; " VALID BLOCKED },
	{ "a function that is skipped",
	  { OTHER_FUNCTIONS("{'name': 'f'}, {'name': 'g', 'whenUnavailable': 'Skip'}"), NODE,
	    READY("p") },
	  "f 1/1, g 0/0; " VALID
	  "False Skipped: no ready pod of function g: flows pass without it" },
	{ "those that block hide those that are skipped",
	  { OTHER_FUNCTIONS(
		  "{'name': 'f'}, {'name': 'g', 'whenUnavailable': 'Skip'}, {'name': 'h'}") },
	  "f 0/0, g 0/0, h 0/0; " VALID
	  "False Blocked: no ready pod of functions f, h: the chain's packets are dropped" },
	{ "a tap",
	  { OTHER_FUNCTIONS("{'name': 'g', 'tap': true}, {'name': 'f'}"), NODE, READY("p") },
	  "g 0/0, f 1/1; " VALID
	  "False Skipped: no ready pod of function g: flows pass without it" },
	{ "a tap's pod", { F_IS_TAP, NODE, TAP_POD("p") }, "f 1/1, g 0/0; " VALID BLOCKED_BY_G },
	{ "pods with two ports for a tap",
	  { OTHER_FUNCTIONS("{'name': 'f', 'tap': true}, {'name': 'g', 'whenUnavailable': "
			    "'Skip'}"),
	    NODE, READY("q"), READY("p") },
	  "f 0/2, g 0/0; " VALID
	  "False Skipped: no ready pod of functions f, g: flows pass without it; pod p has not the "
	  "port of mode Tap that the chain's tap: true needs: set annotation "
	  "networking.monokube.io/function-ports: Tap in its template" },
	{ "a tap's pod for another function",
	  { ONE_CHAIN, NODE, TAP_POD("p") },
	  "f 0/1; " VALID BLOCKED
	  "; pod p has mode Tap, but the chain does not say tap: true: set another mode in "
	  "annotation networking.monokube.io/function-ports, or tap: true in the chain" },
	{ "a tap's pod beside one that serves",
	  { ONE_CHAIN, NODE, TAP_POD("p"), READY("q") },
	  "f 1/2; " VALID SERVES },
	{ "the chain's own namespace needs no consent",
	  { IN_SPACES, NODE, READY("p"), SPACE("x", ""), SPACE("y", "") },
	  "f 1/1; " VALID SERVES },
	{ "another namespace consents",
	  { IN_SPACES, NODE, READY("p"), SPACE("a", ""), SPACE("y", CONSENTS) },
	  "f 1/1; " VALID SERVES },
	{ "a Service",
	  { OF_WEB, NODE, READY("p"), WEB("'selector': {'a': 'b'}, 'ports': [{'port': 80}]") },
	  "f 1/1; " VALID SERVES },
	{ "a Service that does not exist",
	  { OF_WEB, NODE, READY("p") },
	  "f 1/1; False NoService: Service x/web does not exist, so the chain takes no pod: create it, "
	  "or correct spec.traffic.service; one with label "
	  "service.kubernetes.io/service-proxy-name does not count; " SERVES },
	{ "a Service without selector",
	  { OF_WEB, NODE, READY("p"), WEB("'ports': [{'port': 80}]") },
	  "f 1/1; False NoService: Service x/web has no selector, so the chain takes no pod: select "
	  "the pods by spec.traffic.podSelector instead; " SERVES },
	{ "a Service without ports",
	  { OF_WEB, NODE, READY("p"), WEB("'selector': {'a': 'b'}, 'clusterIP': 'None'") },
	  "f 1/1; False NoService: Service x/web has no ports, so the chain takes no flow: give it "
	  "ports, or select the pods by spec.traffic.podSelector instead; " SERVES },
	{ "ends",
	  { WITH_ENDS, NODE, CLIENT("p", "n"), FIREWALL("q", "n"), SERVER("r", "n") },
	  "c 1/1, f 1/1, s 1/1; " VALID SERVES },
	{ "ends without pods",
	  { WITH_ENDS, NODE, FIREWALL("q", "n") },
	  "c 0/0, f 1/1, s 0/0; " VALID
	  "False Blocked: no ready pod of functions c, s: the chain's packets are dropped" },
	{ "ends' pods on two nodes",
	  { WITH_ENDS, NODE, NODE_M, CLIENT("p", "n"), FIREWALL("q", "n"), SERVER("r", "n"),
	    CLIENT("o", "m"), SERVER("t", "m") },
	  "c 2/2, f 1/1, s 2/2; " VALID
	  "False Blocked: no ready pod of function f on node m, which has one of the inside end: "
	  "the chain's packets are dropped there" },
	{ "a node without an inside end needs nothing",
	  { WITH_ENDS, NODE, NODE_M, CLIENT("p", "n"), FIREWALL("q", "n"), SERVER("r", "n"),
	    SERVER("t", "m") },
	  "c 1/1, f 1/1, s 2/2; " VALID SERVES },
	{ "ends, and on one node a function that is skipped",
	  { CHAIN("'ends': {'inside': 'c', 'outside': 's'}, 'functions': [{'name': 'f', "
		  "'whenUnavailable': 'Skip'}]"),
	    NODE, NODE_M, CLIENT("p", "n"), FIREWALL("q", "m"), SERVER("r", "n") },
	  "c 1/1, f 1/1, s 1/1; " VALID
	  "False Skipped: no ready pod of function f on node n, which has one of the inside end: "
	  "flows pass without it there" },
	{ "an end's pod with two ports",
	  { WITH_ENDS, NODE, POD_OF("p", "c", "Bridged", "n"), FIREWALL("q", "n"),
	    SERVER("r", "n") },
	  "c 0/1, f 1/1, s 1/1; " VALID
	  "False Blocked: no ready pod of function c: the chain's packets are dropped; pod p has "
	  "not the port of mode End that an end of a chain needs: set annotation "
	  "networking.monokube.io/function-ports: End in its template" },
	{ "an end's pod for a function",
	  { WITH_ENDS, NODE, CLIENT("p", "n"), POD_OF("q", "f", "End", "n"), SERVER("r", "n") },
	  "c 1/1, f 0/1, s 1/1; " VALID BLOCKED
	  "; pod q has mode End, but its function is no end of a chain: set another mode in "
	  "annotation networking.monokube.io/function-ports, or name the function in spec.ends" },
	{ "a function of an earlier chain with ends",
	  { EARLIER(ENDS("c", "s")), ONE_CHAIN, NODE, READY("p") },
	  "f 1/1; " IN_USE("f") SERVES },
	{ "ends, and a function of an earlier chain",
	  { EARLIER(TRAFFIC(EGRESS)), WITH_ENDS, NODE, CLIENT("p", "n"), FIREWALL("q", "n"),
	    SERVER("r", "n") },
	  "c 1/1, f 1/1, s 1/1; " IN_USE("f") SERVES },
	{ "ends that are functions of an earlier chain",
	  { EARLIER("'ends': {'inside': 'd', 'outside': 'c'}, 'functions': [{'name': 'g'}]"),
	    WITH_ENDS },
	  "c 0/0, f 0/0, s 0/0; " IN_USE(
		  "c") "False Blocked: no ready pod of functions c, f, s: the chain's packets are dropped" },
	{ "a refused chain keeps no other one out of force",
	  { CHAIN_OF("x", "a",
		     "'ends': {'inside': 'g', 'outside': 'h'}, 'functions': [{'name': 'k'}]"),
	    CHAIN_OF("x", "b", ENDS("g", "m")), ONE_CHAIN, NODE, READY("p") },
	  "f 1/1; " VALID SERVES },
	{ "a chain of another namespace has other functions",
	  { CHAIN_OF("w", "a", ENDS("c", "s")), ONE_CHAIN, NODE, READY("p") },
	  "f 1/1; " VALID SERVES },
	{ "chains without ends share functions",
	  { EARLIER(TRAFFIC(EGRESS)), CHAIN_OF("x", "b", ENDS("g", "h")), ONE_CHAIN, NODE,
	    READY("p") },
	  "f 1/1; " VALID SERVES },
	{ "no namespace is selected", { IN_SPACES, NODE, READY("p") }, "f 1/1; " VALID SERVES },
	{ "no selected namespace consents",
	  { IN_SPACES, NODE, READY("p"), SPACE("y", ""),
	    SPACE("a", ", 'networking.monokube.io/chained-by': 'y'") },
	  "f 1/1; " NO_CONSENT " a, y; " SERVES },
	{ "many namespaces: the first ones have names",
	  { IN_SPACES, NODE, READY("p"), SPACE("g", ""), SPACE("c", ""), SPACE("f", ""),
	    SPACE("b", ""), SPACE("e", ""), SPACE("a", ""), SPACE("d", "") },
	  "f 1/1; " NO_CONSENT " a, b, c, d, e and 2 more; " SERVES },
};

static char status_text[4096];

static size_t print_condition(size_t used, const struct mk_chain_condition *of)
{
	return used + (size_t)snprintf(status_text + used, sizeof(status_text) - used,
				       "; %s %s: %s", of->holds ? "True" : "False", of->reason,
				       of->message);
}

/* Keep the status of chain c only. */
static void note_status(void *ctx, const struct mk_chain_status *status)
{
	size_t used = 0;

	++*(size_t *)ctx;
	if (strcmp(status->name, "c") != 0)
		return;
	for (size_t i = 0; i < status->function_count; i++)
		used += (size_t)snprintf(status_text + used, sizeof(status_text) - used,
					 "%s%s %u/%u", i ? ", " : "", status->functions[i].name,
					 status->functions[i].ready, status->functions[i].total);
	print_condition(print_condition(used, &status->accepted), &status->ready);
}

static void add_object(const char *text)
{
	json_object *tree = json_tokener_parse(text);

	ck_assert_msg(tree != NULL, "%s", text);
	ck_ok(mk_model_apply(core.model, tree, &err));
	json_object_put(tree);
}

/* Returns the number of chains. */
static size_t read_status(void)
{
	static const struct node_ports ports;
	static const struct node_macs macs;
	struct sfc_objects objects;
	size_t count = 0;

	ck_ok(objects_get(&objects, &core, &ports, &macs, &err));
	ck_ok(objects_status(&objects, core.model, note_status, &count, &err));
	objects_release(&objects);
	return count;
}

static void setup_model(void)
{
	core.model = mk_model_new();
	ck_assert_ptr_nonnull(core.model);
}

static void free_model(void)
{
	mk_model_free(core.model);
}

START_TEST(test_status)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(statuses[_i].objects) && statuses[_i].objects[i]; i++)
		add_object(statuses[_i].objects[i]);
	ck_assert_uint_gt(read_status(), 0);
	ck_assert_msg(strcmp(status_text, statuses[_i].status) == 0, "%s: '%s', expected '%s'",
		      statuses[_i].name, status_text, statuses[_i].status);
}
END_TEST

/* A node has MK_SFC_CHAINS - 1. With equal priority and age, the first by name have precedence. */
START_TEST(test_status_of_too_many)
{
	char text[512];

	for (int i = 0; i < MK_SFC_CHAINS - 2; i++) {
		snprintf(text, sizeof(text), CHAIN_OF("x", "a%d", TRAFFIC(EGRESS)), i, i);
		add_object(text);
	}
	add_object(ONE_CHAIN);
	ck_assert_uint_eq(read_status(), MK_SFC_CHAINS - 1);
	ck_assert_str_eq(status_text, "f 0/0; " VALID BLOCKED);
	add_object(CHAIN_OF("x", "b", TRAFFIC(EGRESS)));
	ck_assert_uint_eq(read_status(), MK_SFC_CHAINS);
	ck_assert_str_eq(
		status_text,
		"f 0/0; False TooMany: 1023 chains come before it, by priority and age: it "
		"takes no flow; " BLOCKED);
}
END_TEST

static void add_status(Suite *suite)
{
	TCase *tc = unit_case(suite, "status", setup_model, free_model);

	tcase_add_loop_test(tc, test_status, 0, MK_ARRAY_SIZE(statuses));
	tcase_add_test(tc, test_status_of_too_many);
}

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
	tcase_add_test(tc, test_file_of_service);
	tcase_add_test(tc, test_other_node);
	tcase_add_test(tc, test_tap);
	tcase_add_test(tc, test_no_tap);
	tcase_add_test(tc, test_ends);
	tcase_add_test(tc, test_end);
	tcase_add_test(tc, test_function_in_use);
	tcase_add_test(tc, test_nodes_unknown);
	tcase_add_test(tc, test_none);
	tcase_add_test(tc, test_number_of_gone);
	add_status(suite);
}
