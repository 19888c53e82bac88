// SPDX-License-Identifier: Apache-2.0
/* A cluster of 5,000 nodes: routes by node number, and routes that are found only by prefix. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/run.h"
#include "datapath/datapath_internal.h"
#include "rows.h"

enum { NODES = 5000, ROOM = NODES + 16 };

/* The numbers of rows' IPv6 addresses have a gap after each 256th, and end with the table. */
#define NUMBERED (family_is6() ? 256u : (unsigned)NODES)

static struct mk_route_entry *entries;
static size_t count;

static void add(const char *prefix, enum mk_route_type type, const char *vtep)
{
	struct mk_route_entry *entry = &entries[count++];
	unsigned bits;
	char net[32];

	*entry = (struct mk_route_entry){ .route.type = (__u8)type };
	ck_assert_int_eq(sscanf(prefix, "%31[0-9.]/%u", net, &bits), 2);
	entry->dst = family_cidr(net, bits);
	if (vtep)
		fixture_mac(vtep, entry->route.vtep_mac);
}

/* Node @number has 10.(128 + number / 256).(number % 256).0/24 and VTEP 10.18.(16 + number /
 * 256).(number % 256). */
static void add_nodes(void)
{
	for (unsigned i = 0; i < NODES; i++) {
		char prefix[32], vtep[32];

		snprintf(prefix, sizeof(prefix), "10.%u.%u.0/24", 128 + i / 256, i % 256);
		snprintf(vtep, sizeof(vtep), "10.18.%u.%u", 16 + i / 256, i % 256);
		add(prefix, MK_ROUTE_OVERLAY, vtep);
	}
}

/* Write the routes into both maps, or only into the map by number. */
static void put(bool by_prefix)
{
	struct mk_route *slots = calloc(MK_NODE_ROUTES, sizeof(*slots));
	struct mk_table table;
	struct mk_error err = { 0 };

	ck_assert_ptr_nonnull(slots);
	ck_assert_int_eq(mk_table_init(&table, "node_routes", fixture_map("node_routes"), &err), 0);
	node_routes_make(fixture_node(), entries, count, slots);
	ck_assert_int_ge(node_routes_put(&table, slots, &err), 0);
	free(slots);
	for (size_t i = 0; by_prefix && i < count; i++) {
		struct mk_route_key key = { .prefix_bits = entries[i].dst.prefix_bits,
					    .addr = mk_ip_to_addr(&entries[i].dst.ip) };

		ck_assert_int_eq(
			row_update(fixture_map("routes"), &key, &entries[i].route, BPF_ANY), 0);
	}
}

static void begin(void)
{
	entries = calloc(ROOM, sizeof(*entries));
	ck_assert_ptr_nonnull(entries);
	count = 0;
	add_nodes();
}

static void expect_way(const char *name, const char *dest, enum where where, const char *vtep)
{
	char flow[64];
	struct frame in, out;
	__u8 mac[6];

	snprintf(flow, sizeof(flow), "udp 10.244.1.2:40000 > %s:53", dest);
	in = frame_make(flow, NULL);
	out = fixture_expect(name, MK_HOOK_POD, &in, where, NULL);
	if (!vtep)
		return;
	fixture_mac(vtep, mac);
	ck_assert_msg(memcmp(out.byte, mac, sizeof(mac)) == 0, "%s: to MAC %s", name,
		      frame_mac_dest(&out));
}

/* A node's number is enough: no prefix is looked up. */
START_TEST(test_every_node)
{
	begin();
	put(false);
	for (unsigned i = 0; i < NUMBERED; i++) {
		char dest[32], vtep[32];

		snprintf(dest, sizeof(dest), "10.%u.%u.%u", 128 + i / 256, i % 256, 1 + i % 254);
		snprintf(vtep, sizeof(vtep), "10.18.%u.%u", 16 + i / 256, i % 256);
		expect_way(dest, dest, TO_OVERLAY, vtep);
	}
}
END_TEST

static const struct {
	const char *name, *dest;
	enum where where;
	const char *vtep;
} rows[] = {
	{ "a number", "10.130.7.9", TO_OVERLAY, "10.18.18.7" },
	{ "a larger pod CIDR, its first part", "10.200.2.1", TO_OVERLAY, "10.18.100.1" },
	{ "a larger pod CIDR, its second part", "10.200.3.1", TO_OVERLAY, "10.18.100.1" },
	{ "a smaller pod CIDR", "10.201.1.200", TO_OVERLAY, "10.18.100.2" },
	{ "beside a smaller pod CIDR", "10.201.1.100", DROPPED, NULL },
	{ "an address of this host inside a node's pod CIDR", "10.130.9.9", TO_HOST, NULL },
	{ "its neighbour", "10.130.9.8", TO_OVERLAY, "10.18.18.9" },
	{ "no node's", "10.210.1.1", DROPPED, NULL },
};

START_TEST(test_prefixes)
{
	begin();
	add("10.128.0.0/9", MK_ROUTE_DROP, NULL);
	add("10.200.2.0/23", MK_ROUTE_OVERLAY, "10.18.100.1");
	add("10.201.1.128/25", MK_ROUTE_OVERLAY, "10.18.100.2");
	add("10.130.9.9/32", MK_ROUTE_HOST, NULL);
	put(true);
	expect_way(rows[_i].name, rows[_i].dest, rows[_i].where, rows[_i].vtep);
}
END_TEST

/* A written route replaces the earlier one completely. */
START_TEST(test_node_gone)
{
	begin();
	add("10.128.0.0/9", MK_ROUTE_DROP, NULL);
	put(true);
	expect_way("10.128.7.9", "10.128.7.9", TO_OVERLAY, "10.18.16.7");
	fixture_empty("routes");
	memmove(&entries[0], &entries[8], (--count - 7) * sizeof(*entries));
	count -= 7;
	put(true);
	expect_way("10.128.7.9", "10.128.7.9", DROPPED, NULL);
	expect_way("10.128.8.9", "10.128.8.9", TO_OVERLAY, "10.18.16.8");
}
END_TEST

BPF_SUITE("nodes by number")
{
	TCase *tcase = tcase_create("nodes");

	tcase_add_unchecked_fixture(tcase, fixture_wide_cluster, NULL);
	tcase_add_unchecked_fixture(tcase, fixture_load, fixture_unload);
	tcase_add_checked_fixture(tcase, fixture_reset, NULL);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	tcase_add_test(tcase, test_every_node);
	tcase_add_loop_test(tcase, test_prefixes, 0, ROWS(rows));
	tcase_add_test(tcase, test_node_gone);
}
