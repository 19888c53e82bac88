// SPDX-License-Identifier: Apache-2.0
/* What policy tables say about a flow: rows of tables, written by hand, and the answer. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <string.h>

#include "base/cleanup.h"
#include "datapath/policy/ask.h"
#include "unit/unit.h"

#define SET	    (MK_SET_ISOLATES | 77)
#define BLOCKS_SET  (MK_SET_ISOLATES | MK_SET_HAS_BLOCKS | 78)
#define CLUSTER_SET 79ULL /* only ClusterNetworkPolicies */
#define WEB	    1001ULL /* classes */
#define DB	    1002ULL

/* Tables of ports. */
#define NOTHING	    11ULL
#define ONLY_8080   12ULL
#define ADMIN_DENY  13ULL
#define ADMIN_PASS  14ULL
#define BASE_DENY   15ULL
#define ALL	    16ULL
#define ADMIN_FIRST 17ULL
#define CHAIN_5	    18ULL /* chain 5 by rule 2 */
#define CHAIN_6	    19ULL /* chain 6 by rule 1 */
#define CHAIN_SET   (MK_SET_HAS_CHAINS | MK_SET_HAS_BLOCKS | 80)

static struct mk_policy_maps maps;
static struct mk_error err;

static void make(struct mk_table *table, const char *name, enum bpf_map_type type, size_t key,
		 size_t value)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_NO_PREALLOC);
	int fd = bpf_map_create(type, NULL, (__u32)key, (__u32)value, 1024, &options);

	ck_assert_msg(fd >= 0, "%s (needs root)", strerror(errno));
	ck_ok(mk_table_init(table, name, fd, &err));
}

static void put_identity(const char *address, uint64_t class_id, const char *counts_as)
{
	const struct mk_addr addr = addr_of(address);
	struct mk_policy_identity identity = { .class_id = class_id };

	if (counts_as)
		identity.counts_as = addr_of(counts_as);
	ck_ok(mk_table_put(&maps.identities, &addr, &identity, &err));
}

static void put_peer(uint64_t set, uint64_t peer, uint64_t table)
{
	const struct mk_policy_peer_key key = { .set = set, .peer = peer };
	const struct mk_policy_peer value = { .table = table };

	ck_ok(mk_table_put(&maps.peers, &key, &value, &err));
}

static void put_block(uint64_t set, const char *block, uint64_t table)
{
	const struct mk_cidr cidr = cidr_of(block);
	struct mk_policy_block_key key = { .prefix_bits = MK_POLICY_SET_BITS + cidr.prefix_bits,
					   .addr = mk_ip_to_addr(&cidr.ip) };
	const struct mk_policy_peer value = { .table = table };

	memcpy(key.set, &set, sizeof(key.set));
	ck_ok(mk_table_put(&maps.blocks, &key, &value, &err));
}

/* @bits: of protocol and port. */
static void put_ports(uint64_t table, unsigned bits, uint8_t proto, uint16_t port,
		      struct mk_policy_verdict verdict)
{
	struct mk_policy_port_key key = { .prefix_bits = MK_POLICY_TABLE_BITS + bits,
					  .proto = proto };
	const struct mk_policy_port value = { .in_force = verdict };
	const __be16 wire = htons(port);

	memcpy(key.table, &table, sizeof(key.table));
	memcpy(key.port, &wire, sizeof(key.port));
	ck_ok(mk_table_put(&maps.ports, &key, &value, &err));
}

static void put_chain(uint64_t table, uint16_t chain, uint16_t rule)
{
	struct mk_policy_port_key key = { .prefix_bits = MK_POLICY_TABLE_BITS };
	const struct mk_policy_port value = { .chain = chain, .chain_rule = rule };

	memcpy(key.table, &table, sizeof(key.table));
	ck_ok(mk_table_put(&maps.ports, &key, &value, &err));
}

