// SPDX-License-Identifier: Apache-2.0
/* Services to tables, on real maps: entries that are written, left unchanged or
 * removed, and when. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "datapath/sessions/linger.h"
#include "unit/sync_fixture.h"
#include "unit/unit.h"
#include "rows.h"

/* ---- tests ----------------------------------------------------------------------------------- */

START_TEST(test_same_twice_writes_nothing)
{
	apply_named("web", "10.96.0.1", "23");
	ck_assert_uint_eq(counts.put, 4);
	ck_assert_str_eq(backends_of("10.96.0.1"), "23");
	apply_named("web", "10.96.0.1", "23");
	ck_assert_uint_eq(counts.put + counts.deleted, 0);
}
END_TEST

START_TEST(test_restart_writes_nothing)
{
	struct mk_frontend before, after;

	apply_named("web", "10.96.0.1", "23");
	apply_named("db", "10.96.0.2", "");
	ck_assert(lookup("10.96.0.1", 80, &before));
	sync_restart();
	apply_named("db", "10.96.0.2", "");
	ck_assert_uint_eq(counts.put + counts.deleted, 0);
	apply_named("web", "10.96.0.1", "23");
	ck_assert_uint_eq(counts.put + counts.deleted, 0);
	prune();
	ck_assert_uint_eq(counts.put + counts.deleted, 0);
	ck_assert_int_eq(collect(now_ns + 10 * S), 0);
	ck_assert_uint_eq(counts.deleted, 0);
	ck_assert(lookup("10.96.0.1", 80, &after));
	ck_assert_mem_eq(&before, &after, sizeof(before));
}
END_TEST

/* The old generation stays while a packet may still be reading it. */
START_TEST(test_generations)
{
	struct mk_frontend before, after;

	apply_named("web", "10.96.0.1", "23");
	ck_assert(lookup("10.96.0.1", 80, &before));
	apply_named("web", "10.96.0.1", "234");
	ck_assert(lookup("10.96.0.1", 80, &after));
	ck_assert_uint_eq(after.set_id, before.set_id);
	ck_assert_uint_ne(after.generation, before.generation);
	ck_assert_str_eq(backends_of("10.96.0.1"), "234");
	ck_assert_uint_eq(entries(&tables.backends), 5);
	ck_assert_int_eq(collect(now_ns + MK_RETIRE_NS - 1), 1);
	ck_assert_uint_eq(entries(&tables.backends), 5);
	ck_assert_int_eq(collect(now_ns + MK_RETIRE_NS), 0);
	ck_assert_uint_eq(entries(&tables.backends), 3);
	ck_assert_str_eq(backends_of("10.96.0.1"), "234");
}
END_TEST

START_TEST(test_removed)
{
	apply_named("web", "10.96.0.1", "23");
	remove_named("web");
	ck_assert_uint_eq(entries(&tables.frontends), 0);
	ck_assert_int_eq(collect(now_ns + MK_RETIRE_NS), 0);
	ck_assert_uint_eq(entries(&tables.backends), 0);
	ck_assert_uint_eq(mk_service_sync_service_count(sync_), 0);
	remove_named("never-was");
	ck_assert_uint_eq(counts.put + counts.deleted, 0);
}
END_TEST

START_TEST(test_port_moves)
{
	struct built built;
	struct mk_frontend service;

	apply_named("web", "10.96.0.1", "23");
	build(&built, "web", "10.96.0.1", "23");
	built.frontends[0].port = 81;
	apply(&built);
	ck_assert(!lookup("10.96.0.1", 80, &service));
	ck_assert(lookup("10.96.0.1", 81, &service));
	ck_assert(lookup("10.96.0.1", 0, &service));
}
END_TEST

