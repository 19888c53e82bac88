// SPDX-License-Identifier: Apache-2.0
/* What the compiler's rows say while policies are audited: one by annotation, or all by setting. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "unit/policy_objects.h"
#include "unit/policy_world.h"
#include "unit/unit.h"

static struct policy_world world;

static void setup(void)
{
	world_begin_pods(&world);
}

static void setup_audit(void)
{
	world_begin_audit(&world);
}

static void teardown(void)
{
	world_end(&world);
}

#define AUDITED "'annotations': {'" MK_POLICY_MODE_ANNOTATION "': 'audit'}"
#define NP_AUDITED(name, spec)                                                                        \
	"{'apiVersion': 'networking.k8s.io/v1', 'kind': 'NetworkPolicy', 'metadata': {'name': '" name \
	"', 'namespace': 'a', " AUDITED "}, 'spec': {" spec "}}"
#define CNP_AUDITED(tier, rest)                                                                \
	"{'apiVersion': 'policy.networking.k8s.io/v1alpha2', 'kind': 'ClusterNetworkPolicy', " \
	"'metadata': {'name': 'b', " AUDITED "}, 'spec': {'tier': '" tier                      \
	"', 'priority': 1, " ALL rest "}}"
#define DENY		 X ", 'policyTypes': ['Ingress']"
#define ALLOW(peers)	 DENY ", 'ingress': [{'from': [" peers "]}]"
#define PORTS_OF(number) DENY ", 'ingress': [{'ports': [{'port': " number "}]}]"

/* ---- one policy by annotation ---------------------------------------------------------------- */

static const struct world_row rows[] = {
	{ "an audited policy isolates nothing",
	  { NP_AUDITED("p", DENY) },
	  "<y T80 +00~N0; <8.8.8.8 I0 +00~N0; >y T80 +00" },
	{ "what it allows is not reported",
	  { NP_AUDITED("p", ALLOW(PODS(LABEL("app", "y")))) },
	  "<y T80 +00; <by T80 +00~N0" },
	{ "what another policy denies is dropped",
	  { NP_AUDITED("q", ALLOW(PODS(LABEL("app", "y")))), FROM(SPACES(LABEL("team", "blue"))) },
	  "<by T80 +N1; <y T80 -N0; <cx T80 -N0" },
	{ "what another policy allows passes unreported: policies add up",
	  { NP_AUDITED("q", DENY), FROM(PODS(LABEL("app", "y"))) },
	  "<y T80 +N1; <by T80 -N0" },
	{ "a port that the audited policy adds",
	  { NP_AUDITED("q", PORTS_OF("81")), PORTS("{'port': 80}") },
	  "<y T80 +N1; <y T81 -N0; <y T82 -N0" },
	{ "blocks of an audited policy alone",
	  { NP_AUDITED("p", ALLOW(EXCEPT("10.244.2.0/24", "'10.244.2.2/32'"))) },
	  "<y T80 +00; <by T80 +00~N0; <z T80 +00~N0; <10.244.2.99 T80 +00" },
	{ "an audited Deny of tier Admin",
	  { CNP_AUDITED("Admin", CIN("Deny", CSPACES(LABEL("team", "blue")))), FROM(SPACES("")) },
	  "<by T80 +N2~A1; <y T80 +N2; <8.8.8.8 T80 -N0" },
	{ "it comes before an Accept in force, and is reported",
	  { CNP_AUDITED("Admin", CIN("Deny", CSPACES(LABEL("team", "blue")))),
	    ADMIN(CIN("Accept", CSPACES(""))) },
	  "<by T80 +A2~A1; <y T80 +A2" },
	{ "an audited Accept opens nothing",
	  { CNP_AUDITED("Admin", CIN("Accept", CSPACES(LABEL("team", "blue")))), IN("") },
	  "<by T80 -N0; <y T80 -N0" },
	{ "an audited Pass hides a Deny in force only in the audit",
	  { CNP_AUDITED("Admin", CIN("Pass", CSPACES(LABEL("team", "blue")))),
	    ADMIN(CIN("Deny", CSPACES(LABEL("team", "blue")))) },
	  "<by T80 -A2; <y T80 +00" },
	{ "an audited Baseline",
	  { CNP_AUDITED("Baseline", CIN("Deny", CSPACES(""))) },
	  "<by T80 +00~B1; <8.8.8.8 T80 +00" },
	{ "an audited NetworkPolicy takes the place of Baseline",
	  { NP_AUDITED("p", ALLOW(PODS(""))), BASELINE(CIN("Deny", CSPACES(""))) },
	  "<y T80 -B2; <8.8.8.8 T80 +00~N0; <192.168.0.12 T80 +00~N0" },
	{ "what is not understood fails closed in the audit alone",
	  { CNP_AUDITED("Admin", CIN("Deny", "{'moons': {}}")) },
	  "<by T80 +00~A1; <8.8.8.8 U1 +00~A1" },
	{ "an unknown address, where an audited Deny has selectors",
	  { CNP_AUDITED("Admin", CIN("Deny", CSPACES(LABEL("team", "blue")))) },
	  "<10.244.9.9 T80 +00~A1; <y T80 +00" },
	{ "a pod reaches itself",
	  { NP_AUDITED("p", X ", 'policyTypes': ['Ingress', 'Egress']") },
	  "<=x T80 +00; >=x T80 +00; <z T80 +00~N0; >z T80 +00~N0" },
};

