// SPDX-License-Identifier: Apache-2.0
#include "datapath/maps/object.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "datapath/maps/bpflog.h"
#include "datapath/maps/maps_internal.h"
#include "datapath/maps/row.h"

const struct mk_program mk_programs[] = {
	{ .name = "ilb_pod", .is_hook = true },
	{ .name = "ilb_host", .is_hook = true },
	{ .name = "ilb_overlay", .is_hook = true },
	{ .name = "nat_uplink", .is_hook = true },
	{ .name = "nat_tunnel", .is_hook = true },
	{ .name = "elb_uplink_egress", .is_hook = true },
	{ .name = "ilb_lo_egress", .is_hook = true },
	{ .name = "sfc_port", .is_hook = true },
	{ .name = "sfc_overlay", .is_hook = true },
	{ .name = "cluster_in", .is_hook = true },
	{ .name = "wireguard_in", .is_hook = true },
	{ .name = "router" },
	{ .name = "elb" },
	{ .name = "open" },
	{ .name = "client" },
	{ .name = "policy" },
	{ .name = "sfc" },
	{ .name = "sfc_open" },
	{ .name = "sfc_session" },
	{ .name = "sfc_tap" },
	{ .name = "sfc_answer" },
	{ .name = "sfc_end" },
	{ .name = "cluster_out" },
	{ .name = "ilb_cluster" },
	{ .name = "nat" },
	{ .name = "error" },
	{ .name = "hold" },
	{ .name = "release" },
	{ .name = "monitor" },
	{ .name = "ndp" }, /* last: IPv6 alone has it */
};
const size_t mk_program_count = MK_ARRAY_SIZE(mk_programs) - 1;

/* The chain without `monokube monitor` (monitor.h). */
static const char *const chain_programs[] = {
	[MK_PROG_ROUTER] = "router",
	[MK_PROG_ELB] = "elb",
	[MK_PROG_NAT] = "nat",
	[MK_PROG_ERROR] = "error",
	[MK_PROG_MONITORED] = "router",
	[MK_PROG_HOLD] = "hold",
	[MK_PROG_RELEASE] = "release",
	[MK_PROG_UPLINK] = "nat_uplink",
	[MK_PROG_OPEN] = "open",
	[MK_PROG_NDP] = "ndp",
	[MK_PROG_POLICY] = "policy",
	[MK_PROG_SFC] = "sfc",
	[MK_PROG_SFC_OPEN] = "sfc_open",
	[MK_PROG_SFC_SESSION] = "sfc_session",
	[MK_PROG_SFC_TAP] = "sfc_tap",
	[MK_PROG_SFC_ANSWER] = "sfc_answer",
	[MK_PROG_SFC_END] = "sfc_end",
	[MK_PROG_CLUSTER] = "cluster_out",
	[MK_PROG_ILB_CLUSTER] = "ilb_cluster",
	[MK_PROG_OVERLAY] = "ilb_overlay",
	[MK_PROG_CLIENT] = "client",
};

const char *const mk_entry_programs[] = {
	[MK_ENTRY_POD] = "ilb_pod",
	[MK_ENTRY_HOST] = "ilb_host",
	[MK_ENTRY_OVERLAY] = "ilb_overlay",
	[MK_ENTRY_UPLINK] = "nat_uplink",
	[MK_ENTRY_TUNNEL] = "nat_tunnel",
	[MK_ENTRY_UPLINK_EGRESS] = "elb_uplink_egress",
	[MK_ENTRY_LOOPBACK] = "ilb_lo_egress",
	[MK_ENTRY_FUNCTION] = "sfc_port",
	[MK_ENTRY_SFC_OVERLAY] = "sfc_overlay",
	[MK_ENTRY_CLUSTER] = "cluster_in",
};
_Static_assert(MK_ARRAY_SIZE(mk_entry_programs) == MK_ENTRY_COUNT, "a program per hook");
_Static_assert(MK_ARRAY_SIZE(mk_programs) <= MK_PROGRAMS_MAX, "room in struct mk_abi");

struct mk_object {
	struct bpf_object *bpf;
	struct mk_node node;
	uint64_t constants_hash;
	int reused_fds[MK_ARRAY_SIZE(mk_programs)]; /* -1: none */
};

static bool is_ipv6(const struct mk_object *object)
{
	return mk_node_family(&object->node) == AF_INET6;
}

size_t mk_object_program_count(const struct mk_object *object)
{
	return is_ipv6(object) ? MK_ARRAY_SIZE(mk_programs) : mk_program_count;
}

