// SPDX-License-Identifier: Apache-2.0
/* The objects of network policies in the model: what is kept of Pods, Namespaces, NetworkPolicies
 * and ClusterNetworkPolicies, which labels a selector matches, and what is refused. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cluster/model/model_internal.h"
#include "unit/policy_text.h"
#include "unit/unit.h"

static struct mk_model *model;

static void hear_pod(void *ctx, const struct mk_pod_object *pod, const struct mk_pod_object *former)
{
	(void)ctx;
	(void)former;
	hear("%spod:%s/%s", *heard ? " " : "", pod->of->namespace_, pod->name);
}

static void hear_namespace(void *ctx, const char *name)
{
	(void)ctx;
	hear("%snamespace:%s", *heard ? " " : "", name);
}

static void hear_network_policy(void *ctx, const char *namespace_, const char *name)
{
	(void)ctx;
	hear("%spolicy:%s/%s", *heard ? " " : "", namespace_, name);
}

static void hear_cluster_policy(void *ctx, const char *name)
{
	(void)ctx;
	hear("%spolicy:%s", *heard ? " " : "", name);
}

static void setup(void)
{
	model = mk_model_new();
	ck_assert_ptr_nonnull(model);
	mk_model_set_listener(model, &(struct mk_model_listener){
					     .node_changed = hear_node,
					     .pod_changed = hear_pod,
					     .namespace_changed = hear_namespace,
					     .network_policy_changed = hear_network_policy,
					     .cluster_policy_changed = hear_cluster_policy });
	heard[0] = '\0';
}

static void teardown(void)
{
	mk_model_free(model);
}

/* ---- objects as text ------------------------------------------------------------------------- */

static void visit_pod(void *ctx, const struct mk_pod_object *pod)
{
	summarize_pod(ctx, pod);
}

static void visit_namespace(void *ctx, const struct mk_namespace_object *namespace_)
{
	mk_line_add(ctx, "%s", namespace_->name);
	add_labels(ctx, &namespace_->labels);
}

static void visit_network_policy(void *ctx, const struct mk_network_policy *policy)
{
	summarize_network_policy(ctx, policy);
}

static void visit_cluster_policy(void *ctx, const struct mk_cluster_policy *policy)
{
	summarize_cluster_policy(ctx, policy);
}

/* All objects of the model: a row has one. */
static void summarize(struct line *line)
{
	mk_model_each(struct mk_pod_object, of, model, MK_KIND_POD)
		visit_pod(line, of);
	mk_model_each(struct mk_namespace_object, of, model, MK_KIND_NAMESPACE)
		visit_namespace(line, of);
	mk_model_each(struct mk_network_policy, of, model, MK_KIND_NETWORK_POLICY)
		if (strcmp(of->namespace_, "y") == 0)
			visit_network_policy(line, of);
	mk_model_each(struct mk_network_policy, of, model, MK_KIND_NETWORK_POLICY)
		if (strcmp(of->namespace_, "x") == 0)
			visit_network_policy(line, of);
	mk_model_each(struct mk_cluster_policy, of, model, MK_KIND_CLUSTER_POLICY)
		visit_cluster_policy(line, of);
}

/* ---- what is kept ---------------------------------------------------------------------------- */

#define META(more) "'metadata': {'name': 'p', 'namespace': 'x'" more "}"
#define POD(more)  "'apiVersion': 'v1', 'kind': 'Pod', " META(more)
#define POLICY	   "'apiVersion': 'networking.k8s.io/v1', 'kind': 'NetworkPolicy', " META("")
#define SPEC(of)   "{" POLICY ", 'spec': {" of "}}"
#define MODE(mode)                                                                       \
	"{'apiVersion': 'networking.k8s.io/v1', 'kind': 'NetworkPolicy', " META(         \
		", 'annotations': {'about': 'x', '" MK_POLICY_MODE_ANNOTATION "': " mode \
		"}") ", "                                                                \
		     "'spec': {}}"
#define FROM(peer)  SPEC("'ingress': [{'from': [" peer "]}]")
#define PORTS(port) SPEC("'ingress': [{'ports': [" port "]}]")
#define IN(rule)    "x/p {} ingress; in accept" rule
#define CLUSTER                                                       \
	"'apiVersion': 'policy.networking.k8s.io/v1alpha2', 'kind': " \
	"'ClusterNetworkPolicy', 'metadata': {'name': 'c'}"
#define PLACE		 "'tier': 'Admin', 'priority': 5"
#define RULES(of)	 "{" CLUSTER ", 'spec': {" PLACE ", 'subject': {'namespaces': {}}, " of "}}"
#define TO(action, peer) RULES("'egress': [{'action': '" action "', 'to': [" peer "]}]")
#define CPORTS(port)                                                          \
	RULES("'ingress': [{'action': 'Deny', 'from': [{'namespaces': {}}], " \
	      "'protocols': [" port "]}]")
#define ADMIN		"c admin 5 {}/{}"
#define ALL_OUT(action) ADMIN "; out " action " "
#define CIN		ADMIN "; in deny {}/{}:"

