// SPDX-License-Identifier: Apache-2.0
/* Clients outside that keep their address on the way to a pod of another node (bpf/client.h). The
 * node is both: the one that takes requests (node2 has the pod), and the one that has the pod
 * (node2 and node3 take requests). */
#include <linux/icmp.h>
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <stdio.h>
#include <string.h>

#include "bpf/clients.h"
#include "bpf/policy.h"
#include "bpf/run.h"
#include "rows.h"

static void service(const char *frontend, enum mk_scope scope, const char *backend)
{
	const char *const backends[] = { backend, NULL };

	fixture_service(frontend, scope, MK_FRONTEND_MASQUERADE | MK_FRONTEND_MAGLEV, backends, 0,
			1);
}

static void setup(void)
{
	static const char *const protos[] = { "tcp", "udp", "sctp" };
	char frontend[64];

	fixture_reset();
	clients_put_nodes();
	for (size_t i = 0; i < ROWS(protos); i++) {
		snprintf(frontend, sizeof(frontend), "%s 192.168.99.11:30080", protos[i]);
		service(frontend, MK_SCOPE_EXTERNAL, "10.244.2.7:8080");
	}
	service("tcp 192.168.99.11:30081", MK_SCOPE_EXTERNAL, "10.244.2.7:8080");
	service("tcp 192.168.99.11:30082", MK_SCOPE_EXTERNAL, "10.244.1.3:8080");
	service("tcp 192.168.99.11:30083", MK_SCOPE_EXTERNAL, "192.168.99.12:8080");
	service("tcp 192.168.99.11:30084", MK_SCOPE_EXTERNAL, "192.168.99.11:8080");
	service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, "10.244.2.7:8080");
}

/* ---- the node that takes the request --------------------------------------------------------- */

static const struct {
	const char *name, *request, *seen, *answer, *answered;
	enum where where;
	enum mk_hook back;
	struct frame_options with, answers;
} taken[] = {
	{ "TCP to a pod of another node",
	  "tcp 203.0.113.9:5000 > 192.168.99.11:30080",
	  "tcp 203.0.113.9:5000 > 10.244.2.7:8080",
	  "tcp 10.244.2.7:8080 > 203.0.113.9:5000",
	  "tcp 192.168.99.11:30080 > 203.0.113.9:5000",
	  TO_OVERLAY,
	  MK_HOOK_OVERLAY,
	  { 0 },
	  { .tcp_flags = SYN | ACK } },
	{ "UDP to a pod of another node",
	  "udp 203.0.113.9:5000 > 192.168.99.11:30080",
	  "udp 203.0.113.9:5000 > 10.244.2.7:8080",
	  "udp 10.244.2.7:8080 > 203.0.113.9:5000",
	  "udp 192.168.99.11:30080 > 203.0.113.9:5000",
	  TO_OVERLAY,
	  MK_HOOK_OVERLAY,
	  { 0 },
	  { 0 } },
	{ "SCTP to a pod of another node",
	  "sctp 203.0.113.9:5000 > 192.168.99.11:30080",
	  "sctp 203.0.113.9:5000 > 10.244.2.7:8080",
	  "sctp 10.244.2.7:8080 > 203.0.113.9:5000",
	  "sctp 192.168.99.11:30080 > 203.0.113.9:5000",
	  TO_OVERLAY,
	  MK_HOOK_OVERLAY,
	  { 0 },
	  { .sctp_chunk = SCTP_INIT_ACK } },
	{ "to a pod of this node",
	  "tcp 203.0.113.9:5000 > 192.168.99.11:30082",
	  "tcp 203.0.113.9:5000 > 10.244.1.3:8080",
	  "tcp 10.244.1.3:8080 > 203.0.113.9:5000",
	  "tcp 192.168.99.11:30082 > 203.0.113.9:5000",
	  TO_POD,
	  MK_HOOK_POD,
	  { 0 },
	  { .tcp_flags = SYN | ACK } },
};

