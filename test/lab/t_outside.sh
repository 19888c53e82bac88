#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_outside.sh - attacks from the networks around a node: frames for other machines, forged
# sources, VXLAN from strangers, floods that cause errors, packets that loop.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

EXTERNAL=198.51.100.7
NODE_PORT=30053
SIDE=10.50.0.1	# node1's address on a network without uplink
GATEWAY1=$(by_family 10.244.1.254 fd00:10:244:1::3fe)
NOBODY=$(by_family "127.0.0.1 0.0.0.0 224.0.0.1 255.255.255.255" "::1 :: ff02::1 ff0e::101 ::ffff:af4:103 ::af4:103")
OPTIONS=60/00010400000000 # padding, in a header of IPv6's destination options
declare -A ADDR=()

explain() { for node in node1 node2; do echo "drops of $node:"; on "$node" "$MK_BIN" drops || true; done; }

service()
{
	service_yaml outside outside 10.96.86.1 \
		"{name: udp, port: 5353, targetPort: 5353, nodePort: $NODE_PORT, protocol: UDP},
		{name: tcp, port: 8080, targetPort: 8080, nodePort: $((NODE_PORT + 1)), protocol: TCP}" "externalIPs: [$EXTERNAL]"
}

# watchful POD: a server that writes a line for every datagram
watchful()
{
	on "$1" "$HERE/echo.py" serve --name "$1" --log --udp 5353 >"$TMP/seen.$1" 2>&1 </dev/null &
	wait_for 10 grep -q serving "$TMP/seen.$1"
}

# A network of world's on which node1 has a device without programs.
side_network()
{
	local where
	ip link add side0 netns "$MK_LAB.node1" type veth peer name side0 netns "$MK_LAB.world"
	for where in node1 world; do
		on "$where" sh -c "echo $(by_family 1 0) >/proc/sys/net/ipv6/conf/side0/disable_ipv6"
		ip -n "$MK_LAB.$where" link set side0 up
	done
	ip -n "$MK_LAB.node1" addr add "$SIDE/24" dev side0 $NODAD
	ip -n "$MK_LAB.world" addr add 10.50.0.2/24 dev side0 $NODAD
}

outside_up()
{
	lab up 2
	ADDR[near]=$(lab pod node1 near --label app=outside)
	ADDR[friend]=$(lab pod node1 friend)
	ADDR[far]=$(lab pod node2 far)
	for pod in near friend far; do
		watchful "$pod"
	done
	side_network
	service | apply service
	wait_for 10 ask world udp "$NODE1:$NODE_PORT"
	wait_for 10 ask friend udp "${ADDR[far]}:5353"
}

mac_of() { on "$1" cat "/sys/class/net/$2/address"; }
forge() { on world "$HERE/forge.py" "$@"; }
seen() { grep -c '^udp ' "$TMP/seen.$1" || true; }
counted() { (($(drop_count "$1" "$2") >= $3)) || expect_eq "drops of $1 for $2" "$3 or more" "$(drop_count "$1" "$2")"; }

# nothing_new POD BEFORE: only a valid datagram, sent after the forged one, arrives
nothing_new()
{
	ask friend udp "${ADDR[$1]}:5353"
	expect_eq "datagrams that $1 saw, the friend's last" $(($2 + 1)) "$(seen "$1")"
}

# ---- frames for other machines -------------------------------------------------------------------

# nodes_with_session SOURCE_PORT: nodes with a session of world from that port
nodes_with_session()
{
	local node
	for node in node1 node2; do
		on "$node" "$MK_BIN" sessions ":$1" | grep -qF "$(with_port "$WORLD" "$1")" && echo "$node"
	done
	return 0
}

other_machines()
{
	local before node
	for node in node1 node2; do
		ip -n "$MK_LAB.$node" link set eth0 promisc on
	done
	before=$(seen near)
	for to in "$EXTERNAL 5353" "$NODE1 $NODE_PORT"; do
		# shellcheck disable=SC2086 # address and port
		forge $to --source "$WORLD" --sport 45555 --dest-mac 02:de:ad:00:00:01
		# shellcheck disable=SC2086
		forge $to --source "$WORLD" --sport 45555 --dest-mac ff:ff:ff:ff:ff:ff
	done
	nothing_new near "$before"
	expect_eq "nodes with a session" "" "$(nodes_with_session 45555)"
	before=$(seen near)
	forge "$EXTERNAL" 5353 --source "$WORLD" --sport 45556 --dest-mac "$(mac_of node1 eth0)"
	wait_for 5 has_come near "$before"
	expect_eq "nodes with a session of a frame that is for node1" node1 "$(nodes_with_session 45556)"
	for node in node1 node2; do
		ip -n "$MK_LAB.$node" link set eth0 promisc off
	done
}
has_come() { (($(seen "$1") > $2)); }

