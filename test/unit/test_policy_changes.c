// SPDX-License-Identifier: Apache-2.0
/* Changes: after each of 10,000 random ones the rows are those of a new compiler. A change costs as
 * many rows among 10,000 pods as among 10. */
#include <stdarg.h>
#include <stdio.h>

#include "unit/policy_world.h"
#include "unit/unit.h"

#define CHANGES 10000
#define SPACES	5
#define PODS	24
#define NAMES	8 /* of policies */
#define CONSENT ", 'networking.monokube.io/chained-by': 's0'" /* only a Namespace's counts */

static struct policy_world world;
static unsigned long long random_state = 20261;

static void setup(void)
{
	world_begin(&world);
}

static void teardown(void)
{
	world_end(&world);
}

/* splitmix64: the same numbers on each machine. */
static unsigned any(unsigned below)
{
	unsigned long long z = (random_state += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return (unsigned)((z ^ (z >> 31)) % below);
}

/* ---- random objects -------------------------------------------------------------------------- */

/* Results of text() are valid for some calls. */
static char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));

static char *text(const char *format, ...)
{
	static char texts[64][4096];
	static unsigned at;
	char *to = texts[at++ % 64];
	va_list args;

	va_start(args, format);
	ck_assert_uint_lt((size_t)vsnprintf(to, sizeof(texts[0]), format, args), sizeof(texts[0]));
	va_end(args);
	return to;
}

static const char *labels(void)
{
	return text("{'app': '%c'%s%s%s}", 'x' + (int)any(3), any(2) ? ", 'env': 'prod'" : "",
		    any(3) ? "" : ", 'tier': 'front'", any(4) ? "" : CONSENT);
}

static const char *selector(void)
{
	static const char *const keys[] = { "app", "env", "tier", "other" };
	const char *key = keys[any(4)];

	switch (any(5)) {
	case 0:
		return "{}";
	case 1:
		return text("{'matchExpressions': [{'key': '%s', 'operator': 'Exists'}]}", key);
	case 2:
		return text("{'matchExpressions': [{'key': '%s', 'operator': 'NotIn', 'values': "
			    "['x', 'prod']}]}",
			    key);
	default:
		return text("{'matchLabels': {'%s': '%c'}}", key, 'x' + (int)any(3));
	}
}

static const char *block(void)
{
	return any(2) ? text("{'ipBlock': {'cidr': '10.244.%u.0/24'}}", any(3))
		      : text("{'ipBlock': {'cidr': '%s', 'except': ['10.244.%u.%u/30']}}",
			     any(2) ? "10.244.0.0/16" : "0.0.0.0/0", any(3), 4 * any(8));
}

static const char *peer(void)
{
	switch (any(4)) {
	case 0:
		return block();
	case 1:
		return text("{'podSelector': %s}", selector());
	case 2:
		return text("{'namespaceSelector': %s}", selector());
	default:
		return text("{'namespaceSelector': %s, 'podSelector': %s}", selector(), selector());
	}
}

static const char *ports(void)
{
	switch (any(4)) {
	case 0:
		return "";
	case 1:
		return text(", 'ports': [{'port': 'web'}, {'protocol': 'UDP', 'port': 'dns'}]");
	case 2:
		return text(", 'ports': [{'port': %u, 'endPort': %u}]", 1 + any(1000),
			    1001 + any(60000));
	default:
		return text(", 'ports': [{'port': %u}, {'protocol': 'SCTP'}]", 1 + any(65535));
	}
}

static const char *rule(const char *member)
{
	return any(5) ? text("{'%s': [%s, %s]%s}", member, peer(), peer(), ports()) : text("{}");
}

static void put_pod(unsigned number)
{
	unsigned node = 1 + number % 2;

	world_put(&world,
		  "{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'p%u', 'namespace': "
		  "'s%u', 'uid': 'uid-%u', 'labels': %s}, 'spec': {'nodeName': 'n%u', "
		  "'containers': [{'ports': [{'name': 'web', 'containerPort': %u}]}]}, 'status': "
		  "{'phase': '%s', 'podIPs': [{'ip': '10.244.%u.%u'}], 'startTime': "
		  "'2026-01-01T00:00:%02uZ'}}",
		  number, number % SPACES, number, labels(), node, 80 + any(2),
		  any(12) ? "Running" : "Succeeded", node, 4 + (any(9) ? number : number / 2),
		  any(60));
}

static void put_namespace(unsigned number)
{
	world_put(&world,
		  "{'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': 's%u', 'labels': "
		  "%s}}",
		  number, labels());
}

