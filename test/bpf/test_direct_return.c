// SPDX-License-Identifier: Apache-2.0
/* Answers that go straight to a client outside (bpf/direct_return.h), with the overlay between the
 * nodes, and with the link. */
#include <linux/icmp.h>
#include <linux/if_ether.h>
#include <stdio.h>
#include <string.h>

#include "bpf/delegated.h"
#include "bpf/run.h"
#include "rows.h"

/* ---- the node that takes the request --------------------------------------------------------- */

static const struct frame_options ack = { .tcp_flags = ACK };

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
	const struct frame_options syn = { .seq = 900000 };

	take(&taken[0]);
	to_node2("FIN", MK_HOOK_UPLINK, taken[0].request, &fin, taken[0].request);
	from_node2("its FIN", taken[0].answer, &fin, TO_UPLINK, taken[0].answer);
	set_direct(false);
	hop("the port again, on another way", MK_HOOK_UPLINK, taken[0].request, &syn, TO_OVERLAY,
	    "tcp 203.0.113.9:5000 > 10.244.2.7:8080", NODE2);
}
END_TEST

/* This node does not see what the pod acknowledges, so any RST of the client ends the session. */
START_TEST(test_client_resets)
{
	const struct frame_options far = { .tcp_flags = RST, .seq = 1001 + (9 << 20) };
	const struct frame_options syn = { .seq = 900000 };

	take(&taken[0]);
	to_node2("RST after 9 MiB", MK_HOOK_UPLINK, taken[0].request, &far, taken[0].request);
	set_direct(false);
	hop("the port again, on another way", MK_HOOK_UPLINK, taken[0].request, &syn, TO_OVERLAY,
	    "tcp 203.0.113.9:5000 > 10.244.2.7:8080", NODE2);
}
END_TEST

/* Without its session an answer goes out nevertheless: a FIN must not be lost. From an unknown
 * address it may be a request, and goes back to its node (test_sent_back), which drops it. */
START_TEST(test_answer_of_no_session)
{
	const struct frame_options fin = { .tcp_flags = FIN | ACK };

	from_node2("FIN", taken[0].answer, &fin, TO_UPLINK, taken[0].answer);
	from_node2("from another address", "tcp 198.51.100.77:80 > 203.0.113.9:5000", &fin,
		   TO_OVERLAY, "tcp 198.51.100.77:80 > 203.0.113.9:5000");
}
END_TEST

/* The external address is gone here. Its connections stay, and answers of the pod's node go out. */
START_TEST(test_external_address_gone)
{
	const struct frame_options fin = { .tcp_flags = FIN | ACK };
	const struct mk_runtime runtime = { .frontends_gone = 1, .peers_known = 1 };
	struct mk_frontend_key key = { .proto = IPPROTO_TCP, .scope = MK_SCOPE_EXTERNAL };

	take(&taken[3]);
	fixture_addr_port("198.51.100.9:80", &key.addr, &key.port);
	ck_assert_int_eq(row_delete(fixture_map("frontends"), &key), 0);
	key = (struct mk_frontend_key){ .addr = key.addr,
					.proto = MK_PROTO_ANY,
					.scope = MK_SCOPE_INTERNAL };
	ck_assert_int_eq(row_delete(fixture_map("frontends"), &key), 0);
	fixture_runtime(&runtime);
	to_node2("more", MK_HOOK_UPLINK, taken[3].request, &ack, taken[3].request);
	from_node2("FIN", taken[3].answer, &fin, TO_UPLINK, taken[3].answer);
	ck_assert_uint_eq(fixture_drops_total(), 0);
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
	to_node2("unchanged", MK_HOOK_UPLINK, taken[1].request, NULL, taken[1].request);
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

	delegated_service("tcp 192.168.99.11:30084", MK_FRONTEND_MASQUERADE, "10.244.2.7:8080",
			  false);
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
	to_node2("FIN", MK_HOOK_POD, served[0].answer, &fin, served[0].answered);
	to_node2("RST", MK_HOOK_POD, served[0].answer, &rst, served[0].answered);
}
END_TEST

/* The external address moves to node3, as if node2 had died, and then to this node: what ends or begins
 * a flow goes where its last request came from. */
