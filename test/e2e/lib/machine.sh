# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/e2e/lib/machine.sh - the nodes: namespaces for network, mounts, processes, host name and
# cgroups, in each containerd and a kubelet. lib/machine-init is the node's process 1.

NODE_SECONDS=120

# ---- cgroups: a group per node in every hierarchy, and a namespace that shows it as the root

hierarchies() { awk '$1 == "cgroup" || $1 == "cgroup2" {print $2}' /proc/mounts; }
group_of() { echo "$LAB-$1"; }

# Move the calling process, and nothing else, into the node's groups.
join_groups()
{
	local node=$1 mount group setting
	for mount in $(hierarchies); do
		group=$mount/$(group_of "$node")
		mkdir -p "$group"
		for setting in cpuset.cpus cpuset.mems; do
			[[ ! -e $group/$setting ]] || cat "$mount/$setting" >"$group/$setting"
		done
		echo "$BASHPID" >"$group/cgroup.procs"
	done
}

# Succeeds when none is left: the processes in them end some time after they are killed.
leave_groups()
{
	local mount group
	for mount in $(hierarchies); do
		for group in "$mount/$LAB"-node*; do
			[[ ! -d $group ]] || find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || return
		done
	done
}

# ---- a node

# second_addresses NAME ADDRESS/BITS: of the second family
second_addresses()
{
	local netns
	[[ $SECOND_WORLD ]] || return 0
	netns=$(netns_of "$1")
	ip netns exec "$netns" sh -c 'echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6'
	# shellcheck disable=SC2046 # an option, or none
	ip -n "$netns" addr add "$2" dev eth0 $([[ $2 != *:* ]] || echo nodad)
}

machine_network()
{
	ip netns add "$(netns_of "$1")"
	plug "$1" "$(node_addr "$1")"
	ip -n "$(netns_of "$1")" route add default via "$WORLD_ADDR"
	second_addresses "$1" "$(second_addr "$1")/${BITS2:-}"
	[[ ! $SECOND_WORLD ]] || ip -n "$(netns_of "$1")" route add default via "$SECOND_WORLD"
}

machine_up()
{
	local node=$1 dir=$LAB_DIR/nodes/$1 pid
	mkdir -p "$dir"
	containerd_config >"$dir/containerd.toml"
	kubelet_config "$node" >"$dir/kubelet.yaml"
	(
		close_inherited
		join_groups "$node"
		exec setsid nsenter --net="/run/netns/$(netns_of "$node")" unshare --mount --uts --pid --cgroup --fork \
			--kill-child=KILL --propagation private "$HERE/lib/machine-init" "$node" "$(node_addrs "$node" ,)" "$LAB_DIR" "$CACHE/bin" "$WORLD_ADDR"
	) </dev/null >"$dir/init.log" 2>&1 &
	pid=$!
	disown
	record_pid "$pid" "$dir/pid"
	wait_until "$NODE_SECONDS" answers_or_gone "$node" || fail "nodes/$node/containerd" "containerd of $node does not answer after $NODE_SECONDS s"
	machine_pid "$node" >/dev/null || fail "nodes/$node/init" "process 1 of $node ended"
}

machine_pid() { recorded_pid "$LAB_DIR/nodes/$1/pid"; }
containerd_answers() { (in_machine "$1" ctr version) >/dev/null 2>&1; }
answers_or_gone() { containerd_answers "$1" || ! machine_pid "$1" >/dev/null; }

# in_machine NODE COMMAND...: as a shell on that node
in_machine()
{
	local pid
	pid=$(machine_pid "$1") || die "node $1 does not run; see $LAB_DIR/nodes/$1/init.log"
	shift
	nsenter --net="/proc/$pid/ns/net" --mount="/proc/$pid/ns/mnt" --uts="/proc/$pid/ns/uts" \
		--cgroup="/proc/$pid/ns/cgroup" --pid="/proc/$pid/ns/pid_for_children" --wd=/ -- env PATH="$CACHE/bin:$PATH" "$@"
}

import_images()
{
	local image
	for image in "$CACHE"/{pause,python,nft,suricata}.tar "$ROOT/build/monokube-image.tar"; do
		in_machine "$1" ctr -n k8s.io images import - <"$image" >/dev/null
	done
}

# No process here may lower its oom_score_adj, so containers keep containerd's. Without ip_pref the
# IPv4 address comes first in podIPs, also in a cluster of 6,4.
containerd_config()
{
	cat <<-END
		version = 2
		[plugins."io.containerd.grpc.v1.cri"]
		  sandbox_image = "$PAUSE_IMAGE"
		  restrict_oom_score_adj = true
		  ip_pref = "cni"
		[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
		  runtime_type = "io.containerd.runc.v2"
		  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
		    BinaryName = "$CACHE/bin/runc"
		[plugins."io.containerd.grpc.v1.cri".cni]
		  bin_dir = "/opt/cni/bin"
		  conf_dir = "/etc/cni/net.d"
	END
}

kubelet_config()
{
	local pki=$LAB_DIR/pki
	cat <<-END
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $pki/ca.crt}}
		authorization: {mode: Webhook}
		tlsCertFile: $pki/$1.crt
		tlsPrivateKeyFile: $pki/$1.key
		address: "$ANY"
		featureGates: {IPv6DualStack: $([[ $SECOND_WORLD ]] && echo true || echo false)}
		clusterDNS: ["$DNS_SERVICE"]
		clusterDomain: cluster.local
		cgroupDriver: cgroupfs
		failSwapOn: false
		evictionHard: {memory.available: 50Mi, nodefs.available: 1%, imagefs.available: 1%}
		imageGCHighThresholdPercent: 100
	END
}

nodes_exist() { [[ $(kubectl get nodes -o name 2>/dev/null | wc -l) == "${#NODES[@]}" ]]; }

nodes_up()
{
	local node
	for node in "${NODES[@]}"; do
		machine_up "$node"
		import_images "$node"
	done
	wait_until "$NODE_SECONDS" nodes_exist ||
		fail "nodes/${NODES[0]}/kubelet" "not every kubelet has made its Node after $NODE_SECONDS s"
}
