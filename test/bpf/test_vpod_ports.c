// SPDX-License-Identifier: Apache-2.0
/* The source port that a backend sees behind the virtual pod address: the client's own, because
 * only monokube uses that address. */
#include <stdio.h>
#include <string.h>

#include "bpf/run.h"

static void setup(void)
{
	static const char *const remote[] = { "10.244.2.7:8080", NULL };
	static const char *const itself[] = { "10.244.1.2:8080", NULL };

	fixture_reset();
	fixture_service("tcp 192.168.99.11:30080", MK_SCOPE_EXTERNAL,
			MK_FRONTEND_MAGLEV | MK_FRONTEND_MASQUERADE, remote, 0, 1);
	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, itself, 1, 1);
}

/* Send a first packet. Returns the port that the backend sees. */
static unsigned ask(enum mk_hook hook, const char *client, unsigned port, const char *server)
{
	struct frame in, out;
	unsigned seen = 0;
	char flow[96];

	snprintf(flow, sizeof(flow), "tcp %s:%u > %s", client, port, server);
	in = frame_make(flow, &(struct frame_options){ .tcp_flags = SYN });
	ck_assert_int_ne(fixture_send(hook, &in, &out), DROPPED);
	ck_assert_msg(sscanf(frame_flow(&out), "tcp 10.244.1.1:%u >", &seen) == 1,
		      "%s left as '%s'", flow, frame_flow(&out));
	return seen;
}

static unsigned ask_outside(const char *client, unsigned port)
{
	return ask(MK_HOOK_UPLINK, client, port, "192.168.99.11:30080");
}

START_TEST(test_own_port)
{
	static const unsigned ports[] = { 80, 1023, 9088, 32768, 40000, 60999, 65535 };

	for (int i = 0; i < ROWS(ports); i++)
		ck_assert_uint_eq(ask_outside("203.0.113.10", ports[i]), ports[i]);
}
END_TEST

START_TEST(test_hairpin)
{
	ck_assert_uint_eq(ask(MK_HOOK_POD, "10.244.1.2", 40000, "10.96.0.10:80"), 40000);
}
END_TEST

/* Other clients with the same port get a port from 1024 to 65535. */
START_TEST(test_port_of_another)
{
	bool low = false, high = false;
	char client[32];

	ck_assert_uint_eq(ask_outside("203.0.113.10", 40000), 40000);
	for (unsigned i = 0; i < 100; i++) {
		unsigned seen;

		snprintf(client, sizeof(client), "203.0.113.%u", 11 + i);
		seen = ask_outside(client, 40000);
		ck_assert_uint_ge(seen, 1024);
		ck_assert_uint_ne(seen, 40000);
		low = low || seen < 30000;
		high = high || seen > 50000;
	}
	ck_assert(low && high);
}
END_TEST

/* The quota: in the first eighth of the range a client may use only one of two neighbouring ports.
 * Which one differs between clients. */
START_TEST(test_quota)
{
	unsigned differ = 0;

	for (unsigned port = 1024; port < 1024 + 64; port += 2) {
		bool even = ask_outside("203.0.113.10", port) == port;
		bool odd = ask_outside("203.0.113.10", port + 1) == port + 1;
		bool others_even = ask_outside("203.0.113.20", port) == port;

		ck_assert_msg(even != odd || !even, "the client has both, %u and the next", port);
		differ += others_even && !even;
	}
	ck_assert_uint_ge(differ, 1);
}
END_TEST

BPF_SUITE("virtual pod address's ports")
{
	TCase *tcase = tcase_create("own ports");

	tcase_add_unchecked_fixture(tcase, fixture_load_small, fixture_unload);
	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	tcase_add_test(tcase, test_own_port);
	tcase_add_test(tcase, test_hairpin);
	tcase_add_test(tcase, test_port_of_another);
	tcase_add_test(tcase, test_quota);
}
