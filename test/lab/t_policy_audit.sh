#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_policy_audit.sh - audited policies drop nothing and are reported: all of them by
# `networkPolicy: audit`, which a restart switches to enforce and back, and single ones by
# annotation, which changes under load (rules 59 and 60 of test/policy).
#
#   node1: web-1 client guest stranger      node2: web-2 far-guest
# web-in lets client in. guests-in lets guest in while it is in force. Nothing lets stranger in.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"
# shellcheck source=test/lab/lib/load.sh
. "$HERE/lib/load.sh"

CHANGES=20
declare -A PIPES=()

mk() { on node1 "$MK_BIN" "$@"; }
explain() { mk policy || true; mk drops || true; lab log node1 | tail -n 5; cat "$TMP"/load.* "$TMP"/denied.* || true; }

# policy NAME MODE SUBJECT MORE: MORE is of the spec
policy()
{
	apply "$1" <<-END
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: $1, namespace: default, annotations: {monokube.io/policy-mode: $2}}
		spec: {podSelector: {matchLabels: {app: $3}}, $4}
	END
}
PORTS='ports: [{port: 8080}, {port: 8080, protocol: UDP}]'
from() { echo "policyTypes: [Ingress], ingress: [{from: [{podSelector: {matchLabels: {app: $1}}}], $PORTS}]"; }

# reaches FROM PROTO ADDRESS yes|no
reaches()
{
	local status=0
	ask "$1" "$2" "$(with_port "$3" 8080)" --timeout "$([[ $4 == yes ]] && echo 2 || echo 0.4)" >/dev/null || status=$?
	expect_eq "$2 from $1 to $3" "$([[ $4 == yes ]] && echo 0 || echo 4)" $status
}
# guests yes|no: do guests of both nodes reach web pods of both?
guests()
{
	local proto
	for proto in tcp udp; do
		wait_for 10 reaches guest $proto "$ADDR_1" "$1"
		wait_for 10 reaches guest $proto "$ADDR_2" "$1"
		wait_for 10 reaches far-guest $proto "$ADDR_1" "$1"
	done
}

policy_audit_lab_up()
{
	MK_AGENT_FLAGS='--network-policy audit' lab up 2 --pods
	web_pods_up
	lab pod node1 guest >/dev/null
	lab pod node1 stranger >/dev/null
	lab pod node2 far-guest --label app=guest >/dev/null
	web_service_up
	policy web-in enforce web "$(from client)"
	load pod client "$ADDR_1:8080" "$ADDR_2:8080" "$VIP:8080"
	for proto in tcp udp; do
		hold "kept-$proto" client "$ADDR_1:8080" $proto
		hold "ends-$proto" guest "$ADDR_1:8080" $proto
	done
}

# restart MODE: both agents
restart()
{
	local node
	for node in node1 node2; do
		lab agent stop $node
		MK_AGENT_FLAGS="--network-policy $1" lab agent start $node
	done
}

policies_of() { mk pods "default/$1" -o json | jq -r '.[0].policies'; }
says() { expect_match "policy of $1 to web-1" "$2" "$(mk policy "default/$1" "$ADDR_1" 8080 || true)"; }

nothing_is_dropped()
{
	wait_for 10 says guest 'audit: would be denied: isolated by default/web-in'
	guests yes
	says client 'ingress: allowed'
	expect_eq "packets dropped" "0 0" "$(drop_count node1 POLICY_INGRESS) $(drop_count node1 POLICY_PENDING)"
	expect_match "state" 'default/web-1 +[^ ]+ +(audit of 1 +open|open +audit of 1) +0' "$(mk policy)"
	expect_match "count" '^[1-9]' "$(mk policy -o json | jq '.[] | select(.name == "default/web-1").audited')"
}

