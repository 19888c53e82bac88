// SPDX-License-Identifier: Apache-2.0
/* Packets on an uplink that no well-behaved host sends. None of them reaches a Service or a pod or
 * leaves an entry in a table. */
#include <linux/if_ether.h>
#include <stdio.h>
#include <string.h>

#include "bpf/network.h"
#include "bpf/run.h"
#include "monokube/sfc.h"
#include "rows.h"

static const char *const local_backend[] = { "10.244.1.3:8080", NULL };

/* Set up a NodePort, an external address and a host port. */
static void serve(void)
{
	fixture_service("udp 192.168.99.11:30053", MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV,
			local_backend, 1, 1);
	fixture_service("udp 198.51.100.7:53", MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV, local_backend,
			1, 1);
	fixture_host_port("udp 0.0.0.0:5353", "10.244.1.3:53");
}

/* ---- frames for another machine --------------------------------------------------------------------- */

static const struct {
	const char *name, *dest_mac;
	enum where where;
} receivers[] = {
	{ "for this host", NULL, TO_POD },
	{ "for another machine, seen by a promiscuous device", "02:de:ad:00:00:01", TO_HOST },
	{ "for everybody on the link", "ff:ff:ff:ff:ff:ff", TO_HOST },
	{ "for a group on the link", "01:00:5e:00:00:01", TO_HOST },
};

static const char *const served[] = {
	"udp 203.0.113.10:40000 > 192.168.99.11:30053",
	"udp 203.0.113.10:40000 > 198.51.100.7:53",
	"udp 203.0.113.10:40000 > 192.168.99.11:5353",
};

START_TEST(test_receiver)
{
	struct frame_options options = { .payload_bytes = 16, .dest_mac = receivers[_i].dest_mac };

	serve();
	for (size_t i = 0; i < ROWS(served); i++) {
		struct frame in = frame_make(served[i], &options), out;

		ck_assert_msg(fixture_send(MK_HOOK_UPLINK, &in, &out) == receivers[_i].where,
			      "%s: %s", receivers[_i].name, served[i]);
	}
	ck_assert_uint_eq(fixture_count("sessions") + fixture_count("sessions_young") > 0,
			  receivers[_i].where == TO_POD);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* Their fragments leave no data either. */
START_TEST(test_receiver_of_fragment)
{
	struct frame_options options = { .payload_bytes = 16,
					 .fragment = MF,
					 .dest_mac = "02:de:ad:00:00:01" };
	struct frame in = frame_make(served[0], &options), out;

	serve();
	ck_assert_int_eq(fixture_send(MK_HOOK_UPLINK, &in, &out), TO_HOST);
	ck_assert_uint_eq(fixture_count("fragments"), 0);
}
END_TEST

/* ---- sources ---------------------------------------------------------------------------------------- */

static const struct {
	const char *name, *source;
	bool passes;
} sources[] = {
	{ "a pod of this node", "10.244.1.2", false },
	{ "a pod of another node", "10.244.2.7", false },
	{ "the gateway", "10.244.1.254", false },
	{ "an address of the cluster's range that no node has", "10.244.200.1", false },
	{ "this node's overlay address", "10.18.0.1", false },
	{ "another node's overlay address", "10.18.0.2", false },
	{ "the uplink's own address", "192.168.99.11", false },
	{ "loopback, the first", "127.0.0.1", false },
	{ "loopback, the last", "127.255.255.255", false },
	{ "no address", "0.0.0.0", false },
	{ "this network", "0.1.2.3", false },
	{ "multicast, the first", "224.0.0.1", false },
	{ "multicast, the last", "239.255.255.255", false },
	{ "limited broadcast", "255.255.255.255", false },
	{ "another node", "192.168.99.12", true },
	{ "beside the cluster's range", "10.245.0.1", true },
	{ "beside the overlay's range", "10.17.255.255", true },
	{ "a reserved address, which some networks use", "240.0.0.1", true },
	{ "a host outside", "203.0.113.10", true },
};

#define DEVICE_MAC "52:54:00:00:00:01" /* no VTEP MAC address */

START_TEST(test_source)
{
	static const char *const to[] = { "192.168.99.11:30053", "198.51.100.7:53",
					  "192.168.99.11:5353", "10.244.1.3:53",
					  "192.168.99.11:22" };
	const struct frame_options options = { .payload_bytes = 16, .source_mac = DEVICE_MAC };
	bool passes = sources[_i].passes;

	serve();
	for (size_t i = 0; i < ROWS(to); i++) {
		struct frame in, out;
		char flow[128];

		snprintf(flow, sizeof(flow), "udp %s:40000 > %s", sources[_i].source, to[i]);
		in = frame_make(flow, &options);
		ck_assert_msg((fixture_send(MK_HOOK_UPLINK, &in, &out) != DROPPED) == passes,
			      "%s: %s", sources[_i].name, flow);
	}
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_MARTIAN_SOURCE),
			  passes ? 0 : ROWS(to));
	ck_assert_uint_eq(fixture_drops_total(), passes ? 0 : ROWS(to));
	ck_assert_uint_eq(fixture_count("sessions_young") > 0, passes);
}
END_TEST

