#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_client.sh - setting clientAddress: a pod of node2 sees clients of NodePorts of all nodes, and answers
# them by the node that they asked.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/load.sh
. "$HERE/lib/load.sh"

NODE3=$(in_family 192.168.99.13)
NODES=("$NODE1" "$NODE2" "$NODE3")
FLAGS=""

explain()
{
	local node
	for node in node1 node2 node3; do
		echo "drops of $node:"
		on "$node" "$MK_BIN" drops || true
		on "$node" "$MK_BIN" sessions || true
	done
}

objects()
{
	service_yaml web b 10.96.66.1 "{name: tcp, port: 8080, targetPort: 8080, nodePort: 30080},
		{name: udp, port: 8080, targetPort: 8080, nodePort: 30080, protocol: UDP},
		{name: closed, port: 9090, targetPort: 9090, nodePort: 30090},
		{name: closed-udp, port: 9090, targetPort: 9090, nodePort: 30090, protocol: UDP}"
	service_yaml host h 10.96.66.2 "{name: tcp, port: 8080, targetPort: 8080, nodePort: 30081}"
}

client_lab_up()
{
	lab up 3 --pods
	A=$(lab pod node1 a)
	lab pod node2 b >/dev/null
	lab pod node3 c >/dev/null
	serve b b --tcp 8080 --udp 8080
	ip -n "$MK_LAB.world" route replace 10.244.2.0/24 via "$NODE2"
	objects | apply objects
	for node in "${NODES[@]}"; do
		wait_for 20 ask world tcp "$(with_port "$node" 30080)"
	done
}

# set_mode NODE: its agent starts again with $FLAGS
set_mode()
{
	lab agent stop "$1"
	MK_AGENT_FLAGS=$FLAGS lab agent start "$1"
}

# sees PEER ADDRESS ARGS...: by TCP with a large answer, UDP, and UDP in fragments
sees()
{
	local at
	at=$(with_port "$2" 30080)
	expect_match "TCP by $2" "^b $1 " "$(ask world tcp "$at" --want 60000 "${@:3}")"
	expect_match "UDP by $2" "^b $1 " "$(ask world udp "$at" "${@:3}")"
	wait_for 10 ask world udp "$at" --size 3000 --want 3000 "${@:3}" # IPv6 learns the overlay's MTU
	expect_match "fragments by $2" "^b $1 " "$(ask world udp "$at" --size 3000 --want 3000 "${@:3}")"
}

begin_load()
{
	local node
	rm -f "$TMP"/load.*
	for node in 1 2 3; do
		load "node$node" world "$(with_port "${NODES[node - 1]}" 30080)"
	done
	load a a "$VIP:8080"
}
unbroken()
{
	stop_load
	expect_eq "broken connections" "" "$(grep -H '^broken' "$TMP"/load.* || true)"
}

masqueraded()
{
	sees 10.244.1.1 "$NODE1"
	sees 10.244.2.1 "$NODE2"
	sees 10.244.3.1 "$NODE3"
}

# A node that keeps addresses does not wait for the pod's node to do so.
one_by_one()
{
	begin_load
	FLAGS="--client-address $1"
	for node in node1 node2 node3; do
		set_mode "$node"
		for at in "${NODES[@]}"; do
			sees '.*' "$at"
		done
	done
	unbroken
}

kept()
{
	local at
	for at in "${NODES[@]}"; do
		sees "$WORLD" "$at"
		sees "$FAR" "$at" --from "$FAR"
	done
	expect_match "a pod" "^b $A " "$(ask a tcp "$VIP:8080")"
}

# held NAME PROTO FROM TO: an open flow; answered NAME PEER: it is, and the pod sees PEER
held()
{
	local to pipe
	rm -f "$TMP/held.$1.in"
	mkfifo "$TMP/held.$1.in"
	to="$TMP/held.$1.out"
	ask world "$2" "$4" --from "$3" --hold --timeout 20 <"$TMP/held.$1.in" >"$to" 2>&1 &
	exec {pipe}>"$TMP/held.$1.in"
	HELD[$1]=$pipe
	wait_for 10 grep -q . "$to"
}
declare -A HELD
held_lines() { (($(wc -l <"$TMP/held.$1.out") >= $2)); }
held_sees()
{
	local lines
	lines=$(wc -l <"$TMP/held.$1.out")
	echo >&"${HELD[$1]}"
	wait_for 10 held_lines "$1" $((lines + 1))
	expect_match "flow $1" "^b $2 " "$(tail -n 1 "$TMP/held.$1.out")"
}

