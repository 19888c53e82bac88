// SPDX-License-Identifier: Apache-2.0
/* Which objects count. */
#include "base/cleanup.h"
#include "bpf/flow.h"

#define PORT(name, proto, port, node_port) \
	"{'name': '" name "', 'protocol': '" proto "', 'port': " port ", 'nodePort': " node_port "}"
#define PORTS(list)	  "'ports': [" list "]"
#define SLICE_PORTS(list) "'ports': [" list "], "
#define AT_L		  "'endpoints': [{'addresses': ['10.244.1.3'], 'nodeName': 'node1'}]"
#define AT_R		  "'endpoints': [{'addresses': ['10.244.2.7'], 'nodeName': 'node2'}]"
#define INGRESS(list)	  "service {'status': {'loadBalancer': {'ingress': [" list "]}}}"
#define LABEL(text)	  "service {'metadata': {'labels': {" text "}}}"
#define HEADLESS_SLICE(label)                                                                   \
	"object {'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', 'addressType': " \
	"'IPv4', 'metadata': {'namespace': 'x', 'name': 'more', 'labels': "                     \
	"{'kubernetes.io/service-name': 's'" label "}}, " TCP_8080 AT_R "}"

/* clang-format off */
static const struct flow_row rows[] = {
	/* a port is (namespace/name, port name, protocol) */
	{ "the same number on TCP, UDP and SCTP: three ports",
	  { SLICE(SLICE_PORTS("{'name': 'tcp', 'protocol': 'TCP', 'port': 8001}, {'name': 'udp', 'protocol': 'UDP', 'port': 8002},"
			      "{'name': 'sctp', 'protocol': 'SCTP', 'port': 8003}") AT_L),
	    "pod tcp vip:80 = L:8001 kept", "pod udp vip:80 = L:8002 kept", "pod sctp vip:80 = L:8003 kept" } },
	{ "the same node port on TCP, UDP and SCTP: three ports",
	  { SLICE(SLICE_PORTS("{'name': 'tcp', 'protocol': 'TCP', 'port': 8001}, {'name': 'udp', 'protocol': 'UDP', 'port': 8002},"
			      "{'name': 'sctp', 'protocol': 'SCTP', 'port': 8003}") AT_L),
	    "outside tcp node:30080 = L:8001 masq", "outside udp node:30080 = L:8002 masq", "outside sctp node:30080 = L:8003 masq" } },
	{ "the same node port on TCP and UDP belongs to two Services",
	  { SPEC(PORTS(PORT("tcp", "TCP", "80", "30080"))), "endpoints L",
	    OTHER_SERVICE("x", "t", "'type': 'NodePort', 'clusterIP': '10.96.0.11', " PORTS(PORT("udp", "UDP", "80", "30080"))),
	    SLICE_OF("x", "t", "t-1", "IPv4", SLICE_PORTS("{'name': 'udp', 'protocol': 'UDP', 'port': 8080}") AT_R),
	    "outside tcp node:30080 = L masq", "outside udp node:30080 = R masq" } },
	{ "two ports are distinguished by name",
	  { SPEC(PORTS(PORT("web", "TCP", "80", "0") "," PORT("admin", "TCP", "81", "0"))),
	    SLICE(SLICE_PORTS("{'name': 'admin', 'port': 9090}, {'name': 'web', 'port': 8080}") AT_L),
	    "pod tcp vip:80 = L kept", "pod tcp vip:81 = L:9090 kept" } },
	{ "a single port may have no name",
	  { SPEC("'ports': [{'port': 80}]"), SLICE(SLICE_PORTS("{'port': 8080}") AT_L), "pod tcp vip:80 = L kept" } },
	{ "a slice that names no port the Service has gives it no endpoint",
	  { SPEC(PORTS(PORT("web", "TCP", "80", "0"))), SLICE(SLICE_PORTS("{'name': 'other', 'port': 8080}") AT_L),
	    "pod tcp vip:80 = refused" } },
	{ "a slice's port of the same name and another protocol is another port",
	  { SPEC(PORTS(PORT("dns", "UDP", "53", "0"))), SLICE(SLICE_PORTS("{'name': 'dns', 'protocol': 'TCP', 'port': 5353}") AT_L),
	    "pod udp vip:53 = refused" } },
	{ "two ports of a Service may lead to one port of the endpoint",
	  { SPEC(PORTS(PORT("a", "TCP", "80", "0") "," PORT("b", "TCP", "81", "0"))),
	    SLICE(SLICE_PORTS("{'name': 'a', 'port': 8080}, {'name': 'b', 'port': 8080}") AT_L),
	    "pod tcp vip:80 = L kept", "pod tcp vip:81 = L kept" } },
	{ "a load balancer's node port may be 0: nothing on the node, the rest serves",
	  { SPEC(PORTS(PORT("tcp", "TCP", "80", "0"))), "endpoints L",
	    "outside tcp node:30080 = untouched", "outside tcp lb:80 = L masq", "pod tcp vip:80 = L kept" } },
	{ "a load balancer without the field nodePort",
	  { SPEC("'allocateLoadBalancerNodePorts': false, 'ports': [{'name': 'tcp', 'port': 80}]"), "endpoints L",
	    "outside tcp node:30080 = untouched", "outside tcp lb:80 = L masq" } },
	{ "a port that is taken off a Service is refused",
	  { SPEC(PORTS(PORT("tcp", "TCP", "80", "0") "," PORT("udp", "UDP", "80", "0"))), "endpoints L", "pod udp vip:80 = L kept",
	    SPEC(PORTS(PORT("tcp", "TCP", "80", "0"))), "pod udp vip:80 = refused", "pod tcp vip:80 = L kept" } },
	{ "a port whose number changes",
	  { SPEC(PORTS(PORT("tcp", "TCP", "80", "30080"))), "endpoints L", "pod tcp vip:80 = L kept",
	    SPEC(PORTS(PORT("tcp", "TCP", "81", "30080"))), "pod tcp vip:80 = refused", "pod tcp vip:81 = L kept",
	    "outside tcp lb:81 = L masq", "outside tcp lb:80 = refused" } },
	{ "a port whose node port changes",
	  { SPEC(PORTS(PORT("tcp", "TCP", "80", "30080"))), "endpoints L", "outside tcp node:30080 = L masq",
	    SPEC(PORTS(PORT("tcp", "TCP", "80", "30081"))), "outside tcp node:30080 = untouched", "outside tcp node:30081 = L masq" } },
	{ "a port whose protocol changes",
	  { SPEC(PORTS(PORT("tcp", "TCP", "80", "30080"))), "endpoints L", "outside tcp node:30080 = L masq",
	    SPEC(PORTS(PORT("udp", "UDP", "80", "30080"))), "outside tcp node:30080 = untouched", "outside udp node:30080 = L masq",
	    "pod tcp vip:80 = refused", "pod udp vip:80 = L kept" } },
	{ "a port whose name changes, and its slice's after it",
	  { SPEC(PORTS(PORT("old", "TCP", "80", "0"))), SLICE(SLICE_PORTS("{'name': 'old', 'port': 8080}") AT_L), "pod tcp vip:80 = L kept",
	    SPEC(PORTS(PORT("new", "TCP", "80", "0"))), "pod tcp vip:80 = refused",
	    SLICE(SLICE_PORTS("{'name': 'new', 'port': 8080}") AT_L), "pod tcp vip:80 = L kept" } },
	{ "named target ports: each slice has its own number",
	  { SLICE(SLICE_PORTS("{'name': 'tcp', 'port': 8001}") AT_L), SLICE_OF("x", "s", "other", "IPv4", SLICE_PORTS("{'name': 'tcp', 'port': 8002}") AT_R),
	    "pod tcp vip:80 = L:8001 R:8002 kept", "outside tcp node:30080 = L:8001 R:8002 masq" } },

	/* names and namespaces */
	{ "the same name in two namespaces: two Services",
	  { "endpoints L", OTHER_SERVICE("y", "s", "'clusterIP': '10.96.0.11', " PORTS(PORT("tcp", "TCP", "80", "0"))),
	    SLICE_OF("y", "s", "s-1", "IPv4", TCP_8080 AT_R),
	    "pod tcp vip:80 = L kept", "pod tcp 10.96.0.11:80 = R kept" } },
	{ "a slice belongs to the Service of its label, whatever its own name",
	  { OTHER_SERVICE("x", "t", "'clusterIP': '10.96.0.11', " PORTS(PORT("tcp", "TCP", "80", "0"))),
	    SLICE_OF("x", "t", "s-77", "IPv4", TCP_8080 AT_R), "pod tcp vip:80 = refused", "pod tcp 10.96.0.11:80 = R kept" } },
	{ "two Services share an externalIP, each has its port",
	  { "endpoints L", OTHER_SERVICE("x", "t", "'clusterIP': '10.96.0.11', 'externalIPs': ['198.51.100.7'], " PORTS(PORT("tcp", "TCP", "81", "0"))),
	    SLICE_OF("x", "t", "t-1", "IPv4", TCP_8080 AT_R),
	    "outside tcp ext:80 = L masq", "outside tcp ext:81 = R masq", "pod tcp ext:80 = L masq", "pod tcp ext:81 = R masq" } },
	{ "two Services want the same address and port: the first keeps it, the second gets it when it goes",
	  { "endpoints L", "pod tcp ext:80 = L masq",
	    OTHER_SERVICE("x", "t", "'clusterIP': '10.96.0.11', 'externalIPs': ['198.51.100.7'], " PORTS(PORT("tcp", "TCP", "80", "0"))),
	    SLICE_OF("x", "t", "t-1", "IPv4", TCP_8080 AT_R),
	    "pod tcp ext:80 = L masq", "pod tcp 10.96.0.11:80 = R kept", "delete service", "pod tcp ext:80 = R masq" } },

	/* order of arrival, and removal */
	{ "the Service before its slices", { "service", "pod tcp vip:80 = refused", "endpoints L", "pod tcp vip:80 = L kept" } },
	{ "the slices before their Service", { "no service", SLICE(TCP_8080 AT_R), "pod tcp vip:80 = dropped NO_ROUTE", "service", "pod tcp vip:80 = R kept", "delete service",
	    "pod tcp vip:80 = dropped NO_ROUTE", "service", "pod tcp vip:80 = R kept" } },
	{ "a Service that is deleted: ClusterIP", { "endpoints L", "pod tcp vip:80 = L kept", "delete service",
	    "pod tcp vip:80 = dropped NO_ROUTE", "host udp vip:80 = dropped NO_ROUTE", "pod ping vip = dropped NO_ROUTE" } },
	{ "a Service that is deleted: node port", { "endpoints L", "outside tcp node:30080 = L masq", "delete service", "outside tcp node:30080 = untouched" } },
	{ "a Service that is deleted: load balancer", { "endpoints L", "outside tcp lb:80 = L masq", "delete service",
	    "outside tcp lb:80 = untouched", "pod tcp lb:80 = outside" } },
	{ "a Service that is deleted: externalIP", { "endpoints L", "outside tcp ext:80 = L masq", "delete service",
	    "outside tcp ext:80 = untouched", "pod tcp ext:80 = outside" } },
	{ "a Service that is deleted and made again with another ClusterIP",
	  { "endpoints L", "pod tcp vip:80 = L kept", "delete service", SPEC("'clusterIP': '10.96.0.99'"),
	    "pod tcp vip:80 = dropped NO_ROUTE", "pod tcp 10.96.0.99:80 = L kept" } },
	{ "all slices go", { "endpoints L | R", "pod tcp vip:80 = L R kept", "endpoints none", "pod tcp vip:80 = refused", "outside tcp node:30080 = refused" } },

	/* left out: without an address */
	{ "clusterIP None: headless", { SPEC("'clusterIP': 'None'"), "endpoints L", "pod tcp vip:80 = dropped NO_ROUTE", "outside tcp node:30080 = untouched", "pod tcp lb:80 = outside" } },
	{ "clusterIP empty", { SPEC("'clusterIP': ''"), "endpoints L", "pod tcp vip:80 = dropped NO_ROUTE", "outside tcp node:30080 = untouched", "pod tcp ext:80 = outside" } },
	{ "no clusterIP", { SPEC("'clusterIP': null"), "endpoints L", "pod tcp vip:80 = dropped NO_ROUTE", "outside tcp lb:80 = untouched" } },
	{ "ExternalName, though it has a clusterIP", { SPEC("'type': 'ExternalName', 'externalName': 'x.example'"), "endpoints L",
	    "pod tcp vip:80 = dropped NO_ROUTE", "outside tcp node:30080 = untouched", "pod tcp lb:80 = outside" } },

	/* left out by label */
	{ "label service-proxy-name: another proxy's", { LABEL("'service.kubernetes.io/service-proxy-name': 'other'"), "endpoints L",
	    "pod tcp vip:80 = dropped NO_ROUTE", "outside tcp node:30080 = untouched", "pod tcp lb:80 = outside" } },
	{ "label service-proxy-name with an empty value counts too", { LABEL("'service.kubernetes.io/service-proxy-name': ''"), "endpoints L", "pod tcp vip:80 = dropped NO_ROUTE" } },
	{ "label service-proxy-name added later, and taken off again", { "service", "endpoints L", "pod tcp vip:80 = L kept",
	    LABEL("'service.kubernetes.io/service-proxy-name': 'other'"), "pod tcp vip:80 = dropped NO_ROUTE", "outside tcp node:30080 = untouched",
	    "service", "pod tcp vip:80 = L kept", "outside tcp node:30080 = L masq" } },
	{ "any other label is ignored", { LABEL("'service.kubernetes.io/other': '', 'a': 'b'"), "endpoints L", "pod tcp vip:80 = L kept" } },
	{ "label headless on a Service, added later, and taken off again", { "service", "endpoints L", "pod tcp vip:80 = L kept", LABEL("'service.kubernetes.io/headless': ''"),
	    "pod tcp vip:80 = dropped NO_ROUTE", "outside tcp node:30080 = untouched", "service", "pod tcp vip:80 = L kept", "outside tcp node:30080 = L masq" } },
	{ "label service-proxy-name on a slice: another proxy's", { "endpoints L", HEADLESS_SLICE(", 'service.kubernetes.io/service-proxy-name': 'other'"), "pod tcp vip:80 = L kept" } },
	{ "label headless: not a slice for proxies", { "endpoints L", HEADLESS_SLICE(", 'service.kubernetes.io/headless': ''"), "pod tcp vip:80 = L kept" } },
	{ "label headless added later, and taken off again", { "endpoints L", HEADLESS_SLICE(""), "pod tcp vip:80 = L R kept",
	    HEADLESS_SLICE(", 'service.kubernetes.io/headless': ''"), "pod tcp vip:80 = L kept", HEADLESS_SLICE(""), "pod tcp vip:80 = L R kept" } },

	/* families */
	{ "clusterIPs: the one of our family, as the second", { SPEC("'clusterIP': 'fd00::10', 'clusterIPs': ['fd00::10', '10.96.0.20'], 'ipFamilies': ['IPv6', 'IPv4']"), "endpoints L",
	    "pod tcp 10.96.0.20:80 = L kept", "pod tcp vip:80 = dropped NO_ROUTE" } },
	{ "clusterIPs: the one of our family, as the first", { SPEC("'clusterIPs': ['10.96.0.10', 'fd00::10'], 'ipFamilies': ['IPv4', 'IPv6']"), "endpoints L", "pod tcp vip:80 = L kept" } },
	{ "ipFamilies empty: one address", { SPEC("'ipFamilies': [], 'clusterIPs': []"), "endpoints L", "pod tcp vip:80 = L kept" } },
	{ "a Service of the other family only: left out", { SPEC("'clusterIP': 'fd00::10', 'clusterIPs': ['fd00::10'], 'ipFamilies': ['IPv6']"), "endpoints L",
	    "outside tcp node:30080 = untouched", "pod tcp lb:80 = outside" } },
	{ "an externalIP of the other family is passed over", { SPEC("'externalIPs': ['2001:db8::7', '198.51.100.8']"), "endpoints L", "outside tcp 198.51.100.8:80 = L masq", "outside tcp ext:80 = untouched" } },

	/* load-balancer ingress */
	{ "ingress with only a hostname: ignored", { INGRESS("{'hostname': 'lb.example'}"), "endpoints L", "outside tcp lb:80 = untouched", "pod tcp vip:80 = L kept", "outside tcp node:30080 = L masq" } },
	{ "ingress with a hostname and an address", { INGRESS("{'hostname': 'lb.example', 'ip': '192.0.2.80'}"), "endpoints L", "outside tcp lb:80 = L masq" } },
	{ "ingress of mode Proxy: ignored", { INGRESS("{'ip': '192.0.2.80', 'ipMode': 'Proxy'}"), "endpoints L", "outside tcp lb:80 = untouched", "pod tcp lb:80 = outside", "host tcp lb:80 = outside" } },
	{ "ingress of mode VIP", { INGRESS("{'ip': '192.0.2.80', 'ipMode': 'VIP'}"), "endpoints L", "outside tcp lb:80 = L masq", "pod tcp lb:80 = L masq" } },
	{ "ingress without a mode: VIP", { INGRESS("{'ip': '192.0.2.80'}"), "endpoints L", "outside tcp lb:80 = L masq", "host tcp lb:80 = L" } },
	{ "each ingress counts by itself", { INGRESS("{'ip': '192.0.2.80', 'ipMode': 'Proxy'}, {'ip': '192.0.2.81'}, {'hostname': 'a'}, {'ip': '192.0.2.82'}"), "endpoints L",
	    "outside tcp lb:80 = untouched", "outside tcp 192.0.2.81:80 = L masq", "outside tcp 192.0.2.82:80 = L masq" } },
	{ "an ingress of the other family is passed over", { INGRESS("{'ip': '2001:db8::1'}, {'ip': '192.0.2.80'}"), "endpoints L", "outside tcp lb:80 = L masq" } },
	{ "no ingress yet", { "service {'status': {'loadBalancer': {'ingress': []}}}", "endpoints L", "outside tcp lb:80 = untouched", "pod tcp vip:80 = L kept" } },
	{ "an ingress that comes later, and changes", { "service {'status': null}", "endpoints L", "outside tcp lb:80 = untouched", INGRESS("{'ip': '192.0.2.80'}"), "outside tcp lb:80 = L masq",
	    INGRESS("{'ip': '192.0.2.81'}"), "outside tcp lb:80 = untouched", "outside tcp 192.0.2.81:80 = L masq" } },
	{ "an ingress whose mode changes", { INGRESS("{'ip': '192.0.2.80'}"), "endpoints L", "pod tcp lb:80 = L masq", INGRESS("{'ip': '192.0.2.80', 'ipMode': 'Proxy'}"), "pod tcp lb:80 = outside",
	    INGRESS("{'ip': '192.0.2.80', 'ipMode': 'VIP'}"), "pod tcp lb:80 = L masq" } },

	{ IPV4_ONLY("a pod has no link") "an ingress that is link-local: as any other address", { INGRESS("{'ip': '169.254.7.7'}"), "endpoints L", "outside tcp 169.254.7.7:80 = L masq", "pod tcp 169.254.7.7:80 = L masq", "host tcp 169.254.7.7:80 = L",
	    "pod tcp 169.254.7.7:81 = refused", "pod tcp vip:80 = L kept" } },
	{ "an ingress that is loopback (minikube tunnel): passed over, the rest serves", { INGRESS("{'ip': '127.0.0.1'}, {'ip': '192.0.2.80'}"), "endpoints L",
	    "outside tcp lb:80 = L masq", "pod tcp vip:80 = L kept", "outside tcp node:30080 = L masq", "outside tcp ext:80 = L masq" } },

	/* externalIPs */
	{ "every externalIP answers", { SPEC("'externalIPs': ['198.51.100.7', '198.51.100.9', '198.51.100.8']"), "endpoints L", "outside tcp ext:80 = L masq", "outside tcp 198.51.100.8:80 = L masq", "outside udp 198.51.100.9:80 = L masq" } },
	{ IPV4_ONLY("a pod has no link") "an externalIP that is link-local is passed over, the rest serves", { SPEC("'externalIPs': ['169.254.169.254', '198.51.100.7']"), "endpoints L", "outside tcp ext:80 = L masq", "pod tcp vip:80 = L kept",
	    "pod tcp 169.254.169.254:80 = outside" } },
	{ "an externalIP that is taken off", { SPEC("'externalIPs': ['198.51.100.7', '198.51.100.8']"), "endpoints L", "outside tcp ext:80 = L masq", SPEC("'externalIPs': ['198.51.100.8']"),
	    "outside tcp ext:80 = untouched", "pod tcp ext:80 = outside", "outside tcp 198.51.100.8:80 = L masq" } },
	{ "externalIPs of a Service of type ClusterIP", { SPEC("'type': 'ClusterIP'"), "endpoints L", "outside tcp ext:80 = L masq", "pod tcp ext:80 = L masq" } },
	{ "an address that is both externalIP and load balancer's", { SPEC("'externalIPs': ['192.0.2.80']"), "endpoints L R", "outside tcp lb:80 = L R masq", "pod tcp lb:80 = L R masq" } },
};

