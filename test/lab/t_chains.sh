#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_chains.sh - service function chains on one node, with functions that are Debian's own: nftables
# with connection tracking in a bridge, and a program between two bare ports. Replicas come, end, and
# are killed under open flows.
#
#   node1: shop/client, shop/web, free/stranger, functions in inspection; world serves outside
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/load.sh
. "$HERE/lib/load.sh"
# shellcheck source=test/lab/lib/chains.sh
. "$HERE/lib/chains.sh"

explain()
{
	on node1 "$MK_BIN" chains || true
	on node1 "$MK_BIN" drops
	lab log node1 | tail -n 5
}

# ---- rows

through_firewall()
{
	local before
	firewall firewall-1
	chain '[{name: firewall}]'
	wait_for 10 serve_now firewall 1
	wait_for 10 denied_to client "$(with_port "$WORLD" $DENIED_PORT)"
	ask client tcp "$(with_port "$WORLD" $OPEN_PORT)" --size 20000 --want 50000
	ask client udp "$(with_port "$WORLD" $OPEN_PORT)"
	ask client tcp "$(with_port "$VIP" 80)"
	on client ping -c 1 -W 2 "$WORLD"
	before=$(counted firewall-1 denied)
	denied_to client "$(with_port "$WORLD" $DENIED_PORT)"
	(($(counted firewall-1 denied) > before))
	(($(counted firewall-1 outward) > 10 && $(counted firewall-1 inward) > 10))
	expect_eq "flows inward" "$(flows_of firewall-1 out)" "$(flows_of firewall-1 in)"
	# the datapath counts segments, nftables unfinished large packets
	(($(packets firewall toInside) > $(packets firewall fromOutside)))
	(($(packets firewall fromOutside) >= $(counted firewall-1 outward) && $(packets firewall fromInside) >= $(counted firewall-1 inward)))
}

not_taken()
{
	try stranger "$(with_port "$WORLD" $DENIED_PORT)"
	expect_eq "from its own node" web "$(ask node1 tcp "$(with_port "$WEB" $DENIED_PORT)" | cut -d ' ' -f 1)"
	chain '[{name: firewall}]' 'peers: [{outside: true}]'
	wait_for 10 try client "$(with_port "$WEB" $DENIED_PORT)"
	denied_to client "$(with_port "$WORLD" $DENIED_PORT)"
	chain '[{name: firewall}]' "ports: [{protocol: TCP, port: $OPEN_PORT}]"
	wait_for 10 try client "$(with_port "$WORLD" $DENIED_PORT)"
	chain '[{name: firewall}]'
	wait_for 10 denied_to client "$(with_port "$WORLD" $DENIED_PORT)"
}

# The first function is next to the pod: what it drops, the second one never sees.
in_order()
{
	local before
	mover ids-1 ids
	chain '[{name: firewall}, {name: ids}]'
	wait_for 10 serve_now ids 1
	wait_for 10 passes_ids
	before=$(packets ids toInside)
	denied_to client "$(with_port "$WORLD" $DENIED_PORT)"
	expect_eq "denied packets at ids" "$before" "$(packets ids toInside)"
	chain '[{name: ids}, {name: firewall}]'
	wait_for 10 denied_after_ids
	expect_eq "the path of a flow" client "$(ask client tcp "$(with_port "$WORLD" $OPEN_PORT)" >/dev/null && on node1 "$MK_BIN" sessions -o json |
		jq -r 'map(select(.via == "ids-1,firewall-1").who)[0]' | sed 's|.*/||')"
	traced
	lab rm ids-1
	chain '[{name: firewall}]'
	wait_for 10 serve_now ids 0
}
# A trace passes both functions without a packet, and counts nowhere.
traced()
{
	local said before
	before=$(packets ids toInside)
	said=$(on node1 "$MK_BIN" trace shop/client "$WORLD" $OPEN_PORT)
	expect_match "trace" 'sfc +chain inspection/shop-egress: to pod inspection/ids-1 by its port inside.*sfc_port +chain inspection/shop-egress: to pod inspection/firewall-1 by its port inside.*leaves the chain.*outside of the cluster.*forwarded' "${said//$'\n'/ }"
	expect_eq "packets" "$before" "$(packets ids toInside)"
}
passes_ids()
{
	local before
	before=$(packets ids fromOutside)
	ask client tcp "$(with_port "$WORLD" $OPEN_PORT)"
	(($(packets ids fromOutside) > before))
}
denied_after_ids()
{
	local before
	before=$(packets ids toInside)
	denied_to client "$(with_port "$WORLD" $DENIED_PORT)"
	(($(packets ids toInside) > before))
}

