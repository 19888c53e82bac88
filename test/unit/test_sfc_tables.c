// SPDX-License-Identifier: Apache-2.0
/* The tables of service function chains: what is written, in which order a kill may meet it, what a
 * restart finds, repairs, and paths that no flow uses. With real maps of each family. */
#include <bpf/libbpf.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "datapath/sfc/tables.h"
#include "unit/sfc_fixture.h"
#include "unit/unit.h"
#include "rows.h"

#define S 1000000000ULL

static struct mk_sfc_sync *made;
static struct mk_sfc *sfc;
static struct mk_error err;
static struct mk_sfc_counts counts;
static struct mk_sfc_chain_object chains[2];
static struct mk_sfc_pod_object pods[4];
static size_t chain_count, pod_count;
static const uint8_t hash_key[MK_SIPHASH_KEY_BYTES];
static uint64_t now_ns;

/* ---- start and stop -------------------------------------------------------------------------- */

static void start(void)
{
	made = mk_sfc_sync_new(&sfc_tables, &err);
	ck_assert_msg(made != NULL, "%s", mk_error_text(&err));
	sfc = mk_sfc_new(hash_key);
	ck_assert_ptr_nonnull(sfc);
	mk_sfc_sync_recall(made, sfc);
}

static void stop(void)
{
	mk_sfc_sync_free(made);
	mk_sfc_free(sfc);
}

static void setup_family(sa_family_t family)
{
	sfc_maps_make(family);
	sfc_pins_mount();
	now_ns = 1000 * S;
	chain_count = pod_count = 0;
	start();
}

static void setup(void)
{
	setup_family(AF_INET);
}

static void setup_ipv6(void)
{
	setup_family(AF_INET6);
}

static void teardown(void)
{
	stop();
	sfc_maps_close();
}

/* ---- objects --------------------------------------------------------------------------------- */

static void add_chain(const char *uid, const char *function)
{
	chains[chain_count] = (struct mk_sfc_chain_object){
		.uid = uid, .namespace_ = "ns", .name = uid, .function_count = 1
	};
	chains[chain_count].functions[0].local_weight = 1;
	chains[chain_count++].functions[0].name = function;
}

static void add_pod(const char *uid, uint32_t ifindex)
{
	pods[pod_count++] = (struct mk_sfc_pod_object){
		.uid = uid,
		.namespace_ = "ns",
		.name = uid,
		.function = "firewall",
		.ready = true,
		.is_here = true,
		.is_bound = true,
		.weight = 1,
		.ips = { ip_of("10.1.0.9"), ip_of("fd00::9") },
		.ifindex = { ifindex, ifindex + 1 },
		.mode = MK_PORT_INLINE,
	};
}

static void add_remote(const char *uid)
{
	struct mk_sfc_pod_object *pod = &pods[pod_count];

	add_pod(uid, 0);
	pod->is_here = false;
	pod->asks_for_ports = true;
	pod->ifindex[MK_SFC_OUTSIDE] = 0;
	pod->vtep_mac = (struct mk_mac){ { 2, 0x4d, 10, 18, 0, 2 } };
}

static void compile(void)
{
	ck_ok(mk_sfc_compile(sfc, chains, chain_count, pods, pod_count, now_ns, &err));
}

/* Returns the number of writes. */
static unsigned apply(void)
{
	compile();
	counts = (struct mk_sfc_counts){ 0 };
	ck_ok(mk_sfc_sync_apply(made, mk_sfc_rows(sfc), &counts, &err));
	return counts.put + counts.deleted;
}

static void begin(void)
{
	add_chain("a", "firewall");
	add_pod("p", 100);
	add_pod("q", 102);
	apply();
}

/* ---- entries --------------------------------------------------------------------------------- */

static struct mk_sfc_replica replica_at(uint32_t number)
{
	struct mk_sfc_replica row;

	ck_ok(mk_table_get(&sfc_tables.replicas, &number, &row, &err));
	return row;
}

static bool has(const struct mk_table *table, uint32_t key)
{
	static char value[1 << 16];

	return mk_table_get(table, &key, value, NULL) == 0;
}

/* Programs note that the replica's node has sent a packet back. */
static void set_back(uint32_t number, uint32_t back_ms)
{
	struct mk_sfc_replica row = replica_at(number);

	row.back_ms = back_ms;
	ck_ok(mk_table_put(&sfc_tables.replicas, &number, &row, &err));
}

