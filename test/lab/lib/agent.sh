# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/agent.sh - one agent per node: start, stop, kill, wait.

agent_binary()
{
	local binary=${MK_BIN:-$LAB_LIB/../../../build/monokube}
	[[ -x $binary ]] || die "'$binary' is not there; build it with make, or set MK_BIN"
	realpath "$binary"
}

agent_log() { echo "$LAB_DIR/nodes/$1/agent.log"; }

agent_pid() { recorded_pid "$LAB_DIR/nodes/$1/agent.pid"; }
agent_is_gone() { ! agent_pid "$1" >/dev/null; }
agent_is_ready() { tail -c "+$((${2} + 1))" "$(agent_log "$1")" | grep -E '^(<[0-9]>)?info ready( |$)' >/dev/null; }
agent_is_ready_or_gone() { agent_is_ready "$@" || agent_is_gone "$1"; }

# Start the agent of a node; agent_await() returns whether it becomes ready. Users of the lab pass
# flags in MK_AGENT_FLAGS, and setting routing in MK_LAB_ROUTING.
agent_launch()
{
	local node=$1 dir=$LAB_DIR/nodes/$1 log cluster family=()
	agent_is_gone "$node" || die "the agent of $node runs already, pid $(agent_pid "$node")"
	cluster=(--cluster-dir "$dir/cluster")
	! has_api || cluster=(--kubeconfig "$LAB_DIR/api/kubeconfig")
	[[ $LAB_UNDERLAY == "$UNDERLAY_AUTO" ]] || family=(--underlay-family "IPv$LAB_UNDERLAY")
	log=$(agent_log "$node")
	touch "$log"
	stat -c %s "$log" >"$dir/agent.log.start"
	(
		close_inherited
		# shellcheck disable=SC2086 # a list of flags
		no_proxy='*' exec setsid nsenter --net="/run/netns/$(netns_of "$node")" \
			--mount="$dir/mnt" --wd=/ -- \
			"$(agent_binary)" agent --node-name "$node" "${cluster[@]}" \
			--cluster-cidr "$CLUSTER_CIDR" --vtep-cidr "$VTEP_CIDR" "${family[@]}" \
			${MK_LAB_ROUTING:+--routing "$MK_LAB_ROUTING"} ${MK_AGENT_FLAGS:-}
	) </dev/null >>"$log" 2>&1 &
	record_pid "$!" "$dir/agent.pid"
	disown
}

agent_await()
{
	local node=$1 start
	start=$(<"$LAB_DIR/nodes/$node/agent.log.start")
	wait_until "$AGENT_READY_SECONDS" agent_is_ready_or_gone "$node" "$start" &&
		agent_is_ready "$node" "$start" && return
	tail -n 20 "$(agent_log "$node")" >&2
	agent_is_gone "$node" && die "the agent of $node ended; its last lines are above"
	die "the agent of $node did not log 'ready' within $AGENT_READY_SECONDS s; its last lines are above"
}

agent_end()
{
	local signal=$1 node=$2 pid
	pid=$(agent_pid "$node") || die "no agent runs on $node"
	kill "-$signal" "$pid"
	wait_until "$AGENT_STOP_SECONDS" agent_is_gone "$node" ||
		die "the agent of $node (pid $pid) is still there $AGENT_STOP_SECONDS s after SIG$signal"
}

lab_agent()
{
	local verb=$1 node=$2
	need_node "$node"
	case $verb in
	start)
		agent_launch "$node"
		agent_await "$node"
		;;
	stop) agent_end TERM "$node" ;;
	kill) agent_end KILL "$node" ;;
	*) die "agent '$verb': expected start, stop or kill" ;;
	esac
}
