#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_check.sh - `monokube check`: each obstacle that a host may have is made, found with its
# remedy, and removed. monokube's own needs: t_cli.sh.
set -euo pipefail
export MK_LAB_ROUTING=Overlay # firewalls reject VXLAN in its rows
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"

mk() { on node1 "$MK_BIN" "$@"; }
node_ok() { mk nodes -o json | jq -e '.[0].state == "ok"' >/dev/null; }

# line CHECK: its line with the status before it: ok, note, WRONG; and its remedy.
line() { mk check | grep -A 1 -E "^(ok|note|WRONG) +$1 " || true; }
expect_line() { expect_match "check $1" "$2" "$(line "$1")"; }

all_well()
{
	mk check
	expect_line path '^ok .* 1 of 1 nodes answer a ping through the overlay, 1 of them also one of 1500 bytes, the largest'
	expect_line kernel '^ok .* Linux [5-9]'
	expect_line networks '^ok .*10\.18\.0\.0/16 and 10\.244\.0\.0/16 overlap none of the host.s [0-9]+ addresses and routes'
	expect_line firewall '^ok .*no chain of input or forward drops by policy'
	expect_line offload '^ok .*leaves the checksums inside of VXLAN to the kernel'
	expect_line clock '^ok .*no API server has told the agent its time'
	expect_line clock '^(ok|note) .*synchronised'
	expect_line rp_filter '^ok .*not in the way \(eth0 [012]\); packets of others that it dropped: [0-9]+'
	expect_eq "fields" "check,ok,remedy,says" "$(mk check -o json | jq -r '[.[] | keys | join(",")] | unique | join(";")')"
}

# Two nodes were copied from one disk.
cloned_key()
{
	local number
	for number in 8 9; do
		cat <<-END
			---
			apiVersion: v1
			kind: Node
			metadata:
			  name: clone$number
			  annotations: {networking.monokube.io/wireguard: "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:51871"}
			spec: {podCIDR: 10.244.10$number.0/24}
			status: {addresses: [{type: InternalIP, address: 192.168.99.10$number}]}
		END
	done >"$TMP/clones.yaml"
	lab apply "$TMP/clones.yaml"
	wait_for 20 expect_line encryption "^WRONG .*nodes 'clone8' and 'clone9' have the same WireGuard key"
	expect_line encryption 'on one of the two, remove the file wireguard.key'
	expect_status 1 mk check
	lab delete "$TMP/clones.yaml"
	wait_for 30 mk check
}

# This kernel, or the other node, has no WireGuard. No program sees a host's own packets to the overlay.
host_gets_a_name()
{
	local pod=10.244.2.9
	lab agent stop node1
	MK_AGENT_FLAGS="--wireguard-port 51871 --encryption WireGuardOnly" lab agent start node1
	wait_for 20 traced_as OVERLAY_CLEAR "$pod"
	expect_status 3 mk trace host "$pod" 80
	lab agent stop node1
	lab agent start node1
	wait_for 30 mk check
	wait_for 20 traced_as "leaves in VXLAN" "$pod"
}
traced_as() { expect_match "trace" "$1" "$(mk trace host "$2" 80 || true)"; }

# The path carries smaller packets than both ends assume.
small_path()
{
	on node2 ip link set eth0 mtu 1400
	expect_line path '^WRONG .*node2 at 192\.168\.99\.12 answers a small ping, but none of 1500 bytes.*'
	expect_line path 'raise the MTU of the network between the nodes, or set .mtu. on all nodes'
	expect_status 1 mk check
	on node2 ip link set eth0 mtu 1500
	wait_for 30 mk check
}

# No node answers: nothing shows that the overlay works.
silent_node()
{
	on node2 sh -c 'echo 1 >/proc/sys/net/ipv4/icmp_echo_ignore_all'
	expect_line path '^WRONG .*none of 1 nodes answers a ping through the overlay'
	on node2 sh -c 'echo 0 >/proc/sys/net/ipv4/icmp_echo_ignore_all'
	expect_line path '^ok '
}

# As with firewalld: policy accept, pings accepted, the rest rejected.
firewall_rejects_vxlan()
{
	on node2 nft add table inet firewalld
	on node2 nft add chain inet firewalld in '{ type filter hook input priority 0; policy accept; }'
	on node2 nft add rule inet firewalld in ct state established,related accept
	on node2 nft add rule inet firewalld in icmp type echo-request accept
	on node2 nft add rule inet firewalld in iif lo accept
	on node2 nft add rule inet firewalld in reject with icmpx admin-prohibited
	expect_line path '^WRONG .*node2 at 192\.168\.99\.12 answers a ping, but none through the overlay'
	expect_line path 'let UDP pass to the overlay.s port \(vxlanPort, 4789\).*a reject rule counts too'
	expect_status 1 mk check
	on node2 nft delete table inet firewalld
	expect_line path '^ok '
}

