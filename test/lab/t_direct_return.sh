#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_direct_return.sh - setting directServerReturn: a pod of node2 answers clients of all nodes' NodePorts,
# and node2 sends the answers to the client itself. Only the first and the last packets go by the node that was asked.
set -euo pipefail
export MK_LAB_ROUTING=Auto # directServerReturn needs direct packets
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/node_ports.sh
. "$HERE/lib/node_ports.sh"
# shellcheck source=test/lab/lib/narrow.sh
. "$HERE/lib/narrow.sh"

EXTERNAL=$(in_family 192.0.2.1)
KEEP="--client-address Keep"
DIRECT="$KEEP --direct-server-return true"
FLAGS=$KEEP

explain()
{
	explain_nodes
	in_world nft list table netdev seen || true
}

objects()
{
	service_yaml web b 10.96.66.1 "{name: tcp, port: 80, targetPort: 8080, nodePort: 30080},
		{name: udp, port: 80, targetPort: 8080, nodePort: 30080, protocol: UDP},
		{name: closed, port: 90, targetPort: 9090, nodePort: 30090},
		{name: closed-udp, port: 90, targetPort: 9090, nodePort: 30090, protocol: UDP}" "externalIPs: [192.0.2.1]"
	service_yaml sticky b 10.96.66.2 "{name: tcp, port: 80, targetPort: 8080, nodePort: 30081}" "sessionAffinity: ClientIP"
	service_yaml pair pair 10.96.66.3 "{name: udp, port: 80, targetPort: 8080, nodePort: 30082, protocol: UDP}"
}

in_underlay() { command ip netns exec "$MK_LAB.underlay" "$@"; }

is_direct() { expect_eq "peers of $1 on the link" 2 "$(on "$1" curl -sg "$(url "$LOCALHOST" 10249)/metrics" | awk '$1 == "monokube_peers_direct" { print $2 }')"; }

direct_return_up()
{
	local node
	MK_AGENT_FLAGS=$FLAGS lab up 3 --pods
	trap narrow_down EXIT
	lab pod node2 b >/dev/null
	serve b b --tcp 8080 --udp 8080
	for node in 2 3; do
		lab pod "node$node" "pair-$node" --label app=pair >/dev/null
		serve "pair-$node" "pair-$node" --udp 8080
	done
	narrow_up
	objects | apply objects
	ip -n "$MK_LAB.world" route replace "$EXTERNAL/$BITS" via "$NODE1"
	for node in 1 2 3; do
		wait_for 20 ask world tcp "$(with_port "${NODES[node - 1]}" 30080)"
		wait_for 60 is_direct "node$node"
	done
}

# ---- what world receives, by the node that sent it

mac_of() { on "$1" cat /sys/class/net/eth0/address; }
counters_of()
{
	local from
	from="ether saddr $(mac_of "$1")"
	cat <<-END
		$from tcp sport { 80, 30080, 30081 } tcp flags & (syn | fin | rst) == 0 counter name $1_data
		$from tcp sport { 80, 30080, 30081 } tcp flags & (syn | fin | rst) != 0 counter name $1_ends
		$from udp sport { 80, 30080, 30082 } counter name $1_udp
	END
}
watch()
{
	local node kind
	in_world nft delete table netdev seen 2>/dev/null || true
	{
		echo 'table netdev seen {'
		for node in node1 node2 node3; do
			for kind in data ends udp; do
				echo "counter ${node}_$kind { }"
			done
		done
		echo 'chain in { type filter hook ingress device "eth0" priority 0; policy accept;'
		for node in node1 node2 node3; do
			counters_of "$node"
		done
		echo '}'
		echo '}'
	} >"$TMP/seen.nft"
	in_world nft -f "$TMP/seen.nft"
}
seen() { in_world nft -j list counter netdev seen "$1" | jq '.nftables[] | select(.counter).counter.packets'; }
seen_at_least() { (($(seen "$1") >= $2)) || expect_eq "packets of $1" "at least $2" "$(seen "$1")"; }

# ---- rows

by_each_address()
{
	by_each_node
	sees "$WORLD" "$EXTERNAL" 80
}

# straight ADDRESS PORT ASKED: node2 sends what ASKED does not
straight()
{
	watch
	expect_match "answer of TCP" "^b $WORLD " "$(ask world tcp "$(with_port "$1" "$2")" --want 60000)"
	wait_for 10 seen_at_least "$3_ends" 2 # SYN-ACK, FIN
	expect_eq "segments with data of $3" 0 "$(seen "$3_data")"
	expect_eq "SYN-ACK, FIN and RST of node2" 0 "$(seen node2_ends)"
	seen_at_least node2_data 2
	expect_eq "answers of UDP" 6 "$(printf '\n\n\n\n\n' | ask world udp "$(with_port "$1" "$2")" --from "$(udp_source "$WORLD")" --hold | grep -c "^b $WORLD ")"
	expect_eq "datagrams" 6 "$(($(seen "$3_udp") + $(seen node2_udp)))"
	seen_at_least "$3_udp" 1
	seen_at_least node2_udp 4
}
all_straight()
{
	straight "$NODE1" 30080 node1
	straight "$NODE3" 30080 node3
	straight "$EXTERNAL" 80 node1
}

