#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_ipv6.sh - a cluster of IPv6 alone: pods, Services, host ports, masquerade and errors over
# an IPv6 underlay, where no node has an IPv4 address. Of group lab6: over an IPv4 underlay.
set -euo pipefail
[[ ${MK_LAB_FAMILY:-4} == 4 ]] || export MK_LAB_UNDERLAY=4
export MK_LAB_FAMILY=6
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

VIP=fd00:10:96::1
EMPTY_VIP=fd00:10:96::2
NODE1=fd00:99::11
NODE2=fd00:99::12
FAR=2001:db8::10 # behind world
VPOD1=fd00:10:244:1::1
VTEP1=fd4d:4b00:12::1
MTU=1430 # of the overlay
[[ ${MK_LAB_UNDERLAY:-6} == 6 ]] || MTU=1450

explain()
{
	local node
	for node in node1 node2; do
		echo "drops of $node:"
		on "$node" "$MK_BIN" drops || true
		tail -n 5 "$(lab_log "$node")" || true
	done
}
lab_log() { echo "/run/mklab-$MK_LAB/nodes/$1/agent.log"; }

ipv6_lab_up()
{
	lab up 2
	CLIENT=$(lab pod node1 client)
	NEAR=$(lab pod node1 near --host-port 8081:8000)
	WEB=$(lab pod node2 web)
	serve6 web 8000
	serve6 near 8000
	serve6 world 8000
	{
		service_yaml web web '"'$VIP'"' "{port: 80, targetPort: 8000, nodePort: 30080}"
		service_yaml empty nobody '"'$EMPTY_VIP'"' "{port: 80}"
	} | apply services
	wait_for 10 asks client "[$VIP]"
}

pods_reach_each_other()
{
	expect_eq "near" "$CLIENT" "$(asks client "[$NEAR]:8000")"
	expect_eq "far" "$CLIENT" "$(asks client "[$WEB]:8000")"
	on client ping -c 1 -W 2 "$WEB"
	on node1 ping -c 1 -W 2 "$WEB"
	expect_eq "host" "$VTEP1" "$(asks node1 "[$WEB]:8000")"
}

# A pod without its permanent neighbour entry asks for its gateway, and gets an answer.
gateway_is_found()
{
	on near ip -6 neigh flush dev eth0
	on near ip -6 neigh del fd00:10:244:1::3fe dev eth0 2>/dev/null || true
	on near ping -c 1 -W 3 "$WEB"
}

services_are_reached()
{
	expect_eq "pod" "$CLIENT" "$(asks client "[$VIP]")"
	expect_eq "host" "$VTEP1" "$(asks node1 "[$VIP]")"
	expect_eq "NodePort of the node" "$VPOD1" "$(asks world "[$NODE1]:30080")"
	expect_eq "NodePort of the endpoint's node" fd00:10:244:2::1 "$(asks world "[$NODE2]:30080")"
	expect_eq "own NodePort" "$NODE1" "$(asks node1 "[$NODE1]:30080")"
	expect_eq "own NodePort at ::1" "$VPOD1" "$(asks node1 "[::1]:30080")"
	expect_eq "host port" fd00:99::200 "$(asks world "[$NODE1]:8081")"
	expect_status 7 asks client "[$EMPTY_VIP]" # refused, by ICMPv6; 28 would be a time-out
	on client ping -c 1 -W 2 "$VIP"
}

outside_is_masqueraded()
{
	expect_eq "source" "$NODE1" "$(asks client "[$FAR]:8000")"
	on client ping -c 1 -W 2 "$FAR"
}

# A datagram too big for the overlay: the sender learns the overlay's MTU.
mtu_is_learnt()
{
	on client ping -c 1 -W 2 -M "do" -s $((MTU - 48)) "$WEB"
	expect_match "answer" "[Mm]essage too long|Packet too big" "$(on client ping -c 1 -W 2 -M "do" -s $MTU "$WEB" 2>&1 || true)"
}

