#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_chains_ends.sh - chains with explicit ends: replicas of a client, firewalls and replicas of a server,
# nftables in a bridge. All replicas of an end have one address, on a port of their own. First their ports are
# made by annotations, then by definitions, as Multus calls the plugin.
#
#   node1: all of namespace inspection; free/server, a pod of no chain
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/load.sh
. "$HERE/lib/load.sh"
# shellcheck source=test/lab/lib/plugin.sh
. "$HERE/lib/plugin.sh"
# shellcheck source=test/lab/lib/chains.sh
. "$HERE/lib/chains.sh"

NEXT_HOP=$(by_family 169.254.77.2 fe80::4d02)
UDP_PORT=8082

explain()
{
	on node1 "$MK_BIN" chains || true
	on node1 "$MK_BIN" drops
	lab log node1 | tail -n 5
}

# ---- pods, by annotations

client()
{
	end_pod "$1" client "$CLIENT" "$SERVERS"
	own_ports "$1"
}
# All clients have one address, so each takes its own part of the ports
own_ports() { on "$1" sysctl -qw net.ipv4.ip_local_port_range="$((20000 + 10000 * ${1#client-})) $((29999 + 10000 * ${1#client-}))"; }
server()
{
	end_pod "$1" server "$SERVER" "$CLIENTS"
	answer "$1"
}
answer() { serve "$1" "$1" --tcp $OPEN_PORT --tcp $DENIED_PORT --udp $UDP_PORT "${LOAD_PORTS[@]/#/--udp=}" "${LOAD_PORTS[@]/#/--tcp=}"; }

# ---- pods, by definitions

# defined NAME FUNCTION MODE: the pod is there; then Multus runs its definitions
defined() { function_pod "$1" "$2" "$3" --annotation k8s.v1.cni.cncf.io/networks=some; }
# run_definition VERB NAME IFNAME FUNCTION
run_definition()
{
	local id
	id=$(jq -r .id "/run/mklab-$MK_LAB/pods/$2.json")
	conf ". + {function: $4}" | on node1 env CNI_COMMAND="$1" CNI_CONTAINERID="$id" CNI_NETNS="$(netns_path "$2")" CNI_IFNAME="$3" \
		CNI_ARGS="K8S_POD_NAMESPACE=inspection;K8S_POD_NAME=$2" CNI_PATH=/opt/cni/bin /opt/cni/bin/monokube
}
# defined_end NAME FUNCTION ADDRESS ROUTES
defined_end()
{
	defined "$1" "$2" End
	run_definition ADD "$1" end "{port: \"end\", mode: \"End\", address: [\"$3/$END_BITS\"], routes: [\"$4\"]}" >"$TMP/result"
}
defined_firewall()
{
	defined "$1" firewall Bridged
	run_definition ADD "$1" inside '{port: "inside", mode: "Bridged"}' >"$TMP/result"
	run_definition ADD "$1" outside '{port: "outside", mode: "Bridged"}' >"$TMP/result"
	rules_in "$1"
}

# ---- traffic

to_server() { with_port "$SERVER" "$1"; }
unanswered() { expect_eq "an answer to $1" timeout "$(ask "$1" "$2" "$3" --timeout 0.5 "${@:4}" || true)"; }
# hold FD POD PORT FILE: a connection from PORT. say FD FILE COUNT: it goes on, its answers are COUNT now
hold()
{
	rm -f "$4.in"
	mkfifo "$4.in"
	on "$2" "$HERE/echo.py" ask tcp "$(to_server $OPEN_PORT)" --from "$(with_port "$CLIENT" "$3")" --hold <"$4.in" >"$4" 2>&1 &
	eval "exec $1>'$4.in'"
	wait_for 10 has_answers "$4" 1
}
say()
{
	echo >&"$1"
	wait_for 5 has_answers "$2" "$3"
}
has_answers() { (($(grep -c ^server "$1") == $2)); }
ends_serve() { serve_now client "$1" && serve_now firewall "$2" && serve_now server "$3"; }
# The newest replicas are in use: a denied port is denied
chain_works() { ask client-1 tcp "$(to_server $OPEN_PORT)" --timeout 0.5 >/dev/null && ask client-2 udp "$(to_server $UDP_PORT)" --timeout 0.5 >/dev/null; }
# answering PROTO PORT: all servers that answer 40 new flows
answering()
{
	local _
	for _ in {1..20}; do
		ask client-1 "$1" "$(to_server "$2")"
		ask client-2 "$1" "$(to_server "$2")"
	done | cut -d ' ' -f 1 | sort -u | xargs
}

