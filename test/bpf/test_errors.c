// SPDX-License-Identifier: Apache-2.0
/* ICMP errors: translated with the session of the packet that they quote, and sent if a packet
 * would otherwise vanish (too big, no TTL left). */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bpf/run.h"

static const char *const remote_backend[] = { "10.244.2.7:8080", NULL };
static const char *const local_backend[] = { "10.244.1.3:8080", NULL };

static struct frame error_about(const struct frame *quoted, const char *from_to, uint8_t code,
				size_t quote_bytes)
{
	struct frame_options options = {
		.icmp_type = 3, .icmp_code = code, .quote = quoted, .quote_bytes = quote_bytes
	};

	return frame_make(from_to, &options);
}

/* The quoted length: 8 bytes of TCP, then all of it with its checksum. */
static const size_t quotes[] = { 28, 40 };

START_TEST(test_backend_answers_with_an_error)
{
	struct frame in = frame_make("tcp 10.244.1.2:40000 > 10.96.0.10:80", NULL), seen, error;

	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, remote_backend, 0, 1);
	seen = fixture_expect("request", MK_HOOK_POD, &in, TO_OVERLAY, NULL);
	error = error_about(&seen, "icmp 10.244.2.7 > 10.244.1.2", 3, quotes[_i]);
	fixture_expect(
		"from the backend", MK_HOOK_OVERLAY, &error, TO_POD,
		"icmp-error 10.96.0.10 > 10.244.1.2 3/3 [tcp 10.244.1.2:40000 > 10.96.0.10:80]");
	error = error_about(&seen, "icmp 10.18.0.2 > 10.244.1.2", 4, quotes[_i]);
	fixture_expect(
		"from a router on the way", MK_HOOK_OVERLAY, &error, TO_POD,
		"icmp-error 10.18.0.2 > 10.244.1.2 3/4 [tcp 10.244.1.2:40000 > 10.96.0.10:80]");
}
END_TEST

START_TEST(test_error_to_masqueraded_pod)
{
	struct frame in = frame_make("udp 10.244.1.2:40000 > 203.0.113.10:53",
				     &(struct frame_options){ .payload_bytes = 12 });
	struct frame seen, error;

	seen = fixture_expect("request", MK_HOOK_POD, &in, TO_UPLINK, NULL);
	error = error_about(&seen, "icmp 192.0.2.1 > 192.168.99.11", 4, quotes[_i]);
	fixture_expect(
		"from a router", MK_HOOK_UPLINK, &error, TO_POD,
		"icmp-error 192.0.2.1 > 10.244.1.2 3/4 [udp 10.244.1.2:40000 > 203.0.113.10:53]");
	error = error_about(&seen, "icmp 203.0.113.10 > 192.168.99.11", 3, quotes[_i]);
	fixture_expect("from the peer", MK_HOOK_UPLINK, &error, TO_POD,
		       "icmp-error 203.0.113.10 > 10.244.1.2 3/3 [udp 10.244.1.2:40000 > "
		       "203.0.113.10:53]");
}
END_TEST

START_TEST(test_error_to_ping)
{
	struct frame in = frame_make("icmp 10.244.1.2 > 203.0.113.10 7", NULL), seen, error;

	seen = fixture_expect("ping", MK_HOOK_POD, &in, TO_UPLINK, NULL);
	error = error_about(&seen, "icmp 192.0.2.1 > 192.168.99.11", 1, 0);
	fixture_expect("host unreachable", MK_HOOK_UPLINK, &error, TO_POD,
		       "icmp-error 192.0.2.1 > 10.244.1.2 3/1 [icmp 10.244.1.2 > 203.0.113.10 7]");
}
END_TEST

/* A backend pod refuses a NodePort's packet: the client gets the error from the address that it
 * used. */
