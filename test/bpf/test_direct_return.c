// SPDX-License-Identifier: Apache-2.0
/* Answers that go straight to a client outside (bpf/direct_return.h). This node is both: the one
 * that takes requests (node2 has the pods), and the one that has the pod (node2 takes requests). */
#include <net/if.h> /* before linux/icmp.h, which has parts of it */

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <linux/icmp.h>
#include <linux/if_packet.h>
#include <netinet/ether.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "datapath/maps/row.h"
#include "bpf/clients.h"
#include "bpf/cpus.h"
#include "bpf/network.h"
#include "bpf/run.h"
#include "monokube/clusters.h"
#include "rows.h"

#define LINK2 "02:00:00:00:00:12" /* node2's and node3's MAC addresses on the uplink's network */
#define LINK3 "02:00:00:00:00:13"
#define OWN   "02:00:00:00:09:0b" /* this node's there */

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

/* The way between the two nodes: the overlay, or the link (setup_on_link()). */
static struct between {
	enum mk_hook hook; /* at which the other node's packets come */
	enum where where; /* packets to it go */
	const char *mac2, *mac3; /* of node2 and node3 */
	const char *to_node2; /* MAC address of packets to it */
	unsigned ifindex;
} between;
static const struct between overlay = { MK_HOOK_OVERLAY, TO_OVERLAY, NODE2, NODE3, NODE2, 0 };
static struct between on_link = { MK_HOOK_UPLINK, TO_UPLINK, NODE2, NODE3, LINK2, 0 };

/* A packet of the node with @mac. */
static struct frame from_node(const char *mac, const char *name, const char *flow,
			      const struct frame_options *with, enum where where, const char *seen)
{
	struct frame_options options = with ? *with : (struct frame_options){ 0 };
	struct frame out;

	options.source_mac = mac;
	options.dest_mac = between.ifindex ? OWN : NULL;
	fixture_device(between.ifindex);
	out = hop(name, between.hook, flow, &options, where, seen, NULL);
	fixture_device(0);
	return out;
}

static void from_node2(const char *name, const char *flow, const struct frame_options *with,
		       enum where where, const char *seen)
{
	from_node(between.mac2, name, flow, with, where, seen);
}

/* A packet that goes on to node2. */
static void to_node2(const char *name, enum mk_hook hook, const char *flow,
		     const struct frame_options *with, const char *seen)
{
	hop(name, hook, flow, with, between.where, seen, between.to_node2);
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
	between = overlay;
}

static void put_link(const char *vtep, const char *address, const char *mac, __u16 shown_s)
{
	struct mk_link_node node = { .addr = fixture_addr(address),
				     .ifindex = on_link.ifindex,
				     .mtu_bytes = 1500,
				     .shown_s = shown_s };
	struct mk_link_node_key key = { 0 };

	fixture_mac(vtep, key.vtep_mac);
	ether_aton_r(mac, (struct ether_addr *)node.mac);
	ck_assert_int_eq(row_update(fixture_map("link_nodes"), &key, &node, BPF_ANY), 0);
}

/* The second, as programs count it, @ago_s before now; never 0. */
static __u16 second(unsigned ago_s)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (__u16)(now.tv_sec - ago_s) ?: 1;
}

/* Node2 and node3 have just shown their VTEP MAC addresses by the link. */
static void setup_on_link(void)
{
	setup();
	put_link("10.18.0.2", "192.168.99.12", LINK2, second(0));
	put_link("10.18.0.3", "192.168.99.13", LINK3, second(0));
	between = on_link;
}

static void setup_returning(void)
{
	fixture_return_directly();
	fixture_load_small();
}

static void make_link(void)
{
	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	network_shell("ip link set lo up; echo 1 >/proc/sys/net/ipv4/ip_forward\n"
		      "echo 1 >/proc/sys/net/ipv6/conf/all/forwarding\n"
		      "ip link add up9 address " OWN " type veth peer name far9\n"
		      "ip link set up9 up; ip link set far9 up\n"
		      "ip addr add 192.168.99.11/24 dev up9\n"
		      "ip neigh replace 192.168.99.12 lladdr " LINK2 " dev up9\n"
		      "ip neigh replace 192.168.99.13 lladdr " LINK3 " dev up9");
	on_link.ifindex = if_nametoindex("up9");
}

static void setup_link(void)
{
	make_link();
	setup_returning();
}

