// SPDX-License-Identifier: Apache-2.0
/* Pods of other clusters as backends of Services, and as what processes of this host ask. What a
 * cluster with access Exports may reach. */
#include <stdio.h>

#include "bpf/peers.h"
#include "bpf/pieces.h"
#include "bpf/policy.h"
#include "bpf/run.h"

#define POD    "10.244.1.2"
#define THERE  "10.244.1.7" /* a pod of another cluster */
#define VPOD   "10.244.1.1" /* the virtual pod address of this node */
#define HOST   "10.18.0.1" /* this host's source towards pods */
#define NODE   "192.168.99.11"
#define CLIENT "203.0.113.10" /* outside */

#define ANSWERS                        \
	{                              \
		.tcp_flags = SYN | ACK \
	}
#define REPLY                      \
	{                          \
		.echo_reply = true \
	}

/* ---- hosts ----------------------------------------------------------------------------------- */

static const struct {
	const char *name, *flow, *sent, *answer, *seen;
	struct frame_options answer_options;
} host_rows[] = {
	{ "TCP", "tcp " HOST ":40000 > 240.1.1.7:80", "tcp " VPOD ":40000 > " THERE ":80",
	  "tcp " THERE ":80 > " VPOD ":40000", "tcp 240.1.1.7:80 > " HOST ":40000", ANSWERS },
	{ "UDP",
	  "udp " HOST ":40000 > 240.1.1.7:53",
	  "udp " VPOD ":40000 > " THERE ":53",
	  "udp " THERE ":53 > " VPOD ":40000",
	  "udp 240.1.1.7:53 > " HOST ":40000",
	  { 0 } },
	{ "SCTP",
	  "sctp " HOST ":40000 > 240.1.1.7:9",
	  "sctp " VPOD ":40000 > " THERE ":9",
	  "sctp " THERE ":9 > " VPOD ":40000",
	  "sctp 240.1.1.7:9 > " HOST ":40000",
	  { .sctp_chunk = SCTP_INIT_ACK } },
	{ "a ping", "icmp " HOST " > 240.1.1.7 40000", "icmp " VPOD " > " THERE " 40000",
	  "icmp " THERE " > " VPOD " 40000", "icmp 240.1.1.7 > " HOST " 40000", REPLY },
	{ "with the node's own address", "tcp " NODE ":40000 > 240.1.1.7:80",
	  "tcp " VPOD ":40000 > " THERE ":80", "tcp " THERE ":80 > " VPOD ":40000",
	  "tcp 240.1.1.7:80 > " NODE ":40000", ANSWERS },
	{ "with the gateway's address", "tcp 10.244.1.254:40000 > 240.1.1.7:80",
	  "tcp " VPOD ":40000 > " THERE ":80", "tcp " THERE ":80 > " VPOD ":40000",
	  "tcp 240.1.1.7:80 > 10.244.1.254:40000", ANSWERS },
	{ "forwarded for another network", "tcp 172.17.0.2:40000 > 240.1.1.7:80",
	  "tcp " VPOD ":40000 > " THERE ":80", "tcp " THERE ":80 > " VPOD ":40000",
	  "tcp 240.1.1.7:80 > 172.17.0.2:40000", ANSWERS },
};

/* The host gets the packet by its veth pair, which its route to the view names. */
static void expect_to_host(const char *name, enum mk_hook hook, const struct frame *in,
			   const char *seen)
{
	struct frame out = fixture_expect(name, hook, in, TO_HOST, seen);

	ck_assert_msg(strcmp(frame_mac_dest(&out), FRAME_GATEWAY_MAC) == 0 &&
			      memcmp(out.byte, out.byte + 6, 6) == 0,
		      "%s: not by the host's veth pair", name);
}

/* With and without access. */
START_TEST(test_host)
{
	struct frame in = frame_make(host_rows[_i].flow, NULL), answer;

	answer = peers_frame(PEER_EAST, FIXTURE_CLUSTER, host_rows[_i].answer,
			     &host_rows[_i].answer_options);
	for (int access = 0; access < 2; access++) {
		peers_reset();
		peers_set_flags(PEER_EAST, access ? MK_CLUSTER_ACCESS_PODS : 0);
		peers_expect_drop("an answer to nothing", MK_HOOK_CLUSTER, &answer,
				  MK_DROP_PEER_DENIED);
		fixture_expect(host_rows[_i].name, MK_HOOK_HOST, &in, TO_CLUSTER,
			       host_rows[_i].sent);
		expect_to_host(host_rows[_i].name, MK_HOOK_CLUSTER, &answer, host_rows[_i].seen);
		fixture_expect("the next packet", MK_HOOK_HOST, &in, TO_CLUSTER,
			       host_rows[_i].sent);
		ck_assert_uint_eq(fixture_drops_total(), 1);
	}
}
END_TEST

