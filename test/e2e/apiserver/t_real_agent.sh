#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/e2e/apiserver/t_real_agent.sh [PART OF A NAME...] - the whole agent, as the DaemonSet's container on two nodes of the
# lab, follows a real API server: each with the token of its node, the rights of monokube.yaml, and all admission policies.
# There are no controllers and no kubelet: the rows write Pods, statuses and EndpointSlices. It needs root.
set -euo pipefail
REAL=$(dirname "$(realpath "$0")")
ROOT=$(realpath "$REAL/../../..")
export MK_LAB_API_SERVER=$REAL/serve MK_KUBECTL=$ROOT/build/apiserver/tree/usr/bin/kubectl
# shellcheck source=test/lab/lib/tap.sh
. "$REAL/../../lab/lib/tap.sh"
# shellcheck source=test/lab/lib/load.sh
. "$HERE/lib/load.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"

# shellcheck source=test/e2e/apiserver/agents.sh
. "$REAL/agents.sh"

WORDS=("$@")

# ---- rows

condition() { kc get node "$1" -o json | jq -r '.status.conditions[] | select(.type == "NetworkUnavailable") | .status + " " + .reason'; }
has_condition() { expect_eq "NetworkUnavailable of $1" "False MonokubeIsUp" "$(condition "$1")"; }

become_ready()
{
	local node
	for node in "${NODES[@]}"; do
		wait_for 20 has_condition "$node"
		wait_for 20 contained "$node" agent:readiness
		expect_eq "patches of its status" "[\"patch\",\"/api/v1/nodes/$node/status?fieldManager=monokube\",200,{\"authentication.kubernetes.io/node-name\":[\"$node\"]}]" \
			"$(answered ".requestURI | contains(\"/nodes/$node/status\")")"
		expect_eq "warnings and errors of $node" "" "$(said "$node" 0 '^(warn|error)' || true)"
	done
	expect_eq "refused" "" "$(answered '.responseStatus.code == 403 or .responseStatus.code == 401')"
}

service_across()
{
	answer client "$VIP:8080" "web-1 web-2"
	answer other "$VIP:8080" "web-1 web-2"
	answer node1 "$VIP:8080" "web-1 web-2"
	answer world "$NODE1:30080" "web-1 web-2"
	answer world "$NODE2:30080" "web-1 web-2"
}

scaled()
{
	local third
	third=$(pod node2 web-3)
	serve web-3 web-3 --tcp 8080 --udp 8080
	endpoints web "$ADDR_1@node1" "$ADDR_2@node2" "$third@node2"
	wait_for 10 answer client "$VIP:8080" "web-1 web-2 web-3"
	endpoints web "$third@node2"
	wait_for 10 answer client "$VIP:8080" web-3
	endpoints web
	wait_for 10 expect_failure asks client "$VIP:8080"
	endpoints web "$ADDR_1@node1" "$ADDR_2@node2"
	wait_for 10 answer client "$VIP:8080" "web-1 web-2"
	no_pod web-3
}

# policy PEERS
policy()
{
	put <<-END
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: web}
		spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress], ingress: [$1]}
	END
}

denied_and_lifted()
{
	policy ''
	wait_for 10 is_denied client "$(with_port "$ADDR_2" 8080)"
	wait_for 10 is_denied other "$VIP:8080"
	policy '{from: [{podSelector: {matchLabels: {app: client}}}]}'
	wait_for 10 answer client "$VIP:8080" "web-1 web-2"
	is_denied other "$(with_port "$ADDR_1" 8080)"
	kc label pod other role=guest >/dev/null
	policy '{from: [{podSelector: {matchLabels: {role: guest}}}]}'
	wait_for 10 answer other "$VIP:8080" "web-1 web-2"
	wait_for 10 is_denied client "$VIP:8080"
	kc label pod client role=guest >/dev/null
	wait_for 10 answer client "$VIP:8080" "web-1 web-2"
	kc label pod client other role- >/dev/null
	wait_for 10 is_denied client "$(with_port "$ADDR_2" 8080)"
	gone networkpolicy/web
	wait_for 10 answer client "$VIP:8080" "web-1 web-2"
	wait_for 10 answer other "$VIP:8080" "web-1 web-2"
}

