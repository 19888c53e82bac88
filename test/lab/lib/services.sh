# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/services.sh - Services with endpoints written by hand, on three nodes, and flows to
# them as rows: who asks, what, and who has to answer whom.
#
#   node1: web-1 client-1      node2: web-2 client-2      node3: client-3
# Processes of node1 and node2 serve on the pods' port numbers.
NODES=(node1 node2 node3)
# Names of addresses for rows; pods are added to them.
declare -A ADDR=([node1]=192.168.99.11 [node2]=192.168.99.12 [node3]=192.168.99.13
	[world]=192.168.99.200 [far]=203.0.113.10
	[vpod1]=10.244.1.1 [vpod2]=10.244.2.1 [vpod3]=10.244.3.1
	[vtep1]=10.18.0.1 [vtep2]=10.18.0.2 [vtep3]=10.18.0.3)
for name in "${!ADDR[@]}"; do
	ADDR[$name]=$(in_family "${ADDR[$name]}")
done
declare -A HOME_OF=([node1]=node1 [node2]=node2 [node3]=node3)
declare -A NUMBER=() # of a Service: its addresses and its node port follow from it
SERVICE_CIDR=10.96.0.0/16
LB_NET=198.51.100 # world's way to .0/26 is node1, to .64/26 node2, to .128/26 node3

explain()
{
	local node
	for node in "${NODES[@]}"; do
		echo "drops of $node:"
		on "$node" "$MK_BIN" drops || true
	done
}

# pod_up NODE NAME [OPTIONS]: of `lab pod`
pod_up()
{
	ADDR[$2]=$(lab pod "$@")
	HOME_OF[$2]=$1
}

# With WITH_PODS, Pods and Namespaces are objects, too.
services_lab_up()
{
	local index
	lab up 3 ${WITH_PODS:+--pods}
	for index in 1 2; do
		pod_up "node$index" "web-$index"
		serve "web-$index" "web-$index" --tcp 8080 --udp 5353
		serve "node$index" "node$index" --tcp 8080 --udp 5353
	done
	for index in 1 2 3; do
		pod_up "node$index" "client-$index"
		ip -n "$MK_LAB.world" route add "$(in_family "$LB_NET.$(((index - 1) * 64))/26")" via "${ADDR[node$index]}"
	done
	# the world may send to ClusterIPs: by the first node
	ip -n "$MK_LAB.world" route add "$(in_family "$SERVICE_CIDR")" via "${ADDR[node1]}"
	apply range <<-END
		apiVersion: networking.k8s.io/v1
		kind: ServiceCIDR
		metadata: {name: kubernetes}
		spec: {cidrs: ["$SERVICE_CIDR"]}
	END
}

# ---- objects

# number NAME N: the Service NAME has 10.96.1.N, node port 30000+N and, by way of node I (1..3), the
# load-balancer and external addresses .N and .30+N of that node's quarter; N is 1 to 29
number() { NUMBER[$1]=$2; }
vip() { in_family "10.96.1.${NUMBER[$1]}"; }
lb() { in_family "$LB_NET.$((($1 - 1) * 64 + ${NUMBER[$2]}))"; }
external() { in_family "$LB_NET.$((($1 - 1) * 64 + 30 + ${NUMBER[$2]}))"; }

# service NAME TYPE [MORE]: two ports with one number, TCP and UDP; MORE are further members of its
# spec. Of type LoadBalancer it has load-balancer addresses and externalIPs.
service()
{
	local node_port='' addresses=''
	[[ $2 == ClusterIP ]] || node_port=", nodePort: $((30000 + NUMBER[$1]))"
	[[ $2 != LoadBalancer ]] ||
		addresses=", externalIPs: [$(external 1 "$1"), $(external 2 "$1"), $(external 3 "$1")]"
	cat <<-END
		---
		apiVersion: v1
		kind: Service
		metadata: {name: $1}
		spec:
		  {type: $2, clusterIP: $(vip "$1")$addresses${3:+, $3},
		   ports: [{name: web, port: 80, targetPort: http$node_port},
		           {name: dns, port: 80, protocol: UDP, targetPort: dns$node_port}]}
	END
	[[ $2 != LoadBalancer ]] ||
		echo "status: {loadBalancer: {ingress: [{ip: $(lb 1 "$1")}, {ip: $(lb 2 "$1")}, {ip: $(lb 3 "$1")}]}}"
}

conditions()
{
	case $1 in
	ready) echo '{ready: true, serving: true, terminating: false}' ;;
	unready) echo '{ready: false, serving: false, terminating: false}' ;;
	terminating) echo '{ready: false, serving: true, terminating: true}' ;;
	ended) echo '{ready: false, serving: false, terminating: true}' ;;
	*) echo "condition '$1': expected ready, unready, terminating or ended" >&2; return 1 ;;
	esac
}

