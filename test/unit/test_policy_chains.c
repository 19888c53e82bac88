// SPDX-License-Identifier: Apache-2.0
/* Which flows of pod a/x the compiler's rows give to which service function chain, and what changes
 * of chains, labels and namespaces change. */
#include <stdio.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "unit/chain_objects.h"
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

/* ---- one chain, several chains, chains and policies ------------------------------------------ */

#define C1(traffic)	    CHAIN_OF("a", "c1", TRAFFIC(traffic))
#define C2(traffic)	    CHAIN_OF("a", "c2", TRAFFIC(traffic))
#define C2_FIRST(traffic)   CHAIN_OF("a", "c2", "'priority': 1, " TRAFFIC(traffic))
#define C_OF(name, traffic) CHAIN_OF(name, "c1", TRAFFIC(traffic))
#define TO_PEERS(of)	    EGRESS ", 'peers': [" of "]"
#define TO_CHAIN_PORTS(of)  EGRESS ", 'ports': [" of "]"
#define INGRESS		    "'direction': 'Ingress'"
#define OUTSIDE		    "{'outside': true}"
#define AT(name, time, uid)                                                \
	CHAIN_WITH("'name': '" name "', 'namespace': 'a', 'uid': '" uid    \
		   "', 'creationTimestamp': '2026-01-01T00:00:" time "Z'", \
		   TRAFFIC(EGRESS))
#define NAMED(name, uid) \
	CHAIN_WITH("'name': '" name "', 'namespace': 'a', 'uid': '" uid "'", TRAFFIC(EGRESS))
#define AUDITED                                                                                 \
	"{'apiVersion': 'networking.k8s.io/v1', 'kind': 'NetworkPolicy', 'metadata': {'name': " \
	"'p', 'namespace': 'a', 'annotations': {'monokube.io/policy-mode': 'audit'}}, 'spec': " \
	"{'podSelector': {}, 'policyTypes': ['Egress'], 'egress': [{'ports': [{'port': 80}]}]}}"
#define SPACE(name, labels)                                                     \
	"{'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': '" name \
	"', 'labels': {" labels "}}}"
#define CONSENT(to) "'networking.monokube.io/chained-by': '" to "', 'team': 'red'"
#define POD_X(labels)                                                                             \
	"{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'x', 'namespace': 'a', 'uid': " \
	"'uid-x', 'labels': {" labels "}}, 'spec': {'nodeName': 'n1'}, 'status': {'podIPs': "     \
	"[{'ip': '10.244.1.1'}]}}"
#define IS_F "'networking.monokube.io/function': 'f', 'app': 'x'"

#define OF_WEB		 CHAIN_OF("a", "c1", OF_SERVICE("web", ""))
#define OF_WEB_AND(more) CHAIN_OF("a", "c1", OF_SERVICE("web", ", " more))
#define SERVICE_OF(name, of)                                                                      \
	"{'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 'web', 'namespace': '" name \
	"'}, 'spec': {" of "}}"
#define WEB(selector, ports) SERVICE_OF("a", "'selector': {" selector "}, 'ports': [" ports "]")
#define WEB_PORTS(ports)     WEB("'app': 'x'", ports)
#define TO_8080		     "{'port': 80, 'targetPort': 8080}"