# ---- forged sources ------------------------------------------------------------------------------

# Those of node2 may come by the link without VXLAN (setting routing), but not from world's MAC address.
forged_sources()
{
	local source before martian forged of_node2
	before=$(seen near)
	for source in "${ADDR[friend]}" "${ADDR[far]}" "$GATEWAY1" 10.18.0.1 10.18.0.2 "$NODE1" $NOBODY; do
		martian=$(drop_count node1 MARTIAN_SOURCE)
		forged=$(drop_count node1 DIRECT_FORGED)
		of_node2=0
		[[ $source != "${ADDR[far]}" && $source != 10.18.0.2 ]] || of_node2=3
		forge "$NODE1" "$NODE_PORT" --source "$source" --dest-mac "$(mac_of node1 eth0)"
		forge "$EXTERNAL" 5353 --source "$source" --dest-mac "$(mac_of node1 eth0)"
		forge "${ADDR[near]}" 5353 --source "$source" --dest-mac "$(mac_of node1 eth0)"
		forge "$NODE1" "$NODE_PORT" --source "$source" --dest-mac ff:ff:ff:ff:ff:ff
		wait_for 5 counted node1 DIRECT_FORGED $((forged + of_node2))
		wait_for 5 counted node1 MARTIAN_SOURCE $((martian + 4 - of_node2))
	done
	nothing_new near "$before"
}

# ---- the overlay ---------------------------------------------------------------------------------

# carry INNER_SOURCE DEST [FORGE_ARGUMENTS]: an overlay packet of world's to node1
carry()
{
	forge "$NODE1" 4789 --kind vxlan --source "$WORLD" --dest-mac "$(mac_of node1 eth0)" --inner-mac "$(mac_of node1 mkvxlan)" \
		--inner-source "$1" --inner-dest "$2" --inner-port 5353 "${@:3}"
}

strangers()
{
	local before count source
	before=$(seen near)
	for source in "${ADDR[far]}" 10.18.0.2 "${ADDR[friend]}" 203.0.113.10; do
		count=$(drop_count node1 OVERLAY_STRANGER)
		carry "$source" "${ADDR[near]}"
		carry "$source" "${ADDR[near]}" --dest-mac ff:ff:ff:ff:ff:ff
		wait_for 5 counted node1 OVERLAY_STRANGER $((count + 2))
	done
	nothing_new near "$before"
	wait_for 5 ask friend udp "${ADDR[far]}:5353"
}

# IPv6: the kernel would walk more headers than the programs, and put fragments together.
hidden_strangers()
{
	local before count
	before=$(seen near)
	count=$(drop_count node1 EXTENSION_HEADER)
	carry "${ADDR[far]}" "${ADDR[near]}" --headers "$OPTIONS,$OPTIONS,$OPTIONS,$OPTIONS,$OPTIONS"
	forge "$NODE1" 22 --source "${ADDR[friend]}" --dest-mac "$(mac_of node1 eth0)" --headers "$OPTIONS,$OPTIONS,$OPTIONS,$OPTIONS,$OPTIONS"
	wait_for 5 counted node1 EXTENSION_HEADER $((count + 2))
	count=$(drop_count node1 TRUNCATED)
	carry "${ADDR[far]}" "${ADDR[near]}" --headers "44/00000100000007,60/0f"
	wait_for 5 counted node1 TRUNCATED $((count + 1))
	count=$(drop_count node1 SOURCE_ROUTE)
	carry "${ADDR[far]}" "${ADDR[near]}" --headers 43/02000100000000"$(printf '0%.0s' {1..32})"
	wait_for 5 counted node1 SOURCE_ROUTE $((count + 1))
	count=$(drop_count node1 OVERLAY_STRANGER)
	carry "${ADDR[far]}" "${ADDR[near]}" --headers "$OPTIONS,44/00000000000007,$OPTIONS"
	wait_for 5 counted node1 OVERLAY_STRANGER $((count + 1))
	nothing_new near "$before"
}

