// SPDX-License-Identifier: Apache-2.0
/* Other clusters: numbers, views, conflicts, nodes, hubs, and the rows of all of these. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "clusters/clusters.h"
#include "unit/unit.h"

#define WEST 7

static struct mk_error err;
static struct mk_clusters_own own;
static struct mk_clusters_peer peers[MK_CLUSTERS + 8];
static struct mk_clusters_node nodes[40000];
static char names[40000][16];
static size_t peer_count, node_count;
static struct mk_clusters_rows rows;
static struct mk_cidr services;
static struct mk_ip own_node;

static void setup(void)
{
	memset(peers, 0, sizeof(peers));
	memset(nodes, 0, sizeof(nodes));
	rows = (struct mk_clusters_rows){ 0 };
	peer_count = node_count = 0;
	services = cidr_of("10.96.0.0/12");
	own_node = ip_of("192.168.1.1");
	own = (struct mk_clusters_own){
		.name = "west",
		.number = WEST,
		.family = AF_INET,
		.cluster_cidr = cidr_of("10.244.0.0/16"),
		.others = &services,
		.other_count = 1,
		.node_addresses = &own_node,
		.node_address_count = 1,
		.mtu_bytes = 1450,
		.port = 4789,
	};
}

static void setup_ipv6(void)
{
	setup();
	services = cidr_of("fd00:96::/112");
	own.family = AF_INET6;
	own.cluster_cidr = cidr_of("fd00:244::/56");
}

static void teardown(void)
{
	mk_clusters_rows_release(&rows);
}

/* A peer with the pod range that all clusters have. */
static struct mk_clusters_peer *add_peer(const char *name, uint32_t number, const char *view)
{
	struct mk_clusters_peer *peer = &peers[peer_count++];

	*peer = (struct mk_clusters_peer){
		.name = name,
		.is_published = true,
		.speaks_wire = true,
		.number = number,
		.home = mk_cidr_network(&own.cluster_cidr),
	};
	if (view)
		peer->view = cidr_of(view);
	return peer;
}

/* A node of the last peer. */
static struct mk_clusters_node *add_node(const char *pod_cidr, const char *address)
{
	struct mk_clusters_peer *peer = &peers[peer_count - 1];
	struct mk_clusters_node *node = &nodes[node_count];

	snprintf(names[node_count], sizeof(names[0]), "n%05zu", node_count);
	*node = (struct mk_clusters_node){ .name = names[node_count] };
	if (pod_cidr)
		node->pod_cidr = cidr_of(pod_cidr);
	if (address)
		node->address = ip_of(address);
	if (!peer->nodes)
		peer->nodes = node;
	peer->node_count++;
	node_count++;
	return node;
}

static void compile(void)
{
	mk_clusters_rows_release(&rows);
	ck_ok(mk_clusters_compile(&own, peers, peer_count, &rows, &err));
	ck_assert_uint_eq(rows.state_count, peer_count);
}

static const char *addr_text(const struct mk_addr *addr, char *buf)
{
	struct mk_ip ip = mk_ip_of_family(addr, own.family);

	return mk_ip_format(&ip, buf);
}

static void print_cluster(FILE *out, const struct mk_clusters_cluster *at)
{
	char home[MK_IP_STRLEN], view[MK_IP_STRLEN], mask[MK_IP_STRLEN];

	fprintf(out, "cluster %u %s %s %s via %u hops %u mtu %u bits %u%s%s%s%s\n", at->number,
		addr_text(&at->row.home, home), addr_text(&at->row.view, view),
		addr_text(&at->row.mask, mask), at->row.via, at->row.hop_count, at->row.mtu_bytes,
		at->row.host_bits, at->row.flags & MK_CLUSTER_ACCESS_PODS ? " pods" : "",
		at->row.flags & MK_CLUSTER_ACCESS_EXPORTS ? " exports" : "",
		at->row.flags & MK_CLUSTER_RELAYED ? " relayed" : "",
		at->row.flags & MK_CLUSTER_BY_BORDER ? " by border" : "");
}