static const struct {
	const char *name, *source;
	bool passes;
} shared[] = {
	{ "a host of a network inside the overlay's range", "10.18.77.2", true },
	{ "a host of a network inside the cluster's range", "10.244.200.1", true },
	{ "a pod of this node, though ranges are shared", "10.244.1.2", false },
	{ "a pod of another node, though ranges are shared", "10.244.2.7", false },
	{ "another node's overlay address, though ranges are shared", "10.18.0.2", false },
	{ "this node's overlay address, though ranges are shared", "10.18.0.1", false },
};

/* The cluster's ranges overlap with the node's network: the agent logs that, and the node stays
 * reachable. */
START_TEST(test_source_in_shared_range)
{
	const struct frame_options options = { .payload_bytes = 16, .source_mac = DEVICE_MAC };
	const struct mk_runtime runtime = { .ranges_shared = 1 };
	char flow[128];
	struct frame in, out;

	snprintf(flow, sizeof(flow), "udp %s:40000 > 192.168.99.11:22", shared[_i].source);
	in = frame_make(flow, &options);
	fixture_runtime(&runtime);
	ck_assert_msg(fixture_send(MK_HOOK_UPLINK, &in, &out) ==
			      (shared[_i].passes ? TO_HOST : DROPPED),
		      "%s", shared[_i].name);
}
END_TEST

START_TEST(test_source_of_fragment)
{
	struct frame_options options = { .payload_bytes = 16, .fragment = MF };
	struct frame in = frame_make("udp 10.244.2.7:40000 > 192.168.99.11:30053", &options), out;

	serve();
	ck_assert_int_eq(fixture_send(MK_HOOK_UPLINK, &in, &out), DROPPED);
	ck_assert_uint_eq(fixture_count("fragments"), 0);
}
END_TEST

/* ---- overlay packets -------------------------------------------------------------------------------- */

