// SPDX-License-Identifier: Apache-2.0
/* How nodes of other clusters are reached: by WireGuard, hubs and border nodes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "unit/clusters_fixture.h"
#include "unit/unit.h"

/* ---- WireGuard ------------------------------------------------------------------------------- */

START_TEST(test_encrypted)
{
	add_peer("east", 9, "240.0.0.0/16")->encrypts = true;
	add_key(add_node("10.244.1.0/24", "192.168.2.11"), 8);
	add_key(add_node("10.244.3.0/24", "192.168.2.13"), 3);
	add_peer("north", 10, "240.1.0.0/16");
	add_key(add_node("10.244.1.0/24", "192.168.3.11"), 4);
	compile();
	check_reason(0, NULL);
	check_tunnels("3 192.168.2.13:51871, 8 192.168.2.11:51871");
	check_rows("cluster 9 10.244.0.0 240.0.0.0 255.255.0.0 via 9 hops 32 mtu 1390 bits 8\n"
		   "cluster 10 10.244.0.0 240.1.0.0 255.255.0.0 via 10 hops 32 mtu 1450 bits 8\n"
		   "node 9 1: 20001\nnode 9 3: 20003\nnode 9 #: 1*14 3*18\n"
		   "node 10 1: 1\nnode 10 #: 1*32\n"
		   "carrier 192.168.2.11: 9 encrypted\ncarrier 192.168.2.13: 9 encrypted\n"
		   "carrier 192.168.3.11: 10\n"
		   "fdb 06:00:00:09:00:01 192.168.2.11:0 encrypted\n"
		   "fdb 06:00:00:09:00:03 192.168.2.13:0 encrypted\n"
		   "fdb 06:00:00:0a:00:01 192.168.3.11:0\n");
}
END_TEST

/* Only one side can begin, if the nodes of the other side are behind address translation. */
START_TEST(test_roaming)
{
	struct mk_clusters_peer *peer = add_peer("branch", 9, "240.0.0.0/16");

	peer->encrypts = peer->has_inbox = true;
	add_key(add_node("10.244.1.0/24", "192.168.2.11"), 3);
	peer = add_peer("hub", 10, "240.1.0.0/16");
	peer->encrypts = peer->publishes_to = true;
	add_key(add_node("10.244.1.0/24", "192.168.3.11"), 4);
	peer = add_peer("east", 11, "240.2.0.0/16");
	peer->encrypts = true;
	peer->via = "hub";
	peer->path = MK_CLUSTERS_PATH_AUTO;
	add_key(add_node("10.244.1.0/24", "192.168.4.11"), 5);
	peer = add_peer("north", 12, "240.3.0.0/16");
	peer->encrypts = true;
	add_key(add_node("10.244.1.0/24", "192.168.5.11"), 6);
	compile();
	check_tunnels("3 192.168.2.11:51871 roams, 4 192.168.3.11:51871 alive 25, "
		      "5 192.168.4.11:51871 roams, 6 192.168.5.11:51871");
}
END_TEST

/* A node that cannot encrypt knows no node of the peer: nothing is sent, nothing may come. */
START_TEST(test_cannot_encrypt)
{
	fx.own.no_wireguard = "the kernel of this node has no WireGuard";
	add_peer("east", 9, "240.0.0.0/16")->encrypts = true;
	add_key(add_node("10.244.1.0/24", "192.168.2.11"), 8);
	add_peer("north", 10, "240.1.0.0/16");
	add_node("10.244.1.0/24", "192.168.3.11");
	compile();
	check_reason(0, "encryption: WireGuard, but the kernel of this node has no WireGuard");
	check_reason(1, NULL);
	ck_assert(!fx.rows.states[0].is_usable && fx.rows.states[1].is_usable);
	check_tunnels("");
	check_rows("cluster 9 10.244.0.0 240.0.0.0 255.255.0.0 via 9 hops 0 mtu 1390 bits 0\n"
		   "cluster 10 10.244.0.0 240.1.0.0 255.255.0.0 via 10 hops 32 mtu 1450 bits 8\n"
		   "node 10 1: 1\nnode 10 #: 1*32\ncarrier 192.168.3.11: 10\n"
		   "fdb 06:00:00:0a:00:01 192.168.3.11:0\n");
}
END_TEST

