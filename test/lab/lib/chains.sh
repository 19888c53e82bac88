# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/lab/lib/chains.sh - function pods and chains, shared by the tests of service function chains. The
# firewall is Linux' own: nftables with connection tracking in a bridge. It notes each flow that it sees.
#
# It wants client.sh, web.sh, and load.sh for the load.

PREFIX=networking.monokube.io
ADDRESS=$(by_family ipv4_addr ipv6_addr)
IP=$(by_family ip ip6)
# shellcheck disable=SC2034 # read by the tests
OPEN_PORT=8080 DENIED_PORT=8081
LOAD_PORTS=(7001 7002 7003 7004 7005 7006)

# ---- functions

# function_pod NAME FUNCTION MODE [OPTIONS]: on $NODE, which is node1 if not set
function_pod()
{
	lab pod "${NODE:-node1}" "$1" --namespace inspection --label "$PREFIX/function=$2" --annotation "$PREFIX/function-ports=$3" "${@:4}" >/dev/null
}

# Rules of a stateful firewall, for table FAMILY. It notes flows by the client's address and both ports.
firewall_rules()
{
	cat <<-END
		table $1 fw {
			set out { type $ADDRESS . inet_proto . inet_service . inet_service; flags dynamic; size 65535; }
			set in { type $ADDRESS . inet_proto . inet_service . inet_service; flags dynamic; size 65535; }
			counter outward { }
			counter inward { }
			counter denied { }
			chain forward {
				type filter hook forward priority 0; policy accept;
				ct state invalid counter name denied drop
				ct state new th dport $DENIED_PORT counter name denied drop
				ct direction original counter name outward
				ct direction reply counter name inward
				ct direction original meta l4proto { tcp, udp } add @out { $IP saddr . meta l4proto . th sport . th dport }
				ct direction reply meta l4proto { tcp, udp } add @in { $IP daddr . meta l4proto . th dport . th sport }
			}
		}
	END
}

# firewall NAME [OPTIONS]. Kernels without connection tracking in family bridge have bridge-nf-call-iptables.
firewall()
{
	function_pod "$1" firewall Bridged "${@:2}"
	rules_in "$1"
}
rules_in()
{
	firewall_rules bridge >"$TMP/rules"
	if on "$1" nft -f "$TMP/rules" 2>"$TMP/nft"; then
		echo bridge >"$TMP/nft-family"
		return
	fi
	on "$1" sysctl -qw net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1
	firewall_rules "$IP" >"$TMP/rules"
	on "$1" nft -f "$TMP/rules"
	echo "$IP" >"$TMP/nft-family"
}
# strict_firewall NAME: it refuses a connection whose begin it did not see
strict_firewall()
{
	firewall "$1"
	on "$1" sysctl -qw net.netfilter.nf_conntrack_tcp_loose=0
}
counted() { on "$1" nft -j list counter "$(<"$TMP/nft-family")" fw "$2" | jq '.nftables[] | select(.counter).counter.packets'; }
flows_of() { on "$1" nft -j list set "$(<"$TMP/nft-family")" fw "$2" | jq -rc '.nftables[] | select(.set).set.elem // [] | .[] | (.elem.val // .).concat // .concat | join(" ")' | sort; }

mover()
{
	local name=$1
	function_pod "$name" "$2" Inline
	on "$name" "$HERE/mover.py" inside outside "${@:3}" >"$TMP/moves.$name" 2>&1 &
	wait_for 10 grep running "$TMP/moves.$name"
}

# A stateful firewall sees both directions of each of its flows, and no flow is in two replicas.
symmetric()
{
	local replica all=''
	for replica in "$@"; do
		expect_eq "flows of $replica inward" "$(flows_of "$replica" out)" "$(flows_of "$replica" in)"
		all+=$(flows_of "$replica" out)$'\n'
	done
	expect_eq "flows in two replicas" "" "$(sort <<<"$all" | sed '/^$/d' | uniq -d)"
}

# ---- chains

# chain FUNCTIONS [MORE]: a list; MORE of spec.traffic. $DIRECTION is Egress if not set, $CHAIN_SPEC is more
# of spec.
chain()
{
	cat <<-END | apply chain
		---
		apiVersion: $PREFIX/v1alpha1
		kind: ServiceFunctionChain
		metadata: {name: shop-egress, namespace: inspection}
		spec:
		  ${CHAIN_SPEC:-}
		  traffic:
		    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}
		    podSelector: {}
		    direction: ${DIRECTION:-Egress}
		    ${2:-}
		  functions: $1
	END
}
no_chain() { lab delete "$TMP/chain.yaml" >/dev/null; }

replicas() { on node1 "$MK_BIN" chains -o json | jq "[.functions[] | select(.function == \"$1\" and .state == \"$2\")] | length"; }
serve_now() { expect_eq "replicas of $1 that serve" "$2" "$(replicas "$1" serving)"; }
# packets FUNCTION COLUMN: over all of its replicas
packets() { on node1 "$MK_BIN" chains -o json | jq "[.functions[] | select(.function == \"$1\").$2 // 0] | add"; }

# consenting_namespace NAME: chains of inspection may take its pods
consenting_namespace()
{
	apply "namespace-$1" <<-END
		---
		apiVersion: v1
		kind: Namespace
		metadata: {name: $1, labels: {kubernetes.io/metadata.name: $1, $PREFIX/chained-by: inspection}}
	END
}

# ---- chains with ends

