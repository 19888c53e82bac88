// SPDX-License-Identifier: Apache-2.0
/* kube-proxy's own unit tests, case by case (Kubernetes, pkg/proxy). A row is named after its test
 * and case there. A table in test/SERVICES.md shows where the other cases are tested. Addresses are
 * ours. Local endpoints are L and K, remote ones are R, S and T, and this node is in zone a. */
#include "base/cleanup.h"
#include "bpf/flow.h"

#define SILENT "dropped NO_LOCAL_BACKEND"
#define BOTH_LOCAL                               \
	SPEC("'externalTrafficPolicy': 'Local'," \
	     "'internalTrafficPolicy': 'Local'")
#define INTERNAL_ONLY "'type': 'ClusterIP', 'externalIPs': null, "
#define PORTS(list)   "'ports': [" list "]"
#define PORT(name, proto, port, node_port) \
	"{'name': '" name "', 'protocol': '" proto "', 'port': " port ", 'nodePort': " node_port "}"
#define NODE1(labels)                                                                          \
	"object {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'node1', 'labels': " \
	"{" labels "}}, 'spec': {'podCIDR': '10.244.1.0/24', 'podCIDRs': ['10.244.1.0/24']}, " \
	"'status': {'addresses': [{'type': 'InternalIP', 'address': '192.168.99.11'}]}}"
#define NODE_RANGES                                                                       \
	"service {'spec': {'loadBalancerSourceRanges': ['192.168.99.0/24', ' 203.0.113."  \
	"0/25']}, 'status': {'loadBalancer': {'ingress': [{'ip': '192.0.2.80'}, {'ip': '" \
	"192.0.2.81'}]}}}"
#define SLICE_PORT(port)                                                                       \
	SLICE("'ports': [{'name': 'udp', 'protocol': 'UDP', 'port': " port "}], 'endpoints': " \
	      "[{'addresses': ['10.244.2.7'], 'nodeName': 'node2'}]")
#define INGRESS(list) "service {'status': {'loadBalancer': {'ingress': [" list "]}}}"

