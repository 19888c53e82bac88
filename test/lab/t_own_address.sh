#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_own_address.sh - a process of the host binds an address of its node, as a pod in the
# host's network may. Pods of every node see that address, directly and through Services, and answer
# it.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

VIP=10.96.90.1
LOCAL_VIP=10.96.90.2

explain() { for node in node1 node2; do on "$node" "$MK_BIN" drops || true; done; }

# service NAME ADDRESS POLICY NODEPORT
service()
{
	service_yaml "$1" web "$2" "{name: tcp, port: 80, targetPort: 8080, nodePort: $4},
		{name: udp, port: 80, targetPort: 8080, nodePort: $4, protocol: UDP}" "externalTrafficPolicy: $3"
}

own_address_lab_up()
{
	lab up 2
	POD1=$(lab pod node1 web-1)
	POD2=$(lab pod node2 web-2)
	serve web-1 web-1 --tcp 8080 --udp 8080
	serve web-2 web-2 --tcp 8080 --udp 8080
	{ service web "$VIP" Cluster 30080 && service web-local "$LOCAL_VIP" Local 30081; } | apply services
	wait_for 10 ask node1 tcp "$VIP:80"
	wait_for 10 ask node1 tcp "$NODE1:30081"
}

# seen PROTO ADDRESS:PORT SERVERS: twenty flows are answered; all of SERVERS answer, and see the
# node's address
seen()
{
	for _ in {1..20}; do
		ask node1 "$1" "$2" --from "$NODE1"
	done >"$TMP/answers"
	expect_eq "servers, and the address that they saw" "$3" \
		"$(awk '{ print $1, $2 }' "$TMP/answers" | sort -u | xargs)"
}

own_address_lab_up
for proto in tcp udp; do
	check "$proto to a pod of its node" seen "$proto" "$POD1:8080" "web-1 $NODE1"
	check "$proto to a pod of another node" seen "$proto" "$POD2:8080" "web-2 $NODE1"
	check "$proto to a Service" seen "$proto" "$VIP:80" "web-1 $NODE1 web-2 $NODE1"
	check "$proto to a NodePort of its node" seen "$proto" "$NODE1:30080" "web-1 $NODE1 web-2 $NODE1"
	check "$proto to a NodePort of its node, policy Local: any endpoint" seen "$proto" "$NODE1:30081" \
		"web-1 $NODE1 web-2 $NODE1"
done
check "ping to a pod of another node" on node1 ping -c 1 -W 3 -I "$NODE1" "$POD2"
finish
