# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/clusters.sh - several labs, each a cluster with the same pod ranges, that are peers by
# objects written by hand. CLUSTERS has their names. They have the nodes
# of NODES, two without it, and the hub those of HUB_NODES.

BASE=${MK_LAB/t-clusters/cl} # names of labs are short
# shellcheck disable=SC2034 # read by t_clusters.sh
FAMILIES=1
# shellcheck disable=SC2034 # the same
[[ ${MK_LAB_FAMILY:-} != 46 ]] || SECOND=yes FAMILIES=2 # a second family beside that of $FAMILY

# six TEXT: as in_family, of IPv6; both TEXT: with that of the second family behind it
six() { FAMILY=6 in_family "$1"; }
both() { if [[ ${SECOND:-} ]]; then echo "$1,$(six "$1")"; else in_family "$1"; fi; }

POOLS=$(by_family 240.0.0.0/6 fd00:240::/32)
[[ ! ${SECOND:-} ]] || POOLS+=,fd00:240::/32

# of CLUSTER COMMAND...: what client.sh and its like do, in the lab of that cluster
of()
{
	local -x MK_LAB=$BASE-$1
	local -x MK_AGENT_FLAGS="--cluster-name $1 --peer-pools $POOLS ${MORE_FLAGS:-}"
	shift
	"$@"
}

nodes_of() { if [[ $1 == hub ]]; then echo "${HUB_NODES:-node1}"; else echo "${NODES:-node1 node2}"; fi; }

explain()
{
	local cluster node
	for cluster in "${CLUSTERS[@]}"; do
		for node in $(nodes_of "$cluster"); do
			echo "$cluster $node:"
			of "$cluster" on "$node" "$MK_BIN" peers || true
			of "$cluster" on "$node" "$MK_BIN" drops || true
			of "$cluster" lab log "$node" | tail -n 4
		done
	done
}

labs_down()
{
	local cluster
	for cluster in "${CLUSTERS[@]}"; do
		of "$cluster" lab down
	done
	cleanup
}
trap labs_down EXIT

# labs_up: the sites are numbered in the order of CLUSTERS, and a router joins them. Pod a of node1, and pod b
# of node2, have the same addresses in all of them, and serve.
labs_up()
{
	local cluster pids=() site=0
	for cluster in "${CLUSTERS[@]}"; do
		site=$((site + 1))
		of "$cluster" lab up "$(nodes_of "$cluster" | wc -w)" --site "$site" --pods ${WITH_API:+--api} &
		pids+=($!)
	done
	wait "${pids[@]}"
	lab wan "${CLUSTERS[@]/#/$BASE-}"
	for cluster in "${CLUSTERS[@]}"; do
		expect_eq "pod a of $cluster" 10.244.1.2 "$(of "$cluster" lab pod node1 a)"
		of "$cluster" serve a a --tcp 8080 --udp 8080
		[[ $cluster != hub ]] || continue
		expect_eq "pod b of $cluster" 10.244.2.2 "$(of "$cluster" lab pod node2 b)"
		of "$cluster" serve b b --tcp 8080 --udp 8080
	done
}

# ---- objects

# published FROM TO: what FROM publishes becomes objects of TO
published()
{
	of "$1" on node1 "$MK_BIN" peer publish >"$TMP/published-$1.yaml"
	of "$2" lab apply "$TMP/published-$1.yaml"
}

# peer OF NAME VIEW ACCESS [MORE]: a ClusterPeer; MORE is YAML of its spec
peer()
{
	of "$1" apply "peer-$2" <<-END
		apiVersion: networking.monokube.io/v1alpha1
		kind: ClusterPeer
		metadata: {name: $2}
		spec: {podCidr: "$(both "$3")", access: $4${5:+, $5}}
	END
}

# ---- objects in API servers (WITH_API=yes)

GROUP=/apis/networking.monokube.io/v1alpha1

# get CLUSTER PATH JQ
get() { of "$1" lab api get "$2" | jq -r "$3"; }

namespaces()
{
	local name
	for name in shop monokube-peers monokube-published; do
		printf -- '---\napiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n' "$name"
	done
}

# peers_with OF NAME SPEC: a ClusterPeer without view
peers_with()
{
	of "$1" apply "peer-$1-$2" <<-END
		apiVersion: networking.monokube.io/v1alpha1
		kind: ClusterPeer
		metadata: {name: $2}
		spec: {$3}
	END
}

# exports CLUSTER [SERVICE PORT ENDPOINTS]: its pod b as shop/CLUSTER, or these endpoints, at port 80 of TCP and UDP
exports()
{
	local name=${2:-$1} port=${3:-8080} endpoints=${4:-'{addresses: [10.244.2.2], nodeName: node2}'} number
	number=$(cksum <<<"$name" | awk '{ print $1 % 250 + 1 }') # its address shows the family, too
	of "$1" apply "export-$name" <<-END
		apiVersion: v1
		kind: Service
		metadata: {name: $name, namespace: shop}
		spec: {clusterIP: 10.96.5.$number, ports: [{name: http, port: 80}, {name: udp, port: 80, protocol: UDP}]}
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: $name, namespace: shop, labels: {kubernetes.io/service-name: $name}}
		addressType: IPv4
		ports: [{name: http, port: $port}, {name: udp, port: $port, protocol: UDP}]
		endpoints: [$endpoints]
		---
		apiVersion: multicluster.x-k8s.io/v1beta1
		kind: ServiceExport
		metadata: {name: $name, namespace: shop}
	END
}