START_TEST(test_answer_by_another_node)
{
	struct frame in = frame_make("udp " HOST ":40000 > 240.1.1.7:53", NULL);

	peers_reset();
	fixture_expect("request", MK_HOOK_HOST, &in, TO_CLUSTER, NULL);
	in = frame_make("udp 240.1.1.7:53 > " VPOD ":40000", NULL);
	expect_to_host("where the host is", MK_HOOK_OVERLAY, &in,
		       "udp 240.1.1.7:53 > " HOST ":40000");
	in = peers_frame(PEER_EAST, FIXTURE_CLUSTER, "udp " THERE ":53 > 10.244.2.1:40000", NULL);
	fixture_expect("where it arrives", MK_HOOK_CLUSTER, &in, TO_OVERLAY,
		       "udp 240.1.1.7:53 > 10.244.2.1:40000");
	in = frame_make("udp 240.1.1.7:53 > " VPOD ":40001", NULL);
	peers_expect_drop("of no flow", MK_HOOK_OVERLAY, &in, MK_DROP_PEER_DENIED);
}
END_TEST

/* Two of the host's addresses with one port: the answers must differ. */
START_TEST(test_ports_of_host)
{
	struct frame in = frame_make("tcp " HOST ":40000 > 240.1.1.7:80", NULL), out;

	peers_reset();
	fixture_expect("the first", MK_HOOK_HOST, &in, TO_CLUSTER, host_rows[0].sent);
	in = frame_make("tcp " NODE ":40000 > 240.1.1.7:80", NULL);
	out = fixture_expect("the second", MK_HOOK_HOST, &in, TO_CLUSTER, NULL);
	ck_assert_str_ne(frame_flow(&out), host_rows[0].sent);
	ck_assert(strncmp(frame_flow(&out), "tcp " VPOD ":", strlen("tcp " VPOD ":")) == 0);
}
END_TEST

START_TEST(test_host_without_session)
{
	static const struct frame_options resets = { .tcp_flags = RST }, replies = REPLY;
	struct frame in = frame_make("tcp " HOST ":40000 > 240.1.1.7:80", &resets);

	peers_reset();
	peers_expect_drop("a reset", MK_HOOK_HOST, &in, MK_DROP_PEER_SOURCE);
	in = frame_make("icmp " HOST " > 240.1.1.7 9", &replies);
	peers_expect_drop("an echo reply", MK_HOOK_HOST, &in, MK_DROP_PEER_SOURCE);
	in = frame_make("tcp " HOST ":40000 > 240.7.1.7:80", NULL);
	fixture_drop_range("240.0.0.0", 8);
	peers_expect_drop("a view of no peer", MK_HOOK_HOST, &in, MK_DROP_NO_ROUTE);
	ck_assert_uint_eq(fixture_count("sessions") + fixture_count("sessions_young"), 0);
}
END_TEST

/* Errors about the host's packets, and of the host. */
START_TEST(test_errors_of_host)
{
	struct frame in = frame_make("udp " HOST ":40000 > 240.1.1.7:53", NULL), sent, error;
	struct frame_options about = { .icmp_type = 3, .icmp_code = 3 };

	peers_reset();
	sent = fixture_expect("request", MK_HOOK_HOST, &in, TO_CLUSTER, NULL);
	about.quote = &sent;
	error = frame_make("icmp " THERE " > " VPOD, &about);
	peers_mark(&error, PEER_EAST, FIXTURE_CLUSTER);
	expect_to_host("about it", MK_HOOK_CLUSTER, &error,
		       "icmp-error 240.1.1.7 > " HOST " 3/3 [udp " HOST ":40000 > 240.1.1.7:53]");
	in = frame_make("udp 240.1.1.7:53 > " HOST ":40000", NULL);
	about.quote = &in;
	error = frame_make("icmp " HOST " > 240.1.1.7", &about);
	fixture_expect("of the host", MK_HOOK_HOST, &error, TO_CLUSTER,
		       "icmp-error " VPOD " > " THERE " 3/3 [udp " THERE ":53 > " VPOD ":40000]");
	in = frame_make("udp 240.1.1.7:53 > " HOST ":40001", NULL);
	error = frame_make("icmp " HOST " > 240.1.1.7", &about);
	peers_expect_drop("of the host, about nothing", MK_HOOK_HOST, &error, MK_DROP_PEER_SOURCE);
}
END_TEST

/* Over IPv4 the carrier is fragmented. */
START_TEST(test_host_too_big)
{
	static const struct frame_options longer = { .packet_bytes = 1451, .fragment = DF };
	struct frame in = frame_make("udp " HOST ":40000 > 240.1.1.7:53", &longer), out;

	peers_reset();
	if (!family_is6()) {
		fixture_expect("goes", MK_HOOK_HOST, &in, TO_CLUSTER, NULL);
		return;
	}
	out = fixture_expect("refused", MK_HOOK_HOST, &in, TO_HOST,
			     "icmp-error " VPOD " > " HOST " 3/4 [udp " HOST
			     ":40000 > 240.1.1.7:53]");
	ck_assert_uint_eq(frame_icmp_mtu(&out), 1450);
}
END_TEST

START_TEST(test_fragments_of_host)
{
	static const size_t cuts[] = { 1200, 2400, 0 };
	const struct frame_options options = { .payload_bytes = 3000, .id = 7 };
	struct frame whole = frame_make("udp " HOST ":40000 > 240.1.1.7:53", &options);
	struct pieces in = pieces_cut(&whole, cuts), out;

	peers_reset();
	out = pieces_send("of the host", MK_HOOK_HOST, &in, "012", TO_CLUSTER);
	whole = pieces_join("of the host", &out);
	ck_assert_str_eq(frame_flow(&whole), "udp " VPOD ":40000 > " THERE ":53");
}
END_TEST

