#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_time_wait.sh - short connections of several clients to a NodePort. The server closes
# them and remembers each for 60 s (TIME-WAIT). It must not get another client's connection from the
# same port of the virtual pod address in that time.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

COUNT=300 # connections of each client, from the same ports
SWEPT_S=28 # a session that is over for 10 s is removed by then: passes begin 15 s apart

time_wait_lab_up()
{
	local client
	lab up 2
	lab pod node2 web-2 >/dev/null
	for client in {101..108}; do
		on world ip addr add "203.0.113.$client/32" dev lo
	done
	on web-2 "$HERE/time_wait.py" serve 8080 >"$TMP/server" 2>&1 &
	wait_for 10 grep -q serving "$TMP/server"
	service_yaml web web $VIP "{port: 80, targetPort: 8080, nodePort: 30080}" | apply services
	wait_for 10 connects 203.0.113.101 40000 1
}

connects()
{
	expect_eq "connections of $1" "opened $3" "$(on world "$HERE/time_wait.py" ask "$1" "$NODE1:30080" "$2" "$3")"
}

# Before Linux 6.13 PAWSTimewait is part of PAWSEstab.
refused() { on web-2 nstat -asz 'TcpExtPAWS*' | awk '/^TcpExtPAWS/ { sum += $2; seen = 1 } END { print seen ? sum : "no counter" }'; }

all_connect()
{
	local client
	for client in "$@"; do
		connects "203.0.113.$client" 20000 "$COUNT"
	done
}

time_wait_lab_up
check "four clients connect $COUNT times each" all_connect {101..104}
sleep "$SWEPT_S"
check "four others connect as often, from the same ports" all_connect {105..108}
check "the server took none of them for an earlier one" expect_eq "refused for their timestamps" 0 "$(refused)"
finish
