# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/narrow.sh - a client behind world, which is a router with a narrow link. It wants client.sh.
NARROW=$(in_family 198.51.100.2)

in_world() { command ip netns exec "$MK_LAB.world" "$@"; }
in_narrow() { command ip netns exec "$MK_LAB.narrow" "$@"; }

narrow_up()
{
	ip netns add "$MK_LAB.narrow"
	ip link add eth0 mtu 1300 netns "$MK_LAB.narrow" type veth peer name narrow0 mtu 1300 netns "$MK_LAB.world"
	# shellcheck disable=SC2086 # NODAD may be nothing
	{
		ip -n "$MK_LAB.world" addr add 198.51.100.1/24 dev narrow0 $NODAD
		ip -n "$MK_LAB.narrow" addr add "$NARROW/$(by_family 24 64)" dev eth0 $NODAD
	}
	ip -n "$MK_LAB.world" link set narrow0 up
	ip -n "$MK_LAB.narrow" link set eth0 up
	forward_in world
	ip -n "$MK_LAB.narrow" route add default via 198.51.100.1 advmss 1380
}
narrow_down()
{
	command ip netns del "$MK_LAB.narrow" 2>/dev/null || true
	cleanup
}
# ICMP errors of world about packets that are too big
too_big() { in_world nstat -asz IpFragFails Ip6FragFails | awk 'NR > 1 { sum += $2 } END { print sum + 0 }'; }
