#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_policy_dual.sh - NetworkPolicies on nodes with two families: selectors hold for both addresses of
# a pod, blocks for one family; a pod with one address; the second family goes and comes. Of group lab6,
# IPv6 is the primary family and the overlay's. Numbers are the rules of test/policy/README.md.
#
#   node1: web client db      node2: far-client far-other
set -euo pipefail
# shellcheck source=test/lab/lib/dual.sh
. "$(dirname "$(realpath "$0")")/lib/dual.sh"

# Addresses: WHO.4 and WHO.6
declare -A ADDR=([world.4]=192.168.99.200 [world.6]=fd00:99::200 [far.4]=203.0.113.10 [far.6]=2001:db8::10
	[node1.4]=192.168.99.11 [node1.6]=fd00:99::11)

pod_up()
{
	local family
	lab pod "$@" >/dev/null
	for family in 4 6; do
		ADDR[$2.$family]=$(pod_address "$2" "$family")
	done
}

services()
{
	cat <<-END
		---
		apiVersion: v1
		kind: Service
		metadata: {name: $1}
		spec: {type: NodePort, externalTrafficPolicy: Local, selector: {app: $1}, clusterIP: $3, clusterIPs: [$3, $4],
		  ipFamilyPolicy: RequireDualStack, ports: [{port: 8080, targetPort: 8080, nodePort: $2}]}
	END
}

policy() { printf -- '---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: %s, namespace: default}\nspec: %s\n' "$@"; }
policies()
{
	policy web-in '{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: client}}},
    {ipBlock: {cidr: 203.0.113.0/24, except: [203.0.113.128/25]}}, {ipBlock: {cidr: "2001:db8::/64", except: ["2001:db8::8000/113"]}}],
    ports: [{port: 8080}]}]}'
	policy db '{podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress, Egress],
  ingress: [{from: [{ipBlock: {cidr: 203.0.113.10/32}}]}], egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0}}]}]}'
}

# reach FROM TO FAMILY yes|no [PORT [ADDRESS]]: FROM is WHO or world@far
reach()
{
	local from=${1%@*} to expected=0 status=0 source=()
	[[ $1 != *@* ]] || source=(--from "${ADDR[${1#*@}.$3]}")
	[[ $4 == yes ]] || expected=4 # no answer in time
	to=$(with_port "${ADDR[$2.$3]}" "${5:-8080}")
	ask "$from" tcp "$to" --timeout "$([[ $4 == yes ]] && echo 2 || echo 0.4)" "${source[@]}" || status=$?
	expect_eq "exit status of tcp from $1 to $2, IPv$3" $expected $status
}

# FROM TO IPV4 IPV6 [PORT]
ROWS=(
	"a selector holds for both addresses, same node (5)|client web yes yes"
	"a selector holds for both addresses, other node (5)|far-client web yes yes"
	"another pod, other node (3)|far-other web no no"
	"another pod, same node (3)|db web no no"
	"blocks of both families, by a NodePort (7)|world@far node1 yes yes 30080"
	"outside of the blocks, by a NodePort (7)|world node1 no no 30080"
	"a block of IPv4 matches no IPv6 address, ingress (7)|world@far node1 yes no 30081"
	"a block of IPv4 matches no IPv6 address, egress (7)|db world yes no"
	"a block of IPv4 matches no IPv6 address, egress to a pod (7)|db client yes no"
	"no policy (2)|client world yes yes"
)
rows()
{
	local family row from to four six port
	local -A want=()
	for row in "${ROWS[@]}"; do
		read -r from to four six port <<<"${row#*|}"
		want=([4]=$four [6]=$six)
		for family in "$@"; do
			check "IPv$family: ${row%%|*}" reach "$from" "$to" "$family" "${want[$family]}" "${port:-8080}"
		done
	done
}
in_force()
{
	reach client web "$1" yes
	reach db web "$1" no
	reach far-other web "$1" no
}

# A pod with one address, of the first family: its node did not have the other one yet.
one_address()
{
	lab agent stop node1
	MK_LAB_FAMILY=$FIRST lab agent start node1
	wait_for 10 in_force "$FIRST"
	MK_LAB_FAMILY=$FIRST lab pod node1 client-9 >"$TMP/single"
	lab agent stop node1
	lab agent start node1
	expect_eq "addresses" 1 "$(jq '.ips | length' "/run/mklab-$MK_LAB/pods/client-9.json")"
	wait_for 10 reach client-9 web "$FIRST" yes
	reach client-9 world "$FIRST" yes
	wait_for 10 in_force 4
	wait_for 10 in_force 6
}

restarts()
{
	lab agent kill node1
	in_force 4
	in_force 6
	lab agent start node1
	in_force 4
	in_force 6
}

no_policies()
{
	lab delete policies.yaml
	for family in 4 6; do
		wait_for 10 reach far-other web $family yes
		wait_for 10 reach db client $family yes
	done
}

lab up 2 --pods
pod_up node1 web
pod_up node1 client
pod_up node1 db
pod_up node2 far-client --label app=client
pod_up node2 far-other
for where in web client db world; do
	serve "$where" "$where" --tcp 8080
done
{ services web 30080 10.96.66.1 fd00:10:96:66::1; services db 30081 10.96.66.2 fd00:10:96:66::2; } | apply services
policies | apply policies
for family in 4 6; do
	wait_for 15 in_force $family
	wait_for 15 reach world@far node1 $family yes 30080
done
rows 4 6
check "a killed agent, and a new one: both families stay as they were (36)" restarts
check "a pod with one address; the second family goes and comes" one_address
rows "$SECOND"
check "the last policy goes: both families are open (32)" no_policies
finish
