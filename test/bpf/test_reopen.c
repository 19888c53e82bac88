// SPDX-License-Identifier: Apache-2.0
/* A client's port used again after its connection has ended (bpf/reopen.h): the session's entries stay where they are and
 * are written anew, if they are what the new one would enter; else they are gone, and it is opened as any. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <stdio.h>
#include <string.h>

#include "bpf/run.h"

#define MARK 77 /* in an entry's padding: what is made again has zero there */

static const struct path {
	const char *name, *client; /* with its port */
	enum mk_hook hook;
} paths[] = {
	{ "pod", "10.244.1.2:40000", MK_HOOK_POD },
	{ "host", "192.168.99.11:40000", MK_HOOK_HOST }, /* any free source port */
};
#define SERVER	"10.96.0.10:80"
#define BACKEND "10.244.2.7:8080"

static void put_service(const char *proto, const char *address, uint16_t local_count)
{
	const char *const backends[] = { address, NULL };
	char frontend[64];

	snprintf(frontend, sizeof(frontend), "%s " SERVER, proto);
	fixture_service(frontend, MK_SCOPE_INTERNAL, 0, backends, local_count, 1);
}

static void setup(void)
{
	fixture_reset();
	fixture_room(FIXTURE_ROOM);
	put_service("tcp", BACKEND, 0);
	put_service("sctp", BACKEND, 0);
}

struct flow {
	const struct path *path;
	const char *proto;
	char back[128]; /* as the server answers */
};

/* What became of the client's packet. */
static enum where ask(struct flow *flow, const struct frame_options *options)
{
	char text[96], from[48], to[48];
	struct frame in, out;
	enum where where;

	snprintf(text, sizeof(text), "%s %s > " SERVER, flow->proto, flow->path->client);
	in = frame_make(text, options);
	where = fixture_send(flow->path->hook, &in, &out);
	if (where == TO_OVERLAY || where == TO_POD) {
		ck_assert_int_eq(sscanf(frame_flow(&out), "%*s %47s > %47s", from, to), 2);
		snprintf(flow->back, sizeof(flow->back), "%s %s > %s", flow->proto, to, from);
	}
	return where;
}

static void answer(const struct flow *flow, const struct frame_options *options)
{
	struct frame in = frame_make(flow->back, options), out;
	char wanted[96];

	snprintf(wanted, sizeof(wanted), "%s " SERVER " > %s", flow->proto, flow->path->client);
	ck_assert_msg(fixture_send(MK_HOOK_OVERLAY, &in, &out) != DROPPED, "%s was dropped",
		      flow->back);
	ck_assert_str_eq(frame_flow(&out), wanted);
}

#define WITH(flags) (&(struct frame_options){ .tcp_flags = (flags) })

static void connect_to(struct flow *flow)
{
	ck_assert_int_ne(ask(flow, WITH(SYN)), DROPPED);
	answer(flow, WITH(SYN | ACK));
	ask(flow, WITH(ACK));
}

static void end_both(struct flow *flow)
{
	ask(flow, WITH(FIN | ACK));
	answer(flow, WITH(FIN | ACK));
	ask(flow, WITH(ACK));
}

/* ---- entries ------------------------------------------------------------------------------------ */

/* The forward entry's key and value (@forward), or the other's. */
static void read_entry(bool forward, struct mk_tuple *key, struct mk_session *session)
{
	int fd = fixture_map("sessions");

	for (void *last = NULL; bpf_map_get_next_key(fd, last, key) == 0; last = key) {
		ck_assert_int_eq(bpf_map_lookup_elem(fd, key, session), 0);
		if (!(session->flags & MK_SESSION_FORWARD) == !forward)
			return;
	}
	ck_abort_msg("no entry %s the server", forward ? "towards" : "from");
}

static void put_entry(const struct mk_tuple *key, const struct mk_session *session)
{
	ck_assert_int_eq(bpf_map_update_elem(fixture_map("sessions"), key, session, BPF_ANY), 0);
}

/* As if it had been made some seconds ago. */
static void mark(void)
{
	for (int forward = 0; forward < 2; forward++) {
		struct mk_session session;
		struct mk_tuple key;

		read_entry(forward, &key, &session);
		session.pad[0] = MARK;
		session.created_ns = session.last_seen_ns = 1;
		put_entry(&key, &session);
	}
}