static bool has_slot(const struct mk_object *object, __u32 slot)
{
	return chain_programs[slot] && (slot != MK_PROG_NDP || is_ipv6(object));
}

/* Before Linux 5.11 maps count against this limit, and 8 MiB is a usual default. */
static void raise_memlock(void)
{
	struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };

	/* may fail without privileges; load reports it if it matters */
	(void)setrlimit(RLIMIT_MEMLOCK, &unlimited);
}

/* Linux before 5.11 refuses a map whose full size exceeds 4 GiB. */
#define MAGLEV_BYTES_MAX (1u << 30)

static int set_maglev_size(struct bpf_map *maglev, __u32 room, struct mk_error *err)
{
	__u32 value_bytes = room * sizeof(__u16), entries = MAGLEV_BYTES_MAX / value_bytes;
	int ret = bpf_map__set_value_size(maglev, value_bytes);

	if (ret == 0 && entries < bpf_map__max_entries(maglev))
		ret = bpf_map__set_max_entries(maglev, entries);
	if (ret < 0)
		return mk_error_errno(err, -ret, "cannot give map 'maglev' %u slots", room);
	return 0;
}

bool object_has_coarse_clock(void)
{
	bool quiet = bpflog_quiet(true);
	bool has = libbpf_probe_bpf_helper(BPF_PROG_TYPE_SCHED_CLS, BPF_FUNC_ktime_get_coarse_ns,
					   NULL) == 1;

	bpflog_quiet(quiet);
	return has;
}

/* A program that asks for what Linux 6.16 can do. */
bool object_has_ipv6_csum(void)
{
	enum { IPV6_PSEUDO_HEADER = 1 << 7 | BPF_F_PSEUDO_HDR, ADDRESS = 40, FRAME_BYTES = 64 };
	const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_2, .imm = ADDRESS },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_3 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_4 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K,
		  .dst_reg = BPF_REG_5,
		  .imm = IPV6_PSEUDO_HEADER },
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_l4_csum_replace },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	const char frame[FRAME_BYTES] = { 0 };
	LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = frame, .data_size_in = sizeof(frame));
	cleanup_close int fd = bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, NULL, "GPL", insns,
					     MK_ARRAY_SIZE(insns), NULL);

	return fd >= 0 && bpf_prog_test_run_opts(fd, &run) == 0 && run.retval == 0;
}

static int set_entries(struct bpf_map *map, uint32_t entries, struct mk_error *err)
{
	int ret = entries ? bpf_map__set_max_entries(map, entries) : 0;

	if (ret < 0)
		return mk_error_errno(err, -ret, "cannot give map '%s' %u entries",
				      bpf_map__name(map), entries);
	return 0;
}

static struct bpf_map *find_map(const struct mk_object *object, const char *name)
{
	return bpf_object__find_map_by_name(object->bpf, name);
}

static int size_map(const struct mk_object *object, const char *name, uint32_t entries,
		    struct mk_error *err)
{
	return set_entries(find_map(object, name), entries, err);
}

/* Write the form of its family to @to. Returns its bytes. */
static size_t store_node(void *to, const struct mk_node *node)
{
	if (mk_node_family(node) == AF_INET6) {
		memcpy(to, node, sizeof(*node));
		return sizeof(*node);
	}
	row_narrow(&row_form_node, to, node, sizeof(*node));
	return row_form_node.ipv4_bytes;
}

/* The constants are at the beginning of the object's read-only data. */
int object_put_node(struct bpf_object *object, const struct mk_node *node, struct mk_error *err)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, ".rodata");
	size_t bytes = 0;
	const void *value = map ? bpf_map__initial_value(map, &bytes) : NULL;
	cleanup_free void *changed = value ? malloc(bytes) : NULL;
	int ret;

	if (!changed)
		return mk_error_set(err, ENOMEM, "cannot set the programs' constants");
	memcpy(changed, value, bytes);
	store_node(changed, node);
	ret = bpf_map__set_initial_value(map, changed, bytes);
	return ret < 0 ? mk_error_errno(err, -ret, "cannot set the programs' constants") : 0;
}

/* Set the sizes of maps that follow from the constants. A feature that is off uses no entry. */
static int size_by_constants(const struct mk_object *object, struct mk_error *err)
{
	const struct mk_node *constants = &object->node;
	const struct {
		const char *name;
		uint32_t entries;
	} maps[] = {
		{ "far_peers", constants->checks_far_carriers ? MK_PEERS_MAX : 1 },
		{ "syn_verified", constants->syn_ns ? MK_SYN_CLIENTS_MAX : 1 },
		{ "pods", mk_pod_slots(&constants->pod_mask) },
		{ "pod_policies", mk_pod_slots(&constants->pod_mask) },
	};
	int ret = set_maglev_size(find_map(object, "maglev"), constants->maglev_mask + 1, err);

	for (size_t i = 0; ret == 0 && i < MK_ARRAY_SIZE(maps); i++)
		ret = size_map(object, maps[i].name, maps[i].entries, err);
	return ret;
}

