// SPDX-License-Identifier: Apache-2.0
/* NodePorts at the loopback address: the information for programs, and the sessions that stay. */
#include <arpa/inet.h>

#include "unit/sync_fixture.h"
#include "unit/unit.h"

static void expect_localhost_ports(uint16_t min, uint16_t max)
{
	uint16_t lowest, highest;

	mk_service_sync_localhost_ports(sync_, &lowest, &highest);
	ck_assert_uint_eq(lowest, min);
	ck_assert_uint_eq(highest, max);
}

static void apply_at_localhost(const char *name, uint16_t port)
{
	struct built built;

	build(&built, name, "127.0.0.1", "23");
	built.frontends[0].port = port;
	built.set.frontend_count = 1;
	apply(&built);
}

/* Programs get the smallest range that has all ports. It does not shrink until no port is left, and
 * another agent reads it from the tables. */
START_TEST(test_localhost_ports)
{
	expect_localhost_ports(0, 0);
	apply_named("web", "10.96.0.1", "23");
	expect_localhost_ports(0, 0);
	apply_at_localhost("one", 30100);
	expect_localhost_ports(30100, 30100);
	apply_at_localhost("two", 32767);
	apply_at_localhost("three", 30000);
	expect_localhost_ports(30000, 32767);
	remove_named("two");
	expect_localhost_ports(30000, 32767);
	sync_restart();
	expect_localhost_ports(30000, 30100);
	remove_named("one");
	remove_named("three");
	prune();
	expect_localhost_ports(0, 0);
	apply_at_localhost("two", 31000);
	expect_localhost_ports(31000, 31000);
}
END_TEST

/* A loopback address has only one scope, and only one such address is in the tables. */
START_TEST(test_sessions_at_localhost)
{
	const struct mk_addr at = addr_of("127.0.0.53");
	const struct mk_session session = { .flags = MK_SESSION_FORWARD,
					    .set_id = 1,
					    .service_id = 1 };
	struct mk_tuple key = { .daddr = at, .dport = htons(30100), .proto = IPPROTO_TCP };

	apply_at_localhost("one", 30100);
	ck_assert(!mk_service_sync_session_outlives(sync_, &key, &session));
	key.dport = htons(30101);
	ck_assert(mk_service_sync_session_outlives(sync_, &key, &session));
	key.proto = IPPROTO_UDP;
	ck_assert(mk_service_sync_session_cut(sync_, &key, &session));
}
END_TEST

UNIT_SUITE("sync at localhost")
{
	TCase *tc = unit_case(suite, "localhost", sync_setup, sync_teardown);

	tcase_add_test(tc, test_localhost_ports);
	tcase_add_test(tc, test_sessions_at_localhost);
}
