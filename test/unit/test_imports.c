// SPDX-License-Identifier: Apache-2.0
/* Published Services of several clusters to ServiceImports and EndpointSlices. Each row also checks
 * that the result does not depend on the order in which objects come, and that a store that has
 * seen changes gives the same as a new one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "unit/clusterset_text.h"
#include "unit/unit.h"

#define OBJECTS_MAX 4

#define OLD		   "'exported': '2026-01-01T00:00:00Z', "
#define NEW		   "'exported': '2026-01-02T00:00:00Z', "
#define PORT(name, number) "{'name': '" name "', 'protocol': 'TCP', 'port': " #number "}"
#define SLICES6(eps)                                                                 \
	", 'slices': [{'name': 'web-6', 'addressType': 'IPv6', 'ports': [" HTTP_8080 \
	"], 'endpoints': [" eps "]}]"
#define SLICES_OF(ports, eps)                                                    \
	", 'slices': [{'name': 'web-1', 'addressType': 'IPv4', 'ports': [" ports \
	"], 'endpoints': [" eps "]}]"
#define ENDPOINT(more) SLICES("{'addresses': ['10.244.1.2'], " more "}")

static const struct row {
	const char *name;
	struct {
		const char *cluster, *spec;
	} objects[OBJECTS_MAX];
	const char *want[4];
	const char *lack;
} rows[] = {
	/* ---- which clusters count ---- */
	{ "a peer's export",
	  { { "east", WEB } },
	  { "imported", "clusters [{'cluster':'east'}]", "no own export" },
	  NULL },
	{ "this cluster's export",
	  { { "west", WEB } },
	  { "imported", "clusters [{'cluster':'west'}]", "own export" },
	  "no own export" },
	{ "both, sorted by name",
	  { { "west", OLD WEB }, { "east", NEW WEB } },
	  { "clusters [{'cluster':'east'},{'cluster':'west'}]", "own export" },
	  "no own" },
	{ "three",
	  { { "north", WEB }, { "west", WEB }, { "east", WEB } },
	  { "[{'cluster':'east'},{'cluster':'north'},{'cluster':'west'}]" },
	  NULL },
	{ "a cluster without ClusterPeer does not count",
	  { { "south", WEB SLICES(EP("10.244.1.2")) } },
	  { "not imported", "0 endpoints" },
	  "slice" },
	{ ".. beside one that counts",
	  { { "south", OLD SET "'ports': [" PORT("http", 81) "]" }, { "east", NEW WEB } },
	  { "clusters [{'cluster':'east'}]", "'port':80}", "conflicts none" },
	  "81" },
	/* ---- the import ---- */
	{ "names and label of the import",
	  { { "east", WEB } },
	  { "'apiVersion':'multicluster.x-k8s.io/v1beta1','kind':'ServiceImport','metadata':{'name':'web','namespace':'shop','labels':{'app.kubernetes.io/managed-by':'monokube.io'}}" },
	  NULL },
	{ "conformance: ClusterIP becomes ClusterSetIP",
	  { { "east", WEB } },
	  { "'type':'ClusterSetIP'" },
	  NULL },
	{ "conformance: headless becomes Headless",
	  { { "east", "'type': 'Headless', 'ports': [" HTTP "]" } },
	  { "'type':'Headless'" },
	  NULL },
	{ "conformance: a Headless import has no address",
	  { { "east", "'type': 'Headless', 'ipFamilies': ['IPv4'], 'ports': []" } },
	  { "imported" },
	  "'ips'" },
	{ "conformance: a ClusterSetIP import has an address",
	  { { "east", WEB } },
	  { "'ips':['247.254." },
	  NULL },
	{ "conformance: the ports are those of the export",
	  { { "east", WEB } },
	  { "'ports':[{'name':'http','protocol':'TCP','port':80}]" },
	  NULL },
	{ "conformance: the affinity is that of the export",
	  { { "east",
	      "'sessionAffinity': 'ClientIP', 'sessionAffinityConfig': {'clientIP': {'timeoutSeconds': 9}}, " WEB } },
	  { "'sessionAffinity':'ClientIP','sessionAffinityConfig':{'clientIP':{'timeoutSeconds':9}}" },
	  NULL },
	{ "conformance: only exported labels and annotations",
	  { { "east",
	      "'labels': {'dummy-label': 'true'}, 'annotations': {'dummy-annotation': 'true'}, " WEB } },
	  { "'labels':{'dummy-label':'true','app.kubernetes.io/managed-by':'monokube.io'},'annotations':{'dummy-annotation':'true'}" },
	  NULL },
	{ "no affinity",
	  { { "east", WEB } },
	  { "'sessionAffinity':'None'" },
	  "sessionAffinityConfig" },
	{ "internalTrafficPolicy",
	  { { "east", "'internalTrafficPolicy': 'Local', " WEB } },
	  { "'internalTrafficPolicy':'Local'" },
	  NULL },
	{ "conformance: internalTrafficPolicy Cluster",
	  { { "east", WEB } },
	  { "'internalTrafficPolicy':'Cluster'" },
	  NULL },
	{ "conformance: trafficDistribution",
	  { { "east", "'trafficDistribution': 'PreferClose', " WEB } },
	  { "'trafficDistribution':'PreferClose'" },
	  NULL },
	{ "appProtocol",
	  { { "east", SET "'ports': [{'name': 'a', 'port': 1, 'appProtocol': 'https'}]" } },
	  { "'port':1,'appProtocol':'https'" },
	  NULL },
	{ "a port without name",
	  { { "east", SET "'ports': [{'port': 1}]" } },
	  { "'ports':[{'protocol':'TCP','port':1}]" },
	  NULL },
	{ "a preference is a default: the key of users stays theirs",
	  { { "east",
	      "'annotations': {'a': 'b', 'networking.monokube.io/prefer': 'local'}, " WEB } },
	  { "'annotations':{'a':'b','networking.monokube.io/exported-prefer':'local'}" },
	  "io/prefer" },
	{ "a preference: the oldest export wins",
	  { { "east", NEW "'annotations': {'networking.monokube.io/prefer': 'east'}, " WEB },
	    { "west", OLD "'annotations': {'networking.monokube.io/prefer': 'local'}, " WEB } },
	  { "'networking.monokube.io/exported-prefer':'local'", "AnnotationsConflict" },
	  "prefer':'east" },
	/* ---- addresses and families ---- */
	{ "IPv4", { { "east", WEB } }, { "'ipFamilies':['IPv4']" }, "fd6d" },
	{ "IPv6",
	  { { "east", "'ipFamilies': ['IPv6'], 'ports': [" HTTP "]" } },
	  { "'ips':['fd6d:6b63:7300::", "'ipFamilies':['IPv6']" },
	  "247.254" },
	{ "both",
	  { { "east", "'ipFamilies': ['IPv4', 'IPv6'], 'ports': [" HTTP "]" } },
	  { "'ips':['247.254.", "','fd6d:6b63:7300::", "'ipFamilies':['IPv4','IPv6']" },
	  NULL },
	{ "an export that names no family may have any",
	  { { "east", "'ports': [" HTTP "]" } },
	  { "'ipFamilies':['IPv4','IPv6']" },
	  NULL },
	{ "the families of all exports",
	  { { "west", OLD WEB }, { "east", NEW "'ipFamilies': ['IPv6'], 'ports': [" HTTP "]" } },
	  { "'ipFamilies':['IPv4','IPv6']", "IPFamilyConflict" },
	  NULL },
	/* ---- slices ---- */
	{ "an endpoint of a peer has its view",
	  { { "east", WEB SLICES(EP("10.244.1.2")) } },
	  { "'endpoints':[{'addresses':['240.0.1.2'],'conditions':{'ready':true}}]",
	    "1 endpoints, 0 left out" },
	  "10.244" },
	{ "equal addresses of two peers",
	  { { "east", WEB SLICES(EP("10.244.1.2")) }, { "north", WEB SLICES(EP("10.244.1.2")) } },
	  { "['240.0.1.2']", "['240.1.1.2']", "2 endpoints" },
	  NULL },
	{ "an own endpoint has its home address",
	  { { "west", WEB SLICES(EP("10.244.1.2")) } },
	  { "['10.244.1.2']" },
	  "240." },
	{ "the highest address",
	  { { "east", WEB SLICES(EP("10.244.255.255")) } },
	  { "['240.0.255.255']" },
	  NULL },
	{ "IPv6",
	  { { "east", WEB SLICES6(EP("fd00:244::12")) } },
	  { "'addressType':'IPv6'", "['fdee::12']" },
	  NULL },
	{ "IPv6 of another node",
	  { { "east", WEB SLICES6(EP("fd00:244:0:55::12")) } },
	  { "['fdee:0:0:55::12']" },
	  NULL },
	{ "conformance: labels of a slice",
	  { { "east", WEB SLICES(EP("10.244.1.2")) } },
	  { "'kind':'EndpointSlice'",
	    "'namespace':'shop','labels':{'multicluster.kubernetes.io/service-name':'web','multicluster.kubernetes.io/source-cluster':'east','endpointslice.kubernetes.io/managed-by':'monokube.io'" },
	  "kubernetes.io/service-name':'web','kubernetes.io" },
	{ "no label of Services",
	  { { "east", WEB SLICES(EP("10.244.1.2")) } },
	  { "slice" },
	  "{'kubernetes.io/service-name'" },
	{ "name of a slice",
	  { { "east", WEB SLICES(EP("10.244.1.2")) } },
	  { "'metadata':{'name':'web-east-" },
	  NULL },
	{ "a slice of each cluster",
	  { { "east", WEB SLICES(EP("10.244.1.2")) }, { "west", WEB SLICES(EP("10.244.1.3")) } },
	  { "'name':'web-east-", "'name':'web-west-" },
	  NULL },
	{ "ports of a slice",
	  { { "east", WEB SLICES(EP("10.244.1.2")) } },
	  { "'addressType':'IPv4','ports':[{'name':'http','protocol':'TCP','port':8080}]" },
	  NULL },
	{ "conditions",
	  { { "east",
	      WEB ENDPOINT(
		      "'conditions': {'ready': false, 'serving': true, 'terminating': true}") } },
	  { "'conditions':{'ready':false,'serving':true,'terminating':true}" },
	  NULL },
	{ "zone and hints travel",
	  { { "east", WEB ENDPOINT("'zone': 'a', 'hints': {'forZones': [{'name': 'a'}]}") } },
	  { "'zone':'a','hints':{'forZones':[{'name':'a'}]}" },
	  NULL },
	{ "hostnames travel",
	  { { "east", WEB ENDPOINT("'hostname': 'web-0'") } },
	  { "'hostname':'web-0'" },
	  NULL },
	{ "a peer's node name does not",
	  { { "east", WEB ENDPOINT("'nodeName': 'n1'") } },
	  { "240.0.1.2" },
	  "n1" },
	{ "an own node name does",
	  { { "west", WEB ENDPOINT("'nodeName': 'n1'") } },
	  { "'nodeName':'n1'" },
	  NULL },
	{ "when the change began",
	  { { "east", WEB
	      ", 'slices': [{'name': 'web-1', 'triggerTime': '2026-01-02T03:04:05Z', 'addressType': 'IPv4', 'endpoints': [" EP(
		      "10.244.1.2") "]}]" } },
	  { "'annotations':{'endpoints.kubernetes.io/last-change-trigger-time':'2026-01-02T03:04:05Z'}" },
	  NULL },
	{ "no endpoints, no slice",
	  { { "east", WEB SLICES("") } },
	  { "imported", "0 endpoints, 0 left out" },
	  "slice" },
	{ "headless slices",
	  { { "east", "'type': 'Headless', 'ports': [" HTTP "]" ENDPOINT("'hostname': 'web-0'") } },
	  { "'hostname':'web-0'" },
	  NULL },
	/* ---- hostile endpoints (rule 39) ---- */
	{ "outside of its cluster's range",
	  { { "east", WEB SLICES(EP("10.245.0.1") "," EP("10.244.0.1")) } },
	  { "1 endpoints, 1 left out",
	    "endpoint 10.245.0.1 of cluster 'east' is left out: it is outside of its cluster's pod range" },
	  "['10.245" },
	{ "an address of a Service here",
	  { { "east", WEB SLICES(EP("10.96.0.1")) } },
	  { "0 endpoints, 1 left out" },
	  "['10.96" },
	{ "the view of another peer",
	  { { "east", WEB SLICES(EP("240.1.0.1")) } },
	  { "0 endpoints, 1 left out" },
	  "['240.1" },
	{ "its own view",
	  { { "east", WEB SLICES(EP("240.0.0.1")) } },
	  { "0 endpoints, 1 left out" },
	  "['240.0" },
	{ "an own endpoint outside of clusterCidr",
	  { { "west", WEB SLICES(EP("192.168.1.1")) } },
	  { "0 endpoints, 1 left out" },
	  "['192" },
	{ "IPv6 outside",
	  { { "east", WEB SLICES6(EP("fd00:245::1")) } },
	  { "0 endpoints, 1 left out" },
	  "['fd" },
	/* ---- endpoints in another cluster than the one that publishes them (rule 15) ---- */
	{ "a pod of a third cluster has the view of that one",
	  { { "east", WEB SLICES(IN("north", "10.244.1.2")) } },
	  { "1 endpoints, 0 left out", "['240.1.1.2']",
	    "'multicluster.kubernetes.io/source-cluster':'east'" },
	  "['240.0." },
	{ "one address in two clusters",
	  { { "east", WEB SLICES(EP("10.244.1.2") "," IN("north", "10.244.1.2")) } },
	  { "2 endpoints, 0 left out", "['240.0.1.2']", "['240.1.1.2']" },
	  NULL },
	{ "of IPv6",
	  { { "east", WEB SLICES6(IN("north", "fd00:244::12")) } },
	  { "['fdaa::12']" },
	  NULL },
	{ "this cluster's Service has a pod of a peer",
	  { { "west", WEB SLICES(IN("east", "10.244.1.2")) } },
	  { "1 endpoints, 0 left out", "['240.0.1.2']" },
	  "10.244.1.2" },
	{ "a cluster that is not known here",
	  { { "east", WEB SLICES(IN("south", "10.244.1.2") "," EP("10.244.1.3")) } },
	  { "1 endpoints, 1 left out",
	    "endpoint 10.244.1.2 in cluster south of cluster 'east' is left out: no ClusterPeer here has the name of that cluster" },
	  "240.0.1.2" },
	{ "a cluster that has published, but has no ClusterPeer here",
	  { { "south", WEB }, { "east", WEB SLICES(IN("south", "10.244.1.2")) } },
	  { "0 endpoints, 1 left out", "no ClusterPeer here" },
	  "slice" },
	{ "outside of the third cluster's range",
	  { { "east", WEB SLICES(IN("north", "10.245.1.2") "," IN("north", "10.96.0.1")) } },
	  { "0 endpoints, 2 left out", "it is outside of its cluster's pod range" },
	  "slice" },
	{ "the view of a third cluster",
	  { { "east", WEB SLICES(IN("north", "240.1.1.2")) } },
	  { "0 endpoints, 1 left out" },
	  "slice" },
	{ "a cluster that names itself",
	  { { "east", WEB SLICES(IN("east", "10.244.1.2")) } },
	  { "0 endpoints, 1 left out", "a cluster names itself" },
	  "slice" },
	{ "a pod of this cluster, named by a peer without access: Pods",
	  { { "east", WEB SLICES(IN("west", "10.244.1.2")) } },
	  { "0 endpoints, 1 left out", "needs access: Pods in the ClusterPeer" },
	  "slice" },
	/* ---- conflicts ---- */
	{ "no conflict",
	  { { "west", OLD WEB }, { "east", NEW WEB } },
	  { "conflicts none" },
	  "Conflict" },
	{ "one export has no conflict", { { "west", OLD WEB } }, { "conflicts none" }, NULL },
	{ "conformance: conflicting ports, the oldest wins",
	  { { "west", OLD WEB }, { "east", NEW SET "'ports': [" PORT("http", 81) "]" } },
	  { "conflicts PortConflict:", "'ports':[{'name':'http','protocol':'TCP','port':80}]",
	    "port 'http: TCP 80' of cluster 'west' counts, port 'http: TCP 81' of cluster 'east' does not" },
	  "'port':81" },
	{ "conformance: only clusters that expose the port get its traffic",
	  { { "west", OLD WEB SLICES(EP("10.244.1.2")) },
	    { "east", NEW SET "'ports': [" PORT("http", 81) "]" SLICES(EP("10.244.1.3")) } },
	  { "'name':'web-west-", "1 endpoints, 0 left out" },
	  "web-east-" },
	{ "conformance: .. with other names, each port has its cluster's endpoints",
	  { { "west", OLD WEB SLICES(EP("10.244.1.2")) },
	    { "east", NEW SET "'ports': [" PORT("web", 81) "]" SLICES_OF(
			      "{'name': 'web', 'port': 8080}", EP("10.244.1.3")) } },
	  { "'ports':[{'name':'http','protocol':'TCP','port':8080}]",
	    "'ports':[{'name':'web','protocol':'TCP','port':8080}]" },
	  NULL },
	{ ".. a slice keeps its other ports",
	  { { "west", OLD WEB },
	    { "east", NEW SET "'ports': [" PORT("http", 81) ", " PORT("b", 2) "]" SLICES_OF(
			      HTTP_8080 ", {'name': 'b', 'port': 2}", EP("10.244.1.3")) } },
	  { "'addressType':'IPv4','ports':[{'name':'b','protocol':'TCP','port':2}]" },
	  NULL },
	{ ".. nor by another protocol",
	  { { "west", OLD WEB },
	    { "east", NEW SET "'ports': [{'name': 'http', 'protocol': 'UDP', 'port': 80}]" SLICES(
			      EP("10.244.1.3")) } },
	  { "conflicts PortConflict:" },
	  "web-east-" },
	{ "a slice's port that its own Service lacks",
	  { { "west", OLD WEB },
	    { "east", NEW SET "'ports': [" PORT("b", 2) "]" SLICES(EP("10.244.1.3")) } },
	  { "imported" },
	  "web-east-" },
	{ ".. also if it is the peer's",
	  { { "west", NEW WEB }, { "east", OLD SET "'ports': [" PORT("http", 81) "]" } },
	  { "conflicts PortConflict:", "'port':81}]" },
	  "'port':80" },
	{ "of equal age, the first cluster by name",
	  { { "west", OLD WEB }, { "east", OLD SET "'ports': [" PORT("http", 81) "]" } },
	  { "'port':81}]" },
	  "'port':80" },
	{ "an export without time is the oldest",
	  { { "west", OLD WEB }, { "east", SET "'ports': [" PORT("http", 81) "]" } },
	  { "'port':81}]" },
	  "'port':80" },
	{ "one number with two names",
	  { { "west", OLD WEB }, { "east", NEW SET "'ports': [" PORT("web", 80) "]" } },
	  { "PortConflict",
	    "port 'http: TCP 80' of cluster 'west' counts, port 'web: TCP 80' of cluster 'east' does not" },
	  "'name':'web','protocol'" },
	{ "protocols",
	  { { "west", OLD SET "'ports': [{'name': 'dns', 'port': 53}]" },
	    { "east", NEW SET "'ports': [{'name': 'dns', 'protocol': 'UDP', 'port': 53}]" } },
	  { "PortConflict" },
	  "UDP','port" },
	{ "appProtocol",
	  { { "west", OLD SET "'ports': [{'name': 'a', 'port': 1, 'appProtocol': 'http'}]" },
	    { "east", NEW SET "'ports': [{'name': 'a', 'port': 1, 'appProtocol': 'https'}]" } },
	  { "PortConflict", "a: TCP 1 https" },
	  "'appProtocol':'https'" },
	{ "conformance: the union of ports",
	  { { "west", OLD WEB },
	    { "east",
	      NEW SET "'ports': [" HTTP ", {'name': 'stcp', 'port': 142, 'protocol': 'SCTP'}]" } },
	  { "'ports':[{'name':'http','protocol':'TCP','port':80},{'name':'stcp','protocol':'SCTP','port':142}]" },
	  NULL },
	{ ".. whose ports are not identical (v0.5)",
	  { { "west", OLD WEB }, { "east", NEW SET "'ports': [" HTTP ", " PORT("more", 9) "]" } },
	  { "PortConflict",
	    "port 'more: TCP 9' of cluster 'east' is not exported by cluster 'west'" },
	  NULL },
	{ "another order of ports is no conflict",
	  { { "west", OLD SET "'ports': [" HTTP ", " PORT("b", 2) "]" },
	    { "east", NEW SET "'ports': [" PORT("b", 2) ", " HTTP "]" } },
	  { "conflicts none", "'port':80},{'name':'b'" },
	  NULL },
	{ "one port number of two protocols is no conflict",
	  { { "west", OLD SET
	      "'ports': [{'name': 'a', 'port': 53}, {'name': 'b', 'protocol': 'UDP', 'port': 53}]" },
	    { "east", NEW SET
	      "'ports': [{'name': 'a', 'port': 53}, {'name': 'b', 'protocol': 'UDP', 'port': 53}]" } },
	  { "conflicts none" },
	  NULL },
	{ "ports of three clusters",
	  { { "west", OLD WEB },
	    { "east", NEW SET "'ports': [" PORT("b", 2) "]" },
	    { "north", NEW SET "'ports': [" PORT("c", 3) "]" } },
	  { "'port':80},{'name':'b','protocol':'TCP','port':2},{'name':'c'" },
	  NULL },
	{ "conformance: type, the oldest wins",
	  { { "west", OLD WEB }, { "east", NEW "'type': 'Headless', 'ports': [" HTTP "]" } },
	  { "TypeConflict", "'type':'ClusterSetIP'", "'ips'",
	    "type of cluster 'west' counts, which exported first, that of cluster 'east' differs" },
	  NULL },
	{ ".. also Headless",
	  { { "west", NEW WEB },
	    { "east", OLD "'type': 'Headless', 'ipFamilies': ['IPv4'], 'ports': [" HTTP "]" } },
	  { "conflicts TypeConflict:", "'type':'Headless'" },
	  "'ips'" },
	{ "affinity",
	  { { "west", OLD WEB },
	    { "east", NEW
	      "'sessionAffinity': 'ClientIP', 'sessionAffinityConfig': {'clientIP': {'timeoutSeconds': 9}}, " WEB } },
	  { "conflicts SessionAffinityConflict:", "'sessionAffinity':'None'" },
	  "ClientIP" },
	{ "affinity's configuration",
	  { { "west", OLD
	      "'sessionAffinity': 'ClientIP', 'sessionAffinityConfig': {'clientIP': {'timeoutSeconds': 8}}, " WEB },
	    { "east", NEW
	      "'sessionAffinity': 'ClientIP', 'sessionAffinityConfig': {'clientIP': {'timeoutSeconds': 9}}, " WEB } },
	  { "conflicts SessionAffinityConfigConflict:", "'timeoutSeconds':8" },
	  NULL },
	{ "conformance: annotations and labels",
	  { { "west", OLD
	      "'labels': {'dummy-label': 'true'}, 'annotations': {'dummy-annotation': 'true'}, " WEB },
	    { "east", NEW
	      "'labels': {'dummy-label2': 'true'}, 'annotations': {'dummy-annotation2': 'true'}, " WEB } },
	  { "conflicts AnnotationsConflict,LabelsConflict:", "'dummy-label':'true'",
	    "'dummy-annotation':'true'" },
	  "'dummy-label2':" },
	{ "annotations",
	  { { "west", OLD WEB }, { "east", NEW "'annotations': {'a': 'b'}, " WEB } },
	  { "conflicts AnnotationsConflict:" },
	  "'a':'b'" },
	{ "labels of one key",
	  { { "west", OLD "'labels': {'a': '1'}, " WEB },
	    { "east", NEW "'labels': {'a': '2'}, " WEB } },
	  { "conflicts LabelsConflict:", "'a':'1'" },
	  "'a':'2'" },
	{ "internalTrafficPolicy",
	  { { "west", OLD WEB }, { "east", NEW "'internalTrafficPolicy': 'Local', " WEB } },
	  { "conflicts InternalTrafficPolicyConflict:" },
	  "'Local'" },
	{ "trafficDistribution",
	  { { "west", OLD "'trafficDistribution': 'PreferClose', " WEB }, { "east", NEW WEB } },
	  { "conflicts TrafficDistributionConflict:", "PreferClose" },
	  NULL },
	{ "families",
	  { { "west", OLD WEB },
	    { "east", NEW "'ipFamilies': ['IPv4', 'IPv6'], 'ports': [" HTTP "]" } },
	  { "conflicts IPFamilyConflict:" },
	  NULL },
	{ "several reasons",
	  { { "west", OLD WEB },
	    { "east", NEW
	      "'type': 'Headless', 'sessionAffinity': 'ClientIP', 'ipFamilies': ['IPv4'], 'ports': [" PORT(
		      "http", 81) "]" } },
	  { "conflicts PortConflict,TypeConflict,SessionAffinityConflict:" },
	  NULL },
	{ "a conflict of two peers is one here too",
	  { { "north", NEW WEB },
	    { "east", OLD SET "'ports': [" PORT("http", 81) "]" },
	    { "west", NEW SET "'ports': [" PORT("http", 81) "]" } },
	  { "PortConflict", "own export" },
	  "no own" },
	{ "endpoints of a cluster that lost count",
	  { { "west", OLD WEB SLICES(EP("10.244.1.1")) },
	    { "east", NEW "'type': 'Headless', 'ports': [" HTTP "]" SLICES(EP("10.244.1.2")) } },
	  { "10.244.1.1", "240.0.1.2", "2 endpoints" },
	  NULL },
};