static int set_constants(struct mk_object *object, const struct mk_node *node, struct mk_error *err)
{
	struct mk_node *constants = &object->node;
	int ret;

	*constants = *node;
	if (!constants->maglev_slots)
		constants->maglev_slots = MK_MAGLEV_SLOTS;
	constants->maglev_mask = mk_maglev_room(constants->maglev_slots) - 1;
	constants->has_coarse_clock = object_has_coarse_clock();
	constants->has_ipv6_csum = is_ipv6(object) && object_has_ipv6_csum();
	constants->skb = *object_skb_window();
	constants->has_other_family = node->has_other_family && !is_ipv6(object);
	constants->pod_host_bits = mk_pod_host_bits(&constants->pod_mask);
	ret = object_put_node(object->bpf, constants, err);
	return ret ?: size_by_constants(object, err);
}

static const void *object_bytes(sa_family_t family, size_t *bytes)
{
	return family == AF_INET6 ? object_bytes_ipv6(bytes) : object_bytes_ipv4(bytes);
}

struct bpf_object *object_open(const struct mk_node *node, struct mk_error *err)
{
	LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = "datapath_bpf");
	struct bpf_object *object;
	size_t bytes;
	const void *file = object_bytes(mk_node_family(node), &bytes);

	object = bpf_object__open_mem(file, bytes, &options);
	if (!object)
		(void)mk_error_errno(err, errno, "cannot open the BPF object");
	return object;
}

struct mk_object *mk_object_open(const struct mk_node *node, struct mk_error *err)
{
	cleanup_object struct mk_object *object = calloc(1, sizeof(*object));

	if (!object) {
		(void)mk_error_errno(err, ENOMEM, "cannot open the BPF object");
		return NULL;
	}
	memset(object->reused_fds, 0xff, sizeof(object->reused_fds));
	mk_bpflog_init();
	raise_memlock();
	object->bpf = object_open(node, err);
	if (!object->bpf || set_constants(object, node, err) < 0)
		return NULL;
	return mk_steal_ptr(object);
}

bool mk_object_sees_checksums(const struct mk_object *object)
{
	return object->node.skb.off != 0;
}

struct bpf_object *mk_object_get(const struct mk_object *object)
{
	return object->bpf;
}

int mk_object_size_sessions(struct mk_object *object, const struct mk_session_sizes *sizes,
			    struct mk_error *err)
{
	uint32_t places = mk_session_places(sizes->half_open);
	uint32_t kept = mk_session_kept_places(sizes->established);
	int ret = size_map(object, "sessions", sizes->established, err);

	ret = ret ?: size_map(object, "nat_sessions", sizes->established, err);
	ret = ret ?: size_map(object, "sessions_young", sizes->half_open, err);
	ret = ret ?: size_map(object, "nat_sessions_young", sizes->half_open, err);
	ret = ret ?: size_map(object, "sessions_order", places, err);
	ret = ret ?: size_map(object, "nat_sessions_order", places, err);
	ret = ret ?: size_map(object, "sessions_kept", kept, err);
	return ret ?: size_map(object, "nat_sessions_kept", kept, err);
}

int mk_object_size_affinity(struct mk_object *object, uint32_t entries, struct mk_error *err)
{
	int ret = size_map(object, "affinity", entries, err);

	return ret < 0 ? ret : size_map(object, "affinity_new", entries, err);
}

/* EPERM: before Linux 5.11 maps count as locked memory. */
bool mk_object_lacks_memory(int ret)
{
	return ret == -ENOMEM || ret == -E2BIG || ret == -ENOSPC || ret == -EPERM;
}

/* FNV-1a, by words. It only has to distinguish two builds, not to resist forgery. */
static uint64_t hash_of(const char *data, size_t bytes)
{
	uint64_t hash = 0xcbf29ce484222325ULL, word;

	for (size_t at = 0; at < bytes; at += sizeof(word)) {
		size_t left = bytes - at;

		word = 0;
		memcpy(&word, data + at, left < sizeof(word) ? left : sizeof(word));
		hash = (hash ^ word) * 0x100000001b3ULL;
	}
	return hash ? hash : 1;
}

