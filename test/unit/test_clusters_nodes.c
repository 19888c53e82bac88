// SPDX-License-Identifier: Apache-2.0
/* Nodes of other clusters: which ones get packets, by which numbers and places. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "unit/clusters_fixture.h"
#include "unit/unit.h"

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Nodes with pod CIDRs of two sizes: the number of the larger one is that of its first part, which
 * gets probes. */
START_TEST(test_sizes)
{
	add_peer("east", 9, "240.0.0.0/16");
	add_node("10.244.1.0/24", "192.168.2.11");
	add_node("10.244.2.0/25", "192.168.2.12");
	compile();
	check_targets("east 240.0.1.1, east 240.0.2.1");
	check_reason(0, NULL);
	check_rows("cluster 9 10.244.0.0 240.0.0.0 255.255.0.0 via 9 hops 32 mtu 1450 bits 7\n"
		   "node 9 2: 2\nnode 9 4: 4\nnode 9 #: 2*14 4*18\n"
		   "carrier 192.168.2.11: 9\ncarrier 192.168.2.12: 9\n"
		   "fdb 06:00:00:09:00:02 192.168.2.11:0\nfdb 06:00:00:09:00:04 192.168.2.12:0\n");
}
END_TEST

/* Nodes without a pod CIDR in the range, or with that of another node, carry packets, too. */
START_TEST(test_without_number)
{
	add_peer("east", 9, "240.0.0.0/16");
	add_node("10.244.1.0/24", "192.168.2.11");
	add_node("10.244.1.0/24", "192.168.2.12");
	add_node("10.7.1.0/24", "192.168.2.13");
	add_node(NULL, "192.168.2.14");
	compile();
	check_targets("east 240.0.1.1");
	check_rows("cluster 9 10.244.0.0 240.0.0.0 255.255.0.0 via 9 hops 32 mtu 1450 bits 8\n"
		   "node 9 1: 1\nnode 9 #: 1*6 7ffd*9 7ffe*7 7fff*10\n"
		   "carrier 192.168.2.11: 9\ncarrier 192.168.2.12: 9\n"
		   "carrier 192.168.2.13: 9\ncarrier 192.168.2.14: 9\n"
		   "fdb 06:00:00:09:00:01 192.168.2.11:0\nfdb 06:00:00:09:7f:fd 192.168.2.12:0\n"
		   "fdb 06:00:00:09:7f:fe 192.168.2.13:0\nfdb 06:00:00:09:7f:ff 192.168.2.14:0\n");
}
END_TEST

/* 18 bits of a node's number do not fit into a hop's. */
START_TEST(test_many_numbers)
{
	struct mk_clusters_peer *peer = add_peer("east", 9, "16.0.0.0/8");

	peer->home = cidr_of("10.0.0.0/8");
	add_node("10.244.1.0/26", "192.168.2.11");
	add_node("10.116.1.0/26", "192.168.2.12");
	compile();
	ck_assert_uint_eq(fx.rows.clusters[0].row.host_bits, 6);
	ck_assert_uint_eq(fx.rows.node_count, 2 + MK_CLUSTER_PLACES);
	ck_assert_uint_eq(fx.rows.nodes[0].key.index, 0x1d004);
	ck_assert_uint_eq(fx.rows.nodes[0].hop, 0x5004);
	ck_assert_uint_eq(fx.rows.nodes[1].key.index, 0x3d004);
	ck_assert_uint_eq(fx.rows.nodes[1].hop, 0x7fff);
}
END_TEST

/* The numbers of such nodes would have more than 31 bits. */
START_TEST(test_too_many_numbers)
{
	struct mk_clusters_peer *peer = add_peer("east", 9, "fd40::/24");

	fx.own.family = AF_INET6;
	peer->home = cidr_of("fd00::/24");
	add_node("fd00:0:1:1::/64", "192.168.2.11");
	compile();
	ck_assert_uint_eq(fx.rows.clusters[0].row.host_bits, 0);
	ck_assert_uint_eq(fx.rows.node_count, MK_CLUSTER_PLACES);
}
END_TEST

