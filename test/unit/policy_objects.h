/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/policy_objects.h - parts from which policies of tests are made. A policy is p in
 * namespace a, for the pods with app=x, unless it says otherwise. */
#ifndef MK_TEST_POLICY_OBJECTS_H
#define MK_TEST_POLICY_OBJECTS_H

#define NP_OF(name, namespace_, spec)                                                                 \
	"{'apiVersion': 'networking.k8s.io/v1', 'kind': 'NetworkPolicy', 'metadata': {'name': '" name \
	"', 'namespace': '" namespace_ "'}, 'spec': {" spec "}}"
#define NP(spec)	     NP_OF("p", "a", spec)
#define X		     "'podSelector': {'matchLabels': {'app': 'x'}}"
#define IN(rules)	     NP(X ", 'policyTypes': ['Ingress'], 'ingress': [" rules "]")
#define OUT(rules)	     NP(X ", 'policyTypes': ['Egress'], 'egress': [" rules "]")
#define FROM(peers)	     IN("{'from': [" peers "]}")
#define TO(peers)	     OUT("{'to': [" peers "]}")
#define PORTS(ports)	     IN("{'ports': [" ports "]}")
#define TO_PORTS(ports)	     OUT("{'ports': [" ports "]}")
#define PODS(selector)	     "{'podSelector': {" selector "}}"
#define SPACES(selector)     "{'namespaceSelector': {" selector "}}"
#define LABEL(key, value)    "'matchLabels': {'" key "': '" value "'}"
#define EXPRESSION(rest)     "'matchExpressions': [{" rest "}]"
#define BLOCK(cidr)	     "{'ipBlock': {'cidr': '" cidr "'}}"
#define EXCEPT(cidr, except) "{'ipBlock': {'cidr': '" cidr "', 'except': [" except "]}}"
#define CNP_OF(name, tier, priority, rest)                                                     \
	"{'apiVersion': 'policy.networking.k8s.io/v1alpha2', 'kind': 'ClusterNetworkPolicy', " \
	"'metadata': {'name': '" name "'}, 'spec': {'tier': '" tier "', 'priority': " priority \
	", " rest "}}"
#define ALL		    "'subject': {'namespaces': {}}, "
#define ADMIN(rest)	    CNP_OF("c", "Admin", "5", ALL rest)
#define BASELINE(rest)	    CNP_OF("d", "Baseline", "5", ALL rest)
#define CIN(action, peers)  "'ingress': [{'action': '" action "', 'from': [" peers "]}]"
#define COUT(action, peers) "'egress': [{'action': '" action "', 'to': [" peers "]}]"
#define COUT_PORTS(action, peers, protocols) \
	"'egress': [{'action': '" action "', 'to': [" peers "], 'protocols': [" protocols "]}]"
#define CSPACES(selector) "{'namespaces': {" selector "}}"
#define CPODS(spaces, selector) \
	"{'pods': {'namespaceSelector': {" spaces "}, 'podSelector': {" selector "}}}"
#define NETWORKS(of) "{'networks': ['" of "']}"

#endif