/* Return the number that a tag leads to; 0: none. */
static uint32_t number_at(uint64_t tag)
{
	uint32_t number = 0;

	return mk_table_get(&sfc_tables.tags, &tag, &number, NULL) == 0 ? number : 0;
}

static uint64_t tag_of(uint32_t number)
{
	return replica_at(number).uid_hash & MK_SFC_TAG_MASK;
}

static void put_path(uint32_t id, uint16_t chain, uint16_t replica)
{
	struct mk_sfc_path path = { .chain = { chain }, .replica = { replica } };

	ck_ok(mk_table_put(&sfc_tables.paths, &id, &path, &err));
}

/* ---- tests ----------------------------------------------------------------------------------- */

START_TEST(test_rows)
{
	struct mk_sfc_port port;
	struct mk_sfc_chain chain;
	struct mk_sfc_replica replica;
	struct mk_addr addr;
	uint32_t key = 101;

	ck_assert(mk_sfc_sync_is_empty(made));
	begin();
	ck_assert(!mk_sfc_sync_is_empty(made));
	ck_ok(mk_table_get(&sfc_tables.ports, &key, &port, &err));
	ck_assert_uint_eq(port.side, MK_SFC_OUTSIDE);
	ck_assert_uint_eq(port.mode, MK_PORT_INLINE);
	replica = replica_at(port.replica);
	ck_assert_uint_eq(replica.ifindex[MK_SFC_OUTSIDE], 101);
	addr = addr_of(mk_table_family(&sfc_tables.replicas) == AF_INET ? "10.1.0.9" : "fd00::9");
	ck_assert(mk_addr_eq(&replica.addr, &addr));
	key = chains[0].number;
	ck_ok(mk_table_get(&sfc_tables.chains, &key, &chain, &err));
	ck_assert(has(&sfc_tables.functions, chain.place[0].function));
	ck_assert(has(&sfc_tables.counters, port.replica));
}
END_TEST

/* A pod without an address of this family serves it all the same. */
START_TEST(test_other_family)
{
	static const struct mk_addr none;
	struct mk_sfc_replica replica;

	add_chain("a", "firewall");
	add_pod("p", 100);
	memset(pods[0].ips, 0, sizeof(pods[0].ips));
	apply();
	replica = replica_at(pods[0].number);
	ck_assert(mk_addr_eq(&replica.addr, &none));
	ck_assert_uint_eq(replica.state, MK_SFC_USABLE);
}
END_TEST

/* A second later, no path names the number of what is gone. */
static void release_one(void)
{
	const struct mk_sfc_named *named;

	now_ns += S;
	ck_ok(mk_sfc_sync_pass_ended(made, now_ns, &err));
	named = mk_sfc_sync_named(made);
	ck_assert_uint_eq(mk_sfc_release(sfc, &named, 1, now_ns), 1);
}

START_TEST(test_remote)
{
	static const uint8_t mac[6] = { 2, 0x4d, 10, 18, 0, 2 };
	uint32_t near, far;
	uint64_t tag;

	begin();
	add_remote("r");
	apply();
	near = pods[0].number;
	far = pods[2].number;
	ck_assert_mem_eq(replica_at(far).vtep_mac, mac, sizeof(mac));
	ck_assert_uint_eq(replica_at(far).ifindex[MK_SFC_INSIDE], 0);
	ck_assert_uint_eq(number_at(tag_of(near)), near);
	tag = tag_of(far);
	ck_assert_uint_eq(number_at(tag), far);
	pod_count = 2;
	apply();
	ck_assert_uint_eq(replica_at(far).state, MK_SFC_LOST);
	ck_assert_uint_eq(number_at(tag), far); /* packets of it may be on their way */
	release_one();
	apply();
	ck_assert_uint_eq(number_at(tag), 0);
}
END_TEST

/* The audit accepts what programs write, and keeps it while the replica is the same one. */
START_TEST(test_back)
{
	begin();
	add_remote("r");
	apply();
	set_back(pods[2].number, 4711);
	ck_assert_int_eq(mk_sfc_sync_reconcile(made, 64, &err), 0);
	ck_assert_uint_eq(apply(), 0);
	pods[2].ready = false;
	apply();
	ck_assert_uint_eq(replica_at(pods[2].number).state, MK_SFC_LOST);
	ck_assert_uint_eq(replica_at(pods[2].number).back_ms, 4711);
	stop();
	start();
	ck_assert_uint_eq(apply(), 0);
}
END_TEST

