#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_services_endpoints.sh - which endpoints of a Service serve, by their conditions,
# slices, topology hints and the Service's policies; the effect of their changes on open flows, and
# a Service that changes its type.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/services.sh
. "$HERE/lib/services.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"
declare -A PIPES=()

number ready 1
number ending 2
number ended 3
number here-ending 4
number here-both 5
number slices 6
number zones 7
number nodes 8
number half 9
number stray 10
number unready 11
number changing 12
number turning 13
number leaving 14
number mix 15
number zoned 16

objects()
{
	service ready ClusterIP
	endpoints ready web-1 web-2=terminating
	service ending LoadBalancer
	endpoints ending web-1=terminating web-2=terminating
	service ended ClusterIP
	endpoints ended web-1=ended web-2=unready
	service here-ending LoadBalancer 'externalTrafficPolicy: Local, internalTrafficPolicy: Local'
	endpoints here-ending web-1=terminating web-2
	service here-both NodePort 'externalTrafficPolicy: Local'
	endpoints here-both web-1 node1=terminating web-2
	service slices ClusterIP
	endpoints slices.a web-1=terminating web-2
	endpoints slices.b web-1
	service mix ClusterIP
	endpoints mix.a web-1 node1=unready
	endpoints mix.b web-2
	service zones LoadBalancer
	endpoints zones 'web-1@forZones: [{name: zone-1}]' 'web-2@forZones: [{name: zone-2}]'
	service zoned ClusterIP
	endpoints zoned 'web-1@forZones: [{name: zone-1}]' 'web-2@forZones: [{name: zone-2}]'
	service nodes ClusterIP
	endpoints nodes 'web-1@forNodes: [{name: node1}]' 'web-2@forNodes: [{name: node2}, {name: node3}]'
	service half ClusterIP
	endpoints half 'web-1@forZones: [{name: zone-1}]' web-2
	service stray ClusterIP
	endpoints stray 'web-1@forZones: [{name: zone-8}]' 'web-2@forZones: [{name: zone-9}]'
	service unready ClusterIP 'publishNotReadyAddresses: true'
	endpoints unready web-2
}

# Endpoints selected by conditions, slices and hints: `name|from|to|who`
CHOICES=(
	"ready endpoint before a terminating one|client-2|vip ready|web-1"
	"only terminating ones: they serve, to ClusterIP|client-3|vip ending|web-1 web-2"
	"only terminating ones: they serve, to NodePort|world|node3 ending|web-1 web-2"
	"only terminating ones: they serve, to load balancer|world|lb1 ending|web-1 web-2"
	"external policy Local: terminating here before ready elsewhere|world|node1 here-ending|web-1"
	"external policy Local: ready here|world|lb2 here-ending|web-2"
	"internal policy Local: terminating here before ready elsewhere|client-1|vip here-ending|web-1"
	"internal policy Local: ready here|client-2|vip here-ending|web-2"
	"external policy Local, the cluster's short cut: ready ones alone|client-1|lb1 here-ending|web-2"
	"external policy Local: ready before terminating, both here|world|node1 here-both|web-1"
	"one address in two slices: the one not terminating wins|client-1|vip slices|web-1 web-2"
	"two slices are merged, what is not ready is left out|client-1|vip mix|web-1 web-2"
	"hints for zones: node1's|client-1|vip zones|web-1"
	"hints for zones: node2's|client-2|vip zones|web-2"
	"hints for zones: node3's, without an endpoint of its own|client-3|vip zones|web-1"
	"hints for zones: from outside, by node2|world|node2 zones|web-2"
	"hints for nodes: node1|client-1|vip nodes|web-1"
	"hints for nodes: node3|client-3|vip nodes|web-2"
	"hints: ignored where one endpoint has none|client-1|vip half|web-1 web-2"
	"hints: ignored where none names the node's zone|client-1|vip stray|web-1 web-2"
	"publishNotReadyAddresses: the slice says ready|client-1|vip unready|web-2"
)
NOBODY=(
	"neither ready nor serving: refused|client-1|tcp udp|vip ended|refused|"
	"external policy Local: no endpoint here, silence|world|tcp udp|node3 here-ending|silent|node3 NO_LOCAL_BACKEND"
	"internal policy Local: no endpoint here, silence|client-3|tcp udp|vip here-ending|silent|node3 NO_LOCAL_BACKEND"
)