START_TEST(test_taken)
{
	hop(taken[_i].name, MK_HOOK_UPLINK, taken[_i].request, &taken[_i].with, taken[_i].where,
	    taken[_i].seen, taken[_i].where == TO_OVERLAY ? NODE2 : NULL);
	hop("its answer", taken[_i].back, taken[_i].answer, &taken[_i].answers, TO_UPLINK,
	    taken[_i].answered, NULL);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

static const struct {
	const char *name, *request;
	enum mk_hook hook;
	enum where where;
} hidden[] = {
	{ "another node's own address", "tcp 192.168.99.13:5000 > 192.168.99.11:30080",
	  MK_HOOK_UPLINK, TO_OVERLAY },
	{ "a backend in another node's network", "tcp 203.0.113.9:5000 > 192.168.99.11:30083",
	  MK_HOOK_UPLINK, TO_UPLINK },
	{ "a backend in this node's network", "tcp 203.0.113.9:5000 > 192.168.99.11:30084",
	  MK_HOOK_UPLINK, TO_HOST },
	{ "a pod of masqueradeAll", "tcp 10.244.1.2:5000 > 10.96.0.10:80", MK_HOOK_POD,
	  TO_OVERLAY },
};

START_TEST(test_hidden)
{
	struct frame out = hop(hidden[_i].name, hidden[_i].hook, hidden[_i].request, NULL,
			       hidden[_i].where, NULL, NULL);

	ck_assert_msg(!strstr(frame_flow(&out), "203.0.113.9:") &&
			      !strstr(frame_flow(&out), "192.168.99.13:") &&
			      !strstr(frame_flow(&out), "10.244.1.2:"),
		      "%s: %s", hidden[_i].name, frame_flow(&out));
}
END_TEST

/* One port towards two frontends with the same pod: the second flow gets another port. */
START_TEST(test_two_frontends)
{
	struct frame out;

	hop("the first", MK_HOOK_UPLINK, taken[0].request, NULL, TO_OVERLAY, taken[0].seen, NODE2);
	out = hop("the second", MK_HOOK_UPLINK, "tcp 203.0.113.9:5000 > 192.168.99.11:30081", NULL,
		  TO_OVERLAY, NULL, NODE2);
	ck_assert_msg(strncmp(frame_flow(&out), "tcp 203.0.113.9:", 16) == 0 &&
			      strcmp(frame_flow(&out), taken[0].seen) != 0,
		      "%s", frame_flow(&out));
}
END_TEST

START_TEST(test_answer_of_no_session)
{
	hop("TCP", MK_HOOK_OVERLAY, taken[0].answer, &taken[0].answers, DROPPED, NULL, NULL);
	hop("UDP", MK_HOOK_OVERLAY, taken[1].answer, NULL, DROPPED, NULL, NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_OVERLAY, MK_DROP_OVERLAY_STRAY), 2);
}
END_TEST

/* ---- the node that has the pod --------------------------------------------------------------- */

static const struct served {
	const char *request, *answer;
	struct frame_options with, answers;
} served[] = {
	{ "tcp 203.0.113.9:5000 > 10.244.1.3:8080",
	  "tcp 10.244.1.3:8080 > 203.0.113.9:5000",
	  { .source_mac = NODE2 },
	  { .tcp_flags = SYN | ACK } },
	{ "tcp 203.0.113.9:5001 > 10.244.1.3:8080", /* its session was lost */
	  "tcp 10.244.1.3:8080 > 203.0.113.9:5001",
	  { .source_mac = NODE2, .tcp_flags = ACK },
	  { .tcp_flags = ACK } },
	{ "udp 203.0.113.9:5000 > 10.244.1.3:8080",
	  "udp 10.244.1.3:8080 > 203.0.113.9:5000",
	  { .source_mac = NODE2 },
	  { 0 } },
	{ "sctp 203.0.113.9:5000 > 10.244.1.3:8080",
	  "sctp 10.244.1.3:8080 > 203.0.113.9:5000",
	  { .source_mac = NODE2 },
	  { .sctp_chunk = SCTP_INIT_ACK } },
};

