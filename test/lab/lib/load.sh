# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/load.sh - long connections of TCP and UDP during an event (test/chaos/load.py), and
# attempts that must not be answered (test/chaos/denied.py).

LOAD=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../chaos/load.py")
DENIED=$(dirname "$LOAD")/denied.py

# in_background FILE COMMAND...: until it runs. FILE is empty before: the background may be late, and an
# earlier load of the same name says `running`, too.
in_background()
{
	: >"$1"
	"${@:2}" >>"$1" 2>&1 </dev/null &
	wait_for 10 grep -q running "$1"
}

# load NAME WHERE ADDRESS...: until stop_load; broken connections and losses are in $TMP/load.NAME
load()
{
	local name=$1 where=$2
	shift 2
	in_background "$TMP/load.$name" on "$where" "$LOAD" "$@"
}

# denied NAME WHERE ADDRESS...: until stop_denied; answers are in $TMP/denied.NAME
denied()
{
	local name=$1 where=$2
	shift 2
	in_background "$TMP/denied.$name" on "$where" "$DENIED" "$@"
}

# have_ended WORD FILE...: each has its last line; shows the ends of those that have not
have_ended()
{
	local files
	mapfile -t files < <(grep -L "^$1" "${@:2}")
	((${#files[@]} == 0)) || { tail -n 5 "${files[@]}"; return 1; }
}

# is_of_lab PID: `ip netns identify` fails if another lab removes a network namespace meanwhile
is_of_lab()
{
	local netns
	for netns in /run/netns/"$MK_LAB".*; do
		[[ ! $netns -ef /proc/$1/ns/net ]] || return 0
	done
	return 1
}

# end_all PROGRAM: those of this lab. One that ends meanwhile has no network namespace.
end_all()
{
	local pid
	for pid in $(pgrep -f "$1" || true); do
		! is_of_lab "$pid" || kill "$pid"
	done
}

stop_load()
{
	end_all "$LOAD"
	wait_for 30 have_ended datagrams "$TMP"/load.*
}

stop_denied()
{
	end_all "$DENIED"
	wait_for 30 have_ended denied "$TMP"/denied.*
}
