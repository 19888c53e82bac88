// SPDX-License-Identifier: Apache-2.0
/* The model over time: calls of the listener, merged slices, recorded and damaged objects;
 * times of a watch. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "cluster/model/model.h"
#include "cluster/watch/reflector.h"
#include "unit/model_objects.h"
#include "unit/model_text.h"
#include "unit/unit.h"

static struct mk_model *model;

static void endpoints_triggered(void *ctx, const char *namespace_, const char *name,
				int64_t unix_ns)
{
	(void)ctx;
	hear("%s%s/%s@%lld", *heard ? " " : "", namespace_, name, (long long)unix_ns / 1000000000);
}

static void service_cidrs_changed(void *ctx)
{
	cleanup_free struct mk_service_cidr *cidrs = NULL;
	size_t count;
	char text[MK_CIDR_STRLEN];

	(void)ctx;
	ck_assert_int_eq(mk_model_service_cidrs(model, AF_UNSPEC, &cidrs, &count), 0);
	hear("%sranges:", *heard ? " " : "");
	for (size_t i = 0; i < count; i++)
		hear("%s%s=%s", i ? "," : "", cidrs[i].name, mk_cidr_format(&cidrs[i].cidr, text));
}

static void setup(void)
{
	model = mk_model_new();
	ck_assert_ptr_nonnull(model);
	mk_model_set_listener(model, &(struct mk_model_listener){
					     .node_changed = hear_node,
					     .service_changed = hear_service,
					     .endpoints_triggered = endpoints_triggered,
					     .service_cidrs_changed = service_cidrs_changed });
	heard[0] = '\0';
}

static void teardown(void)
{
	mk_model_free(model);
}

/* ---- what the listener hears ----------------------------------------------------------------- */

#define SLICE_OF(service, address)                                                               \
	"{" SLICE_META ", 'metadata': {'name': 'a', 'namespace': 'x', 'labels': "                \
	"{'kubernetes.io/service-name': '" service "'}}, 'endpoints': [{'addresses': ['" address \
	"']}], " HTTP "}"
#define TRIGGERED(labels, address, time)                                                  \
	"{" SLICE_META ", 'metadata': {'name': 'a', 'namespace': 'x', 'labels': {" labels \
	"}, 'annotations': {'endpoints.kubernetes.io/last-change-trigger-time': " time    \
	"}}, 'endpoints': [{'addresses': ['" address "']}], " HTTP "}"
#define OF_S "'kubernetes.io/service-name': 's'"
#define RANGE(name, cidrs)                                                                    \
	"{'apiVersion': 'networking.k8s.io/v1', 'kind': 'ServiceCIDR', 'metadata': {'name': " \
	"'" name "'}, 'spec': {'cidrs': [" cidrs "]}}"
#define ENDPOINTS_AT(address) \
	"{" ENDPOINTS ", 'subsets': [{'addresses': [{'ip': '" address "'}], " HTTP "}]}"

#define SLICE_OF_IPV6(address)                                                                   \
	"{'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', 'addressType': 'IPv6', " \
	"'metadata': {'name': 'b', 'namespace': 'x', 'labels': {" OF_S "}}, 'endpoints': [{'"    \
	"addresses': ['" address "']}], " HTTP "}"
#define DUAL_SERVICE(ips) "{" SERVICE ", 'spec': {'clusterIPs': [" ips "], " PORT_80 "}}"

struct step {
	const char *object; /* NULL: delete */
	enum mk_kind kind;
	const char *name; /* of the object to delete */
	const char *heard;
};

