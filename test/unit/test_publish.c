// SPDX-License-Identifier: Apache-2.0
/* What a cluster publishes of an exported Service. Each row also checks that the result does not
 * depend on the order of the slices, and that a reader accepts every part. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "unit/clusterset_text.h"
#include "unit/unit.h"

#define SLICES_MAX 8

#define NAMED(kind, name, more, spec)                                                    \
	"{'kind': '" kind "', 'metadata': {'name': '" name "', 'namespace': 'shop'" more \
	"}, 'spec': {" spec "}}"
#define EXPORT(spec) \
	NAMED("ServiceExport", "web", ", 'creationTimestamp': '2026-01-02T03:04:05Z'", spec)
#define SERVICE(spec) NAMED("Service", "web", "", spec)
#define WEB_PORTS     "'ports': [" HTTP "]"
#define SLICE_WITH(name, type, more, eps)                                  \
	"{'metadata': {'name': '" name "'" more "}, 'addressType': '" type \
	"', 'ports': [" HTTP_8080 "], 'endpoints': [" eps "]}"
#define SLICE(name, type, eps) SLICE_WITH(name, type, "", eps)
#define POD		       SLICE("web-1", "IPv4", EP("10.244.1.2"))
#define ENDPOINT(more)	       SLICE("web-1", "IPv4", "{'addresses': ['10.244.1.2'], " more "}")

static const struct row {
	const char *name;
	const char *export_spec; /* NULL: no members */
	const char *service; /* NULL: SERVICE(WEB_PORTS); "": none */
	const char *slices; /* NULL: POD */
	const char *want[3]; /* in the result */
	const char *lack; /* not in it */
} rows[] = {
	/* ---- which exports count ---- */
	{ "a Service", .want = { "valid, 1 endpoints, 0 left out", "'type':'ClusterSetIP'" } },
	{ "no Service", .service = "", .want = { "NoService" }, .lack = "PublishedService" },
	{ "conformance: ExternalName is not exported",
	  .service = SERVICE("'type': 'ExternalName', 'externalName': 'example.com'"),
	  .want = { "InvalidServiceType" }, .lack = "PublishedService" },
	{ "a headless Service", .service = SERVICE("'clusterIP': 'None', " WEB_PORTS),
	  .want = { "'type':'Headless'" } },
	{ "NodePort", .service = SERVICE("'type': 'NodePort', " WEB_PORTS),
	  .want = { "'type':'ClusterSetIP'" } },
	{ "LoadBalancer", .service = SERVICE("'type': 'LoadBalancer', " WEB_PORTS),
	  .want = { "'type':'ClusterSetIP'" } },
	{ "a Service without endpoints", .slices = "",
	  .want = { "valid, 0 endpoints", "'slices':[]" } },
	{ "a headless Service without ports", .service = SERVICE("'clusterIP': 'None'"),
	  .want = { "valid", "'ports':[]" } },
	/* ---- names ---- */
	{ "name, namespace, labels of the object",
	  .want = { "'metadata':{'name':'west.shop.web','namespace':'monokube-published'",
		    "'app.kubernetes.io/managed-by':'monokube.io'",
		    "'networking.monokube.io/cluster':'west'" } },
	{ "names in spec", .want = { "'spec':{'namespace':'shop','name':'web'" } },
	{ "time of the export", .want = { "'exported':'2026-01-02T03:04:05Z'" } },
	{ "one part", .want = { "'part':0,'parts':1,'slices'" }, .lack = "layout" },
	/* ---- ports ---- */
	{ "a port", .want = { "'ports':[{'name':'http','protocol':'TCP','port':80}],'session" } },
	{ "a port without name", .service = SERVICE("'ports': [{'port': 80}]"),
	  .want = { "'ports':[{'protocol':'TCP','port':80}],'session" } },
	{ "UDP", .service = SERVICE("'ports': [{'name': 'dns', 'protocol': 'UDP', 'port': 53}]"),
	  .want = { "{'name':'dns','protocol':'UDP','port':53}" } },
	{ "SCTP", .service = SERVICE("'ports': [{'name': 's', 'protocol': 'SCTP', 'port': 9}]"),
	  .want = { "{'name':'s','protocol':'SCTP','port':9}" } },
	{ "appProtocol",
	  .service = SERVICE(
		  "'ports': [{'name': 'a', 'port': 9, 'appProtocol': 'kubernetes.io/h2c'}]"),
	  .want = { "'port':9,'appProtocol':'kubernetes.io/h2c'}" } },
	{ "nodePort and targetPort stay here",
	  .service = SERVICE(
		  "'ports': [{'name': 'a', 'port': 9, 'nodePort': 30000, 'targetPort': 7}]"),
	  .want = { "{'name':'a','protocol':'TCP','port':9}" }, .lack = "30000" },
	{ "several ports keep their order",
	  .service = SERVICE("'ports': [{'name': 'b', 'port': 2}, {'name': 'a', 'port': 1}]"),
	  .want = { "'port':2},{'name':'a'" } },
	{ "one port for two protocols",
	  .service = SERVICE(
		  "'ports': [{'name': 'a', 'port': 53}, {'name': 'b', 'protocol': 'UDP', 'port': 53}]"),
	  .want = { "valid" } },
	{ "a wrong port", .service = SERVICE("'ports': [{'name': 'a', 'port': 0}]"),
	  .want = { "failed",
		    "Service: ports[0]: port: value 0, expected a number from 1 to 65535" } },
	{ "a port twice",
	  .service = SERVICE("'ports': [{'name': 'a', 'port': 1}, {'name': 'b', 'port': 1}]"),
	  .want = { "failed", "ports[1]: port: TCP 1 is twice" } },
	{ "a port's name twice",
	  .service = SERVICE("'ports': [{'name': 'a', 'port': 1}, {'name': 'a', 'port': 2}]"),
	  .want = { "failed", "ports[1]: name: 'a' is twice" } },
	/* ---- how the Service is used ---- */
	{ "no affinity", .want = { "'sessionAffinity':'None'" }, .lack = "sessionAffinityConfig" },
	{ "affinity",
	  .service = SERVICE(
		  "'sessionAffinity': 'ClientIP', 'sessionAffinityConfig': {'clientIP': {'timeoutSeconds': 600}}, " WEB_PORTS),
	  .want = { "'sessionAffinity':'ClientIP','sessionAffinityConfig':{'clientIP':{'timeoutSeconds':600}}" } },
	{ "internalTrafficPolicy",
	  .service = SERVICE("'internalTrafficPolicy': 'Local', " WEB_PORTS),
	  .want = { "'internalTrafficPolicy':'Local'" } },
	{ ".. Cluster is the default",
	  .service = SERVICE("'internalTrafficPolicy': 'Cluster', " WEB_PORTS),
	  .want = { "'internalTrafficPolicy':'Cluster'" } },
	{ ".. also of an API server that does not set it", .service = SERVICE(WEB_PORTS),
	  .want = { "'internalTrafficPolicy':'Cluster'" } },
	{ "trafficDistribution",
	  .service = SERVICE("'trafficDistribution': 'PreferClose', " WEB_PORTS),
	  .want = { "'trafficDistribution':'PreferClose'" } },
	{ "families", .service = SERVICE("'ipFamilies': ['IPv6', 'IPv4'], " WEB_PORTS),
	  .want = { "'ipFamilies':['IPv4','IPv6']" } },
	{ "one family", .service = SERVICE("'ipFamilies': ['IPv6'], " WEB_PORTS),
	  .want = { "'ipFamilies':['IPv6']" } },
	{ "externalTrafficPolicy stays here",
	  .service = SERVICE("'externalTrafficPolicy': 'Local', " WEB_PORTS),
	  .lack = "externalTrafficPolicy" },
	/* ---- labels and annotations ---- */
	{ "conformance: only exported labels and annotations travel",
	  .export_spec =
		  "'exportedLabels': {'dummy-label': 'true'}, 'exportedAnnotations': {'dummy-annotation': 'true'}",
	  .service = NAMED("Service", "web",
			   ", 'labels': {'own-label': 'x'}, 'annotations': {'own-annotation': 'x'}",
			   WEB_PORTS),
	  .want = { "'labels':{'dummy-label':'true'},'annotations':{'dummy-annotation':'true'}" },
	  .lack = "own-" },
	{ "labels are sorted", .export_spec = "'exportedLabels': {'b': '2', 'a': '1'}",
	  .want = { "'labels':{'a':'1','b':'2'}" } },
	{ "a preference may be exported",
	  .export_spec = "'exportedAnnotations': {'networking.monokube.io/prefer': 'local, east'}",
	  .want = { "'networking.monokube.io/prefer':'local, east'" } },
	{ "who manages an import may not",
	  .export_spec = "'exportedLabels': {'app.kubernetes.io/managed-by': 'me', 'a': '1'}",
	  .want = { "valid",
		    "label 'app.kubernetes.io/managed-by' is not exported: its key is reserved",
		    "'labels':{'a':'1'}" } },
	{ ".. nor labels of imports",
	  .export_spec = "'exportedLabels': {'multicluster.kubernetes.io/service-name': 'x'}",
	  .want = { "is not exported: its key is reserved" }, .lack = "'labels':{'multi" },
	{ ".. nor ours", .export_spec = "'exportedLabels': {'networking.monokube.io/cluster': 'x'}",
	  .want = { "is not exported: its key is reserved" } },
	{ ".. nor kubectl's notes",
	  .export_spec =
		  "'exportedAnnotations': {'kubectl.kubernetes.io/last-applied-configuration': '{}'}",
	  .want = { "annotation 'kubectl.kubernetes.io/last-applied-configuration' is not exported" } },
	{ "a key that the API server refuses", .export_spec = "'exportedLabels': {'-a': 'x'}",
	  .want = { "valid", "'-a' is not exported: its key makes no sense" } },
	{ "a prefix that it refuses", .export_spec = "'exportedLabels': {'A_b/x': 'x'}",
	  .want = { "'A_b/x' is not exported: its key makes no sense" } },
	{ "a value that it refuses", .export_spec = "'exportedLabels': {'a': 'x y'}",
	  .want = { "'a' is not exported: a label's value has" } },
	{ "a long value of a label",
	  .export_spec =
		  "'exportedLabels': {'a': '0123456789012345678901234567890123456789012345678901234567890123'}",
	  .want = { "'a' is not exported: a label's value has at most 63" } },
	{ "annotations may have any text", .export_spec = "'exportedAnnotations': {'a': 'x y, ä'}",
	  .want = { "'annotations':{'a':'x y, ä'}" } },
	/* ---- endpoints ---- */
	{ "an endpoint",
	  .want = { "'slices':[{'name':'web-1','addressType':'IPv4','ports':[{'name':'http','protocol':'TCP','port':8080}],'endpoints':[{'addresses':['10.244.1.2'],'conditions':{'ready':true}}]}]" } },
	{ "all that travels with it",
	  .slices = ENDPOINT(
		  "'conditions': {'ready': false, 'serving': true, 'terminating': true}, 'nodeName': 'n1', 'zone': 'a', 'hostname': 'web-0', 'hints': {'forZones': [{'name': 'a'}, {'name': 'b'}]}"),
	  .want = { "'conditions':{'ready':false,'serving':true,'terminating':true},'hostname':'web-0','nodeName':'n1','zone':'a','hints':{'forZones':[{'name':'a'},{'name':'b'}]}" } },
	{ "targetRef stays here", .slices = ENDPOINT("'targetRef': {'name': 'web-x'}"),
	  .lack = "web-x" },
	{ "no conditions", .slices = ENDPOINT("'zone': 'a'"),
	  .want = { "'conditions':{},'zone':'a'" } },
	{ "the first address counts",
	  .slices = SLICE("web-1", "IPv4", "{'addresses': ['10.244.1.2', '10.244.1.3']}"),
	  .want = { "['10.244.1.2']" } },
	{ "sorted by address",
	  .slices = SLICE("web-1", "IPv4", EP("10.244.2.1") "," EP("10.244.1.9")),
	  .want = { "['10.244.1.9'],'conditions':{'ready':true}},{'addresses':['10.244.2.1']" } },
	{ "an address twice: the one that does not terminate",
	  .slices = SLICE(
		  "web-1", "IPv4",
		  "{'addresses': ['10.244.1.2'], 'conditions': {'terminating': true}}, {'addresses': ['10.244.1.2'], 'zone': 'b'}"),
	  .want = { "valid, 1 endpoints", "'zone':'b'" }, .lack = "terminating" },
	{ "IPv6", .slices = SLICE("web-1", "IPv6", EP("fd00:244::12")),
	  .want = { "'addressType':'IPv6'", "['fd00:244::12']" } },
	{ "both families", .slices = POD "," SLICE("web-2", "IPv6", EP("fd00:244::12")),
	  .want = { "valid, 2 endpoints" } },
	{ "host network: left out and named",
	  .slices = SLICE("web-1", "IPv4", EP("10.244.1.2") "," EP("192.168.1.5")),
	  .want = { "valid, 1 endpoints, 1 left out",
		    "endpoint 192.168.1.5 of EndpointSlice 'web-1' is left out: it is no address of this cluster's pods" },
	  .lack = "['192.168.1.5']" },
	{ "a pod of another cluster: left out", .slices = SLICE("web-1", "IPv4", EP("240.0.1.2")),
	  .want = { "valid, 0 endpoints, 1 left out", "'slices':[]" } },
	{ "only those of the range",
	  .slices = SLICE("web-1", "IPv4",
			  EP("10.245.0.1") "," EP("10.244.0.1") "," EP("10.243.255.255")),
	  .want = { "valid, 1 endpoints, 2 left out" } },
	{ "names of hosts", .slices = SLICE("web-1", "FQDN", "{'addresses': ['example.com']}"),
	  .want = { "valid, 0 endpoints, 1 left out",
		    "EndpointSlice 'web-1' is left out: addressType: value \"FQDN\", expected IPv4 or IPv6" } },
	{ "a slice that makes no sense",
	  .slices = SLICE("web-1", "IPv4", "{'addresses': ['10.244.1.300']}") "," SLICE(
		  "web-2", "IPv4", EP("10.244.1.2")),
	  .want = { "valid, 1 endpoints, 1 left out",
		    "endpoints[0]: addresses[0]: value \"10.244.1.300\", expected an IPv4 address" } },
	{ "a slice whose name no reader accepts",
	  .slices = SLICE("web-\xff", "IPv4", EP("10.244.1.2")) "," SLICE("web-2", "IPv4",
									  EP("10.244.1.3")),
	  .want = { "valid, 1 endpoints, 1 left out", "is left out: name: value \"web-",
		    "expected UTF-8 of at most" } },
	{ "slices are sorted by name",
	  .slices = SLICE("web-2", "IPv4", EP("10.244.1.2")) "," SLICE("web-1", "IPv4",
								       EP("10.244.1.3")),
	  .want = { "'slices':[{'name':'web-1'" } },
	{ "a port of a slice without number",
	  .slices =
		  "{'metadata': {'name': 'w'}, 'addressType': 'IPv4', 'ports': [{'name': 'all'}, " HTTP
		  "], 'endpoints': [" EP("10.244.1.2") "]}",
	  .want = { "'addressType':'IPv4','ports':[{'name':'http'" } },
	{ "when the change began",
	  .slices = SLICE_WITH(
		  "web-1", "IPv4",
		  ", 'annotations': {'endpoints.kubernetes.io/last-change-trigger-time': '2026-01-02T03:04:06.5Z'}",
		  EP("10.244.1.2")),
	  .want = { "'triggerTime':'2026-01-02T03:04:06.5Z'" } },
	{ ".. unless that is no time",
	  .slices = SLICE_WITH(
		  "web-1", "IPv4",
		  ", 'annotations': {'endpoints.kubernetes.io/last-change-trigger-time': 'now'}",
		  EP("10.244.1.2")),
	  .want = { "valid, 1 endpoints" }, .lack = "triggerTime" },
};