/* ---- Services -------------------------------------------------------------------------------- */

static void start_services(void)
{
	static const char *const views[] = { "240.1.1.7:8080", NULL };

	peers_reset();
	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, views, 0, 1);
	fixture_service("udp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, views, 0, 1);
	fixture_vip("10.96.0.10");
	fixture_service("tcp " NODE ":30080", MK_SCOPE_INTERNAL, 0, views, 0, 1);
	fixture_service("tcp " NODE ":30080", MK_SCOPE_EXTERNAL,
			MK_FRONTEND_MASQUERADE | MK_FRONTEND_MAGLEV, views, 0, 1);
}

static const struct {
	const char *name;
	enum mk_hook hook;
	const char *flow, *sent, *answer, *seen;
	enum where where;
} service_rows[] = {
	{ "a pod", MK_HOOK_POD, "tcp " POD ":40000 > 10.96.0.10:80",
	  "tcp " POD ":40000 > " THERE ":8080", "tcp " THERE ":8080 > " POD ":40000",
	  "tcp 10.96.0.10:80 > " POD ":40000", TO_POD },
	{ "a pod, by a NodePort", MK_HOOK_POD, "tcp " POD ":40000 > " NODE ":30080",
	  "tcp " POD ":40000 > " THERE ":8080", "tcp " THERE ":8080 > " POD ":40000",
	  "tcp " NODE ":30080 > " POD ":40000", TO_POD },
	{ "the host", MK_HOOK_HOST, "tcp " HOST ":40000 > 10.96.0.10:80",
	  "tcp " VPOD ":40000 > " THERE ":8080", "tcp " THERE ":8080 > " VPOD ":40000",
	  "tcp 10.96.0.10:80 > " HOST ":40000", TO_HOST },
	{ "the host, with the node's address", MK_HOOK_HOST, "tcp " NODE ":40000 > 10.96.0.10:80",
	  "tcp " VPOD ":40000 > " THERE ":8080", "tcp " THERE ":8080 > " VPOD ":40000",
	  "tcp 10.96.0.10:80 > " NODE ":40000", TO_HOST },
	{ "the host, by its own NodePort", MK_HOOK_HOST, "tcp " NODE ":40000 > " NODE ":30080",
	  "tcp " VPOD ":40000 > " THERE ":8080", "tcp " THERE ":8080 > " VPOD ":40000",
	  "tcp " NODE ":30080 > " NODE ":40000", TO_LOOPBACK },
	{ "forwarded for another network", MK_HOOK_HOST, "tcp 172.17.0.2:40000 > 10.96.0.10:80",
	  "tcp " VPOD ":40000 > " THERE ":8080", "tcp " THERE ":8080 > " VPOD ":40000",
	  "tcp 10.96.0.10:80 > 172.17.0.2:40000", TO_HOST },
	{ "a client outside", MK_HOOK_UPLINK, "tcp " CLIENT ":40000 > " NODE ":30080",
	  "tcp " VPOD ":40000 > " THERE ":8080", "tcp " THERE ":8080 > " VPOD ":40000",
	  "tcp " NODE ":30080 > " CLIENT ":40000", TO_UPLINK },
};

static void exchange(int row)
{
	static const struct frame_options options = ANSWERS, acks = { .tcp_flags = ACK };
	struct frame in = frame_make(service_rows[row].flow, NULL), out;
	const char *name = service_rows[row].name;

	fixture_expect(name, service_rows[row].hook, &in, TO_CLUSTER, service_rows[row].sent);
	out = peers_frame(PEER_EAST, FIXTURE_CLUSTER, service_rows[row].answer, &options);
	fixture_expect(name, MK_HOOK_CLUSTER, &out, service_rows[row].where,
		       service_rows[row].seen);
	in = frame_make(service_rows[row].flow, &acks);
	fixture_expect(name, service_rows[row].hook, &in, TO_CLUSTER, service_rows[row].sent);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}

/* @flow, with the view in place of THERE. */
static const char *with_view(const char *flow)
{
	const char *there = strstr(flow, THERE);
	static char text[160];

	ck_assert_ptr_nonnull(there);
	snprintf(text, sizeof(text), "%.*s240.1.1.7%s", (int)(there - flow), flow,
		 there + strlen(THERE));
	return text;
}

/* The same by a border node of this cluster: this node translates for the Service, and the border
 * node from view to home address. */
