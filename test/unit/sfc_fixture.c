// SPDX-License-Identifier: Apache-2.0
#include "unit/sfc_fixture.h"

#include <bpf/libbpf.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "unit/unit.h"
#include "rows.h"

struct mk_sfc_tables sfc_tables;
static struct mk_error err;

static const struct {
	const char *name;
	struct mk_table *table;
	enum bpf_map_type type;
	size_t value_bytes;
	uint32_t entries;
} maps[] = {
	{ "sfc_chains", &sfc_tables.chains, BPF_MAP_TYPE_ARRAY, sizeof(struct mk_sfc_chain),
	  MK_SFC_CHAINS },
	{ "sfc_functions", &sfc_tables.functions, BPF_MAP_TYPE_HASH, sizeof(struct mk_sfc_function),
	  MK_SFC_FUNCTIONS_ALL },
	{ "sfc_replicas", &sfc_tables.replicas, BPF_MAP_TYPE_ARRAY, sizeof(struct mk_sfc_replica),
	  MK_SFC_REPLICAS },
	{ "sfc_tags", &sfc_tables.tags, BPF_MAP_TYPE_HASH, sizeof(uint32_t), MK_SFC_REPLICAS },
	{ "sfc_ports", &sfc_tables.ports, BPF_MAP_TYPE_HASH, sizeof(struct mk_sfc_port),
	  MK_SFC_PORTS },
	{ "sfc_paths", &sfc_tables.paths, BPF_MAP_TYPE_HASH, sizeof(struct mk_sfc_path),
	  MK_SFC_PATHS },
	{ "sfc_counters", &sfc_tables.counters, BPF_MAP_TYPE_PERCPU_HASH,
	  sizeof(struct mk_sfc_counters), MK_SFC_REPLICAS },
};

static void make(size_t i, sa_family_t family)
{
	LIBBPF_OPTS(bpf_map_create_opts, options,
		    .map_flags = maps[i].type == BPF_MAP_TYPE_ARRAY ? 0 : BPF_F_NO_PREALLOC);
	bool has_tags = maps[i].table == &sfc_tables.tags;
	uint32_t key_bytes = has_tags ? sizeof(uint64_t) : sizeof(uint32_t);
	int fd;

	if (family == AF_INET)
		fd = row_create_ipv4(maps[i].type, maps[i].name, key_bytes, maps[i].value_bytes,
				     maps[i].entries, &options);
	else
		fd = bpf_map_create(maps[i].type, maps[i].name, key_bytes,
				    (uint32_t)maps[i].value_bytes, maps[i].entries, &options);
	ck_assert_msg(fd >= 0, "cannot create map %s: %s", maps[i].name, strerror(errno));
	ck_ok(mk_table_init(maps[i].table, maps[i].name, fd, &err));
}

/* The maps of flows have the form of this one. */
static void make_end_flows(sa_family_t family)
{
	LIBBPF_OPTS(bpf_map_create_opts, options);
	struct mk_table flows;
	int fd;

	ck_ok(mk_table_create(&flows, "sfc_end_flow", BPF_MAP_TYPE_LRU_HASH,
			      sizeof(struct mk_tuple), sizeof(struct mk_sfc_end_flow), 64, family,
			      &err));
	options.inner_map_fd = (uint32_t)flows.fd;
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "sfc_end_flows", sizeof(uint32_t),
			    sizeof(uint32_t), MK_SFC_CHAINS, &options);
	ck_assert_msg(fd >= 0, "cannot create map sfc_end_flows: %s", strerror(errno));
	ck_ok(mk_table_init(&sfc_tables.end_flows, "sfc_end_flows", fd, &err));
	mk_table_close(&flows);
}

void sfc_pins_mount(void)
{
	ck_assert_msg(unshare(CLONE_NEWNS) == 0, "unshare: %s (needs root)", strerror(errno));
	ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	ck_assert_int_eq(mount("tmpfs", "/mnt", "tmpfs", 0, NULL), 0);
	ck_assert_int_eq(mkdir(SFC_PINS, 0700), 0);
	ck_assert_int_eq(mount("bpffs", SFC_PINS, "bpf", 0, NULL), 0);
	ck_assert_int_eq(mkdir(SFC_PINS "/maps", 0700), 0);
	sfc_tables.pins = SFC_PINS;
}

void sfc_maps_make(sa_family_t family)
{
	struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };

	setrlimit(RLIMIT_MEMLOCK, &unlimited);
	for (size_t i = 0; i < MK_ARRAY_SIZE(maps); i++)
		make(i, family);
	make_end_flows(family);
}

void sfc_maps_close(void)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(maps); i++)
		mk_table_close(maps[i].table);
	mk_table_close(&sfc_tables.end_flows);
}
