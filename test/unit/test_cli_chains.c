// SPDX-License-Identifier: Apache-2.0
/* `monokube chains`, and chains in `sessions`, over tables and names that are written by hand. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monokube/sfc.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/time.h"
#include "datapath/pods/port.h"
#include "datapath/policy/names.h"
#include "pod/endpoint/endpoint.h"
#include "unit/cli_fixture.h"
#include "unit/datapath_fixture.h"

static struct mk_datapath *datapath;

#define REPLICA(number, function, name, node, here, weight, state)                         \
	"{\"number\":" number ",\"function\":\"" function "\",\"name\":\"inspection/" name \
	"\",\"node\":\"" node "\",\"isHere\":" here ",\"weight\":" weight                  \
	",\"weightIsWrong\":false,\"state\":\"" state "\"}"
#define FUNCTION(name, id, unavailable, weight)                                   \
	"{\"name\":\"" name "\",\"id\":" id ",\"whenUnavailable\":\"" unavailable \
	"\",\"localWeight\":" weight "}"

static const char names[] =
	"{\"version\":2,\"chains\":[{\"id\":1,\"name\":\"inspection/shop-egress\",\"priority\":0,"
	"\"direction\":\"Egress\",\"functions\":[" FUNCTION("firewall", "1", "Block", "16") "," FUNCTION(
		"ids", "2", "Skip",
		"4") "]},"
		     "{\"id\":2,\"name\":\"lab/other\",\"functions\":[" FUNCTION("absent", "3", "Skip", "16") "," FUNCTION(
			     "firewall", "4", "Skip",
			     "16") "]}],"
				   "\"replicas\":[" REPLICA("5", "firewall", "firewall-1", "node1", "true", "1", "serving") "," REPLICA(
					   "0", "firewall", "firewall-2",
					   "node2", "false", "1",
					   "no ports: no annotation asks for them") "," REPLICA("11",
												"firewall",
												"firewall-3",
												"node2",
												"false",
												"7",
												"serving") "," REPLICA("7",
														       "ids",
														       "ids-1",
														       "node1",
														       "true",
														       "3",
														       "serving") "]}";

/* ---- rows ------------------------------------------------------------------------------------ */

static void put_replica(__u32 number, uint32_t inside, enum mk_sfc_replica_state state)
{
	const struct mk_sfc_replica replica = { .uid_hash = number,
						.ifindex = { inside, inside },
						.state = (__u8)state };

	cli_put("sfc_replicas", &number, sizeof(number), &replica, sizeof(replica));
}

/* A replica of another node, which sent a packet back @back_ms ago; 0: not. */
static void put_remote(__u32 number, uint32_t back_ms)
{
	uint32_t now_ms = (uint32_t)(mk_time_monotonic_ns() / 1000000);
	const struct mk_sfc_replica replica = { .uid_hash = number,
						.vtep_mac = { 2, 0x4d, 10, 18, 0, 2 },
						.back_ms = back_ms ? now_ms - back_ms : 0,
						.state = MK_SFC_USABLE };

	cli_put("sfc_replicas", &number, sizeof(number), &replica, sizeof(replica));
}

/* All slots of @function have @replica; 0: none. */
static void put_function(__u32 function, uint16_t replica)
{
	cleanup_free struct mk_sfc_function *entry = calloc(1, sizeof(*entry));

	ck_assert_ptr_nonnull(entry);
	entry->name_hash = function;
	for (size_t slot = 0; slot < MK_SFC_SLOTS; slot++)
		entry->replica[slot] = replica;
	cli_put("sfc_functions", &function, sizeof(function), entry, sizeof(*entry));
}

static void put_counters(__u32 number)
{
	int cpus = libbpf_num_possible_cpus();
	cleanup_free struct mk_sfc_counters *per_cpu = calloc((size_t)cpus, sizeof(*per_cpu));

	ck_assert_ptr_nonnull(per_cpu);
	for (int cpu = 0; cpu < cpus; cpu++) {
		per_cpu[cpu].sent_packets[MK_SFC_INSIDE] = cpu ? 0 : 30;
		per_cpu[cpu].received_packets[MK_SFC_INSIDE] = cpu ? 0 : 20;
	}
	per_cpu[cpus - 1].sent_packets[MK_SFC_OUTSIDE] += 21;
	per_cpu[cpus - 1].received_packets[MK_SFC_OUTSIDE] += 29;
	cli_put("sfc_counters", &number, sizeof(number), per_cpu, sizeof(*per_cpu));
}