static bool is_place(size_t row)
{
	return row < rows.node_count && rows.nodes[row].key.index & MK_CLUSTER_BY_INDEX;
}

/* Print how many places of a cluster each node has: "node 20 #: 0*17 1*15". Returns the next
 * row. */
static size_t print_places(FILE *out, size_t first)
{
	uint32_t cluster = rows.nodes[first].key.cluster;
	static size_t counts[0x10000];
	size_t end = first;

	memset(counts, 0, sizeof(counts));
	fprintf(out, "node %u #:", cluster);
	for (; is_place(end) && rows.nodes[end].key.cluster == cluster; end++)
		counts[rows.nodes[end].hop & 0xffff]++;
	for (size_t hop = 0; hop < MK_ARRAY_SIZE(counts); hop++)
		if (counts[hop])
			fprintf(out, " %zx*%zu", hop, counts[hop]);
	fprintf(out, "\n");
	return end;
}

static void print_nodes(FILE *out)
{
	for (size_t i = 0; i < rows.node_count;) {
		if (is_place(i)) {
			i = print_places(out, i);
			continue;
		}
		fprintf(out, "node %u %u: %x\n", rows.nodes[i].key.cluster, rows.nodes[i].key.index,
			rows.nodes[i].hop);
		i++;
	}
}

static void print_rows(FILE *out)
{
	char text[MK_IP_STRLEN], mac[MK_MAC_STRLEN];

	for (size_t i = 0; i < rows.cluster_count; i++)
		print_cluster(out, &rows.clusters[i]);
	print_nodes(out);
	for (size_t i = 0; i < rows.carrier_count; i++) {
		struct mk_addr addr;
		struct mk_ip ip;

		memcpy(&addr, &rows.carriers[i].addr, sizeof(addr));
		ip = mk_ip_from_addr(&addr);
		fprintf(out, "carrier %s: %u%s\n", mk_ip_format(&ip, text),
			rows.carriers[i].number & MK_CLUSTER_NUMBER_MAX,
			rows.carriers[i].number & MK_CLUSTER_CARRIER_ENCRYPTED ? " encrypted" : "");
	}
	for (size_t i = 0; i < rows.fdb_count; i++)
		fprintf(out, "fdb %s %s:%u%s\n", mk_mac_format(&rows.fdb[i].mac, mac),
			mk_ip_format(&rows.fdb[i].remote, text), rows.fdb[i].port,
			rows.fdb[i].is_encrypted ? " encrypted" : "");
}

static void check_rows(const char *expected)
{
	cleanup_free char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	ck_assert_ptr_nonnull(out);
	print_rows(out);
	ck_assert_int_eq(fclose(out), 0);
	ck_assert_str_eq(text, expected);
}

/* The nodes that can get probes: "east 240.0.1.1, ..". */
static void check_targets(const char *expected)
{
	char text[512] = "", ip[MK_IP_STRLEN];

	for (size_t i = 0; i < rows.target_count; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s %s", i ? ", " : "",
			 peers[rows.targets[i].peer].name, mk_ip_format(&rows.targets[i].ip, ip));
	ck_assert_str_eq(text, expected);
}

static void check_reason(size_t peer, const char *part)
{
	const char *reason = rows.states[peer].reason;

	if (!part) {
		ck_assert_msg(!reason, "peer %zu: %s", peer, reason);
		return;
	}
	ck_assert_msg(reason && strstr(reason, part), "peer %zu: expected '%s', found '%s'", peer,
		      part, reason ? reason : "nothing");
}

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
	ck_assert_uint_eq(rows.states[0].number, 0x069283);
	ck_assert_uint_eq(rows.clusters[0].number, 0x069283);
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
	ck_assert(rows.states[0].has_view && rows.states[0].is_usable);
	ck_assert_uint_eq(rows.states[0].nodes_used, 2);
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
	ck_assert(rows.states[0].has_view);
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
	ck_assert(!rows.states[0].has_view && !rows.states[0].is_usable);
	check_rows("cluster 9 0.0.0.0 0.0.0.0 255.255.255.255 via 9 hops 32 mtu 1450 bits 0\n"
		   "node 9 #: 7fff*32\ncarrier 192.168.2.11: 9\n");
}
END_TEST

