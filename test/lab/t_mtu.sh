#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_mtu.sh - packets larger than the MTU: path MTU discovery through NodePort, overlay and
# masquerade, and fragments of large datagrams on every path. The overlay carries 1450 bytes; a link
# behind world carries 1300.
set -euo pipefail
export MK_LAB_ROUTING=Overlay # the overlay's MTU is what it is about
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

FAR=$(in_family 198.51.100.2)
VIP=$(in_family 10.96.55.1)
NEAR_VIP=$(in_family 10.96.55.2)

# service NAME VIP HUNDREDS: node ports 30HUNDREDS..
service()
{
	service_yaml "$1" "$1" "$2" "{name: udp, port: 53, targetPort: dns, protocol: UDP, nodePort: 30${3}53},
		{name: iperf, port: 5201, targetPort: 5201, protocol: TCP, nodePort: 30${3}01}"
}

mtu_lab_up()
{
	lab up 2
	service big "$VIP" 0 | apply big
	service near "$NEAR_VIP" 1 | apply near
	CLIENT=$(lab pod node1 client)
	NEAR=$(lab pod node1 near)
	BIG=$(lab pod node2 big)
	serve big big --udp 5353
	serve client client --udp 5353
	serve near near --udp 5353
	on big iperf3 -s -D >/dev/null
	on near iperf3 -s -D >/dev/null
	serve world world --udp 5353 --tcp 8080
	far_up
	wait_for 5 ask client udp "$VIP:53"
	wait_for 5 ask client udp "$NEAR_VIP:53"
}

# A host behind a router with a narrow link.
far_up()
{
	ip netns add "$MK_LAB.far"
	ip link add eth0 mtu 1300 netns "$MK_LAB.far" type veth peer name far0 mtu 1300 netns "$MK_LAB.world"
	ip -n "$MK_LAB.world" addr add 198.51.100.1/24 dev far0
	ip -n "$MK_LAB.world" link set far0 up
	forward_in world
	ip -n "$MK_LAB.far" addr add "$FAR/24" dev eth0
	ip -n "$MK_LAB.far" link set eth0 up
	ip -n "$MK_LAB.far" route add default via 198.51.100.1
	ip netns exec "$MK_LAB.far" "$HERE/echo.py" serve --name far --udp 5353 >/dev/null 2>&1 </dev/null &
	ip netns exec "$MK_LAB.far" iperf3 -s -D >/dev/null
}

explain() { for node in node1 node2; do echo "drops of $node:"; on "$node" "$MK_BIN" drops || true; done; }

path_mtu() { expect_eq "path MTU that $1 learns for $2" "$3" "$(ask "$1" udp "$2" --path-mtu --size "$4" --timeout 5 || true)"; }

# No router cuts packets of IPv6: client and server each lose a datagram, and learn the path's MTU.
learn_mtu()
{
	for _ in request answer; do
		ask "$1" udp "$2" --size "$4" --want "$4" --timeout 0.3 >/dev/null || true
	done
}

# large WHERE ADDRESS:PORT SERVER SIZE: as fragments in both directions, unharmed (by the digest)
large()
{
	local out
	[[ $FAMILY == 4 ]] || learn_mtu "$@"
	out=$(ask "$1" udp "$2" --size "$4" --want "$4" --count 3 || true)
	expect_eq "answers from $2 to $1 ($out)" 3 "$(grep -c "^$3 " <<<"$out")"
}

# bulk WHERE ADDRESS [PORT]
bulk()
{
	local out
	out=$(on "$1" iperf3 -c "$2" -p "${3:-5201}" -t 1 -J || true)
	expect_match "bits per second from $1 to $2" '^[1-9][0-9]{6}' \
		"$(jq -r '.end.sum_received.bits_per_second // .error' <<<"$out")"
}

