#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_clusters_services.sh - Services of a clusterset: west uses what east exports, by files and without
# a leader. Both clusters have equal pod ranges, and each sees the other one as 240.1.0.0/16.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

# shellcheck disable=SC2034 # read by clusters.sh
CLUSTERS=(west east)
# shellcheck source=test/lab/lib/clusters.sh
. "$HERE/lib/clusters.sh"
# shellcheck disable=SC2034 # read by clusters.sh
MORE_FLAGS="--clusterset-cidr $(both 247.254.0.0/16) --external-cidr $(both 247.255.0.0/16)"

# Pods a and b: of the other cluster, as it is seen here; the import, and an address that none has
A=$(in_family 240.1.1.2) B=$(in_family 240.1.2.2) IMPORT=$(in_family 247.254.0.7) UNUSED=$(in_family 247.254.0.8)
WEST1=$(in_family 192.168.101.11)
PORTS='ports: [{name: http, port: 80}, {name: dns, port: 80, protocol: UDP}]'
SERVICE="kubernetes.io/service-name: web"
SLICE="multicluster.kubernetes.io/service-name: web, multicluster.kubernetes.io/source-cluster: east"
OWN_SLICE=${SLICE/%east/west}

# ---- objects

# slices NAME LABELS ADDRESS...: port 8080 of these, for each family
slices()
{
	local name=$1 labels=$2 address first='' second=''
	for address in "${@:3}"; do
		first+="{addresses: [$address]}, "
		second+="{addresses: [\"$(six "$address")\"]}, "
	done
	slice "$name" "$labels" IPv4 "$first" # apply() translates it
	[[ ! ${SECOND:-} ]] || slice "$name-second" "$labels" IPv6 "$second"
}

# slice NAME LABELS TYPE ENDPOINTS
slice()
{
	cat <<-END
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: $1, namespace: shop, labels: {$2}}
		addressType: $3
		ports: [{name: http, port: 8080}, {name: dns, port: 8080, protocol: UDP}]
		endpoints: [${4%, }]
	END
}

# east_has ADDRESS...: Service web with these endpoints
east_has()
{
	of east apply web <<-END
		apiVersion: v1
		kind: Service
		metadata: {name: web, namespace: shop}
		spec: {clusterIP: 10.96.5.1, $PORTS}
		$(slices web "$SERVICE" "$@")
	END
}

export_it()
{
	of east apply export <<-END
		apiVersion: multicluster.x-k8s.io/v1alpha1
		kind: ServiceExport
		metadata: {name: web, namespace: shop}
	END
}

# west_imports MORE ADDRESS...: the ServiceImport, and the views of its endpoints; MORE is YAML of its spec.
# With PREFER: its preferred clusters.
west_imports()
{
	of west apply import <<-END
		apiVersion: multicluster.x-k8s.io/v1beta1
		kind: ServiceImport
		metadata: {name: web, namespace: shop${PREFER:+, annotations: {networking.monokube.io/prefer: '$PREFER'\}}}
		spec: {type: ClusterSetIP, ips: ["$(both 247.254.0.7 | sed 's/,/", "/')"], $PORTS${1:+, $1}}
		$(slices web-east "$SLICE" "${@:2}")
	END
}

# ---- traffic

# answerers WHERE PROTO [ADDRESS]: who answers 24 requests to the import
answerers() { of west ask "$1" "$2" "$(with_port "${3:-$IMPORT}" 80)" --count 24 | cut -d' ' -f1 | sort -u | xargs; }
# answers WHERE PROTO WHO [ADDRESS]
answers() { expect_eq "who answers $1 by $2" "$3" "$(answerers "$1" "$2" "${4:-}" || true)"; }
# seen_as WHERE VIEW: pods of east see this view
seen_as() { expect_match "TCP of $1" "^[ab] $2 " "$(of west ask "$1" tcp "$(with_port "$IMPORT" 80)" || true)"; }
# closed POD PROTO ADDRESS PORT
closed() { expect_failure of west ask "$1" "$2" "$(with_port "$3" "$4")" --timeout 1; }
pings() { of west on "$1" ping -c 1 -W 5 "$2"; }
denied() { echo $(($(dropped east node1 PEER_DENIED) + $(dropped east node2 PEER_DENIED))); }

