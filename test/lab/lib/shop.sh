# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/shop.sh - the shop (manifests/examples/shop.yaml) on two nodes, and every path that
# a packet may take through it. A path_* function sends real traffic, looks at what the other end
# saw, and prints on its last line what it measured; it fails with what was expected and seen.
#
#   node1: web-1 lookup-1 client-1      node2: web-2 lookup-2 client-2
#   path_*: FROM first, TO second
#
# Another container network on node1 has the prefix OTHER_NET: its bridge is the first address, its
# container, OTHER, the second one.
# shellcheck disable=SC2034 # read by the tests
SHOP_YAML=$HERE/../../manifests/examples/shop.yaml
declare -A ADDR=()

# shop_family 4|6: the addresses of a lab of this family
shop_family()
{
	export MK_LAB_FAMILY=$1
	if [[ $1 == 6 ]]; then
		NODE1=fd00:99::11 NODE2=fd00:99::12 WORLD=fd00:99::200 FAR=2001:db8::10
		VTEP1=fd4d:4b00:12::1 VTEP2=fd4d:4b00:12::2 VPOD1=fd00:10:244:1::1 FREE=fd00:10:244:1::200
		OTHER_NET=fd00:172:30:: BITS=64 NODAD=nodad OTHER='[fd00:172:30::2]' IPTABLES=ip6tables
		# the Services' addresses 10.96.0.N become fd00:10:96::N
		sed -E 's/clusterIP: 10\.96\.0\.(.*)/clusterIP: "fd00:10:96::\1"/' "$SHOP_YAML" >"$TMP/shop6.yaml"
		SHOP=$TMP/shop6.yaml
	else
		NODE1=192.168.99.11 NODE2=192.168.99.12 WORLD=192.168.99.200 FAR=203.0.113.10
		VTEP1=10.18.0.1 VTEP2=10.18.0.2 VPOD1=10.244.1.1 FREE=10.244.1.200
		OTHER_NET=172.30.0. BITS=24 NODAD='' OTHER=172.30.0.2 IPTABLES=iptables
		SHOP=$SHOP_YAML
	fi
}

# shop_service NAME JQ: a field of one of the shop's Services
shop_service()
{
	/usr/bin/python3 -c '
import json, sys, yaml
docs = yaml.safe_load_all(open(sys.argv[1]))
print(json.dumps(next(d for d in docs if d["kind"] == "Service" and d["metadata"]["name"] == sys.argv[2])))
' "$SHOP" "$1" | jq -er "$2"
}

shop_pod()
{
	local node=$1 name=$2
	ADDR[$name]=$(lab pod "$node" "$name")
}

shop_up()
{
	lab up 2
	lab apply "$SHOP"
	local index
	for index in 1 2; do
		shop_pod "node$index" "web-$index"
		shop_pod "node$index" "lookup-$index"
		shop_pod "node$index" "client-$index"
		serve "web-$index" "web-$index" --tcp 8080
		serve "lookup-$index" "lookup-$index" --udp 5353
		on "web-$index" iperf3 -s -D >/dev/null
	done
	serve world world --tcp 8080 --udp 5353
	serve node1 node1 --tcp 2222 --udp 2222
	serve node2 node2 --tcp 2222 --udp 2222
	WEB=$(shop_service web .spec.clusterIP)
	LOOKUP=$(shop_service lookup .spec.clusterIP)
	EMPTY=$(shop_service empty .spec.clusterIP)
	EMPTY_PORT=$(shop_service empty '.spec.ports[0].port')
	other_network_up
	wait_for 5 ask client-1 tcp "$WEB:80"
	wait_for 5 ask client-2 udp "$LOOKUP:53"
}

