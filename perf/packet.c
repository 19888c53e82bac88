// SPDX-License-Identifier: Apache-2.0
/* perf/packet - what a packet costs in each hook's chain of programs, in nanoseconds, without a
 * network (BPF_PROG_TEST_RUN). Each run sends one packet, because a rewritten packet is another
 * flow the next time. So each figure contains the kernel's own overhead of a run, which the last
 * row shows. Figures are minimum and median of many runs. Compare rows of one run, not of two
 * machines.
 *
 *	MK_PACKET_RUNS=N	fewer runs, if each costs the same (perf/instructions)
 *	MK_PACKET_NODES=N	this many other nodes, and a row of packets to each of them in turn
 *	MK_PACKET_POLICIES=1	both pods are isolated, and may do everything
 *	MK_PACKET_SERVICES=N	this many other Services in the tables, each with two backends
 *	MK_PACKET_CHAINS=1	and rows of packets into a function and from it
 *	MK_PACKET_CLIENT=MODE	clientAddress is MODE, and rows of clients outside, pod elsewhere
 *	MK_PACKET_CLUSTERS=1	there are other clusters, and rows of packets to and from them */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/network.h"
#include "bpf/peers.h"
#include "bpf/policy.h"
#include "bpf/run.h"
#include "rows.h"

#define RUNS 20000

static unsigned runs = RUNS;

enum { CARRIED_BYTES = 128 }; /* what a carrier has, VXLAN's header included */
enum { PORT_MIN = 49152, PORT_MAX = 53247 }; /* ports of masqueraded traffic */

static const char *const remote_backend[] = { "10.244.2.7:8080", NULL };
static const char *const local_backend[] = { "10.244.1.3:8080", NULL };

