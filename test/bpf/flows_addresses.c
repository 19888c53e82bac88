// SPDX-License-Identifier: Apache-2.0
/* Where each address answers: rules that flows_matrix.c does not contain. */
#include "base/cleanup.h"
#include "bpf/flow.h"

#define THIS_NODE(addresses)                                                                    \
	"object {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'node1'}, 'spec': "   \
	"{'podCIDR': '10.244.1.0/24', 'podCIDRs': ['10.244.1.0/24']}, 'status': {'addresses': " \
	"[{'type': 'InternalIP', 'address': '192.168.99.11'}" addresses "]}}"
#define ALSO(type, address) ", {'type': '" type "', 'address': '" address "'}"
#define PORT_TCP(port)	    "'ports': [{'name': 'tcp', 'port': " port "}]"
#define AT_R		    "'endpoints': [{'addresses': ['10.244.2.7'], 'nodeName': 'node2'}]"

#define RANGES(list) SPEC("'loadBalancerSourceRanges': [" list "]")
#define FILTERED     "dropped SOURCE_RANGE"

/* clang-format off */
static const struct flow_row rows[] = {
	/* ClusterIP */
	{ "ClusterIP: a client on the endpoint's own node keeps its address too", { "endpoints L", "pod tcp vip:80 = L kept", "pod udp vip:80 = L kept" } },
	{ "ClusterIP: another container network, forwarded by the host, is masqueraded", { "endpoints L R", "forwarded tcp vip:80 = L R masq", "forwarded udp vip:80 = L R masq" } },
	{ "ClusterIP: any source from outside is masqueraded", { "endpoints L R", "outside@198.18.0.1 tcp vip:80 = L R masq", "outside@172.31.255.1 udp vip:80 = L R masq" } },
	{ "ClusterIP: the API server's case, pod to this host", { "endpoints H", "pod tcp vip:80 = H kept" } },
	{ "ClusterIP: the API server's case, this host to itself", { "endpoints H", "host tcp vip:80 = H", "hostnet tcp vip:80 = H" } },
	{ "ClusterIP: the API server's case, pod to another host", { "endpoints N", "pod tcp vip:80 = N kept", "pod udp vip:80 = N kept" } },
	{ "ClusterIP: the API server's case, this host to another host", { "endpoints N", "host tcp vip:80 = N", "hostnet tcp vip:80 = N" } },
	{ "ClusterIP: the API server's case, several hosts", { "endpoints H N", "pod tcp vip:80 = H N kept", "host tcp vip:80 = H N" } },
	{ "ClusterIP: the API server's case, from outside", { "endpoints H N", "outside tcp vip:80 = H N masq" } },

	/* hairpin */
	{ "hairpin: a pod that reaches itself is masqueraded", { "endpoints P", "self tcp vip:80 = P masq", "self udp vip:80 = P masq", "self sctp vip:80 = P masq" } },
	{ "hairpin: by an externalIP", { "endpoints P", "self tcp ext:80 = P masq" } },
	{ "hairpin: by a load-balancer address", { "endpoints P", "self tcp lb:80 = P masq", "self udp lb:80 = P masq" } },
	{ "hairpin: by a node port", { "endpoints P", "self tcp node:30080 = P masq" } },
	{ "hairpin: internal policy Local", { INTERNAL_LOCAL, "endpoints P R", "self tcp vip:80 = P masq" } },
	{ "hairpin: the short cut of external policy Local is masqueraded too", { EXTERNAL_LOCAL, "endpoints P", "self tcp lb:80 = P masq", "self tcp node:30080 = P masq" } },
	{ "hairpin: another pod with the same Service is not masqueraded", { "endpoints L", "pod tcp vip:80 = L kept" } },
	{ "hairpin: a terminating pod reaches itself", { "endpoints Pt", "self tcp vip:80 = P masq" } },

	/* NodePort */
	{ "NodePort: on every InternalIP of the Node", { THIS_NODE(ALSO("InternalIP", "198.18.0.11")), "service", "endpoints L R", "outside tcp node:30080 = L R masq", "outside tcp 198.18.0.11:30080 = L R masq", "pod tcp 198.18.0.11:30080 = L R masq" } },
	{ "NodePort: on every ExternalIP of the Node", { THIS_NODE(ALSO("ExternalIP", "198.18.0.12")), "service", "endpoints L R", "outside tcp 198.18.0.12:30080 = L R masq", "outside udp 198.18.0.12:30080 = L R masq" } },
	{ "NodePort: not on other addresses of the Node", { THIS_NODE(ALSO("Hostname", "node1") ALSO("InternalDNS", "node1.example")), "service", "endpoints L", "outside tcp node:30080 = L masq", "outside tcp 198.18.0.11:30080 = untouched" } },
	{ "NodePort: not on the overlay's addresses", { "endpoints L", "outside tcp 10.18.0.1:30080 = untouched" } },
	{ "NodePort: the Node's addresses change", { THIS_NODE(ALSO("InternalIP", "198.18.0.11")), "service", "endpoints L", "outside tcp 198.18.0.11:30080 = L masq",
	    THIS_NODE(ALSO("InternalIP", "198.18.0.13")), "outside tcp 198.18.0.11:30080 = untouched", "outside tcp 198.18.0.13:30080 = L masq", "outside tcp node:30080 = L masq" } },
	{ "NodePort: an IPv6 address of the Node is passed over", { THIS_NODE(ALSO("InternalIP", "fd00::11")), "service", "endpoints L", "outside tcp node:30080 = L masq" } },
	{ "NodePort: another node's port is that node's business", { "endpoints L", "pod tcp 192.168.99.12:30080 = outside" } },
	{ "NodePort: the Service's own port is not there", { "endpoints L", "outside tcp node:80 = untouched" } },
	{ "NodePort: the endpoint's port is not there", { "endpoints L", "outside tcp node:8080 = untouched" } },
	{ "NodePort: the ClusterIP does not answer on it", { "endpoints L", "pod tcp vip:30080 = refused" } },
	{ "NodePort: endpoint in this host's network", { "endpoints H", "outside tcp node:30080 = H masq", "outside udp node:30080 = H masq", "pod tcp node:30080 = H masq" } },
	{ "NodePort: endpoint in another host's network", { "endpoints N", "outside tcp node:30080 = N masq", "pod tcp node:30080 = N masq" } },
	{ "NodePort: the host itself, endpoint in its own network", { "endpoints H", "own tcp node:30080 = H", "own udp node:30080 = H" } },
	{ "NodePort: the host itself, endpoint in another host's network", { "endpoints N", "own tcp node:30080 = N" } },
	{ "NodePort: the host itself, external policy Local, endpoint in its own network", { EXTERNAL_LOCAL, "endpoints H R", "own tcp node:30080 = H R" } },
	{ "NodePort: the host's traffic to itself on other ports is not touched", { "endpoints L", "own tcp node:22 = untouched", "own udp node:53 = untouched", "own tcp node:80 = untouched", "own tcp node:30081 = untouched" } },
	{ "NodePort: the host's traffic to itself is not touched without a Service", { "endpoints L", "own tcp node:30080 = L", "delete service", "own tcp node:30080 = untouched" } },
	{ "NodePort: the host at a loopback address", { "endpoints L R", "own@127.0.0.1 tcp 127.0.0.1:30080 = L R", "own@127.0.0.1 udp 127.0.0.1:30080 = L R", "own@127.0.0.1 sctp 127.0.0.1:30080 = L R", "own tcp 127.0.0.1:30080 = L R", "own@127.0.0.1 tcp 127.0.0.53:30080 = L R" } },
	{ "NodePort: the host at a loopback address, endpoint in its own network", { "endpoints H", "own@127.0.0.1 tcp 127.0.0.1:30080 = H", "own@127.0.0.1 udp 127.0.0.1:30080 = H" } },
	{ "NodePort: the host at a loopback address, endpoint in another host's network", { "endpoints N", "own@127.0.0.1 tcp 127.0.0.1:30080 = N" } },
	{ "NodePort: the host at a loopback address, external policy Local: any endpoint", { EXTERNAL_LOCAL, "endpoints R", "own@127.0.0.1 tcp 127.0.0.1:30080 = R", "own@127.0.0.1 udp 127.0.0.1:30080 = R" } },
	{ "NodePort: the host at a loopback address, no endpoint", { "endpoints", "own@127.0.0.1 tcp 127.0.0.1:30080 = refused", "own@127.0.0.1 udp 127.0.0.2:30080 = refused" } },
	{ "NodePort: the host's traffic to its loopback addresses on other ports is not touched", { "endpoints L", "own@127.0.0.1 tcp 127.0.0.1:22 = untouched", "own@127.0.0.1 udp 127.0.0.53:53 = untouched", "own@127.0.0.1 tcp 127.0.0.1:80 = untouched", "own@127.0.0.1 tcp 127.0.0.1:30081 = untouched", "own@127.0.0.1 ping 127.0.0.1 = untouched" } },
	{ "NodePort: the host at a loopback address, ports between two node ports", { SPEC("'ports': [{'name': 'tcp', 'port': 80, 'nodePort': 30080}, {'name': 'udp', 'port': 443, 'nodePort': 30443}]"),
	    "endpoints L", "own@127.0.0.1 tcp 127.0.0.1:30080 = L", "own@127.0.0.1 tcp 127.0.0.1:30200 = untouched", "own@127.0.0.1 udp 127.0.0.1:30443 = untouched" } },
	{ "NodePort: the host at a loopback address, localhostNodePorts: false", { "no localhost", "endpoints L", "own@127.0.0.1 tcp 127.0.0.1:30080 = untouched", "own@127.0.0.1 udp 127.0.0.1:30080 = untouched", "own tcp node:30080 = L" } },
	{ "NodePort: the host at a loopback address, switched off: open connections go on", { "endpoints L", "open a own@127.0.0.1 tcp 127.0.0.1:30080 = L", "no localhost", "own@127.0.0.1 tcp 127.0.0.1:30080 = untouched", "a goes on" } },
	{ "NodePort: only the host reaches a loopback address", { "endpoints L", "outside tcp 127.0.0.1:30080 = untouched", "pod tcp 127.0.0.1:30080 = dropped NOT_UNICAST" } },
	{ "NodePort: another node's client and endpoint", { "endpoints N R", "node2 tcp node:30080 = N R masq" } },
	{ "NodePort, external policy Local: endpoint in this host's network", { EXTERNAL_LOCAL, "endpoints H R", "outside tcp node:30080 = H kept", "outside udp node:30080 = H kept", "node2 tcp node:30080 = H kept" } },
	{ "NodePort: a pod of another container network", { "endpoints L R", "forwarded tcp lb:80 = L R masq" } },
	{ "a VIP goes before a node port: its own Service's", { SPEC("'externalIPs': ['192.168.99.11'], 'ports': [{'name': 'tcp', 'port': 30080, 'nodePort': 30081}, {'name': 'udp', 'port': 81, 'nodePort': 30080}]"),
	    SLICE("'ports': [{'name': 'tcp', 'port': 8001}, {'name': 'udp', 'port': 8002}], 'endpoints': [{'addresses': ['10.244.1.3'], 'nodeName': 'node1'}]"),
	    "outside tcp node:30080 = L:8001 masq", "outside tcp node:30081 = L:8001 masq", "outside tcp node:81 = L:8002 masq" } },
	{ "a VIP goes before a node port: of a Service that was there first", { "endpoints L", "outside tcp node:30080 = L masq",
	    OTHER_SERVICE("x", "t", "'clusterIP': '10.96.0.11', 'externalIPs': ['192.168.99.11'], " PORT_TCP("30080")),
	    SLICE_OF("x", "t", "t-1", "IPv4", TCP_8080 AT_R), "outside tcp node:30080 = R masq", "pod tcp node:30080 = R masq", "outside udp node:30080 = L masq", "pod tcp vip:80 = L kept",
	    OTHER_SERVICE("x", "t", "'clusterIP': 'None', " PORT_TCP("30080")), "outside tcp node:30080 = L masq" } },
	{ "a VIP goes before a node port: of a Service that comes later", { "no service",
	    OTHER_SERVICE("x", "t", "'clusterIP': '10.96.0.11', 'externalIPs': ['192.168.99.11'], " PORT_TCP("30080")),
	    SLICE_OF("x", "t", "t-1", "IPv4", TCP_8080 AT_R), "outside tcp node:30080 = R masq", "service", "endpoints L", "outside tcp node:30080 = R masq", "outside tcp lb:80 = L masq" } },
	{ "an externalIP that is a node's own address", { SPEC("'externalIPs': ['192.168.99.11']"), "endpoints L R", "outside tcp node:80 = L R masq", "pod tcp node:80 = L R masq", "own tcp node:80 = L R", "outside tcp node:22 = untouched" } },

	/* externalIPs and load-balancer addresses: the external path */
	{ "externalIP: endpoint in this host's network", { "endpoints H", "outside tcp ext:80 = H masq", "pod tcp ext:80 = H masq", "host tcp ext:80 = H" } },
	{ "externalIP: endpoint in another host's network", { "endpoints N", "outside tcp ext:80 = N masq", "pod tcp ext:80 = N masq" } },
	{ "load balancer: endpoint in this host's network", { "endpoints H", "outside tcp lb:80 = H masq", "pod tcp lb:80 = H masq", "host tcp lb:80 = H" } },
	{ "load balancer: endpoint in another host's network", { "endpoints N", "outside tcp lb:80 = N masq", "pod tcp lb:80 = N masq", "host tcp lb:80 = N" } },
	{ "load balancer, external policy Local: endpoint in this host's network", { EXTERNAL_LOCAL, "endpoints H", "outside tcp lb:80 = H kept", "pod tcp lb:80 = H kept", "host tcp lb:80 = H" } },
	{ "load balancer, external policy Local: pod, endpoint in another host's network", { EXTERNAL_LOCAL, "endpoints N", "pod tcp lb:80 = N kept" } },
	{ "external policy Local: every client's address is kept", { EXTERNAL_LOCAL, "endpoints L", "outside@198.18.0.1 tcp lb:80 = L kept", "outside@192.168.99.1 tcp ext:80 = L kept" } },

	/* source ranges */
	{ "source ranges: outside, in the range and not", { RANGES("'203.0.113.0/24'"), "endpoints L", "outside tcp lb:80 = L masq", "outside@198.18.0.1 tcp lb:80 = " FILTERED, "outside@198.18.0.1 udp lb:80 = " FILTERED } },
	{ "source ranges: several", { RANGES("'198.18.0.0/28', '203.0.113.10/32'"), "endpoints L", "outside tcp lb:80 = L masq", "outside@198.18.0.15 tcp lb:80 = L masq", "outside@198.18.0.16 tcp lb:80 = " FILTERED } },
	{ "source ranges: blanks and host bits are ignored", { RANGES("' 203.0.113.77/24 '"), "endpoints L", "outside tcp lb:80 = L masq", "outside@198.18.0.1 tcp lb:80 = " FILTERED } },
	{ "source ranges: load-balancer addresses only", { RANGES("'198.18.0.0/16'"), "endpoints L", "outside tcp lb:80 = " FILTERED, "outside tcp node:30080 = L masq", "outside tcp ext:80 = L masq", "outside tcp vip:80 = L masq", "pod tcp vip:80 = L kept" } },
	{ "source ranges: a load-balancer address that is an externalIP too", { SPEC("'externalIPs': ['192.0.2.80', '198.51.100.7'], 'loadBalancerSourceRanges': ['198.18.0.0/16']"), "endpoints L",
	    "outside tcp lb:80 = " FILTERED, "pod tcp lb:80 = " FILTERED, "outside@198.18.0.1 tcp lb:80 = L masq", "outside tcp ext:80 = L masq" } },
	{ "source ranges: pods are filtered too", { RANGES("'10.244.1.2/32'"), "endpoints L", "pod tcp lb:80 = L masq", "pod@10.244.1.3 tcp lb:80 = " FILTERED } },
	{ "source ranges: pods, the short cut of external policy Local", { SPEC("'externalTrafficPolicy': 'Local', 'loadBalancerSourceRanges': ['10.244.1.2/32']"), "endpoints R", "pod tcp lb:80 = R kept", "pod@10.244.1.3 tcp lb:80 = " FILTERED } },
	{ "source ranges: the host is its node's address", { RANGES("'192.168.99.11/32'"), "endpoints R", "host tcp lb:80 = R", "hostnet tcp lb:80 = R", "pod tcp lb:80 = " FILTERED } },
	{ "source ranges: the host is not let in", { RANGES("'203.0.113.0/24'"), "endpoints R", "host tcp lb:80 = " FILTERED, "hostnet tcp lb:80 = " FILTERED } },
	{ "source ranges: /0 opens", { RANGES("'198.18.0.0/16', '0.0.0.0/0'"), "endpoints L", "outside tcp lb:80 = L masq", "pod tcp lb:80 = L masq" } },
	{ "source ranges: only of the other family: all clients are let in", { RANGES("'2001:db8::/32'"), "endpoints L", "outside tcp lb:80 = L masq", "pod tcp lb:80 = L masq" } },
	{ "source ranges: those of the other family are ignored", { RANGES("'::/0', '198.18.0.0/16'"), "endpoints L", "outside tcp lb:80 = " FILTERED } },
	{ "source ranges: dropped silently even if the Service would refuse", { RANGES("'198.18.0.0/16'"), "endpoints", "outside tcp lb:80 = " FILTERED, "outside@198.18.0.1 tcp lb:80 = refused" } },
	{ "source ranges: new flows only, and they change", { RANGES("'203.0.113.0/24'"), "endpoints L", "open a outside tcp lb:80 = L masq", RANGES("'198.18.0.0/16'"), "a goes on", "outside tcp lb:80 = " FILTERED, "outside@198.18.0.1 tcp lb:80 = L masq", "service", "outside tcp lb:80 = L masq" } },
	{ "source ranges: from the address itself, node in the range", { RANGES("'192.168.99.0/24'"), "endpoints R", "forwarded@192.0.2.80 tcp lb:80 = R masq" } },
	{ "source ranges: from the address itself, node not in the range", { RANGES("'203.0.113.0/24'"), "endpoints R", "forwarded@192.0.2.80 tcp lb:80 = " FILTERED } },
	{ "source ranges: pings and unknown ports are not filtered", { RANGES("'198.18.0.0/16'"), "endpoints L", "outside ping lb = pong", "outside tcp lb:81 = refused" } },

	/* all kinds at once */
	{ "one Service, all its addresses, one endpoint", { "endpoints R", "pod tcp vip:80 = R kept", "pod tcp node:30080 = R masq", "pod tcp ext:80 = R masq", "pod tcp lb:80 = R masq",
	    "outside tcp node:30080 = R masq", "outside tcp ext:80 = R masq", "outside tcp lb:80 = R masq" } },
	{ "a multi-port Service: each port by each address", { SPEC("'ports': [{'name': 'tcp', 'port': 80, 'nodePort': 30080}, {'name': 'udp', 'port': 443, 'nodePort': 30443}]"),
	    SLICE("'ports': [{'name': 'tcp', 'port': 8001}, {'name': 'udp', 'port': 8002}], 'endpoints': [{'addresses': ['10.244.1.3'], 'nodeName': 'node1'}]"),
	    "pod tcp vip:80 = L:8001 kept", "pod tcp vip:443 = L:8002 kept", "outside tcp node:30080 = L:8001 masq", "outside tcp node:30443 = L:8002 masq",
	    "outside tcp lb:80 = L:8001 masq", "outside tcp lb:443 = L:8002 masq", "outside tcp ext:443 = L:8002 masq" } },
};
/* clang-format on */

const struct flow_section flows_addresses = { "where each address answers", rows,
					      (int)MK_ARRAY_SIZE(rows) };
