#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_uplinks.sh - a node with two uplinks, and node addresses that change: node1 has eth1 on
# a second network, 192.168.98.0/24, which world is also on.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"

SECOND=$(in_family 192.168.98.11)	# of node1
WORLD_2=$(in_family 192.168.98.200)
FAR_2=$(in_family 203.0.113.20)	# behind world, by the second network
NET_BITS=$(by_family 24 64)
declare -A PIPES=()

explain() { lab log node1 | tail -n 15; echo "drops of node1:"; on node1 "$MK_BIN" drops || true; }

# node_object ADDRESS...: of node1, with these InternalIPs
node_object()
{
	local address
	cat <<-END
		apiVersion: v1
		kind: Node
		metadata: {name: node1}
		spec: {podCIDR: 10.244.1.0/24, podCIDRs: [10.244.1.0/24]}
		status:
		  addresses:
		  - {type: Hostname, address: node1}
	END
	for address in "$@"; do
		echo "  - {type: InternalIP, address: $address}"
	done
}
node_addresses() { node_object "$@" | apply node-node1; }

services()
{
	local name policy port proto target
	while read -r name policy port proto target; do
		service_yaml "$name" web "10.96.87.$((port - 30000))" \
			"{port: $port, targetPort: $target, nodePort: $port, protocol: $proto}" "externalTrafficPolicy: $policy"
	done <<-END
		cluster-tcp Cluster 30001 TCP 8080
		local-tcp Local 30002 TCP 8080
		local-udp Local 30003 UDP 5353
	END
	cat <<-END
		---
		apiVersion: v1
		kind: Service
		metadata: {name: host}
		spec:
		  type: NodePort
		  externalTrafficPolicy: Local
		  clusterIP: 10.96.87.4
		  ports: [{port: 30004, targetPort: 2222, nodePort: 30004}]
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: host-1, labels: {kubernetes.io/service-name: host}}
		addressType: IPv4
		ports: [{name: "", port: 2222}]
		endpoints: [{addresses: [$NODE1], nodeName: node1, conditions: {ready: true}}]
	END
}

# cable_end WHERE DEVICE ADDRESS
cable_end()
{
	on "$1" sh -e -c "echo $(by_family 1 0) >/proc/sys/net/ipv6/conf/$2/disable_ipv6; ip link set $2 up
		ip addr replace $3/$NET_BITS dev $2 $NODAD"
}
# second_cable ADDRESS: eth1 of node1
second_cable()
{
	ip link add eth1 netns "$MK_LAB.node1" type veth peer name node1-2 netns "$MK_LAB.world"
	cable_end world node1-2 "$WORLD_2"
	second_address eth1 "$1"
}
# second_address DEVICE ADDRESS
second_address()
{
	cable_end node1 "$@"
	on node1 ip route replace "$FAR_2/$BITS" via "$WORLD_2" dev "$1"
}

uplinks_up()
{
	lab up 2
	lab pod node1 web-1 >/dev/null
	lab pod node1 client >/dev/null
	ADDR_2=$(lab pod node2 other --label app=other)
	serve web-1 web-1 --tcp 8080 --udp 5353
	serve other other --tcp 8080
	serve node1 node1 --tcp 2222
	ip -n "$MK_LAB.world" addr add "$FAR_2/$BITS" dev lo
	serve world world --tcp 8080 --udp 5353
	services | apply services
	wait_for 10 ask world tcp "$NODE1:30002"
	hold outside client "$FAR:8080"
	hold inside client "$ADDR_2:8080"
	hold port world "$NODE1:30002"
}

# sees FROM PROTO TO SOURCE: world sees SOURCE as the client's address
sees() { expect_match "what $3 sees of $1 over $2" "^world $4 " "$(ask "$1" "$2" "$3" --timeout 1 || true)"; }
answers() { expect_match "$2 over $1 from world" '^web-1 ' "$(ask world "$1" "$2" --timeout 1 "${@:3}" || true)"; }
no_answer() { expect_failure ask world tcp "$1" --timeout 0.5; }

second_network()
{
	local start
	start=$(log_size)
	second_cable "$SECOND"
	node_addresses "$NODE1" "$SECOND"
	wait_for 10 logged "$start" "uplinks: are now eth0 $NODE1, eth1 $SECOND"
	wait_for 10 logged "$start" "addresses of NodePorts: are now ($SECOND, $NODE1|$NODE1, $SECOND)"
	wait_for 10 answers tcp "$SECOND:30002"
}

