// SPDX-License-Identifier: Apache-2.0
/* The end of sessions, and a sweep over real tables. */
#include <bpf/bpf.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "datapath/sessions/fullness.h"
#include "datapath/sessions/sessions_internal.h"
#include "datapath/sessions/sweep.h"
#include "unit/unit.h"
#include "rows.h"

#define S	1000000000ULL
#define OPEN	MK_SESSION_OPEN
#define FIN	MK_SESSION_FIN
#define RST	MK_SESSION_RST
#define FORWARD MK_SESSION_FORWARD

/* ---- rules ----------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	uint8_t proto, flags, pair_flags;
	uint64_t limit_s;
} limits[] = {
	{ "TCP established: 24 h", IPPROTO_TCP, OPEN | MK_SESSION_FORWARD, OPEN, 24 * 3600 },
	{ "TCP half closed by the client: 1 h", IPPROTO_TCP, OPEN | FIN, OPEN, 3600 },
	{ "TCP half closed by the server: 1 h", IPPROTO_TCP, OPEN, OPEN | FIN, 3600 },
	{ "TCP closed by both: 10 s", IPPROTO_TCP, OPEN | FIN, OPEN | FIN, 10 },
	{ "TCP reset by the client: 10 s", IPPROTO_TCP, OPEN | RST, OPEN, 10 },
	{ "TCP reset by the server: 10 s", IPPROTO_TCP, OPEN, OPEN | RST, 10 },
	{ "TCP handshake not done: 120 s", IPPROTO_TCP, MK_SESSION_FORWARD, 0, 120 },
	{ "TCP refused: 10 s", IPPROTO_TCP, MK_SESSION_FORWARD, RST, 10 },
	{ "UDP: 120 s", IPPROTO_UDP, MK_SESSION_FORWARD, 0, 120 },
	{ "ICMP: 30 s", IPPROTO_ICMP, MK_SESSION_FORWARD, 0, 30 },
	{ "SCTP established: 10 min", IPPROTO_SCTP, OPEN | MK_SESSION_FORWARD, OPEN, 600 },
	{ "SCTP shut down by one: 10 min", IPPROTO_SCTP, OPEN | FIN, OPEN, 600 },
	{ "SCTP shut down by both: 10 s", IPPROTO_SCTP, OPEN | FIN, OPEN | FIN, 10 },
	{ "SCTP aborted: 10 s", IPPROTO_SCTP, OPEN, OPEN | RST, 10 },
	{ "SCTP handshake not done: 120 s", IPPROTO_SCTP, MK_SESSION_FORWARD, 0, 120 },
	{ "another protocol: 10 min", IPPROTO_ESP, 0, 0, 600 },
};

/* In the form used by the rows' names. */
static const char *duration(uint64_t seconds)
{
	static char text[32];

	if (seconds % 3600 == 0)
		snprintf(text, sizeof(text), ": %" PRIu64 " h", seconds / 3600);
	else if (seconds >= 600 && seconds % 60 == 0)
		snprintf(text, sizeof(text), ": %" PRIu64 " min", seconds / 60);
	else
		snprintf(text, sizeof(text), ": %" PRIu64 " s", seconds);
	return text;
}

START_TEST(test_limit)
{
	ck_assert_msg(mk_session_idle_limit_ns(limits[_i].proto, limits[_i].flags,
					       limits[_i].pair_flags) == limits[_i].limit_s * S,
		      "%s", limits[_i].name);
	ck_assert_ptr_nonnull(strstr(limits[_i].name, duration(limits[_i].limit_s)));
}
END_TEST

static const struct {
	const char *name;
	uint64_t now_s, seen_s, pair_seen_s; /* pair 0: there is none */
	bool expired;
} ages[] = {
	{ "idle in both directions", 1000, 800, 810, true },
	{ "idle here, busy there", 1000, 800, 990, false },
	{ "busy here, idle there", 1000, 990, 800, false },
	{ "idle, without a pair", 1000, 800, 0, true },
	{ "busy, without a pair", 1000, 990, 0, false },
	{ "exactly at the limit", 1000, 880, 0, false },
	{ "seen after the clock was read", 1000, 1001, 0, false },
};

