// SPDX-License-Identifier: Apache-2.0
/* Services to tables, on real maps: what is written, what is left alone, what goes and when. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "datapath/services.h"
#include "unit/unit.h"

#define S 1000000000ULL

static struct mk_service_tables tables;
static struct mk_service_sync *sync_;
static struct mk_service_counts counts;
static struct mk_error err;
static uint64_t now_ns;

/* ---- fixture ---------------------------------------------------------------------------------- */

static struct mk_table make_table(const char *name, uint32_t key_size, uint32_t value_size)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_NO_PREALLOC);
	struct mk_table table;
	int fd = bpf_map_create(BPF_MAP_TYPE_HASH, NULL, key_size, value_size, 1024, &options);

	ck_assert_msg(fd >= 0, "cannot create a map: %s", strerror(errno));
	ck_assert_int_eq(mk_table_init(&table, name, fd, &err), 0);
	return table;
}

static void restart(void)
{
	mk_service_sync_free(sync_);
	sync_ = mk_service_sync_new(&tables, &err);
	ck_assert_msg(sync_ != NULL, "%s", mk_error_text(&err));
	counts = (struct mk_service_counts){ 0 };
}

static void setup(void)
{
	struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };

	setrlimit(RLIMIT_MEMLOCK, &unlimited);
	tables.services =
		make_table("services", sizeof(struct mk_service_key), sizeof(struct mk_service));
	tables.backends = make_table("service_backends", sizeof(struct mk_backend_key),
				     sizeof(struct mk_backend));
	tables.maglev =
		make_table("maglev", sizeof(struct mk_maglev_key), sizeof(struct mk_maglev));
	now_ns = 1000 * S;
	sync_ = NULL;
	restart();
}

static void teardown(void)
{
	mk_service_sync_free(sync_);
	mk_table_close(&tables.services);
	mk_table_close(&tables.backends);
	mk_table_close(&tables.maglev);
}

/* ---- a compiled Service, by hand -------------------------------------------------------------- */

struct built {
	struct mk_frontend frontends[4];
	struct mk_service_backend backends[8];
	struct mk_live_backend live[8];
	struct mk_maglev maglev;
	struct mk_backend_set set;
	struct mk_compiled_service compiled;
};

/* ClusterIP @vip:80 and the address itself; backends "10.0.0.N:8080" for each digit of @backends. */
static struct built *build(struct built *built, const char *name, const char *vip,
			   const char *backends)
{
	size_t count = strlen(backends);

	*built = (struct built){ 0 };
	built->frontends[0] =
		(struct mk_frontend){ .ip = ip_of(vip), .port = 80, .proto = IPPROTO_TCP };
	built->frontends[1] = (struct mk_frontend){ .ip = ip_of(vip) };
	for (size_t i = 0; i < count; i++) {
		char text[] = "10.0.0.N";

		text[7] = backends[i];
		built->backends[i] = (struct mk_service_backend){ .ip = ip_of(text), .port = 8080 };
		built->live[i] = (struct mk_live_backend){ .ip = ip_of(text),
							   .port = 8080,
							   .proto = IPPROTO_TCP };
	}
	built->set = (struct mk_backend_set){
		.frontends = built->frontends,
		.frontend_count = 2,
		.backends = built->backends,
		.backend_count = count,
		.local_weight = 1,
	};
	built->compiled = (struct mk_compiled_service){
		.namespace_ = (char *)"default",
		.name = (char *)(uintptr_t)name,
		.sets = &built->set,
		.set_count = 1,
		.live = built->live,
		.live_count = count,
	};
	return built;
}

static void apply(const struct built *built)
{
	int ret;

	counts = (struct mk_service_counts){ 0 };
	ret = mk_service_sync_apply(sync_, &built->compiled, now_ns, &counts, &err);
	ck_assert_msg(ret == 0, "%s", mk_error_text(&err));
}

static void apply_named(const char *name, const char *vip, const char *backends)
{
	struct built built;

	apply(build(&built, name, vip, backends));
}

static void remove_named(const char *name)
{
	struct mk_compiled_service gone = { .namespace_ = (char *)"default",
					    .name = (char *)(uintptr_t)name };

	counts = (struct mk_service_counts){ 0 };
	ck_assert_int_eq(mk_service_sync_apply(sync_, &gone, now_ns, &counts, &err), 0);
}

static void prune(void)
{
	counts = (struct mk_service_counts){ 0 };
	ck_assert_int_eq(mk_service_sync_prune(sync_, now_ns, &counts, &err), 0);
}

static int collect(uint64_t at_ns)
{
	counts = (struct mk_service_counts){ 0 };
	return mk_service_sync_collect(sync_, at_ns, &counts, &err);
}

/* ---- what the tables say ----------------------------------------------------------------------- */

static size_t entries(const struct mk_table *table)
{
	cleanup_free void *keys = NULL;
	size_t count;

	ck_assert_int_eq(mk_table_keys(table, &keys, &count, &err), 0);
	return count;
}

