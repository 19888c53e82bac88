// SPDX-License-Identifier: Apache-2.0
#include "unit/policy_tables_fixture.h"

#include <bpf/bpf.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "unit/unit.h"
#include "rows.h"

struct mk_policy_tables policy_tables;
struct mk_policy_sync *policy_sync;
struct mk_policy_counts policy_counts;
struct mk_error policy_err;
uint64_t policy_now_ns;
uint32_t policy_room = 1024;
uint32_t policy_slots = POD_SLOTS;

/* ---- tables ---------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	size_t at; /* in struct mk_policy_tables */
	enum bpf_map_type type;
	size_t key_bytes, value_bytes;
} maps[] = {
#define MAP(name_, member, type_, key, value)                                         \
	{                                                                             \
		name_, offsetof(struct mk_policy_tables, member), type_, sizeof(key), \
			sizeof(value)                                                 \
	}
	MAP("policy_state", state, BPF_MAP_TYPE_ARRAY, __u32, struct mk_policy_state),
	MAP("pod_policies", pods, BPF_MAP_TYPE_ARRAY, __u32, struct mk_pod_policy),
	MAP("policy_identities", identities, BPF_MAP_TYPE_HASH, struct mk_addr,
	    struct mk_policy_identity),
	MAP("policy_peers", peers, BPF_MAP_TYPE_HASH, struct mk_policy_peer_key,
	    struct mk_policy_peer),
	MAP("policy_blocks", blocks, BPF_MAP_TYPE_LPM_TRIE, struct mk_policy_block_key,
	    struct mk_policy_peer),
	MAP("policy_ports", ports, BPF_MAP_TYPE_LPM_TRIE, struct mk_policy_port_key,
	    struct mk_policy_port),
	MAP("policy_counts", counts, BPF_MAP_TYPE_HASH, struct mk_policy_count_key,
	    struct mk_policy_count),
	MAP("policy_expected", expected, BPF_MAP_TYPE_HASH, struct mk_policy_pod_key,
	    struct mk_policy_expected),
	MAP("policy_namespaces", namespaces, BPF_MAP_TYPE_HASH, struct mk_policy_namespace_key,
	    struct mk_policy_namespace),
#undef MAP
};

static struct mk_table *table_of_map(size_t map)
{
	return (struct mk_table *)((char *)&policy_tables + maps[map].at);
}

static void make(size_t map, sa_family_t family)
{
	bool is_array = maps[map].type == BPF_MAP_TYPE_ARRAY;
	LIBBPF_OPTS(bpf_map_create_opts, options,
		    .map_flags = is_array ? BPF_F_MMAPABLE : BPF_F_NO_PREALLOC);
	uint32_t room = is_array ? policy_slots : policy_room;
	int fd;

	if (family == AF_INET)
		fd = row_create_ipv4(maps[map].type, maps[map].name, maps[map].key_bytes,
				     maps[map].value_bytes, room, &options);
	else
		fd = bpf_map_create(maps[map].type, maps[map].name, (__u32)maps[map].key_bytes,
				    (__u32)maps[map].value_bytes, room, &options);
	ck_assert_msg(fd >= 0, "cannot create map %s: %s", maps[map].name, strerror(errno));
	ck_assert_int_eq(mk_table_init(table_of_map(map), maps[map].name, fd, &policy_err), 0);
}

static void setup_family(sa_family_t family)
{
	struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };

	setrlimit(RLIMIT_MEMLOCK, &unlimited);
	for (size_t i = 0; i < MK_ARRAY_SIZE(maps); i++)
		make(i, family);
	policy_now_ns = 1000 * S;
	policy_sync = NULL;
	forget_rows();
	forget_sandboxes();
	policy_restart();
}

void policy_setup(void)
{
	setup_family(AF_INET);
}

void policy_setup_ipv6(void)
{
	setup_family(AF_INET6);
}

void policy_teardown(void)
{
	mk_policy_sync_free(policy_sync);
	for (size_t i = 0; i < MK_ARRAY_SIZE(maps); i++)
		mk_table_close(table_of_map(i));
}

