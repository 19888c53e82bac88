// SPDX-License-Identifier: Apache-2.0
#include "bpf/cluster.h"

#include <bpf/bpf.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/ip.h"
#include "cluster/model/model.h"
#include "datapath/services/services.h"
#include "datapath/sessions/linger.h"
#include "datapath/sessions/sweep.h"
#include "rows.h"

static const struct cluster_endpoint endpoints[] = {
	{ 'L', "10.244.1.3", "node1", TO_POD, MK_HOOK_POD },
	{ 'K', "10.244.1.4", "node1", TO_POD, MK_HOOK_POD },
	{ 'P', "10.244.1.2", "node1", TO_POD, MK_HOOK_POD }, /* the pod that is also the client */
	{ 'R', "10.244.2.7", "node2", TO_OVERLAY, MK_HOOK_OVERLAY },
	{ 'S', "10.244.2.8", "node2", TO_OVERLAY, MK_HOOK_OVERLAY },
	{ 'T', "10.244.3.7", "node3", TO_OVERLAY, MK_HOOK_OVERLAY },
	{ 'H', "192.168.99.11", "node1", TO_HOST, MK_HOOK_HOST }, /* in the host's network */
	{ 'N', "192.168.99.12", "node2", TO_UPLINK, MK_HOOK_UPLINK },
};

static struct {
	struct mk_model *model;
	struct mk_service_sync *sync;
	struct mk_service_tables tables;
	struct dirty {
		char namespace_[32], name[32];
	} dirty[16];
	size_t dirty_count;
	unsigned slices;
	uint16_t local_weight;
	bool masquerade_all, no_localhost;
	const char *node; /* the node whose view of Services is compiled */
	struct mk_linger frontends_gone, host_backends;
} cluster;

const struct cluster_endpoint *cluster_endpoint(char letter)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(endpoints); i++)
		if (endpoints[i].letter == letter)
			return &endpoints[i];
	return NULL;
}

const struct cluster_endpoint *cluster_endpoint_at(const char *address)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(endpoints); i++)
		if (strcmp(endpoints[i].address, address) == 0)
			return &endpoints[i];
	return NULL;
}

/* ---- objects ---------------------------------------------------------------------------------- */

static json_object *parse(const char *text)
{
	json_object *tree = json_tokener_parse(text);

	ck_assert_msg(tree != NULL, "no JSON: %s", text);
	return tree;
}

static void apply_tree(json_object *tree)
{
	struct mk_error err = { 0 };

	family_json(tree);
	ck_assert_msg(mk_model_apply(cluster.model, tree, &err) >= 0, "%s", mk_error_text(&err));
	json_object_put(tree);
}

void cluster_object(const char *json)
{
	apply_tree(parse(json));
}

/* Merge @changes into @tree: objects member by member, any other value as a whole. */
static void merge(json_object *tree, json_object *changes)
{
	json_object_object_foreach(changes, key, change)
	{
		json_object *now = NULL;

		if (json_object_is_type(change, json_type_object) &&
		    json_object_object_get_ex(tree, key, &now))
			merge(now, change);
		else if (!change)
			json_object_object_del(tree, key);
		else
			json_object_object_add(tree, key, json_object_get(change));
	}
}

void cluster_service(const char *changes)
{
	json_object *tree =
		parse("{'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 's', "
		      "'namespace': 'x'},"
		      " 'spec': {'type': 'LoadBalancer', 'clusterIP': '10.96.0.10',"
		      " 'externalIPs': ['198.51.100.7'], 'ports': ["
		      "{'name': 'tcp', 'protocol': 'TCP', 'port': 80, 'nodePort': 30080},"
		      "{'name': 'udp', 'protocol': 'UDP', 'port': 80, 'nodePort': 30080},"
		      "{'name': 'sctp', 'protocol': 'SCTP', 'port': 80, 'nodePort': 30080}]},"
		      " 'status': {'loadBalancer': {'ingress': [{'ip': '192.0.2.80'}]}}}");

	if (changes) {
		json_object *tree_of_changes = parse(changes);

		merge(tree, tree_of_changes);
		json_object_put(tree_of_changes);
	}
	apply_tree(tree);
}

void cluster_delete_service(void)
{
	mk_model_delete(cluster.model, MK_KIND_SERVICE, "x", "s");
}

/* ---- endpoints -------------------------------------------------------------------------------- */

static void conditions(json_object *endpoint, bool ready, bool serving, bool terminating)
{
	json_object *list = json_object_new_object();

	json_object_object_add(list, "ready", json_object_new_boolean(ready));
	json_object_object_add(list, "serving", json_object_new_boolean(serving));
	json_object_object_add(list, "terminating", json_object_new_boolean(terminating));
	json_object_object_add(endpoint, "conditions", list);
}

