# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/wan.sh - a router between the underlays of several labs.

# wan_plug ROUTER: plug it into the underlay of the lab, as its number 254
wan_plug()
{
	local underlay family device=site$LAB_SITE
	underlay=$(netns_of underlay)
	ip link add "$device" netns "$1" type veth peer name wan netns "$underlay"
	ip -n "$underlay" link set wan master br0 up
	for family in $(node_families); do
		if [[ $family == 6 ]]; then
			ip netns exec "$1" sh -c "echo 0 >/proc/sys/net/ipv6/conf/$device/disable_ipv6"
			ip -n "$1" addr add "$(underlay_host 6 254)/64" dev "$device" nodad
		else
			ip -n "$1" addr add "$(underlay_host 4 254)/24" dev "$device"
		fi
	done
	ip -n "$1" link set "$device" up
}

# wan_routes SITE...: by the router, the nodes and the API server of the lab reach the networks of these sites
wan_routes()
{
	local node family site bits api=''
	! has_api || api=api
	for node in $(all_nodes) $api; do
		for family in $(if [[ $node == api ]]; then echo "$LAB_PRIMARY"; else node_families; fi); do
			bits=$([[ $family == 6 ]] && echo 64 || echo 24)
			for site in "$@"; do
				[[ $site == "$LAB_SITE" ]] ||
					ip -n "$(netns_of "$node")" route add "$(network_of "$family" "$site")/$bits" \
						via "$(underlay_host "$family" 254)"
			done
		done
	done
}

# network_of FAMILY SITE
network_of() { if [[ $1 == 6 ]]; then underlay_host 6 '' "$2"; else underlay_host 4 0 "$2"; fi; }

# lab_wan LAB...: the router belongs to the first lab, and goes with it
lab_wan()
{
	local lab router=$1.wan sites=''
	for lab in "$@"; do
		set_lab "$lab"
		need_lab
		[[ " $sites " != *" $LAB_SITE "* ]] ||
			die "wan: lab '$lab' has the network of another one, $(network_of "$LAB_PRIMARY" "$LAB_SITE"); bring each lab up with a --site of its own"
		sites+=" $LAB_SITE"
	done
	ip netns add "$router"
	ip netns exec "$router" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 \
		net.ipv6.conf.default.disable_ipv6=1 net.ipv6.conf.default.accept_dad=0
	ip -n "$router" link set lo up
	for lab in "$@"; do
		set_lab "$lab"
		wan_plug "$router"
		# shellcheck disable=SC2086 # a list
		wan_routes $sites
	done
}