static void put_network_policy(unsigned number)
{
	world_put(&world,
		  "{'apiVersion': 'networking.k8s.io/v1', 'kind': 'NetworkPolicy', 'metadata': "
		  "{'name': 'n%u', 'namespace': 's%u'}, 'spec': {'podSelector': %s, 'policyTypes': "
		  "['Ingress', 'Egress'], 'ingress': [%s], 'egress': [%s, %s]}}",
		  number, number % SPACES, selector(), rule("from"), rule("to"), rule("to"));
}

static const char *cluster_peer(void)
{
	return any(2) ? text("{'namespaces': %s}", selector())
		      : text("{'pods': {'namespaceSelector': %s, 'podSelector': %s}}", selector(),
			     selector());
}

static void put_cluster_policy(unsigned number)
{
	static const char *const actions[] = { "Accept", "Deny", "Pass" };

	world_put(&world,
		  "{'apiVersion': 'policy.networking.k8s.io/v1alpha2', 'kind': "
		  "'ClusterNetworkPolicy', 'metadata': {'name': 'c%u'}, 'spec': {'tier': '%s', "
		  "'priority': %u, 'subject': {'namespaces': %s}, 'ingress': [{'action': '%s', "
		  "'from': [%s]}], 'egress': [{'action': '%s', 'to': [{'nodes': %s}]}, {'action': "
		  "'%s', 'to': [%s, {'networks': ['10.244.1.0/24']}], 'protocols': "
		  "[{'destinationNamedPort': 'web'}]}]}}",
		  number, any(2) ? "Admin" : "Baseline", any(3), selector(), actions[any(3)],
		  cluster_peer(), actions[any(3)], selector(), actions[any(3)], cluster_peer());
}

static const char *chain_peers(void)
{
	switch (any(3)) {
	case 0:
		return "";
	case 1:
		return "{'outside': true}";
	default:
		return text("%s, %s", peer(), peer());
	}
}

/* Chains of two of the namespaces; others consent to those of s0. */
static void put_chain(unsigned number)
{
	static const char *const directions[] = { "Egress", "Ingress", "Both" };

	world_put(&world,
		  "{'apiVersion': 'networking.monokube.io/v1alpha1', 'kind': "
		  "'ServiceFunctionChain', 'metadata': {'name': 'f%u', 'namespace': 's%u', 'uid': "
		  "'c%u'}, 'spec': {'priority': %u, 'traffic': {'podSelector': %s%s, 'direction': "
		  "'%s', 'peers': [%s], 'ports': [{'port': %u, 'endPort': 65535}]}, 'functions': "
		  "[{'name': 'f', 'whenUnavailable': '%s'}]}}",
		  number, number % 2, 1 + number, any(3), selector(),
		  any(2) ? ", 'namespaceSelector': {}" : "", directions[any(3)], chain_peers(),
		  1 + any(60000), any(2) ? "Skip" : "Block");
}

static void put_node(unsigned number)
{
	world_put(&world,
		  "{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n%u', 'labels': %s}, "
		  "'status': {'addresses': [{'type': 'InternalIP', 'address': '192.0.2.%u'}]}}",
		  number, labels(), number + 10 * any(2));
}

/* A sandbox and its Pod go together: a new compiler knows no labels of a Pod that is gone. */
static void drop_pod(unsigned number)
{
	if (number % 2 == 0)
		world_drop_sandbox(&world, text("10.244.1.%u", 100 + number));
	world_delete(&world, MK_KIND_POD, text("s%u", number % SPACES), text("p%u", number));
}

static void start_pod(unsigned number)
{
	drop_pod(number);
	put_pod(number);
	if (number % 2 == 0)
		world_sandbox(&world, text("uid-%u", number), text("s%u", number % SPACES),
			      text("p%u", number), text("10.244.1.%u", 100 + number));
}

static void change(void)
{
	unsigned number = any(NAMES);

	switch (any(12)) {
	case 0:
		put_pod(any(PODS) | 1);
		break;
	case 1:
		start_pod(any(PODS));
		break;
	case 2:
		drop_pod(any(PODS));
		break;
	case 3:
		put_namespace(any(SPACES));
		break;
	case 4:
		put_cluster_policy(any(4));
		break;
	case 5:
		world_delete(&world, MK_KIND_CLUSTER_POLICY, "", text("c%u", any(4)));
		break;
	case 6:
		world_delete(&world, MK_KIND_NETWORK_POLICY, text("s%u", number % SPACES),
			     text("n%u", number));
		break;
	case 7:
		put_node(1 + any(2));
		break;
	case 8:
		put_chain(any(4));
		break;
	case 9:
		number = any(4);
		world_delete(&world, MK_KIND_CHAIN, text("s%u", number % 2), text("f%u", number));
		break;
	case 10:
		if (any(3) == 0)
			world_delete(&world, MK_KIND_NAMESPACE, "", text("s%u", any(SPACES)));
		break;
	default:
		put_network_policy(number);
	}
}