static const struct {
	const char *name, *outer, *inner;
	enum where where;
	const char *mac; /* NULL: of the source's node, or made from a source outside */
} carriers[] = {
	{ "of a node, from its pod", "192.168.99.12:40000 > 192.168.99.11:4789",
	  "10.244.2.7:40000 > 10.244.1.3:53", TO_HOST, NULL },
	{ "of a node, from its overlay address", "192.168.99.12:40000 > 192.168.99.11:4789",
	  "10.18.0.2:40000 > 10.244.1.3:53", TO_HOST, NULL },
	{ "of a node, by another of its addresses", "192.0.2.12:40000 > 192.168.99.11:4789",
	  "10.244.2.7:40000 > 10.244.1.3:53", TO_HOST, NULL },
	{ "of a node, from a host that it forwards for", "192.168.99.12:40000 > 192.168.99.11:4789",
	  "203.0.113.10:40000 > 10.244.1.3:53", TO_HOST, "02:4d:0a:12:00:02" },
	{ "a request that a node sends back", "192.168.99.12:40000 > 192.168.99.11:4789",
	  "203.0.113.10:40000 > 192.168.99.11:30080", TO_HOST, "06:4d:0a:12:00:02" },
	{ ".. with another node's MAC address", "192.168.99.12:40000 > 192.168.99.11:4789",
	  "203.0.113.10:40000 > 192.168.99.11:30080", DROPPED, "06:4d:0a:12:00:03" },
	{ "a client outside, of another node", "192.168.99.12:40000 > 192.168.99.11:4789",
	  "203.0.113.10:40000 > 10.244.1.3:53", DROPPED, "02:4d:0a:12:00:03" },
	{ "to another address of this host", "192.168.99.12:40000 > 192.0.2.11:4789",
	  "10.244.2.7:40000 > 10.244.1.3:53", TO_HOST, NULL },
	{ "of a stranger", "192.168.99.200:40000 > 192.168.99.11:4789",
	  "10.244.2.7:40000 > 10.244.1.3:53", DROPPED, NULL },
	{ "of a stranger, to another address of this host", "203.0.113.10:40000 > 192.0.2.11:4789",
	  "10.244.2.7:40000 > 10.244.1.3:53", DROPPED, NULL },
	{ "of a node, from another node's pod", "192.168.99.12:40000 > 192.168.99.11:4789",
	  "10.244.3.7:40000 > 10.244.1.3:53", DROPPED, NULL },
	{ "of a node, from another node's overlay address",
	  "192.168.99.12:40000 > 192.168.99.11:4789", "10.18.0.3:40000 > 10.244.1.3:53", DROPPED,
	  NULL },
	{ "of a node, from this node's pod", "192.168.99.12:40000 > 192.168.99.11:4789",
	  "10.244.1.2:40000 > 10.244.1.3:53", DROPPED, NULL },
	{ "of a node, from this node's overlay address", "192.168.99.12:40000 > 192.168.99.11:4789",
	  "10.18.0.1:40000 > 10.244.1.3:53", DROPPED, NULL },
	{ "of a node, from an unused address", "192.168.99.12:40000 > 192.168.99.11:4789",
	  "10.244.77.1:40000 > 10.244.1.3:53", DROPPED, NULL },
};

#define UDP_BYTES   8
#define VXLAN_BYTES 8

static void put_vni(struct frame *frame, uint8_t vni)
{
	const uint8_t header[VXLAN_BYTES] = { 0x08, [6] = vni };

	memcpy(frame->byte + frame_l4(frame) + UDP_BYTES, header, sizeof(header));
}

static struct frame carrier_from(const char *outer, const char *inner, const char *mac)
{
	struct frame_options with = { .payload_bytes = 16, .source_mac = mac };
	char flow[128];
	struct frame carried, frame;

	snprintf(flow, sizeof(flow), "udp %s", inner);
	carried = frame_make(flow, &with);
	with.payload_bytes = (uint16_t)(VXLAN_BYTES + carried.length);
	with.source_mac = NULL;
	snprintf(flow, sizeof(flow), "udp %s", outer);
	frame = frame_make(flow, &with);
	put_vni(&frame, MK_VXLAN_VNI);
	memcpy(frame.byte + frame_l4(&frame) + UDP_BYTES + VXLAN_BYTES, carried.byte,
	       carried.length);
	return frame;
}

static struct frame carrier(const char *outer, const char *inner)
{
	return carrier_from(outer, inner, NULL);
}

static void know_nodes(void)
{
	fixture_peer("10.244.3.0", "10.18.0.3");
	fixture_host_address("192.0.2.11");
	fixture_peer_address("192.168.99.12", "10.18.0.2");
	fixture_peer_address("192.0.2.12", "10.18.0.2");
	fixture_peer_address("192.168.99.13", "10.18.0.3");
}

START_TEST(test_carrier)
{
	struct frame in = carrier_from(carriers[_i].outer, carriers[_i].inner, carriers[_i].mac),
		     out;
	bool dropped = carriers[_i].where == DROPPED;

	know_nodes();
	ck_assert_msg(fixture_send(MK_HOOK_UPLINK, &in, &out) == carriers[_i].where, "%s",
		      carriers[_i].name);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_OVERLAY_STRANGER), dropped);
	ck_assert_uint_eq(fixture_drops_total(), dropped);
}
END_TEST