by_route()
{
	wait_for 10 sees client tcp "$FAR_2:8080" "$SECOND"
	sees client udp "$FAR_2:5353" "$SECOND"
	sees client tcp "$FAR:8080" "$NODE1"
	sees client udp "$FAR:5353" "$NODE1"
	sees client tcp "$WORLD_2:8080" "$SECOND"
	sees client tcp "$WORLD:8080" "$NODE1"
	on client ping -c 2 -i 0.1 -W 1 "$FAR_2"
	on client ping -c 2 -i 0.1 -W 1 "$FAR"
}

node_ports()
{
	local port
	for port in 30001 30002; do
		answers tcp "$NODE1:$port"
		answers tcp "$SECOND:$port"
	done
	answers udp "$SECOND:30003"
}

# A request comes by one network, and the host's routing sends the answer by the other.
answers_by_route()
{
	answers tcp "$SECOND:30001" --from "$FAR"
	answers udp "$SECOND:30003" --from "$FAR"
	answers tcp "$NODE1:30002" --from "$FAR_2"
}
# path_filter MODE: of all devices of node1
path_filter() { on node1 sh -c "for file in /proc/sys/net/ipv4/conf/*/rp_filter; do echo $1 >\$file; done"; }
check_line() { on node1 "$MK_BIN" check | grep -A 1 " $1 "; }
host_answers() { expect_match "the host's endpoint" "^node1 $2 " "$(ask world tcp "$1:30004" --from "$2" --timeout 1 || true)"; }

# In strict mode it drops packets for the host itself with another way back; none of pods.
strict_filter()
{
	local start
	start=$(log_size)
	path_filter 1
	by_route
	node_ports
	answers_by_route
	own_node_port
	host_answers "$NODE1" "$FAR"
	host_answers "$SECOND" "$FAR_2"
	expect_failure ask world tcp "$SECOND:30004" --from "$FAR" --timeout 0.5
	expect_match "check" 'note +rp_filter +strict \(eth0 1, eth1 1\).* [1-9][0-9]* packets so far' "$(check_line rp_filter)"
	expect_match "remedy" 'sysctl -w net\.ipv4\.conf\.all\.rp_filter=2' "$(check_line rp_filter)"
	with_flags
	wait_for 10 logged "$start" 'rp_filter is strict \(1\) on eth0, one of several uplinks'
	on node1 sh -c 'echo 2 >/proc/sys/net/ipv4/conf/all/rp_filter'
	host_answers "$SECOND" "$FAR"
	expect_match "check" 'ok +rp_filter +not in the way \(eth0 2, eth1 2\)' "$(check_line rp_filter)"
	path_filter 0
}
own_node_port() { expect_match "own NodePort" '^web-1 ' "$(ask node1 tcp "$SECOND:30001" || true)"; }

# A lease ends, and the next one has another address.
second_changes()
{
	local start
	start=$(log_size)
	ip -n "$MK_LAB.node1" addr del "$SECOND/$NET_BITS" dev eth1
	SECOND=$(in_family 192.168.98.21)
	second_address eth1 "$SECOND"
	node_addresses "$NODE1" "$SECOND"
	wait_for 10 logged "$start" "uplinks: are now eth0 $NODE1, eth1 $SECOND"
	wait_for 10 answers tcp "$SECOND:30002"
	wait_for 10 sees client tcp "$FAR_2:8080" "$SECOND"
	pulse 2
}

second_is_renamed()
{
	local start
	start=$(log_size)
	on node1 sh -e -c "ip link set eth1 down; ip link set eth1 name wan0"
	second_address wan0 "$SECOND"
	wait_for 10 logged "$start" "uplinks: are now .*wan0 $SECOND"
	wait_for 10 sees client tcp "$FAR_2:8080" "$SECOND"
	answers tcp "$SECOND:30002"
	on node1 sh -e -c "ip link set wan0 down; ip link set wan0 name eth1"
	second_address eth1 "$SECOND"
}

