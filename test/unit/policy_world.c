// SPDX-License-Identifier: Apache-2.0
/* test/unit/policy_world.c - a cluster for tests of the compiler of policies. */
#include "unit/policy_world.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "unit/unit.h"

static struct mk_policies *compiler_of(const struct policy_world *world)
{
	const struct mk_policy_view view = { .node_name = "n1",
					     .hash_key = { 1, 2, 3 },
					     .audit = world->audit,
					     .pod_ranges = { cidr_of("10.244.0.0/16") } };
	struct mk_error err;
	struct mk_policies *policies = mk_policies_new(world->model, &view, &err);

	ck_assert_msg(policies, "%s", mk_error_text(&err));
	return policies;
}

static void hear_pod(void *ctx, const struct mk_pod_object *pod, const struct mk_pod_object *former)
{
	mk_policies_pod_changed(((struct policy_world *)ctx)->policies, pod, former);
}

static void hear_namespace(void *ctx, const char *name)
{
	mk_policies_mark(((struct policy_world *)ctx)->policies, MK_KIND_NAMESPACE, "", name);
}

static void hear_network_policy(void *ctx, const char *namespace_, const char *name)
{
	mk_policies_mark(((struct policy_world *)ctx)->policies, MK_KIND_NETWORK_POLICY, namespace_,
			 name);
}

static void hear_cluster_policy(void *ctx, const char *name)
{
	mk_policies_mark(((struct policy_world *)ctx)->policies, MK_KIND_CLUSTER_POLICY, "", name);
}

static void hear_node(void *ctx, const char *name)
{
	mk_policies_mark(((struct policy_world *)ctx)->policies, MK_KIND_NODE, "", name);
}

static void begin(struct policy_world *world, bool audit)
{
	struct mk_model_listener listener = { .pod_changed = hear_pod,
					      .namespace_changed = hear_namespace,
					      .network_policy_changed = hear_network_policy,
					      .cluster_policy_changed = hear_cluster_policy,
					      .node_changed = hear_node,
					      .ctx = world };

	*world = (struct policy_world){ .model = mk_model_new(), .audit = audit };
	ck_assert_ptr_nonnull(world->model);
	world->policies = compiler_of(world);
	mk_model_set_listener(world->model, &listener);
	world_compile(world);
}

void world_begin(struct policy_world *world)
{
	begin(world, false);
}

void world_end(struct policy_world *world)
{
	while (world->sandbox_count > 0) {
		const struct mk_policy_sandbox *sandbox = &world->sandboxes[--world->sandbox_count];

		free(sandbox->uid);
		free(sandbox->namespace_);
		free(sandbox->name);
	}
	mk_policies_free(world->policies);
	mk_model_free(world->model);
	policy_rows_release(&world->rows);
}

void world_put(struct policy_world *world, const char *format, ...)
{
	char text[8192];
	struct mk_error err;
	va_list args;

	va_start(args, format);
	ck_assert_uint_lt((size_t)vsnprintf(text, sizeof(text), format, args), sizeof(text));
	va_end(args);
	for (char *quote = text; (quote = strchr(quote, '\''));)
		*quote = '"';
	cleanup_json json_object *tree = json_tokener_parse(text);

	ck_assert_msg(tree, "no JSON: %s", text);
	ck_assert_msg(mk_model_apply(world->model, tree, &err) >= 0, "%s", mk_error_text(&err));
}

void world_delete(struct policy_world *world, enum mk_kind kind, const char *namespace_,
		  const char *name)
{
	mk_model_delete(world->model, kind, namespace_, name);
}

static void tell_sandboxes(struct policy_world *world)
{
	struct mk_error err;

	ck_ok(mk_policies_set_sandboxes(world->policies, world->sandboxes, world->sandbox_count,
					&err));
}

static char *copy(const char *text)
{
	return text ? strdup(text) : NULL;
}

void world_sandbox(struct policy_world *world, const char *uid, const char *namespace_,
		   const char *name, const char *ip)
{
	struct mk_policy_sandbox *sandbox = &world->sandboxes[world->sandbox_count++];
	struct mk_ip address = ip_of(ip);

	ck_assert_uint_le(world->sandbox_count, WORLD_SANDBOXES_MAX);
	*sandbox = (struct mk_policy_sandbox){ .uid = copy(uid),
					       .namespace_ = copy(namespace_),
					       .name = copy(name) };
	sandbox->ips[mk_family_index(address.family)] = address;
	tell_sandboxes(world);
}

