#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_cni.sh - the CNI mode: every verb, every version and every failure, each of which
# leaves nothing behind.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/plugin.sh
. "$HERE/lib/plugin.sh"

POD_ADDRESS=$(by_family '^10\.244\.1\.[0-9]+' '^fd00:10:244:1::[0-9a-f]+')

version_verb()
{
	local out
	out=$(cni VERSION '' '' '' <<<'{"cniVersion":"1.0.0"}')
	expect_eq "supported versions" "0.3.1 0.4.0 1.0.0 1.1.0" \
		"$(jq -r '[.supportedVersions[] | select(IN("0.3.1", "0.4.0", "1.0.0", "1.1.0"))] | join(" ")' <<<"$out")"
}

# The form of a result: first the parts common to all versions, then the others.
result_of_version()
{
	local version=$1 ns=v${1//./} out before
	before=$(occupied)
	netns "$ns"
	out=$(conf ".cniVersion = \"$version\"" | cni ADD "$ns" "$(netns_path "$ns")" eth0)
	expect_eq "cniVersion" "$version" "$(jq -r .cniVersion <<<"$out")"
	expect_match "address" "$POD_ADDRESS/$BITS\$" "$(jq -r '.ips[0].address' <<<"$out")"
	expect_eq "interface of the address" "eth0 $(netns_path "$ns")" \
		"$(jq -r '.interfaces[.ips[0].interface] | "\(.name) \(.sandbox)"' <<<"$out")"
	expect_eq "MAC of the interface" "$(inside "$ns" cat /sys/class/net/eth0/address)" \
		"$(jq -r '.interfaces[.ips[0].interface].mac' <<<"$out")"
	expect_match "host interface" '^mk' "$(jq -r '.interfaces[] | select((.sandbox // "") == "") | .name' <<<"$out")"
	expect_eq "default route" true "$(jq 'any(.routes[]; .dst == "'"$(by_family 0.0.0.0/0 ::/0)"'")' <<<"$out")"
	case $version in
	0.*) expect_eq "version of the address" "$FAMILY" "$(jq -r '.ips[0].version' <<<"$out")" ;;
	*) expect_eq "version of the address" null "$(jq -r '.ips[0].version' <<<"$out")" ;;
	esac
	on node1 ping -c 1 -W 2 "$(ip_of <<<"$out")"
	[[ $version == 0.3.1 ]] || conf ".cniVersion = \"$version\" | .prevResult = $out" |
		cni CHECK "$ns" "$(netns_path "$ns")" eth0
	conf ".cniVersion = \"$version\" | .prevResult = $out" | cni DEL "$ns" "$(netns_path "$ns")" eth0
	nothing_new "$before"
}

unknown_version()
{
	cni_fails 1 '9\.9\.9' ADD x "$(netns unknown-version)" eth0 < <(conf '.cniVersion = "9.9.9"')
}

existing_interface()
{
	local before
	netns existing
	inside existing ip link add eth0 type bridge
	before=$(occupied)
	cni_fails '[0-9]+' 'eth0' ADD existing "$(netns_path existing)" eth0 < <(conf)
	nothing_new "$before"
	inside existing ip -d link show eth0 | grep bridge >/dev/null
}

add_twice()
{
	local addr before
	netns twice
	addr=$(add twice twice | ip_of)
	before=$(occupied)
	expect_failure add twice twice
	nothing_new "$before"
	on node1 ping -c 1 -W 2 "$addr"
	del twice twice
}

# broken JQ CODE REGEX
broken_configuration()
{
	local before
	before=$(occupied)
	[[ -e $(netns_path broken) ]] || netns broken
	conf "$1" | cni_fails "$2" "$3" ADD broken "$(netns_path broken)" eth0
	nothing_new "$before"
	expect_failure inside broken ip link show eth0
}

not_json()
{
	netns not-json
	cni_fails 6 . ADD x "$(netns_path not-json)" eth0 <<<'{"cniVersion": "1.0.0", '
	cni_fails 6 . ADD x "$(netns_path not-json)" eth0 </dev/null
}

missing_environment()
{
	netns environment
	cni_fails 4 CNI_CONTAINERID ADD '' "$(netns_path environment)" eth0 < <(conf)
	cni_fails 4 CNI_NETNS ADD x '' eth0 < <(conf)
	cni_fails 4 CNI_IFNAME ADD x "$(netns_path environment)" '' < <(conf)
	cni_fails 4 CNI_COMMAND FROB x "$(netns_path environment)" eth0 < <(conf)
	cni_fails 4 CNI_IFNAME ADD x "$(netns_path environment)" far-too-long-for-linux < <(conf)
}

