#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_policy_change.sh - policies change while connections are open: what stays allowed loses
# nothing, what is forbidden ends with its next packet, with and without an agent. Numbers are the
# rules of test/policy/README.md.
#
#   node1: web-1 client-1      node2: web-2 client-2      node3: client-3
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/services.sh
. "$HERE/lib/services.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"

number one 1
declare -A PIPES=()

# policy NAME SUBJECT INGRESS: a NetworkPolicy for pods with the labels SUBJECT
policy()
{
	apply "$1" <<-END
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: $1, namespace: default}
		spec:
		  podSelector: {matchLabels: {$2}}
		  policyTypes: [Ingress]
		  ingress: [$3]
	END
}
CLIENTS='{from: [{podSelector: {matchLabels: {app: client}}}], ports: [{port: 8080}, {port: 5353, protocol: UDP}]}'
FIRST='{from: [{podSelector: {matchLabels: {first: "yes"}}}]}'

denied() { silent "$1" "$2" "$(where "$3" "$2")" "$4"; }
allowed() { flow "$@"; }

connections_open()
{
	local proto
	for proto in tcp udp; do
		hold "near-$proto" client-1 "$(where "at web-1" $proto)" $proto
		hold "far-$proto" client-2 "$(where "at web-1" $proto)" $proto
		hold "vip-$proto" client-1 "$(where "vip one" $proto)" $proto
	done
	hold out-tcp web-1 "$(where "at client-2" tcp)"
}

# Rule 33: a policy comes that allows them; 32: and goes again.
they_stay()
{
	policy web-in 'app: web' "$CLIENTS"
	wait_for 10 denied client-3 tcp "at other-3" "node3 POLICY_INGRESS" || true
	wait_for 10 denied other-3 tcp "at web-1" "node1 POLICY_INGRESS"
	wait_for 10 denied other-3 udp "vip one" "node2 POLICY_INGRESS"
	pulse 2
}
they_stay_without()
{
	lab delete web-in.yaml
	wait_for 10 allowed other-3 tcp "at web-1" web-1 other-3
	wait_for 10 allowed other-3 tcp "vip one" web-2 other-3
	pulse 3
}

# Rule 31: the policy becomes narrower. client-1 has the label, client-2 does not.
forbidden()
{
	policy web-in 'app: web' "$FIRST"
	wait_for 10 denied client-2 tcp "at web-1" "node1 POLICY_INGRESS"
	exchange near-tcp 4
	exchange near-udp 4
	stands far-tcp 3 node1 POLICY_INGRESS
	stands far-udp 3 node1 POLICY_INGRESS
}

# The connection was never reset (30): it goes on when the policy allows it again, by a label (35).
label_allows()
{
	lab label client-2 first=yes
	wait_for 10 allowed client-2 tcp "at web-1" web-1 client-2
	wait_for 20 holds far-tcp 4
	exchange far-tcp 5
}
label_forbids()
{
	lab label client-2 first=
	wait_for 10 denied client-2 tcp "at web-1" "node1 POLICY_INGRESS"
	stands far-tcp 5 node1 POLICY_INGRESS
}
subject_label()
{
	lab label web-1 app=open
	wait_for 10 allowed client-2 tcp "at web-1" web-1 client-2
	wait_for 20 holds far-tcp 6
	lab label web-1 app=web
	wait_for 10 denied client-2 tcp "at web-1" "node1 POLICY_INGRESS"
}

# Rule 36
agent_away()
{
	local verb
	for verb in kill stop; do
		lab agent "$verb" node1
		denied client-2 tcp "at web-1" "node1 POLICY_INGRESS"
		denied other-3 udp "at web-1" "node1 POLICY_INGRESS"
		allowed client-1 tcp "at web-1" web-1 client-1
		lab agent start node1
		denied client-2 tcp "at web-1" "node1 POLICY_INGRESS"
		allowed client-1 tcp "at web-1" web-1 client-1
	done
	exchange near-tcp 5
}

# What changed while no agent ran, holds from its start on.
changed_meanwhile()
{
	lab agent stop node1
	lab label client-1 first=
	lab label client-2 first=yes
	allowed client-1 tcp "at web-1" web-1 client-1
	lab agent start node1
	wait_for 10 denied client-1 tcp "at web-1" "node1 POLICY_INGRESS"
	wait_for 10 allowed client-2 tcp "at web-1" web-1 client-2
	exchange out-tcp 4
}

WITH_PODS=yes services_lab_up
{ service one ClusterIP; endpoints one web-2; } | apply services
pod_up node3 other-3
lab label client-1 first=yes
for pod in client-2 other-3; do
	serve "$pod" "$pod" --tcp 8080
done
wait_for 10 flow client-1 udp "vip one" web-2 client-1
connections_open
check "a policy that allows open connections: they stay (33)" they_stay
check "the last policy goes: they stay (32)" they_stay_without
check "a narrower policy: forbidden connections stop, the others stay (31)" forbidden
check "a label of the peer allows again: the connection goes on (30, 35)" label_allows
check "a label of the peer forbids (35)" label_forbids
check "a label of the subject (35)" subject_label
check "agents are killed and stopped: everything stays (36)" agent_away
check "labels change while no agent runs (36)" changed_meanwhile
finish