from_everywhere()
{
	local pod
	for pod in a b; do
		answers "$pod" tcp "a b"
		answers "$pod" udp "a b"
	done
}

# ---- rows

exported_and_imported()
{
	published west east
	published east west
	peer west east 240.1.0.0/16 None "externalCidr: '$(both 240.2.0.0/16)'"
	peer east west 240.1.0.0/16 Exports
	east_has 10.244.1.2 10.244.2.2
	export_it
	west_imports "" 240.1.1.2 240.1.2.2
	wait_for 10 answers a tcp "a b"
	wait_for 10 answers b tcp "a b"
	from_everywhere
	seen_as a 240.1.1.2
	seen_as b 240.1.2.2
}

second_family()
{
	answers a tcp "a b" "$(six 247.254.0.7)"
	answers b udp "a b" "$(six 247.254.0.7)"
}

only_exports_are_open()
{
	local view before
	for view in "$A" "$B"; do
		before=$(denied)
		closed a tcp "$view" 9090
		closed b udp "$view" 9090
		(($(denied) >= before + 2))
		of west ask a tcp "$(with_port "$view" 8080)"
		of west ask b udp "$(with_port "$view" 8080)"
		pings a "$view"
		pings b "$view"
	done
}

# West's access is None, so nothing is open there, and east gets answers only.
nothing_is_open_in_west()
{
	expect_failure of east ask a tcp "$(with_port "$A" 8080)" --timeout 1
	expect_failure of east on b ping -c 1 -W 1 "$B"
}

by_hosts()
{
	answers node1 tcp "a b"
	answers node2 udp "a b"
	seen_as node1 240.1.1.1
	seen_as node2 240.1.2.1
}

unused_address()
{
	local before
	before=$(dropped west node1 NO_ROUTE)
	closed a tcp "$UNUSED" 80
	(($(dropped west node1 NO_ROUTE) > before))
}

# A Service of west's own may name views: by ClusterIP and NodePort, from pods and from outside.
own_service()
{
	of west apply mixed <<-END
		apiVersion: v1
		kind: Service
		metadata: {name: mixed, namespace: shop}
		spec: {type: NodePort, clusterIP: 10.96.5.2, ports: [{name: http, port: 80, nodePort: 30080}]}
		$(slice mixed "kubernetes.io/service-name: mixed" IPv4 "{addresses: [240.1.1.2]}, {addresses: [240.1.2.2]}")
	END
	wait_for 10 answers b tcp "a b" "$(in_family 10.96.5.2)"
	wait_for 10 world_gets "a b"
}

world_gets()
{
	expect_eq "who answers world" "$1" \
		"$(of west ask world tcp "$(with_port "$WEST1" 30080)" --count 24 | cut -d' ' -f1 | sort -u | xargs)"
}

endpoints_change()
{
	east_has 10.244.2.2
	west_imports "" 240.1.2.2
	wait_for 10 answers a tcp b
	wait_for 10 closed b tcp "$A" 8080
	answers b udp b
	east_has 10.244.1.2 10.244.2.2
	wait_for 10 of west ask b tcp "$(with_port "$A" 8080)"
	west_imports "" 240.1.1.2 240.1.2.2
	wait_for 10 answers a tcp "a b"
}

affinity()
{
	west_imports "sessionAffinity: ClientIP" 240.1.1.2 240.1.2.2
	wait_for 10 one_answers a
	one_answers b
	west_imports "" 240.1.1.2 240.1.2.2
	wait_for 10 answers a tcp "a b"
	wait_for 10 answers b tcp "a b"
}
one_answers() { expect_match "who answers $1" '^[ab]$' "$(answerers "$1" tcp)"; }

# west_has ADDRESS...: endpoints of west itself
west_has() { slices web-west "$OWN_SLICE" "$@" | of west apply own; }