/* clang-format off */
static const struct flow_row rows[] = {
	/* topology_test.go */
	{ "TestCategorizeEndpoints: should use topology since all endpoints have hints", { "endpoints R@a S@b T@c L@a", "pod tcp vip:80 = R L kept" } },
	{ "TestCategorizeEndpoints: externalTrafficPolicy: Local, topology ignored for Local endpoints", { EXTERNAL_LOCAL, "endpoints L@a K@b S@c T@a", "pod tcp vip:80 = L T kept", "outside tcp node:30080 = L K kept" } },
	{ "TestCategorizeEndpoints: internalTrafficPolicy: Local, topology ignored for Local endpoints", { INTERNAL_LOCAL, "endpoints L@a K@b S@c T@a", "pod tcp vip:80 = L K kept", "outside tcp node:30080 = L T masq" } },
	{ "TestCategorizeEndpoints: empty node labels", { NODE1(""), "service", "endpoints R@a", "pod tcp vip:80 = R kept" } },
	{ "TestCategorizeEndpoints: empty zone label", { NODE1("'topology.kubernetes.io/zone': ''"), "service", "endpoints R@a", "pod tcp vip:80 = R kept" } },
	{ "TestCategorizeEndpoints: node in different zone, no endpoint filtering", { "endpoints R@b", "pod tcp vip:80 = R kept" } },
	{ "TestCategorizeEndpoints: unready endpoint", { "endpoints R@a S@b T@c Ln@a", "pod tcp vip:80 = R kept" } },
	{ "TestCategorizeEndpoints: only unready endpoints in same zone", { "endpoints Rn@a S@b T@c Ln@a", "pod tcp vip:80 = S T kept" } },
	{ "TestCategorizeEndpoints: missing hints, no filtering applied", { "endpoints R@a S@b T L@a", "pod tcp vip:80 = R S T L kept" } },
	{ "TestCategorizeEndpoints: multiple hints per endpoint", { "endpoints R@cba S@ba T@bd L@a", "pod tcp vip:80 = R S L kept" } },
	{ "TestCategorizeEndpoints: PreferSameNode available", { "endpoints R@a#1 S@b#2 T@c#3 L@a#4", "pod tcp vip:80 = R kept" } },
	{ "TestCategorizeEndpoints: PreferSameNode ignored if some endpoints unhinted", { "endpoints R@a#1 S T@c#3 L@a#4", "pod tcp vip:80 = R S T L kept" } },
	{ "TestCategorizeEndpoints: PreferSameNode falls back to PreferSameZone if no endpoint for node", { "endpoints R@a#5 S@b#2 T@c#3 L@a#4", "pod tcp vip:80 = R L kept" } },
	{ "TestCategorizeEndpoints: conflicting topology and localness", { EXTERNAL_LOCAL, "endpoints L@a K@b R@a S@b", "pod tcp vip:80 = L R kept", "outside tcp node:30080 = L K kept" } },
	{ "TestCategorizeEndpoints: internalTrafficPolicy: Local, with empty endpoints", { INTERNAL_LOCAL, "endpoints", "pod tcp vip:80 = refused" } },
	{ "TestCategorizeEndpoints: internalTrafficPolicy: Local, but all endpoints are remote", { INTERNAL_LOCAL, "endpoints R S", "pod tcp vip:80 = " SILENT } },
	{ "TestCategorizeEndpoints: internalTrafficPolicy: Local, all endpoints are local", { INTERNAL_LOCAL, "endpoints L K", "pod tcp vip:80 = L K kept" } },
	{ "TestCategorizeEndpoints: internalTrafficPolicy: Local, some endpoints are local", { INTERNAL_LOCAL, "endpoints L R", "pod tcp vip:80 = L kept" } },
	{ "TestCategorizeEndpoints: Cluster traffic policy, endpoints not Ready", { "endpoints Rn Sn", "pod tcp vip:80 = refused" } },
	{ "TestCategorizeEndpoints: Cluster traffic policy, some endpoints are Ready", { "endpoints Rn S", "pod tcp vip:80 = S kept" } },
	{ "TestCategorizeEndpoints: Cluster traffic policy, all endpoints are terminating", { "endpoints Lt Rt", "pod tcp vip:80 = L R kept" } },
	{ "TestCategorizeEndpoints: iTP: Local, eTP: Cluster, some endpoints local", { INTERNAL_LOCAL, "endpoints L R", "pod tcp vip:80 = L kept", "outside tcp node:30080 = L R masq" } },
	{ "TestCategorizeEndpoints: iTP: Cluster, eTP: Local, some endpoints local", { EXTERNAL_LOCAL, "endpoints L R", "pod tcp vip:80 = L R kept", "outside tcp node:30080 = L kept" } },
	{ "TestCategorizeEndpoints: iTP: Local, eTP: Local, some endpoints local", { BOTH_LOCAL, "endpoints L R", "pod tcp vip:80 = L kept", "outside tcp node:30080 = L kept", "pod tcp node:30080 = L R kept" } },
	{ "TestCategorizeEndpoints: iTP: Local, eTP: Local, all endpoints remote", { BOTH_LOCAL, "endpoints R S", "pod tcp vip:80 = " SILENT, "outside tcp node:30080 = " SILENT, "pod tcp node:30080 = R S kept" } },
	{ "TestCategorizeEndpoints: iTP: Local, eTP: Local, all endpoints remote and terminating", { BOTH_LOCAL, "endpoints Rt St", "pod tcp vip:80 = " SILENT, "outside tcp node:30080 = " SILENT, "pod tcp node:30080 = R S kept" } },
	{ "TestCategorizeEndpoints: iTP: Cluster, eTP: Local, with terminating endpoints", { EXTERNAL_LOCAL, "endpoints R Ln Kt St", "pod tcp vip:80 = R kept", "outside tcp node:30080 = K kept" } },
	{ "TestCategorizeEndpoints: externalTrafficPolicy ignored if not externally accessible", { SPEC(INTERNAL_ONLY "'externalTrafficPolicy': 'Local'"), "endpoints R L", "pod tcp vip:80 = R L kept" } },
	{ "TestCategorizeEndpoints: no cluster endpoints for iTP:Local internal-only service", { SPEC(INTERNAL_ONLY "'internalTrafficPolicy': 'Local'"), "endpoints R L", "pod tcp vip:80 = L kept" } },

	/* nftables/proxier_test.go */
	{ "TestOverallNFTablesRules: svc1, ClusterIP", { SPEC(INTERNAL_ONLY PORTS(PORT("tcp", "TCP", "80", "0"))), "endpoints R?", "pod tcp vip:80 = R kept", "outside tcp vip:80 = R masq" } },
	{ "TestOverallNFTablesRules: svc2, Local load balancer whose endpoint names no node", { EXTERNAL_LOCAL, "endpoints R?", "pod tcp vip:80 = R kept", "outside tcp vip:80 = R masq", "pod tcp ext:80 = R kept", "pod tcp lb:80 = R kept",
	    "host tcp lb:80 = R", "outside tcp ext:80 = " SILENT, "outside tcp lb:80 = " SILENT, "outside tcp node:30080 = " SILENT } },
	{ "TestOverallNFTablesRules: svc3, NodePort", { SPEC("'type': 'NodePort', 'externalIPs': null"), "endpoints R?", "outside tcp node:30080 = R masq", "pod tcp vip:80 = R kept" } },
	{ "TestOverallNFTablesRules: svc4, externalIP without a node port", { SPEC("'type': 'NodePort', " PORTS(PORT("tcp", "TCP", "80", "0"))), "endpoints R? L", "outside tcp ext:80 = R L masq", "outside tcp node:30080 = untouched" } },
	{ "TestOverallNFTablesRules: svc5, source ranges and affinity", { SPEC("'loadBalancerSourceRanges': [' 203.0.113.0/25'], 'sessionAffinity': 'ClientIP', 'sessionAffinityConfig': {'clientIP': {'timeoutSeconds': 10800}}"), "endpoints R?",
	    "outside tcp lb:80 = R masq", "outside@203.0.113.130 tcp lb:80 = dropped SOURCE_RANGE", "pod tcp lb:80 = dropped SOURCE_RANGE", "outside@203.0.113.130 tcp node:30080 = R masq", "pod tcp vip:80 = R kept" } },
	{ "TestOverallNFTablesRules: svc6, no endpoints", { SPEC(INTERNAL_ONLY PORTS(PORT("tcp", "TCP", "80", "0"))), "pod tcp vip:80 = refused" } },
	{ "TestNoEndpointsReject", { "endpoints none", "pod tcp vip:80 = refused", "outside tcp ext:80 = refused", "pod tcp node:30080 = refused", "outside tcp node:30080 = refused", "pod tcp lb:80 = refused", "outside tcp lb:80 = refused" } },
	{ "TestClusterIPGeneral: simple, hairpin", { "endpoints P", "pod@10.244.1.3 tcp vip:80 = P kept", "self tcp vip:80 = P masq" } },
	{ "TestClusterIPGeneral: multiple endpoints, TargetPort, TCP, UDP, and SCTP on same port",
	  { SPEC(INTERNAL_ONLY PORTS(PORT("http", "TCP", "80", "0") "," PORT("https", "TCP", "443", "0") "," PORT("dns-udp", "UDP", "53", "0") "," PORT("dns-tcp", "TCP", "53", "0") "," PORT("dns-sctp", "SCTP", "53", "0"))),
	    SLICE("'ports': [{'name': 'http', 'port': 80}, {'name': 'https', 'port': 8443}, {'name': 'dns-udp', 'protocol': 'UDP', 'port': 53}, {'name': 'dns-tcp', 'port': 5353}, {'name': 'dns-sctp', 'protocol': 'SCTP', 'port': 53}], "
		  "'endpoints': [{'addresses': ['10.244.1.3'], 'nodeName': 'node1'}, {'addresses': ['10.244.2.7'], 'nodeName': 'node2'}]"),
	    "pod tcp vip:80 = L:80 R:80 kept", "pod tcp vip:443 = L:8443 R:8443 kept", "pod tcp vip:53 = L:5353 R:5353 kept", "pod udp vip:53 = L:53 R:53 kept", "pod sctp vip:53 = L:53 R:53 kept",
	    "pod udp vip:80 = refused", "pod tcp vip:4443 = refused", "pod tcp 10.96.0.50:80 = dropped NO_ROUTE" } },
	{ "TestLoadBalancer: accepted and blocked", { NODE_RANGES, "endpoints R?", "pod tcp vip:80 = R kept", "outside tcp node:30080 = R masq", "outside@203.0.113.130 tcp node:30080 = R masq", "outside tcp lb:80 = R masq",
	    "outside tcp 192.0.2.81:80 = R masq", "outside@203.0.113.130 tcp lb:80 = dropped SOURCE_RANGE", "outside@203.0.113.130 tcp 192.0.2.81:80 = dropped SOURCE_RANGE",
	    "pod tcp lb:80 = dropped SOURCE_RANGE", "pod tcp 192.0.2.81:80 = dropped SOURCE_RANGE" } },
	{ "TestLoadBalancer: node, and SNATted to LB", { NODE_RANGES, "endpoints R?", "hostnet tcp lb:80 = R", "hostnet tcp 192.0.2.81:80 = R", "hostnet@192.0.2.80 tcp lb:80 = R", "hostnet@192.0.2.81 tcp 192.0.2.81:80 = R" } },
	{ "TestNodePorts: pod, external, node; another address of the host ignores NodePorts", { "host has 192.168.1.2", SPEC("'type': 'NodePort', 'externalIPs': null"), "endpoints R? L", "pod tcp vip:80 = R L kept", "outside tcp node:30080 = R L masq",
	    "own tcp node:30080 = R L", "outside tcp 192.168.1.2:30080 = untouched" } },
	{ "TestExternalTrafficPolicyLocal", { EXTERNAL_LOCAL, "endpoints R? L", "pod tcp vip:80 = R L kept", "pod tcp ext:80 = R L kept", "outside tcp ext:80 = L kept", "pod tcp lb:80 = R L kept", "outside tcp lb:80 = L kept",
	    "pod tcp node:30080 = R L kept", "outside tcp node:30080 = L kept" } },
	{ "TestExternalTrafficPolicyCluster", { SPEC("'externalTrafficPolicy': 'Cluster'"), "endpoints R? L", "pod tcp vip:80 = R L kept", "pod tcp ext:80 = R L masq", "outside tcp ext:80 = R L masq", "pod tcp lb:80 = R L masq",
	    "outside tcp lb:80 = R L masq", "pod tcp node:30080 = R L masq", "outside tcp node:30080 = R L masq" } },
	{ "TestUpdateEndpointsMap: no change; add and remove an Endpoints", { "endpoints L", "pod udp vip:80 = L kept", "endpoints L", "pod udp vip:80 = L kept", "endpoints none", "pod udp vip:80 = refused", "endpoints L", "pod udp vip:80 = L kept" } },
	{ "TestUpdateEndpointsMap: add and remove an IP; a subset", { "endpoints R", "pod udp vip:80 = R kept", "endpoints R L", "pod udp vip:80 = R L kept", "endpoints R", "pod udp vip:80 = R kept", "endpoints R | L", "pod udp vip:80 = R L kept", "endpoints R", "pod udp vip:80 = R kept" } },
	{ "TestUpdateEndpointsMap: rename and renumber a port", { SLICE("'ports': [{'name': 'tcp', 'port': 11}], 'endpoints': [{'addresses': ['10.244.2.7']}]"), "pod tcp vip:80 = R:11 kept",
	    SLICE("'ports': [{'name': 'tcp', 'port': 22}], 'endpoints': [{'addresses': ['10.244.2.7']}]"), "pod tcp vip:80 = R:22 kept",
	    SLICE("'ports': [{'name': 'tcp-2', 'port': 22}], 'endpoints': [{'addresses': ['10.244.2.7']}]"), "pod tcp vip:80 = refused" } },
	{ "TestUpdateEndpointsMap: complex add and remove", { "endpoints R L | K", "pod tcp vip:80 = R L K kept", "endpoints S T | R", "pod tcp vip:80 = S T R kept", "endpoints S", "pod tcp vip:80 = S kept" } },
	{ "TestUpdateEndpointsMap: from none to an unnamed port, terminating, none", { SPEC(PORTS("{'port': 80}")), SLICE("'ports': [{'port': 11}], 'endpoints': []"), "pod tcp vip:80 = refused",
	    SLICE("'ports': [{'port': 11}], 'endpoints': [{'addresses': ['10.244.2.7']}]"), "pod tcp vip:80 = R:11 kept",
	    SLICE("'ports': [{'port': 11}], 'endpoints': [{'addresses': ['10.244.2.7'], 'conditions': {'ready': false, 'serving': true, 'terminating': true}}]"), "pod tcp vip:80 = R:11 kept",
	    SLICE("'ports': [{'port': 11}], 'endpoints': []"), "pod tcp vip:80 = refused" } },
	{ "TestInternalTrafficPolicy: cluster", { SPEC(INTERNAL_ONLY "'internalTrafficPolicy': 'Cluster'"), "endpoints L R T", "pod tcp vip:80 = L R T kept", "endpoints none", "pod tcp vip:80 = refused" } },
	{ "TestInternalTrafficPolicy: local and there is one local endpoint", { SPEC(INTERNAL_ONLY "'internalTrafficPolicy': 'Local'"), "endpoints L R T", "pod tcp vip:80 = L kept", "endpoints none", "pod tcp vip:80 = refused" } },
	{ "TestInternalTrafficPolicy: local and there are multiple local endpoints", { SPEC(INTERNAL_ONLY "'internalTrafficPolicy': 'Local'"), "endpoints L K T", "pod tcp vip:80 = L K kept", "endpoints none", "pod tcp vip:80 = refused" } },
	{ "TestInternalTrafficPolicy: local and there are no local endpoints", { SPEC(INTERNAL_ONLY "'internalTrafficPolicy': 'Local'"), "endpoints S R T", "pod tcp vip:80 = " SILENT, "endpoints none", "pod tcp vip:80 = refused" } },
	{ "TestTerminatingEndpointsTrafficPolicyLocal: ready endpoints exist", { EXTERNAL_LOCAL, "endpoints L K Pt Hg R", "pod tcp vip:80 = L K R kept", "outside tcp lb:80 = L K kept", "endpoints none", "pod tcp vip:80 = refused", "outside tcp lb:80 = refused" } },
	{ "TestTerminatingEndpointsTrafficPolicyLocal: only terminating endpoints exist", { EXTERNAL_LOCAL, "endpoints Kt Lt Hg R", "pod tcp vip:80 = R kept", "outside tcp lb:80 = K L kept", "endpoints none", "pod tcp vip:80 = refused", "outside tcp lb:80 = refused" } },
	{ "TestTerminatingEndpointsTrafficPolicyLocal: terminating endpoints on remote node", { EXTERNAL_LOCAL, "endpoints Rt", "pod tcp vip:80 = R kept", "outside tcp lb:80 = " SILENT, "endpoints none", "pod tcp vip:80 = refused", "outside tcp lb:80 = refused" } },
	{ "TestTerminatingEndpointsTrafficPolicyLocal: no usable endpoints on any node", { EXTERNAL_LOCAL, "endpoints Lg Rg", "pod tcp vip:80 = refused", "outside tcp lb:80 = refused" } },
	{ "TestTerminatingEndpointsTrafficPolicyCluster: ready endpoints exist", { "endpoints L K St Tg R", "pod tcp vip:80 = L K R kept", "outside tcp lb:80 = L K R masq", "endpoints none", "pod tcp vip:80 = refused", "outside tcp lb:80 = refused" } },
	{ "TestTerminatingEndpointsTrafficPolicyCluster: only terminating endpoints exist", { "endpoints Lt Kt Sg Rt", "pod tcp vip:80 = L K R kept", "outside tcp lb:80 = L K R masq" } },
	{ "TestTerminatingEndpointsTrafficPolicyCluster: terminating endpoints on remote node", { "endpoints Rt", "pod tcp vip:80 = R kept", "outside tcp lb:80 = R masq" } },
	{ "TestTerminatingEndpointsTrafficPolicyCluster: no usable endpoints on any node", { "endpoints Lg Rg", "pod tcp vip:80 = refused", "outside tcp lb:80 = refused" } },
	{ "TestInternalExternalMasquerade: svc1", { "endpoints L R", "pod tcp vip:80 = L R kept", "pod tcp node:30080 = L R masq", "pod tcp lb:80 = L R masq", "hostnet tcp vip:80 = L R", "own tcp node:30080 = L R", "hostnet tcp lb:80 = L R",
	    "outside tcp vip:80 = L R masq", "outside tcp node:30080 = L R masq", "outside tcp lb:80 = L R masq" } },
	{ "TestInternalExternalMasquerade: svc2, eTP:Local", { EXTERNAL_LOCAL, "endpoints L R", "pod tcp vip:80 = L R kept", "pod tcp node:30080 = L R kept", "pod tcp lb:80 = L R kept", "hostnet tcp vip:80 = L R", "own tcp node:30080 = L R",
	    "hostnet tcp lb:80 = L R", "outside tcp vip:80 = L R masq", "outside tcp node:30080 = L kept", "outside tcp lb:80 = L kept" } },
	{ "TestInternalExternalMasquerade: svc3, iTP:Local", { INTERNAL_LOCAL, "endpoints L R", "pod tcp vip:80 = L kept", "pod tcp node:30080 = L R masq", "pod tcp lb:80 = L R masq", "hostnet tcp vip:80 = L", "own tcp node:30080 = L R",
	    "hostnet tcp lb:80 = L R", "outside tcp vip:80 = L masq", "outside tcp node:30080 = L R masq", "outside tcp lb:80 = L R masq" } },
	{ "TestInternalExternalMasquerade: masqueradeAll, svc1", { "masquerade all", "endpoints L R", "pod tcp vip:80 = L R masq", "pod udp vip:80 = L R masq", "pod sctp vip:80 = L R masq", "hostnet tcp vip:80 = L R", "host udp vip:80 = L R",
	    "outside tcp vip:80 = L R masq", "pod tcp node:30080 = L R masq", "pod tcp lb:80 = L R masq", "own tcp node:30080 = L R", "outside tcp node:30080 = L R masq", "outside tcp lb:80 = L R masq" } },
	{ "TestInternalExternalMasquerade: masqueradeAll, svc2, eTP:Local", { EXTERNAL_LOCAL, "masquerade all", "endpoints L R", "pod tcp vip:80 = L R masq", "hostnet tcp vip:80 = L R", "outside tcp vip:80 = L R masq", "pod tcp node:30080 = L R kept",
	    "pod tcp lb:80 = L R kept", "outside tcp node:30080 = L kept", "outside tcp lb:80 = L kept" } },
	{ "TestInternalExternalMasquerade: masqueradeAll, svc3, iTP:Local", { INTERNAL_LOCAL, "masquerade all", "endpoints L R", "pod tcp vip:80 = L masq", "hostnet tcp vip:80 = L", "outside tcp vip:80 = L masq", "pod tcp node:30080 = L R masq",
	    "endpoints R", "pod tcp vip:80 = " SILENT, "endpoints none", "pod tcp vip:80 = refused" } },
	{ "masqueradeAll, switched on: open flows stay as they are, new ones are masqueraded, errors and fragments too", { "endpoints R", "open a pod tcp vip:80 = R kept", "masquerade all", "a goes on", "open b pod udp vip:80 = R masq", "b errors", "b fragments", "a goes on" } },
	{ "TestSyncProxyRulesRepeated: a Service more, one less, its endpoints later, changed, more, none, again", { "no service", OTHER_SERVICE("x", "t", "'clusterIP': '10.96.0.11', " PORTS(PORT("tcp", "TCP", "80", "0"))),
	    SLICE_OF("x", "t", "t-1", "IPv4", TCP_8080 "'endpoints': [{'addresses': ['10.244.1.3']}]"), "pod tcp 10.96.0.11:80 = L kept", "service", "pod tcp vip:80 = refused", "endpoints R", "pod tcp vip:80 = R kept",
	    "endpoints S", "pod tcp vip:80 = S kept", "endpoints S T", "pod tcp vip:80 = S T kept", "endpoints", "pod tcp vip:80 = refused" } },
	{ "TestSyncProxyRulesRepeated: emptied and restored; the other one is not touched", { OTHER_SERVICE("x", "t", "'clusterIP': '10.96.0.11', " PORTS(PORT("tcp", "TCP", "80", "0"))),
	    SLICE_OF("x", "t", "t-1", "IPv4", TCP_8080 "'endpoints': [{'addresses': ['10.244.1.3']}]"), "endpoints S T", "endpoints", "endpoints S T", "pod tcp vip:80 = S T kept", "delete service", "pod tcp vip:80 = dropped NO_ROUTE",
	    "pod tcp 10.96.0.11:80 = L kept" } },
	{ "TestLoadBalancerIngressRouteTypeProxy: ipMode Proxy", { INGRESS("{'ip': '192.0.2.80', 'ipMode': 'Proxy'}"), "endpoints R?", "outside tcp lb:80 = untouched", "pod tcp lb:80 = outside" } },
	{ "TestLoadBalancerIngressRouteTypeProxy: ipMode VIP", { INGRESS("{'ip': '192.0.2.80', 'ipMode': 'VIP'}"), "endpoints R?", "outside tcp lb:80 = R masq" } },
	{ "TestLoadBalancerIngressRouteTypeProxy: ipMode nil", { INGRESS("{'ip': '192.0.2.80'}"), "endpoints R?", "outside tcp lb:80 = R masq" } },

	{ "TestBadIPs: leading zeros, host bits, an IPv4 address in IPv6's clothes", { "service {'spec': {'clusterIP': '010.096.000.010', 'externalIPs': ['198.051.100.007', '::ffff:198.51.100.9'], 'loadBalancerSourceRanges': ['203.000.113.099/025']}, "
	    "'status': {'loadBalancer': {'ingress': [{'ip': '192.000.002.080'}]}}}", SLICE(TCP_8080 "'endpoints': [{'addresses': ['010.244.002.007']}]"), "pod tcp vip:80 = R kept", "outside tcp ext:80 = R masq",
	    "outside tcp 198.51.100.9:80 = R masq", "outside tcp lb:80 = R masq", "outside@203.0.113.130 tcp lb:80 = dropped SOURCE_RANGE" } },

	/* conntrack/cleanup_test.go */
	{ "TestCleanStaleEntries: UDP to an endpoint that is gone is cut by every address", { "endpoints S", "open a pod udp vip:80 = S kept", "open b outside udp lb:80 = S masq", "open c outside udp ext:80 = S masq", "open d outside udp node:30080 = S masq",
	    "endpoints Ln R", "sweep", "a now R kept", "b now R masq", "c now R masq", "d now R masq" } },
	{ "TestCleanStaleEntries: TCP and SCTP to an endpoint that is gone stay", { "endpoints S", "open a pod tcp vip:80 = S kept", "open b outside tcp lb:80 = S masq", "open c outside sctp ext:80 = S masq", "open d outside sctp node:30080 = S masq",
	    "endpoints Ln R", "sweep", "a goes on", "b goes on", "c goes on", "d goes on" } },
	{ "TestCleanStaleEntries: UDP to an endpoint that does not serve is cut, TCP and SCTP stay", { "endpoints S", "open a pod udp vip:80 = S kept", "open b outside udp node:30080 = S masq", "open e pod tcp vip:80 = S kept", "open f outside sctp node:30080 = S masq",
	    "endpoints Sn R", "sweep", "a now R kept", "b now R masq", "e goes on", "f goes on" } },
	{ "TestCleanStaleEntries: an endpoint that changes its port", { SLICE_PORT("8080"), "open a pod udp vip:80 = R kept", "open b outside udp lb:80 = R masq", SLICE_PORT("9090"), "sweep", "a now R:9090 kept", "b now R:9090 masq" } },
	{ "TestServiceWithoutEndpoints: its entries stay", { "endpoints R", "open a pod udp vip:80 = R kept", "open b outside udp lb:80 = R masq", "endpoints Rn", "sweep", "a goes on", "b goes on", "endpoints none", "sweep", "a goes on" } },

	/* endpointslicecache_test.go, endpointschangetracker_test.go */
	{ "TestEndpointsMapFromESC: 1 slice, 2 hosts, ports 80,443", { SPEC(PORTS(PORT("port-0", "TCP", "80", "0") "," PORT("port-1", "TCP", "443", "0"))),
	    SLICE("'ports': [{'name': 'port-0', 'port': 80}, {'name': 'port-1', 'port': 443}], 'endpoints': [{'addresses': ['10.244.1.3'], 'nodeName': 'node1'}, {'addresses': ['10.244.2.7'], 'nodeName': 'node2'}]"),
	    "pod tcp vip:80 = L:80 R:80 kept", "pod tcp vip:443 = L:443 R:443 kept" } },
	{ "TestEndpointsMapFromESC: 2 slices, same port", { "endpoints L K | R S T", "pod tcp vip:80 = L K R S T kept" } },
	{ "TestEndpointsMapFromESC: 2 overlapping slices, same port", { "endpoints L R S | L R S T", "pod tcp vip:80 = L R S T kept" } },
	{ "TestEndpointsMapFromESC: 2 slices, overlapping endpoints, all unready", { "endpoints Ln Rn | Ln Rn", "pod tcp vip:80 = refused" } },
	{ "TestEndpointsMapFromESC: 3 slices with different services and namespaces", { "endpoints L", SLICE_OF("x", "t", "t-1", "IPv4", TCP_8080 "'endpoints': [{'addresses': ['10.244.2.7']}]"),
	    SLICE_OF("y", "s", "s-1", "IPv4", TCP_8080 "'endpoints': [{'addresses': ['10.244.2.8']}]"), "pod tcp vip:80 = L kept" } },
	{ "TestEndpointsMapFromESC: Nil port should not break anything", { SLICE("'ports': [{'name': 'tcp', 'port': null}], 'endpoints': [{'addresses': ['10.244.1.3']}]"), "pod tcp vip:80 = refused" } },
	{ "TestEndpointsMapFromESC: Different endpoints with duplicate IPs should not be filtered", { SLICE_OF("x", "s", "a", "IPv4", "'ports': [{'name': 'tcp', 'port': 80}], 'endpoints': [{'addresses': ['10.244.1.3']}, {'addresses': ['10.244.2.7']}]"),
	    SLICE_OF("x", "s", "b", "IPv4", TCP_8080 "'endpoints': [{'addresses': ['10.244.1.3']}, {'addresses': ['10.244.2.7']}]"), "pod tcp vip:80 = L:80 R:80 L R kept" } },
	{ "TestEsDataChanged: a port goes and comes; the order does not matter", { SPEC(PORTS(PORT("http", "TCP", "80", "0") "," PORT("https", "TCP", "443", "0"))),
	    SLICE("'ports': [{'name': 'https', 'port': 443}, {'name': 'http', 'port': 80}], 'endpoints': [{'addresses': ['10.244.1.3']}]"), "pod tcp vip:80 = L:80 kept",
	    SLICE("'ports': [{'name': 'https', 'port': 443}], 'endpoints': [{'addresses': ['10.244.1.3']}]"), "pod tcp vip:80 = refused", "pod tcp vip:443 = L:443 kept",
	    SLICE("'ports': [{'name': 'http', 'port': 80}, {'name': 'https', 'port': 443}], 'endpoints': [{'addresses': ['10.244.1.3']}]"), "pod tcp vip:80 = L:80 kept", "pod tcp vip:443 = L:443 kept" } },

	{ "TestEndpointSliceUpdate: a slice that is there already; one of FQDN", { "endpoints L R", "pod tcp vip:80 = L R kept", "endpoints L R", SLICE_OF("x", "s", "fqdn", "FQDN", TCP_8080 "'endpoints': [{'addresses': ['a.example']}]"), "pod tcp vip:80 = L R kept" } },
	{ "TestEndpointSliceUpdate: additions, with overlap and without, and removals", { "endpoints L R | S", "pod tcp vip:80 = L R S kept", "endpoints L R K | S", "pod tcp vip:80 = L R K S kept", "endpoints L R K | S | T", "pod tcp vip:80 = L R K S T kept",
	    "endpoints L R K | S", "pod tcp vip:80 = L R K S kept", "endpoints L R K", "pod tcp vip:80 = L R K kept" } },
	{ "TestEndpointSliceUpdate: endpoints unready, terminating, in two slices", { "endpoints Ln R | Kn S", "pod tcp vip:80 = R S kept", "endpoints Lt Rt | Kn Sg", "pod tcp vip:80 = L R kept", "endpoints Lt R | Kn Sg", "pod tcp vip:80 = R kept" } },

	/* servicechangetracker_test.go; its cases about types are in flows_objects.c */
	{ "TestServiceToServiceMap: headless sctp service", { SPEC("'type': 'ClusterIP', 'externalIPs': null, 'clusterIP': 'None', " PORTS("{'name': 'sip', 'protocol': 'SCTP', 'port': 7777}")), "endpoints L", "pod sctp vip:7777 = dropped NO_ROUTE" } },
	{ "TestServiceToServiceMap: headless service without port", { SPEC("'type': 'ClusterIP', 'externalIPs': null, 'clusterIP': 'None', 'ports': null"), "endpoints L", "pod tcp vip:80 = dropped NO_ROUTE" } },
	{ "TestServiceToServiceMap: nodeport service", { SPEC("'type': 'NodePort', 'externalIPs': null, " PORTS(PORT("udp", "UDP", "345", "30678") "," PORT("tcp", "TCP", "344", "30677"))), "endpoints L", "pod udp vip:345 = L kept",
	    "pod tcp vip:344 = L kept", "outside udp node:30678 = L masq", "outside tcp node:30677 = L masq" } },
	{ "TestServiceToServiceMap: ipv6 clusterIP under ipv4 mode", { SPEC("'clusterIP': '2001:db8:85a3::8a2e:370:7334'"), "endpoints L", "outside tcp lb:80 = untouched", "pod tcp ext:80 = outside" } },
	{ "TestServiceToServiceMap: both ipv4 and ipv6 configurations under ipv4 mode", { "service {'spec': {'externalIPs': ['198.51.100.7', '2001:db8::7'], 'loadBalancerSourceRanges': ['0.0.0.0/1', '2001:db8::/32']}, 'status': "
	    "{'loadBalancer': {'ingress': [{'ip': '192.0.2.80'}, {'ip': '2001:db8::8'}]}}}", "endpoints L", "outside tcp ext:80 = L masq", "outside@126.0.0.1 tcp lb:80 = L masq", "outside tcp lb:80 = dropped SOURCE_RANGE" } },
	{ "TestServiceToServiceMap: extra space in LoadBalancerSourceRanges", { SPEC("'loadBalancerSourceRanges': [' 10.1.2.0/28']"), "endpoints L", "outside@10.1.2.15 tcp lb:80 = L masq", "outside@10.1.2.16 tcp lb:80 = dropped SOURCE_RANGE" } },

	/* test/e2e/network/service.go */
	{ "e2e: should serve endpoints on same port and different protocols", { SPEC(INTERNAL_ONLY PORTS(PORT("tcp", "TCP", "80", "0") "," PORT("udp", "UDP", "80", "0"))), "endpoints L", "pod tcp vip:80 = L kept", "pod udp vip:80 = L kept",
	    SPEC(INTERNAL_ONLY PORTS(PORT("tcp", "TCP", "80", "0"))), "pod tcp vip:80 = L kept", "pod udp vip:80 = refused", SPEC(INTERNAL_ONLY PORTS(PORT("udp", "UDP", "80", "0"))), "pod udp vip:80 = L kept", "pod tcp vip:80 = refused" } },
	{ "e2e: should be able to connect to terminating and unready endpoints if PublishNotReadyAddresses is true", { SLICE(TCP_8080 "'endpoints': [{'addresses': ['10.244.2.7'], 'conditions': {'ready': true, 'serving': false, 'terminating': true}}]"),
	    "pod tcp vip:80 = R kept", "pod tcp node:30080 = R masq", "outside tcp node:30080 = R masq" } },
	{ "e2e: should not be able to connect to terminating and unready endpoints if PublishNotReadyAddresses is false", { "endpoints Rg", "pod tcp vip:80 = refused", "pod tcp node:30080 = refused", "outside tcp node:30080 = refused" } },
	{ "e2e: should be rejected when no endpoints exist; for evicted pods: a slice without one", { "endpoints none", "pod tcp vip:80 = refused", "endpoints", "pod tcp vip:80 = refused", "hostnet tcp vip:80 = refused" } },
	{ "e2e: should be able to switch session affinity", { SPEC("'sessionAffinity': 'ClientIP'"), "endpoints L", "pod tcp vip:80 = L kept", "endpoints L R", "pod tcp vip:80 = L kept", SPEC("'sessionAffinity': 'None'"), "pod tcp vip:80 = L R kept",
	    SPEC("'sessionAffinity': 'ClientIP'"), "endpoints R", "pod tcp vip:80 = R kept", "endpoints L R", "pod tcp vip:80 = R kept", "pod tcp node:30080 = R masq" } },

	/* test/e2e/network/conntrack.go: the client keeps its port all the time */
	{ "e2e: should be able to preserve UDP traffic when server pod cycles, ClusterIP, NodePort, client in the host's network", { "endpoints R", "open a pod udp vip:80 = R kept", "open b pod udp node:30080 = R masq", "open c hostnet udp vip:80 = R",
	    "endpoints S", "sweep", "a now S kept", "b now S masq", "c now S", "a goes on" } },
	{ "e2e: should be able to preserve UDP traffic when server pod cycles, internalTrafficPolicy Local", { INTERNAL_LOCAL, "endpoints L", "open a pod udp vip:80 = L kept", "endpoints L R", "endpoints R", "sweep", "a now " SILENT, "a now " SILENT,
	    "endpoints K R", "a now K kept", "a goes on" } },
	{ "e2e: should be able to preserve UDP traffic when initial unready endpoints get ready", { "endpoints none", "open a pod udp vip:80 = refused", "endpoints Rn", "sweep", "a now refused", "endpoints R", "a now R kept", "a goes on" } },
};
/* clang-format on */

const struct flow_section flows_kube_proxy = { "kube-proxy's own cases", rows,
					       (int)MK_ARRAY_SIZE(rows) };
