#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_policy_hostile.sh - packets that no client of a Service would send, against network policies:
# nothing reaches an isolated pod or leaves one, no session is opened, and each packet is counted.
# Numbers are the rules of test/policy/README.md.
#
#   node1: victim friend stranger mallory open      node2: far-victim far-stranger
# victim and far-victim let friends in. mallory may only ask open at port 8080. world lies outside.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"

VTEP1=$(in_family 10.18.0.1)
VTEP2=$(in_family 10.18.0.2)
SIDE=$(in_family 172.30.0.1) # an address of node1 on another device than its uplink
IP=$(by_family ip ip6)
declare -A ADDR=([world]=$WORLD [far]=$FAR [node1]=$NODE1 [node2]=$NODE2) PIPES=()

explain() { for node in node1 node2; do echo "drops of $node:"; on "$node" "$MK_BIN" drops || true; done; watched; }

policies()
{
	cat <<-END
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: friends-in, namespace: default}
		spec:
		  podSelector: {matchLabels: {victim: "yes"}}
		  ingress: [{from: [{podSelector: {matchLabels: {app: friend}}}, {ipBlock: {cidr: $FAR/$BITS}}]}]
		---
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: mallory-out, namespace: default}
		spec:
		  podSelector: {matchLabels: {app: mallory}}
		  policyTypes: [Egress]
		  egress: [{to: [{podSelector: {matchLabels: {app: open}}}], ports: [{port: 8080}, {port: 8080, protocol: UDP}]}]
	END
}

# ---- who sees what: counters of packets that must not come, by place

# watch WHERE RULE...: count what matches one of the rules of nftables
watch()
{
	local rule
	{
		echo "table $IP watch { chain first { type filter hook prerouting priority -450"
		for rule in "${@:2}"; do
			echo "$rule counter"
		done
		echo "}"
		echo "}"
	} | ip netns exec "$MK_LAB.$1" nft -f -
}
watched() { for where in victim far-victim world node1 node2 open; do echo "$where"; ip netns exec "$MK_LAB.$where" nft list table "$IP" watch | grep counter; done; }

watches_up()
{
	local where
	for where in victim far-victim; do
		watch "$where" "iifname eth0 $IP saddr != { ${ADDR[friend]}, $VTEP1, $VTEP2, $FAR, ${ADDR[open]} }"
	done
	watch open "iifname eth0 $IP saddr ${ADDR[mallory]} meta l4proto tcp tcp dport != 8080" \
		"iifname eth0 $IP saddr ${ADDR[mallory]} meta l4proto udp udp dport != 8080 udp sport != 5353"
	# world answers nothing; what comes for it from node1 is mallory's, masqueraded
	watch world "$IP saddr $NODE1 $IP daddr $WORLD meta l4proto != tcp" "$IP saddr ${ADDR[mallory]}" \
		"$IP saddr $NODE1 tcp dport 9999"
	watch node1 "$IP saddr ${ADDR[mallory]}"
	watch node2 "$IP saddr ${ADDR[mallory]}" "$IP saddr $NODE1 tcp dport 9999" "$IP saddr $NODE1 udp dport 9999"
}

# ---- attacks

forge() { ip netns exec "$MK_LAB.$1" "$HERE/forge.py" "${@:2}"; }
sessions() { on "$1" "$MK_BIN" sessions 2>/dev/null | wc -l; }
# drops NODE: packets dropped by reason
drops() { on "$1" "$MK_BIN" drops | awk '$3 ~ /^[0-9]+$/ && $1 != "NOT_IPV4" { sum[$1] += $3 } END { for (reason in sum) print reason, sum[reason] }'; }
# drops_are NODE BEFORE "REASON COUNT, ..": since BEFORE
drops_are()
{
	local -A sum=()
	local reason count
	while read -r reason count; do sum[$reason]=$((${sum[$reason]:-0} - count)); done <<<"$2"
	while read -r reason count; do sum[$reason]=$((${sum[$reason]:-0} + count)); done < <(drops "$1")
	for reason in "${!sum[@]}"; do [[ $reason && ${sum[$reason]} != 0 ]] && echo "$reason ${sum[$reason]}"; done |
		sort | paste -sd , | sed 's/,/, /g' >"$TMP/sums"
	expect_eq "packets that $1 dropped" "$3" "$(<"$TMP/sums")"
}

