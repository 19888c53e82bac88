// SPDX-License-Identifier: Apache-2.0
/* The sync of the policy tables: what is written, when, and which pods evaluate their open sessions
 * again. Sets and tables have small numbers here. */
#include "base/cleanup.h"
#include "unit/policy_two_pods.h"

/* ---- rows ------------------------------------------------------------------------------------ */

START_TEST(test_begin)
{
	struct mk_pod_policy a, b;

	ck_assert_uint_eq(policy_state_now().on, 0);
	ck_assert_uint_eq(policy_state_now().listed, MK_POLICY_LISTS_AWAITED);
	begin();
	a = policy_slot(A);
	b = policy_slot(B);
	ck_assert_uint_eq(a.set[MK_POLICY_INGRESS], SET);
	ck_assert_uint_eq(a.set[MK_POLICY_EGRESS], MK_SET_OPEN);
	ck_assert_uint_eq(a.ifindex, 11);
	ck_assert_uint_eq(a.generation, 1);
	/* a pod without set has an entry, too: otherwise it would count as pending */
	ck_assert_uint_eq(b.ifindex, 12);
	ck_assert_uint_eq(b.set[MK_POLICY_INGRESS], MK_SET_OPEN);
	ck_assert_uint_eq(b.generation, 1);
	ck_assert_uint_eq(policy_state_now().on, 1);
	ck_assert(web(C) && !web(B) && !web("10.2.0.77") && !web("192.0.2.1"));
	ck_assert(!policy_allows(A, MK_POLICY_INGRESS, C, 81));
	/* ports, the set, identities, pods by UID and by name, the namespace */
	ck_assert_uint_eq(policy_counts.put, 4 + 4 + 3 + 4 + 1);
	apply_rows();
	ck_assert_uint_eq(policy_counts.put + policy_counts.switched + policy_counts.raised, 0);
}
END_TEST

START_TEST(test_expected)
{
	struct mk_policy_pod_key pod = { "shop/a/uid-a" };
	struct mk_policy_namespace_key shop = { "shop" };
	struct mk_policy_namespace directions;
	struct mk_policy_expected sets;

	put_pod(NULL, "static", SET, NEXT);
	put_set(NEXT, WEB);
	begin();
	ck_assert_int_eq(mk_table_get(&policy_tables.expected, &pod, &sets, &policy_err), 0);
	ck_assert_uint_eq(sets.set[MK_POLICY_INGRESS], SET);
	pod = (struct mk_policy_pod_key){ "shop/static" };
	ck_assert_int_eq(mk_table_get(&policy_tables.expected, &pod, &sets, &policy_err), 0);
	ck_assert_uint_eq(sets.set[MK_POLICY_EGRESS], NEXT);
	ck_assert_int_eq(mk_table_get(&policy_tables.namespaces, &shop, &directions, &policy_err),
			 0);
	ck_assert_uint_eq(directions.directions, 1);
}
END_TEST

/* A runtime may give ADD no UID: the pod's name has its sets, too. A later pod of that name keeps
 * its entry when the former pod goes. */
START_TEST(test_name)
{
	struct mk_policy_pod_key pod = { "shop/a" };
	struct mk_policy_expected sets;

	begin();
	put_set(NEXT, WEB);
	put_pod("uid-2", "a", NEXT, MK_SET_OPEN);
	apply_rows();
	gone_pod("uid-a", "a");
	apply_rows();
	ck_assert_int_eq(policy_collect(policy_now_ns + S), 0);
	ck_assert_int_eq(mk_table_get(&policy_tables.expected, &pod, &sets, &policy_err), 0);
	ck_assert_uint_eq(sets.set[MK_POLICY_INGRESS], NEXT);
	forget_sandboxes();
	add_sandbox(NULL, "a", A, 11);
	apply_rows();
	ck_assert_uint_eq(policy_slot(A).set[MK_POLICY_INGRESS], NEXT);
	/* a row of its own */
	put_pod(NULL, "a", SET, MK_SET_OPEN);
	gone_pod("uid-2", "a");
	apply_rows();
	ck_assert_uint_eq(policy_slot(A).set[MK_POLICY_INGRESS], SET);
	gone_pod(NULL, "a");
	gone_pod("uid-b", "b");
	apply_rows();
	ck_assert_int_eq(policy_collect(policy_now_ns + S), 0);
	ck_assert_uint_eq(policy_entries_of(&policy_tables.expected), 0);
}
END_TEST

