// SPDX-License-Identifier: Apache-2.0
/* Other clusters: numbers, views, conflicts, external addresses, and the rows of all of these. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "unit/clusters_fixture.h"
#include "unit/unit.h"

static struct mk_error err;

/* ---- numbers --------------------------------------------------------------------------------- */

/* CRC-32C of "123456789" is e3069283 (RFC 3720's polynomial). */
START_TEST(test_number)
{
	ck_assert_uint_eq(mk_cluster_number("123456789"), 0x069283);
	ck_assert_uint_eq(mk_cluster_number(""), 1);
	ck_assert_uint_ne(mk_cluster_number("east"), mk_cluster_number("west"));
}
END_TEST

START_TEST(test_computed_number)
{
	add_peer("123456789", 0, "240.0.0.0/16");
	compile();
	ck_assert_uint_eq(fx.rows.states[0].number, 0x069283);
	ck_assert_uint_eq(fx.rows.clusters[0].number, 0x069283);
}
END_TEST

/* ---- rows ------------------------------------------------------------------------------------ */

START_TEST(test_direct)
{
	add_peer("east", 9, "240.0.0.0/16")->access_pods = true;
	add_node("10.244.1.0/24", "192.168.2.11");
	add_node("10.244.3.0/24", "192.168.2.13")->port = 4789;
	compile();
	check_reason(0, NULL);
	ck_assert(fx.rows.states[0].has_view && fx.rows.states[0].is_usable);
	ck_assert_uint_eq(fx.rows.states[0].nodes_used, 2);
	check_targets("east 240.0.1.1, east 240.0.3.1");
	check_rows("cluster 9 10.244.0.0 240.0.0.0 255.255.0.0 via 9 hops 32 mtu 1450 bits 8 pods\n"
		   "node 9 1: 1\nnode 9 3: 3\nnode 9 #: 1*14 3*18\n"
		   "carrier 192.168.2.11: 9\ncarrier 192.168.2.13: 9\n"
		   "fdb 06:00:00:09:00:01 192.168.2.11:0\n"
		   "fdb 06:00:00:09:00:03 192.168.2.13:4789\n");
}
END_TEST

/* The view's host bits have no meaning. */
START_TEST(test_host_bits_of_view)
{
	add_peer("east", 9, "240.0.3.9/16")->access_exports = true;
	compile();
	ck_assert(fx.rows.states[0].has_view);
	check_rows("cluster 9 10.244.0.0 240.0.0.0 255.255.0.0 via 9 hops 0 mtu 1450 bits 0 "
		   "exports\n");
}
END_TEST

START_TEST(test_ipv6)
{
	add_peer("east", 0x123456, "fd00:aaaa::/56");
	add_node("fd00:244:0:3::/64", "192.168.2.13");
	compile();
	check_reason(0, NULL);
	check_rows("cluster 1193046 fd00:244:: fd00:aaaa:: ffff:ffff:ffff:ff00:: via 1193046 "
		   "hops 32 mtu 1450 bits 64\n"
		   "node 1193046 3: 8003\nnode 1193046 #: 8003*32\ncarrier 192.168.2.13: 1193046\n"
		   "fdb 06:12:34:56:80:03 192.168.2.13:0\n");
}
END_TEST

/* A range of the other family only: nodes are known, but no address matches. */
START_TEST(test_other_family)
{
	struct mk_clusters_peer *peer = add_peer("east", 9, NULL);

	peer->home = (struct mk_cidr){ 0 };
	peer->access_pods = peer->relayed = true;
	add_node(NULL, "192.168.2.11");
	compile();
	check_reason(0, "it publishes no IPv4 pod range");
	ck_assert(!fx.rows.states[0].has_view && !fx.rows.states[0].is_usable);
	check_rows("cluster 9 0.0.0.0 0.0.0.0 255.255.255.255 via 9 hops 32 mtu 1450 bits 0\n"
		   "node 9 #: 7fff*32\ncarrier 192.168.2.11: 9\n");
}
END_TEST