START_TEST(test_rows)
{
	world_check_row(&world, &rows[_i]);
}
END_TEST

/* ---- sets ------------------------------------------------------------------------------------ */

static uint64_t set_of(const char *uid, const char *namespace_, const char *name)
{
	const struct mk_pod_row *row = policy_rows_pod(&world.rows, uid, namespace_, name);

	ck_assert_msg(row, "no row of %s", name);
	return row->set[MK_POLICY_INGRESS];
}

static uint64_t set_of_x(void)
{
	return set_of("uid-x", "a", "x");
}

static uint64_t flags(uint64_t set)
{
	return set & MK_SET_FLAGS;
}

START_TEST(test_flags)
{
	uint64_t audited, in_force;

	world_put(&world, "%s", NP_AUDITED("p", DENY));
	world_compile(&world);
	audited = set_of_x();
	ck_assert_uint_eq(flags(audited),
			  MK_SET_AUDITS | MK_SET_AUDIT_ISOLATES | MK_SET_ONLY_AUDITS);
	ck_assert(!mk_set_enforces(audited));
	world_put(&world, "%s", NP(DENY));
	world_compile(&world);
	in_force = set_of_x();
	ck_assert_uint_eq(flags(in_force), MK_SET_ISOLATES);
	world_put(&world, "%s", NP_AUDITED("q", DENY));
	world_compile(&world);
	ck_assert_uint_eq(flags(set_of_x()),
			  MK_SET_ISOLATES | MK_SET_AUDITS | MK_SET_AUDIT_ISOLATES);
	world_delete(&world, MK_KIND_NETWORK_POLICY, "a", "q");
	world_compile(&world);
	ck_assert_uint_eq(set_of_x(), in_force);
	world_put(&world, "%s", NP_AUDITED("p", DENY));
	world_compile(&world);
	ck_assert_uint_eq(set_of_x(), audited);
	ck_assert_ptr_null(world_compare(&world));
}
END_TEST

/* The same two policies; the other one is audited. */
START_TEST(test_which_is_audited)
{
	uint64_t set;

	world_put(&world, "%s", NP_AUDITED("p", DENY));
	world_put(&world, "%s", NP_OF("q", "a", DENY));
	world_compile(&world);
	set = set_of_x();
	world_put(&world, "%s", NP(DENY));
	world_put(&world, "%s", NP_AUDITED("q", DENY));
	world_compile(&world);
	ck_assert_uint_eq(flags(set_of_x()), flags(set));
	ck_assert_uint_ne(set_of_x(), set);
}
END_TEST

