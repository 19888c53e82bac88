#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_repair.sh - anything removed from under the agent is restored, and the log names it.
# Connections are held through each fault: to a pod's address on the other node, a ClusterIP, a
# NodePort, and by masquerade.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"

VIP=10.96.88.1
MAPS=$PINS PROGS=${PINS%maps}progs
REPAIR_SECONDS=5
SECONDS_BOUND=5	# until all works, each by itself: the log line may come first
declare -A PIPES=()
beats=0

explain() { lab log node1 | tail -n 15; echo "drops of node1:"; on node1 "$MK_BIN" drops || true; }

repair_lab_up()
{
	lab up 2
	lab pod node1 client >/dev/null
	lab pod node1 web-1 --host-port 8088:8080 >/dev/null
	ADDR_2=$(lab pod node2 other --label app=other)
	serve web-1 web-1 --tcp 8080
	serve other other --tcp 8080
	serve world world --tcp 8080
	{
		service_yaml web web $VIP "{port: 80, targetPort: 8080, nodePort: 30080}" "sessionAffinity: ClientIP"
		service_yaml few web 10.96.88.2 \
			"{name: tcp, port: 81, targetPort: 8080, nodePort: 30081}, {name: udp, port: 81, targetPort: 8080, protocol: UDP}" \
			"loadBalancerSourceRanges: [192.168.99.0/24]"
		echo "status: {loadBalancer: {ingress: [{ip: 198.51.100.7}]}}"
	} | apply services
	wait_for 10 ask client tcp "$VIP:80"
	hold pod client "$ADDR_2:8080"
	hold service client "$VIP:80"
	hold port world "$NODE1:30080"
	hold outside client "$WORLD:8080"
}

# Each held connection makes another exchange, and new ones work.
all_works()
{
	beats=$(<"$TMP/beats")
	echo $((beats + 1)) >"$TMP/beats"
	pulse $((beats + 2))
	wait_for "$SECONDS_BOUND" ask client tcp "$ADDR_2:8080" --timeout 1
	wait_for "$SECONDS_BOUND" ask client tcp "$VIP:80" --timeout 1
	wait_for "$SECONDS_BOUND" ask world tcp "$NODE1:30080" --timeout 1
	wait_for "$SECONDS_BOUND" ask node1 tcp "$VIP:80" --timeout 1
	wait_for "$SECONDS_BOUND" ask world tcp "$NODE1:8088" --timeout 1
	wait_for "$SECONDS_BOUND" ask client tcp "$WORLD:8080" --timeout 1
}

# is_repaired REGEX COMMAND...: after the command node1's agent logs the repair in time, and all
# works
is_repaired()
{
	local regex=$1 start
	start=$(log_size)
	shift
	"$@"
	wait_for "$REPAIR_SECONDS" logged "$start" "$regex"
	all_works
}

# empty MAP: every key that it shows
empty()
{
	on node1 "$HERE/empty_map.py" "$MAPS/$1"
}

# ... at once, so that each is missing when the agent checks the other.
pods_and_host_ports()
{
	empty host_ports
	empty pods
}

# An array's entries cannot be removed, but can be 0.
zero()
{
	local bytes
	bytes=$(on node1 bpftool -j map show pinned "$MAPS/$1" | jq .bytes_value)
	# shellcheck disable=SC2046 # a word each
	on node1 bpftool map update pinned "$MAPS/$1" key 0 0 0 0 value $(printf '0 %.0s' $(seq "$bytes"))
}

# Only these maps knew the flows: the client's next packet opens its flow again, with the only
# endpoint, and with its former port towards outside.
sessions_are_emptied()
{
	local map
	for map in sessions nat_sessions affinity; do
		empty "$map"
	done
	for map in sessions_young nat_sessions_young; do # where what is established is not
		empty "$map" || true
	done
	all_works
}

# ---- the pods' own devices

pod_device() { on node1 ip -o link show type veth | awk -F'[ :@]+' '$2 ~ /^mk/ && $2 !~ /^mkhost/ { print $2; exit }'; }
pod_hook() { on node1 tc filter del dev "$(pod_device)" ingress; }
pod_qdisc() { on node1 tc qdisc del dev "$(pod_device)" clsact; }

# Another program in its place, on a node with so many pods that a check of all takes half an hour.
pod_program_is_replaced()
{
	on node1 "$HERE/fill_map.py" fill "$MAPS/pods"
	is_repaired "program was missing .*program=ilb_pod" on node1 tc filter replace dev "$(pod_device)" ingress \
		prio 77 handle 0x4d4b bpf direct-action object-pinned "$PROGS/ilb_overlay"
	on node1 "$HERE/fill_map.py" clear "$MAPS/pods"
}