/* Of two families each has its own addresses; peers, ports and blocks of any address are in
 * both. */
START_TEST(test_family)
{
	begin();
	put_identity("fd00::9", FRONT, NULL);
	put_block(SET, "2001:db8::/32", ALL);
	put_block(SET, "192.0.2.0/24", ALL);
	apply_rows();
	ck_assert_uint_eq(policy_counts.put, 1);
	ck_assert_uint_eq(policy_entries_of(&policy_tables.identities), 3);
	ck_assert(web("192.0.2.1") && !web("192.0.3.1"));
}
END_TEST

START_TEST(test_ipv6)
{
	put_tables();
	put_set(SET, WEB);
	put_identity("fd00::2:9", FRONT, NULL);
	put_identity(C, FRONT, NULL);
	put_pod("uid-a", "a", SET, SET);
	add_sandbox("uid-a", "a", "fd00::1:5", 11);
	apply_rows();
	ck_assert_uint_eq(policy_entries_of(&policy_tables.identities), 1);
	ck_assert(policy_allows("fd00::1:5", MK_POLICY_INGRESS, "fd00::2:9", 80));
	ck_assert(!policy_allows("fd00::1:5", MK_POLICY_EGRESS, "fd00::2:8", 80));
	ck_assert_uint_eq(policy_slot("fd00::1:5").ifindex, 11);
	ck_assert_uint_eq(policy_slot("fd00::1:5").generation, 1);
	policy_restart();
	apply_rows();
	ck_assert_uint_eq(policy_counts.put + policy_counts.switched, 0);
}
END_TEST

START_TEST(test_counts_as)
{
	begin();
	put_block(SET, "192.0.2.0/24", ALL);
	put_identity("100.64.0.1", 0, "192.0.2.9");
	apply_rows();
	ck_assert(web("100.64.0.1") && !web("100.64.0.2"));
}
END_TEST

/* ---- pods ------------------------------------------------------------------------------------ */

START_TEST(test_other_set)
{
	begin();
	put_set(NEXT, ALL);
	put_pod("uid-a", "a", NEXT, MK_SET_OPEN);
	apply_rows();
	ck_assert_uint_eq(policy_slot(A).set[MK_POLICY_INGRESS], NEXT);
	ck_assert_uint_eq(policy_slot(A).generation, 2);
	ck_assert_uint_eq(policy_counts.switched, 1);
	ck_assert(policy_allows(A, MK_POLICY_INGRESS, C, 81));
}
END_TEST

START_TEST(test_last_set)
{
	begin();
	put_pod("uid-a", "a", MK_SET_OPEN, MK_SET_OPEN);
	apply_rows();
	ck_assert_uint_eq(policy_state_now().on, 0);
	ck_assert_uint_eq(policy_slot(A).generation, 1); /* nothing is forbidden */
	put_pod("uid-a", "a", SET, MK_SET_OPEN);
	apply_rows();
	ck_assert_uint_eq(policy_state_now().on, 1);
	ck_assert_uint_eq(policy_slot(A).generation, 2);
}
END_TEST

#define CHAINED (MK_SET_HAS_CHAINS | 90)

static void chain_pod(void)
{
	const struct mk_port_row row = { .table = 91, .chain = 7, .chain_rule = 2 };

	begin();
	put_port(&row);
	put_peer(CHAINED, MK_PEER_ANY_POD, row.table);
	put_peer(CHAINED, MK_PEER_UNKNOWN_POD, row.table);
	put_block(CHAINED, NULL, row.table);
	put_pod("uid-a", "a", MK_SET_OPEN, CHAINED);
	apply_rows();
}