static const struct world_row rows[] = {
	{ "egress: flows that the pod begins",
	  { C1(EGRESS) },
	  ">y T80 +00@1; >by U53 +00@1; >203.0.113.7 T80 +00@1; >y I0 +00@1; <y T80 +00" },
	{ "ingress: flows that others begin",
	  { C1(INGRESS) },
	  "<y T80 +00@1; <203.0.113.7 S9 +00@1; <?10.244.9.9 T1 +00@1; >y T80 +00" },
	{ "both", { C1("'direction': 'Both'") }, "<y T80 +00@1; >y T80 +00@1" },
	{ "a selector that matches",
	  { CHAIN_OF("a", "c1", "'traffic': {" X ", " EGRESS "}, " F) },
	  ">y T80 +00@1" },
	{ "a selector that does not",
	  { CHAIN_OF("a", "c1",
		     "'traffic': {'podSelector': {" LABEL("app", "y") "}, " EGRESS "}, " F) },
	  ">y T80 +00" },
	{ "a chain without number", { CHAIN_OF("a", "c0", TRAFFIC(EGRESS)) }, ">y T80 +00" },

	/* peers */
	{ "outside: the world, nodes, but no pod and no unknown pod",
	  { C1(TO_PEERS(OUTSIDE)) },
	  ">203.0.113.7 T80 +00@1; >192.168.0.12 T80 +00@1; >10.18.0.2 T80 +00@1; >y T80 +00; "
	  ">cx T80 +00; >10.244.9.9 T80 +00; >2001:db8::1 T80 +00@1" },
	{ "a block with an exception, also of pods",
	  { C1(TO_PEERS(EXCEPT("10.244.2.0/24", "'10.244.2.2/32'"))) },
	  ">y T80 +00@1; >by T80 +00; >z T80 +00; >203.0.113.7 T80 +00" },
	{ "podSelector: of the chain's namespace",
	  { C1(TO_PEERS(PODS(LABEL("app", "y")))) },
	  ">y T80 +00@1; >by T80 +00; >z T80 +00; >203.0.113.7 T80 +00; >192.168.0.12 T80 +00" },
	{ "a pod that is not known yet may be one of them",
	  { C1(TO_PEERS(PODS(LABEL("app", "y")))) },
	  ">10.244.9.9 T80 +00@1" },
	{ "namespaceSelector",
	  { C1(TO_PEERS(SPACES(LABEL("team", "blue")))) },
	  ">by T80 +00@1; >bx T80 +00@1; >y T80 +00; >cx T80 +00" },
	{ "one peer is enough",
	  { C1(TO_PEERS(OUTSIDE ", " PODS(LABEL("app", "y")))) },
	  ">203.0.113.7 T80 +00@1; >y T80 +00@1; >by T80 +00" },
	{ "ports and protocols",
	  { C1(TO_CHAIN_PORTS("{'port': 80}, {'protocol': 'UDP', 'port': 50, 'endPort': 60}, "
			      "{'protocol': 'SCTP'}")) },
	  ">y T80 +00@1; >y T81 +00; >y U49 +00; >y U50 +00@1; >y U60 +00@1; >y U61 +00; >y S7 "
	  "+00@1; >y I0 +00" },
	{ "peers and ports",
	  { C1(TO_PEERS(OUTSIDE) ", 'ports': [{'port': 80}]") },
	  ">203.0.113.7 T80 +00@1; >203.0.113.7 T81 +00; >y T80 +00" },

	/* order */
	{ "the higher priority first", { C1(EGRESS), C2_FIRST(EGRESS) }, ">y T80 +00@2" },
	{ "the second one takes what the first one leaves",
	  { C1(EGRESS), C2_FIRST(TO_CHAIN_PORTS("{'port': 80}")) },
	  ">y T80 +00@2; >y T81 +00@1; >y I0 +00@1" },
	{ "the older one first",
	  { AT("young", "02", "c1"), AT("zold", "01", "c2") },
	  ">y T80 +00@2" },
	{ "of the same age: by name", { C2(EGRESS), C1(EGRESS) }, ">y T80 +00@1" },
	{ "four of the same age: by name",
	  { NAMED("m3", "c3"), NAMED("m9", "c9"), NAMED("m1", "c1"), NAMED("m7", "c7") },
	  ">y T80 +00@1" },
	{ ".. priority before age", { AT("old", "01", "c1"), C2_FIRST(EGRESS) }, ">y T80 +00@2" },
	{ "the first one by address, the second one by labels",
	  { C1(TO_PEERS(PODS(LABEL("app", "y")))), C2_FIRST(TO_PEERS(BLOCK("10.244.2.0/24"))) },
	  ">y T80 +00@2; >by T80 +00@2" },
	{ "the first one by labels, the second one by address",
	  { C2_FIRST(TO_PEERS(PODS(LABEL("app", "y")))), C1(TO_PEERS(BLOCK("10.244.2.0/24"))) },
	  ">y T80 +00@2; >by T80 +00@1" },
	{ "each direction has its own first one",
	  { C1("'direction': 'Both'"), C2_FIRST(INGRESS) },
	  ">y T80 +00@1; <y T80 +00@2" },

	/* consent */
	{ "another namespace, without namespaceSelector", { C_OF("b", EGRESS) }, ">y T80 +00" },
	{ ".. which has consented, without namespaceSelector",
	  { C_OF("b", EGRESS), SPACE("a", CONSENT("b")) },
	  ">y T80 +00" },
	{ ".. without consent", { C_OF("b", "'namespaceSelector': {}, " EGRESS) }, ">y T80 +00" },
	{ ".. with consent",
	  { C_OF("b", "'namespaceSelector': {}, " EGRESS), SPACE("a", CONSENT("b")) },
	  ">y T80 +00@1" },
	{ ".. with consent to another one",
	  { C_OF("b", "'namespaceSelector': {}, " EGRESS), SPACE("a", CONSENT("c")) },
	  ">y T80 +00" },
	{ ".. with consent, and not selected",
	  { C_OF("b", "'namespaceSelector': {" LABEL("team", "blue") "}, " EGRESS),
	    SPACE("a", CONSENT("b")) },
	  ">y T80 +00" },
	{ "its own namespace needs no consent",
	  { C1("'namespaceSelector': {" LABEL("team", "red") "}, " EGRESS) },
	  ">y T80 +00@1" },
	{ ".. but must be selected",
	  { C1("'namespaceSelector': {" LABEL("team", "blue") "}, " EGRESS) },
	  ">y T80 +00" },

	/* functions */
	{ "never a pod of its own functions", { C1(EGRESS), POD_X(IS_F) }, ">y T80 +00" },
	{ ".. but one of another function",
	  { CHAIN_OF("a", "c1", "'traffic': {'podSelector': {}, " EGRESS "}, " FUNCTION("'g'")),
	    POD_X(IS_F) },
	  ">y T80 +00@1" },
	{ ".. and one with that name in another namespace",
	  { C_OF("b", "'namespaceSelector': {}, " EGRESS), SPACE("a", CONSENT("b")), POD_X(IS_F) },
	  ">y T80 +00@1" },
	{ ".. whichever function of the chain it is",
	  { CHAIN_OF("a", "c1",
		     "'traffic': {'podSelector': {}, " EGRESS "}, 'functions': [{'name': 'g'}, "
		     "{'name': 'f'}]"),
	    POD_X(IS_F) },
	  ">y T80 +00" },

	/* Services */
	{ "a Service: flows that others begin, to its target port",
	  { OF_WEB, WEB_PORTS(TO_8080) },
	  "<y T8080 +00@1; <203.0.113.7 T8080 +00@1; <?10.244.9.9 T8080 +00@1; <y T80 +00; <y "
	  "T8081 +00; <y U8080 +00; <y I0 +00; >y T8080 +00" },
	{ "a named target port: the pod's own number, of this protocol",
	  { OF_WEB, WEB_PORTS("{'port': 80, 'targetPort': 'web'}, {'name': 'u', 'protocol': 'UDP', "
			      "'port': 80, 'targetPort': 'web'}") },
	  "<y T8080 +00@1; <y T80 +00; <y T9090 +00; <y U8080 +00" },
	{ "several ports, by name and by number",
	  { OF_WEB, WEB_PORTS("{'name': 'a', 'port': 53, 'protocol': 'UDP', 'targetPort': 'dns'}, "
			      "{'name': 'b', 'port': 53, 'targetPort': 5300}") },
	  "<y U5353 +00@1; <y T5300 +00@1; <y T5353 +00; <y U53 +00" },
	{ "a name that the pod does not have",
	  { OF_WEB, WEB_PORTS("{'port': 80, 'targetPort': 'admin'}") },
	  "<y T80 +00; <y T8080 +00" },
	{ "no target port: the Service's own number",
	  { OF_WEB, WEB_PORTS("{'port': 80}, {'name': 'b', 'port': 81, 'targetPort': 0}") },
	  "<y T80 +00@1; <y T81 +00@1; <y T8080 +00" },
	{ "a Service of other pods", { OF_WEB, WEB("'app': 'y'", TO_8080) }, "<y T8080 +00" },
	{ "all labels of its selector must match",
	  { OF_WEB, WEB("'app': 'x', 'env': 'prod'", TO_8080) },
	  "<y T8080 +00" },
	{ ".. as these do",
	  { OF_WEB, WEB("'app': 'x', 'env': 'prod'", TO_8080), POD_X("'app': 'x', 'env': 'prod'") },
	  "<y T8080 +00@1" },
	{ "no Service: no pod", { OF_WEB }, "<y T8080 +00; <y T80 +00" },
	{ "a Service without selector: no pod", { OF_WEB, WEB("", TO_8080) }, "<y T8080 +00" },
	{ "a Service without ports: no flow",
	  { OF_WEB, WEB_PORTS("") },
	  "<y T8080 +00; <y I0 +00" },
	{ "a Service of another namespace",
	  { OF_WEB, SERVICE_OF("b", "'selector': {'app': 'x'}, 'ports': [" TO_8080 "]") },
	  "<y T8080 +00" },
	{ "a chain of another namespace, also with consent",
	  { CHAIN_OF("b", "c1", OF_SERVICE("web", "")),
	    SERVICE_OF("b", "'selector': {'app': 'x'}, 'ports': [" TO_8080 "]"),
	    SPACE("a", CONSENT("b")) },
	  "<y T8080 +00" },
	{ "a Service, and peers",
	  { OF_WEB_AND("'peers': [" OUTSIDE ", " PODS(LABEL("app", "y")) "]"), WEB_PORTS(TO_8080) },
	  "<y T8080 +00@1; <z T8080 +00; <203.0.113.7 T8080 +00@1; <203.0.113.7 T80 +00" },
	{ "a Service, and a chain for all ports behind it",
	  { OF_WEB, WEB_PORTS(TO_8080), C2(INGRESS) },
	  "<y T8080 +00@1; <y T80 +00@2" },
	{ "a Service, and a NetworkPolicy",
	  { OF_WEB, WEB_PORTS(TO_8080), FROM(PODS(LABEL("app", "y"))) },
	  "<y T8080 +N1@1; <z T8080 -N0; <y T80 +N1" },
	{ "a Service: never a pod of the chain's own functions",
	  { OF_WEB, WEB_PORTS(TO_8080), POD_X(IS_F) },
	  "<y T8080 +00" },

	/* with policies, which allow and deny as without chains */
	{ "a NetworkPolicy",
	  { TO_PORTS("{'port': 80}"), C1(EGRESS) },
	  ">y T80 +N1@1; >y T81 -N0; <y T80 +00" },
	{ ".. of the other direction", { IN(""), C1(EGRESS) }, "<y T80 -N0; >y T80 +00@1" },
	{ ".. with two rules, and two chains",
	  { OUT("{'ports': [{'port': 80}]}, {'to': [" PODS(LABEL("app", "y")) "]}"),
	    C1(TO_CHAIN_PORTS("{'port': 80}")), C2(EGRESS) },
	  ">y T80 +N1@1; >y T81 +N2@2; >by T80 +N1@1; >by T81 -N0" },
	{ "ClusterNetworkPolicies of both tiers",
	  { ADMIN(COUT("Deny", CSPACES(LABEL("team", "blue")))),
	    BASELINE(COUT("Accept", CSPACES(""))), C1(EGRESS) },
	  ">by T80 -A1; >y T80 +B2@1; >203.0.113.7 T80 +00@1" },
	{ "an audited policy reports, and the chain takes the flow",
	  { AUDITED, C1(EGRESS) },
	  ">y T80 +00@1; >y T81 +00~N0@1" },
};

