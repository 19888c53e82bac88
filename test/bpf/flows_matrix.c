// SPDX-License-Identifier: Apache-2.0
/* Where each address answers, to which client and how. The matrix combines every kind of address
 * and client, and both policies, with every state of the endpoints (here, elsewhere, ending, none).
 * It does so over TCP, UDP and SCTP. There is one column per state of the endpoints. */
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "bpf/cluster.h"
#include "bpf/flow.h"

enum state { BOTH, HERE, THERE, BOTH_END, HERE_ENDS, THERE_ENDS, NONE, STATES };

static const char *const states[STATES] = {
	[BOTH] = "L R",	      [HERE] = "L", [THERE] = "R",
	[BOTH_END] = "Lt Rt", /* only terminating ones: all that serve are used */
	[HERE_ENDS] = "Lt R", /* the one here is ending, a ready one is elsewhere */
	[THERE_ENDS] = "Rt",  [NONE] = "",
};

static const char *const protocols[] = { "tcp", "udp", "sctp" };

#define SILENT	  "dropped NO_LOCAL_BACKEND"
#define EXT_LOCAL "{'spec': {'externalTrafficPolicy': 'Local'}}"
#define INT_LOCAL "{'spec': {'internalTrafficPolicy': 'Local'}}"

/* Any endpoint of the cluster. */
#define ANY(how)                                                                    \
	{                                                                           \
		"L R" how, "L" how, "R" how, "L R" how, "R" how, "R" how, "refused" \
	}
/* Only endpoints of this node; silence if only other nodes have some. */
#define OWN(how)                                                              \
	{                                                                     \
		"L" how, "L" how, SILENT, "L" how, "L" how, SILENT, "refused" \
	}

