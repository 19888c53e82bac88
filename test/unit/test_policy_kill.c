// SPDX-License-Identifier: Apache-2.0
/* Random changes of pods, namespaces and policies. After each single write of the policy tables
 * every flow has its old or its new verdict, per pod and direction. An agent may be killed there,
 * so some changes are made by a copy of this process that ends after one of its writes.
 *
 * The rows come from a compiler of this test. It knows two label keys, one label of namespaces, two
 * blocks and two ports. The verdicts are compared with an evaluation of the rules themselves. */
#include <string.h>

#include "base/cleanup.h"
#include "unit/policy_flows.h"
#include "unit/unit.h"

#define RULES_MAX 4
#define KEEPS	  48 /* sets that the compiler keeps until a release */

static const char *const uids[LOCAL] = { "uid-0", "uid-1", "uid-2" };
static const char *const blocks[] = { "10.2.0.0/30", "192.0.2.0/24" };
#define BLOCKS MK_ARRAY_SIZE(blocks)

/* ---- the world ------------------------------------------------------------------------------- */

enum kind { ANY, KEY_A, KEY_B, NAMESPACE, BLOCK, KINDS };

struct rule {
	uint8_t tier, action, kind, value, web_only;
};
struct policy {
	uint8_t isolates, count;
	struct rule rules[RULES_MAX];
};
struct pod {
	uint8_t exists, namespace_, a, b;
};
static struct world {
	struct pod pods[PODS];
	uint8_t label[2]; /* of namespaces */
	struct policy policies[LOCAL][MK_POLICY_DIRECTIONS];
	struct policy kept[KEEPS]; /* the compiler still has rows of these */
	size_t kept_count;
	uint8_t keys[KINDS]; /* keys that classes have */
} world;

static struct rule random_rule(void)
{
	struct rule rule = {
		.tier = (uint8_t)(MK_TIER_ADMIN + any_of(3)),
		.action = MK_POLICY_ACCEPT,
		.kind = (uint8_t)any_of(KINDS),
		.value = (uint8_t)any_of(2),
		.web_only = (uint8_t)any_of(2),
	};

	if (rule.tier == MK_TIER_ADMIN)
		rule.action = (uint8_t)(MK_POLICY_ACCEPT + any_of(3));
	else if (rule.tier == MK_TIER_BASELINE)
		rule.action = (uint8_t)(MK_POLICY_ACCEPT + any_of(2));
	return rule;
}

static struct policy random_policy(void)
{
	struct policy policy = { 0 };

	if (any_of(4) == 0)
		return policy;
	policy.isolates = (uint8_t)any_of(2);
	policy.count = (uint8_t)any_of(RULES_MAX + 1);
	for (int i = 0; i < policy.count; i++)
		policy.rules[i] = random_rule();
	return policy;
}

/* ---- what the rules say ---------------------------------------------------------------------- */

static bool in_block(int block, int peer)
{
	struct mk_cidr cidr = cidr_of(blocks[block]);
	struct mk_ip ip = ip_of(peers[peer]);

	return mk_cidr_contains(&cidr, &ip);
}

static bool is_known(int peer)
{
	return peer < PODS && world.pods[peer].exists;
}

static bool is_unknown_pod(int peer)
{
	return !is_known(peer) && peer <= PODS;
}

static bool selects(const struct rule *rule, const struct pod *pod)
{
	switch (rule->kind) {
	case KEY_A:
		return pod->a == rule->value;
	case KEY_B:
		return pod->b == rule->value;
	case NAMESPACE:
		return world.label[pod->namespace_] == rule->value;
	default:
		return rule->kind == ANY;
	}
}

static bool applies(const struct rule *rule, int peer, uint16_t port)
{
	if (rule->web_only && port != 80)
		return false;
	if (rule->kind == BLOCK)
		return in_block(rule->value, peer);
	if (is_known(peer))
		return selects(rule, &world.pods[peer]);
	/* rule 55: a Deny with a selector also holds for an unknown pod */
	return rule->kind == ANY || (is_unknown_pod(peer) && rule->action == MK_POLICY_DENY);
}

static const struct rule *first_of(const struct policy *policy, uint8_t tier, int peer,
				   uint16_t port)
{
	for (int i = 0; i < policy->count; i++)
		if (policy->rules[i].tier == tier && applies(&policy->rules[i], peer, port))
			return &policy->rules[i];
	return NULL;
}

