// SPDX-License-Identifier: Apache-2.0
#include "monokube/abi.h"
#include "base/cleanup.h"
#include "cli/trace.h"

static const char *const remedies[MK_DROP_COUNT] = {
	[MK_DROP_TRUNCATED] = "the sender or an offload on the way makes broken packets: "
			      "`ethtool -K DEVICE tx off` tells",
	[MK_DROP_BAD_HEADER] = "the sender makes broken packets: look with tcpdump where it sends",
	[MK_DROP_NOT_IPV4] = "only IPv4 is forwarded; a few of these are normal (IPv6 of pods)",
	[MK_DROP_SPOOFED_ADDRESS] = "a pod may send from its own address alone: does it bridge, or "
				    "forward for others?",
	[MK_DROP_SPOOFED_MAC] = "a pod may send from its own MAC address alone: does it bridge?",
	[MK_DROP_CHAIN_BROKEN] =
		"restart the agent, which loads the programs again, and report this",
	[MK_DROP_NO_BACKEND] =
		"report this (monokube bugreport); a restart of the agent repairs it",
	[MK_DROP_NO_LOCAL_BACKEND] = "its traffic policy is Local: ask a node that has a ready "
				     "endpoint, or use policy Cluster",
	[MK_DROP_SESSION_TABLE_FULL] = "`monokube sessions --limit 20` shows whose they are",
	[MK_DROP_NAT_PORTS_EXHAUSTED] = "widen natPortRange, or have clients reuse connections",
	[MK_DROP_NO_POD] = "the pod is gone, or its address is written down somewhere: "
			   "`monokube pods`",
	[MK_DROP_NO_ROUTE] = "no Node has that range: `monokube nodes`, `kubectl get nodes`; of a "
			     "Service range: there is no such Service",
	[MK_DROP_NOT_UNICAST] = "the overlay carries unicast alone; harmless as a rule",
	[MK_DROP_TTL_EXPIRED] = "normal for traceroute; else two devices send it back and forth",
	[MK_DROP_TOO_BIG] = "normal while a sender learns the MTU of the path; if it goes on, it "
			    "ignores ICMP: lower its MTU, or `mtu`",
	[MK_DROP_FRAGMENT_UNKNOWN] =
		"the first fragment came later, and there were too many to let this one wait",
	[MK_DROP_PROTOCOL] =
		"TCP, UDP, SCTP, ping and ICMP timestamps can be translated, others reach pods "
		"alone",
	[MK_DROP_REWRITE_FAILED] = "the kernel had no memory, or report this (monokube bugreport)",
	[MK_DROP_REFUSED] = "no ready endpoint, or no such port: `monokube services`, `kubectl get "
			    "endpointslices`",
	[MK_DROP_OVERLAY_STRAY] = "the other node's tables are old: is its agent running?",
	[MK_DROP_SOURCE_RANGE] = "add the client to the Service's loadBalancerSourceRanges",
	[MK_DROP_OVERLAY_FORGED] = "only nodes speak VXLAN here: who sends that is wrong, or worse",
	[MK_DROP_SOURCE_ROUTE] = "the sender sets IP source routing: let it not",
	[MK_DROP_OVERLAY_STRANGER] =
		"`monokube nodes` tells who may send that. Of a node: its packets have to come "
		"from "
		"an address of its Node object, so no NAT between nodes; else somebody forges them",
	[MK_DROP_ERROR_LIMIT] = "somebody floods addresses or ports that nothing serves: the other "
				"reasons of the same hook say which",
	[MK_DROP_MARTIAN_SOURCE] = "somebody on the uplink's network forges source addresses, or "
				   "clusterCidr or vtepCidr is also the range of a real network",
	[MK_DROP_HOST_ROUTE] = "`ip route get ADDRESS from SOURCE iif mkhost0` shows which route: "
			       "give the host one, if pods are to reach that",
	[MK_DROP_NO_UPLINK] = "`ip route get ADDRESS` names the device: name it in uplinkIfaceName "
			      "where that is set; routes with encapsulation are not supported",
	[MK_DROP_FORGED_ERROR] = "a pod makes up ICMP errors: look at what it runs",
};

const char *mk_cli_remedy(unsigned int reason)
{
	return reason < MK_DROP_COUNT && remedies[reason] ? remedies[reason] : "";
}