static const struct {
	const char *name, *object, *expected;
} good[] = {
	/* pods */
	{ "pod, bare", "{" POD("") "}", "x/p" },
	{ "pod, bound, both families, started",
	  "{" POD(", 'uid': 'u', 'labels': {'b': '2', 'a': '1'}, 'creationTimestamp': "
		  "'2001-09-09T01:46:40Z'") ", 'spec': {'nodeName': 'n'}, 'status': {'phase': 'Running', 'podIP': '10.1.0.1', "
					    "'podIPs': [{'ip': 'fd00::1'}, {'ip': '10.1.0.1'}], 'startTime': "
					    "'2001-09-09T01:46:41Z'}}",
	  "x/p uid:u @n a=1 b=2 10.1.0.1 fd00::1 since:1000000001" },
	{ "pod, created, not started", "{" POD(", 'creationTimestamp': '2001-09-09T01:46:40Z'") "}",
	  "x/p since:1000000000" },
	{ "pod, only podIP", "{" POD("") ", 'status': {'podIP': '10.1.0.1'}}", "x/p 10.1.0.1" },
	{ "pod, empty podIP and nodeName",
	  "{" POD("") ", 'spec': {'nodeName': ''}, 'status': {'podIP': '', 'podIPs': null}}",
	  "x/p" },
	{ "static pod",
	  "{" POD(", 'uid': 'u', 'annotations': {'kubernetes.io/config.hash': 'h'}") "}",
	  "x/p uid:h" },
	{ "pod, host network", "{" POD("") ", 'spec': {'hostNetwork': true}}", "x/p host" },
	{ "pod, Succeeded", "{" POD("") ", 'status': {'phase': 'Succeeded'}}", "x/p finished" },
	{ "pod, Failed", "{" POD("") ", 'status': {'phase': 'Failed'}}", "x/p finished" },
	{ "pod, terminating", "{" POD(", 'deletionTimestamp': '2001-09-09T01:46:40Z'") "}",
	  "x/p terminating" },
	{ "pod, named ports, sorted, without duplicates",
	  "{" POD("") ", 'spec': {'containers': [{'ports': [{'name': 'web', 'containerPort': 80}, "
		      "{'containerPort': 81}, {'name': 'dns', 'containerPort': 53, 'protocol': 'UDP'}]}, "
		      "{'ports': [{'name': 'web', 'containerPort': 80}, {'name': 'web', 'containerPort': 79},"
		      "{'name': 'dns', 'containerPort': 53, 'protocol': 'TCP'}]}, {}]}}",
	  "x/p dns:53/tcp dns:53/udp web:79/tcp web:80/tcp" },
	{ "pod, ports of init containers that restart",
	  "{" POD("") ", 'spec': {'initContainers': [{'restartPolicy': 'Always', 'ports': "
		      "[{'name': 'a', 'containerPort': 1}]}, {'ports': [{'name': 'b', 'containerPort': 2}]}, "
		      "{'restartPolicy': 'Never', 'ports': [{'name': 'c', 'containerPort': 3}]}]}}",
	  "x/p a:1/tcp" },
	/* namespaces */
	{ "namespace", "{'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': 'x'}}",
	  "x kubernetes.io/metadata.name=x" },
	{ "namespace, labels",
	  "{'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': 'x', 'labels': "
	  "{'z': '1', 'a': '2', 'kubernetes.io/metadata.name': 'y'}}}",
	  "x a=2 kubernetes.io/metadata.name=y z=1" },
	/* which pods, which directions */
	{ "policy without spec", "{" POLICY "}", "x/p {} ingress" },
	{ "policy, empty selector", SPEC("'podSelector': {}"), "x/p {} ingress" },
	{ "policy, selector, sorted",
	  SPEC("'podSelector': {'matchLabels': {'c': '3', 'a': '1'}, 'matchExpressions': "
	       "[{'key': 'b', 'operator': 'NotIn', 'values': ['z', 'y']}, "
	       "{'key': 'a', 'operator': 'Exists'}, "
	       "{'key': 'd', 'operator': 'DoesNotExist', 'values': []}, "
	       "{'key': 'a', 'operator': 'In', 'values': ['1', '2']}]}"),
	  "x/p {a in 1, a in 1 2, a, b not in y z, c in 3, d absent} ingress" },
	{ "policy, types", SPEC("'policyTypes': ['Egress']"), "x/p {} egress" },
	{ "policy, both types", SPEC("'policyTypes': ['Egress', 'Ingress']"),
	  "x/p {} ingress egress" },
	{ "policy, no types, an egress rule", SPEC("'policyTypes': [], 'egress': [{}]"),
	  "x/p {} ingress egress; out accept" },
	{ "policy, no types, empty egress", SPEC("'egress': []"), "x/p {} ingress" },
	{ "policy, type Ingress, egress rule", SPEC("'policyTypes': ['Ingress'], 'egress': [{}]"),
	  "x/p {} ingress; out accept" },
	{ "policy, rule that is null", SPEC("'ingress': [null]"), IN("") },
	{ "policy, rules in their order",
	  SPEC("'ingress': [{'ports': [{'port': 2}]}, {'ports': [{'port': 1}]}]"),
	  IN(": 2/tcp; in accept: 1/tcp") },
	/* peers */
	{ "peer, pods here", FROM("{'podSelector': {'matchLabels': {'a': '1'}}}"),
	  IN(" /{a in 1}") },
	{ "peer, all pods here", FROM("{'podSelector': {}}"), IN(" /{}") },
	{ "peer, pods of namespaces", FROM("{'namespaceSelector': {'matchLabels': {'a': '1'}}}"),
	  IN(" {a in 1}/{}") },
	{ "peer, all pods", FROM("{'namespaceSelector': {}}"), IN(" {}/{}") },
	{ "peer, pods in namespaces",
	  FROM("{'namespaceSelector': {}, 'podSelector': {'matchLabels': {'a': '1'}}}"),
	  IN(" {}/{a in 1}") },
	{ "peer, null members", FROM("{'ipBlock': null, 'podSelector': {}}"), IN(" /{}") },
	{ "peer, block", FROM("{'ipBlock': {'cidr': '10.0.0.0/8'}}"), IN(" 10.0.0.0/8") },
	{ "peer, block with host bits and exceptions",
	  FROM("{'ipBlock': {'cidr': '10.1.2.3/8', 'except': ['10.1.2.3/16', '10.2.0.0/16']}}"),
	  IN(" 10.0.0.0/8-10.1.0.0/16-10.2.0.0/16") },
	{ "peer, block of all addresses", FROM("{'ipBlock': {'cidr': '0.0.0.0/0'}}"),
	  IN(" 0.0.0.0/0") },
	{ "peer, block of IPv6", FROM("{'ipBlock': {'cidr': 'fd00::1/64', 'except': []}}"),
	  IN(" fd00::/64") },
	{ "peer, exception of the other family",
	  FROM("{'ipBlock': {'cidr': '10.0.0.0/8', 'except': ['fd00::/64']}}"),
	  IN(" 10.0.0.0/8-fd00::/64") },
	{ "peers, several", FROM("{'podSelector': {}}, {'ipBlock': {'cidr': '10.0.0.0/8'}}"),
	  IN(" /{} 10.0.0.0/8") },
	{ "peers, empty list", FROM(""), IN("") },
	{ "peers of egress", SPEC("'egress': [{'to': [{'podSelector': {}}], 'from': null}]"),
	  "x/p {} ingress egress; out accept /{}" },
	/* ports */
	{ "port, any of TCP", PORTS("{}"), IN(": 0-65535/tcp") },
	{ "port, any of UDP", PORTS("{'protocol': 'UDP'}"), IN(": 0-65535/udp") },
	{ "port, number", PORTS("{'port': 80}"), IN(": 80/tcp") },
	{ "port, number of SCTP", PORTS("{'port': 80, 'protocol': 'SCTP'}"), IN(": 80/sctp") },
	{ "port, range", PORTS("{'port': 80, 'endPort': 90}"), IN(": 80-90/tcp") },
	{ "port, range of one", PORTS("{'port': 80, 'endPort': 80}"), IN(": 80/tcp") },
	{ "port, highest", PORTS("{'port': 65535}"), IN(": 65535/tcp") },
	{ "port, name", PORTS("{'port': 'web', 'protocol': 'UDP'}"), IN(": web/udp") },
	{ "ports, several", PORTS("{'port': 1}, {'port': 'web'}"), IN(": 1/tcp web/tcp") },
	{ "ports, empty list", PORTS(""), IN("") },
	{ "mode, audit", MODE("'audit'"), "x/p {} ingress audited" },
	{ "mode, enforce", MODE("'enforce'"), "x/p {} ingress" },
	/* cluster policies */
	{ "cluster, mode",
	  "{'apiVersion': 'policy.networking.k8s.io/v1alpha2', 'kind': 'ClusterNetworkPolicy', "
	  "'metadata': {'name': 'c', 'annotations': {'" MK_POLICY_MODE_ANNOTATION "': 'audit'}}, "
	  "'spec': {" PLACE ", 'subject': {'namespaces': {}}}}",
	  ADMIN " audited" },
	{ "cluster, subject of namespaces", RULES("'ingress': []"), ADMIN },
	{ "cluster, Baseline, subject of pods",
	  "{" CLUSTER ", 'spec': {'tier': 'Baseline', 'priority': 1000, 'subject': {'pods': "
	  "{'namespaceSelector': {}, 'podSelector': {'matchLabels': {'a': '1'}}}}}}",
	  "c baseline 1000 {}/{a in 1}" },
	{ "cluster, rules in their order, with names",
	  RULES("'ingress': [{'name': 'one', 'action': 'Pass', 'from': [{'namespaces': {}}]}, "
		"{'action': 'Accept', 'from': [{'pods': {'namespaceSelector': {}, 'podSelector': "
		"{'matchLabels': {'a': '1'}}}}]}]"),
	  ADMIN "; in pass one {}/{}; in accept {}/{a in 1}" },
	{ "cluster, pods of all namespaces",
	  "{" CLUSTER ", 'spec': {" PLACE ", 'subject': {'pods': {'podSelector': {}}}, 'ingress': "
	  "[{'action': 'Deny', 'from': [{'pods': {'podSelector': {'matchLabels': {'a': '1'}}}}]}]}}",
	  ADMIN "; in deny {}/{a in 1}" },
	{ "cluster, networks are peers of their own",
	  TO("Deny", "{'networks': ['10.1.2.3/8', 'fd00::/64']}, {'namespaces': {}}"),
	  ALL_OUT("deny") "10.0.0.0/8 fd00::/64 {}/{}" },
	{ "cluster, nodes", TO("Deny", "{'nodes': {'matchLabels': {'a': '1'}}}"),
	  ALL_OUT("deny") "nodes{a in 1}" },
	{ "cluster, domain names", TO("Accept", "{'domainNames': ['a.b']}"),
	  ALL_OUT("accept") "domains" },
	{ "cluster, protocols",
	  CPORTS("{'tcp': {}}, {'udp': {'destinationPort': {'number': 53}}}, "
		 "{'sctp': {'destinationPort': {'range': {'start': 1, 'end': 9}}}}"),
	  CIN " 0-65535/tcp 53/udp 1-9/sctp" },
	{ "cluster, named port", CPORTS("{'destinationNamedPort': 'web'}"), CIN " web/any" },
	{ "unknown members that are null",
	  "{" POLICY
	  ", 'spec': {'moons': null, 'ingress': [{'moons': null, 'from': [{'moons': null, "
	  "'podSelector': {'moons': null}}]}]}}",
	  IN(" /{}") },
};

