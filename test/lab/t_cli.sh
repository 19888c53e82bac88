#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_cli.sh - the command line on real states: each subcommand, its JSON and exit status,
# with and without a running agent.
set -euo pipefail
export MK_LAB_ROUTING=Overlay # its rows expect the overlay by name
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

VIP=10.96.45.1

cli_lab_up()
{
	lab up 2
	{
		service_yaml web web $VIP "{name: http, port: 80, targetPort: 8000, nodePort: 30080}"
		service_yaml near near 10.96.45.2 "{port: 80, targetPort: 8000}"
		service_yaml empty nobody 10.96.45.3 "{port: 80}"
	} | apply services
	CLIENT=$(lab pod node1 client)
	NEAR=$(lab pod node1 near)
	WEB=$(lab pod node2 web)
	serve_http web "$TMP"
	wait_for 10 on client curl -sf --max-time 1 http://$VIP/ -o /dev/null
	wait_for 10 has_backend near
}

mk() { on node1 "$MK_BIN" "$@"; }
# json JQ ARGS...: apply jq to the subcommand's JSON, whatever its exit status.
json() { mk "${@:2}" -o json >"$TMP/json" || true; jq -r "$1" "$TMP/json"; }
has_backend() { json '.[0].frontends[0].backends | length' services "$1" | grep -qx 1; }
entries() { json length sessions; }

# trace STATUS OUTCOME FROM TO [PORT]: check both, keep the JSON. Each trace loads the programs.
trace()
{
	local status=0
	mk trace "${@:3}" -o json >"$TMP/traced" || status=$?
	expect_eq "exit status and outcome of trace ${*:3}" "$1 $2" "$status $(jq -r .outcome "$TMP/traced")"
}
# traced JQ: of the last trace
traced() { jq -r "$1" "$TMP/traced"; }
says() { traced '[.steps[].says] | join("; ")'; }

traces_pods()
{
	trace 0 forwarded client "$WEB" 8000
	expect_match "other node's pod" 'another node \(node2\).*leaves in VXLAN to 192\.168\.99\.12, by node node2; there' "$(says)"
	expect_match "text" 'delivered' "$(mk trace client "$NEAR" 8000)"
	trace 0 delivered default/client pod:near 8000
	expect_match "pod's name" 'pod default/near of this node' "$(says)"
	trace 3 answered client 10.244.1.200 80
	expect_eq "reason" NO_POD "$(traced .reason)"
	trace 0 delivered "$WEB" "$NEAR" 8000
}

traces_services()
{
	trace 0 forwarded client web
	expect_match "Service" "$VIP:80 is Service default/web: 1 backends, 0 of them" "$(says)"
	expect_match "session" "becomes $CLIENT:40000 > $WEB:8000" "$(says)"
	trace 0 delivered client service:default/near
	trace 3 answered client empty
	expect_eq "reason" REFUSED "$(traced .reason)"
	trace 3 answered client "$VIP" 81
	trace 0 forwarded 192.168.99.200 192.168.99.11 30080
	expect_match "NodePort" 'default/web.*chosen by Maglev' "$(says)"
	trace 0 forwarded host web
	trace 0 forwarded host 192.168.99.11 30080
	trace 0 forwarded host 127.0.0.1 30080
}

traces_outside()
{
	trace 0 forwarded client 203.0.113.10 80
	expect_match "masquerade" 'becomes 192\.168\.99\.11:[0-9]+ > 203\.0\.113\.10:80' "$(says)"
	trace 0 forwarded client 203.0.113.10
	trace 0 forwarded client 203.0.113.10 53/udp
	trace 0 delivered client host 22
	trace 0 forwarded host 203.0.113.10 80
}

# A trace leaves nothing behind: no session, no count, no drop.
# The sweep may remove a session that ended before: only a session that was not there counts.
traces_leave_nothing()
{
	local opened
	counts() { mk drops | grep -v NOT_IPV4; mk services web -o json | jq .[0].connections; }
	flows() { { mk sessions -o json; mk nat -o json; } | jq -r '.[] | "\(.protocol) \(.from) \(.to)"' | sort; }
	counts >"$TMP/counts"
	flows >"$TMP/flows"
	for _ in 1 2 3; do
		mk trace client web >/dev/null
		mk trace client 203.0.113.10 80 >/dev/null
		mk trace client empty >/dev/null || true
	done
	opened=$(flows | comm -13 "$TMP/flows" -)
	expect_eq "opened sessions" "" "$opened"
	expect_eq "counts" "$(cat "$TMP/counts")" "$(counts)"
}

