#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_clusters_leader.sh - Services of a clusterset with leaders: both clusters have an API server. East's
# leader publishes what east exports, the test carries it to west, and west's leader imports it. At the end the
# leaders read each other's API server, and nothing is carried.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

# shellcheck disable=SC2034 # read by clusters.sh
CLUSTERS=(west east) WITH_API=yes
# shellcheck source=test/lab/lib/clusters.sh
. "$HERE/lib/clusters.sh"
# shellcheck disable=SC2034 # read by clusters.sh
MORE_FLAGS="--clusterset-cidr $(both 247.254.0.0/16)"

# ---- objects

# carry KIND: what east has published of KIND is what west has of it
carry()
{
	local plural=${1,,}s
	get east "$GROUP/namespaces/monokube-published/$plural" \
		'.items[] | .kind = "'"$1"'" | .apiVersion = "networking.monokube.io/v1alpha1" |
		 .metadata = {name: .metadata.name, namespace: "monokube-peers", labels: .metadata.labels} | tojson | "---", .' \
		>"$TMP/carried-$plural.yaml"
	of west lab apply "$TMP/carried-$plural.yaml"
}

# east_exports ENDPOINT...: each is ADDRESS=NODE
east_exports()
{
	local endpoint endpoints=''
	for endpoint in "$@"; do
		endpoints+="{addresses: [${endpoint%=*}], nodeName: ${endpoint#*=}}, "
	done
	of east apply web <<-END
		apiVersion: v1
		kind: Service
		metadata: {name: web, namespace: shop}
		spec: {clusterIP: 10.96.5.1, ports: [{name: http, port: 80}]}
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: web, namespace: shop, labels: {kubernetes.io/service-name: web}}
		addressType: IPv4
		ports: [{name: http, port: 8080}]
		endpoints: [${endpoints%, }]
		---
		apiVersion: multicluster.x-k8s.io/v1beta1
		kind: ServiceExport
		metadata: {name: web, namespace: shop}
	END
}

published_names() { get east "$GROUP/namespaces/monokube-published/$1" '[.items[].metadata.name] | sort | join(" ")'; }
has_published() { expect_eq "published $1" "$2" "$(published_names "$1")"; }

import_address() { get "$1" /apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/serviceimports/web '.spec.ips[0]'; }
has_import() { expect_match "clusterset address in $1" "^$(by_family 247.254. fd00:247:)" "$(import_address "$1")"; }
slices_of() { get "$1" /apis/discovery.k8s.io/v1/namespaces/shop/endpointslices '[.items[] | select(.metadata.labels["multicluster.kubernetes.io/service-name"] == "web") | .endpoints[].addresses[0]] | sort | join(" ")'; }
# has_slices CLUSTER ADDRESS...
has_slices() { expect_eq "addresses of the import in $1" "$(in_family "${*:2}")" "$(slices_of "$1")"; }
imports_nothing() { expect_eq "ServiceImports of $1" "" "$(get "$1" /apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/serviceimports '.items[].metadata.name')$(slices_of "$1")"; }

# west's ClusterPeer has no view: the leader chooses one
west_peers_with_east()
{
	of west apply peer-east <<-END
		apiVersion: networking.monokube.io/v1alpha1
		kind: ClusterPeer
		metadata: {name: east}
		spec: {access: Exports}
	END
}

# west_sees ADDRESS: the address by which west sees this pod of east; its view is the first block of the pool
west_sees()
{
	expect_eq "view of east" "$(by_family 240.0.0.0/16 fd00:240::/48)" \
		"$(get west "$GROUP/clusterpeers/east" .status.podCidr)" >&2
	by_family "240.0.${1#10.244.}" "fd00:240:0:${1#*:244:}"
}

# ---- traffic

# asked CLUSTER POD: who answers 24 requests to the clusterset's address
asked() { of "$1" ask "$2" tcp "$(with_port "$(import_address "$1")" 80)" --count 24 | cut -d' ' -f1 | sort -u | xargs; }
answers() { expect_eq "who answers $2 of $1" "$3" "$(asked "$1" "$2" || true)"; }

# ---- rows

peers_by_hand()
{
	local cluster
	for cluster in "${CLUSTERS[@]}"; do
		namespaces >"$TMP/namespaces.yaml"
		of "$cluster" lab apply "$TMP/namespaces.yaml"
	done
	published west east
	west_peers_with_east
	peer east west 240.1.0.0/16 Exports
	wait_for 30 has_published publishedclusters east
	wait_for 30 has_published publishednodes "east.node1 east.node2"
	carry PublishedCluster
	carry PublishedNode
	wait_for 20 peers_are west node1 "east direct ok"
	wait_for 20 peers_are east node1 "west direct ok"
	VIEW_A=$(west_sees "$(in_family 10.244.1.2)") VIEW_B=$(west_sees "$(in_family 10.244.2.2)")
	echo "VIEW_A=$VIEW_A VIEW_B=$VIEW_B" >"$TMP/views"
}

