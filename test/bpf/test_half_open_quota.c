// SPDX-License-Identifier: Apache-2.0
/* The tables of new sessions. Half-open TCP sessions are in the established table from their first
 * packet, while the quota lasts (bpf/pair.h: quota_of_this_cpu()). The others are in the table that
 * evicts the oldest (bpf/eviction.h). */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <stdio.h>
#include <string.h>

#include "bpf/run.h"
#include "datapath/sessions/sweep.h"
#include "rows.h"

#define PLACES mk_session_places(FIXTURE_SMALL)

static const struct path {
	const char *name, *map, *map_new;
	const char *client, *server; /* "%u" is the client's port */
	enum mk_hook hook, back;
} paths[] = {
	{ "ClusterIP", "sessions", "sessions_young", "10.244.1.2", "10.96.0.10:80", MK_HOOK_POD,
	  MK_HOOK_OVERLAY },
	{ "NodePort", "sessions", "sessions_young", "203.0.113.10", "192.168.99.11:30080",
	  MK_HOOK_UPLINK, MK_HOOK_OVERLAY },
	{ "masquerade", "nat_sessions", "nat_sessions_young", "10.244.1.2", "203.0.113.10:443",
	  MK_HOOK_POD, MK_HOOK_UPLINK },
};

static void setup(void)
{
	static const char *const backend[] = { "10.244.2.7:8080", NULL };

	fixture_reset();
	for (int udp = 0; udp < 2; udp++) {
		fixture_service(udp ? "udp 10.96.0.10:80" : "tcp 10.96.0.10:80", MK_SCOPE_INTERNAL,
				0, backend, 0, 1);
		fixture_service(udp ? "udp 192.168.99.11:30080" : "tcp 192.168.99.11:30080",
				MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV | MK_FRONTEND_MASQUERADE,
				backend, 0, 1);
	}
}

struct flow {
	const struct path *path;
	const char *proto;
	unsigned port;
	char back[128]; /* the answer's flow */
};

static void ask(struct flow *flow, uint8_t tcp_flags)
{
	char text[96], from[48], to[48];
	struct frame in, out;

	snprintf(text, sizeof(text), "%s %s:%u > %s", flow->proto, flow->path->client, flow->port,
		 flow->path->server);
	in = frame_make(text, &(struct frame_options){ .tcp_flags = tcp_flags });
	ck_assert_msg(fixture_send(flow->path->hook, &in, &out) != DROPPED, "%s was dropped", text);
	ck_assert_int_eq(sscanf(frame_flow(&out), "%*s %47s > %47s", from, to), 2);
	snprintf(flow->back, sizeof(flow->back), "%s %s > %s", flow->proto, to, from);
}

static void answer(const struct flow *flow, uint8_t tcp_flags)
{
	struct frame in = frame_make(flow->back, &(struct frame_options){ .tcp_flags = tcp_flags });
	char wanted[96];
	struct frame out;

	snprintf(wanted, sizeof(wanted), "%s %s > %s:%u", flow->proto, flow->path->server,
		 flow->path->client, flow->port);
	ck_assert_msg(fixture_send(flow->path->back, &in, &out) != DROPPED, "%s was dropped",
		      flow->back);
	ck_assert_str_eq(frame_flow(&out), wanted);
}

static void expect(const char *when, const struct flow *flow, unsigned among_established,
		   unsigned elsewhere, int64_t taken)
{
	const struct path *path = flow->path;
	unsigned established = fixture_count(path->map), recent = fixture_count(path->map_new);

	ck_assert_msg(established == 2 * among_established && recent == 2 * elsewhere &&
			      fixture_quota_used() == taken,
		      "%s, %s: %u entries among the established, %u elsewhere, quota of %ld used",
		      path->name, when, established, recent, fixture_quota_used());
}

static unsigned entries_with(const char *map, uint8_t flag)
{
	struct mk_session session;
	struct mk_tuple key;
	unsigned count = 0;

	for (void *last = NULL; row_next_key(fixture_map(map), last, &key) == 0; last = &key)
		count += row_lookup(fixture_map(map), &key, &session) == 0 &&
			 mk_session_flags(&session) & flag;
	return count;
}

START_TEST(test_handshake)
{
	struct flow flow = { &paths[_i], "tcp", 40000, "" };

	ask(&flow, SYN);
	expect("SYN", &flow, 1, 0, 1);
	ask(&flow, SYN);
	ask(&flow, ACK); /* an ACK of another number: there was no answer */
	ck_assert_uint_eq(entries_with(flow.path->map, MK_SESSION_OPEN), 0);
	answer(&flow, SYN | ACK);
	ask(&flow, SYN);
	answer(&flow, SYN | ACK);
	expect("SYN-ACK", &flow, 1, 0, 1);
	ck_assert_uint_eq(entries_with(flow.path->map, MK_SESSION_OPEN), 0);
	ask(&flow, ACK);
	answer(&flow, ACK);
	ask(&flow, ACK);
	expect("ACK", &flow, 1, 0, 0);
	ck_assert_uint_eq(entries_with(flow.path->map, MK_SESSION_OPEN), 2);
}
END_TEST