/* A number's new owner has sent nothing back. */
START_TEST(test_back_of_new_owner)
{
	uint32_t number;

	begin();
	add_remote("r");
	apply();
	number = pods[2].number;
	set_back(number, 4711);
	pod_count = 2;
	compile(); /* the tables miss this */
	release_one();
	add_remote("s");
	apply();
	ck_assert_uint_eq(pods[2].number, number);
	ck_assert_uint_eq(replica_at(number).back_ms, 0);
}
END_TEST

static void nothing(void)
{
}

static void not_ready(void)
{
	pods[0].ready = false;
}

static void deleted(void)
{
	pods[0].deleting = true;
}

static void ports_gone(void)
{
	pods[0].ifindex[0] = pods[0].ifindex[1] = 0;
}

static void one_more(void)
{
	add_pod("r", 104);
}

static void one_remote(void)
{
	add_remote("r");
}

static void other_mode(void)
{
	pods[0].mode = MK_PORT_BRIDGED;
}

static const struct {
	const char *name;
	void (*change)(void);
	unsigned writes;
} changes[] = {
	{ "nothing", nothing, 0 },
	{ "not ready: replica and slots", not_ready, 2 },
	{ "deleted: slots", deleted, 1 },
	{ "another mode: replica, two ports", other_mode, 3 },
	{ "ports gone: replica, slots, two ports", ports_gone, 4 },
	{ "one more: replica, tag, counter, slots, two ports", one_more, 6 },
	{ "one more on another node: replica, tag, counter, slots", one_remote, 4 },
};

START_TEST(test_writes)
{
	unsigned writes;

	begin();
	changes[_i].change();
	writes = apply();
	ck_assert_msg(writes == changes[_i].writes, "%s: %u writes", changes[_i].name, writes);
}
END_TEST

START_TEST(test_restart)
{
	begin();
	not_ready();
	apply();
	stop();
	start();
	ck_assert_uint_eq(apply(), 0);
}
END_TEST

/* A number is free when no path names it. Its counter goes with it. */
START_TEST(test_freed)
{
	const struct mk_sfc_named *named[1];
	uint32_t chain, replica;

	begin();
	chain = chains[0].number;
	replica = pods[0].number;
	put_path(7, (uint16_t)chain, (uint16_t)replica);
	chain_count = pod_count = 0;
	apply();
	now_ns += S;
	named[0] = mk_sfc_sync_named(made);
	ck_ok(mk_sfc_sync_pass_ended(made, now_ns, &err));
	ck_assert_uint_eq(mk_sfc_release(sfc, named, 1, now_ns), 1); /* the other replica */
	apply();
	ck_assert_uint_ne(replica_at(replica).uid_hash, 0);
	ck_assert_uint_eq(replica_at(replica).state, MK_SFC_LOST);
	ck_assert(has(&sfc_tables.counters, replica));
	row_delete(sfc_tables.paths.fd, &(uint32_t){ 7 });
	ck_ok(mk_sfc_sync_pass_ended(made, now_ns, &err));
	ck_assert_uint_eq(mk_sfc_release(sfc, named, 1, now_ns), 2);
	apply();
	now_ns += S;
	ck_assert_uint_eq(mk_sfc_release(sfc, named, 1, now_ns), 1); /* the function */
	apply();
	ck_assert_uint_eq(replica_at(replica).uid_hash, 0);
	ck_assert(!has(&sfc_tables.counters, replica));
	ck_assert(!has(&sfc_tables.functions, 1));
}
END_TEST

/* ---- repair ---------------------------------------------------------------------------------- */

static void lose_chain(void)
{
	static const struct mk_sfc_chain none;

	ck_ok(mk_table_put(&sfc_tables.chains, &(uint32_t){ chains[0].number }, &none, &err));
}

static void lose_function(void)
{
	row_delete(sfc_tables.functions.fd, &(uint32_t){ 1 });
}

static void change_replica(void)
{
	static const struct mk_sfc_replica none;

	ck_ok(mk_table_put(&sfc_tables.replicas, &(uint32_t){ pods[1].number }, &none, &err));
}

