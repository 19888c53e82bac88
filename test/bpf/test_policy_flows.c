// SPDX-License-Identifier: Apache-2.0
/* Flows with an isolated end: addresses before and after translation, answers, changes, ICMP,
 * fragments, and connections from before the policies. Rules by number: test/policy/README.md. */
#include <stdio.h>

#include "bpf/policy.h"
#include "bpf/run.h"

#define A		    "10.244.1.2:40000"
#define B		    "10.244.1.3:80"
#define R		    "10.244.2.7:40000"
#define WORLD		    "203.0.113.10:443"
#define IN(flow, outcome)   "overlay " flow " = " outcome
#define OUT(flow, outcome)  "pod " flow " = " outcome
#define UP(flow, outcome)   "uplink " flow " = " outcome
#define HOST(flow, outcome) "host " flow " = " outcome
#define GUARD(set, in, out) "set s " set, "pod 10.244.1.3 in=" in " out=" out
#define CLIENT(set)	    "set s " set, "pod 10.244.1.2 in=open out=s"

static const struct policy_row rows[] = {
	/* Services */
	{ "10, 13: a Service's backend and its port count",
	  { CLIENT("isolates 3=web"), "service tcp 10.96.0.10:8000 > " B,
	    OUT("tcp " A " > 10.96.0.10:8000", "tcp " A " > " B),
	    OUT("tcp " B " > " A " synack", "tcp 10.96.0.10:8000 > " A) } },
	{ "10: .. not the Service's port",
	  { CLIENT("isolates 3=web"), "service tcp 10.96.0.10:80 > 10.244.1.3:8080",
	    OUT("tcp " A " > 10.96.0.10:80", "POLICY_EGRESS"), "sessions 0" } },
	{ "13: a block of the Service range matches nothing",
	  { CLIENT("isolates 10.96.0.0/16=all"), "service tcp 10.96.0.10:80 > " B,
	    OUT("tcp " A " > 10.96.0.10:80", "POLICY_EGRESS") } },
	{ "13: a Service's backend on another node",
	  { CLIENT("isolates 7=web"), "service tcp 10.96.0.10:8000 > 10.244.2.7:80",
	    OUT("tcp " A " > 10.96.0.10:8000", "tcp " A " > 10.244.2.7:80"),
	    IN("tcp 10.244.2.7:80 > " A " synack", "tcp 10.96.0.10:8000 > " A) } },
	{ "13: the API server's Service: the endpoint's address counts",
	  { CLIENT("isolates 192.168.99.12/32=all"),
	    "service tcp 10.96.0.1:443 > 192.168.99.12:6443",
	    OUT("tcp " A " > 10.96.0.1:443", "passes") } },
	{ "11: ingress of a Service's backend of this node",
	  { GUARD("isolates 2=web", "s", "open"), "service tcp 10.96.0.10:8000 > " B,
	    OUT("tcp " A " > 10.96.0.10:8000", "passes"),
	    OUT("tcp " B " > " A " synack", "tcp 10.96.0.10:8000 > " A),
	    OUT("tcp " A " > 10.96.0.10:8000 ack", "tcp " A " > " B) } },
	{ "11: .. denied",
	  { GUARD("isolates 2=none", "s", "open"), "service tcp 10.96.0.10:8000 > " B,
	    OUT("tcp " A " > 10.96.0.10:8000", "POLICY_INGRESS"), "sessions 0" } },
	{ "13: a pod that is masqueraded towards the backend counts as itself",
	  { GUARD("isolates 2=web", "s", "open"), "service tcp 198.51.100.7:80 > " B,
	    OUT("tcp " A " > 198.51.100.7:80", "passes") } },
	{ "26: a segment to a Service without a session",
	  { GUARD("isolates 2=all", "s", "open"), "service tcp 10.96.0.10:80 > " B,
	    OUT("tcp " A " > 10.96.0.10:80 ack", "POLICY_NO_FLOW"), "sessions 0" } },
	{ "22: a pod reaches itself by a Service",
	  { "set s isolates", "pod 10.244.1.3 in=s out=s", "service tcp 10.96.0.10:80 > " B,
	    OUT("tcp 10.244.1.3:40000 > 10.96.0.10:80", "tcp 10.244.1.1:40000 > " B),
	    OUT("tcp " B " > 10.244.1.1:40000 synack", "tcp 10.96.0.10:80 > 10.244.1.3:40000") } },
	{ "22: .. by a host port",
	  { "set s isolates", "pod 10.244.1.3 in=s out=s", "hostport tcp 0.0.0.0:8080 > " B,
	    OUT("tcp 10.244.1.3:40000 > 192.168.99.11:8080", "tcp 10.244.1.1:40000 > " B) } },
	{ "22: .. not another pod",
	  { "set s isolates", "pod 10.244.1.3 in=s out=s",
	    "service tcp 10.96.0.10:80 > 10.244.1.2:80",
	    OUT("tcp 10.244.1.3:40000 > 10.96.0.10:80", "POLICY_EGRESS") } },
	{ "56: cluster policies apply to itself",
	  { "set s isolates 3=deny", "pod 10.244.1.3 in=open out=s",
	    "service tcp 10.96.0.10:80 > " B,
	    OUT("tcp 10.244.1.3:40000 > 10.96.0.10:80", "POLICY_EGRESS") } },
	{ "56: Baseline, where nothing isolates",
	  { "set s 3=late", "pod 10.244.1.3 in=open out=s", "service tcp 10.96.0.10:80 > " B,
	    OUT("tcp 10.244.1.3:40000 > 10.96.0.10:80", "POLICY_EGRESS") } },
	{ "23: the node answers pings to a Service",
	  { CLIENT("isolates"), "vip 10.96.0.10", OUT("icmp 10.244.1.2 > 10.96.0.10 7", "passes"),
	    "sessions 0" } },
	/* from outside */
	{ "14: NodePort, backend here: the client counts",
	  { GUARD("isolates 203.0.113.0/24=web", "s", "open"),
	    "service tcp 192.168.99.11:30080 > " B,
	    UP("tcp " WORLD " > 192.168.99.11:30080", "tcp 10.244.1.1:443 > 10.244.1.3:80") } },
	{ "14: .. denied",
	  { GUARD("isolates 198.51.100.0/24=web", "s", "open"),
	    "service tcp 192.168.99.11:30080 > " B,
	    UP("tcp " WORLD " > 192.168.99.11:30080", "POLICY_INGRESS"), "sessions 0" } },
	{ "14: .. and not the virtual pod address",
	  { GUARD("isolates 10.244.0.0/16=all any=all unknown=all", "s", "open"),
	    "service tcp 192.168.99.11:30080 > " B,
	    UP("tcp " WORLD " > 192.168.99.11:30080", "POLICY_INGRESS") } },
	{ "14: policy Local: the client counts",
	  { GUARD("isolates 203.0.113.0/24=web", "s", "open"), "local tcp 192.168.99.11:30080 > " B,
	    UP("tcp " WORLD " > 192.168.99.11:30080", "tcp " WORLD " > " B) } },
	{ "14: by another node: that node counts",
	  { GUARD("isolates 192.168.99.12/32=web", "s", "open"),
	    IN("tcp 10.244.2.1:443 > " B, "passes") } },
	{ "14: .. and is no pod",
	  { GUARD("isolates any=all unknown=all 10.244.0.0/16=all", "s", "open"),
	    IN("tcp 10.244.2.1:443 > " B, "POLICY_INGRESS") } },
	{ "14: a host port: the client counts",
	  { GUARD("isolates 203.0.113.0/24=web", "s", "open"), "hostport tcp 0.0.0.0:8080 > " B,
	    UP("tcp " WORLD " > 192.168.99.11:8080", "tcp " WORLD " > " B) } },
	{ "14: .. denied",
	  { GUARD("isolates", "s", "open"), "hostport tcp 0.0.0.0:8080 > " B,
	    UP("tcp " WORLD " > 192.168.99.11:8080", "POLICY_INGRESS") } },
	{ "14: NodePort to another node's backend is not asked here",
	  { GUARD("isolates", "s", "s"), "service tcp 192.168.99.11:30080 > 10.244.2.7:80",
	    UP("tcp " WORLD " > 192.168.99.11:30080", "passes") } },
	{ "15: the overlay's address counts as its node",
	  { GUARD("isolates 192.168.99.12/32=web", "s", "open"),
	    IN("tcp 10.18.0.2:40000 > " B, "passes"),
	    OUT("tcp " B " > 10.18.0.2:40000 synack", "passes") } },
	{ "15: .. and not as a pod",
	  { GUARD("isolates any=all unknown=all 10.18.0.0/16=all", "s", "open"),
	    IN("tcp 10.18.0.2:40000 > " B, "POLICY_INGRESS") } },
	{ "a node's own address",
	  { GUARD("isolates 192.168.99.12/32=web", "s", "open"), "node 192.168.99.12",
	    IN("tcp 192.168.99.12:40000 > " B, "passes"),
	    OUT("tcp " B " > 192.168.99.12:40000 synack", "passes") } },
	{ "16: a pod's address from the overlay",
	  { GUARD("isolates 7=all", "s", "open"), IN("tcp " R " > " B, "passes") } },
	{ "16: .. forwarded by the host",
	  { GUARD("isolates 7=all", "s", "open"), HOST("tcp " R " > " B, "POLICY_INGRESS") } },
	{ "16: .. counts as unknown",
	  { GUARD("isolates unknown=all", "s", "open"), HOST("tcp " R " > " B, "passes") } },
	{ "16: .. and stays so after a change",
	  { GUARD("isolates unknown=all", "s", "open"), HOST("tcp " R " > " B, "passes"),
	    "set s isolates 7=all", "forbid 10.244.1.3",
	    OUT("tcp " B " > " R " synack", "POLICY_INGRESS") } },
	{ "16: an address of the overlay that the host forwards is unknown",
	  { GUARD("*=all unknown=deny", "s", "open"),
	    HOST("tcp 10.18.0.2:40000 > " B, "POLICY_INGRESS"),
	    IN("tcp 10.18.0.2:40000 > " B, "passes") } },
	{ "16: by an uplink, where the ranges are shared",
	  { GUARD("isolates any=all 9=all", "s", "open"), "shared",
	    "local tcp 192.168.99.11:30080 > " B,
	    UP("tcp 10.244.9.9:40000 > 192.168.99.11:30080", "POLICY_INGRESS") } },
	{ "forwarded by the host: by its address",
	  { GUARD("isolates 172.17.0.0/16=web", "s", "open"),
	    HOST("tcp 172.17.0.5:40000 > " B, "passes"),
	    OUT("tcp " B " > 172.17.0.5:40000 synack", "passes"),
	    HOST("tcp 172.18.0.5:40000 > " B, "POLICY_INGRESS") } },
	/* the own node */
	{ "19: the own node reaches an isolated pod",
	  { "set s isolates", "pod 10.244.1.3 in=s out=s",
	    HOST("tcp 192.168.99.11:40000 > " B, "passes"),
	    OUT("tcp " B " > 192.168.99.11:40000 synack", "passes"),
	    HOST("tcp 192.168.99.11:40000 > " B " ack", "passes") } },
	{ "19: .. by its overlay address",
	  { "set s isolates", "pod 10.244.1.3 in=s out=s",
	    HOST("udp 10.18.0.1:40000 > " B, "passes"),
	    OUT("udp " B " > 10.18.0.1:40000", "passes") } },
	{ "19: .. by a Service",
	  { "set s isolates", "pod 10.244.1.3 in=s out=s", "service tcp 10.96.0.10:80 > " B,
	    HOST("tcp 10.18.0.1:40000 > 10.96.0.10:80", "passes") } },
	{ "19: .. a ping",
	  { "set s isolates", "pod 10.244.1.3 in=s out=s",
	    HOST("icmp 192.168.99.11 > 10.244.1.3 7", "passes"),
	    OUT("icmp 10.244.1.3 > 192.168.99.11 7 reply", "passes") } },
	{ "19: .. and Deny of Admin does not hold",
	  { GUARD("*=deny unknown=deny any=deny", "s", "open"),
	    HOST("tcp 192.168.99.11:40000 > " B, "passes") } },
	{ "19: .. also after a change",
	  { "set s isolates", "pod 10.244.1.3 in=s out=s",
	    HOST("tcp 192.168.99.11:40000 > " B, "passes"), "forbid 10.244.1.3",
	    OUT("tcp " B " > 192.168.99.11:40000 synack", "passes") } },
	{ "20: egress to the own node needs a rule",
	  { CLIENT("isolates any=all"), OUT("tcp " A " > 192.168.99.11:22", "POLICY_EGRESS") } },
	{ "20: .. and can have one",
	  { CLIENT("isolates 192.168.99.11/32=all"), OUT("tcp " A " > 192.168.99.11:22", "passes"),
	    HOST("tcp 192.168.99.11:22 > " A " synack", "passes") } },
	/* answers */
	{ "24: answers pass, TCP",
	  { GUARD("isolates 7=web", "s", "s"), IN("tcp " R " > " B, "passes"),
	    OUT("tcp " B " > " R " synack", "passes"), IN("tcp " R " > " B " ack", "passes"),
	    OUT("tcp " B " > " R " fin", "passes"), "sessions 2" } },
	{ "24: answers pass, UDP",
	  { GUARD("isolates 7=dns", "s", "s"), IN("udp " R " > 10.244.1.3:53", "passes"),
	    OUT("udp 10.244.1.3:53 > " R, "passes"), IN("udp " R " > 10.244.1.3:53", "passes") } },
	{ "24: answers pass, SCTP",
	  { GUARD("isolates 7=sctp", "s", "s"), IN("sctp " R " > 10.244.1.3:9000", "passes"),
	    OUT("sctp 10.244.1.3:9000 > " R " synack", "passes"),
	    IN("sctp " R " > 10.244.1.3:9000 data", "passes") } },
	{ "24: answers pass, ping",
	  { GUARD("isolates 7=all", "s", "s"), IN("icmp 10.244.2.7 > 10.244.1.3 9", "passes"),
	    OUT("icmp 10.244.1.3 > 10.244.2.7 9 reply", "passes") } },
	{ "24: answers pass, ESP",
	  { "set i isolates 7=all", "set e isolates", "pod 10.244.1.3 in=i out=e",
	    IN("esp 10.244.2.7:1 > 10.244.1.3:1", "passes"),
	    OUT("esp 10.244.1.3:1 > 10.244.2.7:1", "passes") } },
	{ "24: answers from outside",
	  { "set i isolates", "set e isolates 203.0.113.0/24=all", "pod 10.244.1.2 in=i out=e",
	    OUT("icmp 10.244.1.2 > 203.0.113.10 9", "passes"), "sessions 2" } },
	{ "24: .. but the answering end opens nothing itself",
	  { "set i isolates 7=web", "set e isolates", "pod 10.244.1.3 in=i out=e",
	    IN("tcp " R " > " B, "passes"), OUT("tcp " B " > " R " synack", "passes"),
	    OUT("tcp 10.244.1.3:81 > " R, "POLICY_EGRESS") } },
	{ "25: a SYN of the server's end on the same ports",
	  { "set i isolates 7=web", "set e isolates", "pod 10.244.1.3 in=i out=e",
	    IN("tcp " R " > " B, "passes"), OUT("tcp " B " > " R " synack", "passes"),
	    IN("tcp " R " > " B " ack", "passes"), OUT("tcp " B " > " R, "POLICY_EGRESS"),
	    IN("tcp " R " > " B " ack", "passes"), "sessions 2" } },
	{ "25: each SYN is asked",
	  { GUARD("isolates 7=web", "s", "open"), IN("tcp " R " > " B, "passes"),
	    "set s isolates 7=none", IN("tcp " R " > " B, "POLICY_INGRESS"), "sessions 0" } },
	{ "25: each echo request is asked",
	  { GUARD("isolates 7=all", "s", "open"), IN("icmp 10.244.2.7 > 10.244.1.3 9", "passes"),
	    "set s isolates 7=none", IN("icmp 10.244.2.7 > 10.244.1.3 9", "POLICY_INGRESS") } },
	{ "25: each INIT is asked",
	  { GUARD("isolates 7=sctp", "s", "open"), IN("sctp " R " > 10.244.1.3:9000", "passes"),
	    "set s isolates 7=none", IN("sctp " R " > 10.244.1.3:9000", "POLICY_INGRESS") } },
	{ "25: a datagram of the server without a session",
	  { "set i isolates 7=all", "set e isolates", "pod 10.244.1.3 in=i out=e",
	    OUT("udp 10.244.1.3:53 > " R, "POLICY_EGRESS") } },
	{ "25: .. also an echo reply",
	  { "set i isolates 7=all", "set e isolates", "pod 10.244.1.3 in=i out=e",
	    OUT("icmp 10.244.1.3 > 10.244.2.7 9 reply", "POLICY_EGRESS") } },
	{ "25: .. an echo reply that may pass opens no session",
	  { GUARD("isolates 7=all", "s", "open"),
	    OUT("icmp 10.244.1.3 > 10.244.2.7 9 reply", "passes"), "sessions 0" } },
	/* no flow */
	{ "26: a segment without a session",
	  { GUARD("isolates 7=all", "s", "open"), IN("tcp " R " > " B " ack", "POLICY_NO_FLOW"),
	    IN("tcp " R " > " B " rst", "POLICY_NO_FLOW"),
	    IN("tcp " R " > " B " synack", "POLICY_NO_FLOW"),
	    OUT("tcp " B " > " R " fin", "POLICY_NO_FLOW"), "sessions 0" } },
	{ "26: .. of open pods",
	  { "set s isolates", "pod 10.244.1.3 in=s out=s",
	    IN("tcp " R " > 10.244.1.2:80 ack", "passes"), "sessions 0" } },
	{ "27: an error about a known flow",
	  { GUARD("isolates 7=dns", "s", "s"), IN("udp " R " > 10.244.1.3:53", "passes"),
	    "pod 10.244.1.3 > 10.244.2.7 about udp " R " > 10.244.1.3:53 = passes" } },
	{ "27: .. of a router",
	  { CLIENT("isolates 7=all"), OUT("udp " A " > 10.244.2.7:53", "passes"),
	    "overlay 10.18.0.2 > 10.244.1.2 about udp " A " > 10.244.2.7:53 = passes" } },
	{ "27: an error about no known flow",
	  { GUARD("isolates *=all 7=all", "s", "open"),
	    "overlay 10.18.0.2 > 10.244.1.3 about udp " B " > " R " = POLICY_NO_FLOW" } },
	{ "27: .. sent by an isolated pod",
	  { GUARD("isolates", "s", "open"),
	    "pod 10.244.1.3 > 10.244.2.7 about udp " R " > " B " = POLICY_NO_FLOW" } },
	{ "27: .. to an open pod",
	  { "set s isolates", "pod 10.244.1.3 in=s out=s",
	    "overlay 10.18.0.2 > 10.244.1.2 about udp " A " > 10.244.2.7:53 = passes" } },
	{ "27: an error that this host made",
	  { "set s isolates", "pod 10.244.1.3 in=s out=s",
	    "host 192.168.99.11 > 10.244.1.3 about udp " B " > 192.168.99.11:53 = passes" } },
	{ "27: .. that it forwards for others",
	  { "set s isolates", "pod 10.244.1.3 in=s out=s",
	    "host 172.17.0.5 > 10.244.1.3 about udp " B " > 172.17.0.5:53 = POLICY_NO_FLOW" } },
	{ "27: an error about a masqueraded flow",
	  { CLIENT("isolates 203.0.113.0/24=all"),
	    OUT("icmp 10.244.1.2 > 203.0.113.10 9", "passes") } },
	{ "29: fragments share the verdict: allowed",
	  { GUARD("isolates 7=dns", "s", "open"), IN("udp " R " > 10.244.1.3:53 first", "passes"),
	    IN("udp " R " > 10.244.1.3:53 later", "passes"), "sessions 2" } },
	{ "29: .. denied",
	  { GUARD("isolates", "s", "open"), IN("udp " R " > 10.244.1.3:53 first", "POLICY_INGRESS"),
	    IN("udp " R " > 10.244.1.3:53 later", "POLICY_INGRESS") } },
	{ "29: a later fragment of a protocol without ports",
	  { GUARD("isolates 7=all", "s", "open"),
	    IN("esp 10.244.2.7:1 > 10.244.1.3:1 later", "POLICY_NO_FLOW") } },
	{ "30: a denied flow displaces no session",
	  { GUARD("isolates 7=dns", "s", "open"), IN("udp " R " > 10.244.1.3:53", "passes"),
	    IN("udp 10.244.2.9:5 > 10.244.1.3:53", "POLICY_INGRESS"),
	    IN("udp " R " > 10.244.1.3:54", "POLICY_INGRESS"), "sessions 2" } },
	/* changes */
	{ "31: a connection that is not allowed any more",
	  { GUARD("isolates 7=web", "s", "open"), IN("tcp " R " > " B, "passes"),
	    OUT("tcp " B " > " R " synack", "passes"), IN("tcp " R " > " B " ack", "passes"),
	    "set s isolates 7=none", "forbid 10.244.1.3",
	    IN("tcp " R " > " B " ack", "POLICY_INGRESS"), "sessions 0",
	    IN("tcp " R " > " B " ack", "POLICY_NO_FLOW") } },
	{ "31: .. seen first in an answer",
	  { GUARD("isolates 7=web", "s", "open"), IN("tcp " R " > " B, "passes"),
	    OUT("tcp " B " > " R " synack", "passes"), IN("tcp " R " > " B " ack", "passes"),
	    "set s isolates 7=none", "forbid 10.244.1.3",
	    OUT("tcp " B " > " R " ack", "POLICY_INGRESS"), "sessions 0" } },
	{ "31: .. of a Service",
	  { CLIENT("isolates 3=web"), "service tcp 10.96.0.10:8000 > " B,
	    OUT("tcp " A " > 10.96.0.10:8000", "passes"), OUT("tcp " B " > " A " synack", "passes"),
	    OUT("tcp " A " > 10.96.0.10:8000 ack", "passes"), "set s isolates 3=none",
	    "forbid 10.244.1.2", OUT("tcp " A " > 10.96.0.10:8000 ack", "POLICY_EGRESS"),
	    OUT("tcp " A " > 10.96.0.10:8000 ack", "POLICY_NO_FLOW"), "sessions 0" } },
	{ "31: .. of a Service, in an answer",
	  { CLIENT("isolates 3=web"), "service tcp 10.96.0.10:8000 > " B,
	    OUT("tcp " A " > 10.96.0.10:8000", "passes"), OUT("tcp " B " > " A " synack", "passes"),
	    "set s isolates 3=none", "forbid 10.244.1.2",
	    OUT("tcp " B " > " A " ack", "POLICY_EGRESS"), "sessions 0" } },
	{ "31: .. UDP, after two datagrams",
	  { GUARD("isolates 7=dns", "s", "open"), IN("udp " R " > 10.244.1.3:53", "passes"),
	    OUT("udp 10.244.1.3:53 > " R, "passes"), IN("udp " R " > 10.244.1.3:53", "passes"),
	    "set s isolates 7=none", "forbid 10.244.1.3",
	    IN("udp " R " > 10.244.1.3:53", "POLICY_INGRESS"), "sessions 0" } },
	{ "31: a connection that stays allowed loses no packet",
	  { GUARD("isolates 7=web", "s", "open"), IN("tcp " R " > " B, "passes"),
	    OUT("tcp " B " > " R " synack", "passes"), IN("tcp " R " > " B " ack", "passes"),
	    "forbid 10.244.1.3", OUT("tcp " B " > " R " ack", "passes"),
	    IN("tcp " R " > " B " ack", "passes"), "count s network-policy 2 allowed 1" } },
	{ "31: asked once after a change, not again",
	  { GUARD("isolates 7=web", "s", "open"), IN("tcp " R " > " B, "passes"),
	    OUT("tcp " B " > " R " synack", "passes"), "forbid 10.244.1.3",
	    OUT("tcp " B " > " R " ack", "passes"), "set s isolates 7=none",
	    IN("tcp " R " > " B " ack", "passes"), OUT("tcp " B " > " R " ack", "passes") } },
	{ "31: the other end's change counts, too",
	  { "set i isolates 2=web", "set e isolates 3=web", "pod 10.244.1.3 in=i out=open",
	    "pod 10.244.1.2 in=open out=e", OUT("tcp " A " > " B, "passes"),
	    OUT("tcp " B " > " A " synack", "passes"), "set i isolates 2=none", "forbid 10.244.1.3",
	    OUT("tcp " A " > " B " ack", "POLICY_INGRESS"), "sessions 0" } },
	{ "32: the last policy goes",
	  { GUARD("isolates 7=web", "s", "open"), IN("tcp " R " > " B, "passes"),
	    OUT("tcp " B " > " R " synack", "passes"), IN("tcp " R " > " B " ack", "passes"),
	    "pod 10.244.1.3 in=open out=open", OUT("tcp " B " > " R " ack", "passes"),
	    IN("tcp " R " > " B " ack", "passes") } },
	{ "33: a Service's connection from before, allowed",
	  { "service tcp 10.96.0.10:8000 > " B, OUT("tcp " A " > 10.96.0.10:8000", "passes"),
	    OUT("tcp " B " > " A " synack", "passes"), CLIENT("isolates 3=web"),
	    OUT("tcp " A " > 10.96.0.10:8000 ack", "passes") } },
	{ "33: .. not allowed",
	  { "service tcp 10.96.0.10:8000 > " B, OUT("tcp " A " > 10.96.0.10:8000", "passes"),
	    OUT("tcp " B " > " A " synack", "passes"), CLIENT("isolates 3=none"),
	    OUT("tcp " B " > " A " ack", "POLICY_EGRESS"), "sessions 0" } },
	{ "33: a pod's own socket shows the connection: its packet",
	  { "set i isolates", "set e isolates 7=web", "pod 10.244.1.2 in=i out=e",
	    "socket " A " 10.244.2.7:80", OUT("tcp " A " > 10.244.2.7:80 ack", "passes"),
	    IN("tcp 10.244.2.7:80 > " A " ack", "passes"), "sessions 2", "happened taken-up 1" } },
	{ "33: .. the other end's packet",
	  { "set i isolates", "set e isolates 7=web", "pod 10.244.1.2 in=i out=e",
	    "socket " A " 10.244.2.7:80", IN("tcp 10.244.2.7:80 > " A " ack", "passes"),
	    OUT("tcp " A " > 10.244.2.7:80 ack", "passes"), "sessions 2" } },
	{ "33: .. opened from a pod elsewhere",
	  { "set i isolates 7=web", "set e isolates", "pod 10.244.1.3 in=i out=e",
	    "socket " B " " R, "listens " B, OUT("tcp " B " > " R " ack", "passes"),
	    IN("tcp " R " > " B " ack", "passes") } },
	{ "33: .. a server's connection does not count as opened by the pod",
	  { "set i isolates 7=none", "pod 10.244.1.3 in=i out=open", "socket " B " " R,
	    "listens " B, IN("tcp " R " > " B " ack", "POLICY_INGRESS"),
	    OUT("tcp " B " > " R " ack", "POLICY_INGRESS"), "sessions 0" } },
	{ "33: .. a client's connection does not count as opened by the other end",
	  { "set i isolates *=all", "set e isolates 7=none", "pod 10.244.1.2 in=i out=e",
	    "socket " A " 10.244.2.7:80", OUT("tcp " A " > 10.244.2.7:80 ack", "POLICY_EGRESS"),
	    IN("tcp 10.244.2.7:80 > " A " ack", "POLICY_EGRESS"), "sessions 0" } },
	{ "33: .. and the direction is kept for later changes",
	  { "set i isolates 7=web", "set e isolates", "pod 10.244.1.3 in=i out=e",
	    "socket " B " " R, "listens " B, OUT("tcp " B " > " R " ack", "passes"),
	    "forbid 10.244.1.3", OUT("tcp " B " > " R " ack", "passes"), "set i isolates 7=none",
	    "forbid 10.244.1.3", IN("tcp " R " > " B " ack", "POLICY_INGRESS") } },
	{ "33: .. not from outside the cluster",
	  { "set i isolates *=all", "set e isolates", "pod 10.244.1.3 in=i out=e",
	    "socket " B " " WORLD, "listens " B, OUT("tcp " B " > " WORLD " ack", "POLICY_NO_FLOW"),
	    "sessions 0" } },
	{ "33: .. neither direction is allowed",
	  { "set s isolates", "pod 10.244.1.2 in=s out=s", "socket " A " 10.244.2.7:80",
	    OUT("tcp " A " > 10.244.2.7:80 ack", "POLICY_EGRESS"), "sessions 0" } },
	{ "33: .. another connection of the pod",
	  { "set e isolates 7=web", "pod 10.244.1.2 in=open out=e",
	    "socket 10.244.1.2:40001 10.244.2.7:80",
	    OUT("tcp " A " > 10.244.2.7:80 ack", "POLICY_NO_FLOW") } },
	{ "33: .. opened by a pod of this node",
	  { "set i isolates", "pod 10.244.1.2 in=i out=open", "socket " B " " A, "listens " B,
	    "socket " A " " B, OUT("tcp " B " > " A " ack", "passes"),
	    OUT("tcp " A " > " B " ack", "passes"), "sessions 2" } },
	{ "33: .. whose socket does not show it",
	  { "set i isolates", "pod 10.244.1.2 in=i out=open", "socket " B " " A, "listens " B,
	    OUT("tcp " B " > " A " ack", "POLICY_NO_FLOW"), "sessions 0" } },
	{ "33: .. to the own node, whose socket does not show it",
	  { "set e isolates", "pod 10.244.1.3 in=open out=e", "socket " B " 192.168.99.11:40000",
	    "listens " B, OUT("tcp " B " > 192.168.99.11:40000 ack", "POLICY_NO_FLOW"),
	    "sessions 0" } },
	{ "33: .. whose socket shows it",
	  { "set e isolates", "pod 10.244.1.3 in=open out=e", "socket " B " 192.168.99.11:40000",
	    "listens " B, "socket 192.168.99.11:40000 " B,
	    OUT("tcp " B " > 192.168.99.11:40000 ack", "passes") } },
	{ "33: the own node's connection",
	  { "set s isolates", "pod 10.244.1.3 in=s out=s", "socket " B " 192.168.99.11:40000",
	    "listens " B, HOST("tcp 192.168.99.11:40000 > " B " ack", "passes"),
	    OUT("tcp " B " > 192.168.99.11:40000 ack", "passes") } },
	{ "45: another pod has the address: asked again",
	  { GUARD("isolates 7=web", "s", "open"), IN("tcp " R " > " B, "passes"),
	    OUT("tcp " B " > " R " synack", "passes"), "forbid 10.244.1.3",
	    "pod 10.244.1.3 in=pending out=pending", IN("tcp " R " > " B " ack", "POLICY_PENDING"),
	    "pod 10.244.1.3 in=s out=open", "set s isolates 7=none",
	    IN("tcp " R " > " B " ack", "POLICY_INGRESS"), "sessions 0" } },
	/* entries that another process has changed */
	{ "a pod's entry is lost: its connections wait until it is back",
	  { GUARD("isolates 7=web", "s", "open"), IN("tcp " R " > " B, "passes"),
	    OUT("tcp " B " > " R " synack", "passes"), IN("tcp " R " > " B " ack", "passes"),
	    "forget 10.244.1.3", "forbid 10.244.1.3", IN("tcp " R " > " B " ack", "POLICY_PENDING"),
	    OUT("tcp " B " > " R " ack", "POLICY_PENDING"), "sessions 2",
	    "pod 10.244.1.3 in=s out=open", OUT("tcp " B " > " R " ack", "passes"),
	    IN("tcp " R " > " B " ack", "passes") } },
	{ "policy_state is emptied: sets are asked nevertheless",
	  { GUARD("isolates 7=web", "s", "open"), "emptied", IN("tcp " R " > " B, "passes"),
	    IN("tcp 10.244.2.8:40000 > " B, "POLICY_INGRESS"), OUT("tcp " A " > " WORLD, "passes"),
	    "sessions 2" } },
};

