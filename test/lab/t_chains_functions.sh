#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_chains_functions.sh - functions that people run, from Debian's packages: Suricata (AF_PACKET and
# NFQUEUE), squid and haproxy as transparent proxies, nftables in mode Routed, a shaper, ndpiReader as a tap.
# And what a chain may say of its functions: directions, hashBy, onLoss, takeOpenFlows.
#
# Packages that the machine lacks are unpacked into build/functions, not installed.
#
#   node1: shop/client, shop/other, shop/web, free/server, functions in inspection; world serves outside
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/chains.sh
. "$HERE/lib/chains.sh"

# shellcheck source=test/lab/lib/packages.sh
. "$HERE/lib/packages.sh"
packages_in functions
PROXY_PORT=3129

explain()
{
	on node1 "$MK_BIN" chains || true
	on node1 "$MK_BIN" drops
	on node1 "$MK_BIN" sessions | sed 15q || true
	tail -n 3 "$TMP"/*.log 2>/dev/null || true
}

# ---- packages

# Suricata 7 is in bookworm-backports.
functions_are_there() { unpack_packages suricata "haproxy squid libndpi-bin"; }

# run_in POD LOG PROGRAM ARGS...: a program of the tree, until the lab is removed
run_in()
{
	on "$1" env LD_LIBRARY_PATH="$TREE/usr/lib/x86_64-linux-gnu" "$TREE/usr/$3" "${@:4}" >"$TMP/$2" 2>&1 </dev/null &
}

# ---- traffic

to_server() { with_port "$SERVER" $OPEN_PORT; }
try() { on "$1" "$HERE/echo.py" ask "$2" "$3" --timeout 0.7 "${@:4}"; }
unanswered() { expect_eq "an answer to $1" timeout "$(try "$@" || true)"; }
# through REPLICA: the next flow of the client passes it
through()
{
	local before
	before=$(received "$1")
	ask client tcp "$(to_server)"
	(($(received "$1") > before))
}
received() { on node1 "$MK_BIN" chains -o json | jq "[.functions[] | select(.replica == \"inspection/$1\") | (.fromOutside // 0) + (.fromInside // 0)] | add // 0"; }
# one function alone: `alone NAME SPEC`, and after its row no pod of it
alone()
{
	chain "[{name: $1${2:+, $2}}]"
	wait_for 10 serve_now "$1" 1
	wait_for 10 through "$1-1"
}

# ---- Suricata

# It drops what asks for 666 bytes, by the content of the packet.
suricata_rules()
{
	cat <<-'END'
		drop tcp any any -> any any (msg:"tcp 666"; content:"want 666 "; sid:1; rev:1;)
		drop udp any any -> any any (msg:"udp 666"; content:"want 666 "; sid:2; rev:1;)
	END
}
# af_packet INTERFACE OTHER ID
af_packet()
{
	cat <<-END
		  - {interface: $1, copy-iface: $2, copy-mode: ips, cluster-id: $3, cluster-type: cluster_flow, defrag: no, threads: 1,
		     use-mmap: yes, tpacket-v3: no, ring-size: 2048, block-size: 32768}
	END
}
suricata_yaml()
{
	cat <<-END
		%YAML 1.1
		---
		vars: {address-groups: {HOME_NET: any, EXTERNAL_NET: any}, port-groups: {}}
		default-rule-path: $TMP
		rule-files: [suricata.rules]
		classification-file: $TREE/etc/suricata/classification.config
		reference-config-file: $TREE/etc/suricata/reference.config
		threshold-file: $TREE/etc/suricata/threshold.config
		outputs: [fast: {enabled: yes, filename: fast.log, append: yes}]
		logging: {default-log-level: notice, outputs: [console: {enabled: yes}]}
		stream: {memcap: 32mb, inline: yes, midstream: true, reassembly: {memcap: 32mb}}
		flow: {memcap: 32mb, hash-size: 4096, prealloc: 1000}
		unix-command: {enabled: no}
		nfq: {mode: accept, fail-open: no}
		af-packet:
	END
	af_packet inside outside 98
	af_packet outside inside 99
}
# start_suricata POD MODE...
start_suricata()
{
	mkdir -p "$TMP/$1"
	suricata_rules >"$TMP/suricata.rules"
	suricata_yaml >"$TMP/suricata.yaml"
	run_in "$1" "$1.log" bin/suricata -c "$TMP/suricata.yaml" -l "$TMP/$1" --pidfile "$TMP/$1/pid" "${@:2}"
	wait_for 40 grep -q 'Engine started' "$TMP/$1.log"
}
# inspects POD: what Suricata drops does not arrive, all else does, and its log names both
inspects()
{
	local proto
	for proto in tcp udp; do
		ask client $proto "$(to_server)" --want 1200
		unanswered client $proto "$(to_server)" --want 666
	done
	ask client tcp "$(to_server)" --size 1000 --want 60000
	ask client tcp "$(with_port "$WORLD" $OPEN_PORT)"
	wait_for 10 grep -q 'Drop.*tcp 666' "$TMP/$1/fast.log"
	wait_for 10 grep -q 'Drop.*udp 666' "$TMP/$1/fast.log"
}

suricata_inline()
{
	function_pod ids-1 ids Inline
	start_suricata ids-1 --af-packet
	alone ids
	inspects ids-1
	lab rm ids-1
}

suricata_queue()
{
	function_pod queue-1 queue Routed
	on queue-1 "$(by_family iptables ip6tables)" -A FORWARD -j NFQUEUE --queue-num 0
	start_suricata queue-1 -q 0
	alone queue
	inspects queue-1
	lab rm queue-1
}

# ---- proxies

# tproxy POD: connections to $OPEN_PORT go to the pod's own proxy, and what belongs to its sockets
tproxy()
{
	on "$1" nft -f - <<-END
		table $IP proxy {
			chain prerouting {
				type filter hook prerouting priority mangle; policy accept;
				meta l4proto tcp socket transparent 1 meta mark set 1 accept
				iifname inside tcp dport { 8000, $OPEN_PORT } tproxy to :$PROXY_PORT meta mark set 1 accept
			}
		}
	END
	ip -n "$MK_LAB.$1" "$(by_family -4 -6)" rule add fwmark 1 lookup 100 priority 30000
	ip -n "$MK_LAB.$1" "$(by_family -4 -6)" route add local default dev lo table 100
}
listens() { on "$1" ss -ltn | grep -q ":$PROXY_PORT "; }

# The proxy answers as the server, and asks it with the client's address and port: the server sees the client.
haproxy_config()
{
	cat <<-END
		defaults
			mode tcp
			option tcplog
			log stdout format raw local0
			timeout connect 5s
			timeout client 20s
			timeout server 20s
		listen all
			bind $(by_family '*' '::'):$PROXY_PORT transparent
			source 0.0.0.0 usesrc client
			server asked *
	END
}
haproxy_tproxy()
{
	local port=40123
	function_pod proxy-1 proxy Routed
	tproxy proxy-1
	ip -n "$MK_LAB.proxy-1" "$(by_family -4 -6)" rule add from "$CLIENT" iif lo lookup 7702 priority 30001
	haproxy_config >"$TMP/haproxy.cfg"
	run_in proxy-1 haproxy.log sbin/haproxy -f "$TMP/haproxy.cfg" -db
	wait_for 10 listens proxy-1
	alone proxy
	expect_eq "whom the server sees" "server $CLIENT $port" "$(ask client tcp "$(to_server)" --from "$(with_port "$CLIENT" $port)" | cut -d ' ' -f 1-3)"
	ask client tcp "$(to_server)" --size 1000 --want 60000
	wait_for 10 grep -q "$CLIENT.*:$port .*all/asked" "$TMP/haproxy.log"
	hold_open "$(to_server)" "$TMP/proxied"
	say_more "$TMP/proxied" 2
	wait_for 5 established proxy-1
	exec 6>&-
	wait_for 10 closed proxy-1
	lab rm proxy-1
}
# The function answers the client: both directions of the client's session show it.
of_state() { on node1 "$MK_BIN" sessions -o json | jq -e --arg via "$1" --arg state "$2" 'any(.[]; .via == $via and .state == $state)' >/dev/null; }
established() { of_state "$1" established; }
closed() { of_state "$1" closed && ! established "$1"; }

# squid answers as the server, and asks it by the pod's own interface, as another client
squid_config()
{
	cat <<-END
		http_port 3128
		http_port $PROXY_PORT tproxy
		acl secret urlpath_regex secret
		http_access deny secret
		http_access allow all
		spoof_client_ip deny all
		visible_hostname cache
		cache_mem 8 MB
		pinger_enable off
		pid_filename none
		coredump_dir $TMP/squid
		access_log stdio:$TMP/squid/access.log
		cache_log $TMP/squid/cache.log
		mime_table $TREE/usr/share/squid/mime.conf
		icon_directory $TREE/usr/share/squid/icons
		error_directory $TREE/usr/share/squid-langpack/en
		unlinkd_program $TREE/usr/lib/squid/unlinkd
		shutdown_lifetime 0 seconds
		refresh_pattern . 60 50% 1440
	END
}
squid_files()
{
	mkdir -p "$TMP/squid" "$TMP/pages"
	chmod 755 "$TMP"
	chmod 777 "$TMP/squid"
	echo "a page" >"$TMP/pages/page"
	touch -d '10 days ago' "$TMP/pages/page"
	squid_config >"$TMP/squid.conf"
}
page() { on client curl -sg --max-time 5 "$(url "$SERVER" 8000)/$1" "${@:2}"; }
squid_cache()
{
	function_pod cache-1 cache Routed
	tproxy cache-1
	squid_files
	serve_http server "$TMP/pages"
	run_in cache-1 squid.log sbin/squid -N -f "$TMP/squid.conf"
	wait_for 20 listens cache-1
	chain '[{name: cache}]' 'ports: [{protocol: TCP, port: 8000}]'
	wait_for 10 serve_now cache 1
	wait_for 10 by_cache
	expect_eq "page" "a page" "$(page page)"
	wait_for 10 grep -qE "$CLIENT TCP_(MEM_)?HIT/200" "$TMP/squid/access.log"
	expect_eq "status of what squid denies" 403 "$(page secret -o /dev/null -w '%{http_code}')"
	lab rm cache-1
}
by_cache() { page page -D - -o /dev/null | grep -qi '^via:.*cache'; }

# ---- a tap

# ndpiReader reads its port until a signal ends it. Then it prints the flows that it saw.
look()
{
	run_in "$1" "$1.log" bin/ndpiReader -i inside -v 2
	wait_for 10 has_reader "$1"
}
look_ends()
{
	kill -INT "$(reader_of "$1")"
	wait_for 10 has_no_reader "$1"
}
reader_of()
{
	local pid
	for pid in $(command ip netns pids "$MK_LAB.$1"); do
		[[ $(cat "/proc/$pid/comm" 2>/dev/null) != ndpiReader ]] || echo "$pid"
	done
}
has_reader() { [[ $(reader_of "$1") && $(on "$1" cat /proc/net/packet | wc -l) -gt 1 ]]; }
has_no_reader() { [[ ! $(reader_of "$1") ]]; }
# copies FUNCTION: of both directions, to all of its replicas
copies() { echo $(($(packets "$1" toInside) + $(packets "$1" toOutside))); }
# copied: the next flow of the client is copied
copied()
{
	local before
	before=$(copies dpi)
	ask client tcp "$(to_server)"
	(($(copies dpi) > before))
}
# saw LOG PATTERN: flows with packets of both directions
saw() { grep -qE "$2.*\[[1-9][0-9]* pkts/[0-9]+ bytes <-> [1-9][0-9]* pkts/" "$1"; }

# traced: `trace` names the tap, and sends no copy
traced()
{
	local said before port
	said=$(on node1 "$MK_BIN" trace shop/client "$SERVER" $OPEN_PORT)
	port=$(sed -nE 's/.*copy to pod [^ ]+ by its port inside, interface ([^;]+);.*/\1/p' <<<"$said")
	expect_match "trace" "sfc_port +chain [^ ]+: copy to pod inspection/tap-1 by its port inside, interface [^ ]+; the packet goes on.*sfc_tap +behind the last tap: leaves the chain.*delivered" "${said//$'\n'/ }"
	before=$(on node1 cat "/sys/class/net/$port/statistics/tx_packets")
	on node1 "$MK_BIN" trace shop/client "$SERVER" $OPEN_PORT >/dev/null
	expect_eq "copies of a trace" "$before" "$(on node1 cat "/sys/class/net/$port/statistics/tx_packets")"
}

