#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_paths.sh - every path of the datapath with real traffic: those of the demo, and corner
# cases.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/shop.sh
. "$HERE/lib/shop.sh"

HOST_VIP=10.96.77.1	# its endpoint is node1 itself, like the API server's
EXTERNAL=198.51.100.7
WEIGHT_REQUESTS=200

explain() { for node in node1 node2; do echo "drops of $node:"; on "$node" "$MK_BIN" drops || true; done; }

corner_services()
{
	cat <<-END
		apiVersion: v1
		kind: Service
		metadata: {name: host}
		spec:
		  type: NodePort
		  clusterIP: $HOST_VIP
		  externalTrafficPolicy: Local
		  ports: [{port: 443, targetPort: 2222, nodePort: 30443}]
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: host-1, labels: {kubernetes.io/service-name: host}}
		addressType: IPv4
		ports: [{name: "", protocol: TCP, port: 2222}]
		endpoints: [{addresses: [$NODE1], nodeName: node1, conditions: {ready: true}}]
		---
		apiVersion: v1
		kind: Service
		metadata: {name: corner}
		spec:
		  type: NodePort
		  clusterIP: 10.96.77.2
		  externalIPs: [$EXTERNAL]
		  selector: {app: lookup}
		  ports: [{name: dns, port: 53, targetPort: dns, protocol: UDP, nodePort: 30053}]
		---
		apiVersion: v1
		kind: Service
		metadata: {name: only-node2}
		spec:
		  type: NodePort
		  clusterIP: 10.96.77.3
		  externalTrafficPolicy: Local
		  selector: {only: node2}
		  ports: [{port: 80, targetPort: http, nodePort: 30082}]
		---
		apiVersion: v1
		kind: Service
		metadata: {name: only-node2-too}
		spec:
		  clusterIP: 10.96.77.4
		  selector: {only: node2}
		  ports:
		  - {name: http, port: 80, targetPort: http}
		  - {name: dns, port: 53, targetPort: 5353, protocol: UDP}
	END
}

corners_up()
{
	corner_services | apply corners
	ADDR[single]=$(lab pod node2 single --label only=node2)
	serve single single --tcp 8080 --udp 5353
	ip -n "$MK_LAB.world" route add "$EXTERNAL/32" via "$NODE1"
	wait_for 5 ask node1 tcp "$HOST_VIP:443"
	wait_for 5 ask client-1 tcp 10.96.77.3:80
}

# The host's own address as endpoint: source and destination would both be local.
host_endpoint_from_host()
{
	exchange node1 tcp "$HOST_VIP:443" node1 "$VPOD1"
}
host_endpoint_from_pod() { exchange client-1 tcp "$HOST_VIP:443" node1 "${ADDR[client-1]}"; }
host_endpoint_from_other_pod() { exchange client-2 tcp "$HOST_VIP:443" node1 '.*'; }
host_endpoint_from_other_host() { exchange node2 tcp "$HOST_VIP:443" node1 '.*'; }
host_endpoint_from_world() { exchange world tcp "$NODE1:30443" node1 "$WORLD"; }

node_port_udp() { exchange world udp "$NODE1:30053" "lookup-[12]" '.*'; }
node_port_from_pod() { exchange client-2 tcp "$NODE1:30080" "web-[12]" '.*'; }
node_port_from_other_host() { exchange node2 tcp "$NODE1:30080" "web-[12]" '.*'; }
external_ip() { exchange world udp "$EXTERNAL:53" "lookup-[12]" '.*'; }
external_ip_from_pod() { exchange client-1 udp "$EXTERNAL:53" "lookup-[12]" '.*'; }

# Some distributions set this for all devices; the greater of that and the device's value counts.
reverse_path_filter()
{
	local mode
	for mode in 1 2; do
		on node1 sh -c "echo $mode >/proc/sys/net/ipv4/conf/all/rp_filter"
		path_3_local
		path_3_back
		path_5_tcp
		path_5_udp
		host_endpoint_from_world
		path_10_in
	done
	on node1 sh -c 'echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter'
}

# Local without a backend here: no answer, so that the health check sees it, and a counter.
local_without_backend()
{
	local before
	before=$(drop_count node1 NO_LOCAL_BACKEND)
	expect_eq "node1:30082 from world" timeout "$(ask world tcp "$NODE1:30082" --timeout 0.5 || true)"
	(($(drop_count node1 NO_LOCAL_BACKEND) > before)) || expect_eq "counter NO_LOCAL_BACKEND" "above $before" "$before"
	exchange world tcp "$NODE2:30082" single "$WORLD"
	exchange client-1 tcp 10.96.77.3:80 single "${ADDR[client-1]}"
}