static const struct mk_publish_own *west(void)
{
	static struct mk_publish_own own;

	own = (struct mk_publish_own){
		.cluster = "west",
		.home = { cidr_of("10.244.0.0/16"), cidr_of("fd00:244::/56") },
	};
	return &own;
}

static const char *const verdicts[] = {
	[MK_EXPORT_VALID] = "valid",
	[MK_EXPORT_NO_SERVICE] = "NoService",
	[MK_EXPORT_INVALID_TYPE] = "InvalidServiceType",
	[MK_EXPORT_FAILED] = "failed",
};

/* A reader accepts what is published. */
static void check_readable(const struct mk_publication *result)
{
	struct mk_imports *imports = imports_of_west();
	struct mk_error err;

	for (size_t i = 0; i < result->part_count; i++)
		ck_ok(mk_imports_apply(imports, result->parts[i], &err));
	mk_imports_free(imports);
}

static char *publish(json_object *service_export, json_object *service, json_object **slices,
		     size_t count)
{
	struct mk_publication result;
	struct mk_error err;
	char *text = NULL;

	ck_ok(mk_publish(west(), service_export, service, slices, count, &result, &err));
	check_readable(&result);
	text_add(&text, "%s, %zu endpoints, %zu left out, %zu parts: %s\n",
		 verdicts[result.verdict], result.endpoint_count, result.left_out,
		 result.part_count, result.note ?: "");
	for (size_t i = 0; i < result.part_count; i++) {
		cleanup_free char *part = text_of_tree(result.parts[i]);

		text_add(&text, "%s\n", part);
	}
	mk_publication_release(&result);
	return text;
}

