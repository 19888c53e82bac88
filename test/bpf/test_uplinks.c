// SPDX-License-Identifier: Apache-2.0
/* A node with two uplinks, a tunnel and routing rules, in a network namespace with such routes. The
 * source of a masqueraded packet shows which route the host chose. */
#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "bpf/network.h"
#include "bpf/run.h"

#define FIRST  "192.168.99.11"
#define SECOND "192.168.98.11"
#define OTHER  "192.168.98.12" /* also of the second uplink */
#define TUNNEL "10.77.0.1"

static struct mk_datapath_links links;

static void add_uplink(const char *device, const char *addr, const char *net, uint32_t flags)
{
	size_t at = links.uplink_count++;
	struct mk_uplink *uplink = &links.uplinks[at];

	*uplink = (struct mk_uplink){ .ifindex = if_nametoindex(device),
				      .mtu_bytes = 1500,
				      .addr = fixture_addr(addr),
				      .flags = flags };
	ck_assert_uint_ne(uplink->ifindex, 0);
	links.set.networks[at].ifindex = uplink->ifindex;
	links.set.networks[at].net = fixture_addr(net);
	links.set.networks[at].mask = family_mask(24);
}

/* Packets of test runs come in by the loopback device. */
static void setup(void)
{
	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	network_shell(
		"ip link set lo up; echo 1 >/proc/sys/net/ipv4/ip_forward\n"
		"echo 1 >/proc/sys/net/ipv6/conf/all/forwarding\n"
		"for n in 9 8; do\n"
		"	ip link add up$n type veth peer name far$n\n"
		"	ip link set up$n up; ip link set far$n up\n"
		"done\n"
		"ip addr add 192.168.99.11/24 dev up9\n"
		"ip addr add 192.168.98.11/24 dev up8\n"
		"ip neigh add 192.168.99.1 lladdr 02:00:00:00:00:09 dev up9\n"
		"ip neigh add 192.168.98.1 lladdr 02:00:00:00:00:08 dev up8\n"
		"ip addr add 192.168.98.12/24 dev up8 $second\n"
		"ip tuntap add tun0 mode tun; ip addr add 10.77.0.1/24 dev tun0; ip link set tun0 "
		"up\n"
		"ip route add default via 192.168.99.1\n"
		"ip route add 203.0.113.0/24 via 192.168.98.1\n"
		"ip route add 198.51.100.0/24 via 192.168.98.77\n"
		"ip route add 198.51.101.0/24 dev lo\n"
		"ip route add unreachable 198.51.102.0/24\n"
		"ip route add prohibit 198.51.103.0/24\n"
		"ip route add blackhole 198.51.104.0/24\n"
		"ip route add 198.51.105.0/24 via 192.168.98.1 src 192.168.98.12\n"
		"ip route add 10.78.0.0/16 dev tun0\n"
		"ip neigh add 169.254.7.8 lladdr 02:00:00:00:01:08 dev up8\n"
		"ip neigh add 169.254.7.8 lladdr 02:00:00:00:01:09 dev up9\n"
		"ip route add 198.51.106.0/24 via 169.254.7.8 dev up8 onlink\n"
		"ip route add 198.51.107.0/24 via 169.254.7.8 dev up9 onlink\n"
		"ip route add default via 192.168.98.1 table 100\n"
		"ip route add throw default table 101\n"
		"ip route add unreachable default table 102\n"
		"ip rule add from 10.244.1.3 to 198.18.0.0/24 lookup 100\n"
		"ip rule add iif lo to 198.18.1.0/24 lookup 100\n"
		"ip rule add to 198.18.2.0/24 lookup 101\n"
		"ip rule add fwmark 7 to 198.18.3.0/24 lookup 100\n"
		"ip rule add to 198.18.4.0/24 ipproto 6 dport 443 lookup 100");
	links = (struct mk_datapath_links){ .set.ask_host = 1 };
	add_uplink("up9", FIRST, "192.168.99.0", 0);
	add_uplink("up8", SECOND, "192.168.98.0", 0);
	add_uplink("tun0", TUNNEL, "10.77.0.0", MK_UPLINK_TUNNEL);
	fixture_load_small();
}

static void reset(void)
{
	fixture_reset();
	fixture_links(&links);
}

