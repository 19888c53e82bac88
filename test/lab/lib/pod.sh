# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/pod.sh - pods: a network namespace, an address by CNI, labels and named ports.
# pods/NAME.json is the lab's record of a pod, from the successful ADD to the DEL.

# The options of `lab pod` as one JSON object: {namespace, labels, ports, args}. Then, a line each:
# what a runtime tells the plugins, and the namespace. Multus does not pass annotations on to the
# cluster's network.
# shellcheck disable=SC2016 # variables of jq
POD_OPTIONS='
def wrong($text): "lab: \($text)\n" | halt_error(1);
def pair: index("=") as $at | {(.[:$at]): .[$at + 1:]};
def mapping: . as $text | capture("^(\\[?(?<ip>[0-9a-f.:]+?)\\]?:)?(?<host>[0-9]+):(?<pod>[0-9]+)(/(?<proto>tcp|udp|sctp))?$")
	// wrong("--host-port \u0027\($text)\u0027: expected [IP:]H:P[/udp|/sctp]") |
	{hostIP: (.ip // ""), hostPort: (.host | tonumber), containerPort: (.pod | tonumber), protocol: (.proto // "tcp")};
def limit: . as $text | capture("^(?<way>ingress|egress)=(?<rate>[0-9]+)$")
	// wrong("--limit \u0027\($text)\u0027: expected ingress=RATE or egress=RATE, in bits per second") |
	(if .way == "ingress" then "Ingress" else "Egress" end) as $way |
	{($way + "Rate"): (.rate | tonumber), ($way + "Burst"): 4294967295};
def of($what): $ARGS.positional[] | select(startswith($what + " ")) | .[($what | length) + 1:];
{namespace: ([of("namespace")] | last // "default"),
	labels: ([{app: ($name | sub("-[0-9]+$"; ""))}, (of("label") | pair)] | add),
	ports: ([{http: 8080, dns: 5353}, (of("port") | pair | map_values(fromjson))] | add),
	args: ({portMappings: [of("host-port") | mapping], bandwidth: ([of("limit") | limit] | add),
		"io.kubernetes.cri.pod-annotations": ([of("annotation") | pair] | add)} | del(.[] | nulls))} |
tojson, (.args | if ."io.kubernetes.cri.pod-annotations"."k8s.v1.cni.cncf.io/networks"
	then del(."io.kubernetes.cri.pod-annotations") else . end | tojson), .namespace'

pod_options()
{
	local name=$1 options=()
	shift
	while (($#)); do
		[[ $# -ge 2 && ($2 == *[=:]* || $1 == --namespace) ]] || die "option '$1': unknown, or without its value; see \`lab help\`"
		[[ $1 == --@(namespace|label|port|host-port|annotation|limit) ]] || die "option '$1': unknown; see \`lab help\`"
		options+=("${1#--} $2")
		shift 2
	done
	jq -rn --arg name "$name" "$POD_OPTIONS" --args "${options[@]}"
}

pod_record()
{
	jq -n --arg name "$1" --arg node "$2" --arg id "$3" --argjson list "$4" --argjson options "$5" \
		--argjson result "$6" --arg uid "$7" '
		{name: $name, node: $node, id: $id, uid: $uid, ip: ($result.ips[0].address | sub("/.*"; "")),
			ips: [$result.ips[].address | sub("/.*"; "")]}
		+ $options + {list: $list, result: $result}'
}

# The scheduler has chosen the node: in a lab with --pods the Pod object is there before ADD.
pod_bind()
{
	[[ -d $LAB_DIR/bound ]] || return 0
	jq -n --arg name "$1" --arg node "$2" --arg uid "$3" --argjson options "$4" \
		'{name: $name, node: $node, uid: $uid, ips: []} + $options' |
		write_atomically "$LAB_DIR/bound/$1.json"
	sync_objects
}

lab_pod()
{
	local node=$1 name=$2 options list id uid netns pod result record
	shift 2
	need_node "$node"
	[[ $name =~ ^[a-z0-9]([a-z0-9-]*[a-z0-9])?$ && ! $name =~ ^(world|underlay|api)$ ]] && ! is_node "$name" ||
		die "pod name '$name': expected lower-case letters, digits, dashes, and no name of a node"
	is_pod "$name" && die "lab '$LAB' has a pod '$name' already, on $(pod_get "$name" .node)"
	options=$(pod_options "$name" "$@")
	mapfile -t options <<<"$options"
	list=$(cni_conflist "$node")
	id=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
	uid=${MK_POD_UID:-$(cat /proc/sys/kernel/random/uuid)}
	pod=${options[2]}/$name/$uid
	pod_bind "$name" "$node" "$uid" "${options[0]}"
	netns=$(netns_of "$name")
	ip netns add "$netns"
	ip -n "$netns" link set lo up
	if ! result=$(cni_add "$node" "$id" "/run/netns/$netns" "$pod" "$list" "${options[1]}"); then
		cni_del "$node" "$id" "/run/netns/$netns" "$pod" "$list" '{}' '' || true
		netns_down "$netns"
		rm -f "$LAB_DIR/bound/$name.json"
		return 1
	fi
	record=$(pod_record "$name" "$node" "$id" "$list" "${options[0]}" "$result" "$uid")
	write_atomically "$LAB_DIR/pods/$name.json" <<<"$record"
	rm -f "$LAB_DIR/bound/$name.json"
	sync_objects
	[[ $record =~ '"ip": "'([^\"]+) ]]
	echo "${BASH_REMATCH[1]}"
}

lab_label()
{
	need_pod "$1"
	jq --arg k "${2%%=*}" --arg v "${2#*=}" '.labels[$k] = $v | .labels |= with_entries(select(.value != ""))' \
		"$LAB_DIR/pods/$1.json" | write_atomically "$LAB_DIR/pods/$1.json"
	sync_objects
}

# What the kubelet and the API server say of a pod that runs: of Pod objects, so with --pods only.
lab_state()
{
	need_pod "$1"
	[[ $2 =~ ^(ready|unready|ending)$ ]] || die "state '$2': expected ready, unready or ending"
	[[ -d $LAB_DIR/bound ]] || die "this lab has no Pod objects: \`lab up N --pods\`"
	jq --arg state "$2" '.state = $state' "$LAB_DIR/pods/$1.json" | write_atomically "$LAB_DIR/pods/$1.json"
	sync_objects
}

lab_rm()
{
	local name=$1 record netns status=0
	need_pod "$name"
	mapfile -t record < <(jq -r '.node, .id, "\(.namespace)/\(.name)/\(.uid)", (.list, .args, .result | tojson)' \
		"$LAB_DIR/pods/$name.json")
	netns=$(netns_of "$name")
	rm "$LAB_DIR/pods/$name.json"
	sync_objects # traffic stops coming before the pod goes
	cni_del "${record[@]:0:2}" "/run/netns/$netns" "${record[@]:2}" || status=1
	netns_down "$netns"
	return $status
}