# cluster_policies: the resource, without a schema
cluster_policies()
{
	put <<-END
		apiVersion: apiextensions.k8s.io/v1
		kind: CustomResourceDefinition
		metadata:
		  name: clusternetworkpolicies.policy.networking.k8s.io
		  annotations: {api-approved.kubernetes.io: "unapproved, a test"}
		spec:
		  group: policy.networking.k8s.io
		  scope: Cluster
		  names: {kind: ClusterNetworkPolicy, plural: clusternetworkpolicies, singular: clusternetworkpolicy}
		  versions:
		  - {name: v1alpha2, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
	END
	kc wait --for=condition=Established --timeout=30s crd/clusternetworkpolicies.policy.networking.k8s.io
}

# The agents ask for a resource that was missing after a minute.
cluster_policy()
{
	cluster_policies
	put <<-END
		apiVersion: policy.networking.k8s.io/v1alpha2
		kind: ClusterNetworkPolicy
		metadata: {name: admin}
		spec:
		  tier: Admin
		  priority: 10
		  subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}}
		  ingress: [{name: none, action: Deny, from: [{namespaces: {}}]}]
	END
	wait_for 90 is_denied client "$(with_port "$ADDR_2" 8080)"
	wait_for 90 is_denied client "$(with_port "$ADDR_1" 8080)"
	kc patch clusternetworkpolicy admin --type json -p '[{"op": "replace", "path": "/spec/ingress/0/action", "value": "Accept"}]'
	wait_for 10 answer client "$VIP:8080" "web-1 web-2"
	kc patch clusternetworkpolicy admin --type json -p '[{"op": "replace", "path": "/spec/ingress/0/action", "value": "Deny"}]'
	wait_for 10 is_denied client "$VIP:8080"
	gone crd/clusternetworkpolicies.policy.networking.k8s.io # with its objects
	wait_for 90 answer client "$VIP:8080" "web-1 web-2"
}

chain_says()
{
	expect_eq "status of the chain" "$*" "$(kc -n inspection get sfc egress -o json | jq -r '.status | [.summary, (.conditions[] | .reason)] | join(" ")')"
}
has_events()
{
	expect_eq "Events of the chain" "$*" "$(kc -n inspection get events -o json |
		jq -r '[.items[] | .involvedObject.kind + " " + .reason] | sort | join(", ")')"
}

chain_status()
{
	put <<-END
		apiVersion: v1
		kind: Namespace
		metadata: {name: inspection}
		---
		apiVersion: networking.monokube.io/v1alpha1
		kind: ServiceFunctionChain
		metadata: {name: egress, namespace: inspection}
		spec: {traffic: {podSelector: {}, direction: Egress}, functions: [{name: firewall}]}
	END
	wait_for 30 chain_says "firewall 0/0" Valid Blocked
	put <<-END
		apiVersion: v1
		kind: Pod
		metadata:
		  name: firewall-1
		  namespace: inspection
		  labels: {networking.monokube.io/function: firewall}
		  annotations: {networking.monokube.io/function-ports: Bridged}
		spec: {nodeName: node2, containers: [{name: main, image: none}]}
	END
	kc -n inspection patch pod firewall-1 --subresource status --type merge -p '{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}'
	wait_for 30 chain_says "firewall 1/1" Valid AllServing
	wait_for 30 has_events "ServiceFunctionChain AllServing, ServiceFunctionChain Blocked"
	kc -n inspection get sfc egress
	gone -n inspection pod/firewall-1 --force
	wait_for 30 chain_says "firewall 0/0" Valid Blocked
	gone -n inspection sfc/egress
}

killed() { under_load again KILL; follows; }
ended() { under_load again TERM; follows; }

