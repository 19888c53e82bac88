// SPDX-License-Identifier: Apache-2.0
/* Which endpoints count. */
#include "base/cleanup.h"
#include "bpf/flow.h"

#define ENDPOINT(address, node, more) \
	"{'addresses': ['" address "'], 'nodeName': '" node "'" more "}"
#define CONDITIONS(text) ", 'conditions': {" text "}"
#define L(more)		 ENDPOINT("10.244.1.3", "node1", more)
#define ENDPOINTS(list)	 SLICE(TCP_8080 "'endpoints': [" list "]")
#define SILENT		 "dropped NO_LOCAL_BACKEND"

/* clang-format off */
static const struct flow_row rows[] = {
	/* slices */
	{ "all slices of a Service are merged", { "endpoints L | R | T", "pod tcp vip:80 = L R T kept", "outside tcp node:30080 = L R T masq" } },
	{ "the order of slices does not matter", { "endpoints R | T | L", "pod tcp vip:80 = L R T kept", "endpoints T | L | R", "pod tcp vip:80 = L R T kept" } },
	{ "one slice goes, the others stay", { "endpoints L | R", "pod tcp vip:80 = L R kept", "endpoints L", "pod tcp vip:80 = L kept" } },
	{ "an endpoint moves from one slice to another", { "endpoints L R | T", "pod tcp vip:80 = L R T kept", "endpoints L | R T", "pod tcp vip:80 = L R T kept" } },
	{ "an empty slice and a full one", { "endpoints  | L", "pod tcp vip:80 = L kept" } },
	{ "the same endpoint in two slices is one", { "endpoints L | L R", "pod tcp vip:80 = L R kept" } },
	{ "in two slices: the one that is not terminating wins, as the second", { "endpoints Lt | L R", "pod tcp vip:80 = L R kept" } },
	{ "in two slices: the one that is not terminating wins, as the first", { "endpoints L R | Lt", "pod tcp vip:80 = L R kept" } },
	{ "in two slices: the one that is not terminating wins over one that is gone", { "endpoints Lg | L", "pod tcp vip:80 = L kept" } },
	{ "in two slices: one terminating and one ready, and then the ready one goes", { "endpoints Lt R | L", "pod tcp vip:80 = L R kept", "endpoints Lt R", "pod tcp vip:80 = R kept" } },
	{ "in two slices, only one names the node: local", { INTERNAL_LOCAL, "endpoints L? | L", "pod tcp vip:80 = L kept" } },
	{ "a second address of an endpoint does not count", { SLICE(TCP_8080 "'endpoints': [{'addresses': ['10.244.1.3', '10.244.2.7'], 'nodeName': 'node1'}]"), "pod tcp vip:80 = L kept" } },
	{ "an endpoint without address", { SLICE(TCP_8080 "'endpoints': [{'addresses': []}, {'addresses': ['10.244.2.7']}]"), "pod tcp vip:80 = R kept" } },
	{ "a port without number is left out", { SLICE("'ports': [{'name': 'tcp', 'protocol': 'TCP'}], 'endpoints': [" L("") "]"), "pod tcp vip:80 = refused" } },
	{ "a port without number and one with", { SLICE("'ports': [{'name': 'tcp'}, {'name': 'udp', 'protocol': 'UDP', 'port': 8080}], 'endpoints': [" L("") "]"),
	    "pod tcp vip:80 = refused", "pod udp vip:80 = L kept" } },
	{ "a slice without ports", { SLICE("'ports': null, 'endpoints': [" L("") "]"), "pod tcp vip:80 = refused" } },
	{ "a slice without endpoints", { SLICE(TCP_8080 "'endpoints': null"), "pod tcp vip:80 = refused" } },
	{ "addressType IPv6 is left out", { "endpoints L", SLICE_OF("x", "s", "v6", "IPv6", TCP_8080 "'endpoints': [{'addresses': ['fd00::7']}]"), "pod tcp vip:80 = L kept" } },
	{ "only addressType IPv6: no endpoint", { SLICE_OF("x", "s", "v6", "IPv6", TCP_8080 "'endpoints': [{'addresses': ['fd00::7']}]"), "pod tcp vip:80 = refused" } },
	{ "addressType IPv6 is left out, whatever its addresses are", { "endpoints L", SLICE_OF("x", "s", "v6", "IPv6", TCP_8080 "'endpoints': [{'addresses': ['10.244.2.7']}]"), "pod tcp vip:80 = L kept" } },
	{ "addressType FQDN is left out", { "endpoints L", SLICE_OF("x", "s", "fqdn", "FQDN", TCP_8080 "'endpoints': [{'addresses': ['a.example']}]"), "pod tcp vip:80 = L kept" } },
	{ "the default protocol is TCP", { SLICE("'ports': [{'name': 'tcp', 'port': 8080}], 'endpoints': [" L("") "]"), "pod tcp vip:80 = L kept" } },
	{ "endpoints come and go", { "endpoints", "pod tcp vip:80 = refused", "endpoints L", "pod tcp vip:80 = L kept", "endpoints R T", "pod tcp vip:80 = R T kept", "endpoints", "pod tcp vip:80 = refused" } },

	/* conditions */
	{ "no conditions: ready", { "endpoints L- R-", "pod tcp vip:80 = L R kept" } },
	{ "no conditions: not terminating", { "endpoints L- Rt", "pod tcp vip:80 = L kept" } },
	{ "conditions empty: ready", { ENDPOINTS(L(CONDITIONS(""))), "pod tcp vip:80 = L kept" } },
	{ "conditions null: ready", { ENDPOINTS(L(CONDITIONS("'ready': null, 'serving': null, 'terminating': null"))), "pod tcp vip:80 = L kept" } },
	{ "ready alone", { ENDPOINTS(L(CONDITIONS("'ready': true"))), "pod tcp vip:80 = L kept" } },
	{ "only not ready: not terminating, so not used", { ENDPOINTS(L(CONDITIONS("'ready': false"))), "pod tcp vip:80 = refused" } },
	{ "not ready and terminating: serving by default", { ENDPOINTS(L(CONDITIONS("'ready': false, 'terminating': true"))), "pod tcp vip:80 = L kept" } },
	{ "only terminating: ready by default", { ENDPOINTS(L(CONDITIONS("'terminating': true"))), "pod tcp vip:80 = L kept" } },
	{ "publishNotReadyAddresses: the slice says ready, that is enough", { SPEC("'publishNotReadyAddresses': true"), "endpoints Lp R", "pod tcp vip:80 = L R kept" } },
	{ "publishNotReadyAddresses does not change what slices say", { SPEC("'publishNotReadyAddresses': true"), "endpoints Ln R", "pod tcp vip:80 = R kept" } },

	/* Cluster policy */
	{ "Cluster: ready ones only", { "endpoints L Rn T", "pod tcp vip:80 = L T kept", "outside tcp node:30080 = L T masq" } },
	{ "Cluster: terminating ones only if none is ready", { "endpoints Lt R St", "pod tcp vip:80 = R kept", "outside tcp node:30080 = R masq" } },
	{ "Cluster: no ready one, all that serve and are terminating", { "endpoints Lt Rt Tn", "pod tcp vip:80 = L R kept", "outside tcp lb:80 = L R masq" } },
	{ "Cluster: terminating and no longer serving is of no use", { "endpoints Lt Rg", "pod tcp vip:80 = L kept" } },
	{ "Cluster: none serves any more", { "endpoints Lg Rg", "pod tcp vip:80 = refused", "outside tcp node:30080 = refused" } },
	{ "Cluster: serving but neither ready nor terminating is of no use", { ENDPOINTS(L(CONDITIONS("'ready': false, 'serving': true, 'terminating': false"))), "pod tcp vip:80 = refused" } },
	{ "Cluster: none is ready", { "endpoints Ln Rn", "pod tcp vip:80 = refused", "host tcp vip:80 = refused", "outside tcp ext:80 = refused" } },
	{ "Cluster: a rolling update, step by step", { "endpoints L", "pod tcp vip:80 = L kept", "endpoints L Rn", "pod tcp vip:80 = L kept", "endpoints L R", "pod tcp vip:80 = L R kept",
	    "endpoints Lt R", "pod tcp vip:80 = R kept", "endpoints R", "pod tcp vip:80 = R kept" } },

	/* what is local */
	{ "local is whose nodeName is this node's", { INTERNAL_LOCAL, "endpoints L R", "pod tcp vip:80 = L kept" } },
	{ "no nodeName: not local", { INTERNAL_LOCAL, "endpoints L?", "pod tcp vip:80 = " SILENT } },
	{ "no nodeName: of use with policy Cluster", { "endpoints L? R?", "pod tcp vip:80 = L R kept" } },
	{ "an address of this node's pod CIDR and another node's name: not local", { INTERNAL_LOCAL, ENDPOINTS(ENDPOINT("10.244.1.3", "node2", "")), "pod tcp vip:80 = " SILENT } },
	{ "an address of another node's pod CIDR and this node's name: local", { INTERNAL_LOCAL, ENDPOINTS(ENDPOINT("10.244.2.7", "node1", "")), "pod tcp vip:80 = R kept" } },
	{ "a host-network endpoint of this node is local", { INTERNAL_LOCAL, "endpoints H N", "pod tcp vip:80 = H kept", "host tcp vip:80 = H" } },
	{ "a host-network endpoint of another node is not", { INTERNAL_LOCAL, "endpoints N", "pod tcp vip:80 = " SILENT } },
	{ "a host-network endpoint of this node, external policy Local", { EXTERNAL_LOCAL, "endpoints H N", "outside tcp node:30080 = H kept", "outside udp lb:80 = H kept" } },
	{ "a host-network endpoint of another node, external policy Local", { EXTERNAL_LOCAL, "endpoints N", "outside tcp node:30080 = " SILENT, "pod tcp lb:80 = N kept" } },
	{ "a node whose name begins like this one's", { INTERNAL_LOCAL, ENDPOINTS(ENDPOINT("10.244.1.3", "node10", "")), "pod tcp vip:80 = " SILENT } },

	/* Local policies */
	{ "external Local: local and ready", { EXTERNAL_LOCAL, "endpoints L K R T", "outside tcp node:30080 = L K kept", "outside tcp ext:80 = L K kept", "outside tcp lb:80 = L K kept" } },
	{ "external Local: local and ready before local and terminating", { EXTERNAL_LOCAL, "endpoints Lt K R", "outside tcp node:30080 = K kept" } },
	{ "external Local: otherwise local, serving and terminating", { EXTERNAL_LOCAL, "endpoints Lt Kt R", "outside tcp node:30080 = L K kept" } },
	{ "external Local: not one that no longer serves", { EXTERNAL_LOCAL, "endpoints Lg Kt R", "outside tcp node:30080 = K kept" } },
	{ "external Local: no usable endpoint here", { EXTERNAL_LOCAL, "endpoints Lg Kn R", "outside tcp node:30080 = " SILENT, "outside tcp lb:80 = " SILENT } },
	{ "external Local: no usable endpoint anywhere", { EXTERNAL_LOCAL, "endpoints Lg Rn", "outside tcp node:30080 = refused" } },
	{ "internal Local: local and ready", { INTERNAL_LOCAL, "endpoints L K R T", "pod tcp vip:80 = L K kept", "host tcp vip:80 = L K" } },
	{ "internal Local: local and ready before local and terminating", { INTERNAL_LOCAL, "endpoints Lt K R", "pod tcp vip:80 = K kept" } },
	{ "internal Local: otherwise local, serving and terminating", { INTERNAL_LOCAL, "endpoints Lt Kt R", "pod tcp vip:80 = L K kept" } },
	{ "internal Local: not one that no longer serves", { INTERNAL_LOCAL, "endpoints Lg Kt R", "pod tcp vip:80 = K kept" } },
	{ "internal Local: no usable endpoint here", { INTERNAL_LOCAL, "endpoints Lg Kn R", "pod tcp vip:80 = " SILENT, "host udp vip:80 = " SILENT, "outside tcp vip:80 = " SILENT } },
	{ "internal Local: no usable endpoint anywhere", { INTERNAL_LOCAL, "endpoints Lg Rn", "pod tcp vip:80 = refused", "host tcp vip:80 = refused" } },
	{ "the policies fall back independently: external Local, internal Cluster", { EXTERNAL_LOCAL, "endpoints Lt R", "outside tcp node:30080 = L kept", "pod tcp vip:80 = R kept", "pod tcp lb:80 = R kept" } },
	{ "the policies fall back independently: internal Local, external Cluster", { INTERNAL_LOCAL, "endpoints Lt R", "pod tcp vip:80 = L kept", "outside tcp node:30080 = R masq" } },
	{ "the policies fall back independently: both Local", { SPEC("'externalTrafficPolicy': 'Local', 'internalTrafficPolicy': 'Local'"), "endpoints Lt R",
	    "pod tcp vip:80 = L kept", "outside tcp node:30080 = L kept", "pod tcp lb:80 = R kept" } },
	{ "both Local: silence on both paths", { SPEC("'externalTrafficPolicy': 'Local', 'internalTrafficPolicy': 'Local'"), "endpoints R",
	    "pod tcp vip:80 = " SILENT, "outside tcp node:30080 = " SILENT, "pod tcp lb:80 = R kept" } },
	{ "policies may be null or absent: Cluster", { SPEC("'externalTrafficPolicy': null, 'internalTrafficPolicy': null"), "endpoints L R", "pod tcp vip:80 = L R kept", "outside tcp node:30080 = L R masq" } },
	{ "policies may be set: Cluster", { SPEC("'externalTrafficPolicy': 'Cluster', 'internalTrafficPolicy': 'Cluster'"), "endpoints L R", "pod tcp vip:80 = L R kept", "outside tcp node:30080 = L R masq" } },
	{ "the external policy changes back and forth", { "service", "endpoints L R", "outside tcp node:30080 = L R masq", EXTERNAL_LOCAL, "outside tcp node:30080 = L kept", "service", "outside tcp node:30080 = L R masq" } },
	{ "the internal policy changes back and forth", { "service", "endpoints L R", "pod tcp vip:80 = L R kept", INTERNAL_LOCAL, "pod tcp vip:80 = L kept", "service", "pod tcp vip:80 = L R kept" } },
	{ "localEndpointWeight makes local endpoints likelier, others stay", { "weight 3", "endpoints L R", "pod tcp vip:80 = L R kept", "host tcp vip:80 = L R" } },

	/* endpoints of an API server without slices */
	{ "Endpoints objects if there is no slice", { "object {'apiVersion': 'v1', 'kind': 'Endpoints', " META("x", "s") ", 'subsets': [{'addresses': [{'ip': '10.244.1.3', 'nodeName': 'node1'}],"
	    " 'notReadyAddresses': [{'ip': '10.244.2.7'}], 'ports': [{'name': 'tcp', 'port': 8080}]}]}", "service", "pod tcp vip:80 = L kept", "endpoints R", "pod tcp vip:80 = R kept" } },
};
/* clang-format on */

const struct flow_section flows_endpoints = { "which endpoints count", rows,
					      (int)MK_ARRAY_SIZE(rows) };
