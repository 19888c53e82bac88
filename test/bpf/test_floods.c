// SPDX-License-Identifier: Apache-2.0
/* More flows than ports and entries: 64 NAT ports per destination and tables of a thousand entries.
 * First packets evict each other. An established session keeps its entry and its port. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bpf/run.h"
#include "rows.h"

enum { PORT_MIN = 60000, PORT_MAX = 60063, PORTS = PORT_MAX - PORT_MIN + 1 };

/* The ports that one client gets: only one of two neighbours in the first eighth. */
enum { QUOTA = PORTS - PORTS / 16 };

/* The path of a flood. By masquerade: to one destination outside. From the host: to a Service with
 * one endpoint, which sees a port of this node. To a NodePort with one endpoint, which sees the
 * virtual pod address and any port. */
enum { OF_NODE = 2 }; /* paths with ports of the node */
static const struct path {
	const char *name, *client, *server; /* the client's packets before translation */
	enum mk_hook hook, back;
	enum where where;
	const char *as, *answers; /* the client that the server sees; source of its answers */
} paths[] = {
	{ "masquerade", "10.244.1.2", "203.0.113.10:443", MK_HOOK_POD, MK_HOOK_UPLINK, TO_UPLINK,
	  "192.168.99.11", "203.0.113.10:443" },
	{ "host", "10.18.0.1", "10.96.0.10:80", MK_HOOK_HOST, MK_HOOK_OVERLAY, TO_OVERLAY,
	  "10.18.0.1", "10.244.2.7:8080" },
	{ "NodePort", "203.0.113.10", "192.168.99.11:30080", MK_HOOK_UPLINK, MK_HOOK_OVERLAY,
	  TO_OVERLAY, "10.244.1.1", "10.244.2.7:8080" },
};

static void setup(void)
{
	static const char *const backend[] = { "10.244.2.7:8080", NULL };

	fixture_reset();
	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, backend, 0, 1);
	fixture_service("udp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, backend, 0, 1);
	fixture_service("tcp 192.168.99.11:30080", MK_SCOPE_EXTERNAL,
			MK_FRONTEND_MAGLEV | MK_FRONTEND_MASQUERADE, backend, 0, 1);
	fixture_service("udp 192.168.99.11:30080", MK_SCOPE_EXTERNAL,
			MK_FRONTEND_MAGLEV | MK_FRONTEND_MASQUERADE, backend, 0, 1);
}

/* Send a packet from @port of the client. Returns the port that the server sees; 0: the packet was
 * dropped. */
static unsigned ask(const struct path *path, const char *proto, unsigned port, uint8_t tcp_flags)
{
	char flow[96], wanted[64];
	struct frame in, out;
	unsigned seen;
	size_t length;
	enum where where;

	snprintf(flow, sizeof(flow), "%s %s:%u > %s", proto, path->client, port, path->server);
	in = frame_make(flow, &(struct frame_options){ .tcp_flags = tcp_flags });
	where = fixture_send(path->hook, &in, &out);
	if (where == DROPPED)
		return 0;
	ck_assert_msg(where == path->where, "%s went %s as '%s'", flow, where_name(where),
		      frame_flow(&out));
	length = (size_t)snprintf(wanted, sizeof(wanted), "%s %s:", proto, path->as);
	ck_assert_msg(strncmp(frame_flow(&out), wanted, length) == 0, "%s left as '%s'", flow,
		      frame_flow(&out));
	seen = (unsigned)atoi(frame_flow(&out) + length);
	if (path < &paths[OF_NODE] || path >= &paths[ROWS(paths)])
		ck_assert_msg(seen >= PORT_MIN && seen <= PORT_MAX, "%s left by port %u", flow,
			      seen);
	return seen;
}

/* Send the server's answer to @seen; it must reach @port of the client. */
static void answer(const struct path *path, const char *proto, unsigned seen, unsigned port,
		   uint8_t tcp_flags)
{
	char flow[96], wanted[96];
	struct frame in, out;

	snprintf(flow, sizeof(flow), "%s %s > %s:%u", proto, path->answers, path->as, seen);
	snprintf(wanted, sizeof(wanted), "%s %s > %s:%u", proto, path->server, path->client, port);
	in = frame_make(flow, &(struct frame_options){ .tcp_flags = tcp_flags });
	ck_assert_int_ne(fixture_send(path->back, &in, &out), DROPPED);
	ck_assert_msg(strcmp(frame_flow(&out), wanted) == 0, "%s became '%s', expected '%s'", flow,
		      frame_flow(&out), wanted);
}