START_TEST(test_error_to_outside_client)
{
	struct frame in = frame_make("udp 203.0.113.10:40000 > 192.168.99.11:30053", NULL), seen,
		     error;

	fixture_service("udp 192.168.99.11:30053", MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV,
			local_backend, 1, 1);
	seen = fixture_expect("request", MK_HOOK_UPLINK, &in, TO_POD, NULL);
	error = error_about(&seen, "icmp 10.244.1.3 > 203.0.113.10", 3, 0);
	fixture_expect("port unreachable", MK_HOOK_POD, &error, TO_UPLINK,
		       "icmp-error 192.168.99.11 > 203.0.113.10 3/3 [udp 203.0.113.10:40000 > "
		       "192.168.99.11:30053]");
}
END_TEST

/* A network that this host forwards for has a session only for the way back, for any protocol. In a
 * packet without ports only addresses are known, and nothing else may change. */
START_TEST(test_error_about_no_ports)
{
	struct frame in = frame_make("esp 192.0.2.7:40000 > 10.244.1.3:80", NULL), seen, error, out;
	const char *what = "";

	seen = fixture_expect("ESP by way of the host", MK_HOOK_HOST, &in, TO_POD, NULL);
	error = error_about(&seen, "icmp 10.244.1.3 > 192.0.2.7", 2, 0);
	fixture_send(MK_HOOK_POD, &error, &out);
	ck_assert_msg(frame_checksums_right(&out, &what), "wrong %s", what);
	ck_assert_str_eq(frame_flow(&out), "icmp-error 10.244.1.3 > 192.0.2.7 3/2 "
					   "[esp 192.0.2.7:40000 > 10.244.1.3:80]");
}
END_TEST

START_TEST(test_host_keeps_its_errors)
{
	struct frame own = frame_make("tcp 192.168.99.11:22 > 203.0.113.10:40000", NULL), error,
		     out;

	error = error_about(&own, "icmp 192.0.2.1 > 192.168.99.11", 4, 0);
	ck_assert_int_eq(fixture_send(MK_HOOK_UPLINK, &error, &out), TO_HOST);
	ck_assert_msg(memcmp(error.byte, out.byte, error.length) == 0, "changed");
}
END_TEST

/* From outside to a backend on the other node: 1500 bytes do not fit the overlay. */
START_TEST(test_too_big_for_overlay)
{
	struct frame_options big = { .packet_bytes = 1500, .fragment = DF };
	struct frame in = frame_make("udp 203.0.113.10:40000 > 192.168.99.11:30053", &big), out;

	fixture_service("udp 192.168.99.11:30053", MK_SCOPE_EXTERNAL,
			MK_FRONTEND_MAGLEV | MK_FRONTEND_MASQUERADE, remote_backend, 0, 1);
	out = fixture_expect(
		"with DF", MK_HOOK_UPLINK, &in, TO_UPLINK,
		"icmp-error 192.168.99.11 > 203.0.113.10 3/4 [udp 203.0.113.10:40000 > "
		"192.168.99.11:30053]");
	ck_assert_uint_eq(frame_icmp_mtu(&out), 1450);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_TOO_BIG), 1);
	if (family_leaves_out(IPV4_ONLY("IPv6 always behaves as with DF")))
		return;
	big.fragment = 0;
	in = frame_make("udp 203.0.113.10:40000 > 192.168.99.11:30053", &big);
	fixture_expect("without DF", MK_HOOK_UPLINK, &in, TO_OVERLAY, NULL);
}
END_TEST

/* A pod's route to a Service has an MTU of 1500. TCP learns the size from the other end's MSS, but
 * a datagram cannot, so its carrier is fragmented. IPv6 has no such carriers. */