/* The kernel accepts a unicast packet in a frame for everybody or for a group. */
START_TEST(test_receivers_of_forged)
{
	static const char *const macs[] = { "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01" };
	struct frame in = carrier_from(carriers[_i].outer, carriers[_i].inner, carriers[_i].mac),
		     out;
	const struct frame_options options = { .payload_bytes = 16, .dest_mac = macs[_i % 2] };
	struct frame forged = frame_make("udp 10.244.2.7:40000 > 192.168.99.11:22", &options);
	bool dropped = carriers[_i].where == DROPPED;

	know_nodes();
	memcpy(in.byte, forged.byte, ETH_ALEN);
	ck_assert_msg(fixture_send(MK_HOOK_UPLINK, &in, &out) == carriers[_i].where, "%s",
		      carriers[_i].name);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_OVERLAY_STRANGER), dropped);
	ck_assert_int_eq(fixture_send(MK_HOOK_UPLINK, &forged, &out), DROPPED);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_MARTIAN_SOURCE), 1);
	in = frame_make("udp 0.0.0.0:68 > 255.255.255.255:67", &options); /* a lease is asked for */
	ck_assert_int_eq(fixture_send(MK_HOOK_UPLINK, &in, &out), TO_HOST);
}
END_TEST

/* The host drops frames for another machine, whatever is in them. */
START_TEST(test_source_for_another_machine)
{
	const struct frame_options options = { .dest_mac = "02:de:ad:00:00:01" };
	struct frame in = frame_make("udp 10.244.2.7:40000 > 192.168.99.11:22", &options), out;

	ck_assert_int_eq(fixture_send(MK_HOOK_UPLINK, &in, &out), TO_HOST);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* Until the agent has read all Nodes, every sender is accepted: an upgrade loses no packet. */
START_TEST(test_carrier_before_nodes_are_known)
{
	struct frame in, out;

	in = carrier("192.168.99.200:40000 > 192.168.99.11:4789", carriers[0].inner);
	ck_assert_int_eq(fixture_send(MK_HOOK_UPLINK, &in, &out), TO_HOST);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* The host may have other VXLAN devices on the same port; their packets are not the overlay's. */
START_TEST(test_carrier_of_another_vni)
{
	struct frame out, in = carrier("192.168.99.200:40000 > 192.168.99.11:4789",
				       "10.0.0.7:40000 > 10.0.0.3:53");

	know_nodes();
	put_vni(&in, MK_SFC_VNI + 1);
	ck_assert_int_eq(fixture_send(MK_HOOK_UPLINK, &in, &out), TO_HOST);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* ---- packets of chains between nodes --------------------------------------------------------- */

#define REPLICA 0x123456789aULL /* its tag; it is on the node of 10.18.0.2 */

static const struct {
	const char *name, *outer;
	enum mk_sfc_carried carried;
	uint64_t tag;
	enum where where;
} chain_carriers[] = {
	{ "to a replica, of any node", "192.168.99.13:40000 > 192.168.99.11:4789", MK_SFC_TO, 77,
	  TO_HOST },
	{ "from a replica, of its node", "192.168.99.12:40000 > 192.168.99.11:4789", MK_SFC_FROM,
	  REPLICA, TO_HOST },
	{ "sent back, of the replica's node", "192.168.99.12:40000 > 192.168.99.11:4789",
	  MK_SFC_BACK, REPLICA, TO_HOST },
	{ "to a replica, of a stranger", "192.168.99.200:40000 > 192.168.99.11:4789", MK_SFC_TO, 77,
	  DROPPED },
	{ "from a replica, of a stranger", "192.168.99.200:40000 > 192.168.99.11:4789", MK_SFC_FROM,
	  REPLICA, DROPPED },
	{ "from a replica, of another node", "192.168.99.13:40000 > 192.168.99.11:4789",
	  MK_SFC_FROM, REPLICA, DROPPED },
	{ "sent back, of another node", "192.168.99.13:40000 > 192.168.99.11:4789", MK_SFC_BACK,
	  REPLICA, DROPPED },
	{ "from an unknown replica", "192.168.99.12:40000 > 192.168.99.11:4789", MK_SFC_FROM, 77,
	  DROPPED },
};

static void know_replica(void)
{
	struct mk_sfc_replica replica = { .uid_hash = 0xabcd000000000000 | REPLICA,
					  .state = MK_SFC_USABLE };
	const uint64_t tag = REPLICA;
	const uint32_t number = 3;

	fixture_mac("10.18.0.2", replica.vtep_mac);
	ck_assert_int_eq(row_update(fixture_map("sfc_replicas"), &number, &replica, 0), 0);
	ck_assert_int_eq(row_update(fixture_map("sfc_tags"), &tag, &number, 0), 0);
}

START_TEST(test_carrier_of_chains)
{
	struct frame out, in = carrier(chain_carriers[_i].outer, "10.244.1.2:40000 > 10.0.0.3:53");
	const struct mk_sfc_mac source = mk_sfc_mac_make(chain_carriers[_i].carried, MK_SFC_INSIDE,
							 0, chain_carriers[_i].tag);
	bool dropped = chain_carriers[_i].where == DROPPED;

	know_nodes();
	know_replica();
	put_vni(&in, MK_SFC_VNI);
	memcpy(in.byte + frame_l4(&in) + UDP_BYTES + VXLAN_BYTES + ETH_ALEN, &source,
	       sizeof(source));
	ck_assert_msg(fixture_send(MK_HOOK_UPLINK, &in, &out) == chain_carriers[_i].where, "%s",
		      chain_carriers[_i].name);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_OVERLAY_STRANGER), dropped);
	ck_assert_uint_eq(fixture_drops_total(), dropped);
}
END_TEST

static const struct {
	const char *name;
	uint16_t fragment, payload_bytes;
	enum where where;
} short_carriers[] = {
	{ "whole, with a frame that is not IP, from no node's MAC address", 0, VXLAN_BYTES + 14 + 8,
	  DROPPED },
	{ "whole, without a VXLAN header", 0, 4, DROPPED },
	{ "a first fragment that hides the address inside", MF, VXLAN_BYTES + 14 + 10, DROPPED },
	{ "a first fragment that hides all", MF, 8, DROPPED },
};

START_TEST(test_short_carrier)
{
	const struct frame_options with = { .fragment = short_carriers[_i].fragment,
					    .payload_bytes = short_carriers[_i].payload_bytes };
	struct frame out, in = frame_make("udp 192.168.99.12:40000 > 192.168.99.11:4789", &with);

	know_nodes();
	if (with.payload_bytes >= VXLAN_BYTES)
		put_vni(&in, MK_VXLAN_VNI);
	ck_assert_msg(fixture_send(MK_HOOK_UPLINK, &in, &out) == short_carriers[_i].where, "%s",
		      short_carriers[_i].name);
}
END_TEST

/* At a Service's address the overlay's port is an ordinary port. */
START_TEST(test_carriers_port_of_service)
{
	const struct frame_options with = { .payload_bytes = 16 };
	struct frame in = frame_make("udp 203.0.113.10:40000 > 198.51.100.7:4789", &with);

	know_nodes();
	fixture_service("udp 198.51.100.7:4789", MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV,
			local_backend, 1, 1);
	fixture_expect("a client", MK_HOOK_UPLINK, &in, TO_POD, NULL);
}
END_TEST

/* ---- IP options ------------------------------------------------------------------------------------- */

#define OPTION "extension headers are in test_headers6"

static const struct {
	const char *name;
	uint8_t option[8], bytes; /* the rest: no operation */
	int reason; /* -1: passes */
} ip_options[] = {
	{ IPV4_ONLY(OPTION) "no operation", { 1, 1, 1, 1 }, 4, -1 },
	{ IPV4_ONLY(OPTION) "record route", { 7, 7, 4, 0, 0, 0, 0 }, 7, -1 },
	{ IPV4_ONLY(OPTION) "loose source route",
	  { 131, 7, 4, 10, 244, 1, 3 },
	  7,
	  MK_DROP_SOURCE_ROUTE },
	{ IPV4_ONLY(OPTION) "strict source route",
	  { 137, 7, 4, 10, 244, 1, 3 },
	  7,
	  MK_DROP_SOURCE_ROUTE },
	{ IPV4_ONLY(OPTION) "source route behind another",
	  { 1, 137, 7, 4, 10, 244, 1, 3 },
	  8,
	  MK_DROP_SOURCE_ROUTE },
	{ IPV4_ONLY(OPTION) "an option of no length, which the host judges", { 148, 0 }, 2, -1 },
};

START_TEST(test_options)
{
	const struct frame_options with = { .ip_option_words = 10, .payload_bytes = 16 };
	bool passes = ip_options[_i].reason < 0;

	if (family_leaves_out(ip_options[_i].name))
		return;
	serve();
	for (size_t i = 0; i < ROWS(served); i++) {
		struct frame in = frame_make(served[i], &with), out;

		memcpy(in.byte + 14 + 20, ip_options[_i].option, ip_options[_i].bytes);
		frame_fix_ip_checksum(&in);
		ck_assert_msg(fixture_send(MK_HOOK_UPLINK, &in, &out) ==
				      (passes ? TO_POD : DROPPED),
			      "%s", ip_options[_i].name);
	}
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_SOURCE_ROUTE),
			  passes ? 0 : ROWS(served));
}
END_TEST

