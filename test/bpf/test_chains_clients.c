// SPDX-License-Identifier: Apache-2.0
/* Policies and service function chains of a pod whose client outside has asked another node, which
 * sends its packets on translated (bpf/client.h) or as they are (bpf/direct_return.h). Rows as in
 * policy.h and chains.h. */
#include "bpf/policy.h"
#include "bpf/run.h"

#define B     "10.244.1.3"
#define BP    "10.244.1.3:80"
#define CP    "203.0.113.10:40000"
#define VIP   "198.51.100.9"
#define VP    "198.51.100.9:80"
#define VTEP2 "10.18.0.2" /* the node that the client has asked */
#define VTEP3 "10.18.0.3"

/* ICMP errors, as IPv4's type and code */
#define NO_HOST "3/1"

#define IN(flow, outcome)  "overlay " flow " = " outcome
#define OUT(flow, outcome) "pod " flow " = " outcome

#define ASKED	"by " VTEP2, "local tcp " VP " > " BP
#define INGRESS "set i any=all+2 unknown=all+2 *=all+2", "pod 10.244.1.3 in=i out=open"
#define CHAINED "chain 2 4", "function 4 4", "replica 4 bridged", INGRESS
#define FAR	"chain 2 4", "function 4 4", "replica 4 on " VTEP3, INGRESS
/* Handshakes that the pod's node sees. */
#define OPENED                                                                                    \
	IN("tcp " CP " > " VP, "into 4 outside " B), "from 4 inside = passes",                    \
		OUT("tcp " BP " > " CP " synack", "into 4 inside " B), "from 4 outside = passes", \
		IN("tcp " CP " > " VP " ack", "into 4 outside " B), "from 4 inside = passes"

