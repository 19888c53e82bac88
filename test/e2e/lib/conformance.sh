# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/e2e/lib/conformance.sh - Kubernetes' own tests of the network on the cluster, from the same
# source. Their Pods' image, agnhost, is built from it too, on Debian's packages in place of
# Alpine's.

AGNHOST_IMAGE=k8s.gcr.io/e2e-test-images/agnhost:2.21 # as the tests name it
AGNHOST_PACKAGES=(bash dash coreutils curl netcat-openbsd iproute2 dnsutils grep sed procps)
CONFORMANCE='\[sig-network\].*\[Conformance\]'
WITHOUT='\[sig-network\] DNS' # the DNS server of lib/stand_in.py is ours, and no part of monokube

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
	grep -aoE '\{"msg":"(PASSED|FAILED) [^"]+"' "$LAB_DIR/conformance.log" | sed -E 's/^.*"(PASSED|FAILED) (.*)"$/\1  \2/'
	grep -aE '^Ran [0-9]+|^(SUCCESS|FAIL)!' "$LAB_DIR/conformance.log"
}

# conformance [FOCUS]
conformance()
{
	local node
	open_suite
	build_kubernetes e2e.test agnhost
	build_agnhost
	for node in "${NODES[@]}"; do
		in_machine "$node" ctr -n k8s.io images import - <"$CACHE/agnhost.tar" >/dev/null
	done
	dns_up
	in_netns "$CONTROL_NODE" env NO_PROXY='*' "$CACHE/bin/e2e.test" --provider=skeleton --kubeconfig "$LAB_DIR/pki/admin.kubeconfig" \
		--kubectl-path "$CACHE/bin/kubectl" --ginkgo.noColor --ginkgo.focus "${1:-$CONFORMANCE}" --ginkgo.skip "$WITHOUT" \
		--report-dir "$LAB_DIR/conformance" >"$LAB_DIR/conformance.log" 2>&1 || true
	conformance_rows
	grep -aq '^SUCCESS! ' "$LAB_DIR/conformance.log" || die "conformance tests failed; $LAB_DIR/conformance.log tells how"
}