# Pod a is west's, b is east's.
preference()
{
	PREFER="local, east" west_imports "" 240.1.2.2
	west_has 10.244.1.2
	wait_for 10 answers b tcp a
	wait_for 10 answers node1 udp a
	expect_match "services" " prefers " "$(of west on node1 "$MK_BIN" services)"
	expect_match "trace" "preference" "$(of west on node1 "$MK_BIN" trace default/a "$IMPORT" 80 --protocol tcp)"
	west_has
	wait_for 10 answers b tcp b
	wait_for 10 answers node1 udp b
	west_has 10.244.1.2
	wait_for 10 answers b tcp a
	PREFER="No such, east" west_imports "" 240.1.2.2
	wait_for 10 answers b tcp b
	expect_match "log" "'No such' is left out" "$(of west lab log node1)"
	west_imports "" 240.1.2.2
	wait_for 10 answers b tcp "a b"
	of west lab delete "$TMP/own.yaml"
	west_imports "" 240.1.1.2 240.1.2.2
	wait_for 10 answers a tcp "a b"
	wait_for 10 answers b tcp "a b"
}

policies()
{
	of east apply policy <<-END
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: from-b}
		spec:
		  podSelector: {}
		  policyTypes: [Ingress]
		  ingress: [{from: [{ipBlock: {cidr: 240.1.2.0/24}}]}]
	END
	wait_for 10 closed a tcp "$IMPORT" 80
	answers b tcp "a b"
	of east lab delete "$TMP/policy.yaml"
	wait_for 10 answers a tcp "a b"
}

agents_are_dead()
{
	of west lab agent kill node1
	of east lab agent kill node2
	from_everywhere
	by_hosts
	of west lab agent start node1
	of east lab agent start node2
	wait_for 10 peers_are west node1 "east direct ok"
	wait_for 10 peers_are east node2 "west direct ok"
	from_everywhere
}

# Packets of west's nodes to those of east vanish. West's pod a is an endpoint, too.
path_is()
{
	local node
	for node in node1 node2; do
		of west on "$node" ip "-$FAMILY" route "$1" blackhole "$(in_family 192.168.102.11)"
		of west on "$node" ip "-$FAMILY" route "$1" blackhole "$(in_family 192.168.102.12)"
	done
}
down_and_up()
{
	wait_for 15 probes_show west node2 east "false 2/2"
	expect_match "round trip" "ms" "$(of west on node2 "$MK_BIN" peers)"
	west_imports "" 10.244.1.2 240.1.2.2
	wait_for 10 answers b tcp "a b"
	path_is add
	wait_for 30 probes_show west node2 east "true 0/2"
	wait_for 10 answers b tcp a
	expect_match "why" "answers probes" "$(of west on node2 "$MK_BIN" peers)"
	path_is del
	wait_for 40 probes_show west node2 east "false 2/2"
	wait_for 10 answers b tcp "a b"
	west_imports "" 240.1.1.2 240.1.2.2
	wait_for 10 answers b tcp "a b"
}

tools()
{
	expect_match "services" "shop/web.clusterset" "$(of west on node1 "$MK_BIN" services)"
	expect_match "trace" "peer east" "$(of west on node1 "$MK_BIN" trace default/a "$IMPORT" 80 --protocol tcp)"
	expect_match "peers of east" "Exports" "$(of east on node1 "$MK_BIN" peers)"
	of west on node1 "$MK_BIN" check
	of east on node1 "$MK_BIN" check
}

# externals NAME ADDRESS1 ADDRESS2 TARGET1 TARGET2: what a leader would publish
externals()
{
	cat <<-END
		---
		apiVersion: networking.monokube.io/v1alpha1
		kind: PublishedService
		metadata: {name: east.shop.$1, namespace: monokube-published, labels: {networking.monokube.io/cluster: east}}
		spec:
		  namespace: shop
		  name: $1
		  slices:
		  - name: $1
		    addressType: IPv4
		    ports: [{port: 9191}, {port: 9191, protocol: UDP}]
		    endpoints: [{addresses: ["$2"], target: "$4"}, {addresses: ["$3"], target: "$5"}]
	END
}