# Linux 6.6 and later run such programs before every filter.
tcx_programs()
{
	local hook
	for hook in ingress egress; do
		mkfifo "$TMP/$hook"
		on node1 "$HERE/tcx.py" eth0 "$hook" <"$TMP/$hook" >"$TMP/$hook.out" &
		exec 7>"$TMP/$hook"
		wait_for 5 grep -x attached "$TMP/$hook.out"
		expect_line programs "^WRONG .*a tcx program of another owner \(id [0-9]+\) runs before ours on the $hook of eth0"
		exec 7>&-
		wait
		expect_line programs '^ok .*no tc filter or tcx program of others'
	done
}

# A VPN comes up on a running node: it is reported, also by the agent, and the node keeps working.
network_inside_comes()
{
	local start
	start=$(log_size)
	on node1 ip link add vpn0 type veth peer name vpn1
	on node1 ip link set vpn0 up
	on node1 ip link set vpn1 up
	on node1 ip addr add 10.18.77.1/24 dev vpn0
	expect_line networks "^WRONG .*vtepCidr '10\.18\.0\.0/16' overlaps the host.s address 10\.18\.77\.1 on vpn0"
	wait_for 10 logged "$start" "^warn vtepCidr '10\.18\.0\.0/16' overlaps the host's address 10\.18\.77\.1 on vpn0"
	expect_eq "the node's address" 10.18.0.1/32 "$(on node1 ip -j addr show mkvxlan | jq -r '.[].addr_info[] | select(.family == "inet") | .local + "/" + (.prefixlen | tostring)')"
	on node1 ip link del vpn0
	expect_line networks '^ok '
}

