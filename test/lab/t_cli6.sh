#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_cli6.sh - the command line on nodes of IPv6 alone: trace, check, status, nodes, pods.
set -euo pipefail
export MK_LAB_FAMILY=6
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

VIP=fd00:10:96::1
NODE1=fd00:99::11
FAR=2001:db8::10 # behind world

mk() { on node1 "$MK_BIN" "$@"; }
# json JQ ARGS...: apply jq to the subcommand's JSON, whatever its exit status.
json() { mk "${@:2}" -o json >"$TMP/json" || true; jq -r "$1" "$TMP/json"; }
has_backend() { json '.[0].frontends[0].backends | length' services web | grep -qx 1; }

cli_lab_up()
{
	lab up 2
	{
		service_yaml web web '"'$VIP'"' "{name: http, port: 80, targetPort: 8000, nodePort: 30080}"
		service_yaml empty nobody '"fd00:10:96::3"' "{port: 80}"
	} | apply services
	CLIENT=$(lab pod node1 client)
	NEAR=$(lab pod node1 near)
	WEB=$(lab pod node2 web)
	wait_for 10 has_backend
}

# trace STATUS OUTCOME FROM TO [PORT]: check both, keep the JSON.
trace()
{
	local status=0
	mk trace "${@:3}" -o json >"$TMP/traced" || status=$?
	expect_eq "exit status and outcome of trace ${*:3}" "$1 $2" "$status $(jq -r .outcome "$TMP/traced")"
}
says() { jq -r '[.steps[].says] | join("; ")' "$TMP/traced"; }

traces_pods()
{
	trace 0 forwarded client "$WEB" 8000
	expect_match "other node's pod" 'another node \(node2\).*leaves in VXLAN to fd00:99::12; on that node \(node2\)' "$(says)"
	trace 0 delivered default/client pod:near 8000
	expect_match "pod's name" 'pod default/near of this node' "$(says)"
	trace 3 answered client fd00:10:244:1::99 80
	trace 0 delivered "$WEB" "$NEAR" 8000
	trace 0 delivered client near
	expect_match "ping" '^ICMPv6 ' "$(mk trace client near)"
}

traces_services()
{
	trace 0 forwarded client web
	expect_match "Service" "\[$VIP\]:80 is Service default/web: 1 backends, 0 of them" "$(says)"
	expect_match "session" "becomes \[$CLIENT\]:40000 > \[$WEB\]:8000" "$(says)"
	trace 3 answered client empty
	trace 0 forwarded fd00:99::200 "$NODE1" 30080
	expect_match "NodePort" 'default/web.*chosen by Maglev' "$(says)"
	trace 0 forwarded host web
	trace 0 forwarded host "$NODE1" 30080
	trace 0 forwarded host ::1 30080
}

traces_outside()
{
	trace 0 forwarded client "$FAR" 80
	expect_match "masquerade" "becomes \[$NODE1\]:[0-9]+ > \[$FAR\]:80" "$(says)"
	trace 0 forwarded client "$FAR"
	trace 0 forwarded client "$FAR" 53/udp
	trace 0 delivered client host 22
	trace 0 forwarded host "$FAR" 80
	expect_match "other family" 'or an IPv6 address' "$(mk trace client 192.0.2.1 80 2>&1 || true)"
}

cli_lab_up
check "trace: pods and a ping" traces_pods
check "trace: Services, NodePorts" traces_services
check "trace: outside of the cluster, and this host" traces_outside
finish
