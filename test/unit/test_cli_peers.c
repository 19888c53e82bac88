// SPDX-License-Identifier: Apache-2.0
/* `monokube peers` and `monokube peer publish`, over tables and names that are written by hand. */
#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monokube/clusters.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "clusters/clusters.h"
#include "unit/cli_fixture.h"
#include "unit/datapath_fixture.h"

static struct mk_datapath *datapath;

#define WEST 77

static const char names[] =
	"{\"version\":1,\"name\":\"west\",\"number\":77,\"peers\":["
	"{\"name\":\"east\",\"number\":7,\"nodes\":2,\"usable\":true,\"probed\":4,\"answering\":3,\"rttMicros\":1440,\"reasons\":[]},"
	"{\"name\":\"far\",\"number\":8,\"nodes\":2,\"usable\":true,\"via\":\"east\",\"encryption\":\"WireGuard\",\"reasons\":"
	"[\"node 'x' is left out\"]},"
	"{\"name\":\"new\",\"number\":0,\"nodes\":0,\"usable\":false,\"reasons\":"
	"[\"nothing is published\"]}]}";

static void write_state(const char *name, const char *text)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", fx.state_dir, name);
	fx_ok(mk_file_replace(path, text, strlen(text), 0600, &fx.err));
}

static void put_cluster(__u32 number, const char *view, __u8 flags)
{
	const struct mk_cluster row = { .home = addr_of("10.244.0.0"),
					.view = addr_of(view),
					.mask = addr_of("255.255.0.0"),
					.via = 7,
					.hop_count = 2,
					.flags = flags };

	cli_put("clusters", &number, sizeof(number), &row, sizeof(row));
}

static void put_counters(__u32 number)
{
	int cpus = libbpf_num_possible_cpus();
	cleanup_free struct mk_cluster_counters *per_cpu = calloc((size_t)cpus, sizeof(*per_cpu));

	ck_assert_ptr_nonnull(per_cpu);
	per_cpu[0] = (struct mk_cluster_counters){ { 30, 20 }, { 3000, 2000 } };
	per_cpu[cpus - 1].packets[1] += 9;
	cli_put("cluster_counters", &number, sizeof(number), per_cpu, sizeof(*per_cpu));
}

static void put_node(const char *range, const char *mac)
{
	const struct mk_cidr cidr = cidr_of(range);
	const struct mk_route_key key = { cidr.prefix_bits, mk_ip_to_addr(&cidr.ip) };
	const struct mk_mac bytes = mac_of(mac);
	struct mk_route route = { .type = MK_ROUTE_OVERLAY };

	memcpy(route.vtep_mac, bytes.byte, sizeof(route.vtep_mac));
	cli_put("routes", &key, sizeof(key), &route, sizeof(route));
}

/* The device to other clusters, with the FDB entry of node 1 of cluster 7. */
static void make_peer_device(void)
{
	const struct mk_vxlan vxlan = { .name = "mkpeer",
					.id = MK_CLUSTER_VNI,
					.port = 8472,
					.local = ip_of("192.168.99.11"),
					.mac = mac_of("02:4d:0a:12:00:01") };
	const struct mk_nl_fdb fdb = { mac_of("06:00:00:07:00:01"), ip_of("192.0.2.7"), 0, 0 };
	struct mk_link link;

	fx_ok(mk_nl_vxlan_add(fx.nl, &vxlan, &fx.err));
	fx_ok(mk_nl_link_get(fx.nl, "mkpeer", &link, &fx.err));
	fx_ok(mk_nl_fdb_put(fx.nl, link.ifindex, &fdb, &fx.err));
	fx.links.cluster_ifindex = (__u32)link.ifindex;
}

static void put_hop(__u32 index, __u32 hop)
{
	const struct mk_cluster_node_key key = { 7, MK_CLUSTER_BY_INDEX | index };

	cli_put("cluster_nodes", &key, sizeof(key), &hop, sizeof(hop));
}

/* The overlay's device, with the FDB entry of one other node. */
static void make_overlay(void)
{
	const struct mk_vxlan vxlan = { .name = "mkvxlan",
					.id = 1,
					.port = 8472,
					.local = ip_of("192.168.99.11"),
					.mac = mac_of("02:4d:0a:12:00:01") };
	const struct mk_nl_fdb fdb = { mac_of("02:4d:0a:12:00:02"), ip_of("192.168.99.12"), 0, 0 };
	struct mk_link link;

	fx_ok(mk_nl_vxlan_add(fx.nl, &vxlan, &fx.err));
	fx_ok(mk_nl_link_get(fx.nl, "mkvxlan", &link, &fx.err));
	fx_ok(mk_nl_fdb_put(fx.nl, link.ifindex, &fdb, &fx.err));
	fx.links.set.overlay_ifindex = (__u32)link.ifindex;
}

