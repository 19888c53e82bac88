#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_syn_gate.sh - setting synRate: one connection from outside per second and processor opens
# without a proof of the client's address. Kernels of real clients prove theirs (bpf/syn_gate.h).
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/crowd.sh
. "$HERE/lib/crowd.sh"

FLAGS="--syn-rate 1"
COUNT=30000 # SYNs of a flood
FLOODER=$(dirname "$MK_BIN")/test/lab/flood
FORGED=100.64.0.0/10
FORGED_TEXT=$(by_family 100.64. fd00:100:64:)
ROUTER=$MK_LAB.router
BEHIND=$MK_LAB.behind
CLIENTS=$TMP/clients # how many have been made

explain()
{
	echo "drops of node1:"
	on node1 "$MK_BIN" drops || true
	lab log node1 | tail -n 5
}

objects()
{
	service_yaml near near 10.96.66.1 "{name: tcp, port: 80, targetPort: 8080, nodePort: 30081}" "externalIPs: [198.51.100.1]"
	service_yaml away away 10.96.66.2 "{name: tcp, port: 80, targetPort: 8080, nodePort: 30082}" "externalIPs: [198.51.100.2]"
	service_yaml local near 10.96.66.3 "{name: tcp, port: 80, targetPort: 8080, nodePort: 30083}" \
		"externalIPs: [198.51.100.3], externalTrafficPolicy: Local"
}

# A client behind a router that translates addresses and drops what its connection tracking refuses.
router_up()
{
	local device
	ip netns add "$ROUTER"
	ip netns add "$BEHIND"
	ip link add eth0 netns "$ROUTER" type veth peer name router netns "$MK_LAB.underlay"
	ip -n "$MK_LAB.underlay" link set router master br0 up
	ip link add inside netns "$ROUTER" type veth peer name eth0 netns "$BEHIND"
	for device in lo eth0 inside; do
		ip -n "$ROUTER" link set "$device" up
	done
	ip -n "$BEHIND" link set eth0 up
	# shellcheck disable=SC2086 # NODAD may be nothing
	{
		ip -n "$ROUTER" addr add 192.168.99.201/24 dev eth0 $NODAD
		ip -n "$ROUTER" addr add 10.77.7.1/24 dev inside $NODAD
		ip -n "$BEHIND" addr add 10.77.7.2/24 dev eth0 $NODAD
	}
	ip -n "$BEHIND" route add default via 10.77.7.1
	ip netns exec "$ROUTER" sysctl -qw "$(by_family net.ipv4.ip_forward net.ipv6.conf.all.forwarding)=1"
	ip netns exec "$ROUTER" nft -f - <<-END
		table inet router {
			chain forward { type filter hook forward priority 0; ct state invalid counter drop; }
			chain out { type nat hook postrouting priority 100; oifname eth0 masquerade; }
		}
	END
}

router_down()
{
	ip netns del "$BEHIND" 2>/dev/null || true
	ip netns del "$ROUTER" 2>/dev/null || true
	cleanup
}

gate_lab_up()
{
	MK_AGENT_FLAGS=$FLAGS lab up 2
	trap router_down EXIT
	lab pod node1 near --host-port 8088:8080 >/dev/null
	lab pod node2 away >/dev/null
	for name in near away; do
		serve "$name" "$name" --tcp 8080
	done
	router_up
	objects | apply objects
	for name in 1 2 3; do
		ip -n "$MK_LAB.world" route replace "198.51.100.$name/32" via "$NODE1"
		wait_for 20 ask world tcp "$(with_port "$NODE1" "3008$name")"
	done
	NODE_MAC=$(on node1 cat /sys/class/net/eth0/address)
	echo 20 >"$CLIENTS"
}

# new_client: sets CLIENT to an address of world that has sent nothing yet
new_client()
{
	local number
	number=$(($(<"$CLIENTS") + 1))
	echo "$number" >"$CLIENTS"
	CLIENT=$(in_family "203.0.113.$number")
	# shellcheck disable=SC2086 # NODAD may be nothing
	ip -n "$MK_LAB.world" addr add "$CLIENT/$BITS" dev lo $NODAD
}

