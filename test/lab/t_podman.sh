#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_podman.sh - Debian's podman on node1 with its CNI back end, which finds the
# configuration and the plugin that the agent installs.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/runtime.sh
. "$HERE/lib/runtime.sh"
MANY=8
ADDRESS_FIELD=IPAddress
WANTED=(--ip 10.244.1.77)
if [[ $FAMILY == 6 ]]; then
	ADDRESS_FIELD=GlobalIPv6Address
	WANTED=(--ip6 fd00:10:244:1::77)
fi

trap 'runtime_down || true; cleanup' EXIT

# ---- podman

configure()
{
	cat >"$RUNTIME/containers.conf" <<END
[containers]
# the kernel refuses higher ones without CAP_SYS_RESOURCE
default_ulimits = []
[network]
network_backend = "cni"
cni_plugin_dirs = ["/opt/cni/bin"]
network_config_dir = "/etc/cni/net.d"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
tmp_dir = "$RUNTIME/tmp"
END
	cat >"$RUNTIME/storage.conf" <<END
[storage]
driver = "vfs"
runroot = "$RUNTIME/run"
graphroot = "$RUNTIME/root"
END
	cat >"$RUNTIME/podman" <<END
#!/bin/sh
echo \$\$ >>$RUNTIME/pids
export CONTAINERS_CONF=$RUNTIME/containers.conf CONTAINERS_STORAGE_CONF=$RUNTIME/storage.conf
exec podman "\$@"
END
	chmod +x "$RUNTIME/podman"
}
podman() { lab exec node1 "$RUNTIME/podman" "$@"; }

# ---- containers

RUN=(run --detach --cgroup-parent "$CGROUP" --network monokube)
# container NAME ARGS...: NAME is then a place for `on`, `serve` and `ask`
container()
{
	podman "${RUN[@]}" --name "$1" "${@:2}" localhost/pause:1
	find_place "$1"
}
find_place() { pod_place "$1" "$(podman inspect "$1" | jq -er '.[0].NetworkSettings.SandboxKey')"; }
removed()
{
	local name
	for name in "$@"; do
		rm -f "$TMP/netns.$name"
		podman rm --force --time 0 "$name"
	done
	wait_for 10 nothing_left
}

bracketed() { if [[ $1 == *:* ]]; then echo "[$1]"; else echo "$1"; fi; }

# ---- rows

every_kind_of_port()
{
	container web -p 8080:8080 -p 5300:53/udp -p 9900:9/sctp -p "$(bracketed "$NODE1"):8081:8080" -p "$(bracketed $LOCALHOST):8083:8080" \
		-p 7000-7001:7000-7001
	expect_eq "address of eth0" "$(podman inspect web | jq -r '.[0].NetworkSettings.Networks.monokube.'$ADDRESS_FIELD)" \
		"$(pod_ip web)"
	serve web web --tcp 8080 --udp 53 --tcp 7000 --tcp 7001
	serve_sctp web web 9
	for proto in tcp/8080 udp/5300 sctp/9900 tcp/7000 tcp/7001; do
		reaches web "$WORLD" world "${proto%/*}" "$NODE1:${proto#*/}"
		reaches web "$NODE2" far "${proto%/*}" "$NODE1:${proto#*/}"
		reaches web "$NODE1" node1 "${proto%/*}" "$NODE1:${proto#*/}"
		reaches web $VPOD1 node1 "${proto%/*}" "$LOCALHOST:${proto#*/}"
	done
	reaches web "$WORLD" world tcp "$EXTRA:8080"
	reaches web "$WORLD" world tcp "$NODE1:8081"
	refused world tcp "$EXTRA:8081"
	reaches web $VPOD1 node1 tcp $LOCALHOST:8083
	refused world tcp "$NODE1:8083"
}

# podman binds TCP and UDP ports itself, so that it sees these conflicts. SCTP is the plugin's.
port_is_taken()
{
	local before said
	before=$(left)
	said=$(container second -p 9900:9/sctp 2>&1) && {
		echo "accepted: $said"
		return 1
	}
	expect_match "why not" "host port $EVERYWHERE:9900/sctp, .* leads to container '$(podman inspect web | jq -r '.[0].Id')'" "$said"
	expect_failure container third -p 8080:8080
	podman rm --force --time 0 second third
	left_is "$before"
	reaches web "$WORLD" world tcp "$NODE1:8080"
}

# Otherwise podman would start it with another address, and without its ports.
address_wanted()
{
	local before said
	before=$(left)
	said=$(container fixed "${WANTED[@]}" -p 8090:8080 2>&1) && {
		echo "accepted: $said"
		return 1
	}
	expect_match "why not" "IP '${WANTED[1]}': monokube assigns the addresses itself" "$said"
	said=$(container fixed2 --mac-address 02:00:00:00:00:77 2>&1) && {
		echo "accepted: $said"
		return 1
	}
	expect_match "why not" "MAC '02:00:00:00:00:77': monokube assigns" "$said"
	podman rm --force --time 0 fixed fixed2
	left_is "$before"
}

two_containers()
{
	container client
	reaches web "$(pod_ip client)" client tcp "$(pod_ip web):8080"
	reaches web "$(pod_ip client)" client tcp "$NODE1:8080"
	service_of "$(pod_ip web)" node1
	wait_for 10 reaches web "$(pod_ip client)" client tcp $SHARED:80
	service_of "$FAR" node2
	wait_for 10 reaches far "$(pod_ip client)" client tcp $SHARED:80
	lab delete "$TMP/shared.yaml"
}

