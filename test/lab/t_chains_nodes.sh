#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_chains_nodes.sh - service function chains whose functions run on other nodes than the chained pods.
# Replicas vanish, with the agent of either node dead.
#
#   node1: shop/client, shop/web; node2: free/server, functions; node3: shop/far, functions; world serves
#   outside
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/load.sh
. "$HERE/lib/load.sh"
# shellcheck source=test/lab/lib/chains.sh
. "$HERE/lib/chains.sh"

explain()
{
	local node
	on node1 "$MK_BIN" chains || true
	for node in node1 node2 node3; do
		echo "$node:"
		on "$node" "$MK_BIN" drops
		lab log "$node" | tail -n 4
	done
}

# ---- functions on other nodes

# reaches_all: from the client, by all protocols, on all nodes, in large and small packets
reaches_all()
{
	local to
	for to in "$WORLD" "$SERVER" "$FAR_POD"; do
		ask client tcp "$(with_port "$to" $OPEN_PORT)" --want 60000
		ask client udp "$(with_port "$to" $OPEN_PORT)"
		on client ping -c 1 -W 2 "$to"
	done
	ask client udp "$(with_port "$SERVER" $OPEN_PORT)" --size 3000 --want 3000
	ask client tcp "$(with_port "$VIP" 80)"
}

elsewhere()
{
	local before
	NODE=node2 firewall firewall-2
	chain '[{name: firewall}]'
	wait_for 10 serve_now firewall 1
	wait_for 10 denied_to client "$(with_port "$WORLD" $DENIED_PORT)"
	reaches_all
	before=$(counted firewall-2 denied)
	denied_to client "$(with_port "$WORLD" $DENIED_PORT)"
	denied_to client "$(with_port "$SERVER" $DENIED_PORT)"
	(($(counted firewall-2 denied) > before))
	(($(counted firewall-2 outward) > 10 && $(counted firewall-2 inward) > 10))
	symmetric firewall-2
	expect_eq "node of the replica" node2 "$(on node1 "$MK_BIN" chains -o json | jq -r '.functions[0].node')"
}

# Chained pods on two nodes, each with its own home, and one function between them, twice
both_ends()
{
	DIRECTION=Both chain '[{name: firewall}]'
	wait_for 10 denied_to server "$(with_port "$WEB" $DENIED_PORT)"
	wait_for 10 denied_to server "$(with_port "$FAR_POD" $DENIED_PORT)"
	ask server tcp "$(with_port "$WEB" $OPEN_PORT)" --want 60000
	ask world tcp "$(with_port "$NODE2" 30080)"
	ask client tcp "$(with_port "$FAR_POD" $OPEN_PORT)" --want 60000
	ask far tcp "$(with_port "$WEB" $OPEN_PORT)" --want 60000
	ask far udp "$(with_port "$WORLD" $OPEN_PORT)"
	denied_to far "$(with_port "$WORLD" $DENIED_PORT)"
	chain '[{name: firewall}]'
	wait_for 10 try server "$(with_port "$WEB" $DENIED_PORT)"
}

# via FUNCTIONS PATH: a chain of them; a flow of the client passes PATH
via()
{
	local path
	chain "$1"
	wait_for 10 goes_by "$2"
	reaches_all
	path=$(on node1 "$MK_BIN" sessions -o json | jq -r "map(select(.via == \"$2\")) | length")
	((path > 5))
	denied_to client "$(with_port "$WORLD" $DENIED_PORT)"
}
goes_by()
{
	local port=$((RANDOM % 10000 + 20000))
	ask client tcp "$(with_port "$WORLD" $OPEN_PORT)" --from "$(with_port "$CLIENT" $port)"
	expect_eq "path" "$1" "$(on node1 "$MK_BIN" sessions -o json | jq -r ".[] | select(.from == \"$(with_port "$CLIENT" $port)\").via")"
}
# far_trace: `trace` names the functions, and the nodes where they run
far_trace()
{
	local said
	said=$(on node1 "$MK_BIN" trace shop/client "$WORLD" $OPEN_PORT)
	expect_match "trace" "sfc +chain [^ ]+: to pod inspection/ids-3 on node node3 by its port inside, interface mksfc.*sfc_overlay +chain [^ ]+: to pod inspection/middle-1 by its port inside.*sfc_port +chain [^ ]+: to pod inspection/firewall-2 on node node2 .*sfc_overlay +from the last function: leaves the chain.*forwarded" "${said//$'\n'/ }"
}
several()
{
	function_pod middle-1 middle Bridged
	NODE=node3 mover ids-3 ids
	via '[{name: firewall}, {name: ids}]' firewall-2,ids-3
	via '[{name: ids}, {name: middle}, {name: firewall}]' ids-3,middle-1,firewall-2
	far_trace
	lab rm middle-1
	lab rm ids-3
	chain '[{name: firewall}]'
	wait_for 10 goes_by firewall-2
}