/* Establish a connection. Returns the port that the server sees; 0: the first packet was
 * dropped. */
static unsigned establish(const struct path *path, unsigned port)
{
	unsigned seen = ask(path, "tcp", port, SYN);

	if (!seen)
		return 0;
	answer(path, "tcp", seen, port, SYN | ACK);
	ck_assert_uint_eq(ask(path, "tcp", port, ACK), seen);
	return seen;
}

/* More first packets to one destination than it has ports: each gets a port, released by the
 * session that was silent for longest. Established sessions keep theirs, and new connections are
 * opened meanwhile. */
START_TEST(test_first_packets_make_room)
{
	const struct path *path = &paths[_i / 2];
	const char *proto = _i % 2 ? "udp" : "tcp";
	unsigned kept[8], during;

	for (unsigned i = 0; i < 8; i++) {
		kept[i] = establish(path, 2000 + i);
		ck_assert_uint_ne(kept[i], 0);
	}
	for (unsigned i = 0; i < 20 * PORTS; i++) {
		ck_assert_msg(ask(path, proto, 10000 + i, SYN), "%s: %s flow %u was dropped",
			      path->name, proto, i);
		if (i % PORTS != PORTS / 2)
			continue;
		during = ask(path, "tcp", 5000 + i, SYN);
		ask(path, proto, 50000 + i, SYN);
		answer(path, "tcp", during, 5000 + i, SYN | ACK);
		ask(path, proto, 51000 + i, SYN);
		ck_assert_uint_eq(ask(path, "tcp", 5000 + i, ACK), during);
	}
	for (unsigned i = 0; i < 8; i++) {
		answer(path, "tcp", kept[i], 2000 + i, ACK);
		ck_assert_uint_eq(ask(path, "tcp", 2000 + i, ACK), kept[i]);
	}
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* All ports belong to established connections. The next connection is dropped, with a reason, until
 * one of them is over. Another destination has ports of its own. */
START_TEST(test_ports_run_out)
{
	const struct path *path = &paths[_i], other = { .client = "10.244.1.2",
							.server = "203.0.113.10:80",
							.hook = MK_HOOK_POD,
							.where = TO_UPLINK,
							.as = "192.168.99.11" };
	unsigned drops, made = 0, first = 0, port;

	for (port = 2000; made < QUOTA && port < 12000; port++)
		if (establish(path, port) && !made++)
			first = port;
	ck_assert_uint_eq(made, QUOTA);
	drops = (unsigned)fixture_drops(path->hook, MK_DROP_NAT_PORTS_EXHAUSTED);
	ck_assert_uint_eq(ask(path, "tcp", 20000, SYN), 0);
	ck_assert_uint_eq(fixture_drops(path->hook, MK_DROP_NAT_PORTS_EXHAUSTED), drops + 1);
	ck_assert_uint_ne(ask(&other, "tcp", 20000, SYN), 0);
	/* a client that reuses an ended connection's port releases its old one */
	ck_assert_uint_ne(ask(path, "tcp", first, RST), 0);
	ck_assert_uint_ne(ask(path, "tcp", first, SYN), 0);
}
END_TEST

/* Return an established session that was in use a moment ago. Without a time it would be as old as
 * the machine, and idle for too long after a day. */
static struct mk_session used_session(void)
{
	struct mk_session session = { .stage = MK_SESSION_OPEN };
	struct timespec now;

	ck_assert_int_eq(clock_gettime(CLOCK_MONOTONIC, &now), 0);
	session.created_ns = (__u64)now.tv_sec * 1000000000ULL + (__u64)now.tv_nsec;
	session.last_seen_ns = session.created_ns;
	return session;
}

/* Open a connection of a client on this node's host, 10.18.0.1, to the only endpoint,
 * 10.244.1.3:8080. */
static void connect_from_host(uint16_t port)
{
	struct mk_session session = used_session();
	struct mk_tuple *to = &session.to, back = { .proto = IPPROTO_TCP, .sport = htons(8080) };

	back.saddr = fixture_addr("10.244.1.3");
	back.daddr = fixture_addr("10.18.0.1");
	back.dport = htons(port);
	*to = (struct mk_tuple){ .saddr = back.daddr,
				 .daddr = back.saddr,
				 .sport = back.dport,
				 .dport = back.sport,
				 .proto = back.proto };
	ck_assert_int_eq(row_update(fixture_map("sessions"), &back, &session, 0), 0);
}

/* A Service's client finds no port: the drop counts for the Service. */
START_TEST(test_service_without_ports)
{
	static const char *const backend[] = { "10.244.1.3:8080", NULL };
	struct mk_service_drop_key key = { .service_id = FIXTURE_ACCOUNT + 5,
					   .reason = MK_DROP_NAT_PORTS_EXHAUSTED };
	struct frame in = frame_make("tcp 10.18.0.1:40000 > 10.96.0.10:80", NULL), out;
	__u64 packets = 0;

	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, backend, 1, 1);
	for (unsigned port = PORT_MIN; port <= PORT_MAX; port++)
		connect_from_host((uint16_t)port);
	connect_from_host(40000);
	ck_assert_int_eq(fixture_send(MK_HOOK_HOST, &in, &out), DROPPED);
	ck_assert_int_eq(row_lookup(fixture_map("service_drops"), &key, &packets), 0);
	ck_assert_uint_eq(packets, 1);
}
END_TEST