/* WireGuard knows a node by its key: a key that two nodes have is that of the first one. */
START_TEST(test_keys)
{
	fx.own.wireguard = (struct mk_wg_public){ .key = { 1 }, .port = 51871 };
	add_peer("east", 9, "240.0.0.0/16")->encrypts = true;
	add_node("10.244.1.0/24", "192.168.2.11");
	compile();
	check_reason(0, "has no WireGuard key: set wireguardPort in its cluster");
	add_key(&fx.nodes[0], 1);
	compile();
	check_reason(0, "has the WireGuard key of this node");
	add_key(&fx.nodes[0], 2);
	add_key(add_node("10.244.2.0/24", "192.168.2.12"), 2);
	compile();
	check_reason(0, "'n00001' is left out: it has the WireGuard key of another node");
	check_tunnels("2 192.168.2.11:51871");
	add_peer("north", 10, "240.1.0.0/16")->encrypts = true;
	add_key(add_node("10.244.1.0/24", "192.168.3.11"), 2);
	compile();
	check_reason(1, "has the WireGuard key of another node");
	check_tunnels("2 192.168.2.11:51871");
}
END_TEST

/* Each hop is as its own peer says: a plain hub carries the packets of a peer that encrypts. */
START_TEST(test_encrypted_beside_hub)
{
	struct mk_clusters_peer *peer;

	add_peer("hub", 9, "240.0.0.0/16");
	add_node("10.244.1.0/24", "192.168.2.11");
	peer = add_peer("east", 10, "240.1.0.0/16");
	peer->via = "hub";
	peer->encrypts = true;
	peer->path = MK_CLUSTERS_PATH_DIRECT;
	add_key(add_node("10.244.3.0/24", "192.168.3.13"), 3);
	compile();
	check_rows("cluster 9 10.244.0.0 240.0.0.0 255.255.0.0 via 9 hops 32 mtu 1450 bits 8\n"
		   "cluster 10 10.244.0.0 240.1.0.0 255.255.0.0 via 9 hops 32 mtu 1390 bits 8\n"
		   "node 9 1: 1\nnode 9 #: 1*32\nnode 10 3: 20003\n"
		   "carrier 192.168.2.11: 9\ncarrier 192.168.3.13: 10 encrypted\n"
		   "fdb 06:00:00:09:00:01 192.168.2.11:0\n"
		   "fdb 06:00:00:0a:00:01 192.168.2.11:0\n"
		   "fdb 06:00:00:0a:00:03 192.168.3.13:0 encrypted\n");
}
END_TEST

/* ---- hub ------------------------------------------------------------------------------------- */

/* A branch newer than its hub, and one older. Its own nodes may send, and get nothing. */
START_TEST(test_hub)
{
	add_peer("one", 21, "240.1.0.0/16")->via = "hub";
	add_node("10.244.1.0/24", "192.168.7.11");
	add_peer("hub", 20, "240.0.0.0/16");
	add_node("10.244.0.0/24", "192.168.2.10");
	add_node("10.244.1.0/24", "192.168.2.11");
	fx.peers[0].created_unix_s = 10;
	fx.peers[1].created_unix_s = 20;
	fx.peers[0].relayed = true;
	compile();
	check_reason(0, NULL);
	check_reason(1, NULL);
	ck_assert(fx.rows.states[0].is_usable && fx.rows.states[1].is_usable);
	check_targets("hub 240.0.0.1, hub 240.0.1.1");
	check_rows(
		"cluster 20 10.244.0.0 240.0.0.0 255.255.0.0 via 20 hops 32 mtu 1450 bits 8\n"
		"cluster 21 10.244.0.0 240.1.0.0 255.255.0.0 via 20 hops 32 mtu 1450 bits 0 relayed\n"
		"node 20 0: 0\nnode 20 1: 1\nnode 20 #: 0*17 1*15\n"
		"carrier 192.168.2.10: 20\ncarrier 192.168.2.11: 20\ncarrier 192.168.7.11: 21\n"
		"fdb 06:00:00:14:00:00 192.168.2.10:0\nfdb 06:00:00:14:00:01 192.168.2.11:0\n"
		"fdb 06:00:00:15:00:00 192.168.2.10:0\nfdb 06:00:00:15:00:01 192.168.2.11:0\n");
}
END_TEST

