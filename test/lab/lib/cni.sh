# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/cni.sh - run a network configuration list like a container runtime (CNI specification
# 1.0.0, section 3): each plugin in order, with the previous result; on DEL in reverse.

# Select the list as a runtime does: the alphabetically first.
cni_conflist()
{
	local node=$1 file
	file=$(find "$LAB_DIR/nodes/$node/cni-conf/net.d" -name '*.conflist' 2>/dev/null | sort | head -n 1)
	[[ -n $file ]] || die "no CNI configuration in /etc/cni/net.d of $node; has its agent ever run?"
	cat "$file"
}

cni_types() { jq -r '.plugins[].type' <<<"$1"; }

# Print the configuration of plugin $2 of list $1. Declared capabilities are filled from the pod's
# ($3), and the previous result ($4, may be empty) is added. If the list has several versions, it
# gets the latest, as from libcni since 1.2; an older libcni knows only cniVersion.
cni_plugin_config()
{
	jq -c --argjson index "$2" --argjson args "$3" --argjson previous "${4:-null}" '
		. as $list | .plugins[$index] as $plugin |
		($plugin.capabilities // {} | to_entries | map(select(.value) | .key)) as $wanted |
		($args | with_entries(select(.key as $key | $wanted | index($key)))) as $runtime |
		([$list.cniVersion] + ($list.cniVersions // []) | max_by(split(".") | map(tonumber))) as $version |
		$plugin + {cniVersion: $version, name: $list.name}
		+ (if $runtime == {} then {} else {runtimeConfig: $runtime} end)
		+ (if $previous == null then {} else {prevResult: $previous} end)' <<<"$1"
}

pod_args()
{
	local namespace name uid
	IFS=/ read -r namespace name uid <<<"$1"
	echo "K8S_POD_NAMESPACE=$namespace;K8S_POD_NAME=$name;K8S_POD_UID=$uid"
}

# cni_call NODE VERB ID NETNS POD TYPE: one plugin, configuration on standard input. POD is
# NAMESPACE/NAME/UID.
cni_call()
{
	in_node "$1" env CNI_COMMAND="$2" CNI_CONTAINERID="$3" CNI_NETNS="$4" CNI_IFNAME=eth0 \
		CNI_ARGS="IgnoreUnknown=1;$(pod_args "$5")" \
		CNI_PATH=/opt/cni/bin "/opt/cni/bin/$6"
}

# cni_add NODE ID NETNS POD LIST ARGS: print the last result. On failure print the plugin's message
# on standard error.
cni_add()
{
	local list=$5 result='' config types type index
	types=$(cni_types "$list")
	mapfile -t types <<<"$types"
	for index in "${!types[@]}"; do
		type=${types[index]}
		config=$(cni_plugin_config "$list" "$index" "$6" "$result")
		if ! result=$(cni_call "$1" ADD "$2" "$3" "$4" "$type" <<<"$config"); then
			echo "lab: ADD of plugin '$type' on $1 failed: $(jq -r '[.msg, .details] | join(": ")' \
				<<<"$result" 2>/dev/null || echo "$result")" >&2
			return 1
		fi
	done
	echo "$result"
}

# cni_del NODE ID NETNS POD LIST ARGS RESULT: all plugins, even if one fails.
cni_del()
{
	local list=$5 config types type index answer status=0
	types=$(cni_types "$list")
	mapfile -t types <<<"$types"
	for ((index = ${#types[@]} - 1; index >= 0; index--)); do
		type=${types[index]}
		config=$(cni_plugin_config "$list" "$index" "$6" "$7")
		answer=$(cni_call "$1" DEL "$2" "$3" "$4" "$type" <<<"$config") || {
			echo "lab: DEL of plugin '$type' on $1 failed: $answer" >&2
			status=1
		}
	done
	return $status
}