/* ---- circles ---------------------------------------------------------------------------------------- */

/* The host forwards one packet between two of its pods, forged or misdirected. The answers pass the
 * host, which may have translated the packet, and then reach the pod. */
START_TEST(test_answer_by_the_host)
{
	const struct frame_options options = { .payload_bytes = 16 };
	struct frame in = frame_make("udp 10.244.1.2:5001 > 10.244.1.3:6001", &options);

	fixture_expect("request", MK_HOOK_HOST, &in, TO_POD, NULL);
	in = frame_make("udp 10.244.1.3:6001 > 10.244.1.2:5001", &options);
	fixture_expect("answer", MK_HOOK_POD, &in, TO_HOST, NULL);
	fixture_expect("answer, forwarded by the host", MK_HOOK_HOST, &in, TO_POD, NULL);
	fixture_expect("next answer", MK_HOOK_POD, &in, TO_HOST, NULL);
}
END_TEST

/* ---- the host's own connections ---------------------------------------------------------------------- */

/* The host's connections may have the number of a NodePort or a host port. */
START_TEST(test_hosts_connection)
{
	struct frame_options answer = { .tcp_flags = SYN | ACK, .payload_bytes = 16 };
	struct frame in = frame_make("tcp 203.0.113.10:443 > 192.168.99.11:30080", &answer);

	fixture_service("tcp 192.168.99.11:30080", MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV,
			local_backend, 1, 1);
	(void)network_of_own();
	network_reaches_all();
	network_socket("192.168.99.11:30080", "203.0.113.10:443");
	fixture_expect("its answer", MK_HOOK_UPLINK, &in, TO_HOST, NULL);
	ck_assert_uint_eq(fixture_count("sessions") + fixture_count("sessions_young"), 0);
	in = frame_make("tcp 203.0.113.10:444 > 192.168.99.11:30080", NULL);
	fixture_expect("a client", MK_HOOK_UPLINK, &in, TO_POD, NULL);
	answer.tcp_flags = ACK;
	in = frame_make("tcp 203.0.113.10:445 > 192.168.99.11:30080", &answer);
	fixture_expect("a client's connection that another node had", MK_HOOK_UPLINK, &in, TO_POD,
		       NULL);
}
END_TEST

