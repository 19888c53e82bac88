// SPDX-License-Identifier: Apache-2.0
/* A client uses one port towards a Service and towards its backend (bpf/collision.h), first towards
 * the backend. The Service's flow gets another port, and each flow gets its own answers. The other
 * order is in test_sessions.c. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "bpf/fixture.h"
#include "bpf/network.h"
#include "bpf/run.h"
#include "rows.h"

static const char *const remote_backend[] = { "10.244.2.7:8080", NULL };
static const char *const host_backend[] = { "192.168.99.11:6443", NULL };
static const struct frame_options syn_ack = { .tcp_flags = SYN | ACK };
static const struct frame_options payload = { .payload_bytes = 9 };

static void reset(void)
{
	fixture_reset();
	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, remote_backend, 0, 1);
	fixture_service("udp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, remote_backend, 0, 1);
	fixture_service("sctp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, remote_backend, 0, 1);
	fixture_service("tcp 192.168.99.11:30081", MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV,
			host_backend, 1, 1);
	fixture_service("udp 192.168.99.11:30081", MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV,
			host_backend, 1, 1);
	fixture_service("sctp 192.168.99.11:30081", MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV,
			host_backend, 1, 1);
}

static void host_is_backend(void)
{
	const struct mk_runtime settings = { .host_backends = 1 };

	fixture_runtime(&settings);
}

/* ---- flows ------------------------------------------------------------------------------------- */

/* Send the first packet of @flow by @hook. Returns the port from which it goes to @backend. */
static unsigned port_of(enum mk_hook hook, const char *flow, const struct frame_options *options,
			enum where where, const char *backend)
{
	struct frame in = frame_make(flow, options), out;
	char client[64], *colon;
	const char *seen;

	out = fixture_expect(flow, hook, &in, where, NULL);
	seen = frame_flow(&out);
	ck_assert_msg(strstr(seen, backend) != NULL, "%s left as '%s'", flow, seen);
	ck_assert_int_eq(sscanf(seen, "%*s %63s", client), 1);
	colon = strchr(client, ':');
	return (unsigned)atoi(colon + 1);
}

static void expect_answer(enum mk_hook hook, const char *proto, const char *backend,
			  const char *client, unsigned port, enum where where, const char *seen)
{
	const struct frame_options *options = strcmp(proto, "tcp") == 0 ? &syn_ack : &payload;
	struct frame_options init_ack = { .sctp_chunk = SCTP_INIT_ACK };
	struct frame in;
	char flow[96];

	snprintf(flow, sizeof(flow), "%s %s > %s:%u", proto, backend, client, port);
	in = frame_make(flow, strcmp(proto, "sctp") == 0 ? &init_ack : options);
	fixture_expect(flow, hook, &in, where, seen);
}

static unsigned by_service(const char *proto, unsigned port)
{
	char flow[96];

	snprintf(flow, sizeof(flow), "%s 10.244.1.2:%u > 10.96.0.10:80", proto, port);
	return port_of(MK_HOOK_POD, flow, NULL, TO_OVERLAY, " > 10.244.2.7:8080");
}

static unsigned directly(const char *proto, unsigned port)
{
	char flow[96];

	snprintf(flow, sizeof(flow), "%s 10.244.1.2:%u > 10.244.2.7:8080", proto, port);
	return port_of(MK_HOOK_POD, flow, NULL, TO_OVERLAY, " > 10.244.2.7:8080");
}

static void pod_is_answered(const char *proto, unsigned port, const char *from)
{
	char seen[96];

	snprintf(seen, sizeof(seen), "%s %s > 10.244.1.2:40000", proto, from);
	expect_answer(MK_HOOK_OVERLAY, proto, "10.244.2.7:8080", "10.244.1.2", port, TO_POD, seen);
}

