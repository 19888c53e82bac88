// SPDX-License-Identifier: Apache-2.0
/* Answers that go straight to a client outside (bpf/direct_return.h). This node is both: the one
 * that takes requests (node2 has the pods), and the one that has the pod (node2 takes requests). */
#include <linux/icmp.h>
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <stdio.h>
#include <string.h>

#include "datapath/maps/row.h"
#include "bpf/clients.h"
#include "bpf/run.h"
#include "rows.h"

/* Is node2 on the link? */
static void set_direct(bool is_direct)
{
	const struct mk_cidr cidr = family_cidr("10.244.2.0", 24);
	struct mk_route_key key = { cidr.prefix_bits, mk_ip_to_addr(&cidr.ip) };
	struct mk_route route = { .type = MK_ROUTE_OVERLAY, .is_direct = is_direct };
	const struct mk_node *node = fixture_node();
	__u32 number = mk_node_number(&key.addr, &node->cluster_mask, node->pod_host_bits);

	fixture_mac("10.18.0.2", route.vtep_mac);
	ck_assert_int_eq(row_update(fixture_map("routes"), &key, &route, BPF_ANY), 0);
	ck_assert_int_eq(row_update(fixture_map("node_routes"), &number, &route, 0), 0);
}

static void service(const char *frontend, uint16_t flags, const char *backend, bool is_local)
{
	const char *const backends[] = { backend, NULL };

	fixture_service(frontend, MK_SCOPE_EXTERNAL, flags | MK_FRONTEND_MAGLEV, backends, is_local,
			1);
}

/* Ports 30080: a pod of node2; 30081: of this node. The external address has both. */
static void setup(void)
{
	static const char *const protos[] = { "tcp", "udp", "sctp" };
	char frontend[64];

	fixture_reset();
	clients_put_nodes();
	set_direct(true);
	for (size_t i = 0; i < ROWS(protos); i++) {
		snprintf(frontend, sizeof(frontend), "%s 192.168.99.11:30080", protos[i]);
		service(frontend, MK_FRONTEND_MASQUERADE, "10.244.2.7:8080", false);
		snprintf(frontend, sizeof(frontend), "%s 192.168.99.11:30081", protos[i]);
		service(frontend, MK_FRONTEND_MASQUERADE, "10.244.1.3:8080", true);
		snprintf(frontend, sizeof(frontend), "%s 198.51.100.9:80", protos[i]);
		service(frontend, MK_FRONTEND_MASQUERADE, "10.244.2.7:8080", false);
		snprintf(frontend, sizeof(frontend), "%s 198.51.100.9:81", protos[i]);
		service(frontend, MK_FRONTEND_MASQUERADE, "10.244.1.3:8080", true);
	}
	fixture_vip("198.51.100.9");
}

static void setup_returning(void)
{
	fixture_return_directly();
	fixture_load_small();
}

/* ---- the node that takes the request --------------------------------------------------------- */

static const struct frame_options ack = { .tcp_flags = ACK };

static const struct taken {
	const char *request, *answer;
	struct frame_options next, answers;
} taken[] = {
	{ "tcp 203.0.113.9:5000 > 192.168.99.11:30080",
	  "tcp 192.168.99.11:30080 > 203.0.113.9:5000",
	  { .tcp_flags = ACK },
	  { .tcp_flags = SYN | ACK, .source_mac = NODE2 } },
	{ "udp 203.0.113.9:5000 > 192.168.99.11:30080",
	  "udp 192.168.99.11:30080 > 203.0.113.9:5000",
	  { 0 },
	  { .source_mac = NODE2 } },
	{ "sctp 203.0.113.9:5000 > 192.168.99.11:30080",
	  "sctp 192.168.99.11:30080 > 203.0.113.9:5000",
	  { .sctp_chunk = SCTP_COOKIE_ECHO },
	  { .sctp_chunk = SCTP_INIT_ACK, .source_mac = NODE2 } },
	{ "tcp 203.0.113.9:5000 > 198.51.100.9:80",
	  "tcp 198.51.100.9:80 > 203.0.113.9:5000",
	  { .tcp_flags = ACK },
	  { .tcp_flags = SYN | ACK, .source_mac = NODE2 } },
};

static void take(const struct taken *row)
{
	hop("the first", MK_HOOK_UPLINK, row->request, NULL, TO_OVERLAY, row->request, NODE2);
	hop("its answer", MK_HOOK_OVERLAY, row->answer, &row->answers, TO_UPLINK, row->answer,
	    NULL);
	hop("the second", MK_HOOK_UPLINK, row->request, &row->next, TO_OVERLAY, row->request,
	    NODE2);
}

