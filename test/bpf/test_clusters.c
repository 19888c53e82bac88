// SPDX-License-Identifier: Apache-2.0
/* Packets to and from other clusters: translated between view and home address, and who may send
 * what. test_clusters_flows follows flows over several clusters. */
#include <stdio.h>

#include "bpf/peers.h"
#include "bpf/pieces.h"
#include "bpf/run.h"

#define POD   "10.244.1.2"
#define THERE "10.244.1.7" /* a pod of another cluster */
#define OTHER "10.244.2.7" /* a pod of this cluster on another node, or of the other cluster */

#define NO_CHECKSUM                                      \
	{                                                \
		.no_checksum = true, .payload_bytes = 20 \
	}
#define REPLY                      \
	{                          \
		.echo_reply = true \
	}

/* ---- out ------------------------------------------------------------------------------------- */

static const struct {
	const char *name, *flow;
	struct frame_options options;
	const char *seen, *frame;
} out_rows[] = {
	{ "TCP, to the pod's node",
	  "tcp " POD ":40000 > 240.1.1.7:80",
	  { 0 },
	  "tcp " POD ":40000 > " THERE ":80",
	  "100 > 200 hop 1" },
	{ "to a pod with the same home address",
	  "tcp " POD ":40000 > 240.1.1.2:80",
	  { 0 },
	  "tcp " POD ":40000 > " POD ":80",
	  "100 > 200 hop 1" },
	{ "to another node",
	  "tcp " POD ":40000 > 240.1.2.7:80",
	  { 0 },
	  "tcp " POD ":40000 > " OTHER ":80",
	  "100 > 200 hop 2" },
	{ "UDP",
	  "udp " POD ":40000 > 240.1.2.7:53",
	  { .payload_bytes = 20 },
	  "udp " POD ":40000 > " OTHER ":53",
	  "100 > 200 hop 2" },
	{ "UDP without checksum", "udp " POD ":40000 > 240.1.2.7:53", NO_CHECKSUM,
	  "udp " POD ":40000 > " OTHER ":53", "100 > 200 hop 2" },
	{ "SCTP",
	  "sctp " POD ":40000 > 240.1.2.7:9",
	  { .payload_bytes = 8 },
	  "sctp " POD ":40000 > " OTHER ":9",
	  "100 > 200 hop 2" },
	{ "a ping",
	  "icmp " POD " > 240.1.2.7 9",
	  { 0 },
	  "icmp " POD " > " OTHER " 9",
	  "100 > 200 hop 2" },
	{ "an answer to a ping", "icmp " POD " > 240.1.2.7 9", REPLY, "icmp " POD " > " OTHER " 9",
	  "100 > 200 hop 2" },
	{ "a protocol without ports",
	  "esp " POD " > 240.1.2.7",
	  { .payload_bytes = 20 },
	  "esp " POD ":0 > " OTHER ":0",
	  "100 > 200 hop 2" },
	{ "to a cluster whose nodes have no range of their own",
	  "tcp " POD ":4 > 240.2.9.7:80",
	  { 0 },
	  "tcp " POD ":4 > 10.244.9.7:80",
	  "100 > 11259375 hop 7" },
	{ "behind a hub: its number, a node of the hub",
	  "tcp " POD ":4 > 240.3.9.7:80",
	  { 0 },
	  "tcp " POD ":4 > 10.244.9.7:80",
	  NULL },
};