# A foreign container network: a bridge on node1, masqueraded by iptables or ip6tables.
other_network_up()
{
	ip netns add "$MK_LAB.other"
	ip link add eth0 netns "$MK_LAB.other" type veth peer name other0 netns "$MK_LAB.node1"
	# shellcheck disable=SC2016 # the arguments are that shell's
	on node1 sh -e -c '
		ip link add other-br type bridge
		echo 0 >/proc/sys/net/ipv6/conf/other-br/disable_ipv6
		[ "$2" = iptables ] || echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
		ip addr add "${0}1/$1" dev other-br $3
		ip link set other0 master other-br up
		ip link set other-br up
		$2 -t nat -A POSTROUTING -s "${0}0/$1" ! -o other-br -j MASQUERADE
		$2 -t nat -A PREROUTING -p tcp --dport 8088 -j DNAT --to-destination "$4"' \
		"$OTHER_NET" "$BITS" "$IPTABLES" "$NODAD" "$OTHER:8080"
	ip -n "$MK_LAB.other" link set lo up
	ip netns exec "$MK_LAB.other" sh -c 'echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6'
	ip -n "$MK_LAB.other" addr add "${OTHER_NET}2/$BITS" dev eth0 ${NODAD:+nodad}
	ip -n "$MK_LAB.other" link set eth0 up
	ip -n "$MK_LAB.other" route add default via "${OTHER_NET}1"
	ip netns exec "$MK_LAB.other" "$HERE/echo.py" serve --name other --tcp 8080 >/dev/null 2>&1 </dev/null &
	wait_for 5 ip netns exec "$MK_LAB.other" "$HERE/echo.py" ask tcp "$OTHER:8080"
}

# ---- ways to measure

# ping_ms FROM ADDRESS: mean round trip of five
ping_ms()
{
	local out
	out=$(on "$1" ping -q -c 5 -i 0.02 -W 2 "$2" || true)
	expect_match "ping from $1 to $2" ' 5 received' "$(grep transmitted <<<"$out" || true)"
	sed -nE 's|^rtt [^=]*= [^/]*/([^/]*)/.*|\1 ms|p' <<<"$out"
}

# exchange FROM PROTO ADDRESS:PORT SERVERS SEEN [ASK ARGS...]: five exchanges. The server is one of
# SERVERS (a regular expression), and sees SEEN as the client's address. Prints the mean time.
exchange()
{
	local out line
	out=$(ask "$1" "$2" "$3" --count 5 --time "${@:6}" || true)
	expect_eq "answers from $3 over $2 to $1 ($out)" 6 "$(wc -l <<<"$out")"
	while read -r line; do
		expect_match "answer from $3 over $2 to $1" "^($4) $5 " "$line"
	done < <(head -n 5 <<<"$out")
	tail -n 1 <<<"$out"
}

# answerers FROM PROTO ADDRESS:PORT: who answers 24 exchanges, each once
answerers() { ask "$1" "$2" "$3" --count 24 | cut -d' ' -f1 | sort -u | xargs; }

# throughput FROM ADDRESS
throughput()
{
	local out
	out=$(on "$1" iperf3 -c "$2" -t 2 -J || true)
	expect_match "iperf3 from $1 to $2" '^[0-9]' "$(jq -r '.end.sum_received.bits_per_second // .error' <<<"$out")"
	jq -r '.end.sum_received.bits_per_second / 1e9 * 100 | round / 100 | "\(.) Gbit/s"' <<<"$out"
}

# refused FROM PROTO ADDRESS:PORT: at once, and not after a timeout
refused()
{
	local status=0 out
	out=$(ask "$@" --timeout 2 --time) || status=$?
	expect_eq "$2 from $1 to $3 (exit status 3 is refused)" "3 refused" "$status ${out%%$'\n'*}"
	tail -n 1 <<<"$out"
}

# ---- the paths

path_1_ping() { ping_ms client-1 "${ADDR[web-1]}"; }
path_1_back() { ping_ms web-1 "${ADDR[client-1]}"; }
path_1_tcp() { exchange client-1 tcp "${ADDR[web-1]}:8080" web-1 "${ADDR[client-1]}"; }
path_1_udp() { exchange client-1 udp "${ADDR[lookup-1]}:5353" lookup-1 "${ADDR[client-1]}"; }
path_1_bulk() { throughput client-1 "${ADDR[web-1]}"; }

path_2_ping() { ping_ms client-1 "${ADDR[web-2]}"; }
path_2_back() { ping_ms web-2 "${ADDR[client-1]}"; }
path_2_tcp() { exchange client-1 tcp "${ADDR[web-2]}:8080" web-2 "${ADDR[client-1]}"; }
path_2_udp() { exchange client-2 udp "${ADDR[lookup-1]}:5353" lookup-1 "${ADDR[client-2]}"; }
path_2_bulk() { throughput client-1 "${ADDR[web-2]}"; }

