#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_policy.sh - NetworkPolicies on three nodes with real sockets: who reaches whom, and what
# the node that refuses counts. Numbers are the rules of test/policy/README.md.
#
#   node1: web-1 client-1 friend-1      node2: web-2 client-2 db-2      node3: client-3 free-3
# Namespaces: default (web, client, db), friends (friend), free (free).
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/services.sh
. "$HERE/lib/services.sh"

number one 1
number one-local 2
number db 3

objects()
{
	service one LoadBalancer
	service one-local LoadBalancer 'externalTrafficPolicy: Local'
	service db ClusterIP
	endpoints one web-2
	endpoints one-local web-2
	endpoints db db-2
}

policies()
{
	cat <<-END
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: web-in, namespace: default}
		spec:
		  podSelector: {matchLabels: {app: web}}
		  policyTypes: [Ingress]
		  ingress:
		  - from: [{podSelector: {matchLabels: {app: client}}}]
		    ports: [{port: http}]
		  - from: [{namespaceSelector: {matchLabels: {name: friends}}}]
		    ports: [{port: 5353, protocol: UDP}]
		  - from: [{ipBlock: {cidr: "$(by_family 203.0.113.0/24 2001:db8::/64)"}}]
		    ports: [{port: 8000, endPort: 8099}]
		---
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: db-closed, namespace: default}
		spec: {podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress, Egress]}
		---
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: third-out, namespace: default}
		spec:
		  podSelector: {matchExpressions: [{key: third, operator: Exists}]}
		  policyTypes: [Egress]
		  egress:
		  - to: [{podSelector: {matchLabels: {app: web}}}]
		  - to: [{ipBlock: {cidr: "$(by_family 203.0.113.0/24 2001:db8::/64)"}}]
	END
}

POD_TO_POD=(
	"a label of its namespace, same node (5)|client-1|tcp|at web-1|web-1|client-1"
	"a label of its namespace, other node (5)|client-2|tcp|at web-1|web-1|client-2"
	"another protocol than the rule's (8)|client-1|udp|at web-1|silent|node1 POLICY_INGRESS"
	"another protocol, from another node (8)|client-2|udp|at web-1|silent|node1 POLICY_INGRESS"
	"a namespace's label (5)|friend-1|udp|at web-1|web-1|friend-1"
	"a namespace's label, other node (5)|friend-1|udp|at web-2|web-2|friend-1"
	"a namespace's label, another port (4)|friend-1|tcp|at web-2|silent|node2 POLICY_INGRESS"
	"no rule for this pod, same node (3)|db-2|tcp|at web-2|silent|node2 POLICY_EGRESS"
	"no rule for this pod, other node (3)|free-3|tcp udp|at web-1|silent|node1 POLICY_INGRESS"
	"no policy selects either end (2)|free-3|tcp udp|at client-1|client-1|free-3"
	"no policy selects either end, same node (2)|client-1|tcp udp|at friend-1|friend-1|client-1"
	"a policy without rules (3)|client-1|tcp udp|at db-2|silent|node2 POLICY_INGRESS"
	"a policy without rules, same node (3)|client-2|tcp udp|at db-2|silent|node2 POLICY_INGRESS"
	"egress to a label, the other end allows (11)|client-3|tcp|at web-1|web-1|client-3"
	"egress to a label, the other end does not (11)|client-3|udp|at web-1|silent|node1 POLICY_INGRESS"
	"egress to a pod that no rule names (11)|client-3|tcp udp|at client-1|silent|node3 POLICY_EGRESS"
	"egress to a pod of another namespace, same node (11)|client-3|tcp udp|at free-3|silent|node3 POLICY_EGRESS"
	"the isolated pod may be asked by others (2)|client-1|tcp udp|at client-3|client-3|client-1"
)
SERVICES=(
	"a Service: the endpoint's port counts (10)|client-1|tcp|vip one|web-2|client-1"
	"a Service: the endpoint's protocol counts (10)|client-1|udp|vip one|silent|node2 POLICY_INGRESS"
	"a Service, endpoint on the client's node (10)|client-2|tcp|vip one|web-2|client-2"
	"a Service, egress by the chosen endpoint (13)|client-3|tcp|vip one|web-2|client-3"
	"a Service, egress to another endpoint (13)|client-3|tcp|vip db|silent|node3 POLICY_EGRESS"
	"a load balancer's address: the endpoint counts (13)|client-3|tcp|lb1 one|silent|node2 POLICY_INGRESS"
	"the pod itself by its Service (22)|web-2|tcp udp|vip one|web-2|vpod2"
	"an isolated pod without rules: itself by its Service (22)|db-2|tcp udp|vip db|db-2|vpod2"
)
OUTSIDE=(
	"NodePort, endpoint there: the client's address counts (14)|world@far|tcp|node2 one|web-2|vpod2"
	"NodePort, endpoint there, a client without rule (14)|world|tcp|node2 one|silent|node2 POLICY_INGRESS"
	"NodePort, endpoint elsewhere: the node counts (14)|world@far|tcp|node1 one|silent|node2 POLICY_INGRESS"
	"NodePort, policy Local (14)|world@far|tcp|node2 one-local|web-2|far"
	"NodePort, policy Local, a client without rule (14)|world|tcp|node2 one-local|silent|node2 POLICY_INGRESS"
	"load balancer, policy Local (14)|world@far|tcp|lb2 one-local|web-2|far"
	"load balancer, another protocol (8)|world@far|udp|lb2 one-local|silent|node2 POLICY_INGRESS"
	"egress to a block (7)|client-3|tcp udp|at far|world|node3"
	"egress outside of the block (7)|client-3|tcp udp|at world|silent|node3 POLICY_EGRESS"
	"egress of a pod without rules (3)|db-2|tcp udp|at world|silent|node2 POLICY_EGRESS"
	"egress of a pod without policy (2)|client-1|tcp udp|at world|world|node1"
)
HOSTS=(
	"the own node (19)|node1|tcp udp|at web-1|web-1|vtep1"
	"the own node, a pod without rules (19)|node2|tcp udp|at db-2|db-2|vtep2"
	"another node (19)|node1|tcp udp|at web-2|silent|node2 POLICY_INGRESS"
	"the own node by a Service (19)|node2|tcp udp|vip one|web-2|vtep2"
	"another node by a Service (15)|node1|tcp udp|vip one|silent|node2 POLICY_INGRESS"
	"egress to the own node needs a rule (20)|db-2|tcp udp|at node2|silent|node2 POLICY_EGRESS"
	"egress to another node needs a rule (20)|client-3|tcp udp|at node1|silent|node3 POLICY_EGRESS"
)