START_TEST(test_out)
{
	struct frame in = frame_make(out_rows[_i].flow, &out_rows[_i].options), out;
	uint32_t to;

	peers_reset();
	out = fixture_expect(out_rows[_i].name, MK_HOOK_POD, &in, TO_CLUSTER, NULL);
	ck_assert_msg(strcmp(frame_flow(&out), out_rows[_i].seen) == 0, "%s: saw '%s'",
		      out_rows[_i].name, frame_flow(&out));
	if (out_rows[_i].frame)
		ck_assert_str_eq(peers_shown(&out), out_rows[_i].frame);
	ck_assert_uint_eq(frame_ttl(&out), 63);
	ck_assert_uint_eq(out.length, in.length);
	to = mk_cluster_number_at(out.byte + 1);
	ck_assert_uint_eq(peers_packets(to, 0), 1);
	ck_assert_uint_eq(peers_bytes(to, 0), in.length - 14);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* A hub's nodes share the packets; all packets between two addresses go the same way. */
START_TEST(test_hops_by_hash)
{
	unsigned seen[3] = { 0 };
	char flow[64];

	peers_reset();
	for (int i = 0; i < 60; i++) {
		struct frame in, out, again;

		snprintf(flow, sizeof(flow), "udp " POD ":4%02d > 240.3.9.%d:53", i, 2 + i);
		in = frame_make(flow, NULL);
		out = fixture_expect(flow, MK_HOOK_POD, &in, TO_CLUSTER, NULL);
		snprintf(flow, sizeof(flow), "tcp " POD ":77 > 240.3.9.%d:80", 2 + i);
		in = frame_make(flow, NULL);
		again = fixture_expect(flow, MK_HOOK_POD, &in, TO_CLUSTER, NULL);
		ck_assert_mem_eq(out.byte, again.byte, 12);
		ck_assert_uint_eq(mk_cluster_number_at(out.byte + 1), PEER_FAR);
		ck_assert_uint_le(out.byte[5], 2);
		seen[out.byte[5]]++;
	}
	ck_assert_uint_gt(seen[1], 0);
	ck_assert_uint_gt(seen[2], 0);
}
END_TEST

/* The node that has a pod gets all its packets. */
START_TEST(test_hop_by_number)
{
	char flow[64];

	peers_reset();
	for (int i = 0; i < 40; i++) {
		struct frame in, out;

		snprintf(flow, sizeof(flow), "udp " POD ":4 > 240.1.%d.%d:53", 1 + i % 2, 2 + i);
		in = frame_make(flow, NULL);
		out = fixture_expect(flow, MK_HOOK_POD, &in, TO_CLUSTER, NULL);
		ck_assert_uint_eq(out.byte[5], 1 + (unsigned)i % 2);
	}
}
END_TEST

/* A node that is not known: another node of that cluster takes the packet there. */
START_TEST(test_hop_of_unknown_node)
{
	struct frame in = frame_make("tcp " POD ":40000 > 240.1.9.7:80", NULL), out;

	peers_reset();
	out = fixture_expect("by hash", MK_HOOK_POD, &in, TO_CLUSTER,
			     "tcp " POD ":40000 > 10.244.9.7:80");
	ck_assert_uint_ge(out.byte[5], 1);
	ck_assert_uint_le(out.byte[5], 2);
}
END_TEST

/* Node 2 of a cluster behind a hub is reached directly. Whether node 1 is, only probes find out. */
static const struct {
	const char *name, *flow;
	enum mk_hook hook;
	unsigned int hop; /* 0: by the hub */
} path_rows[] = {
	{ "a node that is reached directly", "tcp " POD ":4 > 240.3.2.7:80", MK_HOOK_POD, 9 },
	{ "a node on trial", "tcp " POD ":4 > 240.3.1.7:80", MK_HOOK_POD, 0 },
	{ ".. a probe of it", "udp 10.18.0.1:40000 > 240.3.1.1:7", MK_HOOK_HOST, 8 },
	{ ".. TCP to the probes' port", "tcp 10.18.0.1:40000 > 240.3.1.1:7", MK_HOOK_HOST, 0 },
	{ ".. another port", "udp 10.18.0.1:40000 > 240.3.1.1:8", MK_HOOK_HOST, 0 },
	{ ".. a pod's port 7", "udp " POD ":4 > 240.3.1.7:7", MK_HOOK_POD, 0 },
	{ "an unknown node", "tcp " POD ":4 > 240.3.9.7:80", MK_HOOK_POD, 0 },
};

static void put_paths(void)
{
	struct mk_cluster row = peers_get(PEER_FAR);

	row.host_bits = peers_get(PEER_EAST).host_bits;
	peers_put(PEER_FAR, &row);
	peers_put_node(PEER_FAR, 1, 8 | MK_CLUSTER_HOP_TRIAL);
	peers_put_node(PEER_FAR, 2, 9);
}

START_TEST(test_paths)
{
	struct frame in = frame_make(path_rows[_i].flow, NULL), out;

	peers_reset();
	put_paths();
	out = fixture_expect(path_rows[_i].name, path_rows[_i].hook, &in, TO_CLUSTER, NULL);
	ck_assert_uint_eq(mk_cluster_number_at(out.byte + 1), PEER_FAR);
	ck_assert_uint_eq(out.byte[4], 0);
	if (path_rows[_i].hop)
		ck_assert_msg(out.byte[5] == path_rows[_i].hop, "%s: hop %u", path_rows[_i].name,
			      out.byte[5]);
	else
		ck_assert_msg(out.byte[5] == 1 || out.byte[5] == 2, "%s: hop %u",
			      path_rows[_i].name, out.byte[5]);
}
END_TEST

static const struct {
	const char *name, *flow;
	enum mk_hook hook;
	enum mk_drop_reason reason;
} refused_rows[] = {
	{ "a host's protocol without ports", "esp 10.18.0.1 > 240.1.1.7", MK_HOOK_HOST,
	  MK_DROP_PEER_SOURCE },
	{ ".. with the gateway's address", "esp 10.244.1.254 > 240.1.1.7", MK_HOOK_HOST,
	  MK_DROP_PEER_SOURCE },
	{ "another node, with its own address", "tcp 192.168.99.60:40000 > 240.1.1.7:80",
	  MK_HOOK_OVERLAY, MK_DROP_PEER_SOURCE },
};

START_TEST(test_refused_sources)
{
	struct frame in = frame_make(refused_rows[_i].flow, NULL);

	peers_reset();
	peers_expect_drop(refused_rows[_i].name, refused_rows[_i].hook, &in,
			  refused_rows[_i].reason);
}
END_TEST

/* The answer to a client outside that has an address of a view: it has the address of this node. */
START_TEST(test_source_of_no_pod)
{
	struct frame in = frame_make("tcp 240.1.1.7:4 > 192.168.99.11:8080", NULL);

	peers_reset();
	fixture_host_port("tcp 192.168.99.11:8080", "10.244.1.3:80");
	fixture_expect("a client outside", MK_HOOK_UPLINK, &in, TO_POD, NULL);
	in = frame_make("tcp 10.244.1.3:80 > 240.1.1.7:4",
			&(struct frame_options){ .tcp_flags = SYN | ACK });
	peers_expect_drop("its answer", MK_HOOK_POD, &in, MK_DROP_PEER_SOURCE);
}
END_TEST

START_TEST(test_out_to_unknown)
{
	struct frame in = frame_make("tcp " POD ":40000 > 240.1.1.7:80", NULL);
	struct mk_cluster row;

	peers_reset();
	row = peers_get(PEER_EAST);
	row.view = fixture_addr("240.7.0.0"); /* the route has not followed yet */
	peers_put(PEER_EAST, &row);
	peers_expect_drop("a row with another view", MK_HOOK_POD, &in, MK_DROP_PEER_UNKNOWN);
	peers_forget(PEER_EAST);
	peers_expect_drop("no row", MK_HOOK_POD, &in, MK_DROP_PEER_UNKNOWN);
}
END_TEST

START_TEST(test_out_without_node)
{
	struct frame in = frame_make("tcp " POD ":40000 > 240.1.9.7:80", NULL);
	struct mk_cluster row;

	peers_reset();
	peers_no_device();
	peers_expect_drop("no device", MK_HOOK_POD, &in, MK_DROP_PEER_NO_NODE);
	peers_reset();
	row = peers_get(PEER_EAST);
	row.hop_count = 0;
	peers_put(PEER_EAST, &row);
	peers_expect_drop("no node", MK_HOOK_POD, &in, MK_DROP_PEER_NO_NODE);
}
END_TEST

/* The gateway sends the error to the pod. The error quotes the packet as the pod sent it. */
START_TEST(test_out_too_big)
{
	const struct frame_options fits = { .packet_bytes = 1450, .fragment = DF };
	const struct frame_options longer = { .packet_bytes = 1451, .fragment = DF };
	struct frame in = frame_make("udp " POD ":40000 > 240.1.1.7:53", &fits), out;

	peers_reset();
	fixture_expect("fits", MK_HOOK_POD, &in, TO_CLUSTER, NULL);
	in = frame_make("udp " POD ":40000 > 240.1.1.7:53", &longer);
	out = fixture_expect("too big", MK_HOOK_POD, &in, TO_POD,
			     "icmp-error 10.244.1.254 > " POD " 3/4 [udp " POD
			     ":40000 > 240.1.1.7:53]");
	ck_assert_uint_eq(frame_icmp_mtu(&out), 1450);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_POD, MK_DROP_TOO_BIG), 1);
	ck_assert_uint_eq(peers_packets(PEER_EAST, 0), 1);
}
END_TEST