/* Add hints for each letter or digit of @names up to the next mark. Returns the rest of @names. */
static const char *hints(json_object *endpoint, const char *key, const char *prefix,
			 const char *names)
{
	json_object *all = NULL, *list = json_object_new_array();

	if (!json_object_object_get_ex(endpoint, "hints", &all)) {
		all = json_object_new_object();
		json_object_object_add(endpoint, "hints", all);
	}
	for (; *names && !strchr("@#?", *names); names++) {
		json_object *item = json_object_new_object();
		char name[16];

		snprintf(name, sizeof(name), "%s%c", prefix, *names);
		json_object_object_add(item, "name", json_object_new_string(name));
		json_object_array_add(list, item);
	}
	json_object_object_add(all, key, list);
	return names;
}

static const char *mark(json_object *endpoint, const char *at)
{
	switch (*at) {
	case 't':
		conditions(endpoint, false, true, true);
		return at + 1;
	case 'g':
		conditions(endpoint, false, false, true);
		return at + 1;
	case 'n':
		conditions(endpoint, false, false, false);
		return at + 1;
	case 'p':
		conditions(endpoint, true, false, false);
		return at + 1;
	case '-':
		json_object_object_del(endpoint, "conditions");
		return at + 1;
	case '?':
		json_object_object_del(endpoint, "nodeName");
		return at + 1;
	case '@':
		return hints(endpoint, "forZones", "", at + 1);
	case '#':
		return hints(endpoint, "forNodes", "node", at + 1);
	default:
		ck_abort_msg("what does '%s' of an endpoint mean?", at);
		return NULL;
	}
}

static json_object *endpoint_tree(const char *word)
{
	const struct cluster_endpoint *known = cluster_endpoint(word[0]);
	json_object *tree = json_object_new_object(), *addresses = json_object_new_array();

	ck_assert_msg(known != NULL, "no endpoint has the letter '%c'", word[0]);
	json_object_array_add(addresses, json_object_new_string(known->address));
	json_object_object_add(tree, "addresses", addresses);
	json_object_object_add(tree, "nodeName", json_object_new_string(known->node));
	conditions(tree, true, true, false);
	for (const char *at = word + 1; *at;)
		at = mark(tree, at);
	return tree;
}

static void apply_slice(unsigned number, char *words)
{
	json_object *tree = parse(
		"{'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', 'addressType': "
		"'IPv4',"
		" 'metadata': {'namespace': 'x', 'labels': {'kubernetes.io/service-name': 's'}},"
		" 'ports': [{'name': 'tcp', 'protocol': 'TCP', 'port': 8080},"
		"{'name': 'udp', 'protocol': 'UDP', 'port': 8080},"
		"{'name': 'sctp', 'protocol': 'SCTP', 'port': 8080}]}");
	json_object *list = json_object_new_array(), *metadata = NULL;
	char name[16], *rest;

	snprintf(name, sizeof(name), "s-%u", number);
	json_object_object_get_ex(tree, "metadata", &metadata);
	json_object_object_add(metadata, "name", json_object_new_string(name));
	for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		json_object_array_add(list, endpoint_tree(word));
	json_object_object_add(tree, "endpoints", list);
	apply_tree(tree);
}

void cluster_endpoints(const char *list)
{
	cleanup_free char *copy = strdup(list ? list : "");
	char *rest = copy, *words, name[16];
	unsigned count = 0;

	ck_assert_ptr_nonnull(copy);
	while (list && (words = strsep(&rest, "|")))
		apply_slice(++count, words);
	for (unsigned gone = count + 1; gone <= cluster.slices; gone++) {
		snprintf(name, sizeof(name), "s-%u", gone);
		mk_model_delete(cluster.model, MK_KIND_ENDPOINT_SLICE, "x", name);
	}
	cluster.slices = count;
}

/* ---- what has changed ------------------------------------------------------------------------- */

static void service_changed(void *ctx, const char *namespace_, const char *name)
{
	struct dirty *dirty;

	(void)ctx;
	for (size_t i = 0; i < cluster.dirty_count; i++)
		if (strcmp(cluster.dirty[i].namespace_, namespace_) == 0 &&
		    strcmp(cluster.dirty[i].name, name) == 0)
			return;
	ck_assert_uint_lt(cluster.dirty_count, MK_ARRAY_SIZE(cluster.dirty));
	dirty = &cluster.dirty[cluster.dirty_count++];
	snprintf(dirty->namespace_, sizeof(dirty->namespace_), "%s", namespace_);
	snprintf(dirty->name, sizeof(dirty->name), "%s", name);
}

static void see_service(void *ctx, const struct mk_service_object *service)
{
	service_changed(ctx, service->namespace_, service->name);
}