/* Which nodes answer, by the last digits of their virtual pod addresses in the view: "1 3". */
static bool is_listed(const void *ctx, const struct mk_clusters_target *target, uint32_t number,
		      uint32_t hop)
{
	char text[MK_IP_STRLEN], digit[8];

	if (target->ip.family == AF_UNSPEC)
		return false;
	mk_ip_format(&target->ip, text);
	snprintf(digit, sizeof(digit), "%c", text[strlen("240.0.")]);
	return number == 9 && hop == (uint32_t)atoi(digit) && strstr(ctx, digit);
}

/* @live: of four nodes; @hops: those that have places then. */
static const struct {
	const char *name, *live, *hops;
} live_rows[] = {
	{ "all answer", "1 2 3 4", "1 2 3 4" }, { "one does not", "1 2 4", "1 2 4" },
	{ "two do not", "1 4", "1 4" },		{ "one answers", "2", "2" },
	{ "none answers", "", "1 2 3 4 7fff" },
};

static void add_four_nodes(void)
{
	char pod_cidr[32], address[32];

	for (int i = 1; i <= 4; i++) {
		snprintf(pod_cidr, sizeof(pod_cidr), "10.244.%d.0/24", i);
		snprintf(address, sizeof(address), "192.168.2.1%d", i);
		add_node(pod_cidr, address);
	}
}

/* Places are of nodes that answer. Places of the others stay. */
START_TEST(test_live)
{
	uint32_t before[MK_CLUSTER_PLACES], after[MK_CLUSTER_PLACES];
	char hop[8];

	add_peer("east", 9, "240.0.0.0/16");
	add_four_nodes();
	fx.own.is_live = is_listed;
	fx.own.ctx = "1 2 3 4";
	compile();
	get_places(9, before);
	add_node(NULL, "192.168.2.15");
	fx.own.ctx = live_rows[_i].live;
	compile();
	ck_assert_uint_eq(fx.rows.clusters[0].row.hop_count, MK_CLUSTER_PLACES);
	get_places(9, after);
	for (size_t i = 0; i < MK_CLUSTER_PLACES; i++) {
		snprintf(hop, sizeof(hop), "%x", after[i]);
		ck_assert_msg(strstr(live_rows[_i].hops, hop), "%s: %s", live_rows[_i].name, hop);
		snprintf(hop, sizeof(hop), "%x", before[i]);
		if (strstr(live_rows[_i].live, hop))
			ck_assert_msg(after[i] == before[i], "%s: place %zu moved from %x to %x",
				      live_rows[_i].name, i, before[i], after[i]);
	}
}
END_TEST

/* A node that comes takes its share, one that goes leaves it: no other place moves. */
START_TEST(test_places)
{
	uint32_t before[MK_CLUSTER_PLACES], after[MK_CLUSTER_PLACES];
	size_t took = 0;

	add_peer("east", 9, "240.0.0.0/16");
	add_four_nodes();
	compile();
	get_places(9, before);
	add_node("10.244.5.0/24", "192.168.2.15");
	compile();
	get_places(9, after);
	for (size_t i = 0; i < MK_CLUSTER_PLACES; i++) {
		ck_assert(after[i] == 5 || after[i] == before[i]);
		took += after[i] == 5;
	}
	ck_assert_uint_ge(took, 3);
	ck_assert_uint_le(took, 11);
	fx.peers[0].nodes++; /* the first one goes */
	fx.peers[0].node_count--;
	compile();
	get_places(9, before);
	for (size_t i = 0; i < MK_CLUSTER_PLACES; i++)
		ck_assert(after[i] == 1 ? before[i] != 1 : before[i] == after[i]);
}
END_TEST

