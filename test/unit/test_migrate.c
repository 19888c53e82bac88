// SPDX-License-Identifier: Apache-2.0
/* Tables of other versions, and an agent that is killed while it takes them over. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "datapath/datapath_internal.h"
#include "datapath/maps/pin.h"
#include "datapath/monitor/drops.h"
#include "datapath/pods/pod_table.h"
#include "unit/datapath_fixture.h"
#include "rows.h"

/* Pin a new table @name; the caller closes it. */
static int pin_table(const char *name, enum bpf_map_type type, __u32 key_bytes, __u32 value_bytes,
		     __u32 entries)
{
	char path[160];
	int fd = row_create_ipv4(type, name, key_bytes, value_bytes, entries, NULL);

	fx_ok(mk_pin_prepare(fx.bpf_dir, &fx.err));
	snprintf(path, sizeof(path), "%s/maps/%s", fx.bpf_dir, name);
	ck_assert_int_eq(bpf_obj_pin(fd, path), 0);
	return fd;
}

static struct mk_abi pinned_abi(void)
{
	struct mk_abi abi = { 0 };
	struct mk_table table;
	__u32 key = 0;

	fx_ok(mk_table_open(&table, fx.bpf_dir, "abi", sizeof(key), sizeof(abi), &fx.err));
	fx_ok(mk_table_get(&table, &key, &abi, &fx.err));
	mk_table_close(&table);
	return abi;
}

/* ---- layouts --------------------------------------------------------------------------------- */

/* Shorter values, here of sessions without flags, are moved, and new members are zero. */
START_TEST(test_shorter_values_move)
{
	enum { BEFORE_BYTES = offsetof(struct mk_session, flags) };
	const struct mk_tuple key = { .sport = htons(7), .proto = IPPROTO_UDP };
	const struct mk_session session = { .set_id = 5, .service_id = 6, .flags = 0xff };
	__u64 packets_of_cpus[256] = { 3, 4 };
	struct mk_drop_totals totals;
	struct mk_session found;
	struct mk_table table;
	const __u32 slot = 2;
	int fd = pin_table("sessions", BPF_MAP_TYPE_HASH, sizeof(key), BEFORE_BYTES, 100);

	ck_assert_int_eq(row_update(fd, &key, &session, BPF_ANY), 0);
	close(fd);
	fd = pin_table("drops", BPF_MAP_TYPE_PERCPU_ARRAY, 4, sizeof(__u64), 10);
	ck_assert_int_eq(row_update(fd, &slot, packets_of_cpus, BPF_ANY), 0);
	close(fd);
	mk_datapath_free(fx_attached());
	fx_ok(mk_table_open(&table, fx.bpf_dir, "sessions", sizeof(key), sizeof(found), &fx.err));
	fx_ok(mk_table_get(&table, &key, &found, &fx.err));
	ck_assert_uint_eq(found.set_id, 5);
	ck_assert_uint_eq(found.service_id, 6);
	ck_assert_uint_eq(found.flags, 0);
	mk_table_close(&table);
	fx_ok(mk_drops_read(fx.bpf_dir, &totals, &fx.err));
	ck_assert_uint_eq(totals.counter[0][2].packets, libbpf_num_possible_cpus() > 1 ? 7 : 3);
	ck_assert_uint_eq(totals.counter[0][2].bytes, 0);
	ck_assert_uint_eq(pinned_abi().version, MK_ABI_VERSION);
	ck_assert_uint_eq(fx_pins("maps", "_new_") + fx_pins("maps", "_before_"), 0);
}
END_TEST

/* New sessions move to a table of another size, and each gets a slot in the order of eviction. */
START_TEST(test_new_sessions_get_places)
{
	const struct mk_tuple key = { .sport = htons(7), .dport = htons(53), .proto = IPPROTO_UDP };
	const struct mk_tuple back = { .sport = htons(53),
				       .dport = htons(7),
				       .proto = IPPROTO_UDP };
	const struct mk_session forward = { .created_ns = 11, .flags = MK_SESSION_FORWARD },
				reverse = { .created_ns = 11 };
	struct mk_session_place place;
	struct mk_session found;
	struct mk_table table;
	int fd = pin_table("sessions_young", BPF_MAP_TYPE_HASH, sizeof(key), sizeof(found), 1000);

	ck_assert_int_eq(row_update(fd, &key, &forward, BPF_ANY), 0);
	ck_assert_int_eq(row_update(fd, &back, &reverse, BPF_ANY), 0);
	close(fd);
	mk_datapath_free(fx_attached());
	fx_ok(mk_table_open(&table, fx.bpf_dir, "sessions_young", sizeof(key), sizeof(found),
			    &fx.err));
	ck_assert_uint_gt(table.max_entries, 1000);
	fx_ok(mk_table_get(&table, &key, &found, &fx.err));
	fx_ok(mk_table_get(&table, &back, &found, &fx.err));
	mk_table_close(&table);
	fx_ok(mk_table_open(&table, fx.bpf_dir, "sessions_order", 0, sizeof(place), &fx.err));
	ck_assert_int_eq(row_take(table.fd, NULL, &place), 0);
	ck_assert_mem_eq(&place.key, &key, sizeof(key));
	ck_assert_uint_eq(place.created_ns, 11);
	ck_assert_int_lt(row_take(table.fd, NULL, &place), 0);
	mk_table_close(&table);
}
END_TEST

