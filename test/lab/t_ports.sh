#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_ports.sh - ports of function pods: what a function gets and sends by them, in all
# modes, with functions that are Linux's own; restarts, repairs, a reboot's leftovers. No chain exists,
# so the datapath counts and drops what leaves a function.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

PORTS=networking.monokube.io/function-ports
END_ADDRESS=networking.monokube.io/function-address END_ROUTES=networking.monokube.io/function-routes
MODE_PREFIX=06:4d

# host_end POD SIDE: the device of a port on node1
host_end() { on node1 ip -j link show type veth | jq -er --arg alias "default/$1@$2" '.[] | select(.ifalias == $alias).ifname'; }
mac() { on node1 cat "/sys/class/net/$1/address"; }

FROM=$(by_family 192.0.2.1 2001:db8:1::1)
TO=$(by_family 203.0.113.7 2001:db8:2::7)
IP=$(by_family ip ip6)

# frame DEVICE DESTINATION: a datagram leaves node1 by DEVICE, into the function
frame() { on node1 "$HERE/datagram.py" "$1" "$2" "$FROM" "$TO"; }

dropped() { on node1 "$MK_BIN" drops -o json | jq '[.[] | select(.reason == "SFC_NO_CHAIN" and .hook == "function").packets] | add // 0'; }
dropped_since() { (($(dropped) >= $1 + $2)); }

# through POD: a frame into each port comes out at the other one, where node1 drops it
through()
{
	local before to side
	for side in inside outside; do
		before=$(dropped)
		to=${2:-02:4d:0a:00:00:02}
		[[ $to != own ]] || to=$(on "$1" cat "/sys/class/net/$side/address")
		frame "$(host_end "$1" "$side")" "$to"
		wait_for 5 dropped_since "$before" 1 || {
			echo "$1: a frame into $side did not come out"
			return 1
		}
	done
}

bridged()
{
	lab pod node1 bridged --annotation $PORTS=Bridged >/dev/null
	on bridged nft -f - <<<"table bridge fw {
		counter seen { }
		chain forward { type filter hook forward priority 0; $IP daddr $TO udp dport 53 counter name seen; }
	}"
	through bridged
	expect_eq "frames that nftables saw" 2 "$(on bridged nft -j list counter bridge fw seen | jq '.nftables[] | select(.counter).counter.packets')"
	on bridged nft add rule bridge fw forward drop
	local before
	before=$(dropped)
	frame "$(host_end bridged inside)" 02:4d:0a:00:00:02
	wait_for 5 nft_saw 3
	expect_eq "frames after a drop" "$before" "$(dropped)"
	on bridged nft flush chain bridge fw forward
}
nft_saw() { [[ $(on bridged nft -j list counter bridge fw seen | jq '.nftables[] | select(.counter).counter.packets') == "$1" ]]; }

# A program moves frames, by AF_PACKET as Suricata does.
inline()
{
	lab pod node1 inline --annotation $PORTS=Inline --annotation networking.monokube.io/function-interfaces=lan0,wan0 >/dev/null
	expect_match "MTU" "mtu $(on node1 jq -r '.plugins[0].mtu' /etc/cni/net.d/10-monokube.conflist) " "$(on inline ip link show lan0)"
	on inline "$HERE/mover.py" lan0 wan0 >"$TMP/moves" 2>&1 &
	wait_for 10 grep running "$TMP/moves"
	local before
	before=$(dropped)
	frame "$(host_end inline lan0)" 02:4d:0a:00:00:02
	frame "$(host_end inline wan0)" 02:4d:0a:00:00:02
	wait_for 5 dropped_since "$before" 2
}

routed()
{
	lab pod node1 routed --annotation $PORTS=Routed >/dev/null
	on routed nft -f - <<<"table $IP fw {
		counter seen { }
		chain forward { type filter hook forward priority 0; $IP daddr $TO udp dport 53 counter name seen; }
	}"
	through routed own
	expect_eq "packets that nftables saw" 2 "$(on routed nft -j list counter "$IP" fw seen | jq '.nftables[] | select(.counter).counter.packets')"
	# its own connections use its own interface
	serve server server --udp 5300
	ask routed udp "$(with_port "$SERVER" 5300)" >/dev/null
}

# One port, into which node1 sends. What the pod sends is dropped.
tap()
{
	local before said
	lab pod node1 tap --annotation $PORTS=Tap >/dev/null
	expect_eq "ports" inside "$(on tap ls /sys/class/net | grep -vxE 'lo|eth0')"
	expect_eq "addresses" "" "$(on tap ip -o addr show inside)"
	on tap timeout 30 tcpdump -i inside -lnc 1 udp port 53 >"$TMP/copies" 2>"$TMP/tcpdump" &
	wait_for 10 grep -q listening "$TMP/tcpdump"
	frame "$(host_end tap inside)" 02:4d:0a:00:00:02
	wait_for 5 grep -qF "$TO.53" "$TMP/copies"
	before=$(dropped)
	on tap "$HERE/datagram.py" inside 02:4d:0a:00:00:02 "$FROM" "$TO"
	wait_for 5 dropped_since "$before" 1
	said=$(lab pod node1 wrong --annotation $PORTS=Tap --annotation networking.monokube.io/function-interfaces=a,b 2>&1) && return 1
	expect_match "error" "function-interfaces is 'a,b': expected for mode Tap one name" "$said"
	lab rm tap
	expect_eq "ports of a removed tap" 0 "$(on node1 ip -o link show type veth | grep -c 'tap@' || true)"
}

