#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_image.sh - the image: reproducible, small, complete. Its agent is started on a bare
# node as the DaemonSet in manifests/ says, with its mounts and capabilities.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
MAX_BYTES=15000000
MANIFEST=$HERE/../../manifests/monokube.yaml
ACCOUNT=/run/mklab-$MK_LAB/account
API=https://192.168.99.100:6443
IMAGE=$TMP/image

same_twice()
{
	local first second
	first=$("$HERE/../../manifests/image/build" "$MK_BIN" --root "$TMP/root1" --archive "$TMP/one.tar" | grep -o 'sha256:.*')
	touch -d '2001-01-01' "$TMP/root1"
	second=$("$HERE/../../manifests/image/build" "$MK_BIN" --root "$TMP/root2" --archive "$TMP/two.tar" | grep -o 'sha256:.*')
	expect_eq "digest of the second build" "$first" "$second"
	cmp "$TMP/one.tar" "$TMP/two.tar"
	(($(stat -c %s "$TMP/one.tar") <= MAX_BYTES)) || {
		echo "$(stat -c %s "$TMP/one.tar") bytes, expected at most $MAX_BYTES"
		return 1
	}
	mkdir "$IMAGE"
	expect_eq "digest of what the archive holds" "$first" "$("$HERE/lib/oci.py" "$TMP/one.tar" "$IMAGE")"
}

# The licence of each library that the linker put into the program
licences()
{
	local library package
	sed -n 's/^LOAD \(.*\.a\)$/\1/p' "$MK_BIN.map" | grep -v libmonokube.a | while read -r library; do
		case $library in
		*/libcurl.a) package=curl ;;
		*/libmicrohttpd.a) package=libmicrohttpd ;;
		*) package=$(dpkg-query --search "*/$(basename "$library")" | head -n 1) package=${package%%:*} ;;
		esac
		[[ -s $IMAGE/usr/share/doc/$package/copyright ]] || echo "$library: no licence of $package"
	done
}

runs_alone()
{
	expect_match "version" '^monokube [0-9]' "$(chroot "$IMAGE" /usr/bin/monokube --version)"
	chroot "$IMAGE" /usr/bin/monokube agent --help | grep -- --cluster-cidr
	expect_eq "files beside licences" "usr/bin/monokube" "$(cd "$IMAGE" && find . -type f -not -path './usr/share/*' -printf '%P\n')"
	expect_eq "programs" "usr/bin/monokube" "$(cd "$IMAGE" && find . -type f -perm /111 -printf '%P\n')"
	cmp "$MK_BIN" "$IMAGE/usr/bin/monokube"
	[[ -s $IMAGE/usr/share/doc/monokube/LICENSE && $(grep -c '^LOAD.*libcrypto.a$' "$MK_BIN.map") == 1 ]]
	expect_eq "libraries without a licence" "" "$(licences)"
}

# of_containerfile INSTRUCTION: its words, of the stage that becomes the image
of_containerfile() { sed -n '/^FROM scratch/,$ s/^'"$1"' //p' "$HERE/../../manifests/image/Containerfile"; }

# Made by podman or docker it is the same: files by the same script, and what is run.
containerfile_agrees()
{
	local config
	config=$(tar -xOf "$TMP/one.tar" "$(tar -xOf "$TMP/one.tar" manifest.json | jq -r '.[0].Config')" | jq .config)
	expect_eq "ENTRYPOINT" "$(jq -c .Entrypoint <<<"$config")" "$(of_containerfile ENTRYPOINT | jq -c .)"
	expect_eq "CMD" "$(jq -c .Cmd <<<"$config")" "$(of_containerfile CMD | jq -c .)"
	expect_eq "ENV" "$(jq -r '.Env[]' <<<"$config")" "$(of_containerfile ENV)"
	expect_eq "COPY" "--from=build /image/ /" "$(of_containerfile COPY)"
	grep -q '^RUN .*manifests/image/build build/monokube --root /image$' "$HERE/../../manifests/image/Containerfile"
}

# contained CONTAINER [KEY=VALUE...]: of the DaemonSet, on node1
contained() { on node1 unshare -m "$HERE/lib/daemonset.py" "$IMAGE" "$MANIFEST" "$1" "$ACCOUNT" "${@:2}"; }

# A node that has never run monokube; the lab's credentials serve as a service account's.
bare_node()
{
	lab up 1 --api
	lab agent stop node1
	on node1 "$MK_BIN" cleanup
	mkdir -p "$ACCOUNT"
	echo token >"$ACCOUNT/token"
	cp "/run/mklab-$MK_LAB/api/ca.crt" "$ACCOUNT/ca.crt"
	ip netns exec "$MK_LAB.api" curl -sS --fail --noproxy '*' --cacert "$ACCOUNT/ca.crt" -d '{"tokens": ["token"]}' "$API/standin/settings"
}

agent_of_image() { contained agent "apiServer=$API" >>"$TMP/agent" 2>&1; }
agent_pid() { on node1 cat /var/lib/monokube/agent.lock; }

capabilities() { awk '$1 == "CapEff:" {print $2}' "/proc/$1/status"; }
# ready_since START: it was, after so many bytes of its log
ready_since() { tail -c "+$1" "$TMP/agent" | grep '^info ready'; }

