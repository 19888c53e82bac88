#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_loop.sh - nothing blocks the agent's event loop: no lock of another process, no stopped
# or closed reader of its log, no load of the programs. /livez answers meanwhile.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"
export MK_AGENT_FLAGS="--log-level debug"

VIP=10.96.88.1
CLUSTER_1=/run/mklab-$MK_LAB/nodes/node1/cluster
HOLDERS=()

explain() { lab log node1 | tail -n 20; }
end_all()
{
	local pid
	for pid in "${HOLDERS[@]}"; do
		kill -CONT "$pid" 2>/dev/null && kill "$pid" || true
	done
}
trap 'end_all; rm -rf "$TMP"; lab down >/dev/null 2>&1 || true' EXIT

lives() { expect_eq "GET /livez" 200 "$(on node1 curl -s --noproxy '*' --max-time 10 -o /dev/null -w '%{http_code}' http://127.0.0.1:10256/livez)"; }
metric() { on node1 curl -s --noproxy '*' http://127.0.0.1:10249/metrics | awk -v name="$1" '$1 == name { print $2 }'; }

# hold FILE HOW: another process, HOLDER, holds a lock of node1, LOCK_SH or LOCK_EX
hold()
{
	on node1 python3 -c 'if True:
		import fcntl, os, signal, sys
		os.makedirs(os.path.dirname(sys.argv[1]), exist_ok=True)
		fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
		fcntl.flock(fd, getattr(fcntl, sys.argv[2]))
		open(sys.argv[3], "w").write(str(os.getpid()))
		signal.pause()' "/var/lib/monokube/$1" "$2" "$TMP/holder" &
	wait_for 5 test -s "$TMP/holder"
	HOLDER=$(<"$TMP/holder")
	rm "$TMP/holder"
	HOLDERS+=("$HOLDER")
}
release() { kill "$HOLDER"; }
waits_for() { logged "$1" "waiting for a lock: .*$2' is held by pid $HOLDER\$"; }

# service NAME VIP: node1's cluster gets it
service()
{
	service_yaml "$1" web "$2" "{port: 80, targetPort: http}" >"$TMP/$1.yaml"
	cp "$TMP/$1.yaml" "$CLUSTER_1/$1.yaml"
}
has_frontend() { on node1 "$(bin)" services "$1" | grep -F "$2"; }
bin() { realpath "$HERE/../../build/monokube"; }

loop_lab_up()
{
	lab up 1
	lab pod node1 web-1 >/dev/null
	service web "$VIP"
	wait_for 5 has_frontend web "$VIP"
}

# As held by a stopped ADD.
start_with_lock()
{
	local start
	lab agent stop node1
	hold datapath.lock LOCK_SH
	start=$(log_size)
	agent_in_background
	wait_for 20 waits_for "$start" datapath.lock
	lives
	expect_failure logged "$start" 'info ready'
	lab agent stop node1
	agent_in_background
	wait_for 20 lives
	release
	wait_for 20 logged "$start" 'info ready'
}
agent_in_background()
{
	(lab agent start node1 >/dev/null 2>&1) &
	wait_for 10 lives
}

addresses_with_lock()
{
	local start
	start=$(log_size)
	lab agent stop node1
	hold ipam/lock LOCK_EX
	lab agent start node1
	wait_for 10 waits_for "$start" ipam/lock
	lives
	service later 10.96.88.2
	wait_for 5 has_frontend later 10.96.88.2
	release
	rm "$CLUSTER_1/later.yaml"
}

# The agent's standard error becomes a pipe without a reader. It has room for a page: the lines of two
# changes of 40 Services are more.
log_into_pipe()
{
	local pid
	lab agent stop node1
	mkfifo "$TMP/log"
	sleep 300 3<>"$TMP/log" &
	HOLDERS+=("$!")
	HOLDER=$!
	expect_eq "bytes of the pipe" 4096 "$(shrink_pipe "$TMP/log")"
	on node1 setsid "$(bin)" agent --node-name node1 --cluster-dir "$CLUSTER_1" \
		--cluster-cidr 10.244.0.0/16 --vtep-cidr 10.18.0.0/16 --log-level debug 2>"$TMP/log" &
	wait_for 20 lives
	pid=$(on node1 cat /var/lib/monokube/agent.lock)
	HOLDERS+=("$pid")
	for i in {1..40}; do
		service "n$i" "10.96.89.$i"
	done
	wait_for 20 has_frontend n40 10.96.89.40
	wait_for 120 fills_the_pipe
	lives
	service last 10.96.88.3
	wait_for 5 has_frontend last 10.96.88.3
	kill "$HOLDER"
	service gone 10.96.88.4
	wait_for 5 has_frontend gone 10.96.88.4
	lives
	kill "$pid"
	wait_for 10 is_gone "$pid"
	rm "$CLUSTER_1"/n[0-9]*.yaml "$CLUSTER_1"/{last,gone}.yaml
	lab agent start node1
}
shrink_pipe() { python3 -c 'import fcntl, os, sys; print(fcntl.fcntl(os.open(sys.argv[1], os.O_RDWR), 1031, 4096))' "$1"; } # F_SETPIPE_SZ
is_gone() { [[ ! -e /proc/$1 ]]; }
# Each change is a debug line.
fills_the_pipe()
{
	local i
	for i in {1..40}; do
		printf ' ' >>"$TMP/n$i.yaml"
		sed -i "s/port: 80[0-9]*/port: 80$((RANDOM % 100))/" "$TMP/n$i.yaml"
		cp "$TMP/n$i.yaml" "$CLUSTER_1/n$i.yaml"
	done
	lives
	(($(metric monokube_log_lines_lost_total) > 0))
}

# During the whole start, which loads the programs. How long that takes depends on the machine; that a
# thread of its own does most of the work does not.
start_is_watched()
{
	local start answers=0 pid loop all
	lab agent stop node1
	on node1 rm -rf /sys/fs/bpf/monokube
	start=$(log_size)
	agent_in_background
	until logged "$start" 'info ready' >/dev/null; do
		lives
		answers=$((answers + 1))
	done
	pid=$(on node1 cat /var/lib/monokube/agent.lock)
	loop=$(ticks "/proc/$pid/task/$pid/stat")
	all=$(ticks "/proc/$pid/stat")
	echo "# $answers answers; the loop's thread took $loop of $all ticks" >&2
	logged "$start" 'programs are being loaded'
	((loop * 2 < all))
}
# of a thread, or of a process with the threads that have ended
ticks() { awk '{ print $14 + $15 }' "$1"; }

# Also with the agent's few rights: it may not open a map by its id.
restart_loads_nothing()
{
	local start before
	before=$(programs)
	start=$(log_size)
	lab agent stop node1
	lab agent start node1
	logged "$start" 'none is loaded'
	expect_eq "programs" "$before" "$(programs)"
}
programs() { on node1 bpftool -j prog show pinned /sys/fs/bpf/monokube/progs/router | jq .id; on node1 tc filter show dev eth0 ingress | grep -oE ' id [0-9]+'; }

check "setup" loop_lab_up
check "a restart with the same programs and constants loads nothing" restart_loads_nothing
check "a lock that an ADD holds which was stopped: the agent starts without its hooks, says whose it is, and ends on SIGTERM" start_with_lock
check "the lock of the addresses: the agent follows the cluster without it" addresses_with_lock
check "standard error is a pipe that nobody reads, then one without a reader: the agent goes on" log_into_pipe
check "/livez answers all through a start that loads the programs" start_is_watched
finish