START_TEST(test_service_by_border)
{
	static const struct frame_options options = ANSWERS;
	struct frame in = frame_make(service_rows[_i].flow, NULL), out;
	const char *name = service_rows[_i].name;

	start_services();
	peers_set_flags(PEER_EAST, 0);
	peers_by_border();
	fixture_expect(name, service_rows[_i].hook, &in, TO_OVERLAY,
		       with_view(service_rows[_i].sent));
	out = frame_make(with_view(service_rows[_i].answer), &options);
	fixture_expect(name, MK_HOOK_OVERLAY, &out, service_rows[_i].where, service_rows[_i].seen);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

START_TEST(test_service)
{
	static const uint8_t accesses[] = { MK_CLUSTER_ACCESS_PODS, MK_CLUSTER_ACCESS_EXPORTS, 0 };

	for (int i = 0; i < ROWS(accesses); i++) {
		start_services();
		peers_set_flags(PEER_EAST, accesses[i]);
		exchange(_i);
	}
}
END_TEST

/* The answer has come to another node of this cluster. */
START_TEST(test_service_by_another_node)
{
	static const struct frame_options options = ANSWERS;
	struct frame in = frame_make(service_rows[_i].flow, NULL);
	char answer[128];

	start_services();
	peers_set_flags(PEER_EAST, 0);
	fixture_expect(service_rows[_i].name, service_rows[_i].hook, &in, TO_CLUSTER, NULL);
	snprintf(answer, sizeof(answer), "tcp 240.1.1.7%s",
		 service_rows[_i].answer + strlen("tcp " THERE));
	in = frame_make(answer, &options);
	fixture_expect(service_rows[_i].name, MK_HOOK_OVERLAY, &in, service_rows[_i].where,
		       service_rows[_i].seen);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* A host's session keeps its source while the cluster's row is replaced. */
START_TEST(test_service_while_row_changes)
{
	struct frame in = frame_make(service_rows[2].flow, NULL);
	struct mk_cluster row;

	start_services();
	row = peers_get(PEER_EAST);
	peers_forget(PEER_EAST);
	peers_expect_drop("no row", MK_HOOK_HOST, &in, MK_DROP_PEER_UNKNOWN);
	peers_put(PEER_EAST, &row);
	fixture_expect("the row is back", MK_HOOK_HOST, &in, TO_CLUSTER, service_rows[2].sent);
}
END_TEST

/* A pod does not know the MTU of the way to a Service. */
START_TEST(test_service_too_big)
{
	static const struct frame_options longer = { .packet_bytes = 1451, .fragment = DF };
	struct frame in = frame_make("udp " POD ":40000 > 10.96.0.10:80", &longer), out;

	start_services();
	if (family_is6())
		fixture_expect("a datagram", MK_HOOK_POD, &in, TO_POD,
			       "icmp-error 10.244.1.254 > " POD " 3/4 [udp " POD
			       ":40000 > 10.96.0.10:80]");
	else
		fixture_expect("a datagram", MK_HOOK_POD, &in, TO_CLUSTER, NULL);
	in = frame_make("tcp " POD ":40000 > 10.96.0.10:80", &longer);
	out = fixture_expect("TCP", MK_HOOK_POD, &in, TO_POD,
			     "icmp-error 10.244.1.254 > " POD " 3/4 [tcp " POD
			     ":40000 > 10.96.0.10:80]");
	ck_assert_uint_eq(frame_icmp_mtu(&out), 1450);
}
END_TEST

/* ---- policies -------------------------------------------------------------------------------- */

#define SERVICE "service tcp 10.96.0.10:80 > 240.1.1.7:8080"
static const struct policy_row policy_rows[] = {
	{ "egress to a view, behind a Service",
	  { "set s isolates 240.1.1.0/24=all", "pod " POD " in=open out=s", SERVICE,
	    "pod tcp " POD ":40000 > 10.96.0.10:80 = tcp " POD ":40000 > " THERE ":8080" } },
	{ ".. to another view",
	  { "set s isolates 240.1.2.0/24=all", "pod " POD " in=open out=s", SERVICE,
	    "pod tcp " POD ":40000 > 10.96.0.10:80 = POLICY_EGRESS", "sessions 0" } },
	{ ".. to the home address",
	  { "set s isolates 10.244.1.0/24=all", "pod " POD " in=open out=s", SERVICE,
	    "pod tcp " POD ":40000 > 10.96.0.10:80 = POLICY_EGRESS" } },
};

START_TEST(test_policies)
{
	policy_start();
	peers_start();
	policy_run(&policy_rows[_i]);
}
END_TEST

/* ---- exports --------------------------------------------------------------------------------- */

static void start_exports(void)
{
	peers_reset();
	peers_set_flags(PEER_NORTH, MK_CLUSTER_ACCESS_EXPORTS);
	peers_export("tcp " POD ":8080");
	peers_export("udp " POD ":53");
	peers_export("ping " POD ":0");
	peers_export("tcp " VPOD ":8080");
	peers_export("tcp 10.244.1.254:8080");
}

static const struct {
	const char *name, *flow;
	struct frame_options options;
	bool passes;
} export_rows[] = {
	{ "an exported port", "tcp " THERE ":40000 > " POD ":8080", { 0 }, true },
	{ "in the middle of a flow",
	  "tcp " THERE ":40000 > " POD ":8080",
	  { .tcp_flags = ACK },
	  true },
	{ "a datagram", "udp " THERE ":40000 > " POD ":53", { 0 }, true },
	{ "a ping", "icmp " THERE " > " POD " 9", { 0 }, true },
	{ "an answer to no ping", "icmp " THERE " > " POD " 9", REPLY, false },
	{ "another port", "tcp " THERE ":40000 > " POD ":8081", { 0 }, false },
	{ "another protocol", "udp " THERE ":40000 > " POD ":8080", { 0 }, false },
	{ "another protocol without ports", "esp " THERE " > " POD, { 0 }, false },
	{ "another pod", "tcp " THERE ":40000 > 10.244.1.3:8080", { 0 }, false },
	{ "a ping of another pod", "icmp " THERE " > 10.244.1.3 9", { 0 }, false },
	{ "the virtual pod address", "tcp " THERE ":40000 > " VPOD ":8080", { 0 }, false },
	{ "the gateway", "tcp " THERE ":40000 > 10.244.1.254:8080", { 0 }, false },
};

static struct frame of_north(int row, const char *source, bool is_carried)
{
	const char *flow = export_rows[row].flow, *at = strstr(flow, THERE);
	char text[128];

	snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - flow), flow, source,
		 at + strlen(THERE));
	return is_carried
		       ? frame_make(text, &export_rows[row].options)
		       : peers_frame(PEER_NORTH, FIXTURE_CLUSTER, text, &export_rows[row].options);
}

