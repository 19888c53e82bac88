# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# test/e2e/lib/chains.sh - `test/e2e/run --chains`: the story of manifests/examples/chains.yaml on a
# real cluster. Its ports, namespaces and images are replaced; its functions' pods end after
# GRACE seconds instead of 60.
#
#   $NAMESPACE   client-1 and client-2, load-1 and load-2, on two nodes: chained when it consents
#   $FREE        free-1: selected by the chain, without consent
#   $FUNCTIONS   the functions and the chain
#
# At the outside address one port has a server. The next one has none: its connections are refused
# if they get there, and get no answer if the firewall drops them.
# shellcheck disable=SC2154 # firewall_mode, function_image, ids_image, outsides: flags of `run`

FUNCTIONS=$NAMESPACE-inspection FREE=$NAMESPACE-free
CRD=servicefunctionchains.networking.monokube.io
CHAIN=shop-egress
STEP_SECONDS=120
GRACE=5 # seconds that open flows stay with a replica that ends

in_functions() { "$KUBECTL" -n "$FUNCTIONS" "$@"; }

open_port() { echo "${outside##*:}"; }
denied_port() { echo $((${outside##*:} + 1)); }
denied() { echo "${outside%:*}:$(denied_port)"; }

family_of_firewall() { if [[ $firewall_mode == Bridged ]]; then echo bridge; else echo inet; fi; }

example()
{
	sed -e "s|namespace: inspection|namespace: $FUNCTIONS|; s|^  name: inspection|  name: $FUNCTIONS|" \
		-e "s|kubernetes.io/metadata.name: shop|e2e: chained|" \
		-e "s|ct state new tcp dport { 80, 443 }|ct state new meta l4proto { tcp, udp } th dport $(open_port)|" \
		-e "s|- {protocol: TCP, port: 80}|- {protocol: UDP, port: $(open_port)}\n    - {protocol: TCP, port: $(open_port)}|" \
		-e "s|port: 443|port: $(denied_port)|" \
		-e "s|terminationGracePeriodSeconds: 60|terminationGracePeriodSeconds: $GRACE|" \
		-e "s|function-ports: Bridged|function-ports: $firewall_mode|; s|table bridge|table $(family_of_firewall)|; s|table, bridge|table, $(family_of_firewall)|" \
		-e "s|registry.example/nft:1|$function_image|; s|registry.example/suricata:7|$ids_image|" \
		"$HERE/../../manifests/examples/chains.yaml"
}

chains_up()
{
	local space index
	for space in "$NAMESPACE" "$FREE"; do
		wait_for 60 "$KUBECTL" create namespace "$space" && "$KUBECTL" label namespace "$space" e2e=chained || return
		"$KUBECTL" -n "$space" create configmap e2e --from-file "$HERE/../lab/echo.py" --from-file "$HERE/../lab/backwards.py" \
			--from-file "$HERE/../chaos/load.py" || return
	done
	{
		for index in 1 2; do
			pod "client-$index" client "${NODE[$index]}" false python3 -c 'import signal; signal.pause()'
		done
		NAMESPACE=$FREE pod free-1 free "${NODE[1]}" false python3 -c 'import signal; signal.pause()'
	} >"$TMP/clients.yaml"
	"$KUBECTL" apply -f "$TMP/clients.yaml" || return
	for space in "$NAMESPACE" "$FREE"; do
		"$KUBECTL" -n "$space" wait --for=condition=Ready pod --all --timeout "${READY_SECONDS}s" || return
	done
}

chains_leave()
{
	in_functions delete sfc --all >/dev/null 2>&1 || true # first: functions that end would block its packets
	"$KUBECTL" delete namespace "$FREE" "$FUNCTIONS" --ignore-not-found --wait=false >/dev/null || true
}

# ---- what is seen

# answer_of NAMESPACE POD ADDRESS: the first word that echo.py prints
answer_of()
{
	"$KUBECTL" -n "$1" exec "$2" -- python3 /e2e/echo.py ask tcp "$3" --timeout 1 2>/dev/null | cut -d' ' -f1 || true
}

seen_as()
{
	[[ $1 == "$2" ]] && return
	echo "expected '$1', seen '$2'"
	return 1
}

# Connections to the port without a server: refused by its host, or timeout
all_see()
{
	seen_as "$1" "$(answer_of "$NAMESPACE" client-1 "$(denied)")" && seen_as "$1" "$(answer_of "$NAMESPACE" client-2 "$(denied)")"
}
free_is_free() { seen_as refused "$(answer_of "$FREE" free-1 "$(denied)")"; }
all_answered()
{
	kube exec client-1 -- python3 /e2e/echo.py ask tcp "$outside" --count 5 &&
		kube exec client-2 -- python3 /e2e/echo.py ask tcp "$outside" --count 5 &&
		kube exec client-1 -- python3 /e2e/echo.py ask udp "$outside" --count 5
}

# condition_is TYPE STATUS_AND_REASON [CHAIN]
condition_is()
{
	seen_as "$2" "$(in_functions get sfc "${3:-$CHAIN}" -o json |
		jq -r --arg type "$1" '.status.conditions[]? | select(.type == $type) | .status + " " + .reason')"
}
# listed FUNCTIONS READY: columns of `kubectl get sfc`
listed() { seen_as "$CHAIN $1 $2" "$(in_functions get sfc "$CHAIN" --no-headers | sed -E 's/ +[^ ]+ *$//; s/ +/ /g')"; }

# Pods of the firewall, also those that end
firewalls() { in_functions get pods -l networking.monokube.io/function=firewall -o json; }
firewalls_are()
{
	seen_as "$1 of $1 ready" "$(firewalls | jq -r '[.items[].status.conditions] |
		"\(map(select(any(.[]?; .type == "Ready" and .status == "True"))) | length) of \(length) ready"')"
}

# firewalls_counted WORD: packets of the rules with that word, by the firewalls' own counters
firewalls_counted()
{
	local pod
	for pod in $(firewalls | jq -r '.items[].metadata.name'); do
		in_functions exec "$pod" -- nft list table "$(family_of_firewall)" fw | sed -nE "/$1/s/^.*counter packets ([0-9]+) .*/\1/p"
	done | awk '{sum += $1} END {print sum + 0}'
}
# counts WORD COMMAND...: the command makes packets of such rules
counts()
{
	local word=$1 before after
	before=$(firewalls_counted "$word")
	"${@:2}" || return
	after=$(firewalls_counted "$word")
	echo "firewalls' rules $word: $((after - before)) packets"
	((after > before))
}

# ---- the story

# kubectl before 1.23 does not know x-kubernetes-validations, and refuses it; the server leaves it out.
apply_resource()
{
	local manifest=$HERE/../../manifests/chains.yaml
	"$KUBECTL" apply -f "$manifest" 2>"$TMP/apply" && return
	cat "$TMP/apply"
	grep -q 'unknown field "x-kubernetes-validations"' "$TMP/apply" && "$KUBECTL" apply --validate=false -f "$manifest"
}

# The server takes the resource, and refuses a wrong value by its schema.
resource_is_served()
{
	apply_resource || return
	"$KUBECTL" wait --for=condition=Established "crd/$CRD" --timeout 30s || return
	wait_for 60 "$KUBECTL" create namespace "$FUNCTIONS" || return
	wait_for 30 "$KUBECTL" get sfc --all-namespaces || return
	if example | sed 's|direction: Egress|direction: Sideways|' | only_chain | in_functions apply -f - 2>"$TMP/refused"; then
		echo "a chain with direction Sideways was taken"
		return 1
	fi
	cat "$TMP/refused"
	grep -q 'spec.traffic.direction: Unsupported value: "Sideways"' "$TMP/refused"
}
only_chain() { awk '/^apiVersion: networking.monokube.io/ {chain = 1} chain'; }

# A server before 1.25 has no rules of x-kubernetes-validations: there the agents say the same.
nonsense_is_said()
{
	if ! example | sed "s|podSelector: {}|service: web|; s|$CHAIN|nonsense|" | only_chain | in_functions apply -f - 2>"$TMP/refused"; then
		cat "$TMP/refused"
		grep -q 'needs direction, but beside service it is Ingress' "$TMP/refused"
		return
	fi
	wait_for 90 condition_is Accepted 'False Invalid' nonsense || return
	in_functions get sfc nonsense -o json | jq -er '.status.conditions[] | select(.type == "Accepted").message' || return
	in_functions delete sfc nonsense
}

without_consent()
{
	example >"$TMP/example.yaml"
	"$KUBECTL" apply -f "$TMP/example.yaml" || return
	in_functions rollout status deployment/firewall --timeout "${STEP_SECONDS}s" || return
	in_functions rollout status deployment/ids --timeout "${STEP_SECONDS}s" || return
	wait_for 30 condition_is Accepted 'False NoConsent' && all_see refused
}

consents()
{
	"$KUBECTL" label namespace "$NAMESPACE" "networking.monokube.io/chained-by=$FUNCTIONS" || return
	wait_for 30 condition_is Accepted 'True Valid' && wait_for 30 condition_is Ready 'True AllServing' || return
	wait_for 30 listed 'firewall 2/2, ids 1/1' AllServing && wait_for 30 all_see timeout && wait_for 30 all_answered
}

blocks()
{
	in_functions scale deployment/firewall --replicas 0 || return
	wait_for "$STEP_SECONDS" firewalls_are 0 && wait_for 30 condition_is Ready 'False Blocked' || return
	seen_as timeout "$(answer_of "$NAMESPACE" client-1 "$outside")" && free_is_free || return
	in_functions scale deployment/firewall --replicas 2 || return
	wait_for "$STEP_SECONDS" firewalls_are 2 && wait_for 30 condition_is Ready 'True AllServing' && wait_for 30 all_answered
}

# Without its second function, traffic goes on
skips()
{
	in_functions scale deployment/ids --replicas 0 || return
	wait_for "$STEP_SECONDS" condition_is Ready 'False Skipped' && wait_for 30 listed 'firewall 2/2, ids 0/0' Skipped || return
	wait_for "$STEP_SECONDS" all_answered || return
	in_functions scale deployment/ids --replicas 1 || return
	wait_for "$STEP_SECONDS" condition_is Ready 'True AllServing' && wait_for 30 all_answered
}

# Connections that last, from both nodes
load_begins()
{
	{
		pod load-1 load "${NODE[1]}" false python3 /e2e/load.py "$outside"
		pod load-2 load "${NODE[2]}" false python3 /e2e/load.py "$outside"
	} >"$TMP/load.yaml"
	kube apply -f "$TMP/load.yaml" || return
	wait_for "$READY_SECONDS" load_runs && counts established sleep 1
}
load_runs()
{
	local index
	for index in 1 2; do
		kube logs "load-$index" | grep -qx running || return
	done
}

# No TCP connection broke. Prints how many datagrams had no answer.
load_holds()
{
	local index lost
	sleep 3 # load.py knows a lost datagram after so long
	for index in 1 2; do
		kube logs "load-$index" >"$TMP/load-$index" || return
		seen_as running "$(grep -vE '^lost ' "$TMP/load-$index" | head -n 5)" || return
	done
	lost=$(cat "$TMP"/load-[12] | grep -c '^lost ') || true
	echo "no connection broke; $((lost - ${lost_before:-0})) datagrams without an answer"
	lost_before=$lost
}

scales()
{
	local number
	for number in 4 2; do
		in_functions scale deployment/firewall --replicas "$number" || return
		wait_for "$STEP_SECONDS" firewalls_are "$number" || return
		wait_for 30 listed "firewall $number/$number, ids 1/1" AllServing || return
	done
	all_see timeout && load_holds
}

rolls_out()
{
	in_functions rollout restart deployment/firewall || return
	in_functions rollout status deployment/firewall --timeout "${STEP_SECONDS}s" || return
	wait_for "$STEP_SECONDS" firewalls_are 2 && wait_for 30 all_see timeout && load_holds
}

chain_ends()
{
	in_functions delete sfc "$CHAIN" || return
	wait_for 30 all_see refused && all_answered && load_holds
}

load_ends()
{
	local index flows
	for index in 1 2; do
		kube exec "load-$index" -- python3 -c 'import os; os.kill(1, 15)' || return
		wait_for 30 ended "load-$index" || return
	done
	flows=$(cat "$TMP"/load-[12] | awk '{sum[$1] += $2} END {print sum["flows"] " flows, " sum["exchanges"] " exchanges, " sum["datagrams"] " datagrams"}')
	echo "$flows, lost $(cat "$TMP"/load-[12] | grep -c '^lost ' || true)"
	[[ $flows == "6 flows, "[1-9]*" exchanges, "[1-9]* ]]
}
ended() { kube logs "$1" >"$TMP/$1" && grep -q '^datagrams ' "$TMP/$1"; }

# ---- rows

step()
{
	local what=$1 verdict=PASS started=$SECONDS
	shift
	rows=$((rows + 1))
	"$@" >"$TMP/step" 2>&1 || verdict=FAIL
	printf '%-62s  %-4s  %4d s  %s\n' "$what" "$verdict" $((SECONDS - started)) "$([[ $verdict == FAIL ]] || tail -n 1 "$TMP/step")"
	[[ $verdict == PASS ]] && return
	failures=$((failures + 1))
	sed 's/^/      | /' "$TMP/step"
}

tell_chains()
{
	outside=${outsides%%,*}
	chains_up >"$TMP/up" 2>&1 || {
		cat "$TMP/up"
		die "the Pods of the chains do not run"
	}
	step "the server takes chains, and refuses a wrong value" resource_is_served
	step "a chain that makes no sense is named" nonsense_is_said
	step "without consent: no pod is chained" without_consent
	step "consent: both nodes' pods are chained" consents
	((failures == 0)) || die "$failures of $rows steps with chains failed; the rest needs them"
	step "a namespace without consent stays out" free_is_free
	step "the firewalls saw what they denied" counts "log prefix" all_see timeout
	step "no firewall is left: Blocked; new ones: again" blocks
	step "no second function is left: Skipped" skips
	step "load on both nodes, through the chain" load_begins
	step "  scale 2 -> 4 -> 2" scales
	step "  rollout of the firewall" rolls_out
	step "  the chain is deleted" chain_ends
	step "  what the load was" load_ends
	((failures == 0)) || die "$failures of $rows steps with chains failed"
	echo "all $rows steps with chains passed"
}