# ---- rows

all_pass()
{
	local pod
	for pod in client-1 client-2; do
		expect_match "answer to $pod" "^server-[0-9]+ $CLIENT " "$(ask "$pod" tcp "$(to_server $OPEN_PORT)")"
		expect_match "answer to $pod" "^server-[0-9]+ $CLIENT " "$(ask "$pod" udp "$(to_server $UDP_PORT)")"
		ask "$pod" tcp "$(to_server $OPEN_PORT)" --size 20000 --want 100000 >/dev/null
		ask "$pod" udp "$(to_server $UDP_PORT)" --size 3000 --want 3000 >/dev/null
		on "$pod" ping -c 2 -i 0.2 -W 2 "$SERVER" >/dev/null
	done
	expect_eq "servers that answer" "server-1 server-2" "$(answering tcp $OPEN_PORT)"
	expect_eq "servers that answer" "server-1 server-2" "$(answering udp $UDP_PORT)"
}

# The sweep counts the flows, every 15 s if there are few
flows_measured()
{
	wait_for 60 has_flows
	expect_match "max_flows" " 16384$" "$(chain_metric max_flows)"
}
has_flows() { [[ $(chain_metric flows) =~ \ [1-9][0-9]*$ ]]; }
chain_metric()
{
	on node1 curl -sg --noproxy '*' http://127.0.0.1:10249/metrics/chains |
		grep "^monokube_chain_$1{family=\"$(by_family IPv4 IPv6)\",namespace=\"inspection\",chain=\"link\"} "
}

# `trace` follows a packet from end to end, in both directions, and opens no flow.
traced()
{
	local before
	before=$(flow_count)
	expect_match "trace" 'hook +pod inspection/client-1 sends by its port of an end: program sfc_port.*sfc_end +a new flow.*sfc_end +chain inspection/link: to pod inspection/firewall-[12] by its port inside, interface [^ ?]+; a function may.*sfc_end +chain inspection/link: to pod inspection/server-[12] by its port of the end, interface [^ ?]+ .*packet .*delivered$' "$(trace client-1 "$SERVER" $OPEN_PORT)"
	expect_match "trace" 'server-2 sends by its port of an end.*firewall-[12] by its port outside.*to pod inspection/client-[12] by its port of the end.*delivered$' "$(trace server-2 "$CLIENT" $OPEN_PORT)"
	expect_match "trace" 'program ilb_pod on.*delivered$' "$(trace client-1 "$FREE" $OPEN_PORT)"
	(($(flow_count) <= before))
	hold 6 client-1 20500 "$TMP/traced"
	expect_match "trace" "its flow exists.*to pod inspection/$(head -n 1 "$TMP/traced" | cut -d ' ' -f 1) by.*delivered$" "$(trace client-1 "$SERVER" $OPEN_PORT --source-port 20500)"
	expect_match "trace" 'SFC_AMBIGUOUS.*dropped$' "$(trace client-2 "$SERVER" $OPEN_PORT --source-port 20500)"
	exec 6>&-
}
trace() { on node1 "$MK_BIN" trace "inspection/$1" "${@:2}" | tr '\n' ' ' | sed 's/ $//'; }
flow_count() { on node1 "$MK_BIN" chains -o json | jq '[.ends[].flows] | add'; }

same_firewall()
{
	local before
	before=$(($(counted firewall-1 denied) + $(counted firewall-2 denied)))
	unanswered client-1 tcp "$(to_server $DENIED_PORT)"
	unanswered client-2 tcp "$(to_server $DENIED_PORT)"
	(($(counted firewall-1 denied) + $(counted firewall-2 denied) > before))
	symmetric firewall-1 firewall-2
	(($(flows_of firewall-1 out | wc -l) > 5 && $(flows_of firewall-2 out | wc -l) > 5))
}