static void setup_link_gate(void)
{
	fixture_syn_ns(4000000000u);
	setup_link();
}

static void setup_link_encrypted(void)
{
	make_link();
	fixture_encrypts_all();
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
	  { .tcp_flags = SYN | ACK } },
	{ "udp 203.0.113.9:5000 > 192.168.99.11:30080",
	  "udp 192.168.99.11:30080 > 203.0.113.9:5000",
	  { 0 },
	  { 0 } },
	{ "sctp 203.0.113.9:5000 > 192.168.99.11:30080",
	  "sctp 192.168.99.11:30080 > 203.0.113.9:5000",
	  { .sctp_chunk = SCTP_COOKIE_ECHO },
	  { .sctp_chunk = SCTP_INIT_ACK } },
	{ "tcp 203.0.113.9:5000 > 198.51.100.9:80",
	  "tcp 198.51.100.9:80 > 203.0.113.9:5000",
	  { .tcp_flags = ACK },
	  { .tcp_flags = SYN | ACK } },
};

static void take(const struct taken *row)
{
	to_node2("the first", MK_HOOK_UPLINK, row->request, NULL, row->request);
	from_node2("its answer", row->answer, &row->answers, TO_UPLINK, row->answer);
	to_node2("the second", MK_HOOK_UPLINK, row->request, &row->next, row->request);
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
	const struct frame_options syn = { .seq = 900000 };

	take(&taken[0]);
	to_node2("FIN", MK_HOOK_UPLINK, taken[0].request, &fin, taken[0].request);
	from_node2("its FIN", taken[0].answer, &fin, TO_UPLINK, taken[0].answer);
	set_direct(false);
	hop("the port again, on another way", MK_HOOK_UPLINK, taken[0].request, &syn, TO_OVERLAY,
	    "tcp 203.0.113.9:5000 > 10.244.2.7:8080", NODE2);
}
END_TEST

/* Without its session an answer goes out nevertheless: a FIN must not be lost. */
START_TEST(test_answer_of_no_session)
{
	const struct frame_options fin = { .tcp_flags = FIN | ACK };

	from_node2("FIN", taken[0].answer, &fin, TO_UPLINK, taken[0].answer);
	from_node2("from another address", "tcp 198.51.100.77:80 > 203.0.113.9:5000", &fin, DROPPED,
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
	to_node2("unchanged", MK_HOOK_UPLINK, taken[1].request, NULL, taken[1].request);
	set_direct(false);
	to_node2("still", MK_HOOK_UPLINK, taken[1].request, NULL, taken[1].request);
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
	  { .tcp_flags = ACK },
	  { .tcp_flags = SYN | ACK } },
	{ "udp 203.0.113.9:5000 > 192.168.99.12:30081",
	  "udp 203.0.113.9:5000 > 10.244.1.3:8080",
	  "udp 10.244.1.3:8080 > 203.0.113.9:5000",
	  "udp 192.168.99.12:30081 > 203.0.113.9:5000",
	  { 0 },
	  { 0 } },
	{ "sctp 203.0.113.9:5000 > 192.168.99.12:30081",
	  "sctp 203.0.113.9:5000 > 10.244.1.3:8080",
	  "sctp 10.244.1.3:8080 > 203.0.113.9:5000",
	  "sctp 192.168.99.12:30081 > 203.0.113.9:5000",
	  { .sctp_chunk = SCTP_COOKIE_ECHO },
	  { .sctp_chunk = SCTP_INIT_ACK } },
	{ "tcp 203.0.113.9:5000 > 198.51.100.9:81",
	  "tcp 203.0.113.9:5000 > 10.244.1.3:8080",
	  "tcp 10.244.1.3:8080 > 203.0.113.9:5000",
	  "tcp 198.51.100.9:81 > 203.0.113.9:5000",
	  { .tcp_flags = ACK },
	  { .tcp_flags = SYN | ACK } },
};
static void serve(const struct served *row)
{
	struct frame_options data = { .tcp_flags = ACK, .sctp_chunk = SCTP_DATA };

	from_node2("the first", row->request, NULL, TO_POD, row->seen);
	to_node2("its answer", MK_HOOK_POD, row->answer, &row->first, row->answered);
	from_node2("the second", row->request, &row->next, TO_POD, row->seen);
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
	to_node2("FIN", MK_HOOK_POD, served[0].answer, &fin, served[0].answered);
	to_node2("RST", MK_HOOK_POD, served[0].answer, &rst, served[0].answered);
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
		from_node2(request, request, NULL, TO_POD, NULL);
	}
}
END_TEST

