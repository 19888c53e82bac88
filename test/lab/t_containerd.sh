#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_containerd.sh - Debian's containerd on node1, asked for pods with the kubelet's calls
# (the Container Runtime Interface), with the configuration and the plugin that the agent installs.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/runtime.sh
. "$HERE/lib/runtime.sh"
MANY=8

trap 'runtime_down || true; cleanup' EXIT
explain() { tail -n 5 "$TMP/containerd.log"; }

# ---- containerd

configure()
{
	cat >"$RUNTIME/config.toml" <<END
version = 2
root = "$RUNTIME/root"
state = "$RUNTIME/state"
[grpc]
  address = "$RUNTIME/sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  # the kernel refuses a lower value without CAP_SYS_RESOURCE
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/opt/cni/bin"
  conf_dir = "/etc/cni/net.d"
END
}

containerd_start()
{
	lab exec node1 sh -c 'echo $$ >"$0"; exec containerd -c "$1"' "$RUNTIME/pid" "$RUNTIME/config.toml" \
		>>"$TMP/containerd.log" 2>&1 </dev/null &
	wait_for 20 network_ready
}
network_ready() { cri Status | jq -e '.status.conditions | map(select(.type == "NetworkReady")) == [{type: "NetworkReady", status: true}]'; }

containerd_kill()
{
	local pid
	pid=$(<"$RUNTIME/pid")
	kill -KILL "$pid"
	wait_for 10 is_gone "$pid"
}
is_gone() { ! kill -0 "$1" 2>/dev/null; }

cri() { "$HERE/cri.py" "$RUNTIME/sock" "$@"; }

# ---- sandboxes

