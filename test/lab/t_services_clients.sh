#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_services_clients.sh - a Service's rules for its clients: session affinity and source
# ranges, with real sockets; the answers of its addresses besides its ports; and an agent's restart
# changes none of it.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/services.sh
. "$HERE/lib/services.sh"

number sticky 1
number ranged 2
number nodes-only 3
number plain 4
number odd 5
number last 9
ALL=(web-1 web-2 node1 node2) # endpoints of sticky

objects()
{
	service sticky LoadBalancer 'sessionAffinity: ClientIP'
	service ranged LoadBalancer 'loadBalancerSourceRanges: [" 203.0.113.0/24 "]'
	service nodes-only LoadBalancer "loadBalancerSourceRanges: [${ADDR[node1]}/$BITS, ${ADDR[client-2]}/$BITS]"
	service plain LoadBalancer
	endpoints ranged web-2
	endpoints nodes-only web-2
	endpoints plain web-2
	service odd LoadBalancer |
		sed 's/^status:.*/status: {loadBalancer: {ingress: [{ip: 127.0.0.1}, {ip: 169.254.7.7}]}}/'
	endpoints odd web-2
	service last NodePort # its node port is the highest
	endpoints last web-2
}

ODD=(
	"link-local load balancer: pod|client-1|tcp udp|169.254.7.7:80|web-2|vpod1"
	"link-local load balancer: host|node1|tcp udp|169.254.7.7:80|web-2|vtep1"
	"beside a load balancer of loopback: ClusterIP|client-1|tcp udp|vip odd|web-2|client-1"
	"beside a load balancer of loopback: NodePort|world|tcp udp|node1 odd|web-2|vpod1"
	"beside a load balancer of loopback: it stays the host's|node1|tcp udp|127.0.0.1:80|refused|"
)
named_in_the_log()
{
	expect_eq "lines of node1's log" 1 "$(lab log node1 | grep -cF 'skipped: Service default/odd: status.loadBalancer.ingress[0].ip: value "'"$LOCALHOST"'"')"
}

RANGES=(
	"source ranges: a client inside|world@far|tcp udp|lb1 ranged|web-2|vpod1"
	"source ranges: a client outside|world|tcp udp|lb1 ranged|silent|node1 SOURCE_RANGE"
	"source ranges: a pod is outside, too|client-1|tcp udp|lb1 ranged|silent|node1 SOURCE_RANGE"
	"source ranges: so is a host|node1|tcp udp|lb1 ranged|silent|node1 SOURCE_RANGE"
	"source ranges: externalIPs take everybody|world|tcp udp|ext1 ranged|web-2|vpod1"
	"source ranges: node ports take everybody|world|tcp udp|node1 ranged|web-2|vpod1"
	"source ranges: the ClusterIP takes everybody|client-1|tcp udp|vip ranged|web-2|client-1"
	"source ranges: a node's own address is its host|node1|tcp udp|lb1 nodes-only|web-2|vtep1"
	"source ranges: another node's host is not|node3|tcp udp|lb3 nodes-only|silent|node3 SOURCE_RANGE"
	"source ranges: a pod inside|client-2|tcp udp|lb1 nodes-only|web-2|vpod2"
)

refusals()
{
	local kind address
	for kind in "load balancer" externalIP; do
		[[ $kind == externalIP ]] && address=$(external 1 plain) || address=$(lb 1 plain)
		echo "unknown port of an address of kind $kind: pod|client-1|tcp udp|$address:4711|refused|"
		echo "unknown port of an address of kind $kind: host|node1|tcp udp|$address:4711|refused|"
		echo "unknown port of an address of kind $kind: world|world|tcp udp|$address:4711|refused|"
	done
	echo "unknown port of a ClusterIP: world|world|tcp udp|$(vip plain):4711|refused|"
}

pinged() { ip netns exec "$MK_LAB.$1" ping -c 2 -i 0.2 -W 2 -q "$2"; }
pings()
{
	local address
	for address in "$(vip plain)" "$(lb 1 plain)" "$(external 1 plain)"; do
		pinged world "$address"
		lab exec client-1 ping -c 2 -i 0.2 -W 2 -q "$address"
		on node1 ping -c 2 -i 0.2 -W 2 -q "$address"
	done
}

# comes_back FROM PROTO TO...: by whichever address, it is one endpoint
comes_back()
{
	local from=$1 proto=$2 to all=''
	shift 2
	for to in "$@"; do
		all+=" $(answerers "$from" "$proto" "$to")"
	done
	expect_eq "endpoints that $from met at $*" 1 "$(xargs -n 1 <<<"$all" | sort -u | wc -l)"
}