/* The way to the peer is narrower than the uplink. Fragments of carriers would be lost there, so
 * packets that may be fragmented are refused, too. */
START_TEST(test_out_narrow)
{
	const struct frame_options fits = { .packet_bytes = 1300 },
				   longer = { .packet_bytes = 1301 };
	struct frame in = frame_make("udp " POD ":40000 > 240.1.1.7:53", &fits), out;
	struct mk_cluster row;

	peers_reset();
	row = peers_get(PEER_EAST);
	row.mtu_bytes = 1300;
	peers_put(PEER_EAST, &row);
	fixture_expect("fits", MK_HOOK_POD, &in, TO_CLUSTER, NULL);
	in = frame_make("udp " POD ":40000 > 240.1.1.7:53", &longer);
	out = fixture_expect("too big", MK_HOOK_POD, &in, TO_POD,
			     "icmp-error 10.244.1.254 > " POD " 3/4 [udp " POD
			     ":40000 > 240.1.1.7:53]");
	ck_assert_uint_eq(frame_icmp_mtu(&out), 1300);
}
END_TEST

START_TEST(test_out_expired)
{
	const struct frame_options dies = { .ttl = 1 };
	struct frame in = frame_make("udp " POD ":40000 > 240.1.1.7:53", &dies);

	peers_reset();
	fixture_expect("expired", MK_HOOK_POD, &in, TO_POD,
		       "icmp-error 10.244.1.254 > " POD " 11/0 [udp " POD ":40000 > 240.1.1.7:53]");
	ck_assert_uint_eq(fixture_drops(MK_HOOK_POD, MK_DROP_TTL_EXPIRED), 1);
}
END_TEST

/* ---- in -------------------------------------------------------------------------------------- */