/* Flows of a pod that no chain takes any more leave the chain, so the pod is asked about again. */
START_TEST(test_last_chain)
{
	struct mk_policy_port_key key = { .prefix_bits = MK_POLICY_TABLE_BITS };
	struct mk_policy_port value;
	const uint64_t table = 91;

	chain_pod();
	ck_assert_uint_eq(policy_state_now().on, 1);
	ck_assert_uint_eq(policy_slot(A).generation, 2);
	memcpy(key.table, &table, sizeof(key.table));
	ck_assert_int_eq(mk_table_get(&policy_tables.ports, &key, &value, &policy_err), 0);
	ck_assert_uint_eq(value.chain, 7);
	ck_assert_uint_eq(value.chain_rule, 2);
	put_pod("uid-a", "a", MK_SET_OPEN, MK_SET_OPEN);
	apply_rows();
	ck_assert_uint_eq(policy_state_now().on, 0);
	ck_assert_uint_eq(policy_slot(A).generation, 3);
}
END_TEST

START_TEST(test_chain_when_all_opens)
{
	chain_pod();
	policy_counts = (struct mk_policy_counts){ 0 };
	ck_assert_int_eq(mk_policy_sync_open_all(policy_sync, policy_now_ns, &policy_counts,
						 &policy_err),
			 0);
	ck_assert_uint_eq(policy_slot(A).set[MK_POLICY_EGRESS], MK_SET_OPEN);
	ck_assert_uint_eq(policy_slot(A).generation, 3);
}
END_TEST

/* What CNI ADD wrote stays until there is a row; without any entry the pod is pending. */
START_TEST(test_unknown_sandboxes)
{
	begin();
	add_sandbox("uid-new", "new", "10.1.0.4", 14);
	add_sandbox(NULL, NULL, "10.1.0.5", 15);
	apply_rows();
	ck_assert_uint_eq(policy_slot("10.1.0.4").set[MK_POLICY_EGRESS], MK_SET_PENDING);
	ck_assert_uint_eq(policy_slot("10.1.0.5").set[MK_POLICY_EGRESS], MK_SET_OPEN);
	ck_assert_uint_eq(policy_slot("10.1.0.5").ifindex, 15);
	gone_pod("uid-a", "a");
	apply_rows();
	ck_assert_uint_eq(policy_slot(A).set[MK_POLICY_INGRESS], SET);
	put_pod("uid-new", "new", SET, SET);
	apply_rows();
	ck_assert_uint_eq(policy_slot("10.1.0.4").set[MK_POLICY_EGRESS], SET);
}
END_TEST

static uint32_t removed; /* interface; 0: none */

static bool has_device(uint32_t ifindex)
{
	return ifindex != removed;
}

/* Another process has cleared the slot of A. Returns what the log says of the next apply. */
static const char *lose_slot(void)
{
	const struct mk_pod_policy former = policy_slot(A), none = { 0 };
	const uint32_t slot = mk_pod_slot(&former.addr, POD_SLOTS);

	policy_tables.has_device = has_device;
	ck_assert_int_eq(mk_table_put(&policy_tables.pods, &slot, &none, &policy_err), 0);
	capture_log();
	apply_rows();
	return captured_log();
}

START_TEST(test_lost_slot)
{
	begin();
	ck_assert(strstr(lose_slot(), "entries were missing and are back map=pod_policies"));
	ck_assert_uint_eq(policy_counts.lost, 1);
	ck_assert_uint_eq(policy_slot(A).set[MK_POLICY_INGRESS], SET);
}
END_TEST

/* CNI DEL has removed the device and cleared the slot, but not yet the file of the address. */
START_TEST(test_slot_of_pod_that_leaves)
{
	begin();
	removed = policy_slot(A).ifindex;
	ck_assert_str_eq(lose_slot(), "");
	ck_assert_uint_eq(policy_counts.lost, 0);
	ck_assert_uint_eq(policy_slot(A).ifindex, 0);
	ck_assert_uint_eq(policy_slot(A).set[MK_POLICY_INGRESS], MK_SET_OPEN);
}
END_TEST