static void reverse(json_object **slices, size_t count)
{
	for (size_t i = 0; i < count / 2; i++) {
		json_object *first = slices[i];

		slices[i] = slices[count - 1 - i];
		slices[count - 1 - i] = first;
	}
}

/* ---- external addresses ---------------------------------------------------------------------- */

static const struct mk_imports_cluster *peers_of_west(size_t *count)
{
	static struct mk_imports_cluster peers[4];
	static const char *const names[] = { "north", "south", "silent", "short" },
				 *const views[] = { "240.5.0.0/16", "172.20.0.0/16", "240.8.0.0/16",
						    "240.9.0.0/17" };

	for (size_t i = 0; i < 4; i++) {
		peers[i] = (struct mk_imports_cluster){ .name = names[i] };
		peers[i].view[0] = cidr_of(views[i]);
		if (i != 2)
			peers[i].home[0] = cidr_of("10.244.0.0/16");
	}
	peers[0].external_home[0] = cidr_of("247.255.0.0/20");
	peers[0].external_view[0] = cidr_of("240.6.0.0/20");
	*count = 4;
	return peers;
}

static const struct mk_publish_own *west_with(struct mk_externals *externals)
{
	static struct mk_publish_own own;

	own = *west();
	own.externals = externals;
	own.peers = peers_of_west(&own.peer_count);
	own.virtual[0] = cidr_of("240.0.0.0/6");
	own.virtual[1] = cidr_of("247.255.0.0/30");
	return &own;
}