void policy_restart(void)
{
	mk_policy_sync_free(policy_sync);
	policy_sync = mk_policy_sync_new(&policy_tables, &policy_err);
	ck_assert_msg(policy_sync != NULL, "%s", mk_error_text(&policy_err));
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define ROWS_MAX 16384

static struct {
	struct mk_identity_row identities[2][ROWS_MAX];
	struct mk_peer_row peers[2][ROWS_MAX];
	struct mk_block_row blocks[2][ROWS_MAX];
	struct mk_port_row ports[2][ROWS_MAX];
	struct mk_pod_row pods[2][ROWS_MAX];
	struct mk_namespace_row namespaces[2][ROWS_MAX];
} rows;
static struct mk_policy_changes changes;
static struct mk_policy_sandbox sandboxes[POD_SLOTS];
static size_t sandbox_count;

void forget_rows(void)
{
	changes = (struct mk_policy_changes){ 0 };
#define LIST(member)                         \
	changes.member.put = rows.member[0]; \
	changes.member.gone = rows.member[1]
	LIST(identities);
	LIST(peers);
	LIST(blocks);
	LIST(ports);
	LIST(pods);
	LIST(namespaces);
#undef LIST
}

void forget_sandboxes(void)
{
	sandbox_count = 0;
}

#define PUT(member, ...)                                                  \
	do {                                                              \
		ck_assert_uint_lt(changes.member.put_count, ROWS_MAX);    \
		changes.member.put[changes.member.put_count++] =          \
			(__typeof__(*changes.member.put)){ __VA_ARGS__ }; \
	} while (0)
#define GONE(member, ...)                                                  \
	do {                                                               \
		ck_assert_uint_lt(changes.member.gone_count, ROWS_MAX);    \
		changes.member.gone[changes.member.gone_count++] =         \
			(__typeof__(*changes.member.gone)){ __VA_ARGS__ }; \
	} while (0)

void put_identity(const char *ip, uint64_t class_id, const char *counts_as)
{
	struct mk_ip as = counts_as ? ip_of(counts_as) : (struct mk_ip){ 0 };

	PUT(identities, .ip = ip_of(ip), .class_id = class_id, .counts_as = as);
}

void gone_identity(const char *ip)
{
	GONE(identities, .ip = ip_of(ip));
}

void put_peer(uint64_t set, uint64_t peer, uint64_t table)
{
	PUT(peers, .set = set, .peer = peer, .table = table);
}

void gone_peer(uint64_t set, uint64_t peer)
{
	GONE(peers, .set = set, .peer = peer);
}

static struct mk_cidr block_of(const char *text)
{
	return text ? cidr_of(text) : (struct mk_cidr){ 0 };
}

void put_block(uint64_t set, const char *block, uint64_t table)
{
	PUT(blocks, .set = set, .block = block_of(block), .table = table);
}

void gone_block(uint64_t set, const char *block)
{
	GONE(blocks, .set = set, .block = block_of(block));
}

void put_port(const struct mk_port_row *row)
{
	PUT(ports, .table = row->table, .prefix_bits = row->prefix_bits, .proto = row->proto,
	    .port = row->port, .verdict = row->verdict, .chain = row->chain,
	    .chain_rule = row->chain_rule);
}

void gone_port(const struct mk_port_row *row)
{
	GONE(ports, .table = row->table, .prefix_bits = row->prefix_bits, .proto = row->proto,
	     .port = row->port);
}

void put_pod(const char *uid, const char *name, uint64_t ingress, uint64_t egress)
{
	PUT(pods, .uid = uid, .namespace_ = "shop", .name = name, .set = { ingress, egress });
}

void gone_pod(const char *uid, const char *name)
{
	GONE(pods, .uid = uid, .namespace_ = "shop", .name = name);
}

void put_namespace(const char *name, uint32_t directions)
{
	PUT(namespaces, .name = name, .directions = directions);
}

void add_sandbox(const char *uid, const char *name, const char *ip, int ifindex)
{
	struct mk_policy_sandbox *sandbox = &sandboxes[sandbox_count++];
	struct mk_ip address = ip_of(ip);

	*sandbox = (struct mk_policy_sandbox){
		.uid = (char *)(uintptr_t)uid,
		.namespace_ = name ? (char *)"shop" : NULL,
		.name = (char *)(uintptr_t)name,
		.ifindex = ifindex,
	};
	sandbox->ips[mk_family_index(address.family)] = address;
}

/* ---- calls ----------------------------------------------------------------------------------- */

int try_apply(void)
{
	int ret = mk_policy_sync_set_sandboxes(policy_sync, sandboxes, sandbox_count, &policy_err);

	ck_assert_int_eq(ret, 0);
	policy_counts = (struct mk_policy_counts){ 0 };
	policy_err = (struct mk_error){ 0 };
	ret = mk_policy_sync_apply(policy_sync, &changes, policy_now_ns, &policy_counts,
				   &policy_err);
	forget_rows();
	return ret;
}

void apply_rows(void)
{
	ck_assert_msg(try_apply() == 0, "%s", mk_error_text(&policy_err));
}

int policy_collect(uint64_t at_ns)
{
	policy_counts = (struct mk_policy_counts){ 0 };
	return mk_policy_sync_collect(policy_sync, at_ns, &policy_counts, &policy_err);
}

/* ---- what the tables say --------------------------------------------------------------------- */

size_t policy_entries_of(const struct mk_table *table)
{
	cleanup_free void *keys = NULL;
	size_t count;

	ck_assert_int_eq(mk_table_keys(table, &keys, &count, &policy_err), 0);
	return count;
}

struct mk_pod_policy policy_slot(const char *ip)
{
	struct mk_addr addr = addr_of(ip);
	uint32_t slot = mk_pod_slot(&addr, POD_SLOTS);
	struct mk_pod_policy entry;

	ck_assert_int_eq(mk_table_get(&policy_tables.pods, &slot, &entry, &policy_err), 0);
	return entry;
}

struct mk_policy_state policy_state_now(void)
{
	const uint32_t zero = 0;
	struct mk_policy_state state;

	ck_assert_int_eq(mk_table_get(&policy_tables.state, &zero, &state, &policy_err), 0);
	return state;
}

bool policy_allows(const char *ip, enum mk_policy_direction direction, const char *peer,
		   uint16_t port)
{
	const struct mk_policy_maps maps_ = { policy_tables.identities, policy_tables.peers,
					      policy_tables.blocks, policy_tables.ports };
	const struct mk_ip range = ip_of(peer);
	const struct mk_policy_question question = {
		.set = policy_slot(ip).set[direction],
		.peer = addr_of(peer),
		.peer_in_pod_range = range.family == AF_INET ? ((const uint8_t *)&range.v4)[0] == 10
							     : range.v6.s6_addr[0] == 0xfd,
		.proto = IPPROTO_TCP,
		.port = port,
	};
	struct mk_policy_answer answer;

	ck_assert_int_eq(mk_policy_ask(&maps_, &question, &answer, &policy_err), 0);
	return answer.allowed;
}