START_TEST(test_hosts_datagrams)
{
	const struct frame_options options = { .payload_bytes = 16 };
	struct frame in = frame_make("udp 203.0.113.10:53 > 192.168.99.11:30053", &options);

	serve();
	(void)network_of_own();
	network_reaches_all();
	network_udp_socket("192.168.99.11:30053", "203.0.113.10:53");
	network_udp_socket("192.168.99.11:5353", "203.0.113.10:53");
	fixture_expect("its answer", MK_HOOK_UPLINK, &in, TO_HOST, NULL);
	in = frame_make("udp 203.0.113.10:53 > 192.168.99.11:5353", &options);
	fixture_expect("its answer, a host port's number", MK_HOOK_UPLINK, &in, TO_HOST, NULL);
	in = frame_make("udp 203.0.113.11:53 > 192.168.99.11:30053", &options);
	fixture_expect("a client", MK_HOOK_UPLINK, &in, TO_POD, NULL);
	in = frame_make("udp 203.0.113.11:53 > 192.168.99.11:5353", &options);
	fixture_expect("a client of the host port", MK_HOOK_UPLINK, &in, TO_POD, NULL);
}
END_TEST

/* An unconnected socket takes no client from the Service. */
START_TEST(test_hosts_server)
{
	const struct frame_options options = { .payload_bytes = 16 };
	struct frame in = frame_make("udp 203.0.113.10:53 > 192.168.99.11:30053", &options);

	serve();
	(void)network_of_own();
	network_reaches_all();
	network_udp_socket("192.168.99.11:30053", NULL);
	fixture_expect("a client", MK_HOOK_UPLINK, &in, TO_POD, NULL);
}
END_TEST

