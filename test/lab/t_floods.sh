#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_floods.sh - first packets of forged flows, many times the capacity of the tables of new
# sessions: by ClusterIP, NodePort and masquerade, TCP and UDP. Meanwhile 1,000 connections are held
# and new ones are made, all to the flooded servers on the flooded paths.
#
# FLOOD=N: N packets for each of the six, and tables of the default size (`make floods`).
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/crowd.sh
. "$HERE/lib/crowd.sh"

COUNT=${FLOOD:-60000}
PORTS=$((COUNT / 64000 + 1)) # of the Service: a pod floods from one address
LAST_PORT=$((80 + PORTS - 1))
NEW_ENTRIES=4096
FLAGS="--session-table-size 8192 --new-session-table-size $NEW_ENTRIES"
[[ -z ${FLOOD:-} ]] || FLAGS='' NEW_ENTRIES=65536
FLOODER=$(dirname "$MK_BIN")/test/lab/flood

explain()
{
	echo "drops of node1:"
	on node1 "$MK_BIN" drops || true
	lab log node1 | tail -n 5
}

# Items for each port of the Service, TCP and UDP.
ports()
{
	local port
	for ((port = 80; port <= LAST_PORT; port++)); do
		echo "{name: tcp-$port, port: $port, targetPort: 8080, nodePort: $((30000 + port))},"
		echo "{name: udp-$port, port: $port, targetPort: 8080, nodePort: $((30000 + port)), protocol: UDP},"
	done
}

floods_lab_up()
{
	MK_AGENT_FLAGS=$FLAGS lab up 2
	web_pods_up
	ROGUE=$(lab pod node1 rogue)
	service_yaml web web $VIP "$(ports)" | apply services
	wait_for 10 ask client tcp "$VIP:80"
	wait_for 10 ask world tcp "$NODE1:30080"
	GATEWAY_MAC=$(on rogue ip -j neigh show | jq -r '.[0].lladdr')
	NODE_MAC=$(on node1 ip -j link show eth0 | jq -r '.[0].address')
}

flood_cluster_ip() { on rogue "$FLOODER" eth0 "$GATEWAY_MAC" "$1" "$ROGUE" "$VIP" "80-$LAST_PORT" "$COUNT"; }
flood_node_port() { on world "$FLOODER" eth0 "$NODE_MAC" "$1" 100.64.0.0/10 "$NODE1" 30080 "$COUNT"; }
# Half goes to the destination that the other clients use, then half to all others. One destination
# has no more flows than there are ports, so the second half fills the table.
flood_masquerade()
{
	on rogue "$FLOODER" eth0 "$GATEWAY_MAC" "$1" "$ROGUE" "$FAR" 8080 $((COUNT / 2))
	on rogue "$FLOODER" eth0 "$GATEWAY_MAC" "$1" "$ROGUE" 198.18.0.0/15 443 $((COUNT / 2))
}

entries() { on node1 bpftool -j map dump pinned "$PINS/$1" | jq length; }

has_tried() { grep -q '^tried' "$TMP/$1.out"; }

# A failing connection takes three seconds, and a small flood less: repeat it until both clients
# have tried some.
flood_until_tried()
{
	local round
	for round in {1..20}; do
		"flood_$1" "$2" | sed 's/^/# /' >>"$TMP/rates"
		! { has_tried inside && has_tried outside; } || return 0
	done
	echo "after $round floods too few were tried to say anything: $(cat "$TMP/inside.out" "$TMP/outside.out")"
	return 1
}

# flooded WAY PROTO MAP: at least nine of ten new connections succeed on each path. The table was
# full, or has two entries for each source port of the last destination, which is half of the
# default size.
flooded()
{
	local who opened tried
	crowd inside client new "$VIP:80" "$FAR:8080"
	crowd outside world new "$NODE1:30080"
	flood_until_tried "$1" "$2"
	(($(entries "$3") >= NEW_ENTRIES / 2)) || { echo "the flood did not fill map $3: $(entries "$3")"; return 1; }
	for who in inside outside; do
		crowd_ends "$who" >"$TMP/opened"
		cat "$TMP/opened"
		read -r _ opened _ tried < <(tail -n 1 "$TMP/opened")
		((opened * 10 >= tried * 9)) || { echo "expected 90 % of them opened"; return 1; }
	done
}

all_held()
{
	local name
	for name in service far port; do
		crowd_ends "$name"
	done >"$TMP/held"
	cat "$TMP/held"
	expect_eq "connections held" "500 of 500 250 of 250 250 of 250" \
		"$(sed -nE 's/^held ([0-9]+ of [0-9]+),.*/\1/p' "$TMP/held" | xargs)"
}

floods_lab_up
crowd service client hold 500 "$VIP:80"
crowd far client hold 250 "$FAR:8080"
crowd port world hold 250 "$NODE1:30080"
for proto in tcp udp; do
	check "$COUNT first packets by ClusterIP, $proto: new connections are made" flooded cluster_ip "$proto" sessions_young
	check "... by NodePort, $proto" flooded node_port "$proto" sessions_young
	check "... by masquerade, $proto" flooded masquerade "$proto" nat_sessions_young
done
check "of 1,000 connections that were there none broke" all_held
cat "$TMP/rates"
finish
