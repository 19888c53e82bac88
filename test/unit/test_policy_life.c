// SPDX-License-Identifier: Apache-2.0
/* Pods that come and go, and sets and classes that change. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "unit/policy_objects.h"
#include "unit/policy_world.h"
#include "unit/unit.h"

static struct policy_world world;

static void setup(void)
{
	world_begin_pods(&world);
}

static void teardown(void)
{
	world_end(&world);
}

/* ---- the life of a pod ----------------------------------------------------------------------- */

#define DENY IN("")

static uint64_t set_of(const char *uid, const char *name)
{
	const struct mk_pod_row *row = policy_rows_pod(&world.rows, uid, "a", name);

	ck_assert_msg(row, "no row of %s", name);
	return row->set[MK_POLICY_INGRESS];
}

static bool has_class(const char *ip)
{
	struct mk_ip address = ip_of(ip);
	const struct mk_identity_row *row = policy_rows_identity(&world.rows, &address);

	return row && row->class_id != 0;
}

/* Rules 37 and 38: a sandbox whose object is not known. */
START_TEST(test_pending)
{
	world_sandbox(&world, "uid-new", "a", "new", "10.244.1.50");
	world_compile(&world);
	ck_assert_uint_eq(set_of("uid-new", "new"), MK_SET_OPEN);
	world_put(&world, "%s", NP_OF("other", "a", "'podSelector': {'matchLabels': {'q': 'q'}}"));
	world_compile(&world);
	ck_assert_uint_eq(set_of("uid-new", "new"), MK_SET_PENDING);
	ck_assert_uint_eq(set_of("uid-z", "z"), MK_SET_OPEN);
	ck_assert_int_eq(policy_rows_namespace(&world.rows, "a"), 1 << MK_POLICY_INGRESS);
	ck_assert_int_eq(policy_rows_namespace(&world.rows, "b"), 0);
	ck_assert_int_eq(policy_rows_namespace(&world.rows, "unknown"), -1);
}
END_TEST

START_TEST(test_pending_by_cluster_policy)
{
	world_sandbox(&world, "uid-new", "a", "new", "10.244.1.50");
	world_put(&world, "%s",
		  CNP_OF("c", "Admin", "5",
			 "'subject': {'namespaces': {" LABEL("team", "red") "}}, " CIN(
				 "Deny", CSPACES(""))));
	world_compile(&world);
	ck_assert_uint_eq(set_of("uid-new", "new"), MK_SET_PENDING);
	ck_assert_int_eq(policy_rows_namespace(&world.rows, "a"), 3);
	ck_assert_int_eq(policy_rows_namespace(&world.rows, "b"), 0);
}
END_TEST

/* A namespace that is not known counts as one with policies, if there are any. */
START_TEST(test_unknown_namespace)
{
	const struct mk_pod_row *row;

	world_sandbox(&world, "uid-new", "new", "new", "10.244.1.50");
	world_compile(&world);
	row = policy_rows_pod(&world.rows, "uid-new", "new", "new");
	ck_assert_uint_eq(row->set[0], MK_SET_OPEN);
	world_put(&world, "%s", DENY);
	world_compile(&world);
	row = policy_rows_pod(&world.rows, "uid-new", "new", "new");
	ck_assert_uint_eq(row->set[0], MK_SET_PENDING);
}
END_TEST

/* Rule 39: a Pod that is bound here has a row before its sandbox; 21: not in the host's network. */
START_TEST(test_bound)
{
	world_put(&world, "%s", NP("'podSelector': {}"));
	world_put(&world,
		  "{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'n', 'namespace': "
		  "'a', 'uid': 'uid-n'}, 'spec': {'nodeName': 'n1'}}");
	world_put(&world,
		  "{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'h', 'namespace': "
		  "'a', 'uid': 'uid-h'}, 'spec': {'nodeName': 'n1', 'hostNetwork': true}, "
		  "'status': {'podIPs': [{'ip': '192.168.0.11'}]}}");
	world_compile(&world);
	ck_assert_uint_eq(set_of("uid-n", "n"), set_of("uid-z", "z"));
	ck_assert_ptr_null(policy_rows_pod(&world.rows, "uid-h", "a", "h"));
	ck_assert(!has_class("192.168.0.11"));
	ck_assert_ptr_null(policy_rows_pod(&world.rows, "uid-y", "a", "y"));
}
END_TEST