START_TEST(test_random_changes)
{
	for (unsigned i = 0; i < SPACES; i++)
		put_namespace(i);
	for (unsigned i = 0; i < CHANGES; i++) {
		const char *differs = NULL;

		change();
		world_compile(&world);
		if (any(2))
			differs = world_compare(&world);
		ck_assert_msg(!differs, "change %u: other %s than a new compiler", i, differs);
	}
	ck_assert_uint_gt(policy_rows_count(&world.rows, ROWS_PODS), 0);
}
END_TEST

/* ---- the price of a change ------------------------------------------------------------------- */

static void fill_cluster(unsigned pods)
{
	world_put(&world,
		  "{'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': 'shop'}}");
	world_put(&world, "{'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': 'a'}}");
	world_put(&world,
		  "{'apiVersion': 'networking.k8s.io/v1', 'kind': 'NetworkPolicy', 'metadata': "
		  "{'name': 'in', 'namespace': 'shop'}, 'spec': {'podSelector': {}, 'ingress': "
		  "[{'from': [{'namespaceSelector': {'matchLabels': {'team': 'red'}}, "
		  "'podSelector': {'matchLabels': {'app': 'web'}}}]}]}}");
	for (unsigned i = 0; i < pods; i++)
		world_put(&world,
			  "{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'p%u', "
			  "'namespace': '%s', 'uid': 'uid-%u', 'labels': {'app': '%s'}}, 'spec': "
			  "{'nodeName': '%s'}, 'status': {'podIPs': [{'ip': '10.%u.%u.%u'}]}}",
			  i, i < 5 ? "shop" : "a", i, i % 2 ? "web" : "db", i < 5 ? "n1" : "n2",
			  i / 60000, i / 250 % 240, i % 250 + 1);
	world_compile(&world);
}

static void label_pod(const char *app)
{
	world_put(
		&world,
		"{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'p7', 'namespace': 'a', "
		"'uid': 'uid-7', 'labels': {'app': '%s'}}, 'spec': {'nodeName': 'n2'}, 'status': "
		"{'podIPs': [{'ip': '10.0.0.8'}]}}",
		app);
}

static void label_namespace(const char *team)
{
	world_put(&world,
		  "{'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': 'a', 'labels': "
		  "{'team': '%s'}}}",
		  team);
}

struct price {
	size_t label, new_class, namespace_, policy;
};

static struct price prices_among(unsigned pods)
{
	struct price price;

	fill_cluster(pods);
	label_namespace("red");
	price.namespace_ = world_compile(&world);
	label_pod("db");
	price.label = world_compile(&world);
	label_pod("new");
	price.new_class = world_compile(&world);
	world_put(&world,
		  "{'apiVersion': 'networking.k8s.io/v1', 'kind': 'NetworkPolicy', 'metadata': "
		  "{'name': 'more', 'namespace': 'shop'}, 'spec': {'podSelector': {}, 'ingress': "
		  "[{'ports': [{'port': 80}]}]}}");
	price.policy = world_compile(&world);
	return price;
}

/* A label: the identity. A new class: the identity, no row of peers as it says nothing else. A
 * namespace: the row of {set, class}, and its table. A policy: the rows of a new set, and five
 * pods. */
START_TEST(test_prices)
{
	struct price few = prices_among(10), many;

	world_end(&world);
	world_begin(&world);
	many = prices_among(10000);
	ck_assert_uint_eq(few.label, 1);
	ck_assert_uint_eq(few.new_class, 1);
	ck_assert_uint_eq(many.label, few.label);
	ck_assert_uint_eq(many.new_class, few.new_class);
	ck_assert_uint_eq(many.namespace_, few.namespace_);
	ck_assert_uint_eq(many.policy, few.policy);
	ck_assert_uint_lt(many.policy, 20);
	ck_assert_uint_lt(many.namespace_, 4);
}
END_TEST

UNIT_SUITE("policy_changes")
{
	TCase *tcase = unit_case(suite, "changes", setup, teardown);

	tcase_add_test(tcase, test_random_changes);
	tcase_add_test(tcase, test_prices);
}
