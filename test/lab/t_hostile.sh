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
GATEWAY1=$(by_family 10.244.1.254 fd00:10:244:1::3fe)
VPOD1=10.244.1.1
VPOD2=10.244.2.1
ALL=$(by_family 255.255.255.255 ff02::1)
GROUP=$(by_family 224.0.0.1 ff0e::101)
# Addresses that belong to no host: loopback, none, link-local, groups, IPv4 in IPv6
NOBODY=$(by_family "0.0.0.0 127.0.0.1" ":: ::1 fe80::1 ff02::1 ::ffff:af4:103 ::af4:103")
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

# nothing_comes COMMAND...: what it sends arrives nowhere. Valid datagrams are sent after the forged
# ones: when they arrive, the forged ones were dropped.
nothing_comes()
{
	local where
	local -A before=()
	for where in near far node1 node2; do
		before[$where]=$(seen "$where")
	done
	"$@"
	for where in near far node1 node2; do
		ask friend udp "$(address_of "$where"):5353"
		expect_eq "datagrams that $where saw, the friend's last" $((before[$where] + 1)) "$(seen "$where")"
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

# dropped NODE REASON FORGE_ARGUMENTS...: NODE counts it. (IPv6 packets of the pods' kernels are
# counted together with ARP.)
dropped()
{
	local node=$1 reason=$2 count
	shift 2
	count=$(drop_count "$node" "$reason")
	forge "$@"
	wait_for 5 counted "$node" "$reason" $((count + 1))
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
	for source in "${ADDR[friend]}" "${ADDR[far]}" "$GATEWAY1" "$VPOD1" "$VTEP1" "$NODE1" 203.0.113.10 $NOBODY; do
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
	dropped node1 NOT_UNICAST "$ALL" 68 --sport 67 --dest-mac "$BROADCAST_MAC"
	dropped node1 SPOOFED_ADDRESS "$ALL" 68 --sport 67 --source "$GATEWAY1" --dest-mac "$BROADCAST_MAC"
	dropped node1 SPOOFED_ADDRESS "${ADDR[near]}" 68 --sport 67 --source "$GATEWAY1"
}

not_unicast()
{
	local dest
	dropped node1 NOT_UNICAST "$GROUP" 5353 --dest-mac 01:00:5e:00:00:01
	dropped node1 NOT_UNICAST "$ALL" 5353 --dest-mac "$BROADCAST_MAC"
	for dest in $NOBODY; do
		dropped node1 NOT_UNICAST "$dest" 5353
	done
}

# The kernel refuses it after the redirect, so no monokube counter counts it.
underlay_broadcast() { forge "$UNDERLAY_BROADCAST" 5353; }

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
octets() { python3 -c 'import ipaddress, sys; print(ipaddress.ip_address(sys.argv[1]).packed.hex())' "$1"; }

# Of IPv6: type 0, mobile IPv6, segment routing; to a Service, behind other headers, in a fragment
routing_header()
{
	local type route
	for type in 00 02 04; do
		route=43/02${type}0100000000$(octets "${ADDR[far]}")
		dropped node1 SOURCE_ROUTE "${ADDR[near]}" 5353 --headers "$route"
		dropped node1 SOURCE_ROUTE "$NODE1" 5353 --headers "$HOP_OPTIONS,$route"
		dropped node1 SOURCE_ROUTE "$NODE2" 5353 --headers "$OPTIONS,$route"
		dropped node1 SOURCE_ROUTE "$VIP" 5353 --headers "$route"
		dropped node1 SOURCE_ROUTE "${ADDR[near]}" 5353 --headers "44/00000000000007,$route"
	done
}

source_route()
{
	local option
	[[ $FAMILY == 4 ]] || { routing_header; return; }
	for option in 83 89; do # loose, strict; one address, the end
		dropped node1 SOURCE_ROUTE "${ADDR[near]}" 5353 --options "${option}0704$(octets "${ADDR[far]}")00"
		dropped node1 SOURCE_ROUTE "$NODE1" 5353 --options "01${option}0704$(octets "${ADDR[near]}")"
		dropped node1 SOURCE_ROUTE "$NODE2" 5353 --options "${option}0704$(octets "${ADDR[far]}")00"
	done
}

overlaps() { on "$1" nstat -asz "$(by_family IpExtReasmOverlaps Ip6ReasmFails)" | awk '/Reasm/ { print $2 }'; }
overlapping_fragments()
{
	local where before
	for where in near far node1; do
		before=$(overlaps "$where")
		forge "$(address_of "$where")" 5353 --kind overlap
		wait_for 5 overlapped "$where" "$before"
	done
}
overlapped() { (($(overlaps "$1") > $2)); }

# A pod's first fragment with another pod's address leaves no ports for the other pod's later
# fragments.
spoofed_fragments()
{
	local before
	before=$(fragments)
	dropped node1 SPOOFED_ADDRESS "${ADDR[near]}" 5353 --source "${ADDR[friend]}" --more-fragments --text 12345678
	expect_eq "entries of map fragments" "$before" "$(fragments)"
}
fragments() { on node1 bpftool -j map dump pinned "$PINS/fragments" | jq length; }

# An error ends a datagram socket's wait if the kernel accepts it.
forged_error()
{
	local count
	mkfifo "$TMP/held.in"
	on friend "$HERE/echo.py" ask udp "${ADDR[far]}:5353" --from "$(with_port "${ADDR[friend]}" 6000)" --hold --timeout 5 <"$TMP/held.in" >"$TMP/held.out" 2>&1 &
	exec {held}>"$TMP/held.in"
	wait_for 5 grep -c '^far ' "$TMP/held.out"
	count=$(drop_count node1 FORGED_ERROR)
	forge "${ADDR[friend]}" 5353 --kind error --inner-source "${ADDR[friend]}" --inner-port 6000 --inner-dest "${ADDR[far]}"
	wait_for 5 counted node1 FORGED_ERROR $((count + 1))
	echo >&"$held"
	wait_for 5 held_answers 2
}
# A pod pings another node, masqueraded, and calls the answer too big. Linux keeps one MTU for all
# packets to a host, so that node's overlay packets to this one would be smaller, too.
too_big_for_pod()
{
	local count source dest answer error
	source=$(octets "$NODE2") dest=$(octets "${ADDR[mallory]}")
	answer=$(by_family "450000200001000040010000$source${dest}00000000" "6000000000083a40$source${dest}81000000")12340001
	error=$(by_family 030400000240 020000000500)
	count=$(drop_count node2 FORGED_ERROR)
	forge "$NODE2" 0 --kind icmp --message "$(by_family 0800 8000)12340001$(printf '0%.0s' {1..16})"
	forge "$NODE2" 0 --kind icmp --message "$error$answer"
	wait_for 5 counted node2 FORGED_ERROR $((count + 1))
	expect_eq "MTU of node2's way to node1" "" "$(on node2 ip route get "$NODE1" | grep -o 'mtu [0-9]*' || true)"
}

# The device writes the checksum after the programs have allowed the packet: over an address, a port or
# a type. Node1's device here has no checksum offload, so its kernel would write it on the way to node2.
IP_BYTES=$(by_family 20 40)
checksum_over()
{
	local where place source dest
	source=$(by_family "6,6 10,4 12,0" "8,0 20,2 8,30")
	dest=$(by_family "12,4 18,0" "24,0 38,0")
	on node1 ethtool -K eth0 tx off >/dev/null
	for where in near far node1 node2; do
		for place in $source $dest "$IP_BYTES,0" "$IP_BYTES,2" "$IP_BYTES,4" "10,$((IP_BYTES - 8))"; do
			dropped node1 CHECKSUM_PLACE "$(address_of "$where")" 5353 --checksum-at "$place"
		done
		dropped node1 CHECKSUM_PLACE "$(address_of "$where")" 5353 --kind tcp --checksum-at "$IP_BYTES,2"
		dropped node1 CHECKSUM_PLACE "$(address_of "$where")" 0 --kind icmp --message 010300000000000000000000 --checksum-at "$IP_BYTES,8"
	done
	on node1 ethtool -K eth0 tx on >/dev/null
}
# A pod may leave the checksum of layer 4 to the device, or that of a packet inside a tunnel.
checksum_in_place()
{
	local where
	for where in near far node1; do
		came "$where" --checksum-at "$IP_BYTES,6" --text "as a virtual machine does"
		came "$where" --checksum-at "$((IP_BYTES + 8)),6" --text "a packet in a tunnel"
	done
}
held_answers() { expect_eq "answers on the held socket" "$1" "$(grep -c '^far ' "$TMP/held.out")"; }

# ---- IPv6 alone: extension headers, neighbour discovery

HOP_OPTIONS=0/00010400000000 # padding
OPTIONS=60/00010400000000
FIVE_OPTIONS=$OPTIONS,$OPTIONS,$OPTIONS,$OPTIONS,$OPTIONS
LONG_OPTIONS=60/1a$(printf '0%.0s' {1..428}) # layer 4 begins behind byte 255

came()
{
	local before
	before=$(seen "$1")
	forge "$(address_of "$1")" 5353 "${@:2}"
	wait_for 5 has_come "$1" "$before"
}
has_come() { (($(seen "$1") > $2)); }

# A pod may send what a host must be able to read.
walked_headers()
{
	local where
	for where in near far node1; do
		came "$where" --headers "$HOP_OPTIONS"
		came "$where" --headers "$OPTIONS,$OPTIONS,$OPTIONS,$OPTIONS"
		came "$where" --headers 43/00000000000000
		came "$where" --headers 44/00000000000007
	done
}

bad_headers()
{
	local where
	for where in near far node1 node2; do
		dropped node1 EXTENSION_HEADER "$(address_of "$where")" 5353 --headers "$FIVE_OPTIONS"
		dropped node1 EXTENSION_HEADER "$(address_of "$where")" 5353 --headers "$LONG_OPTIONS"
		dropped node1 BAD_HEADER "$(address_of "$where")" 5353 --headers "$OPTIONS,$HOP_OPTIONS"
	done
	dropped node1 OVERLAY_FORGED "$NODE2" 4789 --headers "$HOP_OPTIONS,$OPTIONS"
	dropped node1 EXTENSION_HEADER "$NODE2" 4789 --headers "$FIVE_OPTIONS"
	dropped node1 TRUNCATED "${ADDR[near]}" 5353 --headers 44/00000100000007,60/01
	dropped node1 PROTOCOL "$FAR" 5353 --headers 253/00000000000000
}

# discovery_of WHERE: what neighbour discovery may change there. Nodes also have entries of the
# underlay, which come and go; none may have mallory's link-layer address.
discovery_of()
{
	on "$1" sh -c 'ip -6 route show; ip -6 -o addr show; ip -6 neigh show' | sed 's/[0-9]*sec//g' |
		if [[ $1 == node* ]]; then grep -vE 'dev eth0 (lladdr (..:){5}..)?.*(REACHABLE|STALE|DELAY|PROBE|FAILED|INCOMPLETE)' | cat; else cat; fi
	on "$1" ip -6 neigh show | grep -ci "$MALLORY_LINK" || true
}

# received WHERE: the messages that only a pod of this lab sends
received() { on "$1" nstat -asz Icmp6InRouterAdvertisements Icmp6InRedirects Icmp6InNeighborAdvertisements Icmp6InNeighborSolicits; }

# Messages as RFC 4861 and RFC 3810 have them, without checksums
MALLORY_LINK=02:00:00:00:00:66
LINK=0101020000000066 # an option: its link-layer address
discovery_messages()
{
	local near gateway group
	near=$(octets "${ADDR[near]}")
	gateway=$(octets "$GATEWAY1")
	group=$(octets "$GROUP")
	echo -n "8600400007080000000000000000$LINK" # router advertisement: a default router
	echo -n ",8600400007080000000000000000030440c0ffffffffffffffff00000000$(octets 2001:db8:0:1::)" # .. of a prefix
	echo -n ",8800a0000000$gateway$LINK"     # neighbour advertisement: the gateway
	echo -n ",8800a0000000$near$LINK"        # .. another pod
	echo -n ",890000000000$gateway$near$LINK" # redirect
	echo -n ",870000000000$near$LINK"        # solicitation of another pod
	echo -n ",850000000000$LINK"             # router solicitation
	echo -n ",8f000000000104000000$group"    # listener report
	echo ",820000000000$group"               # listener query
}

# To pods, nodes and groups, also behind options and in an atomic fragment (RFC 6980)
forged_discovery()
{
	local where dest headers messages count
	local -A before=() heard=()
	for where in near friend far node1 node2; do
		before[$where]=$(discovery_of "$where")
		[[ $where == node* ]] || heard[$where]=$(received "$where")
	done
	messages=$(discovery_messages)
	count=$(drop_count node1 NEIGHBOUR_DISCOVERY)
	for dest in "${ADDR[near]}" "${ADDR[far]}" "$NODE1" "$NODE2" "$GATEWAY1" "$VIP" ff02::1; do
		for headers in "" "$HOP_OPTIONS" 44/00000000000007; do
			forge "$dest" 0 --kind icmp --ttl 255 --message "$messages" --headers "$headers"
			count=$((count + 9))
		done
	done
	wait_for 5 counted node1 NEIGHBOUR_DISCOVERY "$count"
	for where in near friend far node1 node2; do
		expect_eq "neighbours, routes and addresses of $where" "${before[$where]}" "$(discovery_of "$where")"
		[[ $where == node* ]] || expect_eq "messages that $where received" "${heard[$where]}" "$(received "$where")"
	done
}

# Duplicate address detection, and a flood of solicitations: no pod hears them.
solicitation_flood()
{
	local count message before
	before=$(received near)
	count=$(drop_count node1 NEIGHBOUR_DISCOVERY)
	message=870000000000$(octets "${ADDR[near]}")
	forge "ff02::1:ff00:2" 0 --kind icmp --ttl 255 --source :: --message "$message" --count 1000
	forge "ff02::1:ff00:2" 0 --kind icmp --ttl 255 --message "$message$LINK" --count 1000
	wait_for 5 counted node1 NEIGHBOUR_DISCOVERY $((count + 2000))
	expect_eq "messages that near received" "$before" "$(received near)"
	ask friend udp "${ADDR[near]}:5353"
}

hostile_up
ipv4_only "IPv6 has no ARP" check "spoofed ARP" nothing_comes spoofed_arp
check "source addresses that are not the pod's" nothing_comes spoofed_address
check "source MACs that are not the pod's" nothing_comes spoofed_mac
check "DHCP offers" nothing_comes dhcp_offer
check "multicast, broadcast, loopback" nothing_comes not_unicast
ipv4_only "IPv6 has no broadcast" check "broadcast of the nodes' network" nothing_comes underlay_broadcast
check "VXLAN to the overlay's port of nodes" nothing_comes overlay_forged
check "checksums written over headers" nothing_comes checksum_over
check "checksums of layer 4, or behind it, pass" checksum_in_place
check "virtual pod addresses" nothing_comes virtual_pod_address
check "overlay addresses" overlay_address
check "IP source routes" nothing_comes source_route
check "overlapping fragments" nothing_comes overlapping_fragments
check "a first fragment with another pod's address" nothing_comes spoofed_fragments
check "forged ICMP errors" forged_error
check "an error about an answer of another node makes no overlay packet smaller" too_big_for_pod
if [[ $FAMILY == 6 ]]; then
	check "extension headers that hosts read pass" walked_headers
	check "too many, too long, wrong or hiding extension headers" nothing_comes bad_headers
	check "neighbour discovery changes no other neighbour table, route or address" forged_discovery
	check "floods of solicitations and of duplicate address detection" solicitation_flood
fi
finish
