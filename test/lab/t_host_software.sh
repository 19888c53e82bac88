#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_host_software.sh - software of Debian that administers a node's network runs beside monokube on node1:
# firewalls with their usual rules, and programs that configure every interface they find.
#
# Packages that the machine lacks are unpacked into build/host-software, and not installed.
#
#   node1: client, web-1; node2: web-2; world is outside
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/load.sh
. "$HERE/lib/load.sh"
# shellcheck source=test/lab/lib/packages.sh
. "$HERE/lib/packages.sh"
# shellcheck source=test/lab/lib/software.sh
. "$HERE/lib/software.sh"
packages_in host-software
export MK_LAB_ROUTING=Auto
HOST_PORT=9000 # of a program of each node, which the firewalls do not know
OWN_DEVICES=(mkhost0 mkhost1 mkvxlan mksfc)

explain()
{
	lab log node1 | tail -n 12
	mk check || true
	on node1 "$MK_BIN" drops || true
	tail -n 5 "$TMP"/*.log 2>/dev/null || true
}
mk() { on node1 "$MK_BIN" "$@"; }
line() { mk check | sed -nE "/^[A-Za-z]+ +$1 /,/^[A-Za-z]/p" | sed '$d'; }

# ---- the software

# Newer than Debian 12's systemd, which repeats a request for ever on Linux 6.18.
packages_are_there() { unpack_packages systemd "network-manager ufw firewalld docker.io dbus"; }
bus_up()
{
	cat >"$TMP/bus.conf" <<-END
		<busconfig><type>system</type><listen>unix:path=/run/dbus/system_bus_socket</listen><auth>EXTERNAL</auth>
		<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy>
		</busconfig>
	END
	daemon bus dbus-daemon --config-file="$TMP/bus.conf" --nofork --nopidfile
	wait_for 10 software test -S /run/dbus/system_bus_socket
}

# ---- traffic

begin_load()
{
	rm -f "$TMP"/load.*
	load client client "$(with_port "$ADDR_1" 8080)" "$(with_port "$ADDR_2" 8080)" "$VIP:8080" "$WORLD:8080"
	load host node1 "$(with_port "$ADDR_1" 8080)" "$(with_port "$ADDR_2" 8080)" "$VIP:8080"
	load node2 node2 "$(with_port "$ADDR_1" 8080)"
	load world world "$NODE1:30080"
}
unbroken()
{
	stop_load
	expect_eq "broken connections, lost datagrams" "" "$(grep -HE '^(broken|lost)' "$TMP"/load.* || true)"
}
new_connections()
{
	local peer
	for peer in "$(with_port "$ADDR_1" 8080)" "$(with_port "$ADDR_2" 8080)" "$VIP:8080"; do
		ask client tcp "$peer"
		ask node1 tcp "$peer"
		ask node2 tcp "$peer"
	done
	ask client tcp "$WORLD:8080"
	ask world tcp "$NODE1:30080"
	ask node2 tcp "$NODE1:30080"
}
refused_by_host() { expect_failure ask "$1" tcp "$NODE1:$HOST_PORT" --timeout 0.5; }

# ---- firewalls

# probes_go_on: four more probes of the link than before have left
probes_go_on()
{
	local before
	before=$(probes_sent)
	wait_for 30 more_probes $((before + 4))
}
probes_sent() { on node1 nft -j list table inet probes | jq '[.nftables[].rule? // empty | .expr[] | .counter? // empty | .packets] | add'; }
more_probes() { (($(probes_sent) >= $1)); }
count_probes()
{
	on node1 nft -f - <<-'END'
		table inet probes { chain out { type filter hook output priority -400; udp dport 7 counter; }; }
	END
}
is_direct() { expect_eq "device to node2's pods" eth0 "$(on node1 ip "-$FAMILY" -j route show "$(by_family 10.244.2.0/24 fd00:10:244:2::/64)" | jq -r '.[0].dev')"; }

# guarded CHAIN: what everything but the host's own ports does behind a firewall
guarded()
{
	probes_go_on
	new_connections
	refused_by_host client
	refused_by_host world
	expect_failure health_answers
	expect_match "check" "^note +firewall .*$1.*everything from mkhost0" "$(line firewall | tr '\n' ' ')"
	is_direct
	expect_status 0 mk check
	unbroken
}
# finds_direct_way MODE: node1 finds it behind the firewall, without a route of its last run. With Overlay on node2, the
# answers to its probes come in VXLAN.
finds_direct_way()
{
	MK_LAB_ROUTING=$1 restart node2
	MK_LAB_ROUTING=Overlay restart node1
	expect_failure is_direct
	restart node1
	wait_for 30 is_direct
	[[ $1 == Auto ]] || restart node2
}
restart()
{
	lab agent stop "$1"
	lab agent start "$1"
}
# Strict also on devices that come later.
check_paths_strictly()
{
	local node
	for node in node1 node2; do
		on $node sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.default.rp_filter=1
	done
}
opened()
{
	ask client tcp "$NODE1:$HOST_PORT"
	refused_by_host world
	health_answers
}
health_answers() { on world curl -sfg --max-time 1 "$(url "$NODE1" 10256)/healthz" -o /dev/null; }
ufw_guards()
{
	begin_load
	software sh -c 'cp /usr/share/ufw/*.rules /usr/share/ufw/ufw.conf /etc/ufw/'
	software ufw --force enable
	guarded 'table filter, chain INPUT refuses'
	# the commands of manifests/README.md
	software sh -c 'ufw allow in on mkhost0 && ufw allow 4789/udp && ufw allow 10250/tcp && ufw allow 10256/tcp'
	opened
	finds_direct_way Auto
	software ufw disable
	software sh -c 'for tool in iptables ip6tables; do $tool -F && $tool -X; done'
}
firewalld_guards()
{
	begin_load
	daemon firewalld firewalld --nofork --nopid
	wait_for 30 software firewall-cmd --state
	guarded 'table firewalld, chain filter_INPUT'
	# the commands of manifests/README.md
	software firewall-cmd --permanent --zone=trusted --add-interface=mkhost0
	software sh -c 'firewall-cmd --permanent --add-port=4789/udp --add-port=10250/tcp --add-port=10256/tcp && firewall-cmd --reload'
	opened
	finds_direct_way Overlay
	end firewalld
}

# ---- programs that configure interfaces

# The agent gives its devices back what they need.
devices_are_as_before()
{
	local device
	for device in "${OWN_DEVICES[@]}"; do
		expect_eq "addresses of $device" "${ADDRESSES[$device]}" "$(addresses "$device")"
	done
}
addresses() { on node1 ip -j addr show dev "$1" | jq -c '[.[0].addr_info[] | select(.local) | .local] | sort'; }

# Some distributions let networkd configure all interfaces.
networkd_starts()
{
	daemon networkd env SYSTEMD_LOG_TARGET=console /usr/lib/systemd/systemd-networkd
	wait_for 20 grep -q "mkvxlan: Configuring with" "$TMP/networkd.log"
	wait_for 20 grep -q "Enumeration completed" "$TMP/networkd.log"
}
networkd_configures_all()
{
	begin_load
	software sh -c 'mkdir -p /run/systemd/network /run/systemd/netif/links /run/systemd/netif/leases &&
		chown -R systemd-network:systemd-network /run/systemd/netif &&
		printf "[Match]\nName=*\n[Network]\nDHCP=yes\nKeepConfiguration=static\n" >/run/systemd/network/10-all.network'
	networkd_starts
	probes_go_on
	end networkd
	networkd_starts
	wait_for 10 devices_are_as_before
	end networkd
	new_connections
	expect_status 0 mk check
	unbroken
}

# Without udev's rule about veth devices NetworkManager tries to configure those of pods.
network_manager_configures_all()
{
	begin_load
	daemon network-manager NetworkManager --no-daemon --log-level=INFO --log-domains=DEVICE
	wait_for 20 manages_veth
	probes_go_on
	end network-manager
	wait_for 10 devices_are_as_before
	new_connections
	expect_status 0 mk check
	unbroken
}
manages_veth() { software nmcli -t -f DEVICE,STATE device | grep -E '^mk[^:]*:connecting'; }

# ---- the lab

host_software_up()
{
	local device node
	lab up 2
	check_paths_strictly
	web_pods_up
	VIP=10.96.66.1 web_service_up
	for node in node1 node2; do
		serve $node $node --tcp $HOST_PORT
	done
	count_probes
	wait_for 20 is_direct
	declare -gA ADDRESSES=()
	for device in "${OWN_DEVICES[@]}"; do
		ADDRESSES[$device]=$(addresses "$device")
	done
}

check "Debian's packages" packages_are_there
host_software_up
software_up node1
bus_up
check "ufw, enabled: pods notice nothing, and its rules let them to the host" ufw_guards
check "firewalld with its public zone: the same" firewalld_guards
check "systemd-networkd configures all interfaces, twice" networkd_configures_all
check "NetworkManager configures pods' devices" network_manager_configures_all
finish