/* ---- pods ------------------------------------------------------------------------------------ */

/* The pod @address has, by its @ifindex; 0: none. */
static __u32 ifindex_of(const char *address)
{
	const struct mk_addr addr = addr_of(address);
	struct mk_table table;
	struct mk_pod pod;
	int ret;

	fx_ok(mk_pod_table_open(&table, fx.bpf_dir, &fx.err));
	ret = mk_pod_table_get(&table, &addr, &pod, &fx.err);
	mk_table_close(&table);
	return ret < 0 ? 0 : pod.ifindex;
}

static __u32 slots_of_pods(void)
{
	struct mk_table table;
	__u32 slots;

	fx_ok(mk_pod_table_open(&table, fx.bpf_dir, &fx.err));
	slots = table.max_entries;
	mk_table_close(&table);
	return slots;
}

static void set_pod_prefix(unsigned bits)
{
	fx.constants.pod_mask = row_ipv4(~0U << (32 - bits));
}

/* More addresses need more slots. With fewer addresses the slots stay: pods of the
 * former CIDR live on. */
START_TEST(test_pods_move_to_more_slots)
{
	set_pod_prefix(26);
	mk_datapath_free(fx_attached());
	ck_assert_uint_eq(slots_of_pods(), 64);
	fx_put_pod("10.244.1.2", 900000);
	fx_put_pod("10.244.1.253", 900001);
	set_pod_prefix(24);
	mk_datapath_free(fx_attached());
	ck_assert_uint_eq(slots_of_pods(), 256);
	fx_put_pod("10.244.1.66", 900002);
	set_pod_prefix(26);
	mk_datapath_free(fx_attached());
	ck_assert_uint_eq(slots_of_pods(), 256);
	ck_assert_uint_eq(ifindex_of("10.244.1.2"), 900000);
	ck_assert_uint_eq(ifindex_of("10.244.1.253"), 900001);
	ck_assert_uint_eq(ifindex_of("10.244.1.66"), 900002);
}
END_TEST

static int open_policies(struct mk_table *table)
{
	return mk_table_open(table, fx.bpf_dir, "pod_policies", sizeof(__u32),
			     sizeof(struct mk_pod_policy), &fx.err);
}

/* The policies of a pod move with it: its slot follows from the address. */
START_TEST(test_policies_move_to_more_slots)
{
	struct mk_pod_policy policy = { .set = { 7, 8 }, .ifindex = 9, .generation = 3 };
	struct mk_table table;
	__u32 slot = 253 % 64;

	set_pod_prefix(26);
	mk_datapath_free(fx_attached());
	fx_ok(open_policies(&table));
	policy.addr = addr_of("10.244.1.253");
	fx_ok(mk_table_put(&table, &slot, &policy, &fx.err));
	mk_table_close(&table);
	set_pod_prefix(24);
	mk_datapath_free(fx_attached());
	fx_ok(open_policies(&table));
	ck_assert_uint_eq(table.max_entries, 256);
	slot = 253;
	fx_ok(mk_table_get(&table, &slot, &policy, &fx.err));
	ck_assert_uint_eq(policy.set[MK_POLICY_EGRESS], 8);
	ck_assert_uint_eq(policy.generation, 3);
	mk_table_close(&table);
}
END_TEST