# refused NODE "REASON COUNT, .." COMMAND...: NODE counts what it sends, nothing comes, and NODE opens no
# session
refused()
{
	local node=$1 sums=$2 before drops_before open more
	before=$(watched)
	open=$(sessions "$node")
	drops_before=$(drops "$node")
	"${@:3}"
	wait_for 5 drops_are "$node" "$drops_before" "$sums"
	nothing_came "$before"
	more=$(($(sessions "$node") - open))
	((more <= 0)) || expect_eq "new sessions" 0 "$more"
}
nothing_came() { diff <(echo "$1") <(watched); }

SYNS=02,03,06,0a,42,c2,2f          # alone, with FIN, RST, PSH, ECE, CWR, all but ACK
OTHERS=10,04,14,11,01,00,29,12,13,18,3f
PROTOCOLS=4,41,47,50,89,94,108,136,253,255
ICMP=$(by_family 080000070001,0d0000070001000000000000000000000000,000000070001,0e0000070001000000000000000000000000 800000070001,810000070001)
# INIT, INIT ACK, DATA, COOKIE ECHO, ABORT, SHUTDOWN, no chunk
SCTP="010000140000000100010000000a000a00000001 020000140000000100010000000a000a00000001
	00030014000000010000000000000000deadbeef 0a000008cafecafe 06000004 0700000800000001 -"

# packets FROM ADDRESS [OPTIONS]: everything that belongs to no connection of theirs: 18 of TCP, of which
# 7 begin one, and 21 more, of IPv6 19
packets()
{
	local chunk
	forge "$1" "$2" 8080 --kind tcp --flags "$SYNS,$OTHERS" "${@:3}"
	forge "$1" "$2" 5353 "${@:3}"
	forge "$1" "$2" 0 --sport 0 "${@:3}"
	forge "$1" "$2" 0 --kind icmp --message "$ICMP" "${@:3}"
	forge "$1" "$2" 0 --kind raw --protocol $PROTOCOLS "${@:3}"
	for chunk in $SCTP; do
		forge "$1" "$2" 0 --kind raw --protocol 132 --message "1f901f900000000000000000${chunk#-}" "${@:3}"
	done
}
REFUSED=$((7 + 2 + $(by_family 4 2) + 10 + 7))
no_connection() { refused "$3" "POLICY_$4 $REFUSED, POLICY_NO_FLOW 11" packets "$1" "$2"; }

# First fragments, with later ones; of TCP also without flags, and without the rest of its header (29)
fragments()
{
	local id=$RANDOM
	forge "$1" "$2" 5353 --text 0123456789abcdef --cut 24 --fragment 0+ --id $id
	forge "$1" "$2" 5353 --kind raw --protocol 17 --fragment 3 --id $id
	forge "$1" "$2" 8080 --kind tcp --flags $SYNS --fragment 0+ --id $((id + 1))
	forge "$1" "$2" 0 --kind raw --protocol 47 --fragment 9+ --id $((id + 2))
	forge "$1" "$2" 8080 --kind tcp --flags 02 --cut 8 --fragment 0+ --id $((id + 3))
	forge "$1" "$2" 8080 --kind tcp --flags 02 --cut 16 --fragment 0+ --id $((id + 4))
}
# Seven of them are too short for IPv6, where all but the last one are of whole 8 bytes. The sender's own
# node drops what is malformed.
fragmented()
{
	local bad='' short=", TRUNCATED 2"
	[[ $FAMILY == 4 ]] || bad="BAD_HEADER 7, "
	[[ $1 != far-* ]] || bad='' short=''
	refused "$3" "${bad}POLICY_$4 $(by_family 9 2), POLICY_NO_FLOW 1$short" fragments "$1" "$2"
}

# Later fragments alone wait for their first one for two seconds (bpf/README.md), and are forgotten.
late_fragments()
{
	local before protocol id=$RANDOM
	before=$(watched)
	for protocol in 6 17 132 "$(by_family 1 58)"; do
		forge stranger "${ADDR[victim]}" 0 --kind raw --protocol "$protocol" --fragment 1 --id $((id += 1))
		forge far-stranger "${ADDR[victim]}" 0 --kind raw --protocol "$protocol" --fragment 180+ --id $((id += 1))
		forge mallory "$WORLD" 0 --kind raw --protocol "$protocol" --fragment 2 --id $((id += 1))
	done
	sleep 2.5 # longer than they wait
	ask friend udp "$(with_port "${ADDR[victim]}" 5353)"
	nothing_came "$before"
}

