// SPDX-License-Identifier: Apache-2.0
/* The model: what is kept of each object, what is refused, and when the listener hears of it. */
#include <check.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "model/model.h"

static struct mk_model *model;
static char heard[512]; /* what the listener was told, one word each */

static void hear(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void hear(const char *fmt, ...)
{
	size_t used = strlen(heard);
	va_list args;

	va_start(args, fmt);
	vsnprintf(heard + used, sizeof(heard) - used, fmt, args);
	va_end(args);
}

static void node_changed(void *ctx, const char *name)
{
	(void)ctx;
	hear("%snode:%s", *heard ? " " : "", name);
}

static void service_changed(void *ctx, const char *namespace_, const char *name)
{
	(void)ctx;
	hear("%s%s/%s", *heard ? " " : "", namespace_, name);
}

static void setup(void)
{
	model = mk_model_new();
	ck_assert_ptr_nonnull(model);
	mk_model_set_listener(model,
			      &(struct mk_model_listener){ .node_changed = node_changed,
							   .service_changed = service_changed });
	heard[0] = '\0';
}

static void teardown(void)
{
	mk_model_free(model);
}

/* json-c reads single quotes too, which saves the rows a lot of backslashes. */
static int apply(const char *text, struct mk_error *err)
{
	json_object *tree = json_tokener_parse(text);
	int ret;

	ck_assert_msg(tree, "test row is no JSON: %s", text);
	ret = mk_model_apply(model, tree, err);
	json_object_put(tree);
	return ret;
}

static void apply_good(const char *text)
{
	struct mk_error err = { 0 };

	ck_assert_msg(apply(text, &err) == 0, "%s: %s", text, err.text);
}

/* ---- summaries: an object as one line of text ------------------------------------------ */

struct line {
	char text[1024];
	size_t used;
};

static void add(struct line *line, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct line *line, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	line->used += (size_t)vsnprintf(line->text + line->used, sizeof(line->text) - line->used,
					fmt, args);
	va_end(args);
	ck_assert_uint_lt(line->used, sizeof(line->text));
}

static void add_ips(struct line *line, const char *what, const struct mk_ip *ips, size_t count)
{
	char buf[MK_IP_STRLEN];

	for (size_t i = 0; i < count; i++)
		add(line, "%s%s", i ? "," : what, mk_ip_format(&ips[i], buf));
}

static void summarize_node(struct line *line, const struct mk_node_object *node)
{
	char buf[MK_CIDR_STRLEN];

	add(line, "%s", node->name);
	if (node->pod_cidr.ip.family != AF_UNSPEC)
		add(line, " pods=%s", mk_cidr_format(&node->pod_cidr, buf));
	if (node->internal_ip.family != AF_UNSPEC)
		add(line, " internal=%s", mk_ip_format(&node->internal_ip, buf));
	add_ips(line, " all=", node->addresses, node->address_count);
	add(line, "%s%s%s%s", node->zone ? " zone=" : "", node->zone ? node->zone : "",
	    node->ready ? " ready" : "", node->control_plane ? " control-plane" : "");
}

static const char *proto_name(uint8_t proto)
{
	return proto == IPPROTO_TCP ? "tcp" : proto == IPPROTO_UDP ? "udp" : "sctp";
}

static void summarize_service(struct line *line, const struct mk_service_object *service)
{
	static const char *const types[] = { "ClusterIP", "NodePort", "LoadBalancer" };
	char buf[MK_IP_STRLEN];

	add(line, "%s/%s %s", service->namespace_, service->name, types[service->type]);
	if (service->cluster_ip.family != AF_UNSPEC)
		add(line, " ip=%s", mk_ip_format(&service->cluster_ip, buf));
	add_ips(line, " external=", service->external_ips, service->external_ip_count);
	add_ips(line, " lb=", service->load_balancer_ips, service->load_balancer_ip_count);
	for (size_t i = 0; i < service->port_count; i++)
		add(line, " %s:%u/%s", service->ports[i].name, service->ports[i].port,
		    proto_name(service->ports[i].proto));
	for (size_t i = 0; i < service->port_count; i++)
		if (service->ports[i].node_port)
			add(line, " node-port=%u", service->ports[i].node_port);
	if (service->client_ip_affinity)
		add(line, " affinity=%us", service->affinity_timeout_s);
	add(line, "%s%s%s", service->external_local ? " ext-local" : "",
	    service->internal_local ? " int-local" : "", service->excluded ? " excluded" : "");
}

static void summarize_hints(struct line *line, const char *what, char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		add(line, "%s%s", i ? "," : what, names[i]);
}

static void summarize_endpoints(struct line *line, const char *namespace_, const char *name)
{
	const struct mk_endpoint **endpoints;
	char buf[MK_IP_STRLEN];
	size_t count;

	ck_assert_int_eq(mk_model_endpoints(model, namespace_, name, &endpoints, &count), 0);
	for (size_t i = 0; i < count; i++) {
		const struct mk_endpoint *e = endpoints[i];

		add(line, "%s%s:%u/%s %s", i ? "; " : "", mk_ip_format(&e->ip, buf), e->port,
		    proto_name(e->proto), e->port_name);
		add(line, "%s%s%s%s%s", e->node_name ? "@" : "", e->node_name ? e->node_name : "",
		    e->ready ? " ready" : "", e->serving ? " serving" : "",
		    e->terminating ? " terminating" : "");
		summarize_hints(line, " zones=", e->for_zones, e->for_zone_count);
		summarize_hints(line, " nodes=", e->for_nodes, e->for_node_count);
	}
	free(endpoints);
}

/* ---- rows ------------------------------------------------------------------------------ */

#define NODE	"'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n'}"
#define SERVICE "'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 's', 'namespace': 'x'}"
#define PORT_80 "'ports': [{'port': 80}]"
#define SLICE_META \
	"'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', 'addressType': 'IPv4'"
#define SLICE(name)                                                        \
	SLICE_META ", 'metadata': {'name': '" name "', 'namespace': 'x', " \
		   "'labels': {'kubernetes.io/service-name': 's'}}"
#define HTTP "'ports': [{'name': 'http', 'port': 8080}]"
#define ENDPOINTS \
	"'apiVersion': 'v1', 'kind': 'Endpoints', 'metadata': {'name': 's', 'namespace': 'x'}"

static const struct {
	const char *name, *object;
	const char *expected; /* summary of node n, service x/s and its endpoints */
} good[] = {
	{ "node, bare", "{" NODE "}", "n" },
	{ "node, one pod CIDR, host bits", "{" NODE ", 'spec': {'podCIDR': '10.244.1.7/24'}}",
	  "n pods=10.244.1.0/24" },
	{ "node, dual stack, IPv6 first",
	  "{" NODE
	  ", 'spec': {'podCIDR': 'fd00::/64', 'podCIDRs': ['fd00::/64', '10.244.1.0/24']}}",
	  "n pods=10.244.1.0/24" },
	{ "node, null and empty",
	  "{" NODE ", 'spec': {'podCIDR': '', 'podCIDRs': null}, 'status': null}", "n" },
	{ "node, addresses",
	  "{" NODE ", 'status': {'addresses': [{'type': 'ExternalIP', 'address': '192.0.2.9'},"
	  "{'type': 'Hostname', 'address': 'n'}, {'type': 'InternalIP', 'address': 'fd00::1'},"
	  "{'type': 'InternalIP', 'address': '192.0.2.11'}, {'type': 'InternalIP', 'address': "
	  "'192.0.2.10'},"
	  "{'type': 'ExternalIP', 'address': '192.0.2.11'}]}}",
	  "n internal=192.0.2.11 all=192.0.2.9,192.0.2.10,192.0.2.11" },
	{ "node, labels and condition",
	  "{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n', 'labels': {"
	  "'topology.kubernetes.io/zone': 'a', 'node-role.kubernetes.io/control-plane': ''}},"
	  "'status': {'conditions': [{'type': 'DiskPressure', 'status': 'False'},"
	  "{'type': 'Ready', 'status': 'True'}]}}",
	  "n zone=a ready control-plane" },
	{ "node, not ready",
	  "{" NODE ", 'status': {'conditions': [{'type': 'Ready', 'status': 'Unknown'}]}}", "n" },
	{ "service", "{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', " PORT_80 "}}",
	  "x/s ClusterIP ip=10.96.0.1 :80/tcp" },
	{ "service, dual stack, IPv6 first",
	  "{" SERVICE
	  ", 'spec': {'clusterIP': 'fd00::1', 'clusterIPs': ['fd00::1', '10.96.0.1'], " PORT_80
	  "}}",
	  "x/s ClusterIP ip=10.96.0.1 :80/tcp" },
	{ "service, IPv6 only", "{" SERVICE ", 'spec': {'clusterIP': 'fd00::1', " PORT_80 "}}",
	  "x/s ClusterIP :80/tcp" },
	{ "service, headless",
	  "{" SERVICE ", 'spec': {'clusterIP': 'None', 'clusterIPs': ['None'], " PORT_80 "}}",
	  "x/s ClusterIP :80/tcp" },
	{ "service, ExternalName with an address",
	  "{" SERVICE ", 'spec': {'type': 'ExternalName', 'externalName': 'a.b', 'clusterIP': "
		      "'10.96.0.1', " PORT_80 "}}",
	  "x/s ClusterIP" },
	{ "service, three protocols on a port",
	  "{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', 'ports': [{'name': 'a', 'port': 53},"
	  "{'name': 'b', 'port': 53, 'protocol': 'UDP'}, {'name': 'c', 'port': 53, 'protocol': "
	  "'SCTP'}]}}",
	  "x/s ClusterIP ip=10.96.0.1 a:53/tcp b:53/udp c:53/sctp" },
	{ "service, NodePort and policies",
	  "{" SERVICE ", 'spec': {'type': 'NodePort', 'clusterIP': '10.96.0.1', "
		      "'externalTrafficPolicy': 'Local',"
	  "'internalTrafficPolicy': 'Local', 'ports': [{'port': 80, 'nodePort': 30080}]}}",
	  "x/s NodePort ip=10.96.0.1 :80/tcp node-port=30080 ext-local int-local" },
	{ "service, nodePort left over after a change of type",
	  "{" SERVICE ", 'spec': {'type': 'ClusterIP', 'clusterIP': '10.96.0.1', 'ports': "
		      "[{'port': 80, 'nodePort': 30080}]}}",
	  "x/s ClusterIP ip=10.96.0.1 :80/tcp" },
	{ "service, load balancer: hostname, Proxy, VIP, IPv6, twice the same",
	  "{" SERVICE ", 'spec': {'type': 'LoadBalancer', 'clusterIP': '10.96.0.1', " PORT_80 "},"
	  "'status': {'loadBalancer': {'ingress': [{'hostname': 'a.b'}, {'ip': '203.0.113.3', "
	  "'ipMode': 'Proxy'},"
	  "{'ip': '203.0.113.2', 'ipMode': 'VIP'}, {'ip': '203.0.113.1'}, {'ip': '203.0.113.2'}, "
	  "{'ip': '2001:db8::1'}]}}}",
	  "x/s LoadBalancer ip=10.96.0.1 lb=203.0.113.1,203.0.113.2 :80/tcp" },
	{ "service, load balancer address left over",
	  "{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', " PORT_80 "},"
	  "'status': {'loadBalancer': {'ingress': [{'ip': '203.0.113.1'}]}}}",
	  "x/s ClusterIP ip=10.96.0.1 :80/tcp" },
	{ "service, externalIPs",
	  "{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', 'externalIPs': ['192.0.2.2', "
		      "'192.0.2.1', 'fd00::1'], " PORT_80 "}}",
	  "x/s ClusterIP ip=10.96.0.1 external=192.0.2.1,192.0.2.2 :80/tcp" },
	{ "service, affinity, default time",
	  "{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', 'sessionAffinity': 'ClientIP', " PORT_80
	  "}}",
	  "x/s ClusterIP ip=10.96.0.1 :80/tcp affinity=10800s" },
	{ "service, affinity, own time",
	  "{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', 'sessionAffinity': 'ClientIP',"
	  "'sessionAffinityConfig': {'clientIP': {'timeoutSeconds': 30}}, " PORT_80 "}}",
	  "x/s ClusterIP ip=10.96.0.1 :80/tcp affinity=30s" },
	{ "service of another proxy",
	  "{'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 's', 'namespace': 'x', "
	  "'labels':"
	  "{'service.kubernetes.io/service-proxy-name': ''}}, 'spec': {'clusterIP': "
	  "'10.96.0.1', " PORT_80 "}}",
	  "x/s ClusterIP ip=10.96.0.1 :80/tcp excluded" },
	{ "slice, conditions absent or null",
	  "{" SLICE(
		  "a") ", 'endpoints': [{'addresses': ['10.1.0.2'], 'conditions': {'ready': null}},"
		       "{'addresses': ['10.1.0.1']}], " HTTP "}",
	  "10.1.0.1:8080/tcp http ready serving; 10.1.0.2:8080/tcp http ready serving" },
	{ "slice, conditions",
	  "{" SLICE("a") ", 'endpoints': [{'addresses': ['10.1.0.1'], 'nodeName': 'n',"
			 "'conditions': {'ready': false, 'serving': true, 'terminating': "
			 "true}}], " HTTP "}",
	  "10.1.0.1:8080/tcp http@n serving terminating" },
	{ "slice, two ports, the first address alone",
	  "{" SLICE("a") ", 'endpoints': [{'addresses': ['10.1.0.1', '10.1.0.9']}, {'addresses': "
			 "[]}, {}],"
			 "'ports': [{'port': 80}, {'name': 'dns', 'port': 53, 'protocol': 'UDP'}, "
			 "{'name': 'any', 'port': null}]}",
	  "10.1.0.1:53/udp dns ready serving; 10.1.0.1:80/tcp  ready serving" },
	{ "slice, hints",
	  "{" SLICE("a") ", 'endpoints': [{'addresses': ['10.1.0.1'], 'hints': {'forZones': "
			 "[{'name': 'b'}, {'name': 'a'}],"
			 "'forNodes': [{'name': 'n'}]}}], " HTTP "}",
	  "10.1.0.1:8080/tcp http ready serving zones=a,b nodes=n" },
	{ "slice of the other family",
	  "{'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', 'addressType': 'IPv6', "
	  "'metadata':"
	  "{'name': 'a', 'namespace': 'x', 'labels': {'kubernetes.io/service-name': 's'}},"
	  "'endpoints': [{'addresses': ['fd00::1']}], " HTTP "}",
	  "" },
	{ "headless slice",
	  "{" SLICE_META ", 'metadata': {'name': 'a', 'namespace': 'x', 'labels': "
			 "{'kubernetes.io/service-name': 's',"
	  "'service.kubernetes.io/headless': ''}}, 'endpoints': [{'addresses': "
	  "['10.1.0.1']}], " HTTP "}",
	  "" },
	{ "slice of no Service",
	  "{" SLICE_META ", 'metadata': {'name': 'a', 'namespace': 'x'}, 'endpoints': "
			 "[{'addresses': ['10.1.0.1']}], " HTTP "}",
	  "" },
	{ "slice in another namespace",
	  "{" SLICE_META
	  ", 'metadata': {'name': 'a', 'labels': {'kubernetes.io/service-name': 's'}},"
	  "'endpoints': [{'addresses': ['10.1.0.1']}], " HTTP "}",
	  "" },
	{ "endpoints",
	  "{" ENDPOINTS
	  ", 'subsets': [{'addresses': [{'ip': '10.1.0.1', 'nodeName': 'n'}], 'notReadyAddresses':"
	  "[{'ip': '10.1.0.2'}], " HTTP
	  "}, {'addresses': [{'ip': '10.1.0.3'}], 'ports': [{'port': 90}]}]}",
	  "10.1.0.1:8080/tcp http@n ready serving; 10.1.0.2:8080/tcp http; 10.1.0.3:90/tcp  ready "
	  "serving" },
	{ "endpoints, no subset", "{" ENDPOINTS ", 'subsets': null}", "" },
};

START_TEST(test_good)
{
	const struct mk_service_object *service;
	const struct mk_node_object *node;
	struct line line = { 0 };

	apply_good(good[_i].object);
	node = mk_model_node(model, "n");
	service = mk_model_service(model, "x", "s");
	if (node)
		summarize_node(&line, node);
	if (service)
		summarize_service(&line, service);
	summarize_endpoints(&line, "x", "s");
	ck_assert_msg(strcmp(line.text, good[_i].expected) == 0, "%s: got \"%s\", expected \"%s\"",
		      good[_i].name, line.text, good[_i].expected);
}
END_TEST

static const struct {
	const char *name, *object;
	const char *error; /* a part of the message */
} bad[] = {
	{ "no object", "[]", "not an object" },
	{ "empty", "{}", "apiVersion is missing" },
	{ "no kind", "{'apiVersion': 'v1'}", "kind is missing" },
	{ "kind of the wrong type", "{'apiVersion': 'v1', 'kind': 5}",
	  "kind: value 5, expected a text" },
	{ "no metadata", "{'apiVersion': 'v1', 'kind': 'Node'}", "Node: metadata.name is missing" },
	{ "no name", "{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {}}",
	  "metadata.name is missing" },
	{ "name with a slash", "{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'a/b'}}",
	  "metadata.name: value \"a/b\", expected lower case letters" },
	{ "name with NUL",
	  "{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'a\\u0000b'}}",
	  "expected a text without NUL" },
	{ "namespace of the wrong type",
	  "{'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 'a', 'namespace': {}}}",
	  "metadata.namespace: value an object, expected a text" },
	{ "old version of a slice",
	  "{'apiVersion': 'discovery.k8s.io/v1beta1', 'kind': 'EndpointSlice', 'metadata': "
	  "{'name': 'a'}}",
	  "apiVersion: value \"discovery.k8s.io/v1beta1\", expected discovery.k8s.io/v1" },
	{ "node, pod CIDR", "{" NODE ", 'spec': {'podCIDRs': ['10.244.1.0']}}",
	  "Node n: spec.podCIDRs[0]: value \"10.244.1.0\", expected a range" },
	{ "node, labels are a list",
	  "{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n', 'labels': []}}",
	  "metadata.labels: value a list, expected an object" },
	{ "node, address",
	  "{" NODE ", 'status': {'addresses': [{'type': 'InternalIP', 'address': 'n1'}]}}",
	  "Node n: status.addresses[0].address: value \"n1\", expected an IP address" },
	{ "node, address missing", "{" NODE ", 'status': {'addresses': [{'type': 'InternalIP'}]}}",
	  "status.addresses[0].address is missing" },
	{ "node, address of everybody",
	  "{" NODE ", 'status': {'addresses': [{'type': 'InternalIP', 'address': '127.0.0.1'}]}}",
	  "not unspecified, loopback" },
	{ "spec is a number", "{" SERVICE ", 'spec': 5}",
	  "Service x/s: spec: value 5, expected an object" },
	{ "type", "{" SERVICE ", 'spec': {'type': 'Nodeport'}}",
	  "spec.type: value \"Nodeport\", expected ClusterIP, NodePort" },
	{ "cluster IP", "{" SERVICE ", 'spec': {'clusterIP': '10.96.0'}}",
	  "Service x/s: spec.clusterIP: value \"10.96.0\", expected an IP address" },
	{ "cluster IP in the list", "{" SERVICE ", 'spec': {'clusterIPs': ['10.96.0.1', 7]}}",
	  "spec.clusterIPs[1]: value 7, expected a text" },
	{ "cluster IP multicast", "{" SERVICE ", 'spec': {'clusterIP': '224.0.0.1'}}",
	  "multicast" },
	{ "external IP link-local",
	  "{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', 'externalIPs': ['169.254.169.254']}}",
	  "spec.externalIPs[0]: value \"169.254.169.254\"" },
	{ "port missing", "{" SERVICE ", 'spec': {'ports': [{'name': 'a'}]}}",
	  "spec.ports[0].port is missing, expected a number" },
	{ "port 0", "{" SERVICE ", 'spec': {'ports': [{'port': 0}]}}",
	  "Service x/s: spec.ports[0].port: value 0, expected a number from 1 to 65535" },
	{ "port too large", "{" SERVICE ", 'spec': {'ports': [{'port': 65536}]}}", "value 65536" },
	{ "port huge", "{" SERVICE ", 'spec': {'ports': [{'port': 99999999999999999999999}]}}",
	  "spec.ports[0].port: value" },
	{ "port very negative",
	  "{" SERVICE ", 'spec': {'ports': [{'port': -99999999999999999999999}]}}",
	  "spec.ports[0].port: value" },
	{ "port with fraction", "{" SERVICE ", 'spec': {'ports': [{'port': 80.5}]}}",
	  "value 80.5, expected a whole number" },
	{ "port as text", "{" SERVICE ", 'spec': {'ports': [{'port': '80'}]}}",
	  "value \"80\", expected a whole number" },
	{ "port null", "{" SERVICE ", 'spec': {'ports': [null]}}",
	  "spec.ports[0] is missing, expected an object" },
	{ "protocol", "{" SERVICE ", 'spec': {'ports': [{'port': 80, 'protocol': 'tcp'}]}}",
	  "spec.ports[0].protocol: value \"tcp\", expected TCP, UDP or SCTP" },
	{ "node port",
	  "{" SERVICE ", 'spec': {'type': 'NodePort', 'ports': [{'port': 80, 'nodePort': 70000}]}}",
	  "spec.ports[0].nodePort: value 70000" },
	{ "the same port twice",
	  "{" SERVICE
	  ", 'spec': {'ports': [{'name': 'a', 'port': 80}, {'name': 'b', 'port': 80}]}}",
	  "spec.ports[1]: value an object, expected a port and protocol not listed before" },
	{ "the same name twice", "{" SERVICE ", 'spec': {'ports': [{'port': 80}, {'port': 81}]}}",
	  "expected a name that no other port has" },
	{ "policy", "{" SERVICE ", 'spec': {'externalTrafficPolicy': 'local'}}",
	  "spec.externalTrafficPolicy: value \"local\", expected Cluster or Local" },
	{ "affinity", "{" SERVICE ", 'spec': {'sessionAffinity': 'Cookie'}}",
	  "expected None or ClientIP" },
	{ "affinity time",
	  "{" SERVICE ", 'spec': {'sessionAffinity': 'ClientIP', 'sessionAffinityConfig': "
		      "{'clientIP': {'timeoutSeconds': 86401}}}}",
	  "timeoutSeconds: value 86401, expected a number from 1 to 86400" },
	{ "slice without type",
	  "{'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', 'metadata': {'name': "
	  "'a'}}",
	  "EndpointSlice default/a: addressType is missing" },
	{ "slice, label of the wrong type",
	  "{" SLICE_META
	  ", 'metadata': {'name': 'a', 'labels': {'kubernetes.io/service-name': 1}}}",
	  "metadata.labels.kubernetes.io/service-name: value 1, expected a text" },
	{ "slice, label that no Service can have",
	  "{" SLICE_META
	  ", 'metadata': {'name': 'a', 'labels': {'kubernetes.io/service-name': 'a/b'}}}",
	  "value 'a/b', expected a Service's name" },
	{ "slice, address of the other family",
	  "{" SLICE("a") ", 'endpoints': [{'addresses': ['x']}], " HTTP "}",
	  "EndpointSlice x/a: endpoints[0].addresses[0]: value \"x\", expected an IP address" },
	{ "slice, loopback",
	  "{" SLICE("a") ", 'endpoints': [{'addresses': ['127.0.0.1']}], " HTTP "}", "loopback" },
	{ "slice, condition",
	  "{" SLICE("a") ", 'endpoints': [{'addresses': ['10.1.0.1'], 'conditions': {'ready': "
			 "'yes'}}], " HTTP "}",
	  "endpoints[0].conditions.ready: value \"yes\", expected true or false" },
	{ "slice, port", "{" SLICE("a") ", 'ports': [{'port': 65536}]}",
	  "ports[0].port: value 65536" },
	{ "slice, hints",
	  "{" SLICE("a") ", 'endpoints': [{'addresses': ['10.1.0.1'], 'hints': {'forZones': "
			 "['a']}}], " HTTP "}",
	  "endpoints[0].hints.forZones[0]: value \"a\", expected an object" },
	{ "endpoints, address", "{" ENDPOINTS ", 'subsets': [{'addresses': [{}], " HTTP "}]}",
	  "Endpoints x/s: subsets[0].addresses[0].ip is missing, expected an IP address" },
};

/* A refused object changes nothing: not the one that is there, not the listener's view. */
START_TEST(test_bad)
{
	struct line before = { 0 }, after = { 0 };
	struct mk_error err = { 0 };

	apply_good("{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', " PORT_80 "}}");
	apply_good("{" SLICE("a") ", 'endpoints': [{'addresses': ['10.1.0.1']}], " HTTP "}");
	summarize_service(&before, mk_model_service(model, "x", "s"));
	summarize_endpoints(&before, "x", "s");
	heard[0] = '\0';
	ck_assert_msg(apply(bad[_i].object, &err) < 0, "%s", bad[_i].name);
	ck_assert_msg(strstr(err.text, bad[_i].error), "%s: no \"%s\" in \"%s\"", bad[_i].name,
		      bad[_i].error, err.text);
	summarize_service(&after, mk_model_service(model, "x", "s"));
	summarize_endpoints(&after, "x", "s");
	ck_assert_str_eq(before.text, after.text);
	ck_assert_str_eq(heard, "");
}
END_TEST

static const char *const not_ours[] = {
	"{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'p'}}",
	"{'apiVersion': 'v1', 'kind': 'Namespace'}",
	"{'apiVersion': 'serving.knative.dev/v1', 'kind': 'Service', 'metadata': {'name': 's'}}",
	"{'apiVersion': 'v1', 'kind': 'EndpointSlice', 'metadata': {'name': 's'}}",
};

START_TEST(test_not_ours)
{
	struct mk_error err = { 0 };

	ck_assert_msg(apply(not_ours[_i], &err) == 1, "%s: %s", not_ours[_i], err.text);
	ck_assert_str_eq(heard, "");
}
END_TEST

/* ---- what the listener hears --------------------------------------------------------------- */

#define SLICE_OF(service, address)                                                               \
	"{" SLICE_META ", 'metadata': {'name': 'a', 'namespace': 'x', 'labels': "                \
	"{'kubernetes.io/service-name': '" service "'}}, 'endpoints': [{'addresses': ['" address \
	"']}], " HTTP "}"
#define ENDPOINTS_AT(address) \
	"{" ENDPOINTS ", 'subsets': [{'addresses': [{'ip': '" address "'}], " HTTP "}]}"

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
	      "[{'type': 'Ready', 'status': 'True'}], 'images': [1]}}",
	      .heard = "" },
	    { "{" NODE ", 'spec': {'podCIDR': '10.244.2.0/24'}}", .heard = "node:n" },
	    { .kind = MK_KIND_NODE, .name = "n", .heard = "node:n" },
	    { .kind = MK_KIND_NODE, .name = "n", .heard = "" } } },
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
	{ "service",
	  { { "{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', " PORT_80 "}}", .heard = "x/s" },
	    { "{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', 'selector': {'a': 'b'}, " PORT_80
	      "}}",
	      .heard = "" },
	    { "{" SERVICE
	      ", 'spec': {'clusterIP': '10.96.0.1', 'internalTrafficPolicy': 'Local', " PORT_80
	      "}}",
	      .heard = "x/s" },
	    { .kind = MK_KIND_SERVICE, .name = "s", .heard = "x/s" },
	    { .kind = MK_KIND_SERVICE, .name = "s", .heard = "" } } },
	{ "slice comes, stays, moves to another Service, goes",
	  { { SLICE_OF("s", "10.1.0.1"), .heard = "x/s" },
	    { SLICE_OF("s", "10.1.0.1"), .heard = "" },
	    { SLICE_OF("s", "10.1.0.2"), .heard = "x/s" },
	    { SLICE_OF("t", "10.1.0.2"), .heard = "x/s x/t" },
	    { .kind = MK_KIND_ENDPOINT_SLICE, .name = "a", .heard = "x/t" },
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
	{ "endpoints are heard only while there is no slice",
	  { { ENDPOINTS_AT("10.1.0.1"), .heard = "x/s" },
	    { SLICE_OF("s", "10.1.0.2"), .heard = "x/s" },
	    { ENDPOINTS_AT("10.1.0.3"), .heard = "" },
	    { .kind = MK_KIND_ENDPOINT_SLICE, .name = "a", .heard = "x/s" },
	    { .kind = MK_KIND_ENDPOINTS, .name = "s", .heard = "x/s" } } },
};

START_TEST(test_story)
{
	for (const struct step *step = stories[_i].steps; step->heard; step++) {
		heard[0] = '\0';
		if (step->object)
			apply_good(step->object);
		else
			mk_model_delete(model, step->kind, step->kind == MK_KIND_NODE ? "" : "x",
					step->name);
		ck_assert_msg(strcmp(heard, step->heard) == 0,
			      "%s, step %d: heard \"%s\", expected \"%s\"", stories[_i].name,
			      (int)(step - stories[_i].steps) + 1, heard, step->heard);
	}
}
END_TEST

/* ---- merging -------------------------------------------------------------------------------- */

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

	apply_good(merges[row].objects[first]);
	apply_good(merges[row].objects[!first]);
	summarize_endpoints(&line, "x", "s");
	ck_assert_msg(strcmp(line.text, merges[row].expected) == 0, "%s: got \"%s\"",
		      merges[row].name, line.text);
}
END_TEST

