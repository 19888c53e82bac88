# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/observe.sh - observe an agent: its log, its tables and routes, and connections that
# stay open meanwhile.

log_size() { lab log node1 | wc -c; }
# logged START REGEX: node1's agent has logged it since log_size() was START
logged() { lab log node1 | tail -c "+$1" | grep -E "$(in_family "$2")"; }

# map_entries NODE MAP: of map pods, an array, count the used slots.
map_entries()
{
	on "$1" bpftool -j map dump pinned "$PINS/$2" |
		jq -S -c --arg map "$2" '.[] | {key, value} | select($map != "pods" or .value[12:16] != ["0x00", "0x00", "0x00", "0x00"])' |
		sort
}

# backend_entries NODE SETS: entries of these backend sets, given as [id, generation] bytes. A
# replaced set stays for a while, for sessions that have begun, but belongs to no Service.
backend_entries()
{
	local map
	for map in service_backends maglev; do
		echo "map $map"
		map_entries "$1" "$map" | jq -c --argjson sets "$2" 'select(.key[0:8] | IN($sets[]))'
	done
}

# no_replaced_backends NODE: the replaced sets of the last changes have been removed. An agent that
# is stopped earlier leaves them to the next one.
no_replaced_backends()
{
	local sets map
	sets=$(map_entries "$1" frontends | jq -s -c 'map(.value[0:8]) | unique')
	for map in service_backends maglev; do
		map_entries "$1" "$map" |
			jq -e -s --argjson sets "$sets" 'all(.[]; .key[0:8] | IN($sets[]))' >/dev/null || return 1
	done
}

# replaced_backends_go NODE: with a pass of the sweep, every 15 s on a calm node
replaced_backends_go() { wait_for 25 no_replaced_backends "$1"; }

# bpftool's bytes, "0x0a"
JQ_NUMBER='def number: explode[2:] | map(if . > 57 then . - 87 else . - 48 end) | .[0] * 16 + .[1]; '

# routes_in_use NODE: without routes to addresses that Services have released. These are removed
# when the sweep has seen that no flow needs them, between two tests or during one.
routes_in_use()
{
	local addresses
	addresses=$(map_entries "$1" frontends |
		jq -s -c "$JQ_NUMBER"'map(.key[0:4] | map(number) | join("."))')
	on "$1" ip -j route | jq -c --argjson addresses "$addresses" '.[] | select((.dev != "mkhost0") or
		(.dst | contains("/")) or (.dst | IN($addresses[])))' | sort
}

# The contents of a node's tables without sessions, which depend on traffic, not on the agent.
tables()
{
	local map
	for map in frontends pods routes; do
		echo "map $map"
		map_entries "$1" "$map"
	done
	backend_entries "$1" "$(map_entries "$1" frontends | jq -s -c 'map(.value[0:8]) | unique')"
	routes_in_use "$1"
	on "$1" sh -c 'ip neigh show nud permanent; bridge fdb show dev mkvxlan; ip -4 -o addr show | sed "s/ valid_lft.*//"' | sort
}

# service_tables NODE ADDRESS: every entry of the Service with this address, including its node port
# and backends. They have its id and its generation, which each change of backends increases.
service_tables()
{
	local sets
	sets=$(map_entries "$1" frontends | jq -s -c --arg address "$2" \
		"$JQ_NUMBER"'($address | split(".") | map(tonumber)) as $want |
		 map(select(.key[0:4] | map(number) == $want) | .value[0:8]) | unique')
	expect_match "sets of backends of the Service at $2" '0x' "$sets"
	map_entries "$1" frontends | jq -c --argjson sets "$sets" 'select(.value[0:8] | IN($sets[]))'
	backend_entries "$1" "$sets"
}

# hold NAME WHERE ADDRESS:PORT [PROTO ARGS...]: a connection that prints one line per line written to
# its pipe; ARGS are of `ask`
hold()
{
	rm -f "$TMP/$1.in"
	mkfifo "$TMP/$1.in"
	on "$2" "$HERE/echo.py" ask "${4:-tcp}" "$(in_family "$3")" --hold --timeout 20 "${@:5}" <"$TMP/$1.in" >"$TMP/$1.out" 2>&1 &
	exec {pipe}>"$TMP/$1.in"
	PIPES[$1]=$pipe
	wait_for 20 holds "$1" 1
}
holds() { expect_eq "lines of connection $1 ($(tail -n 1 "$TMP/$1.out"))" "$2" "$(grep -c '^[a-z0-9-]* [0-9a-f]' "$TMP/$1.out")"; }

# pulse N: each connection makes its exchange number N
pulse()
{
	local name
	for name in "${!PIPES[@]}"; do
		echo >&"${PIPES[$name]}"
	done
	for name in "${!PIPES[@]}"; do
		wait_for 20 holds "$name" "$1"
	done
}

# exchange NAME N: the connection makes its exchange number N
exchange() { echo >&"${PIPES[$1]}"; wait_for 20 holds "$1" "$2"; }

# stands NAME N NODE REASON: N exchanges are done, a further one is asked for and does not come, and
# NODE counts a drop of REASON
stands()
{
	local before
	before=$(drop_count "$3" "$4")
	echo >&"${PIPES[$1]}"
	wait_for 10 dropped_since "$3" "$4" "$before"
	holds "$1" "$2"
}
dropped_since() { (($(drop_count "$1" "$2") > $3)); }

# lose_boot NODE: remove state that does not survive a boot. The lab keeps the node's own devices,
# so state on them is removed by hand.
lose_boot()
{
	on "$1" sh -e -c '
		for device in $(ip -o link | grep -oE "mk[a-z0-9]+" | grep -v mkhost1 | sort -u); do
			ip link del "$device" 2>/dev/null || true
		done
		tc qdisc del dev eth0 clsact
		tc qdisc del dev lo clsact
		rm -r /sys/fs/bpf/monokube
		sysctl -qw net.ipv4.ip_forward=0 net.ipv4.ip_local_reserved_ports='
}