static void lose_port(void)
{
	row_delete(sfc_tables.ports.fd, &(uint32_t){ 103 });
}

static void strange_port(void)
{
	ck_ok(mk_table_put(&sfc_tables.ports, &(uint32_t){ 99 },
			   &(struct mk_sfc_port){ .replica = 1 }, &err));
}

static void lose_counter(void)
{
	row_delete(sfc_tables.counters.fd, &(uint32_t){ pods[1].number });
}

static void lose_tag(void)
{
	row_delete(sfc_tables.tags.fd, &(uint64_t){ tag_of(pods[1].number) });
}

static void strange_tag(void)
{
	ck_ok(mk_table_put(&sfc_tables.tags, &(uint64_t){ 1ULL << 39 | 7 }, &(uint32_t){ 1 },
			   &err));
}

static void (*const damages[])(void) = {
	lose_chain,   lose_function, change_replica, lose_port,
	strange_port, lose_tag,	     strange_tag,    lose_counter
};

START_TEST(test_repair)
{
	begin();
	ck_assert_int_eq(mk_sfc_sync_reconcile(made, 64, &err), 0);
	damages[_i]();
	capture_log();
	ck_assert_int_eq(mk_sfc_sync_reconcile(made, 64, &err), 1);
	captured_log();
	ck_assert_uint_eq(apply(), 1);
	ck_assert_int_eq(mk_sfc_sync_reconcile(made, 64, &err), 0);
	stop();
	start();
	ck_assert_uint_eq(apply(), 0);
}
END_TEST

/* A small budget reaches every entry in the end. */
START_TEST(test_repair_in_turns)
{
	int looks = 0;

	begin();
	lose_function();
	capture_log();
	while (mk_sfc_sync_reconcile(made, 1, &err) == 0 && looks < 20)
		looks++;
	captured_log();
	ck_assert_int_lt(looks, 20);
	ck_assert_uint_eq(apply(), 1);
}
END_TEST

/* ---- paths ----------------------------------------------------------------------------------- */

static size_t count_keys(const struct mk_table *table)
{
	cleanup_free void *keys = NULL;
	size_t count;

	ck_ok(mk_table_keys(table, &keys, &count, &err));
	return count;
}

/* Returns the number of turns that the end of a pass takes. */
static int turns_of_end(void)
{
	int turns = 0, ret;

	do {
		ret = mk_sfc_sync_pass_ended(made, now_ns, &err);
		ck_ok(ret);
		turns++;
	} while (ret == 0);
	return turns;
}

/* Returns the number of paths that are removed. */
static int pass_ends(uint64_t seconds)
{
	size_t before = count_keys(&sfc_tables.paths);

	now_ns += seconds * S;
	turns_of_end();
	return (int)(before - count_keys(&sfc_tables.paths));
}

START_TEST(test_unnamed_path)
{
	begin();
	put_path(7, chains[0].number, pods[0].number);
	put_path(8, chains[0].number, pods[1].number);
	for (int i = 0; i < 12; i++) {
		mk_sfc_sync_see_path(made, 8);
		ck_assert_int_eq(pass_ends(5), 0);
	}
	mk_sfc_sync_see_path(made, 8);
	ck_assert(mk_sfc_sync_named(made)->replicas[pods[0].number]);
	ck_assert_int_eq(pass_ends(5), 1);
	ck_assert(!has(&sfc_tables.paths, 7));
	ck_assert(has(&sfc_tables.paths, 8));
	ck_assert_uint_eq(mk_sfc_sync_path_count(made), 1);
	ck_assert(!mk_sfc_sync_named(made)->replicas[pods[0].number]);
	ck_assert(mk_sfc_sync_named(made)->replicas[pods[1].number]);
	ck_assert(mk_sfc_sync_named(made)->chains[chains[0].number]);
}
END_TEST

/* Both entries of a session name its path. */
START_TEST(test_flows)
{
	begin();
	put_path(7, chains[0].number, pods[0].number);
	put_path(8, chains[0].number, pods[0].number);
	for (int entry = 0; entry < 6; entry++)
		mk_sfc_sync_see_path(made, entry < 4 ? 7 : 8);
	ck_assert_int_eq(pass_ends(5), 0);
	ck_assert_uint_eq(mk_sfc_sync_flows(made, pods[0].number), 3);
	ck_assert_uint_eq(mk_sfc_sync_flows(made, pods[1].number), 0);
	ck_assert_int_eq(pass_ends(5), 0);
	ck_assert_uint_eq(mk_sfc_sync_flows(made, pods[0].number), 0);
}
END_TEST

