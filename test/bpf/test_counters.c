// SPDX-License-Identifier: Apache-2.0
/* Counters per Service: which packets count, as how many, and when. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <stdio.h>
#include <string.h>

#include "bpf/run.h"
#include "rows.h"

#define ACCOUNT	    (FIXTURE_ACCOUNT + 1) /* of the only Service */
#define TCP_HEADERS (14 + frame_ip_bytes() + 20)

static const char *const remote_backend[] = { "10.244.2.7:8080", NULL };
static const char *const local_backend[] = { "10.244.1.3:8080", NULL };
static const char *const lost_backend[] = { "10.244.2.9:8080", NULL };

static struct mk_service_counter counter(void)
{
	const __u32 account = ACCOUNT;
	struct mk_service_counter value = { 0 };

	row_lookup(fixture_map("service_counters"), &account, &value);
	return value;
}

static void expect_counts(const char *when, uint64_t connections, uint64_t requests,
			  uint64_t replies)
{
	struct mk_service_counter now = counter();

	ck_assert_msg(
		now.connections == connections && now.packets[MK_FLOW_REQUEST] == requests &&
			now.packets[MK_FLOW_REPLY] == replies,
		"%s: %llu connections, %llu packets there and %llu back, expected %lu, %lu, %lu",
		when, now.connections, now.packets[MK_FLOW_REQUEST], now.packets[MK_FLOW_REPLY],
		connections, requests, replies);
}

static uint64_t sent[MK_FLOW_DIRECTIONS]; /* bytes */

static void expect_bytes(const char *when)
{
	struct mk_service_counter now = counter();

	ck_assert_msg(now.bytes[MK_FLOW_REQUEST] == sent[MK_FLOW_REQUEST] &&
			      now.bytes[MK_FLOW_REPLY] == sent[MK_FLOW_REPLY],
		      "%s: %llu bytes there and %llu back, sent were %lu and %lu", when,
		      now.bytes[MK_FLOW_REQUEST], now.bytes[MK_FLOW_REPLY], sent[MK_FLOW_REQUEST],
		      sent[MK_FLOW_REPLY]);
}

/* ---- a flow ------------------------------------------------------------------------------------ */

/* Paths of a connection: by ClusterIP, by NodePort. The test finds the answers. */
static const struct {
	const char *name, *frontend;
	enum mk_scope scope;
	uint16_t flags;
	enum mk_hook hook, answer_hook;
	const char *request;
} paths[] = {
	{ "ClusterIP", "tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, MK_HOOK_POD, MK_HOOK_OVERLAY,
	  "tcp 10.244.1.2:40000 > 10.96.0.10:80" },
	{ "NodePort", "tcp 192.168.99.11:30080", MK_SCOPE_EXTERNAL,
	  MK_FRONTEND_MAGLEV | MK_FRONTEND_MASQUERADE, MK_HOOK_UPLINK, MK_HOOK_OVERLAY,
	  "tcp 203.0.113.10:40000 > 192.168.99.11:30080" },
	{ "ClusterIP from the host", "tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, MK_HOOK_HOST,
	  MK_HOOK_OVERLAY, "tcp 10.18.0.1:40000 > 10.96.0.10:80" },
};

static char answer_flow[128];

static void send_request(int path, uint8_t tcp_flags, uint16_t payload_bytes)
{
	const struct frame_options options = { .tcp_flags = tcp_flags,
					       .payload_bytes = payload_bytes };
	struct frame in = frame_make(paths[path].request, &options), out;
	char from[48], to[48];

	sent[MK_FLOW_REQUEST] += in.length;
	ck_assert_int_ne(fixture_send(paths[path].hook, &in, &out), DROPPED);
	ck_assert_int_eq(sscanf(frame_flow(&out), "tcp %47s > %47s", from, to), 2);
	snprintf(answer_flow, sizeof(answer_flow), "tcp %s > %s", to, from);
}

static void send_answer(int path, uint8_t tcp_flags, uint16_t payload_bytes)
{
	const struct frame_options options = { .tcp_flags = tcp_flags,
					       .payload_bytes = payload_bytes };
	struct frame in = frame_make(answer_flow, &options), out;

	sent[MK_FLOW_REPLY] += in.length;
	ck_assert_int_ne(fixture_send(paths[path].answer_hook, &in, &out), DROPPED);
}

static void connect_by(int path)
{
	fixture_service(paths[path].frontend, paths[path].scope, paths[path].flags, remote_backend,
			0, 1);
	send_request(path, SYN, 0);
	send_answer(path, SYN | ACK, 0);
	send_request(path, ACK, 0);
}

/* A connection that does not move when it is established: only its first packet is counted at
 * once. */