START_TEST(test_expired)
{
	struct mk_session session = { .last_seen_ns = ages[_i].seen_s * S };
	struct mk_session pair = { .last_seen_ns = ages[_i].pair_seen_s * S };

	ck_assert_msg(session_expired(ages[_i].now_s * S, IPPROTO_UDP, &session,
				      ages[_i].pair_seen_s ? &pair : NULL) == ages[_i].expired,
		      "%s", ages[_i].name);
}
END_TEST

/* ---- pass ------------------------------------------------------------------------------------ */

static struct mk_table tables[2];
static struct mk_error err;

static struct mk_table make_table(enum bpf_map_type type, const char *name)
{
	struct mk_table table;
	int fd = row_create_ipv4(type, name, sizeof(struct mk_tuple), sizeof(struct mk_session),
				 8192, NULL);

	ck_assert_msg(fd >= 0, "cannot create a map: %s", strerror(errno));
	ck_assert_int_eq(mk_table_init(&table, name, fd, &err), 0);
	return table;
}

static void setup(void)
{
	struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };

	setrlimit(RLIMIT_MEMLOCK, &unlimited);
	tables[0] = make_table(BPF_MAP_TYPE_HASH, "sessions");
	tables[1] = make_table(BPF_MAP_TYPE_LRU_HASH, "sessions_young");
}

static void teardown(void)
{
	mk_table_close(&tables[0]);
	mk_table_close(&tables[1]);
}

/* Client number @n to a Service whose backend is 10.0.0.2:80. */
static struct mk_tuple client_key(uint16_t n)
{
	return (struct mk_tuple){
		.saddr = row_ipv4(0x0a000001),
		.daddr = row_ipv4(0x0a600001),
		.sport = htons(n),
		.dport = htons(80),
		.proto = IPPROTO_UDP,
	};
}

static void put_pair(const struct mk_table *table, uint16_t n, uint64_t seen_ns,
		     uint64_t pair_seen_ns)
{
	struct mk_tuple key = client_key(n), pair_key;
	struct mk_session session = {
		.to = key,
		.last_seen_ns = seen_ns,
		.set_id = n,
		.flags = MK_SESSION_FORWARD,
	};
	struct mk_session pair = { .last_seen_ns = pair_seen_ns, .set_id = n };

	session.to.daddr = row_ipv4(0x0a000002);
	pair_key = mk_session_pair_key(&session);
	pair.to = (struct mk_tuple){ .saddr = key.daddr,
				     .daddr = key.saddr,
				     .sport = key.dport,
				     .dport = key.sport,
				     .proto = key.proto };
	ck_assert_int_eq(mk_table_put(table, &key, &session, &err), 0);
	ck_assert_int_eq(mk_table_put(table, &pair_key, &pair, &err), 0);
}

static size_t entries(const struct mk_table *table)
{
	cleanup_free void *keys = NULL;
	size_t count;

	ck_assert_int_eq(mk_table_keys(table, &keys, &count, &err), 0);
	return count;
}

static struct mk_sweep_options two_tables(void)
{
	return (struct mk_sweep_options){
		.tables = tables,
		.table_count = 2,
	};
}

static bool odd_is_cut(void *ctx, const struct mk_tuple *key, const struct mk_session *session)
{
	(void)ctx;
	(void)key;
	return session->flags & MK_SESSION_FORWARD && session->set_id % 2;
}

static void pass(struct mk_sweep *sweep, uint64_t now_ns, uint32_t budget)
{
	int ret, turns = 0;

	while ((ret = mk_sweep_step(sweep, now_ns, budget, &err)) == 0)
		ck_assert_int_lt(turns++, 10000);
	ck_assert_msg(ret == 1, "%s", mk_error_text(&err));
}

