#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_host_bgp.sh - Debian's BIRD on each node announces Services' external addresses by BGP. world is the
# router that spreads connections over the nodes (ECMP), and the client.
#
#   node1: web-1; node2: web-2; node3 has no endpoint; narrow is a client behind world
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/load.sh
. "$HERE/lib/load.sh"
# shellcheck source=test/lab/lib/packages.sh
. "$HERE/lib/packages.sh"
# shellcheck source=test/lab/lib/software.sh
. "$HERE/lib/software.sh"
# shellcheck source=test/lab/lib/narrow.sh
. "$HERE/lib/narrow.sh"
packages_in host-routers
export MK_LAB_ROUTING=Auto
ANY=$(in_family 192.0.2.1) NEAR=$(in_family 192.0.2.2)
NODES=(node1 node2 node3)

explain()
{
	local node
	for node in "${NODES[@]}"; do
		lab log "$node" | tail -n 4
		on "$node" "$MK_BIN" drops || true
	done
	ip "-$FAMILY" -n "$MK_LAB.world" route
	tail -n 5 "$TMP"/{*.log,load.*} 2>/dev/null || true
}

packages_are_there() { unpack_packages dbus "keepalived bird2"; }

# service NAME ADDRESS CLUSTER_IP POLICY NODE_PORT
service()
{
	service_yaml "$1" web "$3" "{name: tcp, port: 80, targetPort: 8080, nodePort: $5},
		{name: udp, port: 80, targetPort: 8080, nodePort: $5, protocol: UDP}" "externalIPs: [$2], externalTrafficPolicy: $4"
}
routers_up()
{
	local place
	lab up 3
	web_pods_up
	{
		service any "$ANY" 10.96.66.1 Cluster 30081
		service near "$NEAR" 10.96.66.2 Local 30082
	} | apply services
	narrow_up
	on world sysctl -qw "net.$(by_family ipv4 ipv6).fib_multipath_hash_policy=1"
	for place in "${NODES[@]}"; do
		on "$place" sh -c 'for file in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 1 >$file; done'
		software_up "$place"
	done
	software_up world
}

# ---- BIRD

address_of() { in_family "192.168.99.1${1#node}"; }
# announcer NODE ADDRESS...: of these addresses. The host has routes that drop them.
announcer()
{
	local channel
	channel=$(by_family ipv4 ipv6)
	cat >"$TMP/bird-$1.conf" <<-END
		router id 192.0.2.1${1#node};
		protocol device { scan time 1; }
		protocol static { $channel; $(printf "route %s/$BITS blackhole; " "${@:2}") }
		protocol kernel { $channel { import none; export all; }; }
		protocol bgp upstream {
			local as 64512;
			neighbor $WORLD as 64500;
			hold time 3;
			connect delay time 1;
			connect retry time 1;
			error wait time 1, 1;
			$channel { import none; export where source = RTS_STATIC; next hop self; };
		}
	END
	daemon "bird@$1" bird -f -c "$TMP/bird-$1.conf" -s "$TMP/bird-$1.ctl"
}
# neighbour NODE: the router's session with this node
neighbour()
{
	cat <<-END
		protocol bgp $1 {
			local as 64500;
			neighbor $(address_of "$1") as 64512;
			hold time 3;
			error wait time 1, 1;
			passive;
			$(by_family ipv4 ipv6) { import all; export none; };
		}
	END
}
router()
{
	local node
	{
		cat <<-END
			router id 192.0.2.200;
			protocol device { scan time 1; }
			protocol kernel { merge paths on; $(by_family ipv4 ipv6) { import none; export all; }; }
		END
		for node in "${NODES[@]}"; do
			neighbour "$node"
		done
	} >"$TMP/bird-world.conf"
	daemon bird@world bird -f -c "$TMP/bird-world.conf" -s "$TMP/bird-world.ctl"
}
announce()
{
	case $1 in
	node3) announcer node3 "$ANY" ;; # has no endpoint
	*) announcer "$1" "$ANY" "$NEAR" ;;
	esac
}
die_on() { kill -9 "$(<"$TMP/bird@$1.pid")" && rm "$TMP/bird@$1.pid"; }

# The routes of world that BIRD has made; several nodes are several next hops.
ways_to() { ip "-$FAMILY" -n "$MK_LAB.world" route show "$1" proto bird | grep -oE 'via [^ ]+' | sort; }
# spread ADDRESS NODE...: the router knows these nodes
spread() { expect_eq "ways to $1" "$(for node in "${@:2}"; do echo "via $(address_of "$node")"; done)" "$(ways_to "$1")"; }

# ---- connections

agents_restart()
{
	local node
	for node in "${NODES[@]}"; do
		lab agent stop "$node"
		MK_AGENT_FLAGS=$1 lab agent start "$node"
	done
}
# new_connections FROM...: from there, and from outside by all nodes that announce the address
new_connections()
{
	local from to
	for _ in 1 2 3 4 5 6; do
		for to in "$ANY" "$NEAR"; do
			ask world tcp "$(with_port "$to" 80)" >/dev/null
			ask world udp "$(with_port "$to" 80)" >/dev/null
		done
	done
	for from in "$@"; do
		ask "$from" tcp "$(with_port "$ANY" 80)" >/dev/null
		ask "$from" udp "$(with_port "$ANY" 80)" >/dev/null
	done
}
begin_load()
{
	rm -f "$TMP"/load.*
	load any world --light 20 "$(with_port "$ANY" 80)"
	load near world --light 20 "$(with_port "$NEAR" 80)"
}
broken() { grep '^broken' "$TMP/load.$1" | grep -v "$2" || true; }
# broken_only SERVICE [HOW]: no connection broke in another way than HOW, which is at once
broken_only() { expect_eq "broken connections of $1" "" "$(broken "$1" "${2:-^$}")"; }

