# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/later.sh - a later version of monokube takes node1 over: the build whose sessions are
# longer (`make ENLARGED=1`), or MK_LATER.
LATER=${MK_LATER:-$(realpath -m "$HERE/../../build/enlarged/monokube")}
[[ -x $LATER ]] || {
	echo "'$LATER' is not there; build it with \`make ENLARGED=1\`" >&2
	exit 1
}

later() { MK_BIN=$LATER lab "$@"; }
agent_runs() { lab status | grep -E '^ +node1 .* agent [0-9]+' >/dev/null; }

# later_is_killed CHECK DELAY...: the later version starts, and is killed after each DELAY; CHECK
# holds each time. The delays only vary the place.
later_is_killed()
{
	local delay
	lab agent stop node1
	for delay in "${@:2}"; do
		later agent start node1 >/dev/null 2>&1 &
		wait_for 10 agent_runs
		sleep "$delay"
		lab agent kill node1
		wait $! || true
		"$1"
	done
}
