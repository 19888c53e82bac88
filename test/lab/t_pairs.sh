#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_pairs.sh - pairs of packets with forged source addresses, tables of the default size: a
# SYN, and after the server's answer a packet that pretends to end the handshake. No pair gets a
# slot or port that a client lacks, with and without an agent.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

PAIRS=100000
FLOODER=$(dirname "$MK_BIN")/test/lab/flood

explain()
{
	on node1 "$MK_BIN" drops || true
	lab log node1 | tail -n 5
}

pairs_lab_up()
{
	lab up 2
	lab pod node2 web-2 >/dev/null
	serve web-2 web-2 --tcp 8080
	service_yaml web web $VIP "{port: 80, targetPort: 8080, nodePort: 30080}" | apply services
	wait_for 10 ask world tcp "$NODE1:30080"
	NODE_MAC=$(on node1 ip -j link show eth0 | jq -r '.[0].address')
}

# Start all connections at once, and print how many are established within three seconds.
connect_100()
{
	on world python3 - "$NODE1" 30080 <<-'END'
		import select, socket, sys, time
		waiting, done = {}, 0
		for _ in range(100):
		    s = socket.socket()
		    s.setblocking(False)
		    s.connect_ex((sys.argv[1], int(sys.argv[2])))
		    waiting[s.fileno()] = s
		end = time.monotonic() + 3
		while waiting and time.monotonic() < end:
		    for fd in select.select([], list(waiting), [], 0.1)[1]:
		        s = waiting.pop(fd)
		        done += s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
		print(done)
	END
}

flooded()
{
	on world "$FLOODER" eth0 "$NODE_MAC" "tcp+$1" 100.64.0.0/10 "$NODE1" 30080 "$PAIRS" "$2"
	expect_eq "connections" 100 "$(connect_100)"
}

pairs_lab_up
first=0
for second in none ack; do
	check "$PAIRS pairs, the second with $second: 100 of 100 connections" flooded "$second" "$first"
	first=$((first + PAIRS))
done
lab agent stop node1
for second in none rst fin; do
	check "no agent, $PAIRS pairs, the second with $second: 100 of 100 connections" flooded "$second" "$first"
	first=$((first + PAIRS))
done
finish
