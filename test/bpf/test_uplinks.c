// SPDX-License-Identifier: Apache-2.0
/* A node with two uplinks, in a network namespace with the routes of one: which of them the host's
 * routing says shows in the source of what leaves masqueraded. */
#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/run.h"

#define FIRST  "192.168.99.11"
#define SECOND "192.168.98.11"

static void in_shell(const char *commands)
{
	ck_assert_msg(system(commands) == 0, "failed: %s", commands);
}

static struct mk_uplink uplink(const char *device, const char *addr, const char *net)
{
	struct mk_uplink uplink = { .ifindex = if_nametoindex(device), .mtu_bytes = 1500 };

	ck_assert_uint_ne(uplink.ifindex, 0);
	ck_assert_int_eq(inet_pton(AF_INET, addr, uplink.addr.word), 1);
	ck_assert_int_eq(inet_pton(AF_INET, net, uplink.net.word), 1);
	uplink.mask.word[0] = htonl(0xffffff00);
	return uplink;
}

/* The test runs' packets come in by the loopback device. */
static void setup(void)
{
	struct mk_uplink uplinks[2];

	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	in_shell("set -e; PATH=$PATH:/sbin:/usr/sbin; ip link set lo up\n"
		 "echo 1 >/proc/sys/net/ipv4/ip_forward\n"
		 "for n in 9 8; do\n"
		 "	ip link add up$n type veth peer name far$n\n"
		 "	ip addr add 192.168.9$n.11/24 dev up$n\n"
		 "	ip link set up$n up; ip link set far$n up\n"
		 "	ip neigh add 192.168.9$n.1 lladdr 02:00:00:00:00:0$n dev up$n\n"
		 "done\n"
		 "ip route add default via 192.168.99.1\n"
		 "ip route add 203.0.113.0/24 via 192.168.98.1\n"
		 "ip route add 198.51.100.0/24 via 192.168.98.77\n"
		 "ip route add 198.51.101.0/24 dev lo\n"
		 "ip route add unreachable 198.51.102.0/24");
	uplinks[0] = uplink("up9", FIRST, "192.168.99.0");
	uplinks[1] = uplink("up8", SECOND, "192.168.98.0");
	fixture_uplinks(uplinks, 2);
	fixture_load_small();
}

static const struct {
	const char *name, *to, *source;
} rows[] = {
	{ "default route", "8.8.8.8", FIRST },
	{ "a route by the second", "203.0.113.10", SECOND },
	{ "a neighbour on the first's network", "192.168.99.1", FIRST },
	{ "a neighbour on the second's network", "192.168.98.1", SECOND },
	{ "nobody's neighbour yet, on the second's network", "192.168.98.55", SECOND },
	{ "next hop that is no neighbour yet", "198.51.100.9", SECOND },
	{ "a route by a device that is no uplink", "198.51.101.9", FIRST },
	{ "unreachable", "198.51.102.9", FIRST },
};

static struct frame answer_to(const struct frame *request, const char *source)
{
	char from[32] = "", to[32] = "", flow[128];
	unsigned port = 0;

	sscanf(frame_flow(request), "tcp %31[0-9.]:%u > %31[0-9.]:443", from, &port, to);
	ck_assert_str_eq(from, source);
	ck_assert_uint_ge(port, 49152);
	snprintf(flow, sizeof(flow), "tcp %s:443 > %s:%u", to, from, port);
	return frame_make(flow, &(struct frame_options){ .tcp_flags = SYN | ACK });
}

/* There, back by whatever device, and there again. */
START_TEST(test_masqueraded)
{
	char request[96], seen[96];
	struct frame in, out;

	snprintf(request, sizeof(request), "tcp 10.244.1.2:40000 > %s:443", rows[_i].to);
	snprintf(seen, sizeof(seen), "tcp %s:443 > 10.244.1.2:40000", rows[_i].to);
	in = frame_make(request, NULL);
	out = fixture_expect(rows[_i].name, MK_HOOK_POD, &in, TO_UPLINK, NULL);
	in = answer_to(&out, rows[_i].source);
	fixture_expect(rows[_i].name, MK_HOOK_UPLINK, &in, TO_POD, seen);
	in = frame_make(request, &(struct frame_options){ .tcp_flags = ACK });
	fixture_expect(rows[_i].name, MK_HOOK_POD, &in, TO_UPLINK, NULL);
	ck_assert_uint_eq(fixture_count("nat_sessions"), 2);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* A flow keeps its source when the route changes. */
START_TEST(test_route_changes)
{
	struct frame in = frame_make("tcp 10.244.1.2:40000 > 203.0.113.10:443", NULL), out, again;

	out = fixture_expect("before", MK_HOOK_POD, &in, TO_UPLINK, NULL);
	in_shell("PATH=$PATH:/sbin:/usr/sbin; ip route del 203.0.113.0/24");
	again = fixture_expect("after", MK_HOOK_POD, &in, TO_UPLINK, NULL);
	ck_assert_int_eq(memcmp(out.byte, again.byte, out.length), 0);
	in = frame_make("tcp 10.244.1.3:40000 > 203.0.113.10:443", NULL);
	out = fixture_expect("another flow", MK_HOOK_POD, &in, TO_UPLINK, NULL);
	(void)answer_to(&out, FIRST);
	in_shell("PATH=$PATH:/sbin:/usr/sbin; ip route add 203.0.113.0/24 via 192.168.98.1");
}
END_TEST

BPF_SUITE("uplinks")
{
	TCase *tcase = tcase_create("uplinks");

	tcase_add_unchecked_fixture(tcase, setup, fixture_unload);
	tcase_add_checked_fixture(tcase, fixture_reset, NULL);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	tcase_add_loop_test(tcase, test_masqueraded, 0, ROWS(rows));
	tcase_add_test(tcase, test_route_changes);
}
