// SPDX-License-Identifier: Apache-2.0
/* The remedy of each drop reason. */
#include "monokube/abi.h"
#include "cli/inspect/view.h"

static const char *const remedies[MK_DROP_COUNT] = {
	[MK_DROP_TRUNCATED] =
		"the sender or an offload on the way sends broken packets: try `ethtool -K DEVICE tx off`",
	[MK_DROP_BAD_HEADER] = "the sender sends broken packets: run tcpdump there",
	[MK_DROP_NOT_IPV4] =
		"only packets of the families of clusterCidr are forwarded; a few others are normal, such as IPv6 of pods with IPv4",
	[MK_DROP_SPOOFED_ADDRESS] =
		"a pod may send only from its own address: does it bridge, or forward for others?",
	[MK_DROP_SPOOFED_MAC] = "a pod may send only from its own MAC address: does it bridge?",
	[MK_DROP_CHAIN_BROKEN] =
		"restart the agent, which loads the programs again, and report this",
	[MK_DROP_NO_BACKEND] =
		"report this (monokube bugreport); a restart of the agent repairs it",
	[MK_DROP_NO_LOCAL_BACKEND] =
		"its traffic policy is Local: ask a node that has a ready endpoint, or use policy Cluster",
	[MK_DROP_SESSION_TABLE_FULL] =
		"`monokube sessions --limit 20` shows which clients have sessions",
	[MK_DROP_NAT_PORTS_EXHAUSTED] = "widen natPortRange, or have clients reuse connections",
	[MK_DROP_NO_POD] =
		"the pod is gone, or a client uses a fixed address: compare `monokube pods`",
	[MK_DROP_NO_ROUTE] =
		"no Node has that range: compare `monokube nodes` and `kubectl get nodes`; in a Service range: there is no such Service",
	[MK_DROP_NOT_UNICAST] = "the overlay carries only unicast; usually harmless",
	[MK_DROP_TTL_EXPIRED] = "normal for traceroute; otherwise there is a routing loop",
	[MK_DROP_TOO_BIG] =
		"normal while a sender learns the MTU of the path; if it goes on, the sender ignores ICMP: lower its MTU, or `mtu`",
	[MK_DROP_FRAGMENT_UNKNOWN] =
		"the first fragment came later, and too many fragments were waiting already",
	[MK_DROP_PROTOCOL] =
		"only TCP, UDP, SCTP, ping and ICMP timestamps can be translated; other protocols reach only pods",
	[MK_DROP_REWRITE_FAILED] =
		"the kernel had no memory; otherwise report this (monokube bugreport)",
	[MK_DROP_REFUSED] =
		"no ready endpoint, or no such port: `monokube services`, `kubectl get endpointslices`",
	[MK_DROP_OVERLAY_STRAY] = "the other node's tables are old: is its agent running?",
	[MK_DROP_SOURCE_RANGE] = "add the client to the Service's loadBalancerSourceRanges",
	[MK_DROP_OVERLAY_FORGED] =
		"only nodes may send VXLAN: the sender is misconfigured, or an attacker",
	[MK_DROP_SOURCE_ROUTE] = "the sender sets IP source routing: switch that off there",
	[MK_DROP_OVERLAY_STRANGER] =
		"`monokube nodes` lists who may send that. A node's packets must come from an address of its Node object: no NAT between nodes. Otherwise they are forged",
	[MK_DROP_ERROR_LIMIT] =
		"a sender floods addresses or ports that nothing serves: see the other reasons of the same hook",
	[MK_DROP_MARTIAN_SOURCE] =
		"a host on the uplink's network forges source addresses, or clusterCidr or vtepCidr is also the range of a real network",
	[MK_DROP_HOST_ROUTE] =
		"`ip route get ADDRESS from SOURCE iif mkhost0` shows the host's answer: add a route if pods are to reach the address",
	[MK_DROP_NO_UPLINK] =
		"`ip route get ADDRESS` names the device: add it to uplinkIfaceName if that is set, and give it an address of the family; routes with encapsulation are not supported",
	[MK_DROP_EXTENSION_HEADER] =
		"the sender adds more IPv6 extension headers than any program needs: check what it runs",
	[MK_DROP_NEIGHBOUR_DISCOVERY] =
		"normal: pods need no neighbour discovery except for their gateway, which is answered",
	[MK_DROP_POLICY_INGRESS] =
		"`monokube policy FROM TO PORT` names the policies, and the rule that comes nearest",
	[MK_DROP_POLICY_EGRESS] =
		"`monokube policy FROM TO PORT` names the policies, and the rule that comes nearest",
	[MK_DROP_POLICY_PENDING] =
		"the pod started while no agent ran, or the API does not show it yet: is the agent ready? (`monokube status`)",
	[MK_DROP_POLICY_NO_FLOW] =
		"the connection is older than its session: the client has to connect again; otherwise packets are forged",
	[MK_DROP_SFC_NO_CHAIN] =
		"normal for a function pod whose chain does not exist: its ports lead nowhere",
	[MK_DROP_SFC_UNAVAILABLE] =
		"`monokube chains` names the function without a ready replica: are its pods ready, and on this node? whenUnavailable: Skip lets traffic pass by it",
	[MK_DROP_SFC_FORGED] =
		"a function may send only packets of flows that it was given, and from its own pod's address: does it change other addresses or ports?",
	[MK_DROP_SFC_REFLECTED] =
		"the function sends packets back on the side from which they came: does it reject, or mirror?",
	[MK_DROP_SFC_PATHS_FULL] =
		"too many combinations of replicas are in use: fewer replicas, or functions, of one chain",
	[MK_DROP_SFC_AMBIGUOUS] =
		"replicas of an end have the same address: give each its own range of source ports (net.ipv4.ip_local_port_range), and no fixed ones",
	[MK_DROP_PEER_UNKNOWN] =
		"`monokube peers` lists the known clusters: is the ClusterPeer there, and does its podCidr have the address?",
	[MK_DROP_PEER_NO_NODE] =
		"`monokube peers` shows the peer's nodes: apply its PublishedNodes, or name the peer by which it is reached (via); is interface mkpeer up, and a node with the border label in the overlay?",
	[MK_DROP_PEER_VERSION] = "the other cluster runs a newer monokube: update this one",
	[MK_DROP_PEER_SOURCE] =
		"only pods reach other clusters: hosts cannot. From another cluster: does its PublishedCluster have the right podCidr?",
	[MK_DROP_PEER_TRANSIT] =
		"both ClusterPeers need relay: true on the hub, and the far cluster a PublishedCluster there",
	[MK_DROP_PEER_DENIED] =
		"the ClusterPeer's access is None, or the destination is no pod: set access: Pods to let the peer open connections",
	[MK_DROP_PEER_CLEAR] =
		"mkwg is missing, or an FDB entry of mkwgpeer is not the agent's: the agent repairs both within seconds, if it runs (`monokube status`)",
	[MK_DROP_OVERLAY_CLEAR] =
		"a node has no WireGuard key, or sends without encryption: `monokube check` names it; set wireguardPort and encryption there, and load its module 'wireguard'",
	[MK_DROP_DIRECT_FORGED] =
		"the host with the source MAC address is no node, or `ip neigh` has another address for the node: `monokube check` tells; set routing: Overlay if the network changes MAC addresses",
	[MK_DROP_CHECKSUM_PLACE] =
		"the pod sends raw frames with a false csum_start or csum_offset (PACKET_VNET_HDR): an attacker, or a broken virtual machine",
	[MK_DROP_SYN_FLOOD] =
		"a flood from outside, or more new clients than synRate: real ones connect at their second SYN; find the sender in front of the uplink, or raise synRate",
	[MK_DROP_FORGED_ERROR] =
		"ICMP errors are forged: check what the pod runs, or who can reach the uplink; if a network between nodes of IPv6 has a smaller MTU than their uplinks, set mtu to that MTU less 70",
};

const char *mk_drop_remedy(unsigned int reason)
{
	return reason < MK_DROP_COUNT && remedies[reason] ? remedies[reason] : "";
}
