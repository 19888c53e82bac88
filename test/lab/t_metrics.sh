#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_metrics.sh - the agent's metrics, read by curl, compared with known events; it follows
# an API server, so that each part has values.
set -euo pipefail
export MK_LAB_ROUTING=Overlay # rows look for the overlay's packets and routes
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"
export MK_KUBECTL='' # the same client on every machine

FLAGS='--api-retry-max-seconds 1'
export MK_AGENT_FLAGS=$FLAGS
METRICS=127.0.0.1:10249
VIP=10.96.55.1
EMPTY=10.96.55.2
CONNECTIONS=15
README=$HERE/../../src/agent/README.md

metrics_lab_up()
{
	lab up 2 --api
	lab pod node1 client >/dev/null
	WEB=$(lab pod node2 web)
	{
		service_yaml web web "$VIP" "{port: 80, targetPort: 8000}"
		service_yaml empty nobody "$EMPTY" "{port: 80}"
	} | apply services
	serve_http web "$TMP"
	wait_for 20 fetch client "$VIP"
}

fetch() { on "$1" curl -sf --no-keepalive --max-time 5 -o /dev/null "http://$2/services.yaml"; }

# scrape [PAGE]: node1's, into $TMP/metrics
scrape()
{
	on node1 curl -sSf --max-time 5 -o "$TMP/metrics" "http://$METRICS/${1:-metrics}"
}
# seen SERIES: its values in the last scrape
seen() { "$HERE/lib/exposition.py" value "$TMP/metrics" "$1"; }
# tells SERIES VALUE: check a new scrape
tells() { scrape && expect_eq "$1" "$2" "$(seen "$1")"; }
# tells_more SERIES THAN: in a new scrape
tells_more()
{
	scrape
	awk -v now="$(seen "$1")" -v than="$2" 'BEGIN { exit !(now > than) }' ||
		expect_eq "$1" "more than $2" "$(seen "$1")"
}

# ---- the pages

right_format()
{
	scrape
	cp "$TMP/metrics" "$TMP/node"
	scrape metrics/services
	"$HERE/lib/exposition.py" check "$TMP/node"
	cp "$TMP/metrics" "$TMP/services"
	scrape metrics/policies
	cp "$TMP/metrics" "$TMP/policies"
	scrape metrics/chains
	"$HERE/lib/exposition.py" served "$README" "$TMP/node" "$TMP/services" "$TMP/policies" "$TMP/metrics"
}

answered_as_such()
{
	local told
	told=$(on node1 curl -s -o /dev/null -w '%{http_code} %{content_type}' "http://$METRICS/metrics")
	expect_eq "status and type" "200 text/plain; version=0.0.4; charset=utf-8" "$told"
	expect_eq "another path" 404 "$(on node1 curl -s -o /dev/null -w '%{http_code}' "http://$METRICS/")"
	expect_status 7 on world curl -s "http://$NODE1:10249/metrics"
}

