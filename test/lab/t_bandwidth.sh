#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_bandwidth.sh - the capability bandwidth: a pod's ingress and egress limits hold on
# every path. The limits are so low that the qdisc sends nothing during the test: the packets that
# it has sent, dropped and queued are all that it has seen.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
BUCKET=65549 # bytes: the smallest bucket
QUEUE=65574  # bytes, of a limit of 8 kbit/s
SLOW=8000    # bits per second: 1,000 bytes
FAST=100000000

record() { cat "/run/mklab-$MK_LAB/pods/$1.json"; }
device_of() { record "$1" | jq -r '.result.interfaces[0].name'; }
ip_of_pod() { record "$1" | jq -r .ip; }

# qdisc POD in|out FIELD...: the sum of counters of the qdisc that limits the pod
qdisc()
{
	local where=$1 device=eth0 fields
	[[ $2 != in ]] || { where=$(record "$1" | jq -r .node) device=$(device_of "$1"); }
	fields=$(printf '.%s + ' "${@:3}")
	on "$where" tc -s -j qdisc show dev "$device" root | jq "[.[] | select(.kind == \"tbf\") | ${fields}0] | add"
}
seen() { qdisc "$1" "$2" packets drops qlen; }

# datagrams WHERE COUNT ADDRESS:PORT: of 1,400 bytes, as fast as possible
datagrams()
{
	on "$1" python3 -c '
import socket, sys
host, _, port = sys.argv[2].partition(":")
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(int(sys.argv[1])):
    sock.sendto(bytes(1400), (host, int(port)))' "$2" "$3"
}

has_seen() { (($(seen "$1" "$2") >= $3)); }

# all_seen POD in|out WHERE ADDRESS:PORT: each of 20 datagrams from WHERE
all_seen()
{
	local before
	before=$(seen "$1" "$2")
	datagrams "$3" 20 "$4"
	wait_for 5 has_seen "$1" "$2" $((before + 20)) || {
		echo "$3 to $4: the qdisc has seen $(($(seen "$1" "$2") - before)) of 20"
		return 1
	}
}

# The bucket and the queue hold 131 kB of 420; a minute adds 60 kB.
excess_is_dropped()
{
	local before bytes
	before=$(on in-1 cat /sys/class/net/eth0/statistics/rx_bytes)
	datagrams near 300 "$(ip_of_pod in-1):5300"
	wait_for 5 has_seen in-1 in 300
	bytes=$(($(on in-1 cat /sys/class/net/eth0/statistics/rx_bytes) - before))
	((bytes > 0 && bytes < BUCKET + 60000)) || { echo "received $bytes bytes"; return 1; }
	(($(qdisc in-1 in drops) * 1400 >= 300 * 1400 - BUCKET - QUEUE - 60000)) ||
		{ echo "dropped $(qdisc in-1 in drops) packets"; return 1; }
}

excess_is_not_sent()
{
	local before bytes
	before=$(on near cat /sys/class/net/eth0/statistics/rx_bytes)
	datagrams out-1 300 "$(ip_of_pod near):5300"
	wait_for 5 has_seen out-1 out 300
	bytes=$(($(on near cat /sys/class/net/eth0/statistics/rx_bytes) - before))
	((bytes > 0 && bytes < BUCKET + 60000)) || { echo "sent $bytes bytes"; return 1; }
	(($(qdisc out-1 out drops) > 0)) || { echo "nothing was dropped"; return 1; }
}

# Whole buffers, longer than the link's packets: in both directions, near and far.
tcp_arrives()
{
	local peer before
	for peer in near far; do
		before=$(qdisc fast-1 out bytes)
		expect_match "sent to $peer" "^fast-1 " "$(ask "$peer" tcp "$(ip_of_pod fast-1):8080" \
			--size 1000 --want 500000 --timeout 20)"
		(($(qdisc fast-1 out bytes) - before >= 500000)) || { echo "sent $(qdisc fast-1 out bytes)"; return 1; }
		before=$(qdisc fast-1 in bytes)
		expect_match "received from $peer" "^$peer " "$(ask fast-1 tcp "$(ip_of_pod "$peer"):8080" \
			--size 1000 --want 500000 --timeout 20)"
		(($(qdisc fast-1 in bytes) - before >= 500000)) || { echo "received $(qdisc fast-1 in bytes)"; return 1; }
	done
}