# Of node2 the kubelet has not replaced the file in time. Only requests need a token: open watches go on.
under_old_token()
{
	local start_1 start_2
	start_1=$(size_of node1) start_2=$(size_of node2)
	project node1 "$(token node1 second-node1)" "$API/ca.crt"
	gone -n kube-system secret/first-node1 secret/first-node2
	follows
	again KILL
	wait_for "$BACK_SECONDS" said node2 "$start_2" 'HTTP status 401'
	follows client
	expect_failure said node1 "$start_1" 'HTTP status 401'
	said node1 "$start_1" 'has changed and was read again'
	expect_failure said node2 "$start_2" 'has changed and was read again'
	project node2 "$(token node2 second-node2)" "$API/ca.crt"
}
rotated() { under_load under_old_token; follows; }

# The packets of the nodes do not arrive. Meanwhile objects change, the server is another one, and etcd has no history.
unreachable()
{
	ip netns exec "$MK_LAB.api" nft 'table inet unreachable { chain in { type filter hook input priority 0; iifname eth0 drop; }; }'
	"$@"
	ip netns exec "$MK_LAB.api" nft delete table inet unreachable
}
changed_unseen()
{
	gone service/before endpointslice/before-1
	service after 10.96.67.3
	endpoints after "$ADDR_2@node2"
	again KILL
	compact >/dev/null
}
has_frontends() { diff <(echo "$1") <(map_entries node1 frontends); }
compacted()
{
	local start before
	before=$(map_entries node1 frontends)
	service before 10.96.67.2
	endpoints before "$ADDR_1@node1"
	wait_for 10 answer client "$(with_port "$(in_family 10.96.67.2)" 8080)" web-1
	start=$(size_of node1)
	under_load unreachable changed_unseen
	wait_for 120 said node1 "$start" ': the server ends the watch with error 410: too old resource version'
	wait_for "$BACK_SECONDS" answer client "$(with_port "$(in_family 10.96.67.3)" 8080)" web-2
	wait_for "$BACK_SECONDS" is_denied client "$(with_port "$(in_family 10.96.67.2)" 8080)"
	gone service/after endpointslice/after-1
	follows
	wait_for 10 has_frontends "$before"
}

# The server gets a certificate of another authority; first no agent knows it, then node1 knows both, node2 only that one.
under_other_authority()
{
	local start_1 start_2
	start_1=$(size_of node1) start_2=$(size_of node2)
	echo ca-2 >"$API/authority"
	again KILL
	wait_for "$BACK_SECONDS" said node1 "$start_1" 'server certificate not accepted'
	wait_for "$BACK_SECONDS" said node2 "$start_2" 'server certificate not accepted'
	project node1 "$(<"$TMP/account.node1/token")" "$API/ca.crt"
	project node2 "$(<"$TMP/account.node2/token")" "$API/ca-2.crt"
}
authority() { under_load under_other_authority; follows; }

# starve SHARES: of the agents, one request at a time
starve()
{
	put <<-END
		apiVersion: flowcontrol.apiserver.k8s.io/v1
		kind: PriorityLevelConfiguration
		metadata: {name: starved}
		spec:
		  type: Limited
		  limited: {nominalConcurrencyShares: 0, lendablePercent: 0, borrowingLimitPercent: 0, limitResponse: {type: Reject}}
		---
		apiVersion: flowcontrol.apiserver.k8s.io/v1
		kind: FlowSchema
		metadata: {name: starved}
		spec:
		  priorityLevelConfiguration: {name: starved}
		  matchingPrecedence: 2
		  rules:
		  - subjects: [{kind: User, user: {name: "$ACCOUNT"}}]
		    resourceRules: [{verbs: ["*"], apiGroups: ["*"], resources: ["*"], clusterScope: true, namespaces: ["*"]}]
		    nonResourceRules: [{verbs: ["*"], nonResourceURLs: ["*"]}]
	END
	wait_for 20 knows_share
	on_and_on &
	wait_for 20 refuses
}
knows_share() { kc get --raw /debug/api_priority_and_fairness/dump_priority_levels | grep starved; }
# Its body does not end, for at most a minute
on_and_on() { sleep 55 | env ip netns exec "$MK_LAB.api" curl -s --noproxy '*' --cacert "$API/ca.crt" -H "Authorization: Bearer $ACCOUNT" -H 'Content-Type: application/json' \
	-X POST -T - "$URL/api/v1/namespaces/default/events" >"$TMP/held" 2>&1; }