/* A pod of the same name and address is another pod if its UID or its interface is another one. */
START_TEST(test_other_pod)
{
	begin();
	forget_sandboxes();
	add_sandbox("uid-2", "a", A, 21);
	apply_rows();
	ck_assert_uint_eq(policy_slot(A).set[MK_POLICY_INGRESS], MK_SET_PENDING);
	ck_assert_uint_eq(policy_slot(A).ifindex, 21);
	put_pod("uid-2", "a", NEXT, MK_SET_OPEN);
	put_set(NEXT, ALL);
	apply_rows();
	ck_assert_uint_eq(policy_slot(A).set[MK_POLICY_INGRESS], NEXT);
}
END_TEST

/* A Pod of another name that claims the UID has sets of its own. */
START_TEST(test_claimed_uid)
{
	begin();
	put_pod("uid-a", "false", MK_SET_OPEN, MK_SET_OPEN);
	apply_rows();
	ck_assert_uint_eq(policy_slot(A).set[MK_POLICY_INGRESS], SET);
	gone_pod("uid-a", "false");
	put_pod("uid-a", "a", NEXT, MK_SET_OPEN);
	put_set(NEXT, ALL);
	apply_rows();
	ck_assert_uint_eq(policy_slot(A).set[MK_POLICY_INGRESS], NEXT);
}
END_TEST

/* ---- changes in place ------------------------------------------------------------------------ */

START_TEST(test_class_of_set)
{
	begin();
	put_peer(SET, FRONT, ALL);
	apply_rows();
	ck_assert(policy_allows(A, MK_POLICY_INGRESS, C, 81));
	ck_assert_uint_eq(policy_counts.put, 1);
	ck_assert_uint_eq(policy_slot(A).generation, 2);
	/* no pod has this class: no flow can change */
	put_peer(SET, OTHER + 1, ALL);
	apply_rows();
	ck_assert_uint_eq(policy_counts.raised, 0);
	/* the class has pods, but no other ports than before */
	put_peer(SET, OTHER, NOTHING);
	apply_rows();
	ck_assert_uint_eq(policy_counts.raised, 0);
}
END_TEST

/* The class loses its row, and its pods are as any pod. */
START_TEST(test_class_falls)
{
	begin();
	gone_peer(SET, FRONT);
	apply_rows();
	ck_assert(!web(C));
	ck_assert_uint_eq(policy_slot(A).generation, 2);
	ck_assert_int_eq(policy_collect(policy_now_ns + S), 0);
}
END_TEST

/* No pod has the class any more: its row waits for packets that have read the identity. */
START_TEST(test_class_gone)
{
	begin();
	put_identity(C, OTHER, NULL);
	gone_peer(SET, FRONT);
	apply_rows();
	ck_assert(!web(C));
	ck_assert_uint_eq(policy_counts.deleted, 0);
	ck_assert_int_eq(policy_collect(policy_now_ns + S - 1), 1);
	ck_assert_int_eq(policy_collect(policy_now_ns + S), 0);
	ck_assert_uint_eq(policy_counts.deleted, 1);
}
END_TEST

START_TEST(test_identity)
{
	begin();
	put_identity(C, OTHER, NULL);
	apply_rows();
	ck_assert(!web(C));
	ck_assert_uint_eq(policy_slot(A).generation, 2);
	/* two classes with the same ports */
	put_identity(C, BACK, NULL);
	apply_rows();
	ck_assert_uint_eq(policy_counts.put, 1);
	ck_assert_uint_eq(policy_counts.raised, 0);
	/* a new pod that has no other ports than an unknown address */
	put_identity("10.2.0.10", OTHER, NULL);
	apply_rows();
	ck_assert_uint_eq(policy_counts.raised, 0);
	put_identity("10.2.0.11", FRONT, NULL);
	apply_rows();
	ck_assert_uint_eq(policy_counts.raised, 1);
	gone_identity("10.2.0.11");
	apply_rows();
	ck_assert(!web("10.2.0.11"));
	ck_assert_uint_eq(policy_counts.deleted, 1);
	ck_assert_uint_eq(policy_counts.raised, 1);
}
END_TEST

/* ---- another agent --------------------------------------------------------------------------- */