# The port leads nowhere else, whatever the pod routes there. Its own interface is as any pod's.
nowhere_else()
{
	local to
	expect_eq "by eth0" free "$(ask client-1 tcp "$(with_port "$FREE" $OPEN_PORT)" | cut -d ' ' -f 1)"
	expect_eq "by eth0" free "$(ask server-1 tcp "$(with_port "$FREE" $OPEN_PORT)" | cut -d ' ' -f 1)"
	expect_eq "by eth0" world "$(ask client-1 tcp "$(with_port "$WORLD" $OPEN_PORT)" | cut -d ' ' -f 1)"
	for to in "$FREE" "$NODE1" "$WORLD"; do
		on client-1 ip route replace "$to" via "$NEXT_HOP" dev end onlink
		unanswered client-1 tcp "$(with_port "$to" $OPEN_PORT)" --from "$CLIENT"
		expect_eq "ping by the port" 1 "$(on client-1 ping -c 1 -W 1 -I "$CLIENT" "$to" >/dev/null; echo $?)"
		on client-1 ip route del "$to" dev end
	done
	expect_eq "by eth0" free "$(ask client-1 tcp "$(with_port "$FREE" $OPEN_PORT)" | cut -d ' ' -f 1)"
	# another pod and the node do not reach the ends' addresses
	expect_failure ask free tcp "$(to_server $OPEN_PORT)" --timeout 0.5
	expect_failure ask node1 tcp "$(to_server $OPEN_PORT)" --timeout 0.5
}

# The later one of two equal flows is dropped, until the first one ends.
ambiguous()
{
	local before port=20123
	before=$(drop_count node1 SFC_AMBIGUOUS)
	hold 6 client-1 $port "$TMP/held"
	unanswered client-2 tcp "$(to_server $OPEN_PORT)" --from "$(with_port "$CLIENT" $port)"
	(($(drop_count node1 SFC_AMBIGUOUS) > before))
	say 6 "$TMP/held" 2
	exec 6>&-
	wait_for 5 ask client-2 tcp "$(to_server $OPEN_PORT)" --from "$(with_port "$CLIENT" $port)" --timeout 0.5
}

# A firewall that is deleted: its flows go on by the other one.
firewall_lost()
{
	local gone=firewall-2
	load ends client-1 "${LOAD_PORTS[@]/#/$(with_port "$SERVER" '')}"
	hold 6 client-2 20200 "$TMP/kept"
	lab rm $gone
	wait_for 10 ends_serve 2 1 2
	say 6 "$TMP/kept" 2
	sleep 1
	stop_load
	expect_eq "broken connections" "" "$(grep ^broken "$TMP/load.ends" || true)"
	unanswered client-1 tcp "$(to_server $DENIED_PORT)"
	say 6 "$TMP/kept" 3
	exec 6>&-
	firewall $gone
	wait_for 10 ends_serve 2 2 2
	wait_for 10 flows_by $gone
}
flows_by()
{
	answering udp $UDP_PORT >/dev/null
	[[ $(flows_of "$1" out) ]]
}

# A server that is deleted: its datagrams go to the other one, whose connections go on.
server_lost()
{
	local held
	hold 6 client-1 20300 "$TMP/of-server"
	held=$(head -n 1 "$TMP/of-server" | cut -d ' ' -f 1)
	lab rm "$(other_of "$held")"
	expect_eq "servers that answer" "$held" "$(answering udp $UDP_PORT)"
	say 6 "$TMP/of-server" 2
	expect_eq "servers that answer" "$held" "$(answering tcp $OPEN_PORT)"
	exec 6>&-
	server "$(other_of "$held")"
	wait_for 10 ends_serve 2 2 2
	wait_for 10 both_answer
}
other_of() { if [[ $1 == server-1 ]]; then echo server-2; else echo server-1; fi; }
both_answer() { [[ $(answering udp $UDP_PORT) == "server-1 server-2" ]]; }

# The pin of the chain's flows is removed. It comes back: the agent that starts then takes the flows over.
pin_removed()
{
	hold 6 client-1 20600 "$TMP/pinned"
	on node1 sh -c "rm $PINS/sfc_flows_*"
	wait_for 10 on node1 sh -c "ls $PINS/sfc_flows_*"
	lab agent kill node1
	lab agent start node1
	wait_for 10 ends_serve 2 2 2
	unanswered client-2 tcp "$(to_server $OPEN_PORT)" --from "$(with_port "$CLIENT" 20600)"
	say 6 "$TMP/pinned" 2
	exec 6>&-
	expect_match "log" "the pin of a chain's map of flows was removed" "$(lab log node1)"
}