# by_asked PORT: the old way
by_asked()
{
	watch
	expect_match "answer" "^b $WORLD " "$(ask world tcp "$(with_port "$NODE1" "$1")" --want 60000)"
	seen_at_least node1_data 2
	expect_eq "segments of node2" 0 "$(($(seen node2_data) + $(seen node2_ends)))"
}

large()
{
	watch
	expect_match "20 MB each way" "^b $WORLD " "$(ask world tcp "$(with_port "$NODE1" 30080)" --size 20000000 --want 20000000 --timeout 60)"
	expect_eq "segments with data of node1" 0 "$(seen node1_data)"
	seen_at_least node2_data 100
}

# Between the nodes as well no packet is in VXLAN, once each has seen the other's MAC address.
in_vxlan() { on "$1" cat /sys/class/net/mkvxlan/statistics/tx_packets; }
asks_without_vxlan()
{
	local before at
	before=$(($(in_vxlan node1) + $(in_vxlan node2) + $(in_vxlan node3)))
	for at in "${NODES[@]}"; do
		ask world tcp "$(with_port "$at" 30080)" --want 60000 >/dev/null
		ask world udp "$(with_port "$at" 30080)" >/dev/null
	done
	ask world tcp "$(with_port "$EXTERNAL" 80)" --want 60000 >/dev/null
	expect_eq "packets in VXLAN" 0 $(($(in_vxlan node1) + $(in_vxlan node2) + $(in_vxlan node3) - before))
}
without_vxlan() { wait_for 60 asks_without_vxlan; }

# A switch that drops VTEP MAC addresses of node2, as networks with port security do.
checks_say() { expect_match "monokube check" "$1" "$(on node1 "$MK_BIN" check || true)"; }
drops_macs()
{
	local not_shown="note +direct +requests of clients outside go to node 'node2' in VXLAN"
	expect_failure checks_say "$not_shown"
	in_underlay nft "add table bridge security; add chain bridge security in { type filter hook prerouting priority 0; }"
	in_underlay nft "add rule bridge security in iifname node2 ether saddr & ff:ff:00:00:00:00 == 02:4d:00:00:00:00 drop"
	wait_for 60 checks_say "$not_shown"
	wait_for 30 by_each_address # node2 learns a probe later that node1 gets none of its frames
	by_each_address
	all_straight
	in_underlay nft delete table bridge security
	without_vxlan
	expect_failure checks_say "$not_shown"
}

# The router's ICMP errors go to node1, whose address the answers have.
narrow_link()
{
	local errors
	watch
	errors=$(too_big)
	expect_match "20 MB" "^b $NARROW " "$(in_narrow "$HERE/echo.py" ask tcp "$(with_port "$NODE1" 30080)" --want 20000000 --timeout 60)"
	expect_eq "segments with data of node1" 0 "$(seen node1_data)"
	seen_at_least node2_data 100
	(($(too_big) > errors)) || expect_eq "errors of the router" "more than $errors" "$(too_big)"
}

# One client port by three nodes to one pod: each flow has its answers, and the pod sees the client.
collisions()
{
	local proto
	for proto in tcp udp; do
		for node in 1 2 3; do
			held "$proto-$node" "$proto" "$(with_port "$WORLD" 5555)" "$(with_port "${NODES[node - 1]}" 30080)"
		done
		for _ in 1 2 3; do
			for node in 1 2 3; do
				held_sees "$proto-$node" "$WORLD"
			done
		done
	done
}

state_of() { sessions_from "$1" "$2" 'map(.state) | unique | join(" ")'; }
is_over() { expect_match "state at $1" '^(closed)?$' "$(state_of "$1" "$2")"; }
sessions()
{
	held ends tcp "$(with_port "$WORLD" 6666)" "$(with_port "$NODE1" 30080)"
	held_sees ends "$WORLD"
	expect_eq "state at node1" established "$(state_of node1 6666)"
	expect_eq "state at node2" established "$(state_of node2 6666)"
	expect_eq "the other node, at node1" node2 "$(sessions_from node1 6666 '.[].node')"
	expect_eq "the other node, at node2" node1 "$(sessions_from node2 6666 '.[].node')"
	release ends
	wait_for 10 is_over node1 6666
	wait_for 10 is_over node2 6666
}

# IPv6 keeps the overlay's MTU that it has learnt before.
errors_by_link()
{
	without_vxlan
	in_world ip "$(by_family -4 -6)" route flush cache
	errors fits
}

