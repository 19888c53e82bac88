// SPDX-License-Identifier: Apache-2.0
/* Reuse of a client's port after its connection has ended (bpf/reuse.h). The session's entries
 * stay and are rewritten if they are those that the new session would insert. Otherwise they are
 * removed, and the session is opened as usual. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <stdio.h>
#include <string.h>

#include "bpf/run.h"
#include "rows.h"

#define MARK 77 /* in an entry's byte `spoke`: a new entry has zero there */

#define BACKEND "10.244.2.7:8080"

static const struct path {
	const char *client, *server; /* with their ports */
	enum mk_hook hook, back; /* hooks of requests and of answers */
	enum where to;
	const char *table;
	__u8 scope;
} paths[] = {
	{ "10.244.1.2:40000", "10.96.0.10:80", MK_HOOK_POD, MK_HOOK_OVERLAY, TO_OVERLAY, "sessions",
	  MK_SCOPE_INTERNAL },
	/* any free source port: */
	{ "192.168.99.11:40000", "10.96.0.10:80", MK_HOOK_HOST, MK_HOOK_OVERLAY, TO_OVERLAY,
	  "sessions", MK_SCOPE_INTERNAL },
	{ "198.51.100.7:40000", "192.168.99.11:30080", MK_HOOK_UPLINK, MK_HOOK_OVERLAY, TO_OVERLAY,
	  "sessions", MK_SCOPE_EXTERNAL },
	/* masqueraded, to no Service: */
	{ "10.244.1.2:40000", "198.51.100.7:8080", MK_HOOK_POD, MK_HOOK_UPLINK, TO_UPLINK,
	  "nat_sessions", 0 },
};
#define OF_SERVICES 3 /* the number of paths to Services */

static const char *frontend(const struct path *path, const char *proto)
{
	static char text[64];

	snprintf(text, sizeof(text), "%s %s", proto, path->server);
	return text;
}

/* Write the path's Service; @address NULL: without a backend. */
static void put_service(const struct path *path, const char *proto, const char *address,
			uint16_t local_count)
{
	const char *const backends[] = { address, NULL };

	fixture_service(frontend(path, proto), path->scope,
			path->scope == MK_SCOPE_EXTERNAL ? MK_FRONTEND_MASQUERADE : 0, backends,
			local_count, 1);
}

static void setup(void)
{
	fixture_reset();
	fixture_quota(FIXTURE_QUOTA);
	for (size_t i = 0; i < OF_SERVICES; i++)
		put_service(&paths[i], "tcp", BACKEND, 0);
	put_service(&paths[0], "sctp", BACKEND, 0);
}

struct flow {
	const struct path *path;
	const char *proto;
	char back[128]; /* as the server answers */
};

/* Send a packet of the client. Returns its outcome. */
static enum where ask(struct flow *flow, const struct frame_options *options)
{
	char text[96], from[48], to[48];
	struct frame in, out;
	enum where where;

	snprintf(text, sizeof(text), "%s %s > %s", flow->proto, flow->path->client,
		 flow->path->server);
	in = frame_make(text, options);
	where = fixture_send(flow->path->hook, &in, &out);
	if (where == TO_OVERLAY || where == TO_POD || where == TO_UPLINK) {
		ck_assert_int_eq(sscanf(frame_flow(&out), "%*s %47s > %47s", from, to), 2);
		snprintf(flow->back, sizeof(flow->back), "%s %s > %s", flow->proto, to, from);
	}
	return where;
}

