// SPDX-License-Identifier: Apache-2.0
#include "bpf/policy.h"

#include <linux/if_ether.h>
#include <stdio.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "base/cleanup.h"
#include "bpf/chains.h"
#include "bpf/network.h"
#include "bpf/run.h"
#include "rows.h"

static const struct policy_row *row;
static struct mk_ip sender; /* the VTEP from which packets come by the overlay */
static const char *line;

#define CHECK(condition, ...)                                                                    \
	do {                                                                                     \
		char said_[256];                                                                 \
		snprintf(said_, sizeof(said_), __VA_ARGS__);                                     \
		ck_assert_msg(condition, "%s: '%s': %s", row ? row->rule : "", line ? line : "", \
			      said_);                                                            \
	} while (0)

static void put(const char *map, const void *key, const void *value)
{
	CHECK(row_update(fixture_map(map), key, value, BPF_ANY) == 0, "cannot write %s", map);
}

/* ---- tables of ports ------------------------------------------------------------------------- */

static const struct table_row {
	const char *name;
	uint8_t bits; /* of protocol and port */
	uint8_t proto;
	uint16_t port;
	struct mk_policy_verdict verdict;
} table_rows[] = {
	{ "none", 0, 0, 0, { 0 } },
	{ "all", 0, 0, 0, { .allows = 1 } },
	{ "web", 0, 0, 0, { 0 } },
	{ "web", 24, IPPROTO_TCP, 80, { .allows = 2 } },
	{ "tcp", 0, 0, 0, { 0 } },
	{ "tcp", 8, IPPROTO_TCP, 0, { .allows = 3 } },
	{ "dns", 0, 0, 0, { 0 } },
	{ "dns", 24, IPPROTO_UDP, 53, { .allows = 4 } },
	{ "sctp", 0, 0, 0, { 0 } },
	{ "sctp", 24, IPPROTO_SCTP, 9000, { .allows = 9 } },
	{ "range", 0, 0, 0, { 0 } },
	{ "range", 21, IPPROTO_TCP, 8080, { .allows = 2 } },
	{ "but", 0, 0, 0, { 0 } }, /* all of TCP, except port 80 */
	{ "but", 8, IPPROTO_TCP, 0, { .allows = 3 } },
	{ "but", 24, IPPROTO_TCP, 80, { 0 } },
	{ "accept", 0, 0, 0, { .admin = 5, .admin_action = MK_POLICY_ACCEPT } },
	{ "deny", 0, 0, 0, { .admin = 6, .allows = 1, .admin_action = MK_POLICY_DENY } },
	{ "deny4", 0, 0, 0, { .admin = 4, .allows = 1, .admin_action = MK_POLICY_DENY } },
	{ "pass", 0, 0, 0, { .admin = 4, .admin_action = MK_POLICY_PASS } },
	{ "pass-all", 0, 0, 0, { .admin = 4, .allows = 1, .admin_action = MK_POLICY_PASS } },
	{ "late", 0, 0, 0, { .baseline = 8, .baseline_action = MK_POLICY_DENY } },
	{ "late7", 0, 0, 0, { .baseline = 7, .baseline_action = MK_POLICY_ACCEPT } },
	{ "late-pass", 0, 0, 0, { .baseline = 7, .baseline_action = MK_POLICY_PASS } },
	{ "pass-late",
	  0,
	  0,
	  0,
	  { .admin = 4,
	    .baseline = 8,
	    .admin_action = MK_POLICY_PASS,
	    .baseline_action = MK_POLICY_DENY } },
	{ "accept-late",
	  0,
	  0,
	  0,
	  { .admin = 4,
	    .baseline = 8,
	    .admin_action = MK_POLICY_ACCEPT,
	    .baseline_action = MK_POLICY_DENY } },
	{ "both-late", 0, 0, 0, { .baseline = 8, .allows = 1, .baseline_action = MK_POLICY_DENY } },
};

