# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/e2e/lib/control.sh - the control plane, on node1, as processes of its host network:
# certificates, etcd, kube-apiserver, kube-controller-manager, kube-scheduler.
# shellcheck disable=SC2034 # read by the other parts

CONTROL_NODE=node1
SERVICE_CIDR=10.96.0.0/12
FIRST_SERVICE=10.96.0.1
DNS_SERVICE=10.96.0.10
ANY=0.0.0.0 # where kube-apiserver and kubelet listen
if [[ $LAB_FAMILY == 6 ]]; then
	SERVICE_CIDR=fd00:10:96::/112
	FIRST_SERVICE=fd00:10:96::1
	DNS_SERVICE=fd00:10:96::a
	ANY=::
fi

# A second family: its ranges come second, its addresses beside the primary family's
SERVICE_CIDRS=$SERVICE_CIDR
GATES=()
SECOND_WORLD='' SECOND_FAR=''
SLICES_PORT=6444 # of lib/stand_in.py
if [[ $FAMILIES == 4,6 ]]; then
	CLUSTER_CIDR+=,fd00:10:244::/48
	SERVICE_CIDRS+=,fd00:10:96::/112
	SUBNET2=fd00:99:: BITS2=64
	SECOND_WORLD=fd00:99::200 SECOND_FAR=2001:db8::10
elif [[ $FAMILIES == 6,4 ]]; then
	CLUSTER_CIDR+=,10.244.0.0/16
	SERVICE_CIDRS+=,10.96.0.0/16
	SUBNET2=192.168.99. BITS2=24
	SECOND_WORLD=192.168.99.200 SECOND_FAR=203.0.113.10
fi
if [[ $SECOND_WORLD ]]; then
	GATES=(--feature-gates=IPv6DualStack=true)
	ANY=::
fi
# second_addr NODE: its address of the second family, if there is one
second_addr() { [[ ! $SECOND_WORLD ]] || echo "$SUBNET2$((10 + ${1#node}))"; }
# node_addrs NODE: of all families, separated by $2
node_addrs() { echo "$(node_addr "$1")${SECOND_WORLD:+$2$(second_addr "$1")}"; }
CONTROL_READY_SECONDS=120

# with_port ADDRESS PORT: as in a URL
with_port() { if [[ $1 == *:* ]]; then echo "[$1]:$2"; else echo "$1:$2"; fi; }

# ---- certificates

# certificate NAME SUBJECT [SUBJECT_ALT_NAMES]
certificate()
{
	local name=$1 subject=$2 names=${3:-} pki=$LAB_DIR/pki
	openssl req -new -newkey rsa:2048 -nodes -subj "$subject" -keyout "$pki/$name.key" -out "$pki/$name.csr" 2>/dev/null
	openssl x509 -req -in "$pki/$name.csr" -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -CAcreateserial -days 30 \
		-extfile <(echo "extendedKeyUsage = clientAuth, serverAuth${names:+
subjectAltName = $names}") -out "$pki/$name.crt" 2>/dev/null
}

kubeconfig_of()
{
	local name=$1 pki=$LAB_DIR/pki
	cat >"$LAB_DIR/pki/$name.kubeconfig" <<-END
		apiVersion: v1
		kind: Config
		current-context: cluster
		clusters: [{name: cluster, cluster: {server: "$API_URL", certificate-authority: $pki/ca.crt}}]
		users: [{name: user, user: {client-certificate: $pki/$name.crt, client-key: $pki/$name.key}}]
		contexts: [{name: cluster, context: {cluster: cluster, user: user}}]
	END
}

certificates()
{
	local node pki=$LAB_DIR/pki
	mkdir -m 700 "$pki"
	openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=kubernetes -days 30 -keyout "$pki/ca.key" -out "$pki/ca.crt" 2>/dev/null
	openssl genrsa -out "$pki/service-accounts.key" 2048 2>/dev/null
	certificate apiserver /CN=kube-apiserver \
		"DNS:kubernetes, DNS:kubernetes.default, DNS:kubernetes.default.svc, IP:$API_ADDR, IP:$FIRST_SERVICE, IP:127.0.0.1"
	certificate admin /O=system:masters/CN=admin
	certificate kube-controller-manager /CN=system:kube-controller-manager
	certificate kube-scheduler /CN=system:kube-scheduler
	for node in "${NODES[@]}"; do
		certificate "$node" "/O=system:nodes/CN=system:node:$node" "DNS:$node, IP:$(node_addrs "$node" ", IP:")"
	done
	for node in admin kube-controller-manager kube-scheduler "${NODES[@]}"; do
		kubeconfig_of "$node"
	done
}