static void write_names(const char *text)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/chains.json", fx.state_dir);
	fx_ok(mk_file_replace(path, text, strlen(text), 0600, &fx.err));
}

static void setup(void)
{
	fx_setup();
	datapath = cli_node();
	cli_put_pod("10.244.1.2", fx.pod_ifindex, "shop/cart");
	put_replica(5, (uint32_t)fx.pod_ifindex, MK_SFC_USABLE);
	put_replica(7, (uint32_t)fx.pod_ifindex, MK_SFC_USABLE);
	put_remote(11, 0);
	put_function(1, 5);
	put_function(2, 7);
	put_counters(5);
	write_names(names);
}

static void teardown(void)
{
	mk_datapath_free(datapath);
	fx_teardown();
}

/* ---- chains ---------------------------------------------------------------------------------- */

START_TEST(test_chains)
{
	check_output(
		0,
		"inspection/shop-egress  firewall  Block             inspection/firewall-1  node1",
		"chains");
	check_output(
		0,
		"  serving                                30         20           21          29\n",
		"chains", "shop-egress");
	check_output(
		0, "no ports: no annotation asks for them  -          -            -           -\n",
		"chains");
	check_output(0, "lab/other               absent    Skip              -", "chains");
	check_output(0, "no replica: skipped", "chains", "lab/other");
	check_output_lacks(0, "inspection/firewall-1", "chains", "lab/other");
	check_output(0, "inspection/firewall-1  node1  16      serving ", "chains");
	check_output(0, "inspection/firewall-3  node2  7       serving ", "chains");
	check_output(0, "inspection/ids-1       node1  12      serving ", "chains");
	check_output_lacks(0, "lab/other", "chains", "inspection/shop-egress");
	check_output(0, "\"insideDevice\":\"mkpod\"", "chains", "-o", "json");
}
END_TEST

/* A chain whose Service gives it no pod. */
START_TEST(test_problem)
{
	check_output_lacks(0, "PROBLEM", "chains");
	check_output_lacks(0, "\"problem\":", "chains", "-o", "json");
	write_names("{\"version\":2,\"chains\":[{\"id\":1,\"name\":\"lab/dpi\",\"problem\":"
		    "\"no Service\",\"remedy\":\"create it\",\"functions\":[]},{\"id\":2,"
		    "\"name\":\"lab/good\",\"functions\":[]}],\"replicas\":[]}");
	check_output(0, "CHAIN    PROBLEM     REMEDY\nlab/dpi  no Service  create it\n", "chains");
	check_output_lacks(0, "PROBLEM", "chains", "good");
	check_output(1, "note   chains        lab/dpi: no Service", "check");
	check_output_lacks(1, "lab/good", "check");
}
END_TEST

/* Two chains name ids, one of them as a tap. A pod that serves neither is in both lists. */
static const char tap_names[] =
	"{\"version\":2,\"chains\":[{\"id\":1,\"name\":\"inspection/copies\",\"functions\":["
	"{\"name\":\"ids\",\"id\":1,\"tap\":true,\"whenUnavailable\":\"Skip\",\"localWeight\":16}]},"
	"{\"id\":2,\"name\":\"inspection/through\",\"functions\":["
	"{\"name\":\"ids\",\"id\":2,\"tap\":false,\"whenUnavailable\":\"Skip\",\"localWeight\":16}]},"
	"{\"id\":3,\"name\":\"inspection/none\",\"functions\":["
	"{\"name\":\"absent\",\"id\":3,\"tap\":true,\"whenUnavailable\":\"Skip\",\"localWeight\":16}]}],"
	"\"replicas\":[{\"number\":5,\"function\":\"ids\",\"name\":\"inspection/tap-1\",\"node\":\"node1\","
	"\"isHere\":true,\"tap\":true,\"weight\":1,\"state\":\"serving\"},"
	"{\"number\":7,\"function\":\"ids\",\"name\":\"inspection/pair-1\",\"node\":\"node1\","
	"\"isHere\":true,\"tap\":false,\"weight\":1,\"state\":\"serving\"},"
	"{\"number\":0,\"function\":\"ids\",\"name\":\"inspection/odd-1\",\"node\":\"node1\","
	"\"isHere\":true,\"weight\":1,\"state\":\"wrong mode: Tap, and the function is no tap\"}]}";