# reverted SETTING FROM TO
reverted() { is_repaired "changed by another process .*$1=$2" on node1 sysctl -qw "$1=$3"; }

# Each start of a pod causes a notification. However many come, changes without a notification are
# checked too.
notify_on()
{
	on node1 sh -c 'ip link add noise type veth peer name noise1; tc qdisc add dev noise clsact
		while tc filter replace dev noise ingress prio 1 handle 1 bpf direct-action \
			object-pinned "$0/ilb_overlay"; do sleep 0.1; done' "$PROGS"
}
noisy() { on node1 tc filter show dev noise ingress | grep -q bpf; }
while_pods_come_and_go()
{
	local noise
	notify_on >/dev/null 2>&1 &
	noise=$!
	wait_for 5 noisy
	# shellcheck disable=SC2046 # three words
	reverted $(by_family "net/ipv4/ip_forward 1 0" "net/ipv6/conf/mkhost0/accept_ra 0 1")
	on node1 ip link del noise # ends the loop
	wait $noise || true
}

# ---- programs

filter() { on node1 tc filter del dev "$1" "$2"; }
qdisc() { on node1 tc qdisc del dev "$1" clsact; }

# ---- the overlay

# The kernel announces it, so the route is back before probes of the link are missed.
route_is_replaced()
{
	local start
	start=$(log_size)
	for _ in {1..5}; do
		is_repaired "route was (missing|altered) .*dst=10.244.2.0/24" \
			on node1 ip route replace 10.244.2.0/24 dev eth0 metric "$(by_family 0 1)"
	done
	expect_failure logged "$start" "packets go in VXLAN: node 'node2'"
}
neighbour() { on node1 ip neigh del "$(on node1 ip "-$FAMILY" neigh show dev mkvxlan | awk '{ print $1; exit }')" dev mkvxlan; }
neighbour_is_replaced() { on node1 ip neigh replace "$(on node1 ip "-$FAMILY" neigh show dev mkvxlan | awk '{ print $1; exit }')" lladdr 02:00:00:00:00:01 dev mkvxlan; }
fdb() { on node1 sh -e -c "set -- \$(bridge fdb show dev $1); bridge fdb del \$1 dst \$3 dev $1"; }
fdb_is_replaced() { on node1 sh -e -c 'set -- $(bridge fdb show dev mkvxlan); bridge fdb replace "$1" dst 192.168.99.77 dev mkvxlan'; }

# ---- names in the BPF file system

a_pod_starts()
{
	lab pod node1 late --label app=late >/dev/null
	ask late tcp "$VIP:80" --timeout 5
	lab rm late
}

pins_are_removed()
{
	is_repaired "pins were missing and are back below=.*/progs names=.*ilb_pod" \
		on node1 rm "$MAPS/pods" "$MAPS/sessions" "$PROGS/ilb_pod"
	a_pod_starts
}

# ... and the objects that they name outlive the agent anyway.
all_pins_are_removed()
{
	is_repaired "pins were missing and are back below=.*/progs names=.*monitor" on node1 rm -r /sys/fs/bpf/monokube
	a_pod_starts
	lab agent kill node1
	all_works
	lab agent start node1
	all_works
}

mount_goes_and_comes()
{
	local start
	start=$(log_size)
	on node1 umount /sys/fs/bpf
	wait_for "$REPAIR_SECONDS" logged "$start" "cannot check or repair the pins: .*mount -t bpf bpffs /sys/fs/bpf"
	all_works
	expect_eq "times that it was said" 1 "$(logged "$start" "cannot check or repair the pins:" | wc -l)"
	is_repaired "pins were missing and are back below=.*/progs names=.*monitor" on node1 mount -t bpf bpffs /sys/fs/bpf
	wait_for "$REPAIR_SECONDS" logged "$start" "can check and repair the pins again"
	a_pod_starts
}

# ---- files

CONF=/etc/cni/net.d/10-monokube.conflist
PLUGIN=/opt/cni/bin/monokube

plugin_is_no_program()
{
	is_repaired "CNI plugin installed" on node1 chmod 0644 "$PLUGIN"
	a_pod_starts
}

# ---- uplink

# uplink_up NAME: IPv6 addresses are gone after a link was down
uplink_up()
{
	on node1 sh -e -c "ip link set $1 up; ip addr replace 192.168.99.11/24 dev $1 $(by_family '' nodad)
		ip route replace default via $WORLD dev $1"
}
uplink_is_renamed()
{
	on node1 sh -e -c "ip link set eth0 down; ip link set eth0 name lan0"
	uplink_up lan0
}
uplink_is_named_back()
{
	on node1 sh -e -c "ip link set lan0 down; ip link set lan0 name eth0"
	uplink_up eth0
}