START_TEST(test_row)
{
	policy_run(&rows[_i]);
}
END_TEST

/* Istio's ambient mode translates the kubelet's probes so. IPv6's address there is not link-local. */
START_TEST(test_translated_probe)
{
	static const struct policy_row row = {
		"a probe whose source the host has translated: by that address",
		{ GUARD("isolates 169.254.7.127/32=web", "s", "open"),
		  HOST("tcp 169.254.7.127:40000 > " B, "passes"),
		  OUT("tcp " B " > 169.254.7.127:40000 synack", "passes"), "went to the host",
		  HOST("tcp 169.254.7.126:40000 > " B, "POLICY_INGRESS") }
	};

	if (!family_is6())
		policy_run(&row);
}
END_TEST

/* An answer that nat translates back belongs to a flow of the pod, from before its policies. */
static const struct {
	const char *name, *flow, *set;
	bool established, passes;
} answers[] = {
	{ "TCP, allowed", "tcp 10.244.1.2:40000 > " WORLD, "set e isolates *=all", false, true },
	{ "TCP, denied", "tcp 10.244.1.2:40000 > " WORLD, "set e isolates", false, false },
	{ "TCP, established, allowed", "tcp 10.244.1.2:40000 > " WORLD, "set e isolates *=all",
	  true, true },
	{ "TCP, established, denied", "tcp 10.244.1.2:40000 > " WORLD, "set e isolates", true,
	  false },
	{ "UDP, allowed", "udp 10.244.1.2:40000 > " WORLD, "set e isolates *=all", false, true },
	{ "UDP, denied", "udp 10.244.1.2:40000 > " WORLD, "set e isolates", false, false },
};

