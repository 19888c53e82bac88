#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_policy_attackers.sh - nmap, nping, hping3 and scapy (attackers.py) against network
# policies. The pods' own captures say what arrived. Each packet that a tool sends is a drop with a
# reason. Numbers are the rules of test/policy/README.md.
#
#   node1: victim friend stranger mallory open      node2: far-victim far-stranger
# Friends may ask victim and far-victim at TCP 8080 and UDP 5353, and they serve port 9090 as well.
# mallory may only ask open at TCP 8080. Service guarded has the endpoint victim.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"

NODE_PORT=30066
IP=$(by_family ip ip6)
declare -A ADDR=([world]=$WORLD [node1]=$NODE1 [node2]=$NODE2 [vip]=$VIP) PIPES=()
ATTACKERS=(stranger far-stranger world mallory)
WATCHED=(victim far-victim friend open world)

explain()
{
	for node in node1 node2; do echo "drops of $node:"; on "$node" "$MK_BIN" drops || true; done
	tail -n 5 "$TMP"/came.*
}

objects()
{
	cat <<-END
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: friends-in, namespace: default}
		spec:
		  podSelector: {matchLabels: {victim: "yes"}}
		  ingress:
		  - from: [{podSelector: {matchLabels: {app: friend}}}]
		    ports: [{port: 8080}, {port: 5353, protocol: UDP}]
		---
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: mallory-out, namespace: default}
		spec:
		  podSelector: {matchLabels: {app: mallory}}
		  policyTypes: [Egress]
		  egress: [{to: [{podSelector: {matchLabels: {app: open}}}], ports: [{port: 8080}]}]
		---
		apiVersion: v1
		kind: Service
		metadata: {name: guarded, namespace: default}
		spec:
		  type: NodePort
		  clusterIP: $VIP
		  selector: {app: victim}
		  ports:
		  - {name: tcp, port: 80, targetPort: 8080, nodePort: $NODE_PORT}
		  - {name: udp, port: 80, targetPort: 5353, nodePort: $NODE_PORT, protocol: UDP}
	END
}

# ---- what pods receive, a line of tcpdump's per packet that must not come; what attackers send

# capture WHERE EXPRESSION
capture()
{
	env ip netns exec "$MK_LAB.$1" tcpdump -n -l -i eth0 -Q in --immediate-mode "$2" >"$TMP/came.$1" 2>"$TMP/capture.$1" &
	wait_for 10 grep -q listening "$TMP/capture.$1"
}

# An error of the friend's kernel about an answer passes (27).
captures_up()
{
	local where from="src host ${ADDR[friend]} and (dst port 8080 or dst port 5353 or icmp or icmp6)"
	for where in victim far-victim; do
		capture $where "not ($from)"
	done
	capture friend "not (src host ${ADDR[victim]} or src host ${ADDR[far-victim]})"
	capture open "not ((src host ${ADDR[mallory]} and tcp dst port 8080) or src host ${ADDR[friend]})"
	capture world "src host ${ADDR[mallory]} or (src host $NODE1 and dst portrange 1-19999)"
	for where in "${ATTACKERS[@]}"; do
		in_family "$(count_sent)" | ip netns exec "$MK_LAB.$where" nft -f -
	done
}

# Counters: later fragments, and all other packets
count_sent()
{
	cat <<-END
		table netdev sent {
			chain out {
				type filter hook egress device eth0 priority 0
				icmpv6 type { 133-137, 143 } return
				$(by_family "ip frag-off & 0x1fff != 0" "frag frag-off != 0") counter return
				meta protocol $IP counter
			}
		}
	END
}
# sent FROM: whole packets and first fragments, then later fragments
sent()
{
	ip netns exec "$MK_LAB.$1" nft -j list table netdev sent | jq '[.nftables[].rule? // empty | .expr[] | .counter? // empty | .packets] | .[1], .[0]' | xargs
}

