// SPDX-License-Identifier: Apache-2.0
/* Every rule of Services that is visible in packets. The cluster's objects go through model,
 * compile and sync into the tables, packets through the programs, and the answers back. */
#include <string.h>

#include "bpf/cluster.h"
#include "bpf/flow.h"
#include "bpf/run.h"

START_TEST(test_objects)
{
	flow_run(&flows_objects.rows[_i]);
}
END_TEST

START_TEST(test_types)
{
	flow_run(&flows_types.rows[_i]);
}
END_TEST

START_TEST(test_endpoints)
{
	flow_run(&flows_endpoints.rows[_i]);
}
END_TEST

START_TEST(test_topology)
{
	flow_run(&flows_topology.rows[_i]);
}
END_TEST

START_TEST(test_addresses)
{
	flow_run(&flows_addresses.rows[_i]);
}
END_TEST

START_TEST(test_refusals)
{
	flow_run(&flows_refusals.rows[_i]);
}
END_TEST

START_TEST(test_sessions)
{
	flow_run(&flows_sessions.rows[_i]);
}
END_TEST

START_TEST(test_collision)
{
	flow_run(&flows_fragments.rows[_i]);
}
END_TEST

START_TEST(test_hostports)
{
	flow_run(&flows_hostports.rows[_i]);
}
END_TEST

START_TEST(test_kube_proxy)
{
	flow_run(&flows_kube_proxy.rows[_i]);
}
END_TEST

START_TEST(test_matrix)
{
	flows_matrix_run(_i);
}
END_TEST

/* Without a half-open quota, as in a flood: half-open sessions are in the tables that evict. */
static void reset_without_room(void)
{
	fixture_reset();
	fixture_quota(0);
}

static TCase *rows_case(Suite *suite, const char *name, void (*reset)(void))
{
	TCase *tcase = tcase_create(name);

	tcase_add_unchecked_fixture(tcase, fixture_load_small, fixture_unload);
	tcase_add_checked_fixture(tcase, reset, NULL);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	return tcase;
}

/* MK_FLOWS_ROW: run only the rows that begin with this text (test/mutants). */
static bool is_chosen(const char *rule)
{
	const char *wanted = getenv("MK_FLOWS_ROW");

	return !wanted || strncmp(rule, wanted, strlen(wanted)) == 0;
}

static void add_section(TCase *tcase, const TTest *test, const struct flow_section *section,
			int step)
{
	for (int i = 0; i < section->count; i += step)
		if (is_chosen(section->rows[i].rule))
			tcase_add_loop_test(tcase, test, i, i + 1);
}

/* Add every @step-th row. */
static void add_rows(Suite *suite, const char *name, void (*reset)(void), int step)
{
	TCase *rows = rows_case(suite, name, reset);

	add_section(rows, test_objects, &flows_objects, step);
	add_section(rows, test_types, &flows_types, step);
	add_section(rows, test_endpoints, &flows_endpoints, step);
	add_section(rows, test_topology, &flows_topology, step);
	add_section(rows, test_addresses, &flows_addresses, step);
	add_section(rows, test_refusals, &flows_refusals, step);
	add_section(rows, test_sessions, &flows_sessions, step);
	add_section(rows, test_collision, &flows_fragments, step);
	add_section(rows, test_hostports, &flows_hostports, step);
	add_section(rows, test_kube_proxy, &flows_kube_proxy, step);
}

static void add_matrix(Suite *suite)
{
	TCase *matrix = rows_case(suite, "matrix", fixture_reset);

	for (int i = 0; i < flows_matrix_count(); i++)
		if (is_chosen(flows_matrix_rule(i)))
			tcase_add_loop_test(matrix, test_matrix, i, i + 1);
}

BPF_SUITE("flows")
{
	add_rows(suite, "rows", fixture_reset, 1);
	add_rows(suite, "rows, no room", reset_without_room, flows_matrix_step());
	add_matrix(suite);
}
