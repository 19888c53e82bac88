#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_cli6.sh - the command line on nodes of IPv6 alone: trace, check, status, nodes, pods.
set -euo pipefail
export MK_LAB_ROUTING=Overlay # its rows expect the overlay by name
export MK_LAB_FAMILY=6
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

VIP=fd00:10:96::1
NODE1=fd00:99::11
FAR=2001:db8::10 # behind world

mk() { on node1 "$MK_BIN" "$@"; }
# json JQ ARGS...: apply jq to the subcommand's JSON, whatever its exit status.
json() { mk "${@:2}" -o json >"$TMP/json" || true; jq -r "$1" "$TMP/json"; }
has_backend() { json '.[0].frontends[0].backends | length' services web | grep -qx 1; }

cli_lab_up()
{
	lab up 2
	{
		service_yaml web web '"'$VIP'"' "{name: http, port: 80, targetPort: 8000, nodePort: 30080}"
		service_yaml empty nobody '"fd00:10:96::3"' "{port: 80}"
	} | apply services
	CLIENT=$(lab pod node1 client)
	NEAR=$(lab pod node1 near)
	WEB=$(lab pod node2 web)
	wait_for 10 has_backend
}

# trace STATUS OUTCOME FROM TO [PORT]: check both, keep the JSON.
trace()
{
	local status=0
	mk trace "${@:3}" -o json >"$TMP/traced" || status=$?
	expect_eq "exit status and outcome of trace ${*:3}" "$1 $2" "$status $(jq -r .outcome "$TMP/traced")"
}
says() { jq -r '[.steps[].says] | join("; ")' "$TMP/traced"; }

traces_pods()
{
	trace 0 forwarded client "$WEB" 8000
	expect_match "other node's pod" 'another node \(node2\).*leaves in VXLAN to fd00:99::12, by node node2; there' "$(says)"
	trace 0 delivered default/client pod:near 8000
	expect_match "pod's name" 'pod default/near of this node' "$(says)"
	trace 3 answered client fd00:10:244:1::99 80
	trace 0 delivered "$WEB" "$NEAR" 8000
	trace 0 delivered client near
	expect_match "ping" '^ICMPv6 ' "$(mk trace client near)"
}

traces_services()
{
	trace 0 forwarded client web
	expect_match "Service" "\[$VIP\]:80 is Service default/web: 1 backends, 0 of them" "$(says)"
	expect_match "session" "becomes \[$CLIENT\]:40000 > \[$WEB\]:8000" "$(says)"
	trace 3 answered client empty
	trace 0 forwarded fd00:99::200 "$NODE1" 30080
	expect_match "NodePort" 'default/web.*chosen by Maglev' "$(says)"
	trace 0 forwarded host web
	trace 0 forwarded host "$NODE1" 30080
	trace 0 forwarded host ::1 30080
}

traces_outside()
{
	trace 0 forwarded client "$FAR" 80
	expect_match "masquerade" "becomes \[$NODE1\]:[0-9]+ > \[$FAR\]:80" "$(says)"
	trace 0 forwarded client "$FAR"
	trace 0 forwarded client "$FAR" 53/udp
	trace 0 delivered client host 22
	trace 0 forwarded host "$FAR" 80
	expect_match "other family" 'or an IPv6 address' "$(FAMILY=4 mk trace client 192.0.2.1 80 2>&1 || true)"
}

# line CHECK: its line with the status before it: ok, note, WRONG; and its remedy.
line() { mk check | grep -A 1 -E "^(ok|note|WRONG) +$1 " || true; }
expect_line() { expect_match "check $1" "$2" "$(line "$1")"; }

nothing_is_wrong()
{
	expect_match "all" '^healthy' "$(mk check | tail -n 1)"
	expect_line path '^ok .* 1 of 1 nodes answer a ping through the overlay, 1 of them also one of 1500 bytes, the largest'
	expect_line mtu '^ok .*mkvxlan 1430, eth0 1500'
	expect_eq "pods" "ok ok" "$(json '[.[].state] | join(" ")' pods)"
	expect_eq "nodes" "ok fd00:99::12 fd4d:4b00:12::2" "$(json '.[] | "\(.state) \(.address) \(.overlayAddress)"' nodes)"
}

status_names_families()
{
	expect_eq "families" "IPv6 IPv6 true" "$(json '"\(.family) \(.underlayFamily) \(.masqueradeIPv6.on)"' status)"
	expect_match "text" 'masquerade: on \(masqueradeIPv6 is auto, and the pod CIDR is not public\)' "$(mk status)"
}

# The report has the routes of IPv6.
report()
{
	mk bugreport --file "$TMP/report.tar" >/dev/null
	expect_match "routes" 'default via fd00:99::200' "$(tar xOf "$TMP/report.tar" monokube-bugreport/ip-route-ipv6)"
	expect_match "probe" 'IPv6 ndp +ok' "$(tar xOf "$TMP/report.tar" monokube-bugreport/probe)"
}

sessions_filter()
{
	on client ping -c 1 -W 2 "$FAR"
	expect_eq "ICMPv6 of the client" "ICMPv6 $NODE1" "$(json '.[] | "\(.protocol) \(.newFrom)"' nat "$CLIENT" --protocol icmp | sed 's/]:.*//; s/\[//')"
	expect_eq "other protocol" 0 "$(json length nat "$CLIENT" --protocol tcp)"
}

small_mtu()
{
	on node1 ip link set eth0 mtu 1340
	expect_line mtu '^WRONG .*eth0 has 1340, but pods of IPv6 need an uplink of at least 1350'
	on node1 ip link set eth0 mtu 1500
	wait_for 30 mk check
}

# VXLAN does not pass, but other packets do.
blocked_overlay()
{
	on node2 nft -f - <<-'END'
		table ip6 block {
			chain in {
				type filter hook input priority 0
				udp dport 4789 drop
			}
		}
	END
	expect_line path '^WRONG .*node2 at fd00:99::12 answers a ping, but none through the overlay'
	on node2 nft delete table ip6 block
	wait_for 30 mk check
}

# The kernel will take no more advertisements, so the route will expire. The agent repairs the setting, maybe before
# check reads it.
route_expires()
{
	on node1 sysctl -qw net.ipv6.conf.eth0.forwarding=1 net.ipv6.conf.eth0.accept_ra=1
	expect_line settings '^WRONG .*eth0 has its default route from router advertisements, and forwards with accept_ra 1'
}
advertised_route()
{
	on node1 ip -6 route add default via fd00:99::200 dev eth0 proto ra metric 2000
	wait_for 20 route_expires
	on node1 sysctl -qw net.ipv6.conf.eth0.accept_ra=2
	expect_line settings '^ok '
}

# Last: the kernel removes the node's addresses.
ipv6_is_off()
{
	on node1 sysctl -qw net.ipv6.conf.eth0.disable_ipv6=1
	expect_line settings '^WRONG .*IPv6 is off: net.ipv6.conf.eth0.disable_ipv6 is 1'
}

cli_lab_up
check "trace: pods and a ping" traces_pods
check "trace: Services, NodePorts" traces_services
check "trace: outside of the cluster, and this host" traces_outside
check "check: nothing is wrong" nothing_is_wrong
check "status: families and masquerade" status_names_families
check "bugreport: routes of IPv6, programs of both families" report
check "nat: --protocol icmp means ICMPv6" sessions_filter
check "check: an uplink's MTU below IPv6's minimum" small_mtu
check "check: VXLAN is blocked" blocked_overlay
check "check: a default route of advertisements that will expire" advertised_route
check "check: IPv6 is off on the uplink" ipv6_is_off
finish