static void put_row(uint64_t table, const struct table_row *of,
		    const struct mk_policy_verdict *audited, uint16_t chain)
{
	struct mk_policy_port_key key = { .prefix_bits = MK_POLICY_TABLE_BITS + of->bits,
					  .proto = of->proto };
	const uint16_t of_chain = of->verdict.allows ? chain : 0;
	const struct mk_policy_port value = { of->verdict, *audited, of_chain, of_chain, 0 };
	const uint16_t port = htons(of->port);

	memcpy(key.table, &table, sizeof(table));
	memcpy(key.port, &port, sizeof(port));
	put("policy_ports", &key, &value);
}

static size_t table_index(const char *name)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(table_rows); i++)
		if (strcmp(table_rows[i].name, name) == 0)
			return i;
	CHECK(false, "no table '%s'", name);
	return 0;
}

/* The table @name, whose flows chain @chain takes. */
static uint64_t chained_table(const char *name, uint16_t chain)
{
	static const struct mk_policy_verdict none;
	uint64_t id = 0x100000000 * (table_index(name) + 1) + 77 + 0x1000000 * (uint64_t)chain;

	for (size_t i = 0; i < MK_ARRAY_SIZE(table_rows); i++)
		if (strcmp(table_rows[i].name, name) == 0)
			put_row(id, &table_rows[i], &none, chain);
	return id;
}

/* "all~none": the table `all` is in force, and `none` with the audited policies. "all+2": of chain
 * 2. */
static uint64_t table_id(const char *name)
{
	char in_force[16], audited[16] = "";
	const char *plus = strchr(name, '+');
	uint64_t id;

	CHECK(sscanf(name, "%15[^~+]~%15s", in_force, audited) >= 1, "bad table");
	if (plus)
		return chained_table(in_force, (uint16_t)strtoul(plus + 1, NULL, 10));
	id = 0x100000000 * (table_index(in_force) + 1) + 77;
	if (!audited[0])
		return id;
	id += 0x1000 * (table_index(audited) + 1);
	put_row(id, &table_rows[table_index(in_force)], &table_rows[table_index(audited)].verdict,
		0);
	return id;
}

static void put_tables(void)
{
	static const struct mk_policy_verdict none;

	for (size_t i = 0; i < MK_ARRAY_SIZE(table_rows); i++)
		put_row(table_id(table_rows[i].name), &table_rows[i], &none, 0);
}

/* ---- sets ------------------------------------------------------------------------------------ */

#define SETS 8
static struct {
	char name[16];
	uint64_t id;
} sets[SETS];

static uint64_t set_id(const char *name)
{
	if (strcmp(name, "open") == 0)
		return MK_SET_OPEN;
	if (strcmp(name, "pending") == 0)
		return MK_SET_PENDING;
	for (int i = 0; i < SETS; i++)
		if (strcmp(sets[i].name, name) == 0)
			return sets[i].id;
	CHECK(false, "no set '%s'", name);
	return 0;
}

static void put_peer(uint64_t set, uint64_t peer, const char *table)
{
	const struct mk_policy_peer_key key = { .set = set, .peer = peer };
	struct mk_policy_peer value;

	if (strcmp(table, "-") == 0) {
		row_delete(fixture_map("policy_peers"), &key);
		return;
	}
	value.table = table_id(table);
	put("policy_peers", &key, &value);
}

static void put_block(uint64_t set, const char *net, unsigned bits, const char *table)
{
	struct mk_policy_block_key key = { .prefix_bits = MK_POLICY_SET_BITS };
	struct mk_policy_peer value;

	memcpy(key.set, &set, sizeof(set));
	if (net) {
		const struct mk_cidr cidr = family_cidr(net, bits);

		key.prefix_bits += cidr.prefix_bits;
		key.addr = mk_ip_to_addr(&cidr.ip);
	}
	if (strcmp(table, "-") == 0) {
		row_delete(fixture_map("policy_blocks"), &key);
		return;
	}
	value.table = table_id(table);
	put("policy_blocks", &key, &value);
}

