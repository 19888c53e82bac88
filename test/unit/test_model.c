// SPDX-License-Identifier: Apache-2.0
/* The model, object by object: members that are kept, and objects that are refused. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cluster/model/model.h"
#include "unit/model_objects.h"
#include "unit/model_text.h"
#include "unit/unit.h"

static struct mk_model *model;

static void setup(void)
{
	model = mk_model_new();
	ck_assert_ptr_nonnull(model);
	mk_model_set_listener(model,
			      &(struct mk_model_listener){ .node_changed = hear_node,
							   .service_changed = hear_service });
	heard[0] = '\0';
}

static void teardown(void)
{
	mk_model_free(model);
}

static void summarize(struct line *line)
{
	const struct mk_node_object *node = mk_model_node(model, "n");
	const struct mk_service_object *service = mk_model_service(model, "x", "s");

	if (node)
		summarize_node(line, node);
	if (service)
		summarize_service(line, service);
	summarize_endpoints(line, model, "x", "s");
}

#define KEY "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAI="
#define NODE_WITH_WIREGUARD(text)                                                         \
	"{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n', 'annotations': {" \
	"'networking.monokube.io/wireguard': '" text "'}}}"

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
	  "n pods=10.244.1.0/24,fd00::/64" },
	{ "node, dual stack, IPv4 first, one family in podCIDR alone",
	  "{" NODE ", 'spec': {'podCIDR': 'fd00::7/64', 'podCIDRs': ['10.244.1.0/24']}}",
	  "n pods=10.244.1.0/24,fd00::/64" },
	{ "node, IPv6 only", "{" NODE ", 'spec': {'podCIDR': 'fd00:10:244:1::/64'}}",
	  "n pods=fd00:10:244:1::/64" },
	{ "node, null and empty",
	  "{" NODE ", 'spec': {'podCIDR': '', 'podCIDRs': null}, 'status': null}", "n" },
	{ "node, addresses",
	  "{" NODE ", 'status': {'addresses': [{'type': 'ExternalIP', 'address': '192.0.2.9'},"
	  "{'type': 'Hostname', 'address': 'n'}, {'type': 'InternalIP', 'address': 'fd00::1'},"
	  "{'type': 'InternalIP', 'address': '192.0.2.11'}, {'type': 'InternalIP', 'address': "
	  "'192.0.2.10'},"
	  "{'type': 'ExternalIP', 'address': '192.0.2.11'}]}}",
	  "n internal=192.0.2.11,fd00::1 all=192.0.2.9,192.0.2.10,192.0.2.11,fd00::1" },
	{ "node, addresses of IPv6",
	  "{" NODE ", 'status': {'addresses': [{'type': 'ExternalIP', 'address': '2001:db8::9'},"
	  "{'type': 'InternalIP', 'address': 'fd00::2'},"
	  "{'type': 'InternalIP', 'address': 'fd00::1'}]}}",
	  "n internal=fd00::2 all=2001:db8::9,fd00::1,fd00::2" },
	{ "node, leading zeros",
	  "{" NODE ", 'spec': {'podCIDR': '010.244.001.0/024'}, 'status': {'addresses': "
	  "[{'type': 'InternalIP', 'address': '192.000.002.011'}]}}",
	  "n pods=10.244.1.0/24 internal=192.0.2.11 all=192.0.2.11" },
	{ "node, labels and condition",
	  "{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n', 'labels': {"
	  "'topology.kubernetes.io/zone': 'a', 'node-role.kubernetes.io/control-plane': ''}},"
	  "'status': {'conditions': [{'type': 'DiskPressure', 'status': 'False'},"
	  "{'type': 'Ready', 'status': 'True'}]}}",
	  "n zone=a ready control-plane" },
	{ "node, WireGuard", NODE_WITH_WIREGUARD(KEY ":51871"), "n wireguard=01..02:51871" },
	{ "node, WireGuard without port", NODE_WITH_WIREGUARD(KEY), "n" },
	{ "node, WireGuard with a port of six digits", NODE_WITH_WIREGUARD(KEY ":518710"), "n" },
	{ "node, WireGuard, another key", NODE_WITH_WIREGUARD("A" KEY ":51871"), "n" },
	{ "node, WireGuard, empty", NODE_WITH_WIREGUARD(""), "n" },
	{ "node, border label",
	  "{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n', 'labels': {"
	  "'networking.monokube.io/border': 'true'}}}",
	  "n border" },
	{ "node, border label of another value",
	  "{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n', 'labels': {"
	  "'networking.monokube.io/border': 'yes'}}}",
	  "n" },
	{ "node, not ready",
	  "{" NODE ", 'status': {'conditions': [{'type': 'Ready', 'status': 'Unknown'}]}}", "n" },
	{ "node, other taints",
	  "{" NODE ", 'spec': {'taints': [{'key': 'a', 'effect': 'NoSchedule'}, {}]}}", "n" },
	{ "node, to be deleted by the cluster autoscaler",
	  "{" NODE ", 'spec': {'taints': [{'key': 'a'}, {'key': 'ToBeDeletedByClusterAutoscaler', "
	  "'value': '1', 'effect': 'NoSchedule'}]}}",
	  "n leaving" },
	{ "node, being deleted",
	  "{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n', 'deletionTimestamp': "
	  "'2024-02-29T12:00:00Z'}}",
	  "n leaving" },
	{ "service", "{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', " PORT_80 "}}",
	  "x/s ClusterIP ip=10.96.0.1 :80/tcp" },
	{ "service, dual stack, IPv6 first",
	  "{" SERVICE
	  ", 'spec': {'clusterIP': 'fd00::1', 'clusterIPs': ['fd00::1', '10.96.0.1'], " PORT_80
	  "}}",
	  "x/s ClusterIP ip=10.96.0.1,fd00::1 :80/tcp" },
	{ "service, dual stack, IPv4 first",
	  "{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', 'clusterIPs': ['10.96.0.1', "
	  "'fd00::1'], 'ipFamilies': ['IPv4', 'IPv6'], 'ipFamilyPolicy': 'RequireDualStack', " PORT_80
	  "}}",
	  "x/s ClusterIP ip=10.96.0.1,fd00::1 :80/tcp" },
	{ "service, IPv6 only", "{" SERVICE ", 'spec': {'clusterIP': 'fd00::1', " PORT_80 "}}",
	  "x/s ClusterIP ip=fd00::1 :80/tcp" },
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
	{ "service, target ports and selector",
	  "{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', 'selector': {'b': '2', 'a': '1'}, "
	  "'ports': [{'name': 'a', 'port': 53, 'targetPort': 5353}, {'name': 'b', 'port': 54, "
	  "'targetPort': 'dns'}, {'name': 'c', 'port': 55, 'targetPort': 0}, {'name': 'd', "
	  "'port': 56, 'targetPort': null}]}}",
	  "x/s ClusterIP ip=10.96.0.1 a:53/tcp b:54/tcp c:55/tcp d:56/tcp target=5353 target=dns "
	  "pods:a=1,b=2" },
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
	  "x/s LoadBalancer ip=10.96.0.1 lb=203.0.113.1,203.0.113.2,2001:db8::1 :80/tcp" },
	{ "service, load balancer address left over",
	  "{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', " PORT_80 "},"
	  "'status': {'loadBalancer': {'ingress': [{'ip': '203.0.113.1'}]}}}",
	  "x/s ClusterIP ip=10.96.0.1 :80/tcp" },
	{ "service, health check port",
	  "{" SERVICE ", 'spec': {'type': 'LoadBalancer', 'clusterIP': '10.96.0.1', "
	  "'externalTrafficPolicy': 'Local', 'healthCheckNodePort': 31000, " PORT_80 "}}",
	  "x/s LoadBalancer ip=10.96.0.1 :80/tcp ext-local health=31000" },
	{ "service, health check port of another policy",
	  "{" SERVICE ", 'spec': {'type': 'LoadBalancer', 'clusterIP': '10.96.0.1', "
	  "'healthCheckNodePort': 31000, " PORT_80 "}}",
	  "x/s LoadBalancer ip=10.96.0.1 :80/tcp" },
	{ "service, health check port of another type",
	  "{" SERVICE ", 'spec': {'type': 'NodePort', 'clusterIP': '10.96.0.1', "
	  "'externalTrafficPolicy': 'Local', 'healthCheckNodePort': 31000, " PORT_80 "}}",
	  "x/s NodePort ip=10.96.0.1 :80/tcp ext-local" },
	{ "service, externalIPs",
	  "{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', 'externalIPs': ['192.0.2.2', "
	  "'192.0.2.1', 'fd00::1'], " PORT_80 "}}",
	  "x/s ClusterIP ip=10.96.0.1 external=192.0.2.1,192.0.2.2,fd00::1 :80/tcp" },
	{ "service, affinity, default time",
	  "{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', 'sessionAffinity': 'ClientIP', " PORT_80
	  "}}",
	  "x/s ClusterIP ip=10.96.0.1 :80/tcp affinity=10800s" },
	{ "service, affinity, own time",
	  "{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', 'sessionAffinity': 'ClientIP',"
	  "'sessionAffinityConfig': {'clientIP': {'timeoutSeconds': 30}}, " PORT_80 "}}",
	  "x/s ClusterIP ip=10.96.0.1 :80/tcp affinity=30s" },
	{ "service, source ranges: blanks, host bits, twice the same, IPv6",
	  "{" SERVICE ", 'spec': {'type': 'LoadBalancer', 'clusterIP': '10.96.0.1', " PORT_80 ","
	  "'loadBalancerSourceRanges': [' 203.0.113.7/24 ', '\\t192.0.2.0/28\\n', '2001:db8::/32', "
	  "'203.0.113.0/24']}}",
	  "x/s LoadBalancer ip=10.96.0.1 ranges=192.0.2.0/28,203.0.113.0/24,2001:db8::/32 :80/tcp" },
	{ "service, leading zeros, IPv4 written as IPv6",
	  "{" SERVICE ", 'spec': {'type': 'LoadBalancer', 'clusterIP': '010.096.000.001', " PORT_80
	  ", 'externalIPs': ['192.000.002.010', '::ffff:192.0.2.11'],"
	  "'loadBalancerSourceRanges': ['010.0.0.0/08', ' 203.000.113.007/24 ']},"
	  "'status': {'loadBalancer': {'ingress': [{'ip': '192.0.002.80'}]}}}",
	  "x/s LoadBalancer ip=10.96.0.1 external=192.0.2.10,192.0.2.11 lb=192.0.2.80 "
	  "ranges=10.0.0.0/8,203.0.113.0/24 :80/tcp" },
	{ "service, source ranges of the other family alone",
	  "{" SERVICE ", 'spec': {'type': 'LoadBalancer', 'clusterIP': '10.96.0.1', " PORT_80 ","
	  "'loadBalancerSourceRanges': ['2001:db8::/32']}}",
	  "x/s LoadBalancer ip=10.96.0.1 ranges=2001:db8::/32 :80/tcp" },
	{ "service, source ranges empty or null",
	  "{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', " PORT_80
	  ", 'loadBalancerSourceRanges': null}}",
	  "x/s ClusterIP ip=10.96.0.1 :80/tcp" },
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
	{ "slice, leading zeros",
	  "{" SLICE("a") ", 'endpoints': [{'addresses': ['010.01.000.01']}], " HTTP "}",
	  "10.1.0.1:8080/tcp http ready serving" },
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
	{ "slice of FQDN",
	  "{'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', 'addressType': 'FQDN', "
	  "'metadata':"
	  "{'name': 'a', 'namespace': 'x', 'labels': {'kubernetes.io/service-name': 's'}},"
	  "'endpoints': [{'addresses': ['a.example']}], " HTTP "}",
	  "" },
	{ "slice of IPv6",
	  "{'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', 'addressType': 'IPv6', "
	  "'metadata':"
	  "{'name': 'a', 'namespace': 'x', 'labels': {'kubernetes.io/service-name': 's'}},"
	  "'endpoints': [{'addresses': ['fd00::1']}], " HTTP "}",
	  "fd00::1:8080/tcp http ready serving" },
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
	{ "endpoints of both families",
	  "{" ENDPOINTS ", 'subsets': [{'addresses': [{'ip': 'fd00::1'}, {'ip': '10.1.0.1'}], " HTTP
	  "}]}",
	  "10.1.0.1:8080/tcp http ready serving; fd00::1:8080/tcp http ready serving" },
	{ "endpoints, no subset", "{" ENDPOINTS ", 'subsets': null}", "" },
};

START_TEST(test_good)
{
	struct mk_error err = { 0 };
	struct line line = { 0 };

	ck_assert_msg(apply_text(model, good[_i].object, &err) == 0, "%s: %s", good[_i].name,
		      err.text);
	summarize(&line);
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
	{ "range of Service addresses without a prefix",
	  "{'apiVersion': 'networking.k8s.io/v1', 'kind': 'ServiceCIDR', 'metadata': {'name': "
	  "'a'}, "
	  "'spec': {'cidrs': ['10.96.0.0']}}",
	  "ServiceCIDR a: spec.cidrs[0]: value" },
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
	{ "node, taint", "{" NODE ", 'spec': {'taints': ['a']}}",
	  "Node n: spec.taints[0]: value \"a\", expected an object" },
	{ "health check port", "{" SERVICE ", 'spec': {'healthCheckNodePort': 65536}}",
	  "Service x/s: spec.healthCheckNodePort: value 65536, expected a number" },
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
	{ "target port", "{" SERVICE ", 'spec': {'ports': [{'port': 80, 'targetPort': 65536}]}}",
	  "Service x/s: spec.ports[0].targetPort: value 65536, expected a number" },
	{ "selector", "{" SERVICE ", 'spec': {'selector': {'app': ['x']}}}",
	  "Service x/s: spec.selector.app: value a list, expected a text" },
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
	{ "source range that is none",
	  "{" SERVICE ", 'spec': {'loadBalancerSourceRanges': ['192.0.2.0/24', '192.0.2.1']}}",
	  "Service x/s: spec.loadBalancerSourceRanges[1]: value \"192.0.2.1\", expected a range "
	  "such "
	  "as 192.0.2.0/24" },
	{ "source range of blanks", "{" SERVICE ", 'spec': {'loadBalancerSourceRanges': ['  ']}}",
	  "spec.loadBalancerSourceRanges[0]: value \"  \"" },
	{ "source range too long",
	  "{" SERVICE ", 'spec': {'loadBalancerSourceRanges': ['10.0.0.0/8-----------------------"
	  "--------------------------------']}}",
	  "spec.loadBalancerSourceRanges[0]" },
	{ "source range of the wrong type",
	  "{" SERVICE ", 'spec': {'loadBalancerSourceRanges': [8]}}",
	  "spec.loadBalancerSourceRanges[0]: value 8, expected a text" },
	{ "slice without type",
	  "{'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', 'metadata': {'name': "
	  "'a'}}",
	  "EndpointSlice default/a: addressType is missing" },
	{ "slice, label of the wrong type",
	  "{" SLICE_META
	  ", 'metadata': {'name': 'a', 'labels': {'kubernetes.io/service-name': 1}}}",
	  "metadata.labels.kubernetes.io/service-name: value 1, expected a text" },
	{ "slice, condition",
	  "{" SLICE("a") ", 'endpoints': [{'addresses': ['10.1.0.1'], 'conditions': {'ready': "
			 "'yes'}}], " HTTP "}",
	  "endpoints[0].conditions.ready: value \"yes\", expected true or false" },
	{ "slice, hints",
	  "{" SLICE("a") ", 'endpoints': [{'addresses': ['10.1.0.1'], 'hints': {'forZones': "
			 "['a']}}], " HTTP "}",
	  "endpoints[0].hints.forZones[0]: value \"a\", expected an object" },
};

/* A refused object changes neither the existing object nor the listener's view. */
START_TEST(test_bad)
{
	struct line before = { 0 }, after = { 0 };
	struct mk_error err = { 0 };

	apply_good_text(model, "{" SERVICE ", 'spec': {'clusterIP': '10.96.0.1', " PORT_80 "}}");
	apply_good_text(model,
			"{" SLICE("a") ", 'endpoints': [{'addresses': ['10.1.0.1']}], " HTTP "}");
	summarize_service(&before, mk_model_service(model, "x", "s"));
	summarize_endpoints(&before, model, "x", "s");
	heard[0] = '\0';
	ck_assert_msg(apply_text(model, bad[_i].object, &err) < 0, "%s", bad[_i].name);
	ck_assert_msg(strstr(err.text, bad[_i].error), "%s: no \"%s\" in \"%s\"", bad[_i].name,
		      bad[_i].error, err.text);
	summarize_service(&after, mk_model_service(model, "x", "s"));
	summarize_endpoints(&after, model, "x", "s");
	ck_assert_str_eq(before.text, after.text);
	ck_assert_str_eq(heard, "");
}
END_TEST