status_waits() { expect_match "status of node1" "agent: running, .*waits for an interface with the Node's InternalIP $NODE1" "$(on node1 "$MK_BIN" status)"; }

# Another device with the same address: its number, its MAC address are new. The overlay's device
# goes with the former one.
uplink_is_replaced()
{
	on node1 sh -e -c 'ip link del eth0'
	wait_for 10 status_waits
	ip link add eth0 netns "$MK_LAB.node1" type veth peer name node1 netns "$MK_LAB.underlay"
	ip -n "$MK_LAB.underlay" link set node1 master br0 up
	on node1 sh -c 'echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6'
	uplink_up eth0
}

# The agent ends, and its restart writes the files again.
state_dir_is_emptied()
{
	local start
	start=$(log_size)
	on node1 sh -c 'rm -r /var/lib/monokube/*'
	wait_for 10 logged "$start" "'/var/lib/monokube/agent.lock' was removed by another process"
	all_works
	wait_for 10 lab agent start node1
	all_works
	expect_match "check" 'ok +agent +runs' "$(on node1 "$MK_BIN" check || true)"
	on node1 sh -c 'cd /var/lib/monokube && ls agent.lock made node.json policy.key settings'
	lab pod node1 later
	lab rm later
}

# The kernel announces it.
uplink_gets_another_mac()
{
	on node1 ip link set eth0 address 02:00:00:00:99:11
	all_works
}

# With the agent dead, the next one notices.
pod_device_is_down()
{
	local device
	device=$(on node1 ip -o link show | grep -F 'alias default/client' | grep -oE 'mk[a-z0-9]+' | head -n 1)
	is_repaired "a pod's device was set down .*device=$device pod=default/client" on node1 ip link set "$device" down
	lab agent kill node1
	on node1 ip link set "$device" down
	is_repaired "a pod's device was set down .*device=$device pod=default/client" lab agent start node1
}

# ---- a pod's own device: only the runtime can make it again; the log says so once

said_of() { lab log node1 | grep -cE "a pod's device was deleted .* pod=default/$1 " || true; }
without_device() { on node1 curl -sg "$(url "$LOCALHOST" 10249)/metrics" | awk '$1 == "monokube_pods_without_device" { print $2 }'; }
none_is_without() { expect_eq "pods without a device" 0 "$(without_device)"; }

pod_device_is_deleted()
{
	local addr device
	addr=$(lab pod node1 victim)
	device=$(on node1 ip -o link show | grep -F 'alias default/victim' | grep -oE 'mk[a-z0-9]+' | head -n 1)
	is_repaired "a pod's device was deleted .*: delete the pod.* pod=default/victim ip=$addr device=$device " on node1 ip link del "$device"
	expect_match "check" "pods +[^ ]+ \\($addr\\) has no interface .*delete the pod" "$(on node1 "$MK_BIN" check || true)"
	expect_eq "pods without a device" 1 "$(without_device)"
	lab rm victim
	wait_for "$SECONDS_BOUND" none_is_without
	expect_eq "times that it was said" 1 "$(said_of victim)"
	expect_eq "times that it was said of pods that were deleted" 0 "$(said_of late)"
}

