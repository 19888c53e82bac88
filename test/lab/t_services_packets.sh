#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_services_packets.sh - packets besides requests and answers: fragments, ICMP errors to
# either side, path MTU, pings, packets of no connection, unassigned addresses. Nothing loops, and
# no pod's address is ever seen outside.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/services.sh
. "$HERE/lib/services.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"
declare -A PIPES=()

NARROW=192.0.2.2 # behind world, by a path of 1300 bytes
UNUSED=10.96.200.1
RESET='tcp[tcpflags] & tcp-rst != 0'
[[ $FAMILY == 4 ]] || RESET='ip6[6] == 6 and ip6[53] & 4 != 0'
number one 1
number one-local 2
number host 3
number closed 4
number narrow 5
number late 6

# outside SERVICE: its endpoint is not a pod
outside()
{
	endpoints "$1" narrow | sed 's/nodeName: [^,]*, //'
}

# late's endpoints have port 6353
objects()
{
	service one LoadBalancer
	endpoints one web-2
	service one-local LoadBalancer 'externalTrafficPolicy: Local'
	endpoints one-local web-2
	service host LoadBalancer
	endpoints host node1
	service closed LoadBalancer
	endpoints closed web-2 | sed 's/8080/4711/; s/5353/4712/'
	service narrow LoadBalancer
	outside narrow
	service late LoadBalancer
	endpoints late web-2 | sed 's/5353/6353/'
}

# A separate host on the underlay: the router's (world's) ICMP errors must not come back through
# world.
other_up()
{
	ip netns add "$MK_LAB.other"
	ip link add eth0 netns "$MK_LAB.other" type veth peer name other netns "$MK_LAB.underlay"
	ip -n "$MK_LAB.underlay" link set other master br0 up
	ip -n "$MK_LAB.other" addr add 192.168.99.201/24 dev eth0
	ip -n "$MK_LAB.other" link set eth0 up
	ip -n "$MK_LAB.other" route add "$SERVICE_CIDR" via "${ADDR[node1]}"
}

# A host behind a path with a smaller MTU than the nodes' network, in one direction.
narrow_up()
{
	ADDR[narrow]=$NARROW
	HOME_OF[narrow]=none
	ip netns add "$MK_LAB.narrow"
	ip link add eth0 netns "$MK_LAB.narrow" type veth peer name narrow0 netns "$MK_LAB.world"
	ip -n "$MK_LAB.world" addr add 192.0.2.1/24 dev narrow0
	ip -n "$MK_LAB.world" link set narrow0 up
	ip -n "$MK_LAB.world" route add "$NARROW/32" dev narrow0 mtu lock 1300
	forward_in world
	ip -n "$MK_LAB.narrow" addr add "$NARROW/24" dev eth0
	ip -n "$MK_LAB.narrow" link set lo up
	ip -n "$MK_LAB.narrow" link set eth0 up
	ip -n "$MK_LAB.narrow" route add default via 192.0.2.1
	outsider narrow serve --name narrow --tcp 8080 --udp 5353 >/dev/null 2>&1 </dev/null &
	wait_for 5 outsider narrow ask tcp 127.0.0.1:8080
}
outsider() { ip netns exec "$MK_LAB.$1" "$HERE/echo.py" "${@:2}"; }

# ---- fragments: 5000 bytes there and back, unharmed (the digest says so)

