// SPDX-License-Identifier: Apache-2.0
/* A TCP session is established when the client acknowledges the server's sequence number. A sender
 * with a forged address never sees that number. Until then the session is among those that may be
 * evicted. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <stdio.h>
#include <string.h>

#include "bpf/run.h"
#include "rows.h"

#define SERVER_ISN 0x12345678u

static const struct path {
	const char *name, *map, *map_new;
	const char *client, *server;
	enum mk_hook hook, back;
} paths[] = {
	{ "ClusterIP", "sessions", "sessions_young", "10.244.1.2:40000", "10.96.0.10:80",
	  MK_HOOK_POD, MK_HOOK_OVERLAY },
	{ "NodePort", "sessions", "sessions_young", "203.0.113.10:40000", "192.168.99.11:30080",
	  MK_HOOK_UPLINK, MK_HOOK_OVERLAY },
	{ "masquerade", "nat_sessions", "nat_sessions_young", "10.244.1.2:40000",
	  "203.0.113.10:443", MK_HOOK_POD, MK_HOOK_UPLINK },
};

/* A packet of the client (C) or the server (S). */
struct step {
	char from; /* 0: end */
	uint8_t flags;
	uint32_t seq, ack;
};

static const struct row {
	const char *name;
	bool earned;
	struct step steps[6];
} rows[] = {
	{ "the next number",
	  true,
	  { { 'C', SYN, 0, 0 },
	    { 'S', SYN | ACK, SERVER_ISN, 0 },
	    { 'C', ACK, 1001, SERVER_ISN + 1 } } },
	{ "with its first data",
	  true,
	  { { 'C', SYN, 0, 0 },
	    { 'S', SYN | ACK, SERVER_ISN, 0 },
	    { 'C', PSH | ACK, 1001, SERVER_ISN + 1 } } },
	{ "with the end of its data",
	  true,
	  { { 'C', SYN, 0, 0 },
	    { 'S', SYN | ACK, SERVER_ISN, 0 },
	    { 'C', FIN | ACK, 1001, SERVER_ISN + 1 } } },
	{ "data that the server sent ahead (Fast Open)",
	  true,
	  { { 'C', SYN, 0, 0 },
	    { 'S', SYN | ACK, SERVER_ISN, 0 },
	    { 'S', ACK, SERVER_ISN + 1, 0 },
	    { 'S', ACK, SERVER_ISN + 1401, 0 },
	    { 'C', ACK, 1001, SERVER_ISN + 2801 } } },
	{ "data that overtook the SYN-ACK",
	  true,
	  { { 'C', SYN, 0, 0 },
	    { 'S', ACK, SERVER_ISN + 1401, 0 },
	    { 'S', SYN | ACK, SERVER_ISN, 0 },
	    { 'C', ACK, 1001, SERVER_ISN + 1 } } },
	{ "after the SYN-ACK was sent again",
	  true,
	  { { 'C', SYN, 0, 0 },
	    { 'S', SYN | ACK, SERVER_ISN, 0 },
	    { 'C', SYN, 0, 0 },
	    { 'S', SYN | ACK, SERVER_ISN, 0 },
	    { 'C', ACK, 1001, SERVER_ISN + 1 } } },
	{ "another SYN cookie's",
	  true,
	  { { 'C', SYN, 0, 0 },
	    { 'S', SYN | ACK, SERVER_ISN, 0 },
	    { 'C', SYN, 0, 0 },
	    { 'S', SYN | ACK, SERVER_ISN + 77777777, 0 },
	    { 'C', ACK, 1001, SERVER_ISN + 77777778 } } },
	{ "the next number, which is 0",
	  true,
	  { { 'C', SYN, 0, 0 }, { 'S', SYN | ACK, 0xffffffff, 0 }, { 'C', ACK, 1001, 0 } } },
	{ "both opened at once",
	  true,
	  { { 'C', SYN, 0, 0 },
	    { 'S', SYN, SERVER_ISN, 0 },
	    { 'C', SYN | ACK, 1000, SERVER_ISN + 1 },
	    { 'S', SYN | ACK, SERVER_ISN, 0 },
	    { 'C', ACK, 1001, SERVER_ISN + 1 } } },
	{ "a flow whose beginning was not seen",
	  true,
	  { { 'C', ACK, 5000, SERVER_ISN },
	    { 'S', ACK, SERVER_ISN + 10, 0 },
	    { 'C', ACK, 5000, SERVER_ISN + 10 } } },
	{ "no acknowledgement",
	  false,
	  { { 'C', SYN, 0, 0 },
	    { 'S', SYN | ACK, SERVER_ISN, 0 },
	    { 'C', PSH, 1001, SERVER_ISN + 1 } } },
	{ "an end without acknowledgement",
	  false,
	  { { 'C', SYN, 0, 0 },
	    { 'S', SYN | ACK, SERVER_ISN, 0 },
	    { 'C', FIN, 1001, SERVER_ISN + 1 } } },
	{ "a made-up number",
	  false,
	  { { 'C', SYN, 0, 0 }, { 'S', SYN | ACK, SERVER_ISN, 0 }, { 'C', ACK, 1001, 777 } } },
	{ "a made-up number, with the end",
	  false,
	  { { 'C', SYN, 0, 0 },
	    { 'S', SYN | ACK, SERVER_ISN, 0 },
	    { 'C', FIN | ACK, 1001, 777 } } },
	{ "the number itself",
	  false,
	  { { 'C', SYN, 0, 0 },
	    { 'S', SYN | ACK, SERVER_ISN, 0 },
	    { 'C', ACK, 1001, SERVER_ISN } } },
	{ "more than the client's window",
	  false,
	  { { 'C', SYN, 0, 0 },
	    { 'S', SYN | ACK, SERVER_ISN, 0 },
	    { 'C', ACK, 1001, SERVER_ISN + 1 + 65536 } } },
	{ "a reset with the number",
	  false,
	  { { 'C', SYN, 0, 0 },
	    { 'S', SYN | ACK, SERVER_ISN, 0 },
	    { 'C', RST | ACK, 1001, SERVER_ISN + 1 } } },
	{ "a made-up number, when the server has answered one already",
	  false,
	  { { 'C', SYN, 0, 0 },
	    { 'S', SYN | ACK, SERVER_ISN, 0 },
	    { 'C', ACK, 1001, 777 },
	    { 'S', ACK, 777, 0 },
	    { 'C', ACK, 1001, 777 } } },
	{ "the server has only opened one itself",
	  false,
	  { { 'C', SYN, 0, 0 }, { 'S', SYN, SERVER_ISN, 0 }, { 'C', ACK, 1001, SERVER_ISN + 1 } } },
	{ "a flow whose beginning was not seen, a made-up number",
	  false,
	  { { 'C', ACK, 5000, 777 }, { 'S', ACK, SERVER_ISN, 0 }, { 'C', ACK, 5000, 777 } } },
};