START_TEST(test_mtu)
{
	add_peer("east", 9, "240.0.0.0/16")->mtu_bytes = 1300;
	add_peer("north", 10, "240.1.0.0/16")->mtu_bytes = 9000;
	add_peer("branch", 11, "240.2.0.0/16")->via = "east";
	compile();
	ck_assert_uint_eq(fx.rows.clusters[0].row.mtu_bytes, 1300);
	ck_assert_uint_eq(fx.rows.clusters[1].row.mtu_bytes, 1450);
	ck_assert_uint_eq(fx.rows.clusters[2].row.mtu_bytes, 1300);
}
END_TEST

static uint16_t find_path_mtu(const void *ctx, const struct mk_clusters_peer *peer, uint32_t number)
{
	(void)ctx;
	ck_assert_uint_eq(number, strcmp(peer->name, "east") == 0    ? 9
				  : strcmp(peer->name, "north") == 0 ? 10
								     : 11);
	return number == 9 ? 1340 : number == 10 ? 1400 : 0;
}

/* The measured size counts if it is smaller than the configured one, also on the way by a hub. */
START_TEST(test_path_mtu)
{
	add_peer("east", 9, "240.0.0.0/16");
	add_peer("north", 10, "240.1.0.0/16")->mtu_bytes = 1300;
	add_peer("branch", 11, "240.2.0.0/16")->via = "east";
	fx.own.path_mtu = find_path_mtu;
	compile();
	ck_assert_uint_eq(fx.rows.clusters[0].row.mtu_bytes, 1340);
	ck_assert_uint_eq(fx.rows.clusters[1].row.mtu_bytes, 1300);
	ck_assert_uint_eq(fx.rows.clusters[2].row.mtu_bytes, 1340);
	ck_assert_uint_eq(fx.rows.states[0].mtu_bytes, 1450);
	ck_assert_uint_eq(fx.rows.states[0].path_mtu_bytes, 1340);
}
END_TEST

/* ---- conflicts ------------------------------------------------------------------------------- */

START_TEST(test_same_number)
{
	add_peer("b", 9, "240.0.0.0/16")->created_unix_s = 20;
	add_peer("a", 9, "240.1.0.0/16")->created_unix_s = 30;
	add_peer("c", WEST, "240.2.0.0/16")->created_unix_s = 10;
	compile();
	check_reason(0, "no PublishedNode");
	check_reason(1, "number 9 is also that of cluster 'b': set clusterId");
	check_reason(2, "number 7 is also that of cluster 'west'");
	ck_assert_uint_eq(fx.rows.cluster_count, 1);
	ck_assert_uint_eq(fx.rows.states[1].number, 0);
}
END_TEST

/* The older peer keeps the view, whatever the order of the input is. */
START_TEST(test_same_view)
{
	add_peer("a", 9, "240.0.0.0/16")->created_unix_s = 30;
	add_node("10.244.1.0/24", "192.168.2.11");
	add_peer("b", 10, "240.0.0.0/16")->created_unix_s = 20;
	add_node("10.244.1.0/24", "192.168.3.11");
	compile();
	check_reason(0,
		     "spec.podCidr 240.0.0.0/16 overlaps 240.0.0.0/16, the view of peer 'b': name a"
		     " free");
	check_reason(1, NULL);
	ck_assert(!fx.rows.states[0].has_view && !fx.rows.states[0].is_usable);
	ck_assert(fx.rows.states[1].is_usable);
	ck_assert_uint_eq(fx.rows.fdb_count, 1);
	ck_assert_uint_eq(fx.rows.fdb[0].mac.byte[3], 10);
}
END_TEST

static const struct {
	const char *name, *home, *view, *reason;
} views[] = {
	{ "of this cluster's pods", "10.244.0.0/16", "10.244.0.0/16",
	  "overlaps 10.244.0.0/16, a range of this cluster's pods" },
	{ "within a range of Services", "10.0.0.0/16", "10.97.0.0/16",
	  "overlaps 10.96.0.0/12, a range of this cluster's nodes or Services" },
	{ "around a range", "10.0.0.0/8", "10.0.0.0/8", "overlaps 10.244.0.0/16" },
	{ "multicast", "10.7.0.0/16", "239.7.0.0/16",
	  "overlaps 224.0.0.0/4, which no pod can have" },
	{ "loopback", "10.7.0.0/16", "127.7.0.0/16", "overlaps 127.0.0.0/8" },
	{ "broadcast", "10.7.0.0/16", "255.255.0.0/16", "overlaps 255.255.255.255/32" },
	{ "another length", "10.7.0.0/16", "240.0.0.0/20",
	  "spec.podCidr '240.0.0.0/20' has another prefix length than the peer's pod range "
	  "10.7.0.0/16: give it 16 bits" },
	{ "none", "10.7.0.0/16", NULL,
	  "no view of IPv4 yet: the leader writes one to status.podCidr" },
	{ "Same", "10.7.0.0/16", "10.7.0.0/16", NULL },
	{ "of the pool", "10.244.0.0/16", "243.255.0.0/16", NULL },
};