namespace_gone()
{
	local before
	before=$(occupied)
	cni_fails '[0-9]+' nowhere ADD gone /run/netns/nowhere eth0 < <(conf)
	nothing_new "$before"
	touch "$TMP/no-namespace"
	cni_fails '[0-9]+' no-namespace ADD gone "$TMP/no-namespace" eth0 < <(conf)
	nothing_new "$before"
}

# A /29 has four pod addresses.
full_range()
{
	local small='.podCIDR = "10.244.1.240/29" | .stateDir = "/var/lib/monokube/small"' index before
	[[ $FAMILY == 4 ]] || small+=' | .clusterCIDR = "fd00:10:244:1::/96"' # the node has at most 32 bits
	for index in 1 2 3 4 5; do
		netns "full$index"
	done
	for index in 1 2 3 4; do
		conf "$small" | cni ADD "full$index" "$(netns_path "full$index")" eth0
	done
	before=$(occupied)
	conf "$small" | cni_fails '[0-9]+' '4' ADD full5 "$(netns_path full5)" eth0
	nothing_new "$before"
	expect_failure inside full5 ip link show eth0
	conf "$small" | cni DEL full2 "$(netns_path full2)" eth0
	expect_eq "the one address that is free" 10.244.1.243 \
		"$(conf "$small" | cni ADD full5 "$(netns_path full5)" eth0 | ip_of)"
	for index in 1 3 4 5; do
		conf "$small" | cni DEL "full$index" "$(netns_path "full$index")" eth0
	done
}

reused_last()
{
	local index first
	netns reuse
	first=$(add reuse0 reuse | ip_of)
	del reuse0 reuse
	for index in 1 2 3 4 5; do
		expect_failure test "$first" = "$(add "reuse$index" reuse | ip_of)"
		del "reuse$index" reuse
	done
}

# Repeated DEL of one pod, with less information each time.
del_is_idempotent()
{
	local before result
	before=$(occupied)
	netns idempotent
	result=$(add idempotent idempotent)
	conf ".prevResult = $result" | cni DEL idempotent "$(netns_path idempotent)" eth0
	nothing_new "$before"
	conf | cni DEL idempotent "$(netns_path idempotent)" eth0
	conf | cni DEL idempotent '' eth0
	conf | cni DEL never-seen '' eth0
}

del_without_netns()
{
	local before
	before=$(occupied)
	netns without
	add without without
	conf | cni DEL without '' eth0
	nothing_new "$before"
}

del_after_netns()
{
	local before
	before=$(occupied)
	netns after
	add after after
	ip netns del "$MK_LAB.after"
	conf | cni DEL after "/run/netns/$MK_LAB.after" eth0
	nothing_new "$before"
}

# check_finds NAME COMMAND...: CHECK finds what the command removes inside the pod (or on the node)
check_finds()
{
	local regex=$1 result ns
	shift
	ns=check$BASHPID
	netns "$ns"
	result=$(add "$ns" "$ns")
	conf ".prevResult = $result" | cni CHECK "$ns" "$(netns_path "$ns")" eth0
	NS=$ns ADDRESS=$(ip_of <<<"$result") RESULT=$result "$@"
	conf ".prevResult = $result" | cni_fails '[0-9]+' "$regex" CHECK "$ns" "$(netns_path "$ns")" eth0
	del "$ns" "$ns"
}
lose_default_route() { inside "$NS" ip "-$FAMILY" route del default; }
lose_gateway_route() { inside "$NS" sh -c "$(by_family "ip route flush scope link" "ip -6 route del fd00:10:244:1::3fe")"; }
lose_neighbour() { inside "$NS" ip "-$FAMILY" neigh flush all nud permanent; }
lose_address() { inside "$NS" ip addr flush dev eth0; }
lose_interface() { inside "$NS" ip link del eth0; }
lose_up() { inside "$NS" ip link set eth0 down; }
lose_table_entry()
{
	local number
	number=$(by_family "${ADDRESS##*.}" "0x${ADDRESS##*:}")
	# shellcheck disable=SC2046 # zeros
	on node1 bpftool map update pinned "$PINS/pods" key $((number & 255)) $((number >> 8)) 0 0 \
		value $(printf '0 %.0s' $(seq "$(by_family 16 32)"))
}
# shellcheck disable=SC2153 # RESULT is set by check_finds
lose_hook()
{
	on node1 tc qdisc del dev "$(jq -r '.interfaces[] | select((.sandbox // "") == "") | .name' <<<"$RESULT")" clsact
}
lose_allocation()
{
	local file
	file=$(python3 -c 'import ipaddress, sys; print(ipaddress.ip_address(sys.argv[1]).exploded.replace(":", ""))' "$ADDRESS")
	on node1 rm "/var/lib/monokube/ipam/$file"
}