asked_as_agent() { env ip netns exec "$MK_LAB.api" curl -s --noproxy '*' --cacert "$API/ca.crt" -H "Authorization: Bearer $ACCOUNT" -o "$TMP/answer" -w '%{http_code}' "$URL$1"; }
refuses() { expect_eq "status of a request" 429 "$(asked_as_agent /api/v1/services)"; }

refused_patches() { (($(answered '.responseStatus.code == 429 and .verb == "patch"' | wc -l) > $1)); }
starved()
{
	local start refused
	start=$(size_of node2) refused=$(answered '.responseStatus.code == 429 and .verb == "patch"' | wc -l)
	starve
	no_route_to node1
	policy ''
	wait_for 30 said node2 "$start" 'HTTP status 429'
	wait_for 30 refused_patches "$refused"
	follows # by open watches
	end_all "sleep 55"
	gone flowschema/starved prioritylevelconfiguration/starved
	wait_for "$BACK_SECONDS" has_condition node1
	wait_for "$BACK_SECONDS" is_denied client "$VIP:8080"
	gone networkpolicy/web
	wait_for 10 answer client "$VIP:8080" "web-1 web-2"
}

# The policy that is in force stays.
under_no_rights()
{
	local start
	start=$(size_of node1)
	kc get clusterrolebinding monokube -o json | jq 'del(.metadata.uid, .metadata.resourceVersion)' >"$TMP/binding.json"
	gone clusterrolebinding/monokube
	again KILL
	wait_for "$BACK_SECONDS" said node1 "$start" 'Services: .*HTTP status 403: .*forbidden'
	wait_for "$BACK_SECONDS" said node1 "$start" 'NetworkPolicies: .*403'
	is_denied other "$(with_port "$ADDR_1" 8080)"
	is_denied other "$(with_port "$ADDR_2" 8080)"
	kc create -f "$TMP/binding.json"
}
no_rights()
{
	policy '{from: [{podSelector: {matchLabels: {app: client}}}, {ipBlock: {cidr: '"$(in_family 192.168.99.0/24)"'}}]}'
	wait_for 10 is_denied other "$(with_port "$ADDR_2" 8080)"
	under_load under_no_rights
	gone networkpolicy/web
	wait_for 330 answer other "$VIP:8080" "web-1 web-2"
	follows
}

# It serves what it remembers, and answers 500 or nothing. The agents' watches are quiet for longer than they wait.
under_stalled_store()
{
	local start
	start=$(size_of node1)
	kill -STOP "$(<"$API/etcd.pid")"
	wait_for 120 said node1 "$start" 'asking again'
	kill -CONT "$(<"$API/etcd.pid")"
}
stalled_store() { under_load under_stalled_store; follows; }

# The Node object is deleted; the kubelet registers it again, and a controller assigns the range later.
registered_again()
{
	local start
	start=$(size_of node2)
	kc get node node2 -o json | jq 'del(.metadata.uid, .metadata.resourceVersion, .metadata.managedFields) |
		.status.conditions |= map(select(.type == "Ready"))' >"$TMP/node.json"
	gone node/node2
	wait_for 20 expect_failure asks client "$(with_port "$ADDR_2" 8080)"
	jq 'del(.spec.podCIDR, .spec.podCIDRs)' "$TMP/node.json" | kc create -f - >/dev/null
	wait_for 20 has_condition node2
	answer other "$(with_port "$ADDR_2" 8080)" web-2
	kc patch node node2 --type merge -p "$(jq '{spec: {podCIDR: .spec.podCIDR, podCIDRs: .spec.podCIDRs}}' "$TMP/node.json")"
	wait_for 20 answer client "$VIP:8080" "web-1 web-2"
	wait_for 20 answer other "$VIP:8080" "web-1 web-2"
	follows
	expect_failure said node2 "$start" '^info ready'
}