static const struct {
	const char *name;
	struct step steps[7];
} stories[] = {
	{ "node",
	  { { "{" NODE ", 'spec': {'podCIDR': '10.244.1.0/24'}}", .heard = "node:n" },
	    { "{" NODE ", 'spec': {'podCIDR': '10.244.1.0/24'}}", .heard = "" },
	    { "{" NODE ", 'spec': {'podCIDR': '10.244.1.0/24'}, 'status': {'conditions':"
	      "[{'type': 'MemoryPressure', 'status': 'True'}], 'images': [1]}}",
	      .heard = "" },
	    { "{" NODE ", 'spec': {'podCIDR': '10.244.2.0/24'}}", .heard = "node:n" },
	    { .kind = MK_KIND_NODE, .name = "n", .heard = "node:n" },
	    { .kind = MK_KIND_NODE, .name = "n", .heard = "" } } },
	{ "node becomes ready, and not ready",
	  { { "{" NODE "}", .heard = "node:n" },
	    { "{" NODE ", 'status': {'conditions': [{'type': 'Ready', 'status': 'True'}]}}",
	      .heard = "node:n" },
	    { "{" NODE ", 'status': {'conditions': [{'type': 'Ready', 'status': 'True', "
	      "'lastHeartbeatTime': '2026-01-01T00:00:00Z'}]}}",
	      .heard = "" },
	    { "{" NODE ", 'status': {'conditions': [{'type': 'Ready', 'status': 'Unknown'}]}}",
	      .heard = "node:n" } } },
	{ "node, addresses in another order",
	  { { "{" NODE ", 'status': {'addresses': [{'type': 'InternalIP', 'address': '192.0.2.1'},"
	      "{'type': 'ExternalIP', 'address': '192.0.2.2'}]}}",
	      .heard = "node:n" },
	    { "{" NODE ", 'status': {'addresses': [{'type': 'ExternalIP', 'address': '192.0.2.2'},"
	      "{'type': 'InternalIP', 'address': '192.0.2.1'}]}}",
	      .heard = "" },
	    { "{" NODE ", 'status': {'addresses': [{'type': 'InternalIP', 'address': '192.0.2.2'},"
	      "{'type': 'ExternalIP', 'address': '192.0.2.1'}]}}",
	      .heard = "node:n" } } },
	{ "node leaves and stays",
	  { { "{" NODE "}", .heard = "node:n" },
	    { "{" NODE ", 'spec': {'taints': [{'key': 'ToBeDeletedByClusterAutoscaler'}]}}",
	      .heard = "node:n" },
	    { "{" NODE ", 'spec': {'taints': [{'key': 'other'}]}}", .heard = "node:n" },
	    { "{" NODE "}", .heard = "" } } },
	{ "a node's second family",
	  { { "{" NODE ", 'spec': {'podCIDRs': ['10.244.1.0/24']}}", .heard = "node:n" },
	    { "{" NODE ", 'spec': {'podCIDRs': ['10.244.1.0/24', 'fd00::/64']}}",
	      .heard = "node:n" },
	    { "{" NODE ", 'spec': {'podCIDRs': ['fd00::/64', '10.244.1.0/24']}}", .heard = "" },
	    { "{" NODE ", 'spec': {'podCIDRs': ['fd00::/64']}}", .heard = "node:n" } } },
	{ "a Service's second family is reported once, and so is a slice of it",
	  { { DUAL_SERVICE("'10.96.0.1'"), .heard = "x/s" },
	    { DUAL_SERVICE("'10.96.0.1', 'fd00::1'"), .heard = "x/s" },
	    { DUAL_SERVICE("'fd00::1', '10.96.0.1'"), .heard = "" },
	    { SLICE_OF("s", "10.1.0.1"), .heard = "x/s" },
	    { SLICE_OF_IPV6("fd00:1::1"), .heard = "x/s" },
	    { SLICE_OF_IPV6("fd00:1::1"), .heard = "" },
	    { DUAL_SERVICE("'fd00::1'"), .heard = "x/s" } } },
	{ "health check port",
	  { { "{" SERVICE ", 'spec': {'type': 'LoadBalancer', 'externalTrafficPolicy': 'Local', "
	      "'healthCheckNodePort': 31000}}",
	      .heard = "x/s" },
	    { "{" SERVICE ", 'spec': {'type': 'LoadBalancer', 'externalTrafficPolicy': 'Local', "
	      "'healthCheckNodePort': 31001}}",
	      .heard = "x/s" } } },
	{ "when a slice's change began",
	  { { TRIGGERED(OF_S, "10.1.0.1", "'2001-09-09T01:46:40Z'"),
	      .heard = "x/s x/s@1000000000" },
	    { TRIGGERED(OF_S, "10.1.0.1", "'2001-09-09T01:46:41Z'"), .heard = "" },
	    { TRIGGERED(OF_S, "10.1.0.2", "'2001-09-09T01:46:42Z'"),
	      .heard = "x/s x/s@1000000002" },
	    { TRIGGERED(OF_S, "10.1.0.1", "'yesterday'"), .heard = "x/s" },
	    { TRIGGERED(OF_S, "10.1.0.2", "5"), .heard = "x/s" },
	    { .kind = MK_KIND_ENDPOINT_SLICE, .name = "a", .heard = "x/s x/s@0" } } },
	{ "when the change of a slice of no Service began",
	  { { TRIGGERED("", "10.1.0.1", "'2001-09-09T01:46:40Z'"), .heard = "" } } },
	{ "service",
	  { { "{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', " PORT_80 "}}", .heard = "x/s" },
	    { "{" SERVICE
	      ", 'spec': {'clusterIP': '10.96.0.1', 'publishNotReadyAddresses': true, " PORT_80
	      "}}",
	      .heard = "" },
	    { "{" SERVICE
	      ", 'spec': {'clusterIP': '10.96.0.1', 'internalTrafficPolicy': 'Local', " PORT_80
	      "}}",
	      .heard = "x/s" },
	    { .kind = MK_KIND_SERVICE, .name = "s", .heard = "x/s" },
	    { .kind = MK_KIND_SERVICE, .name = "s", .heard = "" } } },
	{ "pods of a service",
	  { { "{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', " PORT_80 "}}", .heard = "x/s" },
	    { "{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', 'selector': {'a': 'b'}, " PORT_80
	      "}}",
	      .heard = "x/s" },
	    { "{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', 'selector': {'a': 'b'}, 'ports': "
	      "[{'port': 80, 'targetPort': 8080}]}}",
	      .heard = "x/s" },
	    { "{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', 'selector': {'a': 'b'}, 'ports': "
	      "[{'port': 80, 'targetPort': 'http'}]}}",
	      .heard = "x/s" },
	    { "{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', 'selector': {'a': 'b'}, 'ports': "
	      "[{'port': 80, 'targetPort': 'http'}]}}",
	      .heard = "" } } },
	{ "slice comes, stays, moves to another Service, goes",
	  { { SLICE_OF("s", "10.1.0.1"), .heard = "x/s" },
	    { SLICE_OF("s", "10.1.0.1"), .heard = "" },
	    { SLICE_OF("s", "10.1.0.2"), .heard = "x/s" },
	    { SLICE_OF("t", "10.1.0.2"), .heard = "x/s x/t" },
	    { .kind = MK_KIND_ENDPOINT_SLICE, .name = "a", .heard = "x/t x/t@0" },
	    { .kind = MK_KIND_ENDPOINT_SLICE, .name = "a", .heard = "" } } },
	{ "slice becomes headless and comes back",
	  { { SLICE_OF("s", "10.1.0.1"), .heard = "x/s" },
	    { "{" SLICE_META ", 'metadata': {'name': 'a', 'namespace': 'x', 'labels': "
	      "{'kubernetes.io/service-name':"
	      "'s', 'service.kubernetes.io/headless': ''}}, 'endpoints': [{'addresses': "
	      "['10.1.0.1']}], " HTTP "}",
	      .heard = "x/s" },
	    { SLICE_OF("s", "10.1.0.1"), .heard = "x/s" } } },
	{ "slice, endpoints in another order",
	  { { "{" SLICE("a") ", 'endpoints': [{'addresses': ['10.1.0.1']}, {'addresses': "
			     "['10.1.0.2']}], " HTTP "}",
	      .heard = "x/s" },
	    { "{" SLICE("a") ", 'endpoints': [{'addresses': ['10.1.0.2']}, {'addresses': "
			     "['10.1.0.1']}], " HTTP "}",
	      .heard = "" },
	    { "{" SLICE("a") ", 'endpoints': [{'addresses': ['10.1.0.2'], 'hints': {'forZones': "
			     "[{'name': 'a'}]}},"
			     "{'addresses': ['10.1.0.1']}], " HTTP "}",
	      .heard = "x/s" } } },
	{ "ranges of Service addresses",
	  { { RANGE("a", "'10.96.0.0/16', 'fd00:96::/112'"),
	      .heard = "ranges:a=10.96.0.0/16,a=fd00:96::/112" },
	    { RANGE("a", "'fd00:96::/112', '10.96.0.0/16'"), .heard = "" },
	    { RANGE("a", "'10.96.0.0/16'"), .heard = "ranges:a=10.96.0.0/16" },
	    { RANGE("b", "'fd00:97::/112', '10.97.1.0/16'"),
	      .heard = "ranges:a=10.96.0.0/16,b=10.97.0.0/16,b=fd00:97::/112" },
	    { RANGE("a", "'10.112.0.0/16'"),
	      .heard = "ranges:a=10.112.0.0/16,b=10.97.0.0/16,b=fd00:97::/112" },
	    { .kind = MK_KIND_SERVICE_CIDR, .name = "b", .heard = "ranges:a=10.112.0.0/16" },
	    { .kind = MK_KIND_SERVICE_CIDR, .name = "b", .heard = "" } } },
	{ "endpoints are heard only while there is no slice",
	  { { ENDPOINTS_AT("10.1.0.1"), .heard = "x/s" },
	    { SLICE_OF("s", "10.1.0.2"), .heard = "x/s" },
	    { ENDPOINTS_AT("10.1.0.3"), .heard = "" },
	    { .kind = MK_KIND_ENDPOINT_SLICE, .name = "a", .heard = "x/s x/s@0" },
	    { .kind = MK_KIND_ENDPOINTS, .name = "s", .heard = "x/s" } } },
};

