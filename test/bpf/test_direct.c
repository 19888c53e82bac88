// SPDX-License-Identifier: Apache-2.0
/* Packets between nodes without VXLAN (setting routing), in a network namespace that has the other
 * nodes as neighbours: node2 and node3 are on the link of up9, node4 is there without a MAC address
 * yet, node5 is in another network. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/network.h"
#include "bpf/run.h"
#include "monokube/clusters.h"
#include "rows.h"

#define OWN_MAC	  "02:00:00:00:09:0b" /* of up9 */
#define NODE2_MAC "02:00:00:00:00:12"
#define NODE3_MAC "02:00:00:00:00:13"
#define NEW_MAC	  "02:00:00:00:00:77"
#define ANSWER	  "udp 10.244.1.1:7 > 10.18.0.2:40000" /* to node2's probe */

static unsigned up9, up8;

static void neighbours(void)
{
	network_shell("ip neigh replace 192.168.99.12 lladdr " NODE2_MAC " dev up9\n"
		      "ip neigh replace 192.168.99.13 lladdr " NODE3_MAC " dev up9\n");
}

static void make_links(void)
{
	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	network_shell(
		"ip link set lo up; echo 1 >/proc/sys/net/ipv4/ip_forward\n"
		"echo 1 >/proc/sys/net/ipv6/conf/all/forwarding\n"
		"for n in 9 8; do\n"
		"	ip link add up$n address 02:00:00:00:0$n:0b type veth peer name far$n\n"
		"	ip link set up$n up; ip link set far$n up\n"
		"done\n"
		"ip addr add 192.168.99.11/24 dev up9\n"
		"ip addr add 192.168.98.11/24 dev up8\n"
		"ip route add default via 192.168.99.1\n");
	up9 = if_nametoindex("up9");
	up8 = if_nametoindex("up8");
}

static void setup(void)
{
	make_links();
	fixture_load_small();
}

static void put_route(const char *net, unsigned bits, const char *vtep, bool is_direct)
{
	const struct mk_cidr cidr = family_cidr(net, bits);
	struct mk_route_key key = { cidr.prefix_bits, mk_ip_to_addr(&cidr.ip) };
	struct mk_route route = { .type = MK_ROUTE_OVERLAY, .is_direct = is_direct };
	const struct mk_node *node = fixture_node();
	__u32 number = mk_node_number(&key.addr, &node->cluster_mask, node->pod_host_bits);

	fixture_mac(vtep, route.vtep_mac);
	ck_assert_int_eq(row_update(fixture_map("routes"), &key, &route, BPF_ANY), 0);
	if (bits == 24)
		ck_assert_int_eq(row_update(fixture_map("node_routes"), &number, &route, 0), 0);
}

static void put_peer(const char *address, const char *vtep, bool is_direct)
{
	struct mk_addr key = fixture_addr(address);
	struct mk_peer peer = { .is_direct = is_direct };

	fixture_peer_address(address, vtep);
	fixture_mac(vtep, peer.vtep_mac);
	ck_assert_int_eq(row_update(fixture_map("peers"), &key, &peer, BPF_ANY), 0);
}

static void put_link(const char *vtep, const char *address)
{
	struct mk_link_node node = { .addr = fixture_addr(address),
				     .ifindex = up9,
				     .mtu_bytes = 1500 };
	struct mk_link_node_key key = { 0 };

	fixture_mac(vtep, key.vtep_mac);
	ck_assert_int_eq(row_update(fixture_map("link_nodes"), &key, &node, BPF_ANY), 0);
}

static void put_node(unsigned number, bool is_direct)
{
	char pods[32], vtep[32], address[32];

	snprintf(pods, sizeof(pods), "10.244.%u.0", number);
	snprintf(vtep, sizeof(vtep), "10.18.0.%u", number);
	snprintf(address, sizeof(address), "192.168.99.1%u", number);
	put_route(pods, 24, vtep, is_direct);
	put_route(vtep, 32, vtep, is_direct);
	put_peer(address, vtep, is_direct);
	put_link(vtep, address);
}

