// SPDX-License-Identifier: Apache-2.0
/* Sessions: ICMP errors about their packets, and datagrams in fragments. */
#include "base/cleanup.h"
#include "bpf/flow.h"

/* clang-format off */
static const struct flow_row rows[] = {
	{ "ICMP errors reach both sides, ClusterIP: pod", { "endpoints R", "open a pod udp vip:80 = R kept", "a errors", "endpoints L", "open b pod tcp vip:80 = L kept", "b errors" } },
	{ "ICMP errors reach both sides, ClusterIP: outside", { "endpoints R", "open a outside udp vip:80 = R masq", "a errors", "endpoints L", "open b outside tcp vip:80 = L masq", "b errors" } },
	{ "ICMP errors reach both sides, NodePort: pod", { "endpoints R", "open a pod udp node:30080 = R masq", "a errors", "endpoints L", "open b pod tcp node:30080 = L masq", "b errors" } },
	{ "ICMP errors reach both sides, NodePort: outside", { "endpoints R", "open a outside udp node:30080 = R masq", "a errors", "endpoints L", "open b outside tcp node:30080 = L masq", "b errors" } },
	{ "ICMP errors reach both sides, externalIP: pod", { "endpoints R", "open a pod udp ext:80 = R masq", "a errors", "endpoints L", "open b pod tcp ext:80 = L masq", "b errors" } },
	{ "ICMP errors reach both sides, externalIP: outside", { "endpoints R", "open a outside udp ext:80 = R masq", "a errors", "endpoints L", "open b outside tcp ext:80 = L masq", "b errors" } },
	{ "ICMP errors reach both sides, load balancer: pod", { "endpoints R", "open a pod udp lb:80 = R masq", "a errors", "endpoints L", "open b pod tcp lb:80 = L masq", "b errors" } },
	{ "ICMP errors reach both sides, load balancer: outside", { "endpoints R", "open a outside udp lb:80 = R masq", "a errors", "endpoints L", "open b outside tcp lb:80 = L masq", "b errors" } },
	{ "ICMP errors reach both sides, external policy Local", { EXTERNAL_LOCAL, "endpoints L", "open a outside udp lb:80 = L kept", "a errors", "open b outside tcp node:30080 = L kept", "b errors" } },
	{ "ICMP errors reach both sides, host", { "endpoints R", "open a host udp vip:80 = R", "a errors", "endpoints L", "open b hostnet tcp lb:80 = L", "b errors" } },
	{ "ICMP errors reach both sides, hairpin", { "endpoints P", "open a self udp vip:80 = P masq", "a errors", "open b self tcp lb:80 = P masq", "b errors" } },
	{ "ICMP errors reach both sides, endpoint in this host's network", { "endpoints H", "open a pod udp vip:80 = H kept", "a errors", "open b outside udp node:30080 = H masq", "b errors", "open c host tcp vip:80 = H", "c errors" } },
	{ "ICMP errors reach both sides, external policy Local, endpoint in this host's network", { EXTERNAL_LOCAL, "endpoints H", "open a outside udp lb:80 = H kept", "a errors" } },
	{ "ICMP errors reach both sides, endpoint in another host's network", { "endpoints N", "open a pod udp vip:80 = N kept", "a errors", "open b outside tcp lb:80 = N masq", "b errors", "open c host udp vip:80 = N", "c errors" } },
	{ "ICMP errors reach both sides, another container network", { "endpoints R", "open a forwarded udp vip:80 = R masq", "a errors" } },
	{ "ICMP errors reach both sides, SCTP", { "endpoints R", "open a pod sctp vip:80 = R kept", "a errors", "open b outside sctp lb:80 = R masq", "b errors" } },
	{ "fragments, ClusterIP: pod", { "endpoints R", "open a pod udp vip:80 = R kept", "a fragments", "endpoints L", "open b pod udp vip:80 = L kept", "b fragments" } },
	{ "fragments, ClusterIP: outside", { "endpoints R", "open a outside udp vip:80 = R masq", "a fragments", "endpoints L", "open b outside udp vip:80 = L masq", "b fragments" } },
	{ "fragments, NodePort: pod", { "endpoints R", "open a pod udp node:30080 = R masq", "a fragments", "endpoints L", "open b pod udp node:30080 = L masq", "b fragments" } },
	{ "fragments, NodePort: outside", { "endpoints R", "open a outside udp node:30080 = R masq", "a fragments", "endpoints L", "open b outside udp node:30080 = L masq", "b fragments" } },
	{ "fragments, externalIP: pod", { "endpoints R", "open a pod udp ext:80 = R masq", "a fragments", "endpoints L", "open b pod udp ext:80 = L masq", "b fragments" } },
	{ "fragments, externalIP: outside", { "endpoints R", "open a outside udp ext:80 = R masq", "a fragments", "endpoints L", "open b outside udp ext:80 = L masq", "b fragments" } },
	{ "fragments, load balancer: pod", { "endpoints R", "open a pod udp lb:80 = R masq", "a fragments", "endpoints L", "open b pod udp lb:80 = L masq", "b fragments" } },
	{ "fragments, load balancer: outside", { "endpoints R", "open a outside udp lb:80 = R masq", "a fragments", "endpoints L", "open b outside udp lb:80 = L masq", "b fragments" } },
	{ "fragments, external policy Local", { EXTERNAL_LOCAL, "endpoints L", "open a outside udp lb:80 = L kept", "a fragments", "open b outside udp node:30080 = L kept", "b fragments" } },
	{ "fragments, host", { "endpoints R", "open a host udp vip:80 = R", "a fragments", "endpoints L", "open b hostnet udp lb:80 = L", "b fragments" } },
	{ "fragments, hairpin", { "endpoints P", "open a self udp vip:80 = P masq", "a fragments" } },
	{ "fragments, endpoint in this host's network", { "endpoints H", "open a pod udp vip:80 = H kept", "a fragments", "open b outside udp node:30080 = H masq", "b fragments", "open c host udp vip:80 = H", "c fragments" } },
	{ "fragments, external policy Local, endpoint in this host's network", { EXTERNAL_LOCAL, "endpoints H", "open a outside udp lb:80 = H kept", "a fragments" } },
	{ "fragments, endpoint in another host's network", { "endpoints N", "open a pod udp vip:80 = N kept", "a fragments", "open b outside udp lb:80 = N masq", "b fragments" } },
	{ "fragments, another container network", { "endpoints R", "open a forwarded udp vip:80 = R masq", "a fragments" } },
};
/* clang-format on */

const struct flow_section flows_fragments = { "errors and fragments", rows,
					      (int)MK_ARRAY_SIZE(rows) };