static void handshake(const char *flow, const char *answer)
{
	struct frame in = frame_make(answer, &(struct frame_options){ .tcp_flags = SYN | ACK }),
		     out;

	ck_assert_int_eq(fixture_send(MK_HOOK_UPLINK, &in, &out), TO_POD);
	in = frame_make(flow, &(struct frame_options){ .tcp_flags = ACK });
	ck_assert_int_eq(fixture_send(MK_HOOK_POD, &in, &out), TO_UPLINK);
}

START_TEST(test_answer_through_nat)
{
	const struct frame_options ack = { .tcp_flags = ACK, .payload_bytes = 9 };
	const struct policy_row guard = {
		"guard", { answers[_i].set, "set i isolates", "pod 10.244.1.2 in=i out=e" }
	};
	struct frame in = frame_make(answers[_i].flow, NULL), out;
	char answer[96], proto[8], source[48];

	ck_assert_int_eq(fixture_send(MK_HOOK_POD, &in, &out), TO_UPLINK);
	ck_assert_int_eq(sscanf(frame_flow(&out), "%7s %47s", proto, source), 2);
	snprintf(answer, sizeof(answer), "%s 203.0.113.10:443 > %s", proto, source);
	if (answers[_i].established)
		handshake(answers[_i].flow, answer);
	policy_run(&guard);
	in = frame_make(answer, &ack);
	for (int i = 0; i < 2; i++)
		ck_assert_msg((fixture_send(MK_HOOK_UPLINK, &in, &out) == TO_POD) ==
				      answers[_i].passes,
			      "%s", answers[_i].name);
	if (!answers[_i].passes)
		ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_POLICY_EGRESS), 2);
	in = frame_make(answers[_i].flow, &ack);
	ck_assert_msg(fixture_send(MK_HOOK_POD, &in, &out) ==
			      (answers[_i].passes ? TO_UPLINK : DROPPED),
		      "%s: the next packet", answers[_i].name);
}
END_TEST