static const struct policy_row rows[] = {
	/* policies */
	{ "policies see the client: allowed",
	  { ASKED, "set i isolates 203.0.113.0/24=all", "pod 10.244.1.3 in=i out=open",
	    IN("tcp " CP " > " VP, "tcp " CP " > " BP), "sessions 2",
	    OUT("tcp " BP " > " CP " synack", "tcp " VP " > " CP), "went to the overlay",
	    IN("tcp " CP " > " VP " ack", "tcp " CP " > " BP),
	    OUT("tcp " BP " > " CP " ack", "tcp " VP " > " CP), "went to the uplink" } },
	{ "policies see the client: denied",
	  { ASKED, "set i isolates 192.168.99.0/24=all any=all unknown=all",
	    "pod 10.244.1.3 in=i out=open", IN("tcp " CP " > " VP, "POLICY_INGRESS"),
	    "sessions 0" } },
	{ "policies see the client, which keeps its address: allowed",
	  { "by " VTEP2, "set i isolates 203.0.113.0/24=all", "pod 10.244.1.3 in=i out=open",
	    IN("tcp " CP " > " BP, "passes"), OUT("tcp " BP " > " CP " synack", "passes"),
	    "went to the overlay", IN("tcp " CP " > " BP " ack", "passes"),
	    OUT("tcp " BP " > " CP " ack", "passes"), "went to the overlay" } },
	{ "policies see the client, which keeps its address: denied",
	  { "by " VTEP2, "set i isolates 192.168.99.0/24=all any=all unknown=all",
	    "pod 10.244.1.3 in=i out=open", IN("tcp " CP " > " BP, "POLICY_INGRESS"),
	    "sessions 0" } },
	{ "a policy ends an open flow, from either side",
	  { ASKED, "set i isolates 203.0.113.0/24=all", "set x isolates",
	    "pod 10.244.1.3 in=i out=open", IN("tcp " CP " > " VP, "passes"),
	    OUT("tcp " BP " > " CP " synack", "passes"), "pod 10.244.1.3 in=x out=open",
	    "forbid 10.244.1.3", IN("tcp " CP " > " VP " ack", "POLICY_INGRESS"), "sessions 0",
	    "pod 10.244.1.3 in=i out=open", IN("tcp " CP " > " VP, "passes"),
	    "pod 10.244.1.3 in=x out=open", "forbid 10.244.1.3",
	    OUT("tcp " BP " > " CP " synack", "POLICY_INGRESS"), "sessions 0" } },
	{ "policies and errors about an answer",
	  { ASKED, "local udp " VIP ":53 > " B ":53", "set i isolates 203.0.113.0/24=all",
	    "pod 10.244.1.3 in=i out=open", IN("udp " CP " > " VIP ":53", "udp " CP " > " B ":53"),
	    IN("198.51.100.1 > " VIP " about udp " VIP ":53 > " CP,
	       "icmp-error 198.51.100.1 > " B " " NO_HOST " [udp " B ":53 > " CP "]"),
	    OUT(B " > 203.0.113.10 about udp " CP " > " B ":53",
		"icmp-error " VIP " > 203.0.113.10 " NO_HOST " [udp " CP " > " VIP ":53]"),
	    "went to the overlay" } },
	/* chains */
	{ "delegated, to a chained pod",
	  { ASKED,
	    CHAINED,
	    IN("tcp " CP " > " VP, "into 4 outside " B " tcp " CP " > " BP),
	    "from 4 inside = tcp " CP " > " BP,
	    "went to a pod",
	    "ttl 63",
	    "sessions 2",
	    "paths 1",
	    OUT("tcp " BP " > " CP " synack", "into 4 inside " B " tcp " BP " > " CP),
	    "from 4 outside = tcp " VP " > " CP,
	    "went to the overlay",
	    "ttl 63",
	    IN("tcp " CP " > " VP " ack", "into 4 outside " B " tcp " CP " > " BP),
	    "from 4 inside = tcp " CP " > " BP,
	    "established 2 ended 0",
	    OUT("tcp " BP " > " CP " ack", "into 4 inside " B),
	    "from 4 outside = tcp " VP " > " CP,
	    "went to the uplink",
	    OUT("tcp " BP " > " CP " fin", "into 4 inside " B),
	    "from 4 outside = tcp " VP " > " CP,
	    "went to the overlay" } },
	{ "delegated, to a chained pod: UDP",
	  { ASKED, "local udp " VIP ":53 > " B ":53", CHAINED,
	    IN("udp " CP " > " VIP ":53", "into 4 outside " B " udp " CP " > " B ":53"),
	    "from 4 inside = passes", OUT("udp " B ":53 > " CP, "into 4 inside " B),
	    "from 4 outside = udp " VIP ":53 > " CP, "went to the overlay",
	    IN("udp " CP " > " VIP ":53", "into 4 outside " B), "from 4 inside = passes",
	    OUT("udp " B ":53 > " CP, "into 4 inside " B), "from 4 outside = udp " VIP ":53 > " CP,
	    "went to the uplink" } },
	{ "delegated, to a chained pod: SCTP",
	  { "by " VTEP2, "local sctp " VP " > " BP, CHAINED,
	    IN("sctp " CP " > " VP, "into 4 outside " B " sctp " CP " > " BP),
	    "from 4 inside = passes", OUT("sctp " BP " > " CP " synack", "into 4 inside " B),
	    "from 4 outside = sctp " VP " > " CP, "went to the overlay" } },
	{ "delegated, its function on another node",
	  { ASKED, FAR, IN("tcp " CP " > " VP, "to " VTEP3 " 4 outside 7 tcp " CP " > " BP),
	    "returns 4 inside = tcp " CP " > " BP, "went to a pod",
	    OUT("tcp " BP " > " CP " synack", "to " VTEP3 " 4 inside 7 tcp " BP " > " CP),
	    "returns 4 outside = tcp " VP " > " CP, "went to the overlay",
	    IN("tcp " CP " > " VP " ack", "to " VTEP3 " 4 outside 7"), "returns 4 inside = passes",
	    "replica 5 bridged", "function 4 5",
	    "sent-back 4 outside 7 = into 5 outside " B " tcp " CP " > " BP,
	    "from 5 inside = tcp " CP " > " BP, OUT("tcp " BP " > " CP " ack", "into 5 inside " B),
	    "from 5 outside = tcp " VP " > " CP, "went to the uplink" } },
	{ "delegated, and a function answers itself",
	  { ASKED, CHAINED, IN("tcp " CP " > " VP, "into 4 outside " B),
	    "from 4 outside tcp " BP " > " CP " synack = tcp " VP " > " CP, "went to the overlay",
	    IN("tcp " CP " > " VP " ack", "into 4 outside " B), "established 2 ended 0",
	    "from 4 outside tcp " BP " > " CP " ack = tcp " VP " > " CP, "went to the uplink" } },
	{ "delegated, fragments of a chained pod's flow",
	  { "by " VTEP2, "local udp " VIP ":53 > " B ":53", CHAINED,
	    IN("udp " CP " > " VIP ":53 first", "into 4 outside " B), "from 4 inside = passes",
	    IN("udp " CP " > " VIP ":53 later", "into 4 outside " B), "from 4 inside = passes",
	    OUT("udp " B ":53 > " CP " first", "into 4 inside " B), "from 4 outside = passes",
	    "went to the uplink", OUT("udp " B ":53 > " CP " later", "into 4 inside " B),
	    "from 4 outside = passes", "went to the uplink" } },
	{ "delegated, ICMP errors about a chained pod's flow",
	  { ASKED, CHAINED, OPENED,
	    IN("198.51.100.1 > " VIP " about tcp " VP " > " CP, "into 4 outside " B),
	    "from 4 inside = icmp-error 198.51.100.1 > " B " " NO_HOST " [tcp " BP " > " CP "]",
	    OUT(B " > 203.0.113.10 about tcp " CP " > " BP, "into 4 inside " B),
	    "from 4 outside = icmp-error " VIP " > 203.0.113.10 " NO_HOST " [tcp " CP " > " VP "]",
	    "went to the overlay" } },
	{ "delegated, no replica: Block",
	  { ASKED, "chain 2 4", INGRESS, IN("tcp " CP " > " VP, "SFC_UNAVAILABLE"), "sessions 0",
	    "paths 0" } },
	{ "delegated, the chain comes while the flow lasts, goes and comes again",
	  { ASKED,
	    "chain 2 4",
	    "function 4 4",
	    "replica 4 bridged",
	    "set x unknown=all any=all",
	    INGRESS,
	    "pod 10.244.1.3 in=x out=open",
	    IN("tcp " CP " > " VP, "tcp " CP " > " BP),
	    OUT("tcp " BP " > " CP " synack", "tcp " VP " > " CP),
	    "pod 10.244.1.3 in=i out=open",
	    "forbid 10.244.1.3",
	    IN("tcp " CP " > " VP " ack", "into 4 outside " B),
	    "from 4 inside = tcp " CP " > " BP,
	    "pod 10.244.1.3 in=x out=open",
	    "forbid 10.244.1.3",
	    OUT("tcp " BP " > " CP " ack", "tcp " VP " > " CP),
	    "went to the uplink",
	    "pod 10.244.1.3 in=i out=open",
	    "forbid 10.244.1.3",
	    OUT("tcp " BP " > " CP " ack", "into 4 inside " B),
	    "from 4 outside = tcp " VP " > " CP,
	    "went to the uplink" } },
	{ "a client keeps its address to a chained pod",
	  { "by " VTEP2, CHAINED, IN("tcp " CP " > " BP, "into 4 outside " B " tcp " CP " > " BP),
	    "from 4 inside = passes", "went to a pod",
	    OUT("tcp " BP " > " CP " synack", "into 4 inside " B), "from 4 outside = passes",
	    "went to the overlay", IN("tcp " CP " > " BP " ack", "into 4 outside " B),
	    "from 4 inside = passes", OUT("tcp " BP " > " CP " ack", "into 4 inside " B),
	    "from 4 outside = passes", "went to the overlay",
	    IN("198.51.100.1 > " B " about tcp " BP " > " CP, "into 4 outside " B),
	    "from 4 inside = passes",
	    OUT(B " > 203.0.113.10 about tcp " CP " > " BP, "into 4 inside " B),
	    "from 4 outside = passes", "went to the overlay" } },
	{ "a client keeps its address to a chained pod, and another node brings its port, too",
	  { "by " VTEP2, CHAINED, IN("tcp " CP " > " BP, "into 4 outside " B), "by " VTEP3,
	    IN("tcp " CP " > " BP, "tcp " CP " > " BP), "went to the overlay" } },
	/* a pod asks itself */
	{ "exempt: a pod to itself by a host port",
	  { CHAINED, "hostport tcp 192.168.99.11:8080 > " BP,
	    OUT("tcp " B ":40000 > 192.168.99.11:8080", "passes"), "went to a pod", "paths 0" } },
};

/* The pod's node counts for the Service what it drops. */
static const struct policy_row counted[] = {
	{ "a policy's drop is counted",
	  { ASKED, "set i isolates", "pod 10.244.1.3 in=i out=open",
	    IN("tcp " CP " > " VP, "POLICY_INGRESS") } },
	{ "a chain's drop is counted",
	  { ASKED, "chain 2 4", INGRESS, IN("tcp " CP " > " VP, "SFC_UNAVAILABLE") } },
};

START_TEST(test_counted)
{
	policy_run(&counted[_i]);
	ck_assert_msg(fixture_count("service_drops") == 1, "%s", counted[_i].rule);
}
END_TEST

START_TEST(test_row)
{
	policy_run(&rows[_i]);
}
END_TEST

BPF_SUITE("chains_clients")
{
	TCase *tcase = bpf_case(suite, "chains_clients");

	tcase_add_checked_fixture(tcase, policy_start, NULL);
	tcase_add_loop_test(tcase, test_row, 0, ROWS(rows));
	tcase_add_loop_test(tcase, test_counted, 0, ROWS(counted));
}
