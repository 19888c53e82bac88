#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/lab/t_privileges.sh - the privileges that the agent keeps, the information in its files and
# log, and the places where it does not write. Other labs show that it can do its work with them.
set -euo pipefail
# shellcheck source=test/lab/lib/tap.sh
. "$(dirname "$(realpath "$0")")/lib/tap.sh"
# shellcheck source=test/lab/lib/observe.sh
. "$HERE/lib/observe.sh"

API=https://192.168.99.100:6443
TOKEN=a-token-that-nobody-may-read
CA=/run/mklab-$MK_LAB/api/ca.crt
# DAC_OVERRIDE, NET_ADMIN, PERFMON, BPF; those of them that this machine gives at all
KEPT=$(printf %016x $((0xc000001002 & 0x$(awk '$1 == "CapEff:" {print $2}' /proc/self/status))))

explain() { lab log node1 | tail -n 20; }

agent_pid() { on node1 cat /var/lib/monokube/agent.lock; }

# status_of FIELD: each value that a thread of the agent has, once
status_of() { awk -v field="$1:" '$1 == field { print $2 }' /proc/"$(agent_pid)"/task/*/status | sort -u | xargs; }

privileges_up()
{
	lab up 1 --api
	ip netns exec "$MK_LAB.api" curl -sS --fail --noproxy '*' --cacert "$CA" -d "{\"tokens\": [\"$TOKEN\"]}" "$API/standin/settings"
	echo "$TOKEN" >"$TMP/token"
	cat >"$TMP/kubeconfig" <<-END
		apiVersion: v1
		kind: Config
		current-context: c
		contexts: [{name: c, context: {cluster: k, user: u}}]
		clusters: [{name: k, cluster: {server: "$API", certificate-authority: $CA}}]
		users: [{name: u, user: {tokenFile: $TMP/token}}]
	END
	restart
}

# restart FLAGS...
restart()
{
	lab agent stop node1
	MK_AGENT_FLAGS="--log-level debug --kubeconfig $TMP/kubeconfig $*" lab agent start node1
}

few_rights()
{
	local set
	for set in CapEff CapPrm; do
		expect_eq "$set of every thread" "$KEPT" "$(status_of "$set")"
	done
	for set in CapInh CapAmb; do
		expect_eq "$set of every thread" 0000000000000000 "$(status_of "$set")"
	done
	expect_eq "capabilities that an exec could give" "$KEPT" "$(status_of CapBnd)"
	expect_eq "no_new_privs" 1 "$(status_of NoNewPrivs)"
	expect_eq "seccomp mode (2: filter)" 2 "$(status_of Seccomp)"
}

privileged_port()
{
	local binding
	restart --healthz-bind-address 127.0.0.1:256
	binding=$(printf %016x $((0x$KEPT | 0x400 & 0x$(awk '$1 == "CapEff:" {print $2}' /proc/self/status))))
	expect_eq "CapEff, with NET_BIND_SERVICE" "$binding" "$(status_of CapEff)"
	wait_for 5 on node1 curl -sS --fail --noproxy '*' http://127.0.0.1:256/livez
	restart --metrics-bind-address 127.0.0.1:257
	expect_eq "CapEff, for metrics" "$binding" "$(status_of CapEff)"
	wait_for 5 on node1 curl -sS --fail -o /dev/null --noproxy '*' http://127.0.0.1:257/metrics
	restart
}

# The remedy if the filter blocks a library.
filter_is_optional()
{
	local start
	start=$(log_size)
	MONOKUBE_SECCOMP=off restart
	expect_eq "seccomp mode (0: none)" 0 "$(status_of Seccomp)"
	logged "$start" 'warn MONOKUBE_SECCOMP is off'
	MONOKUBE_SECCOMP=log restart
	expect_eq "seccomp mode (2: filter)" 2 "$(status_of Seccomp)"
	logged "$start" 'warn MONOKUBE_SECCOMP is log'
	lab agent stop node1
	MONOKUBE_SECCOMP=maybe MK_AGENT_FLAGS="--kubeconfig $TMP/kubeconfig" expect_failure lab agent start node1
	logged "$start" "MONOKUBE_SECCOMP: value 'maybe', expected on, log or off"
	MK_AGENT_FLAGS="--kubeconfig $TMP/kubeconfig" lab agent start node1
}

# A full table is read in batches with the rights that the agent kept.
many_sessions()
{
	local start
	start=$(log_size)
	restart --session-table-size 131072
	on node1 "$HERE/fill_map.py" fill /sys/fs/bpf/monokube/maps/sessions 32
	wait_for 60 counts_entries 131072
	on node1 "$HERE/fill_map.py" clear /sys/fs/bpf/monokube/maps/sessions
	wait_for 60 counts_entries 0
	expect_failure logged "$start" "cannot sweep"
	restart
}

counts_entries() { on node1 curl -s http://127.0.0.1:10249/metrics | grep -x "monokube_table_entries{family=\"IPv4\",table=\"sessions\"} $1"; }

token_is_secret()
{
	local start
	expect_match "the debug log" '(^|[>[:space:]])debug ' "$(lab log node1)"
	start=$(log_size)
	ip netns exec "$MK_LAB.api" curl -sS --fail --noproxy '*' --cacert "$CA" -d '{"tokens": ["another"]}' "$API/standin/settings"
	lab api stop
	lab api start
	wait_for 20 logged "$start" '401|Unauthorized|unauthorized'
	ip netns exec "$MK_LAB.api" curl -sS --fail --noproxy '*' --cacert "$CA" -d "{\"tokens\": [\"$TOKEN\"]}" "$API/standin/settings"
	expect_failure grep -E "$TOKEN" <(lab log node1)
	expect_failure grep -rE "$TOKEN" "/run/mklab-$MK_LAB/nodes/node1"
}

files_are_roots()
{
	lab pod node1 somebody
	expect_eq "files below /var/lib/monokube that others may read" "" "$(on node1 find /var/lib/monokube -type f -perm /077)"
	expect_eq "directories below /var/lib/monokube that others may read" "" "$(on node1 find /var/lib/monokube -mindepth 1 -type d -perm /077)"
	expect_eq "mode of the CNI configuration" 600 "$(on node1 stat -c %a /etc/cni/net.d/10-monokube.conflist)"
}

# Each place that is written to, with a link in its path: the error names the link, and nothing is
# written behind it.
no_symbolic_links()
{
	local start
	on node1 sh -c 'mkdir /etc/cni/net.d/real /opt/cni/bin/real
		ln -s real /etc/cni/net.d/link; ln -s real /opt/cni/bin/link'
	start=$(log_size)
	lab agent stop node1
	refused_link "$start" "--cni-conf-file-path /etc/cni/net.d/link/10-monokube.conflist"
	refused_link "$start" "--cni-bin-dir /opt/cni/bin/link"
	expect_eq "what is behind the links" "" "$(on node1 sh -c 'ls -A /etc/cni/net.d/real /opt/cni/bin/real' | grep -v ':$' | xargs)"
	on node1 sh -c 'rm -r /etc/cni/net.d/link /opt/cni/bin/link /etc/cni/net.d/real /opt/cni/bin/real'
	MK_AGENT_FLAGS="--kubeconfig $TMP/kubeconfig" lab agent start node1
}

# The state directory, one of its parts, one of its files: nothing is written behind the link.
no_links_in_state()
{
	local start out
	on node1 sh -e -c 'mkdir /var/lib/real; ln -s real /var/lib/link'
	lab agent stop node1
	start=$(log_size)
	MK_AGENT_FLAGS="--kubeconfig $TMP/kubeconfig --state-dir /var/lib/link" expect_failure lab agent start node1
	logged "$start" "does not start: .*symbolic link 'link'"
	expect_eq "what is behind the link" "" "$(on node1 ls -A /var/lib/real)"
	on node1 sh -e -c 'cd /var/lib/monokube; mv agent.lock kept; ln -s /var/lib/real/lock agent.lock'
	expect_failure lab agent start node1
	on node1 sh -e -c 'cd /var/lib/monokube; mv kept agent.lock; mv ipam kept; ln -s kept ipam'
	out=$(lab pod node1 misled 2>&1) && { echo "a pod started"; return 1; }
	expect_match "what ADD says" "symbolic link 'ipam'" "$out"
	on node1 sh -e -c 'cd /var/lib/monokube; rm ipam; mv kept ipam; rm -r /var/lib/link /var/lib/real'
	lab rm misled 2>/dev/null || true
	MK_AGENT_FLAGS="--kubeconfig $TMP/kubeconfig" lab agent start node1
	lab pod node1 led
}

# refused_link START FLAGS: the agent says so, and tries again
refused_link()
{
	local start
	start=$(log_size)
	MK_AGENT_FLAGS="--kubeconfig $TMP/kubeconfig $2" lab agent start node1 >/dev/null 2>&1 &
	wait_for 30 logged "$start" "symbolic link 'link'"
	lab agent kill node1
	wait $! || true
}

privileges_up
check "capabilities, no_new_privs, system calls" few_rights
check "a port below 1024 is asked for: the right to it stays" privileged_port
check "the filter of system calls can be logged or off" filter_is_optional
check "many sessions are counted with the rights that are left" many_sessions
check "no token in the log" token_is_secret
check "addresses are for root alone" files_are_roots
check "no symbolic link is followed where files are written" no_symbolic_links
check "... nor below /var/lib" no_links_in_state
finish