START_TEST(test_counters)
{
	struct mk_sfc_counters *values =
		calloc((size_t)libbpf_num_possible_cpus(), sizeof(*values));
	const struct mk_sfc_counters one = { .sent_packets = { 1, 2 }, .received_bytes = { 3, 4 } };
	uint64_t cpus = (uint64_t)libbpf_num_possible_cpus();
	struct mk_sfc_counters sum;

	begin();
	for (uint64_t cpu = 0; cpu < cpus; cpu++)
		values[cpu] = one;
	ck_ok(mk_table_put(&sfc_tables.counters, &(uint32_t){ pods[0].number }, values, &err));
	ck_ok(mk_sfc_sync_counters(made, pods[0].number, &sum, &err));
	ck_assert_uint_eq(sum.sent_packets[MK_SFC_OUTSIDE], 2 * cpus);
	ck_assert_uint_eq(sum.received_bytes[MK_SFC_INSIDE], 3 * cpus);
	ck_ok(mk_sfc_sync_counters(made, 99, &sum, &err));
	ck_assert_uint_eq(sum.sent_packets[MK_SFC_OUTSIDE], 0);
	free(values);
}
END_TEST

/* A pass may take long, and may miss a session that moves. */
START_TEST(test_slow_passes)
{
	begin();
	put_path(7, chains[0].number, pods[0].number);
	ck_assert_int_eq(pass_ends(100), 0);
	ck_assert_int_eq(pass_ends(100), 0);
	ck_assert_int_eq(pass_ends(100), 1);
}
END_TEST

/* An agent that has just started does not know since when a path is unused. */
START_TEST(test_path_after_restart)
{
	begin();
	put_path(7, chains[0].number, pods[0].number);
	for (int i = 0; i < 11; i++)
		ck_assert_int_eq(pass_ends(5), 0);
	stop();
	start();
	for (int i = 0; i < 12; i++)
		ck_assert_int_eq(pass_ends(5), 0);
	ck_assert_int_eq(pass_ends(5), 1);
}
END_TEST

/* An id that comes back is another path. */
START_TEST(test_path_comes_back)
{
	begin();
	put_path(7, chains[0].number, pods[0].number);
	for (int i = 0; i < 12; i++)
		ck_assert_int_eq(pass_ends(5), 0);
	ck_assert_int_eq(pass_ends(5), 1);
	put_path(7, chains[0].number, pods[1].number);
	ck_assert_int_eq(pass_ends(5), 0);
	ck_assert(has(&sfc_tables.paths, 7));
}
END_TEST

/* ---- chains with ends ------------------------------------------------------------------------ */

static void add_end(const char *uid, const char *function, uint32_t ifindex)
{
	add_pod(uid, ifindex);
	pods[pod_count - 1].function = function;
	pods[pod_count - 1].mode = MK_PORT_END;
	pods[pod_count - 1].ifindex[MK_SFC_OUTSIDE] = 0;
}

static void begin_ends(void)
{
	add_chain("e", "firewall");
	chains[0].ends[MK_SFC_INSIDE] = "client";
	chains[0].ends[MK_SFC_OUTSIDE] = "server";
	add_pod("f", 100);
	add_end("c", "client", 110);
	add_end("s", "server", 112);
	apply();
}

/* Return the id of the map of flows of the chain; 0: it has none. */
static uint32_t flows_id(void)
{
	uint32_t id = 0, chain = chains[0].number;

	return mk_table_get(&sfc_tables.end_flows, &chain, &id, NULL) == 0 ? id : 0;
}

static void flows_pin(char *path, size_t size)
{
	snprintf(path, size, SFC_PINS "/maps/sfc_flows_%u", chains[0].number);
}

static struct mk_table open_flows(void)
{
	struct mk_table flows;
	char path[64];
	int fd;

	flows_pin(path, sizeof(path));
	fd = bpf_obj_get(path);
	ck_assert_msg(fd >= 0, "no pin %s", path);
	ck_ok(mk_table_init(&flows, "sfc_end_flow", fd, &err));
	return flows;
}

