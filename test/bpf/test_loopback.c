// SPDX-License-Identifier: Apache-2.0
/* The host asks a Service at one of its own addresses: from the loopback device's egress to the
 * hook `host`, and the answer back in by the loopback device. */
#include <stdio.h>
#include <string.h>

#include "bpf/run.h"

#define NODE_PORT "192.168.99.11:30080"

static const char *const local_backend[] = { "10.244.1.3:8080", NULL };
static const char *const remote_backend[] = { "10.244.2.7:8080", NULL };
static const char *const host_backend[] = { "192.168.99.11:6443", NULL };
static const char *const other_host_backend[] = { "192.168.99.12:6443", NULL };
static const char *const no_backend[] = { NULL };

static struct frame answer_to(const struct frame *request, const char *proto, const char *source,
			      const char *backend)
{
	static const struct frame_options syn_ack = { .tcp_flags = SYN | ACK };
	char from[32] = "", flow[128];
	unsigned port = 0;

	sscanf(frame_flow(request), "%*s %31[0-9.]:%u >", from, &port);
	ck_assert_str_eq(from, source);
	check_source_port(source, port);
	snprintf(flow, sizeof(flow), "%s %s > %s:%u", proto, backend, source, port);
	return frame_make(flow, &syn_ack);
}

/* ---- what leaves the loopback device --------------------------------------------------------- */

static const struct {
	const char *name, *flow;
	enum where where;
} leaving[] = {
	{ "own NodePort", "tcp 192.168.99.11:40000 > 192.168.99.11:30080", TO_HOST_HOOK },
	{ "own NodePort, from the VTEP address", "tcp 10.18.0.1:40000 > 192.168.99.11:30080",
	  TO_HOST_HOOK },
	{ "own NodePort, other protocol", "udp 192.168.99.11:40000 > 192.168.99.11:30080",
	  TO_HOST },
	{ "a port of the host", "tcp 192.168.99.11:40000 > 192.168.99.11:22", TO_HOST },
	{ "the host answers itself", "tcp 192.168.99.11:22 > 192.168.99.11:30080", TO_HOST_HOOK },
	{ "127.0.0.1", "tcp 127.0.0.1:40000 > 127.0.0.1:30080", TO_HOST },
	{ "from 127.0.0.1", "tcp 127.0.0.1:40000 > 192.168.99.11:30080", TO_HOST },
	{ "ping to itself", "icmp 192.168.99.11 > 192.168.99.11 7", TO_HOST },
};

START_TEST(test_leaving)
{
	struct frame in = frame_make(leaving[_i].flow, NULL);

	fixture_service("tcp " NODE_PORT, MK_SCOPE_INTERNAL, 0, local_backend, 1, 1);
	fixture_expect(leaving[_i].name, HOOK_LOOPBACK, &in, leaving[_i].where, leaving[_i].flow);
	ck_assert_uint_eq(fixture_drops_total(), 0);
	ck_assert_uint_eq(fixture_count("sessions_young"), 0);
}
END_TEST

/* A connection of the host has a NodePort's number as its source port. */
START_TEST(test_number_in_use)
{
	const struct frame_options syn_ack = { .tcp_flags = SYN | ACK };
	struct frame in = frame_make("tcp 192.168.99.11:22 > " NODE_PORT, &syn_ack);

	fixture_service("tcp " NODE_PORT, MK_SCOPE_INTERNAL, 0, local_backend, 1, 1);
	fixture_expect("its answer", HOOK_LOOPBACK, &in, TO_HOST, NULL);
	in = frame_make("tcp 192.168.99.11:40000 > " NODE_PORT, NULL);
	fixture_expect("a client", MK_HOOK_HOST, &in, TO_POD, NULL);
	in = frame_make("tcp 192.168.99.11:40000 > " NODE_PORT,
			&(struct frame_options){ .tcp_flags = ACK });
	fixture_expect("of its session", HOOK_LOOPBACK, &in, TO_HOST_HOOK, NULL);
}
END_TEST