exported()
{
	east_exports 10.244.1.2=node1 10.244.2.2=node2
	wait_for 30 has_published publishedservices east.shop.web
	wait_for 30 has_import east
	wait_for 30 has_slices east 10.244.1.2 10.244.2.2
	wait_for 20 answers east a "a b"
}

imported()
{
	carry PublishedService
	wait_for 30 has_import west
	wait_for 30 has_slices west "$VIEW_A" "$VIEW_B"
	wait_for 20 answers west a "a b"
	wait_for 20 answers west b "a b"
}

# The other agent leads when the Lease has not been renewed for 15 s.
leader_is_killed()
{
	local dead pod=a # of a node whose agent runs
	dead=$(leader_of west)
	[[ $dead == node2 ]] || pod=b
	of west lab agent kill "$dead"
	east_exports 10.244.2.2=node2
	wait_for 20 has_slices east 10.244.2.2
	carry PublishedService
	wait_for 40 has_slices west "$VIEW_B"
	expect_failure expect_eq "leader of west" "$dead" "$(leader_of west)"
	wait_for 20 answers west "$pod" b
	of west lab agent start "$dead"
}

all_are_killed()
{
	local node address
	address=$(import_address west)
	for node in node1 node2; do
		of west lab agent kill "$node"
	done
	answers west a b
	for node in node1 node2; do
		of west lab agent start "$node"
	done
	answers west b b
	has_slices west "$VIEW_B"
	expect_eq "clusterset address" "$address" "$(import_address west)"
}

# East's PublishedCluster vanishes while no agent runs, and comes back. The tables stay until then. The next
# row needs it.
starts_without_cluster()
{
	local node
	for node in node1 node2; do
		of west lab agent kill "$node"
	done
	of west lab delete "$TMP/carried-publishedclusters.yaml"
	for node in node1 node2; do
		of west lab agent start "$node"
	done
	for node in node1 node2; do
		wait_for 20 logs_wait "$node"
	done
	answers west a b
	answers west b b
	has_slices west "$VIEW_B"
	of west lab apply "$TMP/carried-publishedclusters.yaml"
}
logs_wait() { of west lab log "$1" | tail -n 40 | grep -q "peer east: its PublishedCluster is gone since the last run"; }

export_ends()
{
	of east lab kubectl -n shop delete serviceexport web
	wait_for 20 has_published publishedservices ""
	wait_for 20 imports_nothing east
	has_slices west "$VIEW_B" # nothing was carried there
	of west lab delete "$TMP/carried-publishedservices.yaml"
	wait_for 40 imports_nothing west
}

# reachable CLUSTER PEER: its status says how the nodes answer probes
reachable()
{
	expect_eq "nodes and Reachable of $2 in $1" "2 True Reachable true" "$(get "$1" "$GROUP/clusterpeers/$2" \
		'.status | (.conditions[] | select(.type == "Reachable")) as $is | "\(.reachableNodes) \($is.status) \($is.reason) \(.rttMicros > 0)"')"
}

# No packet passes between the nodes: the status says so, and an Event. Then all is as before.
is_reachable() { expect_eq "Reachable of east in west" "$1" "$(get west "$GROUP/clusterpeers/east" '.status.conditions[] | select(.type == "Reachable") | "\(.status) \(.reason)"')"; }
reachable_events() { expect_match "Events of east" NoAnswer "$(get west /api/v1/events '[.items[] | select(.involvedObject.name == "east").reason] | join(" ")')"; }
no_answer()
{
	is_reachable "True Reachable"
	sever site1 site2
	wait_for 30 is_reachable "False NoAnswer"
	wait_for 20 reachable_events
	mend
	wait_for 40 is_reachable "True Reachable"
	reachable west east
}

# path_is PATH: status.path of east in west
path_is() { expect_eq "path" "$1" "$(get west "$GROUP/clusterpeers/east" .status.path)"; }

paths()
{
	path_is Direct
	of west lab kubectl label node node2 networking.monokube.io/border=true
	wait_for 20 path_is Border
	of west lab kubectl label node node2 networking.monokube.io/border-
	wait_for 20 path_is Direct
}

west_exports()
{
	of west apply web <<-END
		apiVersion: v1
		kind: Service
		metadata: {name: back, namespace: shop}
		spec: {clusterIP: 10.96.5.2, ports: [{name: http, port: 80}]}
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: back, namespace: shop, labels: {kubernetes.io/service-name: back}}
		addressType: IPv4
		ports: [{name: http, port: 8080}]
		endpoints: [{addresses: [10.244.1.2], nodeName: node1}]
		---
		apiVersion: multicluster.x-k8s.io/v1beta1
		kind: ServiceExport
		metadata: {name: back, namespace: shop}
	END
}

answers_by()
{
	local address
	address=$(get "$1" "/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/serviceimports/$3" '.spec.ips[0]')
	expect_eq "who answers $2 of $1" "$4" "$(of "$1" ask "$2" tcp "$(with_port "$address" 80)" --count 24 | cut -d' ' -f1 | sort -u | xargs || true)"
}

