// SPDX-License-Identifier: Apache-2.0
/* Conditions of ServiceExports, ServiceImports and ClusterPeers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "clusterset/peer_status.h"
#include "clusterset/status.h"
#include "unit/clusterset_text.h"
#include "unit/unit.h"

#define NOW    "2026-05-05T05:05:05Z"
#define BEFORE "2026-01-01T01:01:01Z"
#define EXPORT(status)                                                                          \
	"{'apiVersion': 'multicluster.x-k8s.io/v1beta1', 'kind': 'ServiceExport', 'metadata': " \
	"{'name': 'web', 'namespace': 'shop', 'uid': 'x'}" status "}"
#define CONDITIONS(list) ", 'status': {'conditions': [" list "]}"

/* Each of @want is in the text of @tree, and @lack is not. Releases @tree. */
static void expect(json_object *tree, const char *const *want, const char *lack)
{
	cleanup_free char *text = NULL;

	ck_assert_ptr_nonnull(tree);
	text = text_of_tree(tree);
	for (; want && *want; want++)
		ck_assert_msg(strstr(text, *want) != NULL, "no %s in %s", *want, text);
	ck_assert_msg(!lack || !strstr(text, lack), "%s in %s", lack, text);
	json_object_put(tree);
}

#define WANT(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void check_export(const char *object, enum mk_export_verdict verdict, char *note,
			 const struct mk_merged *merged, bool is_written, const char *const *want,
			 const char *lack)
{
	const struct mk_publication publication = {
		.verdict = verdict, .note = note, .endpoint_count = 3, .left_out = note ? 2 : 0
	};
	json_object *tree = tree_of(object);

	expect(mk_export_status(tree, &publication, merged, is_written, NOW), want, lack);
	json_object_put(tree);
}

START_TEST(test_export)
{
	const struct mk_merged none = { 0 };
	const struct mk_merged two = { .conflict_reasons = (char *)"PortConflict,TypeConflict",
				       .conflict_message = (char *)"port 'a' counts" };

	check_export(
		EXPORT(""), MK_EXPORT_VALID, NULL, NULL, true,
		WANT("{'apiVersion':'multicluster.x-k8s.io/v1beta1','kind':'ServiceExport','metadata':{'name':'web','namespace':'shop'},'status'",
		     "'type':'Valid','status':'True','reason':'Valid'",
		     "'type':'Ready','status':'True','reason':'Ready','message':'3 endpoints are published'",
		     "'lastTransitionTime':'" NOW "'"),
		"Conflict");
	check_export(EXPORT(""), MK_EXPORT_VALID, NULL, &none, true,
		     WANT("'type':'Conflict','status':'False','reason':'NoConflicts'"), NULL);
	check_export(
		EXPORT(""), MK_EXPORT_VALID, NULL, &two, true,
		WANT("'type':'Conflict','status':'True','reason':'PortConflict,TypeConflict','message':'port 'a' counts'"),
		NULL);
	check_export(EXPORT(""), MK_EXPORT_VALID, NULL, NULL, false,
		     WANT("'type':'Ready','status':'False','reason':'Pending'"), NULL);
	check_export(
		EXPORT(""), MK_EXPORT_VALID, (char *)"endpoint 1 is left out", &none, true,
		WANT("3 endpoints are published; endpoint 1 is left out; 2 are left out in total"),
		NULL);
	check_export(EXPORT(""), MK_EXPORT_NO_SERVICE, NULL, &none, true,
		     WANT("'type':'Valid','status':'False','reason':'NoService'",
			  "'type':'Ready','status':'False','reason':'Failed'"),
		     "Conflict");
	check_export(EXPORT(""), MK_EXPORT_INVALID_TYPE, NULL, &none, true,
		     WANT("'type':'Valid','status':'False','reason':'InvalidServiceType'"), NULL);
	check_export(
		EXPORT(""), MK_EXPORT_FAILED, (char *)"ports[0] is wrong", &none, true,
		WANT("'type':'Ready','status':'False','reason':'Failed','message':'ports[0] is wrong'"),
		NULL);
}
END_TEST