static bool should_allow(const struct policy *policy, int peer, uint16_t port)
{
	const struct rule *rule = first_of(policy, MK_TIER_ADMIN, peer, port);

	if (rule && rule->action != MK_POLICY_PASS)
		return rule->action == MK_POLICY_ACCEPT;
	if (policy->isolates)
		return first_of(policy, MK_TIER_NETWORK_POLICY, peer, port) != NULL;
	rule = first_of(policy, MK_TIER_BASELINE, peer, port);
	return !rule || rule->action == MK_POLICY_ACCEPT;
}

/* ---- the compiler of this test --------------------------------------------------------------- */

static struct rows {
	uint64_t identities[PODS]; /* 0: none */
	struct mk_peer_row peers[2048];
	struct mk_peer_row blocks[256]; /* peer: the block's number; BLOCKS: any address */
	struct mk_port_row ports[1024];
	uint64_t sets[LOCAL][MK_POLICY_DIRECTIONS];
	size_t peer_count, block_count, port_count;
} now, before;

static uint64_t name_of(const void *bytes, size_t count)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (size_t i = 0; i < count; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3;
	return (hash & ~MK_SET_FLAGS) | 16;
}

static bool has_blocks(const struct policy *policy)
{
	for (int i = 0; i < policy->count; i++)
		if (policy->rules[i].kind == BLOCK)
			return true;
	return false;
}

static uint64_t set_of(const struct policy *policy)
{
	if (!policy->isolates && !policy->count)
		return MK_SET_OPEN;
	return name_of(policy, sizeof(*policy)) | (policy->isolates ? MK_SET_ISOLATES : 0) |
	       (has_blocks(policy) ? MK_SET_HAS_BLOCKS : 0);
}

static uint64_t class_of(const struct pod *pod)
{
	return 1000 + pod->namespace_ * 100u + (world.keys[KEY_A] ? pod->a + 1u : 0) * 10 +
	       (world.keys[KEY_B] ? pod->b + 1u : 0);
}

/* For whom a table is: pods like @pod, unknown pods, pods of no class with a row, or addresses of
 * @block. */
struct party {
	const struct pod *pod;
	bool unknown;
	size_t block; /* BLOCKS: outside all */
	bool is_address;
};

static bool concerns(const struct rule *rule, const struct party *party, uint16_t port)
{
	if (rule->web_only && port != 80)
		return false;
	if (rule->kind == ANY)
		return true;
	if (party->is_address)
		return rule->kind == BLOCK && rule->value == party->block;
	if (rule->kind == BLOCK)
		return false;
	return party->pod ? selects(rule, party->pod)
			  : party->unknown && rule->action == MK_POLICY_DENY;
}

static struct mk_policy_verdict verdict_of(const struct policy *policy, const struct party *party,
					   uint16_t port)
{
	struct mk_policy_verdict verdict = { 0 };

	for (int i = policy->count - 1; i >= 0; i--) {
		const struct rule *rule = &policy->rules[i];
		uint16_t number = (uint16_t)(i + 1);

		if (!concerns(rule, party, port))
			continue;
		if (rule->tier == MK_TIER_ADMIN) {
			verdict.admin = number;
			verdict.admin_action = rule->action;
		} else if (rule->tier == MK_TIER_BASELINE) {
			verdict.baseline = number;
			verdict.baseline_action = rule->action;
		} else {
			verdict.allows = number;
		}
	}
	return verdict;
}

static void add_port(const struct mk_port_row *row)
{
	for (size_t i = 0; i < now.port_count; i++)
		if (now.ports[i].table == row->table &&
		    now.ports[i].prefix_bits == row->prefix_bits)
			return;
	ck_assert_uint_lt(now.port_count, MK_ARRAY_SIZE(now.ports));
	now.ports[now.port_count++] = *row;
}

static uint64_t table_of(const struct policy *policy, const struct party *party)
{
	const struct mk_policy_verdict verdicts[] = { verdict_of(policy, party, 81),
						      verdict_of(policy, party, 80) };
	const uint64_t table = name_of(verdicts, sizeof(verdicts));
	const struct mk_port_row others = { .table = table, .verdict = verdicts[0] };
	const struct mk_port_row web = { .table = table,
					 .prefix_bits = 24,
					 .proto = IPPROTO_TCP,
					 .port = 80,
					 .verdict = verdicts[1] };

	add_port(&others);
	if (memcmp(&verdicts[0], &verdicts[1], sizeof(verdicts[0])) != 0)
		add_port(&web);
	return table;
}

static void add_peer(uint64_t set, uint64_t peer, uint64_t table)
{
	for (size_t i = 0; i < now.peer_count; i++)
		if (now.peers[i].set == set && now.peers[i].peer == peer)
			return;
	ck_assert_uint_lt(now.peer_count, MK_ARRAY_SIZE(now.peers));
	now.peers[now.peer_count++] = (struct mk_peer_row){ set, peer, table };
}