START_TEST(test_tap)
{
	write_names(tap_names);
	check_output(0, "inspection/copies   ids       Tap               inspection/tap-1 ",
		     "chains");
	check_output(0, "no replica: skipped", "chains", "inspection/none");
	check_output_lacks(0, "inspection/pair-1", "chains", "inspection/copies");
	check_output(0, "inspection/pair-1", "chains", "inspection/through");
	check_output_lacks(0, "inspection/tap-1", "chains", "inspection/through");
	check_output(0, "wrong mode: Tap, and the function is no tap", "chains", "through");
	check_output(
		1,
		"note   ports         inspection/odd-1 serves no chain: wrong mode: Tap, and the "
		"function is no tap",
		"check");
	check_output_lacks(1, "tap-1 serves no chain", "check");
}
END_TEST

/* The first chain has pods here, the other one has none: it does nothing on this node. */
static const char end_names[] =
	"{\"version\":2,\"chains\":[{\"id\":1,\"name\":\"inspection/here\",\"functions\":["
	"{\"name\":\"client\",\"id\":1,\"tap\":false,\"end\":\"inside\","
	"\"whenUnavailable\":\"Block\",\"localWeight\":1},"
	"{\"name\":\"fw\",\"id\":3,\"tap\":false,\"whenUnavailable\":\"Block\",\"localWeight\":1},"
	"{\"name\":\"server\",\"id\":2,\"tap\":false,\"end\":\"outside\","
	"\"whenUnavailable\":\"Block\",\"localWeight\":1}]},"
	"{\"id\":2,\"name\":\"inspection/elsewhere\",\"functions\":["
	"{\"name\":\"lan\",\"id\":3,\"tap\":false,\"end\":\"inside\","
	"\"whenUnavailable\":\"Block\",\"localWeight\":1},"
	"{\"name\":\"wan\",\"id\":3,\"tap\":false,\"end\":\"outside\","
	"\"whenUnavailable\":\"Block\",\"localWeight\":1}]}],"
	"\"replicas\":[{\"number\":5,\"function\":\"client\",\"name\":\"inspection/client-1\","
	"\"node\":\"node1\",\"isHere\":true,\"tap\":false,\"weight\":1,\"state\":\"serving\"},"
	"{\"number\":7,\"function\":\"server\",\"name\":\"inspection/server-1\","
	"\"node\":\"node1\",\"isHere\":true,\"tap\":false,\"weight\":1,\"state\":\"serving\"}]}";

/* The map of the chain's flows, as the agent pins it. */
static void pin_flows(unsigned int chain, uint32_t flows)
{
	cleanup_close int fd = bpf_map_create(BPF_MAP_TYPE_HASH, "flows", 16, 4, 64, NULL);
	char path[PATH_MAX];

	ck_assert_int_ge(fd, 0);
	snprintf(path, sizeof(path), "%s/maps/sfc_flows_%u", fx.bpf_dir, chain);
	ck_assert_int_eq(bpf_obj_pin(fd, path), 0);
	for (uint32_t i = 0; i < flows; i++)
		ck_assert_int_eq(bpf_map_update_elem(fd, (uint32_t[4]){ i }, &i, BPF_ANY), 0);
}

START_TEST(test_ends)
{
	write_names(end_names);
	pin_flows(1, 3);
	check_output(1, "inspection/here  client    Inside end        inspection/client-1 ",
		     "chains", "here");
	check_output(1, "inspection/here  server    Outside end       inspection/server-1 ",
		     "chains", "here");
	check_output(1, "no replica: blocked", "chains", "here");
	check_output(0, "no replica on this node", "chains", "elsewhere");
	check_output_lacks(0, "blocked", "chains", "elsewhere");
	check_output(1, "CHAIN WITH ENDS  FLOWS\ninspection/here  3", "chains", "here");
	check_output(0, "inspection/elsewhere  0", "chains", "elsewhere");
	write_names(names);
	check_output_lacks(0, "CHAIN WITH ENDS", "chains");
}
END_TEST

/* What the tables say counts, not what the agent wrote when it was alive. */
START_TEST(test_blocked)
{
	put_replica(5, 0, MK_SFC_USABLE); /* DEL, without an agent */
	check_output(1, "inspection/firewall-1  node1  16      gone ", "chains");
	check_output(1, "inspection/firewall-1  node1  16      gone ", "chains", "shop-egress");
	check_output(0, "no replica: skipped", "chains", "other");
	put_replica(5, (uint32_t)fx.pod_ifindex, MK_SFC_LOST);
	check_output(1, "inspection/firewall-1  node1  16      lost ", "chains");
	put_replica(5, (uint32_t)fx.pod_ifindex, MK_SFC_USABLE);
	put_function(1, 0);
	check_output(1, "serving", "chains");
	put_function(1, 5);
	put_replica(7, 0, MK_SFC_USABLE); /* a function that is skipped */
	check_output(0, "inspection/ids-1       node1  12      gone ", "chains");
}
END_TEST