START_TEST(test_pod_to_service_too_big_for_overlay)
{
	struct frame_options big = { .packet_bytes = 1500, .fragment = DF, .tcp_flags = ACK };
	struct frame in = frame_make("udp 10.244.1.2:40000 > 10.96.0.10:53", &big);

	fixture_service("udp 10.96.0.10:53", MK_SCOPE_INTERNAL, 0, remote_backend, 0, 1);
	fixture_service("tcp 10.96.0.10:53", MK_SCOPE_INTERNAL, 0, remote_backend, 0, 1);
	if (!family_is6())
		fixture_expect("UDP", MK_HOOK_POD, &in, TO_OVERLAY, NULL);
	else
		fixture_expect("UDP", MK_HOOK_POD, &in, TO_POD,
			       "icmp-error 10.244.1.254 > 10.244.1.2 3/4 [udp 10.244.1.2:40000 > "
			       "10.96.0.10:53]");
	in = frame_make("tcp 10.244.1.2:40000 > 10.96.0.10:53", &big);
	fixture_expect("TCP", MK_HOOK_POD, &in, TO_POD,
		       "icmp-error 10.244.1.254 > 10.244.1.2 3/4 [tcp 10.244.1.2:40000 > "
		       "10.96.0.10:53]");
}
END_TEST

START_TEST(test_exactly_fitting)
{
	struct frame_options full = { .packet_bytes = 1450, .fragment = DF };
	struct frame in = frame_make("udp 10.244.1.2:40000 > 10.244.2.7:53", &full);

	fixture_expect("1450 bytes", MK_HOOK_POD, &in, TO_OVERLAY, NULL);
	full.packet_bytes++;
	in = frame_make("udp 10.244.1.2:40000 > 10.244.2.7:53", &full);
	fixture_expect("1451 bytes", MK_HOOK_POD, &in, TO_POD,
		       "icmp-error 10.244.1.254 > 10.244.1.2 3/4 [udp 10.244.1.2:40000 > "
		       "10.244.2.7:53]");
}
END_TEST

static const struct {
	const char *name;
	enum mk_hook hook;
	const char *flow;
	enum where where;
	const char *error;
} expired[] = {
	{ "pod to pod", MK_HOOK_POD, "udp 10.244.1.2:40000 > 10.244.1.3:53", TO_POD,
	  "icmp-error 10.244.1.254 > 10.244.1.2 11/0 [udp 10.244.1.2:40000 > 10.244.1.3:53]" },
	{ "pod to another node", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.244.2.7:53", TO_POD,
	  "icmp-error 10.244.1.254 > 10.244.1.2 11/0 [tcp 10.244.1.2:40000 > 10.244.2.7:53]" },
	{ "pod to outside", MK_HOOK_POD, "icmp 10.244.1.2 > 203.0.113.10 7", TO_POD,
	  "icmp-error 10.244.1.254 > 10.244.1.2 11/0 [icmp 10.244.1.2 > 203.0.113.10 7]" },
	{ "another node's pod", MK_HOOK_OVERLAY, "udp 10.244.2.7:40000 > 10.244.1.3:53", TO_OVERLAY,
	  "icmp-error 10.18.0.1 > 10.244.2.7 11/0 [udp 10.244.2.7:40000 > 10.244.1.3:53]" },
};

START_TEST(test_ttl_expired)
{
	struct frame in = frame_make(expired[_i].flow,
				     &(struct frame_options){ .ttl = 1, .payload_bytes = 300 });

	fixture_expect(expired[_i].name, expired[_i].hook, &in, expired[_i].where,
		       expired[_i].error);
	ck_assert_uint_eq(fixture_drops(expired[_i].hook, MK_DROP_TTL_EXPIRED), 1);
}
END_TEST

/* Never an error about an error (RFC 1122 3.2.2). */
START_TEST(test_no_error_about_an_error)
{
	struct frame quoted = frame_make("udp 10.244.1.3:53 > 10.244.1.2:40000", NULL), error;
	struct frame_options options = {
		.icmp_type = 3, .icmp_code = 3, .quote = &quoted, .ttl = 1
	};

	error = frame_make("icmp 10.244.1.2 > 10.244.1.3", &options);
	fixture_expect("error with TTL 1", MK_HOOK_POD, &error, DROPPED, NULL);
}
END_TEST

