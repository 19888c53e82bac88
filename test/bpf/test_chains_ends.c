// SPDX-License-Identifier: Apache-2.0
/* Service function chains with ends: which replicas a flow has, each step of its packets, and what
 * happens when replicas come and go. Rows as in policy.h and chains.h. */
#include "bpf/policy.h"
#include "bpf/run.h"

#define C  "10.9.0.1"
#define S  "10.9.1.1"
#define CP "10.9.0.1:40000"
#define SP "10.9.1.1:80"

/* ICMP errors, as IPv4's type and code */
#define NO_HOST "3/1"

/* A packet that replica @n of an end, or of a function, sends outward or inward. */
#define OUTWARD(n, flow, outcome) "from " #n " outside " flow " = " outcome
#define INWARD(n, flow, outcome)  "from " #n " inside " flow " = " outcome
/* The last frame goes on. */
#define ON_OUT(n, outcome) "from " #n " outside = " outcome
#define ON_IN(n, outcome)  "from " #n " inside = " outcome

/* Function 1: the inside end, with replicas 1 and 2. Function 2: the outside end, with replica 3
 * (SERVERS: 3 and 4). Functions 3, 4, 5: replicas 5, 6, 7. */
#define CLIENTS "function 1 1 2", "replica 1 end", "replica 2 end"
#define SERVER	"function 2 3", "replica 3 end"
#define SERVERS "function 2 3 4", "replica 3 end", "replica 4 end"
#define FUNC	"function 3 5", "replica 5 bridged"
#define FUNC4	"function 4 6", "replica 6 bridged"
#define FUNC5	"function 5 7", "replica 7 bridged"
#define ENDS	CLIENTS, SERVER, FUNC, "chain 1 3", "ends 1 1 2"
#define THREE	CLIENTS, SERVER, FUNC, FUNC4, FUNC5, "chain 1 3 4 5", "ends 1 1 2"

#define OPENS	"tcp " CP " > " SP
#define GOES	"tcp " CP " > " SP " ack"
#define ANSWERS "tcp " SP " > " CP " synack"