static void serve(const struct served *row)
{
	hop(row->request, MK_HOOK_OVERLAY, row->request, &row->with, TO_POD, row->request, NULL);
	hop(row->answer, MK_HOOK_POD, row->answer, &row->answers, TO_OVERLAY, row->answer, NODE2);
}

START_TEST(test_served)
{
	serve(&served[_i]);
	ck_assert_uint_eq(fixture_drops_total(), 0);
	ck_assert_uint_eq(fixture_count("nat_sessions") + fixture_count("nat_sessions_young"), 0);
}
END_TEST

START_TEST(test_established)
{
	const struct frame_options ack = { .tcp_flags = ACK, .source_mac = NODE2 };

	serve(&served[0]);
	hop("ACK", MK_HOOK_OVERLAY, served[0].request, &ack, TO_POD, served[0].request, NULL);
	hop("data", MK_HOOK_POD, served[0].answer, &(struct frame_options){ .tcp_flags = ACK },
	    TO_OVERLAY, served[0].answer, NODE2);
	ck_assert_uint_eq(fixture_count("sessions"), 2);
}
END_TEST

/* Which node the client came by is part of the session, not its first packet's only. */
START_TEST(test_port_used_again)
{
	const struct frame_options fin = { .tcp_flags = FIN | ACK, .source_mac = NODE2 };
	const struct frame_options ack = { .tcp_flags = ACK, .source_mac = NODE2 };
	const struct frame_options third = { .source_mac = NODE3 };

	serve(&served[0]);
	hop("ACK", MK_HOOK_OVERLAY, served[0].request, &ack, TO_POD, NULL, NULL);
	hop("FIN", MK_HOOK_OVERLAY, served[0].request, &fin, TO_POD, NULL, NULL);
	hop("its FIN", MK_HOOK_POD, served[0].answer,
	    &(struct frame_options){ .tcp_flags = FIN | ACK }, TO_OVERLAY, NULL, NODE2);
	hop("SYN by another node", MK_HOOK_OVERLAY, served[0].request, &third, TO_POD, NULL, NULL);
	hop("SYN-ACK", MK_HOOK_POD, served[0].answer, &served[0].answers, TO_OVERLAY, NULL, NODE3);
}
END_TEST