/* ---- how many, and to whom -------------------------------------------------------------------------- */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Each CPU sends a burst at once, and then one error per millisecond. */
START_TEST(test_limit)
{
	enum { PACKETS = 500 };
	struct frame in = frame_make("udp 203.0.113.10:40000 > 198.51.100.7:9", NULL), out;
	uint64_t began_ns = now_ns(), sent = 0, dropped = 0, may_send;

	fixture_vip("198.51.100.7");
	fixture_quota(FIXTURE_QUOTA); /* all packets come by one CPU */
	for (int i = 0; i < PACKETS; i++) {
		enum where where = fixture_send(MK_HOOK_UPLINK, &in, &out);

		ck_assert_msg(where == TO_UPLINK || where == DROPPED, "%s", where_name(where));
		sent += where == TO_UPLINK;
		dropped += where == DROPPED;
	}
	may_send = MK_ERROR_BURST + (now_ns() - began_ns) / MK_ERROR_NS + 1;
	ck_assert_uint_ge(sent, MK_ERROR_BURST);
	ck_assert_msg(sent <= may_send, "%lu errors, expected at most %lu", (unsigned long)sent,
		      (unsigned long)may_send);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_REFUSED), sent);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_ERROR_LIMIT), dropped);
}
END_TEST

/* A flood of packets that are refused must not break path MTU discovery. */
START_TEST(test_limit_leaves_path_mtu)
{
	struct frame_options big = { .packet_bytes = 1500, .fragment = DF };
	struct frame refused = frame_make("udp 203.0.113.10:40000 > 198.51.100.7:9", NULL), out;
	struct frame too_big = frame_make("udp 10.244.1.2:40000 > 10.244.2.7:53", &big);

	fixture_vip("198.51.100.7");
	fixture_quota(FIXTURE_QUOTA); /* all packets come by one CPU */
	for (int i = 0; i < 500; i++)
		fixture_send(MK_HOOK_UPLINK, &refused, &out);
	for (int i = 0; i < MK_ERROR_BURST_MTU - MK_ERROR_BURST; i++)
		fixture_expect("too big", MK_HOOK_POD, &too_big, TO_POD,
			       "icmp-error 10.244.1.254 > 10.244.1.2 3/4 [udp 10.244.1.2:40000 > "
			       "10.244.2.7:53]");
}
END_TEST

static const struct {
	const char *name;
	enum mk_hook hook;
	const char *source;
	enum where where;
} senders[] = {
	{ IPV4_ONLY("no broadcast") "broadcast of the uplink's network", MK_HOOK_UPLINK,
	  "192.168.99.255", DROPPED },
	{ IPV4_ONLY("no such source") "class E", MK_HOOK_UPLINK, "240.0.0.1", DROPPED },
	{ "no address, by the overlay", MK_HOOK_OVERLAY, "0.0.0.0", DROPPED },
	{ "loopback, by the overlay", MK_HOOK_OVERLAY, "127.0.0.1", DROPPED },
	{ "multicast, by the overlay", MK_HOOK_OVERLAY, "224.0.0.1", DROPPED },
	{ "limited broadcast, by the overlay", MK_HOOK_OVERLAY, "255.255.255.255", DROPPED },
	{ "another host of the uplink's network", MK_HOOK_UPLINK, "192.168.99.254", TO_UPLINK },
	{ "a host outside", MK_HOOK_UPLINK, "203.0.113.10", TO_UPLINK },
};

/* Never to a source that is no single host (RFC 1122 3.2.2). The packet is counted nevertheless. */
START_TEST(test_source_of_error)
{
	char flow[128];
	struct frame in, out;
	int reason = senders[_i].hook == MK_HOOK_UPLINK ? MK_DROP_REFUSED : MK_DROP_TTL_EXPIRED;

	if (family_leaves_out(senders[_i].name))
		return;
	snprintf(flow, sizeof(flow), "udp %s:40000 > %s:9", senders[_i].source,
		 reason == MK_DROP_REFUSED ? "198.51.100.7" : "10.244.1.3");
	fixture_vip("198.51.100.7");
	in = frame_make(flow, &(struct frame_options){ .ttl = 1 });
	ck_assert_msg(fixture_send(senders[_i].hook, &in, &out) == senders[_i].where, "%s",
		      senders[_i].name);
	ck_assert_msg(fixture_drops(senders[_i].hook, (enum mk_drop_reason)reason) == 1 &&
			      fixture_drops_total() == 1,
		      "%s: not counted, or more than once", senders[_i].name);
}
END_TEST