/* ---- WireGuard ------------------------------------------------------------------------------- */

static void add_key(struct mk_clusters_node *node, uint8_t first)
{
	node->wireguard = (struct mk_wg_public){ .key = { first }, .port = 51871 };
}

static void check_tunnels(const char *expected)
{
	char text[512] = "", ip[MK_IP_STRLEN];

	for (size_t i = 0; i < rows.tunnel_count; i++) {
		const struct mk_wg_peer *at = &rows.tunnels[i];

		ck_assert(mk_ip_equal(&at->endpoint, &at->carrier) && !at->is_odd);
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u %s:%u%s",
			 i ? ", " : "", at->public_key[0], mk_ip_format(&at->carrier, ip), at->port,
			 at->roams ? " roams" : "");
		if (at->keepalive_s)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), " alive %u",
				 at->keepalive_s);
	}
	ck_assert_str_eq(text, expected);
}

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
	own.no_wireguard = "the kernel of this node has no WireGuard";
	add_peer("east", 9, "240.0.0.0/16")->encrypts = true;
	add_key(add_node("10.244.1.0/24", "192.168.2.11"), 8);
	add_peer("north", 10, "240.1.0.0/16");
	add_node("10.244.1.0/24", "192.168.3.11");
	compile();
	check_reason(0, "encryption: WireGuard, but the kernel of this node has no WireGuard");
	check_reason(1, NULL);
	ck_assert(!rows.states[0].is_usable && rows.states[1].is_usable);
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
	own.wireguard = (struct mk_wg_public){ .key = { 1 }, .port = 51871 };
	add_peer("east", 9, "240.0.0.0/16")->encrypts = true;
	add_node("10.244.1.0/24", "192.168.2.11");
	compile();
	check_reason(0, "has no WireGuard key: set wireguardPort in its cluster");
	add_key(&nodes[0], 1);
	compile();
	check_reason(0, "has the WireGuard key of this node");
	add_key(&nodes[0], 2);
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

START_TEST(test_mtu)
{
	add_peer("east", 9, "240.0.0.0/16")->mtu_bytes = 1300;
	add_peer("north", 10, "240.1.0.0/16")->mtu_bytes = 9000;
	add_peer("branch", 11, "240.2.0.0/16")->via = "east";
	compile();
	ck_assert_uint_eq(rows.clusters[0].row.mtu_bytes, 1300);
	ck_assert_uint_eq(rows.clusters[1].row.mtu_bytes, 1450);
	ck_assert_uint_eq(rows.clusters[2].row.mtu_bytes, 1300);
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
	own.path_mtu = find_path_mtu;
	compile();
	ck_assert_uint_eq(rows.clusters[0].row.mtu_bytes, 1340);
	ck_assert_uint_eq(rows.clusters[1].row.mtu_bytes, 1300);
	ck_assert_uint_eq(rows.clusters[2].row.mtu_bytes, 1340);
	ck_assert_uint_eq(rows.states[0].mtu_bytes, 1450);
	ck_assert_uint_eq(rows.states[0].path_mtu_bytes, 1340);
}
END_TEST

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
	ck_assert_uint_eq(rows.clusters[0].row.host_bits, 6);
	ck_assert_uint_eq(rows.node_count, 2 + MK_CLUSTER_PLACES);
	ck_assert_uint_eq(rows.nodes[0].key.index, 0x1d004);
	ck_assert_uint_eq(rows.nodes[0].hop, 0x5004);
	ck_assert_uint_eq(rows.nodes[1].key.index, 0x3d004);
	ck_assert_uint_eq(rows.nodes[1].hop, 0x7fff);
}
END_TEST

