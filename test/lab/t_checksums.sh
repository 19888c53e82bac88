#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_checksums.sh - translated packets arrive with correct checksums, also if the sender's
# kernel leaves them to the device. No kernel here verifies them: no device completes checksums
# between namespaces. sums.py does.
set -euo pipefail
export MK_LAB_ROUTING=Overlay # rows are about the overlay's MTU
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/services.sh
. "$HERE/lib/services.sh"

number here 1
number there 2

# Seen from node1; all ports change.
objects()
{
	service here NodePort
	endpoints here web-1
	service there NodePort
	endpoints there web-2
}

# watch WHERE: append packets that arrive there to $TMP/sums.WHERE
watch()
{
	on "$1" "$HERE/sums.py" >>"$TMP/sums.$1" 2>&1 </dev/null &
	wait_for 5 grep -q watching "$TMP/sums.$1"
}

# arrived WHERE PROTO KIND: packets of that kind have arrived, and no wrong one
arrived()
{
	wait_for 5 grep -Eq "^$2 .* $3 right$" "$TMP/sums.$1"
	expect_eq "wrong checksums at $1" "" "$(grep -v 'right$' "$TMP/sums.$1" || true)"
}

# talk CLIENT PROTO ADDRESS:PORT SERVER KIND: both directions; a host's answers use other devices
talk()
{
	local size
	truncate -s 0 "$TMP/sums.$1" "$TMP/sums.$4"
	for size in 1 2 64 1000; do ask "$1" "$2" "$3" --size "$size"; done
	arrived "$4" "$2" "$5"
	[[ $1 == node* ]] || arrived "$1" "$2" "$5"
}

# told WHAT KIND COMMAND...: check that world gets a correct error; ICMP type and code as shown by
# sums.py
told()
{
	local what=$1 kind=$2
	shift 2
	truncate -s 0 "$TMP/sums.world"
	"$@" || true
	wait_for 5 grep -Eq "^icmp [^ ]+:${what%/*} > [^ ]+:${what#*/} $kind right$" "$TMP/sums.world"
	expect_eq "wrong checksums at world" "" "$(grep -v 'right$' "$TMP/sums.world" || true)"
}

offload() { on node1 ethtool -K eth0 tx "$1" >/dev/null; }

services_lab_up
objects | apply services
serve world world --tcp 8080 --udp 5353
for name in here there; do wait_for 10 ask client-1 udp "$(where "vip $name")"; done
for who in client-1 web-1 web-2 world node1; do watch "$who"; done
any="(partial|complete)"
for proto in tcp:8080 udp:5353; do
	IFS=: read -r name port <<<"$proto"
	check "pod to Service on its node: left to the device, $name" talk client-1 "$name" "$(where "vip here")" web-1 partial
	check "pod to Service on another node, $name" talk client-1 "$name" "$(where "vip there")" web-2 "$any"
	check "pod to outside, masqueraded, $name" talk client-1 "$name" "${ADDR[world]}:$port" world "$any"
	check "world to NodePort, backend there, $name" talk world "$name" "$(where "node1 here")" web-1 "$any"
	check "world to NodePort, backend elsewhere, $name" talk world "$name" "$(where "node1 there")" web-2 "$any"
	check "host to Service, $name" talk node1 "$name" "$(where "vip here")" web-1 "$any"
done
vip=$(where "vip here")
# type and code of port unreachable and of an error with the MTU
no_port=$(by_family 3/3 1/4) too_big=$(by_family 3/4 2/0) headers=$(by_family 28 48)
for tx in on off; do
	offload $tx
	kind=partial
	[[ $tx == on ]] || kind=complete
	check "an error about TCP left to the device, offload $tx" told "$no_port" $kind ask world tcp "${vip%:*}:9" --timeout 1
	check "an error about UDP left to the device, offload $tx" told "$no_port" $kind ask world udp "${vip%:*}:9" --timeout 1
	on world ip "-$FAMILY" route flush cache
	check "too big, and translated, offload $tx" told "$too_big" $kind ask world udp "$(where "node1 there")" --df --size $((1500 - headers)) --timeout 1
done
finish
