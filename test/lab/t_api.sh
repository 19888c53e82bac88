#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_api.sh - agents that follow an API server: changes arrive, and no traffic suffers while
# the server is unreachable, or is back with other contents.
set -euo pipefail
export MK_LAB_ROUTING=Overlay # rows look for routes of the overlay
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"
export MK_KUBECTL='' # the same client on every machine; kubectl has a row of its own

export MK_AGENT_FLAGS='--api-retry-max-seconds 1 --log-level debug' # an hour's outage in seconds
BACK_SECONDS=20 # many times the longest pause between an agent's attempts
MK_FOLLOW=${MK_FOLLOW:-$HERE/../../build/test/wire/follow}
CONTENTS=/run/mklab-$MK_LAB/api/contents

# service NAME VIP PORT [MORE]: MORE are further members of its spec
service()
{
	cat <<-END
		---
		apiVersion: v1
		kind: Service
		metadata: {name: $1}
		spec: {clusterIP: $2, ports: [{port: $3, targetPort: 8080}]${4:+, $4}}
	END
}

# endpoint_slice NAME SERVICE ADDRESS
endpoint_slice()
{
	cat <<-END
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: $1, labels: {kubernetes.io/service-name: $2}}
		addressType: IPv4
		ports: [{name: "", port: 8080}]
		endpoints: [{addresses: ["$3"]}]
	END
}

# node NAME INDEX: a Node object without a machine
node()
{
	cat <<-END
		---
		apiVersion: v1
		kind: Node
		metadata: {name: $1}
		spec: {podCIDR: 10.244.$2.0/24, podCIDRs: [10.244.$2.0/24]}
		status: {addresses: [{type: InternalIP, address: 192.168.99.$((10 + $2))}]}
	END
}

answerers() { ask "$@" --count 24 | cut -d' ' -f1 | sort -u | xargs; }
answers() { expect_eq "who answers $1 at $3" "$4" "$(answers_of "$@")"; }
answers_of() { answerers "${@:1:3}"; }
is_silent() { expect_failure ask client tcp "$1" --timeout 0.3; }

api_lab_up()
{
	lab up 2 --api
	CLIENT=$(lab pod node1 client)
	WEB_1=$(lab pod node1 web-1)
	WEB_2=$(lab pod node2 web-2)
	serve web-1 web-1 --tcp 8080
	serve web-2 web-2 --tcp 8080
	{
		service web "$VIP" 80 'selector: {app: web}' |
			sed 's/spec: {/&type: NodePort, /; s/{port: 80/&, nodePort: 30080/'
		service leaving 10.96.66.2 80 'selector: {app: web}'
	} | apply shop >&2
	wait_for 5 ask client tcp "$VIP:80"
	wait_for 5 ask world tcp "$NODE2:30080"
}

ready_through_api()
{
	local node
	for node in node1 node2; do
		lab log "$node" | grep 'following the API server at https://192.168.99.100:6443'
		lab log "$node" | grep '^info ready '
	done
}

network_is_available()
{
	expect_eq "NetworkUnavailable of $1" False "$(lab api get "/api/v1/nodes/$1" |
		jq -r '.status.conditions[] | select(.type == "NetworkUnavailable") | .status')"
}
nodes_say_so()
{
	wait_for 10 network_is_available node1
	wait_for 10 network_is_available node2
}

traffic_flows()
{
	answers client tcp "$VIP:80" "web-1 web-2"
	answers node2 tcp "$VIP:80" "web-1 web-2"
	answers world tcp "$NODE1:30080" "web-1 web-2"
	answers world tcp "$NODE2:30080" "web-1 web-2"
}

endpoints_follow_pods()
{
	lab pod node1 web-3
	serve web-3 web-3 --tcp 8080
	wait_for 5 answers client tcp "$VIP:80" "web-1 web-2 web-3"
	lab rm web-3
	wait_for 5 answers client tcp "$VIP:80" "web-1 web-2"
}