check_choices()
{
	local row name from to who
	for row in "${CHOICES[@]}"; do
		IFS='|' read -r name from to who <<<"$row"
		check "$name" both_answer "$from" "$to" "$who"
	done
}
both_answer()
{
	answers "$1" tcp "$2" "$3"
	answers "$1" udp "$2" "$3"
}

# A node's zone changes: everything is selected again, not only Services whose external addresses
# may be a node's.
zone_changes()
{
	sed 's/zone-1/zone-2/' "/run/mklab-$MK_LAB/objects/node-node3.yaml" >"$TMP/node-node3.yaml"
	lab apply "$TMP/node-node3.yaml"
	wait_for 10 answers client-3 tcp "vip zones" web-2
	wait_for 10 answers client-3 tcp "vip zoned" web-2
	answers client-1 tcp "vip zones" web-1
}

# ---- ports

named_ports()
{
	cat <<-END
		---
		apiVersion: v1
		kind: Service
		metadata: {name: named}
		spec:
		  type: NodePort
		  clusterIP: 10.96.2.1
		  selector: {kind: named}
		  ports:
		  - {name: first, port: 81, targetPort: alt, nodePort: 30201}
		  - {name: second, port: 82, targetPort: http, nodePort: 30202}
		  - {name: third, port: 83, targetPort: 8081}
		  - {name: same, port: 81, targetPort: dns, protocol: UDP, nodePort: 30201}
	END
}

# `alt` is 8081 in one pod and 8082 in the other; each answer names the requested port.
named_ports_up()
{
	pod_up node1 named-1 --label kind=named --port alt=8081
	pod_up node2 named-2 --label kind=named --port alt=8082
	serve named-1 named-1-http --tcp 8080 --udp 5353
	serve named-2 named-2-http --tcp 8080 --udp 5353
	serve named-1 named-1-8081 --tcp 8081
	serve named-2 named-2-8081 --tcp 8081
	serve named-2 named-2-8082 --tcp 8082
	named_ports | apply named
	wait_for 10 answers client-1 tcp 10.96.2.1:81 "named-1-8081 named-2-8082"
	wait_for 10 answers world tcp 192.168.99.13:30201 "named-1-8081 named-2-8082"
}
several_ports()
{
	answers client-1 tcp 10.96.2.1:82 "named-1-http named-2-http"
	answers client-1 tcp 10.96.2.1:83 "named-1-8081 named-2-8081"
	answers client-1 udp 10.96.2.1:81 "named-1-http named-2-http"
	answers world tcp 192.168.99.11:30202 "named-1-http named-2-http"
}
named_target() { answers "$1" tcp "$2" "named-1-8081 named-2-8082"; }
one_number_two_protocols() { answers world udp 192.168.99.13:30201 "named-1-http named-2-http"; }

# ---- changes

# changing TYPE [MORE]: the Service `changing` is now this
changing() { { service changing "$@"; endpoints changing web-2; } | apply changing; }
flows_soon() { wait_for 10 flow "$@"; }

becomes_cluster_ip()
{
	changing ClusterIP
	flows_soon client-1 tcp "vip changing" web-2 client-1
	wait_for 10 no_node_port
}
no_node_port() { expect_match "node port of changing" '^(refused|timeout)$' "$(ask world tcp "$(where "node1 changing")" --timeout 0.3 || true)"; }
becomes_node_port()
{
	changing NodePort
	flows_soon world tcp "node1 changing" web-2 vpod1
	wait_for 10 no_load_balancer
	flow client-1 udp "vip changing" web-2 client-1
}
no_load_balancer() { expect_failure flow client-1 tcp "lb1 changing" web-2 vpod1 --timeout 0.3; }
becomes_load_balancer()
{
	changing LoadBalancer
	flows_soon world tcp "lb3 changing" web-2 vpod3
	flow world udp "node2 changing" web-2 vpod2
	flow client-1 tcp "ext1 changing" web-2 vpod1
}