static const struct {
	const char *name, *flow;
	struct frame_options options;
	const char *seen;
	enum where where;
} in_rows[] = {
	{ "TCP",
	  "tcp " THERE ":40000 > " POD ":80",
	  { 0 },
	  "tcp 240.1.1.7:40000 > " POD ":80",
	  TO_POD },
	{ "from a pod with the same home address",
	  "tcp " POD ":40000 > " POD ":80",
	  { 0 },
	  "tcp 240.1.1.2:40000 > " POD ":80",
	  TO_POD },
	{ "UDP",
	  "udp " THERE ":40000 > " POD ":53",
	  { .payload_bytes = 20 },
	  "udp 240.1.1.7:40000 > " POD ":53",
	  TO_POD },
	{ "UDP without checksum", "udp " THERE ":40000 > " POD ":53", NO_CHECKSUM,
	  "udp 240.1.1.7:40000 > " POD ":53", TO_POD },
	{ "SCTP",
	  "sctp " THERE ":40000 > " POD ":9",
	  { .payload_bytes = 8 },
	  "sctp 240.1.1.7:40000 > " POD ":9",
	  TO_POD },
	{ "a ping", "icmp " THERE " > " POD " 9", { 0 }, "icmp 240.1.1.7 > " POD " 9", TO_POD },
	{ "an answer to a ping", "icmp " THERE " > " POD " 9", REPLY, "icmp 240.1.1.7 > " POD " 9",
	  TO_POD },
	{ "a protocol without ports",
	  "esp " THERE " > " POD,
	  { .payload_bytes = 20 },
	  "esp 240.1.1.7:0 > " POD ":0",
	  TO_POD },
	{ "to a pod of another node",
	  "tcp " THERE ":40000 > " OTHER ":80",
	  { 0 },
	  "tcp 240.1.1.7:40000 > " OTHER ":80",
	  TO_OVERLAY },
};

START_TEST(test_in)
{
	struct frame in = peers_frame(PEER_EAST, FIXTURE_CLUSTER, in_rows[_i].flow,
				      &in_rows[_i].options),
		     out;

	peers_reset();
	out = fixture_expect(in_rows[_i].name, MK_HOOK_CLUSTER, &in, in_rows[_i].where, NULL);
	ck_assert_msg(strcmp(frame_flow(&out), in_rows[_i].seen) == 0, "%s: saw '%s'",
		      in_rows[_i].name, frame_flow(&out));
	ck_assert_uint_eq(frame_ttl(&out), 63);
	ck_assert_uint_eq(peers_packets(PEER_EAST, 1), 1);
	ck_assert_uint_eq(peers_bytes(PEER_EAST, 1), in.length - 14);
	ck_assert_uint_eq(fixture_count("sessions") + fixture_count("sessions_young"), 0);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

static const struct {
	const char *name;
	uint32_t from;
	const char *flow;
	enum mk_drop_reason reason;
} denied_rows[] = {
	{ "a cluster that is unknown", 201, "tcp " THERE ":40000 > " POD ":80",
	  MK_DROP_PEER_UNKNOWN },
	{ "a source that is not in its range", PEER_EAST, "tcp 10.18.0.2:40000 > " POD ":80",
	  MK_DROP_PEER_SOURCE },
	{ "a source in its view", PEER_EAST, "tcp 240.1.1.7:40000 > " POD ":80",
	  MK_DROP_PEER_SOURCE },
	{ "to an overlay address", PEER_EAST, "tcp " THERE ":40000 > 10.18.0.1:80",
	  MK_DROP_PEER_DENIED },
	{ "to a Service", PEER_EAST, "tcp " THERE ":40000 > 10.96.0.10:80", MK_DROP_PEER_DENIED },
	{ "to the node", PEER_EAST, "tcp " THERE ":40000 > 192.168.99.11:22", MK_DROP_PEER_DENIED },
	{ "to another cluster's view", PEER_EAST, "tcp " THERE ":40000 > 240.2.1.7:80",
	  MK_DROP_PEER_DENIED },
	{ "to the pods' gateway, which is the host", PEER_EAST,
	  "tcp " THERE ":40000 > 10.244.1.254:80", MK_DROP_PEER_DENIED },
	{ "to the virtual pod address", PEER_EAST, "tcp " THERE ":40000 > 10.244.1.1:80",
	  MK_DROP_PEER_DENIED },
	{ "access None", PEER_NORTH, "tcp " THERE ":40000 > " POD ":80", MK_DROP_PEER_DENIED },
	{ "access None, a datagram", PEER_NORTH, "udp " THERE ":40000 > " POD ":53",
	  MK_DROP_PEER_DENIED },
	{ "access None, a ping", PEER_NORTH, "icmp " THERE " > " POD " 9", MK_DROP_PEER_DENIED },
};

START_TEST(test_denied)
{
	struct frame in =
		peers_frame(denied_rows[_i].from, FIXTURE_CLUSTER, denied_rows[_i].flow, NULL);
	static const char *const backend[] = { POD ":80", NULL };

	peers_reset();
	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, backend, 1, 1);
	peers_expect_drop(denied_rows[_i].name, MK_HOOK_CLUSTER, &in, denied_rows[_i].reason);
}
END_TEST

START_TEST(test_frames_of_another_format)
{
	struct frame in = peers_frame(PEER_EAST, FIXTURE_CLUSTER, "tcp " THERE ":4 > " POD ":80",
				      NULL),
		     other;

	peers_reset();
	other = in;
	other.byte[6 + 4] = MK_CLUSTER_WIRE + 1;
	peers_expect_drop("a later version", MK_HOOK_CLUSTER, &other, MK_DROP_PEER_VERSION);
	other = in;
	other.byte[6] = 0x02;
	peers_expect_drop("a MAC address of another kind", MK_HOOK_CLUSTER, &other,
			  MK_DROP_PEER_VERSION);
	other = in;
	other.byte[0] = 0xff;
	peers_expect_drop("a broadcast", MK_HOOK_CLUSTER, &other, MK_DROP_PEER_VERSION);
	fixture_expect("the same as it should be", MK_HOOK_CLUSTER, &in, TO_POD, NULL);
}
END_TEST

