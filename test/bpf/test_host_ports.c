// SPDX-License-Identifier: Apache-2.0
/* Host ports: a port of the node leads to one of its pods. All hooks with such traffic are tested,
 * and packets that must not match. */
#include <bpf/bpf.h>
#include <stdio.h>
#include <string.h>

#include "bpf/run.h"
#include "rows.h"

static const struct frame_options syn_ack = { .tcp_flags = SYN | ACK };
static const struct frame_options ack = { .tcp_flags = ACK, .payload_bytes = 9 };

/* A request before and after translation, and the same for its answer. The client keeps its
 * address. */
static const struct {
	const char *name, *port, *pod;
	enum mk_hook hook;
	const char *request, *request_seen, *answer;
	enum where answer_to;
	const char *answer_seen;
} flows[] = {
	{ "outside, any address", "tcp 0.0.0.0:8080", "10.244.1.3:80", MK_HOOK_UPLINK,
	  "tcp 203.0.113.10:40000 > 192.168.99.11:8080", "tcp 203.0.113.10:40000 > 10.244.1.3:80",
	  "tcp 10.244.1.3:80 > 203.0.113.10:40000", TO_UPLINK,
	  "tcp 192.168.99.11:8080 > 203.0.113.10:40000" },
	{ "outside, one address", "tcp 192.168.99.11:8080", "10.244.1.3:80", MK_HOOK_UPLINK,
	  "tcp 203.0.113.10:40000 > 192.168.99.11:8080", "tcp 203.0.113.10:40000 > 10.244.1.3:80",
	  "tcp 10.244.1.3:80 > 203.0.113.10:40000", TO_UPLINK,
	  "tcp 192.168.99.11:8080 > 203.0.113.10:40000" },
	{ "outside, UDP", "udp 0.0.0.0:8080", "10.244.1.3:80", MK_HOOK_UPLINK,
	  "udp 203.0.113.10:40000 > 192.168.99.11:8080", "udp 203.0.113.10:40000 > 10.244.1.3:80",
	  "udp 10.244.1.3:80 > 203.0.113.10:40000", TO_UPLINK,
	  "udp 192.168.99.11:8080 > 203.0.113.10:40000" },
	{ "outside, SCTP", "sctp 0.0.0.0:8080", "10.244.1.3:80", MK_HOOK_UPLINK,
	  "sctp 203.0.113.10:40000 > 192.168.99.11:8080", "sctp 203.0.113.10:40000 > 10.244.1.3:80",
	  "sctp 10.244.1.3:80 > 203.0.113.10:40000", TO_UPLINK,
	  "sctp 192.168.99.11:8080 > 203.0.113.10:40000" },
	{ "outside, in the range of masqueraded source ports", "tcp 0.0.0.0:50000", "10.244.1.3:80",
	  MK_HOOK_UPLINK, "tcp 203.0.113.10:40000 > 192.168.99.11:50000",
	  "tcp 203.0.113.10:40000 > 10.244.1.3:80", "tcp 10.244.1.3:80 > 203.0.113.10:40000",
	  TO_UPLINK, "tcp 192.168.99.11:50000 > 203.0.113.10:40000" },
	{ "another node, or a pod of it", "tcp 0.0.0.0:8080", "10.244.1.3:80", MK_HOOK_UPLINK,
	  "tcp 192.168.99.12:40000 > 192.168.99.11:8080", "tcp 192.168.99.12:40000 > 10.244.1.3:80",
	  "tcp 10.244.1.3:80 > 192.168.99.12:40000", TO_UPLINK,
	  "tcp 192.168.99.11:8080 > 192.168.99.12:40000" },
	{ "pod of this node, any address", "tcp 0.0.0.0:8080", "10.244.1.3:80", MK_HOOK_POD,
	  "tcp 10.244.1.2:40000 > 192.168.99.11:8080", "tcp 10.244.1.2:40000 > 10.244.1.3:80",
	  "tcp 10.244.1.3:80 > 10.244.1.2:40000", TO_POD,
	  "tcp 192.168.99.11:8080 > 10.244.1.2:40000" },
	{ "pod of this node, one address, UDP", "udp 192.168.99.11:8080", "10.244.1.3:80",
	  MK_HOOK_POD, "udp 10.244.1.2:40000 > 192.168.99.11:8080",
	  "udp 10.244.1.2:40000 > 10.244.1.3:80", "udp 10.244.1.3:80 > 10.244.1.2:40000", TO_POD,
	  "udp 192.168.99.11:8080 > 10.244.1.2:40000" },
};