scaled()
{
	load_world old
	firewall firewall-2
	firewall firewall-3
	wait_for 10 serve_now firewall 3
	load_world new
	sleep 1
	symmetric firewall-1 firewall-2 firewall-3
	lab state firewall-2 ending
	lab state firewall-3 ending
	wait_for 10 serve_now firewall 1
	sleep 1
	stop_load
	expect_eq "old flows" "" "$(broken_of old)"
	expect_eq "new flows" "" "$(broken_of new)"
	symmetric firewall-1 firewall-2 firewall-3
	(($(flows_of firewall-2 out | wc -l) + $(flows_of firewall-3 out | wc -l) > 0))
	flows_of firewall-2 out >"$TMP/before"
	for _ in {1..20}; do
		ask client tcp "$(with_port "$WORLD" $OPEN_PORT)"
	done
	expect_eq "new flows of a replica that ends" "$(<"$TMP/before")" "$(flows_of firewall-2 out)"
	lab rm firewall-2
	lab rm firewall-3
	ask client tcp "$(with_port "$WORLD" $OPEN_PORT)"
}

unavailable()
{
	local before
	before=$(drop_count node1 SFC_UNAVAILABLE)
	chain '[{name: firewall}, {name: absent}]'
	wait_for 10 denied_to client "$(with_port "$WORLD" $OPEN_PORT)"
	(($(drop_count node1 SFC_UNAVAILABLE) > before))
	expect_status 1 on node1 "$MK_BIN" chains
	chain '[{name: firewall}, {name: absent, whenUnavailable: Skip}]'
	wait_for 10 try client "$(with_port "$WORLD" $OPEN_PORT)"
	denied_to client "$(with_port "$WORLD" $DENIED_PORT)"
	expect_status 0 on node1 "$MK_BIN" chains
	lab state firewall-1 unready
	wait_for 10 denied_to client "$(with_port "$WORLD" $OPEN_PORT)"
	lab state firewall-1 ready
	wait_for 10 try client "$(with_port "$WORLD" $OPEN_PORT)"
}

