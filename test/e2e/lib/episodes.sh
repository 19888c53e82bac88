# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/e2e/lib/episodes.sh - what happens to a cluster in operation, under traffic: a rollout, nodes
# without an agent, containerd, kubelet and API server restarted, a node that boots, and the end of
# monokube.
#
# Each node has a Pod `steady` that lives throughout, a Pod `web` that is deleted at will, and a
# client with connections to the Service `steady`, of which none may break.

EPISODES=monokube-episodes
EPISODE_SECONDS=180
failures=0 rows=0
ONLY='' # a part of the rows' names

in_episodes() { kubectl -n $EPISODES "$@"; }

# daemonset NAME COMMAND PORTS [MORE]: MORE is of the container
daemonset()
{
	cat <<-END
		---
		apiVersion: apps/v1
		kind: DaemonSet
		metadata: {name: $1, namespace: $EPISODES}
		spec:
		  selector: {matchLabels: {app: $1}}
		  template:
		    metadata: {labels: {app: $1}}
		    spec:
		      terminationGracePeriodSeconds: 1
		      containers:
		      - name: e2e
		        image: $POD_IMAGE
		        imagePullPolicy: IfNotPresent
		        command: $2
		        ports: [$3]
		        ${4:-}
		        env: [{name: NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
		        volumeMounts: [{name: e2e, mountPath: /e2e}]
		      volumes: [{name: e2e, configMap: {name: e2e}}]
		---
		apiVersion: v1
		kind: Service
		metadata: {name: $1, namespace: $EPISODES}
		spec:
		  type: NodePort
		  ipFamilyPolicy: PreferDualStack
		  selector: {app: $1}
		  ports: [{name: tcp, protocol: TCP, port: 80, targetPort: 8080}, {name: udp, protocol: UDP, port: 80, targetPort: 8080}]
	END
}

rolled_out() { in_episodes rollout status "daemonset/$1" --timeout "${EPISODE_SECONDS}s"; }
service_address() { in_episodes get service "$1" -o 'jsonpath={.spec.clusterIP}'; }
pod_of() { in_episodes get pods -l "app=$1" --field-selector "spec.nodeName=$2" -o 'jsonpath={.items[0].metadata.name}'; }
address_of() { in_episodes get pods -l "app=$1" --field-selector "spec.nodeName=$2" -o 'jsonpath={.items[0].status.podIP}'; }

episodes_up()
{
	local serve='["python3", "/e2e/echo.py", "serve", "--name", "$(NAME)", "--tcp", "8080", "--udp", "8080"]'
	kubectl create namespace $EPISODES
	in_episodes create configmap e2e --from-file "$ROOT/test/lab/echo.py" --from-file "$ROOT/test/lab/backwards.py" \
		--from-file "$ROOT/test/chaos/load.py"
	{
		daemonset steady "$serve" ''
		daemonset web "$serve" '{containerPort: 8080, hostPort: 8088}, {containerPort: 8080, hostPort: 8088, protocol: UDP}' \
			'readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}'
	} | in_episodes apply -f -
	rolled_out steady && rolled_out web
	wait_until 30 asked steady both_nodes
	daemonset client "$(load_command)" '' | in_episodes apply -f -
	rolled_out client
}

# Connections to the Service `steady`, in each family that it has
load_command()
{
	in_episodes get service steady -o json |
		jq -c '["python3", "/e2e/load.py", (.spec | .clusterIPs // [.clusterIP] | .[] | . + ":80")]'
}

# ---- what is seen

# ask NODE PROTOCOL ADDRESS:PORT [ARGS]: from the Pod `steady` of that node
ask()
{
	local node=$1
	shift
	in_episodes exec "$(pod_of steady "$node")" -- python3 /e2e/echo.py ask "$@"
}

from_outside() { in_netns world python3 "$ROOT/test/lab/echo.py" ask "$@"; }

# Both nodes' Pods of a Service answer, in each family that it has
asked()
{
	local service=$1 address
	for address in $(in_episodes get service "$service" -o json | jq -r '.spec | .clusterIPs // [.clusterIP] | .[]'); do
		[[ $(ask node1 tcp "$address:80" --count 24 | cut -d' ' -f1 | sort -u | xargs) == "${NODES[*]}" ]] || return
	done
}

expect()
{
	[[ $1 == "$2" ]] && return
	echo "expected '$1', seen '$2'"
	return 1
}

streams_hold()
{
	local node pod lines
	for node in "${NODES[@]}"; do
		pod=$(pod_of client "$node")
		lines=$(in_episodes logs "$pod") || return
		expect running "$(grep -vE '^exchanges' <<<"$lines" | head -n 5)" || return
		expect 0 "$(in_episodes get pod "$pod" -o 'jsonpath={.status.containerStatuses[0].restartCount}')" || return
	done
}

# web_is_new NODE OLD: another Pod than OLD runs there, and has an address
web_is_new()
{
	local pods
	pods=$(in_episodes get pods -l app=web --field-selector "spec.nodeName=$1,status.phase=Running" -o 'jsonpath={.items[*].metadata.name}')
	[[ $pods && $pods != *"$2"* && $(address_of web "$1") ]]
}

# A Pod is deleted on NODE, its successor has an address, and the other node's Pods reach it.
replace_web()
{
	local node=$1 other=node1 old
	[[ $node != node1 ]] || other=node2
	old=$(pod_of web "$node")
	in_episodes delete pod "$old" --timeout "${EPISODE_SECONDS}s"
	wait_until "$EPISODE_SECONDS" web_is_new "$node" "$old" || {
		echo "no Pod in place of $old on $node after $EPISODE_SECONDS s"
		return 1
	}
	wait_until 10 ask "$other" tcp "$(address_of web "$node"):8080" >/dev/null
	expect "$node $(address_of steady "$other")" "$(ask "$other" tcp "$(address_of web "$node"):8080" | cut -d' ' -f1,2)"
}

# ---- the episodes

host_ports()
{
	local node protocol
	for node in "${NODES[@]}"; do
		for protocol in tcp udp; do
			expect "$node $WORLD_ADDR" "$(from_outside $protocol "$(node_addr "$node"):8088" | cut -d' ' -f1,2)" || return
			[[ $SECOND_WORLD ]] || continue
			expect "$node $SECOND_WORLD" "$(from_outside $protocol "$(second_addr "$node"):8088" | cut -d' ' -f1,2)" || return
		done
	done
}

api_by_service() { expect "${NODES[*]}" "$(ask_version node1) $(ask_version node2)"; }
ask_version()
{
	in_episodes exec "$(pod_of steady "$1")" -- python3 -c "
import json, ssl, urllib.request
context = ssl._create_unverified_context()
json.load(urllib.request.urlopen('https://$(with_port "$FIRST_SERVICE" 443)/version', context=context, timeout=3))['gitVersion']
print('$1')"
}

rollout()
{
	kubectl -n kube-system rollout restart daemonset/monokube || return
	kubectl -n kube-system rollout status daemonset/monokube --timeout "${EPISODE_SECONDS}s" || return
	wait_until 30 asked web
}

agents() { kubectl -n kube-system get pods -l app.kubernetes.io/name=monokube -o name; }
no_agents() { [[ -z $(agents) ]]; }
select_nodes() { kubectl -n kube-system patch daemonset monokube -p "{\"spec\": {\"template\": {\"spec\": {\"nodeSelector\": {\"e2e\": $1}}}}}"; }

without_agents()
{
	select_nodes '"nowhere"'
	wait_until 60 no_agents || return
	replace_web node1 && replace_web node2 && host_ports
}

agents_come_back()
{
	select_nodes null
	kubectl -n kube-system rollout status daemonset/monokube --timeout "${EPISODE_SECONDS}s" || return
	wait_until 30 asked web
}

# restarted NODE NAME: the process ends by SIGKILL; lib/machine-init starts it again
restarted()
{
	local node=$1 name=$2
	in_machine "$node" pkill -KILL -x "$name" || return
	wait_until 60 containerd_answers "$node" || return
	replace_web "$node"
}

restart_apiserver()
{
	local pid
	pid=$(recorded_pid "$LAB_DIR/kube-apiserver.pid")
	kill -KILL "$pid"
	sleep 5 # long enough for agents to notice
	start_apiserver
	wait_until "$CONTROL_READY_SECONDS" api_is_ready || return
	replace_web node1 || return
	wait_until 60 asked web
}

node_is() { [[ $(kubectl get node "$1" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}') == "$2" ]]; }
started_after()
{
	local pod
	pod=$(kubectl -n kube-system get pods -l app.kubernetes.io/name=monokube --field-selector "spec.nodeName=$1" \
		-o 'jsonpath={.items[0].status.containerStatuses[0].state.running.startedAt}')
	[[ $pod && $(date -d "$pod" +%s) -ge $2 ]]
}

# The kernel takes a namespace and its end of the cable away some time after its name.
unplugged() { ! ip -n "$(netns_of underlay)" link show "$1" >/dev/null 2>&1; }

# The node's memory is lost: devices, programs, tables, containers. Its disk stays.
boot()
{
	local now
	now=$(date +%s)
	netns_down "$(netns_of node2)"
	wait_until 60 unplugged node2 || {
		echo "the network namespace of node2 is there 60 s after its end"
		return 1
	}
	machine_network node2
	machine_up node2
	wait_until "$EPISODE_SECONDS" started_after node2 "$now" || {
		echo "no agent on node2 after its boot"
		return 1
	}
	wait_until "$EPISODE_SECONDS" asked web && wait_until "$EPISODE_SECONDS" asked steady && replace_web node2
}

# Every Pod has its address, and no address is kept for a Pod that is gone.
pods_addresses()
{
	kubectl get pods -A --field-selector "spec.nodeName=$1,status.phase=Running" -o json |
		jq -r '.items[] | select(.spec.hostNetwork | not) | .status.podIP' | sort
}
# IPv6: the file's name is the address in 32 hexadecimal digits.
kept_addresses()
{
	find "$LAB_DIR/nodes/$1/state/monokube/ipam" -maxdepth 1 -type f -regextype egrep -regex '.*/(10\..*|[0-9a-f]{32})' -printf '%f\n' |
		python3 -c 'import ipaddress, sys
for name in sys.stdin.read().split():
    print(name if "." in name else ipaddress.ip_address(bytes.fromhex(name)))' | sort
}
addresses_agree() { [[ $(pods_addresses "$1") == "$(kept_addresses "$1")" ]]; }

addresses()
{
	local node
	for node in "${NODES[@]}"; do
		wait_until 90 addresses_agree "$node" || expect "$(pods_addresses "$node")" "$(kept_addresses "$node")" || return
	done
}

# Print what monokube has left on a node.
leftovers()
{
	in_machine "$1" bash -c 'ip -o link | grep -vE ": (lo|eth0)[@:]"; ls -A /sys/fs/bpf /etc/cni/net.d /opt/cni/bin | grep -vE ":$|^(maps|progs).debug$" | grep .
		tc filter show dev eth0 ingress; tc filter show dev eth0 egress; for family in -4 -6; do ip $family route | grep -vE "dev (eth0|lo)( |$)"
			ip $family rule | grep -vE "lookup (local|main|default)"; done; ls -A /var/lib/monokube' 2>&1 || true
}

uninstall()
{
	local node
	kubectl delete -f "$LAB_DIR/monokube.yaml"
	wait_until "$EPISODE_SECONDS" no_agents || {
		echo "after $EPISODE_SECONDS s there is still $(agents)"
		return 1
	}
	for node in "${NODES[@]}"; do
		in_machine "$node" /opt/cni/bin/monokube cleanup || return
		expect "" "$(leftovers "$node")" || return
	done
}

# ---- rows

# The agents' logs go with their Pods: what they wrote so far stays in agents.log.
keep_logs()
{
	local pod
	for pod in $(agents 2>/dev/null); do
		echo "# after $rows: $pod"
		kubectl -n kube-system logs "$pod" || true
	done >>"$LAB_DIR/agents.log" 2>&1
}

episode()
{
	local what=$1 verdict=PASS started=$SECONDS
	shift
	[[ $what == *$ONLY* ]] || return 0
	rows=$((rows + 1))
	"$@" >"$LAB_DIR/episode" 2>&1 || verdict=FAIL
	keep_logs
	printf '%-58s  %-4s  %4d s\n' "$what" "$verdict" $((SECONDS - started))
	[[ $verdict == PASS ]] && return
	failures=$((failures + 1))
	sed 's/^/      | /' "$LAB_DIR/episode"
}

# with traffic to the Pods that live throughout
under_traffic()
{
	"$@" && streams_hold
}

episodes()
{
	ONLY=${1:-}
	episodes_up >"$LAB_DIR/episode" 2>&1 || { cat "$LAB_DIR/episode"; die "the Pods of the episodes do not run"; }
	episode "host ports, from outside, address preserved" host_ports
	episode "the API server by its Service, from Pods" api_by_service
	episode "rollout restart of the DaemonSet" under_traffic rollout
	episode "Pods come and go without agents" under_traffic without_agents
	episode "agents come back" under_traffic agents_come_back
	episode "policies: probes and peers reach Pods under default deny" policies_decide
	episode "policies: a Pod that starts without agents waits" under_traffic guarded_waits
	episode "containerd killed" under_traffic restarted node1 containerd
	episode "kubelet killed" under_traffic restarted node2 kubelet
	episode "API server killed" under_traffic restart_apiserver
	episode "a node boots" boot
	episode "policies: the same after all of this" guarded_holds
	episode "addresses are those of Pods that run" addresses
	episode "kubectl delete, cleanup: nothing remains" uninstall
	((failures == 0)) || die "$failures of $rows episodes failed"
	echo "all $rows episodes passed"
}