traces_refuse()
{
	expect_status 1 mk trace client
	expect_status 1 mk trace client nosuch 80
	expect_match "message" "TO 'nosuch': expected a Service or a pod" "$(mk trace client nosuch 80 2>&1 || true)"
	expect_status 1 mk trace nosuch web
	expect_status 1 mk trace 10.244.1.200 web
	expect_status 1 mk trace client web 99999
	expect_status 0 mk trace --help
}

pods()
{
	expect_eq "names" "default/client default/near" "$(json '[.[].name] | sort | join(" ")' pods)"
	expect_eq "address" "$CLIENT" "$(json '.[0].address' pods client)"
	expect_eq "state" ok "$(json '.[0].state' pods "$CLIENT")"
	expect_eq "policies" open "$(json '.[0].policies' pods "$CLIENT")"
	expect_eq "node" node1 "$(json '.[0].node' pods client)"
	expect_match "text" "default/client +$CLIENT +mk" "$(mk pods)"
	expect_status 1 mk pods nosuch
}

nodes()
{
	expect_eq "node" "node2 10.244.2.0/24 192.168.99.12 10.18.0.2 ok" \
		"$(json '.[0] | "\(.name) \(.podCidr) \(.address) \(.overlayAddress) \(.state)"' nodes)"
	lab agent stop node1 # it would repair that
	on node1 bridge fdb del 02:4d:0a:12:00:02 dev mkvxlan dst 192.168.99.12 self
	expect_eq "state" "no FDB entry of its overlay device" "$(json '.[0].state' nodes)"
	trace 3 dropped client "$WEB" 8000
	expect_match "fault" "no FDB entry" "$(says)"
	lab agent start node1
	wait_for 30 node_ok
}
node_ok() { json '.[0].state' nodes | grep -qx ok; }

sessions()
{
	local seen port=$1
	coproc on client socat - "TCP4:$VIP:80,sourceport=$port"
	wait_for 20 session_is 'established' "$port"
	seen=$(json '.[0] | "\(.protocol) \(.from) \(.newTo) \(.service) \(.who)"' sessions :"$port")
	expect_eq "session" "TCP $CLIENT:$port $WEB:8000 default/web pod default/client" "$seen"
	expect_eq "sessions of UDP" 0 "$(json length sessions :"$port" --protocol udp)"
	expect_eq "sessions to web" true "$(json 'length > 0' sessions web)"
	expect_eq "bounded" 1 "$(json length sessions --limit 1)"
	trace 0 forwarded client web --source-port "$port"
	expect_match "session there" 'its session exists' "$(says)"
	kill "$COPROC_PID"
	wait_for 20 session_is 'clos|reset' "$port"
}
session_is() { json '.[0].state' sessions :"$2" | grep -qE "$1"; }

nat()
{
	on client ping -c 1 -W 5 203.0.113.10 >/dev/null
	expect_match "masqueraded" '192\.168\.99\.11' "$(json '.[0].newFrom' nat "$CLIENT" --protocol icmp)"
}

wrong() { json '[.[] | select(.ok | not) | .check] | unique | join(" ")' check; }

# found CHECK TEXT: check says so, with a remedy, and ends with 1.
found()
{
	expect_eq "what is wrong" "$1" "$(wrong)"
	expect_match "finding" "$2" "$(mk check || true)"
	expect_match "remedy" " -> " "$(mk check || true)"
	expect_status 1 mk check
}

