#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_clusters_joined.sh - a hub and two branches, joined by one command for each branch. Their agents read
# each other's API server, and nothing is carried. East exports what is no pod: its leader maps that to an external
# address, which west reaches by the hub. The address stays when endpoints, agents and leaders come and go.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

# shellcheck disable=SC2034 # read by clusters.sh
CLUSTERS=(west east hub) WITH_API=yes
# shellcheck source=test/lab/lib/clusters.sh
. "$HERE/lib/clusters.sh"
# shellcheck disable=SC2034 # read by clusters.sh
MORE_FLAGS="--clusterset-cidr $(both 247.254.0.0/16) --external-cidr $(both 247.255.0.0/16)"
MCS=/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop
SLICES=/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices
SECRETS=/api/v1/namespaces/monokube-peers/secrets

# ---- what kubeadm and manifests/multicluster.yaml would have made

installed()
{
	namespaces
	cat <<-END
		---
		apiVersion: v1
		kind: ConfigMap
		metadata: {name: monokube-cfg, namespace: kube-system}
		data: {clusterName: $1}
		---
		apiVersion: rbac.authorization.k8s.io/v1
		kind: Role
		metadata: {name: monokube-peer-reader, namespace: monokube-published}
		rules: []
	END
}

# kubeconfig: a context for each cluster
kubeconfig()
{
	local cluster dir
	echo "apiVersion: v1"
	echo "kind: Config"
	echo "contexts:"
	printf -- '- {name: %s, context: {cluster: %s, user: %s}}\n' west{,,} east{,,} hub{,,}
	echo "clusters:"
	for cluster in "${CLUSTERS[@]}"; do
		dir=/run/mklab-$BASE-$cluster/api
		echo "- {name: $cluster, cluster: {server: \"$(cat "$dir/ready")\", certificate-authority-data: $(base64 -w 0 "$dir/ca.crt")}}"
	done
	echo "users:"
	for cluster in "${CLUSTERS[@]}"; do
		echo "- {name: $cluster, user: {token: $BASE-$cluster-reader}}"
	done
}

# fill_tokens CLUSTER: as kube-controller-manager does, with the token that this API server knows
fill_tokens()
{
	local name
	for name in $(get "$1" "$SECRETS" '.items[] | select(.type == "kubernetes.io/service-account-token" and (.data | not)) | .metadata.name'); do
		of "$1" lab kubectl -n monokube-peers patch secret "$name" --type merge -p "$(jq -cn \
			--arg token "$(printf %s "$BASE-$1-reader" | base64 -w 0)" --arg ca "$(base64 -w 0 "/run/mklab-$BASE-$1/api/ca.crt")" \
			'{data: {token: $token, "ca.crt": $ca}}')"
	done
}

# join CLUSTER: the user's command, while tokens are filled in
join()
{
	local pid cluster
	of hub on node1 "$MK_BIN" peer join hub "$1" --relay --kubeconfig "$TMP/kubeconfig" >"$TMP/join-$1" 2>&1 &
	pid=$!
	while kill -0 "$pid" 2>/dev/null; do
		for cluster in hub "$1"; do
			fill_tokens "$cluster" >/dev/null
		done
		sleep 0.2
	done
	wait "$pid" || { cat "$TMP/join-$1"; return 1; }
}

# ---- what clusters have

import_address() { get "$1" "$MCS/serviceimports/$2" '.spec.ips[0] // empty'; }
slices_of() { get "$1" "$SLICES" '[.items[] | select(.metadata.labels["multicluster.kubernetes.io/service-name"] == "'"$2"'") | .endpoints[].addresses[0]] | sort | join(" ")'; }
has_endpoints() { expect_eq "number of endpoints of $2 in $1" "$3" "$(slices_of "$1" "$2" | wc -w)"; }
# mapped SERVICE: "ADDRESS=TARGET" of each endpoint that east has published
mapped()
{
	get east "$GROUP/namespaces/monokube-published/publishedservices/east.shop.$1" \
		'[.spec.slices[]?.endpoints[]? | "\(.addresses[0])=\(.target)"] | sort | join(" ")'
}
is_mapped() { expect_match "external address of $1" "^$(by_family 247.255. fd00:247:255)[^ ]*=$(in_family "$2")\$" "$(mapped "$1")"; }

# asked CLUSTER POD SERVICE PROTOCOL: who answers at the clusterset's address
asked() { of "$1" ask "$2" "$4" "$(with_port "$(import_address "$1" "$3")" 80)" | cut -d' ' -f1; }
answers() { expect_eq "who answers $2 of $1 for $3" "$5" "$(asked "$1" "$2" "$3" "$4" || true)"; }

# outside_answers SERVICE: the process outside answers all of west, each by TCP and UDP
outside_answers()
{
	local from protocol
	for from in a b node1; do
		for protocol in tcp udp; do
			wait_for 20 answers west "$from" "$1" "$protocol" world
		done
	done
}

# ---- rows

