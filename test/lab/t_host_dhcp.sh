#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_host_dhcp.sh - Debian's dhcpcd configures every device of node1, those of pods and of monokube as well:
# without a DHCP server each gets an address of 169.254.0.0/16 and a route.
#
# If the machine lacks the package, it is unpacked into build/host-dhcp, and not installed.
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
packages_in host-dhcp

explain()
{
	lab log node1 | tail -n 12
	on node1 "$MK_BIN" check || true
	on node1 ip -br addr
	tail -n 20 "$TMP"/*.log 2>/dev/null || true
}
check_says() { expect_match "check" "$1" "$(on node1 "$MK_BIN" check | tr '\n' ' ')"; }
NOTE='note +routing +a DHCP client of this host .* on .*mkhost1.*denyinterfaces mk'

packages_are_there() { unpack_packages dbus dhcpcd5; }
dhcp_up()
{
	lab up 2
	web_pods_up
	VIP=10.96.66.1 web_service_up
	software_up node1
	software sh -c 'grep -q ^_dhcpcd /etc/passwd || echo "_dhcpcd:x:997:997::/var/lib/dhcpcd:/usr/sbin/nologin" >>/etc/passwd
		mkdir -p /var/lib/dhcpcd'
}

# configure LINE...: of dhcpcd. In a lab, eth0 has its address without DHCP.
configure() { printf '%s\n' "$@" >"$TMP/dhcpcd.conf"; }
starts() { daemon dhcpcd dhcpcd --nobackground --debug --config "$TMP/dhcpcd.conf"; }
link_locals() { on node1 ip -4 -o addr show | awk '$4 ~ /^169[.]254/ { print $2, $4 }'; }
forget_addresses()
{
	local device address
	while read -r device address; do
		on node1 ip addr del "$address" dev "$device"
	done < <(link_locals)
}
is_configured() { link_locals | grep -E "^$1 "; }

new_connections()
{
	local from
	for from in client node1 node2 world; do
		ask $from tcp "$NODE1:30080"
		ask $from udp "$NODE2:30080"
	done
	ask client tcp "$(with_port "$ADDR_2" 8080)"
	ask client tcp "$(with_port "$WORLD" 8080)"
	ask node1 tcp "$(with_port "$ADDR_1" 8080)"
	ask node1 tcp "$VIP:8080"
}

configures_all()
{
	local size
	size=$(lab log node1 | wc -l)
	load client client "$(with_port "$ADDR_1" 8080)" "$(with_port "$ADDR_2" 8080)" "$VIP:8080"
	load host node1 "$(with_port "$ADDR_1" 8080)" "$VIP:8080"
	load world world "$NODE1:30080"
	configure "denyinterfaces eth0" nodelay "timeout 1" "reboot 0"
	starts
	wait_for 40 is_configured 'mk[a-z2-7]{11}'
	wait_for 40 is_configured mkhost1
	lab pod node1 late >/dev/null
	ask late tcp "$VIP:8080"
	new_connections
	check_says "$NOTE"
	lab agent stop node1
	lab agent start node1
	new_connections
	expect_eq "programs that were changed" "" "$(lab log node1 | tail -n +$((size + 1)) | grep -E 'program was missing|device=mk' || true)"
	end dhcpcd
	stop_load
	expect_eq "broken connections, lost datagrams" "" "$(grep -HE '^(broken|lost)' "$TMP"/load.* || true)"
}

# the remedy of check, and of manifests/README.md
excluded()
{
	configure "denyinterfaces eth0 mk*" nodelay "timeout 1"
	forget_addresses
	starts
	wait_for 20 grep '^lo: ignoring' "$TMP/dhcpcd.log"
	lab pod node1 later >/dev/null
	ask later tcp "$VIP:8080"
	expect_eq "devices that dhcpcd manages" "" "$(grep -oE '^mk[^:]*' "$TMP/dhcpcd.log" | sort -u)"
	expect_eq "addresses of 169.254.0.0/16" "" "$(link_locals)"
	expect_failure check_says "$NOTE"
	end dhcpcd
	new_connections
}

check "Debian's dhcpcd" packages_are_there
dhcp_up
check "dhcpcd configures pods' devices: nothing breaks, and check names them" configures_all
check "devices mk* are excluded" excluded
finish