/* Rule 42: a UID counts, not a name. */
START_TEST(test_uid)
{
	world_put(&world, "%s", DENY);
	world_sandbox(&world, "uid-x2", "a", "x", "10.244.1.51");
	world_sandbox(&world, NULL, "a", "x", "10.244.1.52");
	world_compile(&world);
	ck_assert_uint_gt(set_of("uid-x", "x"), MK_SET_PENDING);
	ck_assert_uint_eq(set_of("uid-x2", "x"), MK_SET_PENDING);
	ck_assert_uint_eq(set_of(NULL, "x"), set_of("uid-x", "x"));
	ck_assert(!has_class("10.244.1.51"));
	ck_assert(has_class("10.244.1.52"));
}
END_TEST

/* Rule 42: any Pod can claim the UID of another one, by the annotation of static pods. Each keeps
 * its namespace's policies, also if the claim is older. */
START_TEST(test_claimed_uid)
{
	world_put(&world, "%s", DENY);
	world_put(&world,
		  "{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'false', 'namespace': "
		  "'b', 'uid': 'uid-f', 'annotations': {'kubernetes.io/config.hash': 'uid-n'}}, "
		  "'spec': {'nodeName': 'n1'}}");
	world_compile(&world);
	world_put(&world,
		  "{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'n', 'namespace': "
		  "'a', 'uid': 'uid-n'}, 'spec': {'nodeName': 'n1'}}");
	world_compile(&world);
	ck_assert_uint_eq(set_of("uid-n", "n"), set_of("uid-z", "z"));
	ck_assert_uint_eq(policy_rows_pod(&world.rows, "uid-n", "b", "false")->set[0], MK_SET_OPEN);
	world_sandbox(&world, "uid-n", "a", "n", "10.244.1.50");
	world_delete(&world, MK_KIND_POD, "b", "false");
	world_compile(&world);
	ck_assert_uint_eq(set_of("uid-n", "n"), set_of("uid-z", "z"));
}
END_TEST

/* Rule 43: a sandbox whose object is gone keeps its labels, and the policies of now. As a peer it
 * is unknown. */
START_TEST(test_object_gone)
{
	uint64_t former;

	world_put(&world, "%s", DENY);
	world_compile(&world);
	former = set_of("uid-x", "x");
	world_delete(&world, MK_KIND_POD, "a", "x");
	world_compile(&world);
	ck_assert_uint_eq(set_of("uid-x", "x"), former);
	ck_assert(!has_class("10.244.1.1"));
	world_delete(&world, MK_KIND_NETWORK_POLICY, "a", "p");
	world_compile(&world);
	ck_assert_uint_eq(set_of("uid-x", "x"), MK_SET_OPEN);
	world_drop_sandbox(&world, "10.244.1.1");
	world_compile(&world);
	ck_assert_ptr_null(policy_rows_pod(&world.rows, "uid-x", "a", "x"));
}
END_TEST

/* Rule 43: if its Namespace is gone, too, it is pending, as long as there are policies. */
START_TEST(test_namespace_gone)
{
	uint64_t former;

	world_put(&world, "%s", DENY);
	world_put(&world, "%s", NP_OF("other", "b", "'podSelector': {}"));
	world_compile(&world);
	former = set_of("uid-x", "x");
	world_delete(&world, MK_KIND_POD, "a", "x");
	world_delete(&world, MK_KIND_NETWORK_POLICY, "a", "p");
	world_delete(&world, MK_KIND_NAMESPACE, "", "a");
	world_compile(&world);
	ck_assert_uint_eq(set_of("uid-x", "x"), MK_SET_PENDING);
	world_delete(&world, MK_KIND_NETWORK_POLICY, "b", "other");
	world_compile(&world);
	ck_assert_uint_eq(set_of("uid-x", "x"), MK_SET_OPEN);
	world_put(&world, "%s", DENY);
	world_put(&world, "{'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': 'a'}}");
	world_compile(&world);
	ck_assert_uint_eq(set_of("uid-x", "x"), former);
}
END_TEST

static void put_twin(const char *name, const char *phase, const char *start)
{
	world_put(
		&world,
		"{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': '%s', 'namespace': 'a', "
		"'uid': 'uid-%s', 'labels': {'app': '%s'}}, 'spec': {'nodeName': 'n2'}, 'status': "
		"{'phase': '%s', 'startTime': '%s', 'podIPs': [{'ip': '10.244.2.60'}]}}",
		name, name, name, phase, start);
}

