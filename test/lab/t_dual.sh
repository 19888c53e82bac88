#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_dual.sh - two families on each node: pods with two addresses reach pods, nodes, Services
# of either and of both families, and world, in both; the agent restarts; a Service gains and loses
# a family. Of group lab6, IPv6 is the primary family and the overlay's.
set -euo pipefail
# shellcheck source=test/lab/lib/dual.sh
. "$(dirname "$(realpath "$0")")/lib/dual.sh"
# shellcheck source=test/lab/lib/load.sh
. "$HERE/lib/load.sh"

declare -A VIP_OF=([4]=10.96.66.1 [6]=fd00:10:96:66::1)
declare -A NODE1_OF=([4]=192.168.99.11 [6]=fd00:99::11)
declare -A NODE2_OF=([4]=192.168.99.12 [6]=fd00:99::12)
declare -A FAR_OF=([4]=203.0.113.10 [6]=2001:db8::10)
declare -A VTEP1_OF=([4]=10.18.0.1 [6]=fd4d:4b00:12::1)
declare -A VPOD1_OF=([4]=10.244.1.1 [6]=fd00:10:244:1::1)
declare -A RANGE1_OF=([4]=10.244.1.0/24 [6]=fd00:10:244:1::/64)
declare -A OTHER_OF=([4]=10.244.9.0/24 [6]=fd00:10:244:9::/64)
declare -A CLIENT_OF=() NEAR_OF=() WEB_OF=()

# pod_up NODE NAME ARRAY: of its addresses by family
pod_up()
{
	local -n _of=$3
	local family
	lab pod "$1" "$2" >/dev/null
	for family in 4 6; do
		# shellcheck disable=SC2004 # an associative array
		_of[$family]=$(pod_address "$2" "$family")
	done
}