/* ---- errors about overlay packets -------------------------------------------------------------- */

static const struct {
	const char *name, *error, *quoted;
	uint8_t code; /* of type 3: 4 is too big */
	uint16_t fragment;
	size_t quote_bytes;
	enum where where;
	uint32_t mtu;
	bool passes_ipv4; /* whose carriers may be fragmented */
} shrinkings[] = {
	{ "overlay packets are too big", "icmp 203.0.113.10 > 192.168.99.11",
	  "udp 192.168.99.11:40000 > 192.168.99.12:4789", 4, 0, 0, DROPPED, 1280, false },
	{ "... to another address of this host", "icmp 203.0.113.10 > 192.0.2.11",
	  "udp 192.0.2.11:40000 > 192.168.99.12:4789", 4, 0, 0, DROPPED, 1280, false },
	{ "... in a first fragment that hides what it is about",
	  "icmp 203.0.113.10 > 192.168.99.11", "udp 192.168.99.11:40000 > 192.168.99.12:4789", 4,
	  MF, 4, DROPPED, 1280, false },
	{ "overlay packets found no port", "icmp 192.168.99.12 > 192.168.99.11",
	  "udp 192.168.99.11:40000 > 192.168.99.12:4789", 3, 0, 0, TO_HOST, 1280, false },
	{ "the host's own packets are too big", "icmp 203.0.113.10 > 192.168.99.11",
	  "tcp 192.168.99.11:40000 > 203.0.113.7:443", 4, 0, 0, TO_HOST, 1280, false },
	{ "a ping of another node's pod is too big", "icmp 192.168.99.12 > 192.168.99.11",
	  "icmp 192.168.99.11 > 192.168.99.12 7", 4, 0, 0, DROPPED, 1499, false },
	{ "... but overlay packets are not", "icmp 192.168.99.12 > 192.168.99.11",
	  "icmp 192.168.99.11 > 192.168.99.12 7", 4, 0, 0, TO_HOST, 1500, false },
	{ "a connection to another node is too big, for a router",
	  "icmp 203.0.113.10 > 192.168.99.11", "tcp 192.168.99.11:10250 > 192.168.99.12:40000", 4,
	  0, 0, DROPPED, 1499, true },
	{ "a packet to another node's NodePort is too big", "icmp 192.168.99.12 > 192.168.99.11",
	  "udp 192.168.99.11:40000 > 192.168.99.12:30053", 4, 0, 0, TO_HOST, 1499, false },
	{ "... for a router", "icmp 203.0.113.10 > 192.168.99.11",
	  "udp 192.168.99.11:40000 > 192.168.99.12:30053", 4, 0, 0, DROPPED, 1499, true },
	{ "a node calls packets to a host outside too big", "icmp 192.168.99.12 > 192.168.99.11",
	  "tcp 192.168.99.11:40000 > 203.0.113.7:443", 4, 0, 0, TO_HOST, 1280, false },
};