/* If only one address or port is unusable, the rest of the object counts, as for kube-proxy. */
static const struct {
	const char *name, *object;
	const char *expected; /* summary of node n, service x/s and its endpoints */
	const char *passed_over; /* a part of the line of the log */
} odd[] = {
#define LB_SERVICE(spec, ingress)                                                                \
	"{" SERVICE ", 'spec': {'type': 'LoadBalancer', 'clusterIP': '10.96.0.1', " spec PORT_80 \
	"}, 'status': {'loadBalancer': {'ingress': [" ingress "]}}}"
#define LB_IS "x/s LoadBalancer ip=10.96.0.1"
	{ "load balancer, link-local: as any other", LB_SERVICE("", "{'ip': '169.254.7.7'}"),
	  LB_IS " lb=169.254.7.7 :80/tcp", NULL },
	{ "load balancer, loopback (minikube tunnel)",
	  LB_SERVICE("", "{'ip': '127.0.0.1'}, {'ip': '203.0.113.2'}"),
	  LB_IS " lb=203.0.113.2 :80/tcp",
	  "Service x/s: status.loadBalancer.ingress[0].ip: value \"127.0.0.1\", expected" },
	{ "load balancer, loopback alone", LB_SERVICE("", "{'ip': '127.0.0.1'}"), LB_IS " :80/tcp",
	  "ingress[0].ip: value \"127.0.0.1\"" },
	{ "load balancer, unspecified, multicast, broadcast",
	  LB_SERVICE("", "{'ip': '0.0.0.0'}, {'ip': '224.0.0.1'}, {'ip': '255.255.255.255'}"),
	  LB_IS " :80/tcp", "ingress[2].ip: value \"255.255.255.255\"" },
	{ "load balancer, no address at all", LB_SERVICE("", "{'ip': 'x'}, {'ip': '203.0.113.2'}"),
	  LB_IS " lb=203.0.113.2 :80/tcp", "ingress[0].ip: value \"x\", expected an IP address" },
	{ "external IPs: link-local, loopback, none",
	  LB_SERVICE("'externalIPs': ['169.254.169.254', '127.0.0.1', '', '198.51.100.7'], ", ""),
	  LB_IS " external=198.51.100.7 :80/tcp",
	  "spec.externalIPs[0]: value \"169.254.169.254\", expected an address that is not "
	  "link-local; spec.externalIPs[1]: value \"127.0.0.1\"" },
	{ "cluster IP, link-local",
	  "{" SERVICE ", 'spec': {'clusterIP': '169.254.96.1', " PORT_80 "}}",
	  "x/s ClusterIP ip=169.254.96.1 :80/tcp", NULL },
	{ "node, addresses: loopback, a name, none",
	  "{" NODE ", 'status': {'addresses': [{'type': 'InternalIP', 'address': '127.0.0.1'}, "
	  "{'type': 'InternalIP', 'address': 'n1'}, {'type': 'InternalIP'}, "
	  "{'type': 'InternalIP', 'address': '192.0.2.1'}]}}",
	  "n internal=192.0.2.1 all=192.0.2.1",
	  "Node n: status.addresses[0].address: value \"127.0.0.1\"" },
	{ "node, address link-local",
	  "{" NODE ", 'status': {'addresses': [{'type': 'InternalIP', 'address': '169.254.0.1'}]}}",
	  "n internal=169.254.0.1 all=169.254.0.1", NULL },
	{ "slice, addresses: loopback, link-local, none",
	  "{" SLICE("a") ", 'endpoints': [{'addresses': ['127.0.0.1']}, {'addresses': "
			 "['169.254.169.254']}, {'addresses': ['x']}, {'addresses': "
			 "['10.1.0.1']}], " HTTP "}",
	  "10.1.0.1:8080/tcp http ready serving",
	  "EndpointSlice x/a: endpoints[0].addresses[0]: value \"127.0.0.1\"" },
	{ "slice, address of the other family",
	  "{" SLICE("a") ", 'endpoints': [{'addresses': ['fd00::1']}, {'addresses': "
			 "['10.1.0.1']}], " HTTP "}",
	  "10.1.0.1:8080/tcp http ready serving",
	  "endpoints[0].addresses[0]: value \"fd00::1\", expected an address of the slice's "
	  "addressType" },
	{ "slice of IPv6, address of IPv4, and one of IPv4 written as IPv6",
	  "{'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', 'addressType': 'IPv6', "
	  "'metadata':"
	  "{'name': 'a', 'namespace': 'x', 'labels': {'kubernetes.io/service-name': 's'}},"
	  "'endpoints': [{'addresses': ['10.1.0.1']}, {'addresses': ['::ffff:10.1.0.2']}, "
	  "{'addresses': ['fe80::1']}, {'addresses': ['::1']}, {'addresses': ['fd00::1']}], " HTTP
	  "}",
	  "fd00::1:8080/tcp http ready serving",
	  "endpoints[1].addresses[0]: value \"::ffff:10.1.0.2\", expected an address of the "
	  "slice's addressType; endpoints[2].addresses[0]: value \"fe80::1\"" },
	{ "node, two pod CIDRs of a family: the first",
	  "{" NODE ", 'spec': {'podCIDRs': ['10.244.1.0/24', 'fd00::/64', 'fd01::/64', "
	  "'10.244.2.0/24']}}",
	  "n pods=10.244.1.0/24,fd00::/64",
	  "Node n: spec.podCIDRs[2]: value \"fd01::/64\", expected one range per family; "
	  "spec.podCIDRs[3]: value \"10.244.2.0/24\"" },
	{ "external IPs of IPv6: link-local, multicast, unspecified",
	  LB_SERVICE("'externalIPs': ['fe80::1', 'ff02::1', '::', '2001:db8::7'], ", ""),
	  LB_IS " external=2001:db8::7 :80/tcp", "spec.externalIPs[0]: value \"fe80::1\"" },
	{ "slice, port 0: as without number",
	  "{" SLICE("a") ", 'endpoints': [{'addresses': ['10.1.0.1']}], 'ports': [{'name': 'a', "
			 "'port': 0}, {'name': 'b', 'port': 81}]}",
	  "10.1.0.1:81/tcp b ready serving", NULL },
	{ "slice, ports out of range (the API server takes any number)",
	  "{" SLICE("a") ", 'endpoints': [{'addresses': ['10.1.0.1']}], 'ports': [{'name': 'a', "
			 "'port': 65536}, {'name': 'b', 'port': 81}, {'name': 'c', 'port': -1}]}",
	  "10.1.0.1:81/tcp b ready serving",
	  "ports[0].port: value 65536, expected a number from 0 to 65535; ports[2].port: value "
	  "-1" },
	{ "slice, label that no Service can have",
	  "{" SLICE_META ", 'metadata': {'name': 'a', 'labels': {'kubernetes.io/service-name': "
	  "'a/b'}}, 'endpoints': [{'addresses': ['10.1.0.1']}], " HTTP "}",
	  "", "value 'a/b', expected a Service's name" },
	{ "endpoints, address missing",
	  "{" ENDPOINTS ", 'subsets': [{'addresses': [{}, {'ip': '10.1.0.1'}], " HTTP "}]}",
	  "10.1.0.1:8080/tcp http ready serving",
	  "Endpoints x/s: subsets[0].addresses[0].ip is missing, expected an IP address" },
};

