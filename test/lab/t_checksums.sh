#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_checksums.sh - what is translated has right checksums where it arrives, also where the sender's
# kernel has left them to the device. No kernel here looks at those: no device completes them between
# namespaces. sums.py does.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

NODE1=192.168.99.11
WORLD=192.168.99.200
NEAR_VIP=10.96.55.1
FAR_VIP=10.96.55.2

# service NAME VIP HUNDREDS: node ports 30HUNDREDS..; the ports change
service()
{
	cat <<-END
		apiVersion: v1
		kind: Service
		metadata: {name: $1}
		spec:
		  type: NodePort
		  clusterIP: $2
		  selector: {app: $1}
		  ports:
		  - {name: udp, port: 53, targetPort: 5353, protocol: UDP, nodePort: 30${3}53}
		  - {name: tcp, port: 80, targetPort: 8080, protocol: TCP, nodePort: 30${3}80}
	END
}

checksums_lab_up()
{
	local who
	lab up 2
	service near "$NEAR_VIP" 0 >"$TMP/near.yaml"
	service far "$FAR_VIP" 1 >"$TMP/far.yaml"
	lab apply "$TMP/near.yaml" "$TMP/far.yaml"
	lab pod node1 client >/dev/null
	lab pod node1 near >/dev/null
	lab pod node2 far >/dev/null
	for who in near far world; do serve "$who" "$who" --udp 5353 --tcp 8080; done
	wait_for 5 ask client udp "$NEAR_VIP:53"
	wait_for 5 ask client udp "$FAR_VIP:53"
	for who in client near far world node1; do watch "$who"; done
}

explain() { for node in node1 node2; do echo "drops of $node:"; on "$node" "$MK_BIN" drops || true; done; }

# watch WHERE: what arrives there goes to the end of $TMP/sums.WHERE
watch()
{
	on "$1" "$HERE/sums.py" >>"$TMP/sums.$1" 2>&1 </dev/null &
	wait_for 5 grep -q watching "$TMP/sums.$1"
}

# arrived WHERE PROTO KIND: something of that kind, and nothing that is wrong
arrived()
{
	wait_for 5 grep -Eq "^$2 .* $3 right$" "$TMP/sums.$1"
	expect_eq "wrong checksums at $1" "" "$(grep -v 'right$' "$TMP/sums.$1" || true)"
}

# talk CLIENT PROTO ADDRESS:PORT SERVER KIND: there and back; a host's answers come by other devices
talk()
{
	local size
	truncate -s 0 "$TMP/sums.$1" "$TMP/sums.$4"
	for size in 1 2 64 1000; do ask "$1" "$2" "$3" --size "$size"; done
	arrived "$4" "$2" "$5"
	[[ $1 == node* ]] || arrived "$1" "$2" "$5"
}

checksums_lab_up
for proto in tcp:80:8080 udp:53:5353; do
	IFS=: read -r name port target <<<"$proto"
	number=0${port: -2}
	check "pod to Service on its node: left to the device, $name" talk client "$name" "$NEAR_VIP:$port" near partial
	check "pod to Service on another node, $name" talk client "$name" "$FAR_VIP:$port" far "(partial|complete)"
	check "pod to outside, masqueraded, $name" talk client "$name" "$WORLD:$target" world "(partial|complete)"
	check "world to NodePort, backend there, $name" talk world "$name" "$NODE1:30$number" near "(partial|complete)"
	check "world to NodePort, backend elsewhere, $name" talk world "$name" "$NODE1:301$port" far "(partial|complete)"
	check "host to Service, $name" talk node1 "$name" "$NEAR_VIP:$port" near "(partial|complete)"
done
finish