/* ---- ICMP errors ----------------------------------------------------------------------------- */

static struct frame send_error(const char *name, enum mk_hook hook, struct frame error,
			       enum where where, const char *quoted)
{
	struct frame out;

	if (hook == MK_HOOK_UPLINK && between.ifindex) {
		ether_aton_r(OWN, (struct ether_addr *)error.byte);
		fixture_device(between.ifindex);
	}
	out = fixture_expect(name, hook, &error, where, NULL);
	fixture_device(0);
	ck_assert_msg(strstr(frame_flow(&out), quoted), "%s: %s", name, frame_flow(&out));
	return out;
}

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

/* ---- without VXLAN --------------------------------------------------------------------------- */

static const struct {
	const char *name;
	unsigned ago_s;
	bool by_link;
} shown[] = {
	{ "just now", 0, true },
	{ "some time ago", 12, true },
	{ "too long ago", 30, false },
	{ "much too long ago", 40000, false },
};

START_TEST(test_shown)
{
	put_link("10.18.0.2", "192.168.99.12", LINK2, second(shown[_i].ago_s));
	hop(shown[_i].name, MK_HOOK_UPLINK, taken[1].request, NULL,
	    shown[_i].by_link ? TO_UPLINK : TO_OVERLAY, taken[1].request,
	    shown[_i].by_link ? LINK2 : NODE2);
	put_link("10.18.0.2", "192.168.99.12", LINK2, 0);
	hop("never", MK_HOOK_UPLINK, taken[1].request, NULL, TO_OVERLAY, taken[1].request, NODE2);
}
END_TEST

/* Other packets have this node's MAC address there, which the kernel sets. */
START_TEST(test_source_mac)
{
	struct frame out = hop("a request", MK_HOOK_UPLINK, taken[1].request, NULL, TO_UPLINK,
			       taken[1].request, LINK2);

	ck_assert_mem_eq(out.byte + ETH_ALEN, fixture_node()->vtep_mac, ETH_ALEN);
	hop("translated", MK_HOOK_UPLINK, "udp 192.168.99.13:5000 > 192.168.99.11:30080", NULL,
	    TO_UPLINK, NULL, FRAME_GATEWAY_MAC);
}
END_TEST

/* The copy of an answer to a probe shows the node that answers. */
START_TEST(test_shows)
{
	const char *answer = "udp 10.244.2.1:7 > 10.18.0.1:40000";

	put_link("10.18.0.2", "192.168.99.12", LINK3, 0);
	from_node(NODE3, "of another node", answer, NULL, DROPPED, NULL);
	hop("not yet", MK_HOOK_UPLINK, taken[1].request, NULL, TO_OVERLAY, taken[1].request, NODE2);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_DIRECT_FORGED), 1);
	from_node(NODE2, "its own", answer, NULL, DROPPED, NULL);
	ck_assert_uint_eq(fixture_drops_total(), 1);
	hop("now, to its MAC address", MK_HOOK_UPLINK, taken[1].request, NULL, TO_UPLINK,
	    taken[1].request, LINK2);
}
END_TEST

/* A socket that gets what leaves by the link. */
static int far_end(void)
{
	const struct sockaddr_ll at = { .sll_family = AF_PACKET,
					.sll_protocol = htons(ETH_P_ALL),
					.sll_ifindex = (int)if_nametoindex("far9") };
	const struct timeval bound = { .tv_sec = 5 };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof(bound)), 0);
	ck_assert_int_eq(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

/* Wait for a frame of @bytes with this node's VTEP MAC address. The kernel sends frames, too. */
static bool gets_shown(int fd, size_t bytes, uint8_t to_mac[ETH_ALEN])
{
	uint8_t frame[2048];
	ssize_t got;

	while ((got = recv(fd, frame, sizeof(frame), 0)) > 0) {
		if (memcmp(frame + ETH_ALEN, fixture_node()->vtep_mac, ETH_ALEN) != 0)
			continue;
		memcpy(to_mac, frame, ETH_ALEN);
		return (size_t)got == bytes;
	}
	return false;
}

/* A copy of this node's answer to a probe shows it to the node that asks. */
START_TEST(test_shows_itself)
{
	const struct frame_options with = { .payload_bytes = sizeof(struct mk_probe_packet),
					    .source_mac = NODE2 };
	struct frame probe =
		frame_probe("udp 10.18.0.2:40000 > 10.244.1.0:7", MK_PROBE_MAGIC, &with);
	uint8_t to_mac[ETH_ALEN], mac[ETH_ALEN];
	int far = far_end();

	ether_aton_r(LINK2, (struct ether_addr *)mac);
	fixture_expect("the answer", MK_HOOK_OVERLAY, &probe, TO_OVERLAY,
		       "udp 10.244.1.1:7 > 10.18.0.2:40000");
	ck_assert_msg(gets_shown(far, probe.length, to_mac),
		      "no copy of the answer has this node's VTEP MAC address");
	ck_assert_mem_eq(to_mac, mac, ETH_ALEN);
	close(far);
}
END_TEST

/* A client's packet that comes back by the node that it was sent to must not go round. */
START_TEST(test_no_round)
{
	to_node2("the first", MK_HOOK_UPLINK, taken[1].request, NULL, taken[1].request);
	from_node(between.mac2, "back", taken[1].request, NULL, DROPPED, NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_OVERLAY, MK_DROP_OVERLAY_STRAY), 1);
	from_node(between.mac3, "by another node", taken[1].request, NULL, between.where, NULL);
}
END_TEST