/* Rules 37 and 38: only policies in force close a pod that is not known. */
static void check_new_pod(uint64_t expected, int directions)
{
	world_compile(&world);
	ck_assert_uint_eq(set_of("uid-new", "a", "new"), expected);
	ck_assert_int_eq(policy_rows_namespace(&world.rows, "a"), directions);
}

START_TEST(test_pending)
{
	world_sandbox(&world, "uid-new", "a", "new", "10.244.1.50");
	world_sandbox(&world, "uid-u", "unknown", "u", "10.244.1.51");
	world_put(&world, "%s", NP_AUDITED("p", DENY));
	check_new_pod(MK_SET_OPEN, 0);
	ck_assert_uint_eq(set_of("uid-u", "unknown", "u"), MK_SET_OPEN);
	world_put(&world, "%s", CNP_AUDITED("Admin", CIN("Deny", CSPACES(""))));
	check_new_pod(MK_SET_OPEN, 0);
	world_put(&world, "%s", NP_OF("q", "a", DENY));
	check_new_pod(MK_SET_PENDING, 1 << MK_POLICY_INGRESS);
	ck_assert_uint_eq(set_of("uid-u", "unknown", "u"), MK_SET_PENDING);
	world_put(&world, "%s", NP_AUDITED("q", DENY));
	check_new_pod(MK_SET_OPEN, 0);
	ck_assert_uint_eq(set_of("uid-u", "unknown", "u"), MK_SET_OPEN);
}
END_TEST

static void check_figures(size_t policies, size_t audited, size_t pods, size_t audited_pods)
{
	struct mk_policy_figures figures;

	world_compile(&world);
	mk_policies_figures(world.policies, &figures);
	ck_assert_uint_eq(figures.policies, policies);
	ck_assert_uint_eq(figures.audited_policies, audited);
	ck_assert_uint_eq(figures.isolated_pods, pods);
	ck_assert_uint_eq(figures.audited_pods, audited_pods);
}

START_TEST(test_figures)
{
	check_figures(0, 0, 0, 0);
	world_put(&world, "%s", NP_AUDITED("p", DENY));
	check_figures(1, 1, 1, 1);
	world_put(&world, "%s", NP_OF("q", "a", DENY));
	check_figures(2, 1, 1, 0);
	world_delete(&world, MK_KIND_NETWORK_POLICY, "a", "p");
	check_figures(1, 0, 1, 0);
}
END_TEST

/* ---- all policies by setting ----------------------------------------------------------------- */

START_TEST(test_setting)
{
	world_put(&world, "%s", NP(DENY));
	world_put(&world, "%s", ADMIN(COUT("Deny", CSPACES(LABEL("team", "blue")))));
	world_compile(&world);
	world_check(&world, "setting", "<y T80 +00~N0; >by T80 +00~A1; >y T80 +00");
	ck_assert(!mk_set_enforces(set_of_x()));
	world_sandbox(&world, "uid-u", "unknown", "u", "10.244.1.51");
	world_compile(&world);
	ck_assert_uint_eq(set_of("uid-u", "unknown", "u"), MK_SET_OPEN);
	ck_assert_int_eq(policy_rows_namespace(&world.rows, "a"), 0);
	check_figures(2, 2, 3, 3);
	ck_assert_ptr_null(world_compare(&world));
}
END_TEST

UNIT_SUITE("policy_audit")
{
	TCase *tcase = unit_case(suite, "annotation", setup, teardown);

	tcase_add_loop_test(tcase, test_rows, 0, (int)MK_ARRAY_SIZE(rows));
	tcase_add_test(tcase, test_flags);
	tcase_add_test(tcase, test_which_is_audited);
	tcase_add_test(tcase, test_pending);
	tcase_add_test(tcase, test_figures);
	tcase = unit_case(suite, "setting", setup_audit, teardown);
	tcase_add_test(tcase, test_setting);
}
