#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_agent.sh - the agent's life: it follows the cluster, survives invalid input, and its
# work outlives it.
set -euo pipefail
export MK_LAB_ROUTING=Overlay # rows look for routes of the overlay
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"

CLUSTER_1=/run/mklab-$MK_LAB/nodes/node1/cluster

# service NAME VIP PORT [NODEPORT]
service() { service_yaml "$1" web "$2" "{port: $3, targetPort: http${4:+, nodePort: $4}}"; }
# apply_service NAME VIP PORT [NODEPORT]
apply_service() { service "$@" | apply "$1"; }

agent_lab_up()
{
	lab up 2
	lab pod node1 client >/dev/null
	lab pod node1 web-1 >/dev/null
	WEB_2=$(lab pod node2 web-2)
	serve web-1 web-1 --tcp 8080 --udp 5353
	serve web-2 web-2 --tcp 8080 --udp 5353
	serve world world --tcp 8080
	apply_service web "$VIP" 80 30080
	wait_for 5 ask client tcp "$VIP:80"
}

# Nothing changes, not even an index or a generation; the agent reports how much it wrote.
restart_writes_nothing()
{
	local before
	replaced_backends_go node1
	before=$(tables node1)
	lab agent stop node1
	lab agent start node1
	diff <(echo "$before") <(tables node1)
	lab log node1 | tail -n 20
	expect_match "last ready line" 'writes=0( |$)' "$(lab log node1 | grep 'info ready' | tail -n 1)"
}

follows_changes()
{
	local started
	service soon 10.96.66.2 81 >"$TMP/soon.yaml"
	cp "$CLUSTER_1/lab-endpointslice-default-web.yaml" "$TMP/slice.yaml"
	sed -i 's/name: web-lab/name: soon-lab/; s/service-name: web/service-name: soon/' "$TMP/slice.yaml"
	cp "$TMP/slice.yaml" "$CLUSTER_1/soon-slice.yaml"
	expect_failure ask client tcp 10.96.66.2:81 --timeout 0.3
	started=$EPOCHREALTIME
	cp "$TMP/soon.yaml" "$CLUSTER_1/soon.yaml"
	wait_for 10 table_has_soon
	awk -v a="$started" -v b="$EPOCHREALTIME" \
		'BEGIN { printf "# %d ms from the file to the table, our own looking too\n", 1000 * (b - a) }' >"$TMP/took"
	ask client tcp 10.96.66.2:81
	rm "$CLUSTER_1/soon.yaml" "$CLUSTER_1/soon-slice.yaml"
	wait_for 5 service_is_gone 10.96.66.2:81
}
table_has_soon()
{
	on node1 bpftool -j map lookup pinned /sys/fs/bpf/monokube/maps/frontends key 10 96 66 2 0 81 6 0 >/dev/null 2>&1
}
service_is_gone() { expect_failure ask client tcp "$1" --timeout 0.3; }

port_changes()
{
	apply_service web "$VIP" 8000 30080
	wait_for 5 ask client tcp "$VIP:8000"
	expect_eq "the old port" refused "$(ask client tcp "$VIP:80" --timeout 1 || true)"
	apply_service web "$VIP" 80 30080
	wait_for 5 ask client tcp "$VIP:80"
}

malformed_file()
{
	local start
	start=$(log_size)
	printf 'apiVersion: v1\nkind: Service\nmetadata: {name: web\nspec: [\n' >"$TMP/web.yaml"
	cp "$TMP/web.yaml" "$CLUSTER_1/web.yaml"
	wait_for 5 logged "$start" 'web\.yaml:?.*[45]'
	ask client tcp "$VIP:80"
	apply_service web "$VIP" 80 30080
}

nonsense_object()
{
	local start
	start=$(log_size)
	service web 300.1.2.3 80 >"$CLUSTER_1/web.yaml"
	wait_for 5 logged "$start" 'web\.yaml.*300\.1\.2\.3'
	ask client tcp "$VIP:80"
	service web "$VIP" 80 >"$CLUSTER_1/web.yaml"
	apply_service web "$VIP" 80 30080
}