const struct flow_section flows_objects = { "which objects count", rows, (int)MK_ARRAY_SIZE(rows) };

/* ---- a Service may change its type in any direction at any time ------------------------------- */

#define TO_CLUSTER_IP	 SPEC("'type': 'ClusterIP', 'externalIPs': null")
#define TO_NODE_PORT	 SPEC("'type': 'NodePort', 'externalIPs': null")
#define TO_LOAD_BALANCER SPEC("'type': 'LoadBalancer', 'externalIPs': null")
#define TO_EXTERNAL_NAME SPEC("'type': 'ExternalName', 'externalName': 'x.example', 'externalIPs': null")
#define TO_HEADLESS	 SPEC("'type': 'ClusterIP', 'clusterIP': 'None', 'externalIPs': null")

#define IS_CLUSTER_IP	 "pod tcp vip:80 = L kept", "outside tcp node:30080 = untouched", "outside tcp lb:80 = untouched"
#define IS_NODE_PORT	 "pod tcp vip:80 = L kept", "outside tcp node:30080 = L masq", "outside tcp lb:80 = untouched"
#define IS_LOAD_BALANCER "pod tcp vip:80 = L kept", "outside tcp node:30080 = L masq", "outside tcp lb:80 = L masq"
#define IS_NOTHING	 "pod tcp vip:80 = dropped NO_ROUTE", "outside tcp node:30080 = untouched", "outside tcp lb:80 = untouched"
#define IS_EXTERNAL_NAME IS_NOTHING
#define IS_HEADLESS	 IS_NOTHING
#define CHANGE(title, from, to) { title, { TO_##from, "endpoints L", IS_##from, TO_##to, IS_##to } }