START_TEST(test_connection_that_stays)
{
	const char *name = paths[_i].name;

	connect_by(_i);
	expect_counts(name, 1, 1, 0);
	send_request(_i, ACK, 100);
	send_answer(_i, ACK, 1000);
	send_request(_i, FIN | ACK, 0);
	expect_counts("one FIN", 1, 4, 0);
	send_answer(_i, FIN | ACK, 0);
	expect_counts("both FINs", 1, 4, 3);
	expect_bytes("both FINs");
}
END_TEST

START_TEST(test_connection)
{
	const char *name = paths[_i].name;

	fixture_quota(0);
	connect_by(_i);
	expect_counts(name, 1, 2, 1);
	expect_bytes(name);
	for (int i = 0; i < 5; i++) {
		send_request(_i, ACK, 100);
		send_answer(_i, ACK, 1000);
	}
	expect_counts("gathered meanwhile", 1, 2, 1);
	send_request(_i, FIN | ACK, 0);
	expect_counts("one FIN", 1, 8, 1);
	send_answer(_i, FIN | ACK, 0);
	expect_counts("both FINs", 1, 8, 7);
	expect_bytes("both FINs");
}
END_TEST

START_TEST(test_reset)
{
	fixture_quota(0);
	connect_by(0);
	send_request(0, ACK, 9);
	send_request(0, RST, 0);
	expect_counts("RST", 1, 4, 1);
	expect_bytes("RST");
}
END_TEST

/* A refused connection: SYN and RST. */
START_TEST(test_refused_by_the_backend)
{
	fixture_service(paths[0].frontend, MK_SCOPE_INTERNAL, 0, remote_backend, 0, 1);
	send_request(0, SYN, 0);
	send_answer(0, RST | ACK, 0);
	expect_counts("RST", 1, 1, 1);
}
END_TEST

/* The port used again: what the ended session still held is not lost. */
START_TEST(test_port_reused)
{
	connect_by(0);
	send_request(0, FIN | ACK, 0);
	send_answer(0, FIN | ACK, 0);
	send_request(0, ACK, 0);
	expect_counts("last ACK", 1, 3, 2);
	send_request(0, SYN, 0);
	expect_counts("next SYN", 2, 5, 2);
	expect_bytes("next SYN");
}
END_TEST

START_TEST(test_udp)
{
	struct frame request = frame_make("udp 10.244.1.2:40000 > 10.96.0.10:53", NULL), out;
	struct frame answer = frame_make("udp 10.244.2.7:8080 > 10.244.1.2:40000", NULL);

	fixture_service("udp 10.96.0.10:53", MK_SCOPE_INTERNAL, 0, remote_backend, 0, 1);
	fixture_send(MK_HOOK_POD, &request, &out);
	expect_counts("request", 1, 1, 0);
	fixture_send(MK_HOOK_POD, &request, &out);
	expect_counts("repeated", 1, 1, 0);
	fixture_send(MK_HOOK_OVERLAY, &answer, &out);
	expect_counts("answer", 1, 2, 1);
}
END_TEST

/* A packet that the kernel will cut into ten, each with its headers. */
START_TEST(test_gso)
{
	fixture_quota(0);
	connect_by(0);
	fixture_gso(10, 100);
	send_request(0, ACK, 1000);
	fixture_gso(0, 0);
	send_request(0, FIN | ACK, 0);
	expect_counts("ten segments", 1, 13, 1);
	sent[MK_FLOW_REQUEST] += 9 * TCP_HEADERS;
	expect_bytes("ten segments");
}
END_TEST

/* ---- when -------------------------------------------------------------------------------------- */

static bool is_request(const struct mk_session *session)
{
	return session->flags & MK_SESSION_FORWARD;
}

/* Read the forward entry, which the row changes in place. */
static struct mk_session request_entry(const char *map, struct mk_tuple *key)
{
	struct mk_session session;
	int fd = fixture_map(map);

	for (void *last = NULL; row_next_key(fd, last, key) == 0; last = key) {
		ck_assert_int_eq(row_lookup(fd, key, &session), 0);
		if (is_request(&session))
			return session;
	}
	ck_abort_msg("no such session in map %s", map);
}

START_TEST(test_once_a_second)
{
	struct mk_session session;
	struct mk_tuple key;

	fixture_quota(0);
	connect_by(0);
	send_request(0, ACK, 10);
	expect_counts("within the second", 1, 2, 1);
	session = request_entry("sessions", &key);
	ck_assert_uint_eq(session.packets, 1);
	session.last_seen_ns -= 1100000000;
	ck_assert_int_eq(row_update(fixture_map("sessions"), &key, &session, 0), 0);
	send_request(0, ACK, 10);
	expect_counts("a second later", 1, 4, 1);
	ck_assert_uint_eq(request_entry("sessions", &key).packets, 0);
	expect_bytes("a second later");
}
END_TEST