void world_drop_sandbox(struct policy_world *world, const char *ip)
{
	struct mk_ip address = ip_of(ip);

	for (size_t i = 0; i < world->sandbox_count; i++) {
		struct mk_policy_sandbox *sandbox = &world->sandboxes[i];

		if (!mk_ip_equal(&sandbox->ips[mk_family_index(address.family)], &address))
			continue;
		free(sandbox->uid);
		free(sandbox->namespace_);
		free(sandbox->name);
		*sandbox = world->sandboxes[--world->sandbox_count];
		break;
	}
	tell_sandboxes(world);
}

void world_node_address(struct policy_world *world, const char *ip, const char *counts_as)
{
	struct mk_policy_node_address *node = &world->nodes[world->node_count++];
	struct mk_error err;

	*node = (struct mk_policy_node_address){ .ip = ip_of(ip) };
	if (counts_as)
		node->counts_as = ip_of(counts_as);
	ck_ok(mk_policies_set_nodes(world->policies, world->nodes, world->node_count, &err));
}

struct chain_list {
	struct mk_policy_chain of[16];
	size_t count;
};

static void add_chain(void *ctx, const struct mk_chain *chain)
{
	struct chain_list *list = ctx;
	unsigned long id = strtoul(chain->uid + 1, NULL, 10);

	ck_assert_uint_lt(list->count, MK_ARRAY_SIZE(list->of));
	if (id > 0)
		list->of[list->count++] =
			(struct mk_policy_chain){ .chain = chain, .id = (uint16_t)id };
}

static void tell_chains(const struct policy_world *world)
{
	struct chain_list list = { .count = 0 };

	mk_model_each(struct mk_chain, of, world->model, MK_KIND_CHAIN)
		add_chain(&list, of);
	mk_policies_set_chains(world->policies, list.of, list.count);
}

size_t world_compile(struct policy_world *world)
{
	const struct mk_policy_changes *changes;
	struct mk_error err;

	tell_chains(world);
	ck_ok(mk_policies_compile(world->policies, &changes, &err));
	return policy_rows_apply(&world->rows, changes);
}

const char *world_compare(struct policy_world *world)
{
	struct policy_world fresh = { .model = world->model, .audit = world->audit };
	const struct mk_policy_changes *changes;
	const char *differs;
	struct mk_error err;

	world_compile(world);
	mk_policies_release(world->policies);
	world_compile(world);
	fresh.policies = compiler_of(&fresh);
	ck_ok(mk_policies_set_sandboxes(fresh.policies, world->sandboxes, world->sandbox_count,
					&err));
	ck_ok(mk_policies_set_nodes(fresh.policies, world->nodes, world->node_count, &err));
	tell_chains(&fresh);
	ck_ok(mk_policies_all(fresh.policies, &changes, &err));
	policy_rows_apply(&fresh.rows, changes);
	differs = policy_rows_differ(&world->rows, &fresh.rows);
	policy_rows_release(&fresh.rows);
	mk_policies_free(fresh.policies);
	return differs;
}

/* ---- the cluster ----------------------------------------------------------------------------- */

static const struct {
	const char *name, *namespace_, *node, *ip, *labels, *ports;
} pods[] = {
	{ "x", "a", "n1", "10.244.1.1", "'app': 'x'",
	  "{'name': 'web', 'containerPort': 8080}, {'name': 'dns', 'containerPort': 5353, "
	  "'protocol': 'UDP'}" },
	{ "y", "a", "n2", "10.244.2.1", "'app': 'y'",
	  "{'name': 'web', 'containerPort': 9090}, {'name': 'web', 'containerPort': 9091}" },
	{ "z", "a", "n1", "10.244.1.3", "'app': 'z', 'env': 'prod'", "" },
	{ "bx", "b", "n1", "10.244.1.2", "'app': 'x'",
	  "{'name': 'web', 'containerPort': 80, 'protocol': 'UDP'}" },
	{ "by", "b", "n2", "10.244.2.2", "'app': 'y'", "" },
	{ "cx", "c", "n2", "10.244.2.3", "", "" },
};

static void put_namespaces(struct policy_world *world)
{
	world_put(world, "{'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': 'a', "
			 "'labels': {'team': 'red'}}}");
	world_put(world, "{'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': 'b', "
			 "'labels': {'team': 'blue'}}}");
	world_put(world, "{'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': 'c'}}");
}

static void put_nodes(struct policy_world *world)
{
	world_put(world, "{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n1', "
			 "'labels': {'zone': 'east'}}, 'status': {'addresses': [{'type': "
			 "'InternalIP', 'address': '192.168.0.11'}, {'type': 'ExternalIP', "
			 "'address': '203.0.113.11'}]}}");
	world_put(world, "{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n2', "
			 "'labels': {'zone': 'west'}}, 'status': {'addresses': [{'type': "
			 "'InternalIP', 'address': '192.168.0.12'}]}}");
	world_node_address(world, "10.18.0.1", "192.168.0.11");
	world_node_address(world, "10.18.0.2", "192.168.0.12");
	world_node_address(world, "10.18.0.3", NULL);
}

