#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_hostile.sh - a pod with raw sockets tries to get other pods' traffic: its packets
# arrive nowhere, change nothing, and are counted.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

UNDERLAY_BROADCAST=192.168.99.255
VTEP1=10.18.0.1
VTEP2=10.18.0.2
GATEWAY1=10.244.1.254
VPOD1=10.244.1.1
VPOD2=10.244.2.1
BROADCAST_MAC=ff:ff:ff:ff:ff:ff
declare -A ADDR=()

explain() { for node in node1 node2; do echo "drops of $node:"; on "$node" "$MK_BIN" drops || true; done; }

# A server that writes a line for every datagram from any sender.
watchful()
{
	on "$1" "$HERE/echo.py" serve --name "$1" --log --udp 5353 --udp 68 >"$TMP/seen.$1" 2>&1 </dev/null &
	wait_for 10 grep -q serving "$TMP/seen.$1"
}

hostile_up()
{
	local pod
	lab up 2
	for pod in mallory near friend; do
		ADDR[$pod]=$(lab pod node1 "$pod")
	done
	ADDR[far]=$(lab pod node2 far)
	for pod in near far friend node1 node2; do
		watchful "$pod"
	done
	wait_for 10 ask friend udp "${ADDR[far]}:5353"
}

forge() { on mallory "$HERE/forge.py" "$@"; }
seen() { grep -c '^udp ' "$TMP/seen.$1" || true; }

# Valid datagrams are sent after the forged ones: when they arrive, the forged ones were dropped.
nothing_came()
{
	local where before
	for where in near far node1 node2; do
		before=${SEEN[$where]}
		ask friend udp "$(address_of "$where"):5353"
		expect_eq "datagrams that $where saw, the friend's last" $((before + 1)) "$(seen "$where")"
	done
}

address_of()
{
	case $1 in
	node1) echo "$NODE1" ;;
	node2) echo "$NODE2" ;;
	*) echo "${ADDR[$1]}" ;;
	esac
}

# dropped NODE REASON FORGE_ARGUMENTS...: NODE counts it, and it arrives nowhere. (IPv6 packets of
# the pods' kernels are counted together with ARP.)
dropped()
{
	local node=$1 reason=$2 where count
	local -A SEEN=()
	shift 2
	for where in near far node1 node2; do
		SEEN[$where]=$(seen "$where")
	done
	count=$(drop_count "$node" "$reason")
	forge "$@"
	wait_for 5 counted "$node" "$reason" $((count + 1))
	nothing_came
}
counted() { (($(drop_count "$1" "$2") >= $3)) || expect_eq "drops of $1 for $2" "$3 or more" "$(drop_count "$1" "$2")"; }

spoofed_arp()
{
	local before
	before=$(on near ip neigh show dev eth0)
	dropped node1 NOT_IPV4 "${ADDR[near]}" 0 --kind arp --source 169.254.1.1 --dest-mac "$BROADCAST_MAC"
	dropped node1 NOT_IPV4 "${ADDR[near]}" 0 --kind arp --source "${ADDR[friend]}" --dest-mac "$BROADCAST_MAC"
	dropped node1 NOT_IPV4 "${ADDR[near]}" 0 --kind arp --source "$GATEWAY1"
	expect_eq "neighbours of the other pod" "$before" "$(on near ip neigh show dev eth0)"
}

spoofed_address()
{
	local source
	for source in "${ADDR[friend]}" "${ADDR[far]}" "$GATEWAY1" "$VPOD1" "$VTEP1" "$NODE1" 203.0.113.10 0.0.0.0 127.0.0.1; do
		dropped node1 SPOOFED_ADDRESS "${ADDR[near]}" 5353 --source "$source"
	done
	dropped node1 SPOOFED_ADDRESS "${ADDR[far]}" 5353 --source "${ADDR[friend]}"
	dropped node1 SPOOFED_ADDRESS "$NODE2" 5353 --source "${ADDR[friend]}"
}

spoofed_mac()
{
	dropped node1 SPOOFED_MAC "${ADDR[near]}" 5353 --source-mac "$(on friend cat /sys/class/net/eth0/address)"
	dropped node1 SPOOFED_MAC "${ADDR[far]}" 5353 --source-mac 02:00:00:00:00:01
}

dhcp_offer()
{
	dropped node1 NOT_UNICAST 255.255.255.255 68 --sport 67 --dest-mac "$BROADCAST_MAC"
	dropped node1 SPOOFED_ADDRESS 255.255.255.255 68 --sport 67 --source "$GATEWAY1" --dest-mac "$BROADCAST_MAC"
	dropped node1 SPOOFED_ADDRESS "${ADDR[near]}" 68 --sport 67 --source "$GATEWAY1"
}

not_unicast()
{
	dropped node1 NOT_UNICAST 224.0.0.1 5353 --dest-mac 01:00:5e:00:00:01
	dropped node1 NOT_UNICAST 255.255.255.255 5353 --dest-mac "$BROADCAST_MAC"
	dropped node1 NOT_UNICAST 127.0.0.1 5353
	dropped node1 NOT_UNICAST 0.0.0.0 5353
}

