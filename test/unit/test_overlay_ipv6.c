// SPDX-License-Identifier: Apache-2.0
/* The overlay's devices, peers and routes of IPv6, over either underlay. */
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "unit/overlay_fixture.h"

static struct mk_error err;

START_TEST(test_devices_of_ipv6)
{
	struct mk_link link;

	check_devices();
	ck_ok(mk_nl_link_get(nl, "mkvxlan", &link, &err));
	ck_assert(mk_ip_equal(&link.vxlan_local, &wanted.underlay));
	ck_assert(!link.vxlan_zero_checksums);
	ck_assert_uint_eq(link.mtu_bytes, wanted.mtu_bytes);
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &node_devices, &err), 0);
}
END_TEST

START_TEST(test_devices_of_ipv6_are_repaired)
{
	overlay_faults[_i]();
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &node_devices, &err), 1);
	check_devices();
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &node_devices, &err), 0);
}
END_TEST

static bool are_direct; /* the peers get packets without VXLAN */

/* Two peers, of the underlay's family. */
static void sync_peers(const char *const nets[2], bool complete)
{
	bool by_v6 = wanted.underlay.family == AF_INET6;
	struct mk_overlay_peer peers[2];
	struct mk_overlay_plan plan = { .peers = peers };

	for (size_t i = 0; i < 2 && nets[i]; i++) {
		struct mk_cidr cluster = cidr_of("fd00:10:244::/48"),
			       vtep = cidr_of("fd4d:4b00:12::/64"), pods = cidr_of(nets[i]);
		struct mk_addresses addresses;

		ck_ok(mk_addresses_compute(&cluster, &vtep, &pods, &addresses, &err));
		peers[plan.peer_count++] = (struct mk_overlay_peer){
			.node = (char *)nets[i],
			.pod_cidr = pods,
			.vtep = addresses.vtep,
			.vtep_mac = addresses.vtep_mac,
			.underlay = ip_of(by_v6 ? (i ? "2001:db8::3" : "2001:db8::2")
						: (i ? "192.0.2.3" : "192.0.2.2")),
			.link_ifindex = wanted.uplink_ifindex,
			.link_ip = ip_of(i ? "2001:db8::3" : "2001:db8::2"),
			.is_direct = are_direct,
		};
	}
	ck_ok(mk_overlay_set_peers(overlay, family, &plan, &err));
	changes = 0;
	ck_ok(mk_overlay_sync(overlay, complete, &changes, &err));
}

/* From direct to VXLAN: the route to the overlay's address of a node has to go first. */
START_TEST(test_direct_of_ipv6)
{
	const char *const both[2] = { "fd00:10:244:2::/64", "fd00:10:244:3::/64" };

	are_direct = true;
	sync_peers(both, true);
	ck_assert_uint_eq(look(NULL, NULL).routes, 5);
	are_direct = false;
	sync_peers(both, false);
	ck_assert_uint_eq(look(NULL, NULL).routes, 3);
	sync_peers(both, true);
	ck_assert_uint_eq(changes, 0);
}
END_TEST

START_TEST(test_peers_of_ipv6)
{
	const char *const both[2] = { "fd00:10:244:2::/64", "fd00:10:244:3::/64" };
	const char *const one[2] = { "fd00:10:244:2::/64", NULL };
	const char *remote = wanted.underlay.family == AF_INET6 ? "2001:db8::3" : "192.0.2.3";
	struct seen seen;

	sync_peers(both, true);
	seen = look("fd00:10:244:3::/64", remote);
	ck_assert_uint_eq(seen.routes, 3);
	ck_assert_uint_eq(seen.neighbours, 2);
	ck_assert_uint_eq(seen.fdb, 2);
	ck_assert(seen.has_dst && seen.has_remote);
	mk_overlay_refresh(overlay);
	sync_peers(both, true);
	ck_assert_uint_eq(changes, 0);
	sync_peers(one, true);
	seen = look("fd00:10:244:2::/64", NULL);
	ck_assert_uint_eq(seen.routes, 2);
	ck_assert_uint_eq(seen.neighbours, 1);
	ck_assert_uint_eq(seen.fdb, 1);
	ck_assert(seen.has_dst);
}
END_TEST

/* IPv6 loses more than IPv4 if a device goes down: its addresses go, too. */
START_TEST(test_routes_of_ipv6_are_repaired)
{
	const char *const both[2] = { "fd00:10:244:2::/64", "fd00:10:244:3::/64" };

	sync_peers(both, true);
	overlay_faults[_i]();
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &node_devices, &err), 1);
	mk_overlay_refresh(overlay);
	sync_peers(both, true);
	ck_assert_uint_eq(look(NULL, NULL).routes, 3);
	ck_assert_uint_eq(look(NULL, NULL).neighbours, 2);
	ck_assert_uint_eq(look(NULL, NULL).fdb, 2);
	mk_overlay_refresh(overlay);
	sync_peers(both, true);
	ck_assert_uint_eq(changes, 0);
}
END_TEST