START_TEST(test_row)
{
	world_check_row(&world, &rows[_i]);
}
END_TEST

/* networkPolicy: audit concerns policies only. */
START_TEST(test_audit_mode)
{
	world_end(&world);
	world_begin_audit(&world);
	world_put(&world, "%s", OUT(""));
	world_put(&world, "%s", C1(EGRESS));
	world_compile(&world);
	world_check(&world, "audit", ">y T80 +00~N0@1");
	ck_assert_int_eq(policy_rows_namespace(&world.rows, "a"), 1 << MK_POLICY_EGRESS);
}
END_TEST

/* ---- sets ------------------------------------------------------------------------------------ */

static uint64_t set_of(enum mk_policy_direction direction)
{
	return policy_rows_pod(&world.rows, "uid-x", "a", "x")->set[direction];
}

/* A pod with chains only is not isolated. */
START_TEST(test_flags)
{
	uint64_t alone, both;

	world_put(&world, "%s", C1(EGRESS));
	world_compile(&world);
	alone = set_of(MK_POLICY_EGRESS);
	ck_assert_uint_eq(alone & MK_SET_FLAGS, MK_SET_HAS_CHAINS);
	ck_assert(mk_set_enforces(alone));
	ck_assert_uint_eq(set_of(MK_POLICY_INGRESS), MK_SET_OPEN);
	world_put(&world, "%s", C1(TO_PEERS(OUTSIDE)));
	world_compile(&world);
	ck_assert_uint_eq(set_of(MK_POLICY_EGRESS) & MK_SET_FLAGS,
			  MK_SET_HAS_CHAINS | MK_SET_HAS_BLOCKS);
	world_put(&world, "%s", C1(EGRESS));
	world_put(&world, "%s", TO_PORTS("{'port': 80}"));
	world_compile(&world);
	both = set_of(MK_POLICY_EGRESS);
	ck_assert_uint_eq(both & MK_SET_FLAGS, MK_SET_HAS_CHAINS | MK_SET_ISOLATES);
	world_put(&world, "%s", AUDITED);
	world_compile(&world);
	ck_assert_uint_eq(set_of(MK_POLICY_EGRESS) & MK_SET_FLAGS,
			  MK_SET_HAS_CHAINS | MK_SET_AUDITS | MK_SET_AUDIT_ISOLATES |
				  MK_SET_ONLY_AUDITS);
	world_put(&world, "%s", TO_PORTS("{'port': 80}"));
	world_delete(&world, MK_KIND_CHAIN, "a", "c1");
	world_compile(&world);
	ck_assert_uint_eq(set_of(MK_POLICY_EGRESS) & MK_SET_FLAGS, MK_SET_ISOLATES);
}
END_TEST