static char *publish_externals(struct mk_externals *externals, const char *endpoints)
{
	cleanup_free char *slices = NULL;
	json_object *service = tree_of(SERVICE(WEB_PORTS)), *service_export = tree_of(EXPORT("")),
		    *slice;
	struct mk_publication result;
	struct mk_error err;
	char *text = NULL;

	text_add(&slices,
		 "{'metadata': {'name': 'web-1'}, 'addressType': 'IPv4', 'ports': [" HTTP_8080
		 "], 'endpoints': [%s]}",
		 endpoints);
	slice = tree_of(slices);
	ck_ok(mk_publish(west_with(externals), service_export, service, &slice, 1, &result, &err));
	check_readable(&result);
	text_add(&text, "%zu endpoints, %zu left out: %s\n", result.endpoint_count, result.left_out,
		 result.note ?: "");
	if (result.part_count) {
		cleanup_free char *part = text_of_tree(result.parts[0]);

		text_add(&text, "%s", part);
	}
	mk_publication_release(&result);
	json_object_put(service);
	json_object_put(service_export);
	json_object_put(slice);
	return text;
}

static const struct {
	const char *name, *endpoints, *want[3], *lack;
} external_rows[] = {
	{ "a host's address",
	  EP("192.168.1.5"),
	  { "1 endpoints, 0 left out", "'addresses':['247.255.0.", "'target':'192.168.1.5'" },
	  "['192.168.1.5']" },
	{ "the label by which nodes find it",
	  EP("192.168.1.5"),
	  { "'networking.monokube.io/external':'true'" },
	  NULL },
	{ "a pod has none", EP("10.244.1.2"), { "['10.244.1.2']" }, "external" },
	{ "beside a pod",
	  EP("10.244.1.2") "," EP("192.168.1.5"),
	  { "2 endpoints, 0 left out", "['10.244.1.2']", "'target':'192.168.1.5'" },
	  NULL },
	{ "a view: not mapped",
	  EP("240.0.1.2"),
	  { "0 endpoints, 1 left out", "240.0.1.2 of EndpointSlice 'web-1' is left out",
	    "which means another endpoint" },
	  "target" },
	{ "a pod of a peer: cluster and home address",
	  EP("240.5.1.2"),
	  { "1 endpoints, 0 left out", "'addresses':['10.244.1.2']", "'cluster':'north'" },
	  "240.5" },
	{ ".. beside a pod here with that address",
	  EP("240.5.1.2") "," EP("10.244.1.2"),
	  { "2 endpoints, 0 left out" },
	  "target" },
	{ "an external address of a peer: of that cluster",
	  EP("240.6.0.5"),
	  { "1 endpoints, 0 left out", "'addresses':['247.255.0.5']", "'cluster':'north'" },
	  "target" },
	{ "a view outside of peerPools: not mapped",
	  EP("172.20.1.2"),
	  { "1 endpoints, 0 left out", "'addresses':['10.244.1.2']", "'cluster':'south'" },
	  "target" },
	{ "a peer that has published no range: not mapped",
	  EP("240.8.1.2"),
	  { "0 endpoints, 1 left out" },
	  "cluster':'silent" },
	{ "a view of another length than the pod range: not mapped",
	  EP("240.9.1.2"),
	  { "0 endpoints, 1 left out" },
	  "cluster':'short" },
	{ "an external address: not mapped again", EP("247.255.0.1"), { "1 left out" }, "target" },
	{ "an address of the host alone",
	  EP("127.0.0.1"),
	  { "1 left out", "other nodes do not reach" },
	  "target" },
	{ "the range is exhausted",
	  EP("192.0.2.1") "," EP("192.0.2.2") "," EP("192.0.2.3") "," EP("192.0.2.4"),
	  { "3 endpoints, 1 left out", "externalCidr has no free address" },
	  NULL },
};