/* Entries that make no sense stay as such, and the log says why once. */
static const struct {
	const char *name, *object, *expected, *logged;
} odd[] = {
	{ "peer, empty", FROM("{}"), IN(" ?"),
	  "spec.ingress[0].from[0]: value an object, expected" },
	{ "peer, null", FROM("null"), IN(" ?"), "spec.ingress[0].from[0]" },
	{ "peer, a text", FROM("'pods'"), IN(" ?"), "value \"pods\", expected an object" },
	{ "peer, block and selector",
	  FROM("{'podSelector': {}, 'ipBlock': {'cidr': '0.0.0.0/0'}}, {'podSelector': {}}"),
	  IN(" ? /{}"), "expected either ipBlock, or podSelector and namespaceSelector" },
	{ "peer, no CIDR", FROM("{'ipBlock': {'cidr': '10.0.0.0/33'}}"), IN(" ?"),
	  "spec.ingress[0].from[0].ipBlock.cidr: value \"10.0.0.0/33\"" },
	{ "peer, an address", FROM("{'ipBlock': {'cidr': '10.0.0.0'}}"), IN(" ?"), "10.0.0.0" },
	{ "peer, block without CIDR", FROM("{'ipBlock': {}}"), IN(" ?"), "cidr is missing" },
	{ "peer, exception that is no CIDR",
	  FROM("{'ipBlock': {'cidr': '10.0.0.0/8', 'except': ['10.1.0.0/16', 'x']}}"), IN(" ?"),
	  "except[1]: value \"x\"" },
	{ "peer, unknown operator",
	  FROM("{'namespaceSelector': {'matchLabels': {'a': '1'}}, 'podSelector': "
	       "{'matchExpressions': [{'key': 'a', 'operator': 'Like'}]}}"),
	  IN(" ?"), "operator: value \"Like\", expected In, NotIn, Exists or DoesNotExist" },
	{ "peer, In without values",
	  FROM("{'podSelector': {'matchExpressions': [{'key': 'a', 'operator': 'In'}]}}"), IN(" ?"),
	  "values is missing" },
	{ "peer, Exists with values",
	  FROM("{'podSelector': {'matchExpressions': [{'key': 'a', 'operator': 'Exists', "
	       "'values': ['b']}]}}"),
	  IN(" ?"), "expected values with In and NotIn, and with nothing else" },
	{ "peer, expression without key",
	  FROM("{'podSelector': {'matchExpressions': [{'operator': 'Exists'}]}}"), IN(" ?"),
	  "key is missing" },
	{ "peer, label that is no text", FROM("{'podSelector': {'matchLabels': {'a': 1}}}"),
	  IN(" ?"), "matchLabels.a: value 1, expected a text" },
	{ "port, null", PORTS("null"), IN(": ?"), "spec.ingress[0].ports[0]" },
	{ "port 0", PORTS("{'port': 0}"), IN(": ?"), "port: value 0, expected a number from 1" },
	{ "port, too high", PORTS("{'port': 65536}"), IN(": ?"), "port: value 65536" },
	{ "port, end before start", PORTS("{'port': 80, 'endPort': 79}, {'port': 1}"),
	  IN(": ? 1/tcp"), "endPort: value 79, expected a number from 80 to 65535" },
	{ "port, end too high", PORTS("{'port': 80, 'endPort': 65536}"), IN(": ?"), "endPort" },
	{ "port, end without start", PORTS("{'endPort': 80}"), IN(": ?"), "endPort: value 80" },
	{ "port, name with end", PORTS("{'port': 'web', 'endPort': 80}"), IN(": ?"), "endPort" },
	{ "port, name too long", PORTS("{'port': 'abcdefghijklmnop'}"), IN(": ?"), "the name" },
	{ "port, name without letter", PORTS("{'port': '80'}"), IN(": ?"), "value \"80\"" },
	{ "port, name with two hyphens", PORTS("{'port': 'a--b'}"), IN(": ?"), "a--b" },
	{ "port, name ends with a hyphen", PORTS("{'port': 'a-'}"), IN(": ?"), "a-" },
	{ "port, protocol in lower case", PORTS("{'protocol': 'tcp'}"), IN(": ?"), "TCP, UDP or" },
	{ "port, fraction", PORTS("{'port': 1.5}"), IN(": ?"), "a whole number" },
	{ "spec, unknown member", SPEC("'egres': [{}]"), "x/p {} ingress",
	  "spec.egres: value a list, expected no such field; known are podSelector, policyTypes" },
	{ "rule, unknown member", SPEC("'ingress': [{'from': [{'podSelector': {}}], 'port': 80}]"),
	  IN(" ?"),
	  "spec.ingress[0].port: value 80, expected no such field; known are from, ports" },
	{ "rule of egress with from", SPEC("'policyTypes': ['Egress'], 'egress': [{'from': []}]"),
	  "x/p {} egress; out accept ?", "spec.egress[0].from" },
	{ "peer, unknown member", FROM("{'podSelector': {}, 'moons': {}}, {'podSelector': {}}"),
	  IN(" ? /{}"), "from[0].moons" },
	{ "peer, unknown member of a block",
	  FROM("{'ipBlock': {'cidr': '0.0.0.0/0', 'exept': []}}"), IN(" ?"), "ipBlock.exept" },
	{ "peer, unknown member of a selector", FROM("{'podSelector': {'matchLabel': {}}}"),
	  IN(" ?"),
	  "podSelector.matchLabel: value an object, expected no such field; known are matchLabels" },
	{ "peer, unknown member of an expression",
	  FROM("{'podSelector': {'matchExpressions': [{'key': 'a', 'operator': 'Exists', 'not': true}]}}"),
	  IN(" ?"), "matchExpressions[0].not" },
	{ "port, unknown member", PORTS("{'port': 80, 'endport': 90}"), IN(": ?"), "endport" },
	{ "mode, unknown", MODE("'Audit'"), "x/p {} ingress",
	  "policy-mode: value \"Audit\", expected audit or enforce" },
	{ "mode, empty", MODE("''"), "x/p {} ingress", "expected audit or enforce" },
	{ "mode, no text", MODE("true"), "x/p {} ingress", "value true, expected a text" },
	{ "cluster, domain names of a Deny", TO("Deny", "{'domainNames': ['a.b']}"),
	  ALL_OUT("deny") "?", "expected no domainNames in a Deny or Pass" },
	{ "cluster, unknown peer", TO("Deny", "{'moons': {}}, {'namespaces': {}}"),
	  ALL_OUT("deny") "? {}/{}",
	  "spec.egress[0].to[0].moons: value an object, expected no such" },
	{ "cluster, peer without a kind", TO("Deny", "{}"), ALL_OUT("deny") "?", "a kind of peer" },
	{ "cluster, peer of two kinds", TO("Deny", "{'networks': ['10.0.0.0/8'], 'nodes': {}}"),
	  ALL_OUT("deny") "?",
	  "spec.egress[0].to[0]: value an object, expected a kind of peer that is known here, and one" },
	{ "cluster, unknown member of pods",
	  TO("Deny", "{'pods': {'podSelector': {}, 'moons': 1}}"), ALL_OUT("deny") "?",
	  "pods.moons" },
	{ "cluster, unknown member of a rule",
	  RULES("'ingress': [{'action': 'Accept', 'from': [{'namespaces': {}}], 'ports': []}]"),
	  ADMIN "; in accept {}/{} ?",
	  "spec.ingress[0].ports: value a list, expected no such field" },
	{ "cluster, from in a rule of egress",
	  RULES("'egress': [{'action': 'Deny', 'to': [{'namespaces': {}}], 'from': []}]"),
	  ALL_OUT("deny") "{}/{} ?", "spec.egress[0].from" },
	{ "cluster, unknown member of spec", RULES("'egres': []"), ADMIN, "spec.egres" },
	{ "cluster, no peers", TO("Deny", ""), ALL_OUT("deny") "?", "at least one peer" },
	{ "cluster, pods and namespaces", TO("Pass", "{'namespaces': {}, 'pods': {}}"),
	  ALL_OUT("pass") "?", "a kind of peer" },
	{ "cluster, pods without pod selector", TO("Pass", "{'pods': {'namespaceSelector': {}}}"),
	  ALL_OUT("pass") "?", "pods.podSelector is missing" },
	{ "cluster, no networks", TO("Deny", "{'networks': []}"), ALL_OUT("deny") "?", "to[0]" },
	{ "cluster, network that is none", TO("Deny", "{'networks': ['10.0.0.0/8', 'x']}"),
	  ALL_OUT("deny") "10.0.0.0/8 ?", "networks[1]: value \"x\"" },
	{ "cluster, networks of ingress",
	  RULES("'ingress': [{'action': 'Deny', 'from': [{'networks': ['10.0.0.0/8']}]}]"),
	  ADMIN "; in deny ?", "spec.ingress[0].from[0]" },
	{ "cluster, unknown protocol", CPORTS("{'icmp': {}}"), CIN " ?", "protocols[0].icmp" },
	{ "cluster, protocol of two kinds", CPORTS("{'tcp': {}, 'destinationNamedPort': 'web'}"),
	  CIN " ?", "a kind of protocol that is known here, and one alone" },
	{ "cluster, unknown member of a protocol", CPORTS("{'tcp': {'sourcePort': {}}}"), CIN " ?",
	  "tcp.sourcePort" },
	{ "cluster, unknown member of a port",
	  CPORTS("{'tcp': {'destinationPort': {'number': 80, 'name': 'web'}}}"), CIN " ?",
	  "destinationPort.name" },
	{ "cluster, number and range",
	  CPORTS("{'tcp': {'destinationPort': {'number': 80, 'range': {'start': 1, 'end': 2}}}}"),
	  CIN " ?", "a number, or a range" },
	{ "cluster, unknown member of a range",
	  CPORTS("{'tcp': {'destinationPort': {'range': {'start': 5, 'end': 6, 'step': 2}}}}"),
	  CIN " ?", "range.step" },
	{ "cluster, empty protocol", CPORTS("{}"), CIN " ?", "a kind of protocol" },
	{ "cluster, port without number", CPORTS("{'tcp': {'destinationPort': {}}}"), CIN " ?",
	  "a number, or a range" },
	{ "cluster, range without end",
	  CPORTS("{'tcp': {'destinationPort': {'range': {'start': 5}}}}"), CIN " ?", "a range" },
	{ "cluster, range whose end is before its start",
	  CPORTS("{'tcp': {'destinationPort': {'range': {'start': 5, 'end': 4}}}}"), CIN " ?",
	  "range.end: value 4" },
};

