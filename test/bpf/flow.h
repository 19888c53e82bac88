/* SPDX-License-Identifier: Apache-2.0 */
/* test/bpf/flow.h - a rule of Services as a row: the cluster's objects, a packet, and its
 * outcome. Each line of a row is one of
 *
 *	service {..}  endpoints ..  object {..}	   as in cluster.h; "endpoints none": no slice
 *	delete service
 *	hostport PROTO ADDRESS:PORT L:PORT	   a pod, by letter, has a port of the host
 *	host has ADDRESS			   another address of the host's own
 *	weight N				   localEndpointWeight
 *	masquerade all				   masqueradeAll
 *	no localhost				   localhostNodePorts: false
 *	CLIENT PROTO TO = OUTCOME		   new flows
 *	open NAME CLIENT PROTO TO = OUTCOME	   one new flow, remembered
 *	NAME goes on				   the same endpoint, the same translation
 *	NAME now OUTCOME			   its next packet, like a new flow
 *	NAME errors				   its ICMP errors reach both sides, translated
 *	NAME fragments				   a UDP datagram in two fragments, and its answer
 *	wait N					   seconds, for affinity
 *	sweep					   sessions of endpoints that are gone
 *	sessions expire				   all of them: a month has passed
 *
 * The standard Service exists unless the row begins with one of its own or with "no service".
 *
 * CLIENT is one of these; a following "@1.2.3.4" gives another source address:
 * - pod; self: the pod that is endpoint P
 * - host: a process of this host; hostnet: one with the node's address, as host-network pods have
 * - own: a process that asks one of its own host's addresses
 * - outside; node2: a process of another node, or a masqueraded pod of that node
 * - forwarded: a container network of this host
 *
 * PROTO: tcp, udp, sctp, ping. TO: vip, node, ext, lb or an address, with ":port" unless a ping.
 *
 * OUTCOME:
 *	L R kept	flows reach exactly these endpoints (all of them), the client's address kept
 *	L R masq	... with the virtual pod address; an endpoint may have ":port"
 *	L R		... host and hostnet: with an address of this node that can be answered
 *	refused		ICMP port unreachable to the client, from the address that was asked
 *	dropped REASON	enum mk_drop_reason
 *	untouched	to the host's stack, unchanged
 *	outside		to the uplink, with the same destination
 *	pong		the node answers the ping
 *
 * For every flow that reaches an endpoint, the answer is sent back. It must reach the client from
 * the address that the client asked. */
#ifndef MK_TEST_FLOW_H
#define MK_TEST_FLOW_H

#include <stddef.h>

#include "bpf/family.h"

#define FLOW_LINES 20

struct flow_row {
	const char *rule;
	const char *lines[FLOW_LINES];
};

void flow_run(const struct flow_row *row);

/* Check the outcome of new flows of @client over @proto to @to; @rule names the failure. */
void flow_expect(const char *rule, const char *client, const char *proto, const char *to,
		 const char *outcome);

/* Each file of rows covers one section of "What a Service means, exactly". */
struct flow_section {
	const char *name;
	const struct flow_row *rows;
	int count;
};
extern const struct flow_section flows_objects, flows_types, flows_endpoints, flows_topology,
	flows_addresses, flows_refusals, flows_sessions, flows_fragments, flows_hostports,
	flows_kube_proxy;

/* Rows with one column per state of the endpoints: flows_matrix.c. */
int flows_matrix_step(void);
int flows_matrix_count(void);
const char *flows_matrix_rule(int number);
void flows_matrix_run(int number);

/* Shorthands of rows. */
#define SPEC(members)	"service {'spec': {" members "}}"
#define EXTERNAL_LOCAL	SPEC("'externalTrafficPolicy': 'Local'")
#define INTERNAL_LOCAL	SPEC("'internalTrafficPolicy': 'Local'")
#define META(ns, title) "'metadata': {'namespace': '" ns "', 'name': '" title "'}"
#define OTHER_SERVICE(ns, title, spec) \
	"object {'apiVersion': 'v1', 'kind': 'Service', " META(ns, title) ", 'spec': {" spec "}}"
/* A slice in addition to those of the line `endpoints`. */
#define SLICE_OF(ns, service, title, type, members)                                             \
	"object {'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', 'addressType': " \
	"'" type "', 'metadata': {'namespace': '" ns "', 'name': '" title                       \
	"', 'labels': {'kubernetes.io/service-name': '" service "'}}, " members "}"
#define SLICE(members) SLICE_OF("x", "s", "more", "IPv4", members)
#define TCP_8080       "'ports': [{'name': 'tcp', 'protocol': 'TCP', 'port': 8080}], "

#endif