/* ---- without masquerade: hosts outside reach pods directly -------------------------------------- */

static const struct policy_row routed[] = {
	{ "a host outside, allowed",
	  { GUARD("isolates 203.0.113.0/24=web", "s", "open"),
	    UP("tcp 203.0.113.10:40000 > " B, "passes"),
	    OUT("tcp " B " > 203.0.113.10:40000 synack", "passes"),
	    UP("tcp 203.0.113.10:40000 > " B " ack", "passes"), "sessions 2" } },
	{ "a host outside, denied",
	  { GUARD("isolates any=all unknown=all", "s", "open"),
	    UP("tcp 203.0.113.10:40000 > " B, "POLICY_INGRESS"), "sessions 0" } },
	{ "pending",
	  { "pod 10.244.1.3 in=pending out=pending",
	    UP("tcp 203.0.113.10:40000 > " B, "POLICY_PENDING") } },
	{ "a host outside, no flow",
	  { GUARD("isolates *=all", "s", "open"),
	    UP("tcp 203.0.113.10:40000 > " B " ack", "POLICY_NO_FLOW") } },
	{ "answers of a host outside",
	  { "set i isolates", "set e isolates *=all", "pod 10.244.1.2 in=i out=e",
	    OUT("udp " A " > " WORLD, "passes"), UP("udp " WORLD " > " A, "passes"),
	    UP("udp 203.0.113.10:444 > " A, "POLICY_INGRESS") } },
	{ "an error of a host outside, about no flow",
	  { GUARD("isolates *=all", "s", "open"),
	    "uplink 203.0.113.1 > 10.244.1.3 about udp " B " > " WORLD " = POLICY_NO_FLOW" } },
	{ "33: taken up as the pod's own, never as a host's outside",
	  { "set i isolates *=all", "set e isolates", "pod 10.244.1.3 in=i out=e",
	    "socket " B " " WORLD, UP("tcp " WORLD " > " B " ack", "POLICY_EGRESS") } },
	{ "33: .. the pod's own",
	  { "set i isolates", "set e isolates *=all", "pod 10.244.1.3 in=i out=e",
	    "socket " B " " WORLD, UP("tcp " WORLD " > " B " ack", "passes") } },
	{ "not watched",
	  { "set s isolates", "pod 10.244.1.2 in=s out=s",
	    UP("tcp 203.0.113.10:40000 > " B, "passes"), "sessions 0" } },
};

START_TEST(test_routed)
{
	policy_run(&routed[_i]);
}
END_TEST

BPF_SUITE("policy_flows")
{
	TCase *tcase = bpf_case(suite, "policy flows"), *keeps;

	tcase_add_checked_fixture(tcase, policy_start, NULL);
	tcase_add_loop_test(tcase, test_row, 0, ROWS(rows));
	tcase_add_test(tcase, test_translated_probe);
	tcase_add_loop_test(tcase, test_answer_through_nat, 0, ROWS(answers));
	keeps = bpf_case_after(suite, "policies without masquerade", fixture_keep_source, NULL);
	tcase_add_checked_fixture(keeps, policy_start, NULL);
	tcase_add_loop_test(keeps, test_routed, 0, ROWS(routed));
}