/* The same client port by another node: its packets go back there. */
START_TEST(test_collision)
{
	const struct frame_options third = { .source_mac = NODE3 };

	serve(&served[_i]);
	hop("by another node", MK_HOOK_OVERLAY, served[_i].request, &third, TO_OVERLAY,
	    served[_i].request, NODE3);
	serve(&served[_i]);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* The client uses the port towards a NodePort of this node, too, with the same pod. */
START_TEST(test_own_node_port)
{
	static const char *const local[] = { "10.244.1.3:8080", NULL };

	fixture_service("tcp 192.168.99.11:30085", MK_SCOPE_EXTERNAL, 0, local, 1, 1);
	hop("this node's NodePort", MK_HOOK_UPLINK, "tcp 203.0.113.9:5000 > 192.168.99.11:30085",
	    NULL, TO_POD, served[0].request, NULL);
	hop("another node's", MK_HOOK_OVERLAY, served[0].request, &served[0].with, TO_POD, NULL,
	    NULL);
	hop("answer of the first", MK_HOOK_POD, served[0].answer, &served[0].answers, TO_UPLINK,
	    "tcp 192.168.99.11:30085 > 203.0.113.9:5000", NULL);
}
END_TEST

START_TEST(test_errors)
{
	struct frame error, out;

	serve(&served[2]);
	error = error_about(served[2].request, "icmp 10.244.1.3 > 203.0.113.9", NULL,
			    ICMP_PORT_UNREACH);
	out = fixture_expect("the pod's", MK_HOOK_POD, &error, TO_OVERLAY, NULL);
	ck_assert_str_eq(frame_mac_dest(&out), NODE2);
	error = error_about(served[2].answer, "icmp 198.51.100.1 > 10.244.1.3", NODE2,
			    ICMP_FRAG_NEEDED);
	fixture_expect("a router's", MK_HOOK_OVERLAY, &error, TO_POD, NULL);
	hop("this node's", MK_HOOK_OVERLAY, served[2].request,
	    &(struct frame_options){ .source_mac = NODE2, .ttl = 1 }, TO_OVERLAY, NULL, NODE2);
	hop("taken", MK_HOOK_UPLINK, taken[1].request, NULL, TO_OVERLAY, NULL, NULL);
	error = error_about(taken[1].seen, "icmp 10.244.2.7 > 203.0.113.9", NULL,
			    ICMP_PORT_UNREACH);
	out = fixture_expect("of another node's pod", MK_HOOK_OVERLAY, &error, TO_UPLINK, NULL);
	ck_assert_msg(strstr(frame_flow(&out), "icmp-error 192.168.99.11 > 203.0.113.9") &&
			      strstr(frame_flow(&out), taken[1].request),
		      "%s", frame_flow(&out));
	error = error_about(taken[1].answered, "icmp 198.51.100.1 > 192.168.99.11", NULL,
			    ICMP_FRAG_NEEDED);
	out = fixture_expect("about its answer", MK_HOOK_UPLINK, &error, TO_OVERLAY, NULL);
	ck_assert_str_eq(frame_mac_dest(&out), NODE2);
	ck_assert_ptr_nonnull(strstr(frame_flow(&out), taken[1].answer));
}
END_TEST

/* A pod that is gone is answered for, by the node that took the request. */
START_TEST(test_no_pod)
{
	const struct frame_options with = { .source_mac = NODE2 };

	hop("no pod", MK_HOOK_OVERLAY, "udp 203.0.113.9:5000 > 10.244.1.77:53", &with, TO_OVERLAY,
	    NULL, NODE2);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_OVERLAY, MK_DROP_NO_POD), 1);
}
END_TEST

/* An answer that does not fit: the pod learns it with TCP; datagrams' carriers are cut. */
START_TEST(test_long_answers)
{
	const struct frame_options longer = { .tcp_flags = ACK,
					      .packet_bytes = 1451,
					      .fragment = DF };
	struct frame out;

	serve(&served[0]);
	out = hop("TCP", MK_HOOK_POD, served[0].answer, &longer, TO_POD, NULL, NULL);
	ck_assert_ptr_nonnull(strstr(frame_flow(&out), "icmp-error"));
	serve(&served[2]);
	hop("UDP", MK_HOOK_POD, served[2].answer, &longer, family_is6() ? TO_POD : TO_OVERLAY, NULL,
	    NULL);
}
END_TEST

/* A connection of this client by another NodePort of this node has the port, for good. */
static void occupy(const char *frontend, const char *seen, const char *answer)
{
	static const char *const local[] = { "10.244.1.3:8080", NULL };
	const struct frame_options ack = { .tcp_flags = ACK };
	char name[64], request[96];

	snprintf(name, sizeof(name), "tcp %s", frontend);
	snprintf(request, sizeof(request), "tcp 203.0.113.9:5000 > %s", frontend);
	fixture_service(name, MK_SCOPE_EXTERNAL, 0, local, 1, 1);
	hop(request, MK_HOOK_UPLINK, request, NULL, TO_POD, seen, NULL);
	hop("SYN-ACK", MK_HOOK_POD, answer, &served[0].answers, TO_UPLINK, NULL, NULL);
	hop("ACK", MK_HOOK_UPLINK, request, &ack, TO_POD, seen, NULL);
}

START_TEST(test_no_port)
{
	occupy("192.168.99.11:30090", served[0].request, served[0].answer);
	occupy("192.168.99.11:30091", "tcp 203.0.113.9:50000 > 10.244.1.3:8080",
	       "tcp 10.244.1.3:8080 > 203.0.113.9:50000");
	hop("no free port", MK_HOOK_OVERLAY, served[0].request, &served[0].with, TO_OVERLAY,
	    served[0].request, NODE2);
}
END_TEST