static void expect_access(int row, enum mk_hook hook, const struct frame *in, bool passes)
{
	if (passes)
		fixture_expect(export_rows[row].name, hook, in, TO_POD, NULL);
	else
		peers_expect_drop(export_rows[row].name, hook, in, MK_DROP_PEER_DENIED);
}

START_TEST(test_exports)
{
	struct frame in = of_north(_i, THERE, false), carried = of_north(_i, "240.2.1.7", true);

	start_exports();
	expect_access(_i, MK_HOOK_CLUSTER, &in, export_rows[_i].passes);
	expect_access(_i, MK_HOOK_OVERLAY, &carried, export_rows[_i].passes);
	ck_assert_uint_eq(fixture_count("sessions") + fixture_count("sessions_young"), 0);
	peers_set_flags(PEER_NORTH, 0);
	expect_access(_i, MK_HOOK_CLUSTER, &in, false);
	expect_access(_i, MK_HOOK_OVERLAY, &carried, false);
	peers_set_flags(PEER_NORTH, MK_CLUSTER_ACCESS_EXPORTS);
	fixture_empty("exports");
	expect_access(_i, MK_HOOK_CLUSTER, &in, false);
}
END_TEST

/* Access Pods includes exports. */
START_TEST(test_exports_with_access)
{
	struct frame in = of_north(5, THERE, false);

	start_exports();
	peers_set_flags(PEER_NORTH, MK_CLUSTER_ACCESS_EXPORTS | MK_CLUSTER_ACCESS_PODS);
	fixture_expect("another port", MK_HOOK_CLUSTER, &in, TO_POD, NULL);
}
END_TEST

/* An endpoint's answers need no session, its own flows do. */
START_TEST(test_answers_of_exports)
{
	static const struct frame_options options = ANSWERS;
	struct frame in = frame_make("tcp " POD ":8080 > 240.2.1.7:40000", &options);

	start_exports();
	fixture_expect("an answer", MK_HOOK_POD, &in, TO_CLUSTER,
		       "tcp " POD ":8080 > " THERE ":40000");
	ck_assert_uint_eq(fixture_count("sessions") + fixture_count("sessions_young"), 0);
	in = frame_make("tcp " POD ":40000 > 240.2.1.7:80", NULL);
	fixture_expect("its own", MK_HOOK_POD, &in, TO_CLUSTER, NULL);
	ck_assert_uint_eq(fixture_count("sessions") + fixture_count("sessions_young"), 2);
	in = peers_frame(PEER_NORTH, FIXTURE_CLUSTER, "tcp " THERE ":80 > " POD ":40000", &options);
	fixture_expect("the answer to that", MK_HOOK_CLUSTER, &in, TO_POD, NULL);
	fixture_empty("sessions");
	fixture_empty("sessions_young");
	peers_set_flags(PEER_NORTH, 0);
	in = frame_make("tcp " POD ":8080 > 240.2.1.7:40000", &options);
	fixture_expect("without access", MK_HOOK_POD, &in, TO_CLUSTER, NULL);
	ck_assert_uint_eq(fixture_count("sessions") + fixture_count("sessions_young"), 2);
}
END_TEST

static const struct {
	const char *name, *about, *to;
	bool passes;
} error_rows[] = {
	{ "about an answer", "tcp " POD ":8080 > " THERE ":40000", POD, true },
	{ "about an answer to a ping", "icmp " POD " > " THERE " 9", POD, true },
	{ "about another port", "tcp " POD ":8081 > " THERE ":40000", POD, false },
	{ "about another protocol", "udp " POD ":8080 > " THERE ":40000", POD, false },
	{ "to another pod", "tcp " POD ":8080 > " THERE ":40000", "10.244.1.3", false },
};

/* The path's MTU must become known to an endpoint. */
START_TEST(test_errors_about_exports)
{
	struct frame quoted = frame_make(error_rows[_i].about, NULL), error;
	char flow[64];

	snprintf(flow, sizeof(flow), "icmp 10.244.2.1 > %s", error_rows[_i].to);
	error = frame_make(
		flow, &(struct frame_options){
			      .icmp_type = 3, .icmp_code = 4, .icmp_mtu = 1400, .quote = &quoted });
	peers_mark(&error, PEER_NORTH, FIXTURE_CLUSTER);
	start_exports();
	if (error_rows[_i].passes)
		fixture_expect(error_rows[_i].name, MK_HOOK_CLUSTER, &error, TO_POD, NULL);
	else
		peers_expect_drop(error_rows[_i].name, MK_HOOK_CLUSTER, &error,
				  MK_DROP_PEER_DENIED);
}
END_TEST

