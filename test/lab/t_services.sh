#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_services.sh - every kind of address of a Service, from everywhere, over TCP and UDP:
# which endpoint answers, and which client address it sees. `one` has its only endpoint on node2, so
# that each row is for an endpoint here or elsewhere; `host` is a process of node1, as the API
# server's Service is.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/services.sh
. "$HERE/lib/services.sh"

number one 1
number one-local 2
number one-here 3
number host 4
number host-local 5
number none 6
number none-local 7
number both 8
number sticky 9
number ranged 10

objects()
{
	service one LoadBalancer
	service one-local LoadBalancer 'externalTrafficPolicy: Local'
	service one-here NodePort 'internalTrafficPolicy: Local'
	endpoints one web-2
	endpoints one-local web-2
	endpoints one-here web-2
	service host LoadBalancer
	service host-local LoadBalancer 'externalTrafficPolicy: Local'
	endpoints host node1
	endpoints host-local node1
	service none LoadBalancer
	service none-local LoadBalancer 'externalTrafficPolicy: Local'
	service both LoadBalancer
	endpoints both web-1 web-2
	service sticky LoadBalancer 'sessionAffinity: ClientIP'
	endpoints sticky web-1 web-2
	service ranged LoadBalancer 'loadBalancerSourceRanges: [" 203.0.113.0/24 "]'
	endpoints ranged web-1
}

# name|from|protocols|to|who answers|whom it sees
CLUSTER_IP=(
	"ClusterIP: pod, endpoint on another node|client-1|tcp udp|vip one|web-2|client-1"
	"ClusterIP: pod, endpoint on its node|client-2|tcp udp|vip one|web-2|client-2"
	"ClusterIP: the pod itself|web-2|tcp udp|vip one|web-2|vpod2"
	"ClusterIP: host, endpoint on another node|node1|tcp udp|vip one|web-2|vtep1"
	"ClusterIP: host, endpoint on it|node2|tcp udp|vip one|web-2|vtep2"
	"ClusterIP: host-network process with the node's address|node1@node1|tcp udp|vip one|web-2|node1"
	"ClusterIP: world, masqueraded|world|tcp udp|vip one|web-2|vpod1"
	"ClusterIP: an address behind world, masqueraded|world@far|tcp udp|vip one|web-2|vpod1"
)
NODE_PORT=(
	"NodePort: world, endpoint elsewhere|world|tcp udp|node1 one|web-2|vpod1"
	"NodePort: world, endpoint on the node: masqueraded too|world|tcp udp|node2 one|web-2|vpod2"
	"NodePort: an address behind world|world@far|tcp udp|node3 one|web-2|vpod3"
	"NodePort: pod to its own node|client-1|tcp udp|node1 one|web-2|vpod1"
	"NodePort: pod to another node|client-1|tcp udp|node3 one|web-2|vpod3"
	"NodePort: the pod itself|web-2|tcp udp|node2 one|web-2|vpod2"
	"NodePort: host to its own|node1|tcp udp|node1 one|web-2|node1"
	"NodePort: host to another node|node1|tcp udp|node3 one|web-2|vpod3"
)
VIRTUAL=(
	"load balancer: world, endpoint elsewhere|world|tcp udp|lb1 one|web-2|vpod1"
	"load balancer: world, endpoint on the node: masqueraded too|world|tcp udp|lb2 one|web-2|vpod2"
	"load balancer: pod|client-1|tcp udp|lb1 one|web-2|vpod1"
	"load balancer: host|node1|tcp udp|lb1 one|web-2|vtep1"
	"load balancer: the pod itself|web-2|tcp udp|lb2 one|web-2|vpod2"
	"externalIP: world, endpoint elsewhere|world@far|tcp udp|ext3 one|web-2|vpod3"
	"externalIP: pod|client-2|tcp udp|ext1 one|web-2|vpod2"
	"externalIP: host|node3|tcp udp|ext1 one|web-2|vtep3"
)
# Local: the client's address is kept, no answer without an endpoint; from the cluster any endpoint.
LOCAL=(
	"external policy Local: world to NodePort with endpoint|world|tcp udp|node2 one-local|web-2|world"
	"external policy Local: world to NodePort without|world|tcp udp|node1 one-local|silent|node1 NO_LOCAL_BACKEND"
	"external policy Local: world to load balancer with endpoint|world@far|tcp udp|lb2 one-local|web-2|far"
	"external policy Local: world to load balancer without|world|tcp udp|lb3 one-local|silent|node3 NO_LOCAL_BACKEND"
	"external policy Local: world to externalIP with endpoint|world|tcp udp|ext2 one-local|web-2|world"
	"external policy Local: world to externalIP without|world|tcp udp|ext1 one-local|silent|node1 NO_LOCAL_BACKEND"
	"external policy Local: pod to load balancer, any endpoint, not masqueraded|client-1|tcp udp|lb1 one-local|web-2|client-1"
	"external policy Local: pod to externalIP, any endpoint, not masqueraded|client-3|tcp udp|ext1 one-local|web-2|client-3"
	"external policy Local: pod to its node's port, any endpoint, not masqueraded|client-1|tcp udp|node1 one-local|web-2|client-1"
	"external policy Local: host to load balancer, any endpoint, masqueraded|node1|tcp udp|lb1 one-local|web-2|vtep1"
	"external policy Local: ClusterIP is for everybody|client-3|tcp udp|vip one-local|web-2|client-3"
	"internal policy Local: pod with an endpoint on its node|client-2|tcp udp|vip one-here|web-2|client-2"
	"internal policy Local: pod without|client-1|tcp udp|vip one-here|silent|node1 NO_LOCAL_BACKEND"
	"internal policy Local: host with an endpoint|node2|tcp udp|vip one-here|web-2|vtep2"
	"internal policy Local: host without|node3|tcp udp|vip one-here|silent|node3 NO_LOCAL_BACKEND"
	"internal policy Local: the external path does not ask|world|tcp udp|node1 one-here|web-2|vpod1"
)
HOST=(
	"node's process: pod on it|client-1|tcp udp|vip host|node1|client-1"
	"node's process: pod on another node|client-2|tcp udp|vip host|node1|node2"
	"node's process: itself|node1|tcp udp|vip host|node1|vpod1"
	"node's process: another host|node2|tcp udp|vip host|node1|node2"
	"node's process: world to NodePort|world|tcp udp|node1 host|node1|vpod1"
	"node's process: world to another node's port|world|tcp udp|node2 host|node1|node2"
	"node's process: world to load balancer|world|tcp udp|lb1 host|node1|vpod1"
	"node's process: policy Local, world to NodePort|world|tcp udp|node1 host-local|node1|world"
	"node's process: policy Local, world to load balancer|world@far|tcp udp|lb1 host-local|node1|far"
	"node's process: policy Local, pod on another node|client-3|tcp udp|lb3 host-local|node1|node3"
)
NONE=(
	"no endpoint: pod to ClusterIP|client-1|tcp udp|vip none|refused|"
	"no endpoint: host to ClusterIP|node1|tcp udp|vip none|refused|"
	"no endpoint: world to ClusterIP|world|tcp udp|vip none|refused|"
	"no endpoint: world to NodePort|world|tcp udp|node1 none|refused|"
	"no endpoint: world to load balancer|world|tcp udp|lb1 none|refused|"
	"no endpoint: world to externalIP|world@far|tcp udp|ext2 none|refused|"
	"no endpoint: pod to load balancer|client-2|tcp udp|lb1 none|refused|"
	"no endpoint anywhere, policy Local: refused, not dropped|world|tcp udp|node1 none-local|refused|"
	"unknown port of a ClusterIP: pod|client-1|tcp udp|10.96.1.1:4711|refused|"
	"unknown port of a ClusterIP: host|node2|tcp udp|10.96.1.1:4711|refused|"
	"unknown port of a load-balancer address: pod|client-1|tcp udp|198.51.100.1:4711|refused|"
	"unknown port of a load-balancer address: host|node1|tcp udp|198.51.100.1:4711|refused|"
	"unknown port of a load-balancer address: world|world|tcp udp|198.51.100.1:4711|refused|"
	"unknown port of an externalIP: world|world|tcp udp|198.51.100.95:4711|refused|"
	"port of the endpoint, not of the Service|client-1|tcp|10.96.1.1:8080|refused|"
)

