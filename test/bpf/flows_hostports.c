// SPDX-License-Identifier: Apache-2.0
/* Host ports of pods (hostPort), also together with Services. */
#include "base/cleanup.h"
#include "bpf/flow.h"

#define ANY_ADDRESS "0.0.0.0:8080"

/* clang-format off */
static const struct flow_row rows[] = {
	{ "hostPort: clients keep their addresses", { "hostport tcp " ANY_ADDRESS " L:80", "pod tcp node:8080 = L:80 kept", "outside tcp node:8080 = L:80 kept", "node2 tcp node:8080 = L:80 kept" } },
	{ "hostPort: UDP and SCTP", { "hostport udp " ANY_ADDRESS " L:80", "hostport sctp " ANY_ADDRESS " L:81", "outside udp node:8080 = L:80 kept", "outside sctp node:8080 = L:81 kept", "pod udp node:8080 = L:80 kept", "outside tcp node:8080 = untouched" } },
	{ "hostPort: the host itself", { "hostport tcp " ANY_ADDRESS " L:80", "own tcp node:8080 = L:80", "own tcp node:8081 = untouched" } },
	{ "hostPort: the pod itself is masqueraded", { "hostport tcp " ANY_ADDRESS " P:80", "self tcp node:8080 = P:80 masq" } },
	{ "hostPort: the same number on another protocol is another pod's", { "hostport tcp " ANY_ADDRESS " L:80", "hostport udp " ANY_ADDRESS " K:80", "outside tcp node:8080 = L:80 kept", "outside udp node:8080 = K:80 kept" } },
	{ "hostPort: the same number on another address is another pod's", { "host has 198.18.0.12", "hostport tcp 192.168.99.11:8080 L:80", "hostport tcp 198.18.0.12:8080 K:80", "outside tcp node:8080 = L:80 kept", "outside tcp 198.18.0.12:8080 = K:80 kept", "pod tcp 198.18.0.12:8080 = K:80 kept" } },
	{ "hostPort: every address of the host", { "host has 198.18.0.12", "hostport tcp " ANY_ADDRESS " L:80", "outside tcp node:8080 = L:80 kept", "outside tcp 198.18.0.12:8080 = L:80 kept" } },
	{ "hostPort: one address goes before all", { "hostport tcp " ANY_ADDRESS " L:80", "hostport tcp 192.168.99.11:8080 K:80", "host has 198.18.0.12", "outside tcp node:8080 = K:80 kept", "outside tcp 198.18.0.12:8080 = L:80 kept" } },
	{ "hostPort: the pods' gateway is the host's address", { "host has 10.244.1.254", "hostport tcp " ANY_ADDRESS " L:80", "hostport udp 10.244.1.254:53 K:53", "pod tcp 10.244.1.254:8080 = L:80 kept", "pod udp 10.244.1.254:53 = K:53 kept", "own tcp 10.244.1.254:8080 = L:80" } },
	{ "hostPort: an address that is not the host's", { "hostport tcp " ANY_ADDRESS " L:80", "pod tcp 192.168.99.12:8080 = outside", "outside tcp 198.51.100.200:8080 = untouched" } },
	{ "hostPort: a Service's node port goes first", { "hostport tcp 0.0.0.0:30080 K:80", "endpoints L", "outside tcp node:30080 = L masq", "pod tcp node:30080 = L masq", "own tcp node:30080 = L", "delete service", "outside tcp node:30080 = K:80 kept" } },
	{ "hostPort: a Service's addresses are no host's", { "hostport tcp 0.0.0.0:80 K:80", "endpoints L", "pod tcp vip:80 = L kept", "outside tcp lb:80 = L masq", "outside tcp ext:80 = L masq", "outside tcp node:80 = K:80 kept" } },
	{ "hostPort: the pod is a Service's endpoint, too", { "hostport tcp " ANY_ADDRESS " L:8080", "endpoints L", "outside tcp node:8080 = L kept", "outside tcp node:30080 = L masq", "pod tcp vip:80 = L kept", "pod tcp node:8080 = L kept" } },
	{ "hostPort: ICMP errors reach both sides", { "hostport udp " ANY_ADDRESS " L:80", "hostport tcp " ANY_ADDRESS " L:80", "open a outside udp node:8080 = L:80 kept", "a errors", "open b pod tcp node:8080 = L:80 kept", "b errors" } },
	{ "hostPort: fragments", { "hostport udp " ANY_ADDRESS " L:80", "open a outside udp node:8080 = L:80 kept", "a fragments", "open b pod udp node:8080 = L:80 kept", "b fragments" } },
};
/* clang-format on */

const struct flow_section flows_hostports = { "hostPort", rows, (int)MK_ARRAY_SIZE(rows) };
