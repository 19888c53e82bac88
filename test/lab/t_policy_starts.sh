#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_policy_starts.sh - many pods start at once on a node with network policies and send
# from their first instant: with the agent up, dead, killed again and again, and after a boot.
# Nothing that is denied passes, no ADD fails (rules 37 to 41 of test/policy). Comments in the output
# say how many pods had their policies at ADD. PODS is the number with the agent up, AT_ONCE how many
# live at a time.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"

PODS=${PODS:-200}
AT_ONCE=${AT_ONCE:-20}
SOME=30
exec 3>&1

explain() { on node1 "$MK_BIN" drops || true; lab log node1 | tail -n 5; }

# Pods start-N may send to $FAR alone, and receive nothing.
policies()
{
	cat <<-END
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: default-deny, namespace: shop}
		spec: {policyTypes: [Ingress, Egress]}
		---
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: start-out, namespace: shop}
		spec:
		  podSelector: {matchLabels: {app: start}}
		  policyTypes: [Egress]
		  egress: [{to: [{ipBlock: {cidr: $FAR/$BITS}}]}]
	END
}

denied() { expect_eq "stranger to first" timeout "$(ask stranger tcp "$(with_port "$FIRST" 8080)" --timeout 0.4 || true)"; }

starts_lab_up()
{
	lab up 2 --pods
	lab pod node2 stranger >/dev/null
	FIRST=$(lab pod node1 first --namespace shop)
	serve first first --tcp 8080
	policies | apply policies
	wait_for 10 denied
}

# starts NAME OPTIONS: of starts.py
starts()
{
	"$HERE/starts.py" --lab "$MK_LAB" --prefix "$1" --stranger stranger --allowed "$FAR" --denied "$WORLD" "${@:2}" >"$TMP/$1"
	sed "s/^/# $1: /" "$TMP/$1" >&3
}
# said NAME LINE: it printed that
said() { expect_match "$1" "$2" "$(<"$TMP/$1")"; }
none_denied() { said "$1" "failed 0 retried [0-9]+"; said "$1" "arrived $2 denied 0"; }

# At most one of 100 may wait longer than ADD does, if the machine is busy.
agent_up()
{
	local known
	starts up --count "$PODS" --at-once "$AT_ONCE"
	none_denied up "$PODS"
	said up "retried 0"
	known=$(grep -oE 'known [0-9]+' "$TMP/up" | cut -d' ' -f2)
	((known * 100 >= PODS * 99)) || expect_eq "known at ADD" "$PODS" "$known"
}

expects() { (($(map_entries node1 policy_expected | wc -l) >= $1)); }
bound_before()
{
	mkfifo "$TMP/go"
	starts bound --count $SOME --bound <"$TMP/go" &
	exec {go}>"$TMP/go"
	wait_for 10 expects $SOME
	lab agent kill node1
	echo >&$go
	wait $!
	none_denied bound $SOME
	said bound "known $SOME pending 0 failed 0 retried 0"
}

bound_later()
{
	starts later --count $SOME --wait 0 --stay 0.5
	said later "known 0 pending $SOME failed 0 retried 0"
	said later "arrived 0 denied 0"
	lab agent start node1
}

kill_again()
{
	until [[ -e $TMP/enough ]]; do
		sleep 0.2
		lab agent kill node1
		sleep 0.1
		lab agent start node1
	done
}
killed()
{
	kill_again &
	starts killed --count $SOME --at-once 5 --wait 30
	touch "$TMP/enough"
	wait $!
	none_denied killed $SOME
	said killed "retried 0"
}

# ADD fails until the agent has made the tables.
after_boot()
{
	lab agent kill node1
	lose_boot node1
	starts boot --count $SOME --retry 20 --wait 30 &
	sleep 0.3
	lab agent start node1
	wait $!
	none_denied boot $SOME
}

starts_lab_up
check "$PODS pods with the agent up have their policies at ADD (39)" agent_up
check "the agent is dead: pods that were bound before have their policies (39)" bound_before
check ".. and pods that were bound later send and receive nothing (40)" bound_later
check "the agent is killed again and again" killed
check "after a boot: pods start before the agent (41)" after_boot
finish