# What was carried by hand goes first.
each_reads_the_other()
{
	of west lab delete "$TMP/carried-publishedclusters.yaml"
	of west lab delete "$TMP/carried-publishednodes.yaml"
	of east lab delete "$TMP/published-west.yaml"
	reads west east
	reads east west
	wait_for 30 connected west east Connected
	wait_for 30 connected east west Connected
	wait_for 20 reachable west east
	wait_for 20 reachable east west
	east_exports 10.244.1.2=node1 10.244.2.2=node2
	west_exports
	wait_for 40 has_slices west "$VIEW_A" "$VIEW_B"
	wait_for 20 answers_by west a web "a b"
	wait_for 20 answers_by east b back a
	of east lab kubectl -n shop delete serviceexport web
	wait_for 40 imports_nothing_of west web
}

# ---- encryption, on a kernel without WireGuard

WAN=$BASE-west.wan
has_wireguard() { ip netns exec "$WAN" ip link add wgtest type wireguard 2>/dev/null && ip -n "$WAN" link del wgtest; }

# carriers: how many packets of the overlay's port have left west's nodes for those of east since count_carriers
count_carriers()
{
	local ip rule='' node
	ip=$(by_family ip ip6)
	for node in 11 12; do
		rule+="$ip saddr $(in_family "192.168.101.$node") udp dport 4789 counter name sent;"
	done
	ip netns exec "$WAN" nft -f - <<-END
		table inet count {
			counter sent { }
			chain forward { type filter hook forward priority -1; $rule }
		}
	END
}
carriers() { ip netns exec "$WAN" nft -j list counter inet count sent | jq '.nftables[] | .counter.packets // empty'; }
count_ends() { ip netns exec "$WAN" nft delete table inet count; }

# encryption_is CLUSTER REASON
encryption_is()
{
	expect_eq "Encrypted of east in west" "False $1" "$(get west "$GROUP/clusterpeers/east" \
		'.status.conditions[] | select(.type == "Encrypted") | "\(.status) \(.reason)"')"
}
set_encryption() { of west lab kubectl patch clusterpeer east --type merge -p '{"spec":{"encryption":"'"$1"'"}}'; }
restart_west()
{
	local node
	for node in node1 node2; do
		of west lab agent stop "$node"
		of west lab agent start "$node"
	done
}
is_plain() { of west ask a tcp "$(with_port "$VIEW_A" 8080)"; }

# encrypts_nothing TEXT REASON: the peer's state and condition, and no packet leaves
encrypts_nothing()
{
	local node
	wait_for 40 encryption_is "$2"
	for node in node1 node2; do
		wait_for 20 expect_match "peers of $node" "east .* WireGuard .*$1" "$(of west on "$node" "$MK_BIN" peers)"
		expect_match "check of $node" "note +peers +peer east: encryption: WireGuard, but .*$1" "$(of west on "$node" "$MK_BIN" check || true)"
	done
	count_carriers
	for node in a b; do
		expect_failure of west ask "$node" tcp "$(with_port "$VIEW_A" 8080)" --timeout 1
		expect_failure of west ask "$node" udp "$(with_port "$VIEW_B" 8080)" --timeout 1
	done
	expect_failure of west ask node1 tcp "$(with_port "$VIEW_A" 8080)" --timeout 1
	expect_eq "carriers to east" 0 "$(carriers)"
	count_ends
}

no_wireguard()
{
	of east lab kubectl patch clusterpeer west --type merge -p '{"spec":{"access":"Pods"}}'
	wait_for 20 is_plain
	set_encryption WireGuard
	encrypts_nothing "$(by_family "set wireguardPort" "nodes' addresses are of IPv6")" "$(by_family NoWireGuard NoIPv6)"
	MORE_FLAGS+=" --wireguard-port 51871"
	restart_west
	has_wireguard || encrypts_nothing "$(by_family "kernel of this node has no WireGuard" "nodes' addresses are of IPv6")" \
		"$(by_family NoWireGuard NoIPv6)"
	set_encryption None
	wait_for 20 encryption_is Off
	wait_for 20 is_plain
	count_carriers
	is_plain
	(($(carriers) > 0))
	count_ends
}

imports_nothing_of() { expect_eq "slices of $2 in $1" "" "$(slices_of "$1")"; }

labs_up
check "leaders publish clusters and nodes, carried to the other side, and choose a view" peers_by_hand
# shellcheck disable=SC1091 # written by the row above
. "$TMP/views"
check "an exported Service is published, and has an address of the clusterset at home" exported
check "the other cluster imports it: address, slices with views, answers of all endpoints" imported
check "a leader is killed: another one imports the next change" leader_is_killed
check "all agents are killed and start again: the import stays" all_are_killed
check "... also without the PublishedCluster, until it is back" starts_without_cluster
check "the export ends, and with it the imports" export_ends
check "each cluster reads the other one's API server: they import a Service from each other, and nothing is carried" each_reads_the_other
check "no node answers: condition Reachable and an Event say so, until they answer again" no_answer
check "status.path: border nodes carry packets while a node has the label" paths
check "encryption without WireGuard: the condition, the peers and check say so, and no packet leaves" no_wireguard
finish
