// SPDX-License-Identifier: Apache-2.0
#include "unit/sync_fixture.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "unit/unit.h"
#include "rows.h"

struct mk_service_tables tables;
struct mk_service_sync *sync_;
struct mk_service_counts counts;
struct mk_error sync_err;
uint64_t now_ns;
uint32_t sync_room = 1024;

/* ---- fixture --------------------------------------------------------------------------------- */

/* The lock's type information, as in the programs' object, so that BPF_F_LOCK finds the lock. */
static int services_btf(__u32 *key_type, __u32 *value_type)
{
	struct btf *btf = btf__new_empty();
	int byte, count, lock, fd;

	ck_assert_ptr_nonnull(btf);
	byte = btf__add_int(btf, "unsigned char", 1, 0);
	count = btf__add_int(btf, "unsigned int", 4, 0);
	lock = btf__add_struct(btf, "bpf_spin_lock", sizeof(struct bpf_spin_lock));
	ck_assert_int_eq(btf__add_field(btf, "val", count, 0, 0), 0);
	*value_type = (__u32)btf__add_struct(btf, "mk_frontend", sizeof(struct mk_frontend));
	ck_assert_int_eq(
		btf__add_field(btf, "lock", lock, offsetof(struct mk_frontend, lock) * 8, 0), 0);
	*key_type = (__u32)btf__add_array(btf, count, byte,
					  (__u32)row_key_form("frontends")->ipv4_bytes);
	ck_assert_int_eq(btf__load_into_kernel(btf), 0);
	fd = fcntl(btf__fd(btf), F_DUPFD_CLOEXEC, 0);
	btf__free(btf);
	return fd;
}

static struct mk_table make_services(void)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_NO_PREALLOC);
	cleanup_close int btf_fd =
		services_btf(&options.btf_key_type_id, &options.btf_value_type_id);
	struct mk_table table;
	int fd;

	options.btf_fd = (__u32)btf_fd;
	fd = row_create_ipv4(BPF_MAP_TYPE_HASH, "frontends", sizeof(struct mk_frontend_key),
			     sizeof(struct mk_frontend), sync_room, &options);
	ck_assert_msg(fd >= 0, "cannot create map frontends: %s", strerror(errno));
	ck_assert_int_eq(mk_table_init(&table, "frontends", fd, &sync_err), 0);
	return table;
}

static struct mk_table make_table(enum bpf_map_type type, const char *name, uint32_t key_size,
				  uint32_t value_size)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_NO_PREALLOC);
	struct mk_table table;
	int fd = row_create_ipv4(type, name, key_size, value_size, sync_room, &options);

	ck_assert_msg(fd >= 0, "cannot create a map: %s", strerror(errno));
	ck_assert_int_eq(mk_table_init(&table, name, fd, &sync_err), 0);
	return table;
}

void sync_restart(void)
{
	mk_service_sync_free(sync_);
	sync_ = mk_service_sync_new(&tables, &sync_err);
	ck_assert_msg(sync_ != NULL, "%s", mk_error_text(&sync_err));
	counts = (struct mk_service_counts){ 0 };
}

void sync_setup(void)
{
	struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };

	setrlimit(RLIMIT_MEMLOCK, &unlimited);
	tables.frontends = make_services();
	tables.backends = make_table(BPF_MAP_TYPE_HASH, "service_backends",
				     sizeof(struct mk_backend_key), sizeof(struct mk_backend));
	tables.maglev =
		make_table(BPF_MAP_TYPE_HASH, "maglev", sizeof(struct mk_maglev_key), MAGLEV_BYTES);
	tables.affinity_backends =
		make_table(BPF_MAP_TYPE_HASH, "affinity_backends",
			   sizeof(struct mk_affinity_backend_key), sizeof(__u32));
	tables.source_ranges = make_table(BPF_MAP_TYPE_LPM_TRIE, "source_ranges",
					  sizeof(struct mk_source_range_key), sizeof(__u32));
	now_ns = 1000 * S;
	sync_ = NULL;
	sync_restart();
}

