# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/chaos/clusters.sh - SCENARIO=clusters of run: three clusters with equal pod ranges, each with an API
# server. West and east read the hub, and the hub introduces them. What they exchange passes the hub or goes
# directly, as the fault "path changes" leaves it. A fault is on any node of any cluster. Read by run.

# shellcheck disable=SC2034 # read by clusters.sh of the lab
CLUSTERS=(west east hub) WITH_API=yes
# shellcheck source=test/lab/lib/clusters.sh
. "$HERE/lib/clusters.sh"
# shellcheck disable=SC2034 # the same
MORE_FLAGS="--clusterset-cidr $(both 247.254.0.0/16)"
MCS=/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop
PLACES=("west node1" "west node2" "east node1" "east node2" "hub node1")
ROUTE=Hub # of packets between west and east: Hub or Direct

CLUSTER=west
here() { of "$CLUSTER" "$@"; }
place() { echo "$CLUSTER-$NODE"; }
choose_place() { read -r CLUSTER NODE <<<"${PLACES[RANDOM % ${#PLACES[@]}]}"; }

# ---- set-up: west, east and hub export Services of these names, east also a process of node2's host

import_of() { get "$1" "$MCS/serviceimports/$2" '.spec.ips[0] // empty'; }
has_import() { expect_match "import of $2 in $1" . "$(import_of "$1" "$2")"; }
# seen CLUSTER SERVICE: the addresses by which CLUSTER sees its endpoints, in order
seen()
{
	get "$1" /apis/discovery.k8s.io/v1/namespaces/shop/endpointslices \
		'[.items[] | select(.metadata.labels["multicluster.kubernetes.io/service-name"] == "'"$2"'") | .endpoints[].addresses[0]] | sort | join(" ")'
}
has_seen() { expect_match "endpoints of $2 in $1" . "$(seen "$1" "$2")"; }

meet()
{
	local cluster
	for cluster in "${CLUSTERS[@]}"; do
		namespaces >"$TMP/namespaces.yaml"
		of "$cluster" lab apply "$TMP/namespaces.yaml"
	done
	for cluster in west east; do
		peers_with "$cluster" hub "accept: Transit"
		peers_with hub "$cluster" "relay: true"
		reads "$cluster" hub
		reads hub "$cluster"
	done
	for cluster in west east; do
		wait_for 60 has_peers "$cluster" "$(printf '%s\n' hub west east | grep -v "$cluster" | sort | xargs)"
	done
	for cluster in west east; do
		of "$cluster" lab kubectl patch clusterpeer hub --type merge -p '{"spec":{"accept":"Direct"}}'
		take_route "$cluster"
	done
}

export_all()
{
	local row a='{addresses: [10.244.1.2], nodeName: node1}' b='{addresses: [10.244.2.2], nodeName: node2}'
	exports west west 8080 "$a, $b"
	exports east east 8080 "$a, $b"
	exports hub hub 8080 "$a"
	exports east host 9191 '{addresses: [192.168.102.12]}'
	for row in "west hub" "west east" "west host" "east west" "east hub" "hub east" "hub west" "hub host"; do
		# shellcheck disable=SC2086 # two words
		wait_for 60 has_import $row
		# shellcheck disable=SC2086
		wait_for 60 has_seen $row
	done
}

