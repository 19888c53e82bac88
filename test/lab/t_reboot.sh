#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_reboot.sh - a node reboots: all former programs, tables, interfaces and pods are gone;
# only /var/lib remains. The former pods' addresses are free again, and restarted pods work. A firewall
# has a replica on this node and one on another: flows of the other node go on, and no flow passes by it.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"
# shellcheck source=test/lab/lib/load.sh
. "$HERE/lib/load.sh"
# shellcheck source=test/lab/lib/web.sh
. "$HERE/lib/web.sh"
# shellcheck source=test/lab/lib/chains.sh
. "$HERE/lib/chains.sh"

explain() { lab log node1 | tail -n 20; on node1 ls /var/lib/monokube/ipam; }

reboot_lab_up()
{
	lab up 2 --pods
	ADDR_1=$(lab pod node1 web-1)
	ADDR_2=$(lab pod node1 late-1)
	lab pod node2 client >/dev/null
	service_yaml web web $VIP "{port: 80, targetPort: 8080}" | apply services
}

# Shopper is on node2. Both replicas have flows of it.
chain_up()
{
	chained_up node2
	lab pod node1 buyer --namespace shop >/dev/null
	wait_for 10 denied_to buyer "$(with_port "$STORE" $DENIED_PORT)"
	chained_load
	wait_for 10 used guard-1
	wait_for 10 used guard-2
}
used() { (($(counted "$1" outward) > 0 && $(counted "$1" inward) > 0)); }

reboot()
{
	lab agent kill node1
	ip netns del "$MK_LAB.web-1"
	ip netns del "$MK_LAB.late-1"
	lose_sandbox guard-1
	ip netns del "$MK_LAB.buyer"
	lose_boot node1
}

addresses() { on node1 sh -c 'ls /var/lib/monokube/ipam | grep -cE "^(10\.|fd)"' || true; }
none_is_taken() { expect_eq "addresses taken" 0 "$(addresses)"; }

addresses_are_freed()
{
	expect_eq "addresses taken before" 4 "$(addresses)"
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

# ---- a chain

none_via() { all_have_paths node2 && expect_eq "flows of $1" "" "$(chained_paths node2 | grep " $1$" || true)"; }
none_passed() { expect_eq "denied by functions, but answered" "" "$(grep -h ^passed "$TMP"/denied.* || true)"; }

# Node1 says so as soon as it has programs again.
replica_is_gone()
{
	wait_for 20 none_via guard-1
	ask shopper tcp "$STORE_VIP:$OPEN_PORT"
	none_passed
}

chained_pod_comes_back()
{
	lab rm buyer
	lab pod node1 buyer --namespace shop >/dev/null
	denied buyer buyer "$STORE:$DENIED_PORT" "$STORE_VIP:$DENIED_PORT"
	wait_for 10 ask buyer tcp "$STORE:$OPEN_PORT"
	wait_for 10 ask buyer tcp "$STORE_VIP:$OPEN_PORT"
	none_passed
}

# Then the other one is removed, so all flows pass this one.
replica_comes_back()
{
	lab rm guard-1
	guard guard-1 node1
	wait_for 20 serve_now firewall 2
	lab rm guard-2
	wait_for 20 none_via guard-2
	ask shopper tcp "$STORE_VIP:$OPEN_PORT"
	ask buyer tcp "$STORE_VIP:$OPEN_PORT"
	wait_for 10 used guard-1
	(($(counted guard-1 denied) > 0))
	stop_load
	expect_eq "connections that broke" "" "$(grep -h ^broken "$TMP"/load.* || true)"
	stop_denied
	none_passed
}

buyer_starts() { lab pod node1 buyer --namespace shop >/dev/null; }
# A second boot. No replica is left, and the pod starts as soon as ADD can.
starts_with_the_agent()
{
	local agent
	lab agent kill node1
	lose_sandbox guard-1
	lose_boot node1
	lab rm buyer
	lab agent start node1 >/dev/null 2>&1 &
	agent=$!
	wait_for 20 buyer_starts
	denied second buyer "$STORE:$OPEN_PORT" "$STORE:$DENIED_PORT" "$STORE_VIP:$OPEN_PORT"
	wait "$agent"
	wait_for 10 blocks
	lab rm guard-1
	stop_denied
	none_passed
	guard guard-1 node1
	wait_for 10 ask buyer tcp "$STORE:$OPEN_PORT"
	denied_to buyer "$(with_port "$STORE" $DENIED_PORT)"
}
blocks() { on node1 "$MK_BIN" chains >/dev/null && return 1; expect_eq "answer" timeout "$(try buyer "$STORE:$OPEN_PORT" || true)"; }

reboot_lab_up
chain_up
check "addresses of the pods of before are free" addresses_are_freed
check "a pod comes back" pods_come_back
check "a sandbox of before is deleted late" deleted_late
check "after a boot the node's replica is gone: flows of the other node go on by the other replica" replica_is_gone
check "a chained pod comes back: it reaches others by the chain, from the beginning" chained_pod_comes_back
check "the replica comes back, with its ports; nothing broke or passed by the chain" replica_comes_back
check "a chained pod starts while the agent does: without a replica nothing passes" starts_with_the_agent
finish