/* Each of these is another set, so flows of the pod are asked about again. */
START_TEST(test_names)
{
	static const char *const chains[] = {
		C1(EGRESS),
		CHAIN_WITH("'name': 'c1', 'namespace': 'a', 'uid': 'c2'", TRAFFIC(EGRESS)),
		C1(TO_PEERS(OUTSIDE)),
		C1(TO_CHAIN_PORTS("{'port': 80}")),
	};
	uint64_t names[MK_ARRAY_SIZE(chains)];

	for (size_t i = 0; i < MK_ARRAY_SIZE(chains); i++) {
		world_put(&world, "%s", chains[i]);
		world_compile(&world);
		names[i] = set_of(MK_POLICY_EGRESS);
		for (size_t j = 0; j < i; j++)
			ck_assert_msg(names[i] != names[j], "%zu and %zu have one name", i, j);
	}
	world_put(&world, "%s", chains[0]);
	world_compile(&world);
	ck_assert_uint_eq(set_of(MK_POLICY_EGRESS), names[0]);
	/* what concerns no flow of this pod keeps the name */
	world_put(&world, "%s",
		  CHAIN_OF("a", "c1", "'priority': 7, 'takeOpenFlows': false, " TRAFFIC(EGRESS)));
	world_compile(&world);
	ck_assert_uint_eq(set_of(MK_POLICY_EGRESS), names[0]);
}
END_TEST

