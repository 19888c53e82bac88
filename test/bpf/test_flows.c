// SPDX-License-Identifier: Apache-2.0
/* Every rule of Services that shows in packets: the cluster's objects through model, compile and
 * sync into the tables, packets through the programs, and the answers back. */
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

START_TEST(test_beside)
{
	flow_run(&flows_beside.rows[_i]);
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

/* Half-open sessions in the tables that evict, as in a flood. */
static void reset_without_room(void)
{
	fixture_reset();
	fixture_room(0);
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

static void add_rows(Suite *suite, const char *name, void (*reset)(void))
{
	TCase *rows = rows_case(suite, name, reset);

	tcase_add_loop_test(rows, test_objects, 0, flows_objects.count);
	tcase_add_loop_test(rows, test_types, 0, flows_types.count);
	tcase_add_loop_test(rows, test_endpoints, 0, flows_endpoints.count);
	tcase_add_loop_test(rows, test_topology, 0, flows_topology.count);
	tcase_add_loop_test(rows, test_addresses, 0, flows_addresses.count);
	tcase_add_loop_test(rows, test_refusals, 0, flows_refusals.count);
	tcase_add_loop_test(rows, test_sessions, 0, flows_sessions.count);
	tcase_add_loop_test(rows, test_beside, 0, flows_beside.count);
	tcase_add_loop_test(rows, test_hostports, 0, flows_hostports.count);
	tcase_add_loop_test(rows, test_kube_proxy, 0, flows_kube_proxy.count);
}

int main(void)
{
	Suite *suite = suite_create("flows");

	add_rows(suite, "rows", fixture_reset);
	add_rows(suite, "rows, no room", reset_without_room);
	tcase_add_loop_test(rows_case(suite, "matrix", fixture_reset), test_matrix, 0,
			    flows_matrix_count());
	return bpf_run(suite);
}
