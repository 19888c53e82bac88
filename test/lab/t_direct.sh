#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_direct.sh - setting routing: packets between node1 and node2, on one link, go without VXLAN. node3 is
# in another network behind world, and keeps the overlay. All nodes check reverse paths strictly.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/load.sh
. "$HERE/lib/load.sh"

NODE3=$(in_family 192.168.98.13)
ROUTER=$(in_family 192.168.98.200) # world, to node3
NET_BITS=$(by_family 24 64)
HEADERS=$(by_family 28 48) # of a ping
DIRECT=1 # node2; with a second family also node3, whose address of that family stays on the link
[[ ${MK_LAB_FAMILY:-} != [46][46] ]] || DIRECT=2

explain()
{
	local node
	for node in node1 node2 node3; do
		echo "drops of $node:"
		on "$node" "$MK_BIN" drops || true
		lab log "$node" | tail -n 6
	done
}

node3_object()
{
	sed "s|address: \"\{0,1\}$(by_family 192.168.99.13 fd00:99::13)\"\{0,1\}|address: \"$NODE3\"|" \
		"/run/mklab-$MK_LAB/objects/node-node3.yaml" >"$TMP/node-node3.yaml"
	lab apply "$TMP/node-node3.yaml"
}

# node3 moves to a network of its own: world is its router.
move_node3()
{
	ip -n "$MK_LAB.world" addr add "$ROUTER/$NET_BITS" dev eth0 $NODAD
	forward_in world
	ip -n "$MK_LAB.node3" addr add "$NODE3/$NET_BITS" dev eth0 $NODAD
	ip -n "$MK_LAB.node3" addr del "$(in_family 192.168.99.13)/$NET_BITS" dev eth0
	ip -n "$MK_LAB.node3" route replace default via "$ROUTER"
	on world sysctl -qw net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.eth0.send_redirects=0
	node3_object
}

strict()
{
	local node
	for node in node1 node2 node3; do
		on "$node" sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.default.rp_filter=1 \
			net.ipv4.conf.eth0.rp_filter=1
	done
}

objects()
{
	service_yaml web b 10.96.66.1 "{name: tcp, port: 8080, targetPort: 8080, nodePort: 30080},
		{name: udp, port: 8080, targetPort: 8080, nodePort: 30080, protocol: UDP}"
	cat <<-END
		---
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: closed, namespace: default}
		spec: {podSelector: {matchLabels: {app: closed}}, policyTypes: [Ingress]}
	END
}

direct_lab_up()
{
	lab up 3 --pods
	strict
	move_node3
	A=$(lab pod node1 a) B=$(lab pod node2 b) C=$(lab pod node3 c)
	CLOSED=$(lab pod node2 closed)
	for where in a b c closed node1 node2 world; do
		serve "$where" "$where" --tcp 8080 --udp 8080
	done
	objects | apply objects
	wait_for 20 ask a tcp "$(with_port "$C" 8080)"
	wait_for 20 ask a tcp "$VIP:8080"
}

# in_vxlan NODE: packets that its overlay's device has sent or received
in_vxlan() { on "$1" sh -c 'cat /sys/class/net/mkvxlan/statistics/tx_packets /sys/class/net/mkvxlan/statistics/rx_packets' | paste -sd+ | bc; }

# route_to NODE DEST: by which device and next hop its host sends
route_to() { on "$1" ip "-$FAMILY" -j route get "$2" | jq -r '.[0] | .dev + " " + (.gateway // "")'; }

leads_to() { expect_eq "route of $1 to $2" "$3" "$(route_to "$1" "$2")"; }

# routing MODE NODE: its agent starts again with it
routing()
{
	lab agent stop "$2"
	MK_AGENT_FLAGS="--routing $1" lab agent start "$2"
}

# answers WHERE ADDRESS PORT NAME: TCP with a large answer, UDP, and UDP in fragments
answers()
{
	local at
	at=$(with_port "$2" "$3")
	expect_match "TCP of $1 to $2" "^$4 " "$(ask "$1" tcp "$at" --want 60000)"
	expect_match "UDP of $1 to $2" "^$4 " "$(ask "$1" udp "$at")"
	wait_for 10 ask "$1" udp "$at" --size 3000 --want 3000
}

all_ways()
{
	answers a "$B" 8080 b
	answers b "$A" 8080 a
	answers a "$C" 8080 c
	answers c "$B" 8080 b
	answers node1 "$B" 8080 b
	answers node2 "$A" 8080 a
	answers node1 "$C" 8080 c
	answers a "$VIP" 8080 b
	answers node1 "$VIP" 8080 b
	answers c "$VIP" 8080 b
	answers a "$NODE2" 8080 node2
	expect_match "a NodePort of node1, from world" '^b ' "$(ask world tcp "$NODE1:30080")"
	expect_match "a NodePort of node1, from node2" '^b ' "$(ask node2 tcp "$NODE1:30080")"
	expect_failure ask a tcp "$(with_port "$CLOSED" 8080)" --timeout 0.5
	expect_failure ask c tcp "$(with_port "$CLOSED" 8080)" --timeout 0.5
}