START_TEST(test_description)
{
	cleanup_json json_object *all = NULL;
	json_object *sets, *set, *chains;
	char name[20];

	world_put(&world, "%s", TO_PORTS("{'port': 80}"));
	world_put(&world, "%s", C1(TO_PEERS(OUTSIDE) ", 'ports': [{'port': 443}]"));
	world_compile(&world);
	snprintf(name, sizeof(name), "%016llx", (unsigned long long)set_of(MK_POLICY_EGRESS));
	all = mk_policies_describe(world.policies);
	ck_assert(json_object_object_get_ex(all, "sets", &sets) &&
		  json_object_object_get_ex(sets, name, &set) &&
		  json_object_object_get_ex(set, "chains", &chains));
	ck_assert_str_eq(json_object_to_json_string_ext(chains, JSON_C_TO_STRING_NOSLASHESCAPE),
			 "[{\"number\":2,\"chain\":\"a/c1\",\"id\":1,\"peers\":\"outside\","
			 "\"ports\":\"TCP 443\"}]");
	ck_assert_str_eq(json_object_to_json_string_ext(json_object_object_get(set, "policies"),
							JSON_C_TO_STRING_NOSLASHESCAPE),
			 "[\"a/p\"]");
	ck_assert_uint_eq(json_object_array_length(json_object_object_get(set, "rules")), 1);
}
END_TEST

