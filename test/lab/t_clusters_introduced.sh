#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_clusters_introduced.sh - a hub introduces its branches to each other: west and east have one
# ClusterPeer that a user wrote, of the hub, and use each other's Service through it. Later the hub also shows
# their nodes, and they reach each other directly. Each has an API server, between which the test carries what
# is published.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/load.sh
. "$HERE/lib/load.sh"

# shellcheck disable=SC2034 # read by clusters.sh
CLUSTERS=(west east hub) WITH_API=yes
# shellcheck source=test/lab/lib/clusters.sh
. "$HERE/lib/clusters.sh"
# shellcheck disable=SC2034 # read by clusters.sh
MORE_FLAGS="--clusterset-cidr $(both 247.254.0.0/16)"
MCS=/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop
SLICES=/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices

# ---- objects

# published_here CLUSTER KIND: names of what CLUSTER publishes, also of what it relays
published_here() { get "$1" "$GROUP/namespaces/monokube-published/$2" '[.items[].metadata.name] | sort | join(" ")'; }
publishes() { expect_eq "published by $1: $2" "$3" "$(published_here "$1" "$2")"; }

# carry FROM TO KIND...: what FROM has published of these kinds is what TO has of it
carry()
{
	local from=$1 to=$2 kind
	shift 2
	for kind in "$@"; do
		get "$from" "$GROUP/namespaces/monokube-published/${kind,,}s" \
			'.items[] | .kind = "'"$kind"'" | .apiVersion = "networking.monokube.io/v1alpha1" |
			 .metadata = {name: .metadata.name, namespace: "monokube-peers", labels: .metadata.labels} |
			 select(.metadata.labels["networking.monokube.io/cluster"] != "'"$to"'") | tojson | "---", .' \
			>"$TMP/$from-$to-$kind.yaml"
		of "$to" lab apply "$TMP/$from-$to-$kind.yaml"
	done
}

import_address() { get "$1" "$MCS/serviceimports/$2" '.spec.ips[0] // empty'; }
slices_of() { get "$1" "$SLICES" '[.items[] | select(.metadata.labels["multicluster.kubernetes.io/service-name"] == "'"$2"'") | .endpoints[].addresses[0]] | join(" ")'; }
imports_nothing() { expect_eq "endpoints of $2 in $1" "" "$(slices_of "$1" "$2")"; }

# asked CLUSTER POD SERVICE: who answers
asked() { of "$1" ask "$2" tcp "$(with_port "$(import_address "$1" "$3")" 80)" | cut -d' ' -f1; }
answers() { expect_eq "who answers $2 of $1" b "$(asked "$1" "$2" "$3" || true)"; }

# ---- rows

branches_meet_the_hub()
{
	local cluster
	for cluster in "${CLUSTERS[@]}"; do
		namespaces >"$TMP/namespaces.yaml"
		of "$cluster" lab apply "$TMP/namespaces.yaml"
	done
	for cluster in west east; do
		peers_with "$cluster" hub "accept: Transit"
		peers_with hub "$cluster" "relay: true"
	done
	for cluster in "${CLUSTERS[@]}"; do
		wait_for 40 expect_match "published by $cluster" "$cluster" "$(published_here "$cluster" publishedclusters)"
	done
	wait_for 30 publishes hub publishednodes "hub.node1"
	for cluster in west east; do
		wait_for 30 publishes "$cluster" publishednodes "$cluster.node1 $cluster.node2"
		carry hub "$cluster" PublishedCluster PublishedNode
		carry "$cluster" hub PublishedCluster PublishedNode
	done
	wait_for 30 peers_are hub node1 "east direct ok,west direct ok"
}

hub_introduces()
{
	local cluster other
	wait_for 30 publishes hub publishedclusters "east hub west"
	for cluster in west east; do
		other=east
		[[ $cluster == west ]] || other=west
		carry hub "$cluster" PublishedCluster
		wait_for 30 has_peers "$cluster" "$(xargs -n1 <<<"hub $other" | sort | xargs)"
		for node in node1 node2; do
			wait_for 30 peers_are "$cluster" "$node" "$(printf '%s\n' "hub direct ok" "$other hub ok" | sort | paste -sd,)"
		done
	done
}

branches_use_services()
{
	local cluster other
	for cluster in west east; do
		exports "$cluster"
		wait_for 30 publishes "$cluster" publishedservices "$cluster.shop.$cluster"
		carry "$cluster" hub PublishedService
	done
	wait_for 30 publishes hub publishedservices "east.shop.east west.shop.west"
	for cluster in west east; do
		other=east
		[[ $cluster == west ]] || other=west
		carry hub "$cluster" PublishedService
		wait_for 30 expect_match "import of $other in $cluster" . "$(slices_of "$cluster" "$other")"
		wait_for 20 answers "$cluster" a "$other"
		wait_for 20 answers "$cluster" b "$other"
	done
	(($(get hub "$SLICES" '[.items[] | select(.metadata.labels["multicluster.kubernetes.io/service-name"])] | length') == 2))
}