# Endpoints without a Service are logged once, and have no other effect.
orphan_endpoints()
{
	local start
	start=$(log_size)
	cat >"$CLUSTER_1/orphan.yaml" <<-END
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: nobody-1, namespace: default, labels: {kubernetes.io/service-name: nobody}}
		addressType: IPv4
		endpoints: [{addresses: [10.244.1.99]}]
		ports: [{port: 80}]
	END
	wait_for 5 logged "$start" 'ignored: endpoints.*default/nobody'
	ask client tcp "$VIP:80"
	rm "$CLUSTER_1/orphan.yaml"
}

# A file is malformed from the start: the agent starts with the other files.
malformed_at_start()
{
	printf 'kind: [\n' >"$CLUSTER_1/broken.yaml"
	lab agent stop node1
	lab agent start node1
	ask client tcp "$VIP:80"
	rm "$CLUSTER_1/broken.yaml"
}

route_to_node2() { on node1 ip route show 10.244.2.0/24 | grep mkvxlan >/dev/null; }

# The marker Service shows that the agent has read everything written before it.
not_ready_keeps_routes()
{
	sed -i 's/status: "True"/status: "False"/' "/run/mklab-$MK_LAB/objects/node-node2.yaml"
	apply_service marker 10.96.66.3 80
	wait_for 5 ask client tcp 10.96.66.3:80
	route_to_node2
	on client ping -c 1 -W 2 "$WEB_2"
	sed -i 's/status: "False"/status: "True"/' "/run/mklab-$MK_LAB/objects/node-node2.yaml"
	lab delete marker.yaml
}

deleted_node()
{
	mv "/run/mklab-$MK_LAB/objects/node-node2.yaml" "$TMP/node-node2.yaml"
	rm "$CLUSTER_1/node-node2.yaml"
	wait_for 5 expect_failure route_to_node2
	expect_failure grep 192.168.99.12 <(on node1 bridge fdb show dev mkvxlan)
	expect_failure grep 10.18.0.2 <(on node1 ip neigh show dev mkvxlan)
	expect_failure on client ping -c 1 -W 1 "$WEB_2"
	cp "$TMP/node-node2.yaml" "/run/mklab-$MK_LAB/objects/"
	cp "$TMP/node-node2.yaml" "$CLUSTER_1/"
	wait_for 5 on client ping -c 1 -W 1 "$WEB_2"
}

# Connections through every kind of session survive stop, start, kill, start.
connections_survive()
{
	local -A PIPES=()
	hold pod client "$WEB_2:8080"
	hold service client "$VIP:80"
	hold outside client "$WORLD:8080"
	hold nodeport world "$NODE1:30080"
	hold host node1 "$VIP:80"
	lab agent stop node1
	pulse 2
	ask client tcp "$VIP:80"
	ask world tcp "$NODE1:30080"
	lab agent start node1
	pulse 3
	lab agent kill node1
	pulse 4
	ask client tcp "$VIP:80"
	lab agent start node1
	pulse 5
	lab agent stop node2
	pulse 6
	lab agent start node2
	pulse 7
}

agent_runs() { lab status | grep -E "^ +$1 .* agent [0-9]+" >/dev/null; }

# killed_while_starting NODE SECONDS: the delay only varies the place of the kill
killed_while_starting()
{
	lab agent start "$1" &
	wait_for 20 agent_runs "$1"
	sleep "$2"
	lab agent kill "$1"
	wait $! || true
}

# No packet of a stream is lost while the agents of both ends are stopped, killed, started, and
# killed again while they start.
no_packet_is_lost()
{
	local delay
	on client ping -q -i 0.01 -c 700 -W 2 "$WEB_2" >"$TMP/stream" &
	for delay in 0 0.01 0.03 0.06 0.1; do
		lab agent stop node1
		killed_while_starting node1 "$delay"
		lab agent start node1
		lab agent kill node2
		lab agent start node2
	done
	wait %1
	expect_match "the stream" '700 packets transmitted, 700 received' "$(cat "$TMP/stream")"
	ask client tcp "$VIP:80"
}