# The API server leaves clusterIP with an ExternalName that had one before.
becomes_external_name()
{
	changing ExternalName 'externalName: elsewhere.example'
	wait_for 10 gone
}
becomes_headless()
{
	service changing ClusterIP | sed 's/clusterIP: [0-9a-f.:]*/clusterIP: None/' >"$TMP/changing.yaml"
	lab apply "$TMP/changing.yaml"
	wait_for 10 gone
}
gone()
{
	flow client-1 tcp "vip changing" silent "node1 NO_ROUTE"
	no_node_port
	no_load_balancer
}

# A label that another proxy's Services have, put on later, and taken away.
another_proxy()
{
	changing NodePort
	flows_soon client-1 tcp "vip changing" web-2 client-1
	{
		service changing NodePort | sed 's|name: changing|&, labels: {service.kubernetes.io/service-proxy-name: other}|'
		endpoints changing web-2
	} | apply changing
	wait_for 10 gone
	changing NodePort
	flows_soon client-1 tcp "vip changing" web-2 client-1
	flows_soon world udp "node3 changing" web-2 vpod3
}

headless_label()
{
	{
		service changing NodePort
		endpoints changing web-2 | sed 's|{kubernetes.io|{service.kubernetes.io/headless: "", kubernetes.io|'
	} | apply changing
	flows_soon client-1 tcp "vip changing" refused
	changing NodePort
	flows_soon client-1 tcp "vip changing" web-2 client-1
}

node_port_changes()
{
	changing NodePort
	flows_soon world tcp "node1 changing" web-2 vpod1
	sed -i 's/nodePort: [0-9]*/nodePort: 30777/' "$TMP/changing.yaml"
	lab apply "$TMP/changing.yaml"
	flows_soon world tcp "${ADDR[node1]}:30777" web-2 vpod1
	flow world udp "${ADDR[node2]}:30777" web-2 vpod2
	no_node_port
}

slice_before_service()
{
	lab delete changing.yaml
	wait_for 10 gone
	endpoints changing web-1 | apply early
	service changing NodePort | apply changing
	flows_soon client-2 tcp "vip changing" web-1 client-2
	lab delete early.yaml
	flows_soon client-2 tcp "vip changing" refused
}

# ---- open flows: set up outside of the tests, which are subshells

turning() { { service turning LoadBalancer "$1"; endpoints turning "${@:2}"; } | apply turning; }

connections_open()
{
	turning 'externalTrafficPolicy: Cluster' web-1
	wait_for 10 flow client-2 tcp "vip turning" web-1 client-2
	wait_for 10 flow node1 tcp "vip turning" web-1 vtep1
	wait_for 10 flow world tcp "lb3 turning" web-1 vpod3
	hold by-vip client-2 "$(where "vip turning")"
	hold by-host node1 "$(where "vip turning")"
	hold by-own node1 "$(where "node1 turning")"
	hold by-host-lb node1 "$(where "lb1 turning")"
	hold by-ext world "$(where "ext1 turning")"
	hold by-node world "$(where "node1 turning")"
	hold by-lb world "$(where "lb3 turning")"
}
endpoint_terminates()
{
	turning 'externalTrafficPolicy: Cluster' web-1=terminating web-2
	wait_for 10 answers client-2 tcp "vip turning" web-2
	wait_for 10 answers world tcp "node1 turning" web-2
	wait_for 10 answers world tcp "lb3 turning" web-2
	pulse 2
}
policies_turn()
{
	turning 'externalTrafficPolicy: Local, internalTrafficPolicy: Local' web-1=terminating web-2
	wait_for 10 flow client-3 tcp "vip turning" silent "node3 NO_LOCAL_BACKEND"
	wait_for 10 flow world tcp "lb3 turning" silent "node3 NO_LOCAL_BACKEND"
	wait_for 10 answers world tcp "node1 turning" web-1
	pulse 3
}
endpoint_ends()
{
	turning 'externalTrafficPolicy: Cluster' web-1=ended web-2
	wait_for 10 answers client-2 tcp "vip turning" web-2
	wait_for 10 answers world tcp "lb3 turning" web-2
	pulse 4
}
endpoint_is_unready()
{
	turning 'externalTrafficPolicy: Cluster' web-1=unready web-2
	wait_for 10 answers client-2 tcp "vip turning" web-2
	pulse 5
}
endpoint_is_gone()
{
	turning 'externalTrafficPolicy: Cluster' web-2
	wait_for 10 answers client-2 tcp "vip turning" web-2
	wait_for 10 answers world tcp "lb3 turning" web-2
	pulse 6
}
nobody_is_left()
{
	turning 'externalTrafficPolicy: Cluster'
	wait_for 10 flow client-2 tcp "vip turning" refused
	wait_for 10 flow world tcp "lb3 turning" refused
	pulse 7
	for name in "${!PIPES[@]}"; do
		expect_eq "who served connection $name" web-1 "$(cut -d' ' -f1 <"$TMP/$name.out" | sort -u | xargs)"
	done
}