unknown_port() { refused client-1 tcp "$WEB:4711"; refused node1 udp "$WEB:4711"; }
empty_from_host() { refused node1 tcp "$EMPTY:$EMPTY_PORT"; refused node1 udp "$EMPTY:$EMPTY_PORT"; }
ping_vip() { ping_ms client-1 "$WEB"; ping_ms node1 "$WEB"; }

# A client may use one port towards a Service and towards its backend: two connections for its
# kernel, but the backend's answers look the same. The first has ended.
same_port_after()
{
	local where=$1 from
	from=$(with_port "$2" "$3")
	expect_match "by the Service" '^single ' "$(ask "$where" tcp 10.96.77.3:80 --from "$from" || true)"
	expect_match "directly, from the same port" '^single ' \
		"$(ask "$where" tcp "${ADDR[single]}:8080" --from "$from" --timeout 4 || true)"
	expect_match "by the Service again" '^single ' "$(ask "$where" tcp 10.96.77.3:80 --from "$from" || true)"
}

# The same towards two Services with one backend.
same_port_two_services()
{
	local vip
	for vip in 10.96.77.3 10.96.77.4 10.96.77.3; do
		expect_match "by $vip, from the same port" '^single ' \
			"$(ask client-2 tcp $vip:80 --from "$(with_port "${ADDR[client-2]}" 41004)" --timeout 4 || true)"
	done
}

# A Service's backend is the node itself, and the client also connects to its port directly.
same_port_of_node()
{
	local to
	for to in 30443 2222 30443; do
		expect_match "at port $to, from the same port" '^node1 ' \
			"$(ask world tcp "$NODE1:$to" --from "$(with_port "$WORLD" 41005)" --timeout 4 || true)"
	done
}

# Both at once, in either order: same_port_meanwhile WHERE FROM PROTO FIRST THEN WHO
same_port_meanwhile()
{
	local where=$1 from=$2 proto=$3 first=$4 then=$5 who=$6
	rm -f "$TMP/held.in"
	mkfifo "$TMP/held.in"
	on "$where" "$HERE/echo.py" ask "$proto" "$first" --from "$from" --hold <"$TMP/held.in" >"$TMP/held.out" &
	exec {held}>"$TMP/held.in"
	wait_for 15 held_answers 1 "$who"
	expect_match "at $then, from the same port" "^$who " \
		"$(ask "$where" "$proto" "$then" --from "$from" --timeout 4 || true)"
	echo >&"$held"
	wait_for 15 held_answers 2 "$who"
	exec {held}>&-
	wait $!
}
held_answers() { expect_eq "answers on the held connection" "$1" "$(grep -c "^$2 " "$TMP/held.out")"; }

same_port_pod()
{
	local direct=${ADDR[single]}
	same_port_meanwhile client-2 "$(with_port "${ADDR[client-2]}" 41003)" tcp 10.96.77.3:80 "$direct:8080" single
	same_port_meanwhile client-2 "$(with_port "${ADDR[client-2]}" 41006)" tcp "$direct:8080" 10.96.77.3:80 single
	same_port_meanwhile client-1 "$(with_port "${ADDR[client-1]}" 41006)" tcp "$direct:8080" 10.96.77.3:80 single
}

same_port_pod_datagrams()
{
	local direct=${ADDR[single]}:5353 client
	for client in client-1 client-2; do
		same_port_meanwhile "$client" "$(with_port "${ADDR[$client]}" 41007)" udp 10.96.77.4:53 "$direct" single
		same_port_meanwhile "$client" "$(with_port "${ADDR[$client]}" 41008)" udp "$direct" 10.96.77.4:53 single
	done
}

same_port_world()
{
	same_port_meanwhile world "$(with_port "$WORLD" 41009)" tcp "$NODE1:30443" "$NODE1:2222" node1
	same_port_meanwhile world "$(with_port "$WORLD" 41010)" tcp "$NODE1:2222" "$NODE1:30443" node1
}

hairpin_source()
{
	expect_failure grep -E "^web-1 ${ADDR[web-1]} " <(ask web-1 tcp "$WEB:80" --count 24)
}

nobodys_address()
{
	local before
	before=$(drop_count node1 NO_POD)
	expect_eq "pod address that no pod has" timeout "$(ask client-1 udp 10.244.1.199:9 --timeout 0.3 || true)"
	expect_eq "pod address that no pod has, TCP" "failed: No route to host" "$(ask client-1 tcp 10.244.1.199:9 --timeout 2 || true)"
	expect_eq "pod address that no pod has, of another node" "failed: No route to host" "$(ask client-1 tcp 10.244.2.199:9 --timeout 2 || true)"
	(($(drop_count node1 NO_POD) > before)) || expect_eq "counter NO_POD" "above $before" "$before"
	before=$(drop_count node1 NO_ROUTE)
	expect_eq "pod CIDR of no node" timeout "$(ask client-1 udp 10.244.9.9:9 --timeout 0.3 || true)"
	(($(drop_count node1 NO_ROUTE) > before)) || expect_eq "counter NO_ROUTE" "above $before" "$before"
}

