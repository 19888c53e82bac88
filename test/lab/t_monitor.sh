#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_monitor.sh - `monokube monitor`: its output for real traffic, its filters, and that it
# leaves nothing behind, however it ends.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

VIP=$(in_family 10.96.46.1) EMPTY=$(in_family 10.96.46.3)
ICMP=$(by_family ICMP ICMPv6)

monitor_lab_up()
{
	lab up 2
	{
		service_yaml web web "$VIP" "{port: 80, targetPort: 8000}"
		service_yaml empty nobody "$EMPTY" "{port: 80}"
	} | apply services
	CLIENT=$(lab pod node1 client)
	OTHER=$(lab pod node1 other)
	WEB=$(lab pod node2 web)
	WEB_8000=$(with_port "$WEB" 8000) VIP_80=$(with_port "$VIP" 80)
	serve_http web "$TMP"
	wait_for 10 ask client
	wait_for 10 are_named
}
# Programs know a Service before its name is written to the file, once a second.
are_named() { mk services | grep -q default/web && mk services | grep -q default/empty; }

mk() { on node1 "$MK_BIN" "$@"; }
ask() { on "$1" curl -sfg --max-time 1 "$(url "$VIP" 80)/" -o /dev/null; }
ping_other() { on client ping -c 1 -W 5 "$OTHER" >/dev/null; }
ping_outside() { on "$1" ping -c 1 -W 5 203.0.113.10 >/dev/null; }
ask_nobody() { on client ping -c 1 -W 1 10.244.1.200 >/dev/null || true; }
ask_empty() { on client curl -sfg --max-time 1 "$(url "$EMPTY" 80)/" -o /dev/null || true; }

# Which program a slot of the chain holds: slot 0 the router or the monitor; slot 4 the router.
slot() { on node1 bpftool -j map lookup pinned "$PINS/chain" key "$1" 0 0 0 | jq -c .value; }
# Do packets for local pods also pass there (mk_runtime.monitored)?
flag() { on node1 bpftool -j map lookup pinned "$PINS/runtime" key 0 0 0 0 | jq -r '.value[6]'; }
is_monitored() { [[ $(slot 0) != "$(slot 4)" && $(flag) == 0x01 ]]; }
is_not_watched() { [[ $(slot 0) == "$(slot 4)" && $(flag) == 0x00 ]]; }

# watch FILE ARGS...: in the background, as process MONITOR; returns when it sees packets.
watch()
{
	rm -f "$TMP/pid"
	on node1 sh -c 'echo $$ >"$1" && shift && exec "$@"' - "$TMP/pid" "$MK_BIN" monitor "${@:2}" \
		>"$TMP/$1" 2>"$TMP/$1.err" </dev/null &
	wait_for 10 test -s "$TMP/pid"
	MONITOR=$(<"$TMP/pid")
	[[ " ${*:2} " == *" --drops "* ]] && wait_for 10 reports_drops || wait_for 10 is_monitored
}
reports_drops() { on node1 bpftool -j map lookup pinned "$PINS/runtime" key 0 0 0 0 | jq -e '.value[0] == "0x01"' >/dev/null; }
end_watch()
{
	kill -INT "$MONITOR" 2>/dev/null || true
	wait_for 10 gone "$MONITOR"
}
gone() { ! kill -0 "$1" 2>/dev/null; }

# told FILE JQ: is there such an event in the output?
told() { jq -es "[.[] | select($2)] | length > 0" "$TMP/$1" >/dev/null 2>&1; }
expect_told() { wait_for 10 told "$@" || { cat "$TMP/$1" "$TMP/$1.err"; return 1; }; }
expect_not_told() { ! told "$@" || { cat "$TMP/$1"; return 1; }; }

flows()
{
	watch all -o json
	ask client
	ping_other
	ping_outside client
	ask_nobody
	ask_empty
	expect_told all '.from | contains("'"$CLIENT"'")'
	expect_told all '.verdict == "to-node" and .to == "'"$VIP_80"'" and .newTo == "'"$WEB_8000"'" and .hook == "pod"
		and .fromName == "pod default/client" and .service == "default/web" and .tcpFlags == "S" and .state == "new"'
	expect_told all '.verdict == "to-pod" and .fromName == "pod default/client" and .toName == "pod default/other" and .hook == "pod"'
	expect_told all '.verdict == "to-pod" and .from == "'"$WEB_8000"'" and .newFrom == "'"$VIP_80"'" and .hook == "overlay"
		and .tcpFlags == "SA"'
	expect_told all '.verdict == "to-outside" and .protocol == "'"$ICMP"'" and (.newFrom | contains("'"$NODE1"'"))'
	expect_told all '.verdict == "to-pod" and .hook == "uplink" and (.to | contains("'"$NODE1"'")) and (.newTo | contains("'"$CLIENT"'"))'
	expect_told all '.verdict == "dropped" and .reason == "NO_POD" and .fromName == "pod default/client" and .remedy != ""'
	expect_told all '.verdict == "dropped" and .reason == "REFUSED" and .service == "default/empty"'
	expect_told all '.time | test("^20[0-9-]*T[0-9:.]*Z$")'
	end_watch
	expect_eq "told on standard error" "" "$(<"$TMP/all.err")"
}

