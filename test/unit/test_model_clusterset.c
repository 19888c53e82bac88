// SPDX-License-Identifier: Apache-2.0
/* ServiceImports, their EndpointSlices and ServiceExports in the model: what is kept, what is
 * refused, and what the listener hears. */
#include <string.h>

#include "base/cleanup.h"
#include "cluster/model/model_internal.h"
#include "unit/model_text.h"
#include "unit/unit.h"

#define MCS(version, kind, meta, rest)                                             \
	"{'apiVersion': 'multicluster.x-k8s.io/" version "', 'kind': '" kind "', " \
	"'metadata': {" meta "}" rest "}"
#define WEB	     "'name': 'web', 'namespace': 'shop'"
#define IMPORT(spec) MCS("v1beta1", "ServiceImport", WEB, ", 'spec': {" spec "}")
#define EXPORT(more) MCS("v1beta1", "ServiceExport", WEB more, "")
#define PREFERS(annotations)                                                      \
	MCS("v1beta1", "ServiceImport", WEB ", 'annotations': {" annotations "}", \
	    ", 'spec': {" PORT_80 "}")
#define PREFER	 "'networking.monokube.io/prefer': "
#define EXPORTED "'networking.monokube.io/exported-prefer': "
#define PORT_80	 "'ports': [{'port': 80}]"
#define SLICE(labels, endpoint)                                                                \
	"{'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', 'addressType': "       \
	"'IPv4', 'metadata': {'name': 'web-1', 'namespace': 'shop', 'labels': {" labels "}}, " \
	"'ports': [{'port': 8080}], 'endpoints': [{" endpoint "}]}"
#define OF_IMPORT "'multicluster.kubernetes.io/service-name': 'web'"
#define OF_EAST	  OF_IMPORT ", 'multicluster.kubernetes.io/source-cluster': 'east'"
#define OF_WEST	  OF_IMPORT ", 'multicluster.kubernetes.io/source-cluster': 'west'"
#define VIEW	  "'addresses': ['240.0.1.2']"
#define ON_NODE                                                                             \
	VIEW ", 'nodeName': 'n1', 'hints': {'forZones': [{'name': 'z'}], 'forNodes': [{'na" \
	     "me': 'n1'}]}"

static struct mk_model *model;

static void hear_export(void *ctx, const char *namespace_, const char *name)
{
	(void)ctx;
	hear("%sexport:%s/%s", *heard ? " " : "", namespace_, name);
}

/* This is cluster west. */
static void setup_with(const struct mk_clusterset *clusterset)
{
	model = mk_model_new();
	ck_assert_ptr_nonnull(model);
	mk_model_set_listener(model, &(struct mk_model_listener){ .service_changed = hear_service,
								  .export_changed = hear_export });
	if (clusterset)
		mk_model_set_clusterset(model, clusterset);
	heard[0] = '\0';
}

static struct mk_clusterset west(const char *range, const char *other)
{
	struct mk_clusterset west = { .cluster_name = "west" };

	ck_assert_int_eq(mk_cidr_parse(range, &west.ranges[0]), 0);
	if (other)
		ck_assert_int_eq(mk_cidr_parse(other, &west.ranges[1]), 0);
	return west;
}

static void setup(void)
{
	const struct mk_clusterset clusterset = west("247.254.0.0/16", "fd6d:6b63:7300::/112");

	setup_with(&clusterset);
}

static void teardown(void)
{
	mk_model_free(model);
}

static void visit_service(void *ctx, const struct mk_service_object *service)
{
	summarize_service(ctx, service);
	mk_line_add(ctx, "%s;", service->imported ? " imported" : "");
}

static void visit_export(void *ctx, const struct mk_service_export *of)
{
	mk_line_add(ctx, "export %s/%s", of->namespace_, of->name);
	if (of->created_unix_s)
		mk_line_add(ctx, " since:%lld", (long long)of->created_unix_s);
	ck_assert_ptr_eq(mk_model_service_export(model, of->namespace_, of->name), of);
}