/* IPv6's carriers are 20 bytes longer. */
static uint32_t shrunk_to(uint32_t mtu)
{
	return mtu + (family_is6() ? 20 : 0);
}

/* An error that anybody can send makes no overlay packet smaller. A pod of another node can send
 * one about the host's answers to it. */
START_TEST(test_shrinking)
{
	struct frame quoted = frame_make(shrinkings[_i].quoted, NULL), out;
	const struct frame_options about = { .icmp_type = 3,
					     .icmp_code = shrinkings[_i].code,
					     .icmp_mtu = shrunk_to(shrinkings[_i].mtu),
					     .fragment = shrinkings[_i].fragment,
					     .quote = &quoted,
					     .quote_bytes = shrinkings[_i].quote_bytes };
	struct frame in = frame_make(shrinkings[_i].error, &about);
	bool dropped =
		shrinkings[_i].where == DROPPED && (family_is6() || !shrinkings[_i].passes_ipv4);

	know_nodes();
	fixture_service("udp 192.168.99.11:30053", MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV,
			local_backend, 1, 1);
	ck_assert_msg(fixture_send(MK_HOOK_UPLINK, &in, &out) == (dropped ? DROPPED : TO_HOST),
		      "%s", shrinkings[_i].name);
	ck_assert_msg(fixture_drops(MK_HOOK_UPLINK, MK_DROP_FORGED_ERROR) == dropped, "%s",
		      shrinkings[_i].name);
}
END_TEST

/* An error about a masqueraded packet goes to the pod, so it makes no overlay packet smaller. */
START_TEST(test_shrinking_for_a_pod)
{
	struct frame in = frame_make("udp 10.244.1.2:40000 > 192.168.99.12:9999", NULL), quoted,
		     out;
	struct frame_options about = {
		.icmp_type = 3, .icmp_code = 4, .icmp_mtu = shrunk_to(1499), .quote = &quoted
	};

	know_nodes();
	ck_assert_int_eq(fixture_send(MK_HOOK_POD, &in, &quoted), TO_UPLINK);
	in = frame_make("icmp 192.168.99.12 > 192.168.99.11", &about);
	ck_assert_int_eq(fixture_send(MK_HOOK_UPLINK, &in, &out), TO_POD);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

BPF_SUITE("packets from outside")
{
	TCase *tcase = bpf_case(suite, "outside");

	tcase_add_loop_test(tcase, test_receiver, 0, ROWS(receivers));
	tcase_add_test(tcase, test_receiver_of_fragment);
	tcase_add_loop_test(tcase, test_source, 0, ROWS(sources));
	tcase_add_loop_test(tcase, test_source_in_shared_range, 0, ROWS(shared));
	tcase_add_test(tcase, test_source_of_fragment);
	tcase_add_loop_test(tcase, test_carrier, 0, ROWS(carriers));
	tcase_add_test(tcase, test_source_for_another_machine);
	tcase_add_loop_test(tcase, test_receivers_of_forged, 0, ROWS(carriers));
	tcase_add_test(tcase, test_carrier_before_nodes_are_known);
	tcase_add_test(tcase, test_carrier_of_another_vni);
	tcase_add_loop_test(tcase, test_carrier_of_chains, 0, ROWS(chain_carriers));
	tcase_add_loop_test(tcase, test_short_carrier, 0, ROWS(short_carriers));
	tcase_add_test(tcase, test_carriers_port_of_service);
	tcase_add_loop_test(tcase, test_shrinking, 0, ROWS(shrinkings));
	tcase_add_test(tcase, test_shrinking_for_a_pod);
	tcase_add_loop_test(tcase, test_options, 0, ROWS(ip_options));
	tcase_add_test(tcase, test_answer_by_the_host);
	tcase_add_test(tcase, test_hosts_connection);
	tcase_add_test(tcase, test_hosts_datagrams);
	tcase_add_test(tcase, test_hosts_server);
}
