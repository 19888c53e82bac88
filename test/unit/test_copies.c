// SPDX-License-Identifier: Apache-2.0
/* Which objects of peers are copied, and which copies go. A row is a script of words, and the steps
 * of the last word. Objects are Services unless their name has no dot (a cluster) or one (a node).
 *
 *   peer:P   peer P is read      all:P   all its kinds are listed   forget:P   lists begin again
 *   end:P    it is not read      known   all peers are known        here       all here is known
 *   serve:P/NAME, other:P/NAME, bad:P/NAME, gone:P/NAME
 *            P serves: content, another one, no sense, nothing
 *   hand:NAME, hand2:NAME, copy:P/NAME, copy2:P/NAME, lost:NAME
 *            here is: content by hand, another one, a copy from P, another one, nothing
 *   take     take the steps so far */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "copies/copies.h"
#include "unit/clusterset_text.h"
#include "unit/unit.h"

#define LIMIT_SERVICES	3
#define LIMIT_ENDPOINTS 5
#define LIMIT_NODES	2
#define START		"peer:east here "
#define LISTED		START "all:east known "

static struct mk_copies *copies;
static struct mk_error err;

static bool may_copy(void *ctx, const char *from, const char *cluster)
{
	(void)ctx;
	return strcmp(from, "hub") == 0 && strcmp(cluster, "branch") == 0;
}

static void setup(void)
{
	const struct mk_copies_options options = { .own_cluster = "west", .may_copy = may_copy };

	copies = mk_copies_new(&options);
	ck_assert_ptr_nonnull(copies);
}

static void teardown(void)
{
	mk_copies_free(copies);
}

/* ---- objects --------------------------------------------------------------------------------- */

static enum mk_published_kind kind_of(const char *name)
{
	const char *dot = strchr(name, '.');

	if (!dot)
		return MK_PUBLISHED_CLUSTER;
	return strchr(dot + 1, '.') ? MK_PUBLISHED_SERVICE : MK_PUBLISHED_NODE;
}

static void add_spec(char **text, const char *name, const char *cluster, int version)
{
	const char *dot = strchr(name, '.');

	if (!dot)
		text_add(
			text,
			"'name': '%s', 'number': %d, 'podCidr': '10.%d.0.0/16', 'wireVersions': [1]",
			cluster, version, 243 + version);
	else if (kind_of(name) == MK_PUBLISHED_NODE)
		text_add(text,
			 "'node': '%s', 'addresses': ['192.0.2.%d'], 'podCidrs': ['10.244.1.0/24']",
			 dot + 1, version);
	else
		text_add(
			text,
			"'namespace': '%.*s', 'name': '%s', 'ports': [" HTTP
			"], 'slices': [{'name': 'a', "
			"'addressType': 'IPv4', 'ports': [" HTTP_8080
			"], 'endpoints': [{'addresses': ['10.244.1.%d']}, {'addresses': ['10.244.9.%d']}]}]",
			(int)strcspn(dot + 1, "."), dot + 1, strchr(dot + 1, '.') + 1, version,
			version);
}

/* @labels: further ones. @version 0: an object that makes no sense. */
static json_object *object_of(const char *name, const char *labels, int version)
{
	cleanup_free char *text = NULL, *cluster = strndup(name, strcspn(name, "."));

	text_add(
		&text,
		"{'metadata': {'name': '%s', 'labels': {'networking.monokube.io/cluster': '%s'%s}}, "
		"'spec': {",
		name, cluster, labels);
	if (version)
		add_spec(&text, name, cluster, version);
	text_add(&text, ", 'unknown': 'ignored'}}");
	return tree_of(version ? text : "{'spec': {}, 'metadata': {}}");
}

/* ---- words ----------------------------------------------------------------------------------- */

