#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_clusters.sh - three clusters with equal pod ranges: west and east and hub
# with two nodes each. Pod a of node1 has the same address in all of them, pod b of node2 in west and east.
#
#   west sees east as 240.1.0.0/16, and east sees west as 240.1.0.0/16; the hub is 240.3.0.0/16 for both
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/load.sh
. "$HERE/lib/load.sh"

# shellcheck disable=SC2034 # read by clusters.sh
CLUSTERS=(west east hub) HUB_NODES="node1 node2"
# shellcheck source=test/lab/lib/clusters.sh
. "$HERE/lib/clusters.sh"

# Views that tests use: pods a and b of the other cluster, and of the hub
A=$(in_family 240.1.1.2) B=$(in_family 240.1.2.2) HUB_A=$(in_family 240.3.1.2)

# direct [ACCESS_IN_WEST] [ACCESS_IN_EAST]
direct()
{
	peer west east 240.1.0.0/16 "${1:-Pods}"
	peer east west 240.1.0.0/16 "${2:-Pods}"
}

# with MORE: of the ClusterPeers of west and east
with()
{
	peer west east 240.1.0.0/16 Pods "$1"
	peer east west 240.1.0.0/16 Pods "$1"
}
through_hub() { with "via: hub"; }
# toward OF PEER PATH: one side of a path beside the hub
toward() { peer "$1" "$2" 240.1.0.0/16 Pods "via: hub, path: $3"; }

# all_peers_are PATH: between west and east
all_peers_are()
{
	local node
	for node in node1 node2; do
		wait_for 10 peers_are west "$node" "east $1 ok,hub direct ok"
		wait_for 10 peers_are east "$node" "hub direct ok,west $1 ok"
	done
	wait_for 10 peers_are hub node1 "east direct ok,west direct ok"
}

# ---- traffic

# answers OF POD VIEW SEEN_AS: by TCP, UDP, large and small, and ping; the server sees the client's view
answers()
{
	local seen
	# The first large datagram may be lost: the pod learns the MTU of the way by an ICMP error.
	wait_for 10 of "$1" ask "$2" udp "$(with_port "$3" 8080)" --size 3000 --want 3000
	expect_match "TCP of $1 $2 to $3" "^[ab] $4 " "$(of "$1" ask "$2" tcp "$(with_port "$3" 8080)" --want 60000)"
	expect_match "UDP of $1 $2 to $3" "^[ab] $4 " "$(of "$1" ask "$2" udp "$(with_port "$3" 8080)")"
	expect_match "fragments of $1 $2 to $3" "^[ab] $4 " "$(of "$1" ask "$2" udp "$(with_port "$3" 8080)" --size 3000 --want 3000)"
	seen=$(of "$1" on "$2" ping -c 1 -W 5 "$3") || {
		echo "ping of $1 $2 to $3: $seen"
		return 1
	}
}

# no_answer CLUSTER POD PROTO VIEW
no_answer() { expect_failure of "$1" ask "$2" "$3" "$(with_port "$4" 8080)" --timeout 1; }

# ---- rows

unknown_views_go_nowhere()
{
	local before
	before=$(dropped west node1 NO_ROUTE)
	no_answer west a tcp "$A"
	(($(dropped west node1 NO_ROUTE) > before))
}

publish_connects()
{
	local from to
	for from in "${CLUSTERS[@]}"; do
		for to in "${CLUSTERS[@]}"; do
			[[ $from == "$to" ]] || published "$from" "$to"
		done
	done
	direct
	peer west hub 240.3.0.0/16 Pods
	peer east hub 240.3.0.0/16 Pods
	peer hub west 240.1.0.0/16 Pods "relay: true"
	peer hub east 240.2.0.0/16 Pods "relay: true"
	all_peers_are direct
}

second_family()
{
	answers west a "$(six 240.1.2.2)" "$(six 240.1.1.2)"
	answers east b "$(six 240.1.1.2)" "$(six 240.1.2.2)"
	answers hub a "$(six 240.1.1.2)" "$(six 240.3.1.2)"
}

with_the_hub()
{
	answers west a "$HUB_A" "$A"
	answers east b "$HUB_A" "$(in_family 240.2.2.2)"
	answers hub a "$A" "$HUB_A"
	answers hub a "$(in_family 240.2.2.2)" "$HUB_A"
}

