// SPDX-License-Identifier: Apache-2.0
/* loadBalancerSourceRanges: which clients may open a connection to a load-balancer address. */
#include <bpf/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/run.h"
#include "rows.h"

#define VIP	  "198.51.100.7:80"
#define RANGES_ID 600

static const char *const backend[] = { "10.244.1.3:8080", NULL };

/* "203.0.113.0/24" */
static void put_range(uint32_t ranges_id, const char *text)
{
	struct mk_source_range_key key = { .ranges_id = ranges_id };
	struct mk_cidr range;
	__u32 nothing = 0;
	unsigned bits;
	char net[32];

	ck_assert_int_eq(sscanf(text, "%31[0-9.]/%u", net, &bits), 2);
	range = family_cidr(net, bits);
	key.prefix_bits = 32u + range.prefix_bits;
	key.addr = mk_ip_to_addr(&range.ip);
	ck_assert_int_eq(row_update(fixture_map("source_ranges"), &key, &nothing, BPF_ANY), 0);
}

static void frontend(enum mk_scope scope, const char *const *backends, const char *const *ranges)
{
	struct mk_frontend service;

	fixture_service("tcp " VIP, scope, MK_FRONTEND_MASQUERADE, backends, 1, 1);
	service = fixture_get_service("tcp " VIP, scope);
	service.ranges_id = RANGES_ID;
	fixture_put_service("tcp " VIP, scope, &service);
	for (; *ranges; ranges++)
		put_range(RANGES_ID, *ranges);
}

static const struct {
	const char *name, *ranges[3];
	enum mk_hook hook;
	const char *client;
	bool let_in;
} rows[] = {
	{ "outside, in the range", { "203.0.113.0/24" }, MK_HOOK_UPLINK, "203.0.113.10", true },
	{ "outside, beside it", { "203.0.113.0/29" }, MK_HOOK_UPLINK, "203.0.113.10", false },
	{ "outside, in the second of two",
	  { "192.0.2.0/24", "203.0.113.10/32" },
	  MK_HOOK_UPLINK,
	  "203.0.113.10",
	  true },
	{ "outside, in neither of two",
	  { "192.0.2.0/24", "203.0.113.11/32" },
	  MK_HOOK_UPLINK,
	  "203.0.113.10",
	  false },
	{ "pod, in the range", { "10.244.1.2/32" }, MK_HOOK_POD, "10.244.1.2", true },
	{ "pod, not in the range", { "10.244.1.3/32" }, MK_HOOK_POD, "10.244.1.2", false },
	{ "host, its node's address in the range",
	  { "192.168.99.11/32" },
	  MK_HOOK_HOST,
	  "10.18.0.1",
	  true },
	{ "host, its node's address not in the range",
	  { "192.168.99.12/32" },
	  MK_HOOK_HOST,
	  "10.18.0.1",
	  false },
	{ "host, bound to an address",
	  { "192.168.99.11/32" },
	  MK_HOOK_HOST,
	  "192.168.99.11",
	  true },
	{ "host, from the load balancer's address",
	  { "198.51.100.7/32" },
	  MK_HOOK_HOST,
	  "198.51.100.7",
	  true },
};

START_TEST(test_client)
{
	enum mk_scope scope =
		rows[_i].hook == MK_HOOK_UPLINK ? MK_SCOPE_EXTERNAL : MK_SCOPE_INTERNAL;
	struct frame in, out;
	char flow[96];

	/* another Service's ranges do not count */
	put_range(RANGES_ID + 1, "0.0.0.0/0");
	frontend(scope, backend, rows[_i].ranges);
	snprintf(flow, sizeof(flow), "tcp %s:2000 > " VIP, rows[_i].client);
	in = frame_make(flow, NULL);
	out = fixture_expect(rows[_i].name, rows[_i].hook, &in, rows[_i].let_in ? TO_POD : DROPPED,
			     NULL);
	if (rows[_i].let_in)
		ck_assert_msg(strstr(frame_flow(&out), "> 10.244.1.3:8080"), "%s: '%s'",
			      rows[_i].name, frame_flow(&out));
	ck_assert_uint_eq(fixture_drops(rows[_i].hook, MK_DROP_SOURCE_RANGE), !rows[_i].let_in);
	ck_assert_uint_eq(fixture_drops_total(), !rows[_i].let_in);
	ck_assert_uint_eq(fixture_count("sessions"), rows[_i].let_in ? 2 : 0);
	ck_assert_uint_eq(fixture_count("sessions_young"), 0);
}
END_TEST

/* Packets are dropped silently even if the Service would be refused: a client outside the ranges
 * gets no answer. */
START_TEST(test_before_refusal)
{
	static const char *const ranges[] = { "192.0.2.0/24", NULL };
	struct frame in = frame_make("tcp 203.0.113.10:2000 > " VIP, NULL);

	frontend(MK_SCOPE_EXTERNAL, NULL, ranges);
	fixture_expect("no backends", MK_HOOK_UPLINK, &in, DROPPED, NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_SOURCE_RANGE), 1);
}
END_TEST

/* Ranges apply only to new connections. */
START_TEST(test_established_goes_on)
{
	static const char *const open[] = { "203.0.113.0/24", NULL };
	const struct frame_options ack = { .tcp_flags = ACK };
	struct frame in = frame_make("tcp 203.0.113.10:2000 > " VIP, NULL);
	struct frame more = frame_make("tcp 203.0.113.10:2000 > " VIP, &ack);
	struct mk_frontend service;

	frontend(MK_SCOPE_EXTERNAL, backend, open);
	fixture_expect("let in", MK_HOOK_UPLINK, &in, TO_POD, NULL);
	service = fixture_get_service("tcp " VIP, MK_SCOPE_EXTERNAL);
	service.ranges_id = RANGES_ID + 1;
	fixture_put_service("tcp " VIP, MK_SCOPE_EXTERNAL, &service);
	fixture_expect("goes on", MK_HOOK_UPLINK, &more, TO_POD, NULL);
	in = frame_make("tcp 203.0.113.10:2001 > " VIP, NULL);
	fixture_expect("a new one", MK_HOOK_UPLINK, &in, DROPPED, NULL);
}
END_TEST

BPF_SUITE("source_ranges")
{
	TCase *tcase = bpf_case(suite, "source_ranges");

	tcase_add_loop_test(tcase, test_client, 0, ROWS(rows));
	tcase_add_test(tcase, test_before_refusal);
	tcase_add_test(tcase, test_established_goes_on);
}