# Lists what pods ask, as `CLUSTER POD ADDRESS:PORT`. DENIED_WORK gets no answer: an export opens one port only.
# It has pods of its own, c of node1 and d of node2: TCP repeats their SYNs, and repeated() counts the others' only.
# A pod that starts in a cluster asks LATE[CLUSTER]: the API server may be away then.
declare -A LATE
work()
{
	local east west host
	LATE=([west]=$(import_of west east) [east]=$(import_of east west) [hub]=$(import_of hub east))
	east=$(seen west east) west=$(seen east west) host=$(seen west host)
	EXTERNAL="west b $(with_port "$(import_of west host)" 80)"
	WORK=("west a $(with_port "$(import_of west east)" 80)" "west a $(with_port "${east##* }" 8080)"
		"west b $(with_port "$(import_of west hub)" 80)" "east a $(with_port "$(import_of east west)" 80)" "hub a $(with_port "$(import_of hub east)" 80)")
	DENIED_WORK=("west c $(with_port "${east##* }" 9090)" "west c $(with_port "$host" 9192)" "west d $(with_port "$(seen west hub)" 9090)"
		"east d $(with_port "${west##* }" 9090)" "hub c $(with_port "${east%% *}" 9090)")
}

# begin load|denied ROW...: a process for each pod, with all that it asks
begin()
{
	local what=$1 row cluster pod address
	local -A of_pod=()
	shift
	for row in "$@"; do
		read -r cluster pod address <<<"$row"
		of_pod["$cluster $pod"]+=" $address"
	done
	for row in "${!of_pod[@]}"; do
		read -r cluster pod <<<"$row"
		# shellcheck disable=SC2086 # addresses
		of "$cluster" "$what" "$cluster-$pod" "$pod" ${of_pod[$row]}
	done
}

denied_pods_up()
{
	of west lab pod node1 c
	of west lab pod node2 d
	of east lab pod node2 d
	of hub lab pod node1 c
} >/dev/null

chaos_lab_up()
{
	labs_up
	denied_pods_up
	of east serve a a-more --tcp 9090 --udp 9090
	of east serve b b-more --tcp 9090 --udp 9090
	of west serve b b-more --tcp 9090 --udp 9090
	of hub serve a a-more --tcp 9090 --udp 9090
	of east serve node2 node2 --tcp 9191 --udp 9191 --tcp 9192 --udp 9192
	meet
	export_all
	work
	all_new_work
	begin denied "${DENIED_WORK[@]}"
	begin load "${WORK[@]}"
	# shellcheck disable=SC2086 # three words
	load_external $EXTERNAL
}
load_external() { of "$1" load "$1-$2.external" "$2" "$3"; }

asks()
{
	local cluster pod address
	read -r cluster pod address <<<"$1"
	of "$cluster" ask "$pod" tcp "$address" --timeout 1
}

all_new_work()
{
	local row
	for row in "${WORK[@]}" "$EXTERNAL"; do
		wait_for "$BOUND" asks "$row" || return 1
	done
}

late_ones_work()
{
	here lab pod "$NODE" late >/dev/null &&
		here ask late tcp "$(with_port "${LATE[$CLUSTER]}" 80)" --timeout 5 &&
		here lab rm late
}

stamp_logs()
{
	local row
	for row in "${PLACES[@]}"; do
		read -r CLUSTER NODE <<<"$row"
		stamp_log
	done
}

# ---- faults. Those of tables have no name that report.py excuses: no connection between clusters may break.

lose() { echo "table $1 emptied|(map=$1|datapath attached|devices and addresses changed)|$HERE/empty_map.py $PINS/$1"; }
faults()
{
	local table
	cat <<-END
		mkpeer deleted|(name=mkpeer|devices and addresses changed)|ip link del mkpeer
		mkpeer set down|name=mkpeer .*was down|ip link set mkpeer down
		mkpeer's program removed|program was missing .*cluster_in|tc filter del dev mkpeer ingress
		mkpeer's qdisc removed|program was missing .*cluster_in|tc qdisc del dev mkpeer clsact
		mkpeer's FDB emptied|fdb_goes
		overlay's device deleted|(name=mkvxlan|devices and addresses changed)|ip link del mkvxlan
		host veth pair deleted|devices and addresses changed|ip link del mkhost0
		agent killed -9, the leader|leader_dies
		API server away|api_goes
		API server away, agent killed|api_and_agent_go
		path changes|path_changes
		border label moves|border_moves
		published node removed|published_goes
		copies of a peer removed|copies_go
		status lost|status_goes
		direct paths filtered|paths_filtered
		hub's network away|hub_is_cut_off
	END
	for table in clusters cluster_nodes cluster_carriers exports routes frontends service_backends; do
		lose "$table"
	done
}

fdb_goes()
{
	break_and_see "FDB entry of another cluster" 'bridge fdb show dev mkpeer | while read -r mac _; do bridge fdb del "$mac" dev mkpeer; done'
}

leader_dies()
{
	NODE=$(leader_of "$CLUSTER")
	agent_dies
}

api_goes()
{
	local status=0
	here lab api stop
	all_new_work || status=1
	here lab api start && all_new_work && ((status == 0))
}

# An agent dies and starts while the API server is away. It is ready when the server is back.
api_and_agent_go()
{
	local status=0
	here lab api stop
	here lab agent kill "$NODE"
	late_ones_work || status=1
	here lab agent start "$NODE" &
	wait_for "$BOUND" agent_runs && all_new_work || status=1
	here lab api start || status=1
	wait $! && all_new_work && ((status == 0))
}

# take_route CLUSTER: for what it sends to the other branch
take_route()
{
	local other=east
	[[ $1 == west ]] || other=west
	of "$1" lab kubectl patch clusterpeer "$other" --type merge -p '{"spec":{"path":"'"$ROUTE"'"}}'
}
# By its border node, if the cluster has one and NODE is another one
goes() { states "$1" "$2" | grep -E "(^|,)$3 ${ROUTE,,}( by node[12])? ok(,|\$)"; }
path_changes()
{
	local node
	if [[ $ROUTE == Hub ]]; then ROUTE=Direct; else ROUTE=Hub; fi
	take_route west && take_route east || return 1
	for node in node1 node2; do
		wait_for "$BOUND" goes west $node east && wait_for "$BOUND" goes east $node west || return 1
	done
	all_new_work
}

# The label of west's border node. Both nodes have it until the other clusters know the next one, or until none has
# it. East's stays away: flows to its external address end with the node that has their session.
BORDER=
carries() { expect_eq "border node of west $1" "$2" "$(of west on "$1" "$MK_BIN" peers -o json | jq -r '.[0].border // ""')"; }
label() { of west lab kubectl patch node "$1" --type merge -p '{"metadata":{"labels":{"networking.monokube.io/border":'"$2"'}}}'; }
knows() { get "$1" "$GROUP/namespaces/monokube-peers/publishednodes" '.items[].metadata.name' | grep -Fx "west.$2"; }
other_node() { if [[ $1 == node1 ]]; then echo node2; else echo node1; fi; }
border_moves()
{
	local from=$BORDER to=node$((RANDOM % 2 + 1)) node
	[[ ! $from ]] || to=$(other_node "$from")
	label "$to" '"true"' || return 1
	for node in east hub; do
		wait_for "$BOUND" knows "$node" "$to" || return 1
	done
	[[ ! $from ]] || label "$from" null || return 1
	if [[ $from && $((RANDOM % 2)) == 0 ]]; then
		label "$to" null || return 1
		to=
	fi
	BORDER=$to
	for node in node1 node2; do
		wait_for "$BOUND" carries $node "${to/#$node/}" || return 1
	done
	all_new_work
}

# With ROUTE=Direct, nothing passes until the filter goes: each branch counts the other as down.
paths_filtered()
{
	local status=0
	sever site1 site2
	if [[ $ROUTE == Direct ]]; then
		wait_for "$BOUND" is_down west node1 east true || status=1
	else
		all_new_work || status=1
	fi
	mend && all_new_work && ((status == 0))
}

hub_is_cut_off()
{
	local status=0
	sever_hub
	wait_for "$BOUND" is_down west node1 hub true && wait_for "$BOUND" is_down east node1 hub true || status=1
	mend && all_new_work && ((status == 0))
}

# Delete a PublishedNode. The agent publishes it again. Only border nodes are published, if there are some.
published_goes()
{
	local kind=publishednode name=$CLUSTER.$NODE
	[[ $CLUSTER != west || ! $BORDER ]] || name=west.$BORDER
	here lab kubectl -n monokube-published delete "$kind" "$name" && wait_for "$BOUND" is_there "$kind" "$name" && all_new_work
}
is_there() { get "$CLUSTER" "$GROUP/namespaces/monokube-published/$1s/$2" .spec | grep -q '[a-z]'; }

copies()
{
	get "$CLUSTER" "$GROUP/namespaces/monokube-peers/$1" '[.items[].metadata.name] | sort | join(" ")'
}
copies_are() { expect_eq "copies in $CLUSTER" "$2" "$(copies "$1")"; }
# Without the PublishedCluster, an introduced ClusterPeer stays for a minute.
copies_go()
{
	local kind before
	for kind in publishednodes publishedservices publishedclusters; do
		before=$(copies $kind)
		here lab kubectl -n monokube-peers delete "$kind" --all && wait_for "$BOUND" copies_are $kind "$before" || return 1
	done
	all_new_work
}

views() { get "$CLUSTER" "$GROUP/clusterpeers" '[.items[] | .metadata.name + " " + .status.podCidr + " " + .status.externalCidr] | sort | join(",")'; }
views_are() { expect_eq "views of $CLUSTER" "$1" "$(views)"; }
status_goes()
{
	local before peer
	before=$(views)
	for peer in $(get "$CLUSTER" "$GROUP/clusterpeers" '.items[].metadata.name'); do
		here lab kubectl patch clusterpeer "$peer" --subresource status --type merge -p '{"status":null}' || return 1
	done
	wait_for "$BOUND" views_are "$before" && all_new_work
}

# ---- the end, and what deaths of agents may not cost

everywhere()
{
	local cluster
	for cluster in "${CLUSTERS[@]}"; do
		of "$cluster" "$@"
	done
}
stop_load()
{
	everywhere end_all "$LOAD"
	wait_for 30 have_ended datagrams "$TMP"/load.*
}
stop_denied()
{
	everywhere end_all "$DENIED"
	wait_for 30 have_ended denied "$TMP"/denied.*
}
functions_end() { : >"$TMP/functions"; }

repeated()
{
	local row cluster pod
	for row in "west a" "west b" "east a" "east b" "hub a"; do
		read -r cluster pod <<<"$row"
		of "$cluster" on "$pod" nstat -asz TcpRetransSegs
	done | awk '/TcpRetransSegs/ { sum += $2 } END { print sum + 0 }'
}

witness() { :; }
witnessed() { echo 0; }
drops()
{
	local row cluster node
	for row in "${PLACES[@]}"; do
		read -r cluster node <<<"$row"
		of "$cluster" on "$node" "$MK_BIN" drops
	done | awk '$3 ~ /^[0-9]+$/ && $1 !~ /^(NOT_IPV4|PEER_DENIED)$/ { sum += $3 } END { print sum + 0 }'
}