static const struct {
	const char *rule, *policy, *client, *to;
	const char *outcomes[STATES];
} lines[] = {
	/* clang-format off */
	{ "ClusterIP: a pod's address is kept", NULL, "pod", "vip:80", ANY(" kept") },
	{ "ClusterIP: host", NULL, "host", "vip:80", ANY("") },
	{ "ClusterIP: host network", NULL, "hostnet", "vip:80", ANY("") },
	{ "ClusterIP: outside is masqueraded", NULL, "outside", "vip:80", ANY(" masq") },
	{ "ClusterIP: another node's process is masqueraded", NULL, "node2", "vip:80", ANY(" masq") },
	{ "ClusterIP, internal policy Local: pod", INT_LOCAL, "pod", "vip:80", OWN(" kept") },
	{ "ClusterIP, internal policy Local: host", INT_LOCAL, "host", "vip:80", OWN("") },
	{ "ClusterIP, internal policy Local: host network", INT_LOCAL, "hostnet", "vip:80", OWN("") },
	{ "ClusterIP, internal policy Local: outside", INT_LOCAL, "outside", "vip:80", OWN(" masq") },
	{ "ClusterIP, internal policy Local: another node's process", INT_LOCAL, "node2", "vip:80", OWN(" masq") },
	{ "ClusterIP does not ask the external policy: pod", EXT_LOCAL, "pod", "vip:80", ANY(" kept") },
	{ "ClusterIP does not ask the external policy: host", EXT_LOCAL, "host", "vip:80", ANY("") },
	{ "ClusterIP does not ask the external policy: outside", EXT_LOCAL, "outside", "vip:80", ANY(" masq") },

	{ "NodePort: pod, masqueraded", NULL, "pod", "node:30080", ANY(" masq") },
	{ "NodePort: outside, masqueraded", NULL, "outside", "node:30080", ANY(" masq") },
	{ "NodePort: another node's process, masqueraded", NULL, "node2", "node:30080", ANY(" masq") },
	{ "NodePort, external policy Local: pod, the short cut", EXT_LOCAL, "pod", "node:30080", ANY(" kept") },
	{ "NodePort, external policy Local: outside", EXT_LOCAL, "outside", "node:30080", OWN(" kept") },
	{ "NodePort, external policy Local: another node's process", EXT_LOCAL, "node2", "node:30080", OWN(" kept") },
	{ "NodePort does not ask the internal policy: pod", INT_LOCAL, "pod", "node:30080", ANY(" masq") },
	{ "NodePort does not ask the internal policy: outside", INT_LOCAL, "outside", "node:30080", ANY(" masq") },

	{ "NodePort: the host itself", NULL, "own", "node:30080", ANY("") },
	{ "NodePort, external policy Local: the host itself, the short cut", EXT_LOCAL, "own", "node:30080", ANY("") },
	{ "NodePort does not ask the internal policy: the host itself", INT_LOCAL, "own", "node:30080", ANY("") },

	{ "externalIP: pod, masqueraded", NULL, "pod", "ext:80", ANY(" masq") },
	{ "externalIP: host", NULL, "host", "ext:80", ANY("") },
	{ "externalIP: host network", NULL, "hostnet", "ext:80", ANY("") },
	{ "externalIP: outside, masqueraded", NULL, "outside", "ext:80", ANY(" masq") },
	{ "externalIP: another node's process, masqueraded", NULL, "node2", "ext:80", ANY(" masq") },
	{ "externalIP, external policy Local: pod, the short cut", EXT_LOCAL, "pod", "ext:80", ANY(" kept") },
	{ "externalIP, external policy Local: host, the short cut", EXT_LOCAL, "host", "ext:80", ANY("") },
	{ "externalIP, external policy Local: host network, the short cut", EXT_LOCAL, "hostnet", "ext:80", ANY("") },
	{ "externalIP, external policy Local: outside", EXT_LOCAL, "outside", "ext:80", OWN(" kept") },
	{ "externalIP, external policy Local: another node's process", EXT_LOCAL, "node2", "ext:80", OWN(" kept") },
	{ "externalIP does not ask the internal policy", INT_LOCAL, "outside", "ext:80", ANY(" masq") },

	{ "load balancer: pod, masqueraded", NULL, "pod", "lb:80", ANY(" masq") },
	{ "load balancer: host", NULL, "host", "lb:80", ANY("") },
	{ "load balancer: host network", NULL, "hostnet", "lb:80", ANY("") },
	{ "load balancer: outside, masqueraded", NULL, "outside", "lb:80", ANY(" masq") },
	{ "load balancer: another node's process, masqueraded", NULL, "node2", "lb:80", ANY(" masq") },
	{ "load balancer, external policy Local: pod, the short cut", EXT_LOCAL, "pod", "lb:80", ANY(" kept") },
	{ "load balancer, external policy Local: host, the short cut", EXT_LOCAL, "host", "lb:80", ANY("") },
	{ "load balancer, external policy Local: host network, the short cut", EXT_LOCAL, "hostnet", "lb:80", ANY("") },
	{ "load balancer, external policy Local: outside", EXT_LOCAL, "outside", "lb:80", OWN(" kept") },
	{ "load balancer, external policy Local: another node's process", EXT_LOCAL, "node2", "lb:80", OWN(" kept") },
	{ "load balancer does not ask the internal policy", INT_LOCAL, "outside", "lb:80", ANY(" masq") },
	/* clang-format on */
};

#define CELLS (STATES * (int)MK_ARRAY_SIZE(protocols))

/* MK_FLOWS_MATRIX_STEP: run every Nth cell, and every Nth row without half-open quota, on slow
 * machines (test/kernels). A step without a common divisor with CELLS covers every line, state and
 * protocol. */
int flows_matrix_step(void)
{
	const char *text = getenv("MK_FLOWS_MATRIX_STEP");
	int number = text ? atoi(text) : 1;

	return number > 0 ? number : 1;
}

int flows_matrix_count(void)
{
	return (int)MK_ARRAY_SIZE(lines) * CELLS / flows_matrix_step();
}

const char *flows_matrix_rule(int number)
{
	return lines[number * flows_matrix_step() / CELLS].rule;
}

void flows_matrix_run(int number)
{
	int cell = number * flows_matrix_step(), line = cell / CELLS, state = cell % CELLS % STATES;
	char rule[160];

	snprintf(rule, sizeof(rule), "%s; endpoints '%s'", lines[line].rule, states[state]);
	cluster_start();
	cluster_service(lines[line].policy);
	cluster_endpoints(states[state]);
	(void)cluster_sync();
	flow_expect(rule, lines[line].client, protocols[cell % CELLS / STATES], lines[line].to,
		    lines[line].outcomes[state]);
	cluster_stop();
}