tools_say_it()
{
	expect_match "trace" 'policy +ingress audit, would be denied: isolated by default/web-in .*delivered' \
		"$(mk trace default/guest default/web-1 8080 | tr '\n' ' ')"
	on node1 timeout 3 "$MK_BIN" drops --follow >"$TMP/followed" &
	for ((i = 0; i < 6; i++)); do
		reaches guest tcp "$ADDR_1" yes
		sleep 0.3
	done
	wait $! || true
	expect_match "drops" ' AUDIT .*from="pod default/guest" .*policy="ingress of default/web-1: isolated by default/web-in' \
		"$(grep -m 1 AUDIT "$TMP/followed")"
	expect_eq "others" "" "$(grep POLICY_ "$TMP/followed" || true)"
}

# As rule 40, but nothing is pending.
nothing_is_pending()
{
	lab agent kill node1
	lab pod node1 web-9 >"$TMP/late" 2>"$TMP/add"
	lab pod node1 late --namespace never-seen >>"$TMP/late" 2>>"$TMP/add"
	expect_eq "what ADD says" "" "$(<"$TMP/add")"
	expect_eq "policies" open "$(policies_of web-9)"
	ask late tcp "$(with_port "$WORLD" 8080)"
	reaches web-9 tcp "$ADDR_1" yes
	MK_AGENT_FLAGS='--network-policy audit' lab agent start node1
	wait_for 10 sh -c "'$HERE/lab' exec node1 '$MK_BIN' policy | grep -qE 'default/web-9 .*audit of 1'"
	lab rm web-9
}

# Flows were known before, so nothing of those that stay is lost.
enforced()
{
	restart enforce
	guests no
	wait_for 10 reaches stranger udp "$ADDR_2" no
	exchange kept-tcp 2
	exchange kept-udp 2
	stands ends-tcp 1 node1 POLICY_INGRESS
	says guest 'ingress: denied'
}

audited_again()
{
	restart audit
	guests yes
	wait_for 20 holds ends-tcp 2
	exchange kept-tcp 3
	says guest 'audit: would be denied'
}

# Each change turns both policies over. `denied` asks all the time.
annotations_change()
{
	local change mode=(enforce audit) open=(yes no)
	restart enforce
	guests no
	denied stranger stranger "$(with_port "$ADDR_1" 8080)" "$(with_port "$ADDR_2" 8080)"
	for ((change = 0; change < CHANGES / 2; change++)); do
		policy guests-in "${mode[change % 2]}" web "$(from guest)"
		policy client-out "${mode[change % 2]}" client 'policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: web}}}]}]'
		wait_for 10 reaches guest tcp "$ADDR_1" "${open[change % 2]}"
		wait_for 10 reaches far-guest udp "$ADDR_1" "${open[change % 2]}"
		wait_for 10 reaches client tcp "$WORLD" "${open[(change + 1) % 2]}"
	done
	guests no
	stop_denied
	expect_eq "answers to stranger" "" "$(grep -h passed "$TMP"/denied.* || true)"
	expect_match "attempts" '^denied [0-9]{3}' "$(tail -n 1 "$TMP/denied.stranger")"
	exchange kept-tcp 4
	exchange kept-udp 3
}

nothing_is_lost()
{
	stop_load
	expect_eq "what broke or was lost" "" "$(grep -hE '^(broken|lost)' "$TMP"/load.* || true)"
	expect_eq "flows" 9 "$(awk '$1 == "flows" { sum += $2 } END { print sum }' "$TMP"/load.*)"
}

policy_audit_lab_up
check "networkPolicy audit: nothing is dropped, and it is counted (60)" nothing_is_dropped
check "\`trace\` and \`drops --follow\` say what would be denied" tools_say_it
check "no pod is pending, also without an agent" nothing_is_pending
check "switched to enforce: what is denied ends, the rest goes on" enforced
check "switched back: nothing is dropped" audited_again
check "$CHANGES changes of the annotation under load: nothing that is denied passes (59)" annotations_change
check "nothing that is allowed broke or was lost" nothing_is_lost
finish
