#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_policy_host.sh - NetworkPolicies against nodes, the host's network and clients outside, with
# real sockets: which address counts as the peer. Numbers are the rules of test/policy/README.md.
#
#   node1: web-1 client-1 out-1      node2: web-2 client-2 stranger-2      node3: client-3
# web-1 lets node3 and FAR in, and pods with the label app=client. node1 has a second uplink, eth1.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/services.sh
. "$HERE/lib/services.sh"

number one 1
number one-local 2
ADDR[second]=$(in_family 192.168.98.11)   # of node1, its second InternalIP
ADDR[world-2]=$(in_family 192.168.98.200) # on the second network
ADDR[other]=$(in_family 172.30.0.2)       # a container that node1 forwards for
ADDR[local]=$LOCALHOST

objects()
{
	service one LoadBalancer
	service one-local LoadBalancer 'externalTrafficPolicy: Local'
	endpoints one web-1
	endpoints one-local web-1
}

policy() { printf -- '---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: %s, namespace: default}\nspec: %s\n' "$@"; }
host_of() { echo "{ipBlock: {cidr: ${ADDR[$1]}/$BITS}}"; }

policies()
{
	policy web-in "{podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress],
  ingress: [{from: [$(host_of node3), $(host_of far), {podSelector: {matchLabels: {app: client}}}]}]}"
	policy out "{podSelector: {matchLabels: {app: out}}, policyTypes: [Egress],
  egress: [{to: [$(host_of node1), $(host_of node2)]}]}"
	policy ranges "{podSelector: {matchLabels: {app: by-range}}, policyTypes: [Ingress],
  ingress: [{from: [{ipBlock: {cidr: 10.244.0.0/16}}]}]}"
	policy no-host "{podSelector: {matchLabels: {app: client, host: \"yes\"}}, policyTypes: [Ingress, Egress]}"
}

# Pods in the hosts' networks: node1's may be selected, node2's has the label of a peer (21).
host_pods()
{
	local node
	for node in node1 node2; do
		cat <<-END
			---
			apiVersion: v1
			kind: Pod
			metadata: {name: host-$node, namespace: default, uid: host-$node, labels: {app: client, host: "yes"}}
			spec: {nodeName: $node, hostNetwork: true, containers: [{name: main}]}
			status: {phase: Running, podIP: ${ADDR[$node]}, podIPs: [{ip: ${ADDR[$node]}}]}
		END
	done
}