/* Two nodes of a branch, whose numbers the hub's nodes have, too. */
static void start_paths(enum mk_clusters_path path)
{
	struct mk_clusters_peer *one;

	fx.own.externals = cidr_of("247.255.0.0/20");
	add_peer("hub", 20, "240.0.0.0/16");
	add_node("10.244.1.0/24", "192.168.2.11");
	one = add_peer("one", 21, "240.1.0.0/16");
	add_node("10.244.1.0/24", "192.168.7.11");
	add_node("10.244.2.0/24", "192.168.7.12");
	one->via = "hub";
	one->path = path;
	one->external_home = cidr_of("247.255.0.0/20");
	one->external_view = cidr_of("240.2.0.0/20");
	compile();
	check_reason(1, NULL);
	ck_assert(fx.rows.states[1].is_usable);
}

#define HUB_ROW "cluster 20 10.244.0.0 240.0.0.0 255.255.0.0 via 20 hops 32 mtu 1450 bits 8\n"
#define OWN_ROW "cluster 16777223 247.255.0.0 247.255.0.0 255.255.240.0 via 7 hops 0 mtu 0 bits 0\n"
#define EXTERNALS(via, hops)                                                          \
	"cluster 16777237 247.255.0.0 240.2.0.0 255.255.240.0 via " via " hops " hops \
	" mtu 1450 bits 0\n"
#define CARRIERS "carrier 192.168.2.11: 20\ncarrier 192.168.7.11: 21\ncarrier 192.168.7.12: 21\n"

START_TEST(test_path_direct)
{
	start_paths(MK_CLUSTERS_PATH_DIRECT);
	ck_assert_uint_eq(fx.rows.states[1].nodes_direct, 2);
	check_targets("hub 240.0.1.1, one 240.1.1.1, one 240.1.2.1");
	check_rows(
		HUB_ROW
		"cluster 21 10.244.0.0 240.1.0.0 255.255.0.0 via 20 hops 32 mtu 1450 bits 8\n" OWN_ROW
			EXTERNALS(
				"16777237",
				"32") "node 20 1: 1\nnode 20 #: 1*32\n"
				      "node 21 1: 7fff\nnode 21 2: 2\nnode 16777237 #: 2*15 7fff*17\n" CARRIERS
				      "fdb 06:00:00:14:00:01 192.168.2.11:0\n"
				      "fdb 06:00:00:15:00:01 192.168.2.11:0\n"
				      "fdb 06:00:00:15:00:02 192.168.7.12:0\n"
				      "fdb 06:00:00:15:7f:ff 192.168.7.11:0\n");
}
END_TEST

static bool is_second(const void *ctx, const struct mk_clusters_target *target,
		      const struct mk_cluster_node_key *key)
{
	struct mk_ip second = ip_of(ctx);

	return mk_ip_equal(&target->ip, &second) && target->peer == 1 && key->cluster == 21 &&
	       key->index == 2;
}

/* A node that answers without the hub gets its packets, the other one only probes. The first
 * place of external addresses is the hub's then, which sends to the same node. */
START_TEST(test_path_auto)
{
	start_paths(MK_CLUSTERS_PATH_AUTO);
	ck_assert_uint_eq(fx.rows.states[1].nodes_direct, 0);
	check_targets("hub 240.0.1.1, one 240.1.1.1, one 240.1.2.1");
	fx.own.is_direct = is_second;
	fx.own.ctx = "240.1.2.1";
	compile();
	ck_assert_uint_eq(fx.rows.states[1].nodes_direct, 1);
	check_rows(
		HUB_ROW
		"cluster 21 10.244.0.0 240.1.0.0 255.255.0.0 via 20 hops 32 mtu 1450 bits 8\n" OWN_ROW
			EXTERNALS(
				"16777237",
				"32") "node 20 1: 1\nnode 20 #: 1*32\n"
				      "node 21 1: 17fff\nnode 21 2: 2\nnode 16777237 #: 1*17 2*15\n" CARRIERS
				      "fdb 06:00:00:14:00:01 192.168.2.11:0\n"
				      "fdb 06:00:00:15:00:01 192.168.2.11:0\n"
				      "fdb 06:00:00:15:00:02 192.168.7.12:0\n"
				      "fdb 06:00:00:15:7f:ff 192.168.7.11:0\n");
}
END_TEST