/* Nothing is changed, and the message says what to run. */
START_TEST(test_later_version_is_refused)
{
	static const char *const said[] = { "version 99", "9.9.9", "cleanup" };
	const struct mk_abi later = { .version = 99, .made_by = "9.9.9" };
	uint32_t chain, sessions, program;
	struct mk_datapath *datapath;
	struct mk_table table;
	__u32 key = 0;

	fx_ok(mk_abi_check(fx.bpf_dir, &fx.err));
	mk_datapath_free(fx_attached());
	fx_ok(mk_abi_check(fx.bpf_dir, &fx.err));
	fx_ok(mk_table_open(&table, fx.bpf_dir, "abi", sizeof(key), sizeof(later), &fx.err));
	fx_ok(mk_table_put(&table, &key, &later, &fx.err));
	mk_table_close(&table);
	chain = fx_pinned_id("maps", "chain");
	sessions = fx_pinned_id("maps", "sessions");
	program = fx_program_at(fx.uplink_ifindex, MK_INGRESS);
	datapath = mk_datapath_open(fx.bpf_dir, fx.state_dir, &fx.constants, &fx.err);
	ck_assert_int_eq(mk_datapath_load(datapath, &fx.err), -EPROTO);
	mk_datapath_free(datapath);
	ck_assert_int_eq(mk_abi_check(fx.bpf_dir, &fx.err), -EPROTO);
	for (size_t i = 0; i < MK_ARRAY_SIZE(said); i++)
		ck_assert_msg(strstr(fx.err.text, said[i]) != NULL, "'%s' in: %s", said[i],
			      fx.err.text);
	ck_assert_uint_eq(fx_pinned_id("maps", "chain"), chain);
	ck_assert_uint_eq(fx_pinned_id("maps", "sessions"), sessions);
	ck_assert_uint_eq(fx_program_at(fx.uplink_ifindex, MK_INGRESS), program);
}
END_TEST

/* The length of each map's values by version. If a row differs, raise MK_ABI_VERSION and write the
 * new length here. */
static const struct {
	const char *map;
	__u32 key_bytes, value_bytes;
} layout[] = {
	{ "abi", 4, 176 },
	{ "affinity", 8, 16 },
	{ "affinity_backends", 16, 4 },
	{ "affinity_new", 8, 16 },
	{ "chain", 4, 4 },
	{ "cluster_carriers", 16, 4 },
	{ "cluster_counters", 4, 32 },
	{ "cluster_nodes", 8, 4 },
	{ "clusters", 4, 24 },
	{ "cni_calls", 4, 144 },
	{ "drop_events", 0, 0 },
	{ "drops", 4, 16 },
	{ "exports", 8, 4 },
	{ "error_budget", 4, 8 },
	{ "flow_events", 0, 0 },
	{ "far_peers", 16, 8 },
	{ "fragments", 12, 32 },
	{ "held", 4, 9256 },
	{ "host_ports", 8, 12 },
	{ "link_nodes", 8, 20 },
	{ "links", 4, 292 },
	{ "maglev", 8, 2048 },
	{ "nat_sessions", 16, 64 },
	{ "nat_sessions_kept", 0, 24 },
	{ "nat_sessions_young", 16, 64 },
	{ "nat_sessions_order", 0, 24 },
	{ "node_routes", 4, 8 },
	{ "other_family", 4, 4 },
	{ "peers", 4, 8 },
	{ "pod_policies", 4, 32 },
	{ "pods", 4, 16 },
	{ "pods_gone", 4, 16 },
	{ "policy_blocks", 16, 8 },
	{ "policy_counts", 16, 16 },
	{ "policy_events", 4, 8 },
	{ "policy_expected", 320, 16 },
	{ "policy_identities", 4, 16 },
	{ "policy_namespaces", 64, 4 },
	{ "policy_peers", 16, 8 },
	{ "policy_ports", 16, 24 },
	{ "policy_state", 4, 8 },
	{ "routes", 8, 8 },
	{ "runtime", 4, 16 },
	{ "scratch", 4, 680 },
	{ "service_backends", 12, 8 },
	{ "service_counters", 4, 40 },
	{ "service_counters_ended", 4, 40 },
	{ "service_drops", 8, 8 },
	{ "frontends", 8, 36 },
	{ "sfc_chains", 4, 48 },
	{ "sfc_counters", 4, 64 },
	{ "sfc_end_flows", 4, 4 },
	{ "sfc_functions", 4, 2056 },
	{ "sfc_paths", 4, 40 },
	{ "sfc_ports", 4, 8 },
	{ "sfc_replicas", 4, 32 },
	{ "sfc_tags", 8, 4 },
	{ "sessions", 16, 64 },
	{ "sessions_kept", 0, 24 },
	{ "sessions_young", 16, 64 },
	{ "sessions_order", 0, 24 },
	{ "half_open_quota", 4, 8 },
	{ "source_ranges", 12, 4 },
	{ "syn_budget", 4, 8 },
	{ "syn_secret", 4, 24 },
	{ "syn_verified", 4, 16 },
	{ "udp_ports", 4, 8192 },
	{ "uplinks", 4, 16 },
	{ "monitor_counts", 4, 24 },
	{ "monitor_flows", 4, 8 },
	{ "monitor_settings", 4, 32 },
	{ "way", 4, 16 },
};