sixty_four_at_once()
{
	local index before
	before=$(occupied)
	for index in $(seq 64); do
		netns "many$index" >/dev/null
	done
	conf >"$TMP/conf"
	# shellcheck disable=SC2016 # expanded inside
	on node1 bash -c '
		for i in $(seq 64); do
			CNI_COMMAND=ADD CNI_CONTAINERID=many$i CNI_NETNS=/run/netns/$0.many$i CNI_IFNAME=eth0 \
				CNI_PATH=/opt/cni/bin /opt/cni/bin/monokube <"$1/conf" >"$1/many$i" &
		done
		wait' "$MK_LAB" "$TMP"
	expect_eq "addresses" 64 "$(cat "$TMP"/many* | jq -r '.ips[0].address' | sort -u | wc -l)"
	for index in 1 17 64; do
		on node1 ping -c 1 -W 2 "$(ip_of <"$TMP/many$index")"
	done
	for index in $(seq 64); do
		conf | cni DEL "many$index" '' eth0
		ip netns del "$MK_LAB.many$index"
	done
	nothing_new "$before"
}

# Killed after 0.1, 0.2.. 5 ms (an ADD takes about 2): DEL removes all leftovers, and they do not
# disturb the next ADD.
killed_in_the_middle()
{
	local before index
	before=$(occupied)
	netns killed
	conf >"$TMP/conf"
	for index in $(seq 50); do
		# shellcheck disable=SC2016 # expanded inside
		on node1 env CNI_COMMAND=ADD CNI_CONTAINERID="killed$index" CNI_NETNS="$(netns_path killed)" \
			CNI_IFNAME=eth0 CNI_PATH=/opt/cni/bin \
			timeout -s KILL "$(awk -v i="$index" 'BEGIN { print i / 10000 }')" \
			/opt/cni/bin/monokube <"$TMP/conf" >/dev/null 2>&1 || true
		conf | cni DEL "killed$index" "$(netns_path killed)" eth0
		nothing_new "$before"
		expect_failure inside killed ip link show eth0
	done
}

killed_then_gc()
{
	local before index
	before=$(occupied)
	conf >"$TMP/conf"
	for index in $(seq 20); do
		netns "killgc$index"
		on node1 env CNI_COMMAND=ADD CNI_CONTAINERID="killgc$index" CNI_NETNS="$(netns_path "killgc$index")" \
			CNI_IFNAME=eth0 CNI_PATH=/opt/cni/bin \
			timeout -s KILL "$(awk -v i="$index" 'BEGIN { print i / 5000 }')" \
			/opt/cni/bin/monokube <"$TMP/conf" >/dev/null 2>&1 || true
	done
	conf '.cniVersion = "1.1.0" | .["cni.dev/valid-attachments"] = []' | cni GC '' '' ''
	nothing_new "$before"
}

gc_verb()
{
	local before index kept with_kept
	before=$(occupied)
	for index in 1 2 3; do
		netns "gc$index"
	done
	kept=$(add gc1 gc1 | ip_of)
	with_kept=$(occupied)
	add gc2 gc2
	add gc3 gc3
	conf '.cniVersion = "1.1.0" | .["cni.dev/valid-attachments"] = [{containerID: "gc1", ifname: "eth0"}]' |
		cni GC '' '' ''
	on node1 ping -c 1 -W 2 "$kept"
	nothing_new "$with_kept"
	del gc1 gc1
	nothing_new "$before"
}

status_verb()
{
	conf '.cniVersion = "1.1.0"' | cni STATUS '' '' ''
	conf '.cniVersion = "1.1.0" | .bpfDir = "/sys/fs/bpf/nothing"' | cni_fails 50 . STATUS '' '' ''
}