/* The connection's end: a FIN from each side, or an RST of one. */
enum ending { BOTH_FIN, CLIENT_RST, SERVER_RST, ENDINGS };

static void end(const struct path *path, unsigned port, unsigned seen, enum ending ending)
{
	if (ending != SERVER_RST)
		ck_assert_uint_eq(ask(path, "tcp", port, (ending == BOTH_FIN ? FIN : RST) | ACK),
				  seen);
	if (ending != CLIENT_RST)
		answer(path, "tcp", seen, port, (ending == BOTH_FIN ? FIN : RST) | ACK);
}

/* Establish connections from ports @from on until every port has one. */
static void take_all_ports(const struct path *path, unsigned from, unsigned client_port[PORTS])
{
	unsigned made = 0, seen;

	memset(client_port, 0, PORTS * sizeof(client_port[0]));
	for (unsigned port = from; made < QUOTA && port < from + 10000; port++) {
		seen = establish(path, port);
		if (!seen)
			continue;
		ck_assert_uint_eq(client_port[seen - PORT_MIN], 0);
		client_port[seen - PORT_MIN] = port;
		made++;
	}
	ck_assert_uint_eq(made, QUOTA);
}

/* One pod has all ports to one destination that it may use. Another pod gets a port there, and
 * takes it from no session. */
START_TEST(test_other_pod_gets_a_port)
{
	const struct path *greedy = &paths[0];
	struct path other = *greedy;
	unsigned client_port[PORTS], seen, got = 0;

	other.client = "10.244.1.3";
	take_all_ports(greedy, 2000, client_port);
	for (unsigned i = 0; i < 1000; i++)
		establish(greedy, 20000 + i);
	for (unsigned i = 0; i < 100; i++) {
		seen = establish(&other, 2000 + i);
		ck_assert_msg(!seen || !client_port[seen - PORT_MIN], "port %u is in use", seen);
		got += seen != 0;
	}
	ck_assert_uint_ge(got, 1);
	for (unsigned i = 0; i < PORTS; i++)
		if (client_port[i])
			ck_assert_uint_eq(ask(greedy, "tcp", client_port[i], ACK), PORT_MIN + i);
}
END_TEST

/* All ports are in use; every fourth connection is alive. Ended connections release their ports as
 * soon as they are needed, again and again. Live connections keep theirs. */
START_TEST(test_ended_give_ports_up)
{
	const struct path *path = &paths[_i / ENDINGS];
	const enum ending ending = _i % ENDINGS;
	unsigned client_port[PORTS], drops, seen;

	take_all_ports(path, 2000, client_port);
	drops = (unsigned)fixture_drops_total();
	for (unsigned i = 0; i < PORTS; i++)
		if (i % 4 && client_port[i])
			end(path, client_port[i], PORT_MIN + i, ending);
	for (unsigned i = 0; i < 10 * PORTS; i++) {
		seen = establish(path, 20000 + i);
		ck_assert_msg(seen, "%s: connection %u after those that ended got no port",
			      path->name, i);
		ck_assert_msg((seen - PORT_MIN) % 4, "%s: port %u is in use", path->name, seen);
		end(path, 20000 + i, seen, ending);
	}
	for (unsigned i = 0; i < PORTS; i += 4)
		if (client_port[i])
			ck_assert_uint_eq(ask(path, "tcp", client_port[i], ACK), PORT_MIN + i);
	ck_assert_uint_eq(fixture_drops_total(), drops);
	/* one entry per direction: none is left over */
	ck_assert_uint_eq(fixture_count(path->hook == MK_HOOK_POD ? "nat_sessions" : "sessions"),
			  2 * QUOTA);
}
END_TEST