static void put_peer_of_text(uint64_t set, const char *peer, const char *table)
{
	unsigned long number = strtoul(peer, NULL, 10);
	char net[32];
	unsigned bits;

	if (strcmp(peer, "any") == 0)
		put_peer(set, MK_PEER_ANY_POD, table);
	else if (strcmp(peer, "unknown") == 0)
		put_peer(set, MK_PEER_UNKNOWN_POD, table);
	else if (strcmp(peer, "*") == 0)
		put_block(set, NULL, 0, table);
	else if (sscanf(peer, "%31[0-9.]/%u", net, &bits) == 2)
		put_block(set, net, bits, table);
	else
		put_peer(set, 1000 + number, table);
}

static void line_set(char *words)
{
	char *name = strtok(words, " "), *word;
	uint64_t set = 100;
	int at = 0;

	while (sets[at].name[0] && strcmp(sets[at].name, name) != 0)
		at++;
	set += (uint64_t)at;
	/* the flags are part of the id */
	if (strstr(line, " isolates"))
		set |= MK_SET_ISOLATES;
	if (strstr(line, " audits"))
		set |= MK_SET_AUDITS;
	if (strstr(line, " audits-isolated"))
		set |= MK_SET_AUDIT_ISOLATES;
	if (strstr(line, " only"))
		set |= MK_SET_ONLY_AUDITS;
	if (strchr(line, '/'))
		set |= MK_SET_HAS_BLOCKS;
	if (strchr(line, '+'))
		set |= MK_SET_HAS_CHAINS;
	snprintf(sets[at].name, sizeof(sets[at].name), "%s", name);
	sets[at].id = set;
	put_peer(set, MK_PEER_ANY_POD, "none");
	put_peer(set, MK_PEER_UNKNOWN_POD, "none");
	put_block(set, NULL, 0, "none");
	while ((word = strtok(NULL, " "))) {
		char *equals = strchr(word, '=');

		if (!equals)
			continue;
		*equals = '\0';
		put_peer_of_text(set, word, equals + 1);
	}
}

/* ---- pods ------------------------------------------------------------------------------------ */

static struct mk_pod_policy pod_policy(const char *address, __u32 *slot)
{
	struct mk_pod_policy policy;
	const struct mk_addr addr = fixture_addr(address);

	*slot = mk_pod_slot(&addr, FIXTURE_POD_SLOTS);
	CHECK(row_lookup(fixture_map("pod_policies"), slot, &policy) == 0, "no slot");
	policy.addr = addr;
	return policy;
}

static void switch_on(void)
{
	const struct mk_policy_state state = { .on = 1, .listed = MK_POLICY_LISTED_SOME };
	__u32 zero = 0;

	put("policy_state", &zero, &state);
}

static void line_emptied(void)
{
	const struct mk_policy_state nothing = { 0 };
	__u32 zero = 0;

	put("policy_state", &zero, &nothing);
}

static void line_pod(const char *words)
{
	char address[32], in[16], out[16];
	struct mk_pod_policy policy;
	__u32 slot;

	CHECK(sscanf(words, "%31s in=%15s out=%15s", address, in, out) == 3, "bad line");
	policy = pod_policy(address, &slot);
	policy.ifindex = 1;
	policy.set[MK_POLICY_INGRESS] = set_id(in);
	policy.set[MK_POLICY_EGRESS] = set_id(out);
	put("pod_policies", &slot, &policy);
	switch_on();
}

static void line_forget(const char *address)
{
	__u32 slot;
	struct mk_pod_policy policy = pod_policy(address, &slot);

	policy.ifindex = 9;
	put("pod_policies", &slot, &policy);
}

static void line_forbid(const char *address)
{
	__u32 slot;
	struct mk_pod_policy policy = pod_policy(address, &slot);

	policy.generation++;
	put("pod_policies", &slot, &policy);
}

static void put_identity(const char *address, uint64_t class_id, const char *counts_as)
{
	const struct mk_addr key = fixture_addr(address);
	struct mk_policy_identity value = { .class_id = class_id };

	if (counts_as)
		value.counts_as = fixture_addr(counts_as);
	put("policy_identities", &key, &value);
}