# Extension headers and fragments of IPv6 before an isolated pod
HOP_OPTIONS=0/00010400000000
OPTIONS=60/00010400000000
headers()
{
	local chain
	for chain in "$HOP_OPTIONS,$OPTIONS,$OPTIONS" "44/00000000000009,$OPTIONS"; do
		packets "$1" "$2" --headers "$chain"
	done
	forge "$1" "$2" 8080 --kind tcp --flags 02 --headers 43/00000000000000
	forge "$1" "$2" 8080 --kind tcp --flags 02 --headers 51/0400000000000100000001000000000000000000000000
	forge "$1" "$2" 0 --kind raw --protocol 59
	forge "$1" "$2" 8080 --kind tcp --flags 02 --headers "44/00000100000011,60/20"
}
behind_headers()
{
	local long="EXTENSION_HEADER 1, "
	[[ $1 != far-* ]] || long='' # its own node drops it
	refused "$3" "${long}POLICY_$4 $((2 * REFUSED + 3)), POLICY_NO_FLOW 22" headers "$1" "$2"
}

# Sockets that claim a connection which no handshake has opened (33). Its segments come nowhere, but to
# a host of another node, which may ask the pod: no program sees that host's sockets.
claims()
{
	local before port=7000 from to listen
	before=$(watched)
	for from in stranger far-stranger mallory; do
		for to in "${ADDR[victim]}" "${ADDR[far-victim]}" "$WORLD" "$NODE1"; do
			[[ $from == mallory || $to == "${ADDR[victim]}" || $to == "${ADDR[far-victim]}" ]] || continue
			for listen in "" --listen; do
				port=$((port + 1))
				# shellcheck disable=SC2086 # one word or none
				ip netns exec "$MK_LAB.$from" "$HERE/repair.py" "$(with_port "$to" 9999)" --from $port $listen
				nothing_came "$before" || { echo "from $from to $to $listen"; return 1; }
			done
		done
	done
}

# The ports of an allowed connection give nothing else.
with_port_of()
{
	forge mallory "${ADDR[open]}" 9090 --sport "$1" --kind tcp --flags "$SYNS,$OTHERS"
	forge mallory "${ADDR[open]}" 9090 --sport "$1"
	forge mallory "${ADDR[far-victim]}" 8080 --sport "$1" --kind tcp --flags $OTHERS
	forge mallory "$WORLD" 8080 --sport "$1"
}
reused_ports()
{
	local to=${ADDR[open]} port
	hold mallory mallory "$(with_port "$to" 8080)"
	hold mallory-udp mallory "$(with_port "$to" 8080)" udp
	pulse 2
	for port in $(ip netns exec "$MK_LAB.mallory" ss -Htunp state established | awk '{ sub(/.*:/, "", $5); print $5 }'); do
		refused node1 "POLICY_EGRESS 9, POLICY_NO_FLOW 22" with_port_of "$port"
	done
	pulse 3
}

# mallory is asked by open. It may answer, and begin nothing by the same ports and id (25).
answers()
{
	local port
	hold open-tcp open "$(with_port "${ADDR[mallory]}" 8080)"
	port=$(ip netns exec "$MK_LAB.open" ss -Htn state established dport = :8080 | awk '{ sub(/.*:/, "", $3); print $3 }')
	refused node1 "POLICY_EGRESS 7" forge mallory "${ADDR[open]}" "$port" --sport 8080 --kind tcp --flags $SYNS
	echo >&"${PIPES[open-tcp]}"
	wait_for 5 holds open-tcp 2
	ip netns exec "$MK_LAB.open" ping -q -c 1 -e 7 "${ADDR[mallory]}"
	refused node1 "POLICY_EGRESS 1" forge mallory "${ADDR[open]}" 0 --kind icmp --message "$(by_family 080000070009 800000070009)"
}

# FAR is let in. world guesses its connection's sequence numbers, and claims to be FAR.
guesses()
{
	local port
	mkfifo "$TMP/allowed.in"
	on world "$HERE/echo.py" ask tcp "$(with_port "$NODE1" 8088)" --from "$FAR" --hold --timeout 20 <"$TMP/allowed.in" >"$TMP/allowed.out" 2>&1 &
	exec {pipe}>"$TMP/allowed.in"
	wait_for 10 holds allowed 1
	port=$(ip netns exec "$MK_LAB.world" ss -Htn state established dport = :8088 | awk '{ sub(/.*:/, "", $3); print $3 }')
	for _ in 1 2 3 4 5 6 7 8; do
		forge world "$NODE1" 8088 --source "$FAR" --sport "$port" --kind tcp --flags 04,14,11,10 \
			--seq $((RANDOM * 65536 + RANDOM))
	done
	echo >&"$pipe"
	wait_for 5 holds allowed 2
}