# One FDB entry per other node: no multicast group, no flooding, nothing learned.
path_2_fdb()
{
	local fdb
	fdb=$(on node1 bridge fdb show dev mkvxlan | grep -c ' dst ' || true)
	expect_eq "FDB entries of node1 with a destination" 1 "$fdb"
	expect_match "FDB of node1" "dst $NODE2 " "$(on node1 bridge fdb show dev mkvxlan | xargs) "
	expect_match "device mkvxlan" 'nolearning' "$(on node1 ip -d link show mkvxlan | xargs)"
	expect_failure grep -E 'vxlan id .* group [0-9]' <(on node1 ip -d link show mkvxlan)
	echo "1 entry"
}

path_3_local() { exchange node1 tcp "${ADDR[web-1]}:8080" web-1 "$VTEP1"; }
path_3_remote() { exchange node1 tcp "${ADDR[web-2]}:8080" web-2 "$VTEP1"; }
path_3_remote_ping() { ping_ms node1 "${ADDR[web-2]}"; }
path_3_back() { exchange web-1 tcp "$NODE1:2222" node1 "${ADDR[web-1]}"; }
path_3_back_udp() { exchange web-1 udp "$NODE1:2222" node1 "${ADDR[web-1]}"; }
path_3_other_node() { exchange web-1 tcp "$NODE2:2222" node2 "$NODE1"; }

path_4_tcp()
{
	exchange client-1 tcp "$WEB:80" "web-[12]" "${ADDR[client-1]}"
}
path_4_udp()
{
	exchange client-2 udp "$LOOKUP:53" "lookup-[12]" "${ADDR[client-2]}"
}
path_4_both()
{
	expect_eq "who answers for web" "web-1 web-2" "$(answerers client-1 tcp "$WEB:80")"
	expect_eq "who answers for lookup" "lookup-1 lookup-2" "$(answerers client-1 udp "$LOOKUP:53")"
	echo "both answer"
}
# Over IPv6 the SYN's repetition is refused: Linux drops an ICMPv6 error that comes while connect()
# holds the socket, also one of ip6tables.
path_4_empty_tcp() { refused client-1 tcp "$EMPTY:$EMPTY_PORT"; }
path_4_empty_udp() { refused client-1 udp "$EMPTY:$EMPTY_PORT"; }

path_5_tcp() { exchange node1 tcp "$WEB:80" "web-[12]" "$VTEP1"; }
path_5_udp() { exchange node2 udp "$LOOKUP:53" "lookup-[12]" "$VTEP2"; }
path_5_both()
{
	expect_eq "who answers node1 for web" "web-1 web-2" "$(answerers node1 tcp "$WEB:80")"
	echo "both answer"
}

path_6_tcp() { exchange client-1 tcp "$FAR:8080" world "$NODE1"; }
path_6_udp() { exchange client-2 udp "$FAR:5353" world "$NODE2"; }
path_6_ping() { ping_ms client-1 "$FAR"; }

# The backend is on the other node in about half of the exchanges; then it sees the virtual pod
# address of the node that was asked.
path_7_cluster()
{
	local out line other=0
	out=$(ask world tcp "$NODE1:30080" --count 24 --time)
	while read -r line; do
		[[ $line != web-2* ]] || {
			expect_match "what web-2 saw" "^web-2 $VPOD1 " "$line"
			other=$((other + 1))
		}
	done <<<"$out"
	expect_eq "answers" 25 "$(wc -l <<<"$out")"
	((other > 0)) || expect_eq "answers of web-2" "some of 24" 0
	tail -n 1 <<<"$out"
}
path_7_far() { exchange world tcp "$NODE2:30080" "web-[12]" ".*" --from "$FAR"; }
path_7_local() { exchange world tcp "$NODE1:30081" web-1 "$WORLD"; }
path_7_local_2() { exchange world tcp "$NODE2:30081" web-2 "$WORLD"; }

path_8()
{
	local out
	out=$(ask web-1 tcp "$WEB:80" --count 24 --time)
	expect_eq "answers" 25 "$(wc -l <<<"$out")"
	expect_match "who answers web-1" "web-1 " "$out"
	tail -n 1 <<<"$out"
}