nothing_came()
{
	local where
	for where in "${WATCHED[@]}"; do
		[[ ! -s $TMP/came.$where ]] || { echo "came to $where:"; head -n 20 "$TMP/came.$where"; return 1; }
	done
}

# ---- what nodes have dropped

# drops: packets that both nodes have dropped, by reason
drops()
{
	{ on node1 "$MK_BIN" drops; on node2 "$MK_BIN" drops; } |
		awk '$3 ~ /^[0-9]+$/ && $1 != "NOT_IPV4" { sum[$1] += $3 } END { for (reason in sum) print reason, sum[reason] }'
}
# dropped_since BEFORE: REASON COUNT, as lines
dropped_since()
{
	drops | awk 'NR == FNR { former[$1] = $2; next } $2 != former[$1] { print $1, $2 - former[$1] }' <(echo "$1") - | sort
}
# all_counted BEFORE WHOLE LATER: drops since BEFORE are the WHOLE packets and first fragments, and
# some of the LATER fragments. Those that wait for a first one that was dropped are not counted.
all_counted()
{
	local dropped whole=$2 later=$3
	dropped=$(dropped_since "$1" | awk '{ sum += $2 } END { print sum + 0 }')
	((dropped >= whole && dropped <= whole + later)) ||
		expect_eq "drops: $(dropped_since "$1" | xargs)" "$whole, and $later later fragments" "$dropped"
}

# refused FROM REASONS COMMAND...: what it sends comes to no pod, and only these reasons count it
refused()
{
	local from=$1 reasons=$2 before whole later more_whole more_later
	before=$(drops)
	read -r whole later < <(sent "$from")
	"${@:3}"
	read -r more_whole more_later < <(sent "$from")
	((more_whole > whole)) || expect_eq "packets that $from has sent" some none
	wait_for 5 all_counted "$before" $((more_whole - whole)) $((more_later - later))
	expect_eq "other reasons" "" "$(dropped_since "$before" | grep -vE "^($reasons) " | xargs)"
	ask friend udp "$(with_port "${ADDR[victim]}" 5353)" >/dev/null
	nothing_came
}

# ---- tools at once: start COMMAND...; all_end fails if one of them did
JOBS=()
start() { "$@" & JOBS+=($!); }
all_end() { for job in "${JOBS[@]}"; do wait "$job"; done; }

# ---- nmap

declare -A SCANS=([syn]=-sS [ack]=-sA [fin]=-sF [null]=-sN [xmas]=-sX [window]=-sW [maimon]=-sM [udp]=-sU [init]=-sY [cookie]=-sZ
	[from-53]="-sS -g 53" [from-53-udp]="-sU -g 53" [badsum]="-sS --badsum" [data]="-sS --data-length 200"
	[odd-flags]="-sS --scanflags URGACKPSHRSTSYNFIN")
[[ $FAMILY == 6 ]] || SCANS+=([fragments]="-sS -f" [fragments-fin]="-sF -f" [fragments-udp]="-sU -f --data-length 64" [ttl-1]="-sS --ttl 1"
	[record-route]="-sS --ip-options R" [timestamps]="-sS --ip-options T")
PROTOCOLS="-sO -p 1,2,4,6,17,33,41,47,50,51,58,89,103,108,112,115,132,136,255"

# nmap_at NAME FROM ADDRESS OPTIONS...: what it says of each port is in scan.NAME
nmap_at()
{
	local ip6=()
	[[ $FAMILY == 4 ]] || ip6=(-6)
	timeout 60 ip netns exec "$MK_LAB.$2" nmap "${ip6[@]}" -n -Pn --send-ip -T5 --max-retries 1 "${@:4}" -oG - "$3" >"$TMP/scan.$1" 2>&1
	grep -oE '[0-9]+/[a-z|]+/' "$TMP/scan.$1" | sort >"$TMP/state.$1" || { cat "$TMP/scan.$1"; return 1; }
}
# filtered_by NAME FROM ADDRESS OPTIONS...: nmap sees neither an open nor a closed port
filtered_by()
{
	nmap_at "$@"
	expect_eq "nmap $1 says other than filtered" "" "$(grep -vE '/(open\|)?filtered/$' "$TMP/state.$1" | xargs)"
}