static void check_row(const char *name, const char *object, const char *expected,
		      const char *logged)
{
	struct line line = { 0 };
	const char *log;

	capture_log();
	apply_good_text(model, object);
	apply_good_text(model, object);
	log = captured_log();
	summarize(&line);
	ck_assert_msg(strcmp(line.text, expected) == 0, "%s: got \"%s\", expected \"%s\"", name,
		      line.text, expected);
	ck_assert_msg(logged ? strstr(log, logged) != NULL : !*log, "%s: log \"%s\"", name, log);
	ck_assert_msg(strchr(log, '\n') == strrchr(log, '\n'), "%s: more than a line: %s", name,
		      log);
	ck_assert_msg(!strchr(heard, ' '), "%s: an equal object was reported: %s", name, heard);
}

/* No text and no set of labels stays when the object goes. */
static void check_nothing_stays(const char *name)
{
	mk_model_delete(model, MK_KIND_POD, "x", "p");
	mk_model_delete(model, MK_KIND_NAMESPACE, "", "x");
	mk_model_delete(model, MK_KIND_NETWORK_POLICY, "x", "p");
	mk_model_delete(model, MK_KIND_CLUSTER_POLICY, "", "c");
	ck_assert_msg(texts_count(&model->texts) == 0, "%s: texts stay", name);
}