/* ---- figures, wishes, pods that are not known yet -------------------------------------------- */

START_TEST(test_figures)
{
	struct mk_policy_figures figures;

	ck_assert_int_eq(mk_policies_want(world.policies), MK_WANTS_NO_PODS);
	world_put(&world, "%s", C1(TO_PEERS(OUTSIDE)));
	world_compile(&world);
	ck_assert_int_eq(mk_policies_want(world.policies), MK_WANTS_OWN_PODS);
	mk_policies_figures(world.policies, &figures);
	ck_assert_uint_eq(figures.chains, 1);
	ck_assert_uint_eq(figures.chained_pods, 2); /* a/x and a/z */
	ck_assert_uint_eq(figures.open_pods, 3);
	ck_assert_uint_eq(figures.isolated_pods, 0);
	ck_assert(figures.holds);
	world_put(&world, "%s", TO_PORTS("{'port': 80}"));
	world_put(&world, "%s", C1(TO_PEERS(PODS(""))));
	world_compile(&world);
	mk_policies_figures(world.policies, &figures);
	ck_assert_uint_eq(figures.isolated_pods, 1);
	ck_assert_uint_eq(figures.audited_pods, 0);
	ck_assert_uint_eq(figures.chained_pods, 2);
	ck_assert_int_eq(mk_policies_want(world.policies), MK_WANTS_ALL_PODS);
}
END_TEST

#define SKIP "'functions': [{'name': 'f', 'whenUnavailable': 'Skip'}]"

/* Which directions hold a new pod of namespace a and of b, and what a pod without object gets. */
static const struct {
	const char *name, *objects[2];
	int here, there; /* bits of directions */
	bool pending;
} holding[] = {
	{ "no chain", { NULL }, 0, 0, false },
	{ "a chain of its namespace", { C1(EGRESS) }, 1 << MK_POLICY_EGRESS, 0, true },
	{ "both directions", { C1("'direction': 'Both'") }, 3, 0, true },
	{ "its functions may be left out",
	  { CHAIN_OF("a", "c1", "'traffic': {'podSelector': {}, " EGRESS "}, " SKIP) },
	  0,
	  0,
	  false },
	{ "one of them may not",
	  { CHAIN_OF("a", "c1",
		     "'traffic': {'podSelector': {}, " EGRESS "}, 'functions': [{'name': 'f', "
		     "'whenUnavailable': 'Skip'}, {'name': 'g'}]") },
	  1 << MK_POLICY_EGRESS,
	  0,
	  true },
	{ "a chain of a Service", { OF_WEB, WEB_PORTS(TO_8080) }, 1 << MK_POLICY_INGRESS, 0, true },
	{ ".. that does not exist", { OF_WEB }, 0, 0, false },
	{ ".. that selects no pod", { OF_WEB, WEB("", TO_8080) }, 0, 0, false },
	{ "a chain of another namespace",
	  { C_OF("b", "'namespaceSelector': {}, " EGRESS) },
	  0,
	  1 << MK_POLICY_EGRESS,
	  false },
	{ ".. to which this one has consented",
	  { C_OF("b", "'namespaceSelector': {}, " EGRESS), SPACE("a", CONSENT("b")) },
	  1 << MK_POLICY_EGRESS,
	  1 << MK_POLICY_EGRESS,
	  true },
};

START_TEST(test_holding)
{
	const char *name = holding[_i].name;
	const struct mk_pod_row *pod;

	for (size_t i = 0; i < 2 && holding[_i].objects[i]; i++)
		world_put(&world, "%s", holding[_i].objects[i]);
	world_sandbox(&world, "uid-new", "a", "new", "10.244.1.77");
	world_compile(&world);
	ck_assert_msg(policy_rows_namespace(&world.rows, "a") == holding[_i].here, "%s", name);
	ck_assert_msg(policy_rows_namespace(&world.rows, "b") == holding[_i].there, "%s", name);
	pod = policy_rows_pod(&world.rows, "uid-new", "a", "new");
	for (int i = 0; i < MK_POLICY_DIRECTIONS; i++)
		ck_assert_msg(pod->set[i] == (holding[_i].pending ? MK_SET_PENDING : MK_SET_OPEN),
			      "%s", name);
	ck_assert_ptr_null(world_compare(&world));
}
END_TEST

