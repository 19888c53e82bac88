// SPDX-License-Identifier: Apache-2.0
/* localhostNodePorts: the host asks a NodePort at 127.0.0.1, and nobody else does. */
#include <stdio.h>

#include "bpf/run.h"

#define REQUEST "tcp 127.0.0.1:40000 > 127.0.0.1:30080"

static const char *const remote_backend[] = { "10.244.2.7:8080", NULL };
static const char *const no_backend[] = { NULL };

static void setup(void)
{
	fixture_localhost_node_ports();
	fixture_load();
}

START_TEST(test_localhost_node_port)
{
	struct frame_options options = { .tcp_flags = SYN | ACK };
	struct frame in = frame_make(REQUEST, NULL), out, answer;
	unsigned port = 0;
	char flow[96];

	fixture_service("tcp 127.0.0.1:30080", MK_SCOPE_INTERNAL, MK_SERVICE_MASQUERADE,
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

	fixture_service("tcp 127.0.0.1:30080", MK_SCOPE_INTERNAL, MK_SERVICE_MASQUERADE, no_backend,
			0, 1);
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
} others[] = {
	{ "a port of the host", HOOK_LOOPBACK, "tcp 127.0.0.1:40000 > 127.0.0.1:22", TO_HOST },
	{ "the host's answer", HOOK_LOOPBACK, "tcp 127.0.0.1:22 > 127.0.0.1:40000", TO_HOST },
	{ "a pod", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 127.0.0.1:30080", DROPPED },
	{ "world", MK_HOOK_UPLINK, "tcp 203.0.113.10:40000 > 127.0.0.1:30080", TO_HOST },
};

/* What the host makes of a martian is its own affair. */
START_TEST(test_others)
{
	struct frame in = frame_make(others[_i].flow, NULL), out;

	fixture_service("tcp 127.0.0.1:30080", MK_SCOPE_INTERNAL, MK_SERVICE_MASQUERADE,
			remote_backend, 0, 1);
	ck_assert_int_eq(fixture_send(others[_i].hook, &in, &out), others[_i].where);
	ck_assert_uint_eq(fixture_count("sessions_new"), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("localhost");
	TCase *tcase = tcase_create("localhost");

	tcase_add_unchecked_fixture(tcase, setup, fixture_unload);
	tcase_add_checked_fixture(tcase, fixture_reset, NULL);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	tcase_add_test(tcase, test_localhost_node_port);
	tcase_add_test(tcase, test_refused);
	tcase_add_loop_test(tcase, test_others, 0, ROWS(others));
	return bpf_run(suite);
}