static size_t object_count(const struct row *row)
{
	size_t count = 0;

	while (count < OBJECTS_MAX && row->objects[count].cluster)
		count++;
	return count;
}

static char *merge_row(const struct row *row, bool reversed)
{
	struct mk_imports *imports = imports_of_west();
	size_t count = object_count(row);
	char *text;

	for (size_t i = 0; i < count; i++) {
		size_t at = reversed ? count - 1 - i : i;

		published_apply(imports, row->objects[at].cluster, row->objects[at].spec);
	}
	text = merged_text(imports, "shop", "web");
	mk_imports_free(imports);
	return text;
}

static bool has_east(const struct row *row)
{
	for (size_t i = 0; i < object_count(row); i++)
		if (strcmp(row->objects[i].cluster, "east") == 0)
			return true;
	return false;
}

/* The objects come one after the other, with merges between them, after others that went. */
static char *merge_changed(const struct row *row)
{
	struct mk_imports *imports = imports_of_west();
	char *text = NULL;

	published_apply(imports, "east",
			OLD SET "'ports': [" PORT("other", 7) "]" SLICES(EP("10.244.9.9")));
	published_apply(imports, "north", NEW WEB SLICES(EP("10.244.9.8")));
	mk_imports_delete(imports, "monokube-peers", "north.shop.web");
	for (size_t i = 0; i < object_count(row); i++) {
		free(text);
		text = merged_text(imports, "shop", "web");
		published_apply(imports, row->objects[i].cluster, row->objects[i].spec);
	}
	if (!has_east(row))
		mk_imports_delete(imports, "monokube-peers", "east.shop.web");
	free(text);
	text = merged_text(imports, "shop", "web");
	mk_imports_free(imports);
	return text;
}

