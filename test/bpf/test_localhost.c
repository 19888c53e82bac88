// SPDX-License-Identifier: Apache-2.0
/* localhostNodePorts: the host asks a NodePort at 127.0.0.1, and no other sender can. */
#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bpf/run.h"

#define REQUEST "tcp 127.0.0.1:40000 > 127.0.0.1:30080"

static const char *const remote_backend[] = { "10.244.2.7:8080", NULL };
static const char *const no_backend[] = { NULL };

static void reset(void)
{
	fixture_reset();
	fixture_localhost_ports(30079, 30090);
}

START_TEST(test_localhost_node_port)
{
	struct frame_options options = { .tcp_flags = SYN | ACK };
	struct frame in = frame_make(REQUEST, NULL), out, answer;
	unsigned port = 0;
	char flow[96];

	if (family_leaves_out(IPV4_ONLY("one loopback address")))
		return;
	fixture_service("tcp 127.0.0.1:30080", MK_SCOPE_INTERNAL, MK_FRONTEND_MASQUERADE,
			remote_backend, 0, 1);
	fixture_expect("SYN", HOOK_LOOPBACK, &in, TO_HOST_HOOK, REQUEST);
	out = fixture_expect("SYN", MK_HOOK_HOST, &in, TO_OVERLAY, NULL);
	ck_assert_int_eq(sscanf(frame_flow(&out), "tcp 10.244.1.1:%u > 10.244.2.7:8080", &port), 1);
	snprintf(flow, sizeof(flow), "tcp 10.244.2.7:8080 > 10.244.1.1:%u", port);
	answer = frame_make(flow, &options);
	fixture_expect("SYN-ACK", MK_HOOK_OVERLAY, &answer, TO_LOOPBACK,
		       "tcp 127.0.0.1:30080 > 127.0.0.1:40000");
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

START_TEST(test_refused)
{
	struct frame in = frame_make(REQUEST, NULL);

	fixture_service("tcp 127.0.0.1:30080", MK_SCOPE_INTERNAL, MK_FRONTEND_MASQUERADE,
			no_backend, 0, 1);
	fixture_expect("no backend", HOOK_LOOPBACK, &in, TO_HOST_HOOK, NULL);
	fixture_expect("no backend", MK_HOOK_HOST, &in, TO_LOOPBACK,
		       "icmp-error 127.0.0.1 > 127.0.0.1 3/3 [" REQUEST "]");
}
END_TEST

static const struct {
	const char *name;
	enum mk_hook hook;
	const char *flow;
	enum where where;
	uint8_t tcp_flags;
} others[] = {
	{ "a port of the host", HOOK_LOOPBACK, "tcp 127.0.0.1:40000 > 127.0.0.1:22", TO_HOST, SYN },
	{ "the host's answer", HOOK_LOOPBACK, "tcp 127.0.0.1:22 > 127.0.0.1:40000", TO_HOST, SYN },
	{ "a port between NodePorts", HOOK_LOOPBACK, "tcp 127.0.0.1:40000 > 127.0.0.1:30081",
	  TO_HOST, SYN },
	{ "the same number of another protocol", HOOK_LOOPBACK,
	  "udp 127.0.0.1:40000 > 127.0.0.1:30080", TO_HOST, SYN },
	{ "the host's answer to a connection from that port", HOOK_LOOPBACK,
	  "tcp 127.0.0.1:22 > 127.0.0.1:30080", TO_HOST, SYN | ACK },
	{ "... and what follows", HOOK_LOOPBACK, "tcp 127.0.0.1:22 > 127.0.0.1:30080", TO_HOST,
	  ACK },
	{ "a pod", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 127.0.0.1:30080", DROPPED, SYN },
	{ "world", MK_HOOK_UPLINK, "tcp 203.0.113.10:40000 > 127.0.0.1:30080", TO_HOST, SYN },
};

/* The host handles a martian itself. */
START_TEST(test_others)
{
	const struct frame_options options = { .tcp_flags = others[_i].tcp_flags };
	struct frame in = frame_make(others[_i].flow, &options), out;

	fixture_service("tcp 127.0.0.1:30080", MK_SCOPE_INTERNAL, MK_FRONTEND_MASQUERADE,
			remote_backend, 0, 1);
	ck_assert_int_eq(fixture_send(others[_i].hook, &in, &out), others[_i].where);
	ck_assert_uint_eq(fixture_count("sessions_young"), 0);
}
END_TEST

/* Every address of 127.0.0.0/8 is the host's. */
START_TEST(test_any_loopback_address)
{
	const struct frame_options syn_ack = { .tcp_flags = SYN | ACK };
	struct frame in = frame_make("tcp 127.0.0.1:40000 > 127.0.0.53:30080", NULL), out;
	unsigned port = 0;
	char flow[96];

	if (family_leaves_out(IPV4_ONLY("one loopback address")))
		return;
	fixture_service("tcp 127.0.0.1:30080", MK_SCOPE_INTERNAL, MK_FRONTEND_MASQUERADE,
			remote_backend, 0, 1);
	fixture_expect("SYN", HOOK_LOOPBACK, &in, TO_HOST_HOOK, NULL);
	out = fixture_expect("SYN", MK_HOOK_HOST, &in, TO_OVERLAY, NULL);
	ck_assert_int_eq(sscanf(frame_flow(&out), "tcp 10.244.1.1:%u >", &port), 1);
	snprintf(flow, sizeof(flow), "tcp 10.244.2.7:8080 > 10.244.1.1:%u", port);
	in = frame_make(flow, &syn_ack);
	fixture_expect("SYN-ACK", MK_HOOK_OVERLAY, &in, TO_LOOPBACK,
		       "tcp 127.0.0.53:30080 > 127.0.0.1:40000");
}
END_TEST

/* Fragments without ports follow their first fragment. */
START_TEST(test_fragments)
{
	struct frame_options first = { .payload_bytes = 1024, .fragment = MF, .id = 9 };
	struct frame_options later = { .payload_bytes = 100, .fragment = 129, .id = 9 };
	struct frame in = frame_make("udp 127.0.0.1:40000 > 127.0.0.1:30080", &first), out;

	fixture_service("udp 127.0.0.1:30080", MK_SCOPE_INTERNAL, MK_FRONTEND_MASQUERADE,
			remote_backend, 0, 1);
	ck_assert_int_eq(fixture_send(HOOK_LOOPBACK, &in, &out), TO_HOST_HOOK);
	in = frame_make("udp 127.0.0.1:40000 > 127.0.0.1:30080", &later);
	ck_assert_int_eq(fixture_send(HOOK_LOOPBACK, &in, &out), TO_HOST_HOOK);
}
END_TEST

/* Enter a network namespace with only a loopback device: no other process has a port there. */
static void own_network(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd;

	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(ioctl(fd, SIOCSIFFLAGS, &request), 0);
	close(fd);
}

/* A socket of the host has the number of a NodePort. A connected one gets its answer. An
 * unconnected one loses the number to the Service, as with kube-proxy. */
START_TEST(test_socket_with_that_port)
{
	struct sockaddr_storage own, server;
	socklen_t size = family_sockaddr("127.0.0.77:30080", &own);
	struct frame in = frame_make("udp 127.0.0.53:53 > 127.0.0.77:30080", NULL), out;
	int fd;

	own_network();
	family_sockaddr("127.0.0.53:53", &server);
	fd = socket(family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
	fixture_service("udp 127.0.0.1:30080", MK_SCOPE_INTERNAL, MK_FRONTEND_MASQUERADE,
			remote_backend, 0, 1);
	ck_assert_int_eq(bind(fd, (const struct sockaddr *)&own, size), 0);
	ck_assert_int_eq(fixture_send(HOOK_LOOPBACK, &in, &out), TO_HOST_HOOK);
	ck_assert_int_eq(connect(fd, (const struct sockaddr *)&server, size), 0);
	ck_assert_int_eq(fixture_send(HOOK_LOOPBACK, &in, &out), TO_HOST);
	in = frame_make("udp 127.0.0.53:54 > 127.0.0.77:30080", NULL);
	ck_assert_int_eq(fixture_send(HOOK_LOOPBACK, &in, &out), TO_HOST_HOOK);
	close(fd);
}
END_TEST

/* No NodePort is outside the range: there the programs read no table. */
START_TEST(test_outside_the_range)
{
	struct frame in = frame_make(REQUEST, NULL), out;

	fixture_service("tcp 127.0.0.1:30080", MK_SCOPE_INTERNAL, MK_FRONTEND_MASQUERADE,
			remote_backend, 0, 1);
	fixture_localhost_ports(30081, 32767);
	ck_assert_int_eq(fixture_send(HOOK_LOOPBACK, &in, &out), TO_HOST);
	fixture_localhost_ports(1, 30079);
	ck_assert_int_eq(fixture_send(HOOK_LOOPBACK, &in, &out), TO_HOST);
	fixture_localhost_ports(0, 0);
	ck_assert_int_eq(fixture_send(HOOK_LOOPBACK, &in, &out), TO_HOST);
	fixture_localhost_ports(30080, 30080);
	ck_assert_int_eq(fixture_send(HOOK_LOOPBACK, &in, &out), TO_HOST_HOOK);
}
END_TEST

BPF_SUITE("localhost")
{
	TCase *tcase = tcase_create("localhost");

	tcase_add_unchecked_fixture(tcase, fixture_load_small, fixture_unload);
	tcase_add_checked_fixture(tcase, reset, NULL);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	tcase_add_test(tcase, test_localhost_node_port);
	tcase_add_test(tcase, test_refused);
	tcase_add_test(tcase, test_any_loopback_address);
	tcase_add_test(tcase, test_fragments);
	tcase_add_test(tcase, test_socket_with_that_port);
	tcase_add_test(tcase, test_outside_the_range);
	tcase_add_loop_test(tcase, test_others, 0, ROWS(others));
}