leaves()
{
	local first who rest=()
	first=$(answerers client-3 tcp "vip sticky")
	lab apply "$TMP/services.yaml" # as it was: nothing moves
	expect_eq "endpoint of client-3" "$first" "$(answerers client-3 tcp "vip sticky")"
	for who in "${ALL[@]}"; do
		[[ $who == "$first" ]] || rest+=("$who")
	done
	endpoints sticky "${rest[@]}" | apply sticky
	wait_for 10 has_left "$first"
	comes_back client-3 tcp "vip sticky" "lb3 sticky"
}
has_left() { [[ $(answerers client-3 tcp "vip sticky") != *"$1"* ]]; }

tables() { on node1 bpftool map dump pinned "$PINS/$1" | sort; }
restart_changes_nothing()
{
	local map
	wait_for 25 as_many_members_as_endpoints # they go with a pass of the sweep: 15 s on a calm node
	for map in frontends affinity_backends source_ranges; do
		tables "$map" >"$TMP/$map.before"
	done
	lab agent stop node1
	lab agent start node1
	for map in frontends affinity_backends source_ranges; do
		diff "$TMP/$map.before" <(tables "$map")
	done
	comes_back client-1 tcp "vip sticky"
}
# replaced generations are removed a while later
as_many_members_as_endpoints()
{
	# two ports, three endpoints left
	(($(tables affinity_backends | grep -c set_id) == 6))
}

# On, as by default: the node's own processes, by any loopback address; a port without endpoints is
# refused.
localhost_node_ports()
{
	local port=$((30000 + NUMBER[plain]))
	flow node1 tcp "127.0.0.1:$port" web-2 vpod1
	flow node1 udp "127.0.0.1:$port" web-2 vpod1
	flow node1 tcp "127.0.0.53:$port" web-2 vpod1
	flow node1 tcp "node1 plain" web-2 node1
	endpoints plain | apply plain
	wait_for 10 refused node1 tcp "127.0.0.1:$port"
	refused node1 udp "127.0.0.1:$port"
	endpoints plain web-2 | apply plain
	wait_for 10 flow node1 tcp "127.0.0.1:$port" web-2 vpod1
}
# The host's own traffic: on a port between two NodePorts, and a client whose port equals a
# NodePort.
localhost_is_the_hosts()
{
	local port=$((30000 + NUMBER[plain])) between=$((30000 + NUMBER[last] - 1))
	serve node3 own --tcp "$between" --udp "$between"
	wait_for 10 answers node3 tcp "127.0.0.1:$between" own
	answers node3 udp "127.0.0.1:$between" own
	on node3 python3 - "$port" "$between" "$LOCALHOST" <<-'END'
		import socket, sys
		family = socket.AF_INET6 if ":" in sys.argv[3] else socket.AF_INET
		port, server = int(sys.argv[1]), int(sys.argv[2])
		for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM:
		    with socket.socket(family, kind) as client:
		        client.settimeout(3)
		        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
		        client.bind((sys.argv[3], port))
		        client.connect((sys.argv[3], server))
		        client.send(b"x\n")
		        assert client.recv(100), f"no answer to a client with port {port}"
	END
}
localhost_off()
{
	lab agent stop node1
	MK_AGENT_FLAGS='--localhost-node-ports false' lab agent start node1
	wait_for 10 refused node1 tcp "127.0.0.1:$((30000 + NUMBER[plain]))"
	flow node1 tcp "node1 plain" web-2 node1
}

services_lab_up
objects | apply services
endpoints sticky "${ALL[@]}" | apply sticky
wait_for 10 flow client-3 udp "vip plain" web-2 client-3
wait_for 10 flow world udp "node2 plain" web-2 vpod2
wait_for 10 flow client-1 udp "vip plain" web-2 client-1

check_flows "${RANGES[@]}"
check_flows "${ODD[@]:2}"
ipv4_only "an address of fe80::/10 needs an interface" check_flows "${ODD[@]:0:2}"
check "an address that is passed over is named in the log, once" named_in_the_log
mapfile -t REFUSALS < <(refusals)
check_flows "${REFUSALS[@]}"
check "addresses of Services answer pings of world, pods and hosts" pings
for proto in tcp udp; do
	check "affinity: a pod comes back to its endpoint, ${proto^^}" comes_back client-1 "$proto" "vip sticky"
	check "affinity: by every address of the port, ${proto^^}" \
		comes_back client-1 "$proto" "vip sticky" "lb1 sticky" "ext2 sticky" "node1 sticky"
	check "affinity: a host, ${proto^^}" comes_back node1 "$proto" "vip sticky" "lb1 sticky"
	check "affinity: world, ${proto^^}" comes_back world "$proto" "lb1 sticky" "ext1 sticky" "node1 sticky"
done
check "affinity: an endpoint that leaves loses its clients" leaves
check "a restart changes neither affinity nor ranges" restart_changes_nothing
check "localhostNodePorts" localhost_node_ports
check "localhostNodePorts: ports that are no NodePort's stay the host's, and so do its clients" localhost_is_the_hosts
check "localhostNodePorts: false" localhost_off
finish