/* A server may still remember the connection that ended, so the port that is free for longer is the
 * better one. */
START_TEST(test_longest_ended_first)
{
	const struct path *path = &paths[_i];
	unsigned client_port[PORTS], older = 0, seen;
	uint8_t young[PORTS] = { 0 };

	take_all_ports(path, 2000, client_port);
	for (unsigned i = 0; i < PORTS; i++)
		if (client_port[i])
			end(path, client_port[i], PORT_MIN + i, BOTH_FIN);
	for (unsigned i = 0; i < PORTS / 2; i++) {
		seen = establish(path, 20000 + i);
		ck_assert_uint_ne(seen, 0);
		older += !young[seen - PORT_MIN];
		young[seen - PORT_MIN] = 1;
		end(path, 20000 + i, seen, BOTH_FIN);
	}
	ck_assert_msg(older >= PORTS / 2 - 2, "%s: only %u of %u ports were the older ones",
		      path->name, older, PORTS / 2);
}
END_TEST

/* A query and its answer do not establish a flow. DNS clients send thousands of these, and anybody
 * can make a server answer a forged address. The client's next datagram establishes the flow. */
START_TEST(test_udp_question_and_answer)
{
	const struct path *path = &paths[_i];
	const char *map = path->hook == MK_HOOK_POD ? "nat_sessions" : "sessions";
	unsigned seen = 0;

	for (unsigned i = 0; i < 5000; i++) {
		seen = ask(path, "udp", 10000 + i, 0);
		ck_assert_uint_ne(seen, 0);
		answer(path, "udp", seen, 10000 + i, 0);
	}
	ck_assert_uint_eq(fixture_count(map), 0);
	ck_assert_uint_eq(ask(path, "udp", 14999, 0), seen);
	ck_assert_uint_eq(fixture_count(map), 2);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* The established table is full: new connections work from the table of new sessions. */
START_TEST(test_no_room_for_established)
{
	char flow[96];
	struct frame in;

	for (unsigned i = 0; i < 600; i++) {
		struct path path = paths[0];
		char server[32];

		snprintf(server, sizeof(server), "203.0.113.%u:443", 10 + i % 100);
		path.server = path.answers = server;
		ck_assert_uint_ne(establish(&path, 2000 + i), 0);
	}
	ck_assert_uint_eq(fixture_count("nat_sessions"), 1024);
	ck_assert_uint_eq(fixture_drops_total(), 0);
	snprintf(flow, sizeof(flow), "tcp 10.244.1.2:%u > 203.0.113.%u:443", 2599, 10 + 599 % 100);
	in = frame_make(flow, &(struct frame_options){ .tcp_flags = ACK });
	fixture_expect("the last one", MK_HOOK_POD, &in, TO_UPLINK, NULL);
}
END_TEST

/* ---- reclaimed by the programs ------------------------------------------------------------------ */

/* The ways in which sessions are no longer used, so that others may take their entries. */
static const struct unused {
	const char *name, *proto;
	int ending; /* enum ending, -1: none */
	unsigned idle_s; /* of both directions */
	bool reclaimed;
} unused[] = {
	{ "closed by both", "tcp", BOTH_FIN, 0, true },
	{ "reset by the client", "tcp", CLIENT_RST, 0, true },
	{ "reset by the server", "tcp", SERVER_RST, 0, true },
	{ "idle, open for a day", "tcp", -1, 121, false },
	{ "idle datagrams", "udp", -1, 121, true },
	{ "datagrams", "udp", -1, 60, false },
};

static void age_all(const char *map, unsigned seconds)
{
	int fd = fixture_map(map);
	static struct mk_tuple keys[1024];
	struct mk_session session;
	unsigned count = 0;

	for (void *last = NULL; count < 1024 && row_next_key(fd, last, &keys[count]) == 0;
	     last = &keys[count++])
		;
	for (unsigned i = 0; i < count; i++) {
		ck_assert_int_eq(row_lookup(fd, &keys[i], &session), 0);
		session.last_seen_ns -= seconds * 1000000000ULL;
		ck_assert_int_eq(row_update(fd, &keys[i], &session, BPF_EXIST), 0);
	}
}

/* Establish a session over @proto. Returns the port that the server sees. */
static unsigned establish_by(const struct path *path, const char *proto, unsigned port)
{
	unsigned seen;

	if (strcmp(proto, "tcp") == 0)
		return establish(path, port);
	seen = ask(path, proto, port, 0);
	if (seen) {
		answer(path, proto, seen, port, 0);
		ck_assert_uint_eq(ask(path, proto, port, 0), seen);
	}
	return seen;
}

/* Make one of many destinations outside; each has ports of its own. */
static struct path far_path(unsigned number, char server[32])
{
	struct path path = paths[0];

	snprintf(server, 32, "203.0.113.%u:443", 10 + number % 100);
	path.server = path.answers = server;
	return path;
}

/* The table is full, and no agent runs: a new session takes the entries of one that is no longer
 * used. */
START_TEST(test_unused_make_room)
{
	const struct unused *row = &unused[_i];
	unsigned flows = FIXTURE_SMALL / 2, seen, established;
	char server[32];
	struct path path;

	for (unsigned i = 0; i < flows; i++) {
		path = far_path(i, server);
		seen = establish_by(&path, row->proto, 2000 + i);
		ck_assert_uint_ne(seen, 0);
		if (row->ending >= 0)
			end(&path, 2000 + i, seen, (enum ending)row->ending);
	}
	ck_assert_uint_eq(fixture_count("nat_sessions"), FIXTURE_SMALL);
	age_all("nat_sessions", row->idle_s);
	fixture_empty("nat_sessions_young");
	for (unsigned i = 0; i < 100; i++) {
		path = far_path(i, server);
		ck_assert_uint_ne(establish(&path, 20000 + i), 0);
	}
	ck_assert_uint_eq(fixture_count("nat_sessions"), FIXTURE_SMALL);
	established = 100 - fixture_count("nat_sessions_young") / 2;
	ck_assert_msg(established == (row->reclaimed ? 100 : 0), "%s: %u of 100 are established",
		      row->name, established);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* More sessions than the queue has slots: sessions in use stay; the others are removed before the
 * table is full. */
START_TEST(test_queue_is_full)
{
	unsigned kept = 20, seen;
	char server[32];
	struct path path;

	for (unsigned i = 0; i < kept; i++) {
		path = far_path(i, server);
		ck_assert_uint_ne(establish(&path, 2000 + i), 0);
	}
	for (unsigned i = 0; i < 3000; i++) {
		path = far_path(i, server);
		seen = establish(&path, 10000 + i);
		ck_assert_uint_ne(seen, 0);
		end(&path, 10000 + i, seen, BOTH_FIN);
		if (i % 50 == 0)
			fixture_empty("nat_sessions_young");
	}
	for (unsigned i = 0; i < kept; i++) {
		path = far_path(i, server);
		ck_assert_uint_ne(ask(&path, "tcp", 2000 + i, ACK), 0);
	}
	ck_assert_uint_eq(fixture_drops_total(), 0);
	ck_assert_uint_eq(fixture_count("nat_sessions"), FIXTURE_SMALL);
}
END_TEST

/* All ports towards one destination belong to sessions that are no longer used, and no agent
 * runs. */
START_TEST(test_unused_give_ports_up)
{
	const struct path *path = &paths[_i % OF_NODE];
	const struct unused *row = &unused[_i / OF_NODE];
	const char *map = path->hook == MK_HOOK_POD ? "nat_sessions" : "sessions";
	unsigned client_port[PORTS] = { 0 }, taken = 0, seen, given = 0;

	for (unsigned port = 2000; taken < QUOTA && port < 12000; port++) {
		seen = establish_by(path, row->proto, port);
		taken += seen != 0;
		if (seen)
			client_port[seen - PORT_MIN] = port;
	}
	ck_assert_uint_eq(taken, QUOTA);
	for (unsigned i = 0; row->ending >= 0 && i < PORTS; i++)
		if (client_port[i])
			end(path, client_port[i], PORT_MIN + i, (enum ending)row->ending);
	age_all(map, row->idle_s);
	fixture_empty(path->hook == MK_HOOK_POD ? "nat_sessions_young" : "sessions_young");
	for (unsigned i = 0; i < PORTS / 2; i++)
		given += establish_by(path, row->proto, 20000 + i) != 0;
	/* a client may find none of the ports that it tries, as with QUOTA */
	ck_assert_msg(row->reclaimed ? given >= PORTS / 2 - 1 : given == 0,
		      "%s, %s: %u ports were given up", row->name, path->name, given);
}
END_TEST

static void fill(const char *map, unsigned entries)
{
	struct mk_session other = { .stage = MK_SESSION_OPEN };
	struct mk_tuple key = { .proto = IPPROTO_TCP };

	for (unsigned i = 0; i < entries; i++) {
		char source[INET_ADDRSTRLEN];

		snprintf(source, sizeof(source), "100.64.%u.%u", i >> 8 & 255, i & 255);
		key.saddr = fixture_addr(source);
		other.to = key;
		ck_assert_int_eq(row_update(fixture_map(map), &key, &other, BPF_NOEXIST), 0);
	}
}

/* The established table has one free entry, and a connection needs two. */
START_TEST(test_last_place)
{
	const struct path *path = &paths[_i];
	const char *map = _i ? "sessions" : "nat_sessions";

	fill(map, 1023);
	for (unsigned port = 2000; port < 2004; port++) {
		ck_assert_msg(establish(path, port), "%s: the SYN was dropped", path->name);
		ck_assert_uint_ne(ask(path, "tcp", port, ACK), 0);
		ck_assert_uint_eq(fixture_count(map), 1023);
	}
	ck_assert_int_eq(fixture_quota_used(), 0);
}
END_TEST

/* Set the half-open quota to zero, as if other half-open TCP sessions had used it up. */
static void setup_without_room(void)
{
	setup();
	fixture_quota(0);
}

/* Wait for the uptime that rows need: they age sessions by 121 s. */
static void wait_for_uptime(void)
{
	struct timespec now;

	while (clock_gettime(CLOCK_MONOTONIC, &now) == 0 && now.tv_sec <= 125)
		sleep(1);
}

static void load(void)
{
	wait_for_uptime();
	fixture_nat_ports(PORT_MIN, PORT_MAX);
	fixture_exact_clock();
	fixture_load_small();
}

static TCase *small_tables(Suite *suite, const char *name, void (*setup_row)(void))
{
	TCase *tcase = tcase_create(name);

	tcase_add_unchecked_fixture(tcase, load, fixture_unload);
	tcase_add_checked_fixture(tcase, setup_row, NULL);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	return tcase;
}

BPF_SUITE("floods")
{
	TCase *tcase = small_tables(suite, "small tables", setup);
	TCase *not_held = small_tables(suite, "no room", setup_without_room);

	tcase_add_loop_test(tcase, test_first_packets_make_room, 0, 2 * ROWS(paths));
	tcase_add_loop_test(tcase, test_ports_run_out, 0, OF_NODE);
	tcase_add_test(tcase, test_other_pod_gets_a_port);
	tcase_add_test(tcase, test_service_without_ports);
	tcase_add_loop_test(tcase, test_ended_give_ports_up, 0, ENDINGS * OF_NODE);
	tcase_add_loop_test(tcase, test_longest_ended_first, 0, OF_NODE);
	tcase_add_loop_test(tcase, test_udp_question_and_answer, 0, ROWS(paths));
	tcase_add_test(tcase, test_no_room_for_established);
	tcase_add_loop_test(tcase, test_last_place, 0, ROWS(paths));
	tcase_add_loop_test(tcase, test_unused_make_room, 0, ROWS(unused));
	tcase_add_test(tcase, test_queue_is_full);
	tcase_add_loop_test(tcase, test_unused_give_ports_up, 0, ROWS(unused) * OF_NODE);
	tcase_add_loop_test(not_held, test_first_packets_make_room, 0, 2 * ROWS(paths));
	tcase_add_test(not_held, test_no_room_for_established);
	tcase_add_loop_test(not_held, test_unused_make_room, 0, ROWS(unused));
}
