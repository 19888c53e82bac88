// SPDX-License-Identifier: Apache-2.0
/* Sessions. */
#include "base/cleanup.h"
#include "bpf/flow.h"

#define ZONE(zone)                                                                             \
	"object {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'node1', 'labels': " \
	"{'topology.kubernetes.io/zone': '" zone "'}}, 'spec': {'podCIDR': '10.244.1.0/24', "  \
	"'podCIDRs': ['10.244.1.0/24']}, 'status': {'addresses': [{'type': 'InternalIP', "     \
	"'address': '192.168.99.11'}]}}"

#define STICKY SPEC("'sessionAffinity': 'ClientIP'")
#define FOR_100_S                                                                    \
	SPEC("'sessionAffinity': 'ClientIP', 'sessionAffinityConfig': {'clientIP': " \
	     "{'timeoutSeconds': 100}}")
#define STICKY_LOCAL SPEC("'sessionAffinity': 'ClientIP', 'externalTrafficPolicy': 'Local'")

/* clang-format off */
static const struct flow_row rows[] = {
	/* only an endpoint's end moves an established flow */
	{ "a flow stays: TCP", { "endpoints L", "open a pod tcp vip:80 = L kept", "a goes on", "endpoints L R", "a goes on", "a goes on" } },
	{ "a flow stays: UDP", { "endpoints L", "open a pod udp vip:80 = L kept", "a goes on", "endpoints L R T", "sweep", "a goes on" } },
	{ "a flow stays: SCTP", { "endpoints L", "open a pod sctp vip:80 = L kept", "a goes on", "endpoints L R", "sweep", "a goes on" } },
	{ "SCTP from outside by a node port stays", { "endpoints L", "open a outside sctp node:30080 = L masq", "a goes on", "endpoints L R", "sweep", "a goes on" } },
	{ "SCTP to an endpoint that is terminating goes on", { "endpoints L", "open a pod sctp vip:80 = L kept", "endpoints Lt R", "sweep", "a goes on", "pod sctp vip:80 = R kept" } },
	{ "a host's flow to its own node port stays", { "endpoints L", "open a own tcp node:30080 = L", "a goes on", "endpoints L R", "sweep", "a goes on", EXTERNAL_LOCAL, "a goes on" } },
	{ "UDP of a host to its own node port is cut with its endpoint", { "endpoints L", "open a own udp node:30080 = L", "endpoints R", "sweep", "a now R" } },
	{ "external policy Cluster becomes Local", { "endpoints R", "open a outside tcp lb:80 = R masq", EXTERNAL_LOCAL, "endpoints L R", "sweep", "a goes on", "outside tcp lb:80 = L kept" } },
	{ "external policy Cluster becomes Local: UDP", { "endpoints R", "open a outside udp node:30080 = R masq", EXTERNAL_LOCAL, "endpoints L R", "sweep", "a goes on", "outside udp node:30080 = L kept" } },
	{ "external policy Local becomes Cluster: the client's address stays", { EXTERNAL_LOCAL, "endpoints L", "open a outside tcp lb:80 = L kept", "service", "sweep", "a goes on", "outside tcp lb:80 = L masq" } },
	{ "internal policy Cluster becomes Local", { "endpoints R", "open a pod tcp vip:80 = R kept", INTERNAL_LOCAL, "sweep", "a goes on", "pod tcp vip:80 = dropped NO_LOCAL_BACKEND" } },
	{ "internal policy Local becomes Cluster", { INTERNAL_LOCAL, "endpoints L R", "open a pod udp vip:80 = L kept", "service", "sweep", "a goes on", "pod udp vip:80 = L R kept" } },
	{ "topology: hints come", { "endpoints R", "open a pod tcp vip:80 = R kept", "endpoints L@a R@b", "sweep", "a goes on", "pod tcp vip:80 = L kept" } },
	{ "topology: hints come, UDP", { "endpoints R", "open a pod udp vip:80 = R kept", "endpoints L@a R@b", "sweep", "a goes on", "pod udp vip:80 = L kept" } },
	{ "topology: this node's zone changes", { ZONE("b"), "service", "endpoints L@a R@b", "open a pod tcp vip:80 = R kept", ZONE("a"), "sweep", "a goes on", "pod tcp vip:80 = L kept" } },
	{ "weights change", { "endpoints R", "open a pod tcp vip:80 = R kept", "weight 100", "endpoints L R", "sweep", "a goes on" } },
	{ "the Service's type changes: the ClusterIP's flow", { "endpoints L", "open a pod tcp vip:80 = L kept", SPEC("'type': 'ClusterIP'"), "sweep", "a goes on" } },
	{ "another Service changes", { "endpoints L", "open a pod tcp vip:80 = L kept", OTHER_SERVICE("x", "t", "'clusterIP': '10.96.0.11', 'ports': [{'port': 80}]"), "sweep", "a goes on" } },
	{ "two flows, each its own endpoint", { "endpoints L", "open a pod tcp vip:80 = L kept", "endpoints R", "open b pod tcp vip:80 = R kept", "endpoints L R", "b goes on", "b goes on" } },
	{ "flows by two addresses of one Service", { "endpoints L", "open a outside tcp lb:80 = L masq", "open b outside tcp node:30080 = L masq", "endpoints L R", "a goes on", "b goes on" } },
	{ "a client's one port towards two addresses: two flows", { "endpoints L", "pod tcp vip:80 = L kept", "pod tcp lb:80 = L masq", "pod tcp node:30080 = L masq" } },

	/* affinity */
	{ "affinity: a client comes back to its endpoint", { STICKY, "endpoints L", "pod tcp vip:80 = L kept", "endpoints L R T", "pod tcp vip:80 = L kept" } },
	{ "affinity: by every address of the port", { STICKY, "endpoints R", "pod tcp vip:80 = R kept", "endpoints L R T", "pod tcp node:30080 = R masq", "pod tcp ext:80 = R masq", "pod tcp lb:80 = R masq", "pod tcp vip:80 = R kept" } },
	{ "affinity: by every address of the port, from outside", { STICKY, "endpoints R", "outside tcp node:30080 = R masq", "endpoints L R T", "outside tcp lb:80 = R masq", "outside tcp ext:80 = R masq", "outside tcp vip:80 = R masq" } },
	{ "affinity: a host comes back", { STICKY, "endpoints R", "host tcp vip:80 = R", "endpoints L R T", "host tcp vip:80 = R", "host tcp lb:80 = R" } },
	{ "affinity: UDP", { STICKY, "endpoints R", "pod udp vip:80 = R kept", "outside udp lb:80 = R masq", "endpoints L R T", "pod udp vip:80 = R kept", "outside udp lb:80 = R masq" } },
	{ "affinity: each port by itself", { STICKY, "endpoints R", "pod tcp vip:80 = R kept", "endpoints L", "pod udp vip:80 = L kept", "endpoints L R", "pod tcp vip:80 = R kept", "pod udp vip:80 = L kept" } },
	{ "affinity: an endpoint that leaves loses its clients at once, for good", { STICKY, "endpoints L", "pod tcp vip:80 = L kept", "endpoints R", "pod tcp vip:80 = R kept", "endpoints L R", "pod tcp vip:80 = R kept" } },
	{ "affinity: a terminating endpoint loses its clients", { STICKY, "endpoints L R", "endpoints L", "pod tcp vip:80 = L kept", "endpoints Lt R", "pod tcp vip:80 = R kept" } },
	{ "affinity: a Local set does not know the remote endpoint", { STICKY_LOCAL, "endpoints R", "outside tcp vip:80 = R masq", "endpoints L R", "outside tcp lb:80 = L kept", "outside tcp vip:80 = L masq" } },
	{ "affinity: policy changes, the endpoint stays", { STICKY, "endpoints L", "outside tcp lb:80 = L masq", "endpoints L P R", STICKY_LOCAL, "outside tcp lb:80 = L kept", STICKY, "outside tcp lb:80 = L masq" } },
	/* Maglev's endpoint of these clients is the same in each run, and it is not R */
	{ "affinity: three hours by default", { STICKY, "endpoints R", "outside tcp lb:80 = R masq", "endpoints L R T K S", "wait 10799", "outside tcp lb:80 = R masq",
	    "wait 10801", "open b outside tcp lb:80 = L T K S masq" } },
	{ "affinity: timeoutSeconds", { FOR_100_S, "endpoints R", "outside tcp lb:80 = R masq", "endpoints L R T K S", "wait 99", "outside tcp lb:80 = R masq", "wait 101", "open b outside tcp lb:80 = L T K S masq" } },
	{ "affinity: the time runs from the last new connection, not from the first", { FOR_100_S, "endpoints R", "pod tcp vip:80 = R kept", "endpoints L R T K S", "wait 60", "pod tcp vip:80 = R kept", "wait 60", "pod tcp vip:80 = R kept", "wait 60", "pod tcp vip:80 = R kept", "wait 60", "pod tcp vip:80 = R kept", "wait 60", "pod tcp vip:80 = R kept", "wait 60", "pod tcp vip:80 = R kept", "wait 60", "pod tcp vip:80 = R kept", "wait 60", "pod tcp vip:80 = R kept" } },
	{ "affinity: the time runs from the last new connection, not from its last packet", { FOR_100_S, "endpoints R", "open a outside tcp lb:80 = R masq", "endpoints L R T K S", "wait 60", "a goes on", "wait 60", "a goes on", "open b outside tcp lb:80 = L T K S masq", "a goes on" } },
	{ "affinity: SCTP", { STICKY, "endpoints R", "pod sctp vip:80 = R kept", "endpoints L R T K S", "pod sctp vip:80 = R kept" } },
	{ "affinity: each client by itself", { STICKY, "endpoints L", "outside tcp lb:80 = L masq", "endpoints R", "outside@198.18.0.1 tcp lb:80 = R masq", "endpoints L R T K S",
	    "outside@198.18.0.1 tcp lb:80 = R masq" } },
	{ "affinity: each Service by itself", { STICKY, "endpoints L", "pod tcp vip:80 = L kept", OTHER_SERVICE("x", "t", "'sessionAffinity': 'ClientIP', 'clusterIP': '10.96.0.11', 'ports': [{'name': 'tcp', 'port': 80}]"),
	    SLICE_OF("x", "t", "t-1", "IPv4", TCP_8080 "'endpoints': [{'addresses': ['10.244.2.7']}]"), "pod tcp 10.96.0.11:80 = R kept", "endpoints L S", "pod tcp vip:80 = L kept", "pod tcp 10.96.0.11:80 = R kept" } },
	{ "affinity: switched off", { STICKY, "endpoints L", "pod tcp vip:80 = L kept", "endpoints L R", "pod tcp vip:80 = L kept", "service", "pod tcp vip:80 = L R kept", "outside tcp lb:80 = L R masq" } },
	{ "affinity: switched on later", { "endpoints L", "pod tcp vip:80 = L kept", STICKY, "pod tcp vip:80 = L kept", "endpoints L R", "pod tcp vip:80 = L kept" } },
	{ "affinity: switched off and on: earlier clients are forgotten", { STICKY, "endpoints L", "pod tcp vip:80 = L kept", "service", "endpoints R", STICKY, "pod tcp vip:80 = R kept", "endpoints L R", "pod tcp vip:80 = R kept" } },
	{ "affinity: a hairpin is one too", { STICKY, "endpoints P", "self tcp vip:80 = P masq", "endpoints P L R", "self tcp vip:80 = P masq" } },

	/* TCP continues after any change of the endpoint */
	{ "TCP to an endpoint that is terminating goes on", { "endpoints L R", "endpoints L", "open a pod tcp vip:80 = L kept", "endpoints Lt R", "sweep", "a goes on", "pod tcp vip:80 = R kept" } },
	{ "TCP to an endpoint that is terminating and not serving goes on until it closes", { "endpoints L", "open a pod tcp vip:80 = L kept", "endpoints Lg R", "sweep", "a goes on", "pod tcp vip:80 = R kept" } },
	{ "TCP from outside to a terminating endpoint goes on", { "endpoints L", "open a outside tcp lb:80 = L masq", "endpoints Lg R", "sweep", "a goes on", "outside tcp lb:80 = R masq" } },
	{ "TCP from a host to a terminating endpoint goes on", { "endpoints L", "open a host tcp vip:80 = L", "endpoints Lt R", "sweep", "a goes on", "host tcp vip:80 = R" } },
	{ "TCP to an endpoint that is not ready any more goes on", { "endpoints L", "open a pod tcp vip:80 = L kept", "endpoints Ln R", "sweep", "a goes on", "pod tcp vip:80 = R kept" } },
	{ "TCP to an endpoint that is in no slice any more goes on", { "endpoints L", "open a pod tcp vip:80 = L kept", "endpoints R", "sweep", "a goes on", "pod tcp vip:80 = R kept" } },
	{ "TCP from outside to an endpoint that is in no slice any more goes on", { "endpoints L", "open a outside tcp node:30080 = L masq", "endpoints R", "sweep", "a goes on", "outside tcp node:30080 = R masq" } },
	{ "TCP: a packet without a session does not leave untranslated", { "endpoints R", "open a pod tcp vip:80 = R kept", "endpoints", "sessions expire", "a now refused" } },
	{ "TCP: a packet without a session is handled as a first one: inside", { "endpoints R", "open a pod tcp vip:80 = R kept", "open b pod tcp lb:80 = R masq", "open c host tcp vip:80 = R", "endpoints L", "sessions expire", "a now L kept", "b now L masq", "c now L" } },
	{ "TCP: a packet without a session is handled as a first one: outside", { "endpoints R", "open a outside tcp node:30080 = R masq", "open b outside tcp lb:80 = R masq", "open c outside tcp vip:80 = R masq", "endpoints L", "sessions expire", "a now L masq", "b now L masq", "c now L masq" } },

	/* the frontend is gone: connections outlive it, datagrams do not */
	{ "TCP from outside outlives its node port", { "endpoints L", "open a outside tcp node:30080 = L masq", SPEC("'type': 'ClusterIP'"), "a goes on", "sweep", "sweep", "a goes on", "outside tcp node:30080 = untouched", "a errors" } },
	{ "TCP from outside outlives its load-balancer address", { "endpoints R", "open a outside tcp lb:80 = R masq", SPEC("'type': 'NodePort'"), "a goes on", "sweep", "sweep", "a goes on", "outside tcp lb:80 = untouched" } },
	{ "TCP from outside outlives its externalIP", { "endpoints R", "open a outside tcp ext:80 = R masq", SPEC("'externalIPs': ['198.51.100.8']"), "a goes on", "sweep", "sweep", "a goes on", "outside tcp ext:80 = untouched", "outside tcp 198.51.100.8:80 = R masq" } },
	{ "TCP from outside outlives its Service", { "endpoints L R", "open a outside tcp node:30080 = L R masq", "open b outside tcp lb:80 = L R masq", "open c outside tcp vip:80 = L R masq", "delete service", "a goes on", "sweep", "sweep", "a goes on", "b goes on", "c goes on", "outside tcp node:30080 = untouched" } },
	{ "TCP from outside outlives its Service, external policy Local", { EXTERNAL_LOCAL, "endpoints L", "open a outside tcp node:30080 = L kept", "delete service", "sweep", "sweep", "a goes on" } },
	{ "TCP from outside to this host's network outlives its Service", { EXTERNAL_LOCAL, "endpoints H", "open a outside tcp node:30080 = H kept", "open b outside tcp lb:80 = H kept", "delete service", "a goes on", "sweep", "sweep", "a goes on", "b goes on" } },
	{ "TCP from outside to this host's network outlives policy and endpoint", { EXTERNAL_LOCAL, "endpoints H", "open a outside tcp node:30080 = H kept", "service", "a goes on", "sweep", "sweep", "a goes on", "endpoints L", "sweep", "sweep", "a goes on" } },
	{ "SCTP from outside outlives its Service", { "endpoints L", "open a outside sctp node:30080 = L masq", "delete service", "a goes on", "sweep", "sweep", "a goes on", "outside sctp node:30080 = untouched" } },
	{ "TCP of a host to its own node port outlives its Service", { "endpoints L", "open a own tcp node:30080 = L", "delete service", "a goes on", "sweep", "sweep", "a goes on", "own tcp node:30080 = untouched" } },
	{ "TCP of a host outlives its Service", { "endpoints R", "open a host tcp vip:80 = R", "open b host tcp lb:80 = R", "delete service", "sweep", "sweep", "a goes on", "b goes on" } },
	{ "TCP of a pod outlives its Service", { "endpoints R", "open a pod tcp vip:80 = R kept", "open b pod tcp node:30080 = R masq", "delete service", "sweep", "sweep", "a goes on", "b goes on", "pod tcp vip:80 = dropped NO_ROUTE" } },
	{ "a flow that outlived its Service ends", { "endpoints L", "open a outside tcp node:30080 = L masq", "delete service", "sweep", "a goes on", "sessions expire", "a now untouched" } },
	{ "a flow that outlived its Service goes on when the Service comes back", { "endpoints L", "open a outside tcp node:30080 = L masq", "delete service", "sweep", "service", "endpoints R", "a goes on", "outside tcp node:30080 = R masq" } },
	{ "TCP of the host to a loopback address outlives its node port", { "endpoints L", "open a own@127.0.0.1 tcp 127.0.0.53:30080 = L", "delete service", "sweep", "sweep", "a goes on", "own@127.0.0.1 tcp 127.0.0.53:30080 = untouched" } },
	{ "UDP of the host to a loopback address: cut when its endpoint goes, and not before", { "endpoints L R", "open a own@127.0.0.1 udp 127.0.0.53:30080 = L R", "sweep", "a goes on", "endpoints N", "sweep", "a now N" } },
	{ "UDP from outside does not outlive its node port", { "endpoints L", "open a outside udp node:30080 = L masq", "open b outside tcp node:30080 = L masq", SPEC("'type': 'ClusterIP'"), "a now untouched", "b goes on" } },
	{ "UDP of a host to its own node port does not outlive its Service", { "endpoints L", "open a own udp node:30080 = L", "open b own tcp node:30080 = L", "delete service", "a now untouched", "b goes on" } },
	{ "UDP of a pod does not outlive its Service", { "endpoints L", "open a pod udp vip:80 = L kept", "open b pod udp ext:80 = L masq", "delete service", "sweep", "a now dropped NO_ROUTE", "b now outside" } },
	{ "UDP of a pod does not outlive its externalIP", { "endpoints L", "open a pod udp ext:80 = L masq", "open b pod udp vip:80 = L kept", SPEC("'externalIPs': null"), "sweep", "a now outside", "b goes on" } },
	{ "UDP goes on when another Service goes", { "endpoints L", "open a pod udp vip:80 = L kept", OTHER_SERVICE("x", "t", "'clusterIP': '10.96.0.11', 'ports': [{'port': 80, 'protocol': 'UDP'}]"), "sweep", OTHER_SERVICE("x", "t", "'clusterIP': 'None', 'ports': [{'port': 80, 'protocol': 'UDP'}]"), "sweep", "a goes on" } },

	/* UDP: endpoints that no longer serve */
	{ "UDP to an endpoint that is gone is cut: the next packet chooses again", { "endpoints L", "open a pod udp vip:80 = L kept", "endpoints R", "sweep", "a now R kept", "a goes on" } },
	{ "UDP to an endpoint that is no longer serving is cut", { "endpoints L", "open a pod udp vip:80 = L kept", "endpoints Lg R", "sweep", "a now R kept" } },
	{ "UDP to an endpoint that is not ready any more is cut", { "endpoints L", "open a pod udp vip:80 = L kept", "endpoints Ln R", "sweep", "a now R kept" } },
	{ "UDP to an endpoint that is terminating and serving goes on", { "endpoints L", "open a pod udp vip:80 = L kept", "endpoints Lt R", "sweep", "a goes on", "pod udp vip:80 = R kept" } },
	{ "UDP by a node port is cut", { "endpoints L", "open a outside udp node:30080 = L masq", "endpoints R", "sweep", "a now R masq" } },
	{ "UDP by a load-balancer address is cut", { "endpoints L", "open a outside udp lb:80 = L masq", "endpoints R", "sweep", "a now R masq" } },
	{ "UDP by an externalIP, from a pod, is cut", { "endpoints L", "open a pod udp ext:80 = L masq", "endpoints R", "sweep", "a now R masq" } },
	{ "UDP from a host is cut", { "endpoints L", "open a host udp vip:80 = L", "endpoints R", "sweep", "a now R" } },
	{ "UDP under policy Local is cut after its two sets became one", { EXTERNAL_LOCAL, "endpoints L R", "open a outside udp lb:80 = L kept", "endpoints L", "sweep", "a goes on", "endpoints K", "sweep", "a now K kept" } },
	{ "UDP is cut after policy Local became Cluster", { EXTERNAL_LOCAL, "endpoints L R", "open a outside udp lb:80 = L kept", "service", "sweep", "a goes on", "endpoints R", "sweep", "a now R masq" } },
	{ "UDP of a pod is cut after its sets became one", { EXTERNAL_LOCAL, "endpoints L R", "open a pod udp vip:80 = L R kept", "endpoints L", "sweep", "endpoints K", "sweep", "a now K kept" } },
	{ "UDP of a pod is cut after internal policy Local became Cluster", { INTERNAL_LOCAL, "endpoints L R", "open a pod udp vip:80 = L kept", "service", "sweep", "a goes on", "endpoints R", "sweep", "a now R kept" } },
	{ "UDP under policy Local is cut after its set became two", { EXTERNAL_LOCAL, "endpoints L", "open a outside udp lb:80 = L kept", "endpoints L R", "sweep", "a goes on", "endpoints R K", "sweep", "a now K kept" } },
	{ "UDP of a pod is cut after its set became two", { EXTERNAL_LOCAL, "endpoints L", "open a pod udp vip:80 = L kept", "endpoints L R", "sweep", "a goes on", "endpoints K", "sweep", "a now K kept" } },
	{ "UDP under external policy Local is cut", { EXTERNAL_LOCAL, "endpoints L", "open a outside udp lb:80 = L kept", "endpoints K", "sweep", "a now K kept" } },
	{ "UDP of a Service without any serving endpoint is not cut", { "endpoints L", "open a pod udp vip:80 = L kept", "endpoints Lg Rn", "sweep", "a goes on" } },
	{ "UDP of a Service without slices is not cut", { "endpoints L", "open a pod udp vip:80 = L kept", "endpoints none", "sweep", "a goes on" } },
	{ "UDP that was not cut is cut when another endpoint serves", { "endpoints L", "open a pod udp vip:80 = L kept", "endpoints", "sweep", "a goes on", "endpoints R", "sweep", "a now R kept" } },
	{ "UDP to an endpoint that stays is not cut when another goes", { "endpoints L", "open a pod udp vip:80 = L kept", "endpoints L R", "endpoints L", "sweep", "a goes on" } },
	{ "UDP to a ready endpoint with serving: false stays", { "endpoints Lp", "open a pod udp vip:80 = L kept", "endpoints Lp R", "sweep", "a goes on" } },
	{ "UDP: the endpoint moves to another slice", { "endpoints L | R", "endpoints L", "open a pod udp vip:80 = L kept", "endpoints R | L", "sweep", "a goes on" } },
	{ "UDP: the endpoint's port changes", { SLICE("'ports': [{'name': 'udp', 'protocol': 'UDP', 'port': 8001}], 'endpoints': [{'addresses': ['10.244.1.3'], 'nodeName': 'node1'}]"),
	    "open a pod udp vip:80 = L:8001 kept", SLICE("'ports': [{'name': 'udp', 'protocol': 'UDP', 'port': 8002}], 'endpoints': [{'addresses': ['10.244.1.3'], 'nodeName': 'node1'}]"),
	    "sweep", "a now L:8002 kept" } },
};
/* clang-format on */

const struct flow_section flows_sessions = { "sessions", rows, (int)MK_ARRAY_SIZE(rows) };
