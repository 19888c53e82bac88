#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_clock.sh - an API server whose clock differs from the node's: the agent sees it in the
# Date of the answers, and the command line reports it without a request.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"

STATE=/var/lib/monokube

mk() { on node1 "$MK_BIN" "$@"; }
clocks() { { mk check -o json || true; } | jq -r '.[] | select(.check == "clock") | "\(.ok) \(.says) -> \(.remedy)"'; }
says() { clocks | grep -E "$1"; }

# server_clock SECONDS: the server's clock is ahead by this, from the agent's next answers on
server_clock()
{
	local dir=/run/mklab-$MK_LAB/api
	ip netns exec "$MK_LAB.api" curl -sS --fail --noproxy '*' --cacert "$dir/ca.crt" --cert "$dir/admin.crt" \
		--key "$dir/admin.key" -d "{\"clock_s\": $1}" -o /dev/null https://192.168.99.100:6443/standin/settings
}
agent_anew() { lab agent stop node1; lab agent start node1; }
ahead() { on node1 curl -sf http://127.0.0.1:10249/metrics | awk '/^monokube_api_clock_ahead_seconds / { print $2 }'; }
between() { awk -v a="$1" -v low="$2" -v high="$3" 'BEGIN { exit !(a >= low && a <= high) }' || expect_eq "seconds ahead" "$2 to $3" "$1"; }

the_same()
{
	wait_for 20 says "^true within 10 s of the API server's -> null"
	between "$(ahead)" -2 2
	mk status >/dev/null
}

behind()
{
	local start
	start=$(log_size)
	server_clock 3600
	agent_anew
	wait_for 20 says "^false this node's is 3(59[0-9]|600) s behind the API server's -> run chrony"
	between "$(ahead)" 3590 3600
	expect_match "log" "this node's clock is 3(59[0-9]|600) s behind the API server's" "$(logged "$start" 'clock')"
	expect_status 1 mk check
	expect_status 1 mk status
	expect_match "status" 'clock: this node.s is' "$(mk status || true)"
	lab agent stop node1
	says "^false this node's is 3(59[0-9]|600) s behind"
	lab agent start node1
}

before()
{
	server_clock -60
	agent_anew
	wait_for 20 says "^false this node's is (5[0-9]|60) s ahead of the API server's"
	between "$(ahead)" -60 -50
	server_clock 0
	agent_anew
	wait_for 20 says '^true within 10 s'
}

# A file of an earlier boot is ignored.
other_boot()
{
	lab agent stop node1
	on node1 sed -i 's/^boot_id=.*/boot_id=another/; s/^earliest_ms=.*/earliest_ms=5/; s/^latest_ms=.*/latest_ms=6/' "$STATE/api.clock"
	says '^true no API server has told the agent its time: not compared'
	lab agent start node1
	wait_for 20 says '^true within 10 s'
}

lab up 1 --api
wait_for 30 mk status
check "the same time" the_same
check "the server's clock is ahead of the node's" behind
check "the server's clock is behind the node's, and right again" before
check "what an earlier boot wrote down" other_boot
finish