/* The agent has removed the counters of a Service that is gone; its sessions do not create them
 * again. */
START_TEST(test_service_gone)
{
	const __u32 account = ACCOUNT;

	connect_by(0);
	ck_assert_int_eq(row_delete(fixture_map("service_counters"), &account), 0);
	send_request(0, FIN | ACK, 0);
	ck_assert_uint_eq(fixture_count("service_counters"), 0);
}
END_TEST

START_TEST(test_masquerade_counts_nothing)
{
	struct frame in = frame_make("tcp 10.244.1.2:40000 > 203.0.113.10:443", NULL), out;
	struct mk_tuple key;

	for (int i = 0; i < 3; i++)
		fixture_send(MK_HOOK_POD, &in, &out);
	ck_assert_uint_eq(request_entry("nat_sessions", &key).packets, 0);
	ck_assert_uint_eq(fixture_count("service_counters"), 0);
}
END_TEST

/* ---- drops ------------------------------------------------------------------------------------- */

static void as_it_is(void)
{
}

static void lose_backend(void)
{
	struct mk_backend_key key;
	int fd = fixture_map("service_backends");

	ck_assert_int_eq(row_next_key(fd, NULL, &key), 0);
	ck_assert_int_eq(row_delete(fd, &key), 0);
}

static void let_nobody_in(void)
{
	struct mk_frontend_key key;
	struct mk_frontend service;
	int fd = fixture_map("frontends");

	ck_assert_int_eq(row_next_key(fd, NULL, &key), 0);
	ck_assert_int_eq(row_lookup(fd, &key, &service), 0);
	service.ranges_id = 77; /* map source_ranges has no entry with this id */
	ck_assert_int_eq(row_update(fd, &key, &service, BPF_ANY), 0);
}

static const struct {
	const char *name;
	enum mk_scope scope;
	uint16_t flags;
	const char *const *backends;
	void (*spoil)(void);
	enum mk_drop_reason reason;
} drops[] = {
	{ "no endpoint anywhere", MK_SCOPE_INTERNAL, 0, NULL, as_it_is, MK_DROP_REFUSED },
	{ "no endpoint here", MK_SCOPE_INTERNAL, MK_FRONTEND_DROP_EMPTY, NULL, as_it_is,
	  MK_DROP_NO_LOCAL_BACKEND },
	{ "backend not in its table", MK_SCOPE_INTERNAL, 0, lost_backend, lose_backend,
	  MK_DROP_NO_BACKEND },
	{ "no endpoint anywhere, from outside", MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV, NULL,
	  as_it_is, MK_DROP_REFUSED },
	{ "client out of the source ranges", MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV, local_backend,
	  let_nobody_in, MK_DROP_SOURCE_RANGE },
	{ "no endpoint here, from outside", MK_SCOPE_EXTERNAL,
	  MK_FRONTEND_MAGLEV | MK_FRONTEND_DROP_EMPTY, NULL, as_it_is, MK_DROP_NO_LOCAL_BACKEND },
};

START_TEST(test_drops)
{
	struct mk_service_drop_key key = { .service_id = ACCOUNT, .reason = drops[_i].reason };
	int path = drops[_i].scope == MK_SCOPE_EXTERNAL;
	struct frame in = frame_make(paths[path].request, NULL), out;
	__u64 packets = 0;

	fixture_service(paths[path].frontend, drops[_i].scope, drops[_i].flags, drops[_i].backends,
			0, 1);
	drops[_i].spoil();
	for (int i = 0; i < 3; i++)
		fixture_send(paths[path].hook, &in, &out);
	row_lookup(fixture_map("service_drops"), &key, &packets);
	ck_assert_msg(packets == 3, "%s: %llu drops counted", drops[_i].name, packets);
	expect_counts(drops[_i].name, 0, 0, 0);
	ck_assert_uint_eq(fixture_count("service_drops"), 1);
}
END_TEST

BPF_SUITE("counters")
{
	TCase *tcase = bpf_case(suite, "counters");

	tcase_add_loop_test(tcase, test_connection, 0, ROWS(paths));
	tcase_add_loop_test(tcase, test_connection_that_stays, 0, ROWS(paths));
	tcase_add_test(tcase, test_reset);
	tcase_add_test(tcase, test_refused_by_the_backend);
	tcase_add_test(tcase, test_port_reused);
	tcase_add_test(tcase, test_udp);
	tcase_add_test(tcase, test_gso);
	tcase_add_test(tcase, test_once_a_second);
	tcase_add_test(tcase, test_service_gone);
	tcase_add_test(tcase, test_masquerade_counts_nothing);
	tcase_add_loop_test(tcase, test_drops, 0, ROWS(drops));
}