/* A host port. The host's own connections may have it as their source port. */
START_TEST(test_host_port)
{
	const struct frame_options syn_ack = { .tcp_flags = SYN | ACK }, ack = { .tcp_flags = ACK };
	struct frame in = frame_make("tcp 192.168.99.11:41000 > 192.168.99.11:40000", NULL), out;

	fixture_host_port("tcp 0.0.0.0:40000", "10.244.1.3:8080");
	fixture_expect("SYN to it", HOOK_LOOPBACK, &in, TO_HOST_HOOK, NULL);
	out = fixture_expect("SYN to it", MK_HOOK_HOST, &in, TO_POD, NULL);
	in = frame_make("tcp 192.168.99.11:41000 > 192.168.99.11:40000", &ack);
	fixture_expect("of its session", HOOK_LOOPBACK, &in, TO_HOST_HOOK, NULL);
	in = answer_to(&out, "tcp", "192.168.99.11", "10.244.1.3:8080");
	fixture_expect("its answer", MK_HOOK_POD, &in, TO_LOOPBACK,
		       "tcp 192.168.99.11:40000 > 192.168.99.11:41000");
	in = frame_make("tcp 192.168.99.11:6443 > 192.168.99.11:40000", &syn_ack);
	fixture_expect("answer to a connection of the host's own", HOOK_LOOPBACK, &in, TO_HOST,
		       NULL);
}
END_TEST

/* A datagram larger than the host veth's MTU. The loopback device's MTU is 64 KiB, and a socket's
 * DF refers to that. In IPv6 the sender gets the MTU. */
