// SPDX-License-Identifier: Apache-2.0
/* Which endpoints count: topology hints. This node is node1 in zone a; the others are in zone b. */
#include "base/cleanup.h"
#include "bpf/flow.h"

#define THIS_NODE(labels)                                                                      \
	"object {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'node1', 'labels': " \
	"{" labels "}}, 'spec': {'podCIDR': '10.244.1.0/24', 'podCIDRs': ['10.244.1.0/24']}, " \
	"'status': {'addresses': [{'type': 'InternalIP', 'address': '192.168.99.11'}]}}"
#define ZONE(zone)	    THIS_NODE("'topology.kubernetes.io/zone': '" zone "'")
#define DISTRIBUTION(which) SPEC("'trafficDistribution': '" which "'")

/* clang-format off */
static const struct flow_row rows[] = {
	{ "zone hints: the endpoints for this zone", { "endpoints L@a R@b", "pod tcp vip:80 = L kept", "host tcp vip:80 = L" } },
	{ "zone hints: wherever the endpoint is", { "endpoints L@b R@a", "pod tcp vip:80 = R kept" } },
	{ "zone hints: several zones of one endpoint", { "endpoints L@ab R@b T@ba", "pod tcp vip:80 = L T kept" } },
	{ "zone hints: external traffic of policy Cluster too", { "endpoints L@b R@a", "outside tcp node:30080 = R masq", "outside tcp lb:80 = R masq", "outside tcp ext:80 = R masq" } },
	{ "zone hints: one ready endpoint without any, all are ignored", { "endpoints L@a R", "pod tcp vip:80 = L R kept" } },
	{ "zone hints: none names this zone, all are ignored", { "endpoints L@b R@b", "pod tcp vip:80 = L R kept" } },
	{ "zone hints: an endpoint that is not ready needs none", { "endpoints L@a Rn T@b", "pod tcp vip:80 = L kept" } },
	{ "zone hints: a terminating endpoint needs none", { "endpoints L@a Rt T@b", "pod tcp vip:80 = L kept" } },
	{ "zone hints: a terminating endpoint's do not count as naming this zone", { "endpoints Lt@a R@b T@b", "pod tcp vip:80 = R T kept" } },
	{ "zone hints: no ready endpoint, terminating ones whatever the topology", { "endpoints Lt@a Rt@b", "pod tcp vip:80 = L R kept" } },
	{ "zone hints come", { "endpoints L R", "pod tcp vip:80 = L R kept", "endpoints L@a R@b", "pod tcp vip:80 = L kept" } },
	{ "zone hints go", { "endpoints L@a R@b", "pod tcp vip:80 = L kept", "endpoints L R", "pod tcp vip:80 = L R kept" } },
	{ "zone hints in two slices", { "endpoints L@a | R@b", "pod tcp vip:80 = L kept" } },
	{ "zone hints in one slice of two", { "endpoints L@a | R", "pod tcp vip:80 = L R kept" } },
	{ "zone hints: empty lists are none", { "endpoints L@ R@b", "pod tcp vip:80 = L R kept" } },
	{ "a node without zone ignores zone hints", { THIS_NODE(""), "service", "endpoints L@a R@b", "pod tcp vip:80 = L R kept" } },
	{ "this node's zone changes", { ZONE("a"), "service", "endpoints L@a R@b", "pod tcp vip:80 = L kept", ZONE("b"), "pod tcp vip:80 = R kept", "outside tcp node:30080 = R masq" } },
	{ "this node gets a zone", { THIS_NODE(""), "service", "endpoints L@a R@b", "pod tcp vip:80 = L R kept", ZONE("a"), "pod tcp vip:80 = L kept" } },
	{ "this node loses its zone", { ZONE("a"), "service", "endpoints L@a R@b", "pod tcp vip:80 = L kept", THIS_NODE(""), "pod tcp vip:80 = L R kept" } },
	{ "the old zone label does not count", { THIS_NODE("'failure-domain.beta.kubernetes.io/zone': 'a'"), "service", "endpoints L@a R@b", "pod tcp vip:80 = L R kept" } },

	{ "node hints: the endpoints for this node", { "endpoints L#1 R#2", "pod tcp vip:80 = L kept", "outside tcp node:30080 = L masq" } },
	{ "node hints: wherever the endpoint is", { "endpoints L#2 R#1", "pod tcp vip:80 = R kept" } },
	{ "node hints: several nodes of one endpoint", { "endpoints L#12 R#2 T#31", "pod tcp vip:80 = L T kept" } },
	{ "node hints: one ready endpoint without any, all are ignored", { "endpoints L#1 R", "pod tcp vip:80 = L R kept" } },
	{ "node hints: none names this node, all are ignored", { "endpoints L#2 R#3", "pod tcp vip:80 = L R kept" } },
	{ "node hints: an endpoint that is not ready needs none", { "endpoints L#1 Rn T#3", "pod tcp vip:80 = L kept" } },
	{ "node hints: no ready endpoint, terminating ones whatever the topology", { "endpoints Lt#1 Rt#2", "pod tcp vip:80 = L R kept" } },
	{ "node hints go before zone hints", { "endpoints L@b#1 R@a#2", "pod tcp vip:80 = L kept" } },
	{ "unusable node hints: zone hints", { "endpoints L@a#2 R@b#3", "pod tcp vip:80 = L kept" } },
	{ "node hints of some endpoints: zone hints", { "endpoints L@b#1 R@a", "pod tcp vip:80 = R kept" } },
	{ "unusable node and zone hints", { "endpoints L@b#2 R@b#3", "pod tcp vip:80 = L R kept" } },
	{ "a node without zone follows node hints", { THIS_NODE(""), "service", "endpoints L#1 R#2", "pod tcp vip:80 = L kept" } },

	{ "trafficDistribution PreferClose without hints has no effect", { DISTRIBUTION("PreferClose"), "endpoints L R", "pod tcp vip:80 = L R kept" } },
	{ "trafficDistribution PreferSameNode without hints has no effect", { DISTRIBUTION("PreferSameNode"), "endpoints L R", "pod tcp vip:80 = L R kept" } },
	{ "trafficDistribution PreferSameZone with zone hints", { DISTRIBUTION("PreferSameZone"), "endpoints L@a R@b", "pod tcp vip:80 = L kept" } },
	{ "hints without trafficDistribution decide all the same", { "service", "endpoints L#2 R#1", "pod tcp vip:80 = R kept" } },

	{ "external Local: hints are not asked", { EXTERNAL_LOCAL, "endpoints L@b R@a", "outside tcp node:30080 = L kept", "pod tcp vip:80 = R kept" } },
	{ "internal Local: hints are not asked", { INTERNAL_LOCAL, "endpoints L@b R@a", "pod tcp vip:80 = L kept", "outside tcp node:30080 = R masq" } },
	{ "external Local, the short cut: hints are asked", { EXTERNAL_LOCAL, "endpoints L@b R@a", "pod tcp lb:80 = R kept", "host tcp lb:80 = R" } },
	{ "external Local: endpoints elsewhere for another zone, silence all the same", { EXTERNAL_LOCAL, "endpoints R@a T@b", "outside tcp node:30080 = dropped NO_LOCAL_BACKEND" } },
};
/* clang-format on */

const struct flow_section flows_topology = { "topology hints", rows, (int)MK_ARRAY_SIZE(rows) };