static const struct flow_row types[] = {
	CHANGE("ClusterIP becomes NodePort", CLUSTER_IP, NODE_PORT),
	CHANGE("ClusterIP becomes LoadBalancer", CLUSTER_IP, LOAD_BALANCER),
	CHANGE("ClusterIP becomes ExternalName", CLUSTER_IP, EXTERNAL_NAME),
	CHANGE("ClusterIP becomes headless", CLUSTER_IP, HEADLESS),
	CHANGE("NodePort becomes ClusterIP", NODE_PORT, CLUSTER_IP),
	CHANGE("NodePort becomes LoadBalancer", NODE_PORT, LOAD_BALANCER),
	CHANGE("NodePort becomes ExternalName", NODE_PORT, EXTERNAL_NAME),
	CHANGE("NodePort becomes headless", NODE_PORT, HEADLESS),
	CHANGE("LoadBalancer becomes ClusterIP", LOAD_BALANCER, CLUSTER_IP),
	CHANGE("LoadBalancer becomes NodePort", LOAD_BALANCER, NODE_PORT),
	CHANGE("LoadBalancer becomes ExternalName", LOAD_BALANCER, EXTERNAL_NAME),
	CHANGE("LoadBalancer becomes headless", LOAD_BALANCER, HEADLESS),
	CHANGE("ExternalName becomes ClusterIP", EXTERNAL_NAME, CLUSTER_IP),
	CHANGE("ExternalName becomes NodePort", EXTERNAL_NAME, NODE_PORT),
	CHANGE("ExternalName becomes LoadBalancer", EXTERNAL_NAME, LOAD_BALANCER),
	CHANGE("headless becomes ClusterIP", HEADLESS, CLUSTER_IP),
	CHANGE("headless becomes NodePort", HEADLESS, NODE_PORT),
	CHANGE("headless becomes LoadBalancer", HEADLESS, LOAD_BALANCER),
};
/* clang-format on */

const struct flow_section flows_types = { "a Service changes its type", types,
					  (int)MK_ARRAY_SIZE(types) };
