#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_check.sh - `monokube check`: what the host around may have in the way, each made, found
# with its remedy, and gone again. What monokube itself needs: t_cli.sh.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

mk() { on node1 "$MK_BIN" "$@"; }
node_ok() { mk nodes -o json | jq -e '.[0].state == "ok"' >/dev/null; }

# line CHECK: what it says, with what comes before: ok, note, WRONG; and its remedy.
line() { mk check | grep -A 1 -E "^(ok|note|WRONG) +$1 " || true; }
expect_line() { expect_match "check $1" "$2" "$(line "$1")"; }

all_well()
{
	mk check
	expect_line path '^ok .* 1 nodes answer a ping of 1500 bytes, the largest of the overlay; 0 answer none'
	expect_line firewall '^ok .*no chain of input or forward drops by policy'
	expect_line offload '^ok .*leaves the checksums inside of VXLAN to the kernel'
	expect_line clock '^ok .*no API server has told the agent its time'
	expect_line clock '^(ok|note) .*synchronised'
	expect_line rp_filter '^ok .*not in the way \(eth0 [012]\); packets of others that it dropped: [0-9]+'
	expect_eq "fields" "check,ok,remedy,says" "$(mk check -o json | jq -r '[.[] | keys | join(",")] | unique | join(";")')"
}

# What lies between carries less than both ends believe.
small_path()
{
	on node2 ip link set eth0 mtu 1400
	expect_line path '^WRONG .*node2 at 192\.168\.99\.12 answers a small ping, but none of 1500 bytes.*'
	expect_line path 'raise the MTU of what lies between, or set .mtu. on all nodes'
	expect_status 1 mk check
	on node2 ip link set eth0 mtu 1500
	wait_for 30 mk check
}

# A node that answers nothing is not held to be behind a small path.
silent_node()
{
	on node2 sh -c 'echo 1 >/proc/sys/net/ipv4/icmp_echo_ignore_all'
	expect_line path '^ok .*0 nodes answer a ping of 1500 bytes.*; 1 answer none'
	on node2 sh -c 'echo 0 >/proc/sys/net/ipv4/icmp_echo_ignore_all'
}

# With one uplink no mode of it takes anything of ours: t_paths.sh, t_hostpath.sh. Of several: t_uplinks.sh.
path_filter()
{
	on node1 sh -c 'echo 1 >/proc/sys/net/ipv4/conf/all/rp_filter'
	expect_line rp_filter '^ok .*not in the way \(eth0 1\)'
	on node1 sh -c 'echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter'
}

legacy_kube_proxy()
{
	on node1 iptables-legacy -t nat -N KUBE-SERVICES
	expect_line kube-proxy '^WRONG .*iptables-legacy chain KUBE-SERVICES'
	expect_line kube-proxy 'kube-proxy --cleanup'
	on node1 iptables-legacy -t nat -X KUBE-SERVICES
	expect_line kube-proxy '^ok '
	on node1 iptables-nft -t nat -N KUBE-SERVICES
	expect_line kube-proxy '^WRONG .*iptables chain KUBE-SERVICES'
	on node1 iptables-nft -t nat -X KUBE-SERVICES
	on node1 nft delete table ip nat
}

firewalls()
{
	on node1 nft add table inet own
	on node1 nft add chain inet own in '{ type filter hook input priority 0; policy drop; }'
	expect_line firewall '^note .*nftables, table own, chain in drops what none of its rules takes'
	expect_line firewall "UDP to the overlay's port"
	expect_status 0 mk check
	on node1 nft delete table inet own
	on node1 nft add table ip own
	on node1 nft add chain ip own out '{ type filter hook output priority 0; policy accept; }'
	expect_line firewall '^ok '
	on node1 nft delete table ip own
	on node1 iptables-legacy -P FORWARD DROP
	expect_line firewall '^note .*iptables-legacy, chain FORWARD'
	on node1 iptables-legacy -P FORWARD ACCEPT
	expect_line firewall '^ok '
}

# In a /run/systemd of the node's own.
networkd()
{
	on node1 sh -c 'mkdir -p /run/systemd && mount -t tmpfs tmpfs /run/systemd'
	on node1 sh -c 'mkdir -p /run/systemd/netif && touch /run/systemd/netif/state'
	expect_line networkd '^note .*systemd-networkd deletes routes of others'
	expect_line networkd 'ManageForeignRoutes=no'
	on node1 sh -c 'mkdir -p /run/systemd/networkd.conf.d && printf "[Network]\nManageForeignRoutes=no\n" >/run/systemd/networkd.conf.d/lab.conf'
	expect_line networkd '^ok .*leaves routes of others alone'
	on node1 umount /run/systemd
}

lab up 2
wait_for 30 node_ok
check "all is well" all_well
check "a path that carries less" small_path
check "a node that answers no ping" silent_node
check "strict reverse path filter" path_filter
check "kube-proxy's rules in iptables, of either kind" legacy_kube_proxy
check "firewalls" firewalls
check "systemd-networkd" networkd
finish