/* A flow of both ends and the firewall, which had its last packet at @seen_s. */
static void put_flow(uint8_t proto, uint16_t port, uint64_t seen_s, bool closing)
{
	cleanup_table struct mk_table flows = open_flows();
	struct mk_tuple key = { .sport = port, .dport = 1, .proto = proto };
	struct mk_sfc_end_flow flow = { .seen_s = (uint32_t)seen_s, .closing = closing };

	key.saddr = addr_of(mk_table_family(&flows) == AF_INET ? "10.9.0.1" : "fd00:9::1");
	key.daddr = key.saddr;
	flow.replica[0] = pods[0].number;
	flow.end[MK_SFC_INSIDE] = pods[1].number;
	flow.end[MK_SFC_OUTSIDE] = pods[2].number;
	ck_ok(mk_table_put(&flows, &key, &flow, &err));
}

static size_t count_flows(void)
{
	cleanup_table struct mk_table flows = open_flows();

	return count_keys(&flows);
}

START_TEST(test_end_flows)
{
	struct mk_sfc_named named;

	begin();
	ck_assert_uint_eq(flows_id(), 0);
	chain_count = pod_count = 0;
	begin_ends();
	ck_assert_uint_ne(flows_id(), 0);
	put_flow(IPPROTO_UDP, 1, now_ns / S, false);
	put_flow(IPPROTO_TCP, 2, now_ns / S, false);
	put_flow(IPPROTO_TCP, 3, now_ns / S, true);
	put_flow(IPPROTO_TCP, 4, now_ns / S + 1, false); /* later than the agent's clock */
	ck_assert_int_eq(pass_ends(0), 0);
	named = *mk_sfc_sync_named(made);
	for (size_t i = 0; i < 3; i++)
		ck_assert(named.replicas[pods[i].number]);
	ck_assert(!named.chains[chains[0].number]);
	ck_assert_uint_eq(mk_sfc_sync_flows(made, pods[1].number), 4);
	ck_assert_uint_eq(mk_sfc_sync_end_flows(made, chains[0].number), 4);
	ck_assert_int_eq(pass_ends(120), 0);
	ck_assert_uint_eq(count_flows(), 4);
	ck_assert_int_eq(pass_ends(1), 0);
	ck_assert_uint_eq(count_flows(), 3);
	ck_assert_int_eq(pass_ends(180), 0);
	ck_assert_uint_eq(count_flows(), 2);
	ck_assert_uint_eq(mk_sfc_sync_end_flows(made, chains[0].number), 2);
	ck_assert_int_eq(pass_ends(24 * 3600), 0);
	ck_assert_uint_eq(count_flows(), 0);
	ck_assert_uint_eq(mk_sfc_sync_flows(made, pods[1].number), 0);
}
END_TEST

#define MANY 3000
static void put_many(uint64_t seen_s)
{
	for (uint16_t i = 0; i < MANY; i++)
		put_flow(IPPROTO_UDP, i, seen_s, false);
}

/* A turn of the loop reads some of the flows. What a pass has met counts when it has met all. */
START_TEST(test_end_flows_in_turns)
{
	const struct mk_sfc_named *named;
	uint64_t before_ns;

	begin_ends();
	ck_assert_int_eq(pass_ends(0), 0);
	put_many(now_ns / S);
	before_ns = now_ns;
	now_ns += S;
	named = mk_sfc_sync_named(made);
	ck_assert_int_eq(mk_sfc_sync_pass_ended(made, now_ns, &err), 0);
	ck_assert_uint_eq(named->since_ns, before_ns);
	ck_assert(!named->replicas[pods[1].number]);
	ck_assert_uint_eq(mk_sfc_sync_end_flows(made, chains[0].number), 0);
	ck_assert_int_ge(turns_of_end(), 2);
	ck_assert_uint_eq(named->since_ns, now_ns);
	ck_assert(named->replicas[pods[1].number]);
	ck_assert_uint_eq(mk_sfc_sync_end_flows(made, chains[0].number), MANY);
	ck_assert_uint_eq(mk_sfc_sync_flows(made, pods[1].number), MANY);
	now_ns += 1000 * S;
	ck_assert_int_eq(mk_sfc_sync_pass_ended(made, now_ns, &err), 0);
	ck_assert_uint_ge(count_flows(), MANY - 1024);
	turns_of_end();
	ck_assert_uint_eq(count_flows(), 0);
	ck_assert_uint_eq(mk_sfc_sync_end_flows(made, chains[0].number), 0);
}
END_TEST

