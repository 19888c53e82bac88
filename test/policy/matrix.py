#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test/policy/matrix.py - systematic worlds with the expected verdicts, as JSON lines: README.md, The matrix."""
import itertools
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import reference  # noqa: E402
from worlds import FACTS, OUTSIDE, expected, node, other_mode, pod, thing  # noqa: E402

X = {"matchLabels": {"app": "x"}}
RED = {"matchLabels": {"team": "red"}}
SELECTORS = [{key: value for key, value in (("podSelector", pods), ("namespaceSelector", spaces)) if value is not None}
             for pods in (None, {}, X) for spaces in (None, {}, RED) if (pods, spaces) != (None, None)]
PEERS = SELECTORS + [{"ipBlock": {"cidr": "10.244.1.0/24"}}, {"ipBlock": {"cidr": "10.244.0.0/16", "except": ["10.244.1.4/30"]}}]
SIMPLE_PORTS = [{key: value for key, value in (("protocol", protocol), ("port", port)) if value is not None}
                for protocol in (None, "TCP", "UDP", "SCTP") for port in (None, 80, 81, "serve-80-tcp", "serve-81-udp", "serve-80-sctp")]
ODD_PORTS = [{"port": 79, "endPort": 81}, {"port": 7981}, {"port": "no-such-name"}]
PORT_PAIRS = [({"port": 80}, {"port": 81}), ({"port": 80}, {"protocol": "UDP", "port": 80}), ({"port": 80}, {"port": 80}),
              ({"protocol": "UDP"}, {"protocol": "SCTP"}), ({"port": "serve-80-tcp"}, {"protocol": "UDP", "port": 81}),
              ({"port": "serve-80-tcp"}, {"protocol": "UDP", "port": "serve-81-udp"}), ({"port": 79, "endPort": 80}, {"port": 81})]
DIRECTIONS = (("Ingress", "ingress", "from"), ("Egress", "egress", "to"))
LABEL_A = {"matchLabels": {"app": "x"}}


def matrix_objects():
    """Three namespaces with three pods each, as in Cyclonus: every pod serves 80 and 81 by three protocols."""
    found = [node(number, [4]) for number in (1, 2)]
    for index, namespace in enumerate("abc"):
        found.append(thing("Namespace", namespace, labels={"team": ("red", "blue", "green")[index]}))
        for place_, name in enumerate("xyz"):
            ports = [{"name": "serve-%d-%s" % (port, protocol.lower()), "containerPort": port, "protocol": protocol}
                     for port in (80, 81) for protocol in ("TCP", "UDP", "SCTP")]
            found.append(pod(namespace, name, 1 + (index + place_) % 2, 4 + 3 * index + place_, [4], {"app": name}, ports))
    return found


def one_rule(direction, peers=None, ports=None, name="p", pods=None, namespace="a"):
    """A policy of one direction with one rule. peers, ports: lists, or None for an absent one."""
    kind, key, member = next(entry for entry in DIRECTIONS if entry[0] == direction)
    rule = {**({member: peers} if peers is not None else {}), **({"ports": ports} if ports is not None else {})}
    return thing("NetworkPolicy", name, namespace, spec={"podSelector": LABEL_A if pods is None else pods, "policyTypes": [kind], key: [rule]})


def deny(direction, name="deny", pods=None):
    return thing("NetworkPolicy", name, "a", spec={"podSelector": {} if pods is None else pods, "policyTypes": [direction]})


def matrix_peers():
    for direction in ("Ingress", "Egress"):
        yield "none", [one_rule(direction, [])]
        for index, peer in enumerate(PEERS):
            yield str(index), [one_rule(direction, [peer])]
        for first, second in itertools.combinations(range(len(PEERS)), 2):
            yield "%d-%d" % (first, second), [one_rule(direction, [PEERS[first], PEERS[second]])]


def matrix_ports():
    for direction in ("Ingress", "Egress"):
        yield "none", [one_rule(direction, None, [])]
        for ports in [[port] for port in SIMPLE_PORTS + ODD_PORTS] + [list(pair) for pair in PORT_PAIRS]:
            yield "-".join(str(value) for port in ports for value in port.values()) or "any", [one_rule(direction, None, ports)]