# Sources that no host outside can have, to the pod's address and to a host port (16). Those of node2 may come by the
# link without VXLAN (setting routing), but not from world's MAC address.
forged_sources()
{
	local from
	for from in "${ADDR[friend]}" "${ADDR[open]}" "$NODE1" "$VTEP1" "$VTEP2" "${ADDR[far-stranger]}" "$LOCALHOST"; do
		forge world "${ADDR[victim]}" 5353 --source "$from"
		forge world "$NODE1" 8088 --kind tcp --flags 02 --source "$from"
	done
}
# .. an address of this host on another device: its kernel or its programs drop it
forged_side()
{
	local before
	before=$(watched)
	for _ in 1 2 3; do
		forge world "${ADDR[victim]}" 5353 --source "$SIDE"
		forge world "$NODE1" 8088 --kind tcp --flags 02 --source "$SIDE"
	done
	ask world tcp "$(with_port "$NODE1" 8088)" --from "$FAR"
	nothing_came "$before"
}

# Frames of the overlay by a stranger and by a pod, with a friend's address inside
overlay()
{
	local mac
	mac=$(on node1 cat /sys/class/net/mkvxlan/address)
	refused node1 "OVERLAY_STRANGER 1" forge world "$NODE1" 4789 --kind vxlan --inner-mac "$mac" \
		--inner-source "${ADDR[far-friend]}" --inner-dest "${ADDR[victim]}" --inner-port 5353
	refused node1 "OVERLAY_FORGED 1" forge stranger "$NODE1" 4789 --kind vxlan --inner-mac "$mac" \
		--inner-source "${ADDR[far-friend]}" --inner-dest "${ADDR[victim]}" --inner-port 5353
	refused node1 "POLICY_EGRESS 1" forge mallory "$NODE2" 4789 --kind vxlan --inner-mac "$mac" \
		--inner-source "${ADDR[friend]}" --inner-dest "${ADDR[far-victim]}" --inner-port 5353
}

# ICMP errors that quote a datagram of the victim, which was never sent (27)
false_errors()
{
	local quoted=("${ADDR[victim]}" 53 --kind error --inner-source "${ADDR[victim]}" --inner-port 6000 --inner-dest)
	forge stranger "${quoted[@]}" "${ADDR[stranger]}"
	forge far-stranger "${quoted[@]}" "${ADDR[far-stranger]}"
	forge world "${quoted[@]}" "$WORLD"
	forge mallory "$WORLD" 53 --kind error --inner-source "$WORLD" --inner-port 6000 --inner-dest "${ADDR[mallory]}"
}
# .. nor does an error about an own session go elsewhere.
error_goes_astray()
{
	hold quoted open "$(with_port "${ADDR[mallory]}" 5353)" udp
	local port before
	port=$(ip netns exec "$MK_LAB.open" ss -Hun state established dport = :5353 | awk '{ sub(/.*:/, "", $3); print $3 }')
	before=$(watched)
	for to in "$WORLD" "${ADDR[victim]}" "$NODE1" "${ADDR[far-victim]}"; do
		forge mallory "$to" 5353 --kind error --inner-source "${ADDR[open]}" --inner-port "$port" --inner-dest "${ADDR[mallory]}"
	done
	ask friend udp "$(with_port "${ADDR[victim]}" 5353)"
	nothing_came "$before"
}

# A flood of refused packets takes no session away, and fills no table.
flood()
{
	local table
	hold friendly friend "$(with_port "${ADDR[victim]}" 8080)"
	refused node1 "POLICY_INGRESS 10000, POLICY_NO_FLOW 10000" forge stranger "${ADDR[victim]}" 8080 --kind tcp --flags 02,10 --count 10000
	refused node1 "POLICY_INGRESS 5000" forge stranger "${ADDR[victim]}" 5353 --count 5000
	echo >&"${PIPES[friendly]}"
	wait_for 5 holds friendly 2
	table=$(on node1 bpftool -j map dump pinned "$PINS/policy_counts" | jq length)
	((table < 100)) || expect_eq "entries of policy_counts" "below 100" "$table"
}

