#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_install.sh - the CNI plugin file that the agent installs: it runs on a host without any
# library, is replaced atomically, the previous version is kept, and cleanup removes it.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"
# shellcheck source=test/lab/lib/plugin.sh
. "$HERE/lib/plugin.sh"
PLUGIN=/opt/cni/bin/monokube

# bare CMD...: on node1, with only the files that a CNI plugin may rely on
bare() { on node1 unshare -m "$HERE/lib/bare-host" /opt/cni /proc /sys /run /var -- "$@"; }

# bare_cni VERB [JQ]: the configuration is changed by a jq filter
bare_cni()
{
	conf "${2:-.}" | CNI_COMMAND=$1 CNI_CONTAINERID=bare CNI_NETNS=$(netns_path bare) CNI_IFNAME=eth0 \
		CNI_PATH=/opt/cni/bin bare "$PLUGIN"
}

# Agent, plugin and tool are one file.
has_no_libraries()
{
	cmp "$MK_BIN" "/run/mklab-$MK_LAB/nodes/node1/cni-bin/monokube"
	expect_match "version" '^monokube [0-9]' "$(bare "$PLUGIN" --version)"
	bare "$PLUGIN" agent --help | grep -- --kubeconfig
}

pod_from_bare_host()
{
	local before result
	before=$(occupied)
	netns bare
	bare_cni VERSION | jq -e '.supportedVersions | index("1.1.0")'
	result=$(bare_cni ADD)
	on node1 ping -c 1 -W 2 "$(ip_of <<<"$result")"
	bare_cni CHECK ".prevResult = $result"
	bare_cni STATUS '.cniVersion = "1.1.0"'
	bare_cni GC '.cniVersion = "1.1.0" | ."cni.dev/valid-attachments" = [{containerID: "bare", ifname: "eth0"}]'
	on node1 ping -c 1 -W 2 "$(ip_of <<<"$result")"
	# only /etc with the CNI configuration is missing there
	expect_match "status" 'healthy' "$(bare "$PLUGIN" status || true)"
	bare_cni DEL
	nothing_new "$before"
}

# containerd and CRI-O first call a plugin `loopback`, which distributions have and a bare host
# lacks.
loopback_conf() { echo "{\"cniVersion\": \"$1\", \"name\": \"cni-loopback\", \"type\": \"loopback\"}"; }

# loopback VERB NAMESPACE [VERSION]
loopback()
{
	loopback_conf "${3:-0.3.1}" | CNI_COMMAND=$1 CNI_CONTAINERID=bare CNI_NETNS=$(netns_path "$2") CNI_IFNAME=lo \
		CNI_PATH=/opt/cni/bin bare /opt/cni/bin/loopback
}

serves_as_loopback()
{
	local version
	netns lo
	loopback ADD lo >"$TMP/result"
	expect_eq "result" "0.3.1 lo 127.0.0.1/8" "$(jq -r '.cniVersion + " " + .interfaces[0].name + " " + .ips[0].address' "$TMP/result")"
	inside lo ping -c 1 -W 1 127.0.0.1
	loopback CHECK lo 0.4.0
	inside lo ip link set lo down
	expect_match "CHECK" 'lo.* is down' "$(loopback CHECK lo 1.0.0 || true)"
	loopback ADD lo 1.1.0 | jq -e '.interfaces[0].mtu == 65536'
	loopback DEL lo
	loopback DEL nowhere
	expect_match "ADD" 'nowhere' "$(loopback ADD nowhere || true)"
	loopback STATUS lo 1.1.0
	for version in 0.3.1 1.1.0; do
		CNI_COMMAND=VERSION bare /opt/cni/bin/loopback < <(loopback_conf "$version") | jq -e '.supportedVersions | index("0.3.1")'
	done
}

loopback_link() { on node1 readlink /opt/cni/bin/loopback; }

# A plugin of another version cannot use this version's tables, so it is installed before any step
# that may fail after the hooks. The configuration is last. Entries of a Service deleted meanwhile
# are removed in between.
plugin_comes_first()
{
	local start lines
	service_yaml gone gone 10.96.71.1 "{port: 80}" | apply gone
	wait_for 10 on node1 "$MK_BIN" services gone
	lab agent stop node1
	lab delete "$TMP/gone.yaml"
	on node1 rm "$PLUGIN" /etc/cni/net.d/10-monokube.conflist
	start=$(log_size)
	lab agent start node1
	lines=$(lab log node1 | tail -c "+$((start + 1))" | grep -oE \
		'datapath attached|CNI plugin installed|entries of Services that are gone|CNI configuration written')
	expect_eq "order" "datapath attached,CNI plugin installed,entries of Services that are gone,CNI configuration written" \
		"$(paste -sd, <<<"$lines")"
}

