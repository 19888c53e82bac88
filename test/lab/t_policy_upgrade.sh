#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_policy_upgrade.sh - under load and with network policies in force, the agent of node1 is
# killed and restarted, a later version (`make ENLARGED=1`) takes over, and policies are switched off and
# on: nothing that is denied passes, nothing that is allowed is lost (rules 33, 36 of test/policy).
# With MK_EARLIER, the binary of a version without policies, that version runs first (41).
#
#   node1: web-1 client guest      node2: web-2 far-guest
# web lets client, world and node1 (14) in. guest may send nothing, far-guest has no policy.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/load.sh
. "$HERE/lib/load.sh"
# shellcheck source=test/lab/lib/later.sh
. "$HERE/lib/later.sh"

IP=$(by_family ip ip6)

explain() { lab log node1 | tail -n 15; cat "$TMP"/load.* "$TMP"/denied.*; on node1 "$MK_BIN" drops || true; }

policies()
{
	cat <<-END
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: web-in, namespace: default}
		spec:
		  podSelector: {matchLabels: {app: web}}
		  ingress:
		  - from: [{podSelector: {matchLabels: {app: client}}}, {ipBlock: {cidr: $WORLD/$BITS}}, {ipBlock: {cidr: $NODE1/$BITS}}]
		    ports: [{port: 8080}, {port: 8080, protocol: UDP}]
		---
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: client-out, namespace: default}
		spec:
		  podSelector: {matchLabels: {app: client}}
		  policyTypes: [Egress]
		  egress: [{to: [{podSelector: {matchLabels: {app: web}}}, {ipBlock: {cidr: $FAR/$BITS}}]}]
		---
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: guest-out, namespace: default}
		spec: {podSelector: {matchLabels: {app: guest}}, policyTypes: [Egress]}
	END
}

# What guests send and web-1 or the world sees; world sees them masqueraded, so they ask port 9090 there.
came()
{
	ip netns exec "$MK_LAB.$1" nft -j list table "$IP" watch |
		jq '[.nftables[].rule? // empty | .expr[] | .counter? // empty | .packets] | add'
}
nothing_came()
{
	expect_eq "answers" "" "$(grep -h passed "$TMP"/denied.* || true)"
	expect_eq "packets of guests that web-1 saw" 0 "$(came web-1)"
	expect_eq "packets of guests that world saw" 0 "$(came world)"
}
watch_all()
{
	ip netns exec "$MK_LAB.web-1" nft "add rule $IP watch first $IP saddr { $GUEST, $FAR_GUEST } counter"
	ip netns exec "$MK_LAB.world" nft "add rule $IP watch first udp dport 9090 counter; add rule $IP watch first tcp dport 9090 counter"
}

policy_upgrade_lab_up()
{
	MK_BIN=${MK_EARLIER:-$MK_BIN} lab up 2 --pods
	web_pods_up
	GUEST=$(lab pod node1 guest)
	FAR_GUEST=$(lab pod node2 far-guest --label app=far)
	web_service_up
	policies | apply policies
	load pod client "$ADDR_2:8080" "$VIP:8080" "$FAR:8080"
	load world world "$NODE1:30080"
	for where in web-1 world; do
		ip netns exec "$MK_LAB.$where" nft "add table $IP watch; add chain $IP watch first { type filter hook prerouting priority -400; }"
	done
}

closed() { expect_eq "$1 to $2" timeout "$(ask "$1" tcp "$2" --timeout 0.4 || true)"; }
all_closed()
{
	local to
	for to in "$ADDR_1:8080" "$ADDR_2:8080" "$WORLD:8080"; do
		wait_for 10 closed guest "$(with_port "${to%:*}" 8080)"
	done
	wait_for 10 closed far-guest "$(with_port "$ADDR_1" 8080)"
}

# They begin when everything is closed, and end before anything is opened.
denials_begin()
{
	all_closed
	for where in web-1 world; do
		ip netns exec "$MK_LAB.$where" nft "flush chain $IP watch first"
	done
	watch_all
	denied guest guest "$(with_port "$ADDR_1" 8080)" "$(with_port "$ADDR_2" 8080)" "$(with_port "$WORLD" 9090)"
	denied far-guest far-guest "$(with_port "$ADDR_1" 8080)"
}
denials_end()
{
	stop_denied
	nothing_came
	(($(awk '$1 == "denied" { sum += $2 } END { print sum }' "$TMP"/denied.*) > 100))
}

new_ones_work()
{
	local to
	for to in "$ADDR_2" "$VIP" "$FAR"; do
		wait_for 10 ask client tcp "$(with_port "$to" 8080)" --timeout 1
	done
	wait_for 10 ask world tcp "$(with_port "$NODE1" 30080)" --timeout 1
}

# A version before policies did not write which Pod an address is for.
files_of_earlier_version()
{
	all_closed
	lab agent stop node1
	on node1 find /var/lib/monokube/ipam -type f -regextype posix-extended -regex '.*/([0-9.]+|[0-9a-f]{32})' -exec sed -i "5,\$d" {} +
	lab agent start node1
	new_ones_work
	all_closed
	expect_eq "policies of guest" egress "$(on node1 "$MK_BIN" pods default/guest -o json | jq -r '.[0].policies')"
}

earlier_version()
{
	[[ ${MK_EARLIER:-} ]] || { files_of_earlier_version; return; }
	ask guest tcp "$(with_port "$ADDR_1" 8080)"
	lab agent stop node1
	lab agent start node1
	lab agent stop node2
	lab agent start node2
	new_ones_work
	all_closed
}

killed_and_restarted()
{
	local verb
	for verb in kill stop kill; do
		lab agent "$verb" node1
		new_ones_work
		lab agent start node1
		new_ones_work
	done
	nothing_came
}

upgraded()
{
	later_is_killed new_ones_work 0.1 0.25
	later agent start node1
	new_ones_work
	nothing_came
}

downgrade_refused()
{
	lab agent stop node1
	expect_failure lab agent start node1 2>/dev/null
	new_ones_work
	nothing_came
	later agent start node1
}

# Allowed flows go on with policies off and on. Denied flows end when policies are enforced again.
switched_off_and_on()
{
	lab agent stop node1
	MK_AGENT_FLAGS='--network-policy off' later agent start node1
	wait_for 10 ask guest tcp "$(with_port "$WORLD" 8080)" --timeout 1
	wait_for 10 ask far-guest tcp "$(with_port "$ADDR_1" 8080)" --timeout 1
	new_ones_work
	lab agent stop node1
	later agent start node1
	denials_begin
	new_ones_work
	sleep 1
	denials_end
}

# When a pod becomes isolated, an answer of UDP on its way may be lost, one of each flow (33).
nothing_is_lost()
{
	stop_load
	expect_eq "what broke" "" "$(grep -h '^broken' "$TMP"/load.* || true)"
	expect_eq "what was lost twice" "" "$(grep -h '^lost' "$TMP"/load.* | awk '{ print $3 }' | sort | uniq -d)"
	expect_eq "flows" 12 "$(awk '$1 == "flows" { sum += $2 } END { print sum }' "$TMP"/load.*)"
}

policy_upgrade_lab_up
check "a version without policies is upgraded: open connections go on (33, 41)" earlier_version
check "what is denied" denials_begin
check "killed, stopped, killed: nothing that is denied passes (36)" killed_and_restarted
check "a later version is killed twice on its way, and takes over" upgraded
check "the version before is refused" downgrade_refused
check "nothing that was denied has passed" denials_end
check "policies are switched off and on again" switched_off_and_on
check "no connection broke, and of no flow two datagrams were lost" nothing_is_lost
finish