begin_load()
{
	rm -f "$TMP"/load.*
	load a a "$(with_port "$B" 8080)" "$(with_port "$C" 8080)" "$VIP:8080" "$NODE2:8080"
	load b b "$(with_port "$A" 8080)"
	load host node1 "$(with_port "$B" 8080)" "$VIP:8080"
	load host2 node2 "$(with_port "$A" 8080)"
	load world world "$NODE1:30080"
}
unbroken()
{
	stop_load
	expect_eq "broken connections" "" "$(grep -H '^broken' "$TMP"/load.* || true)"
}

# No node waits for another one: each mode works with each other.
change_one_by_one()
{
	local node
	begin_load
	for node in "$@"; do
		routing "$MODE" "$node"
		all_ways
	done
	unbroken
}
MODE=Direct

without_vxlan()
{
	local before
	before=$(in_vxlan node1)
	answers a "$B" 8080 b
	answers b "$A" 8080 a
	answers node1 "$B" 8080 b
	answers node2 "$A" 8080 a
	answers a "$VIP" 8080 b
	answers node1 "$VIP" 8080 b
	expect_match "a NodePort" '^b ' "$(ask world tcp "$NODE1:30080")"
	expect_eq "packets of node1's overlay device" "$before" "$(in_vxlan node1)"
	answers a "$C" 8080 c
	expect_failure expect_eq "packets" "$before" "$(in_vxlan node1)"
}

routes_show()
{
	leads_to node1 "$B" "eth0 $NODE2"
	leads_to node1 10.18.0.2 "eth0 $NODE2"
	expect_match "route to a pod of node3" '^mkvxlan ' "$(route_to node1 "$C")"
	expect_eq "node2 in the list of nodes" "node2 Direct ok" \
		"$(on node1 "$MK_BIN" nodes -o json | jq -r '.[] | select(.name == "node2") | "\(.name) \(.routing) \(.state)"')"
	expect_match "trace" "leaves directly, without VXLAN, by eth0 to $NODE2" \
		"$(on node1 "$MK_BIN" trace default/a "$B" 8080)"
	expect_match "trace of the host" "leaves directly, without VXLAN, by eth0 to $NODE2" \
		"$(on node1 "$MK_BIN" trace host "$B" 8080)"
	expect_match "check" "packets to node 'node3' go in VXLAN" "$(on node1 "$MK_BIN" check || true)"
	expect_match "check" "of 2 nodes answer a ping through the overlay" "$(on node1 "$MK_BIN" check || true)"
	expect_eq "metric" "$DIRECT" "$(on node1 curl -sg "$(url "$LOCALHOST" 10249)/metrics" | awk '$1 == "monokube_peers_direct" { print $2 }')"
}

fits() { on "$1" ping -c 1 -W 2 -M 'do' -s $(($3 - HEADERS)) "$2"; }
learns() { fits "$@" || fits "$@"; } # the second one is not sent longer than the first one's answer says
overlay=$(by_family 1450 1430)
link_mtu()
{
	local new2
	lab pod node1 new >/dev/null
	new2=$(lab pod node2 new2)
	fits new "$new2" 1500
	expect_failure fits new "$new2" 1501
	fits new "$B" 1500 # a pod that is older than the setting
	expect_failure fits new "$C" $((overlay + 1))
	expect_match "path MTU to node3" "mtu $overlay" "$(on new ip "-$FAMILY" route get "$C")"
	fits new "$C" "$overlay"
	fits new "$WORLD" 1500
	serve new2 new2 --tcp 8080 --udp 8080
	answers new "$new2" 8080 new2
	answers c "$new2" 8080 new2
}

mac_of() { on "$1" cat /sys/class/net/eth0/address; }
forge() { on world "$HERE/forge.py" "$A" 8080 --dest-mac "$(mac_of node1)" "$@"; }
counted() { (($(drop_count node1 "$1") > $2)); }
strangers()
{
	local before martians
	before=$(drop_count node1 DIRECT_FORGED)
	martians=$(drop_count node1 MARTIAN_SOURCE)
	forge --source "$B"
	wait_for 5 counted DIRECT_FORGED "$before"
	forge --source 10.18.0.2
	wait_for 5 counted DIRECT_FORGED $((before + 1))
	forge --source "$C" --source-mac "$(mac_of node2)"
	wait_for 5 counted MARTIAN_SOURCE "$martians"
	forge --source "$A" --source-mac "$(mac_of node2)"
	wait_for 5 counted MARTIAN_SOURCE $((martians + 1))
	on node2 ping -c 1 -W 2 "$WORLD" # the switch learns again where node2 is
	answers a "$B" 8080 b
}