START_TEST(test_flow)
{
	struct frame request = frame_make(flows[_i].request, NULL);
	struct frame answer = frame_make(flows[_i].answer, &syn_ack);
	struct frame more = frame_make(flows[_i].request, &ack);

	fixture_host_port(flows[_i].port, flows[_i].pod);
	for (int round = 0; round < 2; round++) {
		fixture_expect(flows[_i].name, flows[_i].hook, round ? &more : &request, TO_POD,
			       flows[_i].request_seen);
		fixture_expect(flows[_i].name, MK_HOOK_POD, &answer, flows[_i].answer_to,
			       flows[_i].answer_seen);
	}
	/* SCTP: these packets do not establish an association */
	ck_assert_msg(fixture_count(strncmp(flows[_i].port, "sctp", 4) == 0 ? "sessions_young"
									    : "sessions") == 2,
		      "%s: %u entries established", flows[_i].name, fixture_count("sessions"));
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* Flows whose source must change. */
static const struct {
	const char *name;
	enum mk_hook hook;
	const char *request, *source;
	enum where answer_to;
	const char *answer_seen;
} masqueraded[] = {
	{ "a pod that reaches itself", MK_HOOK_POD, "tcp 10.244.1.3:40000 > 192.168.99.11:8080",
	  "10.244.1.1", TO_POD, "tcp 192.168.99.11:8080 > 10.244.1.3:40000" },
	{ "the host", MK_HOOK_HOST, "tcp 192.168.99.11:40000 > 192.168.99.11:8080", "192.168.99.11",
	  TO_LOOPBACK, "tcp 192.168.99.11:8080 > 192.168.99.11:40000" },
	{ "the host at its loopback address", MK_HOOK_HOST, "tcp 127.0.0.1:40000 > 127.0.0.1:8080",
	  "10.244.1.1", TO_LOOPBACK, "tcp 127.0.0.1:8080 > 127.0.0.1:40000" },
	{ "the host at its loopback address from another", MK_HOOK_HOST,
	  "tcp 192.168.99.11:40000 > 127.0.0.1:8080", "192.168.99.11", TO_LOOPBACK,
	  "tcp 127.0.0.1:8080 > 192.168.99.11:40000" },
};

START_TEST(test_masqueraded)
{
	const char *name = masqueraded[_i].name;
	struct frame request = frame_make(masqueraded[_i].request, NULL), out;
	char seen[32], answer[96];
	unsigned port;

	fixture_host_port("tcp 0.0.0.0:8080", "10.244.1.3:80");
	out = fixture_expect(name, masqueraded[_i].hook, &request, TO_POD, NULL);
	ck_assert_msg(sscanf(frame_flow(&out), "tcp %31[0-9.]:%u > 10.244.1.3:80", seen, &port) ==
			      2,
		      "%s: saw '%s'", name, frame_flow(&out));
	ck_assert_msg(strcmp(seen, masqueraded[_i].source) == 0, "%s: source %s", name, seen);
	snprintf(answer, sizeof(answer), "tcp 10.244.1.3:80 > %s:%u", seen, port);
	out = frame_make(answer, &syn_ack);
	fixture_expect(name, MK_HOOK_POD, &out, masqueraded[_i].answer_to,
		       masqueraded[_i].answer_seen);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* tcp 0.0.0.0:8080 and tcp 127.0.0.1:8081 are mapped. These packets go where they would go without
 * a mapping. */
static const struct {
	const char *name;
	enum mk_hook hook;
	const char *flow;
	uint8_t tcp_flags;
	enum where to;
	const char *seen; /* NULL: unchanged, or not checked */
} others[] = {
	{ "another port", MK_HOOK_UPLINK, "tcp 203.0.113.10:40000 > 192.168.99.11:8082", SYN,
	  TO_HOST, "tcp 203.0.113.10:40000 > 192.168.99.11:8082" },
	{ "another protocol", MK_HOOK_UPLINK, "udp 203.0.113.10:40000 > 192.168.99.11:8080", 0,
	  TO_HOST, "udp 203.0.113.10:40000 > 192.168.99.11:8080" },
	{ "a ping", MK_HOOK_UPLINK, "icmp 203.0.113.10 > 192.168.99.11 8080", 0, TO_HOST,
	  "icmp 203.0.113.10 > 192.168.99.11 8080" },
	{ "an address that is not the host's, by the uplink", MK_HOOK_UPLINK,
	  "tcp 203.0.113.10:40000 > 192.168.99.77:8080", SYN, TO_HOST,
	  "tcp 203.0.113.10:40000 > 192.168.99.77:8080" },
	{ "another node's address, from a pod", MK_HOOK_POD,
	  "tcp 10.244.1.2:40000 > 192.168.99.12:8080", SYN, TO_UPLINK, NULL },
	{ "an outside address, from a pod", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 203.0.113.10:8080",
	  SYN, TO_UPLINK, NULL },
	{ "a pod's own port", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.244.1.3:8080", SYN, TO_POD,
	  "tcp 10.244.1.2:40000 > 10.244.1.3:8080" },
	{ "the overlay's address: an answer to the host", MK_HOOK_POD,
	  "tcp 10.244.1.2:53 > 10.18.0.1:8080", SYN, TO_HOST,
	  "tcp 10.244.1.2:53 > 10.18.0.1:8080" },
	{ "an answer to the host's own connection, by the uplink", MK_HOOK_UPLINK,
	  "tcp 203.0.113.10:443 > 192.168.99.11:8080", SYN | ACK, TO_HOST,
	  "tcp 203.0.113.10:443 > 192.168.99.11:8080" },
	{ "a segment of no connection", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 192.168.99.11:8080",
	  ACK, TO_HOST, "tcp 10.244.1.2:40000 > 192.168.99.11:8080" },
	{ "the loopback address, from outside", MK_HOOK_UPLINK,
	  "tcp 203.0.113.10:40000 > 127.0.0.1:8081", SYN, TO_HOST,
	  "tcp 203.0.113.10:40000 > 127.0.0.1:8081" },
	{ "the loopback address, from a pod", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 127.0.0.1:8081",
	  SYN, DROPPED, NULL },
	{ "the loopback address has its own mappings", MK_HOOK_UPLINK,
	  "tcp 203.0.113.10:40000 > 192.168.99.11:8081", SYN, TO_HOST,
	  "tcp 203.0.113.10:40000 > 192.168.99.11:8081" },
};

START_TEST(test_not_mapped)
{
	struct frame in = frame_make(others[_i].flow,
				     &(struct frame_options){ .tcp_flags = others[_i].tcp_flags });

	fixture_host_port("tcp 0.0.0.0:8080", "10.244.1.3:80");
	fixture_host_port("tcp 127.0.0.1:8081", "10.244.1.3:80");
	fixture_expect(others[_i].name, others[_i].hook, &in, others[_i].to, others[_i].seen);
	ck_assert_msg(fixture_count("sessions_young") == 0, "%s: a session was opened",
		      others[_i].name);
}
END_TEST

/* A mapping that is being removed opens no session. */
START_TEST(test_leaving)
{
	struct frame outside = frame_make("tcp 203.0.113.10:40000 > 192.168.99.11:8080", NULL);
	struct mk_host_port_key key;
	struct mk_host_port value;
	int map = fixture_map("host_ports");

	fixture_host_port("tcp 0.0.0.0:8080", "10.244.1.3:80");
	ck_assert_int_eq(row_next_key(map, NULL, &key), 0);
	ck_assert_int_eq(row_lookup(map, &key, &value), 0);
	value.leaving = 1;
	ck_assert_int_eq(row_update(map, &key, &value, BPF_EXIST), 0);
	fixture_expect("leaving", MK_HOOK_UPLINK, &outside, TO_HOST,
		       "tcp 203.0.113.10:40000 > 192.168.99.11:8080");
}
END_TEST

/* The same port with another address or protocol is another mapping. A mapping of one address has
 * priority over one of all addresses. */
START_TEST(test_side_by_side)
{
	static const char *const hosts[] = { "203.0.113.10:1", "10.244.1.2:1" };
	static const enum mk_hook hooks[] = { MK_HOOK_UPLINK, MK_HOOK_POD };
	char flow[96], seen[96];
	struct frame in;

	fixture_host_port("tcp 0.0.0.0:8080", "10.244.1.3:1");
	fixture_host_port("tcp 192.168.99.11:8080", "10.244.1.3:2");
	fixture_host_port("udp 0.0.0.0:8080", "10.244.1.3:3");
	fixture_host_port("tcp 127.0.0.1:8080", "10.244.1.3:4");
	snprintf(flow, sizeof(flow), "tcp %s > 192.168.99.11:8080", hosts[_i]);
	snprintf(seen, sizeof(seen), "tcp %s > 10.244.1.3:2", hosts[_i]);
	in = frame_make(flow, NULL);
	fixture_expect("one address", hooks[_i], &in, TO_POD, seen);
	flow[0] = 'u', flow[1] = 'd';
	snprintf(seen, sizeof(seen), "udp %s > 10.244.1.3:3", hosts[_i]);
	in = frame_make(flow, NULL);
	fixture_expect("another protocol", hooks[_i], &in, TO_POD, seen);
}
END_TEST

static const char *const backend[] = { "10.244.1.3:9", NULL };

/* NodePorts are both external and internal frontends. */
START_TEST(test_service_wins)
{
	struct frame outside = frame_make("tcp 203.0.113.10:40000 > 192.168.99.11:30080", NULL);
	struct frame pod = frame_make("tcp 10.244.1.2:40000 > 192.168.99.11:30080", NULL);

	fixture_host_port("tcp 0.0.0.0:30080", "10.244.1.3:80");
	fixture_host_port("tcp 192.168.99.11:30080", "10.244.1.3:80");
	fixture_service("tcp 192.168.99.11:30080", MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV, backend,
			1, 1);
	fixture_service("tcp 192.168.99.11:30080", MK_SCOPE_INTERNAL, 0, backend, 1, 1);
	fixture_expect("outside", MK_HOOK_UPLINK, &outside, TO_POD,
		       "tcp 203.0.113.10:40000 > 10.244.1.3:9");
	fixture_expect("pod", MK_HOOK_POD, &pod, TO_POD, "tcp 10.244.1.2:40000 > 10.244.1.3:9");
}
END_TEST

/* User space has set that there is none: programs do not read the table, whatever it contains. */
START_TEST(test_switched_off)
{
	const struct mk_runtime off = { 0 };
	struct frame outside = frame_make("tcp 203.0.113.10:40000 > 192.168.99.11:8080", NULL);
	struct frame pod = frame_make("tcp 10.244.1.2:40000 > 192.168.99.11:8080", NULL);

	fixture_host_port("tcp 0.0.0.0:8080", "10.244.1.3:80");
	fixture_runtime(&off);
	fixture_expect("outside", MK_HOOK_UPLINK, &outside, TO_HOST,
		       "tcp 203.0.113.10:40000 > 192.168.99.11:8080");
	fixture_expect("pod", MK_HOOK_POD, &pod, TO_HOST,
		       "tcp 10.244.1.2:40000 > 192.168.99.11:8080");
}
END_TEST

/* The pod is gone: connections from outside reach the host's stack again, which resets them. */
START_TEST(test_mapping_removed)
{
	struct frame request = frame_make("tcp 203.0.113.10:40000 > 192.168.99.11:8080", NULL);
	struct frame answer = frame_make("tcp 10.244.1.3:80 > 203.0.113.10:40000", &syn_ack);
	struct frame more = frame_make("tcp 203.0.113.10:40000 > 192.168.99.11:8080", &ack);

	fixture_host_port("tcp 0.0.0.0:8080", "10.244.1.3:80");
	fixture_expect("request", MK_HOOK_UPLINK, &request, TO_POD, NULL);
	fixture_expect("answer", MK_HOOK_POD, &answer, TO_UPLINK, NULL);
	fixture_expect("established", MK_HOOK_UPLINK, &more, TO_POD, NULL);
	fixture_host_port_gone("tcp 0.0.0.0:8080");
	fixture_expect("removed", MK_HOOK_UPLINK, &more, TO_HOST,
		       "tcp 203.0.113.10:40000 > 192.168.99.11:8080");
}
END_TEST

START_TEST(test_pod_refuses)
{
	const struct frame_options datagram = { .payload_bytes = 12 };
	struct frame in = frame_make("udp 203.0.113.10:40000 > 192.168.99.11:8080", &datagram);
	struct frame error;

	fixture_host_port("udp 0.0.0.0:8080", "10.244.1.3:80");
	in = fixture_expect("request", MK_HOOK_UPLINK, &in, TO_POD, NULL);
	error = frame_make("icmp 10.244.1.3 > 203.0.113.10",
			   &(struct frame_options){ .icmp_type = 3, .icmp_code = 3, .quote = &in });
	fixture_expect("port unreachable", MK_HOOK_POD, &error, TO_UPLINK,
		       "icmp-error 192.168.99.11 > 203.0.113.10 3/3 [udp 203.0.113.10:40000 > "
		       "192.168.99.11:8080]");
}
END_TEST

START_TEST(test_fragments)
{
	struct frame first =
		frame_make("udp 203.0.113.10:40000 > 192.168.99.11:8080",
			   &(struct frame_options){ .payload_bytes = 64, .fragment = MF, .id = 7 });
	struct frame later =
		frame_make("udp 203.0.113.10:40000 > 192.168.99.11:8080",
			   &(struct frame_options){ .payload_bytes = 64, .fragment = 9, .id = 7 });

	fixture_host_port("udp 0.0.0.0:8080", "10.244.1.3:80");
	ck_assert_int_eq(fixture_send(MK_HOOK_UPLINK, &first, &first), TO_POD);
	ck_assert_int_eq(fixture_send(MK_HOOK_UPLINK, &later, &later), TO_POD);
}
END_TEST

BPF_SUITE("host_ports")
{
	TCase *tcase = bpf_case(suite, "host_ports");

	tcase_add_loop_test(tcase, test_flow, 0, ROWS(flows));
	tcase_add_loop_test(tcase, test_masqueraded, 0, ROWS(masqueraded));
	tcase_add_loop_test(tcase, test_not_mapped, 0, ROWS(others));
	tcase_add_loop_test(tcase, test_side_by_side, 0, 2);
	tcase_add_test(tcase, test_service_wins);
	tcase_add_test(tcase, test_switched_off);
	tcase_add_test(tcase, test_leaving);
	tcase_add_test(tcase, test_mapping_removed);
	tcase_add_test(tcase, test_pod_refuses);
	tcase_add_test(tcase, test_fragments);
}
