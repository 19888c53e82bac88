// SPDX-License-Identifier: Apache-2.0
/* The sync of the policy tables: tables that are full, and tables with many rows. */
#include <stdio.h>
#include <string.h>

#include "unit/policy_two_pods.h"

/* ---- full tables ----------------------------------------------------------------------------- */

static void setup_small(void)
{
	policy_room = 6;
	policy_setup();
}

/* Six entries of table policy_peers are taken. The pod keeps its set, and the rest goes on. */
START_TEST(test_full)
{
	begin();
	put_peer(SET, 1000, NOTHING);
	put_peer(SET, 1001, NOTHING);
	put_peer(SET, 1002, NOTHING);
	apply_rows();
	put_set(NEXT, ALL);
	put_pod("uid-a", "a", NEXT, MK_SET_OPEN);
	put_identity("10.2.0.10", FRONT, NULL);
	ck_assert_int_eq(try_apply(), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(mk_error_text(&policy_err), "map 'policy_peers' is full"));
	ck_assert_uint_eq(policy_slot(A).set[MK_POLICY_INGRESS], SET);
	ck_assert(web(C) && web("10.2.0.10"));
	/* the compiler has forgotten the former set, but a pod still has it */
	gone_set(SET);
	gone_peer(SET, 1000);
	gone_peer(SET, 1001);
	gone_port(&ports[2]);
	gone_port(&ports[3]);
	ck_assert_int_eq(try_apply(), -ENOSPC);
	ck_assert_int_eq(policy_collect(policy_now_ns + S), 1);
	ck_assert_uint_eq(policy_counts.deleted, 2);
	ck_assert(web(C));
	gone_peer(SET, 1002);
	ck_assert_int_eq(try_apply(), -ENOSPC);
	policy_now_ns += 2 * S;
	ck_assert_int_eq(policy_collect(policy_now_ns), 1);
	apply_rows();
	ck_assert_uint_eq(policy_slot(A).set[MK_POLICY_INGRESS], NEXT);
	ck_assert_int_eq(policy_collect(policy_now_ns + S), 0);
	ck_assert(policy_allows(A, MK_POLICY_INGRESS, C, 81));
}
END_TEST

/* A pod that runs keeps what it had, a new one is closed. */
START_TEST(test_full_pods)
{
	begin();
	put_peer(SET, 1000, NOTHING);
	put_peer(SET, 1001, NOTHING);
	put_peer(SET, 1002, NOTHING);
	apply_rows();
	put_set(NEXT, ALL);
	put_pod("uid-b", "b", NEXT, MK_SET_OPEN);
	put_pod("uid-c", "c", NEXT, MK_SET_OPEN);
	add_sandbox("uid-c", "c", "10.1.0.4", 13);
	ck_assert_int_eq(try_apply(), -ENOSPC);
	ck_assert_uint_eq(policy_slot(B).set[MK_POLICY_INGRESS], MK_SET_OPEN);
	ck_assert_uint_eq(policy_slot("10.1.0.4").set[MK_POLICY_INGRESS], MK_SET_PENDING);
	ck_assert(web(C));
}
END_TEST

static void one_identity(unsigned int i)
{
	char ip[16];

	snprintf(ip, sizeof(ip), "10.8.0.%u", i + 1);
	put_identity(ip, FRONT, NULL);
}

static void one_peer(unsigned int i)
{
	put_peer(SET, 1000 + i, NOTHING);
}

static void one_block(unsigned int i)
{
	put_block(1000 + i, NULL, NOTHING);
}

static void one_port(unsigned int i)
{
	put_port(&(struct mk_port_row){ .table = 1000 + i });
}

static void one_pod(unsigned int i)
{
	static char names[7][4];
	char *name = names[i];

	snprintf(name, sizeof(names[i]), "p%u", i);
	put_pod(name, name, MK_SET_OPEN, MK_SET_OPEN);
}