void policy_start(void)
{
	row = NULL;
	sender = (struct mk_ip){ 0 };
	memset(sets, 0, sizeof(sets));
	put_tables();
	chains_start();
	put_identity("10.244.1.2", 1002, NULL);
	put_identity("10.244.1.3", 1003, NULL);
	put_identity("10.244.2.7", 1007, NULL);
	put_identity("10.18.0.2", 0, "192.168.99.12");
	put_identity("10.244.2.1", 0, "192.168.99.12");
	for (__u32 slot = 2; slot < 4; slot++) {
		char address[32];

		snprintf(address, sizeof(address), "10.244.1.%u", slot);
		const struct mk_pod_policy policy = { .addr = fixture_addr(address), .ifindex = 1 };

		put("pod_policies", &slot, &policy);
	}
}

/* ---- packets --------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	struct frame_options options;
} kinds[] = {
	{ "syn", { 0 } },
	{ "ack", { .tcp_flags = ACK, .payload_bytes = 9 } },
	{ "synack", { .tcp_flags = SYN | ACK, .sctp_chunk = SCTP_INIT_ACK } },
	{ "rst", { .tcp_flags = RST } },
	{ "fin", { .tcp_flags = FIN | ACK } },
	{ "reply", { .echo_reply = true } },
	{ "data", { .sctp_chunk = SCTP_DATA, .payload_bytes = 20 } },
	{ "first", { .payload_bytes = 48, .id = 7 } },
	{ "later", { .payload_bytes = 48, .id = 7 } },
	{ "fits", { .packet_bytes = 1450 } },
	{ "long", { .packet_bytes = 1451 } },
	{ "whole", { .packet_bytes = 1451, .fragment = DF } },
	{ "dies", { .ttl = 1 } },
	{ "solicits", { .ttl = 255, .payload_bytes = 16 } },
};

/* Make an ICMPv6 packet a neighbour solicitation. */
static struct frame as_solicitation(struct frame frame)
{
	frame.byte[ETH_HLEN + 40] = 135;
	frame_fix_icmp_checksum(&frame);
	return frame;
}

static struct frame make_frame(const char *flow, const char *kind)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(kinds); i++) {
		struct frame frame;

		if (strcmp(kinds[i].name, kind) != 0)
			continue;
		frame = frame_make(flow, &kinds[i].options);
		frame.id = 7;
		if (strcmp(kind, "first") == 0)
			return frame_fragment(&frame, 0, 24);
		if (strcmp(kind, "solicits") == 0)
			return as_solicitation(frame);
		return strcmp(kind, "later") == 0 ? frame_fragment(&frame, 24, 48) : frame;
	}
	CHECK(false, "no kind '%s'", kind);
	return (struct frame){ 0 };
}

static const char *const reasons[] = {
#define NAME(name, text) #name,
	MK_DROP_REASONS(NAME)
#undef NAME
};

static void expect_drop(enum mk_hook hook, enum where where, uint64_t before, const char *reason)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(reasons); i++) {
		if (strcmp(reasons[i], reason) != 0)
			continue;
		CHECK(where == DROPPED, "went %s", where_name(where));
		CHECK(fixture_drops(hook, (enum mk_drop_reason)i) == before + 1,
		      "dropped for another reason");
		return;
	}
	CHECK(false, "no reason '%s'", reason);
}

static uint64_t drops_of(enum mk_hook hook, const char *reason)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(reasons); i++)
		if (strcmp(reasons[i], reason) == 0)
			return fixture_drops(hook, (enum mk_drop_reason)i);
	return 0;
}

const char *policy_why(enum mk_hook hook)
{
	static char text[128];

	text[0] = '\0';
	for (size_t i = 0; i < MK_ARRAY_SIZE(reasons); i++)
		if (fixture_drops(hook, (enum mk_drop_reason)i))
			snprintf(text + strlen(text), sizeof(text) - strlen(text), " %s",
				 reasons[i]);
	return text;
}

static struct frame last; /* that left */
static enum where last_where;