static void node_changed(void *ctx, const char *name)
{
	if (strcmp(name, cluster.node) == 0)
		mk_model_each(struct mk_service_object, of, cluster.model, MK_KIND_SERVICE)
			see_service(ctx, of);
}

void cluster_weight(uint16_t local_weight)
{
	cluster.local_weight = local_weight;
	node_changed(NULL, cluster.node);
}

void cluster_masquerade_all(void)
{
	cluster.masquerade_all = true;
	node_changed(NULL, cluster.node);
}

void cluster_no_localhost(void)
{
	cluster.no_localhost = true;
	node_changed(NULL, cluster.node);
}

/* Set the routes of ServiceCIDRs as the agent does: addresses of no Service are dropped. */
static void service_cidrs_changed(void *ctx)
{
	cleanup_free struct mk_service_cidr *cidrs = NULL;
	size_t count;

	(void)ctx;
	ck_assert_int_eq(mk_model_service_cidrs(cluster.model, family(), &cidrs, &count), 0);
	for (size_t i = 0; i < count; i++)
		fixture_drop_cidr(&cidrs[i].cidr);
}

/* ---- sync ------------------------------------------------------------------------------------- */

static struct mk_table table_of(const char *name)
{
	struct mk_error err = { 0 };
	struct mk_table table;

	ck_assert_msg(mk_table_init(&table, name, fixture_map(name), &err) == 0, "%s",
		      mk_error_text(&err));
	return table;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void sync_one(const struct dirty *dirty, struct mk_service_counts *counts)
{
	const struct mk_node_object *node = mk_model_node(cluster.model, cluster.node);
	const struct mk_service_view view = { .family = family(),
					      .node_name = cluster.node,
					      .zone = node->zone,
					      .node_addresses = node->addresses,
					      .node_address_count = node->address_count,
					      .local_weight = cluster.local_weight,
					      .masquerade_all = cluster.masquerade_all,
					      .localhost_node_ports = !cluster.no_localhost };
	struct mk_compiled_service compiled;
	struct mk_error err = { 0 };

	ck_assert_msg(mk_service_compile(cluster.model, &view, dirty->namespace_, dirty->name,
					 &compiled, &err) == 0,
		      "%s", mk_error_text(&err));
	ck_assert_msg(mk_service_sync_apply(cluster.sync, &compiled, now_ns(), counts, &err) == 0,
		      "%s", mk_error_text(&err));
	mk_compiled_service_release(&compiled);
}

static void sync_dirty(struct mk_service_counts *counts)
{
	for (size_t i = 0; i < cluster.dirty_count; i++)
		sync_one(&cluster.dirty[i], counts);
	cluster.dirty_count = 0;
}

static struct mk_runtime runtime_now(void)
{
	struct mk_runtime runtime;
	const __u32 zero = 0;

	ck_assert_int_eq(row_lookup(fixture_map("runtime"), &zero, &runtime), 0);
	return runtime;
}

static int losing(void *ctx, struct mk_error *err)
{
	struct mk_runtime runtime = runtime_now();

	(void)ctx;
	(void)err;
	runtime.frontends_gone = 1;
	mk_linger_set(&cluster.frontends_gone);
	fixture_runtime(&runtime);
	return 0;
}

/* Set the range as the agent does: it is cleared only if no connection may outlive its NodePort. */
static void tell_localhost_ports(struct mk_runtime *runtime)
{
	uint16_t min, max;

	mk_service_sync_localhost_ports(cluster.sync, &min, &max);
	if (max == 0 && runtime->frontends_gone)
		return;
	runtime->localhost_port_min = min;
	runtime->localhost_port_max = max;
}

/* Sync as the agent does: first the removed Services, then again those that get what others
 * released. */
struct mk_service_counts cluster_sync(void)
{
	struct mk_service_counts counts = { 0 };
	struct mk_runtime runtime;
	char *namespace_, *name;
	const __u32 zero = 0;
	uint32_t serial;