# A signal ends ndpiReader before it reads what the kernel has not handed over yet, half a second of it. So it may
# need a second look.
ndpi_saw()
{
	look tap-1
	expect_eq "page" "a page" "$(page page)"
	ask client udp "$(to_server)" --want 1200
	ask client udp "$(to_server)" --size 3000 --want 3000
	ask client tcp "$(to_server)" --size 1000 --want 60000
	sleep 1
	look_ends tap-1
	saw "$TMP/tap-1.log" 'TCP .*:8000 .*HTTP' && saw "$TMP/tap-1.log" "UDP .*:$OPEN_PORT "
}
ndpi_looks()
{
	plain_pods plain-1
	function_pod tap-1 dpi Tap
	chain '[{name: plain}, {name: dpi, tap: true}]'
	wait_for 10 serve_now dpi 1
	wait_for 10 copied
	traced
	wait_for 30 ndpi_saw
}

# The function's program has ended. What a tap sends is dropped. Replicas come and go, the last one, too.
taps_harm_nothing()
{
	local before
	before=$(drop_count node1 SFC_FORGED)
	on tap-1 "$HERE/datagram.py" inside 02:4d:0a:00:00:02 "$CLIENT" "$SERVER"
	wait_for 5 forged_since "$before"
	hold_open "$(to_server)" "$TMP/tapped"
	function_pod tap-2 dpi Tap
	wait_for 10 serve_now dpi 2
	before=$(copies dpi)
	ask client tcp "$(to_server)" --count 20
	(($(copies dpi) > before))
	say_more "$TMP/tapped" 2
	lab rm tap-1
	say_more "$TMP/tapped" 3
	wait_for 10 serve_now dpi 1
	wait_for 10 copied
	lab rm tap-2
	say_more "$TMP/tapped" 4
	ask client tcp "$(to_server)" --count 20
	wait_for 10 serve_now dpi 0
	on node1 "$MK_BIN" chains >/dev/null
	exec 6>&-
	lab rm plain-1
}
forged_since() { (($(drop_count node1 SFC_FORGED) > $1)); }
# hold_open TO FILE: a connection of the client; say_more FILE COUNT: it goes on
hold_open()
{
	mkfifo "$2.in"
	on client "$HERE/echo.py" ask tcp "$1" --hold <"$2.in" >"$2" 2>&1 &
	exec 6>"$2.in"
	wait_for 10 has_answers "$2" 1
}
say_more()
{
	echo >&6
	wait_for 5 has_answers "$1" "$2"
}
has_answers() { (($(grep -c ^server "$1") == $2)); }

