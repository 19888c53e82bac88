#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_dual_rollout.sh - a cluster of one family gets a second one, node by node: first the
# Node's range, then the agent's. At each moment some nodes have both and others have one (rule D21).
# In group lab6 the first family is IPv6.
set -euo pipefail
# shellcheck source=test/lab/lib/dual.sh
. "$(dirname "$(realpath "$0")")/lib/dual.sh"
# shellcheck source=test/lab/lib/load.sh
. "$HERE/lib/load.sh"

NODES=(node1 node2 node3 node4)
OBJECTS=/run/mklab-$MK_LAB/objects
declare -A VIP_OF=([4]=10.96.66.1 [6]=fd00:10:96:66::1)
declare -A CLUSTER_OF=([4]=10.244.0.0/16 [6]=fd00:10:244::/48)
declare -A STRANGE_OF=([4]=10.245.0.0/16 [6]=fd00:10:245::/48)
declare -A VTEPS_OF=([4]=10.18.0.0/16 [6]=fd4d:4b00:12::/64)
# A pod's address of the second family before that node has the range, by its number
declare -A LATER_OF=([4]=10.244.%d.99 [6]=fd00:10:244:%d::99)

# node_ranges NODE one|both: of its Node object; the original is kept
node_ranges()
{
	local saved=$TMP/$1.yaml
	[[ -e $saved ]] || cp "$OBJECTS/node-$1.yaml" "$saved"
	if [[ $2 == one ]]; then
		sed -E 's/^(  podCIDRs: \[[^,]*),.*/\1]/' "$saved" | apply "node-$1"
	else
		apply "node-$1" <"$saved"
	fi
}

one_family_up()
{
	local node
	MK_AGENT_FLAGS="--cluster-cidr ${CLUSTER_OF[$FIRST]} --vtep-cidr ${VTEPS_OF[$FIRST]}" \
		lab up "${#NODES[@]}" --pods
	for node in "${NODES[@]}"; do
		node_ranges "$node" one
		lab pod "$node" "web-${node#node}" >/dev/null
		serve "web-${node#node}" "web-${node#node}" --tcp 8080 --udp 8080
	done
	service_yaml both web "\"${VIP_OF[$FIRST]}\"" "{name: tcp, port: 80, targetPort: 8080},
		{name: udp, port: 80, targetPort: 8080, protocol: UDP}" | apply both
}

# The pods that were there before have one address.
pods_have_one() { expect_eq "addresses of web-1" 1 "$(jq '.ips | length' "/run/mklab-$MK_LAB/pods/web-1.json")"; }

# Each pod talks to the pods of all other nodes, and to the Service, from the first step to the last.
first_family_load()
{
	local node targets
	for node in "${NODES[@]}"; do
		mapfile -t targets < <(others_of "$node")
		load "first-$node" "web-${node#node}" "${targets[@]}" "$(of_family "${VIP_OF[$FIRST]}"):80"
	done
}
of_family() { if [[ $1 == *:* ]]; then echo "[$1]"; else echo "$1"; fi; }
others_of()
{
	local node
	for node in "${NODES[@]}"; do
		[[ $node == "$1" ]] || echo "$(of_family "$(pod_address "web-${node#node}" "$FIRST")"):8080"
	done
}

