#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_start.sh - starts with 10,000 Services of ten endpoints each: /livez answers all the
# time, no turn of the event loop is long, and a restart is ready soon after its lists. Times are
# CPU times, because the machine may be busy.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

PERF=$HERE/../../perf
NODE=/run/mklab-$MK_LAB/nodes/node1
# Of processor time: 25 and 150 on a quiet machine, 72 and 280 on a loaded one. All in one turn took 1,070.
TURN_MS=300 AFTER_LISTS_MS=900

explain() { grep -a -v "^debug Service applied" "$TMP/agent.log" | tail -n 20; }
end_all()
{
	local pid
	for pid in $(jobs -p); do
		kill "$pid" 2>/dev/null || true
	done
}
trap 'end_all; lab down >/dev/null 2>&1 || true; rm -rf "$TMP"' EXIT

on_world() { ip netns exec "$MK_LAB.world" "$@"; }
lists() { on_world "$PERF/scale_control.py" "$TMP/api" lists "$TMP/lists" "$TMP/fifo"; }
lives() { expect_eq "GET /livez" 200 "$(on node1 curl -s --noproxy '*' --max-time 10 -o /dev/null -w '%{http_code}' http://127.0.0.1:10256/livez)"; }
metric() { on node1 curl -s --noproxy '*' http://127.0.0.1:10249/metrics | awk -v name="$1" '$1 == name { print $2 }'; }
is_ready() { grep -a -q '^info ready ' "$TMP/agent.log"; }
ready_value() { sed -nE "s/^info ready .*\\b$1=([0-9]+).*/\\1/p" "$TMP/agent.log"; }

start_lab()
{
	lab up 1
	lab agent stop node1
	mkfifo "$TMP/fifo"
	"$PERF/scale_control.py" "$TMP/api" nodes "$NODE/cluster" >"$TMP/nodes.json"
	cat >"$TMP/ranges.json" <<-END
		{"kind": "ServiceCIDRList", "apiVersion": "networking.k8s.io/v1", "metadata": {"resourceVersion": "2"}, "items": [
		 {"metadata": {"name": "kubernetes", "uid": "00000000-0000-4000-8000-000000000001", "resourceVersion": "2"},
		  "spec": {"cidrs": ["10.128.0.0/12"]}}]}
	END
	"$PERF/scale_lists.py" --services 10000 --endpoints 10 --changes 1 --out "$TMP/lists"
	on_world "$HERE/../wire/apiserver" --dir "$TMP/api" --address 192.168.99.200 --load "$TMP/nodes.json" \
		--load "$TMP/ranges.json" 2>"$TMP/apiserver.log" &
	wait_for 30 test -e "$TMP/api/ready"
}

# Sets AGENT. /livez is asked from its first answer until the agent is ready.
start_agent()
{
	local answers=0
	lists
	nsenter --net="/run/netns/$MK_LAB.node1" --mount="$NODE/mnt" --wd=/ -- "$(realpath "$HERE/../../build/monokube")" agent \
		--node-name node1 --kubeconfig "$TMP/api/kubeconfig" --cluster-cidr 10.244.0.0/16 \
		--vtep-cidr 10.18.0.0/16 --log-level debug >"$TMP/agent.log" 2>&1 &
	AGENT=$!
	wait_for 20 lives
	SECONDS=0
	until is_ready; do
		lives
		answers=$((answers + 1))
		((SECONDS < 120)) || return 1
	done
	echo "# $answers answers" >&2
	((answers > 0))
}
stop_agent()
{
	kill "$AGENT"
	wait "$AGENT" || true
}
most_cpu_ms() { metric monokube_loop_most_cpu_of_turn_seconds | awk '{ print int($1 * 1000) }'; }
# started: from start until ready, then stop; sets MOST_CPU_MS
started()
{
	start_agent
	MOST_CPU_MS=$(most_cpu_ms)
	stop_agent
	echo "# ready $(ready_value afterListsMs) ms after its lists, $(ready_value cpuMs) ms of CPU time; most of one turn: $MOST_CPU_MS ms" >&2
}

first_start()
{
	started
	expect_eq "Services" 10000 "$(ready_value services)"
	((MOST_CPU_MS < TURN_MS))
}

restart()
{
	started
	grep -a 'none is loaded' "$TMP/agent.log"
	expect_eq "entries written" 0 "$(ready_value writes)"
	((MOST_CPU_MS < TURN_MS))
	(($(ready_value cpuMs) <= AFTER_LISTS_MS))
}

check "setup" start_lab
check "the first start with 10,000 Services: /livez answers, no long turn" first_start
check "a restart with 10,000 Services: /livez answers, no long turn, ready soon after its lists" restart
finish
