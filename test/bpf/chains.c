// SPDX-License-Identifier: Apache-2.0
#include "bpf/chains.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/cleanup.h"
#include "bpf/policy.h"
#include "datapath/pods/port.h"
#include "rows.h"

#define CHECK(condition, ...)                                                 \
	do {                                                                  \
		char said_[256];                                              \
		snprintf(said_, sizeof(said_), __VA_ARGS__);                  \
		ck_assert_msg(condition, "%s: %s", policy_line_now(), said_); \
	} while (0)

#define NUMBERS		 16 /* of chains and of replicas in a row */
#define FLOWS_OF_ROW	 512
#define IPV4_TUPLE_BYTES 16
#define PORT		 1u /* the ifindex of test runs */
#define SFC_DEVICE	 77
#define OWN_VTEP	 "10.18.0.1"

static void put(const char *map, const void *key, const void *value)
{
	CHECK(row_update(fixture_map(map), key, value, BPF_ANY) == 0, "cannot write %s", map);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void add_counters(__u32 replica)
{
	cleanup_free struct mk_sfc_counters *none =
		calloc((size_t)libbpf_num_possible_cpus(), sizeof(*none));

	put("sfc_counters", &replica, none);
}

static struct mk_sfc_replica replica_of(__u32 number)
{
	struct mk_sfc_replica replica;

	CHECK(row_lookup(fixture_map("sfc_replicas"), &number, &replica) == 0, "no replica");
	return replica;
}

static __u16 chain_with_ends; /* 0: the row has none */

/* Frames of test runs come by the port of @replica; 0: by no replica's. */
static void set_port(__u16 replica, __u8 side)
{
	const struct mk_sfc_port port = { .replica = replica,
					  .side = side,
					  .mode = replica_of(replica).mode,
					  .chain = chain_with_ends };
	const int maps[] = { fixture_map("sfc_ports"), fixture_front_map("sfc_ports") };
	const __u32 key = PORT;

	for (size_t i = 0; i < MK_ARRAY_SIZE(maps); i++) {
		if (maps[i] < 0)
			continue;
		if (replica)
			CHECK(bpf_map_update_elem(maps[i], &key, &port, BPF_ANY) == 0, "no port");
		else
			bpf_map_delete_elem(maps[i], &key);
	}
}

/* Set the device between nodes; 0: there is none. */
static void put_device(__u32 ifindex)
{
	struct mk_links links;
	__u32 zero = 0;

	CHECK(row_lookup(fixture_map("links"), &zero, &links) == 0, "no links");
	links.sfc_ifindex = ifindex;
	put("links", &zero, &links);
}

/* A frame that came by a front of the other family finds the replica by that family's tables. */
static __u64 uid_hash_of(__u32 replica)
{
	return 0x777777a1b2c3d400 + replica;
}

static void put_tag(__u32 replica)
{
	__u64 tag = uid_hash_of(replica) & MK_SFC_TAG_MASK;

	put("sfc_tags", &tag, &replica);
}

void chains_start(void)
{
	static const char *const hashes[] = { "sfc_functions", "sfc_paths", "sfc_counters",
					      "sfc_tags" };
	const struct mk_sfc_chain no_chain = { 0 };
	const struct mk_sfc_replica no_replica = { 0 };

	for (size_t i = 0; i < MK_ARRAY_SIZE(hashes); i++)
		fixture_empty(hashes[i]);
	for (__u32 i = 0; i < NUMBERS; i++) {
		put("sfc_chains", &i, &no_chain);
		put("sfc_replicas", &i, &no_replica);
		add_counters(i);
	}
	chain_with_ends = 0;
	set_port(0, 0);
	put_device(SFC_DEVICE);
}

static __u8 place_flags(const char *letters)
{
	__u8 flags = 0;

	flags |= strchr(letters, 's') ? MK_SFC_SKIP : 0;
	flags |= strchr(letters, 'k') ? MK_SFC_KEEP_LOST : 0;
	flags |= strchr(letters, 'p') ? MK_SFC_HASH_POD : 0;
	flags |= strchr(letters, 'r') ? MK_SFC_HASH_PEER : 0;
	return flags;
}

static int flows_fd = -1; /* of the chain with ends */

static void put_flows(__u32 chain)
{
	const __u32 key_bytes = family_is6() ? sizeof(struct mk_tuple) : IPV4_TUPLE_BYTES;
	int fd = bpf_map_create(BPF_MAP_TYPE_LRU_HASH, "sfc_end_flow", key_bytes,
				sizeof(struct mk_sfc_end_flow), FLOWS_OF_ROW, NULL);

	CHECK(fd >= 0 &&
		      bpf_map_update_elem(fixture_map("sfc_end_flows"), &chain, &fd, BPF_ANY) == 0,
	      "no map of flows");
	if (flows_fd >= 0)
		close(flows_fd);
	flows_fd = fd;
}

/* Let all flows of the chain with ends be idle for a day, */
static void line_idle(void)
{
	char key[sizeof(struct mk_tuple)];
	struct mk_sfc_end_flow flow;

	for (bool first = true; bpf_map_get_next_key(flows_fd, first ? NULL : key, key) == 0;
	     first = false) {
		CHECK(bpf_map_lookup_elem(flows_fd, key, &flow) == 0, "a flow is gone");
		flow.seen_s -= 86400;
		CHECK(bpf_map_update_elem(flows_fd, key, &flow, BPF_EXIST) == 0, "no flow");
	}
}

/* and count those that had a packet since. */
static void line_seen(const char *words)
{
	const unsigned long wanted = strtoul(words, NULL, 10);
	char key[sizeof(struct mk_tuple)];
	struct mk_sfc_end_flow flow;
	unsigned long seen = 0;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	for (bool first = true; bpf_map_get_next_key(flows_fd, first ? NULL : key, key) == 0;
	     first = false) {
		CHECK(bpf_map_lookup_elem(flows_fd, key, &flow) == 0, "a flow is gone");
		seen += (__u32)now.tv_sec - flow.seen_s < 3600;
	}
	CHECK(seen == wanted, "%lu flows", seen);
}

static void line_ends(const char *words)
{
	struct mk_sfc_chain chain;
	unsigned id, inside, outside;

	CHECK(sscanf(words, "%u %u %u", &id, &inside, &outside) == 3, "bad line");
	CHECK(row_lookup(fixture_map("sfc_chains"), &id, &chain) == 0, "no chain");
	chain.end[MK_SFC_INSIDE] = (__u16)inside;
	chain.end[MK_SFC_OUTSIDE] = (__u16)outside;
	put("sfc_chains", &id, &chain);
	if (!chain_with_ends)
		put_flows(id);
	chain_with_ends = (__u16)id;
}

static void line_no_flows(void)
{
	const __u32 chain = chain_with_ends;

	CHECK(bpf_map_delete_elem(fixture_map("sfc_end_flows"), &chain) == 0, "no map of flows");
}

static void line_chain(char *words)
{
	struct mk_sfc_chain chain = { .uid_hash = 1 };
	__u32 id = (__u32)strtoul(strtok(words, " "), NULL, 10), count = 0;
	char *word, *letters;

	while ((word = strtok(NULL, " "))) {
		if (strcmp(word, "leaves") == 0) {
			chain.leaves_open_flows = 1;
			continue;
		}
		if (strcmp(word, "absent") == 0) {
			chain.uid_hash = 0;
			continue;
		}
		chain.place[count].function = (__u16)strtoul(word, &letters, 10);
		chain.place[count++].flags = place_flags(letters);
	}
	put("sfc_chains", &id, &chain);
}

static void line_function(char *words)
{
	struct mk_sfc_function function = { .name_hash = 1 };
	__u32 id = (__u32)strtoul(strtok(words, " "), NULL, 10), count = 0;
	__u16 replicas[NUMBERS];
	char *word;

	while ((word = strtok(NULL, " ")) && count < NUMBERS)
		replicas[count++] = (__u16)strtoul(word, NULL, 10);
	if (!count) {
		row_delete(fixture_map("sfc_functions"), &id);
		return;
	}
	for (__u32 slot = 0; slot < MK_SFC_SLOTS; slot++)
		function.replica[slot] = replicas[slot % count];
	put("sfc_functions", &id, &function);
}

/* Let copies for the tap be read where they leave. */
static void make_tap(struct mk_sfc_replica *replica, __u32 device)
{
	replica->mode = MK_PORT_TAP;
	taps_add(device);
}

static void line_replica(const char *words)
{
	char mode[16], state[16] = "", vtep[32];
	struct mk_sfc_replica replica = { 0 };
	bool remote;
	__u32 id;

	remote = sscanf(words, "%u on %31s %15s", &id, vtep, state) >= 2;
	CHECK(remote || sscanf(words, "%u %15s %15s", &id, mode, state) >= 2, "bad line");
	replica.uid_hash = uid_hash_of(id);
	replica.state = strcmp(state, "lost") == 0 ? MK_SFC_LOST : MK_SFC_USABLE;
	put_tag(id);
	if (remote) {
		if (strcmp(vtep, "0.0.0.0") != 0)
			fixture_mac(vtep, replica.vtep_mac);
		if (strcmp(state, "tap") == 0)
			make_tap(&replica, SFC_DEVICE);
		put("sfc_replicas", &id, &replica);
		return;
	}
	replica.mode = mode[0] == 'b'	? MK_PORT_BRIDGED
		       : mode[0] == 'i' ? MK_PORT_INLINE
		       : mode[0] == 'e' ? MK_PORT_END
					: MK_PORT_ROUTED;
	replica.ifindex[MK_SFC_INSIDE] = 1000 + 2 * id;
	replica.ifindex[MK_SFC_OUTSIDE] = 1001 + 2 * id;
	if (strcmp(mode, "end") == 0)
		replica.ifindex[MK_SFC_OUTSIDE] = replica.ifindex[MK_SFC_INSIDE];
	if (strcmp(mode, "tap") == 0) {
		replica.ifindex[MK_SFC_OUTSIDE] = replica.ifindex[MK_SFC_INSIDE];
		make_tap(&replica, replica.ifindex[MK_SFC_INSIDE]);
	}
	put("sfc_replicas", &id, &replica);
}

static void line_later(const char *words)
{
	struct mk_sfc_replica replica;
	struct timespec now;
	unsigned id, ms;

	CHECK(sscanf(words, "%u %u", &id, &ms) == 2, "bad line");
	replica = replica_of(id);
	CHECK(replica.back_ms != 0, "no packet was sent back");
	clock_gettime(CLOCK_MONOTONIC, &now);
	replica.back_ms = (__u32)(now.tv_sec * 1000 + now.tv_nsec / 1000000) - ms ?: 1;
	put("sfc_replicas", &id, &replica);
}

static void line_address(const char *words)
{
	struct mk_sfc_replica replica;
	char text[48];
	__u32 id;

	CHECK(sscanf(words, "%u %47s", &id, text) == 2, "bad line");
	replica = replica_of(id);
	replica.addr = fixture_addr(text);
	put("sfc_replicas", &id, &replica);
}

static void line_gone(const char *words)
{
	__u32 id = (__u32)strtoul(words, NULL, 10);
	struct mk_sfc_replica replica = replica_of(id);

	memset(replica.ifindex, 0, sizeof(replica.ifindex));
	put("sfc_replicas", &id, &replica);
}

static void expire_sessions(void)
{
	fixture_empty("sessions");
	fixture_empty("sessions_young");
}

/* How many sessions are established, and how many directions have ended? */
static void count_stages(unsigned *established, unsigned *ended)
{
	int fd = fixture_map("sessions");
	struct mk_session session;
	struct mk_tuple key;

	*established = *ended = 0;
	for (void *last = NULL; row_next_key(fd, last, &key) == 0; last = &key) {
		CHECK(row_lookup(fd, &key, &session) == 0, "no session");
		*established += session.stage == MK_SESSION_OPEN;
		*ended += session.fin != 0;
	}
}

static void line_established(const char *words)
{
	unsigned want, want_ended, established, ended;

	CHECK(sscanf(words, "%u ended %u", &want, &want_ended) == 2, "bad line");
	count_stages(&established, &ended);
	CHECK(established == want && ended == want_ended, "%u, ended %u", established, ended);
}

static void line_off(void)
{
	const struct mk_policy_state off = { .listed = MK_POLICY_LISTED_SOME };
	__u32 zero = 0;

	put("policy_state", &zero, &off);
}

/* ---- paths ----------------------------------------------------------------------------------- */

static void put_other_paths(__u32 from, __u32 step)
{
	struct mk_sfc_path other = { .chain = { 999, 999 } };

	for (__u32 key = from; key <= MK_SFC_PATHS; key += step)
		if (row_update(fixture_map("sfc_paths"), &key, &other, BPF_NOEXIST) != 0)
			return; /* the table is full */
}

static void line_paths(const char *words)
{
	unsigned there = fixture_count("sfc_paths");

	CHECK(there == strtoul(words, NULL, 10), "%u paths", there);
}

/* Give the key of each path another content. */
static void line_collide(void)
{
	struct mk_sfc_path other = { .chain = { 999, 999 } };
	__u32 keys[NUMBERS], count = 0;
	void *last = NULL;

	while (count < NUMBERS && row_next_key(fixture_map("sfc_paths"), last, &keys[count]) == 0)
		last = &keys[count++];
	for (__u32 i = 0; i < count; i++)
		for (__u32 j = 0; j < MK_SFC_PATH_PROBES - 1; j++) {
			__u32 key = (keys[i] - 1 + j) % MK_SFC_PATHS + 1;

			put("sfc_paths", &key, &other);
		}
}

/* ---- packets --------------------------------------------------------------------------------- */

static struct mk_sfc_counters counters_of(__u32 replica)
{
	int cpus = libbpf_num_possible_cpus();
	cleanup_free struct mk_sfc_counters *each = calloc((size_t)cpus, sizeof(*each));
	struct mk_sfc_counters sum = { 0 };

	CHECK(bpf_map_lookup_elem(fixture_map("sfc_counters"), &replica, each) == 0,
	      "no counters of %u", replica);
	for (int cpu = 0; cpu < cpus; cpu++)
		for (int side = 0; side < MK_SFC_SIDES; side++) {
			sum.sent_packets[side] += each[cpu].sent_packets[side];
			sum.sent_bytes[side] += each[cpu].sent_bytes[side];
			sum.received_packets[side] += each[cpu].received_packets[side];
			sum.received_bytes[side] += each[cpu].received_bytes[side];
		}
	return sum;
}

static enum mk_sfc_side side_of(const char *text)
{
	CHECK(strcmp(text, "inside") == 0 || strcmp(text, "outside") == 0, "bad side %s", text);
	return text[0] == 'i' ? MK_SFC_INSIDE : MK_SFC_OUTSIDE;
}

static void line_counted(const char *words)
{
	struct mk_sfc_counters counters;
	char way[8], side[16];
	unsigned packets;
	__u64 found, bytes;
	__u32 replica;

	CHECK(sscanf(words, "%u %7s %15s %u", &replica, way, side, &packets) == 4, "bad line");
	counters = counters_of(replica);
	found = (way[0] == 'i' ? counters.sent_packets : counters.received_packets)[side_of(side)];
	bytes = (way[0] == 'i' ? counters.sent_bytes : counters.received_bytes)[side_of(side)];
	CHECK(found == packets, "%llu packets", found);
	CHECK(bytes >= 34 * found && (found || !bytes), "%llu bytes", bytes);
}

/* The replica and side that packets have entered since @before, as 2 * replica + side; -1: none. A
 * tap only if no other replica: it gets copies. */
static int entered(const struct mk_sfc_counters *before)
{
	int found = -1;

	for (__u32 i = 0; i < NUMBERS; i++) {
		struct mk_sfc_counters now = counters_of(i);
		bool counts = found < 0 || replica_of(i).mode != MK_PORT_TAP;

		for (int side = 0; side < MK_SFC_SIDES; side++)
			if (counts && now.sent_packets[side] != before[i].sent_packets[side])
				found = 2 * (int)i + side;
	}
	return found;
}

static void mac_text(const struct mk_mac *mac, char *text, size_t size)
{
	const uint8_t *byte = mac->byte;

	snprintf(text, size, "%02x:%02x:%02x:%02x:%02x:%02x", byte[0], byte[1], byte[2], byte[3],
		 byte[4], byte[5]);
}

/* As a node computes it from the address in the packet. */
static struct mk_mac mac_of_others_pod(const char *pod)
{
	const struct mk_ip ip = family_ip(pod);

	return mk_mac_of_ip(&ip);
}

/* Are the MAC addresses those of @pod's wire, or of a port that routes? */
static void check_macs(const struct frame *out, __u32 replica, enum mk_sfc_side side,
		       const char *pod)
{
	const struct mk_sfc_replica entry = replica_of(replica);
	struct mk_mac macs[2], found[2];
	char want[2][20], have[2][20];

	if (strncmp(pod, "10.244.1.", 9) == 0)
		fixture_mac(pod, macs[side == MK_SFC_OUTSIDE].byte);
	else
		macs[side == MK_SFC_OUTSIDE] = mac_of_others_pod(pod);
	fixture_mac("10.244.1.254", macs[side == MK_SFC_INSIDE].byte);
	if (chain_with_ends) {
		bool outward = side == MK_SFC_INSIDE && entry.mode != MK_PORT_END;

		macs[outward] = mk_port_mac(MK_PORT_END, MK_PORT_INSIDE, true);
		macs[!outward] = mk_port_mac(MK_PORT_END, MK_PORT_INSIDE, false);
	}
	if (entry.mode == MK_PORT_ROUTED) {
		macs[0] = mk_port_mac(MK_PORT_ROUTED, (enum mk_port_side)side, true);
		macs[1] = mk_port_mac(MK_PORT_ROUTED, (enum mk_port_side)side, false);
	}
	memcpy(found[1].byte, out->byte, 6);
	memcpy(found[0].byte, out->byte + 6, 6);
	for (int i = 0; i < 2; i++) {
		mac_text(&macs[i], want[i], sizeof(want[i]));
		mac_text(&found[i], have[i], sizeof(have[i]));
	}
	CHECK(memcmp(macs, found, sizeof(macs)) == 0, "frame %s > %s, expected %s > %s", have[0],
	      have[1], want[0], want[1]);
}

static int send_into(enum mk_hook hook, const struct frame *in, struct frame *out)
{
	struct mk_sfc_counters before[NUMBERS];
	enum where where;
	int got;

	for (__u32 i = 0; i < NUMBERS; i++)
		before[i] = counters_of(i);
	where = fixture_send(hook, in, out);
	CHECK(where != DROPPED, "dropped, among%s", policy_why(hook));
	got = entered(before);
	CHECK(got >= 0, "went %s", where_name(where));
	return got;
}

static void expect_into(enum mk_hook hook, const struct frame *in, char *outcome, struct frame *out)
{
	char side[16], pod[32], flow[160] = "";
	const char *what = "";
	__u32 replica;
	int got;

	CHECK(sscanf(outcome, "%u %15s %31s %159[^\n]", &replica, side, pod, flow) >= 3,
	      "bad outcome");
	got = send_into(hook, in, out);
	CHECK(got == 2 * (int)replica + (int)side_of(side), "entered %d, side %d", got / 2,
	      got % 2);
	CHECK(!flow[0] || strcmp(frame_flow(out), flow) == 0, "entered as %s", frame_flow(out));
	CHECK(frame_checksums_right(out, &what), "wrong %s", what);
	CHECK(frame_ttl(out) == frame_ttl(in), "the TTL is %u", frame_ttl(out));
	check_macs(out, replica, side_of(side), pod);
}

static void expect_same(enum mk_hook hook, const struct frame *in, const char *outcome,
			struct frame *out)
{
	static int replicas[NUMBERS]; /* by mark; each row runs in a process of its own */
	unsigned long mark = strtoul(outcome, NULL, 10);
	int got = send_into(hook, in, out) / 2;

	CHECK(mark < NUMBERS, "bad mark");
	CHECK(!replicas[mark] || replicas[mark] == got, "entered %d, not %d", got, replicas[mark]);
	replicas[mark] = got;
}

/* The frame's source between nodes. */
static void check_carried(const struct frame *out, enum mk_sfc_carried carried, char *outcome)
{
	static const char *const names[] = { "to", "home", "back", "does-not-fit" };
	char vtep[32], side[16], have[2][20], want[20], flow[160] = "";
	unsigned replica, place = 0, used = 0;
	struct mk_sfc_mac source;
	struct mk_mac mac[2];

	CHECK(sscanf(outcome, "%31s %u %15s %n", vtep, &replica, side, &used) >= 3, "bad outcome");
	outcome += used;
	if (carried != MK_SFC_FROM)
		place = (unsigned)strtoul(outcome, &outcome, 10);
	sscanf(outcome, " %159[^\n]", flow);
	fixture_mac(vtep, mac[0].byte);
	mac_text(&mac[0], want, sizeof(want));
	memcpy(mac, out->byte, sizeof(mac));
	mac_text(&mac[0], have[0], sizeof(have[0]));
	mac_text(&mac[1], have[1], sizeof(have[1]));
	CHECK(strcmp(have[0], want) == 0, "went to %s, from %s", have[0], have[1]);
	source = mk_sfc_mac_make(carried, side_of(side), place, uid_hash_of(replica));
	CHECK(memcmp(&source, &mac[1], sizeof(source)) == 0, "not %s: source %s", names[carried],
	      have[1]);
	CHECK(!flow[0] || strcmp(frame_flow(out), flow) == 0, "goes as %s", frame_flow(out));
}

static void expect_carried(enum mk_hook hook, const struct frame *in, enum mk_sfc_carried carried,
			   char *outcome, struct frame *out)
{
	const char *what = "";
	enum where where = fixture_send(hook, in, out);

	CHECK(where == TO_OVERLAY, "went %s, drops%s", where_name(where), policy_why(hook));
	check_carried(out, carried, outcome);
	CHECK(frame_checksums_right(out, &what), "wrong %s", what);
	CHECK(frame_ttl(out) == frame_ttl(in), "the TTL is %u", frame_ttl(out));
}

/* The frame enters the hook of the pod that has its source address, as if the pod had sent it. */
static void expect_own(enum mk_hook hook, const struct frame *in, struct frame *out)
{
	char came[128], sender[48], want[2][20], have[2][20];
	struct mk_mac mac[2];

	snprintf(came, sizeof(came), "%s", frame_flow(in));
	CHECK(sscanf(came, "%*s %47[^:]", sender) == 1, "no flow");
	CHECK(fixture_send(hook, in, out) != DROPPED, "dropped, among%s", policy_why(hook));
	fixture_mac("10.244.1.254", mac[0].byte);
	fixture_mac("10.244.1.3", mac[1].byte);
	for (int i = 0; i < 2; i++) {
		mac_text(&mac[i], want[i], sizeof(want[i]));
		memcpy(mac[i].byte, out->byte + 6 * i, 6);
		mac_text(&mac[i], have[i], sizeof(have[i]));
		CHECK(strcmp(want[i], have[i]) == 0, "MAC address %s, not %s", have[i], want[i]);
	}
	CHECK(strcmp(frame_flow(out), came) == 0, "left as %s", frame_flow(out));
	CHECK(frame_ttl(out) == frame_ttl(in), "the TTL is %u", frame_ttl(out));
}

static void expect_told(enum mk_hook hook, const struct frame *in, const char *outcome,
			struct frame *out)
{
	char source[48], type[8], sender[48], came[128], want[256];
	const char *what = "";

	CHECK(sscanf(outcome, "%47s %7s", source, type) == 2, "bad outcome");
	snprintf(came, sizeof(came), "%s", frame_flow(in));
	CHECK(sscanf(came, "%*s %47[^:]", sender) == 1, "no flow");
	snprintf(want, sizeof(want), "icmp-error %s > %s %s [%s]", source, sender, type, came);
	CHECK(fixture_send(hook, in, out) != DROPPED, "dropped, among%s", policy_why(hook));
	CHECK(strcmp(frame_flow(out), want) == 0, "left as %s", frame_flow(out));
	CHECK(frame_checksums_right(out, &what), "wrong %s", what);
}

static void expect_lost_copy(enum mk_hook hook, const struct frame *in, const char *reason,
			     struct frame *out)
{
	uint64_t before = fixture_drops_total();
	char came[128];

	snprintf(came, sizeof(came), "%s", frame_flow(in));
	CHECK(fixture_send(hook, in, out) != DROPPED, "dropped, among%s", policy_why(hook));
	CHECK(fixture_drops_total() == before + 1, "no copy was lost");
	CHECK(strstr(policy_why(MK_HOOK_FUNCTION), reason), "drops%s",
	      policy_why(MK_HOOK_FUNCTION));
	CHECK(strcmp(frame_flow(out), came) == 0, "left as %s", frame_flow(out));
}

bool chains_expect(enum mk_hook hook, const struct frame *in, char *outcome, struct frame *out)
{
	if (strncmp(outcome, "into ", 5) == 0)
		expect_into(hook, in, outcome + 5, out);
	else if (strncmp(outcome, "same ", 5) == 0)
		expect_same(hook, in, outcome + 5, out);
	else if (strncmp(outcome, "to ", 3) == 0)
		expect_carried(hook, in, MK_SFC_TO, outcome + 3, out);
	else if (strncmp(outcome, "home ", 5) == 0)
		expect_carried(hook, in, MK_SFC_FROM, outcome + 5, out);
	else if (strncmp(outcome, "back ", 5) == 0)
		expect_carried(hook, in, MK_SFC_BACK, outcome + 5, out);
	else if (strncmp(outcome, "does-not-fit ", 13) == 0)
		expect_carried(hook, in, MK_SFC_TOO_BIG, outcome + 13, out);
	else if (strncmp(outcome, "loses-copy ", 11) == 0)
		expect_lost_copy(hook, in, outcome + 11, out);
	else if (strcmp(outcome, "own") == 0)
		expect_own(hook, in, out);
	else if (strncmp(outcome, "told ", 5) == 0)
		expect_told(hook, in, outcome + 5, out);
	else
		return false;
	return true;
}

static void line_both(void)
{
	int seen[NUMBERS] = { 0 };

	for (unsigned port = 40000; port < 40040; port++) {
		struct frame in, out;
		char flow[64];

		snprintf(flow, sizeof(flow), "tcp 10.244.1.2:%u > 10.244.2.7:80", port);
		in = frame_make(flow, NULL);
		seen[send_into(MK_HOOK_POD, &in, &out) / 2]++;
	}
	CHECK(seen[1] > 5 && seen[2] > 5, "%d and %d", seen[1], seen[2]);
}

static void line_answer(char *rest)
{
	char proto[8], from[48], to[48], text[256];

	CHECK(sscanf(frame_flow(policy_last_frame()), "%7s %47s > %47s", proto, from, to) == 3,
	      "no flow");
	snprintf(text, sizeof(text), "%s %s > %s %s", proto, to, from, rest);
	policy_packet(MK_HOOK_UPLINK, text);
}

static void line_from(char *rest)
{
	char side[16];
	__u32 replica;
	int used = 0;

	CHECK(sscanf(rest, "%u %15s %n", &replica, side, &used) == 2, "bad line");
	set_port((__u16)replica, side_of(side));
	rest += used;
	if (rest[0] == '=')
		policy_send(MK_HOOK_FUNCTION, policy_last_frame(), rest + 2);
	else
		policy_packet(MK_HOOK_FUNCTION, rest);
}

/* A frame of another node about a replica, whose place is in the line if @has_place. */
static void by_overlay(enum mk_sfc_carried carried, bool has_place, const char *vtep, char *rest)
{
	unsigned replica, place = 0;
	struct mk_sfc_mac source;
	char side[16], *outcome;
	struct frame frame;
	int used = 0;

	CHECK(sscanf(rest, "%u %15s %n", &replica, side, &used) == 2, "bad line");
	rest += used;
	if (has_place)
		place = (unsigned)strtoul(rest, &rest, 10);
	rest += strspn(rest, " ");
	frame = *policy_last_frame();
	outcome = rest + 2;
	if (rest[0] != '=')
		frame = policy_frame(rest, &outcome);
	source = mk_sfc_mac_make(carried, side_of(side), place, uid_hash_of(replica));
	memcpy(frame.byte + 6, &source, sizeof(source));
	fixture_mac(vtep, frame.byte);
	fixture_function_entry(MK_ENTRY_SFC_OVERLAY);
	policy_send(MK_HOOK_FUNCTION, &frame, outcome);
	fixture_function_entry(MK_ENTRY_FUNCTION);
}

static void line_unknown_port(char *rest)
{
	set_port(0, 0);
	policy_packet(MK_HOOK_FUNCTION, rest);
}

/* ---- taps ------------------------------------------------------------------------------------ */

static struct frame next_copy(__u32 device)
{
	const char *what = "";
	struct frame copy;

	CHECK(taps_read(device, &copy), "no copy");
	CHECK(frame_checksums_right(&copy, &what), "wrong %s", what);
	CHECK(frame_ttl(&copy) == 64, "the TTL is %u", frame_ttl(&copy));
	return copy;
}

static void line_copied(const char *words)
{
	char side[16], pod[32], flow[160] = "";
	struct frame copy;
	__u32 replica;

	CHECK(sscanf(words, "%u %15s %31s %159[^\n]", &replica, side, pod, flow) >= 3, "bad line");
	copy = next_copy(replica_of(replica).ifindex[MK_SFC_INSIDE]);
	check_macs(&copy, replica, side_of(side), pod);
	CHECK(!flow[0] || strcmp(frame_flow(&copy), flow) == 0, "copied as %s", frame_flow(&copy));
}

static void line_copied_to(char *words)
{
	const struct frame copy = next_copy(SFC_DEVICE);

	check_carried(&copy, MK_SFC_TO, words);
}

static void line_no_copies(void)
{
	__u32 device = taps_unread();

	CHECK(device == 0, "one by interface %u", device);
}

static void line_no_device(const char *words)
{
	taps_remove(replica_of((__u32)strtoul(words, NULL, 10)).ifindex[MK_SFC_INSIDE]);
}

static bool flows_line(const char *word, char *rest)
{
	if (strcmp(word, "lose-flows") == 0)
		put_flows(chain_with_ends);
	else if (strcmp(word, "no-flows") == 0)
		line_no_flows();
	else if (strcmp(word, "idle") == 0)
		line_idle();
	else if (strcmp(word, "seen") == 0)
		line_seen(rest);
	else
		return false;
	return true;
}

static bool taps_line(const char *word, char *rest)
{
	if (strcmp(word, "copied") == 0)
		line_copied(rest);
	else if (strcmp(word, "copied-to") == 0)
		line_copied_to(rest);
	else if (strcmp(word, "no-copies") == 0)
		line_no_copies();
	else if (strcmp(word, "no-device") == 0)
		line_no_device(rest);
	else
		return false;
	return true;
}

bool chains_line(const char *word, char *rest)
{
	if (strcmp(word, "chain") == 0)
		line_chain(rest);
	else if (strcmp(word, "ends") == 0)
		line_ends(rest);
	else if (strcmp(word, "function") == 0)
		line_function(rest);
	else if (strcmp(word, "replica") == 0)
		line_replica(rest);
	else if (strcmp(word, "address") == 0)
		line_address(rest);
	else if (strcmp(word, "gone") == 0)
		line_gone(rest);
	else if (strcmp(word, "from") == 0)
		line_from(rest);
	else if (strcmp(word, "arrives") == 0)
		by_overlay(MK_SFC_TO, true, OWN_VTEP, rest);
	else if (strcmp(word, "returns") == 0)
		by_overlay(MK_SFC_FROM, false, OWN_VTEP, rest);
	else if (strcmp(word, "sent-back") == 0)
		by_overlay(MK_SFC_BACK, true, OWN_VTEP, rest);
	else if (strcmp(word, "stray") == 0)
		by_overlay(MK_SFC_FROM, false, "10.18.0.9", rest);
	else if (strcmp(word, "too-big") == 0)
		by_overlay(MK_SFC_TOO_BIG, true, OWN_VTEP, rest);
	else if (strcmp(word, "later") == 0)
		line_later(rest);
	else if (strcmp(word, "no-mksfc") == 0)
		put_device(0);
	else if (strcmp(word, "answer") == 0)
		line_answer(rest);
	else if (strcmp(word, "established") == 0)
		line_established(rest);
	else if (strcmp(word, "expire") == 0)
		expire_sessions();
	else if (strcmp(word, "both") == 0)
		line_both();
	else if (strcmp(word, "unknown-port") == 0)
		line_unknown_port(rest);
	else if (strcmp(word, "paths") == 0)
		line_paths(rest);
	else if (strcmp(word, "lose-paths") == 0)
		fixture_empty("sfc_paths");
	else if (strcmp(word, "fill-paths") == 0)
		put_other_paths(1, 3);
	else if (strcmp(word, "collide") == 0)
		line_collide();
	else if (strcmp(word, "off") == 0)
		line_off();
	else if (strcmp(word, "counted") == 0)
		line_counted(rest);
	else
		return flows_line(word, rest) || taps_line(word, rest);
	return true;
}