START_TEST(test_story)
{
	for (const struct step *step = stories[_i].steps; step->heard; step++) {
		heard[0] = '\0';
		if (step->object)
			apply_good_text(model, step->object);
		else
			mk_model_delete(model, step->kind, step->kind == MK_KIND_NODE ? "" : "x",
					step->name);
		ck_assert_msg(strcmp(heard, step->heard) == 0,
			      "%s, step %d: heard \"%s\", expected \"%s\"", stories[_i].name,
			      (int)(step - stories[_i].steps) + 1, heard, step->heard);
	}
}
END_TEST

/* ---- merging --------------------------------------------------------------------------------- */

#define ONE(name, rest) \
	"{" SLICE(name) ", 'endpoints': [{'addresses': ['10.1.0.1']" rest "}], " HTTP "}"

static const struct {
	const char *name, *objects[3], *expected;
} merges[] = {
	{ "not terminating wins",
	  { ONE("a", ", 'conditions': {'ready': false, 'serving': true, 'terminating': true}"),
	    ONE("b", "") },
	  "10.1.0.1:8080/tcp http ready serving" },
	{ "ready wins",
	  { ONE("a", ", 'conditions': {'ready': false, 'serving': false}"), ONE("b", "") },
	  "10.1.0.1:8080/tcp http ready serving" },
	{ "the one on a known node wins",
	  { ONE("a", ""), ONE("b", ", 'nodeName': 'n'") },
	  "10.1.0.1:8080/tcp http@n ready serving" },
	{ "other port, other endpoint",
	  { ONE("a", ""), "{" SLICE("b") ", 'endpoints': [{'addresses': ['10.1.0.1']}], 'ports': "
					 "[{'name': 'http', 'port': 81}]}" },
	  "10.1.0.1:81/tcp http ready serving; 10.1.0.1:8080/tcp http ready serving" },
	{ "other name, other endpoint",
	  { ONE("a", ""), "{" SLICE("b") ", 'endpoints': [{'addresses': ['10.1.0.1']}], 'ports': "
					 "[{'name': 'a', 'port': 8080}]}" },
	  "10.1.0.1:8080/tcp a ready serving; 10.1.0.1:8080/tcp http ready serving" },
	{ "a slice without endpoints hides the Endpoints object",
	  { "{" SLICE("a") "}", ENDPOINTS_AT("10.1.0.9") },
	  "" },
	{ "a slice of no concern does not",
	  { "{" SLICE_META ", 'metadata': {'name': 'a', 'namespace': 'x'}}",
	    ENDPOINTS_AT("10.1.0.9") },
	  "10.1.0.9:8080/tcp http ready serving" },
};

