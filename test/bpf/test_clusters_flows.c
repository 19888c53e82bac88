// SPDX-License-Identifier: Apache-2.0
/* Flows between pods of clusters with equal pod ranges, hop by hop: what one cluster sends, the next
 * one gets. Every cluster calls itself FIXTURE_CLUSTER, and all have the tables of this node. And
 * carriers of other clusters at the uplink. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <stdio.h>

#include "bpf/peers.h"
#include "bpf/run.h"
#include "monokube/sfc.h"

#define POD "10.244.1.2"

static const struct {
	const char *name, *flow, *arrives, *answer, *arrives_back;
	struct frame_options options, answer_options;
} flows[] = {
#define TCP                                                                     \
	"tcp " POD ":40000 > 240.1.1.2:80", "tcp 240.1.1.2:40000 > " POD ":80", \
		"tcp " POD ":80 > 240.1.1.2:40000", "tcp 240.1.1.2:80 > " POD ":40000"
#define UDP                                                                     \
	"udp " POD ":40000 > 240.1.1.2:53", "udp 240.1.1.2:40000 > " POD ":53", \
		"udp " POD ":53 > 240.1.1.2:40000", "udp 240.1.1.2:53 > " POD ":40000"
#define SCTP                                                                    \
	"sctp " POD ":40000 > 240.1.1.2:9", "sctp 240.1.1.2:40000 > " POD ":9", \
		"sctp " POD ":9 > 240.1.1.2:40000", "sctp 240.1.1.2:9 > " POD ":40000"
#define PING                                                                                      \
	"icmp " POD " > 240.1.1.2 9", "icmp 240.1.1.2 > " POD " 9", "icmp " POD " > 240.1.1.2 9", \
		"icmp 240.1.1.2 > " POD " 9"
	{ "TCP", TCP, { 0 }, { .tcp_flags = SYN | ACK } },
	{ "UDP", UDP, { .payload_bytes = 30 }, { .payload_bytes = 9 } },
	{ "SCTP", SCTP, { 0 }, { .sctp_chunk = SCTP_INIT_ACK } },
	{ "a ping", PING, { 0 }, { .echo_reply = true } },
};

/* Send @frame to pod @name's cluster and on to its pod. */
static struct frame cross(const char *name, struct frame frame, const char *arrives)
{
	frame = fixture_expect(name, MK_HOOK_POD, &frame, TO_CLUSTER, NULL);
	frame = peers_received(&frame, PEER_EAST);
	return fixture_expect(name, MK_HOOK_CLUSTER, &frame, TO_POD, arrives);
}