# collisions PORT: of one client, by three nodes to one pod: the flows stay apart, and the later one is masqueraded
collisions()
{
	local proto
	for proto in tcp udp; do
		held "$proto-1" "$proto" "$(with_port "$WORLD" "$1")" "$(with_port "$NODE1" 30080)"
		held "$proto-3" "$proto" "$(with_port "$WORLD" "$1")" "$(with_port "$NODE3" 30080)"
		held "$proto-2" "$proto" "$(with_port "$WORLD" "$1")" "$(with_port "$NODE2" 30080)"
		for _ in 1 2 3; do
			held_sees "$proto-1" "$WORLD"
			held_sees "$proto-3" 10.244.3.1
			held_sees "$proto-2" "$WORLD"
		done
	done
}

policy()
{
	cat <<-END
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: only-world, namespace: default}
		spec:
		  podSelector: {matchLabels: {app: b}}
		  policyTypes: [Ingress]
		  ingress: [{from: [{ipBlock: {cidr: $WORLD/$BITS}}]}]
	END
}
is_denied() { expect_failure ask world tcp "$(with_port "$NODE1" 30080)" --from "$FAR" --timeout 0.5; }
policies()
{
	local at
	begin_load
	policy | apply policy
	wait_for 20 is_denied
	for at in "${NODES[@]}"; do
		sees "$WORLD" "$at"
		expect_failure ask world tcp "$(with_port "$at" 30080)" --from "$FAR" --timeout 0.5
		expect_failure ask world udp "$(with_port "$at" 30080)" --from "$FAR" --timeout 0.5
	done
	stop_load
	expect_eq "broken connections of world" "" "$(grep -H '^broken' "$TMP"/load.node* || true)"
	lab delete "$TMP/policy.yaml"
	wait_for 20 ask world tcp "$(with_port "$NODE1" 30080)" --from "$FAR"
}

errors()
{
	local at
	for at in "${NODES[@]}"; do
		expect_eq "a closed port of TCP by $at" refused "$(ask world tcp "$(with_port "$at" 30090)" || true)"
		expect_eq "a closed port of UDP by $at" refused "$(ask world udp "$(with_port "$at" 30090)" || true)"
	done
	expect_match "path MTU by node1" '^(1450|1430)$' "$(ask world udp "$(with_port "$NODE1" 30080)" --path-mtu --size 1452)"
}

agents_dead()
{
	local node
	FLAGS="--client-address Keep"
	begin_load
	for node in 1 2 3; do
		lab agent kill "node$node"
	done
	kept
	collisions 5556
	for node in 1 2 3; do
		MK_AGENT_FLAGS=$FLAGS lab agent start "node$node"
	done
	kept
	unbroken
}

in_vxlan() { on "$1" cat /sys/class/net/mkvxlan/statistics/tx_packets; }
direct()
{
	local before node
	FLAGS="--client-address Keep --routing Direct"
	begin_load
	for node in node1 node2 node3; do
		set_mode "$node"
	done
	before=$(in_vxlan node1)
	kept
	expect_failure expect_eq "packets of node1's overlay device" "$before" "$(in_vxlan node1)"
	unbroken
}

shown()
{
	local by
	held shown tcp "$(with_port "$WORLD" 6666)" "$(with_port "$NODE1" 30080)"
	by=$(on node2 "$MK_BIN" sessions -o json | jq -r --arg from "$(with_port "$WORLD" 6666)" '.[] | select(.from == $from) | .node')
	expect_eq "the node in the session" node1 "$by"
	expect_match "trace" "the client keeps its address if a pod answers" "$(on node1 "$MK_BIN" trace "$WORLD" "$NODE1" 30080 --protocol tcp || true)"
	expect_match "trace of a client" "sees client $WORLD" "$(on node1 "$MK_BIN" trace "$WORLD" "$NODE1" 30080 --protocol tcp || true)"
}

client_lab_up
check "masqueraded by default" masqueraded
check "Masquerade to Keep, node by node" one_by_one Keep
check "the pod sees the client, by each node" kept
check "one client port by three nodes" collisions 5555
check "policies judge the client" policies
check "errors come back, and too long packets are answered" errors
check "sessions and trace say so" shown
check "agents are killed" agents_dead
check "direct routing: clients' packets stay in VXLAN" direct
check "back to Masquerade, node by node" one_by_one Masquerade
check "masqueraded again" masqueraded
finish