# When the agent is back it knows the nodes at once, and none is a stranger meanwhile.
strangers_after_restart()
{
	lab agent kill node1
	strangers
	lab agent start node1
	strangers
}

# node2_addresses ADDRESS...: its InternalIPs
node2_addresses()
{
	apply node-node2 <<-END
		apiVersion: v1
		kind: Node
		metadata: {name: node2}
		spec: {podCIDR: 10.244.2.0/24, podCIDRs: [10.244.2.0/24]}
		status:
		  addresses:
		$(printf '  - {type: InternalIP, address: "%s"}\n' "$@")
	END
}

# A node may have several addresses. From each it may send only its own pods' packets.
several_addresses()
{
	local before count
	node2_addresses "$NODE2" "$WORLD"
	before=$(seen near)
	wait_for 10 carried "${ADDR[far]}" "$before"
	count=$(drop_count node1 OVERLAY_STRANGER)
	carry 10.244.3.7 "${ADDR[near]}"
	wait_for 5 counted node1 OVERLAY_STRANGER $((count + 1))
	node2_addresses "$NODE2"
	wait_for 10 is_stranger
}
carried() { carry "$1" "${ADDR[near]}" && has_come near "$2"; }
is_stranger()
{
	local count
	count=$(drop_count node1 OVERLAY_STRANGER)
	carry "${ADDR[far]}" "${ADDR[near]}"
	counted node1 OVERLAY_STRANGER $((count + 1))
}

# ---- tags ----------------------------------------------------------------------------------------

# Frames with a priority and no VLAN (802.1p) are handled as untagged; those of a VLAN are not.
tagged()
{
	local before
	before=$(seen near)
	forge "$EXTERNAL" 5353 --source "$WORLD" --sport 45558 --dest-mac "$(mac_of node1 eth0)" --vlan 7
	nothing_new near "$before"
	before=$(seen near)
	forge "$EXTERNAL" 5353 --source "$WORLD" --sport 45559 --dest-mac "$(mac_of node1 eth0)" --vlan 0
	wait_for 5 has_come near "$before"
	before=$(seen near)
	forge "$NODE1" "$NODE_PORT" --source "$WORLD" --sport 45560 --dest-mac "$(mac_of node1 eth0)" --vlan 0
	wait_for 5 has_come near "$before"
}

# ---- circles -------------------------------------------------------------------------------------

forwarded() { on node1 nstat -asz "$(by_family IpForwDatagrams Ip6OutForwDatagrams)" | awk '/Forw/ { print $2 }'; }

# side_filter MODE: set rp_filter of IPv4. IPv6 has none; there, switch forwarding on.
side_filter()
{
	on node1 sh -c "$(by_family "echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter; echo $1 >/proc/sys/net/ipv4/conf/side0/rp_filter" \
		"echo 1 >/proc/sys/net/ipv6/conf/side0/forwarding")"
}

# no_circle FILTER: one datagram from pod to pod, through a device for which the host forwards
no_circle()
{
	local before count=20 i
	side_filter "$1"
	before=$(forwarded)
	for ((i = 0; i < count; i++)); do
		forge "${ADDR[near]}" 5353 --device side0 --source "${ADDR[friend]}" --sport $((20000 + $1 * 100 + i)) --dest-mac "$(mac_of node1 side0)"
	done
	ask friend udp "${ADDR[near]}:5353"
	(($(forwarded) - before <= 2 * count)) || expect_eq "packets that the host forwarded" "$((2 * count)) or fewer" "$(($(forwarded) - before))"
}

# ---- errors --------------------------------------------------------------------------------------

unreachables() { on world nstat -asz "$(by_family IcmpInDestUnreachs Icmp6InDestUnreachs)" | awk '/Unreach/ { print $2 }'; }
now_ms() { date +%s%3N; }

