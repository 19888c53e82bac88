// SPDX-License-Identifier: Apache-2.0
/* ServiceFunctionChains and function pods in the model: what is kept, what is refused, and what the
 * listener hears. */
#include <string.h>

#include "base/cleanup.h"
#include "cluster/model/model_internal.h"
#include "unit/chain_objects.h"
#include "unit/policy_text.h"
#include "unit/unit.h"

static struct mk_model *model;

static void hear_pod(void *ctx, const struct mk_pod_object *pod, const struct mk_pod_object *former)
{
	(void)ctx;
	(void)former;
	hear("%spod:%s", *heard ? " " : "", pod->name);
}

static void hear_chain(void *ctx, const char *namespace_, const char *name)
{
	(void)ctx;
	hear("%schain:%s/%s", *heard ? " " : "", namespace_, name);
}

static void hear_function(void *ctx, const char *namespace_, const char *name)
{
	(void)ctx;
	hear("%sfunction:%s/%s", *heard ? " " : "", namespace_, name);
}

static void setup(void)
{
	model = mk_model_new();
	ck_assert_ptr_nonnull(model);
	mk_model_set_listener(model,
			      &(struct mk_model_listener){ .pod_changed = hear_pod,
							   .chain_changed = hear_chain,
							   .function_pod_changed = hear_function });
	heard[0] = '\0';
}

static void teardown(void)
{
	mk_model_free(model);
}

static void visit_chain(void *ctx, const struct mk_chain *chain)
{
	summarize_chain(ctx, chain);
}

static void visit_function(void *ctx, const struct mk_function_pod *pod)
{
	char text[MK_IP_STRLEN];

	mk_line_add(ctx, "%s/%s is %s uid:%s", pod->namespace_, pod->name, pod->function,
		    pod->uid ?: "none");
	if (pod->node_name)
		mk_line_add(ctx, " @%s", pod->node_name);
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (pod->ips[i].family != AF_UNSPEC)
			mk_line_add(ctx, " %s", mk_ip_format(&pod->ips[i], text));
	mk_line_add(ctx, "%s%s%s%s", pod->ready ? " ready" : "", pod->deleting ? " deleting" : "",
		    pod->finished ? " finished" : "", pod->host_network ? " host" : "");
	if (pod->asks_for_ports)
		mk_line_add(ctx, pod->is_tap ? " tap" : pod->is_end ? " end" : " ports");
	if (pod->weight != MK_FUNCTION_WEIGHT || pod->weight_is_wrong)
		mk_line_add(ctx, " weight:%u%s", pod->weight, pod->weight_is_wrong ? "!" : "");
}

/* ---- what is kept ---------------------------------------------------------------------------- */

#define ANNOTATED(of)                                                                    \
	"{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'p', "                 \
	"'namespace': 'x', 'uid': 'u-p', 'labels': {'networking.monokube.io/function': " \
	"'f'}, 'annotations': {" of "}}}"
#define READY ", 'status': {'conditions': [{'type': 'Ready', 'status': 'True'}]}"