static bool lookup(const char *vip, uint16_t port, struct mk_service *service)
{
	struct mk_ip ip = ip_of(vip);
	struct mk_service_key key = { .addr = mk_ip_to_addr(&ip),
				      .port = htons(port),
				      .proto = port ? IPPROTO_TCP : 0 };

	return mk_table_get(&tables.services, &key, service, &err) == 0;
}

/* The last digits of the backends of @vip:80, as the datapath would find them. */
static const char *backends_of(const char *vip)
{
	static char text[16];
	struct mk_service service;
	size_t used = 0;

	if (!lookup(vip, 80, &service))
		return "none";
	for (uint32_t i = 0; i < service.backend_count; i++) {
		struct mk_backend_key key = { service.id, service.generation, i };
		struct mk_backend backend;

		ck_assert_msg(mk_table_get(&tables.backends, &key, &backend, &err) == 0,
			      "backend %u of %s: %s", i, vip, mk_error_text(&err));
		text[used++] = (char)('0' + (ntohl(backend.addr.word[0]) & 0xff));
	}
	text[used] = '\0';
	return text;
}

/* ---- tests --------------------------------------------------------------------------------------- */

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
	struct mk_service before, after;

	apply_named("web", "10.96.0.1", "23");
	apply_named("db", "10.96.0.2", "");
	ck_assert(lookup("10.96.0.1", 80, &before));
	restart();
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

/* The old generation stays as long as a packet may be reading it. */
START_TEST(test_generations)
{
	struct mk_service before, after;

	apply_named("web", "10.96.0.1", "23");
	ck_assert(lookup("10.96.0.1", 80, &before));
	apply_named("web", "10.96.0.1", "234");
	ck_assert(lookup("10.96.0.1", 80, &after));
	ck_assert_uint_eq(after.id, before.id);
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
	ck_assert_uint_eq(entries(&tables.services), 0);
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
	struct mk_service service;

	apply_named("web", "10.96.0.1", "23");
	build(&built, "web", "10.96.0.1", "23");
	built.frontends[0].port = 81;
	apply(&built);
	ck_assert(!lookup("10.96.0.1", 80, &service));
	ck_assert(lookup("10.96.0.1", 81, &service));
	ck_assert(lookup("10.96.0.1", 0, &service));
}
END_TEST

/* Only what is in nobody's list goes, and only when asked to. */
START_TEST(test_prune)
{
	struct mk_backend_key orphan = { .service_id = 77, .generation = 3, .index = 1 };
	struct mk_maglev_key orphan_table = { .service_id = 77, .generation = 3 };
	static const struct mk_maglev empty;
	struct mk_backend value = { 0 };

	apply_named("web", "10.96.0.1", "23");
	apply_named("gone", "10.96.0.2", "4");
	ck_assert_int_eq(mk_table_put(&tables.backends, &orphan, &value, &err), 0);
	ck_assert_int_eq(mk_table_put(&tables.maglev, &orphan_table, &empty, &err), 0);
	restart();
	apply_named("web", "10.96.0.1", "23");
	ck_assert_uint_eq(entries(&tables.services), 4);
	prune();
	ck_assert_uint_eq(entries(&tables.services), 2);
	ck_assert_uint_eq(entries(&tables.maglev), 0);
	ck_assert_int_eq(collect(now_ns + MK_RETIRE_NS), 0);
	ck_assert_uint_eq(entries(&tables.backends), 2);
	ck_assert_str_eq(backends_of("10.96.0.1"), "23");
}
END_TEST

/* Sessions of a Service that is gone name an id that no table shows any more. */
START_TEST(test_reserved_ids)
{
	struct mk_service service;

	apply_named("web", "10.96.0.1", "2");
	restart();
	mk_service_sync_reserve_ids(sync_, 41);
	mk_service_sync_reserve_ids(sync_, 7);
	apply_named("new", "10.96.0.2", "3");
	ck_assert(lookup("10.96.0.2", 80, &service));
	ck_assert_uint_eq(service.id, 42);
}
END_TEST

