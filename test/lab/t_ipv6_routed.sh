#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_ipv6_routed.sh - a cluster of IPv6 without masquerade: the network routes pod CIDRs to
# their nodes. Pods keep their address outside, and hosts outside reach them.
set -euo pipefail
export MK_LAB_FAMILY=6 MK_AGENT_FLAGS="--masquerade-ipv6 false"
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

FAR=2001:db8::10 # behind world
NODE1=fd00:99::11
NODE2=fd00:99::12

explain()
{
	echo "drops of node1:"
	on node1 "$MK_BIN" drops || true
}

routed_lab_up()
{
	lab up 2
	CLIENT=$(lab pod node1 client)
	WEB=$(lab pod node2 web)
	ip -n "$MK_LAB.world" route add fd00:10:244:1::/64 via "$NODE1"
	ip -n "$MK_LAB.world" route add fd00:10:244:2::/64 via "$NODE2"
	for where in client web world node2; do
		serve6 "$where" 8000
	done
}

routed_lab_up
check "a pod keeps its address outside" asked_as "$CLIENT" client "[$FAR]:8000"
check "a host outside reaches a pod" asked_as fd00:99::200 world "[$WEB]:8000"
check "pods of two nodes" asked_as "$CLIENT" client "[$WEB]:8000"
check "another node's own address sees this node's" asked_as "$NODE1" client "[$NODE2]:8000"
check "ping from outside" on world ping -c 1 -W 2 "$CLIENT"
finish