/* A half-open session, written anew (@marked) or made. */
static void expect_new(const char *when, bool marked)
{
	static const uint8_t flags[] = { 0, MK_SESSION_FORWARD };

	ck_assert_msg(fixture_count("sessions") == 2, "%s: %u entries", when,
		      fixture_count("sessions"));
	for (int forward = 0; forward < 2; forward++) {
		uint8_t lasting = MK_SESSION_VIA_HOST | MK_SESSION_LOOPBACK;
		struct mk_session session;
		struct mk_tuple key;

		read_entry(forward, &key, &session);
		ck_assert_msg(session.pad[0] == (marked ? MARK : 0), "%s: %s", when,
			      marked ? "made again" : "written anew");
		ck_assert_msg((session.flags & ~lasting) == flags[forward], "%s: flags 0x%x", when,
			      session.flags);
		ck_assert_msg(session.created_ns > 1 && session.last_seen_ns > 1,
			      "%s: times of the one before", when);
	}
	ck_assert_msg(fixture_room_taken() == 1, "%s: room of %ld taken", when,
		      fixture_room_taken());
}

/* ---- rows --------------------------------------------------------------------------------------- */

/* How the connection ends that was there before. */
static const struct ending {
	const char *name;
	bool is_half_open;
	uint8_t by_client, by_server;
} endings[] = {
	{ "FIN", false, FIN | ACK, FIN | ACK },
	{ "RST of the client", false, RST, 0 },
	{ "RST of the server", false, 0, RST | ACK },
	{ "refused", true, 0, RST | ACK },
};

START_TEST(test_same_backend)
{
	const struct ending *ending = &endings[_i % (int)ROWS(endings)];
	struct flow flow = { .path = &paths[_i / (int)ROWS(endings)], .proto = "tcp" };
	char before[sizeof(flow.back)];

	if (ending->is_half_open)
		ask(&flow, WITH(SYN));
	else
		connect_to(&flow);
	if (ending->by_client)
		ask(&flow, WITH(ending->by_client));
	if (ending->by_server)
		answer(&flow, WITH(ending->by_server));
	mark();
	memcpy(before, flow.back, sizeof(before));
	for (int again = 0; again < 2; again++) {
		ck_assert_int_eq(ask(&flow, WITH(SYN)), TO_OVERLAY);
		ck_assert_str_eq(flow.back, before);
		expect_new(ending->name, true);
	}
	answer(&flow, WITH(SYN | ACK));
	ask(&flow, WITH(ACK));
	ck_assert_int_eq(fixture_room_taken(), 0);
}
END_TEST

/* One that goes on is not opened again. */
START_TEST(test_alive)
{
	struct flow flow = { .path = &paths[_i], .proto = "tcp" };
	struct mk_session session;
	struct mk_tuple key;

	connect_to(&flow);
	ask(&flow, WITH(FIN | ACK));
	mark();
	ck_assert_int_eq(ask(&flow, WITH(SYN)), TO_OVERLAY);
	for (int forward = 0; forward < 2; forward++) {
		read_entry(forward, &key, &session);
		ck_assert_uint_eq(session.created_ns, 1);
		ck_assert_uint_ne(session.flags & MK_SESSION_OPEN, 0);
	}
}
END_TEST

static void set_account(__u32 account_id)
{
	struct mk_service service = fixture_get_service("tcp " SERVER, MK_SCOPE_INTERNAL);

	service.account_id = account_id;
	fixture_put_service("tcp " SERVER, MK_SCOPE_INTERNAL, &service);
}

static void other_backend(void)
{
	__u32 before = fixture_get_service("tcp " SERVER, MK_SCOPE_INTERNAL).account_id;

	put_service("tcp", "10.244.1.3:8080", 1);
	set_account(before);
}

static void other_account(void)
{
	set_account(4711);
}

static void no_other_direction(void)
{
	struct mk_session session;
	struct mk_tuple key;

	read_entry(false, &key, &session);
	ck_assert_int_eq(bpf_map_delete_elem(fixture_map("sessions"), &key), 0);
}

/* Its answers' entry is another client's by now. */
static void others_direction(void)
{
	struct mk_session session;
	struct mk_tuple key;

	read_entry(false, &key, &session);
	session.to.daddr = fixture_addr("10.244.1.3");
	put_entry(&key, &session);
}

static const struct change {
	const char *name;
	void (*make)(void);
} changes[] = {
	{ "another backend", other_backend },
	{ "another Service", other_account },
	{ "no entry for the answers", no_other_direction },
	{ "somebody else's answers", others_direction },
};

START_TEST(test_other)
{
	const struct change *change = &changes[_i % (int)ROWS(changes)];
	struct flow flow = { .path = &paths[_i / (int)ROWS(changes)], .proto = "tcp" };
	enum mk_hook back = change->make == other_backend ? MK_HOOK_POD : MK_HOOK_OVERLAY;
	struct frame in, out;
	char wanted[96];

	connect_to(&flow);
	end_both(&flow);
	mark();
	change->make();
	ck_assert_int_ne(ask(&flow, WITH(SYN)), DROPPED);
	expect_new(change->name, false);
	in = frame_make(flow.back, WITH(SYN | ACK));
	ck_assert_int_ne(fixture_send(back, &in, &out), DROPPED);
	snprintf(wanted, sizeof(wanted), "tcp " SERVER " > %s", flow.path->client);
	ck_assert_str_eq(frame_flow(&out), wanted);
}
END_TEST