/* Only entries of no Service are removed, and only on request. */
START_TEST(test_prune)
{
	struct mk_backend_key orphan = { .set_id = 77, .generation = 3, .index = 1 };
	struct mk_maglev_key orphan_table = { .set_id = 77, .generation = 3 };
	static const uint16_t empty[MAGLEV_ROOM];
	struct mk_backend value = { 0 };

	apply_named("web", "10.96.0.1", "23");
	apply_named("gone", "10.96.0.2", "4");
	ck_assert_int_eq(mk_table_put(&tables.backends, &orphan, &value, &sync_err), 0);
	ck_assert_int_eq(mk_table_put(&tables.maglev, &orphan_table, empty, &sync_err), 0);
	sync_restart();
	apply_named("web", "10.96.0.1", "23");
	ck_assert_uint_eq(entries(&tables.frontends), 4);
	prune();
	ck_assert_uint_eq(entries(&tables.frontends), 2);
	ck_assert_uint_eq(entries(&tables.maglev), 0);
	ck_assert_int_eq(collect(now_ns + MK_RETIRE_NS), 0);
	ck_assert_uint_eq(entries(&tables.backends), 2);
	ck_assert_str_eq(backends_of("10.96.0.1"), "23");
}
END_TEST

/* More than one part visits. */
static void delete_backend(uint16_t index)
{
	struct mk_frontend now;
	struct mk_backend_key key = { .index = index };

	ck_assert(lookup("10.96.0.1", 80, &now));
	key.set_id = now.set_id;
	key.generation = now.generation;
	ck_assert_int_eq(mk_table_delete(&tables.backends, &key, &sync_err), 1);
}

/* Read once, when the tables are opened; the audit finds entries removed later. */
START_TEST(test_backends_are_read_once)
{
	apply_named("web", "10.96.0.1", "23");
	sync_restart();
	delete_backend(1);
	apply_named("web", "10.96.0.1", "23");
	ck_assert_uint_eq(counts.put + counts.deleted, 0);
}
END_TEST

START_TEST(test_backends_with_holes)
{
	apply_named("web", "10.96.0.1", "23");
	delete_backend(1);
	sync_restart();
	apply_named("web", "10.96.0.1", "23");
	ck_assert_str_eq(backends_of("10.96.0.1"), "23");
}
END_TEST

START_TEST(test_prune_many)
{
	struct mk_backend_key orphan = { .set_id = 77, .generation = 3 };
	struct mk_backend value = { 0 };

	apply_named("web", "10.96.0.1", "23");
	for (; orphan.index < 1000; orphan.index++)
		ck_assert_int_eq(mk_table_put(&tables.backends, &orphan, &value, &sync_err), 0);
	sync_restart();
	apply_named("web", "10.96.0.1", "23");
	prune();
	ck_assert_uint_eq(entries(&tables.backends), 2);
	ck_assert_str_eq(backends_of("10.96.0.1"), "23");
}
END_TEST

/* Sessions of a deleted Service have an id that is in no other table. */
START_TEST(test_reserved_ids)
{
	struct mk_frontend service;

	apply_named("web", "10.96.0.1", "2");
	sync_restart();
	mk_service_sync_reserve_ids(sync_, 41);
	mk_service_sync_reserve_ids(sync_, 7);
	apply_named("new", "10.96.0.2", "3");
	ck_assert(lookup("10.96.0.2", 80, &service));
	ck_assert_uint_gt(service.set_id, 41);
	ck_assert_uint_gt(service.service_id, 41);
}
END_TEST

static uint32_t account_of(const char *vip, uint16_t port)
{
	struct mk_frontend service;

	ck_assert(lookup(vip, port, &service));
	return service.service_id;
}

