#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_health.sh - a node's answers to those who ask whether to send it traffic: a load
# balancer at a Service's healthCheckNodePort, anybody at /healthz and /livez. By real curl.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"
export MK_AGENT_FLAGS="--log-level debug"

NODE1=192.168.99.11 NODE2=192.168.99.12 # translated with the port that follows

CLUSTER_1=/run/mklab-$MK_LAB/nodes/node1/cluster
NODE_FILE=/run/mklab-$MK_LAB/objects/node-node1.yaml

# balancer NAME VIP PORT [TYPE [POLICY]]: a Service to pods app=web with healthCheckNodePort PORT
balancer()
{
	apply "$1" <<-END
		apiVersion: v1
		kind: Service
		metadata: {name: $1}
		spec:
		  type: ${4:-LoadBalancer}
		  clusterIP: $2
		  externalTrafficPolicy: ${5:-Local}
		  healthCheckNodePort: $3
		  selector: {app: web}
		  ports: [{port: 80, targetPort: http}, {name: dns, port: 53, protocol: UDP, targetPort: dns}]
	END
}

# slice NAME TRIGGER ENDPOINT...: only to node1; an ENDPOINT is `ADDRESS [CONDITIONS]`
slice()
{
	local name=$1 trigger=$2 endpoint
	shift 2
	{
		echo "apiVersion: discovery.k8s.io/v1"
		echo "kind: EndpointSlice"
		echo "metadata:"
		echo "  name: $name-own"
		echo "  labels: {kubernetes.io/service-name: $name}"
		echo "  annotations: {endpoints.kubernetes.io/last-change-trigger-time: \"$trigger\"}"
		echo "addressType: IPv$FAMILY"
		echo "ports: [{port: 8080}, {name: other, port: 81}]"
		echo "endpoints:"
		for endpoint; do
			echo "- {addresses: [\"$(in_family "${endpoint%% *}")\"], nodeName: node1, conditions: {${endpoint#* }}}"
		done
	} >"$TMP/$name-slice.yaml"
	cp "$TMP/$name-slice.yaml" "$CLUSTER_1/$name-slice.yaml"
}

# get WHERE URL [ARGS...]: prints the status; headers and body stay in files. 000: no answer.
get()
{
	local where=$1 url=$2
	shift 2
	on "$where" curl -sg --noproxy '*' --max-time 5 -o "$TMP/body" -D "$TMP/headers" -w '%{http_code}\n' \
		"$@" "http://$url" || true
}
body() { cat "$TMP/body"; }
header() { tr -d '\r' <"$TMP/headers" | sed -n "s/^$1: //Ip"; }