# The range contains the LAN: its hosts are no strangers to a running node.
lan_inside_comes()
{
	local start
	start=$(log_size)
	on node1 ip addr add 10.18.77.1/24 dev eth0
	on world ip addr add 10.18.77.2/24 dev eth0
	wait_for 10 logged "$start" "^warn vtepCidr '10\.18\.0\.0/16' overlaps the host's address 10\.18\.77\.1 on eth0"
	wait_for 10 answers_lan
	on world ip addr del 10.18.77.2/24 dev eth0
	on node1 ip addr del 10.18.77.1/24 dev eth0
	expect_line networks '^ok '
}
answers_lan() { on world curl -s --noproxy '*' --max-time 1 --interface 10.18.77.2 http://10.18.77.1:10256/livez; }

# node1's VTEP address would be that of its default gateway.
gateway_inside()
{
	local start
	lab agent stop node1
	on node1 "$MK_BIN" cleanup
	on node1 ip addr add 10.18.0.5/24 dev eth0
	on node1 ip route replace default via 10.18.0.1 dev eth0
	start=$(log_size)
	lab agent start node1 >/dev/null 2>&1 &
	wait_for 20 logged "$start" "^error vtepCidr '10\.18\.0\.0/16' overlaps the (host's address 10\.18\.0\.5|default gateway 10\.18\.0\.1) on eth0: the node would lose access to it; set vtepCidr to .*100\.64\.0\.0/16"
	expect_eq "devices of monokube" "" "$(on node1 ip -o link show mkvxlan 2>/dev/null || true)"
	expect_match "who has the gateway's address" 'via|dev eth0' "$(on node1 ip route get 10.18.0.1)"
	agent_is_not_ready
	lab agent kill node1
	wait $! || true
	on node1 ip addr del 10.18.0.5/24 dev eth0
	on node1 ip route replace default via 192.168.99.200 dev eth0
	lab agent start node1
	wait_for 30 node_ok
}

# There is no datapath, and the agent says why: `check`, which people run first, must report it.
agent_is_not_ready()
{
	expect_status 1 mk status
	expect_match "status" 'agent: running, pid [0-9]+, .*vtepCidr .10\.18\.0\.0/16. overlaps' "$(mk status || true)"
	expect_line agent '^WRONG .*runs, pid [0-9]+, but is not ready: .*vtepCidr'
	expect_line networks '^WRONG .*vtepCidr'
	expect_line datapath '^WRONG .*no programs and tables are loaded in /sys/fs/bpf/monokube'
	expect_line kernel '^ok '
	expect_line kube-proxy '^ok '
	expect_line firewall '^ok '
	expect_line clock '^(ok|note) '
	expect_eq "in JSON" false "$(mk status -o json | jq .healthy)"
}

# With one uplink, no mode of the filter drops monokube's packets (t_paths.sh, t_hostpath.sh).
# Several uplinks: t_uplinks.sh.
path_filter()
{
	on node1 sh -c 'echo 1 >/proc/sys/net/ipv4/conf/all/rp_filter'
	expect_line rp_filter '^ok .*not in the way \(eth0 1\)'
	on node1 sh -c 'echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter'
}

# The device below a macvlan uplink has no address, so it carries no programs.
macvlan()
{
	on node1 sh -e -c 'ip link add stor0 type veth peer name stor1; ip link set stor0 up; ip link set stor1 up
		ip link add mv0 link stor0 type macvlan mode bridge; ip addr add 10.50.0.1/24 dev mv0; ip link set mv0 up'
	wait_for 10 expect_line macvlan "^note .*'stor0' answers ARP requests for the addresses of 'mv0'"
	expect_line macvlan 'sysctl -w net.ipv4.conf.stor0.arp_ignore=1'
	on node1 sh -c 'echo 1 >/proc/sys/net/ipv4/conf/stor0/arp_ignore'
	expect_eq "no line" "" "$(line macvlan)"
	on node1 ip link del stor0
}

legacy_kube_proxy()
{
	on node1 iptables-legacy -t nat -N KUBE-SERVICES
	expect_line kube-proxy '^WRONG .*iptables-legacy chain KUBE-SERVICES'
	expect_line kube-proxy 'kube-proxy --cleanup'
	on node1 iptables-legacy -t nat -X KUBE-SERVICES
	on node1 ip6tables-legacy -t nat -N KUBE-SERVICES
	expect_line kube-proxy '^WRONG .*ip6tables-legacy chain KUBE-SERVICES'
	on node1 ip6tables-legacy -t nat -X KUBE-SERVICES
	expect_line kube-proxy '^ok '
	on node1 iptables-nft -t nat -N KUBE-SERVICES
	expect_line kube-proxy '^WRONG .*iptables chain KUBE-SERVICES'
	on node1 iptables-nft -t nat -X KUBE-SERVICES
	on node1 nft delete table ip nat
	on node1 nft add table ip6 kube-proxy
	on node1 nft add chain ip6 kube-proxy services
	expect_line kube-proxy '^WRONG .*nftables table ip6 kube-proxy'
	on node1 nft delete table ip6 kube-proxy
}

firewalls()
{
	on node1 nft add table inet own
	on node1 nft add chain inet own in '{ type filter hook input priority 0; policy drop; }'
	expect_line firewall '^note .*nftables, table own, chain in refuses what no rule accepts'
	expect_line firewall "UDP to the overlay's port"
	expect_line path '^WRONG .*through the overlay'
	on node1 nft add rule inet own in udp dport 4789 accept
	on node1 nft add rule inet own in icmp type echo-reply accept
	expect_status 0 mk check
	on node1 nft delete table inet own
	on node1 nft add table ip own
	on node1 nft add chain ip own out '{ type filter hook output priority 0; policy accept; }'
	expect_line firewall '^ok '
	on node1 nft delete table ip own
	on node1 iptables-legacy -P FORWARD DROP
	expect_line firewall '^note .*iptables-legacy, chain FORWARD'
	on node1 iptables-legacy -P FORWARD ACCEPT
	on node1 ip6tables-legacy -P INPUT DROP
	expect_line firewall '^note .*ip6tables-legacy, chain INPUT'
	on node1 ip6tables-legacy -P INPUT ACCEPT
	expect_line firewall '^ok '
}

policy_engines()
{
	on node1 iptables-legacy -N KUBE-NWPLCY-DEFAULT
	expect_line policies 'note .*iptables-legacy, chain KUBE-NWPLCY-DEFAULT'
	expect_line policies 'set networkPolicy: off'
	on node1 iptables-legacy -X KUBE-NWPLCY-DEFAULT
	on node1 ip6tables-legacy -N cali-FORWARD
	expect_line policies 'note .*ip6tables-legacy, chain cali-FORWARD'
	on node1 ip6tables-legacy -X cali-FORWARD
	on node1 iptables-nft -N ANTREA-INPUT
	expect_line policies 'note .*nftables, table filter, chain ANTREA-INPUT'
	on node1 iptables-nft -X ANTREA-INPUT
	[[ $(line policies) != *'another program'* ]]
}

# In the node's own /run/systemd.
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
check "two nodes with one key of WireGuard" cloned_key
check "WireGuardOnly: a host's packet to a node without a key is lost with a name" host_gets_a_name
check "a path that carries less" small_path
check "no node answers a ping" silent_node
check "a firewall that rejects VXLAN and lets pings in" firewall_rejects_vxlan
check "a network inside vtepCidr comes while the node is at work" network_inside_comes
check "the LAN is inside vtepCidr while the node is at work: the node answers there" lan_inside_comes
check "vtepCidr has the default gateway inside: the agent refuses, status and check say why" gateway_inside
check "strict reverse path filter" path_filter
check "a macvlan uplink whose parent answers ARP" macvlan
check "kube-proxy's rules in iptables, of either kind" legacy_kube_proxy
check "firewalls" firewalls
check "other programs for network policies, in iptables of either kind" policy_engines
check "tcx programs of others" tcx_programs
check "systemd-networkd" networkd
finish