static bool is_not_of_hub(const void *ctx, const struct mk_clusters_target *target, uint32_t number,
			  uint32_t hop)
{
	(void)ctx;
	(void)target;
	(void)hop;
	return number != 20;
}

/* If no node of the hub answers, nodes that are reached directly take the places of the others. */
START_TEST(test_path_auto_without_hub)
{
	uint32_t hops[MK_CLUSTER_PLACES];

	start_paths(MK_CLUSTERS_PATH_AUTO);
	fx.own.is_direct = is_second;
	fx.own.ctx = "240.1.2.1";
	fx.own.is_live = is_not_of_hub;
	compile();
	get_places(20, hops);
	ck_assert_uint_eq(hops[0], 1);
	get_places(21 | MK_CLUSTER_EXTERNAL, hops);
	for (size_t i = 0; i < MK_CLUSTER_PLACES; i++)
		ck_assert_uint_eq(hops[i], 2);
}
END_TEST

static bool is_second_or_of_hub(const void *ctx, const struct mk_clusters_target *target,
				uint32_t number, uint32_t hop)
{
	(void)ctx;
	(void)target;
	return hop == 2 || number == 20;
}

/* With path: Direct no hub notices a node that is gone, so this cluster does. */
START_TEST(test_path_direct_without_a_node)
{
	uint32_t hops[MK_CLUSTER_PLACES];

	start_paths(MK_CLUSTERS_PATH_DIRECT);
	fx.own.is_live = is_second_or_of_hub;
	compile();
	get_places(21 | MK_CLUSTER_EXTERNAL, hops);
	for (size_t i = 0; i < MK_CLUSTER_PLACES; i++)
		ck_assert_uint_eq(hops[i], 2);
}
END_TEST

/* The hub sees the nodes of one as its own peer's. It and the branch give each place to one node,
 * whatever the numbers of hops. */
START_TEST(test_path_alike)
{
	uint32_t at_branch[MK_CLUSTER_PLACES], at_hub[MK_CLUSTER_PLACES];
	size_t differ = 0;

	start_paths(MK_CLUSTERS_PATH_DIRECT);
	get_places(21 | MK_CLUSTER_EXTERNAL, at_branch);
	fx.peers[1].via = NULL;
	compile();
	get_places(21 | MK_CLUSTER_EXTERNAL, at_hub);
	for (size_t i = 0; i < MK_CLUSTER_PLACES; i++) {
		ck_assert_uint_eq(at_hub[i] == 2, at_branch[i] == 2);
		differ += at_hub[i] != at_hub[0];
	}
	ck_assert_uint_gt(differ, 0);
}
END_TEST

START_TEST(test_path_hub)
{
	start_paths(MK_CLUSTERS_PATH_HUB);
	check_targets("hub 240.0.1.1");
	check_rows(
		HUB_ROW
		"cluster 21 10.244.0.0 240.1.0.0 255.255.0.0 via 20 hops 32 mtu 1450 bits 0\n" OWN_ROW
			EXTERNALS("20", "32") "node 20 1: 1\nnode 20 #: 1*32\n" CARRIERS
					      "fdb 06:00:00:14:00:01 192.168.2.11:0\n"
					      "fdb 06:00:00:15:00:01 192.168.2.11:0\n");
}
END_TEST