/* in both orders of arrival */
START_TEST(test_merge)
{
	int row = _i / 2, first = _i % 2;
	struct line line = { 0 };

	apply_good_text(model, merges[row].objects[first]);
	apply_good_text(model, merges[row].objects[!first]);
	summarize_endpoints(&line, model, "x", "s");
	ck_assert_msg(strcmp(line.text, merges[row].expected) == 0, "%s: got \"%s\"",
		      merges[row].name, line.text);
}
END_TEST

/* ---- as recorded from an API server ---------------------------------------------------------- */

/* Document after document of data/recorded.yaml */
static const char *const recorded[] = {
	"worker-1 pods=10.244.1.0/24,fd00:10:244:1::/64 "
	"internal=192.168.50.11,fd00:50::11 all=192.168.50.11,fd00:50::11 "
	"zone=zone-a ready",
	"shop/web ClusterIP ip=10.96.74.49 http:80/tcp target=8080 pods:app=web",
	"10.244.1.70:8080/tcp http@worker-1 ready serving; 10.244.1.70:8443/tcp https@worker-1 "
	"ready serving; "
	"10.244.1.71:8080/tcp http@worker-1; 10.244.1.71:8443/tcp https@worker-1; "
	"10.244.2.72:8080/tcp http@worker-2 serving terminating; 10.244.2.72:8443/tcp "
	"https@worker-2 serving terminating; "
	"10.244.2.73:8080/tcp http@worker-2 terminating; 10.244.2.73:8443/tcp https@worker-2 "
	"terminating; "
	"10.244.3.74:8080/tcp http@worker-3 ready serving; 10.244.3.74:8443/tcp https@worker-3 "
	"ready serving; "
	"10.244.3.75:8080/tcp http ready serving; 10.244.3.75:8443/tcp https ready serving; "
	"10.244.3.76:8080/tcp http ready serving; 10.244.3.76:8443/tcp https ready serving; "
	"198.51.100.99:8080/tcp http ready serving; 198.51.100.99:8443/tcp https ready serving",
	"10.244.1.96:8080/tcp http@worker-1 ready serving; "
	"10.244.2.96:8080/tcp http ready serving; "
	"10.244.3.96:8080/tcp http; 192.0.2.96:9080/tcp http ready serving",
};