START_TEST(test_connection_first)
{
	unsigned port;

	network_of_pod("10.244.1.2", network_of_own());
	network_reaches_all();
	network_socket("10.244.1.2:40000", "10.244.2.7:8080");
	port = by_service("tcp", 40000);
	ck_assert_uint_ge(port, 49152);
	pod_is_answered("tcp", port, "10.96.0.10:80");
	pod_is_answered("tcp", 40000, "10.244.2.7:8080");
	ck_assert_uint_eq(by_service("tcp", 40001), 40001);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* A listening socket does not matter, nor does a socket in a namespace without a number here. */
START_TEST(test_no_connection)
{
	int number = network_of_own();

	network_of_pod("10.244.1.2", number);
	network_reaches_all();
	network_socket("10.244.1.2:40000", NULL);
	ck_assert_uint_eq(by_service("tcp", 40000), 40000);
	network_socket("10.244.1.2:40001", "10.244.2.7:8081");
	ck_assert_uint_eq(by_service("tcp", 40001), 40001);
	network_socket("10.244.1.2:40002", "10.244.2.7:8080");
	network_of_pod("10.244.1.2", number + 1);
	ck_assert_uint_eq(by_service("tcp", 40002), 40002);
}
END_TEST

static unsigned by_node_port(const char *proto, unsigned port)
{
	char flow[96];

	snprintf(flow, sizeof(flow), "%s 203.0.113.10:%u > 192.168.99.11:30081", proto, port);
	return port_of(MK_HOOK_UPLINK, flow, NULL, TO_HOST, " > 192.168.99.11:6443");
}

static void world_is_answered(const char *proto, unsigned port, const char *from)
{
	char seen[96];

	snprintf(seen, sizeof(seen), "%s %s > 203.0.113.10:40000", proto, from);
	expect_answer(MK_HOOK_UPLINK_EGRESS, proto, "192.168.99.11:6443", "203.0.113.10", port,
		      TO_HOST, seen);
}

START_TEST(test_hosts_connection_first)
{
	unsigned port;

	(void)network_of_own();
	network_reaches_all();
	host_is_backend();
	network_socket("192.168.99.11:6443", "203.0.113.10:40000"); /* the host's end */
	port = by_node_port("tcp", 40000);
	ck_assert_uint_ge(port, 49152);
	world_is_answered("tcp", port, "192.168.99.11:30081");
	world_is_answered("tcp", 40000, "192.168.99.11:6443");
	ck_assert_uint_eq(by_node_port("tcp", 40001), 40001);
}
END_TEST

/* Test one order: the later flow gets another port. */
static void both_of_pod(const char *proto, bool service_first)
{
	unsigned first = service_first ? by_service(proto, 40000) : directly(proto, 40000);
	unsigned later = service_first ? directly(proto, 40000) : by_service(proto, 40000);

	ck_assert_uint_eq(first, 40000);
	ck_assert_uint_ge(later, 49152);
	pod_is_answered(proto, service_first ? first : later, "10.96.0.10:80");
	pod_is_answered(proto, service_first ? later : first, "10.244.2.7:8080");
	ck_assert_uint_eq(directly(proto, 40000), service_first ? later : first);
	ck_assert_uint_eq(by_service(proto, 40000), service_first ? first : later);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}

START_TEST(test_datagrams)
{
	fixture_udp_backend_port(8080);
	both_of_pod("udp", _i);
}
END_TEST

/* This host is the backend. */
START_TEST(test_datagrams_to_host)
{
	static const char *const direct = "udp 10.244.1.2:40000 > 192.168.99.11:6443",
				 *const service = "udp 10.244.1.2:40000 > 10.96.0.10:53";
	unsigned first, later;

	fixture_udp_backend_port(6443);
	fixture_service("udp 10.96.0.10:53", MK_SCOPE_INTERNAL, 0, host_backend, 1, 1);
	first = port_of(MK_HOOK_POD, _i ? service : direct, NULL, TO_HOST, ":6443");
	later = port_of(MK_HOOK_POD, _i ? direct : service, NULL, TO_HOST, ":6443");
	ck_assert_uint_eq(first, 40000);
	ck_assert_uint_ge(later, 49152);
	expect_answer(MK_HOOK_HOST, "udp", "192.168.99.11:6443", "10.244.1.2", _i ? first : later,
		      TO_POD, "udp 10.96.0.10:53 > 10.244.1.2:40000");
	expect_answer(MK_HOOK_HOST, "udp", "192.168.99.11:6443", "10.244.1.2", _i ? later : first,
		      TO_POD, "udp 192.168.99.11:6443 > 10.244.1.2:40000");
}
END_TEST

START_TEST(test_associations)
{
	both_of_pod("sctp", _i);
}
END_TEST

static void both_of_world(const char *proto, bool service_first)
{
	char flow[96];
	unsigned ports[2];

	snprintf(flow, sizeof(flow), "%s 203.0.113.10:40000 > 192.168.99.11:6443", proto);
	for (int i = 0; i < 2; i++)
		ports[i] = (i == 0) == service_first
				   ? by_node_port(proto, 40000)
				   : port_of(MK_HOOK_UPLINK, flow, NULL, TO_HOST, ":6443");
	ck_assert_uint_eq(ports[0], 40000);
	ck_assert_uint_ge(ports[1], 49152);
	world_is_answered(proto, ports[service_first ? 0 : 1], "192.168.99.11:30081");
	world_is_answered(proto, ports[service_first ? 1 : 0], "192.168.99.11:6443");
	ck_assert_uint_eq(fixture_drops_total(), 0);
}

START_TEST(test_hosts_datagrams)
{
	host_is_backend();
	fixture_udp_backend_port(6443);
	both_of_world("udp", _i);
}
END_TEST

START_TEST(test_hosts_associations)
{
	host_is_backend();
	both_of_world("sctp", _i);
}
END_TEST

static unsigned sessions(void)
{
	return fixture_count("sessions") + fixture_count("sessions_young");
}

/* A flow that cannot collide with a Service's flow has no session. */
START_TEST(test_nothing_to_keep)
{
	struct frame in = frame_make("udp 192.168.99.12:5353 > 192.168.99.11:6443", NULL), out;

	fixture_udp_backend_port(6443);
	directly("udp", 40000);
	directly("tcp", 40000);
	ck_assert_int_eq(fixture_send(MK_HOOK_UPLINK, &in, &out), TO_HOST);
	host_is_backend();
	in = frame_make("udp 192.168.99.12:5353 > 192.168.99.11:6444", NULL);
	ck_assert_int_eq(fixture_send(MK_HOOK_UPLINK, &in, &out), TO_HOST);
	in = frame_make("udp 10.244.1.2:40000 > 203.0.113.53:6443", NULL);
	ck_assert_int_eq(fixture_send(MK_HOOK_POD, &in, &out), TO_UPLINK);
	ck_assert_uint_eq(sessions(), 0);
}
END_TEST

/* A backend outside the cluster: the direct flow gets another port if a Service's flow exists. */
START_TEST(test_datagrams_outside)
{
	static const char *const outside[] = { "203.0.113.53:53", NULL };
	static const char *const flow = "udp 10.244.1.2:40000 > 203.0.113.53:53";
	struct frame in = frame_make("udp 10.244.1.2:40000 > 10.96.0.10:53", NULL);
	unsigned before, later;

	fixture_udp_backend_port(53);
	fixture_service("udp 10.96.0.10:53", MK_SCOPE_INTERNAL, 0, outside, 0, 1);
	before = port_of(MK_HOOK_POD, flow, NULL, TO_UPLINK, " > 203.0.113.53:53");
	ck_assert_uint_eq(sessions(), 0);
	fixture_expect("the Service's", MK_HOOK_POD, &in, TO_UPLINK, NULL);
	later = port_of(MK_HOOK_POD, flow, NULL, TO_UPLINK, " > 203.0.113.53:53");
	ck_assert_uint_ne(before, later);
	expect_answer(MK_HOOK_UPLINK, "udp", "203.0.113.53:53", "192.168.99.11", later, TO_POD,
		      "udp 203.0.113.53:53 > 10.244.1.2:40000");
}
END_TEST

/* Fill @map with entries of no session. */
static void fill(const char *map)
{
	struct mk_session session = { .created_ns = 1 };
	struct mk_tuple key = { .proto = IPPROTO_UDP };
	int ret;

	do {
		key.sport++;
		ret = row_update(fixture_map(map), &key, &session, BPF_ANY);
	} while (ret == 0);
	ck_assert_int_eq(errno, ENOSPC);
}

/* The tables are full: flows to no Service pass without a session. */
START_TEST(test_tables_full)
{
	struct frame in = frame_make("udp 203.0.113.10:40000 > 192.168.99.11:6443", NULL), out;

	host_is_backend();
	fixture_udp_backend_port(8080);
	fixture_udp_backend_port(6443);
	fill("sessions_young");
	ck_assert_uint_eq(directly("udp", 40000), 40000);
	ck_assert_uint_eq(directly("sctp", 40000), 40000);
	ck_assert_int_eq(fixture_send(MK_HOOK_UPLINK, &in, &out), TO_HOST);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

BPF_SUITE("beside")
{
	TCase *tcase = tcase_create("beside");

	tcase_add_unchecked_fixture(tcase, fixture_load_small, fixture_unload);
	tcase_add_checked_fixture(tcase, reset, NULL);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	tcase_add_test(tcase, test_connection_first);
	tcase_add_test(tcase, test_no_connection);
	tcase_add_test(tcase, test_hosts_connection_first);
	tcase_add_loop_test(tcase, test_datagrams, 0, 2);
	tcase_add_loop_test(tcase, test_datagrams_to_host, 0, 2);
	tcase_add_loop_test(tcase, test_associations, 0, 2);
	tcase_add_loop_test(tcase, test_hosts_datagrams, 0, 2);
	tcase_add_loop_test(tcase, test_hosts_associations, 0, 2);
	tcase_add_test(tcase, test_nothing_to_keep);
	tcase_add_test(tcase, test_datagrams_outside);
	tcase_add_test(tcase, test_tables_full);
}
