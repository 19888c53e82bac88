#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_ipv6_routed.sh - a cluster of IPv6 without masquerade: the network routes pod CIDRs to
# their nodes. Pods keep their address outside, and hosts outside reach them.
set -euo pipefail
export MK_LAB_FAMILY=6 MK_AGENT_FLAGS="--masquerade-ipv6 false"
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

FAR=2001:db8::10 # behind world
NODE1=fd00:99::11
NODE2=fd00:99::12

explain()
{
	echo "drops of node1:"
	on node1 "$MK_BIN" drops || true
}

routed_lab_up()
{
	lab up 2
	CLIENT=$(lab pod node1 client)
	WEB=$(lab pod node2 web)
	ip -n "$MK_LAB.world" route add fd00:10:244:1::/64 via "$NODE1"
	ip -n "$MK_LAB.world" route add fd00:10:244:2::/64 via "$NODE2"
	for where in client web world node2; do
		serve6 "$where" 8000
	done
}

# ---- what outside may not do ---------------------------------------------------------------------

mac_of() { on "$1" cat "/sys/class/net/$2/address"; }
refused_datagrams() { on web nstat -asz Udp6NoPorts | awk '/NoPorts/ { print $2 }'; }
forge() { on world "$HERE/forge.py" "$@" --dest-mac "$(mac_of node2 eth0)"; }
more_refused() { (($(refused_datagrams) > $1)); }

# Sources that no host beyond the link has, and messages of the link
not_to_pods()
{
	local before source
	before=$(refused_datagrams)
	for source in fe80::1 fd00:10:244:1::2 fd00:10:244:2::9 ::1 :: ff02::1 ::ffff:af4:103; do
		forge "$WEB" 9 --source "$source"
	done
	forge "$WEB" 0 --kind icmp --ttl 255 --message 8600400007080000000000000000
	forge "$WEB" 0 --kind icmp --ttl 255 --message "8800a0000000$(printf '0%.0s' {1..32})"
	forge "$WEB" 9 --sport 4243
	wait_for 5 more_refused "$before"
	expect_eq "datagrams that arrived" $((before + 1)) "$(refused_datagrams)"
	expect_match "neighbour messages" ' 0 .* 0 ' "$(on web nstat -asz Icmp6InRouterAdvertisements Icmp6InNeighborAdvertisements | xargs)"
}

# ---- the router advertises -----------------------------------------------------------------------

# advertise: world is the default router for half an hour (RFC 4861, 4.2)
advertise()
{
	local link
	link=$(on world ip -6 -o addr show dev eth0 scope link | awk '{ sub("/.*", "", $4); print $4 }')
	on world "$HERE/forge.py" ff02::1 0 --kind icmp --ttl 255 --source "$link" --dest-mac 33:33:00:00:00:01 \
		--message "8600400007080000000000000000"
}
is_advertised() { advertise && on node1 ip -6 route show default | grep -q 'proto ra'; }
accept_ra() { on node1 cat /proc/sys/net/ipv6/conf/eth0/accept_ra; }
forwards() { expect_eq "forwarding of mkhost0" 1 "$(on node1 cat /proc/sys/net/ipv6/conf/mkhost0/forwarding)"; }

# The second uplink needs `forwarding`, for which the kernel removes advertised routes.
second_uplink()
{
	ip link add eth1 netns "$MK_LAB.node1" type veth peer name node1-2 netns "$MK_LAB.world"
	for where in "node1 eth1 11" "world node1-2 200"; do
		# shellcheck disable=SC2086 # its words
		set -- $where
		on "$1" sh -c "echo 0 >/proc/sys/net/ipv6/conf/$2/disable_ipv6; ip link set $2 up; ip addr add fd00:98::$3/64 dev $2 nodad"
	done
	on node1 ip route add 2001:db8:2::/64 via fd00:98::200 dev eth1
	apply node-node1 <<-END
		apiVersion: v1
		kind: Node
		metadata: {name: node1}
		spec: {podCIDR: "fd00:10:244:1::/64", podCIDRs: ["fd00:10:244:1::/64"]}
		status: {addresses: [{type: InternalIP, address: "$NODE1"}, {type: InternalIP, address: "fd00:98::11"}]}
	END
	wait_for 15 forwards
}

default_route_stays()
{
	forward_in world # only a router stays the default route
	on node1 sh -c 'echo 1 >/proc/sys/net/ipv6/conf/eth0/accept_ra; ip -6 route del default'
	wait_for 10 is_advertised
	env ip netns exec "$MK_LAB.node1" ip -6 monitor route >"$TMP/routes" &
	wait_for 10 asked_as "$CLIENT" client "[$FAR]:8000"
	lab agent kill node1
	lab agent start node1
	second_uplink
	expect_eq "accept_ra with two uplinks" 2 "$(accept_ra)"
	wait_for 10 asked_as "$CLIENT" client "[$FAR]:8000"
	lab agent stop node1
	lab rm client
	on node1 "$MK_BIN" cleanup
	expect_eq "accept_ra after cleanup" 1 "$(accept_ra)"
	expect_match "default route after cleanup" 'proto ra' "$(on node1 ip -6 route show default)"
	kill %% # ip monitor
	expect_match "recorded routes" 'fd00:98::' "$(cat "$TMP/routes")"
	expect_eq "default routes that were removed" "" "$(grep '^Deleted default' "$TMP/routes" || true)"
}

routed_lab_up
check "a pod keeps its address outside" asked_as "$CLIENT" client "[$FAR]:8000"
check "a host outside reaches a pod" asked_as fd00:99::200 world "[$WEB]:8000"
check "pods of two nodes" asked_as "$CLIENT" client "[$WEB]:8000"
check "another node's own address sees this node's" asked_as "$NODE1" client "[$NODE2]:8000"
check "ping from outside" on world ping -c 1 -W 2 "$CLIENT"
check "fragments from outside" on world ping -c 1 -W 2 -s 4000 "$CLIENT"
check "no forged source and no message of the link reaches a pod from outside" not_to_pods
check "an advertised default route stays: agent's start, a second uplink, cleanup" default_route_stays
finish