static const struct {
	const char *name, *object, *expected;
} good[] = {
	{ "least", CHAIN(TRAFFIC(EGRESS)), "x/c c 0 /{} egress; takes none; f" },
	{ "all fields",
	  CHAIN_WITH("'name': 'c', 'namespace': 'x', 'uid': 'u', 'creationTimestamp': "
		     "'2001-09-09T01:46:40Z'",
		     "'priority': 1000, 'takeOpenFlows': false, 'traffic': {'podSelector': "
		     "{'matchLabels': {'a': '1'}}, 'namespaceSelector': {'matchLabels': {'b': "
		     "'2'}}, 'direction': 'Both', 'peers': [{'outside': true}], 'ports': "
		     "[{'port': 80}]}, 'functions': [{'name': 'fw', 'whenUnavailable': 'Block', "
		     "'onLoss': 'Rebalance', 'hashBy': 'Flow', 'localWeight': 1}, {'name': 'ids', "
		     "'whenUnavailable': 'Skip', 'onLoss': 'Drop', 'hashBy': 'Pod', "
		     "'localWeight': 256}]"),
	  "x/c u 1000 {b in 2}/{a in 1} ingress egress new-only since:1000000000; "
	  "takes none outside: 80/tcp; fw local:1, ids skip drop by-pod local:256" },
	{ "defaults spelled", CHAIN("'priority': 0, 'takeOpenFlows': true, " TRAFFIC(EGRESS)),
	  "x/c c 0 /{} egress; takes none; f" },
	{ "ingress", CHAIN(TRAFFIC("'direction': 'Ingress'")),
	  "x/c c 0 /{} ingress; takes none; f" },
	{ "all namespaces", CHAIN(TRAFFIC("'namespaceSelector': {}, " EGRESS)),
	  "x/c c 0 {}/{} egress; takes none; f" },
	{ "a file without UID", CHAIN_WITH("'name': 'c', 'namespace': 'x'", TRAFFIC(EGRESS)),
	  "x/c x/c 0 /{} egress; takes none; f" },
	{ "hash by peer",
	  CHAIN("'traffic': {'podSelector': {}, " EGRESS "}, "
		"'functions': [{'name': 'f', 'hashBy': 'Peer'}]"),
	  "x/c c 0 /{} egress; takes none; f by-peer" },
	{ "a tap",
	  CHAIN("'traffic': {'podSelector': {}, " EGRESS "}, 'functions': [{'name': 'f', 'tap': "
		"false}, {'name': 't', 'tap': true, 'hashBy': 'Pod', 'localWeight': 2}]"),
	  "x/c c 0 /{} egress; takes none; f, t tap skip by-pod local:2" },
	{ "peers",
	  CHAIN_PEERS("{'ipBlock': {'cidr': '10.1.2.3/8', 'except': ['10.9.0.0/16']}}, "
		      "{'podSelector': {}}, {'namespaceSelector': {'matchLabels': {'a': '1'}}}"),
	  "x/c c 0 /{} egress; takes none 10.0.0.0/8-10.9.0.0/16 /{} {a in 1}/{}; f" },
	{ "ports",
	  CHAIN_PORTS("{}, {'protocol': 'UDP', 'port': 53}, {'protocol': 'SCTP', 'port': 1, "
		      "'endPort': 9}"),
	  "x/c c 0 /{} egress; takes none: 0-65535/tcp 53/udp 1-9/sctp; f" },
	{ "a Service", CHAIN(OF_SERVICE("web", "")),
	  "x/c c 0 /service web ingress; takes none; f" },
	{ "a Service, and peers",
	  CHAIN(OF_SERVICE("web", ", 'direction': null, 'peers': [{'outside': true}]")),
	  "x/c c 0 /service web ingress; takes none outside; f" },
	{ "ends", CHAIN("'priority': 1, " ENDS("c", "s")),
	  "x/c c 1 /{}; c end local:1, f local:1, s end local:1" },
	{ "ends, and more functions",
	  CHAIN("'takeOpenFlows': true, 'traffic': null, 'ends': {'outside': 's', 'inside': 'c'}, "
		"'functions': [{'name': 'f', 'localWeight': 16, 'tap': false, 'onLoss': 'Drop'}, "
		"{'name': 'g', 'hashBy': 'Peer', 'whenUnavailable': 'Skip'}]"),
	  "x/c c 0 /{}; c end local:1, f drop local:1, g skip by-peer local:1, "
	  "s end local:1" },
	{ "a function pod",
	  FUNCTION_POD("x", "p", "f",
		       ", 'spec': {'nodeName': 'n'}, 'status': {'podIP': "
		       "'10.1.0.1', 'conditions': [{'type': 'Initialized', "
		       "'status': 'True'}, {'type': 'Ready', 'status': 'True'}]}"),
	  "x/p is f uid:u-p @n 10.1.0.1 ready" },
	{ "a function pod, not ready",
	  FUNCTION_POD("x", "p", "f",
		       ", 'status': {'conditions': [{'type': 'Ready', 'status': 'False'}]}"),
	  "x/p is f uid:u-p" },
	{ "a function pod in the host's network, finished",
	  FUNCTION_POD("x", "p", "f",
		       ", 'spec': {'hostNetwork': true}, 'status': {'phase': 'Failed'}"),
	  "x/p is f uid:u-p finished host" },
	{ "a function pod that asks for ports, and has a weight",
	  ANNOTATED("'networking.monokube.io/function-ports': 'Inline', "
		    "'networking.monokube.io/weight': '100'"),
	  "x/p is f uid:u-p ports weight:100" },
	{ "a function pod behind Multus, drained",
	  ANNOTATED("'k8s.v1.cni.cncf.io/networks': 'a@inside, b@outside', "
		    "'networking.monokube.io/weight': '0'"),
	  "x/p is f uid:u-p ports weight:0" },
	{ "a tap's pod", ANNOTATED("'networking.monokube.io/function-ports': 'Tap'"),
	  "x/p is f uid:u-p tap" },
	{ "a tap's pod behind Multus",
	  ANNOTATED("'k8s.v1.cni.cncf.io/networks': 'a@inside', "
		    "'networking.monokube.io/function-ports': 'Tap'"),
	  "x/p is f uid:u-p tap" },
	{ "an end's pod", ANNOTATED("'networking.monokube.io/function-ports': 'End'"),
	  "x/p is f uid:u-p end" },
	{ "a function pod that claims another one's UID",
	  ANNOTATED("'kubernetes.io/config.hash': 'u-q'"), "x/p is f uid:u-p" },
	{ "empty annotations", ANNOTATED("'networking.monokube.io/function-ports': ''"),
	  "x/p is f uid:u-p" },
	{ "a weight beyond its range", ANNOTATED("'networking.monokube.io/weight': '101'"),
	  "x/p is f uid:u-p weight:1!" },
	{ "a weight that is no number", ANNOTATED("'networking.monokube.io/weight': '5 '"),
	  "x/p is f uid:u-p weight:1!" },
	{ "a weight that is empty", ANNOTATED("'networking.monokube.io/weight': ''"),
	  "x/p is f uid:u-p weight:1!" },
	{ "another pod", "{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'p'}" READY "}",
	  "" },
};

