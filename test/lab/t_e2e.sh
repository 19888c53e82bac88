#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_e2e.sh - test/e2e/run, which is for real clusters, against a lab: its installation,
# every path, and the report of a failing path.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
E2E_STATE=$TMP/e2e
export E2E_STATE KUBECTL=$HERE/lib/fake_kubectl.py

installed() { jq -r "$2" "$E2E_STATE/$1.installed"; }

all_paths()
{
	"$HERE/../e2e/run" --image registry.example/monokube:1 --set apiServer=https://192.0.2.10:6443 --set mtu=1400 \
		--outside 192.168.99.200:8080 --keep >"$TMP/paths" || {
		cat "$TMP/paths"
		return 1
	}
	expect_match "last line" '^all 21 paths passed$' "$(tail -n 1 "$TMP/paths")"
	expect_eq "image" registry.example/monokube:1 "$(installed DaemonSet '.spec.template.spec.containers[0].image')"
	expect_eq "settings" "https://192.0.2.10:6443 1400 10.244.0.0/16" \
		"$(installed ConfigMap '.data | .apiServer + " " + .mtu + " " + .clusterCidr')"
	expect_match "commands" 'rollout status daemonset/monokube' "$(<"$E2E_STATE/done")"
	expect_failure grep 'delete namespace' "$E2E_STATE/done"
}

wrong_options()
{
	local out
	for option in "--set no" "--set noSuch=1" "--image" "--nonsense" "--chains"; do
		# shellcheck disable=SC2086 # two words
		out=$("$HERE/../e2e/run" $option 2>&1) && return 1
		expect_match "$option" "^e2e: .*${option%% *}" "$out"
	done
}

# Another server answers for web: its rows fail, and so does the whole run.
failure_shows()
{
	local out status=0
	for name in web-1 web-2 lookup-1 lookup-2 client-1 client-2; do
		lab rm "$name"
	done
	rm "$E2E_STATE"/*.pod
	cat >"$TMP/kubectl" <<-END
		#!/bin/sh
		case "\$*" in *ask*10.96.*:80\ --count\ 24*) echo wrong; exit 0 ;; esac
		exec "$KUBECTL" "\$@"
	END
	chmod +x "$TMP/kubectl"
	out=$(KUBECTL=$TMP/kubectl "$HERE/../e2e/run" --no-install 2>&1) || status=$?
	expect_eq "exit status" 1 "$status"
	expect_match "last line" 'e2e: [1-9] of 19 paths failed' "$out"
	expect_match "a failed row" 'FAIL' "$out"
	grep 'delete namespace' "$E2E_STATE/done"
}

mkdir "$E2E_STATE"
lab up 2 --api
serve world world --tcp 8080 --udp 8080
check "it installs what it is told, and every path passes" all_paths
check "wrong options are named" wrong_options
check "a path that fails is shown and counted" failure_shows
finish