# shellcheck disable=SC2034 # read by the tests
CLIENT=$(by_family 10.9.0.1 fd00:9::1) SERVER=$(by_family 10.9.1.1 fd00:9:1::1)
# shellcheck disable=SC2034 # read by the tests
CLIENTS=$(by_family 10.9.0.0/24 fd00:9::/64) SERVERS=$(by_family 10.9.1.0/24 fd00:9:1::/64)
END_BITS=$(by_family 24 64)

# end_pod NAME FUNCTION ADDRESS ROUTES
end_pod()
{
	function_pod "$1" "$2" End --annotation "$PREFIX/function-address=$3/$END_BITS" --annotation "$PREFIX/function-routes=$4"
}

end_chain()
{
	cat <<-END | apply ends
		---
		apiVersion: $PREFIX/v1alpha1
		kind: ServiceFunctionChain
		metadata: {name: link, namespace: inspection}
		spec:
		  ends: {inside: client, outside: server}
		  functions: $1
	END
}

# ---- a chain between two pods

# guard NAME NODE: a replica of the firewall. It gets traffic when it has its rules. A flow may come back to it, so
# its connection tracking does not compare sequence numbers with those that it saw last.
guard()
{
	NODE=$2 firewall "$1" --label "$PREFIX/function=starts" &&
		on "$1" sysctl -qw net.netfilter.nf_conntrack_tcp_be_liberal=1 &&
		lab label "$1" "$PREFIX/function=firewall"
}

# chained_up NODE: the pod shopper of NODE asks the pod store of node2, and a Service of it, by the firewall, which has
# a replica on each node.
STORE_VIP=$(in_family 10.96.66.3)
chained_up()
{
	consenting_namespace shop
	guard guard-1 node1
	guard guard-2 node2
	lab pod "$1" shopper --namespace shop >/dev/null
	STORE=$(lab pod node2 store)
	serve store store --{tcp,udp}={$OPEN_PORT,$DENIED_PORT}
	service_yaml store store "$STORE_VIP" "$(store_port TCP $OPEN_PORT), $(store_port UDP $OPEN_PORT),
		$(store_port TCP $DENIED_PORT), $(store_port UDP $DENIED_PORT)" | apply store
	chain '[{name: firewall, localWeight: 1}]'
	wait_for 20 serve_now firewall 2
	wait_for 20 denied_to shopper "$(with_port "$STORE" $DENIED_PORT)"
	wait_for 20 ask shopper tcp "$STORE_VIP:$OPEN_PORT"
}
store_port() { echo "{name: p-${1,,}-$2, port: $2, protocol: $1}"; }

# chained_load: until stop_load and stop_denied
chained_load()
{
	load chained shopper "$STORE:$OPEN_PORT" "$STORE_VIP:$OPEN_PORT"
	denied chained shopper "$STORE:$DENIED_PORT" "$STORE_VIP:$DENIED_PORT"
}

# chained_paths NODE: `PROTOCOL CLIENT'S PORT REPLICA` of each flow of the load, as NODE, the shopper's, knows it
chained_paths()
{
	local ports
	ports=$(on shopper ss -Hntu state established dport = ":$OPEN_PORT" | awk '{ sub(/.*:/, "", $4); print $4 }' | jq -s .)
	on "$1" "$MK_BIN" sessions ":$OPEN_PORT" -o json | jq -r --argjson ports "$ports" '.[] |
		(.from | sub(".*:"; "") | tonumber) as $port | select(.via and ($port | IN($ports[]))) |
		"\(.protocol) \($port) \(.via)"' | sort -u
}
all_have_paths() { expect_eq "chained flows" 6 "$(chained_paths "$1" | wc -l)"; }

# lose_sandbox NAME: the ports of a function pod vanish, and then its namespace, without DEL. If the kernel removed the
# namespace at once, it would take the firewall's rules first, and the bridge would pass packets for an instant.
lose_sandbox()
{
	on "$1" sh -e -c 'ip link del inside; ip link del outside'
	command ip netns del "$MK_LAB.$1"
}

# passed_by REPLICA: a line for report.py, with the packets that it passed and denied since its start
passed_by() { echo "function $(($(counted "$1" outward) + $(counted "$1" inward))) $(counted "$1" denied)"; }

# ---- traffic

try() { on "$1" "$HERE/echo.py" ask tcp "$2" --timeout 0.4; }
denied_to() { expect_eq "$2 from $1" timeout "$(try "$1" "$2" || true)"; }

broken_of() { grep -E '^(broken|lost)' "$TMP/load.$1" || true; }
load_world() { load "$1" client "${LOAD_PORTS[@]/#/$(with_port "$WORLD" '')}"; }
# flows of the load whose path is REPLICA, as load.py names them
udp_by() { on node1 "$MK_BIN" sessions -o json | jq -r ".[] | select(.protocol == \"UDP\" and .via == \"$1\") | .to" | sed 's/^/udp:/' | sort; }
lost_of() { grep -E '^lost' "$TMP/load.$1" | cut -d ' ' -f 3 | sort -u || true; }
# all_by REPLICA...: all UDP flows of the load use one of them
all_by() { (($(for replica in "$@"; do udp_by "$replica"; done | wc -l) >= ${#LOAD_PORTS[@]})); }
# The flows are few, so a replica may have none: the first one of REPLICA... that has some
first_used()
{
	local replica
	for replica in "$@"; do
		[[ ! $(udp_by "$replica") ]] || {
			echo "$replica"
			return
		}
	done
	return 1
}
none_by() { [[ ! $(udp_by "$1") ]]; }
