#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_policy_life.sh - pods come and go on a node whose agent follows network policies: their
# policies are there at ADD (rules 37 to 40 of test/policy), and stay what they were while the agent
# is dead or the Pod object is gone (36, 43).
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

PODS=20

explain() { on node1 "$MK_BIN" policy | head -n 4; lab log node1 | tail -n 3; }
policies_of() { on node1 "$MK_BIN" pods "$1" -o json | jq -r '.[0].policies'; }
has_policies() { expect_eq "policies of $1" "$2" "$(policies_of "$1")"; }
denied() { expect_eq "$2 from $1" timeout "$(ask "$1" tcp "$2" --timeout 0.4 || true)"; }

objects()
{
	cat <<-END
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: default-deny, namespace: shop}
		spec: {policyTypes: [Ingress, Egress]}
		---
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: clients-in, namespace: shop}
		spec:
		  podSelector: {matchLabels: {app: web}}
		  ingress: [{from: [{podSelector: {matchLabels: {app: client}}}]}]
		---
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: clients-out, namespace: shop}
		spec:
		  podSelector: {matchLabels: {app: client}}
		  policyTypes: [Egress]
		  egress: [{to: [{podSelector: {matchLabels: {app: web}}}]}]
	END
}


known_at_add()
{
	local index
	for ((index = 1; index <= PODS; index++)); do
		lab pod node1 "client-$index" --namespace shop >/dev/null 2>"$TMP/add"
		expect_eq "what ADD of pod $index says" "" "$(<"$TMP/add")"
		ask "client-$index" tcp "$WEB" >/dev/null
		denied "client-$index" "$OUT"
	done
	has_policies shop/client-1 ingress,egress
}

free_namespace()
{
	lab pod node1 free --namespace free >/dev/null 2>"$TMP/add"
	expect_eq "what ADD says" "" "$(<"$TMP/add")"
	has_policies free/free open
	ask free tcp "$OUT"
	denied free "$WEB"
}

dead_agent()
{
	local addr
	lab agent kill node1
	ask client-1 tcp "$WEB"
	denied client-1 "$OUT"
	addr=$(lab pod node1 client-99 --namespace shop 2>"$TMP/add")
	expect_match "what ADD says" 'no agent runs on this node.*pod=shop/client-99' "$(<"$TMP/add")"
	has_policies shop/client-99 pending
	serve client-99 client-99 --tcp 8080
	denied client-99 "$WEB"
	denied client-1 "$(with_port "$addr" 8080)"
	ask node1 tcp "$(with_port "$addr" 8080)"
}

agent_is_back()
{
	lab agent start node1
	wait_for 10 has_policies shop/client-99 ingress,egress
	wait_for 10 ask client-99 tcp "$WEB"
	denied client-99 "$OUT"
	ask client-1 tcp "$WEB"
}

# As if the API server had lost the Pod: its sandbox lives. It is no peer of others any more.
object_is_gone()
{
	local record=/run/mklab-$MK_LAB/pods/client-2.json
	mv "$record" "$TMP/client-2.json"
	echo '{apiVersion: v1, kind: Namespace, metadata: {name: other}}' >"$TMP/other.yaml"
	lab apply "$TMP/other.yaml" # also makes the objects follow the records
	wait_for 10 no_object client-2
	has_policies shop/client-2 ingress,egress
	expect_eq "to outside" timeout "$(ip netns exec "$MK_LAB.client-2" "$HERE/echo.py" ask tcp "$OUT" --timeout 0.4 || true)"
	mv "$TMP/client-2.json" "$record"
}
no_object() { [[ ! -e /run/mklab-$MK_LAB/nodes/node1/cluster/lab-pods-pod-$1.yaml ]]; }

# networkPolicy: off opens everything; enforce closes again.
switched_off()
{
	lab agent stop node1
	MK_AGENT_FLAGS='--network-policy off' lab agent start node1
	wait_for 10 ask client-1 tcp "$OUT"
	wait_for 10 ask free tcp "$WEB"
	lab agent stop node1
	lab agent start node1
	wait_for 10 denied client-1 "$OUT"
	wait_for 10 denied free "$WEB"
	ask client-1 tcp "$WEB"
}

# Names are for people: policies are enforced without the file, which is written later.
names_unwritable()
{
	on node1 sh -c 'rm /var/lib/monokube/policies.json && mkdir /var/lib/monokube/policies.json'
	objects | sed 's/shop/free/' | apply free
	wait_for 10 denied free "$OUT"
	lab log node1 | grep -q 'cannot write the names of policies for the command line'
	on node1 rmdir /var/lib/monokube/policies.json
	lab label client-3 app=other
	wait_for 10 on node1 test -f /var/lib/monokube/policies.json
	lab delete free.yaml
}

last_policy_goes()
{
	lab delete policies.yaml
	wait_for 10 ask client-1 tcp "$OUT"
	wait_for 10 ask free tcp "$WEB"
	lab pod node1 late-free --namespace shop >/dev/null 2>"$TMP/add"
	expect_eq "what ADD says" "" "$(<"$TMP/add")"
	ask late-free tcp "$WEB"
}

lab up 1 --pods
serve world world --tcp 8080
OUT=$(with_port "$WORLD" 8080)
WEB=$(with_port "$(lab pod node1 web-1 --namespace shop)" 8080)
serve web-1 web-1 --tcp 8080
objects | apply policies
wait_for 10 has_policies shop/web-1 ingress,egress
check "$PODS pods: their policies are there at ADD (37, 39)" known_at_add
check "a pod of a namespace without policies (38)" free_namespace
check "the agent is dead: pods stay as they were, a new one is closed (36, 40)" dead_agent
check ".. and gets its policies when the agent is back" agent_is_back
check "the Pod object is gone, the sandbox lives (43)" object_is_gone
check "networkPolicy off opens everything, enforce closes again" switched_off
check "the file of names cannot be written: policies are enforced" names_unwritable
check "the last policy goes: everything is open, also at ADD (32, 38)" last_policy_goes
finish