/* Rule 44: two objects with one address. */
START_TEST(test_equal_addresses)
{
	world_put(&world, "%s", FROM(PODS(LABEL("app", "old"))));
	put_twin("old", "Running", "2026-01-01T00:00:00Z");
	world_compile(&world);
	world_check(&world, "one", "<10.244.2.60 T80 +N1");
	put_twin("young", "Running", "2026-01-02T00:00:00Z");
	world_compile(&world);
	world_check(&world, "two", "<10.244.2.60 T80 -N0");
	put_twin("young", "Succeeded", "2026-01-02T00:00:00Z");
	world_compile(&world);
	world_check(&world, "the later one has finished", "<10.244.2.60 T80 +N1");
	put_twin("old", "Failed", "2026-01-01T00:00:00Z");
	world_compile(&world);
	ck_assert(!has_class("10.244.2.60"));
}
END_TEST

/* Rule 44: on the pod's own node the address file decides. */
START_TEST(test_sandbox_decides)
{
	world_put(&world, "%s", FROM(PODS(LABEL("app", "z"))));
	world_put(&world, "{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'thief', "
			  "'namespace': 'a', 'uid': 'uid-t', 'labels': {'app': 'q'}}, 'spec': "
			  "{'nodeName': 'n2'}, 'status': {'startTime': '2026-02-02T00:00:00Z', "
			  "'podIPs': [{'ip': '10.244.1.3'}]}}");
	world_compile(&world);
	world_check(&world, "the sandbox wins", "<z T80 +N1");
	world_drop_sandbox(&world, "10.244.1.3");
	world_compile(&world);
	world_check(&world, "without a sandbox the later object", "<z T80 -N0");
}
END_TEST

/* Rule 46: a container of no Pod has no row, and is known to be no pod. */
START_TEST(test_no_pod)
{
	size_t before;

	world_put(&world, "%s", ADMIN(CIN("Deny", CSPACES(""))));
	world_compile(&world);
	before = policy_rows_count(&world.rows, ROWS_PODS);
	world_sandbox(&world, NULL, NULL, NULL, "10.244.1.70");
	world_compile(&world);
	ck_assert_uint_eq(policy_rows_count(&world.rows, ROWS_PODS), before);
	world_check(&world, "no pod", "<10.244.1.70 T80 +00; <10.244.1.71 T80 -A1");
}
END_TEST

/* ---- sets ------------------------------------------------------------------------------------ */

/* Rule 35: labels of a namespace change rows of its classes alone. */
START_TEST(test_namespace_labels)
{
	uint64_t former;

	world_put(&world, "%s", FROM(SPACES(LABEL("team", "blue"))));
	world_compile(&world);
	former = set_of("uid-x", "x");
	world_check(&world, "before", "<by T80 +N1; <cx T80 -N0");
	world_put(&world, "{'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': 'c', "
			  "'labels': {'team': 'blue'}}}");
	ck_assert_uint_eq(world_compile(&world), 1);
	world_check(&world, "after", "<by T80 +N1; <cx T80 +N1");
	world_put(&world, "{'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': 'c'}}");
	ck_assert_uint_eq(world_compile(&world), 1);
	world_check(&world, "back", "<by T80 +N1; <cx T80 -N0");
	ck_assert_uint_eq(set_of("uid-x", "x"), former);
}
END_TEST

/* A row that says what MK_PEER_ANY_POD says is no longer needed, but its removal would be late. */
START_TEST(test_default_row_stays)
{
	size_t peers;

	world_put(&world, "%s", FROM(SPACES(LABEL("team", "blue"))));
	world_compile(&world);
	peers = policy_rows_count(&world.rows, ROWS_PEERS);
	world_put(&world, "{'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': 'b'}}");
	world_compile(&world);
	world_check(&world, "no label", "<by T80 -N0");
	ck_assert_uint_eq(policy_rows_count(&world.rows, ROWS_PEERS), peers);
}
END_TEST

/* Rule 48: without rules of a direction a pod has no set in it. */
START_TEST(test_cluster_policy_without_rules)
{
	const struct mk_pod_row *row;

	world_put(&world, "%s", ADMIN(CIN("Deny", CSPACES(""))));
	world_compile(&world);
	row = policy_rows_pod(&world.rows, "uid-x", "a", "x");
	ck_assert_uint_gt(row->set[MK_POLICY_INGRESS], MK_SET_PENDING);
	ck_assert_uint_eq(row->set[MK_POLICY_EGRESS], MK_SET_OPEN);
}
END_TEST

