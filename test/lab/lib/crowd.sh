# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/crowd.sh - many connections at once: crowd.py, between places that a test chooses.
declare -A CROWD_PIPES=()

# crowd NAME WHERE WORD ARGS...: run crowd.py until crowd_ends
crowd()
{
	local name=$1 where=$2
	shift 2
	rm -f "$TMP/$name.in" # of one that failed
	mkfifo "$TMP/$name.in"
	on "$where" "$HERE/crowd.py" "$@" <"$TMP/$name.in" >"$TMP/$name.out" 2>&1 &
	exec {pipe}>"$TMP/$name.in"
	CROWD_PIPES[$name]=$pipe
	wait_for 30 grep -qE '^(holding|opening)' "$TMP/$name.out"
}

# crowd_ends NAME: end it and print its report
crowd_ends()
{
	echo end >&"${CROWD_PIPES[$1]}"
	wait_for 60 grep -qE '^(held|opened)' "$TMP/$1.out"
	rm "$TMP/$1.in"
	tail -n +2 "$TMP/$1.out"
}