# The ranges apply only to load-balancer addresses, but also to clients in the cluster.
RANGED=(
	"source ranges: a client inside|world@far|tcp udp|lb1 ranged|web-1|vpod1"
	"source ranges: a client outside|world|tcp udp|lb1 ranged|silent|node1 SOURCE_RANGE"
	"source ranges: a pod is a client outside, too|client-2|tcp udp|lb2 ranged|silent|node2 SOURCE_RANGE"
	"source ranges: not asked by the NodePort|world|tcp udp|node3 ranged|web-1|vpod3"
	"source ranges: not asked by the externalIP|world|tcp udp|ext2 ranged|web-1|vpod2"
	"source ranges: not asked by the ClusterIP|client-2|tcp udp|vip ranged|web-1|client-2"
)

# One endpoint for 24 connections by each address: by chance that would be once in 8 million times.
sticks()
{
	local who to
	who=$(answerers "$1" "$2" "$3")
	expect_match "who answers $1 by $3" '^web-[12]$' "$who"
	for to in "${@:4}"; do
		answers "$1" "$2" "$to" "$who"
	done
}

# Every endpoint, from everywhere.
everybody_chooses()
{
	local from to
	for from in client-1 client-3 node1 world; do
		for to in "vip both" "node3 both" "lb2 both" "ext1 both"; do
			answers "$from" "$1" "$to" "web-1 web-2"
		done
	done
}

services_lab_up
objects | apply services
wait_for 10 flow client-3 udp "vip both" 'web-[12]' client-3
wait_for 10 flow world udp "node2 both" 'web-[12]' '.*'
wait_for 10 flow client-1 udp "vip both" 'web-[12]' client-1

check_flows "${CLUSTER_IP[@]}" "${NODE_PORT[@]}" "${VIRTUAL[@]}"
check_flows "${LOCAL[@]}" "${HOST[@]}" "${NONE[@]}" "${RANGED[@]}"
for proto in tcp udp; do
	check "session affinity: a pod, by every address, ${proto^^}" sticks client-1 $proto "vip sticky" "lb1 sticky" "ext1 sticky" "node1 sticky"
	check "session affinity: world, by every address of a node, ${proto^^}" sticks world $proto "node1 sticky" "lb1 sticky" "ext1 sticky"
	check "session affinity: a host, ${proto^^}" sticks node3 $proto "vip sticky"
done
check "every endpoint is chosen, from everywhere, TCP" everybody_chooses tcp
check "every endpoint is chosen, from everywhere, UDP" everybody_chooses udp
finish