# On a wire OVERLAY, between the pods of a node the largest packet
HEADERS=28 # of a ping
OVERLAY=1450
[[ $FAMILY == 4 ]] || HEADERS=48 OVERLAY=1430
fits() { on "$1" ping -c 1 -W 2 -M 'do' -s $(($3 - HEADERS)) "$2"; }
pod_mtu()
{
	fits client "$BIG" $OVERLAY
	fits node1 "$BIG" $OVERLAY
	fits node2 "$CLIENT" $OVERLAY
	expect_failure fits node1 "$BIG" $((OVERLAY + 1))
	expect_failure fits client "$BIG" $((OVERLAY + 1))
	fits client "$NEAR" 60028
	fits near "$CLIENT" 60028
	fits client "$WORLD" 1500
	expect_failure fits client "$WORLD" 1501
}

# The far client announces more than its link carries, as if the narrow link were behind its router.
# The backend learns the link's MTU by the NodePort: the error is translated on its way.
narrow_client()
{
	local out=''
	for _ in answer fragment; do
		out=$(far_does "$HERE/echo.py" ask udp "$NODE1:30053" --want 1380 --timeout 0.5 || true)
	done
	expect_match "a large answer" '^big ' "$out"
}
narrow_bulk()
{
	local out
	ip -n "$MK_LAB.far" route replace default via 198.51.100.1 advmss 1380
	out=$(far_does iperf3 -c "$NODE1" -p 30001 -R -t 1 -J || true)
	expect_match "bits per second to $FAR" '^[1-9][0-9]{6}' "$(jq -r '.end.sum_received.bits_per_second // .error' <<<"$out")"
	expect_match "path MTU of the backend" 'mtu 1300' "$(on big ip "-$FAMILY" route get 10.244.1.1)" # the virtual pod
}
far_does() { ip netns exec "$MK_LAB.far" "$@"; }

mtu_lab_up
check "the largest packet fits, one byte more does not" pod_mtu
check "world to NodePort, backend elsewhere: told the overlay's" path_mtu world "$NODE1:30053" $OVERLAY $((1500 - HEADERS))
check "pod to a narrow link outside: told 1300" path_mtu client "$FAR:5353" 1300 1350
check "node to a narrow link outside: told 1300" path_mtu node1 "$FAR:5353" 1300 1350
check "UDP of 5000 bytes, pod to pod on another node" large client "$BIG:5353" big 5000
check "UDP of 5000 bytes, host to remote pod" large node1 "$BIG:5353" big 5000
check "UDP of 5000 bytes, pod to ClusterIP" large client "$VIP:53" big 5000
check "UDP of 5000 bytes, host to ClusterIP" large node1 "$VIP:53" big 5000
check "UDP of 5000 bytes, pod to itself by ClusterIP" large big "$VIP:53" big 5000
check "UDP of 5000 bytes, pod to world, masqueraded" large client "$WORLD:5353" world 5000
check "UDP of 5000 bytes, pod to a narrow link" large client "$FAR:5353" far 5000
check "UDP of 5000 bytes, world to NodePort" large world "$NODE1:30053" big 5000
check "UDP of 5000 bytes, pod to pod on its node" large client "$NEAR:5353" near 5000
check "UDP of 5000 bytes, pod to ClusterIP, backend on its node" large client "$NEAR_VIP:53" near 5000
check "UDP of 5000 bytes, world to NodePort, backend there" large world "$NODE1:30153" near 5000
check "UDP of 1460 bytes, pod to ClusterIP: between the overlay's and the uplink's MTU" large client "$VIP:53" big 1460
check "UDP of 60000 bytes, pod to ClusterIP" large client "$VIP:53" big 60000
check "TCP bulk, pod to ClusterIP" bulk client "$VIP"
check "TCP bulk, world to NodePort, backend elsewhere" bulk world "$NODE1" 30001
check "TCP bulk, pod to ClusterIP, backend on its node" bulk client "$NEAR_VIP"
check "TCP bulk, world to NodePort, backend there" bulk world "$NODE1" 30101
check "TCP bulk, pod to a narrow link" bulk client "$FAR"
check "UDP, NodePort to a client behind a narrow link" narrow_client
check "TCP bulk, NodePort to a client behind a narrow link" narrow_bulk
finish