/* A set that no pod has stays, also for new classes, until it is released. */
START_TEST(test_sets_stay)
{
	size_t peers;

	world_put(&world, "%s", FROM(PODS(LABEL("app", "y"))));
	world_compile(&world);
	peers = policy_rows_count(&world.rows, ROWS_PEERS);
	world_delete(&world, MK_KIND_NETWORK_POLICY, "a", "p");
	world_compile(&world);
	ck_assert_uint_eq(set_of("uid-x", "x"), MK_SET_OPEN);
	ck_assert_uint_eq(policy_rows_count(&world.rows, ROWS_PEERS), peers);
	mk_policies_release(world.policies);
	world_compile(&world);
	ck_assert_uint_eq(policy_rows_count(&world.rows, ROWS_PEERS), 0);
	ck_assert_uint_eq(policy_rows_count(&world.rows, ROWS_PORTS), 0);
	ck_assert_uint_eq(policy_rows_count(&world.rows, ROWS_BLOCKS), 0);
}
END_TEST

/* Subjects share a set, except for their own numbers of a named port. */
START_TEST(test_sets_are_shared)
{
	world_put(&world, "%s", NP("'podSelector': {}, 'ingress': [{'from': [" PODS("") "]}]"));
	world_compile(&world);
	ck_assert_uint_eq(set_of("uid-x", "x"), set_of("uid-z", "z"));
	world_put(&world, "%s", NP("'podSelector': {}, 'ingress': [{'ports': [{'port': 'web'}]}]"));
	world_compile(&world);
	ck_assert_uint_ne(set_of("uid-x", "x"), set_of("uid-z", "z"));
}
END_TEST

/* The flags in the name of a set. */
START_TEST(test_set_flags)
{
	world_put(&world, "%s", FROM(PODS("")));
	world_compile(&world);
	ck_assert_uint_eq(set_of("uid-x", "x") >> 62, MK_SET_ISOLATES >> 62);
	world_put(&world, "%s", FROM(BLOCK("192.0.2.0/24")));
	world_compile(&world);
	ck_assert_uint_eq(set_of("uid-x", "x") >> 62, 3);
	world_delete(&world, MK_KIND_NETWORK_POLICY, "a", "p");
	world_put(&world, "%s", ADMIN(CIN("Deny", CSPACES(""))));
	world_compile(&world);
	ck_assert_uint_eq(set_of("uid-x", "x") >> 62, 0);
}
END_TEST

/* Keys that are kept make classes finer until they are released. */
START_TEST(test_keep_keys)
{
	const char *const keys[] = { "app" };
	struct mk_policy_figures few, more;
	struct mk_error err;

	world_compile(&world);
	mk_policies_figures(world.policies, &few);
	ck_ok(mk_policies_keep_keys(world.policies, keys, 1, &err));
	world_compile(&world);
	mk_policies_figures(world.policies, &more);
	ck_assert_uint_eq(few.classes, 3);
	ck_assert_uint_eq(more.classes, 6);
	mk_policies_release(world.policies);
	world_compile(&world);
	mk_policies_figures(world.policies, &more);
	ck_assert_uint_eq(more.classes, few.classes);
}
END_TEST

static uint64_t class_of(const char *ip)
{
	struct mk_ip address = ip_of(ip);

	return policy_rows_identity(&world.rows, &address)->class_id;
}

static void keep_keys_of(json_object *sets)
{
	json_object *list = json_object_object_get(sets, "keys");
	const char *keys[16];
	struct mk_error err;

	for (size_t i = 0; i < json_object_array_length(list); i++)
		keys[i] = json_object_get_string(json_object_array_get_idx(list, i));
	ck_ok(mk_policies_keep_keys(world.policies, keys, json_object_array_length(list), &err));
}