def matrix_conflicts():
    """Policies that contradict each other: what one allows stays allowed."""
    inside, all_ = {"ipBlock": {"cidr": "10.244.0.0/16"}}, {"ipBlock": {"cidr": "0.0.0.0/0"}}
    holes = {"ipBlock": {"cidr": "10.244.0.0/16", "except": ["10.244.1.0/24"]}}
    for direction in ("Ingress", "Egress"):
        for name, first, second in (
                ("all", deny(direction), one_rule(direction, None)), ("all-by-pod", deny(direction, pods=X), one_rule(direction, [{"podSelector": {}}])),
                ("all-by-namespace", deny(direction), one_rule(direction, [{"namespaceSelector": {}}])),
                ("all-by-address", deny(direction), one_rule(direction, [all_])),
                ("except", one_rule(direction, [holes], name="holes"), one_rule(direction, [inside])),
                ("peer-and-except", one_rule(direction, [holes], name="holes"), one_rule(direction, [{"podSelector": {}}])),
                ("port", one_rule(direction, None, [{"port": 80}], "port"), one_rule(direction, None, [{"port": 81}])),
                ("peer-or-port", one_rule(direction, [{"namespaceSelector": RED}], name="peer"), one_rule(direction, None, [{"port": 80}]))):
            yield "%s-%s" % (direction, name), [first, second]