# portmap and tuning after monokube in one list, as an administrator would write it. Without the
# capability portmap sets the host ports, not monokube. Debian's plugins do not know version 1.1.0.
# For IPv6 the host forwards only if its administrator has said so, as kubeadm demands.
chained()
{
	local file=/run/mklab-$MK_LAB/nodes/node1/cni-conf/net.d/05-chained.conflist addr status=0
	[[ $FAMILY == 4 ]] || forward_in node1
	on node1 cat /etc/cni/net.d/10-monokube.conflist | jq 'del(.cniVersions) | .plugins = [(.plugins[0] | del(.capabilities)),
		{type: "portmap", capabilities: {portMappings: true}},
		{type: "tuning", sysctl: {"net.core.somaxconn": "777"}}]' >"$file"
	addr=$(lab pod node1 chained --host-port 8099:8080) || status=$?
	rm "$file"
	expect_eq "status of lab pod" 0 "$status"
	expect_eq "sysctl in the pod" 777 "$(on chained cat /proc/sys/net/core/somaxconn)"
	serve chained chained --tcp 8080
	expect_eq "entries of map host_ports" 0 \
		"$(on node1 bpftool -j map dump pinned "$PINS/host_ports" | jq length)"
	expect_match "port 8099 of node1 from world" "^chained 192.168.99.200 " "$(ask world tcp 192.168.99.11:8099)"
	expect_match "the pod itself from node1" "^chained 10.18.0.1 " "$(ask node1 tcp "$addr:8080")"
	lab rm chained
	expect_eq "port 8099 of node1 once the pod is gone" refused "$(ask world tcp 192.168.99.11:8099 || true)"
}

# A further interface, as Multus adds it: both addresses are reachable from near and far, each
# answers by its own device, and DEL of one leaves the other.
further_interface()
{
	local before first second ip
	before=$(occupied)
	netns two
	first=$(add two two | ip_of)
	second=$(add two two net1 | ip_of)
	for ip in "$first" "$second"; do
		on node1 ping -c 1 -W 2 "$ip"
		on other ping -c 1 -W 2 "$ip"
		on far ping -c 1 -W 2 "$ip"
	done
	inside two ping -c 1 -W 2 -I "$second" 203.0.113.10
	inside two ping -c 1 -W 2 203.0.113.10
	expect_eq "default route" eth0 "$(inside two ip "-$FAMILY" -j route show default | jq -r '.[].dev')"
	expect_eq "interfaces" "eth0 net1" "$(on node1 "$MK_BIN" pods -o json |
		jq -r '[.[] | select(.container == "two") | .containerInterface] | sort | join(" ")')"
	del two two
	on far ping -c 1 -W 2 "$second"
	add two two
	del two two net1
	inside two ping -c 1 -W 2 203.0.113.10
	expect_eq "routing rules" "$(by_family 3 2)" "$(inside two ip "-$FAMILY" rule | wc -l)"
	del two two
	nothing_new "$before"
}

# `monokube pods` shows both interfaces of a pod by its name; only the name means the first.
further_by_name()
{
	local before interface args='K8S_POD_NAMESPACE=default;K8S_POD_NAME=named'
	before=$(occupied)
	netns named
	for interface in eth0 net1; do
		conf | CNI_ARGS=$args cni ADD named "$(netns_path named)" $interface
	done
	expect_eq "pods named" "default/named default/named@net1" \
		"$(on node1 "$MK_BIN" pods named -o json | jq -r '[.[].name] | sort | join(" ")')"
	expect_eq "pods named@net1" "net1" \
		"$(on node1 "$MK_BIN" pods named@net1 -o json | jq -r '.[].containerInterface')"
	del named named net1
	del named named
	nothing_new "$before"
}

agent_stopped()
{
	local before addr result
	before=$(occupied)
	netns stopped
	lab agent stop node1
	result=$(add stopped stopped)
	addr=$(ip_of <<<"$result")
	conf ".prevResult = $result" | cni CHECK stopped "$(netns_path stopped)" eth0
	conf '.cniVersion = "1.1.0"' | cni STATUS '' '' ''
	on node1 ping -c 1 -W 2 "$addr"
	lab agent start node1
	on node1 ping -c 1 -W 2 "$addr"
	del stopped stopped
	nothing_new "$before"
}

# Pods are added while the agent replaces the programs on every pod: no pod keeps an old program.
agent_restarts_meanwhile()
{
	local index before result
	before=$(occupied)
	for index in $(seq 20); do
		netns "swap$index" >/dev/null
	done
	(
		for index in $(seq 20); do
			add "swap$index" "swap$index" >"$TMP/swap$index"
		done
	) &
	for index in 1 2 3; do
		lab agent stop node1
		lab agent start node1
	done
	wait $!
	for index in $(seq 20); do
		result=$(<"$TMP/swap$index")
		conf ".prevResult = $result" | cni CHECK "swap$index" "$(netns_path "swap$index")" eth0
		del "swap$index" "swap$index"
	done
	nothing_new "$before"
}

