#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_kube_proxy.sh - the routed peers of perf/compare with a kube-proxy that KUBE_PROXY
# names: here lib/fake_kube_proxy.py, which gets the real one's arguments, or a file that cannot
# run.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"

export MK_LOAD=${MK_LOAD:-$(dirname "$MK_BIN")/perf/load} TMP
FAKE=$HERE/lib/fake_kube_proxy.py

# routed KUBE_PROXY MODE WHAT
routed() { KUBE_PROXY=$1 "$HERE/routed.py" "${@:2}"; }

# Nothing of a peer remains: no namespace, no directory, no process that follows our files
nothing_left()
{
	expect_eq "namespaces" "" "$(ip netns list | grep "^$MK_LAB\." || true)"
	expect_eq "directories" "" "$(find "$TMP" -name 'monokube-kube-proxy.*')"
	expect_eq "processes" "" "$(pgrep -af "$TMP/monokube-kube-proxy" || true)"
}

# refused KUBE_PROXY WHAT MODE: the message names the error and the remedy
refused()
{
	local said
	said=$(expect_status 1 routed "$1" "$3" up 2>&1)
	expect_match "what it says" "$1" "$said"
	expect_match "what it says" "$2" "$said"
	expect_match "what it says" "give KUBE_PROXY the path of a kube-proxy for this machine, or leave it empty" "$said"
	nothing_left
}

# script NAME LINE...: its path
script()
{
	printf '%s\n' '#!/bin/sh' "${@:2}" >"$TMP/$1"
	chmod +x "$TMP/$1"
	echo "$TMP/$1"
}

ended()
{
	refused "$(script three "echo 'no such flag' >&2" 'exit 3')" \
		"three on node1 has ended, exit status 3; the last lines that .*three printed:"$'\n'"  no such flag" "$1"
}

not_executable()
{
	echo "#!/bin/sh" >"$TMP/plain"
	refused "$TMP/plain" "is not an executable file" nftables
	refused "$TMP" "is not an executable file" nftables
}

generated()
{
	routed "" "$1" reach
	routed "" "$1" again
	nothing_left
}

# It would have no rules of its own: it is not even started.
before_nftables()
{
	local old
	old=$(script old "echo Kubernetes v1.30.9")
	routed "$old" nftables reach
	refused "$old" "old on node1 has ended, exit status 0" iptables
	refused "$(script young "echo Kubernetes v1.31.0")" "young on node1 has ended, exit status 0" nftables
}

for mode in nftables iptables; do
	check "$mode: connections to Services of a kube-proxy" routed "$FAKE" "$mode" reach
	check "$mode: other numbers of Services change its rules" routed "$FAKE" "$mode" again
	check "$mode: what it is told, and where it runs" routed "$FAKE" "$mode" told
	check "$mode: nothing is left of it" routed "$FAKE" "$mode" left
	check "$mode: one that ends is told of, with its last words" ended "$mode"
	check "$mode: without one, the rules are generated" generated "$mode"
done
check "one before nftables is for iptables alone" before_nftables
check "no such kube-proxy" refused /nonexistent "is not there" iptables
check "what cannot be executed is no kube-proxy" not_executable
check "nothing is left" nothing_left
finish