/* All but node5 are on the link. */
static void nodes(bool are_direct)
{
	struct mk_datapath_links links = { .uplink_count = 1 };

	links.uplinks[0] = (struct mk_uplink){ .ifindex = up9,
					       .mtu_bytes = 1500,
					       .addr = fixture_addr("192.168.99.11") };
	links.set.networks[0].ifindex = up9;
	links.set.networks[0].net = fixture_addr("192.168.99.0");
	links.set.networks[0].mask = family_mask(24);
	fixture_links(&links);
	for (unsigned i = 2; i <= 4; i++)
		put_node(i, are_direct);
	put_route("10.244.5.0", 24, "10.18.0.5", false);
	put_route("10.18.0.5", 32, "10.18.0.5", false);
	neighbours();
}

static void from_link(struct frame_options *with, const char *mac)
{
	fixture_device(up9);
	with->source_mac = mac;
	with->dest_mac = OWN_MAC;
}

/* ---- sending --------------------------------------------------------------------------------- */

static const struct {
	const char *name, *flow;
	bool is_direct;
	uint16_t packet_bytes, fragment;
	enum where where;
} sent[] = {
	{ "to a node on the link", "udp 10.244.1.2:4 > 10.244.2.7:53", true, 0, 0, TO_UPLINK },
	{ ".. in mode Overlay", "udp 10.244.1.2:4 > 10.244.2.7:53", false, 0, 0, TO_OVERLAY },
	{ "to its overlay address", "udp 10.244.1.2:4 > 10.18.0.2:53", true, 0, 0, TO_UPLINK },
	{ "to a node elsewhere", "udp 10.244.1.2:4 > 10.244.5.7:53", true, 0, 0, TO_OVERLAY },
	{ "of the uplink's MTU", "udp 10.244.1.2:4 > 10.244.2.7:53", true, 1500, DF, TO_UPLINK },
	{ "longer", "udp 10.244.1.2:4 > 10.244.2.7:53", true, 1501, DF, TO_POD },
	{ "longer, and may be cut", "udp 10.244.1.2:4 > 10.244.2.7:53", true, 1501, 0, TO_OVERLAY },
	{ "longer than the overlay's, to a node elsewhere", "udp 10.244.1.2:4 > 10.244.5.7:53",
	  true, 1500, DF, TO_POD },
};

static void send_row(int row, enum mk_hook hook)
{
	const struct frame_options with = { .packet_bytes = sent[row].packet_bytes,
					    .fragment = sent[row].fragment };
	enum where where = sent[row].where;
	struct frame in, out;

	if (family_is6() && with.packet_bytes > 1500) /* no IPv6 packet may be cut on the way */
		where = TO_POD;
	nodes(sent[row].is_direct);
	in = frame_make(sent[row].flow, &with);
	out = fixture_expect(sent[row].name, hook, &in, where, NULL);
	if (where == TO_POD) /* the ICMP error */
		ck_assert_ptr_nonnull(strstr(frame_flow(&out), "icmp-error"));
	ck_assert_uint_eq(fixture_drops(hook, MK_DROP_TOO_BIG), where == TO_POD);
}

START_TEST(test_sent)
{
	send_row(_i, MK_HOOK_POD);
}
END_TEST

/* The receiver knows this node's pods, overlay and own addresses. It would take other sources, such
 * as another cluster's, for hosts outside. */
static const struct {
	const char *name, *flow;
	enum where where;
} sources[] = {
	{ "the host, by its overlay address", "udp 10.18.0.1:4 > 10.244.2.7:53", TO_UPLINK },
	{ ".. by its own address", "udp 192.168.99.11:4 > 10.244.2.7:53", TO_UPLINK },
	{ ".. by another one", "udp 192.168.77.11:4 > 10.244.2.7:53", TO_OVERLAY },
};

START_TEST(test_sources)
{
	struct frame in = frame_make(sources[_i].flow, NULL);

	nodes(true);
	fixture_expect(sources[_i].name, MK_HOOK_HOST, &in, sources[_i].where, sources[_i].flow);
}
END_TEST

/* A client's packet would look as if it came from outside. */
START_TEST(test_client)
{
	static const char *const backends[] = { "10.244.2.7:8080", NULL };
	struct frame_options with = { .payload_bytes = 16 };
	struct frame in;

	nodes(true);
	fixture_service("udp 192.168.99.11:30080", MK_SCOPE_EXTERNAL, MK_FRONTEND_MASQUERADE,
			backends, 0, 1);
	from_link(&with, NEW_MAC);
	in = frame_make("udp 203.0.113.9:4 > 192.168.99.11:30080", &with);
	fixture_expect("a client's", MK_HOOK_UPLINK, &in, TO_OVERLAY,
		       "udp 203.0.113.9:4 > 10.244.2.7:8080");
}
END_TEST