static void setup_named(__u32 number)
{
	char text[PATH_MAX + 128];

	fx_setup();
	make_overlay();
	if (number)
		make_peer_device();
	fx.constants.cluster_number = number;
	datapath = cli_node();
	snprintf(text, sizeof(text), "bpf_dir=%s\ncluster_cidr=10.244.0.0/16\ncluster_name=%s\n",
		 fx.bpf_dir, number ? "west" : "");
	write_state("made", text);
	write_state("nodes.names", "10.244.1.0/24 west-1\n10.244.2.0/24 west-2\n");
	put_node("10.244.2.0/24", "02:4d:0a:12:00:02");
}

static void setup(void)
{
	setup_named(WEST);
	put_cluster(7, "240.0.0.0", MK_CLUSTER_ACCESS_PODS);
	put_cluster(8, "240.1.0.0", MK_CLUSTER_RELAYED | MK_CLUSTER_ACCESS_EXPORTS);
	put_counters(7);
	put_hop(0, 1);
	write_state(MK_CLUSTER_NAMES_FILE, names);
}

static void teardown(void)
{
	mk_datapath_free(datapath);
	fx_teardown();
}

/* ---- peers ----------------------------------------------------------------------------------- */

static void check_list(void)
{
	check_output(
		1,
		"east  10.244.0.0/16  240.0.0.0/16  direct  2      3/4     1.4ms  None        Pods     30  29    ok",
		"peers");
	check_output(
		1,
		"far   10.244.0.0/16  240.1.0.0/16  east    2      -       -      WireGuard   Exports  0   0     node 'x' is left out",
		"peers");
	check_output(1, "new   -", "peers");
	check_output(1, "nothing is published", "peers");
}

static void check_one_peer(void)
{
	check_output(0, "\"viewCidrs\":[\n      \"240.1.0.0/16\"", "peers", "far", "-o", "json");
	check_output(0, "\"relay\":true", "peers", "far", "-o", "json");
	check_output(0, "\"bytesTo\":3000", "peers", "east", "-o", "json");
	check_output(0, "\"number\":7", "peers", "east", "-o", "json");
	check_output_lacks(0, "far", "peers", "east");
	check_output(1, "nothing is published", "peers", "new");
	check_output(1, "", "peers", "west");
}

/* A row without a view belongs to a peer of the other family. */
static void check_peer_of_other_family(void)
{
	const __u32 number = 7;
	struct mk_cluster row = { .via = 7, .hop_count = 2 };

	memset(&row.mask, 0xff, sizeof(row.mask));
	cli_put("clusters", &number, sizeof(number), &row, sizeof(row));
	check_output(0, "east  -     -   direct  2      3/4     1.4ms  None", "peers", "east");
}

static void check_names_of_another_version(void)
{
	write_state(MK_CLUSTER_NAMES_FILE, "{\"version\":2,\"peers\":[]}");
	check_output(1, "", "peers");
	write_state(MK_CLUSTER_NAMES_FILE, "no JSON");
	check_output(1, "", "peers");
	check_output_lacks(1, "kind", "peer", "publish");
	write_state(MK_CLUSTER_NAMES_FILE, names);
}

/* ---- check ----------------------------------------------------------------------------------- */

static void check_check(void)
{
	const struct mk_cluster_node_key border = { WEST, MK_CLUSTER_BY_INDEX };

	cli_put("cluster_nodes", &border, sizeof(border), &(__u32){ 2 }, sizeof(__u32));
	put_hop(1, 1); /* a node has many places */
	check_output(1, "ok     peers         2 other clusters are usable, by 1 nodes", "check");
	check_output(1, "note   peers         peer new: nothing is published", "check");
	put_hop(1, 2);
	check_output(1,
		     "WRONG  peers         the device to other clusters has no FDB entry of 1 of 2",
		     "check");
}

/* ---- peer publish ---------------------------------------------------------------------------- */

