#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_chains_scale.sh - 2, 6 and 2 replicas of a stateful firewall, again and again, under 1,000 flows that
# last and others that come and end. The firewalls refuse a connection whose begin they did not see.
# ROUNDS=N: so often.
#
#   node1: shop/client, firewalls in inspection; world serves outside
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/load.sh
. "$HERE/lib/load.sh"
# shellcheck source=test/lab/lib/chains.sh
. "$HERE/lib/chains.sh"

ROUNDS=${ROUNDS:-2}
LASTING=(7001 7002 7003 7004 7005) # 100 flows of TCP and of UDP each
PASSING=(7011 7012 7013)           # 40

explain()
{
	on node1 "$MK_BIN" chains || true
	on node1 "$MK_BIN" drops
	lab log node1 | tail -n 5
}

# loading NAME N PORT...: N flows of TCP and of UDP to each port of world
loading()
{
	local ports=("${@:3}")
	load "$1" client --light "$2" "${ports[@]/#/$(with_port "$WORLD" '')}"
}

# forget_flows REPLICA...: what they noted. Ports come again in later rounds.
forget_flows()
{
	local replica set
	for replica in "$@"; do
		for set in out in; do
			on "$replica" nft flush set "$(<"$TMP/nft-family")" fw "$set"
		done
	done
}

has_flows() { (($(flows_of "$1" in | wc -l) >= $2)); }

stop_passing()
{
	end_all "$LOAD.*:${PASSING[0]}"
	wait_for 30 have_ended datagrams "$TMP/load.passing"
	expect_eq "passing flows" "" "$(broken_of passing)"
}

# with_six BEFORE AFTER: four more replicas get flows and end. BEFORE and AFTER are commands around the begin
# of these flows.
with_six()
{
	local replica
	forget_flows firewall-1 firewall-2
	for replica in firewall-{3..6}; do
		strict_firewall "$replica"
	done
	wait_for 10 serve_now firewall 6
	$1
	loading passing 40 "${PASSING[@]}"
	$2
	for replica in firewall-{3..6}; do
		wait_for 10 has_flows "$replica" 1
		lab state "$replica" ending
	done
	wait_for 10 serve_now firewall 2
	end_them
}
end_them()
{
	local replica
	wait_for 10 has_flows firewall-1 1
	sleep 1.5 # each flow asks once a second
	symmetric firewall-{1..6}
	stop_passing
	for replica in firewall-{3..6}; do
		lab rm "$replica"
	done
}

lasting_flows()
{
	loading lasting 100 "${LASTING[@]}"
	expect_eq "replicas" "2" "$(replicas firewall serving)"
	sleep 1.5
	symmetric firewall-1 firewall-2
	(($(flows_of firewall-1 in | wc -l) + $(flows_of firewall-2 in | wc -l) >= 1000))
	(($(flows_of firewall-1 in | wc -l) > 300 && $(flows_of firewall-2 in | wc -l) > 300))
}

rounds()
{
	local _
	for _ in $(seq "$ROUNDS"); do
		with_six true true
	done
}

nothing_broke()
{
	stop_load
	expect_eq "lasting flows" "" "$(broken_of lasting)"
	expect_eq "flows" "flows 1000" "$(grep ^flows "$TMP/load.lasting")"
	(($(sed -n 's/^exchanges //p' "$TMP/load.lasting") > 5000))
}

lab up 1 --pods
consenting_namespace shop
lab pod node1 client --namespace shop >/dev/null
serve world world "${LASTING[@]/#/--udp=}" "${LASTING[@]/#/--tcp=}" "${PASSING[@]/#/--udp=}" "${PASSING[@]/#/--tcp=}"
strict_firewall firewall-1
strict_firewall firewall-2
chain '[{name: firewall}]'
wait_for 10 serve_now firewall 2

check "1,000 flows by two replicas: each sees both directions of its own" lasting_flows
check "2, 6 and 2 replicas, $ROUNDS times: no passing flow breaks, no flow is in two" rounds
check "... with the agent killed while six serve" with_six 'lab agent kill node1' 'lab agent start node1'
check "none of the 1,000 flows broke" nothing_broke
echo "# packets that entered functions: $(($(packets firewall toInside) + $(packets firewall toOutside)))"
finish