# Each start is another ADD for the same container.
stop_and_start()
{
	podman stop --time 0 web
	refused world tcp "$NODE1:8080"
	refused node1 tcp $LOCALHOST:8083
	podman start web
	find_place web
	serve web web --tcp 8080
	reaches web "$WORLD" world tcp "$NODE1:8080"
	podman restart --time 0 web
	find_place web
	serve web web --tcp 8080
	reaches web "$WORLD" world tcp "$NODE1:8080"
	removed web client
	refused world tcp "$NODE1:8080"
}

# podman sends the host ports with both interfaces and adds these in any order. The one that was
# added first has the ports, and keeps them when the other one is removed.
two_networks()
{
	local address network
	on node1 sh -c 'jq ".name = \"second\"" /etc/cni/net.d/10-monokube.conflist >/etc/cni/net.d/20-second.conflist'
	podman "${RUN[@]}" --network second --name two -p 8080:8080 localhost/pause:1
	find_place two
	serve two two --tcp 8080
	expect_eq "addresses" 2 "$(addresses_of two | wc -l)"
	for address in $(addresses_of two); do
		reaches two '.*' node1 tcp "$address:8080"
		reaches two "$FAR" far tcp "$address:8080"
	done
	reaches two "$WORLD" world tcp "$NODE1:8080"
	network=$(network_without_ports two)
	podman network disconnect "$network" two
	reaches two "$WORLD" world tcp "$NODE1:8080"
	reaches two "$FAR" far tcp "$(addresses_of two):8080"
	podman network connect "$network" two
	expect_eq "addresses" 2 "$(addresses_of two | wc -l)"
	reaches two "$WORLD" world tcp "$NODE1:8080"
	removed two
	on node1 rm /etc/cni/net.d/20-second.conflist
}
addresses_of() { on "$1" ip -j "-$FAMILY" addr show | jq -r '.[] | select(.ifname != "lo").addr_info[].local'; }
network_without_ports()
{
	local leads_to
	leads_to=$(on node1 bpftool -j map dump pinned "$PINS/host_ports")
	podman inspect "$1" | jq -r '.[0].NetworkSettings.Networks | to_entries[] | [.key, .value.'$ADDRESS_FIELD'] | @tsv' |
		while IFS=$'\t' read -r network address; do
			grep -q "$(in_table "$address")" <<<"$leads_to" || echo "$network"
		done
}

no_agent()
{
	lab agent kill node1
	container alone -p 8080:8080 -p "$(bracketed $LOCALHOST):8083:8080"
	serve alone alone --tcp 8080
	reaches alone "$WORLD" world tcp "$NODE1:8080"
	reaches alone $VPOD1 node1 tcp $LOCALHOST:8083
	removed alone
	refused world tcp "$NODE1:8080"
	lab agent start node1
	nothing_left
}

# ---- podman is killed

# many COMMAND...: with each number, all in parallel; the shells' pids are podman's
many()
{
	local number
	: >"$RUNTIME/pids"
	for ((number = 1; number <= MANY; number++)); do
		"$@" "$number" >"$TMP/many.$number" 2>&1 &
	done
}
# A podman that was killed may keep a name.
create() { podman "${RUN[@]}" --name "$ROUND-$1" -p $((7000 + $1)):8080 localhost/pause:1; }
destroy() { podman rm --force --time 0 "$ROUND-$1"; }
# The number of a podman that has ended may belong to another process.
podman_is_killed()
{
	local pid
	while read -r pid; do
		[[ $(cat "/proc/$pid/comm" 2>/dev/null) != podman ]] || kill -KILL "$pid" 2>/dev/null || true
	done <"$RUNTIME/pids"
	wait
}
addresses() { on node1 ls /var/lib/monokube/ipam | grep -cE '^(10\.|[0-9a-f]{32}$)' || true; }
at_least() { (($(addresses) >= $1)); }
at_most() { (($(addresses) <= $1)); }

# podman does not later remove what it was about to record when it was killed: monitors, which hold
# its ports, and namespaces. The user removes these. The agent releases the rest, as for any
# container that is gone.
all_removed()
{
	local netns pid
	wait_for 10 removes_all
	for pid in $(ip netns pids "$MK_LAB.node1"); do
		[[ $(cat "/proc/$pid/comm" 2>/dev/null) != conmon ]] || kill -KILL "$pid"
	done
	for netns in $(on node1 ls /run/netns); do
		on node1 ip netns del "$netns"
	done
	lab agent stop node1
	lab agent start node1
	wait_for 10 nothing_left
}
removes_all() { podman rm --all --force --time 0; }

killed_while_creating()
{
	ROUND=first-$1
	many create
	wait_for 30 at_least "$1"
	podman_is_killed
	all_removed
}

killed_while_removing()
{
	ROUND=second
	many create
	wait
	cat "$TMP"/many.*
	expect_eq "addresses" $MANY "$(addresses)"
	many destroy
	wait_for 30 at_most $((MANY / 2))
	podman_is_killed
	all_removed
}

runtime_up
configure
podman load --quiet --input "$TMP/pause.tar" >/dev/null
FAR=$(lab pod node2 far)
serve far far --tcp 8080
LEFT_BEFORE=$(left)

check "host ports of every kind, from everywhere" every_kind_of_port
check "a host port that is taken: the error says so, nothing is left" port_is_taken
check "an address of the user's choice is an error" address_wanted
check "two containers, and Services" two_containers
check "stopped, started, restarted, removed" stop_and_start
check "two networks: two addresses, and the host ports stay with the first" two_networks
check "no agent: containers come and go" no_agent
check "podman is killed when the first container has an address: nothing is left" killed_while_creating 1
check "podman is killed when half of the containers have one: nothing is left" killed_while_creating $((MANY / 2))
check "podman is killed while it removes containers: nothing is left" killed_while_removing
check "a container after all that" every_kind_of_port
finish