# Two bridges without rules: no function state is lost with a replica.
killed()
{
	local dead left lost
	function_pod plain-1 plain Bridged
	function_pod plain-2 plain Bridged
	chain '[{name: plain}]'
	wait_for 10 serve_now plain 2
	wait_for 10 try client "$(with_port "$WORLD" $DENIED_PORT)"
	load_world kill
	wait_for 10 all_by plain-1 plain-2
	dead=$(first_used plain-1 plain-2)
	left=plain-2
	[[ $dead == plain-1 ]] || left=plain-1
	udp_by "$left" >"$TMP/of-left"
	lab rm "$dead"
	wait_for 10 all_by "$left"
	sleep 1
	stop_load
	expect_eq "broken connections" "" "$(grep -E '^broken' "$TMP/load.kill" || true)"
	lost=$(comm -12 <(lost_of kill) "$TMP/of-left")
	expect_eq "lost datagrams of the other replica" "" "$lost"
	lab rm "$left"
}
no_agent()
{
	local dead replica
	function_pod plain-3 plain Bridged
	function_pod plain-4 plain Bridged
	function_pod plain-5 plain Bridged
	chain '[{name: plain}]'
	wait_for 10 serve_now plain 3
	wait_for 10 try client "$(with_port "$WORLD" $DENIED_PORT)"
	lab agent kill node1
	without_agent
	lab agent start node1
	wait_for 10 serve_now plain 2
	try client "$(with_port "$WORLD" $DENIED_PORT)"
	for replica in plain-3 plain-4 plain-5; do
		[[ $replica == "$dead" ]] || lab rm "$replica"
	done
}
without_agent()
{
	load_world dead
	wait_for 10 all_by plain-3 plain-4 plain-5
	dead=$(first_used plain-3 plain-4 plain-5)
	lab rm "$dead"
	wait_for 10 none_by "$dead"
	expect_eq "new flows without an answer" "" "$(tries 20 | grep -v '^world ' || true)"
	stop_load
	expect_eq "broken connections" "" "$(grep -E '^broken' "$TMP/load.dead" || true)"
	expect_match "state of the removed replica" "$dead +node1 +[0-9]+ +gone" "$(on node1 "$MK_BIN" chains)"
}
tries() { for _ in $(seq "$1"); do try client "$(with_port "$WORLD" $DENIED_PORT)" || true; done; }
# Whatever a function sends goes nowhere, unless it is a packet of its flows. It may send as fast as it can: flows
# of another chain, and of a pod without one, go on.
hostile()
{
	local forged reflected
	mover mirror-1 mirror reflect
	count_forged world
	count_forged client
	load_beside
	chain '[{name: mirror}]'
	wait_for 10 serve_now mirror 1
	reflected=$(drop_count node1 SFC_REFLECTED)
	wait_for 10 denied_to client "$(with_port "$WORLD" $OPEN_PORT)"
	(($(drop_count node1 SFC_REFLECTED) > reflected))
	forged=$(drop_count node1 SFC_FORGED)
	send_udp mirror-1 outside "$CLIENT" "$WORLD"
	send_udp mirror-1 outside "$FAR" "$WORLD"
	send_udp mirror-1 inside "$WORLD" "$CLIENT"
	wait_for 5 forged_since $((forged + 3))
	flood_of outside "$CLIENT" "$WORLD"
	flood_of inside "$WORLD" "$CLIENT"
	wait_for 10 forged_since $((forged + 3 + 2 * FORGED))
	stop_load
	expect_eq "connections beside that broke" "" "$(grep -hE '^broken' "$TMP/load.chained" "$TMP/load.free" || true)"
	expect_eq "forged packets that arrive" "0 0" "$(arrived world) $(arrived client)"
	lab delete "$TMP/beside.yaml" >/dev/null
	lab rm mirror-1
	lab rm beside-1
}
FORGED=100000 BITS=$(by_family 32 128) FLOODER=$(dirname "$MK_BIN")/test/lab/flood
flood_of() { on mirror-1 "$FLOODER" "$1" 02:4d:0a:00:00:01 udp "$2/$BITS" "$3/$BITS" 53 $FORGED; }
count_forged() { on "$1" nft "table inet forged { counter seen { }; chain in { type filter hook input priority 0; udp dport 53 counter name seen; }; }"; }
arrived() { on "$1" nft -j list counter inet forged seen | jq '.nftables[] | select(.counter).counter.packets'; }
load_beside()
{
	function_pod beside-1 beside Bridged
	apply beside <<-END
		---
		apiVersion: $PREFIX/v1alpha1
		kind: ServiceFunctionChain
		metadata: {name: beside, namespace: inspection}
		spec: {traffic: {podSelector: {matchLabels: {app: books}}, direction: Egress}, functions: [{name: beside}]}
	END
	wait_for 10 serve_now beside 1
	wait_for 10 passes_beside
	load chained books "${LOAD_PORTS[@]/#/$(with_port "$WORLD" '')}"
	load free stranger "${LOAD_PORTS[@]/#/$(with_port "$WORLD" '')}"
}
passes_beside()
{
	local before
	before=$(packets beside fromOutside)
	ask books tcp "$(with_port "$WORLD" $OPEN_PORT)"
	(($(packets beside fromOutside) > before))
}
forged_since() { (($(drop_count node1 SFC_FORGED) >= $1)); }

# send_udp POD PORT SOURCE DESTINATION: a datagram that belongs to no flow
send_udp() { on "$1" "$HERE/datagram.py" "$2" 02:4d:0a:00:00:01 "$3" "$4"; }

deleted()
{
	local before
	chain '[{name: firewall}]'
	wait_for 10 denied_to client "$(with_port "$WORLD" $DENIED_PORT)"
	load_world direct
	no_chain
	wait_for 10 try client "$(with_port "$WORLD" $DENIED_PORT)"
	before=$(counted firewall-1 outward)
	try client "$(with_port "$WORLD" $OPEN_PORT)"
	sleep 0.3
	expect_eq "packets by the firewall" "$before" "$(counted firewall-1 outward)"
	stop_load
	expect_eq "open flows" "" "$(broken_of direct)"
	expect_eq "chains" "" "$(on node1 "$MK_BIN" chains -o json | jq -r '.functions[].chain')"
}