# scans FROM ADDRESS PORTS [PROTOCOLS]: all of them at once. A Service has no port of SCTP.
scans()
{
	local name
	for name in "${!SCANS[@]}"; do
		[[ ${4:-} || ${SCANS[$name]} != -s[YZ] ]] || continue
		# shellcheck disable=SC2086 # a list
		start filtered_by "$name" "$1" "$2" -p "$3" ${SCANS[$name]}
	done
	# shellcheck disable=SC2086 # a list
	[[ ! ${4:-} ]] || start filtered_by protocols "$1" "$2" $4
	all_end
}

# Decoys are sent from addresses that are not the pod's own.
decoys()
{
	filtered_by decoys "$1" "$2" -sS -p 8080,9090 -D "${ADDR[friend]},${ADDR[open]},ME"
}

# The friend finds what the policy allows it, and nothing more. nmap waits at most 0.3 s for an answer
# with -T5: a server of a busy machine needs longer.
PATIENT="--max-rtt-timeout 6s --initial-rtt-timeout 2s --min-rtt-timeout 2s --max-retries 3"
friends_scan()
{
	# shellcheck disable=SC2086 # a list
	start nmap_at syn friend "${ADDR[$1]}" -sS -p 8080,9090 $PATIENT
	# shellcheck disable=SC2086 # a list
	start nmap_at udp friend "${ADDR[$1]}" -sU -p 5353,9090 $PATIENT
	all_end
	expect_eq "TCP" "8080/open/ 9090/filtered/" "$(xargs <"$TMP/state.syn")"
	expect_eq "UDP" "5353/open/ 9090/open|filtered/" "$(xargs <"$TMP/state.udp")"
	nothing_came
}

# ---- nping and hping3

# nping_at FROM ADDRESS OPTIONS...: no packet is answered. For IPv6, nping wants the whole frame.
nping_at()
{
	local frame=() out
	out=$(mktemp "$TMP/nping.XXXXXX")
	[[ $FAMILY == 4 ]] || frame=(-6 --send-eth -e eth0 --source-ip "${ADDR[$1]}" --source-mac "$(own_mac "$1")" --dest-mac "$(next_hop "$1")")
	ip netns exec "$MK_LAB.$1" nping "${frame[@]}" -q --rate 2000 --bpf-filter "src host $2" "${@:3}" "$2" >"$out" 2>&1 || { cat "$out"; return 1; }
	expect_match "nping ${*:3}" 'Rcvd: 0 ' "$(<"$out")"
}
own_mac() { on "$1" cat /sys/class/net/eth0/address; }
npings()
{
	local flags
	for flags in syn ack rst "fin,psh,urg" none; do
		start nping_at "$1" "$2" --tcp -p 8080 --flags $flags -c 500
	done
	start nping_at "$1" "$2" --udp -p 5353 -c 500
	start nping_at "$1" "$2" --icmp -c 500
	all_end
}

# hping3_at FROM ADDRESS OPTIONS...: no packet is answered
hping3_at()
{
	local out
	out=$(mktemp "$TMP/hping3.XXXXXX")
	timeout 60 ip netns exec "$MK_LAB.$1" hping3 -n -q -I eth0 -i u500 "${@:3}" "$2" >"$out" 2>&1 || true
	expect_match "hping3 ${*:3}" ' 0 packets received, 100% packet loss' "$(<"$out")"
}
# hping3s FROM ADDRESS OPTIONS...: with each word of options, at once
hping3s()
{
	local options
	for options in "${@:3}"; do
		# shellcheck disable=SC2086 # a list
		start hping3_at "$1" "$2" $options
	done
	all_end
}
ODD=("-A -p 8080 -c 2000" "-S -p ++1 -c 500" "-S -p 8080 --badcksum -c 50" "-S -p 8080 -X -Y -c 50" "-A -p 8080 --tcpoff 2 -c 50"
	"-2 -p 5353 -d 100 -c 50" "-1 -C 13 -c 20" "-0 -H 47 -d 40 -c 20" "-0 -H 50 -d 40 -c 20")