START_TEST(test_view)
{
	struct mk_clusters_peer *peer = add_peer("east", 9, views[_i].view);

	peer->home = cidr_of(views[_i].home);
	add_node(NULL, "192.168.2.11");
	compile();
	check_reason(0, views[_i].reason);
	ck_assert_msg(fx.rows.states[0].has_view == !views[_i].reason, "%s", views[_i].name);
	ck_assert_msg(fx.rows.states[0].overlaps ==
			      (views[_i].reason && strstr(views[_i].reason, "overlaps")),
		      "%s", views[_i].name);
}
END_TEST

START_TEST(test_not_published)
{
	add_peer("east", 9, "240.0.0.0/16")->is_published = false;
	add_peer("north", 10, "240.1.0.0/16")->speaks_wire = false;
	add_peer("west", 11, "240.2.0.0/16");
	compile();
	check_reason(0, "no PublishedCluster 'east': apply what `monokube peer publish` prints");
	check_reason(1, "its wireVersions lack 1");
	check_reason(2, "'west' is the name of this cluster (clusterName)");
	check_rows("");
	clusters_teardown();
	clusters_setup();
	add_peer("east", 9, "240.0.0.0/16")->is_gone = true;
	add_node("10.244.1.0/24", "192.168.2.11");
	add_peer("far", 10, "240.1.0.0/16")->via = "east";
	fx.peers[1].is_gone = true;
	compile();
	check_reason(0, "no PublishedCluster 'east': apply what");
	check_reason(1, "no PublishedCluster 'far' by hub 'east'");
	ck_assert(fx.rows.states[0].has_view && fx.rows.states[1].has_view);
}
END_TEST

START_TEST(test_too_many_peers)
{
	static char names[MK_CLUSTERS + 1][16];

	for (size_t i = 0; i <= MK_CLUSTERS; i++) {
		struct mk_cidr pool = cidr_of("240.0.0.0/6");
		struct mk_clusters_peer *peer = add_peer(names[i], (uint32_t)i + 100, NULL);

		snprintf(names[i], sizeof(names[0]), "c%05zu", i);
		peer->view.ip = mk_cidr_nth(&pool, (uint32_t)i << 16);
		peer->view.prefix_bits = 16;
	}
	compile();
	ck_assert_uint_eq(fx.rows.cluster_count, MK_CLUSTERS);
	check_reason(0, "no PublishedNode");
	check_reason(MK_CLUSTERS, "there are more than 1024 ClusterPeers");
}
END_TEST

/* ---- external addresses ---------------------------------------------------------------------- */

static const struct mk_clusters_cluster *row_numbered(uint32_t number)
{
	for (size_t i = 0; i < fx.rows.cluster_count; i++)
		if (fx.rows.clusters[i].number == number)
			return &fx.rows.clusters[i];
	return NULL;
}

static void start_externals(const char *view)
{
	struct mk_clusters_peer *east = add_peer("east", 200, "240.0.0.0/16");

	add_node("10.244.1.0/24", "192.168.2.1");
	fx.own.externals = cidr_of("247.255.0.0/20");
	east->external_home = cidr_of("247.255.0.0/20");
	east->external_view = cidr_of(view);
	ck_ok(mk_clusters_compile(&fx.own, fx.peers, fx.peer_count, &fx.rows, &err));
}