echo 0 >"$TMP/beats"
repair_lab_up
check "a pod's program is removed" is_repaired "program was missing .*program=ilb_pod" pod_hook
check "a pod's qdisc is removed" is_repaired "program was missing .*program=ilb_pod" pod_qdisc
check "a pod's program is replaced, of thousands" pod_program_is_replaced
check "the uplink's program is removed" is_repaired "program was missing .*program=nat_uplink device=eth0" filter eth0 ingress
check "the uplink's program for what leaves is removed" is_repaired "program was missing .*program=elb_uplink_egress" filter eth0 egress
check "the host's program is removed" is_repaired "program was missing .*program=ilb_host" filter mkhost1 ingress
check "the overlay's qdisc is removed" is_repaired "program was missing .*program=ilb_overlay" qdisc mkvxlan
check "the program of chains between nodes is removed" is_repaired "program was missing .*program=sfc_overlay" filter mksfc ingress
check "loopback's qdisc is removed" is_repaired "program was missing .*program=ilb_lo_egress" qdisc lo
check "the uplink's qdisc is removed" is_repaired "program was missing .*program=elb_uplink_egress" qdisc eth0
check "the chain of programs is emptied" is_repaired "missing and are back map=chain" empty chain
check "the VXLAN device is set down" is_repaired "device had wrong properties .*name=mkvxlan .*was down" on node1 ip link set mkvxlan down
check "the VXLAN device is deleted" is_repaired "device was missing .*name=mkvxlan" on node1 ip link del mkvxlan
check "the VXLAN device's address is removed" is_repaired "address of a device was missing .*name=mkvxlan" on node1 ip addr flush dev mkvxlan
check "the VXLAN device of chains is set down" is_repaired "device had wrong properties .*name=mksfc .*was down" on node1 ip link set mksfc down
check "the VXLAN device of chains is deleted" is_repaired "device was missing .*name=mksfc" on node1 ip link del mksfc
check "the host veth pair is deleted" is_repaired "device was missing .*name=mkhost0" on node1 ip link del mkhost0
check "the host veth pair's address is removed" is_repaired "address of a device was missing .*name=mkhost0" on node1 ip addr flush dev mkhost0
check "the host veth pair is set down" is_repaired "device had wrong properties .*name=mkhost1" on node1 ip link set mkhost1 down
check "the route to a node is removed" is_repaired "route was missing .*dst=10.244.2.0/24" on node1 ip route del 10.244.2.0/24
check "a route is replaced" route_is_replaced
check "the neighbour entry of a node is removed" is_repaired "neighbour of a node was missing .*node=node2" neighbour
check "the FDB entry of a node is removed" is_repaired "FDB entry of a node was missing .*node=node2" fdb mkvxlan
check "the FDB entry of a node for chains is removed" is_repaired "FDB entry of chains of a node was missing .*node=node2" fdb mksfc
check "the neighbour entry of a node is replaced" is_repaired "neighbour of a node was (missing|altered) .*node=node2" neighbour_is_replaced
check "the FDB entry of a node is replaced" is_repaired "FDB entry of a node was (missing|altered) .*node=node2" fdb_is_replaced
check "the reserved ports are reverted" is_repaired "changed by another process .*reserved_ports=" on node1 sysctl -qw net.ipv4.ip_local_reserved_ports=
check "a setting is changed while filters change all the time" while_pods_come_and_go
for setting in net/ipv4/ip_forward net/ipv4/conf/lo/{accept_local,route_localnet}; do
	ipv4_only "IPv6 needs no such setting" check "$setting is set to 0" reverted "$setting" 1 0
done
[[ $FAMILY == 4 ]] || for setting in net/ipv6/conf/{mkhost0,mkvxlan}/{disable_ipv6,accept_ra}; do
	check "$setting is set to 1" reverted "$setting" 0 1
done
check "pins of tables and programs are removed" pins_are_removed
check "all pins are removed" all_pins_are_removed
check "the BPF file system is unmounted, and mounted again" mount_goes_and_comes
check "the CNI configuration is removed" is_repaired "CNI configuration written" on node1 rm "$CONF"
check "the CNI configuration is edited" is_repaired "CNI configuration written" on node1 sed -i 's/monokube/other/' "$CONF"
check "the plugin is removed" is_repaired "CNI plugin installed" on node1 rm "$PLUGIN"
check "the CNI configuration may be read by all" is_repaired "CNI configuration written" on node1 chmod 0644 "$CONF"
check "the plugin may not be run" plugin_is_no_program
check "the plugin is edited" is_repaired "CNI plugin installed" on node1 sh -c "echo >>$PLUGIN"
for map in frontends service_backends maglev affinity_backends source_ranges routes; do
	check "map $map is emptied" is_repaired "(missing and are back|computed again) map=$map" empty "$map"
done
check "map pods is emptied" is_repaired "missing and is back map=pods" empty pods
check "map host_ports is emptied" is_repaired "missing and are back map=host_ports .*ports=\"[^ ]*:8088/tcp=8080\"" empty host_ports
check "the maps of pods and host ports are emptied" is_repaired "missing and are back map=host_ports" pods_and_host_ports
check "map runtime is zeroed" is_repaired "wrong and is repaired map=runtime host_ports=1" zero runtime
check "map udp_ports is zeroed" is_repaired "missing and is back map=udp_ports" zero udp_ports
check "a pod's device is deleted: said, once, with what to do" pod_device_is_deleted
check "a pod's device is set down, also while no agent runs" pod_device_is_down
check "the uplink is renamed" is_repaired "uplinks: are now lan0" uplink_is_renamed
check "the uplink is named back" is_repaired "uplinks: are now eth0" uplink_is_named_back
check "the uplink is replaced" is_repaired "VXLAN device (is replaced|created)" uplink_is_replaced
check "the uplink gets another MAC address" uplink_gets_another_mac
check "map sessions is emptied: said" is_repaired "the map of sessions was emptied by another process: .*map=sessions" empty sessions
check "the maps of sessions and affinity are emptied" sessions_are_emptied
check "the state directory is emptied" state_dir_is_emptied
finish