# ---- Linux itself

routed_firewall()
{
	function_pod router-1 router Routed
	firewall_rules "$IP" >"$TMP/rules"
	on router-1 nft -f "$TMP/rules"
	echo "$IP" >"$TMP/nft-family"
	alone router
	ask client udp "$(to_server)" --size 3000
	on client ping -c 1 -W 2 "$SERVER"
	unanswered client tcp "$(with_port "$SERVER" $DENIED_PORT)"
	(($(counted router-1 denied) > 0))
	expect_eq "flows inward" "$(flows_of router-1 out)" "$(flows_of router-1 in)"
}

# A function that masquerades: servers see the address of the function's pod, clients see the servers'.
masquerade()
{
	local own
	on router-1 nft -f - <<-END
		table $IP nat {
			chain post { type nat hook postrouting priority srcnat; oifname outside masquerade; }
		}
	END
	own=$(own_address router-1)
	expect_match "tcp to a pod" "^server $own " "$(ask client tcp "$(to_server)")"
	expect_match "udp to a pod" "^server $own " "$(ask client udp "$(to_server)")"
	expect_match "tcp to a Service" "^web $own " "$(ask client tcp "$(with_port "$VIP" 80)")"
	ask client udp "$(to_server)" --size 3000 --want 3000
	ask client tcp "$(to_server)" --size 1000 --want 60000
	on client ping -c 1 -W 2 "$SERVER"
	on client ping -c 1 -W 2 "$WORLD"
	unanswered client tcp "$(with_port "$SERVER" $DENIED_PORT)"
}