static void do_peer(const char *word, const char *peer)
{
	const struct mk_peer_limits limits = { LIMIT_SERVICES, LIMIT_ENDPOINTS, LIMIT_NODES };

	if (strcmp(word, "peer") == 0)
		ck_ok(mk_copies_set_peer(copies, peer, &limits, &err));
	else if (strcmp(word, "end") == 0)
		mk_copies_end_peer(copies, peer);
	else if (strcmp(word, "forget") == 0)
		mk_copies_forget(copies, peer);
	else
		for (int kind = 0; kind < MK_PUBLISHED_KINDS; kind++)
			mk_copies_listed(copies, peer, (enum mk_published_kind)kind);
}

static void serve(const char *word, const char *peer, const char *name)
{
	static const char *const words[] = { "bad", "serve", "other" };
	json_object *tree = NULL;

	for (int version = 0; version < 3; version++)
		if (strcmp(word, words[version]) == 0)
			tree = object_of(name, "", version);
	ck_ok(mk_copies_see(copies, peer, kind_of(name), name, tree, &err));
	json_object_put(tree);
}

static void have(const char *word, const char *peer, const char *name)
{
	cleanup_free char *labels = NULL;
	json_object *tree = NULL;

	text_add(&labels, ", 'app.kubernetes.io/managed-by': 'monokube.io'");
	if (peer)
		text_add(&labels, ", 'networking.monokube.io/read-from': '%s'", peer);
	if (peer && strncmp(name, peer, strlen(peer)) != 0)
		text_add(&labels, ", 'networking.monokube.io/relayed-by': '%s'", peer);
	if (strcmp(word, "lost") != 0)
		tree = object_of(name, labels, strchr(word, '2') ? 2 : 1);
	ck_ok(mk_copies_have(copies, kind_of(name), name, tree, &err));
	json_object_put(tree);
}

static void take(char **steps)
{
	struct mk_copies_step step;

	while (mk_copies_next(copies, &step)) {
		text_add(steps, "%s%s %s", *steps && **steps ? ", " : "",
			 step.tree ? "write" : "delete", step.name);
		json_object_put(step.tree);
	}
}

static void do_word(char *word, char **steps)
{
	char *colon = strchr(word, ':'), *slash = strchr(word, '/');

	if (colon)
		*colon++ = '\0';
	if (slash)
		*slash++ = '\0';
	if (strcmp(word, "known") == 0)
		mk_copies_peers_known(copies);
	else if (strcmp(word, "here") == 0)
		for (int kind = 0; kind < MK_PUBLISHED_KINDS; kind++)
			mk_copies_have_listed(copies, (enum mk_published_kind)kind);
	else if (strcmp(word, "take") == 0)
		take(steps);
	else if (strncmp(word, "copy", 4) == 0)
		have(word, colon, slash);
	else if (strncmp(word, "hand", 4) == 0 || strcmp(word, "lost") == 0)
		have(word, NULL, colon);
	else if (slash)
		serve(word, colon, slash);
	else
		do_peer(word, colon);
}

/* Return the steps of the last `take`. */
static char *run(const char *script)
{
	cleanup_free char *words = strdup(script);
	char *save = NULL, *steps = NULL;

	for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		if (strcmp(word, "take") == 0) {
			free(steps);
			steps = NULL;
		}
		do_word(word, &steps);
	}
	free(steps);
	steps = NULL;
	text_add(&steps, "%s", "");
	take(&steps);
	return steps;
}