# A missing one is made again; a foreign one stays, also after cleanup.
loopback_of_others()
{
	on node1 rm /opt/cni/bin/loopback
	wait_for 10 loopback_link
	on node1 rm /opt/cni/bin/loopback
	on node1 cp /bin/true /opt/cni/bin/loopback
	lab agent stop node1
	lab agent start node1
	on node1 cmp /bin/true /opt/cni/bin/loopback
	lab agent stop node1
	on node1 "$MK_BIN" cleanup
	on node1 cmp /bin/true /opt/cni/bin/loopback
	on node1 rm /opt/cni/bin/loopback
	lab agent start node1
}

restart_leaves_it()
{
	local before
	before=$(on node1 stat -c '%i %Y' "$PLUGIN")
	lab agent stop node1
	lab agent start node1
	expect_eq "inode and time of the plugin" "$before" "$(on node1 stat -c '%i %Y' "$PLUGIN")"
}

# The previous version: the same file with one more byte, which an ELF file may have.
older_one()
{
	on node1 sh -c "cat $PLUGIN >$PLUGIN.tmp && echo >>$PLUGIN.tmp && chmod 755 $PLUGIN.tmp && mv $PLUGIN.tmp $PLUGIN"
}

call_on_and_on()
{
	while [[ ! -e $TMP/enough ]]; do
		CNI_COMMAND=VERSION on node1 "$PLUGIN" <<<"{\"cniVersion\": \"1.0.0\"}" || echo "failed: $?"
	done
}

upgrade_keeps_previous()
{
	local start older
	lab agent stop node1
	older_one
	older=$(on node1 sha256sum <"/run/mklab-$MK_LAB/nodes/node1/cni-bin/monokube")
	call_on_and_on >"$TMP/calls" 2>&1 &
	start=$(log_size)
	lab agent start node1
	wait_for 10 logged "$start" '^info previous CNI plugin kept path=/opt/cni/bin/monokube.previous'
	logged "$start" '^info CNI plugin installed path=/opt/cni/bin/monokube$'
	touch "$TMP/enough"
	wait $!
	expect_eq "the version before" "$older" "$(sha256sum <"/run/mklab-$MK_LAB/nodes/node1/cni-bin/monokube.previous")"
	expect_eq "failures of $(wc -l <"$TMP/calls") calls meanwhile" "" "$(grep -v supportedVersions "$TMP/calls")"
	expect_eq "other files" "monokube monokube.previous" "$(on node1 ls -A /opt/cni/bin | grep monokube | xargs)"
}

# After another network: its configuration, which sorts first, is left to its owner and reported.
installed_over_another()
{
	local old=/etc/cni/net.d/05-old.conflist text='{"cniVersion":"1.0.0","name":"old","plugins":[{"type":"ptp"}]}' out
	lab agent stop node1
	on node1 "$MK_BIN" cleanup
	on node1 tee "$old" <<<"$text"
	lab agent start node1
	expect_eq "the other configuration" "$text" "$(on node1 cat "$old")"
	on node1 test -s /etc/cni/net.d/10-monokube.conflist
	expect_failure on node1 "$MK_BIN" check
	out=$(on node1 "$MK_BIN" check || true)
	expect_match "what check says" "$old sorts before 10-monokube" "$out"
	expect_match "what to do" 'remove it with the network that it belongs to' "$out"
	on node1 rm "$old"
	expect_failure grep 'sorts before' <(on node1 "$MK_BIN" check)
	on node1 ping -c 1 -W 2 "$(lab pod node1 fresh)"
	lab rm fresh
}

# As a pod of the image runs: with the host's processes, but nothing else of the host.
cleanup_from_a_container()
{
	lab agent stop node1
	on node1 cp "$PLUGIN" /run/monokube-copy
	# shellcheck disable=SC2016 # expanded there
	on node1 unshare --pid --fork --mount-proc bash -c 'unshare -m --net "$0" /proc /run -- /run/monokube-copy cleanup --host || exit' \
		"$HERE/lib/bare-host"
	on node1 rm /run/monokube-copy
	expect_eq "what is left in /opt/cni/bin" "" "$(on node1 ls -A /opt/cni/bin | grep -E "monokube|loopback")"
	expect_eq "what is left in /sys/fs/bpf" "" "$(on node1 ls -A /sys/fs/bpf | grep monokube)"
	expect_failure on node1 ip link show mkvxlan
}

lab up 1
check "the plugin is the agent's own file and runs where there is no library" has_no_libraries
check "ADD, STATUS and DEL with only /opt/cni, /proc, /sys, /run and /var" pod_from_bare_host
check "where there is no plugin loopback it is that, too" serves_as_loopback
check "loopback is made again, and another one is left alone" loopback_of_others
check "an agent of the same version leaves the file alone" restart_leaves_it
check "the plugin is installed right after the hooks, the configuration last" plugin_comes_first
check "another version replaces it atomically and keeps the one before" upgrade_keeps_previous
check "installed after another network: its configuration is named, not touched" installed_over_another
check "cleanup --host from a container removes all, the version before too" cleanup_from_a_container
finish