#define KNOWN(type, status) \
	"{'type': '" type "', 'status': '" status "', 'lastTransitionTime': '" BEFORE "'}"

START_TEST(test_time_of_transition)
{
	check_export(EXPORT(CONDITIONS(KNOWN("Valid", "True") "," KNOWN("Ready", "False"))),
		     MK_EXPORT_VALID, NULL, NULL, true,
		     WANT("can be exported','lastTransitionTime':'" BEFORE "'",
			  "published','lastTransitionTime':'" NOW "'"),
		     NULL);
	/* Conditions that make no sense are as if they did not exist. */
	check_export(EXPORT(CONDITIONS("7, {'type': 7}, {'type': 'Valid', 'status': 1}")),
		     MK_EXPORT_VALID, NULL, NULL, true,
		     WANT("can be exported','lastTransitionTime':'" NOW "'"), NULL);
}
END_TEST

START_TEST(test_long_message)
{
	char long_text[8001] = "";
	cleanup_free char *text = NULL;
	const struct mk_publication publication = { .verdict = MK_EXPORT_FAILED,
						    .note = long_text };
	json_object *tree = tree_of(EXPORT("")), *status;

	for (size_t i = 0; i + 2 < sizeof(long_text); i += 2)
		memcpy(long_text + i, "ä", 3);
	status = mk_export_status(tree, &publication, NULL, true, NOW);
	text = text_of_tree(status);
	ck_assert_uint_lt(strlen(text), 6000);
	ck_assert_ptr_nonnull(strstr(text, "ä','lastTransitionTime'"));
	json_object_put(status);
	json_object_put(tree);
}
END_TEST

static json_object *import_status(const char *version, bool lacks_family, const char *existing)
{
	struct mk_merged merged = { .lacks_family = lacks_family };
	json_object *known = existing ? tree_of(existing) : NULL, *status;
	cleanup_free char *text = NULL;

	text_add(
		&text,
		"{'apiVersion': 'multicluster.x-k8s.io/%s', 'kind': 'ServiceImport', 'metadata': {'name': 'web', 'namespace': 'shop'}}",
		version);
	merged.import = tree_of(text);
	merged.clusters = tree_of("[{'cluster': 'east'}]");
	status = mk_import_status(known, &merged, NOW);
	mk_merged_release(&merged);
	json_object_put(known);
	return status;
}

START_TEST(test_import)
{
	expect(import_status("v1beta1", false, NULL),
	       WANT("'status':{'clusters':[{'cluster':'east'}],'endpointSliceObjects':'Present'",
		    "'type':'Ready','status':'True','reason':'Ready'", NOW),
	       NULL);
	expect(import_status("v1beta1", true, NULL),
	       WANT("'status':'False','reason':'IPFamilyNotSupported'"), NULL);
	expect(import_status("v1beta1", false,
			     "{'status': {'conditions': [" KNOWN("Ready", "True") "]}}"),
	       WANT(BEFORE), NOW);
	expect(import_status("v1alpha1", false, NULL),
	       WANT("'status':{'clusters':[{'cluster':'east'}]}"), "conditions");
}
END_TEST

/* ---- ClusterPeers ---------------------------------------------------------------------------- */

static struct mk_clusters_peer peers[3];
static struct mk_clusters_state states[3];
static struct mk_views_result view;
static struct mk_clusters_own own;
static struct mk_peer_report report;

static void setup(void)
{
	own = (struct mk_clusters_own){ .name = "west", .number = 7 };
	view = (struct mk_views_result){ .view = { cidr_of("240.0.0.0/16") } };
	memset(peers, 0, sizeof(peers));
	memset(states, 0, sizeof(states));
	for (size_t i = 0; i < 3; i++) {
		peers[i].name = (const char *[]){ "east", "north", "hub" }[i];
		peers[i].created_unix_s = (int64_t)i;
		peers[i].is_published = peers[i].speaks_wire = true;
		peers[i].number = 10 + (uint32_t)i;
		peers[i].home = cidr_of("10.244.0.0/16");
		states[i] = (struct mk_clusters_state){ .is_usable = true, .nodes_used = 2 };
	}
	report = (struct mk_peer_report){ .own = &own,
					  .peers = { peers },
					  .states = { states },
					  .count = 3,
					  .index = 1,
					  .view = &view };
}