addresses_go()
{
	{ service turning ClusterIP; endpoints turning web-1 web-2; } | apply turning
	wait_for 10 answers client-2 tcp "vip turning" "web-1 web-2"
	wait_for 10 not_served world "node1 turning"
	wait_for 10 not_served world "lb3 turning"
	wait_for 10 not_served node1 "node1 turning"
	pulse 8
}
not_served() { expect_match "port of $2" '^(refused|timeout)$' "$(ask "$1" tcp "$(where "$2")" --timeout 0.3 || true)"; }
service_goes()
{
	lab delete turning.yaml
	wait_for 10 not_served client-2 "vip turning"
	pulse 9
}
agents_restart()
{
	lab agent stop node1
	lab agent stop node3
	pulse 10
	lab agent start node1
	lab agent start node3
	pulse 11
	wait_for 10 programs_know 1
	expect_match "route of node1 to the address of a connection" . "$(routes_to "$(lb 1 turning)")"
	pulse 12
	for name in "${!PIPES[@]}"; do
		expect_eq "who served connection $name" web-1 "$(cut -d' ' -f1 <"$TMP/$name.out" | sort -u | xargs)"
	done
}
# programs_know FLAG: does node1 look for connections whose Service has been deleted?
programs_know()
{
	expect_eq "frontends_gone of node1" "$1" "$(on node1 bpftool -j map dump pinned "$PINS/runtime" |
		jq '.[0].formatted.value.frontends_gone')"
}
routes_to() { on node1 ip "-$FAMILY" route show "$1"; }
connections_close()
{
	local pipe
	for pipe in "${PIPES[@]}"; do
		exec {pipe}>&-
	done
}
# A masqueraded connection keeps its port for the server's TIME-WAIT, 60 s.
nothing_is_kept()
{
	wait_for 110 programs_know 0
	wait_for 10 no_route_left
}
no_route_left() { expect_eq "route to an address of a Service that is gone" "" "$(routes_to "$(lb 1 turning)")"; }

leaving() { { service leaving NodePort; endpoints leaving "$@"; } | apply leaving; }

udp_open()
{
	leaving web-1
	wait_for 10 flow client-2 udp "vip leaving" web-1 client-2
	wait_for 10 flow world udp "node3 leaving" web-1 vpod3
	hold udp-vip client-2 "$(where "vip leaving")" udp
	hold udp-node world "$(where "node3 leaving")" udp
}
# again NAME: one more exchange on this open flow; prints the server
again()
{
	local before deadline=$((SECONDS + 5))
	before=$(wc -l <"$TMP/$1.out")
	echo >&"${PIPES[$1]}"
	until (($(wc -l <"$TMP/$1.out") > before)); do
		((SECONDS < deadline)) || { echo "flow $1: no answer within 5 s"; return 1; }
		sleep 0.02
	done
	tail -n 1 "$TMP/$1.out" | cut -d' ' -f1
}
open_flows() { expect_eq "who answers the open flows" "$1 $1" "$(again udp-vip) $(again udp-node)"; }

