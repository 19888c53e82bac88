// SPDX-License-Identifier: Apache-2.0
/* With setting routing, the other nodes on a new uplink's link hear from this node's own address
 * before they hear from any pod. The other node is silent: what it is asked counts. Probes then say
 * which packets go to it. */
#include <linux/if_addr.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/ip6.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/node/node_internal.h"
#include "base/cleanup.h"
#include "base/netlink/netlink.h"
#include "unit/unit.h"

#define OWN  "fd00:99::11"
#define PEER "fd00:99::12"

static struct mk_error err;
static struct mk_nl *nl;
static struct mk_core core;
static struct mk_family family = { .core = &core, .family = AF_INET6 };
static struct mk_own_node node;
static struct mk_own_family own = { .node = &node, .family = &family };
static char peer_name[] = "node2";
static struct mk_overlay_peer peer;
static int wire = -1; /* sees what arrives at the other end */

static int add_uplink(const char *name, const char *far, struct mk_own_uplink *uplink)
{
	const struct mk_veth veth = { .name = name,
				      .mac = mac_of("02:00:00:00:00:01"),
				      .peer_name = far,
				      .peer_mac = mac_of("02:00:00:00:00:02"),
				      .peer_netns_fd = -1,
				      .mtu_bytes = 1500 };
	const struct mk_link_change up = { .set_flags = IFF_UP };
	struct mk_nl_addr addr = { .cidr = cidr_of(OWN "/64"), .flags = IFA_F_NODAD };
	struct mk_link other;

	ck_ok(mk_nl_veth_add(nl, &veth, &err));
	ck_ok(mk_nl_link_get(nl, name, &uplink->link, &err));
	ck_ok(mk_nl_link_get(nl, far, &other, &err));
	ck_ok(mk_nl_link_change(nl, uplink->link.ifindex, &up, &err));
	ck_ok(mk_nl_link_change(nl, other.ifindex, &up, &err));
	addr.ifindex = uplink->link.ifindex;
	ck_ok(mk_nl_addr_add(nl, &addr, &err));
	uplink->source[mk_family_index(AF_INET6)].addr = addr.cidr;
	return other.ifindex;
}

static void listen_at(int ifindex)
{
	const struct sockaddr_ll at = { .sll_family = AF_PACKET,
					.sll_protocol = htons(ETH_P_IPV6),
					.sll_ifindex = ifindex };

	if (wire >= 0)
		close(wire);
	wire = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_IPV6));
	ck_assert_int_eq(bind(wire, (const struct sockaddr *)&at, sizeof(at)), 0);
}

/* The uplink is @name, and the peer is on its link. */
static void use_uplink(const char *name, const char *far)
{
	listen_at(add_uplink(name, far, &node.uplinks.uplink[0]));
	node.uplinks.count = 1;
	peer.link_ifindex = node.uplinks.uplink[0].link.ifindex;
}

static void setup(void)
{
	ck_assert_msg(unshare(CLONE_NEWNET) == 0, "needs root: %s", strerror(errno));
	nl = mk_nl_open(&err);
	ck_assert_msg(nl != NULL, "%s", mk_error_text(&err));
	core.config.vxlan_port = 4789;
	peer = (struct mk_overlay_peer){ .node = peer_name, .link_ip = ip_of(PEER) };
	own.plan = (struct mk_overlay_plan){ .peers = &peer, .peer_count = 1 };
	use_uplink("up0", "far0");
}

static void teardown(void)
{
	close(wire);
	mk_nl_free(nl);
}

struct question {
	struct ip6_hdr ip;
	struct nd_neighbor_solicit ask;
};

/* The address that asks for the peer's MAC address within @wait_ms; false: none does. */
static bool asks(struct mk_ip *from, int wait_ms)
{
	const struct mk_ip wanted = ip_of(PEER);
	struct pollfd ready = { .fd = wire, .events = POLLIN };
	struct question seen;

	while (poll(&ready, 1, wait_ms) == 1) {
		ssize_t bytes = recv(wire, &seen, sizeof(seen), 0);

		if (bytes < (ssize_t)sizeof(seen) || seen.ip.ip6_nxt != IPPROTO_ICMPV6 ||
		    seen.ask.nd_ns_type != ND_NEIGHBOR_SOLICIT ||
		    memcmp(&seen.ask.nd_ns_target, &wanted.v6, sizeof(wanted.v6)) != 0)
			continue;
		*from = (struct mk_ip){ .family = AF_INET6, .v6 = seen.ip.ip6_src };
		return true;
	}
	return false;
}