static const struct packet_row {
	const char *name;
	enum mk_hook hook;
	const char *flow;
	uint8_t tcp_flags;
} rows[] = {
	{ "pod to pod, same node", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.244.1.3:80", ACK },
	{ "pod to pod, other node", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.244.2.7:80", ACK },
	{ "  new flow", MK_HOOK_POD, "tcp 10.244.1.3:%u > 10.244.2.7:80", SYN },
	{ "pod from another node", MK_HOOK_OVERLAY, "tcp 10.244.2.9:80 > 10.244.1.2:40000", ACK },
	{ "  new flow", MK_HOOK_OVERLAY, "tcp 10.244.2.9:%u > 10.244.1.3:80", SYN },
	{ "pod to pod, UDP", MK_HOOK_POD, "udp 10.244.1.2:40000 > 10.244.1.3:9000", 0 },
	{ "  to a port of Services' backends", MK_HOOK_POD,
	  "udp 10.244.1.2:40000 > 10.244.1.3:5353", 0 },
	{ "pod to Service, established", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.96.0.10:80", ACK },
	{ "  its answer", MK_HOOK_OVERLAY, "tcp 10.244.2.7:8080 > 10.244.1.2:40000", ACK },
	{ "pod to Service, new flow", MK_HOOK_POD, "tcp 10.244.1.3:%u > 10.96.0.10:80", SYN },
	{ "pod to outside, established", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 203.0.113.10:443",
	  ACK },
	{ "outside to NodePort, established", MK_HOOK_UPLINK,
	  "tcp 203.0.113.10:40000 > 192.168.99.11:30080", ACK },
	{ "outside to the host", MK_HOOK_UPLINK, "tcp 203.0.113.10:40000 > 192.168.99.11:22", ACK },
	{ "the host to outside", MK_HOOK_UPLINK_EGRESS, "tcp 192.168.99.11:22 > 203.0.113.10:40000",
	  ACK },
	{ "the host to 127.0.0.1", HOOK_LOOPBACK, "tcp 127.0.0.1:40000 > 127.0.0.1:22", ACK },
	{ "  to a port among the NodePorts", HOOK_LOOPBACK, "tcp 127.0.0.1:40000 > 127.0.0.1:30082",
	  ACK },
	{ "the host to its own address", HOOK_LOOPBACK,
	  "tcp 192.168.99.11:40000 > 192.168.99.11:22", ACK },
	{ "the host to its own NodePort", HOOK_LOOPBACK,
	  "tcp 192.168.99.11:40000 > 192.168.99.11:30081", ACK },
};

/* A client outside, at the node that it asks, and at the pod's node. There the first node's virtual
 * pod address is seen, or the client. */
static const struct packet_row client_rows[][4] = {
	{ { "outside to NodePort, pod elsewhere", MK_HOOK_UPLINK,
	    "tcp 203.0.113.10:%u > 192.168.99.11:30083", SYN },
	  { "  established", MK_HOOK_UPLINK, "tcp 203.0.113.10:9 > 192.168.99.11:30083", ACK },
	  { "  at the pod's node, new flow", MK_HOOK_OVERLAY, "tcp 10.244.2.1:%u > 10.244.1.3:8080",
	    SYN },
	  { "  established", MK_HOOK_OVERLAY, "tcp 10.244.2.1:9 > 10.244.1.3:8080", ACK } },
	{ { "outside to NodePort, pod elsewhere", MK_HOOK_UPLINK,
	    "tcp 203.0.113.10:%u > 192.168.99.11:30083", SYN },
	  { "  established", MK_HOOK_UPLINK, "tcp 203.0.113.10:9 > 192.168.99.11:30083", ACK },
	  { "  at the pod's node, new flow", MK_HOOK_OVERLAY,
	    "tcp 203.0.113.11:%u > 10.244.1.3:8080", SYN },
	  { "  established", MK_HOOK_OVERLAY, "tcp 203.0.113.11:9 > 10.244.1.3:8080", ACK } },
};

/* Between two nodes: the carriers of the overlay on the link, and packets without VXLAN. */
static const struct packet_row node_rows[] = {
	{ "a carrier to another node", MK_HOOK_UPLINK_EGRESS,
	  "udp 192.168.99.11:40000 > 192.168.99.12:4789", 0 },
	{ "a carrier from another node", MK_HOOK_UPLINK,
	  "udp 192.168.99.12:40000 > 192.168.99.11:4789", 0 },
	{ "pod to pod, other node, direct", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.244.2.7:80",
	  ACK },
	{ "pod from another node, direct", MK_HOOK_UPLINK, "tcp 10.244.2.9:80 > 10.244.1.2:40000",
	  ACK },
};

/* A cluster with access, one without, and the first one to the second by this one. */
static const struct {
	const char *name;
	enum mk_hook hook;
	const char *flow;
	uint32_t from, to;
} cluster_rows[] = {
	{ "pod to another cluster", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 240.1.1.7:80", 0, 0 },
	{ "  without access here", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 240.2.1.7:80", 0, 0 },
	{ "pod from another cluster", MK_HOOK_CLUSTER, "tcp 10.244.1.7:80 > 10.244.1.2:40000",
	  PEER_EAST, FIXTURE_CLUSTER },
	{ "  without access here", MK_HOOK_CLUSTER, "tcp 10.244.1.7:80 > 10.244.1.2:40000",
	  PEER_NORTH, FIXTURE_CLUSTER },
	{ "between two others, by a hub", MK_HOOK_CLUSTER, "tcp 10.244.1.7:80 > 10.244.1.2:40000",
	  PEER_NORTH, PEER_EAST },
	{ "to an external address there", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 240.9.0.5:5432", 0,
	  0 },
	{ "to an external address here", MK_HOOK_CLUSTER, "tcp 10.244.1.7:40000 > 247.255.0.5:5432",
	  PEER_EAST, FIXTURE_CLUSTER },
};

/* A chain of one function takes what 10.244.1.2 begins to a pod of this node. */
#define ASKED	 "tcp 10.244.1.2:40001 > 10.244.1.3:8080"
#define ANSWERED "tcp 10.244.1.3:8080 > 10.244.1.2:40001"
static const struct policy_row chained = {
	"chained",
	{ "chain 1 1", "function 1 1", "replica 1 bridged", "set e any=all+1 unknown=all+1 *=all+1",
	  "pod 10.244.1.2 in=open out=e", "pod " ASKED " = into 1 inside 10.244.1.2 " ASKED,
	  "from 1 outside = passes",
	  "pod " ANSWERED " synack = into 1 outside 10.244.1.2 " ANSWERED, "from 1 inside = passes",
	  "pod " ASKED " ack = into 1 inside 10.244.1.2 " ASKED }
};
static const struct {
	const char *port; /* a line that sets the port of the packets */
	struct packet_row packet;
} chain_rows[] = {
	{ NULL, { "pod into a function", MK_HOOK_POD, ASKED, ACK } },
	{ "from 1 outside " ASKED " ack = passes",
	  { "  from it to the other pod", MK_HOOK_FUNCTION, ASKED, ACK } },
	{ NULL, { "  the answer into it", MK_HOOK_POD, ANSWERED, ACK } },
	{ "from 1 inside " ANSWERED " ack = passes",
	  { "  from it to the client", MK_HOOK_FUNCTION, ANSWERED, ACK } },
	{ NULL,
	  { "  into it, new flow", MK_HOOK_POD, "tcp 10.244.1.2:%u > 10.244.1.3:8080", SYN } },
};

static void send_one(enum mk_hook hook, const char *flow, uint8_t tcp_flags, struct frame *out)
{
	struct frame in = frame_make(flow, &(struct frame_options){ .tcp_flags = tcp_flags });

	ck_assert_msg(fixture_send(hook, &in, out) != DROPPED, "dropped: %s", flow);
}

/* Establish the sessions of the rows, as a handshake does. */
static void establish_own(void)
{
	const char *request = "tcp 192.168.99.11:40000 > 192.168.99.11:30081";
	struct frame out;
	char answer[128];
	unsigned port;

	send_one(MK_HOOK_HOST, request, SYN, &out);
	ck_assert_int_eq(sscanf(frame_flow(&out), "tcp 192.168.99.11:%u", &port), 1);
	snprintf(answer, sizeof(answer), "tcp 10.244.2.7:8080 > 192.168.99.11:%u", port);
	send_one(MK_HOOK_OVERLAY, answer, SYN | ACK, &out);
	send_one(MK_HOOK_HOST, request, ACK, &out);
}

static void add_other(uint32_t number)
{
	const struct mk_frontend service = { .set_id = 100000 + number,
					     .generation = 1,
					     .backend_count = 2,
					     .local_weight = 1,
					     .service_id = 100000 + number };
	const struct mk_frontend_key key = { .addr = row_ipv4(0x0a640000 + number),
					     .port = htons(80),
					     .proto = IPPROTO_TCP };
	struct mk_backend_key at = { .set_id = service.set_id, .generation = 1 };

	ck_assert_int_eq(row_update(fixture_map("frontends"), &key, &service, 0), 0);
	for (at.index = 0; at.index < service.backend_count; at.index++) {
		struct mk_backend backend = { .addr = row_ipv4(0x0af40000 + number),
					      .port = htons((uint16_t)(8080 + at.index)) };

		ck_assert_int_eq(row_update(fixture_map("service_backends"), &at, &backend, 0), 0);
	}
}

static unsigned nodes;

/* 10.(128 + number / 256).(number % 256).0/24, behind VTEP 10.18.(16 + number / 256).(number %
 * 256). */
static void add_nodes(void)
{
	for (unsigned i = 0; i < nodes; i++) {
		char net[32], vtep[32];

		snprintf(net, sizeof(net), "10.%u.%u.0", 128 + i / 256, i % 256);
		snprintf(vtep, sizeof(vtep), "10.18.%u.%u", 16 + i / 256, i % 256);
		fixture_peer(net, vtep);
	}
}

/* Both pods are isolated, by a class and by a block. Flows of the rows have sessions then. */
static void isolate(void)
{
	static const struct policy_row isolated = {
		"isolated",
		{ "set s isolates any=all unknown=all 2=all 3=all 7=all *=all 203.0.113.0/24=all",
		  "pod 10.244.1.2 in=s out=s", "pod 10.244.1.3 in=s out=s" }
	};
	struct frame out;

	policy_start();
	policy_run(&isolated);
	for (int row = 0; row < ROWS(rows); row++)
		if (!strchr(rows[row].flow, '%') && !strstr(rows[row].flow, "127.0.0.1"))
			send_one(rows[row].hook, rows[row].flow, rows[row].tcp_flags ? SYN : 0,
				 &out);
}

static void establish(void)
{
	struct frame out;
	char answer[128];
	unsigned port;

	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, remote_backend, 0, 1);
	fixture_service("tcp 192.168.99.11:30080", MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV,
			local_backend, 1, 1);
	fixture_service("tcp 192.168.99.11:30081", MK_SCOPE_INTERNAL, 0, remote_backend, 0, 1);
	fixture_localhost_ports(30080, 32767);
	establish_own();
	if (getenv("MK_PACKET_POLICIES"))
		isolate();
	send_one(MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.96.0.10:80", SYN, &out);
	send_one(MK_HOOK_OVERLAY, "tcp 10.244.2.7:8080 > 10.244.1.2:40000", SYN | ACK, &out);
	send_one(MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.96.0.10:80", ACK, &out);
	send_one(MK_HOOK_UPLINK, "tcp 203.0.113.10:40000 > 192.168.99.11:30080", SYN, &out);
	send_one(MK_HOOK_POD, "tcp 10.244.1.3:8080 > 203.0.113.10:40000", SYN | ACK, &out);
	send_one(MK_HOOK_UPLINK, "tcp 203.0.113.10:40000 > 192.168.99.11:30080", ACK, &out);
	send_one(MK_HOOK_POD, "tcp 10.244.1.2:40000 > 203.0.113.10:443", SYN, &out);
	ck_assert_int_eq(sscanf(frame_flow(&out), "tcp 192.168.99.11:%u", &port), 1);
	snprintf(answer, sizeof(answer), "tcp 203.0.113.10:443 > 192.168.99.11:%u", port);
	send_one(MK_HOOK_UPLINK, answer, SYN | ACK, &out);
	send_one(MK_HOOK_POD, "tcp 10.244.1.2:40000 > 203.0.113.10:443", ACK, &out);
}

/* Node2 is on the link, and its pods are reached directly. Its MAC address is the one that
 * measure() gives to frames of an uplink. */
static void connect_node2(void)
{
	const struct mk_link_node node = { .addr = fixture_addr("192.168.99.12"),
					   .ifindex = 1,
					   .mac = { 0x52, 0x54, 0, 0, 0, 1 },
					   .mtu_bytes = 1500 };
	struct mk_route route = { .type = MK_ROUTE_OVERLAY, .is_direct = 1 };
	struct mk_link_node_key key = { 0 };
	const __u32 number = 2;

	fixture_mac("10.18.0.2", key.vtep_mac);
	fixture_mac("10.18.0.2", route.vtep_mac);
	ck_assert_int_eq(row_update(fixture_map("link_nodes"), &key, &node, BPF_ANY), 0);
	ck_assert_int_eq(row_update(fixture_map("node_routes"), &number, &route, BPF_ANY), 0);
}

/* Put a packet of node2's pod into the carrier @frame. */
static void carry(struct frame *frame)
{
	const struct frame_options options = { .tcp_flags = ACK,
					       .source_mac = "02:4d:0a:12:00:02" };
	const struct frame inner = frame_make("tcp 10.244.2.9:80 > 10.244.1.2:40000", &options);
	const uint8_t header[] = { 0x08, 0, 0, 0, 0, 0, MK_VXLAN_VNI, 0 };
	uint8_t *at = frame->byte + frame->length - CARRIED_BYTES;

	memcpy(at, header, sizeof(header));
	memcpy(at + sizeof(header), inner.byte, inner.length);
}

static int compare(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void measure(const struct packet_row *row)
{
	static uint32_t ns[RUNS];
	const bool is_carrier = strstr(row->flow, ":4789") != NULL;
	/* outside, a device has no MAC address that monokube has made */
	const struct frame_options options = { .tcp_flags = row->tcp_flags,
					       .payload_bytes = is_carrier ? CARRIED_BYTES : 64,
					       .source_mac = row->hook == MK_HOOK_UPLINK
								     ? "52:54:00:00:00:01"
								     : NULL };
	const char *port = strstr(row->flow, "%u");
	struct frame in = { 0 };
	char flow[128];

	for (unsigned i = 0; i < runs; i++) {
		if (port)
			snprintf(flow, sizeof(flow), "%.*s%u%s", (int)(port - row->flow), row->flow,
				 1024 + i, port + 2);
		else
			snprintf(flow, sizeof(flow), "%s", row->flow);
		if (i == 0 || port)
			in = frame_make(flow, &options);
		if (i == 0 && is_carrier)
			carry(&in);
		ns[i] = fixture_ns_per_packet(row->hook, &in, 1);
	}
	qsort(ns, runs, sizeof(ns[0]), compare);
	printf("%-34s %8u %8u\n", row->name, ns[0], ns[runs / 2]);
}

static void measure_chains(void)
{
	policy_start();
	policy_run(&chained);
	for (int i = 0; i < ROWS(chain_rows); i++) {
		const struct policy_row port = { "port", { chain_rows[i].port } };

		policy_run(&port);
		measure(&chain_rows[i].packet);
	}
}

static bool keeps_client(void)
{
	const char *mode = getenv("MK_PACKET_CLIENT");

	return mode && strcmp(mode, "Keep") == 0;
}

static void measure_clients(void)
{
	const struct packet_row *row = client_rows[keeps_client()];

	fixture_service("tcp 192.168.99.11:30083", MK_SCOPE_EXTERNAL,
			MK_FRONTEND_MASQUERADE | MK_FRONTEND_MAGLEV, remote_backend, 0, 1);
	for (int i = 0; i < ROWS(client_rows[0]); i++)
		measure(&row[i]);
}

static void measure_cluster(int row)
{
	const struct frame_options options = { .tcp_flags = ACK, .payload_bytes = 64 };
	struct frame in = frame_make(cluster_rows[row].flow, &options);
	static uint32_t ns[RUNS];

	if (cluster_rows[row].from)
		peers_mark(&in, cluster_rows[row].from, cluster_rows[row].to);
	for (unsigned i = 0; i < runs; i++)
		ns[i] = fixture_ns_per_packet(cluster_rows[row].hook, &in, 1);
	qsort(ns, runs, sizeof(ns[0]), compare);
	printf("%-34s %8u %8u\n", cluster_rows[row].name, ns[0], ns[runs / 2]);
}

static void measure_clusters(void)
{
	peers_start();
	peers_set_flags(PEER_EAST, MK_CLUSTER_ACCESS_PODS | MK_CLUSTER_RELAYED);
	peers_set_flags(PEER_NORTH, MK_CLUSTER_RELAYED);
	peers_external(FIXTURE_CLUSTER, "247.255.0.0");
	peers_external(PEER_EAST, "240.9.0.0");
	peers_export("tcp 247.255.0.5:5432 > 192.0.2.7");
	for (int row = 0; row < ROWS(cluster_rows); row++)
		measure_cluster(row);
}

static void measure_nodes(void)
{
	const struct frame_options options = { .tcp_flags = ACK, .payload_bytes = 64 };
	static uint32_t ns[RUNS];

	for (unsigned i = 0; i < runs; i++) {
		unsigned node = i * 7919 % nodes; /* a prime: neighbouring nodes are far apart */
		struct frame in;
		char flow[96];

		snprintf(flow, sizeof(flow), "tcp 10.244.1.2:40000 > 10.%u.%u.7:80",
			 128 + node / 256, node % 256);
		in = frame_make(flow, &options);
		ns[i] = fixture_ns_per_packet(MK_HOOK_POD, &in, 1);
	}
	qsort(ns, runs, sizeof(ns[0]), compare);
	printf("pod to pod, each of %-5u nodes     %8u %8u\n", nodes, ns[0], ns[runs / 2]);
}

/* A short connection to a Service whose backend is on this node, packet by packet: a request, a
 * byte back, closed by the server. */
static const struct {
	const char *name;
	bool answer;
	uint8_t tcp_flags;
} steps[] = {
	{ "SYN, the session opens", false, SYN },
	{ "SYN-ACK", true, SYN | ACK },
	{ "ACK, the session is established", false, ACK },
	{ "request", false, ACK },
	{ "answer", true, ACK },
	{ "the server's FIN", true, FIN | ACK },
	{ "the client's FIN", false, FIN | ACK },
	{ "last ACK", true, ACK },
};

static struct frame step_frame(int step, unsigned port)
{
	const struct frame_options options = { .tcp_flags = steps[step].tcp_flags };
	char flow[128];

	if (steps[step].answer)
		snprintf(flow, sizeof(flow), "tcp 10.244.1.3:8080 > 10.244.1.2:%u", port);
	else
		snprintf(flow, sizeof(flow), "tcp 10.244.1.2:%u > 10.96.0.20:80", port);
	return frame_make(flow, &options);
}

static void measure_connection(void)
{
	static uint32_t ns[ROWS(steps) + 1][RUNS];

	fixture_service("tcp 10.96.0.20:80", MK_SCOPE_INTERNAL, 0, local_backend, 1, 1);
	for (unsigned i = 0; i < runs; i++) {
		ns[ROWS(steps)][i] = 0;
		for (int step = 0; step < ROWS(steps); step++) {
			struct frame in = step_frame(step, 1024 + i);

			ns[step][i] = fixture_ns_per_packet(MK_HOOK_POD, &in, 1);
			ns[ROWS(steps)][i] += ns[step][i];
		}
	}
	for (int step = 0; step <= ROWS(steps); step++) {
		qsort(ns[step], runs, sizeof(ns[step][0]), compare);
		printf("%-34s %8u %8u\n",
		       step < ROWS(steps) ? steps[step].name : "whole connection", ns[step][0],
		       ns[step][runs / 2]);
	}
}

/* New flows to one destination; this many sixteenths of its source ports are taken. */
static const struct {
	const char *name;
	unsigned sixteenths;
	uint8_t fin; /* of the sessions that hold these ports */
} shortages[] = {
	{ "pod to outside, new flow", 0, 0 },
	{ "  half of the ports in use", 8, 0 },
	{ "  15 of 16 ports in use", 15, 0 },
	{ "  half of them just ended", 8, MK_SESSION_FIN },
	{ "  all of them just ended", 16, MK_SESSION_FIN },
};

static struct mk_tuple reverse(const struct mk_tuple *in)
{
	return (struct mk_tuple){ .saddr = in->daddr,
				  .daddr = in->saddr,
				  .sport = in->dport,
				  .dport = in->sport,
				  .proto = in->proto };
}

/* Make a session hold @port, or make the port free. */
static void set_port(unsigned port, bool taken, uint8_t fin)
{
	struct mk_tuple asks = { .dport = htons(443), .proto = IPPROTO_TCP }, answers;
	struct mk_session to = { .stage = MK_SESSION_OPEN, .fin = fin }, back = to;
	int map = fixture_map("nat_sessions");

	asks.saddr = fixture_addr("10.244.1.3");
	asks.daddr = fixture_addr("203.0.113.20");
	asks.sport = htons(port);
	to.flags |= MK_SESSION_FORWARD;
	to.to = asks;
	to.to.saddr = fixture_addr("192.168.99.11");
	answers = reverse(&to.to);
	back.to = reverse(&asks);
	if (taken) {
		row_update(map, &asks, &to, BPF_ANY);
		row_update(map, &answers, &back, BPF_ANY);
	} else {
		row_delete(map, &asks);
		row_delete(map, &answers);
	}
}

static void measure_shortage(int row)
{
	enum { PORTS_RUNS = 1000 };
	unsigned port_runs = runs < PORTS_RUNS ? runs : PORTS_RUNS;
	uint32_t ns[PORTS_RUNS];

	for (unsigned i = 0; i < port_runs; i++) {
		struct frame in;
		char flow[96];

		for (unsigned port = PORT_MIN; i % 256 == 0 && port <= PORT_MAX; port++)
			set_port(port, port % 16 < shortages[row].sixteenths, shortages[row].fin);
		snprintf(flow, sizeof(flow), "tcp 10.244.1.2:%u > 203.0.113.20:443", 1024 + i);
		in = frame_make(flow, NULL);
		ns[i] = fixture_ns_per_packet(MK_HOOK_POD, &in, 1);
		fixture_empty("nat_sessions_young");
	}
	qsort(ns, port_runs, sizeof(ns[0]), compare);
	printf("%-34s %8u %8u\n", shortages[row].name, ns[0], ns[port_runs / 2]);
	for (unsigned port = PORT_MIN; port <= PORT_MAX; port++)
		set_port(port, false, 0);
}

START_TEST(measure_all)
{
	const char *others = getenv("MK_PACKET_SERVICES");

	int number = network_of_own();

	network_of_pod("10.244.1.2", number); /* for programs that look up the pod's sockets */
	network_of_pod("10.244.1.3", number);
	fixture_udp_backend_port(5353);
	fixture_quota(INT32_MAX); /* as on a node without a flood */
	establish();
	add_nodes();
	for (int i = 0; others && i < atoi(others); i++)
		add_other((uint32_t)i);
	printf("%-34s %8s %8s   ns per packet, %u runs\n", "", "min", "median", runs);
	for (int row = 0; row < ROWS(rows); row++)
		measure(&rows[row]);
	if (nodes)
		measure_nodes();
	if (getenv("MK_PACKET_CLIENT"))
		measure_clients();
	if (getenv("MK_PACKET_CLUSTERS"))
		measure_clusters();
	measure_connection();
	for (int row = 0; row < ROWS(shortages); row++)
		measure_shortage(row);
	if (getenv("MK_PACKET_CHAINS"))
		measure_chains();
	fixture_peer_address("192.168.99.12", "10.18.0.2");
	connect_node2();
	for (int row = 0; row < ROWS(node_rows); row++)
		measure(&node_rows[row]);
}
END_TEST

int main(void)
{
	const char *fewer = getenv("MK_PACKET_RUNS"), *others = getenv("MK_PACKET_NODES");
	Suite *suite = suite_create("perf");
	TCase *tcase = tcase_create("packet");
	SRunner *runner = srunner_create(suite);
	int failed;

	if (fewer && atoi(fewer) > 0 && atoi(fewer) < RUNS)
		runs = (unsigned)atoi(fewer);
	if (others)
		nodes = (unsigned)atoi(others);
	if (getenv("MK_PACKET_CLUSTERS"))
		fixture_clusters();
	if (keeps_client())
		fixture_keep_client();
	if (nodes)
		fixture_wide_cluster();
	fixture_nat_ports(PORT_MIN, PORT_MAX);
	tcase_add_unchecked_fixture(tcase, fixture_load, fixture_unload);
	tcase_add_checked_fixture(tcase, fixture_reset, NULL);
	tcase_set_timeout(tcase, 300);
	tcase_add_test(tcase, measure_all);
	suite_add_tcase(suite, tcase);
	srunner_run_all(runner, CK_MINIMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