static void check_peer(const char *const *want, const char *lack)
{
	json_object *tree = tree_of(
		"{'apiVersion': 'networking.monokube.io/v1alpha1', 'kind': 'ClusterPeer', 'metadata': {'name': 'north', 'generation': 4}}");

	expect(mk_peer_status(tree, &report, NOW), want, lack);
	json_object_put(tree);
}

START_TEST(test_peer)
{
	check_peer(
		WANT("'metadata':{'name':'north'},'status':{'clusterId':11,'remotePodCidr':'10.244.0.0/16','podCidr':'240.0.0.0/16','path':'Direct','nodes':2,'conditions':",
		     "'type':'Valid','status':'True','reason':'Valid'",
		     "'type':'Ranges','status':'True','reason':'Assigned'",
		     "'type':'Ready','status':'True','reason':'Ready'", "'observedGeneration':4"),
		NULL);
	peers[1].home = (struct mk_cidr){ 0 };
	view.view[1] = cidr_of("fd01::/56");
	check_peer(WANT("'podCidr':'240.0.0.0/16,fd01::/56'"), "remotePodCidr");
}
END_TEST

static const struct {
	const char *name, *via, *path; /* path NULL: none */
	size_t nodes_direct; /* of 2 */
	bool has_borders, lacks_way;
} path_rows[] = {
	{ "direct", NULL, "'path':'Direct'", 2, false, false },
	{ "by border nodes", NULL, "'path':'Border'", 2, true, false },
	{ "no way", NULL, NULL, 0, true, true },
	{ "by a hub", "hub", "'path':'Via'", 0, false, false },
	{ "by border nodes and a hub", "hub", "'path':'Via'", 0, true, false },
	{ "beside a hub, to one node", "hub", "'path':'Via'", 1, false, false },
	{ "beside a hub", "hub", "'path':'Direct'", 2, false, false },
	{ "beside a hub, by border nodes", "hub", "'path':'Border'", 2, true, false },
};

START_TEST(test_peer_path)
{
	peers[1].via = path_rows[_i].via;
	states[1].nodes_direct = path_rows[_i].nodes_direct;
	states[1].is_usable = !path_rows[_i].lacks_way;
	report.has_borders = path_rows[_i].has_borders;
	check_peer(path_rows[_i].path ? WANT(path_rows[_i].path) : NULL,
		   path_rows[_i].path ? NULL : "'path'");
}
END_TEST

START_TEST(test_peer_not_valid)
{
	peers[1].number = 10;
	check_peer(
		WANT("'type':'Valid','status':'False','reason':'NumberTaken','message':'number 10 is also that of cluster 'east': set clusterId"),
		NULL);
	peers[1].created_unix_s = -1;
	check_peer(WANT("'reason':'Valid'"), NULL);
	peers[1].number = 7;
	check_peer(
		WANT("'reason':'NumberTaken','message':'number 7 is also that of cluster 'west'"),
		NULL);
	peers[1].number = 11;
	peers[1].via = "moon";
	check_peer(
		WANT("'reason':'UnknownVia','message':'spec.via: there is no ClusterPeer 'moon''"),
		NULL);
	peers[1].via = "hub";
	check_peer(WANT("'reason':'Valid'"), NULL);
	peers[1].speaks_wire = false;
	check_peer(WANT("'reason':'NotMonokube'"), NULL);
	peers[1].is_published = false;
	check_peer(WANT("'reason':'Valid'"), "clusterId");
	peers[1].name = "west";
	check_peer(WANT("'reason':'NameOfThisCluster'"), NULL);
}
END_TEST