/* A hub takes no address from a node that its own cluster has published. */
START_TEST(test_path_of_another)
{
	add_peer("hub", 20, "240.0.0.0/16")->created_unix_s = 10;
	add_node("10.244.1.0/24", "192.168.2.11");
	add_peer("one", 21, "240.1.0.0/16")->created_unix_s = 20;
	fx.peers[1].via = "hub";
	fx.peers[1].path = MK_CLUSTERS_PATH_AUTO;
	add_node("10.244.1.0/24", "192.168.7.11");
	add_node("10.244.2.0/24", "192.168.2.11");
	add_peer("two", 22, "240.2.0.0/16")->created_unix_s = 30;
	add_node("10.244.1.0/24", "192.168.7.11");
	compile();
	check_reason(1, NULL);
	check_reason(2, NULL);
	ck_assert_uint_eq(fx.rows.states[1].nodes_used, 0);
	ck_assert_uint_eq(fx.rows.carrier_count, 2);
	ck_assert_uint_eq(fx.rows.carriers[0].number, 20);
	ck_assert_uint_eq(fx.rows.carriers[1].number, 22);
}
END_TEST

START_TEST(test_wrong_via)
{
	add_peer("hub", 20, "240.0.0.0/16");
	add_peer("one", 21, "240.1.0.0/16")->via = "hub";
	add_peer("two", 22, "240.2.0.0/16")->via = "one";
	add_peer("three", 23, "240.3.0.0/16")->via = "nowhere";
	add_peer("four", 24, "240.4.0.0/16")->via = "four";
	add_peer("gone", 25, "240.5.0.0/16")->is_published = false;
	add_peer("five", 26, "240.6.0.0/16")->via = "gone";
	compile();
	check_reason(1, "no node of 'hub' is known, by which it is reached");
	check_reason(2, "spec.via 'one' is itself reached via 'hub'");
	check_reason(3, "spec.via 'nowhere' is no other ClusterPeer");
	check_reason(4, "spec.via 'four' is no other ClusterPeer");
	check_reason(6, "spec.via 'gone' is not usable: no PublishedCluster 'gone'");
	for (size_t i = 0; i < fx.rows.cluster_count; i++)
		ck_assert_uint_eq(fx.rows.clusters[i].row.hop_count, 0);
	ck_assert_uint_eq(fx.rows.fdb_count, 0);
	ck_assert_uint_eq(fx.rows.cluster_count, 6);
}
END_TEST

/* ---- border nodes ---------------------------------------------------------------------------- */

static struct mk_clusters_border borders[4];

static void start_borders(size_t count)
{
	static const char *const border_names[] = { "b1", "b2", "b3", "b4" };

	for (uint8_t i = 0; i < count; i++)
		borders[i] = (struct mk_clusters_border){
			.node = border_names[i],
			.ip = ip_of("10.244.9.1"),
			.vtep_mac = { { 0x02, 0x4d, 1, 1, 1, i } },
		};
	add_peer("east", 9, "240.0.0.0/16");
	add_node("10.244.1.0/24", "192.168.2.11");
	fx.own.by_border = true;
	fx.own.node = "n1";
	fx.own.borders = borders;
	fx.own.border_count = count;
}

static const char *border_for(const char *node)
{
	fx.own.node = node;
	compile();
	ck_assert_ptr_nonnull(fx.rows.border);
	for (size_t i = 0; i < fx.own.border_count; i++)
		if (strcmp(borders[i].node, fx.rows.border) == 0)
			return borders[i].node;
	ck_abort_msg("'%s' is no border node", fx.rows.border);
}

static bool is_not(const void *ctx, const struct mk_clusters_target *target, uint32_t number,
		   uint32_t hop)
{
	(void)number;
	(void)hop;
	return !strstr(ctx, target->node);
}

START_TEST(test_border)
{
	start_borders(1);
	compile();
	check_reason(0, NULL);
	ck_assert(fx.rows.states[0].is_usable);
	ck_assert_str_eq(fx.rows.border, "b1");
	ck_assert_uint_eq(fx.rows.target_count, 2);
	ck_assert_str_eq(fx.rows.targets[1].node, "b1");
	ck_assert_uint_eq(fx.rows.targets[1].peer, fx.peer_count);
	ck_assert_uint_eq(fx.rows.nodes[0].key.cluster, WEST);
	ck_assert_uint_eq(fx.rows.nodes[0].key.index, MK_CLUSTER_BY_INDEX);
	ck_assert_uint_eq(fx.rows.nodes[0].hop, 0x10101);
	ck_assert_uint_ne(fx.rows.nodes[1].key.cluster, WEST);
	ck_assert_uint_eq(fx.rows.clusters[0].row.flags, MK_CLUSTER_BY_BORDER);
}
END_TEST