applied_and_deleted()
{
	{
		service manual 10.96.66.3 80
		endpoint_slice manual-1 manual "$WEB_1"
	} | apply manual
	wait_for 5 answers client tcp 10.96.66.3:80 web-1
	endpoint_slice manual-2 manual "$WEB_2" | apply second
	wait_for 5 answers client tcp 10.96.66.3:80 "web-1 web-2"
	lab delete second.yaml
	wait_for 5 answers client tcp 10.96.66.3:80 web-1
	lab delete manual.yaml
	wait_for 5 is_silent 10.96.66.3:80
}

# ---- other Nodes

# knows_node INDEX: node1 has a route to it
knows_node()
{
	on node1 ip route show "10.244.$1.0/24" | grep mkvxlan
	on node1 bridge fdb show dev mkvxlan | grep "dst 192.168.99.$((10 + $1)) "
	on node1 ip neigh show dev mkvxlan | grep "^10.18.0.$1 "
}
forgot_node()
{
	expect_eq "routes and neighbours of node $1" "" "$(on node1 ip route show "10.244.$1.0/24")$(
		on node1 bridge fdb show dev mkvxlan | grep -F "192.168.99.$((10 + $1))" || true)$(
		on node1 ip neigh show dev mkvxlan | grep "^10.18.0.$1 " || true)"
}

# A machine with another name leaves its Node behind: its packets still come from a node.
node_left_behind()
{
	node former 7 | sed 's/192.168.99.17/192.168.99.12/' | apply former
	wait_for 10 says_event "node 'former': its InternalIP 192.168.99.12 is that of node 'node2', too"
	on client ping -c 1 -W 2 "$WEB_2"
	lab delete former.yaml
	on client ping -c 1 -W 2 "$WEB_2"
}

# The health checks of load balancers, and the latency from the controller to the tables.
health_of() { on world curl -s --noproxy '*' --max-time 5 "http://$NODE1:31600/" | jq .localEndpoints; }
has_local() { expect_eq "local endpoints" "$1" "$(health_of)"; }
health_is_followed()
{
	local start
	start=$(log_size)
	{
		service health 10.96.66.8 80 'type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31600'
		endpoint_slice health-1 health "$WEB_1" | sed -e "s/\(addresses: .*\)}/\1, nodeName: node1}/" -e \
			"s/metadata: {/&annotations: {endpoints.kubernetes.io\/last-change-trigger-time: \"$(date -u +%FT%TZ -d '+1 second')\"}, /"
	} | apply health
	wait_for 5 has_local 1
	wait_for 5 logged "$start" 'network programming latency service=default/health ms=[0-9]+$'
	lab delete health.yaml
	wait_for 5 expect_failure health_of
}

node_comes_and_goes()
{
	node node9 9 | apply node9
	wait_for 5 knows_node 9
	knows_node 2
	lab delete node9.yaml
	wait_for 5 forgot_node 9
	knows_node 2
	on client ping -c 1 -W 2 "$WEB_2"
}

# Two Nodes with one pod CIDR: the alphabetically first keeps it.
node_collides()
{
	local start
	start=$(log_size)
	node node7 2 | sed 's/192.168.99.12/192.168.99.17/' | apply node7
	wait_for 10 says_event "node 'node7': its pod CIDR 10.244.2.0/24 collides with node 'node2'"
	logged "$start" "^warn left out of the overlay: node 'node7'"
	expect_match "check" "Node 'node7' is left out: its pod CIDR 10.244.2.0/24 collides with node 'node2'" \
		"$(on node1 "$MK_BIN" check || true)"
	knows_node 2
	lab delete node7.yaml
	knows_node 2
	on client ping -c 1 -W 2 "$WEB_2"
}

# service_cidr NAME RANGE
service_cidr()
{
	cat <<-END
		---
		apiVersion: networking.k8s.io/v1
		kind: ServiceCIDR
		metadata: {name: $1}
		spec: {cidrs: [$2]}
	END
}

routes_range() { on node1 ip route show exact "$1" | grep mkhost0; }
says_event() { lab api get /api/v1/events | jq -er --arg m "$1" '.items[] | select(.type == "Warning" and (.message | contains($m)))'; }

