// SPDX-License-Identifier: Apache-2.0
/* What in the cluster's policies has no effect, as `monokube check` shows it. */
#include <string.h>

#include "agent/policy/notes.h"
#include "base/cleanup.h"
#include "unit/policy_world.h"
#include "unit/unit.h"

#define NETWORK(spec)                                                                     \
	"{'apiVersion':'networking.k8s.io/v1','kind':'NetworkPolicy','metadata':"         \
	"{'namespace':'a','name':'p'},'spec':{'podSelector':{},'policyTypes':['Egress']," \
	"'egress':[" spec "]}}"
#define CLUSTER(peer)                                                                              \
	"{'apiVersion':'policy.networking.k8s.io/v1alpha2','kind':'ClusterNetworkPolicy',"         \
	"'metadata':{'name':'c'},'spec':{'tier':'Admin','priority':1,'subject':{'namespaces':{}}," \
	"'egress':[{'action':'Accept','to':[" peer "]}]}}"

static const struct row {
	const char *object, *policy, *says; /* NULL: no note */
} rows[] = {
	{ NETWORK("{'to':[{'ipBlock':{'cidr':'10.96.0.10/32'}}]}"), "a/p",
	  "10.96.0.10/32 is in the range of Services, whose addresses never match" },
	{ NETWORK("{'to':[{'ipBlock':{'cidr':'10.96.0.0/12'}}]}"), "a/p",
	  "10.96.0.0/12 is in the range of Services, whose addresses never match" },
	{ NETWORK("{'to':[{'ipBlock':{'cidr':'10.0.0.0/8'}}]}"), NULL, NULL },
	{ NETWORK("{'to':[{'ipBlock':{'cidr':'192.0.2.0/24'}}]}"), NULL, NULL },
	{ NETWORK("{'to':[{'podSelector':{}}]}"), NULL, NULL },
	{ NETWORK("{'to':[{'ipBlock':{'cidr':'nonsense'}}]}"), "a/p", "cidr" },
	{ CLUSTER("{'domainNames':['example.com.']}"), "ClusterNetworkPolicy c",
	  "domainNames are not supported yet and match nothing" },
	{ CLUSTER("{'networks':['10.96.1.0/24']}"), "ClusterNetworkPolicy c",
	  "10.96.1.0/24 is in the range of Services" },
	{ CLUSTER("{'hosts':[]}"), "ClusterNetworkPolicy c", "to[0]" },
};

static const char *text_of(json_object *note, const char *key)
{
	return json_object_get_string(json_object_object_get(note, key));
}

START_TEST(test_row)
{
	const struct row *row = &rows[_i];
	struct policy_world world;
	json_object *notes, *first;

	world_begin(&world);
	world_put(&world, "{'apiVersion':'networking.k8s.io/v1','kind':'ServiceCIDR','metadata':"
			  "{'name':'kubernetes'},'spec':{'cidrs':['10.96.0.0/12']}}");
	world_put(&world, "%s", row->object);
	notes = notes_of(world.model, false);
	ck_assert_uint_eq(json_object_array_length(notes), row->policy ? 1 : 0);
	if (row->policy) {
		first = json_object_array_get_idx(notes, 0);
		ck_assert_str_eq(text_of(first, "policy"), row->policy);
		ck_assert_msg(strstr(text_of(first, "says"), row->says) != NULL, "%s",
			      text_of(first, "says"));
		ck_assert_ptr_nonnull(text_of(first, "remedy"));
	}
	json_object_put(notes);
	world_end(&world);
}
END_TEST

START_TEST(test_limit)
{
	struct policy_world world;
	json_object *notes;

	world_begin(&world);
	for (int i = 0; i < NOTES_MAX + 20; i++)
		world_put(&world,
			  "{'apiVersion':'networking.k8s.io/v1','kind':'NetworkPolicy','metadata':"
			  "{'namespace':'a','name':'p%d'},'spec':{'podSelector':{},'egress':"
			  "[{'to':[{'ipBlock':{'cidr':'nonsense'}}]}]}}",
			  i);
	notes = notes_of(world.model, false);
	ck_assert_uint_eq(json_object_array_length(notes), NOTES_MAX);
	json_object_put(notes);
	world_end(&world);
}
END_TEST

START_TEST(test_masquerade)
{
	struct policy_world world;
	json_object *notes;

	world_begin(&world);
	notes = notes_of(world.model, true);
	ck_assert_uint_eq(json_object_array_length(notes), 0); /* there are no policies */
	json_object_put(notes);
	world_put(&world, "%s", NETWORK("{}"));
	notes = notes_of(world.model, true);
	ck_assert_uint_eq(json_object_array_length(notes), 1);
	ck_assert_str_eq(text_of(json_object_array_get_idx(notes, 0), "policy"), "masqueradeAll");
	json_object_put(notes);
	world_end(&world);
}
END_TEST

#define AUDITED "'annotations':{'monokube.io/policy-mode':'audit'},"

START_TEST(test_audited)
{
	struct policy_world world;
	json_object *names;

	world_begin(&world);
	world_put(&world, "{'apiVersion':'networking.k8s.io/v1','kind':'NetworkPolicy','metadata':"
			  "{" AUDITED "'namespace':'a','name':'p'},'spec':{'podSelector':{}}}");
	world_put(&world, "{'apiVersion':'networking.k8s.io/v1','kind':'NetworkPolicy','metadata':"
			  "{'namespace':'a','name':'q'},'spec':{'podSelector':{}}}");
	world_put(&world, "{'apiVersion':'policy.networking.k8s.io/v1alpha2','kind':"
			  "'ClusterNetworkPolicy','metadata':{" AUDITED "'name':'c'},'spec':"
			  "{'tier':'Admin','priority':1,'subject':{'namespaces':{}}}}");
	names = audited_of(world.model);
	ck_assert_str_eq(json_object_to_json_string_ext(
				 names, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE),
			 "[\"a/p\",\"ClusterNetworkPolicy c\"]");
	json_object_put(names);
	world_end(&world);
}
END_TEST

UNIT_SUITE("policy_notes")
{
	TCase *tcase = unit_case(suite, "policy_notes", NULL, NULL);

	tcase_add_loop_test(tcase, test_row, 0, (int)MK_ARRAY_SIZE(rows));
	tcase_add_test(tcase, test_limit);
	tcase_add_test(tcase, test_masquerade);
	tcase_add_test(tcase, test_audited);
}