START_TEST(test_externals)
{
	const struct mk_cidr ranges[MK_FAMILIES] = { cidr_of("247.255.0.0/30") };
	struct mk_externals *externals = mk_externals_new(ranges);
	cleanup_free char *text = publish_externals(externals, external_rows[_i].endpoints),
			  *again = publish_externals(externals, external_rows[_i].endpoints);

	for (size_t i = 0; i < 3 && external_rows[_i].want[i]; i++)
		ck_assert_msg(strstr(text, external_rows[_i].want[i]) != NULL,
			      "%s: no \"%s\" in %s", external_rows[_i].name,
			      external_rows[_i].want[i], text);
	if (external_rows[_i].lack)
		ck_assert_msg(!strstr(text, external_rows[_i].lack), "%s: \"%s\" in %s",
			      external_rows[_i].name, external_rows[_i].lack, text);
	ck_assert_str_eq(text, again);
	mk_externals_free(externals);
}
END_TEST

START_TEST(test_publish)
{
	const struct row *row = &rows[_i];
	cleanup_free char *slices_text = NULL, *export_text = NULL, *once, *again;
	json_object *service = NULL, *service_export, *list, *slices[SLICES_MAX];
	size_t count;

	text_add(&slices_text, "[%s]", row->slices ?: POD);
	text_add(
		&export_text,
		"{'kind': 'ServiceExport', 'metadata': {'name': 'web', 'namespace': 'shop', 'creationTimestamp': '2026-01-02T03:04:05Z'}, 'spec': {%s}}",
		row->export_spec ?: "");
	if (!row->service || *row->service)
		service = tree_of(row->service ?: SERVICE(WEB_PORTS));
	service_export = tree_of(export_text);
	list = tree_of(slices_text);
	count = json_object_array_length(list);
	for (size_t i = 0; i < count; i++)
		slices[i] = json_object_array_get_idx(list, i);
	once = publish(service_export, service, slices, count);
	reverse(slices, count);
	again = publish(service_export, service, slices, count);
	if (!strstr(once, "left out: addressType") && !strstr(once, "left out: endpoints"))
		ck_assert_msg(strcmp(once, again) == 0, "%s: %s is not %s", row->name, once, again);
	for (size_t i = 0; i < MK_ARRAY_SIZE(row->want) && row->want[i]; i++)
		ck_assert_msg(strstr(once, row->want[i]), "%s: no %s in %s", row->name,
			      row->want[i], once);
	ck_assert_msg(!row->lack || !strstr(once, row->lack), "%s: %s in %s", row->name, row->lack,
		      once);
	json_object_put(service);
	json_object_put(service_export);
	json_object_put(list);
}
END_TEST