# One line each: fixed text, except for values of the moment.
text()
{
	local from
	from=$(with_port "$CLIENT" PORT)
	watch text --pod client --service web --protocol tcp
	ask client
	wait_for 10 test -s "$TMP/text"
	end_watch
	sed -i -E "s/^[^ ]+ /TIME /; s/:(3|4|5|6)[0-9]{4} /:PORT /g; s/dev=mk[^ ]+/dev=POD/; s/length=[0-9]+/length=N/" "$TMP/text"
	expect_eq "first line" "TIME to-node TCP $from > $VIP_80 as $from > $WEB_8000 service=default/web\
 state=new hook=pod dev=POD length=N flags=S from=\"pod default/client\" to=\"on node2\"" "$(head -n 1 "$TMP/text")"
}

# filtered ARGS... -- JQ: with these flags client's flow is reported, and nothing that JQ selects
filtered()
{
	local args=() not
	while [[ $1 != -- ]]; do args+=("$1") && shift; done
	not=$2
	watch some -o json "${args[@]}"
	ask other
	ping_outside other
	on other ping -c 1 -W 5 203.0.113.10 >/dev/null
	ask client
	expect_told some '.to == "'"$VIP_80"'" and .fromName == "pod default/client"'
	end_watch
	expect_not_told some "$not"
}

filters()
{
	filtered --pod client -- '.fromName == "pod default/other" or .toName == "pod default/other"'
	filtered --ip "$CLIENT" -- '.fromName == "pod default/other"'
	filtered --service default/web -- '.service != "default/web"'
	filtered --port 80 -- '.protocol == "'"$ICMP"'"'
	filtered --port 8000 --protocol tcp -- '.protocol == "'"$ICMP"'"'
}

drops_alone()
{
	watch drops -o json --drops
	is_not_watched
	ask client
	ask_nobody
	expect_told drops '.reason == "NO_POD"'
	end_watch
	expect_not_told drops '.verdict != "dropped"'
}

ends_by_itself()
{
	watch two -o json --pod client --count 2
	ask client
	ask client
	wait_for 10 gone "$MONITOR"
	expect_eq "events" 2 "$(wc -l <"$TMP/two")"
	is_not_watched
}

one_at_a_time()
{
	watch first -o json
	expect_status 1 mk monitor
	expect_match "message" "another .monokube monitor. or .monokube drops --follow. is running" "$(mk monitor 2>&1 || true)"
	expect_status 1 mk drops --follow
	end_watch
}

# Another process keeps a lock: the command waits some seconds, then reports it and its holder.
held_lock()
{
	on node1 flock /var/lib/monokube/runtime.lock sh -c 'echo $$; exec sleep 600' >"$TMP/holder" &
	wait_for 10 test -s "$TMP/holder"
	expect_status 1 on node1 timeout 60 "$MK_BIN" drops --follow >"$TMP/held" 2>&1
	kill "$(cat "$TMP/holder")"
	expect_match "message" "lock '/var/lib/monokube/runtime.lock' is held by pid [0-9]+, and was not released in time" "$(cat "$TMP/held")"
}

refuses()
{
	expect_status 1 mk monitor --pod nosuch
	expect_match "message" "no pod 'nosuch' on this node: .monokube pods. lists" "$(mk monitor --pod nosuch 2>&1 || true)"
	expect_status 1 mk monitor --service nosuch
	expect_status 1 mk monitor --ip nosuch
	expect_status 0 mk monitor --help
}

# A busy flow: the first packet and samples, not every one.
samples()
{
	local sent=200 told_
	watch sampled -o json --pod client --protocol icmp --sample 20
	on client ping -c $sent -i 0.002 -W 5 "$WEB" >/dev/null
	expect_told sampled '.sampled'
	end_watch
	told_=$(wc -l <"$TMP/sampled")
	((told_ <= 2 * sent / 20 + 2)) || expect_eq "events of $((2 * sent)) packets" "fewer" "$told_"
	expect_eq "firsts" 2 "$(jq -s '[.[] | select(.sampled | not)] | length' "$TMP/sampled")"
}

# The killed monitor cannot restore the chain: the agent does, and traffic continues meanwhile.
killed()
{
	watch killed -o json
	kill -KILL "$MONITOR"
	wait_for 10 gone "$MONITOR"
	ask client
	wait_for 60 is_not_watched
	ask client
}

without_agent()
{
	lab agent stop node1
	watch alone -o json
	ask client
	expect_told alone '.to == "'"$VIP_80"'"'
	# ... and while an agent starts, which loads the programs and the chain again
	lab agent start node1
	wait_for 20 told_again
	end_watch
	is_not_watched
}
told_again()
{
	on client ping -c 1 -W 1 10.244.1.201 >/dev/null || true
	on other ping -c 1 -W 1 "$WEB" >/dev/null
	told alone '.protocol == "'"$ICMP"'" and .fromName == "pod default/other"'
}

monitor_lab_up
check "flows and drops" flows
check "as text" text
check "filters" filters
check "drops alone" drops_alone
check "--count" ends_by_itself
check "one at a time" one_at_a_time
check "a lock that is held" held_lock
check "what it cannot" refuses
check "--sample" samples
check "killed: the agent ends it" killed
check "without an agent, and while one starts" without_agent
finish