static const char published[] = "apiVersion: networking.monokube.io/v1alpha1\n"
				"kind: PublishedCluster\n"
				"metadata:\n"
				"  name: west\n"
				"  namespace: monokube-peers\n"
				"  labels:\n"
				"    networking.monokube.io/cluster: west\n"
				"spec:\n"
				"  name: west\n"
				"  number: 77\n"
				"  podCidr: \"10.244.0.0/16\"\n"
				"  wireVersions: [1]\n"
				"---\n"
				"apiVersion: networking.monokube.io/v1alpha1\n"
				"kind: PublishedNode\n"
				"metadata:\n"
				"  name: west.west-1\n"
				"  namespace: monokube-peers\n"
				"  labels:\n"
				"    networking.monokube.io/cluster: west\n"
				"spec:\n"
				"  node: west-1\n"
				"  podCidrs: [\"10.244.1.0/24\"]\n"
				"  addresses: [\"192.168.99.11\"]\n"
				"  port: 8472\n"
				"---\n"
				"apiVersion: networking.monokube.io/v1alpha1\n"
				"kind: PublishedNode\n"
				"metadata:\n"
				"  name: west.west-2\n"
				"  namespace: monokube-peers\n"
				"  labels:\n"
				"    networking.monokube.io/cluster: west\n"
				"spec:\n"
				"  node: west-2\n"
				"  podCidrs: [\"10.244.2.0/24\"]\n"
				"  addresses: [\"192.168.99.12\"]\n"
				"  port: 8472\n";

static void check_publish(void)
{
	static const char *const words[] = { "peer", "publish", NULL };
	cleanup_free char *text = cli_output(0, words);

	ck_assert_str_eq(text, published);
}

/* The other node's key is known by its Node's annotation. This node's key is its device's. */
static void check_publish_wireguard(void)
{
	write_state("nodes.names", "10.244.1.0/24 west-1\n10.244.2.0/24 west-2 "
				   "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:51871\n");
	check_output(
		0,
		"  addresses: [\"192.168.99.12\"]\n"
		"  port: 8472\n"
		"  wireguard: {publicKey: \"AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\", port: "
		"51871}\n",
		"peer", "publish");
	write_state("nodes.names", "10.244.1.0/24 west-1\n10.244.2.0/24 west-2\n");
}

/* A node without address or name is left out, and the exit status says so. */
static void check_publish_without_a_node(void)
{
	put_node("10.244.3.0/24", "02:4d:0a:12:00:03");
	check_output(1, published, "peer", "publish");
	write_state("nodes.names", "10.244.1.0/24 west-1\n");
	check_output_lacks(1, "west-2", "peer", "publish");
	write_state("nodes.names", "");
	check_output_lacks(1, "kind", "peer", "publish");
}

/* If there are border nodes, no others are published, and none of these is missing. */
static void check_publish_borders(void)
{
	write_state(MK_CLUSTER_NAMES_FILE, "{\"version\":1,\"name\":\"west\",\"number\":77,"
					   "\"borders\":[\"west-2\"],\"border\":\"west-2\","
					   "\"peers\":[{\"name\":\"east\",\"number\":7,\"nodes\":2,"
					   "\"usable\":true,\"reasons\":[]}]}");
	check_output(0, "node: west-2", "peer", "publish");
	check_output_lacks(0, "node: west-1", "peer", "publish");
	check_output(0, "direct by west-2", "peers");
	write_state(MK_CLUSTER_NAMES_FILE, names);
}

static void check_other_words(void)
{
	check_output_lacks(2, "kind", "peer", "publishes");
	check_output_lacks(2, "kind", "peer");
	check_output(0, "  peer publish  print this cluster", "peer", "--help");
}

/* Loading the programs takes long: one node for all. */
START_TEST(test_node)
{
	check_list();
	check_check();
	check_one_peer();
	check_peer_of_other_family();
	check_names_of_another_version();
	check_publish();
	check_publish_wireguard();
	check_publish_borders();
	check_publish_without_a_node();
	check_other_words();
}
END_TEST

/* ---- without clusterName --------------------------------------------------------------------- */

START_TEST(test_no_name)
{
	setup_named(0);
	check_output_lacks(1, "NAME", "peers");
	check_output_lacks(1, "kind", "peer", "publish");
	check_output_lacks(1, "peers", "check");
	teardown();
}
END_TEST

UNIT_SUITE("cli_peers")
{
	tcase_add_test(unit_case(suite, "node", setup, teardown), test_node);
	tcase_add_test(unit_case(suite, "unnamed", NULL, NULL), test_no_name);
}