/* The numbers of such nodes would have more than 31 bits. */
START_TEST(test_too_many_numbers)
{
	struct mk_clusters_peer *peer = add_peer("east", 9, "fd40::/24");

	own.family = AF_INET6;
	peer->home = cidr_of("fd00::/24");
	add_node("fd00:0:1:1::/64", "192.168.2.11");
	compile();
	ck_assert_uint_eq(rows.clusters[0].row.host_bits, 0);
	ck_assert_uint_eq(rows.node_count, MK_CLUSTER_PLACES);
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

/* The hops of places of cluster @number, in @hops. */
static void get_places(uint32_t number, uint32_t hops[MK_CLUSTER_PLACES])
{
	size_t count = 0;

	for (size_t i = 0; i < rows.node_count; i++)
		if (is_place(i) && rows.nodes[i].key.cluster == number) {
			ck_assert_uint_eq(rows.nodes[i].key.index, MK_CLUSTER_BY_INDEX | count);
			hops[count++] = rows.nodes[i].hop;
		}
	ck_assert_uint_eq(count, MK_CLUSTER_PLACES);
}

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
	own.is_live = is_listed;
	own.ctx = "1 2 3 4";
	compile();
	get_places(9, before);
	add_node(NULL, "192.168.2.15");
	own.ctx = live_rows[_i].live;
	compile();
	ck_assert_uint_eq(rows.clusters[0].row.hop_count, MK_CLUSTER_PLACES);
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
	peers[0].nodes++; /* the first one goes */
	peers[0].node_count--;
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
	own.is_live = is_listed;
	own.ctx = "3 7";
	compile();
	for (size_t i = 0; i < rows.node_count; i++)
		if (is_place(i))
			takes[rows.nodes[i].hop]++;
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
	ck_assert_uint_eq(rows.fdb[1].mac.byte[5], 9);
	ck_assert_int_eq(mk_ip_equal(&rows.fdb[1].remote, &nodes[0].address), 1);
	add_node("10.244.5.0/24", "192.168.2.15");
	compile();
	ck_assert_uint_eq(rows.fdb[2].mac.byte[5], 9);
	ck_assert_int_eq(mk_ip_equal(&rows.fdb[2].remote, &nodes[0].address), 1);
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
	ck_assert(rows.states[0].is_usable && rows.states[1].is_usable);
	ck_assert(!rows.states[2].is_usable && rows.states[2].has_view);
	ck_assert(!rows.states[3].is_usable && rows.states[3].has_view);
	ck_assert_uint_eq(rows.carrier_count, 3);
	ck_assert_uint_eq(rows.carriers[0].number, 9);
}
END_TEST