# The pods and target ports of a Service, whether the client uses it or not.
behind_service()
{
	books_service "{name: a, port: 80, targetPort: http}, {name: b, port: 81, targetPort: $DENIED_PORT}"
	wait_for 10 try stranger "$(with_port "$VIP2" 81)"
	service_chain
	wait_for 10 denied_to stranger "$(with_port "$VIP2" 81)"
	denied_to stranger "$(with_port "$BOOKS" $DENIED_PORT)"
	passes_firewall "$VIP2" 80
	passes_firewall "$BOOKS" $OPEN_PORT
	passes_by "$BOOKS" $OTHER_PORT
	expect_match "trace" 'sfc.*chain inspection/dpi: to pod inspection/firewall-1 by its port outside' "$(on node1 "$MK_BIN" trace free/stranger "$VIP2" 80 | tr '\n' ' ')"
	expect_match "chained pods" 'inspection/books +[^ ]+ +ingress +inspection/dpi +TCP http, TCP 8081' "$(on node1 "$MK_BIN" chains)"
	held_behind_service
	service_changes
}
service_changes()
{
	books_service "{port: 80, targetPort: $OTHER_PORT}"
	wait_for 10 try stranger "$(with_port "$BOOKS" $DENIED_PORT)"
	passes_firewall "$BOOKS" $OTHER_PORT
	passes_by "$BOOKS" $OPEN_PORT
	books_service "{port: 80, targetPort: $DENIED_PORT}"
	wait_for 10 denied_to stranger "$(with_port "$BOOKS" $DENIED_PORT)"
	lab delete "$TMP/books.yaml" >/dev/null
	wait_for 10 try stranger "$(with_port "$BOOKS" $DENIED_PORT)"
	wait_for 10 says_no_service chains
	wait_for 10 says_no_service check
	lab delete "$TMP/dpi.yaml" >/dev/null
}
# The agent does not know a pod that comes now: nothing passes by the chain.
held_behind_service()
{
	local new
	lab agent kill node1
	new=$(lab pod node1 books-2 --namespace inspection)
	serve books-2 books --tcp $OPEN_PORT --tcp $DENIED_PORT
	denied_to stranger "$(with_port "$new" $OPEN_PORT)"
	lab agent start node1
	wait_for 10 try stranger "$(with_port "$new" $OPEN_PORT)"
	denied_to stranger "$(with_port "$new" $DENIED_PORT)"
	lab rm books-2
}
books_service() { service_yaml books books "$VIP2" "$1" | sed 's/metadata: {/&namespace: inspection, /' | apply books; }
service_chain()
{
	apply dpi <<-END
		---
		apiVersion: $PREFIX/v1alpha1
		kind: ServiceFunctionChain
		metadata: {name: dpi, namespace: inspection}
		spec: {traffic: {service: books}, functions: [{name: firewall}]}
	END
}
passes_firewall()
{
	local before
	before=$(packets firewall fromOutside)
	try stranger "$(with_port "$1" "$2")"
	(($(packets firewall fromOutside) > before))
}
passes_by()
{
	local before
	before=$(packets firewall fromOutside)
	try stranger "$(with_port "$1" "$2")"
	expect_eq "packets by the firewall" "$before" "$(packets firewall fromOutside)"
}
says_no_service() { on node1 "$MK_BIN" "$1" 2>&1 | grep -q 'Service inspection/books does not exist, so the chain takes no pod'; }

lab up 1 --pods
consenting_namespace shop
CLIENT=$(lab pod node1 client --namespace shop)
WEB=$(lab pod node1 web --namespace shop)
lab pod node1 stranger --namespace free >/dev/null
serve web web --tcp $OPEN_PORT --tcp $DENIED_PORT
serve world world --tcp $OPEN_PORT --udp $OPEN_PORT --tcp $DENIED_PORT "${LOAD_PORTS[@]/#/--udp=}" "${LOAD_PORTS[@]/#/--tcp=}"
BOOKS=$(lab pod node1 books --namespace inspection)
VIP2=$(by_family 10.96.66.2 fd00:10:96:66::2) OTHER_PORT=8082
serve books books --tcp $OPEN_PORT --tcp $DENIED_PORT --tcp $OTHER_PORT
service_yaml web web "$VIP" "{port: 80, targetPort: $OPEN_PORT}" | sed 's/metadata: {/&namespace: shop, /' | apply services
wait_for 10 ask client tcp "$(with_port "$VIP" 80)"

check "a chained pod reaches servers and a Service by the firewall, which denies a port" through_firewall
check "without consent, from the node itself, other peers and ports: not taken" not_taken
check "two functions, in both orders" in_order
check "1, 3 and 1 replicas under open flows: none breaks, both directions are in one replica" scaled
check "no replica: Block blocks, Skip passes by" unavailable
check "a replica is killed: its flows go on by the other one, whose flows lose nothing" killed
check "no agent: flows go on, and a replica that is removed gets no packet" no_agent
check "forged and reflected packets are counted, arrive nowhere, and a flood of them harms no other flow" hostile
check "without the chain, traffic goes directly" deleted
check "a Service: its pods and target ports, as they change; a new pod is held; deleted" behind_service
finish