/* The answer completes the session, so it is established. */
START_TEST(test_taken)
{
	take(&taken[_i]);
	ck_assert_uint_eq(fixture_count("sessions"), 2);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* The pod's FIN comes by this node, and the session is over. */
START_TEST(test_taken_ends)
{
	const struct frame_options fin = { .tcp_flags = FIN | ACK };
	const struct frame_options its = { .tcp_flags = FIN | ACK, .source_mac = NODE2 };
	const struct frame_options syn = { .seq = 900000 };

	take(&taken[0]);
	hop("FIN", MK_HOOK_UPLINK, taken[0].request, &fin, TO_OVERLAY, taken[0].request, NODE2);
	hop("its FIN", MK_HOOK_OVERLAY, taken[0].answer, &its, TO_UPLINK, taken[0].answer, NULL);
	set_direct(false);
	hop("the port again, on another way", MK_HOOK_UPLINK, taken[0].request, &syn, TO_OVERLAY,
	    "tcp 203.0.113.9:5000 > 10.244.2.7:8080", NODE2);
}
END_TEST

/* Without its session an answer goes out nevertheless: a FIN must not be lost. */
START_TEST(test_answer_of_no_session)
{
	hop("FIN", MK_HOOK_OVERLAY, taken[0].answer,
	    &(struct frame_options){ .tcp_flags = FIN | ACK, .source_mac = NODE2 }, TO_UPLINK,
	    taken[0].answer, NULL);
	hop("from another address", MK_HOOK_OVERLAY, "tcp 198.51.100.77:80 > 203.0.113.9:5000",
	    &(struct frame_options){ .tcp_flags = FIN | ACK, .source_mac = NODE2 }, DROPPED, NULL,
	    NULL);
}
END_TEST

/* The session of a flow keeps its way. */
START_TEST(test_ways_stay)
{
	set_direct(false);
	hop("translated", MK_HOOK_UPLINK, taken[0].request, NULL, TO_OVERLAY,
	    "tcp 203.0.113.9:5000 > 10.244.2.7:8080", NODE2);
	set_direct(true);
	hop("still", MK_HOOK_UPLINK, taken[0].request, &ack, TO_OVERLAY,
	    "tcp 203.0.113.9:5000 > 10.244.2.7:8080", NODE2);
	hop("unchanged", MK_HOOK_UPLINK, taken[1].request, NULL, TO_OVERLAY, taken[1].request,
	    NODE2);
	set_direct(false);
	hop("still", MK_HOOK_UPLINK, taken[1].request, NULL, TO_OVERLAY, taken[1].request, NODE2);
}
END_TEST

static const struct {
	const char *name, *request, *seen;
	enum where where;
} other_ways[] = {
	{ "a local pod", "tcp 203.0.113.9:5000 > 192.168.99.11:30081",
	  "tcp 203.0.113.9:5000 > 10.244.1.3:8080", TO_POD },
	{ "another node's address as client", "tcp 192.168.99.13:5000 > 192.168.99.11:30080", NULL,
	  TO_OVERLAY },
	{ "a Service with affinity", "tcp 203.0.113.9:5000 > 192.168.99.11:30084",
	  "tcp 203.0.113.9:5000 > 10.244.2.7:8080", TO_OVERLAY },
};

START_TEST(test_other_ways)
{
	struct mk_frontend frontend;
	struct frame out;

	service("tcp 192.168.99.11:30084", MK_FRONTEND_MASQUERADE, "10.244.2.7:8080", false);
	frontend = fixture_get_service("tcp 192.168.99.11:30084", MK_SCOPE_EXTERNAL);
	frontend.affinity_id = 7;
	frontend.affinity_timeout_s = 100;
	fixture_put_service("tcp 192.168.99.11:30084", MK_SCOPE_EXTERNAL, &frontend);
	out = hop(other_ways[_i].name, MK_HOOK_UPLINK, other_ways[_i].request, NULL,
		  other_ways[_i].where, other_ways[_i].seen, NULL);
	ck_assert_ptr_null(strstr(frame_flow(&out), " > 192.168.99.11:"));
}
END_TEST

/* ---- the node that has the pod --------------------------------------------------------------- */

static const struct served {
	const char *request, *seen, *answer, *answered;
	struct frame_options next, first;
} served[] = {
	{ "tcp 203.0.113.9:5000 > 192.168.99.12:30081",
	  "tcp 203.0.113.9:5000 > 10.244.1.3:8080",
	  "tcp 10.244.1.3:8080 > 203.0.113.9:5000",
	  "tcp 192.168.99.12:30081 > 203.0.113.9:5000",
	  { .tcp_flags = ACK, .source_mac = NODE2 },
	  { .tcp_flags = SYN | ACK } },
	{ "udp 203.0.113.9:5000 > 192.168.99.12:30081",
	  "udp 203.0.113.9:5000 > 10.244.1.3:8080",
	  "udp 10.244.1.3:8080 > 203.0.113.9:5000",
	  "udp 192.168.99.12:30081 > 203.0.113.9:5000",
	  { .source_mac = NODE2 },
	  { 0 } },
	{ "sctp 203.0.113.9:5000 > 192.168.99.12:30081",
	  "sctp 203.0.113.9:5000 > 10.244.1.3:8080",
	  "sctp 10.244.1.3:8080 > 203.0.113.9:5000",
	  "sctp 192.168.99.12:30081 > 203.0.113.9:5000",
	  { .sctp_chunk = SCTP_COOKIE_ECHO, .source_mac = NODE2 },
	  { .sctp_chunk = SCTP_INIT_ACK } },
	{ "tcp 203.0.113.9:5000 > 198.51.100.9:81",
	  "tcp 203.0.113.9:5000 > 10.244.1.3:8080",
	  "tcp 10.244.1.3:8080 > 203.0.113.9:5000",
	  "tcp 198.51.100.9:81 > 203.0.113.9:5000",
	  { .tcp_flags = ACK, .source_mac = NODE2 },
	  { .tcp_flags = SYN | ACK } },
};
static const struct frame_options by_node2 = { .source_mac = NODE2 };

static void serve(const struct served *row)
{
	struct frame_options data = { .tcp_flags = ACK, .sctp_chunk = SCTP_DATA };

	hop("the first", MK_HOOK_OVERLAY, row->request, &by_node2, TO_POD, row->seen, NULL);
	hop("its answer", MK_HOOK_POD, row->answer, &row->first, TO_OVERLAY, row->answered, NODE2);
	hop("the second", MK_HOOK_OVERLAY, row->request, &row->next, TO_POD, row->seen, NULL);
	hop("data", MK_HOOK_POD, row->answer, &data, TO_UPLINK, row->answered, NULL);
}

START_TEST(test_served)
{
	serve(&served[_i]);
	ck_assert_uint_eq(fixture_count("sessions"), 2);
	ck_assert_uint_eq(fixture_drops_total(), 0);
	ck_assert_uint_eq(fixture_count("nat_sessions") + fixture_count("nat_sessions_young"), 0);
}
END_TEST

/* What ends a connection goes by the node that took the request. */
START_TEST(test_served_ends)
{
	const struct frame_options rst = { .tcp_flags = RST | ACK };
	const struct frame_options fin = { .tcp_flags = FIN | ACK };

	serve(&served[0]);
	hop("FIN", MK_HOOK_POD, served[0].answer, &fin, TO_OVERLAY, served[0].answered, NODE2);
	hop("RST", MK_HOOK_POD, served[0].answer, &rst, TO_OVERLAY, served[0].answered, NODE2);
}
END_TEST

/* Two nodes bring the same client port for one pod: the pod sees two ports, and nothing is sent
 * back. */
START_TEST(test_two_nodes)
{
	const struct frame_options third = { .source_mac = NODE3 };
	const char *second = "tcp 203.0.113.9:5000 > 192.168.99.13:30081";
	struct frame out;

	serve(&served[0]);
	out = hop("by node3", MK_HOOK_OVERLAY, second, &third, TO_POD, NULL, NULL);
	ck_assert_msg(strncmp(frame_flow(&out), "tcp 203.0.113.9:", 16) == 0 &&
			      strcmp(frame_flow(&out), served[0].seen) != 0,
		      "%s", frame_flow(&out));
	hop("the first's data", MK_HOOK_POD, served[0].answer, &ack, TO_UPLINK, served[0].answered,
	    NULL);
}
END_TEST

/* A translated flow by another node with the same port: the pod sees another one, too. */
START_TEST(test_translated_beside)
{
	const struct frame_options third = { .source_mac = NODE3 };
	char seen[64], port[8];
	struct frame out;

	serve(&served[0]);
	out = hop("translated", MK_HOOK_OVERLAY, served[0].seen, &third, TO_POD, NULL, NULL);
	ck_assert_str_ne(frame_flow(&out), served[0].seen);
	ck_assert_int_eq(sscanf(frame_flow(&out), "tcp 203.0.113.9:%7[0-9]", port), 1);
	snprintf(seen, sizeof(seen), "tcp 10.244.1.3:8080 > 203.0.113.9:%s", port);
	hop("its answer", MK_HOOK_POD, seen, &ack, TO_OVERLAY, served[0].answer, NODE3);
}
END_TEST

static const struct {
	const char *name, *request, *mac;
	enum mk_drop_reason reason;
} refused[] = {
	{ "the address of a node that did not send it",
	  "tcp 203.0.113.9:5000 > 192.168.99.13:30081", NODE2, MK_DROP_OVERLAY_STRAY },
	{ "no such frontend", "tcp 203.0.113.9:5000 > 192.168.99.12:30099", NODE2,
	  MK_DROP_OVERLAY_STRAY },
	{ "no pod here", "tcp 203.0.113.9:5000 > 192.168.99.12:30080", NODE2,
	  MK_DROP_NO_LOCAL_BACKEND },
	{ "a pod as client", "tcp 10.244.2.7:5000 > 192.168.99.12:30081", NODE2,
	  MK_DROP_OVERLAY_STRAY },
};

START_TEST(test_refused)
{
	const struct frame_options with = { .source_mac = refused[_i].mac };

	hop(refused[_i].name, MK_HOOK_OVERLAY, refused[_i].request, &with, DROPPED, NULL, NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_OVERLAY, refused[_i].reason), 1);
	ck_assert_uint_eq(fixture_count("sessions") + fixture_count("sessions_young"), 0);
}
END_TEST

