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
#define GONE  "0.0.0.0" /* of no node */

/* ICMP errors, as IPv4's type and code */
#define NO_HOST "3/1"
#define TOO_BIG "3/4"

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
	{ "UDP, SCTP and a ping",
	  { ONE, EGRESS, OUT("udp " AP " > " RP, "to " VTEP2 " 1 inside 0"),
	    "returns 1 outside = udp " AP " > " RP,
	    IN("udp " RP " > " AP, "to " VTEP2 " 1 outside 0"),
	    "returns 1 inside = udp " RP " > " AP,
	    OUT("sctp " AP " > " RP, "to " VTEP2 " 1 inside 0"),
	    "returns 1 outside = sctp " AP " > " RP,
	    IN("sctp " RP " > " AP " synack", "to " VTEP2 " 1 outside 0"),
	    "returns 1 inside = sctp " RP " > " AP,
	    OUT("icmp " A " > " R " 7", "to " VTEP2 " 1 inside 0"), "returns 1 outside = passes",
	    IN("icmp " R " > " A " 7 reply", "to " VTEP2 " 1 outside 0"),
	    "returns 1 inside = passes",
	    "returns 1 outside icmp " A " > " R " 7 reply = SFC_FORGED" } },
	{ "a ClusterIP: functions see the endpoint, answers get the VIP after the chain",
	  { ONE, EGRESS, "service tcp 10.96.0.1:80 > " RP,
	    OUT("tcp " AP " > 10.96.0.1:80", "to " VTEP2 " 1 inside 0 tcp " AP " > " RP),
	    "returns 1 outside = tcp " AP " > " RP, "ttl 63",
	    IN("tcp " RP " > " AP " synack", "to " VTEP2 " 1 outside 0 tcp " RP " > " AP),
	    "returns 1 inside = tcp 10.96.0.1:80 > " AP, "ttl 63" } },
	{ "a NodePort with another source",
	  { OF_INGRESS, INGRESS, "service tcp 192.168.99.11:30080 > " BP,
	    UP("tcp " WORLD ":40000 > 192.168.99.11:30080",
	       "to " VTEP2 " 4 outside 7 tcp 10.244.1.1:40000 > " BP),
	    "returns 4 inside = tcp 10.244.1.1:40000 > " BP, "went to a pod",
	    OUT("tcp " BP " > 10.244.1.1:40000 synack", "to " VTEP2 " 4 inside 7"),
	    "returns 4 outside = tcp 192.168.99.11:30080 > " WORLD ":40000" } },
	{ "to outside: masqueraded behind the chain, the answer comes through it",
	  { ONE, EGRESS, OUT("tcp " AP " > " WP, "to " VTEP2 " 1 inside 0"),
	    "returns 1 outside = passes", "ttl 63", "answer synack = to " VTEP2 " 1 outside 0",
	    "returns 1 inside = tcp " WP " > " AP, "went to a pod" } },
	{ "a local replica and a remote one",
	  { "chain 1 1", "function 1 1 2", "replica 1 on " VTEP2, "replica 2 bridged", EGRESS,
	    "both of 40 flows", "paths 2" } },
	{ "a packet beyond the MTU between nodes is answered, as the router does",
	  { ONE, EGRESS, "service udp 10.96.0.1:53 > " R ":53",
	    OUT("udp " AP " > 10.96.0.1:53 fits", "to " VTEP2 " 1 inside 0"),
	    OUT("udp " AP " > 10.96.0.1:53 whole",
		"icmp-error 10.244.1.254 > " A " " TOO_BIG " [udp " AP " > 10.96.0.1:53]"),
	    "counted 1 in inside 1" } },
	{ ".. also an answer from outside, as its sender knows it",
	  { ONE, EGRESS, OUT("udp " AP " > " WORLD ":53", "to " VTEP2 " 1 inside 0"),
	    "returns 1 outside = passes", "answer whole = told 192.168.99.11 " TOO_BIG } },
	{ "a packet that does not fit the port on another node is answered, too",
	  { ONE, EGRESS, "service udp 10.96.0.1:53 > " R ":53",
	    OUT("udp " AP " > 10.96.0.1:53", "to " VTEP2 " 1 inside 0"),
	    "too-big 1 inside 0 udp " AP " > " R ":53 long = icmp-error 10.244.1.254 > " A
	    " " TOO_BIG " [udp " AP " > 10.96.0.1:53]" } },
	{ "no device between nodes",
	  { ONE, EGRESS, "no-mksfc", OUT("tcp " AP " > " RP, "SFC_UNAVAILABLE") } },
	{ "a lost replica of another node: Block",
	  { ONE, "replica 1 on " VTEP2 " lost", EGRESS,
	    OUT("tcp " AP " > " RP, "SFC_UNAVAILABLE") } },
	{ "a replica of a node that left the overlay",
	  { ONE, EGRESS, OUT("tcp " AP " > " RP, "to " VTEP2 " 1 inside 0"), "replica 1 on " GONE,
	    OUT("tcp " AP " > " RP " ack", "SFC_UNAVAILABLE") } },
	{ "fragments, by two nodes",
	  { "chain 1 1 2", "function 1 1", "function 2 2", "replica 1 on " VTEP2,
	    "replica 2 on " VTEP3, EGRESS,
	    OUT("udp " AP " > " R ":53 first", "to " VTEP2 " 1 inside 0"),
	    "returns 1 outside = to " VTEP3 " 2 inside 1", "returns 2 outside = passes",
	    OUT("udp " AP " > " R ":53 later", "to " VTEP2 " 1 inside 0"),
	    "returns 1 outside = to " VTEP3 " 2 inside 1", "returns 2 outside = passes",
	    "went to the overlay" } },
	{ "a later fragment waits for the first one of the same function",
	  { "chain 1 1 2", "function 1 1", "function 2 2", "replica 1 on " VTEP2,
	    "replica 2 on " VTEP3, EGRESS,
	    OUT("udp " AP " > " R ":53 first", "to " VTEP2 " 1 inside 0"),
	    "returns 1 outside = to " VTEP3 " 2 inside 1",
	    OUT("udp " AP " > " R ":53 later", "to " VTEP2 " 1 inside 0"),
	    "returns 1 outside = to " VTEP3 " 2 inside 1", "returns 2 outside = passes",
	    "went nowhere yet" } },
	{ "a later fragment before the first waits",
	  { ONE, EGRESS, OUT("udp " AP " > " R ":53 first", "to " VTEP2 " 1 inside 0"),
	    OUT("udp " AP " > " R ":53 later", "to " VTEP2 " 1 inside 0"),
	    "returns 1 outside = passes", "went nowhere yet" } },
	{ "an ICMP error goes as the packets of its direction",
	  { ONE, EGRESS, "service tcp 10.96.0.1:80 > " RP,
	    OUT("tcp " AP " > 10.96.0.1:80", "to " VTEP2 " 1 inside 0"),
	    IN("10.18.0.2 > " A " about tcp " AP " > " RP, "to " VTEP2 " 1 outside 0"),
	    "returns 1 inside = icmp-error 10.18.0.2 > " A " " NO_HOST " [tcp " AP
	    " > 10.96.0.1:80]" } },
	{ "an ICMP error that the function makes",
	  { ONE, EGRESS, OUT("tcp " AP " > " RP, "to " VTEP2 " 1 inside 0"),
	    "returns 1 inside 10.244.2.9 > " A " about tcp " AP " > " RP
	    " = icmp-error 10.244.2.9 > " A " " NO_HOST " [tcp " AP " > " RP "]",
	    "returns 1 inside 10.244.2.9 > " B " about tcp " AP " > " RP " = SFC_FORGED" } },
	/* what other nodes may not do */
	{ "forged: no such flow, or one of another function",
	  { ONE, "replica 2 on " VTEP3, EGRESS,
	    "returns 1 outside tcp " AP " > " RP " = SFC_FORGED",
	    OUT("tcp " AP " > " RP, "to " VTEP2 " 1 inside 0"), "returns 2 outside = SFC_FORGED",
	    "returns 1 outside = passes" } },
	{ "reflected",
	  { ONE, EGRESS, OUT("tcp " AP " > " RP, "to " VTEP2 " 1 inside 0"),
	    "returns 1 inside = SFC_REFLECTED" } },
	{ "of an unknown replica, or one of this node",
	  { ONE, EGRESS, OUT("tcp " AP " > " RP, "to " VTEP2 " 1 inside 0"),
	    "returns 9 outside = SFC_NO_CHAIN", "replica 1 bridged",
	    "returns 1 outside = SFC_NO_CHAIN", "sent-back 1 inside 0 = SFC_NO_CHAIN" } },
	{ "a frame for another node",
	  { ONE, EGRESS, OUT("tcp " AP " > " RP, "to " VTEP2 " 1 inside 0"),
	    "stray 1 outside = OVERLAY_STRAY" } },
	/* the replica is not there any more */
	{ "sent back: another replica, and the flow keeps it",
	  { ONE, EGRESS, OUT("tcp " AP " > " RP, "to " VTEP2 " 1 inside 0"), "replica 2 bridged",
	    "function 1 2", "sent-back 1 inside 0 = into 2 inside " A " tcp " AP " > " RP,
	    "from 2 outside = tcp " AP " > " RP, "ttl 63", "paths 2",
	    IN("tcp " RP " > " AP " synack", "into 2 outside " A),
	    OUT("tcp " AP " > " RP " ack", "into 2 inside " A), "later 1 1000",
	    OUT("tcp " AP " > " RP " ack", "into 2 inside " A) } },
	{ "sent back: new flows avoid it for a second",
	  { ONE, "function 1 1 2 1 2", "replica 2 bridged", EGRESS,
	    "sent-back 1 inside 0 tcp " AP " > " RP " = SFC_FORGED",
	    OUT("tcp " A ":40001 > " RP, "into 2 inside " A),
	    OUT("tcp " A ":40002 > " RP, "into 2 inside " A),
	    OUT("tcp " A ":40003 > " RP, "into 2 inside " A), "function 1 1", "later 1 500",
	    OUT("tcp " A ":40004 > " RP, "SFC_UNAVAILABLE"), "later 1 1000",
	    OUT("tcp " A ":40004 > " RP, "to " VTEP2 " 1 inside 0") } },
	{ "sent back: an answer",
	  { ONE, EGRESS, OUT("tcp " AP " > " RP, "to " VTEP2 " 1 inside 0"),
	    IN("tcp " RP " > " AP " synack", "to " VTEP2 " 1 outside 0"), "replica 2 bridged",
	    "function 1 2", "sent-back 1 outside 0 = into 2 outside " A " tcp " RP " > " AP,
	    "from 2 inside = tcp " RP " > " AP, "went to a pod" } },
	{ "sent back: several packets that were on their way",
	  { ONE, EGRESS, OUT("tcp " AP " > " RP, "to " VTEP2 " 1 inside 0"), "replica 2 bridged",
	    "function 1 2", "sent-back 1 inside 0 = into 2 inside " A,
	    "sent-back 1 inside 0 tcp " AP " > " RP " ack = into 2 inside " A, "paths 2" } },
	{ "sent back: a Service's flow, both directions",
	  { ONE, EGRESS, "service tcp 10.96.0.1:80 > " RP,
	    OUT("tcp " AP " > 10.96.0.1:80", "to " VTEP2 " 1 inside 0 tcp " AP " > " RP),
	    "replica 2 bridged", "function 1 2",
	    "sent-back 1 inside 0 = into 2 inside " A " tcp " AP " > " RP, "sessions 2",
	    IN("tcp " RP " > " AP " synack", "into 2 outside " A), "replica 2 on " VTEP3,
	    IN("tcp " RP " > " AP " ack", "to " VTEP3 " 2 outside 0"), "replica 3 bridged",
	    "function 1 3", "sent-back 2 outside 0 = into 3 outside " A " tcp " RP " > " AP,
	    "from 3 inside = tcp 10.96.0.1:80 > " AP } },
	{ "sent back: the client's next packet to a Service goes to the new replica",
	  { ONE, EGRESS, "service tcp 10.96.0.1:80 > " RP,
	    OUT("tcp " AP " > 10.96.0.1:80", "to " VTEP2 " 1 inside 0 tcp " AP " > " RP),
	    "replica 2 bridged", "function 1 2",
	    "sent-back 1 inside 0 = into 2 inside " A " tcp " AP " > " RP, "later 1 1000",
	    OUT("tcp " AP " > 10.96.0.1:80 ack", "into 2 inside " A " tcp " AP " > " RP) } },
	{ "sent back: a NodePort's flow with another source",
	  { OF_INGRESS, INGRESS, "service tcp 192.168.99.11:30080 > " BP,
	    UP("tcp " WORLD ":40000 > 192.168.99.11:30080", "to " VTEP2 " 4 outside 7"),
	    "replica 5 bridged", "function 4 5",
	    "sent-back 4 outside 7 = into 5 outside " B " tcp 10.244.1.1:40000 > " BP,
	    OUT("tcp " BP " > 10.244.1.1:40000 synack", "into 5 inside " B),
	    "from 5 outside = tcp 192.168.99.11:30080 > " WORLD ":40000" } },
	{ "sent back: SCTP",
	  { ONE, EGRESS, "service sctp 10.96.0.1:80 > " RP,
	    OUT("sctp " AP " > 10.96.0.1:80", "to " VTEP2 " 1 inside 0"), "replica 2 bridged",
	    "function 1 2", "sent-back 1 inside 0 = into 2 inside " A " sctp " AP " > " RP } },
	{ "sent back: the middle of a chain, no function sees the packet twice",
	  { THREE, EGRESS, OUT("tcp " AP " > " RP, "into 1 inside " A),
	    "from 1 outside = to " VTEP2 " 2 inside 1", "replica 5 bridged", "function 2 5",
	    "sent-back 2 inside 1 = into 5 inside " A, "from 5 outside = into 3 inside " A,
	    "counted 1 in inside 1", "from 3 outside = passes",
	    IN("tcp " RP " > " AP " synack", "into 3 outside " A),
	    "from 3 inside = into 5 outside " A, "from 5 inside = into 1 outside " A } },
	{ "sent back: .. of an answer",
	  { THREE, EGRESS, OUT("tcp " AP " > " RP, "into 1 inside " A),
	    IN("tcp " RP " > " AP " synack", "into 3 outside " A),
	    "from 3 inside = to " VTEP2 " 2 outside 1", "replica 5 bridged", "function 2 5",
	    "sent-back 2 outside 1 = into 5 outside " A, "from 5 inside = into 1 outside " A } },
	{ "sent back: both ends on this node, the server's chain",
	  { "chain 1 1", "function 1 1", "replica 1 bridged", OF_INGRESS, EGRESS, INGRESS,
	    OUT("tcp " AP " > " BP, "into 1 inside " A),
	    "from 1 outside = to " VTEP2 " 4 outside 7", "replica 5 bridged", "function 4 5",
	    "sent-back 4 outside 7 = into 5 outside " B, "from 5 inside = tcp " AP " > " BP,
	    OUT("tcp " BP " > " AP " synack", "into 5 inside " B),
	    "from 5 outside = into 1 outside " A } },
	{ "sent back: .. and an answer",
	  { "chain 1 1", "function 1 1", "replica 1 bridged", OF_INGRESS, EGRESS, INGRESS,
	    OUT("tcp " AP " > " BP, "into 1 inside " A),
	    "from 1 outside = to " VTEP2 " 4 outside 7",
	    OUT("tcp " BP " > " AP " synack", "to " VTEP2 " 4 inside 7"), "replica 5 bridged",
	    "function 4 5", "sent-back 4 inside 7 = into 5 inside " B,
	    "from 5 outside = into 1 outside " A } },
	{ "the next function is lost while the packet is in another one",
	  { THREE, EGRESS, OUT("tcp " AP " > " RP, "into 1 inside " A), "replica 5 bridged",
	    "function 2 5", "sent-back 2 inside 1 tcp " A ":1 > " RP " = SFC_FORGED",
	    "from 1 outside tcp " AP " > " RP " = into 5 inside " A,
	    "from 5 outside = into 3 inside " A, "counted 1 in inside 1" } },
	{ "sent back: Block",
	  { ONE, EGRESS, OUT("tcp " AP " > " RP, "to " VTEP2 " 1 inside 0"),
	    "sent-back 1 inside 0 = SFC_UNAVAILABLE",
	    OUT("tcp " AP " > " RP " ack", "SFC_UNAVAILABLE"), "later 1 1000",
	    OUT("tcp " AP " > " RP " ack", "to " VTEP2 " 1 inside 0") } },
	{ "sent back: Skip",
	  { ONE, "chain 1 1s", EGRESS, "service tcp 10.96.0.1:80 > " RP,
	    OUT("tcp " AP " > 10.96.0.1:80", "to " VTEP2 " 1 inside 0"),
	    "sent-back 1 inside 0 = tcp " AP " > " RP, "ttl 63", "went to the overlay",
	    IN("tcp " RP " > " AP " synack", "tcp 10.96.0.1:80 > " AP) } },
	{ "sent back: Skip in the middle",
	  { THREE, "chain 1 1 2s 3", EGRESS, OUT("tcp " AP " > " RP, "into 1 inside " A),
	    "from 1 outside = to " VTEP2 " 2 inside 1",
	    "sent-back 2 inside 1 = into 3 inside " A } },
	{ "sent back: Skip of an answer's last function",
	  { ONE, "chain 1 1s", EGRESS, "service tcp 10.96.0.1:80 > " RP,
	    OUT("tcp " AP " > 10.96.0.1:80", "to " VTEP2 " 1 inside 0"),
	    IN("tcp " RP " > " AP " synack", "to " VTEP2 " 1 outside 0"),
	    "sent-back 1 outside 0 = tcp 10.96.0.1:80 > " AP, "ttl 63", "went to a pod" } },
	{ "sent back: onLoss Drop",
	  { ONE, "chain 1 1k", EGRESS, OUT("tcp " AP " > " RP, "to " VTEP2 " 1 inside 0"),
	    "replica 2 bridged", "function 1 2", "sent-back 1 inside 0 = SFC_UNAVAILABLE",
	    OUT("tcp " AP " > " RP " ack", "SFC_UNAVAILABLE"),
	    OUT("tcp " A ":40001 > " RP, "into 2 inside " A) } },
	{ "sent back: takeOpenFlows false is no reason to leave the chain",
	  { ONE, "chain 1 leaves 1", EGRESS, OUT("tcp " AP " > " RP, "to " VTEP2 " 1 inside 0"),
	    "replica 2 bridged", "function 1 2", "sent-back 1 inside 0 = into 2 inside " A } },
	{ "sent back: an ICMP error gets no other replica",
	  { ONE, EGRESS, OUT("tcp " AP " > " RP, "to " VTEP2 " 1 inside 0"),
	    IN("10.18.0.2 > " A " about tcp " AP " > " RP, "to " VTEP2 " 1 outside 0"),
	    "replica 2 bridged", "function 1 2", "sent-back 1 outside 0 = SFC_UNAVAILABLE" } },
	{ "sent back: fragments",
	  { ONE, EGRESS, OUT("udp " AP " > " R ":53 first", "to " VTEP2 " 1 inside 0"),
	    "replica 2 bridged", "function 1 2", "sent-back 1 inside 0 = into 2 inside " A,
	    "sent-back 1 inside 0 udp " AP " > " R ":53 later = into 2 inside " A } },
	{ "sent back: a flow that has ended meanwhile",
	  { ONE, EGRESS, OUT("tcp " AP " > " RP, "to " VTEP2 " 1 inside 0"), "expire",
	    "sent-back 1 inside 0 = SFC_FORGED" } },
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
	{ "for another node's pod: Routed",
	  { "replica 1 routed", "arrives 1 inside 0 tcp " RC " > " WP " = into 1 inside " R,
	    "from 1 outside = home " VTEP2 " 1 outside" } },
	{ "for another node's pod: fragments pass as they are",
	  { "replica 1 bridged", "arrives 1 inside 0 udp " RC " > " WP " later = into 1 inside " R,
	    "from 1 outside = home " VTEP2 " 1 outside",
	    "arrives 1 inside 0 udp " RC " > " WP " first = into 1 inside " R,
	    "from 1 outside = home " VTEP2 " 1 outside" } },
	{ "for another node's pod: ICMP errors, also those of functions",
	  { "replica 1 bridged",
	    "arrives 1 outside 0 " WORLD " > " R " about tcp " RC " > " WP " = into 1 outside " R,
	    "from 1 inside = home " VTEP2 " 1 inside",
	    "arrives 1 inside 0 10.244.3.9 > " WORLD " about tcp " WP " > " RC
	    " = into 1 inside " R,
	    "from 1 outside = home " VTEP2 " 1 outside",
	    "from 1 outside 10.244.1.9 > " WORLD " about tcp " WP " > " RC " = home " VTEP2
	    " 1 outside" } },
	{ "for another node's pod: a packet beyond the MTU of a port goes back to home",
	  { "replica 1 inline", "arrives 1 inside 3 udp " RC " > " WP " fits = into 1 inside " R,
	    "arrives 1 inside 3 udp " RC " > " WP " long = does-not-fit " VTEP2 " 1 inside 3",
	    "arrives 1 outside 3 udp " WP " > " RC " long = does-not-fit " VTEP2 " 1 outside 3" } },
	{ "for another node's pod: a packet that its function has made too long",
	  { "replica 1 bridged",
	    "from 1 outside udp " RC " > " WP " fits = home " VTEP2 " 1 outside",
	    "from 1 outside udp " RC " > " WP " whole = TOO_BIG" } },
	{ "for another node's pod: no device between nodes",
	  { "replica 1 bridged", "no-mksfc",
	    "from 1 outside tcp " RC " > " WP " = SFC_UNAVAILABLE" } },
	{ "the replica is not here: back to its flow's home",
	  { "replica 1 bridged", "gone 1",
	    "arrives 1 inside 3 tcp " RC " > " WP " = back " VTEP2 " 1 inside 3 tcp " RC " > " WP,
	    "arrives 9 outside 7 tcp " WP " > " RC " = back " VTEP2 " 9 outside 7",
	    "replica 1 on " VTEP3,
	    "arrives 1 inside 3 tcp " RC " > " WP " = back " VTEP2 " 1 inside 3" } },
	{ "the replica is not here, and the flow has no home",
	  { "arrives 9 inside 0 tcp " WP " > " RC " = SFC_UNAVAILABLE",
	    "arrives 9 inside 0 tcp " AP " > " RC " = SFC_UNAVAILABLE",
	    "arrives 9 inside 0 tcp 10.244.77.1:1 > " RC " = SFC_UNAVAILABLE" } },
	{ "a function sends for no pod of another node: forged",
	  { "replica 1 bridged", "from 1 outside tcp " WP " > " RC " = SFC_FORGED",
	    "from 1 inside tcp " RC " > " WP " = SFC_FORGED",
	    "from 1 inside tcp " RC " > 10.244.77.1:1 = SFC_FORGED",
	    "from 1 inside tcp " RC " > 10.18.0.2:1 = SFC_FORGED" } },
};

/* Only IPv4's carriers are fragmented. */
static const struct policy_row ipv4_rows[] = {
	{ "IPv4: a packet that may be fragmented is carried in fragments",
	  { ONE, EGRESS, OUT("udp " AP " > " RP " long", "to " VTEP2 " 1 inside 0"),
	    "replica 2 bridged",
	    "from 2 outside udp " RC " > " WP " long = home " VTEP2 " 2 outside" } },
};

START_TEST(test_ipv4_row)
{
	if (!family_is6())
		policy_run(&ipv4_rows[_i]);
}
END_TEST

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
	tcase_add_loop_test(tcase, test_ipv4_row, 0, ROWS(ipv4_rows));
}