static char *read_recorded(int number, size_t *size)
{
	static const char file[] = "/data/recorded.yaml", separator[] = "\n---\n";
	cleanup_free char *all = NULL;
	const char *start, *end, *slash = strrchr(__FILE__, '/');
	char path[256];
	struct mk_error err = { 0 };

	snprintf(path, sizeof(path), "%.*s%s", (int)(slash - __FILE__), __FILE__, file);
	ck_assert_msg(mk_file_read(path, 1 << 20, &all, NULL, &err) == 0, "%s", err.text);
	for (start = all; number > 0; number--)
		start = strstr(start, separator) + strlen(separator);
	end = strstr(start, separator) ?: strchr(start, '\0');
	if (size)
		*size = (size_t)(end - start);
	return strndup(start, (size_t)(end - start));
}

START_TEST(test_recorded)
{
	cleanup_free char *data = read_recorded(_i, NULL);
	struct line line = { 0 };

	apply_good_text(model, data);
	if (mk_model_node(model, "worker-1"))
		summarize_node(&line, mk_model_node(model, "worker-1"));
	if (mk_model_service(model, "shop", "web"))
		summarize_service(&line, mk_model_service(model, "shop", "web"));
	summarize_endpoints(&line, model, "edge", "manual");
	summarize_endpoints(&line, model, "infra", "mirrored");
	ck_assert_str_eq(line.text, recorded[_i]);
}
END_TEST

/* ---- anything at all ------------------------------------------------------------------------- */

