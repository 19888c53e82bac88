#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_torn.sh - no torn update: connections from a pod to a ClusterIP and from outside to a
# NodePort, while the Service's endpoints are replaced thousands of times.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

UPDATES=${MK_TORN_UPDATES:-10000}
ENDPOINTS=()
declare -A COUNT=()

objects()
{
	cat <<-END
		apiVersion: v1
		kind: Service
		metadata: {name: torn}
		spec: {type: NodePort, clusterIP: $VIP, ports: [{port: 80, nodePort: 30099}]}
	END
}

first_slice()
{
	local address=${ENDPOINTS[0]#*=}
	cat <<-END
		{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
		 "metadata": {"name": "torn-slice", "labels": {"kubernetes.io/service-name": "torn"}},
		 "ports": [{"name": "", "port": 8080}],
		 "endpoints": [{"addresses": ["${address%=*}"]}]}
	END
}

torn_lab_up()
{
	local index name
	MK_AGENT_FLAGS='--log-level debug' lab up 2
	for index in 1 2 3 4 5 6 7 8; do
		name=end-$index
		ENDPOINTS+=("$name=$(lab pod "node$((index % 2 + 1))" "$name")=node$((index % 2 + 1))")
	done
	lab pod node1 client >/dev/null
	objects >"$TMP/torn.yaml"
	first_slice >"$TMP/torn-slice.json"
	lab apply "$TMP/torn.yaml" "$TMP/torn-slice.json"
	wait_for 10 refused_by_endpoint client "$VIP:80"
	wait_for 10 refused_by_endpoint world "$NODE2:30099"
}
# Its server does not run yet, but the route to it exists.
refused_by_endpoint() { expect_eq "TCP from $1 to $2" refused "$(ask "$1" tcp "$2" --timeout 1 || true)"; }

hammer()
{
	local word number
	"$HERE/torn.py" "/run/mklab-$MK_LAB" --updates "$UPDATES" --vip "$VIP:80" --node-port "$NODE2:30099" \
		"${ENDPOINTS[@]}" >"$TMP/counts"
	while read -r word number; do
		COUNT[$word]=$number
	done <"$TMP/counts"
	sed 's/^/# /' "$TMP/counts"
}
explain() { cat "$TMP/counts"; for node in node1 node2; do on "$node" "$MK_BIN" drops; done; }

none() { expect_eq "connections: $1" 0 "${COUNT[$1]}"; }
at_least() { ((COUNT[$2] >= $1)) || expect_eq "$2" "at least $1" "${COUNT[$2]}"; }
all_updates() { expect_eq "updates that both agents applied" "$UPDATES" "${COUNT[updates]}"; }
never_without_backend()
{
	local node reason
	for node in node1 node2; do
		for reason in NO_BACKEND REFUSED NO_LOCAL_BACKEND CHAIN_BROKEN; do
			expect_eq "drops of $node because of $reason" 0 "$(drop_count "$node" "$reason")"
		done
	done
}

torn_lab_up
hammer
check "all endpoints are replaced $UPDATES times, on both nodes" all_updates
check "thousands of connections from a pod to the ClusterIP" at_least 2000 pod
check "thousands of connections from outside to the NodePort" at_least 2000 world
check "every endpoint is reached" at_least 100 least
check "every connection reaches an endpoint that was valid meanwhile" none wrong
check "no connection is refused" none refused
check "no connection is reset" none reset
check "no connection times out" none timeout
check "no connection fails otherwise" none failed
check "the datapath was never without a backend" never_without_backend
finish