static const struct policy_row rows[] = {
	{ "there and back",
	  { ENDS, OUTWARD(1, OPENS, "into 5 inside " C " tcp " CP " > " SP),
	    ON_OUT(5, "into 3 inside " C " tcp " CP " > " SP),
	    INWARD(3, ANSWERS, "into 5 outside " C " tcp " SP " > " CP),
	    ON_IN(5, "into 1 outside " C " tcp " SP " > " CP), OUTWARD(1, GOES, "into 5 inside " C),
	    ON_OUT(5, "into 3 inside " C), "sessions 0", "paths 0", "counted 1 out outside 2",
	    "counted 1 in outside 1", "counted 3 in inside 2", "counted 3 out inside 1",
	    "counted 5 in inside 2", "counted 5 out outside 2", "counted 5 in outside 1",
	    "counted 5 out inside 1" } },
	{ "three functions: the first is next to the inside end",
	  { THREE, OUTWARD(1, OPENS, "into 5 inside " C), ON_OUT(5, "into 6 inside " C),
	    ON_OUT(6, "into 7 inside " C), ON_OUT(7, "into 3 inside " C),
	    INWARD(3, ANSWERS, "into 7 outside " C), ON_IN(7, "into 6 outside " C),
	    ON_IN(6, "into 5 outside " C), ON_IN(5, "into 1 outside " C) } },
	{ "eight functions",
	  { "function 1 1",
	    "replica 1 end",
	    "function 2 3",
	    "replica 3 end",
	    "function 3 5",
	    "replica 5 bridged",
	    "function 4 6",
	    "replica 6 bridged",
	    "function 5 7",
	    "replica 7 bridged",
	    "function 6 8",
	    "replica 8 bridged",
	    "function 7 9",
	    "replica 9 bridged",
	    "function 8 10",
	    "replica 10 bridged",
	    "function 9 11",
	    "replica 11 bridged",
	    "function 10 12",
	    "replica 12 bridged",
	    "chain 1 3 4 5 6 7 8 9 10",
	    "ends 1 1 2",
	    OUTWARD(1, OPENS, "into 5 inside " C),
	    ON_OUT(11, "into 12 inside " C),
	    ON_OUT(12, "into 3 inside " C),
	    INWARD(3, ANSWERS, "into 12 outside " C),
	    ON_IN(6, "into 5 outside " C),
	    ON_IN(5, "into 1 outside " C) } },
	{ "each mode",
	  { CLIENTS, SERVER, "function 3 5", "replica 5 inline", "function 4 6", "replica 6 routed",
	    "chain 1 3 4", "ends 1 1 2", OUTWARD(1, OPENS, "into 5 inside " C),
	    ON_OUT(5, "into 6 inside " C), ON_OUT(6, "into 3 inside " C),
	    INWARD(3, ANSWERS, "into 6 outside " C), ON_IN(6, "into 5 outside " C),
	    ON_IN(5, "into 1 outside " C) } },
	{ "UDP, SCTP, ESP and a ping",
	  { ENDS, OUTWARD(1, "udp " CP " > " SP, "into 5 inside " C " udp " CP " > " SP),
	    ON_OUT(5, "into 3 inside " C " udp " CP " > " SP),
	    INWARD(3, "udp " SP " > " CP, "into 5 outside " C), ON_IN(5, "into 1 outside " C),
	    OUTWARD(1, "sctp " CP " > " SP, "into 5 inside " C), ON_OUT(5, "into 3 inside " C),
	    OUTWARD(1, "esp " C ":1 > " S ":1", "into 5 inside " C), ON_OUT(5, "into 3 inside " C),
	    OUTWARD(1, "icmp " C " > " S " 7", "into 5 inside " C), ON_OUT(5, "into 3 inside " C),
	    INWARD(3, "icmp " S " > " C " 7 reply", "into 5 outside " C),
	    ON_IN(5, "into 1 outside " C) } },
	{ "the outside end begins",
	  { ENDS, INWARD(3, "udp " SP " > " CP, "into 5 outside " C), "from 5 inside = passes",
	    OUTWARD(5, "udp " CP " > " SP, "into 3 inside " C) } },
	{ "a flow that is not known goes on without a OPENS",
	  { ENDS, OUTWARD(1, OPENS, "into 5 inside " C), "lose-flows",
	    OUTWARD(1, GOES, "into 5 inside " C), ON_OUT(5, "into 3 inside " C), "lose-flows",
	    INWARD(3, "tcp " SP " > " CP " ack", "into 5 outside " C) } },
	{ "fragments, in any order",
	  { ENDS, OUTWARD(1, "udp " CP " > " S ":53 first", "into 5 inside " C),
	    ON_OUT(5, "into 3 inside " C),
	    OUTWARD(1, "udp " CP " > " S ":53 later", "into 5 inside " C),
	    ON_OUT(5, "into 3 inside " C) } },
	{ "each packet notes that the flow is in use",
	  { ENDS, OUTWARD(1, OPENS, "into 5 inside " C), "seen 1", "idle", "seen 0",
	    ON_OUT(5, "into 3 inside " C), "seen 1", "idle",
	    INWARD(3, ANSWERS, "into 5 outside " C), "seen 1", "idle",
	    ON_IN(5, "into 1 outside " C), "seen 1", "idle", OUTWARD(2, GOES, "SFC_AMBIGUOUS"),
	    "seen 0" } },
	/* the ends' replicas */
	{ "a flow keeps its replicas",
	  { CLIENTS, SERVERS, FUNC, "chain 1 3", "ends 1 1 2", "function 2 3",
	    OUTWARD(1, OPENS, "into 5 inside " C), ON_OUT(5, "into 3 inside " C), "function 2 4",
	    "function 3 6", "replica 6 bridged", OUTWARD(1, GOES, "into 5 inside " C),
	    ON_OUT(5, "into 3 inside " C), OUTWARD(1, "tcp " C ":40001 > " SP, "into 6 inside " C),
	    ON_OUT(6, "into 4 inside " C) } },
	{ "answers go to the replica that has asked",
	  { ENDS, OUTWARD(1, "udp " C ":1 > " SP, "into 5 inside " C),
	    OUTWARD(2, "udp " C ":2 > " SP, "into 5 inside " C),
	    INWARD(5, "udp " SP " > " C ":1", "into 1 outside " C),
	    INWARD(5, "udp " SP " > " C ":2", "into 2 outside " C) } },
	{ "another replica with the same ports is refused, on both sides",
	  { CLIENTS, SERVERS, FUNC, "chain 1 3", "ends 1 1 2", "function 2 3",
	    OUTWARD(1, OPENS, "into 5 inside " C), OUTWARD(2, OPENS, "SFC_AMBIGUOUS"),
	    OUTWARD(2, GOES, "SFC_AMBIGUOUS"), INWARD(4, ANSWERS, "SFC_AMBIGUOUS"),
	    INWARD(3, ANSWERS, "into 5 outside " C), ON_IN(5, "into 1 outside " C),
	    OUTWARD(1, GOES, "into 5 inside " C), "counted 2 out outside 0",
	    "counted 4 out inside 0" } },
	{ "a lost replica's ports are free",
	  { ENDS, OUTWARD(1, OPENS, "into 5 inside " C), "gone 1",
	    OUTWARD(2, OPENS, "into 5 inside " C), ON_OUT(5, "into 3 inside " C),
	    INWARD(3, ANSWERS, "into 5 outside " C), ON_IN(5, "into 2 outside " C) } },
	{ "the ports of a closed connection are free for a SYN only",
	  { ENDS, OUTWARD(1, OPENS, "into 5 inside " C),
	    OUTWARD(1, "tcp " CP " > " SP " fin", "into 5 inside " C),
	    OUTWARD(2, GOES, "SFC_AMBIGUOUS"), OUTWARD(2, OPENS, "into 5 inside " C),
	    INWARD(3, ANSWERS, "into 5 outside " C), ON_IN(5, "into 2 outside " C),
	    OUTWARD(1, OPENS, "SFC_AMBIGUOUS") } },
	{ ".. also after a reset",
	  { ENDS, OUTWARD(1, OPENS, "into 5 inside " C),
	    INWARD(3, "tcp " SP " > " CP " rst", "into 5 outside " C),
	    OUTWARD(2, OPENS, "into 5 inside " C) } },
	{ "a lost replica of the other end: another one",
	  { CLIENTS, SERVERS, FUNC, "chain 1 3", "ends 1 1 2", "function 2 3",
	    OUTWARD(1, OPENS, "into 5 inside " C), "gone 3", "function 2 4",
	    ON_OUT(5, "into 4 inside " C), OUTWARD(1, GOES, "into 5 inside " C),
	    ON_OUT(5, "into 4 inside " C) } },
	{ "no replica of the other end",
	  { ENDS, OUTWARD(1, OPENS, "into 5 inside " C), "gone 3", ON_OUT(5, "SFC_UNAVAILABLE"),
	    "function 2", OUTWARD(1, "tcp " C ":1 > " SP, "SFC_UNAVAILABLE") } },
	/* the functions' replicas */
	{ "a lost function: another one, for both directions",
	  { ENDS, OUTWARD(1, OPENS, "into 5 inside " C), "gone 5", "function 3 6",
	    "replica 6 bridged", OUTWARD(1, GOES, "into 6 inside " C),
	    INWARD(3, ANSWERS, "into 6 outside " C), ON_IN(6, "into 1 outside " C),
	    "from 5 inside " ANSWERS " = SFC_FORGED" } },
	{ "a function that is lost while the packet is in another one",
	  { THREE, OUTWARD(1, OPENS, "into 5 inside " C), ON_OUT(5, "into 6 inside " C), "gone 7",
	    "function 5 8", "replica 8 bridged", ON_OUT(6, "into 8 inside " C),
	    ON_OUT(8, "into 3 inside " C), INWARD(3, ANSWERS, "into 8 outside " C) } },
	{ "onLoss Drop: the flow does not move",
	  { CLIENTS, SERVER, FUNC, "chain 1 3k", "ends 1 1 2",
	    OUTWARD(1, OPENS, "into 5 inside " C), "gone 5", "function 3 6", "replica 6 bridged",
	    OUTWARD(1, GOES, "SFC_UNAVAILABLE"), INWARD(3, ANSWERS, "SFC_UNAVAILABLE"),
	    OUTWARD(1, "tcp " C ":40001 > " SP, "into 6 inside " C) } },
	{ "whenUnavailable Skip: without the function",
	  { CLIENTS, SERVER, FUNC, "function 4", "chain 1 4s 3", "ends 1 1 2",
	    OUTWARD(1, OPENS, "into 5 inside " C), ON_OUT(5, "into 3 inside " C), FUNC4,
	    OUTWARD(1, GOES, "into 5 inside " C), INWARD(3, ANSWERS, "into 5 outside " C),
	    ON_IN(5, "into 1 outside " C),
	    OUTWARD(1, "tcp " C ":40001 > " SP, "into 6 inside " C) } },
	{ "whenUnavailable Block: no packet passes",
	  { CLIENTS, SERVER, FUNC, "function 4", "chain 1 4 3", "ends 1 1 2",
	    OUTWARD(1, OPENS, "SFC_UNAVAILABLE"), INWARD(3, ANSWERS, "SFC_UNAVAILABLE") } },
	{ "without any function that is there",
	  { CLIENTS, SERVER, "function 4", "chain 1 4s", "ends 1 1 2",
	    OUTWARD(1, OPENS, "into 3 inside " C), INWARD(3, ANSWERS, "into 1 outside " C) } },
	{ "slots that name lost replicas: further looks",
	  { CLIENTS, SERVER, "function 3 5 6 7 8", "replica 5 bridged", "replica 6 bridged lost",
	    "replica 7 bridged lost", "replica 8 bridged lost", "chain 1 3", "ends 1 1 2",
	    OUTWARD(1, OPENS, "into 5 inside " C),
	    OUTWARD(1, "udp " CP " > " SP, "into 5 inside " C),
	    OUTWARD(1, "tcp " C ":40001 > " SP, "into 5 inside " C) } },
	{ "hashBy Pod and Peer: one replica for an address",
	  { CLIENTS, SERVER, "function 3 5 6", "function 4 7 8", "replica 5 bridged",
	    "replica 6 bridged", "replica 7 bridged", "replica 8 bridged", "chain 1 3p 4r",
	    "ends 1 1 2", OUTWARD(1, "tcp " C ":1 > " SP, "same 1"),
	    OUTWARD(1, "tcp " C ":2 > " SP, "same 1"), OUTWARD(1, "tcp " C ":3 > " SP, "same 1"),
	    OUTWARD(1, "tcp " C ":4 > 10.9.1.7:80", "same 1"),
	    INWARD(3, "tcp " SP " > " C ":1 synack", "same 2"),
	    INWARD(3, "tcp " SP " > " C ":2 synack", "same 2"),
	    INWARD(3, "tcp " SP " > " C ":3 synack", "same 2"),
	    INWARD(3, "tcp " SP " > 10.9.0.7:4", "same 2") } },
	{ "a chain in another order: no function gets a packet twice",
	  { CLIENTS,
	    SERVER,
	    FUNC,
	    FUNC4,
	    "chain 1 3 4",
	    "ends 1 1 2",
	    OUTWARD(1, OPENS, "into 5 inside " C),
	    ON_OUT(5, "into 6 inside " C),
	    "chain 1 4 3",
	    "ends 1 1 2",
	    OUTWARD(1, GOES, "into 5 inside " C),
	    ON_OUT(5, "into 6 inside " C),
	    "gone 6",
	    "function 4 7",
	    "replica 7 bridged",
	    OUTWARD(1, GOES, "into 5 inside " C),
	    ON_OUT(5, "SFC_UNAVAILABLE"),
	    OUTWARD(1, GOES, "into 7 inside " C),
	    ON_OUT(7, "into 5 inside " C),
	    ON_OUT(5, "into 3 inside " C) } },
	/* what functions may not do */
	{ "a function begins no flow",
	  { ENDS, OUTWARD(5, OPENS, "SFC_FORGED"), INWARD(5, ANSWERS, "SFC_FORGED"),
	    OUTWARD(1, OPENS, "into 5 inside " C),
	    OUTWARD(5, "tcp " CP " > " S ":81", "SFC_FORGED"),
	    OUTWARD(5, "udp " CP " > " SP, "SFC_FORGED"), INWARD(5, OPENS, "SFC_FORGED"),
	    "counted 5 out outside 0", "counted 5 out inside 0" } },
	{ "a function that the flow does not pass",
	  { ENDS, "replica 6 bridged", OUTWARD(1, OPENS, "into 5 inside " C),
	    OUTWARD(6, OPENS, "SFC_FORGED"), INWARD(6, ANSWERS, "SFC_FORGED") } },
	/* ICMP errors */
	{ "an ICMP error goes as the packets of its direction",
	  { ENDS, OUTWARD(1, "udp " CP " > " SP, "into 5 inside " C),
	    INWARD(3, S " > " C " about udp " CP " > " SP, "into 5 outside " C),
	    ON_IN(5, "into 1 outside " C " icmp-error " S " > " C " " NO_HOST " [udp " CP " > " SP
		     "]"),
	    INWARD(5, "10.9.7.7 > " C " about udp " CP " > " SP, "into 1 outside " C) } },
	{ "an ICMP error about no flow, with another destination, or of another replica",
	  { ENDS, INWARD(3, S " > " C " about udp " CP " > " SP, "SFC_FORGED"),
	    OUTWARD(1, "udp " CP " > " SP, "into 5 inside " C),
	    INWARD(3, S " > 10.9.0.2 about udp " CP " > " SP, "SFC_FORGED"), "replica 4 end",
	    INWARD(4, S " > " C " about udp " CP " > " SP, "SFC_AMBIGUOUS") } },
	/* tables */
	{ "a chain without a map of flows drops, until the agent has made it",
	  { ENDS, "no-flows", OUTWARD(1, OPENS, "SFC_UNAVAILABLE"), "lose-flows",
	    OUTWARD(1, OPENS, "into 5 inside " C) } },
	{ "a chain that is not there",
	  { ENDS, "chain 1 absent", OUTWARD(1, OPENS, "SFC_UNAVAILABLE") } },
	{ "an end's port whose chain is gone",
	  { ENDS, OUTWARD(1, OPENS, "into 5 inside " C), "ends 0 0 0",
	    OUTWARD(1, GOES, "SFC_FORGED"), INWARD(3, ANSWERS, "SFC_FORGED") } },
	{ "a packet larger than the MTU of a port of mode Inline",
	  { CLIENTS, SERVER, "function 3 5", "replica 5 inline", "chain 1 3", "ends 1 1 2",
	    OUTWARD(1, "udp " CP " > " S ":53 whole", "TOO_BIG"),
	    OUTWARD(1, "udp " CP " > " S ":53 fits", "into 5 inside " C) } },
};

START_TEST(test_row)
{
	policy_run(&rows[_i]);
}
END_TEST

BPF_SUITE("chains_ends")
{
	TCase *tcase = bpf_case(suite, "chains_ends");

	tcase_add_checked_fixture(tcase, policy_start, NULL);
	tcase_add_loop_test(tcase, test_row, 0, ROWS(rows));
}