# A second range that does not hold the Node's pod CIDR: this node goes on without that family.
strange_range()
{
	local lines=0
	node_ranges "$1" both
	lab agent stop "$1"
	lines=$(lab log "$1" | wc -l)
	MK_AGENT_FLAGS="--cluster-cidr ${CLUSTER_OF[$FIRST]},${STRANGE_OF[$SECOND]}" lab agent start "$1"
	expect_match "log" "pods here get no IPv$SECOND address: .*is not inside the cluster CIDR '${STRANGE_OF[$SECOND]}'" \
		"$(lab log "$1" | tail -n "+$lines")"
	expect_match "status" "IPv$SECOND: configured, but this node does not run it" "$(on "$1" "$MK_BIN" status)"
	expect_match "check" "clusterCidr has a range of IPv$SECOND, which this node does not run" \
		"$(on "$1" "$MK_BIN" check || true)"
	lab pod "$1" "one-${1#node}" >/dev/null
	expect_eq "addresses of a new pod" 1 "$(jq '.ips | length' "/run/mklab-$MK_LAB/pods/one-${1#node}.json")"
	ask "one-${1#node}" tcp "$(of_family "${VIP_OF[$FIRST]}"):80"
}

# A family at work is not taken away by such a range: the agent refuses it, and pods go on.
strange_range_later()
{
	lab agent stop "$1"
	MK_AGENT_FLAGS="--cluster-cidr ${CLUSTER_OF[$FIRST]},${STRANGE_OF[$SECOND]}" \
		expect_failure lab agent start "$1"
	expect_match "log" "is not inside the cluster CIDR '${STRANGE_OF[$SECOND]}'" "$(lab log "$1" | tail -n 3)"
	reach "$1" "$2"
	lab agent start "$1"
}

# to_both NODE: the cluster gives its Node a range, and the DaemonSet replaces its agent.
to_both()
{
	node_ranges "$1" both
	lab agent stop "$1"
	lab agent start "$1"
	lab pod "$1" "new-${1#node}" >/dev/null
	serve "new-${1#node}" "new-${1#node}" --tcp 8080
	expect_eq "addresses of the new pod of $1" 2 "$(jq '.ips | length' "/run/mklab-$MK_LAB/pods/new-${1#node}.json")"
}

# reach NODE NODE: the new pods of both nodes, in the second family
reach()
{
	wait_for 10 ask "new-${1#node}" tcp "$(of_family "$(pod_address "new-${2#node}" "$SECOND")"):8080"
	wait_for 10 ask "new-${2#node}" tcp "$(of_family "$(pod_address "new-${1#node}" "$SECOND")"):8080"
}

# A pod with both families cannot reach the second family of a node without it, and the drop is named.
no_route()
{
	local target
	# shellcheck disable=SC2059 # a format
	printf -v target "${LATER_OF[$SECOND]}" "${2#node}"
	expect_failure ask "new-${1#node}" tcp "$(of_family "$target"):8080" --timeout 0.3
	expect_match "trace on $1" "NO_ROUTE" \
		"$(on "$1" "$MK_BIN" trace "$(pod_address "new-${1#node}" "$SECOND")" "$target" 8080 || true)"
	expect_match "drops of $1" "NO_ROUTE" "$(on "$1" "$MK_BIN" drops || true)"
}

two_of_four()
{
	to_both "$1"
	to_both "$2"
	reach "$1" "$2"
	no_route "$1" "$3"
	no_route "$2" "$4"
}

# The Node has its range, and the agent still has one family: nothing passes, and nothing else changes.
range_before_agent()
{
	local target
	node_ranges "$2" both
	# shellcheck disable=SC2059
	printf -v target "${LATER_OF[$SECOND]}" "${2#node}"
	expect_failure ask "new-${1#node}" tcp "$(of_family "$target"):8080" --timeout 0.3
	to_both "$2"
	reach "$1" "$2"
}

all_reach()
{
	local from to
	to_both "$1"
	for from in "${NODES[@]}"; do
		for to in "${NODES[@]}"; do
			[[ $from == "$to" ]] || reach "$from" "$to"
		done
	done
}

no_loss()
{
	local node
	stop_load
	for node in "${NODES[@]}"; do
		expect_match "datagrams of $node" 'datagrams [1-9]' "$(<"$TMP/load.first-$node")"
		expect_eq "broken or lost of $node" "" "$(grep -E '^(broken|lost)' "$TMP/load.first-$node" || true)"
	done
}

all_healthy()
{
	local node
	for node in "${NODES[@]}"; do
		on "$node" "$MK_BIN" check
	done
}

one_family_up
check "a cluster of IPv$FIRST alone" pods_have_one
first_family_load
check "a second range without the Node's pod CIDR: the node goes on with IPv$FIRST" strange_range node3
# The order is not that of the ranges, and node1 is in the middle.
check "two of four nodes have both families" two_of_four node3 node1 node2 node4
check "a Node has its range before its agent has the family" range_before_agent node3 node4
check "the same on a node with both: it loses nothing" strange_range_later node3 node1
check "all have both" all_reach node2
check "IPv$FIRST lost nothing in all of this" no_loss
check "check finds nothing wrong" wait_for 20 all_healthy
finish