one_command_each()
{
	local cluster node
	for cluster in "${CLUSTERS[@]}"; do
		installed "$cluster" | of "$cluster" apply installed
	done
	kubeconfig >"$TMP/kubeconfig"
	join west
	join east
	expect_match "output" "hub: ClusterPeer east created" "$(cat "$TMP/join-east")"
	for cluster in west east; do
		wait_for 30 connected "$cluster" hub Connected
		wait_for 30 connected hub "$cluster" Connected
	done
	wait_for 40 peers_are hub node1 "east direct ok,west direct ok"
	wait_for 40 has_peers west "east hub"
	wait_for 40 has_peers east "hub west"
	for node in node1 node2; do
		wait_for 30 peers_are west "$node" "east hub ok,hub direct ok"
		wait_for 30 peers_are east "$node" "hub direct ok,west hub ok"
	done
}

again()
{
	join east
	expect_failure grep -E " (created|changed)" "$TMP/join-east"
	expect_match "output" "hub: ClusterPeer east unchanged" "$(cat "$TMP/join-east")"
}

branches_use_services()
{
	local pod
	exports west
	exports east
	wait_for 60 has_endpoints west east 1
	wait_for 60 has_endpoints east west 1
	for pod in a b; do
		wait_for 20 answers west "$pod" east tcp b
		wait_for 20 answers east "$pod" west udp b
	done
}

# A host outside of east
is_reached()
{
	of east serve world world --tcp 9191 --udp 9191
	exports east out 9191 '{addresses: [192.168.102.200]}'
	wait_for 40 is_mapped out 192.168.102.200
	wait_for 60 has_endpoints west out 1
	outside_answers out
	mapped out >"$TMP/mapped"
	slices_of west out >"$TMP/view"
}

# A second Service with the same target has no second mapping.
is_idempotent()
{
	exports east twin 9191 '{addresses: [192.168.102.200]}'
	wait_for 40 is_mapped twin 192.168.102.200
	expect_eq "mapping of the second Service" "$(cat "$TMP/mapped")" "$(mapped twin)"
	wait_for 60 has_endpoints west twin 1
	expect_eq "view of the second Service" "$(cat "$TMP/view")" "$(slices_of west twin)"
	outside_answers twin
	of east lab kubectl -n shop delete serviceexport twin
	wait_for 60 has_endpoints west twin 0
	expect_eq "mapping" "$(cat "$TMP/mapped")" "$(mapped out)"
	outside_answers out
}

# While no agent of east runs, its programs translate.
is_kept()
{
	local node
	for node in node1 node2; do
		of east lab agent kill "$node"
	done
	of hub lab agent kill node1
	outside_answers out
	of hub lab agent start node1
	for node in node2 node1; do
		of east lab agent start "$node"
	done
	exports east other 9191 '{addresses: [192.168.102.11]}' # the next leader writes, and gives no address twice
	wait_for 60 is_mapped other 192.168.102.11
	expect_eq "mapping" "$(cat "$TMP/mapped")" "$(mapped out)"
	expect_failure expect_eq "mapping of another target" "${MAPPED%=*}" "$(mapped other | cut -d= -f1)"
	outside_answers out
}

# An unmapped address is closed. It is not given to another target within an hour.
is_given_back()
{
	local view
	view=$(cat "$TMP/view")
	of east lab kubectl -n shop delete serviceexport out
	wait_for 60 has_endpoints west out 0
	wait_for 20 expect_failure of west ask a tcp "$(with_port "$view" 9191)" --timeout 1
	exports east next 9191 '{addresses: [192.168.102.12]}'
	wait_for 40 is_mapped next 192.168.102.12
	expect_failure expect_eq "mapping of another target" "${MAPPED%=*}" "$(mapped next | cut -d= -f1)"
	exports east out 9191 '{addresses: [192.168.102.200]}'
	wait_for 60 has_endpoints west out 1
	outside_answers out
}

leaves()
{
	of hub on node1 "$MK_BIN" peer leave hub east --kubeconfig "$TMP/kubeconfig"
	wait_for 40 has_peers hub west
	wait_for 90 has_peers west hub # an introduced one stays for a minute
	wait_for 40 has_peers east ""
	wait_for 40 has_endpoints west out 0
	expect_eq "Secrets of east" "" "$(get east "$SECRETS" '[.items[].metadata.name] | join(" ")')"
}

labs_up
check "one command for each branch: they read each other, and branches know each other" one_command_each
check "the same command again changes nothing" again
check "branches use each other's Service by the hub" branches_use_services
check "a host outside of east has an external address, and west reaches it by the hub" is_reached
MAPPED=$(cat "$TMP/mapped" 2>/dev/null || true)
check "a target that is exported twice is mapped once" is_idempotent
check "agents and leaders are killed: the address is kept, and answers" is_kept
check "without the export the address is closed, and no other target gets it" is_given_back
check "peer leave: the hub and the branches forget each other" leaves
finish
