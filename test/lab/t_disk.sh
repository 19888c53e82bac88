#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_disk.sh - /var/lib/monokube is full or read-only: a pod does not start, the reason is
# reported, nothing is half-done, and running pods keep working.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

STATE=/var/lib/monokube
SMALL=/run/mklab-$MK_LAB/small

explain() { lab log node1 | tail -n 10; on node1 df "$STATE"; on node1 ls -lR "$STATE"; }

# The node's state is on a separate, small disk.
disk_up()
{
	lab up 1
	on node1 sh -e -c "
		mkdir $SMALL
		mount -t tmpfs -o size=128k,nr_inodes=64 small $SMALL
		cp -a $STATE/. $SMALL
		mount --bind $SMALL $STATE"
	lab agent stop node1
	lab agent start node1
	WEB=$(lab pod node1 web)
	lab pod node1 client >/dev/null
	serve web web --tcp 8080
	service_yaml web web $VIP "{port: 80, targetPort: 8080}" | apply services
	wait_for 5 ask client tcp "$VIP:80"
}

fill_space() { on node1 sh -c "dd if=/dev/zero of=$STATE/fill bs=4k 2>/dev/null; df $STATE" || true; }
fill_names() { on node1 sh -c "i=0; while : 2>/dev/null >$STATE/fill-\$i; do i=\$((i + 1)); done" 2>/dev/null || true; }
empty_again() { on node1 sh -c "rm -f $STATE/fill*"; }
# Another mount on top: the agent has files open for writing in the one below.
read_only() { on node1 sh -e -c "mount --bind $STATE $STATE; mount -o remount,ro,bind $STATE"; }
writable() { on node1 umount "$STATE"; }

# The traces of a pod on a node.
footprint()
{
	on node1 sh -c "ip -o link show type veth | cut -d: -f2 | sort; ls -A $STATE/ipam $STATE/ipam/*/; ip route
		bpftool map dump pinned /sys/fs/bpf/monokube/maps/pods"
}

# no_pod BREAK REASON REPAIR
no_pod()
{
	local before out
	before=$(footprint)
	"$1"
	if out=$(lab pod node1 late 2>&1); then
		echo "a pod started"
		return 1
	fi
	expect_match "what ADD says" "$2" "$out"
	"$3"
	expect_eq "what the pod left" "$before" "$(footprint)"
}

# broken BREAK REASON REPAIR: no pod starts, others keep working, and after the repair one starts
broken()
{
	"$1"
	ask client tcp "$VIP:80"
	ask client tcp "$WEB:8080"
	lab agent stop node1
	ask client tcp "$VIP:80"
	"$3"
	lab agent start node1
	no_pod "$@"
	lab pod node1 late
	ask late tcp "$VIP:80"
	lab rm late
}

disk_up
check "no space: the reason, nothing half-done, the rest goes on, then a pod again" \
	broken fill_space 'No space left on device' empty_again
check "no inode: the same" broken fill_names 'No space left on device' empty_again
check "read-only: the same" broken read_only 'Read-only file system' writable
finish
