#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_upgrade.sh - an agent of a later version, whose sessions are longer (`make
# ENLARGED=1`), takes a node over under load; it is killed several times, and at last not. Then the
# previous version is refused. Part of the load passes a firewall, which has a replica on each node, and part
# passes a chain with ends, which has two other firewalls on node1.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"
# shellcheck source=test/lab/lib/load.sh
. "$HERE/lib/load.sh"
# shellcheck source=test/lab/lib/witness.sh
. "$HERE/lib/witness.sh"
# shellcheck source=test/lab/lib/later.sh
. "$HERE/lib/later.sh"
# shellcheck source=test/lab/lib/chains.sh
. "$HERE/lib/chains.sh"

MAPS=$PINS
declare -A PIPES=()

explain() { lab log node1 | tail -n 15; cat "$TMP"/load.* "$TMP"/denied.*; }

upgrade_lab_up()
{
	lab up 2 --pods
	web_pods_up
	web_service_up
	hold idle client "$VIP:8080"
	hold idle-port world "$NODE1:30080"
	hold idle-outside client "$FAR:8080"
	witness 10.244.1.0/24 30080 "$FAR"
	load pod client "$ADDR_2:8080" "$VIP:8080" "$FAR:8080"
	load world world "$NODE1:30080"
	chained_up node1
	chained_load
	wait_for 10 all_have_paths node1
	chained_paths node1 >"$TMP/paths"
	ends_up
	load ends inner "${LOAD_PORTS[@]/#/$(with_port "$SERVER" '')}"
}

# The pod inner asks the pod outer by their ports of ends.
ends_up()
{
	local wall
	end_pod inner client "$CLIENT" "$SERVERS"
	end_pod outer server "$SERVER" "$CLIENTS"
	serve outer outer "${LOAD_PORTS[@]/#/--tcp=}" "${LOAD_PORTS[@]/#/--udp=}" --tcp $OPEN_PORT
	for wall in wall-1 wall-2; do
		function_pod $wall wall Bridged
		rules_in $wall
	done
	end_chain '[{name: wall}]'
	wait_for 20 serve_now wall 2
	wait_for 20 ask inner tcp "$(with_port "$SERVER" $OPEN_PORT)" --timeout 1
}

session_bytes() { on node1 bpftool -j map show pinned "$MAPS/sessions" | jq .bytes_value; }

new_ones_work()
{
	wait_for 10 ask client tcp "$ADDR_2:8080" --timeout 1
	wait_for 10 ask client tcp "$VIP:8080" --timeout 1
	wait_for 10 ask client tcp "$FAR:8080" --timeout 1
	wait_for 10 ask world tcp "$NODE1:30080" --timeout 1
	wait_for 10 ask shopper tcp "$STORE_VIP:$OPEN_PORT" --timeout 1
	wait_for 10 ask inner tcp "$(with_port "$SERVER" $OPEN_PORT)" --timeout 1
}

killed_on_its_way()
{
	later_is_killed new_ones_work 0.05 0.15 0.25 0.35
	pulse 2
}

is_upgraded()
{
	later agent start node1
	expect_eq "bytes of a session" "$(by_family 80 104)" "$(session_bytes)"
	new_ones_work
	pulse 3
	expect_eq "pins that are left of the change" "" "$(on node1 ls "$MAPS" | grep -E '_(new|before)_[0-9]' || true)"
}

# The running state: programs at the hooks, also of pods, ports and chains, tables, the plugin.
datapath()
{
	on node1 sh -c "
		for device in \$(ls /sys/class/net); do
			echo \$device; tc filter show dev \$device ingress; tc filter show dev \$device egress
		done
		ip -d link show mksfc; bridge fdb show dev mksfc
		for map in chains functions ports tags; do bpftool map dump pinned $MAPS/sfc_\$map; done
		for map in $MAPS/*; do bpftool map show pinned \$map; done | grep -oE '^[0-9]+: .*flags'
		md5sum /opt/cni/bin/monokube"
}

downgrade_is_refused()
{
	local before start
	lab agent stop node1
	before=$(datapath)
	grep -q sfc_port <<<"$before" && grep -q sfc_overlay <<<"$before"
	start=$(log_size)
	expect_failure lab agent start node1
	logged "$start" 'does not start: the tables in .* are of version 2 .* knows up to version 1\. .*not touched.*monokube cleanup'
	diff <(echo "$before") <(datapath)
	new_ones_work
	pulse 4
}

pod_starts_meanwhile()
{
	lab pod node1 late --label app=late >/dev/null
	ask late tcp "$VIP:8080" --timeout 5
	lab rm late
}

goes_on()
{
	later agent start node1
	new_ones_work
	pulse 5
}

function_decides()
{
	stop_denied
	expect_eq "denied by functions, but answered" "" "$(grep ^passed "$TMP"/denied.* || true)"
	expect_match "attempts" '^denied [0-9]{3,}' "$(tail -n 1 "$TMP"/denied.chained)"
	expect_eq "chained flows" "$(<"$TMP/paths")" "$(MK_BIN=$LATER chained_paths node1)"
	symmetric guard-1 guard-2
	symmetric wall-1 wall-2
}

nothing_is_lost()
{
	stop_load
	expect_eq "what broke or was lost" "" "$(grep -hE '^(broken|lost)' "$TMP"/load.* || true)"
	expect_eq "flows" 36 "$(awk '$1 == "flows" { sum += $2 } END { print sum }' "$TMP"/load.*)"
}

no_tail_call_is_missed()
{
	expect_eq "packets at an empty slot of the chain" 0 "$(drop_count node1 CHAIN_BROKEN)"
	expect_eq "packets without a backend" 0 "$(drop_count node1 NO_BACKEND)"
}

no_hook_is_without_program() { expect_eq "packets that met a hook without its program" 0 "$(witnessed)"; }

# The witness does see a hook without its program.
one_is_seen()
{
	lab agent stop node1
	on node1 tc filter del dev eth0 ingress
	ask world tcp "$NODE1:30080" --timeout 1 || true
	expect_failure no_hook_is_without_program
}

upgrade_lab_up
check "a later version is killed on its way, four times" killed_on_its_way
check "a later version takes over, with longer sessions" is_upgraded
check "the version before is refused, and touches nothing" downgrade_is_refused
check "a pod starts meanwhile" pod_starts_meanwhile
check "the later version comes back" goes_on
check "chained flows keep their replicas, and nothing passes that these deny" function_decides
check "no connection broke and no datagram was lost" nothing_is_lost
check "no tail call was missed" no_tail_call_is_missed
check "no packet met a hook without its program" no_hook_is_without_program
check "... which would have been seen" one_is_seen
finish