START_TEST(test_pass)
{
	const struct mk_sweep_options options = two_tables();
	struct mk_sweep *sweep = mk_sweep_new(&options, &err);

	for (uint16_t n = 1; n <= 1000; n++) {
		put_pair(&tables[0], n, n <= 400 ? 1 * S : 900 * S, 1 * S);
		put_pair(&tables[1], n, 1 * S, n <= 300 ? 1 * S : 950 * S);
	}
	pass(sweep, 1000 * S, 512);
	ck_assert_uint_eq(entries(&tables[0]), 2 * 600);
	ck_assert_uint_eq(entries(&tables[1]), 2 * 700);
	ck_assert_uint_eq(mk_sweep_last_pass(sweep)->expired, 700);
	pass(sweep, 1000 * S, 512);
	ck_assert_uint_eq(mk_sweep_last_pass(sweep)->expired, 0);
	ck_assert_uint_eq(mk_sweep_last_pass(sweep)->seen, 2 * 1300);
	mk_sweep_free(sweep);
}
END_TEST

/* A connection that both have closed 11 s ago and more. Behind a masqueraded address its port is
 * not another client's while the server may remember it. */
static const struct {
	const char *name;
	uint16_t port_shift; /* the server sees the client's port and this */
	uint16_t idle_s, others; /* sessions that go on */
	uint8_t fins[2];
	bool stays;
} remembered[] = {
	{ "masqueraded, after 60 s", 1, 60, 0, { FIN, FIN }, true },
	{ "masqueraded, after 61 s", 1, 61, 0, { FIN, FIN }, false },
	{ "not masqueraded", 0, 11, 0, { FIN, FIN }, false },
	{ "reset by the client", 1, 11, 0, { RST, 0 }, false },
	{ "in a table that is half full", 1, 11, 2048, { FIN, FIN }, false },
};

static void put_closed(int row)
{
	struct mk_tuple key = client_key(1);
	struct mk_session session = { .last_seen_ns = 1000 * S }, pair = session;
	struct mk_tuple pair_key;

	key.proto = IPPROTO_TCP;
	session.to = key;
	session.to.sport = htons((uint16_t)(1 + remembered[row].port_shift));
	pair.to = (struct mk_tuple){ key.daddr, key.saddr, key.dport, key.sport, key.proto, 0, 0 };
	pair_key = mk_session_pair_key(&session);
	mk_session_set_flags(&session, FORWARD | OPEN | remembered[row].fins[0]);
	mk_session_set_flags(&pair, OPEN | remembered[row].fins[1]);
	ck_assert_int_eq(mk_table_put(&tables[0], &key, &session, &err), 0);
	ck_assert_int_eq(mk_table_put(&tables[0], &pair_key, &pair, &err), 0);
}

START_TEST(test_time_wait)
{
	const struct mk_sweep_options options = two_tables();
	struct mk_sweep *sweep = mk_sweep_new(&options, &err);
	uint64_t end_s = 1000U + remembered[_i].idle_s;
	size_t others = 2U * remembered[_i].others;

	put_closed(_i);
	for (uint16_t n = 2; n < 2 + remembered[_i].others; n++)
		put_pair(&tables[0], n, end_s * S, end_s * S);
	pass(sweep, 1000 * S, 512);
	ck_assert_uint_eq(entries(&tables[0]), others + 2);
	pass(sweep, end_s * S, 512);
	ck_assert_msg(entries(&tables[0]) == others + (remembered[_i].stays ? 2 : 0), "%s",
		      remembered[_i].name);
	mk_sweep_free(sweep);
}
END_TEST

/* The entry that an established UDP session leaves behind is no longer a session: it is removed
 * and not counted. */
