#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_hostport.sh - host ports with real clients: from outside, from the other node and its
# pods, from pods of the node and the pod itself; sharing between two pods; without an agent; and
# the state after the pod is deleted.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
EXTRA=192.168.99.71 # node1's second address
EXTRA_BYTES='"0xc0","0xa8","0x63","0x47"'
[[ $FAMILY == 4 ]] || EXTRA_BYTES='"0x00","0x00","0x00","0x71"'

# reaches NAME PEER WHERE PROTO ADDRESS:PORT: the answer is NAME's, which saw PEER (regular
# expressions)
reaches() { expect_match "$4 $5 from $3" "^$1 $2 " "$(ask "$3" "$4" "$5")"; }
# refused WHERE PROTO ADDRESS:PORT
refused() { expect_status 3 ask "$@"; }

one_port_one_protocol()
{
	refused world tcp $NODE1:8081
	refused world udp $NODE1:8080
	refused client udp $NODE1:8080
	refused world tcp $NODE2:8080
	refused client tcp $NODE2:8080
}

# Datagrams of several fragments, in both directions.
large_datagrams()
{
	expect_match "from outside" "^web-1 192.168.99.200 " "$(ask world udp $NODE1:5300 --size 8000 --want 8000)"
	expect_match "from the other node's pod" "^web-1 $NODE2 " "$(ask far udp $NODE1:5300 --size 8000 --want 8000)"
	expect_match "from the pod itself" "^web-1 10.244.1.1 " "$(ask web-1 udp $NODE1:5300 --size 8000 --want 8000)"
}

# At the loopback address: only from the host, with any mapping, and with one for that address.
loopback()
{
	lab pod node1 lo-1 --host-port 127.0.0.1:8085:8080
	serve lo-1 lo-1 --tcp 8080
	reaches web-1 10.244.1.1 node1 tcp 127.0.0.1:8080
	expect_match "8000 bytes" "^web-1 10.244.1.1 " "$(ask node1 udp 127.0.0.1:5300 --size 8000 --want 8000)"
	reaches lo-1 10.244.1.1 node1 tcp 127.0.0.1:8085
	expect_match "from the node's address" "^lo-1 $NODE1 " "$(ask node1 tcp 127.0.0.1:8085 --from $NODE1)"
	refused world tcp $NODE1:8085
	refused client tcp $NODE1:8085
	refused node1 tcp $NODE1:8085
	lab rm lo-1
	refused node1 tcp 127.0.0.1:8085
}

# The same host port with another protocol, with another host address, and for one address besides
# all.
side_by_side()
{
	lab pod node1 udp-1 --host-port 8080:8080/udp
	lab pod node1 extra-1 --host-port $EXTRA:8080:8080
	serve udp-1 udp-1 --udp 8080
	serve extra-1 extra-1 --tcp 8080
	for where in world client far; do
		reaches udp-1 '.*' $where udp $NODE1:8080
		reaches web-1 '.*' $where tcp $NODE1:8080
		reaches extra-1 '.*' $where tcp $EXTRA:8080
	done
	lab rm udp-1
	lab rm extra-1
	refused world udp $NODE1:8080
	reaches web-1 192.168.99.200 world tcp $EXTRA:8080
}

conflict()
{
	local said
	said=$(lab pod node1 second-1 --host-port 8080:8080 2>&1) && {
		echo "accepted: $said"
		return 1
	}
	expect_match "why not" "host port (0\.0\.0\.0|\[::\]):8080/tcp, .* leads to container '[0-9a-f]+' .*$(lab_ip web-1)" "$said"
	reaches web-1 192.168.99.200 world tcp $NODE1:8080
}
lab_ip() { lab status | sed -n "s/^ *pod $1 \([0-9a-f.:]*\) .*/\1/p"; }

node_port_wins()
{
	lab pod node1 both-1 --host-port 30700:8080
	lab pod node2 other-1
	serve both-1 both-1 --tcp 8080
	serve other-1 other-1 --tcp 8080
	reaches both-1 192.168.99.200 world tcp $NODE1:30700
	service_yaml other other 10.96.0.77 "{name: p, port: 80, targetPort: 8080, nodePort: 30700, protocol: TCP}" | apply service
	wait_for 10 reaches other-1 '.*' world tcp $NODE1:30700
	wait_for 10 reaches other-1 '.*' client tcp $NODE1:30700
	lab delete "$TMP/service.yaml"
	wait_for 10 reaches both-1 '.*' world tcp $NODE1:30700
	lab rm both-1
	lab rm other-1
}

# The host's own connections from a port that is mapped.
own_source_port()
{
	serve world far-server --tcp 7000
	expect_match "from the host" "^far-server $NODE1 8080\$" \
		"$(ask node1 tcp 192.168.99.200:7000 --from "$(with_port $NODE1 8080)")"
}

