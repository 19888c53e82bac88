#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_policy_tools.sh - what `monokube policy`, `trace`, `drops --follow` and `monitor` say
# about the policies of manifests/POLICIES.md is what real packets meet.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

export MK_AGENT_FLAGS='--log-denied true'
PORTS=(8080 9090)
METRICS=127.0.0.1:10249

mk() { on node1 "$MK_BIN" "$@"; }
explain() { mk policy || true; mk drops || true; }

policy_tools_up()
{
	lab up 2 --pods
	for of in shop/web shop/client monitoring/prometheus guests/visitor; do
		lab pod node1 "${of#*/}" --namespace "${of%/*}" --port metrics=9090 >"$TMP/address.${of#*/}"
	done
	lab pod node2 far --namespace shop >"$TMP/address.far"
	for port in "${PORTS[@]}"; do
		serve web web --tcp "$port"
		serve far far --tcp "$port"
		serve world world --tcp "$port"
	done
	WEB=$(<"$TMP/address.web")
	FAR=$(<"$TMP/address.far")
	# each policy of the page is a file of its own
	awk -v dir="$TMP" '/^```yaml/ { file = dir "/policy-" ++n ".yaml"; next } /^```/ { file = "" } file { print > file }' \
		"$HERE/../../manifests/POLICIES.md"
}

# at ADDRESS PORT: as one word
at() { [[ $1 == *:* ]] && echo "[$1]:$2" || echo "$1:$2"; }
is_isolated() { mk policy shop/client -o json | jq -e 'any(.action == "deny")'; }

# agrees FROM ADDRESS PORT: a connection and `monokube policy` on the node of FROM have one answer
agrees()
{
	local says=0 meets=0
	mk policy "$1" "$2" "$3" >"$TMP/says" || says=$?
	ask "$1" tcp "$(at "$2" "$3")" --timeout 1 >/dev/null || meets=1
	expect_eq "$1 to $2 port $3: $(<"$TMP/says")" "$((says != 0))" "$meets"
}

all_agree()
{
	for from in client prometheus visitor; do
		for port in "${PORTS[@]}"; do
			agrees $from "$WEB" "$port"
		done
	done
	agrees web "$WORLD" 8080
	agrees web "$FAR" 8080
}

policies_in_force()
{
	lab apply "$TMP/policy-1.yaml"
	wait_for 10 is_isolated
	all_agree
	lab apply "$TMP"/policy-[234].yaml
	wait_for 10 sh -c "'$HERE/lab' exec node1 '$MK_BIN' policy shop/web | grep -q to-bank"
	all_agree
	expect_eq "metrics" 0 "$(mk policy prometheus web 9090 >/dev/null && echo $?)"
}

traces()
{
	expect_match "denied" 'policy +ingress denied: isolated by shop/default-deny, shop/from-monitoring; nearest: shop/from-monitoring rule 1, but only for TCP metrics' \
		"$(mk trace prometheus web 8080 || true)"
	expect_match "allowed" 'policy +ingress allowed: shop/from-monitoring rule 1 .*delivered' "$(mk trace prometheus web 9090 | tr '\n' ' ')"
}

# follow WORDS...: what that prints while a client is denied
follow()
{
	on node1 timeout 5 "$MK_BIN" "$@" >"$TMP/followed" &
	for ((i = 0; i < 8; i++)); do
		ask prometheus tcp "$(at "$WEB" 8080)" --timeout 0.5 >/dev/null || true
	done
	wait $! || true
	grep POLICY_INGRESS "$TMP/followed" | head -n 1
}

single_drops()
{
	local text='from="pod monitoring/prometheus" to="pod shop/web" policy="ingress of shop/web: isolated by shop/default-deny, shop/from-monitoring"'
	expect_match "drops" "$text" "$(follow drops --follow)"
	expect_match "monitor" "$text" "$(follow monitor --drops)"
	expect_match "the pod's count" 'shop/web +[^ ]+ +isolated by 2 policies +isolated by 3 policies +[1-9]' "$(mk policy)"
}

log_has() { lab log node1 | grep -E "$1" >/dev/null; }

# The log has each denied flow, but those that another process has shown.
logged()
{
	wait_for 10 log_has 'denied flows are logged again'
	log_has 'denied flows are not logged while another process shows them'
	ask prometheus tcp "$(at "$WEB" 8080)" --timeout 0.5 >/dev/null || true
	wait_for 10 log_has 'policies deny a flow reason=POLICY_INGRESS protocol=TCP from=[^ ]+ fromPod=monitoring/prometheus to=[^ ]+:8080 toPod=shop/web policy="ingress of shop/web: isolated by shop/default-deny, shop/from-monitoring"$'
	ask client tcp "$(at "$FAR" 8080)" --timeout 0.5 >/dev/null || true
	wait_for 10 log_has 'reason=POLICY_EGRESS .* fromPod=shop/client to=[^ ]+:8080 toPod=shop/far policy="egress of shop/client: isolated by'
}

# guests NAME: apply a default-deny of namespace guests, with annotation policy-mode NAME
guests()
{
	cat >"$TMP/guests.yaml" <<-END
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: closed, namespace: guests, annotations: {monokube.io/policy-mode: $1}}
		spec: {podSelector: {}, policyTypes: [Ingress, Egress]}
	END
	lab apply "$TMP/guests.yaml"
	wait_for 10 sh -c "'$HERE/lab' exec node1 '$MK_BIN' policy guests/visitor $(by_family 192.0.2.99 2001:db8::99) 80 | grep -q '$2'"
}