START_TEST(test_moved)
{
	const struct mk_sweep_options options = two_tables();
	struct mk_sweep *sweep = mk_sweep_new(&options, &err);
	const struct mk_tuple key = { .sport = htons(7), .proto = IPPROTO_UDP };
	const struct mk_session moved = { .last_seen_ns = 1000 * S,
					  .flags = MK_SESSION_FORWARD,
					  .stage = MK_SESSION_MOVED };

	put_pair(&tables[0], 1, 1000 * S, 1000 * S);
	put_pair(&tables[1], 2, 1000 * S, 1000 * S);
	ck_assert_int_eq(mk_table_put(&tables[1], &key, &moved, &err), 0);
	pass(sweep, 1000 * S, 512);
	ck_assert_uint_eq(entries(&tables[0]), 2);
	ck_assert_uint_eq(entries(&tables[1]), 2);
	ck_assert_uint_eq(mk_sweep_last_pass(sweep)->seen, 4);
	ck_assert_uint_eq(mk_sweep_last_pass(sweep)->expired, 0);
	mk_sweep_free(sweep);
}
END_TEST

START_TEST(test_cut)
{
	const struct mk_sweep_options options = { .tables = tables,
						  .table_count = 2,
						  .cut = odd_is_cut };
	struct mk_sweep *sweep = mk_sweep_new(&options, &err);

	for (uint16_t n = 1; n <= 100; n++)
		put_pair(&tables[n % 4 < 2], n, 999 * S, 999 * S);
	pass(sweep, 1000 * S, 512);
	ck_assert_uint_eq(entries(&tables[0]) + entries(&tables[1]), 2 * 50);
	ck_assert_uint_eq(mk_sweep_last_pass(sweep)->cut, 50);
	ck_assert_uint_eq(mk_sweep_last_pass(sweep)->expired, 0);
	mk_sweep_free(sweep);
}
END_TEST

START_TEST(test_steps_are_bounded)
{
	const struct mk_sweep_options options = two_tables();
	struct mk_sweep *sweep = mk_sweep_new(&options, &err);
	int steps = 1;

	for (uint16_t n = 1; n <= 3000; n++)
		put_pair(&tables[0], n, 999 * S, 999 * S);
	while (mk_sweep_step(sweep, 1000 * S, 1, &err) == 0)
		steps++;
	ck_assert_int_ge(steps, 2);
	mk_sweep_free(sweep);
}
END_TEST

#define OVER 2000 /* pairs, all in one piece */

static void put_over(void)
{
	for (uint16_t n = 1; n <= OVER; n++)
		put_pair(&tables[0], n, 1 * S, 1 * S);
}

/* A step that finds a whole piece expired removes some of it; the next steps remove the rest. */
START_TEST(test_removals_are_spread)
{
	const struct mk_sweep_options options = two_tables();
	struct mk_sweep *sweep = mk_sweep_new(&options, &err);

	put_over();
	ck_assert_int_eq(mk_sweep_step(sweep, 1000 * S, 4096, &err), 0);
	ck_assert_uint_ge(entries(&tables[0]), 2 * OVER - 2 * 4096 / 8);
	pass(sweep, 1000 * S, 4096);
	ck_assert_uint_eq(entries(&tables[0]), 0);
	ck_assert_uint_eq(mk_sweep_last_pass(sweep)->expired, OVER);
	mk_sweep_free(sweep);
}
END_TEST

/* Between the check of an entry and its removal the client may have reused its port. */
START_TEST(test_new_in_the_place_of_old)
{
	struct mk_session session = { .created_ns = 900 * S, .packets = 7 }, held, there;
	struct mk_tuple key = client_key(1);

	ck_assert_int_eq(mk_table_put(&tables[0], &key, &session, &err), 0);
	ck_assert_int_eq(session_remove_old(&tables[0], &key, 1000 * S, &held, &err), 1);
	ck_assert_uint_eq(held.packets, 7);
	ck_assert_int_eq(session_remove_old(&tables[0], &key, 1000 * S, &held, &err), 0);

	session.created_ns = 1000 * S + 5;
	ck_assert_int_eq(mk_table_put(&tables[0], &key, &session, &err), 0);
	ck_assert_int_eq(session_remove_old(&tables[0], &key, 1000 * S, &held, &err), 0);
	ck_assert_int_eq(mk_table_get(&tables[0], &key, &there, &err), 0);
	ck_assert_int_eq(memcmp(&there, &session, sizeof(there)), 0);
	ck_assert_int_eq(session_remove_old(&tables[0], &key, UINT64_MAX, &held, &err), 1);
}
END_TEST

