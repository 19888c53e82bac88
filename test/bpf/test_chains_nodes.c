// SPDX-License-Identifier: Apache-2.0
/* Service function chains over several nodes: a function on another node, a function for another
 * node's pod, and a replica that vanishes. Rows as in policy.h and chains.h. */
#include "bpf/policy.h"
#include "bpf/run.h"

#define A     "10.244.1.2"
#define B     "10.244.1.3"
#define R     "10.244.2.7"
#define WORLD "203.0.113.10"
#define AP    "10.244.1.2:40000"
#define BP    "10.244.1.3:80"
#define RP    "10.244.2.7:80"
#define RC    "10.244.2.7:40000"
#define WP    "203.0.113.10:443"
#define VTEP2 "10.18.0.2" /* the node of R */
#define VTEP3 "10.18.0.3"

/* ICMP errors, as IPv4's type and code */
#define NO_HOST "3/1"
#define TOO_BIG "3/4"
#define EXPIRED "11/0"

#define IN(flow, outcome)  "overlay " flow " = " outcome
#define OUT(flow, outcome) "pod " flow " = " outcome
#define UP(flow, outcome)  "uplink " flow " = " outcome

/* 10.244.1.2 has the egress chain 1, 10.244.1.3 the ingress chain 2. */
#define EGRESS	"set e any=all+1 unknown=all+1 *=all+1", "pod 10.244.1.2 in=open out=e"
#define INGRESS "set i any=all+2 unknown=all+2 *=all+2", "pod 10.244.1.3 in=i out=open"
/* Chain 1 has function 1, of replica 1 on another node. */
#define ONE "chain 1 1", "function 1 1", "replica 1 on " VTEP2
/* Chain 1 has functions 1, 2, 3: the middle one is on another node. */
#define THREE                                                                                 \
	"chain 1 1 2 3", "function 1 1", "function 2 2", "function 3 3", "replica 1 bridged", \
		"replica 2 on " VTEP2, "replica 3 bridged"
#define OF_INGRESS "chain 2 4", "function 4 4", "replica 4 on " VTEP2

static const struct policy_row rows[] = {
	/* home: the function is on another node */
	{ "egress: there and back",
	  { ONE, EGRESS, OUT("tcp " AP " > " RP, "to " VTEP2 " 1 inside 0 tcp " AP " > " RP),
	    "returns 1 outside = tcp " AP " > " RP, "ttl 63", "went to the overlay", "paths 1",
	    "sessions 2",
	    IN("tcp " RP " > " AP " synack", "to " VTEP2 " 1 outside 0 tcp " RP " > " AP),
	    "returns 1 inside = tcp " RP " > " AP, "ttl 63", "went to a pod",
	    OUT("tcp " AP " > " RP " ack", "to " VTEP2 " 1 inside 0"), "counted 1 in inside 2",
	    "counted 1 out outside 1", "counted 1 in outside 1", "counted 1 out inside 1" } },
	{ "ingress: there and back",
	  { OF_INGRESS, INGRESS, IN("tcp " RC " > " BP, "to " VTEP2 " 4 outside 7"),
	    "returns 4 inside = tcp " RC " > " BP, "ttl 63", "went to a pod",
	    OUT("tcp " BP " > " RC " synack", "to " VTEP2 " 4 inside 7"),
	    "returns 4 outside = tcp " BP " > " RC, "ttl 63" } },
	{ "the middle of three functions",
	  { THREE, EGRESS, OUT("tcp " AP " > " RP, "into 1 inside " A),
	    "from 1 outside = to " VTEP2 " 2 inside 1", "returns 2 outside = into 3 inside " A,
	    "from 3 outside = tcp " AP " > " RP, "ttl 63",
	    IN("tcp " RP " > " AP " synack", "into 3 outside " A),
	    "from 3 inside = to " VTEP2 " 2 outside 1", "returns 2 inside = into 1 outside " A,
	    "from 1 inside = tcp " RP " > " AP, "ttl 63" } },
	{ "two functions on two nodes",
	  { "chain 1 1 2", "function 1 1", "function 2 2", "replica 1 on " VTEP2,
	    "replica 2 on " VTEP3, EGRESS, OUT("tcp " AP " > " RP, "to " VTEP2 " 1 inside 0"),
	    "returns 1 outside = to " VTEP3 " 2 inside 1", "returns 2 outside = tcp " AP " > " RP,
	    IN("tcp " RP " > " AP " synack", "to " VTEP3 " 2 outside 1"),
	    "returns 2 inside = to " VTEP2 " 1 outside 0",
	    "returns 1 inside = tcp " RP " > " AP } },
	/* the function is here, its flow's home is another node */
	{ "for another node's pod, egress: there and back, without a session",
	  { "replica 1 bridged", "arrives 1 inside 0 tcp " RC " > " BP " = into 1 inside " R,
	    "from 1 outside = home " VTEP2 " 1 outside tcp " RC " > " BP,
	    "arrives 1 outside 0 tcp " BP " > " RC " synack = into 1 outside " R,
	    "from 1 inside = home " VTEP2 " 1 inside tcp " BP " > " RC, "sessions 0", "paths 0",
	    "counted 1 in inside 1", "counted 1 out outside 1", "counted 1 in outside 1",
	    "counted 1 out inside 1" } },
	{ "for another node's pod: of a flow with the world",
	  { "replica 1 bridged", "arrives 1 inside 0 tcp " RC " > " WP " = into 1 inside " R,
	    "from 1 outside = home " VTEP2 " 1 outside tcp " RC " > " WP,
	    "arrives 1 outside 0 tcp " WP " > " RC " synack = into 1 outside " R,
	    "from 1 inside = home " VTEP2 " 1 inside tcp " WP " > " RC } },
};

START_TEST(test_row)
{
	policy_run(&rows[_i]);
}
END_TEST

BPF_SUITE("chains_nodes")
{
	TCase *tcase = bpf_case(suite, "chains_nodes");

	tcase_add_checked_fixture(tcase, policy_start, NULL);
	tcase_add_loop_test(tcase, test_row, 0, ROWS(rows));
}