# name|from|to|who|sees
FRAGMENTS=(
	"pod to ClusterIP, endpoint elsewhere|client-1|vip one|web-2|client-1"
	"pod to ClusterIP, endpoint on its node|client-2|vip one|web-2|client-2"
	"the pod itself|web-2|vip one|web-2|vpod2"
	"host to ClusterIP|node1|vip one|web-2|vtep1"
	"world to ClusterIP|world|vip one|web-2|vpod1"
	"world to NodePort, endpoint elsewhere|world|node1 one|web-2|vpod1"
	"world to NodePort, endpoint on the node|world|node2 one|web-2|vpod2"
	"world to NodePort, policy Local|world@far|node2 one-local|web-2|far"
	"pod to NodePort of another node|client-1|node3 one|web-2|vpod3"
	"host to NodePort of another node|node1|node3 one|web-2|vpod3"
	"world to load balancer|world|lb3 one|web-2|vpod3"
	"world to externalIP|world|ext1 one|web-2|vpod1"
	"pod to load balancer|client-1|lb1 one|web-2|vpod1"
	"pod to externalIP, policy Local|client-1|ext1 one-local|web-2|client-1"
	"pod to a node's process|client-1|vip host|node1|client-1"
	"pod to another node's process|client-2|vip host|node1|node2"
	"world to a node's process|world|node1 host|node1|vpod1"
	"pod to an endpoint outside|client-1|vip narrow|narrow|node1"
)
# No router cuts packets of IPv6: client and server each lose a datagram, and learn the path's MTU.
learn_mtu()
{
	for _ in request answer; do
		ask_from "$1" udp "$2" --size 5000 --want 5000 --timeout 0.3 >/dev/null || true
	done
}
check_fragments()
{
	local row name from to who sees
	for row in "${FRAGMENTS[@]}"; do
		IFS='|' read -r name from to who sees <<<"$row"
		[[ $FAMILY == 4 ]] || learn_mtu "$from" "$(where "$to")"
		check "UDP of 5000 bytes: $name" answered "$from" udp "$(where "$to")" "$who" "$sees" \
			--size 5000 --want 5000
		check "UDP of 5000 bytes, the last fragment first: $name" answered "$from" udp "$(where "$to")" \
			"$who" "$sees" --size 5000 --backwards 1200
	done
}

# ---- ICMP errors

# Nothing listens at the endpoint: its kernel's reset or port unreachable returns as the Service's.
CLOSED=(
	"closed port of the endpoint: pod to ClusterIP|client-1|tcp udp|vip closed|refused|"
	"closed port of the endpoint: the pod itself|web-2|tcp udp|vip closed|refused|"
	"closed port of the endpoint: host to ClusterIP|node1|tcp udp|vip closed|refused|"
	"closed port of the endpoint: world to NodePort|world|tcp udp|node1 closed|refused|"
	"closed port of the endpoint: world to NodePort, endpoint here|world|tcp udp|node2 closed|refused|"
	"closed port of the endpoint: world to load balancer|world@far|tcp udp|lb3 closed|refused|"
	"closed port of the endpoint: pod to externalIP|client-3|tcp udp|ext1 closed|refused|"
)

# echo_at WHERE ARGS...: WHERE may be `narrow` or `other`, which are not part of the lab
echo_at()
{
	case $1 in
	narrow | other) outsider "$1" ask "${@:2}" ;;
	*) ask "$@" ;;
	esac
}
path_mtu() { expect_eq "path MTU that $1 learns for $2" 1300 "$(echo_at "$1" udp "$(where "$2")" --path-mtu --size 1350 --timeout 5 || true)"; }
# large FROM TO WHO ARGS...: a TCP sender without an error waits for ever, with its first full
# segment. (The server answers each read: a request in two parts has the digest of its first part.)
large() { expect_match "answer from $2 to $1" "^(damaged: )?$3 " "$(echo_at "$1" tcp "$(where "$2")" --timeout 5 "${@:4}" || true)"; }
large_request() { large "$1" "$2" narrow --size 60000; }
large_answer() { large narrow "$1" web-2 --want 60000; }