/* ---- changes --------------------------------------------------------------------------------- */

static const struct {
	const char *object; /* NULL: delete chain a/c1 */
	const char *flows;
} story[] = {
	{ CHAIN_OF("a", "c1", "'traffic': {" X ", 'namespaceSelector': {}, " EGRESS "}, " F),
	  ">y T80 +00@1" },
	{ POD_X("'app': 'other'"), ">y T80 +00" },
	{ POD_X("'app': 'x'"), ">y T80 +00@1" },
	{ POD_X(IS_F), ">y T80 +00" },
	{ POD_X("'app': 'x'"), ">y T80 +00@1" },
	{ CHAIN_OF("a", "c1", "'priority': 3, " TRAFFIC(TO_PEERS(SPACES(LABEL("team", "blue"))))),
	  ">by T80 +00@1; >y T80 +00" },
	{ SPACE("b", "'team': 'green'"), ">by T80 +00; >y T80 +00" },
	{ SPACE("b", "'team': 'blue'"), ">by T80 +00@1; >y T80 +00" },
	{ CHAIN_OF("b", "c2", TRAFFIC("'namespaceSelector': {}, " EGRESS)),
	  ">by T80 +00@1; >y T80 +00" },
	{ SPACE("a", CONSENT("b")), ">by T80 +00@1; >y T80 +00@2" },
	{ SPACE("a", "'team': 'red'"), ">by T80 +00@1; >y T80 +00" },
	{ SPACE("a", CONSENT("b")), ">by T80 +00@1; >y T80 +00@2" },
	{ CHAIN_OF("b", "c2", "'priority': 9, " TRAFFIC("'namespaceSelector': {}, " EGRESS)),
	  ">by T80 +00@2; >y T80 +00@2" },
	{ NULL, ">by T80 +00@2; >y T80 +00@2" },
	{ CHAIN_WITH("'name': 'c2', 'namespace': 'b', 'uid': 'c5'",
		     TRAFFIC("'namespaceSelector': {}, " EGRESS)),
	  ">y T80 +00@5" },
	{ SPACE("a", "'team': 'red'"), ">by T80 +00; >y T80 +00" },
};

START_TEST(test_story)
{
	char step[16];

	for (size_t i = 0; i < MK_ARRAY_SIZE(story); i++) {
		if (story[i].object)
			world_put(&world, "%s", story[i].object);
		else
			world_delete(&world, MK_KIND_CHAIN, "a", "c1");
		world_compile(&world);
		snprintf(step, sizeof(step), "step %zu", i);
		world_check(&world, step, story[i].flows);
		ck_assert_uint_eq(world_compile(&world), 0);
		ck_assert_msg(!world_compare(&world), "%s: other rows than anew", step);
	}
	ck_assert_uint_eq(set_of(MK_POLICY_EGRESS), MK_SET_OPEN);
}
END_TEST

/* A Service that a chain names: each change counts at once, and the same again changes nothing. */
static const struct {
	const char *object; /* NULL: delete Service a/web */
	const char *flows;
} service_story[] = {
	{ OF_WEB, "<y T8080 +00; <y T80 +00" },
	{ WEB_PORTS(TO_8080), "<y T8080 +00@1; <y T8081 +00" },
	{ WEB_PORTS("{'port': 80, 'targetPort': 8081}"), "<y T8080 +00; <y T8081 +00@1" },
	{ WEB_PORTS("{'port': 80, 'targetPort': 'web'}"), "<y T8080 +00@1; <y T8081 +00" },
	{ WEB_PORTS("{'port': 53, 'targetPort': 'dns', 'protocol': 'UDP'}"),
	  "<y U5353 +00@1; <y T8080 +00" },
	{ WEB("'app': 'y'", TO_8080), "<y T8080 +00" },
	{ WEB("'app': 'x'", TO_8080), "<y T8080 +00@1" },
	{ POD_X("'app': 'other'"), "<y T8080 +00" },
	{ POD_X("'app': 'x'"), "<y T8080 +00@1" },
	{ WEB("", TO_8080), "<y T8080 +00; <y T80 +00" },
	{ WEB_PORTS(TO_8080), "<y T8080 +00@1" },
	{ CHAIN_OF("a", "c1", OF_SERVICE("other", "")), "<y T8080 +00" },
	{ OF_WEB, "<y T8080 +00@1" },
	{ NULL, "<y T8080 +00; <y T80 +00" },
};