START_TEST(test_layouts_of_this_version)
{
	cleanup_object struct mk_object *object = mk_object_open(&fx.constants, &fx.err);

	ck_assert_ptr_nonnull(object);
	ck_assert_uint_eq(MK_ABI_VERSION, 1);
	ck_assert_uint_eq(fx_object_maps(), MK_ARRAY_SIZE(layout));
	for (size_t i = 0; i < MK_ARRAY_SIZE(layout); i++) {
		const struct bpf_map *map =
			bpf_object__find_map_by_name(mk_object_get(object), layout[i].map);

		ck_assert_msg(map != NULL, "%s is not there", layout[i].map);
		ck_assert_msg(bpf_map__key_size(map) == layout[i].key_bytes &&
				      bpf_map__value_size(map) == layout[i].value_bytes,
			      "%s: key %u, value %u bytes", layout[i].map, bpf_map__key_size(map),
			      bpf_map__value_size(map));
	}
}
END_TEST

/* ---- killed at any instant ------------------------------------------------------------------- */

#define HOOKS 6
#define KILLS 1000 /* more than the number of such points in an attachment */
#define STEP  6 /* every STEP-th point is tried */

static int open_program_at(int hook)
{
	const struct {
		int ifindex;
		enum mk_direction direction;
	} hooks[HOOKS] = {
		{ (int)fx.links.set.host_peer_ifindex, MK_INGRESS },
		{ (int)fx.links.set.overlay_ifindex, MK_INGRESS },
		{ fx.uplink_ifindex, MK_INGRESS },
		{ fx.uplink_ifindex, MK_EGRESS },
		{ MK_LOOPBACK_IFINDEX, MK_EGRESS },
		{ fx.pod_ifindex, MK_INGRESS },
	};
	uint32_t id = fx_program_at(hooks[hook].ifindex, hooks[hook].direction);

	ck_assert_msg(id != 0, "hook %d has no program", hook);
	return bpf_prog_get_fd_by_id(id);
}

/* The map @name that the program at @hook uses; -1: it uses none. */
static int open_map_of(int hook, const char *name)
{
	cleanup_close int program = open_program_at(hook);
	__u32 ids[64];
	struct bpf_prog_info info = { .nr_map_ids = 64, .map_ids = (uintptr_t)ids };
	__u32 size = sizeof(info);

	ck_assert_int_eq(bpf_obj_get_info_by_fd(program, &info, &size), 0);
	for (__u32 i = 0; i < info.nr_map_ids; i++) {
		cleanup_close int fd = bpf_map_get_fd_by_id(ids[i]);
		struct bpf_map_info map = { 0 };

		size = sizeof(map);
		ck_assert_int_eq(bpf_obj_get_info_by_fd(fd, &map, &size), 0);
		if (strcmp(map.name, name) == 0)
			return mk_steal_fd(&fd);
	}
	return -1;
}

static struct mk_tuple flow(int killed, int hook)
{
	return (struct mk_tuple){ .sport = htons((uint16_t)(killed + 1)),
				  .dport = htons((uint16_t)(hook + 1)),
				  .proto = IPPROTO_TCP };
}

static void check_chain(int killed, int hook)
{
	cleanup_close int chain = open_map_of(hook, "chain");

	for (__u32 slot = 0; chain >= 0 && slot < MK_PROG_COUNT; slot++) {
		__u32 id;

		if (slot == MK_PROG_NDP) /* only IPv6 has it */
			continue;
		ck_assert_msg(row_lookup(chain, &slot, &id) == 0,
			      "killed at %d: slot %u of hook %d is empty", killed, slot, hook);
	}
}

/* While no agent runs, each hook's program opens a session and finds the targets of
 * its tail calls. */
static void live_on(int killed)
{
	for (int hook = 0; hook < HOOKS; hook++) {
		const struct mk_session session = { .set_id = 1 };
		const struct mk_tuple key = flow(killed, hook);
		cleanup_close int sessions = open_map_of(hook, "sessions");

		if (sessions >= 0)
			ck_assert_int_eq(row_update(sessions, &key, &session, BPF_ANY), 0);
		check_chain(killed, hook);
	}
}

