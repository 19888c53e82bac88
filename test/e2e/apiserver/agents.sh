# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/e2e/apiserver/agents.sh - the lab of t_real_agent.sh: DaemonSet's containers on two nodes, their accounts, the API
# server, objects as controllers and kubelets would write them, and load. It wants $REAL, $ROOT, client.sh and load.sh.

MANIFEST=$ROOT/manifests/monokube.yaml
API=/run/mklab-$MK_LAB/api
URL=$(in_family https://192.168.99.100:6443)
ETCD=http://127.0.0.1:2379
ACCOUNT=system:serviceaccount:kube-system:monokube
IMAGE=$TMP/image
NODES=(node1 node2)
# Many times an agent's longest pause, which apiRetryMaxSeconds makes short here
BACK_SECONDS=60
SETTINGS=(apiServer="$URL" clusterCidr="$(in_family 10.244.0.0/16)" vtepCidr="$(in_family 10.18.0.0/16)" apiRetryMaxSeconds=2)

kc()
{
	ip netns exec "$MK_LAB.api" env NO_PROXY='*' KUBECONFIG="$API/kubeconfig" "$MK_KUBECTL" --cache-dir "$TMP/cache" "$@"
}
put() { in_family "$(cat)" | kc apply -f - >/dev/null; }
gone() { kc delete --wait=false "$@" >/dev/null; }

# ---- the agents

agent_log() { echo "$TMP/agent.$1"; }
size_of() { wc -c <"$(agent_log "$1")"; }
# said NODE START REGEX: its agent has logged it since size_of() was START
said() { tail -c "+$(($2 + 1))" "$(agent_log "$1")" | grep -E "$(in_family "$3")"; }
contained() { on "$1" unshare -m "$HERE/lib/daemonset.py" "$IMAGE" "$MANIFEST" "$2" "$TMP/account.$1" NODE_NAME="$1" "${SETTINGS[@]}" "${@:3}"; }
pid_of() { on "$1" cat /var/lib/monokube/agent.lock; }

# agent NODE [KEY=VALUE...]: until it is ready
agent()
{
	local start
	touch "$(agent_log "$1")"
	start=$(size_of "$1")
	contained "$1" agent "${@:2}" >>"$(agent_log "$1")" 2>&1 </dev/null &
	wait_for 60 said "$1" "$start" '^info ready'
}
end_agent()
{
	kill "$(pid_of "$1")"
	wait_for 20 expect_failure kill -0 "$(pid_of "$1")"
}

# project NODE TOKEN CA: the files of the service account, replaced by one rename, as a kubelet does
project()
{
	local dir=$TMP/account.$1 version
	mkdir -p "$dir"
	version=$(mktemp -d "$dir/..XXXXXX")
	echo -n "$2" >"$version/token"
	cp "$3" "$version/ca.crt"
	ln -sfT "$(basename "$version")" "$dir/..new"
	mv -T "$dir/..new" "$dir/..data"
	ln -sfT ..data/token "$dir/token"
	ln -sfT ..data/ca.crt "$dir/ca.crt"
}

# token NODE NAME: one that is bound to the Secret NAME, as those of the TokenRequest API may be
token()
{
	kc -n kube-system create secret generic "$2" >/dev/null
	echo "$ACCOUNT@$1@$2"
}

# A node that has never run monokube; a controller of routes may have set its condition.
bare_node()
{
	lab agent stop "$1"
	on "$1" "$MK_BIN" cleanup
	no_route_to "$1"
	project "$1" "$(token "$1" "first-$1")" "$API/ca.crt"
	contained "$1" prepare
}
no_route_to()
{
	kc patch node "$1" --subresource status --type strategic -p '{"status": {"conditions": [{"type": "NetworkUnavailable", "status": "True", "reason": "NoRouteCreated"}]}}'
}

up()
{
	local node
	lab up 2 --api >"$TMP/up"
	"$ROOT/manifests/image/build" "$MK_BIN" --root "$IMAGE" >/dev/null
	for node in "${NODES[@]}"; do
		bare_node "$node" >>"$TMP/up" 2>&1
	done
	: >"$API/audit.log" # of the lab's own agents
	for node in "${NODES[@]}"; do
		agent "$node"
	done
}

# ---- the server

# answered CONDITION: requests of the agents, and their answers, for which jq's CONDITION holds
answered() { jq -c "select(.userAgent == \"monokube\" and .stage != \"RequestReceived\" and ($1)) | [.verb, .requestURI, .responseStatus.code, .user.extra]" "$API/audit.log"; }
server_ready() { kc get --raw /readyz; }
is_another() { [[ $(<"$API/server.pid") != "$1" ]] && server_ready; }
# again SIGNAL: the server ends, and the next one is ready
again()
{
	local was
	was=$(<"$API/server.pid")
	kill "-$1" "$was"
	wait_for 120 is_another "$was"
}
etcd_ask() { env ip netns exec "$MK_LAB.api" curl -sf --noproxy '*' -d "$2" "$ETCD/v3/kv/$1"; }
compact() { etcd_ask compaction "{\"revision\": $(etcd_ask range '{"key": "AA=="}' | jq .header.revision), \"physical\": true}"; }

# ---- objects

# pod NODE NAME [OPTIONS]: scheduled, then started, then ready
pod()
{
	local uid ip
	put <<-END
		apiVersion: v1
		kind: Pod
		metadata: {name: $2, labels: {app: ${2%-*}}}
		spec: {nodeName: $1, containers: [{name: main, image: none}]}
	END
	uid=$(kc get pod "$2" -o 'jsonpath={.metadata.uid}')
	ip=$(MK_POD_UID=$uid lab pod "$@")
	kc patch pod "$2" --subresource status --type merge -p '{"status": {"phase": "Running", "podIP": "'"$ip"'", "podIPs": [{"ip": "'"$ip"'"}],
		"conditions": [{"type": "Ready", "status": "True"}]}}' >/dev/null
	echo "$ip"
}
no_pod() { gone pod "$1" --force && lab rm "$1"; }

