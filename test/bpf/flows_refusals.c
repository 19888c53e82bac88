// SPDX-License-Identifier: Apache-2.0
/* Where each address answers with a refusal, with silence, or to a ping. */
#include "base/cleanup.h"
#include "bpf/flow.h"

#define SILENT "dropped NO_LOCAL_BACKEND"

/* clang-format off */
static const struct flow_row rows[] = {
	/* no usable endpoint anywhere: refuse */
	{ "no endpoint: ClusterIP refuses pods", { "endpoints", "pod tcp vip:80 = refused", "pod udp vip:80 = refused", "pod sctp vip:80 = refused" } },
	{ "no endpoint: ClusterIP refuses hosts", { "endpoints", "host tcp vip:80 = refused", "host udp vip:80 = refused", "hostnet tcp vip:80 = refused" } },
	{ "no endpoint: ClusterIP refuses clients outside", { "endpoints", "outside tcp vip:80 = refused", "node2 udp vip:80 = refused" } },
	{ "no endpoint: NodePort refuses", { "endpoints", "outside tcp node:30080 = refused", "outside udp node:30080 = refused", "pod tcp node:30080 = refused" } },
	{ "no endpoint: NodePort refuses the host itself", { "endpoints", "own tcp node:30080 = refused", "own udp node:30080 = refused", EXTERNAL_LOCAL, "own tcp node:30080 = refused" } },
	{ "no endpoint: externalIP refuses", { "endpoints", "outside tcp ext:80 = refused", "pod tcp ext:80 = refused", "host udp ext:80 = refused" } },
	{ "no endpoint: load balancer refuses", { "endpoints", "outside tcp lb:80 = refused", "pod tcp lb:80 = refused", "host udp lb:80 = refused" } },
	{ "no slice at all: the same", { "endpoints none", "pod tcp vip:80 = refused", "outside tcp node:30080 = refused", "outside tcp lb:80 = refused" } },
	{ "another container network is refused too", { "endpoints", "forwarded tcp vip:80 = refused" } },
	{ "no endpoint anywhere under a Local policy: refused, not dropped", { EXTERNAL_LOCAL, "endpoints", "outside tcp node:30080 = refused", "outside tcp lb:80 = refused", "pod tcp lb:80 = refused" } },
	{ "no endpoint anywhere under internal policy Local: refused, not dropped", { INTERNAL_LOCAL, "endpoints Rn", "pod tcp vip:80 = refused", "host tcp vip:80 = refused" } },
	{ "one port of a Service without endpoint, the other with", { SPEC("'ports': [{'name': 'tcp', 'port': 80}, {'name': 'none', 'port': 81}]"), "endpoints L", "pod tcp vip:80 = L kept", "pod tcp vip:81 = refused" } },

	/* endpoints, but none here under a Local policy: silence, only on that path */
	{ "external Local: silence only on the external path", { EXTERNAL_LOCAL, "endpoints R", "outside tcp node:30080 = " SILENT, "outside udp ext:80 = " SILENT, "outside tcp lb:80 = " SILENT,
	    "pod tcp vip:80 = R kept", "host tcp vip:80 = R", "outside tcp vip:80 = R masq" } },
	{ "internal Local: silence only on the internal path", { INTERNAL_LOCAL, "endpoints R", "pod tcp vip:80 = " SILENT, "host udp vip:80 = " SILENT, "hostnet tcp vip:80 = " SILENT, "outside tcp vip:80 = " SILENT,
	    "outside tcp node:30080 = R masq", "pod tcp lb:80 = R masq", "pod tcp node:30080 = R masq" } },
	{ "external Local: silence ends when an endpoint comes here", { EXTERNAL_LOCAL, "endpoints R", "outside tcp lb:80 = " SILENT, "endpoints L R", "outside tcp lb:80 = L kept" } },
	{ "external Local: silence begins when the endpoint here goes", { EXTERNAL_LOCAL, "endpoints L R", "outside tcp lb:80 = L kept", "endpoints R", "outside tcp lb:80 = " SILENT } },
	{ "external Local: silence turns into a refusal when the last endpoint goes", { EXTERNAL_LOCAL, "endpoints R", "outside tcp lb:80 = " SILENT, "endpoints", "outside tcp lb:80 = refused" } },

	/* new flows only */
	{ "a refusal is for new flows: TCP goes on", { "endpoints Lt", "open a pod tcp vip:80 = L kept", "endpoints Lg", "a goes on", "pod tcp vip:80 = refused", "sweep", "a goes on" } },
	{ "no endpoint: SCTP is refused by every address", { "endpoints", "host sctp vip:80 = refused", "outside sctp node:30080 = refused", "pod sctp ext:80 = refused", "outside sctp lb:80 = refused" } },
	{ "unknown port of a ClusterIP: SCTP", { "endpoints L", "pod sctp vip:81 = refused", "host sctp vip:81 = refused" } },
	{ "a refusal is for new flows: UDP goes on while no endpoint serves", { "endpoints L", "open a pod udp vip:80 = L kept", "endpoints", "sweep", "a goes on", "pod udp vip:80 = refused" } },
	{ "silence is for new flows", { EXTERNAL_LOCAL, "endpoints L R", "open a outside tcp lb:80 = L kept", "endpoints Lg R", "sweep", "a goes on", "outside tcp lb:80 = " SILENT } },
	{ "an endpoint that comes back ends the refusal", { "endpoints", "pod udp vip:80 = refused", "endpoints L", "pod udp vip:80 = L kept" } },

	/* unknown ports of a ClusterIP */
	{ "unknown port of a ClusterIP: pod", { "endpoints L", "pod tcp vip:81 = refused", "pod udp vip:53 = refused" } },
	{ "unknown port of a ClusterIP: host", { "endpoints L", "host tcp vip:81 = refused", "host udp vip:53 = refused", "hostnet tcp vip:81 = refused" } },
	{ "unknown port of a ClusterIP: the endpoint's is one", { "endpoints L", "pod tcp vip:8080 = refused" } },
	{ "unknown port of a ClusterIP: only the protocol differs", { SPEC("'ports': [{'name': 'tcp', 'port': 80}]"), "endpoints L", "pod udp vip:80 = refused", "host udp vip:80 = refused", "pod tcp vip:80 = L kept" } },
	{ "unknown port of a ClusterIP: also without endpoint", { "endpoints", "pod tcp vip:81 = refused" } },
	{ "unknown port of a ClusterIP: also under internal policy Local without endpoint here", { INTERNAL_LOCAL, "endpoints R", "pod tcp vip:81 = refused" } },
	{ "unknown port of a ClusterIP: another container network", { "endpoints L", "forwarded tcp vip:81 = refused" } },

	{ "unknown port of a ClusterIP: outside", { "endpoints L", "outside tcp vip:81 = refused", "outside udp vip:53 = refused" } },

	/* unknown ports of a Service's other addresses */
	{ "unknown port of an externalIP: pod and host", { "endpoints L", "pod tcp ext:81 = refused", "pod udp ext:53 = refused", "host tcp ext:81 = refused", "hostnet udp ext:53 = refused" } },
	{ "unknown port of an externalIP: outside", { "endpoints L", "outside tcp ext:81 = refused", "outside udp ext:53 = refused", "outside tcp ext:30080 = refused" } },
	{ "unknown port of a load-balancer address: pod and host", { "endpoints L", "pod tcp lb:81 = refused", "pod udp lb:53 = refused", "host tcp lb:81 = refused" } },
	{ "unknown port of a load-balancer address: outside", { "endpoints L", "outside tcp lb:81 = refused", "outside udp lb:53 = refused" } },
	{ "unknown port of a load-balancer address: also under a Local policy without endpoint here", { EXTERNAL_LOCAL, "endpoints R", "outside tcp lb:81 = refused" } },
	{ "unknown port of a load-balancer address: another container network", { "endpoints L", "forwarded tcp lb:81 = refused" } },
	{ "unknown port of an externalIP that is another node's: that node's", { SPEC("'externalIPs': ['192.168.99.12']"), "endpoints L", "pod tcp 192.168.99.12:80 = L masq", "pod tcp 192.168.99.12:22 = outside", "pod ping 192.168.99.12 = outside" } },
	{ "unknown port of an externalIP that becomes a node's", { SPEC("'externalIPs': ['198.18.0.12']"), "endpoints L", "pod tcp 198.18.0.12:22 = refused",
	    "object {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'node9'}, 'spec': {}, 'status': {'addresses': [{'type': 'InternalIP', 'address': '198.18.0.12'}]}}",
	    "service", SPEC("'externalIPs': ['198.18.0.12']"), "pod tcp 198.18.0.12:22 = outside", "pod tcp 198.18.0.12:80 = L masq" } },

	/* no Service's address */
	{ "an address of a ServiceCIDR that no Service has: pod", { "endpoints L", "pod tcp 10.96.0.11:80 = dropped NO_ROUTE", "pod udp 10.96.255.254:53 = dropped NO_ROUTE", "pod ping 10.96.0.11 = dropped NO_ROUTE" } },
	{ "an address of a ServiceCIDR that no Service has: host", { "endpoints L", "host tcp 10.96.0.11:80 = dropped NO_ROUTE", "hostnet udp 10.96.0.11:80 = dropped NO_ROUTE" } },
	{ "an address of a ServiceCIDR that is added later", { "endpoints L", "pod tcp 10.97.0.1:80 = outside",
	    "object {'apiVersion': 'networking.k8s.io/v1', 'kind': 'ServiceCIDR', 'metadata': {'name': 'more'}, 'spec': {'cidrs': ['10.97.0.0/16']}}",
	    "pod tcp 10.97.0.1:80 = dropped NO_ROUTE", "pod tcp vip:80 = L kept" } },
	{ "an address in no range is outside", { "endpoints L", "pod tcp 198.51.100.200:80 = outside", "outside tcp 198.51.100.200:80 = untouched" } },

	/* pings */
	{ "a ping to a ClusterIP is answered: pod", { "endpoints L", "pod ping vip = pong" } },
	{ "a ping to a ClusterIP is answered: host", { "endpoints L", "host ping vip = pong", "hostnet ping vip = pong" } },
	{ "a ping to a ClusterIP is answered: without endpoint", { "endpoints", "pod ping vip = pong" } },
	{ "a ping to a ClusterIP is answered: without endpoint here under a Local policy", { INTERNAL_LOCAL, "endpoints R", "pod ping vip = pong" } },
	{ "a ping to a ClusterIP is answered: another container network", { "endpoints L", "forwarded ping vip = pong" } },
	{ "a ping to a ClusterIP is answered: outside", { "endpoints L", "outside ping vip = pong" } },
	{ "a ping to an externalIP is answered", { "endpoints L", "pod ping ext = pong", "host ping ext = pong", "outside ping ext = pong" } },
	{ "a ping to a load-balancer address is answered", { "endpoints L", "pod ping lb = pong", "host ping lb = pong", "outside ping lb = pong", "forwarded ping lb = pong" } },
	{ "a ping to an externalIP that is the node's own address is the host's", { SPEC("'externalIPs': ['192.168.99.11']"), "endpoints L", "outside ping node = untouched" } },
	{ "a ping to an address that is no longer the Service's is not answered", { "endpoints L", "outside ping ext = pong", SPEC("'externalIPs': []"), "outside ping ext = untouched", "pod ping ext = outside" } },
	{ "a ping to a node is the host's", { "endpoints L", "outside ping node = untouched" } },
	{ "a ping to a Service that is gone is not answered", { "endpoints L", "pod ping vip = pong", "delete service", "pod ping vip = dropped NO_ROUTE" } },
};
/* clang-format on */

const struct flow_section flows_refusals = { "refusals, silence and pings", rows,
					     (int)MK_ARRAY_SIZE(rows) };