START_TEST(test_good)
{
	check_row(good[_i].name, good[_i].object, good[_i].expected, NULL);
	check_nothing_stays(good[_i].name);
}
END_TEST

START_TEST(test_odd)
{
	check_row(odd[_i].name, odd[_i].object, odd[_i].expected, odd[_i].logged);
	check_nothing_stays(odd[_i].name);
}
END_TEST

/* ---- what is refused as a whole -------------------------------------------------------------- */

#define SUBJECT(of)    "{" CLUSTER ", 'spec': {" PLACE ", 'subject': " of "}}"
#define ALL_NAMESPACES "'subject': {'namespaces': {}}"

static const struct {
	const char *object, *error;
} bad[] = {
	{ "{" POD(", 'labels': {'a': 1}") "}", "Pod x/p: metadata.labels.a: value 1" },
	{ "{" POD("") ", 'spec': {'nodeName': 1}}", "spec.nodeName" },
	{ "{" POD("") ", 'status': {'podIPs': [{'ip': 'x'}]}}", "status.podIPs[0].ip" },
	{ "{" POD("") ", 'spec': {'containers': [{'ports': [{'name': 'a', 'containerPort': 0}]}]}}",
	  "spec.containers[0].ports[0].containerPort: value 0" },
	{ "{" POD("") ", 'spec': {'containers': [{'ports': [{'protocol': 'x'}]}]}}", "TCP, UDP" },
	{ SPEC("'podSelector': {'matchExpressions': [{'key': 'a', 'operator': 'Like'}]}"),
	  "NetworkPolicy x/p: spec.podSelector.matchExpressions[0].operator: value \"Like\"" },
	{ SPEC("'podSelector': 'all'"), "spec.podSelector" },
	{ SPEC("'podSelector': {'matchLabel': {'a': '2'}}"), "spec.podSelector.matchLabel" },
	{ SPEC("'policyTypes': ['Ingress', 'Both']"), "spec.policyTypes[1]: value \"Both\"" },
	{ SPEC("'ingress': {}"), "spec.ingress: value an object, expected a list" },
	{ SPEC("'ingress': ['all']"), "spec.ingress[0]" },
	{ SPEC("'ingress': [{'from': {}}]"), "spec.ingress[0].from" },
	{ "{" CLUSTER "}", "ClusterNetworkPolicy c: spec.tier is missing" },
	{ "{" CLUSTER ", 'spec': {'tier': 'Middle', 'priority': 1, " ALL_NAMESPACES "}}",
	  "spec.tier: value \"Middle\", expected Admin or Baseline" },
	{ "{" CLUSTER ", 'spec': {'tier': 'Admin', " ALL_NAMESPACES "}}",
	  "spec.priority is missing" },
	{ "{" CLUSTER ", 'spec': {'tier': 'Admin', 'priority': 1001, " ALL_NAMESPACES "}}",
	  "spec.priority: value 1001" },
	{ "{" CLUSTER ", 'spec': {'tier': 'Admin', 'priority': -1, " ALL_NAMESPACES "}}",
	  "spec.priority: value -1" },
	{ "{" CLUSTER ", 'spec': {" PLACE "}}", "spec.subject is missing" },
	{ SUBJECT("{}"), "spec.subject: value an object, expected either namespaces or pods" },
	{ SUBJECT("{'moons': {}}"), "spec.subject.moons: value an object, expected no such field" },
	{ SUBJECT("{'pods': {}}"), "spec.subject.pods.podSelector is missing" },
	{ SUBJECT("{'namespaces': {'matchExpressions': [{}]}}"), "key is missing" },
	{ RULES("'ingress': [{'from': [{'namespaces': {}}]}]"),
	  "spec.ingress[0].action is missing" },
	{ RULES("'ingress': [{'action': 'Allow', 'from': [{'namespaces': {}}]}]"),
	  "spec.ingress[0].action: value \"Allow\", expected Accept, Deny or Pass" },
	{ RULES("'ingress': [null]"), "spec.ingress[0].action is missing" },
	{ "{'apiVersion': 'policy.networking.k8s.io/v1alpha1', 'kind': 'ClusterNetworkPolicy', "
	  "'metadata': {'name': 'c'}}",
	  "expected policy.networking.k8s.io/v1beta1" },
};

