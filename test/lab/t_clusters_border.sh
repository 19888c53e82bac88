#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_clusters_border.sh - two clusters with equal pod ranges, three nodes each. Only node2 and node3 reach the
# other cluster's nodes: no packet of node1 passes the router between the networks. They are border nodes. The same
# is true of node2 of a hub, by which they reach each other later.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/load.sh
. "$HERE/lib/load.sh"

# shellcheck disable=SC2034 # read by clusters.sh
CLUSTERS=(west east hub) NODES="node1 node2 node3" HUB_NODES="node1 node2"
# shellcheck source=test/lab/lib/clusters.sh
. "$HERE/lib/clusters.sh"

# Views of the other cluster's pods a of node1 and b of node2
A=$(in_family 240.1.1.2) B=$(in_family 240.1.2.2) HUB_A=$(in_family 240.3.1.2)

# ---- labels

# border CLUSTER NODE [LABEL]: the Node gets the label, or has none
border()
{
	local file=$TMP/node-$2.yaml
	sed '/networking.monokube.io/d' "/run/mklab-$BASE-$1/objects/node-$2.yaml" >"$file"
	[[ ! ${3:-} ]] || sed -i "s|^  labels:|&\n    networking.monokube.io/border: \"$3\"|" "$file"
	of "$1" lab apply "$file"
}

# carried_by CLUSTER NODE BORDER: who carries the packets of NODE; empty: the node itself
carried_by() { expect_eq "border node of $1 $2" "$3" "$(of "$1" on "$2" "$MK_BIN" peers -o json | jq -r '.[0].border // ""')"; }

# publish_both NODE...: what each cluster publishes, these nodes, becomes all that the other one knows
publish_both()
{
	wait_for 10 publishes west "$*"
	wait_for 10 publishes east "$*"
	published west east
	published east west
}
publishes() { expect_eq "nodes that $1 publishes" "$2" "$(of "$1" on node1 "$MK_BIN" peer publish | awk '$1 == "node:" { print $2 }' | sort | paste -sd' ')"; }

# ---- traffic

answers()
{
	wait_for 10 of "$1" ask "$2" udp "$(with_port "$3" 8080)" --size 3000 --want 3000
	expect_match "TCP of $1 $2 to $3" "^[ab] $4 " "$(of "$1" ask "$2" tcp "$(with_port "$3" 8080)" --want 60000)"
	expect_match "UDP of $1 $2 to $3" "^[ab] $4 " "$(of "$1" ask "$2" udp "$(with_port "$3" 8080)")"
	of "$1" on "$2" ping -c 1 -W 5 "$3"
}

no_answer() { expect_failure of "$1" ask "$2" tcp "$(with_port "$3" 8080)" --timeout 1; }

load_between()
{
	of west load west a "$(with_port "$A" 8080)" "$(with_port "$B" 8080)"
	of east load east a "$(with_port "$A" 8080)" "$(with_port "$B" 8080)"
}

# ---- rows

cut_off_inner_nodes() { cut_off "{$(in_family 192.168.101.11), $(in_family 192.168.102.11), $(in_family 192.168.103.11)}"; }

inner_nodes_reach_nothing()
{
	cut_off_inner_nodes
	publish_both node1 node2 node3
	peer west east 240.1.0.0/16 Pods
	peer east west 240.1.0.0/16 Pods
	wait_for 10 of west ask b tcp "$(with_port "$B" 8080)"
	no_answer west a "$B"
	no_answer west b "$A"
}

labels_connect()
{
	local cluster
	for cluster in west east; do
		border "$cluster" node2 true
		wait_for 10 carried_by "$cluster" node1 node2
		wait_for 10 carried_by "$cluster" node3 node2
		carried_by "$cluster" node2 ""
	done
	publish_both node2
	all_ways
}

hosts_reach_views()
{
	answers west node1 "$A" "$(in_family 240.1.1.1)"
	answers east node1 "$B" "$(in_family 240.1.1.1)"
}

# The other border node takes over, and both ways of a flow may be by different ones.
second_border_node()
{
	load_between
	border west node3 true
	border east node3 true
	publish_both node2 node3
	wait_for 20 all_answer 2/2
	all_ways
}
all_answer()
{
	local node
	for node in node1 node2 node3; do
		probes_show west "$node" east "false $1" || return 1
		probes_show east "$node" west "false $1" || return 1
	done
}

# The label moves under load, in both clusters.
label_moves()
{
	border west node2
	border east node2
	wait_for 10 carried_by west node1 node3
	wait_for 10 carried_by east node1 node3
	publish_both node3
	wait_for 10 carried_by west node2 node3
	all_ways
	border west node2 true
	border east node2 true
	publish_both node2 node3
	wait_for 20 all_answer 2/2
	all_ways
	nothing_broke
}

# Each pod has answers again within seconds, by the other border node.
border_node_dies()
{
	local lost
	load_between
	lost=$(of west on node1 "$MK_BIN" peers -o json | jq -r '.[0].border')
	[[ $lost == node[23] ]]
	cut_inside west "$lost"
	wait_for 6 not_by west node1 "$lost"
	of west ask a tcp "$(with_port "$A" 8080)"
	expect_match "log" "border nodes that do not answer this node: $lost" "$(of west lab log node1)"
	of west lab agent kill node1
	of west lab agent start node1
	not_by west node1 "$lost"
	of west ask a tcp "$(with_port "$A" 8080)"
	mend_inside west "$lost"
	wait_for 20 carried_by west node1 "$lost"
	nothing_broke
}
not_by() { [[ $(of "$1" on "$2" "$MK_BIN" peers -o json | jq -r '.[0].border // ""') == node* ]] && ! carried_by "$1" "$2" "$3"; }

