// SPDX-License-Identifier: Apache-2.0
/* An RST counts if its receiver accepts it: its sequence number is near the next one that the
 * receiver expects, and no other packet comes later. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <stdio.h>
#include <string.h>

#include "bpf/run.h"
#include "rows.h"

static const struct path {
	const char *name, *map;
	const char *client, *server;
	enum mk_hook hook, back;
} paths[] = {
	{ "ClusterIP", "sessions", "10.244.1.2:40000", "10.96.0.10:80", MK_HOOK_POD,
	  MK_HOOK_OVERLAY },
	{ "NodePort", "sessions", "203.0.113.10:40000", "192.168.99.11:30080", MK_HOOK_UPLINK,
	  MK_HOOK_OVERLAY },
	{ "masquerade", "nat_sessions", "10.244.1.2:40000", "203.0.113.10:443", MK_HOOK_POD,
	  MK_HOOK_UPLINK },
};

/* A packet of the client (C) or the server (S), and the seconds since the one before. */
struct step {
	char from; /* 0: end */
	uint8_t flags;
	uint32_t seconds, seq, ack;
};

/* After a handshake; both ends' initial number is 1000. */
static const struct row {
	const char *name;
	bool is_reset;
	struct step steps[4];
} rows[] = {
	{ "the next number", true, { { 'C', RST, 0, 1001, 0 } } },
	{ "the next number, of the server", true, { { 'S', RST | ACK, 0, 1001, 1001 } } },
	{ "some bytes on, which were on their way", true, { { 'S', RST, 0, 1001 + 100000, 0 } } },
	{ "made up", false, { { 'C', RST, 0, 123456789, 0 } } },
	{ "made up, of the server", false, { { 'S', RST, 0, 123456789, 0 } } },
	{ "made up, with an acknowledgement", false, { { 'S', RST | ACK, 0, 123456789, 1001 } } },
	{ "an old number", false, { { 'S', RST, 0, 1000, 0 } } },
	{ "the number that is next by now",
	  true,
	  { { 'C', ACK, 5, 1001, 50000000 }, { 'S', RST, 0, 50000000, 0 } } },
	{ "the number that was next before",
	  false,
	  { { 'C', ACK, 5, 1001, 50000000 }, { 'S', RST, 0, 1001, 0 } } },
	{ "a made-up one's acknowledgement counts for nothing",
	  false,
	  { { 'C', RST | ACK, 5, 123456789, 50000000 }, { 'S', RST, 0, 50000000, 0 } } },
	{ "its receiver goes on",
	  false,
	  { { 'S', RST, 0, 1001, 0 }, { 'C', ACK, 5, 1001, 1001 } } },
	{ "its receiver goes on, the server",
	  false,
	  { { 'C', RST, 0, 1001, 0 }, { 'S', ACK, 5, 1001, 1001 } } },
	{ "its sender goes on", false, { { 'C', RST, 0, 1001, 0 }, { 'C', ACK, 5, 1001, 1001 } } },
	{ "data of its receiver that was on its way",
	  true,
	  { { 'C', RST, 0, 1001, 0 }, { 'S', ACK, 0, 1001, 1001 } } },
	{ "sent again for that data",
	  true,
	  { { 'C', RST, 0, 1001, 0 }, { 'S', ACK, 0, 1001, 1001 }, { 'C', RST, 5, 1001, 0 } } },
	{ "another one, after its receiver has gone on",
	  true,
	  { { 'S', RST, 0, 1001, 0 }, { 'C', ACK, 5, 1001, 1001 }, { 'S', RST, 5, 1001, 0 } } },
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

static void answer(const struct flow *flow, const struct frame_options *options)
{
	struct frame in = frame_make(flow->back, options), out;
	char wanted[96];

	snprintf(wanted, sizeof(wanted), "tcp %s > %s", flow->path->server, flow->path->client);
	ck_assert_msg(fixture_send(flow->path->back, &in, &out) != DROPPED, "%s was dropped",
		      flow->back);
	ck_assert_str_eq(frame_flow(&out), wanted);
}

static void send_from(struct flow *flow, char from, const struct frame_options *options)
{
	if (from == 'C')
		ask(flow, options);
	else
		answer(flow, options);
}

typedef unsigned (*of_entry)(struct mk_session *session, unsigned value);

/* Change both entries by @change and return the sum of its results. */
static unsigned each_entry(const struct path *path, of_entry change, unsigned value)
{
	int fd = fixture_map(path->map);
	struct mk_session session;
	struct mk_tuple keys[3];
	unsigned count = 0, sum = 0;

	for (void *last = NULL; count < 3 && row_next_key(fd, last, &keys[count]) == 0;
	     last = &keys[count++])
		;
	ck_assert_uint_eq(count, 2);
	for (unsigned i = 0; i < count; i++) {
		ck_assert_int_eq(row_lookup(fd, &keys[i], &session), 0);
		sum += change(&session, value);
		ck_assert_int_eq(row_update(fd, &keys[i], &session, BPF_EXIST), 0);
	}
	return sum;
}

static unsigned age(struct mk_session *session, unsigned seconds)
{
	session->last_seen_ns -= seconds * 1000000000ULL;
	if (session->reset_s) /* 0 means none, so the programs write another second, too */
		session->reset_s = (uint8_t)(session->reset_s - seconds) ?: 0xff;
	return 0;
}

static unsigned is_reset(struct mk_session *session, unsigned value)
{
	(void)value;
	return session->reset != 0;
}

static unsigned of_earlier_version(struct mk_session *session, unsigned value)
{
	(void)value;
	session->ack = 0;
	return 0;
}

static void establish(struct flow *flow)
{
	ask(flow, &(struct frame_options){ .tcp_flags = SYN });
	answer(flow, &(struct frame_options){ .tcp_flags = SYN | ACK });
	ask(flow, &(struct frame_options){ .tcp_flags = ACK });
}

/* Reuse the client's port: it opens another session if the earlier one is over. */
static void expect_over(struct flow *flow, const char *name, bool over)
{
	static const char *const other[] = { "10.244.1.3:8080", NULL };
	struct frame syn = frame_make("tcp 10.244.1.2:40000 > 10.96.0.10:80", NULL), out;
	enum where where;

	if (flow->path != &paths[0])
		return;
	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, other, 1, 1);
	where = fixture_send(MK_HOOK_POD, &syn, &out);
	ck_assert_msg(where == (over ? TO_POD : TO_OVERLAY), "%s: the next SYN went %s", name,
		      where_name(where));
}