/* The previous version stays. */
START_TEST(test_bad)
{
	static const char pod[] = "{" POD(", 'labels': {'a': '1'}") "}";
	struct line before = { 0 }, after = { 0 };
	struct mk_error err = { 0 };
	size_t texts;

	apply_good_text(model, pod);
	apply_good_text(model, SPEC("'podSelector': {'matchLabels': {'a': '1'}}"));
	apply_good_text(model, RULES("'ingress': []"));
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

/* ---- selectors ------------------------------------------------------------------------------- */

static const struct {
	const char *selector, *labels;
	bool matches;
} matches[] = {
	{ "", "", true },
	{ "", "'a': '1'", true },
	{ "'matchLabels': {'a': '1'}", "'a': '1', 'b': '2'", true },
	{ "'matchLabels': {'a': '1'}", "'a': '2'", false },
	{ "'matchLabels': {'a': '1'}", "'b': '1'", false },
	{ "'matchLabels': {'a': '1'}", "", false },
	{ "'matchLabels': {'a': ''}", "'a': ''", true },
	{ "'matchLabels': {'a': '1', 'b': '2'}", "'a': '1', 'b': '2'", true },
	{ "'matchLabels': {'a': '1', 'b': '2'}", "'a': '1'", false },
	{ "'matchExpressions': [{'key': 'a', 'operator': 'In', 'values': ['1', '2']}]", "'a': '2'",
	  true },
	{ "'matchExpressions': [{'key': 'a', 'operator': 'In', 'values': ['1', '2']}]", "'a': '3'",
	  false },
	{ "'matchExpressions': [{'key': 'a', 'operator': 'In', 'values': ['1', '2']}]", "", false },
	{ "'matchExpressions': [{'key': 'a', 'operator': 'NotIn', 'values': ['1', '2']}]",
	  "'a': '3'", true },
	{ "'matchExpressions': [{'key': 'a', 'operator': 'NotIn', 'values': ['1', '2']}]",
	  "'a': '1'", false },
	{ "'matchExpressions': [{'key': 'a', 'operator': 'NotIn', 'values': ['1', '2']}]", "",
	  true },
	{ "'matchExpressions': [{'key': 'a', 'operator': 'Exists'}]", "'a': ''", true },
	{ "'matchExpressions': [{'key': 'a', 'operator': 'Exists'}]", "'b': ''", false },
	{ "'matchExpressions': [{'key': 'a', 'operator': 'DoesNotExist'}]", "'b': ''", true },
	{ "'matchExpressions': [{'key': 'a', 'operator': 'DoesNotExist'}]", "'a': ''", false },
	{ "'matchLabels': {'a': '1'}, 'matchExpressions': [{'key': 'b', 'operator': 'Exists'}]",
	  "'a': '1'", false },
	{ "'matchLabels': {'a': '1'}, 'matchExpressions': [{'key': 'b', 'operator': 'Exists'}]",
	  "'a': '1', 'b': '2'", true },
};

START_TEST(test_match)
{
	char text[512];

	snprintf(text, sizeof(text), SPEC("'podSelector': {%s}"), matches[_i].selector);
	apply_good_text(model, text);
	snprintf(text, sizeof(text), "{" POD(", 'labels': {%s}") "}", matches[_i].labels);
	apply_good_text(model, text);
	ck_assert_msg(mk_selector_matches(&mk_model_network_policy(model, "x", "p")->pods,
					  &mk_model_pod(model, "x", "p")->of->labels) ==
			      matches[_i].matches,
		      "{%s} and {%s}", matches[_i].selector, matches[_i].labels);
}
END_TEST

/* ---- what the listener hears ----------------------------------------------------------------- */

#define NODE_WITH(labels) \
	"{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n', 'labels': {" labels "}}}"
#define NAMESPACE_WITH(labels)                                                                   \
	"{'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': 'x', 'labels': {" labels \
	"}}}"

static const struct {
	const char *object; /* NULL: delete */
	enum mk_kind kind;
	const char *heard;
} story[] = {
	{ "{" POD(", 'labels': {'a': '1', 'b': '2'}") "}", .heard = "pod:x/p" },
	{ "{" POD(", 'labels': {'b': '2', 'a': '1'}") ", 'status': {'conditions': [{}]}}",
	  .heard = "" },
	{ "{" POD(", 'labels': {'a': '1'}") "}", .heard = "pod:x/p" },
	{ "{" POD(", 'labels': {'a': '1'}, 'uid': 'u'") "}", .heard = "pod:x/p" },
	{ "{" POD(", 'labels': {'a': '1'}, 'uid': 'u'") ", 'spec': {'nodeName': 'n'}}",
	  .heard = "pod:x/p" },
	{ "{" POD(", 'labels': {'a': '1'}, 'uid': 'v', 'annotations': "
		  "{'kubernetes.io/config.hash': 'u'}") ", 'spec': {'nodeName': 'n'}}",
	  .heard = "pod:x/p" },
	{ .kind = MK_KIND_POD, .heard = "pod:x/p" },
	{ .kind = MK_KIND_POD, .heard = "" },
	{ NAMESPACE_WITH("'a': '1'"), .heard = "namespace:x" },
	{ NAMESPACE_WITH("'a': '1', 'kubernetes.io/metadata.name': 'x'"), .heard = "" },
	{ NAMESPACE_WITH(""), .heard = "namespace:x" },
	{ .kind = MK_KIND_NAMESPACE, .heard = "namespace:x" },
	{ SPEC("'ingress': [{'ports': [{'port': 1}]}]"), .heard = "policy:x/p" },
	{ SPEC("'ingress': [{'ports': [{'port': 1, 'protocol': 'TCP'}]}]"), .heard = "" },
	{ SPEC("'ingress': [{'ports': [{'port': 1, 'endPort': 2}]}]"), .heard = "policy:x/p" },
	{ SPEC("'ingress': [{'from': [{'podSelector': {}}]}]"), .heard = "policy:x/p" },
	{ SPEC("'ingress': [{'from': [{'namespaceSelector': {}}]}]"), .heard = "policy:x/p" },
	{ SPEC("'ingress': [{'from': [{'ipBlock': {'cidr': '10.0.0.0/8'}}]}]"),
	  .heard = "policy:x/p" },
	{ SPEC("'ingress': [{'from': [{'ipBlock': {'cidr': '10.0.0.0/8', 'except': "
	       "['10.1.0.0/16']}}]}]"),
	  .heard = "policy:x/p" },
	{ SPEC("'policyTypes': ['Ingress']"), .heard = "policy:x/p" },
	{ SPEC(""), .heard = "" },
	{ MODE("'audit'"), .heard = "policy:x/p" },
	{ MODE("'audit'"), .heard = "" },
	{ MODE("'enforce'"), .heard = "policy:x/p" },
	{ .kind = MK_KIND_NETWORK_POLICY, .heard = "policy:x/p" },
	{ RULES("'ingress': []"), .heard = "policy:c" },
	{ RULES("'egress': null"), .heard = "" },
	{ TO("Deny", "{'nodes': {}}"), .heard = "policy:c" },
	{ TO("Accept", "{'nodes': {}}"), .heard = "policy:c" },
	{ TO("Accept", "{'nodes': {'matchLabels': {'a': '1'}}}"), .heard = "policy:c" },
	{ .kind = MK_KIND_CLUSTER_POLICY, .heard = "policy:c" },
	{ NODE_WITH("'a': '1'"), .heard = "node:n" },
	{ NODE_WITH("'a': '1'"), .heard = "" },
	{ NODE_WITH("'a': '2'"), .heard = "node:n" },
};

START_TEST(test_story)
{
	static const char *const names[MK_KIND_COUNT] = { [MK_KIND_POD] = "p",
							  [MK_KIND_NAMESPACE] = "x",
							  [MK_KIND_NETWORK_POLICY] = "p",
							  [MK_KIND_CLUSTER_POLICY] = "c" };

	for (size_t i = 0; i < MK_ARRAY_SIZE(story); i++) {
		enum mk_kind kind = story[i].kind;
		bool namespaced = kind == MK_KIND_POD || kind == MK_KIND_NETWORK_POLICY;

		heard[0] = '\0';
		if (story[i].object)
			apply_good_text(model, story[i].object);
		else
			mk_model_delete(model, kind, namespaced ? "x" : "", names[kind]);
		ck_assert_msg(strcmp(heard, story[i].heard) == 0,
			      "step %zu: heard \"%s\", expected \"%s\"", i, heard, story[i].heard);
	}
}
END_TEST

/* ---- one copy of each text ------------------------------------------------------------------- */

START_TEST(test_shared)
{
	const struct mk_pod_object *one, *two;
	size_t texts;

	apply_good_text(model, "{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'a', "
			       "'labels': {'k': 'v', 'l': 'v'}}, 'spec': {'nodeName': 'v'}}");
	texts = texts_count(&model->texts);
	ck_assert_uint_eq(texts, 4 + 1 + 1); /* default, k, l, v; the labels; the workload */
	apply_good_text(model, "{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'b', "
			       "'labels': {'l': 'v', 'k': 'v'}}}");
	ck_assert_uint_eq(texts_count(&model->texts), texts);
	ck_assert_uint_eq(mk_model_count(model, MK_KIND_POD), 2);
	one = mk_model_pod(model, "default", "a");
	two = mk_model_pod(model, "default", "b");
	ck_assert_ptr_eq(one->of, two->of);
	ck_assert_ptr_eq(labels_value(&one->of->labels, one->of->labels.of[0].key),
			 mk_pod_node(one));
	mk_model_delete(model, MK_KIND_POD, "default", "a");
	ck_assert_uint_eq(texts_count(&model->texts), texts);
}
END_TEST

UNIT_SUITE("model policy")
{
	TCase *tc = unit_case(suite, "policy", setup, teardown);

	tcase_add_loop_test(tc, test_good, 0, MK_ARRAY_SIZE(good));
	tcase_add_loop_test(tc, test_odd, 0, MK_ARRAY_SIZE(odd));
	tcase_add_loop_test(tc, test_bad, 0, MK_ARRAY_SIZE(bad));
	tcase_add_loop_test(tc, test_match, 0, MK_ARRAY_SIZE(matches));
	tcase_add_test(tc, test_story);
	tcase_add_test(tc, test_shared);
}