/* Refused by the server, or given up by the client, whose RST must not count as its ACK. Reusing
 * the client's port opens another session in place of the first. */
START_TEST(test_refused)
{
	static const char *const other[] = { "10.244.1.3:8080", NULL };
	struct flow flow = { &paths[0], "tcp", 40000, "" };
	struct frame in = frame_make("tcp 10.244.1.2:40000 > 10.96.0.10:80", NULL);

	ask(&flow, SYN);
	answer(&flow, _i ? RST | ACK : SYN | ACK);
	if (!_i)
		ask(&flow, RST);
	expect("RST", &flow, 1, 0, 1);
	ck_assert_uint_eq(entries_with("sessions", MK_SESSION_OPEN), 0);
	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, other, 1, 1);
	fixture_expect("SYN after that", MK_HOOK_POD, &in, TO_POD,
		       "tcp 10.244.1.2:40000 > 10.244.1.3:8080");
	expect("next SYN", &flow, 1, 0, 1);
}
END_TEST

START_TEST(test_no_quota)
{
	struct flow flow = { &paths[_i], "tcp", 40000, "" }, first = flow;

	fixture_quota(2);
	ask(&first, SYN);
	for (flow.port = 40001; flow.port < 40100; flow.port++)
		ask(&flow, SYN);
	expect("a flood", &flow, 2, 98, 2);
	answer(&first, SYN | ACK);
	ask(&first, ACK);
	expect("one is established", &flow, 2, 98, 1);
	ask(&flow, SYN);
	expect("quota for one", &flow, 3, 98, 2);
	flow.port++;
	ask(&flow, SYN);
	answer(&flow, SYN | ACK);
	ask(&flow, ACK);
	expect("as without quota", &flow, 4, 98, 2);
}
END_TEST

/* Only a TCP connection uses the quota. A datagram, or a packet of a connection without a session,
 * may be the flow's only packet. */
START_TEST(test_no_other_takes_quota)
{
	struct flow datagram = { &paths[_i], "udp", 40000, "" };
	struct flow amid = { &paths[_i], "tcp", 40001, "" };

	ask(&datagram, 0);
	expect("UDP", &datagram, 0, 1, 0);
	ask(&amid, ACK);
	expect("ACK", &amid, 0, 2, 0);
}
END_TEST

/* ---- in the order in which they came ----------------------------------------------------------- */

/* Send first packets of @count flows, from client port @port on. Returns the next port. */
static unsigned flood(const struct path *path, const char *proto, unsigned port, unsigned count)
{
	for (unsigned end = port + count; port < end; port++) {
		struct flow flow = { path, proto, port, "" };

		ask(&flow, SYN);
	}
	return port;
}

/* Does the server's answer reach the client from the address that it asked? */
static bool is_answered(const struct flow *flow)
{
	struct frame in = frame_make(flow->back, &(struct frame_options){ .tcp_flags = SYN | ACK });
	char wanted[96];
	struct frame out;

	snprintf(wanted, sizeof(wanted), "%s %s > %s:%u", flow->proto, flow->path->server,
		 flow->path->client, flow->port);
	return fixture_send(flow->path->back, &in, &out) != DROPPED &&
	       strcmp(frame_flow(&out), wanted) == 0;
}

/* The oldest session is evicted first, and none before the table is full. */
START_TEST(test_first_goes_first)
{
	const char *proto = _i % 2 ? "udp" : "tcp";
	struct flow flow[2] = { { &paths[_i / 2], proto, 20000, "" },
				{ &paths[_i / 2], proto, 20001, "" } };

	fixture_quota(0);
	ask(&flow[0], SYN);
	ask(&flow[1], SYN);
	flood(flow[0].path, proto, 30000, PLACES - 1);
	ck_assert(!is_answered(&flow[0]));
	ck_assert(is_answered(&flow[1]));
}
END_TEST

/* Servers that repeat their SYN-ACK to a flood's addresses do not make these sessions younger. */
START_TEST(test_answered_flood)
{
	const struct path *path = &paths[_i / 2];
	const char *proto = _i % 2 ? "udp" : "tcp";
	struct flow answered[400];
	unsigned port = 10000;

	fixture_quota(0);
	for (unsigned i = 0; i < 400; i++) {
		answered[i] = (struct flow){ path, proto, 40000 + i, "" };
		ask(&answered[i], SYN);
	}
	for (unsigned later = 0; later < 20; later++) {
		struct flow flow = { path, proto, 50000 + later, "" };

		for (unsigned i = 0; i < 400; i++)
			(void)is_answered(&answered[i]);
		ask(&flow, SYN);
		port = flood(path, proto, port, 100);
		ck_assert_msg(is_answered(&flow), "connection %u during the flood", later);
	}
}
END_TEST

static struct mk_tuple key_of(const struct flow *flow)
{
	struct mk_tuple key = { .proto = IPPROTO_UDP };