START_TEST(test_fragments_to_export)
{
	static const size_t cuts[] = { 1200, 2400, 0 };
	const struct frame_options options = { .payload_bytes = 3000, .id = 7 };
	struct frame whole = peers_frame(PEER_NORTH, FIXTURE_CLUSTER,
					 "udp " THERE ":40000 > " POD ":53", &options);
	struct pieces in = pieces_cut(&whole, cuts), out;

	start_exports();
	out = pieces_send("exported", MK_HOOK_CLUSTER, &in, "210", TO_POD);
	whole = pieces_join("exported", &out);
	ck_assert_str_eq(frame_flow(&whole), "udp 240.2.1.7:40000 > " POD ":53");
}
END_TEST

/* ---- external addresses ---------------------------------------------------------------------- */

#define NODE2  "192.168.99.12" /* another node of this cluster */
#define TARGET "192.0.2.7" /* outside */

static void start_externals(void)
{
	peers_reset();
	peers_set_flags(PEER_NORTH, MK_CLUSTER_ACCESS_EXPORTS);
	peers_external(FIXTURE_CLUSTER, "247.255.0.0");
	peers_external(PEER_NORTH, "240.9.0.0");
	peers_export("tcp 247.255.0.5:5432 > " TARGET);
	peers_export("udp 247.255.0.5:5432 > " TARGET);
	peers_export("ping 247.255.0.5:0 > " TARGET);
	peers_export("tcp 247.255.0.6:5432 > " NODE);
	peers_export("tcp 247.255.0.7:5432 > " NODE2);
}

/* The answer to @sent, as a flow. */
static const char *reversed(const struct frame *sent)
{
	char proto[8], from[64], to[64], more[16] = "";
	static char flow[160];

	ck_assert_int_ge(sscanf(frame_flow(sent), "%7s %63s > %63s %15s", proto, from, to, more),
			 3);
	snprintf(flow, sizeof(flow), "%s %s > %s %s", proto, to, from, more);
	return flow;
}

static const struct {
	const char *name, *flow, *sent, *seen; /* sent NULL: masqueraded, with any port */
	enum where where;
	enum mk_hook back;
	struct frame_options answer_options;
} external_rows[] = {
	{ "TCP to outside", "tcp " THERE ":40000 > 247.255.0.5:5432", NULL,
	  "tcp 247.255.0.5:5432 > " THERE ":40000", TO_UPLINK, MK_HOOK_UPLINK, ANSWERS },
	{ "UDP to outside",
	  "udp " THERE ":40000 > 247.255.0.5:5432",
	  NULL,
	  "udp 247.255.0.5:5432 > " THERE ":40000",
	  TO_UPLINK,
	  MK_HOOK_UPLINK,
	  { 0 } },
	{ "a ping to outside", "icmp " THERE " > 247.255.0.5 40000", NULL,
	  "icmp 247.255.0.5 > " THERE " 40000", TO_UPLINK, MK_HOOK_UPLINK, REPLY },
	{ "TCP to this host", "tcp " THERE ":40000 > 247.255.0.6:5432",
	  "tcp " VPOD ":40000 > " NODE ":5432", "tcp 247.255.0.6:5432 > " THERE ":40000", TO_HOST,
	  MK_HOOK_HOST, ANSWERS },
	{ "TCP to another node's host", "tcp " THERE ":40000 > 247.255.0.7:5432", NULL,
	  "tcp 247.255.0.7:5432 > " THERE ":40000", TO_UPLINK, MK_HOOK_UPLINK, ANSWERS },
};