START_TEST(test_good)
{
	struct line line = { 0 };

	mk_model_set_node(model, "another");
	apply_good_text(model, good[_i].object);
	apply_good_text(model, good[_i].object);
	mk_model_each(struct mk_chain, of, model, MK_KIND_CHAIN)
		visit_chain(&line, of);
	mk_model_each_function_pod(model, visit_function, &line);
	ck_assert_msg(strcmp(line.text, good[_i].expected) == 0, "%s: got \"%s\", expected \"%s\"",
		      good[_i].name, line.text, good[_i].expected);
	mk_model_delete(model, MK_KIND_CHAIN, "x", "c");
	mk_model_delete(model, MK_KIND_POD, "x", "p");
	mk_model_delete(model, MK_KIND_POD, "default", "p");
	ck_assert_msg(texts_count(&model->texts) == 0, "%s: texts stay", good[_i].name);
	ck_assert_ptr_null(model->function_pods);
}
END_TEST

/* Only a function pod's readiness is read: that of other Pods would be a change for policies. */
START_TEST(test_ready_of_others)
{
	apply_good_text(model,
			"{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'p'}" READY "}");
	ck_assert(!mk_model_pod(model, "default", "p")->ready);
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------- */

#define FUNCTIONS(of) CHAIN("'traffic': {'podSelector': {}, " EGRESS "}, 'functions': [" of "]")
#define N8                                                                            \
	"{'name': 'a'}, {'name': 'b'}, {'name': 'c'}, {'name': 'd'}, {'name': 'e'}, " \
	"{'name': 'f'}, {'name': 'g'}, {'name': 'h'}"
#define P4  "{'port': 1}, {'port': 2}, {'port': 3}, {'port': 4}"
#define P16 P4 ", " P4 ", " P4 ", " P4

static const struct {
	const char *object, *error;
} bad[] = {
	{ CHAIN(F), "ServiceFunctionChain x/c: spec.traffic is missing, expected podSelector and" },
	{ CHAIN("'traffic': {" EGRESS "}, " F), "spec.traffic.podSelector is missing" },
	{ CHAIN(TRAFFIC("'peers': []")),
	  "spec.traffic.direction is missing, expected Egress, Ingress or Both" },
	{ CHAIN(TRAFFIC("'direction': 'Out'")),
	  "spec.traffic.direction: value \"Out\", expected Egress, Ingress or Both" },
	{ CHAIN("'copies': {}, " TRAFFIC(EGRESS)),
	  "spec.copies: value an object, expected no such field; known are priority, "
	  "takeOpenFlows, traffic, ends, functions" },
	{ CHAIN("'ends': {'inside': 'c', 'outside': 's'}, " TRAFFIC(EGRESS)),
	  "spec.traffic: value an object, expected no such field beside ends" },
	{ CHAIN("'ends': {}, " F), "spec.ends.inside is missing, expected lower case letters" },
	{ CHAIN("'ends': {'inside': 'c'}, " F), "spec.ends.outside is missing" },
	{ CHAIN("'ends': {'inside': 'c', 'outside': 's', 'between': 'f'}, " F),
	  "spec.ends.between: value \"f\", expected no such field; known are inside, outside" },
	{ CHAIN(ENDS("c", "c")), "spec.ends.outside: value \"c\", expected each function once" },
	{ CHAIN(ENDS("f", "s")), "spec.ends.inside: value \"f\", expected each function once" },
	{ CHAIN(ENDS("c", "f")), "spec.ends.outside: value \"f\", expected each function once" },
	{ CHAIN(ENDS("c", "S")), "spec.ends.outside: value \"S\"" },
	{ CHAIN("'takeOpenFlows': false, " ENDS("c", "s")),
	  "spec.takeOpenFlows: value false, expected true, or no such field: a chain with ends" },
	{ CHAIN("'ends': {'inside': 'c', 'outside': 's'}, 'functions': [{'name': 'f'}, {'name': "
		"'t', 'tap': true}]"),
	  "spec.functions[1].tap: value true, expected no tap beside ends" },
	{ CHAIN("'ends': {'inside': 'c', 'outside': 's'}, 'functions': []"),
	  "spec.functions: value a list, expected 1 to 8 functions" },
	{ CHAIN(TRAFFIC("'vip': 'web', " EGRESS)),
	  "spec.traffic.vip: value \"web\", expected no such field; known are podSelector, "
	  "service, namespaceSelector, direction, peers, ports" },
	{ CHAIN(TRAFFIC("'service': 'web'")),
	  "spec.traffic.podSelector: value an object, expected no such field beside service" },
	{ CHAIN(OF_SERVICE("web", ", 'namespaceSelector': {}")),
	  "spec.traffic.namespaceSelector: value an object, expected no such field beside" },
	{ CHAIN(OF_SERVICE("web", ", 'direction': 'Ingress'")),
	  "spec.traffic.direction: value \"Ingress\", expected no such field beside service" },
	{ CHAIN(OF_SERVICE("web", ", 'ports': []")),
	  "spec.traffic.ports: value a list, expected no such field beside service" },
	{ CHAIN(OF_SERVICE("shop/web", "")), "spec.traffic.service: value \"shop/web\"" },
	{ CHAIN(OF_SERVICE("", "")), "spec.traffic.service: value \"\", expected lower case" },
	{ CHAIN("'priority': 1001, " TRAFFIC(EGRESS)), "spec.priority: value 1001" },
	{ CHAIN("'priority': -1, " TRAFFIC(EGRESS)), "spec.priority: value -1" },
	{ CHAIN("'takeOpenFlows': 'no', " TRAFFIC(EGRESS)), "spec.takeOpenFlows: value \"no\"" },
	{ CHAIN("'traffic': {'podSelector': {'matchExpressions': [{'key': 'a', 'operator': "
		"'Like'}]}, " EGRESS "}, " F),
	  "spec.traffic.podSelector.matchExpressions[0].operator: value \"Like\"" },
	{ CHAIN_PEERS("{}"), "spec.traffic.peers[0]: value an object, expected either ipBlock" },
	{ CHAIN_PEERS("null"), "spec.traffic.peers[0] is missing" },
	{ CHAIN_PEERS("{'outside': false}"), "spec.traffic.peers[0].outside: value false" },
	{ CHAIN_PEERS("{'outside': true, 'podSelector': {}}"),
	  "spec.traffic.peers[0]: value an object, expected either outside" },
	{ CHAIN_PEERS("{'ipBlock': {'cidr': '10.0.0.0'}}"),
	  "spec.traffic.peers[0].ipBlock.cidr: value \"10.0.0.0\", expected a range" },
	{ CHAIN_PEERS("{'ipBlock': {'cidr': '10.0.0.0/8', 'without': []}}"),
	  "spec.traffic.peers[0].ipBlock.without: value a list, expected no such field" },
	{ CHAIN_PEERS("{'ipBlock': {'cidr': '10.0.0.0/8'}, 'podSelector': {}}"),
	  "spec.traffic.peers[0]" },
	{ CHAIN_PEERS("{'domain': 'a'}"), "spec.traffic.peers[0].domain: value \"a\"" },
	{ CHAIN_PORTS(P16 ", {'port': 5}"),
	  "spec.traffic.ports: value a list, expected at most 16" },
	{ CHAIN_PORTS("{'port': 'http'}"), "spec.traffic.ports[0].port: value \"http\"" },
	{ CHAIN_PORTS("{'port': 0}"), "spec.traffic.ports[0].port: value 0" },
	{ CHAIN_PORTS("{'port': 9, 'endPort': 8}"), "spec.traffic.ports[0].endPort: value 8" },
	{ CHAIN_PORTS("{'endPort': 8}"), "spec.traffic.ports[0].endPort: value 8" },
	{ CHAIN_PORTS("{'protocol': 'ICMP'}"), "spec.traffic.ports[0].protocol: value \"ICMP\"" },
	{ CHAIN_PORTS("{'name': 'a'}"), "spec.traffic.ports[0].name: value \"a\"" },
	{ CHAIN("'traffic': {'podSelector': {}, " EGRESS "}"), "spec.functions is missing" },
	{ FUNCTIONS(""), "spec.functions: value a list, expected 1 to 8 functions" },
	{ FUNCTIONS(N8 ", {'name': 'i'}"), "spec.functions: value a list, expected at most 8" },
	{ FUNCTIONS("{}"), "spec.functions[0].name is missing" },
	{ FUNCTIONS("{'name': 'a.b'}"), "spec.functions[0].name: value \"a.b\"" },
	{ FUNCTIONS("{'name': '-a'}"), "spec.functions[0].name: value \"-a\"" },
	{ FUNCTIONS("{'name': 'a'}, {'name': 'a'}"),
	  "spec.functions[1].name: value \"a\", expected each function once" },
	{ FUNCTIONS("{'name': 'a', 'tap': true}"),
	  "spec.functions: value a list, expected at least one function without tap: true" },
	{ FUNCTIONS("{'name': 'a'}, {'name': 'b', 'tap': 'yes'}"),
	  "spec.functions[1].tap: value \"yes\"" },
	{ FUNCTIONS("{'name': 'a'}, {'name': 'b', 'tap': true, 'whenUnavailable': 'Skip'}"),
	  "spec.functions[1].whenUnavailable: value \"Skip\", expected no such field, because of "
	  "tap: true" },
	{ FUNCTIONS("{'name': 'a'}, {'name': 'b', 'tap': true, 'onLoss': 'Rebalance'}"),
	  "spec.functions[1].onLoss: value \"Rebalance\", expected no such field, because of tap" },
	{ FUNCTIONS("{'name': 'a', 'copies': true}"), "spec.functions[0].copies: value true" },
	{ FUNCTIONS("{'name': 'a', 'localWeight': 0}"), "spec.functions[0].localWeight: value 0" },
	{ FUNCTIONS("{'name': 'a', 'localWeight': 257}"),
	  "spec.functions[0].localWeight: value 257" },
	{ FUNCTIONS("{'name': 'a', 'localWeight': '2'}"),
	  "spec.functions[0].localWeight: value \"2\"" },
	{ FUNCTIONS("{'name': 'a', 'whenUnavailable': 'Pass'}"),
	  "spec.functions[0].whenUnavailable: value \"Pass\", expected Block or Skip" },
	{ FUNCTIONS("{'name': 'a', 'onLoss': 'Keep'}"), "expected Rebalance or Drop" },
	{ FUNCTIONS("{'name': 'a', 'hashBy': 'Port'}"), "expected Flow, Pod or Peer" },
	{ "{'apiVersion': 'networking.monokube.io/v1', 'kind': 'ServiceFunctionChain', "
	  "'metadata': {'name': 'c'}}",
	  "expected networking.monokube.io/v1alpha1" },
};

/* The last good version stays in force. */
START_TEST(test_bad)
{
	struct line before = { 0 }, after = { 0 };
	struct mk_error err = { 0 };
	size_t texts;

	apply_good_text(model, CHAIN_PEERS("{'podSelector': {'matchLabels': {'a': '1'}}}"));
	mk_model_each(struct mk_chain, of, model, MK_KIND_CHAIN)
		visit_chain(&before, of);
	texts = texts_count(&model->texts);
	heard[0] = '\0';
	ck_assert_int_lt(apply_text(model, bad[_i].object, &err), 0);
	ck_assert_msg(strstr(err.text, bad[_i].error), "got \"%s\", expected \"%s\"", err.text,
		      bad[_i].error);
	mk_model_each(struct mk_chain, of, model, MK_KIND_CHAIN)
		visit_chain(&after, of);
	ck_assert_str_eq(before.text, after.text);
	ck_assert_str_eq(heard, "");
	ck_assert_uint_eq(texts_count(&model->texts), texts);
}
END_TEST

/* ---- what the listener hears ----------------------------------------------------------------- */

static const struct {
	const char *object; /* NULL: delete */
	enum mk_kind kind;
	const char *heard;
} story[] = {
	{ CHAIN(TRAFFIC(EGRESS)), .heard = "chain:x/c" },
	{ CHAIN("'priority': 0, " TRAFFIC(EGRESS)), .heard = "" },
	{ CHAIN("'priority': 1, " TRAFFIC(EGRESS)), .heard = "chain:x/c" },
	{ CHAIN("'priority': 1, 'takeOpenFlows': false, " TRAFFIC(EGRESS)), .heard = "chain:x/c" },
	{ CHAIN(TRAFFIC("'direction': 'Both'")), .heard = "chain:x/c" },
	{ CHAIN(TRAFFIC("'namespaceSelector': {}, 'direction': 'Both'")), .heard = "chain:x/c" },
	{ CHAIN_PEERS("{'outside': true}"), .heard = "chain:x/c" },
	{ CHAIN_PEERS("{'outside': true}"), .heard = "" },
	{ CHAIN_PORTS("{'port': 80}"), .heard = "chain:x/c" },
	{ FUNCTIONS("{'name': 'f'}, {'name': 'g'}"), .heard = "chain:x/c" },
	{ FUNCTIONS("{'name': 'f'}, {'name': 'g', 'whenUnavailable': 'Skip'}"),
	  .heard = "chain:x/c" },
	{ FUNCTIONS("{'name': 'f'}, {'name': 'g', 'onLoss': 'Drop'}"), .heard = "chain:x/c" },
	{ FUNCTIONS("{'name': 'f'}, {'name': 'g', 'hashBy': 'Pod'}"), .heard = "chain:x/c" },
	{ FUNCTIONS("{'name': 'g'}, {'name': 'f', 'hashBy': 'Pod'}"), .heard = "chain:x/c" },
	{ FUNCTIONS("{'name': 'g', 'localWeight': 2}, {'name': 'f', 'hashBy': 'Pod'}"),
	  .heard = "chain:x/c" },
	{ FUNCTIONS("{'name': 'g'}, {'name': 'f', 'whenUnavailable': 'Skip'}"),
	  .heard = "chain:x/c" },
	{ FUNCTIONS("{'name': 'g'}, {'name': 'f', 'tap': true}"), .heard = "chain:x/c" },
	{ CHAIN_WITH("'name': 'c', 'namespace': 'x', 'uid': 'v'", TRAFFIC(EGRESS)),
	  .heard = "chain:x/c" },
	{ CHAIN(TRAFFIC("'direction': 'Ingress'")), .heard = "chain:x/c" },
	{ CHAIN(OF_SERVICE("web", "")), .heard = "chain:x/c" },
	{ CHAIN(OF_SERVICE("web", "")), .heard = "" },
	{ CHAIN(OF_SERVICE("cart", "")), .heard = "chain:x/c" },
	{ CHAIN(ENDS("c", "s")), .heard = "chain:x/c" },
	{ CHAIN(ENDS("c", "s")), .heard = "" },
	{ CHAIN(ENDS("c", "t")), .heard = "chain:x/c" },
	{ CHAIN(ENDS("t", "c")), .heard = "chain:x/c" },
	{ .kind = MK_KIND_CHAIN, .heard = "chain:x/c" },
	{ .kind = MK_KIND_CHAIN, .heard = "" },
	{ FUNCTION_POD("x", "p", "f", ""), .heard = "pod:p function:x/p" },
	{ FUNCTION_POD("x", "p", "f", ""), .heard = "" },
	{ FUNCTION_POD("x", "p", "f", READY), .heard = "pod:p function:x/p" },
	{ FUNCTION_POD("x", "p", "g", READY), .heard = "pod:p function:x/p" },
	{ ANNOTATED("'networking.monokube.io/function-ports': 'Routed'"),
	  .heard = "pod:p function:x/p" },
	{ ANNOTATED("'networking.monokube.io/function-ports': 'Routed', "
		    "'networking.monokube.io/weight': '2'"),
	  .heard = "pod:p function:x/p" },
	{ ANNOTATED("'networking.monokube.io/function-ports': 'Tap', "
		    "'networking.monokube.io/weight': '2'"),
	  .heard = "pod:p function:x/p" },
	{ ANNOTATED("'networking.monokube.io/function-ports': 'End', "
		    "'networking.monokube.io/weight': '2'"),
	  .heard = "pod:p function:x/p" },
	{ ANNOTATED("'networking.monokube.io/function-ports': 'Routed', "
		    "'networking.monokube.io/weight': '2'"),
	  .heard = "pod:p function:x/p" },
	{ "{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'p', 'namespace': 'x'}}",
	  .heard = "pod:p function:x/p" },
	{ "{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'p', 'namespace': 'x', "
	  "'labels': {'a': '1'}}}",
	  .heard = "pod:p" },
	{ FUNCTION_POD("x", "p", "f", ""), .heard = "pod:p function:x/p" },
	{ .kind = MK_KIND_POD, .heard = "pod:p function:x/p" },
	{ .kind = MK_KIND_POD, .heard = "" },
};

START_TEST(test_story)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(story); i++) {
		heard[0] = '\0';
		if (story[i].object)
			apply_good_text(model, story[i].object);
		else
			mk_model_delete(model, story[i].kind, "x",
					story[i].kind == MK_KIND_POD ? "p" : "c");
		ck_assert_msg(strcmp(heard, story[i].heard) == 0,
			      "step %zu: heard \"%s\", expected \"%s\"", i, heard, story[i].heard);
	}
	ck_assert_uint_eq(mk_model_count(model, MK_KIND_CHAIN), 0);
	ck_assert_ptr_null(model->function_pods);
}
END_TEST