static void setup(void)
{
	static const char *const backend[] = { "10.244.2.7:8080", NULL };

	fixture_reset();
	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, backend, 0, 1);
	fixture_service("tcp 192.168.99.11:30080", MK_SCOPE_EXTERNAL,
			MK_FRONTEND_MAGLEV | MK_FRONTEND_MASQUERADE, backend, 0, 1);
}

struct flow {
	const struct path *path;
	char back[128]; /* the answer's flow */
};

static void ask(struct flow *flow, const struct frame_options *options)
{
	char text[96], from[48], to[48];
	struct frame in, out;

	snprintf(text, sizeof(text), "tcp %s > %s", flow->path->client, flow->path->server);
	in = frame_make(text, options);
	ck_assert_msg(fixture_send(flow->path->hook, &in, &out) != DROPPED, "%s was dropped", text);
	ck_assert_int_eq(sscanf(frame_flow(&out), "%*s %47s > %47s", from, to), 2);
	snprintf(flow->back, sizeof(flow->back), "tcp %s > %s", to, from);
}

/* Send the server's answer. It must reach the client from the address that it asked, in any state
 * of the session. */
static void answer(const struct flow *flow, const struct frame_options *options)
{
	struct frame in = frame_make(flow->back, options), out;
	char wanted[96];

	snprintf(wanted, sizeof(wanted), "tcp %s > %s", flow->path->server, flow->path->client);
	ck_assert_msg(fixture_send(flow->path->back, &in, &out) != DROPPED, "%s was dropped",
		      flow->back);
	ck_assert_str_eq(frame_flow(&out), wanted);
}

static void take(struct flow *flow, const struct step *step)
{
	const struct frame_options options = { .tcp_flags = step->flags,
					       .seq = step->seq,
					       .ack = step->ack };

	if (step->from == 'C')
		ask(flow, &options);
	else
		answer(flow, &options);
}

/* Count the established entries: those in the table that never evicts, with the flag set. */
static unsigned established(const struct path *path)
{
	struct mk_session session;
	struct mk_tuple key;
	unsigned count = 0;

	for (void *last = NULL; row_next_key(fixture_map(path->map), last, &key) == 0; last = &key)
		count += row_lookup(fixture_map(path->map), &key, &session) == 0 &&
			 session.stage == MK_SESSION_OPEN;
	return count;
}

static void expect(const struct row *row, const struct path *path, bool has_quota)
{
	unsigned open = established(path), half_open = row->earned ? 0 : 2;

	ck_assert_msg(open == 2 - half_open, "%s, %s: %u entries are established", row->name,
		      path->name, open);
	ck_assert_msg(fixture_quota_used() == (has_quota && half_open), "%s, %s: quota of %ld used",
		      row->name, path->name, fixture_quota_used());
	ck_assert_msg(fixture_count(path->map_new) == (has_quota ? 0 : half_open),
		      "%s, %s: %u entries among the new ones", row->name, path->name,
		      fixture_count(path->map_new));
}