hosts_and_services_stay_closed()
{
	local before
	before=$(dropped east node1 PEER_DENIED)
	no_answer west a tcp "$(by_family 240.1.1.254 fd00:240:1:1::3fe)" # the gateway of node1
	(($(dropped east node1 PEER_DENIED) > before))
}

# Processes of a host, with each node as the one that the pod is on. A large datagram over IPv6 may be
# lost once: its sender learns the MTU of the way.
hosts_reach_views()
{
	local node
	direct None Pods
	for node in node1 node2; do
		answers west "$node" "$A" "$(vpod_seen "$node")"
		answers west "$node" "$B" "$(vpod_seen "$node")"
		answers east "$node" "$HUB_A" "$(in_family "240.2.${node#node}.1")"
	done
	of west lab agent kill node1
	answers west node1 "$A" "$(vpod_seen node1)"
	of west lab agent start node1
	direct
	all_peers_are direct
	answers west node1 "$A" "$(vpod_seen node1)"
}
vpod_seen() { in_family "240.1.${1#node}.1"; } # the virtual pod address of NODE, as others see it

# What is sent to a pool never leaves, whoever sends it.
hosts_send_nothing_astray()
{
	local before unused
	unused=$(by_family 241.1.1.1 fd00:240:99::1)
	before=$(dropped west node1 NO_ROUTE)
	expect_failure of west on node1 ping -c 1 -W 1 "$unused"
	(($(dropped west node1 NO_ROUTE) > before))
	expect_match "route to $unused" "dev mkhost0" "$(of west on node1 ip "-$FAMILY" route get "$unused")"
	of west lab agent stop node1
	expect_match "route to $A without agent" "dev mkhost0" "$(of west on node1 ip "-$FAMILY" route get "$A")"
	of west lab agent start node1
	all_peers_are direct
}

policies_name_views()
{
	of east apply policy <<-END
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: from-b}
		spec:
		  podSelector: {matchLabels: {app: a}}
		  policyTypes: [Ingress]
		  ingress: [{from: [{ipBlock: {cidr: 240.1.2.0/24}}]}]
	END
	wait_for 10 no_answer west a tcp "$A"
	answers west b "$A" "$B"
	answers west a "$B" "$A"
	of east lab delete "$TMP/policy.yaml"
	wait_for 10 of west ask a tcp "$(with_port "$A" 8080)"
}

access_is_one_way()
{
	local to before
	before=$(($(dropped east node1 PEER_DENIED) + $(dropped east node2 PEER_DENIED)))
	direct Pods None
	for to in "$A" "$B"; do
		wait_for 10 no_answer west a tcp "$to"
		no_answer west b udp "$to"
	done
	(($(dropped east node1 PEER_DENIED) + $(dropped east node2 PEER_DENIED) > before))
	for to in "$A" "$B"; do
		answers east a "$to" "$A"
		answers east b "$to" "$B"
	done
	direct
	wait_for 10 of west ask a tcp "$(with_port "$A" 8080)"
	all_ways
}

load_between()
{
	of west load west a "$(with_port "$A" 8080)" "$(with_port "$B" 8080)"
	of east load east b "$(with_port "$A" 8080)" "$(with_port "$B" 8080)"
}

# A packet that is too big for the peer gets an error that names its MTU, and TCP adapts to it.
peer_mtu()
{
	local out
	with "mtu: 1300"
	wait_for 10 too_big_is 1300
	answers west a "$A" "$A"
	direct
	of west on a ip "-$FAMILY" route flush cache
	out=$(of west on a ping -c 1 -W 5 -M "do" -s 1350 "$A") || {
		echo "$out"
		return 1
	}
}
too_big_is() { [[ $(of west on a ping -c 1 -W 1 -M "do" -s 1350 "$A" 2>&1) =~ mtu\ ?[=:]\ ?$1 ]]; }