targets_answer()
{
	local from
	for from in a b node1; do
		of west ask "$from" tcp "$(with_port "$1" 9191)" --want 60000 >"$TMP/asked" && expect_match "host by $from" "^node2 " "$(cat "$TMP/asked")"
		of west ask "$from" udp "$(with_port "$2" 9191)" >"$TMP/asked" && expect_match "outside by $from" "^world " "$(cat "$TMP/asked")"
	done
}

# A process of node2's host, and one outside of the cluster
external_addresses()
{
	local before at=247.255.0
	of east serve node2 node2 --tcp 9191 --udp 9191
	of east serve world world --tcp 9191 --tcp 9192 --udp 9191
	{
		externals out $at.5 $at.6 192.168.102.12 192.168.102.200
		[[ ! ${SECOND:-} ]] || externals six "$(six $at.5)" "$(six $at.6)" "$(six 192.168.102.12)" "$(six 192.168.102.200)"
	} | of east apply externals
	wait_for 10 of west ask a tcp "$(with_port "$(in_family 240.2.0.6)" 9191)" --timeout 1
	targets_answer "$(in_family 240.2.0.5)" "$(in_family 240.2.0.6)"
	[[ ! ${SECOND:-} ]] || targets_answer "$(six 240.2.0.5)" "$(six 240.2.0.6)"
	pings a "$(in_family 240.2.0.6)"
	before=$(denied)
	closed a tcp "$(in_family 240.2.0.6)" 9192
	(($(denied) > before))
	of east lab agent kill node1
	targets_answer "$(in_family 240.2.0.5)" "$(in_family 240.2.0.6)"
	of east lab agent start node1
	of east lab delete "$TMP/externals.yaml"
	wait_for 10 closed a tcp "$(in_family 240.2.0.6)" 9191
}

export_goes()
{
	of east lab delete "$TMP/export.yaml"
	wait_for 10 closed a tcp "$A" 8080
	wait_for 10 closed a tcp "$B" 8080
	closed b udp "$IMPORT" 80
	expect_failure pings a "$A"
	export_it
	wait_for 10 answers a tcp "a b"
	peer east west 240.1.0.0/16 None
	wait_for 10 closed a tcp "$A" 8080
	wait_for 10 closed a tcp "$B" 8080
	peer east west 240.1.0.0/16 Exports
	wait_for 10 answers a tcp "a b"
}

import_goes()
{
	of west lab delete "$TMP/import.yaml"
	wait_for 10 closed a tcp "$IMPORT" 80
	of west ask a tcp "$(with_port "$A" 8080)"
	west_imports "" 240.1.1.2 240.1.2.2
	wait_for 10 answers a tcp "a b"
}

# ---- setup

labs_up
of east serve a a --tcp 9090 --udp 9090
of east serve b b --tcp 9090 --udp 9090

check "west uses by one address what east exports" exported_and_imported
[[ ! ${SECOND:-} ]] || check "and by that of the other family" second_family
check "of east, exported ports of endpoints are open, and pings of these pods" only_exports_are_open
check "west exports nothing" nothing_is_open_in_west
check "processes of hosts use the address, and have a view" by_hosts
check "an unused address of clustersetCidr goes nowhere" unused_address
check "views are backends of west's own Service, by ClusterIP and NodePort" own_service
check "endpoints change" endpoints_change
check "an import has affinity" affinity
check "a preferred cluster serves alone: it goes and comes" preference
check "policies of east see views" policies
check "agents are dead, and imports go on" agents_are_dead
check "a peer is down: another cluster's endpoints serve alone until it answers again" down_and_up
check "tools name imports and peers" tools
check "what is no pod is reached by external addresses: a host's process, and one outside" external_addresses
check "without the export, or with access: None, nothing is open" export_goes
check "an import goes and comes" import_goes
finish