/* ---- many endpoints -------------------------------------------------------------------------- */

static json_object *slice_with(size_t number, size_t endpoints)
{
	cleanup_free char *text = NULL;

	text_add(&text,
		 "{'metadata': {'name': 'web-%03zu'}, 'addressType': 'IPv4', 'ports': [" HTTP
		 "], 'endpoints': [",
		 number);
	for (size_t i = 0; i < endpoints; i++)
		text_add(&text, "%s{'addresses': ['10.244.%zu.%zu']}", i ? "," : "",
			 number * 4 % 256 + i / 250, i % 250 + 1);
	text_add(&text, "]}");
	return tree_of(text);
}

static void publish_slices(const size_t *endpoints, size_t count, struct mk_publication *result)
{
	json_object *service = tree_of(SERVICE(WEB_PORTS)), *service_export = tree_of(EXPORT(""));
	json_object **slices = calloc(count, sizeof(json_object *));
	struct mk_error err;

	for (size_t i = 0; i < count; i++)
		slices[i] = slice_with(i, endpoints[i]);
	ck_ok(mk_publish(west(), service_export, service, slices, count, result, &err));
	for (size_t i = 0; i < count; i++)
		json_object_put(slices[i]);
	free(slices);
	json_object_put(service);
	json_object_put(service_export);
}