# A tap on another node gets copies of both directions. It goes, and no packet misses it.
far_tap()
{
	NODE=node2 function_pod tap-2 look Tap
	on tap-2 timeout 60 tcpdump -i inside -lnc 2000 udp port $OPEN_PORT >"$TMP/copies" 2>"$TMP/tcpdump" &
	wait_for 10 grep -q listening "$TMP/tcpdump"
	chain '[{name: firewall}, {name: look, tap: true}]'
	wait_for 10 goes_by firewall-2,tap-2
	reaches_all
	wait_for 10 grep -qF "$WORLD.$OPEN_PORT: UDP" "$TMP/copies"
	wait_for 10 grep -qF "$WORLD.$OPEN_PORT > $CLIENT." "$TMP/copies"
	lab rm tap-2
	reaches_all
	chain '[{name: firewall}]'
	wait_for 10 goes_by firewall-2
}

too_large()
{
	local mtu
	mtu=$(on node1 jq -r '.plugins[0].mtu' /etc/cni/net.d/10-monokube.conflist)
	expect_eq "path MTU" "$mtu" "$(ask client udp "$(with_port "$WORLD" $OPEN_PORT)" --path-mtu --size "$(by_family 1460 1440)" --timeout 5)"
}

# ---- replicas that vanish

two_plain()
{
	lab rm plain-2 2>/dev/null || true # of a row that failed
	lab rm plain-3 2>/dev/null || true
	NODE=node2 function_pod plain-2 plain Bridged
	NODE=node3 function_pod plain-3 plain Bridged
	chain '[{name: plain}]'
	wait_for 10 serve_now plain 2
	wait_for 10 try client "$(with_port "$WORLD" $DENIED_PORT)"
}
# vanishes NAME: one of two replicas is removed under the load. Its flows go on, the other's lose nothing.
vanishes()
{
	local dead left=plain-3 lost
	load_world "$1"
	wait_for 10 all_by plain-2 plain-3
	dead=$(first_used plain-2 plain-3)
	[[ $dead == plain-2 ]] || left=plain-2
	udp_by "$left" >"$TMP/of-left"
	lab rm "$dead"
	wait_for 10 all_by "$left"
	none_by "$dead"
	sleep 1
	stop_load
	expect_eq "broken connections" "" "$(grep -E '^broken' "$TMP/load.$1" || true)"
	lost=$(comm -12 <(lost_of "$1") "$TMP/of-left")
	expect_eq "lost datagrams of the other replica" "" "$lost"
	ask client tcp "$(with_port "$WORLD" $OPEN_PORT)"
	echo "$left" >"$TMP/left"
}
removed()
{
	two_plain
	vanishes removed
	lab rm "$(<"$TMP/left")"
}

# Only the packets that come back say that the replica is gone
no_home()
{
	two_plain
	lab agent kill node1
	vanishes home
	lab agent start node1
	wait_for 10 serve_now plain 1
	lab rm "$(<"$TMP/left")"
}

no_agent_there()
{
	two_plain
	lab agent kill node2
	lab agent kill node3
	ask client tcp "$(with_port "$WORLD" $OPEN_PORT)" --want 60000
	vanishes there
	lab agent start node2
	lab agent start node3
	lab rm "$(<"$TMP/left")"
}

# ---- weights

