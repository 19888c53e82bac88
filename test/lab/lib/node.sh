# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/node.sh - the underlay, the nodes, their mount namespaces.

# node_addr NODE [FAMILY]
node_addr() { underlay_host "${2:-$LAB_PRIMARY}" $((10 + ${1#node})); }
# pod_cidr NODE [FAMILY]
pod_cidr() { if [[ ${2:-$LAB_PRIMARY} == 6 ]]; then echo "fd00:10:244:${1#node}::/64"; else echo "10.244.${1#node}.0/24"; fi; }

# in_node_families N: the addresses of number N of the nodes' network
in_node_families() { local family; for family in $(node_families); do underlay_host "$family" "$1"; done; }

# plug NAME ADDRESS...: one cable, an interface eth0 in that namespace, plugged into the underlay's
# bridge.
plug()
{
	local name=$1 netns addr
	shift
	netns=$(netns_of "$name")
	ip link add eth0 netns "$netns" type veth peer name "$name" netns "$(netns_of underlay)"
	ip -n "$(netns_of underlay)" link set "$name" master br0 up
	ip -n "$netns" link set lo up
	for addr in "$@"; do
		if [[ $addr == *:* ]]; then
			ip netns exec "$netns" sh -c 'echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6'
			ip -n "$netns" addr add "$addr/64" dev eth0 nodad
		else
			ip -n "$netns" addr add "$addr/24" dev eth0
		fi
	done
	ip -n "$netns" link set eth0 up
}

underlay_up()
{
	local underlay
	underlay=$(netns_of underlay)
	ip netns add "$underlay"
	# A switch, not a firewall: br_netfilter, if loaded, would reassemble and filter.
	ip netns exec "$underlay" sh -c '
		echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
		for bridge_filter in /proc/sys/net/bridge/bridge-nf-call-ip*tables; do
			[ ! -e "$bridge_filter" ] || echo 0 >"$bridge_filter"
		done'
	ip -n "$underlay" link add br0 type bridge
	ip -n "$underlay" link set br0 up
}

# Outside the cluster: it knows the underlay, but no route to a pod.
world_up()
{
	local family
	ip netns add "$(netns_of world)"
	# shellcheck disable=SC2046 # a list
	plug world $(in_node_families 200)
	for family in $(families); do
		ip -n "$(netns_of world)" addr add "${FAR_OF[$family]}" dev lo
	done
}

node_up()
{
	local node=$1 dir=$LAB_DIR/nodes/$1 netns family
	netns=$(netns_of "$node")
	mkdir -p "$dir"/{cluster,cni-bin,cni-conf/net.d,state,cni-state,overlay}
	ip netns add "$netns"
	# shellcheck disable=SC2046 # a list
	plug "$node" $(in_node_families $((10 + ${node#node})))
	for family in $(families); do
		ip -n "$netns" route add default via "$(underlay_host "$family" 200)"
	done
	node_mounts_up "$node"
	node_plugins "$dir/cni-bin"
}

# The node's mount namespace lives as long as a process that sleeps in it; mnt is a name for it. A
# bind mount of the namespace would need no process. But since Linux 6.18 the kernel sometimes
# refuses it to processes outside the machine's first mount namespace. (It compares namespace
# numbers to find loops, and assigns them in batches per CPU.)
node_mounts_up()
{
	local dir=$LAB_DIR/nodes/$1 pid
	(
		close_inherited
		exec setsid nsenter --net="/run/netns/$(netns_of "$1")" unshare --mount --propagation slave \
			"$LAB_LIB/node-mounts" "$LAB_DIR" "$dir"
	) </dev/null >/dev/null 2>"$dir/mounts.log" &
	pid=$!
	disown
	wait_until 10 mounts_done_or_failed "$dir" "$pid"
	if [[ ! -e $dir/mounted ]]; then
		cat "$dir/mounts.log" >&2
		die "the mount namespace of $1 cannot be made; what failed stands above"
	fi
	ln -s "/proc/$pid/ns/mnt" "$dir/mnt"
}

mounts_done_or_failed() { [[ -e $1/mounted ]] || ! kill -0 "$2" 2>/dev/null; }

# The plugins of Debian's containernetworking-plugins, as on a distribution's node.
node_plugins()
{
	local plugin
	for plugin in portmap tuning host-local ptp bridge; do
		[[ -x /usr/lib/cni/$plugin ]] ||
			die "/usr/lib/cni/$plugin is missing; install containernetworking-plugins"
		ln -s "/usr/lib/cni/$plugin" "$1/$plugin"
	done
}

node_object()
{
	local node=$1 index=${1#node} family cidrs='' addresses=''
	for family in $(families); do
		cidrs+=", \"$(pod_cidr "$node" "$family")\""
	done
	for family in $(node_families); do
		addresses+="  - {type: InternalIP, address: \"$(node_addr "$node" "$family")\"}"$'\n'
	done
	cat <<END
apiVersion: v1
kind: Node
metadata:
  name: $node
  labels:
    kubernetes.io/hostname: $node
    topology.kubernetes.io/zone: zone-$(((index - 1) % 2 + 1))
spec:
  podCIDR: "$(pod_cidr "$node")"
  podCIDRs: [${cidrs#, }]
status:
  addresses:
$addresses
  - type: Hostname
    address: $node
  conditions:
  - type: Ready
    status: "True"
END
}

# Does each agent's source have the Node objects?
nodes_exist()
{
	if has_api; then
		api_ask apply "$LAB_DIR"/objects/*.yaml >/dev/null
	else
		sync_objects
	fi
}

# lab_up COUNT [api] [pods]
lab_up()
{
	local count=$1 api=$2 pods=$3 node index
	[[ $count =~ ^[0-9]+$ ]] && ((count >= 1 && count <= MAX_NODES)) ||
		die "number of nodes '$count': expected 1 to $MAX_NODES"
	agent_binary >/dev/null
	# The directory is the claim: if two `lab up` have one name, one wins.
	mkdir "$LAB_DIR" 2>/dev/null ||
		die "lab '$LAB' is there already; \`lab down --name $LAB\` removes it, whole or half-built"
	trap lab_down EXIT # half a lab is worth nothing; the exit status stays
	mount -t tmpfs -o mode=755 "mklab-$LAB" "$LAB_DIR"
	mount --make-private "$LAB_DIR"
	mkdir "$LAB_DIR"/{nodes,pods,objects,tmp}
	echo "$LAB_SITE" >"$LAB_DIR/site"
	[[ -z $pods ]] || mkdir "$LAB_DIR/bound"
	underlay_up
	world_up
	for ((index = 1; index <= count; index++)); do
		node_object "node$index" >"$LAB_DIR/objects/node-node$index.yaml"
		node_up "node$index"
	done
	[[ -z $api ]] || api_up
	nodes_exist
	for node in $(all_nodes); do
		agent_launch "$node"
	done
	for node in $(all_nodes); do
		agent_await "$node"
	done
	touch "$LAB_DIR/up"
	trap - EXIT
}

# Every process of the lab is in one of its network namespaces.
lab_netns() { find /run/netns -maxdepth 1 -name "$LAB.*" -printf '%f\n' 2>/dev/null; }
lab_pids() { local netns; for netns in $(lab_netns); do ip netns pids "$netns" 2>/dev/null; done; }

kill_all_in()
{
	local pids
	pids=$(ip netns pids "$1" 2>/dev/null | tr '\n' ' ')
	# shellcheck disable=SC2086 # a list of numbers
	[[ -z $pids ]] || kill -KILL $pids 2>/dev/null || true
}

netns_is_idle() { [[ -z $(ip netns pids "$1" 2>/dev/null) ]]; }

netns_down()
{
	[[ -e /run/netns/$1 ]] || return 0 # gone before, as with a reboot
	kill_all_in "$1"
	wait_until 10 netns_is_idle "$1" || die "processes in namespace $1 do not end: $(ip netns pids "$1" | tr '\n' ' ')"
	ip netns del "$1"
}

# Remove everything, also of a lab that was only partly set up.
lab_down()
{
	local netns
	for netns in $(lab_netns); do
		netns_down "$netns"
	done
	while mountpoint -q "$LAB_DIR"; do
		umount -l "$LAB_DIR"
	done
	[[ ! -d $LAB_DIR ]] || rmdir "$LAB_DIR"
}
