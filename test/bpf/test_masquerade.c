// SPDX-License-Identifier: Apache-2.0
/* Masquerade: the address and port with which pods' packets leave, and the way of their answers. */
#include <arpa/inet.h>
#include <linux/icmp.h>
#include <stdio.h>
#include <string.h>

#include "bpf/pieces.h"
#include "bpf/run.h"

static const char *const remote_backend[] = { "10.244.2.7:8080", NULL };
static const struct frame_options syn_ack = { .tcp_flags = SYN | ACK };

/* Send @flow from the pod. Returns the port (or ping id) that hosts outside see, with the node's
 * address as source. */
static unsigned send_out(const char *flow, const struct frame_options *options)
{
	struct frame in = frame_make(flow, options), out;
	unsigned port = 0;

	out = fixture_expect(flow, MK_HOOK_POD, &in, TO_UPLINK, NULL);
	if (sscanf(frame_flow(&out), "icmp 192.168.99.11 > 203.0.113.10 %u", &port) != 1)
		ck_assert_msg(sscanf(frame_flow(&out), "%*s 192.168.99.11:%u >", &port) == 1,
			      "left as '%s'", frame_flow(&out));
	ck_assert_uint_ge(port, 49152);
	return port;
}

/* Answer from outside, from @service ("443") to @port of the node; the pod sees @seen. */
static void answer(const char *proto, const char *service, unsigned port,
		   const struct frame_options *options, const char *seen)
{
	struct frame in;
	char flow[128];

	snprintf(flow, sizeof(flow), "%s 203.0.113.10:%s > 192.168.99.11:%u", proto, service, port);
	in = frame_make(flow, options);
	fixture_expect(flow, MK_HOOK_UPLINK, &in, TO_POD, seen);
}

START_TEST(test_masquerade_tcp)
{
	unsigned port;

	fixture_quota(0);
	port = send_out("tcp 10.244.1.2:40000 > 203.0.113.10:443", NULL);
	answer("tcp", "443", port, &(struct frame_options){ .tcp_flags = SYN | ACK },
	       "tcp 203.0.113.10:443 > 10.244.1.2:40000");
	ck_assert_uint_eq(fixture_count("nat_sessions"), 0);
	ck_assert_uint_eq(send_out("tcp 10.244.1.2:40000 > 203.0.113.10:443",
				   &(struct frame_options){ .tcp_flags = ACK }),
			  port);
	ck_assert_uint_eq(fixture_count("nat_sessions"), 2);
	ck_assert_uint_eq(fixture_count("nat_sessions_young"), 0);
}
END_TEST

/* A packet without a session must not leave with the pod's address either. */
START_TEST(test_masquerade_tcp_in_the_middle)
{
	send_out("tcp 10.244.1.2:40000 > 203.0.113.10:443",
		 &(struct frame_options){ .tcp_flags = ACK });
	send_out("tcp 10.244.1.2:40001 > 203.0.113.10:443",
		 &(struct frame_options){ .tcp_flags = RST });
}
END_TEST

START_TEST(test_masquerade_udp)
{
	unsigned port = send_out("udp 10.244.1.2:40000 > 203.0.113.10:53",
				 &(struct frame_options){ .no_checksum = true });

	answer("udp", "53", port, NULL, "udp 203.0.113.10:53 > 10.244.1.2:40000");
	ck_assert_uint_eq(fixture_count("nat_sessions"), 0);
	ck_assert_uint_eq(send_out("udp 10.244.1.2:40000 > 203.0.113.10:53", NULL), port);
	ck_assert_uint_eq(fixture_count("nat_sessions"), 2);
}
END_TEST

/* An answer on another CPU has missed the session in the established table by a moment. It still
 * finds the session in the other table. */