START_TEST(test_restart)
{
	begin();
	policy_restart();
	mk_policy_sync_release(policy_sync, policy_now_ns);
	policy_restart();
	forget_sandboxes();
	begin();
	ck_assert_uint_eq(policy_counts.put + policy_counts.deleted + policy_counts.switched, 0);
	/* the former agent may have ended between a set and its generation */
	ck_assert_uint_eq(policy_counts.raised, 1);
	mk_policy_sync_release(policy_sync, policy_now_ns);
	ck_assert_int_eq(policy_collect(policy_now_ns + S), 0);
	ck_assert_uint_eq(policy_counts.deleted, 0);
}
END_TEST

/* The former agent had another set, and classes of other keys. */
START_TEST(test_former_set)
{
	begin();
	policy_restart();
	put_identity(C, FRONT + 20, NULL);
	apply_rows();
	ck_assert(web(C));
	ck_assert_uint_eq(policy_counts.put, 2);
	put_tables();
	put_set(NEXT, NOTHING);
	put_peer(NEXT, FRONT + 20, ALL);
	put_pod("uid-a", "a", NEXT, MK_SET_OPEN);
	apply_rows();
	ck_assert(policy_allows(A, MK_POLICY_INGRESS, C, 81));
	ck_assert_uint_eq(policy_entries_of(&policy_tables.peers), 4 + 4);
	mk_policy_sync_release(policy_sync, policy_now_ns);
	apply_rows();
	ck_assert_uint_eq(policy_entries_of(&policy_tables.identities), 1);
	ck_assert_int_eq(policy_collect(policy_now_ns + S), 0);
	ck_assert_uint_eq(policy_entries_of(&policy_tables.peers), 4);
	ck_assert_uint_eq(policy_entries_of(&policy_tables.blocks), 1);
}
END_TEST

/* While no agent ran, a namespace got other labels: the class has no row of its own any more. */
START_TEST(test_former_class)
{
	begin();
	policy_restart();
	put_tables();
	put_peer(SET, MK_PEER_ANY_POD, NOTHING);
	put_peer(SET, MK_PEER_UNKNOWN_POD, NOTHING);
	put_block(SET, NULL, NOTHING);
	put_identity(C, FRONT, NULL);
	put_pod("uid-a", "a", SET, MK_SET_OPEN);
	apply_rows();
	ck_assert(!web(C));
	ck_assert_uint_eq(policy_counts.deleted, 1);
	ck_assert_uint_eq(policy_slot(A).generation, 2);
}
END_TEST

/* ---- removal --------------------------------------------------------------------------------- */

START_TEST(test_collect)
{
	struct mk_policy_count_key of[] = { { .set = SET, .tier = 2 }, { .set = NEXT, .tier = 2 } };
	struct mk_policy_count count = { .packets = 1 };

	begin();
	ck_assert_int_eq(mk_table_put(&policy_tables.counts, &of[0], &count, &policy_err), 0);
	ck_assert_int_eq(mk_table_put(&policy_tables.counts, &of[1], &count, &policy_err), 0);
	put_set(NEXT, ALL);
	put_pod("uid-a", "a", NEXT, MK_SET_OPEN);
	gone_set(SET);
	gone_port(&ports[2]);
	gone_port(&ports[3]);
	apply_rows();
	ck_assert_int_eq(policy_collect(policy_now_ns + S - 1), 1);
	ck_assert_uint_eq(policy_counts.deleted, 0);
	ck_assert_int_eq(policy_collect(policy_now_ns + S), 0);
	ck_assert_uint_eq(policy_counts.deleted, 4 + 2);
	ck_assert_uint_eq(policy_entries_of(&policy_tables.ports), 2);
	ck_assert_uint_eq(policy_entries_of(&policy_tables.counts), 1);
	ck_assert(policy_allows(A, MK_POLICY_INGRESS, C, 81));
}
END_TEST

START_TEST(test_wanted_again)
{
	begin();
	gone_pod("uid-b", "b");
	gone_set(SET);
	apply_rows();
	put_set(SET, WEB);
	apply_rows();
	ck_assert_uint_eq(policy_counts.put, 0);
	ck_assert_int_eq(policy_collect(policy_now_ns + S), 0);
	ck_assert(web(C));
}
END_TEST