/* Entries that wait for the next step may get a packet meanwhile. */
START_TEST(test_in_use_again)
{
	const struct mk_sweep_options options = two_tables();
	struct mk_sweep *sweep = mk_sweep_new(&options, &err);
	size_t left;

	put_over();
	ck_assert_int_eq(mk_sweep_step(sweep, 1000 * S, 1024, &err), 0);
	left = entries(&tables[0]);
	ck_assert_uint_ge(left, OVER);
	for (uint16_t n = 1; n <= OVER; n++) {
		struct mk_tuple key = client_key(n);
		struct mk_session session;

		if (row_lookup(tables[0].fd, &key, &session) == 0)
			put_pair(&tables[0], n, 999 * S, 1 * S);
	}
	pass(sweep, 1000 * S, 4096);
	ck_assert_uint_eq(entries(&tables[0]), left);
	ck_assert_uint_eq(mk_sweep_counts(sweep)->entries[0], left);
	mk_sweep_free(sweep);
}
END_TEST

/* ---- counts ---------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	int table;
	uint8_t proto, flags;
	int kind; /* -1: not counted as a session */
	int protocol, state;
} counted[] = {
	{ "TCP to a Service", 0, IPPROTO_TCP, FORWARD | OPEN, MK_SESSIONS_SERVICE, MK_SESSIONS_TCP,
	  MK_SESSIONS_ESTABLISHED },
	{ "its answers", 0, IPPROTO_TCP, OPEN, -1, 0, 0 },
	{ "closing", 0, IPPROTO_TCP, FORWARD | OPEN | FIN, MK_SESSIONS_SERVICE, MK_SESSIONS_TCP,
	  MK_SESSIONS_CLOSING },
	{ "reset", 0, IPPROTO_TCP, FORWARD | OPEN | RST, MK_SESSIONS_SERVICE, MK_SESSIONS_TCP,
	  MK_SESSIONS_CLOSING },
	{ "handshake", 1, IPPROTO_TCP, FORWARD, MK_SESSIONS_SERVICE, MK_SESSIONS_TCP,
	  MK_SESSIONS_NEW },
	{ "reset before it was open", 1, IPPROTO_TCP, FORWARD | RST, MK_SESSIONS_SERVICE,
	  MK_SESSIONS_TCP, MK_SESSIONS_NEW },
	{ "UDP, masqueraded", 2, IPPROTO_UDP, FORWARD, MK_SESSIONS_NAT, MK_SESSIONS_UDP,
	  MK_SESSIONS_ESTABLISHED },
	{ "a ping, masqueraded", 3, IPPROTO_ICMP, FORWARD, MK_SESSIONS_NAT, MK_SESSIONS_ICMP,
	  MK_SESSIONS_NEW },
	{ "SCTP", 2, IPPROTO_SCTP, FORWARD | OPEN, MK_SESSIONS_NAT, MK_SESSIONS_SCTP,
	  MK_SESSIONS_ESTABLISHED },
	{ "ESP", 0, IPPROTO_ESP, FORWARD, MK_SESSIONS_SERVICE, MK_SESSIONS_OTHER,
	  MK_SESSIONS_ESTABLISHED },
	{ "half-open among the established", 0, IPPROTO_TCP, FORWARD, MK_SESSIONS_SERVICE,
	  MK_SESSIONS_TCP, MK_SESSIONS_NEW },
	{ "half-open, masqueraded", 2, IPPROTO_TCP, FORWARD, MK_SESSIONS_NAT, MK_SESSIONS_TCP,
	  MK_SESSIONS_NEW },
};

/* Two sessions that use the quota, one with its answer's entry; two others elsewhere
 * or established. */