static void ck_shell(const char *command)
{
	char text[512];

	snprintf(text, sizeof(text), "set -e; PATH=$PATH:/sbin:/usr/sbin; %s", command);
	ck_assert_msg(system(text) == 0, "failed: %s", command);
}

/* A routing daemon has learned the cluster's routes from other nodes, or had them first. */
static void learn_routes(void)
{
	ck_shell("for dst in fd4d:4b00:12::2 fd00:10:244:2::/64 fd00:10:244:1::/64; do "
		 "ip -6 route add $dst via 2001:db8::7 dev up0 metric 32 proto bird; done");
}

START_TEST(test_routing_daemon)
{
	const char *const one[2] = { "fd00:10:244:2::/64", NULL };
	const struct mk_ip pod = ip_of("fd00:10:244:2::5"), here = ip_of("fd00:10:244:1::5");
	struct mk_nl_route route;

	if (_i)
		learn_routes();
	sync_peers(one, true);
	if (!_i)
		learn_routes();
	ck_assert_uint_eq(look(NULL, NULL).routes, 2);
	ck_ok(mk_nl_route_to(nl, &pod, &route, &err));
	ck_assert_int_eq(route.ifindex, node_devices.overlay_ifindex);
	ck_ok(mk_nl_route_to(nl, &here, &route, &err));
	ck_assert_int_eq(route.ifindex, node_devices.host_ifindex);
	mk_overlay_refresh(overlay);
	sync_peers(one, true);
	ck_assert_uint_eq(changes, 0);
}
END_TEST

/* An earlier version's routes have the kernel's metric. */
START_TEST(test_metric_changes)
{
	const char *const one[2] = { "fd00:10:244:2::/64", NULL };

	sync_peers(one, true);
	ck_shell("ip -6 route del fd00:10:244:1::/64; ip -6 route add fd00:10:244:1::/64 "
		 "dev mkhost0 src fd4d:4b00:12::1 proto 77");
	mk_overlay_refresh(overlay);
	sync_peers(one, true);
	ck_assert_uint_eq(look(NULL, NULL).routes, 2);
	ck_shell("[ -n \"$(ip -6 route show fd00:10:244:1::/64 metric 1)\" ]");
	ck_assert_uint_eq(changes, 2);
}
END_TEST

START_TEST(test_services_of_ipv6)
{
	const struct mk_ip inside = ip_of("fd00:10:96::1"), outside = ip_of("2001:db8:7::7");
	const char *const range[] = { "fd00:10:96::/112", NULL }, *const none[2] = { NULL };

	set_ranges(range);
	ck_ok(mk_overlay_vip_get(overlay, &inside, &err));
	ck_ok(mk_overlay_vip_get(overlay, &outside, &err));
	sync_peers(none, true);
	ck_assert(look("fd00:10:96::/112", NULL).has_dst);
	ck_assert(look("2001:db8:7::7/128", NULL).has_dst);
	ck_assert_uint_eq(look(NULL, NULL).routes, 3);
	mk_overlay_refresh(overlay);
	sync_alone(true);
	ck_assert_uint_eq(changes, 0);
}
END_TEST

/* The host's own packets have the VTEP address only where a route names it. */
START_TEST(test_source_of_the_host)
{
	struct mk_cidr uplink = cidr_of(v6_by_v6.underlay);
	struct mk_nl_route found,
		to_world = { .dst = cidr_of("2001:db8:9::/64"), .ifindex = wanted.uplink_ifindex };
	const struct mk_ip world = ip_of("2001:db8:9::9"), pod = ip_of("fd00:10:244:2::5");
	const char *const one[2] = { "fd00:10:244:2::/64", NULL };

	sync_peers(one, true);
	ck_ok(mk_nl_route_put(nl, &to_world, &err));
	ck_ok(mk_nl_route_to(nl, &world, &found, &err));
	ck_assert(mk_ip_equal(&found.source, &uplink.ip));
	ck_ok(mk_nl_route_to(nl, &pod, &found, &err));
	ck_assert(mk_ip_equal(&found.source, &own->vtep));
}
END_TEST

struct outer {
	struct ethhdr eth;
	struct ip6_hdr ip;
	struct udphdr udp;
	uint8_t vxlan[8];
	struct ethhdr inner_eth;
	struct ip6_hdr inner_ip;
	char rest[1000];
} __attribute__((packed));

/* Send to @pod until a packet of the overlay is at the uplink's other end, @tap. The uplink may
 * need a moment until it sends. */
