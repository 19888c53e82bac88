# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/e2e/lib/guarded.sh - the episodes of network policies: namespace monokube-guarded with a
# default deny, a Pod `guarded` on each node with the kubelet's probes, and a policy that lets the
# Pods `steady` of the episodes in at TCP 8080. Numbers are the rules of test/policy/README.md.

GUARDED=monokube-guarded

in_guarded() { kubectl -n $GUARDED "$@"; }

guarded_policies()
{
	cat <<-END
		---
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: default-deny, namespace: $GUARDED}
		spec: {podSelector: {}, policyTypes: [Ingress, Egress]}
		---
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: steady-in, namespace: $GUARDED}
		spec:
		  podSelector: {matchLabels: {app: guarded}}
		  ingress:
		  - from: [{namespaceSelector: {matchLabels: {e2e: episodes}}, podSelector: {matchLabels: {app: steady}}}]
		    ports: [{port: 8080}]
	END
}

guarded_up()
{
	kubectl create namespace $GUARDED
	kubectl label namespace "$EPISODES" e2e=episodes --overwrite
	in_guarded create configmap e2e --from-file "$ROOT/test/lab/echo.py" --from-file "$ROOT/test/lab/backwards.py"
	{
		guarded_policies
		EPISODES=$GUARDED daemonset guarded '["python3", "/e2e/echo.py", "serve", "--name", "$(NAME)", "--tcp", "8080", "--udp", "8080"]' '' \
			$'readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}\n        livenessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}'
	} | kubectl apply -f -
}

guarded_pod() { EPISODES=$GUARDED pod_of guarded "$1"; }
guarded_addresses() { EPISODES=$GUARDED in_episodes get pod "$(guarded_pod "$1")" -o 'jsonpath={.status.podIPs[*].ip}'; }
guarded_is_ready()
{
	[[ $(in_guarded get pod "$(guarded_pod "$1")" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}') == True ]]
}

# answer NAMESPACE APP NODE PROTOCOL ADDRESS: who answers this Pod, or `timeout`
answer()
{
	local pod
	pod=$(EPISODES=$1 pod_of "$2" "$3")
	kubectl -n "$1" exec "$pod" -- python3 /e2e/echo.py ask "$4" "$(with_port "$5" 8080)" --timeout 1 2>/dev/null | cut -d' ' -f1 || true
}
answer_is() { expect "$1" "$(answer "${@:2}")"; }

# The Pods `steady` of both nodes get answers from those of `guarded`.
asked_by_steady()
{
	local from to address
	for to in "${NODES[@]}"; do
		for address in $(guarded_addresses "$to"); do
			for from in "${NODES[@]}"; do
				wait_until 20 answer_is "$to" "$EPISODES" steady "$from" tcp "$address" || return
			done
		done
	done
}

# Denied: other Pods, another protocol, clients outside, and all that `guarded` sends (2, 3, 11)
guarded_is_closed()
{
	local node address port
	port=$(in_guarded get service guarded -o 'jsonpath={.spec.ports[0].nodePort}')
	for node in "${NODES[@]}"; do
		for address in $(guarded_addresses "$node"); do
			answer_is timeout "$EPISODES" web node1 tcp "$address" || return
			answer_is timeout "$EPISODES" steady node2 udp "$address" || return
		done
		answer_is timeout $GUARDED guarded "$node" tcp "$(address_of steady node1)" || return
		expect timeout "$(from_outside tcp "$(with_port "$(node_addr "$node")" "$port")" --timeout 1 || true)" || return
	done
}

# The kubelet's probes pass a default deny (19), and the Pod's peers do.
guarded_holds()
{
	local node
	for node in "${NODES[@]}"; do
		wait_until "$EPISODE_SECONDS" guarded_is_ready "$node" || return
	done
	asked_by_steady && guarded_is_closed
}

policies_decide()
{
	guarded_up && guarded_holds || return
	expect "0 0" "$(in_guarded get pods -o 'jsonpath={.items[*].status.containerStatuses[0].restartCount}')"
}

guarded_is_new() { [[ $(guarded_pod "$1") && $(guarded_pod "$1") != "$2" ]] && guarded_is_ready "$1"; }

# A Pod that the scheduler binds while no agent lives: its probes pass, nothing else, until an agent
# is back (37, 40).
guarded_waits()
{
	local old
	select_nodes '"nowhere"'
	wait_until 60 no_agents || return
	old=$(guarded_pod node1)
	in_guarded delete pod "$old" --timeout "${EPISODE_SECONDS}s"
	wait_until "$EPISODE_SECONDS" guarded_is_new node1 "$old" || { echo "no Pod in place of $old is ready"; return 1; }
	pending_is_closed || return
	agents_come_back && guarded_holds
}
pending_is_closed()
{
	local from address
	for address in $(guarded_addresses node1); do
		for from in "${NODES[@]}"; do
			answer_is timeout "$EPISODES" steady "$from" tcp "$address" || return
		done
	done
	for address in $(guarded_addresses node2); do # its policies stay (36)
		answer_is node2 "$EPISODES" steady node1 tcp "$address" && answer_is timeout "$EPISODES" web node1 tcp "$address" || return
	done
}
