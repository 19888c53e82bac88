# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/node_ports.sh - clients outside ask the NodePorts of three nodes for pod b of node2. Its Service
# has NodePort 30080, and 30090 without a listener, each TCP and UDP.
# shellcheck source=test/lab/lib/load.sh
. "$HERE/lib/load.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"

NODE3=$(in_family 192.168.99.13)
NODES=("$NODE1" "$NODE2" "$NODE3")
FLAGS="" # of agents that set_mode starts
declare -A PIPES=()

explain_nodes()
{
	local node
	for node in node1 node2 node3; do
		echo "drops of $node:"
		on "$node" "$MK_BIN" drops || true
		on "$node" "$MK_BIN" sessions || true
	done
}

# set_mode NODE: its agent starts again with $FLAGS
set_mode()
{
	lab agent stop "$1"
	MK_AGENT_FLAGS=$FLAGS lab agent start "$1"
}

# udp_source CLIENT: a new port. The kernel may choose one that still has a session: for two minutes its flow
# keeps its way, and the pod sees this node instead of the client if the same port comes by another node.
udp_source()
{
	local port=$(($(cat "$TMP/udp_port" 2>/dev/null || echo 20000) + 1))
	echo "$port" >"$TMP/udp_port"
	with_port "$1" "$port"
}

# sees PEER ADDRESS PORT [--from CLIENT]: by TCP with a large answer, UDP, and UDP in fragments
sees()
{
	local at from
	at=$(with_port "$2" "$3")
	from=$(udp_source "${5:-$WORLD}")
	expect_match "TCP by $2" "^b $1 " "$(ask world tcp "$at" --want 60000 "${@:4}")"
	expect_match "UDP by $2" "^b $1 " "$(ask world udp "$at" --from "$from")"
	wait_for 10 ask world udp "$at" --size 3000 --want 3000 --from "$from" # IPv6 learns the overlay's MTU
	expect_match "fragments by $2" "^b $1 " "$(ask world udp "$at" --size 3000 --want 3000 --from "$from")"
}

# each_sees PEER: by the NodePorts of all nodes
each_sees()
{
	local at
	for at in "${NODES[@]}"; do
		sees "$1" "$at" 30080
	done
}

by_each_node()
{
	local at
	for at in "${NODES[@]}"; do
		sees "$WORLD" "$at" 30080
		sees "$FAR" "$at" 30080 --from "$FAR"
	done
}

# node_ports_load NAME WHERE ADDRESS: by each NodePort, and a further load
node_ports_load()
{
	local node
	rm -f "$TMP"/load.*
	for node in 1 2 3; do
		load "node$node" world "$(with_port "${NODES[node - 1]}" 30080)"
	done
	load "$@"
}
unbroken()
{
	stop_load
	expect_eq "broken connections" "" "$(grep -H '^broken' "$TMP"/load.* || true)"
}

# held NAME PROTO FROM TO: an open flow of world; held_sees NAME PEER: it is answered, and the pod sees PEER
held() { hold "$1" world "$4" "$2" --from "$3"; }
held_sees()
{
	exchange "$1" $(($(wc -l <"$TMP/$1.out") + 1))
	expect_match "flow $1" "^b $2 " "$(tail -n 1 "$TMP/$1.out")"
}
release()
{
	local pipe=${PIPES[$1]}
	exec {pipe}>&-
}

# sessions_from NODE PORT FILTER: jq's FILTER of NODE's sessions of world's PORT
sessions_from()
{
	on "$1" "$MK_BIN" sessions -o json |
		jq -r --arg from "$(with_port "$WORLD" "$2")" "map(select(.from == \$from)) | $3"
}

# errors MTU: MTU for requests by node1, "A|B" by families
errors()
{
	local at
	for at in "${NODES[@]}"; do
		expect_eq "a closed port of TCP by $at" refused "$(ask world tcp "$(with_port "$at" 30090)" || true)"
		expect_eq "a closed port of UDP by $at" refused "$(ask world udp "$(with_port "$at" 30090)" || true)"
	done
	expect_match "path MTU by node1" "^($1)\$" "$(ask world udp "$(with_port "$NODE1" 30080)" --path-mtu --size 1452)"
}