# endpoints SERVICE ADDRESS@NODE...
endpoints()
{
	local each
	{
		cat <<-END
			apiVersion: discovery.k8s.io/v1
			kind: EndpointSlice
			metadata: {name: $1-1, labels: {kubernetes.io/service-name: $1}}
			addressType: IPv$FAMILY
			ports: [{name: tcp, port: 8080}, {name: udp, port: 8080, protocol: UDP}]
			endpoints:
		END
		for each in "${@:2}"; do
			echo "- {addresses: [\"${each%@*}\"], nodeName: ${each#*@}, conditions: {ready: true, serving: true, terminating: false}}"
		done
	} | put
}

# service NAME ADDRESS [MORE of the spec]: its slices are written apart
service()
{
	put <<-END
		apiVersion: v1
		kind: Service
		metadata: {name: $1}
		spec:
		  clusterIP: "$(in_family "$2")"
		  clusterIPs: ["$(in_family "$2")"]
		  ipFamilies: [IPv$FAMILY]
		  ports: [{name: tcp, port: 8080${3:-}}, {name: udp, port: 8080, protocol: UDP${3:-}}]
		  ${4:-type: ClusterIP}
	END
}

answerers() { ask "$@" --count 24 | cut -d' ' -f1 | sort -u | xargs; }
answer() { expect_eq "who answers $1 at $2" "$3" "$(answerers "$1" tcp "$2")"; }
is_denied() { expect_eq "$2 from $1" timeout "$(ask "$1" tcp "$2" --timeout 0.5 || true)"; }
asks() { ask "$1" tcp "$2" --timeout 2; }

objects_up()
{
	pod node1 client >/dev/null
	pod node2 other >/dev/null
	ADDR_1=$(pod node1 web-1)
	ADDR_2=$(pod node2 web-2)
	serve web-1 web-1 --tcp 8080 --udp 8080
	serve web-2 web-2 --tcp 8080 --udp 8080
	service web "$VIP" ', nodePort: 30080' 'type: NodePort'
	endpoints web "$ADDR_1@node1" "$ADDR_2@node2"
	wait_for 10 asks client "$VIP:8080"
	wait_for 10 asks other "$VIP:8080"
}

# under_load COMMAND...: meanwhile no connection breaks, no datagram is lost, no agent restarts, nothing goes
under_load()
{
	local node pids=''
	for node in "${NODES[@]}"; do
		pids+="$(pid_of "$node") "
	done
	load client client "$VIP:8080" "$(with_port "$ADDR_2" 8080)"
	# shellcheck disable=SC2153 # of client.sh
	load world world "$NODE1:30080"
	"$@"
	answer client "$VIP:8080" "web-1 web-2"
	stop_load
	expect_eq "broken connections and lost datagrams" "" "$(grep -hE '^(broken|lost)' "$TMP"/load.* || true)"
	expect_eq "agents" "$pids" "$(for node in "${NODES[@]}"; do echo -n "$(pid_of "$node") "; done)"
	for node in "${NODES[@]}"; do
		contained "$node" agent:liveness
	done
}

# follows [POD...]: a change arrives on the nodes of these pods
follows()
{
	local pod address pods=${*:-client other}
	address=$(with_port "$(in_family 10.96.67.1)" 8080)
	service change 10.96.67.1
	endpoints change "$ADDR_1@node1"
	for pod in $pods; do
		wait_for "$BACK_SECONDS" answer "$pod" "$address" web-1
	done
	gone service/change endpointslice/change-1
	for pod in $pods; do
		wait_for "$BACK_SECONDS" is_denied "$pod" "$address"
	done
}