# sweep_of NODE passes|cut: node2's sees the flow to the address, node3's the one to the node port
sweep_of() { on "$1" curl -s http://127.0.0.1:10249/metrics | awk -v what="$2" '$1 ~ "^monokube_(sweep|sessions)_" what "_total[{]" { print $2 }'; }
has_passed() { (($(sweep_of "$1" passes) > $2)); }
cut_so_far() { echo "$(sweep_of node2 cut) $(sweep_of node3 cut)"; }
# All open connections are checked, node3's last.
sweeps_pass()
{
	local node passes
	for node in node2 node3; do
		passes=$(sweep_of "$node" passes)
		wait_for 40 has_passed "$node" "$passes"
	done
}

port_flow() { expect_eq "who answers the flow to the node port" "$1" "$(again udp-node)"; }

udp_stays()
{
	local cut
	cut=$(cut_so_far)
	leaving web-1 web-2
	wait_for 10 answers client-2 udp "vip leaving" "web-1 web-2"
	sweeps_pass
	expect_eq "sessions cut at node2 and node3" "$cut" "$(cut_so_far)"
	open_flows web-1
}
# Node3's sweep has just passed; the next one starts in five seconds at the earliest.
udp_is_cut()
{
	sweeps_pass
	leaving web-2
	wait_for 4 port_flow web-2
	wait_for 10 open_flows web-2
	open_flows web-2
}
udp_is_left_alone()
{
	leaving web-2=ended
	wait_for 10 flow client-2 udp "vip leaving" refused
	wait_for 10 flow world udp "node3 leaving" refused
	open_flows web-2
}
udp_terminating_goes_on()
{
	leaving web-1 web-2=terminating
	wait_for 10 answers client-2 udp "vip leaving" web-1
	wait_for 10 answers world udp "node3 leaving" web-1
	open_flows web-2
}

services_lab_up
objects | apply services
turning 'externalTrafficPolicy: Cluster' web-1
for last in client-1 client-2 client-3; do
	wait_for 10 flow "$last" udp "vip unready" web-2 "$last"
done
check_choices
check_flows "${NOBODY[@]}"
check "a node's zone changes: hints are read again" zone_changes
named_ports_up
check "named target port, another number in each pod, from a pod" named_target client-1 10.96.2.1:81
check "named target port, another number in each pod, from a host" named_target node3 10.96.2.1:81
check "named target port, another number in each pod, from outside" named_target world 192.168.99.12:30201
check "several ports, each its own endpoints" several_ports
check "one number, TCP and UDP" one_number_two_protocols
check "a Service becomes ClusterIP" becomes_cluster_ip
check "ClusterIP becomes NodePort" becomes_node_port
check "NodePort becomes LoadBalancer" becomes_load_balancer
check "LoadBalancer becomes ExternalName" becomes_external_name
check "ExternalName becomes LoadBalancer" becomes_load_balancer
check "LoadBalancer becomes headless" becomes_headless
check "headless becomes NodePort" becomes_node_port
check "NodePort becomes ClusterIP" becomes_cluster_ip
check "ClusterIP becomes headless" becomes_headless
check "headless becomes ClusterIP" becomes_cluster_ip
check "ClusterIP becomes ExternalName" becomes_external_name
check "label service-proxy-name added later removes the Service, and brings it back" another_proxy
check "label headless added later removes the slice" headless_label
check "a changed node port" node_port_changes
check "the slice is there before its Service" slice_before_service
connections_open
check "open TCP flows: their endpoint becomes terminating" endpoint_terminates
check "open TCP flows: both policies become Local" policies_turn
check "open TCP flows: policies change back, the endpoint no longer serves" endpoint_ends
check "open TCP flows: their endpoint is no longer ready" endpoint_is_unready
check "open TCP flows: their endpoint is in no slice" endpoint_is_gone
check "open TCP flows: no endpoint is left for new ones" nobody_is_left
check "open TCP flows: node port, external and load-balancer address go" addresses_go
check "open TCP flows: their Service goes" service_goes
check "open TCP flows: agents restart without the Service" agents_restart
connections_close
check "open TCP flows: when they end nothing is kept for them" nothing_is_kept
PIPES=()
udp_open
check "open UDP flows: another endpoint comes" udp_stays
check "open UDP flows: their endpoint goes, the next datagram chooses again" udp_is_cut
check "open UDP flows: their endpoint becomes terminating" udp_terminating_goes_on
check "open UDP flows: no endpoint serves, they are left alone" udp_is_left_alone
finish