# A server that starts denies everything, until it has read its roles.
starts_with_it()
{
	local start
	replaced_backends_go node1
	end_agent node1
	kill -KILL "$(<"$API/server.pid")"
	start=$(size_of node1)
	agent node1
	wait_for 60 server_ready
	expect_match "ready line" 'writes=0( |$)' "$(said node1 "$start" '^info ready')"
	follows
}

names_of() { kc get "$1" -A -o json | jq -r '[.items[].metadata.name] | sort | join(" ")'; }
has_names() { expect_eq "$1" "${*:2}" "$(names_of "$1")"; }
leader() { kc -n monokube-peers get lease monokube-peers -o 'jsonpath={.spec.holderIdentity}'; }
is_led_by() { expect_match "holder of the Lease" "^$1" "$(leader)"; }

# Both agents get a clusterName; the one that writes for all ends, and the other one takes over.
leads()
{
	local node first
	for node in "${NODES[@]}"; do
		end_agent "$node"
		agent "$node" clusterName=west
	done
	put <<-END
		apiVersion: multicluster.x-k8s.io/v1beta1
		kind: ServiceExport
		metadata: {name: web}
	END
	wait_for 60 has_names publishednodes west.node1 west.node2
	wait_for 60 has_names publishedservices west.default.web
	wait_for 60 has_names serviceimports web
	first=$(leader)
	end_agent "$first"
	gone serviceexport/web
	wait_for 90 has_names publishedservices ""
	wait_for 90 has_names serviceimports ""
	agent "$first" clusterName=west
	expect_eq "refused" "" "$(answered '.responseStatus.code == 403 and .verb != "watch" and .verb != "list"')"
	for node in "${NODES[@]}"; do
		end_agent "$node"
		agent "$node"
	done
	service_across
}

# A function and its name, in their order: each leaves the lab as it found it.
ROWS=(
	become_ready "both agents become ready: the policy of own-node-status accepts their conditions, and nothing is refused"
	service_across "a Service leads to pods of both nodes: from pods, a node, outside"
	scaled "an EndpointSlice grows, shrinks, is empty, and has its endpoints again"
	denied_and_lifted "a NetworkPolicy denies, its peers and labels of pods change, it is lifted"
	cluster_policy "the CRD of ClusterNetworkPolicies comes: one denies, accepts, denies; the CRD goes, and nothing is denied"
	chain_status "a chain has a status and Events"
	killed "the API server is killed under load and comes back: nothing is lost, no agent restarts, changes are followed"
	ended "the same if it ends in order"
	rotated "tokens are revoked: the agent with a new file goes on, the other one once it has one; nothing is lost"
	compacted "the nodes cannot reach it, it is another one, and etcd has no history: only differences are written"
	authority "its certificate is of another authority: refused, and followed once the files of the account have it"
	starved "priority and fairness refuses lists and patches (429): they come once the agents get their share"
	stalled_store "its etcd stands still, until the agents ask again; it goes on: nothing is lost, changes are followed"
	registered_again "a Node is deleted, and registered again without a range: its pods are reached again once it has one"
	starts_with_it "an agent starts while its server starts: it writes nothing, and changes are followed"
	leads "the agents write for a clusterset: nodes, an exported Service, its import; the leader ends, another one leads"
	no_rights "the rights are gone, and it is another server: a policy stays in force; they are back, and changes are followed"
)

# chosen FUNCTION: by the words of the command line
chosen()
{
	local word
	((${#WORDS[@]})) || return 0
	for word in "${WORDS[@]}"; do
		[[ $1 != *"$word"* ]] || return 0
	done
	return 1
}

is_chosen()
{
	local i
	for ((i = 0; i < ${#ROWS[@]}; i += 2)); do
		! chosen "${ROWS[i]}" || return 0
	done
	return 1
}

check_rows()
{
	local i
	for ((i = 0; i < ${#ROWS[@]}; i += 2)); do
		! chosen "${ROWS[i]}" || check "${ROWS[i + 1]}" "${ROWS[i]}"
	done
}

explain()
{
	local node
	for node in "${NODES[@]}"; do
		echo "$node:"
		tail -n 12 "$(agent_log "$node")" | cut -c 1-300
	done
}

is_chosen || { finish && exit; }
up
objects_up
check_rows
finish