/* All that the model knows. */
static void summarize(struct line *line)
{
	*line = (struct line){ 0 };
	mk_model_each(struct mk_service_object, of, model, MK_KIND_SERVICE)
		visit_service(line, of);
	summarize_endpoints(line, model, "shop", "web");
	summarize_endpoints(line, model, "shop", "web.clusterset");
	mk_model_each(struct mk_service_export, of, model, MK_KIND_SERVICE_EXPORT)
		visit_export(line, of);
}

/* ---- what is kept ---------------------------------------------------------------------------- */

#define SERVICE_WEB "shop/web.clusterset ClusterIP"
#define OF_WEB	    "shop/web.clusterset"
#define A_TO_J(x)   x "a," x "b," x "c," x "d," x "e," x "f," x "g," x "h," x "i," x "j,"

static const struct {
	const char *name, *object, *expected, *heard;
} good[] = {
	{ "an import", IMPORT("'type': 'ClusterSetIP', 'ips': ['247.254.1.2'], " PORT_80),
	  SERVICE_WEB " ip=247.254.1.2 :80/tcp imported;", OF_WEB },
	{ "an import of the older version",
	  MCS("v1alpha1", "ServiceImport", WEB,
	      ", 'spec': {'type': 'ClusterSetIP', 'ips': ['247.254.1.2'], " PORT_80 "}"),
	  SERVICE_WEB " ip=247.254.1.2 :80/tcp imported;", OF_WEB },
	{ "an import with all that counts",
	  IMPORT("'type': 'ClusterSetIP', 'ips': ['fd6d:6b63:7300::9', '247.254.1.2'], 'ports': "
		 "[{'name': 'http', 'port': 80, 'appProtocol': 'http'}, {'name': 'dns', 'port': 53,"
		 " 'protocol': 'UDP'}], 'sessionAffinity': 'ClientIP', 'sessionAffinityConfig': "
		 "{'clientIP': {'timeoutSeconds': 60}}, 'internalTrafficPolicy': 'Local', "
		 "'trafficDistribution': 'PreferClose', 'ipFamilies': ['IPv6', 'IPv4']"),
	  SERVICE_WEB " ip=247.254.1.2,fd6d:6b63:7300::9 http:80/tcp dns:53/udp affinity=60s "
		      "int-local imported;",
	  OF_WEB },
	{ "an import without address yet", IMPORT("'type': 'ClusterSetIP', " PORT_80),
	  SERVICE_WEB " :80/tcp imported;", OF_WEB },
	{ "a headless import has no address",
	  IMPORT("'type': 'Headless', 'ips': ['247.254.1.2'], " PORT_80),
	  SERVICE_WEB " :80/tcp imported;", OF_WEB },
	{ "an address of this cluster's Services is skipped",
	  IMPORT("'ips': ['10.96.0.10', 'fd6d:6b63:7300::9'], " PORT_80),
	  SERVICE_WEB " ip=fd6d:6b63:7300::9 :80/tcp imported;", OF_WEB },
	{ "an address of another range of IPv6 is skipped", IMPORT("'ips': ['fd00::1'], " PORT_80),
	  SERVICE_WEB " :80/tcp imported;", OF_WEB },
	{ "a preference: local is this cluster", PREFERS(PREFER "' local ,east,far-away'"),
	  SERVICE_WEB " :80/tcp prefers=west,east,far-away imported;", OF_WEB },
	{ "a preference that the oldest export gives", PREFERS(EXPORTED "'east'"),
	  SERVICE_WEB " :80/tcp prefers=east imported;", OF_WEB },
	{ "the user's preference goes before it", PREFERS(EXPORTED "'east', " PREFER "'local'"),
	  SERVICE_WEB " :80/tcp prefers=west imported;", OF_WEB },
	{ "an empty one of the user takes it away", PREFERS(EXPORTED "'east', " PREFER "' '"),
	  SERVICE_WEB " :80/tcp imported;", OF_WEB },
	{ "wrong and repeated names are left out", PREFERS(PREFER "'Ea st,,local,hub,west,hub'"),
	  SERVICE_WEB " :80/tcp prefers=west,hub imported;", OF_WEB },
	{ "at most 64 clusters",
	  PREFERS(PREFER "'" A_TO_J("a") A_TO_J("b") A_TO_J("c") A_TO_J("d") A_TO_J("e")
			  A_TO_J("f") "1,2,3,4,5,6'"),
	  SERVICE_WEB " :80/tcp prefers=" A_TO_J("a") A_TO_J("b") A_TO_J("c") A_TO_J("d")
		  A_TO_J("e") A_TO_J("f") "1,2,3,4 imported;",
	  OF_WEB },
	{ "a slice of another cluster: its nodes are none of this one", SLICE(OF_EAST, ON_NODE),
	  "240.0.1.2:8080/tcp  ready serving zones=z of=east", OF_WEB },
	{ "a slice of another cluster, without hints", SLICE(OF_EAST, VIEW),
	  "240.0.1.2:8080/tcp  ready serving of=east", OF_WEB },
	{ "a slice of this cluster", SLICE(OF_WEST, ON_NODE),
	  "240.0.1.2:8080/tcp @n1 ready serving zones=z nodes=n1 of=west", OF_WEB },
	{ "a slice of an unknown cluster", SLICE(OF_IMPORT, ON_NODE),
	  "240.0.1.2:8080/tcp  ready serving zones=z", OF_WEB },
	{ "a slice of a Service of this cluster, whatever other labels it has",
	  SLICE(OF_EAST ", 'kubernetes.io/service-name': 'web'", ON_NODE),
	  "240.0.1.2:8080/tcp @n1 ready serving zones=z nodes=n1", "shop/web" },
	{ "a slice with a name that is none",
	  SLICE("'multicluster.kubernetes.io/service-name': 'We b'", VIEW), "", "" },
	{ "a slice that is not for service proxies",
	  SLICE(OF_EAST ", 'service.kubernetes.io/headless': ''", VIEW), "", "" },
	{ "an export", EXPORT(""), "export shop/web", "export:shop/web" },
	{ "an export of the older version, and since when",
	  MCS("v1alpha1", "ServiceExport", WEB ", 'creationTimestamp': '2001-09-09T01:46:40Z'",
	      ", 'status': {'conditions': []}"),
	  "export shop/web since:1000000000", "export:shop/web" },
};