/* The map goes while the sweep reads it. */
START_TEST(test_end_flows_gone_in_turns)
{
	const struct mk_sfc_named *named;

	begin_ends();
	put_many(now_ns / S);
	chain_count = 0;
	apply();
	ck_assert_int_eq(pass_ends(1), 0);
	ck_assert_int_eq(mk_sfc_sync_pass_ended(made, now_ns, &err), 0);
	named = mk_sfc_sync_named(made);
	ck_assert_uint_ge(mk_sfc_release(sfc, &named, 1, now_ns), 1);
	apply();
	ck_assert_uint_eq(flows_id(), 0);
	turns_of_end();
	ck_assert(named->replicas[pods[1].number]); /* by what was read */
	ck_assert_int_eq(pass_ends(0), 0);
	ck_assert(!named->replicas[pods[1].number]);
}
END_TEST

START_TEST(test_end_flows_restart)
{
	uint32_t id;

	begin_ends();
	id = flows_id();
	put_flow(IPPROTO_UDP, 1, now_ns / S, false);
	stop();
	start();
	ck_assert_uint_eq(apply(), 0);
	ck_assert_uint_eq(flows_id(), id);
	ck_assert_int_eq(pass_ends(0), 0);
	ck_assert_uint_eq(mk_sfc_sync_flows(made, pods[0].number), 1);
}
END_TEST

START_TEST(test_end_flows_repair)
{
	uint32_t chain;

	begin_ends();
	chain = chains[0].number;
	ck_assert_int_eq(bpf_map_delete_elem(sfc_tables.end_flows.fd, &chain), 0);
	capture_log();
	ck_assert_int_eq(mk_sfc_sync_reconcile(made, 64, &err), 1);
	captured_log();
	ck_assert_uint_eq(apply(), 1);
	ck_assert_uint_ne(flows_id(), 0);
	ck_assert_int_eq(mk_sfc_sync_reconcile(made, 64, &err), 0);
	ck_assert_uint_eq(count_flows(), 0);
}
END_TEST

/* What another process did to the pin of the map. */
static void lose_pin(const char *path)
{
	ck_assert_int_eq(unlink(path), 0);
}

static void pin_other_map(const char *path)
{
	lose_pin(path);
	ck_assert_int_eq(bpf_obj_pin(sfc_tables.paths.fd, path), 0);
}

static void lose_directory(const char *path)
{
	lose_pin(path);
	ck_assert_int_eq(rmdir(SFC_PINS "/maps"), 0);
}

static void (*const pin_damages[])(const char *path) = { lose_pin, pin_other_map, lose_directory };

/* No agent can open the map without a pin that leads to it, so it gets another one. */
START_TEST(test_end_flows_without_pin)
{
	char path[64];
	uint32_t id;

	begin_ends();
	id = flows_id();
	flows_pin(path, sizeof(path));
	pin_damages[_i](path);
	stop();
	start();
	(void)mkdir(SFC_PINS "/maps", 0700);
	ck_assert_uint_eq(apply(), 1);
	ck_assert_uint_ne(flows_id(), id);
	ck_assert_uint_eq(count_flows(), 0);
}
END_TEST

/* The number of a chain that is gone has a new owner, whose flows are others. */
START_TEST(test_end_flows_of_new_owner)
{
	const struct mk_sfc_named *named;
	uint32_t number, id;

	begin_ends();
	number = chains[0].number;
	id = flows_id();
	put_flow(IPPROTO_UDP, 1, now_ns / S, false);
	chain_count = 0;
	compile(); /* the tables miss this */
	ck_assert_int_eq(pass_ends(1), 0);
	named = mk_sfc_sync_named(made);
	ck_assert_uint_ge(mk_sfc_release(sfc, &named, 1, now_ns), 1);
	add_chain("f", "firewall");
	chains[0].ends[MK_SFC_INSIDE] = "client";
	chains[0].ends[MK_SFC_OUTSIDE] = "server";
	apply();
	ck_assert_uint_eq(chains[0].number, number);
	ck_assert_uint_ne(flows_id(), id);
	ck_assert_uint_eq(count_flows(), 0);
}
END_TEST