checks()
{
	wait_for 10 node_ok
	mk check
	expect_eq "what is wrong" "" "$(wrong)"
	on node1 touch /etc/cni/net.d/05-other.conflist
	found cni '05-other\.conflist sorts before 10-monokube'
	on node1 rm /etc/cni/net.d/05-other.conflist
	on node1 nft add table ip kube-proxy
	on node1 nft add chain ip kube-proxy services
	found kube-proxy 'nftables table ip kube-proxy'
	on node1 nft delete table ip kube-proxy
	on node1 tc filter add dev eth0 ingress protocol all priority 5 bpf bytecode '1,6 0 0 0'
	found programs 'priority 5.* before ours on the ingress of eth0'
	on node1 tc filter del dev eth0 ingress priority 5
	lab agent stop node1
	found agent 'does not run'
	on node1 tc filter del dev mkvxlan ingress
	found "agent hooks" 'no program on the ingress of interface mkvxlan'
	lab agent start node1
	wait_for 30 mk check
}

bugreport()
{
	local file
	mk bugreport --file "$TMP/report.tar"
	expect_status 1 mk bugreport --file "$TMP/report.tar" # it is there
	tar -xf "$TMP/report.tar" -C "$TMP"
	expect_eq "pods" 2 "$(jq length "$TMP/monokube-bugreport/pods.json")"
	expect_match "route" '10\.244\.2\.0/24' "$(<"$TMP/monokube-bugreport/ip-route")"
	expect_eq "mode" 600 "$(stat -c %a "$TMP/report.tar")"
	expect_match "settings" 'vtepCidr=10\.18\.0\.0/16' "$(<"$TMP/monokube-bugreport/settings")"
	expect_match "metrics" 'monokube_ready 1' "$(<"$TMP/monokube-bugreport/metrics")"
	expect_eq "state" ready "$(<"$TMP/monokube-bugreport/agent.state")"
	for file in "$TMP"/monokube-bugreport/*.json; do
		jq . "$file" >/dev/null
	done
	lab agent stop node1
	mkdir -p /var/log/pods/kube-system_monokube-t-cli_uid/agent
	echo "a line of the log" >/var/log/pods/kube-system_monokube-t-cli_uid/agent/0.log
	rm "$TMP/report.tar"
	mk bugreport --file "$TMP/report.tar"
	rm -r /var/log/pods/kube-system_monokube-t-cli_uid
	tar -xf "$TMP/report.tar" -C "$TMP"
	expect_match "log" 'a line of the log' "$(cat "$TMP"/monokube-bugreport/agent-*.log)"
	expect_match "metrics, without an agent" 'cannot ask /metrics at 127\.0\.0\.1:10249' "$(<"$TMP/monokube-bugreport/metrics")"
	lab agent start node1
}

status()
{
	expect_eq "healthy" true "$(json .healthy status)"
	expect_eq "pods" 2 "$(json '.tables[] | select(.table == "pods") | .entries' status)"
	expect_eq "agent" true "$(json .agent.running status)"
	expect_match "text" '^healthy' "$(mk status)"
	lab agent stop node1
	expect_status 1 mk status
	expect_match "text" '^not healthy' "$(mk status || true)"
	lab agent start node1
	wait_for 30 mk status
}

drops()
{
	local follower
	mk drops --follow -o json >"$TMP/events" 2>/dev/null </dev/null &
	follower=$!
	wait_for 20 event_seen
	kill -INT "$follower" || true
	expect_eq "event" "pod default/client" "$(jq -rs '[.[] | select(.reason == "NO_POD")][0].fromName' "$TMP/events")"
	expect_eq "counted" true "$(json 'any(.[]; .reason == "NO_POD" and .packets > 0 and .remedy != "")' drops)"
}
event_seen()
{
	on client ping -c 1 -W 1 10.244.1.200 >/dev/null || true
	grep -q NO_POD "$TMP/events"
}

without_agent()
{
	lab agent stop node1
	trace 0 forwarded client web
	pods
	expect_eq "node's name" node2 "$(json '.[0].name' nodes)"
	sessions 41235
	lab agent start node1
}

# completed WORD...: what bash offers for the last one
completed()
{
	bash -c '. "$0"; COMP_WORDS=(monokube "$@"); COMP_CWORD=$#; _monokube; echo "${COMPREPLY[@]}"' "$TMP/completion" "$@"
}

texts()
{
	local command
	mk completion >"$TMP/completion"
	mk manual >"$TMP/manual"
	bash -n "$TMP/completion"
	while read -r command; do
		grep -q "^	'$command *'\*) " "$TMP/completion" || expect_eq "$command is completed" yes no
		grep -q "^\.B $command\$" "$TMP/manual" || expect_eq "$command is in the manual" yes no
		# shellcheck disable=SC2086 # of two words
		[[ $command == agent ]] || mk help $command </dev/null | grep -q "^usage: monokube $command" ||
			expect_eq "$command has help" yes no
	done < <(mk help | sed -n 's/^  \([a-z]*\( [a-z]*\)\?\)  .*/\1/p')
	expect_eq "the second word" join "$(completed peer jo)"
	expect_eq "its flag" --relay "$(completed peer join --r)"
	expect_eq "a flag" --follow "$(completed drops --f)"
	expect_status 2 mk nosuch
	expect_status 1 mk status --nosuch
	expect_match "what was meant" "unknown subcommand 'drop', did you mean 'drops'" "$(mk drop 2>&1 || true)"
	expect_match "what was meant" "unknown flag '--folow': did you mean --follow" "$(mk drops --folow 2>&1 || true)"
	expect_match "what was meant" "unknown flag '--clusterCidr=10\.0\.0\.0/8': did you mean --cluster-cidr" "$(mk agent --clusterCidr=10.0.0.0/8 2>&1 || true)"
	expect_eq "settings in force" "vtepCidr=10.18.0.0/16" "$(mk agent --check-config --node-name a --cluster-cidr 10.244.0.0/16 | grep ^vtepCidr)"
	expect_status 1 mk agent --check-config --node-name a --cluster-cidr 10.18.0.0/24
}