agents_are_dead()
{
	of west lab agent kill node1
	of hub lab agent kill node1
	answers west a east
	answers east b west
	of west lab agent start node1
	of hub lab agent start node1
	wait_for 30 peers_are west node1 "east hub ok,hub direct ok"
	answers west a east
}

# The hub's Service has pod b of east by its view. West imports it, and reaches the pod by the hub.
third_cluster()
{
	local view
	view=$(slices_of hub east)
	of hub apply third <<-END
		apiVersion: v1
		kind: Service
		metadata: {name: third, namespace: shop}
		spec: {clusterIP: 10.96.5.3, ports: [{name: http, port: 80}]}
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: third, namespace: shop, labels: {kubernetes.io/service-name: third}}
		addressType: IPv4
		ports: [{name: http, port: 8080}]
		endpoints: [{addresses: ["$view"]}]
		---
		apiVersion: multicluster.x-k8s.io/v1beta1
		kind: ServiceExport
		metadata: {name: third, namespace: shop}
	END
	wait_for 30 expect_match "published by hub" "hub.shop.third" "$(published_here hub publishedservices)"
	expect_eq "endpoint of hub.shop.third" "east $(in_family 10.244.2.2)" \
		"$(get hub "$GROUP/namespaces/monokube-published/publishedservices/hub.shop.third" '.spec.slices[0].endpoints[0] | "\(.cluster) \(.addresses[0])"')"
	carry hub west PublishedService
	wait_for 30 expect_eq "endpoint in west" "$(slices_of west east)" "$(slices_of west third)"
	wait_for 20 answers west a third
	of hub lab delete "$TMP/third.yaml"
}

# ---- direct paths

# path_is WHAT [HUB]: of west and east, from all nodes; HUB is the state of the hub
path_is()
{
	local node state
	for node in node1 node2; do
		for state in "west east" "east west"; do
			wait_for 30 branch_is "${state% *}" "$node" "${state#* } $1 ok"
		done
	done
}
branch_is() { [[ ,$(states "$1" "$2"), == *",$3,"* ]]; }
all_hubs_are_down()
{
	local node
	for node in node1 node2; do
		wait_for 90 is_down west "$node" hub "$1"
		wait_for 90 is_down east "$node" hub "$1"
	done
}
load_between()
{
	of west load west a "$(with_port "$(import_address west east)" 80)"
	of east load east a "$(with_port "$(import_address east west)" 80)"
}

hub_shows_nodes()
{
	local cluster
	load_between
	for cluster in west east; do
		peers_with "$cluster" hub "accept: Direct"
	done
	wait_for 30 publishes hub publishednodes "east.node1 east.node2 hub.node1 west.node1 west.node2"
	for cluster in west east; do
		carry hub "$cluster" PublishedNode
	done
	path_is direct
}

# With a hub that is away, an agent that starts knows the direct paths.
hub_is_away()
{
	sever_hub
	all_hubs_are_down true
	for _ in 1 2 3 4; do
		of west lab agent kill node1
		of west lab agent start node1
		path_is direct
	done
	answers west a east
	answers east b west
	mend
	all_hubs_are_down false
	nothing_broke
	nothing_was_lost
}

hub_takes_over()
{
	load_between
	sever site1 site2
	path_is hub
	answers west a east
	answers east b west
	mend
	path_is direct
	nothing_broke
}

# The ClusterPeer keeps its view for a minute, and says so.
peer_of() { get "$1" "$GROUP/clusterpeers/$2" '.metadata.uid + " " + .status.podCidr'; }
says_why() { expect_match "state of $2 in $1" "$3" "$(of "$1" on node1 "$MK_BIN" peers "$2" -o json | jq -r '.[0].state | tostring')"; }
introduction_comes_again()
{
	local before
	load_between
	before=$(peer_of west east)
	of west lab kubectl -n monokube-peers delete publishedcluster east
	wait_for 30 says_why west east "goes after a minute"
	carry hub west PublishedCluster
	path_is direct
	wait_for 20 answers west a east
	expect_eq "ClusterPeer east in west" "$before" "$(peer_of west east)"
	nothing_broke
}

hub_is_deleted()
{
	of west lab kubectl delete clusterpeer hub
	wait_for 40 has_peers west ""
	wait_for 30 imports_nothing west east
	has_peers east "hub west"
}

labs_up
check "hub and branches have a ClusterPeer of each other, and relay and accept" branches_meet_the_hub
check "the hub shows its branches to each other, and each has a ClusterPeer for the other one" hub_introduces
check "branches use each other's Service through the hub" branches_use_services
check "an endpoint of the hub's Service is a pod of east: west reaches it by its own view and path" third_cluster
check "agents are dead, and the Services answer; they start again, and all is as it was" agents_are_dead
check "with accept: Direct, branches reach each other directly" hub_shows_nodes
check "the hub is away, an agent starts, and direct paths go on; no packet was lost" hub_is_away
check "direct paths are cut, and the hub takes over; later they are back" hub_takes_over
check "the PublishedCluster of a branch goes and comes again: its ClusterPeer stays, no connection breaks" introduction_comes_again
check "without the hub's ClusterPeer those that it introduced go" hub_is_deleted
finish
