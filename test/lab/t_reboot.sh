#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_reboot.sh - a node reboots: all former programs, tables, interfaces and pods are gone;
# only /var/lib remains. The former pods' addresses are free again, and restarted pods work.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"

explain() { lab log node1 | tail -n 20; on node1 ls /var/lib/monokube/ipam; }

reboot_lab_up()
{
	lab up 2
	ADDR_1=$(lab pod node1 web-1)
	ADDR_2=$(lab pod node1 late-1)
	lab pod node2 client >/dev/null
	service_yaml web web $VIP "{port: 80, targetPort: 8080}" | apply services
}

reboot()
{
	lab agent kill node1
	ip netns del "$MK_LAB.web-1"
	ip netns del "$MK_LAB.late-1"
	lose_boot node1
}

addresses() { on node1 sh -c 'ls /var/lib/monokube/ipam | grep -cE "^(10\.|fd)"' || true; }
none_is_taken() { expect_eq "addresses taken" 0 "$(addresses)"; }

addresses_are_freed()
{
	expect_eq "addresses taken before" 2 "$(addresses)"
	reboot
	lab agent start node1
	wait_for 5 none_is_taken
	lab log node1 | grep "released the address of a container that is gone ip=$ADDR_1 "
	lab log node1 | grep "released the address of a container that is gone ip=$ADDR_2 "
}

# A runtime deletes the sandboxes that it remembers and makes new ones. A pod that has not returned
# is no endpoint, as if the kubelet reported it not ready: late-1 is not among the Service's from
# the start.
pods_come_back()
{
	lab rm web-1
	lab pod node1 web-1 >/dev/null
	serve web-1 web-1 --tcp 8080
	wait_for 10 ask client tcp "$VIP:80"
	expect_eq "addresses taken" 1 "$(addresses)"
}

# ... or makes the new pod first: the late DEL removes nothing of that pod.
deleted_late()
{
	local addr
	addr=$(lab pod node1 late-2)
	lab rm late-1
	on client ping -c 1 -W 2 "$addr"
	on late-2 ping -c 1 -W 2 203.0.113.10
	expect_eq "addresses taken" 2 "$(addresses)"
}

reboot_lab_up
check "addresses of the pods of before are free" addresses_are_freed
check "a pod comes back" pods_come_back
check "a sandbox of before is deleted late" deleted_late
finish