uint64_t mk_object_hash(const struct mk_object *object)
{
	size_t bytes;
	const char *elf = object_bytes(mk_node_family(&object->node), &bytes);

	return hash_of(elf, bytes);
}

int mk_object_constants_fd(const struct mk_object *object)
{
	return bpf_map__fd(find_map(object, ".rodata"));
}

uint64_t mk_object_constants_hash(struct mk_object *object)
{
	char stored[sizeof(struct mk_node)];

	if (mk_object_constants_fd(object) >= 0)
		return object->constants_hash; /* loaded: the constants are read-only */
	/* if a table is pinned, the number of slots is that table's */
	object->node.pod_slots = bpf_map__max_entries(find_map(object, "pods"));
	object->constants_hash = hash_of(stored, store_node(stored, &object->node));
	return object->constants_hash;
}

void mk_object_reuse_program(struct mk_object *object, size_t index, int fd)
{
	object->reused_fds[index] = fd;
}

static void forget_reused(struct mk_object *object)
{
	for (size_t i = 0; i < mk_object_program_count(object); i++) {
		mk_cleanup_close(&object->reused_fds[i]);
		object->reused_fds[i] = -1;
	}
}

int mk_object_load(struct mk_object *object, struct mk_error *err)
{
	struct maps_to_create list;
	int ret, why;

	list_maps_to_create(object->bpf, &list);
	forget_reused(object);
	(void)mk_object_constants_hash(object); /* before the constants are read-only */
	ret = object_put_node(object->bpf, &object->node, err);
	if (ret < 0)
		return ret;
	ret = bpf_object__load(object->bpf);
	why = mk_object_lacks_memory(ret) ? find_refused_map(&list, err) : 0;
	if (why < 0)
		return why;
	if (ret < 0)
		return mk_error_errno(
			err, -ret,
			"the kernel refuses the BPF programs (its verifier's messages are in the log above)");
	return 0;
}

int mk_object_program(const struct mk_object *object, const char *name, struct mk_error *err)
{
	const struct bpf_program *program = bpf_object__find_program_by_name(object->bpf, name);

	for (size_t i = 0; i < mk_object_program_count(object); i++)
		if (object->reused_fds[i] >= 0 && strcmp(mk_programs[i].name, name) == 0)
			return object->reused_fds[i];
	if (!program)
		return mk_error_set(err, ENOENT, "the BPF object has no program '%s'", name);
	return bpf_program__fd(program);
}

int mk_object_map(const struct mk_object *object, const char *name, struct mk_error *err)
{
	int fd = bpf_object__find_map_fd_by_name(object->bpf, name);

	if (fd < 0)
		return mk_error_set(err, ENOENT, "the BPF object has no map '%s'", name);
	return fd;
}

void mk_object_leave_out(struct mk_object *object, const char *name, bool left_out)
{
	struct bpf_program *program = bpf_object__find_program_by_name(object->bpf, name);

	if (program)
		(void)bpf_program__set_autoload(program, !left_out);
}

static bool is_left_out(const struct mk_object *object, const char *name)
{
	const struct bpf_program *program = bpf_object__find_program_by_name(object->bpf, name);

	return program && !bpf_program__autoload(program);
}

int mk_object_fill_chain(const struct mk_object *object, struct mk_error *err)
{
	int chain = mk_object_map(object, "chain", err);

	if (chain < 0)
		return chain;
	for (__u32 slot = 0; slot < MK_ARRAY_SIZE(chain_programs); slot++) {
		int fd;

		if (!has_slot(object, slot) || is_left_out(object, chain_programs[slot]))
			continue;
		fd = mk_object_program(object, chain_programs[slot], err);
		if (fd < 0)
			return fd;
		if (bpf_map_update_elem(chain, &slot, &fd, BPF_ANY) < 0)
			return mk_error_errno(err, errno, "cannot put program '%s' into the chain",
					      chain_programs[slot]);
	}
	return 0;
}

int mk_object_chain_missing(const struct mk_object *object, struct mk_error *err)
{
	int missing = 0, chain = mk_object_map(object, "chain", err);
	__u32 id;

	if (chain < 0)
		return chain;
	for (__u32 slot = 0; slot < MK_ARRAY_SIZE(chain_programs); slot++)
		if (has_slot(object, slot) && bpf_map_lookup_elem(chain, &slot, &id) < 0)
			missing++;
	return missing;
}

void mk_object_free(struct mk_object *object)
{
	if (!object)
		return;
	forget_reused(object);
	bpf_object__close(object->bpf);
	free(object);
}
