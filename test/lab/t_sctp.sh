#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_sctp.sh - SCTP through Services and out of the cluster. Both ends are sctp.py, which
# works without SCTP in the kernel and verifies every packet's checksum.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

VIP=10.96.55.1
EMPTY=10.96.55.2
LOCAL_ONLY=10.96.55.3
FULL=1390 # a message that makes a packet of the MTU
[[ $FAMILY == 4 ]] || FULL=1360

explain() { for node in node1 node2; do echo "drops of $node:"; on "$node" "$MK_BIN" drops || true; done; }

sctp() { on "$1" "$HERE/sctp.py" "${@:2}"; }

# sctp_serve WHERE NAME PORT
sctp_serve()
{
	local out
	out=$(mktemp "$TMP/serve.XXXXXX")
	sctp "$1" serve --name "$2" --port "$3" >"$out" 2>&1 </dev/null &
	wait_for 10 grep -q serving "$out"
}

sctp_lab_up()
{
	lab up 2
	{
		service_yaml peer peer $VIP "{name: sctp, port: 3868, targetPort: 3869, protocol: SCTP, nodePort: 30868},
			{name: same, port: 3869, targetPort: 3869, protocol: SCTP, nodePort: 30869}"
		service_yaml empty nobody $EMPTY "{port: 3868, protocol: SCTP}"
		service_yaml here peer $LOCAL_ONLY "{port: 3868, targetPort: 3869, protocol: SCTP, nodePort: 30867}" \
			"externalTrafficPolicy: Local"
	} | apply sctp
	CLIENT=$(lab pod node1 client)
	PEER1=$(lab pod node1 peer-1)
	lab pod node2 peer-2 >/dev/null
	sctp_serve peer-1 peer-1 3869
	sctp_serve peer-2 peer-2 3869
	sctp_serve world world 3868
	wait_for 10 sctp client ask "$VIP:3868" --timeout 1
}

# associate FROM ADDRESS:PORT SERVERS SEEN [ASK ARGS...]: 16 associations. The server is one of
# SERVERS (space separated, each at least once), and has seen SEEN (a regular expression).
associate()
{
	local out line
	out=$(sctp "$1" ask "$2" --count 16 "${@:5}" 2>&1 || true)
	while read -r line; do
		expect_match "answer from $2 to $1" "^[a-z0-9-]+ $4 [0-9]+$" "$line"
	done <<<"$out"
	expect_eq "who answers for $2" "$3" "$(cut -d' ' -f1 <<<"$out" | sort -u | xargs)"
}

refused() { expect_status 3 sctp "$1" ask "$2" --timeout 2; }

pod_to_pod() { associate client "$PEER1:3869" peer-1 "$CLIENT"; }
cluster_ip() { associate client "$VIP:3868" "peer-1 peer-2" "$CLIENT"; }
cluster_ip_large() { associate client "$VIP:3868" "peer-1 peer-2" "$CLIENT" --size $FULL; }
cluster_ip_odd_size() { associate client "$VIP:3868" "peer-1 peer-2" "$CLIENT" --size 333; }
# Longer than any MTU on the path: IP fragments them, and the first fragment has the checksum of
# all.
# No router cuts packets of IPv6: each sender loses a packet, and learns the path's MTU. It may be
# any backend's turn, so this asks until both have answered.
learn_mtu()
{
	local answers=""
	[[ $FAMILY == 6 ]] || return 0
	for _ in {1..40}; do
		answers+=" $(sctp "$1" ask "$2" --size 4000 --want 4000 --timeout 0.5 || true)"
		[[ $answers != *peer-1* || $answers != *peer-2* ]] || return 0
	done
}
cluster_ip_cut()
{
	learn_mtu client "$VIP:3868"
	associate client "$VIP:3868" "peer-1 peer-2" "$CLIENT" --size 4000
	associate client "$VIP:3868" "peer-1 peer-2" "$CLIENT" --want 4001
}
node_port_cut()
{
	learn_mtu world "$NODE1:30868"
	associate world "$NODE1:30868" "peer-1 peer-2" '(10.244.1.1|192.168.99.200)' --size 5001 --want 3999
}
to_outside_cut() { associate client "$WORLD:3868" world "$NODE1" --size 4002 --want 4003; }
# The message's chunk ends where the packet is split: a header of 12 bytes, of 16, and 1372.
between_chunks=(--size 1372 --behind 600 --backwards 1400)
[[ $FAMILY == 4 ]] || between_chunks=(--size 1172 --behind 600 --backwards 1200)
cluster_ip_between_chunks() { associate client "$VIP:3868" "peer-1 peer-2" "$CLIENT" "${between_chunks[@]}"; }
node_port_between_chunks()
{
	associate world "$NODE1:30868" "peer-1 peer-2" '(10.244.1.1|192.168.99.200)' "${between_chunks[@]}"
}
to_outside_between_chunks() { associate client "$WORLD:3868" world "$NODE1" "${between_chunks[@]}"; }
cluster_ip_same_port() { associate client "$VIP:3869" "peer-1 peer-2" "$CLIENT"; }
hairpin()
{
	associate peer-1 "$VIP:3868" "peer-1 peer-2" "(10.244.1.1|$PEER1)"
	expect_failure grep "^peer-1 $PEER1 " <(sctp peer-1 ask "$VIP:3868" --count 16)
}
from_host() { associate node1 "$VIP:3868" "peer-1 peer-2" '10.18.0.1'; }
node_port() { associate world "$NODE1:30868" "peer-1 peer-2" '(10.244.1.1|192.168.99.200)'; }
node_port_from_pod() { associate client "$NODE2:30868" "peer-1 peer-2" '.*'; }
node_port_local() { associate world "$NODE2:30867" peer-2 "$WORLD"; }
to_outside() { associate client "$WORLD:3868" world "$NODE1"; }
empty() { refused client "$EMPTY:3868"; refused node1 "$EMPTY:3868"; }
unknown_port() { refused client "$VIP:4711"; }

established()
{
	expect_match "tables of node1" 'sessions +[1-9][0-9]* ' "$(on node1 "$MK_BIN" status)"
}

sctp_lab_up
check "pod to pod" pod_to_pod
check "pod to ClusterIP" cluster_ip
check "pod to ClusterIP, packets of a full MTU" cluster_ip_large
check "pod to ClusterIP, messages that are padded" cluster_ip_odd_size
check "pod to ClusterIP, packets that IP cuts" cluster_ip_cut
check "outside to NodePort, packets that IP cuts" node_port_cut
check "pod to outside, masqueraded, packets that IP cuts" to_outside_cut
check "pod to ClusterIP, cut between two chunks, the second half first" cluster_ip_between_chunks
check "outside to NodePort, cut between two chunks, the second half first" node_port_between_chunks
check "pod to outside, masqueraded, cut between two chunks, the second half first" to_outside_between_chunks
check "pod to ClusterIP, the port stays" cluster_ip_same_port
check "pod to its own Service" hairpin
check "host to ClusterIP" from_host
check "outside to NodePort" node_port
check "pod to another node's NodePort" node_port_from_pod
check "outside to NodePort, policy Local" node_port_local
check "pod to outside, masqueraded" to_outside
check "Service without backends refuses" empty
check "unknown port is refused" unknown_port
check "associations are established sessions" established
finish
