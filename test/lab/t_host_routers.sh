#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_host_routers.sh - Debian's keepalived moves a Service's external address between nodes, and Debian's
# BIRD exchanges all routes of nodes and world by OSPF.
#
# Packages that the machine lacks are unpacked into build/host-routers, and not installed.
#
#   node1: client, web-1; node2: web-2; world is outside, a router
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
export MK_LAB_ROUTING=Auto
SHARED=$(in_family 192.168.99.50)

explain()
{
	local node
	for node in node1 node2; do
		lab log $node | tail -n 8
		on $node "$MK_BIN" drops || true
		routes $node show
	done
	tail -n 5 "$TMP"/*.log 2>/dev/null || true
}
# routes NODE COMMAND...
routes() { ip "-$FAMILY" -n "$MK_LAB.$1" route "${@:2}"; }
ours() { routes "$1" show proto 77 | sort; }
# Packets to the other node's pods are not in VXLAN.
has_direct() { ours "$1" | grep -E "^$(by_family "10.244.[12].0/24" "fd00:10:244:[12]::/64") via .* dev eth0"; }

packages_are_there() { unpack_packages dbus "keepalived bird2"; }

routers_up()
{
	local place
	lab up 2
	web_pods_up
	service_yaml web web "$VIP" "{name: tcp, port: 8080, targetPort: 8080, nodePort: 30080},
		{name: udp, port: 8080, targetPort: 8080, nodePort: 30080, protocol: UDP}" "externalIPs: [$SHARED]" | apply services
	wait_for 10 ask client tcp "$VIP:8080"
	wait_for 10 ask world tcp "$NODE2:30080"
	for place in node1 node2 world; do
		software_up $place
	done
}

# Service, pods and the world outside, from everywhere.
new_connections()
{
	local from
	for from in client node1 node2; do
		ask $from tcp "$(with_port "$ADDR_1" 8080)"
		ask $from tcp "$(with_port "$ADDR_2" 8080)"
		ask $from tcp "$VIP:8080"
		ask $from udp "$VIP:8080"
	done
	ask client tcp "$(with_port "$FAR" 8080)"
	ask world tcp "$NODE1:30080"
	ask world tcp "$NODE2:30080"
}
unbroken()
{
	stop_load
	expect_eq "broken connections" "" "$(grep -h '^broken' "$TMP"/load.* || true)"
	rm "$TMP"/load.*
}

# ---- keepalived

# keepalived NODE PRIORITY [MORE]
keepalived()
{
	cat >"$TMP/keepalived-$1.conf" <<-END
		global_defs {
			router_id $1
			vrrp_version 3
		}
		vrrp_instance web {
			state BACKUP
			interface eth0
			virtual_router_id 51
			priority $2
			advert_int 0.2
			${3:-}
			virtual_ipaddress {
				$SHARED/$(by_family 24 64)
			}
		}
	END
	daemon "keepalived@$1" keepalived --dont-fork --log-console --vrrp --use-file "$TMP/keepalived-$1.conf" \
		--pid "$TMP/keepalived-$1" --vrrp_pid "$TMP/vrrp-$1"
}
has_shared() { ip -n "$MK_LAB.$1" -o addr show | grep -F " $SHARED/"; }
pair_starts()
{
	keepalived node1 100 "$@"
	wait_for 20 has_shared node1
	keepalived node2 50 "$@"
}
pair_ends() { end keepalived@node2 && end keepalived@node1; }
# moves NODE: its clients follow
moves_to()
{
	wait_for 20 has_shared "$1"
	wait_for 10 ask world tcp "$SHARED:8080"
	asks_shared
}
asks_shared()
{
	local from
	for from in world client node1 node2; do
		ask $from tcp "$SHARED:8080"
		ask $from udp "$SHARED:8080"
	done
}
there_and_back()
{
	moves_to node1
	end keepalived@node1
	moves_to node2
	keepalived node1 100 "$@"
	moves_to node1
}

masqueraded()
{
	load other world "$NODE2:30080"
	pair_starts ""
	there_and_back ""
	pair_ends
	unbroken
}
agents_restart()
{
	local node
	for node in node1 node2; do
		lab agent stop $node
		MK_AGENT_FLAGS=$1 lab agent start $node
	done
}
# Each node finds the same endpoint, so connections go on by the other node.
answered_directly()
{
	agents_restart "--client-address Keep --direct-server-return true"
	wait_for 30 has_direct node1
	pair_starts ""
	moves_to node1
	load shared world "$SHARED:8080"
	there_and_back ""
	pair_ends
	unbroken
}
# The address is on a device of its own, with a MAC address of its own.
with_vmac()
{
	local node
	for node in node1 node2; do
		on $node sh -c 'for file in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 1 >$file; done'
	done
	load other world "$NODE2:30080"
	pair_starts "use_vmac vrrp0"
	there_and_back "use_vmac vrrp0"
	has_direct node1
	pair_ends
	unbroken
}

# ---- BIRD

# bird PLACE ID [MORE]
bird()
{
	local channel ospf
	channel=$(by_family ipv4 ipv6)
	ospf=$(by_family v2 v3)
	cat >"$TMP/bird-$1.conf" <<-END
		router id 192.0.2.$2;
		protocol device { scan time 1; }
		protocol direct { $channel; }
		protocol kernel { learn; persist; merge paths on; scan time 1; $channel { import all; export where source != RTS_STATIC; }; }
		protocol ospf $ospf { $channel { import all; export all; }; area 0 { interface "eth0" { hello 1; dead 4; wait 2; }; }; }
		${3:-}
	END
	daemon "bird@$1" bird -f -c "$TMP/bird-$1.conf" -s "$TMP/bird-$1.ctl"
}
bird_of_world() { bird world 200 "protocol static { $(by_family 'ipv4; route 0.0.0.0/0' 'ipv6; route ::/0') blackhole; }"; }
has_route() { routes "$1" show proto bird | grep "^$2 "; }
sees_client() { expect_match "$1 sees" "^$1 $WORLD " "$(ask world tcp "$(with_port "$2" 8080)")"; }

# BIRD has learned the routes of each node, and others have them. Clients outside reach pods of IPv6 by their
# addresses only if these are not masqueraded.
learns_all()
{
	local node
	agents_restart "--masquerade-ipv6 false"
	for node in node1 node2; do
		wait_for 30 has_direct $node
	done
	for node in node1 node2; do
		ours $node >"$TMP/ours-$node"
	done
	load client client "$(with_port "$ADDR_2" 8080)" "$VIP:8080"
	load host node1 "$(with_port "$ADDR_2" 8080)" "$VIP:8080"
	load world world "$NODE1:30080"
	bird node1 11
	bird node2 12
	bird_of_world
	wait_for 30 has_route node1 "$(by_family 10.18.0.2 fd4d:4b00:12::2)"
	wait_for 30 has_route node2 "$(by_family 10.18.0.1 fd4d:4b00:12::1)"
	wait_for 30 ask world tcp "$(with_port "$ADDR_2" 8080)"
	sees_client web-1 "$ADDR_1"
	sees_client web-2 "$ADDR_2"
	all_is_as_before
	unbroken
}
all_is_as_before()
{
	local node
	new_connections
	for node in node1 node2; do
		expect_eq "monokube's routes of $node" "$(<"$TMP/ours-$node")" "$(ours $node)"
	done
	on node1 "$MK_BIN" check | grep -E '^ok +networks .* overlap none'
}

# BIRD's routes are there first.
agent_comes_second()
{
	lab agent stop node1
	routes node1 flush proto 77
	lab agent start node1
	wait_for 30 all_is_as_before
}

default_route()
{
	local node
	for node in node1 node2; do
		routes $node del default proto boot
	done
	wait_for 20 has_route node1 default
	wait_for 10 ask client tcp "$(with_port "$FAR" 8080)"
	end bird@world
	wait_for 20 is_unreachable
	ask client tcp "$(with_port "$ADDR_2" 8080)"
	bird_of_world
	wait_for 30 ask client tcp "$(with_port "$FAR" 8080)"
	ask client udp "$(with_port "$FAR" 8080)"
}
is_unreachable() { expect_match "answer" 'unreachable|No route' "$(ask client tcp "$(with_port "$FAR" 8080)" || true)"; }

check "Debian's packages" packages_are_there
routers_up
check "keepalived: new connections by the shared address follow it" masqueraded
check "the same with answers straight to the client: open connections go on" answered_directly
check "keepalived with a MAC address of its own, strict rp_filter" with_vmac
check "BIRD exchanges all routes: nothing breaks, and world reaches pods by their addresses" learns_all
check "an agent that starts after BIRD" agent_comes_second
check "the default route is BIRD's, goes and comes back" default_route
finish
