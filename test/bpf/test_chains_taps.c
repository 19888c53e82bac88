// SPDX-License-Identifier: Apache-2.0
/* Taps in service function chains: they get copies of both directions, and the packets go on as if
 * there were no tap. Rows as in policy.h and chains.h. */
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
#define VTEP2 "10.18.0.2"
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
/* Replica N is of function N. Taps are 1 and 3, functions are 2 and 4. */
#define TAP	"function 1 1", "replica 1 tap"
#define TAP3	"function 3 3", "replica 3 tap"
#define FUNC	"function 2 2", "replica 2 bridged"
#define FUNC4	"function 4 4", "replica 4 bridged"
#define MORE(n) "function " #n " " #n, "replica " #n " tap"
#define REMOTE	"function 1 1", "replica 1 on " VTEP2 " tap"

static const struct policy_row rows[] = {
	/* each place */
	{ "a tap alone, egress: copies of both directions, the packets go on",
	  { TAP,
	    "chain 1 1s",
	    EGRESS,
	    OUT("tcp " AP " > " RP, "tcp " AP " > " RP),
	    "ttl 63",
	    "went to the overlay",
	    "copied 1 inside " A " tcp " AP " > " RP,
	    IN("tcp " RP " > " AP " synack", "tcp " RP " > " AP),
	    "ttl 63",
	    "went to a pod",
	    "copied 1 outside " A " tcp " RP " > " AP,
	    OUT("tcp " AP " > " RP " ack", "passes"),
	    "copied 1 inside " A,
	    "no-copies",
	    "paths 1",
	    "sessions 2",
	    "counted 1 in inside 2",
	    "counted 1 in outside 1",
	    "counted 1 out inside 0",
	    "counted 1 out outside 0" } },
	{ "a tap alone, ingress",
	  { TAP, "chain 2 1s", INGRESS, IN("tcp " RC " > " BP, "tcp " RC " > " BP), "ttl 63",
	    "went to a pod", "copied 1 outside " B " tcp " RC " > " BP,
	    OUT("tcp " BP " > " RC " synack", "tcp " BP " > " RC), "ttl 63", "went to the overlay",
	    "copied 1 inside " B " tcp " BP " > " RC, "no-copies", "counted 1 in outside 1",
	    "counted 1 in inside 1" } },
	{ "first, before a function",
	  { TAP, FUNC, "chain 1 1s 2", EGRESS,
	    OUT("tcp " AP " > " RP, "into 2 inside " A " tcp " AP " > " RP), "copied 1 inside " A,
	    "from 2 outside = tcp " AP " > " RP, "ttl 63", "no-copies",
	    IN("tcp " RP " > " AP " synack", "into 2 outside " A), "no-copies",
	    "from 2 inside = tcp " RP " > " AP, "ttl 63", "copied 1 outside " A, "no-copies",
	    "counted 1 in inside 1", "counted 1 in outside 1", "counted 2 out inside 1" } },
	{ "last, behind a function",
	  { TAP, FUNC, "chain 1 2 1s", EGRESS, OUT("tcp " AP " > " RP, "into 2 inside " A),
	    "no-copies", "from 2 outside = tcp " AP " > " RP, "ttl 63", "went to the overlay",
	    "copied 1 inside " A " tcp " AP " > " RP,
	    IN("tcp " RP " > " AP " synack", "into 2 outside " A " tcp " RP " > " AP),
	    "copied 1 outside " A, "from 2 inside = tcp " RP " > " AP, "went to a pod",
	    "no-copies" } },
	{ "between two functions",
	  { TAP, FUNC, FUNC4, "chain 1 2 1s 4", EGRESS, OUT("tcp " AP " > " RP, "into 2 inside " A),
	    "no-copies", "from 2 outside = into 4 inside " A, "copied 1 inside " A,
	    "from 4 outside = passes", IN("tcp " RP " > " AP " synack", "into 4 outside " A),
	    "no-copies", "from 4 inside = into 2 outside " A, "copied 1 outside " A,
	    "from 2 inside = passes", "no-copies" } },
	{ "of an ingress chain: between two functions, and at the ends",
	  { TAP, TAP3, FUNC, FUNC4, "chain 2 1s 2 3s 4 5s", "function 5 5", "replica 5 tap",
	    INGRESS, IN("tcp " RC " > " BP, "into 4 outside " B), "copied 5 outside " B,
	    "no-copies", "from 4 inside = into 2 outside " B, "copied 3 outside " B, "no-copies",
	    "from 2 inside = tcp " RC " > " BP, "ttl 63", "copied 1 outside " B, "no-copies" } },
	{ "two taps in a row",
	  { TAP, TAP3, FUNC, "chain 1 1s 3s 2", EGRESS, OUT("tcp " AP " > " RP, "into 2 inside " A),
	    "copied 1 inside " A, "copied 3 inside " A, "from 2 outside = passes",
	    IN("tcp " RP " > " AP " synack", "into 2 outside " A), "no-copies",
	    "from 2 inside = tcp " RP " > " AP, "ttl 63", "copied 3 outside " A,
	    "copied 1 outside " A, "no-copies" } },
	{ "seven taps in each of two chains, without a function",
	  { "chain 1 1s 3s 5s 6s 7s 8s 9s", "chain 2 1s 3s 5s 6s 7s 8s 9s", EGRESS, INGRESS, TAP,
	    TAP3, MORE(5), MORE(6), MORE(7), MORE(8), MORE(9),
	    OUT("tcp " AP " > " BP, "tcp " AP " > " BP), "ttl 63", "copied 1 inside " A,
	    "copied 1 outside " B, "copied 9 inside " A, "copied 9 outside " B } },
	{ "one tap in both chains of a path",
	  { TAP,
	    FUNC,
	    "chain 1 1s 2",
	    "chain 2 2 1s",
	    EGRESS,
	    INGRESS,
	    OUT("tcp " AP " > " BP, "into 2 inside " A),
	    "copied 1 inside " A,
	    "no-copies",
	    "from 2 outside = into 2 outside " B,
	    "copied 1 outside " B,
	    "no-copies",
	    "from 2 inside = tcp " AP " > " BP,
	    "ttl 63",
	    "no-copies",
	    OUT("tcp " BP " > " AP " synack", "into 2 inside " B),
	    "no-copies",
	    "from 2 outside = into 2 outside " A,
	    "copied 1 inside " B,
	    "no-copies",
	    "from 2 inside = tcp " BP " > " AP,
	    "ttl 63",
	    "copied 1 outside " A,
	    "no-copies" } },
	{ "one tap alone in both chains",
	  { TAP, "chain 1 1s", "chain 2 1s", EGRESS, INGRESS,
	    OUT("tcp " AP " > " BP, "tcp " AP " > " BP), "ttl 63", "copied 1 inside " A,
	    "copied 1 outside " B, OUT("tcp " BP " > " AP " synack", "tcp " BP " > " AP), "ttl 63",
	    "copied 1 inside " B, "copied 1 outside " A, "no-copies" } },
	/* packets */
	{ "a ClusterIP: copies are as functions see packets",
	  { TAP, "chain 1 1s", EGRESS, "service tcp 10.96.0.1:80 > " RP,
	    OUT("tcp " AP " > 10.96.0.1:80", "tcp " AP " > " RP),
	    "copied 1 inside " A " tcp " AP " > " RP,
	    IN("tcp " RP " > " AP " synack", "tcp 10.96.0.1:80 > " AP),
	    "copied 1 outside " A " tcp " RP " > " AP } },
	{ "a NodePort with another source",
	  { TAP, "chain 2 1s", INGRESS, "service tcp 192.168.99.11:30080 > " BP,
	    UP("tcp " WORLD ":40000 > 192.168.99.11:30080", "tcp 10.244.1.1:40000 > " BP),
	    "copied 1 outside " B " tcp 10.244.1.1:40000 > " BP,
	    OUT("tcp " BP " > 10.244.1.1:40000 synack",
		"tcp 192.168.99.11:30080 > " WORLD ":40000"),
	    "copied 1 inside " B " tcp " BP " > 10.244.1.1:40000" } },
	{ "to outside and back",
	  { TAP, "chain 1 1s", EGRESS, OUT("tcp " AP " > " WP, "passes"), "ttl 63",
	    "went to the uplink", "copied 1 inside " A " tcp " AP " > " WP,
	    "answer synack = tcp " WP " > " AP, "ttl 63", "went to a pod",
	    "copied 1 outside " A " tcp " WP " > " AP } },
	{ "a flow that the host forwards: its answers go back to the host",
	  { TAP, "chain 2 1s", INGRESS, "host tcp 172.17.0.2:40000 > " BP " = passes",
	    "went to a pod", "copied 1 outside " B,
	    OUT("tcp " BP " > 172.17.0.2:40000 synack", "passes"), "went to the host",
	    "copied 1 inside " B } },
	{ "UDP, SCTP, ESP and a ping",
	  { TAP, "chain 1 1s", EGRESS, OUT("udp " AP " > " RP, "passes"),
	    "copied 1 inside " A " udp " AP " > " RP, OUT("sctp " AP " > " RP, "passes"),
	    "copied 1 inside " A " sctp " AP " > " RP, OUT("esp " A ":1 > " R ":1", "passes"),
	    "copied 1 inside " A, OUT("icmp " A " > " R " 7", "passes"),
	    "copied 1 inside " A " icmp " A " > " R " 7",
	    IN("icmp " R " > " A " 7 reply", "passes"), "copied 1 outside " A, "no-copies" } },
	{ "fragments",
	  { TAP, FUNC, "chain 1 2 1s", EGRESS,
	    OUT("udp " AP " > " R ":53 first", "into 2 inside " A), "from 2 outside = passes",
	    "copied 1 inside " A, OUT("udp " AP " > " R ":53 later", "into 2 inside " A),
	    "from 2 outside = passes", "copied 1 inside " A, "no-copies" } },
	{ "fragments, by a tap alone",
	  { TAP, "chain 1 1s", EGRESS, OUT("udp " AP " > " R ":53 first", "passes"),
	    "copied 1 inside " A, OUT("udp " AP " > " R ":53 later", "passes"),
	    "went to the overlay", "copied 1 inside " A, "no-copies" } },
	{ "a packet of any size",
	  { TAP, "chain 1 1s", EGRESS, OUT("udp " AP " > " B ":53 whole", "passes"),
	    "went to a pod", "copied 1 inside " A } },
	{ "an ICMP error goes as the packets of its direction",
	  { TAP, FUNC, "chain 1 2 1s", EGRESS, "service tcp 10.96.0.1:80 > " RP,
	    OUT("tcp " AP " > 10.96.0.1:80", "into 2 inside " A), "from 2 outside = passes",
	    "copied 1 inside " A,
	    IN("10.18.0.2 > " A " about tcp " AP " > " RP, "into 2 outside " A),
	    "copied 1 outside " A " icmp-error 10.18.0.2 > " A " " NO_HOST " [tcp " AP " > " RP "]",
	    "from 2 inside = icmp-error 10.18.0.2 > " A " " NO_HOST " [tcp " AP
	    " > 10.96.0.1:80]" } },
	{ "an ICMP error by a tap alone, and one of the chained pod",
	  { TAP, "chain 2 1s", INGRESS, "service udp 10.96.0.1:53 > " B ":53",
	    OUT("udp " AP " > 10.96.0.1:53", "udp " AP " > " B ":53"), "copied 1 outside " B,
	    OUT(B " > " A " about udp " AP " > " B ":53",
		"icmp-error 10.96.0.1 > " A " " NO_HOST " [udp " AP " > 10.96.0.1:53]"),
	    "copied 1 inside " B " icmp-error " B " > " A " " NO_HOST " [udp " AP " > " B
	    ":53]" } },
	{ "the TTL ends behind the tap",
	  { TAP, "chain 1 1s", EGRESS, OUT("tcp " AP " > " RP, "passes"), "copied 1 inside " A,
	    OUT("tcp " AP " > " RP " dies",
		"icmp-error 10.244.1.254 > " A " " EXPIRED " [tcp " AP " > " RP "]"),
	    "counted 1 in inside 2" } },
	{ "a policy denies before the tap",
	  { TAP, "chain 1 1s", "set e isolates any=all+1 7=none", "pod 10.244.1.2 in=open out=e",
	    OUT("tcp " AP " > " RP, "POLICY_EGRESS"), "no-copies", "counted 1 in inside 0" } },
	/* replicas */
	{ "no replica: as if there were no tap",
	  { FUNC, "chain 1 1s 2", EGRESS, OUT("tcp " AP " > " RP, "into 2 inside " A),
	    "from 2 outside = passes" } },
	{ "a lost tap: another one, or none",
	  { TAP, FUNC, "chain 1 1s 2", EGRESS, OUT("tcp " AP " > " RP, "into 2 inside " A),
	    "copied 1 inside " A, TAP3, "function 1 3", "gone 1",
	    OUT("tcp " AP " > " RP " ack", "into 2 inside " A), "copied 3 inside " A, "gone 3",
	    OUT("tcp " AP " > " RP " ack", "into 2 inside " A), "no-copies",
	    "from 2 outside = passes", "counted 1 in inside 1" } },
	{ "a tap that is lost while the packet is in a function",
	  { TAP, FUNC, FUNC4, "chain 1 2 1s 4", EGRESS, OUT("tcp " AP " > " RP, "into 2 inside " A),
	    "replica 3 tap", "function 1 3", "gone 1", "from 2 outside = into 4 inside " A,
	    "copied 3 inside " A, "no-copies", "counted 2 in inside 1" } },
	{ "the function behind a tap is lost: one copy, and another function",
	  { TAP, FUNC, FUNC4, "chain 1 2 1s 4", EGRESS, OUT("tcp " AP " > " RP, "into 2 inside " A),
	    "replica 5 bridged", "function 4 5", "gone 4", "from 2 outside = into 5 inside " A,
	    "copied 1 inside " A, "no-copies", "from 5 outside = passes",
	    "counted 2 in inside 1" } },
	{ "a flow keeps its tap",
	  { TAP, "chain 1 1s", EGRESS, OUT("tcp " AP " > " RP, "passes"), "copied 1 inside " A,
	    TAP3, "function 1 3", OUT("tcp " AP " > " RP " ack", "passes"), "copied 1 inside " A,
	    OUT("tcp " A ":40001 > " RP, "passes"), "copied 3 inside " A, "no-copies" } },
	/* what a tap may not do */
	{ "what a tap sends is forged",
	  { TAP, "chain 1 1s", EGRESS, OUT("tcp " AP " > " RP, "passes"), "copied 1 inside " A,
	    "from 1 inside tcp " AP " > " RP " = SFC_FORGED",
	    "from 1 outside tcp " AP " > " RP " = SFC_FORGED",
	    "from 1 inside tcp " RP " > " AP " = SFC_FORGED",
	    "from 1 inside tcp " RC " > " WP " = SFC_FORGED",
	    "from 1 inside udp " RC " > " WP " later = SFC_FORGED", "counted 1 out inside 0",
	    "counted 1 out outside 0", "no-copies" } },
	/* between nodes */
	{ "a tap on another node",
	  { REMOTE, FUNC, "chain 1 1s 2", EGRESS,
	    OUT("tcp " AP " > " RP, "into 2 inside " A " tcp " AP " > " RP),
	    "copied-to " VTEP2 " 1 inside 0 tcp " AP " > " RP, "from 2 outside = passes", "ttl 63",
	    IN("tcp " RP " > " AP " synack", "into 2 outside " A),
	    "from 2 inside = tcp " RP " > " AP, "ttl 63", "went to a pod",
	    "copied-to " VTEP2 " 1 outside 0 tcp " RP " > " AP, "no-copies",
	    "counted 1 in inside 1", "counted 1 in outside 1" } },
	{ "a tap on another node alone",
	  { REMOTE, "chain 1 1s", EGRESS, OUT("tcp " AP " > " RP, "tcp " AP " > " RP),
	    "went to the overlay", "ttl 63", "copied-to " VTEP2 " 1 inside 0",
	    IN("tcp " RP " > " AP " synack", "tcp " RP " > " AP), "went to a pod",
	    "copied-to " VTEP2 " 1 outside 0", OUT("tcp " AP " > " WP, "passes"),
	    "copied-to " VTEP2 " 1 inside 0", "no-copies" } },
	{ "a tap before a function on another node",
	  { TAP, "function 2 2", "replica 2 on " VTEP3, "chain 1 1s 2", EGRESS,
	    OUT("tcp " AP " > " RP, "to " VTEP3 " 2 inside 1"), "copied 1 inside " A,
	    "returns 2 outside = tcp " AP " > " RP, "ttl 63", "no-copies",
	    IN("tcp " RP " > " AP " synack", "to " VTEP3 " 2 outside 1"), "no-copies",
	    "returns 2 inside = tcp " RP " > " AP, "copied 1 outside " A, "no-copies" } },
	{ "a copy that does not fit between nodes is lost alone",
	  { REMOTE, "chain 1 1s", EGRESS, OUT("udp " AP " > " B ":53 fits", "passes"),
	    "copied-to " VTEP2 " 1 inside 0",
	    OUT("udp " AP " > " B ":53 whole", "loses-copy TOO_BIG"), "no-copies",
	    "counted 1 in inside 1" } },
	{ ".. also if there is no device between nodes, or the tap's is gone",
	  { REMOTE, "chain 1 1s", EGRESS, "no-mksfc",
	    OUT("tcp " AP " > " RP, "loses-copy SFC_UNAVAILABLE"), TAP, "no-device 1",
	    OUT("tcp " AP " > " RP " ack", "loses-copy SFC_UNAVAILABLE"),
	    "counted 1 in inside 0" } },
	{ "for another node's pod: into the tap, both directions by one port",
	  { "replica 1 tap", "arrives 1 inside 0 tcp " RC " > " WP " = into 1 inside " R,
	    "arrives 1 outside 0 tcp " WP " > " RC " synack = into 1 outside " R, "sessions 0",
	    "arrives 1 inside 0 udp " RC " > " WP " whole = into 1 inside " R,
	    "counted 1 in inside 2", "counted 1 in outside 1" } },
	{ "a copy that comes back goes nowhere, and the flow gets another tap",
	  { REMOTE, FUNC, "chain 1 1s 2", EGRESS, OUT("tcp " AP " > " RP, "into 2 inside " A),
	    "copied-to " VTEP2 " 1 inside 0",
	    "sent-back 1 inside 0 tcp " AP " > " RP " = SFC_UNAVAILABLE", TAP3, "function 1 3",
	    "later 1 0", OUT("tcp " AP " > " RP " ack", "into 2 inside " A), "copied 3 inside " A,
	    "no-copies", "counted 2 in inside 2", "later 1 1000",
	    OUT("tcp " AP " > " RP " ack", "into 2 inside " A), "copied 3 inside " A,
	    "no-copies" } },
	{ "a copy that comes back with another message",
	  { REMOTE, FUNC, "chain 1 1s 2", EGRESS, OUT("tcp " AP " > " RP, "into 2 inside " A),
	    "too-big 1 inside 0 tcp " AP " > " RP " = SFC_FORGED",
	    "returns 1 outside tcp " AP " > " RP " = SFC_FORGED",
	    "returns 1 inside tcp " RP " > " AP " = SFC_FORGED" } },
	{ "the function behind a tap comes back: another one, and no second copy",
	  { TAP, "function 2 2", "replica 2 on " VTEP3, "chain 1 1s 2", EGRESS,
	    OUT("tcp " AP " > " RP, "to " VTEP3 " 2 inside 1"), "copied 1 inside " A,
	    "replica 5 bridged", "function 2 5",
	    "sent-back 2 inside 1 tcp " AP " > " RP " = into 5 inside " A, "no-copies" } },
};

START_TEST(test_row)
{
	policy_run(&rows[_i]);
}
END_TEST

BPF_SUITE("chains_taps")
{
	TCase *tcase = bpf_case(suite, "chains_taps");

	tcase_add_checked_fixture(tcase, policy_start, NULL);
	tcase_add_loop_test(tcase, test_row, 0, ROWS(rows));
}
