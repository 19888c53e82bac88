# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/dual.sh - for tests with two families on each node, in place of tap.sh. Of group
# lab6, IPv6 is the primary family and the overlay's. No address is translated: rows have those of
# both families.
if [[ ${MK_LAB_FAMILY:-4} == 6* ]]; then
	export MK_LAB_FAMILY=64 MK_LAB_UNDERLAY=6
else
	export MK_LAB_FAMILY=46
fi
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/tap.sh"
FAMILY=4
# shellcheck disable=SC2034 # read by the tests
FIRST=${MK_LAB_FAMILY:0:1}
# shellcheck disable=SC2034
SECOND=$((10 - FIRST))

explain()
{
	local node
	for node in node1 node2; do
		echo "drops of $node:"
		on "$node" "$MK_BIN" drops || true
		lab log "$node" | tail -n 5
	done
}

# pod_address POD FAMILY
pod_address()
{
	jq -r --argjson ipv6 "$([[ $2 == 6 ]] && echo true || echo false)" \
		'.ips[] | select(contains(":") == $ipv6)' "/run/mklab-$MK_LAB/pods/$1.json"
}