START_TEST(test_half_open)
{
	const struct mk_tuple tcp = { .proto = IPPROTO_TCP };
	struct mk_session request = { .to = tcp, .flags = FORWARD }, answer = { .to = tcp },
			  open = { .to = tcp, .flags = FORWARD, .stage = OPEN };
	struct mk_session_counts counts = { 0 };
	static struct nat_port_counts nat;

	session_counts_add(&counts, &nat, 0, &tcp, &request);
	session_counts_add(&counts, &nat, 0, &tcp, &answer);
	session_counts_add(&counts, &nat, 2, &tcp, &request);
	session_counts_add(&counts, &nat, 1, &tcp, &request);
	session_counts_add(&counts, &nat, 0, &tcp, &open);
	ck_assert_uint_eq(counts.half_open, 2);
}
END_TEST

START_TEST(test_census)
{
	struct mk_session session = { 0 };
	struct mk_tuple key = { .proto = counted[_i].proto };
	struct mk_session_counts counts = { 0 };
	static struct nat_port_counts nat;
	uint64_t sessions = 0;

	session.to = key;
	mk_session_set_flags(&session, counted[_i].flags);
	session_counts_add(&counts, &nat, counted[_i].table, &key, &session);
	for (int table = 0; table < MK_SESSION_TABLES; table++)
		ck_assert_msg(counts.entries[table] == (table == counted[_i].table), "%s",
			      counted[_i].name);
	for (size_t i = 0; i < sizeof(counts.sessions) / sizeof(uint64_t); i++)
		sessions += ((const uint64_t *)counts.sessions)[i];
	ck_assert_msg(sessions == (counted[_i].kind >= 0), "%s", counted[_i].name);
	if (counted[_i].kind >= 0)
		ck_assert_msg(counts.sessions[counted[_i].kind][counted[_i].protocol]
					     [counted[_i].state] == 1,
			      "%s", counted[_i].name);
	ck_assert_msg(nat_ports_busiest(&nat) == (counted[_i].kind == MK_SESSIONS_NAT), "%s",
		      counted[_i].name);
}
END_TEST

static void count_nat(struct nat_port_counts *nat, uint32_t destination, __be16 dport,
		      uint8_t proto, int ports)
{
	struct mk_session_counts counts = { 0 };
	struct mk_session session = { .flags = FORWARD };
	struct mk_tuple key = { .proto = proto };

	for (int i = 0; i < ports; i++) {
		session.to = (struct mk_tuple){ .daddr = row_ipv4(destination),
						.sport = htons((uint16_t)(50000 + i)),
						.dport = proto == IPPROTO_ICMP
								 ? htons((uint16_t)(50000 + i))
								 : dport,
						.proto = proto };
		session_counts_add(&counts, nat, i % 2 ? 2 : 3, &key, &session);
	}
}

/* By destination; a ping's identifier is not part of it. */
START_TEST(test_nat_ports)
{
	static struct nat_port_counts nat, pings, full;

	for (uint32_t i = 1; i <= 100; i++)
		count_nat(&nat, htonl(i), htons(443), IPPROTO_TCP, 10);
	ck_assert_uint_ge(nat_ports_busiest(&nat), 10);
	ck_assert_uint_le(nat_ports_busiest(&nat), 20);
	count_nat(&nat, htonl(50), htons(443), IPPROTO_TCP, 300);
	ck_assert_uint_ge(nat_ports_busiest(&nat), 310);
	ck_assert_uint_le(nat_ports_busiest(&nat), 330);
	count_nat(&pings, htonl(1), 0, IPPROTO_ICMP, 40);
	ck_assert_uint_eq(nat_ports_busiest(&pings), 40);
	count_nat(&full, htonl(1), htons(443), IPPROTO_UDP, 70000);
	ck_assert_uint_eq(nat_ports_busiest(&full), UINT16_MAX);
}
END_TEST