/* A row of the other family only: it matches no address. */
START_TEST(test_cluster_without_view)
{
	struct frame in =
		peers_frame(PEER_EAST, FIXTURE_CLUSTER, "tcp " THERE ":4 > " POD ":80", NULL);
	struct mk_cluster row;

	peers_reset();
	row = peers_get(PEER_EAST);
	memset(&row.home, 0, sizeof(row.home));
	memset(&row.view, 0, sizeof(row.view));
	memset(&row.mask, 0xff, sizeof(row.mask));
	peers_put(PEER_EAST, &row);
	peers_expect_drop("no address", MK_HOOK_CLUSTER, &in, MK_DROP_PEER_SOURCE);
}
END_TEST

/* ---- access ---------------------------------------------------------------------------------- */

static const struct {
	const char *name, *flow, *answer;
	struct frame_options answer_options;
} opened_rows[] = {
	{ "TCP",
	  "tcp " POD ":40000 > 240.2.1.7:80",
	  "tcp " THERE ":80 > " POD ":40000",
	  { .tcp_flags = SYN | ACK } },
	{ "UDP", "udp " POD ":40000 > 240.2.1.7:53", "udp " THERE ":53 > " POD ":40000", { 0 } },
	{ "SCTP",
	  "sctp " POD ":40000 > 240.2.1.7:9",
	  "sctp " THERE ":9 > " POD ":40000",
	  { .sctp_chunk = SCTP_INIT_ACK } },
	{ "a ping", "icmp " POD " > 240.2.1.7 9", "icmp " THERE " > " POD " 9", REPLY },
};

/* A cluster without access may answer what a pod has opened, and nothing else. */
START_TEST(test_opened_by_pod)
{
	struct frame out = frame_make(opened_rows[_i].flow, NULL);
	struct frame answer = peers_frame(PEER_NORTH, FIXTURE_CLUSTER, opened_rows[_i].answer,
					  &opened_rows[_i].answer_options);
	struct frame error, quoted;

	peers_reset();
	peers_expect_drop("an answer to nothing", MK_HOOK_CLUSTER, &answer, MK_DROP_PEER_DENIED);
	quoted = fixture_expect(opened_rows[_i].name, MK_HOOK_POD, &out, TO_CLUSTER, NULL);
	fixture_expect(opened_rows[_i].name, MK_HOOK_CLUSTER, &answer, TO_POD, NULL);
	fixture_expect("its next packet", MK_HOOK_POD, &out, TO_CLUSTER, NULL);
	error = frame_make("icmp " THERE " > " POD, &(struct frame_options){ .icmp_type = 3,
									     .icmp_code = 1,
									     .quote = &quoted });
	peers_mark(&error, PEER_NORTH, FIXTURE_CLUSTER);
	fixture_expect("an error about it", MK_HOOK_CLUSTER, &error, TO_POD, NULL);
	answer = peers_frame(PEER_NORTH, FIXTURE_CLUSTER, "tcp " THERE ":81 > " POD ":40000",
			     &(struct frame_options){ .tcp_flags = ACK });
	peers_expect_drop("another flow", MK_HOOK_CLUSTER, &answer, MK_DROP_PEER_DENIED);
}
END_TEST

START_TEST(test_error_about_nothing)
{
	struct frame quoted = frame_make("tcp " POD ":40000 > " THERE ":80", NULL);
	struct frame error = frame_make(
		"icmp " THERE " > " POD,
		&(struct frame_options){ .icmp_type = 3, .icmp_code = 1, .quote = &quoted });

	peers_reset();
	peers_mark(&error, PEER_NORTH, FIXTURE_CLUSTER);
	peers_expect_drop("access None", MK_HOOK_CLUSTER, &error, MK_DROP_PEER_DENIED);
	peers_set_flags(PEER_NORTH, MK_CLUSTER_ACCESS_PODS);
	fixture_expect("access Pods", MK_HOOK_CLUSTER, &error, TO_POD,
		       "icmp-error 240.2.1.7 > " POD " 3/1 [tcp " POD ":40000 > 240.2.1.7:80]");
}
END_TEST

/* Flows to a cluster with access need no session. */
START_TEST(test_no_session_with_access)
{
	struct frame in = frame_make("udp " POD ":40000 > 240.1.1.7:53", NULL);

	peers_reset();
	fixture_expect("out", MK_HOOK_POD, &in, TO_CLUSTER, NULL);
	ck_assert_uint_eq(fixture_count("sessions") + fixture_count("sessions_young"), 0);
	in = frame_make("udp " POD ":40000 > 203.0.113.10:53", NULL);
	fixture_expect("to outside", MK_HOOK_POD, &in, TO_UPLINK, NULL);
	ck_assert_uint_eq(fixture_count("sessions") + fixture_count("sessions_young"), 0);
}
END_TEST