own_address() { on "$1" ip -j addr show dev eth0 scope global | jq -r ".[].addr_info[] | select(.family == \"$(by_family inet inet6)\").local"; }

# A function must not send from another pod's address: such packets belong to no flow, and are dropped.
other_source()
{
	local before
	before=$(drop_count node1 SFC_FORGED)
	on router-1 nft flush chain "$IP" nat post
	on router-1 nft add rule "$IP" nat post oifname outside snat to "$OTHER"
	unanswered client udp "$(to_server)"
	unanswered client tcp "$(to_server)"
	(($(drop_count node1 SFC_FORGED) > before))
	on router-1 nft delete table "$IP" nat
	ask client tcp "$(to_server)"
	lab rm router-1
}

shaper()
{
	function_pod shaper-1 shaper Bridged
	on shaper-1 tc qdisc add dev inside root tbf rate 8mbit burst 70kb latency 100ms
	alone shaper
	ask client tcp "$(to_server)" --want 400000 --timeout 10
	(($(on shaper-1 tc -s -j qdisc show dev inside root | jq '.[0].overlimits') > 0))
	lab rm shaper-1
}

# ---- what a chain says

directions()
{
	firewall firewall-1
	DIRECTION=Ingress chain '[{name: firewall}]'
	wait_for 10 serve_now firewall 1
	wait_for 10 unanswered server tcp "$(with_port "$WEB" $DENIED_PORT)"
	unanswered world tcp "$(with_port "$NODE1" 30081)"
	expect_match "by NodePort" '^web ' "$(ask world tcp "$(with_port "$NODE1" 30080)")"
	ask server udp "$(with_port "$WEB" $OPEN_PORT)" --size 3000 --want 3000
	# the chained pods' own flows are not taken, but for those to another chained pod
	try client tcp "$(with_port "$SERVER" $DENIED_PORT)"
	unanswered client tcp "$(with_port "$WEB" $DENIED_PORT)"
	DIRECTION=Both chain '[{name: firewall}]'
	wait_for 10 unanswered client tcp "$(with_port "$SERVER" $DENIED_PORT)"
	unanswered server tcp "$(with_port "$WEB" $DENIED_PORT)"
	ask client tcp "$(with_port "$WEB" $OPEN_PORT)" --size 1000 --want 60000
	lab rm firewall-1
}