/* A kill between writing a generation and publishing it. */
START_TEST(test_half_written)
{
	struct mk_backend_key key = { .index = 0 };
	struct mk_backend other = { .port = htons(9) };
	struct mk_service service;

	apply_named("web", "10.96.0.1", "23");
	ck_assert(lookup("10.96.0.1", 80, &service));
	key.service_id = service.id;
	key.generation = service.generation + 1;
	for (; key.index < 5; key.index++)
		ck_assert_int_eq(mk_table_put(&tables.backends, &key, &other, &err), 0);
	restart();
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

START_TEST(test_maglev)
{
	struct built built;
	struct mk_service service;
	struct mk_maglev_key key;
	struct mk_maglev table;

	build(&built, "web", "10.96.0.1", "23");
	built.frontends[0].flags = MK_SERVICE_MAGLEV;
	built.maglev.backend_index[1] = 1;
	built.set.maglev = &built.maglev;
	apply(&built);
	ck_assert_uint_eq(counts.put, 5);
	ck_assert(lookup("10.96.0.1", 80, &service));
	key = (struct mk_maglev_key){ service.id, service.generation };
	ck_assert_int_eq(mk_table_get(&tables.maglev, &key, &table, &err), 0);
	ck_assert_mem_eq(&table, &built.maglev, sizeof(table));
	restart();
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
	tables.backends.fd = bpf_map_create(BPF_MAP_TYPE_HASH, NULL, sizeof(struct mk_backend_key),
					    sizeof(struct mk_backend), 3, NULL);
	ck_assert_int_eq(
		mk_table_init(&tables.backends, "service_backends", tables.backends.fd, &err), 0);
	restart();
	apply_named("web", "10.96.0.1", "2");
	build(&built, "web", "10.96.0.1", "3456");
	ck_assert_int_eq(mk_service_sync_apply(sync_, &built.compiled, now_ns, &counts, &err),
			 -ENOSPC);
	ck_assert_msg(strstr(err.text, "service_backends") && strstr(err.text, "web"), "%s",
		      err.text);
	ck_assert_str_eq(backends_of("10.96.0.1"), "2");
}
END_TEST

/* ---- sessions of backends that are gone ------------------------------------------------------------ */

static bool is_cut(uint8_t proto, const char *backend, uint8_t flags)
{
	struct mk_ip ip = ip_of(backend);
	struct mk_session session = { .flags = flags };
	struct mk_tuple key = { .proto = proto };
	struct mk_service service;

	ck_assert(lookup("10.96.0.1", 80, &service));
	session.service_id = service.id;
	session.to.daddr = mk_ip_to_addr(&ip);
	session.to.dport = htons(8080);
	session.to.proto = proto;
	return mk_service_sync_session_cut(sync_, &key, &session);
}

START_TEST(test_cut)
{
	struct built built;

	apply_named("web", "10.96.0.1", "23");
	ck_assert(!counts.cut);
	apply_named("web", "10.96.0.1", "234");
	ck_assert(!counts.cut);
	apply_named("web", "10.96.0.1", "34");
	ck_assert(counts.cut);
	ck_assert(is_cut(IPPROTO_TCP, "10.0.0.2", MK_SESSION_FORWARD));
	ck_assert(!is_cut(IPPROTO_TCP, "10.0.0.3", MK_SESSION_FORWARD));
	ck_assert(!is_cut(IPPROTO_TCP, "10.0.0.2", 0));
	/* no UDP endpoint at all: left alone */
	ck_assert(!is_cut(IPPROTO_UDP, "10.0.0.2", MK_SESSION_FORWARD));
	/* terminating: no backend any more, but still live */
	build(&built, "web", "10.96.0.1", "34");
	built.set.backend_count = 1;
	apply(&built);
	ck_assert(!counts.cut);
	ck_assert(!is_cut(IPPROTO_TCP, "10.0.0.4", MK_SESSION_FORWARD));
}
END_TEST

START_TEST(test_host_backends)
{
	const struct mk_ip local[] = { ip_of("10.0.0.3") };
	struct built built;

	ck_assert_int_eq(mk_service_sync_set_local(sync_, local, 1, &err), 0);
	build(&built, "web", "10.96.0.1", "23");
	built.frontends[0].scope = MK_SCOPE_EXTERNAL;
	built.set.local_count = 2;
	apply(&built);
	ck_assert(mk_service_sync_host_backends(sync_));
	built.frontends[0].flags = MK_SERVICE_MASQUERADE;
	apply(&built);
	ck_assert(!mk_service_sync_host_backends(sync_));
	built.frontends[0].flags = 0;
	apply(&built);
	ck_assert(mk_service_sync_host_backends(sync_));
	ck_assert_int_eq(mk_service_sync_set_local(sync_, NULL, 0, &err), 0);
	ck_assert(!mk_service_sync_host_backends(sync_));
	ck_assert_int_eq(mk_service_sync_set_local(sync_, local, 1, &err), 0);
	ck_assert(mk_service_sync_host_backends(sync_));
	remove_named("web");
	ck_assert(!mk_service_sync_host_backends(sync_));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sync");
	TCase *tc = tcase_create("services");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, test_same_twice_writes_nothing);
	tcase_add_test(tc, test_restart_writes_nothing);
	tcase_add_test(tc, test_generations);
	tcase_add_test(tc, test_removed);
	tcase_add_test(tc, test_port_moves);
	tcase_add_test(tc, test_prune);
	tcase_add_test(tc, test_reserved_ids);
	tcase_add_test(tc, test_half_written);
	tcase_add_test(tc, test_claimed_twice);
	tcase_add_test(tc, test_maglev);
	tcase_add_test(tc, test_full);
	tcase_add_test(tc, test_cut);
	tcase_add_test(tc, test_host_backends);
	suite_add_tcase(suite, tc);
	return unit_run(suite);
}