static void answer(const struct flow *flow, const struct frame_options *options)
{
	struct frame in = frame_make(flow->back, options), out;
	char wanted[96];

	snprintf(wanted, sizeof(wanted), "%s %s > %s", flow->proto, flow->path->server,
		 flow->path->client);
	ck_assert_msg(fixture_send(flow->path->back, &in, &out) != DROPPED, "%s was dropped",
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

/* Read the key and value of the forward entry (@forward) or of the reverse entry. */
static void read_entry(const char *table, bool forward, struct mk_tuple *key,
		       struct mk_session *session)
{
	int fd = fixture_map(table);

	for (void *last = NULL; row_next_key(fd, last, key) == 0; last = key) {
		ck_assert_int_eq(row_lookup(fd, key, session), 0);
		if (!(session->flags & MK_SESSION_FORWARD) == !forward)
			return;
	}
	ck_abort_msg("no entry %s the server", forward ? "towards" : "from");
}

static void put_entry(const char *table, const struct mk_tuple *key,
		      const struct mk_session *session)
{
	ck_assert_int_eq(row_update(fixture_map(table), key, session, BPF_ANY), 0);
}

/* Mark the entries, and make them some seconds older. */
static void mark(const char *table)
{
	for (int forward = 0; forward < 2; forward++) {
		struct mk_session session;
		struct mk_tuple key;

		read_entry(table, forward, &key, &session);
		session.spoke = MARK; /* which no program writes in this table */
		session.created_ns = session.last_seen_ns = 1;
		put_entry(table, &key, &session);
	}
}

/* Expect a half-open session in rewritten (@marked) or new entries. */
static void expect_new(const char *table, const char *when, bool marked)
{
	static const uint8_t flags[] = { 0, MK_SESSION_FORWARD };

	ck_assert_msg(fixture_count(table) == 2, "%s: %u entries", when, fixture_count(table));
	for (int forward = 0; forward < 2; forward++) {
		uint8_t lasting = MK_SESSION_VIA_HOST | MK_SESSION_LOOPBACK;
		struct mk_session session;
		struct mk_tuple key;

		read_entry(table, forward, &key, &session);
		ck_assert_msg(session.spoke == (marked ? MARK : 0), "%s: %s", when,
			      marked ? "made again" : "written anew");
		ck_assert_msg((mk_session_flags(&session) & ~lasting) == flags[forward],
			      "%s: flags 0x%x", when, mk_session_flags(&session));
		ck_assert_msg(session.created_ns > 1 && session.last_seen_ns > 1,
			      "%s: times of the one before", when);
	}
	ck_assert_msg(fixture_quota_used() == 1, "%s: quota of %ld used", when,
		      fixture_quota_used());
}

/* ---- rows --------------------------------------------------------------------------------------- */

/* How the earlier connection ended. */
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
	mark(flow.path->table);
	memcpy(before, flow.back, sizeof(before));
	for (int again = 0; again < 2; again++) {
		ck_assert_int_eq(ask(&flow, WITH(SYN)), flow.path->to);
		ck_assert_str_eq(flow.back, before);
		expect_new(flow.path->table, ending->name, true);
	}
	answer(&flow, WITH(SYN | ACK));
	ask(&flow, WITH(ACK));
	ck_assert_int_eq(fixture_quota_used(), 0);
}
END_TEST

/* A live connection is not reopened. */
START_TEST(test_alive)
{
	struct flow flow = { .path = &paths[_i], .proto = "tcp" };
	struct mk_session session;
	struct mk_tuple key;

	connect_to(&flow);
	ask(&flow, WITH(FIN | ACK));
	mark(flow.path->table);
	ck_assert_int_eq(ask(&flow, WITH(SYN)), flow.path->to);
	for (int forward = 0; forward < 2; forward++) {
		read_entry(flow.path->table, forward, &key, &session);
		ck_assert_uint_eq(session.created_ns, 1);
		ck_assert_uint_eq(session.stage, MK_SESSION_OPEN);
	}
}
END_TEST

static void set_account(const struct path *path, __u32 service_id)
{
	struct mk_frontend service = fixture_get_service(frontend(path, "tcp"), path->scope);

	service.service_id = service_id;
	fixture_put_service(frontend(path, "tcp"), path->scope, &service);
}

static void other_backend(const struct path *path)
{
	__u32 before = fixture_get_service(frontend(path, "tcp"), path->scope).service_id;

	put_service(path, "tcp", "10.244.1.3:8080", 1);
	set_account(path, before);
}

static void other_account(const struct path *path)
{
	set_account(path, 4711);
}

static void no_other_direction(const struct path *path)
{
	struct mk_session session;
	struct mk_tuple key;

	read_entry(path->table, false, &key, &session);
	ck_assert_int_eq(row_delete(fixture_map(path->table), &key), 0);
}

/* Let the reverse entry belong to another client. */
static void others_direction(const struct path *path)
{
	struct mk_session session;
	struct mk_tuple key;

	read_entry(path->table, false, &key, &session);
	session.to.daddr = fixture_addr("10.244.1.3");
	put_entry(path->table, &key, &session);
}

static const struct change {
	const char *name;
	void (*make)(const struct path *path);
} changes[] = {
	{ "no entry for the answers", no_other_direction },
	{ "another flow's answers", others_direction },
	{ "another backend", other_backend }, /* only with a Service, as the next row */
	{ "another Service", other_account },
};

START_TEST(test_other)
{
	const struct change *change = &changes[_i / (int)ROWS(paths)];
	struct flow flow = { .path = &paths[_i % (int)ROWS(paths)], .proto = "tcp" };
	enum mk_hook back = change->make == other_backend ? MK_HOOK_POD : flow.path->back;
	struct frame in, out;
	char wanted[96];

	connect_to(&flow);
	end_both(&flow);
	mark(flow.path->table);
	change->make(flow.path);
	ck_assert_int_ne(ask(&flow, WITH(SYN)), DROPPED);
	expect_new(flow.path->table, change->name, false);
	in = frame_make(flow.back, WITH(SYN | ACK));
	ck_assert_int_ne(fixture_send(back, &in, &out), DROPPED);
	snprintf(wanted, sizeof(wanted), "tcp %s > %s", flow.path->server, flow.path->client);
	ck_assert_str_eq(frame_flow(&out), wanted);
}
END_TEST

/* If the new session cannot be opened, the earlier one is removed: packets would otherwise follow
 * it. */
START_TEST(test_refused)
{
	struct flow flow = { .path = &paths[_i], .proto = "tcp" };

	connect_to(&flow);
	end_both(&flow);
	put_service(flow.path, "tcp", NULL, 0);
	ask(&flow, WITH(SYN));
	ck_assert_uint_eq(fixture_count("sessions"), 0);
	ck_assert_uint_eq(fixture_count("sessions_young"), 0);
}
END_TEST

/* From outside the packet is for the host then, which pays only one look-up. */
START_TEST(test_service_is_gone)
{
	struct flow flow = { .path = &paths[_i], .proto = "tcp" };
	struct mk_frontend_key key = { .proto = IPPROTO_TCP, .scope = flow.path->scope };

	connect_to(&flow);
	end_both(&flow);
	fixture_addr_port(flow.path->server, &key.addr, &key.port);
	ck_assert_int_eq(row_delete(fixture_map("frontends"), &key), 0);
	if (flow.path->hook == MK_HOOK_UPLINK)
		ck_assert_int_eq(ask(&flow, WITH(SYN)), TO_HOST);
	else
		ask(&flow, WITH(SYN));
	ck_assert_uint_eq(fixture_count("sessions"), flow.path->hook == MK_HOOK_UPLINK ? 2 : 0);
	ck_assert_uint_eq(fixture_count("sessions_young"), 0);
}
END_TEST

/* Half-open again: without quota the session goes to the table of new sessions, as usual. */
START_TEST(test_no_quota)
{
	struct flow flow = { .path = &paths[_i], .proto = "tcp" };
	char table[32];

	connect_to(&flow);
	end_both(&flow);
	fixture_quota(0);
	ck_assert_int_eq(ask(&flow, WITH(SYN)), flow.path->to);
	snprintf(table, sizeof(table), "%s_young", flow.path->table);
	ck_assert_uint_eq(fixture_count(flow.path->table), 0);
	ck_assert_uint_eq(fixture_count(table), 2);
	ck_assert_int_eq(fixture_quota_used(), 0);
	answer(&flow, WITH(SYN | ACK));
}
END_TEST

/* An association is in the established table only after its handshake. */
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
	ck_assert_uint_eq(fixture_count("sessions_young"), 2);
	answer(&flow, &ack);
}
END_TEST

/* Meanwhile the pod has opened a direct connection to that backend from that port. Both get their
 * own answers, because the later one got another port when it was opened. */
START_TEST(test_collision)
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
	/* the first two changes do not concern a Service; the last path is to none */
	tcase_add_loop_test(tcase, test_other, 0, ROWS(paths) * 2 + OF_SERVICES);
	tcase_add_loop_test(tcase, test_other, ROWS(paths) * 3, ROWS(paths) * 3 + OF_SERVICES);
	tcase_add_loop_test(tcase, test_refused, 0, OF_SERVICES);
	tcase_add_loop_test(tcase, test_service_is_gone, 0, OF_SERVICES);
	tcase_add_loop_test(tcase, test_no_quota, 0, ROWS(paths));
	tcase_add_test(tcase, test_sctp);
	tcase_add_test(tcase, test_collision);
}