range_comes_and_goes()
{
	{
		service_cidr services 10.96.0.0/16
		service_cidr wrong 10.244.128.0/17
	} | apply ranges
	wait_for 5 routes_range 10.96.0.0/16
	wait_for 10 says_event "ServiceCIDR 'wrong' 10.244.128.0/17"
	expect_failure routes_range 10.244.128.0/17
	lab delete ranges.yaml
	wait_for 5 expect_failure routes_range 10.96.0.0/16
}

# Each step by `kubectl`, client-side apply and its three-way patches.
real_kubectl()
{
	unset MK_KUBECTL
	{
		service by-kubectl 10.96.66.4 80
		endpoint_slice by-kubectl-1 by-kubectl "$WEB_2"
		node node8 8
	} >"$TMP/kubectl.yaml"
	lab kubectl apply -f "$TMP/kubectl.yaml"
	wait_for 5 answers client tcp 10.96.66.4:80 web-2
	wait_for 5 knows_node 8
	expect_match "second apply" 'service/by-kubectl unchanged' "$(lab kubectl apply -f "$TMP/kubectl.yaml")"
	sed -i 's/port: 80,/port: 81,/' "$TMP/kubectl.yaml"
	lab kubectl apply -f "$TMP/kubectl.yaml"
	wait_for 5 answers client tcp 10.96.66.4:81 web-2
	is_silent 10.96.66.4:80
	lab kubectl delete -f "$TMP/kubectl.yaml"
	wait_for 5 is_silent 10.96.66.4:81
	wait_for 5 forgot_node 8
	lab apply "$TMP/kubectl.yaml"
	wait_for 5 answers client tcp 10.96.66.4:81 web-2
	lab delete kubectl.yaml
	wait_for 5 is_silent 10.96.66.4:81
}

# ---- the status of chains

# It takes no pod of the lab.
chain_object()
{
	cat <<-END
		---
		apiVersion: networking.monokube.io/v1alpha1
		kind: ServiceFunctionChain
		metadata: {name: egress, namespace: inspection}
		spec: {traffic: {podSelector: {}, direction: Egress}, functions: [{name: firewall}]}
	END
}
function_pod_object()
{
	cat <<-END
		---
		apiVersion: v1
		kind: Pod
		metadata:
		  name: firewall-1
		  namespace: inspection
		  labels: {networking.monokube.io/function: firewall}
		  annotations: {networking.monokube.io/function-ports: Bridged}
		spec: {nodeName: node2}
		status: {phase: Running, conditions: [{type: Ready, status: "True"}]}
	END
}

# chain_says SUMMARY ACCEPTED READY: reasons of the conditions
chain_says()
{
	expect_eq "status of the chain" "$*" "$(lab api get /apis/networking.monokube.io/v1alpha1/namespaces/inspection/servicefunctionchains/egress |
		jq -r '.status | [.summary, (.conditions[] | .reason)] | join(" ")')"
}
chain_events() { lab api get /api/v1/namespaces/inspection/events | jq -r '[.items[] | .involvedObject.kind + " " + .reason] | sort | join(", ")'; }
has_chain_events() { expect_eq "Events of the chain" "$*" "$(chain_events)"; }

chain_has_status()
{
	chain_object | apply chain
	wait_for 10 chain_says "firewall 0/0" Valid Blocked
	function_pod_object | apply function
	wait_for 10 chain_says "firewall 1/1" Valid AllServing
	wait_for 10 has_chain_events "ServiceFunctionChain AllServing, ServiceFunctionChain Blocked"
	lab delete function.yaml
	wait_for 10 chain_says "firewall 0/0" Valid Blocked
	lab delete chain.yaml
}

# ---- what makes no sense

# nothing_suffers COMMAND...: web is served by the same entries before and after
nothing_suffers()
{
	local before
	before=$(service_tables node1 "$VIP")
	"$@"
	diff <(echo "$before") <(service_tables node1 "$VIP")
	answers client tcp "$VIP:80" "web-1 web-2"
	answers world tcp "$NODE1:30080" "web-1 web-2"
}

slice_is_left_out()
{
	local start
	start=$(log_size)
	{
		service partly 10.96.66.5 80
		endpoint_slice partly-nonsense partly 300.1.1.1
		endpoint_slice partly-good partly "$WEB_2"
	} | apply partly
	wait_for 5 logged "$start" 'default/partly-nonsense.*300\.1\.1\.1'
	wait_for 5 answers client tcp 10.96.66.5:80 web-2
	lab delete partly.yaml
	wait_for 5 is_silent 10.96.66.5:80
}