# Without an agent all goes on, and what it finds when it starts stays.
restarted()
{
	hold 6 client-1 20400 "$TMP/restarted"
	lab agent kill node1
	say 6 "$TMP/restarted" 2
	expect_eq "servers that answer" "server-1 server-2" "$(answering udp $UDP_PORT)"
	lab agent start node1
	say 6 "$TMP/restarted" 3
	wait_for 10 ends_serve 2 2 2
	unanswered client-2 tcp "$(to_server $OPEN_PORT)" --from "$(with_port "$CLIENT" 20400)"
	say 6 "$TMP/restarted" 4
	exec 6>&-
	all_pass
}

# No firewall: nothing passes. No chain: nothing passes.
closed()
{
	local before
	lab rm firewall-1
	lab rm firewall-2
	before=$(drop_count node1 SFC_UNAVAILABLE)
	unanswered client-1 tcp "$(to_server $OPEN_PORT)"
	(($(drop_count node1 SFC_UNAVAILABLE) > before))
	expect_status 1 on node1 "$MK_BIN" chains
	before=$(drop_count node1 SFC_FORGED)
	lab delete "$TMP/ends.yaml" >/dev/null
	wait_for 10 no_chain_drops "$before"
}
no_chain_drops()
{
	unanswered client-1 udp "$(to_server $UDP_PORT)"
	(($(drop_count node1 SFC_FORGED) > $1))
}

# Pods that end are no damage that the agent repairs.
no_false_alarm() { expect_eq "repairs" "" "$(lab log node1 | grep -E 'entries were missing' || true)"; }

by_definitions()
{
	local pod
	for pod in client-{1,2} server-{1,2}; do
		lab rm "$pod"
	done
	for pod in client-{1,2}; do
		defined_end "$pod" client "$CLIENT" "$SERVERS"
		own_ports "$pod"
	done
	for pod in server-{1,2}; do
		defined_end "$pod" server "$SERVER" "$CLIENTS"
		answer "$pod"
	done
	for pod in firewall-{1,2}; do
		defined_firewall "$pod"
	done
	end_chain '[{name: firewall}]'
	wait_for 10 ends_serve 2 2 2
	wait_for 10 chain_works
	all_pass
	same_firewall
}

# A program that moves frames between two bare ports, behind the firewall.
two_functions()
{
	mover ids-1 ids
	end_chain '[{name: firewall}, {name: ids}]'
	wait_for 10 serve_now ids 1
	wait_for 10 passes_ids
	all_pass
	same_firewall
	on node1 "$MK_BIN" check >"$TMP/check" || true
	expect_match "check" '^ok +ports +[0-9]+ of function pods, each as it was made' "$(grep ports "$TMP/check")"
}
passes_ids()
{
	local before
	before=$(packets ids fromOutside)
	ask client-1 tcp "$(to_server $OPEN_PORT)" --timeout 0.5
	(($(packets ids fromOutside) > before))
}

lab up 1 --pods
FREE=$(lab pod node1 free --namespace free)
serve free free --tcp $OPEN_PORT
serve world world --tcp $OPEN_PORT
client client-1
client client-2
firewall firewall-1
firewall firewall-2
server server-1
server server-2
end_chain '[{name: firewall}]'
wait_for 10 ends_serve 2 2 2
wait_for 10 chain_works
check "TCP, UDP, fragments and ping, from each client to each server" all_pass
check "trace follows a packet from end to end" traced
check "the number of flows is a metric" flows_measured
check "one firewall sees both directions of a flow, and denies" same_firewall
check "the port leads to the chain only; eth0 is as any pod's" nowhere_else
check "two clients with equal flows: the later one is dropped, and counted" ambiguous
check "a firewall is deleted under load: no connection breaks" firewall_lost
check "a server is deleted: the other one answers, its connection goes on" server_lost
check "the agent is killed, and starts" restarted
check "the pin of its flows is removed: it comes back, and flows stay" pin_removed
check "no firewall, no chain: nothing passes" closed
check "the same by definitions, as Multus calls the plugin" by_definitions
check "... and a program between two bare ports" two_functions
check "no pod that ended looked like damage" no_false_alarm
finish