START_TEST(test_externals)
{
	struct frame in = peers_frame(PEER_NORTH, FIXTURE_CLUSTER, external_rows[_i].flow, NULL);
	struct frame out, answer;

	start_externals();
	out = fixture_expect(external_rows[_i].name, MK_HOOK_CLUSTER, &in, external_rows[_i].where,
			     external_rows[_i].sent);
	answer = frame_make(reversed(&out), &external_rows[_i].answer_options);
	out = fixture_expect("the answer", external_rows[_i].back, &answer, TO_CLUSTER,
			     external_rows[_i].seen);
	ck_assert_str_eq(peers_shown(&out), "100 > 11259375 hop 7");
	fixture_expect("the next packet", MK_HOOK_CLUSTER, &in, external_rows[_i].where,
		       external_rows[_i].sent);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* The session is here, although this node has become no border node. */
START_TEST(test_external_of_former_border)
{
	struct frame in = peers_frame(PEER_NORTH, FIXTURE_CLUSTER, external_rows[0].flow, NULL);
	struct frame out, answer;

	start_externals();
	out = fixture_expect("a flow", MK_HOOK_CLUSTER, &in, TO_UPLINK, NULL);
	peers_set_flags(PEER_NORTH, MK_CLUSTER_ACCESS_EXPORTS | MK_CLUSTER_BY_BORDER);
	answer = frame_make(reversed(&out), &external_rows[0].answer_options);
	fixture_expect("its answer", MK_HOOK_UPLINK, &answer, TO_CLUSTER, external_rows[0].seen);
}
END_TEST

static const struct {
	const char *name, *flow;
	uint8_t access;
} closed_rows[] = {
	{ "another port", "tcp " THERE ":40000 > 247.255.0.5:80", MK_CLUSTER_ACCESS_EXPORTS },
	{ "another port, with access Pods", "tcp " THERE ":40000 > 247.255.0.5:80",
	  MK_CLUSTER_ACCESS_PODS },
	{ "an address without target", "tcp " THERE ":40000 > 247.255.0.9:5432",
	  MK_CLUSTER_ACCESS_PODS },
	{ "no access", "tcp " THERE ":40000 > 247.255.0.5:5432", 0 },
	{ "the target itself", "tcp " THERE ":40000 > " TARGET ":5432", MK_CLUSTER_ACCESS_PODS },
};

START_TEST(test_externals_closed)
{
	struct frame in = peers_frame(PEER_NORTH, FIXTURE_CLUSTER, closed_rows[_i].flow, NULL);

	start_externals();
	peers_set_flags(PEER_NORTH, closed_rows[_i].access);
	peers_expect_drop(closed_rows[_i].name, MK_HOOK_CLUSTER, &in, MK_DROP_PEER_DENIED);
	ck_assert_uint_eq(fixture_count("sessions") + fixture_count("sessions_young"), 0);
}
END_TEST

/* An error about a packet that this cluster cannot have sent. */
START_TEST(test_error_closed)
{
	static const struct frame_options options = ANSWERS;
	struct frame quoted = frame_make("tcp 247.255.0.5:80 > " THERE ":40000", &options), in;

	start_externals();
	in = frame_make(
		"icmp " THERE " > 247.255.0.5",
		&(struct frame_options){ .icmp_type = 3, .icmp_code = 1, .quote = &quoted });
	peers_mark(&in, PEER_NORTH, FIXTURE_CLUSTER);
	peers_expect_drop("about another port", MK_HOOK_CLUSTER, &in, MK_DROP_PEER_DENIED);
}
END_TEST

/* A pod here asks a target of north, and an error about it comes from a node of north. */
START_TEST(test_external_of_peer)
{
	static const struct frame_options options = ANSWERS;
	struct frame in = frame_make("tcp " POD ":40000 > 240.9.0.5:5432", NULL), out, quoted;

	start_externals();
	out = fixture_expect("sent", MK_HOOK_POD, &in, TO_CLUSTER,
			     "tcp " POD ":40000 > 247.255.0.5:5432");
	ck_assert_str_eq(peers_shown(&out), "100 > 11259375 hop 7");
	quoted = out;
	in = peers_frame(PEER_NORTH, FIXTURE_CLUSTER, "tcp 247.255.0.5:5432 > " POD ":40000",
			 &options);
	fixture_expect("the answer", MK_HOOK_CLUSTER, &in, TO_POD,
		       "tcp 240.9.0.5:5432 > " POD ":40000");
	in = frame_make("icmp " THERE " > " POD, &(struct frame_options){ .icmp_type = 3,
									  .icmp_code = 4,
									  .icmp_mtu = 1400,
									  .quote = &quoted });
	peers_mark(&in, PEER_NORTH, FIXTURE_CLUSTER);
	fixture_expect("an error", MK_HOOK_CLUSTER, &in, TO_POD,
		       "icmp-error 240.2.1.7 > " POD " 3/4 [tcp " POD ":40000 > 240.9.0.5:5432]");
	in = peers_frame(PEER_NORTH, FIXTURE_CLUSTER, "tcp 247.254.0.5:5432 > " POD ":40000",
			 &options);
	peers_expect_drop("outside of its range", MK_HOOK_CLUSTER, &in, MK_DROP_PEER_SOURCE);
}
END_TEST

/* A router outside does not know the other cluster: its error comes from the external address. */
START_TEST(test_error_from_outside)
{
	struct frame in = peers_frame(PEER_NORTH, FIXTURE_CLUSTER,
				      "udp " THERE ":40000 > 247.255.0.5:5432", NULL),
		     sent, error;

	start_externals();
	sent = fixture_expect("sent", MK_HOOK_CLUSTER, &in, TO_UPLINK, NULL);
	error = frame_make("icmp 198.51.100.1 > " NODE, &(struct frame_options){ .icmp_type = 3,
										 .icmp_code = 1,
										 .quote = &sent });
	fixture_expect("the error", MK_HOOK_UPLINK, &error, TO_CLUSTER,
		       "icmp-error 247.255.0.5 > " THERE " 3/1 [udp " THERE
		       ":40000 > 247.255.0.5:5432]");
}
END_TEST

/* A target outside gets the error about its answer, as its own packet had been. */
START_TEST(test_external_too_big)
{
	static const struct frame_options longer = { .packet_bytes = 1451,
						     .fragment = DF,
						     .tcp_flags = ACK };
	struct frame in = peers_frame(PEER_NORTH, FIXTURE_CLUSTER,
				      "tcp " THERE ":40000 > 247.255.0.5:5432", NULL),
		     out, answer;
	char seen[256];

	start_externals();
	out = fixture_expect("sent", MK_HOOK_CLUSTER, &in, TO_UPLINK, NULL);
	answer = frame_make(reversed(&out), &longer);
	snprintf(seen, sizeof(seen), "icmp-error " NODE " > " TARGET " 3/4 [%s]",
		 frame_flow(&answer));
	out = fixture_expect("too big", MK_HOOK_UPLINK, &answer, TO_UPLINK, seen);
	ck_assert_uint_eq(frame_icmp_mtu(&out), 1450);
}
END_TEST

/* External addresses have places of their own, for packets from here and in transit. */
START_TEST(test_external_places)
{
	const uint32_t externals = PEER_NORTH | MK_CLUSTER_EXTERNAL;
	struct frame in = frame_make("tcp " POD ":40000 > 240.9.0.5:5432", NULL), out;
	struct mk_cluster row;

	start_externals();
	peers_set_flags(PEER_EAST, MK_CLUSTER_RELAYED);
	peers_set_flags(PEER_NORTH, MK_CLUSTER_RELAYED);
	peers_external(PEER_NORTH, "240.9.0.0");
	row = peers_get(externals);
	row.via = externals;
	row.hop_count = MK_CLUSTER_PLACES;
	peers_put(externals, &row);
	for (uint32_t i = 0; i < MK_CLUSTER_PLACES; i++)
		peers_put_node(externals, MK_CLUSTER_BY_INDEX | i, 9);
	out = fixture_expect("from here", MK_HOOK_POD, &in, TO_CLUSTER, NULL);
	ck_assert_str_eq(peers_shown(&out), "100 > 11259375 hop 9");
	in = peers_frame(PEER_EAST, PEER_NORTH, "tcp " THERE ":40000 > 247.255.0.5:5432", NULL);
	out = fixture_expect("in transit", MK_HOOK_CLUSTER, &in, TO_CLUSTER, NULL);
	ck_assert_str_eq(peers_shown(&out), "200 > 11259375 hop 9");
	in = frame_make("tcp " POD ":40000 > 240.2.1.7:5432", NULL);
	out = fixture_expect("a pod", MK_HOOK_POD, &in, TO_CLUSTER, NULL);
	ck_assert_str_eq(peers_shown(&out), "100 > 11259375 hop 7");
}
END_TEST

/* The hub passes packets to external addresses, and their answers, on. */
START_TEST(test_external_in_transit)
{
	struct frame in = peers_frame(PEER_EAST, PEER_NORTH,
				      "tcp " THERE ":40000 > 247.255.0.5:5432", NULL),
		     out;

	start_externals();
	peers_set_flags(PEER_EAST, MK_CLUSTER_RELAYED);
	peers_set_flags(PEER_NORTH, MK_CLUSTER_RELAYED);
	peers_external(PEER_NORTH, "240.9.0.0");
	out = fixture_expect("there", MK_HOOK_CLUSTER, &in, TO_CLUSTER,
			     "tcp " THERE ":40000 > 247.255.0.5:5432");
	ck_assert_str_eq(peers_shown(&out), "200 > 11259375 hop 7");
	in = peers_frame(PEER_NORTH, PEER_EAST, "tcp 247.255.0.5:5432 > 10.244.2.7:40000", NULL);
	out = fixture_expect("back", MK_HOOK_CLUSTER, &in, TO_CLUSTER,
			     "tcp 247.255.0.5:5432 > 10.244.2.7:40000");
	ck_assert_str_eq(peers_shown(&out), "11259375 > 200 hop 2");
}
END_TEST

BPF_SUITE("Services of other clusters")
{
	TCase *tcase = bpf_case_after(suite, "clusters", fixture_clusters, NULL);

	tcase_add_loop_test(tcase, test_host, 0, ROWS(host_rows));
	tcase_add_test(tcase, test_answer_by_another_node);
	tcase_add_test(tcase, test_ports_of_host);
	tcase_add_test(tcase, test_host_without_session);
	tcase_add_test(tcase, test_errors_of_host);
	tcase_add_test(tcase, test_host_too_big);
	tcase_add_loop_test(tcase, test_service, 0, ROWS(service_rows));
	tcase_add_loop_test(tcase, test_service_by_border, 0, ROWS(service_rows));
	tcase_add_loop_test(tcase, test_service_by_another_node, 0, ROWS(service_rows));
	tcase_add_test(tcase, test_service_while_row_changes);
	tcase_add_test(tcase, test_service_too_big);
	tcase_add_loop_test(tcase, test_policies, 0, ROWS(policy_rows));
	tcase_add_loop_test(tcase, test_exports, 0, ROWS(export_rows));
	tcase_add_test(tcase, test_exports_with_access);
	tcase_add_test(tcase, test_answers_of_exports);
	tcase_add_loop_test(tcase, test_errors_about_exports, 0, ROWS(error_rows));

	tcase = bpf_case_after(suite, "external addresses", fixture_clusters, NULL);
	tcase_add_loop_test(tcase, test_externals, 0, ROWS(external_rows));
	tcase_add_test(tcase, test_external_of_former_border);
	tcase_add_loop_test(tcase, test_externals_closed, 0, ROWS(closed_rows));
	tcase_add_test(tcase, test_error_closed);
	tcase_add_test(tcase, test_external_of_peer);
	tcase_add_test(tcase, test_error_from_outside);
	tcase_add_test(tcase, test_external_too_big);
	tcase_add_test(tcase, test_external_in_transit);
	tcase_add_test(tcase, test_external_places);

	tcase = bpf_case_after(suite, "fragments of clusters", fixture_clusters, NULL);
	tcase_add_unchecked_fixture(tcase, pieces_load, NULL);
	tcase_add_test(tcase, test_fragments_of_host);
	tcase_add_test(tcase, test_fragments_to_export);
}