/* A node whose link is not known (any more) gets packets by VXLAN. */
START_TEST(test_sent_without_link)
{
	struct frame in = frame_make("udp 10.244.1.2:4 > 10.244.2.7:53", NULL);

	nodes(true);
	fixture_empty("link_nodes");
	fixture_expect("no link", MK_HOOK_POD, &in, TO_OVERLAY, NULL);
}
END_TEST

/* ---- receiving ------------------------------------------------------------------------------- */

static const struct {
	const char *name, *flow, *mac;
	enum where where, where_direct; /* if this node sends in VXLAN, or directly */
	enum mk_drop_reason reason;
} came[] = {
	{ "a node's pod", "udp 10.244.2.7:4 > 10.244.1.3:53", NODE2_MAC, TO_POD, TO_POD, 0 },
	{ "a node's overlay address", "udp 10.18.0.2:4 > 10.244.1.3:53", NODE2_MAC, TO_POD, TO_POD,
	  0 },
	{ "a node's own address", "udp 192.168.99.12:4 > 10.244.1.3:53", NODE2_MAC, TO_POD, TO_POD,
	  0 },
	{ ".. of a stranger", "udp 192.168.99.12:4 > 10.244.1.3:53", NEW_MAC, TO_HOST, TO_HOST, 0 },
	{ "a pod of a stranger", "udp 10.244.2.7:4 > 10.244.1.3:53", NEW_MAC, DROPPED, DROPPED,
	  MK_DROP_DIRECT_FORGED },
	{ "an overlay address of a stranger", "udp 10.18.0.2:4 > 10.244.1.3:53", NEW_MAC, DROPPED,
	  DROPPED, MK_DROP_DIRECT_FORGED },
	{ "another node's pod", "udp 10.244.3.7:4 > 10.244.1.3:53", NODE2_MAC, DROPPED, DROPPED,
	  MK_DROP_DIRECT_FORGED },
	{ "of a node without a MAC address yet", "udp 10.244.4.7:4 > 10.244.1.3:53", NEW_MAC,
	  DROPPED, DROPPED, MK_DROP_DIRECT_FORGED },
	{ "a pod of a node elsewhere", "udp 10.244.5.7:4 > 10.244.1.3:53", NODE2_MAC, DROPPED,
	  DROPPED, MK_DROP_MARTIAN_SOURCE },
	{ "this node's pod", "udp 10.244.1.2:4 > 10.244.1.3:53", NODE2_MAC, DROPPED, DROPPED,
	  MK_DROP_MARTIAN_SOURCE },
	{ "an unused address", "udp 10.244.77.1:4 > 10.244.1.3:53", NODE2_MAC, DROPPED, DROPPED,
	  MK_DROP_MARTIAN_SOURCE },
	/* reverse path filtering: by the device of the host's route to the source */
	{ "a node's pod to this host", "udp 10.244.2.7:4 > 10.18.0.1:53", NODE2_MAC, TO_OVERLAY,
	  TO_HOST, 0 },
	{ "a node's pod to outside", "udp 10.244.2.7:4 > 8.8.8.8:53", NODE2_MAC, TO_OVERLAY,
	  DROPPED, MK_DROP_OVERLAY_STRAY },
};

static uint64_t drops_of(enum mk_drop_reason reason)
{
	return fixture_drops(MK_HOOK_UPLINK, reason) + fixture_drops(MK_HOOK_OVERLAY, reason);
}

static void receive(int row, bool is_direct)
{
	enum where where = is_direct ? came[row].where_direct : came[row].where;
	struct frame_options with = { .payload_bytes = 16 };
	struct frame in;

	nodes(is_direct);
	from_link(&with, came[row].mac);
	in = frame_make(came[row].flow, &with);
	fixture_expect(came[row].name, MK_HOOK_UPLINK, &in, where, came[row].flow);
	if (where == DROPPED)
		ck_assert_msg(drops_of(came[row].reason) == 1, "%s", came[row].name);
	ck_assert_uint_eq(fixture_drops_total(), where == DROPPED);
}

START_TEST(test_came)
{
	receive(_i, false);
}
END_TEST

START_TEST(test_came_to_direct)
{
	receive(_i, true);
}
END_TEST

static enum where from(const char *mac)
{
	struct frame_options with = { .payload_bytes = 16 };
	struct frame in, out;

