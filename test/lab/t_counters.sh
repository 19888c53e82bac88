#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_counters.sh - `monokube services`: real clients, counted; with and without an agent.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

VIP=10.96.44.1
[[ $FAMILY == 4 ]] || VIP=fd00:10:96:44::1
CONNECTIONS=20
BODY_BYTES=100000

counters_lab_up()
{
	lab up 2
	{
		service_yaml web web $VIP "{name: http, port: 80, targetPort: 8000, nodePort: 30080}"
		service_yaml empty nobody 10.96.44.2 "{port: 80}"
	} | apply services
	lab pod node1 client >/dev/null
	lab pod node2 web >/dev/null
	mkdir "$TMP/www"
	head -c $BODY_BYTES /dev/zero >"$TMP/www/body"
	serve_http web "$TMP/www"
	wait_for 10 named node1 default/web
}

shown() { on "$1" "$MK_BIN" services "$2" -o json; }
named() { shown "$1" "$2" | jq -e '.[0].name' >/dev/null; }
# field NODE NAME JQ
field() { shown "$1" "$2" | jq -r ".[0] | $3"; }
fetch() { on "$1" curl -sfg --no-keepalive "$(url "$2" "$3")/body" -o /dev/null; }

# between WHAT LOW HIGH SEEN
between()
{
	(($4 >= $2 && $4 <= $3)) || expect_eq "$1" "$2 to $3" "$4"
}

# count WHERE ADDRESS PORT: CONNECTIONS fetches, which the counters of node1 show.
count()
{
	local before after packets bytes i
	before=$(field node1 default/web .connections)
	packets=$(field node1 default/web .replies.packets)
	bytes=$(field node1 default/web .replies.bytes)
	for ((i = 0; i < CONNECTIONS; i++)); do
		fetch "$@"
	done
	after=$(field node1 default/web .connections)
	expect_eq "connections" $CONNECTIONS $((after - before))
	bytes=$(($(field node1 default/web .replies.bytes) - bytes))
	packets=$(($(field node1 default/web .replies.packets) - packets))
	between "bytes of replies" $((CONNECTIONS * BODY_BYTES)) $((CONNECTIONS * BODY_BYTES * 11 / 10)) "$bytes"
	between "packets of replies" $((bytes / 1500)) $((bytes / 500)) "$packets"
	between "packets of requests" $((CONNECTIONS * 4)) $((packets + CONNECTIONS * 10)) \
		"$(field node1 default/web .requests.packets)"
}

listed()
{
	expect_eq "frontends of default/web" "$(for to in "$VIP:80 TCP external" "$VIP:80 TCP internal" "$LOCALHOST:30080 TCP internal" \
		"$NODE1:30080 TCP external" "$NODE1:30080 TCP internal"; do echo "$to"; done | LC_ALL=C sort | paste -sd , | sed 's/,/, /g')" \
		"$(shown node1 web | jq -r '[.[0].frontends[] | "\(.address):\(.port) \(.protocol) \(.scope)"] | sort | unique | join(", ")')"
	expect_match "text of default/web" "^default/web \(id [0-9]+\)" "$(on node1 "$MK_BIN" services default/web)"
	expect_eq "Services" "default/empty default/web" "$(on node1 "$MK_BIN" services -o json | jq -r '[.[].name] | sort | join(" ")')"
}

refused()
{
	expect_status 7 on client curl -sg "$(url "$(in_family 10.96.44.2)" 80)/"
	expect_match "refused connections" '^[1-9]' "$(field node1 default/empty .drops.REFUSED)"
	expect_eq "connections" 0 "$(field node1 default/empty .connections)"
}

options()
{
	expect_status 0 on node1 "$MK_BIN" services --help
	expect_status 1 on node1 "$MK_BIN" services nosuch
	expect_match "message" "no Service 'nosuch'" "$(on node1 "$MK_BIN" services nosuch 2>&1 || true)"
	expect_status 1 on node1 "$MK_BIN" services -o yaml
	expect_status 1 on node1 "$MK_BIN" services web empty
}

without_agent()
{
	local before
	before=$(field node1 default/web .connections)
	lab agent stop node1
	fetch client $VIP 80
	expect_eq "connections" $((before + 1)) "$(field node1 default/web .connections)"
	lab agent start node1
	expect_eq "connections after a restart" $((before + 1)) "$(field node1 default/web .connections)"
}

counters_lab_up
check "Services are listed" listed
check "connections by ClusterIP are counted" count client $VIP 80
check "connections by NodePort from outside are counted" count world $NODE1 30080
check "refused connections are counted" refused
check "flags and names that are not there" options
check "without an agent" without_agent
finish
