# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/client.sh - shared by everything that drives a lab: a lab that is removed when the
# script ends, expectations, bounded waits, servers and clients.
set -euo pipefail

HERE=$(dirname "$(realpath "${BASH_SOURCE[0]}")")/..
export MK_LAB=${MK_LAB:-$(basename "$0" .sh | tr '_' '-')-$$}
export MK_BIN=${MK_BIN:-$HERE/../../build/monokube}
TMP=$(mktemp -d "/tmp/monokube-$MK_LAB.XXXXXX")

# Addresses of the lab, and of the Service web that many tests have
# shellcheck disable=SC2034 # read by the tests
NODE1=192.168.99.11 NODE2=192.168.99.12 WORLD=192.168.99.200 FAR=203.0.113.10 VIP=10.96.66.1

lab() { "$HERE/lab" "$@"; }
on() { "$HERE/lab" exec "$@"; }

cleanup()
{
	local pid
	for pid in $(jobs -p); do
		kill "$pid" 2>/dev/null || true
	done
	lab down
	rm -rf "$TMP"
}
trap cleanup EXIT

expect_eq()
{
	[[ $2 == "$3" ]] || {
		printf '%s: expected %s\n%*s  seen     %s\n' "$1" "$2" "${#1}" '' "$3"
		return 1
	}
}

expect_match()
{
	[[ $3 =~ $2 ]] || {
		printf '%s: expected a match of %s\n%*s  seen %s\n' "$1" "$2" "${#1}" '' "$3"
		return 1
	}
}

# expect_status N CMD...: CMD ends with N.
expect_status()
{
	local expected=$1 status=0
	shift
	"$@" || status=$?
	expect_eq "exit status of '$*'" "$expected" "$status"
}

expect_failure()
{
	! "$@" || {
		echo "'$*' succeeded, expected a failure"
		return 1
	}
}

# wait_for SECONDS COMMAND...: repeat until it succeeds; show its last output if it never does.
wait_for()
{
	local deadline=$((SECONDS + $1)) bound=$1
	shift
	until "$@" >"$TMP/wait" 2>&1; do
		((SECONDS < deadline)) || {
			echo "still not after $bound s: $*"
			cat "$TMP/wait"
			return 1
		}
		sleep 0.05
	done
}

# serve WHERE NAME ARGS...: run echo.py in the lab until the lab is removed; returns when it
# listens.
serve()
{
	local where=$1 name=$2 out
	shift 2
	out=$(mktemp "$TMP/serve.XXXXXX")
	on "$where" "$HERE/echo.py" serve --name "$name" "$@" >"$out" 2>&1 </dev/null &
	wait_for 10 grep -q serving "$out"
}

# ask WHERE PROTO ADDRESS:PORT ARGS...: prints `SERVER PEER PORT` per answer, or one word.
ask()
{
	local where=$1
	shift
	on "$where" "$HERE/echo.py" ask "$@"
}

# drop_count NODE REASON: packets dropped by the node's datapath for REASON, over all hooks
drop_count()
{
	on "$1" "$MK_BIN" drops | awk -v reason="$2" '$1 == reason { packets += $3 } END { print packets + 0 }'
}