static void put_pod(struct policy_world *world, size_t i)
{
	world_put(world,
		  "{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': '%s', 'namespace': "
		  "'%s', 'uid': 'uid-%s', 'labels': {%s}}, 'spec': {'nodeName': '%s', "
		  "'containers': [{'name': 'c', 'ports': [%s]}]}, 'status': {'podIPs': [{'ip': "
		  "'%s'}]}}",
		  pods[i].name, pods[i].namespace_, pods[i].name, pods[i].labels, pods[i].node,
		  pods[i].ports, pods[i].ip);
}

static void put_cluster(struct policy_world *world)
{
	put_namespaces(world);
	put_nodes(world);
	for (size_t i = 0; i < MK_ARRAY_SIZE(pods); i++) {
		char uid[16];

		put_pod(world, i);
		snprintf(uid, sizeof(uid), "uid-%s", pods[i].name);
		if (strcmp(pods[i].node, "n1") == 0)
			world_sandbox(world, uid, pods[i].namespace_, pods[i].name, pods[i].ip);
	}
}

void world_begin_pods(struct policy_world *world)
{
	begin(world, false);
	put_cluster(world);
}

void world_begin_audit(struct policy_world *world)
{
	begin(world, true);
	put_cluster(world);
}

/* ---- flows ----------------------------------------------------------------------------------- */

static struct mk_ip peer_of(const char *name)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(pods); i++)
		if (strcmp(pods[i].name, name) == 0)
			return ip_of(pods[i].ip);
	return ip_of(name);
}

static uint8_t proto_of(char letter)
{
	return letter == 'T'   ? IPPROTO_TCP
	       : letter == 'U' ? IPPROTO_UDP
	       : letter == 'S' ? IPPROTO_SCTP
			       : IPPROTO_ICMP;
}

static void say(char *text, size_t size, const struct policy_decision *decision)
{
	static const char tiers[] = "0ANB";
	int used = snprintf(text, size, "%c%c%u", decision->allowed ? '+' : '-',
			    tiers[decision->tier], decision->rule);

	if (decision->audit_denies)
		used += snprintf(text + used, size - (size_t)used, "~%c%u",
				 tiers[decision->audit_tier], decision->audit_rule);
	if (decision->allowed && decision->chain)
		snprintf(text + used, size - (size_t)used, "@%u", decision->chain);
}

/* One flow: "<" (from) or ">" (to), "?" (the address proves nothing) or "=" (a pod reaches itself),
 * the peer, protocol and port, then what say() writes. */
static void check_flow(const struct policy_world *world, const char *row, const char *flow)
{
	const struct mk_cidr range = cidr_of("10.244.0.0/16");
	const struct mk_pod_row *pod = policy_rows_pod(&world->rows, "uid-x", "a", "x");
	char direction, how[2] = "", peer[48], proto, expected[24], said[24];
	struct policy_question question = { 0 };
	struct policy_decision decision;
	unsigned port;

	if (sscanf(flow, " %c%1[?=]%47s %c%u %23s", &direction, how, peer, &proto, &port,
		   expected) != 6) {
		how[0] = '\0';
		ck_assert_msg(sscanf(flow, " %c%47s %c%u %23s", &direction, peer, &proto, &port,
				     expected) == 5,
			      "%s: what is '%s'?", row, flow);
	}
	ck_assert_msg(pod, "%s: no row of the pod", row);
	question.set = pod->set[direction == '<' ? MK_POLICY_INGRESS : MK_POLICY_EGRESS];
	question.peer = peer_of(peer);
	question.in_pod_range = mk_cidr_contains(&range, &question.peer);
	question.unproved = how[0] == '?';
	question.is_itself = how[0] == '=';
	question.proto = proto_of(proto);
	question.port = (uint16_t)port;
	decision = policy_rows_ask(&world->rows, &question);
	say(said, sizeof(said), &decision);
	ck_assert_msg(strcmp(said, expected) == 0 && !decision.lacks_row,
		      "%s: %s%s: the rows say %s", row, decision.lacks_row ? "no row, " : "", flow,
		      said);
}

void world_check(const struct policy_world *world, const char *row, const char *flows)
{
	cleanup_free char *copy = strdup(flows);
	char *rest = copy;

	for (char *flow; (flow = strsep(&rest, ";"));)
		check_flow(world, row, flow);
}

void world_check_row(struct policy_world *world, const struct world_row *row)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(row->objects) && row->objects[i]; i++)
		world_put(world, "%s", row->objects[i]);
	world_compile(world);
	world_check(world, row->name, row->flows);
	ck_assert_ptr_null(world_compare(world));
}
