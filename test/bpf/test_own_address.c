// SPDX-License-Identifier: Apache-2.0
/* A process binds an address of its node. Pods on its node and on others see that address, and
 * their answers return the way that the flow came. */
#include <linux/icmp.h>
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <stdio.h>
#include <string.h>

#include "bpf/run.h"

#define OTHER_NODE "192.168.99.12"
#define OTHER_VTEP "10.18.0.2"

static const struct flow {
	const char *request, *answer;
	struct frame_options asks, answers;
} flows[] = {
	{ "tcp " OTHER_NODE ":50000 > 10.244.1.2:80",
	  "tcp 10.244.1.2:80 > " OTHER_NODE ":50000",
	  { .tcp_flags = SYN },
	  { .tcp_flags = SYN | ACK } },
	{ "tcp " OTHER_NODE ":50001 > 10.244.1.2:80", /* its session was lost */
	  "tcp 10.244.1.2:80 > " OTHER_NODE ":50001",
	  { .tcp_flags = ACK },
	  { .tcp_flags = ACK } },
	{ "udp " OTHER_NODE ":50000 > 10.244.1.2:53",
	  "udp 10.244.1.2:53 > " OTHER_NODE ":50000",
	  { 0 },
	  { 0 } },
	{ "sctp " OTHER_NODE ":50000 > 10.244.1.2:38412",
	  "sctp 10.244.1.2:38412 > " OTHER_NODE ":50000",
	  { .sctp_chunk = SCTP_INIT },
	  { .sctp_chunk = SCTP_INIT_ACK } },
	{ "icmp " OTHER_NODE " > 10.244.1.2 7",
	  "icmp 10.244.1.2 > " OTHER_NODE " 7",
	  { 0 },
	  { .echo_reply = true } },
};

static void setup(void)
{
	static const char *const local[] = { "10.244.1.3:8080", NULL },
				 *const remote[] = { "10.244.2.7:8080", NULL },
				 *const host[] = { "192.168.99.11:6443", NULL },
				 *const other_host[] = { OTHER_NODE ":6443", NULL };

	fixture_reset();
	fixture_peer_address(OTHER_NODE, OTHER_VTEP);
	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, local, 1, 1);
	fixture_service("tcp 10.96.0.11:80", MK_SCOPE_INTERNAL, 0, remote, 0, 1);
	fixture_service("tcp 192.168.99.11:30080", MK_SCOPE_INTERNAL, 0, local, 1, 1);
	fixture_service("tcp 192.168.99.11:30081", MK_SCOPE_INTERNAL, 0, remote, 0, 1);
	fixture_service("tcp 10.96.0.12:443", MK_SCOPE_INTERNAL, 0, host, 1, 1);
	fixture_service("tcp 10.96.0.13:443", MK_SCOPE_INTERNAL, 0, other_host, 0, 1);
}

static void expect_way_to_node(const struct frame *out, const char *name)
{
	__u8 mac[6];

	fixture_mac(OTHER_VTEP, mac);
	ck_assert_msg(memcmp(out->byte, mac, sizeof(mac)) == 0, "%s: to %s", name,
		      frame_mac_dest(out));
}