/* Each Service keeps one account id on all its frontends, through changes and restarts. */
START_TEST(test_account)
{
	struct built built;
	uint32_t web, db;

	apply_named("web", "10.96.0.1", "23");
	apply_named("db", "10.96.0.2", "23");
	web = account_of("10.96.0.1", 80);
	db = account_of("10.96.0.2", 80);
	ck_assert(web != 0 && db != 0 && web != db);
	ck_assert_uint_eq(account_of("10.96.0.1", 0), web);
	apply_named("web", "10.96.0.1", "4");
	build(&built, "web", "10.96.0.3", "4");
	apply(&built);
	ck_assert_uint_eq(account_of("10.96.0.3", 80), web);
	sync_restart();
	apply(&built);
	apply_named("db", "10.96.0.2", "3");
	ck_assert_uint_eq(account_of("10.96.0.3", 80), web);
	ck_assert_uint_eq(account_of("10.96.0.2", 80), db);
	remove_named("db");
	apply_named("db", "10.96.0.2", "3");
	ck_assert_uint_gt(account_of("10.96.0.2", 80), web);
	ck_assert_uint_ne(account_of("10.96.0.2", 80), db);
}
END_TEST

/* While no agent ran, one Service's addresses went to two Services: only one keeps the account. */
START_TEST(test_account_of_one_only)
{
	struct built built;
	uint32_t before;

	build(&built, "web", "10.96.0.1", "23");
	built.frontends[2] = built.frontends[0];
	built.frontends[2].ip = ip_of("10.96.0.2");
	built.set.frontend_count = 3;
	apply(&built);
	before = account_of("10.96.0.2", 80);
	sync_restart();
	apply_named("heir", "10.96.0.2", "23");
	apply_named("web", "10.96.0.1", "23");
	ck_assert_uint_eq(account_of("10.96.0.2", 80), before);
	ck_assert_uint_ne(account_of("10.96.0.1", 80), before);
	ck_assert_uint_ne(account_of("10.96.0.1", 80), 0);
}
END_TEST

/* A kill between writing a generation and publishing it. */
START_TEST(test_half_written)
{
	struct mk_backend_key key = { .index = 0 };
	struct mk_backend other = { .port = htons(9) };
	struct mk_frontend service;

	apply_named("web", "10.96.0.1", "23");
	ck_assert(lookup("10.96.0.1", 80, &service));
	key.set_id = service.set_id;
	key.generation = service.generation + 1;
	for (; key.index < 5; key.index++)
		ck_assert_int_eq(mk_table_put(&tables.backends, &key, &other, &sync_err), 0);
	sync_restart();
	apply_named("web", "10.96.0.1", "45");
	ck_assert_str_eq(backends_of("10.96.0.1"), "45");
	prune();
	ck_assert_int_eq(collect(now_ns + MK_RETIRE_NS), 0);
	ck_assert_uint_eq(entries(&tables.backends), 2);
}
END_TEST

START_TEST(test_claimed_twice)
{
	char *namespace_, *name;

	apply_named("first", "10.96.0.1", "2");
	apply_named("second", "10.96.0.1", "3");
	ck_assert_uint_eq(counts.put, 0);
	ck_assert_str_eq(backends_of("10.96.0.1"), "2");
	ck_assert_int_eq(mk_service_sync_take_retry(sync_, &namespace_, &name), 0);
	remove_named("first");
	ck_assert_int_eq(mk_service_sync_take_retry(sync_, &namespace_, &name), 1);
	ck_assert_str_eq(namespace_, "default");
	ck_assert_str_eq(name, "second");
	free(namespace_);
	free(name);
	apply_named("second", "10.96.0.1", "3");
	ck_assert_str_eq(backends_of("10.96.0.1"), "3");
}
END_TEST

static size_t lines_with(FILE *file, const char *text)
{
	char line[1024];
	size_t count = 0;

	rewind(file);
	while (fgets(line, sizeof(line), file))
		count += strstr(line, text) != NULL;
	return count;
}