START_TEST(test_service_story)
{
	struct mk_policy_figures figures;
	char step[16];

	for (size_t i = 0; i < MK_ARRAY_SIZE(service_story); i++) {
		if (service_story[i].object)
			world_put(&world, "%s", service_story[i].object);
		else
			world_delete(&world, MK_KIND_SERVICE, "a", "web");
		world_compile(&world);
		snprintf(step, sizeof(step), "step %zu", i);
		world_check(&world, step, service_story[i].flows);
		ck_assert_uint_eq(world_compile(&world), 0);
		ck_assert_msg(!world_compare(&world), "%s: other rows than of a new compiler",
			      step);
	}
	ck_assert_uint_eq(set_of(MK_POLICY_INGRESS), MK_SET_OPEN);
	mk_policies_figures(world.policies, &figures);
	ck_assert(!figures.holds);
}
END_TEST

/* ---- many pods ------------------------------------------------------------------------------- */

#define MANY 10000

static void put_many(unsigned number, const char *app)
{
	world_put(&world,
		  "{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'p%u', 'namespace': "
		  "'%s', 'uid': 'uid-%u', 'labels': {'app': '%s'}}, 'spec': {'nodeName': '%s'}, "
		  "'status': {'podIPs': [{'ip': '10.244.%u.%u'}]}}",
		  number, number % 3 ? "a" : "b", number, app, number % 100 ? "n2" : "n1",
		  8 + number / 250, number % 250 + 1);
}

/* Incremental changes among 10,000 pods, of which 100 are on this node. */
START_TEST(test_many)
{
	static const char *const apps[] = { "x", "y", "z" };

	for (unsigned i = 0; i < MANY; i++)
		put_many(i, apps[i % 3]);
	world_put(&world, "%s", C1(TO_PEERS(PODS(LABEL("app", "y")))));
	world_put(
		&world, "%s",
		CHAIN_OF("b", "c2",
			 "'priority': 4, " TRAFFIC("'namespaceSelector': {}, " TO_PEERS(OUTSIDE))));
	world_compile(&world);
	world_check(&world, "many", ">y T80 +00@1; >203.0.113.7 T80 +00");
	world_put(&world, "%s", SPACE("a", CONSENT("b")));
	for (unsigned i = 0; i < MANY; i += 37)
		put_many(i, apps[(i + 1) % 3]);
	put_many(6, "y");
	put_many(7, "y");
	world_put(&world, "%s", FROM(PODS(LABEL("app", "z"))));
	world_compile(&world);
	world_check(&world, "many, changed", ">10.244.8.8 T80 +00@1; >203.0.113.7 T80 +00@2");
	world_put(&world, "%s", CHAIN_OF("a", "c3", OF_SERVICE("web", "")));
	world_put(&world, "%s", WEB_PORTS(TO_8080));
	world_compile(&world);
	world_check(&world, "many, and a Service", "<z T8080 +N1@3; <z T80 +N1");
	ck_assert_uint_eq(world_compile(&world), 0);
	put_many(7, "new");
	ck_assert_uint_le(world_compile(&world), 3); /* an identity, a new class of two sets */
	ck_assert_ptr_null(world_compare(&world));
}
END_TEST

UNIT_SUITE("policy chains")
{
	TCase *tc = unit_case(suite, "chains", setup, teardown);

	tcase_add_loop_test(tc, test_row, 0, MK_ARRAY_SIZE(rows));
	tcase_add_loop_test(tc, test_holding, 0, MK_ARRAY_SIZE(holding));
	tcase_add_test(tc, test_audit_mode);
	tcase_add_test(tc, test_flags);
	tcase_add_test(tc, test_names);
	tcase_add_test(tc, test_description);
	tcase_add_test(tc, test_figures);
	tcase_add_test(tc, test_story);
	tcase_add_test(tc, test_service_story);
	tcase_add_test(tc, test_many);
	tcase_set_timeout(tc, 300);
}