# flood KIND COUNT [FIRST]
flood() { on world "$FLOODER" eth0 "$NODE_MAC" "$1" "$FORGED" "$NODE1" 30081 "${@:2}" >/dev/null; }
# Some forged SYNs on each processor, which use up what may open without a proof.
use_up()
{
	local cpu
	for ((cpu = 0; cpu < $(nproc); cpu++)); do
		on world taskset -c "$cpu" "$FLOODER" eth0 "$NODE_MAC" tcp "$FORGED" "$NODE1" 30081 20 >/dev/null
	done
}
proofs() { on node1 bpftool -j map dump pinned "$PINS/syn_verified" | jq length; }

# proves SERVER COMMAND...: until a client had to prove its address; SERVER answers all of them. A
# second may have passed between use_up and a client, which then opens a connection at once.
proves()
{
	local before round
	before=$(proofs)
	for round in {1..20}; do
		use_up
		expect_match "${*:2}" "^$1 " "$("${@:2}")"
		(($(proofs) == before)) || return 0
	done
	expect_eq "addresses proved after $round connections" $((before + 1)) "$before"
}

as_new() { new_client; ask world tcp "$1" --from "$CLIENT" --timeout 10; }
behind() { ip netns exec "$BEHIND" "$HERE/echo.py" ask tcp "$1" --timeout 10; }

# ---- rows ----------------------------------------------------------------------------------------

ten_connections()
{
	local asked
	new_client
	asked=$(drop_count node1 SYN_FLOOD)
	expect_eq "answers" 10 "$(ask world tcp "$(with_port "$NODE1" 30081)" --from "$CLIENT" --count 10 --timeout 10 | grep -c ^near)"
	(($(drop_count node1 SYN_FLOOD) > asked)) || expect_eq "SYNs that were asked" "$((asked + 1)) or more" "$asked"
}

each_way()
{
	proves near as_new "$(with_port "$NODE1" 30081)"
	proves away as_new "$(with_port "$NODE1" 30082)"
	proves near as_new "$(with_port "$NODE1" 30083)"
	proves near as_new "$(in_family 198.51.100.1:80)"
	proves away as_new "$(in_family 198.51.100.2:80)"
	proves near as_new "$(in_family 198.51.100.3:80)"
	proves near as_new "$(with_port "$NODE1" 8088)"
}

# Real clients leave the checksum of a SYN to the device, and so does the question. The flood completes it,
# and a pod never does (sums.py). The first packet from the node to a client is the question.
sums_of_questions()
{
	local client watcher
	env ip netns exec "$MK_LAB.world" "$HERE/sums.py" >"$TMP/sums" 2>&1 </dev/null &
	watcher=$!
	wait_for 5 grep -q watching "$TMP/sums"
	proves near as_new "$(with_port "$NODE1" 30081)"
	client=$(with_port "$(in_family "203.0.113.$(<"$CLIENTS")")" "")
	wait_for 5 grep -qF " > $client" "$TMP/sums"
	kill "$watcher"
	expect_match "the question to a client" " partial right$" "$(grep -m 1 -F " > $client" "$TMP/sums")"
	expect_match "questions to the flood" " complete right$" "$(grep -F "$FORGED_TEXT" "$TMP/sums" | grep -m 1 complete)"
	expect_eq "wrong checksums" "" "$(grep '^tcp .* wrong$' "$TMP/sums" || true)"
}

behind_a_router()
{
	proves near behind "$(with_port "$NODE1" 30081)"
	expect_match "what the router's connection tracking refuses" "packets 0 " "$(ip netns exec "$ROUTER" nft list chain inet router forward)"
}

# A pod's connection leaves node2 masqueraded, and node2 has a session of it.
of_another_node()
{
	forget_proofs
	proves near ask away tcp "$(with_port "$NODE1" 30081)" --timeout 10
	forget_proofs
	proves near ask node2 tcp "$(with_port "$NODE1" 30081)" --timeout 10
}