/* A port makes a frontend per scope, but counts as one error. */
START_TEST(test_claim_is_told_once)
{
	struct built built;
	FILE *file = tmpfile();
	int saved = dup(STDERR_FILENO);

	ck_assert(file && saved >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
	for (int i = 0; i < 3; i++) {
		build(&built, i == 0 ? "first" : "second", "10.96.0.1", "2");
		built.frontends[2] = built.frontends[0];
		built.frontends[2].scope = MK_SCOPE_EXTERNAL;
		built.set.frontend_count = 3;
		apply(&built);
	}
	dup2(saved, STDERR_FILENO);
	close(saved);
	ck_assert_uint_eq(lines_with(file, "two Services want the same address"), 1);
	fclose(file);
}
END_TEST

START_TEST(test_maglev)
{
	struct built built;
	struct mk_frontend service;
	struct mk_maglev_key key;
	uint16_t table[MAGLEV_ROOM];

	build(&built, "web", "10.96.0.1", "23");
	built.frontends[0].flags = MK_FRONTEND_MAGLEV;
	built.maglev[1] = 1;
	built.set.maglev = built.maglev;
	built.set.maglev_bytes = sizeof(built.maglev);
	apply(&built);
	ck_assert_uint_eq(counts.put, 5);
	ck_assert(lookup("10.96.0.1", 80, &service));
	key = (struct mk_maglev_key){ service.set_id, service.generation };
	ck_assert_int_eq(mk_table_get(&tables.maglev, &key, table, &sync_err), 0);
	ck_assert_mem_eq(table, built.maglev, sizeof(table));
	sync_restart();
	apply(&built);
	ck_assert_uint_eq(counts.put, 0);
	prune();
	ck_assert_uint_eq(counts.deleted, 0);
}
END_TEST

START_TEST(test_full)
{
	struct built built;

	mk_table_close(&tables.backends);
	tables.backends.fd =
		row_create_ipv4(BPF_MAP_TYPE_HASH, "service_backends",
				sizeof(struct mk_backend_key), sizeof(struct mk_backend), 3, NULL);
	ck_assert_int_eq(mk_table_init(&tables.backends, "service_backends", tables.backends.fd,
				       &sync_err),
			 0);
	sync_restart();
	apply_named("web", "10.96.0.1", "2");
	build(&built, "web", "10.96.0.1", "3456");
	ck_assert_int_eq(mk_service_sync_apply(sync_, &built.compiled, now_ns, &counts, &sync_err),
			 -ENOSPC);
	ck_assert_msg(strstr(sync_err.text, "service_backends") && strstr(sync_err.text, "web"),
		      "%s", sync_err.text);
	ck_assert_str_eq(backends_of("10.96.0.1"), "2");
}
END_TEST

/* ---- sessions of backends that are gone ------------------------------------------------------ */

/* Make the forward entry of a flow to 10.96.0.1:80, of its Service, to port 8080 of @backend. */
struct sessions_entry {
	struct mk_tuple key;
	struct mk_session session;
};

static struct sessions_entry entry_of(uint8_t proto, const char *backend, uint8_t flags)
{
	struct mk_ip ip = ip_of(backend), vip = ip_of("10.96.0.1"), client = ip_of("10.0.0.9");
	struct sessions_entry entry = { .key = { .saddr = mk_ip_to_addr(&client),
						 .daddr = mk_ip_to_addr(&vip),
						 .sport = htons(40000),
						 .dport = htons(80),
						 .proto = proto },
					.session = {
						.set_id = 1, .service_id = 1, .flags = flags } };
	struct mk_frontend service;

	if (lookup("10.96.0.1", 80, &service))
		entry.session.set_id = service.set_id;
	entry.session.to = entry.key;
	entry.session.to.daddr = mk_ip_to_addr(&ip);
	entry.session.to.dport = htons(8080);
	return entry;
}

static bool is_cut(uint8_t proto, const char *backend, uint8_t flags)
{
	struct sessions_entry entry = entry_of(proto, backend, flags);

	return mk_service_sync_session_cut(sync_, &entry.key, &entry.session);
}

/* Also use port 80 of the Service "web" for @proto. */
static void apply_proto(uint8_t proto, const char *backends, size_t backend_count)
{
	struct built built;

	build(&built, "web", "10.96.0.1", backends);
	built.frontends[1] = built.frontends[0];
	built.frontends[1].proto = proto;
	built.set.backend_count = backend_count;
	apply(&built);
}

START_TEST(test_cut)
{
	apply_proto(IPPROTO_UDP, "23", 2);
	ck_assert(!counts.cut);
	apply_proto(IPPROTO_UDP, "234", 3);
	ck_assert(!counts.cut);
	apply_proto(IPPROTO_UDP, "34", 2);
	ck_assert(counts.cut);
	ck_assert(is_cut(IPPROTO_UDP, "10.0.0.2", MK_SESSION_FORWARD));
	ck_assert(!is_cut(IPPROTO_UDP, "10.0.0.3", MK_SESSION_FORWARD));
	ck_assert(!is_cut(IPPROTO_UDP, "10.0.0.2", 0));
	/* a connection ends by itself */
	ck_assert(!is_cut(IPPROTO_TCP, "10.0.0.2", MK_SESSION_FORWARD));
	ck_assert(!is_cut(IPPROTO_SCTP, "10.0.0.2", MK_SESSION_FORWARD));
	/* terminating: no longer a backend, but still alive */
	apply_proto(IPPROTO_UDP, "34", 1);
	ck_assert(!counts.cut);
	ck_assert(!is_cut(IPPROTO_UDP, "10.0.0.4", MK_SESSION_FORWARD));
	/* no endpoint at all: unchanged */
	apply_proto(IPPROTO_UDP, "", 0);
	ck_assert(counts.cut);
	ck_assert(!is_cut(IPPROTO_UDP, "10.0.0.2", MK_SESSION_FORWARD));
}
END_TEST

/* A flow of no Service, by which node it came, though its entry has a number there. */
START_TEST(test_client_is_not_cut)
{
	struct sessions_entry entry = entry_of(IPPROTO_UDP, "10.0.0.2", MK_SESSION_FORWARD);

	ck_assert(is_cut(IPPROTO_UDP, "10.0.0.2", MK_SESSION_FORWARD));
	entry.session.service_id = 0;
	ck_assert(!mk_service_sync_session_cut(sync_, &entry.key, &entry.session));
}
END_TEST

/* Ports of UDP endpoints stay once set; the serial number changes only with them. */
START_TEST(test_udp_ports)
{
	const struct mk_port_set *ports;
	uint32_t serial, later;

	(void)mk_service_sync_udp_ports(sync_, &serial);
	ck_assert_uint_eq(serial, 0);
	apply_proto(IPPROTO_UDP, "23", 2);
	ports = mk_service_sync_udp_ports(sync_, &serial);
	ck_assert_uint_ne(serial, 0);
	ck_assert(ports->words[8080 / 32] >> (8080 % 32) & 1);
	apply_proto(IPPROTO_UDP, "234", 3);
	remove_named("web");
	ports = mk_service_sync_udp_ports(sync_, &later);
	ck_assert_uint_eq(later, serial);
	ck_assert(ports->words[8080 / 32] >> (8080 % 32) & 1);
}
END_TEST

START_TEST(test_cut_with_frontend)
{
	apply_proto(IPPROTO_UDP, "23", 2);
	ck_assert(!is_cut(IPPROTO_UDP, "10.0.0.2", MK_SESSION_FORWARD));
	apply_proto(IPPROTO_SCTP, "23", 2);
	ck_assert_msg(counts.cut, "a UDP frontend went");
	ck_assert(is_cut(IPPROTO_UDP, "10.0.0.2", MK_SESSION_FORWARD));
	ck_assert(!is_cut(IPPROTO_UDP, "10.0.0.2", 0));
	remove_named("web");
	ck_assert(is_cut(IPPROTO_UDP, "10.0.0.2", MK_SESSION_FORWARD));
	ck_assert(!is_cut(IPPROTO_TCP, "10.0.0.2", MK_SESSION_FORWARD));
}
END_TEST

/* ---- frontends that connections outlive ------------------------------------------------------ */

struct loss {
	int calls, ret;
	bool was_there; /* the frontend existed at the report */
};

static int losing(void *ctx, struct mk_error *err)
{
	struct mk_frontend service;
	struct loss *loss = ctx;

	loss->calls++;
	loss->was_there = lookup("10.96.0.1", 80, &service);
	return loss->ret < 0 ? mk_error_set(err, -loss->ret, "not now") : 0;
}

static bool outlives(uint8_t proto, uint8_t flags)
{
	struct sessions_entry entry = entry_of(proto, "10.0.0.2", flags);

	return mk_service_sync_session_outlives(sync_, &entry.key, &entry.session);
}

static void apply_both_scopes(void)
{
	struct built built;

	build(&built, "web", "10.96.0.1", "2");
	built.frontends[1] = built.frontends[0];
	built.frontends[1].scope = MK_SCOPE_EXTERNAL;
	apply(&built);
}

START_TEST(test_loss)
{
	struct loss loss = { 0 };

	mk_service_sync_on_loss(sync_, losing, &loss);
	apply_both_scopes();
	ck_assert(!outlives(IPPROTO_TCP, MK_SESSION_FORWARD));
	ck_assert_int_eq(loss.calls, 0);
	remove_named("web");
	ck_assert_int_ge(loss.calls, 1);
	ck_assert(outlives(IPPROTO_TCP, MK_SESSION_FORWARD));
	ck_assert(!outlives(IPPROTO_TCP, 0));
	ck_assert(!outlives(IPPROTO_UDP, MK_SESSION_FORWARD));
	apply_both_scopes();
	ck_assert(!outlives(IPPROTO_TCP, MK_SESSION_FORWARD));
}
END_TEST

/* Reported first: a packet that finds no frontend must find the setting. */
START_TEST(test_loss_comes_first)
{
	struct loss loss = { .ret = -EIO };
	struct mk_frontend service;
	struct built built;

	apply_named("web", "10.96.0.1", "2");
	mk_service_sync_on_loss(sync_, losing, &loss);
	build(&built, "web", "10.96.0.1", "2");
	built.compiled.set_count = 0;
	ck_assert_int_eq(mk_service_sync_apply(sync_, &built.compiled, now_ns, &counts, &sync_err),
			 -EIO);
	ck_assert(lookup("10.96.0.1", 80, &service));
	loss.ret = 0;
	remove_named("web");
	ck_assert(loss.was_there);
	ck_assert(!lookup("10.96.0.1", 80, &service));
}
END_TEST

/* Entries of an earlier agent that no Service uses. */
START_TEST(test_loss_at_prune)
{
	struct loss loss = { 0 };

	apply_named("web", "10.96.0.1", "2");
	sync_restart();
	mk_service_sync_on_loss(sync_, losing, &loss);
	ck_assert_int_eq(mk_service_sync_prune(sync_, now_ns, UINT64_MAX, &counts, &sync_err), 0);
	ck_assert_int_eq(loss.calls, 1);
}
END_TEST

static bool of_host(const char *backend, bool keeps_client)
{
	struct sessions_entry entry = entry_of(IPPROTO_TCP, backend, MK_SESSION_FORWARD);
	struct mk_ip other = ip_of("10.0.0.8");

	if (!keeps_client)
		entry.session.to.saddr = mk_ip_to_addr(&other);
	return mk_service_sync_session_of_host(sync_, &entry.key, &entry.session);
}

START_TEST(test_flow_of_host)
{
	struct sessions_entry entry = entry_of(IPPROTO_TCP, "10.0.0.3", MK_SESSION_FORWARD);
	const struct mk_ip local[] = { ip_of("10.0.0.3") };

	ck_assert_int_eq(mk_service_sync_set_local(sync_, local, 1, &sync_err), 0);
	ck_assert(of_host("10.0.0.3", true));
	ck_assert(!of_host("10.0.0.3", false));
	ck_assert(!of_host("10.0.0.2", true));
	entry.session.set_id = 0; /* its tuple collides with a Service's flow */
	ck_assert(mk_service_sync_session_of_host(sync_, &entry.key, &entry.session));
	entry.key = entry.session.to; /* ... and unchanged: its answers need no rewrite */
	ck_assert(!mk_service_sync_session_of_host(sync_, &entry.key, &entry.session));
}
END_TEST

START_TEST(test_lasting)
{
	struct mk_linger linger = { 0 };

	mk_linger_set(&linger);
	ck_assert_msg(!mk_linger_over(&linger, false), "the pass in which it was set");
	ck_assert_msg(!mk_linger_over(&linger, false), "one pass may miss a session");
	ck_assert(mk_linger_over(&linger, false));
	ck_assert(!mk_linger_over(&linger, true));
	ck_assert(!mk_linger_over(&linger, false));
	linger.seen = true;
	ck_assert(!mk_linger_over(&linger, false));
	ck_assert(!mk_linger_over(&linger, false));
	ck_assert(mk_linger_over(&linger, false));
}
END_TEST

START_TEST(test_host_backends)
{
	const struct mk_ip local[] = { ip_of("10.0.0.3") };
	struct built built;

	ck_assert_int_eq(mk_service_sync_set_local(sync_, local, 1, &sync_err), 0);
	build(&built, "web", "10.96.0.1", "23");
	built.frontends[0].scope = MK_SCOPE_EXTERNAL;
	built.set.local_count = 2;
	apply(&built);
	ck_assert(mk_service_sync_host_backends(sync_));
	built.frontends[0].flags = MK_FRONTEND_MASQUERADE;
	apply(&built);
	ck_assert(!mk_service_sync_host_backends(sync_));
	built.frontends[0].flags = 0;
	apply(&built);
	ck_assert(mk_service_sync_host_backends(sync_));
	ck_assert_int_eq(mk_service_sync_set_local(sync_, NULL, 0, &sync_err), 0);
	ck_assert(!mk_service_sync_host_backends(sync_));
	ck_assert_int_eq(mk_service_sync_set_local(sync_, local, 1, &sync_err), 0);
	ck_assert(mk_service_sync_host_backends(sync_));
	remove_named("web");
	ck_assert(!mk_service_sync_host_backends(sync_));
}
END_TEST

UNIT_SUITE("sync")
{
	TCase *tc = unit_case(suite, "services", sync_setup, sync_teardown);

	tcase_add_test(tc, test_same_twice_writes_nothing);
	tcase_add_test(tc, test_restart_writes_nothing);
	tcase_add_test(tc, test_generations);
	tcase_add_test(tc, test_removed);
	tcase_add_test(tc, test_port_moves);
	tcase_add_test(tc, test_prune);
	tcase_add_test(tc, test_backends_are_read_once);
	tcase_add_test(tc, test_backends_with_holes);
	tcase_add_test(tc, test_prune_many);
	tcase_add_test(tc, test_reserved_ids);
	tcase_add_test(tc, test_account);
	tcase_add_test(tc, test_account_of_one_only);
	tcase_add_test(tc, test_half_written);
	tcase_add_test(tc, test_claimed_twice);
	tcase_add_test(tc, test_claim_is_told_once);
	tcase_add_test(tc, test_maglev);
	tcase_add_test(tc, test_full);
	tcase_add_test(tc, test_cut);
	tcase_add_test(tc, test_client_is_not_cut);
	tcase_add_test(tc, test_cut_with_frontend);
	tcase_add_test(tc, test_udp_ports);
	tcase_add_test(tc, test_loss);
	tcase_add_test(tc, test_loss_comes_first);
	tcase_add_test(tc, test_loss_at_prune);
	tcase_add_test(tc, test_flow_of_host);
	tcase_add_test(tc, test_lasting);
	tcase_add_test(tc, test_host_backends);
}
