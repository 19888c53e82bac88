// SPDX-License-Identifier: Apache-2.0
/* Packets for local pods are delivered without the router: its slot of the chain is empty here.
 * Packets that need the router are dropped for that reason. */
#include <stdio.h>
#include <string.h>

#include "bpf/run.h"

#define VIP	  "10.96.0.10:80"
#define NODE_PORT "192.168.99.11:30080"
#define HOST_PORT "192.168.99.11:8080"

static void setup(void)
{
	static const char *const backends[] = { "10.244.1.3:8080", NULL };

	fixture_reset();
	fixture_service("tcp " VIP, MK_SCOPE_INTERNAL, 0, backends, 1, 1);
	fixture_service("tcp " NODE_PORT, MK_SCOPE_EXTERNAL, 0, backends, 1, 1);
	fixture_host_port("tcp " HOST_PORT, "10.244.1.3:8080");
}

/* ---- one packet ---------------------------------------------------------------------------- */

static const struct {
	const char *name;
	enum mk_hook hook;
	const char *flow, *seen;
	uint8_t ttl, ttl_after;
} delivered[] = {
	{ "pod to pod", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.244.1.3:8080",
	  "tcp 10.244.1.2:40000 > 10.244.1.3:8080", 64, 63 },
	{ "pod to pod, UDP", MK_HOOK_POD, "udp 10.244.1.2:40000 > 10.244.1.3:53",
	  "udp 10.244.1.2:40000 > 10.244.1.3:53", 64, 63 },
	{ "pod to pod, ping", MK_HOOK_POD, "icmp 10.244.1.2 > 10.244.1.3 5",
	  "icmp 10.244.1.2 > 10.244.1.3 5", 64, 63 },
	{ "pod to pod, a protocol without ports", MK_HOOK_POD, "esp 10.244.1.2:0 > 10.244.1.3:0",
	  NULL, 64, 63 },
	{ "pod to pod, its last hop", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.244.1.3:8080",
	  "tcp 10.244.1.2:40000 > 10.244.1.3:8080", 2, 1 },
	{ "pod to Service", MK_HOOK_POD, "tcp 10.244.1.2:40000 > " VIP,
	  "tcp 10.244.1.2:40000 > 10.244.1.3:8080", 64, 63 },
	{ "pod to host port", MK_HOOK_POD, "tcp 10.244.1.2:40000 > " HOST_PORT,
	  "tcp 10.244.1.2:40000 > 10.244.1.3:8080", 64, 63 },
	{ "another node's pod", MK_HOOK_OVERLAY, "tcp 10.244.2.7:40000 > 10.244.1.3:8080",
	  "tcp 10.244.2.7:40000 > 10.244.1.3:8080", 64, 63 },
	{ "the host", MK_HOOK_HOST, "tcp 10.18.0.1:40000 > 10.244.1.3:8080",
	  "tcp 10.18.0.1:40000 > 10.244.1.3:8080", 64, 64 },
	{ "the host: no hop", MK_HOOK_HOST, "tcp 10.18.0.1:40000 > 10.244.1.3:8080",
	  "tcp 10.18.0.1:40000 > 10.244.1.3:8080", 1, 1 },
	{ "the host forwards", MK_HOOK_HOST, "tcp 203.0.113.10:40000 > 10.244.1.3:8080",
	  "tcp 203.0.113.10:40000 > 10.244.1.3:8080", 63, 63 },
	{ "outside to NodePort", MK_HOOK_UPLINK, "tcp 203.0.113.10:40000 > " NODE_PORT,
	  "tcp 203.0.113.10:40000 > 10.244.1.3:8080", 64, 63 },
	{ "outside to host port", MK_HOOK_UPLINK, "tcp 203.0.113.10:40000 > " HOST_PORT,
	  "tcp 203.0.113.10:40000 > 10.244.1.3:8080", 64, 63 },
};