static void setup_one_port(void)
{
	fixture_nat_ports(50000, 50000);
	clients_load_keeping();
}

/* This host asks another node's NodePort from an address that only this host knows. */
START_TEST(test_own_host)
{
	fixture_host_address("203.0.113.9");
	hop("its own address", MK_HOOK_OVERLAY, served[0].request, &served[0].with, TO_OVERLAY,
	    served[0].request, NODE2);
}
END_TEST

/* ---- sent back ------------------------------------------------------------------------------- */

static void send_back(const char *name, int row)
{
	const struct frame_options with = { .source_mac = NODE2 };
	struct frame out =
		hop(name, MK_HOOK_OVERLAY, taken[row].seen, &with, TO_OVERLAY, NULL, NODE2);

	ck_assert_msg(strstr(frame_flow(&out), " 10.244.1.1:5000 > 10.244.2.7:8080"), "%s: %s",
		      name, frame_flow(&out));
}

static void go_on_masqueraded(int row)
{
	char answer[96], proto[8];

	ck_assert_int_eq(sscanf(taken[row].request, "%7s", proto), 1);
	snprintf(answer, sizeof(answer), "%s 10.244.2.7:8080 > 10.244.1.1:5000", proto);
	hop("the answer", MK_HOOK_OVERLAY, answer, &taken[row].answers, TO_UPLINK,
	    taken[row].answered, NULL);
}

/* The flow goes on masqueraded, also with the packets that had left before the first came back. */
START_TEST(test_sent_back)
{
	struct frame out;

	hop("request", MK_HOOK_UPLINK, taken[_i].request, NULL, TO_OVERLAY, taken[_i].seen, NODE2);
	send_back("the first", _i);
	send_back("the second", _i);
	out = hop("the next one", MK_HOOK_UPLINK, taken[_i].request, NULL, TO_OVERLAY, NULL, NODE2);
	ck_assert_ptr_nonnull(strstr(frame_flow(&out), " 10.244.1.1:5000 > "));
	go_on_masqueraded(_i);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

START_TEST(test_sent_back_of_no_session)
{
	const struct frame_options with = { .source_mac = NODE2 };

	hop("unknown", MK_HOOK_OVERLAY, taken[0].seen, &with, DROPPED, NULL, NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_OVERLAY, MK_DROP_OVERLAY_STRAY), 1);
}
END_TEST

/* Only the node that has the pod may say so. */
START_TEST(test_sent_back_by_other)
{
	const struct frame_options with = { .source_mac = NODE3 };

	hop("request", MK_HOOK_UPLINK, taken[0].request, NULL, TO_OVERLAY, taken[0].seen, NODE2);
	hop("by node3", MK_HOOK_OVERLAY, taken[0].seen, &with, DROPPED, NULL, NULL);
	hop("the next one", MK_HOOK_UPLINK, taken[0].request, NULL, TO_OVERLAY, taken[0].seen,
	    NODE2);
}
END_TEST

/* ---- the setting is off ---------------------------------------------------------------------- */

START_TEST(test_off)
{
	struct frame out =
		hop("request", MK_HOOK_UPLINK, taken[0].request, NULL, TO_OVERLAY, NULL, NODE2);

	ck_assert_str_eq(frame_flow(&out), "tcp 10.244.1.1:5000 > 10.244.2.7:8080");
	serve(&served[0]); /* other nodes may have it already */
}
END_TEST

/* ---- policies -------------------------------------------------------------------------------- */

/* The client's address is judged, not the node's by which it came. */
START_TEST(test_policies)
{
	static const struct policy_row row = {
		"the client's address",
		{ "set S isolates 203.0.113.0/24=tcp", "pod 10.244.1.3 in=S out=open",
		  "overlay tcp 198.51.100.9:5000 > 10.244.1.3:8080 syn = POLICY_INGRESS",
		  "overlay tcp 198.51.100.9:5000 > 10.244.1.3:8080 ack = POLICY_NO_FLOW",
		  "sessions 0" }
	};

	policy_start();
	policy_run(&row);
	serve(&served[0]);
}
END_TEST