orphan_is_left_out()
{
	local start
	start=$(log_size)
	endpoint_slice orphan-1 nobody "$WEB_1" | apply orphan
	wait_for 5 logged "$start" 'ignored: endpoints.*default/nobody'
	lab delete orphan.yaml
}

service_is_left_out()
{
	local start
	start=$(log_size)
	service portless 10.96.66.6 0 | apply portless
	wait_for 5 logged "$start" 'default/portless.*port'
	lab delete portless.yaml
}

# The address stays with its Service; when that is deleted, the other one gets it.
second_is_left_out()
{
	local start
	start=$(log_size)
	{
		service first 10.96.66.7 80
		endpoint_slice first-1 first "$WEB_1"
	} | apply first
	wait_for 5 answers client tcp 10.96.66.7:80 web-1
	{
		service second 10.96.66.7 80
		endpoint_slice second-1 second "$WEB_2"
	} | apply second
	wait_for 5 logged "$start" '10\.96\.66\.7.*default/second|default/second.*10\.96\.66\.7'
	answers client tcp 10.96.66.7:80 web-1
	lab delete first.yaml
	wait_for 5 answers client tcp 10.96.66.7:80 web-2
	lab delete second.yaml
	wait_for 5 is_silent 10.96.66.7:80
}

# ---- a table without room

table_says_full() { says_event "Service 'default/nomore': map 'frontends' is full (262144 entries)" | grep NetworkTableFull; }

# It continues by itself when there is space again; meanwhile everything else is served.
table_is_full()
{
	local start
	start=$(log_size)
	on node1 "$HERE/fill_map.py" fill /sys/fs/bpf/monokube/maps/frontends
	{
		service nomore 10.96.66.9 80
		endpoint_slice nomore-1 nomore "$WEB_2"
	} | apply nomore
	wait_for 10 table_says_full
	logged "$start" "^error Service 'default/nomore': map 'frontends' is full \(262144 entries\)"
	traffic_flows
	on node1 "$HERE/fill_map.py" clear /sys/fs/bpf/monokube/maps/frontends
	wait_for 60 answers client tcp 10.96.66.9:80 web-2
	wait_for 5 logged "$start" '^info the previous error is over'
	lab delete nomore.yaml
	wait_for 5 is_silent 10.96.66.9:80
}

# ---- the API server goes and comes back

# Requests of the API server's clients that jq's CONDITION selects.
asked() { lab api get /standin/log | jq "map(select($1)) | length"; }
watches_on() { [[ $(asked '.path == "/api/v1/services" and .query.watch and (.query.sendInitialEvents | not)') -gt $1 ]]; }

# Every packet to and from the server is lost: no FIN, no RST. A separate client has limits of
# seconds; the agents' limits are half a minute.
vanishes_without_a_word()
{
	local lists watches follower
	env ip netns exec "$MK_LAB.node1" "$MK_FOLLOW" --dump "$TMP/follow.dump" --kubeconfig "/run/mklab-$MK_LAB/api/kubeconfig" \
		--keepalive-s 1 --unacknowledged-ms 2000 --connect-ms 1000 --backoff-max-ms 500 >"$TMP/follow" 2>&1 &
	follower=$!
	wait_for 10 grep '^listed' "$TMP/follow"
	lists=$(asked '.query.sendInitialEvents')
	ip netns exec "$MK_LAB.api" nft 'table inet vanish {
		chain in { type filter hook input priority 0; iifname eth0 drop; }
		chain out { type filter hook output priority 0; oifname eth0 drop; }
	}'
	wait_for 20 grep '^warn Services: .*asking again' "$TMP/follow"
	watches=$(asked '.path == "/api/v1/services" and .query.watch and (.query.sendInitialEvents | not)')
	service unheard 10.96.66.10 80 | apply unheard
	ip netns exec "$MK_LAB.api" nft delete table inet vanish
	wait_for 20 grep 'default/unheard' "$TMP/follow.dump"
	watches_on "$watches"
	expect_eq "lists, after the connection was lost" "$lists" "$(asked '.query.sendInitialEvents')"
	kill "$follower"
	wait "$follower"
	lab delete unheard.yaml
}

