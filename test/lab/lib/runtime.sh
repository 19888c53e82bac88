# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/runtime.sh - a container runtime of Debian on node1: its own places, its pods, and
# everything that they may leave.
# shellcheck disable=SC2034 # read by the tests
# shellcheck source=test/lab/lib/plugin.sh
. "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/plugin.sh"
EXTRA=192.168.99.71 # node1's second address
LOCALHOST=127.0.0.1 EVERYWHERE=0.0.0.0 VPOD1=10.244.1.1 SHARED=10.96.0.55
A_POD='10\.244\.1\.[0-9]+' # regular expressions
A_VPOD='10\.244\.[12]\.1'
PINS=/sys/fs/bpf/monokube/maps
if [[ $FAMILY == 6 ]]; then
	NODE1=fd00:99::11 NODE2=fd00:99::12 WORLD=fd00:99::200
	EXTRA=fd00:99::71
	LOCALHOST=::1 EVERYWHERE='\[::\]' VPOD1=fd00:10:244:1::1 SHARED=fd00:10:96::55
	A_POD='fd00:10:244:1::[0-9a-f]+'
	A_VPOD='fd00:10:244:[12]::1'
	PINS=/sys/fs/bpf/monokube/ipv6/maps
fi
CGROUP=/$MK_LAB     # the pods' processes, in each hierarchy
RUNTIME=            # runtime_up()

PLACES="/run/containerd /run/libpod /run/netns /run/runc" # of runtimes

# In node1's mount namespace: PLACES, empty, and the machine's cgroups, which the node's /sys hides.
runtime_places()
{
	local name at type options rest
	on node1 sh -c "for at in $PLACES /sys/fs/cgroup; do
		mkdir -p \"\$at\" && mount -t tmpfs -o mode=755 runtime \"\$at\" || exit; done"
	while read -r name at type options rest; do
		on node1 sh -c "mkdir -p '$at' && mount -t '$type' -o '$options' '$name' '$at'"
	done < <(grep -E '^[^ ]+ /sys/fs/cgroup(/[^ ]+)? cgroup2? ' /proc/self/mounts)
}

# lab up, and an image with a program that waits: $TMP/pause.tar, localhost/pause:1
runtime_up()
{
	lab up 2
	RUNTIME=/run/mklab-$MK_LAB/runtime
	mkdir "$RUNTIME"
	on node1 stat -Lc %i /proc/self/ns/mnt >"$TMP/mounts"
	runtime_places
	on node1 ip addr add "$EXTRA/$([[ $FAMILY == 6 ]] && echo 64 || echo 24)" dev eth0
	wait_for 20 knows_extra
	gcc -O2 -static -o "$TMP/pause" "$HERE/pause.c"
	"$HERE/pause_image.py" "$TMP/pause" "$TMP/pause.tar"
}
knows_extra() { on node1 bpftool -j map dump pinned $PINS/routes | grep -q "$(in_table "$EXTRA")"; }
# in_table ADDRESS: its bytes as bpftool prints them
in_table()
{
	python3 -c 'import ipaddress, sys
print(",".join(f"\"0x{byte:02x}\"" for byte in ipaddress.ip_address(sys.argv[1]).packed))' "$1"
}

# Pods' processes are in namespaces unknown to `lab down`, and their cgroups are the machine's.
runtime_down()
{
	wait_for 10 no_processes
	find_cgroups -exec rmdir {} + 2>/dev/null || true # others come and go
}
find_cgroups() { find /sys/fs/cgroup -depth -type d \( -name "${CGROUP#/}" -o -path "*$CGROUP/*" \) "$@"; }
# Processes started by node1 are in its mount namespace, which lives until `lab down`. The number of
# a pod's network namespace may have been reused.
processes()
{
	ip netns pids "$MK_LAB.node1"
	find_cgroups -exec cat {}/cgroup.procs \; || true
	find /proc -maxdepth 3 -path '/proc/[1-9]*/ns/mnt' -lname "mnt:?$(<"$TMP/mounts")?" -printf '%P\n' | cut -d/ -f1
}
no_processes()
{
	local pids
	pids=$(processes 2>/dev/null | sort -u | tr '\n' ' ')
	[[ -n $pids ]] || return 0
	# shellcheck disable=SC2086 # a list of numbers
	kill -KILL $pids 2>/dev/null || true
	return 1
}

# pod_place NAME PATH: a pod of the runtime, whose namespace has this path on node1; an error if
# there is none
pod_place()
{
	echo "$2" >"$TMP/netns.$1"
	on "$1" true
}

# on WHERE CMD...: besides the lab's places, a pod of the runtime, whose namespace is in
# $TMP/netns.WHERE
on()
{
	if [[ -f $TMP/netns.$1 ]]; then
		lab exec node1 nsenter --net="$(<"$TMP/netns.$1")" "${@:2}"
	else
		lab exec "$@"
	fi
}
pod_ip() { on "$1" ip -j "-$FAMILY" addr show eth0 | jq -r '.[0].addr_info[0].local'; }

# reaches NAME PEER WHERE PROTO ADDRESS:PORT: the answer is NAME's, which saw PEER (regular
# expressions)
reaches()
{
	if [[ $4 == sctp ]]; then
		expect_match "sctp $5 from $3" "^$1 $2 " "$(on "$3" "$HERE/sctp.py" ask "$5" --timeout 2)"
	else
		expect_match "$4 $5 from $3" "^$1 $2 " "$(ask "$3" "$4" "$5")"
	fi
}
# refused WHERE PROTO ADDRESS:PORT
refused()
{
	if [[ $2 == sctp ]]; then
		expect_status 3 on "$1" "$HERE/sctp.py" ask "$3" --timeout 2
	else
		expect_status 3 ask "$@"
	fi
}

# serve_sctp WHERE NAME PORT
serve_sctp()
{
	local out
	out=$(mktemp "$TMP/serve.XXXXXX")
	on "$1" "$HERE/sctp.py" serve --name "$2" --port "$3" >"$out" 2>&1 </dev/null &
	wait_for 10 grep -q serving "$out"
}

# Everything that pods left on the node, whatever the runtime reports. An empty namespace is the
# runtime's: if it is killed before it records the name, it leaves the namespace.
left()
{
	occupied
	on node1 sh -c '
		echo "host ports"; bpftool -j map dump pinned "$0/host_ports" | jq -c ".[].key"
		echo "addresses"; find /var/lib/monokube/ipam ! -name lock ! -name .both ! -path "*/released/*" | sort
		echo "namespaces"; for name in $(ls /run/netns); do
			! ip -n "$name" link show eth0 >/dev/null 2>&1 || echo "$name"; done' "$PINS"
}
left_is() { expect_eq "what the node has of pods" "$1" "$(left)"; }
nothing_left() { left_is "$LEFT_BEFORE"; }

service()
{
	cat <<END
apiVersion: v1
kind: Service
metadata: {name: shared, namespace: default}
spec:
  type: NodePort
  clusterIP: "$SHARED"
  ports: [{name: p, port: 80, targetPort: 8080, nodePort: 30055, protocol: TCP}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: shared-1, namespace: default, labels: {kubernetes.io/service-name: shared}}
addressType: IPv$FAMILY
endpoints:
- {addresses: ["$1"], nodeName: $2, conditions: {ready: true}}
ports: [{name: p, port: 8080, protocol: TCP}]
END
}
# service_of ADDRESS NODE: Service $SHARED, port 80, node port 30055, has this one endpoint
service_of()
{
	service "$@" >"$TMP/shared.yaml"
	lab apply "$TMP/shared.yaml"
}