static const struct {
	const char *name, *script, *want;
} rows[] = {
	/* ---- what is written ---- */
	{ "all kinds are written",
	  START "serve:east/east serve:east/east.n1 serve:east/east.shop.web",
	  "write east, write east.n1, write east.shop.web" },
	{ "nothing is written before all that is here is known", "peer:east serve:east/east", "" },
	{ "an equal copy is not written", LISTED "copy:east/east.n1 serve:east/east.n1", "" },
	{ "another content is written", LISTED "copy2:east/east.n1 serve:east/east.n1",
	  "write east.n1" },
	{ "a change is written",
	  LISTED "serve:east/east.n1 take copy:east/east.n1 take other:east/east.n1",
	  "write east.n1" },
	{ "what something else has changed is written again",
	  LISTED "serve:east/east take copy:east/east take copy2:east/east", "write east" },
	{ "what something else has deleted is written again",
	  LISTED "serve:east/east take copy:east/east take lost:east", "write east" },
	{ "an equal object that was carried by hand stays", LISTED "hand:east serve:east/east",
	  "" },
	{ "another one that was carried by hand is replaced", LISTED "hand2:east serve:east/east",
	  "write east" },
	{ "a copy from another peer is taken over",
	  LISTED "copy:hub/east.n1 peer:hub serve:east/east.n1", "write east.n1" },
	/* ---- what goes ---- */
	{ "a copy that a complete list lacks goes", LISTED "copy:east/east.shop.web",
	  "delete east.shop.web" },
	{ "no copy goes before the list is complete", START "known copy:east/east.shop.web", "" },
	{ "a list of another kind says nothing",
	  START "known copy:east/east.shop.web copy:east/east serve:east/east", "" },
	{ "what the peer has deleted goes",
	  LISTED "serve:east/east take copy:east/east take gone:east/east", "delete east" },
	{ "no copy goes while lists begin again",
	  LISTED "serve:east/east take copy:east/east forget:east", "" },
	{ "after the new lists, what they lack goes",
	  LISTED "serve:east/east take copy:east/east forget:east take all:east", "delete east" },
	{ "what was carried by hand never goes", LISTED "hand:east.shop.web", "" },
	{ "also if the peer is not read any more", LISTED "hand:east.shop.web end:east", "" },
	{ "copies go with their peer", LISTED "serve:east/east take copy:east/east take end:east",
	  "delete east" },
	{ "copies of a peer that nothing is known of go", "here copy:north/north known",
	  "delete north" },
	{ "not before all peers are known", "here copy:north/north", "" },
	{ "a deletion that is not done is taken back", LISTED "copy:east/east take serve:east/east",
	  "write east" },
	/* ---- what makes no sense ---- */
	{ "an object of no sense is not written", LISTED "bad:east/east.n1", "" },
	{ "its copy stays", LISTED "bad:east/east.n1 copy:east/east.n1", "" },
	{ "its last good version stays in force",
	  LISTED "serve:east/east.n1 take copy:east/east.n1 bad:east/east.n1 take lost:east.n1",
	  "write east.n1" },
	{ "after its deletion the copy goes",
	  LISTED "bad:east/east.n1 copy:east/east.n1 take gone:east/east.n1", "delete east.n1" },
	/* ---- whose objects count ---- */
	{ "no objects of another cluster", LISTED "serve:east/north serve:east/north.shop.web",
	  "" },
	{ "no objects of this cluster", LISTED "serve:east/west serve:east/west.n1", "" },
	{ "objects of a cluster that the peer relays", "peer:hub here serve:hub/branch",
	  "write branch" },
	{ "no other peer changes a copy",
	  LISTED "peer:north serve:east/east take copy:east/east take other:north/east", "" },
	{ "no other peer removes a copy",
	  LISTED "peer:north all:north serve:east/east take copy:east/east other:north/east take "
		 "gone:north/east",
	  "" },
	/* ---- limits ---- */
	{ "as many nodes as the limit allows",
	  LISTED "serve:east/east.n1 serve:east/east.n2 serve:east/east.n3",
	  "write east.n1, write east.n2" },
	{ "one that goes makes room",
	  LISTED "serve:east/east.n1 serve:east/east.n2 gone:east/east.n1 take serve:east/east.n3",
	  "write east.n3" },
	{ "a change is not one more",
	  LISTED "serve:east/east.n1 serve:east/east.n2 take other:east/east.n2", "write east.n2" },
	{ "as many endpoints as the limit allows",
	  LISTED "serve:east/east.s.a serve:east/east.s.b serve:east/east.s.c",
	  "write east.s.a, write east.s.b" },
	{ "the copy of what is beyond the limit stays",
	  LISTED "serve:east/east.n1 serve:east/east.n2 take copy:east/east.n3 serve:east/east.n3",
	  "" },
};

