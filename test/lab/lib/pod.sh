# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/pod.sh - pods: a network namespace, an address by CNI, labels and named ports.
# pods/NAME.json is the lab's record of a pod, from the successful ADD to the DEL.

# The options of `lab pod` as one JSON object: {labels, ports, args}.
pod_options()
{
	local name=$1 labels='{}' ports='{"http": 8080, "dns": 5353}' mappings='[]' limits='{}'
	shift
	labels=$(jq -cn --arg app "$(sed -E 's/-[0-9]+$//' <<<"$name")" '{app: $app}')
	while (($#)); do
		[[ $# -ge 2 && $2 == *[=:]* ]] || die "option '$1': unknown, or without its value; see \`lab help\`"
		case $1 in
		--label) labels=$(jq -c --arg k "${2%%=*}" --arg v "${2#*=}" '.[$k] = $v' <<<"$labels") ;;
		--port) ports=$(jq -c --arg k "${2%%=*}" --argjson v "${2#*=}" '.[$k] = $v' <<<"$ports") ;;
		--host-port) mappings=$(jq -ce --arg m "$2" '. + [$m | capture(
			"^(\\[?(?<ip>[0-9a-f.:]+?)\\]?:)?(?<host>[0-9]+):(?<pod>[0-9]+)(/(?<proto>tcp|udp|sctp))?$") |
			{hostIP: (.ip // ""), hostPort: (.host | tonumber), containerPort: (.pod | tonumber),
			 protocol: (.proto // "tcp")}]' <<<"$mappings") ||
			die "--host-port '$2': expected [IP:]H:P[/udp|/sctp]" ;;
		--limit) limits=$(jq -ce --arg m "$2" '. as $all | $m | capture("^(?<way>ingress|egress)=(?<rate>[0-9]+)$") |
			$all + (if .way == "ingress" then {IngressRate: (.rate | tonumber), IngressBurst: 4294967295}
				else {EgressRate: (.rate | tonumber), EgressBurst: 4294967295} end)' <<<"$limits") ||
			die "--limit '$2': expected ingress=RATE or egress=RATE, in bits per second" ;;
		*) die "option '$1': unknown; see \`lab help\`" ;;
		esac
		shift 2
	done
	jq -cn --argjson l "$labels" --argjson p "$ports" --argjson m "$mappings" --argjson b "$limits" \
		'{labels: $l, ports: $p, args: ({portMappings: $m} + if $b == {} then {} else {bandwidth: $b} end)}'
}

pod_record()
{
	jq -n --arg name "$1" --arg node "$2" --arg id "$3" --argjson list "$4" --argjson options "$5" \
		--argjson result "$6" '
		{name: $name, node: $node, id: $id, ip: ($result.ips[0].address | sub("/.*"; "")),
			ips: [$result.ips[].address | sub("/.*"; "")]}
		+ $options + {list: $list, result: $result}'
}

lab_pod()
{
	local node=$1 name=$2 options list id netns result
	shift 2
	need_node "$node"
	[[ $name =~ ^[a-z0-9]([a-z0-9-]*[a-z0-9])?$ && ! $name =~ ^(world|underlay|api)$ ]] && ! is_node "$name" ||
		die "pod name '$name': expected lower-case letters, digits, dashes, and no name of a node"
	is_pod "$name" && die "lab '$LAB' has a pod '$name' already, on $(pod_get "$name" .node)"
	options=$(pod_options "$name" "$@")
	list=$(cni_conflist "$node")
	id=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
	netns=$(netns_of "$name")
	ip netns add "$netns"
	ip -n "$netns" link set lo up
	if ! result=$(cni_add "$node" "$id" "/run/netns/$netns" "$name" "$list" "$(jq -c .args <<<"$options")"); then
		cni_del "$node" "$id" "/run/netns/$netns" "$name" "$list" '{}' '' || true
		netns_down "$netns"
		return 1
	fi
	pod_record "$name" "$node" "$id" "$list" "$options" "$result" |
		write_atomically "$LAB_DIR/pods/$name.json"
	sync_objects
	pod_get "$name" .ip
}

lab_rm()
{
	local name=$1 record netns status=0
	need_pod "$name"
	record=$(<"$LAB_DIR/pods/$name.json")
	netns=$(netns_of "$name")
	rm "$LAB_DIR/pods/$name.json"
	sync_objects # traffic stops coming before the pod goes
	cni_del "$(jq -r .node <<<"$record")" "$(jq -r .id <<<"$record")" "/run/netns/$netns" "$name" \
		"$(jq -c .list <<<"$record")" "$(jq -c .args <<<"$record")" "$(jq -c .result <<<"$record")" ||
		status=1
	netns_down "$netns"
	return $status
}