daemonset_serves()
{
	local web path
	contained prepare
	agent_of_image &
	wait_for 30 grep '^info ready' "$TMP/agent"
	grep '^info kernel setting changed /proc/sys/net/ipv6/conf/mkvxlan/disable_ipv6=1' "$TMP/agent"
	cmp "$IMAGE/usr/bin/monokube" "/run/mklab-$MK_LAB/nodes/node1/cni-bin/monokube"
	expect_eq "lines of errors and warnings" "" "$(grep -E '^(error|warn)' "$TMP/agent")"
	web=$(lab pod node1 web-1)
	lab pod node1 client
	on client ping -c 1 -W 2 "$web"
	serve web-1 web-1 --tcp 8080
	service_yaml web web $VIP "{port: 80, targetPort: 8080}" | apply services
	wait_for 5 ask client tcp $VIP:80
	wait_for 5 ask node1 tcp $VIP:80
	wait_for 10 network_is_available
	for path in livez healthz; do
		expect_eq "status of /$path" 200 "$(on node1 curl -s -o /dev/null -w '%{http_code}' --noproxy '*' "http://127.0.0.1:10256/$path")"
	done
	# DAC_OVERRIDE, NET_ADMIN, PERFMON, BPF, and NET_BIND_SERVICE no more; those that this
	# machine gives at all
	expect_eq "capabilities" "$(printf %016x $((0xc000001002 & 0x$(capabilities self))))" "$(capabilities "$(agent_pid)")"
}

# The probes use the configured addresses, and are the kubelet's only way to the agent.
probes_follow_settings()
{
	local setting
	for setting in healthzBindAddress=127.0.0.1:10300 healthzBindAddress=192.168.99.11:10256 healthzBindAddress=off \
		healthzBindAddress=0.0.0.0:200; do
		restart_with "$setting"
		for probe in startup liveness readiness; do
			wait_for 10 contained "agent:$probe"
		done
	done
	kill "$(agent_pid)"
	wait_for 10 expect_failure contained agent:liveness
	expect_match "without an agent" 'cannot ask /livez at 0\.0\.0\.0:200' "$(contained agent:liveness 2>&1 || true)"
	agent_of_image &
	wait_for 30 contained agent:readiness
}

# restart_with KEY=VALUE
restart_with()
{
	local start
	kill "$(agent_pid)"
	wait_for 10 expect_failure kill -0 "$(agent_pid)"
	start=$(wc -c <"$TMP/agent")
	contained agent "apiServer=$API" "$1" >>"$TMP/agent" 2>&1 &
	wait_for 30 ready_since "$start"
}

# The kubelet gives a container both files. The image has no C library that could read them.
names_are_found()
{
	local address=192.168.99.100 name_server name
	echo "$address hosts.monokube.test" >"$IMAGE/etc/hosts"
	printf '%s\n' "nameserver $address" "search monokube.test" >"$IMAGE/etc/resolv.conf"
	env ip netns exec "$MK_LAB.api" "$HERE/lib/name_server.py" "$address" named.monokube.test "$address" &
	name_server=$!
	for name in hosts.monokube.test named.monokube.test named; do
		asks_by_name "$name"
	done
	kill "$(agent_pid)"
	contained agent apiServer=https://unknown.monokube.test:6443 >>"$TMP/agent" 2>&1 &
	wait_for 20 grep 'Could not resolve host: unknown.monokube.test' "$TMP/agent"
	kill "$name_server"
	restart_with "apiServer=$API"
}

asks_by_name()
{
	local before
	before=$(lists_of_services)
	restart_with "apiServer=https://$1:6443"
	wait_for 10 more_lists_than "$before"
}

# How often the API server was asked for Services
lists_of_services() { lab api get /standin/log | jq 'map(select(.path | endswith("/services"))) | length'; }
more_lists_than() { (($(lists_of_services) > $1)); }

network_is_available()
{
	lab api get /api/v1/nodes/node1 | jq -e '.status.conditions[] | select(.type == "NetworkUnavailable") | .status == "False"'
}

another_one_takes_over()
{
	local start
	kill "$(agent_pid)"
	wait_for 10 expect_failure kill -0 "$(agent_pid)"
	start=$(wc -c <"$TMP/agent")
	agent_of_image &
	wait_for 30 ready_since "$start"
	expect_match "what it wrote" 'writes=0( |$)' "$(grep '^info ready' "$TMP/agent" | tail -n 1)"
	ask client tcp $VIP:80
	lab pod node1 late
	lab rm late
}

explain() { tail -n 20 "$TMP/agent"; }

check "two builds are one image, and a small one; every digest is right" same_twice
check "it has one file that needs no library, and licences, and nothing else" runs_alone
check "the Containerfile makes the same image" containerfile_agrees
bare_node >"$TMP/bare" 2>&1 || cat "$TMP/bare" >&2
check "the DaemonSet's agent on a bare node: pods, Services, the Node's condition, probes, few capabilities" daemonset_serves
check "the next one takes over and writes nothing" another_one_takes_over
check "the probes follow healthzBindAddress: port, address, off, below 1024" probes_follow_settings
check "the API server's name: from /etc/hosts, from a name server, with a search list" names_are_found
kill "$(agent_pid)"
finish