static void put_tables(void)
{
	put_chain(CHAIN_5, 5, 2);
	put_chain(CHAIN_6, 6, 1);
	put_ports(NOTHING, 0, 0, 0, (struct mk_policy_verdict){ 0 });
	put_ports(ONLY_8080, 0, 0, 0, (struct mk_policy_verdict){ 0 });
	put_ports(ONLY_8080, 24, IPPROTO_TCP, 8080, (struct mk_policy_verdict){ .allows = 2 });
	put_ports(ALL, 0, 0, 0, (struct mk_policy_verdict){ .allows = 3 });
	put_ports(ADMIN_DENY, 0, 0, 0,
		  (struct mk_policy_verdict){
			  .admin = 4, .admin_action = MK_POLICY_DENY, .allows = 3 });
	put_ports(ADMIN_FIRST, 0, 0, 0,
		  (struct mk_policy_verdict){ .admin = 1, .admin_action = MK_POLICY_ACCEPT });
	put_ports(ADMIN_PASS, 0, 0, 0,
		  (struct mk_policy_verdict){ .admin = 1,
					      .admin_action = MK_POLICY_PASS,
					      .baseline = 9,
					      .baseline_action = MK_POLICY_ACCEPT });
	put_ports(BASE_DENY, 0, 0, 0,
		  (struct mk_policy_verdict){ .baseline = 8, .baseline_action = MK_POLICY_DENY });
}

static void setup(void)
{
	make(&maps.identities, "policy_identities", BPF_MAP_TYPE_HASH, sizeof(struct mk_addr),
	     sizeof(struct mk_policy_identity));
	make(&maps.peers, "policy_peers", BPF_MAP_TYPE_HASH, sizeof(struct mk_policy_peer_key),
	     sizeof(struct mk_policy_peer));
	make(&maps.blocks, "policy_blocks", BPF_MAP_TYPE_LPM_TRIE,
	     sizeof(struct mk_policy_block_key), sizeof(struct mk_policy_peer));
	make(&maps.ports, "policy_ports", BPF_MAP_TYPE_LPM_TRIE, sizeof(struct mk_policy_port_key),
	     sizeof(struct mk_policy_port));
	put_tables();
	put_identity("fd00::2", WEB, NULL);
	put_identity("fd00::3", DB, NULL);
	put_identity("fd01::1", 0, "2001:db8::1"); /* a node's address in the overlay */
	put_peer(SET, MK_PEER_ANY_POD, NOTHING);
	put_peer(SET, MK_PEER_UNKNOWN_POD, NOTHING);
	put_peer(SET, WEB, ONLY_8080);
	put_block(SET, "::/0", NOTHING);
	put_peer(BLOCKS_SET, MK_PEER_ANY_POD, NOTHING);
	put_peer(BLOCKS_SET, MK_PEER_UNKNOWN_POD, ADMIN_DENY);
	put_peer(BLOCKS_SET, WEB, ADMIN_DENY);
	put_block(BLOCKS_SET, "::/0", NOTHING);
	put_block(BLOCKS_SET, "2001:db8::/32", ONLY_8080);
	put_block(BLOCKS_SET, "2001:db8:1::/48", NOTHING);
	put_block(BLOCKS_SET, "fd00::/126", ADMIN_FIRST);
	put_peer(CLUSTER_SET, MK_PEER_ANY_POD, NOTHING);
	put_peer(CLUSTER_SET, MK_PEER_UNKNOWN_POD, BASE_DENY);
	put_peer(CLUSTER_SET, WEB, ADMIN_PASS);
	put_peer(CLUSTER_SET, DB, BASE_DENY);
	put_block(CLUSTER_SET, "::/0", ALL);
	put_peer(CHAIN_SET, MK_PEER_ANY_POD, NOTHING);
	put_peer(CHAIN_SET, WEB, CHAIN_5);
	put_peer(CHAIN_SET, MK_PEER_UNKNOWN_POD, CHAIN_6);
	put_block(CHAIN_SET, "::/0", CHAIN_5);
	put_block(CHAIN_SET, "fd00::/126", CHAIN_6);
	put_block(CHAIN_SET, "fd00::10/124", ADMIN_DENY);
}

static void teardown(void)
{
	mk_policy_maps_close(&maps);
}

