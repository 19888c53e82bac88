// SPDX-License-Identifier: Apache-2.0
/* The life of a session, ports that two flows want, fragments. */
#include <linux/icmp.h>
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <stdio.h>
#include <string.h>

#include "bpf/pieces.h"
#include "bpf/run.h"

static const char *const remote_backend[] = { "10.244.2.7:8080", NULL };
static const struct frame_options syn_ack = { .tcp_flags = SYN | ACK };

static void open_service_flow(void)
{
	struct frame in = frame_make("tcp 10.244.1.2:40000 > 10.96.0.10:80", NULL);

	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, remote_backend, 0, 1);
	fixture_expect("SYN", MK_HOOK_POD, &in, TO_OVERLAY, NULL);
}

static void send_flags(enum mk_hook hook, const char *flow, uint8_t flags)
{
	struct frame in = frame_make(flow, &(struct frame_options){ .tcp_flags = flags }), out;

	ck_assert_int_ne(fixture_send(hook, &in, &out), DROPPED);
}

/* Half-open until the client's ACK. When the half-open quota is used up (test_half_open_quota.c), a flood of
 * SYNs, even answered ones, stays in the table that evicts. */
START_TEST(test_moves_with_the_handshake)
{
	fixture_quota(0);
	open_service_flow();
	ck_assert_uint_eq(fixture_count("sessions_young"), 2);
	send_flags(MK_HOOK_OVERLAY, "tcp 10.244.2.7:8080 > 10.244.1.2:40000", SYN | ACK);
	ck_assert_uint_eq(fixture_count("sessions"), 0);
	send_flags(MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.96.0.10:80", ACK);
	ck_assert_uint_eq(fixture_count("sessions"), 2);
	ck_assert_uint_eq(fixture_count("sessions_young"), 0);
}
END_TEST

START_TEST(test_refused_stays_half_open)
{
	fixture_quota(0);
	open_service_flow();
	send_flags(MK_HOOK_OVERLAY, "tcp 10.244.2.7:8080 > 10.244.1.2:40000", RST | ACK);
	send_flags(MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.96.0.10:80", SYN);
	ck_assert_uint_eq(fixture_count("sessions"), 0);
}
END_TEST

/* A client that knows nothing of the connection, because a flood uses its address: it gets no entry
 * in the established tables. */
START_TEST(test_given_up_stays_half_open)
{
	static const char *const other[] = { "10.244.1.3:8080", NULL };
	struct frame syn = frame_make("tcp 10.244.1.2:40000 > 10.96.0.10:80", NULL);

	fixture_quota(0);
	open_service_flow();
	send_flags(MK_HOOK_OVERLAY, "tcp 10.244.2.7:8080 > 10.244.1.2:40000", SYN | ACK);
	send_flags(MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.96.0.10:80", RST);
	ck_assert_uint_eq(fixture_count("sessions"), 0);
	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, other, 1, 1);
	fixture_expect("SYN after that", MK_HOOK_POD, &syn, TO_POD,
		       "tcp 10.244.1.2:40000 > 10.244.1.3:8080");
	ck_assert_uint_eq(fixture_count("sessions_young"), 2);
}
END_TEST

static void establish(void)
{
	open_service_flow();
	send_flags(MK_HOOK_OVERLAY, "tcp 10.244.2.7:8080 > 10.244.1.2:40000", SYN | ACK);
	send_flags(MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.96.0.10:80", ACK);
}

/* A change of the Service does not move an established session. */
START_TEST(test_established_stays)
{
	static const char *const other[] = { "10.244.1.3:8080", NULL };
	struct frame in = frame_make("tcp 10.244.1.2:40000 > 10.96.0.10:80",
				     &(struct frame_options){ .tcp_flags = ACK });

	establish();
	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, other, 1, 1);
	fixture_expect("established", MK_HOOK_POD, &in, TO_OVERLAY,
		       "tcp 10.244.1.2:40000 > 10.244.2.7:8080");
}
END_TEST

/* A SYN on a session that has ended (FIN of both sides, or RST) chooses a new backend. On a live
 * session it does not. */
START_TEST(test_port_reused)
{
	static const char *const other[] = { "10.244.1.3:8080", NULL };
	struct frame syn = frame_make("tcp 10.244.1.2:40000 > 10.96.0.10:80", NULL);
	static const char *const kept = "tcp 10.244.1.2:40000 > 10.244.2.7:8080";

	establish();
	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, other, 1, 1);
	fixture_expect("SYN on a live session", MK_HOOK_POD, &syn, TO_OVERLAY, kept);
	send_flags(MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.96.0.10:80", FIN | ACK);
	fixture_expect("SYN after one FIN", MK_HOOK_POD, &syn, TO_OVERLAY, kept);
	send_flags(MK_HOOK_OVERLAY, "tcp 10.244.2.7:8080 > 10.244.1.2:40000", FIN | ACK);
	fixture_expect("SYN after both FINs", MK_HOOK_POD, &syn, TO_POD,
		       "tcp 10.244.1.2:40000 > 10.244.1.3:8080");
}
END_TEST

/* A SYN on a refused session also chooses a new backend, because the endpoint may be gone. A
 * repeated SYN does not. */
START_TEST(test_port_reused_after_refusal)
{
	static const char *const other[] = { "10.244.1.3:8080", NULL };
	struct frame syn = frame_make("tcp 10.244.1.2:40000 > 10.96.0.10:80", NULL);

	fixture_quota(0);
	open_service_flow();
	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, other, 1, 1);
	fixture_expect("SYN again", MK_HOOK_POD, &syn, TO_OVERLAY,
		       "tcp 10.244.1.2:40000 > 10.244.2.7:8080");
	send_flags(MK_HOOK_OVERLAY, "tcp 10.244.2.7:8080 > 10.244.1.2:40000", RST | ACK);
	fixture_expect("SYN after a refusal", MK_HOOK_POD, &syn, TO_POD,
		       "tcp 10.244.1.2:40000 > 10.244.1.3:8080");
	ck_assert_uint_eq(fixture_count("sessions_young"), 2);
}
END_TEST

/* A client's kernel may use one port towards different destinations. If their answers would look
 * alike, the later flow gets another port. @flow leaves the pod, and its answers must come back to
 * it. */
static void expect_own_answers(const char *flow, const char *answer_seen)
{
	struct frame in = frame_make(flow, NULL), out;
	unsigned port = 0;
	char back[96];

	out = fixture_expect(flow, MK_HOOK_POD, &in, TO_OVERLAY, NULL);
	sscanf(frame_flow(&out), "tcp 10.244.1.2:%u > 10.244.2.7:8080", &port);
	ck_assert_msg(port >= 49152, "%s: left as '%s'", flow, frame_flow(&out));
	snprintf(back, sizeof(back), "tcp 10.244.2.7:8080 > 10.244.1.2:%u", port);
	in = frame_make(back, &syn_ack);
	fixture_expect(flow, MK_HOOK_OVERLAY, &in, TO_POD, answer_seen);
}

START_TEST(test_one_port_to_service_and_backend)
{
	static const char *const backend = "tcp 10.244.2.7:8080 > 10.244.1.2:40000";
	struct frame in = frame_make(backend, &syn_ack);

	if (_i) /* the Service's connection is half-open or established */
		establish();
	else
		open_service_flow();
	expect_own_answers("tcp 10.244.1.2:40000 > 10.244.2.7:8080", backend);
	/* the first flow's answers still reach it */
	fixture_expect("the Service's", MK_HOOK_OVERLAY, &in, TO_POD,
		       "tcp 10.96.0.10:80 > 10.244.1.2:40000");
}
END_TEST

START_TEST(test_one_port_to_two_services)
{
	if (_i)
		establish();
	else
		open_service_flow();
	fixture_service("tcp 10.96.0.11:80", MK_SCOPE_INTERNAL, 0, remote_backend, 0, 1);
	expect_own_answers("tcp 10.244.1.2:40000 > 10.96.0.11:80",
			   "tcp 10.96.0.11:80 > 10.244.1.2:40000");
}
END_TEST

/* A client asks a port of the host from the port that it uses towards a Service whose backend is
 * the host. Both connections get their own answers. */
START_TEST(test_one_port_to_service_and_host)
{
	static const char *const host_backend[] = { "192.168.99.11:6443", NULL };
	static const char *const by_service = "tcp 203.0.113.10:40000 > 192.168.99.11:30081",
				 *const own = "tcp 203.0.113.10:40000 > 192.168.99.11:6443",
				 *const own_answer = "tcp 192.168.99.11:6443 > 203.0.113.10:40000";
	const struct mk_runtime runtime = { .host_backends = 1 };
	struct frame syn = frame_make(by_service, NULL), in, out;
	unsigned port = 0;
	char back[96];

	fixture_runtime(&runtime);
	fixture_service("tcp 192.168.99.11:30081", MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV,
			host_backend, 1, 1);
	fixture_expect("the Service's", MK_HOOK_UPLINK, &syn, TO_HOST, own);
	in = frame_make(own_answer, &syn_ack);
	fixture_expect("its answer", MK_HOOK_UPLINK_EGRESS, &in, TO_HOST,
		       "tcp 192.168.99.11:30081 > 203.0.113.10:40000");
	if (_i) /* it is established */
		send_flags(MK_HOOK_UPLINK, by_service, ACK);
	for (int again = 0; again < 2; again++) {
		in = frame_make(own, NULL);
		out = fixture_expect("the host's own", MK_HOOK_UPLINK, &in, TO_HOST, NULL);
		sscanf(frame_flow(&out), "tcp 203.0.113.10:%u > 192.168.99.11:6443", &port);
		ck_assert_msg(port >= 49152, "arrived as '%s'", frame_flow(&out));
	}
	snprintf(back, sizeof(back), "tcp 192.168.99.11:6443 > 203.0.113.10:%u", port);
	in = frame_make(back, &syn_ack);
	fixture_expect("its answer", MK_HOOK_UPLINK_EGRESS, &in, TO_HOST, own_answer);
	snprintf(back, sizeof(back), "tcp 203.0.113.10:%u > 192.168.99.11:6443", port);
	in = frame_make(own, &(struct frame_options){ .tcp_flags = ACK, .payload_bytes = 9 });
	fixture_expect("its data", MK_HOOK_UPLINK, &in, TO_HOST, back);
	in = frame_make(own_answer, &(struct frame_options){ .tcp_flags = ACK });
	fixture_expect("the Service's, still", MK_HOOK_UPLINK_EGRESS, &in, TO_HOST,
		       "tcp 192.168.99.11:30081 > 203.0.113.10:40000");
	in = frame_make("tcp 203.0.113.10:40001 > 192.168.99.11:6443", NULL);
	fixture_expect("another port's", MK_HOOK_UPLINK, &in, TO_HOST,
		       "tcp 203.0.113.10:40001 > 192.168.99.11:6443");
	ck_assert_uint_eq(fixture_count("sessions") + fixture_count("sessions_young"), 4);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* A flood of first packets does not evict an established session. */
START_TEST(test_flood_evicts_no_established)
{
	struct frame in = frame_make("tcp 10.244.1.2:40000 > 10.96.0.10:80",
				     &(struct frame_options){ .tcp_flags = ACK });
	struct frame syn, out;
	char flow[96];

	establish();
	for (unsigned i = 0; i < 200000; i++) {
		snprintf(flow, sizeof(flow), "tcp 10.244.1.%u:%u > 10.96.0.10:80", 2 + (i & 1),
			 1024 + i / 2 % 64000);
		syn = frame_make(flow, NULL);
		if (strncmp(flow, "tcp 10.244.1.2:40000", 20) != 0)
			fixture_send(MK_HOOK_POD, &syn, &out);
	}
	fixture_expect("established", MK_HOOK_POD, &in, TO_OVERLAY,
		       "tcp 10.244.1.2:40000 > 10.244.2.7:8080");
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* Later fragments are translated like their first fragment. */
START_TEST(test_fragments_to_service)
{
	struct frame_options first = { .fragment = MF, .id = 7, .payload_bytes = 1024 };
	struct frame_options later = { .fragment = 129, .id = 7, .payload_bytes = 500 };
	struct frame_options other = { .fragment = 129, .id = 8, .payload_bytes = 500 };
	struct frame in = frame_make("udp 10.244.1.2:40000 > 10.96.0.10:53", &first), out;
	struct frame rest = frame_make("udp 10.244.1.2:40000 > 10.96.0.10:53", &later);
	struct frame stray = frame_make("udp 10.244.1.2:40000 > 10.96.0.10:53", &other);

	fixture_service("udp 10.96.0.10:53", MK_SCOPE_INTERNAL, 0, remote_backend, 0, 1);
	fixture_vip("10.96.0.10");
	fixture_expect("first", MK_HOOK_POD, &in, TO_OVERLAY,
		       "udp 10.244.1.2:40000 > 10.244.2.7:8080");
	out = fixture_expect("later", MK_HOOK_POD, &rest, TO_OVERLAY, NULL);
	ck_assert_msg(strstr(frame_flow(&out), "> 10.244.2.7:"), "later fragment as '%s'",
		      frame_flow(&out));
	ck_assert_msg(memcmp(rest.byte + frame_l4(&rest), out.byte + frame_l4(&out), 500) == 0,
		      "payload changed");
	fixture_expect("of nothing", MK_HOOK_POD, &stray, WAITS, NULL);
}
END_TEST

BPF_SUITE("sessions")
{
	TCase *tcase = bpf_case(suite, "sessions");

	tcase_add_unchecked_fixture(tcase, pieces_load, NULL);
	tcase_add_test(tcase, test_moves_with_the_handshake);
	tcase_add_test(tcase, test_refused_stays_half_open);
	tcase_add_test(tcase, test_given_up_stays_half_open);
	tcase_add_test(tcase, test_established_stays);
	tcase_add_test(tcase, test_port_reused);
	tcase_add_test(tcase, test_port_reused_after_refusal);
	tcase_add_loop_test(tcase, test_one_port_to_service_and_backend, 0, 2);
	tcase_add_loop_test(tcase, test_one_port_to_two_services, 0, 2);
	tcase_add_loop_test(tcase, test_one_port_to_service_and_host, 0, 2);
	tcase_add_test(tcase, test_flood_evicts_no_established);
	tcase_add_test(tcase, test_fragments_to_service);
}