static void delete_all(void)
{
	mk_model_delete(model, MK_KIND_SERVICE_IMPORT, "shop", "web");
	mk_model_delete(model, MK_KIND_SERVICE_EXPORT, "shop", "web");
	mk_model_delete(model, MK_KIND_ENDPOINT_SLICE, "shop", "web-1");
}

START_TEST(test_good)
{
	struct line line;

	apply_good_text(model, good[_i].object);
	apply_good_text(model, good[_i].object);
	ck_assert_msg(strcmp(heard, good[_i].heard) == 0, "%s: heard \"%s\"", good[_i].name, heard);
	summarize(&line);
	ck_assert_msg(strcmp(line.text, good[_i].expected) == 0, "%s: got \"%s\", expected \"%s\"",
		      good[_i].name, line.text, good[_i].expected);
	heard[0] = '\0';
	delete_all();
	ck_assert_msg(strcmp(heard, good[_i].heard) == 0, "%s: at its end heard \"%s\"",
		      good[_i].name, heard);
	summarize(&line);
	ck_assert_str_eq(line.text, "");
	ck_assert_msg(texts_count(&model->texts) == 0, "%s: texts stay", good[_i].name);
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------- */

static const struct {
	const char *object, *error;
} bad[] = {
	{ MCS("v1beta1", "ServiceImport", "'name': 'a.b'", ", 'spec': {" PORT_80 "}"),
	  "ServiceImport default/a.b: metadata.name: 'a.b', expected lower case letters" },
	{ MCS("v2", "ServiceImport", WEB, ", 'spec': {" PORT_80 "}"),
	  "apiVersion: value \"multicluster.x-k8s.io/v2\", expected multicluster.x-k8s.io/v1beta1" },
	{ IMPORT("'type': 'ClusterIP', " PORT_80),
	  "ServiceImport shop/web: spec.type: value \"ClusterIP\", expected ClusterSetIP or Headl" },
	{ IMPORT("'ips': ['x']"), "spec.ips[0]: value \"x\", expected an IP address" },
	{ IMPORT("'ips': ['247.254.0.1', '247.254.0.2', '247.254.0.3']"),
	  "spec.ips: value a list, expected at most 2 entries" },
	{ IMPORT("'ports': [{'port': 0}]"), "spec.ports[0].port: value 0, expected a number" },
	{ IMPORT("'ports': [{'port': 80}, {'port': 80, 'name': 'b'}]"), "spec.ports[1]" },
	{ IMPORT("'sessionAffinity': 'Cookie'"), "spec.sessionAffinity: value \"Cookie\"" },
	{ "{'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 'web.clusterset'}}",
	  "Service default/web.clusterset: metadata.name: 'web.clusterset', expected a name" },
};

/* The last good version stays in force. */
START_TEST(test_bad)
{
	struct line before, after;
	struct mk_error err = { 0 };
	size_t texts;

	apply_good_text(model, IMPORT("'ips': ['247.254.1.2'], " PORT_80));
	summarize(&before);
	texts = texts_count(&model->texts);
	heard[0] = '\0';
	ck_assert_int_lt(apply_text(model, bad[_i].object, &err), 0);
	ck_assert_msg(strstr(err.text, bad[_i].error), "got \"%s\", expected \"%s\"", err.text,
		      bad[_i].error);
	summarize(&after);
	ck_assert_str_eq(before.text, after.text);
	ck_assert_str_eq(heard, "");
	ck_assert_uint_eq(texts_count(&model->texts), texts);
}
END_TEST

/* ---- Services beside ------------------------------------------------------------------------- */

#define SERVICE(spec) \
	"{'apiVersion': 'v1', 'kind': 'Service', 'metadata': {" WEB "}, 'spec': {" spec "}}"

/* The Service of the same name is another one, with other endpoints. */
START_TEST(test_beside)
{
	struct line line;

	apply_good_text(model, SERVICE("'clusterIP': '10.96.0.10', " PORT_80));
	apply_good_text(model, IMPORT("'ips': ['247.254.1.2'], " PORT_80));
	apply_good_text(model, SLICE(OF_EAST, VIEW));
	ck_assert_uint_eq(mk_model_count(model, MK_KIND_SERVICE), 1);
	ck_assert_uint_eq(mk_model_count(model, MK_KIND_SERVICE_IMPORT), 1);
	mk_model_delete(model, MK_KIND_SERVICE, "shop", "web");
	summarize(&line);
	ck_assert_str_eq(line.text,
			 SERVICE_WEB " ip=247.254.1.2 :80/tcp imported;240.0.1.2:8080/tcp"
				     "  ready serving of=east");
	ck_assert_uint_eq(mk_model_count(model, MK_KIND_SERVICE), 0);
	mk_model_delete(model, MK_KIND_SERVICE_IMPORT, "shop", "web");
	ck_assert_uint_eq(mk_model_count(model, MK_KIND_SERVICE_IMPORT), 0);
	ck_assert_str_eq(heard, "shop/web shop/web.clusterset shop/web.clusterset shop/web "
				"shop/web.clusterset");
}
END_TEST

/* A preference changes, and so does the cluster of a slice: the Service is compiled again. */
START_TEST(test_preference_changes)
{
	apply_good_text(model, PREFERS(PREFER "'east'"));
	apply_good_text(model, PREFERS(PREFER "'east '"));
	ck_assert_str_eq(heard, OF_WEB);
	apply_good_text(model, PREFERS(PREFER "'local'"));
	apply_good_text(model, PREFERS(PREFER "'local, east'"));
	apply_good_text(model, SLICE(OF_EAST, VIEW));
	apply_good_text(model, SLICE(OF_IMPORT, VIEW));
	ck_assert_str_eq(heard, OF_WEB " " OF_WEB " " OF_WEB " " OF_WEB " " OF_WEB);
}
END_TEST

/* A text that is none is an error of the object, as elsewhere: the last version stays. */
START_TEST(test_preference_refused)
{
	const struct mk_service_object *web;
	struct mk_error err = { 0 };

	apply_good_text(model, PREFERS(PREFER "'east'"));
	ck_assert_int_lt(apply_text(model, PREFERS(PREFER "7"), &err), 0);
	ck_assert_msg(strstr(err.text, "networking.monokube.io/prefer"), "%s", err.text);
	apply_good_text(model, PREFERS(PREFER "'Ea st,hub'"));
	web = mk_model_service(model, "shop", "web.clusterset");
	ck_assert_uint_eq(web->preferred_count, 1);
	ck_assert_msg(
		strstr(web->passed_over,
		       "annotation networking.monokube.io/prefer: 'Ea st' is left out, expected local or the name of a cluster"),
		"%s", web->passed_over);
}
END_TEST

/* An export of an ExternalName is not valid, so its Service must be recognised. */
START_TEST(test_external_name)
{
	apply_good_text(model, SERVICE("'type': 'ExternalName', 'clusterIP': '10.96.0.1'"));
	ck_assert(mk_model_service(model, "shop", "web")->external_name);
	apply_good_text(model, SERVICE("'clusterIP': 'None'"));
	ck_assert(!mk_model_service(model, "shop", "web")->external_name);
	ck_assert_str_eq(heard, "shop/web shop/web");
}
END_TEST

/* Without clusterName nothing of the clusterset exists. */
START_TEST(test_off)
{
	struct mk_error err = { 0 };
	struct line line;

	mk_model_free(model);
	setup_with(NULL);
	ck_assert_int_eq(apply_text(model, IMPORT("'ips': ['247.254.1.2'], " PORT_80), &err), 1);
	ck_assert_int_eq(apply_text(model, EXPORT(""), &err), 1);
	apply_good_text(model, SLICE(OF_EAST, VIEW));
	summarize(&line);
	ck_assert_str_eq(line.text, "");
	ck_assert_str_eq(heard, "");
}
END_TEST

/* A family without range has no address, and `off` has none at all. */
START_TEST(test_one_range)
{
	struct mk_clusterset clusterset = west("247.254.0.0/16", NULL);
	struct line line;

	mk_model_free(model);
	setup_with(&clusterset);
	apply_good_text(model, IMPORT("'ips': ['247.254.1.2', 'fd6d:6b63:7300::9'], " PORT_80));
	summarize(&line);
	ck_assert_str_eq(line.text, SERVICE_WEB " ip=247.254.1.2 :80/tcp imported;");
	mk_model_free(model);
	setup_with(&(struct mk_clusterset){ .cluster_name = "west" });
	apply_good_text(model, IMPORT("'ips': ['247.254.1.2', 'fd6d:6b63:7300::9'], " PORT_80));
	summarize(&line);
	ck_assert_str_eq(line.text, SERVICE_WEB " :80/tcp imported;");
}
END_TEST

UNIT_SUITE("the clusterset in the model")
{
	TCase *tcase = unit_case(suite, "model_clusterset", setup, teardown);

	tcase_add_loop_test(tcase, test_good, 0, (int)MK_ARRAY_SIZE(good));
	tcase_add_loop_test(tcase, test_bad, 0, (int)MK_ARRAY_SIZE(bad));
	tcase_add_test(tcase, test_beside);
	tcase_add_test(tcase, test_preference_changes);
	tcase_add_test(tcase, test_preference_refused);
	tcase_add_test(tcase, test_external_name);
	tcase_add_test(tcase, test_off);
	tcase_add_test(tcase, test_one_range);
}