# A flow of UDP from PORT of POD: flow POD PORT TO
flow() { ask "$1" udp "$3" --from "$(with_port "$(pod_address "$1")" "$2")" --timeout 0.7; }
pod_address() { if [[ $1 == client ]]; then echo "$CLIENT"; else echo "$OTHER"; fi; }
flows() { for port in {41000..41011}; do flow "$1" "$port" "$2"; done; }
# by PORT FIELD...: of the clients' flows to port PORT of servers, each value once
by() { on node1 "$MK_BIN" sessions -o json | jq -r --arg port ":$1" ".[] | select(.via and (.to | endswith(\$port))) | \"\(.$2) \(.via)\"" | sort -u; }
uses() { flow client 41999 "$(with_port "$SERVER" "$1")" && [[ $(by "$1" from) ]]; }
plain_pods() { for replica in "$@"; do function_pod "$replica" plain Bridged; done; }

hashed_by()
{
	plain_pods plain-{1..4}
	chain '[{name: plain, hashBy: Pod}]'
	wait_for 10 serve_now plain 4
	wait_for 10 uses 7101
	flows client "$(with_port "$SERVER" 7101)"
	flows client "$(with_port "$WORLD" 7101)"
	expect_eq "replicas of a pod" 1 "$(by 7101 via | wc -l)"
	chain '[{name: plain, hashBy: Peer}]'
	wait_for 10 peer_decides
	flows client "$(with_port "$WORLD" 7102)"
	flows other "$(with_port "$WORLD" 7102)"
	expect_eq "replicas of a peer" 1 "$(by 7102 to | wc -l)"
	expect_eq "flows" 24 "$(by 7102 from | wc -l)"
}
# The tables have the new hash as soon as all flows of two pods have one replica
peer_decides()
{
	local port
	port=$(cat "$TMP/peer-port" 2>/dev/null || echo 7110)
	echo $((port + 1)) >"$TMP/peer-port"
	flows client "$(with_port "$SERVER" "$port")"
	flows other "$(with_port "$SERVER" "$port")"
	expect_eq "replicas of a peer" 1 "$(by "$port" to | wc -l)"
}