agents_are_dead()
{
	local node
	for node in node1 node2 node3; do
		of west lab agent kill "$node"
	done
	all_ways
	for node in node1 node2 node3; do
		of west lab agent start "$node"
	done
	wait_for 20 all_answer 2/2
	all_ways
}

# set_routing MODE: all agents start again with it
set_routing()
{
	local cluster node
	MK_LAB_ROUTING=$1
	for cluster in west east; do
		for node in node1 node2 node3; do
			of "$cluster" lab agent stop "$node"
			of "$cluster" lab agent start "$node"
		done
	done
	wait_for 20 all_answer 2/2
}

# The same with packets that go without VXLAN between nodes of one cluster.
direct_routing()
{
	local -x MK_LAB_ROUTING
	set_routing Direct
	wait_for 20 expect_eq "nodes with routing Direct" 2 \
		"$(of west on node1 "$MK_BIN" nodes -o json | jq '[.[] | select(.routing == "Direct")] | length')"
	all_ways
	border_node_dies
	set_routing "$1"
	all_ways
}

access_is_for_the_pods_node()
{
	peer east west 240.1.0.0/16 None
	wait_for 10 no_answer west a "$A"
	answers east a "$A" "$A"
	answers east a "$B" "$A"
	peer east west 240.1.0.0/16 Pods
	wait_for 10 of west ask a tcp "$(with_port "$A" 8080)"
}

tools_name_border_nodes()
{
	local by
	by=$(of west on node1 "$MK_BIN" peers -o json | jq -r '.[0].border')
	expect_match "peers" "direct by $by" "$(of west on node1 "$MK_BIN" peers)"
	expect_match "trace" "by border node $by" "$(of west on node1 "$MK_BIN" trace default/a "$A" 8080)"
	expect_match "trace" "forwarded" "$(of west on node1 "$MK_BIN" trace default/a "$A" 8080)"
	of west on node1 "$MK_BIN" check
}

# toward_each_other [MORE]: of the ClusterPeers of west and east
toward_each_other()
{
	peer west east 240.1.0.0/16 Pods "$@"
	peer east west 240.1.0.0/16 Pods "$@"
}

all_by_hub()
{
	local node
	for node in node1 node2 node3; do
		expect_match "path of west $node" "^hub" "$(of west on "$node" "$MK_BIN" peers east -o json | jq -r '.[0].path')" || return 1
		expect_match "path of east $node" "^hub" "$(of east on "$node" "$MK_BIN" peers west -o json | jq -r '.[0].path')" || return 1
	done
}

# The hub's node2 carries the packets of its node1, and those between the branches.
hub_has_a_border_node()
{
	local cluster number=0
	load_between
	border hub node2 true
	wait_for 10 publishes hub node2
	for cluster in west east; do
		number=$((number + 1))
		published hub "$cluster"
		published "$cluster" hub
		peer "$cluster" hub 240.3.0.0/16 Pods
		peer hub "$cluster" "240.$number.0.0/16" Pods "relay: true"
	done
	toward_each_other "via: hub"
	for cluster in west east; do
		wait_for 20 probes_show "$cluster" node1 hub "false 1/1"
	done
	wait_for 10 all_by_hub
	sever site1 site2
	all_ways
	answers hub a "$A" "$HUB_A"
	answers west a "$HUB_A" "$A"
	wait_for 10 carried_by hub node1 node2
	nothing_broke
}

hub_is_left()
{
	load_between
	mend
	cut_off_inner_nodes
	toward_each_other
	wait_for 20 all_answer 2/2
	all_ways
	nothing_broke
}

# All nodes that remain get the label first, and know the other cluster's nodes. Then no label is needed.
labels_go()
{
	local node
	mend
	load_between
	for node in node1 node2 node3; do
		border west "$node" true
		border east "$node" true
	done
	publish_both node1 node2 node3
	wait_for 20 all_answer 3/3
	for node in node1 node2 node3; do
		border west "$node"
		border east "$node"
	done
	wait_for 10 carried_by west node1 ""
	publish_both node1 node2 node3
	all_ways
	nothing_broke
}

# ---- setup

labs_up

check "without a label, nodes that do not reach the other cluster have no way" inner_nodes_reach_nothing
check "with a border node in each cluster, all pods talk" labels_connect
check "processes of hosts reach views by the border node" hosts_reach_views
check "a second border node comes under load" second_border_node
check "the label moves under load, and no connection breaks" label_moves
check "a border node is away, and its packets go by the other one" border_node_dies
check "agents are dead, and traffic goes on" agents_are_dead
check "with routing Direct, a border node is away" direct_routing "${MK_LAB_ROUTING:-Overlay}"
check "access is checked at the pod's node" access_is_for_the_pods_node
check "tools name border nodes" tools_name_border_nodes
check "a hub with a border node carries the packets of both under load" hub_has_a_border_node
check "they leave the hub under load" hub_is_left
check "all labels go under load" labels_go
finish
