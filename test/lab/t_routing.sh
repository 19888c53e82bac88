#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_routing.sh - the host's routing applies to pods: a second network without an address of
# the Node, a tunnel without Ethernet, routes that forbid, rules that choose by source. `side` is
# behind both: on the network stor0 of node1 and at the other end of its tunnel. All is tested with
# rp_filter 0, 1 and 2, and without a load of the programs.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"

STORAGE=10.50.0.1	# of node1
SIDE=10.50.0.2
TUNNEL=10.77.0.1	# of node1
FAR_END=10.77.0.2
BEHIND=203.0.113.99	# of side, for those whom a rule sends there
VIP=10.96.85.1
EXTERNAL=198.51.100.85

# `side` is no machine of the lab's
on()
{
	if [[ $1 == side ]]; then
		ip netns exec "$MK_LAB.side" "${@:2}"
	else
		"$HERE/lab" exec "$@"
	fi
}

explain() { lab log node1 | tail -n 20; echo "drops of node1:"; on node1 "$MK_BIN" drops || true; on node1 ip route; on node1 ip rule; }

services()
{
	local name policy port
	while read -r name policy port; do
		service_yaml "$name" web "10.96.85.$((port - 30000))" \
			"{name: tcp, port: $port, targetPort: 8080, nodePort: $port, protocol: TCP},
			{name: udp, port: $port, targetPort: 5353, nodePort: $port, protocol: UDP}" \
			"externalTrafficPolicy: $policy, externalIPs: [$EXTERNAL]"
	done <<-END
		cluster Cluster 30001
		local Local 30002
	END
}

routing_up()
{
	lab up 1
	lab pod node1 web-1 --label app=web >/dev/null
	lab pod node1 client >/dev/null
	CHOSEN=$(lab pod node1 chosen)
	serve web-1 web-1 --tcp 8080 --udp 5353
	serve world world --tcp 8080 --udp 5353
	services >"$TMP/services.yaml"
	lab apply "$TMP/services.yaml"
	wait_for 10 ask world tcp "$NODE1:30002"
	ip netns add "$MK_LAB.side"
	ip -n "$MK_LAB.side" link set lo up
	ip -n "$MK_LAB.side" addr add "$BEHIND/32" dev lo
	on side sh -c 'echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter; echo 0 >/proc/sys/net/ipv4/conf/default/rp_filter'
	serve side side --tcp 8080 --udp 5353
	"$HERE/tunnel.py" "$MK_LAB.node1" "$MK_LAB.side" >"$TMP/tunnel" 2>&1 </dev/null &
	TUNNEL_PID=$!
	wait_for 5 grep -q there "$TMP/tunnel"
	PROGRAMS=$(program_ids)
}

# The pinned programs of node1, by the kernel's numbers.
program_ids()
{
	local name
	for name in ilb_pod ilb_host ilb_overlay nat_uplink nat_tunnel router nat elb open error; do
		on node1 bpftool -j prog show pinned "/sys/fs/bpf/monokube/progs/$name" | jq -r '"\(.name) \(.id)"'
	done
}
no_load() { expect_eq "programs" "$PROGRAMS" "$(program_ids)"; }

# sees FROM PROTO TO SOURCE BY: the server sees SOURCE as the client's address
sees() { expect_match "what $3 sees of $1 over $2" "^$5 $4 " "$(ask "$1" "$2" "$3" --timeout 2 || true)"; }
answers() { expect_match "$2 over $1 from side ($3)" "^web-1 $4 " "$(ask side "$1" "$2" --from "$3" --timeout 2 || true)"; }
plain() { sees client tcp "$FAR:8080" "$NODE1" world; sees client udp "$FAR:5353" "$NODE1" world; }
asks() { expect_eq "does the datapath ask the host's routing" "$1" "$(on node1 "$MK_BIN" status -o json | jq -r .asksHostRouting)"; }

one_way()
{
	asks false
	plain
	expect_match "trace" 'leaves by interface eth0, this host.s only way out' "$(on node1 "$MK_BIN" trace client "$FAR" 80)"
}

# A network is added: pods reach it, and its hosts reach NodePorts.
storage()
{
	ip link add stor0 netns "$MK_LAB.node1" type veth peer name stor0 netns "$MK_LAB.side"
	ip -n "$MK_LAB.side" addr add "$SIDE/24" dev stor0
	ip -n "$MK_LAB.side" link set stor0 up
	ip -n "$MK_LAB.side" route add 192.168.99.0/24 via "$STORAGE"
	ip -n "$MK_LAB.node1" addr add "$STORAGE/24" dev stor0
	ip -n "$MK_LAB.node1" link set stor0 up
	wait_for 10 sees client tcp "$SIDE:8080" "$STORAGE" side
	asks true
	second_network
	no_load
}
second_network()
{
	sees client udp "$SIDE:5353" "$STORAGE" side
	on client ping -c 2 -i 0.1 -W 1 "$SIDE"
	plain
}

