#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_clusters_inbox.sh - a branch whose API server the hub cannot reach: west reads the hub east, and writes
# what it publishes into its inbox there, by one token. Pods and Services work both ways.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/load.sh
. "$HERE/lib/load.sh"

# shellcheck disable=SC2034 # read by clusters.sh
CLUSTERS=(west east) WITH_API=yes
# shellcheck source=test/lab/lib/clusters.sh
. "$HERE/lib/clusters.sh"
# shellcheck disable=SC2034 # read by clusters.sh
MORE_FLAGS="--clusterset-cidr $(both 247.254.0.0/16)"
MCS=/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop
SLICES=/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices

# lies KIND WANTED: in the inbox of west at east
lies() { expect_eq "$1 in the inbox" "$2" "$(get east "$GROUP/namespaces/monokube-inbox-west/$1" '[.items[].metadata.name] | sort | join(" ")')"; }
import_address() { get "$1" "$MCS/serviceimports/$2" '.spec.ips[0] // empty'; }
slices_of() { get "$1" "$SLICES" '[.items[] | select(.metadata.labels["multicluster.kubernetes.io/service-name"] == "'"$2"'") | .endpoints[].addresses[0]] | sort | join(" ")'; }
has_slices() { expect_eq "number of endpoints of $2 in $1" "$3" "$(slices_of "$1" "$2" | wc -w)"; }
asked() { of "$1" ask "$2" tcp "$(with_port "$(import_address "$1" "$3")" 80)" --count 24 | cut -d' ' -f1 | sort -u | xargs; }
answers() { expect_eq "who answers $2 of $1" "$4" "$(asked "$1" "$2" "$3" || true)"; }

# East opens no TCP connection to west, as with a firewall or address translation before west.
west_is_closed()
{
	ip netns exec "$BASE-west.wan" nft -f - <<-END
		table inet closed {
			chain forward {
				type filter hook forward priority 0
				iifname site2 oifname site1 tcp flags & (syn | ack) == syn counter drop
			}
		}
	END
}

# api_of FROM CLUSTER: does a node of FROM reach the API server of CLUSTER?
api_of() { of "$1" on node1 curl -sk --max-time 2 -o /dev/null "$(cat "/run/mklab-$BASE-$2/api/ready")/version"; }

inbox_is_filled()
{
	local cluster
	for cluster in "${CLUSTERS[@]}"; do
		namespaces >"$TMP/namespaces.yaml"
		of "$cluster" lab apply "$TMP/namespaces.yaml"
	done
	west_is_closed
	api_of west east
	expect_failure api_of east west
	of east on node1 "$MK_BIN" peer invite west --inbox >"$TMP/invite.yaml"
	of east lab apply "$TMP/invite.yaml"
	peers_with west east "access: Exports"
	reads west east
	of west lab kubectl patch clusterpeer east --type merge -p '{"spec":{"publishTo":true}}'
	wait_for 40 lies publishedclusters west
	wait_for 20 lies publishednodes "west.node1 west.node2"
	for cluster in "${CLUSTERS[@]}"; do
		wait_for 30 connected "$cluster" "$([[ $cluster == west ]] && echo east || echo west)" Connected
	done
	wait_for 40 peers_are west node1 "east direct ok"
	wait_for 40 peers_are east node1 "west direct ok"
}

both_use_services()
{
	exports west
	exports east
	wait_for 30 lies publishedservices west.shop.west
	wait_for 40 has_slices east west 1
	wait_for 40 has_slices west east 1
	wait_for 20 answers west a east b
	wait_for 20 answers east a west b
	wait_for 20 answers east b west b
}

view_of() { get "$1" "$GROUP/clusterpeers/$2" .status.podCidr; }
pods_reach_pods()
{
	local cluster view
	for cluster in "${CLUSTERS[@]}"; do
		of "$cluster" lab kubectl patch clusterpeer "$([[ $cluster == west ]] && echo east || echo west)" --type merge -p '{"spec":{"access":"Pods"}}'
	done
	for cluster in "${CLUSTERS[@]}"; do
		view=$(slices_of "$cluster" "$([[ $cluster == west ]] && echo east || echo west)")
		wait_for 20 of "$cluster" ask a tcp "$(with_port "$view" 8080)"
		wait_for 20 of "$cluster" ask b udp "$(with_port "$view" 8080)"
	done
}

# The next leaders write what has changed meanwhile.
leaders_are_killed()
{
	local cluster dead
	for cluster in "${CLUSTERS[@]}"; do
		dead=$(leader_of "$cluster")
		echo "$dead" >"$TMP/dead-$cluster"
		of "$cluster" lab agent kill "$dead"
	done
	exports west west 8080 '{addresses: [10.244.2.2], nodeName: node2}, {addresses: [10.244.1.2], nodeName: node1}'
	wait_for 60 has_slices east west 2
	for cluster in "${CLUSTERS[@]}"; do
		of "$cluster" lab agent start "$(cat "$TMP/dead-$cluster")"
	done
	wait_for 20 answers east a west "a b"
	answers west a east b
}

# A route of node2 to a part of the view: only that node cannot use the view, and reports it.
overlap_events() { get east /api/v1/events '[.items[] | select(.reason == "PeerViewOverlaps") | .involvedObject.name] | unique | join(" ")'; }
overlap_is_reported() { expect_eq "nodes that report" node2 "$(overlap_events)"; }
says_overlap() { expect_match "peers of node2" "west .*overlaps" "$(of east on node2 "$MK_BIN" peers || true)"; }
node_overlaps()
{
	local view part
	view=$(view_of east west)
	part=${view%.*.*}.77.0/24
	[[ $view != *:* ]] || part=${view%/*}/64
	of east on node2 ip route add "$part" dev eth0
	wait_for 40 overlap_is_reported
	wait_for 20 says_overlap
	of east on node2 ip route del "$part" dev eth0
	wait_for 40 peers_are east node2 "west direct ok"
}

hub_is_deleted()
{
	of west lab kubectl delete clusterpeer east
	for kind in publishedclusters publishednodes publishedservices; do
		wait_for 30 lies "$kind" ""
	done
	wait_for 40 has_slices east west 0
	wait_for 40 has_slices west east 0
}

labs_up
check "the hub cannot reach the API server of a branch: the branch fills its inbox there, and both know each other" inbox_is_filled
check "each uses the Service of the other one" both_use_services
check "with access: Pods, pods reach pods both ways, by TCP and UDP" pods_reach_pods
check "both leaders are killed: the next ones carry a change by the inbox" leaders_are_killed
check "a node with a route to a part of a view reports it by an Event, and uses the view again later" node_overlaps
check "the branch deletes its ClusterPeer: the inbox is empty, and the imports go" hub_is_deleted
finish
