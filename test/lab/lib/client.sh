# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/client.sh - shared by everything that drives a lab: a lab that is removed when the
# script ends, expectations, bounded waits, servers and clients.
set -euo pipefail

HERE=$(dirname "$(realpath "${BASH_SOURCE[0]}")")/..
export MK_LAB=${MK_LAB:-$(basename "$0" .sh | tr '_' '-')-$$}
export MK_BIN=${MK_BIN:-$HERE/../../build/monokube}
TMP=$(mktemp -d "/tmp/monokube-$MK_LAB.XXXXXX")

FAMILY=${MK_LAB_FAMILY:-4}
FAMILY=${FAMILY:0:1} # of the lab's cluster, the primary one: 4 or 6

# in_family TEXT: with the addresses that the lab has, if its cluster is of IPv6. Tests write
# addresses as dotted quads; lab, on, apply, expect_eq and expect_match translate them: a.b.c.d
# becomes fd00:a:b:c::d with d in hexadecimal, the nodes' network 192.168.99.0/24 becomes fd00:99::
# (192.168.101.0/24 of site 1 becomes fd00:101::),
# VTEPs become fd4d:4b00:12::, 203.0.113.0/24 becomes 2001:db8::, 127.0.0.0/8 becomes ::1. Brackets
# are put around an address if a port follows.
QUAD='([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})(/[0-9]+)?(:[0-9]+)?'
in_family()
{
	local text=$1 found by
	while [[ $FAMILY == 6 && $text =~ (^|[^0-9.])($QUAD)($|[^0-9.]) ]]; do
		found=${BASH_REMATCH[2]}
		by=$(address6 "${BASH_REMATCH[@]:3:4}")$(prefix6 "${BASH_REMATCH[7]}" "$found")
		[[ ! ${BASH_REMATCH[8]} ]] || by="[$by]${BASH_REMATCH[8]}"
		text=${text/"$found"/$by}
	done
	echo "$text"
}

address6()
{
	case $1.$2.$3 in
	127.*) echo ::1 ;;
	192.168.99 | 192.168.10[1-9]) echo "fd00:$3::${4#0}" ;;
	203.0.113) echo "2001:db8::${4#0}" ;;
	10.18.*) echo "fd4d:4b00:12::${4#0}" ;;
	*.0.0) echo "fd00:$1::$(last6 "$4")" ;;
	*.0) echo "fd00:$1:$2::$(last6 "$4")" ;;
	*) echo "fd00:$1:$2:$3::$(last6 "$4")" ;;
	esac
}
last6() { [[ $1 == 0 ]] || printf %x "$1"; }

# prefix6 /BITS QUAD
prefix6()
{
	case $2 in
	*/32) echo /128 ;;
	192.168.99.* | 192.168.10[1-9].* | 10.18.* | 203.0.113.* | */24) [[ ! $1 ]] || echo /64 ;;
	*/16) echo /48 ;;
	*/8) echo /32 ;;
	*/*) echo "/$((96 + ${1#/}))" ;;
	esac
}

by_family() { if [[ $FAMILY == 4 ]]; then echo "$1"; else echo "$2"; fi; } # IPV4 IPV6

# run_in_family COMMAND ARGS...: with the addresses in ARGS translated
run_in_family()
{
	local arg words=()
	for arg in "$@"; do
		[[ $FAMILY == 4 || ! $arg =~ $QUAD ]] || arg=$(in_family "$arg")
		words+=("$arg")
	done
	"${words[@]}"
}

# with_port ADDRESS PORT: with brackets around an IPv6 address; url: for curl
with_port() { if [[ $1 == *:* ]]; then echo "[$1]:$2"; else echo "$1:$2"; fi; }
url() { echo "http://$(with_port "$1" "$2")"; }

# Addresses of the lab, and of the Service web that many tests have
# shellcheck disable=SC2034 # read by the tests
if [[ $FAMILY == 4 ]]; then
	NODE1=192.168.99.11 NODE2=192.168.99.12 WORLD=192.168.99.200 FAR=203.0.113.10 VIP=10.96.66.1
	LOCALHOST=127.0.0.1 BITS=32 NODAD="" PINS=/sys/fs/bpf/monokube/maps
else
	NODE1=fd00:99::11 NODE2=fd00:99::12 WORLD=fd00:99::200 FAR=2001:db8::10 VIP=fd00:10:96:66::1
	LOCALHOST=::1 BITS=128 NODAD=nodad PINS=/sys/fs/bpf/monokube/ipv6/maps
fi

lab() { run_in_family "$HERE/lab" "$@"; }
on() { run_in_family "$HERE/lab" exec "$@"; }
# In the background, a signal would reach only the function: there, call env ip.
ip() { run_in_family command ip "$@"; }

# forward_in WHERE: it becomes a router
forward_in()
{
	on "$1" sysctl -qw "$(by_family net.ipv4.ip_forward net.ipv6.conf.all.forwarding)=1"
}

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
	local expected
	expected=$(in_family "$2")
	[[ $expected == "$3" ]] || {
		printf '%s: expected %s\n%*s  seen     %s\n' "$1" "$expected" "${#1}" '' "$3"
		return 1
	}
}

expect_match()
{
	local expected
	expected=$(in_family "$2")
	[[ $3 =~ $expected ]] || {
		printf '%s: expected a match of %s\n%*s  seen %s\n' "$1" "$expected" "${#1}" '' "$3"
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

# wait_for SECONDS COMMAND...: repeat until it succeeds; show its last output if it never does. A
# long wait asks less often: labs share the processors.
wait_for()
{
	local deadline=$((SECONDS + $1)) bound=$1 times=0
	shift
	until "$@" >"$TMP/wait" 2>&1; do
		((SECONDS < deadline)) || {
			echo "still not after $bound s: $*"
			cat "$TMP/wait"
			explain_setup
			return 1
		}
		if ((times++ < 20)); then sleep 0.05; else sleep 0.3; fi
	done
}

# Outside of check, which explains what failed: the setup's drops and logs.
explain_setup()
{
	[[ ! ${IN_CHECK:-} ]] || return 0
	[[ $(type -t explain) != function ]] || explain
	tail -n 15 "/run/mklab-$MK_LAB"/nodes/*/agent.log || true
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