late_up()
{
	mkfifo "$TMP/late.in"
	on web-2 "$HERE/late.py" 6353 <"$TMP/late.in" >"$TMP/late.out" 2>&1 &
	exec {late}>"$TMP/late.in"
	wait_for 5 grep serving "$TMP/late.out"
}
# One datagram and its answer, then the socket is closed.
ask_briefly()
{
	local to
	to=$(where "$2" | tr -d '[]')
	on "$1" bash -c 'exec {sock}<>"/dev/udp/$0/$1"; echo hello >&$sock; read -r -N 1 -t 3 -u $sock' "${to%:*}" "${to##*:}"
}
says_more() { (($(wc -l <"$TMP/late.out") >= $1)); }
# The server's second answer finds the client's socket closed: the error must reach the server.
error_to_server()
{
	local before sees=${ADDR[$3]}
	before=$(wc -l <"$TMP/late.out")
	ask_briefly "$1" "$2"
	echo >&"$late"
	wait_for 5 says_more "$((before + 2))"
	expect_eq "what the server heard" "asked $sees $sees refused" "$(tail -n "+$((before + 1))" "$TMP/late.out" | xargs)"
}

# ---- pings

ping_answered() { on "$1" ping -c 2 -i 0.05 -W 2 "$2" | grep ' 2 received'; }
# ---- packets of no connection

# On an open connection the endpoint sends packets that its client's TCP does not expect. With the
# Service's address they are ignored; with the pod's they would be answered with a reset.
stray_answer()
{
	local port
	port=$(tail -n 1 "$TMP/open.out" | cut -d' ' -f3)
	on client-1 timeout 20 tcpdump -l -n -i eth0 "src ${ADDR[web-2]} or ($RESET)" \
		>"$TMP/stray" 2>"$TMP/stray.err" &
	wait_for 5 grep 'listening on' "$TMP/stray.err"
	on web-2 "$HERE/forge.py" "${ADDR[client-1]}" "$port" --tcp --sport 8080 --count 10
	pulse 2
	kill $!
	wait $! || true
	expect_eq "packets that client-1 saw of the pod itself" "" "$(<"$TMP/stray")"
}

# From a pod to outside, and a Service's answer to a client outside that has no connection.
strays_to_world()
{
	on web-2 "$HERE/forge.py" "${ADDR[world]}" 5000 --tcp --sport 8080 --count 5
	on web-2 "$HERE/forge.py" "${ADDR[vpod1]}" 5000 --tcp --sport 8080 --count 5
	flow world tcp "node1 one" web-2 vpod1
}

# ---- unassigned addresses, loops

UNUSED_ROWS=(
	"unused address of the Service range: pod|client-1|tcp udp|$UNUSED:80|silent|node1 NO_ROUTE"
	"unused address of the Service range: host|node2|tcp udp|$UNUSED:80|silent|node2 NO_ROUTE"
	"unused address of the Service range: world|world|tcp udp|$UNUSED:80|silent|node1 NO_ROUTE"
)
unused_ping()
{
	expect_match "ping to $UNUSED" ' 0 received, 100% packet loss' "$(on "$1" ping -q -c 1 -W 0.3 "$UNUSED" || true)"
}

# snmp WHERE FIELD: from /proc/net/snmp, which names its columns in a line before, or snmp6
snmp()
{
	if [[ $FAMILY == 6 ]]; then
		on "$1" cat /proc/net/snmp6 | awk -v want="6$2" '$1 ~ "^I.*" want "$" { print $2 }'
		return
	fi
	on "$1" cat /proc/net/snmp | awk -v want="$2" '
		$1 in names { split(names[$1], name); for (i = 2; i <= NF; i++) if (name[i] == want) print $i; next }
		{ names[$1] = $0 }'
}
FORWARDED=$([[ $FAMILY == 4 ]] && echo ForwDatagrams || echo OutForwDatagrams)
forwarded() { local where sum=0; for where in world "${NODES[@]}"; do sum=$((sum + $(snmp "$where" "$FORWARDED") + $(snmp "$where" OutTimeExcds))); done; echo "$sum"; }