/* Of ten nodes two answer: both get flows of the others. */
START_TEST(test_live_spread)
{
	char pod_cidr[32], address[32];
	size_t takes[10] = { 0 };

	add_peer("east", 9, "240.0.0.0/16");
	for (int i = 0; i < 10; i++) {
		snprintf(pod_cidr, sizeof(pod_cidr), "10.244.%d.0/24", i);
		snprintf(address, sizeof(address), "192.168.2.1%d", i);
		add_node(pod_cidr, address);
	}
	fx.own.is_live = is_listed;
	fx.own.ctx = "3 7";
	compile();
	for (size_t i = 0; i < fx.rows.node_count; i++)
		if (is_place(i))
			takes[fx.rows.nodes[i].hop]++;
	ck_assert_uint_eq(takes[3] + takes[7], MK_CLUSTER_PLACES);
	ck_assert_uint_ge(takes[3], 8);
	ck_assert_uint_ge(takes[7], 8);
}
END_TEST

/* A node that comes changes no number of the others. */
START_TEST(test_stable_hops)
{
	add_peer("east", 9, "240.0.0.0/16");
	add_node("10.244.9.0/24", "192.168.2.19");
	add_node("10.244.1.0/24", "192.168.2.11");
	compile();
	ck_assert_uint_eq(fx.rows.fdb[1].mac.byte[5], 9);
	ck_assert_int_eq(mk_ip_equal(&fx.rows.fdb[1].remote, &fx.nodes[0].address), 1);
	add_node("10.244.5.0/24", "192.168.2.15");
	compile();
	ck_assert_uint_eq(fx.rows.fdb[2].mac.byte[5], 9);
	ck_assert_int_eq(mk_ip_equal(&fx.rows.fdb[2].remote, &fx.nodes[0].address), 1);
}
END_TEST

/* What a hostile or wrong peer says of its nodes. */
START_TEST(test_left_out)
{
	add_peer("east", 9, "240.0.0.0/16");
	add_node("10.244.1.0/24", "192.168.2.11");
	add_node("10.244.2.0/24", "192.168.2.11");
	add_peer("north", 10, "240.1.0.0/16");
	add_node("10.244.1.0/24", "192.168.2.11");
	add_node("10.244.2.0/24", "192.168.1.1");
	add_node("10.244.3.0/24", NULL);
	add_node("10.244.4.0/24", "192.168.2.14");
	add_peer("south", 11, "240.2.0.0/16");
	add_node("10.244.1.0/24", "192.168.1.1");
	add_peer("none", 12, "240.3.0.0/16");
	add_peer("port", 13, "240.4.0.0/16");
	add_node("10.244.1.0/24", "192.168.5.11")->port = 8472;
	add_node("10.244.2.0/24", "192.168.5.12");
	compile();
	check_reason(0, "PublishedNode of node 'n00001' is left out: it has the address of another "
			"node of the peer");
	check_reason(1,
		     "PublishedNode of node 'n00002' is left out: it has the address of a node of "
		     "another peer; so are 2 others");
	check_reason(2, "has the address of a node of this cluster");
	check_reason(3, "no PublishedNode of it");
	check_reason(4, "it has another UDP port than the overlay of this cluster: set vxlanPort");
	ck_assert(fx.rows.states[0].is_usable && fx.rows.states[1].is_usable);
	ck_assert(!fx.rows.states[2].is_usable && fx.rows.states[2].has_view);
	ck_assert(!fx.rows.states[3].is_usable && fx.rows.states[3].has_view);
	ck_assert_uint_eq(fx.rows.carrier_count, 3);
	ck_assert_uint_eq(fx.rows.carriers[0].number, 9);
}
END_TEST