visitor_is_logged()
{
	visitor_asks >/dev/null
	log_has 'policies would deny a flow .* fromPod=guests/visitor .*isolated by guests/closed .audit.'
}

visitor_asks() { ask visitor tcp "$(at "$WORLD" 8080)" --timeout 0.5; }

audited()
{
	guests audit 'would be denied'
	on node1 timeout 4 "$MK_BIN" drops --follow >"$TMP/followed" &
	for ((i = 0; i < 6; i++)); do
		visitor_asks >/dev/null
		sleep 0.4
	done
	wait $! || true
	wait_for 10 visitor_is_logged
	expect_match "drops" ' AUDIT .*policy="egress of guests/visitor: isolated by guests/closed .audit.' \
		"$(grep -m 1 AUDIT "$TMP/followed")"
	expect_match "state" 'guests/visitor +[^ ]+ +audit of 1 +audit of 1 +0' "$(mk policy)"
	expect_match "count" '^[1-9]' "$(mk policy -o json | jq '.[] | select(.name == "guests/visitor").audited')"
	guests enforce 'egress: denied'
	expect_eq "in force" timeout "$(visitor_asks || true)"
	guests audit 'would be denied'
	visitor_asks >/dev/null
}

# metric PAGE SERIES: the sum of its values
metric()
{
	on node1 curl -sSf --max-time 5 -o "$TMP/metrics" "http://$METRICS/$1"
	"$HERE/lib/exposition.py" value "$TMP/metrics" "$2" | awk '{ sum += $1 } END { print sum + 0 }'
}

metrics()
{
	local rule='monokube_policy_rule_flows_total{namespace="shop"' flows='monokube_policy_flows_total{direction="ingress"'
	expect_match "denied" '^[1-9]' "$(metric metrics "$flows,verdict=\"denied\",tier=\"network-policy\"}")"
	expect_match "allowed" '^[1-9]' "$(metric metrics "$flows,verdict=\"allowed\",tier=\"network-policy\"}")"
	expect_match "changes" '^[1-9]' "$(metric metrics monokube_policy_programming_duration_seconds_count)"
	expect_eq "ignored" 0 "$(metric metrics monokube_policy_objects_ignored)"
	expect_match "the rule that allowed" '^[1-9]' \
		"$(metric metrics/policies "$rule,policy=\"from-monitoring\",rule=\"1\",direction=\"ingress\",verdict=\"allowed\"}")"
	expect_match "isolation" '^[1-9]' "$(metric metrics/policies "$rule,policy=\"\",rule=\"\",verdict=\"denied\"}")"
	"$HERE/lib/exposition.py" check "$TMP/metrics"
}

# is_state POD STATE: that of its ingress
is_state() { mk policy -o json | jq -e --arg pod "$1" --arg state "$2" '.[] | select(.name == $pod) | .ingress == $state'; }

# Policies that do not fit: the log names the table, a pod that runs keeps what it had, and a new one
# is closed. When there is room, the agent's next check writes them. This comes first: entries of
# earlier policies would make room when the agent removes them.
full_table()
{
	local map
	map=/sys/fs/bpf/monokube/$(by_family maps ipv6/maps)/policy_peers
	on node1 "$HERE/fill_map.py" fill "$map" >/dev/null
	cat >"$TMP/full.yaml" <<-END
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: closed, namespace: monitoring}
		spec: {podSelector: {}, policyTypes: [Ingress, Egress]}
	END
	lab apply "$TMP/full.yaml"
	wait_for 20 log_has "error network policies: some pods keep their former policies; .*: map 'policy_peers' is full \(262144 entries\)"
	lab pod node1 late --namespace monitoring >/dev/null
	expect_failure ask late tcp "$(at "$WEB" 9090)" --timeout 0.5
	ask prometheus tcp "$(at "$WEB" 9090)" --timeout 2
	on node1 "$HERE/fill_map.py" clear "$map" >/dev/null
	wait_for 30 is_state monitoring/late 'isolated by 1 policy'
	wait_for 30 is_state monitoring/prometheus 'isolated by 1 policy'
	expect_failure ask prometheus tcp "$(at "$WEB" 9090)" --timeout 0.5
	lab delete full.yaml
	wait_for 20 ask prometheus tcp "$(at "$WEB" 9090)" --timeout 0.5
	lab rm late
}

without_agent()
{
	lab agent kill node1
	all_agree
	expect_match "names" 'nearest: shop/from-monitoring rule 1' "$(mk policy prometheus web 8080 || true)"
	lab agent start node1
}

policy_tools_up
check "a table is full: the log names it, a new pod is closed, and the next check after that writes all" full_table
check "policies decide about connections as \`policy\` says" policies_in_force
check "\`trace\` names the policy and the rule that decided" traces
check "\`drops --follow\` and \`monitor\` name pods, direction and policies" single_drops
check "logDenied: the log has denied flows, with pods and policies" logged
check "an audited policy drops nothing, and is reported" audited
check "metrics of verdicts, and of each rule" metrics
check "the same without an agent" without_agent
finish