# ping FROM TO ANSWERS: how many of two pings are answered
pings()
{
	local out
	out=$(on "$1" ping -q -c 2 -i 0.05 -W 0.4 "${ADDR[$2]}" || true)
	expect_match "ping from $1 to $2" " $3 received" "$(grep transmitted <<<"$out" || true)"
}

# A first fragment decides for all of them (29).
fragments()
{
	answered client-1 tcp "$(where "at web-1" tcp)" web-1 client-1 --size 8000
	answered friend-1 udp "$(where "at web-2" udp)" web-2 friend-1 --size 8000
	expect_eq "a large datagram that is not allowed" timeout \
		"$(ask client-2 udp "$(where "at web-1" udp)" --size 8000 --timeout 0.4 || true)"
}

# Nothing tells the sender that it was refused (30).
silence()
{
	expect_eq "TCP" timeout "$(ask free-3 tcp "$(where "at web-1" tcp)" --timeout 0.4 || true)"
	expect_eq "UDP" timeout "$(ask free-3 udp "$(where "at web-1" udp)" --timeout 0.4 || true)"
	expect_eq "their sessions" 0 "$(on node1 "$MK_BIN" sessions 2>/dev/null |
		awk -v from="$(with_port "${ADDR[free-3]}" "")" -v to="$(with_port "${ADDR[web-1]}" "")" 'index($0, from) && index($0, to)' | wc -l)"
}

in_force() { lab log "$1" | grep "policies in force"; }

# ---- the cluster

WITH_PODS=yes services_lab_up
pod_up node1 friend-1 --namespace friends
pod_up node2 db-2
pod_up node3 free-3 --namespace free
for pod in friend-1 db-2 free-3 client-1 client-3; do
	serve "$pod" "$pod" --tcp 8080 --udp 5353
done
serve node3 node3 --tcp 8080 --udp 5353
serve world world --tcp 8080 --udp 5353
objects | apply services
wait_for 30 flow client-1 udp "vip one" web-2 client-1
lab rm client-3
pod_up node3 client-3 --label third=yes
serve client-3 client-3 --tcp 8080 --udp 5353
policies | apply policies
for node in "${NODES[@]}"; do
	wait_for 30 in_force "$node"
done
wait_for 30 silent free-3 tcp "$(where "at web-1" tcp)" "node1 POLICY_INGRESS"
wait_for 30 silent client-1 udp "$(where "vip one" udp)" "node2 POLICY_INGRESS"
wait_for 30 silent client-3 tcp "$(where "at client-1" tcp)" "node3 POLICY_EGRESS"

check_flows "${POD_TO_POD[@]}" "${SERVICES[@]}" "${OUTSIDE[@]}" "${HOSTS[@]}"
check "a ping matches no rule with ports (28)" pings client-1 web-1 0
check "a ping to a pod without policy (2)" pings web-1 client-1 2
check "a ping of the own node (19)" pings node1 web-1 2
check "fragments share the verdict of the first one (29)" fragments
check "what is refused, is dropped without an answer and opens no session (30)" silence
finish