START_TEST(test_end_flows_pin_repair)
{
	const char *log;
	char path[64];
	uint32_t id;

	begin_ends();
	id = flows_id();
	put_flow(IPPROTO_UDP, 1, now_ns / S, false);
	flows_pin(path, sizeof(path));
	pin_damages[_i](path);
	capture_log();
	ck_assert_int_eq(mk_sfc_sync_reconcile(made, 64, &err), 1);
	ck_assert_int_eq(mk_sfc_sync_reconcile(made, 64, &err), 0);
	log = captured_log();
	ck_assert_msg(strstr(log, path) != NULL, "%s", log);
	stop();
	start();
	ck_assert_uint_eq(apply(), 0);
	ck_assert_uint_eq(flows_id(), id);
	ck_assert_uint_eq(count_flows(), 1);
}
END_TEST

/* The log names a map that cannot be pinned. Other entries are repaired all the same. */
START_TEST(test_end_flows_pin_stuck)
{
	char path[64];

	begin_ends();
	flows_pin(path, sizeof(path));
	lose_pin(path);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	lose_chain();
	capture_log();
	ck_assert_int_eq(mk_sfc_sync_reconcile(made, 64, &err), 1);
	captured_log();
	ck_assert_int_lt(mk_sfc_sync_reconcile(made, 64, &err), 0);
	ck_assert_msg(strstr(mk_error_text(&err), path) && strstr(mk_error_text(&err), "by hand"),
		      "%s", mk_error_text(&err));
	ck_assert_int_eq(rmdir(path), 0);
	capture_log();
	ck_assert_int_eq(mk_sfc_sync_reconcile(made, 64, &err), 1);
	captured_log();
	ck_assert_uint_eq(count_flows(), 0);
}
END_TEST

/* The chain's own flows do not keep its number. */
START_TEST(test_end_flows_gone)
{
	const struct mk_sfc_named *named;
	char path[64];

	begin_ends();
	put_flow(IPPROTO_TCP, 1, now_ns / S, false);
	flows_pin(path, sizeof(path));
	chain_count = 0;
	apply();
	now_ns += S;
	ck_assert_int_eq(pass_ends(0), 0);
	named = mk_sfc_sync_named(made);
	ck_assert_uint_ge(mk_sfc_release(sfc, &named, 1, now_ns), 1);
	apply();
	ck_assert_uint_eq(flows_id(), 0);
	ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

static void fill(TCase *tcase)
{
	tcase_add_test(tcase, test_rows);
	tcase_add_test(tcase, test_other_family);
	tcase_add_test(tcase, test_remote);
	tcase_add_test(tcase, test_back);
	tcase_add_test(tcase, test_back_of_new_owner);
	tcase_add_loop_test(tcase, test_writes, 0, MK_ARRAY_SIZE(changes));
	tcase_add_test(tcase, test_restart);
	tcase_add_test(tcase, test_freed);
	tcase_add_loop_test(tcase, test_repair, 0, MK_ARRAY_SIZE(damages));
	tcase_add_test(tcase, test_repair_in_turns);
	tcase_add_test(tcase, test_end_flows);
	tcase_add_test(tcase, test_end_flows_in_turns);
	tcase_add_test(tcase, test_end_flows_gone_in_turns);
	tcase_add_test(tcase, test_end_flows_restart);
	tcase_add_loop_test(tcase, test_end_flows_without_pin, 0, MK_ARRAY_SIZE(pin_damages));
	tcase_add_test(tcase, test_end_flows_of_new_owner);
	tcase_add_test(tcase, test_end_flows_repair);
	tcase_add_loop_test(tcase, test_end_flows_pin_repair, 0, MK_ARRAY_SIZE(pin_damages));
	tcase_add_test(tcase, test_end_flows_pin_stuck);
	tcase_add_test(tcase, test_end_flows_gone);
}

UNIT_SUITE("sfc_tables")
{
	TCase *paths = unit_case(suite, "paths", setup, teardown);

	fill(unit_case(suite, "IPv4", setup, teardown));
	fill(unit_case(suite, "IPv6", setup_ipv6, teardown));
	tcase_add_test(paths, test_unnamed_path);
	tcase_add_test(paths, test_flows);
	tcase_add_test(paths, test_counters);
	tcase_add_test(paths, test_slow_passes);
	tcase_add_test(paths, test_path_after_restart);
	tcase_add_test(paths, test_path_comes_back);
}