/* A set lost a row while it was not in force. It comes into force before that row is collected. */
START_TEST(test_stale_row)
{
	begin();
	put_set(NEXT, ALL);
	apply_rows();
	gone_peer(NEXT, FRONT);
	put_pod("uid-a", "a", NEXT, MK_SET_OPEN);
	apply_rows();
	ck_assert(!web(C));
	ck_assert_uint_eq(policy_counts.deleted, 1);
}
END_TEST

/* The setting is off: everything opens, and nothing closes it again. */
START_TEST(test_open_all)
{
	begin();
	add_sandbox("uid-new", "new", "10.1.0.4", 14);
	apply_rows();
	policy_restart();
	policy_counts = (struct mk_policy_counts){ 0 };
	ck_assert_int_eq(mk_policy_sync_open_all(policy_sync, policy_now_ns, &policy_counts,
						 &policy_err),
			 0);
	ck_assert_uint_eq(policy_state_now().on, 0);
	ck_assert_uint_eq(policy_state_now().listed, MK_POLICY_LISTED_NONE);
	ck_assert_uint_eq(policy_slot(A).set[MK_POLICY_INGRESS], MK_SET_OPEN);
	ck_assert_uint_eq(policy_slot("10.1.0.4").set[MK_POLICY_INGRESS], MK_SET_OPEN);
	ck_assert_uint_eq(policy_entries_of(&policy_tables.expected), 0);
	ck_assert_uint_eq(policy_entries_of(&policy_tables.namespaces), 0);
	ck_assert_uint_eq(policy_entries_of(&policy_tables.identities), 0);
	ck_assert_int_eq(policy_collect(policy_now_ns + S), 0);
	ck_assert_uint_eq(policy_entries_of(&policy_tables.peers), 0);
	ck_assert_uint_eq(policy_entries_of(&policy_tables.ports), 0);
	apply_rows();
	ck_assert_uint_eq(policy_state_now().on, 0);
	/* enforced again: there is no moment with half of the pods closed */
	policy_restart();
	forget_sandboxes();
	begin();
	ck_assert(web(C) && !web(B));
}
END_TEST

/* ---- repair ---------------------------------------------------------------------------------- */

static void empty(const struct mk_table *table)
{
	cleanup_free char *keys = NULL;
	size_t count;

	ck_assert_int_eq(mk_table_keys(table, (void **)&keys, &count, &policy_err), 0);
	for (size_t i = 0; i < count; i++)
		ck_assert_int_eq(mk_table_delete(table, keys + i * table->key_size, &policy_err),
				 1);
}

static int audit(void)
{
	return mk_policy_sync_reconcile(policy_sync, 1000, &policy_err);
}

START_TEST(test_audit)
{
	const struct mk_policy_peer other = { .table = ALL };
	const struct mk_policy_peer_key front = { SET, FRONT };
	const struct mk_pod_policy nothing = { 0 };
	const struct mk_policy_state off = { 0 };
	struct mk_addr addr = addr_of(A);
	uint32_t slot = mk_pod_slot(&addr, POD_SLOTS), zero = 0, generation;

	ck_assert_int_eq(audit(), 0);
	begin();
	mk_policy_sync_set_listed(policy_sync, MK_POLICY_LISTED_SOME);
	ck_assert_int_eq(audit(), 0);
	empty(&policy_tables.identities);
	empty(&policy_tables.peers);
	empty(&policy_tables.blocks);
	empty(&policy_tables.ports);
	empty(&policy_tables.expected);
	empty(&policy_tables.namespaces);
	ck_assert(!web(C));
	ck_assert_int_eq(audit(), 3 + 3 + 1 + 4 + 4 + 1);
	ck_assert(web(C));
	ck_assert_uint_eq(policy_slot(A).generation, 2);
	ck_assert_int_eq(mk_table_put(&policy_tables.peers, &front, &other, &policy_err), 0);
	ck_assert_int_eq(audit(), 1);
	ck_assert_int_eq(mk_table_put(&policy_tables.pods, &slot, &nothing, &policy_err), 0);
	ck_assert_int_eq(mk_table_put(&policy_tables.state, &zero, &off, &policy_err), 0);
	/* while both are 0, programs ask the slots */
	mk_policy_sync_set_listed(policy_sync, MK_POLICY_LISTED_SOME);
	ck_assert_uint_eq(policy_state_now().listed, MK_POLICY_NOT_LISTED);
	ck_assert_int_eq(audit(), 2 + 1);
	ck_assert_uint_eq(policy_slot(A).set[MK_POLICY_INGRESS], SET);
	ck_assert_uint_eq(policy_state_now().on, 1);
	ck_assert_uint_eq(policy_state_now().listed, MK_POLICY_LISTED_SOME);
	ck_assert_int_eq(audit(), 0);
	/* what was opened meanwhile is evaluated again */
	generation = policy_slot(A).generation;
	ck_assert_int_eq(mk_table_put(&policy_tables.state, &zero, &off, &policy_err), 0);
	ck_assert_int_eq(audit(), 1);
	ck_assert_uint_eq(policy_slot(A).generation, generation + 1);
}
END_TEST