/* A local pod is chosen also if Maglev's choice is elsewhere. */
START_TEST(test_chooses_local)
{
	static const char *const backends[] = { "10.244.1.3:8080", "10.244.2.7:8080",
						"10.244.2.8:8080", "10.244.2.9:8080", NULL };
	char request[96];

	fixture_service("tcp 192.168.99.11:30085", MK_SCOPE_EXTERNAL,
			MK_FRONTEND_MASQUERADE | MK_FRONTEND_MAGLEV, backends, 1, 1);
	for (int port = 6000; port < 6020; port++) {
		snprintf(request, sizeof(request), "tcp 203.0.113.9:%d > 192.168.99.12:30085",
			 port);
		hop(request, MK_HOOK_OVERLAY, request, &by_node2, TO_POD, NULL, NULL);
	}
}
END_TEST

/* ---- ICMP errors ----------------------------------------------------------------------------- */

START_TEST(test_errors)
{
	struct frame error, out;

	take(&taken[1]);
	error = error_about(taken[1].answer, "icmp 198.51.100.1 > 192.168.99.11", NULL,
			    ICMP_FRAG_NEEDED);
	out = fixture_expect("about an answer", MK_HOOK_UPLINK, &error, TO_OVERLAY, NULL);
	ck_assert_str_eq(frame_mac_dest(&out), NODE2);
	ck_assert_ptr_nonnull(strstr(frame_flow(&out), taken[1].answer));
	serve(&served[1]);
	error = error_about(served[1].answered, "icmp 198.51.100.1 > 192.168.99.12", NODE2,
			    ICMP_FRAG_NEEDED);
	out = fixture_expect("at the pod's node", MK_HOOK_OVERLAY, &error, TO_POD, NULL);
	ck_assert_msg(strstr(frame_flow(&out), served[1].answer), "%s", frame_flow(&out));
	error = error_about(served[1].seen, "icmp 10.244.1.3 > 203.0.113.9", NULL,
			    ICMP_PORT_UNREACH);
	out = fixture_expect("the pod's", MK_HOOK_POD, &error, TO_OVERLAY, NULL);
	ck_assert_msg(strstr(frame_flow(&out), served[1].request), "%s", frame_flow(&out));
	error = error_about(taken[1].request, "icmp 192.168.99.11 > 203.0.113.9", NODE2,
			    ICMP_PORT_UNREACH);
	fixture_expect("on its way", MK_HOOK_OVERLAY, &error, TO_UPLINK, NULL);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* ---- off ------------------------------------------------------------------------------------- */

/* Without the setting packets are translated here, but another node's are taken. */
START_TEST(test_off)
{
	hop("translated", MK_HOOK_UPLINK, taken[0].request, NULL, TO_OVERLAY,
	    "tcp 203.0.113.9:5000 > 10.244.2.7:8080", NODE2);
	serve(&served[1]);
}
END_TEST

BPF_SUITE("direct_return")
{
	TCase *tcase = clients_case(suite, "direct_return", setup_returning, setup);

	tcase_add_loop_test(tcase, test_taken, 0, ROWS(taken));
	tcase_add_test(tcase, test_taken_ends);
	tcase_add_test(tcase, test_answer_of_no_session);
	tcase_add_test(tcase, test_ways_stay);
	tcase_add_loop_test(tcase, test_other_ways, 0, ROWS(other_ways));
	tcase_add_loop_test(tcase, test_served, 0, ROWS(served));
	tcase_add_test(tcase, test_served_ends);
	tcase_add_test(tcase, test_two_nodes);
	tcase_add_test(tcase, test_translated_beside);
	tcase_add_loop_test(tcase, test_refused, 0, ROWS(refused));
	tcase_add_test(tcase, test_chooses_local);
	tcase_add_test(tcase, test_errors);
	tcase_add_test(clients_case(suite, "off", clients_load_keeping, setup), test_off);
}