ttl_expires()
{
	expect_match "ping with TTL 1" "$(by_family 'Time to live exceeded' 'Time exceeded: Hop limit')" "$(on client-1 ping -c 1 -W 1 -t 1 "${ADDR[web-2]}" || true)"
	on client-1 ping -c 1 -W 2 -t 3 "${ADDR[web-2]}"
}

closed_port() { refused client-1 tcp "${ADDR[web-2]}:4711"; refused client-1 udp "${ADDR[web-2]}:4711"; }
closed_port_outside() { refused client-1 tcp "$WORLD:4711"; refused client-1 udp "$WORLD:4711"; }

# How many of WEIGHT_REQUESTS go to web-1; five standard deviations are 35 (of one half) and 31.
share_of_local()
{
	local share low=$1 high=$2
	share=$(ask client-1 tcp "$WEB:80" --count $WEIGHT_REQUESTS | grep -c '^web-1 ')
	((share >= low && share <= high)) ||
		expect_eq "answers of the local backend, of $WEIGHT_REQUESTS" "$low to $high" "$share"
}

weighted()
{
	share_of_local 65 135
	lab agent stop node1
	MK_AGENT_FLAGS='--local-endpoint-weight 3' lab agent start node1
	wait_for 10 share_of_local 119 181
}

# The client address that the backends of $WEB see for CLIENT.
seen_as() { expect_eq "address of $1" "$2" "$(ask "$1" tcp "$WEB:80" --count 20 | awk '{print $2}' | sort -u)"; }

masquerade_all()
{
	seen_as client-1 "${ADDR[client-1]}"
	lab agent stop node1
	MK_AGENT_FLAGS='--masquerade-all true' lab agent start node1
	wait_for 10 seen_as client-1 10.244.1.1
	seen_as client-2 "${ADDR[client-2]}" # node2 is not told
}

backend_goes()
{
	lab rm web-2
	wait_for 5 only_web_1
	lab rm web-1
	wait_for 5 refused client-1 tcp "$WEB:80"
	wait_for 5 refused world tcp "$NODE1:30080"
}
only_web_1() { expect_eq "who answers" web-1 "$(answerers client-2 tcp "$WEB:80")"; }

shop_up
for entry in "${PATHS[@]}"; do
	IFS='|' read -r number what from to function <<<"$entry"
	check "path $number: ${what# *} ($from to $to)" "$function"
done
corners_up
check "Service that is the host itself: from that host" host_endpoint_from_host
check "Service that is a host: from its pod" host_endpoint_from_pod
check "Service that is a host: from another node's pod" host_endpoint_from_other_pod
check "Service that is a host: from another host" host_endpoint_from_other_host
check "Service that is a host: NodePort from world" host_endpoint_from_world
check "NodePort, UDP" node_port_udp
check "NodePort from a pod" node_port_from_pod
check "NodePort from another host" node_port_from_other_host
check "external IP from world" external_ip
check "external IP from a pod" external_ip_from_pod
ipv4_only "IPv6 has no rp_filter" check "strict and loose reverse path filter on all devices" reverse_path_filter
check "policy Local without a backend here" local_without_backend
check "port that the Service does not have is refused" unknown_port
check "Service without backends refuses the host" empty_from_host
check "a ClusterIP answers a ping" ping_vip
check "one client port, to a Service and to its backend" same_port_after client-2 "${ADDR[client-2]}" 41001
check "one client port, from the host" same_port_after node2 10.18.0.2 41002
check "one client port, to two Services with one backend" same_port_two_services
check "one client port, to a NodePort and to the node that is its backend" same_port_of_node
check "one client port, to a Service and to its backend at once" same_port_pod
check "one client port, to a Service and to its backend at once, UDP" same_port_pod_datagrams
check "one client port, to a NodePort and to the node that is its backend at once" same_port_world
check "hairpin: the pod does not see its own address" hairpin_source
check "addresses that nobody has are dropped and counted" nobodys_address
check "TTL is lowered, and its end is told" ttl_expires
check "port unreachable of a remote pod comes back" closed_port
check "port unreachable of the world comes back" closed_port_outside
check "local backend by weight" weighted
check "masqueradeAll: a ClusterIP does not show the pod's address" masquerade_all
check "backends that go are not chosen" backend_goes
finish