/* A node whose object is gone counts, but gives way to others: their address, key and number. */
/* A peer that points this cluster's nodes at this cluster's own pods and Services. */
START_TEST(test_inner)
{
	const struct mk_cidr inner[] = { cidr_of("10.244.0.0/16"), cidr_of("10.96.0.0/12"),
					 cidr_of("fd00:10:244::/48") };

	fx.own.inner = inner;
	fx.own.inner_count = MK_ARRAY_SIZE(inner);
	add_peer("east", 9, "240.0.0.0/16");
	add_node("10.244.1.0/24", "192.168.2.11");
	add_node("10.244.2.0/24", "10.96.0.10");
	add_peer("north", 10, "240.1.0.0/16");
	add_node("10.244.1.0/24", "10.244.1.7");
	add_peer("south", 11, "240.2.0.0/16");
	add_node("10.244.1.0/24", "fd00:10:244::7");
	compile();
	for (size_t i = 0; i < 3; i++)
		check_reason(i, "is left out: it has an address of this cluster's pods, Services");
	ck_assert(fx.rows.states[0].is_usable);
	ck_assert_uint_eq(fx.rows.fdb_count, 1);
}
END_TEST

START_TEST(test_gone_nodes)
{
	add_peer("east", 9, "240.0.0.0/16")->encrypts = true;
	add_key(add_node("10.244.1.0/24", "192.168.2.11"), 1);
	add_key(add_node("10.244.2.0/24", "192.168.2.12"), 2);
	add_key(add_node("10.244.3.0/24", "192.168.2.13"), 3);
	add_key(add_node("10.244.4.0/24", "192.168.2.14"), 4);
	fx.nodes[0].is_gone = fx.nodes[1].is_gone = true;
	compile();
	check_reason(0, NULL);
	check_targets("east 240.0.1.1, east 240.0.2.1, east 240.0.3.1, east 240.0.4.1");
	fx.nodes[2].address = fx.nodes[0].address;
	compile();
	check_reason(0, "node 'n00000' is left out: it has the address of another node");
	fx.nodes[2].address = ip_of("192.168.2.13");
	add_key(&fx.nodes[2], 1);
	compile();
	check_reason(0, "node 'n00000' is left out: it has the WireGuard key of another node");
	add_key(&fx.nodes[2], 3);
	fx.nodes[2].pod_cidr = fx.nodes[0].pod_cidr;
	compile();
	ck_assert_uint_eq(fx.rows.nodes[0].hop & 0xff, 1);
	ck_assert(mk_ip_equal(&fx.rows.fdb[0].remote, &fx.nodes[2].address));
}
END_TEST

START_TEST(test_too_many_nodes)
{
	add_peer("east", 9, "240.0.0.0/16");
	for (unsigned i = 0; i < MK_CLUSTERS_NODES_MAX + 2; i++) {
		struct mk_cidr range = cidr_of("172.16.0.0/12");

		add_node(NULL, NULL)->address = mk_cidr_nth(&range, i);
	}
	compile();
	ck_assert_uint_eq(fx.rows.node_count, MK_CLUSTER_PLACES);
	ck_assert_uint_eq(fx.rows.fdb_count, MK_CLUSTERS_NODES_MAX);
	check_reason(0, "one too many: all peers together may have 32768 nodes; so are 1 others");
}
END_TEST

UNIT_SUITE("clusters nodes")
{
	TCase *tcase = unit_case(suite, "nodes", clusters_setup, clusters_teardown);

	tcase_add_test(tcase, test_sizes);
	tcase_add_test(tcase, test_live_spread);
	tcase_add_test(tcase, test_places);
	tcase_add_loop_test(tcase, test_live, 0, (int)MK_ARRAY_SIZE(live_rows));
	tcase_add_test(tcase, test_without_number);
	tcase_add_test(tcase, test_many_numbers);
	tcase_add_test(tcase, test_too_many_numbers);
	tcase_add_test(tcase, test_stable_hops);
	tcase_add_test(tcase, test_left_out);
	tcase_add_test(tcase, test_inner);
	tcase_add_test(tcase, test_gone_nodes);
	tcase_add_test(tcase, test_too_many_nodes);
}