# The requests of sig-network's suite to kube-proxy ("should check kube-proxy urls"), in its form.
proxy_mode()
{
	local told
	told=$(on node1 curl -s -o "$TMP/mode" -w '%{http_code} %{content_type}' http://localhost:10249/proxyMode)
	expect_eq "status and type" "200 text/plain; charset=utf-8" "$told"
	expect_eq "mode" monokube "$(<"$TMP/mode")"
	told=$(on node1 curl -i -q -s --connect-timeout 1 http://localhost:10256/healthz)
	expect_match "status line" "200 OK" "$told"
	expect_match "body" lastUpdated "$told"
}

# ---- the values

known_and_programmed()
{
	wait_for 5 tells 'monokube_objects{kind="Service"}' 2
	expect_eq "Nodes" 2 "$(seen 'monokube_objects{kind="Node"}')"
	expect_eq "peers" 1 "$(seen monokube_peers)"
	expect_eq "Services in the tables" "$(on node1 "$MK_BIN" services -o json | jq length)" "$(seen monokube_services_programmed)"
	expect_eq "entries of map frontends" "$(map_entries node1 frontends | wc -l)" "$(seen 'monokube_table_entries{table="frontends"}')"
	expect_eq "entries of map routes" "$(map_entries node1 routes | wc -l)" "$(seen 'monokube_table_entries{table="routes"}')"
	expect_eq "pods" 1 "$(seen monokube_pods)"
	expect_eq "addresses for pods" 252 "$(seen monokube_pod_addresses)"
	expect_eq "ready, healthy, complete" "1 1 1" "$(seen monokube_ready) $(seen monokube_healthy) $(seen monokube_cluster_complete)"
	expect_eq "Services that wait" 0 "$(seen monokube_services_waiting)"
}

drops()
{
	local before nobody=10.244.1.99
	scrape
	before=$(seen 'monokube_dropped_packets_total{reason="no_pod",hook="pod"}')
	on client ping -c 3 -i 0.2 -W 1 "$nobody" >/dev/null || true
	tells 'monokube_dropped_packets_total{reason="no_pod",hook="pod"}' $((before + 3))
	expect_eq "their bytes" $((3 * 98)) "$(seen 'monokube_dropped_bytes_total{reason="no_pod",hook="pod"}')"
}

packets_of_hooks()
{
	local before
	scrape
	before=$(seen 'monokube_hook_packets_total{hook="overlay"}')
	on client ping -c 5 -i 0.2 -W 2 "$WEB" >/dev/null
	tells_more 'monokube_hook_packets_total{hook="overlay"}' $((before + 4))
	expect_eq "device" "$(seen 'monokube_hook_packets_total{hook="overlay"}')" "$(seen 'monokube_hook_packets_total{hook="overlay",device="mkvxlan"}')"
	for hook in pod host overlay uplink uplink-egress; do
		[[ -n $(seen "monokube_hook_bytes_total{hook=\"$hook\"}") ]] || expect_eq "bytes of $hook" "a number" ""
	done
}

# The count of what a pod has sent, also after its device is removed.
packets_of_pods()
{
	local before sent
	lab pod node1 passing >/dev/null
	scrape
	before=$(seen 'monokube_hook_packets_total{hook="pod",device="pods"}')
	bytes=$(seen 'monokube_hook_bytes_total{hook="pod",device="pods"}')
	on passing ping -c 20 -i 0.05 -s 1000 -W 2 "$WEB" >/dev/null
	tells_more 'monokube_hook_packets_total{hook="pod"}' $((before + 19))
	tells_more 'monokube_hook_bytes_total{hook="pod"}' $((bytes + 20 * 1042 - 1))
	sent=$(seen 'monokube_hook_packets_total{hook="pod"}')
	lab rm passing
	tells_more 'monokube_hook_packets_total{hook="pod"}' $((sent - 1))
	lab agent stop node1
	lab agent start node1
	wait_for 20 tells_more 'monokube_hook_packets_total{hook="pod"}' $((sent - 1))
}

# A session stays for a while after its connection; the sweep passes every fifteen seconds.
sessions()
{
	local before
	scrape
	before=$(seen monokube_sweep_passes_total)
	on client python3 -c '
import socket, sys
s = [socket.create_connection((sys.argv[1], 80)) for _ in range(3)]
sys.stdin.read()' "$VIP" <"$TMP/hold" &
	exec {held}>"$TMP/hold"
	wait_for 60 tells_more monokube_sweep_passes_total $((before + 2))
	wait_for 40 at_least 'monokube_sessions{kind="service",protocol="tcp",state="established"}' 3
	at_least 'monokube_table_entries{table="sessions"}' 6
	expect_eq "room" 524288 "$(seen 'monokube_table_max_entries{table="sessions"}')"
	exec {held}>&-
}
at_least() { tells_more "$1" $(($2 - 1)); }

masquerade()
{
	expect_eq "range" 16384 "$(scrape && seen monokube_nat_ports)"
	on client ping -c 2 -i 0.2 -W 2 192.168.99.200 >/dev/null
	wait_for 20 at_least monokube_nat_ports_used 1
	at_least 'monokube_sessions{kind="nat",protocol="icmp",state="new"}' 1
}

each_service()
{
	local series='{namespace="default",service="web"' i before
	scrape metrics/services
	before=$(seen "monokube_service_connections_total$series}")
	for ((i = 0; i < CONNECTIONS; i++)); do
		fetch client "$VIP"
	done
	on client curl -s --max-time 5 "http://$EMPTY/" >/dev/null || true
	wait_for 5 tells_of_service "monokube_service_connections_total$series}" $((before + CONNECTIONS))
	"$HERE/lib/exposition.py" check "$TMP/metrics"
	expect_eq "as monokube services has it" "$(on node1 "$MK_BIN" services default/web -o json | jq '.[0].connections')" \
		"$(seen "monokube_service_connections_total$series}")"
	(($(seen "monokube_service_bytes_total$series,direction=\"reply\"}") > CONNECTIONS * 300))
	(($(seen "monokube_service_packets_total$series,direction=\"request\"}") > CONNECTIONS * 4))
	wait_for 5 refusals_are_told
}

cni_calls()
{
	local adds failures
	scrape
	adds=$(seen 'monokube_cni_duration_seconds_count{command="ADD"}')
	failures=$(seen 'monokube_cni_failures_total{command="ADD"}')
	expect_eq "ADD of the pod on node1" 1 "$adds"
	lab pod node1 more >/dev/null
	tells 'monokube_cni_duration_seconds_count{command="ADD"}' $((adds + 1))
	expect_eq "pods" 2 "$(seen monokube_pods)"
	expect_match "seconds" '^0\.[0-9]+$' "$(seen 'monokube_cni_duration_seconds_sum{command="ADD"}')"
	on node1 env CNI_COMMAND=ADD CNI_CONTAINERID=x CNI_IFNAME=eth0 CNI_NETNS=/nowhere CNI_PATH=/opt/cni/bin \
		sh -c 'jq ".plugins[0] + {name, cniVersion}" /etc/cni/net.d/10-monokube.conflist | /opt/cni/bin/monokube' >/dev/null || true
	tells 'monokube_cni_failures_total{command="ADD"}' $((failures + 1))
	lab rm more
	tells_more 'monokube_cni_duration_seconds_count{command="DEL"}' 0
}

process()
{
	local pid kib
	pid=$(on node1 sh -c 'head -n 1 /var/lib/monokube/agent.lock')
	tells process_max_fds "$(awk '/Max open files/ { print $4 }' "/proc/$pid/limits")"
	kib=$(awk '/VmRSS/ { print $2 }' "/proc/$pid/status")
	awk -v a="$(seen process_resident_memory_bytes)" -v b="$kib" 'BEGIN { r = a / 1024 / b; exit !(r > 0.8 && r < 1.25) }' ||
		expect_eq "memory in KiB" "$kib" "$(seen process_resident_memory_bytes)/1024"
	awk -v a="$(seen process_start_time_seconds)" -v now="$EPOCHSECONDS" 'BEGIN { exit !(a < now && a > now - 600) }' ||
		expect_eq "start" "minutes before $EPOCHSECONDS" "$(seen process_start_time_seconds)"
	tells_more process_cpu_seconds_total 0
	tells_more process_open_fds 5
}

latency()
{
	local before
	scrape
	before=$(seen monokube_network_programming_duration_seconds_count)
	cat >"$TMP/slice.yaml" <<-END
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata:
		  name: empty-own
		  labels: {kubernetes.io/service-name: empty}
		  annotations: {endpoints.kubernetes.io/last-change-trigger-time: "$(date -u +%Y-%m-%dT%H:%M:%S.%NZ)"}
		addressType: IPv4
		ports: [{port: 81}]
		endpoints: [{addresses: [10.244.1.77]}]
	END
	lab apply "$TMP/slice.yaml"
	wait_for 10 at_least monokube_network_programming_duration_seconds_count $((before + 1))
	at_least monokube_work_duration_seconds_count 1
	at_least monokube_endpoints 1
}

api_server()
{
	tells 'monokube_api_up{resource="Services"}' 1
	expect_eq "lists" 1 "$(seen 'monokube_api_lists_total{resource="Services"}')"
	expect_eq "objects" "$(seen 'monokube_objects{kind="Service"}')" "$(seen 'monokube_api_objects{resource="Services"}')"
	lab api stop
	wait_for 20 tells 'monokube_api_up{resource="Services"}' 0
	tells_more 'monokube_api_failures_total{resource="Services"}' 0
	lab api start
	wait_for 20 tells 'monokube_api_up{resource="Services"}' 1
	awk -v at="$(seen 'monokube_api_last_contact_timestamp_seconds{resource="Services"}')" -v now="$EPOCHREALTIME" \
		'BEGIN { exit !(now - at < 60 && at <= now) }'
}

repairs()
{
	local route
	route=$(on node2 ip -o route show 10.244.1.0/24)
	tells 'monokube_repairs_total{what="hook"}' 0
	on node1 tc filter del dev mkvxlan ingress
	on node1 ip route del 10.244.2.0/24
	expect_match "the other's route" mkvxlan "$route"
	wait_for 20 at_least 'monokube_repairs_total{what="hook"}' 1
	wait_for 20 at_least 'monokube_repairs_total{what="route"}' 1
	fetch client "$VIP"
}

refusals_are_told()
{
	scrape metrics/services
	(($(seen 'monokube_service_drops_total{namespace="default",service="empty",reason="refused"}') > 0))
}

# A page is up to a second old.
tells_of_service() { scrape metrics/services && expect_eq "$1" "$2" "$(seen "$1")"; }

# ---- addresses and ports of the server

answers_there() { on "$1" curl -sSf --max-time 5 -o "$TMP/metrics" "http://$2/metrics"; }

elsewhere()
{
	lab agent stop node1
	MK_AGENT_FLAGS="$FLAGS --metrics-bind-address 0.0.0.0:10001" lab agent start node1
	wait_for 10 answers_there world "$NODE1:10001"
	expect_status 7 on node1 curl -s "http://$METRICS/metrics"
	tells_nothing_lost
	lab agent stop node1
	MK_AGENT_FLAGS="$FLAGS --metrics-bind-address off" lab agent start node1
	wait_for 10 on node1 curl -sf -o /dev/null http://127.0.0.1:10256/livez
	expect_status 7 on node1 curl -s "http://$METRICS/metrics"
}
# The kernel's counters continue without the agent.
tells_nothing_lost()
{
	(($(seen 'monokube_dropped_packets_total{reason="no_pod",hook="pod"}') >= 3))
	(($(seen 'monokube_cni_duration_seconds_count{command="ADD"}') >= 2))
}

port_taken()
{
	local start holder
	lab agent stop node1
	env ip netns exec "$MK_LAB.node1" socat TCP-LISTEN:10249,bind=127.0.0.1,reuseaddr,fork EXEC:cat &
	holder=$!
	wait_for 5 on node1 sh -c 'ss -Hltn "sport = 10249" | grep LISTEN'
	start=$(log_size)
	lab agent start node1
	wait_for 10 logged "$start" 'error /metrics is not answered: cannot listen on 127\.0\.0\.1:10249: Address already in use; .*metricsBindAddress'
	kill "$holder"
	wait_for 20 scrape
}

mkfifo "$TMP/hold"
metrics_lab_up
check "CNI calls, made by other processes, and their time" cni_calls
check "what is known, what is programmed, and how full the tables are" known_and_programmed
check "drops by reason and hook" drops
check "packets that came to a hook" packets_of_hooks
check "packets that pods sent, also those that are gone" packets_of_pods
check "sessions, as the last sweep saw them" sessions
check "NAT ports in use" masquerade
check "connections, packets, bytes and drops of each Service" each_service
check "the process" process
check "network programming latency, turns of work" latency
check "the format, and the page's table" right_format
check "status, type and other paths; nobody from outside" answered_as_such
check "/proxyMode and /healthz, as Kubernetes' own tests ask" proxy_mode
check "an API server that goes and comes" api_server
check "what was taken away and put back" repairs
check "at another address, and off; counts outlive the agent" elsewhere
check "a port that another process has: the agent starts, and tries again" port_taken
finish