START_TEST(test_datagrams_are_in_both_tables)
{
	const char *query = "udp 10.244.1.2:40000 > 203.0.113.10:53";
	unsigned port = send_out(query, NULL);

	answer("udp", "53", port, NULL, "udp 203.0.113.10:53 > 10.244.1.2:40000");
	ck_assert_uint_eq(send_out(query, NULL), port);
	ck_assert_uint_eq(fixture_count("nat_sessions"), 2);
	ck_assert_uint_eq(fixture_count("nat_sessions_young"), 2);
	fixture_empty("nat_sessions"); /* the state that such a CPU has seen */
	answer("udp", "53", port, NULL, "udp 203.0.113.10:53 > 10.244.1.2:40000");
	ck_assert_uint_eq(send_out(query, NULL), port);
	ck_assert_uint_eq(fixture_count("nat_sessions"), 0); /* it moves only once */
}
END_TEST

START_TEST(test_masquerade_ping)
{
	unsigned id = send_out("icmp 10.244.1.2 > 203.0.113.10 7", NULL);
	struct frame in;
	char flow[96];

	snprintf(flow, sizeof(flow), "icmp 203.0.113.10 > 192.168.99.11 %u", id);
	in = frame_make(flow, &(struct frame_options){ .echo_reply = true });
	fixture_expect("answer", MK_HOOK_UPLINK, &in, TO_POD, "icmp 203.0.113.10 > 10.244.1.2 7");
}
END_TEST

/* A ping to the host with an id that a pod's ping uses is still the host's. */
START_TEST(test_ping_of_host_beside_a_pods)
{
	unsigned id = send_out("icmp 10.244.1.2 > 203.0.113.10 7", NULL);
	struct frame in;
	char flow[96];

	snprintf(flow, sizeof(flow), "icmp 203.0.113.10 > 192.168.99.11 %u", id);
	in = frame_make(flow, NULL);
	fixture_expect("echo request", MK_HOOK_UPLINK, &in, TO_HOST, flow);
}
END_TEST

/* Two pods with the same port to the same place: two ports. */
START_TEST(test_ports_do_not_collide)
{
	enum { FLOWS = 400 };
	static unsigned char used[65536];
	char flow[96];
	unsigned port;

	for (unsigned i = 0; i < FLOWS; i++) {
		snprintf(flow, sizeof(flow), "udp 10.244.1.%u:%u > 203.0.113.10:53", 2 + i % 2,
			 20000 + i / 2);
		port = send_out(flow, NULL);
		ck_assert_msg(!used[port], "port %u twice", port);
		used[port] = 1;
	}
}
END_TEST

START_TEST(test_protocol_that_cannot_be_translated)
{
	struct frame in = frame_make("esp 10.244.1.2:40000 > 203.0.113.10:80", NULL);

	fixture_expect("ESP to outside", MK_HOOK_POD, &in, DROPPED, NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_POD, MK_DROP_PROTOCOL), 1);
}
END_TEST

START_TEST(test_fragments_masqueraded)
{
	struct frame_options first = { .fragment = MF, .id = 7, .payload_bytes = 1024 };
	struct frame_options later = { .fragment = 129, .id = 7, .payload_bytes = 500 };
	struct frame rest = frame_make("udp 10.244.1.2:40000 > 203.0.113.10:53", &later), out;
	unsigned port = send_out("udp 10.244.1.2:40000 > 203.0.113.10:53", &first);
	char flow[96];

	out = fixture_expect("later", MK_HOOK_POD, &rest, TO_UPLINK, NULL);
	ck_assert_msg(strncmp(frame_flow(&out), "udp 192.168.99.11:", 18) == 0, "left as '%s'",
		      frame_flow(&out));
	snprintf(flow, sizeof(flow), "udp 203.0.113.10:53 > 192.168.99.11:%u", port);
	out = frame_make(flow, &first);
	fixture_expect("answer, first", MK_HOOK_UPLINK, &out, TO_POD,
		       "udp 203.0.113.10:53 > 10.244.1.2:40000");
	out = frame_make(flow, &later);
	out = fixture_expect("answer, later", MK_HOOK_UPLINK, &out, TO_POD, NULL);
	ck_assert_msg(strstr(frame_flow(&out), "> 10.244.1.2:"), "arrived as '%s'",
		      frame_flow(&out));
}
END_TEST

