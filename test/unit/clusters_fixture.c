// SPDX-License-Identifier: Apache-2.0
#include "unit/clusters_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "unit/unit.h"

static struct mk_error err;
static char names[40000][16];
struct clusters_fixture clusters_fixture;
static struct mk_cidr services;
static struct mk_ip own_node;

void clusters_setup(void)
{
	memset(fx.peers, 0, sizeof(fx.peers));
	memset(fx.nodes, 0, sizeof(fx.nodes));
	fx.rows = (struct mk_clusters_rows){ 0 };
	fx.peer_count = fx.node_count = 0;
	services = cidr_of("10.96.0.0/12");
	own_node = ip_of("192.168.1.1");
	fx.own = (struct mk_clusters_own){
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

void clusters_setup_ipv6(void)
{
	clusters_setup();
	services = cidr_of("fd00:96::/112");
	fx.own.family = AF_INET6;
	fx.own.cluster_cidr = cidr_of("fd00:244::/56");
}

void clusters_teardown(void)
{
	mk_clusters_rows_release(&fx.rows);
}

/* A peer with the pod range that all clusters have. */
struct mk_clusters_peer *add_peer(const char *name, uint32_t number, const char *view)
{
	struct mk_clusters_peer *peer = &fx.peers[fx.peer_count++];

	*peer = (struct mk_clusters_peer){
		.name = name,
		.is_published = true,
		.speaks_wire = true,
		.number = number,
		.home = mk_cidr_network(&fx.own.cluster_cidr),
	};
	if (view)
		peer->view = cidr_of(view);
	return peer;
}

/* A node of the last peer. */
struct mk_clusters_node *add_node(const char *pod_cidr, const char *address)
{
	struct mk_clusters_peer *peer = &fx.peers[fx.peer_count - 1];
	struct mk_clusters_node *node = &fx.nodes[fx.node_count];

	snprintf(names[fx.node_count], sizeof(names[0]), "n%05zu", fx.node_count);
	*node = (struct mk_clusters_node){ .name = names[fx.node_count] };
	if (pod_cidr)
		node->pod_cidr = cidr_of(pod_cidr);
	if (address)
		node->address = ip_of(address);
	if (!peer->nodes)
		peer->nodes = node;
	peer->node_count++;
	fx.node_count++;
	return node;
}

void compile(void)
{
	mk_clusters_rows_release(&fx.rows);
	ck_ok(mk_clusters_compile(&fx.own, fx.peers, fx.peer_count, &fx.rows, &err));
	ck_assert_uint_eq(fx.rows.state_count, fx.peer_count);
}

static const char *addr_text(const struct mk_addr *addr, char *buf)
{
	struct mk_ip ip = mk_ip_of_family(addr, fx.own.family);

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

bool is_place(size_t row)
{
	return row < fx.rows.node_count && fx.rows.nodes[row].key.index & MK_CLUSTER_BY_INDEX;
}

/* Print how many places of a cluster each node has: "node 20 #: 0*17 1*15". Returns the next
 * row. */
static size_t print_places(FILE *out, size_t first)
{
	uint32_t cluster = fx.rows.nodes[first].key.cluster;
	static size_t counts[0x10000];
	size_t end = first;

	memset(counts, 0, sizeof(counts));
	fprintf(out, "node %u #:", cluster);
	for (; is_place(end) && fx.rows.nodes[end].key.cluster == cluster; end++)
		counts[fx.rows.nodes[end].hop & 0xffff]++;
	for (size_t hop = 0; hop < MK_ARRAY_SIZE(counts); hop++)
		if (counts[hop])
			fprintf(out, " %zx*%zu", hop, counts[hop]);
	fprintf(out, "\n");
	return end;
}

static void print_nodes(FILE *out)
{
	for (size_t i = 0; i < fx.rows.node_count;) {
		if (is_place(i)) {
			i = print_places(out, i);
			continue;
		}
		fprintf(out, "node %u %u: %x\n", fx.rows.nodes[i].key.cluster,
			fx.rows.nodes[i].key.index, fx.rows.nodes[i].hop);
		i++;
	}
}

static void print_rows(FILE *out)
{
	char text[MK_IP_STRLEN], mac[MK_MAC_STRLEN];

	for (size_t i = 0; i < fx.rows.cluster_count; i++)
		print_cluster(out, &fx.rows.clusters[i]);
	print_nodes(out);
	for (size_t i = 0; i < fx.rows.carrier_count; i++) {
		struct mk_addr addr;
		struct mk_ip ip;

		memcpy(&addr, &fx.rows.carriers[i].addr, sizeof(addr));
		ip = mk_ip_from_addr(&addr);
		fprintf(out, "carrier %s: %u%s\n", mk_ip_format(&ip, text),
			fx.rows.carriers[i].number & MK_CLUSTER_NUMBER_MAX,
			fx.rows.carriers[i].number & MK_CLUSTER_CARRIER_ENCRYPTED ? " encrypted"
										  : "");
	}
	for (size_t i = 0; i < fx.rows.fdb_count; i++)
		fprintf(out, "fdb %s %s:%u%s\n", mk_mac_format(&fx.rows.fdb[i].mac, mac),
			mk_ip_format(&fx.rows.fdb[i].remote, text), fx.rows.fdb[i].port,
			fx.rows.fdb[i].is_encrypted ? " encrypted" : "");
}

void check_rows(const char *expected)
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
void check_targets(const char *expected)
{
	char text[512] = "", ip[MK_IP_STRLEN];

	for (size_t i = 0; i < fx.rows.target_count; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s %s", i ? ", " : "",
			 fx.peers[fx.rows.targets[i].peer].name,
			 mk_ip_format(&fx.rows.targets[i].ip, ip));
	ck_assert_str_eq(text, expected);
}

void check_reason(size_t peer, const char *part)
{
	const char *reason = fx.rows.states[peer].reason;

	if (!part) {
		ck_assert_msg(!reason, "peer %zu: %s", peer, reason);
		return;
	}
	ck_assert_msg(reason && strstr(reason, part), "peer %zu: expected '%s', found '%s'", peer,
		      part, reason ? reason : "nothing");
}

/* The hops of places of cluster @number, in @hops. */
void get_places(uint32_t number, uint32_t hops[MK_CLUSTER_PLACES])
{
	size_t count = 0;

	for (size_t i = 0; i < fx.rows.node_count; i++)
		if (is_place(i) && fx.rows.nodes[i].key.cluster == number) {
			ck_assert_uint_eq(fx.rows.nodes[i].key.index, MK_CLUSTER_BY_INDEX | count);
			hops[count++] = fx.rows.nodes[i].hop;
		}
	ck_assert_uint_eq(count, MK_CLUSTER_PLACES);
}

void add_key(struct mk_clusters_node *node, uint8_t first)
{
	node->wireguard = (struct mk_wg_public){ .key = { first }, .port = 51871 };
}

void check_tunnels(const char *expected)
{
	char text[512] = "", ip[MK_IP_STRLEN];

	for (size_t i = 0; i < fx.rows.tunnel_count; i++) {
		const struct mk_wg_peer *at = &fx.rows.tunnels[i];

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