/* With and without a quota for half-open sessions in the established table. */
START_TEST(test_acknowledged)
{
	const struct path *path = &paths[_i % (int)ROWS(paths)];
	const struct row *row = &rows[_i / (int)ROWS(paths)];

	for (int has_quota = row->steps[0].flags == SYN; has_quota >= 0; has_quota--) {
		struct flow flow = { .path = path };

		setup();
		fixture_quota(has_quota ? FIXTURE_QUOTA : 0);
		for (size_t i = 0; i < 6 && row->steps[i].from; i++)
			take(&flow, &row->steps[i]);
		expect(row, path, has_quota);
	}
}
END_TEST

static void fill(const char *map, unsigned entries)
{
	struct mk_session other = { .stage = MK_SESSION_OPEN };
	struct mk_tuple key = { .proto = IPPROTO_TCP };

	other.created_ns = other.last_seen_ns = ~0ULL; /* the session is in use */
	for (unsigned i = 0; i < entries; i++) {
		char source[INET_ADDRSTRLEN];

		snprintf(source, sizeof(source), "100.64.%u.%u", i >> 8 & 255, i & 255);
		key.saddr = fixture_addr(source);
		other.to = key;
		ck_assert_int_eq(row_update(fixture_map(map), &key, &other, BPF_NOEXIST), 0);
	}
}

/* The handshake completes while the established table is full: the session moves when there is
 * space, with any later sequence numbers. */
START_TEST(test_no_quota_yet)
{
	const struct path *path = &paths[_i];
	struct flow flow = { .path = path };

	fixture_quota(0);
	fill(path->map, FIXTURE_SMALL);
	ask(&flow, &(struct frame_options){ .tcp_flags = SYN });
	answer(&flow, &(struct frame_options){ .tcp_flags = SYN | ACK });
	ask(&flow, &(struct frame_options){ .tcp_flags = ACK });
	ck_assert_uint_eq(fixture_count(path->map_new), 2);
	fixture_empty(path->map);
	ask(&flow, &(struct frame_options){ .tcp_flags = ACK, .ack = 1001 + 5000000 });
	ck_assert_uint_eq(established(path), 2);
	ck_assert_uint_eq(fixture_count(path->map_new), 0);
}
END_TEST

/* A half-open, answered session of an earlier version: the server's sequence number is unknown. */
START_TEST(test_earlier_version)
{
	const struct path *path = &paths[_i];
	struct flow flow = { .path = path };
	struct mk_session session;
	struct mk_tuple key;
	int fd = fixture_map(path->map_new);

	fixture_quota(0);
	ask(&flow, &(struct frame_options){ .tcp_flags = SYN });
	ck_assert_int_eq(row_next_key(fd, NULL, &key), 0);
	ck_assert_int_eq(row_lookup(fd, &key, &session), 0);
	if (!(session.flags & MK_SESSION_FORWARD)) {
		ck_assert_int_eq(row_next_key(fd, &key, &key), 0);
		ck_assert_int_eq(row_lookup(fd, &key, &session), 0);
	}
	session.replied = 1; /* as src/datapath/migrate.c leaves it */
	ck_assert_int_eq(row_update(fd, &key, &session, BPF_EXIST), 0);
	ask(&flow, &(struct frame_options){ .tcp_flags = PSH });
	ck_assert_uint_eq(established(path), 0);
	ask(&flow, &(struct frame_options){ .tcp_flags = ACK, .ack = 4711 });
	ck_assert_uint_eq(established(path), 2);
}
END_TEST

/* A session that reuses the port of one that is over needs its own sequence number. */
START_TEST(test_opened_again)
{
	struct flow flow = { .path = &paths[_i] };

	for (uint32_t isn = SERVER_ISN; isn <= SERVER_ISN + 1000000; isn += 1000000) {
		ask(&flow, &(struct frame_options){ .tcp_flags = SYN });
		ask(&flow, &(struct frame_options){ .tcp_flags = ACK, .ack = SERVER_ISN + 1 });
		ck_assert_uint_eq(established(flow.path), 0);
		answer(&flow, &(struct frame_options){ .tcp_flags = SYN | ACK, .seq = isn });
		if (isn != SERVER_ISN) {
			ask(&flow,
			    &(struct frame_options){ .tcp_flags = ACK, .ack = SERVER_ISN + 1 });
			ck_assert_uint_eq(established(flow.path), 0);
		}
		ask(&flow, &(struct frame_options){ .tcp_flags = ACK, .ack = isn + 1 });
		ck_assert_uint_eq(established(flow.path), 2);
		ask(&flow, &(struct frame_options){ .tcp_flags = FIN | ACK, .ack = isn + 1 });
		answer(&flow, &(struct frame_options){ .tcp_flags = FIN | ACK, .seq = isn + 1 });
	}
}
END_TEST

BPF_SUITE("earned")
{
	TCase *tcase = tcase_create("earned");

	tcase_add_unchecked_fixture(tcase, fixture_load_small, fixture_unload);
	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	tcase_add_loop_test(tcase, test_acknowledged, 0, ROWS(paths) * ROWS(rows));
	tcase_add_loop_test(tcase, test_no_quota_yet, 0, ROWS(paths));
	tcase_add_loop_test(tcase, test_earlier_version, 0, ROWS(paths));
	tcase_add_loop_test(tcase, test_opened_again, 0, ROWS(paths));
}