# A UDP flow whose endpoint goes is cut at both nodes, and gets the other endpoint.
pair() { ask world udp "$(with_port "$NODE1" 30082)" --from "$(with_port "$WORLD" 7777)" --timeout 0.5; }
answered_by() { expect_match "answer" "^$1 $WORLD " "$(pair)"; }
endpoint_goes()
{
	local first other
	wait_for 10 pair
	for _ in 1 2 3; do
		first=$(pair)
	done
	first=${first%% *}
	other=$([[ $first == pair-2 ]] && echo pair-3 || echo pair-2)
	answered_by "$first"
	lab rm "$first"
	wait_for 30 answered_by "$other"
}

begin_load() { node_ports_load external world "$(with_port "$EXTERNAL" 80)"; }

# A node takes packets of either kind, whatever its own setting is.
one_by_one()
{
	local node
	begin_load
	FLAGS=$1
	for node in node1 node2 node3; do
		set_mode "$node"
		wait_for 60 is_direct "$node"
		each_sees "$WORLD"
	done
	unbroken
}

agents_dead()
{
	local node
	begin_load
	for node in 1 2 3; do
		lab agent kill "node$node"
	done
	by_each_address
	for node in 1 2 3; do
		MK_AGENT_FLAGS="$DIRECT --routing Direct" lab agent start "node$node"
		wait_for 60 is_direct "node$node"
	done
	by_each_address
	unbroken
	all_straight
	without_vxlan
}

# late_service APP: apply a Service of this pod, which one node does not learn of
late_service()
{
	service_yaml late "$1" 10.96.66.4 "{name: tcp, port: 81, targetPort: 8080, nodePort: 30083},
		{name: udp, port: 81, targetPort: 8080, nodePort: 30083, protocol: UDP}" "externalIPs: [192.0.2.1]" | apply late
}
late_is() { expect_match "pod that answers by $2" "^$1 " "$(ask world tcp "$(with_port "$2" 30083)")"; }
agent_back()
{
	MK_AGENT_FLAGS=$FLAGS lab agent start "$1"
	wait_for 60 is_direct "$1"
}

# node2 does not know the Service: it sends requests back to the nodes that were asked.
unknown_service()
{
	lab agent kill node2
	late_service b
	wait_for 20 late_is b "$NODE1"
	wait_for 20 late_is b "$NODE3"
	rm -f "$TMP"/load.*
	load late world "$(with_port "$EXTERNAL" 81)"
	sees "$WORLD" "$NODE1" 30083
	sees "$WORLD" "$NODE3" 30083
	sees "$WORLD" "$EXTERNAL" 81
	agent_back node2
	wait_for 20 late_is b "$NODE2"
	sees "$WORLD" "$NODE1" 30083
	unbroken
}

# node1 does not know that another pod is the endpoint now. The old one, which still runs, serves.
moved_endpoint()
{
	lab pod node3 other >/dev/null
	serve other other --tcp 8080 --udp 8080
	lab agent kill node1
	late_service other
	wait_for 20 late_is other "$NODE2"
	sees "$WORLD" "$NODE1" 30083
	sees "$WORLD" "$EXTERNAL" 81
	agent_back node1
	wait_for 20 late_is other "$NODE1"
}

traced()
{
	local answer="the pod's node answers the client directly"
	expect_match "trace" "$answer" "$(on node1 "$MK_BIN" trace "$WORLD" "$NODE1" 30080 --protocol tcp || true)"
	expect_match "the way between the nodes" "leaves directly, without VXLAN" "$(on node1 "$MK_BIN" trace "$WORLD" "$NODE1" 30080 --protocol tcp || true)"
	expect_failure expect_match "trace of an old way" "$answer" "$(on node1 "$MK_BIN" trace "$WORLD" "$NODE1" 30081 --protocol tcp || true)"
}

direct_return_up
check "off: answers go back by the node that was asked" by_asked 30080
check "on, node by node, under load" one_by_one "$DIRECT"
check "the pod sees the client, by each node" by_each_address
check "answers come from node2; SYN-ACK, FIN and first datagrams by the node that was asked" all_straight
check "nothing is in VXLAN" without_vxlan
check "a switch drops VTEP MAC addresses: VXLAN again, and check says so" drops_macs
check "a Service with session affinity: the old way" by_asked 30081
check "20 MB each way" large
check "a router with a narrow link: the transfer adapts" narrow_link
check "one client port by three nodes" collisions
check "errors come back, and packets of the link's MTU pass" errors_by_link
check "a UDP flow gets another endpoint when its own goes" endpoint_goes
check "sessions at both nodes, which end" sessions
check "trace says so" traced
check "the pod's node does not know the Service" unknown_service
check "the pod's node knows that the pod is no endpoint any more" moved_endpoint
check "agents are killed, and start with routing Direct" agents_dead
check "off, node by node, under load" one_by_one "$KEEP"
check "off again" by_asked 30080
finish
