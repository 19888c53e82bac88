#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_lab.sh - the lab itself: several labs at once, and nothing left of them.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

ONE=$MK_LAB-one
TWO=$MK_LAB-two
THREE=$MK_LAB-three

# Every leftover of a lab shows in one of these.
traces()
{
	find /run -maxdepth 1 -name "mklab-$1*"
	find /run/netns -maxdepth 1 -name "$1*" 2>/dev/null
	grep -F "mklab-$1" /proc/mounts || true
	pgrep -af "mklab-$1" || true
}

no_traces() { expect_eq "traces of lab $1" "" "$(traces "$1")"; }

both_at_once()
{
	lab up 2 --name "$ONE" &
	lab --name "$TWO" up 1
	wait $!
	expect_match "list" "$ONE +2 nodes" "$(lab list)"
	expect_match "list" "$TWO +1 nodes" "$(lab list)"
}

same_addresses_twice()
{
	expect_eq "first address of $ONE" 10.244.1.2 "$(lab --name "$ONE" pod node1 web-1)"
	expect_eq "first address of $TWO" 10.244.1.2 "$(lab --name "$TWO" pod node1 web-1)"
	lab --name "$ONE" exec node1 touch /etc/cni/one /opt/one /var/lib/monokube/one
	expect_failure lab --name "$TWO" exec node1 ls /etc/cni/one
	expect_failure lab --name "$ONE" exec node2 ls /opt/one
	expect_failure ls /opt/one
	lab --name "$ONE" exec node2 ping -c 1 -W 2 10.244.1.2
}

one_goes_the_other_stays()
{
	lab --name "$ONE" down
	no_traces "$ONE"
	lab --name "$TWO" exec node1 ping -c 1 -W 2 10.244.1.2
	lab --name "$TWO" exec web-1 ping -c 1 -W 2 192.168.99.11
}

sleepers_run()
{
	ip netns pids "$TWO.web-1" | grep . >/dev/null && (($(ip netns pids "$TWO.node1" | wc -l) >= 2))
}

lab_with_api_goes()
{
	lab up 1 --api --name "$ONE"
	expect_match "status" 'API server [0-9]+' "$(lab --name "$ONE" status)"
	lab --name "$ONE" api stop
	lab --name "$ONE" api start
	lab --name "$ONE" down
	no_traces "$ONE"
}

busy_lab_goes()
{
	lab --name "$TWO" exec web-1 sleep 1000 &
	lab --name "$TWO" exec node1 sleep 1000 &
	wait_for 5 sleepers_run
	lab --name "$TWO" down
	no_traces "$TWO"
}

name_is_taken()
{
	lab --name "$ONE" up 1
	expect_failure lab --name "$ONE" up 1
	lab --name "$ONE" exec node1 true
	lab --name "$ONE" down
}

failed_up()
{
	expect_failure env MK_BIN=/bin/false "$HERE/lab" --name "$THREE" up 2
	no_traces "$THREE"
}

killed_up()
{
	local pid
	setsid "$HERE/lab" --name "$THREE" up 3 &
	pid=$!
	wait_for 10 test -e "/run/netns/$THREE.node2"
	kill -KILL -- "-$pid"
	wait "$pid" || true
	lab --name "$THREE" down
	no_traces "$THREE"
}

endpoints_follow_pods()
{
	local slice=/run/mklab-$MK_LAB/nodes/node1/cluster/lab-endpointslice-default-web.yaml
	lab up 1
	service_yaml web web 10.96.0.10 "{port: 80, targetPort: http}" | apply web
	lab pod node1 web-1
	lab pod node1 other --label app=web --port http=81
	expect_match "slices" 'port: 81.*10.244.1.3.*port: 8080.*10.244.1.2' "$(tr '\n' ' ' <"$slice")"
	lab rm web-1
	expect_failure grep 10.244.1.2 "$slice"
	lab delete "$TMP/web.yaml"
	expect_failure test -e "$slice"
	lab down
}

# Three labs of the same pod ranges; the router knows their nodes, and no pod.
labs_with_a_router()
{
	lab up 1 --site 1 --name "$ONE" &
	lab up 2 --site 2 --name "$TWO"
	wait $!
	lab up 1 --name "$THREE"
	expect_failure lab --name "$ONE" exec node1 ping -c 1 -W 1 192.168.102.11
	lab wan "$ONE" "$TWO" "$THREE"
	lab --name "$ONE" exec node1 ping -c 1 -W 5 192.168.102.12
	lab --name "$TWO" exec node2 ping -c 1 -W 5 192.168.99.11
	lab --name "$THREE" exec node1 ping -c 1 -W 5 192.168.101.11
	expect_eq "pod" 10.244.1.2 "$(lab --name "$ONE" pod node1 web-1)"
	expect_eq "pod" 10.244.1.2 "$(lab --name "$TWO" pod node1 web-1)"
	expect_failure ip netns exec "$ONE.wan" ping -c 1 -W 1 10.244.1.2
	lab --name "$ONE" exec web-1 ping -c 1 -W 5 192.168.101.200
	expect_match "status" "node1 +192.168.102.11" "$(lab --name "$TWO" status)"
	lab --name "$TWO" down
	no_traces "$TWO"
	lab --name "$ONE" exec node1 ping -c 1 -W 5 192.168.99.11
	lab --name "$ONE" down
	no_traces "$ONE"
}

a_site_is_used_once()
{
	local out
	lab up 1 --name "$ONE"
	out=$(lab wan "$ONE" "$THREE" 2>&1) && return 1
	expect_match "wan" "'$THREE' has the network of another one.*--site" "$out"
	expect_eq "routers" "" "$(find /run/netns -name '*.wan' -name "$MK_LAB*")"
	out=$(lab up 1 --site 10 --name "$TWO" 2>&1) && return 1
	expect_match "up" "site '10': expected a number of 1 to 9" "$out"
	lab --name "$ONE" down
	lab --name "$THREE" down
}

other_labs_down()
{
	local name
	for name in "$ONE" "$TWO" "$THREE"; do
		lab --name "$name" down
	done
	cleanup
}
trap other_labs_down EXIT

check "two labs come up at once" both_at_once
check "their addresses and files are their own" same_addresses_twice
check "one goes and leaves nothing, the other stays" one_goes_the_other_stays
check "a lab with running processes goes and leaves nothing" busy_lab_goes
check "a lab with an API server goes and leaves nothing" lab_with_api_goes
check "a name is used once" name_is_taken
check "up that fails leaves nothing" failed_up
check "down removes what a killed up left" killed_up
check "EndpointSlices follow pods" endpoints_follow_pods
check "a router joins the underlays of labs" labs_with_a_router
check "a router joins labs with networks of their own only" a_site_is_used_once
finish