# ---- processes

# control NAME COMMAND...: a process of the control plane; its log is $LAB_DIR/NAME.log
control()
{
	local name=$1
	shift
	(
		close_inherited
		exec setsid nsenter --net="/run/netns/$(netns_of "$CONTROL_NODE")" -- "$@"
	) </dev/null >>"$LAB_DIR/$name.log" 2>&1 &
	record_pid "$!" "$LAB_DIR/$name.pid"
	disown
}

start_apiserver()
{
	local pki=$LAB_DIR/pki
	control kube-apiserver "$CACHE/bin/kube-apiserver" "${GATES[@]}" --etcd-servers=http://127.0.0.1:2379 \
		--advertise-address="$API_ADDR" --bind-address=$ANY --secure-port="$API_PORT" --service-cluster-ip-range=$SERVICE_CIDRS \
		--tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
		--client-ca-file="$pki/ca.crt" --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
		--allow-privileged=true --kubelet-preferred-address-types=InternalIP \
		--kubelet-client-certificate="$pki/admin.crt" --kubelet-client-key="$pki/admin.key" \
		--kubelet-certificate-authority="$pki/ca.crt" --service-account-issuer=https://kubernetes.default.svc \
		--service-account-signing-key-file="$pki/service-accounts.key" \
		--service-account-key-file="$pki/service-accounts.key" --cert-dir="$LAB_DIR/pki"
}

start_controllers()
{
	local pki=$LAB_DIR/pki
	control kube-controller-manager "$CACHE/bin/kube-controller-manager" "${GATES[@]}" --leader-elect=false \
		--kubeconfig="$pki/kube-controller-manager.kubeconfig" --root-ca-file="$pki/ca.crt" \
		--service-account-private-key-file="$pki/service-accounts.key" --use-service-account-credentials \
		--allocate-node-cidrs --cluster-cidr="$CLUSTER_CIDR" --service-cluster-ip-range=$SERVICE_CIDRS \
		--node-monitor-grace-period=120s --cert-dir="$pki"
	control kube-scheduler "$CACHE/bin/kube-scheduler" --leader-elect=false \
		--kubeconfig="$pki/kube-scheduler.kubeconfig" --cert-dir="$pki"
}

kubectl() { in_netns "$CONTROL_NODE" env NO_PROXY='*' KUBECONFIG="$LAB_DIR/pki/admin.kubeconfig" "$CACHE/bin/kubectl" --cache-dir "$LAB_DIR/kubectl" "$@"; }
api_is_ready() { kubectl get --raw /readyz >/dev/null 2>&1; }
accounts_exist() { kubectl -n kube-system get serviceaccount default >/dev/null 2>&1; }

# fail NAME MESSAGE: with the last lines of NAME's log
fail()
{
	tail -n 20 "$LAB_DIR/$1.log" >&2
	die "$2; the last lines of $LAB_DIR/$1.log are above"
}

control_up()
{
	control etcd "$CACHE/bin/etcd" --data-dir "$LAB_DIR/etcd" --listen-client-urls http://127.0.0.1:2379 \
		--advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380 --unsafe-no-fsync
	start_apiserver
	wait_until "$CONTROL_READY_SECONDS" api_is_ready ||
		fail kube-apiserver "kube-apiserver is not ready after $CONTROL_READY_SECONDS s"
	[[ ! $SECOND_WORLD ]] || control slices "$HERE/lib/stand_in.py" slices "$API_ADDR" $SLICES_PORT "$(with_port "$API_ADDR" "$API_PORT")" "$LAB_DIR/pki"
	start_controllers
	wait_until "$CONTROL_READY_SECONDS" accounts_exist ||
		fail kube-controller-manager "kube-controller-manager made no service account in $CONTROL_READY_SECONDS s"
}