static struct frame frame_of_ttl(const char *flow, uint8_t ttl)
{
	return frame_make(flow, &(struct frame_options){ .ttl = ttl });
}

/* The first packet of a flow, and one that finds its session, if it has one. */
START_TEST(test_delivered)
{
	const char *name = delivered[_i].name;
	struct frame in = frame_of_ttl(delivered[_i].flow, delivered[_i].ttl), out;

	fixture_break_chain(MK_PROG_ROUTER);
	for (int i = 0; i < 2; i++) {
		out = fixture_expect(name, delivered[_i].hook, &in, TO_POD, delivered[_i].seen);
		ck_assert_msg(strcmp(frame_mac_dest(&out), "02:4d:0a:f4:01:03") == 0,
			      "%s: to MAC %s", name, frame_mac_dest(&out));
		ck_assert_msg(memcmp(out.byte + 6, "\x02\x4d\x0a\xf4\x01\xfe", 6) == 0,
			      "%s: from another MAC than the gateway's", name);
		ck_assert_msg(frame_ttl(&out) == delivered[_i].ttl_after, "%s: TTL %u", name,
			      frame_ttl(&out));
	}
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

static const struct {
	const char *name;
	enum mk_hook hook;
	const char *flow;
	uint8_t ttl;
	bool watched;
} routed[] = {
	{ "no hop left", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.244.1.3:8080", 1, false },
	{ "no hop left, from another node", MK_HOOK_OVERLAY,
	  "tcp 10.244.2.7:40000 > 10.244.1.3:8080", 1, false },
	{ "no such pod", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.244.1.77:8080", 64, false },
	{ "the virtual pod address", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.244.1.1:80", 64,
	  false },
	{ "the gateway", MK_HOOK_POD, "icmp 10.244.1.2 > 10.244.1.254 5", 64, false },
	{ "the gateway, from another node", MK_HOOK_OVERLAY,
	  "tcp 10.244.2.7:40000 > 10.244.1.254:22", 64, false },
	{ "another node's pod", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.244.2.7:8080", 64, false },
	{ "outside", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 203.0.113.10:443", 64, false },
	{ "the host", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 192.168.99.11:22", 64, false },
	{ "a Service's unknown port", MK_HOOK_UPLINK, "tcp 203.0.113.10:40000 > 192.0.2.1:81", 64,
	  false },
	{ "watched: pod to pod", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.244.1.3:8080", 64, true },
	{ "watched: another node's pod", MK_HOOK_OVERLAY, "tcp 10.244.2.7:40000 > 10.244.1.3:8080",
	  64, true },
	{ "watched: the host", MK_HOOK_HOST, "tcp 10.18.0.1:40000 > 10.244.1.3:8080", 64, true },
};

static void watch(void)
{
	const struct mk_runtime watched = { .monitored = 1, .host_ports = 1 };

	fixture_runtime(&watched);
}

static void expect_broken(const char *name, enum mk_hook hook, const struct frame *in)
{
	uint64_t before = fixture_drops(hook, MK_DROP_CHAIN_BROKEN);

	fixture_expect(name, hook, in, DROPPED, NULL);
	ck_assert_msg(fixture_drops(hook, MK_DROP_CHAIN_BROKEN) == before + 1,
		      "%s: not by the router", name);
}

/* Unchanged: these packets have no session. */
START_TEST(test_routed)
{
	const char *name = routed[_i].name;
	struct frame in = frame_of_ttl(routed[_i].flow, routed[_i].ttl), out;

	fixture_vip("192.0.2.1");
	fixture_break_chain(MK_PROG_ROUTER);
	if (routed[_i].watched)
		watch();
	expect_broken(name, routed[_i].hook, &in);
	fixture_send(routed[_i].hook, &in, &out);
	ck_assert_msg(in.length == out.length && memcmp(in.byte, out.byte, in.length) == 0,
		      "%s: changed before the router had it", name);
}
END_TEST

/* The same if a Service has changed the packet. */
START_TEST(test_watched)
{
	fixture_break_chain(MK_PROG_ROUTER);
	for (size_t i = 0; i < sizeof(delivered) / sizeof(delivered[0]); i++) {
		struct frame in = frame_of_ttl(delivered[i].flow, delivered[i].ttl);

		fixture_expect(delivered[i].name, delivered[i].hook, &in, TO_POD, NULL);
		watch();
		expect_broken(delivered[i].name, delivered[i].hook, &in);
		fixture_runtime(&(const struct mk_runtime){ .host_ports = 1 });
	}
}
END_TEST

/* ---- answers -------------------------------------------------------------------------------- */

START_TEST(test_answer_of_service)
{
	struct frame in = frame_make("tcp 10.244.1.2:40000 > " VIP, NULL), out;
	struct frame back = frame_make("tcp 10.244.1.3:8080 > 10.244.1.2:40000",
				       &(struct frame_options){ .tcp_flags = SYN | ACK });

	fixture_break_chain(MK_PROG_ROUTER);
	fixture_expect("request", MK_HOOK_POD, &in, TO_POD, NULL);
	out = fixture_expect("answer", MK_HOOK_POD, &back, TO_POD,
			     "tcp " VIP " > 10.244.1.2:40000");
	ck_assert_str_eq(frame_mac_dest(&out), "02:4d:0a:f4:01:02");
	ck_assert_uint_eq(frame_ttl(&out), 63);
}
END_TEST

/* An answer to masqueraded traffic, by nat and elb. */
START_TEST(test_answer_from_outside)
{
	struct frame in = frame_make("udp 10.244.1.2:40000 > 203.0.113.10:53", NULL), back, out;
	char flow[64];
	unsigned port;

	out = fixture_expect("request", MK_HOOK_POD, &in, TO_UPLINK, NULL);
	ck_assert_int_eq(sscanf(frame_flow(&out), "udp 192.168.99.11:%u", &port), 1);
	snprintf(flow, sizeof(flow), "udp 203.0.113.10:53 > 192.168.99.11:%u", port);
	back = frame_make(flow, NULL);
	fixture_break_chain(MK_PROG_ROUTER);
	fixture_expect("answer", MK_HOOK_UPLINK, &back, TO_POD,
		       "udp 203.0.113.10:53 > 10.244.1.2:40000");
}
END_TEST

/* For example a port mapping of the host, used by another pod. The host's stack has the connection,
 * so the answers also pass it, although they are for a pod. */
START_TEST(test_session_of_the_host)
{
	struct frame in = frame_make("tcp 10.244.1.2:40000 > 10.244.1.3:8080", NULL);
	struct frame back = frame_make("tcp 10.244.1.3:8080 > 10.244.1.2:40000",
				       &(struct frame_options){ .tcp_flags = SYN | ACK });

	fixture_expect("forwarded by the host", MK_HOOK_HOST, &in, TO_POD, NULL);
	fixture_expect("answer", MK_HOOK_POD, &back, TO_HOST, NULL);
	fixture_break_chain(MK_PROG_ROUTER);
	fixture_expect("on its way there", MK_HOOK_HOST, &in, TO_POD, NULL);
	expect_broken("answer, by the router", MK_HOOK_POD, &back);
}
END_TEST

BPF_SUITE("delivery to local pods")
{
	TCase *tcase = tcase_create("deliver");

	tcase_add_unchecked_fixture(tcase, fixture_load_small, fixture_unload);
	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	tcase_add_loop_test(tcase, test_delivered, 0, ROWS(delivered));
	tcase_add_loop_test(tcase, test_routed, 0, ROWS(routed));
	tcase_add_test(tcase, test_watched);
	tcase_add_test(tcase, test_answer_of_service);
	tcase_add_test(tcase, test_answer_from_outside);
	tcase_add_test(tcase, test_session_of_the_host);
}
