# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/api.sh - `lab up --api`: the API server stand-in (test/wire/apiserver) in its own
# network namespace on the underlay. api/ has its certificates, the kubeconfig, its log and, from
# each stop, its contents: one JSON list per resource.

API_SERVER=${MK_LAB_API_SERVER:-$LAB_LIB/../../wire/apiserver}

has_api() { [[ -d $LAB_DIR/api ]]; }
need_api() { has_api || die "lab '$LAB' has no API server; \`lab up N --api\` makes one that has"; }
api_pid() { recorded_pid "$LAB_DIR/api/pid"; }
api_is_gone() { ! api_pid >/dev/null; }
need_api_running() { api_pid >/dev/null || die "the API server is stopped; \`lab api start\` starts it"; }

# api_ask COMMAND...: run lib/api.py in the server's namespace
api_ask() { in_netns api "$LAB_LIB/api.py" "$LAB_DIR" "$@"; }

api_up()
{
	mkdir -p "$LAB_DIR"/api/contents
	ip netns add "$(netns_of api)"
	plug api "$API_ADDR"
	api_launch
}

api_is_ready_or_gone() { [[ -e $LAB_DIR/api/ready ]] || api_is_gone; }

api_launch()
{
	local file load=() dir=$LAB_DIR/api
	for file in "$dir"/contents/*.json; do
		[[ ! -f $file ]] || load+=(--load "$file")
	done
	rm -f "$dir/ready"
	(
		close_inherited
		exec setsid nsenter --net="/run/netns/$(netns_of api)" -- "$API_SERVER" --dir "$dir" \
			--address "$API_ADDR" --port "$API_PORT" --name named --name '*.monokube.test' --token "$LAB-reader" "${load[@]}"
	) </dev/null >>"$dir/log" 2>&1 &
	record_pid "$!" "$dir/pid"
	disown
	wait_until "$API_READY_SECONDS" api_is_ready_or_gone && [[ -e $dir/ready ]] && return
	tail -n 20 "$dir/log" >&2
	die "the API server is not there within $API_READY_SECONDS s; the last lines of its log are above"
}

api_start()
{
	api_is_gone || die "the API server runs already, pid $(api_pid)"
	api_launch
	sync_objects # pods came and went meanwhile
}

api_stop()
{
	need_api_running
	api_ask save "$LAB_DIR/api/contents"
	kill "$(api_pid)"
	wait_until "$AGENT_STOP_SECONDS" api_is_gone ||
		die "the API server is still there $AGENT_STOP_SECONDS s after SIGTERM"
}

lab_api()
{
	need_api
	case $1 in
	start) api_start ;;
	stop) api_stop ;;
	get)
		need_api_running
		api_ask get "$2"
		;;
	*) die "api '$1': expected start, stop or get PATH" ;;
	esac
}

# ---- kubectl, if the machine has it. The lab ignores the machine's proxy settings.

have_kubectl() { [[ -n ${MK_KUBECTL-kubectl} ]] && command -v "${MK_KUBECTL-kubectl}" >/dev/null; }

run_kubectl()
{
	in_netns api env NO_PROXY='*' KUBECONFIG="$LAB_DIR/api/kubeconfig" \
		"${MK_KUBECTL-kubectl}" --cache-dir "$LAB_DIR/api/kubectl-cache" "$@"
}

lab_kubectl()
{
	local status=0
	need_api
	need_api_running
	have_kubectl || die "kubectl is not installed, or MK_KUBECTL names none; \`lab apply\` and \`lab api get\` do without"
	run_kubectl "$@" || status=$?
	sync_objects
	return $status
}

# api_change apply|delete FILE...: with kubectl, or with the lab's own client
api_change()
{
	local verb=$1 file words
	need_api_running
	if ! have_kubectl; then
		api_ask "$@"
		return
	fi
	shift
	words=("$verb")
	[[ $verb == apply ]] || words+=(--ignore-not-found)
	for file in "$@"; do
		words+=(-f "$file")
	done
	run_kubectl "${words[@]}"
}