	from_link(&with, mac);
	in = frame_make("udp 10.244.2.7:4 > 10.244.1.3:53", &with);
	return fixture_send(MK_HOOK_UPLINK, &in, &out);
}

/* A proved MAC address counts until another one is proved: packets need no neighbour entry. */
START_TEST(test_other_mac)
{
	nodes(false);
	ck_assert_int_eq(from(NODE2_MAC), TO_POD);
	network_shell("ip neigh del 192.168.99.12 dev up9");
	ck_assert_int_eq(from(NODE2_MAC), TO_POD);
	ck_assert_int_eq(from(NEW_MAC), DROPPED);
	network_shell("ip neigh replace 192.168.99.12 lladdr " NEW_MAC " dev up9");
	ck_assert_int_eq(from(NEW_MAC), TO_POD);
	ck_assert_int_eq(from(NODE2_MAC), DROPPED);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_DIRECT_FORGED), 2);
}
END_TEST

START_TEST(test_other_device)
{
	struct frame_options with = { .payload_bytes = 16,
				      .source_mac = NODE2_MAC,
				      .dest_mac = "02:00:00:00:08:0b" };
	struct frame in = frame_make("udp 10.244.2.7:4 > 10.244.1.3:53", &with), out;

	nodes(false);
	ck_assert_int_eq(from(NODE2_MAC), TO_POD);
	fixture_device(up8);
	ck_assert_int_eq(fixture_send(MK_HOOK_UPLINK, &in, &out), DROPPED);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_DIRECT_FORGED), 1);
}
END_TEST

/* A gateway's MAC address proves no node behind it. */
START_TEST(test_routed_away)
{
	nodes(false);
	network_shell("ip neigh replace 192.168.99.1 lladdr " NEW_MAC " dev up9\n"
		      "ip route add 192.168.99.12/32 via 192.168.99.1");
	ck_assert_int_eq(from(NEW_MAC), DROPPED);
	network_shell("ip route del 192.168.99.12/32 via 192.168.99.1");
	ck_assert_int_eq(from(NODE2_MAC), TO_POD);
}
END_TEST

/* A probe of the link (routing: Auto) goes to the virtual pod address. The answer goes by the way of
 * all other packets. */
START_TEST(test_link_probe)
{
	struct frame_options with = { .payload_bytes = sizeof(struct mk_probe_packet) };
	struct frame in, out;

	nodes(_i);
	from_link(&with, NODE2_MAC);
	in = frame_probe("udp 10.18.0.2:40000 > 10.244.1.1:7", MK_PROBE_MAGIC, &with);
	out = fixture_expect("answered", MK_HOOK_UPLINK, &in, _i ? TO_UPLINK : TO_OVERLAY, ANSWER);
	ck_assert_uint_eq(out.length, in.length);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* Neither another node of the link nor a gateway has delivered it. */
START_TEST(test_link_probe_of_stranger)
{
	struct frame_options with = { .payload_bytes = sizeof(struct mk_probe_packet) };
	struct frame in, out;

	nodes(_i);
	from_link(&with, _i ? NODE3_MAC : NEW_MAC);
	in = frame_probe("udp 10.18.0.2:40000 > 10.244.1.1:7", MK_PROBE_MAGIC, &with);
	ck_assert_int_eq(fixture_send(MK_HOOK_UPLINK, &in, &out), DROPPED);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_DIRECT_FORGED), 1);
}
END_TEST

/* The answer to a node's own address goes to that node, not masqueraded to outside. */
START_TEST(test_answer_to_node)
{
	struct frame_options with = { .payload_bytes = 16 };
	struct frame in;

	nodes(_i);
	from_link(&with, NODE2_MAC);
	in = frame_make("udp 192.168.99.12:4 > 10.244.1.3:53", &with);
	fixture_expect("request", MK_HOOK_UPLINK, &in, TO_POD, NULL);
	fixture_device(0);
	in = frame_make("udp 10.244.1.3:53 > 192.168.99.12:4", NULL);
	fixture_expect("answer", MK_HOOK_POD, &in, _i ? TO_UPLINK : TO_OVERLAY,
		       "udp 10.244.1.3:53 > 192.168.99.12:4");
	ck_assert_uint_eq(fixture_count("nat_sessions") + fixture_count("nat_sessions_young"), 0);
}
END_TEST

/* No other node has this host's own MAC address. */
START_TEST(test_own_mac)
{
	nodes(true);
	ck_assert_int_eq(from(OWN_MAC), DROPPED);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_DIRECT_FORGED), 1);
}
END_TEST