IN_FRAGMENTS=("-S -p 8080 -d 100 -f -c 20" "-2 -p 5353 -d 100 -m 32 -c 20" "-S -p 8080 -x -c 20")
SPOOFS=("-S -p 8080 --rand-source -c 200" "-S -p 8080 -a VICTIM -c 20" "-2 -p 5353 -a FRIEND -c 20")

# ---- scapy

next_hop()
{
	if [[ $1 == world ]]; then own_mac node1; else on "$1" ip neigh show dev eth0 | sed -nE 's/.*lladdr ([^ ]+).*/\1/p' | head -n 1; fi
}
# forged ATTACK FROM ADDRESS [OPTIONS]
forged()
{
	ip netns exec "$MK_LAB.$2" "$HERE/attackers.py" "$1" --source "${ADDR[$2]}" --to "$3" --friend "${ADDR[friend]}" \
		--node "$NODE1" --node "$NODE2" --vni "$VNI" --mac "$(next_hop "$2")" "${@:4}" >"$TMP/forged"
}

# errors_about_others FROM [REASONS]: ICMP errors about the connection of two others do not end it.
# A pod's are dropped; one from outside passes, if it names the connection (27).
errors_about_others()
{
	local port
	hold "quoted-$1" friend "$(with_port "${ADDR[victim]}" 8080)"
	port=$(ip netns exec "$MK_LAB.friend" ss -Htn state established dport = :8080 | awk '{ sub(/.*:/, "", $3); print $3 }')
	${2:+refused "$1" "$2"} forged errors "$1" "${ADDR[victim]}" --friend-port "$port"
	echo >&"${PIPES[quoted-$1]}"
	wait_for 5 holds "quoted-$1" 2
}

# ARP and neighbour discovery: all neighbours stay as they are.
neighbours()
{
	local before count reason
	reason=$(by_family NOT_IPV4 NEIGHBOUR_DISCOVERY)
	before=$(neighbour_tables)
	count=$(drop_count node1 "$reason")
	forged neighbours "$1" "${ADDR[victim]}"
	wait_for 5 grown_by "$count" "$reason" "$(<"$TMP/forged")"
	expect_eq "neighbours" "$before" "$(neighbour_tables)"
	nothing_came
}
neighbour_tables() { for where in victim friend open; do on "$where" ip neigh show dev eth0 | sed 's/ \(REACHABLE\|STALE\|DELAY\|PROBE\).*//'; done; }
grown_by() { (($(drop_count node1 "$2") - $1 >= $3)) || expect_eq "drops for $2" "$3 more" $(($(drop_count node1 "$2") - $1)); }

# ---- the cluster

closed() { expect_eq "$1 to $2" timeout "$(ask "$1" tcp "$(with_port "${ADDR[$2]}" 8080)" --timeout 0.4 || true)"; }

attackers_up()
{
	local pod
	lab up 2 --pods
	forward_in node1
	ip -n "$MK_LAB.world" route add "$(in_family 10.244.1.0/24)" via "$NODE1"
	ADDR[victim]=$(lab pod node1 victim --label victim=yes)
	ADDR[far-victim]=$(lab pod node2 far-victim --label victim=yes)
	for pod in friend stranger mallory open; do
		ADDR[$pod]=$(lab pod node1 $pod)
	done
	ADDR[far-stranger]=$(lab pod node2 far-stranger)
	for pod in victim far-victim open world; do
		serve $pod $pod --tcp 8080 --tcp 9090 --udp 5353 --udp 9090
	done
	objects | apply objects
	wait_for 15 closed stranger victim
	wait_for 15 closed far-stranger far-victim
	wait_for 15 closed mallory friend
	wait_for 10 ask friend tcp "$(with_port "$VIP" 80)"
	ask friend tcp "$(with_port "${ADDR[far-victim]}" 8080)" >/dev/null
	VNI=$(on node1 ip -d link show mkvxlan | sed -nE 's/.* vxlan id ([0-9]+) .*/\1/p')
	captures_up
}