/* The link's MTU counts. */
START_TEST(test_long)
{
	const struct frame_options full = { .packet_bytes = 1500, .fragment = DF };
	const struct frame_options over = { .packet_bytes = 1501, .fragment = DF };

	to_node2("as long as the link's MTU", MK_HOOK_UPLINK, taken[1].request, &full,
		 taken[1].request);
	hop("longer", MK_HOOK_UPLINK, taken[1].request, &over, TO_UPLINK, NULL, NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_TOO_BIG), 1);
}
END_TEST

START_TEST(test_fragments)
{
	const struct frame_options first = { .payload_bytes = 64, .fragment = MF, .id = 7 };
	const struct frame_options last = { .payload_bytes = 64, .fragment = 9, .id = 7 };

	from_node2("first", served[1].request, &first, TO_POD, served[1].seen);
	from_node2("last", served[1].request, &last, TO_POD, NULL);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* Frames of the link that are no relayed packet of a node. */
static const struct {
	const char *name, *flow, *mac;
	const char *to_mac; /* NULL: by another device */
	enum where where;
	enum mk_drop_reason reason;
} strangers[] = {
	{ "a VTEP MAC address of no node", "tcp 203.0.113.9:5000 > 192.168.99.12:30081",
	  "02:4d:0a:12:00:77", OWN, DROPPED, MK_DROP_DIRECT_FORGED },
	{ "such an address of another range", "tcp 203.0.113.9:5000 > 192.168.99.12:30081",
	  "02:4d:0a:77:00:02", OWN, TO_HOST, 0 },
	{ "this node's", "tcp 203.0.113.9:5000 > 192.168.99.12:30081", "02:4d:0a:12:00:01", OWN,
	  DROPPED, MK_DROP_DIRECT_FORGED },
	{ "by another device", "tcp 203.0.113.9:5000 > 192.168.99.12:30081", NODE2, NULL, DROPPED,
	  MK_DROP_DIRECT_FORGED },
	{ "to all devices", "tcp 203.0.113.9:5000 > 192.168.99.12:30081", NODE2,
	  "ff:ff:ff:ff:ff:ff", DROPPED, MK_DROP_DIRECT_FORGED },
	{ "no answer to a probe", "udp 10.244.2.1:8 > 10.18.0.1:40000", NODE2, OWN, DROPPED,
	  MK_DROP_DIRECT_FORGED },
	{ "a pod's", "tcp 10.244.2.7:5000 > 198.51.100.9:81", NODE2, OWN, DROPPED,
	  MK_DROP_DIRECT_FORGED },
	{ "of an overlay address", "tcp 10.18.0.2:5000 > 198.51.100.9:81", NODE2, OWN, DROPPED,
	  MK_DROP_DIRECT_FORGED },
	{ "a device's MAC address", "tcp 203.0.113.9:5000 > 192.168.99.12:30081", LINK2, OWN,
	  TO_HOST, 0 },
	{ ".. and an answer", "tcp 192.168.99.11:30080 > 203.0.113.9:5000", LINK2, OWN, DROPPED,
	  MK_DROP_MARTIAN_SOURCE },
	{ ".. and an answer from an external address", "tcp 198.51.100.9:80 > 203.0.113.9:5000",
	  LINK2, OWN, TO_HOST, 0 },
	{ "a request that a node forwards", "tcp 203.0.113.9:5000 > 198.51.100.9:81", LINK2, OWN,
	  TO_POD, 0 },
};

START_TEST(test_strangers)
{
	const struct frame_options with = { .source_mac = strangers[_i].mac,
					    .dest_mac = strangers[_i].to_mac };
	enum where where = strangers[_i].where;

	fixture_device(strangers[_i].to_mac ? on_link.ifindex : 0);
	hop(strangers[_i].name, MK_HOOK_UPLINK, strangers[_i].flow, &with, where, NULL, NULL);
	fixture_device(0);
	ck_assert_msg(fixture_drops(MK_HOOK_UPLINK, strangers[_i].reason) == (where == DROPPED),
		      "%s: not dropped for this reason", strangers[_i].name);
	ck_assert_uint_eq(fixture_drops_total(), where == DROPPED);
}
END_TEST

/* The node that takes a SYN from outside challenges the client. The pod's node does not. */
START_TEST(test_gate)
{
	const char *syn = "tcp 203.0.113.9:5000 > 198.51.100.9:81";

	cpus_one(true);
	fixture_syn_flood();
	hop("challenged", MK_HOOK_UPLINK, syn, NULL, TO_UPLINK,
	    "tcp 198.51.100.9:81 > 203.0.113.9:5000", NULL);
	from_node2("relayed while SYNs are challenged", syn, NULL, TO_POD, served[3].seen);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_SYN_FLOOD), 1);
}
END_TEST