static void send_packet(enum mk_hook hook, const struct frame *in, char *outcome)
{
	uint64_t before = drops_of(hook, outcome), sent;
	const bool drops = outcome[0] >= 'A' && outcome[0] <= 'Z';
	const bool is_error = strncmp(outcome, "icmp-error ", 11) == 0; /* the packet is dropped */
	struct frame out;
	enum where where;

	if (chains_expect(hook, in, outcome, &last))
		return;
	sent = fixture_drops_total();
	where = fixture_send(hook, in, &out);
	if (drops) {
		expect_drop(hook, where, before, outcome);
		return;
	}
	CHECK(where != DROPPED && (is_error || fixture_drops_total() == sent), "dropped, among%s",
	      policy_why(hook));
	if (strcmp(outcome, "passes") != 0)
		CHECK(strcmp(frame_flow(&out), outcome) == 0, "left as %s", frame_flow(&out));
	last = out;
	last_where = where;
}

const struct frame *policy_last_frame(void)
{
	return &last;
}

void policy_send(enum mk_hook hook, const struct frame *frame, char *outcome)
{
	const struct frame in = *frame; /* it may be the last one */

	send_packet(hook, &in, outcome);
}

const char *policy_line_now(void)
{
	static char text[256];

	snprintf(text, sizeof(text), "%s: '%s'", row ? row->rule : "", line ? line : "");
	return text;
}

static const char *const hooks[] = { "pod", "host", "overlay", "uplink" };

/* Cut the last word off @text if it is a kind. */
static const char *take_kind(char *text)
{
	char *end = strrchr(text, ' ');

	for (size_t i = 0; end && i < MK_ARRAY_SIZE(kinds); i++) {
		if (strcmp(kinds[i].name, end + 1) != 0)
			continue;
		*end = '\0';
		return kinds[i].name;
	}
	return "syn";
}

struct frame policy_frame(char *text, char **outcome)
{
	char *equals = strstr(text, " = "), *about = strstr(text, " about ");
	struct frame_options options = { .icmp_type = 3, .icmp_code = 1 };
	struct frame quoted;
	const char *kind;
	char flow[96];

	CHECK(equals != NULL, "no outcome");
	*equals = '\0';
	*outcome = equals + 3;
	kind = take_kind(text);
	if (!about)
		return make_frame(text, kind);
	*about = '\0';
	quoted = make_frame(about + 7, kind);
	options.quote = &quoted;
	snprintf(flow, sizeof(flow), "icmp %s", text);
	return frame_make(flow, &options);
}

void policy_packet(enum mk_hook hook, char *text)
{
	char *outcome;
	struct frame frame = policy_frame(text, &outcome);

	if (hook == MK_HOOK_OVERLAY && sender.family != AF_UNSPEC)
		memcpy(frame.byte + ETH_ALEN, mk_mac_of_ip(&sender).byte, ETH_ALEN);
	send_packet(hook, &frame, outcome);
}

/* ---- other lines ----------------------------------------------------------------------------- */

static void line_service(char *text, bool local)
{
	const char *backends[] = { NULL, NULL };
	char *arrow = strstr(text, " > ");

	*arrow = '\0';
	backends[0] = arrow + 3;
	fixture_service(text, MK_SCOPE_INTERNAL, 0, backends, local, 1);
	fixture_service(text, MK_SCOPE_EXTERNAL,
			MK_FRONTEND_MAGLEV | (local ? 0 : MK_FRONTEND_MASQUERADE), backends, local,
			1);
}

static void line_socket(const char *words)
{
	static int network; /* of this row: each runs in a process of its own */
	char from[48], to[48], address[48];

	CHECK(sscanf(words, "%47s %47s", from, to) == 2, "bad line");
	snprintf(address, sizeof(address), "%s", from);
	*strchr(address, ':') = '\0';
	if (!network) {
		network = network_of_own();
		network_reaches_all();
	}
	if (strncmp(address, "10.244.1.", 9) == 0)
		network_of_pod(address, network);
	network_socket(from, to);
}