START_TEST(test_large)
{
	struct frame_options options = { .payload_bytes = 1500, .fragment = DF };
	struct frame in = frame_make("udp 192.168.99.11:40000 > 192.168.99.11:30053", &options);

	fixture_service("udp 192.168.99.11:30053", MK_SCOPE_INTERNAL, 0, remote_backend, 0, 1);
	fixture_expect("large, off loopback", HOOK_LOOPBACK, &in, TO_HOST_HOOK, NULL);
	if (family_is6()) {
		fixture_expect(
			"large, to the other node", MK_HOOK_HOST, &in, TO_HOST,
			"icmp-error 10.244.1.1 > 192.168.99.11 3/4 [udp 192.168.99.11:40000 > "
			"192.168.99.11:30053]");
		return;
	}
	fixture_expect("large, to the other node", MK_HOOK_HOST, &in, TO_OVERLAY, NULL);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* Fragments: later ones follow the first, which has not yet passed the hook `host`. */
START_TEST(test_fragments)
{
	struct frame_options first = { .payload_bytes = 1024, .fragment = MF, .id = 9 };
	struct frame_options later = { .payload_bytes = 100, .fragment = 129, .id = 9 };
	struct frame in = frame_make("udp 192.168.99.11:40000 > 192.168.99.11:30053", &first), out;

	fixture_service("udp 192.168.99.11:30053", MK_SCOPE_INTERNAL, 0, local_backend, 1, 1);
	ck_assert_int_eq(fixture_send(HOOK_LOOPBACK, &in, &out), TO_HOST_HOOK);
	in = frame_make("udp 192.168.99.11:40000 > 192.168.99.11:30053", &later);
	ck_assert_int_eq(fixture_send(HOOK_LOOPBACK, &in, &out), TO_HOST_HOOK);
}
END_TEST

/* ---- there and back --------------------------------------------------------------------------- */

static const struct {
	const char *name, *proto;
	const char *const *backends;
	uint16_t local_count;
	enum where request_to;
	const char *source, *backend; /* as the backend sees them */
	enum mk_hook answer_hook;
} flows[] = {
	{ "local pod, TCP", "tcp", local_backend, 1, TO_POD, "192.168.99.11", "10.244.1.3:8080",
	  MK_HOOK_POD },
	{ "local pod, UDP", "udp", local_backend, 1, TO_POD, "192.168.99.11", "10.244.1.3:8080",
	  MK_HOOK_POD },
	{ "pod of another node, TCP", "tcp", remote_backend, 0, TO_OVERLAY, "192.168.99.11",
	  "10.244.2.7:8080", MK_HOOK_OVERLAY },
	{ "pod of another node, UDP", "udp", remote_backend, 0, TO_OVERLAY, "192.168.99.11",
	  "10.244.2.7:8080", MK_HOOK_OVERLAY },
	{ "this host, TCP", "tcp", host_backend, 1, TO_HOST, "10.244.1.1", "192.168.99.11:6443",
	  MK_HOOK_HOST },
	{ "this host, UDP", "udp", host_backend, 1, TO_HOST, "10.244.1.1", "192.168.99.11:6443",
	  MK_HOOK_HOST },
	{ "another host, TCP", "tcp", other_host_backend, 0, TO_UPLINK, "192.168.99.11",
	  "192.168.99.12:6443", MK_HOOK_UPLINK },
};

START_TEST(test_there_and_back)
{
	const char *name = flows[_i].name, *proto = flows[_i].proto;
	char frontend[64], request[64], seen[64];
	struct frame in, out, answer;

	snprintf(frontend, sizeof(frontend), "%s " NODE_PORT, proto);
	snprintf(request, sizeof(request), "%s 192.168.99.11:40000 > " NODE_PORT, proto);
	snprintf(seen, sizeof(seen), "%s " NODE_PORT " > 192.168.99.11:40000", proto);
	fixture_service(frontend, MK_SCOPE_INTERNAL, 0, flows[_i].backends, flows[_i].local_count,
			1);
	in = frame_make(request, NULL);
	for (int round = 0; round < 2; round++) {
		fixture_expect(name, HOOK_LOOPBACK, &in, TO_HOST_HOOK, request);
		out = fixture_expect(name, MK_HOOK_HOST, &in, flows[_i].request_to, NULL);
		answer = answer_to(&out, proto, flows[_i].source, flows[_i].backend);
		fixture_expect(name, flows[_i].answer_hook, &answer, TO_LOOPBACK, seen);
		in = frame_make(request, &(struct frame_options){ .tcp_flags = ACK });
	}
	ck_assert_msg(fixture_count("sessions") == 2, "%s: %u entries established", name,
		      fixture_count("sessions"));
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* Refused by the datapath: the error comes from the address that was asked, so it comes by
 * loopback. */
START_TEST(test_refused)
{
	struct frame in = frame_make("tcp 192.168.99.11:40000 > " NODE_PORT, NULL);

	fixture_service("tcp " NODE_PORT, MK_SCOPE_INTERNAL, 0, no_backend, 0, 1);
	fixture_expect("no backend", HOOK_LOOPBACK, &in, TO_HOST_HOOK, NULL);
	fixture_expect("no backend", MK_HOOK_HOST, &in, TO_LOOPBACK,
		       "icmp-error 192.168.99.11 > 192.168.99.11 3/3 "
		       "[tcp 192.168.99.11:40000 > " NODE_PORT "]");
	ck_assert_uint_eq(fixture_drops(MK_HOOK_HOST, MK_DROP_REFUSED), 1);
}
END_TEST

/* A Service's address that is not the host's refuses as usual. */
START_TEST(test_refused_elsewhere)
{
	struct frame in = frame_make("tcp 10.18.0.1:40000 > 10.96.0.10:80", NULL);

	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, no_backend, 0, 1);
	fixture_expect("no backend", MK_HOOK_HOST, &in, TO_HOST,
		       "icmp-error 10.96.0.10 > 10.18.0.1 3/3 "
		       "[tcp 10.18.0.1:40000 > 10.96.0.10:80]");
}
END_TEST

/* ICMP errors about a session. Those of the backend get the address that was asked and come by the
 * loopback device. Those of a router keep their source, and come by the device that leads to it. */
START_TEST(test_errors)
{
	struct frame request = frame_make("udp 192.168.99.11:40000 > 192.168.99.11:30053", NULL);
	struct frame_options about = { .icmp_type = 3, .icmp_code = 3 };
	struct frame out, error;

	fixture_service("udp 192.168.99.11:30053", MK_SCOPE_INTERNAL, 0, remote_backend, 0, 1);
	out = fixture_expect("request", MK_HOOK_HOST, &request, TO_OVERLAY, NULL);
	about.quote = &out;
	error = frame_make("icmp 10.244.2.7 > 10.244.1.1 0", &about);
	fixture_expect("backend's port is closed", MK_HOOK_OVERLAY, &error, TO_LOOPBACK,
		       "icmp-error 192.168.99.11 > 192.168.99.11 3/3 "
		       "[udp 192.168.99.11:40000 > 192.168.99.11:30053]");
	error = frame_make("icmp 10.18.0.2 > 10.244.1.1 0", &about);
	fixture_expect("another node's word", MK_HOOK_OVERLAY, &error, TO_HOST,
		       "icmp-error 10.18.0.2 > 192.168.99.11 3/3 "
		       "[udp 192.168.99.11:40000 > 192.168.99.11:30053]");
}
END_TEST

BPF_SUITE("loopback")
{
	TCase *tcase = bpf_case(suite, "loopback");

	tcase_add_loop_test(tcase, test_leaving, 0, ROWS(leaving));
	tcase_add_test(tcase, test_number_in_use);
	tcase_add_test(tcase, test_host_port);
	tcase_add_test(tcase, test_large);
	tcase_add_test(tcase, test_fragments);
	tcase_add_loop_test(tcase, test_there_and_back, 0, ROWS(flows));
	tcase_add_test(tcase, test_refused);
	tcase_add_test(tcase, test_refused_elsewhere);
	tcase_add_test(tcase, test_errors);
}