# Fragments of a datagram follow their first fragment's translation.
fragments_arrive()
{
	on client ping -c 2 -i 0.2 -W 2 -s 4000 "$WEB"
	on client ping -c 2 -i 0.2 -W 2 -s 4000 "$FAR"
}

# Pods and Services work without the agent, and a new agent finds everything in place.
agent_restarts()
{
	lab agent kill node1
	expect_eq "Service" "$CLIENT" "$(asks client "[$VIP]")"
	LATE=$(lab pod node1 late)
	expect_eq "new pod" "$LATE" "$(asks late "[$VIP]")"
	lab agent start node1
	expect_eq "Service" "$LATE" "$(asks late "[$VIP]")"
	lab rm late
}

# The kernel makes temporary addresses for a prefix, and removes them with it. They are no source of
# masqueraded packets (rule X4), so the programs stay.
temporary_addresses()
{
	local before number
	before=$(uplink_programs)
	expect_match "programs" 'id [0-9]' "$before"
	on node1 sysctl -qw net.ipv6.conf.eth0.use_tempaddr=2
	for number in {1..10}; do
		on node1 ip addr add "fd00:98:0:$number::1/64" dev eth0 nodad mngtmpaddr
		wait_for 5 has_temporary "$number"
		asked_as "$NODE1" client "[$FAR]:8000"
		on node1 ip addr del "fd00:98:0:$number::1/64" dev eth0
	done
	wait_for 5 expect_failure has_temporary 10
	expect_eq "programs of the uplink" "$before" "$(uplink_programs)"
	asked_as "$NODE1" client "[$FAR]:8000"
}
uplink_programs() { on node1 tc filter show dev eth0 ingress | grep -o ' id [0-9]*'; }
has_temporary() { on node1 ip -6 -o addr show dev eth0 temporary | grep "fd00:98:0:$1:"; }

# carry SOURCE NODE_ADDRESS: world sends an overlay packet to node1, with a pod of node2 inside
carry()
{
	on world "$HERE/forge.py" "$2" 4789 --kind vxlan --source "$1" --dest-mac "$(on node1 cat /sys/class/net/eth0/address)" \
		--inner-mac "$(on node1 cat /sys/class/net/mkvxlan/address)" --inner-source "$WEB" --inner-dest "$NEAR" --inner-port 5353
}

# The carriers' family is the underlay's, not the pods'.
strangers_are_dropped()
{
	local count
	count=$(drop_count node1 OVERLAY_STRANGER)
	if [[ ${MK_LAB_UNDERLAY:-6} == 4 ]]; then
		carry 192.168.99.200 192.168.99.11
	else
		carry fd00:99::200 "$NODE1"
	fi
	wait_for 5 counted node1 OVERLAY_STRANGER $((count + 1))
	asks client "[$WEB]:8000"
}
counted() { (($(drop_count "$1" "$2") >= $3)); }

no_ipv4_address()
{
	[[ ${MK_LAB_UNDERLAY:-6} == 4 ]] || expect_eq "node1" "" "$(on node1 ip -4 -o addr show scope global)"
	expect_eq "pod" "" "$(on client ip -4 -o addr show dev eth0)"
	expect_eq "pod's link-local" "" "$(on client ip -6 -o addr show scope link)"
}

ipv6_lab_up
check "pods of one node and of two, and the host" pods_reach_each_other
check "a pod that lost its neighbour entry finds the gateway" gateway_is_found
check "ClusterIP, NodePort, host port, no endpoint" services_are_reached
check "packets to outside have the node's source" outside_is_masqueraded
check "the overlay's MTU is learnt" mtu_is_learnt
check "fragments" fragments_arrive
check "without the agent, and with a new one" agent_restarts
check "ten temporary addresses of the uplink come and go: no program is loaded" temporary_addresses
check "overlay packets of a stranger are dropped, whichever family they have" strangers_are_dropped
check "no IPv4 address, no link-local address in pods" no_ipv4_address
finish