/* Is this kernel's version at least @major.@minor? */
static bool has_linux(int major, int minor)
{
	int is_major = 0, is_minor = 0;
	struct utsname name;

	ck_assert_int_eq(uname(&name), 0);
	ck_assert_int_eq(sscanf(name.release, "%d.%d", &is_major, &is_minor), 2);
	return is_major > major || (is_major == major && is_minor >= minor);
}

static const struct {
	const char *name, *from, *to, *source;
} rows[] = {
	{ "default route", "10.244.1.2", "8.8.8.8", FIRST },
	{ "a route by the second", "10.244.1.2", "203.0.113.10", SECOND },
	{ "a neighbour on the first's network", "10.244.1.2", "192.168.99.1", FIRST },
	{ "a neighbour on the second's network", "10.244.1.2", "192.168.98.1", SECOND },
	{ "no neighbour yet, on the second's network", "10.244.1.2", "192.168.98.55", SECOND },
	{ "next hop that is no neighbour yet", "10.244.1.2", "198.51.100.9", SECOND },
	{ "a link-local next hop, by the second", "10.244.1.2", "198.51.106.9", SECOND },
	{ "the same next hop, by the first", "10.244.1.2", "198.51.107.9", FIRST },
	{ "a route by a tunnel", "10.244.1.2", "10.78.0.9", TUNNEL },
	{ "the tunnel's network", "10.244.1.2", "10.77.0.9", TUNNEL },
	{ "a rule for the pod", "10.244.1.3", "198.18.0.9", SECOND },
	{ "a rule for another pod", "10.244.1.2", "198.18.0.9", FIRST },
	{ "a rule for the device of pods", "10.244.1.2", "198.18.1.9", SECOND },
	{ IPV4_ONLY("bpf_fib_lookup() finds no route then") "a rule whose table throws",
	  "10.244.1.2", "198.18.2.9", FIRST },
	{ "a rule for a mark, without", "10.244.1.2", "198.18.3.9", FIRST },
	{ "a rule for a port", "10.244.1.2", "198.18.4.9", SECOND },
};

static struct frame answer_to_row(const char *name, const struct frame *request, const char *source)
{
	char from[32] = "", to[32] = "", flow[128];
	unsigned port = 0;

	sscanf(frame_flow(request), "tcp %31[0-9.]:%u > %31[0-9.]:443", from, &port, to);
	ck_assert_msg(strcmp(from, source) == 0, "%s: expected source %s, saw %s", name, source,
		      from);
	ck_assert_uint_ge(port, 49152);
	snprintf(flow, sizeof(flow), "tcp %s:443 > %s:%u", to, from, port);
	return frame_make(flow, &(struct frame_options){ .tcp_flags = SYN | ACK });
}

static struct frame answer_to(const struct frame *request, const char *source)
{
	return answer_to_row("source", request, source);
}