node_ports()
{
	local proto
	for proto in tcp udp; do
		answers "$proto" "$NODE1:30001" "$SIDE" 10.244.1.1
		answers "$proto" "$NODE1:30002" "$SIDE" "$SIDE"
	done
}

# The host routes Services' addresses, as from each of its networks.
other_addresses()
{
	ip -n "$MK_LAB.side" route replace "$VIP/32" via "$STORAGE"
	ip -n "$MK_LAB.side" route replace "$EXTERNAL/32" via "$STORAGE"
	answers tcp "$EXTERNAL:30002" "$SIDE" "$SIDE"
	answers tcp "$VIP:30001" "$SIDE" '[0-9.]+'
}

tunnel()
{
	ip -n "$MK_LAB.side" addr add "$FAR_END/24" dev tun0
	ip -n "$MK_LAB.side" link set tun0 up
	ip -n "$MK_LAB.node1" addr add "$TUNNEL/24" dev tun0
	ip -n "$MK_LAB.node1" link set tun0 up
	wait_for 10 sees client tcp "$FAR_END:8080" "$TUNNEL" side
	by_tunnel
	no_load
}
by_tunnel()
{
	sees client udp "$FAR_END:5353" "$TUNNEL" side
	on client ping -c 2 -i 0.1 -W 1 "$FAR_END"
	plain
}
tunnel_node_ports()
{
	local proto
	ip -n "$MK_LAB.side" route replace "$NODE1/32" dev tun0
	for proto in tcp udp; do
		answers "$proto" "$NODE1:30001" "$FAR_END" 10.244.1.1
		answers "$proto" "$NODE1:30002" "$FAR_END" "$FAR_END"
	done
	on side ping -c 2 -i 0.1 -W 1 "$NODE1"
	ip -n "$MK_LAB.side" route del "$NODE1/32" dev tun0
}

# A packet that does not fit the tunnel is refused with its MTU; the sender cuts it then.
tunnel_mtu()
{
	on node1 ip link set tun0 mtu 1300
	on side ip link set tun0 mtu 1300
	wait_for 10 has_mtu tun0 1300
	expect_match "large packet" 'mtu = 1300' "$(on client ping -c 1 -W 1 -M "do" -s 1400 "$FAR_END" 2>&1 || true)"
	on client ping -c 1 -W 1 -M "do" -s 1200 "$FAR_END"
	sees client tcp "$FAR_END:8080" "$TUNNEL" side
	no_load
}
has_mtu() { [[ $(on node1 "$MK_BIN" status -o json | jq -r --arg name "$1" '.uplinks[] | select(.interface == $name).mtu') == "$2" ]]; }

# refused DESTINATION ERROR: a connection of client fails with ERROR
refused() { expect_match "connection to $1" "$2" "$(on client python3 -c "
import socket
s = socket.socket(); s.settimeout(1)
try: s.connect(('$1', 80)); print('open')
except OSError as e: print(type(e).__name__, e)
")"; }
forbidding_routes()
{
	local before
	before=$(drop_count node1 HOST_ROUTE)
	on node1 ip route add unreachable 198.51.102.0/24
	on node1 ip route add prohibit 198.51.103.0/24
	on node1 ip route add blackhole 198.51.104.0/24
	refused 198.51.102.9 'No route to host'
	refused 198.51.103.9 'No route to host' # EHOSTUNREACH: icmp_err_convert[] of Linux
	refused 198.51.104.9 '[Tt]ime.*out'
	(($(drop_count node1 HOST_ROUTE) >= before + 3)) || expect_eq "drops HOST_ROUTE" "$((before + 3))" "$(drop_count node1 HOST_ROUTE)"
	no_load
}

# All traffic of one pod leaves by the second network.
rule()
{
	on node1 ip route add default via "$SIDE" table 100
	on node1 ip rule add from "$CHOSEN" lookup 100
	wait_for 10 sees chosen tcp "$BEHIND:8080" "$STORAGE" side
	sees chosen udp "$BEHIND:5353" "$STORAGE" side
	plain
	no_load
}

source_of_route()
{
	on node1 ip addr add 10.50.0.9/24 dev stor0
	on node1 ip route add "$BEHIND/32" via "$SIDE" src 10.50.0.9
	if on node1 sh -c 'v=$(uname -r); [ "$(printf "6.7\n%s\n" "$v" | sort -V | head -n 1)" = 6.7 ]'; then
		wait_for 10 sees client tcp "$BEHIND:8080" 10.50.0.9 side
	else # the kernel does not tell
		wait_for 10 sees client tcp "$BEHIND:8080" "$STORAGE" side
	fi
	no_load
}

