# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/plugin.sh - call the CNI mode of one node directly, like a runtime's last step, and
# check everything that a call may leave.
CNI_NODE=node1

# netns NAME: make a network namespace that is removed with the lab; print its path
netns()
{
	ip netns add "$MK_LAB.$1"
	netns_path "$1"
}
netns_path() { echo "/run/netns/$MK_LAB.$1"; }
inside() { local name=$1; shift; run_in_family ip netns exec "$MK_LAB.$name" "$@"; }

# conf [JQ]: the plugin's configuration as the agent installed it, changed by a jq filter. With two
# families the list podCIDRs has priority over podCIDR, so a change of podCIDR is made there, too.
# shellcheck disable=SC2120 # the filter comes from the tests
conf()
{
	on "$CNI_NODE" cat /etc/cni/net.d/10-monokube.conflist | jq -c \
		'. as $list | .plugins[0] + {cniVersion: $list.cniVersion, name: $list.name} | '"$(in_family "${1:-.}")"' |
		if .podCIDRs | not then . elif .podCIDR then .podCIDRs[0] = .podCIDR else del(.podCIDRs) end'
}

# cni VERB ID NETNS IFNAME: configuration on standard input, result on standard output
cni()
{
	on "$CNI_NODE" env CNI_COMMAND="$1" CNI_CONTAINERID="$2" CNI_NETNS="$3" CNI_IFNAME="$4" \
		CNI_PATH=/opt/cni/bin /opt/cni/bin/monokube
}

# cni_fails CODE TEXT VERB ID NETNS IFNAME: an error object of the specification
# (both are regular expressions)
cni_fails()
{
	local code=$1 regex=$2 out
	shift 2
	if out=$(cni "$@" 2>"$TMP/stderr"); then
		echo "$1 succeeded, expected error $code: $out"
		return 1
	fi
	expect_match "code of ($out)" "^($code)\$" "$(jq -r .code <<<"$out")"
	expect_match "message" "$regex" "$(jq -r '"\(.msg) \(.details // "")"' <<<"$out")"
}

# shellcheck disable=SC2119
add() { cni ADD "$1" "$(netns_path "$2")" "${3:-eth0}" < <(conf); }
# shellcheck disable=SC2119
del() { cni DEL "$1" "$(netns_path "$2")" "${3:-eth0}" < <(conf); }
ip_of() { jq -r '.ips[0].address | sub("/.*"; "")'; }

# Everything a pod occupies on the node: interfaces, table entries, addresses.
occupied()
{
	on "$CNI_NODE" sh -c '
		ip -o link show type veth | sed -E "s/^[0-9]+: ([^:@]+).*/link \1/" | sort
		for map in /sys/fs/bpf/monokube/maps/pods /sys/fs/bpf/monokube/ipv6/maps/pods; do
			[ ! -e $map ] || bpftool -j map dump pinned $map | jq -c ".[].value[12:28] | [\"pod\"] + ." | sort -u
		done
		cd /var/lib/monokube/ipam || exit 0
		for file in [0-9a-f]*; do
			[ ! -f "$file" ] || echo "$file" $([ ! -h ".both/$file" ] || echo both)
		done'
}

# nothing_new BEFORE
nothing_new() { expect_eq "interfaces, table entries, addresses" "$1" "$(occupied)"; }