/* ---- chains ---------------------------------------------------------------------------------- */

#define CLIENT "203.0.113.9:5000"
#define POD    "10.244.1.3:8080"
#define CHAINED                                                               \
	"chain 2 4", "function 4 4", "set i any=all+2 unknown=all+2 *=all+2", \
		"pod 10.244.1.3 in=i out=open", "by 10.18.0.2"

/* The pod's node has the chain. The functions see the client, and its node gets the answers. */
static const struct policy_row chained[] = {
	{ "by a function of this node",
	  { CHAINED, "replica 4 bridged",
	    "overlay tcp " CLIENT " > " POD " syn = into 4 outside 10.244.1.3 tcp " CLIENT
	    " > " POD,
	    "from 4 inside = tcp " CLIENT " > " POD, "went to a pod",
	    "pod tcp " POD " > " CLIENT " synack = into 4 inside 10.244.1.3",
	    "overlay tcp " CLIENT " > " POD " ack = into 4 outside 10.244.1.3",
	    "from 4 outside tcp " POD " > " CLIENT " synack = tcp " POD " > " CLIENT,
	    "went to the overlay", "sessions 2" } },
	{ "by a function of another node",
	  { CHAINED, "replica 4 on 10.18.0.2",
	    "overlay udp " CLIENT " > " POD " = to 10.18.0.2 4 outside 7 udp " CLIENT " > " POD,
	    "returns 4 inside = udp " CLIENT " > " POD, "went to a pod",
	    "pod udp " POD " > " CLIENT " = to 10.18.0.2 4 inside 7",
	    "returns 4 outside = udp " POD " > " CLIENT, "went to the overlay" } },
	{ "the function is skipped",
	  { CHAINED, "chain 2 4s", "replica 4 bridged lost",
	    "overlay tcp " CLIENT " > " POD " syn = tcp " CLIENT " > " POD,
	    "pod tcp " POD " > " CLIENT " synack = tcp " POD " > " CLIENT,
	    "went to the overlay" } },
};

/* Run @row. Its last frame is for @node. */
static void leave_chain_to(const char *node, const struct policy_row *row)
{
	const char *mac;

	policy_start();
	policy_run(row);
	mac = frame_mac_dest(policy_last_frame());
	ck_assert_msg(strcmp(mac, node) == 0, "%s: to %s", row->rule, mac);
}

START_TEST(test_chained)
{
	const struct frame_options third = { .source_mac = NODE3 };

	leave_chain_to(NODE2, &chained[_i]);
	hop("by another node", MK_HOOK_OVERLAY, served[_i == 1 ? 2 : 0].request, &third, TO_OVERLAY,
	    NULL, NODE3);
}
END_TEST

/* The last frame is for the node that the session names, or that has the address. A program before
 * the router may have left another number in skb->cb[4]: a tap's, or a drop reason. */