static const struct row {
	const char *what;
	uint64_t set;
	const char *peer;
	uint8_t proto;
	uint16_t port;
	bool unproved, in_pod_range, itself;
	bool allowed;
	enum mk_policy_tier tier;
	uint16_t rule, chain;
	bool lacks_entry;
} rows[] = {
	{ .what = "open", .set = MK_SET_OPEN, .peer = "fd00::3", .port = 1, .allowed = true },
	{ .what = "pending", .set = MK_SET_PENDING, .peer = "fd00::2", .port = 8080 },
	{ .what = "the class has the port",
	  .set = SET,
	  .peer = "fd00::2",
	  .port = 8080,
	  .allowed = true,
	  .tier = MK_TIER_NETWORK_POLICY,
	  .rule = 2 },
	{ .what = "another port",
	  .set = SET,
	  .peer = "fd00::2",
	  .port = 8081,
	  .tier = MK_TIER_NETWORK_POLICY },
	{ .what = "another protocol",
	  .set = SET,
	  .peer = "fd00::2",
	  .proto = IPPROTO_UDP,
	  .port = 8080,
	  .tier = MK_TIER_NETWORK_POLICY },
	{ .what = "a ping",
	  .set = SET,
	  .peer = "fd00::2",
	  .proto = IPPROTO_ICMPV6,
	  .tier = MK_TIER_NETWORK_POLICY },
	{ .what = "another class",
	  .set = SET,
	  .peer = "fd00::3",
	  .port = 8080,
	  .tier = MK_TIER_NETWORK_POLICY },
	{ .what = "by an uplink a pod's address proves nothing",
	  .set = SET,
	  .peer = "fd00::2",
	  .port = 8080,
	  .unproved = true,
	  .in_pod_range = true,
	  .tier = MK_TIER_NETWORK_POLICY },
	{ .what = "an unknown pod",
	  .set = SET,
	  .peer = "fd00::9",
	  .port = 8080,
	  .in_pod_range = true,
	  .tier = MK_TIER_NETWORK_POLICY },
	{ .what = "a pod reaches itself",
	  .set = SET,
	  .peer = "fd00::3",
	  .port = 1,
	  .itself = true,
	  .allowed = true,
	  .tier = MK_TIER_NETWORK_POLICY },
	{ .what = "an address of a block",
	  .set = BLOCKS_SET,
	  .peer = "2001:db8::7",
	  .port = 8080,
	  .allowed = true,
	  .tier = MK_TIER_NETWORK_POLICY,
	  .rule = 2 },
	{ .what = "except",
	  .set = BLOCKS_SET,
	  .peer = "2001:db8:1::7",
	  .port = 8080,
	  .tier = MK_TIER_NETWORK_POLICY },
	{ .what = "outside",
	  .set = BLOCKS_SET,
	  .peer = "2001:db9::7",
	  .port = 8080,
	  .tier = MK_TIER_NETWORK_POLICY },
	{ .what = "an overlay address counts as its node",
	  .set = BLOCKS_SET,
	  .peer = "fd01::1",
	  .port = 8080,
	  .allowed = true,
	  .tier = MK_TIER_NETWORK_POLICY,
	  .rule = 2 },
	{ .what = "class and block: the lower number",
	  .set = BLOCKS_SET,
	  .peer = "fd00::2",
	  .port = 1,
	  .allowed = true,
	  .tier = MK_TIER_ADMIN,
	  .rule = 1 },
	{ .what = "an unknown pod, and no block",
	  .set = BLOCKS_SET,
	  .peer = "fd00::9",
	  .port = 1,
	  .in_pod_range = true,
	  .tier = MK_TIER_ADMIN,
	  .rule = 4 },
	{ .what = "a Deny counts also for itself",
	  .set = BLOCKS_SET,
	  .peer = "fd00::9",
	  .in_pod_range = true,
	  .itself = true,
	  .tier = MK_TIER_ADMIN,
	  .rule = 4 },
	{ .what = "Pass, then Baseline",
	  .set = CLUSTER_SET,
	  .peer = "fd00::2",
	  .port = 1,
	  .allowed = true,
	  .tier = MK_TIER_BASELINE,
	  .rule = 9 },
	{ .what = "Baseline denies",
	  .set = CLUSTER_SET,
	  .peer = "fd00::3",
	  .port = 1,
	  .tier = MK_TIER_BASELINE,
	  .rule = 8 },
	{ .what = "nothing decides",
	  .set = CLUSTER_SET,
	  .peer = "2001:db8::1",
	  .port = 1,
	  .allowed = true },
	{ .what = "the chain of an address",
	  .set = CHAIN_SET,
	  .peer = "2001:db8::1",
	  .allowed = true,
	  .chain = 5 },
	{ .what = "of a pod's chain and its address's, the first one",
	  .set = CHAIN_SET,
	  .peer = "fd00::2",
	  .allowed = true,
	  .chain = 6 },
	{ .what = "the chain of an unknown pod, not its address's",
	  .set = CHAIN_SET,
	  .peer = "fd00::99",
	  .in_pod_range = true,
	  .allowed = true,
	  .chain = 6 },
	{ .what = "no chain takes a pod's flow to itself",
	  .set = CHAIN_SET,
	  .peer = "fd00::2",
	  .itself = true,
	  .allowed = true },
	{ .what = "no chain takes a flow that is denied",
	  .set = CHAIN_SET,
	  .peer = "fd00::11",
	  .in_pod_range = true,
	  .tier = MK_TIER_ADMIN,
	  .rule = 4 },
	{ .what = "an emptied table denies",
	  .set = 4711,
	  .peer = "fd00::2",
	  .port = 1,
	  .lacks_entry = true },
};