/* A node whose object is gone counts, but gives way to others: their address, key and number. */
START_TEST(test_gone_nodes)
{
	add_peer("east", 9, "240.0.0.0/16")->encrypts = true;
	add_key(add_node("10.244.1.0/24", "192.168.2.11"), 1);
	add_key(add_node("10.244.2.0/24", "192.168.2.12"), 2);
	add_key(add_node("10.244.3.0/24", "192.168.2.13"), 3);
	add_key(add_node("10.244.4.0/24", "192.168.2.14"), 4);
	nodes[0].is_gone = nodes[1].is_gone = true;
	compile();
	check_reason(0, NULL);
	check_targets("east 240.0.1.1, east 240.0.2.1, east 240.0.3.1, east 240.0.4.1");
	nodes[2].address = nodes[0].address;
	compile();
	check_reason(0, "node 'n00000' is left out: it has the address of another node");
	nodes[2].address = ip_of("192.168.2.13");
	add_key(&nodes[2], 1);
	compile();
	check_reason(0, "node 'n00000' is left out: it has the WireGuard key of another node");
	add_key(&nodes[2], 3);
	nodes[2].pod_cidr = nodes[0].pod_cidr;
	compile();
	ck_assert_uint_eq(rows.nodes[0].hop & 0xff, 1);
	ck_assert(mk_ip_equal(&rows.fdb[0].remote, &nodes[2].address));
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
	ck_assert_uint_eq(rows.node_count, MK_CLUSTER_PLACES);
	ck_assert_uint_eq(rows.fdb_count, MK_CLUSTERS_NODES_MAX);
	check_reason(0, "one too many: all peers together may have 32768 nodes; so are 1 others");
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
	ck_assert_uint_eq(rows.cluster_count, 1);
	ck_assert_uint_eq(rows.states[1].number, 0);
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
	ck_assert(!rows.states[0].has_view && !rows.states[0].is_usable);
	ck_assert(rows.states[1].is_usable);
	ck_assert_uint_eq(rows.fdb_count, 1);
	ck_assert_uint_eq(rows.fdb[0].mac.byte[3], 10);
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
	ck_assert_msg(rows.states[0].has_view == !views[_i].reason, "%s", views[_i].name);
	ck_assert_msg(rows.states[0].overlaps ==
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
}
END_TEST

START_TEST(test_too_many_peers)
{
	for (size_t i = 0; i <= MK_CLUSTERS; i++) {
		struct mk_cidr pool = cidr_of("240.0.0.0/6");
		struct mk_clusters_peer *peer = add_peer(names[i], (uint32_t)i + 100, NULL);

		snprintf(names[i], sizeof(names[0]), "c%05zu", i);
		peer->view.ip = mk_cidr_nth(&pool, (uint32_t)i << 16);
		peer->view.prefix_bits = 16;
	}
	compile();
	ck_assert_uint_eq(rows.cluster_count, MK_CLUSTERS);
	check_reason(0, "no PublishedNode");
	check_reason(MK_CLUSTERS, "there are more than 1024 ClusterPeers");
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
	peers[0].created_unix_s = 10;
	peers[1].created_unix_s = 20;
	peers[0].relayed = true;
	compile();
	check_reason(0, NULL);
	check_reason(1, NULL);
	ck_assert(rows.states[0].is_usable && rows.states[1].is_usable);
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

	own.externals = cidr_of("247.255.0.0/20");
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
	ck_assert(rows.states[1].is_usable);
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
	ck_assert_uint_eq(rows.states[1].nodes_direct, 2);
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

/* A node that answers without the hub gets its packets, the other one only probes. Of the places of
 * external addresses, the first one is the hub's then, which sends to the same node. */
START_TEST(test_path_auto)
{
	start_paths(MK_CLUSTERS_PATH_AUTO);
	ck_assert_uint_eq(rows.states[1].nodes_direct, 0);
	check_targets("hub 240.0.1.1, one 240.1.1.1, one 240.1.2.1");
	own.is_direct = is_second;
	own.ctx = "240.1.2.1";
	compile();
	ck_assert_uint_eq(rows.states[1].nodes_direct, 1);
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
	own.is_direct = is_second;
	own.ctx = "240.1.2.1";
	own.is_live = is_not_of_hub;
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
	own.is_live = is_second_or_of_hub;
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
	peers[1].via = NULL;
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
	peers[1].via = "hub";
	peers[1].path = MK_CLUSTERS_PATH_AUTO;
	add_node("10.244.1.0/24", "192.168.7.11");
	add_node("10.244.2.0/24", "192.168.2.11");
	add_peer("two", 22, "240.2.0.0/16")->created_unix_s = 30;
	add_node("10.244.1.0/24", "192.168.7.11");
	compile();
	check_reason(1, NULL);
	check_reason(2, NULL);
	ck_assert_uint_eq(rows.states[1].nodes_used, 0);
	ck_assert_uint_eq(rows.carrier_count, 2);
	ck_assert_uint_eq(rows.carriers[0].number, 20);
	ck_assert_uint_eq(rows.carriers[1].number, 22);
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
	for (size_t i = 0; i < rows.cluster_count; i++)
		ck_assert_uint_eq(rows.clusters[i].row.hop_count, 0);
	ck_assert_uint_eq(rows.fdb_count, 0);
	ck_assert_uint_eq(rows.cluster_count, 6);
}
END_TEST

/* ---- external addresses ---------------------------------------------------------------------- */

static const struct mk_clusters_cluster *row_numbered(uint32_t number)
{
	for (size_t i = 0; i < rows.cluster_count; i++)
		if (rows.clusters[i].number == number)
			return &rows.clusters[i];
	return NULL;
}

static void start_externals(const char *view)
{
	struct mk_clusters_peer *east = add_peer("east", 200, "240.0.0.0/16");

	add_node("10.244.1.0/24", "192.168.2.1");
	own.externals = cidr_of("247.255.0.0/20");
	east->external_home = cidr_of("247.255.0.0/20");
	east->external_view = cidr_of(view);
	ck_ok(mk_clusters_compile(&own, peers, peer_count, &rows, &err));
}

START_TEST(test_externals)
{
	const struct mk_clusters_cluster *pods, *externals, *ours;
	const struct mk_ip view = ip_of("240.9.0.0"), home = ip_of("247.255.0.0");
	struct mk_addr view_addr = mk_ip_to_addr(&view), home_addr = mk_ip_to_addr(&home);

	start_externals("240.9.0.0/20");
	ck_assert_uint_eq(rows.cluster_count, 3);
	pods = row_numbered(200);
	externals = row_numbered(200 | MK_CLUSTER_EXTERNAL);
	ours = row_numbered(WEST | MK_CLUSTER_EXTERNAL);
	ck_assert(pods && externals && ours && rows.states[0].has_external_view);
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
	own.is_live = is_kept;
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
	ck_assert(rows.states[0].is_usable && !rows.states[0].has_external_view);
	ck_assert_uint_eq(rows.cluster_count, 2);
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
	own.by_border = true;
	own.node = "n1";
	own.borders = borders;
	own.border_count = count;
}

static const char *border_for(const char *node)
{
	own.node = node;
	compile();
	ck_assert_ptr_nonnull(rows.border);
	for (size_t i = 0; i < own.border_count; i++)
		if (strcmp(borders[i].node, rows.border) == 0)
			return borders[i].node;
	ck_abort_msg("'%s' is no border node", rows.border);
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
	ck_assert(rows.states[0].is_usable);
	ck_assert_str_eq(rows.border, "b1");
	ck_assert_uint_eq(rows.target_count, 2);
	ck_assert_str_eq(rows.targets[1].node, "b1");
	ck_assert_uint_eq(rows.targets[1].peer, peer_count);
	ck_assert_uint_eq(rows.nodes[0].key.cluster, WEST);
	ck_assert_uint_eq(rows.nodes[0].key.index, MK_CLUSTER_BY_INDEX);
	ck_assert_uint_eq(rows.nodes[0].hop, 0x10101);
	ck_assert_uint_ne(rows.nodes[1].key.cluster, WEST);
	ck_assert_uint_eq(rows.clusters[0].row.flags, MK_CLUSTER_BY_BORDER);
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
		own.border_count = 3;
		if (before != borders[3].node)
			ck_assert_ptr_eq(border_for(name), before);
		own.border_count = 4;
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
	own.is_live = is_not;
	own.ctx = first;
	second = border_for("n1");
	ck_assert_ptr_ne(second, first);
	own.ctx = "b1 b2 b3";
	ck_assert_ptr_eq(border_for("n1"), first);
}
END_TEST

START_TEST(test_border_unknown)
{
	start_borders(0);
	compile();
	ck_assert(!rows.states[0].is_usable && !rows.border);
	check_reason(0, "no node with the label networking.monokube.io/border");
	ck_assert_uint_eq(rows.clusters[0].row.flags, MK_CLUSTER_BY_BORDER);
}
END_TEST

/* The border node encrypts. This node needs no WireGuard: it opens no tunnel, and sends nothing. */
START_TEST(test_border_encrypts)
{
	start_borders(1);
	own.no_wireguard = "the kernel of this node has no WireGuard";
	peers[0].encrypts = true;
	add_key(&nodes[0], 8);
	compile();
	check_reason(0, NULL);
	ck_assert(rows.states[0].is_usable && !rows.states[0].cannot_encrypt);
	ck_assert_uint_eq(rows.target_count, 2);
	ck_assert_uint_eq(rows.fdb_count, 0);
	check_tunnels("");
	ck_assert_uint_eq(rows.carriers[0].number, 9 | MK_CLUSTER_CARRIER_ENCRYPTED);
}
END_TEST

UNIT_SUITE("clusters")
{
	TCase *tcase = unit_case(suite, "numbers", setup, teardown);

	tcase_add_test(tcase, test_number);
	tcase_add_test(tcase, test_computed_number);
	tcase = unit_case(suite, "rows", setup, teardown);
	tcase_add_test(tcase, test_direct);
	tcase_add_test(tcase, test_host_bits_of_view);
	tcase_add_test(tcase, test_other_family);
	tcase_add_test(tcase, test_mtu);
	tcase_add_test(tcase, test_path_mtu);
	tcase_add_test(tcase, test_encrypted);
	tcase_add_test(tcase, test_roaming);
	tcase_add_test(tcase, test_cannot_encrypt);
	tcase_add_test(tcase, test_keys);
	tcase_add_test(tcase, test_encrypted_beside_hub);
	tcase = unit_case(suite, "IPv6", setup_ipv6, teardown);
	tcase_add_test(tcase, test_ipv6);
	tcase = unit_case(suite, "nodes", setup, teardown);
	tcase_add_test(tcase, test_sizes);
	tcase_add_test(tcase, test_live_spread);
	tcase_add_test(tcase, test_places);
	tcase_add_loop_test(tcase, test_live, 0, (int)MK_ARRAY_SIZE(live_rows));
	tcase_add_test(tcase, test_without_number);
	tcase_add_test(tcase, test_many_numbers);
	tcase_add_test(tcase, test_too_many_numbers);
	tcase_add_test(tcase, test_stable_hops);
	tcase_add_test(tcase, test_left_out);
	tcase_add_test(tcase, test_gone_nodes);
	tcase_add_test(tcase, test_too_many_nodes);
	tcase = unit_case(suite, "conflicts", setup, teardown);
	tcase_add_test(tcase, test_same_number);
	tcase_add_test(tcase, test_same_view);
	tcase_add_loop_test(tcase, test_view, 0, (int)MK_ARRAY_SIZE(views));
	tcase_add_test(tcase, test_not_published);
	tcase_add_test(tcase, test_too_many_peers);
	tcase = unit_case(suite, "external addresses", setup, teardown);
	tcase_add_test(tcase, test_externals);
	tcase_add_test(tcase, test_external_places);
	tcase_add_loop_test(tcase, test_external_view, 0, (int)MK_ARRAY_SIZE(external_views));
	tcase = unit_case(suite, "hub", setup, teardown);
	tcase_add_test(tcase, test_hub);
	tcase_add_test(tcase, test_path_direct);
	tcase_add_test(tcase, test_path_auto);
	tcase_add_test(tcase, test_path_auto_without_hub);
	tcase_add_test(tcase, test_path_alike);
	tcase_add_test(tcase, test_path_direct_without_a_node);
	tcase_add_test(tcase, test_path_hub);
	tcase_add_test(tcase, test_path_of_another);
	tcase_add_test(tcase, test_wrong_via);
	tcase = unit_case(suite, "border nodes", setup, teardown);
	tcase_add_test(tcase, test_border);
	tcase_add_test(tcase, test_border_shares);
	tcase_add_test(tcase, test_border_live);
	tcase_add_test(tcase, test_border_unknown);
	tcase_add_test(tcase, test_border_encrypts);
}