# If no program runs, none is loaded: programs and their tables need more files than these.
traces_load_nothing()
{
	on node1 prlimit --nofile=20 "$MK_BIN" trace host 203.0.113.10
	expect_failure on node1 prlimit --nofile=20 "$MK_BIN" trace client "$WEB" 8000
}

# A failed write is an error: a full disk makes no empty report.
write_errors()
{
	local command
	for command in version help manual completion "agent --help" status check "status -o json" pods nodes services sessions nat drops \
		"trace client $WEB 8000" "health live"; do
		# shellcheck disable=SC2086,SC2016 # words; the inner shell's
		expect_failure on node1 sh -c '"$@" >/dev/full' sh "$MK_BIN" $command
	done
	expect_match "what is said" 'monokube version: cannot write to standard output: No space left on device' \
		"$(on node1 sh -c "'$MK_BIN' version 2>&1 >/dev/full" || true)"
}

# names_both CMD...
names_both() { { "$@" 2>&1 || true; } | grep -E "Service 'twice' is in several namespaces: give '(one|two)/twice' or '(one|two)/twice'"; }

# One Service name in two namespaces, one name of a pod and a Service: the user must choose.
ambiguous_names()
{
	local namespace number=20
	for namespace in one two; do
		printf -- '---\napiVersion: v1\nkind: Service\nmetadata: {name: twice, namespace: %s}\nspec: {clusterIP: 10.96.45.%d, ports: [{port: 80}]}\n' \
			$namespace $((number++))
	done >"$TMP/twice.yaml"
	lab apply "$TMP/twice.yaml"
	wait_for 10 names_both mk trace client twice
	names_both mk monitor --count 1 --service twice
	expect_match "trace" "TO 'near': a pod and a Service have this name: give pod:near or service:near" "$(mk trace client near 2>&1 || true)"
	lab delete "$TMP/twice.yaml"
}

cli_lab_up
check "trace: between pods" traces_pods
check "trace: Services" traces_services
check "trace: outside and host" traces_outside
check "trace leaves nothing behind" traces_leave_nothing
check "trace: what it cannot" traces_refuse
check "trace: where no program runs, none is loaded" traces_load_nothing
check "pods" pods
check "nodes" nodes
check "sessions" sessions 41234
check "nat" nat
check "check: each fault, its remedy" checks
check "status" status
check "drops" drops
check "bugreport" bugreport
check "without an agent" without_agent
check "help, completion, manual, words that were meant" texts
check "standard output that cannot be written" write_errors
check "a name that means two" ambiguous_names
finish