no_agent()
{
	lab agent stop node1
	lab pod node1 alone-1 --host-port 8090:8080 --host-port 8090:8080/udp
	serve alone-1 alone-1 --tcp 8080 --udp 8080
	reaches alone-1 192.168.99.200 world tcp $NODE1:8090
	reaches alone-1 192.168.99.200 world udp $NODE1:8090
	reaches alone-1 '.*' client tcp $NODE1:8090
	reaches web-1 192.168.99.200 world tcp $NODE1:8080
	lab rm alone-1
	refused world tcp $NODE1:8090
	refused world udp $NODE1:8090
	lab agent start node1
	reaches web-1 192.168.99.200 world tcp $NODE1:8080
}

agent_restarts()
{
	lab agent kill node1
	reaches web-1 192.168.99.200 world tcp $NODE1:8080
	lab agent start node1
	reaches web-1 192.168.99.200 world tcp $NODE1:8080
}

# A UDP client that never changes its port does not stay with the deleted pod.
next_pod()
{
	lab pod node1 old-1 --host-port 5400:5353/udp
	serve old-1 old-1 --udp 5353
	expect_match "first" '^old-1 ' "$(ask world udp $NODE1:5400 --from 192.168.99.200:45400)"
	expect_match "of this node" '^old-1 ' "$(ask client udp $NODE1:5400 --from "$(with_port "$(lab_ip client)" 45400)")"
	lab rm old-1
	lab pod node1 new-1 --host-port 5400:5353/udp
	serve new-1 new-1 --udp 5353
	expect_match "same port" '^new-1 ' "$(ask world udp $NODE1:5400 --from 192.168.99.200:45400)"
	expect_match "of this node" '^new-1 ' "$(ask client udp $NODE1:5400 --from "$(with_port "$(lab_ip client)" 45400)")"
	lab rm new-1
}

# The pod's namespace is removed without DEL: another pod may have its port at once, and the agent
# cleans up.
namespace_lost()
{
	local entries
	lab pod node1 lost-1 --host-port 8095:8080
	ip netns exec "$MK_LAB.lost-1" ip link del eth0
	lab pod node1 heir-1 --host-port 8095:8080
	serve heir-1 heir-1 --tcp 8080
	reaches heir-1 192.168.99.200 world tcp $NODE1:8095
	lab rm lost-1
	reaches heir-1 192.168.99.200 world tcp $NODE1:8095
	lab rm heir-1
	refused world tcp $NODE1:8095
	entries=$(on node1 bpftool -j map dump pinned "$PINS/host_ports" | jq length)
	expect_eq "entries of map host_ports: those of web-1" 2 "$entries"
}

gone()
{
	lab rm web-1
	refused world tcp $NODE1:8080
	refused client tcp $NODE1:8080
	refused world udp $NODE1:5300
	expect_eq "entries of map host_ports" 0 \
		"$(on node1 bpftool -j map dump pinned "$PINS/host_ports" | jq length)"
	expect_eq "told to the programs" 0 \
		"$(on node1 bpftool -j map dump pinned "$PINS/runtime" | jq '.[0].formatted.value.host_ports')"
}

lab up 2
on node1 ip addr add $EXTRA/24 dev eth0
lab pod node1 web-1 --host-port 8080:8080 --host-port 5300:5353/udp >/dev/null
lab pod node1 client >/dev/null
lab pod node2 far >/dev/null
serve web-1 web-1 --tcp 8080 --udp 5353
knows_extra() { on node1 bpftool -j map dump pinned "$PINS/routes" | grep -q "$EXTRA_BYTES"; }
wait_for 20 knows_extra

check "from outside, the client's address is kept" reaches web-1 192.168.99.200 world tcp $NODE1:8080
check "from outside, UDP" reaches web-1 192.168.99.200 world udp $NODE1:5300
check "by the node's other address" reaches web-1 192.168.99.200 world tcp $EXTRA:8080
check "from the other node" reaches web-1 $NODE2 node2 tcp $NODE1:8080
check "from a pod of the other node" reaches web-1 $NODE2 far tcp $NODE1:8080
check "from a pod of the other node, UDP" reaches web-1 $NODE2 far udp $NODE1:5300
check "from a pod of this node, its address is kept" reaches web-1 "$(lab_ip client)" client tcp $NODE1:8080
check "from a pod of this node, UDP" reaches web-1 "$(lab_ip client)" client udp $NODE1:5300
check "from the pod itself" reaches web-1 10.244.1.1 web-1 tcp $NODE1:8080
check "from the pod itself, UDP" reaches web-1 10.244.1.1 web-1 udp $NODE1:5300
check "from the node itself" reaches web-1 $NODE1 node1 tcp $NODE1:8080
check "from the node itself, UDP" reaches web-1 $NODE1 node1 udp $NODE1:5300
check "at the loopback address" loopback
check "datagrams in fragments" large_datagrams
check "other ports, protocols and nodes are not mapped" one_port_one_protocol
check "the same host port with another protocol or address" side_by_side
check "a port that another pod has is refused, and both are named" conflict
check "a Service's node port comes first" node_port_wins
check "the host's own connections from a mapped port" own_source_port
check "no agent: ADD, traffic, DEL" no_agent
check "the agent is killed and starts again" agent_restarts
check "a UDP client meets the next pod" next_pod
check "a pod that vanished loses its port" namespace_lost
check "the pod is removed: refused" gone
finish