# A pod with an address that a friend had inherits nothing (45).
reused_address()
{
	local address=${ADDR[leaver]} port=6001
	on leaver "$HERE/echo.py" ask udp "$(with_port "${ADDR[victim]}" 5353)" --from "$(with_port "$address" $port)"
	on leaver "$HERE/echo.py" ask udp "$(with_port "${ADDR[far-victim]}" 5353)" --from "$(with_port "$address" $port)"
	lab rm leaver
	on node1 rm -r /var/lib/monokube/ipam/released # used again at once
	expect_eq "address of a new pod" "$address" "$(lab pod node1 heir)"
	heir_is_silent "${ADDR[victim]}"
	heir_is_silent "${ADDR[far-victim]}"
}
heir_is_silent()
{
	expect_eq "answer to the heir" timeout "$(on heir "$HERE/echo.py" ask udp "$(with_port "$1" 5353)" --from "$(with_port "$address" "$port")" --timeout 0.4 || true)"
}

# ---- the cluster

denied() { expect_eq "$1 to $2" timeout "$(ask "$1" tcp "$(with_port "${ADDR[$2]}" 8080)" --timeout 0.4 || true)"; }

hostile_up()
{
	local pod
	lab up 2 --pods
	ip -n "$MK_LAB.node1" link add side type dummy 2>/dev/null || ip -n "$MK_LAB.node1" link add side type veth peer name side-2
	on node1 sh -c "echo 0 >/proc/sys/net/ipv6/conf/side/disable_ipv6; ip link set side up; ip addr add $SIDE/$BITS dev side $NODAD"
	forward_in node1
	ip -n "$MK_LAB.world" route add "$(in_family 10.244.1.0/24)" via "$NODE1"
	ADDR[victim]=$(lab pod node1 victim --label victim=yes --host-port 8088:8080)
	ADDR[far-victim]=$(lab pod node2 far-victim --label victim=yes)
	for pod in friend stranger mallory open leaver; do
		ADDR[$pod]=$(lab pod node1 $pod --label "app=$([[ $pod == leaver ]] && echo friend || echo $pod)")
	done
	for pod in far-stranger far-friend; do
		ADDR[$pod]=$(lab pod node2 $pod --label app=${pod#far-})
	done
	for pod in victim far-victim mallory open; do
		serve $pod $pod --tcp 8080 --udp 5353 --udp 8080
	done
	policies | apply policies
	wait_for 15 denied stranger victim
	wait_for 15 denied far-stranger far-victim
	wait_for 15 denied mallory friend
	ask friend tcp "$(with_port "${ADDR[victim]}" 8080)" >/dev/null
	ask friend tcp "$(with_port "${ADDR[far-victim]}" 8080)" >/dev/null
	wait_for 5 ask world tcp "$(with_port "$NODE1" 8088)" --from "$FAR"
	watches_up
}

hostile_up
# FROM TO NODE DIRECTION
for attack in "stranger victim node1 INGRESS" "far-stranger victim node1 INGRESS" "mallory far-victim node1 EGRESS" \
	"mallory world node1 EGRESS" "mallory node1 node1 EGRESS" "world victim node1 INGRESS"; do
	read -r from to node direction <<<"$attack"
	attack=("$from" "${ADDR[$to]}" "$node" "$direction")
	check "packets of no connection, $from to $to (25, 26, 28)" no_connection "${attack[@]}"
	check "fragments, $from to $to (29)" fragmented "${attack[@]}"
	[[ $FAMILY == 4 ]] || check "extension headers, $from to $to" behind_headers "${attack[@]}"
done
check "later fragments alone (29)" late_fragments
check "sockets that claim a connection (33)" claims
check "the ports of an allowed connection give nothing else" reused_ports
check "an answer begins nothing (25)" answers
check "guessed sequence numbers end no connection" guesses
check "sources that no host outside has (16)" refused node1 "DIRECT_FORGED 4, MARTIAN_SOURCE 10" forged_sources
check "an address of the node on another device (16, 19)" forged_side
check "frames of the overlay" overlay
check "ICMP errors about nothing (27)" refused node1 "POLICY_NO_FLOW 4" false_errors
check "ICMP errors about a session go nowhere else" error_goes_astray
check "a flood of refused packets" flood
check "an address that is used again inherits nothing (45)" reused_address
finish
