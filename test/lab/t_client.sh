#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_client.sh - setting clientAddress: a pod of node2 sees clients of NodePorts of all nodes, and answers
# them by the node that they asked.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/node_ports.sh
. "$HERE/lib/node_ports.sh"

EXTERNAL=$(in_family 192.0.2.1)

explain() { explain_nodes; }

objects()
{
	service_yaml web b 10.96.66.1 "{name: tcp, port: 8080, targetPort: 8080, nodePort: 30080},
		{name: udp, port: 8080, targetPort: 8080, nodePort: 30080, protocol: UDP},
		{name: closed, port: 9090, targetPort: 9090, nodePort: 30090},
		{name: closed-udp, port: 9090, targetPort: 9090, nodePort: 30090, protocol: UDP}"
	service_yaml host h 10.96.66.2 "{name: tcp, port: 8080, targetPort: 8080, nodePort: 30081}"
	service_yaml sticky pair 10.96.66.3 "{name: tcp, port: 8080, targetPort: 8080, nodePort: 30082}" "sessionAffinity: ClientIP"
	service_yaml ranged b 10.96.66.4 "{name: tcp, port: 8080, targetPort: 8080},
		{name: udp, port: 8080, targetPort: 8080, protocol: UDP}" "loadBalancerSourceRanges: [$WORLD/$BITS]"
	echo "status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}"
}

client_lab_up()
{
	lab up 3 --pods
	A=$(lab pod node1 a)
	lab pod node2 b >/dev/null
	lab pod node3 c >/dev/null
	serve b b --tcp 8080 --udp 8080
	for node in 2 3; do
		lab pod "node$node" "pair-$node" --label app=pair >/dev/null
		serve "pair-$node" "pair-$node" --tcp 8080
	done
	ip -n "$MK_LAB.world" route replace 10.244.2.0/24 via "$NODE2"
	objects | apply objects
	for node in "${NODES[@]}"; do
		wait_for 20 ask world tcp "$(with_port "$node" 30080)"
	done
}

begin_load() { node_ports_load a a "$VIP:8080"; }

masqueraded()
{
	sees 10.244.1.1 "$NODE1" 30080
	sees 10.244.2.1 "$NODE2" 30080
	sees 10.244.3.1 "$NODE3" 30080
}

# A node that keeps addresses does not wait for the pod's node to do so.
one_by_one()
{
	begin_load
	FLAGS="--client-address $1"
	for node in node1 node2 node3; do
		set_mode "$node"
		each_sees '.*'
	done
	unbroken
}

kept()
{
	by_each_node
	expect_match "a pod" "^b $A " "$(ask a tcp "$VIP:8080")"
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
		sees "$WORLD" "$at" 30080
		expect_failure ask world tcp "$(with_port "$at" 30080)" --from "$FAR" --timeout 0.5
		expect_failure ask world udp "$(with_port "$at" 30080)" --from "$FAR" --timeout 0.5
	done
	stop_load
	expect_eq "broken connections of world" "" "$(grep -H '^broken' "$TMP"/load.node* || true)"
	lab delete "$TMP/policy.yaml"
	wait_for 20 ask world tcp "$(with_port "$NODE1" 30080)" --from "$FAR"
}

# The address of the Service "ranged" is the same by all nodes, so each one is asked in its turn.
source_ranges()
{
	local node at
	at=$(with_port "$EXTERNAL" 8080)
	for node in "${NODES[@]}"; do
		ip -n "$MK_LAB.world" route replace "$EXTERNAL/$BITS" via "$node"
		expect_match "TCP by $node" "^b $WORLD " "$(ask world tcp "$at")"
		expect_match "UDP by $node" "^b $WORLD " "$(ask world udp "$at" --from "$(udp_source "$WORLD")")"
		expect_failure ask world tcp "$at" --from "$FAR" --timeout 0.5
		expect_failure ask world udp "$at" --from "$FAR" --timeout 0.5
	done
}

# By each node, all connections of a client reach one pod, which sees the client.
affinity()
{
	local node client
	for client in "$WORLD" "$FAR"; do
		for node in "${NODES[@]}"; do
			for _ in {1..8}; do
				ask world tcp "$(with_port "$node" 30082)" --from "$client"
			done >"$TMP/sticky"
			expect_match "pod and client of $client by $node" "^pair-[23] $client\$" "$(cut -d ' ' -f 1,2 "$TMP/sticky" | sort -u)"
		done
	done
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
	held shown tcp "$(with_port "$WORLD" 6666)" "$(with_port "$NODE1" 30080)"
	expect_eq "the node in the session" node1 "$(sessions_from node2 6666 '.[].node')"
	expect_match "trace" "the client keeps its address if a pod answers" "$(on node1 "$MK_BIN" trace "$WORLD" "$NODE1" 30080 --protocol tcp || true)"
	expect_match "trace of a client" "sees client $WORLD" "$(on node1 "$MK_BIN" trace "$WORLD" "$NODE1" 30080 --protocol tcp || true)"
}

client_lab_up
check "masqueraded by default" masqueraded
check "Masquerade to Keep, node by node" one_by_one Keep
check "the pod sees the client, by each node" kept
check "one client port by three nodes" collisions 5555
check "policies judge the client" policies
check "source ranges judge the client" source_ranges
check "session affinity is the client's" affinity
check "errors come back, and too long packets are answered" errors "1450|1430"
check "sessions and trace say so" shown
check "agents are killed" agents_dead
check "direct routing: clients' packets stay in VXLAN" direct
check "back to Masquerade, node by node" one_by_one Masquerade
check "masqueraded again" masqueraded
finish
