#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_chains_clients.sh - clients outside ask nodes for a chained pod of node2, with directServerReturn: node2
# takes each flow through one replica of a firewall, on any node, and answers the client itself.
#
#   node1: firewall-1; node2: shop/web, firewall-2; node3: firewall-3, for a while; world is the client
set -euo pipefail
export MK_LAB_ROUTING=Auto # directServerReturn needs direct packets
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/node_ports.sh
. "$HERE/lib/node_ports.sh"
# shellcheck source=test/lab/lib/chains.sh
. "$HERE/lib/chains.sh"

EXTERNAL=$(in_family 192.0.2.1)
KEEP="--client-address Keep"
DIRECT="$KEEP --direct-server-return true"

explain()
{
	on node2 "$MK_BIN" chains || true
	explain_nodes
}

in_world() { command ip netns exec "$MK_LAB.world" "$@"; }
by_node() { ip -n "$MK_LAB.world" route replace "$EXTERNAL/$BITS" via "${NODES[$1 - 1]}"; }
# addresses PORT: by each node; of the external address, too
addresses() { printf '%s\n' "${NODES[@]/%/ $1}" "$EXTERNAL $(($1 - 30000))" | while read -r ip port; do with_port "$ip" "$port"; done; }

clients_up()
{
	MK_AGENT_FLAGS=$DIRECT lab up 3 --pods
	consenting_namespace shop
	strict_firewall firewall-1
	NODE=node2 strict_firewall firewall-2
	lab pod node2 web --namespace shop >/dev/null
	serve web web --{tcp,udp}={$OPEN_PORT,$DENIED_PORT}
	service_yaml web web "$VIP" "$(port TCP 80 $OPEN_PORT), $(port UDP 80 $OPEN_PORT), $(port TCP 81 $DENIED_PORT)" "externalIPs: [$EXTERNAL]" |
		sed 's/metadata: {/&namespace: shop, /' | apply services
	by_node 1
	DIRECTION=Both chain '[{name: firewall, localWeight: 1}]'
	wait_for 20 serve_now firewall 2
	watch
}
port() { echo "{name: p-${1,,}-$2, port: $2, targetPort: $3, nodePort: $((30000 + $2)), protocol: $1}"; }

# world counts what it must not get.
watch()
{
	local node
	{
		echo 'table netdev seen {'
		echo 'counter resets { }'
		echo 'counter data { }'
		echo 'chain in { type filter hook ingress device "eth0" priority 0; policy accept;'
		echo 'tcp sport { 80, 30080 } tcp flags & rst == rst counter name resets'
		for node in node1 node3; do
			echo "ether saddr $(on $node cat /sys/class/net/eth0/address) tcp sport { 80, 30080 } tcp flags & (syn | fin | rst) == 0 counter name data"
		done
		echo '}'
		echo '}'
	} >"$TMP/seen.nft"
	in_world nft -f "$TMP/seen.nft"
}
seen() { in_world nft -j list counter netdev seen "$1" | jq '.nftables[] | select(.counter).counter.packets'; }

# ---- rows

asks_all()
{
	local at
	for at in $(addresses 30080); do
		expect_match "TCP by $at" "^web $WORLD " "$(ask world tcp "$at" --want 60000)"
		expect_match "UDP by $at" "^web $WORLD " "$(ask world udp "$at" --from "$(udp_source "$WORLD")")"
	done
}
denied()
{
	local at
	for at in $(addresses 30081); do
		denied_to world "$at"
	done
}
# straight: of the next asks, node2 sends all data
straight()
{
	local before
	before=$(seen data)
	asks_all
	expect_eq "segments with data of node1 and node3" "$before" "$(seen data)"
}
both_directions()
{
	local _
	wait_for 60 straight
	wait_for 10 denied
	for _ in 1 2 3 4; do
		asks_all
	done
	denied
	symmetric firewall-1 firewall-2
	has_flows firewall-1 4
	has_flows firewall-2 4
}
has_flows() { (($(flows_of "$1" in | wc -l) >= $2)) || expect_eq "flows of $1" "at least $2" "$(flows_of "$1" in | wc -l)"; }

begin_load()
{
	local at
	rm -f "$TMP"/load.*
	mapfile -t at < <(addresses 30080)
	load "$1" world --light 15 "${at[@]}"
}
none_broke()
{
	stop_load
	expect_eq "broken and lost" "" "$(broken_of "$1")"
	(($(sed -n 's/^exchanges //p' "$TMP/load.$1") > 100))
	expect_eq "RSTs that world got" 0 "$(seen resets)"
}

# A replica comes, gets flows and ends. Flows keep their replicas: the firewall refuses a connection in its middle.
scaled()
{
	begin_load lasting
	NODE=node3 strict_firewall firewall-3
	wait_for 10 serve_now firewall 3
	load later world --light 30 "$(with_port "$EXTERNAL" 80)"
	wait_for 10 has_flows firewall-3 1
	lab state firewall-3 ending
	wait_for 10 serve_now firewall 2
	asks_all
	wait_for 10 symmetric firewall-1 firewall-2 firewall-3
	none_broke later
	expect_eq "broken and lost" "" "$(broken_of lasting)"
	lab rm firewall-3
}

# The external address moves to a node without the pod, and to the pod's node.
moved()
{
	local node
	begin_load moved
	for node in 3 2 1; do
		by_node $node
		asks_all
	done
	wait_for 10 symmetric firewall-1 firewall-2
	none_broke moved
}

# Flows keep their way while the setting goes and comes node by node.
one_by_one()
{
	begin_load one
	for FLAGS in "$KEEP" "$DIRECT"; do
		for node in node1 node2 node3; do
			set_mode $node
			asks_all
		done
	done
	wait_for 10 symmetric firewall-1 firewall-2
	none_broke one
}

agents_dead()
{
	local node
	begin_load dead
	for node in 1 2 3; do
		lab agent kill node$node
	done
	asks_all
	denied
	for node in 1 2 3; do
		MK_AGENT_FLAGS=$DIRECT lab agent start node$node
	done
	asks_all
	wait_for 10 symmetric firewall-1 firewall-2
	none_broke dead
}

clients_up
check "both directions by one replica, also of another node; answers come from node2; a port that is denied" both_directions
check "a third replica comes and ends: no flow breaks, and the client gets no RST" scaled
check "the external address moves to other nodes" moved
check "directServerReturn goes and comes, node by node" one_by_one
check "agents are killed, and start" agents_dead
finish