	key.saddr = fixture_addr(flow->path->client);
	key.sport = htons((uint16_t)flow->port);
	fixture_addr_port(flow->path->server, &key.daddr, &key.dport);
	return key;
}

static bool is_among_new(const struct flow *flow)
{
	const struct mk_tuple key = key_of(flow);
	struct mk_session session;

	return row_lookup(fixture_map(flow->path->map_new), &key, &session) == 0;
}

/* A session whose client sends again gets a new slot at the end, six times here. Each time another
 * session gets no slot. The table has space for these until the agent's sweep finds them. */
START_TEST(test_one_way_flow_stays)
{
	unsigned port = 30000;

	for (unsigned n = 0; n < 12; n++) {
		for (unsigned i = 0; i < 8; i++) {
			struct flow flow = { &paths[_i], "udp", 20000 + i, "" };

			ck_assert_msg(n == 0 || is_among_new(&flow), "flow %u after %u", i, n);
			ask(&flow, 0);
		}
		port = flood(&paths[_i], "udp", port, PLACES / 2);
	}
}
END_TEST

/* Remove both entries of a flow's session, as the agent's sweep does. */
static void sweep_out(const struct flow *flow)
{
	struct mk_tuple key = key_of(flow), pair;
	struct mk_session session;
	int fd = fixture_map(flow->path->map_new);

	ck_assert_int_eq(row_lookup(fd, &key, &session), 0);
	pair = mk_session_pair_key(&session);
	ck_assert_int_eq(row_delete(fd, &key), 0);
	ck_assert_int_eq(row_delete(fd, &pair), 0);
}

static void fill_without_places(const struct path *path, unsigned free_entries)
{
	const struct mk_session session = { .flags = MK_SESSION_FORWARD };
	struct mk_tuple other = { .proto = IPPROTO_UDP };
	int fd = fixture_map(path->map_new);

	do {
		other.sport++;
	} while (row_update(fd, &other, &session, BPF_NOEXIST) == 0);
	for (unsigned i = 0; i < free_entries; i++) {
		other.sport--;
		ck_assert_int_eq(row_delete(fd, &other), 0);
	}
}

/* Entries without a slot fill the table. No flow has to wait for the agent's sweep: neither if
 * there is space for one of its two entries, nor if many of the first slots belong to removed
 * sessions. */
static const struct {
	unsigned gone, free_entries;
} full[] = { { 0, 0 }, { 1, 1 }, { 20, 0 } };

START_TEST(test_entries_without_a_place)
{
	const struct path *path = &paths[_i / ROWS(full)];
	struct flow flow = { path, "udp", 20000, "" };

	flood(path, "udp", 30000, PLACES);
	for (unsigned i = 0; i < full[_i % ROWS(full)].gone; i++)
		sweep_out(&(struct flow){ path, "udp", 30000 + i, "" });
	fill_without_places(path, full[_i % ROWS(full)].free_entries);
	ask(&flow, 0);
	ck_assert(is_answered(&flow));
}
END_TEST

/* The first slots belong to clients that have sent again: a new flow gets a slot nevertheless. */
START_TEST(test_place_beside_those_who_stay)
{
	const struct path *path = &paths[_i];
	struct flow stays[3], flow = { path, "udp", 20010, "" };

	for (unsigned i = 0; i < 3; i++) {
		stays[i] = (struct flow){ path, "udp", 20000 + i, "" };
		ask(&stays[i], 0);
	}
	flood(path, "udp", 30000, PLACES - 3);
	for (unsigned i = 0; i < 3; i++)
		ask(&stays[i], 0);
	ask(&flow, 0);
	ck_assert_uint_eq(fixture_count(path->map_new), 2 * PLACES);
	for (unsigned i = 0; i < 3; i++)
		ck_assert(is_among_new(&stays[i]));
	ck_assert(is_among_new(&flow));
}
END_TEST

BPF_SUITE("half_open_quota")
{
	TCase *tcase = tcase_create("quota");

	tcase_add_unchecked_fixture(tcase, fixture_load_small, fixture_unload);
	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	tcase_add_loop_test(tcase, test_handshake, 0, ROWS(paths));
	tcase_add_loop_test(tcase, test_refused, 0, 2);
	tcase_add_loop_test(tcase, test_no_quota, 0, ROWS(paths));
	tcase_add_loop_test(tcase, test_no_other_takes_quota, 0, ROWS(paths));
	tcase_add_loop_test(tcase, test_first_goes_first, 0, 2 * ROWS(paths));
	tcase_add_loop_test(tcase, test_answered_flood, 0, 2 * ROWS(paths));
	tcase_add_loop_test(tcase, test_one_way_flow_stays, 0, ROWS(paths));
	tcase_add_loop_test(tcase, test_entries_without_a_place, 0, ROWS(paths) * ROWS(full));
	tcase_add_loop_test(tcase, test_place_beside_those_who_stay, 0, ROWS(paths));
}