/* A request, its answer by any device, and another request. */
START_TEST(test_masqueraded)
{
	char request[96], seen[96];
	struct frame in, out;

	if (family_leaves_out(rows[_i].name))
		return;
	snprintf(request, sizeof(request), "tcp %s:40000 > %s:443", rows[_i].from, rows[_i].to);
	snprintf(seen, sizeof(seen), "tcp %s:443 > %s:40000", rows[_i].to, rows[_i].from);
	in = frame_make(request, NULL);
	out = fixture_expect(rows[_i].name, MK_HOOK_POD, &in, TO_UPLINK, NULL);
	in = answer_to_row(rows[_i].name, &out, rows[_i].source);
	fixture_expect(rows[_i].name, MK_HOOK_UPLINK, &in, TO_POD, seen);
	in = frame_make(request, &(struct frame_options){ .tcp_flags = ACK });
	fixture_expect(rows[_i].name, MK_HOOK_POD, &in, TO_UPLINK, NULL);
	ck_assert_uint_eq(fixture_count("nat_sessions"), 2);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* Linux 6.7 reports the route's source, and so do some older stable kernels (6.1). On other kernels
 * packets have the device's address. */
START_TEST(test_source_of_route)
{
	struct frame in = frame_make("tcp 10.244.1.2:40000 > 198.51.105.9:443", NULL), out;
	bool is_reported = has_linux(6, 7);

	out = fixture_expect("a route with a source", MK_HOOK_POD, &in, TO_UPLINK, NULL);
	if (strstr(frame_flow(&out), OTHER))
		is_reported = true;
	(void)answer_to(&out, is_reported ? OTHER : SECOND);
}
END_TEST

START_TEST(test_mark)
{
	struct frame in = frame_make("tcp 10.244.1.2:40000 > 198.18.3.9:443", NULL), out;

	fixture_mark(7);
	out = fixture_expect("a rule for a mark", MK_HOOK_POD, &in, TO_UPLINK, NULL);
	(void)answer_to(&out, has_linux(6, 10) ? SECOND : FIRST);
}
END_TEST

static const struct {
	const char *name, *to;
	enum mk_drop_reason reason;
	const char *answer; /* type and code of the ICMP error; NULL: none */
} refused[] = {
	{ "a route by a device that is no uplink", "198.51.101.9", MK_DROP_NO_UPLINK, "3/0" },
	{ "unreachable", "198.51.102.9", MK_DROP_HOST_ROUTE, "3/1" },
	{ "prohibit", "198.51.103.9", MK_DROP_HOST_ROUTE, "3/13" },
	{ "blackhole", "198.51.104.9", MK_DROP_HOST_ROUTE, NULL },
	{ IPV4_ONLY("no broadcast") "broadcast of the second's network", "192.168.98.255",
	  MK_DROP_HOST_ROUTE, "3/0" },
};

START_TEST(test_refused)
{
	char request[96], seen[192];
	struct frame in;

	if (family_leaves_out(refused[_i].name))
		return;
	snprintf(request, sizeof(request), "tcp 10.244.1.2:40000 > %s:443", refused[_i].to);
	in = frame_make(request, NULL);
	if (refused[_i].answer)
		snprintf(seen, sizeof(seen), "icmp-error 10.244.1.254 > 10.244.1.2 %s [%s]",
			 refused[_i].answer, request);
	fixture_expect(refused[_i].name, MK_HOOK_POD, &in, refused[_i].answer ? TO_POD : DROPPED,
		       refused[_i].answer ? seen : NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_POD, refused[_i].reason), 1);
	ck_assert_uint_eq(fixture_count("nat_sessions"), 0);
}
END_TEST

/* The default route is removed: only packets that the host would send there leave by the first
 * uplink. */
START_TEST(test_no_route)
{
	struct frame in = frame_make("tcp 10.244.1.2:40000 > 8.8.8.8:443", NULL);

	network_shell("ip route del default via 192.168.99.1");
	fixture_expect("no route", MK_HOOK_POD, &in, TO_POD,
		       "icmp-error 10.244.1.254 > 10.244.1.2 3/0 [tcp 10.244.1.2:40000 > "
		       "8.8.8.8:443]");
	network_shell("ip route add default via 192.168.99.1");
	ck_assert_uint_eq(fixture_drops(MK_HOOK_POD, MK_DROP_HOST_ROUTE), 1);
}
END_TEST

/* A flow keeps its source when the route changes. */
START_TEST(test_route_changes)
{
	struct frame in = frame_make("tcp 10.244.1.2:40000 > 203.0.113.10:443", NULL), out, again;

	out = fixture_expect("before", MK_HOOK_POD, &in, TO_UPLINK, NULL);
	network_shell("ip route del 203.0.113.0/24");
	again = fixture_expect("after", MK_HOOK_POD, &in, TO_UPLINK, NULL);
	ck_assert_int_eq(memcmp(out.byte, again.byte, out.length), 0);
	in = frame_make("tcp 10.244.1.3:40000 > 203.0.113.10:443", NULL);
	out = fixture_expect("another flow", MK_HOOK_POD, &in, TO_UPLINK, NULL);
	(void)answer_to(&out, FIRST);
	network_shell("ip route add 203.0.113.0/24 via 192.168.98.1");
}
END_TEST