# answers WHERE URL STATUS [WEIGHT]
answers()
{
	expect_eq "GET $2 from $1" "$3" "$(get "$1" "$2")" || return
	[[ $# -lt 4 ]] || expect_eq "weight" "$4" "$(header X-Load-Balancing-Endpoint-Weight)"
}

refuses_to_connect()
{
	local status=0
	on "$1" curl -sg --noproxy '*' --max-time 5 -o /dev/null "http://$2" || status=$?
	expect_eq "curl's exit status (7: refused) for $2 from $1" 7 "$status"
}

health_lab_up()
{
	lab up 2
	lab pod node1 client >/dev/null
	lab pod node1 web-1 >/dev/null
	lab pod node2 web-2 >/dev/null
	balancer web 10.96.77.1 31500
	wait_for 5 answers world "$NODE1:31500/" 200
}

# ---- healthCheckNodePort

exact_answer()
{
	local expected
	expected=$(printf '{\n\t"service": {\n\t\t"namespace": "default",\n\t\t"name": "web"\n\t},\n\t"localEndpoints": 1,\n\t"serviceProxyHealthy": true\n}')
	answers world "$NODE1:31500/any/path?x=y" 200 1
	expect_eq "the body" "$expected" "$(body)"
	expect_eq "Content-Type" application/json "$(header Content-Type)"
	expect_eq "X-Content-Type-Options" nosniff "$(header X-Content-Type-Options)"
	expect_eq "Content-Length" "${#expected}" "$(header Content-Length)"
	answers world "$NODE2:31500/" 200 1
	expect_eq "HEAD" 200 "$(get world "$NODE1:31500/" --head)"
	expect_eq "OPTIONS" 200 "$(get world "$NODE1:31500/" -X OPTIONS)"
}

from_everywhere()
{
	answers world "$NODE1:31500/" 200 1
	answers node1 "$NODE1:31500/" 200 1
	answers node1 "127.0.0.1:31500/" 200 1
	answers node2 "$NODE1:31500/" 200 1
	answers client "$NODE1:31500/" 200 1
	answers client "$NODE2:31500/" 200 1
}

follows_local_endpoints()
{
	lab rm web-1
	wait_for 5 answers world "$NODE1:31500/" 503 0
	expect_eq "localEndpoints" 0 "$(body | jq .localEndpoints)"
	answers world "$NODE2:31500/" 200 1
	lab pod node1 web-1 >/dev/null
	lab pod node1 web-3 >/dev/null
	wait_for 5 answers world "$NODE1:31500/" 200 2
	lab rm web-3
	wait_for 5 answers world "$NODE1:31500/" 200 1
}

# Only ready endpoints count, an address with several ports once.
counts_ready_addresses()
{
	balancer own 10.96.77.2 31501
	sed -i '/selector/d' "$TMP/own.yaml"
	lab apply "$TMP/own.yaml"
	slice own 2001-09-09T01:46:40Z '10.244.1.100 ready: true' '10.244.1.101 ready: false' \
		'10.244.1.102 ready: false, serving: true, terminating: true'
	wait_for 5 answers world "$NODE1:31501/" 200 1
	slice own 2001-09-09T01:46:40Z '10.244.1.102 ready: false, serving: true, terminating: true'
	wait_for 5 answers world "$NODE1:31501/" 503 0
	rm "$CLUSTER_1/own-slice.yaml"
	lab delete "$TMP/own.yaml"
	wait_for 5 refuses_to_connect world "$NODE1:31501/"
}

# Another port, policy or type: the old port is closed, a new one is opened.
follows_the_service()
{
	balancer web 10.96.77.1 31502
	wait_for 5 answers world "$NODE1:31502/" 200 1
	refuses_to_connect world "$NODE1:31500/"
	balancer web 10.96.77.1 31502 LoadBalancer Cluster
	wait_for 5 refuses_to_connect world "$NODE1:31502/"
	balancer web 10.96.77.1 31502
	wait_for 5 answers world "$NODE1:31502/" 200 1
	balancer web 10.96.77.1 31502 NodePort
	wait_for 5 refuses_to_connect world "$NODE1:31502/"
	balancer web 10.96.77.1 31500
	wait_for 5 answers world "$NODE1:31500/" 200 1
}

is_held() { on node1 ss -Hltn "sport = $1" | grep LISTEN; }

# hold_port PORT: of node1, held by another process than the agent, HOLDER
hold_port()
{
	env ip netns exec "$MK_LAB.node1" socat "$(by_family TCP TCP6)-LISTEN:$1,reuseaddr,fork" EXEC:cat &
	HOLDER=$!
	wait_for 5 is_held "$1"
}

port_of_another_process()
{
	local start
	start=$(log_size)
	hold_port 31503
	balancer taken 10.96.77.3 31503
	wait_for 5 logged "$start" "error Service 'default/taken': healthCheckNodePort 31503 .*Address already in use; free the port"
	kill "$HOLDER"
	wait_for 20 answers world "$NODE1:31503/" 200 1
	expect_eq "how often it was said" 1 "$(logged "$start" 'error.*31503' | wc -l)"
	lab delete "$TMP/taken.yaml"
	wait_for 5 refuses_to_connect world "$NODE1:31503/"
}

service_asked() { get world "$NODE1:31504/" >/dev/null && body | jq -r .service.name; }
is_first() { expect_eq "whose port it is" "$1" "$(service_asked)"; }

# The first keeps it; the other gets it when the first is deleted.
port_of_another_service()
{
	local start
	start=$(log_size)
	balancer first 10.96.77.4 31504
	wait_for 5 is_first first
	balancer second 10.96.77.5 31504
	wait_for 5 logged "$start" "error Service 'default/second': healthCheckNodePort 31504 .*'default/first' has it"
	is_first first
	lab delete "$TMP/first.yaml"
	wait_for 10 is_first second
	lab delete "$TMP/second.yaml"
	wait_for 5 refuses_to_connect world "$NODE1:31504/"
}

# Fifty silent clients do not keep others from an answer.
silent_clients()
{
	env ip netns exec "$MK_LAB.world" python3 -c '
import socket, sys, time
held = [socket.create_connection((sys.argv[1], 31500)) for _ in range(50)]
print("held", flush=True)
time.sleep(60)' "$(in_family "$NODE1")" >"$TMP/held" &
	wait_for 10 grep held "$TMP/held"
	answers node2 "$NODE1:31500/" 200 1
	answers world "$NODE1:10256/livez" 200
	kill %%
}

# ---- /healthz and /livez

node_answer()
{
	answers world "$NODE1:10256/healthz" 200
	expect_eq "Content-Type" application/json "$(header Content-Type)"
	expect_eq "X-Content-Type-Options" nosniff "$(header X-Content-Type-Options)"
	expect_eq "members" '["lastUpdated","currentTime","nodeEligible","healthy","status"]' "$(body | jq -c keys_unsorted)"
	expect_eq "eligible, healthy" '[true,true]' "$(body | jq -c '[.nodeEligible, .healthy]')"
	expect_eq "times are now" true "$(body | jq '[.lastUpdated, .currentTime] |
		all(sub("\\.[0-9]+"; "") | fromdateiso8601 - now | fabs < 10)')"
	answers world "$NODE1:10256/livez" 200
	expect_eq "members" '["lastUpdated","currentTime","healthy","status"]' "$(body | jq -c keys_unsorted)"
	answers world "$NODE1:10256/" 404
	answers world "$NODE1:10256/healthz/" 404
}

# change_node SED_EXPRESSION: change node1's object where node1 reads it
change_node()
{
	sed "$1" "$NODE_FILE" >"$TMP/node-node1.yaml"
	cp "$TMP/node-node1.yaml" "$CLUSTER_1/node-node1.yaml"
}
restore_node() { cp "$NODE_FILE" "$CLUSTER_1/node-node1.yaml"; }

# Services and liveness do not depend on it.
leaving_node()
{
	wait_for 5 answers world "$NODE1:10256/healthz" 503
	expect_eq "eligible, healthy" '[false,true]' "$(body | jq -c '[.nodeEligible, .healthy]')"
	answers world "$NODE1:10256/livez" 200
	answers world "$NODE1:31500/" 200 1
	restore_node
	wait_for 5 answers world "$NODE1:10256/healthz" 200
}
tainted_node()
{
	change_node 's/^spec:/spec:\n  taints: [{key: ToBeDeletedByClusterAutoscaler, effect: NoSchedule}]/'
	leaving_node
}
node_being_deleted()
{
	change_node 's/^metadata:/metadata:\n  deletionTimestamp: "2024-02-29T12:00:00Z"/'
	leaving_node
}

node_without_object()
{
	rm "$CLUSTER_1/node-node1.yaml"
	leaving_node
}

stopped_and_started()
{
	lab agent stop node1
	refuses_to_connect world "$NODE1:10256/healthz"
	refuses_to_connect world "$NODE1:31500/"
	lab agent start node1
	wait_for 5 answers world "$NODE1:10256/healthz" 200
	wait_for 5 answers world "$NODE1:31500/" 200 1
	lab agent kill node1
	refuses_to_connect world "$NODE1:31500/"
	lab agent start node1
	wait_for 5 answers world "$NODE1:31500/" 200 1
}

# The node's network does not depend on it.
node_port_taken()
{
	local start
	lab agent stop node1
	hold_port 10256
	start=$(log_size)
	lab agent start node1
	wait_for 5 logged "$start" 'error /healthz and /livez are not answered: cannot listen on '"$(by_family '0\.0\.0\.0' '\[::\]')"':10256: Address already in use; .*healthzBindAddress'
	wait_for 5 answers world "$NODE1:31500/" 200 1
	kill "$HOLDER"
	wait_for 20 answers world "$NODE1:10256/healthz" 200
}

switched_off()
{
	lab agent stop node1
	MK_AGENT_FLAGS="--healthz-bind-address off" lab agent start node1
	refuses_to_connect world "$NODE1:10256/healthz"
	wait_for 5 answers world "$NODE1:31500/" 200 1
	lab agent stop node1
	MK_AGENT_FLAGS="--log-level debug --healthz-bind-address $(with_port "$LOCALHOST" 10001)" lab agent start node1
	wait_for 5 answers node1 "127.0.0.1:10001/healthz" 200
	refuses_to_connect world "$NODE1:10001/healthz"
	lab agent stop node1
	lab agent start node1
}

# ---- network programming latency

latency_of()
{
	logged "$1" 'network programming latency service=default/web ms=' | sed 's/.*ms=//' | tail -n 1
}
latency_is_there() { [[ -n $(latency_of "$1") ]]; }

latency()
{
	local start
	start=$(log_size)
	slice web "$(date -u +%Y-%m-%dT%H:%M:%S.%NZ)" '10.244.1.110 ready: true'
	wait_for 5 latency_is_there "$start"
	expect_match "milliseconds" '^[0-9]{1,4}$' "$(latency_of "$start")"
	start=$(log_size)
	slice web 2001-09-09T01:46:40Z '10.244.1.111 ready: true'
	wait_for 5 logged "$start" 'Service applied service=default/web'
	expect_eq "latency of a change before the start" '' "$(latency_of "$start")"
	rm "$CLUSTER_1/web-slice.yaml"
}

# ---- changes that wait, on node2 and from the beginning, while everything else is tested on node1

# A frozen table cannot be written.
break_node2()
{
	on node2 bpftool map freeze pinned "$PINS/service_backends"
	balancer waiting 10.96.77.9 31509
}

waits_too_long()
{
	wait_for 90 answers world "$NODE2:10256/healthz" 503
	expect_eq "eligible, healthy" '[true,false]' "$(body | jq -c '[.nodeEligible, .healthy]')"
	answers world "$NODE2:10256/livez" 503
	answers world "$NODE2:31500/" 503 1
	expect_eq "serviceProxyHealthy" false "$(body | jq .serviceProxyHealthy)"
	refuses_to_connect world "$NODE2:31509/"
	answers world "$NODE1:31509/" 200 1
}

health_lab_up
check "healthCheckNodePort: status, headers, body" exact_answer
check "... from world, pods, nodes and the node itself" from_everywhere
break_node2
check "... follows the endpoints of the node" follows_local_endpoints
check "... counts ready addresses" counts_ready_addresses
check "... follows port, policy and type" follows_the_service
check "... whose port another process has is named, and tried again" port_of_another_process
check "... of two Services: the first keeps it" port_of_another_service
check "... answers while others hold connections" silent_clients
check "/healthz and /livez: status, headers, body" node_answer
check "... a node with the autoscaler's taint: 503 and 200" tainted_node
check "... a node that is being deleted: 503 and 200" node_being_deleted
check "... a node that has no Node object: 503 and 200" node_without_object
check "network programming latency is measured" latency
check "... all refuse while the agent is away, and are back with it" stopped_and_started
check "... whose port another process has: the agent starts, and tries again" node_port_taken
check "... off, and at another address" switched_off
check "a change that waits for more than a minute: 503 and 503" waits_too_long
finish