def matrix_targets():
    for name, selector_ in (("all", {}), ("x", X), ("in", {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]}),
                            ("not-in", {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}),
                            ("exists", {"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
                            ("no-pod", {"matchLabels": {"app": "none"}})):
        yield name, [one_rule("Ingress", [{"podSelector": {}}], pods=selector_)]


def matrix_rules():
    for direction in ("Ingress", "Egress"):
        yield "no-rules-" + direction, [deny(direction, pods=X)]
        both = one_rule(direction, [{"podSelector": X}], [{"port": 80}])
        both["spec"][direction.lower()] += one_rule(direction, [{"namespaceSelector": RED}], [{"protocol": "UDP"}])["spec"][direction.lower()]
        yield "two-rules-" + direction, [both]


def matrix_namespaces():
    yield "by-name", [one_rule("Ingress", [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "b"}}}])]
    yield "by-label", [one_rule("Ingress", [{"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["blue"]}]}}])]


def matrix_e2e():
    """What Kubernetes' own suite asks, by its subjects."""
    team = {"namespaceSelector": RED}
    yield "deny-ingress", [deny("Ingress")]
    yield "deny-egress", [deny("Egress")]
    yield "deny-all", [deny("Ingress"), deny("Egress", "deny-egress")]
    yield "allow-all", [deny("Ingress"), one_rule("Ingress", None, pods={})]
    yield "from-a-namespace", [one_rule("Ingress", [team], pods={})]
    yield "from-a-pod-or-a-namespace", [one_rule("Ingress", [team, {"podSelector": {"matchLabels": {"app": "y"}}}])]
    yield "from-a-pod-in-a-namespace", [one_rule("Ingress", [{**team, "podSelector": {"matchLabels": {"app": "y"}}}])]
    yield "from-expressions", [one_rule("Ingress", [{"podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["y"]}]}}])]
    yield "by-port", [one_rule("Ingress", [team], [{"port": 81}])]
    yield "two-policies-two-ports", [one_rule("Ingress", None, [{"port": 80}]), one_rule("Ingress", None, [{"port": 81}], "q")]
    yield "egress-by-named-port", [one_rule("Egress", None, [{"port": "serve-80-tcp"}])]
    yield "egress-to-an-address", [one_rule("Egress", [{"ipBlock": {"cidr": "10.244.1.4/32"}}])]
    yield "egress-except", [one_rule("Egress", [{"ipBlock": {"cidr": "10.244.1.0/24", "except": ["10.244.1.4/32"]}}])]


def matrix_actions():
    """A policy and one change."""
    allow, pod_x = one_rule("Ingress", [{"namespaceSelector": RED}]), pod("b", "x", 2, 7, [4], {"app": "other"})
    yield "create", [], [{"put": allow}]
    yield "update", [allow], [{"put": one_rule("Ingress", [{"namespaceSelector": {}}])}]
    yield "delete", [allow], [{"delete": ["NetworkPolicy", "a/p"]}]
    yield "namespace-label", [allow], [{"put": thing("Namespace", "b", labels={"team": "red"})}]
    yield "pod-label", [one_rule("Ingress", [{"podSelector": X, "namespaceSelector": {}}])], [{"put": pod_x}]
    yield "pod-gone", [allow], [{"delete": ["Pod", "b/x"]}, {"DEL": "uid-b-x"}]


def matrix_example():
    yield "documentation", [thing("NetworkPolicy", "p", "a", spec={
        "podSelector": X, "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [{"ipBlock": {"cidr": "10.244.0.0/16", "except": ["10.244.1.0/24"]}}, {"namespaceSelector": RED},
                              {"podSelector": {"matchLabels": {"app": "z"}}}], "ports": [{"protocol": "TCP", "port": 80}]}],
        "egress": [{"to": [{"ipBlock": {"cidr": "10.244.2.0/24"}}], "ports": [{"protocol": "TCP", "port": 81}]}]})]


CLUSTER_PEERS = [{"namespaces": {}}, {"namespaces": RED}, {"pods": {"namespaceSelector": {}, "podSelector": {}}},
                 {"pods": {"namespaceSelector": RED, "podSelector": X}}, {"moons": {}}]
EGRESS_PEERS = CLUSTER_PEERS + [{"networks": ["10.244.1.0/24"]}, {"networks": ["198.51.100.0/24"]}, {"nodes": {}},
                                {"nodes": {"matchLabels": {"zone": "east"}}}, {"domainNames": ["example.com"]}]


def matrix_tiers():
    """Tier, action and peer; behind it the contrary rule, and a NetworkPolicy in one namespace."""
    for tier, action, (direction, member, peers) in itertools.product(
            ("Admin", "Baseline"), ("Accept", "Deny", "Pass"), (("ingress", "from", CLUSTER_PEERS), ("egress", "to", EGRESS_PEERS))):
        for index, peer in enumerate(peers):
            contrary = {"action": "Accept" if action == "Deny" else "Deny", member: [{"namespaces": {}}]}
            spec = {"tier": tier, "priority": 5, "subject": {"namespaces": {}}, direction: [{"action": action, member: [peer]}, contrary]}
            yield "%s-%s-%s-%d" % (tier, action, direction, index), [
                thing("ClusterNetworkPolicy", "c", spec=spec),
                one_rule(direction.capitalize(), [{"podSelector": {}}], [{"port": 80}], pods={})]


def cluster_policy(direction, rules, tier="Admin", name="c", priority=5, subject=None):
    return thing("ClusterNetworkPolicy", name, spec={
        "tier": tier, "priority": priority, "subject": subject or {"namespaces": {}}, direction.lower(): rules})


def cluster_rule(direction, action, peer=None, protocols=None):
    member = next(entry[2] for entry in DIRECTIONS if entry[0] == direction)
    return {"action": action, member: [peer or {"namespaces": {}}], **({"protocols": protocols} if protocols else {})}


CLUSTER_PROTOCOLS = [[{"tcp": {"destinationPort": {"number": 80}}}], [{"udp": {"destinationPort": {"range": {"start": 80, "end": 81}}}}],
                     [{"sctp": {}}], [{"tcp": {}}], [{"destinationNamedPort": "serve-80-tcp"}], [{"destinationNamedPort": "serve-81-udp"}],
                     [{"sctp": {"destinationPort": {"number": 81}}}, {"udp": {}}]]


def matrix_protocols():
    """Tier, direction, action and protocols; behind it the contrary rule."""
    for tier, (direction, _, _), action in itertools.product(("Admin", "Baseline"), DIRECTIONS, ("Accept", "Deny")):
        for index, protocols in enumerate(CLUSTER_PROTOCOLS):
            contrary = cluster_rule(direction, "Accept" if action == "Deny" else "Deny")
            yield "%s-%s-%s-%d" % (tier, action, direction, index), [
                cluster_policy(direction, [cluster_rule(direction, action, None, protocols), contrary], tier)]


def layers(direction, admin, network, baseline):
    made = [cluster_policy(direction, [cluster_rule(direction, action, {"namespaces": RED})], tier, tier.lower())
            for tier, action in (("Admin", admin), ("Baseline", baseline)) if action]
    return made + ([one_rule(direction, None, pods={})] if network == "allow" else [deny(direction)] if network else [])


def matrix_layers():
    """What each tier says, or that it says nothing, of one namespace."""
    for direction, _, _ in DIRECTIONS:
        for said in itertools.product((None, "Accept", "Deny", "Pass"), (None, "allow", "deny"), (None, "Accept", "Deny")):
            if any(said):
                yield "-".join(map(str, (direction, *said))), layers(direction, *said)


def matrix_modes():
    """The same, with one of the policies audited."""
    for direction, _, _ in DIRECTIONS:
        for said in itertools.product((None, "Accept", "Deny"), (None, "allow", "deny"), (None, "Deny")):
            for index in range(len(layers(direction, *said))):
                made = layers(direction, *said)
                made[index] = other_mode(made[index])
                yield "-".join(map(str, (direction, *said, index))), made


def matrix_order():
    """Two policies that contradict each other: by priority, by name, and rules of one policy."""
    for direction, _, _ in DIRECTIONS:
        accept, other = (cluster_rule(direction, action, {"namespaces": RED}) for action in ("Accept", "Deny"))
        for name, first, second in (("priority", (1, "z"), (2, "a")), ("name", (5, "a"), (5, "b"))):
            for rules in ((accept, other), (other, accept)):
                yield "%s-%s-%s" % (direction, name, rules[0]["action"]), [
                    cluster_policy(direction, [rule], "Admin", policy, priority)
                    for rule, (priority, policy) in zip(rules, (first, second))]
        yield direction + "-rules", [cluster_policy(direction, [accept, other])]
        yield direction + "-rules-back", [cluster_policy(direction, [other, accept])]


def matrix_subjects():
    """Subjects, each with rules of one direction alone."""
    for direction, _, _ in DIRECTIONS:
        for index, subject in enumerate(({"namespaces": {}}, {"namespaces": RED}, {"pods": {"namespaceSelector": {}, "podSelector": X}},
                                         {"pods": {"namespaceSelector": RED, "podSelector": X}},
                                         {"pods": {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "none"}}}})):
            yield "%s-%d" % (direction, index), [cluster_policy(direction, [cluster_rule(direction, "Deny")], subject=subject)]


MATRIX = {"peers": (112, matrix_peers), "ports": (70, matrix_ports), "conflicts": (16, matrix_conflicts), "e2e": (13, matrix_e2e),
          "targets": (6, matrix_targets), "actions": (6, matrix_actions), "rules": (4, matrix_rules), "namespaces": (2, matrix_namespaces),
          "example": (1, matrix_example), "tiers": (90, matrix_tiers),
          "protocols": (56, matrix_protocols), "layers": (70, matrix_layers), "order": (12, matrix_order), "subjects": (10, matrix_subjects),
          "modes": (66, matrix_modes)}
CYCLONUS = ("peers", "ports", "conflicts", "e2e", "targets", "actions", "rules", "namespaces", "example")
PROBES = [(protocol, port) for protocol in ("TCP", "UDP", "SCTP") for port in (80, 81)]


def matrix_flows(world, group):
    """All pairs of pods, and each pod with the outside; for tiers also with nodes."""
    pods = [{"pod": box.uid} for box in world.boxes]
    pairs = list(itertools.product(pods, pods)) + [(one, {"address": OUTSIDE[4][0]}) for one in pods]
    pairs += [({"outside": OUTSIDE[4][0], "node": box.node}, {"pod": box.uid}) for box in world.boxes]
    if group == "tiers":
        pairs += [(one, {"node": "n1"}) for one in pods] + [({"node": "n2"}, one) for one in pods]
    probes = PROBES if group in ("ports", "protocols") else [("TCP", 80), ("UDP", 81)]
    return [{"source": source, "destination": target, "protocol": protocol, "port": port, "family": 4}
            for source, target in pairs for protocol, port in probes]


def matrix_worlds():
    """Every case is a world: its name, objects, and for actions the changes."""
    for group, (_, cases) in MATRIX.items():
        for number, (name, policies, *events) in enumerate(cases()):
            objects = matrix_objects() + policies
            world = reference.World(objects, **FACTS)
            yield "%s-%d-%s" % (group, number, name), objects, world, matrix_flows(world, group), events[0] if events else []


def matrix():
    """All flows of all cases, after changes once more."""
    for name, objects, world, asked, events in matrix_worlds():
        yield {"world": name, "families": [4], "facts": FACTS, "objects": objects}
        yield from (expected(world, flow) for flow in asked)
        for event in events:
            world.apply(event)
            yield {"change": event}
        if events:
            alive = {box.uid for box in world.boxes}
            yield from (expected(world, flow) for flow in asked if {end["pod"] for end in (
                flow["source"], flow["destination"]) if "pod" in end} <= alive)


def main():
    for line in matrix():
        print(json.dumps(line, separators=(",", ":")))


if __name__ == "__main__":
    main()