/* The node where a packet arrives cannot judge it if the pod is on another node: that one does. */
START_TEST(test_access_at_the_pods_node)
{
	struct frame in = peers_frame(PEER_NORTH, FIXTURE_CLUSTER, "tcp " THERE ":80 > " OTHER ":4",
				      &(struct frame_options){ .tcp_flags = SYN | ACK });
	struct frame out = frame_make("tcp " POD ":40000 > 240.2.1.7:80", NULL);

	peers_reset();
	fixture_expect("where it arrives", MK_HOOK_CLUSTER, &in, TO_OVERLAY,
		       "tcp 240.2.1.7:80 > " OTHER ":4");
	in = frame_make("tcp 240.2.1.7:80 > " POD ":40000",
			&(struct frame_options){ .tcp_flags = SYN | ACK });
	peers_expect_drop("at the pod's node", MK_HOOK_OVERLAY, &in, MK_DROP_PEER_DENIED);
	fixture_expect("the pod opens it", MK_HOOK_POD, &out, TO_CLUSTER, NULL);
	fixture_expect("at the pod's node, an answer", MK_HOOK_OVERLAY, &in, TO_POD, NULL);
	in = frame_make("tcp 240.1.1.7:80 > " POD ":40000", NULL);
	fixture_expect("of a cluster with access", MK_HOOK_OVERLAY, &in, TO_POD, NULL);
	in = frame_make("tcp 240.1.1.7:80 > 10.244.1.254:22", NULL);
	peers_expect_drop("to the gateway", MK_HOOK_OVERLAY, &in, MK_DROP_PEER_DENIED);
	in = frame_make("tcp 198.51.100.9:80 > " POD ":40000", NULL);
	fixture_expect("of no cluster", MK_HOOK_OVERLAY, &in, TO_POD, NULL);
}
END_TEST

/* ---- ICMP errors ----------------------------------------------------------------------------- */

/* A pod refuses a packet of another cluster: the quoted source has to be the home address again. */
START_TEST(test_error_of_pod)
{
	static const size_t quotes[] = { 28, 40 };
	struct frame in = peers_frame(PEER_EAST, FIXTURE_CLUSTER,
				      "tcp " THERE ":40000 > " POD ":80", NULL),
		     seen, error, out;

	peers_reset();
	seen = fixture_expect("request", MK_HOOK_CLUSTER, &in, TO_POD, NULL);
	error = frame_make("icmp " POD " > 240.1.1.7",
			   &(struct frame_options){ .icmp_type = 3,
						    .icmp_code = 3,
						    .quote = &seen,
						    .quote_bytes = quotes[_i] });
	out = fixture_expect("refused", MK_HOOK_POD, &error, TO_CLUSTER,
			     "icmp-error " POD " > " THERE " 3/3 [tcp " THERE ":40000 > " POD
			     ":80]");
	ck_assert_str_eq(peers_shown(&out), "100 > 200 hop 1");
}
END_TEST

/* This node refuses a packet of another cluster, with the virtual pod address. */
START_TEST(test_error_of_node)
{
	struct frame in = peers_frame(PEER_EAST, FIXTURE_CLUSTER,
				      "udp " THERE ":40000 > 10.244.1.99:80",
				      &(struct frame_options){ .payload_bytes = 20 }),
		     out;

	peers_reset();
	out = fixture_expect("no such pod", MK_HOOK_CLUSTER, &in, TO_CLUSTER,
			     "icmp-error 10.244.1.1 > " THERE " 3/1 [udp " THERE
			     ":40000 > 10.244.1.99:80]");
	ck_assert_str_eq(peers_shown(&out), "100 > 200 hop 1");
	ck_assert_uint_eq(fixture_drops(MK_HOOK_CLUSTER, MK_DROP_NO_POD), 1);
	in = frame_make("udp 240.1.1.7:40000 > 10.244.1.99:80",
			&(struct frame_options){ .payload_bytes = 20 });
	fixture_expect("it came by another node", MK_HOOK_OVERLAY, &in, TO_CLUSTER,
		       "icmp-error 10.244.1.1 > " THERE " 3/1 [udp " THERE
		       ":40000 > 10.244.1.99:80]");
}
END_TEST

/* An error about a pod's packet: the pod knows the destination by its view. */
START_TEST(test_error_from_another_cluster)
{
	static const size_t quotes[] = { 28, 40 };
	struct frame in = frame_make("tcp " POD ":40000 > 240.1.1.7:80", NULL), sent, error;

	peers_reset();
	sent = fixture_expect("request", MK_HOOK_POD, &in, TO_CLUSTER, NULL);
	error = frame_make("icmp 10.244.2.1 > " POD,
			   &(struct frame_options){ .icmp_type = 3,
						    .icmp_code = 1,
						    .quote = &sent,
						    .quote_bytes = quotes[_i] });
	peers_mark(&error, PEER_EAST, FIXTURE_CLUSTER);
	fixture_expect("of a node there", MK_HOOK_CLUSTER, &error, TO_POD,
		       "icmp-error 240.1.2.1 > " POD " 3/1 [tcp " POD ":40000 > 240.1.1.7:80]");
}
END_TEST

/* A cluster sends errors about packets to itself only. Otherwise it could end flows that are none
 * of its own, although access lets it open nothing. */