START_TEST(test_externals)
{
	const struct mk_clusters_cluster *pods, *externals, *ours;
	const struct mk_ip view = ip_of("240.9.0.0"), home = ip_of("247.255.0.0");
	struct mk_addr view_addr = mk_ip_to_addr(&view), home_addr = mk_ip_to_addr(&home);

	start_externals("240.9.0.0/20");
	ck_assert_uint_eq(fx.rows.cluster_count, 3);
	pods = row_numbered(200);
	externals = row_numbered(200 | MK_CLUSTER_EXTERNAL);
	ours = row_numbered(WEST | MK_CLUSTER_EXTERNAL);
	ck_assert(pods && externals && ours && fx.rows.states[0].has_external_view);
	ck_assert(mk_addr_eq(&externals->row.view, &view_addr));
	ck_assert(mk_addr_eq(&externals->row.home, &home_addr));
	ck_assert(mk_addr_eq(&ours->row.home, &home_addr));
	ck_assert_uint_eq(pods->row.via, 200);
	ck_assert_uint_eq(externals->row.via, 200 | MK_CLUSTER_EXTERNAL);
	ck_assert_uint_eq(externals->row.hop_count, MK_CLUSTER_PLACES);
	ck_assert_uint_eq(pods->row.host_bits, 8);
	ck_assert_uint_eq(externals->row.host_bits, 0);
}
END_TEST

static bool is_kept(const void *ctx, const struct mk_clusters_target *target, uint32_t number,
		    uint32_t hop)
{
	(void)ctx;
	(void)target;
	return number & MK_CLUSTER_EXTERNAL || hop == 2;
}

/* Node 1 is silent, but not for long: its flows to external addresses stay. */
START_TEST(test_external_places)
{
	uint32_t hops[MK_CLUSTER_PLACES];
	size_t first = 0;

	start_externals("240.9.0.0/20");
	add_node("10.244.2.0/24", "192.168.2.2");
	fx.own.is_live = is_kept;
	compile();
	get_places(200, hops);
	for (size_t i = 0; i < MK_CLUSTER_PLACES; i++)
		ck_assert_uint_eq(hops[i], 2);
	get_places(200 | MK_CLUSTER_EXTERNAL, hops);
	for (size_t i = 0; i < MK_CLUSTER_PLACES; i++)
		first += hops[i] == 1;
	ck_assert_uint_ge(first, 8);
}
END_TEST

static const struct {
	const char *view, *reason;
} external_views[] = {
	{ "240.9.0.0/24", "has another prefix length" },
	{ "247.255.0.0/20", "externalCidr of this cluster" },
	{ "240.0.16.0/20", "the view of peer 'east'" },
	{ "10.96.0.0/20", "nodes or Services" },
};

/* The peer's pods are reached all the same. */
START_TEST(test_external_view)
{
	start_externals(external_views[_i].view);
	check_reason(0, external_views[_i].reason);
	ck_assert(fx.rows.states[0].is_usable && !fx.rows.states[0].has_external_view);
	ck_assert_uint_eq(fx.rows.cluster_count, 2);
}
END_TEST

UNIT_SUITE("clusters")
{
	TCase *tcase = unit_case(suite, "numbers", clusters_setup, clusters_teardown);

	tcase_add_test(tcase, test_number);
	tcase_add_test(tcase, test_computed_number);
	tcase = unit_case(suite, "rows", clusters_setup, clusters_teardown);
	tcase_add_test(tcase, test_direct);
	tcase_add_test(tcase, test_host_bits_of_view);
	tcase_add_test(tcase, test_other_family);
	tcase_add_test(tcase, test_mtu);
	tcase_add_test(tcase, test_path_mtu);
	tcase = unit_case(suite, "IPv6", clusters_setup_ipv6, clusters_teardown);
	tcase_add_test(tcase, test_ipv6);
	tcase = unit_case(suite, "conflicts", clusters_setup, clusters_teardown);
	tcase_add_test(tcase, test_same_number);
	tcase_add_test(tcase, test_same_view);
	tcase_add_loop_test(tcase, test_view, 0, (int)MK_ARRAY_SIZE(views));
	tcase_add_test(tcase, test_not_published);
	tcase_add_test(tcase, test_too_many_peers);
	tcase = unit_case(suite, "external addresses", clusters_setup, clusters_teardown);
	tcase_add_test(tcase, test_externals);
	tcase_add_test(tcase, test_external_places);
	tcase_add_loop_test(tcase, test_external_view, 0, (int)MK_ARRAY_SIZE(external_views));
}