static void answer_by(const char *name, const struct served *of, const char *mac)
{
	const struct frame_options fin = { .tcp_flags = FIN | ACK, .sctp_chunk = SCTP_SHUTDOWN };

	hop(name, MK_HOOK_POD, of->answer, &fin, mac ? between.where : TO_UPLINK, of->answered,
	    mac);
}

START_TEST(test_address_moves)
{
	static const struct served external[] = {
		{ .request = "tcp 203.0.113.9:5000 > 198.51.100.9:81",
		  .answered = "tcp 198.51.100.9:81 > 203.0.113.9:5000" },
		{ .request = "udp 203.0.113.9:5000 > 198.51.100.9:81",
		  .answered = "udp 198.51.100.9:81 > 203.0.113.9:5000" },
		{ .request = "sctp 203.0.113.9:5000 > 198.51.100.9:81",
		  .answered = "sctp 198.51.100.9:81 > 203.0.113.9:5000" },
	};
	struct served of = served[_i];
	const char *mac3 = between.ifindex ? LINK3 : NODE3;

	of.request = external[_i].request;
	of.answered = external[_i].answered;
	from_node2("by node2", of.request, NULL, TO_POD, of.seen);
	from_node(between.mac3, "by node3", of.request, &of.next, TO_POD, of.seen);
	answer_by("its answer", &of, mac3);
	hop("by this node", MK_HOOK_UPLINK, of.request, &of.next, TO_POD, of.seen, NULL);
	answer_by("its answer straight", &of, NULL);
	from_node2("by node2 again", of.request, &of.next, TO_POD, of.seen);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* Two nodes bring the same client port for one pod: the pod sees two ports, and nothing is sent
 * back. */
START_TEST(test_two_nodes)
{
	const char *second = "tcp 203.0.113.9:5000 > 192.168.99.13:30081";
	struct frame out;

	serve(&served[0]);
	out = from_node(between.mac3, "by node3", second, NULL, TO_POD, NULL);
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
	const char *name, *request;
	enum mk_drop_reason reason;
} refused[] = {
	{ "a source range", "tcp 203.0.113.9:5000 > 192.168.99.12:30086", MK_DROP_SOURCE_RANGE },
	{ "a pod as client", "tcp 10.244.2.7:5000 > 192.168.99.12:30081", MK_DROP_OVERLAY_STRAY },
};

START_TEST(test_refused)
{
	const struct frame_options with = { .source_mac = NODE2 };
	struct mk_frontend frontend;

	delegated_service("tcp 192.168.99.11:30086", MK_FRONTEND_MASQUERADE, "10.244.1.3:8080",
			  true);
	frontend = fixture_get_service("tcp 192.168.99.11:30086", MK_SCOPE_EXTERNAL);
	frontend.ranges_id = 77; /* map source_ranges has no entry with this id */
	fixture_put_service("tcp 192.168.99.11:30086", MK_SCOPE_EXTERNAL, &frontend);
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
		from_node2(request, request, NULL, TO_POD, NULL);
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
	out = send_error("about an answer", MK_HOOK_UPLINK, error, between.where, taken[1].answer);
	if (between.to_node2)
		ck_assert_str_eq(frame_mac_dest(&out), between.to_node2);
	serve(&served[1]);
	error = error_about(served[1].answered, "icmp 198.51.100.1 > 192.168.99.12", between.mac2,
			    ICMP_FRAG_NEEDED);
	send_error("at the pod's node", between.hook, error, TO_POD, served[1].answer);
	error = error_about(served[1].seen, "icmp 10.244.1.3 > 203.0.113.9", NULL,
			    ICMP_PORT_UNREACH);
	send_error("the pod's", MK_HOOK_POD, error, between.where, served[1].request);
	error = error_about(taken[1].request, "icmp 192.168.99.11 > 203.0.113.9", between.mac2,
			    ICMP_PORT_UNREACH);
	send_error("on its way", between.hook, error, TO_UPLINK, taken[1].request);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

START_TEST(test_errors_of_external)
{
	struct frame error;

	take(&taken[3]);
	error = error_about(taken[3].request, "icmp 198.51.100.9 > 203.0.113.9", between.mac2,
			    ICMP_PORT_UNREACH);
	send_error("on its way", between.hook, error, TO_UPLINK, taken[3].request);
	serve(&served[3]);
	error = error_about(served[3].answered, "icmp 198.51.100.1 > 198.51.100.9", between.mac2,
			    ICMP_FRAG_NEEDED);
	send_error("at the pod's node", between.hook, error, TO_POD, served[3].answer);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* Routers that spread packets over nodes send an error by any node. This one finds the pod's node as
 * the node that took the flow did. Flows to a node's own address come by that node only. */
START_TEST(test_error_by_another_node)
{
	struct frame error, out;

	error = error_about(taken[3].answer, "icmp 198.51.100.1 > 198.51.100.9", NULL,
			    ICMP_FRAG_NEEDED);
	out = send_error("an external address", MK_HOOK_UPLINK, error, between.where,
			 taken[3].answer);
	if (between.to_node2)
		ck_assert_str_eq(frame_mac_dest(&out), between.to_node2);
	error = error_about(taken[1].answer, "icmp 198.51.100.1 > 192.168.99.11", NULL,
			    ICMP_FRAG_NEEDED);
	send_error("a NodePort", MK_HOOK_UPLINK, error, TO_HOST, taken[1].answer);
	error = error_about("tcp 198.51.100.9:82 > 203.0.113.9:5000",
			    "icmp 198.51.100.1 > 198.51.100.9", NULL, ICMP_FRAG_NEEDED);
	send_error("an unknown port", MK_HOOK_UPLINK, error, TO_HOST, "198.51.100.9:82");
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* ---- rounds ---------------------------------------------------------------------------------- */

/* A client's packet that comes back by the node that it was sent to must not go round: no pod is
 * here, so it gets the mark (test_sent_back). */
START_TEST(test_no_round)
{
	struct frame out;

	to_node2("the first", MK_HOOK_UPLINK, taken[3].request, NULL, taken[3].request);
	from_node(between.mac3, "by another node", taken[3].request, NULL, between.where, NULL);
	out = from_node(between.mac2, "back", taken[3].request, NULL, TO_OVERLAY, taken[3].request);
	ck_assert_uint_eq(out.byte[ETH_ALEN], fixture_node()->vtep_mac[0] | 0x04);
	ck_assert_str_eq(frame_mac_dest(&out), NODE2);
	ck_assert_uint_eq(fixture_count("sessions") + fixture_count("sessions_young"), 0);
}
END_TEST

/* ---- synRate --------------------------------------------------------------------------------- */

static void load_gate(void)
{
	fixture_syn_ns(4000000000u);
	delegated_load();
}

/* In a flood of SYNs the node that takes the request asks a client, and only a new one. Neither a flow
 * that node2 sends back nor one that it delegates is asked. */
START_TEST(test_flood)
{
	const struct frame_options sent_back = { .source_mac = "06:4d:0a:12:00:02",
						 .tcp_flags = ACK };

	take(&taken[0]);
	fixture_syn_flood();
	to_node2("an open flow", MK_HOOK_UPLINK, taken[0].request, &ack, taken[0].request);
	hop("sent back", MK_HOOK_OVERLAY, taken[0].request, &sent_back, TO_OVERLAY,
	    "tcp 203.0.113.9:5000 > 10.244.2.7:8080", NODE2);
	serve(&served[0]);
	ck_assert_uint_eq(fixture_drops_total(), 0);
	hop("a new one", MK_HOOK_UPLINK, "tcp 203.0.113.9:5001 > 192.168.99.11:30080", NULL,
	    TO_UPLINK, "tcp 192.168.99.11:30080 > 203.0.113.9:5001", NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_SYN_FLOOD), 1);
}
END_TEST

/* ---- off ------------------------------------------------------------------------------------- */

/* Without the setting packets are translated here, but another node's are taken. This node's own
 * are in VXLAN, though node2 has shown itself. Errors about unknown flows are the host's. */
START_TEST(test_off)
{
	put_link("10.18.0.2", "192.168.99.12", LINK2, second(0), true);
	hop("translated", MK_HOOK_UPLINK, taken[0].request, NULL, TO_OVERLAY,
	    "tcp 203.0.113.9:5000 > 10.244.2.7:8080", NODE2);
	serve(&served[1]);
}
END_TEST

/* .. and an error that comes by another node than its flow is translated as the flow is. */
static const struct {
	const char *name, *quoted, *to;
	enum where where;
	const char *seen;
} misled[] = {
	{ "about a pod of another node", "tcp 198.51.100.9:80 > 203.0.113.9:5000", "198.51.100.9",
	  TO_OVERLAY, "tcp 10.244.2.7:8080 > 203.0.113.9:5000" },
	{ "about datagrams", "udp 198.51.100.9:80 > 203.0.113.9:5000", "198.51.100.9", TO_OVERLAY,
	  "udp 10.244.2.7:8080 > 203.0.113.9:5000" },
	{ "about a pod of this node", "tcp 198.51.100.9:81 > 203.0.113.9:5000", "198.51.100.9",
	  TO_POD, "tcp 10.244.1.3:8080 > 203.0.113.9:5000" },
	{ "about a NodePort", "tcp 192.168.99.11:30080 > 203.0.113.9:5000", "192.168.99.11",
	  TO_HOST, "tcp 192.168.99.11:30080 > 203.0.113.9:5000" },
	{ "about a client that is hidden", "tcp 198.51.100.9:80 > 192.168.99.12:5000",
	  "198.51.100.9", TO_HOST, "tcp 198.51.100.9:80 > 192.168.99.12:5000" },
	{ "about an unknown port", "tcp 198.51.100.9:82 > 203.0.113.9:5000", "198.51.100.9",
	  TO_HOST, "tcp 198.51.100.9:82 > 203.0.113.9:5000" },
};

START_TEST(test_off_errors)
{
	char flow[96];
	struct frame out;

	snprintf(flow, sizeof(flow), "icmp 198.51.100.1 > %s", misled[_i].to);
	out = send_error(misled[_i].name, MK_HOOK_UPLINK,
			 error_about(misled[_i].quoted, flow, NULL, ICMP_FRAG_NEEDED),
			 misled[_i].where, misled[_i].seen);
	if (misled[_i].where == TO_OVERLAY)
		ck_assert_str_eq(frame_mac_dest(&out), NODE2);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

static void add_both(TCase *tcase)
{
	tcase_add_loop_test(tcase, test_taken, 0, ROWS(taken));
	tcase_add_test(tcase, test_taken_ends);
	tcase_add_test(tcase, test_client_resets);
	tcase_add_test(tcase, test_answer_of_no_session);
	tcase_add_test(tcase, test_external_address_gone);
	tcase_add_test(tcase, test_ways_stay);
	tcase_add_loop_test(tcase, test_served, 0, ROWS(served));
	tcase_add_test(tcase, test_served_ends);
	tcase_add_test(tcase, test_two_nodes);
	tcase_add_loop_test(tcase, test_address_moves, 0, 3);
	tcase_add_test(tcase, test_translated_beside);
	tcase_add_test(tcase, test_chooses_local);
	tcase_add_test(tcase, test_errors);
	tcase_add_test(tcase, test_errors_of_external);
	tcase_add_test(tcase, test_error_by_another_node);
	tcase_add_test(tcase, test_no_round);
}

BPF_SUITE("direct_return")
{
	TCase *tcase = clients_case(suite, "direct_return", delegated_load, delegated_setup);

	add_both(tcase);
	tcase_add_loop_test(tcase, test_other_ways, 0, ROWS(other_ways));
	tcase_add_loop_test(tcase, test_refused, 0, ROWS(refused));
	tcase = clients_case(suite, "on the link", delegated_load_on_link, delegated_setup_on_link);
	add_both(tcase);
	tcase_add_test(clients_case(suite, "synRate", load_gate, delegated_setup), test_flood);
	tcase = clients_case(suite, "off", clients_load_keeping, delegated_setup);
	tcase_add_test(tcase, test_off);
	tcase_add_loop_test(tcase, test_off_errors, 0, ROWS(misled));
}