# The kernel refuses it after the redirect, so no monokube counter counts it.
underlay_broadcast()
{
	local where
	local -A SEEN=()
	for where in near far node1 node2; do
		SEEN[$where]=$(seen "$where")
	done
	forge "$UNDERLAY_BROADCAST" 5353
	nothing_came
}

# Frames from one pod to two others, decapsulated by a node.
overlay_forged()
{
	local inner
	for inner in near far; do
		for carrier in "$NODE1 node1" "$NODE2 node1" "$VTEP1 node1" "$VTEP2 node2" "$GATEWAY1 node1"; do
			dropped "${carrier#* }" OVERLAY_FORGED "${carrier% *}" 4789 --kind vxlan --inner-mac "$(vxlan_mac "$inner")" \
				--inner-source "${ADDR[friend]}" --inner-dest "${ADDR[$inner]}" --inner-port 5353
		done
	done
}
vxlan_mac()
{
	local node=node1
	[[ $1 != far ]] || node=node2
	on "$node" cat /sys/class/net/mkvxlan/address
}

virtual_pod_address()
{
	dropped node1 NO_POD "$VPOD1" 5353
	dropped node2 NO_POD "$VPOD2" 5353
}

# An overlay address belongs to its host, which answers as at its other addresses. An unassigned one
# is unreachable.
overlay_address()
{
	dropped node1 NO_ROUTE 10.18.0.77 5353
	expect_match "the host at its overlay address" "^node1 ${ADDR[mallory]} " "$(ask mallory udp "$VTEP1:5353" || true)"
	expect_match "another host at its overlay address" "^node2 ${ADDR[mallory]} " "$(ask mallory udp "$VTEP2:5353" || true)"
}

# octets ADDRESS: in hexadecimal
octets()
{
	local a b c d
	IFS=. read -r a b c d <<<"$1"
	printf '%02x%02x%02x%02x' "$a" "$b" "$c" "$d"
}

source_route()
{
	local option
	for option in 83 89; do # loose, strict; one address, the end
		dropped node1 SOURCE_ROUTE "${ADDR[near]}" 5353 --options "${option}0704$(octets "${ADDR[far]}")00"
		dropped node1 SOURCE_ROUTE "$NODE1" 5353 --options "01${option}0704$(octets "${ADDR[near]}")"
		dropped node1 SOURCE_ROUTE "$NODE2" 5353 --options "${option}0704$(octets "${ADDR[far]}")00"
	done
}

overlaps() { on "$1" nstat -asz IpExtReasmOverlaps | awk '/ReasmOverlaps/ { print $2 }'; }
overlapping_fragments()
{
	local where before
	local -A SEEN=()
	for where in near far node1 node2; do
		SEEN[$where]=$(seen "$where")
	done
	for where in near far node1; do
		before=$(overlaps "$where")
		forge "$(address_of "$where")" 5353 --kind overlap
		wait_for 5 overlapped "$where" "$before"
	done
	nothing_came
}
overlapped() { (($(overlaps "$1") > $2)); }

# A pod's first fragment with another pod's address leaves no ports for the other pod's later
# fragments.
spoofed_fragments()
{
	local before
	before=$(fragments)
	dropped node1 SPOOFED_ADDRESS "${ADDR[near]}" 5353 --source "${ADDR[friend]}" --more-fragments
	expect_eq "entries of map fragments" "$before" "$(fragments)"
}
fragments() { on node1 bpftool -j map dump pinned "$PINS/fragments" | jq length; }

# An error ends a datagram socket's wait if the kernel accepts it.
forged_error()
{
	local count
	mkfifo "$TMP/held.in"
	on friend "$HERE/echo.py" ask udp "${ADDR[far]}:5353" --from "${ADDR[friend]}:6000" --hold --timeout 5 <"$TMP/held.in" >"$TMP/held.out" 2>&1 &
	exec {held}>"$TMP/held.in"
	wait_for 5 grep -c '^far ' "$TMP/held.out"
	count=$(drop_count node1 FORGED_ERROR)
	forge "${ADDR[friend]}" 5353 --kind error --inner-source "${ADDR[friend]}" --inner-port 6000 --inner-dest "${ADDR[far]}"
	wait_for 5 counted node1 FORGED_ERROR $((count + 1))
	echo >&"$held"
	wait_for 5 held_answers 2
}
held_answers() { expect_eq "answers on the held socket" "$1" "$(grep -c '^far ' "$TMP/held.out")"; }

hostile_up
check "spoofed ARP" spoofed_arp
check "source addresses that are not the pod's" spoofed_address
check "source MACs that are not the pod's" spoofed_mac
check "DHCP offers" dhcp_offer
check "multicast, broadcast, loopback" not_unicast
check "broadcast of the nodes' network" underlay_broadcast
check "VXLAN to the overlay's port of nodes" overlay_forged
check "virtual pod addresses" virtual_pod_address
check "overlay addresses" overlay_address
check "IP source routes" source_route
check "overlapping fragments" overlapping_fragments
check "a first fragment with another pod's address" spoofed_fragments
check "forged ICMP errors" forged_error
finish