/* Counts of the last pass without the removed entries; totals continue. */
START_TEST(test_pass_is_counted)
{
	const struct mk_sweep_options options = two_tables();
	struct mk_sweep *sweep = mk_sweep_new(&options, &err);
	const uint64_t(*udp)[MK_SESSION_STATES];

	ck_assert_uint_eq(mk_sweep_counts(sweep)->entries[0], 0);
	for (uint16_t n = 1; n <= 100; n++) {
		put_pair(&tables[0], n, n <= 40 ? 1 * S : 900 * S, 1 * S);
		put_pair(&tables[1], n, 900 * S, 900 * S);
	}
	pass(sweep, 1000 * S, 512);
	udp = &mk_sweep_counts(sweep)->sessions[MK_SESSIONS_SERVICE][MK_SESSIONS_UDP];
	ck_assert_uint_eq((*udp)[MK_SESSIONS_ESTABLISHED], 60);
	ck_assert_uint_eq((*udp)[MK_SESSIONS_NEW], 100);
	ck_assert_uint_eq(mk_sweep_counts(sweep)->entries[0], 120);
	ck_assert_uint_eq(mk_sweep_counts(sweep)->entries[1], 200);
	pass(sweep, 2000 * S, 512);
	ck_assert_uint_eq((*udp)[MK_SESSIONS_ESTABLISHED], 0);
	ck_assert_uint_eq(mk_sweep_counts(sweep)->entries[1], 0);
	ck_assert_uint_eq(mk_sweep_totals(sweep)->expired, 40 + 60 + 100);
	ck_assert_uint_eq(mk_sweep_last_pass(sweep)->expired, 160);
	mk_sweep_free(sweep);
}
END_TEST

/* ---- full tables ----------------------------------------------------------------------------- */

/* The results of successive passes. */
static const struct {
	const char *name;
	uint64_t now_s, entries, max_entries;
	enum mk_fullness_news news;
} fullness[] = {
	{ "room", 10, 500, 1000, MK_FULLNESS_NOTHING },
	{ "nearly", 20, 949, 1000, MK_FULLNESS_NOTHING },
	{ "full", 30, 950, 1000, MK_FULLNESS_FULL },
	{ "as before", 40, 1000, 1000, MK_FULLNESS_NOTHING },
	{ "a few less", 50, 900, 1000, MK_FULLNESS_NOTHING },
	{ "full since ten minutes", 630, 1000, 1000, MK_FULLNESS_FULL },
	{ "told just before", 640, 1000, 1000, MK_FULLNESS_NOTHING },
	{ "room again", 650, 899, 1000, MK_FULLNESS_ROOM },
	{ "told once", 660, 899, 1000, MK_FULLNESS_NOTHING },
	{ "full soon after", 670, 990, 1000, MK_FULLNESS_FULL },
	{ "of another size, with room", 680, 990, 2000, MK_FULLNESS_ROOM },
};

START_TEST(test_fullness)
{
	struct mk_fullness table = { 0 };

	for (size_t i = 0; i < MK_ARRAY_SIZE(fullness); i++)
		ck_assert_msg(mk_fullness_see(&table, fullness[i].entries, fullness[i].max_entries,
					      fullness[i].now_s * S) == fullness[i].news,
			      "%s", fullness[i].name);
}
END_TEST

UNIT_SUITE("sweep")
{
	TCase *rules = unit_case(suite, "rules", NULL, NULL);
	TCase *pass = unit_case(suite, "pass", setup, teardown);

	tcase_add_loop_test(rules, test_limit, 0, MK_ARRAY_SIZE(limits));
	tcase_add_loop_test(rules, test_expired, 0, MK_ARRAY_SIZE(ages));
	tcase_add_loop_test(rules, test_census, 0, MK_ARRAY_SIZE(counted));
	tcase_add_test(rules, test_half_open);
	tcase_add_test(rules, test_nat_ports);
	tcase_add_test(rules, test_fullness);
	tcase_add_test(pass, test_pass);
	tcase_add_test(pass, test_moved);
	tcase_add_loop_test(pass, test_time_wait, 0, MK_ARRAY_SIZE(remembered));
	tcase_add_test(pass, test_cut);
	tcase_add_test(pass, test_steps_are_bounded);
	tcase_add_test(pass, test_removals_are_spread);
	tcase_add_test(pass, test_in_use_again);
	tcase_add_test(pass, test_new_in_the_place_of_old);
	tcase_add_test(pass, test_pass_is_counted);
}