# Another MAC address of node2, announced as bonds and virtual routers do: nothing but the kernel's neighbours knows it.
agents_dead()
{
	begin_load
	lab agent kill node1
	lab agent kill node2
	all_ways
	on node2 sysctl -qw "$(by_family net.ipv4.conf.eth0.arp_notify net.ipv6.conf.eth0.ndisc_notify)=1"
	on node2 ip link set eth0 address 02:00:00:00:77:12
	[[ $FAMILY == 4 ]] || on node2 sh -c "ip addr replace $NODE2/64 dev eth0 nodad; ip route replace default via $WORLD"
	wait_for 20 ask a tcp "$(with_port "$B" 8080)"
	wait_for 20 ask b tcp "$(with_port "$A" 8080)"
	all_ways
	unbroken
	MK_AGENT_FLAGS="--routing Direct" lab agent start node1
	MK_AGENT_FLAGS="--routing Direct" lab agent start node2
	all_ways
}

# The kernel forgets a device's routes when it goes down.
link_down()
{
	on node1 ip link set eth0 down
	on node1 ip link set eth0 up
	[[ $FAMILY == 4 ]] || ip -n "$MK_LAB.node1" addr replace "$NODE1/64" dev eth0 nodad
	ip -n "$MK_LAB.node1" route replace default via "$WORLD"
	wait_for 20 leads_to node1 "$B" "eth0 $NODE2"
	wait_for 20 all_ways
}

# The nodes that node1 sends to directly, by its host's routes and by its programs.
ways_are()
{
	expect_eq "node1's way to node2" "$1" \
		"$(on node1 "$MK_BIN" nodes -o json | jq -r '.[] | select(.name == "node2") | .routing')"
	leads_to node1 "$B" "$2"
}
is_direct() { ways_are Direct "eth0 $NODE2"; }
is_in_vxlan() { ways_are Overlay "mkvxlan $(in_family 10.18.0.2)"; }
agrees() { expect_match check "$1" "$(on node1 "$MK_BIN" check || true)"; }
pod_mtu() { on node1 jq -r '.plugins[0].mtu // .mtu' /etc/cni/net.d/10-monokube.conflist; }

automatic()
{
	local start
	start=$(lab log node1 | wc -c)
	begin_load
	routing Auto node1
	is_direct # as the last run has left it
	all_ways
	expect_eq "MTU of new pods" "$overlay" "$(pod_mtu)"
	agrees "packets to 1 of 2 other nodes go without VXLAN"
	expect_eq "log" "" "$(lab log node1 | tail -c "+$start" | grep 'although routing is Direct' || true)"
	unbroken
}

# Each node on the link takes an entry of the kernel's table of neighbours. Only the host's first network
# namespace has the settings, so files stand for them.
neighbour_room()
{
	local dir=/proc/sys/net/ipv$FAMILY/neigh
	local limits=$dir/default/gc_thresh
	on node1 mount -t tmpfs none "$dir"
	on node1 bash -c "mkdir '$dir/default' && echo 1 | tee '${limits}2' >'${limits}3'"
	wait_for 10 on node1 grep -qx 2 "${limits}2"
	expect_eq "hard limit" 4 "$(on node1 cat "${limits}3")"
	on node1 umount "$dir"
}

# A cloud drops what is not from or to its instances' addresses.
cloud()
{
	on node1 nft add table netdev cloud
	on node1 nft "add chain netdev cloud out { type filter hook egress device eth0 priority 0; }"
	on node1 nft "add rule netdev cloud out $(by_family ip ip6) daddr $(in_family 10.244.2.0)/$(by_family 24 64) drop"
}
learns_of_cloud()
{
	cloud
	wait_for 20 is_in_vxlan
	wait_for 10 all_ways
	agrees "packets to 1 of 2 other nodes go in VXLAN, although they are on the link"
	expect_match "log" "node 'node2' \($NODE2\) answers no probe on the link" "$(lab log node1)"
	begin_load
	routing Auto node1
	all_ways
	is_in_vxlan
	on node1 nft delete table netdev cloud
	wait_for 30 is_direct
	all_ways
	unbroken
}

cleans_up()
{
	lab agent stop node1
	lab rm a
	lab rm new
	on node1 "$MK_BIN" cleanup
	expect_eq "routes that are left" "" "$(on node1 ip "-$FAMILY" route show proto 77)"
}

direct_lab_up
check "all in the overlay" all_ways
check "Overlay to Direct, node by node" change_one_by_one node1 node2 node3
check "no packet of nodes on one link is in VXLAN" without_vxlan
check "routes, nodes, trace, check and metric say so" routes_show
check "new pods have the uplink's MTU" link_mtu
check "strangers on the link are no nodes" strangers
check "agents are killed, a node gets another MAC address" agents_dead
check "the link was down" link_down
check "Auto" automatic
check "the table of neighbours has room for the nodes on the link" neighbour_room
check "Auto: the link carries no packets with pods' addresses, and then does" learns_of_cloud
MODE=Overlay
check "back to the overlay, node by node" change_one_by_one node2 node1 node3
check "cleanup removes the routes" cleans_up
finish
