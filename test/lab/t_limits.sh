#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_limits.sh - limits that are reached or changed: source ports towards one destination,
# tables of sessions, memory for them. Existing connections keep working.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"
# shellcheck source=test/lab/lib/crowd.sh
. "$HERE/lib/crowd.sh"

PORTS=2 # for masquerading: of two, all are tried (MK_NAT_PROBES)
ESTABLISHED_MIN=1024 # entries, two per connection: the smallest sessionTableSize
LIMIT_MIB=192 # for the agent: it takes some 40, and the verifier more; a table of 16777216 entries takes 256
SLEEPERS=()
declare -A PIPES=()

explain() { lab log node1 | tail -n 8; on node1 "$MK_BIN" drops || true; }

limits_lab_up()
{
	MK_AGENT_FLAGS="--nat-port-range 60000-$((60000 + PORTS - 1))" lab up 1
	lab pod node1 client >/dev/null
	lab pod node1 web >/dev/null
	serve web web --tcp 8080
	serve world world --tcp 8080 --tcp 8081
	service_yaml web web $VIP "{port: 80, targetPort: 8080}" | apply services
	wait_for 10 ask client tcp "$VIP:80"
	hold service client "$VIP:80"
}

# ---- ports

metric() { on node1 curl -sg http://127.0.0.1:10249/metrics | sed 's|family="IPv[46]",\?||; s|{}||' | grep -F "$1" | awk '{ sum += $NF } END { print sum + 0 }'; }
metric_is() { expect_eq "$1" "$2" "$(metric "$1")"; }

# Open connections use all ports towards one destination: the next one there is dropped.
ports_run_out()
{
	expect_status 4 ask client tcp "$FAR:8080" --timeout 1
	(($(drop_count node1 NAT_PORTS_EXHAUSTED) > 0)) || { echo "no drop for that reason"; return 1; }
	(($(metric 'monokube_dropped_packets_total{reason="nat_ports_exhausted"') > 0)) || { echo "no metric of it"; return 1; }
	wait_for 40 metric_is 'monokube_nat_ports_used ' "$PORTS" # as of the last sweep
}

ports_come_back()
{
	crowd_ends ports
	wait_for 60 ask client tcp "$FAR:8080" --timeout 1
}

# ---- sizes

entries_of() { on node1 bpftool -j map show pinned "$PINS/$1" | jq .max_entries; }

# The old connection exchanges line number $1, and a new one works.
held_and_new()
{
	echo >&"${PIPES[service]}"
	wait_for 20 holds service "$1"
	wait_for 10 ask client tcp "$VIP:80" --timeout 1
}

restart_with()
{
	lab agent stop node1
	MK_AGENT_FLAGS=$1 lab agent start node1
}

# Its session exists before its next packet, which would otherwise open a new session to the only
# endpoint.
held_is_known()
{
	local port
	port=$(awk 'NR == 1 { print $3 }' "$TMP/service.out")
	expect_match "sessions of port $port" ":$port .*established" "$(on node1 "$MK_BIN" sessions ":$port")"
}

# resized FLAGS ESTABLISHED NEW LINE
resized()
{
	restart_with "$1"
	expect_eq "entries of four maps" "$2 $3 $2 $3" "$(entries_of sessions) $(entries_of sessions_young) $(entries_of nat_sessions) $(entries_of nat_sessions_young)"
	held_is_known
	held_and_new "$4"
}

# The agent logs it once, and connections beyond the table's capacity work too.
established_full()
{
	local start
	start=$(log_size)
	crowd many client hold "$((ESTABLISHED_MIN / 2 + 20))" "$VIP:80"
	wait_for 30 logged "$start" "^warn table 'sessions' is full: .*raise sessionTableSize entries=[0-9]+ limit=$ESTABLISHED_MIN"
	expect_match "of those connections" '^held ([0-9]+) of \1,' "$(crowd_ends many)"
	wait_for 60 logged "$start" "^info table 'sessions' has free entries again entries=[0-9]+ limit=$ESTABLISHED_MIN"
	expect_eq "times it was said" 1 "$(logged "$start" "is full" | wc -l)"
}

# ---- memory

# A control group of the memory controller, of either version: its directory and its limit's file
memory_group()
{
	if grep -qw memory /sys/fs/cgroup/cgroup.controllers 2>/dev/null; then
		grep -qw memory /sys/fs/cgroup/cgroup.subtree_control || echo +memory >/sys/fs/cgroup/cgroup.subtree_control
		echo "/sys/fs/cgroup/$MK_LAB" memory.max
	else
		echo "/sys/fs/cgroup/memory/$MK_LAB" memory.limit_in_bytes
	fi
}

group_gone() { [[ ! -d $1 ]] || rmdir "$1"; }

# Only the agent is in the group: other processes would be killed while the kernel tries. A node has
# its own /sys, so the group is found by this process's.
limited_agent()
{
	cat >"$TMP/limited" <<-END
		#!/bin/sh
		echo \$\$ >/proc/$$/root$1/cgroup.procs
		exec $MK_BIN "\$@"
	END
	chmod +x "$TMP/limited"
	echo "$TMP/limited"
}

# The table takes memory until the group is at its limit. If another thread of the agent needs a
# page at that instant, the kernel kills a process of the group: these first, the agent last.
sleepers()
{
	while ((${#SLEEPERS[@]} < 16)); do
		sleep 600 &
		SLEEPERS+=($!)
		echo $! >"$1/cgroup.procs"
		echo 1000 >"/proc/$!/oom_score_adj"
	done
}

no_memory()
{
	local group limit start status=0
	read -r group limit < <(memory_group)
	mkdir "$group"
	echo "${LIMIT_MIB}M" >"$group/$limit"
	sleepers "$group"
	start=$(log_size)
	MK_BIN=$(limited_agent "$group") restart_with '--session-table-size 16777216' &&
		logged "$start" "refuses map 'sessions' of 16777216 entries .256 MiB at once, [0-9]+ MiB when full.: .*lower sessionTableSize.*tables stay as large as they are" &&
		expect_eq "entries" 4096 "$(entries_of sessions)" &&
		held_is_known && held_and_new "$1" || status=1
	lab agent stop node1 || status=1
	kill "${SLEEPERS[@]}" || true
	wait_for 10 group_gone "$group"
	return $status
}

limits_lab_up
crowd ports client hold "$PORTS" "$FAR:8080"
check "all source ports towards one place are taken: a drop, with its reason, and a metric" ports_run_out
check "... another place has its own" ask client tcp "$FAR:8081"
check "... and they come back when the connections have ended" ports_come_back
check "tables become smaller: a connection that is there goes on" resized \
	"--session-table-size $ESTABLISHED_MIN --new-session-table-size 1024" "$ESTABLISHED_MIN" 1024 2
check "established ones fill their table: the agent says so, which setting to raise, and when there is room again" established_full
check "... and larger" resized '--session-table-size 4096 --new-session-table-size 2048' 4096 2048 3
check "no memory for a table: the agent says which, and goes on with the one that is there" no_memory 4
finish