static json_object *odd_value(void)
{
	switch (rand() % 10) {
	case 0:
		return NULL;
	case 1:
		return json_object_new_int64(INT64_MIN);
	case 2:
		return json_object_new_uint64(UINT64_MAX);
	case 3:
		return json_object_new_double(1e300);
	case 4:
		return json_object_new_boolean(rand() % 2);
	case 5:
		return json_object_new_string("");
	case 6:
		return json_object_new_string_len("a\0b", 3);
	case 7:
		return json_object_new_array();
	case 8:
		return json_object_new_object();
	default:
		return json_object_new_int(rand() % 70000);
	}
}

/* Put an odd value somewhere into @tree. */
static void disturb(json_object *tree)
{
	size_t length, at;

	if (json_object_is_type(tree, json_type_array) && json_object_array_length(tree) > 0) {
		length = json_object_array_length(tree);
		at = (size_t)rand() % length;
		if (rand() % 4 == 0)
			json_object_array_put_idx(tree, at, odd_value());
		else
			disturb(json_object_array_get_idx(tree, at));
	} else if (json_object_is_type(tree, json_type_object) &&
		   json_object_object_length(tree) > 0) {
		struct json_object_iterator it = json_object_iter_begin(tree);

		at = (size_t)rand() % (size_t)json_object_object_length(tree);
		while (at-- > 0)
			json_object_iter_next(&it);
		if (rand() % 4 == 0)
			json_object_object_add(tree, json_object_iter_peek_name(&it), odd_value());
		else
			disturb(json_object_iter_peek_value(&it));
	}
}

START_TEST(test_disturbed_trees)
{
	cleanup_free char *data = read_recorded(_i, NULL);
	int refused = 0;

	srand(1);
	for (int round = 0; round < 3000; round++) {
		json_object *tree = json_tokener_parse(data);
		struct mk_error err = { 0 };

		ck_assert_ptr_nonnull(tree);
		for (int times = rand() % 4; times >= 0; times--)
			disturb(tree);
		if (mk_model_apply(model, tree, &err) < 0) {
			ck_assert_msg(err.text[0] && err.code > 0, "an error without text");
			refused++;
		}
		json_object_put(tree);
	}
	ck_assert_int_gt(refused, 0);
}
END_TEST

START_TEST(test_disturbed_bytes)
{
	size_t size;
	cleanup_free char *data = read_recorded(_i, &size);
	cleanup_free char *copy = malloc(size + 1);

	ck_assert_ptr_nonnull(copy);
	srand(2);
	for (int round = 0; round < 3000; round++) {
		json_object *tree;

		memcpy(copy, data, size + 1);
		for (int times = rand() % 3; times >= 0; times--)
			copy[(size_t)rand() % size] = (char)(rand() % 255 + 1);
		tree = json_tokener_parse(copy);
		if (tree && mk_model_apply(model, tree, NULL) == 0)
			hear("%s", "");
		json_object_put(tree);
	}
}
END_TEST

/* Count the endpoints of all slices, whatever their Service; a changed slice's old
 * ones are removed. */
START_TEST(test_counts)
{
	apply_good_text(model, "{" NODE "}");
	apply_good_text(model, "{" SLICE("a") ", 'endpoints': [{'addresses': ['10.1.0.1']}, "
					      "{'addresses': ['10.1.0.2']}], " HTTP "}");
	apply_good_text(model,
			"{" SLICE("b") ", 'endpoints': [{'addresses': ['10.1.0.1']}], " HTTP "}");
	apply_good_text(model,
			"{'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', "
			"'addressType': 'IPv6', 'metadata': {'name': 'c'}, 'endpoints': "
			"[{'addresses': ['fd00::1']}, {'addresses': ['fd00::2']}], " HTTP "}");
	ck_assert_uint_eq(mk_model_endpoint_count(model, AF_INET6), 2);
	mk_model_delete(model, MK_KIND_ENDPOINT_SLICE, "default", "c");
	ck_assert_uint_eq(mk_model_endpoint_count(model, AF_INET6), 0);
	apply_good_text(model, ENDPOINTS_AT("10.1.0.9"));
	ck_assert_uint_eq(mk_model_count(model, MK_KIND_NODE), 1);
	ck_assert_uint_eq(mk_model_count(model, MK_KIND_SERVICE), 0);
	ck_assert_uint_eq(mk_model_count(model, MK_KIND_ENDPOINT_SLICE), 2);
	ck_assert_uint_eq(mk_model_count(model, MK_KIND_ENDPOINTS), 1);
	ck_assert_uint_eq(mk_model_endpoint_count(model, AF_INET), 3);
	apply_good_text(model,
			"{" SLICE("a") ", 'endpoints': [{'addresses': ['10.1.0.3']}], " HTTP "}");
	ck_assert_uint_eq(mk_model_endpoint_count(model, AF_INET), 2);
	mk_model_delete(model, MK_KIND_ENDPOINTS, "x", "s");
	mk_model_delete(model, MK_KIND_ENDPOINT_SLICE, "x", "a");
	ck_assert_uint_eq(mk_model_endpoint_count(model, AF_INET), 1);
	mk_model_delete(model, MK_KIND_ENDPOINT_SLICE, "x", "b");
	ck_assert_uint_eq(mk_model_endpoint_count(model, AF_INET), 0);
	ck_assert_uint_eq(mk_model_count(model, MK_KIND_ENDPOINT_SLICE), 0);
}
END_TEST