/* A node that sends packets back has the replica no more, as long as that is recent. */
START_TEST(test_remote)
{
	put_function(1, 11);
	check_output(0, "inspection/firewall-3  node2  7       serving ", "chains");
	check_output(0, "\"insideDevice\":null", "chains", "-o", "json");
	put_remote(11, 1);
	check_output(1, "inspection/firewall-3  node2  7       gone ", "chains");
	put_remote(11, 10 * MK_SFC_BACK_MS);
	check_output(0, "inspection/firewall-3  node2  7       serving ", "chains");
}
END_TEST

START_TEST(test_names)
{
	check_output(1, "", "chains", "nobody");
	write_names("{\"version\":1}");
	check_output(1, "", "chains");
}
END_TEST

/* ---- pods ------------------------------------------------------------------------------------ */

#define CHAINED	  (MK_SET_HAS_CHAINS | 0x99)
#define WITH_BOTH (MK_SET_HAS_CHAINS | 0x9a)

static void put_sets(uint64_t ingress, uint64_t egress)
{
	cleanup_table struct mk_table table = { .fd = -1 };
	const struct mk_pod_policy entry = { .set = { ingress, egress },
					     .addr = addr_of("10.244.1.2"),
					     .ifindex = (__u32)fx.pod_ifindex };
	const struct mk_policy_state state = { .on = 1, .listed = MK_POLICY_LISTED_SOME };
	const __u32 zero = 0;
	__u32 slot;

	fx_ok(mk_table_open(&table, fx.bpf_dir, "pod_policies", sizeof(slot), sizeof(entry),
			    &fx.err));
	slot = mk_pod_slot(&entry.addr, table.max_entries);
	fx_ok(mk_table_put(&table, &slot, &entry, &fx.err));
	cli_put("policy_state", &zero, sizeof(zero), &state, sizeof(state));
}

#define CHAIN_OF_SET                                                               \
	"\"chains\":[{\"number\":1,\"chain\":\"inspection/shop-egress\",\"id\":1," \
	"\"peers\":\"outside\",\"ports\":\"TCP 443\"}]"

static void write_policies(void)
{
	json_object *description = json_tokener_parse(
		"{\"version\":1,\"sets\":{\"0400000000000099\":{\"policies\":[]," CHAIN_OF_SET
		"},\"040000000000009a\":{\"policies\":[\"all\"]," CHAIN_OF_SET "}}}");

	fx_ok(mk_policy_names_write(fx.state_dir, description, &fx.err));
	json_object_put(description);
}

#define POD_LINE(direction) \
	"shop/cart  10.244.1.2  " direction "     inspection/shop-egress  TCP 443  outside\n"

/* A pod with chains only is open for policies. */
START_TEST(test_pods)
{
	put_sets(MK_SET_OPEN, CHAINED);
	write_policies();
	check_output(0, POD_LINE("egress"), "chains");
	check_output(0, POD_LINE("egress"), "chains", "shop-egress");
	check_output_lacks(0, "shop/cart", "chains", "other");
	check_output(0, "shop/cart  10.244.1.2  open     open, 1 chain  0", "policy");
	check_output(0, "open", "pods", "cart");
	put_sets(MK_SET_OPEN, WITH_BOTH);
	check_output(0, "open     only cluster policies", "policy");
	check_output(0, "egress", "pods", "cart");
}
END_TEST

/* ---- sessions -------------------------------------------------------------------------------- */

START_TEST(test_via)
{
	const struct mk_tuple key = { .saddr = addr_of("10.244.1.2"),
				      .daddr = addr_of("192.0.2.7"),
				      .sport = htons(40000),
				      .dport = htons(443),
				      .proto = IPPROTO_TCP };
	struct mk_session session = { .to = key,
				      .flags = MK_SESSION_FORWARD,
				      .last_seen_ns = mk_time_monotonic_ns() };
	struct mk_sfc_path path = { .chain = { [MK_POLICY_EGRESS] = 1 } };
	const __u32 id = 4711;

	path.replica[0] = 5;
	path.replica[1] = 7;
	path.replica[15] = 9;
	cli_put("sfc_paths", &id, sizeof(id), &path, sizeof(path));
	session.to.path = (__u16)id;
	cli_put("sessions", &key, sizeof(key), &session, sizeof(session));
	check_output(0, "  firewall-1,ids-1,replica 9  -\n", "sessions");
	check_output(0, "\"via\":\"firewall-1,ids-1,replica 9\"", "sessions", "-o", "json");
	session.to.path = 0;
	cli_put("sessions", &key, sizeof(key), &session, sizeof(session));
	check_output_lacks(0, "firewall-1", "sessions");
}
END_TEST