/* After a restart, classes are as fine as those of the former agent: its ports and blocks, too. */
START_TEST(test_keep_all_keys)
{
	uint64_t former;

	world_put(&world, "%s",
		  OUT("{'to': [" EXCEPT("10.244.0.0/16", "'10.244.1.0/24'") ", " PODS(
			  LABEL("app", "y")) "], 'ports': [{'port': 'web'}]}"));
	world_compile(&world);
	former = class_of("10.244.2.1");
	cleanup_json json_object *sets = mk_policies_describe(world.policies);

	world_delete(&world, MK_KIND_NETWORK_POLICY, "a", "p");
	world_compile(&world);
	mk_policies_release(world.policies);
	world_compile(&world);
	ck_assert_uint_ne(class_of("10.244.2.1"), former);
	keep_keys_of(sets);
	world_compile(&world);
	ck_assert_uint_eq(class_of("10.244.2.1"), former);
}
END_TEST

/* A set that goes out of use after the release stays, with its keys. */
START_TEST(test_release_then_change)
{
	size_t peers;

	world_put(&world, "%s", FROM(PODS(LABEL("app", "y"))));
	world_compile(&world);
	peers = policy_rows_count(&world.rows, ROWS_PEERS);
	mk_policies_release(world.policies);
	world_delete(&world, MK_KIND_NETWORK_POLICY, "a", "p");
	world_compile(&world);
	ck_assert_uint_eq(policy_rows_count(&world.rows, ROWS_PEERS), peers);
}
END_TEST

START_TEST(test_wants)
{
	world_compile(&world);
	ck_assert_int_eq(mk_policies_want(world.policies), MK_WANTS_NO_PODS);
	world_put(&world, "%s", NP_OF("p", "c", "'podSelector': {}"));
	ck_assert_int_eq(mk_policies_want(world.policies), MK_WANTS_OWN_PODS);
	world_put(&world, "%s", FROM(BLOCK("192.0.2.0/24")));
	ck_assert_int_eq(mk_policies_want(world.policies), MK_WANTS_OWN_PODS);
	world_put(&world, "%s", TO_PORTS("{'port': 'web'}"));
	ck_assert_int_eq(mk_policies_want(world.policies), MK_WANTS_ALL_PODS);
	world_put(&world, "%s", FROM(PODS("")));
	ck_assert_int_eq(mk_policies_want(world.policies), MK_WANTS_ALL_PODS);
	world_compile(&world);
	world_check(&world, "the changes were kept", "<y T80 +N1; <by T80 -N0");
}
END_TEST

/* A node's labels and addresses are part of a set. */
START_TEST(test_nodes_change)
{
	world_put(&world, "%s", ADMIN(COUT("Deny", "{'nodes': {" LABEL("zone", "east") "}}")));
	world_compile(&world);
	world_check(&world, "before", ">192.168.0.11 T80 -A1; >192.168.0.12 T80 +00");
	world_put(&world,
		  "{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n2', 'labels': "
		  "{'zone': 'east'}}, 'status': {'addresses': [{'type': 'InternalIP', "
		  "'address': '192.168.0.12'}]}}");
	world_compile(&world);
	world_check(&world, "after", ">192.168.0.11 T80 -A1; >192.168.0.12 T80 -A1");
}
END_TEST

UNIT_SUITE("policy_life")
{
	TCase *tcase = unit_case(suite, "life", setup, teardown);

	tcase_add_test(tcase, test_pending);
	tcase_add_test(tcase, test_pending_by_cluster_policy);
	tcase_add_test(tcase, test_unknown_namespace);
	tcase_add_test(tcase, test_bound);
	tcase_add_test(tcase, test_uid);
	tcase_add_test(tcase, test_claimed_uid);
	tcase_add_test(tcase, test_object_gone);
	tcase_add_test(tcase, test_namespace_gone);
	tcase_add_test(tcase, test_equal_addresses);
	tcase_add_test(tcase, test_sandbox_decides);
	tcase_add_test(tcase, test_no_pod);
	tcase = unit_case(suite, "sets", setup, teardown);
	tcase_add_test(tcase, test_namespace_labels);
	tcase_add_test(tcase, test_default_row_stays);
	tcase_add_test(tcase, test_cluster_policy_without_rules);
	tcase_add_test(tcase, test_sets_stay);
	tcase_add_test(tcase, test_sets_are_shared);
	tcase_add_test(tcase, test_set_flags);
	tcase_add_test(tcase, test_keep_keys);
	tcase_add_test(tcase, test_keep_all_keys);
	tcase_add_test(tcase, test_release_then_change);
	tcase_add_test(tcase, test_wants);
	tcase_add_test(tcase, test_nodes_change);
}