# One port with an address. A datagram into it reaches the pod's server, whose answer leaves by it: node1
# counts and drops that. All other traffic uses the pod's own interface.
end()
{
	local before said
	lab pod node1 end --annotation $PORTS=End --annotation "$END_ADDRESS=$TO/$(by_family 24 64)" \
		--annotation "$END_ROUTES=$(by_family 192.0.2.0/24 2001:db8:1::/64)" >/dev/null
	expect_eq "ports" end "$(on end ls /sys/class/net | grep -vxE 'lo|eth0')"
	expect_eq "addresses" "$TO" "$(on end ip -j addr show end | jq -r '.[].addr_info[].local')"
	expect_match "MTU" "mtu $(on node1 jq -r '.plugins[0].mtu' /etc/cni/net.d/10-monokube.conflist) " "$(on end ip link show end)"
	serve end end --udp 53
	before=$(dropped)
	frame "$(host_end end end)" "$(on end cat /sys/class/net/end/address)"
	wait_for 5 dropped_since "$before" 1
	expect_eq "neighbours" PERMANENT "$(on end ip -j neigh show dev end | jq -r '.[].state[]')"
	before=$(dropped)
	expect_eq "by the port" timeout "$(ask end udp "$(with_port "$FROM" 53)" --timeout 0.5 || true)"
	dropped_since "$before" 1
	ask end udp "$(with_port "$SERVER" 5300)" >/dev/null
	said=$(lab pod node1 wrong --annotation $PORTS=End --annotation "$END_ADDRESS=$TO/$(by_family 24 64)" \
		--annotation "$END_ROUTES=$(by_family 0.0.0.0/0 ::/0)" 2>&1) && return 1
	expect_match "error" "the pod has a route to $(by_family 0.0.0.0/0 ::/0) by its interface 'eth0' already" "$said"
	lab rm end
	expect_eq "ports of a removed end" 0 "$(on node1 ip -o link show type veth | grep -c 'end@' || true)"
}

no_agent()
{
	lab agent kill node1
	lab pod node1 alone --annotation $PORTS=Bridged >/dev/null
	through alone
	through bridged
	lab agent start node1
	through alone
	lab rm alone
	expect_eq "ports of a removed pod" 0 "$(on node1 ip -o link show type veth | grep -c 'alone@' || true)"
}

program_is_back()
{
	local device start
	device=$(host_end bridged outside)
	start=$(log_size)
	on node1 tc filter del dev "$device" ingress
	wait_for 10 logged "$start" "program was missing .*sfc_port.* device=$device"
	start=$(log_size)
	on node1 tc qdisc del dev "$device" clsact
	wait_for 10 logged "$start" "program was missing .*sfc_port.* device=$device"
}
log_size() { wc -l <"/run/mklab-$MK_LAB/nodes/node1/agent.log"; }
logged() { tail -n "+$(($1 + 1))" "/run/mklab-$MK_LAB/nodes/node1/agent.log" | grep -E "$2" >/dev/null; }

# A function may send whatever it likes: each frame is counted as a function's, and goes nowhere.
hostile()
{
	local before
	before=$(dropped)
	on inline python3 -c '
import socket
sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sock.bind(("wan0", 0))
own, all_ones = bytes.fromhex("064d02010002"), b"\xff" * 6
for kind in (b"\x08\x06", b"\x86\xdd", b"\x81\0\0\x05\x08\0", b"\x88\xcc", b"\x08\0"):
    sock.send(all_ones + own + kind + bytes(46))'
	wait_for 5 dropped_since "$before" 5
}

wrong_annotation()
{
	local said
	said=$(lab pod node1 wrong --annotation $PORTS=Bridge 2>&1) && return 1
	expect_match "error" "function-ports is 'Bridge': expected Bridged, Inline, Routed, Tap or End" "$said"
	expect_eq "ports" 6 "$(on node1 ip -o link show type veth | grep -ci "$MODE_PREFIX:0[123]:0[01]:00:01")"
}

# The pods' namespaces are gone, as after a reboot, and so are the ports. The next pod gets its own.
leftovers()
{
	lab rm bridged
	lab rm inline
	lab rm routed
	expect_eq "ports" "" "$(on node1 ip -o link show type veth | grep "$MODE_PREFIX:0[123]:0[01]:00:01" || true)"
	lab pod node1 bridged --annotation $PORTS=Bridged >/dev/null
	through bridged
}

lab up 1
SERVER=$(lab pod node1 server)
check "Bridged: nftables' family bridge sees and drops frames" bridged
check "Inline: a program moves frames between ports with own names" inline
check "Routed: the pod's kernel forwards; nftables sees packets; own connections use eth0" routed
check "Tap: one port for copies" tap
check "End: one port with an address and routes; own connections use eth0" end
check "no agent: ports are made, work and are removed" no_agent
check "a program that others removed from a port is back" program_is_back
check "whatever a function sends is counted and dropped" hostile
check "a wrong annotation is an error, and leaves nothing" wrong_annotation
check "removed pods leave no port" leftovers
finish