# vias PORT: the replicas that the UDP flows to PORT pass, as a list
vias()
{
	on node1 "$MK_BIN" sessions -o json |
		jq -c --arg port ":$1" '[.[] | select(.protocol == "UDP" and .via and (.to | endswith($port))).via]'
}
all_open() { vias "$1" | jq -e 'length == 40'; }
# weighed PORT: flows of 40 that each replica has, as `plain_1=N plain_2=N`
weighed()
{
	load weighed client --light 40 "$(with_port "$WORLD" "$1")"
	wait_for 20 all_open "$1"
	stop_load
	vias "$1" | jq -r 'group_by(.) | map("\(.[0] | sub("-"; "_"))=\(length)") | join(" ")'
}
weights()
{
	local plain_1=0 plain_2=0 plain_3=0
	function_pod plain-1 plain Bridged
	NODE=node2 function_pod plain-2 plain Bridged
	NODE=node3 function_pod plain-3 plain Bridged --annotation $PREFIX/weight=0
	chain '[{name: plain}]'
	wait_for 10 serve_now plain 2
	wait_for 10 try client "$(with_port "$WORLD" $DENIED_PORT)"
	eval "$(weighed 7021)"
	echo "with localWeight 16: $plain_1 here, $plain_2 on node2, $plain_3 on node3"
	((plain_1 > 28 && plain_3 == 0))
	chain '[{name: plain, localWeight: 1}]'
	wait_for 10 evenly
}
# Until the tables have the new weight, most flows go to the replica of this node
evenly()
{
	local plain_1=0 plain_2=0 plain_3=0 port
	port=$(cat "$TMP/weight-port" 2>/dev/null || echo 7022)
	echo $((port + 1)) >"$TMP/weight-port"
	eval "$(weighed "$port")"
	echo "with localWeight 1: $plain_1 here, $plain_2 on node2, $plain_3 on node3"
	((plain_1 > 4 && plain_2 > 4 && plain_3 == 0))
}

# ---- others

# A packet for a function, from a host that is no node
stranger()
{
	local before node
	for node in node1 node2; do
		before=$(drop_count "$node" OVERLAY_STRANGER)
		on world "$HERE/forge.py" "$(in_family "192.168.99.1${node#node}")" 4789 --source "$WORLD" --kind vxlan --vni 2 --source-mac 02:00:00:00:00:01 \
			--dest-mac "$(on "$node" cat /sys/class/net/eth0/address)" --inner-mac "$(on "$node" cat /sys/class/net/mksfc/address)" --inner-source "$CLIENT" --inner-dest "$WORLD" --inner-port $OPEN_PORT
		wait_for 5 refused "$node" "$before"
	done
}
refused() { (($(drop_count "$1" OVERLAY_STRANGER) > $2)); }

lab up 3 --pods
consenting_namespace shop
CLIENT=$(lab pod node1 client --namespace shop)
WEB=$(lab pod node1 web --namespace shop)
SERVER=$(lab pod node2 server --namespace free)
FAR_POD=$(lab pod node3 far --namespace shop)
for pod in web server far; do
	serve "$pod" "$pod" --tcp $OPEN_PORT --udp $OPEN_PORT --tcp $DENIED_PORT
done
serve world world --tcp $OPEN_PORT --udp $OPEN_PORT --tcp $DENIED_PORT "${LOAD_PORTS[@]/#/--udp=}" "${LOAD_PORTS[@]/#/--tcp=}" --{udp,tcp}={7021..7029}
service_yaml web web "$VIP" "{port: 80, targetPort: $OPEN_PORT, nodePort: 30080}" | sed 's/metadata: {/&namespace: shop, /' | apply services
wait_for 10 ask client tcp "$(with_port "$VIP" 80)"

check "a firewall on another node: all protocols to all nodes and outside, and a port that it denies" elsewhere
check "Both directions: chained pods of two nodes" both_ends
check "functions on two and on three nodes, in two orders" several
check "a tap on another node gets copies of both directions; it goes, and nothing is lost" far_tap
check "a packet that is too large learns the overlay's MTU" too_large
check "a replica on another node is removed: its flows go on, the other's lose nothing" removed
check "... with the chained pod's agent dead" no_home
check "... with the functions' agents dead" no_agent_there
check "most flows stay on the node; localWeight 1: as many on another; weight 0: none" weights
check "a stranger's packet for a function is refused" stranger
finish