# pauses_are_longest START N: node1's agent has waited its longest pause more than N times
pauses_are_longest() { [[ $(logged "$1" 'Services: .*asking again in ([5-9][0-9][0-9]|1000) ms' | wc -l) -gt $2 ]]; }

# The server is away until the pauses between attempts no longer grow.
api_away()
{
	local -A PIPES=()
	local start late
	start=$(log_size)
	hold pod client "$WEB_2:8080"
	hold service client "$VIP:80"
	hold nodeport world "$NODE1:30080"
	hold host node1 "$VIP:80"
	lab api stop
	wait_for 10 logged "$start" '^warn .*192\.168\.99\.100.*asking again'
	pulse 2
	wait_for 60 pauses_are_longest "$start" 10
	late=$(lab pod node2 late)
	on client ping -c 1 -W 2 "$late"
	on late ping -c 1 -W 2 "$CLIENT"
	answers late tcp "$VIP:80" "web-1 web-2"
	lab rm late
	traffic_flows
	pulse 3
}

# Every object has a version that no agent has seen: all are read again.
contents_are_younger()
{
	local file
	for file in "$CONTENTS"/*.json; do
		jq '(.metadata.resourceVersion, .items[].metadata.resourceVersion) |= (tonumber + 1000 | tostring)' \
			"$file" >"$TMP/younger"
		cp "$TMP/younger" "$file"
	done
}

# read_again START: since then node1 has been told that its version is too old, and has read the
# list
read_again()
{
	local kind
	for kind in Nodes Services EndpointSlices; do
		logged "$1" "^warn $kind: .* 410"
		logged "$1" "^info $kind: following the API server again"
	done
}

same_contents_back()
{
	local before start
	before=$(tables node1)
	contents_are_younger
	start=$(log_size)
	lab api start
	wait_for "$BACK_SECONDS" read_again "$start"
	diff <(echo "$before") <(tables node1)
	expect_failure logged "$start" '^error'
	traffic_flows
}

# Open one new connection after another until the file exists
ask_on_and_on()
{
	while [[ ! -e $TMP/enough ]]; do
		ask client tcp "$VIP:80" --count 10
	done
}

# leaving is gone, arriving exists, node9 too, and no Node has a condition; web does not notice.
other_contents_back()
{
	local -A PIPES=()
	local before start
	hold across client "$VIP:80"
	before=$(service_tables node1 "$VIP")
	lab api stop
	contents_are_younger
	jq '.items |= map(if .metadata.name == "leaving" then
		.metadata.name = "arriving" | .spec.clusterIP = "10.96.66.8" | .spec.clusterIPs = ["10.96.66.8"]
		else . end)' "$CONTENTS/services.json" >"$TMP/services.json"
	jq 'del(.items[].status.conditions) | .items += [.items[0] | .metadata.name = "node9" | .spec = {podCIDR: "10.244.9.0/24"} |
		.status.addresses = [{type: "InternalIP", address: "192.168.99.19"}]]' \
		"$CONTENTS/nodes.json" >"$TMP/nodes.json"
	cp "$TMP/services.json" "$TMP/nodes.json" "$CONTENTS"
	ask_on_and_on >"$TMP/asked" 2>&1 &
	start=$(log_size)
	lab api start
	wait_for "$BACK_SECONDS" read_again "$start"
	wait_for 10 answers client tcp 10.96.66.8:80 "web-1 web-2"
	wait_for 5 is_silent 10.96.66.2:80
	wait_for 5 knows_node 9
	touch "$TMP/enough"
	wait $!
	nodes_say_so
	diff <(echo "$before") <(service_tables node1 "$VIP")
	expect_eq "failures among $(wc -l <"$TMP/asked") connections to web" "" "$(grep -vE '^web-[12] ' "$TMP/asked" || true)"
	pulse 2
}

restart_writes_nothing()
{
	local before
	replaced_backends_go node1
	before=$(tables node1)
	lab agent stop node1
	lab agent start node1
	diff <(echo "$before") <(tables node1)
	expect_match "last ready line" 'writes=0( |$)' "$(lab log node1 | grep 'info ready' | tail -n 1)"
}

# Pinned entries serve; the agent is not ready before it knows the current cluster.
started_without_api()
{
	local start starting
	lab api stop
	lab agent stop node1
	start=$(log_size)
	lab agent start node1 &
	starting=$!
	wait_for 10 logged "$start" '^warn .*192\.168\.99\.100.*asking again'
	traffic_flows
	lab pod node1 early
	answers early tcp "$VIP:80" "web-1 web-2"
	looked_after_without_api
	expect_failure logged "$start" '^info ready'
	lab api start
	wait "$starting"
	# the new pod's two entries of map policy_expected, once NetworkPolicies are listed
	expect_match "ready line" 'writes=[02]( |$)' "$(logged "$start" '^info ready')"
	traffic_flows
}

metric() { on node1 curl -s --noproxy '*' http://127.0.0.1:10249/metrics | awk -v name="$1" '$1 == name { print $2 }'; }
sessions_expire() { (($(metric 'monokube_sweep_passes_total{family="IPv4"}') > 0 && $(metric 'monokube_sessions_expired_total{family="IPv4"}') > 0)); }
looked_after_without_api()
{
	wait_for 60 sessions_expire
	on node1 tc filter del dev eth0 ingress
	wait_for 15 ask world tcp "$NODE1:30080"
	wait_for 15 logged "$start" 'program was missing .*program=nat_uplink'
}

# The cluster got a second family, this Node has no range of it. The node goes on with the first one.
says_family() { says_event "the Node object 'node1' has no IPv6 pod CIDR" | grep AddressFamilyMissing; }
lacks_a_family()
{
	lab agent stop node1
	MK_AGENT_FLAGS="--cluster-cidr 10.244.0.0/16,fd00:10:244::/48 --vtep-cidr 10.18.0.0/16,fd4d:4b00:12::/64" lab agent start node1
	wait_for 20 says_family
	traffic_flows
	lab agent stop node1
	lab agent start node1
	traffic_flows
}

# Its pods keep addresses that lead nowhere: this is reported not only in the log.
node_made_again()
{
	node node2 7 | sed 's/192.168.99.17/192.168.99.12/' >"$TMP/again.yaml"
	lab delete node-node2.yaml
	lab apply "$TMP/again.yaml"
	wait_for 60 says_event 'outside the pod CIDR 10.244.7.0/24 of their node, such as 10.244.2.'
}

# faults JSON: faults of the stand-in server from now on
faults()
{
	local dir=/run/mklab-$MK_LAB/api
	ip netns exec "$MK_LAB.api" curl -sf --noproxy '*' --cacert "$dir/ca.crt" --cert "$dir/admin.crt" \
		--key "$dir/admin.key" -d "$1" -o "$TMP/faults.out" https://192.168.99.100:6443/standin/faults
}

# Services are listed, EndpointSlices are not. If they were programmed now, the new Service would
# refuse, and the pinned ones would lose their backends.
half_a_list()
{
	local before start starting
	lab agent stop node1
	{
		service halves 10.96.66.7 80
		endpoint_slice halves-1 halves "$WEB_1"
	} | apply halves
	before=$(tables node1)
	start=$(log_size)
	faults '[{"match": {"target": "/endpointslices"}, "times": 1000000, "status": 503}]'
	lab agent start node1 &
	starting=$!
	wait_for 15 logged "$start" '^info Services: .* read from the API server'
	wait_for 15 logged "$start" '^warn EndpointSlices: .*503'
	diff <(echo "$before") <(tables node1)
	expect_failure logged "$start" '^info ready'
	traffic_flows
	faults '[]'
	wait "$starting"
	wait_for 5 answers client tcp 10.96.66.7:80 web-1
	lab delete halves.yaml
}

# Policies are listed, the Pods that they name are not. If the policies were written now, they would deny what they
# allow.
half_a_list_of_pods()
{
	local start starting
	pod_objects client web-1 | apply people
	peers_policy | apply peers
	wait_for 10 expect_failure ask web-1 tcp "$WEB_2:8080" --timeout 0.3
	ask client tcp "$WEB_1:8080"
	lab agent stop node1
	start=$(log_size)
	faults '[{"match": {"target": "/api/v1/pods"}, "times": 1000000, "status": 503}]'
	lab agent start node1 &
	starting=$!
	wait_for 15 logged "$start" '^info NetworkPolicies: .* read from the API server'
	wait_for 15 logged "$start" '^warn Pods of this node: .*503'
	ask client tcp "$WEB_1:8080" --count 20
	faults '[]'
	wait "$starting"
	ask client tcp "$WEB_1:8080"
	expect_failure ask web-1 tcp "$WEB_2:8080" --timeout 0.3
	lab delete peers.yaml
	wait_for 10 ask web-1 tcp "$WEB_2:8080" --timeout 0.3
	lab delete people.yaml
}
# pod_objects NAME..: as static pods. The server gives each object a UID of its own.
pod_objects()
{
	local records=("${@/%/.json}")
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$HERE/lib /usr/bin/python3 -c '
import json, sys, yaml, pods
found = [pods.pod_object(json.load(open(path))) for path in sys.argv[1:]]
for one in found:
    one["metadata"]["annotations"]["kubernetes.io/config.hash"] = one["metadata"]["uid"]
print("---\n" + yaml.safe_dump_all([pods.namespace_object("default")] + found))
' "${records[@]/#//run/mklab-$MK_LAB/pods/}"
}
peers_policy()
{
	cat <<-END
		---
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: peers, namespace: default}
		spec:
		  podSelector: {}
		  policyTypes: [Ingress, Egress]
		  ingress: [{from: [{podSelector: {matchLabels: {app: client}}}]}]
		  egress: [{to: [{podSelector: {matchLabels: {app: web}}}]}]
	END
}

# after a failed test
explain()
{
	tail -n 25 <(lab log node1)
}

api_lab_up
check "agents become ready through the API server" ready_through_api
check "each Node says NetworkUnavailable=False" nodes_say_so
check "ClusterIP and NodePort lead to backends on both nodes" traffic_flows
check "endpoints follow the pods" endpoints_follow_pods
check "a Service and its slices are applied, changed, deleted" applied_and_deleted
check "healthCheckNodePort is answered, network programming latency measured" health_is_followed
check "a new Node's route, neighbour and FDB entry come and go" node_comes_and_goes
check "two Nodes with one pod CIDR: the first keeps it, and an Event" node_collides
check "two Nodes with one InternalIP: the older one keeps it, and an Event" node_left_behind
check "a ServiceCIDR is routed; one that cannot be is an Event" nothing_suffers range_comes_and_goes
check "a chain has a status, and Events" nothing_suffers chain_has_status
if command -v kubectl >/dev/null; then
	check "kubectl apply and delete: Service, EndpointSlice, Node" real_kubectl
else
	echo "# kubectl is not installed: its row is not part of this plan"
fi
check "a slice with address 300.1.1.1 is named, nothing else suffers" nothing_suffers slice_is_left_out
check "a slice of no Service is named, nothing else suffers" nothing_suffers orphan_is_left_out
check "a Service with port 0 is named, nothing else suffers" nothing_suffers service_is_left_out
check "of two Services with one address the second is named" nothing_suffers second_is_left_out
check "map frontends is full: an Event names Service, map and size; then it recovers" nothing_suffers table_is_full
check "a server that vanishes without a word: noticed, the watch resumed, no list" vanishes_without_a_word
check "the API server is away for long: connections, new pods, Services go on" api_away
check "it is back, every object a new version: not one entry changes" same_contents_back
check "it is back with other contents: the differences alone are written" other_contents_back
check "a restart changes no table" restart_writes_nothing
check "an agent that starts without API server serves what is pinned, and looks after sessions and hooks" started_without_api
check "half a list: nothing is programmed before EndpointSlices are there, too" half_a_list
check "half a list: no policy is written before the Pods that it names are there" half_a_list_of_pods
check "a Node without a range of the cluster's second family: an Event names it, and traffic goes on" lacks_a_family
check "a Node made again with another pod CIDR: an Event about its pods" node_made_again
finish