# reads CLUSTER PEER: the Secret by which CLUSTER reads the API server of PEER
reads()
{
	local dir=/run/mklab-$BASE-$2/api
	of "$1" apply "secret-$2" <<-END
		apiVersion: v1
		kind: Secret
		metadata: {name: peer-$2, namespace: monokube-peers}
		data:
		  servers: $(base64 -w 0 "$dir/ready")
		  ca.crt: $(base64 -w 0 "$dir/ca.crt")
		  token: $(printf %s "$BASE-$2-reader" | base64 -w 0)
	END
	of "$1" lab kubectl patch clusterpeer "$2" --type merge -p '{"spec":{"secretName":"peer-'"$2"'"}}'
}

# connected CLUSTER PEER REASON
connected() { expect_eq "Connected of $2 in $1" "$3" "$(get "$1" "$GROUP/clusterpeers/$2" '.status.conditions[] | select(.type == "Connected").reason')"; }
has_peers() { expect_eq "ClusterPeers of $1" "$2" "$(get "$1" "$GROUP/clusterpeers" '[.items[].metadata.name] | sort | join(" ")')"; }
# leader_of CLUSTER: the node whose agent writes
leader_of() { get "$1" /apis/coordination.k8s.io/v1/namespaces/monokube-peers/leases/monokube-peers .spec.holderIdentity; }

# ---- what nodes see

states() { of "$1" on "$2" "$MK_BIN" peers -o json | jq -r '.[] | "\(.name) \(.path) \(.state)"' | sort | paste -sd,; }
# peers_are OF NODE WANTED
peers_are() { [[ $(states "$1" "$2") == "$3" ]]; }

# probes_show CLUSTER NODE PEER WANTED: "down answering", such as "false 2/2"
probes_show() { [[ $(of "$1" on "$2" "$MK_BIN" peers "$3" -o json | jq -r '.[0] | "\(.down) \(.answering)"') == "$4" ]]; }

# is_down CLUSTER NODE PEER true|false
is_down() { [[ $(of "$1" on "$2" "$MK_BIN" peers "$3" -o json | jq '.[0].down') == "$4" ]]; }

# cut_off ADDRESS: no packet from or to a node with this address of the underlay passes the router
cut_off()
{
	local ip
	ip=$(by_family ip ip6)
	ip netns exec "$BASE-west.wan" nft -f - <<-END
		table inet cut {
			chain forward {
				type filter hook forward priority 0
				$ip saddr $1 drop
				$ip daddr $1 drop
			}
		}
	END
}
# sever FROM TO: no packets between these sites; the router's devices are site1 (west), site2 and site3 (hub)
sever()
{
	ip netns exec "$BASE-west.wan" nft -f - <<-END
		table inet cut {
			chain forward {
				type filter hook forward priority 0
				iifname $1 oifname $2 udp dport 4789 drop
				iifname $2 oifname $1 udp dport 4789 drop
			}
		}
	END
}
sever_hub()
{
	ip netns exec "$BASE-west.wan" nft -f - <<-END
		table inet cut {
			chain forward {
				type filter hook forward priority 0
				iifname site3 drop
				oifname site3 drop
			}
		}
	END
}
# cut_inside CLUSTER NODE: the underlay carries no packet of the node any more. A filter in the node would let those
# pass that the programs at its uplink take, with routing Direct.
cut_inside() { ip -n "$BASE-$1.underlay" link set "$2" nomaster; }
mend_inside() { ip -n "$BASE-$1.underlay" link set "$2" master br0; }
mend() { ip netns exec "$BASE-west.wan" nft delete table inet cut; }

# all_ways: each pod of west and east asks each pod of the other one, whose views are A and B, by answers() of the test
all_ways()
{
	local from to
	for from in "a $A" "b $B"; do
		for to in "$A" "$B"; do
			answers west "${from% *}" "$to" "${from#* }"
			answers east "${from% *}" "$to" "${from#* }"
		done
	done
}

# dropped CLUSTER NODE REASON
dropped() { of "$1" drop_count "$2" "$3"; }

# ---- load that both branches have begun (load.sh)

nothing_broke()
{
	local name
	of west end_all "$LOAD"
	of east end_all "$LOAD"
	wait_for 30 have_ended datagrams "$TMP"/load.*
	for name in west east; do
		cat "$TMP/load.$name"
		expect_eq "broken connections of $name" 0 "$(grep -c ^broken "$TMP/load.$name")"
		expect_match "exchanges of $name" "exchanges [1-9]" "$(tail -n 2 "$TMP/load.$name")"
	done
}

nothing_was_lost()
{
	local name
	for name in west east; do
		expect_eq "lost datagrams of $name" 0 "$(grep -c ^lost "$TMP/load.$name")"
	done
}