/* ---- addresses that no pod has ---------------------------------------------------------------------- */

static const struct {
	const char *name;
	enum mk_hook hook;
	const char *flow;
	enum where where;
	const char *error;
} nobodys[] = {
	{ "a pod asks", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.244.1.77:80", TO_POD,
	  "icmp-error 10.244.1.254 > 10.244.1.2 3/1 [tcp 10.244.1.2:40000 > 10.244.1.77:80]" },
	{ "a pod asks the virtual pod address", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.244.1.1:80",
	  TO_POD,
	  "icmp-error 10.244.1.254 > 10.244.1.2 3/1 [tcp 10.244.1.2:40000 > 10.244.1.1:80]" },
	{ "another node's pod asks", MK_HOOK_OVERLAY, "udp 10.244.2.7:40000 > 10.244.1.77:53",
	  TO_OVERLAY,
	  "icmp-error 10.18.0.1 > 10.244.2.7 3/1 [udp 10.244.2.7:40000 > 10.244.1.77:53]" },
	{ "the host asks", MK_HOOK_HOST, "tcp 10.18.0.1:40000 > 10.244.1.77:80", TO_HOST,
	  "icmp-error 10.244.1.1 > 10.18.0.1 3/1 [tcp 10.18.0.1:40000 > 10.244.1.77:80]" },
};

START_TEST(test_no_pod)
{
	struct frame in = frame_make(nobodys[_i].flow, NULL);

	fixture_expect(nobodys[_i].name, nobodys[_i].hook, &in, nobodys[_i].where,
		       nobodys[_i].error);
	ck_assert_uint_eq(fixture_drops(nobodys[_i].hook, MK_DROP_NO_POD), 1);
	ck_assert_uint_eq(fixture_drops_total(), 1);
}
END_TEST

/* A Service's endpoint is gone, and no pod has its address: the error comes from the address that
 * the client asked. */
START_TEST(test_no_pod_behind_service)
{
	static const char *const gone[] = { "10.244.1.77:8080", NULL };
	struct frame in = frame_make("tcp 10.244.1.2:40000 > 10.96.0.10:80", NULL);

	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, gone, 1, 1);
	fixture_expect("request", MK_HOOK_POD, &in, TO_POD,
		       "icmp-error 10.244.1.254 > 10.244.1.2 3/1 [tcp 10.244.1.2:40000 > "
		       "10.96.0.10:80]");
}
END_TEST

BPF_SUITE("ICMP errors")
{
	TCase *tcase = bpf_case(suite, "errors");

	tcase_add_loop_test(tcase, test_backend_answers_with_an_error, 0, ROWS(quotes));
	tcase_add_loop_test(tcase, test_error_to_masqueraded_pod, 0, ROWS(quotes));
	tcase_add_test(tcase, test_error_to_ping);
	tcase_add_test(tcase, test_error_to_outside_client);
	tcase_add_test(tcase, test_error_about_no_ports);
	tcase_add_test(tcase, test_host_keeps_its_errors);
	tcase_add_test(tcase, test_too_big_for_overlay);
	tcase_add_test(tcase, test_pod_to_service_too_big_for_overlay);
	tcase_add_test(tcase, test_exactly_fitting);
	tcase_add_loop_test(tcase, test_ttl_expired, 0, ROWS(expired));
	tcase_add_test(tcase, test_no_error_about_an_error);
	tcase_add_loop_test(tcase, test_no_pod, 0, ROWS(nobodys));
	tcase_add_test(tcase, test_no_pod_behind_service);
	tcase_add_test(tcase, test_limit);
	tcase_add_test(tcase, test_limit_leaves_path_mtu);
	tcase_add_loop_test(tcase, test_source_of_error, 0, ROWS(senders));
}