attackers_up
SPOOFS=("${SPOOFS[@]//VICTIM/${ADDR[victim]}}")
SPOOFS=("${SPOOFS[@]//FRIEND/${ADDR[friend]}}")
# FROM TO DIRECTION
for row in "stranger victim INGRESS" "far-stranger victim INGRESS" "stranger far-victim INGRESS" "world victim INGRESS" \
	"mallory open EGRESS" "mallory world EGRESS" "mallory far-victim EGRESS"; do
	read -r from to direction <<<"$row"
	row="$from to $to"
	reasons="POLICY_$direction|POLICY_NO_FLOW|TRUNCATED|BAD_HEADER|TTL_EXPIRED"
	ports=8080,9090,5353
	[[ $row != "mallory to open" ]] || ports=9090,5353
	check "nmap scans, $row" refused "$from" "$reasons" scans "$from" "${ADDR[$to]}" $ports "$PROTOCOLS"
done
for row in "stranger vip 80" "far-stranger vip 80" "world node1 $NODE_PORT" "world node2 $NODE_PORT"; do
	read -r from to port <<<"$row"
	check "nmap scans of a Service, $from to $to" refused "$from" "POLICY_INGRESS|POLICY_NO_FLOW|TRUNCATED|TTL_EXPIRED" scans "$from" "${ADDR[$to]}" "$port"
done
check "nmap with decoys from a pod" refused stranger "POLICY_INGRESS|SPOOFED_ADDRESS" decoys stranger "${ADDR[victim]}"
check "nmap with decoys from outside (16)" refused world "POLICY_INGRESS|MARTIAN_SOURCE" decoys world "${ADDR[victim]}"
check "nmap by a friend" friends_scan victim
check "nmap by a friend on another node" friends_scan far-victim
for from in stranger far-stranger world mallory; do
	to=${ADDR[victim]} reasons="POLICY_INGRESS|POLICY_NO_FLOW|POLICY_EGRESS|TRUNCATED|BAD_HEADER|TTL_EXPIRED"
	check "nping floods, $from" refused "$from" "$reasons" npings "$from" "$to"
	if [[ $FAMILY == 4 ]]; then # hping3 has no IPv6
		check "hping3 floods and odd packets, $from" refused "$from" "$reasons" hping3s "$from" "$to" "${ODD[@]}"
		check "hping3 fragments (29), $from" refused "$from" "$reasons" hping3s "$from" "$to" "${IN_FRAGMENTS[@]}"
		check "hping3 with forged sources (16), $from" refused "$from" "$reasons|SPOOFED_ADDRESS|MARTIAN_SOURCE" hping3s "$from" "$to" "${SPOOFS[@]}"
	fi
	check "scapy: overlapping fragments (29), $from" refused "$from" "$reasons" forged overlapping "$from" "$to"
	check "scapy: extension headers or options, $from" refused "$from" "$reasons|EXTENSION_HEADER|SOURCE_ROUTE" forged headers "$from" "$to"
	check "scapy: chunks of SCTP (25), $from" refused "$from" "$reasons" forged associations "$from" "$to"
	check "scapy: tunnels, $from" refused "$from" "$reasons|OVERLAY_FORGED|OVERLAY_STRANGER" forged tunnels "$from" "$to"
	check "scapy: random packets, $from" refused "$from" "$reasons|FORGED_ERROR" forged fuzzed "$from" "$to"
	[[ $from == world ]] || check "scapy: ICMP errors about others (27), $from" errors_about_others "$from" "POLICY_NO_FLOW|POLICY_EGRESS|FORGED_ERROR"
done
check "scapy: false neighbours" neighbours stranger
check "scapy: false neighbours from an isolated pod" neighbours mallory
check "scapy: ICMP errors from outside (27)" errors_about_others world
finish