# Changes while the agent is down are applied when it is back.
changed_meanwhile()
{
	lab agent stop node1
	apply_service late 10.96.66.4 80
	lab delete "$TMP/web.yaml"
	lab agent start node1
	ask client tcp 10.96.66.4:80
	expect_failure ask client tcp "$VIP:80" --timeout 0.5
	apply_service web "$VIP" 80 30080
	lab delete "$TMP/late.yaml"
	wait_for 5 ask client tcp "$VIP:80"
}

# refuses REGEX FLAGS...: the agent does not start and says why
refuses()
{
	local regex=$1 out
	shift
	if out=$(on node1 timeout 10 "$MK_BIN" agent "$@" 2>&1); then
		echo "the agent started with $*"
		return 1
	fi
	expect_match "what it says" "$regex" "$out"
}

wrong_settings()
{
	refuses 'clusterCidr.*bogus.*expected' --node-name node1 --cluster-dir "$CLUSTER_1" --cluster-cidr bogus
	clusterCidr=bogus refuses 'clusterCidr.*bogus.*expected' --node-name node1 --cluster-dir "$CLUSTER_1"
	refuses 'clusterCidr' --node-name node1 --cluster-dir "$CLUSTER_1"
	refuses 'nodePortRange.*99999' --node-name node1 --cluster-dir "$CLUSTER_1" \
		--cluster-cidr 10.244.0.0/16 --node-port-range 30000-99999
	refuses 'vtepCidr.*10.18.0.0/30' --node-name node1 --cluster-dir "$CLUSTER_1" \
		--cluster-cidr 10.244.0.0/16 --vtep-cidr 10.18.0.0/30
}

device_number() { on node1 ip -o link show "$1" | cut -d: -f1; }

# Settings give the devices other names: they are the same devices, and keep their routes.
devices_get_other_names()
{
	local before
	before="$(device_number mkvxlan) $(device_number mksfc)"
	lab agent stop node1
	MK_AGENT_FLAGS='--vxlan-iface-name vx9 --sfc-iface-name sfc9' lab agent start node1
	expect_eq "numbers of the devices" "$before" "$(device_number vx9) $(device_number sfc9)"
	on client ping -c 1 -W 2 "$WEB_2"
	lab agent stop node1
	lab agent start node1
	expect_eq "numbers of the devices" "$before" "$(device_number mkvxlan) $(device_number mksfc)"
	on client ping -c 1 -W 2 "$WEB_2"
}

bpf_dirs() { on node1 ls -I "*.debug" /sys/fs/bpf | tr '\n' ' '; }

# A connection to a Service lives in the pinned tables.
pins_get_another_directory()
{
	local -A PIPES=()
	hold service client "$VIP:80"
	lab agent stop node1
	MK_AGENT_FLAGS='--bpf-dir /sys/fs/bpf/other' lab agent start node1
	expect_eq "directories of bpffs" "other " "$(bpf_dirs)"
	pulse 2
	on client ping -c 1 -W 2 "$WEB_2"
	lab agent stop node1
	lab agent start node1
	expect_eq "directories of bpffs" "monokube " "$(bpf_dirs)"
	pulse 3
	expect_match "check" "healthy$" "$(on node1 "$MK_BIN" check || true)"
}

# A control-plane node that the agent leaves alone: no device, no table, no NodePort; the others
# serve.
control_plane_is_left_alone()
{
	local start
	lab agent stop node1
	lab rm client
	lab rm web-1
	on node1 "$MK_BIN" cleanup
	label_node1 '.metadata.labels["node-role.kubernetes.io/control-plane"] = ""'
	start=$(log_size)
	MK_AGENT_FLAGS="--is-cp-nodes-deploy-allowed false" lab agent start node1 >/dev/null 2>&1 &
	wait_for 10 logged "$start" "^warn waiting for isCPNodesDeployAllowed to be true: Node 'node1' has the label of the control plane"
	expect_eq "devices" "" "$(on node1 sh -c 'ip -o link | grep -oE " mk[a-z0-9]+" || true')"
	expect_eq "CNI configuration" "" "$(on node1 ls -A /etc/cni/net.d)"
	expect_failure on world curl -s -o /dev/null --max-time 1 "http://$NODE1:30080"
	wait_for 10 ask world tcp 192.168.99.12:30080
	wait_for 5 on node1 "$MK_BIN" health ready
	expect_match "status" 'agent: running.*isCPNodesDeployAllowed' "$(on node1 "$MK_BIN" status || true)"
	lab agent kill node1
	wait $! || true
	label_node1 'del(.metadata.labels["node-role.kubernetes.io/control-plane"])'
	MK_AGENT_FLAGS="--is-cp-nodes-deploy-allowed false" lab agent start node1
	wait_for 10 ask world tcp "$NODE1:30080"
	lab agent stop node1
	lab agent start node1
	lab pod node1 client >/dev/null
	lab pod node1 web-1 >/dev/null
	serve web-1 web-1 --tcp 8080 --udp 5353
}