START_TEST(test_error_about_another_cluster)
{
	static const char *const flows[] = { "udp " POD ":40000 > 240.2.1.7:53",
					     "udp " POD ":40000 > 203.0.113.10:53" };
	struct frame sent = frame_make(flows[_i], NULL);
	struct frame error = frame_make(
		"icmp " THERE " > " POD,
		&(struct frame_options){ .icmp_type = 3, .icmp_code = 3, .quote = &sent });

	peers_reset();
	fixture_expect("opened", MK_HOOK_POD, &sent, _i ? TO_UPLINK : TO_CLUSTER, NULL);
	peers_mark(&error, PEER_EAST, FIXTURE_CLUSTER);
	peers_expect_drop("access Pods", MK_HOOK_CLUSTER, &error, MK_DROP_PEER_SOURCE);
	peers_set_flags(PEER_EAST, 0);
	peers_expect_drop("access None", MK_HOOK_CLUSTER, &error, MK_DROP_PEER_SOURCE);
}
END_TEST

/* ---- fragments ------------------------------------------------------------------------------- */

static const size_t cuts[] = { 1200, 2400, 0 };
static const char *const orders[] = { "012", "021", "102", "120", "201", "210" };
static const char *const protocols[] = { "udp", "sctp" };

static struct pieces in_three(const char *flow, uint32_t from, uint16_t id)
{
	const struct frame_options options = { .payload_bytes = 3000, .id = id };
	struct frame whole = frame_make(flow, &options);

	if (from)
		peers_mark(&whole, from, FIXTURE_CLUSTER);
	return pieces_cut(&whole, cuts);
}

START_TEST(test_fragments)
{
	const char *order = orders[_i % ROWS(orders)], *protocol = protocols[_i / ROWS(orders)];
	struct pieces in, out;
	struct frame whole;
	char flow[64];

	peers_reset();
	snprintf(flow, sizeof(flow), "%s " POD ":40000 > 240.1.1.7:53", protocol);
	in = in_three(flow, 0, 7);
	out = pieces_send(flow, MK_HOOK_POD, &in, order, TO_CLUSTER);
	whole = pieces_join(flow, &out);
	snprintf(flow, sizeof(flow), "%s " POD ":40000 > " THERE ":53", protocol);
	ck_assert_str_eq(frame_flow(&whole), flow);
	snprintf(flow, sizeof(flow), "%s " THERE ":53 > " POD ":40000", protocol);
	in = in_three(flow, PEER_EAST, 8);
	out = pieces_send(flow, MK_HOOK_CLUSTER, &in, order, TO_POD);
	whole = pieces_join(flow, &out);
	snprintf(flow, sizeof(flow), "%s 240.1.1.7:53 > " POD ":40000", protocol);
	ck_assert_str_eq(frame_flow(&whole), flow);
}
END_TEST

/* Pods of two clusters with one address send fragments with one id: they are not mixed. */
START_TEST(test_fragments_of_two_clusters)
{
	struct pieces east = in_three("udp " THERE ":1 > " POD ":53", PEER_EAST, 7);
	struct pieces far = in_three("udp " THERE ":2 > " POD ":53", PEER_FAR, 7), caught;

	peers_reset();
	caught = pieces_caught("later, of east", MK_HOOK_CLUSTER, &east.piece[1]);
	ck_assert_int_eq(caught.count, 0);
	fixture_expect("first, of far", MK_HOOK_CLUSTER, &far.piece[0], TO_POD, NULL);
	ck_assert_uint_eq(pieces_held(), 1);
	caught = pieces_caught("first, of east", MK_HOOK_CLUSTER, &east.piece[0]);
	ck_assert_int_eq(caught.count, 2);
}
END_TEST

/* ---- a hub ----------------------------------------------------------------------------------- */

static void start_hub(void)
{
	peers_reset();
	peers_set_flags(PEER_EAST, MK_CLUSTER_RELAYED);
	peers_set_flags(PEER_NORTH, MK_CLUSTER_RELAYED);
}

static const struct frame_options datagram = { .payload_bytes = 20 };

/* Nothing is translated, whatever this cluster has for these addresses. */
START_TEST(test_transit)
{
	struct frame in = peers_frame(PEER_NORTH, PEER_EAST, "udp " THERE ":40000 > " POD ":53",
				      &datagram),
		     out;

	start_hub();
	fixture_service("udp " POD ":53", MK_SCOPE_INTERNAL, 0,
			(const char *const[]){ "10.244.1.3:53", NULL }, 1, 1);
	out = fixture_expect("passed on", MK_HOOK_CLUSTER, &in, TO_CLUSTER,
			     "udp " THERE ":40000 > " POD ":53");
	ck_assert_str_eq(peers_shown(&out), "11259375 > 200 hop 1");
	ck_assert_uint_eq(frame_ttl(&out), 63);
	ck_assert_uint_eq(fixture_count("sessions") + fixture_count("sessions_young"), 0);
	ck_assert_uint_eq(fixture_count("fragments"), 0);
}
END_TEST

