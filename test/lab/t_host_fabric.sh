#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_host_fabric.sh - nodes without a network of their own: the InternalIP is on lo, and BIRD announces it by
# two uplinks. Their default route has both as next hops. world is the router, in both networks.
#
#   node1: client, web-1; node2: web-2
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/load.sh
. "$HERE/lib/load.sh"
# shellcheck source=test/lab/lib/packages.sh
. "$HERE/lib/packages.sh"
# shellcheck source=test/lab/lib/software.sh
. "$HERE/lib/software.sh"
packages_in host-routers
NODES=(node1 node2)

explain()
{
	local place
	for place in "${NODES[@]}" world; do
		echo "$place:"
		in_place "$place" route
		[[ $place == world ]] || lab log "$place" | tail -n 6
		tail -n 5 "$TMP/bird@$place.log" || true
	done
	tail -n 5 "$TMP"/load.* 2>/dev/null || true
}

in_place() { ip "-$FAMILY" -n "$MK_LAB.$1" "${@:2}"; }
number() { if [[ $1 == world ]]; then echo 200; else echo "1${1#node}"; fi; }
own() { in_family "192.168.99.$(number "$1")"; }        # address on lo
link() { in_family "172.1$((6 + $2)).99.$(number "$1")"; } # of eth0 or eth1

# connect PLACE: its address moves to lo, and eth1 is in a second network
connect()
{
	local device
	ip -n "$MK_LAB.underlay" link add "second-$1" type veth peer name eth1 netns "$MK_LAB.$1"
	ip -n "$MK_LAB.underlay" link set "second-$1" master br1 up
	on "$1" sh -c 'echo 0 >/proc/sys/net/ipv6/conf/eth1/disable_ipv6'
	ip -n "$MK_LAB.$1" link set eth1 up
	in_place "$1" addr flush dev eth0 scope global
	# shellcheck disable=SC2086 # NODAD may be nothing
	{
		in_place "$1" addr add "$(own "$1")/$BITS" dev lo $NODAD
		for device in 0 1; do
			in_place "$1" addr add "$(link "$1" $device)/$(by_family 24 64)" dev eth$device $NODAD
		done
	}
	on "$1" sysctl -qw "net.$(by_family ipv4 ipv6).fib_multipath_hash_policy=1"
}

# session NAME NEIGHBOUR AS OTHERS_AS: of BGP; announces SOURCE, which is of the caller
session()
{
	cat <<-END
		protocol bgp $1 {
			local as $3;
			neighbor $2 as $4;
			hold time 3;
			connect delay time 1;
			connect retry time 1;
			error wait time 1, 1;
			$(by_family ipv4 ipv6) { import all; export where source = $SOURCE; next hop self; };
		}
	END
}
# bird PLACE: with sessions from standard input. Routes that it learns have the address on lo as source.
bird()
{
	local channel
	channel=$(by_family ipv4 ipv6)
	{
		cat <<-END
			router id 192.0.2.$(number "$1");
			protocol device { scan time 1; }
			protocol direct { $channel; interface "lo"; }
			protocol kernel {
				merge paths on;
				$channel { import none; export filter { if source != RTS_BGP then reject; krt_prefsrc = $(own "$1"); accept; }; };
			}
		END
		cat
	} >"$TMP/bird-$1.conf"
	daemon "bird@$1" bird -f -c "$TMP/bird-$1.conf" -s "$TMP/bird-$1.ctl"
}
birds_up()
{
	local node device SOURCE=RTS_STATIC
	{
		echo "protocol static { $(by_family 'ipv4; route 0.0.0.0/0' 'ipv6; route ::/0') blackhole; }"
		for node in "${NODES[@]}"; do
			for device in 0 1; do
				session "${node}_$device" "$(link "$node" $device)" 64500 64512
			done
		done
	} | bird world
	SOURCE=RTS_DEVICE
	for node in "${NODES[@]}"; do
		{
			session router_0 "$(link world 0)" 64512 64500
			session router_1 "$(link world 1)" 64512 64500
		} | bird "$node"
	done
}