# A firewall on the way drops carriers of more than 1400 bytes, and says nothing. Both clusters find that out, and
# packets of pods are refused with the size that passes. Later all sizes pass again.
path_mtu()
{
	local node cluster
	# the filter has to see packets as they are on a wire
	for cluster in "${CLUSTERS[@]}"; do
		ip netns exec "$BASE-$cluster.underlay" ethtool -K wan tso off gso off \
			tx-udp_tnl-segmentation off tx-udp_tnl-csum-segmentation off >/dev/null
	done
	ip netns exec "$BASE-west.wan" nft -f - <<-END
		table inet cut {
			chain forward {
				type filter hook forward priority 0
				udp dport 4789 meta length > 1400 drop
			}
		}
	END
	for node in node1 node2; do
		wait_for 60 mtu_is_less west "$node" 1350
		wait_for 60 mtu_is_less east "$node" 1350
	done
	expect_match "state" "packets of more than 13[0-9][0-9] bytes are lost on the way" "$(of west on node1 "$MK_BIN" peers east)"
	of west on a ip "-$FAMILY" route flush cache
	answers west a "$A" "$A"
	expect_match "TCP of a host" "^[ab] " "$(of west ask node1 tcp "$(with_port "$A" 8080)" --want 60000)"
	of west lab agent kill node1
	of west lab agent start node1
	answers west a "$A" "$A"
	mtu_is_less west node1 1350
	mend
	for cluster in "${CLUSTERS[@]}"; do
		for node in node1 node2; do
			wait_for 120 all_mtus_are "$cluster" "$node" "$(mtu_of_link)"
		done
	done
	of west on a ip "-$FAMILY" route flush cache
	of west on b ip "-$FAMILY" route flush cache
}
mtu_to_east() { of "$1" on "$2" "$MK_BIN" peers -o json | jq '.[] | select(.name != "hub").mtuBytes'; }
mtu_is_less() { (($(mtu_to_east "$1" "$2") < $3)); }
all_mtus_are() { [[ $(of "$1" on "$2" "$MK_BIN" peers -o json | jq -c '[.[].mtuBytes] | unique') == "[$3]" ]]; }
mtu_of_link() { of west on node1 cat /sys/class/net/mkvxlan/mtu; }
# Of packets from other clusters: its own pods may send what no node forwards.
hub_drops()
{
	local node
	for node in node1 node2; do
		of hub on "$node" "$MK_BIN" drops -o json
	done | jq -s '[add[] | select(.hook == "cluster").packets] | add // 0'
}
not_relayed() { echo $(($(dropped hub node1 PEER_TRANSIT) + $(dropped hub node2 PEER_TRANSIT))); }

hub_carries()
{
	local before
	before=$(hub_drops)
	through_hub
	all_peers_are hub
	all_ways
	direct
	all_peers_are direct
	all_ways
	expect_eq "drops of the hub" "$before" "$(hub_drops)"
}

path_changes_under_load()
{
	load_between
	through_hub
	all_peers_are hub
	direct
	all_peers_are direct
	nothing_broke
}

# One of the two nodes that carry packets is cut off.
hub_node_dies()
{
	through_hub
	all_peers_are hub
	hub_answers 2/2
	load_between
	cut_off "$(in_family 192.168.103.12)"
	hub_answers 1/2
	expect_match "state of the hub" "do not answer probes: node2:" "$(of west on node1 "$MK_BIN" peers hub)"
	all_ways
	of west lab agent kill node1
	of west lab agent start node1
	all_ways
	hub_answers 1/2
	mend
	hub_answers 2/2
	nothing_broke
	direct
	all_peers_are direct
}
hub_answers()
{
	local node
	for node in node1 node2; do
		wait_for 20 probes_show west "$node" hub "false $1"
		wait_for 20 probes_show east "$node" hub "false $1"
	done
}

# Each side changes alone, so both paths are in use, one each way.
path_beside_the_hub()
{
	local path node
	through_hub
	all_peers_are hub
	load_between
	for path in Direct Hub Direct; do
		toward west east "$path"
		for node in node1 node2; do
			wait_for 10 peers_are west "$node" "east $(shown "$path") ok,hub direct ok"
		done
		all_ways
		toward east west "$path"
		all_peers_are "$(shown "$path")"
		all_ways
	done
	nothing_broke
	nothing_was_lost
	direct
	all_peers_are direct
}
shown() { if [[ $1 == Hub ]]; then echo hub; else echo direct; fi; }

hub_that_does_not_relay()
{
	local before
	through_hub
	all_peers_are hub
	before=$(not_relayed)
	peer hub east 240.2.0.0/16 Pods "relay: false"
	wait_for 10 no_answer west a tcp "$A"
	(($(not_relayed) > before))
	answers hub a "$A" "$HUB_A"
	peer hub east 240.2.0.0/16 Pods "relay: true"
	wait_for 10 of west ask a tcp "$(with_port "$A" 8080)"
	direct
	all_peers_are direct
}