second_goes_and_comes()
{
	local start
	start=$(log_size)
	ip -n "$MK_LAB.node1" link del eth1
	wait_for 10 logged "$start" "uplinks: are now eth0 $NODE1\$"
	wait_for 10 sees client tcp "$FAR_2:8080" "$NODE1"
	pulse 3
	start=$(log_size)
	second_cable "$SECOND"
	wait_for 10 logged "$start" "uplinks: are now eth0 $NODE1, eth1 $SECOND"
	wait_for 10 sees client tcp "$FAR_2:8080" "$SECOND"
	wait_for 10 answers tcp "$SECOND:30002"
	pulse 4
}

no_programs_on_eth1()
{
	expect_eq "programs on eth1" "" "$(on node1 tc filter show dev eth1 ingress)$(on node1 tc filter show dev eth1 egress)"
}

# No address of the Node, but a default route: this makes it more than a side network.
default_route()
{
	local start
	start=$(log_size)
	node_addresses "$NODE1"
	wait_for 10 logged "$start" "uplinks: are now eth0 $NODE1; side networks: eth1 $SECOND"
	wait_for 10 no_answer "$SECOND:30002"
	sees client tcp "$FAR_2:8080" "$SECOND"
	start=$(log_size)
	on node1 ip route add default via "$WORLD_2" dev eth1 metric 2000
	wait_for 10 logged "$start" "uplinks: are now eth0 $NODE1, eth1 $SECOND"
	wait_for 10 sees client tcp "$FAR_2:8080" "$SECOND"
	start=$(log_size)
	on node1 ip route del default via "$WORLD_2" dev eth1 metric 2000
	wait_for 10 logged "$start" "uplinks: are now eth0 $NODE1; side networks: eth1 $SECOND"
	pulse 5
}

# with_flags FLAGS...: restart node1's agent
with_flags()
{
	lab agent stop node1
	MK_AGENT_FLAGS=$(in_family "$*") lab agent start node1
}

named()
{
	with_flags --uplink-iface-name eth0,eth1
	sees client tcp "$FAR_2:8080" "$SECOND"
	with_flags --uplink-iface-name eth0
	sees client tcp "$FAR:8080" "$NODE1"
	no_programs_on_eth1
	expect_failure ask client tcp "$FAR_2:8080" --timeout 0.5
	(($(drop_count node1 NO_UPLINK) > 0)) || expect_eq "drops NO_UPLINK" "some" 0
	pulse 6
}

node_port_addresses()
{
	with_flags --uplink-iface-name eth0,eth1 --node-port-addresses 192.168.98.0/24,10.0.0.0/8
	wait_for 10 answers tcp "$SECOND:30001"
	no_answer "$NODE1:30001"
	with_flags
	wait_for 10 answers tcp "$NODE1:30001"
}

# The overlay's own address: the other node follows the Node object, and connections go on.
first_changes()
{
	local start
	start=$(log_size)
	on node1 sh -e -c "ip addr add 192.168.99.51/24 dev eth0 $NODAD
		ip addr del $NODE1/$NET_BITS dev eth0
		ip addr replace 192.168.99.51/24 dev eth0
		ip route replace default via $WORLD"
	node_addresses 192.168.99.51
	wait_for 10 logged "$start" "uplinks: are now eth0 192.168.99.51"
	wait_for 10 ask client tcp "$ADDR_2:8080" --timeout 0.5
	wait_for 10 answers tcp 192.168.99.51:30002
	wait_for 10 sees client tcp "$FAR:8080" 192.168.99.51
	echo >&"${PIPES[inside]}"
	wait_for 10 holds inside 7
}

uplinks_up
check "an uplink is added, and its address to the Node" second_network
check "masqueraded traffic leaves by the host's routing, with that device's address" by_route
check "NodePorts on both" node_ports
check "their answers leave by the host's routing" answers_by_route
check "the host asks the second address itself" own_node_port
ipv4_only "Linux has no such filter for IPv6" check "strict reverse path filter" strict_filter
check "the second uplink's address changes" second_changes
SECOND=$(in_family 192.168.98.21)
check "the second uplink is renamed" second_is_renamed
check "the second uplink goes and comes back" second_goes_and_comes
check "a default route makes an uplink" default_route
check "uplinks by name" named
check "nodePortAddresses" node_port_addresses
check "the first uplink's address changes" first_changes
finish