# onLoss Drop: the flows of a replica that is gone end, the others and new ones go on
lost()
{
	local to port gone
	to=$(with_port "$SERVER" 7103)
	lab rm plain-3
	lab rm plain-4
	chain '[{name: plain, onLoss: Drop}]'
	wait_for 10 serve_now plain 2
	wait_for 10 uses 7103
	flows client "$to"
	by 7103 from >"$TMP/paths"
	gone=$(head -n 1 "$TMP/paths" | cut -d ' ' -f 2)
	lab rm "$gone"
	for port in {41000..41011}; do
		if grep -q ":$port $gone\$" "$TMP/paths"; then
			expect_eq "flow of $gone" timeout "$(flow client "$port" "$to" || true)"
		else
			flow client "$port" "$to"
		fi
	done
	ask client udp "$to" --count 20
	for port in plain-1 plain-2; do
		[[ $port == "$gone" ]] || lab rm "$port"
	done
}

# A new connection would meet a firewall that denies its port; the open one stays outside of it.
open_flows()
{
	local denied
	denied=$(with_port "$SERVER" $DENIED_PORT)
	firewall firewall-2
	no_chain
	wait_for 10 try client tcp "$denied"
	mkfifo "$TMP/hold"
	on client "$HERE/echo.py" ask tcp "$denied" --hold <"$TMP/hold" >"$TMP/held" 2>&1 &
	exec 5>"$TMP/hold"
	wait_for 10 has_lines 1
	CHAIN_SPEC='takeOpenFlows: false' chain '[{name: firewall}]'
	wait_for 10 unanswered client tcp "$denied"
	echo >&5
	wait_for 5 has_lines 2
	chain '[{name: firewall}]'
	echo >&5
	wait_for 5 has_lines 3
	exec 5>&-
	lab rm firewall-2
}
has_lines() { (($(grep -c ^server "$TMP/held") == $1)); }

lab up 1 --pods
consenting_namespace shop
CLIENT=$(lab pod node1 client --namespace shop)
OTHER=$(lab pod node1 other --namespace shop)
WEB=$(lab pod node1 web --namespace shop)
SERVER=$(lab pod node1 server --namespace free)
serve web web --tcp $OPEN_PORT --tcp $DENIED_PORT --udp $OPEN_PORT
serve server server --tcp $OPEN_PORT --tcp $DENIED_PORT --udp $OPEN_PORT --udp 7101 --udp 7103 --udp={7110..7129}
serve world world --tcp $OPEN_PORT --udp $OPEN_PORT --udp 7101 --udp 7102
service_yaml web web "$VIP" "{name: open, port: 80, targetPort: $OPEN_PORT, nodePort: 30080},
	{name: denied, port: 81, targetPort: $DENIED_PORT, nodePort: 30081}" | sed 's/metadata: {/&namespace: shop, /' | apply services
wait_for 10 ask world tcp "$(with_port "$NODE1" 30080)"
wait_for 10 ask client tcp "$(to_server)"
check "Debian's packages" functions_are_there
check "Suricata by AF_PACKET, mode Inline: it drops by content, TCP and UDP" suricata_inline
check "Suricata by NFQUEUE, mode Routed: it drops by content, TCP and UDP" suricata_queue
check "haproxy by TPROXY: the server sees the client" haproxy_tproxy
check "squid by TPROXY: a cache answers, and denies" squid_cache
check "ndpiReader as a tap sees both directions of what passes" ndpi_looks
check "... what it sends goes nowhere; that it ends, comes or goes harms no flow" taps_harm_nothing
check "nftables in mode Routed: a stateful firewall" routed_firewall
check "... that masquerades: servers see its pod's address, answers come back" masquerade
check "... with another pod's address is refused" other_source
check "a shaper (tc tbf) delays, nothing is lost" shaper
check "Ingress and Both: NodePort, pods, and a pod's own flows" directions
check "hashBy Pod and Peer" hashed_by
check "onLoss Drop: flows of a replica that is gone end, others do not" lost
check "takeOpenFlows: false leaves an open connection outside" open_flows
finish