agents_are_dead()
{
	of west lab agent kill node1
	of east lab agent kill node2
	all_ways
	of west lab agent start node1
	of east lab agent start node2
	all_peers_are direct
	all_ways
}

# repaired CLUSTER COMMAND...: the fault goes, and pods talk again
repaired()
{
	local log
	log=$(of west lab log node1 | wc -l)
	of west on node1 "$@"
	wait_for 15 of west ask a tcp "$(with_port "$A" 8080)"
	wait_for 15 device_is_whole
	wait_for 15 expect_match "log" "warn" "$(of west lab log node1 | tail -n "+$((log + 1))")"
	all_ways
}
fdb() { of west on node1 bridge fdb show dev mkpeer | grep -c '^06:' || true; }
device_is_whole() { (($(fdb) == NODES_OF_OTHERS)) && of west on node1 tc filter show dev mkpeer ingress | grep -q cluster_in; }

mkpeer_is_repaired()
{
	NODES_OF_OTHERS=$(fdb)
	((NODES_OF_OTHERS >= 4)) # of east and hub
	repaired ip link del mkpeer
	repaired ip link set mkpeer down
	repaired sh -c 'bridge fdb show dev mkpeer | while read -r mac _; do bridge fdb del "$mac" dev mkpeer; done'
	repaired tc filter del dev mkpeer ingress
}

tools_name_peers()
{
	expect_match "trace" "peer east" "$(of west on node1 "$MK_BIN" trace default/a "$A" 8080)"
	expect_match "trace" "forwarded" "$(of west on node1 "$MK_BIN" trace default/a "$A" 8080)"
	of west on node1 "$MK_BIN" check
	expect_eq "counted" true "$(of west on node1 "$MK_BIN" peers east -o json | jq '.[0] | .packetsTo > 10 and .packetsFrom > 10 and .bytesTo > 1000')"
}

peer_goes()
{
	of west lab delete "$TMP/peer-east.yaml"
	wait_for 10 peers_are west node1 "hub direct ok"
	wait_for 10 no_answer west a tcp "$A"
	answers west a "$HUB_A" "$A"
	expect_eq "FDB entries" $((2 * FAMILIES)) "$(fdb)" # of the hub's nodes
	direct
	all_peers_are direct
	all_ways
}

name_goes()
{
	of west lab agent stop node1
	MK_LAB=$BASE-west MK_AGENT_FLAGS="" lab agent start node1
	expect_failure of west on node1 ip link show mkpeer
	expect_match "peers" "clusterName" "$(of west on node1 "$MK_BIN" peers 2>&1 || true)"
	of west lab agent stop node1
	of west lab agent start node1
	all_peers_are direct
	all_ways
}

# ---- setup

labs_up

check "a packet to a view that no peer has goes nowhere" unknown_views_go_nowhere
check "published and peered, clusters are ready" publish_connects
check "pods of equal addresses talk by views" all_ways
[[ ! ${SECOND:-} ]] || check "and by views of the other family" second_family
check "the hub is a cluster as the others" with_the_hub
check "only pods are open to peers" hosts_and_services_stay_closed
check "processes of hosts reach views" hosts_reach_views
check "a host sends nothing to an unused view" hosts_send_nothing_astray
check "policies name views" policies_name_views
check "access: None refuses flows of the peer, and answers come" access_is_one_way
check "a peer has an MTU of its own" peer_mtu
check "the network carries smaller packets than configured, and pods learn that" path_mtu
check "through a hub, pods have the same views" hub_carries
check "a path changes under load, and no connection breaks" path_changes_under_load
check "a node of the hub is away, and its packets go by the other one" hub_node_dies
check "a path beside the hub changes at each side, and no packet is lost" path_beside_the_hub
check "a hub without relay carries no packets between its peers" hub_that_does_not_relay
check "agents are dead, and traffic goes on" agents_are_dead
check "mkpeer, its FDB and its program are repaired" mkpeer_is_repaired
check "tools name peers" tools_name_peers
check "a peer goes and comes" peer_goes
check "without clusterName nothing of it remains" name_goes
finish