# announced_by NODE...: all new connections pass
announced_by()
{
	wait_for 20 spread "$ANY" "$@"
	# shellcheck disable=SC2046 # a list
	wait_for 20 spread "$NEAR" $(printf '%s\n' "$@" | grep -v node3)
	new_connections client "$@"
}

begin()
{
	local node
	router
	for node in "${NODES[@]}"; do
		announce "$node"
	done
	announced_by node1 node2 node3
}

# Each node in turn no longer announces, dies or loses its link, and comes back.
nodes_come_and_go()
{
	begin_load
	end bird@node3
	announced_by node1 node2
	die_on node2
	announced_by node1
	announce node2
	announce node3
	announced_by node1 node2 node3
	command ip -n "$MK_LAB.underlay" link set node3 down
	announced_by node1 node2
	command ip -n "$MK_LAB.underlay" link set node3 up
	announced_by node1 node2 node3
	stop_load
}

# Another node knows no connection: the endpoint resets it, and the client need not wait.
masqueraded()
{
	nodes_come_and_go
	broken_only any "Connection-reset-by-peer"
	broken_only near "Connection-reset-by-peer"
}
# Each node finds the same endpoint.
straight()
{
	agents_restart "--client-address Keep --direct-server-return true"
	wait_for 60 without_vxlan
	nodes_come_and_go
	broken_only any
	broken_only near "Connection-reset-by-peer"
}
# By each node, to both pods
in_vxlan() { for node in "${NODES[@]}"; do on "$node" cat /sys/class/net/mkvxlan/statistics/tx_packets; done | awk '{ sum += $1 } END { print sum }'; }
without_vxlan()
{
	local before node
	before=$(in_vxlan)
	for node in "${NODES[@]}" "${NODES[@]}" "${NODES[@]}" "${NODES[@]}"; do
		ask world tcp "$(with_port "$(address_of "$node")" 30081)" >/dev/null
	done
	expect_eq "packets in VXLAN" 0 $(($(in_vxlan) - before))
}

# states NODE: the states of the connections whose packets come by this node now
states()
{
	on "$1" "$MK_BIN" sessions -o json | jq -r --arg to "$(with_port "$ANY" 80)" \
		'[.[] | select(.protocol == "TCP" and .to == $to and .idleSeconds < 2) | .state] | unique | join(" ")'
}
all_established() { expect_eq "connections by $1" established "$(states "$1")"; }
# Connections move to a node without an endpoint, and then to one with an endpoint. The link of the former has
# just come back (nodes_come_and_go), and probes do not count it yet.
moved()
{
	local node
	begin_load
	for node in node1 node2; do
		end "bird@$node"
	done
	wait_for 20 spread "$ANY" node3
	wait_for 20 all_established node3
	announce node1
	wait_for 20 spread "$ANY" node1 node3
	end bird@node3
	wait_for 20 spread "$ANY" node1
	wait_for 20 all_established node1
	announce node2
	announce node3
	announced_by node1 node2 node3
	stop_load
	broken_only any
}

# Requests come by node1, errors about answers by node3.
errors_take_another_way()
{
	local by
	by=$(by_family icmp ipv6-icmp)
	ip "-$FAMILY" -n "$MK_LAB.world" route add "$ANY" via "$NODE1" table 101
	ip "-$FAMILY" -n "$MK_LAB.world" route add "$ANY" via "$(address_of node3)" table 103
	ip "-$FAMILY" -n "$MK_LAB.world" rule add iif narrow0 lookup 101
	ip "-$FAMILY" -n "$MK_LAB.world" rule add ipproto "$by" lookup 103
}
# Pods forget the MTU that they have learnt.
transfers_adapt()
{
	local before pod
	for pod in web-1 web-2; do
		on $pod ip "-$FAMILY" route flush cache
	done
	before=$(too_big)
	for _ in 1 2 3 4 5 6; do
		in_narrow "$HERE/echo.py" ask tcp "$(with_port "$ANY" 80)" --want 1000000 --timeout 5
	done
	(($(too_big) > before)) || expect_eq "errors of the router" "more than $before" "$(too_big)"
}
errors_by_another_node()
{
	errors_take_another_way
	transfers_adapt
}
translated_errors()
{
	agents_restart "--client-address Keep"
	transfers_adapt
}

trap narrow_down EXIT
check "Debian's packages" packages_are_there
routers_up
check "BIRD announces addresses, also those that the host drops; strict rp_filter" begin
check "nodes come and go: connections that move are reset at once, new ones pass" masqueraded
check "the same with answers straight to the client: with policy Cluster none breaks" straight
check "connections that move become established at their new node" moved
check "ICMP errors come by another node than the connection: the transfer adapts" errors_by_another_node
check "the same with answers by the first node, and clients' own addresses" translated_errors
finish
