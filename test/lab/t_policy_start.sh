#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_policy_start.sh - a pod starts on a node with network policies while no agent runs: its
# policies are there before its first packet, or it is closed (rules 37 to 41 of test/policy). The
# test writes the tables as an agent leaves them.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

UID_KNOWN=7a1c0000-0000-4000-8000-000000000001
UID_FREE=7a1c0000-0000-4000-8000-000000000002
SET=8000000000001111 # isolates; no table has rows of it, so nothing passes

explain() { on node1 "$MK_BIN" pods; on node1 bpftool map dump pinned "$PINS/policy_state"; cat "$TMP/add"; }

mk() { on node1 "$MK_BIN" "$@"; }
policies_of() { mk pods "$1" -o json | jq -r '.[0].policies'; }

# hex_text TEXT BYTES: filled with zero bytes; hex_le DIGITS: a number of 8 bytes, as memory has it
hex_text() { { printf %s "$1"; head -c $(($2 - ${#1})) /dev/zero; } | od -An -v -tx1; }
hex_le() { printf '%016x\n' "0x$1" | fold -w 2 | tac | paste -sd ' '; }

# put MAP KEY VALUE
put()
{
	# shellcheck disable=SC2086 # lists of bytes
	on node1 bpftool map update pinned "$PINS/$1" key hex ${2//$'\n'/ } value hex $3
}

# The policies are listed. None can select a pod of namespace free.
policies_up()
{
	lab up 1
	ADDR_OPEN=$(lab pod node1 open)
	serve open open --tcp 8080
	serve world world --tcp 8080
	lab agent kill node1
	put policy_state "0 0 0 0" "0 0 0 0 2 0 0 0"
	put policy_namespaces "$(hex_text free 64)" "0 0 0 0"
	put policy_namespaces "$(hex_text shop 64)" "3 0 0 0"
	put policy_expected "$(hex_text shop/known/$UID_KNOWN 320)" "$(hex_le $SET) $(hex_le 0)"
	put policy_expected "$(hex_text shop/sends-3/$UID_KNOWN 320)" "$(hex_le $SET) $(hex_le 0)"
	put policy_expected "$(hex_text shop/sends-1/$UID_FREE 320)" "$(hex_le 0) $(hex_le 0)"
}

# cni NAME UID VERB: a runtime's call for pod shop/NAME with this UID
cni()
{
	on node1 sh -c "jq '. as \$list | .plugins[0] + {cniVersion: \$list.cniVersion, name: \$list.name}' \
		/etc/cni/net.d/10-monokube.conflist |
		CNI_COMMAND=$3 CNI_CONTAINERID=$1 CNI_NETNS=/run/netns/$MK_LAB.$1 CNI_IFNAME=eth0 \
		CNI_ARGS='K8S_POD_NAMESPACE=shop;K8S_POD_NAME=$1;K8S_POD_UID=$2' CNI_PATH=/opt/cni/bin \
		/opt/cni/bin/monokube"
}

nothing_is_closed()
{
	expect_eq "policies of an open pod" open "$(policies_of default/open)"
	ask open tcp "$WORLD:8080"
}

unknown_pod_is_closed()
{
	local addr
	addr=$(lab pod node1 closed --namespace shop 2>"$TMP/add")
	echo "$addr" >"$TMP/closed"
	expect_match "what ADD says" "no agent runs on this node.*pod=shop/closed" "$(<"$TMP/add")"
	expect_eq "policies" pending "$(policies_of shop/closed)"
	serve closed closed --tcp 8080
	expect_failure ask open tcp "$(with_port "$addr" 8080)" --timeout 1
	expect_failure ask closed tcp "$WORLD:8080" --timeout 1
	expect_failure ask closed tcp "$(with_port "$ADDR_OPEN" 8080)" --timeout 1
	ask node1 tcp "$(with_port "$addr" 8080)"
}

others_stay_open()
{
	nothing_is_closed
	ask node1 tcp "$(with_port "$ADDR_OPEN" 8080)"
}

namespace_without_policies()
{
	lab pod node1 free --namespace free 2>"$TMP/add" >/dev/null
	expect_eq "what ADD says" "" "$(<"$TMP/add")"
	expect_eq "policies" open "$(policies_of free/free)"
	ask free tcp "$WORLD:8080"
}

known_pod()
{
	local addr
	command ip netns add "$MK_LAB.known"
	cni known $UID_KNOWN ADD >"$TMP/result" 2>"$TMP/add"
	expect_eq "what ADD says" "" "$(<"$TMP/add")"
	expect_eq "policies" ingress "$(policies_of shop/known)"
	addr=$(jq -r '.ips[0].address | sub("/.*"; "")' "$TMP/result")
	env ip netns exec "$MK_LAB.known" "$HERE/echo.py" serve --name known --tcp 8080 >/dev/null 2>&1 </dev/null &
	wait_for 10 ask node1 tcp "$(with_port "$addr" 8080)"
	expect_failure ask open tcp "$(with_port "$addr" 8080)" --timeout 1
	env ip netns exec "$MK_LAB.known" "$HERE/echo.py" ask tcp "$(with_port "$WORLD" 8080)"
	kill %%
	cni known $UID_KNOWN DEL
	command ip netns del "$MK_LAB.known"
	expect_status 1 mk pods shop/known
}

# first_packets NAME UID COUNT: the pod sends before it has an interface. COUNT of its packets, at
# most one, arrive. However long ADD takes, the pod sends until a packet has arrived, or for a second
# more.
first_packets()
{
	local seen sends
	command ip netns add "$MK_LAB.$1"
	env ip netns exec "$MK_LAB.world" timeout 60 tcpdump -lni any -c 1 "udp and dst port 9" >"$TMP/seen" 2>/dev/null &
	seen=$!
	wait_for 20 on world sh -c "grep -q . /proc/net/packet && test \$(wc -l </proc/net/packet) -gt 1"
	env ip netns exec "$MK_LAB.$1" timeout 60 python3 -c "
import socket, time
sock = socket.socket(socket.AF_INET6 if ':' in '$WORLD' else socket.AF_INET, socket.SOCK_DGRAM)
while True:
    try:
        sock.sendto(b'first', ('$WORLD', 9))
    except OSError:
        pass
    time.sleep(0.0002)
" &
	sends=$!
	cni "$1" "$2" ADD >/dev/null 2>"$TMP/add"
	timeout $(($3 ? 20 : 1)) tail -s 0.2 --pid="$seen" -f /dev/null || true
	kill "$sends" "$seen" 2>/dev/null || true
	wait
	expect_eq "packets of $1" "$3" "$(grep -c UDP "$TMP/seen" || true)"
	cni "$1" "$2" DEL
	command ip netns del "$MK_LAB.$1"
}

policies_up
check "nothing is enforced before a pod is isolated" nothing_is_closed
check "without an agent, an unknown pod is reached by its own node only, and ADD says why" unknown_pod_is_closed
check ".. and other pods stay open" others_stay_open
check "a pod of a namespace without policies is open" namespace_without_policies
check "a pod that was bound before the agent died has its policies" known_pod
check "a pod that sends from its first instant: open" first_packets sends-1 $UID_FREE 1
check ".. pending, although an open pod has its UID: no packet passes" first_packets sends-2 $UID_FREE 0
check ".. isolated for ingress only: its packets pass" first_packets sends-3 $UID_KNOWN 1
finish