static __u8 tier_of(const char *name)
{
	static const char *const tiers[] = { "none", "admin", "network-policy", "baseline" };
	__u8 tier = 0;

	while (tier < 3 && strcmp(tiers[tier], name) != 0)
		tier++;
	return tier;
}

static void line_count(const char *words)
{
	struct mk_policy_count_key key = { 0 };
	struct mk_policy_count value = { 0 };
	char set[16], tier[16], verdict[16];
	unsigned rule, packets;

	CHECK(sscanf(words, "%15s %15s %u %15s %u", set, tier, &rule, verdict, &packets) == 5,
	      "bad line");
	key.set = set_id(set);
	key.rule = (__u16)rule;
	key.audited = strcmp(verdict, "audited") == 0;
	key.denied = key.audited || strcmp(verdict, "denied") == 0;
	key.tier = tier_of(tier);
	if (row_lookup(fixture_map("policy_counts"), &key, &value) < 0) {
		key.direction = MK_POLICY_EGRESS;
		(void)row_lookup(fixture_map("policy_counts"), &key, &value);
	}
	CHECK(value.packets == packets, "%u counted", (unsigned)value.packets);
}

/* The event of the drop before this line. */
static struct mk_drop_event dropped;

static int remember(void *ctx, void *data, size_t size)
{
	struct mk_drop_event *event = ctx, room;
	const void *row_ = mk_event_row("drop_events", data, size, &room);

	if (row_)
		*event = *(const struct mk_drop_event *)row_;
	return 0;
}

/* Report drops from now on, or read what was reported. */
static void read_events(void)
{
	const struct mk_runtime loud = { .report_drops = 1 };
	struct ring_buffer *ring =
		ring_buffer__new(fixture_map("drop_events"), remember, &dropped, NULL);

	CHECK(ring != NULL, "no ring buffer");
	fixture_runtime(&loud);
	dropped = (struct mk_drop_event){ 0 };
	ring_buffer__consume(ring);
	ring_buffer__free(ring);
}

static void line_event(const char *words, bool audited)
{
	char direction[16], set[16], tier[16], client[48], server[48];
	struct mk_addr ends[2];
	unsigned rule;

	read_events();
	CHECK(sscanf(words, "%15s %15s %15s %u %47s > %47s", direction, set, tier, &rule, client,
		     server) == 6,
	      "bad line");
	ends[0] = fixture_addr(client);
	ends[1] = fixture_addr(server);
	CHECK(dropped.decided.set == set_id(set) && dropped.decided.tier == tier_of(tier) &&
		      dropped.decided.rule == rule && dropped.decided.denied,
	      "set %llx tier %u rule %u", (unsigned long long)dropped.decided.set,
	      dropped.decided.tier, dropped.decided.rule);
	CHECK(dropped.decided.audited == audited, "audited %u", dropped.decided.audited);
	CHECK((dropped.decided.direction == MK_POLICY_EGRESS) == (direction[0] == 'e'),
	      "direction %u", dropped.decided.direction);
	CHECK(mk_addr_eq(&ends[0], &dropped.client) && mk_addr_eq(&ends[1], &dropped.server),
	      "other ends");
}

static void line_no_event(void)
{
	const struct mk_drop_event none = { 0 };

	read_events();
	CHECK(dropped.reason != 0, "not reported");
	CHECK(memcmp(&dropped.decided, &none.decided, sizeof(none.decided)) == 0 &&
		      mk_addr_eq(&dropped.client, &none.client),
	      "set %llx", (unsigned long long)dropped.decided.set);
}

static void line_happened(const char *words)
{
	static const char *const events[MK_POLICY_EVENTS] = {
		[MK_POLICY_RECHECK] = "recheck",
		[MK_POLICY_TAKEN_UP] = "taken-up",
		[MK_POLICY_UNKNOWN_PEER] = "unknown-peer",
	};
	cleanup_free __u64 *counts = calloc((size_t)libbpf_num_possible_cpus(), sizeof(*counts));
	__u64 times, found = 0;
	char event[16];
	__u32 key = 0;

	CHECK(sscanf(words, "%15s %llu", event, &times) == 2, "bad line");
	while (key < MK_POLICY_EVENTS - 1 && strcmp(events[key], event) != 0)
		key++;
	CHECK(bpf_map_lookup_elem(fixture_map("policy_events"), &key, counts) == 0, "no counter");
	for (int cpu = 0; cpu < libbpf_num_possible_cpus(); cpu++)
		found += counts[cpu];
	CHECK(found == times, "%llu times", found);
}

