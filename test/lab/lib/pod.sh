# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/pod.sh - pods: a network namespace, an address by CNI, labels and named ports.
# pods/NAME.json is the lab's record of a pod, from the successful ADD to the DEL.

# The options of `lab pod` as one JSON object: {namespace, labels, ports, args}.
pod_options()
{
	local name=$1 labels='{}' ports='{"http": 8080, "dns": 5353}' mappings='[]' limits='{}' namespace=default
	local annotations='{}'
	shift
	labels=$(jq -cn --arg app "$(sed -E 's/-[0-9]+$//' <<<"$name")" '{app: $app}')
	while (($#)); do
		[[ $# -ge 2 && ($2 == *[=:]* || $1 == --namespace) ]] || die "option '$1': unknown, or without its value; see \`lab help\`"
		case $1 in
		--namespace) namespace=$2 ;;
		--label) labels=$(jq -c --arg k "${2%%=*}" --arg v "${2#*=}" '.[$k] = $v' <<<"$labels") ;;
		--port) ports=$(jq -c --arg k "${2%%=*}" --argjson v "${2#*=}" '.[$k] = $v' <<<"$ports") ;;
		--host-port) mappings=$(jq -ce --arg m "$2" '. + [$m | capture(
			"^(\\[?(?<ip>[0-9a-f.:]+?)\\]?:)?(?<host>[0-9]+):(?<pod>[0-9]+)(/(?<proto>tcp|udp|sctp))?$") |
			{hostIP: (.ip // ""), hostPort: (.host | tonumber), containerPort: (.pod | tonumber),
			 protocol: (.proto // "tcp")}]' <<<"$mappings") ||
			die "--host-port '$2': expected [IP:]H:P[/udp|/sctp]" ;;
		--annotation) annotations=$(jq -c --arg k "${2%%=*}" --arg v "${2#*=}" '.[$k] = $v' <<<"$annotations") ;;
		--limit) limits=$(jq -ce --arg m "$2" '. as $all | $m | capture("^(?<way>ingress|egress)=(?<rate>[0-9]+)$") |
			$all + (if .way == "ingress" then {IngressRate: (.rate | tonumber), IngressBurst: 4294967295}
				else {EgressRate: (.rate | tonumber), EgressBurst: 4294967295} end)' <<<"$limits") ||
			die "--limit '$2': expected ingress=RATE or egress=RATE, in bits per second" ;;
		*) die "option '$1': unknown; see \`lab help\`" ;;
		esac
		shift 2
	done
	jq -cn --argjson l "$labels" --argjson p "$ports" --argjson m "$mappings" --argjson b "$limits" \
		--argjson a "$annotations" --arg ns "$namespace" \
		'{namespace: $ns, labels: $l, ports: $p, args: ({portMappings: $m} + if $b == {} then {} else {bandwidth: $b} end
			+ if $a == {} then {} else {"io.kubernetes.cri.pod-annotations": $a} end)}'
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
	local node=$1 name=$2 options args list id uid netns pod result
	shift 2
	need_node "$node"
	[[ $name =~ ^[a-z0-9]([a-z0-9-]*[a-z0-9])?$ && ! $name =~ ^(world|underlay|api)$ ]] && ! is_node "$name" ||
		die "pod name '$name': expected lower-case letters, digits, dashes, and no name of a node"
	is_pod "$name" && die "lab '$LAB' has a pod '$name' already, on $(pod_get "$name" .node)"
	options=$(pod_options "$name" "$@")
	list=$(cni_conflist "$node")
	id=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
	uid=$(cat /proc/sys/kernel/random/uuid)
	pod=$(jq -r .namespace <<<"$options")/$name/$uid
	pod_bind "$name" "$node" "$uid" "$options"
	# Multus does not pass annotations on to the cluster's network
	args=$(jq -c '.args | if ."io.kubernetes.cri.pod-annotations"."k8s.v1.cni.cncf.io/networks"
		then del(."io.kubernetes.cri.pod-annotations") else . end' <<<"$options")
	netns=$(netns_of "$name")
	ip netns add "$netns"
	ip -n "$netns" link set lo up
	if ! result=$(cni_add "$node" "$id" "/run/netns/$netns" "$pod" "$list" "$args"); then
		cni_del "$node" "$id" "/run/netns/$netns" "$pod" "$list" '{}' '' || true
		netns_down "$netns"
		rm -f "$LAB_DIR/bound/$name.json"
		return 1
	fi
	pod_record "$name" "$node" "$id" "$list" "$options" "$result" "$uid" |
		write_atomically "$LAB_DIR/pods/$name.json"
	rm -f "$LAB_DIR/bound/$name.json"
	sync_objects
	pod_get "$name" .ip
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
	record=$(<"$LAB_DIR/pods/$name.json")
	netns=$(netns_of "$name")
	rm "$LAB_DIR/pods/$name.json"
	sync_objects # traffic stops coming before the pod goes
	cni_del "$(jq -r .node <<<"$record")" "$(jq -r .id <<<"$record")" "/run/netns/$netns" \
		"$(jq -r '"\(.namespace)/\(.name)/\(.uid)"' <<<"$record")" \
		"$(jq -c .list <<<"$record")" "$(jq -c .args <<<"$record")" "$(jq -c .result <<<"$record")" ||
		status=1
	netns_down "$netns"
	return $status
}
