#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_hostpath.sh - a host reaches Services at its own addresses: its NodePorts, and an
# external address that it has. The packets start on the loopback device.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

VPOD1=10.244.1.1
EXTERNAL=198.51.100.7	# of node1, on a second address of its uplink

explain() { echo "drops of node1:"; on node1 "$MK_BIN" drops || true; }

services()
{
	local name policy select port proto target
	while read -r name policy select proto port target; do
		cat <<-END
			---
			apiVersion: v1
			kind: Service
			metadata: {name: $name}
			spec:
			  type: NodePort
			  externalTrafficPolicy: $policy
			  clusterIP: 10.96.88.$((port - 30000))
			  externalIPs: [$EXTERNAL]
			  selector: {$select: "yes"}
			  ports: [{port: $port, targetPort: $target, nodePort: $port, protocol: $proto}]
		END
	done <<-END
		both-tcp Cluster both TCP 30001 8080
		both-udp Cluster both UDP 30002 5353
		near-tcp Local one TCP 30003 8080
		far-tcp Local two TCP 30004 8080
		far-udp Local two UDP 30005 5353
		empty-tcp Cluster none TCP 30006 8080
		empty-udp Cluster none UDP 30007 5353
		closed-udp Cluster two UDP 30014 9
	END
	host_service self-tcp node1 "$NODE1" TCP 30011
	host_service self-udp node1 "$NODE1" UDP 30012
	host_service other-tcp node2 "$NODE2" TCP 30013
}

# host_service NAME NODE ADDRESS PROTO NODEPORT: its endpoint is the node itself
host_service()
{
	cat <<-END
		---
		apiVersion: v1
		kind: Service
		metadata: {name: $1}
		spec:
		  type: NodePort
		  clusterIP: 10.96.88.$(($5 - 30000))
		  ports: [{port: $5, targetPort: 2222, nodePort: $5, protocol: $4}]
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: $1-1, labels: {kubernetes.io/service-name: $1}}
		addressType: IPv4
		ports: [{name: "", protocol: $4, port: 2222}]
		endpoints: [{addresses: [$3], nodeName: $2, conditions: {ready: true}}]
	END
}

hostpath_up()
{
	lab up 2
	lab pod node1 one --label one=yes --label both=yes >/dev/null
	lab pod node2 two --label two=yes --label both=yes >/dev/null
	serve one one --tcp 8080 --udp 5353
	serve two two --tcp 8080 --udp 5353
	serve node1 node1 --tcp 2222 --udp 2222
	serve node2 node2 --tcp 2222 --udp 2222
	on node1 ip addr add "$EXTERNAL/32" dev eth0
	services >"$TMP/services.yaml"
	lab apply "$TMP/services.yaml"
	wait_for 10 ask node1 tcp "$NODE1:30003"
}

# answered PROTO PORT BY SEEN [ADDRESS]: each of a dozen exchanges is answered by BY, which saw SEEN
answered()
{
	local out line address=${5:-$NODE1}
	out=$(ask node1 "$1" "$address:$2" --count 12 || true)
	expect_eq "answers from $address:$2 over $1 ($out)" 12 "$(wc -l <<<"$out")"
	while read -r line; do
		expect_match "answer from $address:$2 over $1" "^($3) $4 " "$line"
	done <<<"$out"
}

refused()
{
	local status=0 out
	out=$(ask node1 "$1" "$NODE1:$2" --timeout 2) || status=$?
	expect_eq "$1 to $NODE1:$2 (exit status 3 is refused)" "3 refused" "$status $out"
}

every_backend()
{
	answered tcp 30003 one "$NODE1"
	answered tcp 30004 two "$NODE1"
	answered udp 30005 two "$NODE1"
	answered tcp 30011 node1 "$VPOD1"
	answered udp 30012 node1 "$VPOD1"
	answered tcp 30013 node2 "$NODE1"
	refused tcp 30006
	refused udp 30007
}

both_backends()
{
	local proto=$1 port=$2
	expect_eq "who answers $NODE1:$port" "one two" "$(ask node1 "$proto" "$NODE1:$port" --count 24 | cut -d' ' -f1 | sort -u | xargs)"
}

# Some distributions set this for all devices; the greater of that and the device's value counts.
reverse_path_filter()
{
	local mode=$1
	on node1 sh -c "echo $mode >/proc/sys/net/ipv4/conf/all/rp_filter"
	every_backend
	on node1 sh -c 'echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter'
}