/* Each call checks a part: a changed entry is noticed in its turn. */
START_TEST(test_audit_in_parts)
{
	const struct mk_policy_peer other = { .table = ALL + 100 };
	const struct mk_policy_peer_key any = { SET, MK_PEER_ANY_POD }, front = { SET, FRONT };
	int restored = 0;

	begin();
	ck_assert_int_eq(mk_table_put(&policy_tables.peers, &any, &other, &policy_err), 0);
	ck_assert_int_eq(mk_table_put(&policy_tables.peers, &front, &other, &policy_err), 0);
	for (int i = 0; i < 20; i++) {
		int ret = mk_policy_sync_reconcile(policy_sync, 1, &policy_err);

		ck_assert_int_le(ret, 1);
		restored += ret;
	}
	ck_assert_int_eq(restored, 2);
}
END_TEST

/* An emptied map is filled at once, however many entries it has. */
START_TEST(test_audit_emptied)
{
	begin();
	for (unsigned int i = 0; i < 1000; i++) {
		char text[MK_IP_STRLEN];

		snprintf(text, sizeof(text), "10.9.%u.%u", i / 250, i % 250 + 1);
		put_identity(text, FRONT, NULL);
	}
	apply_rows();
	empty(&policy_tables.identities);
	empty(&policy_tables.peers);
	ck_assert_int_eq(mk_policy_sync_reconcile(policy_sync, 1, &policy_err), 1003 + 3);
	ck_assert_int_eq(mk_policy_sync_reconcile(policy_sync, 1, &policy_err), 0);
}
END_TEST

UNIT_SUITE("policy_tables")
{
	TCase *rows = unit_case(suite, "rows", policy_setup, policy_teardown);
	TCase *ipv6 = unit_case(suite, "ipv6", policy_setup_ipv6, policy_teardown);

	tcase_add_test(rows, test_begin);
	tcase_add_test(rows, test_expected);
	tcase_add_test(rows, test_name);
	tcase_add_test(rows, test_family);
	tcase_add_test(rows, test_counts_as);
	tcase_add_test(rows, test_other_set);
	tcase_add_test(rows, test_last_set);
	tcase_add_test(rows, test_last_chain);
	tcase_add_test(rows, test_chain_when_all_opens);
	tcase_add_test(rows, test_unknown_sandboxes);
	tcase_add_test(rows, test_lost_slot);
	tcase_add_test(rows, test_slot_of_pod_that_leaves);
	tcase_add_test(rows, test_other_pod);
	tcase_add_test(rows, test_claimed_uid);
	tcase_add_test(rows, test_class_of_set);
	tcase_add_test(rows, test_class_falls);
	tcase_add_test(rows, test_class_gone);
	tcase_add_test(rows, test_identity);
	tcase_add_test(rows, test_restart);
	tcase_add_test(rows, test_former_set);
	tcase_add_test(rows, test_former_class);
	tcase_add_test(rows, test_collect);
	tcase_add_test(rows, test_wanted_again);
	tcase_add_test(rows, test_stale_row);
	tcase_add_test(rows, test_open_all);
	tcase_add_test(rows, test_audit);
	tcase_add_test(rows, test_audit_in_parts);
	tcase_add_test(rows, test_audit_emptied);
	tcase_add_test(ipv6, test_ipv6);
}