	sync_dirty(&counts);
	while (mk_service_sync_take_retry(cluster.sync, &namespace_, &name) == 1) {
		service_changed(NULL, namespace_, name);
		free(namespace_);
		free(name);
		sync_dirty(&counts);
	}
	runtime = runtime_now();
	if (mk_service_sync_host_backends(cluster.sync)) {
		runtime.host_backends = 1;
		mk_linger_set(&cluster.host_backends);
	}
	tell_localhost_ports(&runtime);
	fixture_runtime(&runtime);
	ck_assert_int_eq(row_update(fixture_map("udp_ports"), &zero,
				    mk_service_sync_udp_ports(cluster.sync, &serial), 0),
			 0);
	return counts;
}

static void age_affinity(const char *map, unsigned seconds)
{
	const struct mk_table table = table_of(map);
	cleanup_free struct mk_affinity_key *keys = NULL;
	struct mk_error err = { 0 };
	struct mk_affinity value;
	size_t count;

	ck_assert_int_eq(mk_table_keys(&table, (void **)&keys, &count, &err), 0);
	for (size_t i = 0; i < count; i++) {
		ck_assert_int_eq(row_lookup(table.fd, &keys[i], &value), 0);
		value.last_new_ns -= seconds * 1000000000ULL;
		ck_assert_int_eq(row_update(table.fd, &keys[i], &value, BPF_ANY), 0);
	}
}

void cluster_age_affinity(unsigned seconds)
{
	age_affinity("affinity", seconds);
	age_affinity("affinity_new", seconds);
}

static bool is_cut(void *ctx, const struct mk_tuple *key, const struct mk_session *session)
{
	return mk_service_sync_session_cut(ctx, key, session);
}

static void stays(void *ctx, const struct mk_tuple *key, const struct mk_session *session)
{
	cluster.frontends_gone.seen |= mk_service_sync_session_outlives(ctx, key, session);
	cluster.host_backends.seen |= mk_service_sync_session_of_host(ctx, key, session);
}

static void pass_ended(void)
{
	struct mk_runtime runtime = runtime_now();

	if (mk_linger_over(&cluster.frontends_gone, false))
		runtime.frontends_gone = 0;
	if (mk_linger_over(&cluster.host_backends, mk_service_sync_host_backends(cluster.sync)))
		runtime.host_backends = 0;
	tell_localhost_ports(&runtime);
	fixture_runtime(&runtime);
}

void cluster_sweep(unsigned seconds)
{
	static const char *const names[] = { "sessions", "sessions_young", "nat_sessions",
					     "nat_sessions_young" };
	struct mk_table tables[MK_ARRAY_SIZE(names)];
	const struct mk_sweep_options options = { .tables = tables,
						  .table_count = MK_ARRAY_SIZE(names),
						  .cut = is_cut,
						  .stays = stays,
						  .ctx = cluster.sync };
	struct mk_error err = { 0 };
	struct mk_sweep *sweep;

	for (size_t i = 0; i < MK_ARRAY_SIZE(names); i++)
		tables[i] = table_of(names[i]);
	sweep = mk_sweep_new(&options, &err);
	ck_assert_msg(sweep != NULL, "%s", mk_error_text(&err));
	while (mk_sweep_step(sweep, now_ns() + seconds * 1000000000ULL, 4096, &err) == 0)
		;
	mk_sweep_free(sweep);
	pass_ended();
}

/* ---- life ------------------------------------------------------------------------------------- */

static void add_node(const char *number, const char *zone)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'node%s',"
		 " 'labels': {'topology.kubernetes.io/zone': '%s'}},"
		 " 'spec': {'podCIDR': '10.244.%s.0/24', 'podCIDRs': ['10.244.%s.0/24']},"
		 " 'status': {'addresses': [{'type': 'InternalIP', 'address': '192.168.99.1%s'}]}}",
		 number, zone, number, number, number);
	cluster_object(text);
}

void cluster_start(void)
{
	cluster_start_as("node1");
}

void cluster_start_as(const char *node)
{
	static const struct mk_model_listener listener = {
		.node_changed = node_changed,
		.service_changed = service_changed,
		.service_cidrs_changed = service_cidrs_changed,
	};
	const struct mk_ip local[] = { family_ip("192.168.99.11"), family_ip("10.18.0.1") };
	struct mk_error err = { 0 };

	memset(&cluster, 0, sizeof(cluster));
	cluster.node = node;
	cluster.local_weight = 1;
	cluster.tables.frontends = table_of("frontends");
	cluster.tables.backends = table_of("service_backends");
	cluster.tables.maglev = table_of("maglev");
	cluster.tables.affinity_backends = table_of("affinity_backends");
	cluster.tables.source_ranges = table_of("source_ranges");
	cluster.model = mk_model_new();
	cluster.sync = mk_service_sync_new(&cluster.tables, &err);
	ck_assert(cluster.model && cluster.sync);
	ck_assert_int_eq(mk_service_sync_set_local(cluster.sync, local, 2, &err), 0);
	mk_service_sync_on_loss(cluster.sync, losing, NULL);
	mk_model_set_listener(cluster.model, &listener);
	fixture_pod("10.244.1.4");
	fixture_peer("10.244.3.0", "10.18.0.3");
	add_node("1", "a");
	add_node("2", "b");
	add_node("3", "b");
	cluster_object("{'apiVersion': 'networking.k8s.io/v1', 'kind': 'ServiceCIDR',"
		       " 'metadata': {'name': 'kubernetes'}, 'spec': {'cidrs': ['10.96.0.0/16']}}");
}

void cluster_stop(void)
{
	mk_service_sync_free(cluster.sync);
	mk_model_free(cluster.model);
}