# A CPU of node1 sends a burst of 50 errors, then one per millisecond.
error_flood()
{
	local count=5000 sent before refused limited began
	refused=$(drop_count node1 REFUSED)
	limited=$(drop_count node1 ERROR_LIMIT)
	before=$(unreachables)
	began=$(now_ms)
	forge "$EXTERNAL" 9 --source "$WORLD" --sport 45557 --count "$count" --dest-mac "$(mac_of node1 eth0)"
	wait_for 10 all_counted $((refused + limited + count))
	sent=$(($(unreachables) - before))
	expect_eq "errors and refused packets" "$(($(drop_count node1 REFUSED) - refused))" "$sent"
	(((sent >= 50) && sent <= $(nproc) * (50 + $(now_ms) - began))) ||
		expect_eq "errors within $(($(now_ms) - began)) ms" "50 to $(($(nproc) * (50 + $(now_ms) - began)))" "$sent"
}
all_counted() { (($(drop_count node1 REFUSED) + $(drop_count node1 ERROR_LIMIT) >= $1)); }

# ---- the host's own connections ------------------------------------------------------------------

# A source port equal to a NodePort, towards a server outside
own_connection()
{
	serve world world --tcp 7777 --udp 7778
	expect_match "TCP from NodePort's number" "^world $NODE1 " "$(ask node1 tcp "$WORLD:7777" --from "$(with_port "$NODE1" $((NODE_PORT + 1)))")"
	expect_match "UDP from NodePort's number" "^world $NODE1 " "$(ask node1 udp "$WORLD:7778" --from "$(with_port "$NODE1" "$NODE_PORT")")"
}

# A DNS cache that listens on every node at one link-local address (NodeLocal DNSCache).
node_cache()
{
	ip -n "$MK_LAB.node1" addr add 169.254.20.10/32 dev side0
	serve node1 node1 --udp 5300 --tcp 5300
	wait_for 10 ask friend udp 169.254.20.10:5300 --timeout 1
	expect_match "UDP" "^node1 ${ADDR[friend]} " "$(ask friend udp 169.254.20.10:5300)"
	expect_match "TCP" "^node1 ${ADDR[friend]} " "$(ask friend tcp 169.254.20.10:5300)"
}

# ---- kernel settings -----------------------------------------------------------------------------

RESERVED=/proc/sys/net/ipv4/ip_local_reserved_ports

reserved_ports()
{
	expect_eq "reserved ports" "30000-32767,49152-65535" "$(on node2 cat "$RESERVED")"
	wait_for 30 missing_one_is_said
}
# The agent may repair it before check looks.
missing_one_is_said()
{
	on node2 sh -c "echo 49152-65535 >$RESERVED"
	expect_match "monokube check" "ip_local_reserved_ports lacks some of 30000-32767" "$(on node2 "$MK_BIN" check || true)"
}

cleanup_leaves_others()
{
	lab agent stop node2
	lab rm far
	on node2 sh -c "echo 8080,30000-32767,49152-65535 >$RESERVED"
	on node2 sh -c "echo 0 >/proc/sys/net/ipv4/conf/lo/accept_local"
	on node2 "$MK_BIN" cleanup
	expect_eq "reserved ports" 8080 "$(on node2 cat "$RESERVED")"
}

outside_up
check "frames for other machines, on a promiscuous device: no session, nothing sent on" other_machines
check "sources that no host outside can have: dropped, and counted" forged_sources
check "a datagram between two pods by way of the host goes in no circle (rp_filter 0)" no_circle 0
for filter in 1 2; do
	ipv4_only "IPv6 has no rp_filter" check "a datagram between two pods by way of the host goes in no circle (rp_filter $filter)" no_circle $filter
done
check "overlay packets from strangers: dropped, and counted; a node's come" strangers
check "overlay packets from strangers, without the agent and with the next one" strangers_after_restart
[[ $FAMILY == 4 ]] || check "overlay packets from strangers, behind extension headers" hidden_strangers
check "a node with several addresses" several_addresses
check "frames with a priority tag (VLAN 0) are served" tagged
check "the host's own connections from a NodePort's number" own_connection
ipv4_only "a pod cannot reach link-local addresses of IPv6" check "a node's cache at a link-local address" node_cache
check "a flood to a port that nobody serves: at most 1,000 errors a second and CPU, the rest is counted" error_flood
check "NodePorts' numbers are reserved, and monokube check says where they are not" reserved_ports
check "cleanup takes back the ports that monokube reserved, and no others" cleanup_leaves_others
finish