/* ---- check ----------------------------------------------------------------------------------- */

/* The kernel reports a carrier up to a second later, if other links change. */
static void wait_for_carrier(const char *device)
{
	struct mk_link link = { 0 };

	for (int i = 0; i < 500 && !(link.flags & IFF_RUNNING); i++) {
		fx_ok(mk_nl_link_get(fx.nl, device, &link, &fx.err));
		usleep(10000);
	}
	ck_assert_msg(link.flags & IFF_RUNNING, "%s has no carrier", device);
}

/* The host's end of a port of @pod. Returns its index. */
static int put_port(const char *device, const char *peer, enum mk_port_mode mode, const char *pod)
{
	const struct mk_mac mac = mk_port_mac(mode, MK_PORT_INSIDE, true);
	const struct mk_link_change up = { .set_flags = IFF_UP };
	const struct mk_link_change link = { .alias = pod, .set_flags = IFF_UP };
	int ifindex = fx_veth(device, peer, &mac);
	struct mk_link pod_end;

	fx_ok(mk_nl_link_change(fx.nl, ifindex, &link, &fx.err));
	fx_ok(mk_nl_link_get(fx.nl, peer, &pod_end, &fx.err));
	fx_ok(mk_nl_link_change(fx.nl, pod_end.ifindex, &up, &fx.err));
	wait_for_carrier(device);
	return ifindex;
}

START_TEST(test_check)
{
	int ifindex = put_port("mkport", "eth7", MK_PORT_BRIDGED, "inspection/firewall-1@inside");
	const struct mk_link_change down = { .clear_flags = IFF_UP };
	const struct mk_link_change large = { .mtu_bytes = MK_POD_DEVICE_MTU_BYTES };

	check_output(1, "no program on the ingress of mkport, of inspection/firewall-1@inside",
		     "check");
	check_output(1, "mkport of inspection/firewall-1@inside has MTU 1450, expected 65535",
		     "check");
	fx_ok(mk_nl_link_change(fx.nl, ifindex, &large, &fx.err));
	cli_attach_pod(ifindex);
	check_output(1, "ok     ports         1 of function pods, each as it was made", "check");
	check_output_lacks(1, "leaves checksums unfinished", "check");
	fx_ok(mk_nl_link_change(fx.nl, ifindex, &down, &fx.err));
	check_output(1, "mkport of inspection/firewall-1@inside is down", "check");
	ifindex = put_port("mkend", "eth9", MK_PORT_END, "shop/client@end");
	check_output_lacks(1, "mkend of shop/client@end has MTU", "check");
	fx_ok(mk_nl_link_change(fx.nl, ifindex, &large, &fx.err));
	check_output(1, "mkend of shop/client@end has MTU 65535, expected 1450", "check");
	put_port("mkinline", "eth8", MK_PORT_INLINE, "lab/strange@lan0");
	check_output(1, "mkinline of lab/strange@lan0 leaves checksums unfinished", "check");
	check_output(1, "note   ports         lab/strange has ports, but no label", "check");
	write_names("{\"version\":2,\"chains\":[],\"replicas\":[{\"number\":0,"
		    "\"name\":\"lab/late\",\"state\":\"no ports\"},{\"number\":1,\"isHere\":true,"
		    "\"name\":\"lab/heavy\",\"weightIsWrong\":true},{\"number\":2,\"isHere\":false,"
		    "\"name\":\"lab/far\",\"weightIsWrong\":true}]}");
	check_output(1, "note   ports         lab/heavy has the default weight", "check");
	check_output_lacks(1, "lab/far", "check");
	check_output(1,
		     "note   ports         lab/late has the label networking.monokube.io/function",
		     "check");
	check_output_lacks(1, "but no label", "check");
}
END_TEST

UNIT_SUITE("cli_chains")
{
	TCase *tcase = unit_case(suite, "chains", setup, teardown);

	tcase_add_test(tcase, test_chains);
	tcase_add_test(tcase, test_problem);
	tcase_add_test(tcase, test_tap);
	tcase_add_test(tcase, test_ends);
	tcase_add_test(tcase, test_blocked);
	tcase_add_test(tcase, test_remote);
	tcase_add_test(tcase, test_names);
	tcase_add_test(tcase, test_pods);
	tcase_add_test(tcase, test_via);
	tcase_add_test(tcase, test_check);
}