/* One uplink and a default route: the host's routing is not asked, whatever its tables contain. */
START_TEST(test_plain)
{
	struct mk_datapath_links plain = links;
	struct frame in = frame_make("tcp 10.244.1.2:40000 > 203.0.113.10:443", NULL), out;

	plain.set.ask_host = 0;
	fixture_links(&plain);
	out = fixture_expect("plain", MK_HOOK_POD, &in, TO_UPLINK, NULL);
	(void)answer_to(&out, FIRST);
}
END_TEST

/* A device without an address of the family: no packet leaves with the source :: or 0.0.0.0. */
START_TEST(test_no_source)
{
	struct mk_datapath_links none = links;
	struct frame in = frame_make("tcp 10.244.1.2:40000 > 203.0.113.10:443", NULL);

	none.set.ask_host = 0;
	none.uplinks[0].addr = (struct mk_addr){ 0 };
	fixture_links(&none);
	fixture_expect("no address", MK_HOOK_POD, &in, TO_POD,
		       "icmp-error 10.244.1.254 > 10.244.1.2 3/0 [tcp 10.244.1.2:40000 > "
		       "203.0.113.10:443]");
	ck_assert_uint_eq(fixture_drops(MK_HOOK_POD, MK_DROP_NO_UPLINK), 1);
	ck_assert_uint_eq(fixture_count("nat_sessions"), 0);
}
END_TEST

/* The kernel's look-up itself reports the packet as too big. The ICMP error has the MTU
 * nevertheless. */
START_TEST(test_device_mtu)
{
	struct mk_datapath_links now = links;
	const struct frame_options options = { .payload_bytes = 1400, .fragment = DF };
	const struct frame_options may_be_cut = { .payload_bytes = 1400 };
	struct frame in = frame_make("udp 10.244.1.2:40000 > 203.0.113.10:443", &options);

	network_shell("ip link set up8 mtu 1300");
	now.uplinks[1].mtu_bytes = 1300;
	fixture_links(&now);
	fixture_expect("too large for the device", MK_HOOK_POD, &in, TO_POD,
		       "icmp-error 10.244.1.254 > 10.244.1.2 3/4 [udp 10.244.1.2:40000 > "
		       "203.0.113.10:443]");
	in = frame_make("udp 10.244.1.2:40000 > 203.0.113.10:443", &may_be_cut);
	if (!family_leaves_out(IPV4_ONLY("IPv6 always behaves as with DF")))
		fixture_expect("too large, and may be cut", MK_HOOK_POD, &in, TO_UPLINK, NULL);
	network_shell("ip link set up8 mtu 1500");
}
END_TEST

/* The programs read these data at run time: no program is loaded. */
START_TEST(test_data)
{
	struct mk_datapath_links now = links;
	struct frame in = frame_make("tcp 10.244.1.2:40000 > 203.0.113.10:443",
				     &(struct frame_options){ .payload_bytes = 1400,
							      .fragment = DF }),
		     out;

	now.uplinks[1].addr = fixture_addr("192.168.98.13");
	now.uplinks[1].mtu_bytes = 1400;
	fixture_links(&now);
	out = fixture_expect("a lower MTU", MK_HOOK_POD, &in, TO_POD, NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_POD, MK_DROP_TOO_BIG), 1);
	now.uplinks[1].mtu_bytes = 1500;
	now.set.ask_host = 0;
	now.uplinks[0] = now.uplinks[1];
	fixture_links(&now);
	out = fixture_expect("another first uplink", MK_HOOK_POD, &in, TO_UPLINK, NULL);
	(void)answer_to(&out, "192.168.98.13");
}
END_TEST

BPF_SUITE("uplinks")
{
	TCase *tcase = tcase_create("uplinks");

	tcase_add_unchecked_fixture(tcase, setup, fixture_unload);
	tcase_add_checked_fixture(tcase, reset, NULL);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	tcase_add_loop_test(tcase, test_masqueraded, 0, ROWS(rows));
	tcase_add_loop_test(tcase, test_refused, 0, ROWS(refused));
	tcase_add_test(tcase, test_source_of_route);
	tcase_add_test(tcase, test_mark);
	tcase_add_test(tcase, test_no_route);
	tcase_add_test(tcase, test_route_changes);
	tcase_add_test(tcase, test_plain);
	tcase_add_test(tcase, test_no_source);
	tcase_add_test(tcase, test_device_mtu);
	tcase_add_test(tcase, test_data);
}