static void take_outer(int tap, const struct mk_ip *pod, struct outer *outer)
{
	const struct sockaddr_in6 to = { .sin6_family = AF_INET6,
					 .sin6_port = htons(9),
					 .sin6_addr = pod->v6 };
	cleanup_close int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct pollfd ready = { .fd = tap, .events = POLLIN };

	for (int i = 0; i < 500; i++) {
		ck_assert_int_eq(sendto(fd, "x", 1, 0, (const struct sockaddr *)&to, sizeof(to)),
				 1);
		while (poll(&ready, 1, 20) == 1 && recv(tap, outer, sizeof(*outer), 0) > 0)
			if (outer->ip.ip6_nxt == IPPROTO_UDP && outer->udp.dest == htons(4789))
				return;
	}
	ck_abort_msg("no packet");
}

/* Over IPv6, the outer UDP header has a checksum: receivers drop packets without one. */
START_TEST(test_outer_packet)
{
	const char *const one[2] = { "fd00:10:244:2::/64", NULL };
	const struct mk_ip next = ip_of("2001:db8::2"), pod = ip_of("fd00:10:244:2::5");
	const struct mk_mac far = mac_of("02:00:00:00:00:02");
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IPV6) };
	cleanup_close int tap = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	struct outer outer;
	struct mk_link link;

	ck_ok(mk_nl_link_get(nl, "far0", &link, &err));
	change_link(link.ifindex, (struct mk_link_change){ .set_flags = 1 });
	ck_ok(mk_nl_neigh_put(nl, wanted.uplink_ifindex, &next, &far, &err));
	at.sll_ifindex = link.ifindex;
	ck_assert_int_eq(bind(tap, (struct sockaddr *)&at, sizeof(at)), 0);
	sync_peers(one, true);
	take_outer(tap, &pod, &outer);
	ck_assert_mem_eq(&outer.ip.ip6_src, &wanted.underlay.v6, 16);
	ck_assert_mem_eq(&outer.ip.ip6_dst, &next.v6, 16);
	ck_assert_uint_ne(outer.udp.check, 0);
	ck_assert_mem_eq(&outer.inner_ip.ip6_src, &own->vtep.v6, 16);
	ck_assert_mem_eq(&outer.inner_ip.ip6_dst, &pod.v6, 16);
}
END_TEST

/* A change of underlayFamily: the VXLAN device is another one, with the peers' other addresses. */
START_TEST(test_other_underlay)
{
	const char *const one[2] = { "fd00:10:244:2::/64", NULL };
	int before = node_devices.overlay_ifindex;
	struct mk_link link;

	sync_peers(one, true);
	wanted.underlay = ip_of("2001:db8::1");
	wanted.mtu_bytes = 1430;
	ck_assert_int_eq(mk_devices_ensure(nl, &wanted, &node_devices, &err), 3);
	ck_assert_int_ne(node_devices.overlay_ifindex, before);
	ck_ok(mk_nl_link_get(nl, "mkvxlan", &link, &err));
	ck_assert_uint_eq(link.mtu_bytes, 1430);
	check_devices();
	mk_overlay_set_node(overlay, &node_devices, own);
	mk_overlay_refresh(overlay);
	sync_peers(one, true);
	ck_assert(look(NULL, "2001:db8::2").has_remote);
	ck_assert_uint_eq(look(NULL, NULL).fdb, 1);
	ck_assert_uint_eq(look(NULL, NULL).routes, 2);
}
END_TEST

START_TEST(test_remove_of_ipv6)
{
	const char *const one[2] = { "fd00:10:244:2::/64", NULL };
	unsigned int removed = 0;

	sync_peers(one, true);
	ck_ok(remove_overlay(&removed));
	ck_assert_uint_eq(removed, 2 + 3); /* routes; devices */
	ck_assert_uint_eq(look(NULL, NULL).routes, 0);
}
END_TEST

static void add_tests_of_ipv6(TCase *tc)
{
	tcase_add_test(tc, test_devices_of_ipv6);
	tcase_add_loop_test(tc, test_devices_of_ipv6_are_repaired, 0, OVERLAY_FAULTS);
	tcase_add_test(tc, test_peers_of_ipv6);
	tcase_add_loop_test(tc, test_routes_of_ipv6_are_repaired, 0, OVERLAY_FAULTS);
	tcase_add_test(tc, test_services_of_ipv6);
	tcase_add_test(tc, test_remove_of_ipv6);
}

UNIT_SUITE("overlay_ipv6")
{
	TCase *v6_v4 = unit_case(suite, "IPv6 by IPv4", netns_setup_v6_by_v4, netns_teardown),
	      *v6_v6 = unit_case(suite, "IPv6 by IPv6", netns_setup_v6_by_v6, netns_teardown);

	add_tests_of_ipv6(v6_v4);
	add_tests_of_ipv6(v6_v6);
	tcase_add_test(v6_v6, test_direct_of_ipv6);
	tcase_add_loop_test(v6_v6, test_routing_daemon, 0, 2);
	tcase_add_test(v6_v6, test_metric_changes);
	tcase_add_test(v6_v6, test_source_of_the_host);
	tcase_add_test(v6_v6, test_outer_packet);
	tcase_add_test(v6_v4, test_other_underlay);
}