START_TEST(test_answered_by_overlay)
{
	const struct flow *flow = &flows[_i];
	struct frame in = frame_make(flow->request, &flow->asks), out;

	fixture_expect(flow->request, MK_HOOK_OVERLAY, &in, TO_POD, flow->request);
	in = frame_make(flow->answer, &flow->answers);
	out = fixture_expect(flow->answer, MK_HOOK_POD, &in, TO_OVERLAY, flow->answer);
	expect_way_to_node(&out, flow->answer);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* The session is established as usual, and stays while the flow continues. */
START_TEST(test_goes_on)
{
	const struct flow *flow = &flows[0];
	const struct frame_options ack = { .tcp_flags = ACK };
	struct frame in = frame_make(flow->request, &flow->asks);

	fixture_expect("SYN", MK_HOOK_OVERLAY, &in, TO_POD, flow->request);
	in = frame_make(flow->answer, &flow->answers);
	fixture_expect("SYN-ACK", MK_HOOK_POD, &in, TO_OVERLAY, flow->answer);
	in = frame_make(flow->request, &ack);
	fixture_expect("ACK", MK_HOOK_OVERLAY, &in, TO_POD, flow->request);
	in = frame_make(flow->answer, &ack);
	fixture_expect("data", MK_HOOK_POD, &in, TO_OVERLAY, flow->answer);
	ck_assert_uint_eq(fixture_count("sessions"), 2);
}
END_TEST

START_TEST(test_errors)
{
	struct frame in = frame_make(flows[2].request, NULL);
	struct frame_options about = { .quote = &in,
				       .icmp_type = ICMP_DEST_UNREACH,
				       .icmp_code = ICMP_PORT_UNREACH };
	struct frame error = frame_make("icmp 10.244.1.2 > " OTHER_NODE, &about), out;

	fixture_expect("a datagram", MK_HOOK_OVERLAY, &in, TO_POD, flows[2].request);
	out = fixture_expect("no such port", MK_HOOK_POD, &error, TO_OVERLAY, NULL);
	expect_way_to_node(&out, "no such port");
}
END_TEST

/* Flows that a pod opens go their usual way. */
START_TEST(test_others_leave_masqueraded)
{
	struct frame in = frame_make(flows[0].request, &flows[0].asks), out;

	fixture_expect("the node's", MK_HOOK_OVERLAY, &in, TO_POD, flows[0].request);
	in = frame_make("tcp 10.244.1.2:40000 > " OTHER_NODE ":22", NULL);
	out = fixture_expect("to a node", MK_HOOK_POD, &in, TO_UPLINK, NULL);
	ck_assert(strncmp(frame_flow(&out), "tcp 192.168.99.11:", 18) == 0);
	ck_assert_uint_eq(fixture_count("sessions") + fixture_count("sessions_young"), 2);
}
END_TEST

/* The node is gone: its address counts as outside the cluster. */
START_TEST(test_node_gone)
{
	struct frame in = frame_make(flows[0].request, &flows[0].asks);

	fixture_expect("SYN", MK_HOOK_OVERLAY, &in, TO_POD, flows[0].request);
	fixture_empty("peers");
	in = frame_make(flows[0].answer, &flows[0].answers);
	fixture_expect("SYN-ACK", MK_HOOK_POD, &in, TO_UPLINK, NULL);
}
END_TEST

/* Services, from the node's address: @to with the source address @seen, answered by @back as
 * @where. */
static const struct service {
	const char *to, *seen, *backend;
	enum where at;
	enum mk_hook back;
	enum where answered;
} services[] = {
	{ "10.96.0.10:80", "192.168.99.11", "10.244.1.3:8080", TO_POD, MK_HOOK_POD, TO_HOST },
	{ "10.96.0.11:80", "192.168.99.11", "10.244.2.7:8080", TO_OVERLAY, MK_HOOK_OVERLAY,
	  TO_HOST },
	{ "192.168.99.11:30080", "192.168.99.11", "10.244.1.3:8080", TO_POD, MK_HOOK_POD,
	  TO_LOOPBACK },
	{ "192.168.99.11:30081", "192.168.99.11", "10.244.2.7:8080", TO_OVERLAY, MK_HOOK_OVERLAY,
	  TO_LOOPBACK },
	/* a host treats its own address as a martian source */
	{ "10.96.0.12:443", "10.244.1.1", "192.168.99.11:6443", TO_HOST, MK_HOOK_HOST, TO_HOST },
};

START_TEST(test_services)
{
	const struct service *row = &services[_i];
	char text[96], wanted[96];
	struct frame in, out;
	unsigned port = 0;

	snprintf(text, sizeof(text), "tcp 192.168.99.11:40000 > %s", row->to);
	in = frame_make(text, NULL);
	out = fixture_expect(text, MK_HOOK_HOST, &in, row->at, NULL);
	port = (unsigned)atoi(strchr(frame_flow(&out), ':') + 1);
	snprintf(wanted, sizeof(wanted), "tcp %s:%u > %s", row->seen, port, row->backend);
	ck_assert_msg(strcmp(frame_flow(&out), wanted) == 0, "%s was seen as '%s'", text,
		      frame_flow(&out));
	check_source_port(row->seen, port);
	snprintf(text, sizeof(text), "tcp %s > %s:%u", row->backend, row->seen, port);
	snprintf(wanted, sizeof(wanted), "tcp %s > 192.168.99.11:40000", row->to);
	in = frame_make(text, &(struct frame_options){ .tcp_flags = SYN | ACK });
	fixture_expect(text, row->back, &in, row->answered, wanted);
}
END_TEST

/* A backend in another node's host network is reached by the uplink, and its answers come in
 * there. */
START_TEST(test_other_nodes_host)
{
	struct frame in = frame_make("tcp 192.168.99.11:40000 > 10.96.0.13:443", NULL), out;
	unsigned port = 0;
	char text[96];

	out = fixture_expect("request", MK_HOOK_HOST, &in, TO_UPLINK, NULL);
	ck_assert_int_eq(
		sscanf(frame_flow(&out), "tcp 192.168.99.11:%u > " OTHER_NODE ":6443", &port), 1);
	snprintf(text, sizeof(text), "tcp " OTHER_NODE ":6443 > 192.168.99.11:%u", port);
	in = frame_make(text, &(struct frame_options){ .tcp_flags = SYN | ACK });
	fixture_expect("answer", MK_HOOK_UPLINK, &in, TO_HOST,
		       "tcp 10.96.0.13:443 > 192.168.99.11:40000");
}
END_TEST

BPF_SUITE("own address")
{
	TCase *tcase = tcase_create("own address");

	tcase_add_unchecked_fixture(tcase, fixture_load_small, fixture_unload);
	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	tcase_add_loop_test(tcase, test_answered_by_overlay, 0, ROWS(flows));
	tcase_add_test(tcase, test_goes_on);
	tcase_add_test(tcase, test_errors);
	tcase_add_test(tcase, test_others_leave_masqueraded);
	tcase_add_test(tcase, test_node_gone);
	tcase_add_loop_test(tcase, test_services, 0, ROWS(services));
	tcase_add_test(tcase, test_other_nodes_host);
}