/* A packet in VXLAN for the host, whose own route to the sender is direct: it comes again by that
 * link, with a mark that no frame has (the lab shows that it passes). Otherwise it stays where it
 * came. The same frame of a stranger is dropped. */
START_TEST(test_overlay_to_host)
{
	struct frame in = frame_make("udp 10.244.2.7:4 > 10.18.0.1:53", NULL), out;

	nodes(_i);
	out = fixture_expect("in VXLAN", MK_HOOK_OVERLAY, &in, TO_HOST,
			     "udp 10.244.2.7:4 > 10.18.0.1:53");
	if (_i) {
		ck_assert_str_eq(frame_mac_dest(&out), OWN_MAC);
		fixture_device(up9);
		fixture_expect("of a stranger", MK_HOOK_UPLINK, &out, DROPPED, NULL);
		fixture_device(0);
	}
	in = frame_make("udp 10.244.4.7:4 > 10.18.0.1:53", NULL);
	fixture_expect("no MAC address yet", MK_HOOK_OVERLAY, &in, TO_HOST, NULL);
}
END_TEST

START_TEST(test_fragments)
{
	struct frame_options first = { .payload_bytes = 64, .fragment = MF, .id = 7 };
	struct frame_options last = { .payload_bytes = 64, .fragment = 9, .id = 7 };
	struct frame in;

	nodes(true);
	from_link(&first, NODE2_MAC);
	from_link(&last, NODE2_MAC);
	in = frame_make("udp 10.244.2.7:4 > 10.244.1.3:53", &first);
	fixture_expect("first", MK_HOOK_UPLINK, &in, TO_POD, NULL);
	in = frame_make("udp 10.244.2.7:4 > 10.244.1.3:53", &last);
	fixture_expect("last", MK_HOOK_UPLINK, &in, TO_POD, NULL);
}
END_TEST

/* ---- encryption, and the other family -------------------------------------------------------- */

static void setup_only(void)
{
	fixture_encrypts_all();
	setup();
}

START_TEST(test_only)
{
	nodes(false);
	ck_assert_int_eq(from(NODE2_MAC), DROPPED);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_OVERLAY_CLEAR), 1);
}
END_TEST

static void setup_keeping(void)
{
	fixture_keep_client();
	setup();
}

static void setup_carried(void)
{
	fixture_both_families();
	fixture_other_underlay();
	setup();
}

/* A direct frame has the node's own MAC address, one that was carried that of its overlay. */
START_TEST(test_carried_by_other)
{
	nodes(true);
	ck_assert_int_eq(from(NODE2_MAC), TO_POD);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

static TCase *direct_case(Suite *suite, const char *name, SFun load)
{
	TCase *tcase = tcase_create(name);

	tcase_add_unchecked_fixture(tcase, load, fixture_unload);
	tcase_add_checked_fixture(tcase, fixture_reset, NULL);
	suite_add_tcase(suite, tcase);
	return tcase;
}

BPF_SUITE("direct")
{
	TCase *tcase = direct_case(suite, "direct", setup);

	tcase_add_loop_test(tcase, test_sent, 0, ROWS(sent));
	tcase_add_loop_test(tcase, test_sources, 0, ROWS(sources));
	tcase_add_test(tcase, test_sent_without_link);
	tcase_add_loop_test(tcase, test_came, 0, ROWS(came));
	tcase_add_loop_test(tcase, test_came_to_direct, 0, ROWS(came));
	tcase_add_test(tcase, test_other_mac);
	tcase_add_test(tcase, test_other_device);
	tcase_add_test(tcase, test_routed_away);
	tcase_add_loop_test(tcase, test_link_probe, 0, 2);
	tcase_add_loop_test(tcase, test_link_probe_of_stranger, 0, 2);
	tcase_add_loop_test(tcase, test_answer_to_node, 0, 2);
	tcase_add_loop_test(tcase, test_overlay_to_host, 0, 2);
	tcase_add_test(tcase, test_own_mac);
	tcase_add_test(tcase, test_fragments);
	tcase_add_test(direct_case(suite, "clients keep their address", setup_keeping),
		       test_client);
	tcase_add_test(direct_case(suite, "WireGuardOnly", setup_only), test_only);
	tcase_add_test(direct_case(suite, "carried by the other family", setup_carried),
		       test_carried_by_other);
}