/* ... if it cannot wait for its first fragment. */
START_TEST(test_fragment_of_unknown_masqueraded)
{
	struct frame_options later = { .fragment = 129, .id = 9, .payload_bytes = 500 };
	struct pieces pieces = { .count = 1 };

	pieces.piece[0] = frame_make("udp 10.244.1.2:40000 > 203.0.113.10:53", &later);
	pieces_fill_slots(A_MINUTE_NS);
	pieces_send("later", MK_HOOK_POD, &pieces, "0", DROPPED);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_POD, MK_DROP_FRAGMENT_UNKNOWN), 1);
}
END_TEST

/* An ICMP timestamp request leaves as a ping does. */
static void masquerade_timestamp(void)
{
	const struct frame_options asks = { .icmp_type = ICMP_TIMESTAMP },
				   answers = { .icmp_type = ICMP_TIMESTAMPREPLY };
	struct frame in = frame_make("icmp 10.244.1.2 > 203.0.113.10 7", &asks), seen, answer;
	struct frame other = frame_make("icmp 10.244.1.3 > 203.0.113.10 7", &asks);
	char flow[96];
	unsigned id = 0;

	seen = fixture_expect("a question", MK_HOOK_POD, &in, TO_UPLINK, NULL);
	fixture_expect("another pod's", MK_HOOK_POD, &other, TO_UPLINK, NULL);
	id = frame_number(&seen, frame_l4(&seen) + 4, 2);
	ck_assert_uint_ge(id, 49152);
	snprintf(flow, sizeof(flow), "icmp 203.0.113.10 > 192.168.99.11 %u", id);
	answer = frame_make(flow, &answers);
	seen = fixture_expect("its answer", MK_HOOK_UPLINK, &answer, TO_POD, NULL);
	ck_assert_int_eq(memcmp(seen.byte + 14 + 16, in.byte + 14 + 12, 4), 0); /* to the pod */
	ck_assert_uint_eq(frame_number(&seen, frame_l4(&seen) + 4, 2), 7);
}

START_TEST(test_masquerade_timestamp)
{
	if (!family_leaves_out(IPV4_ONLY("ICMPv6 has no timestamps")))
		masquerade_timestamp();
}
END_TEST

/* ---- established connections take a short way out (bpf/masquerade.h) -------------------------- */

static const char *const outside = "tcp 10.244.1.2:40000 > 203.0.113.10:443";
static const struct frame_options ack = { .tcp_flags = ACK };

/* Connect the pod to @server, which is 203.0.113.10:443 or a Service with this backend. Returns the
 * port that the server sees. */
static unsigned connect_outside(const char *server)
{
	char flow[96], seen[96];
	unsigned port;

	snprintf(flow, sizeof(flow), "tcp 10.244.1.2:40000 > %s", server);
	snprintf(seen, sizeof(seen), "tcp %s > 10.244.1.2:40000", server);
	port = send_out(flow, NULL);
	answer("tcp", "443", port, &syn_ack, seen);
	ck_assert_uint_eq(send_out(flow, &ack), port);
	return port;
}

static void serve_from_outside(const char *frontend)
{
	static const char *const backend[] = { "203.0.113.10:443", NULL };

	fixture_service(frontend, MK_SCOPE_INTERNAL, 0, backend, 0, 1);
}

/* Its address becomes a Service's: the connection goes on as it began. */
START_TEST(test_connection_beside_a_service)
{
	unsigned port = connect_outside("203.0.113.10:443");

	fixture_service("tcp 203.0.113.10:443", MK_SCOPE_INTERNAL, 0, remote_backend, 0, 1);
	ck_assert_uint_eq(send_out(outside, &ack), port);
}
END_TEST