fabric_up()
{
	local place
	lab up 2
	web_pods_up
	web_service_up
	for place in "${NODES[@]}"; do
		lab agent stop "$place"
	done
	ip -n "$MK_LAB.underlay" link add br1 type bridge
	ip -n "$MK_LAB.underlay" link set br1 up
	forward_in world
	on world sysctl -qw net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.eth0.send_redirects=0
	for place in "${NODES[@]}" world; do
		in_place "$place" route flush default
		connect "$place"
		software_up "$place"
	done
	birds_up
	for place in "${NODES[@]}"; do
		wait_for 20 by_links "$place" 0 1
		MK_AGENT_FLAGS="--uplink-iface-name eth0,eth1" lab agent start "$place"
	done
}

# by_links NODE LINK...: the default route of NODE, and world's route to it
by_links()
{
	local device node='' world=''
	for device in "${@:2}"; do
		node+="via $(link world "$device")"$'\n'
		world+="via $(link "$1" "$device")"$'\n'
	done
	expect_eq "next hops of $1" "${node%$'\n'}" "$(in_place "$1" route show default proto bird | grep -oE 'via [^ ]+' | sort)"
	expect_eq "next hops to $1" "${world%$'\n'}" "$(in_place world route show "$(own "$1")" proto bird | grep -oE 'via [^ ]+' | sort)"
}

# All paths, several times: each flow goes by one of the links.
new_connections()
{
	local proto
	for _ in 1 2 3 4; do
		for proto in tcp udp; do
			ask client $proto "$(with_port "$ADDR_2" 8080)"
			ask client $proto "$VIP:8080"
			ask node1 $proto "$VIP:8080"
			ask world $proto "$NODE1:30080"
			ask world $proto "$NODE2:30080"
			expect_match "source of $proto" "^world $NODE1 " "$(ask client $proto "$(with_port "$FAR" 8080)")"
		done
		ask world tcp "$NODE1:30080" --want 60000
		ask client tcp "$(with_port "$FAR" 8080)" --want 60000
	done >/dev/null
}

begin()
{
	wait_for 20 ask client tcp "$(with_port "$ADDR_2" 8080)"
	wait_for 20 ask world tcp "$NODE1:30080"
	new_connections
	on node1 "$MK_BIN" check | grep -E '^healthy|ok +path'
}

# switch LINK up|down: node1's port at the switch of that link
switch()
{
	local port=node1
	[[ $1 == 0 ]] || port=second-node1
	ip -n "$MK_LAB.underlay" link set $port "$2"
}
link_fails()
{
	switch "$1" down
	wait_for 20 by_links node1 $((1 - $1))
	new_connections
	switch "$1" up
	wait_for 20 by_links node1 0 1
	new_connections
}
links_fail()
{
	load world world "$NODE1:30080" "$NODE2:30080"
	load client client "$(with_port "$ADDR_2" 8080)" "$(with_port "$FAR" 8080)" "$VIP:8080"
	link_fails 0
	link_fails 1
	stop_load
	expect_eq "broken connections" "" "$(grep -h '^broken' "$TMP"/load.* || true)"
}

# The agent starts while the first link is down.
agent_starts()
{
	switch 0 down
	wait_for 20 by_links node1 1
	lab agent kill node1
	MK_AGENT_FLAGS="--uplink-iface-name eth0,eth1" lab agent start node1
	new_connections
	switch 0 up
	wait_for 20 by_links node1 0 1
	new_connections
}

unpack_packages dbus "keepalived bird2"
fabric_up
check "InternalIPs on lo, two uplinks, routes by BGP: all paths" begin
check "each link fails and comes back: no connection breaks" links_fail
check "the agent starts while a link is down" agent_starts
finish