static struct mk_policy_question question_of(const struct row *row)
{
	return (struct mk_policy_question){
		.set = row->set,
		.peer = addr_of(row->peer),
		.peer_unproved = row->unproved,
		.peer_in_pod_range = row->in_pod_range,
		.is_itself = row->itself,
		.proto = row->proto ?: IPPROTO_TCP,
		.port = row->port,
	};
}

START_TEST(test_row)
{
	const struct row *row = &rows[_i];
	const struct mk_policy_question question = question_of(row);
	struct mk_policy_answer answer;

	ck_ok(mk_policy_ask(&maps, &question, &answer, &err));
	ck_assert_msg(answer.allowed == row->allowed, "%s: allowed is %d", row->what,
		      answer.allowed);
	ck_assert_msg(answer.tier == row->tier && answer.rule == row->rule, "%s: tier %u, rule %u",
		      row->what, answer.tier, answer.rule);
	ck_assert_msg(answer.chain == row->chain && !answer.chain == !answer.chain_rule,
		      "%s: chain %u by rule %u", row->what, answer.chain, answer.chain_rule);
	ck_assert_msg(answer.lacks_entry == row->lacks_entry, "%s: lacks an entry", row->what);
}
END_TEST

static struct mk_policy_nearest nearest_of(const char *peer, uint16_t port)
{
	const struct mk_policy_question question = {
		.set = SET, .peer = addr_of(peer), .proto = IPPROTO_TCP, .port = port
	};
	struct mk_policy_nearest nearest;
	struct mk_policy_answer answer;

	ck_ok(mk_policy_ask(&maps, &question, &answer, &err));
	ck_ok(mk_policy_nearest(&maps, &question, &answer, &nearest, &err));
	return nearest;
}

START_TEST(test_nearest)
{
	struct mk_policy_nearest nearest = nearest_of("fd00::2", 81);

	ck_assert_uint_eq(nearest.rule, 2);
	ck_assert(nearest.matches_peer);
	nearest = nearest_of("fd00::3", 8080);
	ck_assert_uint_eq(nearest.rule, 2);
	ck_assert(!nearest.matches_peer);
	ck_assert_uint_eq(nearest_of("fd00::3", 81).rule, 0);
}
END_TEST

UNIT_SUITE("cli_policy_ask")
{
	TCase *tcase = unit_case(suite, "ask", setup, teardown);

	tcase_add_loop_test(tcase, test_row, 0, (int)MK_ARRAY_SIZE(rows));
	tcase_add_test(tcase, test_nearest);
}