# forged PORT FROM REASON ARGS...: web-2 receives the valid packets and none of the forged ones; the
# drop counter increases by as many.
forged()
{
	local port=$1 from=$2 reason=$3 before log=$TMP/forged.$1
	shift 3
	on web-2 "$HERE/echo.py" serve --name web-2 --udp "$port" --log >"$log" 2>&1 </dev/null &
	wait_for 10 grep -q serving "$log"
	before=$(drop_count node1 "$reason")
	on "$from" "$HERE/forge.py" "${ADDR[web-2]}" "$port" --sport 1111 --count 10 "$@"
	on "$from" "$HERE/forge.py" "${ADDR[web-2]}" "$port" --sport 2222
	wait_for 5 grep -q ' 2222 ' "$log"
	expect_failure grep ' 1111 ' "$log"
	expect_eq "drops of node1 because of $reason" $((before + 10)) "$(drop_count node1 "$reason")"
	echo "10 of 10 dropped"
}
path_9_address() { forged 7001 web-1 SPOOFED_ADDRESS --source "$FREE"; }
path_9_mac() { forged 7002 web-1 SPOOFED_MAC --source-mac 02:00:00:00:00:99; }

path_10_in() { exchange world tcp "$NODE1:2222" node1 "$WORLD"; }
path_10_out() { exchange node1 udp "$FAR:5353" world "$NODE1"; }
path_10_other_out()
{
	local out
	out=$(ip netns exec "$MK_LAB.other" "$HERE/echo.py" ask tcp "$WORLD:8080" --count 5 --time || true)
	expect_match "answer to the other container network" "^world $NODE1 " "$out"
	expect_eq "answers" 6 "$(wc -l <<<"$out")"
	tail -n 1 <<<"$out"
}
path_10_other_in() { exchange world tcp "$NODE1:8088" other "$WORLD"; }

shop_family "${MK_LAB_FAMILY:-4}"

# number|what|from|to|function
# shellcheck disable=SC2034 # walked by the demo and by t_paths.sh
PATHS=(
	"1|pod to pod, same node: ping|client-1|web-1|path_1_ping"
	"1|  and the other way|web-1|client-1|path_1_back"
	"1|  TCP|client-1|web-1|path_1_tcp"
	"1|  UDP|client-1|lookup-1|path_1_udp"
	"1|  TCP, bulk|client-1|web-1|path_1_bulk"
	"2|pod to pod, other node: ping|client-1|web-2|path_2_ping"
	"2|  and the other way|web-2|client-1|path_2_back"
	"2|  TCP|client-1|web-2|path_2_tcp"
	"2|  UDP|client-2|lookup-1|path_2_udp"
	"2|  TCP, bulk|client-1|web-2|path_2_bulk"
	"2|  one FDB entry per node, no learning|node1|node2|path_2_fdb"
	"3|host to local pod|node1|web-1|path_3_local"
	"3|host to remote pod|node1|web-2|path_3_remote"
	"3|  ping|node1|web-2|path_3_remote_ping"
	"3|pod to its node, TCP|web-1|node1|path_3_back"
	"3|  UDP|web-1|node1|path_3_back_udp"
	"3|pod to another node, masqueraded|web-1|node2|path_3_other_node"
	"4|pod to ClusterIP, TCP|client-1|web|path_4_tcp"
	"4|  UDP|client-2|lookup|path_4_udp"
	"4|  backends on both nodes|client-1|web, lookup|path_4_both"
	"4|  no backends, TCP|client-1|empty|path_4_empty_tcp"
	"4|  no backends, UDP|client-1|empty|path_4_empty_udp"
	"5|host to ClusterIP, TCP|node1|web|path_5_tcp"
	"5|  UDP|node2|lookup|path_5_udp"
	"5|  backends on both nodes|node1|web|path_5_both"
	"6|pod to outside, masqueraded, TCP|client-1|world|path_6_tcp"
	"6|  UDP|client-2|world|path_6_udp"
	"6|  ping|client-1|world|path_6_ping"
	"7|NodePort, Cluster, backend elsewhere|world|node1:30080|path_7_cluster"
	"7|  from an address behind world|world|node2:30080|path_7_far"
	"7|NodePort, Local, address preserved|world|node1:30081|path_7_local"
	"7|  other node|world|node2:30081|path_7_local_2"
	"8|a pod reaches itself by its Service|web-1|web|path_8"
	"9|spoofed address, dropped, counted|web-1|web-2|path_9_address"
	"9|spoofed MAC, dropped, counted|web-1|web-2|path_9_mac"
	"10|not ours: to the node|world|node1:2222|path_10_in"
	"10|not ours: from the node|node1|world|path_10_out"
	"10|other container network, masqueraded|other|world|path_10_other_out"
	"10|other container network, port mapped|world|node1:8088|path_10_other_in"
)