/* The member @key of spec of part @part, as text. */
static const char *spec_of(const struct mk_publication *result, size_t part, const char *key)
{
	json_object *value, *spec = json_object_object_get(result->parts[part], "spec");

	json_object_object_get_ex(spec, key, &value);
	return json_object_get_string(value);
}

START_TEST(test_parts)
{
	static const size_t endpoints[] = { 600, 400, 1, 1000 };
	struct mk_publication result;
	json_object *metadata;

	publish_slices(endpoints, 4, &result);
	ck_assert_uint_eq(result.part_count, 3);
	ck_assert_uint_eq(result.endpoint_count, 2001);
	ck_assert_str_eq(spec_of(&result, 2, "parts"), "3");
	ck_assert_str_eq(spec_of(&result, 2, "part"), "2");
	ck_assert_str_eq(spec_of(&result, 0, "layout"), spec_of(&result, 2, "layout"));
	json_object_object_get_ex(result.parts[2], "metadata", &metadata);
	ck_assert_str_eq(json_object_get_string(json_object_object_get(metadata, "name")),
			 "west.shop.web.2");
	check_readable(&result);
	mk_publication_release(&result);
}
END_TEST

/* Another endpoint in a slice does not change the division; another slice in a part does. */
START_TEST(test_layout)
{
	static const size_t before[] = { 600, 300, 500 }, more[] = { 600, 301, 500 },
			    moved[] = { 600, 401, 500 };
	struct mk_publication results[3];

	publish_slices(before, 3, &results[0]);
	publish_slices(more, 3, &results[1]);
	publish_slices(moved, 3, &results[2]);
	ck_assert_str_eq(spec_of(&results[0], 0, "layout"), spec_of(&results[1], 0, "layout"));
	ck_assert_str_ne(spec_of(&results[0], 0, "layout"), spec_of(&results[2], 0, "layout"));
	for (size_t i = 0; i < 3; i++)
		mk_publication_release(&results[i]);
}
END_TEST

START_TEST(test_too_many)
{
	size_t endpoints[51];
	struct mk_publication result;

	for (size_t i = 0; i < 51; i++)
		endpoints[i] = 1000;
	publish_slices(endpoints, 51, &result);
	ck_assert_int_eq(result.verdict, MK_EXPORT_FAILED);
	ck_assert_uint_eq(result.part_count, 0);
	ck_assert_ptr_nonnull(strstr(result.note, "51000 endpoints are too many"));
	mk_publication_release(&result);
	publish_slices(endpoints, 50, &result);
	ck_assert_uint_eq(result.part_count, 50);
	mk_publication_release(&result);
}
END_TEST

UNIT_SUITE("publish")
{
	TCase *tcase = unit_case(suite, "publish", NULL, NULL);

	tcase_add_loop_test(tcase, test_externals, 0, (int)MK_ARRAY_SIZE(external_rows));
	tcase_add_loop_test(tcase, test_publish, 0, (int)MK_ARRAY_SIZE(rows));
	tcase_add_test(tcase, test_parts);
	tcase_add_test(tcase, test_layout);
	tcase_add_test(tcase, test_too_many);
}