# label_node1 JQ: change node1's Node object, on every node
label_node1()
{
	local file
	for file in "/run/mklab-$MK_LAB"/nodes/*/cluster/*node1*; do
		python3 -c 'import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)' <"$file" | jq "$1" >"$TMP/node1.json"
		cp "$TMP/node1.json" "$file"
	done
}

second_agent()
{
	local before
	before=$(tables node1)
	refuses "an agent runs here already, pid $(on node1 cat /var/lib/monokube/agent.lock) .*/var/lib/monokube/agent.lock" \
		--node-name node1 --cluster-dir "$CLUSTER_1" --cluster-cidr 10.244.0.0/16
	diff <(echo "$before") <(tables node1)
	ask client tcp "$VIP:80"
}

sysctls_are_said() { lab log node1 | grep -E 'net[./]ipv4[./]ip_forward'; }

# All traces of monokube on a node, in every place that it writes to.
footprint()
{
	on node1 sh -c '
		ip -o link | grep -oE " mk[a-z0-9]+"
		ip route | grep -E "10\.(244|18|96)\."
		ip rule | grep -v -E "lookup (local|main|default)"
		tc filter show dev eth0 ingress; tc filter show dev eth0 egress
		tc qdisc show dev eth0 | grep clsact
		ls -A /sys/fs/bpf | grep monokube
		ls -A /var/lib/monokube /etc/cni/net.d
		ls /opt/cni/bin | grep monokube
		cat /proc/sys/net/ipv4/ip_local_reserved_ports
		true' | sed '/^$/d; /^\/.*:$/d'
}

cleanup_removes_all()
{
	lab rm web-1
	lab rm client
	lab agent stop node1
	on node1 "$MK_BIN" cleanup
	expect_eq "what is left of monokube on node1" "" "$(footprint)"
	expect_eq "ping of the outside" 0 "$(on node1 ping -c 1 -W 2 "$WORLD" >/dev/null; echo $?)"
	on node1 "$MK_BIN" cleanup
}

starts_after_cleanup()
{
	local addr
	lab agent start node1
	addr=$(lab pod node1 again)
	on node1 ping -c 1 -W 2 "$addr"
	on again ping -c 1 -W 2 "$WEB_2"
	wait_for 5 ask again tcp "$VIP:80"
}

agent_lab_up
check "the sysctls it sets are named" sysctls_are_said
check "a restart changes no table" restart_writes_nothing
check "a new Service comes into the table" follows_changes
[[ ! -s $TMP/took ]] || cat "$TMP/took"
check "a changed port is followed" port_changes
check "a malformed file is named, the last good state stays" malformed_file
check "an object that makes no sense is named, the last good state stays" nonsense_object
check "endpoints without a Service are named and left out" orphan_endpoints
check "a malformed file is there at the start" malformed_at_start
check "a node that becomes NotReady keeps its routes" not_ready_keeps_routes
check "a deleted node's routes go, and come back" deleted_node
check "connections survive stop, kill and start" connections_survive
check "no packet is lost while agents come and go" no_packet_is_lost
check "changes while it was away are found" changed_meanwhile
check "wrong settings are named with key and value" wrong_settings
check "vxlanIfaceName and sfcIfaceName change: the devices get the new names" devices_get_other_names
check "bpfDir changes: the tables go along, and connections stay" pins_get_another_directory
check "isCPNodesDeployAllowed false: a node of the control plane is left alone, NodePorts too" control_plane_is_left_alone
check "a second agent is refused, and touches nothing" second_agent
check "cleanup removes everything" cleanup_removes_all
check "and the agent starts again after it" starts_after_cleanup
finish