void sync_teardown(void)
{
	mk_service_sync_free(sync_);
	mk_table_close(&tables.frontends);
	mk_table_close(&tables.backends);
	mk_table_close(&tables.maglev);
	mk_table_close(&tables.affinity_backends);
	mk_table_close(&tables.source_ranges);
}

/* ---- a compiled Service, by hand ------------------------------------------------------------- */

/* ClusterIP @vip:80 and the address itself; backends "10.0.0.N:8080" per digit of @backends. */
struct built *build(struct built *built, const char *name, const char *vip, const char *backends)
{
	size_t count = strlen(backends);

	*built = (struct built){ 0 };
	built->frontends[0] =
		(struct mk_wanted_frontend){ .ip = ip_of(vip), .port = 80, .proto = IPPROTO_TCP };
	built->frontends[1] = (struct mk_wanted_frontend){ .ip = ip_of(vip) };
	for (size_t i = 0; i < count; i++) {
		char text[] = "10.0.0.N";

		text[7] = backends[i];
		built->backends[i] = (struct mk_service_backend){ .ip = ip_of(text), .port = 8080 };
		built->live[i] = (struct mk_live_backend){ .ip = ip_of(text),
							   .port = 8080,
							   .proto = IPPROTO_UDP };
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

void apply(const struct built *built)
{
	int ret;

	counts = (struct mk_service_counts){ 0 };
	ret = mk_service_sync_apply(sync_, &built->compiled, now_ns, &counts, &sync_err);
	ck_assert_msg(ret == 0, "%s", mk_error_text(&sync_err));
}

void apply_named(const char *name, const char *vip, const char *backends)
{
	struct built built;

	apply(build(&built, name, vip, backends));
}

void remove_named(const char *name)
{
	struct mk_compiled_service gone = { .namespace_ = (char *)"default",
					    .name = (char *)(uintptr_t)name };

	counts = (struct mk_service_counts){ 0 };
	ck_assert_int_eq(mk_service_sync_apply(sync_, &gone, now_ns, &counts, &sync_err), 0);
}

void prune(void)
{
	counts = (struct mk_service_counts){ 0 };
	int ret;

	/* a part at a time */
	do
		ret = mk_service_sync_prune(sync_, now_ns, 0, &counts, &sync_err);
	while (ret > 0);
	ck_assert_int_eq(ret, 0);
}

int collect(uint64_t at_ns)
{
	counts = (struct mk_service_counts){ 0 };
	return mk_service_sync_collect(sync_, at_ns, &counts, &sync_err);
}

/* ---- what the tables say --------------------------------------------------------------------- */

size_t entries(const struct mk_table *table)
{
	cleanup_free void *keys = NULL;
	size_t count;

	ck_assert_int_eq(mk_table_keys(table, &keys, &count, &sync_err), 0);
	return count;
}

bool lookup(const char *vip, uint16_t port, struct mk_frontend *service)
{
	return lookup_scope(vip, port, MK_SCOPE_INTERNAL, service);
}

bool lookup_scope(const char *vip, uint16_t port, enum mk_scope scope, struct mk_frontend *service)
{
	struct mk_ip ip = ip_of(vip);
	struct mk_frontend_key key = { .addr = mk_ip_to_addr(&ip),
				       .port = htons(port),
				       .proto = port ? IPPROTO_TCP : 0,
				       .scope = (__u8)scope };

	return mk_table_get(&tables.frontends, &key, service, &sync_err) == 0;
}

/* The last digits of the backends of @vip:80, as the datapath would find them. */
const char *backends_of(const char *vip)
{
	static char text[16];
	struct mk_frontend service;
	size_t used = 0;

	if (!lookup(vip, 80, &service))
		return "none";
	for (uint32_t i = 0; i < service.backend_count; i++) {
		struct mk_backend_key key = { service.set_id, service.generation, i };
		struct mk_backend backend;

		ck_assert_msg(mk_table_get(&tables.backends, &key, &backend, &sync_err) == 0,
			      "backend %u of %s: %s", i, vip, mk_error_text(&sync_err));
		text[used++] = (char)('0' + (mk_addr_low_bits(&backend.addr) & 0xff));
	}
	text[used] = '\0';
	return text;
}