static void check_asks_as_own(void)
{
	struct mk_ip from, own_ip = ip_of(OWN);

	ck_assert(asks(&from, 5000));
	ck_assert(mk_ip_equal(&from, &own_ip));
}

START_TEST(test_first_uplink)
{
	greet_links(&own);
	check_asks_as_own();
}
END_TEST

START_TEST(test_replaced_uplink)
{
	greet_links(&own);
	ck_ok(mk_nl_link_delete(nl, "up0", &err));
	use_uplink("up1", "far1");
	greet_links(&own);
	check_asks_as_own();
}
END_TEST

/* The entry of the peer is removed, so a second packet would ask again. */
START_TEST(test_known_uplink)
{
	struct mk_ip from;

	greet_links(&own);
	check_asks_as_own();
	ck_assert_int_eq(system("ip -6 neigh flush dev up0"), 0);
	greet_links(&own);
	ck_assert_int_eq(own.greeted[0], peer.link_ifindex);
	ck_assert(!asks(&from, 0));
}
END_TEST

/* .. and a node that is on no link, or has only an address of IPv4. */
START_TEST(test_others)
{
	struct mk_ip from;

	if (_i)
		peer.link_ip = ip_of("192.168.99.12");
	else
		peer.link_ifindex = 0;
	greet_links(&own);
	ck_assert(!asks(&from, 0));
}
END_TEST

/* ---- probes ---------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	enum mk_routing routing;
	bool returns_direct;
} links[] = {
	{ "Direct, answers by this node", MK_ROUTING_DIRECT, false },
	{ "Direct, direct answers", MK_ROUTING_DIRECT, true },
	{ "Auto, answers by this node", MK_ROUTING_AUTO, false },
	{ "Auto, direct answers", MK_ROUTING_AUTO, true },
};

/* End as many rounds as decide. */
static void probe(bool answers)
{
	const struct mk_probe *list;
	size_t count;

	for (size_t round = 0; round < 1 + MK_PROBES_BAD + MK_PROBES_GOOD; round++) {
		(void)mk_probes_next(own.link_probes, &list, &count);
		ck_assert_uint_eq(count, 1);
		mk_probes_sent(own.link_probes, 0, 1);
		if (answers)
			ck_assert(mk_probes_answer(own.link_probes, &list[0].to, list[0].nonce, 1));
	}
}

static void check_takes(int row, bool is_live)
{
	bool is_direct = links[row].routing == MK_ROUTING_DIRECT || is_live;

	ck_ok(try_links(&own, &err));
	ck_assert_msg(peer.is_direct == is_direct, "%s, live %d: direct %d", links[row].name,
		      is_live, peer.is_direct);
}

/* Auto sends by the link while the other node answers there; Direct does in any case, but sends
 * probes for direct answers. */
START_TEST(test_live)
{
	core.config.routing = links[_i].routing;
	core.config.returns_direct = links[_i].returns_direct;
	ck_assert(tries_links(&core.config) ==
		  (links[_i].routing == MK_ROUTING_AUTO || links[_i].returns_direct));
	peer.pod_cidr = cidr_of("fd00:244:2::/64");
	peer.is_direct = true;
	own.link_probes = mk_probes_new(1, "node1");
	check_takes(_i, false);
	probe(true);
	check_takes(_i, true);
	probe(false);
	check_takes(_i, false);
	mk_probes_free(own.link_probes);
}
END_TEST

UNIT_SUITE("greet")
{
	TCase *tc = unit_case(suite, "uplinks", setup, teardown);

	tcase_add_test(tc, test_first_uplink);
	tcase_add_test(tc, test_replaced_uplink);
	tcase_add_test(tc, test_known_uplink);
	tcase_add_loop_test(tc, test_others, 0, 2);
	tcase_add_loop_test(tc, test_live, 0, MK_ARRAY_SIZE(links));
}