# To all addresses and ports that no Service serves. A looping packet would be forwarded some 60
# times.
nothing_loops()
{
	local before from to after
	before=$(forwarded)
	for from in world client-1 node1; do
		for to in "$UNUSED:80" "$(vip one):4711" "$(lb 1 one):4711" "$(external 2 one):4711" "${ADDR[node1]}:31999" "${ADDR[node2]}:31999"; do
			ask "$from" udp "$to" --timeout 0.2 || true
			ask "$from" tcp "$to" --timeout 0.2 || true
		done
		on "$from" ping -q -c 1 -W 0.2 "$UNUSED" || true
		on "$from" ping -q -c 1 -W 0.2 "$(vip one)" || true
		on "$from" ping -q -c 1 -W 0.2 "$(lb 2 one)" || true
	done
	after=$(forwarded)
	((after - before < 50)) || expect_eq "packets forwarded by hosts" "below $((before + 50))" "$after"
}

# world captures from the beginning: pod and overlay addresses stay inside.
watch_world()
{
	on world tcpdump -l -n -i eth0 'net 10.244.0.0/16 or net 10.18.0.0/16' \
		>"$TMP/outside" 2>"$TMP/outside.err" &
	wait_for 5 grep 'listening on' "$TMP/outside.err"
}
nothing_inside_outside()
{
	on client-1 ping -c 1 -W 2 "${ADDR[world]}"
	expect_eq "packets with addresses of pods or of the overlay that world saw" "" "$(<"$TMP/outside")"
}

services_lab_up
narrow_up
other_up
objects | apply services
late_up
for last in client-1 client-2 client-3; do
	wait_for 10 flow "$last" udp "vip one-local" web-2 "$last"
done
wait_for 10 flow world udp "node1 host" node1 vpod1
wait_for 10 flow client-1 udp "vip narrow" narrow node1
watch_world
check_fragments
check_flows "${CLOSED[@]}"
check "path MTU through a ClusterIP, pod" path_mtu client-1 "vip narrow"
check "path MTU through a ClusterIP, host" path_mtu node1 "vip narrow"
check "path MTU through a load-balancer address, pod" path_mtu client-2 "lb1 narrow"
check "path MTU through a NodePort, a client outside" path_mtu other "node1 narrow"
check "path MTU through a ClusterIP, a client outside" path_mtu other "vip narrow"
check "large TCP request through a ClusterIP, pod" large_request client-1 "vip narrow"
check "large TCP request through a ClusterIP, host" large_request node2 "vip narrow"
check "large TCP request through a NodePort, a client outside" large_request other "node2 narrow"
check "large TCP answer through a NodePort, endpoint elsewhere" large_answer "node1 one"
check "large TCP answer through a NodePort, endpoint here" large_answer "node2 one"
check "large TCP answer through a load-balancer address, policy Local" large_answer "lb2 one-local"
check "ICMP error to the server: pod's ClusterIP flow" error_to_server client-1 "vip late" client-1
check "ICMP error to the server: host's ClusterIP flow" error_to_server node1 "vip late" vtep1
check "ICMP error to the server: world's NodePort flow" error_to_server world "node1 late" vpod1
check "ICMP error to the server: world's load balancer flow" error_to_server world "lb2 late" vpod2
for from in client-1 node1 world; do
	check "a ClusterIP answers a ping, $from" ping_answered "$from" "$(vip closed)"
	check "a load-balancer address answers a ping, $from" ping_answered "$from" "$(lb 1 closed)"
done
check_flows "${UNUSED_ROWS[@]:0:2}"
ipv4_only "a host that does not forward drops these itself, uncounted" check_flows "${UNUSED_ROWS[@]:2}"
for from in client-1 node1 world; do
	check "an unused address of the Service range answers no ping, $from" unused_ping "$from"
done
hold open client-1 "$(where "vip one")"
check "a TCP segment that the client does not expect is translated too" stray_answer
check "TCP segments of no connection leave masqueraded, or not at all" strays_to_world
check "nothing loops" nothing_loops
check "world never sees an address of a pod or of the overlay" nothing_inside_outside
finish