# config NAME PORT... -- [JQ]: PORT is [IP:]HOST:POD[/udp|/sctp], as for `lab pod`
config()
{
	local name=$1 ports=() filter=.
	shift
	while (($#)) && [[ $1 != -- ]]; do
		ports+=("$1")
		shift
	done
	[[ ${1:-} != -- ]] || filter=$2
	jq -cn --arg name "$name" --arg logs "$RUNTIME/logs" --arg cgroup "$CGROUP" '{config: {
		metadata: {name: $name, uid: "uid-\($name)", namespace: "default"}, hostname: $name,
		log_directory: $logs, linux: {cgroup_parent: $cgroup},
		port_mappings: [$ARGS.positional[] |
			capture("^((?<ip>[0-9a-f.:]+):)?(?<host>[0-9]+):(?<pod>[0-9]+)(/(?<proto>tcp|udp|sctp))?$") |
			{host_ip: (.ip // ""), host_port: (.host | tonumber), container_port: (.pod | tonumber),
			 protocol: (.proto // "tcp" | ascii_upcase)}]}} | '"$filter" --args "${ports[@]}"
}

# sandbox NAME PORT... -- [JQ]: NAME is then a place for `on`, `serve` and `ask`
sandbox()
{
	local said
	said=$(cri RunPodSandbox "$(config "$@")") || {
		echo "$said"
		return 1
	}
	jq -c . <<<"$said" >"$TMP/id.$1"
	pod_place "$1" "$(status_of "$1" | jq -er '.info.info | fromjson | .runtimeSpec.linux.namespaces[] |
		select(.type == "network").path')"
}
status_of() { cri PodSandboxStatus "$(jq -c '. + {verbose: true}' "$TMP/id.$1")"; }
stop() { cri StopPodSandbox "$(<"$TMP/id.$1")"; }
remove()
{
	stop "$1"
	rm -f "$TMP/netns.$1"
	cri RemovePodSandbox "$(<"$TMP/id.$1")"
	rm "$TMP/id.$1"
}
removed()
{
	local name
	for name in "$@"; do
		remove "$name"
	done
	wait_for 10 nothing_left
}

# every METHOD: for all sandboxes that containerd knows, in parallel
every()
{
	cri ListPodSandbox | jq -c --arg method "$1" '.items[]? | "\($method) \({pod_sandbox_id: .id})"' -r | cri --many
}

# ---- rows

what_the_kubelet_asks()
{
	local status ip
	sandbox asked
	status=$(status_of asked)
	ip=$(jq -r .status.network.ip <<<"$status")
	expect_match "address" "^$A_POD\$" "$ip"
	expect_eq "address of eth0" "$ip" "$(pod_ip asked)"
	expect_eq "all addresses" "$(on asked ip -j addr show eth0 | jq -c '[.[0].addr_info[] | select(.scope == "global").local] | sort')" \
		"$(jq -c '.status.network | [.ip, .additional_ips[]?.ip] | sort' <<<"$status")"
	expect_eq "state" SANDBOX_READY "$(jq -r '.status.state // "SANDBOX_READY"' <<<"$status")"
	expect_match "name on the node" 'alias default/asked' "$(on node1 ip -o link show type veth)"
	on asked ping -c 1 -W 2 "$LOCALHOST"
	removed asked
}

every_kind_of_port()
{
	sandbox web 8080:8080 5300:53/udp 9900:9/sctp $NODE1:8081:8080 $EXTRA:8082:8080 $LOCALHOST:8083:8080 0:8084
	serve web web --tcp 8080 --udp 53
	serve_sctp web web 9
	for proto in tcp/8080 udp/5300 sctp/9900; do
		reaches web $WORLD world "${proto%/*}" "$NODE1:${proto#*/}"
		reaches web $WORLD world "${proto%/*}" "$EXTRA:${proto#*/}"
		reaches web $NODE2 node2 "${proto%/*}" "$NODE1:${proto#*/}"
		reaches web $NODE2 far "${proto%/*}" "$NODE1:${proto#*/}"
		reaches web "$NODE1" node1 "${proto%/*}" "$NODE1:${proto#*/}"
		reaches web $VPOD1 node1 "${proto%/*}" "$LOCALHOST:${proto#*/}"
		reaches web $VPOD1 web "${proto%/*}" "$NODE1:${proto#*/}"
	done
	refused world udp $NODE1:8080
	refused world tcp $NODE1:5300
	refused world tcp $NODE1:8084
}

of_one_address()
{
	reaches web $WORLD world tcp $NODE1:8081
	reaches web $WORLD world tcp $EXTRA:8082
	reaches web $VPOD1 node1 tcp $LOCALHOST:8083
	refused world tcp $EXTRA:8081
	refused world tcp $NODE1:8082
	refused world tcp $NODE1:8083
	refused node1 tcp $NODE1:8083
}

port_is_taken()
{
	local said before
	before=$(left)
	said=$(sandbox second 8099:80 8080:8080) && {
		echo "accepted: $said"
		return 1
	}
	expect_match "why not" "host port $EVERYWHERE:8080/tcp, .* leads to container '[0-9a-f]{64}' .*$(pod_ip web)" "$said"
	every_failed_is_removed
	wait_for 10 left_is "$before"
	reaches web $WORLD world tcp $NODE1:8080
}
# The kubelet removes the remains of a failed attempt.
every_failed_is_removed()
{
	cri ListPodSandbox | jq -r '.items[]? | select(.state == "SANDBOX_NOTREADY") |
		"StopPodSandbox \({pod_sandbox_id: .id})", "RemovePodSandbox \({pod_sandbox_id: .id})"' >"$TMP/failed"
	while read -r method id; do
		cri "$method" "$id"
	done <"$TMP/failed"
}

two_pods()
{
	sandbox client
	reaches web "$(pod_ip client)" client tcp "$(pod_ip web):8080"
	reaches web "$(pod_ip client)" client tcp $NODE1:8080
	service_of "$(pod_ip web)" node1
	wait_for 10 reaches web "$(pod_ip client)" client tcp $SHARED:80
	reaches web $VPOD1 web tcp $SHARED:80
	reaches web "$A_VPOD" world tcp $NODE1:30055
	service_of "$FAR" node2
	wait_for 10 reaches far "$(pod_ip client)" client tcp $SHARED:80
	lab delete "$TMP/shared.yaml"
}

containerd_restarts()
{
	containerd_kill
	reaches web $WORLD world tcp $NODE1:8080
	containerd_start
	reaches web $WORLD world tcp $NODE1:8080
	expect_eq "address" "$(pod_ip web)" "$(status_of web | jq -r .status.network.ip)"
}

stop_and_remove()
{
	stop web
	refused world tcp $NODE1:8080
	refused node1 tcp $LOCALHOST:8080
	stop web
	sandbox heir 8080:8080 9900:9/sctp
	serve heir heir --tcp 8080
	reaches heir $WORLD world tcp $NODE1:8080
	removed web heir client
}

# The request also has members for others: annotations, DNS, the cgroup's path.
ALL='{dns: true, cgroupPath: true, ips: true, mac: true, aliases: true,
	"io.kubernetes.cri.pod-annotations": true}'
ANNOTATION=$'{"quoted": "a \\"b\\""}\nsecond line \\ \' \t \u00e9'
capabilities()
{
	on node1 sh -c 'jq ".plugins[0].capabilities += $0" /etc/cni/net.d/10-monokube.conflist >/etc/cni/net.d/tmp &&
		mv /etc/cni/net.d/tmp /etc/cni/net.d/00-all.conflist' "$ALL"
	wait_for 10 knows_capabilities true
	sandbox all 8080:8080 -- ".config.annotations = {\"example.org/a\": $(jq -n --arg a "$ANNOTATION" '$a')} |
		.config.dns_config = {servers: [\"10.96.0.10\"], searches: [\"a.example\"], options: [\"ndots:2\"]}"
	expect_eq "annotation" "$ANNOTATION" "$(status_of all | jq -r '.status.annotations["example.org/a"]')"
	serve all all --tcp 8080
	reaches all $WORLD world tcp $NODE1:8080
	removed all
	on node1 rm /etc/cni/net.d/00-all.conflist
	wait_for 10 knows_capabilities null
}
knows_capabilities()
{
	expect_eq "capability dns of containerd's configuration" "$1" "$(cri Status '{"verbose": true}' |
		jq -r '.info.cniconfig | fromjson | .Networks[1].Config.Plugins[0].Network.capabilities.dns')"
}

# The annotation reaches the plugin by the configuration that the agent has installed.
function_ports()
{
	sandbox fw -- '.config.annotations = {"networking.monokube.io/function-ports": "Bridged"}'
	expect_match "port inside" 'master chain state UP' "$(on fw ip link show inside)"
	expect_match "port outside" 'master chain state UP' "$(on fw ip link show outside)"
	expect_match "host's ends" 'fw@outside' "$(on node1 ip link show type veth)"
	removed fw
	expect_eq "ports left" 0 "$(on node1 ip -o link show type veth | grep -c 'mk[01]' || true)"
}

bad_function_ports()
{
	local said
	said=$(sandbox bad -- '.config.annotations = {"networking.monokube.io/function-ports": "Bridge"}') && {
		echo "a sandbox with a wrong annotation runs"
		return 1
	}
	expect_match "error" "function-ports is 'Bridge': expected Bridged, Inline, Routed, Tap or End" "$said"
	wait_for 10 nothing_left
}

# limit_of WHERE DEVICE: FIELD of the qdisc that limits a pod
limit_of() { on "$1" tc -s -j qdisc show dev "$2" root | jq ".[] | select(.kind == \"tbf\") | $3"; }

bandwidth()
{
	local device
	sandbox slow 8080:8080 -- '.config.annotations = {"kubernetes.io/ingress-bandwidth": "10M",
		"kubernetes.io/egress-bandwidth": "20M"}'
	device=$(on node1 ip -j link show type veth | jq -r '.[] | select(.ifalias == "default/slow").ifname')
	serve slow slow --tcp 8080
	reaches slow "$WORLD" world tcp "$NODE1:8080"
	expect_eq "received bytes per second" 1250000 "$(limit_of node1 "$device" .options.rate)"
	expect_eq "sent bytes per second" 2500000 "$(limit_of slow eth0 .options.rate)"
	expect_match "packets received" '^[1-9]' "$(limit_of node1 "$device" .packets)"
	expect_match "packets sent" '^[1-9]' "$(limit_of slow eth0 .packets)"
	removed slow
}

no_agent()
{
	lab agent kill node1
	sandbox alone 8080:8080 8080:8080/udp $LOCALHOST:8083:8080
	serve alone alone --tcp 8080 --udp 8080
	reaches alone $WORLD world tcp $NODE1:8080
	reaches alone $WORLD world udp $NODE1:8080
	reaches alone $VPOD1 node1 tcp $LOCALHOST:8083
	removed alone
	refused world tcp $NODE1:8080
	lab agent start node1
	nothing_left
}

# ---- containerd is killed

many_at_once()
{
	local number
	for ((number = 1; number <= MANY; number++)); do
		echo "RunPodSandbox $(config "many-$number" $((7000 + number)):8080 $((7000 + number)):53/udp)"
	done
}
# devices AT_LEAST|AT_MOST NUMBER: of pods on the node
devices()
{
	local seen
	seen=$(on node1 ip -o link show type veth | grep -c 'alias default/' || true)
	if [[ $1 == AT_LEAST ]]; then
		((seen >= $2))
	else
		((seen <= $2))
	fi
}

# killed_at COUNT: while pods are created, when the node has COUNT of them. On a busy machine the
# last call may be answered before containerd is killed: then try once more.
killed_at()
{
	local try
	for try in 1 2 3; do
		create_and_kill "$1"
		! grep -q UNAVAILABLE "$TMP/many" || return 0
	done
	echo "containerd had answered all calls, $try times"
	return 1
}
create_and_kill()
{
	local calls
	many_at_once | cri --many >"$TMP/many" 2>&1 &
	calls=$!
	wait_for 30 devices AT_LEAST "$1"
	containerd_kill
	wait "$calls"
	containerd_start
	all_removed
}
# As the kubelet treats unwanted and failed pods.
all_removed()
{
	expect_eq "answers to StopPodSandbox" "{}" "$(every StopPodSandbox | sort -u)"
	expect_eq "answers to RemovePodSandbox" "{}" "$(every RemovePodSandbox | sort -u)"
	expect_eq "sandboxes" "{}" "$(cri ListPodSandbox)"
	wait_for 10 nothing_left
}

# While pods are stopped, when half of their devices are gone
killed_while_removing()
{
	many_at_once | cri --many >"$TMP/many"
	expect_eq "pods" $MANY "$(grep -c pod_sandbox_id "$TMP/many")"
	every StopPodSandbox >"$TMP/many" 2>&1 &
	local calls=$!
	wait_for 30 devices AT_MOST $((MANY / 2))
	containerd_kill
	wait "$calls"
	containerd_start
	all_removed
}

# ... and the next pods get the same ports and addresses.
all_again()
{
	many_at_once | cri --many >"$TMP/many"
	expect_eq "pods" $MANY "$(grep -c pod_sandbox_id "$TMP/many")"
	all_removed
}

runtime_up
configure
containerd_start
on node1 ctr --address "$RUNTIME/sock" --namespace k8s.io images import "$TMP/pause.tar" >/dev/null
FAR=$(lab pod node2 far)
serve far far --tcp 8080
LEFT_BEFORE=$(left)

check "a sandbox has what the kubelet asks for" what_the_kubelet_asks
check "host ports of TCP, UDP and SCTP, from everywhere" every_kind_of_port
check "host ports of one address" of_one_address
check "a host port that is taken: the error says so, nothing is left" port_is_taken
check "two pods, and Services" two_pods
check "containerd is killed and starts again: traffic goes on" containerd_restarts
check "stopped twice, removed: the next pod has the port" stop_and_remove
check "every capability, annotations with quotes and lines" capabilities
check "annotations limit what a pod receives and sends" bandwidth
check "an annotation makes the ports of a function pod" function_ports
check "a wrong annotation is an error that names it" bad_function_ports
check "no agent: sandboxes come and go" no_agent
check "containerd is killed when the first pods have come: nothing is left" killed_at 1
check "containerd is killed when half of the pods have come: nothing is left" killed_at $((MANY / 2))
check "containerd is killed when the last pod has come: nothing is left" killed_at $MANY
check "containerd is killed while it stops pods: nothing is left" killed_while_removing
check "all pods again" all_again
finish