START_TEST(test_rows)
{
	cleanup_free char *steps = run(rows[_i].script);

	ck_assert_msg(strcmp(steps, rows[_i].want) == 0, "%s: \"%s\", expected \"%s\"",
		      rows[_i].name, steps, rows[_i].want);
}
END_TEST

/* ---- what is written, exactly ---------------------------------------------------------------- */

static void check_text(const char *script, const char *want)
{
	struct mk_copies_step step;
	cleanup_free char *text = NULL, *words = strdup(script), *none = NULL;
	char *save = NULL;

	for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save))
		do_word(word, &none);
	ck_assert(mk_copies_next(copies, &step));
	text = text_of_tree(step.tree);
	ck_assert_msg(strcmp(text, want) == 0, "%s, expected %s", text, want);
	json_object_put(step.tree);
}

START_TEST(test_text)
{
	check_text(
		START "serve:east/east",
		"{'apiVersion':'networking.monokube.io/v1alpha1','kind':'PublishedCluster','metadata':{"
		"'name':'east','namespace':'monokube-peers','labels':{'networking.monokube.io/cluster':"
		"'east','app.kubernetes.io/managed-by':'monokube.io','networking.monokube.io/read-from':"
		"'east'}},'spec':{'name':'east','number':1,'podCidr':'10.244.0.0/16','wireVersions':[1]}}");
	check_text(
		"peer:hub serve:hub/branch.n1",
		"{'apiVersion':'networking.monokube.io/v1alpha1','kind':'PublishedNode','metadata':{"
		"'name':'branch.n1','namespace':'monokube-peers','labels':{"
		"'networking.monokube.io/cluster':'branch','app.kubernetes.io/managed-by':'monokube.io',"
		"'networking.monokube.io/read-from':'hub','networking.monokube.io/relayed-by':'hub'}},"
		"'spec':{'node':'n1','podCidrs':['10.244.1.0/24'],'addresses':['192.0.2.1']}}");
}
END_TEST

/* ---- reports --------------------------------------------------------------------------------- */

static const struct {
	const char *script, *reason, *message;
} reports[] = {
	{ "peer:east", "Incomplete",
	  "its PublishedClusters are not read yet; copies stay as they are" },
	{ LISTED, "Complete", "all that the peer publishes is copied" },
	{ LISTED "serve:east/north serve:east/g", "Incomplete",
	  "2 left out, such as PublishedCluster 'g': it is of cluster 'g', for which this peer may "
	  "not speak" },
	{ LISTED "serve:east/north gone:east/north", "Complete", "all that" },
	{ LISTED "bad:east/east.n1", "Incomplete",
	  "1 left out, such as PublishedNode 'east.n1': metadata.labels: label" },
	{ LISTED "serve:east/east.n1 serve:east/east.n2 serve:east/east.n3 serve:east/g",
	  "LimitExceeded",
	  "1 left out, such as PublishedNode 'east.n3': there are more than spec.limits.nodes "
	  "allows; 1 left out" },
};

START_TEST(test_reports)
{
	struct mk_copies_report report;

	free(run(reports[_i].script));
	mk_copies_report(copies, "east", &report);
	ck_assert_str_eq(report.reason, reports[_i].reason);
	ck_assert_msg(strncmp(report.message, reports[_i].message, strlen(reports[_i].message)) ==
			      0,
		      "\"%s\", expected \"%s\"", report.message, reports[_i].message);
	ck_assert_int_eq(report.complete, strcmp(report.reason, "Complete") == 0);
}
END_TEST

/* ---- untrusted objects ----------------------------------------------------------------------- */