# endpoint WHO[=CONDITION][@HINTS]: HINTS is YAML, such as forNodes: [{name: node1}]
endpoint()
{
	local who=${1%%@*} hints='' condition
	[[ $1 != *@* ]] || hints=", hints: {${1#*@}}"
	condition=$(conditions "$([[ $who == *=* ]] && echo "${who#*=}" || echo ready)")
	who=${who%%=*}
	echo "- {addresses: [${ADDR[$who]}], nodeName: ${HOME_OF[$who]}, conditions: $condition$hints}"
}

# endpoints SERVICE ENDPOINT...: one slice with all of them; SERVICE.PART is one slice of several
endpoints()
{
	local name=$1
	shift
	cat <<-END
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: ${name/./-}-slice, labels: {kubernetes.io/service-name: ${name%%.*}}}
		addressType: IPv4
		ports: [{name: web, port: 8080}, {name: dns, protocol: UDP, port: 5353}]
		endpoints:
	END
	while (($#)); do
		endpoint "$1"
		shift
	done
}

# ---- flows

# where TO PROTO: ADDRESS:PORT of `vip SERVICE`, `node1 SERVICE`, `second SERVICE` (the node port at
# another address), `lb1 SERVICE`, `ext1 SERVICE`, of `at WHO`, a pod or node itself, and of `host WHO`,
# host port 8088
where()
{
	local kind=${1% *} service=${1#* }
	case $kind in
	vip) echo "$(vip "$service"):80" ;;
	node[1-3] | second) with_port "${ADDR[$kind]}" $((30000 + NUMBER[$service])) ;;
	host) with_port "${ADDR[$service]}" 8088 ;;
	lb[1-3]) echo "$(lb "${kind#lb}" "$service"):80" ;;
	at) with_port "${ADDR[$service]}" "$([[ $2 == tcp ]] && echo 8080 || echo 5353)" ;;
	ext[1-3]) echo "$(external "${kind#ext}" "$service"):80" ;;
	*) echo "$1" ;;
	esac
}

# ask_from FROM ...: as ask; FROM may be WHERE@ADDRESS
ask_from()
{
	local from=$1
	shift
	if [[ $from == *@* ]]; then
		ask "${from%@*}" "$@" --from "${ADDR[${from#*@}]}"
	else
		ask "$from" "$@"
	fi
}

answered()
{
	local from=$1 proto=$2 to=$3 who=$4 sees=$5 out line
	out=$(ask_from "$from" "$proto" "$to" --count 2 "${@:6}" || true)
	expect_eq "answers from $to to $from ($out)" 2 "$(wc -l <<<"$out")"
	while read -r line; do
		expect_match "answer from $to to $from" "^($who) ${ADDR[$sees]:-$sees} " "$line"
	done <<<"$out"
}

# At once: a refusal that takes as long as a timeout does not count.
refused()
{
	local status=0 out
	out=$(ask_from "$1" "$2" "$3" --timeout 2) || status=$?
	expect_eq "$2 from $1 to $3 (exit status 3 is refused)" "3 refused" "$status $out"
}

# silent FROM PROTO TO "NODE REASON": no answer at all, and NODE counts it under REASON
silent()
{
	local node=${4% *} reason=${4#* } before
	before=$(drop_count "$node" "$reason")
	expect_eq "$2 from $1 to $3" timeout "$(ask_from "$1" "$2" "$3" --timeout 0.4 || true)"
	(($(drop_count "$node" "$reason") > before)) ||
		expect_eq "$node's counter $reason" "above $before" "$before"
}

# flow FROM PROTO TO WHO SEES: check a request. WHO answers (a regular expression), and sees SEES as
# the client's address; or WHO is `refused`; or WHO is `silent`, and SEES is `NODE REASON`.
flow()
{
	local to
	to=$(where "$3" "$2")
	case $4 in
	refused) refused "$1" "$2" "$to" ;;
	silent) silent "$1" "$2" "$to" "$5" ;;
	*) answered "$1" "$2" "$to" "${@:4}" ;;
	esac
}

# check_flows ROW...: `name|from|protocols|to|who|sees`, one test per protocol
check_flows()
{
	local row name from protos to who sees proto
	for row in "$@"; do
		IFS='|' read -r name from protos to who sees <<<"$row"
		for proto in $protos; do
			check "$name, ${proto^^}" flow "$from" "$proto" "$to" "$who" "$sees"
		done
	done
}

# answerers FROM PROTO TO: who answers 24 requests, each once
answerers() { ask "$1" "$2" "$(where "$3" "$2")" --count 24 | cut -d' ' -f1 | sort -u | xargs; }
answers() { expect_eq "who answers $1 at $3" "$4" "$(answerers "${@:1:3}" || true)"; }