static const struct {
	const char *node;
	struct policy_row row;
} out_of_function[] = {
	{ NODE3,
	  { "to another node itself",
	    { CHAINED, "replica 4 bridged", "by 10.18.0.3",
	      "overlay tcp 192.168.99.13:5000 > " POD " syn = into 4 outside 10.244.1.3",
	      "from 4 inside = passes",
	      "pod tcp " POD " > 192.168.99.13:5000 synack = into 4 inside 10.244.1.3",
	      "from 4 outside = tcp " POD " > 192.168.99.13:5000", "went to the overlay" } } },
	{ NODE2,
	  { "past a tap to a client outside",
	    { CHAINED, "chain 2 1s", "function 1 1", "replica 1 tap",
	      "overlay tcp " CLIENT " > " POD " syn = tcp " CLIENT " > " POD, "went to a pod",
	      "copied 1 outside 10.244.1.3",
	      "pod tcp " POD " > " CLIENT " synack = tcp " POD " > " CLIENT, "went to the overlay",
	      "copied 1 inside 10.244.1.3" } } },
	{ NODE3,
	  { "past a tap to another node itself",
	    { CHAINED, "chain 2 1s", "function 1 1", "replica 1 tap", "by 10.18.0.3",
	      "overlay tcp 192.168.99.13:5000 > " POD " syn = passes", "went to a pod",
	      "copied 1 outside 10.244.1.3", "pod tcp " POD " > 192.168.99.13:5000 synack = passes",
	      "went to the overlay", "copied 1 inside 10.244.1.3" } } },
	{ NODE2,
	  { "the pod's ICMP error",
	    { CHAINED, "replica 4 bridged",
	      "overlay udp " CLIENT " > " POD " = into 4 outside 10.244.1.3",
	      "from 4 inside = passes",
	      "pod 10.244.1.3 > 203.0.113.9 about udp " CLIENT " > " POD
	      " = into 4 inside 10.244.1.3",
	      "from 4 outside = passes", "went to the overlay" } } },
	{ NODE2,
	  { "this node's ICMP error about a packet too long for the function's node",
	    { CHAINED, "replica 4 on 10.18.0.3",
	      "overlay udp " CLIENT " > " POD " = to 10.18.0.3 4 outside 7",
	      "overlay udp " CLIENT " > " POD " whole = icmp-error 192.168.99.11 > 203.0.113.9 3/4 "
	      "[udp " CLIENT " > " POD "]",
	      "went to the overlay" } } },
};

START_TEST(test_out_of_function)
{
	leave_chain_to(out_of_function[_i].node, &out_of_function[_i].row);
}
END_TEST

START_TEST(test_chained_no_port)
{
	static const struct policy_row row = { "a chain", { CHAINED, "replica 4 bridged" } };

	occupy("192.168.99.11:30090", served[0].request, served[0].answer);
	occupy("192.168.99.11:30091", "tcp 203.0.113.9:50000 > 10.244.1.3:8080",
	       "tcp 10.244.1.3:8080 > 203.0.113.9:50000");
	policy_start();
	policy_run(&row);
	hop("no free port", MK_HOOK_OVERLAY, served[0].request, &served[0].with, TO_OVERLAY,
	    served[0].request, NODE2);
}
END_TEST

BPF_SUITE("client")
{
	TCase *tcase = clients_case(suite, "client", clients_load_keeping, setup);

	tcase_add_loop_test(tcase, test_taken, 0, ROWS(taken));
	tcase_add_loop_test(tcase, test_hidden, 0, ROWS(hidden));
	tcase_add_test(tcase, test_two_frontends);
	tcase_add_test(tcase, test_answer_of_no_session);
	tcase_add_loop_test(tcase, test_served, 0, ROWS(served));
	tcase_add_test(tcase, test_established);
	tcase_add_test(tcase, test_port_used_again);
	tcase_add_loop_test(tcase, test_collision, 0, ROWS(served));
	tcase_add_test(tcase, test_own_node_port);
	tcase_add_test(tcase, test_errors);
	tcase_add_test(tcase, test_no_pod);
	tcase_add_test(tcase, test_long_answers);
	tcase_add_test(tcase, test_own_host);
	tcase_add_loop_test(tcase, test_sent_back, 0, ROWS(taken) - 1);
	tcase_add_test(tcase, test_sent_back_of_no_session);
	tcase_add_test(tcase, test_sent_back_by_other);
	tcase_add_test(tcase, test_policies);
	tcase_add_loop_test(tcase, test_chained, 0, ROWS(chained));
	tcase_add_loop_test(tcase, test_out_of_function, 0, ROWS(out_of_function));
	tcase = clients_case(suite, "one port", setup_one_port, setup);
	tcase_add_test(tcase, test_no_port);
	tcase_add_test(tcase, test_chained_no_port);
	tcase_add_test(clients_case(suite, "masqueraded", fixture_load_small, setup), test_off);
}