/* Skipped addresses are counted as long as their object is there. A slice of FQDN has none. */
START_TEST(test_skipped_count)
{
	apply_good_text(model,
			"{" SLICE("a") ", 'endpoints': [{'addresses': ['10.1.0.1']}, "
				       "{'addresses': ['fd00::1']}, {'addresses': ['x']}], " HTTP
				       "}");
	ck_assert_uint_eq(mk_model_skipped_count(model), 2);
	apply_good_text(model, SLICE_OF_IPV6("::ffff:10.1.0.1"));
	ck_assert_uint_eq(mk_model_skipped_count(model), 3);
	apply_good_text(model, ENDPOINTS_AT("127.0.0.1"));
	ck_assert_uint_eq(mk_model_skipped_count(model), 4);
	apply_good_text(model,
			"{'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', "
			"'addressType': 'FQDN', 'metadata': {'name': 'd', 'namespace': 'x'}, "
			"'endpoints': [{'addresses': ['a.example']}]}");
	ck_assert_uint_eq(mk_model_skipped_count(model), 4);
	apply_good_text(model,
			"{" SLICE("a") ", 'endpoints': [{'addresses': ['fd00::1']}], " HTTP "}");
	ck_assert_uint_eq(mk_model_skipped_count(model), 3);
	mk_model_delete(model, MK_KIND_ENDPOINT_SLICE, "x", "a");
	mk_model_delete(model, MK_KIND_ENDPOINT_SLICE, "x", "b");
	mk_model_delete(model, MK_KIND_ENDPOINTS, "x", "s");
	ck_assert_uint_eq(mk_model_skipped_count(model), 0);
}
END_TEST

/* Silence in a long or a short watch is noticed within a minute. */
START_TEST(test_silent_watch)
{
	const struct mk_reflector_timing *timing = &mk_reflector_timing_default;
	uint64_t short_ms = timing->quiet_watch_s * 1125ULL;

	ck_assert_uint_le(timing->quiet_ms + timing->grace_ms, 60000);
	ck_assert_uint_le(short_ms + timing->grace_ms, 60000);
}
END_TEST

UNIT_SUITE("model_follow")
{
	TCase *tc = unit_case(suite, "model", setup, teardown);

	tcase_add_loop_test(tc, test_story, 0, MK_ARRAY_SIZE(stories));
	tcase_add_loop_test(tc, test_merge, 0, 2 * MK_ARRAY_SIZE(merges));
	tcase_add_test(tc, test_counts);
	tcase_add_test(tc, test_silent_watch);
	tcase_add_test(tc, test_skipped_count);
	tcase_add_loop_test(tc, test_recorded, 0, MK_ARRAY_SIZE(recorded));
	tcase_add_loop_test(tc, test_disturbed_trees, 0, MK_ARRAY_SIZE(recorded));
	tcase_add_loop_test(tc, test_disturbed_bytes, 0, MK_ARRAY_SIZE(recorded));
}