/* ... and those sessions exist. */
static void check_flows(int killed)
{
	struct mk_table table;

	fx_ok(mk_table_open(&table, fx.bpf_dir, "sessions", sizeof(struct mk_tuple),
			    sizeof(struct mk_session), &fx.err));
	for (int hook = 0; hook < HOOKS; hook++) {
		const struct mk_tuple key = flow(killed, hook);
		cleanup_close int uses = open_map_of(hook, "sessions");
		struct mk_session session;

		ck_assert_msg(uses < 0 || mk_table_get(&table, &key, &session, NULL) == 0,
			      "killed at %d: the session of hook %d is lost", killed, hook);
	}
	mk_table_close(&table);
}

/* System calls with an effect outside the agent, or that read such an effect. */
static bool is_a_point(uint64_t number)
{
	static const int points[] = {
#ifdef SYS_rename
		SYS_rename,
#endif
#ifdef SYS_link
		SYS_link,
#endif
		SYS_renameat, SYS_linkat, SYS_unlinkat, SYS_sendto, SYS_sendmsg, SYS_membarrier,
	};

	for (size_t i = 0; i < MK_ARRAY_SIZE(points); i++)
		if (number == (uint64_t)points[i])
			return true;
	return false;
}

/* Run @pid up to its point number @last. False: it has ended before. */
static bool run_until(pid_t pid, int last)
{
	struct __ptrace_syscall_info info;
	int status, seen = 0;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(ptrace(PTRACE_SETOPTIONS, pid, NULL,
				(void *)(PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD)),
			 0);
	for (;;) {
		ck_assert_int_eq(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		if (WIFEXITED(status)) {
			ck_assert_int_eq(WEXITSTATUS(status), 0);
			return false;
		}
		if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) > 0 &&
		    info.op == PTRACE_SYSCALL_INFO_ENTRY && is_a_point(info.entry.nr) &&
		    seen++ == last)
			return true;
	}
}

/* An agent whose tables of sessions have another size, killed at its point number @point. False: it
 * was done by then. */
static bool agent_is_killed(int point)
{
	struct mk_datapath *datapath =
		mk_datapath_open(fx.bpf_dir, fx.state_dir, &fx.constants, &fx.err);
	struct bpf_map *sessions =
		bpf_object__find_map_by_name(mk_object_get(datapath->object), "sessions");
	bool killed;
	pid_t pid;

	ck_assert_int_eq(bpf_map__set_max_entries(sessions, 100000 + (__u32)point), 0);
	fx_ok(mk_datapath_load(datapath, &fx.err));
	ck_assert(mk_datapath_moved(datapath));
	pid = fork();
	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		_exit(mk_datapath_attach(datapath, &fx.links, &fx.err) < 0);
	}
	killed = run_until(pid, point);
	if (killed) {
		kill(pid, SIGKILL);
		ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	}
	mk_datapath_free(datapath);
	return killed;
}

/* Each agent finds the previous one's unfinished work, and is killed a little later. In the end all
 * sessions exist that any program opened in between. */
START_TEST(test_killed_anywhere)
{
	int point = 0, kills;

	mk_datapath_free(fx_attached());
	fx_put_pod("10.244.1.2", fx.pod_ifindex);
	mk_datapath_free(fx_attached());
	for (; point < KILLS && agent_is_killed(point); point += STEP)
		live_on(point);
	kills = point / STEP;
	ck_assert_msg(kills > 5 && point < KILLS, "%d kills", kills);
	mk_datapath_free(fx_attached());
	for (point = 0; point < kills * STEP; point += STEP)
		check_flows(point);
	ck_assert_uint_eq(fx_pins("maps", "_new_") + fx_pins("maps", "_before_"), 0);
	ck_assert_uint_eq(fx_pins("maps", ""), fx_object_maps());
}
END_TEST

UNIT_SUITE("migrate")
{
	TCase *tc = unit_case(suite, "tables", fx_setup, fx_teardown);

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, test_shorter_values_move);
	tcase_add_test(tc, test_new_sessions_get_places);
	tcase_add_test(tc, test_pods_move_to_more_slots);
	tcase_add_test(tc, test_policies_move_to_more_slots);
	tcase_add_test(tc, test_later_version_is_refused);
	tcase_add_test(tc, test_layouts_of_this_version);
	tcase_add_test(tc, test_killed_anywhere);
}