/* Logged once: an equal object, which a Node sends every few minutes, is not logged again. */
START_TEST(test_odd)
{
	struct line line = { 0 };
	const char *log;

	capture_log();
	apply_good_text(model, odd[_i].object);
	apply_good_text(model, odd[_i].object);
	log = captured_log();
	summarize(&line);
	ck_assert_msg(strcmp(line.text, odd[_i].expected) == 0, "%s: got \"%s\", expected \"%s\"",
		      odd[_i].name, line.text, odd[_i].expected);
	if (!odd[_i].passed_over)
		ck_assert_msg(!*log, "%s: %s", odd[_i].name, log);
	else
		ck_assert_msg(strstr(log, odd[_i].passed_over), "%s: no \"%s\" in \"%s\"",
			      odd[_i].name, odd[_i].passed_over, log);
	ck_assert_msg(strchr(log, '\n') == strrchr(log, '\n'), "%s: more than a line: %s",
		      odd[_i].name, log);
}
END_TEST

static const char *const not_ours[] = {
	"{'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'p'}}",
	"{'apiVersion': 'crd.projectcalico.org/v1', 'kind': 'NetworkPolicy'}",
	"{'apiVersion': 'serving.knative.dev/v1', 'kind': 'Service', 'metadata': {'name': 's'}}",
	"{'apiVersion': 'v1', 'kind': 'EndpointSlice', 'metadata': {'name': 's'}}",
};

START_TEST(test_not_ours)
{
	struct mk_error err = { 0 };

	ck_assert_msg(apply_text(model, not_ours[_i], &err) == 1, "%s: %s", not_ours[_i], err.text);
	ck_assert_str_eq(heard, "");
}
END_TEST

UNIT_SUITE("model")
{
	TCase *tc = unit_case(suite, "model", setup, teardown);

	tcase_add_loop_test(tc, test_good, 0, MK_ARRAY_SIZE(good));
	tcase_add_loop_test(tc, test_bad, 0, MK_ARRAY_SIZE(bad));
	tcase_add_loop_test(tc, test_odd, 0, MK_ARRAY_SIZE(odd));
	tcase_add_loop_test(tc, test_not_ours, 0, MK_ARRAY_SIZE(not_ours));
}