START_TEST(test_counts)
{
	const struct path *path = &paths[_i % (int)ROWS(paths)];
	const struct row *row = &rows[_i / (int)ROWS(paths)];
	struct flow flow = { .path = path };
	unsigned resets;

	establish(&flow);
	for (size_t i = 0; i < 4 && row->steps[i].from; i++) {
		const struct step *step = &row->steps[i];

		each_entry(path, age, step->seconds);
		send_from(&flow, step->from,
			  &(struct frame_options){
				  .tcp_flags = step->flags, .seq = step->seq, .ack = step->ack });
	}
	resets = each_entry(path, is_reset, 0);
	ck_assert_msg(!!resets == row->is_reset, "%s, %s: %u directions are reset", row->name,
		      path->name, resets);
	expect_over(&flow, row->name, row->is_reset);
}
END_TEST

/* Half-open, or established by an earlier version: there is no number to compare with. */
START_TEST(test_nothing_known)
{
	const struct path *path = &paths[_i / 2];
	struct flow flow = { .path = path };

	if (_i % 2) {
		establish(&flow);
		each_entry(path, of_earlier_version, 0);
	} else {
		ask(&flow, &(struct frame_options){ .tcp_flags = SYN });
	}
	answer(&flow, &(struct frame_options){ .tcp_flags = RST | ACK, .seq = 123456789 });
	ck_assert_uint_eq(each_entry(path, is_reset, 0), 1);
}
END_TEST

BPF_SUITE("resets")
{
	TCase *tcase = tcase_create("resets");

	tcase_add_unchecked_fixture(tcase, fixture_load_small, fixture_unload);
	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	tcase_add_loop_test(tcase, test_counts, 0, ROWS(paths) * ROWS(rows));
	tcase_add_loop_test(tcase, test_nothing_known, 0, 2 * ROWS(paths));
}