START_TEST(test_peer_not_ready)
{
	states[1] = (struct mk_clusters_state){ .reason = (char *)"no node" };
	check_peer(WANT("'type':'Ready','status':'False','reason':'NotReady','message':'no node'"),
		   NULL);
	report.states[0] = NULL;
	check_peer(WANT("'reason':'NotReady','message':'the peer's rows are not computed yet'",
			"'nodes':0"),
		   NULL);
	view = (struct mk_views_result){ .reason = MK_RANGES_POOL_EXHAUSTED,
					 .text = (char *)"peerPools has none" };
	check_peer(
		WANT("'type':'Ranges','status':'False','reason':'PoolExhausted','message':'peerPools has none'"),
		"podCidr':'240");
	view.reason = MK_RANGES_CONFLICT;
	check_peer(WANT("'reason':'Conflict'"), NULL);
	view.reason = MK_RANGES_NOT_PUBLISHED;
	check_peer(WANT("'reason':'NotPublished'"), NULL);
}
END_TEST

START_TEST(test_peer_encrypted)
{
	check_peer(WANT("'type':'Encrypted','status':'False','reason':'Off'"), NULL);
	peers[1].encrypts = true;
	check_peer(WANT("'type':'Encrypted','status':'True','reason':'Encrypted'"), NULL);
	report.lacks_handshake = true; /* nothing is known of probes yet, or they pass */
	check_peer(WANT("'type':'Encrypted','status':'True','reason':'Encrypted'"), NULL);
	report.probes.is_down = true;
	check_peer(WANT("'type':'Encrypted','status':'False','reason':'NoHandshake'"), NULL);
	peers[1].via = "hub"; /* the hub is down */
	check_peer(WANT("'type':'Encrypted','status':'True','reason':'Encrypted'"), NULL);
	states[1].nodes_used = 0;
	check_peer(WANT("'type':'Encrypted','status':'False','reason':'NoKey'"), NULL);
	states[1].cannot_encrypt = true;
	check_peer(WANT("'type':'Encrypted','status':'False','reason':'NoWireGuard'"), NULL);
	report.is_underlay_ipv6 = true;
	check_peer(WANT("'type':'Encrypted','status':'False','reason':'NoIPv6'"), NULL);
}
END_TEST

START_TEST(test_peer_probed)
{
	check_peer(WANT("'nodes':2,'conditions'"), "Reachable");
	report.probes = (struct mk_probes_state){
		.probed = 2, .answering = 2, .rtt_us = 900, .shown_rtt_us = 500
	};
	check_peer(WANT("'nodes':2,'reachableNodes':2,'rttMicros':500,'conditions'",
			"'type':'Reachable','status':'True','reason':'Reachable'"),
		   NULL);
	report.probes.answering = 1;
	strcpy(report.probes.silent, "node2");
	check_peer(WANT("'reachableNodes':1,",
			"'type':'Reachable','status':'True','reason':'Degraded'",
			"these nodes do not answer the probes of the leader's node: node2: "),
		   NULL);
	report.probes =
		(struct mk_probes_state){ .is_down = true, .probed = 2, .silent = "node1, node2" };
	check_peer(WANT("'reachableNodes':0,'conditions'",
			"'type':'Reachable','status':'False','reason':'NoAnswer'",
			"no node answers the probes of the leader's node: node1, node2: let"),
		   "rttMicros");
	report.probes.silent[0] = 0;
	check_peer(WANT("the probes of the leader's node: let"), NULL);
	report.probes = (struct mk_probes_state){ .probed = 2, .answering = 2, .mtu_bytes = 1344 };
	check_peer(WANT("'type':'Reachable','status':'True','reason':'PathMTU'",
			"packets of more than 1344 bytes to the peer are lost"),
		   NULL);
	report.probes = (struct mk_probes_state){ .is_down = true };
	/* reached by a hub that is down */
	check_peer(WANT("'reason':'NoAnswer'"), NULL);
}
END_TEST