# dual_service NAME NODE_PORT ADDRESS...: a Service of the pods web, with these ClusterIPs
dual_service()
{
	local list
	list=$(printf ', "%s"' "${@:3}")
	service_yaml "$1" web "\"$3\"" "{name: tcp, port: 80, targetPort: 8080, nodePort: $2},
		{name: udp, port: 80, targetPort: 8080, nodePort: $2, protocol: UDP}" "clusterIPs: [${list#, }]"
}

dual_lab_up()
{
	lab up 2 --pods
	pod_up node1 client CLIENT_OF
	pod_up node1 near NEAR_OF
	pod_up node2 web WEB_OF
	for where in near web world node2; do
		serve "$where" "$where" --tcp 8080 --udp 8080
	done
	dual_service both 30080 "${VIP_OF[4]}" "${VIP_OF[6]}" | apply both
	{
		dual_service only4 30084 10.96.66.4
		dual_service only6 30086 fd00:10:96:66::6
	} | apply services
	wait_for 10 ask client tcp "${VIP_OF[4]}:80"
	wait_for 10 ask client tcp "${VIP_OF[6]}:80"
}

# saw SERVER PEER WHERE ADDRESS:PORT: TCP and UDP are answered by SERVER, which saw PEER
saw()
{
	local proto
	for proto in tcp udp; do
		expect_match "$proto from $3 to $4" "^$1 $2 " "$(ask "$3" $proto "$4" || true)"
	done
}

two_addresses()
{
	expect_eq "families of the pod" "2" "$(jq '.ips | length' "/run/mklab-$MK_LAB/pods/client.json")"
	expect_match "the primary one first" "$([[ $MK_LAB_FAMILY == 46 ]] && echo '^10\.' || echo '^fd00:')" \
		"$(jq -r .ip "/run/mklab-$MK_LAB/pods/client.json")"
	expect_eq "link-local address" "" "$(on client ip -6 -o addr show scope link)"
}

pods()
{
	saw near "${CLIENT_OF[$1]}" client "${NEAR_OF[$1]}:8080"
	saw web "${CLIENT_OF[$1]}" client "${WEB_OF[$1]}:8080"
	saw web "${VTEP1_OF[$1]}" node1 "${WEB_OF[$1]}:8080"
	on web ping -c 1 -W 2 "${CLIENT_OF[$1]}"
}

nodes()
{
	on client ping -c 1 -W 2 "${NODE1_OF[$1]}"
	saw node2 "${NODE1_OF[$1]}" client "${NODE2_OF[$1]}:8080"
}

outside()
{
	saw world "${NODE1_OF[$1]}" client "${FAR_OF[$1]}:8080"
	on client ping -c 1 -W 2 "${FAR_OF[$1]}"
}

services()
{
	saw web "${CLIENT_OF[$1]}" client "${VIP_OF[$1]}:80"
	saw web "${VTEP1_OF[$1]}" node1 "${VIP_OF[$1]}:80"
	saw web "${VPOD1_OF[$1]}" world "${NODE1_OF[$1]}:30080"
	saw web "${CLIENT_OF[$1]}" client "$([[ $1 == 4 ]] && echo 10.96.66.4 || echo fd00:10:96:66::6):80"
	saw web "${VPOD1_OF[$1]}" world "${NODE1_OF[$1]}:3008$1"
}

# A node port belongs to the families of its Service's addresses.
one_family()
{
	expect_eq "NodePort of the other family" refused "$(ask world tcp "${NODE1_OF[6]}:30084" || true)"
	expect_eq "NodePort of the other family" refused "$(ask world tcp "${NODE1_OF[4]}:30086" || true)"
}

# 5000 bytes in both directions; the sender of IPv6 learns the MTU from its first datagram.
fragments()
{
	for _ in request answer; do
		ask client udp "${VIP_OF[$1]}:80" --size 5000 --want 5000 --timeout 0.3 >/dev/null || true
	done
	expect_match "5000 bytes" "^web " "$(ask client udp "${VIP_OF[$1]}:80" --size 5000 --want 5000 || true)"
}

no_loss()
{
	expect_match "datagrams" 'datagrams [1-9]' "$(<"$TMP/load.$1")"
	expect_eq "broken or lost" "" "$(grep -E '^(broken|lost)' "$TMP/load.$1" || true)"
}

# The load of family $1 runs while the Service loses the other one and gains it back.
family_goes_and_comes()
{
	local stays=$1 goes=$((10 - $1))
	load "stays-$stays" client "${VIP_OF[$stays]}:80"
	dual_service both 30080 "${VIP_OF[$stays]}" | apply both
	wait_for 10 not_served "${VIP_OF[$goes]}:80"
	wait_for 10 not_served_by_world "${NODE1_OF[$goes]}:30080"
	dual_service both 30080 "${VIP_OF[4]}" "${VIP_OF[6]}" | apply both
	wait_for 10 ask client tcp "${VIP_OF[$goes]}:80"
	stop_load
	no_loss "stays-$stays"
}
not_served() { expect_failure ask client tcp "$1" --timeout 0.3; }
not_served_by_world() { expect_failure ask world tcp "$1" --timeout 0.3; }

# Both families go on without the agent, and a new one finds all in place.
agent_restarts()
{
	load stays-all client "${VIP_OF[4]}:80" "${VIP_OF[6]}:80"
	lab agent kill node1
	pods 4
	pods 6
	lab agent start node1
	services 4
	services 6
	stop_load
	no_loss stays-all
}

# The agent starts without the second family, and with it again, under load of the first.
second_goes_and_comes()
{
	local first=$FIRST
	load first client "${VIP_OF[$first]}:80" "${WEB_OF[$first]}:8080" "${FAR_OF[$first]}:8080"
	lab agent stop node1
	MK_LAB_FAMILY=$first lab agent start node1
	expect_eq "lines of families" 0 "$(on node1 "$MK_BIN" status | grep -cE '^IPv[46]:' || true)"
	services "$first"
	expect_match "check names the pod's other address" \
		"has the address ${CLIENT_OF[$((10 - first))]}, but clusterCidr has no IPv$((10 - first)) range" \
		"$(on node1 "$MK_BIN" check || true)"
	lab agent stop node1
	lab agent start node1
	expect_eq "lines of families" 2 "$(on node1 "$MK_BIN" status | grep -cE '^IPv[46]:')"
	wait_for 10 services 4
	wait_for 10 services 6
	stop_load
	no_loss first
}

# node1_is SED_SCRIPT: the agent of node1 starts with its Node object changed by SED_SCRIPT
node1_is()
{
	log_lines=$(lab log node1 | wc -l)
	lab agent stop node1
	sed -E "$1" "$TMP/node1.yaml" | apply node-node1
	lab agent start node1
}
says() { lab log node1 | tail -n "+$log_lines" | grep -qE "$1"; }

# Without a pod CIDR of the second family the node runs the first one. Without an InternalIP of it,
# the uplink's address takes its place. With another pod CIDR, pods of the former one are named.
node_lacks()
{
	local first=$FIRST second=$SECOND log_lines
	cp "/run/mklab-$MK_LAB/objects/node-node1.yaml" "$TMP/node1.yaml"
	node1_is 's/^(  podCIDRs: \[[^,]*),.*/\1]/'
	wait_for 10 says "the Node object 'node1' has no IPv$second pod CIDR: pods here get no IPv$second address"
	services "$first"
	node1_is "/InternalIP, address: .${NODE1_OF[$second]}/d"
	wait_for 10 says "the Node has no InternalIP of IPv$second: its uplink's address is used ip=${NODE1_OF[$second]}"
	outside "$second"
	node1_is "s,${RANGE1_OF[$second]},${OTHER_OF[$second]},"
	wait_for 10 says "pods have addresses outside the pod CIDR ${OTHER_OF[$second]} of their node, such as .*: they have no IPv$second network"
	services "$first"
	node1_is ''
	wait_for 10 services 4
	wait_for 10 services 6
}

# Neither the Node nor its uplink has an address of the second family: only what leaves the cluster
# by it stops, until the uplink has one again.
no_address()
{
	local first=$FIRST second=$SECOND address route log_lines
	address=$(on node1 ip "-$second" -o addr show dev eth0 scope global | awk '{ print $4 }')
	route=$(on node1 ip "-$second" route show default dev eth0 | sed 's/ proto.*//')
	on node1 ip "-$second" addr flush dev eth0 scope global
	node1_is "/InternalIP, address: .${NODE1_OF[$second]}/d"
	wait_for 10 says "neither the Node nor its uplink has an address of IPv$second: nothing leaves the cluster masqueraded by IPv$second"
	services "$first"
	outside "$first"
	pods "$second"
	expect_failure ask client tcp "${FAR_OF[$second]}:8080" --timeout 0.5
	# shellcheck disable=SC2086 # several words each
	on node1 sh -c "ip -$second addr add $address dev eth0 $([[ $second == 4 ]] || echo nodad); ip -$second route replace $route dev eth0"
	wait_for 10 outside "$second"
	node1_is ''
	wait_for 10 services "$second"
}

# What a node sends inside the overlay counts as its InternalIP (rule 15 of test/policy).
isolate_web()
{
	apply policies <<-END
		apiVersion: networking.k8s.io/v1
		kind: NetworkPolicy
		metadata: {name: web-in, namespace: default}
		spec:
		  podSelector: {matchLabels: {app: web}}
		  ingress: [{from: [{ipBlock: {cidr: ${NODE1_OF[4]}/32}}, {ipBlock: {cidr: "${NODE1_OF[6]}/128"}}]}]
	END
	wait_for 10 no_answer "${WEB_OF[4]}:8080"
	wait_for 10 no_answer "${WEB_OF[6]}:8080"
}
no_answer() { expect_failure ask client tcp "$1" --timeout 0.3; }

policies()
{
	local family
	isolate_web
	for family in 4 6; do
		saw web "${VTEP1_OF[$family]}" node1 "${WEB_OF[$family]}:8080"
		saw web "${VPOD1_OF[$family]}" world "${NODE1_OF[$family]}:30080"
	done
	lab delete policies.yaml
	wait_for 10 ask client tcp "${WEB_OF[4]}:8080"
	wait_for 10 ask client tcp "${WEB_OF[6]}:8080"
}

is_healthy() { on node1 "$MK_BIN" check; }

dual_lab_up
check "a pod has an address of each family" two_addresses
for family in 4 6; do
	check "IPv$family: pods of one node and of two, and the host" pods $family
	check "IPv$family: nodes" nodes $family
	check "IPv$family: outside, masqueraded" outside $family
	check "IPv$family: Services of both families, and of this one" services $family
	check "IPv$family: fragments" fragments $family
done
check "policies know the nodes' addresses of both families" policies
check "a NodePort of one family is not in the other" one_family
for family in 4 6; do
	check "a Service loses a family and gains it: IPv$family loses nothing" family_goes_and_comes $family
done
check "without the agent, and with a new one" agent_restarts
check "the second family goes and comes: the first one loses nothing" second_goes_and_comes
check "the Node lacks a pod CIDR of the second family, or an address, or has another range" node_lacks
check "neither the Node nor its uplink has an address of the second family" no_address
check "check finds nothing wrong" wait_for 20 is_healthy
finish
