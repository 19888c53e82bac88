# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/common.sh - names, places and messages that all parts of the lab share. A lab
# consists of network namespaces LAB.node1.., LAB.world, LAB.underlay, LAB.api and LAB.POD per pod,
# and one tmpfs /run/mklab-LAB with everything else. The names have no other dots, so two labs never
# collide.
# shellcheck disable=SC2034 # read by the other parts

LAB_FAMILY=${MK_LAB_FAMILY:-4} # 4, 6: a cluster of IPv6 alone, 46 or 64: both, the primary one first
LAB_PRIMARY=${LAB_FAMILY:0:1}
UNDERLAY_AUTO=6 # underlayFamily auto
[[ $LAB_FAMILY != *4* ]] || UNDERLAY_AUTO=4
# 4 with family 6: nodes also have IPv4 addresses, for the overlay
LAB_UNDERLAY=${MK_LAB_UNDERLAY:-$UNDERLAY_AUTO}
API_PORT=6443
# Of family 4 and 6: world's address behind it (RFC 5737 and RFC 3849: no machine has it), ranges
declare -A FAR_OF=([4]=203.0.113.10 [6]=2001:db8::10)
declare -A CLUSTER_OF=([4]=10.244.0.0/16 [6]=fd00:10:244::/48)
declare -A VTEPS_OF=([4]=10.18.0.0/16 [6]=fd4d:4b00:12::/64)

# families: of the cluster, the primary one first; node_families: those of the nodes' addresses
families()
{
	echo "${LAB_FAMILY:0:1}"
	((${#LAB_FAMILY} == 1)) || echo "${LAB_FAMILY:1:1}"
}
node_families() { families; [[ $LAB_FAMILY == *$LAB_UNDERLAY* ]] || echo "$LAB_UNDERLAY"; }

# underlay_host FAMILY N [SITE]: an address of the nodes' network; node N has number 10+N. A lab
# with --site S has the network 192.168.<100+S>.0/24, one without 192.168.99.0/24.
underlay_host()
{
	local net=$((${3:-$LAB_SITE} ? 100 + ${3:-$LAB_SITE} : 99))
	if [[ $1 == 6 ]]; then echo "fd00:$net::$2"; else echo "192.168.$net.$2"; fi
}
# in_order RESULT ARRAY: set RESULT to the values of the cluster's families, with a comma between two
in_order()
{
	local -n _result=$1 _of=$2
	_result=${_of[${LAB_FAMILY:0:1}]}
	((${#LAB_FAMILY} == 1)) || _result+=,${_of[${LAB_FAMILY:1:1}]}
}
WORLD_FAR_ADDR=${FAR_OF[$LAB_PRIMARY]}
in_order CLUSTER_CIDR CLUSTER_OF
in_order VTEP_CIDR VTEPS_OF
MAX_NODES=60
MAX_SITE=9
AGENT_READY_SECONDS=90
AGENT_STOP_SECONDS=10
API_READY_SECONDS=20
[[ ! ${MK_LAB_API_SERVER:-} ]] || API_READY_SECONDS=120

die()
{
	echo "lab: $*" >&2
	exit 1
}

# Every command except `up` needs an existing lab.
need_lab()
{
	[[ -f $LAB_DIR/up ]] ||
		die "no lab '$LAB' is up; \`lab up 2 --name $LAB\` brings one up, \`lab list\` shows all"
}

need_root()
{
	((EUID == 0)) || die "network namespaces need root; run it with sudo"
}

set_lab()
{
	[[ $1 =~ ^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$ ]] ||
		die "lab name '$1': expected at most 32 lower-case letters, digits and dashes"
	LAB=$1
	LAB_DIR=/run/mklab-$LAB
	local site=0
	[[ ! -e $LAB_DIR/site ]] || read -r site <"$LAB_DIR/site"
	set_site "$site"
}

# set_site S: 0 is a lab without --site
set_site()
{
	[[ $1 =~ ^[0-9]$ ]] || die "site '$1': expected a number of 1 to $MAX_SITE"
	LAB_SITE=$1
	WORLD_ADDR=$(underlay_host "$LAB_PRIMARY" 200)
	API_ADDR=$(underlay_host "$LAB_PRIMARY" 100)
}

set_site 0 # test/e2e has no labs, and their network

netns_of() { echo "$LAB.$1"; }

is_node() { [[ -d $LAB_DIR/nodes/$1 ]]; }
is_pod() { [[ -f $LAB_DIR/pods/$1.json ]]; }

# In their numeric order, so that node10 follows node9.
all_nodes() { find "$LAB_DIR/nodes" -mindepth 1 -maxdepth 1 -printf '%f\n' 2>/dev/null | sort -V; }
all_pods() { find "$LAB_DIR/pods" -name '*.json' -printf '%f\n' 2>/dev/null | sed 's/\.json$//' | sort -V; }

need_node() { is_node "$1" || die "lab '$LAB' has no node '$1'; it has: $(all_nodes | tr '\n' ' ')"; }
need_pod() { is_pod "$1" || die "lab '$LAB' has no pod '$1'; it has: $(all_pods | tr '\n' ' ')"; }

pod_get() { jq -er "$2" "$LAB_DIR/pods/$1.json"; }

# Run a command in a node's network and mount namespace, in the current directory if the node sees
# it.
in_node()
{
	local node=$1 dir=$PWD
	shift
	nsenter --net="/run/netns/$(netns_of "$node")" --mount="$LAB_DIR/nodes/$node/mnt" -- \
		sh -c 'cd "$0" 2>/dev/null || cd /; exec "$@"' "$dir" "$@"
}

in_netns()
{
	local name=$1
	shift
	ip netns exec "$(netns_of "$name")" "$@"
}

# wait_until SECONDS COMMAND...: poll a condition with a bound.
wait_until()
{
	local deadline=$((SECONDS + $1))
	shift
	until "$@"; do
		((SECONDS < deadline)) || return 1
		sleep 0.05
	done
}

# Run in a subshell that becomes a process of the lab. It outlives its caller, who may be waiting
# for the end of a pipe that it would hold open.
close_inherited()
{
	local fd
	for fd in /proc/"$BASHPID"/fd/*; do
		fd=${fd##*/}
		((fd <= 2 || fd == 255)) || eval "exec $fd>&-"
	done
}

# record_pid PID FILE; recorded_pid FILE prints the pid while that process lives. A pid may have
# been reused, so its start time identifies the process.
record_pid() { echo "$1 $(start_time "$1")" >"$2"; }
recorded_pid()
{
	local pid started
	read -r pid started 2>/dev/null <"$1" || return 1
	[[ $(start_time "$pid") == "$started" ]] && echo "$pid"
}

# Field 22 of /proc/PID/stat, counted after the command name, which may contain blanks. A killed
# process is a zombie while its other threads end (field 20); until then it holds its locks.
start_time()
{
	local line fields
	{ read -r line <"/proc/$1/stat"; } 2>/dev/null || return 1
	read -ra fields <<<"${line##*) }"
	[[ ${fields[0]} != Z || ${fields[17]} -gt 1 ]] && echo "${fields[19]}"
}

# Write standard input to a file that appears complete or not at all.
write_atomically()
{
	local temporary
	temporary=$(mktemp "$LAB_DIR/tmp/XXXXXX")
	cat >"$temporary"
	chmod 644 "$temporary"
	mv -f "$temporary" "$1"
}