static void add_block(uint64_t set, size_t block, const struct policy *policy)
{
	const struct party party = { .is_address = true, .block = block };

	ck_assert_uint_lt(now.block_count, MK_ARRAY_SIZE(now.blocks));
	now.blocks[now.block_count++] =
		(struct mk_peer_row){ set, block, table_of(policy, &party) };
}

static void compile_set(const struct policy *policy)
{
	const struct party any = { 0 }, unknown = { .unknown = true };
	const uint64_t set = set_of(policy), others = table_of(policy, &any);

	add_peer(set, MK_PEER_ANY_POD, others);
	add_peer(set, MK_PEER_UNKNOWN_POD, table_of(policy, &unknown));
	for (int i = 0; i < PODS; i++) {
		const struct party pod = { .pod = &world.pods[i] };

		if (world.pods[i].exists && table_of(policy, &pod) != others)
			add_peer(set, class_of(&world.pods[i]), table_of(policy, &pod));
	}
	for (size_t i = 0; i <= BLOCKS; i++)
		if (i == BLOCKS || has_blocks(policy))
			add_block(set, i, policy);
}

static void keep(const struct policy *policy)
{
	if (set_of(policy) == MK_SET_OPEN)
		return;
	for (size_t i = 0; i < world.kept_count; i++)
		if (set_of(&world.kept[i]) == set_of(policy))
			return;
	ck_assert_uint_lt(world.kept_count, KEEPS);
	world.kept[world.kept_count++] = *policy;
	for (int i = 0; i < policy->count; i++)
		world.keys[policy->rules[i].kind] = 1;
}

static void keep_current(void)
{
	for (int i = 0; i < LOCAL; i++)
		for (int d = 0; d < MK_POLICY_DIRECTIONS; d++)
			keep(&world.policies[i][d]);
}

static void compile(void)
{
	before = now;
	now = (struct rows){ 0 };
	keep_current();
	for (int i = 0; i < PODS; i++)
		now.identities[i] = world.pods[i].exists ? class_of(&world.pods[i]) : 0;
	for (size_t i = 0; i < world.kept_count; i++)
		compile_set(&world.kept[i]);
	for (int i = 0; i < LOCAL; i++)
		for (int d = 0; d < MK_POLICY_DIRECTIONS; d++)
			now.sets[i][d] = set_of(&world.policies[i][d]);
}

/* ---- the difference between two results ------------------------------------------------------ */

static const struct mk_peer_row *find_peer(const struct mk_peer_row *list, size_t count,
					   const struct mk_peer_row *row)
{
	for (size_t i = 0; i < count; i++)
		if (list[i].set == row->set && list[i].peer == row->peer)
			return &list[i];
	return NULL;
}

static void note_peers(const struct mk_peer_row *from, size_t from_count,
		       const struct mk_peer_row *to, size_t to_count,
		       void (*put)(const struct mk_peer_row *),
		       void (*gone)(const struct mk_peer_row *))
{
	for (size_t i = 0; i < to_count; i++) {
		const struct mk_peer_row *was = find_peer(from, from_count, &to[i]);

		if (!was || was->table != to[i].table)
			put(&to[i]);
	}
	for (size_t i = 0; i < from_count; i++)
		if (!find_peer(to, to_count, &from[i]))
			gone(&from[i]);
}

static void put_peer_row(const struct mk_peer_row *row)
{
	put_peer(row->set, row->peer, row->table);
}

static void gone_peer_row(const struct mk_peer_row *row)
{
	gone_peer(row->set, row->peer);
}

static void put_block_row(const struct mk_peer_row *row)
{
	put_block(row->set, row->peer == BLOCKS ? NULL : blocks[row->peer], row->table);
}

static void gone_block_row(const struct mk_peer_row *row)
{
	gone_block(row->set, row->peer == BLOCKS ? NULL : blocks[row->peer]);
}

static bool has_port(const struct rows *rows, const struct mk_port_row *row)
{
	for (size_t i = 0; i < rows->port_count; i++)
		if (rows->ports[i].table == row->table &&
		    rows->ports[i].prefix_bits == row->prefix_bits)
			return true;
	return false;
}