static void one_namespace(unsigned int i)
{
	static char names[7][4];
	char *name = names[i];

	snprintf(name, sizeof(names[i]), "n%u", i);
	put_namespace(name, 0);
}

static const struct {
	void (*put)(unsigned int i);
	const char *says;
} fillings[] = {
	{ one_identity, "map 'policy_identities' is full (6 entries)" },
	{ one_peer, "map 'policy_peers' is full (6 entries)" },
	{ one_block, "map 'policy_blocks' is full (6 entries)" },
	{ one_port, "map 'policy_ports' is full (6 entries)" },
	{ one_pod, "map 'policy_expected' is full (6 entries)" },
	{ one_namespace, "map 'policy_namespaces' is full (6 entries)" },
};

/* The error names the table, its size, and the remedy. */
START_TEST(test_full_map)
{
	for (unsigned int i = 0; i < 7; i++)
		fillings[_i].put(i);
	ck_assert_int_eq(try_apply(), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(mk_error_text(&policy_err), fillings[_i].says));
	ck_assert_ptr_nonnull(strstr(mk_error_text(&policy_err), "use fewer policies"));
}
END_TEST

/* A table of ports is incomplete: what names it is not used. */
START_TEST(test_full_ports)
{
	const struct mk_port_row more[] = { { .table = 200, .verdict.allows = 1 },
					    { .table = 201, .verdict.allows = 1 },
					    { .table = 202, .verdict.allows = 1 } };

	begin();
	for (size_t i = 0; i < MK_ARRAY_SIZE(more); i++)
		put_port(&more[i]);
	put_peer(SET, FRONT, 202);
	ck_assert_int_eq(try_apply(), -ENOSPC);
	ck_assert(web(C) && !policy_allows(A, MK_POLICY_INGRESS, C, 81));
	/* a new class would otherwise have the ports of any pod */
	put_peer(SET, OTHER + 1, 202);
	put_identity(C, OTHER + 1, NULL);
	ck_assert_int_eq(try_apply(), -ENOSPC);
	ck_assert(web(C));
	gone_port(&more[0]);
	ck_assert_int_eq(try_apply(), -ENOSPC);
	ck_assert_int_eq(policy_collect(policy_now_ns + S), 0);
	apply_rows();
	ck_assert(policy_allows(A, MK_POLICY_INGRESS, C, 81));
}
END_TEST

/* ---- among many ------------------------------------------------------------------------------ */

static void setup_large(void)
{
	policy_room = 65536;
	policy_setup();
}

/* Writes of one changed label: a pod elsewhere gets another class, which is new to the set. */
static unsigned int writes_among(unsigned int pods)
{
	begin();
	for (unsigned int i = 0; i < pods; i++) {
		char ip[16];

		snprintf(ip, sizeof(ip), "10.8.%u.%u", i / 250, i % 250 + 1);
		put_identity(ip, 1000 + i / 10, NULL);
		if (i % 10 == 0)
			put_peer(SET, 1000 + i / 10, WEB);
	}
	apply_rows();
	put_peer(SET, 999, ALL);
	put_identity("10.8.0.1", 999, NULL);
	apply_rows();
	return policy_counts.put + policy_counts.switched + policy_counts.raised;
}

START_TEST(test_incremental)
{
	unsigned int few = writes_among(10), many;

	policy_teardown();
	setup_large();
	many = writes_among(10000);
	printf("writes for one changed label: %u among 10 pods, %u among 10,000\n", few, many);
	ck_assert_uint_eq(few, many);
	ck_assert_uint_eq(many, 3);
}
END_TEST

UNIT_SUITE("policy_full")
{
	TCase *full = unit_case(suite, "full", setup_small, policy_teardown);
	TCase *large = unit_case(suite, "large", setup_large, policy_teardown);

	tcase_add_test(full, test_full);
	tcase_add_test(full, test_full_ports);
	tcase_add_test(full, test_full_pods);
	tcase_add_loop_test(full, test_full_map, 0, (int)MK_ARRAY_SIZE(fillings));
	tcase_add_test(large, test_incremental);
}