is_free_again() { [[ $(occupied) == "$1" ]]; }

# The runtime forgot a pod whose namespace is gone: the agent frees its address.
agent_gc()
{
	local before
	before=$(occupied)
	netns forgotten
	add forgotten forgotten
	ip netns del "$MK_LAB.forgotten"
	lab agent stop node1
	lab agent start node1
	wait_for 15 is_free_again "$before"
}

# The directory of addresses is removed while pods live: none of their addresses is assigned to
# another pod, and all are free when the pods are gone.
address_files_lost()
{
	local before first second new
	lab rm other # with two families, the files of a pod that stays would have other names
	before=$(occupied)
	netns first
	netns second
	first=$(add first first | ip_of)
	second=$(add second second | ip_of)
	on node1 rm -r /var/lib/monokube/ipam
	netns new
	new=$(add new new | ip_of)
	expect_match "the address of the next pod" "$POD_ADDRESS" "$new"
	[[ $new != "$first" && $new != "$second" ]] || { echo "$new is given twice"; return 1; }
	lab agent stop node1
	lab agent start node1
	wait_for 15 inside first ping -c 1 -W 1 "$second"
	inside new ping -c 1 -W 2 "$first"
	del first first
	del second second
	del new new
	lab agent stop node1
	lab agent start node1
	wait_for 15 is_free_again "$before"
}

lab up 2
check "VERSION names all versions" version_verb
for version in 0.3.1 0.4.0 1.0.0 1.1.0; do
	check "ADD, CHECK, DEL in version $version" result_of_version $version
done
check "an unknown version is error 1" unknown_version
check "ADD where the interface exists" existing_interface
check "ADD twice: the first pod stays as it is" add_twice
check "configuration without podCIDR" broken_configuration 'del(.podCIDR)' 7 podCIDR
check "podCIDR that is none" broken_configuration '.podCIDR = "10.244.1.0/240"' 7 'podCIDR.*10.244.1.0/240'
check "podCIDR outside clusterCIDR" broken_configuration '.podCIDR = "10.99.1.0/24"' 7 '10.99.1.0/24'
check "mtu that is none" broken_configuration '.mtu = "big"' 7 mtu
check "tables that are not there" broken_configuration '.bpfDir = "/sys/fs/bpf/nothing"' '[0-9]+' 'agent'
check "configuration that is not JSON is error 6" not_json
check "missing and wrong environment is error 4" missing_environment
check "ADD into a namespace that is gone" namespace_gone
check "a full range says so, and a freed address works" full_range
check "the address released last is reused last" reused_last
check "DEL again and again" del_is_idempotent
check "DEL without CNI_NETNS and prevResult" del_without_netns
check "DEL after the namespace is gone" del_after_netns
check "CHECK finds a missing default route" check_finds 'route' lose_default_route
check "CHECK finds a missing gateway route" check_finds 'route' lose_gateway_route
check "CHECK finds a missing neighbour" check_finds 'neighbour' lose_neighbour
check "CHECK finds a missing address" check_finds 'address' lose_address
check "CHECK finds a missing interface" check_finds 'eth0' lose_interface
check "CHECK finds an interface that is down" check_finds 'eth0' lose_up
lab agent stop node1 # it would put these back before CHECK looks
check "CHECK finds a missing table entry" check_finds 'table|map|pods' lose_table_entry
check "CHECK finds a missing program" check_finds 'program|hook|attach' lose_hook
lab agent start node1
check "CHECK finds a missing allocation" check_finds '.' lose_allocation
check "64 ADDs at once: 64 addresses" sixty_four_at_once
check "killed in the middle, then DEL: nothing left" killed_in_the_middle
check "killed in the middle, then GC: nothing left" killed_then_gc
check "GC keeps what it is told to" gc_verb
check "STATUS" status_verb
check "portmap and tuning chained behind it" chained
lab pod node1 other >/dev/null
lab pod node2 far >/dev/null
check "a further interface of a container" further_interface
check "... by its pod's name" further_by_name
check "the agent is stopped: ADD, CHECK, STATUS, DEL" agent_stopped
check "ADDs while the agent restarts" agent_restarts_meanwhile
check "the agent frees the address of a vanished pod" agent_gc
check "address files are lost: no pod's address is given to another" address_files_lost
finish