OWN=(
	"the own node, its overlay address (19)|node1|tcp udp|at web-1|web-1|vtep1"
	"the own node, bound to its address (19)|node1@node1|tcp udp|at web-1|web-1|node1"
	"the own node, bound to the address of its second uplink (19)|node1@second|tcp udp|at web-1|web-1|second"
	"the own node by a Service (19)|node1|tcp|vip one|web-1|vtep1"
	"the own node by its NodePort (19)|node1|tcp udp|node1 one|web-1|.*"
	"the own node by its NodePort, policy Local (19)|node1|tcp|node1 one-local|web-1|.*"
	"the own node by a load balancer's address (19)|node1|tcp|lb1 one|web-1|.*"
	"the own node by a host port (19)|node1|tcp udp|host node1|port-1|.*"
	"egress to the own node, its InternalIP (20)|out-1|tcp udp|at node1|node1|out-1"
	"egress to the own node, its overlay address counts as it (15)|out-1|tcp udp|at vtep1|node1|out-1"
	"egress to the own node by its second uplink's address, no rule (20)|out-1|tcp udp|at second|silent|node1 POLICY_EGRESS"
	"egress of a pod without policy to the second address (2)|client-1|tcp|at second|node1|client-1"
)
OTHERS=(
	"another node (19)|node2|tcp udp|at web-1|silent|node1 POLICY_INGRESS"
	"another node, bound to its address (15)|node2@node2|tcp|at web-1|silent|node1 POLICY_INGRESS"
	"a node that a block names: its overlay address counts as it (15)|node3|tcp udp|at web-1|web-1|vtep3"
	"a node that a block names, bound to its address (15)|node3@node3|tcp|at web-1|web-1|node3"
	"a node that a block names, by a Service (15)|node3|tcp|vip one|web-1|vtep3"
	"another node by a Service (15)|node2|tcp|vip one|silent|node1 POLICY_INGRESS"
	"another node by its own NodePort (15)|node2|tcp|node2 one|silent|node1 POLICY_INGRESS"
	"a node that a block names, by its own NodePort (15)|node3|tcp|node3 one|web-1|.*"
	"another node by the NodePort of the endpoint's node (14)|node2|tcp udp|node1 one|silent|node1 POLICY_INGRESS"
	"egress to another node that a block names (20)|out-1|tcp udp|at node2|node2|node1"
	"egress to another node's overlay address (15)|out-1|tcp udp|at vtep2|node2|.*"
	"egress to another node without rule (20)|out-1|tcp udp|at node3|silent|node1 POLICY_EGRESS"
	"a host-network pod's label makes no peer of its node (21)|node2|tcp|at web-1|silent|node1 POLICY_INGRESS"
	"a host-network pod is no subject: out (21)|node2|tcp|at world|world|node2"
	"a host-network pod is no subject: in (21)|world|tcp|at node2|node2|world"
)
OUTSIDE=(
	"NodePort, endpoint there, a client of the block (14)|world@far|tcp udp|node1 one|web-1|vpod1"
	"NodePort, endpoint there, another client (14)|world|tcp udp|node1 one|silent|node1 POLICY_INGRESS"
	"NodePort of a node that no rule names, a client of the block (14)|world@far|tcp udp|node2 one|silent|node1 POLICY_INGRESS"
	"NodePort of a node that a rule names, another client (14)|world|tcp udp|node3 one|web-1|vpod3"
	"policy Local, a client of the block (14)|world@far|tcp udp|node1 one-local|web-1|far"
	"policy Local, another client (14)|world|tcp udp|node1 one-local|silent|node1 POLICY_INGRESS"
	"load balancer, a client of the block (14)|world@far|tcp|lb1 one|web-1|.*"
	"load balancer, another client (14)|world|tcp|lb1 one|silent|node1 POLICY_INGRESS"
	"load balancer by a node that a rule names, another client (14)|world|tcp udp|lb3 one|web-1|vpod3"
	"external address, policy Local, a client of the block (14)|world@far|tcp|ext1 one-local|web-1|far"
	"external address, policy Local, another client (14)|world|tcp udp|ext1 one-local|silent|node1 POLICY_INGRESS"
	"NodePort by the second uplink, another client (14)|world@world-2|tcp|second one|silent|node1 POLICY_INGRESS"
	"NodePort by the second uplink, a client of the block (14)|world@far|tcp|second one|web-1|.*"
	"host port, a client of the block (14)|world@far|tcp udp|host node1|port-1|far"
	"host port, another client (14)|world|tcp udp|host node1|silent|node1 POLICY_INGRESS"
	"host port, a node that a rule names (14)|node3|tcp udp|host node1|port-1|node3"
	"host port, another node (14)|node2|tcp|host node1|silent|node1 POLICY_INGRESS"
	"host port, a pod that a selector names|client-1|tcp udp|host node1|port-1|client-1"
	"host port, a pod itself (22)|port-1|tcp udp|host node1|port-1|vpod1"
	"NodePort, a pod of the endpoint's node that a selector names|client-1|tcp udp|node1 one|web-1|vpod1"
	"NodePort, a pod of another node appears as its node (14)|client-2|tcp udp|node2 one|silent|node1 POLICY_INGRESS"
	"a Service, a pod of another node (14)|client-2|tcp|vip one|web-1|client-2"
	"an address that no Pod object has: no selector matches (17)|stranger-2|tcp udp|at web-1|silent|node1 POLICY_INGRESS"
	"an address that no Pod object has: a block matches (17)|stranger-2|tcp udp|at by-range-1|by-range-1|stranger-2"
)