# path_filter MODE: of all devices of node1
path_filter() { on node1 sh -c "for file in /proc/sys/net/ipv4/conf/*/rp_filter; do echo $1 >\$file; done"; }
with_filter()
{
	path_filter "$1"
	sees client tcp "$SIDE:8080" "$STORAGE" side
	second_network
	sees client tcp "$FAR_END:8080" "$TUNNEL" side
	by_tunnel
	sees chosen tcp "$BEHIND:8080" "$STORAGE" side
	node_ports
	tunnel_node_ports
	path_filter 0
}

traces()
{
	expect_match "second network" "becomes $STORAGE:[0-9]+ > $SIDE:80.*leaves by interface stor0, next hop $SIDE, as this host.s routing says" "$(on node1 "$MK_BIN" trace client "$SIDE" 80 | tr '\n' ' ')"
	expect_match "tunnel" "leaves by interface tun0, next hop $FAR_END, as this host.s routing says" "$(on node1 "$MK_BIN" trace client "$FAR_END" 80)"
	expect_match "rule" "leaves by interface stor0, next hop $SIDE, as this host.s routing says" "$(on node1 "$MK_BIN" trace chosen "$FAR" 80)"
	expect_match "default route" 'leaves by interface eth0, next hop 192\.168\.99\.200, as this host.s routing says' "$(on node1 "$MK_BIN" trace client "$FAR" 80)"
	expect_match "prohibit" 'HOST_ROUTE' "$(on node1 "$MK_BIN" trace client 198.51.103.9 80 || true)"
	expect_match "from the second network" 'on the ingress of interface stor0' "$(on node1 "$MK_BIN" trace "$SIDE" "$NODE1" 30002/tcp)"
}

checks()
{
	local out
	out=$(on node1 "$MK_BIN" check || true)
	expect_match "check" 'ok +routing +pods leave by eth0, tun0 \(tunnel\), stor0, as this host.s routing says' "$out"
	expect_match "rp_filter" 'ok +rp_filter ' "$out"
}

# Another address and MTU of the uplink itself: data, and no load.
data()
{
	local start
	start=$(log_size)
	on node1 ip link set eth0 mtu 1400
	wait_for 10 has_mtu eth0 1400
	no_load
	expect_match "log" 'devices and addresses changed, no program was loaded' "$(logged "$start" 'no program was loaded')"
	on node1 ip link set eth0 mtu 1500
	wait_for 10 has_mtu eth0 1500
	plain
	no_load
}

# Only named devices carry pods' packets. A packet whose route uses another device is refused, not
# sent another way.
named()
{
	local before
	lab agent stop node1
	MK_AGENT_FLAGS='--uplink-iface-name eth0' lab agent start node1
	plain
	before=$(drop_count node1 NO_UPLINK)
	refused "$SIDE" 'Network is unreachable'
	refused "$FAR_END" 'Network is unreachable'
	(($(drop_count node1 NO_UPLINK) >= before + 2)) || expect_eq "drops NO_UPLINK" "$((before + 2))" "$(drop_count node1 NO_UPLINK)"
	expect_match "check" 'note +routing +this host has routes by stor0, tun0, which carry no programs' "$(on node1 "$MK_BIN" check || true)"
	lab agent stop node1
	lab agent start node1
	wait_for 10 sees client tcp "$SIDE:8080" "$STORAGE" side
}

# Everything is removed: the host's routing is no longer asked.
back_to_one()
{
	kill "$TUNNEL_PID"
	on node1 ip link del stor0
	on node1 ip rule del from "$CHOSEN" lookup 100
	on node1 ip route del unreachable 198.51.102.0/24
	on node1 ip route del prohibit 198.51.103.0/24
	on node1 ip route del blackhole 198.51.104.0/24
	wait_for 10 asks false
	plain
	no_load
}

routing_up
check "one device and a default route: nobody is asked" one_way
check "pods reach a second network, with that device's address" storage
check "NodePorts from the second network" node_ports
check "a Service's external address and ClusterIP from the second network" other_addresses
check "pods reach a tunnel's network, with the tunnel's address" tunnel
check "NodePorts from the tunnel" tunnel_node_ports
check "the tunnel's MTU" tunnel_mtu
check "unreachable, prohibit, blackhole" forbidding_routes
check "a rule for one pod" rule
check "a route's source" source_of_route
for mode in 0 1 2; do
	check "all of it with rp_filter $mode" with_filter "$mode"
done
check "trace" traces
check "check" checks
check "MTU of the uplink" data
check "devices by name" named
check "back to one way" back_to_one
finish