static void note_difference(void)
{
	for (size_t i = 0; i < now.port_count; i++)
		if (!has_port(&before, &now.ports[i]))
			put_port(&now.ports[i]);
	for (size_t i = 0; i < before.port_count; i++)
		if (!has_port(&now, &before.ports[i]))
			gone_port(&before.ports[i]);
	note_peers(before.peers, before.peer_count, now.peers, now.peer_count, put_peer_row,
		   gone_peer_row);
	note_peers(before.blocks, before.block_count, now.blocks, now.block_count, put_block_row,
		   gone_block_row);
	for (int i = 0; i < PODS; i++) {
		if (now.identities[i] && now.identities[i] != before.identities[i])
			put_identity(peers[i], now.identities[i], NULL);
		if (!now.identities[i] && before.identities[i])
			gone_identity(peers[i]);
	}
	for (int i = 0; i < LOCAL; i++)
		put_pod(uids[i], uids[i], now.sets[i][MK_POLICY_INGRESS],
			now.sets[i][MK_POLICY_EGRESS]);
}

/* ---- changes --------------------------------------------------------------------------------- */

static void change_pod(void)
{
	struct pod *pod = &world.pods[any_of(PODS)];

	pod->a = (uint8_t)any_of(3);
	pod->b = (uint8_t)any_of(2);
}

static void come_or_go(void)
{
	struct pod *pod = &world.pods[LOCAL + any_of(PODS - LOCAL)];

	pod->exists = !pod->exists;
}

static void change_policies(void)
{
	uint32_t pods = 1 + any_of(LOCAL);

	for (uint32_t i = 0; i < pods; i++)
		world.policies[any_of(LOCAL)][any_of(MK_POLICY_DIRECTIONS)] = random_policy();
}

static void forget_kept(void)
{
	world.kept_count = 0;
	memset(world.keys, 0, sizeof(world.keys));
}

static void change_something(void)
{
	uint32_t what = any_of(10);

	if (world.kept_count + LOCAL * MK_POLICY_DIRECTIONS > KEEPS || what == 9)
		forget_kept();
	else if (what < 3)
		change_pod();
	else if (what < 5)
		come_or_go();
	else if (what < 7)
		world.label[any_of(2)] ^= 1;
	else
		change_policies();
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void begin(void)
{
	for (int i = 0; i < PODS; i++)
		world.pods[i] = (struct pod){ .exists = i < LOCAL || any_of(2),
					      .namespace_ = (uint8_t)any_of(2),
					      .a = (uint8_t)any_of(3),
					      .b = (uint8_t)any_of(2) };
	for (int i = 0; i < LOCAL; i++)
		add_sandbox(uids[i], uids[i], peers[i], 11 + i);
}

/* The new agent knows the keys of the former one, but none of the sets that are not in use. */
static void restart(void)
{
	forget_rows();
	policy_restart();
	world.kept_count = 0;
	now = (struct rows){ 0 };
	compile();
	before = (struct rows){ 0 };
	note_difference();
}

static void run_change(int number)
{
	flows_begin(number);
	compile();
	EACH_FLOW(pod, d, peer, port)
	change.shall_be.allowed[pod][d][peer][port] =
		should_allow(&world.policies[pod][d], peer, ports[port]);
	note_difference();
	if (any_of(3) == 0) {
		flows_die_at(1 + (int)any_of(10), try_apply);
		restart();
		flows_check();
		flows_read();
	}
	flows_watch();
	apply_rows();
	flows_check_result();
	policy_now_ns += any_of(3) * S / 2;
	ck_assert_int_ge(policy_collect(policy_now_ns), 0);
	if (any_of(8) == 0)
		mk_policy_sync_release(policy_sync, policy_now_ns);
}

/* Neither a row nor a table of a former set stays. */
static void check_rest(void)
{
	forget_kept();
	compile();
	note_difference();
	mk_policy_sync_release(policy_sync, policy_now_ns);
	apply_rows();
	ck_assert_int_eq(policy_collect(policy_now_ns + S), 0);
	ck_assert_uint_eq(policy_entries_of(&policy_tables.peers), now.peer_count);
	ck_assert_uint_eq(policy_entries_of(&policy_tables.blocks), now.block_count);
	ck_assert_uint_eq(policy_entries_of(&policy_tables.ports), now.port_count);
}

START_TEST(test_each_write)
{
	flows_seed(20262);
	begin();
	for (int number = 0; number < change.count; number++) {
		run_change(number);
		change_something();
	}
	flows_end();
	check_rest();
}
END_TEST

static void setup(void)
{
	policy_room = 8192;
	policy_setup();
}

UNIT_SUITE("policy_kill")
{
	TCase *tcase = unit_case(suite, "each write", setup, policy_teardown);

	tcase_set_timeout(tcase, 300);
	tcase_add_test(tcase, test_each_write);
}