# The client's address is no longer known as proved, and its port has an ended session.
ended_session()
{
	local round
	new_client
	for round in {1..20}; do
		forget_proofs
		use_up
		expect_match "connection $round from one port" "^near " \
			"$(ask world tcp "$(with_port "$NODE1" 30081)" --from "$(with_port "$CLIENT" 41000)" --timeout 10)"
		(($(proofs) == 0)) || ((round == 1)) || return 0
	done
	echo "the client never had to prove its address"
	return 1
}
forget_proofs()
{
	local key
	on node1 bpftool -j map dump pinned "$PINS/syn_verified" | jq -r '.[].key | join(" ")' >"$TMP/proofs"
	while read -r key; do
		# shellcheck disable=SC2086 # bytes
		on node1 bpftool map delete pinned "$PINS/syn_verified" key hex ${key//0x/} </dev/null
	done <"$TMP/proofs"
}

# The host's own ports are no Service's: no connection to them is asked.
host_is_untouched()
{
	local asked round
	serve node1 node1 --tcp 7777
	use_up
	asked=$(drop_count node1 SYN_FLOOD)
	for round in {1..5}; do
		new_client
		expect_match "connection $round" "^node1 $CLIENT " "$(ask world tcp "$(with_port "$NODE1" 7777)" --from "$CLIENT")"
	done
	expect_eq "SYNs that were asked" "$asked" "$(drop_count node1 SYN_FLOOD)"
}

has_tried() { grep -q '^tried' "$TMP/new.out"; }
forged_sessions() { on node1 "$MK_BIN" sessions --limit 1000000 | grep -cF "$FORGED_TEXT" || true; }

# at_most_the_rate BEGAN BEFORE: forged sources have opened one session per second and processor, and
# those that were paid in advance.
at_most_the_rate()
{
	local opened
	opened=$(($(forged_sessions) - $2))
	((opened <= $(nproc) * (SECONDS - $1 + 2))) ||
		expect_eq "sessions of forged sources after $((SECONDS - $1)) s" "$(nproc) a second" "$opened"
}

flooded()
{
	local began=$SECONDS before round asked opened tried
	before=$(forged_sessions)
	asked=$(drop_count node1 SYN_FLOOD)
	crowd new world new "$(with_port "$NODE1" 30081)" "$(with_port "$NODE1" 30082)"
	for round in {1..20}; do
		flood tcp "$COUNT" $((round * COUNT))
		! has_tried || break
	done
	crowd_ends new >"$TMP/opened"
	read -r _ opened _ tried < <(tail -n 1 "$TMP/opened")
	((opened == tried && tried >= 2)) || { cat "$TMP/opened"; return 1; }
	at_most_the_rate "$began" "$before"
	(($(drop_count node1 SYN_FLOOD) - asked > COUNT / 2)) ||
		expect_eq "SYNs that were asked" "more than $((COUNT / 2))" "$(($(drop_count node1 SYN_FLOOD) - asked))"
}

# Segments that belong to no connection: a node may take them for those of a session that it has lost.
odd_segments()
{
	local began=$SECONDS before kind
	before=$(forged_sessions)
	for kind in ack none fin; do
		flood "tcp+$kind" 3000 $((30 * COUNT))
	done
	at_most_the_rate "$began" "$before"
}

all_held()
{
	crowd_ends held >"$TMP/held"
	expect_match "connections held" "held 50 of 50," "$(cat "$TMP/held")"
}

keeps_clients()
{
	local node
	for node in node1 node2; do
		lab agent stop "$node"
		MK_AGENT_FLAGS="$FLAGS --client-address Keep" lab agent start "$node"
	done
	wait_for 20 sees_client
	proves away as_new "$(with_port "$NODE1" 30082)"
	sees_client
}
sees_client() { new_client; expect_match "client" "^away $CLIENT " "$(ask world tcp "$(with_port "$NODE1" 30082)" --from "$CLIENT")"; }

without_agents()
{
	lab agent kill node1
	lab agent kill node2
	each_way
}

gate_lab_up
check "ten connections of one client: all open, and it is asked" ten_connections
check "NodePort, external address, policy Local, host port; a pod here or on another node" each_way
check "the checksum of the question is right, also if the kernel has left that of the SYN to the device" sums_of_questions
check "a client behind a router that translates addresses and drops invalid packets" behind_a_router
check "a pod and a process of another node" of_another_node
check "a client that reuses the port of an ended session" ended_session
check "connections to the host's own ports are not asked" host_is_untouched
crowd held world hold 50 "$(with_port "$NODE1" 30081)" "$(with_port "$NODE1" 30082)"
check "a flood of forged SYNs opens no session above the rate; all connections beside it open" flooded
check "... nor do segments of no connection" odd_segments
check "... and none that was there breaks" all_held
check "clientAddress: Keep" keeps_clients
check "all of that without agents" without_agents
finish