/* The pod's connection to the backend, and later one to the Service, from one port: nat does not
 * tell them apart. */
START_TEST(test_connection_shares_its_port)
{
	fixture_quota(_i ? 100 : 0);
	serve_from_outside("tcp 10.96.0.20:80");
	if (_i)
		connect_outside("203.0.113.10:443");
	else
		send_out(outside, NULL);
	connect_outside("10.96.0.20:80");
}
END_TEST

/* .. and the other way round: the pod's own connection has a session and a port of its own. */
START_TEST(test_connection_beside_the_services)
{
	unsigned port, own;

	fixture_quota(0);
	serve_from_outside("tcp 10.96.0.20:80");
	port = connect_outside("10.96.0.20:80");
	own = send_out(outside, NULL);
	ck_assert_uint_ne(own, port);
	ck_assert_uint_eq(send_out(outside, &ack), own);
}
END_TEST

/* The host gets the address: it is the host that answers, with an RST. */
START_TEST(test_connection_to_new_host_address)
{
	struct frame in = frame_make(outside, &ack);

	connect_outside("203.0.113.10:443");
	fixture_host_address("203.0.113.10");
	fixture_expect("to the host", MK_HOOK_POD, &in, TO_HOST, outside);
}
END_TEST

static const struct {
	const char *name;
	struct frame_options options;
	enum mk_drop_reason reason;
} refused[] = {
	{ "its TTL ends here", { .tcp_flags = ACK, .ttl = 1 }, MK_DROP_TTL_EXPIRED },
	{ "too large",
	  { .tcp_flags = ACK, .fragment = DF, .payload_bytes = 1600 },
	  MK_DROP_TOO_BIG },
};

/* The pod gets an ICMP error. */
START_TEST(test_connection_refused)
{
	struct frame in = frame_make(outside, &refused[_i].options);

	connect_outside("203.0.113.10:443");
	fixture_expect(refused[_i].name, MK_HOOK_POD, &in, TO_POD, NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_POD, refused[_i].reason), 1);
}
END_TEST

/* `monokube monitor` sees each of its packets. */
START_TEST(test_connection_monitored)
{
	const struct mk_runtime runtime = { .monitored = 1 };
	struct frame in = frame_make(outside, &ack), out;

	connect_outside("203.0.113.10:443");
	fixture_runtime(&runtime);
	fixture_break_chain(MK_PROG_ROUTER); /* the place of the monitor's program */
	ck_assert_int_eq(fixture_send(MK_HOOK_POD, &in, &out), DROPPED);
}
END_TEST

BPF_SUITE("masquerade")
{
	TCase *tcase = bpf_case(suite, "masquerade");

	tcase_add_unchecked_fixture(tcase, pieces_load, NULL);
	tcase_add_test(tcase, test_masquerade_tcp);
	tcase_add_test(tcase, test_masquerade_tcp_in_the_middle);
	tcase_add_test(tcase, test_masquerade_udp);
	tcase_add_test(tcase, test_datagrams_are_in_both_tables);
	tcase_add_test(tcase, test_masquerade_ping);
	tcase_add_test(tcase, test_masquerade_timestamp);
	tcase_add_test(tcase, test_ping_of_host_beside_a_pods);
	tcase_add_test(tcase, test_ports_do_not_collide);
	tcase_add_test(tcase, test_protocol_that_cannot_be_translated);
	tcase_add_test(tcase, test_fragments_masqueraded);
	tcase_add_test(tcase, test_fragment_of_unknown_masqueraded);
	tcase_add_test(tcase, test_connection_beside_a_service);
	tcase_add_loop_test(tcase, test_connection_shares_its_port, 0, 2);
	tcase_add_test(tcase, test_connection_beside_the_services);
	tcase_add_test(tcase, test_connection_to_new_host_address);
	tcase_add_loop_test(tcase, test_connection_refused, 0, ROWS(refused));
	tcase_add_test(tcase, test_connection_monitored);
}
