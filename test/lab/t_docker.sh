#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_docker.sh - Debian's docker on node1 beside monokube: containers on docker0 and pods reach each other,
# Services and published ports.
#
#   node1: client, web-1, container box; node2: web-2; world is outside
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/runtime.sh
. "$HERE/lib/runtime.sh"
# shellcheck source=test/lab/lib/packages.sh
. "$HERE/lib/packages.sh"
packages_in docker
PLACES="/run/containerd /run/docker /run/runc" # the lab's pods stay in /run/netns
PUBLISHED=7070

trap 'runtime_down || true; cleanup' EXIT
explain() { lab log node1 | tail -n 12; on node1 "$MK_BIN" drops || true; tail -n 20 "$RUNTIME/docker.log"; on node1 iptables-save | head -60; }

# ---- docker

docker_up()
{
	local tools=$TREE/usr
	[[ -x $tools/bin/docker ]] || tools=/usr
	DOCKER=$tools/bin/docker
	on node1 env PATH="$tools/bin:$tools/sbin:$PATH" "$tools/sbin/dockerd" --data-root "$RUNTIME/docker" --exec-root "$RUNTIME/exec" \
		--pidfile "$RUNTIME/docker.pid" --host "unix://$RUNTIME/docker.sock" --storage-driver vfs --cgroup-parent "$CGROUP" \
		>"$RUNTIME/docker.log" 2>&1 </dev/null &
	wait_for 30 docker version
}
docker() { on node1 "$DOCKER" --host "unix://$RUNTIME/docker.sock" "$@"; }
docker_down()
{
	kill "$(<"$RUNTIME/docker.pid")"
	wait_for 20 test ! -e "$RUNTIME/docker.pid"
}

# container NAME ARGS...: NAME is then a place for `on`, `serve` and `ask`
container()
{
	docker run --detach --name "$1" "${@:2}" localhost/pause:1
	pod_place "$1" "$(docker inspect "$1" | jq -er '.[0].NetworkSettings.SandboxKey')"
}

docker_starts()
{
	unpack_packages dbus docker.io
	docker_up
	tar c -C "$TMP" pause | docker import --change 'CMD ["/pause"]' - localhost/pause:1
	container box --publish $PUBLISHED:8080 --publish $PUBLISHED:8080/udp
	serve box box --tcp 8080 --udp 8080
}

# ---- rows

to_pods_and_services()
{
	local proto
	for proto in tcp udp; do
		reaches web-1 '.*' box $proto "$ADDR_1:8080"
		reaches web-2 '.*' box $proto "$ADDR_2:8080"
		reaches 'web-[12]' '.*' box $proto "$VIP:8080"
		reaches 'web-[12]' '.*' box $proto "$NODE1:30080"
		reaches 'web-[12]' '.*' box $proto "$NODE2:30080"
		reaches world "$NODE1" box $proto "$WORLD:8080"
	done
}
from_pods()
{
	local address proto
	address=$(on box ip -j -4 addr show eth0 | jq -r '.[0].addr_info[0].local')
	for proto in tcp udp; do
		reaches box '.*' client $proto "$address:8080"
		reaches box '.*' client $proto "$NODE1:$PUBLISHED"
		reaches box '.*' web-2 $proto "$NODE1:$PUBLISHED"
		reaches box '.*' node1 $proto "$NODE1:$PUBLISHED"
		reaches box '.*' node2 $proto "$NODE1:$PUBLISHED"
		reaches box "$WORLD" world $proto "$NODE1:$PUBLISHED"
	done
}

# Docker sets this policy where the host did not forward before.
forward_drops()
{
	on node1 iptables -P FORWARD DROP
	to_pods_and_services
	from_pods
	on node1 iptables -P FORWARD ACCEPT
}

docker_starts_again()
{
	docker_down
	reaches web-2 '.*' client tcp "$ADDR_2:8080"
	docker_up
	docker start box
	pod_place box "$(docker inspect box | jq -er '.[0].NetworkSettings.SandboxKey')"
	serve box box --tcp 8080 --udp 8080
	to_pods_and_services
	from_pods
}

runtime_up
web_pods_up
web_service_up
check "docker starts, and runs a container" docker_starts
check "a container reaches pods, Services and the world" to_pods_and_services
check "pods, nodes and the world reach a container, also by its published port" from_pods
check "the same if the host drops what it forwards" forward_drops
check "docker starts again" docker_starts_again
finish