/* Both pods have the same home address, and both see the other one by the same view. */
START_TEST(test_two_clusters)
{
	struct frame in = frame_make(flows[_i].flow, &flows[_i].options), out;

	peers_reset();
	out = cross(flows[_i].name, in, flows[_i].arrives);
	ck_assert_uint_eq(frame_ttl(&out), 62);
	in = frame_make(flows[_i].answer, &flows[_i].answer_options);
	cross(flows[_i].name, in, flows[_i].arrives_back);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* West gives no access to east, but its pod opens the flow. The tables change with the cluster. */
START_TEST(test_one_way_access)
{
	struct frame in = frame_make(flows[_i].flow, &flows[_i].options), out;

	peers_reset();
	peers_set_flags(PEER_EAST, 0); /* west */
	out = fixture_expect(flows[_i].name, MK_HOOK_POD, &in, TO_CLUSTER, NULL);
	fixture_empty("sessions");
	fixture_empty("sessions_young");
	peers_set_flags(PEER_EAST, MK_CLUSTER_ACCESS_PODS); /* east */
	out = peers_received(&out, PEER_EAST);
	fixture_expect(flows[_i].name, MK_HOOK_CLUSTER, &out, TO_POD, flows[_i].arrives);
	in = frame_make(flows[_i].answer, &flows[_i].answer_options);
	out = fixture_expect(flows[_i].name, MK_HOOK_POD, &in, TO_CLUSTER, NULL);
	peers_set_flags(PEER_EAST, 0); /* west, where the flow was opened */
	in = frame_make(flows[_i].flow, &flows[_i].options);
	fixture_expect(flows[_i].name, MK_HOOK_POD, &in, TO_CLUSTER, NULL);
	out = peers_received(&out, PEER_EAST);
	fixture_expect(flows[_i].name, MK_HOOK_CLUSTER, &out, TO_POD, flows[_i].arrives_back);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* West reaches far by the hub, and the answer comes the same way. Here the hub is east, and far has
 * a row for west like that for PEER_FAR. */
START_TEST(test_three_clusters)
{
	static const struct frame_options data = { .payload_bytes = 30 };
	struct frame in = frame_make("udp " POD ":40000 > 240.3.1.2:53", &data), out;

	for (int back = 0; back < 2; back++) {
		peers_reset();
		if (back)
			in = frame_make("udp " POD ":53 > 240.3.1.2:40000", &data);
		out = fixture_expect("sent", MK_HOOK_POD, &in, TO_CLUSTER, NULL);
		ck_assert_uint_eq(mk_cluster_number_at(out.byte + 1), PEER_FAR);
		/* at the hub, west has the number of north */
		peers_mark(&out, PEER_NORTH, PEER_EAST);
		peers_set_flags(PEER_NORTH, MK_CLUSTER_RELAYED);
		peers_set_flags(PEER_EAST, MK_CLUSTER_RELAYED);
		out = fixture_expect("relayed", MK_HOOK_CLUSTER, &out, TO_CLUSTER,
				     back ? "udp " POD ":53 > " POD ":40000"
					  : "udp " POD ":40000 > " POD ":53");
		ck_assert_str_eq(peers_shown(&out), "11259375 > 200 hop 1");
		peers_mark(&out, PEER_FAR, FIXTURE_CLUSTER);
		out = fixture_expect("received", MK_HOOK_CLUSTER, &out, TO_POD,
				     back ? "udp 240.3.1.2:53 > " POD ":40000"
					  : "udp 240.3.1.2:40000 > " POD ":53");
		ck_assert_uint_eq(frame_ttl(&out), 61);
		ck_assert_uint_eq(fixture_drops_total(), 0);
	}
}
END_TEST

/* An error that a hub has made about a pod's packet comes to the pod, which knows the views. */
START_TEST(test_error_of_hub)
{
	static const struct frame_options dies = { .payload_bytes = 30, .ttl = 2 };
	struct frame in = frame_make("udp " POD ":40000 > 240.3.1.2:53", &dies), out;

	peers_reset();
	out = fixture_expect("sent", MK_HOOK_POD, &in, TO_CLUSTER, NULL);
	peers_set_flags(PEER_NORTH, MK_CLUSTER_RELAYED);
	peers_set_flags(PEER_EAST, MK_CLUSTER_RELAYED);
	peers_mark(&out, PEER_NORTH, PEER_EAST);
	out = fixture_expect("expired at the hub", MK_HOOK_CLUSTER, &out, TO_CLUSTER, NULL);
	ck_assert_str_eq(peers_shown(&out), "200 > 11259375 hop 7");
	peers_mark(&out, PEER_FAR, FIXTURE_CLUSTER);
	fixture_expect("told", MK_HOOK_CLUSTER, &out, TO_POD,
		       "icmp-error 240.3.1.2 > " POD " 11/0 [udp " POD ":40000 > 240.3.1.2:53]");
}
END_TEST

/* ---- probes ---------------------------------------------------------------------------------- */

static struct frame padded(const char *flow, uint32_t magic, uint16_t payload_bytes)
{
	return frame_probe(flow, magic,
			   &(struct frame_options){ .payload_bytes = payload_bytes,
						    .fragment = DF });
}

static struct frame probe(const char *flow, uint32_t magic)
{
	return padded(flow, magic, sizeof(struct mk_probe_packet));
}

#define VPOD   "10.244.1.1"
#define PROBE  "udp 10.244.2.1:40000 > " VPOD ":7"
#define ANSWER "udp " VPOD ":7 > 10.244.2.1:40000"

/* Also a cluster that may open nothing gets an answer: by the node that has sent the probe. */
START_TEST(test_probe)
{
	static const uint32_t from[] = { PEER_EAST, PEER_NORTH, PEER_FAR };
	static const char *const shown[] = { "100 > 200 hop 2", "100 > 11259375 hop 7", NULL };
	struct frame in = probe(PROBE, MK_PROBE_MAGIC), out;

	peers_reset();
	peers_mark(&in, from[_i], FIXTURE_CLUSTER);
	out = fixture_expect("answered", MK_HOOK_CLUSTER, &in, TO_CLUSTER, ANSWER);
	if (shown[_i])
		ck_assert_str_eq(peers_shown(&out), shown[_i]);
	ck_assert_uint_eq(mk_cluster_number_at(out.byte + 1), from[_i]);
	ck_assert_uint_eq(out.length, in.length);
	ck_assert_mem_eq(out.byte + out.length - sizeof(struct mk_probe_packet),
			 in.byte + in.length - sizeof(struct mk_probe_packet),
			 sizeof(struct mk_probe_packet));
	ck_assert_uint_eq(fixture_count("sessions") + fixture_count("sessions_young"), 0);
	ck_assert_uint_eq(peers_packets(from[_i], 0), 1);
	ck_assert_uint_eq(peers_packets(from[_i], 1), 1);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

static const struct {
	const char *name, *flow;
	uint32_t from, magic;
	enum mk_drop_reason reason;
} no_probes[] = {
	{ "another port", "udp 10.244.2.1:40000 > " VPOD ":8", PEER_EAST, MK_PROBE_MAGIC,
	  MK_DROP_PEER_DENIED },
	{ "the gateway", "udp 10.244.2.1:40000 > 10.244.1.254:7", PEER_EAST, MK_PROBE_MAGIC,
	  MK_DROP_PEER_DENIED },
	{ "another payload", PROBE, PEER_EAST, 1, MK_DROP_PEER_DENIED },
	{ "an answer to nothing, from port 7", "udp 10.244.2.1:7 > " VPOD ":7", PEER_EAST,
	  MK_PROBE_MAGIC, MK_DROP_PEER_DENIED },
	{ "a cluster that is unknown", PROBE, 77, MK_PROBE_MAGIC, MK_DROP_PEER_UNKNOWN },
	{ "a source of no pod", "udp 192.168.99.60:40000 > " VPOD ":7", PEER_EAST, MK_PROBE_MAGIC,
	  MK_DROP_PEER_SOURCE },
	{ "a node of the cluster is not known", PROBE, 78, MK_PROBE_MAGIC, MK_DROP_PEER_NO_NODE },
};

START_TEST(test_no_probe)
{
	struct frame in = probe(no_probes[_i].flow, no_probes[_i].magic);
	struct mk_cluster row;

	peers_reset();
	row = peers_get(PEER_NORTH);
	row.via = 78;
	row.hop_count = 0;
	peers_put(78, &row);
	peers_mark(&in, no_probes[_i].from, FIXTURE_CLUSTER);
	peers_expect_drop(no_probes[_i].name, MK_HOOK_CLUSTER, &in, no_probes[_i].reason);
}
END_TEST

/* Longer probes find the largest packet that passes. Their answers are as long. */
START_TEST(test_padded_probe)
{
	struct frame in = padded(PROBE, MK_PROBE_MAGIC, 1300), out;

	peers_reset();
	peers_mark(&in, PEER_EAST, FIXTURE_CLUSTER);
	out = fixture_expect("answered", MK_HOOK_CLUSTER, &in, TO_CLUSTER, ANSWER);
	ck_assert_uint_eq(out.length, in.length);
}
END_TEST

#define OWN_PROBE "udp 10.18.0.1:40000 > 240.1.2.1:7"

/* This node's probe is sent, although no other packet of its size is. */
START_TEST(test_padded_probe_is_sent)
{
	struct frame out = padded(OWN_PROBE, MK_PROBE_MAGIC, 1380);
	struct mk_cluster row;

	peers_reset();
	row = peers_get(PEER_EAST);
	row.mtu_bytes = 1300;
	peers_put(PEER_EAST, &row);
	fixture_expect("sent", MK_HOOK_HOST, &out, TO_CLUSTER, "udp " VPOD ":40000 > 10.244.2.1:7");
	out = padded("udp 10.18.0.1:40000 > 240.1.2.1:8", MK_PROBE_MAGIC, 1380);
	fixture_expect("of the host, and no probe", MK_HOOK_HOST, &out, TO_HOST, NULL);
	out = padded("udp 10.244.1.2:40000 > 240.1.2.1:7", MK_PROBE_MAGIC, 1380);
	fixture_expect("of a pod", MK_HOOK_POD, &out, TO_POD, NULL);
}
END_TEST

START_TEST(test_probe_too_short)
{
	const struct frame_options options = { .payload_bytes =
						       sizeof(struct mk_probe_packet) - 2 };
	struct frame in = peers_frame(PEER_EAST, FIXTURE_CLUSTER, PROBE, &options);
	const uint32_t magic = htonl(MK_PROBE_MAGIC);

	peers_reset();
	memcpy(in.byte + in.length - options.payload_bytes, &magic, sizeof(magic));
	peers_expect_drop("too short", MK_HOOK_CLUSTER, &in, MK_DROP_PEER_DENIED);
}
END_TEST

/* ---- border nodes ---------------------------------------------------------------------------- */

static void start_inner(void)
{
	peers_reset();
	peers_by_border();
}

static const struct {
	const char *name, *flow;
	struct frame_options options;
	enum mk_hook hook;
	enum where where;
	const char *seen;
} border_rows[] = {
	{ "TCP of a pod, to a border node",
	  "tcp " POD ":40000 > 240.1.1.7:80",
	  { 0 },
	  MK_HOOK_POD,
	  TO_OVERLAY,
	  "tcp " POD ":40000 > 240.1.1.7:80" },
	{ "UDP",
	  "udp " POD ":40000 > 240.1.2.7:53",
	  { .payload_bytes = 20 },
	  MK_HOOK_POD,
	  TO_OVERLAY,
	  "udp " POD ":40000 > 240.1.2.7:53" },
	{ "a ping",
	  "icmp " POD " > 240.1.2.7 9",
	  { 0 },
	  MK_HOOK_POD,
	  TO_OVERLAY,
	  "icmp " POD " > 240.1.2.7 9" },
	{ "to a cluster that may open nothing here",
	  "tcp " POD ":40000 > 240.2.1.7:80",
	  { 0 },
	  MK_HOOK_POD,
	  TO_OVERLAY,
	  "tcp " POD ":40000 > 240.2.1.7:80" },
	{ "another node's packet leaves here",
	  "tcp 10.244.2.7:40000 > 240.1.1.7:80",
	  { 0 },
	  MK_HOOK_OVERLAY,
	  TO_CLUSTER,
	  "tcp 10.244.2.7:40000 > 10.244.1.7:80" },
};

START_TEST(test_by_border)
{
	struct frame in = frame_make(border_rows[_i].flow, &border_rows[_i].options), out;
	uint8_t mac[6];

	start_inner();
	out = fixture_expect(border_rows[_i].name, border_rows[_i].hook, &in, border_rows[_i].where,
			     border_rows[_i].seen);
	ck_assert_uint_eq(frame_ttl(&out), 63);
	if (border_rows[_i].where == TO_OVERLAY) {
		fixture_mac("10.18.0.2", mac);
		ck_assert_mem_eq(out.byte, mac, sizeof(mac));
		ck_assert_uint_eq(peers_packets(PEER_EAST, 0), 0);
	}
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* The same packets at a border node, which keeps no state. */
START_TEST(test_at_border)
{
	struct frame in = frame_make("tcp 10.244.2.7:40000 > 240.2.1.7:80", NULL);
	struct frame back =
		peers_frame(PEER_NORTH, FIXTURE_CLUSTER, "tcp 10.244.1.7:80 > 10.244.2.7:40000",
			    &(struct frame_options){ .tcp_flags = SYN | ACK });

	peers_reset();
	fixture_expect("out", MK_HOOK_OVERLAY, &in, TO_CLUSTER,
		       "tcp 10.244.2.7:40000 > 10.244.1.7:80");
	fixture_expect("in", MK_HOOK_CLUSTER, &back, TO_OVERLAY,
		       "tcp 240.2.1.7:80 > 10.244.2.7:40000");
	ck_assert_uint_eq(fixture_count("sessions") + fixture_count("sessions_young"), 0);
}
END_TEST

/* The pod's own node has the session, so the answer comes in, and nothing else. */
START_TEST(test_session_behind_border)
{
	struct frame out = frame_make("tcp " POD ":40000 > 240.2.1.7:80", NULL);
	struct frame in = frame_make("tcp 240.2.1.7:80 > " POD ":40000",
				     &(struct frame_options){ .tcp_flags = SYN | ACK });

	start_inner();
	peers_expect_drop("an answer to nothing", MK_HOOK_OVERLAY, &in, MK_DROP_PEER_DENIED);
	fixture_expect("a flow", MK_HOOK_POD, &out, TO_OVERLAY, NULL);
	fixture_expect("its answer", MK_HOOK_OVERLAY, &in, TO_POD, NULL);
}
END_TEST

/* A host's flow has the virtual pod address, and its answer goes to the host. */
START_TEST(test_host_behind_border)
{
	struct frame in = frame_make("udp 10.18.0.1:40000 > 240.1.1.7:53",
				     &(struct frame_options){ .payload_bytes = 20 }),
		     back = frame_make("udp 240.1.1.7:53 > " VPOD ":40000",
				       &(struct frame_options){ .payload_bytes = 20 });

	start_inner();
	fixture_expect("a host's flow", MK_HOOK_HOST, &in, TO_OVERLAY,
		       "udp " VPOD ":40000 > 240.1.1.7:53");
	fixture_expect("its answer", MK_HOOK_OVERLAY, &back, TO_HOST, NULL);
}
END_TEST

START_TEST(test_no_border)
{
	const struct mk_cluster_node_key key = { FIXTURE_CLUSTER, MK_CLUSTER_BY_INDEX };
	struct frame in = frame_make("tcp " POD ":40000 > 240.1.1.7:80", NULL);

	start_inner();
	ck_assert_int_eq(bpf_map_delete_elem(fixture_map("cluster_nodes"), &key), 0);
	peers_expect_drop("no border node", MK_HOOK_POD, &in, MK_DROP_PEER_NO_NODE);
}
END_TEST

START_TEST(test_too_big_for_border)
{
	const struct frame_options longer = { .packet_bytes = 1451, .fragment = DF };
	struct frame in = frame_make("udp " POD ":40000 > 240.1.1.7:53", &longer), out;

	start_inner();
	out = fixture_expect("too big", MK_HOOK_POD, &in, TO_POD,
			     "icmp-error 10.244.1.254 > " POD " 3/4 [udp " POD
			     ":40000 > 240.1.1.7:53]");
	ck_assert_uint_eq(frame_icmp_mtu(&out), 1450);
}
END_TEST

/* A client outside of a NodePort sends an error. The border node gives it the address of the packet
 * that it quotes, because the other cluster knows no other one. So does a former border node. */
START_TEST(test_error_by_border)
{
	struct frame quoted = frame_make("udp 240.1.1.7:53 > 10.244.2.1:40000",
					 &(struct frame_options){ .payload_bytes = 20 });
	struct frame in = frame_make(
		"icmp 192.168.99.60 > 240.1.1.7",
		&(struct frame_options){ .icmp_type = 3, .icmp_code = 3, .quote = &quoted });

	if (_i)
		start_inner();
	else
		peers_reset();
	fixture_expect("at the border node", MK_HOOK_OVERLAY, &in, TO_CLUSTER,
		       "icmp-error 10.244.2.1 > 10.244.1.7 3/3 [udp 10.244.1.7:53 > "
		       "10.244.2.1:40000]");
}
END_TEST

#define BORDER_PROBE "udp 10.18.0.2:40000 > " VPOD ":7"

static const struct {
	const char *name, *flow;
	uint32_t magic;
} no_border_probes[] = {
	{ "another address of no pod", "udp 10.18.0.2:40000 > 10.244.1.255:7", MK_PROBE_MAGIC },
	{ "the pods' network address", "udp 10.18.0.2:40000 > 10.244.1.0:7", MK_PROBE_MAGIC },
	{ "a pod's, at another node", "udp 10.244.2.7:40000 > " VPOD ":7", MK_PROBE_MAGIC },
	{ "another port", "udp 10.18.0.2:40000 > " VPOD ":8", MK_PROBE_MAGIC },
	{ "another payload", BORDER_PROBE, 1 },
	{ "from port 7", "udp 10.18.0.2:7 > " VPOD ":7", MK_PROBE_MAGIC },
};

START_TEST(test_probe_of_border)
{
	struct frame in = probe(BORDER_PROBE, MK_PROBE_MAGIC), out;

	peers_reset();
	out = fixture_expect("answered", MK_HOOK_OVERLAY, &in, TO_OVERLAY,
			     "udp " VPOD ":7 > 10.18.0.2:40000");
	ck_assert_uint_eq(out.length, in.length);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

START_TEST(test_no_probe_of_border)
{
	struct frame in = probe(no_border_probes[_i].flow, no_border_probes[_i].magic);

	peers_reset();
	fixture_expect(no_border_probes[_i].name, MK_HOOK_OVERLAY, &in, TO_OVERLAY, NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_OVERLAY, MK_DROP_NO_POD), 1);
}
END_TEST

/* Node 2 of a cluster behind a hub asks; whether it is reached directly is not known. The answer
 * goes to it and not to the hub, so both ways are those between the nodes. */
START_TEST(test_answer_goes_straight)
{
	struct frame in = probe(PROBE, MK_PROBE_MAGIC), out;
	struct mk_cluster row;

	peers_reset();
	row = peers_get(PEER_FAR);
	row.host_bits = peers_get(PEER_EAST).host_bits;
	peers_put(PEER_FAR, &row);
	peers_put_node(PEER_FAR, 2, 9 | MK_CLUSTER_HOP_TRIAL);
	peers_mark(&in, PEER_FAR, FIXTURE_CLUSTER);
	out = fixture_expect("its answer", MK_HOOK_CLUSTER, &in, TO_CLUSTER, NULL);
	ck_assert_str_eq(peers_shown(&out), "100 > 300 hop 9");
}
END_TEST

/* The agent sends a probe of east by hub north, as any process of the host does. The far node
 * answers, and the hub passes on both. */
START_TEST(test_probe_and_answer)
{
	struct frame out = probe("udp 10.18.0.1:40000 > 240.3.2.1:7", MK_PROBE_MAGIC);

	peers_reset();
	out = fixture_expect("sent", MK_HOOK_HOST, &out, TO_CLUSTER,
			     "udp " VPOD ":40000 > 10.244.2.1:7");
	ck_assert_uint_eq(mk_cluster_number_at(out.byte + 1), PEER_FAR);
	peers_set_flags(PEER_NORTH, MK_CLUSTER_RELAYED);
	peers_set_flags(PEER_EAST, MK_CLUSTER_RELAYED);
	peers_mark(&out, PEER_NORTH, PEER_EAST);
	out = fixture_expect("relayed", MK_HOOK_CLUSTER, &out, TO_CLUSTER,
			     "udp " VPOD ":40000 > 10.244.2.1:7");
	ck_assert_str_eq(peers_shown(&out), "11259375 > 200 hop 2");
	out = probe("udp 10.244.2.1:7 > " VPOD ":40000", MK_PROBE_MAGIC);
	peers_mark(&out, PEER_FAR, FIXTURE_CLUSTER);
	fixture_expect("its answer", MK_HOOK_CLUSTER, &out, TO_HOST, NULL);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* ---- carriers at the uplink ------------------------------------------------------------------ */

#define VXLAN_BYTES 8

static struct frame carrier(const char *outer, uint32_t vni, const struct frame *inner,
			    uint16_t fragment)
{
	const struct frame_options with = { .payload_bytes =
						    (uint16_t)(VXLAN_BYTES + inner->length),
					    .fragment = fragment };
	const uint8_t header[VXLAN_BYTES] = { 0x08, [6] = (uint8_t)vni };
	struct frame frame = frame_make(outer, &with);
	uint8_t *at = frame.byte + frame.length - with.payload_bytes;

	memcpy(at, header, sizeof(header));
	memcpy(at + sizeof(header), inner->byte, inner->length);
	return frame;
}

#define EAST_NODE   "192.168.99.60"
#define NORTH_NODE  "192.168.99.70"
#define FAR_NODE    "192.168.99.80"
#define SECRET_NODE "192.168.99.90" /* its packets come by WireGuard */
#define OWN_NODE    "192.168.99.12"
#define OUTER(node) "udp " node ":40000 > 192.168.99.11:4789"

static const struct {
	const char *name, *outer;
	uint32_t from, vni;
	uint16_t fragment;
	enum where where;
} carriers[] = {
	{ "of a node of the cluster", OUTER(EAST_NODE), PEER_EAST, MK_CLUSTER_VNI, 0, TO_HOST },
	{ ".. a first fragment", OUTER(EAST_NODE), PEER_EAST, MK_CLUSTER_VNI, MF, TO_HOST },
	{ ".. of a cluster that it relays", OUTER(EAST_NODE), PEER_FAR, MK_CLUSTER_VNI, 0,
	  TO_HOST },
	{ ".. of a cluster that is reached directly", OUTER(EAST_NODE), PEER_NORTH, MK_CLUSTER_VNI,
	  0, DROPPED },
	{ ".. a first fragment", OUTER(EAST_NODE), PEER_NORTH, MK_CLUSTER_VNI, MF, DROPPED },
	{ ".. of a cluster that is unknown", OUTER(EAST_NODE), 77, MK_CLUSTER_VNI, 0, DROPPED },
	{ ".. of this cluster", OUTER(EAST_NODE), FIXTURE_CLUSTER, MK_CLUSTER_VNI, 0, DROPPED },
	{ ".. by the overlay", OUTER(EAST_NODE), PEER_EAST, MK_VXLAN_VNI, 0, DROPPED },
	{ ".. by the device of chains", OUTER(EAST_NODE), PEER_EAST, MK_SFC_VNI, 0, DROPPED },
	{ "of a node of another cluster", OUTER(NORTH_NODE), PEER_FAR, MK_CLUSTER_VNI, 0, DROPPED },
	{ "of its own node, beside the hub", OUTER(FAR_NODE), PEER_FAR, MK_CLUSTER_VNI, 0,
	  TO_HOST },
	{ ".. of the hub's cluster", OUTER(FAR_NODE), PEER_EAST, MK_CLUSTER_VNI, 0, DROPPED },
	{ ".. of another cluster", OUTER(FAR_NODE), PEER_NORTH, MK_CLUSTER_VNI, 0, DROPPED },
	{ "of a stranger", OUTER("192.168.99.200"), PEER_EAST, MK_CLUSTER_VNI, 0, DROPPED },
	{ "of a node that encrypts, in the clear", OUTER(SECRET_NODE), PEER_NORTH, MK_CLUSTER_VNI,
	  0, DROPPED },
	{ ".. a first fragment", OUTER(SECRET_NODE), PEER_NORTH, MK_CLUSTER_VNI, MF, DROPPED },
	{ ".. by the device of WireGuard", OUTER(SECRET_NODE), PEER_NORTH, MK_CLUSTER_WG_VNI, 0,
	  DROPPED },
	{ "of a plain node, by the device of WireGuard", OUTER(EAST_NODE), PEER_EAST,
	  MK_CLUSTER_WG_VNI, 0, DROPPED },
	{ "of a node of this cluster", OUTER(OWN_NODE), PEER_EAST, MK_CLUSTER_VNI, 0, DROPPED },
};

/* IPv6's first fragments have a multiple of 8 bytes. */
static struct frame carrier_of_row(int row)
{
	struct frame inner =
		peers_frame(carriers[row].from, FIXTURE_CLUSTER, "udp 10.244.1.7:4 > " POD ":53",
			    &(struct frame_options){ .payload_bytes = 18 });

	return carrier(carriers[row].outer, carriers[row].vni, &inner, carriers[row].fragment);
}

static void start_carriers(void)
{
	peers_reset();
	peers_put_carrier(EAST_NODE, PEER_EAST);
	peers_put_carrier(NORTH_NODE, PEER_NORTH);
	peers_put_carrier(FAR_NODE, PEER_FAR);
	peers_put_carrier(SECRET_NODE, PEER_NORTH | MK_CLUSTER_CARRIER_ENCRYPTED);
	fixture_peer_address(OWN_NODE, "10.18.0.2");
}

START_TEST(test_carriers)
{
	struct frame in = carrier_of_row(_i), out;
	bool dropped = carriers[_i].where == DROPPED;

	start_carriers();
	ck_assert_msg(fixture_send(MK_HOOK_UPLINK, &in, &out) == carriers[_i].where, "%s",
		      carriers[_i].name);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_OVERLAY_STRANGER), dropped);
	ck_assert_uint_eq(fixture_drops_total(), dropped);
}
END_TEST

/* Until the agent has read all Nodes, any host may send as a node, but not as another cluster. */
START_TEST(test_carriers_before_nodes_are_known)
{
	const struct mk_runtime unknown = { 0 };

	for (int row = 0; row < ROWS(carriers); row++) {
		struct frame in = carrier_of_row(row), out;
		enum where where = carriers[row].vni == MK_CLUSTER_VNI ||
						   carriers[row].vni == MK_CLUSTER_WG_VNI
					   ? carriers[row].where
					   : TO_HOST;

		start_carriers();
		fixture_runtime(&unknown);
		ck_assert_msg(fixture_send(MK_HOOK_UPLINK, &in, &out) == where, "%s",
			      carriers[row].name);
	}
}
END_TEST

/* ---- WireGuard ------------------------------------------------------------------------------- */

/* A carrier between nodes, whose addresses are of IPv4 in both families. */
static struct frame carrier_of_ipv4(const char *outer, uint32_t vni, uint32_t from,
				    uint16_t fragment)
{
	sa_family_t before = family();
	struct frame inner, frame;

	inner = peers_frame(from, FIXTURE_CLUSTER, "udp 10.244.1.7:4 > " POD ":53",
			    &(struct frame_options){ .payload_bytes = 18 });
	family_use(AF_INET);
	frame = carrier(outer, vni, &inner, fragment);
	family_use(before);
	return frame;
}

#define FROM_HERE "udp 192.168.99.11:40000 > " SECRET_NODE ":4789"

static const struct {
	const char *name, *outer;
	uint32_t vni;
	uint16_t fragment;
	enum where where;
} leaving[] = {
	{ "a carrier of WireGuard", FROM_HERE, MK_CLUSTER_WG_VNI, 0, DROPPED },
	{ ".. a first fragment", FROM_HERE, MK_CLUSTER_WG_VNI, MF, DROPPED },
	{ ".. of another host, forwarded", OUTER(SECRET_NODE), MK_CLUSTER_WG_VNI, 0, DROPPED },
	{ "a plain carrier to a cluster", FROM_HERE, MK_CLUSTER_VNI, 0, TO_HOST },
	{ "a carrier of the overlay", FROM_HERE, MK_VXLAN_VNI, 0, TO_HOST },
	{ "UDP to another port", "udp 192.168.99.11:40000 > " SECRET_NODE ":4790",
	  MK_CLUSTER_WG_VNI, 0, TO_HOST },
};

/* Whatever the routes and the FDB say: no carrier of WireGuard leaves in the clear. */
START_TEST(test_leaves_clear)
{
	struct frame out, in = carrier_of_ipv4(leaving[_i].outer, leaving[_i].vni, PEER_NORTH,
					       leaving[_i].fragment);

	start_carriers();
	if (leaving[_i].where == DROPPED) {
		peers_expect_drop(leaving[_i].name, MK_HOOK_UPLINK_EGRESS, &in, MK_DROP_PEER_CLEAR);
		return;
	}
	ck_assert_msg(fixture_send(MK_HOOK_UPLINK_EGRESS, &in, &out) == leaving[_i].where, "%s",
		      leaving[_i].name);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

static const struct {
	const char *name, *outer;
	uint32_t vni, from;
	uint16_t fragment;
	bool passes;
} tunnelled[] = {
	{ "a node that encrypts", OUTER(SECRET_NODE), MK_CLUSTER_WG_VNI, PEER_NORTH, 0, true },
	{ ".. a fragment", OUTER(SECRET_NODE), MK_CLUSTER_WG_VNI, PEER_NORTH, MF, false },
	{ ".. as another cluster", OUTER(SECRET_NODE), MK_CLUSTER_WG_VNI, PEER_EAST, 0, false },
	{ ".. by the overlay", OUTER(SECRET_NODE), MK_VXLAN_VNI, PEER_NORTH, 0, false },
	{ ".. by the plain device", OUTER(SECRET_NODE), MK_CLUSTER_VNI, PEER_NORTH, 0, false },
	{ ".. to another port", "udp " SECRET_NODE ":40000 > 192.168.99.11:22", MK_CLUSTER_WG_VNI,
	  PEER_NORTH, 0, false },
	{ ".. by TCP", "tcp " SECRET_NODE ":40000 > 192.168.99.11:4789", MK_CLUSTER_WG_VNI,
	  PEER_NORTH, 0, false },
	{ "a plain node", OUTER(EAST_NODE), MK_CLUSTER_WG_VNI, PEER_EAST, 0, false },
	{ "a stranger", OUTER("192.168.99.200"), MK_CLUSTER_WG_VNI, PEER_NORTH, 0, false },
};

/* Packets that WireGuard has decrypted. They have no Ethernet header, and the program needs none. */
START_TEST(test_wireguard_in)
{
	struct frame in = carrier_of_ipv4(tunnelled[_i].outer, tunnelled[_i].vni,
					  tunnelled[_i].from, tunnelled[_i].fragment);
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = in.byte, .data_size_in = (__u32)in.length,
		    .repeat = 1);

	start_carriers();
	peers_put_far_carrier(EAST_NODE, PEER_EAST);
	peers_put_far_carrier(SECRET_NODE, PEER_NORTH | MK_CLUSTER_CARRIER_ENCRYPTED);
	ck_assert_int_eq(bpf_prog_test_run_opts(fixture_program("wireguard_in"), &opts), 0);
	ck_assert_msg(opts.retval == (tunnelled[_i].passes ? (__u32)TC_ACT_UNSPEC : TC_ACT_SHOT),
		      "%s: verdict %u", tunnelled[_i].name, opts.retval);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_OVERLAY_STRANGER),
			  !tunnelled[_i].passes);
}
END_TEST

/* A node without other clusters: VNI 3 is another program's. */
START_TEST(test_carriers_without_clusters)
{
	struct frame in = carrier_of_row(ROWS(carriers) - 2), out;

	fixture_peer_address(OWN_NODE, "10.18.0.2");
	ck_assert_int_eq(fixture_send(MK_HOOK_UPLINK, &in, &out), TO_HOST);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

BPF_SUITE("flows between clusters")
{
	TCase *tcase = bpf_case_after(suite, "clusters", fixture_clusters, NULL);

	tcase_add_loop_test(tcase, test_two_clusters, 0, ROWS(flows));
	tcase_add_loop_test(tcase, test_one_way_access, 0, ROWS(flows));
	tcase_add_test(tcase, test_three_clusters);
	tcase_add_test(tcase, test_error_of_hub);
	tcase_add_loop_test(tcase, test_probe, 0, 3);
	tcase_add_loop_test(tcase, test_no_probe, 0, ROWS(no_probes));
	tcase_add_test(tcase, test_padded_probe);
	tcase_add_test(tcase, test_padded_probe_is_sent);
	tcase_add_test(tcase, test_probe_too_short);
	tcase_add_loop_test(tcase, test_by_border, 0, ROWS(border_rows));
	tcase_add_test(tcase, test_at_border);
	tcase_add_test(tcase, test_session_behind_border);
	tcase_add_test(tcase, test_host_behind_border);
	tcase_add_test(tcase, test_no_border);
	tcase_add_test(tcase, test_too_big_for_border);
	tcase_add_loop_test(tcase, test_error_by_border, 0, 2);
	tcase_add_test(tcase, test_probe_of_border);
	tcase_add_loop_test(tcase, test_no_probe_of_border, 0, ROWS(no_border_probes));
	tcase_add_test(tcase, test_probe_and_answer);
	tcase_add_test(tcase, test_answer_goes_straight);
	tcase_add_loop_test(tcase, test_carriers, 0, ROWS(carriers));
	tcase_add_test(tcase, test_carriers_before_nodes_are_known);
	tcase_add_loop_test(tcase, test_leaves_clear, 0, ROWS(leaving));
	tcase_add_loop_test(tcase, test_wireguard_in, 0, ROWS(tunnelled));

	tcase = bpf_case(suite, "no clusters");
	tcase_add_test(tcase, test_carriers_without_clusters);
}