/* What cannot be opened leaves nothing of the one before: its packets would follow that. */
START_TEST(test_refused)
{
	static const char *const nobody[] = { NULL };
	struct flow flow = { .path = &paths[_i % 2], .proto = "tcp" };
	struct mk_service_key key = { .proto = IPPROTO_TCP, .scope = MK_SCOPE_INTERNAL };

	connect_to(&flow);
	end_both(&flow);
	if (_i / 2) {
		fixture_addr_port(SERVER, &key.addr, &key.port);
		ck_assert_int_eq(bpf_map_delete_elem(fixture_map("services"), &key), 0);
	} else {
		fixture_service("tcp " SERVER, MK_SCOPE_INTERNAL, 0, nobody, 0, 1);
	}
	ask(&flow, WITH(SYN));
	ck_assert_uint_eq(fixture_count("sessions"), 0);
	ck_assert_uint_eq(fixture_count("sessions_new"), 0);
}
END_TEST

/* Half open again: where there is no room for that it goes to the new ones, as any. */
START_TEST(test_no_room)
{
	struct flow flow = { .path = &paths[_i], .proto = "tcp" };

	connect_to(&flow);
	end_both(&flow);
	fixture_room(0);
	ck_assert_int_eq(ask(&flow, WITH(SYN)), TO_OVERLAY);
	ck_assert_uint_eq(fixture_count("sessions"), 0);
	ck_assert_uint_eq(fixture_count("sessions_new"), 2);
	ck_assert_int_eq(fixture_room_taken(), 0);
	answer(&flow, WITH(SYN | ACK));
}
END_TEST

/* An association has no place among the established ones before it is. */
START_TEST(test_sctp)
{
	struct flow flow = { .path = &paths[0], .proto = "sctp" };
	const struct frame_options init = { .sctp_chunk = 0 }, ack = { .sctp_chunk = 2 },
				   echo = { .sctp_chunk = 10 }, end = { .sctp_chunk = 8 };

	ask(&flow, &init);
	answer(&flow, &ack);
	ask(&flow, &echo);
	ck_assert_uint_eq(fixture_count("sessions"), 2);
	ask(&flow, &end);
	answer(&flow, &end);
	ck_assert_int_eq(ask(&flow, &init), TO_OVERLAY);
	ck_assert_uint_eq(fixture_count("sessions"), 0);
	ck_assert_uint_eq(fixture_count("sessions_new"), 2);
	answer(&flow, &ack);
}
END_TEST

/* Meanwhile the pod has a connection of its own to that backend, from that port: the answers of both go where
 * they belong, as the later one of the two got another port when it came. */
START_TEST(test_beside)
{
	struct flow flow = { .path = &paths[0], .proto = "tcp" };
	struct frame in = frame_make("tcp 10.244.1.2:40000 > " BACKEND, WITH(SYN)), out;
	char from[48], text[128];

	connect_to(&flow);
	end_both(&flow);
	ck_assert_int_eq(fixture_send(MK_HOOK_POD, &in, &out), TO_OVERLAY);
	ck_assert_int_eq(sscanf(frame_flow(&out), "tcp %47s >", from), 1);
	ck_assert_str_ne(from, "10.244.1.2:40000");
	ck_assert_int_eq(ask(&flow, WITH(SYN)), TO_OVERLAY);
	ck_assert_str_eq(flow.back, "tcp " BACKEND " > 10.244.1.2:40000");
	answer(&flow, WITH(SYN | ACK));
	snprintf(text, sizeof(text), "tcp " BACKEND " > %s", from);
	in = frame_make(text, WITH(SYN | ACK));
	ck_assert_int_eq(fixture_send(MK_HOOK_OVERLAY, &in, &out), TO_POD);
	ck_assert_str_eq(frame_flow(&out), "tcp " BACKEND " > 10.244.1.2:40000");
}
END_TEST

BPF_SUITE("reopen")
{
	TCase *tcase = tcase_create("reopen");

	tcase_add_unchecked_fixture(tcase, fixture_load_small, fixture_unload);
	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	tcase_add_loop_test(tcase, test_same_backend, 0, ROWS(paths) * ROWS(endings));
	tcase_add_loop_test(tcase, test_alive, 0, ROWS(paths));
	tcase_add_loop_test(tcase, test_other, 0, ROWS(paths) * ROWS(changes));
	tcase_add_loop_test(tcase, test_refused, 0, 4);
	tcase_add_loop_test(tcase, test_no_room, 0, ROWS(paths));
	tcase_add_test(tcase, test_sctp);
	tcase_add_test(tcase, test_beside);
}