external_address()
{
	answered tcp 30003 one "$VPOD1" "$EXTERNAL"
	answered udp 30005 two "$VPOD1" "$EXTERNAL"
}

from_other_addresses()
{
	expect_match "from the VTEP address" '^one ' "$(ask node1 tcp "$NODE1:30003" --from 10.18.0.1 || true)"
	expect_match "from another address" '^one ' "$(ask node1 tcp "$NODE1:30003" --from "$EXTERNAL" || true)"
}

# A megabyte, and datagrams that do not fit the host veth.
bulk()
{
	expect_match "TCP, 1 MB" '^one ' "$(ask node1 tcp "$NODE1:30003" --want 1000000 || true)"
	expect_match "TCP, 1 MB, remote" '^two ' "$(ask node1 tcp "$NODE1:30004" --want 1000000 || true)"
	expect_match "UDP, 20 kB, remote" '^two ' "$(ask node1 udp "$NODE1:30005" --size 20000 --want 20000 || true)"
}

# The loopback's MTU is not the overlay's.
no_fragments() { expect_match 'UDP, 3 kB, DF' '^two ' "$(ask node1 udp "$NODE1:30005" --size 3000 --df || true)"; }

closed_backend()
{
	local status=0
	ask node1 udp "$NODE1:30014" --timeout 2 || status=$?
	expect_eq "exit status (3 is refused)" 3 "$status"
}

# The host's own ports and loopback addresses are unaffected.
not_ours()
{
	expect_match "own port" "^node1 $NODE1 " "$(ask node1 tcp "$NODE1:2222" || true)"
	expect_match "127.0.0.1" '^node1 127.0.0.1 ' "$(ask node1 tcp 127.0.0.1:2222 || true)"
	expect_eq "beside the NodePorts, at 127.0.0.1" refused "$(ask node1 tcp 127.0.0.1:30002 || true)"
}

# A connection is held open during an agent's restart.
outlives_agent()
{
	mkfifo "$TMP/held.in"
	on node1 "$HERE/echo.py" ask tcp "$NODE1:30004" --hold <"$TMP/held.in" >"$TMP/held.out" &
	exec {held}>"$TMP/held.in"
	wait_for 5 grep -c '^two ' "$TMP/held.out"
	lab agent kill node1
	answered tcp 30003 one "$NODE1"
	echo >&"$held"
	wait_for 5 answers_held 2
	lab agent start node1
	echo >&"$held"
	wait_for 5 answers_held 3
}
answers_held() { expect_eq "answers on the held connection" "$1" "$(grep -c '^two ' "$TMP/held.out")"; }

setting_is_said() { lab log node1 | grep -E 'kernel setting changed .*conf/lo/accept_local=1'; }

repaired()
{
	on node1 tc filter del dev lo egress
	lab agent stop node1
	lab agent start node1
	answered tcp 30003 one "$NODE1"
}

cleaned_up()
{
	lab agent stop node1
	on node1 "$MK_BIN" cleanup
	expect_eq "filters of lo" "" "$(on node1 tc filter show dev lo egress)"
	expect_eq "qdisc of lo" "" "$(on node1 tc qdisc show dev lo | grep clsact || true)"
	expect_eq "accept_local of lo" 0 "$(on node1 cat /proc/sys/net/ipv4/conf/lo/accept_local)"
	expect_eq "route_localnet of lo" 0 "$(on node1 cat /proc/sys/net/ipv4/conf/lo/route_localnet)"
}

hostpath_up
check "TCP, both nodes' pods" both_backends tcp 30001
check "UDP, both nodes' pods" both_backends udp 30002
for mode in 0 1 2; do
	check "every kind of backend, reverse path filter $mode" reverse_path_filter $mode
done
check "an external address that the host has" external_address
check "from other addresses of the host" from_other_addresses
check "much data, large datagrams" bulk
check "a large datagram that must not be fragmented" no_fragments
check "an ICMP error of the backend comes back" closed_backend
check "the host's own ports are untouched" not_ours
check "a connection outlives the agent" outlives_agent
check "the kernel setting is named" setting_is_said
check "a removed hook comes back" repaired
check "cleanup takes hook and setting back" cleaned_up
finish
