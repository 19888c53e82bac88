// SPDX-License-Identifier: Apache-2.0
/* A node whose pods leave the cluster with their own source, because the network routes the pod CIDR
 * to the node (masqueradeIPv6: false). */
#include <stdio.h>

#include "bpf/run.h"

static const struct frame_options payload = { .payload_bytes = 16 };

static void expect(const char *name, enum mk_hook hook, const char *flow, enum where where,
		   const char *seen)
{
	struct frame in = frame_make(flow, &payload);

	fixture_expect(name, hook, &in, where, seen);
}

static void expect_no_session(void)
{
	ck_assert_uint_eq(fixture_count("nat_sessions_young") + fixture_count("nat_sessions"), 0);
	ck_assert_uint_eq(fixture_count("sessions_young") + fixture_count("sessions"), 0);
}

static const char *const flows[][2] = {
	{ "tcp 10.244.1.2:40000 > 203.0.113.10:443", "tcp 203.0.113.10:443 > 10.244.1.2:40000" },
	{ "udp 10.244.1.2:40000 > 203.0.113.10:53", "udp 203.0.113.10:53 > 10.244.1.2:40000" },
	{ "icmp 10.244.1.2 > 203.0.113.10 7", "icmp 203.0.113.10 > 10.244.1.2 7" },
	{ "esp 10.244.1.2:1 > 203.0.113.10:2", "esp 203.0.113.10:2 > 10.244.1.2:1" },
};

START_TEST(test_to_outside_and_back)
{
	const char *there = flows[_i][0], *back = flows[_i][1];

	expect("leaves", MK_HOOK_POD, there, TO_UPLINK, there);
	expect("answer, or a flow from outside", MK_HOOK_UPLINK, back, TO_POD, back);
	expect_no_session();
}
END_TEST

/* A later fragment waits for the first, although nothing is translated: policies need the ports. */
START_TEST(test_fragments)
{
	const struct frame_options options = { .payload_bytes = 64, .id = 7 };
	struct frame whole = frame_make(flows[1][_i], &options);
	const enum mk_hook hook = _i ? MK_HOOK_UPLINK : MK_HOOK_POD;
	const enum where where = _i ? TO_POD : TO_UPLINK;
	struct frame piece = frame_fragment(&whole, 0, 40);

	fixture_expect("the first one", hook, &piece, where, NULL);
	piece = frame_fragment(&whole, 40, 72);
	fixture_expect("a later one", hook, &piece, where, NULL);
	whole = frame_make(flows[1][_i], &(struct frame_options){ .payload_bytes = 64, .id = 8 });
	piece = frame_fragment(&whole, 40, 72);
	fixture_expect("a later one before the first", hook, &piece, WAITS, NULL);
	expect_no_session();
}
END_TEST

START_TEST(test_error_from_outside)
{
	struct frame sent = frame_make(flows[1][0], &payload), error;
	struct frame_options options = {
		.icmp_type = 3, .icmp_code = 1, .quote = &sent, .quote_bytes = 0
	};

	error = frame_make("icmp 203.0.113.1 > 10.244.1.2 0", &options);
	fixture_expect("error", MK_HOOK_UPLINK, &error, TO_POD, NULL);
}
END_TEST

START_TEST(test_no_such_pod)
{
	struct frame in = frame_make("tcp 203.0.113.10:40000 > 10.244.1.99:80", &payload), out;

	ck_assert_int_eq(fixture_send(MK_HOOK_UPLINK, &in, &out), TO_UPLINK);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_NO_POD), 1);
}
END_TEST

/* Packets that keep their source need no address of the uplink. */
START_TEST(test_uplink_without_address)
{
	const struct mk_datapath_links links = {
		.uplink_count = 1, .uplinks[0] = { .ifindex = 1, .mtu_bytes = 1500 }
	};

	fixture_links(&links);
	expect("leaves", MK_HOOK_POD, flows[0][0], TO_UPLINK, flows[0][0]);
}
END_TEST

/* The answer of another node would come by the overlay. */
START_TEST(test_to_other_node)
{
	struct frame in = frame_make("tcp 10.244.1.2:40000 > 192.168.99.12:22", &payload), out;
	char flow[64] = "";

	fixture_node_address("192.168.99.12");
	ck_assert_int_eq(fixture_send(MK_HOOK_POD, &in, &out), TO_UPLINK);
	snprintf(flow, sizeof(flow), "%.18s", frame_flow(&out));
	ck_assert_str_eq(flow, "tcp 192.168.99.11:");
}
END_TEST

START_TEST(test_source_of_the_cluster)
{
	struct frame in = frame_make("tcp 10.244.2.7:40000 > 10.244.1.2:80", &payload), out;

	ck_assert_int_eq(fixture_send(MK_HOOK_UPLINK, &in, &out), DROPPED);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_MARTIAN_SOURCE), 1);
}
END_TEST

static void load(void)
{
	fixture_keep_source();
	fixture_load_small();
}

BPF_SUITE("keeps_source")
{
	TCase *tcase = tcase_create("keeps source");

	tcase_add_unchecked_fixture(tcase, load, fixture_unload);
	tcase_add_checked_fixture(tcase, fixture_reset, NULL);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	tcase_add_loop_test(tcase, test_to_outside_and_back, 0, ROWS(flows));
	tcase_add_loop_test(tcase, test_fragments, 0, 2);
	tcase_add_test(tcase, test_error_from_outside);
	tcase_add_test(tcase, test_no_such_pod);
	tcase_add_test(tcase, test_uplink_without_address);
	tcase_add_test(tcase, test_to_other_node);
	tcase_add_test(tcase, test_source_of_the_cluster);
}