/* ---- as recorded from an API server ------------------------------------------------------------ */

static const struct {
	const char *file, *expected;
} recorded[] = {
	{ "node.json", "worker-1 pods=10.244.1.0/24 internal=192.168.50.11 all=192.168.50.11 "
		       "zone=zone-a ready" },
	{ "service.json", "shop/web ClusterIP ip=10.96.74.49 http:80/tcp" },
	{ "endpointslice.json",
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
	  "198.51.100.99:8080/tcp http ready serving; 198.51.100.99:8443/tcp https ready serving" },
	{ "endpoints.json", "10.244.1.96:8080/tcp http@worker-1 ready serving; "
			    "10.244.2.96:8080/tcp http ready serving; "
			    "10.244.3.96:8080/tcp http; 192.0.2.96:9080/tcp http ready serving" },
};

static char *read_recorded(const char *file, size_t *size)
{
	char path[256], *data;
	const char *slash = strrchr(__FILE__, '/');
	struct mk_error err = { 0 };

	snprintf(path, sizeof(path), "%.*s/data/%s", (int)(slash - __FILE__), __FILE__, file);
	ck_assert_msg(mk_file_read(path, 1 << 20, &data, size, &err) == 0, "%s", err.text);
	return data;
}

START_TEST(test_recorded)
{
	cleanup_free char *data = read_recorded(recorded[_i].file, NULL);
	struct line line = { 0 };

	apply_good(data);
	if (mk_model_node(model, "worker-1"))
		summarize_node(&line, mk_model_node(model, "worker-1"));
	if (mk_model_service(model, "shop", "web"))
		summarize_service(&line, mk_model_service(model, "shop", "web"));
	summarize_endpoints(&line, "edge", "manual");
	summarize_endpoints(&line, "infra", "mirrored");
	ck_assert_str_eq(line.text, recorded[_i].expected);
}
END_TEST

/* ---- anything at all ------------------------------------------------------------------------------ */

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
	cleanup_free char *data = read_recorded(recorded[_i].file, NULL);
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
	cleanup_free char *data = read_recorded(recorded[_i].file, &size);
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

int main(void)
{
	Suite *suite = suite_create("model");
	TCase *tc = tcase_create("model");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, test_good, 0, MK_ARRAY_SIZE(good));
	tcase_add_loop_test(tc, test_bad, 0, MK_ARRAY_SIZE(bad));
	tcase_add_loop_test(tc, test_not_ours, 0, MK_ARRAY_SIZE(not_ours));
	tcase_add_loop_test(tc, test_story, 0, MK_ARRAY_SIZE(stories));
	tcase_add_loop_test(tc, test_merge, 0, 2 * MK_ARRAY_SIZE(merges));
	tcase_add_loop_test(tc, test_recorded, 0, MK_ARRAY_SIZE(recorded));
	tcase_add_loop_test(tc, test_disturbed_trees, 0, MK_ARRAY_SIZE(recorded));
	tcase_add_loop_test(tc, test_disturbed_bytes, 0, MK_ARRAY_SIZE(recorded));
	suite_add_tcase(suite, tc);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