/* ---- Services of chains ---------------------------------------------------------------------- */

#define SERVICE(spec)                                                                       \
	"{'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 'web', 'namespace': " \
	"'x'}, 'spec': {" spec "}}"
#define WEB	"'selector': {'app': 'web'}"
#define PORT_80 "'ports': [{'port': 80}]"

static const struct {
	const char *service; /* NULL: none */
	enum mk_chain_service expected;
} services[] = {
	{ SERVICE("'clusterIP': '10.96.0.1', " WEB ", " PORT_80), MK_CHAIN_SERVICE_SELECTS },
	{ SERVICE("'clusterIP': 'None', " WEB ", " PORT_80), MK_CHAIN_SERVICE_SELECTS },
	{ NULL, MK_CHAIN_SERVICE_MISSING },
	{ "{'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 'web', 'namespace': 'y'}, "
	  "'spec': {" WEB ", " PORT_80 "}}",
	  MK_CHAIN_SERVICE_MISSING },
	{ "{'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 'web', 'namespace': 'x', "
	  "'labels': {'service.kubernetes.io/service-proxy-name': 'other'}}, 'spec': {" WEB
	  ", " PORT_80 "}}",
	  MK_CHAIN_SERVICE_MISSING },
	{ SERVICE(PORT_80), MK_CHAIN_SERVICE_NO_SELECTOR },
	{ SERVICE("'selector': {}, " PORT_80), MK_CHAIN_SERVICE_NO_SELECTOR },
	{ SERVICE("'type': 'ExternalName', " WEB ", " PORT_80), MK_CHAIN_SERVICE_NO_SELECTOR },
	{ SERVICE("'clusterIP': 'None', " WEB), MK_CHAIN_SERVICE_NO_PORTS },
};