/* All nodes but those of a border node that goes keep theirs. All border nodes get a share. */
START_TEST(test_border_shares)
{
	unsigned int takes[4] = { 0 };
	char name[16];

	start_borders(4);
	for (int i = 0; i < 100; i++) {
		const char *before;

		snprintf(name, sizeof(name), "node-%d", i);
		before = border_for(name);
		takes[before[1] - '1']++;
		fx.own.border_count = 3;
		if (before != borders[3].node)
			ck_assert_ptr_eq(border_for(name), before);
		fx.own.border_count = 4;
	}
	for (int i = 0; i < 4; i++)
		ck_assert_uint_ge(takes[i], 10);
}
END_TEST

START_TEST(test_border_live)
{
	const char *first, *second;

	start_borders(3);
	first = border_for("n1");
	fx.own.is_live = is_not;
	fx.own.ctx = first;
	second = border_for("n1");
	ck_assert_ptr_ne(second, first);
	fx.own.ctx = "b1 b2 b3";
	ck_assert_ptr_eq(border_for("n1"), first);
}
END_TEST

START_TEST(test_border_unknown)
{
	start_borders(0);
	compile();
	ck_assert(!fx.rows.states[0].is_usable && !fx.rows.border);
	check_reason(0, "no node with the label networking.monokube.io/border");
	ck_assert_uint_eq(fx.rows.clusters[0].row.flags, MK_CLUSTER_BY_BORDER);
}
END_TEST

/* The border node encrypts. This node needs no WireGuard: it opens no tunnel, and sends nothing. */
START_TEST(test_border_encrypts)
{
	start_borders(1);
	fx.own.no_wireguard = "the kernel of this node has no WireGuard";
	fx.peers[0].encrypts = true;
	add_key(&fx.nodes[0], 8);
	compile();
	check_reason(0, NULL);
	ck_assert(fx.rows.states[0].is_usable && !fx.rows.states[0].cannot_encrypt);
	ck_assert_uint_eq(fx.rows.target_count, 2);
	ck_assert_uint_eq(fx.rows.fdb_count, 0);
	check_tunnels("");
	ck_assert_uint_eq(fx.rows.carriers[0].number, 9 | MK_CLUSTER_CARRIER_ENCRYPTED);
}
END_TEST

UNIT_SUITE("clusters ways")
{
	TCase *tcase = unit_case(suite, "WireGuard", clusters_setup, clusters_teardown);

	tcase_add_test(tcase, test_encrypted);
	tcase_add_test(tcase, test_roaming);
	tcase_add_test(tcase, test_cannot_encrypt);
	tcase_add_test(tcase, test_keys);
	tcase_add_test(tcase, test_encrypted_beside_hub);
	tcase = unit_case(suite, "hub", clusters_setup, clusters_teardown);
	tcase_add_test(tcase, test_hub);
	tcase_add_test(tcase, test_path_direct);
	tcase_add_test(tcase, test_path_auto);
	tcase_add_test(tcase, test_path_auto_without_hub);
	tcase_add_test(tcase, test_path_alike);
	tcase_add_test(tcase, test_path_direct_without_a_node);
	tcase_add_test(tcase, test_path_hub);
	tcase_add_test(tcase, test_path_of_another);
	tcase_add_test(tcase, test_wrong_via);
	tcase = unit_case(suite, "border nodes", clusters_setup, clusters_teardown);
	tcase_add_test(tcase, test_border);
	tcase_add_test(tcase, test_border_shares);
	tcase_add_test(tcase, test_border_live);
	tcase_add_test(tcase, test_border_unknown);
	tcase_add_test(tcase, test_border_encrypts);
}