START_TEST(test_peer_news)
{
	static const struct {
		const char *type, *before, *reason;
		bool is_true;
		enum mk_peer_news news;
	} rows[] = {
		{ "Ranges", NULL, "Assigned", true, MK_PEER_NEWS_NONE },
		{ "Ranges", NULL, "PoolExhausted", false, MK_PEER_NEWS_BAD },
		{ "Ranges", "PoolExhausted", "PoolExhausted", false, MK_PEER_NEWS_NONE },
		{ "Ranges", "PoolExhausted", "Assigned", true, MK_PEER_NEWS_GOOD },
		{ "Ranges", "Assigned", "NotPublished", false, MK_PEER_NEWS_QUIET },
		{ "Ranges", "NotPublished", "Assigned", true, MK_PEER_NEWS_NONE },
		{ "Connected", "Connected", "Starting", false, MK_PEER_NEWS_QUIET },
		{ "Connected", "Starting", "Connected", true, MK_PEER_NEWS_NONE },
		{ "Connected", "Starting", "Unauthorized", false, MK_PEER_NEWS_BAD },
		{ "Connected", "Unauthorized", "Unreachable", false, MK_PEER_NEWS_BAD },
		{ "Connected", NULL, "Manual", false, MK_PEER_NEWS_QUIET },
		{ "Encrypted", NULL, "Off", false, MK_PEER_NEWS_QUIET },
		{ "Imported", "Complete", "Incomplete", false, MK_PEER_NEWS_QUIET },
		{ "Imported", "Complete", "LimitExceeded", false, MK_PEER_NEWS_BAD },
		{ "Reachable", NULL, "Degraded", true, MK_PEER_NEWS_BAD },
		{ "Reachable", "Reachable", "PathMTU", true, MK_PEER_NEWS_BAD },
		{ "Reachable", "NoAnswer", "Reachable", true, MK_PEER_NEWS_GOOD },
		{ "Ready", "Ready", "NotReady", false, MK_PEER_NEWS_QUIET },
	};

	for (size_t i = 0; i < MK_ARRAY_SIZE(rows); i++)
		ck_assert_msg(mk_peer_news(rows[i].type, rows[i].before, rows[i].reason,
					   rows[i].is_true) == rows[i].news,
			      "row %zu: %s %s", i, rows[i].type, rows[i].reason);
}
END_TEST

START_TEST(test_peer_read)
{
	const struct mk_peer_reading reading = {
		.reason = "Unauthorized",
		.message = "https://192.0.2.1: HTTP status 401",
		.is_imported = true,
		.import_reason = "Complete",
		.import_message = "all of it",
	};

	check_peer(WANT("'type':'Connected','status':'False','reason':'Manual'"), "Imported");
	report.reading = &reading;
	check_peer(
		WANT("'type':'Connected','status':'False','reason':'Unauthorized','message':'https://192.0.2.1: HTTP status 401'",
		     "'type':'Imported','status':'True','reason':'Complete','message':'all of it'"),
		"Manual");
	report.reading = NULL;
}
END_TEST

UNIT_SUITE("clusterset status")
{
	TCase *services = unit_case(suite, "services", NULL, NULL);
	TCase *tcase = unit_case(suite, "peers", setup, NULL);

	tcase_add_test(services, test_export);
	tcase_add_test(services, test_time_of_transition);
	tcase_add_test(services, test_long_message);
	tcase_add_test(services, test_import);
	tcase_add_test(tcase, test_peer);
	tcase_add_loop_test(tcase, test_peer_path, 0, MK_ARRAY_SIZE(path_rows));
	tcase_add_test(tcase, test_peer_not_valid);
	tcase_add_test(tcase, test_peer_not_ready);
	tcase_add_test(tcase, test_peer_probed);
	tcase_add_test(tcase, test_peer_encrypted);
	tcase_add_test(tcase, test_peer_news);
	tcase_add_test(tcase, test_peer_read);
}