/* With WireGuardOnly nothing comes without encryption. */
START_TEST(test_encrypted)
{
	from_node2("a frame of the link", served[1].request, NULL, DROPPED, NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_DIRECT_FORGED), 1);
}
END_TEST

/* ---- off ------------------------------------------------------------------------------------- */

/* Without the setting packets are translated here, but another node's are taken. This node's own
 * are in VXLAN, though node2 has shown itself. */
START_TEST(test_off)
{
	put_link("10.18.0.2", "192.168.99.12", LINK2, second(0));
	hop("translated", MK_HOOK_UPLINK, taken[0].request, NULL, TO_OVERLAY,
	    "tcp 203.0.113.9:5000 > 10.244.2.7:8080", NODE2);
	serve(&served[1]);
}
END_TEST

static void add_both(TCase *tcase)
{
	tcase_add_loop_test(tcase, test_taken, 0, ROWS(taken));
	tcase_add_test(tcase, test_taken_ends);
	tcase_add_test(tcase, test_answer_of_no_session);
	tcase_add_test(tcase, test_ways_stay);
	tcase_add_loop_test(tcase, test_served, 0, ROWS(served));
	tcase_add_test(tcase, test_served_ends);
	tcase_add_test(tcase, test_two_nodes);
	tcase_add_test(tcase, test_translated_beside);
	tcase_add_test(tcase, test_chooses_local);
	tcase_add_test(tcase, test_errors);
	tcase_add_test(tcase, test_errors_of_external);
	tcase_add_test(tcase, test_no_round);
}

BPF_SUITE("direct_return")
{
	TCase *tcase = clients_case(suite, "direct_return", setup_returning, setup);

	add_both(tcase);
	tcase_add_loop_test(tcase, test_other_ways, 0, ROWS(other_ways));
	tcase_add_loop_test(tcase, test_refused, 0, ROWS(refused));
	tcase = clients_case(suite, "on the link", setup_link, setup_on_link);
	add_both(tcase);
	tcase_add_loop_test(tcase, test_shown, 0, ROWS(shown));
	tcase_add_test(tcase, test_source_mac);
	tcase_add_test(tcase, test_shows);
	tcase_add_test(tcase, test_shows_itself);
	tcase_add_test(tcase, test_long);
	tcase_add_test(tcase, test_fragments);
	tcase_add_loop_test(tcase, test_strangers, 0, ROWS(strangers));
	tcase = clients_case(suite, "on the link, SYNs challenged", setup_link_gate, setup_on_link);
	tcase_add_test(tcase, test_gate);
	tcase = clients_case(suite, "on the link, WireGuardOnly", setup_link_encrypted,
			     setup_on_link);
	tcase_add_test(tcase, test_encrypted);
	tcase_add_test(clients_case(suite, "off", clients_load_keeping, setup), test_off);
}
