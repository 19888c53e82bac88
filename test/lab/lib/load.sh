# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/load.sh - long connections of TCP and UDP during an event (test/chaos/load.py).

LOAD=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../chaos/load.py")

# load NAME WHERE ADDRESS...: until stop_load; broken connections and losses are in $TMP/load.NAME
load()
{
	local name=$1 where=$2
	shift 2
	on "$where" "$LOAD" "$@" >"$TMP/load.$name" 2>&1 </dev/null &
	wait_for 10 grep -q running "$TMP/load.$name"
}

loads_have_ended() { ! grep -L datagrams "$TMP"/load.* | grep -q .; }

stop_load()
{
	local pid
	for pid in $(pgrep -f "$LOAD" || true); do
		[[ $(ip netns identify "$pid") != "$MK_LAB".* ]] || kill "$pid"
	done
	wait_for 10 loads_have_ended
}