large_datagrams_arrive()
{
	expect_match "from near" "^fast-1 " "$(ask near udp "$(ip_of_pod fast-1):5353" --size 60000 --want 60000)"
}

others_have_none()
{
	expect_eq "qdisc of pod near" noqueue \
		"$(on node1 tc -j qdisc show dev "$(device_of near)" root | jq -r '.[0].kind')"
}

after_restart()
{
	lab agent stop node1
	all_seen in-1 in near "$(ip_of_pod in-1):5300"
	lab agent start node1
	all_seen in-1 in near "$(ip_of_pod in-1):5300"
	all_seen in-1 in far "$VIP:5300"
}

pod_entry()
{
	on node1 bpftool -j map lookup pinned /sys/fs/bpf/monokube/maps/pods key "$1" 0 0 0 |
		jq -e 'any(.value[]; . != "0x00")'
}

after_repair()
{
	local last
	last=$(ip_of_pod in-1)
	last=${last##*.}
	# shellcheck disable=SC2046 # sixteen zeros
	on node1 bpftool map update pinned /sys/fs/bpf/monokube/maps/pods key "$last" 0 0 0 value $(printf '0 %.0s' {1..16})
	wait_for 20 pod_entry "$last"
	all_seen in-1 in near "$(ip_of_pod in-1):5300"
}

# A limit that an administrator sets later is effective from the agent's next start.
foreign_limit()
{
	on node1 tc qdisc add dev "$(device_of near)" root tbf rate 8kbit burst 70000 limit 70000
	lab agent stop node1
	lab agent start node1
	all_seen near in far "$(ip_of_pod near):5300"
	on node1 tc qdisc del dev "$(device_of near)" root
	lab agent stop node1
	lab agent start node1
	others_have_none
	expect_match "from far" "^near " "$(ask far udp "$(ip_of_pod near):5353")"
}

refused()
{
	local said
	said=$(lab pod node1 bad-1 --limit ingress=7 2>&1) && { echo "accepted: $said"; return 1; }
	expect_match "why not" 'ingressRate is 7: expected at least 8 bits a second' "$said"
}

goes_with_the_pod()
{
	local device
	device=$(device_of in-1)
	lab rm in-1
	expect_failure on node1 ip link show "$device"
}

lab up 2
lab pod node1 in-1 --limit ingress=$SLOW --host-port 5400:5300/udp >/dev/null
lab pod node1 out-1 --limit egress=$SLOW >/dev/null
lab pod node1 fast-1 --limit ingress=$FAST --limit egress=$FAST >/dev/null
lab pod node1 near >/dev/null
lab pod node2 far >/dev/null
serve fast-1 fast-1 --tcp 8080 --udp 5353
serve near near --tcp 8080 --udp 5353
serve far far --tcp 8080
service_yaml in in $VIP "{name: udp, port: 5300, targetPort: 5300, nodePort: 30053, protocol: UDP}" | apply services
frontend_is_there() { on node1 "$MK_BIN" services in >/dev/null && on node2 "$MK_BIN" services in >/dev/null; }
wait_for 10 frontend_is_there
check "what exceeds the limit is dropped before it reaches the pod" excess_is_dropped
for path in near far node1 node2; do
	check "received from $path" all_seen in-1 in $path "$(ip_of_pod in-1):5300"
done
for path in near far node1; do
	check "received by a Service, from $path" all_seen in-1 in $path "$VIP:5300"
done
check "received by a NodePort, from outside" all_seen in-1 in world "$NODE1:30053"
check "received by a NodePort of the other node" all_seen in-1 in world 192.168.99.12:30053
check "received by a host port, from outside" all_seen in-1 in world "$NODE1:5400"
check "what exceeds the limit is not sent" excess_is_not_sent
for path in "near $(ip_of_pod near)" "far $(ip_of_pod far)" "a Service $VIP" "its node $NODE1" "outside 203.0.113.10"; do
	check "sent to ${path% *}" all_seen out-1 out out-1 "${path##* }:5300"
done
check "TCP passes a limit whole, both ways" tcp_arrives
check "a datagram of 60,000 bytes passes" large_datagrams_arrive
check "a pod without a limit has no queue" others_have_none
check "the limit outlives the agent's restart" after_restart
check "the limit outlives a repair of map pods" after_repair
check "a limit that an administrator has set" foreign_limit
check "a senseless limit is refused" refused
check "the limit goes with its pod" goes_with_the_pod
finish