START_TEST(test_merge)
{
	const struct row *row = &rows[_i];
	cleanup_free char *text = merge_row(row, false), *reversed = merge_row(row, true);
	cleanup_free char *changed = merge_changed(row);

	ck_assert_msg(strcmp(text, reversed) == 0, "%s: %s is not %s", row->name, text, reversed);
	ck_assert_msg(strcmp(text, changed) == 0, "%s: %s is not %s", row->name, text, changed);
	for (size_t i = 0; i < MK_ARRAY_SIZE(row->want) && row->want[i]; i++)
		ck_assert_msg(strstr(text, row->want[i]), "%s: no %s in %s", row->name,
			      row->want[i], text);
	ck_assert_msg(!row->lack || !strstr(text, row->lack), "%s: %s in %s", row->name, row->lack,
		      text);
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------- */

static const struct refused {
	const char *name, *spec, *expected;
} refused[] = {
	{ "no port number", SET "'ports': [{'name': 'a'}]",
	  "spec: ports[0]: port is missing, expected 1 to 65535" },
	{ "port 65536", SET "'ports': [{'name': 'a', 'port': 65536}]",
	  "ports[0]: port: value 65536" },
	{ "a fraction as port", SET "'ports': [{'name': 'a', 'port': 1.5}]",
	  "port: value 1.5, expected a whole number" },
	{ "a port's name", SET "'ports': [{'name': 'A b', 'port': 1}]",
	  "name: value 'A b', expected a DNS label" },
	{ "a protocol", SET "'ports': [{'protocol': 'ICMP', 'port': 1}]",
	  "protocol: value \"ICMP\", expected TCP, UDP or SCTP" },
	{ "appProtocol that an EndpointSlice may not have",
	  SET "'ports': [{'port': 1, 'appProtocol': 'a b'}]", "appProtocol: value 'a b'" },
	{ "a port that is no object", SET "'ports': [7]", "ports[0]: expected an object" },
	{ "ports that are no list", SET "'ports': {}", "ports: value an object, expected a list" },
	{ "a type", "'type': 'ExternalName', 'ports': []",
	  "type: value \"ExternalName\", expected ClusterSetIP or Headless" },
	{ "a time", "'exported': 'yesterday', 'ports': []",
	  "exported: value 'yesterday', expected a time" },
	{ "an affinity", "'sessionAffinity': 'Cookie'",
	  "sessionAffinity: value \"Cookie\", expected None or ClientIP" },
	{ "an affinity's time", "'sessionAffinityConfig': {'clientIP': {'timeoutSeconds': 0}}",
	  "timeoutSeconds: value 0, expected a number from 1 to 86400" },
	{ "a policy", "'internalTrafficPolicy': 'Near'", "internalTrafficPolicy: value \"Near\"" },
	{ "a family", "'ipFamilies': ['IPv5']",
	  "ipFamilies: value \"IPv5\", expected IPv4 or IPv6" },
	{ "three families", "'ipFamilies': ['IPv4', 'IPv6', 'IPv4']",
	  "ipFamilies: 3 elements, expected at most 2" },
	{ "a label that the API server refuses", "'labels': {'a b': 'c'}",
	  "labels: key 'a b' is not allowed" },
	{ "a label of ours", "'labels': {'app.kubernetes.io/managed-by': 'me'}",
	  "labels: key 'app.kubernetes.io/managed-by' is not allowed: its key is reserved" },
	{ "a label's value", "'labels': {'a': 7}", "labels: key 'a' is not allowed" },
	{ "an annotation's value", "'annotations': {'a': {}}",
	  "annotations: key 'a' is not allowed" },
	{ "a part beyond the parts", "'part': 1, 'parts': 1",
	  "part: value 1, expected a number from 0 to 0" },
	{ "too many parts", "'parts': 51", "parts: value 51, expected a number from 1 to 50" },
	{ "a slice without name", "'slices': [{'addressType': 'IPv4'}]",
	  "slices[0]: name is missing" },
	{ "a slice without type", "'slices': [{'name': 'a'}]",
	  "slices[0]: addressType is missing" },
	{ "two slices of one name",
	  "'slices': [{'name': 'a', 'addressType': 'IPv4'}, {'name': 'a', 'addressType': 'IPv4'}]",
	  "slices: name 'a' is twice" },
	{ "no address", WEB SLICES("{'addresses': []}"), "endpoints[0]: addresses[0] is missing" },
	{ "no addresses at all", WEB SLICES("{}"), "addresses[0] is missing" },
	{ "an address of the other family", WEB SLICES(EP("fd00:244::1")),
	  "addresses[0]: value \"fd00:244::1\", expected an IPv4 address" },
	{ "an IPv4 address in disguise", WEB SLICES6(EP("::ffff:10.244.1.2")),
	  "expected an IPv6 address" },
	{ "a text that is no address", WEB SLICES(EP("10.244.1")), "value \"10.244.1\"" },
	{ "a condition", WEB ENDPOINT("'conditions': {'ready': 1}"),
	  "ready: value 1, expected true or false" },
	{ "a hostname", WEB ENDPOINT("'hostname': 'a.b'"),
	  "hostname: value \"a.b\", expected lower case letters" },
	{ "a zone", WEB ENDPOINT("'zone': 'a b'"), "zone: value \"a b\", expected a zone" },
	{ "a cluster's name", WEB ENDPOINT("'cluster': 'East'"),
	  "cluster: value \"East\", expected lower case letters" },
	{ "a pod of another cluster with a target",
	  WEB ENDPOINT("'cluster': 'north', 'target': '192.0.2.7'"),
	  "target: value \"192.0.2.7\", expected no target beside cluster" },
	{ "hints", WEB ENDPOINT("'hints': {'forZones': ['a']}"),
	  "forZones: value a list, expected a list of zones" },
	{ "nine hints", WEB ENDPOINT("'hints': {'forZones': [{},{},{},{},{},{},{},{},{}]}"),
	  "forZones: 9 elements, expected at most 8" },
	{ "a time of a change",
	  "'slices': [{'name': 'a', 'addressType': 'IPv4', 'triggerTime': 'now'}]",
	  "triggerTime: value 'now', expected a time" },
	{ "a text with NUL", WEB ENDPOINT("'nodeName': 'a\\u0000b'"),
	  "nodeName: value \"a\\u0000b\", expected UTF-8" },
	{ "a text that is no UTF-8", WEB ENDPOINT("'nodeName': 'a\xff'"), "nodeName: value" },
};

/* .. and the last valid version stays. */
START_TEST(test_refused)
{
	const struct refused *row = &refused[_i];
	struct mk_imports *imports = imports_of_west();
	cleanup_free char *before = NULL, *after = NULL;
	json_object *tree = published_of("east", row->spec);
	struct mk_error err;

	published_apply(imports, "east", OLD WEB SLICES(EP("10.244.1.2")));
	before = merged_text(imports, "shop", "web");
	ck_assert_msg(mk_imports_apply(imports, tree, &err) == -EINVAL, "%s: accepted", row->name);
	ck_assert_msg(strstr(mk_error_text(&err), row->expected) &&
			      strncmp(mk_error_text(&err),
				      "PublishedService 'east.shop.web': ", 34) == 0,
		      "%s: %s", row->name, mk_error_text(&err));
	after = merged_text(imports, "shop", "web");
	ck_assert_str_eq(before, after);
	json_object_put(tree);
	mk_imports_free(imports);
}
END_TEST

static void check_metadata(const char *text, const char *expected)
{
	struct mk_imports *imports = imports_of_west();
	json_object *tree = tree_of(text);
	struct mk_error err;

	ck_assert_msg(mk_imports_apply(imports, tree, &err) == -EINVAL, "accepted: %s", text);
	ck_assert_msg(strstr(mk_error_text(&err), expected) != NULL, "%s", mk_error_text(&err));
	json_object_put(tree);
	mk_imports_free(imports);
}

#define META(name, namespace_, cluster, spec)                         \
	"{'metadata': {'name': '" name "', 'namespace': '" namespace_ \
	"', 'labels': {'networking.monokube.io/cluster': '" cluster "'}}, 'spec': {" spec "}}"
#define SHOP_WEB "'namespace': 'shop', 'name': 'web'"

START_TEST(test_wrong_metadata)
{
	check_metadata("{}", "expected name and namespace");
	check_metadata("{'metadata': {'name': 'a', 'namespace': 'b'}}",
		       "expected the name of the cluster");
	check_metadata(META("east.shop.web", "monokube-peers", "east.", SHOP_WEB),
		       "is 'east.', expected the name of the cluster");
	check_metadata(META("west.shop.web", "monokube-peers", "west", SHOP_WEB),
		       "what cluster 'west' publishes is in 'monokube-published' here");
	check_metadata(META("east.shop.web", "monokube-published", "east", SHOP_WEB),
		       "is in 'monokube-peers' here");
	check_metadata(META("east.shop.api", "monokube-peers", "east", SHOP_WEB),
		       "metadata.name is 'east.shop.api', expected 'east.shop.web'");
	check_metadata(META("north.shop.web", "monokube-peers", "east", SHOP_WEB),
		       "expected 'east.shop.web'");
	check_metadata(META("east.shop.web.1", "monokube-peers", "east", SHOP_WEB),
		       "expected 'east.shop.web'");
	check_metadata(META("east.shop.web", "monokube-peers", "east",
			    SHOP_WEB ", 'part': 1, 'parts': 2"),
		       "expected 'east.shop.web.1'");
	check_metadata(META("east.shop.web", "monokube-peers", "east", "'name': 'web'"),
		       "spec: namespace is missing");
	check_metadata(META("east.shop.web", "monokube-peers", "east",
			    "'namespace': 'shop', 'name': 'w.b'"),
		       "spec: name: value \"w.b\"");
}
END_TEST

UNIT_SUITE("imports")
{
	TCase *merge = unit_case(suite, "merge", NULL, NULL);
	TCase *wrong = unit_case(suite, "refused", NULL, NULL);

	tcase_add_loop_test(merge, test_merge, 0, (int)MK_ARRAY_SIZE(rows));
	tcase_add_loop_test(wrong, test_refused, 0, (int)MK_ARRAY_SIZE(refused));
	tcase_add_test(wrong, test_wrong_metadata);
}