static void line_sessions(const char *words)
{
	unsigned there = fixture_count("sessions") + fixture_count("sessions_young");

	CHECK(there == strtoul(words, NULL, 10), "%u entries", there);
}

static void line_nobody(const char *address)
{
	const struct mk_addr key = fixture_addr(address);

	row_delete(fixture_map("policy_identities"), &key);
}

static void line_shared(void)
{
	const struct mk_runtime shared = { .ranges_shared = 1 };

	fixture_runtime(&shared);
}

static void line_hostport(char *text)
{
	char *arrow = strstr(text, " > ");

	*arrow = '\0';
	fixture_host_port(text, arrow + 3);
}

static void run_line(const char *word, char *rest)
{
	for (size_t hook = 0; hook < MK_ARRAY_SIZE(hooks); hook++)
		if (strcmp(word, hooks[hook]) == 0 && strstr(rest, " = ")) {
			policy_packet((enum mk_hook)hook, rest);
			return;
		}
	if (strcmp(word, "pod") == 0)
		line_pod(rest);
	else if (strcmp(word, "set") == 0)
		line_set(rest);
	else if (strcmp(word, "forget") == 0)
		line_forget(rest);
	else if (strcmp(word, "forbid") == 0)
		line_forbid(rest);
	else if (strcmp(word, "emptied") == 0)
		line_emptied();
	else if (strcmp(word, "nobody") == 0)
		line_nobody(rest);
	else if (strcmp(word, "service") == 0 || strcmp(word, "local") == 0)
		line_service(rest, word[0] == 'l');
	else if (strcmp(word, "vip") == 0)
		fixture_vip(rest);
	else if (strcmp(word, "hostport") == 0)
		line_hostport(rest);
	else if (strcmp(word, "node") == 0)
		fixture_peer_address(rest, "10.18.0.2");
	else if (strcmp(word, "by") == 0)
		CHECK(mk_ip_parse(rest, &sender) == 0, "no address");
	else if (strcmp(word, "shared") == 0)
		line_shared();
	else if (strcmp(word, "socket") == 0)
		line_socket(rest);
	else if (strcmp(word, "listens") == 0)
		network_socket(rest, NULL); /* in the pod's namespace since `socket` */
	else if (strcmp(word, "sessions") == 0)
		line_sessions(rest);
	else if (strcmp(word, "count") == 0)
		line_count(rest);
	else if (strcmp(word, "follow") == 0)
		read_events();
	else if (strcmp(word, "event") == 0)
		line_event(rest, false);
	else if (strcmp(word, "audit-event") == 0)
		line_event(rest, true);
	else if (strcmp(word, "happened") == 0)
		line_happened(rest);
	else if (strcmp(word, "undecided") == 0)
		line_no_event();
	else if (strcmp(word, "went") == 0)
		CHECK(strcmp(where_name(last_where), rest) == 0, "%s", where_name(last_where));
	else if (strcmp(word, "ttl") == 0)
		CHECK(frame_ttl(&last) == strtoul(rest, NULL, 10), "%u", frame_ttl(&last));
	else
		CHECK(chains_line(word, rest), "unknown line");
}

void policy_run(const struct policy_row *of)
{
	char text[256];

	row = of;
	for (int i = 0; i < POLICY_LINES && of->lines[i]; i++) {
		char *rest;

		line = of->lines[i];
		snprintf(text, sizeof(text), "%s", line);
		rest = strchr(text, ' ');
		if (rest)
			*rest++ = '\0';
		run_line(text, rest ? rest : text + strlen(text));
	}
}