#define LABELED(name, spec)            \
	"{'metadata': {'name': '" name \
	"', 'labels': {'networking.monokube.io/cluster': 'east'}}, 'spec': {" spec "}}"
#define NODE(more)   LABELED("east.n1", "'node': 'n1', 'addresses': ['192.0.2.1']" more)
#define WIRE	     ", 'wireVersions': [1]"
#define SERVED(more) LABELED("east.shop.web", "'namespace': 'shop', 'name': 'web'" more)

static const struct {
	enum mk_published_kind kind;
	const char *name, *object, *error;
} wrong[] = {
	{ MK_PUBLISHED_CLUSTER, "east", "{'metadata': {'name': 'east'}, 'spec': {}}",
	  "metadata.labels: label networking.monokube.io/cluster is ''" },
	{ MK_PUBLISHED_CLUSTER, "east",
	  LABELED("east", "'name': 'north', 'podCidr': '10.0.0.0/8'" WIRE),
	  "name: value \"north\", expected the cluster" },
	{ MK_PUBLISHED_CLUSTER, "north", LABELED("north", "'name': 'east'"),
	  "metadata.name: expected 'east'" },
	{ MK_PUBLISHED_CLUSTER, "east", LABELED("east", "'name': 'east', 'podCidr': '10.0.0.0'"),
	  "podCidr: value \"10.0.0.0\", expected a range" },
	{ MK_PUBLISHED_CLUSTER, "east",
	  LABELED("east", "'name': 'east', 'podCidr': '10.0.0.0/8', 'number': 16777216"),
	  "number: value 16777216, expected" },
	{ MK_PUBLISHED_CLUSTER, "east",
	  LABELED("east", "'name': 'east', 'podCidr': '10.0.0.0/8', 'wireVersions': [256]"),
	  "wireVersions: value 256, expected" },
	{ MK_PUBLISHED_NODE, "east.n2", NODE(""), "node: value \"n1\", expected a node" },
	{ MK_PUBLISHED_NODE, "east.n1", NODE(", 'port': 65536"), "port: value 65536, expected" },
	{ MK_PUBLISHED_NODE, "east.n1", NODE(", 'podCidrs': ['x']"), "podCidrs: value \"x\"" },
	{ MK_PUBLISHED_NODE, "east.n1", LABELED("east.n1", "'node': 'n1', 'addresses': ['x']"),
	  "addresses: value \"x\", expected" },
	{ MK_PUBLISHED_SERVICE, "east.shop.api", SERVED(""),
	  "metadata.name: expected 'east.shop.web'" },
	{ MK_PUBLISHED_SERVICE, "east.shop.web", SERVED(", 'part': 1, 'parts': 2"),
	  "metadata.name: expected 'east.shop.web.1'" },
	{ MK_PUBLISHED_SERVICE, "east.shop.web", SERVED(", 'parts': 51"), "parts: value 51" },
};

START_TEST(test_wrong)
{
	struct mk_published published = { 0 };
	json_object *tree = tree_of(wrong[_i].object);

	ck_assert_int_eq(mk_published_read(wrong[_i].kind, wrong[_i].name, tree, &published, &err),
			 -EINVAL);
	ck_assert_msg(strstr(mk_error_text(&err), wrong[_i].error), "\"%s\", expected \"%s\"",
		      mk_error_text(&err), wrong[_i].error);
	mk_published_release(&published);
	json_object_put(tree);
}
END_TEST

UNIT_SUITE("copies of what peers publish")
{
	TCase *tcase = unit_case(suite, "copies", setup, teardown);

	tcase_add_loop_test(tcase, test_rows, 0, sizeof(rows) / sizeof(*rows));
	tcase_add_test(tcase, test_text);
	tcase_add_loop_test(tcase, test_reports, 0, sizeof(reports) / sizeof(*reports));
	tcase_add_loop_test(tcase, test_wrong, 0, sizeof(wrong) / sizeof(*wrong));
}