START_TEST(test_transit_refused)
{
	struct frame in = peers_frame(PEER_NORTH, PEER_EAST, "udp " THERE ":40000 > " POD ":53",
				      &datagram),
		     other;

	start_hub();
	peers_set_flags(PEER_EAST, MK_CLUSTER_ACCESS_PODS);
	peers_expect_drop("the destination is not relayed", MK_HOOK_CLUSTER, &in,
			  MK_DROP_PEER_TRANSIT);
	start_hub();
	peers_set_flags(PEER_NORTH, MK_CLUSTER_ACCESS_PODS);
	peers_expect_drop("the source is not relayed", MK_HOOK_CLUSTER, &in, MK_DROP_PEER_TRANSIT);
	start_hub();
	other = peers_frame(PEER_NORTH, 77, "udp " THERE ":40000 > " POD ":53", &datagram);
	peers_expect_drop("an unknown destination", MK_HOOK_CLUSTER, &other, MK_DROP_PEER_TRANSIT);
	other = peers_frame(PEER_NORTH, PEER_EAST, "udp " THERE ":4 > 192.168.99.11:53", &datagram);
	peers_expect_drop("no pod's address there", MK_HOOK_CLUSTER, &other, MK_DROP_PEER_TRANSIT);
	other = peers_frame(PEER_NORTH, PEER_EAST, "udp 192.168.99.9:4 > " POD ":53", &datagram);
	peers_expect_drop("no pod's source", MK_HOOK_CLUSTER, &other, MK_DROP_PEER_SOURCE);
	fixture_expect("the same as it should be", MK_HOOK_CLUSTER, &in, TO_CLUSTER, NULL);
}
END_TEST

/* An error about a packet in transit goes back to its cluster, as if the destination's had sent
 * it. This cluster's session with the same addresses is another flow. */
START_TEST(test_transit_errors)
{
	static const struct frame_options rows[] = { { .payload_bytes = 20, .ttl = 1 },
						     { .packet_bytes = 1451, .fragment = DF } };
	static const char *const types[] = { "11/0", "3/4" };
	struct frame in = peers_frame(PEER_NORTH, PEER_EAST, "udp " POD ":40000 > " THERE ":53",
				      &rows[_i]),
		     own = frame_make("udp " POD ":40000 > 10.96.0.10:53", &datagram), out;
	char seen[128];

	start_hub();
	fixture_service("udp 10.96.0.10:53", MK_SCOPE_INTERNAL, 0,
			(const char *const[]){ THERE ":53", NULL }, 1, 1);
	fixture_pod(THERE);
	fixture_expect("a session of this cluster", MK_HOOK_POD, &own, TO_POD, NULL);
	out = fixture_expect("told", MK_HOOK_CLUSTER, &in, TO_CLUSTER, NULL);
	snprintf(seen, sizeof(seen),
		 "icmp-error " THERE " > " POD " %s [udp " POD ":40000 > " THERE ":53]", types[_i]);
	ck_assert_str_eq(frame_flow(&out), seen);
	ck_assert_str_eq(peers_shown(&out), "200 > 11259375 hop 7");
}
END_TEST

BPF_SUITE("other clusters")
{
	TCase *tcase = bpf_case_after(suite, "clusters", fixture_clusters, NULL);

	tcase_add_loop_test(tcase, test_out, 0, ROWS(out_rows));
	tcase_add_test(tcase, test_hops_by_hash);
	tcase_add_test(tcase, test_hop_by_number);
	tcase_add_loop_test(tcase, test_paths, 0, ROWS(path_rows));
	tcase_add_test(tcase, test_hop_of_unknown_node);
	tcase_add_test(tcase, test_source_of_no_pod);
	tcase_add_loop_test(tcase, test_refused_sources, 0, ROWS(refused_rows));
	tcase_add_test(tcase, test_out_to_unknown);
	tcase_add_test(tcase, test_out_without_node);
	tcase_add_test(tcase, test_out_too_big);
	tcase_add_test(tcase, test_out_narrow);
	tcase_add_test(tcase, test_out_expired);
	tcase_add_loop_test(tcase, test_in, 0, ROWS(in_rows));
	tcase_add_loop_test(tcase, test_denied, 0, ROWS(denied_rows));
	tcase_add_test(tcase, test_frames_of_another_format);
	tcase_add_test(tcase, test_cluster_without_view);
	tcase_add_loop_test(tcase, test_opened_by_pod, 0, ROWS(opened_rows));
	tcase_add_test(tcase, test_error_about_nothing);
	tcase_add_test(tcase, test_no_session_with_access);
	tcase_add_test(tcase, test_access_at_the_pods_node);
	tcase_add_loop_test(tcase, test_error_of_pod, 0, 2);
	tcase_add_test(tcase, test_error_of_node);
	tcase_add_loop_test(tcase, test_error_from_another_cluster, 0, 2);
	tcase_add_loop_test(tcase, test_error_about_another_cluster, 0, 2);
	tcase_add_test(tcase, test_transit);
	tcase_add_test(tcase, test_transit_refused);
	tcase_add_loop_test(tcase, test_transit_errors, 0, 2);

	tcase = bpf_case_after(suite, "fragments of clusters", fixture_clusters, NULL);
	tcase_add_unchecked_fixture(tcase, pieces_load, NULL);
	tcase_add_loop_test(tcase, test_fragments, 0, ROWS(orders) * ROWS(protocols));
	tcase_add_test(tcase, test_fragments_of_two_clusters);
}
