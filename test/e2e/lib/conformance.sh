# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/e2e/lib/conformance.sh - Kubernetes' own tests of the network on the cluster, from the same
# source. Their Pods' image, agnhost, is built from it too, on Debian's packages in place of
# Alpine's.

AGNHOST_IMAGE=k8s.gcr.io/e2e-test-images/agnhost:2.21 # as the tests name it
AGNHOST_PACKAGES=(bash dash coreutils curl wget netcat-openbsd iproute2 dnsutils grep sed procps)
CONFORMANCE='\[sig-network\]'
# Tests that cannot run here; README.md gives the reasons.
WITHOUT='\[sig-network\] DNS|ClusterDns|\[Serial\]|Firewall|KubeProxy|restarting (kube-proxy|apiserver)|iptables rules'
WITHOUT+='|[Ll]oad ?[Bb]alanc|ESIPP|IPerf|SCTP \[Feature:SCTP\]|Networking-IPv[46]|for Pods matching a Service'
[[ $SECOND_WORLD ]] || WITHOUT+='|IPv6DualStack'
[[ -e /proc/net/sctp ]] || WITHOUT+='|SCTPConnectivity' # the kernel's module is not loaded
TESTS_PORT=6445 # of lib/stand_in.py
PROCESSES=${PROCESSES:-4} # that share the tests

build_agnhost()
{
	local files=$CACHE/images/agnhost
	[[ ! -s $CACHE/agnhost.tar ]] || return 0
	unpack_into "$files" "${AGNHOST_PACKAGES[@]}"
	ln -sf dash "$files/bin/sh"
	ln -sf nc.openbsd "$files/bin/nc"
	chmod 1777 "$files/tmp"
	cp "$CACHE"/bin/{agnhost,localhost.crt,localhost.key} "$files/"
	"$HERE/lib/image" --name $AGNHOST_IMAGE --archive "$CACHE/agnhost.tar" "$files" /agnhost
	rm -rf "$CACHE/images"
}

dns_objects()
{
	cat <<-END
		---
		apiVersion: rbac.authorization.k8s.io/v1
		kind: ClusterRoleBinding
		metadata: {name: e2e-dns}
		roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
		subjects: [{kind: ServiceAccount, name: default, namespace: kube-system}]
		---
		apiVersion: apps/v1
		kind: Deployment
		metadata: {name: kube-dns, namespace: kube-system}
		spec:
		  selector: {matchLabels: {k8s-app: kube-dns}}
		  template:
		    metadata: {labels: {k8s-app: kube-dns}}
		    spec:
		      dnsPolicy: Default
		      containers:
		      - name: dns
		        image: $POD_IMAGE
		        command: [python3, /e2e/stand_in.py, dns]
		        volumeMounts: [{name: e2e, mountPath: /e2e}]
		      volumes: [{name: e2e, configMap: {name: e2e-dns}}]
		---
		apiVersion: v1
		kind: Service
		metadata: {name: kube-dns, namespace: kube-system}
		spec: {clusterIP: "$DNS_SERVICE", selector: {k8s-app: kube-dns}, ports: [{protocol: UDP, port: 53}]}
	END
}

dns_up()
{
	kubectl -n kube-system get configmap e2e-dns >/dev/null 2>&1 ||
		kubectl -n kube-system create configmap e2e-dns --from-file "$HERE/lib/stand_in.py"
	dns_objects | kubectl apply -f -
	kubectl -n kube-system rollout status deployment/kube-dns --timeout 60s
}

# A line per test, from the lines that the tests write about themselves as JSON
conformance_rows()
{
	grep -ahoE '\{"msg":"(PASSED|FAILED) [^"]+"' "$CACHE/conformance/$FAMILIES".*.log | sed -E 's/^.*"(PASSED|FAILED) (.*)"$/\1  \2/'
}

# test_process INDEX FOCUS: one of those that share the tests. It asks for plain HTTP outside of the
# cluster at lib/stand_in.py.
test_process()
{
	local coordinator=http://127.0.0.1:$TESTS_PORT
	in_netns "$CONTROL_NODE" env -u HTTPS_PROXY -u https_proxy -u http_proxy -u no_proxy HTTP_PROXY=$coordinator \
		NO_PROXY=10.0.0.0/8,192.168.0.0/16,fd00::/8 "$CACHE/bin/e2e.test" --provider=skeleton --num-nodes "${#NODES[@]}" \
		--kubeconfig "$LAB_DIR/pki/admin.kubeconfig" --kubectl-path "$CACHE/bin/kubectl" --ginkgo.noColor --ginkgo.seed 1 \
		--ginkgo.parallel.node "$1" --ginkgo.parallel.total "$PROCESSES" --ginkgo.parallel.synchost $coordinator \
		--ginkgo.focus "$2" --ginkgo.skip "$WITHOUT" --report-dir "$LAB_DIR" >"$CACHE/conformance/$FAMILIES.$1.log" 2>&1
}

run_tests()
{
	local index
	mkdir -p "$CACHE/conformance"
	rm -f "$CACHE/conformance/$FAMILIES".*.log
	control coordinator "$HERE/lib/stand_in.py" tests 127.0.0.1 $TESTS_PORT
	for index in $(seq "$PROCESSES"); do
		test_process "$index" "$1" &
	done
	wait
	kill "$(recorded_pid "$LAB_DIR/coordinator.pid")"
}

# conformance [FOCUS]
conformance()
{
	local node rows failed
	open_suite
	build_kubernetes e2e.test agnhost
	build_agnhost
	for node in "${NODES[@]}"; do
		in_machine "$node" ctr -n k8s.io images import - <"$CACHE/agnhost.tar" >/dev/null
	done
	dns_up
	run_tests "${1:-$CONFORMANCE}"
	rows=$(conformance_rows)
	echo "$rows"
	failed=$(grep -c '^FAILED' <<<"$rows" || true)
	[[ $(grep -al '^SUCCESS! ' "$CACHE/conformance/$FAMILIES".*.log | wc -l) == "$PROCESSES" ]] ||
		die "$failed of $(wc -l <<<"$rows") tests failed; $CACHE/conformance/$FAMILIES.*.log say how"
	echo "all $(wc -l <<<"$rows") tests passed"
}