# Packets that the host forwards for another network's container come from no socket of the host (19).
other_network_up()
{
	command ip netns add "$MK_LAB.other"
	ip link add eth0 netns "$MK_LAB.other" type veth peer name other0 netns "$MK_LAB.node1"
	forward_in node1
	on node1 sh -e -c "echo $(by_family 1 0) >/proc/sys/net/ipv6/conf/other0/disable_ipv6
		ip link set other0 up; ip addr add 172.30.0.1/24 dev other0 $NODAD"
	ip netns exec "$MK_LAB.other" sh -e -c "echo $(by_family 1 0) >/proc/sys/net/ipv6/conf/eth0/disable_ipv6"
	ip -n "$MK_LAB.other" link set eth0 up
	ip -n "$MK_LAB.other" addr add "172.30.0.2/24" dev eth0 ${NODAD:+nodad}
	ip -n "$MK_LAB.other" route add default via 172.30.0.1
}
other_asks() { ip netns exec "$MK_LAB.other" "$HERE/echo.py" ask tcp "$(where "at $1" tcp)" --timeout 0.5; }
forwarded()
{
	local before
	other_asks client-1
	before=$(drop_count node1 POLICY_INGRESS)
	expect_eq "the other container from web-1" timeout "$(other_asks web-1 || true)"
	(($(drop_count node1 POLICY_INGRESS) > before))
}

# Rule 18: with masqueradeAll a pod of another node is its node, for which no rule is. It is said once.
masquerade_all()
{
	local start
	answered client-2 tcp "$(where "vip one" tcp)" web-1 client-2
	start=$(lab log node2 | wc -c)
	lab agent stop node2
	MK_AGENT_FLAGS='--masquerade-all true' lab agent start node2
	wait_for 10 silent client-2 tcp "$(where "vip one" tcp)" "node1 POLICY_INGRESS"
	answered client-2 tcp "$(where "at web-1" tcp)" web-1 client-2
	expect_eq "lines about masqueradeAll" 1 "$(lab log node2 | tail -c "+$start" | grep -c 'masqueradeAll.*polic' || true)"
	lab agent stop node2
	lab agent start node2
}

# A second network of node1 and world; node1 has two InternalIPs.
second_network_up()
{
	ip link add eth1 netns "$MK_LAB.node1" type veth peer name node1-2 netns "$MK_LAB.world"
	cable_end world node1-2 "${ADDR[world-2]}"
	cable_end node1 eth1 "${ADDR[second]}"
	ip -n "$MK_LAB.node1" route replace "${ADDR[far]}" via "${ADDR[world]}"
	node_object | apply node-node1
}
cable_end()
{
	on "$1" sh -e -c "echo $(by_family 1 0) >/proc/sys/net/ipv6/conf/$2/disable_ipv6; ip link set $2 up
		ip addr replace $3/$NET_BITS dev $2 $NODAD"
}
node_object()
{
	cat <<-END
		apiVersion: v1
		kind: Node
		metadata: {name: node1}
		spec: {podCIDR: 10.244.1.0/24, podCIDRs: [10.244.1.0/24]}
		status:
		  addresses: [{type: InternalIP, address: $NODE1}, {type: InternalIP, address: ${ADDR[second]}}]
	END
}

# An address in use that no Pod object has
hide_pod()
{
	mv "/run/mklab-$MK_LAB/pods/$1.json" "$TMP/"
	echo '{apiVersion: v1, kind: Namespace, metadata: {name: hidden}}' | apply hidden
	cp "$TMP/$1.json" "/run/mklab-$MK_LAB/pods/" # `on` finds it; the objects follow the next change
}

in_force() { lab log "$1" | grep "policies in force"; }

NET_BITS=$(by_family 24 64)
WITH_PODS=yes services_lab_up
second_network_up
other_network_up
pod_up node1 out-1
pod_up node1 by-range-1
pod_up node1 port-1 --label app=web --host-port 8088:8080 --host-port 8088:5353/udp
for pod in client-1 by-range-1 port-1; do
	serve "$pod" "$pod" --tcp 8080 --udp 5353
done
serve node3 node3 --tcp 8080 --udp 5353
serve world world --tcp 8080 --udp 5353
objects | apply services
host_pods | apply host-pods
policies | apply policies
pod_up node2 stranger-2
hide_pod stranger-2
wait_for 20 flow client-1 udp "vip one" web-1 client-1
for node in "${NODES[@]}"; do
	wait_for 20 in_force "$node"
done
wait_for 20 silent stranger-2 tcp "$(where "at web-1" tcp)" "node1 POLICY_INGRESS"
wait_for 20 flow world@far tcp "second one" web-1 '.*'

check_flows "${OWN[@]}" "${OTHERS[@]}" "${OUTSIDE[@]}"
check "what the host forwards for others is no socket of it (19)" forwarded
check "masqueradeAll: a pod of another node appears as its node (18)" masquerade_all
finish