static void visit_service(void *ctx, const struct mk_chain *chain)
{
	const struct mk_service_object *service;

	ck_assert_int_eq(mk_chain_service(model, chain, &service), services[*(int *)ctx].expected);
	ck_assert((service != NULL) == (services[*(int *)ctx].expected == 0));
}

START_TEST(test_service)
{
	apply_good_text(model, CHAIN(OF_SERVICE("web", "")));
	if (services[_i].service)
		apply_good_text(model, services[_i].service);
	mk_model_each(struct mk_chain, of, model, MK_KIND_CHAIN)
		visit_service(&_i, of);
	ck_assert(mk_model_has_chain_of(model, "x", "web"));
	ck_assert(!mk_model_has_chain_of(model, "x", "cart"));
	ck_assert(!mk_model_has_chain_of(model, "y", "web"));
	apply_good_text(model, CHAIN(TRAFFIC(EGRESS)));
	ck_assert(!mk_model_has_chain_of(model, "x", "web"));
	mk_model_delete(model, MK_KIND_CHAIN, "x", "c");
	mk_model_delete(model, MK_KIND_SERVICE, "x", "web");
	mk_model_delete(model, MK_KIND_SERVICE, "y", "web");
	ck_assert_uint_eq(texts_count(&model->texts), 0);
}
END_TEST

UNIT_SUITE("model chains")
{
	TCase *tc = unit_case(suite, "chains", setup, teardown);

	tcase_add_loop_test(tc, test_good, 0, MK_ARRAY_SIZE(good));
	tcase_add_loop_test(tc, test_bad, 0, MK_ARRAY_SIZE(bad));
	tcase_add_test(tc, test_ready_of_others);
	tcase_add_test(tc, test_story);
	tcase_add_loop_test(tc, test_service, 0, MK_ARRAY_SIZE(services));
}
